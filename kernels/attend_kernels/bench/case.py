"""One thing to measure: inputs, peers, an oracle, and what it costs at least.

A case names three directions. ``forward`` is a call without autograd. ``backward`` is the gradient
alone, of a graph made beforehand and kept. ``both`` is a call and its gradient, as in training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

Tensors = tuple[torch.Tensor, ...]
Function = Callable[..., Any]  # tensors -> a tensor or several
Direction = str  # "forward", "backward" or "both"
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
GRADIENT_FACTOR = 2  # a gradient rounds what it is made from, the stored output, and itself


class AbsentError(Exception):
    """A peer that cannot take part here, and why."""


@dataclass(frozen=True)
class Answer:
    """What a function gave: its outputs, and the gradients of the inputs that learn."""

    outputs: Tensors
    gradients: Tensors


@dataclass(frozen=True)
class Case:
    """One function at one size.

    Attributes:
        family: ``flash``, ``norm``, ...: what ``--only`` names.
        name: the function and its options: ``causal``, ``rms + residual``.
        size: the numbers that tell the sizes apart; the table's columns.
        wave: 0 is measured first; the budget trims from the last wave.
        make: inputs from a seed, on the device.
        learn: which inputs want a gradient.
        peers: a name, and what makes the function; it raises AbsentError where it cannot.
        oracle: the answer in float64, from inputs and output gradients.
        part: the part of an answer that the oracle gives.
        flops, bytes: what a direction must do and move at least. A direction missing from
            ``bytes`` is not measured.
    """

    family: str
    name: str
    size: Mapping[str, int | str]
    wave: int
    make: Callable[[int], Tensors]
    learn: tuple[int, ...]
    peers: Mapping[str, Callable[[], Function]]
    oracle: Callable[[Tensors, Tensors], Answer]
    flops: Mapping[Direction, float]
    bytes: Mapping[Direction, float]
    part: Callable[[Answer], Answer] = lambda answer: answer

    @property
    def title(self) -> str:
        """The case in words."""
        sizes = " ".join(f"{key}{value}" for key, value in self.size.items())
        return f"{self.family} {self.name} {sizes}"


def call(function: Function, inputs: Tensors) -> Tensors:
    """Call a function and return its outputs as a tuple, whatever it returns."""
    result = function(*inputs)
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def learning(case: Case, inputs: Tensors) -> Tensors:
    """Return the same inputs as leaves, of which those that learn want a gradient."""
    return tuple(t.detach().requires_grad_(i in case.learn) for i, t in enumerate(inputs))


def output_gradients(outputs: Tensors, seed: int) -> Tensors:
    """Random gradients of the outputs; 1 for a scalar, as ``loss.backward()`` has it."""
    made = []
    for number, output in enumerate(outputs):
        generator = torch.Generator(output.device).manual_seed(1000 * seed + number)
        made.append(
            torch.randn(output.shape, generator=generator, device=output.device).to(output.dtype)
            if output.dim()
            else torch.ones_like(output)
        )
    return tuple(made)


def gradients(case: Case, outputs: Tensors, grads: Tensors, inputs: Tensors, keep: bool) -> Tensors:
    """Gradients of the inputs that learn."""
    wanted = [inputs[i] for i in case.learn]
    return torch.autograd.grad(outputs, wanted, grads, retain_graph=keep)


def solve(function: Function, case: Case, inputs: Tensors, seed: int) -> tuple[Answer, Tensors]:
    """Outputs and gradients of a function, and the output gradients they were made with."""
    leaves = learning(case, tuple(t.clone() for t in inputs))  # clones: a peer may work in place
    outputs = call(function, leaves)
    grads = output_gradients(outputs, seed)
    found = gradients(case, outputs, grads, leaves, keep=False) if case.learn else ()
    return Answer(tuple(o.detach() for o in outputs), found), grads


def worst_error(case: Case, got: Answer, want: Answer) -> tuple[float, float]:
    """Largest relative error ‖got - want‖ / ‖want‖ of the outputs, and of the gradients.

    Raises:
        ValueError: a part is missing, has another shape, or is not finite.
    """
    part = case.part(got)
    errors = [
        max((_relative(g, w) for g, w in zip(ours, theirs, strict=True)), default=0.0)
        for ours, theirs in ((part.outputs, want.outputs), (part.gradients, want.gradients))
    ]
    return errors[0], errors[1]


def _relative(got: torch.Tensor, want: torch.Tensor) -> float:
    if got.shape != want.shape:
        raise ValueError(f"expected shape {tuple(want.shape)}, got {tuple(got.shape)}")
    if not bool(torch.isfinite(got).all()):
        raise ValueError("the answer has NaN or infinity in it")
    return float((got.double() - want).norm() / want.norm().clamp_min(1e-30))


def in_float64(function: Function, learn: tuple[int, ...]) -> Callable[[Tensors, Tensors], Answer]:
    """Make an oracle of a twin: the same formula on the same inputs in float64."""

    def oracle(inputs: Tensors, grads: Tensors) -> Answer:
        wide = [t.detach().double() if t.is_floating_point() else t for t in inputs]
        leaves = [t.requires_grad_(i in learn) for i, t in enumerate(wide)]
        outputs = call(function, tuple(leaves))
        wanted = [leaves[i] for i in learn]
        grads = tuple(g.to(o.dtype) for g, o in zip(grads, outputs, strict=True))
        found = torch.autograd.grad(outputs, wanted, grads)
        return Answer(tuple(o.detach() for o in outputs), found)

    return oracle


def compiled(function: Function) -> Callable[[], Function]:
    """Make a peer of ``torch.compile`` at fixed shapes."""

    def build() -> Function:
        if not torch.cuda.is_available():
            raise AbsentError("torch.compile is timed on a GPU only")
        return torch.compile(function, dynamic=False)

    return build
