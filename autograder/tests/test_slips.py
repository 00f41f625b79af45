"""Slips as edits: applied to the answer, refused where they do not fit."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from attend_grader import exercises
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.slips import Slip, Slips, StaleSlip, code_of
from attend_solutions.attention import attention_scores, softmax
from attend_solutions.multi_head import MultiHeadAttention

FORGOT = Slip("forgot the scale", (" / q.shape[-1] ** 0.5", ""), "Divide by √D.")


def test_an_edit_makes_a_function_in_the_answers_own_namespace() -> None:
    wrong = FORGOT.applied(attention_scores)
    q, k = np.ones((2, 4)), np.ones((3, 4))
    np.testing.assert_array_equal(wrong(q, k), np.full((2, 3), 4.0))
    np.testing.assert_array_equal(attention_scores(q, k), np.full((2, 3), 2.0))
    assert inspect.getdoc(wrong) == "Divide by √D."
    assert "return dots\n" in inspect.getsource(wrong)
    assert wrong.__name__ == "attention_scores"


def test_several_edits_are_applied_in_order() -> None:
    both = Slip("two", (("largest = scores.max(", "top = scores.max("), ("- largest", "- top")), "")
    np.testing.assert_allclose(both.applied(softmax)(np.ones(4)), 0.25)


def test_an_edit_of_a_class() -> None:
    wrong = Slip("keys as values", ("self.value(x)", "self.key(x)"), "").applied(MultiHeadAttention)
    assert isinstance(wrong, type)
    assert wrong(4, 2).heads == 2


def test_a_function_is_a_slip_as_it_is() -> None:
    def other(scores: np.ndarray, axis: int = -1) -> np.ndarray:
        return scores

    slips = Slips(softmax, (Slip("nothing at all", other, "Do something."),))
    assert slips["nothing at all"] is other
    assert inspect.getdoc(other) == "Do something."


STALE = {
    "not there": (("np.expp(", "np.exp("), "'np.expp(' is not in the answer"),
    "twice": (("axis=axis", "axis=0"), "'axis=axis' stands there 2 times"),
    "in the docstring only": (("positive weights", ""), "is not in the answer"),
    "no Python": (("np.exp(", "np.exp(("), "slip 'x': '(' was never closed"),
}


@pytest.mark.parametrize(("edit", "told"), STALE.values(), ids=STALE)
def test_an_edit_that_does_not_fit_is_refused_and_listed(edit: tuple[str, str], told: str) -> None:
    slip = Slip("x", edit, "told")
    with pytest.raises(StaleSlip) as error:
        slip.applied(softmax)
    assert told in str(error.value)
    assert Slips(softmax, (slip,)).stale() == [str(error.value)]


def test_slips_are_made_when_asked_for_and_kept() -> None:
    slips = Slips(attention_scores, (FORGOT,))
    assert list(slips) == ["forgot the scale"]
    assert slips["forgot the scale"] is slips["forgot the scale"]
    with pytest.raises(ValueError, match="same name"):
        Slips(attention_scores, (FORGOT, FORGOT))


def test_line_numbers_stay_and_docstrings_go() -> None:
    code, source = code_of(softmax), inspect.getsource(softmax)
    assert code.count("\n") == source.count("\n")
    assert "Milakov" not in code
    line = next(i for i, text in enumerate(source.splitlines()) if "np.exp(" in text)
    assert "np.exp(" in code.splitlines()[line]


@pytest.mark.parametrize("exercise", [pytest.param(e, id=e.id) for e in exercises() if e.slips])
def test_every_slip_of_the_course_fits(exercise: Exercise) -> None:
    assert isinstance(exercise.misconceptions, Slips)
    assert exercise.misconceptions.stale() == []
    for slip in exercise.slips:
        assert slip.told
