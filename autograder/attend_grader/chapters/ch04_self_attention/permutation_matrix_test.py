"""Exercise 04_self_attention/permutation_matrix_test: moving the tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
from attend_solutions import self_attention
from attend_solutions.self_attention import permutation_matrix_test
from attend_solutions.types import Array, Mask

from attend_grader.chapters.ch04_self_attention.shared import seen, text, with_empty_row
from attend_grader.checks.compare import Miss
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Fresh, Known, agrees, known, worked
from attend_grader.checks.subject import Subject

Moved = tuple[np.ndarray, Array, Array, Array, Array]


def _moved(rng: np.random.Generator, t: int, c: int, d: int, d_v: int) -> Moved:
    """An order of t ≥ 3 places that is not its own inverse (P differs from Pᵀ), and a text."""
    while True:
        order = rng.permutation(t)
        if (np.argsort(order) != order).any():
            return order, *text(rng, t, c, d, d_v)


def _columns(*rows: list[float]) -> tuple[Array, ...]:
    return tuple(np.array(row)[:, None] for row in rows)


def _expected(rng: np.random.Generator) -> Fresh:
    for t in (3, 5):
        order, *rest = _moved(rng, t, 2, 3, 4)
        yield f"{t} tokens, no mask", Call((order, *rest))
        yield f"{t} tokens, a mask", Call((order, *rest, seen(rng, t, t)))
        yield "the order as a list", Call((order.tolist(), *rest, seen(rng, t, t)))


def _alike(rng: np.random.Generator) -> Known:
    args = _moved(rng, 4, 3, 2, 5)
    want = permutation_matrix_test(*args)[0]
    yield "no mask, so all three are the same", args, (want,) * 3
    everyone = np.ones((4, 4), bool)
    yield "a mask of True, so all three are the same", (*args, everyone), (want,) * 3
    yield "a mask of False, so all three are 0", (*args, ~everyone), (np.zeros((4, 5)),) * 3
    same = (np.arange(4), *args[1:], seen(rng, 4, 4))
    yield "the order 0, 1, 2, 3: nothing moves", same, (permutation_matrix_test(*same)[0],) * 3
    one = text(rng, 1, 3, 2, 5)
    yield "one token", (np.array([0]), *one, np.ones((1, 1), bool)), (one[0] @ one[3],) * 3


def _stays(subject: Subject, probe: Probe) -> None:
    for t in (3, 5):
        moved, mask = _moved(probe.rng, t, 3, 2, 4), seen(probe.rng, t, t)
        args = (*moved, mask)
        expected = probe.reference(*args)[0]

        def clue(stays: Array, expected: Array = expected) -> str:
            if not np.allclose(stays, expected):
                return ""
            return "That is P f(x), as if the mask had moved along: here it stays as it was."

        probe.agree(subject, *args, part=1, why=f"{t} tokens", clue=clue)
        for shown in _even(t):
            why = f"{t} tokens, each row and column shows as many"
            probe.agree(subject, *moved, shown, part=1, why=why)


def _even(t: int) -> list[Mask]:
    """Masks with as many True in each row and each column, which orders change all the same."""
    turn = np.roll(np.eye(t, dtype=bool), 1, axis=1)
    packed = [np.kron(np.eye(2), np.ones((t // 2,) * 2)) > 0] if t % 2 == 0 else []
    return [turn, turn | turn.T, *packed]


def _moves(rng: np.random.Generator) -> Fresh:
    for t in (3, 4, 6):
        mask = with_empty_row(seen(rng, t, t), 0)
        yield f"{t} tokens, a mask that moves along", Call((*_moved(rng, t, 3, 2, 5), mask))
        for even in _even(t):
            why = f"{t} tokens, each row and column shows as many"
            yield why, Call((*_moved(rng, t, 3, 2, 5), even))


def _measured(subject: Subject, probe: Probe) -> None:
    """Values of ±10¹² that cancel: two runs add them in another order, and rounding shows it.

    (2) makes ``expected`` and ``mask_moves`` equal, and (1) all three without a mask, so usual
    values cannot show a result that was never computed. Terms this large leave their rounding in
    any type of float, float128 too.
    """
    args: tuple = (*_moved(probe.rng, 12, 2, 3, 5), seen(probe.rng, 12, 12))
    probe.agree(subject, *args, part=2, why="12 tokens")
    for masked, part in ((True, 2), (False, 2), (False, 1)):
        copied = True
        for _ in range(6):
            args = _cancelling(probe.rng) if masked else _cancelling(probe.rng)[:-1]
            value = probe.call(subject, *args).value
            copied &= bool((np.asarray(value[0]) == np.asarray(value[part])).all())
        if copied:
            raise _a_copy(probe, args, part)


def _cancelling(rng: np.random.Generator) -> tuple[Any, ...]:
    """Arguments whose outputs are sums of large terms that cancel but for their rounding."""
    order, x, w_q, w_k, w_v = _moved(rng, 12, 2, 3, 5)
    x[::2, 1] *= 1e12
    x[1::2, 1] = -x[::2, 1]  # seen together or not at all, with equal weights
    return order, x, 0 * w_q, w_k, w_v, seen(rng, 12, 6).repeat(2, axis=1)


def _a_copy(probe: Probe, args: tuple[Any, ...], part: int) -> Miss:
    moves = part == 2
    under = "" if len(args) == 5 else " under the moved mask" if moves else " under the same mask"
    return probe.miss(
        f"expected and {'mask_moves' if moves else 'mask_stays'} agree to the last bit, in each "
        f"of six texts {'without a mask ' * (len(args) == 5)}with values near 10¹². Two runs add "
        "in another order and so differ in rounding. Is each a result of its own: the output of "
        f"x, moved; and the output of the moved tokens{under}?",
        *args,
    )


def draws(rng: np.random.Generator) -> list[Call]:
    """No mask and masks, one symmetric; T = C = D_v, where moving features would fit; a list."""
    order, *rest = _moved(rng, 3, 2, 2, 2)
    lower = np.tril(seen(rng, 4, 4))
    return [
        Call((*_moved(rng, 5, 3, 2, 4), seen(rng, 5, 5))),
        Call(_moved(rng, 4, 3, 2, 2)),
        Call((*_moved(rng, 4, 4, 4, 4), seen(rng, 4, 4))),
        Call((*_moved(rng, 3, 3, 2, 3), np.tril(np.ones((3, 3), bool)))),
        Call((order.tolist(), *rest, seen(rng, 3, 3))),
        Call((*_moved(rng, 4, 3, 2, 2), lower | lower.T)),
    ]


def wide(rng: np.random.Generator) -> list[Call]:
    """Many tokens, which take places of more than 8 bits."""
    return [Call(_moved(rng, 300, 1, 1, 1))]


MASK = "p @ mask @ p.T"

SLIPS = (
    Slip(
        "Pᵀ instead of P",
        ("[np.asarray(order)]", "[:, np.asarray(order)]"),
        "Tokens go the opposite way, as if your matrix were Pᵀ. Row i of P should have its 1 in "
        "column order[i], so that row i of P x is row order[i] of x: np.eye(T)[order].",
    ),
    Slip(
        "only the mask's rows move",
        (MASK, "p @ mask"),
        "Only the rows of the mask move (P M). Its columns are tokens too: P M Pᵀ.",
    ),
    Slip(
        "only the mask's columns move",
        (MASK, "mask @ p.T"),
        "Only the columns of the mask move (M Pᵀ). Its rows are tokens too: P M Pᵀ.",
    ),
    Slip(
        "the mask moves the opposite way",
        (MASK, "p.T @ mask @ p"),
        "The mask moves the opposite way to the tokens: Pᵀ M P. It should be P M Pᵀ, P on the "
        "left as for the tokens.",
    ),
    Slip(
        "the mask never moves",
        ("w_v, moved_mask", "w_v, mask"),
        "The second and the third result are the same: the mask does not move in the third. Give "
        "it P M Pᵀ there.",
    ),
    Slip(
        "the output is not moved",
        ("return p @ output", "return output"),
        "The first result is f(x) in its old order. Move its rows as well: P @ f(x).",
    ),
    Slip(
        "second and third exchanged",
        ("mask_stays, mask_moves", "mask_moves, mask_stays"),
        "The second and third results are in each other's places: give first that of the mask "
        "that stays, then that of the one that moves.",
    ),
    Slip(
        "weights instead of outputs",
        (
            ("output, _", "_, output"),
            ("mask_stays, _", "_, mask_stays"),
            ("mask_moves, _", "_, mask_moves"),
        ),
        "Your results are weights (T, T). self_attention returns output and weights: take the "
        "output, the first of the two.",
    ),
)


def by_indexing(order, x, w_q, w_k, w_v, mask=None):
    """Builds no matrix: x[order] is P x, mask[order][:, order] is P M Pᵀ."""
    moved = None if mask is None else mask[order][:, order]
    run = self_attention.self_attention
    expected = run(x, w_q, w_k, w_v, mask)[0][order]
    stays = run(x[order], w_q, w_k, w_v, mask)[0]
    return expected, stays, run(x[order], w_q, w_k, w_v, moved)[0]


def in_longdouble(order, x, w_q, w_k, w_v, mask=None):
    """As wide as floats are, where expected and mask_moves agree but for rare last bits."""
    x, w_q, w_k, w_v = (np.asarray(part, np.longdouble) for part in (x, w_q, w_k, w_v))
    return tuple(part.astype(float) for part in by_indexing(order, x, w_q, w_k, w_v, mask))


EXERCISE = Exercise(
    chapter="04_self_attention",
    title="Moving the tokens",
    goal="Find out whether self-attention notices in which order the tokens come.",
    reference=permutation_matrix_test,
    contract=Contract(
        numpy_only=True,
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        one_array=True,
        arguments_unchanged=True,
        says=(
            "`order` may be a list.",
            "Neither `mask_stays` nor `mask_moves` is a copy of `expected`.",
        ),
    ),
    properties=(
        worked(
            "a hand-worked example: scores of 0, causal mask",
            np.array([1, 2, 0]),
            np.array([[6.0], [12.0], [30.0]]),
            np.zeros((1, 1)),
            np.zeros((1, 1)),
            np.ones((1, 1)),
            np.tril(np.ones((3, 3), bool)),
            # before: 6, (6 + 12)/2, (6 + 12 + 30)/3; the order is then 12, 30, 6
            want=_columns([9.0, 16.0, 6.0], [12.0, 21.0, 16.0], [9.0, 16.0, 6.0]),
        ),
        agrees("expected: P f(x), the output moved", _expected, part=0, repeat=1),
        known("without a mask, or with nothing to move, all three agree", _alike),
        Property("mask_stays: P x under the mask as it was", 1, _stays),
        agrees("mask_moves: P x under P M Pᵀ", _moves, part=2),
        Property("the second and third are no copies of the first", 1, _measured),
    ),
    draws=draws,
    wide=wide,
    slips=SLIPS,
    related=True,
    alternatives=(by_indexing, in_longdouble),
    hints=(
        "Three runs of self_attention: on x, on P x with the same mask, on P x with the "
        "mask moved. Which of them gets P applied to its output?",
        "Row i of P has its only 1 in column order[i]. `np.eye(T)` has a row for every "
        "place: take its rows in that order. P M Pᵀ is `p @ mask @ p.T`; it comes out in "
        "numbers, and a mask is made of booleans.",
        "P is np.eye(T) indexed with the order. First result: P times the output of x "
        "under the mask. Second: the output of P @ x under the mask. Third: the output of "
        "P @ x under P @ mask @ P.T, compared with 0 to get booleans; without a mask it "
        "stays None. self_attention returns two things: take the output.",
    ),
    minutes=12,
    difficulty=3,
    importance=3,
    uses=("masked_softmax", "self_attention"),
    results=("expected", "mask_stays", "mask_moves"),
)
