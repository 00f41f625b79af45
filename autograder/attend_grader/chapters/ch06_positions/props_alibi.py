"""Chapter 06, ALiBi: what must hold of its slopes and of its bias.

The oracles are powers and products of Python's own, number by number.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attend_grader.chapters.ch06_positions.props_absolute import expect_dtype
from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_properties import agree_untouched, normal

# alibi_slopes


def slopes(heads: int) -> list[float]:
    """The slopes of any number of heads, as the released code finds them."""
    if heads & (heads - 1) == 0:
        return [2.0 ** (-8 * (h + 1) / heads) for h in range(heads)]
    below = 1 << (heads.bit_length() - 1)
    return slopes(below) + slopes(2 * below)[0::2][: heads - below]


def slopes_worked(subject: Subject, probe: Probe) -> None:
    """Eight heads halve from 1/2 to 1/256."""
    want = torch.tensor([2.0**-h for h in range(1, 9)])
    probe.agree(subject, 8, want=want, tolerance=FLOAT32)


def slopes_powers(subject: Subject, probe: Probe) -> None:
    """A geometric sequence that ends at 2^−8, however many heads."""
    for heads in (1, 2, 4, 16, 32):
        want = torch.tensor(slopes(heads))
        probe.agree(subject, heads, want=want, tolerance=FLOAT32, why=f"{heads} heads")


def slopes_between(subject: Subject, probe: Probe) -> None:
    """One more than a power of two: its slopes and then one of twice as many heads."""
    for heads in (3, 5, 9):
        want = torch.tensor(slopes(heads))
        probe.agree(subject, heads, want=want, tolerance=FLOAT32, why=f"{heads} heads")


def slopes_others(subject: Subject, probe: Probe) -> None:
    """Numbers of heads that models have: 6, 12, 20, 25, 112; and any other."""
    usual = (6, 12, 20, 25, 112)
    for heads in (*usual, *(int(n) for n in probe.rng.integers(3, 64, 3))):
        want = torch.tensor(slopes(heads))
        probe.agree(subject, heads, want=want, tolerance=FLOAT32, why=f"{heads} heads")


def slopes_kinds(subject: Subject, probe: Probe) -> None:
    """float32 comes out, as all that the slopes meet is float32."""
    for heads in (4, 6):
        outcome = probe.agree(subject, heads, tolerance=FLOAT32, why=f"{heads} heads")
        expect_dtype(probe, outcome.value, torch.float32, heads)


SLOPES = (
    Property("a hand-worked example: 8 heads", 1, slopes_worked),
    Property("powers of two: from 2^(−8/H) down to 2^−8", 1, slopes_powers),
    Property("one head more than a power of two", 1, slopes_between),
    Property("any number of heads: 6, 12, 20, 112 …", 2, slopes_others),
    Property("float32 comes out", 1, slopes_kinds),
)


def slopes_draws(rng: np.random.Generator) -> list[Call]:
    """Powers of two, and numbers between them."""
    between = [int(rng.integers(low, high)) for low, high in ((5, 8), (9, 16), (17, 32))]
    return [Call((n,)) for n in (4, 16, 3, 1, *between)]


# alibi_bias


def _bias(m: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    rows = [
        [[-s * abs(t - k) for k in keys.tolist()] for t in queries.tolist()] for s in m.tolist()
    ]
    return torch.tensor(rows).reshape(len(m), len(queries), len(keys))


def alibi_worked(subject: Subject, probe: Probe) -> None:
    """Three tokens, slopes 1/2 and 1/4."""
    want = -torch.tensor(
        [
            [[0.0, 0.5, 1.0], [0.5, 0.0, 0.5], [1.0, 0.5, 0.0]],
            [[0.0, 0.25, 0.5], [0.25, 0.0, 0.25], [0.5, 0.25, 0.0]],
        ]
    )
    where = torch.arange(3)
    probe.agree(subject, torch.tensor([0.5, 0.25]), where, where, want=want, tolerance=FLOAT32)


def alibi_axes(subject: Subject, probe: Probe) -> None:
    """(H, T, S): heads, then queries, then keys."""
    for heads, t, s in ((3, 2, 5), (2, 4, 3), (4, 4, 4)):
        m = normal(probe.rng, heads).abs() + 0.1
        queries, keys = torch.arange(t) + 3, torch.arange(s)
        want = _bias(m, queries, keys)
        why = f"H = {heads}, T = {t}, S = {s}"
        probe.agree(subject, m, queries, keys, want=want, tolerance=FLOAT32, why=why)


def alibi_places(subject: Subject, probe: Probe) -> None:
    """Positions count, not places in the tensor: one new query, keys in any order."""
    m = torch.tensor([0.5, 0.125])
    keys = torch.arange(7)
    want = _bias(m, torch.tensor([6]), keys)
    why = "one query, at position 6, as when text is written token by token"
    probe.agree(subject, m, torch.tensor([6]), keys, want=want, tolerance=FLOAT32, why=why)
    queries, keys = (torch.from_numpy(probe.rng.permutation(90)[:n]) for n in (3, 5))
    why = "positions in any order"
    want = _bias(m, queries, keys)
    probe.agree(subject, m, queries, keys, want=want, tolerance=FLOAT32, why=why)


def alibi_after(subject: Subject, probe: Probe) -> None:
    """Keys after the query are penalised as those before it; moving both changes nothing."""
    m = torch.tensor([0.25])
    want = -0.25 * torch.tensor([[[3.0, 1.0, 0.0, 1.0, 3.0]]])
    keys = torch.tensor([2, 4, 5, 6, 8])
    why = "a query at 5, keys at 2, 4, 5, 6, 8"
    probe.agree(subject, m, torch.tensor([5]), keys, want=want, tolerance=FLOAT32, why=why)
    why = "the same, 1,000 positions later"
    later = torch.tensor([1005])
    probe.agree(subject, m, later, keys + 1000, want=want, tolerance=FLOAT32, why=why)


def alibi_awkward(subject: Subject, probe: Probe) -> None:
    """Views; the arguments stay as they were."""
    m = normal(probe.rng, 3).abs() + 0.1
    agree_untouched(probe, subject, m, torch.tensor([4, 5]), torch.arange(6))


ALIBI = (
    Property("a hand-worked example: three tokens, slopes 1/2 and 1/4", 1, alibi_worked),
    Property("(H, T, S): a slope for each head", 1, alibi_axes),
    Property("distances between positions, not places", 1, alibi_places),
    Property("alike before and after, and anywhere in the text", 1, alibi_after),
    Property("views; arguments stay as they were", 1, alibi_awkward),
)


def alibi_draws(rng: np.random.Generator) -> list[Call]:
    """T ≠ S, all lengths equal, a single query, positions in any order."""

    def m(heads: int) -> Tensor:
        return normal(rng, heads).abs() + 0.1

    return [
        Call((m(3), torch.arange(4) + 2, torch.arange(6))),
        Call((m(3), torch.arange(3), torch.arange(3))),
        Call((m(2), torch.tensor([9]), torch.arange(10))),
        Call((m(2), *(torch.from_numpy(rng.permutation(50)[:n]) for n in (3, 5)))),
    ]
