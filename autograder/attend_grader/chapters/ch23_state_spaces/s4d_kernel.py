"""Exercise 23_state_spaces/s4d_kernel: the kernel of a diagonal system."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import state_spaces as answers
from attend_solutions.types import Complex

from attend_grader.chapters.ch23_state_spaces.shared import RELATIVE
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, known, worked
from attend_grader.checks.properties import normal
from attend_grader.checks.sizes import AS_DRAWN


def diagonal(rng: np.random.Generator, *shape: int) -> tuple[Complex, Complex, Complex]:
    """Rates that fade and turn, input and output vectors: complex numbers of two decimals."""
    a = -0.1 - abs(normal(rng, *shape)) + 3j * normal(rng, *shape)
    b, c = (normal(rng, *shape) + 1j * normal(rng, *shape) for _ in range(2))
    return a, b, c


def case(rng: np.random.Generator, pairs: int, length: int, delta: float, *lead: int) -> Call:
    """A diagonal system, its step size and a length."""
    steps = np.asarray(np.full(lead, delta) * (1 + np.arange(math.prod(lead)).reshape(lead)))
    return Call((*diagonal(rng, *lead, pairs), steps, length))


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for pairs, length, delta in ((3, 7, 0.3), (1, 4, 1.0), (5, 5, 0.1), (2, 1, 0.5)):
        yield f"{pairs} pairs, {length} taps", case(rng, pairs, length, delta)
    yield "three channels, each with its Δ", case(rng, 2, 6, 0.2, 3)
    a, b, c = diagonal(rng, 2)
    yield "a real b", Call((a, b.real, c, np.array(0.4), 5))
    yield "a real c", Call((a, b, c.real, np.array(0.4), 5))
    yield "a real b and a real c", Call((a, b.real, c.real, np.array(0.4), 5))
    yield "2 pairs, 300 taps", case(rng, 2, 300, 0.05)
    yield "40 pairs, 6 taps", case(rng, 40, 6, 0.1)
    yield "rates that grow", Call((a.conj() * (-1 + 0j), b, c, np.array(0.3), 5))
    yield "rates near 0", Call((a / 500, b, c, np.array(2.0), 5))
    at_once = np.array([-1000.0, -0.5 + 2j])
    yield (
        "a rate that fades at once, and one that does not",
        Call((at_once, 500 * b, c, np.array(1.0), 5)),
    )
    yield "rates that fade at once", Call((1e11 * a, 1e11 * b, c, np.array(1.0), 5))
    yield "Δ = 1e12", Call((a, b, c, np.array(1e12), 5))
    yield "b times 1e-12, c times 1e12", Call((a, 1e-12 * b, 1e12 * c, np.array(0.3), 5))
    for delta in (3.0, 3e-4):
        yield f"Δ = {delta:g}", Call((a, b, c, np.array(delta), 5))


def _dense(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    """One pair is a real system of two numbers."""
    a, b, c = diagonal(rng, 1)
    (rate, turn), (w, v), (r, s) = ((z[0].real, z[0].imag) for z in (a, b, c))
    matrix = np.array([[rate, -turn], [turn, rate]])
    a_bar, b_bar = answers.discretize(matrix, np.array([w, v]), 0.25)
    want = answers.ssm_kernel(a_bar, b_bar, 2 * np.array([r, -s]), 6)
    yield "one pair is a real system of two numbers", (a, b, c, np.array(0.25), 6), want
    real = (-abs(normal(rng, 1)) - 0.5 + 0j, np.ones(1) + 0j, np.ones(1) + 0j)
    fades = np.exp(0.5 * real[0].real)
    want = 2 * (fades - 1) / real[0].real * fades ** np.arange(4)
    yield "no turning: it only fades", (*real, np.array(0.5), 4), want
    a, b, c = diagonal(rng, 2)
    usual = answers.s4d_kernel(a, b, c, np.array(0.4), 5)
    for scale in (1e-12, 1e12):
        rest = np.array(0.4), 5
        yield f"b times {scale:g}", (a, scale * b, c, *rest), scale * usual
        yield f"c times {scale:g}", (a, b, scale * c, *rest), scale * usual


def draws(rng: np.random.Generator) -> list[Call]:
    """All sizes different, as many taps as pairs, one pair, one tap, channels, real b and c."""
    a, b, c = diagonal(rng, 3)
    return [
        case(rng, 3, 7, 0.3),
        case(rng, 4, 4, 0.2),
        case(rng, 1, 5, 0.5),
        case(rng, 2, 1, 0.6),
        case(rng, 3, 4, 0.2, 2),
        case(rng, 2, 6, 0.1, 2, 3),
        case(rng, 3, 5, 0.2, 3),
        Call((a, b.real, c, np.array(0.4), 4)),
        Call((a, b, c.real, np.array(0.4), 4)),
        Call((a, b.real, c.real, np.array(0.4), 4)),
    ]


def wide(rng: np.random.Generator) -> list[Call]:
    """Many taps of a slow system; a rate that is real, beside its twin."""
    rates, *rest = case(rng, 3, 5, 0.2).args
    rates[0] = rates[0].real
    return [case(rng, 2, 1_200, 1e-3), Call((rates, *rest))]


WEIGHTS = "c * b * (np.exp(delta * a) - 1) / a"
SLIPS = (
    Slip(
        "the twins are left out",
        ("return 2 * (", "return ("),
        "Everything is half as large: each number has a conjugate twin, and the two add up to "
        "twice the real part.",
    ),
    Slip(
        "a sum over the first axis",
        ("(weights[..., None, :] @ powers)[..., 0, :]", "(weights[..., None] * powers).sum(0)"),
        "Right without leading axes: the sum runs over the first axis. It should run over the P "
        "pairs, the axis before time.",
    ),
    Slip(
        "a sum over taps",
        (
            "(weights[..., None, :] @ powers)[..., 0, :]",
            "(weights[..., None] * powers).sum(axis=-1)",
        ),
        "The sum runs over time and leaves a number for each pair. It should run over the P pairs "
        "and leave one for each tap.",
    ),
    Slip(
        "the imaginary part",
        ("[..., 0, :].real", "[..., 0, :].imag"),
        "Twice the imaginary part is returned. Each number and its twin add up to twice the real "
        "part; their imaginary parts cancel.",
    ),
    Slip(
        "the absolute value",
        (("return 2 * (", "return 2 * np.abs("), ("[..., 0, :].real", "[..., 0, :]")),
        "The absolute value is taken, so that no tap is ever negative. Take the real part.",
    ),
    Slip(
        "b̄ = Δ b",
        (WEIGHTS, "c * b * delta"),
        "b is multiplied by Δ only. Zero-order hold has b̄ = (e^(Δa) − 1) / a · b.",
    ),
    Slip(
        "b is not discretized",
        (WEIGHTS, "c * b"),
        "b is used as it is. Zero-order hold has b̄ = (e^(Δa) − 1) / a · b.",
    ),
    Slip(
        "starts one step late",
        ("np.arange(length)", "np.arange(1, length + 1)"),
        "The kernel starts with Ā b̄. A token should be read at once: K_0 should have Ā to the "
        "power of 0.",
    ),
    Slip(
        "bilinear in the place of zero-order hold",
        (
            (WEIGHTS, "c * b * delta / (1 - delta * a / 2)"),
            (
                "np.exp((delta * a)[..., None] * np.arange(length))",
                "((1 + delta * a / 2) / (1 - delta * a / 2))[..., None] ** np.arange(length)",
            ),
        ),
        "These are the steps of the bilinear method. Take those of zero-order hold: Ā = e^(Δa) and "
        "b̄ = (e^(Δa) − 1) / a · b.",
    ),
    Slip(
        "b̄ without the division by a",
        (") - 1) / a", ") - 1)"),
        "b̄ is (e^(Δa) − 1) · b. Divide by a.",
    ),
    Slip(
        "Δ does not reach the powers",
        ("(delta * a)[..., None] *", "a[..., None] *"),
        "The powers are e^(a j), whatever Δ is. They should be those of Ā = e^(Δa).",
    ),
    Slip(
        "real parts of the factors",
        (
            ("weights[..., None, :] @ powers", "weights.real[..., None, :] @ powers.real"),
            ("].real", "]"),
        ),
        "Real parts are taken before the product. (u + iv)(r + is) has the real part ur − vs: "
        "multiply first, take the real part of the sum.",
    ),
    Slip(
        "b̄ divided by Δ a",
        (") - 1) / a", ") - 1) / (delta * a)"),
        "The division is by Δ a, and b has no Δ to make up for it. Divide by a.",
    ),
)


def by_steps(a, b, c, delta, length):
    """The recurrence, with its twins."""
    step = np.asarray(delta)[..., None]
    a_bar = np.exp(step * a)
    h, taps = (a_bar - 1) / a * b, []
    for _ in range(length):
        taps.append((c * h + (c * h).conj()).sum(axis=-1).real)
        h = a_bar * h
    return np.stack(taps, axis=-1)


def by_einsum(a, b, c, delta, length):
    """Powers of Ā, real and imaginary parts apart."""
    a_bar = np.exp(a * np.expand_dims(delta, -1))
    weights = 2 * c * b * np.expm1(np.expand_dims(delta, -1) * a) / a
    powers = a_bar[..., None] ** np.arange(length)
    real = np.einsum("...p,...pt->...t", weights.real, powers.real)
    return real - np.einsum("...p,...pt->...t", weights.imag, powers.imag)


EXERCISE = Exercise(
    chapter="23_state_spaces",
    title="The diagonal kernel",
    goal="Compute a kernel from a handful of complex numbers.",
    reference=answers.s4d_kernel,
    contract=Contract(
        numpy_only=True,
        leading_axes=("a", "b", "c", "delta"),
        views=True,
        arguments_unchanged=True,
        says=(
            "Leading axes are the same in all four.",
            "`b` and `c` may also be real.",
        ),
        ranges={"delta": AS_DRAWN},
    ),
    properties=(
        worked(
            "by hand: 1, 1/2, 1/4",
            np.array([-1 + 0j]),
            np.array([1 + 0j]),
            np.array([1 + 0j]),
            np.array(math.log(2)),
            3,
            want=np.array([1.0, 0.5, 0.25]),
        ),
        agrees("fresh systems, one channel and several", _values, points=2),
        known(
            "one pair is a real system of two numbers; one that only fades; large and tiny numbers",
            _dense,
            tolerance=RELATIVE,
        ),
    ),
    draws=draws,
    wide=wide,
    slips=SLIPS,
    alternatives={"steps": by_steps, "einsum": by_einsum},
    hints=(
        "Each number of the state goes its own way: Ā_n = e^(Δ a_n), and the power j of it is "
        "e^(Δ a_n j).",
        "weights = c * b * (np.exp(delta * a) − 1) / a, of shape (..., P); powers of shape "
        "(..., P, T): np.exp((delta * a)[..., None] * np.arange(length)).",
        "2 * (weights[..., None, :] @ powers)[..., 0, :].real",
    ),
    minutes=12,
    difficulty=3,
    importance=5,
)
