"""The logistic function and softplus as the kernels of the Mambas compute them; needs Triton."""

# ruff: noqa: N803  # compile-time values are written in capitals

from __future__ import annotations

import triton
import triton.language as tl

from attend_kernels.common.launch import LOG2E

LINEAR_FROM = tl.constexpr(20.0)  # beyond it softplus(x) is x to the last bit of fp32


@triton.jit
def sigmoid(x):
    """Logistic function."""
    return 1.0 / (1.0 + tl.exp2(-x * LOG2E))


@triton.jit
def step_size(raw, bias, SOFTPLUS: tl.constexpr):
    """Return softplus(raw + bias), or the bare sum; log(1 + e) keeps its digits for small e."""
    x = raw + bias
    if SOFTPLUS:
        e = tl.exp2(tl.minimum(x, LINEAR_FROM) * LOG2E)
        w = 1.0 + e  # log(w) is off by e's rounding in w; e / (w - 1) is off by as much
        log = tl.where(w == 1.0, e, tl.log(w) * (e / tl.where(w == 1.0, 1.0, w - 1.0)))
        x = tl.where(x > LINEAR_FROM, x, log)
    return x
