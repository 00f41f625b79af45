"""From candidate to report: each kind of feedback, follow-through, cost, hidden slips."""

from typing import Any

import numpy as np
import pytest
from attend_grader import chapters, grade
from attend_grader.checks.compare import Miss
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.properties import derivative, expect_growth
from attend_grader.checks.subject import local
from attend_grader.judging.judge import judge, references_for, smoke
from attend_grader.judging.report import Report
from attend_grader.judging.run import NOT_YET

SOFTMAX, SCORES, ATTENTION, BACKWARD = (
    chapters.exercise(f"03_attention/{name}")
    for name in (
        "softmax",
        "attention_scores",
        "scaled_dot_product_attention",
        "attention_backward",
    )
)


def _judge(candidate: Any, exercise: Exercise) -> Report:
    known = references_for(exercise, chapters.references(exercise))
    return judge(local(candidate, known), exercise, 0, extra=False)


PARTS = """
def softmax(scores, axis=-1):
    {softmax}

def attention_scores(q, k, scaled=True):
    {scores}

def scaled_dot_product_attention(q, k, v):
    {attention}
"""
RIGHT = {
    "softmax": "e = np.exp(scores - scores.max(axis=axis, keepdims=True)); "
    "return e / e.sum(axis=axis, keepdims=True)",
    "scores": "return q @ np.swapaxes(k, -1, -2) / (q.shape[-1] ** 0.5 if scaled else 1)",
    "attention": "w = softmax(attention_scores(q, k)); return w @ v, w",
}
SLIPS = {
    "softmax wrong": ({"softmax": "return np.exp(scores)"}, ("softmax",)),
    "softmax over the first axis": (
        {"softmax": "return np.exp(scores) / np.exp(scores).sum(0)"},
        ("softmax",),
    ),
    "softmax not started": ({"softmax": "raise NotImplementedError"}, ("softmax",)),
    "softmax crashes": ({"softmax": "return scores.nothing"}, ("softmax",)),
    "scores unscaled": ({"scores": "return q @ np.swapaxes(k, -1, -2)"}, ("attention_scores",)),
    "both": (
        {"softmax": "return scores", "scores": "return k"},
        ("attention_scores", "softmax"),
    ),
}


@pytest.mark.parametrize(("slip", "fix_first"), SLIPS.values(), ids=SLIPS)
def test_an_earlier_slip_is_not_punished_twice(
    slip: dict[str, str], fix_first: tuple[str, ...], define: Any
) -> None:
    source = PARTS.format(**(RIGHT | slip))
    report = _judge(define(source, ATTENTION.name), ATTENTION)
    assert report.score == ATTENTION.points
    assert report.fix_first == fix_first
    assert report.status == "passed"
    assert f"Correct once these are fixed: {', '.join(fix_first)}" in str(report)


def test_no_earlier_slip_no_word_about_one(define: Any) -> None:
    report = _judge(define(PARTS.format(**RIGHT), ATTENTION.name), ATTENTION)
    assert report.status == "passed"
    assert report.fix_first == ()


def test_an_undefined_earlier_function_is_not_punished_either(define: Any) -> None:
    source = f"def scaled_dot_product_attention(q, k, v):\n    {RIGHT['attention']}\n"
    report = _judge(define(source, ATTENTION.name), ATTENTION)
    assert report.status == "passed"
    assert set(report.fix_first) == {"attention_scores", "softmax"}


def test_own_slips_count_beside_earlier_ones_and_are_named(define: Any) -> None:
    slip = {
        "softmax": "raise NotImplementedError",
        "attention": "w = softmax(attention_scores(q, k), axis=-2); return w @ v, w",
    }
    report = _judge(define(PARTS.format(**(RIGHT | slip)), ATTENTION.name), ATTENTION)
    assert report.score == 1  # the output is still its weights times the values
    assert report.diagnosis == "normalised over queries instead of keys"
    assert report.fix_first == ("softmax",)
    assert "Checked with the course's own softmax" in str(report)


def test_an_own_crash_is_told_where_it_happens(define: Any) -> None:
    source = """
    def softmax(scores, axis=-1):
        largest = scores.max(axis=axis)
        return np.exp(scores - largest[:99, None, None, None] @ scores)
    """
    report = _judge(define(source, "softmax"), SOFTMAX)
    first, second = report.findings[:2]
    assert first.message.startswith("your function raised IndexError in line 3 of softmax")
    evidence = dict(first.evidence)
    assert evidence["your line"].startswith("return np.exp(")
    assert evidence["called with"].startswith("softmax(np.array([0.0, 0.69314")
    assert second.message == "the same error, in the same line"


def test_not_a_function() -> None:
    report = grade(np.ones(3), SOFTMAX.id, 0)
    assert (report.status, report.score, report.max_score) == ("invalid", 0, SOFTMAX.points)
    assert "expected the function softmax, but got a value of type ndarray" in report.note


def test_wrong_signature(define: Any) -> None:
    report = grade(define("def softmax(scores):\n    return scores\n", "softmax"), SOFTMAX.id, 0)
    assert report.status == "invalid"
    assert report.note.startswith("wrong signature: the parameter axis is missing.")


LEFT = {
    "below": (
        "raise NotImplementedError()\n    e = np.exp(scores)\n    return e / e.sum()",
        "(line 2 of softmax): Python stops there, and your code below it never runs.",
    ),
    "above": (
        "e = np.exp(scores)\n    weights = e / e.sum()\n    raise NotImplementedError()",
        "(line 4 of softmax): your code above it ends there. Let your last line be a `return`.",
    ),
    "inside": (
        "for _ in range(2):\n        raise NotImplementedError\n    return scores",
        "(line 3 of softmax): Python stops there, and your code below it never runs.",
    ),
}


@pytest.mark.parametrize(("body", "told"), LEFT.values(), ids=LEFT)
def test_a_raise_left_beside_code_is_told(body: str, told: str, define: Any) -> None:
    report = grade(define(f"def softmax(scores, axis=-1):\n    {body}\n", "softmax"), SOFTMAX.id, 0)
    assert (report.status, report.score, report.max_score) == ("failed", 0, SOFTMAX.points)
    assert report.note == f"Delete the line `raise NotImplementedError()` {told}"


def test_a_raise_left_behind_a_return_does_no_harm(define: Any) -> None:
    body = f"{RIGHT['softmax']}\n    raise NotImplementedError()"
    report = grade(define(f"def softmax(scores, axis=-1):\n    {body}\n", "softmax"), SOFTMAX.id, 0)
    assert report.status == "passed"


def test_a_part_that_is_not_written_costs_its_own_points(define: Any) -> None:
    source = "def attention_scores(q, k, scaled=True):\n    if scaled:\n"
    source += "        raise NotImplementedError\n    return q @ np.swapaxes(k, -1, -2)\n"
    report = grade(define(source, "attention_scores"), SCORES.id, 0)
    assert report.status == "partial"
    lost = [f for f in report.findings if not f.passed]
    assert (
        lost[0].message == "your function raised NotImplementedError in line 3 of attention_scores"
    )
    assert dict(lost[0].evidence)["try"].startswith("write this part; or delete this line")


def test_a_card_without_any_test_shows_its_note_only(define: Any) -> None:
    for source in ("def softmax(scores):\n    return 1\n", LEFT["below"][0], "import torch"):
        whole = source if source.startswith("def") else f"def softmax(s, axis=-1):\n    {source}\n"
        report = grade(define(whole, "softmax"), SOFTMAX.id, 0)
        assert len(report.findings) == len(SOFTMAX.properties)
        assert len(str(report).splitlines()) == 2
        assert report.note in str(report)
        assert "<li>" not in report._repr_html_()


def test_two_slips_at_once_are_no_slip_but_have_a_symptom(define: Any) -> None:
    source = "def attention_scores(q, k, scaled=True):\n    return q @ k.T\n"
    report = grade(define(source, "attention_scores"), SCORES.id, 0)
    assert report.diagnosis is None
    assert report.symptom is not None
    assert report.symptom in str(report)


SAID_ONCE = {
    "output only": "return softmax(attention_scores(q, k)) @ v",
    "weights first": "w = softmax(attention_scores(q, k)); return w, w @ v",
}


@pytest.mark.parametrize("body", SAID_ONCE.values(), ids=SAID_ONCE)
def test_results_that_are_missing_or_exchanged_are_told_once(body: str, define: Any) -> None:
    source = PARTS.format(**(RIGHT | {"attention": body}))
    report = _judge(define(source, ATTENTION.name), ATTENTION)
    first, *rest = report.findings
    assert "`return output, weights`" in first.message
    assert {f.message for f in rest} == {"the same as above", NOT_YET}


def test_what_an_earlier_function_returns_must_be_taken_apart(define: Any) -> None:
    source = PARTS.format(**RIGHT) + (
        "def attention_backward(q, k, v, grad_output):\n"
        "    P = scaled_dot_product_attention(q, k, v)\n"
        "    return q, k, np.swapaxes(P, -1, -2) @ grad_output\n"
    )
    report = _judge(define(source, BACKWARD.name), BACKWARD)
    evidence = dict(report.findings[0].evidence)
    assert "P is a tuple of 2" in evidence["shapes there"]
    assert evidence["try"] == (
        "scaled_dot_product_attention returns two things: take them apart, "
        "`output, weights = scaled_dot_product_attention(…)`."
    )


def test_negative_weights_are_told(define: Any) -> None:
    source = "def softmax(scores, axis=-1):\n    return np.exp(scores) - scores.max()\n"
    report = grade(define(source, "softmax"), SOFTMAX.id, 0)
    assert "Weights must be at least 0; yours include -0.09" in report.findings[0].message


def test_forbidden_calls_end_the_check(define: Any) -> None:
    source = (
        "def softmax(scores, axis=-1):\n    import torch\n    return torch.softmax(scores, axis)\n"
    )
    report = grade(define(source, "softmax"), SOFTMAX.id, 0)
    assert (report.status, report.score) == ("failed", 0)
    assert report.note == (
        "Not allowed in this exercise: torch (line 2); torch.softmax (line 3). Build it yourself."
    )


def test_a_changed_input_is_named(define: Any) -> None:
    source = "def softmax(scores, axis=-1):\n    scores -= scores.max(axis=axis, keepdims=True)\n"
    source += "    e = np.exp(scores)\n    return e / e.sum(axis=axis, keepdims=True)\n"
    report = grade(define(source, "softmax"), SOFTMAX.id, 0)
    (lost,) = [f for f in report.findings if not f.passed]
    assert lost.property == "arguments stay as they were"
    assert lost.message.startswith("your function changes its argument scores in place")
    assert report.diagnosis == "changed the scores in place"


def test_what_was_printed_is_shown(define: Any) -> None:
    source = "def softmax(scores, axis=-1):\n    print(scores.shape)\n    return scores\n"
    assert "Your function printed: (3,)" in str(grade(define(source, "softmax"), SOFTMAX.id, 0))


def test_numpys_warning_is_passed_on(define: Any) -> None:
    source = "def softmax(scores, axis=-1):\n    e = np.exp(scores)\n"
    source += "    return e / e.sum(axis=axis, keepdims=True)\n"
    text = str(grade(define(source, "softmax"), SOFTMAX.id, 0))
    assert "NumPy warned: overflow encountered in exp" in text
    assert "Subtract each row's own largest score before exp" in text


def test_a_table_that_is_not_needed_is_told() -> None:
    wrong = BACKWARD.misconceptions["S × S numbers for a query"]
    (lost,) = [f for f in grade(wrong, BACKWARD.id, 0).findings if not f.passed]
    assert lost.message.startswith("one query and 64 keys took 1")
    assert "a table of S × S numbers alone is 32 KiB" in lost.message


def test_steps_that_grow_too_fast_are_told(define: Any) -> None:
    linear = define("def f(n):\n    return sum(i for i in range(n))\n", "f")
    square = define("def f(n):\n    return sum(1 for i in range(n) for j in range(n))\n", "f")

    def hold(candidate: Any) -> None:
        expect_growth(
            local(candidate),
            lambda n: (n,),
            sizes=(10, 40),
            at_most=6,
            cost="steps",
            of="numbers",
            advice="Visit each once.",
        )

    hold(linear)
    with pytest.raises(
        Miss, match=r"too slow: 4 times as many numbers cost 1\d.* times as many operations .*once"
    ):
        hold(square)


def test_memory_that_grows_is_called_large_not_slow(define: Any) -> None:
    table = define("def f(n):\n    return np.zeros((n, n)).sum()\n", "f")
    with pytest.raises(Miss, match=r"^too large: 4 times as many rows cost 1\d.* as much memory"):
        expect_growth(
            local(table),
            lambda n: (n,),
            sizes=(100, 400),
            at_most=6,
            cost="peak_bytes",
            of="rows",
            advice="Keep one.",
        )


def test_a_numerical_derivative_is_exact() -> None:
    at = np.array([[0.3, -1.2], [2.0, 0.1]])
    jacobian = derivative(lambda x: np.sin(x), at)
    assert jacobian.shape == (2, 2, 2, 2)
    np.testing.assert_allclose(np.einsum("ijij->ij", jacobian), np.cos(at), rtol=1e-15)
    gradient = derivative(lambda x: (x**3).sum(), at)
    np.testing.assert_allclose(gradient, 3 * at**2, rtol=1e-15)


STILL = "still holds its `raise NotImplementedError()`"
SMOKE = {
    "right": (RIGHT["softmax"], ""),
    "wrong values": ("return scores * 0.0", ""),
    "not started": ("raise NotImplementedError", "is not started"),
    "not started below": ("scores; return helper(scores)", "is not started"),
    "not finished": ("e = np.exp(scores)\n    raise NotImplementedError()", STILL),
    "raises": ("return scores.nothing", "raises AttributeError"),
    "NaN": ("return np.log(-np.abs(scores))", "returns NaN or infinite numbers"),
    "infinite": ("return scores / 0.0", "returns NaN or infinite numbers"),
    "wrong shape": ("return scores.sum()", "returns the wrong shape"),
    "nothing": ("scores.sum()", "returns the wrong shape"),
}


@pytest.mark.parametrize(("body", "problem"), SMOKE.values(), ids=SMOKE)
def test_a_picture_waits_for_what_cannot_be_called(body: str, problem: str, define: Any) -> None:
    source = f"def softmax(scores, axis=-1):\n    {body}\n\n"
    source += "def helper(x):\n    raise NotImplementedError\n"
    assert smoke(local(define(source, "softmax")), SOFTMAX) == problem


def test_a_picture_waits_for_each_of_several_results(define: Any) -> None:
    source = "def f(q, k, v):\n    T, S = len(q), len(k)\n"
    source += "    return np.ones((T, v.shape[-1])), np.full((T, S), np.nan)\n"
    assert smoke(local(define(source, "f")), ATTENTION) == "returns NaN or infinite numbers"


def test_pairs_are_compared_by_the_shape_of_each(define: Any) -> None:
    swapped = "def f(q, k, v):\n    return np.ones((2, 3)), np.ones((2, 2))\n"
    assert smoke(local(define(swapped, "f")), ATTENTION) == "returns the wrong shape"


@pytest.mark.parametrize("value", [(), [], 10**400, {1: 2}])
@pytest.mark.parametrize(
    "name",
    [
        "03_attention/scaled_dot_product_attention",
        "02_alignment/hard_attention_sample",
        "05_multi_head/kv_cache_bytes",
        "06_positions/ntk_scale",
    ],
)
def test_no_value_is_too_odd_for_a_check(value: Any, name: str, define: Any) -> None:
    exercise = chapters.exercise(name)
    source = f"def {exercise.name}(*args, **kwargs):\n    return {value!r}\n"
    report = _judge(define(source, exercise.name), exercise)
    assert (report.score, len(report.findings)) == (0, len(exercise.properties))
