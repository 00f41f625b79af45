"""Cross-entropy, fused: the loss and its gradient from one pass over the logits.

Equations, for one row z of V logits with target t, smoothing s and z-loss weight k::

    lse  = log(sum_v exp(z_v))                            p_v = exp(z_v - lse)
    loss = lse - (1 - s) z_t - s mean(z) + k lse^2
    dloss/dz_v = (1 + 2 k lse) p_v - (1 - s) [v = t] - s / V

lse is found online, block by block (Milakov & Gimelshein 2018, algorithm 3). Smoothing: Szegedy et
al. 2016, "Rethinking the Inception architecture", section 7; it is cross-entropy against the target
distribution (1 - s) [v = t] + s / V. The term k lse^2 keeps lse near 0: Chowdhery et al. 2022,
"PaLM", section 5.

Letters: ``V`` vocabulary; all leading axes are rows.

Memory traffic, in elements a row. Least possible for loss and gradient: 2 V, each logit read once
and each gradient written once. That is what the kernel moves in the forward pass for rows that fit
in registers (V <= 16,384); a longer row is read a second time, from the cache while the rows in
flight fit there, else 3 V. The backward pass moves nothing where the gradient it is handed is 1, as
from ``loss.backward()``; else 2 V to scale what is stored. ``naive_cross_entropy`` moves 8 V for
both passes in fp32, more below.

Memory held: the gradient, one tensor of the shape and dtype of the logits, lives from the forward
pass to the backward pass. The logits themselves are not kept.
"""

from __future__ import annotations

from typing import Any

import torch

from attend_kernels import fallback
from attend_kernels.arguments import assert_tensors
from attend_kernels.shapes import ShapeError, assert_shape

REDUCTIONS = ("mean", "sum", "none")


def naive_cross_entropy(
    logits: torch.Tensor,
    targets: torch.Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> torch.Tensor:
    """Cross-entropy in plain PyTorch, one step at a time; shapes as ``cross_entropy``."""
    wide = logits if logits.dtype == torch.float64 else logits.float()
    lse = torch.logsumexp(wide, dim=-1)
    live = targets != ignore_index
    index = targets.masked_fill(~live, 0).long()
    picked = wide.gather(-1, index[..., None])[..., 0]
    if label_smoothing:
        picked = (1.0 - label_smoothing) * picked + label_smoothing * wide.mean(dim=-1)
    losses = (lse - picked + z_loss * lse.square()).masked_fill(~live, 0.0)
    if reduction == "none":
        return losses
    return losses.sum() / live.sum().clamp_min(1) if reduction == "mean" else losses.sum()


def cross_entropy(
    logits: torch.Tensor,
    targets: torch.Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> torch.Tensor:
    """Cross-entropy of logits against target indices in one kernel, loss and gradient.

    Shapes: ``logits (..., V), targets (...)`` integers ``-> ()``, or ``(...)`` for
    ``reduction="none"``. The loss is in nats and in fp32 (fp64 for fp64) whatever the dtype of the
    logits (fp16, bf16, fp32, fp64), inside ``torch.autocast`` too; the gradient has their dtype.

    Rows whose target is ``ignore_index`` lose nothing and get no gradient; the mean is over the
    others, and 0 if there is none (``torch.nn.functional.cross_entropy`` gives NaN). A target
    outside the vocabulary makes the loss NaN: raising would mean waiting for the GPU.

    Logits whose rows are not evenly spaced in memory, as ``logits[:, :-1]``, are copied first.
    Shift the targets instead and set the last to ``ignore_index``.

    Without Triton or a GPU it warns once and runs ``naive_cross_entropy``. There is no second
    derivative.

    Raises:
        ShapeError: ``targets`` has not the shape of the rows of ``logits``.
        TypeError: logits are not floating point, or targets not integers.
        ValueError: different devices, an unknown reduction, or smoothing outside 0 ... 1.
    """
    _check(logits, targets, label_smoothing, reduction)
    reason = fallback.why_not(logits) if logits.numel() else None
    if reason:
        fallback.warn_once("cross_entropy", "naive_cross_entropy", reason)
    if reason or logits.numel() == 0:
        return naive_cross_entropy(
            logits,
            targets,
            ignore_index=ignore_index,
            label_smoothing=label_smoothing,
            z_loss=z_loss,
            reduction=reduction,
        )
    with_gradient = logits.requires_grad and torch.is_grad_enabled()
    smoothing, weight = float(label_smoothing), float(z_loss)
    options = (ignore_index, smoothing, weight, reduction, with_gradient)
    return _cross_entropy(logits, targets, *options)[0]


@torch.library.custom_op("attend::cross_entropy", mutates_args=())
def _cross_entropy(
    logits: torch.Tensor,
    targets: torch.Tensor,
    ignore_index: int,
    label_smoothing: float,
    z_loss: float,
    reduction: str,
    with_gradient: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The reduced loss, and its gradient by the logits (empty unless asked for)."""
    from attend_kernels import cross_entropy_triton

    return cross_entropy_triton.loss_and_gradient(
        logits, targets, ignore_index, label_smoothing, z_loss, reduction, with_gradient
    )


@_cross_entropy.register_fake
def _(logits, targets, ignore_index, label_smoothing, z_loss, reduction, with_gradient):
    wide = torch.float64 if logits.dtype == torch.float64 else torch.float32
    loss = logits.new_empty(targets.shape if reduction == "none" else (), dtype=wide)
    return loss, logits.new_empty(logits.shape if with_gradient else 0)


@torch.library.custom_op("attend::cross_entropy_backward", mutates_args=())
def _scaled(gradient: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """The stored gradient times the gradient of the loss, ``()`` or one number a row."""
    return (gradient * factor[..., None]).to(gradient.dtype)


@_scaled.register_fake
def _(gradient, factor):
    return torch.empty_like(gradient)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    ctx.set_materialize_grads(False)  # else autograd makes zeros for the gradient of the gradient
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])


def _gradient(
    ctx: Any, factor: torch.Tensor | None, _: torch.Tensor | None
) -> tuple[torch.Tensor | None, ...]:
    """Scale the stored gradient: in place where this backward pass is the only one of its graph."""
    (gradient,) = ctx.saved_tensors
    none = (None,) * 6
    if torch.is_grad_enabled():
        raise RuntimeError(
            "cross_entropy has no second derivative: its gradient is stored as numbers, but "
            "backward(create_graph=True) asked for one. Next: naive_cross_entropy, which has it."
        )
    if factor is None:
        return None, *none
    # A compiler traces with tensors of its own types; it plans its own memory.
    traced = type(gradient) is not torch.Tensor
    # retain_graph=True is known to the engine alone; torch.compile asks it the same way.
    engine: Any = torch._C._autograd  # pyright: ignore[reportAttributeAccessIssue]  # not in stubs
    if traced or engine._get_current_graph_task_keep_graph():
        return _scaled(gradient, factor), *none
    from attend_kernels import cross_entropy_triton

    cross_entropy_triton.scale_in_place(gradient, factor)
    return gradient, *none


_cross_entropy.register_autograd(_gradient, setup_context=_save)


def _check(
    logits: torch.Tensor, targets: torch.Tensor, label_smoothing: float, reduction: str
) -> None:
    assert_tensors("cross_entropy", logits=logits, targets=targets)
    sizes = assert_shape(logits, "... V", name="logits")
    if not logits.is_floating_point():
        raise TypeError(
            f"cross_entropy needs floating-point logits, got {logits.dtype}. "
            f"Likely cause: logits and targets swapped. Next: cross_entropy(logits, targets)."
        )
    if targets.dtype not in (torch.int32, torch.int64):
        raise TypeError(
            f"cross_entropy needs target indices (int32 or int64), got {targets.dtype}. "
            f"Next: targets.long(); for probabilities as targets, "
            f"torch.nn.functional.cross_entropy."
        )
    if targets.shape != logits.shape[:-1]:
        raise ShapeError(
            f"targets must hold one index for each row of logits: expected "
            f"{tuple(logits.shape[:-1])}, got {tuple(targets.shape)}. Likely cause: logits "
            f"flattened and targets not, or the class axis second as PyTorch has it. "
            f"Next: targets.reshape(logits.shape[:-1]), or logits.movedim(1, -1)."
        )
    if sizes["V"] == 0 and targets.numel():
        raise ShapeError(
            f"cross_entropy needs at least one logit a row: expected (..., V) with V >= 1, got "
            f"{tuple(logits.shape)}. Next: print the shape where logits are made."
        )
    if targets.device != logits.device:
        raise ValueError(
            f"cross_entropy needs both tensors on one device, got logits on {logits.device} and "
            f"targets on {targets.device}. Next: targets.to(logits.device)."
        )
    if reduction not in REDUCTIONS:
        raise ValueError(
            f"cross_entropy cannot reduce by {reduction!r}: expected 'mean', 'sum' or 'none'. "
            f"Next: leave it out for 'mean'."
        )
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(
            f"label_smoothing is a share of the target, 0 to 1, got {label_smoothing}. "
            f"Likely cause: a percentage. Next: label_smoothing={label_smoothing / 100:g}."
        )
