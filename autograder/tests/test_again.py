"""What is said of answers that raise in every call, or only when a call is made again."""

from __future__ import annotations

from typing import Any

import numpy as np
from attend_grader import chapters
from attend_grader.checks.subject import local
from attend_grader.checks.symptoms import symptom
from attend_grader.judging.run import run_properties
from attend_solutions.recurrence import rnn_forward, rnn_step

FORWARD = chapters.exercise("01_recurrence/rnn_forward")


def _judged(wrong: Any) -> str:
    """The symptom, once the properties have made their calls."""
    subject = local(wrong)
    run_properties(subject, FORWARD, 1, extra=False)
    return symptom(subject, FORWARD) or ""


def _grows(x: Any, h0: Any, w_x: Any, w_h: Any, b: Any, kept: list[Any] = []) -> Any:  # noqa: B006
    """The list is made once: states of earlier calls stay in it, and have other shapes."""
    h = h0
    for t in range(x.shape[1]):
        h = rnn_step(x[:, t], h, w_x, w_h, b)
        kept.append(h)
    return np.stack(kept, axis=1)


def test_a_right_call_that_raises_when_it_is_made_again_tells_of_something_kept() -> None:
    said = _judged(_grows)
    assert said.startswith("Called again with arguments that it took before, ValueError is raised.")


def _one_number_only(x: Any, h0: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    if x.shape[0] > 1 or x.shape[2] > 1:
        raise IndexError("as for one number only")
    return rnn_forward(x, h0, w_x, w_h, b)


def test_an_error_is_not_said_of_every_call_where_a_check_made_a_right_one() -> None:
    assert _judged(_one_number_only).startswith("It raises IndexError in all ")
    assert "in every call" in _judged(lambda x, h0, w_x, w_h, b: x[:, 99])
