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

import torch

from attend_kernels.common import fallback
from attend_kernels.common.arguments import assert_tensors
from attend_kernels.common.shapes import ShapeError, assert_shape
from attend_kernels.ops.cross_entropy.naive import naive_cross_entropy
from attend_kernels.ops.cross_entropy.operators import loss_and_gradient

REDUCTIONS = ("mean", "sum", "none")


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
    return loss_and_gradient(logits, targets, *options)[0]


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
