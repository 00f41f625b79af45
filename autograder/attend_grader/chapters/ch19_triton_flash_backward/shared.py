"""What chapter 19's checks share: cases with an oracle, counted bytes, and a kernel's properties.

The oracle is autograd's gradient of plain attention in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from attend_solutions.flash import tiles, tiles_needed

from attend_grader.chapters.ch18_triton_flash.shared import (
    Case,
    Cases,
    as_edits,
    far,
    seen,
    ties,
    told,
)
from attend_grader.checks.compare import Tolerance
from attend_grader.checks.exercise import Call, Property
from attend_grader.checks.kernels import (
    clean_memory,
    compiles_as_launched,
    right_values,
    within_budget,
)
from attend_grader.checks.torch_numbers import normal

__all__ = ["Case", "Cases", "Size", "as_edits", "kernel_properties", "pieces", "told"]

LARGE = Tolerance(
    "scores of 2,000",
    1e-3,
    "an LSE of 2,000 is rounded at 1e-4, and so is a weight made of it; times q and k of some 70, "
    "and cancelled, 1e-2 is left of it",
    absolute=5e-2,
)
GRADIENT = Tolerance(
    "gradients in float32",
    3e-5,
    "two products in a row, of up to 10² terms each, and a difference that may cancel",
    absolute=1e-5,
)
HALF = Tolerance("float16", 2e-3, "float16 rounds weights at 5e-4; sums are exact beside that")


class Size(NamedTuple):
    """One case: heads, queries, keys, width, and what else the functions take."""

    H: int
    T: int
    S: int
    D: int = 16
    causal: bool = False
    scale: float | None = None
    block_t: int = 16
    block_s: int = 16

    def why(self) -> str:
        """In words."""
        words = [f"{self.H} head{'s' * (self.H > 1)}", told(self.T, self.S, self.D)]
        words += ["causal"] * self.causal
        words += [] if self.scale is None else [f"scale {self.scale:g}"]
        return f"{', '.join(words)}, tiles {self.block_t} × {self.block_s}"


def pieces(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, d_out: torch.Tensor,
    causal: bool = False, scale: float | None = None,
) -> dict[str, torch.Tensor]:  # fmt: skip
    """All that the forward and the backward pass make, in float64, rounded at the end."""
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    scores = leaves[0] @ leaves[1].mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        scores = scores.masked_fill(~seen(q.shape[1], k.shape[1]), -torch.inf)
    out = torch.softmax(scores, -1) @ leaves[2]
    dq, dk, dv = torch.autograd.grad(out, leaves, d_out.double())
    lse = torch.logsumexp(scores, -1)
    delta = (out * d_out.double()).sum(-1)
    made = {"out": out, "lse": lse, "delta": delta, "dq": dq, "dk": dk, "dv": dv}
    return {name: x.detach().float() for name, x in made.items()}


def usual(rng: np.random.Generator, size: Size) -> list[torch.Tensor]:
    """q, k, v and d_out, with scores of a few units."""
    h, t, s, d = size[:4]
    q, k, v, d_out = (normal(rng, h, n, d) for n in (t, s, s, t))
    return [2 * q, k, v, d_out]


def call_of(inputs: Sequence[torch.Tensor], size: Size, results: tuple[str, ...]) -> Case:
    """A call of a function that takes q, k, v, d_out, lse, delta and options; what is right."""
    q, k, v, d_out = inputs
    made = pieces(q, k, v, d_out, size.causal, size.scale)
    args = (q, k, v, d_out, made["lse"], made["delta"], *size[4:])
    right = tuple(made[name] for name in results)
    return size.why(), Call(args), right if len(right) > 1 else made[results[0]]


def cases(sizes: Sequence[Size], results: tuple[str, ...]) -> Cases:
    """Usual numbers at these sizes."""

    def make(rng: np.random.Generator) -> Iterator[Case]:
        for size in sizes:
            yield call_of(usual(rng, size), size, results)

    return make


def large_cases(results: tuple[str, ...]) -> Cases:
    """Scores of thousands, positive and negative; whole numbers, exact in float32.

    In the last case they are so in float16, but not what becomes of q once it is scaled.
    """

    def make(rng: np.random.Generator) -> Iterator[Case]:
        size = Size(1, 21, 21)
        q, k = (torch.from_numpy(rng.integers(-9, 10, (1, n, 16))).float() for n in size[1:3])
        v, d_out = normal(rng, 1, 21, 16), normal(rng, 1, 21, 16)
        for why, causal, inputs in (
            ("scores of some ±1,000", True, [8 * q, k, v, d_out]),
            ("all scores near −2,000", False, [22 + q * 0, -22 + k / 8, v, d_out]),
            ("all scores near 2,000", False, [22 + q * 0, 22 + k / 8, v, d_out]),
            ("all near −2,000, causal", True, [22 + q * 0, -22 + k / 8, v, d_out]),
        ):
            _, call, right = call_of(inputs, size._replace(causal=causal), results)
            yield why, call, right
        why, (q, k, v) = ties(21, 21)
        inputs = [q[None], k[None], v[None], normal(rng, 1, 21, 32).half()]
        _, call, right = call_of(inputs, size._replace(D=32), results)
        yield why, call, right
        *_, (why, (q, k, v)) = far(rng, 21, 21, 16)
        inputs = [q[None], k[None], v[None], normal(rng, 1, 21, 16).half()]
        _, call, right = call_of(inputs, size, results)
        yield why, call, right

    return make


def half_cases(results: tuple[str, ...]) -> Cases:
    """Float16: sums, and tiles' shares of some, exceed float16's largest number, 65,504.

    Scores lie near -12, or -96: at an empty place a gradient of one exceeds it too. Widths are
    the smallest and the largest.
    """

    def make(rng: np.random.Generator) -> Iterator[Case]:
        for width in (16, 128):
            size = Size(1, 112, 2, width, scale=None if width == 16 else 0.25, block_t=32)
            q, k, v, d_out = (x / 10 for x in usual(rng, size))
            one, other = torch.tensor([[[1.0], [-1.0]]]), (-1.0) ** torch.arange(width)
            v = (0.4 * one + v) * 16 / width
            inputs = [(2.5 + q) / 10, 12 * (one * other - 1) + k, v, 5000 + d_out]
            _, call, right = call_of([x.half() for x in inputs], size, results)
            yield f"float16, width {width}, gradients of 5,000", call, right

    return make


def compile_case(results: tuple[str, ...]) -> Cases:
    """One tile of 64 × 64 in float16, causal."""

    def make(rng: np.random.Generator) -> Iterator[Case]:
        size = Size(1, 64, 64, 64, True, None, 64, 64)
        yield call_of([x.half() for x in usual(rng, size)], size, results)

    return make


def traffic(call: Call, *, of: str, atomic: bool = False) -> int:
    """Bytes of one launch in float32, tile by tile.

    Args:
        call: as ``call_of`` makes it.
        of: whose tiles a program owns, "keys" or "queries".
        atomic: each pair of tiles also adds to dQ: reads and writes its rows.
    """
    q, k = call.args[:2]
    causal, _, block_t, block_s = call.args[6:]
    (heads, t, d), s = q.shape, k.shape[1]
    needed = tiles_needed(t, s, block_t, block_s, causal)
    rows, columns = (
        np.array([cut.stop - cut.start for cut in tiles(n, b)])
        for n, b in ((t, block_t), (s, block_s))
    )
    if of == "queries":
        numbers = t * (3 * d + 2) + int((needed @ columns).sum()) * 2 * d
    else:
        seen_rows = int((rows @ needed).sum())
        numbers = 4 * s * d + seen_rows * (2 * d + 2 + 2 * d * atomic)
    return 4 * heads * numbers


PLAIN = (
    Size(2, 32, 16),
    Size(1, 21, 33, 32),
    Size(1, 1, 1),
    Size(1, 37, 5, block_t=32),
    Size(1, 5, 17, 128),
)
CAUSAL = (
    Size(1, 33, 33, causal=True),
    Size(2, 5, 37, causal=True, block_t=32),
    Size(1, 38, 48, causal=True, block_s=32),
    Size(1, 1, 17, causal=True),
    Size(1, 16, 17, causal=True),  # the last query of a tile sees one key of the next tile
)
LONGEST = (Size(8, 3, 5), Size(1, 16, 512), Size(1, 512, 16))
SCALED = (
    Size(1, 17, 5, scale=0.5),
    Size(1, 3, 17, causal=True, scale=-0.1),
    Size(1, 3, 5, scale=0.0),
)
MEMORY = (*PLAIN[1:], *CAUSAL[:3], Size(1, 45, 50, causal=True, block_t=32))
DRAWN = (
    Size(1, 21, 33, 32),
    Size(2, 18, 37, causal=True),
    Size(2, 20, 5, scale=0.6),
    Size(1, 37, 20),
    Size(1, 20, 21, causal=True, scale=0.6),  # the first two tiles of queries differ
)


def drawn(results: tuple[str, ...]) -> Callable[[np.random.Generator], list[Call]]:
    """Draws: more keys, more queries, with a scale of its own and without; causal."""
    return lambda rng: [call for _, call, _ in cases(DRAWN, results)(rng)]


def _programs(call: Call, *, of: str) -> int:
    """One for each tile of each head."""
    (heads, t, _), s = call.args[0].shape, call.args[1].shape[1]
    block_t, block_s = call.args[8:]
    return heads * len(tiles(s, block_s) if of == "keys" else tiles(t, block_t))


def kernel_properties(
    results: tuple[str, ...], budget: str, *, of: str, atomic: bool = False
) -> tuple[Property, ...]:
    """The properties of a kernel that makes gradients.

    Args:
        results: which of ``pieces`` it returns.
        budget: the card's line about bytes.
        of: whose tiles a program owns, "keys" or "queries".
        atomic: each pair of tiles also adds to dQ.
    """
    memory = cases(MEMORY, results)
    return (
        right_values(
            "every query sees every key", cases((*PLAIN, *LONGEST), results), tolerance=GRADIENT
        ),
        right_values("causal", cases(CAUSAL, results), points=2, tolerance=GRADIENT),
        right_values("any scale", cases(SCALED, results), tolerance=GRADIENT),
        right_values("large scores, positive and negative", large_cases(results), tolerance=LARGE),
        right_values(
            "float16 in, float32 in the sums",
            half_cases(results),
            tolerance=HALF,
            same_types=True,
        ),
        clean_memory("stays inside its buffers; no two programs write one place", memory),
        within_budget(
            budget,
            cases((*MEMORY, LONGEST[1 if of == "keys" else 2]), results),
            partial(traffic, of=of, atomic=atomic),
            factor=1,
            programs=partial(_programs, of=of),
            cause="What is needed: each tile is read once by a program, if any of its pairs is "
            "visible.",
        ),
        compiles_as_launched(
            "compiles for an H100, on its tensor cores, without spills",
            compile_case(results),
            uses=("HGMMA",),
        ),
    )


SAYS = (
    "H is 1 to 8, T and S 1 to 512; D is 16, 32, 64 or 128; causal: T is at most S.",
    "`scale` is any number; None stands for 1/√D.",
    "Scores may be some ±2,000.",
    "Arrays without gaps, float32 or float16; sums and results are float32.",
    "Each tile of each head has its program; none reads a tile that holds no visible pair, or one "
    "twice.",
    "With float16, D = 64 and tiles of 64 × 64 it compiles for an H100 without spilling registers.",
)
