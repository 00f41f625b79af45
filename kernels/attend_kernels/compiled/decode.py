"""The compiled cases of the decode kernels: each entry of their table, and the merge of parts."""

from __future__ import annotations

import triton.language as tl

from attend_kernels.compiled.case import Case
from attend_kernels.compiled.compiler import SHARED_LIMIT, Launch, argument_types
from attend_kernels.ops.decode import forward as decode_forward
from attend_kernels.ops.decode import tiles as decode_tiles

NOTE = """\
blocks: query rows × keys a tile, or parts × D of the merge. One token at a time, without options:
16 rows, as usual, on pages; and the most rows a tile may have, on a contiguous cache. "Options" is
a window, a soft cap and four tokens at once. Nothing may spill, and where rows are 16, without
options, two programs fit a multiprocessor. An 8-bit cache has bf16 queries."""

CODES = {"half": ("bf16",), "fp32": ("fp32",), "byte": ("i8", "fp8e4nv")}
NAMES = {"bf16": "fp16, bf16", "fp32": "fp32", "i8": "int8", "fp8e4nv": "fp8"}


def cases(architecture: int) -> list[Case]:
    """Every entry of the table with every type of cache the architecture converts."""
    found = []
    for arch, kind, width in decode_tiles.TABLE:
        most = decode_tiles.MOST_ROWS_FP32 if kind == "fp32" else decode_tiles.MOST_ROWS
        if arch == architecture:
            for codes in CODES[kind]:
                if codes == "i8" or arch >= 89 or kind != "byte":  # fp8 came with 8.9
                    found += [
                        _case(arch, kind, codes, width, 16, "paged"),
                        _case(arch, kind, codes, width, most, "contiguous"),
                        _case(arch, kind, codes, width, 16, "options"),
                    ]
    widest = decode_tiles.MOST_SPLITS
    return found + [_merge(architecture, D, parts) for D in (64, 256) for parts in (2, widest)]


def _case(architecture: int, kind: str, codes: str, width: int, rows: int, how: str) -> Case:
    kernel, tile = decode_forward.decode_kernel, decode_tiles.TABLE[architecture, kind, width]
    q, dot = ("fp32", tl.float32) if kind == "fp32" else ("bf16", tl.bfloat16)
    options, paged = how == "options", how != "contiguous"
    constants = {
        "GROUP": rows // 4 if options else rows,
        "PAGE": 16,
        "D": width,
        "BLOCK_D": width,
        "ROWS": rows,
        "BLOCK_S": tile.block_s,
        "DOT": dot,
        "WEIGHTS": dot,
        "PRECISION": "ieee" if kind == "fp32" else "tf32",
    }
    if not options:
        constants |= {"T": 1, "window": None, "softcap": None}  # a launch makes T = 1 a constant
        constants |= {"lse_ptr": None}  # in parts, as with many keys
    if kind != "byte":
        constants |= dict.fromkeys(("k_scale_ptr", "v_scale_ptr"))
    if not paged:
        constants |= {"table_ptr": None}
    others = dict.fromkeys(("lengths_ptr", "table_ptr"), "*i32") | {"q_ptr": f"*{q}"}
    others |= dict.fromkeys(("k_scale_ptr", "v_scale_ptr", "out_ptr", "lse_ptr"), "*fp32")
    others |= dict.fromkeys(("scale", "softcap"), "fp32")
    types = argument_types(kernel, constants, codes, others)
    odd = [
        name
        for name in types
        if not name.endswith("_ptr") and ("_scale_" in name or name[:2] not in ("q_", "k_", "v_"))
    ]
    few = rows == decode_tiles.LEAST_ROWS and not options
    hopper = architecture == 90 and rows >= 64  # its instruction takes 64 rows
    return Case(
        Launch(kernel, types, constants, architecture, tile.warps, tile.stages, odd),
        "decode",
        NAMES[codes],
        f"D {width}, {rows} rows, {how}",
        f"{rows} × {tile.block_s}",
        product="FFMA" if kind == "fp32" else "HGMMA" if hopper else "HMMA",
        most_shared=SHARED_LIMIT[86 if architecture == 80 else architecture],
        programs=decode_tiles.OCCUPANCY if few else 1,
        model=few and width <= 128,
    )


def _merge(architecture: int, width: int, parts: int) -> Case:
    constants = decode_forward.combine_config(parts, width)
    warps = constants.pop("num_warps")
    others = {"out_ptr": "*bf16"}
    types = argument_types(decode_forward.combine_kernel, constants, "fp32", others)
    return Case(
        Launch(decode_forward.combine_kernel, types, constants, architecture, warps, 3, ["splits"]),
        "merge",
        "fp32 to bf16",
        f"D {width}, {parts} parts",
        f"{constants['SPLITS']} × {constants['BLOCK_D']}",
        wide=width * parts > 1024,  # else there are fewer numbers than 4 a thread
    )
