"""What the kernels of linear attention share: how they read, write and sum tiles.

Letters: see ``api``. Rows are steps, columns are D or D_v; a
state is D × D_v and may lie transposed. Widths are powers of two, for the caller has filled up all
others (``flash_ops.filled``): only steps need masks.
"""

# ruff: noqa: N803  # axis letters and compile-time values are written in capitals

from __future__ import annotations

import triton
import triton.language as tl

from attend_kernels.common.launch import LOG2E

# A log gate below this counts as this: exp(-80) is 2e-35. Else -inf - (-inf) would be NaN.
LEAST_GATE = tl.constexpr(-80.0)
# The age of what a step never reads: finite, and exp2 of it is 0.
NEVER = tl.constexpr(-1e30)


@triton.jit
def sum_gates(ptr, first, row_stride, T, CHUNK: tl.constexpr):
    """Sums of a chunk's log gates, base 2: from its start through each step, and after each step.

    Small sums must keep their digits beside large ones. So the first comes in two parts, whole
    numbers (whose sums are exact) and fractions; the second is summed from the end.
    """
    t = first + tl.arange(0, CHUNK)
    at = ptr + t.to(tl.int64) * row_stride
    gates = tl.load(at, mask=t < T, other=0.0).to(tl.float32)
    gates = tl.maximum(gates, LEAST_GATE) * LOG2E
    whole = tl.floor(gates + 0.5)
    wholes, fractions = tl.cumsum(whole, axis=0), tl.cumsum(gates - whole, axis=0)
    later = (t + 1 < T) & (tl.arange(0, CHUNK) < CHUNK - 1)
    gates = tl.load(at + row_stride, mask=later, other=0.0).to(tl.float32)
    after = tl.cumsum(tl.maximum(gates, LEAST_GATE) * LOG2E, axis=0, reverse=True)
    return wholes, fractions, after


@triton.jit
def pair_fading(wholes, fractions, seen, REVERSE: tl.constexpr):
    """What is left of row j of a chunk when row i reads it: for the pairs in ``seen``, else 0.

    REVERSE: rows are read by earlier ones, as gradients are.
    """
    age = wholes[:, None] - wholes[None, :] + (fractions[:, None] - fractions[None, :])
    return tl.exp2(tl.where(seen, -age if REVERSE else age, NEVER))


@triton.jit
def load_scores(ptr, first, length, TRANSPOSED: tl.constexpr, CHUNK: tl.constexpr):
    """Load the products of all pairs of a chunk, which lie as (T, CHUNK): reader i, writer j."""
    i = tl.arange(0, CHUNK)[:, None]
    j = tl.arange(0, CHUNK)[None, :]
    if TRANSPOSED:
        i, j = j, i
    at = ptr + tl.cast(first, tl.int64) * CHUNK + (i * CHUNK + j)
    return tl.load(at, mask=first + i < length, other=0.0)
