"""Exercise 23_state_spaces/s4d_init: where a diagonal system starts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from attend_solutions import state_spaces as answers

from attend_grader.chapters.ch23_state_spaces.shared import misnamed
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import Cases, agrees, refuses, worked

PI, KINDS = np.pi, ("lin", "inv")


def _of(kind: str) -> Cases:
    def cases(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
        some = (rng.integers(*ends) for ends in ((4, 12), (66, 129), (192, 257)))
        for pairs in (3, 1, 13, 26, 83, *map(int, some), 300):  # 13 · π / π is rounded up
            yield f"{kind}, {pairs} pair{'s' * (pairs > 1)}", Call((pairs, kind))

    return cases


def draws(rng: np.random.Generator) -> list[Call]:
    """Both kinds, one pair and more, the default kind."""
    del rng
    called = [Call((pairs, kind)) for pairs in (1, 2, 5) for kind in ("lin", "inv")]
    return [*called, Call((4,))]


SLIPS = (
    Slip(
        "growing",
        ("-0.5 + 1j", "0.5 + 1j"),
        "The real part is positive, so that the state grows without end. It should be −1/2.",
    ),
    Slip(
        "both of each pair",
        ("-0.5 + 1j * turns", "np.concatenate([-0.5 + 1j * turns, -0.5 - 1j * turns])"),
        "Both numbers of each pair are there, 2P in all. Keep one of each: P numbers.",
    ),
    Slip(
        "N rates",
        ("np.arange(pairs), 2", "np.arange(2 * pairs), 2"),
        "n runs to N − 1, so that there are 2P numbers. Each stands for a pair: n should run to "
        "P − 1.",
    ),
    Slip(
        "nothing fades",
        ("-0.5 + 1j", "0 + 1j"),
        "The real part is missing: the kernel never fades. It should be −1/2.",
    ),
    Slip(
        "with lin, nothing fades",
        ("-0.5 + 1j", "-0.5 * (kind != 'lin') + 1j"),
        "With lin, the real part is missing: the kernel never fades. It should be −1/2.",
    ),
    Slip(
        "with lin, turning the other way",
        ("np.pi * n if", "-np.pi * n if"),
        "With lin, the imaginary parts have the other sign: they should be πn.",
    ),
    Slip(
        "turning the other way",
        ("-0.5 + 1j", "-0.5 - 1j"),
        "The imaginary parts have the other sign. (As a set of pairs that would be the same, but "
        "the formula says +i.)",
    ),
    Slip(
        "2π n",
        ("np.pi * n if", "2 * np.pi * n if"),
        "With lin, the imaginary parts are 2πn here. They should be πn.",
    ),
    Slip(
        "counted from 1",
        ("np.arange(pairs), 2", "np.arange(1, pairs + 1), 2"),
        "n counts from 1. It should count from 0: with lin, the first number should not turn at "
        "all.",
    ),
    Slip(
        "P in the place of N",
        ("2 * pairs", "pairs"),
        "With inv, N is taken to be the number of pairs. It should be twice that: each pair is two "
        "numbers of the state.",
    ),
    Slip(
        "inv without −1",
        (" - 1)", ")"),
        "With inv, the −1 in the brackets is missing.",
    ),
    Slip(
        "inv with N / (2n + 2)",
        ("size / (2 * n + 1) - 1", "size / (2 * n + 2)"),
        "With inv, the brackets hold N / (2n + 2). Subtract 1 from the quotient: N / (2n + 1) − 1.",
    ),
    Slip(
        "inv with a whole-number division",
        ("size / (2 * n + 1)", "size // (2 * n + 1)"),
        "With inv, the fraction of N / (2n + 1) is dropped. Use `/`, not `//`.",
    ),
    Slip(
        "inv without N/π",
        ("size / np.pi * (size", "(size"),
        "With inv, the factor N/π in front is missing.",
    ),
    Slip(
        "inv from slow to fast",
        (
            "size / np.pi * (size / (2 * n + 1) - 1)",
            "np.sort(size / np.pi * (size / (2 * n + 1) - 1))",
        ),
        "With inv, the numbers are in the opposite order: n = 0 should turn fastest.",
    ),
    Slip(
        "lin from 0 to π",
        ("np.pi * n if", "np.linspace(0, np.pi, pairs) if"),
        "With lin, the imaginary parts go from 0 to π, for any P above 1. They should be πn, up to "
        "π (P − 1).",
    ),
)


def by_list(pairs, kind="lin"):
    """A list of Python's complex numbers."""
    if kind == "lin":
        return np.array([complex(-0.5, PI * n) for n in range(pairs)])
    if kind != "inv":
        raise ValueError(kind)
    size = 2 * pairs
    return np.array([complex(-0.5, size / PI * (size / (2 * n + 1) - 1)) for n in range(pairs)])


def in_parts(pairs, kind="lin"):
    """Real and imaginary parts filled in."""
    if kind not in ("lin", "inv"):
        raise ValueError(kind)
    a = np.full(pairs, -0.5, dtype=complex)
    odd = np.arange(1, 2 * pairs, 2)
    a.imag = PI * (odd - 1) / 2 if kind == "lin" else 2 * pairs * (2 * pairs - odd) / (PI * odd)
    return a


EXERCISE = Exercise(
    chapter="23_state_spaces",
    title="Where to start",
    goal="Choose the rates of a diagonal system: how fast each fades and turns.",
    reference=answers.s4d_init,
    contract=Contract(numpy_only=True, says=("Another kind raises a ValueError.",)),
    properties=(
        worked(
            "by hand: two pairs, inv",
            2,
            "inv",
            want=np.array([-0.5 + 12j / PI, -0.5 + 4j / (3 * PI)]),
        ),
        agrees("lin, for any number of pairs", _of("lin"), points=2),
        agrees("inv, for any number of pairs", _of("inv"), points=2),
        refuses(
            tuple(
                (f"another kind, {kind!r},", (3, kind))
                for kind in ("legs", "linear", "inverse", *misnamed(KINDS))
            )
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"a list": by_list, "in parts": in_parts},
    hints=(
        "Both kinds have the real part −1/2. `1j` is i: -0.5 + 1j * turns.",
        "lin: turns = np.pi * n. inv: turns = N / np.pi * (N / (2 * n + 1) − 1).",
        "turns = np.pi * n if kind == 'lin' else size / np.pi * (size / (2 * n + 1) - 1)",
    ),
    minutes=5,
    difficulty=1,
    importance=3,
)
