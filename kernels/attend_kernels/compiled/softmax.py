"""The compiled cases of the softmax kernels: rows that share a program, fill one, or take steps."""

from __future__ import annotations

import torch

from attend_kernels.compiled.case import Case
from attend_kernels.compiled.compiler import Launch, argument_types
from attend_kernels.ops.softmax import kernels as softmax_kernels
from attend_kernels.ops.softmax.api import MAX_BLOCK, TILE

NOTE = """\
Memory bound: no products. blocks: rows × columns a program holds. Rows of an odd length are not
aligned: no load of them can be wide."""

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
KERNELS = {
    "forward": softmax_kernels.softmax_forward_kernel,
    "backward": softmax_kernels.softmax_backward_kernel,
}
LENGTHS = (17, 128, 1024, 4096, 16_384, 50_257, 65_536)


def cases(architecture: int) -> list[Case]:
    """Both kernels, in both dtypes, for every length of row."""
    return [
        _case(architecture, direction, dtype, length)
        for dtype in DTYPES
        for direction in KERNELS
        for length in LENGTHS
    ]


def _case(architecture: int, direction: str, dtype: str, length: int) -> Case:
    kernel = KERNELS[direction]
    constants = softmax_kernels.config(length, DTYPES[dtype], MAX_BLOCK, TILE)
    warps = constants.pop("num_warps")
    constants["column_stride"] = 1  # a launch makes a stride of 1 a constant
    types = argument_types(kernel, constants, dtype, {})
    odd = ["n_columns", "row_stride"] if length % 16 else []
    return Case(
        Launch(kernel, types, constants, architecture, warps, 3, odd),
        direction,
        dtype,
        f"S {length:,}",
        f"{constants['ROWS']} × {constants['BLOCK']}",
        wide=length % 16 == 0,
    )
