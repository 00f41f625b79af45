"""Attention sinks: one more score a head, which takes weight and gives nothing.

Equation, for a row with output o and LSE L over its keys, and its head's sink s::

    L' = log(exp(L) + exp(s))        o' = exp(L - L') o = sigmoid(L - s) o

so a row may look nowhere. Sinks join after the kernels, whose LSE has gradients: one more pass over
the output, 2 T D elements a head.

Sources: Xiao et al. 2024, "Efficient streaming language models with attention sinks"; as a learned
score a head: OpenAI 2025, "gpt-oss model card", section 2; Miller 2023, "Attention is off by one"
(s = 0).
"""

from __future__ import annotations

import torch

from attend_kernels.common.shapes import assert_shape


def check_sinks(
    function: str, sinks: torch.Tensor | None, q: torch.Tensor, sizes: dict[str, int]
) -> None:
    """Refuse sinks that are not one number a head, where q is.

    Raises:
        ShapeError, TypeError, ValueError: they are of another shape or kind, or lie elsewhere.
    """
    if sinks is None:
        return
    assert_shape(sinks, "H", sizes, name="sinks")
    if not sinks.is_floating_point():
        raise TypeError(
            f"{function}: sinks are scores, expected floating point, got {sinks.dtype}. "
            f"Next: sinks.float()."
        )
    if sinks.device != q.device:
        raise ValueError(
            f"{function}: sinks are on {sinks.device}, q on {q.device}; expected one device. "
            f"Next: sinks.to(q.device)."
        )


def with_sinks(
    output: torch.Tensor, lse: torch.Tensor, sinks: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Let sinks take their share. Differentiable in all three.

    Shapes: output ``(..., H, T, D)``, lse ``(..., H, T)``, sinks ``(H,)`` -> like output and lse.
    """
    if sinks is None:
        return output, lse
    sinks = sinks.to(lse.dtype)[:, None]
    share = torch.sigmoid(lse - sinks)
    return (output * share[..., None]).to(output.dtype), torch.logaddexp(lse, sinks)
