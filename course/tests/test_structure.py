"""The house: no circle of imports, no import that runs upwards, no module that is too long."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "attend": "course",
    "attend_grader": "autograder",
    "attend_solutions": "solutions",
    "attend_kernels": "kernels",
}
"""Package → the folder that holds it, uppermost first: each may import those below it."""

GRADER = (
    ("session", "cells", "sharing", "progress", "preprocessors", "feedback"),
    ("gradebook",),
    ("grading",),
    ("sandbox",),
    ("judging",),
    ("chapters",),
    ("checks",),
    ("inside",),
)
"""The storeys of attend_grader, uppermost first."""

BELOW_ITS_PLACE = {
    ("attend_grader.gradebook.gather", "attend_grader.sharing"),  # what learners shared, as data
}
LONGEST = 400


@cache
def modules() -> dict[str, Path]:
    """Every module of the four packages by its dotted name."""
    found = {}
    for package, folder in PACKAGES.items():
        for path in sorted((ROOT / folder / package).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


@cache
def imports(name: str) -> frozenset[str]:
    """The modules of the course that a module imports anywhere in its text."""
    path = modules()[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(t for t in _targets(package, tree) if t in modules() and t != name)


def _targets(package: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [base])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield inner if inner in modules() else base


def storey(name: str) -> int:
    """Where a module of attend_grader stands, 0 uppermost; the package itself above all."""
    parts = name.split(".")
    place = (i for i, names in enumerate(GRADER) if len(parts) > 1 and parts[1] in names)
    return next(place, -1)


def test_imports_between_packages_run_downwards() -> None:
    order = list(PACKAGES)
    upwards = [
        f"{name} → {target}"
        for name in modules()
        for target in imports(name)
        if order.index(target.split(".")[0]) < order.index(name.split(".")[0])
    ]
    assert not upwards


def test_imports_within_the_grader_run_downwards() -> None:
    upwards = [
        f"{name} → {target}"
        for name in modules()
        if name.startswith("attend_grader.")
        for target in imports(name)
        if target.startswith("attend_grader") and storey(target) < storey(name)
        if (name, target) not in BELOW_ITS_PLACE
    ]
    assert not upwards


def test_every_module_of_the_grader_has_a_storey() -> None:
    lost = [n for n in modules() if n.startswith("attend_grader.") and storey(n) < 0]
    assert not lost


def test_there_is_no_circle_of_imports() -> None:
    graph = {name: imports(name) for name in modules()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle: {' → '.join(reversed(error.args[1]))}")


def test_modules_are_short() -> None:
    counts = {name: len(p.read_text("utf-8").splitlines()) for name, p in modules().items()}
    assert not {name: count for name, count in counts.items() if count > LONGEST}


def test_what_runs_beside_submitted_code_imports_nothing_else_of_the_course() -> None:
    inside = [name for name in modules() if name.startswith("attend_grader.inside")]
    assert inside
    outward = {t for n in inside for t in imports(n) if not t.startswith("attend_grader.inside")}
    assert not outward
