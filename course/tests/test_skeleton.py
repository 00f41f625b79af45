"""``attend new-chapter``: the rooms it writes pass the project's own tests as they stand."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from attend import skeleton
from attend.curriculum import CHAPTERS, ROOT
from attend.errors import AttendError

NEW = CHAPTERS[-1]
FOLDERS = ("course", "autograder", "solutions", "kernels")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project without the last chapter, and with a skeleton in its place."""
    root = tmp_path_factory.mktemp("clone")
    for name in FOLDERS:  # with what is compiled
        shutil.copytree(ROOT / name, root / name)
    for name in ("pyproject.toml", "README.md", "conftest.py", "Makefile"):
        shutil.copy(ROOT / name, root / name)
    (root / "binder").mkdir()
    for path in (path for path, _ in skeleton.files(NEW)):
        (root / path).unlink(missing_ok=True)
    shutil.rmtree(root / f"autograder/attend_grader/chapters/ch{NEW.id}", ignore_errors=True)
    done = run(root, "-m", "attend", "new-chapter", NEW.id)
    assert done.returncode == 0, done.stdout + done.stderr
    return root


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python on the copy's own packages."""
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    environment["PYTHONPATH"] = os.pathsep.join(str(root / name) for name in FOLDERS)
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
    )


def test_notebook_and_readme_are_up_to_date(clone: Path):
    for command in (["build", "--check", NEW.id], ["readme", "--check"]):
        done = run(clone, "-m", "attend", *command)
        assert done.returncode == 0, done.stdout + done.stderr
    assert f"course/{NEW.id}/{NEW.id}.ipynb" in (clone / "README.md").read_text()


def test_the_skeleton_passes_the_tests_of_answers_and_exercises(clone: Path):
    slug = NEW.id[3:]
    tests = [f"solutions/tests/test_{slug}.py", "autograder/tests/test_exercises.py"]
    chosen = f"test_{slug} or {NEW.id}"
    done = run(clone, "-m", "pytest", "-q", "-m", "not deep", "-k", chosen, *tests)
    assert done.returncode == 0, done.stdout[-3000:]
    passed = int(done.stdout.split(" passed")[0].split()[-1])
    assert passed > 20, "answer, slips, alternatives and trivial answers were tried"


def test_every_planned_chapter_gets_code_in_the_projects_style(tmp_path: Path):
    for chapter in CHAPTERS:
        for path, text in skeleton.files(chapter):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    grader = "autograder/attend_grader"
    for package in ("solutions/attend_solutions", grader, f"{grader}/chapters"):
        # ruff sorts a package's own imports apart, and knows a package by this file
        (tmp_path / package / "__init__.py").write_text('"""A package."""\n')
    for command in (["check", "--quiet"], ["format", "--check", "--quiet"]):
        done = run(tmp_path, "-m", "ruff", *command, "--no-cache")
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_chapter_that_is_not_planned_is_refused(tmp_path: Path):
    with pytest.raises(AttendError, match="not in the plan"):
        skeleton.main("28_afterthought", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_never_overwritten(tmp_path: Path):
    path = tmp_path / "solutions" / "attend_solutions" / f"{NEW.id[3:]}.py"
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(AttendError, match="there already: nothing was written"):
        skeleton.main(NEW.id, tmp_path)
    assert path.read_text() == "mine"
    assert not (tmp_path / "course").exists()
