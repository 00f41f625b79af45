"""What the compiler makes of a kernel for a GPU that is not there: registers, spills, memory, SASS.

Triton compiles for any NVIDIA architecture without a GPU, in a process without its interpreter.
``python -m attend_kernels.compiled`` compiles each configuration of the flash kernels' table and
writes kernels/COMPILED.md. It says what code is made, never how fast it runs.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from attend_kernels import flash_backward_triton, flash_configs, flash_triton
from attend_kernels.flash_configs import Tile

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


@dataclass(frozen=True)
class Case:
    """One launch of a flash kernel as the table has it, with or without every option."""

    architecture: int
    kernel: str
    kind: str  # dtype class of the table: "half" or "fp32"
    width: int
    causal: bool
    options: bool = False  # window, ALiBi, soft cap, packed, four query heads a key/value head

    @property
    def tile(self) -> Tile:
        """The table's tile."""
        return flash_configs.TABLE[self.architecture, self.kernel, self.kind, self.width][
            self.causal
        ]

    def compile(self) -> Compiled:
        """Compile it, halves as bf16: fp16 differs in the type of its instructions alone."""
        kernel = KERNELS[self.kernel]
        dtype = "bf16" if self.kind == "half" else "fp32"
        types: dict[str, str] = {"scale": "fp32"}
        constants: dict[str, Any] = {}
        for name in kernel.arg_names:
            if name in ("lse_ptr", "delta_ptr"):
                types[name] = "*fp32"
            elif name.endswith("_ptr"):
                types[name] = f"*{dtype}"
            elif name not in ("scale", "softcap") and (name.islower() or name in "TS"):
                types[name] = "i32"
        if self.kernel == "atomic":
            types["dq_ptr"] = "*fp32"
        off = {"dq_ptr"} if self.kernel == "keys" else set()
        packing = {"tiles_ptr", "q_starts_ptr", "k_starts_ptr"}
        if self.options:
            types |= {"slopes_ptr": "*fp32", "softcap": "fp32"} | dict.fromkeys(packing, "*i32")
        else:
            off |= {"slopes_ptr", "softcap", "left", *packing}
            off |= set() if self.causal else {"right"}
        types = {name: kind for name, kind in types.items() if name not in off}
        constants = dict.fromkeys(off) | {
            "GROUP": 4 if self.options else 1,
            "D": self.width,
            "BLOCK_D": self.width,
            "BLOCK_T": self.tile.block_t,
            "BLOCK_S": self.tile.block_s,
            "DOT": tl.bfloat16 if self.kind == "half" else tl.float32,
            "PRECISION": "tf32" if self.kind == "half" else "ieee",
        }
        lengths = {"tiles", "heads", "groups", "T", "S", "left", "right"} & types.keys()
        return compile_kernel(
            kernel, types, constants, self.architecture, self.tile.warps, self.tile.stages, lengths
        )

    def row(self, made: Compiled) -> str:
        """Its line of the Markdown table."""
        tensor = TENSOR_INSTRUCTION[self.architecture]
        tensor = tensor if made.count(tensor) else "HMMA" if made.count("HMMA") else "FFMA"
        cells = [
            f"sm_{self.architecture}",
            self.kernel,
            "fp16, bf16" if self.kind == "half" else "fp32",
            str(self.width),
            "all options" if self.options else "causal" if self.causal else "full",
            f"{self.tile.block_t} × {self.tile.block_s}",
            str(self.tile.warps),
            str(self.tile.stages),
            str(made.registers),
            str(made.spilled),
            f"{made.shared:,}",
            f"{made.count(tensor)} {tensor}",
        ]
        return f"| {' | '.join(cells)} |"


KERNELS: dict[str, Any] = {
    "forward": flash_triton.flash_forward_kernel,
    "keys": flash_backward_triton.flash_keys_kernel,
    "queries": flash_backward_triton.flash_queries_kernel,
    "atomic": flash_backward_triton.flash_keys_kernel,
}


def cases(architecture: int) -> list[Case]:
    """Every entry of the table, causal and full; and, where tests run it, all options on."""
    found = []
    for arch, kernel, kind, width in flash_configs.TABLE:
        if arch == architecture:
            found.append(Case(arch, kernel, kind, width, True))
            found.append(Case(arch, kernel, kind, width, False))
            if kind == "half" and width <= 128:
                found.append(Case(arch, kernel, kind, width, True, options=True))
    return found


HEAD = """\
# What the compiler makes of the flash kernels

Made by `python -m attend_kernels.compiled` with Triton {version}, without a GPU: this is what code
there is, not how fast it runs. **Nothing has been timed on a GPU yet.**

A thread has 255 registers at most; what does not fit is spilled to memory (bytes a thread). A
program may use {sm_90:,} bytes of shared memory on sm_90 (H100, H200) and {sm_80:,} on sm_80
(A100), of which the consumer cards of that family have {sm_86:,}. HGMMA and HMMA are the tensor
cores' instructions, of four warps and of one; the number is how often they stand in the code. fp32
products are FFMA by intent: tensor cores would round their factors to tf32.

Tiles are chosen for plain and causal attention, and those may not spill. "All options" is window,
ALiBi, soft cap, packed sequences and four query heads a key/value head at once: it may, a little.

"""
COLUMNS = (
    "GPU", "kernel", "dtype", "D", "mask", "BLOCK_T × BLOCK_S", "warps", "stages", "registers",
    "spilled", "shared", "products",
)  # fmt: skip


def main() -> None:
    """Compile what the arguments ask for: see the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m attend_kernels.compiled", description=__doc__)
    parser.add_argument("--json", metavar="ARCHITECTURE", type=int, help="print one to stdout")
    parser.add_argument("--half", action="store_true", help="leave fp32 out, which takes longest")
    asked = parser.parse_args()
    if asked.json:
        wanted = [c for c in cases(asked.json) if c.kind == "half" or not asked.half]
        made = {case: case.compile() for case in wanted}
        print(
            json.dumps(
                [{"case": asdict(c), "made": asdict(m), "row": c.row(m)} for c, m in made.items()]
            )
        )
        return
    limits = {f"sm_{architecture}": limit for architecture, limit in SHARED_LIMIT.items()}
    rows = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    rows += [case.row(case.compile()) for architecture in (90, 80) for case in cases(architecture)]
    page = Path(__file__).parents[1] / "COMPILED.md"
    page.write_text(HEAD.format(version=triton.__version__, **limits) + "\n".join(rows) + "\n")
    print(f"wrote {page}")


if __name__ == "__main__":
    main()
