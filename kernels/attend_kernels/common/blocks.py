"""How chunked kernels read and write memory: rows of steps, and states.

Rows are steps, columns are widths of heads; a state is D × D_v and may lie transposed. Widths are
powers of two, for the caller has filled up all others (``common.tensors.filled``): only steps need
masks.
"""

# ruff: noqa: N803  # axis letters and compile-time values are written in capitals

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def load_state(ptr, row_stride, column_stride, first, D: tl.constexpr, BLOCK_E: tl.constexpr):
    """Load columns ``first..first+BLOCK_E`` of a state of D rows, which may lie transposed."""
    row = tl.arange(0, D)[:, None]
    column = first + tl.arange(0, BLOCK_E)[None, :]
    return tl.load(ptr + row * row_stride + column * column_stride).to(tl.float32)


@triton.jit
def store_state(
    ptr, row_stride, column_stride, first, state, D: tl.constexpr, BLOCK_E: tl.constexpr
):
    """Store ``state`` where ``load_state`` finds it."""
    row = tl.arange(0, D)[:, None]
    column = first + tl.arange(0, BLOCK_E)[None, :]
    at = ptr + row * row_stride + column * column_stride
    tl.store(at, state.to(ptr.dtype.element_ty))


@triton.jit
def load_part(ptr, first, row_stride, length, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Load rows ``first..first+ROWS`` and COLUMNS columns; zeros beyond the length."""
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    at = ptr + tl.cast(first, tl.int64) * row_stride + (row * row_stride + column)
    return tl.load(at, mask=first + row < length, other=0.0)


@triton.jit
def store_part(ptr, first, row_stride, length, x, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Store ``x`` where ``load_part`` finds it."""
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    at = ptr + tl.cast(first, tl.int64) * row_stride + (row * row_stride + column)
    tl.store(at, x.to(ptr.dtype.element_ty), mask=first + row < length)
