"""Compile an interpreted kernel for a GPU that is not here: registers, spills, or the error.

Under ``TRITON_INTERPRET=1`` Triton's own functions are interpreted ones, so the compiler runs in a
process of its own, on the kernel's text and what that refers to:
``python -m attend_grader.inside.compiling`` reads a request as JSON and answers likewise.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import types
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

SECONDS = 60
"""Of processor time: a kernel that takes longer to compile has loops unrolled without end."""

WALL_SECONDS = 300.0
"""On a machine that does much else at the time; whoever asks may be less patient."""

MOST_TEXT = 2_000
_HEAD = "import triton\nimport triton.language as tl\n"
_known: dict[str, dict[str, Any]] = {}
"""Reports by request, of this process."""


def python_function(kernel: Any) -> Any:
    """The Python function of a ``@triton.jit`` kernel; anything else as it is."""
    inner = getattr(kernel, "fn", None)
    triton = type(kernel).__module__.startswith("triton.")
    return inner if triton and inspect.isfunction(inner) else kernel


def compiled(
    kernel: Any,
    types: Mapping[str, str],
    constants: Mapping[str, Any],
    *,
    architecture: int = 90,
    warps: int = 4,
    stages: int = 2,
) -> dict[str, Any]:
    """Compile ``kernel`` in a process of its own; what became of it as plain data.

    Args:
        kernel: a ``@triton.jit`` function, interpreted here.
        types: Triton's names of the run-time arguments' types: ``*fp32``, ``i32``.
        constants: values of the compile-time arguments.
        architecture: ten times the compute capability.
        warps: a program.
        stages: of the software pipeline.

    Returns:
        ``registers`` a thread, bytes ``spilled`` a thread, bytes of ``shared`` memory a program,
        ``instructions`` by name; or ``error``, with ``line`` within the kernel (0 if unknown).
    """
    try:
        source = _text(kernel)
    except (OSError, TypeError, AttributeError) as error:
        return {"error": f"the kernel's source cannot be read: {error}"[:MOST_TEXT], "line": 0}
    request = {
        "source": source,
        "name": python_function(kernel).__name__,
        "types": dict(types),
        "constants": dict(constants),
        "architecture": architecture,
        "warps": warps,
        "stages": stages,
    }
    text = json.dumps(request, sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()
    if key not in _known:
        _known[key] = _in_a_process(text)
    return _known[key]


def _in_a_process(text: str) -> dict[str, Any]:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    with tempfile.TemporaryDirectory() as cache:
        environment |= {"TRITON_CACHE_DIR": cache}
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-m", "attend_grader.inside.compiling"],
                input=text,
                capture_output=True,
                text=True,
                env=environment,
                timeout=WALL_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return {"error": f"the compiler was not done after {WALL_SECONDS:g} s", "line": 0}
    if hasattr(signal, "SIGXCPU") and done.returncode == -signal.SIGXCPU:
        told = f"the compiler was not done after {SECONDS} s of processor time"
        return {"error": told, "line": 0}
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return {"error": f"the compiler ended with: {last}"[:MOST_TEXT], "line": 0}


def _text(kernel: Any) -> str:
    """A module with the kernel, the kernels it calls and the constants it names."""
    parts: dict[str, str] = {}
    _gather(kernel, parts)
    return _HEAD + "\n".join(parts.values())


def _gather(kernel: Any, parts: dict[str, str]) -> None:
    function = python_function(kernel)
    for name in sorted(_names(function.__code__)):
        value = function.__globals__.get(name)
        if name in parts or name in ("triton", "tl") or value is None:
            continue
        if isinstance(value, types.ModuleType):
            parts[name] = f"import {value.__name__} as {name}\n"
        elif python_function(value) is not value:
            parts[name] = ""
            _gather(value, parts)
        elif type(value).__name__ == "constexpr":
            parts[name] = f"{name} = tl.constexpr({value.value!r})\n"
        elif isinstance(value, (bool, int, float, str)):
            parts[name] = f"{name} = {value!r}\n"  # refused by the compiler, in its own words
    parts.pop(function.__name__, None)
    parts[function.__name__] = textwrap.dedent(inspect.getsource(function))


def _names(code: types.CodeType) -> set[str]:
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def main() -> None:
    """Compile what standard input asks for; print the report as the last line."""
    _limit()
    request = json.load(sys.stdin)
    print(json.dumps(_compile(request)))


def _limit() -> None:
    """End this process, and what it starts, after so much processor time; not on Windows."""
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    within = hard == resource.RLIM_INFINITY or hard > SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS if within else hard, hard))


def _compile(request: Mapping[str, Any]) -> dict[str, Any]:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler.errors import CompilationError

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.py"
        path.write_text(request["source"], encoding="utf-8")
        spec = spec_from_file_location("kernel", path)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
            kernel = getattr(module, request["name"])
            names, kinds = kernel.arg_names, request["types"]
            pointers = [i for i, name in enumerate(names) if "*" in kinds.get(name, "")]
            source = ASTSource(
                fn=kernel,
                signature={name: kinds.get(name, "constexpr") for name in names},
                constexprs={
                    n: _constant(request["constants"].get(n)) for n in names if n not in kinds
                },
                attrs={(i,): [["tt.divisibility", 16]] for i in pointers},  # as tensors are aligned
            )
            target = GPUTarget("cuda", request["architecture"], 32)
            options = {"num_warps": request["warps"], "num_stages": request["stages"]}
            built = triton.compile(source, target=target, options=options)
        except CompilationError as error:
            return {"error": _plain(error), "line": getattr(error.node, "lineno", 0)}
        except Exception as error:  # the compiler's own, of many kinds
            return {"error": f"{type(error).__name__}: {error}"[:MOST_TEXT], "line": 0}
        return _read(Path(triton.__file__).parent, Path(folder), built)


def _constant(value: Any) -> Any:
    """``"tl.float32"`` as the type of that name; anything else as it is."""
    import triton.language as tl

    named = isinstance(value, str) and value.startswith("tl.")
    return getattr(tl, value.removeprefix("tl."), value) if named else value


def _plain(error: Any) -> str:
    """The innermost message of a compilation error, without the source around it."""
    while error.__cause__ is not None and str(error.__cause__):
        error = error.__cause__
    told = getattr(error, "error_message", None) or str(error)
    inner = re.fullmatch(r"(\w+Error)\((['\"])(.*)\2\)", told, re.DOTALL)
    return (f"{inner[1]}: {inner[3]}" if inner else f"{type(error).__name__}: {told}")[:MOST_TEXT]


def _read(triton: Path, folder: Path, built: Any) -> dict[str, Any]:
    (folder / "kernel.cubin").write_bytes(built.asm["cubin"])

    def tool(name: str, option: str) -> str:
        words = [str(triton / "backends/nvidia/bin" / name), option, str(folder / "kernel.cubin")]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    usage = dict(re.findall(r"(REG|STACK|LOCAL):(\d+)", tool("cuobjdump", "--dump-resource-usage")))
    counts: dict[str, int] = {}
    code = r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)"
    for name in re.findall(code, tool("nvdisasm", "-c"), re.MULTILINE):
        counts[name] = counts.get(name, 0) + 1
    return {
        "registers": int(usage["REG"]),
        "spilled": int(usage["STACK"]) + int(usage["LOCAL"]),
        "shared": int(built.metadata.shared),
        "instructions": counts,
    }


if __name__ == "__main__":
    main()
