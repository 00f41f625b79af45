"""A class from start to end with nbgrader's own commands, then in the formgrader."""

from __future__ import annotations

import copy
import csv
import inspect
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from attend import stub
from attend_grader import chapters, grade
from attend_grader.checks.exercise import Exercise
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from nbgrader.api import Gradebook
from playwright.sync_api import expect

from .browser import Lab, browse, serve

CHAPTER = "03_attention"
EXERCISES = {e.name: e for e in chapters.chapter(CHAPTER).exercises}
TOTAL = sum(e.points for e in EXERCISES.values())
UNSCALED = "forgot 1/√D"  # a misconception of attention_scores
SAMPLE = "the root of D rounded down"  # one of score_variance, which keeps some of its points

pytestmark = [pytest.mark.slow, pytest.mark.deep]


def command(directory: Path, program: str, *arguments: str) -> str:
    """Run one of the environment's commands, without a user's own settings."""
    home = directory.parent / "home"
    kept = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "IPYTHONDIR": "ipython"}
    places = {name: str(home / folder) for name, folder in kept.items()}
    done = subprocess.run(
        [Path(sysconfig.get_path("scripts"), program), *arguments],
        cwd=directory,
        env={**os.environ, **places},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def at(notebook: NotebookNode, cell_id: str) -> NotebookNode:
    return next(cell for cell in notebook.cells if cell.id == cell_id)


def solve(notebook: NotebookNode, *names: str) -> NotebookNode:
    """A copy with the reference answers of these exercises in their cells."""
    solved = copy.deepcopy(notebook)
    for name in names:
        at(solved, name).source = stub.solution_text(EXERCISES[name].reference)
    return solved


def err(notebook: NotebookNode, exercise: Exercise, misconception: str) -> NotebookNode:
    """A copy with a known wrong answer in the exercise's cell."""
    source = inspect.getsource(exercise.misconceptions[misconception])
    wrong = copy.deepcopy(notebook)
    at(wrong, exercise.name).source = re.sub(r"^def \w+", f"def {exercise.name}", source)
    return wrong


def earned(exercise: Exercise, misconception: str) -> int:
    return grade(exercise.misconceptions[misconception], exercise.id).score


def half(release: NotebookNode) -> NotebookNode:
    """Three of six: two right, one right in part."""
    right = solve(release, "softmax", "attention_scores")
    return err(right, EXERCISES["score_variance"], SAMPLE)


def tampered(release: NotebookNode) -> NotebookNode:
    """One answer; the checks of all others deleted or tagged to be skipped."""
    notebook = solve(release, "softmax")
    names = [name for name in EXERCISES if name != "softmax"]
    for name in names[::2]:
        notebook.cells.remove(at(notebook, f"check-{name}"))
    for name in names[1::2]:
        at(notebook, f"check-{name}").metadata["tags"] = ["skip-execution"]
    return notebook


def overwritten(release: NotebookNode) -> NotebookNode:
    """No answer; `check` made to print nothing, and its import taken away."""
    notebook = copy.deepcopy(release)
    setup = next(c for c in notebook.cells if "from attend_grader import" in c.source)
    setup.source += "\n\ndef check(function):\n    pass"
    notebook.cells.insert(0, new_code_cell("check = lambda function: None"))
    return notebook


def hostile(release: NotebookNode) -> NotebookNode:
    """One answer; scripts in text, in an output and in a link."""
    notebook = solve(release, "softmax")
    script = "<script>window.stolen = 1</script><img src=x onerror='window.stolen = 1'>"
    text = next(c for c in notebook.cells if c.cell_type == "markdown")
    text.source += f"\n\n{script}\n\n[a link](javascript:window.stolen=1)"
    notebook.cells.append(new_markdown_cell(f"My notes: {script} and 1 < 2"))
    output = new_output("display_data", {"text/html": script})
    next(c for c in notebook.cells if c.cell_type == "code").outputs = [output]
    at(
        notebook, "attention_scores"
    ).source = f"def attention_scores(q, k, scaled=True):\n    raise ValueError({script!r})\n"
    return notebook


STUDENTS = {"solved", "untouched", "half", "wrong", "tampered", "overwritten", "hostile"}


def submissions(release: NotebookNode) -> dict[str, NotebookNode]:
    wrong = err(solve(release, *EXERCISES), EXERCISES["attention_scores"], UNSCALED)
    return {
        "solved": solve(release, *EXERCISES),
        "untouched": release,
        "half": half(release),
        "wrong": wrong,
        "tampered": tampered(release),
        "overwritten": overwritten(release),
        "hostile": hostile(release),
    }


@pytest.fixture(scope="module")
def classroom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class directory in which everything has been done once."""
    place = tmp_path_factory.mktemp("class")
    directory = place / "attention-101"
    command(place, "attend", "class", "init", str(directory))
    command(directory, "nbgrader", "generate_assignment", CHAPTER)
    release = nbformat.read(directory / "release" / CHAPTER / f"{CHAPTER}.ipynb", as_version=4)
    for student, notebook in submissions(release).items():
        path = directory / "submitted" / student / CHAPTER / f"{CHAPTER}.ipynb"
        path.parent.mkdir(parents=True)
        nbformat.write(notebook, path)
    handed_in = {path: path.read_bytes() for path in directory.glob("submitted/**/*.ipynb")}
    command(directory, "nbgrader", "autograde", CHAPTER)
    command(directory, "nbgrader", "generate_feedback", CHAPTER)
    command(directory, "nbgrader", "export")
    assert {path: path.read_bytes() for path in handed_in} == handed_in, "submissions are kept"
    return directory


@pytest.fixture(scope="module")
def gradebook(classroom: Path) -> Iterator[Gradebook]:
    with Gradebook(f"sqlite:///{classroom}/gradebook.db", "attention-101") as opened:
        yield opened


def scores(gradebook: Gradebook, student: str) -> dict[str, float]:
    """What the gradebook holds for each exercise."""
    submission = gradebook.find_submission_notebook(CHAPTER, CHAPTER, student)
    assert not any(g.needs_manual_grade for g in submission.grades)
    found = {grade.name.removeprefix("check-"): grade.score for grade in submission.grades}
    assert found.keys() == EXERCISES.keys()
    return {name: found[name] for name in EXERCISES}


def points(**changes: int) -> dict[str, int]:
    """Full marks but for these."""
    return {name: changes.get(name, e.points) for name, e in EXERCISES.items()}


def none_but(*names: str) -> dict[str, int]:
    return {name: e.points if name in names else 0 for name, e in EXERCISES.items()}


def page(classroom: Path, student: str) -> str:
    return Path(classroom, "feedback", student, CHAPTER, f"{CHAPTER}.html").read_text()


def test_points_are_the_exercises(gradebook: Gradebook) -> None:
    assert gradebook.find_assignment(CHAPTER).max_score == TOTAL


def test_solved_gets_full_marks(gradebook: Gradebook) -> None:
    assert scores(gradebook, "solved") == points()


def test_untouched_gets_none(gradebook: Gradebook, classroom: Path) -> None:
    assert scores(gradebook, "untouched") == none_but()
    assert page(classroom, "untouched").count("not started") >= len(EXERCISES)


def test_half_gets_exactly_that_half_with_partial_credit(gradebook: Gradebook) -> None:
    variance = EXERCISES["score_variance"]
    part = earned(variance, SAMPLE)
    assert 0 < part < variance.points
    expected = {**none_but("softmax", "attention_scores"), "score_variance": part}
    assert scores(gradebook, "half") == expected


def test_a_misconception_loses_its_points_and_is_named_in_the_feedback(
    gradebook: Gradebook, classroom: Path
) -> None:
    exercise = EXERCISES["attention_scores"]
    part = earned(exercise, UNSCALED)
    assert part < exercise.points
    assert scores(gradebook, "wrong") == points(attention_scores=part)  # and nothing lost twice
    assert f"Looks like: {UNSCALED}." in page(classroom, "wrong")
    assert UNSCALED not in page(classroom, "solved").split("attend-card", 1)[1]


def test_feedback_shows_the_cards(classroom: Path) -> None:
    cards = re.findall(r'class="attend-card".*?</strong>', page(classroom, "solved"), re.DOTALL)
    for exercise, card in zip(EXERCISES.values(), cards, strict=True):
        assert f"{exercise.name}: {exercise.points} of {exercise.points} points" in card


def test_feedback_lists_the_exercises_by_name(classroom: Path) -> None:
    listed = page(classroom, "solved").split('id="notebook"', 1)[0]
    assert re.findall(r'<a href="#check-\w+">(\w+)</a>', listed) == list(EXERCISES)


def test_deleted_and_skipped_checks_are_restored_without_free_marks(
    gradebook: Gradebook, classroom: Path
) -> None:
    assert scores(gradebook, "tampered") == none_but("softmax")
    graded = nbformat.read(
        classroom / "autograded" / "tampered" / CHAPTER / f"{CHAPTER}.ipynb", as_version=4
    )
    flags = graded.metadata.attend.flags
    assert "`check-attention_scores` was deleted; it was put back." in flags
    assert "`check-scaled_dot_product_attention` was tagged to be skipped; it was run." in flags
    assert all(flag in graded.cells[0].source for flag in flags)
    assert "was tagged to be skipped" in page(classroom, "tampered")
    assert "Graded from a restored copy" not in page(classroom, "solved")


def test_a_check_overwritten_gives_nothing(gradebook: Gradebook) -> None:
    assert scores(gradebook, "overwritten") == none_but()


def test_export_lists_every_student(gradebook: Gradebook, classroom: Path) -> None:
    with (classroom / "grades.csv").open() as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    assert rows.keys() == STUDENTS
    for student, row in rows.items():
        assert float(row["score"]) == sum(scores(gradebook, student).values())
        assert float(row["max_score"]) == TOTAL


@pytest.fixture(scope="module")
def lab(classroom: Path) -> Iterator[Lab]:
    """JupyterLab started in the class directory, as its README says, open in Chromium."""
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed: apt install chromium")
    with serve(classroom) as server, browse(server) as opened:
        opened.visit("lab?reset")  # a page of JupyterLab's own logs in; the formgrader's do not
        yield opened


@pytest.mark.browser
def test_formgrader_opens_from_the_menu_and_counts_the_submissions(lab: Lab) -> None:
    lab.visit("lab")
    lab.page.get_by_role("menuitem", name="Nbgrader").click(timeout=60_000)
    lab.page.get_by_role("menuitem", name="Formgrader", exact=True).click()
    frame = lab.page.frame_locator("iframe")
    row = frame.get_by_role("row").filter(has_text=CHAPTER)
    expect(row.locator("td.num-submissions")).to_have_text(str(len(STUDENTS)), timeout=30_000)
    lab.assert_quiet()


@pytest.mark.browser
def test_formgrader_shows_assignment_and_scores(lab: Lab) -> None:
    lab.visit("formgrader/manage_assignments")
    row = lab.page.get_by_role("row").filter(has_text=CHAPTER)
    expect(row.locator("td.num-submissions")).to_have_text(str(len(STUDENTS)), timeout=30_000)
    lab.screenshot("formgrader-assignments")
    lab.visit(f"formgrader/manage_submissions/{CHAPTER}")
    for student, score in (("solved", TOTAL), ("untouched", 0)):
        row = lab.page.get_by_role("row").filter(has_text=student)
        expect(row).to_contain_text(f"{score} / {TOTAL}", timeout=30_000)
    lab.screenshot("formgrader-submissions")
    lab.assert_quiet()


@pytest.mark.browser
def test_feedback_reads_well_in_a_browser(lab: Lab) -> None:
    lab.visit(f"files/feedback/wrong/{CHAPTER}/{CHAPTER}.html")
    card = lab.page.locator(".attend-card").nth(1)
    expect(card).to_contain_text(f"Looks like: {UNSCALED}.")
    lab.screenshot("feedback-card", card)
    lab.visit(f"files/feedback/tampered/{CHAPTER}/{CHAPTER}.html")
    expect(lab.page.get_by_text("Graded from a restored copy.")).to_be_visible()
    lab.screenshot("feedback-restored")
    lab.visit(f"files/feedback/hostile/{CHAPTER}/{CHAPTER}.html")
    answer = lab.page.get_by_role("region", name="Your answer: attention_scores")
    expect(answer).to_contain_text("<script>window.stolen = 1</script>")  # text, not a script
    expect(lab.page.get_by_text("My notes:")).to_have_count(0)  # answers only
    assert lab.page.evaluate("window.stolen") is None
    active = "[...document.links].filter(a => a.protocol === 'javascript:').length"
    assert lab.page.evaluate(active) == 0
    lab.problems.clear()  # nbgrader's feedback page loads MathJax from the network
    lab.external.clear()
