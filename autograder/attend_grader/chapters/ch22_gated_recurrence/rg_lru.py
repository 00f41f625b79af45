"""Exercise 22_gated_recurrence/rg_lru: a state as large as its independent inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import gated_recurrence as answers
from attend_solutions.recurrence import sigmoid

from attend_grader.chapters.ch22_gated_recurrence.shared import between
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, known, worked
from attend_grader.checks.properties import normal


def case(
    rng: np.random.Generator, t: int, c: int, lead: tuple[int, ...] = (), *, state: bool = False
) -> Call:
    """x, both gates, a rate for each channel (slow ones too), and maybe a state."""
    args = *(normal(rng, *lead, t, c) for _ in range(3)), normal(rng, c) - 2.0
    return Call(args, {"state": normal(rng, *lead, c)} if state else {})


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((6, 3), (4, 4), (1, 3), (7, 1)):
        yield f"{sizes[0]} tokens", case(rng, *sizes)


def _goes_on(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((4, 3), (1, 3), (3, 3)):
        yield "a state is given", case(rng, *sizes, state=True)


def _by_loop(x: Any, forget: Any, admit: Any, rates: Any, h: Any) -> tuple[Any, Any]:
    """Token by token, without leading axes."""
    keep = np.exp(-8 * np.logaddexp(0, rates) / (1 + np.exp(-forget)))
    rows = []
    for left, new in zip(keep, np.sqrt((1 - keep) * (1 + keep)) * sigmoid(admit) * x, strict=True):
        h = left * h + new
        rows.append(h)
    return np.stack(rows), h


def _limits(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    x, _, admit, rates = case(rng, 5, 3).args
    h = normal(rng, 3)
    kept = np.broadcast_to(h, (5, 3)).copy()
    yield "a closed forget gate (−60): h stays", (x, 0 * x - 60, admit, rates, h), (kept, h)
    now = sigmoid(admit) * x
    fast = np.full(3, 30.0)  # a = e^(−120)
    yield "rates of 30: h is the present", (x, 0 * x, admit, fast, h), (now, now[-1])
    keep = np.exp(-4 * np.log1p(np.exp(rates)))
    fading = h * keep ** np.arange(1, 6)[:, None]
    yield "x = 0: h fades", (0 * x, 0 * x, admit, rates, h), (fading, fading[-1])
    still, h = np.zeros((300, 3)), np.full(3, 1e12)
    keep = np.exp(-4 * np.log1p(np.exp(-3.4)))
    fading = h * keep ** np.arange(1, 301)[:, None]
    given = still, still, still, np.full(3, -3.4), h
    yield "x = 0: 1e-17 is left of an h of 1e12 after 300 tokens", given, (fading, fading[-1])
    still = np.zeros((2, 1))
    for exponent in (30.0, 60.0, 300.0):
        rates = np.log(np.expm1([exponent / 4]))
        fading = 1e12 * np.exp([[-exponent], [-2 * exponent]])
        given = still, still, still, rates, np.full(1, 1e12)
        yield f"x = 0: e^−{exponent:g} of an h of 1e12 is left", given, (fading, fading[-1])
    x, forget, admit, _ = case(rng, 5, 2).args
    given = x, forget, admit, np.array([-9.0, -12.0]), normal(rng, 2)
    yield "rates of −9 and −12", given, _by_loop(*given)
    x, forget, admit, _ = case(rng, 300, 4).args
    given = x, forget, admit, np.array([0.0, 3.0, -4.0, -4.000001]), normal(rng, 4)
    yield "300 tokens, rates of 0, 3 and about −4", given, _by_loop(*given)
    given = 1e12 * np.ones((2, 2)), np.zeros((2, 2)), np.full((2, 2), -1e3), np.zeros(2)
    yield "an x of 1e12 that is not admitted", given, _by_loop(*given, np.zeros(2))
    still = np.zeros((2, 2))
    given = still, still + 50.0, still, np.full(2, 100.0), np.full(2, 1e12)
    yield "nothing is left of an h of 1e12", given, (still, still[0])
    open_, shut = np.full((2_000, 1), 50.0), np.full((500, 1), -13.0)
    given = open_ / 25, np.vstack([open_[:1_500], shut]), open_, np.array([700.0]), np.ones(1)
    why = "a fast channel, a gate open for 1,500 tokens, then nearly shut for 500"
    yield why, given, _by_loop(*given)


def draws(rng: np.random.Generator) -> list[Call]:
    """Oblong, square, leading axes, one token, a state given, one of which nothing is left."""
    x, forget, admit, rates = case(rng, 2, 3).args
    fast = Call((x, forget + 50, admit, rates + 100), {"state": 1e12 * between(rng, -1, 1, 3)})
    return [
        case(rng, 5, 3),
        case(rng, 4, 4),
        case(rng, 3, 4, (2,)),
        case(rng, 1, 3),
        case(rng, 4, 3, state=True),
        case(rng, 1, 3, state=True),
        case(rng, 3, 3, (2,), state=True),
        fast,
    ]


def wide(rng: np.random.Generator) -> list[Call]:
    """A long text, in a channel that hardly forgets and in one that forgets at once."""
    x, forget, admit, _ = case(rng, 1_200, 2).args
    return [Call((x, forget, admit, np.array([-9.0, 30.0])))]


GAIN = "np.sqrt(-np.expm1(2 * log_keep))"
LOG = "-8 * np.logaddexp(0, rates) * sigmoid(forget)"
SLIPS = (
    Slip(
        "the input is not scaled",
        (f"{GAIN} * ", ""),
        "The input lacks its factor √(1 − a²), so slow channels can grow large.",
    ),
    Slip(
        "1 - a in the place of the root",
        (GAIN, "-np.expm1(log_keep)"),
        "The input is scaled by 1 − a. That keeps a constant's size; for independent inputs it "
        "should be √(1 − a²).",
    ),
    Slip(
        "1 - a² without the root",
        (GAIN, "-np.expm1(2 * log_keep)"),
        "The input is scaled by 1 − a²: take the root of it.",
    ),
    Slip(
        "the input is not gated",
        (" * sigmoid(admit) * x", " * x"),
        "x lacks its gate: multiply it by σ(admit).",
    ),
    Slip(
        "the new input fades too",
        ("* h + written[..., t, :]", "* (h + written[..., t, :])"),
        "The new input is multiplied by a, together with the old state. Only the old state should "
        "be.",
    ),
    Slip(
        "a sigmoid for the softplus",
        ("np.logaddexp(0, rates)", "sigmoid(rates)"),
        "It comes out as if the rates went through a sigmoid. Take the softplus, ln(1 + e^rates).",
    ),
    Slip(
        "without the 8",
        ("-8 * ", "-"),
        "The exponent lacks its factor of 8.",
    ),
    Slip(
        "the root of 1 - a",
        (GAIN, "np.sqrt(-np.expm1(log_keep))"),
        "The input is scaled by √(1 − a): take the root of 1 − a².",
    ),
    Slip(
        "the paper's sign",
        ("np.logaddexp(0, rates)", "np.logaddexp(0, -rates)"),
        "The softplus is of −rates, as for the paper's Λ, whose sign is the opposite. Take it of "
        "`rates`.",
    ),
    Slip(
        "a state that was given is not used",
        ("np.zeros_like(written[..., 0, :]) if state is None else state", "0 * written[..., 0, :]"),
        "The recurrence starts from zeros although a state is given.",
    ),
)  # fmt: skip


def by_doubling(x, forget, admit, rates, state=None):
    """No loop over tokens: sums over the last 1, 2, 4 … tokens."""
    keep = np.exp(-8 / (1 + np.exp(-forget)) * np.log1p(np.exp(rates)))
    h = np.sqrt((1 - keep) * (1 + keep)) * x / (1 + np.exp(-admit))
    if state is not None:
        h[..., 0, :] += keep[..., 0, :] * state
    step = 1
    while step < x.shape[-2]:
        later = h[..., step:, :] + keep[..., step:, :] * h[..., :-step, :]
        both = keep[..., step:, :] * keep[..., :-step, :]
        h = np.concatenate([h[..., :step, :], later], axis=-2)
        keep, step = np.concatenate([keep[..., :step, :], both], axis=-2), 2 * step
    return h, h[..., -1, :]


def as_power(x, forget, admit, rates, state=None):
    """a to the power 8 r, with a = 1 / (1 + e^rates); filled in."""
    keep = (1.0 + np.exp(1.0 * rates)) ** (-8.0 * sigmoid(forget))
    h = np.zeros((*x.shape[:-2], x.shape[-1])) if state is None else state
    states = np.empty(x.shape)
    for t in range(x.shape[-2]):
        a = keep[..., t, :]
        h = a * h + ((1 - a) * (1 + a)) ** 0.5 * (sigmoid(admit[..., t, :]) * x[..., t, :])
        states[..., t, :] = h
    return states, h


EXERCISE = Exercise(
    chapter="22_gated_recurrence",
    title="RG-LRU",
    goal="A gated state that keeps the size of independent inputs, however slowly it forgets.",
    reference=answers.rg_lru,
    contract=Contract(
        numpy_only=True,
        leading_axes=("x", "forget", "admit", "state"),
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        ranges={"rates": (-30, 100)},
        says=(
            "Texts may be long, and channels fast.",
            "Rounding in 1 − a², or of 10⁻¹⁶ in a sigmoid, does not count.",
        ),
    ),
    properties=(
        worked(
            "a hand-worked example: a = 1/16, then once more without input",
            np.array([[2.0], [0.0]]),
            np.zeros((2, 1)),
            np.zeros((2, 1)),
            np.zeros(1),
            want=(
                np.array([[(255 / 256) ** 0.5], [(255 / 256) ** 0.5 / 16]]),
                np.array([(255 / 256) ** 0.5 / 16]),
            ),
        ),
        agrees("all states", _values, part=0),
        agrees("the last state", _values, part=1),
        agrees("goes on from a state that is given", _goes_on),
        known("gates closed, rates fast, inputs of 0, long texts", _limits),
    ),
    draws=draws,
    wide=wide,
    slips=SLIPS,
    alternatives={"by doubling": by_doubling, "as a power": as_power},
    hints=(
        "Everything but the recurrence itself can be done for all tokens at once: a, then what is "
        "written.",
        "log a = −8 softplus(rates) σ(forget); np.logaddexp(0, rates) is the softplus. What is "
        "written is √(1 − a²) σ(admit) x.",
        "log_keep = -8 * np.logaddexp(0, rates) * sigmoid(forget); keep = np.exp(log_keep); "
        "written = np.sqrt(1 - keep**2) * sigmoid(admit) * x; then h = keep_t * h + written_t.",
    ),
    minutes=12,
    difficulty=2,
    importance=3,
    results=("states", "state"),
)
