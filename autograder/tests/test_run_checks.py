"""Only a check's own score counts: what is left in a test cell before nbgrader reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attend_grader.preprocessors import RunChecks, is_check, settle
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook, new_output
from nbgrader.utils import determine_grade

TEST = {"grade": True, "grade_id": "check-f", "points": 4, "solution": False, "locked": True}


def graded_test(source: str = "check(f)", outputs: Any = ()) -> NotebookNode:
    return new_code_cell(source, metadata={"nbgrader": TEST}, outputs=list(outputs))


def result(text: Any) -> NotebookNode:
    return new_output("execute_result", {"text/plain": text}, execution_count=1)


def stream(name: str) -> NotebookNode:
    return new_output("stream", name=name, text="said")


ERROR = new_output("error", ename="ValueError", evalue="", traceback=[])

SETTLED: dict[str, tuple[list[NotebookNode], float]] = {
    "score": ([result("3")], 3),
    "full": ([result("4")], 4),
    "none": ([result("0")], 0),
    "list": ([result(["2"])], 2),
    "warning-before": ([stream("stderr"), result("3")], 3),
    "printed": ([stream("stdout"), result("3")], 3),
    "nothing": ([], 0),
    "only-printed": ([stream("stdout")], 0),
    "text": ([result("all good")], 0),
    "nan": ([result("nan")], 0),
    "infinite": ([result("inf")], 0),
    "negative": ([result("-1")], 0),
    "too-much": ([result("5")], 0),
    "empty": ([result("")], 0),
    "exponent": ([result("4e0")], 0),
    "two-results": ([result("4"), result("1")], 0),
    "error": ([ERROR], 0),
    "result-then-error": ([result("4"), ERROR], 0),
}


@pytest.mark.parametrize("name", SETTLED)
def test_what_nbgrader_reads(name: str) -> None:
    outputs, points = SETTLED[name]
    cell = graded_test(outputs=json.loads(json.dumps(outputs)))
    cell.outputs = [NotebookNode(output) for output in cell.outputs]
    settle(cell, "the check gave no score")
    assert determine_grade(cell) == (points, 4)


def test_the_refusal_says_why() -> None:
    cell = graded_test(outputs=[result("5")])
    settle(cell, "unused")
    assert cell.outputs[0].evalue == "the check's result is not a score from 0 to 4: 0 points."


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("check(f)", True),
        ('check(f, "03_attention/f")', True),
        ("assert f(1) == 2", False),
        ("x = check(f)", False),
        ("%timeit f", False),
        ("check(f)\ncheck(g)", False),
    ],
)
def test_which_cells_are_checks(source: str, expected: bool) -> None:
    assert is_check(graded_test(source)) is expected


def test_no_other_cell_is_a_check() -> None:
    assert not is_check(new_code_cell("check(f)"))
    answer = {**TEST, "solution": True}
    assert not is_check(new_code_cell("check(f)", metadata={"nbgrader": answer}))


def run(*cells: NotebookNode) -> list[float | None]:
    """Run a notebook; return what nbgrader reads from each of its test cells."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = new_notebook(cells=list(cells), metadata={"kernelspec": kernel})
    RunChecks(timeout=60).preprocess(notebook, {"metadata": {}})
    return [determine_grade(cell)[0] for cell in cells if "nbgrader" in cell.metadata]


def test_a_name_used_twice_costs_nothing_and_hides_nothing() -> None:
    fake = new_code_cell("def check(f):\n    return 4\ndef f():\n    pass")
    test = graded_test("check(f)")
    assert run(fake, test) == [0]
    assert test.source == "check(f)", "the cell itself stays as released"
    assert "no exercise is called" in json.dumps(test.outputs)


def test_when_the_kernel_dies_what_was_checked_before_keeps_its_points() -> None:
    cells = [
        new_code_cell("class Two:\n    def __repr__(self):\n        return '2'"),
        new_code_cell("import attend_grader; attend_grader.__dict__['check'] = lambda f: Two()"),
        graded_test("check(1)"),
        new_code_cell("import os; os._exit(0)"),
        graded_test("check(2)"),
    ]
    assert run(*cells) == [2, 0]
    assert "ended its own kernel" in cells[-1].outputs[0].evalue


@pytest.mark.parametrize("source", ["assert True", "assert False"])
def test_an_instructors_own_test_keeps_nbgraders_rules(source: str) -> None:
    assert run(graded_test(source)) == [4 if "True" in source else 0]
