"""Chapter 15's race at equal bytes: its task, its budgets, and what the text says of it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from attend.data import equal_bytes
from attend.data.equal_bytes import ARMS, CODES, MEMORIES, NUMBERS, SEEDS, VALUE, race, run, task
from attend_solutions import attention as softmax_answers
from attend_solutions import linear_attention as answers

USE = {
    name: getattr(answers, name)
    for name in ("recurrent_form", "linear_attention", "performer_attention", "delta_rule_update")
}


def spread(rows: list[dict[str, Any]], arm: str) -> tuple[float, float]:
    """Smallest and largest percentage of an arm's runs."""
    found = [row["right"] for row in rows if row["arm"] == arm]
    assert len(found) == len(SEEDS)
    return min(found), max(found)


def test_the_task_asks_for_each_key_once_by_a_noisy_copy():
    given = task(0, 10, noise=0.5)
    assert given.keys.shape == given.asked.shape == (MEMORIES, 10, 64)
    assert given.due.all()
    similar = (given.keys * given.asked).sum(axis=-1)
    assert 0.7 < similar.min() < similar.max() < 1
    np.testing.assert_array_equal(task(0, 10).which, given.which)
    assert not np.array_equal(task(1, 10).which, given.which)


def test_keys_written_again_are_due_with_their_last_value():
    given = task(0, 6, times=3)
    for keys, due in zip(given.keys, given.due, strict=True):
        places = [np.flatnonzero((keys == key).all(axis=1)) for key in np.unique(keys, axis=0)]
        assert [len(p) for p in places] == [3] * 6
        np.testing.assert_array_equal(np.flatnonzero(due), np.sort([p[-1] for p in places]))


@pytest.mark.parametrize(("width", "value"), [(64, 32), (24, 16), (8, 2)])
def test_narrowing_keeps_angles_as_well_as_its_width_allows(width, value):
    given, few = (
        task(0, 8),
        equal_bytes.narrowed(np.random.default_rng(0), task(0, 8), width, value),
    )
    assert few.keys.shape == (MEMORIES, 8, width)
    assert few.values.shape == (MEMORIES, 8, value)
    assert few.right(few.values).all()
    for array in (few.keys, few.asked, few.codes):
        np.testing.assert_allclose(np.linalg.norm(array, axis=-1), 1)
    if width == 64:  # a rotation
        angles = (given.keys @ np.swapaxes(given.asked, -1, -2)).ravel()
        turned = (few.keys @ np.swapaxes(few.asked, -1, -2)).ravel()
        np.testing.assert_allclose(turned, angles, rtol=0, atol=1e-12)


def test_right_is_the_nearest_code():
    given = task(0, 8)
    assert given.right(given.values).all()
    guessed = task(1, 500).right(np.random.default_rng(0).standard_normal((MEMORIES, 500, VALUE)))
    assert guessed.mean() == pytest.approx(1 / CODES, abs=0.004)


@pytest.mark.parametrize("arm", ARMS)
def test_no_arm_keeps_more_than_its_budget(arm, monkeypatch):
    """Counted from the sizes of what each arm stores; the control is over it, and told to be."""
    pairs, kept = 160, []
    watched = {}

    def watch(name: str, *places: int) -> None:
        def counted(*args: Any) -> Any:
            result = USE[name](*args)
            if name == "recurrent_form":
                kept.append(result[1].size)
            elif name == "delta_rule_update":
                kept.append(result.size)
            else:  # a memory and the sum of the keys
                width = len(args[3]) if name == "performer_attention" else args[1].shape[-1]
                kept.append(MEMORIES * (width * args[2].shape[-1] + width))
            return result

        watched[name] = counted

    for name in USE:
        watch(name)
    attention = softmax_answers.scaled_dot_product_attention

    def counted_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> Any:
        kept.append(k.size + v.size)
        return attention(q, k, v)

    monkeypatch.setattr(softmax_answers, "scaled_dot_product_attention", counted_attention)
    for option in ARMS[arm][1]:
        run(watched, arm, option, 0, pairs=pairs)
    assert kept
    if "all kept" in arm:  # with a place for each pair, where that counts
        assert set(kept) == {MEMORIES * pairs * (97 if "recent" in arm else 96)}
    else:
        assert 0.9 * NUMBERS * MEMORIES < min(kept) <= max(kept) <= NUMBERS * MEMORIES


@pytest.fixture(scope="module")
def at_64() -> list[dict[str, Any]]:
    return race(USE, equal_bytes.ONCE, pairs=64)


def test_widths_are_chosen_inside_their_range(at_64):
    """Of values the least width is as wide as two numbers; lengths level off at their end."""
    for arm, place in (("delta rule", 0), ("delta rule", 1), ("softmax, cache", 0)):
        tried = sorted({option[place] for option in ARMS[arm][1]})
        chosen = {row["option"][place] for row in at_64 if row["arm"] == arm}
        assert len(chosen) == 1
        assert chosen.isdisjoint({tried[0], tried[-1]})


@pytest.mark.parametrize("pairs", [8, 64, 128])
def test_the_number_of_features_is_chosen_inside_its_range(pairs):
    tried = sorted({features for features, _ in ARMS["random features"][1]})
    chosen = {row["option"][0] for row in race(USE, ("random features",), pairs=pairs)}
    assert chosen.isdisjoint({tried[0], tried[-1]})


def test_the_text_says_what_a_run_gives_at_64_pairs(at_64):
    """Which arm is ahead in every run, and the ranges that are printed."""
    found = {arm: spread(at_64, arm) for arm in equal_bytes.ONCE}
    assert found["softmax, all kept"] == (100, 100)
    order = ["softmax, cache", "sum", "random features", "elu + 1"]
    for better, worse in itertools.pairwise(order):
        assert found[better][0] > found[worse][1]
    assert found["softmax, cache"] == pytest.approx((97, 99), abs=1)
    assert found["delta rule"] == pytest.approx((63, 69), abs=2)
    assert found["sum"] == pytest.approx((58, 67), abs=2)


def test_the_text_says_what_is_forgotten_at_128_pairs():
    rows = race(USE, ("sum", "delta rule", "softmax, cache"), pairs=128)
    assert spread(rows, "softmax, cache") == pytest.approx((64, 67), abs=2)
    assert spread(rows, "delta rule") == pytest.approx((32, 37), abs=2)
    assert spread(rows, "sum") == pytest.approx((28, 33), abs=2)
    options = [row["option"] for row in rows if row["arm"] == "softmax, cache"]
    assert {NUMBERS // (width + value) for width, value, _ in options} == {102}
    ages = {
        arm: np.mean([row["by_age"] for row in rows if row["arm"] == arm], axis=0)
        for arm in ("sum", "delta rule", "softmax, cache")
    }
    assert np.ptp(ages["sum"]) < 3
    assert (np.diff(ages["delta rule"]) > 5).all()
    assert ages["softmax, cache"][0] < 25 < 75 < ages["softmax, cache"][1:].min()


@pytest.mark.deep
def test_the_text_says_what_writing_again_does():
    rows = race(USE, pairs=24, times=3)
    assert spread(rows, "sum")[1] < 100 / 3
    assert spread(rows, "softmax, all kept")[1] < 40
    assert spread(rows, "softmax, cache") == pytest.approx((50, 59), abs=3)
    assert spread(rows, "delta rule") == pytest.approx((85, 93), abs=3)
    assert spread(rows, "cache, replacing")[0] > 99
    assert spread(rows, "cache, recent first") == pytest.approx((98, 100), abs=1)
    assert spread(rows, "all kept, recent first") == pytest.approx((99, 100), abs=1)
    recent = next(row["option"] for row in rows if row["arm"] == "cache, recent first")
    for place in (0, 1, 3):
        tried = sorted({option[place] for option in ARMS["cache, recent first"][1]})
        assert recent[place] not in (tried[0], tried[-1])


@pytest.mark.deep
def test_the_text_says_that_few_codes_turn_the_order():
    """Of 512 pairs a matrix recalls more than the cache if a code is one of 4, not one of 256."""
    arms = ("sum", "delta rule", "softmax, cache")
    many, few = (race(USE, arms, pairs=512, codes=codes) for codes in (256, 4))
    assert spread(many, "softmax, cache") == pytest.approx((16, 17), abs=1)
    assert spread(many, "delta rule") == pytest.approx((8, 8), abs=1)
    assert spread(few, "softmax, cache") == pytest.approx((36, 39), abs=1)
    for arm in ("sum", "delta rule"):
        assert spread(few, arm) == pytest.approx((40, 44), abs=1)
        assert spread(few, arm)[0] > spread(few, "softmax, cache")[1]
    assert {sum(row["option"][:2]) for row in few if row["arm"] == "softmax, cache"} == {10}
