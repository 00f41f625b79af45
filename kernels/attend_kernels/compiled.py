"""What the compiler makes of a kernel for a GPU that is not there: registers, spills, memory, SASS.

Triton compiles for any NVIDIA architecture without a GPU, in a process without its interpreter.
``python -m attend_kernels.compiled`` compiles each configuration of the flash kernels' table and
writes kernels/COMPILED.md. It says what code is made, never how fast it runs.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

# Bytes of shared memory one block may use (CUDA C++ Programming Guide, compute capabilities).
SHARED_LIMIT = {80: 166_912, 86: 101_376, 90: 232_448}
# Instructions of the tensor cores: a warp at a time, and on Hopper four warps at a time.
TENSOR_INSTRUCTION = {80: "HMMA", 86: "HMMA", 90: "HGMMA"}


@dataclass(frozen=True)
class Compiled:
    """One kernel, compiled for one architecture."""

    registers: int  # a thread
    spilled: int  # bytes a thread keeps in local memory
    shared: int  # bytes a program keeps in shared memory
    instructions: Mapping[str, int]  # how often each SASS instruction stands in the code

    def count(self, prefix: str) -> int:
        """Count instructions whose name starts so: ``count("HGMMA")``."""
        return sum(n for name, n in self.instructions.items() if name.startswith(prefix))


def compile_kernel(
    kernel: Any,
    types: Mapping[str, str],
    constants: Mapping[str, Any],
    architecture: int,
    warps: int,
    stages: int,
    unaligned: Iterable[str] = (),
) -> Compiled:
    """Compile ``kernel`` for ``architecture`` (80, 90, ...) and read what became of it.

    Args:
        kernel: a ``triton.jit`` function.
        types: Triton's name for the type of each run-time argument: ``*bf16``, ``i32``, ``fp32``.
        constants: values of compile-time arguments; ``None`` for a pointer or option left out.
        architecture: ten times the compute capability.
        warps: warps a program.
        stages: stages of the software pipeline.
        unaligned: integer arguments not to be taken for multiples of 16. All others are, as a
            launch does with aligned tensors: without it no load could be wide.
    """
    names = kernel.arg_names
    whole = [n for n in names if n in types and types[n] != "fp32" and n not in set(unaligned)]
    source = ASTSource(
        fn=kernel,
        signature={name: types.get(name, "constexpr") for name in names},
        constexprs={name: constants[name] for name in names if name not in types},
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in whole},
    )
    built = triton.compile(
        source,
        target=GPUTarget("cuda", architecture, 32),
        options={"num_warps": warps, "num_stages": stages},
    )
    return read_cubin(built.asm["cubin"], built.metadata.shared)


def read_cubin(cubin: bytes, shared: int) -> Compiled:
    """Read a compiled kernel with the ``cuobjdump`` and ``nvdisasm`` of Triton's wheel."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        usage = _tool("cuobjdump", "--dump-resource-usage", path)
        listing = _tool("nvdisasm", "-c", path)
    found = {name: int(n) for name, n in re.findall(r"(REG|STACK|LOCAL):(\d+)", usage)}
    instructions: dict[str, int] = {}
    for name in re.findall(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", listing, re.M):
        instructions[name] = instructions.get(name, 0) + 1
    spilled = found["STACK"] + found["LOCAL"]
    return Compiled(found["REG"], spilled, shared, instructions)


def _tool(name: str, *arguments: str | Path) -> str:
    tool = Path(triton.__file__).parent / "backends/nvidia/bin" / name
    return subprocess.run([tool, *arguments], capture_output=True, text=True, check=True).stdout
