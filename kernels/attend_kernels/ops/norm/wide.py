"""The norm kernels for rows too wide for registers, walked in blocks of columns; needs Triton.

Same arguments and results as the kernels in ``kernels``, one row at a time. A row is read twice
by the forward pass and twice by the backward pass; the second time it comes from the cache.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def norm_wide_forward_kernel(
    x_ptr,
    residual_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    sum_ptr,
    mean_ptr,
    inverse_ptr,
    n_rows,
    n_columns,
    x_stride,
    residual_stride,
    eps,
    CENTER: tl.constexpr,  # noqa: N803  # Triton's habit: compile-time values in capitals
    HAS_RESIDUAL: tl.constexpr,  # noqa: N803
    HAS_BIAS: tl.constexpr,  # noqa: N803
    EPS: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
    ACCUMULATE: tl.constexpr,  # noqa: N803
):
    """Write the norm of one row of h = x + residual, h itself, and the row's statistics."""
    if EPS is not None:
        eps = tl.full((), EPS, ACCUMULATE)
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mean = tl.zeros((1,), ACCUMULATE)
    squares = tl.zeros((1,), ACCUMULATE)  # squared deviations from the mean of the columns seen
    for start in range(0, n_columns, BLOCK):
        at = start + column
        live = at < n_columns
        h = tl.load(x_ptr + row * x_stride + at, mask=live, other=0.0).to(ACCUMULATE)
        if HAS_RESIDUAL:
            residual = tl.load(residual_ptr + row * residual_stride + at, mask=live, other=0.0)
            stored = (h + residual.to(ACCUMULATE)).to(sum_ptr.dtype.element_ty)
            tl.store(sum_ptr + row * n_columns + at, stored, mask=live)
            h = stored.to(ACCUMULATE)
        if CENTER:  # merge two sets of columns: Chan, Golub and LeVeque 1983, equation 2.1
            width = tl.minimum(n_columns - start, BLOCK).to(ACCUMULATE)
            block_mean = tl.sum(h, axis=0) / width
            h = tl.where(live, h - block_mean, 0.0)
            step = block_mean - mean
            share = width / (start + width)
            mean += step * share
            squares += step * step * start * share
        squares += tl.sum(h * h, axis=0)
    inverse = 1.0 / tl.sqrt((squares / n_columns + eps).to(ACCUMULATE))
    tl.store(inverse_ptr + row + tl.arange(0, 1), inverse)
    if CENTER:
        tl.store(mean_ptr + row + tl.arange(0, 1), mean)
    if HAS_RESIDUAL:
        tl.debug_barrier()  # sums are read again below, perhaps by another thread of the program
    for start in range(0, n_columns, BLOCK):
        at = start + column
        live = at < n_columns
        if HAS_RESIDUAL:
            h = tl.load(sum_ptr + row * n_columns + at, mask=live, other=0.0)
        else:
            h = tl.load(x_ptr + row * x_stride + at, mask=live, other=0.0)
        out = (h.to(ACCUMULATE) - mean) * inverse
        out *= tl.load(weight_ptr + at, mask=live, other=0.0).to(ACCUMULATE)
        if HAS_BIAS:
            out += tl.load(bias_ptr + at, mask=live, other=0.0).to(ACCUMULATE)
        tl.store(out_ptr + row * n_columns + at, out.to(out_ptr.dtype.element_ty), mask=live)


@triton.jit
def norm_wide_backward_kernel(
    h_ptr,
    weight_ptr,
    mean_ptr,
    inverse_ptr,
    grad_ptr,
    grad_sum_ptr,
    out_ptr,
    weight_partial_ptr,
    bias_partial_ptr,
    n_rows,
    n_columns,
    steps,
    h_stride,
    grad_stride,
    grad_sum_stride,
    CENTER: tl.constexpr,  # noqa: N803
    HAS_RESIDUAL: tl.constexpr,  # noqa: N803
    HAS_BIAS: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
    ACCUMULATE: tl.constexpr,  # noqa: N803
):
    """Write dh for a band of ``steps`` rows; add its share to the partial sums, zero so far."""
    program = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    weight_partial = weight_partial_ptr + program * n_columns
    bias_partial = bias_partial_ptr + program * n_columns
    first = program * steps
    for row in range(first, tl.minimum(first + steps, n_rows)):
        inverse = tl.load(inverse_ptr + row)
        mean = inverse * 0.0
        if CENTER:
            mean = tl.load(mean_ptr + row)
        along = tl.zeros((1,), ACCUMULATE)  # mean of dy w x_hat
        level = tl.zeros((1,), ACCUMULATE)  # mean of dy w
        for start in range(0, n_columns, BLOCK):
            at = start + column
            live = at < n_columns
            h = tl.load(h_ptr + row * h_stride + at, mask=live, other=0.0).to(ACCUMULATE)
            grad = tl.load(grad_ptr + row * grad_stride + at, mask=live, other=0.0)
            weight = tl.load(weight_ptr + at, mask=live, other=0.0).to(ACCUMULATE)
            grad = grad.to(ACCUMULATE) * weight  # zero where not live
            along += tl.sum(grad * (h - mean), axis=0) * inverse / n_columns
            level += tl.sum(grad, axis=0) / n_columns
        for start in range(0, n_columns, BLOCK):
            at = start + column
            live = at < n_columns
            h = tl.load(h_ptr + row * h_stride + at, mask=live, other=0.0).to(ACCUMULATE)
            grad = tl.load(grad_ptr + row * grad_stride + at, mask=live, other=0.0)
            grad = grad.to(ACCUMULATE)
            weight = tl.load(weight_ptr + at, mask=live, other=0.0).to(ACCUMULATE)
            unit = (h - mean) * inverse
            # The partial sums of a wide row live in the cache. Only this program touches them.
            so_far = tl.load(weight_partial + at, mask=live, other=0.0)
            tl.store(weight_partial + at, so_far + grad * unit, mask=live)
            if HAS_BIAS:
                so_far = tl.load(bias_partial + at, mask=live, other=0.0)
                tl.store(bias_partial + at, so_far + grad, mask=live)
            out = grad * weight - unit * along
            if CENTER:
                out -= level
            out *= inverse
            if HAS_RESIDUAL:
                there = grad_sum_ptr + row * grad_sum_stride + at
                out += tl.load(there, mask=live, other=0.0).to(ACCUMULATE)
            tl.store(out_ptr + row * n_columns + at, out.to(out_ptr.dtype.element_ty), mask=live)
        tl.debug_barrier()  # the next row adds to what other threads may have stored
