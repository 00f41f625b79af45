"""The compiled cases of the selective scan's kernels: their whole table, with every option."""

from __future__ import annotations

from typing import Any

import torch

from attend_kernels.compiled.case import ATOMIC, Case
from attend_kernels.compiled.compiler import Launch, argument_types
from attend_kernels.ops.selective_scan import backward as selective_scan_backward
from attend_kernels.ops.selective_scan import forward as selective_scan_forward
from attend_kernels.ops.selective_scan import segments as selective_scan_segments
from attend_kernels.ops.selective_scan import step as selective_scan_step
from attend_kernels.ops.selective_scan import tiles as selective_scan_tiles
from attend_kernels.ops.selective_scan.recurrence import constants

NOTE = """\
No products; exponentials are the bound. blocks: channels a program × time steps unrolled. With D,
gate, bias, softplus and an initial state. ends and join are launched where time is cut into
segments, with the tiles of the forward kernel. Up to 16 states a thread has all of its channel: the
forward kernel and ends then exchange nothing between threads."""

KERNELS: dict[str, Any] = {
    "forward": selective_scan_forward.selective_scan_forward_kernel,
    "ends": selective_scan_segments.selective_scan_ends_kernel,
    "join": selective_scan_segments.selective_scan_join_kernel,
    "backward": selective_scan_backward.selective_scan_backward_kernel,
}
NARROW = ("u_ptr", "delta_ptr", "z_ptr", "out_ptr", "grad_ptr", "du_ptr", "ddelta_ptr", "dz_ptr")
NARROW += ("x_ptr",)
UNALIGNED = {"T", "segment", "pieces"}  # not multiples of 16, as a launch finds them

# Integers that a kernel keeps from Triton.
HIDDEN = {
    "forward": set(selective_scan_forward.HIDDEN),
    "ends": set(selective_scan_segments.HIDDEN),
}


def cases(architecture: int) -> list[Case]:
    """Every entry of the table, in both dtypes; and the kernels that start segments."""
    found = []
    for dtype in ("bf16", "fp32"):
        for name, states in selective_scan_tiles.TABLE:
            found.append(_case(architecture, name, dtype, states))
            if name == "forward":
                for helper in ("ends", "join"):
                    found += [_case(architecture, helper, dtype, states, b) for b in (False, True)]
        for states in (16, 64, 256):
            found.append(_step(architecture, dtype, states))
    return found


def _step(architecture: int, dtype: str, states: int) -> Case:
    kernel = selective_scan_step.selective_scan_step_kernel
    fixed = selective_scan_step.constants(states, True, torch.float32).copy()
    warps = fixed.pop("num_warps")
    fixed |= {"a_state": 1, "state_channel": 1}  # A as it comes, states as the scan leaves them
    narrow = dict.fromkeys((*NARROW, "b_ptr", "c_ptr"), f"*{dtype}")
    types = argument_types(kernel, fixed, "fp32", narrow)  # pyright: ignore[reportArgumentType]
    return Case(
        Launch(kernel, types, fixed, architecture, warps, 3, {"blocks"}),
        "step",
        dtype,
        f"N {states}",
        f"{fixed['BLOCK_C']} × 1",
        wide=False,
    )


def _case(
    architecture: int, name: str, dtype: str, states: int, reverse: bool | None = None
) -> Case:
    kernel = KERNELS[name]
    config = selective_scan_tiles.TABLE["backward" if name == "backward" else "forward", states]
    fixed: dict[str, Any] = constants(states, config, softplus=True)
    warps = fixed.pop("num_warps")
    fixed |= {"AHEAD": selective_scan_tiles.AHEAD, "SOON": selective_scan_tiles.SOON}
    fixed["REVERSE"] = reverse
    if name == "ends" and not reverse:
        fixed["z_ptr"] = None
    fixed = {key: value for key, value in fixed.items() if key in kernel.arg_names}
    types = argument_types(kernel, fixed, "fp32", dict.fromkeys(NARROW, f"*{dtype}"))
    alone = states == 16 and name in ("forward", "ends")
    return Case(
        Launch(kernel, types, fixed, architecture, warps, 3, UNALIGNED | HIDDEN.get(name, set())),
        name + ", backward in time" * bool(reverse),
        dtype,
        f"N {states}",
        f"{config.block_c} × {config.steps}",
        wide=False,
        without=(*ATOMIC, "SHFL", "BAR") if alone else ATOMIC,
    )
