"""The side that runs submitted code: what a call did, errors cut to the learner's own lines."""

import builtins
import sys
from typing import Any

import numpy as np
import pytest
from attend_grader.checks.outcomes import Outcome
from attend_grader.checks.probe import Call
from attend_grader.checks.subject import Subject, local
from attend_grader.inside import codec


def _run(define: Any, body: str, *args: Any, **kwargs: Any) -> Outcome:
    lines = "\n".join(f"    {line}" for line in body.split("\n"))
    return local(define(f"def f(x, y=None):\n{lines}\n", "f")).run(args, kwargs)


def test_arguments_are_copies_and_changes_are_noticed(define: Any) -> None:
    x, y = np.arange(3.0), np.ones((2, 2))
    outcome = _run(define, "x += 1\ny[0, 0] = 5\nreturn x", x, y=y)
    assert list(outcome.mutated) == [0, "y"]
    assert x.tolist() == [0, 1, 2]
    assert y[0, 0] == 1
    assert outcome.value.tolist() == [1, 2, 3]


def test_unchanged_arguments_are_not_called_changed(define: Any) -> None:
    x = np.array([np.nan, -0.0, 1.0])
    assert not _run(define, "x = x + 1\nreturn x", x).mutated
    assert not _run(define, "x[1] = x[1]\nreturn x", x, y=[1, {"a": 2}]).mutated


def test_changes_inside_lists_and_before_an_error_are_noticed(define: Any) -> None:
    assert list(_run(define, "x.append(1)", []).mutated) == [0]
    outcome = _run(define, "x[0] = 7\nraise ValueError('late')", np.zeros(2))
    assert list(outcome.mutated) == [0]
    assert outcome.error is not None


def test_an_earlier_result_that_cannot_be_read_any_more_has_been_changed(define: Any) -> None:
    source = (
        "kept = []\ndef f(x):\n    for earlier in kept:\n        earlier.append(object())\n"
        "    kept.append([x])\n    return kept[-1]\n"
    )
    first, last = local(define(source, "f")).many([Call((1,)), Call((2,))])
    assert first.overwritten
    assert not last.overwritten


def test_what_is_printed_is_kept_and_cut(define: Any, capsys: pytest.CaptureFixture) -> None:
    outcome = _run(define, "print('shape', x.shape)", np.ones(3))
    assert outcome.printed == "shape (3,)\n"
    assert len(_run(define, "print('a' * 10**6)", 0).printed) == 2000
    assert capsys.readouterr().out == ""


def test_input_is_refused_and_given_back(define: Any) -> None:
    before = builtins.input
    outcome = _run(define, "return input('name? ')", 0)
    assert outcome.error is not None
    assert "input() was called" in outcome.error.message
    assert builtins.input is before


@pytest.mark.parametrize("call", ["exit()", "import sys; sys.exit(3)", "raise SystemExit"])
def test_leaving_python_is_an_error_like_any_other(define: Any, call: str) -> None:
    outcome = _run(define, call, 0)
    assert outcome.error is not None
    assert outcome.error.type == "SystemExit"


def test_warnings_are_kept_once(define: Any) -> None:
    outcome = _run(define, "for i in range(3):\n    np.log(x - 1)\nreturn x", np.ones(2))
    assert outcome.warnings == ["divide by zero encountered in log"]


def test_only_numpys_warnings_are_kept(define: Any) -> None:
    outcome = _run(define, "import warnings; warnings.warn('from PyTorch')\nreturn x", np.ones(2))
    assert outcome.warnings == []


def test_an_error_is_cut_to_the_learners_lines(define: Any) -> None:
    source = """
    def helper(a, b):
        # a comment
        return a @ b

    def f(x):
        y = x.T
        return np.apply_along_axis(lambda row: helper(row, y), 0, x)
    """
    error = local(define(source, "f")).run((np.ones((2, 3)),)).error
    assert error is not None
    assert error.type == "ValueError"
    assert [line[:2] for line in error.lines] == [["f", 3], ["<lambda>", 1], ["helper", 3]]
    assert error.lines[-1][2] == "return a @ b"
    assert error.shapes == {"a": [2], "b": [3, 2]}
    assert not error.own


def test_an_error_in_the_candidate_itself_is_its_own(define: Any) -> None:
    error = local(define("def f(x):\n    raise NotImplementedError\n", "f")).run((1,)).error
    assert error is not None
    assert error.own
    assert error.shapes == {}


def test_an_error_raised_by_numpy_points_to_the_line_that_called_it(define: Any) -> None:
    error = _run(define, "z = x + 1\nreturn np.concatenate([z, y], axis=4)", np.ones(2)).error
    assert error is not None
    assert error.lines[-1] == ["f", 3, "return np.concatenate([z, y], axis=4)"]


def test_a_value_nested_without_end_is_an_error(define: Any) -> None:
    outcome = _run(define, "z = []\nz.append(z)\nreturn z", 0)
    assert outcome.error is not None
    assert outcome.error.type == "RecursionError"


def test_an_error_whose_text_cannot_be_told_is_still_an_error(define: Any) -> None:
    source = """
    class Sly(Exception):
        def __str__(self):
            raise ValueError("no text")

    def f(x):
        raise Sly
    """
    error = local(define(source, "f")).run((1,)).error
    assert error is not None
    assert error.type == "Sly"


SOURCE = """
def g(x):
    return x + 1

def f(x):
    if x < 0:
        raise ValueError("negative")
    return g(x) * h(x)
"""


def test_references_stand_in_for_a_call_and_are_taken_away_again(define: Any) -> None:
    f = define(SOURCE, "f")
    own = f.__globals__["g"]
    subject = local(f, {"g": lambda x: x + 10, "h": lambda x: 2}).with_references(("g", "h"))
    assert subject(1) == 22
    assert f.__globals__["g"] is own
    assert "h" not in f.__globals__
    assert subject.run((-1,)).error is not None
    assert f.__globals__["g"] is own
    assert "h" not in f.__globals__
    assert local(f).run((1,)).error is not None  # without references, h is missing


def test_a_reference_that_raises_is_the_callers_mistake(define: Any) -> None:
    subject = local(define(SOURCE, "f"), {"g": lambda x: x["a"], "h": abs})
    error = subject.with_references(("g", "h")).run((1,)).error
    assert error is not None
    assert error.lines[-1][0] == "f"
    assert error.type == "TypeError"
    assert "subscriptable" in error.message


def test_steps_and_memory_are_counted_in_the_candidates_own_code(define: Any) -> None:
    loop = define("def f(n):\n    return sum(i * i for i in range(n))\n", "f")
    few, many = (local(loop).run((n,), measure=True) for n in (10, 1000))
    assert 50 < many.steps / few.steps < 150
    vectorised = define("def f(n):\n    return np.ones((n, n)).sum()\n", "f")
    small, large = (local(vectorised).run((n,), measure=True) for n in (10, 1000))
    assert small.steps == large.steps
    assert 8e6 <= large.peak_bytes < 9e6
    assert few.value == sum(i * i for i in range(10))


@pytest.mark.parametrize("hides", ["reset_peak", "stop", "clear_traces"])
def test_memory_that_was_taken_cannot_be_hidden(define: Any, hides: str) -> None:
    source = f"""
    from tracemalloc import {hides}

    def f(n):
        total = np.ones(n).sum()
        {hides}()
        return total
    """
    hidden = local(define(source, "f")).run((10**6,), measure=True)
    assert hidden.value == 10**6
    assert 8e6 <= hidden.peak_bytes < 9e6


def test_what_python_cannot_write_as_text_is_told_in_plain_words(define: Any) -> None:
    large = local(define("def f(n):\n    return [10 ** n, 1]\n", "f")).run((5000,))
    assert large.error is None
    assert large.value == [codec.Opaque("int of about 5,000 digits"), 1]


SCALER = """
class Scaler:
    def __init__(self, factor=1):
        self.factor = factor

    def __call__(self, x):
        return self.factor * x

    def halve(self, x):
        return self.factor * x / 2
"""


def test_a_class_is_built_and_its_methods_called(define: Any) -> None:
    subject: Subject = local(define(SCALER, "Scaler")).build(parameters={"factor": 4})
    assert subject(3) == 12
    assert subject.run((3,), method="halve").value == 6
    assert subject.reload({"factor": 5})(3) == 15
    missing = subject.run((3,), method="double").error
    assert missing is not None
    assert missing.type == "AttributeError"


def test_a_description_tells_what_a_candidate_is(define: Any) -> None:
    found = local(define("def f(x, *, k=1, **more):\n    return np.exp(x)\n", "f")).description
    assert found.name == "f"
    assert found.callable
    assert found.source == "def f(x, *, k=1, **more):\n    return np.exp(x)\n"
    assert found.parameters == [
        ["x", "POSITIONAL_OR_KEYWORD", False],
        ["k", "KEYWORD_ONLY", True],
        ["more", "VAR_KEYWORD", False],
    ]
    assert found.origins["np"][0] == "numpy"
    assert found.origins["np.exp"][0] == "numpy.exp"
    nothing = local(3.0).description
    assert not nothing.callable
    assert nothing.source is None
    assert local(np.exp).description.callable


def test_the_peak_knows_torchs_tensors_and_no_views(define: Any) -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(500)
    table = define("def f(x):\n    return (x[:, None] * x).sum()\n", "f")
    view = define("def f(x):\n    return x[:, None].expand(500, 500)[0].sum()\n", "f")
    assert local(table).run((x,), measure=True).peak_bytes >= 4 * 500**2
    assert local(view).run((x,), measure=True).peak_bytes < 4 * 500**2


def test_the_first_measured_call_does_not_pay_for_what_measuring_imports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("torch")
    monkeypatch.delitem(sys.modules, "attend_grader.inside.torch_memory", raising=False)
    doubled = local(lambda n: np.ones(n) * 2)
    first, second = (doubled.run((64,), measure=True).peak_bytes for _ in range(2))
    assert first <= second + 8_192
