"""The forward kernel behind ``flash_attention`` and what it shares with the backward kernels.

Equations, letters and memory traffic: see ``attend_kernels.flash``. One program owns BLOCK_T
queries of one head. It keeps their rows of the answer in registers and walks over the keys in tiles
of BLOCK_S, so no score ever reaches memory.

Scores live in base 2 (``exp2`` is one instruction on a GPU, ``exp`` is two) and in two factors: a
tile ``x`` and a number ``unit``, with log2(e) * score = x * unit. The multiplication then fuses
with the subtraction of the running maximum: exp2(x * unit - running_max) costs one FMA, one exp2.
Options that are off are ``None``, which Triton knows at compile time: they cost nothing.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals
# Pyright takes a call from one jitted function to another for one that raises:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from attend_kernels import fallback, flash_configs
from attend_kernels.flash_configs import Tile

LOG2E = tl.constexpr(math.log2(math.e))
LN2 = tl.constexpr(math.log(2.0))
# A masked score: finite, for -inf - (-inf) is NaN; its weight is zeroed by the mask itself.
MASKED_SCORE = tl.constexpr(-1e30)


@triton.jit
def locate(pid, tiles, heads, tiles_ptr, q_starts_ptr, k_starts_ptr, T, S, BLOCK: tl.constexpr):
    """Say which tile a program owns: its first row, head, sequence, and that sequence's extent.

    Packed sequences come with a table of tiles: (sequence, first row) each.
    """
    tile = pid % tiles
    head = (pid // tiles % heads).to(tl.int64)
    batch = (pid // (tiles * heads)).to(tl.int64)
    first = tile * BLOCK
    q_start = tl.full((), 0, tl.int64)
    k_start = tl.full((), 0, tl.int64)
    if tiles_ptr is not None:
        sequence = tl.load(tiles_ptr + 2 * tile)
        first = tl.load(tiles_ptr + 2 * tile + 1)
        q_start = tl.load(q_starts_ptr + sequence).to(tl.int64)
        k_start = tl.load(k_starts_ptr + sequence).to(tl.int64)
        T = (tl.load(q_starts_ptr + sequence + 1) - q_start).to(tl.int32)
        S = (tl.load(k_starts_ptr + sequence + 1) - k_start).to(tl.int32)
    return first, batch, head, q_start, k_start, T, S


@triton.jit
def tile_range(first, last, shift, before, after, length, STEP: tl.constexpr):
    """Split the other axis for rows ``first..last``: (start, full_start, full_stop, stop).

    Row a may see [a + shift - before, a + shift + after]. Tiles in [full_start, full_stop) are
    seen whole by all the rows and need no mask; those in [start, full_start) and [full_stop, stop)
    are cut by an edge; all others are skipped.
    """
    start = 0
    full_start = 0
    stop = length
    full_stop = length
    if before is not None:
        start = tl.maximum(first + shift - before, 0) // STEP * STEP
        full_start = tl.cdiv(tl.maximum(last + shift - before, 0), STEP) * STEP
    if after is not None:
        stop = tl.minimum(length, last + shift + after + 1)
        full_stop = tl.minimum(length, first + shift + after + 1)
    full_stop = tl.maximum(tl.maximum(full_stop, 0) // STEP * STEP, full_start)
    return start, full_start, full_stop, stop


@triton.jit
def load_rows(
    ptr,
    first,
    row_stride,
    length,
    MASKED: tl.constexpr,
    ROWS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """Load rows ``first..first+ROWS`` of a matrix with D columns; zeros outside it."""
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK_D)[None, :]
    # The 64-bit product is one number a tile; within a tile 32 bits are enough.
    at = ptr + tl.cast(first, tl.int64) * row_stride + (row * row_stride + column)
    if MASKED and D < BLOCK_D:
        return tl.load(at, mask=(first + row < length) & (column < D), other=0.0)
    elif MASKED:
        return tl.load(at, mask=first + row < length, other=0.0)
    elif D < BLOCK_D:
        return tl.load(at, mask=column < D, other=0.0)
    else:
        return tl.load(at)


@triton.jit
def store_rows(
    ptr, first, row_stride, length, x, ROWS: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr
):
    """Store ``x`` to rows ``first..first+ROWS`` of a matrix with D columns, and nowhere else."""
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK_D)[None, :]
    at = ptr + tl.cast(first, tl.int64) * row_stride + (row * row_stride + column)
    tl.store(at, x.to(ptr.dtype.element_ty), mask=(first + row < length) & (column < D))


@triton.jit
def tanh(x, EXACT: tl.constexpr):
    """tanh from exp2 of a negative number, which never overflows. (Triton's own cannot be
    interpreted.) Near 0, where 1 - exp2 cancels, EXACT takes its series instead; for fp16 and bf16
    the 1e-7 that is lost does not matter.
    """
    e = tl.exp2(tl.abs(x) * (-2.0 * LOG2E))
    y = (1.0 - e) / (1.0 + e)
    y = tl.where(x < 0, -y, y)
    if EXACT:
        x2 = x * x
        near = x * (1 - x2 * (1 / 3 - x2 * (2 / 15 - x2 * (17 / 315 - x2 * (62 / 2835)))))
        y = tl.where(tl.abs(x) < 0.25, near, y)
    return y


@triton.jit
def score_unit(scale, softcap):
    """The number that turns the tile of ``bend`` into base-2 scores."""
    unit = scale * LOG2E
    if softcap is not None:
        unit = softcap * LOG2E
    return unit


@triton.jit
def bend(x, t, s, shift, scale, softcap, slope, DOT: tl.constexpr):
    """Soft cap and ALiBi on raw products q.k: (x with log2(e) score = x * unit, dscore/dx factor).

    ``t`` and ``s`` are query and key positions, broadcastable to x; the factor is 1 - tanh^2.
    """
    factor = 1.0
    if softcap is not None:
        x = tanh(x * (scale / softcap), tl.float32 == DOT)
        factor = 1.0 - x * x
    if slope is not None:
        x -= (slope * LOG2E / score_unit(scale, softcap)) * tl.abs(t + shift - s).to(tl.float32)
    return x, factor


@triton.jit
def visible(t, s, shift, S, left, right):
    """Mask of the (query, key) pairs that exist and that causal order or a window let through."""
    seen = s < S
    if right is not None:
        seen &= s <= t + shift + right
    if left is not None:
        seen &= s >= t + shift - left
    return seen


@triton.jit
def attend_tiles(
    output, running_max, running_sum, q, t, k_ptr, v_ptr, k_row, v_row,
    start, stop, full_start, full, shift, S, left, right, scale, softcap, slope,
    MASKED: tl.constexpr, BLOCK_S: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Online softmax over the keys ``start..stop``: the loop of FlashAttention.

    With MASKED it visits the tiles that need a mask: it jumps over ``full`` keys at full_start.
    """
    unit = score_unit(scale, softcap)
    for at in range(start, stop, BLOCK_S):
        first = tl.where(at < full_start, at, at + full) if MASKED else at
        k = load_rows(k_ptr, first, k_row, S, MASKED, BLOCK_S, D, BLOCK_D)  # (BLOCK_S, BLOCK_D)
        x = tl.dot(q, k.to(DOT).T, input_precision=PRECISION)  # (BLOCK_T, BLOCK_S)
        s = first + tl.arange(0, BLOCK_S)[None, :]
        x, _ = bend(x, t[:, None], s, shift, scale, softcap, slope, DOT)
        if MASKED:
            seen = visible(t[:, None], s, shift, S, left, right)
            x = tl.where(seen, x, MASKED_SCORE)
        new_max = tl.maximum(running_max, tl.max(x, axis=1) * unit)
        weights = tl.exp2(x * unit - new_max[:, None])
        if MASKED:
            weights = tl.where(seen, weights, 0.0)
        rescale = tl.exp2(running_max - new_max)
        running_sum = running_sum * rescale + tl.sum(weights, axis=1)
        v = load_rows(v_ptr, first, v_row, S, MASKED, BLOCK_S, D, BLOCK_D)
        output = output * rescale[:, None]
        output = tl.dot(weights.to(DOT), v.to(DOT), output, input_precision=PRECISION)
        running_max = new_max
    return output, running_max, running_sum


@triton.jit
def flash_forward_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, slopes_ptr, tiles_ptr, q_starts_ptr, k_starts_ptr,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    out_batch, out_head, out_row,
    tiles, heads, T, S, left, right, scale, softcap,
    GROUP: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write BLOCK_T rows of O and of LSE."""
    pid = tl.program_id(0)
    if right is not None:
        pid = tl.num_programs(0) - 1 - pid  # causal: the last rows see most keys, so they go first
    rows = T
    first, batch, head, q_start, k_start, T, S = locate(
        pid, tiles, heads, tiles_ptr, q_starts_ptr, k_starts_ptr, T, S, BLOCK_T
    )
    if first >= T:
        return  # the table of a packed batch has a few rows to spare
    group = head // GROUP  # query heads that share a key/value head run side by side: K, V in L2
    q_ptr += batch * q_batch + head * q_head + q_start * q_row
    k_ptr += batch * k_batch + group * k_head + k_start * k_row
    v_ptr += batch * v_batch + group * v_head + k_start * v_row
    out_ptr += batch * out_batch + head * out_head + q_start * out_row
    lse_ptr += (batch * heads + head) * rows + q_start
    slope = None
    if slopes_ptr is not None:
        slope = tl.load(slopes_ptr + head)

    shift = S - T  # query t stands at key t + shift: the last query at the last key
    t = first + tl.arange(0, BLOCK_T)
    q = load_rows(q_ptr, first, q_row, T, True, BLOCK_T, D, BLOCK_D).to(DOT)
    output = tl.zeros((BLOCK_T, BLOCK_D), tl.float32)
    running_max = tl.full((BLOCK_T,), MASKED_SCORE, tl.float32)
    running_sum = tl.zeros((BLOCK_T,), tl.float32)
    last = tl.minimum(first + BLOCK_T, T) - 1
    start, full_start, full_stop, stop = tile_range(first, last, shift, left, right, S, BLOCK_S)
    full = full_stop - full_start
    output, running_max, running_sum = attend_tiles(
        output, running_max, running_sum, q, t, k_ptr, v_ptr, k_row, v_row,
        full_start, full_stop, full_start, full, shift, S, left, right, scale, softcap, slope,
        False, BLOCK_S, D, BLOCK_D, DOT, PRECISION,
    )  # fmt: skip
    output, running_max, running_sum = attend_tiles(
        output, running_max, running_sum, q, t, k_ptr, v_ptr, k_row, v_row,
        start, stop - full, full_start, full, shift, S, left, right, scale, softcap, slope,
        True, BLOCK_S, D, BLOCK_D, DOT, PRECISION,
    )  # fmt: skip

    empty = running_sum == 0.0  # no key is visible: the row of O is 0 and its LSE -inf
    output = output / tl.where(empty, 1.0, running_sum)[:, None]
    lse = running_max * LN2 + tl.log(tl.where(empty, 1.0, running_sum))
    tl.store(lse_ptr + t, tl.where(empty, -float("inf"), lse), mask=t < T)
    store_rows(out_ptr, first, out_row, T, output, BLOCK_T, D, BLOCK_D)


@dataclass(frozen=True)
class Options:
    """What a call asks for beside its tensors; ``None`` is off."""

    scale: float
    softcap: float | None = None
    left: int | None = None
    right: int | None = None

    def arguments(self) -> tuple[int | None, int | None, float, float | None]:
        """In the kernels' order; no window is so wide that adding a position to it overflows."""
        left, right = (None if n is None else min(n, 2**30) for n in (self.left, self.right))
        return left, right, self.scale, self.softcap

    def mask(self, slopes: torch.Tensor | None, packing: Packing | None) -> str:
        """Which of ``flash_configs.MASKS`` it is."""
        if any(x is not None for x in (self.softcap, self.left, slopes, packing)):
            return "options"
        return "full" if self.right is None else "causal"


@dataclass(frozen=True)
class Packing:
    """Where packed sequences start in q and in k, and the last one ends: int32."""

    q_starts: torch.Tensor
    k_starts: torch.Tensor

    @classmethod
    def of(cls, q_starts: torch.Tensor | None, k_starts: torch.Tensor | None) -> Packing | None:
        """Both starts together, or None for a dense batch."""
        return None if q_starts is None or k_starts is None else cls(q_starts, k_starts)


def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    slopes: torch.Tensor | None,
    options: Options,
    packing: Packing | None = None,
    tile: Tile | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Launch the forward kernel: (O like q, LSE (B, H, T) in fp32). Last axes have stride 1.

    Packed sequences come with B = 1 and all lengths in the axes T and S.
    """
    B, H, T, _ = q.shape
    out = torch.empty_like(q)
    lse = torch.empty((B, H, T), dtype=torch.float32, device=q.device)
    tile = tile or flash_configs.choose("forward", q, options.mask(slopes, packing))
    tiles, table, starts = schedule(T, packing, tile.block_t, over_queries=True)
    launch(
        flash_forward_kernel, tiles * H * B, q, k, v, out, lse, slopes, table, *starts,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3],
        tiles, H, T, k.shape[2], *options.arguments(),
        GROUP=H // k.shape[1], **constants(q, tile),
    )  # fmt: skip
    return out, lse


def launch(kernel: Any, programs: int, q: torch.Tensor, *arguments: Any, **settings: Any) -> None:
    """Launch that many programs where q is, if any."""
    if programs:
        with torch.cuda.device_of(q):  # a launch goes to the current device, not to the tensor's
            kernel[(programs,)](q, *arguments, **settings)


def constants(q: torch.Tensor, tile: Tile) -> dict[str, Any]:
    """Compile-time values of all the flash kernels but the options."""
    half = q.dtype in (torch.float16, torch.bfloat16)
    # The interpreter multiplies bf16 as the integers that store it: widen there.
    widen = fallback.interpreted() and half
    tf32 = q.dtype == torch.float32 and flash_configs.tf32_allowed()
    return {
        "D": q.shape[-1],
        "BLOCK_D": flash_configs.padded(q.shape[-1]),
        "BLOCK_T": tile.block_t,
        "BLOCK_S": tile.block_s,
        "DOT": tl.float32 if widen or not half else TRITON_TYPES[q.dtype],
        "PRECISION": "tf32" if tf32 or half else "ieee",
        "num_warps": tile.warps,
        "num_stages": tile.stages,
    }


TRITON_TYPES = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}


def schedule(
    rows: int, packing: Packing | None, block: int, over_queries: bool
) -> tuple[int, torch.Tensor | None, tuple[torch.Tensor | None, torch.Tensor | None]]:
    """Number of tiles a head has, the table of them, and the starts: (tiles, table, starts).

    For packed sequences the table is made on the device, without waiting for it: a sequence of n
    rows has ceil(n / block) tiles, so all together have at most rows / block + sequences.
    """
    if packing is None:
        return -(-rows // block), None, (None, None)
    starts = packing.q_starts if over_queries else packing.k_starts
    sequences = len(starts) - 1
    tiles = rows // block + sequences if rows else 0
    blocks = (starts.diff() + (block - 1)) // block
    ends = blocks.cumsum(0)
    tile = torch.arange(tiles, device=starts.device)
    sequence = torch.searchsorted(ends, tile, right=True).clamp(max=sequences - 1)
    first = (tile - (ends - blocks)[sequence]) * block
    table = torch.stack([sequence, first], dim=1).to(torch.int32)
    return tiles, table, (packing.q_starts, packing.k_starts)
