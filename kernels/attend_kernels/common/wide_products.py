"""Exact products of rows too wide for the registers, taken in parts.

fp32 products that may not round their factors are made of single FMAs, whose operands a thread
keeps in registers: rows of 256 numbers are more than it has. ``dot_wide`` and ``dot_rows`` are
``tl.dot`` for all other rows.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals

from __future__ import annotations

import triton
import triton.language as tl

MOST = tl.constexpr(128)  # columns that are no more than the registers hold
PART = tl.constexpr(64)  # columns at once at most, where rows come in parts
LEAST = tl.constexpr(32)  # columns that never do


@triton.jit
def dot_wide(a, b, PRECISION: tl.constexpr):
    """Product of (M, K) by (K, N); wide rows come in two halves."""
    if PRECISION == "ieee" and a.shape[1] > MOST:
        HALF: tl.constexpr = a.shape[1] // 2
        a_low, a_high = a.reshape(a.shape[0], 2, HALF).permute(0, 2, 1).split()
        b_low, b_high = b.reshape(2, HALF, b.shape[1]).permute(1, 2, 0).split()
        low = tl.dot(a_low, b_low, input_precision=PRECISION)
        return tl.dot(a_high, b_high, low, input_precision=PRECISION)
    else:
        return tl.dot(a, b, input_precision=PRECISION)


@triton.jit
def dot_rows(a, b, a_ptr, b_ptr, first, a_row, b_row, T, PRECISION: tl.constexpr):
    """All products of a row of ``a`` with one of ``b``, both (CHUNK, K): (CHUNK, CHUNK).

    Rows of more than LEAST are added up in a loop over two parts or more, which loads them anew
    from ``a_ptr`` and ``b_ptr``, at row ``first`` of T: as one product they would take their
    registers beside those of ``dot_wide``.
    """
    CHUNK: tl.constexpr = a.shape[0]
    if PRECISION == "ieee" and a.shape[1] > LEAST:
        AT_ONCE: tl.constexpr = PART if a.shape[1] >= 2 * PART else a.shape[1] // 2
        t = tl.arange(0, CHUNK)[:, None]
        column = tl.arange(0, AT_ONCE)[None, :]
        products = tl.zeros((CHUNK, CHUNK), tl.float32)
        for k in range(0, a.shape[1], AT_ONCE):
            real = first + t < T
            a_part = tl.load(a_ptr + (first + t).to(tl.int64) * a_row + k + column, real, 0.0)
            b_part = tl.load(b_ptr + (first + t).to(tl.int64) * b_row + k + column, real, 0.0)
            products = tl.dot(a_part, b_part.T, products, input_precision=PRECISION)
        return products
    else:
        return tl.dot(a, b.T, input_precision=PRECISION)
