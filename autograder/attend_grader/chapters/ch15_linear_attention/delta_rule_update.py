"""Exercise 15_linear_attention/delta_rule_update: correct the memory instead of adding to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import linear_attention as answers

from attend_grader.checks.compare import Miss
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees, known, worked
from attend_grader.checks.properties import derivative, normal
from attend_grader.checks.subject import Subject


def _case(
    rng: np.random.Generator, d: int, d_v: int, lead: tuple[int, ...] = (), beta: Any = None
) -> Call:
    arrays = (normal(rng, *lead, d, d_v), normal(rng, *lead, d), normal(rng, *lead, d_v))
    return Call(arrays if beta is None else (*arrays, beta))


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for d, d_v, beta in ((3, 2, 1.0), (4, 4, 0.3), (1, 3, 0.5), (5, 1, 0.0)):
        yield f"beta = {beta}", _case(rng, d, d_v, (), beta)
    yield "no beta given: 1", _case(rng, 3, 2)


def _overwrites(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    state, v = normal(rng, 3, 2), normal(rng, 2)
    turned = np.eye(3)[[1, 2, 0]]
    want = state.copy()
    want[0] = v
    yield "a key (1, 0, 0): that row is replaced", (state, turned[2], v), want
    yield "a value that is there already", (want, turned[2], v), want
    for apart in (5e-6, 5e-8, 5e-9):
        nearly = want.copy()
        nearly[0] = v + apart
        yield f"a value that is there but for {apart:g}", (nearly, turned[2], v), want
    stored = np.ones((3, 2))
    asked = np.full(2, 1.0 + 2e-6)
    fixed = np.where(turned[2][:, None] > 0, asked, stored)
    yield "values that are larger by 2e-6 than what is there", (stored, turned[2], asked), fixed
    large = np.array([300.0, -500.0])
    want = state.copy()
    want[1] = large
    yield "large values are written whole", (state, turned[0], large), want


def _gradient(subject: Subject, probe: Probe) -> None:
    """One step of size beta against the gradient of ½ ‖Sᵀ k − v‖², by complex steps."""
    for d, d_v, beta in ((3, 2, 0.25), (2, 4, 0.7)):
        state, k, v = _case(probe.rng, d, d_v).args

        def loss(memory: np.ndarray, k: Any = k, v: Any = v) -> np.ndarray:
            return (((k @ memory) - v) ** 2).sum() / 2

        want = state - beta * derivative(loss, state)
        why = "against a numerical gradient of ½ ‖Sᵀ k − v‖²"
        probe.agree(subject, state, k, v, beta, want=want, why=why)


def _read_back(subject: Subject, probe: Probe) -> None:
    """Ten writes under one key of norm 1: the last one is what is read."""
    k = probe.rng.standard_normal(4)
    k /= np.linalg.norm(k)
    state, values = np.zeros((4, 3)), normal(probe.rng, 10, 3)
    for value in values:
        state = probe.call(subject, state, k, value).value
        if not isinstance(state, np.ndarray) or state.shape != (4, 3):
            raise Miss("the new memory must have the shape of the old one, here (4, 3).")
    if not np.allclose(k @ state, values[-1], rtol=0, atol=1e-9):
        raise Miss(
            "ten values were written under one key of norm 1, with beta = 1; read there, the "
            "memory does not give the last one."
        )


def draws(rng: np.random.Generator) -> list[Call]:
    """All sizes different, square, leading axes, beta given and not, width 1, values of width 1.

    Square memories come with a beta of 1 and with another, and so do those that are not square.
    """
    return [
        _case(rng, 3, 2, (), 0.3),
        _case(rng, 4, 4),
        _case(rng, 3, 2, (2,), 0.5),
        _case(rng, 1, 3, (), 0.7),
        _case(rng, 2, 1, (3,), 0.4),
        _case(rng, 3, 3, (), 0.6),
        _case(rng, 2, 3, (), 1.0),
    ]


SAID = "(v - said)"
WHOLE = "return state + beta * k[..., :, None] * (v - said)[..., None, :]"
SLIPS = (
    Slip(
        "adds instead of correcting",
        (SAID, "v"),
        "The value is added, whatever the memory says at k already. Write the difference v − Sᵀk.",
    ),
    Slip(
        "beta on the value only",
        (f"beta * k[..., :, None] * {SAID}[", "k[..., :, None] * (beta * v - said)["),
        "Only the value is multiplied by beta; what the memory says is subtracted in full. "
        "Multiply the whole difference by beta.",
    ),
    Slip(
        "beta on the old value only",
        (f"beta * k[..., :, None] * {SAID}[", "k[..., :, None] * (v - beta * said)["),
        "Only what was there is multiplied by beta. Multiply the whole difference by it.",
    ),
    Slip(
        "beta ignored",
        ("state + beta * k", "state + k"),
        "The step is always a full one: multiply what is written by beta.",
    ),
    Slip(
        "one pair only",
        (WHOLE, "return state + beta * np.outer(k, v - said)"),
        "Right for one pair only; with more it raises, or is wrong. (np.outer, for one, makes one "
        "long vector of each argument, leading axes included.) Write the outer products of all "
        "pairs: a[..., :, None] * b[..., None, :].",
    ),
    Slip(
        "beta without its fraction",
        ("beta * k", "int(beta) * k"),
        "beta is cut to a whole number: nothing is written unless it is 1.",
    ),
    Slip(
        "divided by the number of values",
        (WHOLE, f"{WHOLE} / v.shape[-1]"),
        "The correction is divided by D_v, as for the gradient of a mean. The loss is a sum, "
        "½ ‖Sᵀk − v‖².",
    ),
    Slip(
        "wrong sign",
        (SAID, "(said - v)"),
        "The memory moves away from the value. Write the difference v − Sᵀk.",
    ),
    Slip(
        "divided by ‖k‖²",
        (WHOLE, f"{WHOLE} / (k**2).sum(axis=-1)[..., None, None]"),
        "The correction is divided by ‖k‖², as in normalised least mean squares. The rule uses the "
        "key as it is.",
    ),
    Slip(
        "the old memory fades",
        (WHOLE, "return (1 - beta) * state + beta * k[..., :, None] * v[..., None, :]"),
        "The whole memory is multiplied by 1 − beta, and the value added. Only what the memory "
        "says at k is to be corrected: write beta times v − Sᵀk there.",
    ),
    Slip(
        "only the correction",
        ("return state + beta", "return beta"),
        "This is the correction alone. Add it to the memory.",
    ),
    Slip(
        "changes the memory in place",
        (WHOLE, f"state += {WHOLE.removeprefix('return state + ')}\n    return state"),
        "The memory that was given is changed in place. Return a new one: state + ….",
    ),
    Slip(
        "gradient of ‖·‖² without the half",
        ("state + beta * k", "state + 2 * beta * k"),
        "The correction is twice as large: the loss has a factor ½, which takes away the 2.",
    ),
)  # fmt: skip


def in_two_steps(state, k, v, beta=1.0):
    """Take out what is there, then add: (I - β k kᵀ) S + β k vᵀ."""
    outer = k[..., :, None] * k[..., None, :]
    kept = state - beta * (outer @ state)
    return kept + beta * (k[..., :, None] * v[..., None, :])


def einsum(state, k, v, beta=1.0):
    """Index by index."""
    wrong = np.einsum("...de,...d->...e", state, k) - v
    return state - np.einsum("...d,...e->...de", k * beta, wrong)


EXERCISE = Exercise(
    chapter="15_linear_attention",
    title="The delta rule",
    goal="Write a value so that the memory answers it, instead of adding it.",
    reference=answers.delta_rule_update,
    contract=Contract(
        numpy_only=True,
        leading_axes=("state", "k", "v"),
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        ranges={"k": (-1e3, 1e3)},
    ),
    properties=(
        worked(
            "a hand-worked example: the key reads 5, and 9 is wanted",
            np.array([[5.0], [7.0]]),
            np.array([1.0, 0.0]),
            np.array([9.0]),
            0.5,
            want=np.array([[7.0], [7.0]]),
        ),
        agrees("fresh memories, keys and values", _values),
        Property("a gradient step on ½ ‖Sᵀk − v‖²", 1, _gradient),
        known("a key along an axis replaces a row", _overwrites),
        Property("ten writes under one key: the last is read", 1, _read_back),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"two steps": in_two_steps, "einsum": einsum},
    hints=(
        "What does the memory say at k now? Read it first.",
        "The difference v − Sᵀk has D_v numbers. Write it under k, as recurrent_form writes v: an "
        "outer product, times beta.",
        "said = (k[..., None, :] @ state)[..., 0, :]; return state + beta * k[..., :, None] * "
        "(v - said)[..., None, :].",
    ),
    minutes=10,
    difficulty=2,
    importance=5,
)
