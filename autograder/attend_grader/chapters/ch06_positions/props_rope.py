"""Chapter 06, rotations: what must hold of RoPE.

The oracle is a product of complex numbers in float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attend_grader.chapters.ch06_positions.props_absolute import FAR, ROUNDED
from attend_grader.checks.compare import FLOAT32, FLOAT64, PRINTED, Tolerance
from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_properties import (
    agree_dtype,
    agree_gradients,
    agree_untouched,
    normal,
)

# apply_rope


def rates(width: int, base: float = 10_000.0) -> Tensor:
    """The usual frequencies (D/2,) in float64."""
    return torch.tensor([base ** (-2 * i / width) for i in range(width // 2)], dtype=torch.float64)


def turned(x: Tensor, positions: Tensor, frequencies: Tensor) -> Tensor:
    """The answer by complex numbers, in float64."""
    first, second = x.double().chunk(2, dim=-1)
    angle = positions[..., None].double() * frequencies.double()
    z = torch.complex(first, second) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat((z.real, z.imag), dim=-1)


def rope_worked(subject: Subject, probe: Probe) -> None:
    """A quarter turn of (1, 0), an eighth of (0, 2)."""
    frequencies = torch.tensor([math.pi / 2, math.pi / 4], dtype=torch.float64)
    x = torch.tensor([[1.0, 0.0, 0.0, 2.0]])
    want = torch.tensor([[0.0, -1.4142, 1.0, 1.4142]])
    why = "the pairs (1, 0) and (0, 2), turned by 90° and 45°"
    probe.agree(subject, x, torch.tensor([1]), frequencies, want=want, tolerance=PRINTED, why=why)


def rope_limits(subject: Subject, probe: Probe) -> None:
    """A frequency of π: position 0 stays, 1 changes every sign, 2 is back."""
    x = normal(probe.rng, 1, 6).expand(3, 6).contiguous()
    half_turns = torch.full((3,), math.pi, dtype=torch.float64)
    want = x * torch.tensor([[1.0], [-1.0], [1.0]])
    why = "every pair makes half a turn a step, positions 0, 1, 2"
    probe.agree(subject, x, torch.arange(3), half_turns, want=want, tolerance=FLOAT32, why=why)


def _pairing(x: Tensor, positions: Tensor, frequencies: Tensor) -> Any:
    width = x.shape[-1]
    order = [*range(0, width, 2), *range(1, width, 2)]
    back = np.argsort(order)
    neighbours = turned(x[..., order], positions, frequencies)[..., back].numpy()
    other_way = turned(x, -positions, frequencies).numpy()

    def clue(value: Any) -> str:
        if width > 2 and np.allclose(value, neighbours, atol=1e-4):
            return (
                "You pair neighbours, (x_0, x_1), (x_2, x_3), … Here x_i is paired with x_{i + "
                "D/2}: cut the last axis in two halves."
            )
        if np.allclose(value, other_way, atol=1e-4):
            return "You turn clockwise: the signs of the two sines have changed places."
        return ""

    return clue


def rope_pairs(subject: Subject, probe: Probe) -> None:
    """Pair i is (x_i, x_{i + D/2}), turned by its own frequency."""
    for _ in probe.repeat(1, 3):
        for width, tokens in ((2, 3), (4, 4), (6, 3), (10, 5)):
            x = normal(probe.rng, tokens, width)
            where = torch.from_numpy(probe.rng.integers(1, 40, tokens))
            given = (x, where, rates(width))
            want, clue = turned(*given), _pairing(*given)
            why = f"T = {tokens}, D = {width}"
            probe.agree(subject, *given, want=want, tolerance=FLOAT32, why=why, clue=clue)


SCORE = Tolerance(
    "scores of unit vectors in float32",
    1e-6,
    "a dot product of 16 numbers below 1, each rounded to float32",
    absolute=1e-6,
)


def rope_scores(subject: Subject, probe: Probe) -> None:
    """The score of a query at m and a key at n is that at m − n and 0, also at 10⁵."""
    frequencies = rates(16)
    q, k = torch.nn.functional.normalize(normal(probe.rng, 2, 1, 16), dim=-1)
    for start in (0, 40, FAR):
        for offset in (1, 6, 50):
            where = torch.tensor([start + offset]), torch.tensor([start])
            parts = []
            for x, position in zip((q, k), where, strict=True):
                value = probe.call(subject, x, position, frequencies).value
                if not isinstance(value, Tensor) or value.shape != x.shape:
                    probe.agree(subject, x, position, frequencies, tolerance=FLOAT32)
                parts.append(value.double())
            got = float((parts[0] * parts[1]).sum())
            want = float((turned(q, torch.tensor([offset]), frequencies) * k).sum())
            if abs(got - want) <= SCORE.relative + SCORE.absolute:
                continue
            raise probe.miss(
                f"query at {start + offset}, key at {start}: the score of your rotated vectors is "
                f"{got:.7f}, expected {want:.7f}, which belongs to the offset {offset} wherever it "
                "is." + (" Angles must be float64 this far out." if start == FAR else ""),
                q,
                where[0],
                frequencies,
            )


def rope_axes(subject: Subject, probe: Probe) -> None:
    """Heads share positions; sequences may have their own."""
    for shape in ((2, 3, 4), (2, 3, 5, 8), (4, 4, 4)):
        where = torch.from_numpy(probe.rng.integers(0, 30, shape[-2]))
        x = normal(probe.rng, *shape)
        why = f"x of shape {shape}"
        probe.agree(subject, x, where, rates(shape[-1]), tolerance=FLOAT32, why=why)
    x = normal(probe.rng, 2, 3, 4, 6)
    where = torch.from_numpy(probe.rng.integers(0, 30, (2, 1, 4)))
    why = "positions of shape (2, 1, 4): other ones for each sequence, the same for its 3 heads"
    probe.agree(subject, x, where, rates(6), tolerance=FLOAT32, why=why)


def rope_far(subject: Subject, probe: Probe) -> None:
    """Positions about 10⁵, and between whole numbers."""
    x = normal(probe.rng, 3, 8)
    where = torch.from_numpy(FAR + probe.rng.integers(0, 1000, 3))
    given = (x, where, rates(8))
    why = "positions about 100,000, where float32 angles are off by thousandths"
    probe.agree(subject, *given, want=turned(*given), tolerance=ROUNDED, why=why)
    given = (x, torch.tensor([0.25, 7.5, 3.0], dtype=torch.float64), rates(8))
    why = "positions between whole numbers"
    probe.agree(subject, *given, want=turned(*given), tolerance=FLOAT32, why=why)


BFLOAT16 = Tolerance(
    "bfloat16",
    2e-2,
    "bfloat16 rounds at 4e-3, and there are two products and a sum; bfloat16 positions and angles "
    "would be off by radians",
)


def rope_kinds(subject: Subject, probe: Probe) -> None:
    """The dtype of x comes out: float32, float64 (as exactly), bfloat16."""
    x, where = normal(probe.rng, 4, 6), torch.tensor([3, 301, 57, 1003])
    agree_dtype(probe, subject, x, where, rates(6), tolerance=FLOAT64)
    for kind, tolerance in ((torch.float32, FLOAT32), (torch.bfloat16, BFLOAT16)):
        given = (x.to(kind), where, rates(6))
        why = f"x in {kind}"
        want = turned(*given).to(kind)
        outcome = probe.agree(subject, *given, want=want, tolerance=tolerance, why=why)
        got = getattr(outcome.value, "dtype", kind)
        if got != kind:
            note = f"x has dtype {kind}, but your answer {got}: bring sines and cosines to x.dtype."
            raise probe.miss(note, *given)


def rope_awkward(subject: Subject, probe: Probe) -> None:
    """Gradients turn back; views; the arguments stay as they were."""
    given = (normal(probe.rng, 2, 3, 6), torch.tensor([4, 0, 9]), rates(6))
    agree_gradients(probe, subject, *given, wrt=(0,))
    agree_untouched(probe, subject, *given)


ROPE = (
    Property("a hand-worked example: 90° and 45°", 1, rope_worked),
    Property("half a turn a step: position 1 changes every sign", 1, rope_limits),
    Property("pairs (x_i, x_{i + D/2}), a frequency for each", 2, rope_pairs),
    Property("scores depend on m − n only, to 1e-6 at 100,000", 2, rope_scores),
    Property("heads share positions, sequences need not", 1, rope_axes),
    Property("exact at position 100,000 and between positions", 1, rope_far),
    Property("the dtype of x comes out", 1, rope_kinds),
    Property("gradients; views; arguments stay as they were", 1, rope_awkward),
)


def rope_draws(rng: np.random.Generator) -> list[Call]:
    """Unordered positions, heads, T = D, positions for each sequence, far out, bfloat16."""

    def where(*shape: int) -> Tensor:
        return torch.from_numpy(rng.integers(1, 40, shape))

    return [
        Call((normal(rng, 5, 8), where(5), rates(8))),
        Call((normal(rng, 2, 3, 4, 6), where(4), rates(6))),
        Call((normal(rng, 4, 4), torch.arange(4), rates(4, 100.0))),
        Call((normal(rng, 2, 2, 3, 6), where(2, 1, 3), rates(6))),
        Call((normal(rng, 3, 64), FAR + where(3), rates(64))),
        Call((normal(rng, 3, 4).bfloat16(), 40 * where(3), rates(4))),
    ]
