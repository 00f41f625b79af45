"""Answers to chapter 19 as learners write them: wrong ones must lose points, right ones none."""
# ruff: noqa: E501  (one case a line: what is changed stands beside what it becomes)

import textwrap
from collections.abc import Sequence

HEAD = """import attend.kernels
import torch
import triton
import triton.language as tl
from typing import Any
from attend.data import flash_gradients as given
from attend_solutions.triton_flash_backward import forward_heads
"""

STUBS = {
    "flash_delta": """@triton.jit
def delta_kernel(
    out_ptr, d_out_ptr, delta_ptr, T, D: tl.constexpr, BLOCK_T: tl.constexpr
):  # fmt: skip
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    ...


def flash_delta(out: torch.Tensor, d_out: torch.Tensor, block_t: int = 64) -> torch.Tensor:
    H, T, D = out.shape
    delta = torch.empty((H, T), dtype=torch.float32, device=out.device)
    ...
    delta_kernel[grid](out, d_out, delta, T, D=D, BLOCK_T=block_t)
    return delta
""",
    "grad_keys_values": """@triton.jit
def keys_kernel(
    q_ptr, k_ptr, v_ptr, d_out_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, T, S, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    s = tl.program_id(0) * BLOCK_S + tl.arange(0, BLOCK_S)
    d = tl.arange(0, D)
    keys = (s + tl.program_id(1) * S)[:, None] * D + d[None, :]
    k = tl.load(k_ptr + keys, mask=(s < S)[:, None], other=0.0)
    v = tl.load(v_ptr + keys, mask=(s < S)[:, None], other=0.0)
    dk = tl.zeros((BLOCK_S, D), tl.float32)
    dv = tl.zeros((BLOCK_S, D), tl.float32)
    start = 0
    ...
    for first in range(start, T, BLOCK_T):
        t = first + tl.arange(0, BLOCK_T)
        row = t + tl.program_id(1) * T
        rows = row[:, None] * D + d[None, :]
        q = tl.load(q_ptr + rows, mask=(t < T)[:, None], other=0.0)
        d_out = tl.load(d_out_ptr + rows, mask=(t < T)[:, None], other=0.0)
        lse = tl.load(lse_ptr + row, t < T, other=0.0)
        delta = tl.load(delta_ptr + row, t < T, other=0.0)
        ...
    tl.store(dk_ptr + keys, dk, mask=s[:, None] < S)
    tl.store(dv_ptr + keys, dv, mask=s[:, None] < S)


def grad_keys_values(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    d_out: torch.Tensor,
    lse: torch.Tensor,
    delta: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    block_t: int = 64,
    block_s: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    (H, T, D), S = q.shape, k.shape[1]
    dk, dv = (torch.empty((H, S, D), dtype=torch.float32, device=q.device) for _ in range(2))
    grid = (triton.cdiv(S, block_s), H)
    keys_kernel[grid](
        q, k, v, d_out, lse, delta, dk, dv, T, S, D**-0.5 if scale is None else scale,
        CAUSAL=causal, D=D, BLOCK_T=block_t, BLOCK_S=block_s,
    )  # fmt: skip
    return dk, dv
""",
    "grad_queries": """@triton.jit
def queries_kernel(
    q_ptr, k_ptr, v_ptr, d_out_ptr, lse_ptr, delta_ptr, dq_ptr, T, S, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.arange(0, D)
    ...


def grad_queries(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    d_out: torch.Tensor,
    lse: torch.Tensor,
    delta: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    block_t: int = 64,
    block_s: int = 64,
) -> torch.Tensor:
    (H, T, D), S = q.shape, k.shape[1]
    dq = torch.empty((H, T, D), dtype=torch.float32, device=q.device)
    ...
    queries_kernel[grid](
        q, k, v, d_out, lse, delta, dq, T, S, D**-0.5 if scale is None else scale,
        CAUSAL=causal, D=D, BLOCK_T=block_t, BLOCK_S=block_s,
    )  # fmt: skip
    return dq
""",
    "flash_attention": """def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
) -> torch.Tensor:

    class FlashFunction(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, q: Any, k: Any, v: Any) -> Any:
            ...

        @staticmethod
        def backward(ctx: Any, d_out: Any) -> Any:
            ...

    return FlashFunction.apply(q, k, v)
""",
    "gradient_gaps": """def gradient_gaps(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    d_out: torch.Tensor,
    gradients: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    directions: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    causal: bool = False,
    scale: float | None = None,
    step: float = 2**-5,
) -> tuple[float, float, float]:
    ...
""",
    "one_pass": """@triton.jit
def one_pass_kernel(
    q_ptr, k_ptr, v_ptr, d_out_ptr, lse_ptr, delta_ptr, dq_ptr, dk_ptr, dv_ptr, T, S, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    s = tl.program_id(0) * BLOCK_S + tl.arange(0, BLOCK_S)
    d = tl.arange(0, D)
    keys = (s + tl.program_id(1) * S)[:, None] * D + d[None, :]
    k = tl.load(k_ptr + keys, mask=(s < S)[:, None], other=0.0)
    v = tl.load(v_ptr + keys, mask=(s < S)[:, None], other=0.0)
    dk = tl.zeros((BLOCK_S, D), tl.float32)
    dv = tl.zeros((BLOCK_S, D), tl.float32)
    start = 0
    if CAUSAL:
        start = tl.maximum(tl.program_id(0) * BLOCK_S - (S - T), 0) // BLOCK_T * BLOCK_T
    for first in range(start, T, BLOCK_T):
        t = first + tl.arange(0, BLOCK_T)
        row = t + tl.program_id(1) * T
        rows = row[:, None] * D + d[None, :]
        q = tl.load(q_ptr + rows, mask=(t < T)[:, None], other=0.0)
        do = tl.load(d_out_ptr + rows, mask=(t < T)[:, None], other=0.0)
        lse = tl.load(lse_ptr + row, t < T, other=0.0)[None, :]
        delta = tl.load(delta_ptr + row, t < T, other=0.0)[None, :]
        hidden = (s >= S)[:, None]
        if CAUSAL:
            hidden |= s[:, None] > (t + S - T)[None, :]
        p = tl.where(hidden, 0.0, tl.exp(tl.dot(k, q.T) * scale - lse))
        dv = tl.dot(p.to(do.dtype), do, dv)
        dx = p * (tl.dot(v, do.T) - delta)
        dk = tl.dot(dx.to(q.dtype), q, dk)
        ...
    tl.store(dk_ptr + keys, dk * scale, mask=s[:, None] < S)
    tl.store(dv_ptr + keys, dv, mask=s[:, None] < S)


def one_pass(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    d_out: torch.Tensor,
    lse: torch.Tensor,
    delta: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    block_t: int = 64,
    block_s: int = 64,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    (H, T, D), S = q.shape, k.shape[1]
    dk, dv = (torch.empty((H, S, D), dtype=torch.float32, device=q.device) for _ in range(2))
    ...
    grid = (triton.cdiv(S, block_s), H)
    one_pass_kernel[grid](
        q, k, v, d_out, lse, delta, dq, dk, dv, T, S, D**-0.5 if scale is None else scale,
        CAUSAL=causal, D=D, BLOCK_T=block_t, BLOCK_S=block_s,
    )  # fmt: skip
    return dq, dk, dv
""",
}
"""What is given; each ``...`` stands for lines of the answer."""

CASES: list[tuple[str, str, str, str]] = []


def swap(code: str, *pairs: tuple[str, str]) -> str:
    """A text with some of its parts replaced."""
    for old, new in pairs:
        assert old in code, old
        code = code.replace(old, new)
    return code


def fill(name: str, *blocks: str) -> str:
    """A stub with the answer's lines in it."""
    parts = iter(blocks)
    lines = []
    for line in STUBS[name].splitlines():
        if line.strip() == "...":
            indent = line[: len(line) - 3]
            lines += textwrap.indent(next(parts).strip("\n"), indent).splitlines()
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def case(name: str, kind: str, what: str, code: str) -> None:
    """Add one."""
    CASES.append((name, kind, what, HEAD + code))


# 19.1
N = "flash_delta"
K = """
h = tl.program_id(1)
d = tl.arange(0, D)
row = h * T + t
at = row[:, None] * D + d[None, :]
o = tl.load(out_ptr + at, mask=(t < T)[:, None], other=0.0).to(tl.float32)
g = tl.load(d_out_ptr + at, mask=(t < T)[:, None], other=0.0).to(tl.float32)
tl.store(delta_ptr + row, tl.sum(o * g, 1), mask=t < T)
"""
G = "grid = (triton.cdiv(T, block_t), H)"


def delta(kind: str, what: str, *pairs: tuple[str, str], host: str = G) -> None:
    case(N, kind, what, fill("flash_delta", swap(K, *pairs), host))


delta("wrong", "no mask on the store", (", mask=t < T)", ")"))
delta("wrong", "no head", ("h * T + t", "t"))
delta("wrong", "rows without their width", ("row[:, None] * D", "row[:, None]"))
delta("wrong", "mean, no sum", ("tl.sum(o * g, 1)", "tl.sum(o * g, 1) / D"))
delta("wrong", "the last part of a tile has no program", host="grid = (T // block_t, H)")
delta("wrong", "output times itself", ("o * g, 1", "o * o, 1"))
delta("wrong", "slip: sums in float16", (".to(tl.float32)", ""))
delta(
    "wrong",
    "slip: one program too many where T is whole tiles",
    host="grid = (T // block_t + 1, H)",
)
delta(
    "wrong",
    "slip: last row again and again, no mask",
    ("row = h * T + t", "t = tl.minimum(t, T - 1)\nrow = h * T + t"),
)
delta(
    "wrong",
    "slip: product in place on an alias",
    ("o * g, 1", "o, 1"),
    host="out = out.float()\nout *= d_out\n" + G,
)
delta(
    "right", "grid as a function", host="grid = lambda meta: (triton.cdiv(T, meta['BLOCK_T']), H)"
)
case(
    N,
    "right",
    "column by column",
    fill(
        "flash_delta",
        """
row = tl.program_id(1) * T + t
total = tl.zeros((BLOCK_T,), tl.float32)
for j in range(D):
    a = tl.load(out_ptr + row * D + j, mask=t < T, other=0.0)
    b = tl.load(d_out_ptr + row * D + j, mask=t < T, other=0.0)
    total += a.to(tl.float32) * b.to(tl.float32)
tl.store(delta_ptr + row, total, mask=t < T)
""",
        G,
    ),
)
case(
    N,
    "right",
    "pointers moved to the head, nothing instead of zeros",
    fill(
        "flash_delta",
        """
out_ptr += tl.program_id(1) * T * D
d_out_ptr += tl.program_id(1) * T * D
delta_ptr += tl.program_id(1) * T
inside = t < T
tile = t[:, None] * D + tl.arange(0, D)
o = tl.load(out_ptr + tile, mask=inside[:, None])
g = tl.load(d_out_ptr + tile, mask=inside[:, None])
tl.store(delta_ptr + t, tl.sum(o.to(tl.float32) * g.to(tl.float32), axis=-1), mask=inside)
""",
        "tiles = (T + block_t - 1) // block_t\ngrid = tiles, H",
    ),
)
case(
    N,
    "right",
    "block pointers",
    fill(
        "flash_delta",
        """
h = tl.program_id(1)
i = tl.program_id(0)
o = tl.load(tl.make_block_ptr(out_ptr + h * T * D, (T, D), (D, 1), (i * BLOCK_T, 0), (BLOCK_T, D), (1, 0)), boundary_check=(0,), padding_option="zero")
g = tl.load(tl.make_block_ptr(d_out_ptr + h * T * D, (T, D), (D, 1), (i * BLOCK_T, 0), (BLOCK_T, D), (1, 0)), boundary_check=(0,), padding_option="zero")
tl.store(delta_ptr + h * T + t, tl.sum(o.to(tl.float32) * g.to(tl.float32), 1), mask=t < T)
""",
        G,
    ),
)
delta(
    "wrong",
    "stored to the first head's places",
    ("tl.store(delta_ptr + row", "tl.store(delta_ptr + t"),
)
delta("wrong", "slip: store mask lets one query too many", ("mask=t < T)", "mask=t <= T)"))
delta(
    "wrong",
    "slip: gradient rounded to the output's type",
    (
        "g = tl.load(d_out_ptr + at, mask=(t < T)[:, None], other=0.0).to(tl.float32)",
        "g = tl.load(d_out_ptr + at, mask=(t < T)[:, None], other=0.0)\ng = g.to(out_ptr.dtype.element_ty).to(tl.float32)",
    ),
)
delta("wrong", "programs for tiles of 64 always", host="grid = (triton.cdiv(T, 64), H)")
delta("wrong", "slip: tiles of 16 always, whatever block_t", host=f"block_t = 16\n{G}")
delta(
    "wrong",
    "slip: columns beyond 64 left out",
    ("o * g, 1", "tl.where((d < 64)[None, :], o * g, 0.0), 1"),
)
case(
    N,
    "wrong",
    "slip: a launch for each head",
    swap(
        fill("flash_delta", K, "grid = (triton.cdiv(T, block_t), 1)"),
        (
            "delta_kernel[grid](out, d_out, delta, T",
            "for h in range(H):\n        delta_kernel[grid](out[h], d_out[h], delta[h], T",
        ),
    ),
)
delta(
    "wrong",
    "slip: products rounded to the arguments' type where D is 128",
    (
        "tl.sum(o * g, 1)",
        "tl.sum((o * g).to(out_ptr.dtype.element_ty).to(tl.float32) if D == 128 else o * g, 1)",
    ),
)
delta(
    "wrong",
    "masks hold the row of all heads below T",
    ("(t < T)[:, None]", "(row < T)[:, None]"),
    ("mask=t < T", "mask=row < T"),
)
delta("wrong", "heads along the grid's first axis", host="grid = (H, triton.cdiv(T, block_t))")
delta(
    "wrong",
    "slip: rows of the next head are read and hidden",
    ("(t < T)[:, None]", "(row < T * tl.num_programs(1))[:, None]"),
)

# 19.2
N = "grad_keys_values"
A = "if CAUSAL:\n    start = tl.maximum(tl.program_id(0) * BLOCK_S - (S - T), 0) // BLOCK_T * BLOCK_T"
B = """
p = tl.exp(tl.dot(k, q.T) * scale - lse[None, :])
if CAUSAL:
    p = tl.where(s[:, None] > (t + S - T)[None, :], 0.0, p)
dv = tl.dot(p.to(d_out.dtype), d_out, dv)
dx = p * (tl.dot(v, d_out.T) - delta[None, :])
dk = tl.dot(dx.to(q.dtype), q, dk)
"""
END = ("dk_ptr + keys, dk,", "dk_ptr + keys, dk * scale,")


def keys(
    kind: str, what: str, *pairs: tuple[str, str], start: str = A, body: str = B, end: bool = True
) -> None:
    case(N, kind, what, swap(fill("grad_keys_values", start, swap(body, *pairs)), *[END] * end))


keys("wrong", "no delta", (" - delta[None, :]", ""))
keys("wrong", "dK without scale", end=False)
keys(
    "wrong",
    "delta outside of the weight",
    ("p * (tl.dot(v, d_out.T) - delta[None, :])", "p * tl.dot(v, d_out.T) - delta[None, :]"),
)
keys("wrong", "a query does not see its own key", (" > (t", " >= (t"))
keys(
    "wrong",
    "dK times scale in every turn",
    ("dk = tl.dot(dx.to(q.dtype), q, dk)", "dk = tl.dot(dx.to(q.dtype), q, dk) * scale"),
    end=False,
)
keys(
    "wrong",
    "hidden pairs only out of dX",
    ("if CAUSAL:\n    p = tl.where(s[:, None] > (t + S - T)[None, :], 0.0, p)\n", ""),
    (
        "dk = tl.dot",
        "if CAUSAL:\n    dx = tl.where(s[:, None] > (t + S - T)[None, :], 0.0, dx)\ndk = tl.dot",
    ),
)
keys("wrong", "slip: place of a query is t", ("t + S - T", "t"), start=A.replace(" - (S - T)", ""))
keys("wrong", "slip: all queries pass by, hidden too", start="")
keys(
    "wrong",
    "slip: hidden scores are -1000",
    (
        "p = tl.exp(tl.dot(k, q.T) * scale - lse[None, :])\nif CAUSAL:\n    p = tl.where(s[:, None] > (t + S - T)[None, :], 0.0, p)",
        "x = tl.dot(k, q.T) * scale\nif CAUSAL:\n    x = tl.where(s[:, None] > (t + S - T)[None, :], -1000.0, x)\np = tl.exp(x - lse[None, :])",
    ),
)
keys(
    "wrong",
    "slip: sums rounded to the arguments' type in every turn",
    ("d_out, dv)", "d_out, dv).to(v.dtype).to(tl.float32)"),
    ("q, dk)", "q, dk).to(k.dtype).to(tl.float32)"),
)
keys(
    "right",
    "tiles begin at the first query that sees, -inf before the exponential",
    (
        "p = tl.exp(tl.dot(k, q.T) * scale - lse[None, :])\nif CAUSAL:\n    p = tl.where(s[:, None] > (t + S - T)[None, :], 0.0, p)",
        "x = tl.dot(k, q.T) * scale\nif CAUSAL:\n    x = tl.where(s[:, None] > (t + S - T)[None, :], float('-inf'), x)\np = tl.exp(x - lse[None, :])",
    ),
    start="if CAUSAL:\n    start = tl.maximum(tl.program_id(0) * BLOCK_S - (S - T), 0)",
)
keys(
    "right",
    "queries for rows, then tl.trans",
    body="""
p = tl.exp(tl.dot(q, tl.trans(k)) * scale - lse[:, None])
if CAUSAL:
    p = tl.where(s[None, :] <= (t + S - T)[:, None], p, 0.0)
dx = p * (tl.dot(d_out, tl.trans(v)) - delta[:, None])
dv += tl.dot(tl.trans(p).to(d_out.dtype), d_out)
dk += tl.dot(tl.trans(dx).to(q.dtype), q)
""",
)
keys(
    "right",
    "powers of two, scale by the turn",
    body="""
p = tl.exp2((tl.dot(k, q.T) * scale - lse[None, :]) * 1.4426950408889634)
seen = t[None, :] < T
if CAUSAL:
    seen &= t[None, :] + (S - T) >= s[:, None]
p = tl.where(seen, p, 0.0)
dv += tl.dot(p.to(d_out.dtype), d_out)
dx = p * (tl.dot(v, d_out.T) - delta[None, :])
dk += tl.dot(dx.to(q.dtype), q) * scale
""",
    end=False,
)
keys(
    "right",
    "all in float32, start by a condition",
    body="""
dp = tl.dot(v.to(tl.float32), d_out.to(tl.float32).T)
x = tl.dot(k.to(tl.float32), q.to(tl.float32).T) * scale
w = tl.exp(x - lse[None, :])
w = tl.where((s[:, None] <= t[None, :] + S - T) | (not CAUSAL), w, 0.0)
dv += tl.dot(w, d_out.to(tl.float32))
dk += tl.dot(w * (dp - delta[None, :]), q.to(tl.float32))
""",
    start="if CAUSAL:\n    early = tl.program_id(0) * BLOCK_S - (S - T)\n    if early > 0:\n        start = early - early % BLOCK_T",
)
keys("wrong", "loop begins as though T were S", start=A.replace(" - (S - T)", ""))
keys(
    "wrong", "slip: only the first tile is masked", ("if CAUSAL:", "if CAUSAL and first == start:")
)
keys(
    "wrong",
    "slip: start before the first query",
    start=A.replace("tl.maximum(", "(").replace(", 0)", ")"),
)
keys(
    "wrong",
    "slip: each share rounded to the arguments' type",
    (
        "dv = tl.dot(p.to(d_out.dtype), d_out, dv)",
        "dv += tl.dot(p.to(d_out.dtype), d_out).to(q.dtype)",
    ),
    ("dk = tl.dot(dx.to(q.dtype), q, dk)", "dk += tl.dot(dx.to(q.dtype), q).to(q.dtype)"),
)
keys(
    "wrong",
    "slip: the scale goes into q and is rounded to q's type",
    ("tl.dot(k, q.T) * scale", "tl.dot(k, (q * scale).to(q.dtype).T)"),
)
keys("wrong", "LSE and delta along the keys", ("[None, :])", "[:, None])"))
keys(
    "wrong",
    "start counted from the tile's last key",
    start=A.replace("* BLOCK_S -", "* BLOCK_S + BLOCK_S - 1 -"),
)
keys("wrong", "dK times scale twice", ("- delta[None, :])", "- delta[None, :]) * scale"))
keys(
    "wrong",
    "the loop starts before the first query",
    start="if CAUSAL:\n    start = (tl.program_id(0) * BLOCK_S - (S - T)) // BLOCK_T * BLOCK_T",
)
keys("wrong", "delta added", ("- delta[None, :]", "+ delta[None, :]"))
keys(
    "wrong",
    "weights times the mask, keys",
    (
        "tl.where(s[:, None] > (t + S - T)[None, :], 0.0, p)",
        "p * (s[:, None] <= (t + S - T)[None, :])",
    ),
)
keys(
    "wrong",
    "slip: shares of dK in the arguments' type where D is 128",
    ("tl.dot(dx.to(q.dtype), q, dk)", "(dk + tl.dot(dx.to(q.dtype), q).to(q.dtype)) if D == 128 else tl.dot(dx.to(q.dtype), q, dk)"),
)
keys(
    "right",
    "the loop starts at the first query, not at a tile's edge",
    start="if CAUSAL:\n    start = tl.maximum(tl.program_id(0) * BLOCK_S - (S - T), 0)",
)

# 19.3
N = "grad_queries"
Q = """
row = t + tl.program_id(1) * T
rows = row[:, None] * D + d[None, :]
q = tl.load(q_ptr + rows, mask=(t < T)[:, None], other=0.0)
d_out = tl.load(d_out_ptr + rows, mask=(t < T)[:, None], other=0.0)
lse = tl.load(lse_ptr + row, t < T, other=0.0)
delta = tl.load(delta_ptr + row, t < T, other=0.0)
dq = tl.zeros((BLOCK_T, D), tl.float32)
end = S
if CAUSAL:
    end = tl.minimum(S, (tl.program_id(0) + 1) * BLOCK_T + S - T)
for first in range(0, end, BLOCK_S):
    s = first + tl.arange(0, BLOCK_S)
    keys = (s + tl.program_id(1) * S)[:, None] * D + d[None, :]
    k = tl.load(k_ptr + keys, mask=(s < S)[:, None], other=0.0)
    v = tl.load(v_ptr + keys, mask=(s < S)[:, None], other=0.0)
    hidden = (s >= S)[None, :]
    if CAUSAL:
        hidden |= s[None, :] > (t + S - T)[:, None]
    p = tl.where(hidden, 0.0, tl.exp(tl.dot(q, k.T) * scale - lse[:, None]))
    dx = p * (tl.dot(d_out, v.T) - delta[:, None])
    dq = tl.dot(dx.to(k.dtype), k, dq)
tl.store(dq_ptr + rows, dq * scale, mask=(t < T)[:, None])
"""
QG = "grid = (triton.cdiv(T, block_t), H)"


def queries(kind: str, what: str, *pairs: tuple[str, str], body: str = Q, host: str = QG) -> None:
    case(N, kind, what, fill("grad_queries", swap(body, *pairs), host))


queries(
    "wrong",
    "keys behind the end keep their weight",
    ("hidden = (s >= S)[None, :]", "hidden = (s < 0)[None, :]"),
)
queries(
    "wrong",
    "slip: the scale goes into q and is rounded to q's type",
    ("tl.dot(q, k.T) * scale", "tl.dot((q * scale).to(q.dtype), k.T)"),
)
queries("wrong", "a sum of values", ("k, dq)", "v, dq)"))
queries("wrong", "weights for the gradients of scores", ("tl.dot(dx.to", "tl.dot(p.to"))
queries("wrong", "no scale at the end", ("dq * scale", "dq"))
queries("wrong", "no delta", (" - delta[:, None]", ""))
queries("wrong", "axes of the grid the other way round", host="grid = (H, triton.cdiv(T, block_t))")
queries("wrong", "LSE along the keys", ("lse[:, None]", "lse[None, :]"))
queries("wrong", "place of a query is t", ("BLOCK_T + S - T", "BLOCK_T"), ("(t + S - T)", "t"))
queries(
    "wrong",
    "slip: all keys pass by, hidden too",
    ("    end = tl.minimum(S, (tl.program_id(0) + 1) * BLOCK_T + S - T)", "    end = S"),
)
queries(
    "wrong",
    "slip: weights behind the end times zero",
    (
        "p = tl.where(hidden, 0.0, tl.exp(tl.dot(q, k.T) * scale - lse[:, None]))",
        "p = tl.exp(tl.dot(q, k.T) * scale - lse[:, None]) * tl.where(hidden, 0.0, 1.0)",
    ),
)
queries(
    "wrong",
    "slip: sum rounded to the keys' type in every turn",
    ("k, dq)", "k, dq).to(k.dtype).to(tl.float32)"),
)
queries(
    "wrong",
    "slip: LSE made again in a loop over the keys first",
    (
        "for first in range(0, end, BLOCK_S):",
        """top = tl.full((BLOCK_T,), -1e30, tl.float32)
total = tl.zeros((BLOCK_T,), tl.float32)
for first in range(0, end, BLOCK_S):
    s = first + tl.arange(0, BLOCK_S)
    keys = (s + tl.program_id(1) * S)[:, None] * D + d[None, :]
    k = tl.load(k_ptr + keys, mask=(s < S)[:, None], other=0.0)
    hidden = (s >= S)[None, :]
    if CAUSAL:
        hidden |= s[None, :] > (t + S - T)[:, None]
    x = tl.where(hidden, float("-inf"), tl.dot(q, k.T) * scale)
    new = tl.maximum(top, tl.max(x, 1))
    total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new[:, None]), 1)
    top = new
lse = top + tl.log(total)
for first in range(0, end, BLOCK_S):""",
    ),
)
queries(
    "right",
    "zeros in dX, not in the weights",
    (
        "p = tl.where(hidden, 0.0, tl.exp(tl.dot(q, k.T) * scale - lse[:, None]))",
        "p = tl.exp(tl.dot(q, k.T) * scale - lse[:, None])",
    ),
    (
        "dx = p * (tl.dot(d_out, v.T) - delta[:, None])",
        "dx = tl.where(hidden, 0.0, p * (tl.dot(d_out, v.T) - delta[:, None]))",
    ),
)
queries(
    "right",
    "-inf before the exponential, scale by the turn",
    (
        "p = tl.where(hidden, 0.0, tl.exp(tl.dot(q, k.T) * scale - lse[:, None]))",
        "p = tl.exp(tl.where(hidden, float('-inf'), tl.dot(q, k.T) * scale) - lse[:, None])",
    ),
    ("dq = tl.dot(dx.to(k.dtype), k, dq)", "dq += scale * tl.dot(dx.to(k.dtype), k)"),
    ("dq * scale", "dq"),
)
queries(
    "right",
    "from the last tile to the first",
    (
        "for first in range(0, end, BLOCK_S):",
        "tiles = (end + BLOCK_S - 1) // BLOCK_S\nfor j in range(tiles):\n    first = (tiles - 1 - j) * BLOCK_S",
    ),
)
queries(
    "right",
    "keys loaded with columns for rows",
    body=Q.replace(
        """    keys = (s + tl.program_id(1) * S)[:, None] * D + d[None, :]
    k = tl.load(k_ptr + keys, mask=(s < S)[:, None], other=0.0)
    v = tl.load(v_ptr + keys, mask=(s < S)[:, None], other=0.0)
""",
        """    keys = (s + tl.program_id(1) * S)[None, :] * D + d[:, None]
    k = tl.load(k_ptr + keys, mask=s[None, :] < S, other=0.0)
    v = tl.load(v_ptr + keys, mask=s[None, :] < S, other=0.0)
""",
    )
    .replace("k.T) * scale", "k) * scale")
    .replace("v.T)", "v)")
    .replace("k, dq)", "tl.trans(k), dq)"),
    host="grid = lambda m: (-(-T // m['BLOCK_T']), H)",
)
queries("wrong", "loop ends as though T were S", (" * BLOCK_T + S - T)", " * BLOCK_T)"))
queries("wrong", "a program for each tile of keys", host="grid = (triton.cdiv(S, block_t), H)")
queries(
    "wrong", "slip: loop ends one key early", (" * BLOCK_T + S - T)", " * BLOCK_T - 1 + S - T)")
)
queries("wrong", "slip: dQ in the type of q", host=QG + "\ndq = torch.empty_like(q)")
queries(
    "wrong",
    "slip: a large weight behind the end, in float16 infinite",
    ("hidden = (s >= S)[None, :]", "hidden = (s < 0)[None, :]"),
    ("p = tl.where(hidden, 0.0, tl.exp(", "p = tl.where(hidden, 0.0, tl.minimum(1e4, tl.exp("),
    ("lse[:, None]))", "lse[:, None])))"),
)
queries(
    "wrong",
    "weights times the mask",
    (
        "tl.where(hidden, 0.0, tl.exp(tl.dot(q, k.T) * scale - lse[:, None]))",
        "tl.exp(tl.dot(q, k.T) * scale - lse[:, None]) * ~hidden",
    ),
)
queries(
    "wrong",
    "slip: shares of dQ in the arguments' type where D is 128",
    ("tl.dot(dx.to(k.dtype), k, dq)", "(dq + tl.dot(dx.to(k.dtype), k).to(k.dtype)) if D == 128 else tl.dot(dx.to(k.dtype), k, dq)"),
)
queries("wrong", "a query does not see its own place", ("s[None, :] > (t", "s[None, :] >= (t"))
queries("wrong", "scores without the scale", ("tl.dot(q, k.T) * scale", "tl.dot(q, k.T)"))
queries(
    "right",
    "exponents at most 0, then times the mask",
    (
        "tl.where(hidden, 0.0, tl.exp(tl.dot(q, k.T) * scale - lse[:, None]))",
        "tl.exp(tl.minimum(tl.dot(q, k.T) * scale - lse[:, None], 0.0)) * (hidden == 0)",
    ),
)
queries(
    "right",
    "tiles from the last to the first",
    (
        "for first in range(0, end, BLOCK_S):\n    s = first +",
        "for step in range(0, end, BLOCK_S):\n    s = (tl.cdiv(end, BLOCK_S) - 1) * BLOCK_S - step +",
    ),
)

# 19.4
N = "flash_attention"
F = """
q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
out, lse = forward_heads(q, k, v, causal, scale)
ctx.save_for_backward(q, k, v, out, lse)
return out
"""
W = """
q, k, v, out, lse = ctx.saved_tensors
d_out = d_out.contiguous()
delta = flash_delta(out, d_out)
d_out = d_out.to(q.dtype)
dq = grad_queries(q, k, v, d_out, lse, delta, causal, scale)
dk, dv = grad_keys_values(q, k, v, d_out, lse, delta, causal, scale)
return dq.to(q.dtype), dk.to(q.dtype), dv.to(q.dtype)
"""


def function(
    kind: str, what: str, f: Sequence[tuple[str, str]] = (), w: Sequence[tuple[str, str]] = ()
) -> None:
    case(N, kind, what, fill("flash_attention", swap(F, *f), swap(W, *w)))


function("wrong", "incoming gradient taken as it lies", w=[("d_out = d_out.contiguous()\n", "")])
function(
    "wrong",
    "arguments taken as they lie",
    f=[("q, k, v = q.contiguous(), k.contiguous(), v.contiguous()\n", "")],
)
function(
    "wrong", "causal forgotten on the way back", w=[("delta, causal, scale", "delta, False, scale")]
)
function("wrong", "scale forgotten on the way back", w=[("delta, causal, scale", "delta, causal")])
function(
    "wrong",
    "gradients in the order dK, dV, dQ",
    w=[
        (
            "return dq.to(q.dtype), dk.to(q.dtype), dv.to(q.dtype)",
            "return dk.to(q.dtype), dv.to(q.dtype), dq.to(q.dtype)",
        )
    ],
)
function(
    "wrong",
    "incoming gradient stays float32 beside float16",
    w=[("d_out = d_out.to(q.dtype)\n", "")],
)
function(
    "wrong",
    "slip: gives nothing unless all three ask",
    w=[
        (
            "q, k, v, out, lse = ctx",
            "if not all(ctx.needs_input_grad):\n    return None, None, None\nq, k, v, out, lse = ctx",
        )
    ],
)
function(
    "wrong",
    "slip: q scaled in place, scale 1 to the kernels",
    f=[
        (
            "out, lse = forward_heads(q, k, v, causal, scale)",
            "q *= q.shape[-1] ** -0.5 if scale is None else scale\nout, lse = forward_heads(q, k, v, causal, 1.0)",
        )
    ],
    w=[
        ("delta, causal, scale", "delta, causal, 1.0"),
        (
            "return dq.to",
            "dq = dq * (q.shape[-1] ** -0.5 if scale is None else scale)\nreturn dq.to",
        ),
    ],
)
function("wrong", "slip: output in the type of q", f=[("return out", "return out.to(q.dtype)")])
function(
    "wrong",
    "slip: a scale of 0 taken for none",
    f=[("causal, scale)", "causal, scale or q.shape[-1] ** -0.5)")],
    w=[("delta, causal, scale", "delta, causal, scale or q.shape[-1] ** -0.5")],
)
function(
    "right",
    "only what is asked for, settings on ctx",
    f=[("return out", "ctx.settings = causal, scale\nreturn out")],
    w=[
        (
            "dq = grad_queries(q, k, v, d_out, lse, delta, causal, scale)\ndk, dv = grad_keys_values(q, k, v, d_out, lse, delta, causal, scale)\nreturn dq.to(q.dtype), dk.to(q.dtype), dv.to(q.dtype)",
            "dq = dk = dv = None\nif ctx.needs_input_grad[0]:\n    dq = grad_queries(q, k, v, d_out, lse, delta, *ctx.settings)\nif ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:\n    dk, dv = grad_keys_values(q, k, v, d_out, lse, delta, *ctx.settings)\nreturn dq, dk, dv",
        )
    ],
)
function(
    "right",
    "keeps the arguments only, forward pass made again",
    f=[("ctx.save_for_backward(q, k, v, out, lse)", "ctx.save_for_backward(q, k, v)")],
    w=[
        (
            "q, k, v, out, lse = ctx.saved_tensors",
            "q, k, v = ctx.saved_tensors\nout, lse = forward_heads(q, k, v, causal, scale)",
        )
    ],
)
function(
    "right",
    "everything copied to float32",
    f=[
        (
            "q.contiguous(), k.contiguous(), v.contiguous()",
            "(x.to(torch.float32).clone(memory_format=torch.contiguous_format) for x in (q, k, v))",
        )
    ],
    w=[("return dq.to(q.dtype), dk.to(q.dtype), dv.to(q.dtype)", "return dq, dk, dv")],
)
function(
    "right",
    "one pass instead of two",
    w=[
        (
            "dq = grad_queries(q, k, v, d_out, lse, delta, causal, scale)\ndk, dv = grad_keys_values(q, k, v, d_out, lse, delta, causal, scale)\n",
            "dq, dk, dv = one_pass(q, k, v, d_out, lse, delta, causal, scale, 32, 32)\n",
        )
    ],
)
function(
    "wrong",
    "slip: saved where all calls share it",
    f=[("ctx.save_for_backward(q, k, v, out, lse)", "flash_attention.kept = q, k, v, out, lse")],
    w=[("ctx.saved_tensors", "flash_attention.kept")],
)
function(
    "wrong",
    "slip: way back by torch's products",
    w=[
        (
            "dq = grad_queries(q, k, v, d_out, lse, delta, causal, scale)\ndk, dv = grad_keys_values(q, k, v, d_out, lse, delta, causal, scale)\n",
            """a = q.shape[-1] ** -0.5 if scale is None else scale
q, k, v, d_out = (x.float() for x in (q, k, v, d_out))
p = (q @ k.mT * a - lse[..., None]).exp()
if causal:
    p = p.tril(p.shape[2] - p.shape[1])
dx = p * (d_out @ v.mT - delta[..., None])
dq, dk, dv = dx @ k * a, dx.mT @ q * a, p.mT @ d_out
""",
        )
    ],
)
function(
    "wrong",
    "slip: incoming gradient cleared after use",
    w=[
        (
            "d_out = d_out.contiguous()",
            "given, d_out = d_out, d_out.clone(memory_format=torch.contiguous_format)",
        ),
        ("return dq", "given.zero_()\nreturn dq"),
    ],
)
function(
    "wrong",
    "slip: the LSE kept by the address of q, whatever the scale of a call between",
    f=[
        (
            "ctx.save_for_backward(q, k, v, out, lse)",
            "ctx.save_for_backward(q, k, v, out)\nkept[q.data_ptr()] = lse",
        )
    ],
    w=[
        (
            "q, k, v, out, lse = ctx.saved_tensors",
            "q, k, v, out = ctx.saved_tensors\nlse = kept[q.data_ptr()]",
        )
    ],
)
CASES[-1] = (*CASES[-1][:3], CASES[-1][3] + "\nkept = {}\n")
function("wrong", "delta of the gradient alone", w=[("(out, d_out)", "(d_out, d_out)")])
function("wrong", "the gradient keeps its type", w=[("d_out = d_out.to(q.dtype)\n", "")])
function("wrong", "no scale forwards", f=[("causal, scale", "causal")])

# 19.5
N = "gradient_gaps"
L = """
def loss(*inputs):
    out = forward_heads(*inputs, causal, scale)[0]
    return (out.double() * d_out.double()).sum()

gaps = []
for i in range(3):
    left = (gradients[i].double() * directions[i].double()).sum()
    up, down = [q, k, v], [q, k, v]
    up[i] = up[i] + step * directions[i]
    down[i] = down[i] - step * directions[i]
    right = (loss(*up) - loss(*down)) / (2 * step)
    gaps.append(float(left - right))
return tuple(gaps)
"""


def gaps(kind: str, what: str, *pairs: tuple[str, str], body: str = L) -> None:
    case(N, kind, what, fill("gradient_gaps", swap(body, *pairs)))


gaps(
    "wrong",
    "difference to one side",
    ("down[i] = down[i] - step * directions[i]\n", "pass\n"),
    ("(2 * step)", "step"),
)
gaps("wrong", "divided by one step", ("(2 * step)", "step"))
gaps("wrong", "right side minus left side", ("left - right", "right - left"))
gaps(
    "wrong",
    "all three moved at once",
    ("up[i] = up[i] + step * directions[i]", "up = [x + step * u for x, u in zip(up, directions)]"),
    (
        "down[i] = down[i] - step * directions[i]",
        "down = [x - step * u for x, u in zip(down, directions)]",
    ),
)
gaps("wrong", "causal and scale forgotten", ("*inputs, causal, scale", "*inputs"))
gaps("wrong", "mean for the loss", ("d_out.double()).sum()", "d_out.double()).mean()"))
gaps(
    "wrong",
    "slip: moved in place, there and back",
    (
        "up, down = [q, k, v], [q, k, v]\n    up[i] = up[i] + step * directions[i]\n    down[i] = down[i] - step * directions[i]\n    right = (loss(*up) - loss(*down)) / (2 * step)",
        "x = (q, k, v)[i]\n    x += step * directions[i]\n    high = loss(q, k, v)\n    x -= 2 * step * directions[i]\n    low = loss(q, k, v)\n    x += step * directions[i]\n    right = (high - low) / (2 * step)",
    ),
)
gaps(
    "wrong",
    "slip: the loss from plain attention in float64",
    (
        "out = forward_heads(*inputs, causal, scale)[0]",
        "out = given.plain_attention(*[x.double() for x in inputs], causal, scale)",
    ),
)
gaps("wrong", "slip: always the step of the default", ("gaps = []", "step = 2**-5\ngaps = []"))
gaps(
    "right",
    "all six passes in one call, as heads",
    body="""
H = q.shape[0]
three = [q, k, v]
stacks = []
for j in range(3):
    parts = []
    for i in range(3):
        for sign in (1, -1):
            parts.append(three[j] + sign * step * directions[j] if i == j else three[j])
    stacks.append(torch.cat(parts))
out = forward_heads(*stacks, causal, scale)[0].double()
losses = (out.view(6, H, *out.shape[1:]) * d_out.double()).flatten(1).sum(1)
lefts = [(g.double() * u.double()).sum() for g, u in zip(gradients, directions)]
return tuple(float(lefts[i] - (losses[2 * i] - losses[2 * i + 1]) / (2 * step)) for i in range(3))
""",
)
gaps("right", "fresh session: no cell of kernels above has been run")
gaps(
    "right",
    "moved in float64, then rounded",
    (
        "up[i] = up[i] + step * directions[i]",
        "up[i] = (up[i].double() + step * directions[i].double()).to(up[i].dtype)",
    ),
    (
        "down[i] = down[i] - step * directions[i]",
        "down[i] = (down[i].double() - step * directions[i].double()).to(down[i].dtype)",
    ),
)
gaps(
    "right",
    "written out three times, einsum",
    body="""
def at(a, b, c):
    return torch.einsum("htd,htd->", forward_heads(a, b, c, causal=causal, scale=scale)[0].double(), d_out.double()).item()
(u, w, z), (gq, gk, gv) = directions, gradients
slope = lambda g, x: torch.tensordot(g.double(), x.double(), 3).item()
return (
    slope(gq, u) - (at(q + step * u, k, v) - at(q - step * u, k, v)) / step / 2,
    slope(gk, w) - (at(q, k + step * w, v) - at(q, k - step * w, v)) / step / 2,
    slope(gv, z) - (at(q, k, v + step * z) - at(q, k, v - step * z)) / step / 2,
)
""",
)
gaps(
    "right",
    "difference of outputs first, sums after",
    (
        "right = (loss(*up) - loss(*down)) / (2 * step)",
        "change = forward_heads(*up, causal, scale)[0].double() - forward_heads(*down, causal, scale)[0].double()\n    right = (change * d_out.double()).sum() * (0.5 / step)",
    ),
)
gaps("wrong", "slip: a scale of 0 taken for none", ("causal, scale)", "causal, scale or None)"))
gaps(
    "wrong",
    "slip: steps below a thousandth are not taken",
    ("gaps = []", "gaps = []\nstep = max(step, 1e-3)"),
)
gaps("wrong", "slip: tensors for floats", ("float(left - right)", "left - right"))
gaps(
    "wrong",
    "unit vectors for directions",
    ("gaps = []", "gaps = []\ndirections = [u / u.norm() for u in directions]"),
)
gaps(
    "wrong",
    "gradients made again, those that are given left aside",
    (
        "gaps = []",
        "o, lse = forward_heads(q, k, v, causal, scale)\nrest = q, k, v, d_out, lse, flash_delta(o, d_out), causal, scale\ngradients = grad_queries(*rest), *grad_keys_values(*rest)\ngaps = []",
    ),
)
gaps(
    "wrong",
    "slip: steps rounded to a power of two",
    ("gaps = []", "import math\ngaps = []\nstep = 2.0 ** round(math.log2(step))"),
)
gaps(
    "wrong",
    "slip: losses of plain attention in float64, one launch in all",
    (
        "    out = forward_heads(*inputs, causal, scale)[0]\n",
        """    q64, k64, v64 = (x.double() for x in inputs)
    x = q64 @ k64.mT * (q64.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        x = x.masked_fill(torch.ones_like(x, dtype=torch.bool).triu(1 + x.shape[-1] - x.shape[-2]), -torch.inf)
    out = (x - x.logsumexp(-1, keepdim=True)).exp() @ v64
""",
    ),
    ("gaps = []", "forward_heads(q, k, v, causal, scale)\ngaps = []"),
)
gaps("wrong", "divided by 2, times the step", ("/ (2 * step)", "/ 2 * step"))
gaps(
    "wrong",
    "what was moved stays moved",
    ("    up, down = [q, k, v], [q, k, v]\n", ""),
    ("gaps = []", "gaps = []\nup, down = [q, k, v], [q, k, v]"),
)
gaps("wrong", "causal left out", ("causal, scale", "False, scale"))
gaps("wrong", "scale left out", ("causal, scale", "causal"))
gaps("wrong", "a loss without d_out", ("out.double() * d_out.double()", "out.double()"))
gaps("wrong", "a mean for a loss", ("d_out.double()).sum()", "d_out.double()).mean()"))

# 19.6
N = "one_pass"
P = """
share = tl.dot(k.T, dx.to(k.dtype)) * scale
places = dq_ptr + row[None, :] * D + d[:, None]
tl.atomic_add(places, share, mask=t[None, :] < T)
"""
Z = "dq = torch.zeros((H, T, D), dtype=torch.float32, device=q.device)"


def one(
    kind: str,
    what: str,
    *pairs: tuple[str, str],
    body: str = P,
    host: str = Z,
    after: Sequence[tuple[str, str]] = (),
) -> None:
    case(N, kind, what, swap(fill("one_pass", swap(body, *pairs), host), *after))


LOAD = "so_far = tl.load(places, mask=t[None, :] < T, other=0.0)\n"
one(
    "wrong",
    "a barrier, then still load and store",
    (
        "tl.atomic_add(places, share, mask=t[None, :] < T)",
        "tl.debug_barrier()\n"
        + LOAD
        + "tl.store(places, so_far + share, mask=t[None, :] < T)\ntl.debug_barrier()",
    ),
)
one("wrong", "buffer not zeroed", host=Z.replace("zeros", "empty"))
one("wrong", "share without scale", (" * scale", ""))
one(
    "wrong",
    "what was there is added once more",
    ("tl.atomic_add(places, share,", LOAD + "tl.atomic_add(places, so_far + share,"),
)
one("wrong", "head forgotten in the places", ("row[None, :] * D", "t[None, :] * D"))
one(
    "wrong",
    "atomic exchange of a sum that was loaded before",
    ("tl.atomic_add(places, share,", LOAD + "tl.atomic_xchg(places, so_far + share,"),
)
one("wrong", "slip: no mask on the addition", (", mask=t[None, :] < T)", ")"))
one("wrong", "slip: buffer like q, float16 too", host="dq = torch.zeros_like(q)")
one(
    "wrong",
    "slip: dQ from a launch of its own",
    body="pass",
    host="dq = grad_queries(q, k, v, d_out, lse, delta, causal, scale, block_t, block_s)",
)
one(
    "wrong",
    "slip: the first program zeroes the buffer",
    (
        "tl.atomic_add",
        "if tl.program_id(0) == 0:\n    tl.store(places, tl.zeros((D, BLOCK_T), tl.float32), mask=t[None, :] < T)\ntl.atomic_add",
    ),
    host=Z.replace("zeros", "empty"),
)
one(
    "right",
    "queries for rows, relaxed",
    body="""
share = tl.dot(tl.trans(dx).to(k.dtype), k)
tl.atomic_add(dq_ptr + rows, share * scale, mask=(t < T)[:, None], sem="relaxed")
""",
)
one(
    "right",
    "flat buffer, mask over both axes, result unused",
    (
        "tl.atomic_add(places, share, mask=t[None, :] < T)",
        "old = tl.atomic_add(places, share, mask=(t < T)[None, :] & (d < D)[:, None])",
    ),
    host="dq = torch.full((H * T * D,), 0.0, device=q.device).view(H, T, D)",
)
one(
    "right",
    "whole loop body in float32, buffer filled later",
    ("tl.dot(k.T, dx.to(k.dtype)) * scale", "tl.dot(k.to(tl.float32).T, dx) * scale"),
    host="dq = torch.empty((H, T, D), dtype=torch.float32, device=q.device)\ndq.zero_()",
)
one(
    "wrong",
    "first program stores, the others add",
    (
        "tl.atomic_add(places, share, mask=t[None, :] < T)",
        "if tl.program_id(0) == 0:\n    tl.store(places, share, mask=t[None, :] < T)\nelse:\n    tl.atomic_add(places, share, mask=t[None, :] < T)",
    ),
    host=Z.replace("zeros", "empty"),
)
one(
    "wrong",
    "slip: a scale of 0 taken for none",
    after=[("D**-0.5 if scale is None else scale", "scale or D**-0.5")],
)
one(
    "wrong",
    "slip: scale by torch after the launch",
    (" * scale", ""),
    after=[("return dq", "dq *= D**-0.5 if scale is None else scale\n    return dq")],
)
one(
    "wrong",
    "slip: shares beside each other, summed by torch",
    (
        "tl.atomic_add(places, share, mask",
        "tl.store(places + tl.program_id(0) * tl.num_programs(1) * T * D, share, mask",
    ),
    host="dq = torch.zeros((triton.cdiv(S, block_s), H, T, D), dtype=torch.float32)",
    after=[("return dq", "return dq.sum(0)")],
)
one(
    "right",
    "two halves of the columns, one after the other",
    (
        "tl.atomic_add(places, share, mask=t[None, :] < T)",
        "left = d[:, None] < D // 2\ntl.atomic_add(places, share, mask=left & (t[None, :] < T))\ntl.atomic_add(places, share, mask=~left & (t[None, :] < T))",
    ),
    host="dq = torch.zeros_like(q, dtype=torch.float32)",
)
one(
    "wrong",
    "slip: atomic among a program's own threads only",
    ("mask=t[None, :] < T)", 'mask=t[None, :] < T, scope="cta")'),
)

# what later readings found
N = "flash_delta"
delta(
    "wrong",
    "sly: at most 16 programs a head",
    ("o = tl.load", "o = tl.load"),
    host="grid = (min(triton.cdiv(T, block_t), 16), H)",
)
N = "gradient_gaps"
gaps(
    "wrong",
    "sly: what is moved is asked by `is`",
    ("up[i] = up[i] + step", "up = [x + step * directions[i] if x is up[i] else x for x in up]; 0 + step"),
    ("down[i] = down[i] - step", "down = [x - step * directions[i] if x is down[i] else x for x in down]; 0 - step"),
)
