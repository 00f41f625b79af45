"""Compile the Gluon kernel for sm_90, no GPU needed: ``python -m attend_kernels.compiled.gluon``.

It prints JSON: for each width, mask and dtype its registers, bytes spilled, bytes of shared memory,
instructions, warps, and how many exponentials stand under a product that is being computed. The
kernel is no case of the page: the interpreter, in which the tests make the page's cases, cannot
import it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget

from attend_kernels.compiled.compiler import read_cubin
from attend_kernels.ops.flash.tiles import GLUON

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def compile_gluon(width: int, causal: bool, dtype: str) -> dict[str, Any]:
    """Compile it with the tile it would have; say what became of it."""
    from triton.experimental.gluon._runtime import GluonASTSource

    from attend_kernels.ops.flash import gluon

    kernel: Any = gluon.gluon_forward_kernel
    names, tile = kernel.arg_names, GLUON[width]
    swizzled = repr(gluon.layout(DTYPES[dtype]))
    blocks = {"q_desc": 64, "k_desc": tile.block_s, "v_desc": tile.block_s}
    types = {
        name: f"tensordesc<{dtype}[1, 1, {rows}, {width}],{swizzled}>"
        for name, rows in blocks.items()
    }
    types |= {"out_ptr": f"*{dtype}", "lse_ptr": "*fp32", "scale": "fp32"}
    types |= dict.fromkeys(("out_batch", "out_head", "out_row", "tiles", "heads", "T", "S"), "i32")
    aligned = ("out_ptr", "lse_ptr", "out_batch", "out_head", "out_row")
    source = GluonASTSource(
        kernel,
        signature={name: types.get(name, "constexpr") for name in names},
        constexprs={"GROUP": 1, "CAUSAL": causal, "STAGES": tile.stages},
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in aligned},
    )
    made: Any = triton.compile(
        source, target=GPUTarget("cuda", 90, 32), options={"num_warps": gluon.WARPS.value}
    )
    cubin = made.asm["cubin"]
    more = {"warps": made.metadata.num_warps, "overlapped": overlapped(cubin)}
    return asdict(read_cubin(cubin, made.metadata.shared)) | more


def overlapped(cubin: bytes) -> int:
    """Count the exponentials between the two waits of a round: for the scores, and for all.

    Meanwhile the tensor cores multiply the last weights with V. The compiler may move the softmax
    after the second wait, which changes no number and loses the overlap. Of several loops the one
    that has fewest counts.
    """
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/nvdisasm"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        done = subprocess.run([tool, "-c", path], capture_output=True, text=True, check=True)
    between = re.findall(r"DEPBAR\.LE gsb0, 0x1\b(.*?)DEPBAR\.LE gsb0, 0x0\b", done.stdout, re.S)
    return min((part.count("MUFU.EX2") for part in between), default=0)


def main() -> None:
    """Compile every case and print what became of it."""
    found = {}
    for dtype in DTYPES:
        for width in GLUON:
            for causal in (False, True):
                title = f"{dtype}, D {width}, {'causal' if causal else 'full'}"
                found[title] = compile_gluon(width, causal, dtype)
    json.dump(found, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
