"""Training loops that chapters share: Adam with a progress bar, and runs over several seeds.

Imports torch, so chapters that train nothing must not import it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import torch
from tqdm import tqdm

Row = dict[str, Any]


def fit(
    parameters: Iterable[torch.Tensor],
    loss: Callable[[int], torch.Tensor],
    *,
    steps: int,
    rate: float | Callable[[int], float] = 1e-3,
    clip: float | None = 1.0,
    name: str = "training",
    progress: bool = True,
) -> list[float]:
    """Train with Adam (Kingma and Ba 2015, algorithm 1) and return the loss of every step.

    Args:
        parameters: tensors that require gradients, such as ``model.parameters()``.
        loss: called with the step's number, from 0; draws a batch and returns a scalar tensor.
        steps: how many steps to take.
        rate: learning rate, or a function from the step's number to it.
        clip: largest norm of all gradients together; larger ones are scaled down (Pascanu et al.
            2013, algorithm 1). None: no limit.
        name: what the progress bar is called.
        progress: show a progress bar while running.

    Raises:
        ValueError: ``steps`` is not positive, or the loss is not a scalar.
        FloatingPointError: the loss is NaN or infinite; says at which step.
    """
    if steps < 1:
        raise ValueError(f"fit takes at least one step; got steps = {steps}.")
    trained = list(parameters)
    schedule = rate if callable(rate) else lambda step: rate
    optimiser = torch.optim.Adam(trained, lr=schedule(0))
    losses: list[float] = []
    for step in _bar(range(steps), name, progress):
        value = loss(step)
        if value.numel() != 1:
            raise ValueError(
                f"the loss must be one number, but has shape {tuple(value.shape)}: take its mean."
            )
        losses.append(value.item())
        if not math.isfinite(losses[-1]):
            raise FloatingPointError(
                f"the loss is {losses[-1]} at step {step}: try a smaller learning rate, or look "
                "for a logarithm of 0 or a division by 0."
            )
        optimiser.zero_grad(set_to_none=True)
        value.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(trained, clip)
        for group in optimiser.param_groups:
            group["lr"] = schedule(step)
        optimiser.step()
    return losses


def over_seeds(
    run: Callable[..., Iterable[Mapping[str, Any]]],
    seeds: Sequence[int],
    *,
    name: str = "runs",
    **variants: Sequence[Any],
) -> list[Row]:
    """Call ``run`` for every seed and variant; gather its rows for ``charts.bands``.

    Args:
        run: called as ``run(seed=…, **variant)``; returns rows, dicts with what it measured.
        seeds: one run each, for every variant.
        name: what the progress bar is called.
        **variants: each keyword holds the values it takes; all combinations are run, as in
            ``over_seeds(train, range(5), model=("RNN", "LSTM"), lag=(5, 10))``.

    Returns:
        every row with the seed and the variant it belongs to; what the row says itself counts.
    """
    chosen = [dict(zip(variants, values, strict=True)) for values in product(*variants.values())]
    jobs = [(variant, seed) for variant in chosen for seed in seeds]
    return [
        {"seed": seed, **variant, **row}
        for variant, seed in _bar(jobs, name, True)
        for row in run(seed=seed, **variant)
    ]


def _bar(items: Iterable[Any], name: str, shown: bool) -> Iterable[Any]:
    return tqdm(items, desc=name, mininterval=1, leave=False, file=sys.stdout, disable=not shown)
