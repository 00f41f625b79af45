"""The kernel behind ``append_to_cache``: rows of new tokens to where their sequences go on.

Letters: see ``append``. A program moves one token's row of one head, in both caches; bytes are
copied as they are.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals

from __future__ import annotations

import torch
import triton
import triton.language as tl

from attend_kernels.common import devices
from attend_kernels.common.launch import launch


@triton.jit
def append_kernel(
    k_ptr, v_ptr, k_cache_ptr, v_cache_ptr, lengths_ptr, counts_ptr, table_ptr,
    k_batch, k_head, k_row, k_column, v_batch, v_head, v_row, v_column,
    k_cache_batch, k_cache_head, k_cache_row, k_cache_column,
    v_cache_batch, v_cache_head, v_cache_row, v_cache_column,
    lengths_stride, counts_stride, table_row, table_column, heads, T, S, pages,
    PAGE: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Copy one row of K and one of V; what has no place is not written.

    In a paged cache the batch strides are the pages'.
    """
    pid = tl.program_id(0)
    head = (pid % heads).to(tl.int64)
    t = pid // heads % T
    batch = (pid // (heads * T)).to(tl.int64)
    length = tl.load(lengths_ptr + batch * lengths_stride).to(tl.int64)
    at = length + t
    real = (length >= 0) & (at < S)
    if counts_ptr is not None:
        real &= t < tl.load(counts_ptr + batch * counts_stride)
    place, slot = batch, at
    if table_ptr is not None:
        page = at // PAGE
        where = table_ptr + batch * table_row + page * table_column
        place, slot = tl.load(where, mask=real, other=-1).to(tl.int64), at % PAGE
        real &= (place >= 0) & (place < pages)
    column = tl.arange(0, BLOCK_D)
    live = real & (column < D)
    k_at = k_ptr + batch * k_batch + head * k_head + t * k_row + column * k_column
    v_at = v_ptr + batch * v_batch + head * v_head + t * v_row + column * v_column
    k = tl.load(k_at, mask=live, other=0)
    v = tl.load(v_at, mask=live, other=0)
    k_to = k_cache_ptr + place * k_cache_batch + head * k_cache_head + slot * k_cache_row
    v_to = v_cache_ptr + place * v_cache_batch + head * v_cache_head + slot * v_cache_row
    tl.store(k_to + column * k_cache_column, k, mask=live)
    tl.store(v_to + column * v_cache_column, v, mask=live)


def append(
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: torch.Tensor,
    table: torch.Tensor | None,
    counts: torch.Tensor | None,
) -> None:
    """Launch the kernel. Heads come before rows in all of them, pages too; any strides."""
    B, G, T, D = k.shape
    S = k_cache.shape[2] if table is None else k_cache.shape[2] * table.shape[1]
    # Bytes, for the interpreter has no number types of 8 bits but these.
    k, v, k_cache, v_cache = (
        x.view(torch.uint8) if x.element_size() == 1 else x for x in (k, v, k_cache, v_cache)
    )
    launch(
        append_kernel, B * G * T, k, v, k_cache, v_cache, lengths, counts, table,
        *k.stride(), *v.stride(), *k_cache.stride(), *v_cache.stride(),
        lengths.stride(0), 0 if counts is None else counts.stride(0),
        *((0, 0) if table is None else table.stride()), G, T, S, len(k_cache),
        PAGE=k_cache.shape[2] if table is not None else 1,
        D=D, BLOCK_D=devices.padded(D), num_warps=1,
    )  # fmt: skip
