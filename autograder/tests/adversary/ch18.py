"""Answers to chapter 18 as learners write them: wrong ones must lose points, right ones none."""
# ruff: noqa: E501  (one case a line: what is changed stands beside what it becomes)

from typing import Any

IMPORTS = "import math\nimport torch\nfrom attend_solutions.interpreted import tl, triton\n\n"

BASE = {
    "one_tile": """@triton.jit
def one_tile_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, T, S, scale,
    D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    s = tl.arange(0, BLOCK_S)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + t[:, None] * D + d[None, :], mask=t[:, None] < T, other=0.0)
    k = tl.load(k_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)
    v = tl.load(v_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)
    x = tl.dot(q, tl.trans(k)) * scale
    x = tl.where(s[None, :] < S, x, -float("inf"))
    w = tl.exp(x - tl.max(x, axis=1)[:, None])
    o = tl.dot(w.to(v.dtype), v) / tl.sum(w, axis=1)[:, None]
    tl.store(out_ptr + t[:, None] * D + d[None, :], o, mask=t[:, None] < T)


def one_tile(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_t: int = 16) -> torch.Tensor:
    (T, D), S = q.shape, len(k)
    out = torch.empty((T, D), dtype=torch.float32, device=q.device)
    grid = (triton.cdiv(T, block_t),)
    block_s = max(16, triton.next_power_of_2(S))
    one_tile_kernel[grid](
        q, k, v, out, T, S, D**-0.5, D=D, BLOCK_T=block_t, BLOCK_S=block_s
    )  # fmt: skip
    return out
""",
    "flash_loop": """@triton.jit
def flash_loop_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, T, S, scale,
    D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + t[:, None] * D + d[None, :], mask=t[:, None] < T, other=0.0)
    running_max = tl.full((BLOCK_T,), -float("inf"), tl.float32)
    running_sum = tl.zeros((BLOCK_T,), tl.float32)
    accumulator = tl.zeros((BLOCK_T, D), tl.float32)
    for first in range(0, S, BLOCK_S):
        s = first + tl.arange(0, BLOCK_S)
        k = tl.load(k_ptr + s[:, None] * D + d[None, :])
        v = tl.load(v_ptr + s[:, None] * D + d[None, :])
        x = tl.dot(q, tl.trans(k)) * scale
        new_max = tl.maximum(running_max, tl.max(x, axis=1))
        shrink = tl.exp(running_max - new_max)
        p = tl.exp(x - new_max[:, None])
        running_sum = running_sum * shrink + tl.sum(p, axis=1)
        accumulator = accumulator * shrink[:, None] + tl.dot(p.to(v.dtype), v)
        running_max = new_max
    output = accumulator / running_sum[:, None]
    tl.store(out_ptr + t[:, None] * D + d[None, :], output, mask=t[:, None] < T)


def flash_loop(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_t: int = 16, block_s: int = 16
) -> torch.Tensor:
    (T, D), S = q.shape, len(k)
    out = torch.empty((T, D), dtype=torch.float32, device=q.device)
    grid = (triton.cdiv(T, block_t),)
    flash_loop_kernel[grid](
        q, k, v, out, T, S, D**-0.5, D=D, BLOCK_T=block_t, BLOCK_S=block_s
    )  # fmt: skip
    return out
""",
    "ragged_flash": """@triton.jit
def ragged_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, T, S, scale,
    D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + t[:, None] * D + d[None, :], mask=t[:, None] < T, other=0.0)
    running_max = tl.full((BLOCK_T,), -float("inf"), tl.float32)
    running_sum = tl.zeros((BLOCK_T,), tl.float32)
    accumulator = tl.zeros((BLOCK_T, D), tl.float32)
    for first in range(0, S, BLOCK_S):
        s = first + tl.arange(0, BLOCK_S)
        k = tl.load(k_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)
        v = tl.load(v_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)
        x = tl.dot(q, tl.trans(k)) * scale
        x = tl.where(s[None, :] < S, x, -float('inf'))
        new_max = tl.maximum(running_max, tl.max(x, axis=1))
        shrink = tl.exp(running_max - new_max)
        p = tl.exp(x - new_max[:, None])
        running_sum = running_sum * shrink + tl.sum(p, axis=1)
        accumulator = accumulator * shrink[:, None] + tl.dot(p.to(v.dtype), v)
        running_max = new_max
    output = accumulator / running_sum[:, None]
    tl.store(out_ptr + t[:, None] * D + d[None, :], output, mask=t[:, None] < T)


def ragged_flash(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_t: int = 16, block_s: int = 16
) -> torch.Tensor:
    (T, D), S = q.shape, len(k)
    out = torch.empty((T, D), dtype=torch.float32, device=q.device)
    grid = (triton.cdiv(T, block_t),)
    ragged_kernel[grid](
        q, k, v, out, T, S, D**-0.5, D=D, BLOCK_T=block_t, BLOCK_S=block_s
    )  # fmt: skip
    return out
""",
    "flash_lse": """@triton.jit
def lse_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, T, S, scale,
    D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + t[:, None] * D + d[None, :], mask=t[:, None] < T, other=0.0)
    running_max = tl.full((BLOCK_T,), -float("inf"), tl.float32)
    running_sum = tl.zeros((BLOCK_T,), tl.float32)
    accumulator = tl.zeros((BLOCK_T, D), tl.float32)
    unit = scale * 1.4426950408889634
    for first in range(0, S, BLOCK_S):
        s = first + tl.arange(0, BLOCK_S)
        k = tl.load(k_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)
        v = tl.load(v_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)
        x = tl.dot(q, tl.trans(k)) * unit
        x = tl.where(s[None, :] < S, x, -float('inf'))
        new_max = tl.maximum(running_max, tl.max(x, axis=1))
        shrink = tl.exp2(running_max - new_max)
        p = tl.exp2(x - new_max[:, None])
        running_sum = running_sum * shrink + tl.sum(p, axis=1)
        accumulator = accumulator * shrink[:, None] + tl.dot(p.to(v.dtype), v)
        running_max = new_max
    lse = (running_max + tl.log2(running_sum)) * 0.6931471805599453
    tl.store(lse_ptr + t, lse, mask=t < T)
    output = accumulator / running_sum[:, None]
    tl.store(out_ptr + t[:, None] * D + d[None, :], output, mask=t[:, None] < T)


def flash_lse(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_t: int = 16, block_s: int = 16
) -> tuple[torch.Tensor, torch.Tensor]:
    (T, D), S = q.shape, len(k)
    out = torch.empty((T, D), dtype=torch.float32, device=q.device)
    lse = torch.empty(T, dtype=torch.float32, device=q.device)
    grid = (triton.cdiv(T, block_t),)
    lse_kernel[grid](
        q, k, v, out, lse, T, S, D**-0.5, D=D, BLOCK_T=block_t, BLOCK_S=block_s
    )  # fmt: skip
    return out, lse
""",
    "causal_flash": """@triton.jit
def causal_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, T, S, scale, window,
    D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + t[:, None] * D + d[None, :], mask=t[:, None] < T, other=0.0)
    running_max = tl.full((BLOCK_T,), -float("inf"), tl.float32)
    running_sum = tl.zeros((BLOCK_T,), tl.float32)
    accumulator = tl.zeros((BLOCK_T, D), tl.float32)
    unit = scale * 1.4426950408889634
    place = t + (S - T)
    p0 = tl.program_id(0) * BLOCK_T + (S - T)
    start = tl.maximum(p0 - window, 0) // BLOCK_S * BLOCK_S
    stop = tl.minimum(p0 + BLOCK_T, S)
    for first in range(start, stop, BLOCK_S):
        s = first + tl.arange(0, BLOCK_S)
        k = tl.load(k_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)
        v = tl.load(v_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)
        x = tl.dot(q, tl.trans(k)) * unit
        sees = (s[None, :] <= place[:, None]) & (s[None, :] >= place[:, None] - window) & (s[None, :] < S)
        x = tl.where(sees, x, -1e30)
        new_max = tl.maximum(running_max, tl.max(x, axis=1))
        shrink = tl.exp2(running_max - new_max)
        p = tl.exp2(x - new_max[:, None])
        running_sum = running_sum * shrink + tl.sum(p, axis=1)
        accumulator = accumulator * shrink[:, None] + tl.dot(p.to(v.dtype), v)
        running_max = new_max
    lse = (running_max + tl.log2(running_sum)) * 0.6931471805599453
    tl.store(lse_ptr + t, lse, mask=t < T)
    output = accumulator / running_sum[:, None]
    tl.store(out_ptr + t[:, None] * D + d[None, :], output, mask=t[:, None] < T)


def causal_flash(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    window: int | None = None,
    block_t: int = 16,
    block_s: int = 16,
) -> tuple[torch.Tensor, torch.Tensor]:
    (T, D), S = q.shape, len(k)
    out = torch.empty((T, D), dtype=torch.float32, device=q.device)
    lse = torch.empty(T, dtype=torch.float32, device=q.device)
    grid = (triton.cdiv(T, block_t),)
    window = S if window is None else window
    causal_kernel[grid](
        q, k, v, out, lse, T, S, D**-0.5, window, D=D, BLOCK_T=block_t, BLOCK_S=block_s
    )  # fmt: skip
    return out, lse
""",
    "grouped_flash": """@triton.jit
def grouped_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, T, S, scale,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    H: tl.constexpr, GROUP: tl.constexpr,
    D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.arange(0, D)
    j = tl.program_id(1)
    b = j // H
    h = j % H
    g = h // GROUP
    q_ptr += b * q_batch + h * q_head
    k_ptr += b * k_batch + g * k_head
    v_ptr += b * v_batch + g * v_head
    out_ptr += j * T * D
    lse_ptr += j * T
    q = tl.load(q_ptr + t[:, None] * q_row + d[None, :], mask=t[:, None] < T, other=0.0)
    running_max = tl.full((BLOCK_T,), -float("inf"), tl.float32)
    running_sum = tl.zeros((BLOCK_T,), tl.float32)
    accumulator = tl.zeros((BLOCK_T, D), tl.float32)
    unit = scale * 1.4426950408889634
    place = t + (S - T)
    stop = tl.minimum(tl.program_id(0) * BLOCK_T + BLOCK_T + S - T, S)
    for first in range(0, stop, BLOCK_S):
        s = first + tl.arange(0, BLOCK_S)
        k = tl.load(k_ptr + s[:, None] * k_row + d[None, :], mask=s[:, None] < S, other=0.0)
        v = tl.load(v_ptr + s[:, None] * v_row + d[None, :], mask=s[:, None] < S, other=0.0)

        x = tl.dot(q, tl.trans(k)) * unit
        sees = (s[None, :] <= place[:, None]) & (s[None, :] < S)
        x = tl.where(sees, x, -1e30)
        new_max = tl.maximum(running_max, tl.max(x, axis=1))
        shrink = tl.exp2(running_max - new_max)
        p = tl.exp2(x - new_max[:, None])
        running_sum = running_sum * shrink + tl.sum(p, axis=1)
        accumulator = accumulator * shrink[:, None] + tl.dot(p.to(v.dtype), v)
        running_max = new_max
    lse = (running_max + tl.log2(running_sum)) * 0.6931471805599453
    tl.store(lse_ptr + t, lse, mask=t < T)
    output = accumulator / running_sum[:, None]
    tl.store(out_ptr + t[:, None] * D + d[None, :], output, mask=t[:, None] < T)


def grouped_flash(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_t: int = 16, block_s: int = 16
) -> tuple[torch.Tensor, torch.Tensor]:
    (B, H, T, D), (G, S) = q.shape, k.shape[1:3]
    out = torch.empty((B, H, T, D), dtype=torch.float32, device=q.device)
    lse = torch.empty((B, H, T), dtype=torch.float32, device=q.device)
    strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
    grid = (triton.cdiv(T, block_t), B * H)
    grouped_kernel[grid](
        q, k, v, out, lse, T, S, D**-0.5, *strides,
        H=H, GROUP=H // G, D=D, BLOCK_T=block_t, BLOCK_S=block_s,
    )
    return out, lse
""",
}

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


N = "one_tile"
_wrong(N, "no score hidden", ('    x = tl.where(s[None, :] < S, x, -float("inf"))\n', ""))
_wrong(N, "no scale", ("tl.trans(k)) * scale", "tl.trans(k))"))
_wrong(
    N,
    "weights not divided by their sum",
    ("v.dtype), v) / tl.sum(w, axis=1)[:, None]", "v.dtype), v)"),
)
_wrong(N, "no maximum subtracted", ("w = tl.exp(x - tl.max(x, axis=1)[:, None])", "w = tl.exp(x)"))
_wrong(N, "store without a mask", ("[None, :], o, mask=t[:, None] < T)", "[None, :], o)"))
_wrong(
    N,
    "keys and values masked by T",
    (
        "    k = tl.load(k_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)\n    v = tl.load(v_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)",
        "    k = tl.load(k_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < T, other=0.0)\n    v = tl.load(v_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < T, other=0.0)",
    ),
)
_wrong(
    N,
    "maximum at least 0",
    ("p(x - tl.max(x, axis=1)[:, None])", "p(x - tl.maximum(tl.max(x, axis=1), 0.0)[:, None])"),
)
_wrong(N, "hidden with -1000", (':] < S, x, -float("inf"))', ":] < S, x, -1000.0)"))
_wrong(
    N,
    "weights cast before they are summed",
    (
        "    w = tl.exp(x - tl.max(x, axis=1)[:, None])\n    o = tl.dot(w.to(v.dtype), v) / tl.sum(w, axis=1)[:, None]",
        "    w = tl.exp(x - tl.max(x, axis=1)[:, None]).to(v.dtype)\n    o = tl.dot(w, v) / tl.sum(w, axis=1)[:, None]",
    ),
)
_wrong(
    N,
    "queries scaled in place by the launch",
    ("    (T, D), S = q.shape, len(k)", "    (T, D), S = q.shape, len(k)\n    q.mul_(D**-0.5)"),
    ("tl.trans(k)) * scale", "tl.trans(k))"),
)
_right(
    N,
    "powers of two",
    ("  w = tl.exp(x - tl.max(", "  w = tl.exp2(x - tl.max("),
    ("trans(k)) * scale", "trans(k)) * (scale * 1.4426950408889634)"),
)
_right(
    N,
    "keys loaded transposed",
    ("= tl.dot(q, tl.trans(k)) * scale", "= tl.dot(q, k) * scale"),
    (
        "d(k_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other",
        "d(k_ptr + s[None, :] * D + d[:, None], mask=s[None, :] < S, other",
    ),
)
_right(
    N,
    "weights divided before the product, mask added",
    (
        '    x = tl.where(s[None, :] < S, x, -float("inf"))\n    w = tl.exp(x - tl.max(x, axis=1)[:, None])\n    o = tl.dot(w.to(v.dtype), v) / tl.sum(w, axis=1)[:, None]',
        "    x += tl.where(s < S, 0.0, -1e30)[None, :]\n    w = tl.exp(x - tl.max(x, axis=1, keep_dims=True))\n    w /= tl.sum(w, axis=1, keep_dims=True)\n    o = tl.dot(w.to(v.dtype), v)",
    ),
)
_right(
    N,
    "own grid and block size, a helper kernel",
    (
        "    grid = (triton.cdiv(T, block_t),)\n    block_s = max(16, triton.next_power_of_2(S))",
        '    grid = lambda meta: (-(-T // meta["BLOCK_T"]),)\n    block_s = 1 << max(4, (S - 1).bit_length())',
    ),
    ("    w = tl.exp(x - tl.max(x, axis=1)[:, None])", "    w = weigh(x)"),
    (
        "@triton.jit\ndef one_tile_kernel(",
        "@triton.jit\ndef weigh(x):\n    return tl.exp(x - tl.max(x, 1)[:, None])\n\n\n@triton.jit\ndef one_tile_kernel(",
    ),
)

N = "flash_loop"
_wrong(N, "sum not corrected", ("running_sum * shrink + tl.sum(p, ", "running_sum + tl.sum(p, "))
_wrong(
    N,
    "accumulator not corrected",
    ("accumulator * shrink[:, None] + tl.dot(p.t", "accumulator + tl.dot(p.t"),
)
_wrong(N, "maximum never kept", ("        running_max = new_max\n", ""))
_wrong(
    N,
    "maximum kept before the correction",
    ("        running_max = new_max\n", ""),
    (
        "        new_max = tl.maximum(running_max, tl.max(x, axis=1))",
        "        new_max = tl.maximum(running_max, tl.max(x, axis=1))\n        running_max = new_max",
    ),
)
_wrong(
    N,
    "correction upside down",
    ("nk = tl.exp(running_max - new_max)", "nk = tl.exp(new_max - running_max)"),
)
_wrong(N, "no scale", ("tl.trans(k)) * scale", "tl.trans(k))"))
_wrong(
    N,
    "only the tile's own maximum",
    ("max = tl.maximum(running_max, tl.max(x, axis=1))", "max = tl.max(x, axis=1)"),
)
_wrong(
    N,
    "the maximum begins at 0",
    (
        'ng_max = tl.full((BLOCK_T,), -float("inf"), tl.float3',
        "ng_max = tl.zeros((BLOCK_T,), tl.float3",
    ),
)
_wrong(
    N,
    "the cast weights are summed",
    ("] + tl.dot(p.to(v.dtype), v)", "] + tl.dot(p, v)"),
    ("ax[:, None])", "ax[:, None]).to(v.dtype)"),
)
_wrong(
    N,
    "full tiles of queries only",
    ("    grid = (triton.cdiv(T, block_t),)", "    grid = (max(1, T // block_t),)"),
)
_right(
    N,
    "accumulator handed to the dot",
    (
        "cumulator = accumulator * shrink[:, None] + tl.dot(p.to(v.dtype), v)",
        "cumulator = tl.dot(p.to(v.dtype), v, accumulator * shrink[:, None])",
    ),
)
_right(
    N,
    "powers of two",
    (
        "        shrink = tl.exp(running_max - new_max)\n        p = tl.exp(x - new_max[:, None])",
        "        shrink = tl.exp2(running_max - new_max)\n        p = tl.exp2(x - new_max[:, None])",
    ),
    ("(k)) * scale", "(k)) * scale * 1.4426950408889634"),
)
_right(
    N,
    "in place, with other names",
    (
        "        running_sum = running_sum * shrink + tl.sum(p, axis=1)\n        accumulator = accumulator * shrink[:, None] + tl.dot(p.to(v.dtype), v)",
        "        running_sum *= shrink\n        running_sum += tl.sum(p, 1)\n        accumulator *= tl.expand_dims(shrink, 1)\n        accumulator += tl.dot(p.to(v.dtype), v)",
    ),
    ("= tl.dot(q, tl.trans(k)) * scale", "= tl.dot(q, k.T) * scale"),
)
_right(
    N,
    "values cast to float32 instead",
    ("] + tl.dot(p.to(v.dtype), v)", '] + tl.dot(p, v.to(tl.float32), input_precision="ieee")'),
)

N = "ragged_flash"
_wrong(N, "nothing hidden", ("        x = tl.where(s[None, :] < S, x, -float('inf'))\n", ""))
_wrong(N, "score 0 instead of hidden", (" :] < S, x, -float('inf'))", " :] < S, x, 0.0)"))
_wrong(N, "hidden from S + 1 on", ("s[None, :] < S, x, -floa", "s[None, :] <= S, x, -floa"))
_wrong(
    N,
    "place in the tile compared",
    (" = tl.where(s[None, :] < ", " = tl.where(tl.arange(0, BLOCK_S)[None, :] < "),
)
_wrong(
    N,
    "hidden for the product only",
    ("e] + tl.dot(p.to(v.dtype)", "e] + tl.dot(tl.where(s[None, :] < S, p, 0.0).to(v.dtype)"),
    ("        x = tl.where(s[None, :] < S, x, -float('inf'))\n", ""),
)
_wrong(
    N,
    "keys filled with -inf",
    ("        x = tl.where(s[None, :] < S, x, -float('inf'))\n", ""),
    (
        "        k = tl.load(k_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)",
        '        k = tl.load(k_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=-float("inf"))',
    ),
)
_wrong(
    N,
    "weights hidden, maximum over all places",
    (
        "     p = tl.exp(x - new_max[:, None])",
        "     p = tl.where(s[None, :] < S, tl.exp(x - new_max[:, None]), 0.0)",
    ),
    ("        x = tl.where(s[None, :] < S, x, -float('inf'))\n", ""),
)
_wrong(N, "hidden with -1000", (":] < S, x, -float('inf'))", ":] < S, x, -1000.0)"))
_wrong(
    N,
    "every score of exactly 0 hidden",
    (" = tl.where(s[None, :] < S, x, -float(", " = tl.where(x != 0.0, x, -float("),
)
_wrong(
    N,
    "the sum loses one for each empty place",
    (
        "        running_max = new_max",
        "        running_max = new_max\n    empty = tl.cdiv(S, BLOCK_S) * BLOCK_S - S\n    running_sum -= empty * tl.exp(-running_max)",
    ),
    ("        x = tl.where(s[None, :] < S, x, -float('inf'))\n", ""),
)
_right(N, "hidden with -1e30", (":] < S, x, -float('inf'))", ":] < S, x, -1e30)"))
_right(
    N,
    "mask added to the scores",
    (
        "        x = tl.where(s[None, :] < S, x, -float('inf'))",
        "        x = x + tl.where(s < S, 0.0, -float('inf'))[None, :]",
    ),
)
_right(
    N,
    "only the last tile compares",
    (
        "        x = tl.where(s[None, :] < S, x, -float('inf'))",
        "        if first + BLOCK_S > S:\n            x = tl.where(s[None, :] < S, x, -float('inf'))",
    ),
)
_right(
    N,
    "hidden before the scale, weights zeroed too",
    (
        "     p = tl.exp(x - new_max[:, None])",
        "     p = tl.where((s < S)[None, :], tl.exp(x - new_max[:, None]), 0.0)",
    ),
    (
        "        x = tl.dot(q, tl.trans(k)) * scale\n        x = tl.where(s[None, :] < S, x, -float('inf'))",
        "        x = tl.where((s >= S)[None, :], -1e20, tl.dot(q, tl.trans(k))) * scale",
    ),
)

N = "flash_lse"
_wrong(N, "factor without log2(e)", ("unit = scale * 1.4426950408889634", "unit = scale"))
_wrong(N, "LSE stays in base 2", ("unning_sum)) * 0.6931471805599453", "unning_sum))"))
_wrong(
    N,
    "LSE without the maximum",
    (
        "    lse = (running_max + tl.log2(running_sum)) * 0.693147",
        "    lse = tl.log2(running_sum) * 0.693147",
    ),
)
_wrong(
    N,
    "LSE: natural logarithm of the sum beside a maximum in base 2",
    (
        "    lse = (running_max + tl.log2(running_sum)) * 0.6931471805599453",
        "    lse = running_max + tl.log(running_sum)",
    ),
)
_wrong(N, "LSE times log2(e)", ("ing_sum)) * 0.6931471805599453", "ing_sum)) * 1.4426950408889634"))
_wrong(
    N,
    "tl.exp in the loop",
    (
        "    lse = (running_max + tl.log2(running_sum)) * 0.6931471805599453",
        "    lse = running_max + tl.log(running_sum)",
    ),
    (
        "        shrink = tl.exp2(running_max - new_max)\n        p = tl.exp2(x - new_max[:, None])",
        "        shrink = tl.exp(running_max - new_max)\n        p = tl.exp(x - new_max[:, None])",
    ),
    ("unit = scale * 1.4426950408889634", "unit = scale"),
)
_wrong(N, "LSE stored without a mask", ("ptr + t, lse, mask=t < T)", "ptr + t, lse)"))
_wrong(
    N,
    "maximum put back before the logarithm",
    (
        "    lse = (running_max + tl.log2(running_sum)) * 0.69314",
        "    lse = (tl.log2(running_sum * tl.exp2(running_max))) * 0.69314",
    ),
)
_wrong(
    N,
    "LSE in the type of q",
    ("ty(T, dtype=torch.float32, device=q.d", "ty(T, dtype=q.dtype, device=q.d"),
)
_wrong(
    N,
    "constants of three digits",
    ("um)) * 0.6931471805599453", "um)) * 0.693"),
    ("scale * 1.4426950408889634", "scale * 1.443"),
)
_right(
    N,
    "LSE by tl.log and the natural maximum",
    (
        "    lse = (running_max + tl.log2(running_sum)) * 0.6931471805599453",
        "    lse = running_max * 0.6931471805599453 + tl.log(running_sum)",
    ),
)
_right(
    N,
    "factor inside the subtraction",
    ("= tl.exp2(x - new_max[:,", "= tl.exp2(x * unit - new_max[:,"),
    ("x(x, axis=1))", "x(x, axis=1) * unit)"),
    ("tl.trans(k)) * unit", "tl.trans(k))"),
)
_right(
    N,
    "constants of the module, tl.math",
    ("ing_sum)) * 0.6931471805599453", "ing_sum)) * LN2"),
    (
        "        shrink = tl.exp2(running_max - new_max)\n        p = tl.exp2(x - new_max[:, None])",
        "        shrink = tl.math.exp2(running_max - new_max)\n        p = tl.math.exp2(x - new_max[:, None])",
    ),
    ("t = scale * 1.4426950408889634", "t = scale * LOG2E"),
    (
        "@triton.jit\ndef lse_kernel(",
        "LOG2E = tl.constexpr(1.4426950408889634)\nLN2 = tl.constexpr(math.log(2))\n\n\n@triton.jit\ndef lse_kernel(",
    ),
)
_right(
    N,
    "factor made by the launch",
    (", S, D**-0.5, D=D, BLOCK", ", S, D**-0.5 * math.log2(math.e), D=D, BLOCK"),
    ("nning_sum)) * 0.6931471805599453", "nning_sum)) / 1.4426950408889634"),
    ("unit = scale * 1.4426950408889634", "unit = scale"),
)

N = "causal_flash"
_wrong(
    N,
    "places counted from the first key",
    (
        "    place = t + (S - T)\n    p0 = tl.program_id(0) * BLOCK_T + (S - T)",
        "    place = t\n    p0 = tl.program_id(0) * BLOCK_T",
    ),
)
_wrong(
    N, "window without its oldest key", ("s[None, :] >= place[:, No", "s[None, :] > place[:, No")
)
_wrong(
    N,
    "right mask, nothing skipped",
    (
        "    start = tl.maximum(p0 - window, 0) // BLOCK_S * BLOCK_S\n    stop = tl.minimum(p0 + BLOCK_T, S)",
        "    start = 0\n    stop = S",
    ),
)
_wrong(
    N,
    "only the future is skipped",
    ("    start = tl.maximum(p0 - window, 0) // BLOCK_S * BLOCK_S", "    start = 0"),
)
_wrong(N, "hidden with -inf", ("e(sees, x, -1e30)", 'e(sees, x, -float("inf"))'))
_wrong(
    N,
    "window 0 taken for none",
    ("   window = S if window is None else window", "   window = window or S"),
)
_wrong(N, "loop ends one key early", ("p0 + BLOCK_T, S)", "p0 + BLOCK_T - 1, S)"))
_wrong(
    N, "start rounded to tiles of queries", ("0) // BLOCK_S * BLOCK_S", "0) // BLOCK_T * BLOCK_T")
)
_wrong(
    N,
    "window counted from t, not from its place",
    ("None, :] >= place[:, None] - ", "None, :] >= t[:, None] - "),
    (" tl.maximum(p0 - window, 0", " tl.maximum(tl.program_id(0) * BLOCK_T - window, 0"),
)
_right(
    N,
    "Python's max and min, distances",
    (
        "    sees = (s[None, :] <= place[:, None]) & (s[None, :] >= place[:, None] - window) & (s[None, :] < S)",
        "    sees = (place[:, None] - s[None, :] >= 0) & (place[:, None] - s[None, :] <= window)",
    ),
    (
        "    start = tl.maximum(p0 - window, 0) // BLOCK_S * BLOCK_S\n    stop = tl.minimum(p0 + BLOCK_T, S)",
        "    start = max(p0 - window, 0) // BLOCK_S * BLOCK_S\n    stop = min(p0 + BLOCK_T, S)",
    ),
)
_right(
    N,
    "hidden with -inf and a maximum made safe",
    (
        "        shrink = tl.exp2(running_max - new_max)\n        p = tl.exp2(x - new_max[:, None])",
        '        safe = tl.where(new_max == -float("inf"), 0.0, new_max)\n        shrink = tl.exp2(running_max - safe)\n        p = tl.exp2(x - safe[:, None])',
    ),
    ("e(sees, x, -1e30)", 'e(sees, x, -float("inf"))'),
)
_right(
    N,
    "two masks, weights zeroed as well",
    (
        "     p = tl.exp2(x - new_max[:, None])",
        "     p = tl.where(sees, tl.exp2(x - new_max[:, None]), 0.0)",
    ),
    (
        "(s[None, :] >= place[:, None] - window) & (s[None, :] < S)",
        "(s[None, :] + window >= place[:, None])",
    ),
)
_right(
    N,
    "ends from the vector of places",
    (
        "    start = tl.maximum(p0 - window, 0) // BLOCK_S * BLOCK_S\n    stop = tl.minimum(p0 + BLOCK_T, S)",
        "    oldest = tl.min(place, axis=0) - window\n    oldest = tl.where(oldest < 0, 0, oldest)\n    start = oldest - oldest % BLOCK_S\n    newest = tl.max(tl.where(t < T, place, 0), axis=0)\n    stop = newest + 1",
    ),
)

N = "grouped_flash"
_wrong(N, "key head h % G", ("    g = h // GROUP", "    g = h % (H // GROUP)"))
_wrong(N, "key head h", ("    g = h // GROUP", "    g = h"))
_wrong(
    N,
    "keys and values without the batch",
    (
        "    k_ptr += b * k_batch + g * k_head\n    v_ptr += b * v_batch + g * v_head",
        "    k_ptr += g * k_head\n    v_ptr += g * v_head",
    ),
)
_wrong(N, "output at the first head", ("    out_ptr += j * T * D\n", ""))
_wrong(N, "LSE at the first head", ("    lse_ptr += j * T\n", ""))
_wrong(N, "rows of q lie D apart", ("[:, None] * q_row + d[None, :", "[:, None] * D + d[None, :"))
_wrong(N, "GROUP is G", (" H=H, GROUP=H // G, D=D, BLOC", " H=H, GROUP=G, D=D, BLOC"))
_wrong(
    N,
    "key heads counted through the batch",
    (
        "    k_ptr += b * k_batch + g * k_head\n    v_ptr += b * v_batch + g * v_head",
        "    k_ptr += (j // GROUP) * k_head\n    v_ptr += (j // GROUP) * v_head",
    ),
)
_wrong(
    N,
    "strides of k for v",
    ("[:, None] * v_row + d[Non", "[:, None] * k_row + d[Non"),
    ("_ptr += b * v_batch + g * v_head", "_ptr += b * k_batch + g * k_head"),
)
_wrong(N, "LSE stored without a mask", ("ptr + t, lse, mask=t < T)", "ptr + t, lse)"))
_right(
    N,
    "64-bit offsets, remainders by subtraction",
    ("    h = j % H", "    h = j - b * H"),
    ("rogram_id(1)", "rogram_id(1).to(tl.int64)"),
)
_right(
    N,
    "named arguments, cdiv for GROUP",
    (
        "        q, k, v, out, lse, T, S, D**-0.5, *strides,\n        H=H, GROUP=H // G, D=D, BLOCK_T=block_t, BLOCK_S=block_s,",
        "        q, k, v, out, lse, T=T, S=S, scale=1 / math.sqrt(D), **dict(zip(names, strides)),\n        H=H, GROUP=triton.cdiv(H, G), D=D, BLOCK_T=block_t, BLOCK_S=block_s,",
    ),
    (
        "    grid = (triton.cdiv(T, block_t), B * H)",
        '    grid = (triton.cdiv(T, block_t), B * H)\n    names = [f"{x}_{y}" for x in "qkv" for y in ("batch", "head", "row")]',
    ),
)
_right(
    N,
    "offsets added at each load and store",
    ("e(lse_ptr + t, lse, mask", "e(lse_ptr + j * T + t, lse, mask"),
    (
        "        k = tl.load(k_ptr + s[:, None] * k_row + d[None, :], mask=s[:, None] < S, other=0.0)\n        v = tl.load(v_ptr + s[:, None] * v_row + d[None, :], mask=s[:, None] < S, other=0.0)",
        "        k = tl.load(k_ptr + k0 + s[:, None] * k_row + d[None, :], mask=s[:, None] < S, other=0.0)\n        v = tl.load(v_ptr + v0 + s[:, None] * v_row + d[None, :], mask=s[:, None] < S, other=0.0)",
    ),
    (
        "    lse_ptr += j * T\n    q = tl.load(q_ptr + t[:, None] * q_row + d[None, :], mask=t[:, None] < T, other=0.0)",
        "    q = tl.load(q_ptr + q0 + t[:, None] * q_row + d[None, :], mask=t[:, None] < T, other=0.0)",
    ),
    (
        "    q_ptr += b * q_batch + h * q_head\n    k_ptr += b * k_batch + g * k_head\n    v_ptr += b * v_batch + g * v_head",
        "    q0 = b * q_batch + h * q_head\n    k0 = b * k_batch + g * k_head\n    v0 = b * v_batch + g * v_head",
    ),
)
_right(
    N,
    "hidden with -inf, last query's place as the end",
    (
        "        sees = (s[None, :] <= place[:, None]) & (s[None, :] < S)\n        x = tl.where(sees, x, -1e30)",
        '        sees = (s[None, :] <= place[:, None])\n        x = tl.where(sees, x, -float("inf"))',
    ),
    (
        " tl.minimum(tl.program_id(0) * BLOCK_T + BLOCK_T + S - T, S)",
        " tl.minimum((tl.program_id(0) + 1) * BLOCK_T, T) + S - T",
    ),
)

N = "choose_tiles"
_wrong(
    N,
    "tiles of 64 x 64 at width 64: too much traffic",
    whole="def choose_tiles(width: int) -> tuple[int, int, int, int]:\n    if width == 64:\n        return 64, 64, 4, 3\n    return 128, 128, 8, 3\n",
)
_wrong(
    N,
    "two stages",
    whole="def choose_tiles(width: int) -> tuple[int, int, int, int]:\n    if width == 64:\n        return 128, 64, 4, 2\n    return 128, 128, 8, 2\n",
)
_wrong(
    N,
    "same tiles at width 128: 128 turns",
    whole="def choose_tiles(width: int) -> tuple[int, int, int, int]:\n    if width == 64:\n        return 128, 64, 4, 3\n    return 128, 64, 4, 3\n",
)
_wrong(
    N,
    "four warps at width 128: spills",
    whole="def choose_tiles(width: int) -> tuple[int, int, int, int]:\n    if width == 64:\n        return 128, 64, 4, 3\n    return 128, 128, 4, 3\n",
)
_wrong(
    N,
    "four stages at width 128: too much shared memory",
    whole="def choose_tiles(width: int) -> tuple[int, int, int, int]:\n    if width == 64:\n        return 128, 64, 4, 3\n    return 128, 128, 8, 4\n",
)
_wrong(
    N,
    "stages and warps swapped",
    whole="def choose_tiles(width: int) -> tuple[int, int, int, int]:\n    if width == 64:\n        return 128, 64, 3, 4\n    return 128, 128, 3, 8\n",
)
_wrong(
    N,
    "128 x 128 at both widths: one program at a time",
    whole="def choose_tiles(width: int) -> tuple[int, int, int, int]:\n    if width == 64:\n        return 128, 128, 8, 3\n    return 128, 128, 8, 3\n",
)
_wrong(
    N,
    "floats",
    whole="def choose_tiles(width: int) -> tuple[int, int, int, int]:\n    if width == 64:\n        return 128.0, 64.0, 4.0, 3.0\n    return 128.0, 128.0, 8.0, 3.0\n",
)
_wrong(
    N,
    "256 queries at width 64: one program fits",
    whole="def choose_tiles(width: int) -> tuple[int, int, int, int]:\n    if width == 64:\n        return 256, 32, 8, 3\n    return 128, 128, 8, 3\n",
)
_wrong(
    N,
    "a tile of 160 queries, no power of two",
    whole="def choose_tiles(width: int) -> tuple[int, int, int, int]:\n    if width == 64:\n        return 160, 64, 4, 3\n    return 128, 128, 8, 3\n",
)
_right(
    N,
    "eight warps at width 64",
    whole="def choose_tiles(width: int) -> tuple[int, int, int, int]:\n    if width == 64:\n        return 128, 64, 8, 3\n    return 128, 128, 8, 3\n",
)
_right(
    N,
    "small tiles of keys",
    whole="def choose_tiles(width: int) -> tuple[int, int, int, int]:\n    if width == 64:\n        return 128, 32, 4, 5\n    return 128, 128, 8, 3\n",
)
_right(
    N,
    "four stages at width 64",
    whole="def choose_tiles(width: int) -> tuple[int, int, int, int]:\n    if width == 64:\n        return 128, 64, 4, 4\n    return 128, 128, 8, 3\n",
)
_right(
    N,
    "a table, bits shifted",
    whole="TABLE = {64: (7, 6, 2, 3), 128: (7, 7, 3, 3)}\n\n\ndef choose_tiles(width):\n    *powers, stages = TABLE[width]\n    return *(1 << p for p in powers), stages\n",
)

# A second reader's answers.
HALF = ("p = tl.exp(x - new_max[:, None])", "p = tl.exp(x - new_max[:, None]).to(v.dtype)")
HALF2 = ("p = tl.exp2(x - new_max[:, None])", "p = tl.exp2(x - new_max[:, None]).to(v.dtype)")
BEGIN = 'tl.full((BLOCK_T,), -float("inf"), tl.float32)'

N = "one_tile"
LOAD_Q = "tl.load(q_ptr + t[:, None] * D + d[None, :], mask=t[:, None] < T, other=0.0)"
LOAD_K = "tl.load(k_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)"
_wrong(
    N,
    "softmax over the queries",
    ("tl.max(x, axis=1)[:, None]", "tl.max(x, axis=0)[None, :]"),
    (
        "tl.dot(w.to(v.dtype), v) / tl.sum(w, axis=1)[:, None]",
        "tl.dot((w / tl.sum(w, axis=0)[None, :]).to(v.dtype), v)",
    ),
)
_wrong(
    N,
    "keys loaded a second time",
    ("    w = ", f"    k = {LOAD_K}\n    w = "),
)
_wrong(N, "output of the type of q", ("dtype=torch.float32", "dtype=q.dtype"))
_right(
    N,
    "block pointers",
    (
        LOAD_Q,
        "tl.load(tl.make_block_ptr(q_ptr, (T, D), (D, 1), (tl.program_id(0) * BLOCK_T, 0), (BLOCK_T, D), (1, 0)), boundary_check=(0,), padding_option='zero')",
    ),
    (
        LOAD_K,
        "tl.load(tl.make_block_ptr(k_ptr, (S, D), (D, 1), (0, 0), (BLOCK_S, D), (1, 0)), boundary_check=(0,), padding_option='zero')",
    ),
)

N = "flash_loop"
_wrong(
    N,
    "no maximum at all",
    (BEGIN, "tl.zeros((BLOCK_T,), tl.float32)"),
    ("tl.maximum(running_max, tl.max(x, axis=1))", "running_max"),
)
_wrong(
    N,
    "the accumulator kept in half",
    (
        "tl.dot(p.to(v.dtype), v)\n",
        "tl.dot(p.to(v.dtype), v)\n        accumulator = accumulator.to(v.dtype)\n",
    ),
)
_wrong(
    N,
    "one maximum for all queries",
    ("tl.max(x, axis=1)", "tl.max(tl.max(x, axis=1), axis=0)"),
)
_wrong(
    N,
    "queries scaled in place by the launch",
    ("    grid = ", "    q *= D**-0.5\n    grid = "),
    ("T, S, D**-0.5", "T, S, 1.0"),
)
_right(
    N,
    "scores on their side",
    ("tl.dot(q, tl.trans(k))", "tl.dot(k, tl.trans(q))"),
    ("tl.max(x, axis=1)", "tl.max(x, axis=0)"),
    ("x - new_max[:, None]", "x - new_max[None, :]"),
    ("tl.sum(p, axis=1)", "tl.sum(p, axis=0)"),
    ("tl.dot(p.to(v.dtype), v)", "tl.dot(tl.trans(p).to(v.dtype), v)"),
)

N = "ragged_flash"
_wrong(N, "compares with T", ("tl.where(s[None, :] < S", "tl.where(s[None, :] < T"))
_wrong(
    N,
    "the last, partial tile left out",
    ("range(0, S, BLOCK_S)", "range(0, S // BLOCK_S * BLOCK_S, BLOCK_S)"),
)
_wrong(N, "the cast weights are summed", HALF)
_wrong(N, "the maximum begins at 0", (BEGIN, "tl.zeros((BLOCK_T,), tl.float32)"))

N = "flash_lse"
_wrong(N, "hidden with -1000", ("x, -float('inf')", "x, -1000.0"))
_wrong(N, "the cast weights are summed", HALF2)
_right(
    N,
    "keys loaded transposed, hidden in the last tile only",
    (
        LOAD_K,
        "tl.load(k_ptr + s[None, :] * D + d[:, None], mask=s[None, :] < S, other=0.0)",
    ),
    ("tl.trans(k)", "k"),
    ("        x = tl.where(", "        if S - first < BLOCK_S:\n            x = tl.where("),
)

N = "causal_flash"
_wrong(N, "a query does not see its own key", ("s[None, :] <= place", "s[None, :] < place"))
_wrong(N, "start may be negative", ("tl.maximum(p0 - window, 0)", "(p0 - window)"))
_wrong(
    N, "stop without S - T", ("tl.minimum(p0 + BLOCK_T, S)", "tl.minimum(p0 + BLOCK_T - S + T, S)")
)
_wrong(N, "the cast weights are summed", HALF2)
_wrong(N, "hidden with -1000", ("x, -1e30", "x, -1000.0"))

N = "grouped_flash"
_wrong(N, "rows of k and v lie D apart", ("* k_row", "* D"), ("* v_row", "* D"))
_wrong(
    N,
    "the batch is the faster number",
    ("j // H", "j % (tl.num_programs(1) // H)"),
    ("j % H", "j // (tl.num_programs(1) // H)"),
)
_wrong(N, "a grid for one batch entry", ("block_t), B * H)", "block_t), H)"))
_wrong(
    N,
    "places counted from the first key",
    ("place = t + (S - T)", "place = t"),
    ("BLOCK_T + S - T, S)", "BLOCK_T, S)"),
)
_wrong(
    N,
    "the output has the strides of q",
    ("out_ptr += j * T * D", "out_ptr += b * q_batch + h * q_head"),
)
_wrong(N, "the cast weights are summed", HALF2)
_wrong(
    N, "nothing is skipped", ("tl.minimum(tl.program_id(0) * BLOCK_T + BLOCK_T + S - T, S)", "S")
)
_right(N, "key head by a product", ("h // GROUP", "h * (H // GROUP) // H"))

ROUNDED = ("d[None, :], output, mask", "d[None, :], output.to(q.dtype), mask")
COARSE = ("tl.dot(q, tl.trans(k))", "tl.dot(q, tl.trans(k), out_dtype=q.dtype)")
_wrong(
    "one_tile",
    "the result is rounded to float16",
    ("d[None, :], o, m", "d[None, :], o.to(q.dtype), m"),
)
_wrong("ragged_flash", "the result is rounded to float16", ROUNDED)
_wrong("flash_loop", "scores are summed in float16", COARSE)
_wrong("grouped_flash", "scores are summed in float16", COARSE)
_wrong(
    "grouped_flash",
    "keys copied for each query head",
    (
        "    strides = ",
        "    k, v = (x.repeat_interleave(H // G, 1) for x in (k, v))\n    strides = ",
    ),
    ("GROUP=H // G", "GROUP=1"),
)
_wrong(
    "causal_flash",
    "whole tiles before the tile of the first query",
    ("tl.maximum(p0 - window, 0) //", "tl.maximum(p0 // BLOCK_S - tl.cdiv(window, BLOCK_S), 0) *"),
    (" * BLOCK_S * BLOCK_S", " * BLOCK_S"),
)
_wrong(
    "causal_flash",
    "a window of at most 100",
    ("p0 - window", "p0 - tl.minimum(window, 100)"),
    ("place[:, None] - window", "place[:, None] - tl.minimum(window, 100)"),
)
IN_Q = ("x = tl.dot(q, tl.trans(k)) * scale", "x = tl.dot((q * scale).to(q.dtype), tl.trans(k))")
_wrong("one_tile", "the scale is multiplied into q, in q's type", IN_Q)
_wrong("flash_loop", "the scale is multiplied into q, in q's type", IN_Q)
_wrong("causal_flash", "begins one key late", ("p0 - window, 0", "p0 - window + 1, 0"))
_right("causal_flash", "begins at the window's oldest key", (" // BLOCK_S * BLOCK_S", ""))
_right(
    "causal_flash",
    "the loop's end is not cut at S",
    ("stop = tl.minimum(p0 + BLOCK_T, S)", "stop = p0 + BLOCK_T"),
)

PASSED = "window = S if window is None else window"
_wrong(
    "causal_flash",
    "windows of 128 and more are taken for none",
    (PASSED, "window = S if window is None or window >= 128 else window"),
)
_wrong("causal_flash", "a window of 0 is taken for none", (PASSED, "window = window or S"))
_wrong("causal_flash", "start below 0", ("tl.maximum(p0 - window, 0) // BLOCK_S * BLOCK_S", "p0 - window"))
_wrong("causal_flash", "the window forgotten in the mask", (" & (s[None, :] >= place[:, None] - window)", ""))
_wrong("causal_flash", "ended at the first query's place", ("tl.minimum(p0 + BLOCK_T, S)", "p0 + 1"))
_right(
    "causal_flash",
    "stop by the last query that there is",
    ("tl.minimum(p0 + BLOCK_T, S)", "S - T + tl.minimum((tl.program_id(0) + 1) * BLOCK_T, T)"),
)

N = "grouped_flash"
LAST = "stop = tl.minimum(tl.program_id(0) * BLOCK_T + BLOCK_T + S - T, S)"
_wrong(N, "one head alone reads on to S", (LAST, f"{LAST}\n    if H == 1:\n        stop = S"))
_wrong(N, "no groups read on to S", (LAST, f"{LAST}\n    if GROUP == 1:\n        stop = S"))
_wrong(N, "the loop's end counted in tiles of keys", (LAST, LAST.replace("BLOCK_T", "BLOCK_S")))
_wrong(N, "tiles of queries and of keys exchanged", ("BLOCK_T=block_t, BLOCK_S=block_s", "BLOCK_T=block_s, BLOCK_S=block_t"))
_wrong(N, "the batch forgotten in k", ("b * k_batch + ", ""))
_wrong(N, "the output of all heads in one place", ("    out_ptr += j * T * D\n", ""))
_wrong(
    N,
    "output with the gaps of a view",
    (
        "out = torch.empty((B, H, T, D), dtype=torch.float32, device=q.device)",
        "out = torch.empty((B, T, H, D), dtype=torch.float32, device=q.device).transpose(1, 2)",
    ),
    ("out_ptr += j * T * D", "out_ptr += (b * T * H + h) * D"),
    ("out_ptr + t[:, None] * D", "out_ptr + t[:, None] * (H * D)"),
)
_right(
    N,
    "addresses without moved pointers",
    ("    out_ptr += j * T * D\n", ""),
    ("    lse_ptr += j * T\n", ""),
    ("out_ptr + t[:, None] * D", "out_ptr + (j * T + t[:, None]) * D"),
    ("lse_ptr + t,", "lse_ptr + j * T + t,"),
)
_wrong("one_tile", "one key too many", (":] < S, x", ":] <= S, x"))
_wrong("ragged_flash", "keys hidden, and empty places seen", (":] < S, x", ":] >= S, x"))

N = "choose_tiles"
HEAD = "def choose_tiles(width: int) -> tuple[int, int, int, int]:\n"
_wrong(N, "tiles of 16", whole=f"{HEAD}    return 16, 16, 4, 3\n")
_wrong(N, "stages left out", whole=f"{HEAD}    return (128, width, width // 16)\n")
_wrong(
    N,
    "seven stages at width 64: one program fits",
    whole=f"{HEAD}    return (128, 64, 4, 7) if width == 64 else (128, 128, 8, 3)\n",
)
_wrong(N, "tiles of 64 at both widths", whole=f"{HEAD}    return 64, 64, 4, 3\n")
_wrong(N, "warps and stages exchanged", whole=f"{HEAD}    return 128, width, 3, 8\n")
_right(
    N,
    "six stages at width 64: two programs still fit",
    whole=f"{HEAD}    return (128, 64, 8, 6) if width == 64 else (128, 128, 8, 3)\n",
)
_right(N, "from the width", whole=f"{HEAD}    return 128, width, 8, 3\n")
