"""The compiled cases of the flash kernels: their whole table."""

from __future__ import annotations

from typing import Any

import triton.language as tl

from attend_kernels.compiled.case import ATOMIC, Case
from attend_kernels.compiled.compiler import SHARED_LIMIT, Launch
from attend_kernels.ops.flash import backward as flash_backward
from attend_kernels.ops.flash import forward as flash_forward
from attend_kernels.ops.flash import tiles as flash_tiles
from attend_kernels.ops.flash.tiles import Tile

NOTE = """\
blocks: queries × keys a tile. "All options" is window, ALiBi, soft cap, packed sequences and four
query heads a key/value head at once; "grouped" is those four heads alone, which only the kernels of
dK and dV tell apart (compiled for sm_90; two of them spill). "By descriptors" is a kernel with K
and V fetched by the copy engine, a candidate of the sweep that nothing ships yet. fp32
products are FFMA by intent: tensor cores would round their factors to tf32. sm_80's tiles fit that
family's consumer cards."""

KERNELS: dict[str, Any] = {
    "forward": flash_forward.flash_forward_kernel,
    "keys": flash_backward.flash_keys_kernel,
    "queries": flash_backward.flash_queries_kernel,
    "atomic": flash_backward.flash_keys_kernel,
}
OPTIONS = ("all options",)
GROUPED = ("keys", "atomic")
# Bytes that grouped heads spill, by kernel, dtype class, width and mask.
SPILLS = {("keys", "half", 128, "full"): 64, ("keys", "fp32", 128, "full"): 16}
# Keys and values by tensor descriptors, which nothing ships: candidates of the sweep.
CANDIDATES: dict[tuple[int, str], Tile] = {
    (64, "full"): Tile(128, 64, 4, 3, descriptors=True),
    (64, "causal"): Tile(128, 64, 4, 3, descriptors=True),
    (128, "full"): Tile(128, 128, 8, 3, descriptors=True),
    (128, "causal"): Tile(128, 128, 8, 3, descriptors=True),
}
QUERIES = Tile(128, 64, 8, 3, descriptors=True)
PACKING = {"tiles_ptr", "q_starts_ptr", "k_starts_ptr"}


def cases(architecture: int) -> list[Case]:
    """Every entry of the table: causal, full, and with all options on."""
    found = []
    for arch, kernel, kind, width in flash_tiles.TABLE:
        if arch == architecture:
            for mask in ("causal", "full", "all options"):
                found.append(_case(arch, kernel, kind, width, mask, 4 if mask in OPTIONS else 1))
                if arch == 90 and kernel in GROUPED and mask not in OPTIONS:
                    found.append(_case(arch, kernel, kind, width, mask, 4))
    if architecture == 90:
        for (width, mask), tile in CANDIDATES.items():
            found.append(_case(90, "forward", "half", width, mask, 1, tile))
        for mask in ("causal", "full"):
            found.append(_case(90, "queries", "half", 128, mask, 1, QUERIES))
    return found


def _case(
    architecture: int,
    name: str,
    kind: str,
    width: int,
    mask: str,
    group: int,
    candidate: Tile | None = None,
) -> Case:
    kernel, options = KERNELS[name], mask in OPTIONS
    entry = flash_tiles.TABLE[architecture, name, kind, width]
    tile = candidate or entry["options" if options else mask]
    dtype = "bf16" if kind == "half" else "fp32"
    types: dict[str, str] = {"scale": "fp32"}
    for argument in kernel.arg_names:
        if argument in ("lse_ptr", "delta_ptr") or (name == "atomic" and argument == "dq_ptr"):
            types[argument] = "*fp32"
        elif argument.endswith("_ptr"):
            types[argument] = f"*{dtype}"
        elif argument not in ("scale", "softcap") and (argument.islower() or argument in "TS"):
            types[argument] = "i32"
    off = {"dq_ptr"} if name == "keys" else set()
    if options:
        types |= {"slopes_ptr": "*fp32", "softcap": "fp32"} | dict.fromkeys(PACKING, "*i32")
    else:
        off |= {"slopes_ptr", "softcap", "left", *PACKING}
        off |= set() if mask == "causal" else {"right"}
    constants = dict.fromkeys(off) | {
        "GROUP": group,
        "D": width,
        "BLOCK_D": width,
        "BLOCK_T": tile.block_t,
        "BLOCK_S": tile.block_s,
        "DOT": tl.bfloat16 if kind == "half" else tl.float32,
        "PRECISION": "tf32" if kind == "half" else "ieee",
        "DESCRIPTORS": tile.descriptors,
    }
    constants = {n: x for n, x in constants.items() if n in kernel.arg_names}
    if tile.descriptors:
        block = f"[1, 1, {tile.block_s}, {width}]"
        types |= dict.fromkeys(("k_ptr", "v_ptr"), f"tensordesc<{dtype}{block}>")
    types = {argument: of for argument, of in types.items() if argument not in off}
    lengths = {"tiles", "heads", "groups", "T", "S", "left", "right"} & types.keys()
    # Tiles of fewer than 64 rows cannot use Hopper's instruction: dK/dV of the widest heads.
    hopper = architecture == 90 and (name, width) != ("keys", 256)
    return Case(
        Launch(kernel, types, constants, architecture, tile.warps, tile.stages, lengths),
        name,
        "fp16, bf16" if kind == "half" else "fp32",
        f"D {width}, {mask}"
        + ", grouped" * (group > 1 and not options)
        + ", by descriptors" * tile.descriptors,
        f"{tile.block_t} × {tile.block_s}",
        product="FFMA" if kind == "fp32" else "HGMMA" if hopper else "HMMA",
        most_shared=SHARED_LIMIT[86 if architecture == 80 else architecture],
        spills=SPILLS.get((name, kind, width, mask), 0) if group > 1 else 0,
        wide=not tile.descriptors,  # then no thread loads K and V
        without=() if name == "atomic" else ATOMIC,
        model=group == 1 and not options and width <= 128,
    )
