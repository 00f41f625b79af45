"""Inputs of the linear attention tests, and what holds the kernels to twins and oracle on them."""

# ruff: noqa: N806  # axis letters are capitals

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from attend_kernels import linear_attention, naive_linear_attention

from .numerics import TOLERANCE, assert_right, poisoned, shaken

# "decay" is a number a head, "gate" one a step, "gates" one a key dimension; the delta rule has
# beta alone, or beside a gate a step or ("decay delta") a number a head.
KINDS = ["plain", "decay", "gate", "gates", "delta", "gated delta"]
NAMES = ("q", "k", "v", "decay", "gate", "beta", "initial_state")


@dataclass(frozen=True)
class Case:
    """Shapes, dtype and options of one call."""

    T: int
    B: int = 1
    H: int = 1
    D: int = 16
    E: int = 0  # value width; as D
    dtype: torch.dtype = torch.float32
    kind: str = "plain"  # one of ``KINDS``
    strength: float = 1.0  # how far below 0 gates reach
    state: bool = True  # an initial state
    chunk: int = 32

    def __str__(self) -> str:
        text = f"{self.kind}-B{self.B}-T{self.T}-H{self.H}-D{self.D}-E{self.E or self.D}"
        text += f"-{str(self.dtype).removeprefix('torch.')}-chunk{self.chunk}"
        return text + f"-strength{self.strength:g}" * (self.strength != 1.0)

    def inputs(self, device: str = "cpu", seed: int = 0) -> dict[str, torch.Tensor]:
        """Arguments drawn afresh from ``seed``, as leaves that want a gradient."""
        generator = torch.Generator().manual_seed(seed)
        B, H, T, D, E = self.B, self.H, self.T, self.D, self.E or self.D

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=generator)

        def log_gates(*shape: int) -> torch.Tensor:
            return -self.strength * torch.rand(shape, generator=generator)

        made = {"q": normal(B, H, T, D), "k": normal(B, H, T, D), "v": normal(B, H, T, E)}
        if self.state:
            made["initial_state"] = normal(B, H, D, E)
        if self.kind.endswith("delta"):
            made["k"] = torch.nn.functional.normalize(made["k"], dim=-1)
            made["beta"] = torch.rand((B, H, T), generator=generator)
        made |= {name: x.to(self.dtype) for name, x in made.items() if name in "qkv"}
        if self.kind.startswith("decay"):
            made["decay"] = log_gates(H)
        if self.kind in ("gate", "gated delta"):
            made["gate"] = log_gates(B, H, T)
        if self.kind == "gates":
            made["gate"] = log_gates(B, H, T, D)
        return {name: x.to(device).requires_grad_() for name, x in made.items()}

    def but(self, **changes: Any) -> Case:
        """Return this case with some fields changed."""
        return replace(self, **changes)


Results = dict[str, torch.Tensor]


def run(function: Any, inputs: dict[str, torch.Tensor], backward: bool = True, **options: Any):
    """Output, last state and, with ``backward``, the gradients through both of them."""
    leaves = {name: x.detach().clone().requires_grad_(backward) for name, x in inputs.items()}
    output, state = function(**leaves, **options)
    results: Results = {"output": output.detach(), "state": state.detach()}
    if backward:
        generator = torch.Generator().manual_seed(1)
        grads = [
            torch.randn(x.shape, generator=generator).to(inputs["q"].device, inputs["v"].dtype)
            for x in (output, state)
        ]
        grads = [g.to(x.dtype) for g, x in zip(grads, (output, state), strict=True)]
        found = torch.autograd.grad([output, state], list(leaves.values()), grads)
        results |= dict(zip((f"d_{name}" for name in leaves), found, strict=True))
    return results


def widened(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the very same numbers in float64."""
    return {name: x.detach().double() for name, x in inputs.items()}


def check(
    case: Case, device: str = "cpu", backward: bool = True, seed: int = 0, **limits: float
) -> Results:
    """Assert that the kernels are right on ``case``; return what they gave.

    ``limits``: tolerances for results by name, where they differ from the dtype's.
    """
    inputs = case.inputs(device, seed)
    with poisoned():
        got = run(linear_attention, inputs, backward, output_state=True, chunk=case.chunk)
    oracle = run(naive_linear_attention, widened(inputs), backward)
    moved = None
    if case.dtype == torch.float32:
        moved = run(naive_linear_attention, shaken(inputs), backward)
    # Strong gates leave nothing of the first; the second sums what T steps give, numbers of about D
    # and of both signs, which may cancel.
    floors = {"d_initial_state": 1e-3, "d_decay": 2.0 * case.D * case.T**0.5}
    for name, value in got.items():
        fp32 = name == "state" or name.endswith(("decay", "gate", "beta", "initial_state"))
        assert value.dtype == (torch.float32 if fp32 else case.dtype), name
        assert_right(
            value, oracle[name], case.dtype, None if moved is None else moved[name], what=name,
            floor=floors.get(name, 0.0),
            tolerance=limits.get(name, TOLERANCE[case.dtype]),
        )  # fmt: skip
    return got
