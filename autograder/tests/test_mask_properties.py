"""What a learner is told about a mask that is not the right one."""

from typing import Any

import numpy as np
import pytest
from attend_grader.checks.compare import Miss
from attend_grader.checks.mask_properties import expect_mask
from attend_grader.inside.codec import Opaque

RIGHT = np.tril(np.ones((3, 3), dtype=bool))

WRONG = {
    "nothing": (None, "returned None instead of the mask"),
    "something else": (Opaque("generator"), "mask is of type generator, expected an array"),
    "one number": (1.0, "wrong shape: mask is (), expected (3, 3)"),
    "shape": (RIGHT[None], "wrong shape: mask is (1, 3, 3), expected (3, 3)"),
    "entry": (RIGHT | np.eye(3, k=1, dtype=bool), "mask[0, 1] is True, expected False (2 of 9"),
    "opposite": (~RIGHT, "Every entry is the opposite"),
    "transpose": (RIGHT.T, "a row belongs to a query"),
    "to be added": (np.where(RIGHT, 0, -np.inf), "yours holds -inf. That is what is added"),
    "in between": (0.5 * RIGHT, "yours holds 0.5"),
}


@pytest.mark.parametrize(("got", "told"), WRONG.values(), ids=WRONG)
def test_a_wrong_mask_is_told(got: Any, told: str) -> None:
    with pytest.raises(Miss) as caught:
        expect_mask(got, RIGHT)
    assert told in caught.value.message


def test_numbers_and_squeezed_shapes_are_taken_where_that_is_not_the_question() -> None:
    expect_mask(RIGHT.astype(int), RIGHT)
    expect_mask(RIGHT[:, None], RIGHT, squeezed=True)
    with pytest.raises(Miss, match="dtype int64, expected bool"):
        expect_mask(RIGHT.astype(np.int64), RIGHT, boolean=True)
    with pytest.raises(Miss, match="wrong shape"):
        expect_mask(RIGHT[:2], RIGHT, squeezed=True)


def test_small_masks_are_shown_as_1_and_0() -> None:
    with pytest.raises(Miss) as caught:
        expect_mask(~RIGHT, RIGHT)
    assert dict(caught.value.evidence)["expected"] == "[[1 0 0]\n [1 1 0]\n [1 1 1]]"
    with pytest.raises(Miss) as caught:
        expect_mask(np.zeros((9, 9), bool), np.eye(9, dtype=bool))
    assert not caught.value.evidence


def test_what_is_no_mask_is_called_by_its_own_name() -> None:
    for got, told in (
        (~RIGHT, "wrong value: result[0, 0] is False"),
        (0.5 * RIGHT, "a result says True or False"),
        (RIGHT.astype(int), "the result has dtype"),
        (RIGHT[:2], "wrong shape: result is (2, 3)"),
    ):
        with pytest.raises(Miss) as caught:
            expect_mask(got, RIGHT, boolean=True, what="result")
        assert told in caught.value.message
        assert "mask" not in caught.value.message
