"""The compiled cases of the causal convolution: two and four taps, with and without SiLU."""

from __future__ import annotations

import torch

from attend_kernels.compiled.case import Case
from attend_kernels.compiled.compiler import Launch, argument_types
from attend_kernels.ops.conv1d import kernels as conv1d_kernels
from attend_kernels.ops.conv1d import step as conv1d_step

NOTE = """\
Memory bound: no products. blocks: steps × channels a program holds. With bias and state. A step of
decoding, 1 × channels, reads a state of K - 1 numbers a channel."""

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
NARROW: tuple[str, ...] = ("x_ptr", "out_ptr", "grad_ptr", "dx_ptr")
UNALIGNED = ("T", "w_tap", "state_tap")


def cases(architecture: int) -> list[Case]:
    """Both directions in both dtypes."""
    return [
        _case(architecture, direction, dtype, taps, silu)
        for dtype in DTYPES
        for direction in ("forward", "backward")
        for taps in (2, 4)
        for silu in (False, True)
    ] + [_step(architecture, dtype, taps) for dtype in DTYPES for taps in (2, 4)]


def _case(architecture: int, direction: str, dtype: str, taps: int, silu: bool) -> Case:
    kernel = getattr(conv1d_kernels, f"conv1d_{direction}_kernel")
    constants = conv1d_kernels.constants(direction, taps, silu, DTYPES[dtype])
    warps = constants.pop("num_warps")
    narrow = dict.fromkeys(NARROW, f"*{dtype}")
    types = argument_types(kernel, constants, "fp32", narrow)
    return Case(
        Launch(kernel, types, constants, architecture, warps, 3, UNALIGNED),
        direction,
        dtype,
        f"{taps} taps, {'SiLU' if silu else 'linear'}",
        f"{constants['BLOCK_T']} × {constants['BLOCK_C']}",
    )


def _step(architecture: int, dtype: str, taps: int) -> Case:
    kernel = conv1d_step.conv1d_step_kernel
    constants = conv1d_step.constants(taps, True, DTYPES[dtype]).copy()
    warps = constants.pop("num_warps")
    types = argument_types(kernel, constants, dtype, {})
    unaligned = ("blocks", "w_channel", "w_tap", "state_channel", "state_tap")
    return Case(
        Launch(kernel, types, constants, architecture, warps, 3, unaligned),
        "step",
        dtype,
        f"{taps} taps, SiLU",
        f"1 × {constants['BLOCK_C']}",
        wide=False,  # two channels a thread
    )
