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
    np.testing.assert_array_equal(given.keys[:, :6], given.keys[:, 12:])
    np.testing.assert_array_equal(given.due[0], np.arange(18) >= 12)


def test_right_is_the_nearest_code():
    given = task(0, 8)
    assert given.right(given.values).all()
    guessed = task(1, 500).right(np.random.default_rng(0).standard_normal((MEMORIES, 500, VALUE)))
    assert guessed.mean() == pytest.approx(1 / CODES, abs=0.004)


@pytest.mark.parametrize("arm", ARMS)
def test_no_arm_keeps_more_than_its_budget(arm, monkeypatch):
    """Counted from the sizes of what each arm stores; the control is over it, and told to be."""
    pairs, kept = 64, []
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
                kept.append(MEMORIES * (width * VALUE + width))
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
    if arm == "softmax, all kept":
        assert set(kept) == {MEMORIES * pairs * 96}
    else:
        assert 0.9 * NUMBERS * MEMORIES < min(kept) <= max(kept) <= NUMBERS * MEMORIES


def test_options_are_chosen_inside_their_range_where_it_matters():
    rows = race(USE, ("random features", "delta rule"), pairs=64)
    for row in rows:
        options = ARMS[row["arm"]][1]
        assert row["option"] not in (options[0], options[-1])


def test_the_text_says_what_a_run_gives_at_64_pairs():
    """Ordering that holds for every pair of runs, and the ranges that are printed."""
    rows = race(USE, pairs=64)
    found = {arm: spread(rows, arm) for arm in ARMS}
    assert found["softmax, all kept"] == (100, 100)
    order = [
        "softmax, all kept",
        "delta rule",
        "sum",
        "softmax, cache",
        "random features",
        "elu + 1",
    ]
    for better, worse in itertools.pairwise(order):
        assert found[better][0] > found[worse][1]
    assert found["delta rule"] == pytest.approx((48, 51), abs=2)
    assert found["sum"] == pytest.approx((41, 45), abs=2)
    assert found["softmax, cache"] == pytest.approx((36, 37), abs=2)
    ages = {row["arm"]: row["by_age"] for row in rows}
    assert ages["delta rule"] == sorted(ages["delta rule"])
    assert ages["softmax, cache"][0] < 5 < 90 < ages["softmax, cache"][-1]


def test_positive_features_fail_by_what_they_have_in_common():
    """As the text says: without their mean, elu + 1 is as good as the sum."""
    found = []
    for seed in SEEDS:
        given = task(seed, 64)
        keys, asked = equal_bytes.narrowed(np.random.default_rng([seed, 1]), given, 31)
        keys, asked = (answers.elu_plus_one(1000 * x) for x in (keys, asked))
        mean = keys.mean(axis=1, keepdims=True)
        memory = np.swapaxes(keys - mean, -1, -2) @ given.values
        found.append(100 * given.right((asked - mean) @ memory).mean())
    assert (min(found), max(found)) == pytest.approx((42, 47), abs=1)


def test_the_text_says_what_writing_again_does():
    rows = race(USE, pairs=24, times=3)
    assert spread(rows, "sum")[1] < 100 / 3
    assert spread(rows, "softmax, all kept")[1] < 40
    assert spread(rows, "delta rule") == pytest.approx((79, 83), abs=3)
    assert spread(rows, "softmax, cache")[0] > spread(rows, "delta rule")[1]
    assert {row["option"][0] for row in rows if row["arm"] == "softmax, cache"} == {8}
