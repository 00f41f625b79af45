"""The compiled cases of the SSD kernels: all widths, and packed sequences."""

# ruff: noqa: N803, N806  # the paper's letters are capitals

from __future__ import annotations

from dataclasses import replace
from typing import Any

import triton.language as tl

from attend_kernels.compiled.case import Case
from attend_kernels.compiled.compiler import SHARED_LIMIT, Launch, argument_types
from attend_kernels.ops.ssd import backward as ssd_backward
from attend_kernels.ops.ssd import forward as ssd_forward
from attend_kernels.ops.ssd import step as ssd_step
from attend_kernels.ops.ssd import tiles as ssd_tiles
from attend_kernels.ops.ssd.tiles import Tile

NOTE = """\
blocks: steps × columns of x a program handles at once. Nothing may spill. Widths that are no power
of two are filled up with zeros. Products of bf16 with chunks of 64 steps use Hopper's instruction,
which takes no fewer; fp32 products are FFMA by intent. sm_80's tiles fit the consumer cards of that
family too. sweep runs forward and backward in time; decays and step have no products."""

KERNELS: dict[str, Any] = {
    "forward": ssd_forward.ssd_forward_kernel,
    "sweep": ssd_backward.ssd_sweep_kernel,
    "keys": ssd_backward.ssd_keys_kernel,
    "scores": ssd_backward.ssd_scores_kernel,
}
PLACES: tuple[str, ...] = ("starts_ptr", "table_ptr", "firsts_ptr")
NARROW: tuple[str, ...] = ("x_ptr", "grad_ptr", "b_ptr", "c_ptr", "y_ptr", "dx_ptr")
NARROW += ("states_ptr", "grad_states_ptr")
COUNTS = ("T", "tiles", "heads", "groups")  # no multiples of 16, as a launch finds them
ONES = {"dt_head": 1, "ddt_head": 1}  # a launch makes a stride of 1 a constant
GROUP = 80  # heads that share B and C
SIZES = [(P, N) for P in (16, 32, 64, 128) for N in (16, 32, 64, 128, 256)]
PACKED = [(64, 64), (64, 128), (64, 256), (128, 128)]


def cases(architecture: int) -> list[Case]:
    """Every kernel at every pair of widths, (P, N), in bf16 and fp32; packed in bf16."""
    found = [_step(architecture, dtype) for dtype in ("bf16", "fp32")]
    for dtype, sizes, packed in (
        ("bf16", SIZES, False),
        ("bf16", PACKED, True),
        ("fp32", SIZES, False),
    ):
        found.append(_decays(architecture, dtype, packed))
        for P, N in sizes:
            tiles = ssd_tiles.entry(architecture, "fp32" if dtype == "fp32" else "half", P, N)
            least = min(tile.chunk for name, tile in tiles.items() if name != "forward")
            parts = -(-P // min(P, tiles["sweep"].block_p))
            for name, tile in tiles.items():
                tile = tile if name == "forward" else replace(tile, chunk=least)
                for reverse in (False, True) if name == "sweep" else (False,):
                    options = {"REVERSE": reverse, "PARTS": parts}
                    found.append(_case(architecture, name, dtype, P, N, tile, packed, options))
    return found


def _case(
    architecture: int,
    name: str,
    dtype: str,
    P: int,
    N: int,
    tile: Tile,
    packed: bool,
    options: dict[str, Any],
) -> Case:
    kernel, exact = KERNELS[name], dtype == "fp32"
    block = min(P, tile.block_p)
    constants = options | {
        "GROUP": GROUP,
        "MEMBERS": ssd_backward.MEMBERS,
        "P": P,
        "BLOCK_P": block,
        "N": N,
        "CHUNK": tile.chunk,
        "DOT": tl.float32 if exact else tl.bfloat16,
        "PRECISION": "ieee" if exact else "tf32",
    }
    launch = _launch(kernel, dtype, constants, packed, architecture, tile.warps, tile.stages)
    hopper = architecture == 90 and tile.chunk >= 64
    return Case(
        launch,
        name + ", backward in time" * options["REVERSE"],
        "fp32" if exact else "fp16, bf16",
        f"P {P}, N {N}" + ", packed" * packed,
        f"{tile.chunk} × {block}",
        product="FFMA" if exact else "HGMMA" if hopper else "HMMA",
        wide=P > 16 and N > 32,  # less is one load of a warp for few threads
        model=(P, N, packed) == (64, 128, False),
        most_shared=SHARED_LIMIT[86 if architecture == 80 else architecture],
    )


def _decays(architecture: int, dtype: str, packed: bool) -> Case:
    constants = {"CHUNK": 64, "BLOCK_H": 16, "EXACT": dtype == "fp32"}
    launch = _launch(ssd_forward.ssd_decays_kernel, dtype, constants, packed, architecture, 4, 3)
    shape = f"{GROUP} heads" + ", packed" * packed
    kind = "fp32" if dtype == "fp32" else "fp16, bf16"
    return Case(launch, "decays", kind, shape, "64 × 16 heads", wide=False)


def _step(architecture: int, dtype: str) -> Case:
    P, N = 64, 128
    rows = ssd_step.TILE // N
    constants = {"GROUP": GROUP, "BLOCK_P": rows, "BLOCK_N": N, "SOFTPLUS": True}
    launch = _launch(ssd_step.ssd_step_kernel, dtype, constants, False, architecture, 4, 3)
    kind = "fp32" if dtype == "fp32" else "fp16, bf16"
    return Case(launch, "step", kind, f"P {P}, N {N}", f"1 × {rows}")


def _launch(
    kernel: Any,
    dtype: str,
    constants: dict[str, Any],
    packed: bool,
    architecture: int,
    warps: int,
    stages: int,
) -> Launch:
    others = dict.fromkeys(PLACES, "*i32") | dict.fromkeys(NARROW, f"*{dtype}")
    constants = ONES | constants | ({} if packed else dict.fromkeys(PLACES))
    constants = {name: value for name, value in constants.items() if name in kernel.arg_names}
    types = argument_types(kernel, constants, "fp32", others)
    return Launch(kernel, types, constants, architecture, warps, stages, COUNTS)
