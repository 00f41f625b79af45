"""Inputs of the flash tests, and the function that holds the kernels to twin and oracle on them."""

# ruff: noqa: N806  # axis letters are capitals

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from attend_kernels import flash_attention, naive_attention

from .numerics import TOLERANCE, assert_right, poisoned, shake


@dataclass(frozen=True)
class Case:
    """Shapes, dtype and options of one call."""

    T: int
    S: int = 0  # as T
    B: int = 1
    H: int = 2
    G: int = 0  # as H
    D: int = 32
    E: int = 0  # width of values: as D
    dtype: torch.dtype = torch.float32
    causal: bool = False
    window: Any = None
    alibi: bool = False
    softcap: float | None = None
    scale: float | None = None

    def __str__(self) -> str:
        text = f"B{self.B}-T{self.T}-S{self.S or self.T}-H{self.H}-G{self.G or self.H}-D{self.D}"
        text += f"-E{self.E}" * bool(self.E)
        text += f"-{str(self.dtype).removeprefix('torch.')}" + "-causal" * self.causal
        text += f"-window{self.window}".replace(" ", "") * (self.window is not None)
        return text + "-alibi" * self.alibi + f"-cap{self.softcap}" * (self.softcap is not None)

    def inputs(self, device: str = "cpu", seed: int = 0) -> list[torch.Tensor]:
        """q, k, v, the gradient of O and that of LSE, drawn afresh from ``seed``."""
        generator = torch.Generator().manual_seed(seed)
        S, G = self.S or self.T, self.G or self.H
        shapes = [(self.B, self.H, self.T, self.D), (self.B, G, S, self.D)]
        shapes += [(*shapes[1][:3], self.E or self.D), (*shapes[0][:3], self.E or self.D)]
        shapes += [shapes[0][:3]]
        dtypes = [self.dtype] * 4 + [torch.float32]
        return [
            torch.randn(shape, generator=generator).to(device, dtype)
            for shape, dtype in zip(shapes, dtypes, strict=True)
        ]

    def slopes(self, device: str = "cpu") -> torch.Tensor | None:
        """Slopes of ALiBi: 1/2, 1/4, … (Press et al. 2022, section 3)."""
        if not self.alibi:
            return None
        return 2.0 ** -torch.arange(1.0, self.H + 1.0, device=device)

    def options(self, device: str = "cpu") -> dict[str, Any]:
        """Options both functions take."""
        return {
            "causal": self.causal,
            "window": self.window,
            "alibi": self.slopes(device),
            "softcap": self.softcap,
            "scale": self.scale,
        }

    def but(self, **changes: Any) -> Case:
        """Return this case with some fields changed."""
        return replace(self, **changes)


Results = dict[str, torch.Tensor]


def run(
    function: Any, inputs: list[torch.Tensor], backward: bool = True, **options: Any
) -> Results:
    """Output, LSE and, with ``backward``, the gradients through both of them."""
    q, k, v = (x.detach().clone(memory_format=torch.preserve_format) for x in inputs[:3])
    leaves = [x.requires_grad_(backward) for x in (q, k, v)]
    output, lse = function(*leaves, **options)
    results = {"output": output.detach(), "LSE": lse.detach()}
    if backward:
        grads = [g.to(x.dtype) for g, x in zip(inputs[3:], (output, lse), strict=True)]
        grads[1] = grads[1].masked_fill(lse.isinf(), 0.0)
        found = torch.autograd.grad([output, lse], leaves, grads)
        results |= dict(zip(("dQ", "dK", "dV"), found, strict=True))
    return results


def check(
    case: Case,
    device: str = "cpu",
    backward: bool = True,
    seed: int = 0,
    deterministic: bool = True,
    tolerance: float | None = None,
) -> Results:
    """Assert that the kernels are right on ``case``; return what they gave."""
    inputs, options = case.inputs(device, seed), case.options(device)
    with poisoned():
        got = run(
            flash_attention, inputs, backward,
            return_lse=True, deterministic=deterministic, **options,
        )  # fmt: skip
    oracle = run(naive_attention, [x.double() for x in inputs], backward, **options)
    moved = None
    if case.dtype == torch.float32:
        moved = run(
            naive_attention, [shake(x, n) for n, x in enumerate(inputs)], backward, **options
        )
    floor = 1e-2 * float(inputs[3].double().norm())
    for name, value in got.items():
        assert value.dtype == (torch.float32 if name == "LSE" else case.dtype), name
        limit = TOLERANCE[torch.float32] if name == "LSE" and tolerance is None else tolerance
        assert_right(
            value, oracle[name], case.dtype, None if moved is None else moved[name],
            floor=0.0 if name in ("output", "LSE") else floor, what=name, tolerance=limit,
        )  # fmt: skip
    return got
