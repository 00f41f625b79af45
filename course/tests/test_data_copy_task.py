"""The copy task: deterministic, balanced, and solvable by memory alone."""

import doctest

import numpy as np
import pytest
from attend.data import copy_task as module
from attend.data.copy_task import FILLERS, QUESTION, SYMBOLS, TOKENS, copy_task


def test_docstring_example_is_right() -> None:
    results = doctest.testmod(module)
    assert results.attempted > 2
    assert results.failed == 0


@pytest.mark.parametrize("lag", [0, 1, 7])
def test_a_sequence_is_symbol_fillers_question(lag: int) -> None:
    tokens, answers = copy_task(np.random.default_rng(0), 50, lag)
    assert tokens.shape == (50, lag + 2)
    assert answers.shape == (50,)
    np.testing.assert_array_equal(tokens[:, 0], answers)
    assert (tokens[:, -1] == QUESTION).all()
    between = tokens[:, 1:-1]
    assert ((between >= SYMBOLS) & (between < SYMBOLS + FILLERS)).all()
    assert (answers < SYMBOLS).all()
    assert tokens.max() < TOKENS


def test_the_same_seed_gives_the_same_sequences() -> None:
    first, again, other = (copy_task(np.random.default_rng(s), 9, 4)[0] for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_fillers_say_nothing_about_the_symbol() -> None:
    tokens, answers = copy_task(np.random.default_rng(0), 20_000, 2)
    counts = np.zeros((SYMBOLS, FILLERS))
    np.add.at(counts, (answers, tokens[:, 1] - SYMBOLS), 1)
    expected = 20_000 / (SYMBOLS * FILLERS)
    # a count has a standard deviation of about √312 = 18; six of them for 64 cells
    assert np.abs(counts - expected).max() < 6 * expected**0.5


def test_what_cannot_be_drawn_is_said() -> None:
    for sequences, lag in ((0, 3), (2, -1)):
        with pytest.raises(ValueError, match="at least 1 sequence with a lag of 0 or more"):
            copy_task(np.random.default_rng(0), sequences, lag)
