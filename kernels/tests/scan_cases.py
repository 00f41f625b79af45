"""Inputs of the selective-scan tests, and the check of the kernel against its twin."""

# ruff: noqa: N806  # axis letters are capitals

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from attend_kernels import naive_selective_scan, selective_scan

from .numerics import TOLERANCE, assert_right, poisoned, relative_error, shaken
from .recurrences import Tensors, run, wide

OPTIONAL = ("D", "z", "delta_bias", "initial_state")


@dataclass(frozen=True)
class Case:
    """Shapes, dtype and options of one call."""

    T: int
    B: int = 1
    C: int = 5
    N: int = 3
    dtype: torch.dtype = torch.float32
    options: tuple[str, ...] = OPTIONAL
    softplus: bool = True
    rate: float = 1.0  # of decay: A is about minus this

    def __str__(self) -> str:
        kind = str(self.dtype).removeprefix("torch.")
        return f"B{self.B}-T{self.T}-C{self.C}-N{self.N}-{kind}"

    def but(self, **changes: Any) -> Case:
        """Return this case with some fields changed."""
        return replace(self, **changes)

    def inputs(self, device: str = "cpu", seed: int = 0) -> Tensors:
        """Arguments of the scan, drawn afresh from ``seed``; A, D and the bias stay fp32."""
        generator = torch.Generator().manual_seed(seed)
        B, T, C, N = self.B, self.T, self.C, self.N
        shapes = {"u": (B, T, C), "delta": (B, T, C), "A": (C, N), "B": (B, T, N), "C": (B, T, N)}
        shapes |= {"D": (C,), "z": (B, T, C), "delta_bias": (C,), "initial_state": (B, C, N)}
        drawn = {k: torch.randn(s, generator=generator).double() for k, s in shapes.items()}
        drawn["A"] = -self.rate * torch.exp(0.5 * drawn["A"])
        if not self.softplus:
            drawn["delta"] = drawn["delta"].abs()
            drawn["delta_bias"] = drawn["delta_bias"].abs()
        wide = torch.float64 if self.dtype == torch.float64 else torch.float32
        fixed = ("A", "D", "delta_bias", "initial_state")
        return {
            name: x.to(device, wide if name in fixed else self.dtype)
            for name, x in drawn.items()
            if name not in OPTIONAL or name in self.options
        }


def fast(**arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The kernel, with its state."""
    return selective_scan(**arguments, output_state=True)


def check(case: Case, device: str = "cpu", seed: int = 0) -> Tensors:
    """Assert that the kernel is right on ``case``; return what it gave."""
    inputs = case.inputs(device, seed)
    with poisoned():
        got = run(fast, inputs, softplus=case.softplus)
    want = run(naive_selective_scan, wide(inputs), softplus=case.softplus)
    if case.dtype == torch.float64:
        for name, value in got.items():
            assert relative_error(value, want[name], floor=1e-3) < 1e-12, name
        return got
    moved = None
    if case.dtype == torch.float32:
        moved = run(naive_selective_scan, shaken(inputs), softplus=case.softplus)
    for name, value in got.items():
        kind = inputs[name[1:]].dtype if name[0] == "d" and name != "delta" else value.dtype
        assert value.dtype == kind, name
        limit = TOLERANCE[case.dtype]  # sums over time of rounded gradients are fp32, but no better
        # A gradient of few terms may cancel to almost nothing, and leave little to compare with.
        floor = 1e-2 * float(want["y"].norm())
        nearby = None if moved is None else moved[name]
        assert_right(value, want[name], case.dtype, nearby, floor, name, limit)
    return got
