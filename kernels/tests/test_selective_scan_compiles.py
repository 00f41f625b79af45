"""Scan and convolution compile for sm_80 and sm_90 without a GPU, and spill no register."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from attend_kernels import fallback, selective_scan_configs

pytestmark = [
    pytest.mark.skipif(not fallback.HAS_TRITON, reason="Triton is not installed"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads the tools of the Linux wheel"),
]

# Compiles in a process without the interpreter, every option on.
COMPILE = """
import json, sys
from attend_kernels import conv1d_triton, selective_scan_configs as configs
from attend_kernels import selective_scan_backward_triton as backward
from attend_kernels import selective_scan_triton as forward
from attend_kernels.compiled import SHARED_LIMIT, compile_kernel
import torch

kernel_name, architecture, dtype = sys.argv[1], int(sys.argv[2]), sys.argv[3]
NARROW = {"u_ptr", "delta_ptr", "z_ptr", "out_ptr", "grad_ptr", "du_ptr", "ddelta_ptr", "dz_ptr",
          "x_ptr", "dx_ptr"}
UNALIGNED = {*forward.HIDDEN, *backward.HIDDEN, "T", "w_tap", "state_tap"}

def cases():
    if kernel_name == "conv1d":
        for taps in (2, 4):
            for silu in (False, True):
                for name in ("forward", "backward"):
                    kernel = getattr(conv1d_triton, f"conv1d_{name}_kernel")
                    constants = conv1d_triton.constants(name, taps, silu, torch.float32)
                    yield f"{name}-K{taps}-{silu}", kernel, constants
        return
    for (name, states), config in configs.TABLE.items():
        module = forward if name == "forward" else backward
        constants = forward.constants(states, config, True)
        if name == "forward":
            constants |= {"AHEAD": configs.AHEAD, "SOON": configs.SOON}
        yield f"{name}-N{states}", getattr(module, f"selective_scan_{name}_kernel"), constants

found = {}
for title, kernel, constants in cases():
    warps = constants.pop("num_warps")
    types = {
        name: (f"*{dtype}" if name in NARROW else "*fp32") if name.endswith("_ptr") else "i32"
        for name in kernel.arg_names
        if name not in constants
    }
    made = compile_kernel(kernel, types, constants, architecture, warps, 3, UNALIGNED)
    found[title] = {
        "registers": made.registers,
        "spilled": made.spilled,
        "room": SHARED_LIMIT[architecture] - made.shared,
        "shuffles": made.count("SHFL"),
        "barriers": made.count("BAR"),
        "atomics": made.count("RED") + made.count("ATOM"),
    }
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
@pytest.mark.parametrize("architecture", [80, 90], ids=lambda a: f"sm_{a}")
@pytest.mark.parametrize("kernel", ["scan", "conv1d"])
def test_every_configuration_fits_and_spills_nothing(
    kernel: str, architecture: int, dtype: str, tmp_path: Path
):
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, kernel, str(architecture), dtype],
        capture_output=True,
        text=True,
        env={**env, "TRITON_CACHE_DIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == (len(selective_scan_configs.TABLE) if kernel == "scan" else 8)
    for case, made in found.items():
        assert 0 < made["registers"] <= 255, case
        assert made["spilled"] == 0, (case, made)
        assert made["room"] >= 0, (case, made)
        assert made["atomics"] == 0, (case, made)
        if case == "forward-N16":  # a thread holds all states of its channel: nothing to exchange
            assert made["shuffles"] == made["barriers"] == 0, made
