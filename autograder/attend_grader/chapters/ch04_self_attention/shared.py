"""Chapter 04: texts and masks that several exercises draw, and what explains a miss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from attend_solutions.types import Array, Mask

from attend_grader.checks.clues import near_one
from attend_grader.checks.compare import Miss
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS, Contract
from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.helpers import Cases, no_clue
from attend_grader.checks.properties import normal
from attend_grader.checks.subject import Subject

Clue = Callable[[Array], str]


def seen(rng: np.random.Generator, *shape: int) -> Mask:
    """A random mask: in each row of two or more places at least one is visible, one hidden."""
    mask = rng.random(shape) < 0.6
    turn = rng.permuted(np.broadcast_to(np.arange(shape[-1]), shape), axis=-1)
    return (mask | (turn == 0)) & ((turn != 1) | (shape[-1] == 1))


def with_empty_row(mask: Mask, row: int) -> Mask:
    """A copy in which query ``row`` may look at nothing."""
    mask = mask.copy()
    mask[..., row, :] = False
    return mask


def text(
    rng: np.random.Generator, t: int, c: int, d: int, d_v: int, lead: tuple[int, ...] = ()
) -> tuple[Array, Array, Array, Array]:
    """Random x (*lead, t, c), w_q and w_k (c, d), w_v (c, d_v)."""
    return normal(rng, *lead, t, c), normal(rng, c, d), normal(rng, c, d), normal(rng, c, d_v)


FAR = {"−10¹²": 1e6, "−10²⁴": 1e12}
"""Sizes of queries and keys whose scores lie below -1e9, and far below."""

FARTHER = {**FAR, "−10⁴⁸": 1e24}
"""Of queries and keys that are products of two numbers; the last are below any float32."""


def far_below(
    x: Array, w_q: Array, w_k: Array, w_v: Array, size: float
) -> tuple[Array, Array, Array, Array]:
    """The same text with queries below 0 and keys above: scores near -size², far below any fill."""
    matrices = max(size / 1e12, 1.0)
    w_q, w_k = -matrices * (np.abs(w_q) + 0.1), matrices * (np.abs(w_k) + 0.1)
    return size / matrices * (np.abs(x) + 1), w_q, w_k, w_v


def late(
    rng: np.random.Generator, d: int, d_v: int, lead: tuple[int, ...] = ()
) -> tuple[Array, Array, Array, Mask]:
    """q, k, v and a mask (140,): only the last 5 keys are seen, with scores near −1,000."""
    q, k, v = normal(rng, *lead, 3, d), normal(rng, *lead, 140, d), normal(rng, *lead, 140, d_v)
    q, k = 100 * (np.abs(q) + 0.5), -10 * (np.abs(k) + 0.5)
    return q, k, v, np.arange(140) >= 135


FILLED = (
    "A row with nothing to look at shares its weight evenly, as if hidden scores were filled with "
    "one low number (−1e9, say). Fill with −inf, and give empty rows 0: masked_softmax does both."
)
EMPTY = (
    "In a row with nothing to look at, two things make NaN: −inf − (−inf), if all its scores are "
    "−inf and the largest is subtracted; and 0 / 0, if its weights are divided by their sum, which "
    "is 0. Settle such rows before that."
)


def within(mask: Any) -> Clue:
    """A clue about weights: what is wrong in empty rows, in hidden places, in the sums of rows."""

    def clue(weights: Array) -> str:
        allowed = np.broadcast_to(True if mask is None else mask, weights.shape)
        empty = weights[~allowed.any(axis=-1)]
        if np.isnan(empty).any():
            return EMPTY
        if not np.isfinite(weights).all():
            return ""
        if empty.any():
            return (
                "A row with nothing to look at gets the weight 0 everywhere; yours holds "
                f"{empty.flat[np.abs(empty).argmax()]:.3g}."
            )
        stray = np.abs(np.where(allowed, 0, weights))
        if stray.max(initial=0) > 0:
            where = np.unravel_index(int(stray.argmax()), weights.shape)
            place = ", ".join(map(str, where))
            return (
                f"The mask is False at [{place}], so the weight there must be 0; yours is "
                f"{weights[where]:.3g}."
            )
        totals = weights.sum(axis=-1)
        off = np.abs(np.where(allowed.any(axis=-1), totals - 1, 0)).ravel()
        if off.max(initial=0) < 1e-6:
            return ""
        worst = int(off.argmax())
        total, hides = np.ravel(totals)[worst], not allowed.all(axis=-1).flat[worst]
        lost = " Is what is taken off before exp the largest visible score of that row?"
        lost = lost if total == 0 and hides else ""
        return (
            "The visible weights of a row must sum to 1; somewhere yours sum to "
            f"{near_one(total)}.{lost}"
        )

    return clue


def under_masks(
    name: str,
    cases: Cases,
    points: int = 1,
    *,
    repeat: int = 1,
    parts: tuple[int | None, ...] = (None,),
    nan: str = "",
) -> Property:
    """Agreement with the reference, where a miss in the weights is explained by the call's mask.

    Of ``parts``, the weights are result 1, or the only one; ``nan`` is said where they are NaN.
    """

    def clue(call: Call) -> Clue:
        last = call.args[-1]
        mask = last if isinstance(last, np.ndarray) and last.dtype == bool else None

        def told(weights: Array) -> str:
            return nan if nan and np.isnan(weights).any() else within(mask)(weights)

        return told

    def test(subject: Subject, probe: Probe) -> None:
        for _ in probe.repeat(1, repeat):
            for why, call in cases(probe.rng):
                for part in parts:
                    told = no_clue if part == 0 else clue(call)
                    probe.agree(subject, *call.args, part=part, why=why, clue=told)

    return Property(name, points, test)


def own_output(name: str, cases: Cases, values: Callable[..., Array]) -> Property:
    """The output is the learner's own weights times ``values(*args)``: their slips cost nothing."""

    def test(subject: Subject, probe: Probe) -> None:
        for why, call in cases(probe.rng):
            own, want = _own(subject, probe, call.args), None
            if own is None:
                why = f"{why}, with the right weights" if why else "with the right weights"
            else:
                want, why = (own[1] @ values(*call.args), own[1]), "your weights times the values"
            probe.agree(subject, *call.args, want=want, part=0, why=why)

    return Property(name, 1, test)


def _own(subject: Subject, probe: Probe, args: tuple[Any, ...]) -> tuple[Array, Array] | None:
    """The learner's output and weights, if they have the right form and rows of weights sum to 1.

    Raises:
        SubjectError: the candidate raised.
    """
    got, want = probe.call(subject, *args).value, probe.reference(*args)
    forms = [np.shape(part) for part in got] if isinstance(got, (tuple, list)) else []
    if forms != [part.shape for part in want] or not np.allclose(got[1].sum(axis=-1), 1):
        return None
    return got[0], got[1]


def own_masked(name: str, cases: Cases, values: Callable[..., Array], points: int) -> Property:
    """Under a mask, the visible keys share in proportion to the learner's own weights without one.

    So a slip in the scores costs nothing here. The mask is a call's last argument, and ``values``
    are those of the others.
    """

    def test(subject: Subject, probe: Probe) -> None:
        for why, call in cases(probe.rng):
            *args, mask = call.args
            own = _own(subject, probe, tuple(args))
            if own is None:
                probe.agree(subject, *call.args, part=1, why=why, clue=within(mask))
                continue
            shares = np.where(mask, own[1], 0.0)
            total = shares.sum(axis=-1, keepdims=True)
            weights = shares / np.where(total == 0, 1.0, total)
            looked_up = values(*args)
            if not np.allclose(own[0], own[1] @ looked_up):
                looked_up = None  # another slip; its output must only be 0 in empty rows
            want = (own[0] if looked_up is None else weights @ looked_up, weights)
            told = f"{why}: {OWN}" if why else OWN
            try:
                probe.agree(subject, *call.args, want=want, part=1, why=told, clue=within(mask))
                if looked_up is not None:
                    probe.agree(subject, *call.args, want=want, part=0, why=why)
            except Miss:  # it may be right under the mask, and wrong without one
                if _wrong(subject, probe, call):
                    raise

    return Property(name, points, test)


OWN = "compared with your weights without a mask"


def _wrong(subject: Subject, probe: Probe, call: Call) -> bool:
    """Whether a call gives another result than the right one."""
    try:
        for part in (0, 1):
            probe.agree(subject, *call.args, part=part)
    except Miss:
        return True
    return False


def scale_clue(q: Array, k: Array, widths: dict[str, int]) -> Clue:
    """A clue about weights without a mask: whose root, if any, the scores were divided by."""

    def clue(weights: Array) -> str:
        if not np.isfinite(weights).all() or weights.min(initial=1) <= 0:
            return ""
        dots = q @ k.T
        steps, gaps = dots[:, :1] - dots, np.log(weights[:, :1] / weights)
        if not (steps * gaps).any():
            return within(None)(weights)
        factor = float((steps**2).sum() / (steps * gaps).sum())
        if not np.allclose(gaps * factor, steps, atol=1e-6):
            return within(None)(weights)
        if np.isclose(factor, 1):
            return "Your scores are not divided by √D: attention_scores does that by itself."
        for name, width in widths.items():
            if np.isclose(factor, width**0.5):
                return f"Your scores are divided by √{name} = √{width} instead of √D."
        return f"Your scores seem to be divided by {factor:.4g} instead of √D."

    return clue


def looking(named: tuple[str, ...], *, forbids: tuple[str, ...] = ()) -> Contract:
    """The contract of whatever looks; ``named`` arguments have leading axes."""
    return Contract(
        numpy_only=True,
        leading_axes=named,
        shared=("mask",),
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        one_array=True,
        masks=("mask",),
        hidden_rows=True,
        arguments_unchanged=True,
        says=("Products of integers fit into int64.",),
        forbids=forbids,
    )
