"""What chapter 04 ships: numbers in words, the model that learns to write them, its table."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attend.data import number_words as data
from attend_solutions.self_attention import causal_mask, self_attention

HERE = Path(__file__).resolve().parents[1] / "04_self_attention"


@pytest.fixture(scope="module")
def script() -> Any:
    """The chapter's training script, as a module."""
    sys.path.insert(0, str(HERE))
    try:
        yield import_module("train")
    finally:
        sys.path.remove(str(HERE))
        sys.modules.pop("train", None)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (13, "thirteen"),
        (20, "twenty"),
        (47, "forty-seven"),
        (100, "one hundred"),
        (305, "three hundred five"),
        (342, "three hundred forty-two"),
        (999, "nine hundred ninety-nine"),
    ],
)
def test_numbers_in_words(number: int, words: str) -> None:
    assert data.in_words(number) == words
    assert data.decode(data.encode(words)) == words


def test_the_parts_of_the_text_are_its_tenths() -> None:
    train, tuning, held_out = data.text()
    assert len(train) == 8 * len(tuning)
    assert 0 <= len(held_out) - len(tuning) < 10
    assert data.real_words([data.decode(held_out[:2000])]) == 1.0


def test_what_was_written_is_counted_in_whole_words() -> None:
    assert data.real_words(["ix twenty-two foo seve"]) == pytest.approx(2 / 3)
    assert data.real_words(["abc"]) == 0.0


def test_the_causal_mask_is_that_of_the_chapter() -> None:
    np.testing.assert_array_equal(data.causal(), causal_mask(data.PLACES))
    np.testing.assert_array_equal(data.diagonals(set(range(-15, 1))), data.causal())
    assert data.diagonals({1})[3, 4]


def test_gradients_are_those_of_the_loss() -> None:
    rng = np.random.default_rng(0)
    parameters = data._start(rng)
    tokens = data._texts(data.text()[0], rng.integers(0, 1000, 3))
    mask = data.diagonals({-3, -1, 0, 2})
    _, gradients = data._loss_and_gradients(parameters, tokens, mask, self_attention)
    step = 1e-5
    for name, gradient in gradients.items():
        along = rng.standard_normal(gradient.shape)
        losses = []
        for way in (step, -step):
            moved = parameters | {name: parameters[name] + way * along}
            losses.append(data._forward(moved, tokens, mask, self_attention)[0].mean())
        slope = np.log(2) * (losses[0] - losses[1]) / (2 * step)
        assert slope == pytest.approx((gradient * along).sum(), rel=1e-5, abs=1e-7), name


def test_the_module_s_own_attention_is_the_chapter_s() -> None:
    rng = np.random.default_rng(1)
    x, (w_q, w_k, w_v) = rng.standard_normal((2, 5, 4)), rng.standard_normal((3, 4, 4))
    mask = np.array([[0, 0, 0, 0, 0], *np.tril(np.ones((5, 5)))[1:]], bool)
    for one, other in zip(
        data.plain_attention(x, w_q, w_k, w_v, mask),
        self_attention(x, w_q, w_k, w_v, mask),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_a_look_ahead_is_learned_and_of_no_use_in_writing() -> None:
    honest = data.train(data.plain_attention, data.causal(), steps=150, rate=0.02)
    cheat = data.train(
        data.plain_attention, data.diagonals(set(range(-15, 2))), steps=150, rate=0.02
    )
    assert data.bits(cheat).mean() < 0.2 < 0.5 < data.bits(honest).mean() < 1.2
    assert data.bits(cheat, data.causal()).mean() > 3
    lines = [data.write(model, lines=40, letters=30) for model in (honest, cheat)]
    assert {len(line) for line in lines[0]} == {30}
    assert data.real_words(lines[1]) < 0.3 < 0.6 < data.real_words(lines[0])


@pytest.mark.parametrize(
    ("attention", "told"),
    [
        (lambda x, w_q, w_k, w_v, mask: (x[:, :1], x), "got shapes"),
        (lambda x, w_q, w_k, w_v, mask: (x * np.nan, x @ np.swapaxes(x, 1, 2)), "NaN"),
    ],
)
def test_a_wrong_attention_is_refused(attention: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        data.train(attention, data.causal(), steps=1)


def test_the_table_says_what_the_chapter_says() -> None:
    table = data.table()
    counts = table.pop("counted")
    past, one, two, itself = (table[arm] for arm in table)
    assert counts["6"] < min(past["trained"])
    assert max(one["trained"]) < 1e-3 < max(two["trained"]) < min(past["trained"])
    assert min(itself["trained"]) == pytest.approx(counts["1"], abs=0.02)
    assert past["trained"] == past["alone"]
    assert max(one["words"]) < 0.02
    assert max(two["words"]) < 0.1
    assert min(past["words"]) > 0.95
    for found in table.values():
        assert len(found["trained"]) == 5
        rates = sorted(map(float, found["tried"]))
        assert rates[0] < found["rate"] < rates[-1], "the best rate lies within those tried"


def test_a_run_of_the_script_agrees_with_the_table(script: Any) -> None:
    """One seed of the cheapest claim: looking ahead, which no rounding can spoil."""
    found = data.table()["the past, two ahead"]
    again = script.run("the past, two ahead", found["rate"], 0)
    assert again["trained"] == pytest.approx(found["trained"][0], abs=0.03)
    assert again["alone"] > 3
    assert again["words"] < 0.15


def test_counts_lean_on_shorter_ones() -> None:
    assert data.counted(1) == pytest.approx(data.table()["counted"]["1"], abs=1e-4)
