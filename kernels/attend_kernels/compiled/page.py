"""The families, the file of what their cases compile to, and the page made from it."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from attend_kernels.compiled.case import COLUMNS, MODEL, Case
from attend_kernels.compiled.compiler import SHARED_LIMIT, Compiled
from attend_kernels.compiled.loop import Loop

# Each is a module beside this one, with a NOTE for the page and ``cases(architecture)``.
FAMILIES = ("flash", "decode", "norm", "rope", "cross_entropy", "softmax")
FAMILIES += ("linear_attention", "selective_scan", "ssd", "conv1d")  # the recurrences
ARCHITECTURES = (90, 80)

HERE = Path(__file__).parent
PACKAGE, HOME = HERE.parent, HERE.parents[1]
RESULTS, PAGE = HOME / "compiled.json", HOME / "COMPILED.md"

HEAD = """\
# What the compiler makes of the kernels

Made by `python -m attend_kernels.compiled` with Triton {version}, without a GPU: this is what code
there is, not how fast it runs. **Nothing has been timed on a GPU yet.**

A thread has 255 registers at most; what does not fit is spilled to memory (bytes a thread). A
program may use {sm_90:,} bytes of shared memory on sm_90 (H100, H200) and {sm_80:,} on sm_80
(A100), of which the consumer cards of that family have {sm_86:,}. HGMMA and HMMA are the tensor
cores' instructions, of four warps and of one; the number is how often they stand in the code. Code
for bf16 stands for fp16 too, which differs in the type of its instructions alone.

**Loops.** Beside what fits and what spills stands what a round of the hottest loop asks of a
multiprocessor, read from the code (`attend_kernels/compiled/loop.py`): the instructions of a warp;
clocks of the schedulers (issue), of the special functions, of the tensor cores and of shared
memory; bytes loaded from memory, and loads and stores of spilled registers, of which those outside
the loop hardly matter. A round takes the clocks of the busiest unit at least, and about the sum of
all where nothing overlaps; *tensor share* is how much of the time the tensor cores then work, in
the second case and in the first. *programs* is how many a multiprocessor holds at once: with one,
only its own warps can overlap. This ranks tiles until they have been timed. It is no prediction.
"""


@dataclass(frozen=True)
class Result:
    """What is known of a case: the fingerprint of its IR and what it was compiled to."""

    fingerprint: str
    made: Compiled


Results = dict[str, dict[str, Result]]  # by family and title


@dataclass(frozen=True)
class Known:
    """What the file of results says."""

    triton: str  # the version that compiled them
    sources: Mapping[str, str]  # by family: digest of its sources
    results: Results


@cache
def cases(family: str) -> tuple[Case, ...]:
    """Every case of a family, on every architecture."""
    module = import_module(f"attend_kernels.compiled.{family}")
    return tuple(case for architecture in ARCHITECTURES for case in module.cases(architecture))


def sources(family: str) -> str:
    """Digest of all that decides a family's cases, comments and docstrings aside.

    That is its tables, and modules that know Triton. Where the digest is as it was, so are all
    fingerprints, and nobody has to make them again.
    """
    files = [HERE / name for name in ("case.py", "compiler.py", f"{family}.py")]
    files += sorted((PACKAGE / "common").glob("*.py"))
    files += sorted((PACKAGE / "ops" / family).glob("*.py"))
    digest = hashlib.sha256()
    for file in files:
        text = file.read_text("utf-8")
        if "triton" not in text and file.name not in ("tiles.py", "measured.py"):
            continue
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (
                ast.get_docstring(node, clean=False) is not None
            ):
                del node.body[0]
        digest.update(f"{file.name} {ast.dump(tree)}".encode())
    return digest.hexdigest()[:16]


def read() -> Known:
    """Read the file of results."""
    if not RESULTS.exists():
        return Known("", {}, {})
    found: dict[str, Any] = json.loads(RESULTS.read_text())
    version, digests = found.pop("triton"), found.pop("sources")
    results = {
        family: {
            title: Result(entry.pop("fingerprint"), _compiled(entry))
            for title, entry in entries.items()
        }
        for family, entries in found.items()
    }
    return Known(version, digests, results)


def write(version: str, results: Results) -> None:
    """Write the file of results, a line a case, and the page."""
    blocks = [f'"triton": {json.dumps(version)}']
    blocks += [f'"sources": {json.dumps({family: sources(family) for family in results})}']
    for family, entries in results.items():
        lines = ",\n".join(
            f" {json.dumps(title)}: "
            f"{json.dumps({'fingerprint': result.fingerprint} | asdict(result.made))}"
            for title, result in entries.items()
        )
        blocks.append(f"{json.dumps(family)}: {{\n{lines}\n}}")
    RESULTS.write_text("{\n" + ",\n".join(blocks) + "\n}\n")
    PAGE.write_text(render(version, results))


def render(version: str, results: Results) -> str:
    """Make the page."""
    limits = {f"sm_{architecture}": limit for architecture, limit in SHARED_LIMIT.items()}
    return HEAD.format(version=version, **limits) + "".join(
        line + "\n" for family in FAMILIES for line in _section(family, results[family])
    )


def _section(family: str, results: Mapping[str, Result]) -> Iterator[str]:
    yield f"\n## {family}\n"
    yield import_module(f"attend_kernels.compiled.{family}").NOTE + "\n"
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---" * len(COLUMNS) + "|"
    yield from (case.row(results[case.title].made) for case in cases(family))
    lines = [case.modelled_row(results[case.title].made) for case in cases(family)]
    if any(lines):
        yield "\nOn sm_90, a round of the loop that runs most (above, *Loops*):\n"
        yield f"| {' | '.join(MODEL)} |"
        yield "|---" * len(MODEL) + "|"
        yield from filter(None, lines)


def _compiled(entry: dict[str, Any]) -> Compiled:
    loop = entry.pop("loop", None)
    return Compiled(**entry, loop=None if loop is None else Loop(**loop))
