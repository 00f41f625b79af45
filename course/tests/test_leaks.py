"""The leak test: finds what depends on what, without looking inside."""

from __future__ import annotations

import numpy as np
import pytest
from attend.leaks import influence, leak_test

X = np.random.default_rng(0).standard_normal((5, 3))


def means(mask: np.ndarray):
    """Each output is the mean of the tokens that the mask allows."""
    share = mask / mask.sum(axis=-1, keepdims=True)
    return lambda x: share @ x


CAUSAL = np.tril(np.ones((5, 5), dtype=bool))


@pytest.mark.parametrize("seed", range(5))
def test_influence_is_where_the_mask_allows_it(seed):
    mask = (np.random.default_rng(seed).random((4, 5)) < 0.5) | np.eye(4, 5, dtype=bool)
    changed = influence(means(mask), X, seed=seed)
    np.testing.assert_array_equal(changed > 0, mask)
    assert leak_test(means(mask), X, mask, seed=seed) == []


def test_influence_measures_how_far():
    assert influence(lambda x: 2 * x, np.zeros((1, 1)), size=3, seed=1).item() == pytest.approx(
        6 * abs(np.random.default_rng(1).standard_normal())
    )


def test_causal_is_what_is_allowed_unless_said_otherwise():
    assert leak_test(means(CAUSAL), X) == []
    assert leak_test(means(CAUSAL | np.eye(5, k=1, dtype=bool)), X) == [
        (0, 1),
        (1, 2),
        (2, 3),
        (3, 4),
    ]
    assert len(leak_test(means(CAUSAL), X, np.eye(5, dtype=bool))) == 10


def test_a_leak_is_found_wherever_it_is():
    leaks = leak_test(lambda x: means(CAUSAL)(x - x.mean(axis=0)), X)
    assert len(leaks) == 10, "every future token, through the mean"


def test_a_change_in_the_last_bit_counts_and_minus_zero_does_not():
    def last_bit(x):
        return np.where(x[1, 0] == X[1, 0], 1.0, np.nextafter(1.0, 2.0)) * np.ones((5, 1))

    assert leak_test(last_bit, X) == [(0, 1)]
    assert not influence(lambda x: 0.0 * x, X).any()


def test_numbers_that_become_nan_or_infinite_are_changes():
    with np.errstate(all="ignore"):
        changed = influence(lambda x: np.where(x == X, x, np.nan), X)
        assert (changed[np.eye(5, dtype=bool)] == np.inf).all()
        assert not influence(lambda x: np.full((2, 2), np.nan), X).any()
        assert not influence(lambda x: np.full((2, 2), np.inf), X).any()


def test_data_and_test_may_share_a_seed():
    x = np.random.default_rng(3).standard_normal((4, 2))
    assert (influence(lambda x: x, x, seed=3) > 0).sum() == 4


def test_size_finds_what_is_only_very_low():
    def barely(x):
        return np.maximum(x.sum(), 100.0) * np.ones((5, 1))

    assert leak_test(barely, X) == []
    assert leak_test(barely, X, size=1e4)


def test_the_function_may_write_into_its_argument():
    def rude(x):
        x *= 2
        return x.copy()

    before = X.copy()
    assert leak_test(rude, X) == []
    np.testing.assert_array_equal(X, before)


def test_outputs_may_be_booleans_or_have_more_axes():
    assert leak_test(lambda x: x > 1e9, X) == []
    assert leak_test(lambda x: x[:, :, None] * np.ones((1, 1, 2)), X) == []
    assert leak_test(lambda x: x[:, 0], X) == []


@pytest.mark.parametrize(
    ("function", "x", "message"),
    [
        (means(CAUSAL), X[None], r"tokens \(S, C\) of floats; got shape \(1, 5, 3\)"),
        (means(CAUSAL), np.zeros((5, 3), int), "type int64"),
        (lambda x: x.sum(), X, "one row for each output"),
        (lambda x: x[x[:, 0] == X[:, 0]], X, "the shape of the outputs changed"),
    ],
)
def test_what_cannot_be_tested_is_refused(function, x, message):
    with pytest.raises(ValueError, match=message):
        influence(function, x)


@pytest.mark.parametrize("allowed", [np.ones((4, 5), bool), np.ones((5, 5))])
def test_allowed_must_be_a_mask(allowed):
    with pytest.raises(ValueError, match=r"booleans of shape \(5, 5\)"):
        leak_test(means(CAUSAL), X, allowed)
