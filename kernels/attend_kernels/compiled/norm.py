"""The compiled cases of the norm kernels: every block of rows they may use, and the wide ones."""

from __future__ import annotations

import torch

from attend_kernels.compiled.case import Case
from attend_kernels.compiled.compiler import Launch, argument_types
from attend_kernels.ops.norm import kernels as norm_kernels
from attend_kernels.ops.norm import wide as norm_wide

NOTE = """\
Memory bound: no products. blocks: rows × columns a program holds. rms is RMSNorm alone; layer is
LayerNorm with bias and residual, which holds most."""

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
WIDTHS = (64, 256, 1024, 2048, 4096, 8192, 16_384)
OTHERS = dict.fromkeys(
    ("mean_ptr", "inverse_ptr", "weight_partial_ptr", "bias_partial_ptr"), "*fp32"
) | {"eps": "fp32"}


def cases(architecture: int) -> list[Case]:
    """Every width of block forward and backward, in both dtypes, least and most options."""
    return [
        _case(architecture, direction, dtype, width, layer)
        for dtype in DTYPES
        for direction in ("forward", "backward")
        for width in WIDTHS
        for layer in (False, True)
    ]


def _case(architecture: int, direction: str, dtype: str, width: int, layer: bool) -> Case:
    constants = norm_kernels.config(direction, width, DTYPES[dtype])
    constants |= {"CENTER": layer, "HAS_RESIDUAL": layer, "HAS_BIAS": layer}
    if direction == "forward":
        constants["EPS"] = None  # float64 alone has it as a constant
    warps = constants.pop("num_warps")
    kernel = {
        "forward": norm_kernels.norm_forward_kernel,
        "backward": norm_kernels.norm_backward_kernel,
        "wide forward": norm_wide.norm_wide_forward_kernel,
        "wide backward": norm_wide.norm_wide_backward_kernel,
    }[name := direction if "ROWS" in constants else f"wide {direction}"]
    types = argument_types(kernel, constants, dtype, OTHERS)
    return Case(
        Launch(kernel, types, constants, architecture, warps, 3),
        name,
        dtype,
        f"C {width}, {'layer' if layer else 'rms'}",
        f"{constants.get('ROWS', 1)} × {constants['BLOCK']}",
    )
