"""The kernels behind ``rms_norm`` and ``layer_norm`` and their launchers; needs Triton.

Equations, letters and memory traffic: see ``api``. Each row is held whole in
registers; ``wide`` does the rows too wide for that.

The forward program owns ``ROWS`` rows. The backward programs are few and each walks a band of
rows, so every one keeps a partial sum of the weight gradient in registers; a sum over the programs
finishes it. Nothing is added atomically: the same inputs give the same bits.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl

from attend_kernels.ops.norm import wide

MAX_BLOCK = 8_192  # widest row held in registers: the backward pass keeps five copies of it
TILE = 4_096  # elements a program holds when rows are short: several rows share a program
PROGRAMS_PER_SM = 2  # backward: enough rows in flight, few enough partial sums to add up
INTERPRETED_PROGRAMS = 3  # on a CPU: more than one, so that tests see the second stage


@triton.jit
def norm_forward_kernel(
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
    ROWS: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
    ACCUMULATE: tl.constexpr,  # noqa: N803
):
    """Write the norm of ``ROWS`` rows of h = x + residual, h itself, and each row's statistics."""
    if EPS is not None:
        eps = tl.full((), EPS, ACCUMULATE)
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    in_row = column < n_columns
    live = (row < n_rows) & in_row
    h = tl.load(x_ptr + row * x_stride + column, mask=live, other=0.0).to(ACCUMULATE)
    if HAS_RESIDUAL:
        residual = tl.load(residual_ptr + row * residual_stride + column, mask=live, other=0.0)
        stored = (h + residual.to(ACCUMULATE)).to(sum_ptr.dtype.element_ty)
        tl.store(sum_ptr + row * n_columns + column, stored, mask=live)
        h = stored.to(ACCUMULATE)  # the norm is of the sum as it is stored: backward reads that
    if CENTER:
        mean = tl.sum(h, axis=1, keep_dims=True) / n_columns
        h = tl.where(live, h - mean, 0.0)  # deviations first, squares second: no cancellation
        tl.store(mean_ptr + row, mean, mask=row < n_rows)
    variance = tl.sum(h * h, axis=1, keep_dims=True) / n_columns
    inverse = 1.0 / tl.sqrt((variance + eps).to(ACCUMULATE))
    tl.store(inverse_ptr + row, inverse, mask=row < n_rows)
    out = h * inverse * tl.load(weight_ptr + column, mask=in_row, other=0.0).to(ACCUMULATE)
    if HAS_BIAS:
        out += tl.load(bias_ptr + column, mask=in_row, other=0.0).to(ACCUMULATE)
    tl.store(out_ptr + row * n_columns + column, out.to(out_ptr.dtype.element_ty), mask=live)


@triton.jit
def norm_backward_kernel(
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
    ROWS: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
    ACCUMULATE: tl.constexpr,  # noqa: N803
):
    """Write dh for a band of ``steps * ROWS`` rows, and the band's share of dweight and dbias."""
    program = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)[None, :]
    in_row = column < n_columns
    weight = tl.load(weight_ptr + column, mask=in_row, other=0.0).to(ACCUMULATE)
    grad_weight = tl.zeros((ROWS, BLOCK), ACCUMULATE)
    grad_bias = tl.zeros((ROWS, BLOCK), ACCUMULATE)
    for step in range(steps):
        row = (program * steps + step) * ROWS + tl.arange(0, ROWS)[:, None]
        live = (row < n_rows) & in_row
        h = tl.load(h_ptr + row * h_stride + column, mask=live, other=0.0).to(ACCUMULATE)
        grad = tl.load(grad_ptr + row * grad_stride + column, mask=live, other=0.0).to(ACCUMULATE)
        if CENTER:
            h = tl.where(live, h - tl.load(mean_ptr + row, mask=row < n_rows, other=0.0), 0.0)
        inverse = tl.load(inverse_ptr + row, mask=row < n_rows, other=0.0)
        unit = h * inverse
        grad_weight += grad * unit
        if HAS_BIAS:
            grad_bias += grad
        grad *= weight
        out = grad - unit * (tl.sum(grad * unit, axis=1, keep_dims=True) / n_columns)
        if CENTER:
            out -= tl.sum(grad, axis=1, keep_dims=True) / n_columns
        out *= inverse
        if HAS_RESIDUAL:
            at = grad_sum_ptr + row * grad_sum_stride + column
            out += tl.load(at, mask=live, other=0.0).to(ACCUMULATE)
        tl.store(out_ptr + row * n_columns + column, out.to(out_ptr.dtype.element_ty), mask=live)
    partial = program * n_columns + column
    grad_weight = tl.sum(grad_weight, axis=0, keep_dims=True)
    tl.store(weight_partial_ptr + partial, grad_weight, mask=in_row)
    if HAS_BIAS:
        grad_bias = tl.sum(grad_bias, axis=0, keep_dims=True)
        tl.store(bias_partial_ptr + partial, grad_bias, mask=in_row)


Statistics = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def forward(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    eps: float,
    center: bool,
) -> Statistics:
    """Normed rows, h (empty without a residual), mean (empty without centring), 1/deviation."""
    n_columns = x.shape[-1]
    n_rows = x.numel() // n_columns
    rows, row_stride = _rows(x)
    residual_rows, residual_stride = (rows, row_stride) if residual is None else _rows(residual)
    dtype = x.dtype if residual is None else torch.promote_types(x.dtype, residual.dtype)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    device = x.device
    out = torch.empty(x.shape, dtype=dtype, device=device)
    total = torch.empty(0 if residual is None else x.shape, dtype=dtype, device=device)
    mean = torch.empty(n_rows if center else 0, dtype=wide, device=device)
    inverse = torch.empty(n_rows, dtype=wide, device=device)
    # Numbers reach a kernel in fp32; float64 gets them as constants, a compilation for each value.
    exact = eps if wide == torch.float64 else None
    has = (residual is not None, bias is not None)
    kernel, settings, block = _forward(MAX_BLOCK, n_columns, dtype, center, *has, exact)
    tensors = (rows, residual_rows, weight, weight if bias is None else bias)
    with torch.cuda.device_of(x):  # the launch goes to the current device, not to the tensor's
        kernel[(-(-n_rows // block),)](
            *tensors, out, total, mean, inverse,
            n_rows, n_columns, row_stride, residual_stride, eps, **settings,
        )  # fmt: skip
    return out, total, mean, inverse


def backward(
    grad: torch.Tensor,
    grad_sum: torch.Tensor | None,
    h: torch.Tensor,
    weight: torch.Tensor,
    mean: torch.Tensor,
    inverse: torch.Tensor,
    has_bias: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of h, of the weight and of the bias (empty without one)."""
    n_columns = h.shape[-1]
    n_rows = h.numel() // n_columns
    (rows, stride), (grad_rows, grad_stride) = _rows(h), _rows(grad)
    sum_rows, sum_stride = (grad_rows, grad_stride) if grad_sum is None else _rows(grad_sum)
    out = torch.empty(h.shape, dtype=h.dtype, device=h.device)
    kernel, settings = _pick("backward", n_columns, h.dtype)
    steps, programs = bands(n_rows, settings.get("ROWS", 1), h.device)
    weight_partial = inverse.new_zeros(programs, n_columns)  # zeros: the wide kernel adds to them
    bias_partial = inverse.new_zeros(programs if has_bias else 0, n_columns)
    settings.update({"CENTER": mean.numel() > 0, "HAS_RESIDUAL": grad_sum is not None})
    settings["HAS_BIAS"] = has_bias
    tensors = (rows, weight, mean, inverse, grad_rows, sum_rows, out, weight_partial, bias_partial)
    strides = (stride, grad_stride, sum_stride)
    with torch.cuda.device_of(h):
        kernel[(programs,)](*tensors, n_rows, n_columns, steps, *strides, **settings)
    grad_bias = bias_partial.sum(0) if has_bias else bias_partial.new_empty(0)
    return out, weight_partial.sum(0), grad_bias


def bands(n_rows: int, rows: int, device: torch.device) -> tuple[int, int]:
    """Split the rows among the backward programs: steps of ``rows`` rows each, and programs."""
    programs = INTERPRETED_PROGRAMS
    if device.type == "cuda":
        sms = torch.cuda.get_device_properties(device).multi_processor_count
        programs = PROGRAMS_PER_SM * sms
    steps = -(-n_rows // (rows * programs))
    return steps, -(-n_rows // (rows * steps))


def config(direction: str, n_columns: int, dtype: torch.dtype) -> dict[str, Any]:
    """Pick the compile-time values of a kernel for rows of ``n_columns``."""
    block = min(triton.next_power_of_2(n_columns), MAX_BLOCK)
    settings: dict[str, Any] = {
        "BLOCK": block,
        "ACCUMULATE": tl.float64 if dtype == torch.float64 else tl.float32,
    }
    rows, tile = 1, TILE
    per_warp = 512 if direction == "forward" else 256  # 16 or 8 elements a thread
    if direction == "backward" and dtype == torch.float32:
        tile, per_warp = TILE // 2, 128  # with twice either, Triton 3.6 spills 8 bytes on sm_90
    if n_columns <= block:
        rows = settings["ROWS"] = max(1, tile // block)
    return settings | {"num_warps": min(32, max(4, rows * block // per_warp))}


def _pick(direction: str, n_columns: int, dtype: torch.dtype) -> tuple[Any, dict[str, Any]]:
    settings = config(direction, n_columns, dtype)
    if "ROWS" in settings:
        narrow = {"forward": norm_forward_kernel, "backward": norm_backward_kernel}
        return narrow[direction], settings
    return getattr(wide, f"norm_wide_{direction}_kernel"), settings


@cache
def _forward(
    max_block: int,  # tests change it
    n_columns: int,
    dtype: torch.dtype,
    center: bool,
    has_residual: bool,
    has_bias: bool,
    eps: float | None,
) -> tuple[Any, dict[str, Any], int]:
    """Kernel, compile-time values and rows a program of a forward pass."""
    kernel, settings = _pick("forward", n_columns, dtype)
    settings |= {"CENTER": center, "HAS_RESIDUAL": has_residual, "HAS_BIAS": has_bias, "EPS": eps}
    return kernel, settings, settings.get("ROWS", 1)


def _rows(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    """``(..., C)`` with adjacent columns, and how far apart its rows are; a view where one is."""
    if x.is_contiguous():
        return x, x.shape[-1]
    rows = x.reshape(-1, x.shape[-1])
    rows = rows if rows.stride(1) == 1 else rows.contiguous()
    return rows, rows.stride(0)
