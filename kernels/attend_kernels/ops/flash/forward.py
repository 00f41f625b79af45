"""The forward kernel behind ``flash_attention`` and what it shares with the backward kernels.

Equations, letters and memory traffic: see ``api``. One program owns BLOCK_T
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

import os
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from attend_kernels.common import devices, fallback
from attend_kernels.common.launch import LN2, TRITON_TYPES, launch
from attend_kernels.common.packing import Packing, schedule
from attend_kernels.common.scores import MASKED_SCORE, bend, score_unit, visible
from attend_kernels.ops.flash import tiles as configs
from attend_kernels.ops.flash.options import Options
from attend_kernels.ops.flash.tiles import Tile

# ATTEND_GLUON=1 takes the Gluon kernel wherever it can run, with no entry of the table: for tests.
GLUON_EVERYWHERE = os.environ.get("ATTEND_GLUON") == "1"


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
def attend_tiles(
    output, running_max, running_sum, q, t, k_ptr, v_ptr, k_row, v_row, batch, group,
    start, stop, full_start, full, shift, S, left, right, scale, softcap, slope,
    MASKED: tl.constexpr, BLOCK_S: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """Online softmax over the keys ``start..stop``: the loop of FlashAttention.

    With MASKED it visits the tiles that need a mask: it jumps over ``full`` keys at full_start.
    """
    unit = score_unit(scale, softcap)
    for at in range(start, stop, BLOCK_S):
        first = tl.where(at < full_start, at, at + full) if MASKED else at
        if DESCRIPTORS:  # zeros beyond the last key and the last column
            k = k_ptr.load([batch, group, first, 0]).reshape(BLOCK_S, BLOCK_D)
        else:
            k = load_rows(k_ptr, first, k_row, S, MASKED, BLOCK_S, D, BLOCK_D)
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
        if DESCRIPTORS:
            v = v_ptr.load([batch, group, first, 0]).reshape(BLOCK_S, BLOCK_D)
        else:
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
    DOT: tl.constexpr, PRECISION: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """Write BLOCK_T rows of O and of LSE.

    With DESCRIPTORS ``k_ptr`` and ``v_ptr`` are tensor descriptors, (1, 1, BLOCK_S, BLOCK_D) a
    block, by which one thread asks the GPU's copy engine (TMA) for a tile.
    """
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
    if not DESCRIPTORS:
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
    at_batch, at_group = batch.to(tl.int32), group.to(tl.int32)  # a descriptor counts in 32 bits
    output, running_max, running_sum = attend_tiles(
        output, running_max, running_sum, q, t, k_ptr, v_ptr, k_row, v_row, at_batch, at_group,
        full_start, full_stop, full_start, full, shift, S, left, right, scale, softcap, slope,
        False, BLOCK_S, D, BLOCK_D, DOT, PRECISION, DESCRIPTORS,
    )  # fmt: skip
    output, running_max, running_sum = attend_tiles(
        output, running_max, running_sum, q, t, k_ptr, v_ptr, k_row, v_row, at_batch, at_group,
        start, stop - full, full_start, full, shift, S, left, right, scale, softcap, slope,
        True, BLOCK_S, D, BLOCK_D, DOT, PRECISION, DESCRIPTORS,
    )  # fmt: skip

    empty = running_sum == 0.0  # no key is visible: the row of O is 0 and its LSE -inf
    output = output / tl.where(empty, 1.0, running_sum)[:, None]
    lse = running_max * LN2 + tl.log(tl.where(empty, 1.0, running_sum))
    tl.store(lse_ptr + t, tl.where(empty, -float("inf"), lse), mask=t < T)
    store_rows(out_ptr, first, out_row, T, output, BLOCK_T, D, BLOCK_D)


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
    tile = tile or configs.choose("forward", q, options.mask(slopes, packing))
    if by_gluon(tile, q, k, v, slopes, options, packing):
        from attend_kernels.ops.flash import gluon  # not everywhere: see ``can_gluon``

        gluon.run(q, k, v, out, lse, options, tile if tile.gluon else configs.GLUON[q.shape[-1]])
        return out, lse
    tiles, table, starts = schedule(T, packing, tile.block_t, over_queries=True)
    by_descriptors, keys, values = described(tile, packing, tile.block_s, k, v)
    launch(
        flash_forward_kernel, tiles * H * B, q, keys, values, out, lse, slopes, table, *starts,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3],
        tiles, H, T, k.shape[2], *options.arguments(),
        GROUP=H // k.shape[1], DESCRIPTORS=by_descriptors, **constants(q, tile),
    )  # fmt: skip
    return out, lse


def by_gluon(
    tile: Tile,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    slopes: torch.Tensor | None,
    options: Options,
    packing: Packing | None,
) -> bool:
    """Tell whether the Gluon kernel is to run: it is off unless the tile or ATTEND_GLUON says so.

    It can where the GPU is a Hopper, heads are 64 or 128 wide in fp16 or bf16, descriptors can say
    where q, k and v lie, and attention is full or causal with no other option.
    """
    return (
        (tile.gluon or GLUON_EVERYWHERE)
        and q.dtype in (torch.float16, torch.bfloat16)
        and q.shape[-1] in configs.GLUON
        and options.mask(slopes, packing) != "options"
        and options.right in (None, 0)
        and options.scale > 0
        and all(map(describable, (q, k, v)))
        and can_gluon(q.device)
    )


@cache
def can_gluon(device: torch.device) -> bool:
    """Tell whether Gluon is in this Triton and ``device`` is a Hopper (sm_90), nothing newer."""
    if fallback.interpreted() or device.type != "cuda":
        return False
    hopper = torch.cuda.get_device_capability(device) == (9, 0)
    return hopper and find_spec("triton.experimental.gluon") is not None


def described(
    tile: Tile, packing: Packing | None, rows: int, x: torch.Tensor, y: torch.Tensor
) -> tuple[bool, Any, Any]:
    """Give two tensors that a kernel walks over, blocks of ``rows``, as its tile wants them.

    That is as descriptors where the tile says so and they can be, else as they are: (whether, x,
    y). In a packed batch a block may reach into the next sequence, and descriptors give no zeros
    there.
    """
    if not (tile.descriptors and packing is None and describable(x) and describable(y)):
        return False, x, y
    block = [1, 1, rows, devices.padded(x.shape[-1])]
    return True, *(TensorDescriptor.from_tensor(m, block) for m in (x, y))  # pyright: ignore[reportReturnType]


def describable(x: torch.Tensor) -> bool:
    """Tell whether a tensor descriptor can say where ``x`` lies: by multiples of 16 bytes.

    Rows next to each other, as of ``(B, T, H, D)`` transposed or a slice of a longer cache, can;
    odd widths, and heads or sequences that are one and the same memory (``expand``), cannot.
    """
    steps = [s for s, length in zip(x.stride()[:-1], x.shape[:-1], strict=True) if length > 1]
    bytes_ = [x.storage_offset() * x.itemsize, *(step * x.itemsize for step in x.stride()[:-1])]
    return x.numel() > 0 and min(steps, default=1) > 0 and not any(n % 16 for n in bytes_)


def constants(q: torch.Tensor, tile: Tile) -> dict[str, Any]:
    """Compile-time values of all the flash kernels but the options."""
    half = q.dtype in (torch.float16, torch.bfloat16)
    # The interpreter multiplies bf16 as the integers that store it: widen there.
    widen = fallback.interpreted() and half
    tf32 = q.dtype == torch.float32 and devices.tf32_allowed()
    return {
        "D": q.shape[-1],
        "BLOCK_D": devices.padded(q.shape[-1]),
        "BLOCK_T": tile.block_t,
        "BLOCK_S": tile.block_s,
        "DOT": tl.float32 if widen or not half else TRITON_TYPES[q.dtype],
        "PRECISION": "tf32" if tf32 or half else "ieee",
        "num_warps": tile.warps,
        "num_stages": tile.stages,
    }
