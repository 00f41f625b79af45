"""A gradebook on a real PostgreSQL server, started here: the same grades as in SQLite."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from attend import classroom
from attend_grader.gradebook.directory import Course, CourseError
from attend_grader.gradebook.grade import grade_assignment

from . import toy_class

BIN = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/nonexistent"))
pytestmark = [
    pytest.mark.deep,
    pytest.mark.slow,
    pytest.mark.skipif(not (BIN / "initdb").exists(), reason="postgresql is not installed"),
    pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed"),
]
pytest.importorskip("psycopg")


def as_nobody_special(*words: str | Path) -> None:
    """Run a server's command; PostgreSQL refuses to run as root."""
    user = ("runuser", "-u", "postgres", "--") if os.getuid() == 0 else ()
    subprocess.run([*user, *map(str, words)], cwd="/", check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of a fresh, empty database."""
    with tempfile.TemporaryDirectory(prefix="attend-pg-") as place:
        if os.getuid() == 0:
            os.chown(place, pwd.getpwnam("postgres").pw_uid, -1)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        data = Path(place, "data")
        as_nobody_special(BIN / "initdb", "-D", data, "-U", "attend", "--auth=trust", "-E", "UTF8")
        options = f"-p {port} -k {place} -c listen_addresses=127.0.0.1 -c fsync=off"
        control = (BIN / "pg_ctl", "-D", data, "-w")
        as_nobody_special(*control, "-l", Path(place, "log"), "-o", options, "start")
        try:
            yield f"postgresql+psycopg://attend@127.0.0.1:{port}/postgres"
        finally:
            as_nobody_special(*control, "-m", "immediate", "stop")


def test_the_same_grades_as_in_sqlite(server: str, tmp_path: Path) -> None:
    ours = toy_class.make(tmp_path / "sqlite")
    grade_assignment(ours, toy_class.CHAPTER, workers=1, seed=3)
    course = toy_class.make(tmp_path / "postgresql", server)
    records = grade_assignment(course, toy_class.CHAPTER, workers=1, seed=3)
    assert not (course.root / "gradebook.db").exists()
    expected, found = toy_class.state(ours), toy_class.state(course)
    assert found["grades"] == expected["grades"] != []
    assert found["records"] == expected["records"]
    again = grade_assignment(course, toy_class.CHAPTER, workers=1)
    assert [r.seconds for r in again] == [r.seconds for r in records], "nothing changed since"
    toy_class.hand_in(course.root, "eve", toy_class.notebook(toy_class.SOFTMAX, toy_class.SCORES))
    grade_assignment(course, toy_class.CHAPTER, workers=1)
    scores = [row[2] for row in toy_class.state(course)["grades"] if row[0] == "eve"]
    assert scores == [toy_class.points("attention_scores"), toy_class.points("softmax")]


def test_class_init_takes_its_url(server: str, tmp_path: Path) -> None:
    classroom.init(tmp_path / "class", [toy_class.CHAPTER], server)
    course = Course.open(tmp_path / "class")
    assert course.places.db_url == server
    with course.gradebook() as gradebook:
        assert gradebook.course_id == "class"


def test_a_server_that_does_not_answer_is_one_sentence(server: str, tmp_path: Path) -> None:
    course = toy_class.make(tmp_path / "class")
    elsewhere = server.replace("127.0.0.1", "127.0.0.2")
    with (course.root / "nbgrader_config.py").open("a") as config:
        config.write(f"\nc.CourseDirectory.db_url = {elsewhere!r}\n")
    with pytest.raises(CourseError, match=r"^the gradebook cannot be opened: .*refused"):
        Course.open(course.root).gradebook()
