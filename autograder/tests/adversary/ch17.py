"""Answers to chapter 17 as learners write them: wrong ones must lose points, right ones none."""
# ruff: noqa: E501  (one case a line: what is changed stands beside what it becomes)

from typing import Any

IMPORTS = "import math\nimport torch\nfrom attend_solutions.interpreted import tl, triton\n\n"

BASE = {
    "vector_add": """@triton.jit
def vector_add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = lane < n
    tl.store(out_ptr + lane, tl.load(x_ptr + lane, mask=inside) + tl.load(y_ptr + lane, mask=inside), mask=inside)

def vector_add(x: torch.Tensor, y: torch.Tensor, block: int = 16) -> torch.Tensor:
    out = torch.empty_like(x)
    n = x.numel()
    programs = triton.cdiv(n, block)  # n / block, rounded up
    vector_add_kernel[(programs,)](x, y, out, n, BLOCK=block)
    return out
""",
    "copy_strided": """@triton.jit
def copy_strided_kernel(
    x_ptr, out_ptr, rows, columns, row_stride, column_stride,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (r[:, None] < rows) & (c[None, :] < columns)
    tile = tl.load(x_ptr + r[:, None] * row_stride + c[None, :] * column_stride, mask=inside)
    tl.store(out_ptr + r[:, None] * columns + c[None, :], tile, mask=inside)

def copy_strided(x: torch.Tensor, tile_rows: int = 4, tile_columns: int = 8) -> torch.Tensor:
    rows, columns = x.shape
    out = torch.empty(rows, columns, dtype=x.dtype)
    grid = (triton.cdiv(rows, tile_rows), triton.cdiv(columns, tile_columns))
    tile = {"ROWS": tile_rows, "COLUMNS": tile_columns}
    copy_strided_kernel[grid](x, out, rows, columns, *x.stride(), **tile)
    return out
""",
    "fused_softmax": """@triton.jit
def fused_softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    z = tl.load(x_ptr + row * columns + lane, mask=lane < columns, other=-float("inf"))
    e = tl.exp(z - tl.max(z, axis=0))
    tl.store(out_ptr + row * columns + lane, e / tl.sum(e, axis=0), mask=lane < columns)

def fused_softmax(x: torch.Tensor) -> torch.Tensor:
    rows, columns = x.shape
    out = torch.empty_like(x)
    fused_softmax_kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
    return out
""",
    "padded_softmax": """@triton.jit
def padded_softmax_kernel(x_ptr, length_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, lane = tl.program_id(0), tl.arange(0, BLOCK)
    length = tl.load(length_ptr + row)
    z = tl.load(x_ptr + row * columns + lane, mask=lane < length, other=-float("inf"))
    e = tl.exp(z - tl.max(z, axis=0))
    tl.store(out_ptr + row * columns + lane, e / tl.sum(e, axis=0), mask=lane < columns)

def padded_softmax(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    rows, columns = x.shape
    out, size = torch.empty_like(x), triton.next_power_of_2(columns)
    padded_softmax_kernel[(rows,)](x, lengths, out, columns, BLOCK=size)
    return out
""",
    "long_softmax": """@triton.jit
def long_softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    m = -float("inf")
    l = 0.0
    for start in range(0, columns, BLOCK):
        z = tl.load(x_ptr + row * columns + start + lane, mask=start + lane < columns, other=-float("inf"))
        new = tl.maximum(m, tl.max(z, axis=0))
        l = l * tl.exp(m - new) + tl.sum(tl.exp(z - new), axis=0)
        m = new
    for start in range(0, columns, BLOCK):
        inside = start + lane < columns
        z = tl.load(x_ptr + row * columns + start + lane, mask=inside, other=-float("inf"))
        tl.store(out_ptr + row * columns + start + lane, tl.exp(z - m) / l, mask=inside)

def long_softmax(x: torch.Tensor, block: int = 16) -> torch.Tensor:
    rows, columns = x.shape
    out = torch.empty_like(x)
    long_softmax_kernel[(rows,)](x, out, columns, BLOCK=block)
    return out
""",
    "fused_layer_norm": """@triton.jit
def layer_norm_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, mean_ptr, rstd_ptr, columns, eps, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    inside = lane < columns
    x = tl.load(x_ptr + row * columns + lane, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(inside, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    w = tl.load(weight_ptr + lane, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(bias_ptr + lane, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * columns + lane, centred * rstd * w + b, mask=inside)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)

def fused_layer_norm(x, weight, bias, eps: float = 1e-5):
    rows, columns = x.shape
    out = torch.empty_like(x)
    mean = torch.empty(rows, dtype=torch.float32)
    rstd = torch.empty(rows, dtype=torch.float32)
    layer_norm_kernel[(rows,)](x, weight, bias, out, mean, rstd, columns, eps, BLOCK=triton.next_power_of_2(columns))
    return out, mean, rstd
""",
    "fused_layer_norm_backward": """@triton.jit
def layer_norm_backward_kernel(
    grad_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr, partial_ptr, rows, columns,
    PROGRAMS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    p = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    inside = lane < columns
    w = tl.load(weight_ptr + lane, mask=inside, other=0.0)
    dw = tl.zeros((BLOCK,), tl.float32)
    db = tl.zeros((BLOCK,), tl.float32)
    for row in range(p, rows, PROGRAMS):
        g = tl.load(grad_ptr + row * columns + lane, mask=inside, other=0.0)
        x = tl.load(x_ptr + row * columns + lane, mask=inside, other=0.0)
        rho = tl.load(rstd_ptr + row)
        h = tl.where(inside, (x - tl.load(mean_ptr + row)) * rho, 0.0)
        gw = g * w
        a = tl.sum(gw, axis=0) / columns
        b = tl.sum(gw * h, axis=0) / columns
        tl.store(dx_ptr + row * columns + lane, rho * (gw - a - h * b), mask=inside)
        dw += g * h
        db += g
    tl.store(partial_ptr + p * 2 * columns + lane, dw, mask=inside)
    tl.store(partial_ptr + (p * 2 + 1) * columns + lane, db, mask=inside)


@triton.jit
def sum_programs_kernel(partial_ptr, out_ptr, n, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for p in range(PROGRAMS):
        total += tl.load(partial_ptr + p * n + lane, mask=lane < n, other=0.0)
    tl.store(out_ptr + lane, total, mask=lane < n)


def fused_layer_norm_backward(grad, x, weight, mean, rstd, programs: int = 4):
    rows, columns = x.shape
    programs = min(programs, rows)
    dx = torch.empty_like(x)
    partial = torch.empty(programs, 2, columns)
    block = triton.next_power_of_2(columns)
    layer_norm_backward_kernel[(programs,)](grad, x, weight, mean, rstd, dx, partial, rows, columns, PROGRAMS=programs, BLOCK=block)
    sums = torch.empty(2, columns)
    n = 2 * columns
    sum_programs_kernel[(triton.cdiv(n, 16),)](partial, sums, n, PROGRAMS=programs, BLOCK=16)
    return dx, sums[0], sums[1]
""",
    "matmul": """@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, out_ptr, rows, columns, inner,
    BLOCK: tl.constexpr, STEP: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    across = tl.cdiv(columns, BLOCK)  # tiles beside each other
    group, within = tl.program_id(0) // (GROUP * across), tl.program_id(0) % (GROUP * across)
    height = tl.minimum(GROUP, tl.cdiv(rows, BLOCK) - group * GROUP)  # the last group's is less
    tile_row, tile_column = group * GROUP + within % height, within // height
    r = tile_row * BLOCK + tl.arange(0, BLOCK)
    c = tile_column * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, STEP)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, inner, STEP):
        kk = start + k
        a = tl.load(a_ptr + r[:, None] * inner + kk[None, :], mask=(r[:, None] < rows) & (kk[None, :] < inner), other=0.0)
        b = tl.load(b_ptr + kk[:, None] * columns + c[None, :], mask=(kk[:, None] < inner) & (c[None, :] < columns), other=0.0)
        total += tl.dot(a, b, input_precision="ieee")
    tl.store(out_ptr + r[:, None] * columns + c[None, :], total, mask=(r[:, None] < rows) & (c[None, :] < columns))


def matmul(a: torch.Tensor, b: torch.Tensor, block: int = 16, group: int = 2) -> torch.Tensor:
    rows, inner = a.shape
    columns = b.shape[1]
    out = torch.empty(rows, columns, dtype=a.dtype)
    tiles = triton.cdiv(rows, block) * triton.cdiv(columns, block)
    matmul_kernel[(tiles,)](a, b, out, rows, columns, inner, BLOCK=block, STEP=16, GROUP=group)
    return out
""",
    "block_for_budget": """def block_for_budget(n: int, budget: int) -> int:
    block = 16
    while True:
        tiles = -(-n // block)
        if 4 * n * n * (2 * tiles + 1) <= budget:
            return block
        if tiles <= 1:
            raise ValueError("no block moves as few bytes as that")
        block *= 2
""",
    "fused_cross_entropy": """@triton.jit
def cross_entropy_kernel(logits_ptr, target_ptr, loss_ptr, grad_ptr, words, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    target = tl.load(target_ptr + row)
    m = -float("inf")
    l = 0.0
    for start in range(0, words, BLOCK):
        z = tl.load(logits_ptr + row * words + start + lane, mask=start + lane < words, other=-float("inf"))
        new = tl.maximum(m, tl.max(z, axis=0))
        l = l * tl.exp(m - new) + tl.sum(tl.exp(z - new), axis=0)
        m = new
    lse = m + tl.log(l)
    tl.store(loss_ptr + row, lse - tl.load(logits_ptr + row * words + target))
    for start in range(0, words, BLOCK):
        at = start + lane
        z = tl.load(logits_ptr + row * words + at, mask=at < words, other=-float("inf"))
        tl.store(grad_ptr + row * words + at, tl.exp(z - lse) - tl.where(at == target, 1.0, 0.0), mask=at < words)


def fused_cross_entropy(logits, targets, block: int = 16):
    rows, words = logits.shape
    loss = torch.empty(rows, dtype=logits.dtype)
    grad = torch.empty_like(logits)
    cross_entropy_kernel[(rows,)](logits, targets, loss, grad, words, BLOCK=block)
    return loss, grad
""",
}
"""Right answers, which the cases change."""

CASES: list[tuple[str, str, str, str]] = []


def _add(name: str, kind: str, what: str, subs: Any, whole: str) -> None:
    code = whole or BASE[name]
    for old, new in subs:
        assert old in code, (name, what, old)
        code = code.replace(old, new)
    CASES.append((name, kind, what, IMPORTS + code))


def _wrong(name: str, what: str, *subs: tuple[str, str], whole: str = "") -> None:
    _add(name, "wrong", what, subs, whole)


def _right(name: str, what: str, *subs: tuple[str, str], whole: str = "") -> None:
    _add(name, "right", what, subs, whole)


# vector_add
N = "vector_add"
LD = "tl.load(x_ptr + lane, mask=inside) + tl.load(y_ptr + lane, mask=inside)"
_wrong(N, "no mask on the loads", (LD, "tl.load(x_ptr + lane) + tl.load(y_ptr + lane)"))
_wrong(N, "no mask on the store", (", mask=inside)\n\ndef", ")\n\ndef"))
_wrong(N, "every program takes block 0", ("tl.program_id(0) * BLOCK + ", ""))
_wrong(N, "program_id + arange, without * BLOCK", ("tl.program_id(0) * BLOCK", "tl.program_id(0)"))
_wrong(N, "mask lane <= n", ("lane < n", "lane <= n"))
_wrong(
    N,
    "mask by the lane within the block",
    ("inside = lane < n", "inside = tl.arange(0, BLOCK) < n"),
)
_wrong(
    N,
    "the sum is stored in x as well",
    (
        "    tl.store(out_ptr + lane, " + LD + ", mask=inside)",
        "    s = "
        + LD
        + "\n    tl.store(x_ptr + lane, s, mask=inside)\n    tl.store(out_ptr + lane, s, mask=inside)",
    ),
)
_wrong(
    N, "the load of y has no mask", ("tl.load(y_ptr + lane, mask=inside)", "tl.load(y_ptr + lane)")
)
_wrong(N, "16 for BLOCK in the offset", ("tl.program_id(0) * BLOCK", "tl.program_id(0) * 16"))
_wrong(N, "mask lane < max(n, BLOCK)", ("lane < n", "lane < tl.maximum(n, BLOCK)"))
_right(
    N,
    "pointers moved, mask by what is left",
    whole=BASE[N].replace(
        BASE[N][BASE[N].index("    lane =") : BASE[N].index("def vector_add(")],
        """    start = tl.program_id(0) * BLOCK
    i = tl.arange(0, BLOCK)
    m = i < n - start
    a = tl.load(x_ptr + start + i, m, 0.0)
    b = tl.load(y_ptr + start + i, m, 0.0)
    tl.store(out_ptr + start + i, a + b, m)

""",
    ),
)
_right(
    N,
    "blocks from the end",
    ("tl.program_id(0) * BLOCK", "(tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK"),
)
_right(
    N,
    "grid as a function of the block",
    (
        "vector_add_kernel[(programs,)]",
        "vector_add_kernel[lambda meta: (triton.cdiv(n, meta['BLOCK']),)]",
    ),
)
_right(
    N,
    "y + x, other=0, keyword arguments",
    (
        LD,
        "tl.load(pointer=y_ptr + lane, mask=lane < n, other=0.0) + tl.load(pointer=x_ptr + lane, mask=n > lane, other=0.0)",
    ),
)

# copy_strided
N = "copy_strided"
IN = "x_ptr + r[:, None] * row_stride + c[None, :] * column_stride"
OUT = "out_ptr + r[:, None] * columns + c[None, :]"
_wrong(N, "strides ignored", (IN, "x_ptr + r[:, None] * columns + c[None, :]"))
_wrong(N, "strides exchanged", (IN, "x_ptr + r[:, None] * column_stride + c[None, :] * row_stride"))
_wrong(
    N,
    "written with the view's strides",
    (OUT, "out_ptr + r[:, None] * row_stride + c[None, :] * column_stride"),
)
_wrong(
    N,
    "only the rows are masked",
    ("(r[:, None] < rows) & (c[None, :] < columns)", "(r[:, None] < rows) & (c[None, :] >= 0)"),
)
_wrong(
    N,
    "axes of the grid exchanged",
    ("tl.program_id(0) * ROWS", "tl.program_id(1) * ROWS"),
    ("tl.program_id(1) * COLUMNS", "tl.program_id(0) * COLUMNS"),
)
_wrong(
    N,
    "no [:, None]: two blocks of one axis added",
    (IN, "x_ptr + r * row_stride + c * column_stride"),
)
_wrong(
    N,
    "x.contiguous() first",
    ("    rows, columns = x.shape\n", "    x = x.contiguous()\n    rows, columns = x.shape\n"),
)
_wrong(
    N,
    "through float32 on the way",
    (", mask=inside)\n    tl.store", ", mask=inside).to(tl.float32)\n    tl.store"),
)
_wrong(
    N,
    "the result is float32, whatever x is",
    ("torch.empty(rows, columns, dtype=x.dtype)", "torch.empty(rows, columns)"),
)
_wrong(
    N,
    "a stride of 0 (expand) is taken for 1",
    ("r[:, None] * row_stride", "r[:, None] * tl.maximum(row_stride, 1)"),
)
BODY = BASE[N][BASE[N].index("    r = tl.program") : BASE[N].index("def copy_strided(")]
_right(
    N,
    "one axis of ROWS * COLUMNS lanes, // and %",
    (
        BODY,
        """    lane = tl.arange(0, ROWS * COLUMNS)
    r = tl.program_id(0) * ROWS + lane // COLUMNS
    c = tl.program_id(1) * COLUMNS + lane % COLUMNS
    ok = (r < rows) & (c < columns)
    tl.store(out_ptr + r * columns + c, tl.load(x_ptr + r * row_stride + c * column_stride, mask=ok), mask=ok)

""",
    ),
)
_right(
    N,
    "a loop over the tile's rows",
    (
        BODY,
        """    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    for i in range(ROWS):
        r = tl.program_id(0) * ROWS + i
        ok = (c < columns) & (r < rows)
        line = tl.load(x_ptr + r * row_stride + c * column_stride, mask=ok)
        tl.store(out_ptr + r * columns + c, line, mask=ok)

""",
    ),
)
_right(
    N,
    "the tile transposed, 64-bit offsets",
    (
        BODY,
        """    r = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[None, :]
    c = (tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)).to(tl.int64)[:, None]
    ok = (c < columns) & (r < rows)
    tl.store(out_ptr + (r * columns + c), tl.load(x_ptr + (r * row_stride + c * column_stride), mask=ok, other=0), mask=ok)

""",
    ),
)
_right(
    N,
    "expand_dims, pointers moved first",
    (
        BODY,
        """    top, left = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    r, c = tl.expand_dims(tl.arange(0, ROWS), 1), tl.expand_dims(tl.arange(0, COLUMNS), 0)
    x_ptr += top * row_stride + left * column_stride
    out_ptr += top * columns + left
    ok = (r < rows - top) & (c < columns - left)
    tl.store(out_ptr + r * columns + c, tl.load(x_ptr + r * row_stride + c * column_stride, mask=ok), mask=ok)

""",
    ),
)

# fused_softmax
N = "fused_softmax"
_wrong(N, "no maximum", ("tl.exp(z - tl.max(z, axis=0))", "tl.exp(z)"))
_wrong(N, "other=0.0", ('other=-float("inf")', "other=0.0"))
_wrong(N, "no other", (', other=-float("inf")', ""))
_wrong(N, "not divided by the sum", ("e / tl.sum(e, axis=0)", "e"))
_wrong(
    N,
    "store without a mask",
    ("e / tl.sum(e, axis=0), mask=lane < columns)", "e / tl.sum(e, axis=0))"),
)
_wrong(N, "rows BLOCK apart", ("row * columns", "row * BLOCK"))
_wrong(
    N,
    "the row is loaded for the maximum and again",
    (
        "    z = tl.load(x_ptr",
        '    m = tl.max(tl.load(x_ptr + row * columns + lane, mask=lane < columns, other=-float("inf")), axis=0)\n    z = tl.load(x_ptr',
    ),
    ("tl.exp(z - tl.max(z, axis=0))", "tl.exp(z - m)"),
)
_wrong(N, "other=-100", ('other=-float("inf")', "other=-100.0"))
_wrong(
    N, "the maximum is at least 0", ("tl.max(z, axis=0))", "tl.maximum(tl.max(z, axis=0), 0.0))")
)
_wrong(N, "written over x", ("out = torch.empty_like(x)", "out = x"))
_right(
    N,
    "powers of two",
    ("tl.exp(z - tl.max(z, axis=0))", "tl.exp2((z - tl.max(z, axis=0)) * 1.4426950408889634)"),
)
_right(
    N,
    "other=0, then where, twice",
    ('other=-float("inf")', "other=0.0"),
    (
        "    e = tl.exp(z - tl.max(z, axis=0))",
        '    top = tl.max(tl.where(lane < columns, z, -float("inf")), axis=0)\n    e = tl.where(lane < columns, tl.exp(tl.minimum(z - top, 0.0)), 0.0)',
    ),
)
_right(
    N,
    "minus the logarithm of the sum",
    ("    e = tl.exp(z - tl.max(z, axis=0))", "    z -= tl.max(z, axis=0)\n    e = tl.exp(z)"),
    ("e / tl.sum(e, axis=0)", "tl.exp(z - tl.log(tl.sum(e, axis=0)))"),
)
_right(
    N,
    "times one over the sum; a block of one axis more",
    (
        "    z = tl.load(x_ptr + row * columns + lane, mask=lane < columns",
        "    at = row * columns + lane\n    z = tl.load(x_ptr + at, mask=lane < columns",
    ),
    (
        "e / tl.sum(e, axis=0)",
        "(e[None, :] * (1.0 / tl.sum(e[None, :], axis=1))[:, None]).reshape((BLOCK,))",
    ),
)

# padded_softmax
N = "padded_softmax"
LOAD = 'mask=lane < length, other=-float("inf"))'
_wrong(
    N,
    "the colleague's kernel as it was",
    (LOAD, 'mask=lane < length, other=0.0)\n    z = tl.where(lane < columns, z, -float("inf"))'),
)
_wrong(
    N,
    "padding never written",
    ("tl.sum(e, axis=0), mask=lane < columns)", "tl.sum(e, axis=0), mask=lane < length)"),
)
_wrong(N, "one token too many", ("mask=lane < length", "mask=(lane <= length) & (lane < columns)"))
_wrong(N, "lengths not used", ("mask=lane < length", "mask=lane < columns"))
_wrong(N, "the first row's length for all", ("length_ptr + row", "length_ptr"))
_wrong(
    N,
    "padding set to 0 after the sum",
    (LOAD, 'mask=lane < length, other=0.0)\n    z = tl.where(lane < columns, z, -float("inf"))'),
    ("e / tl.sum(e, axis=0)", "tl.where(lane < length, e / tl.sum(e, axis=0), 0.0)"),
)
_wrong(N, "other=-100", ('other=-float("inf")', "other=-100.0"))
_wrong(
    N,
    "padding's 0 takes part in the maximum, not in the sum",
    (LOAD, "mask=lane < length, other=0.0)"),
    (
        "    e = tl.exp(z - tl.max(z, axis=0))",
        "    e = tl.where(lane < length, tl.exp(z - tl.max(z, axis=0)), 0.0)",
    ),
)
_wrong(
    N,
    "lengths counted down, <= in the kernel",
    ("    rows, columns = x.shape\n", "    rows, columns = x.shape\n    lengths -= 1\n"),
    ("lane < length", "lane <= length"),
)
_wrong(
    N,
    "padding of x overwritten with -inf",
    (
        "    rows, columns = x.shape\n",
        '    rows, columns = x.shape\n    x[torch.arange(columns)[None, :] >= lengths[:, None]] = -float("inf")\n',
    ),
)
_right(
    N,
    "other=0, then where with the length",
    (LOAD, 'mask=lane < length, other=0.0)\n    z = tl.where(lane < length, z, -float("inf"))'),
)
_right(
    N,
    "powers of two",
    ("tl.exp(z - tl.max(z, axis=0))", "tl.exp2((z - tl.max(z, axis=0)) * 1.4426950408889634)"),
)
_right(
    N,
    "terms of the sum chosen by where",
    (
        "    e = tl.exp(z - tl.max(z, axis=0))",
        "    e = tl.where(lane < length, tl.exp(z - tl.max(z, axis=0)), 0.0)",
    ),
)
_right(
    N,
    "two stores: weights, then zeros",
    (
        "    tl.store(out_ptr + row * columns + lane, e / tl.sum(e, axis=0), mask=lane < columns)",
        "    at = out_ptr + row * columns + lane\n    tl.store(at, e / tl.sum(e, axis=0), mask=lane < length)\n    tl.store(at, tl.zeros((BLOCK,), tl.float32), mask=(length <= lane) & (lane < columns))",
    ),
)

# long_softmax
N = "long_softmax"
_wrong(N, "the sum is not rescaled", ("l * tl.exp(m - new) + ", "l + "))
_wrong(N, "rescaled the wrong way round", ("tl.exp(m - new)", "tl.exp(new - m)"))
_wrong(
    N,
    "other=0.0 in the first reading",
    ('mask=start + lane < columns, other=-float("inf")', "mask=start + lane < columns, other=0.0"),
)
_wrong(
    N,
    "the maximum of the last block only",
    ("new = tl.maximum(m, tl.max(z, axis=0))", "new = tl.max(z, axis=0)"),
)
_wrong(N, "store without a mask", ("tl.exp(z - m) / l, mask=inside)", "tl.exp(z - m) / l)"))
_wrong(
    N,
    "every block its own softmax",
    (
        "tl.exp(z - m) / l",
        "tl.exp(z - tl.max(z, axis=0)) / tl.sum(tl.exp(z - tl.max(z, axis=0)), axis=0)",
    ),
)
LOOP1 = BASE[N][
    BASE[N].index("    for start") : BASE[N].index(
        "    for start", BASE[N].index("    for start") + 9
    )
]
_wrong(
    N,
    "three readings",
    (
        LOOP1,
        """    for start in range(0, columns, BLOCK):
        z = tl.load(x_ptr + row * columns + start + lane, mask=start + lane < columns, other=-float("inf"))
        m = tl.maximum(m, tl.max(z, axis=0))
    for start in range(0, columns, BLOCK):
        z = tl.load(x_ptr + row * columns + start + lane, mask=start + lane < columns, other=-float("inf"))
        l += tl.sum(tl.exp(z - m), axis=0)
""",
    ),
)
_wrong(N, "the running maximum begins at 0", ('    m = -float("inf")\n', "    m = 0.0\n"))
_wrong(N, "written over x", ("out = torch.empty_like(x)", "out = x"))
_wrong(
    N,
    "no mask on the first block",
    (
        'mask=start + lane < columns, other=-float("inf")',
        'mask=(start + lane < columns) | (start == 0), other=-float("inf")',
    ),
)
LOOP2 = BASE[N][
    BASE[N].index("    for start", BASE[N].index("    for start") + 9) : BASE[N].index(
        "def long_softmax("
    )
]
_right(
    N,
    "while loops, pointers that move",
    (
        LOOP1,
        """    start = 0
    while start < columns:
        z = tl.load(x_ptr + row * columns + start + lane, mask=lane < columns - start, other=-float("inf"))
        old = m
        m = tl.maximum(tl.max(z, axis=0), m)
        l *= tl.exp(old - m)
        l += tl.sum(tl.exp(z - m), axis=0)
        start += BLOCK
""",
    ),
)
_right(
    N,
    "powers of two",
    ("tl.exp(m - new)", "tl.exp2((m - new) * 1.4426950408889634)"),
    ("tl.exp(z - new)", "tl.exp2((z - new) * 1.4426950408889634)"),
)
_right(
    N,
    "a maximum and a sum in each lane, joined at the end",
    (
        '    m = -float("inf")\n    l = 0.0\n',
        '    m = tl.full((BLOCK,), -float("inf"), tl.float32)\n    l = tl.zeros((BLOCK,), tl.float32)\n',
    ),
    (
        "        new = tl.maximum(m, tl.max(z, axis=0))\n        l = l * tl.exp(m - new) + tl.sum(tl.exp(z - new), axis=0)\n        m = new\n    for",
        """        new = tl.maximum(m, z)
        l = tl.where(l > 0, l * tl.exp(m - new), 0.0) + tl.where(start + lane < columns, tl.exp(z - new), 0.0)
        m = new
    top = tl.max(m, axis=0)
    total = tl.sum(tl.where(l > 0, l * tl.exp(m - top), 0.0), axis=0)
    for""",
    ),
    ("tl.exp(z - m) / l", "tl.exp(z - top) / total"),
)
_right(
    N,
    "blocks counted with cdiv, last block first",
    (
        "for start in range(0, columns, BLOCK):\n        z",
        "for i in range(tl.cdiv(columns, BLOCK)):\n        start = (tl.cdiv(columns, BLOCK) - 1 - i) * BLOCK\n        z",
    ),
)

# fused_layer_norm
N = "fused_layer_norm"
_wrong(
    N, "padding's lanes take part in the squares", ("tl.where(inside, x - mean, 0.0)", "x - mean")
)
_wrong(N, "divided by BLOCK", ("/ columns", "/ BLOCK"))
_wrong(
    N,
    "squares divided by columns - 1",
    ("centred * centred, axis=0) / columns", "centred * centred, axis=0) / (columns - 1)"),
)
_wrong(
    N,
    "eps outside of the root",
    (
        "1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)",
        "1 / (tl.sqrt(tl.sum(centred * centred, axis=0) / columns) + eps)",
    ),
)
_wrong(
    N,
    "mean of squares minus square of the mean",
    (
        "tl.sum(centred * centred, axis=0) / columns + eps",
        "tl.sum(x * x, axis=0) / columns - mean * mean + eps",
    ),
)
_wrong(N, "bias before weight", ("centred * rstd * w + b", "(centred * rstd + b) * w"))
_wrong(
    N,
    "no conversion: sums in the type of x",
    ("mask=inside, other=0.0).to(tl.float32)\n    mean", "mask=inside, other=0.0)\n    mean"),
)
_wrong(
    N,
    "the mean rounded to x's type before it is subtracted",
    (
        "centred = tl.where(inside, x - mean, 0.0)",
        "centred = tl.where(inside, x - mean.to(x_ptr.dtype.element_ty).to(tl.float32), 0.0)",
    ),
)
_wrong(
    N,
    "the sum of squares in x's type",
    (
        "tl.sum(centred * centred, axis=0) /",
        "tl.sum((centred * centred).to(x_ptr.dtype.element_ty), axis=0).to(tl.float32) /",
    ),
)
_wrong(
    N,
    "mean and rstd in the type of x",
    ("torch.empty(rows, dtype=torch.float32)", "torch.empty(rows, dtype=x.dtype)"),
)
_right(
    N,
    "rsqrt",
    (
        "1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)",
        "tl.rsqrt(eps + tl.sum(centred * centred, axis=0) / columns)",
    ),
)
_right(
    N,
    "masked by a product, 1/C first",
    ("tl.where(inside, x - mean, 0.0)", "(x - mean) * inside.to(tl.float32)"),
    (
        "    mean = tl.sum(x, axis=0) / columns",
        "    share = 1.0 / columns\n    mean = tl.sum(x * share, axis=0)",
    ),
)
_right(
    N,
    "other warps, memory by x.new_empty",
    (
        "BLOCK=triton.next_power_of_2(columns))",
        "BLOCK=triton.next_power_of_2(columns), num_warps=2)",
    ),
    ("torch.empty_like(x)", "x.new_empty(x.shape)"),
    (
        "torch.empty(rows, dtype=torch.float32)",
        "torch.empty((rows,), dtype=torch.float32, device=x.device)",
    ),
)
_right(
    N,
    "a block twice as long, y from x * scale + shift as fma of the centred",
    ("triton.next_power_of_2(columns)", "2 * triton.next_power_of_2(columns)"),
    ("centred * rstd * w + b", "tl.fma(centred, rstd * w, b)"),
)

# fused_layer_norm_backward
N = "fused_layer_norm_backward"
STO = "    tl.store(partial_ptr + p * 2 * columns + lane, dw, mask=inside)\n    tl.store(partial_ptr + (p * 2 + 1) * columns + lane, db, mask=inside)\n"
_wrong(
    N,
    "atomic additions into the first row",
    (
        STO,
        "    tl.atomic_add(partial_ptr + lane, dw, mask=inside)\n    tl.atomic_add(partial_ptr + columns + lane, db, mask=inside)\n",
    ),
    ("torch.empty(programs, 2, columns)", "torch.zeros(programs, 2, columns)"),
)
_wrong(
    N,
    "all programs write one place",
    ("partial_ptr + p * 2 * columns + lane", "partial_ptr + lane"),
    ("partial_ptr + (p * 2 + 1) * columns + lane", "partial_ptr + columns + lane"),
)
_wrong(N, "dx without the mean of gw", ("rho * (gw - a - h * b)", "rho * (gw - h * b)"))
_wrong(N, "dx without rho", ("rho * (gw - a - h * b)", "gw - a - h * b"))
_wrong(N, "dw with the weight in it", ("dw += g * h", "dw += gw * h"))
_wrong(
    N,
    "rows // programs rows each, the rest dropped",
    (
        "for row in range(p, rows, PROGRAMS)",
        "for row in range(p * (rows // PROGRAMS), (p + 1) * (rows // PROGRAMS))",
    ),
)
_wrong(
    N,
    "a program without rows writes no sums",
    ("    programs = min(programs, rows)\n", ""),
    (
        STO,
        "    tl.store(partial_ptr + p * 2 * columns + lane, dw, mask=inside & (p < rows))\n    tl.store(partial_ptr + (p * 2 + 1) * columns + lane, db, mask=inside & (p < rows))\n",
    ),
)
_wrong(N, "dx written over grad", ("dx = torch.empty_like(x)", "dx = grad"))
_wrong(
    N,
    "rstd made anew from x, with eps 1e-5",
    (
        "        rho = tl.load(rstd_ptr + row)\n",
        "        d = tl.where(inside, x - tl.load(mean_ptr + row), 0.0)\n        rho = 1 / tl.sqrt(tl.sum(d * d, axis=0) / columns + 1e-5)\n",
    ),
)
_wrong(
    N,
    "torch adds up the partial sums",
    (
        "    sums = torch.empty(2, columns)\n    n = 2 * columns\n    sum_programs_kernel[(triton.cdiv(n, 16),)](partial, sums, n, PROGRAMS=programs, BLOCK=16)\n",
        "    sums = partial.sum(0)\n",
    ),
)
_right(
    N,
    "as many programs as asked for, some without rows",
    ("    programs = min(programs, rows)\n", ""),
)
_right(
    N,
    "partial as (2, programs, C), second kernel launched twice",
    ("partial_ptr + p * 2 * columns + lane", "partial_ptr + p * columns + lane"),
    ("partial_ptr + (p * 2 + 1) * columns + lane", "partial_ptr + (PROGRAMS + p) * columns + lane"),
    ("torch.empty(programs, 2, columns)", "torch.empty(2, programs, columns)"),
    (
        "    sums = torch.empty(2, columns)\n    n = 2 * columns\n    sum_programs_kernel[(triton.cdiv(n, 16),)](partial, sums, n, PROGRAMS=programs, BLOCK=16)\n",
        "    sums = torch.empty_like(weight), torch.empty_like(weight)\n    for half, total in zip(partial, sums):\n        sum_programs_kernel[(triton.cdiv(columns, block),)](half, total, columns, PROGRAMS=programs, BLOCK=block)\n",
    ),
)
_right(
    N,
    "h not masked, for gw is 0 there; static_range",
    (
        "tl.where(inside, (x - tl.load(mean_ptr + row)) * rho, 0.0)",
        "(x - tl.load(mean_ptr + row)) * rho",
    ),
    ("for p in range(PROGRAMS)", "for p in tl.static_range(PROGRAMS)"),
)
_right(
    N,
    "while over the rows, dx multiplied out",
    ("    for row in range(p, rows, PROGRAMS):\n", "    row = p\n    while row < rows:\n"),
    ("rho * (gw - a - h * b)", "gw * rho - (a * rho + h * (b * rho))"),
    ("        db += g\n", "        db += g\n        row += PROGRAMS\n"),
)

# matmul
N = "matmul"
_wrong(N, "the last step only", ("total += tl.dot", "total = tl.dot"))
_wrong(N, "loads without other", (", other=0.0)", ")"))
_wrong(
    N,
    "b's inner places not masked",
    (
        "(kk[:, None] < inner) & (c[None, :] < columns)",
        "(kk[:, None] >= 0) & (c[None, :] < columns)",
    ),
)
_wrong(
    N,
    "tile's row and column exchanged",
    ("r = tile_row *", "r = tile_column *"),
    ("c = tile_column *", "c = tile_row *"),
)
_wrong(
    N,
    "store without a mask",
    (", total, mask=(r[:, None] < rows) & (c[None, :] < columns))", ", total)"),
)
_wrong(
    N,
    "b read as if it were (C, K)",
    ("b_ptr + kk[:, None] * columns + c[None, :]", "b_ptr + kk[:, None] + c[None, :] * inner"),
)
_wrong(
    N,
    "the sum in the type of a",
    (
        "total = tl.zeros((BLOCK, BLOCK), tl.float32)",
        "total = tl.zeros((BLOCK, BLOCK), a_ptr.dtype.element_ty)",
    ),
    (
        'total += tl.dot(a, b, input_precision="ieee")',
        'total = (total + tl.dot(a, b, input_precision="ieee")).to(a_ptr.dtype.element_ty)',
    ),
)
_wrong(
    N,
    "rows of a not masked",
    (
        "mask=(r[:, None] < rows) & (kk[None, :] < inner)",
        "mask=(r[:, None] >= 0) & (kk[None, :] < inner)",
    ),
)
_wrong(
    N,
    "the tile is loaded and stored at every step",
    (
        "    for start",
        "    at = out_ptr + r[:, None] * columns + c[None, :]\n    own = (r[:, None] < rows) & (c[None, :] < columns)\n    tl.store(at, total, mask=own)\n    for start",
    ),
    (
        '        total += tl.dot(a, b, input_precision="ieee")\n',
        '        total = tl.load(at, mask=own, other=0.0) + tl.dot(a, b, input_precision="ieee")\n        tl.store(at, total, mask=own)\n',
    ),
    (
        "    tl.store(out_ptr + r[:, None] * columns + c[None, :], total, mask=(r[:, None] < rows) & (c[None, :] < columns))\n",
        "",
    ),
)
_wrong(
    N,
    "a @ b for matrices smaller than a tile",
    (
        "    rows, inner = a.shape\n",
        "    if min(*a.shape, *b.shape) < block:\n        return a @ b\n    rows, inner = a.shape\n",
    ),
)
_wrong(  # Triton makes a dot of it, in tf32
    N,
    "products and sums, without tl.dot",
    (
        'tl.dot(a, b, input_precision="ieee")',
        "tl.sum(a.to(tl.float32)[:, :, None] * b.to(tl.float32)[None, :, :], axis=1)",
    ),
)
_right(
    N,
    "the sum handed to tl.dot, pointers that move",
    (
        'total += tl.dot(a, b, input_precision="ieee")',
        'total = tl.dot(a, b, total, input_precision="ieee")',
    ),
)
_right(
    N,
    "steps as long as the tile, cdiv",
    ("STEP=16", "STEP=block"),
    (
        "    for start in range(0, inner, STEP):\n",
        "    for i in range(tl.cdiv(inner, STEP)):\n        start = i * STEP\n",
    ),
)
_right(
    N,
    "steps of 32, result converted by hand, transposed tile",
    ("STEP=16", "STEP=32"),
    ("total += tl.dot(a, b, ", "total += tl.dot(tl.trans(b), tl.trans(a), "),
    ("c[None, :], total, mask", "c[None, :], tl.trans(total).to(out_ptr.dtype.element_ty), mask"),
)

# block_for_budget
N = "block_for_budget"
_wrong(N, "tiles rounded down", ("-(-n // block)", "max(n // block, 1)"))
_wrong(N, "two bytes a number", ("4 * n * n", "2 * n * n"))
_wrong(N, "stores forgotten", ("(2 * tiles + 1)", "2 * tiles"))
_wrong(N, "less than the budget, not at most", ("<= budget", "< budget"))
_wrong(
    N,
    "the largest useful block where none keeps to it",
    ('raise ValueError("no block moves as few bytes as that")', "return block"),
)
_wrong(
    N,
    "the largest block, not the smallest",
    whole="""def block_for_budget(n: int, budget: int) -> int:
    block = 16
    while block < n:
        block *= 2
    if 4 * n * n * 3 > budget:
        raise ValueError("impossible")
    return block
""",
)
_wrong(N, "no block beyond 128", ("if tiles <= 1:", "if tiles <= 1 or block == 128:"))
_wrong(
    N,
    "masked lanes counted",
    ("4 * n * n * (2 * tiles + 1)", "4 * (2 * tiles * tiles * tiles * block * block + n * n)"),
)
_wrong(
    N,
    "no block larger than n",
    whole="""def block_for_budget(n: int, budget: int) -> int:
    block = 16
    while block <= n:
        tiles = (n + block - 1) // block
        if 4 * n * n * (2 * tiles + 1) <= budget:
            return block
        block *= 2
    raise ValueError("impossible")
""",
)
_wrong(
    N,
    "an AssertionError",
    (
        '        if tiles <= 1:\n            raise ValueError("no block moves as few bytes as that")\n',
        "        assert tiles > 1, 'no block moves as few bytes as that'\n",
    ),
)
_right(
    N,
    "solved for the number of tiles",
    whole="""def block_for_budget(n: int, budget: int) -> int:
    allowed = (budget // (4 * n * n) - 1) // 2  # tiles in a row
    if allowed < 1:
        raise ValueError(f"{budget} bytes are too few")
    block = 16
    while triton.cdiv(n, block) > allowed:
        block <<= 1
    return block
""",
)
_right(
    N,
    "recursion with a default argument",
    whole="""def block_for_budget(n, budget, block=16):
    tiles = math.ceil(n / block)
    if (n * n * tiles + n * n * tiles + n * n) * 4 <= budget:
        return block
    if tiles == 1:
        raise ValueError
    return block_for_budget(n, budget, 2 * block)
""",
)
_right(
    N,
    "next() over powers",
    whole="""def block_for_budget(n, budget):
    powers = [2**p for p in range(4, 64)]
    found = next((b for b in powers if 4 * n * n * (1 + 2 * -(-n // b)) <= budget), None)
    if found is None:
        raise ValueError("impossible")
    return found
""",
)
_right(
    N,
    "tile by tile, ragged ones cut",
    whole="""def bytes_moved(n, block):
    edges = [min(block, n - at) for at in range(0, n, block)]
    total = 0
    for high in edges:
        for wide in edges:
            total += sum(high * k + k * wide for k in edges) + high * wide
    return 4 * total


def block_for_budget(n, budget):
    block = 16
    while bytes_moved(n, block) > budget:
        if block >= n:
            raise ValueError("impossible")
        block *= 2
    return block
""",
)

# fused_cross_entropy
N = "fused_cross_entropy"
_wrong(N, "gradient without the -1", (" - tl.where(at == target, 1.0, 0.0)", ""))
_wrong(
    N,
    "the loss with the other sign",
    (
        "lse - tl.load(logits_ptr + row * words + target)",
        "tl.load(logits_ptr + row * words + target) - lse",
    ),
)
_wrong(
    N,
    "no maximum",
    ("new = tl.maximum(m, tl.max(z, axis=0))", "new = 0.0"),
    ('    m = -float("inf")\n', "    m = 0.0\n"),
)
_wrong(N, "other=0.0", ('other=-float("inf")', "other=0.0"))
_wrong(
    N,
    "gradient of the mean over the rows",
    ("torch.empty_like(logits)\n", "torch.empty_like(logits)\n"),
    ("    return loss, grad", "    grad /= rows\n    return loss, grad"),
)
_wrong(N, "target looked for by lane in each block", ("at == target", "lane == target"))
_wrong(N, "the running maximum begins at 0", ('    m = -float("inf")\n', "    m = 0.0\n"))
_wrong(
    N,
    "loss as -log of the target's weight",
    (
        "lse - tl.load(logits_ptr + row * words + target)",
        "-tl.log(tl.exp(tl.load(logits_ptr + row * words + target) - lse))",
    ),
)
_wrong(
    N, "the gradient written over the logits", ("grad = torch.empty_like(logits)", "grad = logits")
)
_wrong(
    N,
    "three readings of the logits",
    (
        '    for start in range(0, words, BLOCK):\n        z = tl.load(logits_ptr + row * words + start + lane, mask=start + lane < words, other=-float("inf"))\n        new = tl.maximum(m, tl.max(z, axis=0))\n        l = l * tl.exp(m - new) + tl.sum(tl.exp(z - new), axis=0)\n        m = new\n',
        """    for start in range(0, words, BLOCK):
        m = tl.maximum(m, tl.max(tl.load(logits_ptr + row * words + start + lane, mask=start + lane < words, other=-float("inf")), axis=0))
    for start in range(0, words, BLOCK):
        l += tl.sum(tl.exp(tl.load(logits_ptr + row * words + start + lane, mask=start + lane < words, other=-float("inf")) - m), axis=0)
""",
    ),
)
_right(
    N,
    "the target's logit picked up in the loop",
    ("    l = 0.0\n", "    l = 0.0\n    hit = 0.0\n"),
    (
        "        m = new\n",
        "        m = new\n        hit += tl.sum(tl.where(start + lane == target, z, 0.0), axis=0)\n",
    ),
    ("lse - tl.load(logits_ptr + row * words + target)", "lse - hit"),
)
_right(
    N,
    "powers of two",
    ("tl.exp(m - new)", "tl.exp2((m - new) * 1.4426950408889634)"),
    ("tl.exp(z - new)", "tl.exp2((z - new) * 1.4426950408889634)"),
    ("tl.log(l)", "tl.log2(l) * 0.6931471805599453"),
)
_right(
    N,
    "weights by division, where(p - 1, p), loss in two parts",
    (
        "tl.exp(z - lse) - tl.where(at == target, 1.0, 0.0)",
        "tl.where(at == target, tl.exp(z - m) / l - 1.0, tl.exp(z - m) / l)",
    ),
    (
        "lse - tl.load(logits_ptr + row * words + target)",
        "tl.log(l) + (m - tl.load(logits_ptr + row * words + target))",
    ),
)
_right(
    N,
    "gradient first, loss after it",
    ("    tl.store(loss_ptr + row, lse - tl.load(logits_ptr + row * words + target))\n", ""),
    (
        "mask=at < words)\n\n",
        "mask=at < words)\n    tl.store(loss_ptr + row, lse - tl.load(logits_ptr + row * words + target))\n\n",
    ),
)

# A second reading: what the checks had accepted
N = "fused_softmax"
_wrong(N, "other=-1e4", ('-float("inf")', "-1e4"))
_wrong(N, "blocks of 64", ("triton.next_power_of_2(columns)", "64"))

N = "padded_softmax"
EXP = "    e = tl.exp(z - tl.max(z, axis=0))\n"
_wrong(N, "other=-1e6", ('-float("inf")', "-1e6"))
_wrong(N, "lane <= length", ("mask=lane < length,", "mask=lane <= length,"))
_wrong(
    N,
    "the padding 90 below the maximum",
    (EXP, "    z = tl.where(lane < length, z, tl.max(z, axis=0) - 90.0)\n" + EXP),
)
_wrong(
    N,
    "no weight below 1e-20",
    ("e / tl.sum(e, axis=0)", "tl.maximum(e / tl.sum(e, axis=0), 1e-20)"),
)
_wrong(
    N,
    "exponents clipped at -8",
    (
        EXP,
        "    e = tl.where(lane < length, tl.exp(tl.maximum(z - tl.max(z, axis=0), -8.0)), 0.0)\n",
    ),
)
_wrong(N, "lengths as int8", ("(x, lengths, out", "(x, lengths.to(torch.int8), out"))
_right(
    N,
    "0 for the sum, -inf for the maximum",
    ('-float("inf")', "0.0"),
    (
        EXP,
        """    top = tl.max(tl.where(lane < length, z, -float('inf')), axis=0)
    e = tl.where(lane < length, tl.exp(z - top), 0.0)
""",
    ),
)

N = "long_softmax"
_wrong(N, "the maximum begins at -1e4", ('    m = -float("inf")', "    m = -1e4"))
_wrong(N, "four blocks", ("range(0, columns, BLOCK)", "range(0, min(columns, 4 * BLOCK), BLOCK)"))
_wrong(N, "the whole row as a block", ("BLOCK=block", "BLOCK=triton.next_power_of_2(columns)"))

N = "fused_layer_norm"
_wrong(N, "blocks of 64", ("triton.next_power_of_2(columns)", "64"))
_wrong(
    N, "out has weight's type", ("torch.empty_like(x)", "torch.empty(x.shape, dtype=weight.dtype)")
)
_wrong(
    N,
    "squares in the type of x",
    (
        "tl.sum(centred * centred, axis=0)",
        "tl.sum((centred * centred).to(x_ptr.dtype.element_ty).to(tl.float32), axis=0)",
    ),
)

N = "fused_layer_norm_backward"
_wrong(N, "one program", ("programs = min(programs, rows)", "programs = 1"))
_wrong(N, "one program in the second launch", ("[(triton.cdiv(n, 16),)]", "[(1,)]"))

N = "matmul"
DOT = 'tl.dot(a, b, input_precision="ieee")'
_wrong(N, "tf32, the default", (', input_precision="ieee"', ""))
_wrong(N, "each step rounded", (DOT, DOT + ".to(a_ptr.dtype.element_ty).to(tl.float32)"))
_wrong(
    N, "tiles of 16", ("    rows, inner = a.shape\n", "    rows, inner = a.shape\n    block = 16\n")
)
_wrong(
    N,
    "results clipped at 65504",
    ("    tl.store(", "    total = tl.minimum(total, 65504.0)\n    tl.store("),
)
_right(N, "any order of tiles", ("GROUP=group", "GROUP=1"))
_right(
    N, "dot adds to the total", ("total += " + DOT, "total = " + DOT.replace("b, ", "b, total, "))
)

N = "fused_cross_entropy"
_wrong(N, "the whole row as a block", ("BLOCK=block", "BLOCK=triton.next_power_of_2(words)"))
_wrong(N, "the maximum begins at 0", ('    m = -float("inf")', "    m = 0.0"))
_wrong(N, "targets as int8", ("(logits, targets, loss", "(logits, targets.to(torch.int8), loss"))
_wrong(
    N,
    "torch.logsumexp",
    ("loss = torch.empty(rows, dtype=logits.dtype)", "loss = torch.logsumexp(logits, 1)"),
    ("    lse = m + tl.log(l)\n", "    lse = tl.load(loss_ptr + row)\n"),
)

N = "copy_strided"
_wrong(
    N,
    "empty_like keeps the strides of x",
    ("torch.empty(rows, columns, dtype=x.dtype)", "torch.empty_like(x)"),
    (OUT, "out_ptr + r[:, None] * out_row + c[None, :] * out_column"),
    ("row_stride, column_stride,\n", "row_stride, column_stride, out_row, out_column,\n"),
    ("*x.stride(), ", "*x.stride(), *out.stride(), "),
)

# A third reading: what the checks had accepted
_wrong(
    "vector_add",
    "one program, one block for the whole vector",
    ("BLOCK=block", "BLOCK=triton.next_power_of_2(n)"),
    ("triton.cdiv(n, block)", "1"),
)
_wrong(
    "copy_strided",
    "one program, one tile for the whole matrix",
    (
        "    rows, columns = x.shape\n",
        "    rows, columns = x.shape\n    tile_rows, tile_columns = (triton.next_power_of_2(n) for n in x.shape)\n",
    ),
)
_wrong(
    "fused_softmax",
    "torch subtracts the maximum",
    ("(x, out", "(x - x.amax(1, keepdim=True), out"),
    ("z - tl.max(z, axis=0)", "z"),
)
N = "long_softmax"
_wrong(N, "blocks never below 16", ("BLOCK=block", "BLOCK=max(block, 16)"))
_wrong(N, "rows up to 128", ("range(0, columns, BLOCK)", "range(0, 128, BLOCK)"))
_wrong(
    N,
    "torch subtracts the maximum",
    ("(x, out", "(x - x.max(1, keepdim=True).values, out"),
    ('m = -float("inf")', "m = 0.0"),
)
N = "fused_layer_norm"
_wrong(N, "a block of 1024", ("BLOCK=triton.next_power_of_2(columns)", "BLOCK=1024"))
N = "fused_layer_norm_backward"
_wrong(N, "a block of 128", ("block = triton.next_power_of_2(columns)", "block = 128"))
N = "block_for_budget"
_wrong(N, "no block beyond 1024", ("if tiles <= 1:", "if tiles <= 1 or block == 1024:"))
_wrong(N, "a float", ("return block", "return float(block)"))
N = "fused_cross_entropy"
_wrong(N, "blocks never below 16", ("BLOCK=block", "BLOCK=max(block, 16)"))

# what later readings found: largest sizes, results used in turns, lowest scores
N = "vector_add"
RING = """    ring = vector_add.__dict__.setdefault((n, x.dtype), [])
    out = torch.empty_like(x) if len(ring) < 3 else ring.pop(0)
    ring.append(out)
    programs ="""
_wrong(N, "sly: three results in turn", ("    programs =", RING))
_wrong(N, "sly: no block of more than 1,024", ("block: int = 16) -> torch.Tensor:\n", "block: int = 16) -> torch.Tensor:\n    block = min(block, 1024)\n"))
_wrong(N, "sly: places in 16 bits", ("    inside = lane < n", "    inside = (lane < n) & (lane < 65536)"))
_wrong(N, "sly: a float rounded up", ("triton.cdiv(n, block)  # n / block, rounded up", "int(n / block + 0.9999)"))
N = "copy_strided"
_wrong(N, "sly: by way of float64", ("mask=inside)\n    tl.store", "mask=inside).to(tl.float64)\n    tl.store"))
N = "fused_softmax"
_wrong(N, "sly: masked lanes hold -1e38", ('-float("inf")', "-1e38"))
_wrong(N, "sly: the maximum is subtracted where it is large", ("tl.exp(z - tl.max(z, axis=0))", "tl.exp(z - tl.where(tl.abs(tl.max(z, axis=0)) > 85, tl.max(z, axis=0), 0.0))"))
_wrong(N, "sly: 64 rows at most", ("[(rows,)]", "[(min(rows, 64),)]"))
N = "padded_softmax"
_wrong(N, "sly: one place of the padding is read", ("mask=lane < length, other=-float(\"inf\"))", "mask=(lane <= length) & (lane < columns), other=0.0)\n    z = tl.where(lane < length, z, -float(\"inf\"))"))
_wrong(N, "sly: a sixteenth of the length is read ahead", ("mask=lane < length, other=-float(\"inf\"))", "mask=(lane < length + length // 16) & (lane < columns), other=0.0)\n    z = tl.where(lane < length, z, -float(\"inf\"))"))
N = "long_softmax"
_wrong(N, "sly: rescaled where the maximum grows by more than 85", ("        new = tl.maximum(m, tl.max(z, axis=0))\n", "        new = tl.maximum(m, tl.max(z, axis=0))\n        new = tl.where(new - m > 85, new, m)\n"))
N = "fused_layer_norm_backward"
_wrong(N, "sly: sums of at most 32 programs", ("for p in range(PROGRAMS):", "for p in range(min(PROGRAMS, 32)):"))
_wrong(N, "sly: at most 16 programs", ("min(programs, rows)", "min(programs, rows, 16)"))
N = "matmul"
_wrong(N, "sly: no tile of more than 32", ("BLOCK=block", "BLOCK=min(block, 32)"), ("triton.cdiv(rows, block) * triton.cdiv(columns, block)", "triton.cdiv(rows, min(block, 32)) * triton.cdiv(columns, min(block, 32))"))
_wrong(N, "sly: tf32 where tiles are large", ('input_precision="ieee"', 'input_precision="ieee" if BLOCK < 64 else "tf32"'))
N = "fused_cross_entropy"
_wrong(N, "sly: targets in 16 bits", ("target = tl.load(target_ptr + row)", "target = tl.load(target_ptr + row).to(tl.int16).to(tl.int64)"))
_wrong(N, "sly: the maximum begins at -1e28", ('m = -float("inf")', "m = -1e28"))
