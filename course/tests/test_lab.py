"""The learner's side: files copied and never overwritten, one clear sentence for each obstacle."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import nbformat
import pytest
from attend import build, curriculum, glossary, lab, readme, start, workspace
from attend.errors import AttendError
from attend_grader import progress as store
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

CHAPTER = "03_attention.ipynb"


def notebook(*sources: str, **metadata: object) -> bytes:
    cells = [new_code_cell(source, id=f"c{i}") for i, source in enumerate(sources)]
    return nbformat.writes(new_notebook(cells=cells, metadata=metadata)).encode()


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A clone with one chapter."""
    root = tmp_path / "clone"
    folder = root / "course" / "03_attention"
    folder.mkdir(parents=True)
    (folder / CHAPTER).write_bytes(notebook("first version"))
    return root


@pytest.fixture
def work(course: Path) -> Path:
    return course / "work"


def publish(course: Path, content: bytes) -> None:
    (course / "course" / "03_attention" / CHAPTER).write_bytes(content)


def files(work: Path) -> set[str]:
    return {path.name for path in work.iterdir()} - {".attend", glossary.NAME}


def test_first_start_copies_the_chapters_and_the_start_page(course: Path, work: Path):
    assert workspace.prepare(work, course) == [
        f"Copied {name}." for name in (CHAPTER, glossary.NAME, start.NAME)
    ]
    assert files(work) == {CHAPTER, start.NAME}
    assert (work / CHAPTER).read_bytes() == notebook("first version")
    assert (work / ".attend").is_dir()


def test_second_start_does_and_says_nothing(course: Path, work: Path):
    workspace.prepare(work, course)
    before = {name: (work / name).stat().st_mtime_ns for name in files(work)}
    assert workspace.prepare(work, course) == []
    assert {name: (work / name).stat().st_mtime_ns for name in files(work)} == before


def test_a_changed_file_stays_and_nothing_is_said_while_the_course_stays(course: Path, work: Path):
    workspace.prepare(work, course)
    (work / CHAPTER).write_bytes(notebook("mine"))
    assert workspace.prepare(work, course) == []
    assert (work / CHAPTER).read_bytes() == notebook("mine")


def test_an_untouched_file_follows_the_course(course: Path, work: Path):
    workspace.prepare(work, course)
    publish(course, notebook("second version"))
    said = workspace.prepare(work, course)
    assert said == [
        f"Updated {CHAPTER}: the course has a newer version, yours was unchanged.",
    ]
    assert (work / CHAPTER).read_bytes() == notebook("second version")


def test_opening_a_notebook_is_not_changing_it(course: Path, work: Path):
    workspace.prepare(work, course)
    (work / CHAPTER).write_bytes(notebook("first version", language_info={"name": "python"}))
    publish(course, notebook("second version"))
    assert len(workspace.prepare(work, course)) == 1
    assert (work / CHAPTER).read_bytes() == notebook("second version")


def test_outputs_are_work(course: Path, work: Path):
    workspace.prepare(work, course)
    ran = nbformat.reads((work / CHAPTER).read_text(), 4)
    ran.cells[0].outputs = [new_output("stream", text="took me an hour")]
    nbformat.write(ran, work / CHAPTER)
    publish(course, notebook("second version"))
    workspace.prepare(work, course)
    assert "took me an hour" in (work / CHAPTER).read_text()


def test_the_start_pages_progress_is_not_work(course: Path, work: Path):
    workspace.prepare(work, course)
    page = nbformat.reads((work / start.NAME).read_text(), 4)
    page.cells[-1].outputs = [new_output("stream", text="1 of 6")]
    nbformat.write(page, work / start.NAME)
    folder = course / "course" / "04_self_attention"
    folder.mkdir()
    (folder / "04_self_attention.ipynb").write_bytes(notebook("new chapter"))
    said = workspace.prepare(work, course)
    assert said[0] == "Copied 04_self_attention.ipynb."
    assert "(04_self_attention.ipynb)" in (work / start.NAME).read_text()
    assert files(work) == {CHAPTER, "04_self_attention.ipynb", start.NAME}


def test_the_start_page_shows_progress_without_a_word(
    course: Path, work: Path, monkeypatch: pytest.MonkeyPatch
):
    workspace.prepare(work, course)
    assert "Continue" not in (work / start.NAME).read_text()
    monkeypatch.chdir(work)
    store.record("03_attention/softmax", score=1, max_score=5)
    assert workspace.prepare(work, course) == []
    page = nbformat.reads((work / start.NAME).read_text(), 4)
    assert "**Continue with [03 · Scaled dot-product" in page.cells[1].source
    assert "▰▱▱▱▱\N{NO-BREAK SPACE}0\N{NO-BREAK SPACE}of\N{NO-BREAK SPACE}7" in page.cells[1].source

    page.cells[0].source = "my own words"
    nbformat.write(page, work / start.NAME)
    store.record("03_attention/softmax", score=5, max_score=5)
    (said,) = workspace.prepare(work, course)
    assert "yours has your work in it" in said
    assert "my own words" in (work / start.NAME).read_text()


def test_a_newer_version_is_put_beside_a_changed_file_once(course: Path, work: Path):
    workspace.prepare(work, course)
    (work / CHAPTER).write_bytes(notebook("mine"))
    publish(course, notebook("second version"))
    (said,) = workspace.prepare(work, course)
    beside = re.search(r"03_attention\.new-[0-9a-f]{8}\.ipynb", said)
    assert beside
    assert "yours has your work in it and is left alone" in said
    assert (work / CHAPTER).read_bytes() == notebook("mine")
    assert (work / beside.group()).read_bytes() == notebook("second version")

    assert workspace.prepare(work, course) == []
    (work / beside.group()).unlink()  # looked at, not wanted: it does not come back
    assert workspace.prepare(work, course) == []
    assert files(work) == {CHAPTER, start.NAME}

    publish(course, notebook("third version"))
    assert len(workspace.prepare(work, course)) == 1
    assert len(files(work)) == 3


def test_taking_up_the_newer_version_is_understood(course: Path, work: Path):
    workspace.prepare(work, course)
    (work / CHAPTER).write_bytes(notebook("mine"))
    publish(course, notebook("second version"))
    workspace.prepare(work, course)
    (beside,) = work.glob("*.new-*")
    os.replace(beside, work / CHAPTER)
    assert workspace.prepare(work, course) == []
    publish(course, notebook("third version"))
    assert workspace.prepare(work, course)[0].startswith(f"Updated {CHAPTER}")


def test_a_deleted_file_comes_back_fresh(course: Path, work: Path):
    workspace.prepare(work, course)
    (work / CHAPTER).write_bytes(notebook("a mess"))
    (work / CHAPTER).unlink()
    assert workspace.prepare(work, course) == [f"Copied {CHAPTER}."]


def test_a_file_of_that_name_that_was_there_before_is_theirs(course: Path, work: Path):
    work.mkdir()
    (work / CHAPTER).write_text("not even a notebook")
    said = workspace.prepare(work, course)
    assert "is left alone" in said[0]
    assert (work / CHAPTER).read_text() == "not even a notebook"


def test_a_damaged_record_is_set_aside_and_named_and_costs_no_file(course: Path, work: Path):
    workspace.prepare(work, course)
    (work / CHAPTER).write_bytes(notebook("mine"))
    (work / ".attend" / "copies.json").write_text("{oops")
    said = workspace.prepare(work, course)
    assert "is set aside as copies.damaged.json" in said[0]
    assert (work / ".attend" / "copies.damaged.json").read_text() == "{oops"
    assert (work / CHAPTER).read_bytes() == notebook("mine")


def test_no_chapters_is_one_sentence(tmp_path: Path):
    with pytest.raises(AttendError, match="attend lab works from a clone"):
        workspace.prepare(tmp_path / "work", tmp_path)


@contextmanager
def unprivileged() -> Iterator[None]:
    """As an ordinary user: root may write to read-only folders."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX permissions")
def test_a_read_only_work_folder_is_one_sentence(course: Path, work: Path):
    workspace.prepare(work, course)
    for folder in (course, *course.parents[:4]):
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o055)
    work.chmod(0o555)
    with unprivileged(), pytest.raises(AttendError, match=r"work cannot be written \(.*\), so"):
        workspace.prepare(work, course)


def test_work_being_a_file_is_one_sentence(course: Path, work: Path):
    work.write_text("")
    with pytest.raises(AttendError, match="work cannot be written"):
        workspace.prepare(work, course)


def test_the_start_page_is_the_same_bytes_every_time_and_valid():
    page = start.page(["03_attention"])
    assert page == start.page(["03_attention"])
    cells = nbformat.reads(page.decode(), 4).cells
    nbformat.validate(nbformat.reads(page.decode(), 4))
    assert "(03_attention.ipynb)" in cells[1].source
    assert "27 | Consequences" in cells[1].source


def test_each_notebook_begins_and_ends_with_the_way_around():
    ready = ["03_attention", "04_self_attention", "07_block"]
    first, middle, last = (start.way(one, ready) for one in ready)
    assert middle == (
        "[Start](start.ipynb) · [Glossary](glossary.ipynb) · "
        "← [03 Scaled dot-product attention](03_attention.ipynb) · "
        "[07 The block](07_block.ipynb) →"
    )
    assert "←" not in first
    assert "→" not in last
    for chapter in ("03_attention", "24_mamba"):
        path = curriculum.ROOT / "course" / chapter / f"{chapter}.ipynb"
        cells = nbformat.read(path, as_version=4).cells
        assert cells[1].source == cells[-1].source
        assert cells[1].source.startswith("[Start](start.ipynb) · [Glossary](glossary.ipynb) · ← [")


def test_a_notebook_says_how_to_get_the_course(capsys, monkeypatch: pytest.MonkeyPatch):
    first = build.release_notebook("03_attention").cells[0]
    assert first.metadata.jupyter.source_hidden
    exec(first.source, {})
    assert capsys.readouterr().out == ""
    monkeypatch.setitem(sys.modules, "attend", None)
    exec(first.source, {})
    assert (
        f'%pip install "attend-course @ git+https://github.com/{readme.repository()}"'
        in capsys.readouterr().out
    )


def test_a_taken_port_that_was_asked_for_is_one_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(AttendError, match=f"Port {port} cannot be used") as caught:
            lab.choose_port(port)
    assert caught.value.exit_code == 2


def test_a_taken_first_port_leads_to_the_next(monkeypatch: pytest.MonkeyPatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(lab, "FIRST_PORT", taken.getsockname()[1])
        assert lab.choose_port(None) > taken.getsockname()[1]


def test_the_token_is_not_on_the_command_line():
    assert not any("token" in word.lower() for word in lab.command(Path("work"), 8888))


def test_a_server_that_dies_is_one_sentence(tmp_path: Path):
    log = tmp_path / "jupyter.log"
    log.write_text("first line\nImportError: no module named x\n")
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    with pytest.raises(AttendError, match="did not start: ImportError: no module named x"):
        lab.wait_until_up(dead, 1, log)


@pytest.mark.parametrize("settings", [{}, {"BROWSER": "no-such-browser"}], ids=["none", "broken"])
@pytest.mark.skipif(sys.platform in {"darwin", "win32"}, reason="always has a display")
def test_without_a_browser_nothing_is_opened(
    settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert lab.open_browser("http://127.0.0.1:1/") is False


@contextmanager
def ending(process: subprocess.Popen[str]) -> Iterator[None]:
    """However the test ends, the server ends (asked first: its own child must end as well)."""
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="sends POSIX signals")
def test_attend_lab_serves_the_start_page_and_stops_cleanly(
    course: Path, work: Path, tmp_path: Path
):
    """The real server, as ``make lab`` starts it; only the clone's place is another."""
    program = (
        "from pathlib import Path; from attend import lab;"
        f"lab.main(None, True, Path({str(course)!r}))"
    )
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        environment.pop(name, None)
    with (
        subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment
        ) as process,
        ending(process),
    ):
        assert process.stdout
        said = ""
        while "Press Ctrl-C" not in said:
            line = process.stdout.readline()
            assert line, f"it ended early: {said}"
            said += line
        url = re.search(r"http://127\.0\.0\.1:\d+/lab/tree/start\.ipynb\?token=\w+", said)
        assert url, said
        assert "There is no browser to open here" in said
        with urllib.request.urlopen(url.group().replace("lab/tree", "api/contents")) as answer:
            assert json.load(answer)["name"] == start.NAME
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            urllib.request.urlopen(url.group().split("?")[0].replace("lab/tree", "api/contents"))
        refused.value.close()
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=30)
        assert "Your work is saved" in rest
        assert process.returncode == 0


def test_a_folder_of_that_name_is_left_alone(course: Path, work: Path):
    (work / CHAPTER).mkdir(parents=True)
    assert "is left alone" in workspace.prepare(work, course)[0]


def test_markdown_cells_are_work(course: Path, work: Path):
    workspace.prepare(work, course)
    mine = new_notebook(cells=[new_markdown_cell("my notes")])
    (work / CHAPTER).write_text(nbformat.writes(mine))
    publish(course, notebook("second version"))
    workspace.prepare(work, course)
    assert "my notes" in (work / CHAPTER).read_text()


def test_reset_keeps_the_learners_file_under_a_dated_name(course: Path, work: Path):
    workspace.prepare(work, course)
    (work / CHAPTER).write_bytes(notebook("my answer"))
    now = datetime(2026, 5, 4, 3, 2, 1)
    said = workspace.reset(work, "03", course, now)
    kept = "03_attention.2026-05-04-030201.ipynb"
    assert said == [f"Your notebook is kept as {kept}.", f"Copied {CHAPTER}."]
    assert (work / kept).read_bytes() == notebook("my answer")
    assert (work / CHAPTER).read_bytes() == notebook("first version")
    with pytest.raises(AttendError, match="there already"):
        workspace.reset(work, "03_attention", course, now)
    assert (work / CHAPTER).read_bytes() == notebook("first version")


def test_reset_of_an_unknown_chapter_names_those_there_are(course: Path, work: Path):
    with pytest.raises(AttendError, match=r"'4' yet\. Chapters so far: 03_attention"):
        workspace.reset(work, "4", course)
    assert not work.exists()


@pytest.mark.parametrize("name", ["3", "03", "03_attention", "03_attention.ipynb"])
def test_a_chapter_is_named_as_one_would(course: Path, name: str):
    assert workspace.ready_chapter(name, course).id == "03_attention"


def test_a_check_before_the_first_cell_gets_a_card(tmp_path: Path):
    cell = new_code_cell("check(softmax)")
    client = NotebookClient(new_notebook(cells=[cell]), allow_errors=True)
    with client.setup_kernel(env=lab.environment(tmp_path, "token")):
        client.execute_cell(cell, 0)
    card, error = cell.outputs
    assert "Run All Above Selected Cell" in card.data["text/html"]
    assert error.ename == "NameError"
