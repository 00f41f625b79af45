"""The reader of a long library: its letters, its gradient, its surprise."""

from __future__ import annotations

import numpy as np
import pytest
from attend.data import reading
from attend.data.reading import ALPHABET
from attend.data.recall import DOUBT, LAGS, continued, recall
from attend_solutions.attention import scaled_dot_product_attention
from attend_solutions.flash import flash_backward, flash_forward, stream_attention


def test_scores_count_matches_by_strength():
    task = recall(np.random.default_rng(0), 50, 20)
    strengths = np.arange(1.0, LAGS + 1)
    queries = task.queries(strengths)
    scores = queries @ task.keys.T / np.sqrt(queries.shape[1])
    asked, known = task.asked.argmax(-1), task.keys.reshape(50, LAGS, -1).argmax(-1)
    want = ((asked[:, None] == known) * strengths).sum(-1)
    np.testing.assert_allclose(scores, want, atol=1e-4)  # float32, sums of 36


def test_values_are_what_came_next():
    task = recall(np.random.default_rng(1), 50, 20)
    latest = task.keys.reshape(50, LAGS, -1)[:, 0].argmax(-1)
    np.testing.assert_array_equal(latest[1:], task.values.argmax(-1)[:-1])
    np.testing.assert_array_equal(task.asked[1:, 0].argmax(-1), task.answers[:-1])


def test_training_and_tests_ask_from_different_halves_of_the_part_apart(monkeypatch):
    parts = np.repeat([0, 1, 2], [9000, 500, 500])  # the part apart is the last tenth
    monkeypatch.setattr(reading, "_text", lambda: parts)
    for seed in range(20):
        for training, half in ((True, 1), (False, 2)):
            task = recall(np.random.default_rng(seed), 50, 400, training)
            assert set(task.answers) == set(task.asked.argmax(-1).ravel()) == {half}
            assert set(task.values.argmax(-1)) == {0}


def test_the_gradient_of_the_strengths_is_the_slope_of_the_surprise():
    task = recall(np.random.default_rng(2), 200, 30)
    strengths = np.linspace(2, 0.5, LAGS)

    def surprise(w):
        output, lse = flash_forward(task.queries(w), task.keys, task.values)
        return task.surprise(output), output, lse

    (_, grad_output), output, lse = surprise(strengths)
    inputs = task.queries(strengths), task.keys, task.values
    grad_q, _, _ = flash_backward(*inputs, output, lse, grad_output)
    got = task.strength_gradient(grad_q)
    for lag in range(LAGS):
        step = 0.01 * (np.arange(LAGS) == lag)
        slope = (surprise(strengths + step)[0][0] - surprise(strengths - step)[0][0]) / 0.02
        assert got[lag] == pytest.approx(slope, abs=2e-3)  # float32 queries; steps of 0.01


def test_surprise_of_an_even_guess_is_that_of_27_letters():
    task = recall(np.random.default_rng(3), 50, 20)
    even = np.full((20, len(ALPHABET)), 1 / len(ALPHABET))
    assert task.surprise(even)[0] == pytest.approx(np.log2(27))
    never = np.zeros_like(even)
    assert task.surprise(never)[0] == pytest.approx(np.log2(27 / DOUBT))


def test_it_writes_on_from_what_it_remembers():
    task = recall(np.random.default_rng(4), 2000, 1)
    letters = "".join(ALPHABET[i] for i in task.values.argmax(-1)[500 : 500 + LAGS])
    rng = np.random.default_rng(0)
    text = continued(stream_attention, task, np.full(LAGS, 50.0), letters, 1, rng)
    output, _ = scaled_dot_product_attention(
        50 * task.keys[500 + LAGS][None] / np.sqrt(task.keys.shape[1]), task.keys, task.values
    )
    assert text.startswith(letters)
    assert output[0, ALPHABET.index(text[-1])] > 0.1


@pytest.mark.parametrize(("library", "questions"), [(0, 5), (5, 10**7)])
def test_sizes_that_cannot_be_are_refused(library, questions):
    with pytest.raises(ValueError, match=r"at least 1|only"):
        recall(np.random.default_rng(0), library, questions)
