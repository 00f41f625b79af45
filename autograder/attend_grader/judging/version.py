"""The grader's version, by chapter: the engine's, and a digest of the chapter's own code.

A change to one chapter's checks or answers regrades that chapter and no other.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from attend_grader import chapters

ENGINE = "21"
"""Raised when the engine scores the same submission and seed differently than before."""


@cache
def of(chapter_id: str) -> str:
    """The version that grades a chapter, such as ``"4.1f0a93bc"``; the engine's if it is unknown.

    The digest is taken over the chapter's folder and the modules of ``attend_solutions`` that it
    imports, directly or through one another.
    """
    if chapter_id not in chapters.INDEX:
        return ENGINE
    digest = hashlib.sha256()
    for path in _sources(chapter_id):
        digest.update(f"{path.name}\0".encode())
        digest.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return f"{ENGINE}.{digest.hexdigest()[:8]}"


def of_course() -> str:
    """The version of all chapters together: two installs that agree in it grade alike."""
    parts = "\0".join(of(chapter_id) for chapter_id in chapters.INDEX)
    return f"{ENGINE}.{hashlib.sha256(parts.encode()).hexdigest()[:8]}"


def _sources(chapter_id: str) -> list[Path]:
    room = sorted(_directory(chapters.package(chapter_id)).glob("*.py"))
    answers = _directory("attend_solutions")
    pending, found = [*room], dict.fromkeys(room)
    while pending:
        for name in _answers_imported(pending.pop()):
            path = answers / f"{name}.py"
            if path.is_file() and path not in found:
                found[path] = None
                pending.append(path)
    return sorted(found)


def _answers_imported(path: Path) -> Iterator[str]:
    """Names below ``attend_solutions`` that a file imports; some may be no modules."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(module="attend_solutions", names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module)) if module.startswith("attend_solutions."):
                yield module.split(".")[1]
            case ast.Import(names=names):
                parts = [alias.name.split(".") for alias in names]
                yield from (p[1] for p in parts if p[0] == "attend_solutions" and len(p) > 1)


def _directory(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))
