"""Chapter 02, scores and means: what must hold of additive and multiplicative scores and attend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attend_grader.checks.compare import FLOAT32, FLOAT64, PRINTED
from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_properties import (
    agree_dtype,
    agree_gradients,
    agree_untouched,
    normal,
)

LEADS = ((2,), (2, 1, 3))


def _leading(lead: tuple[int, ...]) -> str:
    return f"{len(lead)} leading {'axis' if len(lead) == 1 else 'axes'}"


# additive_score


def additive_inputs(
    rng: np.random.Generator, t: int, s: int, n: int, e: int, a: int, lead: tuple[int, ...] = ()
) -> tuple[Tensor, ...]:
    """queries (*lead, T, N), keys (*lead, S, E), w_query (N, A), w_key (E, A), v (A,)."""
    shapes = ((*lead, t, n), (*lead, s, e), (n, a), (e, a), (a,))
    return tuple(normal(rng, *shape) for shape in shapes)


def additive_worked(subject: Subject, probe: Probe) -> None:
    """tanh(ln 2) = 0.6 and tanh(ln 3) = 0.8: one query, two keys, two hidden units."""
    ln2, ln3 = np.log(2.0), np.log(3.0)
    queries = torch.tensor([[1.0]])
    keys = torch.tensor([[0.0], [1.0]])
    w_query, w_key = torch.tensor([[ln2, 0.0]]).float(), torch.tensor([[0.0, ln3]]).float()
    want = torch.tensor([[6.0, 14.0]])
    why = "tanh(ln 2) = 0.6, tanh(ln 3) = 0.8; v = (10, 10)"
    arguments = (queries, keys, w_query, w_key, torch.tensor([10.0, 10.0]))
    probe.agree(subject, *arguments, want=want, tolerance=PRINTED, why=why)


def additive_limits(subject: Subject, probe: Probe) -> None:
    """Large sums saturate: no score leaves ± Σ|v|. Zero vectors score 0."""
    queries, keys, w_query, w_key, v = additive_inputs(probe.rng, 2, 3, 4, 2, 5)
    none = torch.zeros(2, 3)
    inputs = (0 * queries, 0 * keys, w_query, w_key, v)
    probe.agree(subject, *inputs, want=none, tolerance=FLOAT32, why="queries and keys of zeros")
    ones = (torch.ones(2, 4), torch.ones(3, 2), torch.ones(4, 5), torch.ones(2, 5))
    want = v.sum().expand(2, 3).clone()
    why = "large positive sums: each tanh is 1, and the score is the sum of v"
    probe.agree(subject, 50 * ones[0], *ones[1:], v, want=want, tolerance=FLOAT32, why=why)


def additive_pairs(subject: Subject, probe: Probe) -> None:
    """Entry (t, s): query t meets key s."""
    for _ in probe.repeat(1, 3):
        for t, s, n, e, a in ((3, 4, 5, 2, 6), (4, 4, 4, 4, 4), (1, 3, 2, 5, 4)):
            queries, keys, w_query, w_key, v = additive_inputs(probe.rng, t, s, n, e, a)
            want = torch.zeros(t, s)
            for i, j in np.ndindex(t, s):
                want[i, j] = torch.tanh(queries[i] @ w_query + keys[j] @ w_key) @ v
            why = f"T = {t}, S = {s}, N = {n}, E = {e}, A = {a}"
            inputs = (queries, keys, w_query, w_key, v)
            probe.agree(subject, *inputs, want=want, tolerance=FLOAT32, why=why)


def additive_leading(subject: Subject, probe: Probe) -> None:
    """Each leading index is a problem of its own, with the same weights."""
    for lead in LEADS:
        inputs = additive_inputs(probe.rng, 3, 4, 2, 3, 5, lead)
        probe.agree(subject, *inputs, tolerance=FLOAT32, why=_leading(lead))


def additive_gradients(subject: Subject, probe: Probe) -> None:
    """All five arguments learn."""
    inputs = additive_inputs(probe.rng, 3, 4, 2, 3, 5)
    agree_gradients(probe, subject, *inputs, wrt=(0, 1, 2, 3, 4))


def additive_awkward(subject: Subject, probe: Probe) -> None:
    """Views, float64; and the arguments stay as they were."""
    inputs = additive_inputs(probe.rng, 2, 3, 4, 3, 2)
    agree_untouched(probe, subject, *inputs)
    agree_dtype(probe, subject, *inputs, tolerance=FLOAT64)


ADDITIVE = (
    Property("a hand-worked example: scores 6 and 14", 1, additive_worked),
    Property("zeros score 0; large sums saturate at the sum of v", 1, additive_limits),
    Property("every query (row) with every key (column)", 2, additive_pairs),
    Property("any number of leading axes", 1, additive_leading),
    Property("gradients reach all five arguments", 1, additive_gradients),
    Property("views and float64 work; arguments stay as they were", 1, additive_awkward),
)


def additive_draws(rng: np.random.Generator) -> list[Call]:
    """All lengths different, alike, leading axes, one hidden unit."""
    return [
        Call(additive_inputs(rng, 3, 4, 5, 2, 6)),
        Call(additive_inputs(rng, 4, 4, 4, 4, 4)),
        Call(additive_inputs(rng, 3, 4, 2, 2, 5, (2,))),
        Call(additive_inputs(rng, 3, 3, 3, 3, 3, (3,))),
        Call(additive_inputs(rng, 2, 3, 1, 1, 1)),
    ]


# multiplicative_score


def pair(
    rng: np.random.Generator, t: int, s: int, n: int, e: int, lead: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor]:
    """queries (*lead, T, N) and keys (*lead, S, E)."""
    return normal(rng, *lead, t, n), normal(rng, *lead, s, e)


def multiplicative_worked(subject: Subject, probe: Probe) -> None:
    """q = (1, 2, 2, 0): dot products 5 and 0; and with W, from 2 numbers to 3."""
    queries = torch.tensor([[1.0, 2.0, 2.0, 0.0]])
    keys = torch.tensor([[3.0, 1.0, 0.0, 5.0], [0.0, -1.0, 1.0, 7.0]])

    def clue(value: Any) -> str:
        halved = np.allclose(value, [[2.5, 0.0]])
        return "These are divided by √4. Luong's scores are not scaled." if halved else ""

    probe.agree(subject, queries, keys, want=torch.tensor([[5.0, 0.0]]), why="dot", clue=clue)
    queries, keys = torch.tensor([[1.0, 10.0]]), torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]])
    weight = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    want = torch.tensor([[167.0, 52.0]])
    probe.agree(subject, queries, keys, weight, want=want, why="general: q W = (41, 52, 63)")


def multiplicative_dot(subject: Subject, probe: Probe) -> None:
    """Entry (t, s) is query t · key s, not divided by anything."""
    for _ in probe.repeat(1, 3):
        for t, s, n in ((2, 3, 4), (4, 4, 4), (1, 2, 9)):
            queries, keys = pair(probe.rng, t, s, n, n)
            want = torch.stack([torch.stack([q.dot(k) for k in keys]) for q in queries])
            why = f"dot, T = {t}, S = {s}, N = {n}"
            probe.agree(subject, queries, keys, want=want, tolerance=FLOAT32, why=why)


def multiplicative_general(subject: Subject, probe: Probe) -> None:
    """Entry (t, s) is query t · (W key s)."""
    for _ in probe.repeat(1, 3):
        for t, s, n, e in ((2, 3, 4, 5), (3, 3, 3, 3), (4, 2, 1, 3)):
            queries, keys = pair(probe.rng, t, s, n, e)
            weight = normal(probe.rng, n, e)
            want = torch.stack([torch.stack([q.dot(weight @ k) for k in keys]) for q in queries])
            why = f"general, T = {t}, S = {s}, N = {n}, E = {e}"
            probe.agree(subject, queries, keys, weight, want=want, tolerance=FLOAT32, why=why)


def multiplicative_limits(subject: Subject, probe: Probe) -> None:
    """With the identity, general is dot; with zeros, everything scores 0."""
    queries, keys = pair(probe.rng, 2, 3, 4, 4)
    want = queries @ keys.mT
    why = "weight is the identity, so the scores are those of dot"
    probe.agree(subject, queries, keys, torch.eye(4), want=want, tolerance=FLOAT32, why=why)
    why = "weight is all zeros"
    nothing = torch.zeros(2, 3)
    probe.agree(subject, queries, keys, torch.zeros(4, 4), want=nothing, why=why)


def multiplicative_leading(subject: Subject, probe: Probe) -> None:
    """Each leading index is a problem of its own."""
    for lead in LEADS:
        why = _leading(lead)
        probe.agree(subject, *pair(probe.rng, 3, 4, 2, 2, lead), tolerance=FLOAT32, why=why)
        inputs = (*pair(probe.rng, 3, 4, 2, 5, lead), normal(probe.rng, 2, 5))
        probe.agree(subject, *inputs, tolerance=FLOAT32, why=why)


def multiplicative_gradients(subject: Subject, probe: Probe) -> None:
    """Queries, keys and weight learn."""
    inputs = (*pair(probe.rng, 3, 4, 2, 5), normal(probe.rng, 2, 5))
    agree_gradients(probe, subject, *inputs, wrt=(0, 1, 2), why="general")
    agree_gradients(probe, subject, *pair(probe.rng, 3, 4, 2, 2), wrt=(0, 1), why="dot")


def multiplicative_awkward(subject: Subject, probe: Probe) -> None:
    """Views, float64, with a weight and without; and the arguments stay as they were."""
    for inputs in (
        (*pair(probe.rng, 2, 3, 4, 3), normal(probe.rng, 4, 3)),
        pair(probe.rng, 2, 3, 4, 4),
    ):
        agree_untouched(probe, subject, *inputs)
        agree_dtype(probe, subject, *inputs, tolerance=FLOAT64)


MULTIPLICATIVE = (
    Property("hand-worked examples: dot and general", 1, multiplicative_worked),
    Property("dot: every query with every key, unscaled", 1, multiplicative_dot),
    Property("general: the weight between query and key", 2, multiplicative_general),
    Property("the identity gives dot; zeros give 0", 1, multiplicative_limits),
    Property("any number of leading axes", 1, multiplicative_leading),
    Property("gradients reach queries, keys and weight", 1, multiplicative_gradients),
    Property("views and float64 work; arguments stay as they were", 1, multiplicative_awkward),
)


def multiplicative_draws(rng: np.random.Generator) -> list[Call]:
    """General and dot; all lengths different, alike; leading axes."""
    return [
        Call((*pair(rng, 2, 3, 4, 5), normal(rng, 4, 5))),
        Call(pair(rng, 2, 3, 4, 4)),
        Call((*pair(rng, 3, 3, 3, 3), normal(rng, 3, 3))),
        Call(pair(rng, 3, 3, 3, 3)),
        Call((*pair(rng, 3, 4, 2, 2, (2,)), normal(rng, 2, 2))),
        Call(pair(rng, 3, 3, 3, 3, (3,))),
    ]


# attend


def attend_inputs(
    rng: np.random.Generator, t: int, s: int, e: int, lead: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor]:
    """scores (*lead, T, S) and values (*lead, S, E)."""
    return normal(rng, *lead, t, s), normal(rng, *lead, s, e)


def sums(weights: Any) -> str:
    """A clue: rows of weights that do not sum to 1."""
    rows = weights.sum(axis=-1)
    worst = float(np.ravel(rows)[np.argmax(np.abs(np.ravel(rows) - 1))])
    if abs(worst - 1) < 1e-4 or not np.isfinite(worst):
        return ""
    return f"Each row of weights must sum to 1; one of yours sums to {worst:.4g}."


def attend_worked(subject: Subject, probe: Probe) -> None:
    """Scores 0, ln 2, ln 5: weights 1/8, 2/8, 5/8."""
    scores = torch.tensor([[1.0, 2.0, 5.0]]).log()
    values = torch.tensor([[8.0, 0.0], [0.0, 4.0], [0.0, 8.0]])
    want = (torch.tensor([[1.0, 6.0]]), torch.tensor([[0.125, 0.25, 0.625]]))
    why = "scores 0, ln 2, ln 5"
    clues: tuple[Callable[[Any], str], ...] = (lambda value: "", sums)
    for part in (1, 0):
        probe.agree(
            subject,
            scores,
            values,
            want=want,
            part=part,
            tolerance=PRINTED,
            why=why,
            clue=clues[part],
        )


def attend_limits(subject: Subject, probe: Probe) -> None:
    """One value; equal scores; huge scores."""
    scores, values = attend_inputs(probe.rng, 3, 1, 2)
    want = (values.expand(3, 2).clone(), torch.ones(3, 1))
    probe.agree(subject, scores, values, want=want, tolerance=FLOAT32, why="one value only")
    scores, values = torch.full((2, 5), 0.7), normal(probe.rng, 5, 3)
    want = (values.mean(dim=0).expand(2, 3).clone(), torch.full((2, 5), 0.2))
    probe.agree(subject, scores, values, want=want, tolerance=FLOAT32, why="equal scores")
    scores, values = attend_inputs(probe.rng, 3, 4, 2)
    probe.agree(subject, 1e4 * scores, values, tolerance=FLOAT32, why="scores of ±10,000")


def attend_weights(subject: Subject, probe: Probe) -> None:
    """The softmax over the keys."""
    for _ in probe.repeat(1, 3):
        for t, s, e in ((2, 3, 5), (4, 4, 4), (1, 6, 2)):
            inputs = attend_inputs(probe.rng, t, s, e)
            probe.agree(subject, *inputs, part=1, tolerance=FLOAT32, clue=sums)


def attend_contexts(subject: Subject, probe: Probe) -> None:
    """The weights times the values."""
    for t, s, e in ((2, 3, 5), (4, 4, 4), (3, 2, 1)):
        inputs = attend_inputs(probe.rng, t, s, e)
        probe.agree(subject, *inputs, part=0, tolerance=FLOAT32, why="the contexts")


def attend_leading(subject: Subject, probe: Probe) -> None:
    """Each leading index is a problem of its own."""
    for lead in LEADS:
        inputs = attend_inputs(probe.rng, 3, 4, 2, lead)
        probe.agree(subject, *inputs, tolerance=FLOAT32, why=_leading(lead))


def attend_gradients(subject: Subject, probe: Probe) -> None:
    """Scores and values learn, from contexts and from weights."""
    agree_gradients(probe, subject, *attend_inputs(probe.rng, 3, 4, 2), wrt=(0, 1))


def attend_awkward(subject: Subject, probe: Probe) -> None:
    """Views, float64; and the arguments stay as they were."""
    inputs = attend_inputs(probe.rng, 2, 3, 4)
    agree_untouched(probe, subject, *inputs)
    agree_dtype(probe, subject, *inputs, tolerance=FLOAT64)


ATTEND = (
    Property("a hand-worked example: weights 1/8, 2/8, 5/8", 1, attend_worked),
    Property("one value, equal scores, huge scores", 1, attend_limits),
    Property("weights: the softmax of the scores, over the keys", 1, attend_weights),
    Property("contexts: the weights times the values", 1, attend_contexts),
    Property("any number of leading axes", 1, attend_leading),
    Property("gradients reach scores and values", 1, attend_gradients),
    Property("views and float64 work; arguments stay as they were", 1, attend_awkward),
)


def attend_draws(rng: np.random.Generator) -> list[Call]:
    """All lengths different, alike, leading axes, one key."""
    return [
        Call(attend_inputs(rng, 2, 3, 4)),
        Call(attend_inputs(rng, 3, 3, 3)),
        Call(attend_inputs(rng, 3, 4, 2, (2,))),
        Call(attend_inputs(rng, 3, 3, 3, (3,))),
        Call(attend_inputs(rng, 2, 1, 3)),
    ]
