"""One launch of a kernel, compiled for an architecture: its IR, registers, spills, memory, SASS."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton._C.libtriton import ir  # pyright: ignore[reportMissingImports]  # has no stubs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend

from attend_kernels.compiled.loop import Loop, hottest

# Bytes of shared memory one block may use (CUDA C++ Programming Guide, compute capabilities).
SHARED_LIMIT = {80: 166_912, 86: 101_376, 90: 232_448}
# In the names of called functions: renaming a module changes no code.
MODULES = re.compile(r"attend_kernels\.(?:common\.\w+|ops\.\w+\.\w+)\.")


@dataclass(frozen=True)
class Compiled:
    """One kernel, compiled for one architecture."""

    registers: int  # a thread
    spilled: int  # bytes a thread keeps in local memory
    shared: int  # bytes a program keeps in shared memory
    instructions: Mapping[str, int]  # how often each SASS instruction stands in the code
    loop: Loop | None = None  # a round of the loop that runs most, where that has products

    def count(self, prefix: str) -> int:
        """Count instructions whose name starts so: ``count("HGMMA")``."""
        return sum(n for name, n in self.instructions.items() if name.startswith(prefix))


@dataclass(frozen=True)
class Launch:
    """A kernel with all that decides its code.

    ``types`` are Triton's names of the run-time arguments' types (``*bf16``, ``i32``, ``fp32``),
    ``constants`` the values of the compile-time arguments, ``None`` for a pointer or option left
    out. ``architecture`` is ten times the compute capability. ``unaligned`` are integers not to be
    taken for multiples of 16; all others are, as a launch does with aligned tensors: without it no
    load could be wide.
    """

    kernel: Any
    types: Mapping[str, str]
    constants: Mapping[str, Any]
    architecture: int
    warps: int
    stages: int
    unaligned: Iterable[str] = ()

    @property
    def _source(self) -> ASTSource:
        names, unaligned = self.kernel.arg_names, set(self.unaligned)
        whole = [n for n in names if n not in unaligned and self.types.get(n, "fp32") != "fp32"]
        return ASTSource(
            fn=self.kernel,
            signature={name: self.types.get(name, "constexpr") for name in names},
            constexprs={name: self.constants[name] for name in names if name not in self.types},
            attrs={(names.index(name),): [["tt.divisibility", 16]] for name in whole},
        )

    @property
    def _target(self) -> GPUTarget:
        return GPUTarget("cuda", self.architecture, 32)

    @property
    def _options(self) -> dict[str, int]:
        return {"num_warps": self.warps, "num_stages": self.stages}

    def fingerprint(self) -> str:
        """Digest of the launch's Triton IR and settings, in 0.04 s where compiling takes 1 s.

        The same fingerprint and the same Triton make the same code. Comments, line numbers and
        the modules that functions lie in are not in it.
        """
        backend: Any = make_backend(self._target)
        options = backend.parse_options(self._options)
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        module = self._source.make_ir(
            self._target,
            options,
            backend.get_codegen_implementation(options),
            backend.get_module_map(),
            context,
        )
        code = MODULES.sub("", module.str_nodebug())
        text = f"{self.architecture} {self.warps} {self.stages} {code}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def compile(self) -> Compiled:
        """Compile it and read what became of it."""
        built = triton.compile(self._source, target=self._target, options=self._options)
        return read_cubin(built.asm["cubin"], built.metadata.shared)


def compile_kernel(
    kernel: Any,
    types: Mapping[str, str],
    constants: Mapping[str, Any],
    architecture: int,
    warps: int,
    stages: int,
    unaligned: Iterable[str] = (),
) -> Compiled:
    """Compile ``kernel`` and read what became of it; the arguments are those of ``Launch``."""
    return Launch(kernel, types, constants, architecture, warps, stages, unaligned).compile()


def argument_types(
    kernel: Any, constants: Mapping[str, Any], element: str, others: Mapping[str, str]
) -> dict[str, str]:
    """Types of the run-time arguments: pointers to ``element`` and ``i32``, but for ``others``."""
    return {
        name: others.get(name, f"*{element}" if name.endswith("_ptr") else "i32")
        for name in kernel.arg_names
        if name not in constants
    }


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
    return Compiled(found["REG"], spilled, shared, instructions, hottest(listing))


def _tool(name: str, *arguments: str | Path) -> str:
    tool = Path(triton.__file__).parent / "backends/nvidia/bin" / name
    return subprocess.run([tool, *arguments], capture_output=True, text=True, check=True).stdout
