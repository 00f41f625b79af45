"""`attend grade` at the command line: exit codes, what it says, and what stands in its way."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from attend.curriculum import ROOT
from attend_grader.gradebook import directory
from attend_grader.grading import processes
from attend_grader.grading.record import Record, Store
from attend_grader.judging import version

from . import toy_class
from .command import (
    BROKEN,
    MISNAMED,
    MISSING,
    PROBLEMS,
    STUDENTS,
    Class,
    attend,
    configure,
    date,
    grade,
    graded,
    here,
    refused,
    root,
    state,
)
from .toy_class import CHAPTER, SCORES, SOFTMAX

__all__ = ["graded", "here", "root"]  # fixtures
pytestmark = pytest.mark.slow
FULL = f"{sum(map(toy_class.points, toy_class.EXERCISES)):g}"


class TestWhatIsSaid:
    def test_each_submission_has_a_line_and_a_reason(self, graded: Class) -> None:
        assert graded.said.code == 3, "some could not be graded at all"
        assert graded.said.err == ""
        lines = graded.said.out.splitlines()
        for student, problem in PROBLEMS.items():
            assert f"INVALID     {student}: {problem}" in lines
        seen = {words[1]: (words[0], words[2]) for words in map(str.split, lines) if "/" in words}
        assert seen["ann"] == ("PASSED", FULL)
        assert seen["eve"] == ("NOT_STARTED", "0")
        assert seen["dan"][0] == "CRASH"
        last = r"9 graded in [\d.]+ s, 0 unchanged, 0 flagged\. "
        assert re.fullmatch(last + r"3 could not be graded: see INVALID above\.", lines[-1])

    def test_again_nothing_is_graded_and_problems_are_said_again(self, root: Path) -> None:
        before = state(root)
        said = grade(root)
        assert said.code == 3
        assert "0 graded in" in said.out
        assert f"{len(STUDENTS)} unchanged" in said.out
        assert all(problem in said.out for problem in PROBLEMS.values())
        assert state(root) == before

    def test_quiet_says_only_what_is_wrong(self, root: Path) -> None:
        said = grade(root, "--quiet")
        assert (said.code, said.out) == (3, "")
        assert said.err.splitlines() == [f"{who}: {why}" for who, why in PROBLEMS.items()]
        said = grade(root, "--quiet", "--force", "--students", "ann, bob")
        assert (said.code, said.out, said.err) == (0, "", "")

    def test_json_is_a_line_for_each_event_with_the_manuals_fields(self, root: Path) -> None:
        said = grade(root, "--json", "--force", "--seed", "3", "--students", f"ann,cleo,{BROKEN}")
        assert (said.code, said.err) == (3, "")
        *events, summary = map(json.loads, said.out.splitlines())
        assert [(e["event"], e["student"]) for e in events] == [
            (event, who) for event in ("waiting", "done") for who in ("ann", "cleo", BROKEN)
        ]
        done = {e["student"]: e for e in events if e["event"] == "done"}
        cleo = done["cleo"]
        assert cleo["seed"] == 3
        assert cleo["grader_version"] == version.of(CHAPTER)
        assert cleo["exercises"]["check-softmax"] == {"score": 8.0, "reason": "PASSED"}
        assert cleo["score"] == sum(e["score"] for e in cleo["exercises"].values())
        assert done[BROKEN]["problem"] == PROBLEMS[BROKEN]
        assert summary == {
            "event": "summary",
            "submissions": 3,
            "reasons": {"PASSED": 1, "PARTIAL": 1, "INVALID": 1},
        }
        manual = (ROOT / "autograder" / "README.md").read_text(encoding="utf-8")
        told = manual.split("`--json` prints", 1)[1].split("\n## ", 1)[0]
        assert [name for name in {**cleo, **summary} if f"`{name}`" not in told] == []

    def test_a_stopped_submission_tells_where_limits_are_weak(self, root: Path) -> None:
        loop = SOFTMAX.replace("    e =", "    while True: pass\n    e =", 1)
        toy_class.hand_in(root, "ann", toy_class.notebook(loop, SCORES))
        configure(root, "c.RunChecks.limits = {'check_seconds': 0.5}")
        said = grade(root, "--students", "ann")
        assert said.out.startswith("TIMEOUT     ann")
        assert said.out.splitlines()[-1].startswith("Limits are kept without cgroups")
        configure(root, "c.RunChecks.limits = {}")  # half a second is short on a busy machine
        assert "cgroups" not in grade(root, "--students", "bob", "--force").out

    def test_names_that_are_no_text_stop_nobody(self, root: Path) -> None:
        folder = root / "submitted" / MISSING / CHAPTER
        for name in (b"\xff\x1b[31m[red].ipynb", b"[bold]\n.zip"):
            Path(os.fsdecode(bytes(folder) + b"/" + name)).write_text("x")
        said = grade(root, "--students", MISSING)
        assert said.code == 3
        line = said.out.splitlines()[0]
        assert line.endswith("it holds [bold]‹U+000A›.zip, ‹U+DCFF›‹U+001B›[31m[red].ipynb")
        assert json.loads(grade(root, "--json", "--students", MISSING).out.splitlines()[0])
        Path(os.fsdecode(bytes(root) + b"/submitted/\xff/" + CHAPTER.encode())).mkdir(parents=True)
        (lost,) = (root / "submitted").glob(f"*[!a-z]/{CHAPTER}")
        shutil.copy(root / "submitted" / "ann" / CHAPTER / f"{CHAPTER}.ipynb", lost)
        said = grade(root)
        assert said.code == 3
        assert "Not graded, as no submission is looked for there: " in said.err
        assert f"submitted/‹U+DCFF›/{CHAPTER}/{CHAPTER}.ipynb. Move each to" in said.err

    def test_odd_names_are_graded_and_hidden_ones_are_named(self, root: Path) -> None:
        """As a learning platform exports them: a no-break space, a mark of direction."""
        handed = root / "submitted" / "ann"
        for name in ("Ann\u00a0Lee", "\u200fbob", ".cleo"):
            shutil.copytree(handed, handed.with_name(name))
        said = grade(root)
        assert said.code == 3, "there is .cleo, and others that cannot be graded"
        assert "PASSED      Ann Lee " in said.out
        assert "PASSED      ‹U+200F›bob " in said.out
        assert f"submitted/.cleo/{CHAPTER}/{CHAPTER}.ipynb. Move each to" in said.err
        told = [json.loads(line) for line in grade(root, "--json").out.splitlines()]
        assert {"Ann\u00a0Lee", "\u200fbob"} <= {event.get("student") for event in told}

    def test_a_folder_in_the_notebooks_place_costs_that_student_alone(self, root: Path) -> None:
        path = root / "submitted" / "ann" / CHAPTER / f"{CHAPTER}.ipynb"
        path.unlink()
        path.mkdir()
        said = grade(root)
        assert said.code == 3
        assert f"INVALID     ann: {CHAPTER}.ipynb is not a file" in said.out
        assert "PASSED      bob" not in said.err
        assert attend("report", CHAPTER, "--course", root).code == 0

    def test_there_are_as_many_workers_as_processors(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[int] = []

        def none(jobs: object, workers: int) -> Iterator[Record]:
            asked.append(workers)
            return iter(())

        monkeypatch.setattr(processes, "in_processes", none)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 5})
        grade(root, "--force")
        grade(root, "--force", "--workers", "7")
        assert asked == [3, 7]

    @pytest.mark.deep
    def test_what_may_not_be_read_costs_that_student_alone_and_all_are_named(
        self, root: Path
    ) -> None:
        """As who is not root, really: in a user namespace, without root's way past modes."""
        closed = ["ann", f"bob/{CHAPTER}", f"cleo/{CHAPTER}/{CHAPTER}.ipynb"]
        paths = [root / "submitted" / place for place in closed]
        toy_class.hand_in(root, "dan", toy_class.notebook(SOFTMAX, SCORES))
        before = {path: path.stat().st_mode for path in paths}
        for path in paths:
            path.chmod(0)
        try:
            said = [as_a_user(root, *words) for words in (("grade", "--workers", "1"), ("report",))]
        finally:
            for path in paths:
                path.chmod(before[path])
        graded, reported = said
        assert graded.returncode == 3, graded
        for student in ("ann", "bob", "cleo"):
            assert re.search(rf"INVALID +{student}: .*Permission denied", graded.stdout), graded
        assert re.search("PASSED +dan ", graded.stdout), graded
        assert reported.returncode == 0, reported
        assert "Traceback" not in graded.stderr + reported.stderr
        assert "Permission denied" in (root / "reports" / f"{CHAPTER}.html").read_text()
        assert self._earned(root, "ann") == 0
        grade(root)
        assert f"{self._earned(root, 'ann'):g}" == FULL, "with its folder open again"

    @staticmethod
    def _earned(root: Path, student: str) -> float:
        grades: list[list[float]] = state(root)["grades"]  # type: ignore[assignment]
        return sum(float(row[2]) for row in grades if row[0] == student)


def as_a_user(root: Path, command: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run one of the commands as a user who may read only what modes allow."""
    user = ("bwrap", "--dev-bind", "/", "/", "--unshare-user", "--uid", "1000", "--gid", "1000")
    attend = Path(sysconfig.get_path("scripts"), "attend")
    return subprocess.run(
        [*user, "--cap-drop", "ALL", attend, command, CHAPTER, "--course", root, *words],
        capture_output=True,
        text=True,
        check=False,
    )


class TestRun:
    def test_one_command_writes_grades_report_feedback_and_export(self, root: Path) -> None:
        toy_class.hand_in(root, "ann", toy_class.notebook(SOFTMAX, SCORES + "\n# again\n"))
        said = attend("run", CHAPTER, "--course", root, "--format", "moodle", "--workers", "1")
        assert said.code == 3, said  # some submissions cannot be graded
        assert "1 graded in" in said.out
        assert (root / "reports" / f"{CHAPTER}.html").is_file()
        assert (root / "exports" / f"{CHAPTER}-moodle.csv").is_file()
        pages = {path.parts[-3] for path in (root / "feedback").glob(f"*/{CHAPTER}/*.html")}
        assert pages == {*STUDENTS}

    def test_feedback_before_grading_says_what_to_do(self, root: Path) -> None:
        shutil.rmtree(root / "autograded")
        said = attend("feedback", CHAPTER, "--course", root)
        assert refused(said) == (
            f"nothing of {CHAPTER} is graded yet: run `attend grade {CHAPTER}`.\n"
        )


class TestReplay:
    def test_it_shows_the_verdict_with_its_inputs(self, root: Path) -> None:
        before = state(root)
        said = grade(root, "--replay", "cleo", "attention_scores")
        assert (said.code, said.err) == (0, "")
        first = f"cleo, {CHAPTER}, seed 1, grader version {version.of(CHAPTER)}\n"
        assert said.out.startswith(first)
        assert "Looks like: forgot 1/√D." in said.out
        assert "called with: " in said.out
        assert grade(root, "--replay", "cleo", "attention_scores") == said, "the same inputs"
        assert grade(root, "--replay", "cleo", "check-attention_scores") == said, "as flags call it"
        assert state(root) == before

    def test_what_could_not_be_graded_says_why(self, root: Path) -> None:
        said = grade(root, "--replay", MISNAMED, "softmax")
        assert said.code == 0
        assert PROBLEMS[MISNAMED] in said.out

    @pytest.mark.parametrize(
        ("student", "exercise", "code", "sentence"),
        [
            ("zoe", "softmax", 2, "no submission of 03_attention by zoe."),
            ("ann", "sofmax", 2, "03_attention has no exercise 'sofmax'; it has: softmax, "),
        ],
    )
    def test_what_is_not_there(
        self, root: Path, student: str, exercise: str, code: int, sentence: str
    ) -> None:
        assert sentence in refused(grade(root, "--replay", student, exercise), code)

    def test_a_new_version_is_graded_first(self, root: Path) -> None:
        toy_class.hand_in(root, "ann", toy_class.notebook("", ""))
        sentence = refused(grade(root, "--replay", "ann", "softmax"))
        assert f"run `attend grade {CHAPTER} --students ann` first" in sentence


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("words", "code", "sentence"),
        [
            (("--students", "zoe,ann"), 2, "no submission of 03_attention by zoe."),
            (("--students", " , "), 2, "--students: name at least one"),
            (("--workers", "0"), 2, "--workers: at least 1 is needed, got 0"),
            (("--seed", "-1"), 2, "--seed: 0 or more is needed, got -1"),
        ],
    )
    def test_a_request(self, root: Path, words: tuple[str, ...], code: int, sentence: str) -> None:
        assert sentence in refused(grade(root, *words), code)

    def test_a_directory_that_is_no_course(self, tmp_path: Path) -> None:
        for command in ("grade", "report", "export"):
            sentence = refused(attend(command, CHAPTER, "--course", tmp_path))
            assert f"{tmp_path} is no course directory: it has no nbgrader_config.py." in sentence
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("name", ["99_none", "03_attention/", "../class", "*"])
    def test_an_unknown_assignment(self, root: Path, name: str) -> None:
        for command in ("grade", "report", "export"):
            sentence = refused(attend(command, name, "--course", root), 2)
            assert f"there is no assignment {name!r}; this course has: {CHAPTER}." in sentence
        assert [path.name for path in (root / ".attend" / "records").iterdir()] == [CHAPTER]

    def test_nobody_handed_in(self, root: Path) -> None:
        shutil.rmtree(root / "submitted")
        sentence = refused(grade(root))
        place = root / "submitted" / "STUDENT" / CHAPTER / f"{CHAPTER}.ipynb"
        assert sentence == f"nobody has handed in {CHAPTER}: put submissions at {place}.\n"

    def test_a_damaged_release(self, root: Path) -> None:
        released = root / "release" / CHAPTER / f"{CHAPTER}.ipynb"
        released.write_text(released.read_text()[:-9])
        for words in (("grade", CHAPTER), ("report", CHAPTER), ("grade", CHAPTER, "--force")):
            sentence = refused(attend(*words, "--course", root))
            assert sentence.startswith(f"{released}, from which submissions are rebuilt, cannot be")
            assert "the file is not a notebook, or only a part of one. Run `nbgrader" in sentence

    def test_files_where_no_submission_is_looked_for(self, root: Path) -> None:
        submitted = root / "submitted"
        name = f"{CHAPTER}.ipynb"
        (submitted / CHAPTER / "zoe").mkdir(parents=True)
        (submitted / "yan" / "04_other").mkdir(parents=True)
        lost = [submitted / CHAPTER / "zoe" / name, submitted / "ann" / name]
        lost += [submitted / "yan" / "04_other" / name, submitted / name]
        for path in lost:
            path.write_text("{}")
        (submitted / "ann" / "other.ipynb").write_text("{}")
        for words in ((), ("--quiet",), ("--json",)):
            said = grade(root, *words)
            assert said.code == 3
            sentence = said.err.splitlines()[-1]
            assert sentence.startswith("Not graded, as no submission is looked for there: ")
            assert all(str(path) in sentence for path in sorted(lost)[:3])
            assert " and 1 more. Move each to " in sentence
            assert sentence.endswith(f"{submitted}/STUDENT/{CHAPTER}.")
        assert grade(root, "--students", "ann").err == "", "only these were asked for"
        (root / "source" / "04_other").mkdir(parents=True)
        assert str(lost[2]) not in grade(root, "--quiet").err, "it belongs to another assignment"
        for student in (*STUDENTS, CHAPTER):
            shutil.rmtree(submitted / student)
        assert f"There is {submitted / name}" in refused(grade(root))

    @pytest.mark.parametrize(
        ("line", "sentence"),
        [
            ("c.RunChecks.limits = {'minutes': 1}", "holds 'minutes'; limits are: cell_seconds,"),
            ("c.RunChecks.limits = {'memory': '2G'}", "memory should be a number above 0"),
            ("c.CourseDirectory.course_id = 7", "cannot be used: The 'course_id' trait"),
            ("1 / 0", "fails: ZeroDivisionError: division by zero"),
            ("c.AssignLatePenalties.plugin_class = 'none.Such'", "No module named 'none'"),
        ],
    )
    def test_settings(self, root: Path, line: str, sentence: str) -> None:
        configure(root, line)
        assert sentence in refused(grade(root))

    def test_another_run_at_work(self, root: Path) -> None:
        lock = Store(root / ".attend" / "records" / CHAPTER).directory / ".lock"
        code = "import fcntl, sys\nf = open(sys.argv[1], 'w')\nfcntl.lockf(f, fcntl.LOCK_EX)\n"
        code += "print(1, flush=True)\nsys.stdin.read()"
        with subprocess.Popen(
            [sys.executable, "-c", code, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == b"1\n"
            assert f"another `attend grade {CHAPTER}` is at work" in refused(grade(root))
            other.communicate()
        assert grade(root).code == 3

    def test_an_interrupt_says_that_nothing_is_lost(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupted(jobs: object, workers: int) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(processes, "in_processes", interrupted)
        sentence = refused(grade(root, "--force", "--quiet", "--students", "ann"), 130)
        assert sentence.startswith("interrupted. What is graded is kept")


class TestSandbox:
    @pytest.fixture
    def without_bwrap(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))

    def test_without_it_nothing_runs(self, root: Path, without_bwrap: None) -> None:
        for words in ((), ("--replay", "ann", "softmax")):
            sentence = refused(grade(root, *words))
            assert sentence.startswith("bubblewrap is missing")
            assert "apt install bubblewrap" in sentence

    def test_unsafe_goes_on_and_says_so_each_time(self, root: Path, without_bwrap: None) -> None:
        for words in (("--quiet", "--force"), ("--json",), ("--replay", "ann", "softmax")):
            only = () if words[0] == "--replay" else ("--students", "ann")
            said = grade(root, "--unsafe-no-sandbox", *words, *only)
            assert said.code == 0
            assert said.err.startswith("Submissions run without a sandbox, with your rights")
            assert said.err.count("\n") == 1


@pytest.fixture
def changed(root: Path) -> Path:
    """A class with one new version: full marks for eve."""
    toy_class.hand_in(root, "eve", toy_class.notebook(SOFTMAX, SCORES))
    return root


def completes(root: Path) -> None:
    """A second run brings everything up to date; a third finds nothing to do."""
    assert grade(root).code == 3
    after = state(root)
    grades: list[list[object]] = after["grades"]  # type: ignore[assignment]
    assert f"{sum(float(str(row[2])) for row in grades if row[0] == 'eve'):g}" == FULL
    assert "0 graded in" in grade(root).out
    assert state(root) == after


class TestGradebook:
    def test_locked(self, changed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(directory, "LOCK_SECONDS", 0.2)
        with sqlite3.connect(changed / "gradebook.db") as other:
            other.execute("BEGIN EXCLUSIVE")
            sentence = refused(grade(changed))
        other.close()
        assert sentence == "the gradebook cannot be opened: database is locked\n"
        completes(changed)

    def test_read_only(self, changed: Path) -> None:
        config = changed / "nbgrader_config.py"
        before = config.read_text()
        url = f"sqlite:///file:{changed}/gradebook.db?mode=ro&uri=true"
        configure(changed, f"c.CourseDirectory.db_url = {url!r}")
        said = grade(changed, "--quiet", "--students", "eve")
        assert refused(said).startswith(
            "the gradebook cannot be written: attempt to write a readonly database. What is "
            "graded is kept: run the same command again to go on."
        )
        config.write_text(before)
        assert "0 graded in" in grade(changed).out, "its record was kept"
        completes(changed)

    def test_of_another_version(self, changed: Path) -> None:
        with sqlite3.connect(changed / "gradebook.db") as database:
            ((version,),) = database.execute("SELECT version_num FROM alembic_version")
            database.execute("UPDATE alembic_version SET version_num = 'older'")
            database.commit()
            sentence = refused(grade(changed))
            assert "of another version of nbgrader (older): run `nbgrader db upgrade`" in sentence
            database.execute("UPDATE alembic_version SET version_num = ?", (version,))
        database.close()
        completes(changed)

    def test_not_a_gradebook(self, changed: Path) -> None:
        path = changed / "gradebook.db"
        kept = path.read_bytes()
        path.write_text("no database at all, but long enough to look at" * 99)
        assert refused(grade(changed)) == (
            "the gradebook cannot be opened: file is not a database\n"
        )
        path.write_bytes(kept)
        completes(changed)

    def test_an_assignment_it_does_not_know(self, root: Path) -> None:
        shutil.copytree(root / "release" / CHAPTER, root / "release" / "extra")
        shutil.copytree(root / "submitted" / "ann" / CHAPTER, root / "submitted" / "ann" / "extra")
        sentence = refused(attend("grade", "extra", "--course", root, "--quiet"))
        assert "the gradebook does not know extra: run `nbgrader generate_assignment" in sentence


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=1m", "attend-test", str(place)]
    if not shutil.which("mount") or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here: that needs root")
    yield place
    subprocess.run(["umount", place], check=True)


def fill(disk: Path) -> Path:
    """Leave no room; the file to remove to have some again."""
    path = disk / "full"
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    assert shutil.disk_usage(disk).free == 0
    return path


class TestFullDisk:
    def test_records(self, changed: Path, small_disk: Path) -> None:
        shutil.move(changed / ".attend", small_disk)
        (changed / ".attend").symlink_to(small_disk / ".attend")
        full = fill(small_disk)
        sentence = refused(grade(changed, "--quiet", "--students", "eve"))
        assert sentence.startswith("grading stopped: No space left on device (")
        assert sentence.endswith("run the same command again to go on.\n")
        full.unlink()
        completes(changed)

    def test_gradebook(self, changed: Path, small_disk: Path) -> None:
        shutil.move(changed / "gradebook.db", small_disk)
        url = f"sqlite:///{small_disk}/gradebook.db"
        configure(changed, f"c.CourseDirectory.db_url = {url!r}")
        full = fill(small_disk)
        sentence = refused(grade(changed, "--quiet", "--students", "eve"))
        assert sentence.startswith("the gradebook cannot be written: ")
        full.unlink()
        assert "0 graded in" in grade(changed).out, "its record was kept"
        completes(changed)

    def test_a_limit_on_files(self, changed: Path) -> None:
        """The same where nothing can be mounted: no file may grow beyond a few bytes."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        assert grade(changed, "--students", "ann", "--force").code == 0, "a jail is at hand"
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        try:
            said = grade(changed, "--quiet", "--students", "eve")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert refused(said).startswith("grading stopped: File too large (")
        completes(changed)

    def test_graded_copies(self, changed: Path, small_disk: Path) -> None:
        copies = changed / "autograded" / "eve"
        shutil.move(copies, small_disk)
        copies.symlink_to(small_disk / "eve")
        full = fill(small_disk)
        date(changed, "eve", "2030-01-01 00:00:00 UTC")
        sentence = refused(grade(changed, "--quiet", "--students", "eve"))
        assert sentence.startswith("grading stopped: No space left on device (")
        full.unlink()
        completes(changed)
