"""Compile an interpreted kernel for a GPU that is not here: registers, spills, or the error.

Under ``TRITON_INTERPRET=1`` Triton's own functions are interpreted ones, so the compiler runs in a
process of its own, on the kernel's text and what that refers to:
``python -m attend_grader.inside.compiling`` reads requests, a line of JSON each, and answers
likewise. It imports the compiler once and forks for each kernel: the import takes several times as
long as a small kernel.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import textwrap
import traceback
import types
from collections.abc import Mapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

SECONDS = 60
"""Of processor time: a kernel that takes longer to compile has loops unrolled without end."""

WALL_SECONDS = 300.0
"""On a machine that does much else at the time; whoever asks may be less patient."""

MOST_TEXT = 2_000
PRODUCTS = {"HGMMA": "wgmma.mma_async", "HMMA": "mma.sync"}
"""Instructions of tensor cores: a machine's, and what asks for it in PTX, the assembler's text."""

FORKS = hasattr(os, "fork")
"""Not on Windows."""

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
    instructions: bool = False,
    ahead: bool = False,
) -> dict[str, Any]:
    """Compile ``kernel`` in a process of its own; what became of it as plain data.

    Args:
        kernel: a ``@triton.jit`` function, interpreted here.
        types: Triton's names of the run-time arguments' types: ``*fp32``, ``i32``.
        constants: values of the compile-time arguments.
        architecture: ten times the compute capability.
        warps: a program.
        stages: of the software pipeline.
        instructions: whether to count them: the disassembler takes a third of a second.
        ahead: only begin, and return nothing yet: it goes on while other things are done here.

    Returns:
        ``registers`` a thread, bytes ``spilled`` a thread, bytes of ``shared`` memory a program,
        ``products`` of matrices in the assembler's text by their instruction (:data:`PRODUCTS`),
        ``instructions`` of the machine by name (none where they are not asked for); or ``error``,
        with ``line`` within the kernel (0 if unknown), and its ``text`` where that is known.
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
        "instructions": instructions,
    }
    text = json.dumps(request, sort_keys=True)
    if text in _known:
        return _known[text]
    if ahead:
        if FORKS:
            _compiler(os.getpid()).begin(text)
        return {}
    found = _compiler(os.getpid()).answer(text) or _compiler(os.getpid()).answer(text)
    if not found:
        return {"error": "the compiler's process ended before it answered, twice", "line": 0}
    _known[text] = found
    return found


class _Compiler:
    """The process that compiles, for as long as this one lives."""

    def __init__(self) -> None:
        environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "attend_grader.inside.compiling"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        self._begun: list[str] = []  # requests without an answer, in order
        self._read = b""
        atexit.register(self.close)

    def begin(self, request: str) -> None:
        """Let it begin; whether it can, is told by its answer."""
        if request in self._begun:
            return
        assert self._process.stdin is not None
        self._begun.append(request)
        try:
            self._process.stdin.write(f"{request}\n".encode())
            self._process.stdin.flush()
        except OSError:  # it is gone: its answer will tell
            return
        except BaseException:  # an interrupt: the rest of the line is missing
            self.close()
            raise

    def answer(self, request: str) -> dict[str, Any] | None:
        """Its report; None where the process is gone."""
        try:
            if not FORKS:  # nor can one wait for a pipe: a process for each kernel
                return json.loads(self._alone(f"{request}\n".encode()))
            self.begin(request)
            while True:
                found, first = json.loads(self._line()), self._begun.pop(0)
                if first == request:
                    return found
                _known[first] = found
        except TimeoutError:
            self.close()
            return {"error": f"the compiler was not done after {WALL_SECONDS:g} s", "line": 0}
        except (OSError, ValueError):
            self.close()
            return None
        except BaseException:  # an interrupt: what it answers later would be to another request
            self.close()
            raise

    def _alone(self, request: bytes) -> bytes:
        try:
            found, _ = self._process.communicate(request, WALL_SECONDS)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        self.close()
        return found

    def _line(self) -> bytes:
        answers = self._process.stdout
        assert answers is not None
        while b"\n" not in self._read:
            if not select.select([answers], [], [], WALL_SECONDS)[0]:
                raise TimeoutError
            more = os.read(answers.fileno(), 2**16)
            if not more:
                raise BrokenPipeError
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return line

    def close(self) -> None:
        """End it and what it started; another is started when it is needed."""
        atexit.unregister(self.close)
        _compiler.cache_clear()
        with contextlib.suppress(OSError):
            (os.killpg if FORKS else os.kill)(self._process.pid, signal.SIGTERM)
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()


@functools.cache
def _compiler(pid: int) -> _Compiler:
    """That of the process ``pid``, which is this one: a fork needs its own."""
    del pid
    return _Compiler()


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
    """Answer each line of standard input with a line: the report on what it asks for."""
    with contextlib.suppress(Exception):  # it is raised, and told, where it is needed
        import_module("triton.backends.nvidia.compiler")
        import_module("triton.compiler.code_generator")
        from triton.runtime import cache

        cache.triton_key = lambda: ""  # it reads all of Triton, and no cache outlives its kernel
    answer = _in_a_fork if FORKS else _alone
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


def _alone(request: Mapping[str, Any]) -> dict[str, Any]:
    """Compile in this process, and print nothing."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(None):
        os.environ["TRITON_CACHE_DIR"] = folder
        return _compile(request)


def _in_a_fork(request: Mapping[str, Any]) -> dict[str, Any]:
    """Compile in a process that may take too long, or be ended by a compiler's mistake."""
    with tempfile.TemporaryDirectory() as folder:
        report, said = Path(folder, "report"), Path(folder, "said")
        pid = os.fork()
        if pid == 0:
            try:
                os.environ["TRITON_CACHE_DIR"] = folder
                with said.open("w") as file, open(os.devnull) as null:
                    for descriptor, where in ((0, null), (1, file), (2, file)):
                        os.dup2(where.fileno(), descriptor)
                _limit()
                report.write_text(json.dumps(_compile(request)), encoding="utf-8")
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
            told = f"the compiler was not done after {SECONDS} s of processor time"
            return {"error": told, "line": 0}
        try:
            return json.loads(report.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            last = said.read_text(errors="replace").strip().splitlines()[-1:] or ["no output"]
            return {"error": f"the compiler ended with: {last[0]}"[:MOST_TEXT], "line": 0}


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
        module, kernel = module_from_spec(spec), None
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
            return {"error": _plain(error), **_place(getattr(kernel, "fn", kernel), error)}
        except Exception as error:  # the compiler's own, of many kinds
            return {"error": f"{type(error).__name__}: {error}"[:MOST_TEXT], "line": 0}
        return _read(Path(triton.__file__).parent, Path(folder), built, request)


def _place(function: Any, error: Any) -> dict[str, Any]:
    """The line that a compilation error is about, counted from the decorator, and its text."""
    lines = inspect.getsource(function).splitlines()
    above = next((i for i, text in enumerate(lines) if re.match(r"\s*def\b", text)), 0)
    number = getattr(error.node, "lineno", 0)  # counted from the def
    text = lines[above + number - 1 :][:1] if number else []
    return {"line": above + number if number else 0, "text": "".join(text).strip()}


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


def _read(triton: Path, folder: Path, built: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    (folder / "kernel.cubin").write_bytes(built.asm["cubin"])

    def tool(name: str, option: str) -> str:
        words = [str(triton / "backends/nvidia/bin" / name), option, str(folder / "kernel.cubin")]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    usage = dict(re.findall(r"(REG|STACK|LOCAL):(\d+)", tool("cuobjdump", "--dump-resource-usage")))
    counts: dict[str, int] = {}
    code = r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)"
    listed = tool("nvdisasm", "-ndf") if request["instructions"] else ""
    for name in re.findall(code, listed, re.MULTILINE):
        counts[name] = counts.get(name, 0) + 1
    return {
        "registers": int(usage["REG"]),
        "spilled": int(usage["STACK"]) + int(usage["LOCAL"]),
        "shared": int(built.metadata.shared),
        "products": {
            name: len(re.findall(rf"\b(?<!\.){re.escape(asked)}\b", built.asm["ptx"]))
            for name, asked in PRODUCTS.items()
        },
        "instructions": counts,
    }


if __name__ == "__main__":
    main()
