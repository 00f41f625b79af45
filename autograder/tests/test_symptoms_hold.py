"""What a card says holds of every call that was made, those on the card among them."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
from attend_grader import chapters
from attend_grader.checks.edited import variants
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.mutation import to_write
from attend_grader.checks.subject import local
from attend_grader.checks.symptoms import symptom
from attend_grader.judging.run import run_properties
from attend_solutions.attention import attention_scores, softmax
from attend_solutions.flash import (
    expect_shapes,
    expect_window,
    flash_forward,
    hbm_traffic,
    online_softmax,
    tiles,
    tiles_needed,
)

ONLINE, MERGE, FORWARD, NEEDED, TRAFFIC = (
    chapters.exercise(f"16_flash/{name}")
    for name in (
        "online_softmax",
        "merge_partials",
        "flash_forward",
        "tiles_needed",
        "hbm_traffic",
    )
)
ATTENTION = chapters.exercise("03_attention/scaled_dot_product_attention")


def _told(wrong: Any, exercise: Exercise) -> str:
    """The symptom, once the properties have made their calls."""
    subject = local(wrong)
    run_properties(subject, exercise, 1, extra=False)
    return symptom(subject, exercise) or ""


def test_too_large_is_said_of_the_calls_that_were_counted() -> None:
    def for_each_pair(queries: int, keys: int, width: int, *rest: Any, **more: Any) -> Any:
        right = hbm_traffic(queries, keys, width, *rest, **more)
        return right + (len(tiles(keys, rest[1])) - 1) * queries * width

    said = _told(for_each_pair, TRAFFIC)  # right where there is one tile of keys only
    assert said == "In the calls tried that went wrong, your result is too large."


def test_calls_are_counted_once() -> None:
    def no_window_of_0(
        queries: int,
        keys: int,
        width: int,
        tile_q: int,
        tile_k: int,
        causal: bool = False,
        window: int | None = None,
        itemsize: int = 2,
    ) -> int:
        sizes = queries, keys, width, tile_q, tile_k
        return hbm_traffic(*sizes, causal, window or None, itemsize)

    said = _told(no_window_of_0, TRAFFIC)
    assert re.fullmatch(
        r"Wrong in \d+ of \d+ calls tried, just those where window is zero. "
        "There, the result is what comes out as if window were left out.",
        said,
    )


def test_as_if_an_argument_were_left_out_counts_calls_that_pass_it_by_its_place() -> None:
    def under_causal_only(
        queries: int,
        keys: int,
        width: int,
        tile_q: int,
        tile_k: int,
        causal: bool = False,
        window: int | None = None,
        itemsize: int = 2,
    ) -> int:
        sizes = queries, keys, width, tile_q, tile_k
        expect_window(window)
        return hbm_traffic(*sizes, causal, window if causal else None, itemsize)

    said = _told(under_causal_only, TRAFFIC)
    assert re.fullmatch(
        r"Wrong in \d+ of \d+ calls tried, all of them calls where (window is given and )?causal "
        "is False. There, the result is what comes out as if window were left out.",
        said,
    )


def test_what_a_check_saw_come_out_right_is_not_said_to_be_wrong() -> None:
    def divided(*given: Any) -> Any:
        m, total, a = online_softmax(*given)  # with a first tile of one key the sum is 1
        return m, total, a / np.where(total == 0, 1, total)[..., None]

    said = _told(divided, ONLINE)
    assert said.startswith("In the calls tried that went wrong, accumulator is nearer to 0 than ")


def test_of_one_wrong_result_nothing_is_said_of_each_of_them() -> None:
    def larger(output: Any, lse: Any, other: Any, other_lse: Any) -> Any:
        return MERGE.reference(output, lse, other, other_lse)[0], np.maximum(lse, other_lse)

    said = _told(larger, MERGE)
    assert "of your results, lse is wrong; output is right." in said


def test_a_line_that_is_given_is_not_blamed() -> None:
    for exercise in (FORWARD, NEEDED):
        lines = inspect.getsource(exercise.reference).splitlines()
        (given,) = [n for n, line in enumerate(lines, start=1) if line.startswith("    expect_")]
        written = to_write(exercise.reference)
        assert written is not None
        assert given not in written
        assert any("`tiles`" in variant.told for variant in variants(exercise.reference))
        assert not any("`expect_" in variant.told for variant in variants(exercise.reference))


def test_only_what_is_returned_is_called_a_result() -> None:
    told = [v.told for v in variants(ONLINE.reference) if "exchanged" in v.told]
    assert told.count("two results were exchanged") == 1
    axes = [v.told for v in variants(ONLINE.reference) if "another axis" in v.told]
    assert any("an index stood on another axis" in each for each in axes)


def test_errors_of_other_causes_are_not_the_same() -> None:
    def narrow(q: Any, k: Any, v: Any, tile_q: int = 64, tile_k: int = 64) -> Any:
        expect_shapes(q, k, v)
        output, lse = flash_forward(q, k, v, tile_q, tile_k)
        made = np.zeros(q.shape)
        made[...] = output  # a ValueError where D_v is neither D nor 1
        return made, lse

    said = _told(narrow, FORWARD)
    assert "exchanged" not in said
    assert said


def test_the_log_keeps_calls_as_they_were_made() -> None:
    subject = local(lambda x: x + 1)
    given = np.zeros(2)
    subject.run((given,))
    given[0] = 7
    assert subject.log[0].args[0].tolist() == [0, 0]


def test_integers_are_named_though_a_check_writes_into_its_scores() -> None:
    def cut(running_max: Any, running_sum: Any, accumulator: Any, scores: Any, values: Any) -> Any:
        new = np.maximum(running_max, scores.max(axis=-1))
        base = np.where(np.isneginf(new), 0.0, new)
        made, old = np.zeros_like(scores), np.exp(running_max - base)
        made[...] = np.exp(scores - base[..., None])
        return new, old * running_sum + made.sum(-1), old[..., None] * accumulator + made @ values

    assert "just those where scores holds integers." in _told(cut, ONLINE)


def test_the_kind_of_mistake_is_told_of_truth_values() -> None:
    def no_last_tile(*given: Any, **options: Any) -> Any:
        needed = tiles_needed(*given, **options)
        needed[:, -1] = False
        return needed

    said = _told(no_last_tile, NEEDED)
    told = (
        "In all calls tried, your result is False at places where True "
        "belongs, never the other way round."
    )
    assert said == told


def test_values_that_are_right_in_another_type_are_not_called_wrong() -> None:
    def like_the_values(q: Any, k: Any, v: Any) -> Any:
        weights = softmax(attention_scores(q, k))
        return (weights @ v).astype(v.dtype), weights  # whole, where one key takes all the weight

    said = _told(like_the_values, ATTENTION)
    assert "values are wrong in" in said
    assert "just those where v holds integers." not in said


def test_a_form_that_some_calls_have_is_said_of_those() -> None:
    def list_of_rows(queries: int, *rest: Any, **more: Any) -> Any:
        right = tiles_needed(queries, *rest, **more)
        return [*right] if right.all() else right

    said = _told(list_of_rows, NEEDED)
    assert "list" in said
    assert not said.startswith("A list is returned")


def test_one_of_several_results_in_some_calls_is_said_of_those() -> None:
    def alone(m: Any, total: Any, a: Any, scores: Any, values: Any) -> Any:
        found = online_softmax(m, total, a, scores, values)
        return found[2] if scores.shape[-1] > 1 else found

    said = _told(alone, ONLINE)
    assert "accumulator" in said
    assert not said.startswith("Only accumulator is returned")
