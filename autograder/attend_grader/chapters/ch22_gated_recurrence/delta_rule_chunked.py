"""Exercise 22_gated_recurrence/delta_rule_chunked: a chunk's corrections by one linear system."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import gated_recurrence as answers
from attend_solutions.flash import tiles
from attend_solutions.linear_attention import expect_pairs

from attend_grader.chapters.ch22_gated_recurrence.shared import (
    INT64,
    PLAIN,
    WHOLE,
    between,
    cheap,
    large_at_last,
    misfits,
    no_chunks,
    qkv,
    unit_keys,
)
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, known, refuses, worked
from attend_grader.checks.properties import normal
from attend_grader.checks.sizes import AS_DRAWN


def case(
    rng: np.random.Generator, t: int, d: int, d_v: int, *rest: int, lead: tuple[int, ...] = ()
) -> Call:
    """A text with keys of norm 1 at most, and step sizes; more arguments behind them."""
    q, k, v = qkv(rng, t, d, d_v, lead)
    return Call((q, unit_keys(k), v, between(rng, 0.1, 1.0, *lead, t), *rest))


def _going_on(
    rng: np.random.Generator, t: int, d: int, d_v: int, chunk: int, lead: tuple[int, ...] = ()
) -> Call:
    args = case(rng, t, d, d_v, chunk, lead=lead).args
    return Call(args, {"state": normal(rng, *lead, d, d_v)})


def corrected(q: Any, k: Any, v: Any, beta: Any, state: Any = None) -> tuple[Any, Any]:
    """Chapter 15's update, token by token, without leading axes."""
    state = np.zeros((k.shape[-1], v.shape[-1])) if state is None else state
    rows = []
    for asked, key, value, step in zip(q, k, v, beta, strict=True):
        state = state + step * np.outer(key, value - key @ state)
        rows.append(asked @ state)
    return np.stack(rows), state


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((7, 3, 2, 3), (8, 4, 4, 4), (5, 2, 3, 1), (6, 3, 2, 9)):
        yield f"{sizes[0]} tokens in chunks of {sizes[3]}", case(rng, *sizes)
    yield "no chunk given", case(rng, 5, 3, 2)
    q, k, v, *rest = case(rng, 5, 3, 2).args
    for chunk in (1, 3):
        why = f"a last value of 1e12 that no query reads, chunks of {chunk}"
        yield why, Call((*large_at_last(q, k, v), *rest, chunk))


def _any_chunk(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    given = case(rng, 9, 3, 2).args
    want = corrected(*given)
    for chunk in (1, 2, 4, 9, 20):
        yield f"the same numbers in chunks of {chunk}", (*given, chunk), want
    given = case(rng, 3_200, 2, 2).args
    yield "3,200 tokens in chunks of 1", (*given, 1), corrected(*given)
    q, _, v = qkv(rng, 90, 91, 2)
    k = np.eye(90, 91) + np.eye(
        90, 91, 1
    )  # each overlaps with the next: A to the power 89 is not 0
    given = q, k, v, np.ones(90)
    yield "90 tokens in one chunk", (*given, 90), corrected(*given)
    q, _, v = qkv(rng, 150, 2, 2)
    k = np.full_like(q, [0.6, 0.8])  # powers of A grow, and cancel in the answer
    for step in (1.0, 0.5):
        given = q, k, v, np.full(150, step)
        for chunk in (64, 150):
            why = f"150 tokens of one key, step sizes of {step:g}, chunks of {chunk}"
            yield why, (*given, chunk), corrected(*given)


def _goes_on(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((5, 3, 2, 3), (3, 3, 3, 1), (4, 2, 3, 8)):
        yield "a memory is given", _going_on(rng, *sizes)
    yield "as many texts as tokens, each with a memory", _going_on(rng, 4, 3, 3, 2, (4,))
    call = _going_on(rng, 5, 3, 2, 2)
    still = np.where(np.arange(5) < 4, 0.0, call.args[3])
    why = "step sizes of 0 but for the last, and a memory"
    yield why, Call((*call.args[:3], still, *call.args[4:]), call.kwargs)


def _overwrites(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    v = normal(rng, 6, 2)
    k = np.eye(3)[[0, 1, 0, 2, 1, 0]]
    want = v, v[[5, 4, 3]]
    yield (
        "three keys, some again, all step sizes 1: the last values",
        (k, k, v, np.ones(6), 4),
        want,
    )
    q, k, v = qkv(rng, 4, 3, 2)
    yield (
        "step sizes of 0: nothing is written",
        (q, k, v, np.zeros(4), 2),
        (0 * v, np.zeros((3, 2))),
    )


def draws(rng: np.random.Generator) -> list[Call]:
    """Ragged, square, leading axes, chunks of one, one chunk, a memory given."""
    return [
        case(rng, 7, 3, 2, 3),
        case(rng, 8, 4, 4, 4),
        case(rng, 5, 4, 2, 3, lead=(2,)),
        case(rng, 4, 2, 3, 1),
        case(rng, 5, 3, 2, 64),
        _going_on(rng, 6, 3, 2, 3),
        _going_on(rng, 6, 3, 3, 3),
    ]


def wide(rng: np.random.Generator) -> list[Call]:
    """A long text whose first keys are not written to again."""
    q, k, v, beta = case(rng, 1_200, 3, 2).args
    k[:3], k[3:, 0] = np.eye(3), 0.0
    return [Call((q, k, v, beta))]


SOLVE = "np.linalg.solve(np.eye(keys.shape[-2]) + overlaps, wrong)"
TRIANGLE = "np.tril(step * (keys @ turned), -1)"
SLIPS = (
    Slip(
        "a chunk does not correct itself",
        (SOLVE, "wrong"),
        "Tokens of a chunk are compared with the memory before the chunk only: what the chunk "
        "itself wrote earlier is not subtracted. Solve the linear system for that.",
    ),
    Slip(
        "I - A in the place of the inverse",
        (SOLVE, "(wrong - overlaps @ wrong)"),
        "It comes out as if the inverse of I + A were I − A. That is always right only for chunks "
        "of up to 2 tokens; solve the system (np.linalg.solve).",
    ),
    Slip(
        "the diagonal is in A",
        (TRIANGLE, "np.tril(step * (keys @ turned))"),
        "A token's own correction is counted against itself. A should hold earlier tokens only: "
        "np.tril(…, -1).",
    ),
    Slip(
        "reads before it writes",
        ("np.tril(asked @ turned) @ written", "np.tril(asked @ turned, -1) @ written"),
        "A query does not see what its own token writes: q kᵀ must keep its diagonal.",
    ),
    Slip(
        "no step sizes in A",
        (TRIANGLE, "np.tril(keys @ turned, -1)"),
        "A lacks the step sizes: multiply its row t by β_t.",
    ),
    Slip(
        "step sizes of the wrong tokens",
        (TRIANGLE, "np.tril(np.swapaxes(step, -1, -2) * (keys @ turned), -1)"),
        "A has the step sizes at its columns: column s is multiplied by β_s. Multiply row t by "
        "β_t, the step size of the token that is corrected.",
    ),
    Slip(
        "the memory before the chunk is not subtracted",
        ("(values - keys @ state)", "values"),
        "What the memory said before the chunk is not subtracted. Take β_t (v_t − Sᵀ k_t).",
    ),
    Slip(
        "values in the place of corrections",
        ("state + turned @ written", "state + turned @ (step * values)"),
        "The memory gets β times the values. It should get the corrections u, like the outputs.",
    ),
    Slip(
        "step sizes of the values only",
        ("step * (values - keys @ state)", "step * values - keys @ state"),
        "What the memory said before the chunk is subtracted in full. The step size should "
        "multiply the whole difference, β_t (v_t − Sᵀ k_t).",
    ),
    Slip(
        "keys made to have norm 1",
        (
            "k[..., part, :], v[..., part, :]",
            "k[..., part, :] / np.maximum(np.linalg.norm(k[..., part, :], axis=-1, keepdims=True), "
            "1e-300), v[..., part, :]",
        ),
        "Keys are divided by their norm. Use them as they come; norms are the caller's part.",
    ),
)  # fmt: skip


def with_inverse(q, k, v, beta, chunk=64, state=None):
    """The WY form of the paper: W and U first, then the memory."""
    expect_pairs(q, k, v)
    if beta.shape[-1] != k.shape[-2]:
        raise ValueError("one step size a token")
    memory = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1])) if state is None else 1.0 * state
    rows = []
    for part in tiles(q.shape[-2], chunk):
        keys, step = k[..., part, :], beta[..., part]
        count = keys.shape[-2]
        gram = np.einsum("...td,...sd->...ts", keys, keys)
        system = np.eye(count) + step[..., :, None] * gram * np.tri(count, k=-1)
        t = np.linalg.inv(system) * step[..., None, :]
        u = t @ v[..., part, :] - t @ keys @ memory
        seen = np.einsum("...td,...sd->...ts", q[..., part, :], keys) * np.tri(count)
        rows.append(q[..., part, :] @ memory + seen @ u)
        memory = memory + np.einsum("...sd,...se->...de", keys, u)
    return np.concatenate(rows, axis=-2), memory


def _by_halves(lower, right):
    """(I + A)⁻¹ B: first the upper half, then the lower one without what the upper one adds."""
    count = lower.shape[-1]
    if count <= 8:
        return np.linalg.solve(np.eye(count) + lower, right)
    half = count // 2
    top = _by_halves(lower[..., :half, :half], right[..., :half, :])
    rest = right[..., half:, :] - lower[..., half:, :half] @ top
    return np.concatenate([top, _by_halves(lower[..., half:, half:], rest)], axis=-2)


def in_blocks(q, k, v, beta, chunk=64, state=None):
    """The triangle is cut into halves until they are small."""
    expect_pairs(q, k, v)
    if beta.shape[-1] != k.shape[-2]:
        raise ValueError("one step size a token")
    rows = []
    for part in tiles(q.shape[-2], chunk):
        keys, step = k[..., part, :], beta[..., part, None]
        turned = np.swapaxes(keys, -1, -2)
        wrong = v[..., part, :] if state is None else v[..., part, :] - keys @ state
        u = _by_halves(np.tril(step * (keys @ turned), -1), step * wrong)
        out = np.tril(q[..., part, :] @ turned) @ u
        rows.append(out if state is None else out + q[..., part, :] @ state)
        state = turned @ u if state is None else state + turned @ u
    return np.concatenate(rows, axis=-2), state


EXERCISE = Exercise(
    chapter="22_gated_recurrence",
    title="The delta rule, in chunks",
    goal="Correct the memory for a whole chunk at once.",
    reference=answers.delta_rule_chunked,
    contract=Contract(
        numpy_only=True,
        leading_axes=("q", "k", "v", "beta", "state"),
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        ranges={"k": AS_DRAWN, "beta": (0, 1)},
        whole=WHOLE,
        forbids=("delta_rule_update",),
        says=(
            INT64,
            "No table of T × T numbers, and no loop or recursion over tokens.",
            "`q`, `k`, `v` and `beta` that do not fit and chunks of less than 1 raise a "
            "ValueError.",
        ),
    ),
    properties=(
        worked(
            "a hand-worked example: 8, then half of the way to 2",
            np.ones((2, 1)),
            np.ones((2, 1)),
            np.array([[8.0], [2.0]]),
            np.array([1.0, 0.5]),
            want=(np.array([[8.0], [5.0]]), np.array([[5.0]])),
        ),
        agrees("the outputs", _values, part=0),
        agrees("the memory after the last chunk", _values, part=1),
        known("any chunk gives what chapter 15's update gives", _any_chunk),
        agrees("goes on from a memory that is given", _goes_on),
        known("orthogonal keys: the last values are read", _overwrites),
        *cheap(case, blocks=True),
        refuses(
            (
                *misfits(np.full(4, 0.5)),
                ("fewer step sizes than keys", (*PLAIN, np.full(3, 0.5))),
                ("one step size for four keys", (*PLAIN, np.full(1, 0.5))),
                *no_chunks(np.full(4, 0.5)),
            )
        ),
    ),
    draws=draws,
    wide=wide,
    slips=SLIPS,
    alternatives={"with an inverse": with_inverse, "in blocks": in_blocks},
    hints=(
        "Call what token t writes u_t. Then the memory before token t is S plus the sum of k_s u_s "
        "over the chunk's earlier tokens. Put that into u_t = β_t (v_t − …), and bring all u to "
        "the left side.",
        "(I + A) U = B: A is np.tril(step * (keys @ keysᵀ), -1), where step is β with an axis "
        "more, and B is step * (values - keys @ state). np.linalg.solve(I + A, B) gives all u.",
        "U is written in the place of the values: output asked @ state + np.tril(asked @ turned) @ "
        "U, new memory state + turned @ U, where turned is keysᵀ.",
    ),
    minutes=20,
    difficulty=4,
    importance=4,
    results=("output", "state"),
)
