"""Grading a class: records, gradebook and what stands in the way, each said in one sentence."""

from __future__ import annotations

import resource
import shutil
import sqlite3
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attend_grader.gradebook import directory
from attend_grader.gradebook.directory import Course, CourseError
from attend_grader.gradebook.grade import Event, grade_assignment, planned, replay
from attend_grader.grading.record import Record, Store
from nbformat.v4 import new_code_cell

from . import toy_class
from .toy_class import CHAPTER, SCORES, SOFTMAX

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed"),
]


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class that has been graded with seed 1."""
    root = tmp_path_factory.mktemp("graded") / "class"
    grade_assignment(toy_class.make(root), CHAPTER, workers=1, seed=1)
    return root


@pytest.fixture
def course(graded: Path, tmp_path: Path) -> Course:
    """A copy of it."""
    root = tmp_path / "class"
    shutil.copytree(graded, root)
    config = root / "nbgrader_config.py"
    config.write_text(config.read_text().replace(str(graded), str(root)))
    return Course.open(root)


def again(course: Course, **how: object) -> tuple[list[Record], list[str]]:
    """Grade; the records, and whose were made now."""
    done: list[str] = []

    def show(event: Event) -> None:
        if event.kind == "done":
            done.append(event.student)

    records = grade_assignment(course, CHAPTER, workers=1, show=show, **how)  # type: ignore[arg-type]
    return records, sorted(done)


def score(course: Course, student: str) -> float:
    rows = toy_class.state(course)["grades"]
    return sum(row[2] for row in rows if row[0] == student)


def test_each_submission_has_one_whole_record_in_a_file_of_its_key(course: Course) -> None:
    records = list(Store(course.records / CHAPTER).all())
    assert [r.student for r in records] == sorted(toy_class.ANSWERS)
    for record in records:
        assert (course.records / CHAPTER / f"{record.key}.json").is_file()
        assert Record.from_json(record.to_json()) == record
        assert [v.name for v in record.verdicts] == [f"check-{n}" for n in toy_class.EXERCISES]
        assert record.seed == 1


def test_what_was_handed_in_is_not_kept_in_memory(course: Course) -> None:
    """Forty notebooks of 15 MB each took 754 MiB for as long as the class was graded."""
    large = "x = 1  # " + "x" * 8_000_000
    for student in toy_class.ANSWERS:
        submitted = toy_class.notebook()
        submitted.cells.append(new_code_cell(large))
        toy_class.hand_in(course.root, student, submitted)
    tracemalloc.start()
    try:
        plan = planned(course, CHAPTER)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(plan.jobs) == len(toy_class.ANSWERS)
    assert kept < 1_000_000 < 8_000_000 < peak < 40_000_000, "one at a time"


def test_nothing_changed_nothing_is_graded(course: Course) -> None:
    before = toy_class.state(course)
    records, done = again(course)
    assert (len(records), done) == (len(toy_class.ANSWERS), [])
    assert toy_class.state(course) == before


def test_only_what_changed_is_graded_and_replaces_the_old_score(course: Course) -> None:
    full = sum(map(toy_class.points, toy_class.EXERCISES))
    assert score(course, "dan") < full
    toy_class.hand_in(course.root, "dan", toy_class.notebook(SOFTMAX, SCORES))
    assert again(course)[1] == ["dan"]
    assert score(course, "dan") == full
    toy_class.hand_in(course.root, "dan", "no notebook")
    records, done = again(course)
    assert done == ["dan"]
    assert records[3].reason == "INVALID"
    assert score(course, "dan") == 0
    copy = course.autograded("dan", CHAPTER) / f"{CHAPTER}.ipynb"
    assert "**Nothing could be graded:** the file is not a notebook" in copy.read_text()


def test_students_force_and_seed_choose(course: Course) -> None:
    assert again(course, students=["ann"])[1] == []
    assert again(course, students=["ann"], force=True)[1] == ["ann"]
    records, done = again(course, students=["bob"], seed=2)
    assert (done, records[0].seed) == (["bob"], 2)
    assert again(course, students=["bob"], seed=2)[1] == []


def test_each_submission_has_a_seed_of_its_own(course: Course) -> None:
    for student in toy_class.ANSWERS:
        toy_class.hand_in(course.root, student, "changed")
    seeds = [job.record.seed for job in planned(course, CHAPTER).jobs]
    assert len(set(seeds)) == len(toy_class.ANSWERS)
    assert len({job.record.seed for job in planned(course, CHAPTER).jobs} | {*seeds}) > len(seeds)


def test_replay_makes_the_same_verdict_and_changes_nothing(course: Course) -> None:
    before = toy_class.state(course)
    old = next(r for r in Store(course.records / CHAPTER).all() if r.student == "bob")
    assert toy_class.lasting(replay(course, CHAPTER, "bob")) == toy_class.lasting(old)
    assert toy_class.state(course) == before
    toy_class.hand_in(course.root, "bob", toy_class.notebook(SOFTMAX, SCORES))
    with pytest.raises(CourseError, match="was not graded as it stands: run `attend grade"):
        replay(course, CHAPTER, "bob")


def test_a_gradebook_behind_its_records_is_brought_up_to_date(course: Course) -> None:
    before = toy_class.state(course)
    with course.gradebook() as gradebook:
        gradebook.remove_submission(CHAPTER, "ann")
    shutil.rmtree(course.autograded("bob", CHAPTER))
    assert again(course)[1] == []
    assert toy_class.state(course) == before


def test_a_damaged_record_is_made_again(course: Course) -> None:
    before = toy_class.state(course)
    path = next((course.records / CHAPTER).glob("*.json"))
    path.write_text(path.read_text()[:-9])
    assert len(again(course, seed=1)[1]) == 1
    assert toy_class.state(course) == before


def test_manual_scores_stay(course: Course) -> None:
    with course.gradebook() as gradebook:
        grade: Any = gradebook.find_grade("check-softmax", CHAPTER, CHAPTER, "eve")
        grade.manual_score = 5.0
        gradebook.db.commit()
    again(course, students=["eve"], force=True)
    with course.gradebook() as gradebook:
        grade: Any = gradebook.find_grade("check-softmax", CHAPTER, CHAPTER, "eve")
        assert (grade.manual_score, grade.score) == (5.0, 5.0)
        assert grade.needs_manual_grade, "a person looks again, as in nbgrader"


@contextmanager
def locked(course: Course) -> Iterator[None]:
    with sqlite3.connect(course.root / "gradebook.db") as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
    other.close()


def test_a_locked_gradebook(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    before = toy_class.state(course)
    monkeypatch.setattr(directory, "LOCK_SECONDS", 0.2)
    with (
        locked(course),
        pytest.raises(CourseError, match=r"gradebook cannot be opened: .*database is locked"),
    ):
        again(course, force=True)
    assert again(course, force=True, seed=1)[1] == sorted(toy_class.ANSWERS)
    assert toy_class.state(course) == before


def test_a_gradebook_locked_while_grading(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    before = toy_class.state(course)
    monkeypatch.setattr(directory, "LOCK_SECONDS", 0.2)
    other = sqlite3.connect(course.root / "gradebook.db")

    def lock(event: Event) -> None:
        if event.kind == "done" and not other.in_transaction:
            other.execute("BEGIN EXCLUSIVE")

    with pytest.raises(CourseError, match="run the same command again to go on"):
        grade_assignment(course, CHAPTER, workers=1, seed=1, force=True, show=lock)
    other.close()
    again(course, seed=1)
    assert toy_class.state(course) == before


def test_a_gradebook_of_another_version(course: Course) -> None:
    with sqlite3.connect(course.root / "gradebook.db") as database:
        database.execute("UPDATE alembic_version SET version_num = 'older'")
    database.close()
    with pytest.raises(CourseError, match=r"another version of nbgrader \(older\): run `nbgrader"):
        again(course)


def test_two_graders_at_once(course: Course) -> None:
    holder = Store(course.records / CHAPTER)
    code = "import fcntl, sys\nf = open(sys.argv[1], 'w')\nfcntl.lockf(f, fcntl.LOCK_EX)\n"
    code += "print(1, flush=True)\nsys.stdin.read()"
    path = holder.directory / ".lock"
    with subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"1\n"
        with pytest.raises(CourseError, match="another `attend grade 03_attention` is at work"):
            again(course)
        other.communicate()
    assert again(course)[1] == []


def test_a_full_disk_loses_nothing(course: Course) -> None:
    """No file can grow beyond a few bytes: as on a full disk, every write fails half way."""
    before = toy_class.state(course)
    path = toy_class.hand_in(course.root, "ann", toy_class.notebook(SOFTMAX, SCORES))
    path.write_text(path.read_text() + "\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    record = next(iter(Store(course.records / CHAPTER).all()))
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            Store(course.records / CHAPTER).put(record)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert Store(course.records / CHAPTER).get(record.key) == record, "the old one is whole"
    assert again(course, seed=1)[1] == ["ann"]
    assert toy_class.state(course)["grades"] == before["grades"]


def test_a_place_that_is_no_course(tmp_path: Path) -> None:
    with pytest.raises(CourseError, match="is no course directory: it has no nbgrader_config"):
        Course.open(tmp_path)


@pytest.mark.parametrize(
    ("assignment", "students", "said"),
    [
        ("99_none", [], "there is no assignment '99_none'"),
        (CHAPTER, ["zoe", "ann"], "no submission of 03_attention by zoe."),
    ],
)
def test_what_is_not_there(course: Course, assignment: str, students: list[str], said: str) -> None:
    with pytest.raises(CourseError, match=said):
        grade_assignment(course, assignment, students=students)


def test_not_released(course: Course) -> None:
    shutil.rmtree(course.root / "release")
    (course.root / "source" / CHAPTER).mkdir(parents=True)
    with pytest.raises(CourseError, match=r"is not released yet, .*nbgrader generate_assignment"):
        again(course)
