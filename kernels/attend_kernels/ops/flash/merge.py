"""Attention over parts of the keys, put together: exact, whatever the parts are.

With output O_i and LSE L_i of the keys in part i, and L = log Σ exp(L_i):

    O = Σ exp(L_i − L) O_i

Milakov and Gimelshein 2018, "Online normalizer calculation for softmax", section 3.1, for the
sums; Rabe and Staats 2021, "Self-attention Does Not Need O(n²) Memory", section 2, for outputs. It
is what ring attention (Liu et al. 2023) and a shared prompt's cache do.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from attend_kernels.common.layout import Layout, pattern
from attend_kernels.common.shapes import assert_shape


def merge_partials(
    outputs: Sequence[torch.Tensor], lses: Sequence[torch.Tensor], *, layout: Layout = "bhtd"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Combine attention over disjoint sets of keys into attention over all of them.

    In plain PyTorch: it reads each part once, and gradients flow into all of them. A part whose LSE
    is -inf (it showed the query nothing) has no say; where all are, the output is 0.

    Args:
        outputs: what ``flash_attention`` or ``decode_attention`` returned for each part.
        lses: the LSEs returned with them (``return_lse=True``), natural log.
        layout: that of the outputs; ``"bthd"`` for heads after time. LSEs have heads first.

    Shapes: each output ``(B, H, T, D)`` and each LSE ``(B, H, T)`` -> output ``(B, H, T, D)`` in
    the outputs' dtype, and LSE ``(B, H, T)`` in fp32 (fp64 where the LSEs are).

    Raises:
        ShapeError: the shapes do not belong together.
        ValueError: there is no part, or not one LSE for each output.
    """
    if not outputs or len(outputs) != len(lses):
        raise ValueError(
            f"merge_partials: expected one LSE for each output and one part at least, "
            f"got {len(outputs)} outputs and {len(lses)} LSEs. Next: call with return_lse=True."
        )
    sizes: dict[str, int] = {}
    axes = pattern("merge_partials", layout, "B H T D")
    for index, (output, lse) in enumerate(zip(outputs, lses, strict=True)):
        sizes = assert_shape(output, axes, sizes, name=f"outputs[{index}]")
        sizes = assert_shape(lse, "B H T", sizes, name=f"lses[{index}]")
    wide = torch.float64 if lses[0].dtype == torch.float64 else torch.float32
    parts = torch.stack([lse.to(wide) for lse in lses])  # (parts, B, H, T)
    empty = (parts == float("-inf")).all(dim=0)
    parts = parts.masked_fill(empty, 0.0)  # -inf everywhere would give NaN, and NaN gradients
    total = torch.logsumexp(parts, dim=0)
    shares = torch.exp(parts - total).masked_fill(empty, 0.0)[..., None]
    stacked = torch.stack([output.to(wide) for output in outputs])
    shares = shares if layout == "bhtd" else shares.transpose(2, 3)
    stacked = torch.where(shares == 0, 0.0, stacked)  # 0 · inf is NaN, in gradients too
    merged = (shares * stacked).sum(dim=0)
    return merged.to(outputs[0].dtype), total.masked_fill(empty, float("-inf"))
