"""The two kernels behind ``fused_softmax`` and their launchers; needs Triton.

Equations, letters and memory traffic: see ``api``. One program owns ``ROWS``
rows and walks them in blocks of ``BLOCK`` columns. Where a row fits in one block it stays in
registers between the reduction and the write; else the row is read a second time.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

MOST_ROWS = 64  # a program: 128 rows of 32 columns spill 8 bytes a thread in the backward pass


@triton.jit
def softmax_forward_kernel(
    x_ptr,
    out_ptr,
    n_rows,
    n_columns,
    row_stride,
    column_stride,
    ONE_BLOCK: tl.constexpr,  # noqa: N803  # Triton's habit: compile-time values in capitals
    ROWS: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
    ACCUMULATE: tl.constexpr,  # noqa: N803
):
    """Write the softmax of ``ROWS`` rows; x may have any strides, out is contiguous."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    x_row = x_ptr + row * row_stride
    out_row = out_ptr + row * n_columns
    live_row = row < n_rows
    if ONE_BLOCK:
        live = live_row & (column < n_columns)
        x = tl.load(x_row + column.to(tl.int64) * column_stride, mask=live, other=-float("inf"))
        x = x.to(ACCUMULATE)
        row_max = tl.max(x, axis=1, keep_dims=True)
        row_max = tl.where(row_max == -float("inf"), 0.0, row_max)
        weights = tl.exp(x - row_max)
        row_sum = tl.sum(weights, axis=1, keep_dims=True)
        row_sum = tl.where(row_sum == 0.0, 1.0, row_sum)
        tl.store(out_row + column, (weights / row_sum).to(out_ptr.dtype.element_ty), mask=live)
    else:
        running_max = tl.full((ROWS, 1), -float("inf"), ACCUMULATE)
        running_sum = tl.zeros((ROWS, 1), ACCUMULATE)
        for start in range(0, n_columns, BLOCK):
            at = start + column
            live = live_row & (at < n_columns)
            x = tl.load(x_row + at.to(tl.int64) * column_stride, mask=live, other=-float("inf"))
            x = x.to(ACCUMULATE)
            new_max = tl.maximum(running_max, tl.max(x, axis=1, keep_dims=True))
            safe_max = tl.where(new_max == -float("inf"), 0.0, new_max)
            running_sum *= tl.exp(running_max - safe_max)
            running_sum += tl.sum(tl.exp(x - safe_max), axis=1, keep_dims=True)
            running_max = new_max
        safe_max = tl.where(running_max == -float("inf"), 0.0, running_max)
        row_sum = tl.where(running_sum == 0.0, 1.0, running_sum)
        for start in range(0, n_columns, BLOCK):
            at = start + column
            live = live_row & (at < n_columns)
            x = tl.load(x_row + at.to(tl.int64) * column_stride, mask=live, other=-float("inf"))
            weights = tl.exp(x.to(ACCUMULATE) - safe_max) / row_sum
            tl.store(out_row + at, weights.to(out_ptr.dtype.element_ty), mask=live)


@triton.jit
def softmax_backward_kernel(
    p_ptr,
    grad_ptr,
    out_ptr,
    n_rows,
    n_columns,
    row_stride,
    column_stride,
    ONE_BLOCK: tl.constexpr,  # noqa: N803
    ROWS: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
    ACCUMULATE: tl.constexpr,  # noqa: N803
):
    """Write dx = p (dp - sum(dp p)) for ``ROWS`` rows; dp may have any strides."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    p_row = p_ptr + row * n_columns
    grad_row = grad_ptr + row * row_stride
    out_row = out_ptr + row * n_columns
    live_row = row < n_rows
    if ONE_BLOCK:
        live = live_row & (column < n_columns)
        p = tl.load(p_row + column, mask=live, other=0.0).to(ACCUMULATE)
        grad = tl.load(grad_row + column.to(tl.int64) * column_stride, mask=live, other=0.0)
        grad = grad.to(ACCUMULATE)
        mean = tl.sum(grad * p, axis=1, keep_dims=True)
        tl.store(out_row + column, (p * (grad - mean)).to(out_ptr.dtype.element_ty), mask=live)
    else:
        mean = tl.zeros((ROWS, 1), ACCUMULATE)
        for start in range(0, n_columns, BLOCK):
            at = start + column
            live = live_row & (at < n_columns)
            p = tl.load(p_row + at, mask=live, other=0.0).to(ACCUMULATE)
            grad = tl.load(grad_row + at.to(tl.int64) * column_stride, mask=live, other=0.0)
            mean += tl.sum(grad.to(ACCUMULATE) * p, axis=1, keep_dims=True)
        for start in range(0, n_columns, BLOCK):
            at = start + column
            live = live_row & (at < n_columns)
            p = tl.load(p_row + at, mask=live, other=0.0).to(ACCUMULATE)
            grad = tl.load(grad_row + at.to(tl.int64) * column_stride, mask=live, other=0.0)
            out = p * (grad.to(ACCUMULATE) - mean)
            tl.store(out_row + at, out.to(out_ptr.dtype.element_ty), mask=live)


def forward(x: torch.Tensor, max_block: int, tile: int) -> torch.Tensor:
    """Softmax of ``x (..., S)`` over its last axis, contiguous."""
    rows = x.reshape(-1, x.shape[-1])  # a view unless the leading axes cannot be merged
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _launch(softmax_forward_kernel, (rows, out), rows, max_block, tile)
    return out


def backward(p: torch.Tensor, grad: torch.Tensor, max_block: int, tile: int) -> torch.Tensor:
    """Gradient with respect to x from ``p = softmax(x)`` (contiguous) and dp, both ``(..., S)``."""
    rows = grad.reshape(-1, grad.shape[-1])
    out = torch.empty_like(p)
    _launch(softmax_backward_kernel, (p, rows, out), rows, max_block, tile)
    return out


def _launch(
    kernel: Any, tensors: tuple[torch.Tensor, ...], rows: torch.Tensor, max_block: int, tile: int
) -> None:
    settings = config(rows.shape[1], rows.dtype, max_block, tile)
    grid = (triton.cdiv(rows.shape[0], settings["ROWS"]),)
    with torch.cuda.device_of(rows):  # the launch goes to the current device, not to the tensor's
        kernel[grid](*tensors, rows.shape[0], rows.shape[1], *rows.stride(), **settings)


def config(n_columns: int, dtype: torch.dtype, max_block: int, tile: int) -> dict[str, Any]:
    """Pick the compile-time values of both kernels for rows of ``n_columns``."""
    block = min(triton.next_power_of_2(n_columns), max_block)
    rows = min(MOST_ROWS, max(1, tile // block))
    return {
        "ONE_BLOCK": n_columns <= block,
        "ROWS": rows,
        "BLOCK": block,
        "ACCUMULATE": tl.float64 if dtype == torch.float64 else tl.float32,
        "num_warps": min(32, max(4, rows * block // 512)),
    }
