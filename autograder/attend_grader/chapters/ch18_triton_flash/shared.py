"""What chapter 18's checks share: cases of one head, an oracle in float64, and six properties."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from attend_solutions.flash import hbm_traffic

from attend_grader.checks.compare import Tolerance
from attend_grader.checks.exercise import Call, Property, Slip
from attend_grader.checks.kernels import (
    clean_memory,
    compiles_as_launched,
    right_values,
    within_budget,
)
from attend_grader.checks.torch_numbers import normal

Case = tuple[str, Call, Any]
Cases = Callable[[np.random.Generator], Iterator[Case]]
Size = tuple[int, int, int, int, int]
"""T, S, D, BLOCK_T, BLOCK_S."""

LONGEST: tuple[Size, ...] = ((512, 16, 16, 16, 16), (1, 512, 16, 16, 16))
"""Many tiles of queries, and of keys."""

LARGE = Tolerance(
    "scores of 2,000",
    1e-3,
    "a score of 2,000 times log2(e) is rounded at 1e-4, and so is a weight made of it",
    absolute=1e-6,
)
HALF = Tolerance(
    "float16",
    2e-4,
    "weights here are 1, or so small that their rounding counts for nothing: float32 sums are good "
    "to 1e-6, weights divided by their sum and then rounded to 7e-5; a float16 sum is 4e-4 off",
)


def right(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None = None,
    *,
    lse: bool = False,
) -> Any:
    """Attention in float64, rounded at the end; with ``lse``, also that of the scores."""
    scores = q.double() @ k.double().mT / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    output = (torch.softmax(scores, -1) @ v.double()).float()
    return (output, torch.logsumexp(scores, -1).float()) if lse else output


def seen(t: int, s: int, window: int | None = None) -> torch.Tensor:
    """Which keys each query may see under a causal mask. Shape: (T, S)."""
    behind = torch.arange(t)[:, None] + s - t - torch.arange(s)
    return (behind >= 0) & (behind <= (s if window is None else window))


def head(rng: np.random.Generator, t: int, s: int, d: int) -> list[torch.Tensor]:
    """q, k and v of one head, with scores of a few units."""
    q, k, v = (normal(rng, n, d) for n in (t, s, s))
    return [2 * q, k, v]


def far(rng: np.random.Generator, t: int, s: int, d: int) -> Iterator[tuple[str, list[Any]]]:
    """Heads with large scores; whole numbers, so that scores are exact in float32."""
    q, k = (torch.from_numpy(rng.integers(-9, 10, (n, d))).float() for n in (t, s))
    v = normal(rng, s, d)
    size = (2000 / d**0.5) ** 0.5
    size = float(round(size))
    yield "scores of some ±1,000", [8 * q, k, v]
    yield "all scores near −2,000", [size + q * 0, -size + k / 4, v]
    steps = torch.linspace(-size, size, t).round()[:, None].expand(t, d)
    yield "scores from −2,000 to 2,000, of one query all 0", [steps.clone(), size + k, v]
    odd = torch.arange(s)[:, None] % 2  # dot products of 6,146 and 6,143; both are 6,144 in float16
    k = torch.full((s, d), 768 / d) + (0.25 - 0.375 * odd) * (torch.arange(d) == 0)
    v = (1.0 + odd).expand(s, d)
    yield "float16, scores near 1,536", [x.half() for x in (torch.full_like(q, 8), k, v)]


def ties(t: int, s: int) -> tuple[str, list[torch.Tensor]]:
    """A head of width 32 whose scores are all 1,618; 11 and 13 over √32 are rounded unlike."""
    first = (torch.arange(32) < 16).float()
    odd = torch.arange(s)[:, None] % 2
    q = (11 * first + 13 * (1 - first)).expand(t, 32)
    k = 4 * (13 * first * (1 - odd) + 11 * (1 - first) * odd)
    v = (1.0 + odd).expand(s, 32)
    return "float16, equal scores of 1,618, width 32", [x.half() for x in (q, k, v)]


def high(rng: np.random.Generator, t: int, s: int) -> list[torch.Tensor]:
    """A head of width 16 with exact scores of 80 to 120, whose exponentials overflow in float32."""
    whole = torch.from_numpy(rng.integers(-1, 2, (s, 16))).float()
    return [torch.full((t, 16), 5.0), 5 + whole / 4, normal(rng, s, 16)]


def low(rng: np.random.Generator, t: int, s: int) -> list[torch.Tensor]:
    """A head of width 16 with scores of −150 to −130, whose exponentials are 0 in float32."""
    whole = torch.from_numpy(rng.integers(-2, 3, (s, 16))).float()
    return [torch.full((t, 16), 7.0), -5 + whole / 8, normal(rng, s, 16)]


def plain(sizes: Iterable[Size], *, lse: bool = False, one: bool = False) -> Cases:
    """Heads of these sizes without a mask.

    Args:
        sizes: what is tried.
        lse: whether the LSE is returned too.
        one: all keys are in one tile, whose size is no argument.
    """

    def make(rng: np.random.Generator) -> Iterator[Case]:
        for t, s, d, block_t, block_s in sizes:
            q, k, v = head(rng, t, s, d)
            blocks = (block_t,) if one else (block_t, block_s)
            yield told(t, s, d), Call((q, k, v, *blocks)), right(q, k, v, lse=lse)

    return make


def told(t: int, s: int, d: int) -> str:
    """A size in words."""
    return f"{t} quer{'ies' if t > 1 else 'y'}, {s} key{'s' if s > 1 else ''}, width {d}"


def properties(
    whole: Cases,
    ragged: Cases | None,
    large: Cases,
    half: Cases,
    needed: Callable[[Call], int],
    *,
    compiled: Cases | None = None,
    longest: Cases | None = None,
    names: Mapping[str, str] | None = None,
) -> tuple[Property, ...]:
    """The properties of every kernel here.

    Args:
        whole: sizes that fill their tiles.
        ragged: sizes that do not.
        large: large scores.
        half: float16 with values that a sum in float16 would lose.
        needed: bytes that a call moves.
        compiled: calls whose kernel is compiled for an H100.
        longest: the largest sizes that the contract names, for values only.
        names: other names of lines, by their first word.
    """
    every = tuple(cases for cases in (whole, ragged) if cases is not None)
    line = {"whole": "tiles that are full", "ragged": "lengths that are no multiple of a tile"}
    line |= names or {}

    def all_cases(rng: np.random.Generator) -> Iterator[Case]:
        for cases in every:
            yield from cases(rng)

    def up_to(cases: Cases) -> Cases:
        return lambda rng: chain(cases(rng), longest(rng) if longest else ())

    if ragged is None:
        made = [right_values(line["whole"], up_to(whole))]
    else:
        made = [
            right_values(line["whole"], whole),
            right_values(line["ragged"], up_to(ragged), points=2),
        ]
    made += [
        right_values("large scores, positive and negative", large, tolerance=LARGE),
        right_values("float16 in, float32 in the sums", half, tolerance=HALF, same_types=True),
        clean_memory("stays inside its buffers; no two programs write one place", all_cases),
        within_budget(
            "moves the bytes of chapter 16's count, no more", all_cases, needed, factor=1
        ),
    ]
    if compiled is not None:
        line = "compiles for an H100, on its tensor cores, without spills"
        made.append(compiles_as_launched(line, compiled, uses=("HGMMA",)))
    return tuple(made)


def large_cases(size: Size, *, lse: bool = False, one: bool = False) -> Cases:
    """Large scores at one size."""

    def make(rng: np.random.Generator) -> Iterator[Case]:
        t, s, d, *blocks = size
        for why, (q, k, v) in (*far(rng, t, s, d), ties(t, s)):
            yield why, Call((q, k, v, *blocks[: 2 - one])), right(q, k, v, lse=lse)

    return make


def halves(
    rng: np.random.Generator, t: int, s: int, d: int, block_s: int
) -> Iterator[tuple[str, list[torch.Tensor]]]:
    """Heads of float16: sums over 65,504, its largest number, and a sum between 1 and the next.

    In the second head one weight is 1, of a key that each query sees, and all others of its tile
    together are 4.5e-4: float16, whose next number is 1 + 9.8e-4, loses them.
    """
    q, k, v = (x.half() for x in head(rng, t, s, d))
    v = (4300 + 40 * v).half()  # their means lie between float16's numbers, which are 4 apart
    yield "float16, all scores 0, values near 4,300", [0 * q, k, v]
    k = torch.full_like(k, 1 - math.log((block_s - 1) / 4.5e-4) / d**0.5)
    k[int(rng.integers(max(s - t, 0) + 1))] = 1
    yield "float16, one large weight and many small ones", [torch.ones_like(q), k, v]


def half_cases(size: Size, *, lse: bool = False, one: bool = False) -> Cases:
    """Float16 whose sums float16 would lose, at one size."""

    def make(rng: np.random.Generator) -> Iterator[Case]:
        t, s, d, *blocks = size
        for why, (q, k, v) in halves(rng, t, s, d, blocks[1]):
            yield why, Call((q, k, v, *blocks[: 2 - one])), right(q, k, v, lse=lse)

    return make


def compile_case(rng: np.random.Generator, *, one: bool = False) -> Iterator[Case]:
    """One tile of 64 × 64 in float16, as the tensor cores want it."""
    q, k, v = (x.half() for x in head(rng, 64, 64, 64))
    yield "", Call((q, k, v, *((64,) if one else (64, 64)))), None


def traffic(call: Call, block_s: int = 16, *, lse: bool = False, **mask: Any) -> int:
    """Bytes of a call by chapter 16's formula; the output is float32, as q, k and v are here."""
    q, k = call.args[:2]
    block_t = call.args[3]
    (t, d), s = q.shape, len(k)
    return hbm_traffic(t, s, d, block_t, block_s, itemsize=4, **mask) - (0 if lse else 4 * t)


def as_edits(
    reference: Callable[..., Any], edits: Mapping[str, Sequence[tuple[str, str]]]
) -> dict[str, Callable[..., Any]]:
    """Right answers in other styles, each as edits of the answer."""
    return {name: Slip(name, tuple(e), "").applied(reference) for name, e in edits.items()}
