"""Chapter 07: tensors that several exercises draw."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attend_grader.checks.compare import FLOAT32, Miss, expect_close
from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.subject import Subject, SubjectError
from attend_grader.checks.torch_numbers import normal
from attend_grader.checks.torch_properties import GRADIENT, module_call

SCALE = 0.5
"""Of fresh parameters: with widths of 4 to 9 outputs stay near 1."""


def far(rng: np.random.Generator) -> Tensor:
    """Numbers near 1,024 whose mean and deviations float32 holds exactly: (2, 3, 8).

    They are quarters, and sums of eight of them need 15 bits of the 24. Their squares do not fit.
    """
    return torch.from_numpy(rng.integers(-8, 9, (2, 3, 8)) / 4 + 1024).float()


def scattered(rng: np.random.Generator, *shape: int) -> Tensor:
    """A random mask; every token may look at one at least, not always at itself.

    Of no axes it is one True for all.
    """
    if not shape:
        return torch.tensor(True)
    allowed = rng.random(shape) < 0.5
    one = rng.integers(shape[-1], size=(*shape[:-1], 1))
    return torch.from_numpy(allowed | (np.arange(shape[-1]) == one))


def block_call(
    reference: Any,
    rng: np.random.Generator,
    build: tuple[Any, ...],
    *x: int,
    mask: tuple[int, ...] | None = None,
    blind: bool = False,
) -> Call:
    """A call of a block with fresh parameters on a text of shape ``x``, perhaps with a mask.

    With ``blind`` the first token sees nothing.
    """
    args = [normal(rng, *x)]
    if mask is not None:
        args.append(scattered(rng, *mask))
    if blind:
        args[-1][..., 0, :] = False
    return module_call(reference, rng, Call(build), *args, scale=SCALE)


def with_slope(
    name: str,
    cases: Callable[[np.random.Generator], Iterable[tuple[str, tuple[Any, ...], Tensor]]],
) -> Property:
    """Values that are known, and the gradient of the first argument at the same place.

    Args:
        name: the card's line.
        cases: makes (what is special, arguments, right value).
    """

    def test(subject: Subject, probe: Probe) -> None:
        for why, args, want in cases(probe.rng):
            probe.agree(subject, *args, want=want, why=why, tolerance=FLOAT32)
            cotangent = normal(probe.rng, *want.shape)
            x = args[0].clone().requires_grad_()
            (right,) = torch.autograd.grad(probe.reference(x, *args[1:]), x, cotangent)
            outcome = subject.gradients(args, {}, wrt=[0], parameters=(), cotangents=[cotangent])
            given = probe.given(args, {})
            if outcome.error is not None:
                raise SubjectError(outcome.error, f"with gradients: {given}")
            mine = (outcome.gradients or {}).get(0)
            mine = torch.zeros_like(right) if mine is None else mine
            try:
                expect_close(mine, right, GRADIENT, "gradient of x")
            except Miss as miss:
                if not mine.isfinite().all():
                    miss.cause = (
                        "Somewhere on the way is a root of 0, whose slope is infinite. Add eps "
                        "before you take the root."
                    )
                told = miss.text.removeprefix("wrong value: ")
                miss.text = f"the value is right, the gradient is not: {told}"
                raise miss.on(given, why) from None

    return Property(name, 1, test)
