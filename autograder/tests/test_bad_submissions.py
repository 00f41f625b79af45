"""The corpus of bad submissions: one class holds them all, graded in one batch."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from attend import chapter, classroom
from attend.build import release_notebook
from attend_grader.gradebook import scores
from attend_grader.gradebook.directory import Course
from attend_grader.gradebook.grade import grade_assignment
from attend_grader.grading.reach import reached
from attend_grader.grading.record import Record, Store
from attend_grader.sandbox import jail
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from .submissions import honest as honestly
from .submissions import table
from .submissions.case import CHAPTER, EXERCISES, FILE, TOTAL, Case, solved, write
from .submissions.table import CASES

pytestmark = pytest.mark.slow

THIN = (
    *(
        "1",
        "5",
        "6",
        "10b",
        "17",
        "19",
        "22",
        "27",
        "33",
        "34a",
        "37a",
        "38a",
        "40",
        "43",
        "47",
        "49",
    ),
    *(
        "51",
        "54",
        "55",
        "56",
        "57",
        "62",
        "89",
        "98",
        "99",
        "101",
        "102",
        "105",
        "106",
        "107",
        "108",
        "109",
        "110",
        "111",
        "112",
        "113",
        "114",
        "115",
        "116",
    ),
)
"""Graded in each run of the tests; all of them in the deep tier."""

NEEDED = ("55", "56")
"""Cases that tests beside those of the cases themselves look at."""

SAVED = {f"honest-{program}": program for program in honestly.PROGRAMS}
HONEST = ("honest-a", "honest-b", *SAVED)
CANARY = f"canary-{secrets.token_hex(8)}"
LIMITS = {
    "cell_seconds": 6.0,
    "check_seconds": 6.0,
    "submission_seconds": 25.0,
    "cpu_seconds": 30,
    "memory": 512 * 2**20,
    "all_memory": 1024 * 2**20,
    "processes": 24,
    "file_bytes": 8 * 2**20,
    "tmp_bytes": 24 * 2**20,
}


def snapshot(root: Path) -> dict[str, object]:
    """Everything under ``root``: a file's bytes, where a link points, what else there is."""

    def what(path: Path) -> object:
        if path.is_symlink():
            return "link", os.readlink(path)
        if path.is_file():
            return path.read_bytes(), path.stat().st_mode
        return path.stat().st_mode

    found = (Path(place) / name for place, dirs, files in os.walk(root) for name in dirs + files)
    return {str(path.relative_to(root)): what(path) for path in found}


def running(words: str) -> list[int]:
    """Processes whose command lines hold ``words``."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            text = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it ended just now
            continue
        if words in text:
            found.append(int(path.name))
    return found


@dataclass(frozen=True)
class Batch:
    """A class graded twice: the honest and a first version of case 56, then everybody."""

    course: Course
    cases: list[Case]
    first: dict[str, Record]
    records: list[Record]
    before: dict[str, object]
    after: dict[str, object]
    files: Path  # temporary files of the graders, by which their jails are known

    def of(self, student: str) -> Record:
        """The one record of a student."""
        (record,) = [r for r in self.records if r.student == student]
        return record


def hand_in(root: Path, student: str) -> Path:
    """A student's folder, made anew."""
    folder = root / "submitted" / student / CHAPTER
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def make_class(root: Path) -> NotebookNode:
    """A course directory with chapter 03 released; the released notebook."""
    classroom.init(root, [CHAPTER], None)
    with (root / "nbgrader_config.py").open("a") as file:
        file.write(f"c.RunChecks.limits = {LIMITS!r}\n")
    nbgrader(root, "generate_assignment")
    return nbformat.read(root / "release" / CHAPTER / FILE, as_version=4)


def nbgrader(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one of nbgrader's commands in the course directory, without a user's settings."""
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")
    return subprocess.run(
        [Path(sysconfig.get_path("scripts"), "nbgrader"), *arguments, CHAPTER],
        cwd=root,
        env={**os.environ, **{name: str(root.parent / "home" / name) for name in names}},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def honest(root: Path, release: NotebookNode) -> None:
    """Hand in right submissions: two, one of which holds the canary; and as others save them."""
    for student, program in SAVED.items():
        honestly.hand_in(hand_in(root, student), solved(release), program)
    for student in ("honest-a", "honest-b"):
        notebook = solved(release)
        notebook.cells.append(new_code_cell(f"# {CANARY if student == 'honest-b' else student}"))
        write(hand_in(root, student), notebook)


@pytest.fixture(scope="module")
def batch(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Batch:
    mine = [item for item in request.session.items if "test_bad_submissions" in item.nodeid]
    called = [s.params for item in mine if (s := getattr(item, "callspec", None)) is not None]
    chosen = {params["case"].number for params in called if "case" in params}
    cases = [c for c in CASES.values() if c.number in ({*chosen, *NEEDED} if chosen else THIN)]
    if not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    root = tmp_path_factory.mktemp("corpus") / "class"
    release = make_class(root)
    honest(root, release)
    write(hand_in(root, CASES["56"].student), solved(release))
    course = Course.open(root)
    files = tmp_path_factory.mktemp("temporary")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(files))
        first = {r.student: r for r in grade_assignment(course, CHAPTER, workers=1)}
        for case in cases:
            case.make(hand_in(root, case.student), solved(release), release)
        before = snapshot(root.parent)
        records = grade_assignment(course, CHAPTER, workers=3)  # some only wait for a limit
    return Batch(course, cases, first, records, before, snapshot(root.parent), files)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            marks=() if case.number in THIN else (pytest.mark.deep,),
            id=f"{case.number}-{case.does}",
        )
        for case in CASES.values()
    ],
)
def test_one_record_with_its_reasons(batch: Batch, case: Case) -> None:
    record = batch.of(case.student)
    got = {v.name.removeprefix("check-"): (v.reason, v.score) for v in record.verdicts}
    assert got == {name: (case.reason(name), case.score(name)) for name in EXERCISES}, [
        str(v.report) for v in record.verdicts if v.reason != "PASSED"
    ]
    assert record.score == sum(map(case.score, EXERCISES))
    assert record.points == TOTAL
    assert len(record.flags) == len(case.flags), record.flags
    assert all(words in flag for words, flag in zip(case.flags, record.flags, strict=True)), (
        record.flags
    )
    assert case.problem in record.problem
    assert bool(case.problem) == bool(record.problem), record.problem
    if case.says:
        (first, *_) = case.reasons
        report = next(v.report for v in record.verdicts if v.name == f"check-{first}")
        assert case.says in str(report)


def test_everybody_has_one_record(batch: Batch) -> None:
    students = sorted([*HONEST, *(case.student for case in batch.cases)])
    assert [record.student for record in batch.records] == students
    kept = Store(batch.course.records / CHAPTER)
    assert {r.key for r in batch.records} <= {r.key for r in kept.all()}


def test_honest_submissions_have_full_marks_and_no_flags(batch: Batch) -> None:
    for student in HONEST:
        record = batch.of(student)
        assert (record.reason, record.score, record.flags) == ("PASSED", TOTAL, ())


def test_the_gradebook_holds_the_records_scores(batch: Batch) -> None:
    with batch.course.gradebook() as gradebook:
        held = scores.held(gradebook, CHAPTER)
    assert {who: score for who, (score, _) in held.items()} == {
        (r.student, CHAPTER): r.score for r in batch.records
    }


def test_no_old_score_survives(batch: Batch) -> None:
    student = CASES["56"].student
    assert batch.first[student].score == TOTAL
    assert batch.of(student).score < TOTAL


def test_submissions_are_not_touched_and_nothing_else_is_written(batch: Batch) -> None:
    ours = ("class/autograded", "class/.attend", "class/gradebook.db")
    written = {n for n in batch.after if batch.before.get(n) != batch.after[n]}
    assert {name for name in written if not name.startswith(ours)} == set()
    assert batch.before.keys() <= batch.after.keys()


def test_no_secret_of_another_is_in_a_record_or_a_graded_copy(batch: Batch) -> None:
    held = [name for name, what in batch.after.items() if CANARY.encode() in repr(what).encode()]
    honest_b = [f"class/{step}/honest-b/{CHAPTER}/{FILE}" for step in ("autograded", "submitted")]
    assert sorted(held) == honest_b


def test_nothing_is_left_running(batch: Batch) -> None:
    assert batch.records
    assert running("sleep 98765") == []
    assert list(jail.running(batch.files)) == []  # other tests kill graders and leave theirs


def test_no_script_is_alive_in_a_graded_copy(batch: Batch) -> None:
    path = batch.course.autograded(CASES["55"].student, CHAPTER) / FILE
    notebook = nbformat.read(path, as_version=4)
    shown = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    shown += [str(cell.get("outputs", "")) for cell in notebook.cells]
    assert any("window.stolen" in text for text in shown)
    assert not any("<script" in text or "<img src=x" in text for text in shown)


@pytest.mark.deep
def test_plain_nbgrader_autograde_gives_the_same_scores(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    if not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    root = tmp_path_factory.mktemp("stock") / "class"
    release = make_class(root)
    honest(root, release)
    chosen = [case for case in CASES.values() if case.stock]
    for case in chosen:
        if case.problem or case.number == "56":  # no score of a good version may survive
            write(hand_in(root, case.student), solved(release))
    said = nbgrader(root, "autograde").stdout
    for case in chosen:
        case.make(hand_in(root, case.student), solved(release), release)
    said += nbgrader(root, "autograde", "--force").stdout
    course = Course.open(root)
    with course.gradebook() as gradebook:
        held = scores.held(gradebook, CHAPTER)
    expected = {case.student: sum(map(case.score, EXERCISES)) for case in chosen}
    expected |= dict.fromkeys(HONEST, TOTAL)
    found = {student: score for (student, _), (score, _) in held.items()}
    assert found == expected, said[-4000:]


def test_the_manuals_table_is_up_to_date() -> None:
    assert table.main(check=True) == 0, "python -m autograder.tests.submissions.table"


def test_the_56_every_grader_should_know_are_there() -> None:
    known = {int(number.rstrip("abcd")) for number in CASES}
    assert set(range(1, 57)) <= known
    assert len(known) >= 56 + 15


def test_released_chapters_reach_for_nothing() -> None:
    for chapter_id in chapter.chapter_ids():
        assert reached(release_notebook(chapter_id)) == [], chapter_id
