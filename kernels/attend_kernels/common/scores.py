"""Scores of a tile of attention: soft cap, ALiBi and who sees whom, in base 2.

Letters: ``t`` and ``s`` are positions of queries and keys. Scores live in base 2, for ``exp2`` is
one instruction on a GPU where ``exp`` is two. They stay in the unit the product has, and the factor
that turns them into base-2 logarithms goes into the exponent: ``exp2(x * unit - running_max)`` is
one FMA and one exp2. Options that are off are ``None``, which Triton knows at compile time.
"""

# ruff: noqa: N803  # axis letters and compile-time values are written in capitals
# Pyright takes a call from one jitted function to another for one that raises:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

import triton
import triton.language as tl

from attend_kernels.common.launch import LOG2E

# A masked score: finite, for -inf - (-inf) is NaN; its weight is zeroed by the mask itself.
MASKED_SCORE = tl.constexpr(-1e30)


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
