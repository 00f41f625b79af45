"""The compiled cases of the cross-entropy kernels: a row in one block, and in several."""

from __future__ import annotations

import torch

from attend_kernels.compiled.case import Case
from attend_kernels.compiled.compiler import Launch, argument_types
from attend_kernels.ops.cross_entropy import kernels as cross_entropy_kernels

NOTE = """\
Memory bound: no products. blocks: columns a program holds. loss is loss and gradient of the mean,
with label smoothing; scale is the backward pass where the loss's gradient is not 1. Rows of an odd
vocabulary (50,257) are not aligned: no load of them can be wide."""

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
VOCABULARIES = (256, 2048, 16_384, 50_257, 128_256)
OTHERS: dict[str, str] = dict.fromkeys(("loss_ptr", "factor_ptr"), "*fp32")
OTHERS |= dict.fromkeys(("targets_ptr", "count_ptr"), "*i64")
OTHERS |= dict.fromkeys(("smoothing", "z_loss"), "fp32")


def cases(architecture: int) -> list[Case]:
    """Both kernels, in both dtypes, for every vocabulary."""
    return [
        _case(architecture, name, dtype, vocabulary)
        for dtype in DTYPES
        for vocabulary in VOCABULARIES
        for name in ("loss", "scale")
    ]


def _case(architecture: int, name: str, dtype: str, vocabulary: int) -> Case:
    constants = cross_entropy_kernels.config(vocabulary, DTYPES[dtype])
    warps = constants.pop("num_warps")
    if name == "loss":
        kernel = cross_entropy_kernels.cross_entropy_kernel
        constants |= {"MEAN": True, "SMOOTH": True, "WITH_GRADIENT": True}
        constants |= {"SMOOTHING": None, "Z_LOSS": None}  # of float64 alone
    else:
        kernel = cross_entropy_kernels.scale_kernel
        del constants["ONE_BLOCK"]
    types = argument_types(kernel, constants, dtype, OTHERS)
    odd = ["ignore_index", "factor_stride"]
    odd += ["n_columns", "row_stride"] if vocabulary % 16 else []
    return Case(
        Launch(kernel, types, constants, architecture, warps, 3, odd),
        name,
        dtype,
        f"V {vocabulary:,}",
        f"{constants['BLOCK']:,}",
        wide=vocabulary % 16 == 0 and vocabulary > 256,  # 256: two numbers a thread
    )
