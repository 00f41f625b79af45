"""`attend class init`: a whole course directory or nothing, and one sentence for each mistake."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import nbformat
import pytest
from attend import build, classroom
from attend.chapter import chapter_ids
from attend.errors import AttendError
from nbgrader.apps import NbGraderApp

CHAPTER = "03_attention"
COMMON = {"README.md", "gradebook.db", "nbgrader_config.py"}
PATHS = {*COMMON, f"source/{CHAPTER}/{CHAPTER}.ipynb"}
ALL_PATHS = {*COMMON, *(f"source/{name}/{name}.ipynb" for name in chapter_ids())}


def files(directory: Path) -> set[str]:
    return {str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file()}


def refusal(directory: Path, chapters: list[str] | None = None, db: str | None = None) -> str:
    """The one sentence; nothing may be left behind."""
    before = sorted(directory.parent.rglob("*")) if directory.parent.is_dir() else []
    with pytest.raises(AttendError) as caught:
        classroom.init(directory, chapters or [], db)
    assert (sorted(directory.parent.rglob("*")) if directory.parent.is_dir() else []) == before
    return str(caught.value)


def config(directory: Path) -> str:
    return (directory / "nbgrader_config.py").read_text()


def test_a_new_directory_holds_every_chapter_solved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "fall 2030"
    classroom.init(directory, [], None)
    first, last = capsys.readouterr().out.splitlines()
    assert first == f"Writing {', '.join(chapter_ids())} ...", "it takes some seconds"
    assert last.startswith(f"Made {directory}.")
    assert files(directory) == ALL_PATHS
    assert sorted(tmp_path.iterdir()) == [directory]
    made = nbformat.read(directory / "source" / CHAPTER / f"{CHAPTER}.ipynb", as_version=4)
    assert made == build.solved_notebook(CHAPTER)
    assert "course_id = 'fall-2030'" in config(directory)
    assert "db_url" not in config(directory), "a directory that is moved keeps its own gradebook"
    assert f"nbgrader autograde {chapter_ids()[0]}" in (directory / "README.md").read_text()
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o777 & ~umask


def test_an_empty_directory_is_filled_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    classroom.init(Path(), [CHAPTER, CHAPTER], None)
    assert files(Path.cwd()) == PATHS
    assert "course_id = 'here'" in config(here)


def test_the_config_is_read_by_nbgrader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "class"
    classroom.init(directory, [], None)
    monkeypatch.chdir(directory)
    app = NbGraderApp()
    app.config_dir = str(tmp_path / "no-settings-of-a-user")
    app.load_config_file()
    assert app.config.CourseDirectory.course_id == "class"
    first = app.config.Autograde.sanitize_preprocessors[0]
    assert first == "attend_grader.gradebook.preprocessors.RebuildFromRelease"


@pytest.mark.parametrize(
    "db",
    [
        "sqlite:////var/grades.db",
        "postgresql://teacher:secret@db.example.org:5432/grades",
        "postgresql+psycopg2://teacher@localhost/grades",
    ],
)
def test_a_gradebook_elsewhere_is_left_to_nbgrader(
    tmp_path: Path, db: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg2", None)  # as if it were not installed
    monkeypatch.setitem(sys.modules, "psycopg", None)
    directory = tmp_path / "class"
    classroom.init(directory, [CHAPTER], db)
    assert f"c.CourseDirectory.db_url = {db!r}" in config(directory)
    assert files(directory) == PATHS - {"gradebook.db"}
    assert ("needs the Python package psycopg" in capsys.readouterr().out) == ("postgres" in db)


@pytest.mark.parametrize(
    "db",
    [
        "",
        "grades.db",
        "postgresql://",
        "mysql://teacher@localhost/grades",
        "sqlite://",
        "http://localhost/grades",
        "nosuch://localhost/grades",
        "postgresql+nosuch://localhost/grades",
        "postgresql://localhost:port/grades",
    ],
)
def test_what_is_no_database_url_is_refused(tmp_path: Path, db: str) -> None:
    said = refusal(tmp_path / "class", db=db)
    assert said.startswith("--db: ")
    assert "postgresql://user:password@host/database" in said


def test_a_used_directory_is_refused_and_kept(tmp_path: Path) -> None:
    for name in ("grades.csv", "notes.md", ".git", "a", "b", "c"):
        (tmp_path / "class" / name).mkdir(parents=True)
    said = refusal(tmp_path / "class")
    assert "is not empty: it holds .git, a, b, c, grades.csv and 1 more." in said


def test_an_unknown_chapter_is_refused_by_name(tmp_path: Path) -> None:
    said = refusal(tmp_path / "class", [CHAPTER, "99_dreams"])
    assert "no chapter '99_dreams'" in said
    assert CHAPTER in said.split("written so far")[1]


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "class").write_text("mine")
    assert "is a file" in refusal(tmp_path / "class")
    assert (tmp_path / "class").read_text() == "mine"


def test_a_missing_parent_is_refused(tmp_path: Path) -> None:
    assert f"{tmp_path / 'no'} does not exist" in refusal(tmp_path / "no" / "class")


def test_a_parent_that_cannot_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(path: Path, *args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", deny)  # a superuser may write anywhere, so permissions lie
    assert f"{tmp_path} cannot be written (Permission denied)" in refusal(tmp_path / "class")


@pytest.mark.parametrize("exists", [False, True], ids=["new", "empty"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_what_stops_halfway_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool, error: BaseException
) -> None:
    def fail(path: Path, course_id: str) -> None:
        raise error

    monkeypatch.setattr(classroom, "_gradebook", fail)
    directory = tmp_path / "class"
    if exists:
        directory.mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises((AttendError, KeyboardInterrupt)):
        classroom.init(directory, [CHAPTER], None)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_environment_is_as_before(tmp_path):
    before = dict(os.environ)
    classroom.init(tmp_path / "myclass", [], None)
    assert dict(os.environ) == before
