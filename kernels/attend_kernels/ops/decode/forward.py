"""The two kernels behind ``decode_attention``: attention over a part of the keys, and the merge.

Equations, letters and memory traffic: see ``api``. A program of the first kernel
owns one key/value head of one sequence and one part of its keys. All the queries that read this
head, GROUP heads × T positions, are the rows of one tile: K and V are loaded once for all of them.
The second kernel merges the parts by their LSE.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals
# Pyright takes a call from one jitted function to another for one that raises:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from attend_kernels.common import devices, fallback
from attend_kernels.common.launch import LN2, TRITON_TYPES, launch
from attend_kernels.common.scores import MASKED_SCORE, bend, score_unit, visible
from attend_kernels.ops.decode import tiles as configs


@triton.jit
def find(table_ptr, s, here, pages, PAGE: tl.constexpr):
    """Where key s of a paged sequence lies: (page, slot in it, whether there is such a page)."""
    page = tl.load(table_ptr + s // PAGE, mask=here, other=0)
    return page.to(tl.int64), s % PAGE, here & (page >= 0) & (page < pages)


@triton.jit
def decode_kernel(
    q_ptr, k_ptr, v_ptr, k_scale_ptr, v_scale_ptr, lengths_ptr, table_ptr, out_ptr, lse_ptr,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    k_scale_batch, k_scale_head, k_scale_row, v_scale_batch, v_scale_head, v_scale_row, table_row,
    tiles, splits, groups, rows, T, S, pages, window, scale, softcap,
    GROUP: tl.constexpr, PAGE: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    ROWS: tl.constexpr, BLOCK_S: tl.constexpr,
    DOT: tl.constexpr, WEIGHTS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write O and LSE of ROWS queries over one part of their keys.

    ``rows`` is B · H · T, the rows of a part. In a paged cache the batch strides are the pages'.
    Without ``lse_ptr`` the LSE goes behind O, as ``combine_kernel`` reads it.
    """
    pid = tl.program_id(0)
    tile = pid % tiles
    split = pid // tiles % splits
    group = (pid // (tiles * splits) % groups).to(tl.int64)
    batch = (pid // (tiles * splits * groups)).to(tl.int64)

    length = tl.load(lengths_ptr + batch)
    possible = (length >= 0) & (length <= S)
    length = tl.where(possible, length, 0).to(tl.int32)
    shift = length - T  # query t stands at key t + shift: the last query at the last key
    begin = 0
    if window is not None:
        begin = tl.maximum(shift - window, 0)
    # Each sequence is cut by its own length, so that all its parts have as much to do.
    share = tl.cdiv(tl.cdiv(length - begin, splits), BLOCK_S) * BLOCK_S
    first = begin + split * share
    stop = tl.minimum(first + share, length)

    row = tile * ROWS + tl.arange(0, ROWS)
    head = group * GROUP + row // T
    t = row % T
    column = tl.arange(0, BLOCK_D)[None, :]
    q_at = q_ptr + batch * q_batch + (head * q_head + t * q_row)[:, None] + column
    live = row[:, None] < GROUP * T
    if D < BLOCK_D:
        live &= column < D
    q = tl.load(q_at, mask=live, other=0.0).to(DOT)  # (ROWS, BLOCK_D)

    k_ptr += group * k_head
    v_ptr += group * v_head
    unit = score_unit(scale, softcap)
    output = tl.zeros((ROWS, BLOCK_D), tl.float32)
    running_max = tl.full((ROWS,), MASKED_SCORE, tl.float32)
    running_sum = tl.zeros((ROWS,), tl.float32)
    for at in range(first, stop, BLOCK_S):
        s = at + tl.arange(0, BLOCK_S)
        here = s < stop
        if table_ptr is None:
            place, slot, found = batch, s.to(tl.int64), here
        else:
            place, slot, found = find(table_ptr + batch * table_row, s, here, pages, PAGE)
        there = found[:, None]
        if D < BLOCK_D:
            there &= column < D
        k_at = k_ptr + (place * k_batch + slot * k_row)[:, None] + column
        k = tl.load(k_at, mask=there, other=0.0)  # (BLOCK_S, BLOCK_D)
        x = tl.dot(q, k.to(DOT).T, input_precision=PRECISION)  # (ROWS, BLOCK_S)
        if k_scale_ptr is not None:
            # On the product, not on K: D times fewer multiplications, and codes are exact in DOT.
            k_scale_at = group * k_scale_head + place * k_scale_batch + slot * k_scale_row
            x *= tl.load(k_scale_ptr + k_scale_at, mask=found, other=0.0)[None, :]
        x, _ = bend(x, t[:, None], s[None, :], shift, scale, softcap, None, DOT)
        if table_ptr is not None:
            x = tl.where((here & ~found)[None, :], float("nan"), x)  # no such page: NaN, not noise
        seen = visible(t[:, None], s[None, :], shift, stop, window, 0)
        x = tl.where(seen, x, MASKED_SCORE)
        new_max = tl.maximum(running_max, tl.max(x, axis=1) * unit)
        weights = tl.where(seen, tl.exp2(x * unit - new_max[:, None]), 0.0)
        rescale = tl.exp2(running_max - new_max)
        running_sum = running_sum * rescale + tl.sum(weights, axis=1)
        v_at = v_ptr + (place * v_batch + slot * v_row)[:, None] + column
        v = tl.load(v_at, mask=there, other=0.0)
        if v_scale_ptr is not None:
            v_scale_at = group * v_scale_head + place * v_scale_batch + slot * v_scale_row
            weights *= tl.load(v_scale_ptr + v_scale_at, mask=found, other=0.0)[None, :]
        output = output * rescale[:, None]
        output = tl.dot(weights.to(WEIGHTS), v.to(WEIGHTS), output, input_precision=PRECISION)
        running_max = new_max

    running_sum = tl.where(possible, running_sum, float("nan"))
    empty = running_sum == 0.0  # no key is visible: the row of O is 0 and its LSE -inf
    output = output / tl.where(empty, 1.0, running_sum)[:, None]
    lse = running_max * LN2 + tl.log(tl.where(empty, 1.0, running_sum))
    to = split.to(tl.int64) * rows + (batch * groups * GROUP + head) * T + t
    if lse_ptr is None:
        lse_ptr = out_ptr + tl.cast(splits, tl.int64) * rows * D
    tl.store(lse_ptr + to, tl.where(empty, -float("inf"), lse), mask=row < GROUP * T)
    tl.store(out_ptr + to[:, None] * D + column, output.to(out_ptr.dtype.element_ty), mask=live)


@triton.jit
def combine_kernel(
    part_ptr, out_ptr, lse_ptr, rows, splits,
    D: tl.constexpr, BLOCK_D: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """Merge the parts of one row: O = sum_i exp(L_i - L) O_i with L = log sum_i exp(L_i).

    ``part_ptr`` has O of all parts, ``(splits, rows, D)``, then their LSE, ``(splits, rows)``.
    """
    row = tl.program_id(0).to(tl.int64)
    split = tl.arange(0, SPLITS)
    column = tl.arange(0, BLOCK_D)
    at = split * rows + row
    part_lse_ptr = part_ptr + tl.cast(splits, tl.int64) * rows * D
    part_lse = tl.load(part_lse_ptr + at, mask=split < splits, other=-float("inf"))
    # A maximum may skip NaN or keep it: here NaN is left to the sum, which keeps it.
    largest = tl.max(tl.where(part_lse == part_lse, part_lse, -float("inf")), axis=0)
    largest = tl.where(largest == -float("inf"), 0.0, largest)  # all parts empty: no inf - inf
    share = tl.exp(part_lse - largest)  # (SPLITS,)
    total = tl.sum(share, axis=0)
    live = (split < splits)[:, None] & (column < D)[None, :]
    part = tl.load(part_ptr + at[:, None] * D + column[None, :], mask=live, other=0.0)
    empty = total == 0.0
    total = tl.where(empty, 1.0, total)
    output = tl.sum(part * share[:, None], axis=0) / total
    tl.store(out_ptr + row * D + column, output.to(out_ptr.dtype.element_ty), mask=column < D)
    tl.store(lse_ptr + row, tl.where(empty, -float("inf"), largest + tl.log(total)))


def decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: torch.Tensor,
    table: torch.Tensor | None,
    k_scale: torch.Tensor | None,
    v_scale: torch.Tensor | None,
    scale: float,
    softcap: float | None,
    window: int | None,
    splits: int | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Launch the kernels: O like q but contiguous, LSE in fp32.

    Shapes: q ``(B, H, T, D)``; k and v ``(B, G, S, D)``, or with a table ``(pages, G, page, D)``;
    scales, k and v without the last axis -> ``(B, H, T, D)``, ``(B, H, T)``. Without the axis T
    there is one token. Last axes of q, k, v, lengths and table have stride 1.
    """
    shape, device = q.shape, q.device
    B, H, T, D = shape if len(shape) == 4 else (*shape[:2], 1, shape[2])
    strides = q.stride()[:3] if len(shape) == 4 else (*q.stride()[:2], D)
    G = k.shape[1]
    page = 1 if table is None else k.shape[2]
    S = k.shape[2] if table is None else table.shape[1] * page
    tile = configs.choose(device, k.dtype, D)
    interpreted = fallback.interpreted()
    precise = q.dtype == torch.float32 and not devices.tf32_allowed()
    room = configs.slots(device)
    sizes = (B, H, G, T, S, D, page)
    plan = _plan(sizes, q.dtype, k.dtype, window, splits, tile, room, interpreted, precise)
    out = torch.empty(shape, dtype=q.dtype, device=device)
    lse = torch.empty(shape[:-1], dtype=torch.float32, device=device)
    part, part_lse = out, lse
    if plan.splits > 1:  # one allocation for both: each takes the CPU a microsecond or two
        part = torch.empty(plan.splits * B * H * T * (D + 1), dtype=torch.float32, device=device)
        part_lse = None
    none = (0, 0, 0)
    launch(
        decode_kernel, plan.programs,
        q, k, v, k_scale, v_scale, lengths, table, part, part_lse,
        *strides, *k.stride()[:3], *v.stride()[:3],
        *(none if k_scale is None else k_scale.stride()),
        *(none if v_scale is None else v_scale.stride()),
        0 if table is None else table.stride(0),
        plan.tiles, plan.splits, G, B * H * T, T, S, k.shape[0], plan.window, scale, softcap,
        **plan.settings,
    )  # fmt: skip
    if plan.splits > 1:
        launch(
            combine_kernel, B * H * T, part, out, lse, B * H * T, plan.splits, **plan.merge,
        )  # fmt: skip
    return out, lse


class Plan(NamedTuple):
    """What a launch needs beside its tensors, worked out once for each size."""

    programs: int
    tiles: int  # of rows, a key/value head
    splits: int
    window: int | None
    settings: dict[str, Any]  # compile-time values of the first kernel, and of the second
    merge: dict[str, int]


@lru_cache(4096)  # a contiguous cache that is sliced grows by the step
def _plan(
    sizes: tuple[int, ...],
    q_dtype: torch.dtype,
    cache_dtype: torch.dtype,
    window: int | None,
    splits: int | None,
    tile: configs.DecodeTile,
    room: int,
    interpreted: bool,
    precise: bool,
) -> Plan:
    """Cut keys and rows; ``sizes`` are B, H, G, T, S, D and the page."""
    B, H, G, T, S, D, page = sizes
    # The interpreter multiplies bf16 as the integers that store it: widen there.
    dot = tl.float32 if interpreted else TRITON_TYPES[q_dtype]
    rows = configs.tile_rows(H // G * T, q_dtype)
    tiles = -(-H // G * T // rows)
    if splits is None:
        keys = S if window is None else min(S, window + T)
        splits = configs.choose_splits(B * G * tiles, keys, room)
    if window is not None:
        window = min(window, 2**30)  # wider means the same, and a position minus it fits 32 bits
    settings = {
        "GROUP": H // G,
        "PAGE": page,
        "D": D,
        "BLOCK_D": devices.padded(D),
        "ROWS": rows,
        "BLOCK_S": tile.block_s,
        "DOT": dot,
        "WEIGHTS": weights_type(dot, cache_dtype),
        "PRECISION": "ieee" if precise else "tf32",
        "num_warps": tile.warps,
        "num_stages": tile.stages,
    }
    return Plan(B * G * splits * tiles, tiles, splits, window, settings, combine_config(splits, D))


def weights_type(dot: tl.dtype, cache_dtype: torch.dtype) -> tl.dtype:
    """Type of P in the product P V.

    With an 8-bit cache, P carries the scales of V, and fp16 would lose small ones below its 6e-5.
    """
    return tl.bfloat16 if dot == tl.float16 and cache_dtype.itemsize == 1 else dot


def combine_config(splits: int, width: int) -> dict[str, int]:
    """Compile-time values of the combine kernel."""
    block_d, padded_splits = devices.padded(width), 1 << (splits - 1).bit_length()
    return {
        "D": width,
        "BLOCK_D": block_d,
        "SPLITS": padded_splits,
        "num_warps": min(8, max(1, block_d * padded_splits // 2048)),  # 64 numbers a thread
    }
