"""Exercise 22_gated_recurrence/rwkv_time_mix: a mean that fades, with a running maximum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import gated_recurrence as answers
from attend_solutions.recurrence import sigmoid

from attend_grader.chapters.ch22_gated_recurrence.shared import between
from attend_grader.checks.compare import Miss
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees, known, worked
from attend_grader.checks.properties import normal
from attend_grader.checks.sizes import AS_DRAWN
from attend_grader.checks.subject import Subject


def case(
    rng: np.random.Generator, t: int, c: int, lead: tuple[int, ...] = (), *, state: bool = False
) -> Call:
    """r, k, v, a rate and a bonus for each channel, and maybe a state."""
    args = (
        *(normal(rng, *lead, t, c) for _ in range(3)),
        between(rng, 0.1, 1.5, c),
        normal(rng, c),
    )
    if not state:
        return Call(args)
    sums = normal(rng, *lead, c), between(rng, 0.5, 2.0, *lead, c), normal(rng, *lead, c)
    return Call(args, {"state": np.stack(sums, axis=-2)})


def means(r: Any, k: Any, v: Any, rate: Any, bonus: Any) -> Any:
    """The outputs as softmax-weighted means over past tokens, without leading axes."""
    rows = []
    for t in range(len(k)):
        scores = k[: t + 1] - (t - 1 - np.arange(t + 1))[:, None] * rate
        scores[t] = bonus + k[t]
        weights = np.exp(scores - scores.max(axis=0))
        rows.append((weights * v[: t + 1]).sum(axis=0) / weights.sum(axis=0))
    return sigmoid(r) * np.stack(rows)


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((6, 3), (4, 4), (1, 3), (7, 1)):
        yield f"{sizes[0]} tokens", case(rng, *sizes)


def _goes_on(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((4, 3), (1, 3), (3, 3)):
        yield "a state is given", case(rng, *sizes, state=True)
    yield "as many texts as tokens, each with a state", case(rng, 3, 3, (3,), state=True)


def _softmax(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    args = case(rng, 6, 3).args
    yield "as a softmax over past tokens", args, (means(*args), None)
    r, k, v, rate, bonus = args
    gate = sigmoid(r)
    yield "values of 1: the gate alone", (r, k, 0 * v + 1, rate, bonus), (gate, None)
    yield "a bonus of 60: only the token itself", (r, k, v, rate, 0 * bonus + 60), (gate * v, None)
    r, k, v, _, bonus = case(rng, 60, 5).args
    args = r, k, v, np.array([0.0, 3e-7, 1e-4, 1.001e-4, 1000.0]), bonus
    yield "60 tokens, rates from 0 to 1000, two nearly the same", args, (means(*args), None)


def _large(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    for low, high in ((700.0, 900.0), (-900.0, -700.0), (-1000.0, 1000.0)):
        r, _, v, rate, bonus = case(rng, 6, 3).args
        args = (r, between(rng, low, high, 6, 3), v, rate, bonus)
        yield f"keys between {low:g} and {high:g}", args, (means(*args), None)
    r, k, v, rate, bonus = case(rng, 6, 3).args
    args = r, k + 500.0, v, rate, bonus
    old = np.stack([1e12 * between(rng, -1, 1, 3), np.ones(3), np.zeros(3)])
    yield "keys of 500 after values of 1e12 with keys of 0", (*args, old), (means(*args), None)
    r, k, v, _, bonus = case(rng, 290, 4).args
    k[0], k[1:] = 1000.0, -1000.0  # the first outweighs the others for 2000 / rate tokens
    args = r, k, v, np.array([6.5, 10.0, 50.0, 900.0]), bonus
    yield "a key of 1000 before keys of −1000", args, (means(*args), None)
    r, k, v, rate, bonus = case(rng, 4, 4, (2,)).args
    k[...] = [1000.0, 0.0, -1000.0, 300.0]  # each channel has its own
    k[1] -= 700.0
    want = np.stack([means(*text, rate, bonus) for text in zip(r, k, v, strict=True)])
    yield "keys of 1000, 0 and −1000 in three channels", (r, k, v, rate, bonus), (want, None)
    r, k, v, rate, bonus = case(rng, 4, 3).args
    args = r, k, v, rate, np.array([800.0, -800.0, 0.0])
    yield "a bonus of 800 and of −800", args, (means(*args), None)
    args = r, k, v, rate, np.full(3, -1e6)
    yield "a bonus of −10⁶", args, (means(*args), None)
    r, k, v = np.array([[-1e3], [0.0]]), np.array([[0.0], [35.0]]), np.array([[1e12], [0.0]])
    args = r, k, v, np.zeros(1), np.zeros(1)
    yield (
        "a gate of −1000 hides a value of 1e12; then e^−35 of it counts",
        args,
        (means(*args), None),
    )


def _in_parts(subject: Subject, probe: Probe) -> None:
    """Token by token, with its own state handed on, it must give the outputs of the whole text."""
    r, k, v, rate, bonus = case(probe.rng, 6, 3).args
    k *= 900.0 / abs(k).max()
    want, state = means(r, k, v, rate, bonus), None
    for t in range(6):
        one = slice(t, t + 1)
        given = (r[one], k[one], v[one], rate, bonus, *(() if state is None else (state,)))
        got = probe.agree(
            subject, *given, want=(want[one], None), part=0, why=f"token {t + 1}, keys up to ±900"
        ).value
        state = got[1]
        if not isinstance(state, np.ndarray) or state.shape != (3, 3):
            raise Miss("the state must have the shape (..., 3, C), here (3, 3).", topic="state")


def draws(rng: np.random.Generator) -> list[Call]:
    """Oblong, square, leading axes, one token, a state given, large keys, a faint one."""
    large = case(rng, 5, 3)
    large.args[1][...] *= 100
    r, k, v, rate, bonus = case(rng, 1, 3).args
    faint = Call((r, k - 1_000, v, rate, bonus - 1_000))
    return [
        case(rng, 5, 3),
        case(rng, 4, 4),
        case(rng, 3, 4, (2,)),
        case(rng, 1, 3),
        case(rng, 4, 3, state=True),
        large,
        faint,
    ]


def wide(rng: np.random.Generator) -> list[Call]:
    """A long text whose weights do not shrink, or hardly; two texts, and only one has a past."""
    r, k, v, _, bonus = case(rng, 1_200, 2).args
    some = case(rng, 3, 4, (2,), state=True)
    some.kwargs["state"][0] = [[0.0], [0.0], [-np.inf]]
    return [Call((r, k, v, np.array([0.0, 5e-4]), bonus)), some]


FIRST = "top = np.maximum(largest, bonus + now)"
SECOND = "top = np.maximum(largest - rate, now)"
OLD = "old, new = np.exp(largest - rate - top), np.exp(now - top)"
NOW = "old, new = np.exp(largest - top), np.exp(bonus + now - top)"
SLIPS = (
    Slip(
        "no running maximum",
        ((FIRST, "top = 0 * now"), (SECOND, "top = 0 * now")),
        "Exponentials are taken as they are, so large keys overflow (NaN or infinity), and 0 is "
        "divided by 0 where all exponents so far are very negative. Subtract the running maximum "
        "first.",
    ),
    Slip(
        "no bonus",
        (NOW, "old, new = np.exp(largest - top), np.exp(now - top)"),
        "At its own place a token weighs e^k. It should weigh e^(bonus + k) there.",
    ),
    Slip(
        "the bonus stays",
        (
            (SECOND, "top = np.maximum(largest - rate, bonus + now)"),
            (OLD, "old, new = np.exp(largest - rate - top), np.exp(bonus + now - top)"),
        ),
        "The bonus is written into the state. It should count at the token's own place only.",
    ),
    Slip(
        "nothing fades",
        (
            (SECOND, "top = np.maximum(largest, now)"),
            (OLD, "old, new = np.exp(largest - top), np.exp(now - top)"),
        ),
        "Weights do not shrink with age: let the old exponent fall by `rate` with each token.",
    ),
    Slip(
        "one step too much",
        (
            (FIRST, "top = np.maximum(largest - rate, bonus + now)"),
            (NOW, "old, new = np.exp(largest - rate - top), np.exp(bonus + now - top)"),
        ),
        "Outputs see older tokens faded by one step too much: the token right before should have "
        "the weight e^k.",
    ),
    Slip(
        "the weights do not fade with the values",
        ("values, weights, largest = old * values + new * value, old * weights + new, top",
         "values, weights, largest = old * values + new * value, weights + new, top"),
        "In the state the sum of weights lacks the factor that the old sum of values has. "
        "Multiply both old sums by it.",
    ),
    Slip(
        "what is new fades at once",
        (
            (SECOND, "top = np.maximum(largest, now) - rate"),
            (OLD, "old, new = np.exp(largest - rate - top), np.exp(now - rate - top)"),
        ),
        "In the state every token has faded by one step too much: the newest, too. Write it with "
        "the weight e^k; only what is older should fade by the rate.",
    ),
    Slip(
        "the maximum is not kept",
        ("old * weights + new, top\n", "old * weights + new, now\n"),
        "The state's third row is the last key. It should be the larger of largest − rate and k, "
        "by whose power of e the sums are divided.",
    ),
    Slip(
        "the maximum does not fade",
        ("old * weights + new, top\n", "old * weights + new, np.maximum(largest, now)\n"),
        "The state's third row is the larger of `largest` and k, without the rate. It should be "
        "the larger of largest − rate and k, by whose power of e the sums are divided.",
    ),
    Slip(
        "the maximum is of the keys alone",
        (SECOND, "top = np.maximum(largest, now)"),
        "The third row does not sink by the rate: it is the larger of the old one and k. It should "
        "be the larger of the old one − rate and k.",
    ),
    Slip(
        "no gate",
        ("sigmoid(r) * mixed", "mixed"),
        "Outputs are the means themselves: multiply them by σ(r).",
    ),
)  # fmt: skip


def as_a_table(r, k, v, rate, bonus, state=None):
    """All weights at once, as a masked softmax; a given state is one more token in front."""
    steps = np.arange(k.shape[-2])
    if state is None:
        state = np.stack([0.0 * k[..., 0, :], 0.0 * k[..., 0, :], 0.0 * k[..., 0, :] - np.inf], -2)
    values, weights, largest = (state[..., i, :] for i in range(3))
    age = (steps[:, None] - 1 - steps)[..., None]
    scores = k[..., None, :, :] - age * rate
    scores = np.where(age == -1, (bonus + k)[..., None, :, :], scores)
    scores = np.where(age < -1, -np.inf, scores)
    first = largest[..., None, :] - steps[:, None] * rate
    top = np.maximum(scores.max(axis=-2), first)
    e, o = np.exp(scores - top[..., None, :]), np.exp(first - top)
    up = (e * v[..., None, :, :]).sum(-2) + o * values[..., None, :]
    mixed = up / (e.sum(-2) + o * weights[..., None, :])
    end = k - (len(steps) - 1 - steps)[:, None] * rate
    old = largest - len(steps) * rate
    most = np.maximum(end.max(axis=-2), old)
    e, o = np.exp(end - most[..., None, :]), np.exp(old - most)
    last = [(e * v).sum(-2) + o * values, e.sum(-2) + o * weights, most]
    return mixed / (1 + np.exp(-r)), np.stack(last, axis=-2)


def by_cases(r, k, v, rate, bonus, state=None):
    """Which exponent is larger decides; only differences are exponentiated."""
    if state is None:
        state = np.zeros((*k.shape[:-2], 3, k.shape[-1]))
        state[..., 2, :] = -np.inf
    a, b, m = state[..., 0, :], state[..., 1, :], state[..., 2, :]
    rows = []
    for t in range(k.shape[-2]):
        gap = bonus + k[..., t, :] - m
        e = np.exp(-np.abs(gap))
        old, new = np.where(gap > 0, e, 1.0), np.where(gap > 0, 1.0, e)
        rows.append((old * a + new * v[..., t, :]) / (old * b + new))
        gap = k[..., t, :] - (m - rate)
        e = np.exp(-np.abs(gap))
        old, new = np.where(gap > 0, e, 1.0), np.where(gap > 0, 1.0, e)
        a, b = old * a + new * v[..., t, :], old * b + new
        m = np.where(gap > 0, k[..., t, :], m - rate)
    return sigmoid(r) * np.stack(rows, axis=-2), np.stack([a, b, m], axis=-2)


EXERCISE = Exercise(
    chapter="22_gated_recurrence",
    title="RWKV's time mixing",
    goal="Keep a mean of values that fades, and never overflow.",
    reference=answers.rwkv_time_mix,
    contract=Contract(
        numpy_only=True,
        leading_axes=("r", "k", "v", "state"),
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        ranges={"k": (-1000, 1000), "rate": AS_DRAWN, "bonus": AS_DRAWN, "state": AS_DRAWN},
        says=("A sigmoid may be off by 10⁻¹⁶.",),
    ),
    properties=(
        worked(
            "a hand-worked example: a gate of one half; 8, then 5",
            np.zeros((2, 1)),
            np.zeros((2, 1)),
            np.array([[8.0], [2.0]]),
            np.ones(1),
            np.zeros(1),
            want=(np.array([[4.0], [2.5]]), np.array([[8 / np.e + 2], [1 / np.e + 1], [0.0]])),
        ),
        agrees("the outputs", _values, part=0),
        agrees("the state after the last token", _values, part=1),
        agrees("goes on from a state that is given", _goes_on),
        known("it is a softmax over past tokens", _softmax, part=0),
        known("large keys and values", _large, part=0),
        Property("token by token with large keys", 1, _in_parts),
    ),
    draws=draws,
    wide=wide,
    slips=SLIPS,
    alternatives={"as a table": as_a_table, "by cases": by_cases},
    hints=(
        "`values` and `weights` are divided by e^largest. Before you add e^(bonus + k_t) to them, "
        "bring both to one maximum, as in chapter 16's online softmax.",
        "Twice in a step: for the output the two exponents are largest and bonus + now, for the "
        "state largest − rate and now. Each time the maximum of the two is subtracted from both.",
        "top = np.maximum(largest, bonus + now); old, new = np.exp(largest - top), np.exp(bonus + "
        "now - top); append (old * values + new * value) / (old * weights + new). Then the same "
        "with largest - rate and now, for the new values, weights and largest. At the end "
        "sigmoid(r) * np.stack(outputs, axis=-2), and the three stacked along axis -2.",
    ),
    minutes=15,
    difficulty=3,
    importance=3,
    results=("output", "state"),
)
