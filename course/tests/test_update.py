"""``attend update``: the newest chapter with the learner's answers; nothing of theirs is lost."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import nbformat
import pytest
from attend import update, workspace
from attend.errors import AttendError
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

CHAPTER = "03_attention"
NOW = datetime(2026, 5, 4, 3, 2, 1)
STUB = "def {0}(x):\n    raise NotImplementedError()"


def exercise(name: str, source: str) -> nbformat.NotebookNode:
    marks = {"grade": False, "solution": True, "locked": False, "grade_id": name}
    return new_code_cell(source, id=name, metadata={"nbgrader": {"schema_version": 3, **marks}})


def chapter(*cells: nbformat.NotebookNode, text: str = "first") -> bytes:
    made = new_notebook(cells=[new_markdown_cell(text, id="text"), *cells])
    return nbformat.writes(made).encode()


@pytest.fixture
def course(tmp_path: Path) -> Path:
    (tmp_path / "course" / CHAPTER).mkdir(parents=True)
    cells = [exercise(name, STUB.format(name)) for name in ("softmax", "scores", "dropped")]
    publish(tmp_path, chapter(*cells))
    workspace.prepare(tmp_path / "work", tmp_path)
    return tmp_path


def publish(root: Path, content: bytes) -> None:
    (root / "course" / CHAPTER / f"{CHAPTER}.ipynb").write_bytes(content)


def write(root: Path, answers: dict[str, str], *own: nbformat.NotebookNode) -> bytes:
    path = root / "work" / f"{CHAPTER}.ipynb"
    mine = nbformat.read(path, as_version=4)
    for cell in mine.cells:
        cell.source = answers.get(cell.id, cell.source)
    mine.cells += own
    nbformat.write(mine, path)
    return path.read_bytes()


def cells(root: Path) -> dict[str, str]:
    mine = nbformat.read(root / "work" / f"{CHAPTER}.ipynb", as_version=4)
    return {cell.id: cell.source for cell in mine.cells}


def test_answers_go_into_the_newest_version_and_the_old_file_stays(course: Path):
    answers = {name: f"def {name}(x):\n    return x + 1" for name in ("softmax", "dropped")}
    old = write(course, answers, new_code_cell("my_own = 1"))
    fresh = [
        exercise("softmax", STUB.format("softmax")),
        exercise("scores", "def scores(x, y): ..."),
    ]
    publish(course, chapter(*fresh, text="second"))
    said = update.update(course / "work", "03", course, NOW)
    kept = course / "work" / f"{CHAPTER}.2026-05-04-030201.ipynb"
    assert kept.read_bytes() == old
    now = cells(course)
    assert now["text"] == "second"
    assert now["softmax"] == answers["softmax"]
    assert now["scores"] == "def scores(x, y): ..."
    assert said == [
        f"Your notebook is kept as {kept.name}.",
        "Your answers are in the new one: softmax.",
        "Not in the chapter any more, in your old notebook only: dropped.",
        "1 code cell of your own stayed in the old notebook.",
    ]
    assert workspace.prepare(course / "work", course) == []  # it counts as the newest


def test_stubs_are_told_from_answers_without_the_version_they_were_copied_from(course: Path):
    stub = update.STUB_ENDS
    write(course, {"softmax": f"def softmax(x):\n    {stub}", "scores": "def scores(x):\n    0"})
    (course / "work" / ".attend" / "copied" / f"{CHAPTER}.ipynb").unlink()
    fresh = [exercise(name, STUB.format(name) + "  # new") for name in ("softmax", "scores")]
    publish(course, chapter(*fresh))
    _, said, *_ = update.update(course / "work", CHAPTER, course, NOW)
    assert said == "Your answers are in the new one: scores."
    assert cells(course)["softmax"].endswith("# new")


def test_an_answer_whose_stub_changed_is_carried_and_named(course: Path):
    write(course, {"softmax": "def softmax(x):\n    return x"})
    publish(course, chapter(exercise("softmax", "def softmax(x, axis=-1):\n    ...")))
    said = update.update(course / "work", CHAPTER, course, NOW)
    assert cells(course)["softmax"] == "def softmax(x):\n    return x"
    told = "softmax begins in another way now: def softmax(x, axis=-1). Change yours to fit."
    assert told in said


def test_types_that_were_left_out_are_no_change(course: Path):
    stub = "def softmax(x: int, axis: int = -1) -> int:\n    ..."
    publish(course, chapter(exercise("softmax", stub)))
    workspace.prepare(course / "work", course)
    write(course, {"softmax": "def softmax(x, axis=-1):\n    return x"})
    publish(course, chapter(exercise("softmax", stub.replace("int", "float")), text="second"))
    said = update.update(course / "work", CHAPTER, course, NOW)
    assert said[1:] == ["Your answers are in the new one: softmax."]
    assert update._plain("def f(x: int = 2, *a: str): ...", "f") == "def f(x=2, *a)"
    assert update._plain("def f(x: int=2)", "f") == "def f(x=2)"


def test_the_version_that_was_put_beside_it_goes(course: Path):
    write(course, {"softmax": "def softmax(x):\n    return x"})
    publish(course, chapter(exercise("softmax", STUB.format("softmax")), text="second"))
    workspace.prepare(course / "work", course)
    (beside,) = (course / "work").glob(f"{CHAPTER}.new-*.ipynb")
    update.update(course / "work", CHAPTER, course, NOW)
    assert not beside.exists()


def test_nothing_newer_changes_nothing(course: Path):
    old = write(course, {"softmax": "def softmax(x):\n    return x"})
    (said,) = update.update(course / "work", "03", course, NOW)
    assert "newest version of the chapter already" in said
    assert (course / "work" / f"{CHAPTER}.ipynb").read_bytes() == old


def test_a_file_that_is_no_notebook_is_left_alone(course: Path):
    path = course / "work" / f"{CHAPTER}.ipynb"
    path.write_text("{}")
    publish(course, chapter(text="second"))
    with pytest.raises(AttendError, match="no notebook that can be read"):
        update.update(course / "work", "03", course, NOW)
    assert path.read_text() == "{}"


def test_an_unknown_chapter_names_those_there_are(course: Path):
    with pytest.raises(AttendError, match="Chapters so far: 03_attention"):
        update.update(course / "work", "77", course)


@pytest.mark.parametrize(
    ("source", "begins"),
    [
        ("def f(a, *, b=2):\n    return a", "def f(a, *, b=2)"),
        ("class f:\n    def __init__(self, d):\n        pass", "class f def __init__(self, d)"),
        ("def f(:", ""),
        ("f = 3", ""),
    ],
)
def test_how_a_definition_begins(source: str, begins: str):
    assert update.signature(source, "f") == begins
