"""The command `attend` in this process, and a class of mixed submissions graded with it."""

from __future__ import annotations

import contextlib
import io
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from attend import cli
from attend_grader.gradebook.directory import Course
from attend_grader.grading import processes, work
from attend_grader.grading.record import Record
from attend_grader.grading.work import Job

from . import toy_class
from .toy_class import CHAPTER, SCORES, SOFTMAX

MISSING, MISNAMED, BROKEN = "fay", "gus", "hal"
LATE = "ida"
PROBLEMS = {
    MISSING: "there is no 03_attention.ipynb in the folder",
    MISNAMED: "there is no 03_attention.ipynb in the folder; it holds final [2].ipynb",
    BROKEN: "the file is not a notebook, or only a part of one",
}
STUDENTS = sorted([*toy_class.ANSWERS, *PROBLEMS, LATE])
RULE = '''
from nbgrader.plugins import BasePlugin

class Half(BasePlugin):
    """Half of the score, for whoever is late."""

    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return score / 2
'''


@dataclass(frozen=True)
class Said:
    """What a command ended with and wrote."""

    code: int
    out: str
    err: str


def attend(*words: str | Path) -> Said:
    """Run the command."""
    out, err = io.StringIO(), io.StringIO()
    before = sys.argv
    sys.argv = ["attend", *map(str, words)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.app()
    except SystemExit as end:
        code = int(end.code or 0)
    else:
        code = 0
    finally:
        sys.argv = before
    return Said(code, out.getvalue(), err.getvalue())


def grade(root: Path, *words: str) -> Said:
    """Run `attend grade` on the class."""
    return attend("grade", CHAPTER, "--course", root, *words)


def refused(said: Said, code: int = 1) -> str:
    """The one sentence of a command that could not do its work."""
    assert said.code == code, said
    assert said.out == ""
    assert "Traceback" not in said.err
    assert said.err.count("\n") == 1, said.err
    return said.err


@pytest.fixture(scope="module")
def here() -> Iterator[None]:
    """Grade in this process: other tests start workers."""

    def one_by_one(jobs: Sequence[Job], workers: int) -> Iterator[Record]:
        assert workers >= 1
        return (work.grade(job.loaded()) for job in jobs)

    def none_ahead(workers: int | None, *more: object) -> contextlib.nullcontext[int]:
        del more
        return contextlib.nullcontext(processes.default_workers() if workers is None else workers)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "in_processes", one_by_one)
        patch.setattr(processes, "ahead", none_ahead)
        yield


@dataclass(frozen=True)
class Class:
    """A class that has been graded, and what `attend grade` said then."""

    root: Path
    said: Said


@pytest.fixture(scope="module")
def graded(here: None, tmp_path_factory: pytest.TempPathFactory) -> Class:
    """Mixed submissions, graded with seed 1."""
    if not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    root = tmp_path_factory.mktemp("mixed") / "class"
    toy_class.make(root)
    for student in (MISSING, MISNAMED):
        (root / "submitted" / student / CHAPTER).mkdir(parents=True)
    toy_class.write(root / "submitted" / MISNAMED / CHAPTER / "final [2].ipynb", "{}")
    toy_class.hand_in(root, BROKEN, '{"cells": [')
    toy_class.hand_in(root, LATE, toy_class.notebook(SOFTMAX, SCORES))
    date(root, LATE, "2030-01-03 12:00:00 UTC")
    return Class(root, grade(root, "--seed", "1", "--workers", "1"))


@pytest.fixture
def root(graded: Class, tmp_path: Path) -> Path:
    """A copy of it."""
    copy = tmp_path / "class"
    shutil.copytree(graded.root, copy)
    config = copy / "nbgrader_config.py"
    config.write_text(config.read_text().replace(str(graded.root), str(copy)))
    return copy


def configure(root: Path, *lines: str) -> None:
    """Add lines to the class's settings."""
    with (root / "nbgrader_config.py").open("a") as config:
        config.writelines(f"{line}\n" for line in lines)


def date(root: Path, student: str, when: str) -> None:
    """Say when a submission was handed in."""
    toy_class.write(root / "submitted" / student / CHAPTER / "timestamp.txt", when)


def state(root: Path) -> dict[str, object]:
    """All that grading left."""
    return toy_class.state(Course.open(root))
