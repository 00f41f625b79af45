"""The decode kernels compile for GPUs that are not here: no spill, memory fits, wide loads."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from attend_kernels import decode_configs, fallback

pytestmark = [
    pytest.mark.skipif(not fallback.HAS_TRITON, reason="Triton is not installed"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads the tools of the Linux wheel"),
    pytest.mark.slow,
]

# Compiles in a process without the interpreter, one token at a time (T = 1 is then a constant): the
# usual 16 rows on pages, and the most rows on a contiguous cache, which keeps more tiles in flight.
COMPILE = """
import json, sys
import triton.language as tl
from attend_kernels import decode_configs, decode_triton
from attend_kernels.compiled import compile_kernel

architecture, kind = int(sys.argv[1]), sys.argv[2]
CODES = {"half": ["bf16"], "fp32": ["fp32"], "byte": ["i8"] if architecture < 89 else ["fp8e4nv"]}
kernel, found = decode_triton.decode_kernel, {}
for width in (64, 128, 256):
    tile = decode_configs.TABLE[architecture, kind, width]
    for codes in CODES[kind]:
        most = decode_configs.MOST_ROWS_FP32 if kind == "fp32" else decode_configs.MOST_ROWS
        for rows, paged in ((16, True), (most, False)):
            q = "fp32" if kind == "fp32" else "bf16"
            dot = tl.float32 if kind == "fp32" else tl.bfloat16
            constants = {
                "T": 1, "GROUP": rows, "PAGE": 16, "D": width, "BLOCK_D": width, "ROWS": rows,
                "BLOCK_S": tile.block_s, "DOT": dot, "WEIGHTS": dot,
                "PRECISION": "ieee" if kind == "fp32" else "tf32",
            }
            pointers = {"q_ptr": q, "k_ptr": codes, "v_ptr": codes, "lengths_ptr": "i32"}
            if kind == "byte":
                pointers |= {"k_scale_ptr": "fp32", "v_scale_ptr": "fp32"}
            if paged:
                pointers["table_ptr"] = "i32"
            types, odd = {"scale": "fp32"}, []
            for name in kernel.arg_names:
                if name in constants or name in types:
                    continue
                if name.endswith("_ptr"):
                    pointed = pointers.get(name, "fp32" if name in ("out_ptr", "lse_ptr") else None)
                    if pointed:
                        types[name] = f"*{pointed}"
                elif name not in ("window", "softcap"):
                    types[name] = "i32"
                    if "_scale_" in name or not name.startswith(("q_", "k_", "v_")):
                        odd.append(name)
            left_out = set(kernel.arg_names) - set(types) - set(constants)
            constants |= dict.fromkeys(left_out)
            made = compile_kernel(
                kernel, types, constants, architecture, tile.warps, tile.stages, odd
            )
            found[f"{codes}-D{width}-rows{rows}-{'paged' if paged else 'contiguous'}"] = {
                "rows": rows, "warps": tile.warps, "registers": made.registers,
                "spilled": made.spilled, "shared": made.shared,
                "wide": made.count("LDGSTS.E.BYPASS.128"),
                "tensor": made.count("HMMA") + made.count("HGMMA"),
            }
print(json.dumps(found))
"""

COMBINE = """
import json, sys
from attend_kernels import decode_configs, decode_triton
from attend_kernels.compiled import compile_kernel

found = {}
for width in (64, 256):
    for splits in (2, decode_configs.MOST_SPLITS):
        constants = decode_triton.combine_config(splits, width)
        warps = constants.pop("num_warps")
        types = {"part_ptr": "*fp32", "part_lse_ptr": "*fp32", "out_ptr": "*bf16",
                 "lse_ptr": "*fp32", "rows": "i32", "splits": "i32"}
        made = compile_kernel(
            decode_triton.combine_kernel, types, constants, int(sys.argv[1]), warps, 3, ["splits"]
        )
        found[f"D{width}-splits{splits}"] = made.spilled
print(json.dumps(found))
"""
SHARED = {80: 101_376, 90: 232_448}  # a program's; sm_80's tiles must fit its consumer cards (8.6)
SHARED_IN_ALL = {80: 167_936, 90: 233_472}  # a multiprocessor's, of the A100 and the H200
REGISTERS = 65_536  # a multiprocessor's


def run(program: str, *arguments: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", ["half", "byte", "fp32"])
@pytest.mark.parametrize("architecture", [80, 90], ids=lambda a: f"sm_{a}")
def test_every_tile_fits_its_gpu(architecture: int, kind: str):
    found = run(COMPILE, str(architecture), kind)
    assert len(found) == 6  # three widths, two shapes of tile or cache
    for name, made in found.items():
        assert 0 < made["registers"] <= 255, (name, made)
        assert made["spilled"] == 0, (name, made)
        assert made["shared"] <= SHARED[architecture], (name, made)
        assert made["wide"] > 0, (name, made)  # K and V come 16 bytes a thread, asynchronously
        assert (made["tensor"] > 0) == (kind != "fp32"), (name, made)
        if made["rows"] == decode_configs.LEAST_ROWS:
            threads = 32 * made["warps"] * decode_configs.OCCUPANCY
            assert made["registers"] * threads <= REGISTERS, (name, made)
            room = SHARED_IN_ALL[architecture] // decode_configs.OCCUPANCY - 1024
            assert made["shared"] <= room, (name, made)


@pytest.mark.parametrize("architecture", [80, 90], ids=lambda a: f"sm_{a}")
def test_the_combine_kernel_holds_all_parts_in_registers(architecture: int):
    assert set(run(COMBINE, str(architecture)).values()) == {0}
