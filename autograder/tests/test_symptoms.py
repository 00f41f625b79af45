"""Symptoms: each sentence is found where it is true, and for the same reason every time."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from attend_grader import chapters
from attend_grader.checks.as_if import as_if
from attend_grader.checks.cases import observe
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.facts import fact
from attend_grader.checks.subject import local
from attend_grader.checks.symptoms import MISSING, symptom, there_after_all
from attend_grader.checks.wording import inside
from attend_grader.judging.judge import judge
from attend_grader.judging.run import run_properties
from attend_solutions.alignment import hard_attention_sample
from attend_solutions.attention import attention_backward, softmax
from attend_solutions.block import (
    RepairedBlock,
    TransformerBlock,
    feed_forward,
    layer_norm,
)
from attend_solutions.flash import merge_partials
from attend_solutions.gated_recurrence import retention_parallel, rg_lru
from attend_solutions.linear_attention import chunked_form, positive_random_features
from attend_solutions.mamba import mamba_step, raw_scan, selective_scan
from attend_solutions.recurrence import lstm_cell
from attend_solutions.state_spaces import s4d_kernel

SOFTMAX, SCORES, ATTENTION, BACKWARD = (
    chapters.exercise(f"03_attention/{name}")
    for name in (
        "softmax",
        "attention_scores",
        "scaled_dot_product_attention",
        "attention_backward",
    )
)
CELL, LSTM = (chapters.exercise(f"01_recurrence/{name}") for name in ("rnn_step", "lstm_cell"))
JACOBIAN = chapters.exercise("03_attention/softmax_jacobian")
REPAIRED = chapters.exercise("03_attention/repaired_backward")

RAW = chapters.exercise("24_mamba/raw_scan")
STEP = chapters.exercise("24_mamba/mamba_step")
KERNEL = chapters.exercise("23_state_spaces/s4d_kernel")
DELTA = chapters.exercise("15_linear_attention/delta_rule_update")
PERFORMER = chapters.exercise("15_linear_attention/performer_attention")
MERGE = chapters.exercise("16_flash/merge_partials")
SEGSUM = chapters.exercise("25_mamba_kernels/segsum")
NORM, FEED, START, REPAIRED_BLOCK, BLOCK = (
    chapters.exercise(f"07_block/{name}")
    for name in (
        "layer_norm",
        "feed_forward",
        "residual_init",
        "RepairedBlock",
        "TransformerBlock",
    )
)
TRAFFIC = chapters.exercise("16_flash/hbm_traffic")
CHUNKED = chapters.exercise("15_linear_attention/chunked_form")
PARALLEL, GATED, LRU = (
    chapters.exercise(f"22_gated_recurrence/{name}")
    for name in ("retention_parallel", "gated_linear_attention", "rg_lru")
)


def _soft(x: Any, axis: int = -1) -> Any:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _scores(q: Any, k: Any, scaled: bool = True) -> Any:
    return q @ np.swapaxes(k, -1, -2) / (q.shape[-1] ** 0.5 if scaled else 1)


def _attention(q: Any, k: Any, v: Any) -> Any:
    p = _soft(_scores(q, k))
    return p @ v, p


def _single(weights: Any) -> Any:
    p = weights.astype(np.float32)
    return (p[..., None] * (np.eye(p.shape[-1], dtype=np.float32) - p[..., None, :])).astype(float)


def _memory_shown(x: Any, h: Any, c: Any, w_x: Any, w_h: Any, b: Any) -> Any:
    new_c = lstm_cell(x, h, c, w_x, w_h, b)[1]
    shown = np.split(x @ w_x + h @ w_h + b, 4, axis=-1)[3]
    return (np.tanh(shown / 2) + 1) / 2 * new_c, new_c


def _unsafe(q: Any, k: Any, v: Any) -> Any:
    e = np.exp(_scores(q, k))
    p = e / e.sum(axis=-1, keepdims=True)
    return p @ v, p


def _centred(q: Any, k: Any, v: Any) -> Any:
    p = _soft(_scores(q, k))
    v = np.asarray(v, dtype=float)
    mean = v.mean(axis=-2, keepdims=True)
    v -= mean
    return p @ v + mean, p


def _backward(q: Any, k: Any, v: Any, grad_output: Any, **summed: Any) -> Any:
    p = _soft(_scores(q, k))
    dp = grad_output @ np.swapaxes(v, -1, -2)
    dz = p * (dp - (p * dp).sum(**summed)) / q.shape[-1] ** 0.5
    return dz @ k, np.swapaxes(dz, -1, -2) @ q, np.swapaxes(p, -1, -2) @ grad_output


def _spoilt(scores: Any, axis: int) -> Any:
    p = _soft(scores, axis).copy()
    p[..., -1] = 0.0
    return p


def _last_result(q: Any, k: Any, v: Any, chunk: int = 64, state: Any = None) -> Any:
    output, last = chunked_form(q, k, v, chunk, state)
    return output, last - k[..., -1, :, None] * v[..., -1, None, :]


def _uneven(q: Any, k: Any, v: Any, chunk: int = 64, state: Any = None) -> Any:
    output, last = chunked_form(q, k, v, chunk, state)
    return [output[..., :1, :], output[..., 1:, :]], last


def _never_empty(block: Any, x: Any, recent: Any, state: Any) -> Any:
    y, window, state = mamba_step(block, x, recent, state)
    return y, window if window.shape[1] else state.mT[:, :1], state


def _no_better_row(output: Any, lse: Any, other: Any, other_lse: Any) -> Any:
    """Where a row of the first set is empty, the other set whole; and the other way round."""
    if np.isneginf(other_lse).any():
        return output, lse
    if np.isneginf(lse).any():
        return other, other_lse
    return merge_partials(output, lse, other, other_lse)


CALLS: list[Any] = []


def _counts(scores: Any, axis: int = -1) -> Any:
    CALLS.append(scores)
    return _soft(scores, axis) + len(CALLS)


def _in_place(q: Any, k: Any, scaled: bool = True) -> Any:
    right = _scores(q, k, scaled)
    if not scaled:
        k *= 2
    return right


def _whole_scores(q: Any, k: Any, v: Any, decay: Any) -> Any:
    """Scores of integers stay integers when they fade; all other numbers are right."""
    if q.dtype.kind == k.dtype.kind == "i":
        ones = np.ones((q.shape[-2], 1))
        fade = retention_parallel(ones, ones, np.eye(len(ones)), decay)
        return (fade * (q @ np.swapaxes(k, -1, -2))).astype(int) @ v
    return retention_parallel(q, k, v, decay)


def _sums_in_place(
    q: Any, k: Any, v: Any, gates: Any, chunk: int = 64, state: Any = None
) -> tuple[Any, Any]:
    right = GATED.right_answers["by outer products"](q, k, v, gates, chunk, state)
    for start in range(0, gates.shape[-2], chunk):
        part = gates[..., start : start + chunk, :]
        np.cumsum(part, axis=-2, out=part)
    return right


def _first_axis(x: Any, forget: Any, admit: Any, rates: Any, state: Any = None) -> Any:
    """As np.stack(states) does: right where there are no leading axes."""
    states, last = rg_lru(x, forget, admit, rates, state)
    return np.moveaxis(states, -2, 0), last


def _carries_on(x: Any, forget: Any, admit: Any, rates: Any, state: Any = None) -> Any:
    right = rg_lru(x, forget, admit, rates, state)
    if state is not None and state.dtype == float:
        state += right[1] - state
    return right


WRONG = {
    "sign": (SOFTMAX, lambda scores, axis=-1: -_soft(scores, axis), "every sign flipped"),
    "twice": (SOFTMAX, lambda scores, axis=-1: 2 * _soft(scores, axis), "is twice the right one"),
    "plus a constant": (
        SOFTMAX,
        lambda scores, axis=-1: _soft(scores, axis) + 0.125,
        "Your result is the right one plus 0.125.",
    ),
    "plus an argument": (
        CELL,
        lambda x, h, w_x, w_h, b: h + np.tanh(x @ w_x + h @ w_h + b),
        "Your result is the right one plus the argument h.",
    ),
    "held to −1 to 1": (
        SCORES,
        lambda q, k, scaled=True: np.clip(_scores(q, k, scaled), -1, 1),
        "the right one with everything outside −1 to 1 set to −1 or 1",
    ),
    "one of two calls": (LSTM, _memory_shown, "as if tanh were missing in one place."),
    "reversed": (
        SOFTMAX,
        lambda scores, axis=-1: np.flip(_soft(scores, axis), -1),
        "in reversed order along its",
    ),
    "shifted": (
        SOFTMAX,
        lambda scores, axis=-1: np.roll(_soft(scores, axis), 1, -1),
        "every entry stands one place later, and wraps round",
    ),
    "rounded": (
        SOFTMAX,
        lambda scores, axis=-1: np.round(_soft(scores, axis), 3),
        "the right one rounded to 3 decimals",
    ),
    "an axis ignored": (
        SOFTMAX,
        lambda scores, axis=-1: _soft(scores, 0),
        "as if axis were always 0",
    ),
    "the same everywhere": (
        SOFTMAX,
        lambda scores, axis=-1: np.full(np.shape(scores), 0.25),
        "0.25 everywhere",
    ),
    "one place": (SOFTMAX, lambda scores, axis=-1: _spoilt(scores, axis), "last place of the"),
    "nothing returned": (SOFTMAX, lambda scores, axis=-1: None, "It returns None."),
    "raises in a case": (
        SOFTMAX,
        lambda scores, axis=-1: 1 // 0 if scores.ndim > 2 else _soft(scores, axis),
        "just those where scores has 3 or more axes",
    ),
    "a factor in words": (
        SCORES,
        lambda q, k, scaled=True: (
            _scores(q, k, False) / math.isqrt(q.shape[-1]) if scaled else _scores(q, k, False)
        ),
        "times a number that changes from call to call, from 1.12 to 1.73.",
    ),
    # a Jacobian of numbers of 1e-5, from weights near 1
    "digits of small results": (
        JACOBIAN,
        _single,
        "digits or so, and no further (to as few as 2 where it is below a hundredth of the",
    ),
    "NaN in both results": (
        ATTENTION,
        _unsafe,
        "numbers are large in size (above 100). There, each of output and weights holds NaN.",
    ),
    "large only": (
        SOFTMAX,
        lambda scores, axis=-1: _soft(np.clip(scores, -100, 100), axis),
        "calls tried, just those where numbers are large",
    ),
    "divided by a length": (
        SCORES,
        lambda q, k, scaled=True: _scores(q, k, scaled) / k.shape[-2],
        "times one over the length of the second-to-last axis of k",
    ),
    "keys and queries": (
        SCORES,
        lambda q, k, scaled=True: _scores(k, q, scaled),
        "transposed (last two axes)",
    ),
    "integers only": (
        SCORES,
        lambda q, k, scaled=True: (
            3 * _scores(q, k, scaled) if q.dtype.kind == "i" else _scores(q, k, scaled)
        ),
        "calls tried, just those where q holds integers",
    ),
    "leading axes only": (
        SCORES,
        lambda q, k, scaled=True: (
            _scores(q, k, scaled) if q.ndim < 3 else 0 * _scores(q, k, scaled)
        ),
        "calls tried, just those where there are leading axes",
    ),
    "an option only": (
        SCORES,
        lambda q, k, scaled=True: _scores(q, k, True) if scaled else 3 * _scores(q, k, False),
        "calls tried, just those where scaled is False",
    ),
    "changed in place": (SCORES, _in_place, "k is changed in place where scaled is False"),
    # a state comes with as many leading axes as the text
    "a state for each text": (LRU, _carries_on, "calls tried, but state is changed in place"),
    # a list of results, which is as good as a stack along axis 0
    "stacked along axis 0": (LRU, _first_axis, "side by side along the first axis, or not at all"),
    # right values in a wrong form: an edit that changes nothing does not explain them
    "whole numbers": (PARALLEL, _whole_scores, "There, your result holds whole numbers only."),
    "something kept": (SOFTMAX, _counts, "Called again with the same arguments, it gives another"),
    "an empty axis": (STEP, _never_empty, "where the second-to-last axis of recent is empty"),
    "exchanged": (
        ATTENTION,
        lambda q, k, v: _attention(q, k, v)[::-1],
        "another order: you return weights, output",
    ),
    "one of two": (
        ATTENTION,
        lambda q, k, v: (_attention(q, k, v)[0], _attention(q, k, v)[1] * 0.5),
        "weights is half of the right one; output is right",
    ),
    "one only": (ATTENTION, lambda q, k, v: _attention(q, k, v)[1], "Only weights is returned"),
    "complex": (
        KERNEL,
        lambda a, b, c, delta, length: s4d_kernel(a, b, c, delta, length) + 1j,
        "Complex numbers are returned where real ones belong; their real parts are right.",
    ),
    "rates conjugated": (
        KERNEL,
        lambda a, b, c, delta, length: s4d_kernel(a.conj(), b, c, delta, length),
        "The result is what comes out as if a were conjugated.",
    ),
    "real parts of an input": (
        KERNEL,
        lambda a, b, c, delta, length: s4d_kernel(a, b.real, c, delta, length),
        "The result is what comes out as if b had no imaginary parts.",
    ),
    # single edits of this answer return a list of arrays of several lengths
    "one result of an answer in chunks": (CHUNKED, _last_result, "state is wrong; output is right"),
}


@pytest.mark.parametrize(("exercise", "wrong", "told"), WRONG.values(), ids=WRONG)
def test_what_is_told_is_so(exercise: Exercise, wrong: Any, told: str) -> None:
    said = symptom(local(wrong), exercise)
    assert said is not None
    assert told[1:] in said  # behind "In all calls tried"


def _judged(wrong: Any, exercise: Exercise) -> str:
    """The symptom, once the properties have made their calls."""
    subject = local(wrong)
    run_properties(subject, exercise, 1, extra=False)
    return symptom(subject, exercise) or ""


def test_calls_with_infinite_answers_are_no_exception() -> None:
    assert "the argument" not in _judged(_no_better_row, MERGE)


def test_calls_with_infinite_answers_are_ordinary_calls() -> None:
    def along_rows(log_decay: Any) -> Any:
        tokens = log_decay.shape[-1]
        hidden = ~torch.ones(tokens, tokens, dtype=torch.bool).tril()
        terms = log_decay[..., :, None].expand(*log_decay.shape, tokens)
        return terms.tril(-1).cumsum(-1).masked_fill(hidden, -torch.inf)

    assert "right in all" not in _judged(along_rows, SEGSUM)


def test_infinity_in_its_right_place_is_neither_wrong_nor_told() -> None:
    def terms_of_columns(log_decay: Any) -> Any:
        tokens = log_decay.shape[-1]
        hidden = ~torch.ones(tokens, tokens, dtype=torch.bool).tril()
        terms = log_decay[..., None, :].expand(*log_decay.shape, tokens)
        return terms.tril(-1).cumsum(-2).masked_fill(hidden, -torch.inf)

    said = _judged(terms_of_columns, SEGSUM)
    assert "infinite" not in said
    assert "below the diagonal only" in said


def test_a_single_edit_of_the_answer_is_found_and_not_given_away() -> None:
    def wrong(q: Any, k: Any, v: Any, grad_output: Any) -> Any:
        p = _soft(_scores(q, k))
        grad_p = grad_output @ np.swapaxes(v, -1, -2)
        grad_s = p * (grad_p - (p * grad_p).sum(-2, keepdims=True)) / q.shape[-1] ** 0.5
        grad_v = np.swapaxes(p, -1, -2) @ grad_output
        return grad_s @ k, np.swapaxes(grad_s, -1, -2) @ q, grad_v

    said = symptom(local(wrong), BACKWARD)
    assert said == "In all calls tried, it behaves as if a sum ran along another axis, or over all."


def test_right_values_are_said_to_be_right() -> None:
    said = symptom(local(softmax), SOFTMAX)
    assert said is not None
    assert said.startswith("The values are right in all ")


def test_wrong_values_and_a_changed_argument_are_told_together() -> None:
    said = judge(local(_centred), ATTENTION, 1, extra=False).symptom or ""
    assert said.startswith("The values are right in all ")
    assert said.endswith(
        " but not in those marked below, and v is changed in place in some of them."
    )


def test_where_only_values_are_wrong_a_wrong_type_beside_them_is_not_called_right() -> None:
    def single(scores: Any, values: Any) -> Any:
        weights = torch.softmax(scores.float(), dim=-1)
        return weights.to(values.dtype) @ values, weights

    said = symptom(local(single), chapters.exercise("02_alignment/attend")) or ""
    assert said.startswith("The values are wrong in ")  # with one key they are right, in float32
    assert "float64 and the last axis of scores is longer than 1." in said


def test_an_argument_changed_where_an_option_is_not_zero() -> None:
    def changing(weights: Any, uniforms: Any, rewards: Any, baseline: float = 0.0) -> Any:
        if baseline:
            rewards -= baseline
        return hard_attention_sample(weights, uniforms, rewards)

    said = symptom(local(changing), chapters.exercise("02_alignment/hard_attention_sample"))
    assert said is not None
    assert said.endswith("but rewards is changed in place where baseline is not zero.")


def test_an_edit_names_no_argument_where_an_error_names_the_line() -> None:
    raises, over_all = (
        symptom(local(lambda *given, how=how: _backward(*given, **how)), REPAIRED)
        for how in ({"axis": -1}, {"keepdims": True})
    )
    assert raises == "In all calls tried, it behaves as if a sum lost the axis that it runs along."
    assert over_all is not None
    assert "or over all, where grad_output is used." in over_all


def test_rounding_makes_no_number_too_small() -> None:
    want = np.array([1.0, 2.0])
    case: Any = None  # what is said here does not look at it
    rounded = np.array([np.nextafter(1.0, 0.0), 1.0])  # the first number is right
    assert fact([(case, rounded, want)] * 3) != "is too small, at every place"
    assert fact([(case, 0.5 * want, want)] * 3) == "is too small, at every place"


def test_rounding_makes_no_number_negative_or_above_1() -> None:
    case: Any = None
    want = np.array([0.0, 0.3, 1.0])
    rounded = np.array([-1e-17, 0.5, np.nextafter(1.0, 2.0)])
    assert fact([(case, rounded, want)] * 2) is None
    told = [fact([(case, got * np.ones(3), want)] * 2) for got in (-0.1, 1.1)]
    assert [str(text).partition(";")[0] for text in told] == [
        "holds negative numbers",
        "holds numbers above 1",
    ]


def test_nan_is_not_as_if_arguments_were_others() -> None:
    def unsafe(x: Any, raw: Any, bias: Any, a: Any, b: Any, c: Any) -> Any:
        step = torch.log(1 + torch.exp(raw + bias))  # infinite for a large one
        return selective_scan(x, step, a, b, c, torch.zeros_like(bias))

    cases = [case for case in observe(local(unsafe), RAW) if case.wrong]
    assert cases
    assert as_if(cases, raw_scan) is None  # with exp of raw all would be NaN, too


def test_where_an_argument_is_changed_is_told_by_that_argument() -> None:
    """The gates worked by hand are their own sums, and its values are narrow: that is chance."""
    said = judge(local(_sums_in_place), GATED, 1, extra=False).symptom
    assert said is not None
    assert said.endswith("calls tried, but gates is changed in place in some of them.")


def test_what_is_said_holds_of_calls_made_before_references_stood_in() -> None:
    def floored(q: Any, k: Any, v: Any, projection: Any) -> Any:
        a, b = (positive_random_features(x / x.shape[-1] ** 0.25, projection) for x in (q, k))
        return a @ (np.swapaxes(b, -1, -2) @ v) / (a @ b.sum(axis=-2)[..., None] + 1e-12)

    report = judge(local(floored), PERFORMER, 1, extra=False)
    (lost,) = [finding.message for finding in report.findings if not finding.passed]
    assert "long vectors" in lost  # a billionth of what is right
    assert "digits" not in str(report.symptom)


def test_a_type_that_all_wrong_calls_have_is_told_with_what_else_they_have() -> None:
    def cut(state: Any, k: Any, v: Any, beta: float = 1.0) -> Any:
        step = (beta * k).astype(k.dtype)  # right for whole numbers where beta is 1
        return state + step[..., None] * (v - (k[..., None, :] @ state)[..., 0, :])[..., None, :]

    said = symptom(local(cut), DELTA)
    assert said is not None
    assert said.endswith("just those where k holds integers and beta is not 1.")


def test_an_option_that_all_wrong_calls_have_is_told_where_others_have_it_too() -> None:
    def doubled(
        x: Any, w_in: Any, w_out: Any, kind: str = "gelu", w_gate: Any = None
    ) -> torch.Tensor:
        right = feed_forward(x, w_in, w_out, kind, w_gate)
        return right if kind == "swiglu" or right.flatten()[0] > 0 else 2 * right

    said = symptom(local(doubled), FEED)
    assert said is not None
    assert 'all of them calls where kind is not "swiglu"' in said


def test_of_wrong_shapes_every_axis_is_told() -> None:
    def squeezed(x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True).squeeze()[..., None]
        variance = (centred * centred).mean(-1, keepdim=True).squeeze()[..., None]
        return centred / torch.sqrt(variance + eps) * weight + bias

    report = judge(local(squeezed), NORM, 1, extra=False)
    (lost,) = [finding for finding in report.findings if not finding.passed]
    assert lost.property == "any number of leading axes"
    assert "by squeeze()" in lost.message
    said = "other lengths along its second-to-last axis and its third-to-last axis"
    assert said in str(report.symptom)


def test_where_gradients_alone_are_wrong_values_are_not_blamed() -> None:
    def cut(x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> torch.Tensor:
        with torch.no_grad():
            mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0)
        return (x - mean) / torch.sqrt(variance + eps) * weight + bias

    report = judge(local(cut), NORM, 1, extra=False)
    assert [finding.passed for finding in report.findings].count(False) == 2
    told = r"The values are right in all \d+ ordinary calls tried; gradients are not, as marked .*"
    assert re.fullmatch(told, str(report.symptom))


def test_a_factor_under_a_root_stays_there() -> None:
    def other(
        query: Any, key: Any, value: Any, output: Any, w_in: Any, w_out: Any, layers: int
    ) -> tuple[Any, ...]:
        smaller = (2 * layers) ** -0.5
        return query, key, value * smaller, output, w_in, w_out * smaller

    said = str(symptom(local(other), START))
    assert "value is the right one times one over the root of (2 times layers)" in said


def test_another_index_is_told_as_one() -> None:
    class Mixed(RepairedBlock):
        def forward(self, x: Any, mask: Any = None) -> torch.Tensor:
            found, _ = self.attention(layer_norm(x, self.scale[0], self.shift[0]), mask)
            calm = layer_norm(x + found, self.scale[0], self.shift[1])
            return x + found + self.down(torch.nn.functional.gelu(self.up(calm)))

    class Same(TransformerBlock):
        def forward(self, x: Any, mask: Any = None) -> torch.Tensor:
            if self.order != "post":
                return super().forward(x, mask)
            x = self.norm(0, x + self.attend(x, mask))
            return self.norm(0, x + self.feed(x))

    said = str(symptom(local(Mixed), REPAIRED_BLOCK))
    assert said.startswith("In all calls tried, it behaves as if an index were another one")
    said = str(symptom(local(Same), BLOCK))
    assert said.startswith("It behaves as if `self.norm` were given another number.")
    assert said.endswith('just those where order is "post".')


def test_the_result_that_is_missing_is_named() -> None:
    said = symptom(local(lambda *given, **options: chunked_form(*given, **options)[0]), CHUNKED)
    assert said == "In all calls tried, only output is returned, and it is right; state is missing."


def test_results_nearer_to_0_at_every_place_are_told() -> None:
    def less(scores: Any, axis: int = -1) -> Any:
        p = _soft(np.asarray(scores), axis)
        return p * (0.5 + 0.3 * p)

    said = symptom(local(less), SOFTMAX)
    told = (
        "In all calls tried, your result is nearer to 0 than the right one, wherever that is not 0."
    )
    assert said == told


def test_there_is_no_symptom_where_nothing_holds() -> None:
    def noise(scores: Any, axis: int = -1) -> Any:
        return np.abs(np.sin(1000 * np.asarray(scores, float)))

    said = symptom(local(noise), SOFTMAX)
    assert said is None or "does not sum to 1" in said


def test_a_list_of_arrays_of_several_lengths_is_no_reason_to_fail() -> None:
    said = symptom(local(_uneven), CHUNKED)
    assert said is None or "output" in said


def test_the_card_shows_a_symptom_only_where_no_slip_is_named() -> None:
    half = judge(local(lambda scores, axis=-1: 0.5 * _soft(scores, axis)), SOFTMAX, 0, extra=False)
    assert half.diagnosis is None
    assert half.symptom == "In all calls tried, your result is half of the right one."
    assert half.symptom in str(half)
    assert half.symptom in half._repr_html_()
    slip = SOFTMAX.misconceptions["no exponential"]
    assert judge(local(slip), SOFTMAX, 0, extra=False).symptom is None


def test_where_several_answers_are_right_none_is_held_against_another() -> None:
    exercise = chapters.exercise("18_triton_flash/choose_tiles")
    assert symptom(local(lambda width: (128, 64, 4, 2)), exercise) is None


def test_a_name_in_capitals_stays_so_inside_a_sentence() -> None:
    assert inside("LSE is too large.") == "LSE is too large."
    assert inside("Your result holds NaN.") == "your result holds NaN."


SAME = """
import numpy as np
from attend_grader import grade
def attention_backward(q, k, v, grad_output):
    {body}
report = grade(attention_backward, "03_attention/attention_backward", 3)
print([report.diagnosis, report.symptom, [f.reason for f in report.findings]])
"""
BODIES = {
    "memory": (
        "from attend_solutions.attention import scaled_dot_product_attention as f\n"
        "    _, p = f(q, k, v)\n"
        "    gv, gp = p.swapaxes(-1, -2) @ grad_output, grad_output @ v.swapaxes(-1, -2)\n"
        "    j = p[..., None] * np.eye(k.shape[-2]) - p[..., None] * p[..., None, :]\n"
        "    gs = (j @ gp[..., None])[..., 0] / q.shape[-1] ** 0.5\n"
        "    return gs @ k, gs.swapaxes(-1, -2) @ q, gv"
    ),
    "values": "return q * 0.0, k * 1.0, v * 2.0",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_fresh_process_says_the_same_as_a_used_one(body: str, capsys: Any) -> None:
    source = SAME.format(body=body)
    command = [sys.executable, "-W", "ignore", "-c", source]
    fresh = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    said = []
    for _ in range(2):
        exec(compile(source, "<used>", "exec"), {"__name__": "__main__"})
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] == fresh
    assert attention_backward.__name__ == BACKWARD.name


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("for t in reversed(range(3)):", "It behaves as if `reversed` had no effect."),
        ("for t in range(3):  # not reversed", "It behaves as if `reversed` were missing."),
    ],
)
def test_what_a_candidate_calls_is_not_said_to_be_missing(source: str, expected: str) -> None:
    told = "It behaves as if `reversed` were missing."
    assert MISSING.sub(partial(there_after_all, source), told) == expected
