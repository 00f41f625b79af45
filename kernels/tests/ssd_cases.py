"""Inputs of the SSD tests, and the check of the kernels against their twins."""

# ruff: noqa: N806  # axis letters are capitals

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from attend_kernels import naive_ssd, ssd

from .numerics import assert_right, poisoned, shaken
from .recurrences import Tensors, run, wide

NARROW = ("x", "B", "C")  # the rest stays fp32, as in Mamba-2's own training
OPTIONAL = ("D", "initial_state")


@dataclass(frozen=True)
class Case:
    """Shapes, dtype and options of one call."""

    T: int
    B: int = 1
    H: int = 2
    G: int = 1
    P: int = 16
    N: int = 16
    dtype: torch.dtype = torch.float32
    options: tuple[str, ...] = OPTIONAL
    rate: float = 1.0  # of decay: A is about minus this

    def __str__(self) -> str:
        text = f"B{self.B}-T{self.T}-H{self.H}-G{self.G}-P{self.P}-N{self.N}-rate{self.rate}"
        return text + f"-{str(self.dtype).removeprefix('torch.')}"

    def but(self, **changes: Any) -> Case:
        """Return this case with some fields changed."""
        return replace(self, **changes)

    def inputs(self, device: str = "cpu", seed: int = 0) -> Tensors:
        """Arguments of the scan, drawn afresh from ``seed``."""
        generator = torch.Generator().manual_seed(seed)
        B, T, H, G, P, N = self.B, self.T, self.H, self.G, self.P, self.N
        shapes = {"x": (B, T, H, P), "dt": (B, T, H), "A": (H,), "B": (B, T, G, N)}
        shapes |= {"C": (B, T, G, N), "D": (H,), "initial_state": (B, H, P, N)}
        drawn = {k: torch.randn(s, generator=generator) for k, s in shapes.items()}
        drawn["dt"] = torch.nn.functional.softplus(drawn["dt"] - 1)
        drawn["A"] = -self.rate * torch.exp(0.5 * drawn["A"])
        drawn["C"] /= N**0.5
        return {
            name: x.to(device, self.dtype if name in NARROW else torch.float32)
            for name, x in drawn.items()
            if name not in OPTIONAL or name in self.options
        }


def fast(**arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The kernel, with its state."""
    return ssd(**arguments, output_state=True)


def part(inputs: Tensors, *where: slice) -> Tensors:
    """Some of the steps."""
    return {k: m[:, where[0]] if k in ("x", "dt", "B", "C") else m for k, m in inputs.items()}


def check(
    case: Case,
    device: str = "cpu",
    seed: int = 0,
    tolerance: float | None = None,
    **options: Any,
) -> Tensors:
    """Assert that the kernels are right on ``case``; return what they gave."""
    inputs = case.inputs(device, seed)
    with poisoned():
        got = run(fast, inputs, **options)
    want = run(naive_ssd, wide(inputs))
    moved = run(naive_ssd, shaken(inputs)) if case.dtype == torch.float32 else None
    # dA sums over time what dt owes to its decay: terms of both signs, which may leave little.
    decay = inputs["A"].double().abs().mean().clamp(min=1.0)
    floors = {"dA": float((inputs["dt"].double() * want["ddt"]).norm() / decay)}
    for name, value in got.items():
        expected = torch.float32 if name == "state" else inputs.get(name[1:], inputs["x"]).dtype
        assert value.dtype == expected, name
        assert_right(
            value, want[name], case.dtype, None if moved is None else moved[name],
            floor=floors.get(name, 1e-2), what=name, tolerance=tolerance,
        )  # fmt: skip
    return got
