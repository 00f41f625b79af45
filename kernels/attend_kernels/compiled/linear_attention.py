"""The compiled cases of linear attention: every entry of its table, both ways in time; one step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import triton.language as tl

from attend_kernels.common import devices, wide_products
from attend_kernels.compiled.case import Case
from attend_kernels.compiled.compiler import SHARED_LIMIT, Launch, argument_types
from attend_kernels.ops.linear_attention import backward as linear_attention_backward
from attend_kernels.ops.linear_attention import delta_backward as linear_attention_delta_backward
from attend_kernels.ops.linear_attention import delta_forward as linear_attention_delta_forward
from attend_kernels.ops.linear_attention import forward as linear_attention_forward
from attend_kernels.ops.linear_attention import gated_backward as linear_attention_gated_backward
from attend_kernels.ops.linear_attention import gated_forward as linear_attention_gated_forward
from attend_kernels.ops.linear_attention import segments as linear_attention_segments
from attend_kernels.ops.linear_attention import step as linear_attention_step
from attend_kernels.ops.linear_attention.gated_forward import AGE_COLUMNS
from attend_kernels.ops.linear_attention.segments import JOIN_BLOCK
from attend_kernels.ops.linear_attention.tiles import STEPS, TABLE, Tile

NOTE = """\
blocks: steps × columns of the state, or of q and k. plain, fading (a gate a step), kept (the same,
writing the state before each chunk), scored (GLA): walks that give o and, with other tensors, dq,
dk and dv; columns: GLA's dq and dk. gates: the gradient of gates a step. ages, scores, products,
pairs: GLA's gates summed, and what is inside its chunks. inverse, delta, back: the delta rule's
systems, its walk, and its walk back; gated: with a gate a step. D_v is D unless said. "others
alone" is a walk whose steps do not read themselves; "readers alone" what its gates add to gates;
"gates fixed" is without what gates that learn need; "states" the first pass over segments, join
what adds those up. Other widths are filled up with zeros to these. Nothing may spill."""

INVERSE = linear_attention_delta_forward.inverse_kernel
KERNELS: dict[str, Any] = {
    "plain": linear_attention_forward.walk_kernel,
    "fading": linear_attention_forward.walk_kernel,
    "kept": linear_attention_forward.walk_kernel,
    "scored": linear_attention_forward.walk_kernel,
    "columns": linear_attention_gated_backward.gated_walk_kernel,
    "gates": linear_attention_backward.gate_gradient_kernel,
    "scores": linear_attention_gated_forward.scores_kernel,
    "products": linear_attention_gated_backward.products_kernel,
    "pairs": linear_attention_gated_backward.pairs_kernel,
    "inverse": INVERSE,
    "delta": linear_attention_delta_forward.delta_walk_kernel,
    "back": linear_attention_delta_backward.delta_back_kernel,
}
KERNELS |= {f"gated {name}": KERNELS[name] for name in ("inverse", "delta", "back")}
WALKS = ("plain", "fading", "kept", "scored", "columns")
WALKS += ("delta", "back", "gated delta", "gated back")
OTHERS = ("others alone, forwards", "others alone, backwards")
# How each is launched: the walks both ways in time, and over segments for their states alone.
WAYS = dict.fromkeys(KERNELS, ("forwards",)) | {
    "plain": ("forwards", "backwards", "states", *OTHERS),
    "fading": ("forwards", "backwards", "states", *OTHERS),
    "kept": ("forwards", "backwards"),
    "scored": ("forwards", "backwards", "states"),
    "columns": ("forwards", "backwards", "gates fixed"),
    "gates": ("backwards", "readers alone"),
    "products": ("backwards",),
    "pairs": ("backwards",),
    "inverse": ("forwards", "backwards"),
    "gated inverse": ("forwards", "backwards"),
    "back": ("backwards",),
    "gated back": ("backwards", "gates fixed"),
}
# Widths of keys and of values, where they differ: both decide what ``gates`` holds at once, and the
# wider decides the steps of a chunk.
MIXED = {
    "gates": [(64, 16), (64, 32), (64, 256), (128, 16), (128, 64), (256, 16), (256, 32), (256, 64)],
    "gated delta": [(64, 256), (128, 256), (256, 64)],
    "gated back": [(64, 256), (128, 256), (256, 64)],
}
# Pointers a launch leaves out.
LEFT_OUT = {
    "plain": {"gate_ptr", "scores_ptr", "totals_ptr", "kept_ptr"},
    "fading": {"scores_ptr", "totals_ptr", "kept_ptr"},
    "kept": {"scores_ptr", "totals_ptr"},
    "scored": {"gate_ptr", "kept_ptr"},
    "inverse": {"gate_ptr"},
    "delta": {"gate_ptr"},
    "gated delta": {"out_ptr"},
    "back": {"gate_ptr", "kept_ptr"},
    "states": {"out_ptr", "start_ptr"},
    "gates fixed": {"d_gate_ptr", "kept_ptr"},
    "readers alone": {"after_ptr"},
}
FP32 = ("start_ptr", "end_ptr", "totals_ptr", "fractions_ptr", "d_gate_ptr", "gate_ptr", "beta_ptr")
FP32 += ("state_ptr", "new_ptr")
# Not multiples of 16, as a launch finds them; the strides of rows are.
UNALIGNED = ("slices", "segments", "heads", "chunks", "T")
# A launch makes a stride of 1 a constant.
ONES = ("gate_row", "beta_row", "start_column", "end_column", "gate_column", "state_column")


def cases(architecture: int) -> list[Case]:
    """Every entry of the table in every way it is launched, and steps."""
    found = []
    for arch, kernel, kind, width in TABLE:
        if arch == architecture:
            for narrower in (16, 32, 64) if width == 64 else (width,):
                found += [_case(arch, kernel, kind, narrower, way) for way in WAYS[kernel]]
    found += [
        _case(architecture, kernel, kind, width, way, values)
        for kernel in MIXED
        for kind in ("half", "fp32")
        for width, values in MIXED[kernel]
        for way in WAYS[kernel]
    ]
    steps = [
        _step(architecture, width, mode)
        for width in (64, 128, 256)
        for mode in ("plain", "gates", "delta", "gated delta")
    ]
    joins = [_join(architecture, fades) for fades in (None, 1, 128)]
    return [*found, _ages(architecture), *joins, *steps]


def _case(
    architecture: int,
    kernel: str,
    kind: str,
    width: int,
    way: str,
    values: int = 0,
) -> Case:
    values = values or width
    tile = TABLE[architecture, kernel, kind, max(64, width)]
    tile = replace(tile, columns=min(tile.columns, values))
    chunk = STEPS[architecture, kind, max(64, width, values)]
    made = launch(architecture, kernel, kind, width, values, way, chunk, tile)
    # Hopper's instruction takes 64 rows: of a state, or of a chunk.
    rows = width if way == "states" else max(chunk, width if kernel in WALKS else 0)
    hopper = architecture == 90 and KERNELS[kernel] is not INVERSE and rows >= 64
    return Case(
        made,
        kernel,
        "fp32" if kind == "fp32" else "fp16, bf16",
        f"D {width}, {way}" if values == width else f"D {width}, D_v {values}, {way}",
        f"{chunk} × {tile.columns}",
        product="FFMA" if kind == "fp32" else "HGMMA" if hopper else "HMMA",
        wide=width > 16,  # less is one load of a warp for few threads
        model=width == values == 128 and way == "forwards",
        most_shared=SHARED_LIMIT[86 if architecture == 80 else architecture],
        programs=2 if architecture == 90 and kind == "half" and tile.warps == 4 else 1,
    )


def launch(
    architecture: int,
    kernel: str,
    kind: str,
    width: int,
    values: int,
    way: str,
    chunk: int,
    tile: Tile,
) -> Launch:
    """One launch, with halves as bf16: fp16 differs in the type of its instructions alone."""
    function, element = KERNELS[kernel], "fp32" if kind == "fp32" else "bf16"
    part = min(chunk, linear_attention_delta_forward.MOST_ROWS) if function is INVERSE else chunk
    off = LEFT_OUT.get(kernel, set()) | LEFT_OUT.get(way, set())
    if kernel == "delta" and width > wide_products.MOST.value:
        off = off | {"out_ptr"}
    constants: dict[str, Any] = dict.fromkeys(off) | dict.fromkeys(ONES, 1) | {
        "REVERSE": way.endswith("backwards"),
        "BY_READER": way == "backwards",
        "OWN": way not in OTHERS,
        "FAR": False,
        "CHUNK": chunk,
        "PART": part,
        "LEVELS": linear_attention_gated_forward.levels(part),
        "D": width,
        "BLOCK_D": tile.columns,
        "E": values,
        "BLOCK_E": tile.columns,
        "DOT": tl.float32 if kind == "fp32" else tl.bfloat16,
        "PRECISION": "ieee" if kind == "fp32" else "tf32",
        "EXACT": "ieee" if kind == "fp32" else "tf32x3",
    }  # fmt: skip
    constants = {name: x for name, x in constants.items() if name in function.arg_names}
    others = dict.fromkeys(FP32, "*fp32") | {"wholes_ptr": "*i16"}
    types = argument_types(function, constants, element, others)
    return Launch(function, types, constants, architecture, tile.warps, tile.stages, UNALIGNED)


def _ages(architecture: int) -> Case:
    function, columns = linear_attention_gated_forward.age_kernel, AGE_COLUMNS
    constants = {"FAR": False, "CHUNK": 64, "BLOCK_D": columns, "gate_column": 1}
    others = dict.fromkeys(FP32, "*fp32") | {"wholes_ptr": "*i16"}
    types = argument_types(function, constants, "bf16", others)
    odd = (*UNALIGNED, "gate_batch", "gate_head")
    made = Launch(function, types, constants, architecture, 4, 3, odd)
    return Case(made, "ages", "fp16, bf16", "D 128", f"64 × {columns}", wide=False, programs=4)


def _join(architecture: int, fades: int | None) -> Case:
    function = linear_attention_segments.join_kernel
    constants = {"REVERSE": False, "FADES": fades or 1, "FAR": False, "BLOCK": JOIN_BLOCK}
    constants |= dict.fromkeys(("start_column", "end_column"), 1)
    constants |= {} if fades else {"fade_ptr": None}
    types = argument_types(function, constants, "fp32", {})
    odd = (*UNALIGNED, "blocks")
    fading = "no gates" if fades is None else f"gates a {'head' if fades == 1 else 'dimension'}"
    made = Launch(function, types, constants, architecture, 4, 3, odd)
    return Case(made, "join", "fp32", f"D 128, {fading}", str(JOIN_BLOCK), programs=4)


def _step(architecture: int, width: int, mode: str) -> Case:
    function = linear_attention_step.step_kernel
    columns = min(devices.padded(width), linear_attention_step.TILE // width)
    given = {"gates": {"gate_ptr"}, "delta": {"beta_ptr"}, "gated delta": {"gate_ptr", "beta_ptr"}}
    off = {"gate_ptr", "beta_ptr"} - given.get(mode, set())
    constants = dict.fromkeys(off) | dict.fromkeys(("gate_column", "state_column"), 1)
    constants |= {"D": width, "BLOCK_D": width, "E": width, "BLOCK_E": columns}
    types = argument_types(function, constants, "bf16", dict.fromkeys(FP32, "*fp32"))
    return Case(
        Launch(function, types, constants, architecture, 4, 3, UNALIGNED),
        "step",
        "fp16, bf16",
        f"D {width}, {mode}",
        f"1 × {columns}",
        programs=2,
    )
