"""``assert_shape``: what it binds, and that its errors say what to do."""

from __future__ import annotations

import numpy as np
import pytest
from attend_kernels import ShapeError, assert_shape


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape)


def test_binds_each_letter():
    assert assert_shape(zeros(2, 3, 5, 4), "B H T D") == {"B": 2, "H": 3, "T": 5, "D": 4}


def test_sizes_carry_over_and_are_not_changed_in_place():
    first = assert_shape(zeros(5, 4), "T D")
    second = assert_shape(zeros(7, 4), "S D", first)
    assert second == {"T": 5, "D": 4, "S": 7}
    assert first == {"T": 5, "D": 4}


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)], ids=["none", "one", "two"])
def test_ellipsis_takes_any_leading_axes(lead: tuple[int, ...]):
    assert assert_shape(zeros(*lead, 5, 4), "... T D") == {"T": 5, "D": 4}


def test_a_number_is_an_axis_of_that_size():
    assert assert_shape(zeros(5, 1), "T 1") == {"T": 5}


def test_a_letter_used_twice_must_agree():
    assert assert_shape(zeros(5, 5), "T T") == {"T": 5}
    with pytest.raises(ShapeError, match=r"axis 1 \(T\) is 4, not 5"):
        assert_shape(zeros(5, 4), "T T")


MESSAGES = {
    "missing-axis": (
        (5, 4),
        "B T D",
        {},
        "q has 2 axes; expected 3 (B T D), got shape (5, 4). Likely cause: 1 leading axis (batch "
        "or heads) left out. Next: add them with x[None].",
    ),
    "too-few-for-ellipsis": (
        (5,),
        "... T D",
        {},
        "q has 1 axis; expected at least 2 (... T D), got shape (5,). Likely cause: 1 leading axis "
        "(batch or heads) left out. Next: add them with x[None].",
    ),
    "axis-of-one": (
        (5, 1, 4),
        "T D",
        {},
        "q has 3 axes; expected 2 (T D), got shape (5, 1, 4). Likely cause: an axis of length 1 "
        "kept. Next: drop axis 1 with x.squeeze(1), or sum without keepdims.",
    ),
    "too-many": (
        (2, 5, 4),
        "T D",
        {},
        "q has 3 axes; expected 2 (T D), got shape (2, 5, 4). Likely cause: 1 leading axis (batch "
        "or heads) too many. Next: index or reshape them away before the call.",
    ),
    "swapped": (
        (2, 4, 5),
        "B T D",
        {"T": 5, "D": 4},
        "q has the wrong shape: expected B T D with B=2, T=5, D=4, got (2, 4, 5): axis 1 (T) is 4, "
        "not 5. Likely cause: axes 1 and 2 are swapped. Next: swap them before the call "
        "(swapaxes(1, 2)).",
    ),
    "other-arrays": (
        (5, 3),
        "T D",
        {"D": 4},
        "q has the wrong shape: expected T D with T=5, D=4, got (5, 3): axis 1 (D) is 3, not 4. "
        "Likely cause: it does not belong to the arrays given before it, which have D=4. "
        "Next: print the shapes of all the arguments.",
    ),
    "fixed-number": (
        (5, 3),
        "T 1",
        {},
        "q has the wrong shape: expected T 1 with T=5, got (5, 3): axis 1 is 3, not 1. Likely "
        "cause: an axis summed or sliced too early. Next: print the shape where q is made.",
    ),
}


@pytest.mark.parametrize(("shape", "pattern", "sizes", "message"), MESSAGES.values(), ids=MESSAGES)
def test_message_says_what_expected_got_cause_and_next(
    shape: tuple[int, ...], pattern: str, sizes: dict[str, int], message: str
):
    with pytest.raises(ShapeError) as caught:
        assert_shape(zeros(*shape), pattern, sizes, name="q")
    assert str(caught.value) == message


def test_a_failed_call_leaves_sizes_alone():
    sizes = {"D": 4}
    with pytest.raises(ShapeError):
        assert_shape(zeros(5, 3), "T D", sizes)
    assert sizes == {"D": 4}
