"""A slip in an earlier exercise costs that exercise alone: every chapter, each exercise in turn."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path

import attend
import pytest
from attend_grader import chapters
from attend_grader.inside.stand_ins import raised

from .chapter_notebooks import Notebooks

pytestmark = pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")

USED = {
    f"{chapter_id}/{name}"
    for chapter_id in chapters.INDEX
    for exercise in chapters.chapter(chapter_id).exercises
    for name in exercise.uses
    if name in chapters.INDEX[chapter_id]
}
THIN = {"05_multi_head/split_heads", "03_attention/softmax"}
"""Checked in each run of the tests; the others in the deep tier."""


@pytest.fixture(scope="module")
def notebooks() -> Iterator[dict[str, Notebooks]]:
    opened: dict[str, Notebooks] = {}
    yield opened
    for each in opened.values():
        each.parent.close()


def _cases() -> Iterator[object]:
    for chapter_id, names in chapters.INDEX.items():
        for name in names:
            exercise_id = f"{chapter_id}/{name}"
            for how in ("unwritten", "wrong"):
                marks = () if exercise_id in THIN else (pytest.mark.deep,)
                yield pytest.param(exercise_id, how, marks=marks, id=f"{exercise_id}-{how}")


@pytest.mark.parametrize(("exercise_id", "how"), [*_cases()])
def test_only_that_exercise_loses_points(
    notebooks: dict[str, Notebooks], exercise_id: str, how: str
) -> None:
    chapter_id, _, name = exercise_id.partition("/")
    if chapter_id not in notebooks:
        notebooks[chapter_id] = Notebooks(chapter_id)
    mine = notebooks[chapter_id]
    flags: list[str] = []
    verdicts = mine.grade(getattr(mine, how)(name), flags.append)
    assert flags == [], "every released cell runs in the jail"
    lost = {n: str(v.report) for n, v in verdicts.items() if v.score != v.points and n != name}
    assert lost == {}
    if how == "unwritten":
        assert verdicts[name].reason == "NOT_STARTED"
    assert verdicts[name].score < verdicts[name].points


def test_another_default_dtype_costs_nothing(notebooks: dict[str, Notebooks]) -> None:
    """It cost 27 points, and ended the notebook's own check in a traceback."""
    mine = notebooks.setdefault("05_multi_head", Notebooks("05_multi_head"))
    notebook = mine.solved()
    cell = mine.cell(notebook, "split_heads")
    cell.source = f"import torch\ntorch.set_default_dtype(torch.float64)\n\n{cell.source}"
    lost = {n: str(v.report) for n, v in mine.grade(notebook).items() if v.score != v.points}
    assert lost == {}


def test_what_notebooks_import_of_the_course_needs_no_answer_of_theirs() -> None:
    """The jail has none: chapter 24's first cell failed there, and all it was to import."""
    package = Path(attend.__file__).parent
    for path in sorted(package.rglob("*.py")):
        if path.is_relative_to(package / "widgets"):  # these are left out of the jail
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            imports = node.module if isinstance(node, ast.ImportFrom) else ""
            assert not (imports or "").startswith("attend_solutions"), path


def test_some_exercise_uses_another() -> None:
    assert THIN <= USED
    assert len(USED) >= 8


def test_what_an_earlier_function_raises_keeps_its_type() -> None:
    assert repr(raised("ValueError: a tile of 0")) == "ValueError('a tile of 0')"
    assert repr(raised("KeyboardInterrupt: no")) == "RuntimeError('KeyboardInterrupt: no')"
