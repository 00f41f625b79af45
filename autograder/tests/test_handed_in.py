"""Reading a file that a learner handed in: nothing in it is trusted to be small or well formed."""

from __future__ import annotations

import contextlib
import json
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


@pytest.mark.parametrize(("said", "kept"), [({"flags": ["x"]}, True), (5, False), (["x"], False)])
def test_what_we_said_of_our_own_copy_is_kept_in_its_form(said: Any, kept: bool) -> None:
    """Plain nbgrader has the copy that was rebuilt read once more."""
    notebook = handed_in.submitted(_file([_cell()], attend=said))
    assert notebook.metadata == ({"attend": said} if kept else {})


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
