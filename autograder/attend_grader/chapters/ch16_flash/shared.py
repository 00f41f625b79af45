"""Chapter 16: numbers and properties that several exercises use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from attend_solutions.types import Array

from attend_grader.checks.compare import Miss
from attend_grader.checks.exercise import Probe, Property
from attend_grader.checks.properties import normal
from attend_grader.checks.subject import Subject


def qkv(
    rng: np.random.Generator, t: int, s: int, d: int, d_v: int, lead: tuple[int, ...] = ()
) -> tuple[Array, Array, Array]:
    """Random q (*lead, t, d), k (*lead, s, d), v (*lead, s, d_v); scores spread by a few units."""
    q, k, v = (normal(rng, *lead, *ends) for ends in ((t, d), (s, d), (s, d_v)))
    return 2 * q, 2 * k, v


def whole(q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    """Attention in one piece, real or complex: output and LSE, by the definition."""
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    largest = np.real(scores).max(axis=-1, keepdims=True)
    exponentials = np.exp(scores - largest)
    total = exponentials.sum(axis=-1, keepdims=True)
    return exponentials @ v / total, (largest + np.log(total))[..., 0]


def refuses(name: str, cases: Sequence[tuple[str, tuple[Any, ...], dict[str, Any]]]) -> Property:
    """Bad input raises a ValueError.

    Args:
        name: the card's line.
        cases: what is wrong, positional arguments, keyword arguments.
    """

    def test(subject: Subject, probe: Probe) -> None:
        for what, args, kwargs in cases:
            outcome = subject.run(args, kwargs)
            came = "a result" if outcome.error is None else outcome.error.type
            if came == "ValueError":
                continue
            text = f"{what} must raise a ValueError; your function gave {came}."
            cause = "The lines above your own code do that: keep them, and cut with tiles(…)."
            raise Miss(text, cause=cause, topic="bad input").on(probe.given(args, kwargs), "")

    return Property(name, 1, test)
