"""A forward kernel of attention in Gluon, for Hopper: off until a GPU has found it right and fast.

It computes what ``forward`` computes (equations and letters: ``api``), full or causal, without
window, ALiBi, soft cap and packed sequences. ``forward.by_gluon`` says when it may run. What a
Triton kernel leaves to the compiler is written out here. Of a program's three groups of warps,

- the *producer*, one warp, asks the copy engine (TMA) for tile after tile of K and V, as far ahead
  as there are stages in shared memory;
- two *consumers*, four warps each, own 64 queries each. A consumer issues the scores of the next
  tile before it waits for the product of this tile's weights with V: while the tensor cores work
  on both, its other units compute the softmax.

A stage is handed over by two barriers: *full* (the bytes have come) and *empty* (both consumers
have read it). A wait names the parity of the round that it waits for.

Tiles of keys are visited from the last to the first: those that the edge of the keys or the
diagonal cuts come first, in a loop of their own, and all others need no mask.

Sources: Shah et al. 2024, "FlashAttention-3", section 3 (specialised warps, the order of the two
products); Triton's tutorials of Gluon. Compiled only: nothing here has run on a GPU yet.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals
# Pyright takes calls between jitted functions for what they would be in Python:
# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportCallIssue=false
# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportAssignmentType=false

from __future__ import annotations

from typing import Any

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from attend_kernels.common.launch import LN2, LOG2E
from attend_kernels.common.scores import MASKED_SCORE
from attend_kernels.ops.flash.options import Options
from attend_kernels.ops.flash.tiles import Tile

ROWS = gl.constexpr(64)  # queries of a consumer: the rows of Hopper's matrix instruction
WARPS = gl.constexpr(4)  # of a consumer; Gluon is told those of the first, the others come on top
REGISTERS = gl.constexpr([240, 24])  # a thread of the second consumer, and of the producer


@gluon.jit
def produce(
    k_desc, v_desc, k_tiles, v_tiles, k_full, v_full, k_empty, v_empty, batch, group, count,
    STAGES: gl.constexpr, BLOCK_S: gl.constexpr,
):  # fmt: skip
    """Fetch ``count`` tiles of K and of V, the last first, as stages become empty."""
    for i in range(count):
        stage = i % STAGES
        parity = (i // STAGES) & 1
        first = (count - 1 - i) * BLOCK_S
        mbarrier.wait(k_empty.index(stage), parity ^ 1)  # at once in the first round
        mbarrier.expect(k_full.index(stage), k_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(
            k_desc, [batch, group, first, 0], k_full.index(stage), k_tiles.index(stage)
        )
        mbarrier.wait(v_empty.index(stage), parity ^ 1)
        mbarrier.expect(v_full.index(stage), v_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(
            v_desc, [batch, group, first, 0], v_full.index(stage), v_tiles.index(stage)
        )


@gluon.jit
def weigh(
    scores, running_max, running_sum, first, row, shift, S, unit,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, BLOCK_S: gl.constexpr,
):  # fmt: skip
    """Online softmax of one tile: its weights, the new maximum and sum, the factor of the old."""
    layout: gl.constexpr = scores.type.layout
    if MASKED:
        t = row + gl.arange(0, ROWS, gl.SliceLayout(1, layout))
        s = first + gl.arange(0, BLOCK_S, gl.SliceLayout(0, layout))
        seen = (s < S)[None, :]
        if CAUSAL:
            seen = seen & (s[None, :] <= (t + shift)[:, None])
        scores = gl.where(seen, scores, MASKED_SCORE)
    new_max = gl.maximum(running_max, gl.max(scores, 1) * unit)
    weights = gl.exp2(scores * unit - new_max[:, None])
    if MASKED:
        weights = gl.where(seen, weights, 0.0)
    rescale = gl.exp2(running_max - new_max)
    return weights, new_max, running_sum * rescale + gl.sum(weights, 1), rescale


@gluon.jit
def attend_tiles(
    output, weights, running_max, running_sum, q, q_full, k_tiles, v_tiles,
    k_full, v_full, k_empty, v_empty, start, stop, count, row, shift, S, unit,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, STAGES: gl.constexpr,
    BLOCK_S: gl.constexpr, D: gl.constexpr, SCORES: gl.constexpr, OUTPUT: gl.constexpr,
):  # fmt: skip
    """Visit tiles ``start..stop``: this tile's scores, and the last one's weights times its V."""
    for i in range(start, stop):
        stage = i % STAGES
        before = (i - 1) % STAGES
        mbarrier.wait(k_full.index(stage), (i // STAGES) & 1)
        k = k_tiles.index(stage).reshape((BLOCK_S, D)).permute((1, 0))
        zeros = gl.zeros([ROWS, BLOCK_S], gl.float32, SCORES)
        scores = warpgroup_mma(q, k, zeros, use_acc=False, is_async=True)
        mbarrier.wait(v_full.index(before), ((i - 1) // STAGES) & 1)
        v = v_tiles.index(before).reshape((BLOCK_S, D))
        output = warpgroup_mma(weights, v, output, is_async=True)
        scores = warpgroup_mma_wait(1, deps=(scores,))
        mbarrier.arrive(k_empty.index(stage), count=1)
        first = (count - 1 - i) * BLOCK_S
        x, running_max, running_sum, rescale = weigh(
            scores, running_max, running_sum, first, row, shift, S, unit, CAUSAL, MASKED, BLOCK_S
        )
        new = gl.convert_layout(x.to(weights.dtype), weights.type.layout)
        # Q has come long ago. But ptxas moves no instruction across a loop that waits: without this
        # one the softmax would stand after the next wait, and the tensor cores idle meanwhile.
        mbarrier.wait(q_full, 0)
        # The old weights are read by the tensor cores until here: they must keep their registers.
        output, weights, new = warpgroup_mma_wait(0, deps=(output, weights, new))
        mbarrier.arrive(v_empty.index(before), count=1)
        output = output * gl.convert_layout(rescale, gl.SliceLayout(1, OUTPUT))[:, None]
        weights = new
    return output, weights, running_max, running_sum


@gluon.jit
def consume(
    out_ptr, lse_ptr, q, q_full, k_tiles, v_tiles, k_full, v_full, k_empty, v_empty,
    out_row, row, count, cut, shift, T, S, unit,
    CAUSAL: gl.constexpr, STAGES: gl.constexpr, BLOCK_S: gl.constexpr, D: gl.constexpr,
):  # fmt: skip
    """Write the rows ``row..row+64`` of O and LSE from ``count`` tiles, of which ``cut`` are cut.

    It reads every tile that is fetched, even where its own rows see nothing of it: the producer
    waits for both consumers.
    """
    dtype: gl.constexpr = q.dtype
    scores_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_S, 16])
    output_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    weights_layout: gl.constexpr = gl.DotOperandLayout(0, output_layout, 2)
    rows_layout: gl.constexpr = gl.SliceLayout(1, scores_layout)
    output = gl.zeros([ROWS, D], gl.float32, output_layout)
    running_max = gl.full([ROWS], MASKED_SCORE, gl.float32, rows_layout)
    running_sum = gl.zeros([ROWS], gl.float32, rows_layout)
    q = q.reshape((ROWS, D))

    mbarrier.wait(q_full, 0)
    mbarrier.wait(k_full.index(0), 0)
    k = k_tiles.index(0).reshape((BLOCK_S, D)).permute((1, 0))
    zeros = gl.zeros([ROWS, BLOCK_S], gl.float32, scores_layout)
    scores = warpgroup_mma(q, k, zeros, use_acc=False, is_async=True)
    scores = warpgroup_mma_wait(0, deps=(scores,))
    mbarrier.arrive(k_empty.index(0), count=1)
    x, running_max, running_sum, _ = weigh(
        scores, running_max, running_sum, (count - 1) * BLOCK_S, row, shift, S, unit,
        CAUSAL, True, BLOCK_S,
    )  # fmt: skip
    weights = gl.convert_layout(x.to(dtype), weights_layout)
    if CAUSAL:
        output, weights, running_max, running_sum = attend_tiles(
            output, weights, running_max, running_sum, q, q_full, k_tiles, v_tiles,
            k_full, v_full, k_empty, v_empty, 1, cut, count, row, shift, S, unit,
            CAUSAL, True, STAGES, BLOCK_S, D, scores_layout, output_layout,
        )  # fmt: skip
    output, weights, running_max, running_sum = attend_tiles(
        output, weights, running_max, running_sum, q, q_full, k_tiles, v_tiles,
        k_full, v_full, k_empty, v_empty, cut, count, count, row, shift, S, unit,
        CAUSAL, False, STAGES, BLOCK_S, D, scores_layout, output_layout,
    )  # fmt: skip
    stage = (count - 1) % STAGES
    mbarrier.wait(v_full.index(stage), ((count - 1) // STAGES) & 1)
    v = v_tiles.index(stage).reshape((BLOCK_S, D))
    output = warpgroup_mma(weights, v, output, is_async=True)
    output, weights = warpgroup_mma_wait(0, deps=(output, weights))

    empty = running_sum == 0.0  # no key is visible: the row of O is 0 and its LSE -inf
    total = gl.where(empty, 1.0, running_sum)
    t = row + gl.arange(0, ROWS, rows_layout)
    lse = (running_max + gl.log2(total)) * LN2
    gl.store(lse_ptr + t, gl.where(empty, -float("inf"), lse), mask=t < T)
    output = output / gl.convert_layout(total, gl.SliceLayout(1, output_layout))[:, None]
    t = row + gl.arange(0, ROWS, gl.SliceLayout(1, output_layout))
    column = gl.arange(0, D, gl.SliceLayout(0, output_layout))
    at = out_ptr + t.to(gl.int64)[:, None] * out_row + column[None, :]
    gl.store(at, output.to(dtype), mask=(t < T)[:, None])


# Lengths of 1 are no compile-time values, so that the code is what was compiled and looked at.
@gluon.jit(do_not_specialize=["tiles", "heads", "T", "S"])
def gluon_forward_kernel(
    q_desc, k_desc, v_desc, out_ptr, lse_ptr, out_batch, out_head, out_row, tiles, heads, T, S,
    scale, GROUP: gl.constexpr, CAUSAL: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Write 128 rows of O and of LSE: (1, 1, 64, D) a block of Q, (1, 1, BLOCK_S, D) of K and V."""
    BLOCK_S: gl.constexpr = k_desc.block_type.shape[2]
    D: gl.constexpr = k_desc.block_type.shape[3]
    pid = gl.program_id(0)
    if CAUSAL:
        pid = gl.num_programs(0) - 1 - pid  # the last rows see most keys, so they go first
    head = pid // tiles % heads
    batch = pid // (tiles * heads)
    row = pid % tiles * 2 * ROWS
    group = head // GROUP
    out_ptr += batch.to(gl.int64) * out_batch + head.to(gl.int64) * out_head
    lse_ptr += (batch * heads + head).to(gl.int64) * T
    shift = S - T  # query t stands at key t + shift: the last query at the last key
    if CAUSAL:
        stop = gl.minimum(S, gl.minimum(row + 2 * ROWS, T) + shift)  # after the last row's last key
        full = gl.minimum(gl.maximum(row + shift + 1, 0), S) // BLOCK_S  # tiles all rows see whole
    else:
        stop = S
        full = S // BLOCK_S
    count = gl.maximum((stop + BLOCK_S - 1) // BLOCK_S, 1)  # one that nobody sees, if none is seen
    cut = gl.maximum(count - full, 1)  # the first visited always counts as cut

    q_tiles = gl.allocate_shared_memory(q_desc.dtype, [2, 1, 1, ROWS, D], q_desc.layout)
    k_tiles = gl.allocate_shared_memory(k_desc.dtype, [STAGES, 1, 1, BLOCK_S, D], k_desc.layout)
    v_tiles = gl.allocate_shared_memory(v_desc.dtype, [STAGES, 1, 1, BLOCK_S, D], v_desc.layout)
    barriers: gl.constexpr = mbarrier.MBarrierLayout()
    q_full = gl.allocate_shared_memory(gl.int64, [1], barriers)
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barriers)
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barriers)
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barriers)
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barriers)
    mbarrier.init(q_full, count=1)
    for stage in gl.static_range(STAGES):
        mbarrier.init(k_full.index(stage), count=1)
        mbarrier.init(v_full.index(stage), count=1)
        mbarrier.init(k_empty.index(stage), count=2)  # both consumers
        mbarrier.init(v_empty.index(stage), count=2)
    fence_async_shared()  # the copy engine sees the barriers as they are now
    mbarrier.expect(q_full, 2 * q_desc.block_type.nbytes)
    for half in gl.static_range(2):  # rows past the last one come as zeros
        tma.async_copy_global_to_shared(
            q_desc, [batch, head, row + half * ROWS, 0], q_full, q_tiles.index(half)
        )
    unit = scale * LOG2E
    gl.warp_specialize(
        [
            (consume, (
                out_ptr, lse_ptr, q_tiles.index(0), q_full, k_tiles, v_tiles, k_full, v_full,
                k_empty, v_empty, out_row, row, count, cut, shift, T, S, unit,
                CAUSAL, STAGES, BLOCK_S, D,
            )),
            (consume, (
                out_ptr, lse_ptr, q_tiles.index(1), q_full, k_tiles, v_tiles, k_full, v_full,
                k_empty, v_empty, out_row, row + ROWS, count, cut, shift, T, S, unit,
                CAUSAL, STAGES, BLOCK_S, D,
            )),
            (produce, (
                k_desc, v_desc, k_tiles, v_tiles, k_full, v_full, k_empty, v_empty,
                batch, group, count, STAGES, BLOCK_S,
            )),
        ],
        [WARPS, 1],
        REGISTERS,
    )  # fmt: skip


def run(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    options: Options,
    tile: Tile,
) -> None:
    """Launch the kernel where ``forward.by_gluon`` allows it; it fills ``out`` and ``lse``.

    Shapes: q and out ``(B, H, T, D)``, k and v ``(B, G, S, D)``, lse ``(B, H, T)`` in fp32, D 64 or
    128, nothing empty. ``tile`` gives the keys of a tile and the stages; the rest is fixed.
    """
    B, H, T, _ = q.shape
    tiles = -(-T // (2 * ROWS.value))
    with torch.cuda.device_of(q):  # a launch goes to the current device, not to the tensor's
        gluon_forward_kernel[(tiles * H * B,)](
            described(q, ROWS.value), described(k, tile.block_s), described(v, tile.block_s),
            out, lse, *out.stride()[:3], tiles, H, T, k.shape[2], options.scale,
            GROUP=H // k.shape[1], CAUSAL=options.right is not None, STAGES=tile.stages,
            num_warps=WARPS.value,
        )  # fmt: skip


def layout(dtype: torch.dtype) -> Any:
    """How a tile lies in shared memory: 128 bytes a row, swizzled as TMA and wgmma have it."""
    return gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=8 * dtype.itemsize, rank=4)


def described(x: torch.Tensor, rows: int) -> Any:
    """Describe ``x``, (B, heads, length, D), in blocks of ``rows`` rows of one head."""
    return TensorDescriptor.from_tensor(x, [1, 1, rows, x.shape[-1]], layout(x.dtype))  # pyright: ignore[reportArgumentType]
