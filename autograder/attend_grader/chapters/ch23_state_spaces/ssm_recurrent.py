"""Exercise 23_state_spaces/ssm_recurrent: one step a token."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from attend_solutions import state_spaces as answers
from attend_solutions.state_spaces import expect_system

from attend_grader.chapters.ch23_state_spaces.shared import (
    CIRCLE,
    DIPS,
    INT64,
    LINE,
    PEAKS,
    TURN,
    changing,
    lasting,
    system,
)
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, refuses, worked
from attend_grader.checks.properties import normal
from attend_grader.checks.sizes import AS_DRAWN

DEFECTIVE = 0.5 * np.eye(3) + np.eye(3, k=1)
"""A matrix with one eigenvector only."""


def case(rng: np.random.Generator, size: int, *shape: int) -> Call:
    """A system with N = size, and an input."""
    return Call((*system(rng, size), normal(rng, *shape)))


def going_on(rng: np.random.Generator, size: int, *shape: int) -> Call:
    """The same with a state."""
    return Call(
        (*system(rng, size), normal(rng, *shape)), {"state": normal(rng, *shape[:-1], size)}
    )


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for size, length in ((3, 5), (4, 4), (2, 7), (1, 3), (3, 1)):
        yield f"N = {size}, {length} tokens", case(rng, size, length)
    yield "a long text", Call((*lasting(rng), normal(rng, int(rng.integers(150, 300)))))
    yield "an Ā with one eigenvector only", Call((DEFECTIVE, *normal(rng, 2, 3), normal(rng, 4)))
    a_bar, b_bar, c = system(rng, 2)
    x = np.array([0.0, 0.0, 0.0, 2.0, -2.0, 0.0, 0.0])
    line, (first, *_, last) = np.eye(4, k=-1), np.eye(4)
    yield (
        "a line of 4 that hands on, of tokens and states that are often 0",
        Call((line, first, last, x)),
    )
    x = np.array([[1.0, 2.0, 0.0], [-1.0, 0.0, 3.0]])
    yield "two texts, whose first tokens cancel", Call((*system(rng, 3), x))
    yield "c times 1e12, x times 1e-12", Call((a_bar, b_bar, 1e12 * c, 1e-12 * normal(rng, 4)))
    yield from _settled(rng)


def _settled(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    """Texts, outputs and states that look settled, and are not."""
    fades, b_bar, c = np.diag([0.1, -0.05, 0.02]), normal(rng, 3), 1 + abs(normal(rng, 3))
    for what, x in changing(rng, 30, 5):
        yield f"a text of {what}", Call((fades, b_bar, c, x))
    rows = np.stack([x for _, x in changing(rng, 30, 5)])
    yield "five texts that look settled for 30 tokens", Call((fades, b_bar, c, rows))
    first, *_, last = np.eye(44)
    one = np.eye(1, 46)[0]
    for what, taps in changing(rng, 43, 1):
        yield f"a line of 44, outputs of {what}", Call((LINE, first, taps, one))
    yield "a circle of 44, and a text of a 1 and zeros", Call((CIRCLE, first, last, one))
    first, *_, last = np.eye(9)
    yield "a state that shrinks to 1e-48 and grows again", Call((DIPS, first, last, one[:9]))
    yield "a state that grows to 1e48 and shrinks again", Call((PEAKS, first, last, one[:9]))


def _goes_on(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for size, length in ((3, 4), (2, 2), (3, 1)):
        yield "a state is given", going_on(rng, size, length)
    start = {"state": np.array([1.0, -1.0])}
    yield "a state whose sum is 0", Call((*system(rng, 2), normal(rng, 4)), start)
    yield "a state, and tokens of 0", Call((*system(rng, 2), np.zeros(4)), start)
    x, state = 1e-9 * normal(rng, 4), 1e-9 * normal(rng, 2)
    yield "x and the state times 1e-9", Call((*system(rng, 2), x), {"state": state})


def draws(rng: np.random.Generator) -> list[Call]:
    """All sizes different, N = T, one token, one number, a state, a stack; one eigenvector."""
    return [
        case(rng, 3, 5),
        case(rng, 4, 4),
        case(rng, 3, 2, 4),
        case(rng, 2, 1),
        case(rng, 1, 4),
        going_on(rng, 3, 4),
        going_on(rng, 2, 3, 2),
        going_on(rng, 3, 1),
        going_on(rng, 2, 2, 1),
        Call((DEFECTIVE, *normal(rng, 2, 3), normal(rng, 4))),
    ]


def wide(rng: np.random.Generator) -> list[Call]:
    """A long input in a system that forgets nothing, and in one that forgets slowly."""
    return [Call((keeps * TURN, *normal(rng, 2, 2), normal(rng, 1_200))) for keeps in (1.0, 0.9995)]


def by_eigenvectors(a_bar, b_bar, c, x, state=None):  # noqa: D103 (its slip says what it does)
    expect_system(a_bar, b_bar, c)
    rates, vectors = np.linalg.eig(a_bar)
    back = np.linalg.pinv(vectors)
    h = (np.zeros((*x.shape[:-1], len(c))) if state is None else state) @ back.T
    y = []
    for t in range(x.shape[-1]):
        h = h * rates + x[..., t, None] * (back @ b_bar)
        y.append((h @ (c @ vectors)).real)
    return np.stack(y, axis=-1), (h @ vectors.T).real


MOVE = "        h = h @ a_bar.T + x[..., t, None] * b_bar  # (..., N)\n"
READ = "        outputs.append(h @ c)\n"
SLIPS = (
    Slip(
        "reads before it moves",
        (MOVE + READ, READ + MOVE),
        "Each output is a token late: it is read from the state before its token. Move first, then "
        "read.",
    ),
    Slip(
        "the matrix is transposed",
        ("h @ a_bar.T", "h @ a_bar"),
        "Ā is transposed: Ā h is `a_bar @ h` for one state, and `h @ a_bar.T` for a stack.",
    ),
    Slip(
        "the state is replaced",
        ("h @ a_bar.T + ", ""),
        "Each token sees itself only: the old state is lost. Add Ā h to what the token brings.",
    ),
    Slip(
        "nothing fades",
        ("h @ a_bar.T", "h"),
        "The old state is kept as it is: Ā does not touch it.",
    ),
    Slip(
        "number by number",
        ("h @ a_bar.T", "h * np.diag(a_bar)"),
        "Only the diagonal of Ā is used. Ā h is a matrix times a vector.",
    ),
    Slip(
        "what is new is moved, too",
        ("h @ a_bar.T + x[..., t, None] * b_bar", "(h + x[..., t, None] * b_bar) @ a_bar.T"),
        "Ā is applied to what the token brings as well. It should move the old state only.",
    ),
    Slip(
        "b̄ and c exchanged",
        (("* b_bar", "* c"), ("h @ c)", "h @ b_bar)")),
        "b̄ and c have changed places: b̄ should write, c should read.",
    ),
    Slip(
        "a state that was given is not used",
        ("if state is None else state", "if True else state"),
        "The state starts at zero although one is given.",
    ),
    Slip(
        "changes the state it was given",
        ("        h = h @", "        h[...] = h @"),
        "The state that was given is changed in place. Make a new one: h = ….",
    ),
    Slip(
        "by eigenvectors",
        by_eigenvectors,
        "Right where Ā has N eigenvectors that are far from dependent. Elsewhere digits are lost, "
        "up to all of them: multiply by Ā again and again.",
    ),
    Slip(
        "tanh, as in an RNN",
        (
            "h = h @ a_bar.T + x[..., t, None] * b_bar",
            "h = np.tanh(h @ a_bar.T + x[..., t, None] * b_bar)",
        ),
        "Each new state goes through tanh, as in an RNN. This system is linear: the state should "
        "be Ā h + b̄ x.",
    ),
)


def filled_in(a_bar, b_bar, c, x, state=None):
    """Into an array made before, with einsum."""
    expect_system(a_bar, b_bar, c)
    h = np.zeros(x.shape[:-1] + b_bar.shape) if state is None else state
    y = np.empty(x.shape)
    for t in range(x.shape[-1]):
        h = np.einsum("mn,...n->...m", a_bar, h) + np.multiply.outer(x[..., t], b_bar)
        y[..., t] = np.einsum("n,...n->...", c, h)
    return y, h


def by_powers(a_bar, b_bar, c, x, state=None):
    """Every state as a sum over the tokens so far."""
    expect_system(a_bar, b_bar, c)
    length = x.shape[-1]
    moved = [b_bar]
    for _ in range(length):
        moved.append(a_bar @ moved[-1])
    first = np.zeros((*x.shape[:-1], len(c))) if state is None else state
    states = []
    for t in range(length):
        old = first @ np.linalg.matrix_power(a_bar, t + 1).T
        states.append(old + sum(x[..., s, None] * moved[t - s] for s in range(t + 1)))
    return np.stack([h @ c for h in states], axis=-1), states[-1]


EXERCISE = Exercise(
    chapter="23_state_spaces",
    title="The recurrence",
    goal="Run a linear system over a text, token by token.",
    reference=answers.ssm_recurrent,
    contract=Contract(
        numpy_only=True,
        leading_axes=("x", "state"),
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        ranges={"a_bar": AS_DRAWN},
        says=(
            INT64,
            "Shapes of the system that do not fit raise a ValueError.",
        ),
    ),
    properties=(
        worked(
            "by hand: half fades at each step",
            np.array([[0.5]]),
            np.ones(1),
            np.array([2.0]),
            np.array([1.0, 2.0, 0.0]),
            want=(np.array([2.0, 5.0, 2.5]), np.array([1.25])),
        ),
        agrees("the outputs", _values, part=0),
        agrees("the state after the last token", _values, part=1),
        agrees("goes on from a state that is given", _goes_on),
        refuses(
            (
                ("a b that does not fit", (np.eye(2), np.ones(3), np.ones(2), np.ones(4))),
                ("a c of length 1", (np.eye(2), np.ones(2), np.ones(1), np.ones(4))),
                ("an A that is not square", (np.ones((2, 1)), np.ones(2), np.ones(2), np.ones(4))),
            )
        ),
    ),
    draws=draws,
    wide=wide,
    slips=SLIPS,
    alternatives={"filled in": filled_in, "powers": by_powers},
    hints=(
        "What does one token do to the state, and is the output read before or after?",
        "h starts at np.zeros((*x.shape[:-1], N)). For each t: h = Ā h + b̄ x_t, then y_t = c · h.",
        "With any axes in front: h = h @ a_bar.T + x[..., t, None] * b_bar; outputs.append(h @ c); "
        "at the end np.stack(outputs, axis=-1), h.",
    ),
    minutes=10,
    difficulty=2,
    importance=5,
    results=("y", "state"),
)
