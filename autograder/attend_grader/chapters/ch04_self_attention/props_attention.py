"""Chapter 04, attention: what must hold of self-attention and cross-attention.

Where the scale 1/√D has a property of its own, the others use D = 1, so that one slip costs its
own points only. Widths differ from each other: C, C_c, D and D_v.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from attend_solutions.types import Array

from attend_grader.chapters.ch04_self_attention.props_softmax import empty_rows, seen, within
from attend_grader.checks.clues import sums
from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.properties import agree_untouched, expect_unchanged, normal
from attend_grader.checks.subject import Subject


def text(
    rng: np.random.Generator, t: int, c: int, d: int, d_v: int, lead: tuple[int, ...] = ()
) -> tuple[Array, Array, Array, Array]:
    """Random x (*lead, t, c), w_q and w_k (c, d), w_v (c, d_v)."""
    return normal(rng, *lead, t, c), normal(rng, c, d), normal(rng, c, d), normal(rng, c, d_v)


def two_texts(
    rng: np.random.Generator,
    t: int,
    s: int,
    c: int,
    c_c: int,
    d: int,
    d_v: int,
    lead: tuple[int, ...] = (),
) -> tuple[Array, Array, Array, Array, Array]:
    """Random x (*lead, t, c), context (*lead, s, c_c), w_q (c, d), w_k (c_c, d), w_v (c_c, d_v)."""
    x, context = normal(rng, *lead, t, c), normal(rng, *lead, s, c_c)
    return x, context, normal(rng, c, d), normal(rng, c_c, d), normal(rng, c_c, d_v)


def _scale_clue(q: Array, k: Array, widths: dict[str, int]) -> Callable[[Array], str]:
    """A clue about weights: whose root, if any, the scores seem to be divided by."""

    def clue(weights: Array) -> str:
        if not np.isfinite(weights).all() or weights.min(initial=1) <= 0:
            return ""
        dots = q @ k.T
        steps, gaps = dots[:, :1] - dots, np.log(weights[:, :1] / weights)
        if not (steps * gaps).any():
            return ""
        factor = float((steps**2).sum() / (steps * gaps).sum())
        if not np.allclose(gaps * factor, steps, atol=1e-6):
            return ""
        if np.isclose(factor, 1):
            return "Your scores are not divided by √D: attention_scores does that by itself."
        for name, width in widths.items():
            if np.isclose(factor, width**0.5):
                return f"Your scores are divided by √{name} = √{width} instead of √D."
        return f"Your scores seem to be divided by {factor:.4g} instead of √D."

    return clue


def _own(probe: Probe, subject: Subject, args: tuple[Array, ...], values: Array) -> None:
    """Hold the output to the learner's own weights times ``values``; else to the reference's."""
    got = probe.call(subject, *args).value
    want = probe.reference(*args)
    own = got[1] if isinstance(got, (tuple, list)) and len(got) == 2 else None
    if not isinstance(own, np.ndarray) or own.shape != want[1].shape:
        probe.agree(subject, *args)
    elif np.allclose(own.sum(axis=-1), 1):
        want = (own @ values, own)
    probe.agree(subject, *args, want=want, part=0, why="expected: your weights times the values")


# self_attention


def self_worked(subject: Subject, probe: Probe) -> None:
    """D = 1: weights (1/4, 3/4) and (1/2, 1/2). C = 4, so that no shape is another's."""
    w_q, w_k = np.zeros((4, 1)), np.zeros((4, 1))
    w_q[0], w_k[1] = np.log(3.0), 1.0
    w_v = np.array([[8.0, 0.0, 4.0], [0.0, 4.0, 0.0], [5.0, 5.0, 5.0], [7.0, 7.0, 7.0]])
    weights = np.array([[0.25, 0.75], [0.5, 0.5]])
    output = np.array([[2.0, 3.0, 1.0], [4.0, 2.0, 2.0]])
    for part in (1, 0):
        probe.agree(subject, np.eye(2, 4), w_q, w_k, w_v, want=(output, weights), part=part)


def self_roles(subject: Subject, probe: Probe) -> None:
    """x W_q asks, x W_k answers (D = 1: no scale)."""
    for _ in probe.repeat(1, 3):
        for t, c in ((3, 4), (4, 4), (5, 2)):
            probe.agree(subject, *text(probe.rng, t, c, 1, 2), part=1, clue=sums(-1))


def self_scaled(subject: Subject, probe: Probe) -> None:
    """Scores are divided by √D; D differs from C, T and D_v."""
    for c, d in ((3, 4), (2, 9)):
        x, w_q, w_k, w_v = text(probe.rng, 5, c, d, 2)
        clue = _scale_clue(x @ w_q, x @ w_k, {"C": c, "T": 5})
        why = f"C = {c}, D = {d}"
        probe.agree(subject, x, w_q, w_k, w_v, part=1, why=why, clue=clue)


def self_output(subject: Subject, probe: Probe) -> None:
    """The output is the weights (the learner's own) times x W_v."""
    for t, c, d, d_v in ((3, 4, 2, 5), (4, 4, 4, 4), (2, 3, 1, 3)):
        x, w_q, w_k, w_v = text(probe.rng, t, c, d, d_v)
        _own(probe, subject, (x, w_q, w_k, w_v), x @ w_v)


def self_masked(subject: Subject, probe: Probe) -> None:
    """Hidden tokens get no weight; a token that sees nothing gets the output 0 (D = 1)."""
    for t in (3, 5):
        mask = seen(probe.rng, t, t)
        args = text(probe.rng, t, 3, 1, 2)
        probe.agree(subject, *args, mask, part=1, clue=within(mask))
        probe.agree(subject, *args, mask=mask, part=0, why="the output under a mask")
    mask = seen(probe.rng, 4, 4)
    mask[2] = False
    why = "token 2 may look at nothing"
    args = text(probe.rng, 4, 3, 1, 2)
    for part in (1, 0):
        clue = empty_rows(~mask.any(axis=-1))
        probe.agree(subject, *args, mask, part=part, why=why, clue=clue)


def self_moved(subject: Subject, probe: Probe) -> None:
    """Without a mask, tokens in another order: the same rows in that order (D = 1)."""
    x, w_q, w_k, w_v = text(probe.rng, 5, 3, 1, 2)
    output, weights = probe.reference(x, w_q, w_k, w_v)
    order = probe.rng.permutation(5)
    want = (output[order], weights[order][:, order])
    why = "tokens in another order: rows (and columns of the weights) should follow"
    probe.agree(subject, x[order], w_q, w_k, w_v, want=want, why=why)
    want = (np.full((4, 2), 3.0), np.full((4, 4), 0.25))
    same, one = np.ones((4, 3)), np.ones((3, 2))
    why = "equal tokens: equal weights"
    probe.agree(subject, same, normal(probe.rng, 3, 1), w_k, one, want=want, why=why)
    why = "one token only, which looks at itself"
    want = (x[:1] @ w_v, np.ones((1, 1)))
    probe.agree(subject, x[:1], w_q, w_k, w_v, want=want, why=why)


def self_leading(subject: Subject, probe: Probe) -> None:
    """Each sentence of a batch on its own, with one mask for all or one each (D = 1)."""
    for lead in ((2,), (2, 1, 3)):
        args = text(probe.rng, 3, 4, 1, 2, lead)
        probe.agree(subject, *args, why=f"x {args[0].shape}, no mask")
        for shape in ((3, 3), (2, *(1,) * len(lead), 3)):
            mask = seen(probe.rng, *shape)
            why = f"x {args[0].shape}, mask {shape}"
            probe.agree(subject, *args, mask, part=1, why=why, clue=within(mask))
            probe.agree(subject, *args, mask, part=0, why=why)


def self_awkward(subject: Subject, probe: Probe) -> None:
    """Large scores, whole numbers, float32, views; and arguments stay as they were (D = 1)."""
    args = text(probe.rng, 4, 3, 1, 2)
    mask = seen(probe.rng, 4, 4)
    probe.agree(subject, 100 * args[0], *args[1:], mask, why="large scores")
    whole = [probe.rng.integers(-2, 3, a.shape) for a in args]
    probe.agree(subject, *whole, mask, why="whole numbers")
    small = [a.astype(np.float32) for a in args]
    probe.agree(subject, *small, mask, tolerance=FLOAT32, why="float32")
    agree_untouched(probe, subject, *args)
    expect_unchanged(probe, probe.call(subject, *args, mask))


SELF = (
    Property("a hand-worked example: two tokens, D = 1", 1, self_worked),
    Property("weights: x W_q asks, x W_k answers", 2, self_roles),
    Property("scores are divided by √D", 1, self_scaled),
    Property("output: your weights times x W_v", 1, self_output),
    Property("the mask hides; a token that sees nothing gets 0", 2, self_masked),
    Property("tokens moved move the outputs; equal tokens; one token", 1, self_moved),
    Property("leading axes; masks broadcast", 1, self_leading),
    Property("large scores, integers, views; arguments stay as they were", 1, self_awkward),
)


def self_draws(rng: np.random.Generator) -> list[Call]:
    """All widths different, all equal, masks (also with an empty row), a batch, large scores."""
    some = seen(rng, 4, 4)
    some[1] = False
    x, w_q, w_k, w_v = text(rng, 3, 2, 3, 2)
    return [
        Call(text(rng, 4, 3, 2, 5)),
        Call((*text(rng, 5, 3, 2, 3), seen(rng, 5, 5))),
        Call(text(rng, 4, 4, 4, 4)),
        Call((*text(rng, 4, 3, 4, 4), some)),
        Call((*text(rng, 3, 4, 4, 2, (2,)), seen(rng, 2, 1, 3))),
        Call((10 * x, w_q, w_k, w_v, seen(rng, 3, 3))),
    ]


# cross_attention


def cross_worked(subject: Subject, probe: Probe) -> None:
    """D = 1: three context tokens with weights 1 : 2 : 1 and, for the other query, all equal."""
    context = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]])
    w_q, w_k = np.array([[np.log(2.0)], [0.0], [0.0]]), np.array([[0.0], [1.0]])
    x, w_v = np.array([[1.0, 5.0, 0.0], [0.0, 7.0, 1.0]]), np.array([[4.0], [12.0]])
    weights = np.array([[0.25, 0.5, 0.25], [1 / 3, 1 / 3, 1 / 3]])
    want = (np.array([[9.0], [8.0]]), weights)
    for part in (1, 0):
        probe.agree(subject, x, context, w_q, w_k, w_v, want=want, part=part)


def cross_roles(subject: Subject, probe: Probe) -> None:
    """x asks, the context answers (D = 1: no scale); equal widths and lengths included."""
    for _ in probe.repeat(1, 3):
        for t, s, c, c_c in ((2, 5, 3, 4), (3, 3, 4, 4), (4, 1, 2, 3), (1, 4, 3, 3)):
            args = two_texts(probe.rng, t, s, c, c_c, 1, 2)
            why = f"{t} queries, {s} keys"
            probe.agree(subject, *args, part=1, why=why, clue=sums(-1))


def cross_scaled(subject: Subject, probe: Probe) -> None:
    """Scores are divided by √D; all widths differ."""
    for c, c_c, d in ((3, 2, 4), (4, 5, 9)):
        x, context, w_q, w_k, w_v = two_texts(probe.rng, 3, 6, c, c_c, d, 2)
        clue = _scale_clue(x @ w_q, context @ w_k, {"C": c, "C_c": c_c, "S": 6, "T": 3})
        why = f"C = {c}, C_c = {c_c}, D = {d}"
        probe.agree(subject, x, context, w_q, w_k, w_v, part=1, why=why, clue=clue)


def cross_output(subject: Subject, probe: Probe) -> None:
    """The output is the weights (the learner's own) times context W_v."""
    for t, s, c, c_c, d, d_v in ((3, 4, 2, 3, 2, 5), (3, 3, 4, 4, 4, 4), (2, 5, 3, 3, 1, 3)):
        args = two_texts(probe.rng, t, s, c, c_c, d, d_v)
        _own(probe, subject, args, args[1] @ args[4])


def cross_masked(subject: Subject, probe: Probe) -> None:
    """Hidden places of the context get no weight; a query that sees nothing gets 0 (D = 1)."""
    args = two_texts(probe.rng, 3, 5, 2, 4, 1, 2)
    mask = seen(probe.rng, 3, 5)
    probe.agree(subject, *args, mask, part=1, clue=within(mask))
    probe.agree(subject, *args, mask=mask, part=0, why="the output under a mask")
    row = seen(probe.rng, 5)
    probe.agree(subject, *args, row, part=1, why="one mask (5,) for all queries", clue=within(row))
    mask[1] = False
    why = "query 1 may look at nothing"
    for part in (1, 0):
        clue = empty_rows(~mask.any(axis=-1))
        probe.agree(subject, *args, mask, part=part, why=why, clue=clue)


def cross_order(subject: Subject, probe: Probe) -> None:
    """The context is a set, queries do not see each other, and x may be its own context (D = 1)."""
    x, context, w_q, w_k, w_v = two_texts(probe.rng, 3, 5, 2, 4, 1, 2)
    output, weights = probe.reference(x, context, w_q, w_k, w_v)
    turn = probe.rng.permutation(5)
    why = "context in another order: the weights move along, the output stays"
    want = (output, weights[:, turn])
    probe.agree(subject, x, context[turn], w_q, w_k, w_v, want=want, why=why)
    why = "one of the queries alone: its row stays"
    want = (output[1:2], weights[1:2])
    probe.agree(subject, x[1:2], context, w_q, w_k, w_v, want=want, why=why)
    x, w_q, w_k, w_v = text(probe.rng, 4, 3, 1, 2)
    probe.agree(subject, x, x, w_q, w_k, w_v, why="context = x: self-attention")


def cross_awkward(subject: Subject, probe: Probe) -> None:
    """Leading axes, whole numbers, float32, views; arguments stay as they were (D = 1)."""
    args = two_texts(probe.rng, 3, 4, 2, 3, 1, 2, (2, 2))
    mask = seen(probe.rng, 2, 1, 1, 4)
    probe.agree(subject, *args, mask, why="2 leading axes, mask (2, 1, 1, 4)")
    args = two_texts(probe.rng, 3, 4, 2, 3, 1, 2)
    whole = [probe.rng.integers(-2, 3, a.shape) for a in args]
    probe.agree(subject, *whole, why="whole numbers")
    small = [a.astype(np.float32) for a in args]
    probe.agree(subject, *small, tolerance=FLOAT32, why="float32")
    agree_untouched(probe, subject, *args)
    expect_unchanged(probe, probe.call(subject, *args, seen(probe.rng, 3, 4)))


CROSS = (
    Property("a hand-worked example: two queries, three keys", 1, cross_worked),
    Property("weights: x asks, the context answers", 2, cross_roles),
    Property("scores are divided by √D", 1, cross_scaled),
    Property("output: your weights times context W_v", 1, cross_output),
    Property("the mask hides; a query that sees nothing gets 0", 1, cross_masked),
    Property("the context is a set; queries do not mix", 1, cross_order),
    Property("leading axes, integers, views; arguments stay as they were", 1, cross_awkward),
)


def cross_draws(rng: np.random.Generator) -> list[Call]:
    """All sizes different, all equal, masks (also with an empty row), a batch."""
    some = seen(rng, 3, 5)
    some[1] = False
    return [
        Call(two_texts(rng, 3, 5, 2, 4, 3, 2)),
        Call((*two_texts(rng, 4, 4, 3, 3, 2, 3), seen(rng, 4, 4))),
        Call(two_texts(rng, 4, 4, 4, 4, 4, 4)),
        Call((*two_texts(rng, 3, 5, 2, 4, 3, 2), some)),
        Call((*two_texts(rng, 3, 4, 4, 2, 4, 3, (2,)), seen(rng, 2, 1, 4))),
    ]
