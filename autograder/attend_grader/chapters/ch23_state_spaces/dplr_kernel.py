"""Exercise 23_state_spaces/dplr_kernel: S4's kernel by Cauchy sums, the hard one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import state_spaces as answers
from attend_solutions.state_spaces import cut_after

from attend_grader.chapters.ch23_state_spaces.shared import cost
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, known, worked
from attend_grader.checks.properties import normal


def twins(rng: np.random.Generator, pairs: int, rank: float = 0.5) -> tuple[Any, ...]:
    """Λ, p, b, c of a real system: ``pairs`` complex numbers each, and their conjugates."""
    rates = -0.2 - abs(normal(rng, pairs)) + 2j * normal(rng, pairs)
    p, b, c = (normal(rng, pairs) + 1j * normal(rng, pairs) for _ in range(3))
    return tuple(np.concatenate([v, v.conj()]) for v in (rates, rank * p, b, c))


SIZES = ((2, 5, 0.3), (1, 4, 1.0), (3, 8, 0.1), (2, 1, 0.5), (1, 2, 0.7))


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for pairs, length, delta in (*SIZES, (20, 300, 0.02)):
        yield f"N = {2 * pairs}, {length} taps", Call((*twins(rng, pairs), delta, length))
    rates, p, b, c = twins(rng, 2)
    for scale in (1e-6, 1e-12):
        slow = scale * rates, scale**0.5 * p, b, 1e-10 * c
        yield f"rates times {scale:g}, c times 1e-10", Call((*slow, 0.5, 6))
    yield "Δ = 1e-12", Call((rates, p, b, 10 * c, 1e-12, 6))
    yield "Δ = 1e12", Call((rates, p, b, c, 1e12, 7))
    yield "rates times 1e6", Call((1e6 * rates, p, b, 1e6 * c, 0.5, 7))


def _dense(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    """HiPPO itself, and a system without the outer product: by the recurrence's matrix."""
    a, b = answers.hippo_legs(6)
    c = normal(rng, 6)
    diagonal, p, turned, v = answers.legs_dplr(6)
    want = answers.ssm_kernel(*answers.discretize(a, b, 0.2, "bilinear"), c, 10)
    yield "HiPPO with N = 6", (diagonal, p, turned, c @ v, 0.2, 10), want
    rates, _, b, c = twins(rng, 2)
    half = 0.15 * rates
    powers = ((1 + half) / (1 - half)) ** np.arange(7)[:, None]
    want = (powers @ (c * 0.3 * b / (1 - half))).real
    yield "p = 0: a diagonal system", (rates, 0 * b, b, c, 0.3, 7), want
    one, j = np.ones(1, complex), np.arange(6)
    for rate in (1e-6, 1e-12):  # some digits are lost at this rate, but 1e-12 of them count
        slow = 0.5e-10 / (1 + rate / 4) * np.exp(-rate / 2 * j)
        yield f"λ = −{rate:g}, c = 1e-10", (-rate * one, 0 * one, one, 1e-10 * one, 0.5, 6), slow


def _call(rng: np.random.Generator, length: int) -> tuple[Any, ...]:
    return *twins(rng, 2), 0.2, length


def draws(rng: np.random.Generator) -> list[Call]:
    """Odd and even lengths, one tap, more taps than numbers, p = 0, a slow system."""
    made = [Call((*twins(rng, pairs), delta, length)) for pairs, length, delta in SIZES]
    return [*made, Call((*twins(rng, 2, 0.0), 0.2, 6)), Call((*twins(rng, 2), 0.02, 6))]


def wide(rng: np.random.Generator) -> list[Call]:
    """Many taps of a slow system."""
    return [Call((*twins(rng, 2), 1e-3, 1_200))]


SUM = "cb - w * cp * pb / (1 + w * pp)"
SLIPS = (
    Slip(
        "without the outer product",
        (SUM, "cb"),
        "Right where p = 0: the second term is missing, which the outer product makes.",
    ),
    Slip(
        "the correction is added",
        (SUM, "cb + w * cp * pb / (1 + w * pp)"),
        "Right where p = 0: the second term has the wrong sign. Subtract it.",
    ),
    Slip(
        "the divisor's sign",
        ("(1 + w * pp)", "(1 - w * pp)"),
        "Right where p = 0: the divisor is 1 − w ⟨p*, p⟩ here. It should be 1 + w ⟨p*, p⟩.",
    ),
    Slip(
        "both signs of the correction",
        (SUM, "cb + w * cp * pb / (1 - w * pp)"),
        "Right where p = 0: both signs of the second term are exchanged, as if A were "
        "Λ + p p*. Subtract it, and divide it by 1 + w ⟨p*, p⟩.",
    ),
    Slip(
        "p is not conjugated below",
        ("(1 + w * pp)", "(1 + w * (cauchy @ (p * p)))"),
        "Right where p is real or 0: in the divisor stands p in the place of p*. ⟨p*, p⟩ should be "
        "the sum of |p_n|² / d_n.",
    ),
    Slip(
        "p is not conjugated above",
        ("w * cp * pb", "w * cp * (cauchy @ (p * b))"),
        "Right where p is real or 0: ⟨p, b⟩ stands in the place of ⟨p*, b⟩. Take p.conj() there.",
    ),
    Slip(
        "p is not conjugated",
        ("(c_cut, p.conj())", "(c_cut, p)"),
        "Right where p is real or 0: p stands in the place of p*. Take its conjugate in ⟨p*, b⟩ "
        "and ⟨p*, p⟩.",
    ),
    Slip(
        "p is conjugated beside c",
        ("w * cp * pb", "w * (cauchy @ (c_cut * p.conj())) * pb"),
        "Right where p is real or 0: ⟨c̃, p*⟩ stands in the place of ⟨c̃, p⟩. Only the sums with b "
        "and with p itself should have p*.",
    ),
    Slip(
        "p and p* exchanged",
        (
            "cauchy @ (u * v) for u in (c_cut, p.conj()) for v in (b, p)",
            "cauchy @ (u * v) for u in (c_cut, p) for v in (b, p.conj())",
        ),
        "Right where all p_n are real multiples of one number: p and p* have changed places. The "
        "sums should be ⟨c̃, p⟩ and ⟨p*, b⟩.",
    ),
    Slip(
        "d with + w λ",
        ("roots[:, None] - w", "roots[:, None] + w"),
        "The divisors are 1 − z + w λ here. They should be 1 − z − w λ.",
    ),
    Slip(
        "a divisor that is 0",
        ("w = (1 + roots)", "w = (1 - roots)"),
        "Every tap is NaN, as where a d_n is 0 at z = 1. d_n should be 1 − z − w λ_n, with "
        "w = (1 + z) Δ/2.",
    ),
    Slip(
        "the kernel is not cut",
        ("for u in (c_cut,", "for u in (c,"),
        "This is the endless kernel, folded: taps j + T, j + 2T, … are added to tap j. Take c̃, "
        "`c_cut`, in the place of c.",
    ),
    Slip(
        "w without its half",
        ("delta / 2", "delta"),
        "w is (1 + z) Δ here. It should be half of that.",
    ),
    Slip(
        "no Δ in front",
        ("values = delta * (", "values = ("),
        "The whole is not multiplied by Δ.",
    ),
    Slip(
        "a transform in the place of its inverse",
        ("np.fft.ifft(values)", "np.fft.fft(values)"),
        "The values at the roots are a transform already: go back from them with ifft.",
    ),
    Slip(
        "a transform, divided by T",
        ("np.fft.ifft(values)", "np.fft.fft(values) / len(values)"),
        "All taps but the first come in reverse order, as by the forward transform. Use ifft.",
    ),
    Slip(
        "real parts too early",
        ("np.fft.ifft(values).real", "np.fft.ifft(values.real).real"),
        "The real part is taken before the transform back. Take it of the taps.",
    ),
)


def by_half(diagonal, p, b, c, delta, length):
    """Half of the roots are enough for a real kernel; a sum for each pair of vectors."""
    c_cut = cut_after(c, diagonal, p, delta, length)
    z = np.exp(-2j * np.pi * np.arange(length // 2 + 1) / length)
    w = (1 + z) * delta / 2
    divisors = (1 - z)[:, None] - np.outer(w, diagonal)

    def cauchy(u, v):
        return (u * v / divisors).sum(axis=1)

    q = np.conj(p)
    low = cauchy(c_cut, p) * cauchy(q, b) / (1 + w * cauchy(q, p))
    return np.fft.irfft(delta * (cauchy(c_cut, b) - w * low), length)


def by_matrices(diagonal, p, b, c, delta, length):
    """A matrix solved for each root, all at once."""
    c_cut = cut_after(c, diagonal, p, delta, length)
    z = np.exp(-2j * np.pi * np.arange(length) / length)[:, None, None]
    a, one = np.diag(diagonal) - np.outer(p, p.conj()), np.eye(len(p))
    left = (1 - z) * one - delta / 2 * (1 + z) * a
    found = np.linalg.solve(left, np.broadcast_to(b[:, None], (length, len(b), 1)))[..., 0]
    return (np.fft.ifft(found @ c_cut) * delta).real


EXERCISE = Exercise(
    chapter="23_state_spaces",
    title="S4's kernel (the hard one)",
    goal="Compute the kernel of HiPPO's matrix without its powers.",
    reference=answers.dplr_kernel,
    contract=Contract(
        numpy_only=True,
        views=True,
        arguments_unchanged=True,
        says=("No loop over taps or roots.",),
    ),
    properties=(
        worked(
            "by hand: Λ = −1/2 and p² = 1/2 make A = −1",
            np.array([-0.5 + 0j]),
            np.array([0.5**0.5 + 0j]),
            np.ones(1, complex),
            np.ones(1, complex),
            1.0,
            2,
            want=np.array([2 / 3, 2 / 9]),
        ),
        agrees("fresh systems", _values, points=2),
        known("HiPPO itself; a diagonal system", _dense),
        cost(
            "no loop over taps or roots",
            "steps",
            _call,
            (16, 256),
            2,
            "taps",
            "A loop runs over taps or roots. Give each root a row, each number a column.",
        ),
    ),
    draws=draws,
    wide=wide,
    slips=SLIPS,
    alternatives={"half of the roots": by_half, "a matrix a root": by_matrices},
    hints=(
        "Make the table 1 / d first: a row for each root, a column for each number of Λ. Then "
        "⟨u, v⟩ at all roots is that table times u * v.",
        "w = (1 + roots) * delta / 2; cauchy = 1 / (1 − roots[:, None] − w[:, None] * diagonal). "
        "The four sums: c_cut * b, c_cut * p, p.conj() * b, p.conj() * p.",
        "values = delta * (cb - w * cp * pb / (1 + w * pp)); return np.fft.ifft(values).real",
    ),
    minutes=25,
    difficulty=5,
    importance=2,
)
