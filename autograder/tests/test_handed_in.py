"""Reading a file that a learner handed in: nothing in it is trusted to be small or well formed."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from attend_grader.grading import handed_in


def _file(cells: list[dict[str, Any]], **metadata: Any) -> bytes:
    form = {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}
    return json.dumps(form).encode()


def _cell(**metadata: Any) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "id": "one",
        "metadata": metadata,
        "source": "x = 1",
        "outputs": [],
        "execution_count": None,
    }


def test_of_a_submissions_metadata_only_what_is_read_is_kept() -> None:
    """Nearly two million objects there would take gigabytes of the grader's memory."""
    many = [{} for _ in range(900_000)]
    kernel = {"name": "python3", "display_name": "Python 3"}
    marks = {"grade_id": "softmax", "solution": True}
    content = _file([_cell(nbgrader=marks, tags=["a"], mine=many)], kernelspec=kernel, widgets=many)
    notebook = handed_in.submitted(content)
    assert notebook.metadata == {"kernelspec": kernel}
    assert notebook.cells[0].metadata == {"nbgrader": marks, "tags": ["a"]}
    hostile = _file([_cell(nbgrader={"grade_id": "softmax", "more": many})])
    with pytest.raises(ValueError, match="300,000 objects besides its outputs"):
        handed_in.submitted(hostile)


@pytest.mark.parametrize("said", [{"problem": "none of yours"}, 5, ["x"]])
def test_what_only_the_grader_says_is_not_taken_from_a_submission(said: Any) -> None:
    """Plain nbgrader gave 0 where a submission named a problem itself."""
    assert handed_in.submitted(_file([_cell()], attend=said)).metadata == {}


def test_format_3_is_limited_before_it_is_converted() -> None:
    """Converting 100,000 cells took 66 s."""
    cell = {"cell_type": "code", "input": "", "outputs": [], "language": "python"}
    form = {"nbformat": 3, "nbformat_minor": 0, "metadata": {}}
    sheets = [{"cells": [cell] * 3_000}, {"cells": [cell] * 3_000}]
    with pytest.raises(ValueError, match="6,000 cells; 5,000 are allowed"):
        handed_in.submitted(json.dumps({**form, "worksheets": sheets}).encode())
    few = json.dumps({**form, "worksheets": [{"cells": [cell]}]}).encode()
    assert len(handed_in.submitted(few).cells) == 1


def test_a_message_quotes_little_of_a_file_and_no_control_code() -> None:
    form = {"nbformat": "\x1b]0;" + "x" * 10**6, "nbformat_minor": 5, "metadata": {}, "cells": []}
    with pytest.raises(ValueError, match="Unsupported nbformat version") as caught:
        handed_in.submitted(json.dumps(form).encode())
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


def test_no_file_is_read_beyond_its_limit(tmp_path: Path) -> None:
    """A timestamp of 4 GB took 4.3 GiB."""
    (tmp_path / "a.ipynb").write_bytes(_file([_cell()]))
    with (tmp_path / "timestamp.txt").open("wb") as file:
        file.truncate(2**36)
    found = handed_in.read(tmp_path, "a")
    assert (found.timestamp, found.flags) == (None, (handed_in.UNDATED,))
    with (tmp_path / "b.ipynb").open("wb") as file:
        file.truncate(2**36)
    assert handed_in.read(tmp_path, "b").problem == "b.ipynb has 65536 MiB; 32 are allowed"


def test_a_file_that_grows_while_it_is_read_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 100)
    real = os.fstat(os.open(path, os.O_RDONLY))
    monkeypatch.setattr(handed_in.os, "fstat", lambda _: _sized(real, 3))
    with pytest.raises(ValueError, match="a has 11 bytes; 10 are allowed"):
        handed_in.bounded(path, 10)


def _sized(status: os.stat_result, size: int) -> os.stat_result:
    return os.stat_result([size if n == stat.ST_SIZE else v for n, v in enumerate(status)])


@pytest.mark.parametrize("place", ["notebook", "folder"])
def test_a_folder_where_a_file_should_be_is_a_problem_of_its_own(
    tmp_path: Path, place: str
) -> None:
    folder = tmp_path / "bob" / "a"
    if place == "notebook":
        (folder / "a.ipynb").mkdir(parents=True)
        assert handed_in.read(folder, "a").problem == "a.ipynb is not a file"
    else:
        folder.parent.mkdir()
        folder.write_text("x")
        said = "the folder cannot be read (Not a directory)"
        assert handed_in.read(folder, "a").problem == said


@pytest.mark.parametrize("refused", ["bob", "bob/a", "bob/a/a.ipynb"])
def test_what_may_not_be_looked_into_is_a_problem_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """As for a user who is not root: mode 000 stopped the class, or left bob out silently."""
    folder = tmp_path / "bob" / "a"
    folder.mkdir(parents=True)
    (folder / "a.ipynb").write_bytes(_file([_cell()]))

    def guarded(name: str, call: Any) -> Any:
        def run(path: Any, *args: Any, **kwargs: Any) -> Any:
            closed = tmp_path / refused
            inside = Path(path).is_relative_to(closed) and Path(path) != closed
            if inside or (Path(path) == closed and name in ("open", "listdir")):
                raise PermissionError(13, "Permission denied", str(path))
            return call(path, *args, **kwargs)

        return run

    for name in ("open", "lstat", "listdir", "stat"):
        monkeypatch.setattr(handed_in.os, name, guarded(name, getattr(os, name)))
    assert handed_in.read(folder, "a").problem.endswith("cannot be read (Permission denied)")


@pytest.mark.parametrize("metadata", [3, None, ["x"]])
def test_metadata_of_another_form_is_no_surprise(metadata: Any) -> None:
    content = json.dumps(
        {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": [_cell()]}
    ).encode()
    with contextlib.suppress(ValueError):
        handed_in.submitted(content)


def test_a_byte_order_mark_is_no_reason_to_refuse_a_notebook() -> None:
    notebook = handed_in.submitted(b"\xef\xbb\xbf" + _file([_cell()]))
    assert notebook.cells[0].source == "x = 1"
