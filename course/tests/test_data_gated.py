"""What chapter 22 ships: its two races, its table of five arms, and the model that writes."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attend.data import fading_recall, gated_words, mamba_words
from attend_solutions import gated_recurrence
from attend_solutions.gated_recurrence import gated_linear_attention, token_shift
from attend_solutions.linear_attention import recurrent_form

HERE = Path(__file__).resolve().parents[1] / "22_gated_recurrence"
ARMS = ("sum", "fixed decays", "gated", "softmax, cache", "softmax, all")
USE = {
    name: getattr(gated_recurrence, name)
    for name in ("retention_chunked", "gated_linear_attention", "delta_rule_chunked")
}


@pytest.fixture(scope="module")
def script() -> Any:
    """The chapter's training script, as a module."""
    sys.path.insert(0, str(HERE))
    try:
        yield import_module("train")
    finally:
        sys.path.remove(str(HERE))
        sys.modules.pop("train", None)


# --- the races


def test_documents_write_the_same_keys_again_with_other_codes() -> None:
    given = fading_recall.task(0, documents=3, pairs=5, due=(1, 5))
    assert given.keys.shape == (fading_recall.TEXTS, 15, 64)
    np.testing.assert_allclose(np.linalg.norm(given.keys, axis=-1), 1.0)
    np.testing.assert_array_equal(np.flatnonzero(given.starts), [0, 5, 10])
    np.testing.assert_array_equal(given.due, [14, 10])
    for row in given.keys:
        first, last = ({key.tobytes() for key in row[part]} for part in (slice(5), slice(10, 15)))
        assert first == last
        assert len(first) == 5
    assert (given.which[:, :5] != given.which[:, 10:]).mean() > 0.9


def test_gates_that_are_told_forget_all_but_the_last_document() -> None:
    given = fading_recall.task(1, documents=3, pairs=5, due=range(1, 6))
    rng = [np.random.default_rng(2) for _ in range(2)]
    answer = fading_recall.gated(USE, given, rng[0], 0)
    keys, asked = fading_recall.narrowed(rng[1], given, 32)
    last = slice(10, None)
    _, memory = recurrent_form(keys[:, last], keys[:, last], given.values[:, last])
    np.testing.assert_allclose(answer, asked @ memory, atol=1e-12)


def test_every_memory_but_the_control_has_1024_numbers() -> None:
    for width, _, most in fading_recall.CACHES:
        pairs = min(most, fading_recall.NUMBERS // (width + fading_recall.VALUE))
        assert pairs * (width + fading_recall.VALUE) <= fading_recall.NUMBERS
    assert 32 * fading_recall.VALUE == fading_recall.NUMBERS


def test_a_cache_recalls_what_it_holds_and_nothing_else() -> None:
    rows = fading_recall.by_age({}, {"cache": ("softmax, cache", (32, 4, 99))}, 64)
    recalled = {age: [r["right"] for r in rows if r["age"] == age] for age in (1, 2, 4, 8, 16, 64)}
    assert all(min(recalled[age]) == 100 for age in (1, 2, 4, 8, 16))
    assert max(recalled[64]) < 5
    assert {row["seed"] for row in rows} == set(fading_recall.SEEDS)


def test_a_race_tunes_on_other_seeds_than_it_runs() -> None:
    assert not set(fading_recall.TUNING) & set(fading_recall.SEEDS)
    rows = fading_recall.race(USE, ("one decay",), documents=4, pairs=6, due=range(1, 7))
    assert len(rows) == len(fading_recall.SEEDS) == 5
    assert len({row["option"] for row in rows}) == 1
    assert rows[0]["option"] in fading_recall.DECAYS


# --- the table of arms


def test_the_table_has_every_arm_seed_and_length(script: Any) -> None:
    assert set(gated_words.table()) == {*ARMS, gated_words.COUNTS}
    for arm in ARMS:
        found = gated_words.table()[arm]
        assert found["rate"] == float(min(found["tuning"], key=lambda r: sum(found["tuning"][r])))
        assert set(map(float, found["tuning"])) == set(script.RATES)
        assert len(found["losses"]) == len(script.SEEDS) == 5
        for length in script.LENGTHS:
            assert len(found["bits"][str(length)]) == 5
    assert len(gated_words.rows()) == 2 * (5 * len(ARMS) + 1)


def test_arms_have_nearly_as_many_numbers_and_memories_as_many_bytes(script: Any) -> None:
    numbers = [gated_words.table()[arm]["numbers"] for arm in ARMS]
    assert max(numbers) < 1.1 * min(numbers)
    depth = script.WIDTH // script.HEADS
    window = script.Model("softmax, cache").layers[0].window
    assert window * 2 * script.WIDTH == script.HEADS * depth * depth


@pytest.mark.parametrize("arm", ARMS)
def test_a_short_rerun_follows_the_same_curve(script: Any, arm: str) -> None:
    """The text differs between Pythons, so only the early steps are near: 5 %."""
    found = gated_words.table()[arm]
    _, losses = script.run(arm, found["rate"], script.SEEDS[0], stop=21)
    np.testing.assert_allclose([losses[0], losses[20]], found["losses"][0][:2], rtol=5e-2)


# --- the model that writes


def test_the_writers_short_rerun_follows_its_curve(script: Any) -> None:
    losses = script.words(stop=21)
    np.testing.assert_allclose([losses[0], losses[20]], gated_words.curve()[:2], rtol=5e-2)


def test_the_writer_is_about_as_good_as_a_table_of_four_letters() -> None:
    """On the text that section 5's cell measures; it differs a little between Pythons."""
    read, unseen = gated_words.text()
    rows = unseen[: len(unseen) // 512 * 512].reshape(-1, 512)[::5]
    scores, _ = gated_words.read(rows[:, :-1], token_shift, gated_linear_attention)
    made = gated_words.bits(scores, rows[:, 1:]).mean()
    counted = mamba_words.table_bits(torch.from_numpy(read), torch.from_numpy(rows.copy())).mean()
    np.testing.assert_allclose([made, float(counted)], [1.95, 1.98], atol=0.1)


def test_the_scripts_model_is_the_one_that_runs_on_learners_functions(script: Any) -> None:
    model = script.Model("gated", script.WORDS_WIDTH, gated_words.HEADS).double()
    for name, value in model.named_parameters():
        value.data = torch.from_numpy(gated_words.weights()[name.removeprefix("layers.")])
    tokens = gated_words.text()[1][:64].reshape(2, 32)
    with torch.no_grad():
        want = model(torch.from_numpy(tokens)).numpy()
    whole, _ = gated_words.read(tokens, token_shift, gated_linear_attention)
    np.testing.assert_allclose(whole, want, atol=1e-9)
    states, parts = None, []
    for part in (tokens[:, :5], tokens[:, 5:]):
        scores, states = gated_words.read(part, token_shift, gated_linear_attention, states)
        parts.append(scores)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), want, atol=1e-9)


def test_the_writer_is_small_and_beats_counting_letters() -> None:
    """Six and a half bits are a code of 96 letters; letters alone need between 4 and 5."""
    assert gated_words.WEIGHTS.stat().st_size <= 300_000
    rows = gated_words.text()[1][: 4 * 256].reshape(4, 256)
    scores, _ = gated_words.read(rows[:, :-1], token_shift, gated_linear_attention)
    assert gated_words.bits(scores, rows[:, 1:]).mean() < 3


def test_bits_are_a_softmaxs() -> None:
    scores, tokens = np.random.default_rng(0).normal(size=(3, 5, 96)), np.arange(15).reshape(3, 5)
    nats = torch.nn.functional.cross_entropy(
        torch.from_numpy(scores).flatten(0, 1), torch.from_numpy(tokens).flatten(), reduction="none"
    )
    np.testing.assert_allclose(
        gated_words.bits(scores, tokens).ravel(), nats.numpy() / np.log(2), rtol=1e-12
    )


def test_text_and_numbers_are_each_others_inverse() -> None:
    words = "def f(x):\n    return x ~ 1"
    assert gated_words.decode(gated_words.encode(words)) == words
    assert gated_words.decode(gated_words.encode("naïve")) == "nave"
    read, held_out = gated_words.text()
    assert len(read) > 8 * len(held_out) > 100_000
