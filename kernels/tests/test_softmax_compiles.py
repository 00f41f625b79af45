"""The kernels compile for Hopper (sm_90) without a GPU, and spill no register."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from attend_kernels import fallback

pytestmark = [
    pytest.mark.skipif(not fallback.HAS_TRITON, reason="Triton is not installed"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads the cuobjdump of the Linux wheel"),
]

COMPILE = """
import json, pathlib, re, subprocess, sys
import torch, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from attend_kernels import softmax, softmax_triton

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
kernel = getattr(softmax_triton, f"softmax_{sys.argv[1]}_kernel")
out = {}
for name, dtype in TYPES.items():
    for columns in json.loads(sys.argv[2]):
        settings = softmax_triton.config(columns, dtype, softmax.MAX_BLOCK, softmax.TILE)
        warps = settings.pop("num_warps")
        signature = {
            arg: "constexpr" if arg in settings else f"*{name}" if arg.endswith("_ptr") else "i32"
            for arg in kernel.arg_names
        }
        source = ASTSource(fn=kernel, signature=signature, constexprs=settings)
        options = {"num_warps": warps}
        built = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
        cubin = pathlib.Path("kernel.cubin")
        cubin.write_bytes(built.asm["cubin"])
        tool = pathlib.Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
        usage = subprocess.run([tool, "--dump-resource-usage", cubin],
                               capture_output=True, text=True, check=True).stdout
        found = {k: int(v) for k, v in re.findall(r"(REG|STACK|SHARED|LOCAL):(\\d+)", usage)}
        out[f"{name}-S{columns}"] = found
print(json.dumps(out))
"""
SHARED_LIMIT = 232_448  # bytes of shared memory a block may use on sm_90


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_no_spill_on_sm_90(direction: str, tmp_path: Path):
    columns = [17, 128, 4096, 16_384, 50_257]
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, direction, json.dumps(columns)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**env, "TRITON_CACHE_DIR": str(tmp_path / "cache")},
    )
    assert done.returncode == 0, done.stderr
    usage = json.loads(done.stdout)
    assert len(usage) == 2 * len(columns)
    for case, resources in usage.items():
        assert resources["REG"] > 0, case
        assert resources["STACK"] == 0, (case, resources)
        assert resources["LOCAL"] == 0, (case, resources)
        assert resources["SHARED"] <= SHARED_LIMIT, (case, resources)
