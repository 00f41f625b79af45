"""What chapter 02 ships: translators side by side, their table, and the film of two of them."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attend.data import date_translators, dates
from attend_solutions.alignment import attention_decoder_step, encode

HERE = Path(__file__).resolve().parents[1] / "02_alignment"
ARMS = date_translators.ARMS


@pytest.fixture(scope="module")
def script() -> Any:
    """The chapter's training script, as a module."""
    sys.path.insert(0, str(HERE))
    try:
        yield import_module("train")
    finally:
        sys.path.remove(str(HERE))
        sys.modules.pop("train", None)


def test_no_test_or_validation_sentence_is_trained_on() -> None:
    train, judge, test = date_translators.data()
    for others in (judge, test):
        assert sum(len(source) for source, _ in others.values()) > 950
        for key, (source, target) in others.items():
            seen = {tuple(row) for row in train[key][0].tolist()} if key in train else set()
            assert not seen & {tuple(row) for row in source.tolist()}
            assert source.shape == (len(target), key[0])
            assert target.shape == (len(target), key[1])


@pytest.mark.parametrize("arm", ARMS)
def test_side_by_side_is_the_chapters_translator(arm: str) -> None:
    """Two translators in one batch, against the answers of the exercises, one by one."""
    weights = date_translators.start([3, 4], 12, 8)
    source, target = next(iter(date_translators.data()[2].values()))
    source, target = source[:5], target[:5]
    both = date_translators.loss(arm, weights, source.expand(2, -1, -1), target.expand(2, -1, -1))
    for run in range(2):
        w = {name: value[run] for name, value in weights.items()}
        cells = [tuple(w[f"{k}.{i}"] for i in range(4)) for k in ("forward", "backward", "cell")]
        encoded = encode(w["source_words"][source], cells[0], cells[1])
        ends = torch.cat([encoded[:, -1, :6], encoded[:, 0, 6:]], dim=-1)
        state, word, told = torch.tanh(ends @ w["start"]), torch.zeros_like(target[:, 0]), []
        if arm == "fixed vector":
            encoded = ends[:, None]
        elif arm == "plain mean":
            encoded = encoded.mean(dim=1, keepdim=True)
        for t in range(target.shape[1]):
            latest = w["target_words"][word]
            state, context, _ = attention_decoder_step(latest, state, encoded, None, cells[2])
            scores = torch.cat([state, context], dim=-1) @ w["to_words"]
            told.append(torch.nn.functional.cross_entropy(scores, target[:, t]))
            word = target[:, t]
        # float32, sums of some hundred products: 1e-4 is a wide margin
        torch.testing.assert_close(both[run], torch.stack(told).mean(), rtol=1e-4, atol=1e-4)


def test_the_table_has_every_arm_width_and_number_of_steps(script: Any) -> None:
    found = {(e["arm"], e["width"], e["steps"]) for e in date_translators.table()}
    assert found == {(a, w, s) for a in ARMS for w in script.WIDTHS for s in script.STEPS}
    for entry in date_translators.table():
        assert len(entry["runs"]) == 5
        assert entry["rate"] == script.best_rate(entry["tuning"])
        rates = sorted(map(float, entry["tuning"]))
        assert rates[0] < entry["rate"] < rates[-1], "the best rate is not at an end"
        assert all(0 <= right <= count for run in entry["runs"] for right, count in run.values())


@pytest.mark.parametrize("arm", ARMS)
def test_a_short_rerun_follows_the_same_losses(script: Any, arm: str) -> None:
    """The first 20 steps, where rounding has not been amplified yet: 1 % is a wide margin."""
    entry = next(
        e for e in date_translators.table() if (e["arm"], e["width"], e["steps"]) == (arm, 24, 160)
    )
    _, losses, _ = script.runs(arm, 24, 160, script.SEEDS, [entry["rate"]] * 5, stop=21)
    for at, kept in zip((0, 10, 20), entry["losses"], strict=True):
        np.testing.assert_allclose(losses[at], kept, rtol=1e-2)


def test_of_equal_rates_the_smallest_is_taken(script: Any) -> None:
    assert script.best_rate({"0.01": 0.5, "0.02": 0.9, "0.04": 0.9}) == 0.02


def test_the_film_learns_to_look() -> None:
    film = date_translators.film()
    assert [frame.step for frame in film] == sorted(frame.step for frame in film)
    assert film[0].step == 0
    assert date_translators.FILM.stat().st_size < 300_000
    words = ["saturday", "the", "7th", "of", "march", "1987", "and", "may", "2", "2004"]
    goals, hits = dates.aligned(words), []
    for frame in (film[0], film[-1]):
        written, looked = date_translators.translate("attention", frame.attention, words)
        hits.append(sum(int(looked[t].argmax()) == goal for t, goal in enumerate(goals)))
    assert hits[0] < 3
    assert hits[1] == 6
    assert written == dates.translation(words)
    fixed, _ = date_translators.translate("fixed vector", film[-1].fixed, words)
    assert fixed != written


def test_a_hidden_word_gets_no_weight() -> None:
    words, frame = ["7", "march", "1987", "and", "may", "2", "2004"], date_translators.film()[-1]
    written, looked = date_translators.translate("attention", frame.attention, words, [6])
    assert (looked[:, 6] == 0).all()
    np.testing.assert_allclose(looked.sum(axis=1), 1, rtol=1e-5)
    assert "2004" not in written


def test_packed_weights_are_near_the_weights() -> None:
    weights = date_translators.start([1], 12, 8)
    again = date_translators.unpack(*date_translators.pack(weights), 12, 8)
    assert list(again) == list(weights)
    for name, value in weights.items():
        step = value.abs().amax(dim=-1, keepdim=True) / 127
        # half a step of rounding; a scale in half precision is off by up to 2⁻¹¹, 127 times
        assert ((again[name] - value).abs() <= 0.6 * step + 1e-4).all(), name


@pytest.mark.deep
def test_the_films_translators_are_as_good_as_the_script_says(script: Any) -> None:
    frame, test = date_translators.film()[-1], date_translators.data()[2]
    assert script.total(script.marks("attention", frame.attention, test)[0]) > 0.9
    assert script.total(script.marks("fixed vector", frame.fixed, test)[0]) < 0.4


def test_the_film_is_what_the_script_trains(script: Any) -> None:
    """Both frames to step 40, up to 8 bits a number: a row's step is its largest number / 127."""
    size = (script.FILM_WIDTH, script.FILM_STEPS[-1], [script.FILM_SEED], [script.FILM_RATE])
    for arm, kept in (("attention", "attention"), ("fixed vector", "fixed")):
        _, _, again = script.runs(arm, *size, script.FILM_NUMBERS, stop=41, keep=(0, 40))
        for frame, step in zip(date_translators.film(), (0, 40), strict=False):
            for name, value in again[step].items():
                row = value.abs().amax(dim=-1, keepdim=True) / 127
                gap = (getattr(frame, kept)[name] - value).abs()
                assert (gap <= 0.6 * row + 5e-3).all(), (arm, step, name)
