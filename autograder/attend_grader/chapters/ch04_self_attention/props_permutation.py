"""Chapter 04, the permutation test: what must hold of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from attend_solutions.types import Array

from attend_grader.chapters.ch04_self_attention.props_attention import text
from attend_grader.chapters.ch04_self_attention.props_softmax import seen
from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.properties import VIEWS, expect_unchanged
from attend_grader.checks.subject import Subject

Moved = tuple[np.ndarray, Array, Array, Array, Array]


def _turned(rng: np.random.Generator, t: int) -> np.ndarray:
    """An order of t ≥ 3 places that is not its own inverse, so that P differs from Pᵀ."""
    while True:
        order = rng.permutation(t)
        if (np.argsort(order) != order).any():
            return order


def _moved(rng: np.random.Generator, t: int, c: int, d: int, d_v: int) -> Moved:
    return _turned(rng, t), *text(rng, t, c, d, d_v)


def _moved_too(expected: Array) -> Callable[[Array], str]:
    """A clue about ``mask_stays``: it is the output moved, as if the mask had moved along."""

    def clue(stays: Array) -> str:
        if not np.allclose(stays, expected):
            return ""
        return "That is P f(x), as if the mask had moved along: here it stays as it was."

    return clue


def permutation_worked(subject: Subject, probe: Probe) -> None:
    """All scores are 0, so outputs are means of what may be seen."""
    x = np.array([[6.0], [12.0], [30.0]])
    mask = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1]], bool)
    zero, one = np.zeros((1, 1)), np.ones((1, 1))
    # before: 6, (6 + 12)/2, (6 + 12 + 30)/3; the order is now 12, 30, 6
    want = ([9.0, 16.0, 6.0], [12.0, 21.0, 16.0], [9.0, 16.0, 6.0])
    columns = tuple(np.array(column)[:, None] for column in want)
    args = (np.array([1, 2, 0]), x, zero, zero, one, mask)
    why = "scores of 0, causal mask"
    probe.agree(subject, *args, want=columns, part=0, why=why)
    probe.agree(subject, *args, want=columns, part=1, why=why, clue=_moved_too(columns[0]))
    probe.agree(subject, *args, want=columns, part=2, why=why)


def permutation_expected(subject: Subject, probe: Probe) -> None:
    """P f(x): the rows of the output in the new order, with and without a mask."""
    for t in (3, 5):
        args = _moved(probe.rng, t, 2, 3, 4)
        probe.agree(subject, *args, part=0, why=f"{t} tokens, no mask")
        probe.agree(subject, *args, seen(probe.rng, t, t), part=0, why=f"{t} tokens, a mask")


def permutation_unmasked(subject: Subject, probe: Probe) -> None:
    """Without a mask all three agree."""
    args = _moved(probe.rng, 4, 3, 2, 3)
    want = (probe.reference(*args)[0],) * 3
    why = "no mask, so all three are the same"
    probe.agree(subject, *args, want=want, why=why)
    identity = np.arange(4)
    mask = seen(probe.rng, 4, 4)
    why = "the order 0, 1, 2, 3: nothing moves"
    probe.agree(subject, identity, *args[1:], mask, why=why)


def permutation_stays(subject: Subject, probe: Probe) -> None:
    """f_M(P x): the tokens in the new order under the old mask."""
    for t in (3, 5):
        args = (*_moved(probe.rng, t, 3, 2, 2), seen(probe.rng, t, t))
        clue = _moved_too(probe.reference(*args)[0])
        probe.agree(subject, *args, part=1, why=f"{t} tokens", clue=clue)


def permutation_moves(subject: Subject, probe: Probe) -> None:
    """f_PMPᵀ(P x) = P f_M(x), whatever the mask: its rows and its columns move."""
    for _ in probe.repeat(1, 3):
        for t in (3, 4, 6):
            args = _moved(probe.rng, t, 3, 2, 2)
            mask = seen(probe.rng, t, t)
            mask[0] = False
            why = f"{t} tokens, a mask that moves along"
            probe.agree(subject, *args, mask, part=2, why=why)


def permutation_measured(subject: Subject, probe: Probe) -> None:
    """Two runs add in another order, so ``expected`` and ``mask_moves`` differ in last bits.

    (2) makes them equal, so values cannot show a third result that was never computed; rounding
    can. That all bits of six texts agree by chance is out of the question.
    """
    args: tuple = ()
    for _ in range(6):
        args = (*_moved(probe.rng, 12, 5, 3, 5), seen(probe.rng, 12, 12))
        value = probe.agree(subject, *args, part=2, why="12 tokens").value
        if (np.asarray(value[0]) != np.asarray(value[2])).any():
            return
    raise probe.miss(
        "expected and mask_moves agree to the last bit, in each of six texts. Two runs add in "
        "another order and so differ in rounding. Is each a result of its own: the output of x, "
        "moved; and the output of the moved tokens under the moved mask?",
        *args,
    )


def permutation_awkward(subject: Subject, probe: Probe) -> None:
    """An order as a list, one token, float32; and the arguments stay as they were."""
    order, *rest = _moved(probe.rng, 4, 3, 2, 2)
    mask = seen(probe.rng, 4, 4)
    probe.agree(subject, order.tolist(), *rest, mask, why="the order as a list")
    one = text(probe.rng, 1, 3, 2, 2)
    probe.agree(subject, np.array([0]), *one, np.ones((1, 1), bool), why="one token")
    small = [a.astype(np.float32) for a in rest]
    probe.agree(subject, order, *small, mask, tolerance=FLOAT32, why="float32")
    expect_unchanged(probe, probe.call(subject, order, *rest, mask))
    for why, lay in VIEWS.items():
        probe.agree(subject, lay(order), *(lay(a) for a in rest), lay(mask), why=why)


PERMUTATION = (
    Property("a hand-worked example: scores of 0, causal mask", 1, permutation_worked),
    Property("expected: P f(x), the output moved", 1, permutation_expected),
    Property("without a mask, or with nothing moved, all three agree", 1, permutation_unmasked),
    Property("mask_stays: P x under the mask as it was", 1, permutation_stays),
    Property("mask_moves: P x under P M Pᵀ", 1, permutation_moves),
    Property("mask_moves is a run of its own, not a copy", 1, permutation_measured),
    Property("lists, one token, views; arguments stay as they were", 1, permutation_awkward),
)


def permutation_draws(rng: np.random.Generator) -> list[Call]:
    """No mask and masks; T = C = D_v, where moving features instead of tokens would fit."""
    return [
        Call((*_moved(rng, 5, 3, 2, 4), seen(rng, 5, 5))),
        Call(_moved(rng, 4, 3, 2, 2)),
        Call((*_moved(rng, 4, 4, 4, 4), seen(rng, 4, 4))),
        Call((*_moved(rng, 3, 3, 1, 3), np.tril(np.ones((3, 3), bool)))),
    ]
