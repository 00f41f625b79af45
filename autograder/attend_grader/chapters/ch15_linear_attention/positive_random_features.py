"""Exercise 15_linear_attention/positive_random_features: e^(x · y) as a mean of products."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from attend_solutions import linear_attention as answers

from attend_grader.checks.compare import Miss
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees, refuses, worked
from attend_grader.checks.properties import normal
from attend_grader.checks.subject import Subject


def _case(rng: np.random.Generator, n: int, d: int, m: int, *lead: int) -> Call:
    return Call((normal(rng, *lead, n, d), normal(rng, m, d)))


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((5, 3, 4), (4, 4, 4), (1, 2, 7), (3, 1, 2)):
        yield f"{sizes[2]} features of vectors of width {sizes[1]}", _case(rng, *sizes)
    yield "one vector", Call((normal(rng, 3), normal(rng, 5, 3)))


def _kernel(subject: Subject, probe: Probe) -> None:
    """40,000 features come within 5 standard errors of e^(x · y), by the paper's variance."""
    why = "the mean counts for right values only"
    probe.agree(subject, *_case(probe.rng, 4, 3, 5).args, why=why)
    x, y = 0.4 * probe.rng.standard_normal((2, 4))
    features = 40_000
    projection = probe.rng.standard_normal((features, 4))
    mapped = probe.call(subject, np.stack([x, y]), projection).value
    got, want = float(mapped[0] @ mapped[1]), float(np.exp(x @ y))
    spread = want * float(np.sqrt(np.expm1(((x + y) ** 2).sum()) / features))
    if abs(got - want) > 5 * spread:
        raise Miss(
            f"the dot product of the features of two vectors is {got:.4f} with {features:,} "
            f"features; e^(x · y) is {want:.4f}, give or take {spread:.4f}."
        )


def _long(subject: Subject, probe: Probe) -> None:
    """No overflow on the way, and exponents from −300 to 300 as they are, and one of 699.9."""
    why = "x = 37 and w = 37.416: an exponent a little below 700, as large as may be"
    x, w = np.array([[37.0]]), np.array([[(699.9 + 684.5) / 37]])
    probe.agree(subject, x, w, want=np.exp(w * x - 684.5), why=why)
    x = np.full((1, 4), 30.0)
    why = "x = (30, …) and w = (15, …): the exponents are 1,800 and −1,800"
    probe.agree(subject, x, np.full((1, 4), 15.0), want=np.ones((1, 1)), why=why)
    why = "x = (30, …) and w = 0: e^(−1,800) is 0"
    probe.agree(subject, x, np.zeros((4, 4)), want=np.zeros((1, 4)), why=why)
    x, w = np.array([[10.0]]), np.array([[-25.0], [-1.0], [11.0], [35.0]])
    exponents = 10 * w[:, 0] - 50
    want = np.exp(exponents)[None] / 2
    got = probe.agree(subject, x, w, want=want, why="the exponents are −300, −60, 60 and 300").value
    for mine, right, exponent in zip(got[0], want[0], exponents, strict=True):
        if not abs(mine - right) <= 1e-9 * right:  # each by its own size
            text = f"wrong value: the feature e^({exponent:g}) / 2 is {mine:.3g}, not {right:.3g}."
            raise probe.miss(text, x, w)


def draws(rng: np.random.Generator) -> list[Call]:
    """All sizes different, square, leading axes, one vector, width 1."""
    return [
        _case(rng, 5, 3, 4),
        _case(rng, 4, 4, 4),
        _case(rng, 3, 4, 2, 2),
        Call((normal(rng, 3), normal(rng, 5, 3))),
        _case(rng, 3, 1, 2),
    ]


EXPONENT = "np.exp(x @ projection.T - half_square)"
SLIPS = (
    Slip(
        "forgot ‖x‖²/2",
        ("x @ projection.T - half_square", "x @ projection.T"),
        "The features lack e^(−‖x‖²/2), so their dot product is e^(‖x + y‖²/2) on average.",
    ),
    Slip(
        "forgot the half",
        ("keepdims=True) / 2", "keepdims=True)"),
        "‖x‖² is subtracted whole. Subtract half of it: E e^(w · x) = e^(‖x‖²/2).",
    ),
    Slip(
        "norm not squared",
        ("(x**2).sum(axis=-1, keepdims=True) / 2",
         "np.sqrt((x**2).sum(axis=-1, keepdims=True)) / 2"),
        "Half of the norm is subtracted, not of its square.",
    ),
    Slip(
        "added in the place of subtracted",
        ("projection.T - half_square", "projection.T + half_square"),
        "‖x‖²/2 is added. Subtract it, to make up for the mean of e^(w · x).",
    ),
    Slip(
        "forgot 1/√M",
        (" / len(projection) ** 0.5", ""),
        "The features are not divided by √M, so their dot product is a sum over M, not a mean.",
    ),
    Slip(
        "divided by M",
        (" / len(projection) ** 0.5", " / len(projection)"),
        "The features are divided by M. Two of them are multiplied, so divide each by √M.",
    ),
    Slip(
        "divided by √D",
        ("len(projection) ** 0.5", "x.shape[-1] ** 0.5"),
        "The features are divided by √D. The mean runs over M features: divide by √M.",
    ),
    Slip(
        "two exponentials",
        (EXPONENT, "(np.exp(x @ projection.T) * np.exp(-half_square))"),
        "For long vectors e^(w · x) may be infinite where e^(−‖x‖²/2) is 0 (and e^(‖x‖²/2) "
        "infinite), and the two put together are not a number. Subtract first, one exponential "
        "after.",
    ),
    Slip(
        "one norm for all vectors",
        ("(x**2).sum(axis=-1, keepdims=True)", "(x**2).sum()"),
        "The squares of all vectors are summed. Subtract for every vector half of its own ‖x‖².",
    ),
    Slip(
        "each vector's largest exponent is taken off",
        (EXPONENT, "np.exp((e := x @ projection.T - half_square) - e.max(axis=-1, keepdims=True))"),
        "The largest exponent of each vector is subtracted, as in a softmax. There a division by "
        "the sum makes up for it; these features are not divided, so they come out too small or "
        "too large. Leave the exponents as they are.",
    ),
    Slip(
        "the largest exponent of all is taken off",
        (EXPONENT, "np.exp((e := x @ projection.T - half_square) - e.max())"),
        "The largest of all exponents is subtracted, as against overflow in a softmax. There a "
        "division by the sum makes up for it; these features are not divided, so they come out "
        "too small or too large. Leave the exponents as they are.",
    ),
)  # fmt: skip


def einsum(x, projection):
    """Index by index; the square as a dot product of x with itself."""
    if x.shape[-1] != projection.shape[-1]:
        raise ValueError("widths differ")
    dots = np.einsum("...d,md->...m", x, projection)
    squares = np.einsum("...d,...d->...", x, x)[..., None]
    return np.exp(dots - squares / 2 - np.log(projection.shape[0]) / 2)


def completed_square(x, projection):
    """w · x - ‖x‖²/2 = (‖w‖² - ‖x - w‖²) / 2."""
    if x.shape[-1] != projection.shape[-1]:
        raise ValueError("widths differ")
    apart = ((x[..., None, :] - projection) ** 2).sum(-1)
    return np.exp(((projection**2).sum(-1) - apart) / 2) * projection.shape[0] ** -0.5


EXERCISE = Exercise(
    chapter="15_linear_attention",
    title="Positive random features",
    goal="Features whose dot product is the exponential of a dot product, on average.",
    reference=answers.positive_random_features,
    contract=Contract(
        numpy_only=True,
        leading_axes=("x",),
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        ranges={"x": (-40, 40), "projection": (-40, 40)},
        says=(
            "Only exponents above 700 overflow (88 in float32).",
            "Shapes that do not fit raise a ValueError.",
        ),
    ),
    properties=(
        worked(
            "a hand-worked example: exponents 0, −2, 4 and 0",
            np.array([2.0]),
            np.array([[1.0], [0.0], [3.0], [1.0]]),
            want=np.exp([0.0, -2.0, 4.0, 0.0]) / 2,
        ),
        agrees("fresh vectors and projections", _values),
        Property("40,000 features: e^(x · y) on average", 1, _kernel),
        Property("long vectors: no overflow, and no exponent is cut", 1, _long),
        refuses(
            (
                *(
                    (
                        f"a projection of width {width} for x of width 3",
                        (np.ones((2, 3)), np.ones((4, width))),
                    )
                    for width in (1, 2, 4)
                ),
                ("one direction of width 1 for one vector", (np.ones(3), np.ones((1, 1)))),
                ("one direction of width 3 for a vector of width 1", (np.ones(1), np.ones((1, 3)))),
            ),
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"einsum": einsum, "completed square": completed_square},
    hints=(
        "How many numbers is ‖x‖² for one vector? It must line up with M features.",
        "x @ projection.T is w · x for all vectors and features. Subtract half of the squared norm "
        "before the exponential.",
        "half = (x**2).sum(axis=-1, keepdims=True) / 2; np.exp(x @ projection.T - half) divided "
        "by the root of len(projection).",
    ),
    minutes=10,
    difficulty=2,
    importance=3,
)
