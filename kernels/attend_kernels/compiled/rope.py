"""The compiled cases of the rope kernel: the usual heads, and one rotated in part."""

from __future__ import annotations

import torch

from attend_kernels.compiled.case import Case
from attend_kernels.compiled.compiler import Launch, argument_types
from attend_kernels.ops.rope import kernels as rope_kernels

NOTE = """\
Memory bound: no products. blocks: tokens × heads a program rotates. The cos and sin tables are
fp32, positions are given. 16 pairs of 128 are a head of which a quarter is rotated."""

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
ONES = {"x_stride": 1, "out_stride": 1, "positions_stride": 1}  # a launch makes 1 a constant
OTHERS = {"cos_ptr": "*fp32", "sin_ptr": "*fp32", "positions_ptr": "*i64"}


def cases(architecture: int) -> list[Case]:
    """Heads of 64, 128 and 256, and one rotated in part, in both dtypes and both layouts."""
    return [
        _case(architecture, dtype, width, pairs, interleaved)
        for dtype in DTYPES
        for width, pairs in ((64, 32), (128, 64), (256, 128), (128, 16))
        for interleaved in (False, True)
    ]


def _case(architecture: int, dtype: str, width: int, pairs: int, interleaved: bool) -> Case:
    kernel = rope_kernels.rope_kernel
    constants = ONES | rope_kernels.config(pairs, width, DTYPES[dtype])
    constants |= {"INVERSE": False, "INTERLEAVED": interleaved, "HAS_POSITIONS": True}
    warps = constants.pop("num_warps")
    types = argument_types(kernel, constants, dtype, OTHERS)
    return Case(
        Launch(kernel, types, constants, architecture, warps, 3),
        "rope",
        dtype,
        f"D {width}, {pairs} pairs, {'interleaved' if interleaved else 'halves'}",
        f"{constants['TOKENS']} × {constants['HEADS']}",
        wide=pairs > 16,  # 16 halves in bf16 are 32 bytes, less than a warp reads at once
    )
