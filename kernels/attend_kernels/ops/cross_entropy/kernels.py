"""The kernels behind ``cross_entropy`` and their launchers; needs Triton.

Equations, letters and memory traffic: see ``api``. One program owns
one row. Where the row fits in one block it stays in registers between the sums and the gradient;
else it is walked in blocks and the gradient reads it again, from the cache while the rows in flight
fit there.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

MAX_BLOCK = 16_384  # longest row held in one block: 16 fp32 values a thread at 32 warps


@triton.jit
def _slope(z, row_max, pull, at, target, n_columns, smoothing, SMOOTH: tl.constexpr):  # noqa: N803
    """The loss's derivative by each logit: (1 + 2 z_loss lse) p - the smoothed one-hot target."""
    slope = tl.exp(z - row_max) * pull  # not exp(z - lse): that loses digits where lse is large
    wanted = 1.0
    if SMOOTH:
        slope -= smoothing / n_columns
        wanted = 1.0 - smoothing
    return tl.where(at == target, slope - wanted, slope)


@triton.jit
def cross_entropy_kernel(
    logits_ptr,
    targets_ptr,
    count_ptr,
    loss_ptr,
    gradient_ptr,
    n_columns,
    row_stride,
    ignore_index,
    smoothing,
    z_loss,
    MEAN: tl.constexpr,  # noqa: N803  # Triton's habit: compile-time values in capitals
    SMOOTH: tl.constexpr,  # noqa: N803
    WITH_GRADIENT: tl.constexpr,  # noqa: N803
    SMOOTHING: tl.constexpr,  # noqa: N803
    Z_LOSS: tl.constexpr,  # noqa: N803
    ONE_BLOCK: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
    ACCUMULATE: tl.constexpr,  # noqa: N803
):
    """Write one row's loss and, for WITH_GRADIENT, the loss's gradient by the row's logits."""
    if SMOOTHING is not None:
        smoothing = tl.full((), SMOOTHING, ACCUMULATE)
        z_loss = tl.full((), Z_LOSS, ACCUMULATE)
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    logits_row = logits_ptr + row * row_stride
    gradient_row = gradient_ptr + row * n_columns
    kind = gradient_ptr.dtype.element_ty
    target = tl.load(targets_ptr + row)
    if target == ignore_index:  # weighs nothing, and its logits are not even read
        tl.store(loss_ptr + row, 0.0)
        if WITH_GRADIENT:
            for start in range(0, n_columns, BLOCK):
                at = start + column
                tl.store(gradient_row + at, tl.zeros((BLOCK,), kind), mask=at < n_columns)
        return
    weight = 1.0
    if MEAN:
        weight = 1.0 / tl.load(count_ptr).to(ACCUMULATE)
    # A target outside the vocabulary must not read other memory: NaN says so in the result.
    known = (target >= 0) & (target < n_columns)
    weight = tl.where(known, weight, float("nan"))

    if ONE_BLOCK:
        live = column < n_columns
        z = tl.load(logits_row + column, mask=live, other=-float("inf")).to(ACCUMULATE)
        row_max = tl.max(z, axis=0)
        row_sum = tl.sum(tl.exp(z - row_max), axis=0)
        lse = row_max + tl.log(row_sum)
        total = tl.sum(tl.where(live, z, 0.0), axis=0)
        if WITH_GRADIENT:
            pull = (1.0 + 2.0 * z_loss * lse) / row_sum
            slope = _slope(z, row_max, pull, column, target, n_columns, smoothing, SMOOTH)
            tl.store(gradient_row + column, (slope * weight).to(kind), mask=live)
    else:
        row_max = tl.full((), -float("inf"), ACCUMULATE)
        row_sum = tl.zeros((), ACCUMULATE)
        total = tl.zeros((), ACCUMULATE)
        for start in range(0, n_columns, BLOCK):
            at = start + column
            live = at < n_columns
            z = tl.load(logits_row + at, mask=live, other=-float("inf")).to(ACCUMULATE)
            new_max = tl.maximum(row_max, tl.max(z, axis=0))
            safe_max = tl.where(new_max == -float("inf"), 0.0, new_max)
            row_sum = row_sum * tl.exp(row_max - safe_max)
            row_sum += tl.sum(tl.exp(z - safe_max), axis=0)
            row_max = new_max
            if SMOOTH:
                total += tl.sum(tl.where(live, z, 0.0), axis=0)
        lse = row_max + tl.log(row_sum)
        if WITH_GRADIENT:
            pull = (1.0 + 2.0 * z_loss * lse) / row_sum
            for start in range(0, n_columns, BLOCK):
                at = start + column
                live = at < n_columns
                z = tl.load(logits_row + at, mask=live, other=0.0).to(ACCUMULATE)
                slope = _slope(z, row_max, pull, at, target, n_columns, smoothing, SMOOTH)
                tl.store(gradient_row + at, (slope * weight).to(kind), mask=live)

    picked = tl.load(logits_row + target, mask=known, other=0.0).to(ACCUMULATE)
    if SMOOTH:
        picked = (1.0 - smoothing) * picked + smoothing * (total / n_columns)
    loss = (row_max - picked) + tl.log(row_sum) + z_loss * lse * lse
    tl.store(loss_ptr + row, loss * weight)


@triton.jit
def scale_kernel(
    gradient_ptr,
    factor_ptr,
    n_columns,
    factor_stride,
    BLOCK: tl.constexpr,  # noqa: N803
    ACCUMULATE: tl.constexpr,  # noqa: N803
):
    """Multiply one row in place by its factor; a factor of 1 costs one read of the factor."""
    row = tl.program_id(0).to(tl.int64)
    factor = tl.load(factor_ptr + row * factor_stride).to(ACCUMULATE)
    if factor != 1.0:
        for start in range(0, n_columns, BLOCK):
            at = start + tl.arange(0, BLOCK)
            pointer = gradient_ptr + row * n_columns + at
            old = tl.load(pointer, mask=at < n_columns, other=0.0).to(ACCUMULATE)
            tl.store(pointer, (old * factor).to(gradient_ptr.dtype.element_ty), mask=at < n_columns)


def loss_and_gradient(
    logits: torch.Tensor,
    targets: torch.Tensor,
    ignore_index: int,
    label_smoothing: float,
    z_loss: float,
    reduction: str,
    with_gradient: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Reduced loss and its gradient, shaped as the logits (empty unless asked for)."""
    rows = logits.reshape(-1, logits.shape[-1])
    rows = rows if rows.stride(1) == 1 else rows.contiguous()
    labels = targets.reshape(-1).contiguous()
    n_rows, n_columns = rows.shape
    wide = torch.float64 if logits.dtype == torch.float64 else torch.float32
    losses = torch.empty(n_rows, dtype=wide, device=logits.device)
    gradient = logits.new_empty(logits.shape if with_gradient else 0)
    # Counted on the device: the gradient can be divided by it without waiting for the number.
    count = (labels != ignore_index).sum() if reduction == "mean" else labels
    settings = config(n_columns, logits.dtype)
    settings.update({"MEAN": reduction == "mean", "SMOOTH": label_smoothing != 0.0})
    settings["WITH_GRADIENT"] = with_gradient
    # Numbers reach a kernel in fp32; float64 gets them as constants, a compilation for each value.
    exact = (label_smoothing, z_loss) if wide == torch.float64 else (None, None)
    settings.update(zip(("SMOOTHING", "Z_LOSS"), exact, strict=True))
    kernel: Any = cross_entropy_kernel
    with torch.cuda.device_of(logits):  # the launch goes to the current device, not the tensor's
        kernel[(n_rows,)](
            *(rows, labels, count, losses, gradient, n_columns, rows.stride(0)),
            *(ignore_index, label_smoothing, z_loss),
            **settings,
        )
    loss = losses.reshape(targets.shape) if reduction == "none" else losses.sum()
    return loss, gradient


def scale_in_place(gradient: torch.Tensor, factor: torch.Tensor) -> None:
    """Multiply ``gradient (..., V)`` by ``factor``, one number or one a row."""
    n_columns = gradient.shape[-1]
    factor = factor.reshape(-1).contiguous()
    settings = config(n_columns, gradient.dtype)
    del settings["ONE_BLOCK"]
    kernel: Any = scale_kernel
    with torch.cuda.device_of(gradient):
        kernel[(gradient.numel() // n_columns,)](
            gradient, factor, n_columns, 0 if factor.numel() == 1 else 1, **settings
        )


def config(n_columns: int, dtype: torch.dtype) -> dict[str, Any]:
    """Pick the compile-time values for rows of ``n_columns``."""
    block = min(triton.next_power_of_2(n_columns), MAX_BLOCK)
    return {
        "ONE_BLOCK": n_columns <= block,
        "BLOCK": block,
        "ACCUMULATE": tl.float64 if dtype == torch.float64 else tl.float32,
        "num_warps": min(32, max(4, block // 512)),
    }
