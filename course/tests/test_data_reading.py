"""Texts to read on: deterministic, and each asks for what it says it asks for."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from attend.data import reading
from attend.data.reading import ALPHABET, TOKENS, UNASKED, bags, letters, steps_back

TASKS = [letters, steps_back, bags]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_docstring_examples_are_right() -> None:
    results = doctest.testmod(reading)
    assert results.attempted >= 2
    assert results.failed == 0


@pytest.mark.parametrize("task", TASKS)
def test_the_same_seed_gives_the_same_texts(task) -> None:
    first, again, other = task(rng(1), 3, 20), task(rng(1), 3, 20), task(rng(2), 3, 20)
    for a, b, c in zip(first, again, other, strict=True):
        assert a.shape == (3, 20)
        np.testing.assert_array_equal(a, b)
        assert (a != c).any()


@pytest.mark.parametrize(("task", "count"), [(letters, 27), (steps_back, TOKENS), (bags, TOKENS)])
def test_tokens_are_numbers_from_0(task, count: int) -> None:
    tokens, answers = task(rng(), 20, 100)
    assert tokens.min() >= 0
    assert tokens.max() < count
    asked = answers[answers != UNASKED]
    assert asked.min() >= 0
    assert asked.max() < count


@pytest.mark.parametrize("task", [letters, bags])
def test_the_answer_is_the_next_token(task) -> None:
    tokens, answers = task(rng(), 4, 30)
    np.testing.assert_array_equal(tokens[:, 1:], answers[:, :-1])


def test_letters_are_a_text() -> None:
    tokens, _ = letters(rng(), 50, 400)
    text = ["".join(ALPHABET[t] for t in row) for row in tokens]
    assert sum(" the " in piece for piece in text) > 40
    assert not any("  " in piece for piece in text)


def test_held_out_letters_lie_elsewhere() -> None:
    tokens, _ = letters(rng(), 300, 60, held_out=True)
    seen, _ = letters(rng(), 3000, 60)
    assert not {row.tobytes() for row in tokens} & {row.tobytes() for row in seen}


@pytest.mark.parametrize("back", [1, 3, 7])
def test_steps_back_asks_for_the_token_so_many_steps_ago(back: int) -> None:
    tokens, answers = steps_back(rng(), 5, 40, back)
    assert (answers[:, :back] == UNASKED).all()
    np.testing.assert_array_equal(answers[:, back:], tokens[:, :-back])


def test_tokens_of_a_bag_have_shares_and_no_order() -> None:
    tokens, _ = bags(rng(), 30, 2000)
    counts = np.array([np.bincount(row, minlength=TOKENS) for row in tokens]) / 2000
    assert (np.sort(counts, axis=1)[:, -4:].sum(axis=1) > 0.5).all(), "a few are frequent"
    assert (counts.argmax(axis=1) != counts[0].argmax()).any(), "not the same ones everywhere"
    first = np.array([np.bincount(row[:1000], minlength=TOKENS) for row in tokens]) / 1000
    np.testing.assert_allclose(first, counts, atol=0.1)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("sequences", "length"), [(0, 10), (2, 0)])
def test_nothing_is_refused(task, sequences: int, length: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        task(rng(), sequences, length)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="between 1 and 9; got 10"):
        steps_back(rng(), 1, 10, back=10)
    with pytest.raises(ValueError, match="fewer than"):
        letters(rng(), 1, 10**7)
