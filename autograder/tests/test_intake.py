"""Archives of Moodle and Canvas, and lists of students, into a course directory."""

from __future__ import annotations

import io
import shutil
import stat
import zipfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
import pytest
from attend_grader.gradebook import intake, roster
from attend_grader.gradebook.database import CourseError
from attend_grader.gradebook.directory import Course
from attend_grader.gradebook.grade import planned

from . import toy_class
from .command import attend
from .toy_class import CHAPTER, SCORES, SOFTMAX

RIGHT = nbformat.writes(toy_class.notebook(SOFTMAX, SCORES)).encode()
OTHER = nbformat.writes(toy_class.notebook("", SCORES)).encode()
FILE = f"{CHAPTER}.ipynb"
EARLY, LATER = (2030, 1, 2, 10, 0, 0), (2030, 1, 3, 10, 0, 0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class with a release, a list of three, and nothing handed in."""
    made = toy_class.make(tmp_path_factory.mktemp("made") / "class")
    shutil.rmtree(made.root / "submitted")
    with made.gradebook() as gradebook:
        for who, first, last, number in (
            ("al1", "Ann", "Lee", "12"),
            ("bn2", "Bob", "Núñez", "13"),
            ("cx3", "Cleo", "X", "14"),
        ):
            facts: Any = {"first_name": first, "last_name": last, "lms_user_id": number}
            gradebook.add_student(who, **facts)
    return made.root


@pytest.fixture
def course(made: Path, tmp_path: Path) -> Course:
    """A copy of it."""
    root = tmp_path / "class"
    shutil.copytree(made, root)
    config = root / "nbgrader_config.py"
    config.write_text(config.read_text().replace(str(made), str(root)))
    return Course.open(root)


def packed(path: Path, files: Mapping[str, bytes | tuple[bytes, tuple[int, ...]]]) -> Path:
    """An archive of these files; each may have a date."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            data, date = content if isinstance(content, tuple) else (content, EARLY)
            info = zipfile.ZipInfo(name, date)  # type: ignore[arg-type]  # six numbers
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return path


def moodle(name: str, file: str = FILE, number: int = 77) -> str:
    return f"{name}_{number}_assignsubmission_file_/{file}"


def handed_in(course: Course) -> dict[str, bytes]:
    """Student → notebook."""
    return {path.parts[-3]: path.read_bytes() for path in course.root.glob("submitted/*/*/*.ipynb")}


def test_moodles_folders_go_to_the_ids_of_the_list(course: Course, tmp_path: Path) -> None:
    files = {moodle("Ann Lee"): RIGHT, moodle("Bob Núñez", number=78): OTHER}
    done = intake.collect(course, CHAPTER, packed(tmp_path / "m.zip", files))
    assert handed_in(course) == {"al1": RIGHT, "bn2": OTHER}
    assert (done.new, done.refused, done.not_known) == (["al1", "bn2"], {}, [])


def test_moodles_flat_form_and_a_folder_around_it(course: Course, tmp_path: Path) -> None:
    files = {f"all/Ann Lee_77_assignsubmission_file_{FILE}": RIGHT}
    files[f"all/Bob Núñez_78_assignsubmission_file/{FILE}"] = OTHER
    intake.collect(course, CHAPTER, packed(tmp_path / "m.zip", files))
    assert handed_in(course) == {"al1": RIGHT, "bn2": OTHER}


def test_canvas_numbers_its_users_and_marks_who_is_late(course: Course, tmp_path: Path) -> None:
    files = {f"leeann_12_900_{FILE}": RIGHT, f"nunezbob_late_13_901_{CHAPTER}-2.ipynb": OTHER}
    files |= {f"xcleo_LATE_14_902_{FILE}": RIGHT}
    done = intake.collect(course, CHAPTER, packed(tmp_path / "c.zip", files))
    assert handed_in(course) == {"al1": RIGHT, "bn2": OTHER, "cx3": RIGHT}
    assert list(done.notes) == ["bn2", "cx3"]
    flags = {job.record.student: job.record.flags for job in planned(course, CHAPTER).jobs}
    assert flags["al1"] == ()
    assert "late by Canvas" in flags["bn2"][0]


def test_a_note_is_of_one_version(course: Course, tmp_path: Path) -> None:
    intake.collect(
        course, CHAPTER, packed(tmp_path / "c.zip", {f"leeann_late_12_900_{FILE}": RIGHT})
    )
    toy_class.hand_in(course.root, "al1", toy_class.notebook("", ""))
    assert [job.record.flags for job in planned(course, CHAPTER).jobs] == [()]


@pytest.mark.parametrize("name", ["O'Brien, Zoë", "李 小龙", "\u202eevil", "..", ".hidden"])
def test_odd_names_are_kept_as_far_as_a_folder_can_have_them(
    course: Course, tmp_path: Path, name: str
) -> None:
    done = intake.collect(course, CHAPTER, packed(tmp_path / "m.zip", {moodle(name): RIGHT}))
    (student,) = done.not_known
    assert list(handed_in(course)) == [student]
    kept = {"\u202eevil": "evil", "..": "moodle-77", ".hidden": "hidden"}
    assert student == kept.get(name, name)


def test_two_of_one_name_are_told_apart_or_refused(course: Course, tmp_path: Path) -> None:
    two = {moodle("Zed Q", number=1): RIGHT, moodle("Zed Q", number=2): OTHER}
    intake.collect(course, CHAPTER, packed(tmp_path / "m.zip", two))
    assert handed_in(course) == {"Zed Q": RIGHT, "Zed Q 2": OTHER}
    with course.gradebook() as gradebook:
        facts: Any = {"first_name": "Ann", "last_name": "Lee"}
        gradebook.add_student("al9", **facts)
    done = intake.collect(course, CHAPTER, packed(tmp_path / "n.zip", {moodle("Ann Lee"): RIGHT}))
    assert "al1 or al9" in done.refused["Ann Lee (77)"]
    assert "al1" not in handed_in(course)


def test_a_lone_notebook_of_another_name_is_taken_with_a_flag(
    course: Course, tmp_path: Path
) -> None:
    files = {moodle("Ann Lee", "final (2).ipynb"): RIGHT, moodle("Ann Lee", "plot.png"): b"x"}
    intake.collect(course, CHAPTER, packed(tmp_path / "m.zip", files))
    assert handed_in(course) == {"al1": RIGHT}
    (job,) = planned(course, CHAPTER).jobs
    assert job.record.flags == (f"Handed in as “final (2).ipynb”; taken as {FILE}.",)


def test_several_notebooks_of_other_names_are_nobodys_guess(course: Course, tmp_path: Path) -> None:
    files = {moodle("Ann Lee", "a.ipynb"): RIGHT, moodle("Ann Lee", "b.ipynb"): OTHER}
    done = intake.collect(course, CHAPTER, packed(tmp_path / "m.zip", files))
    assert "a.ipynb, b.ipynb, none of them called" in done.refused["Ann Lee (77)"]


def test_of_several_versions_the_newest_is_taken_and_that_is_said(
    course: Course, tmp_path: Path
) -> None:
    files = {
        f"leeann_12_900_{FILE}": (RIGHT, LATER),
        f"leeann_12_901_{CHAPTER}-1.ipynb": (OTHER, EARLY),
    }
    done = intake.collect(course, CHAPTER, packed(tmp_path / "c.zip", files))
    assert handed_in(course) == {"al1": RIGHT}
    assert "2 versions were in the archive" in done.notes["al1"][0]


def test_nothing_is_overwritten(course: Course, tmp_path: Path) -> None:
    def taken(content: bytes, date: tuple[int, ...]) -> intake.Collected:
        files = {moodle("Ann Lee"): (content, date)}
        return intake.collect(course, CHAPTER, packed(tmp_path / "m.zip", files))

    assert taken(RIGHT, EARLY).new == ["al1"]
    assert taken(RIGHT, EARLY).unchanged == ["al1"]
    older = taken(OTHER, (2030, 1, 1, 0, 0, 0))
    assert (older.unchanged, handed_in(course)) == (["al1"], {"al1": RIGHT})
    assert "stays" in older.notes["al1"][0]
    assert taken(OTHER, LATER).newer == ["al1"]
    assert handed_in(course) == {"al1": OTHER}
    (aside,) = (course.root / ".attend" / "earlier").rglob("*.ipynb")
    assert aside.read_bytes() == RIGHT


def test_dates_become_times_of_handing_in_only_where_asked_for(
    course: Course, tmp_path: Path
) -> None:
    path = packed(tmp_path / "m.zip", {moodle("Ann Lee"): (RIGHT, EARLY)})
    intake.collect(course, CHAPTER, path)
    stamp = course.submitted("al1", CHAPTER) / "timestamp.txt"
    assert not stamp.exists()
    stamp.with_name(FILE).unlink()
    intake.collect(course, CHAPTER, path, dated=True)
    said = datetime.fromisoformat(stamp.read_text().replace(" UTC", "+00:00"))
    assert said == datetime(*EARLY).astimezone()  # type: ignore[arg-type]  # six numbers


BAD = {
    "../../../escaped.ipynb": "leads out of its folder",
    "C:\\windows\\a.ipynb": "absolute path",
    "deep\\..\\a.ipynb": "absolute path",
}


@pytest.mark.parametrize(("file", "why"), BAD.items())
def test_paths_that_lead_elsewhere_are_refused_and_the_student_named(
    course: Course, tmp_path: Path, file: str, why: str
) -> None:
    files = {moodle("Ann Lee", file): RIGHT, moodle("Bob Núñez", number=78): OTHER}
    done = intake.collect(course, CHAPTER, packed(tmp_path / "m.zip", files))
    assert handed_in(course) == {"bn2": OTHER}
    assert why in done.refused["al1"]
    assert not list(tmp_path.rglob("escaped*"))


@pytest.mark.parametrize("front", ["/", "../", "../../", "/etc/../"])
def test_so_is_a_path_that_is_absolute_from_its_beginning(
    course: Course, tmp_path: Path, front: str
) -> None:
    files = {front + moodle("Zed No"): RIGHT, moodle("Bob Núñez", number=78): OTHER}
    done = intake.collect(course, CHAPTER, packed(tmp_path / "m.zip", files))
    assert handed_in(course) == {"bn2": OTHER}
    assert len(done.refused) == 1
    assert done.not_known == [], "nothing is listed by a name whose file was refused"


def test_links_bombs_and_damage_are_refused_and_the_students_named(
    course: Course, tmp_path: Path
) -> None:
    path = tmp_path / "m.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        link = zipfile.ZipInfo(moodle("Ann Lee"))
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr(moodle("Bob Núñez", number=78), bytes(16 * 2**20))
        archive.writestr(moodle("Big", number=79), bytes(40 * 2**20))
        archive.writestr(moodle("Cleo X", number=80), RIGHT, zipfile.ZIP_STORED)
        archive.writestr(moodle("Honest", number=81), OTHER)
    data = path.read_bytes()
    path.write_bytes(data.replace(RIGHT[:40], b"?" * 40, 1))
    done = intake.collect(course, CHAPTER, path)
    assert handed_in(course) == {"Honest": OTHER}
    words = {"al1": "is a link", "bn2": "times its size", "Big": "32 are allowed"}
    words["cx3"] = "damaged"
    assert done.refused.keys() == words.keys()
    assert all(said in done.refused[who] for who, said in words.items()), done.refused


def test_an_archive_within_the_archive_is_named(course: Course, tmp_path: Path) -> None:
    files = {moodle("Ann Lee", "work.zip"): b"PK", moodle("Bob Núñez", number=78): OTHER}
    done = intake.collect(course, CHAPTER, packed(tmp_path / "m.zip", files))
    assert done.refused == {"Ann Lee (77)": "handed in no notebook, but work.zip"}


def test_a_students_folder_that_is_a_link_is_not_followed(course: Course, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (course.root / "submitted").mkdir(exist_ok=True)
    (course.root / "submitted" / "al1").symlink_to(elsewhere)
    done = intake.collect(course, CHAPTER, packed(tmp_path / "m.zip", {moodle("Ann Lee"): RIGHT}))
    assert "is a link" in done.refused["al1"]
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"PK\3\4 no archive", b"x" * 100])
def test_what_is_no_archive_is_one_sentence(course: Course, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.zip"
    path.write_bytes(content)
    with pytest.raises(CourseError, match="cannot be read as a zip archive"):
        intake.collect(course, CHAPTER, path)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("notes.txt", "hello")
    path.write_bytes(buffer.getvalue())
    with pytest.raises(CourseError, match="not an archive of submissions"):
        intake.collect(course, CHAPTER, path)


def test_the_command_names_everybody_and_says_so_with_its_exit_code(
    course: Course, tmp_path: Path
) -> None:
    files = {moodle("Ann Lee"): RIGHT, moodle("New Here", number=2): OTHER, "readme.txt": b"x"}
    path = packed(tmp_path / "m.zip", files)
    said = attend("collect", CHAPTER, "--zip", path, "--course", course.root)
    assert said.code == 3
    assert "2 students new, 0 with a newer version, 0 unchanged, 1 refused." in said.out
    assert "Not in the gradebook, so listed by name: New Here." in said.out
    assert said.err == "Refused: readme.txt: its name does not say whose it is.\n"


LISTS = {
    "nbgrader": "id,first_name,last_name,email\nal1,Anna,Lee,a@x.org\nnew,Ned,W,\n",
    "canvas": (
        "Student,ID,SIS User ID,SIS Login ID,Section,HW (1)\n"
        "    Points Possible,,,,,40\n"
        '"Lee, Anna",12,,al1,A,3\n"W, Ned",99,,new,A,\n"Student, Test",,,,A,\n'
    ),
    "moodle": (
        "\ufeffFirst name;Surname;ID number;Email address\nAnna;Lee;al1;a@x.org\nNed;W;new;\n"
    ),
}


@pytest.mark.parametrize("system", LISTS)
def test_a_list_is_entered_and_entering_it_again_changes_nothing(
    course: Course, tmp_path: Path, system: str
) -> None:
    path = tmp_path / "list.csv"
    path.write_text(LISTS[system], encoding="utf-8")
    with course.gradebook() as gradebook:
        done = roster.enter(gradebook, roster.read(path))
        assert (done.new, done.changed, done.left_out) == (["new"], ["al1"], [])
        ann: Any = gradebook.find_student("al1")
        assert (ann.first_name, ann.last_name, ann.lms_user_id) == ("Anna", "Lee", "12")
        ned: Any = gradebook.find_student("new")
        assert (ned.first_name, ned.last_name) == ("Ned", "W")
        assert ned.lms_user_id == ("99" if system == "canvas" else None)
        again = roster.enter(gradebook, roster.read(path))
        assert (again.new, again.changed, again.unchanged) == ([], [], ["al1", "new"])


def test_lines_that_name_nobody_are_left_out_and_named(course: Course, tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    path.write_text("id,last_name\nal1,Lee\nal1,Other\n,Nobody\n../x,Climber\n.dot,D\n\n")
    said = attend("roster", path, "--course", course.root)
    assert said.code == 3
    assert "0 students new, 0 changed, 1 unchanged." in said.out
    assert said.err.splitlines() == [
        "Left out: line 3: al1 is there twice; the first line counts.",
        "Left out: line 4: Nobody has no id.",
        "Left out: line 5: the id ../x cannot be a folder's name.",
        "Left out: line 6: the id .dot cannot be a folder's name.",
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"name,points\nAnn,3\n", "no column of ids"),
        (b"id,name\n\xff\xfe,x\n", "not text in UTF-8"),
        (b'id,last_name\n"al1,Lee\n', "cannot be read as CSV"),
        (b"", "no column of ids"),
    ],
)
def test_what_is_no_list_is_one_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "list.csv"
    path.write_bytes(content)
    with pytest.raises(CourseError, match=words):
        roster.read(path)


def test_who_was_graded_before_gets_a_name(course: Course, tmp_path: Path) -> None:
    with course.gradebook() as gradebook:
        facts: Any = {"last_name": "dd4", "first_name": ""}
        gradebook.add_student("dd4", **facts)  # as grading does
        path = tmp_path / "list.csv"
        path.write_text("username,name\ndd4,Dee Dee\n")
        roster.enter(gradebook, roster.read(path))
        dee: Any = gradebook.find_student("dd4")
        assert (dee.first_name, dee.last_name) == ("Dee", "Dee")
