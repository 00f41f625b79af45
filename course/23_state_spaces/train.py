"""Make what chapter 23 ships: the table of five arms that read digits, and one trained reader.

    python course/23_state_spaces/train.py [ARM …]

writes course/attend/data/digit_readers.json, and digit_readers.npz with the weights of the first
run of S4D that reads pixels in their order. One thread of a CPU; with arms, only their rows.

Each arm tries every rate of RATES (with every start of STARTS) on the seeds of TUNING, in
each order of pixels, and is judged by the validation digits. Where the largest rate is the best,
larger ones are tried, too. The best is then run on the other
seeds of SEEDS and judged by the test digits, which nothing was chosen on. In the permuted order
each seed has a permutation of its own.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import readers  # pyright: ignore[reportMissingImports]  # beside this script
import torch
from attend.data import digit_readers
from attend.data.digit_readers import ORDERS, TABLE, WEIGHTS
from readers import ARMS, Weights  # pyright: ignore[reportMissingImports]  # same folder
from torch import Tensor
from torch.nn import functional

RATES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
STARTS = {"RNN": (0.9, 1.0, 1.1), "LSTM": (1.0, 2.0, 4.0)}
"""Gains of the RNN's orthogonal matrix, biases of the LSTM's forget gate; the others have 1."""
TUNING, SEEDS = (100, 101), tuple(range(10))
STEPS, EXAMPLES, WARM = 600, 50, 50
EVERY = 20
"""Steps between two entries of a curve."""


def orders(order: str, seeds: Sequence[int]) -> Tensor:
    """How each run reads the 64 pixels, (R, 64)."""
    if order == "pixels in order":
        return torch.arange(readers.PIXELS).expand(len(seeds), -1)
    rows = [torch.randperm(64, generator=torch.Generator().manual_seed(500 + s)) for s in seeds]
    return torch.stack(rows)


def seen(pixels: Tensor, order: Tensor) -> Tensor:
    """The digits (n, 64) as each run reads them, (R, n, 64)."""
    return torch.stack([pixels[:, one] for one in order])


def runs(
    arm: str,
    order: str,
    seeds: Sequence[int],
    rates: Sequence[float],
    starts: Sequence[float],
    stop: int | None = None,
) -> tuple[Weights, list[list[float]]]:
    """Train one model a (seed, rate, start), side by side: Adam, warmed up, then a cosine to 0.

    Returns:
        weights, and loss by step, by run.
    """
    pixels, kinds = digit_readers.split("train")
    weights = readers.start(arm, seeds, starts)
    streams = [torch.Generator().manual_seed(1000 + seed) for seed in seeds]
    mixed, rate = orders(order, seeds), torch.tensor(rates)
    first = {name: torch.zeros_like(value) for name, value in weights.items()}
    second = {name: torch.zeros_like(value) for name, value in weights.items()}
    losses = []
    for step in range(STEPS if stop is None else stop):
        chosen = torch.stack([torch.randint(len(kinds), (EXAMPLES,), generator=s) for s in streams])
        batch = pixels[chosen].gather(2, mixed[:, None].expand(-1, EXAMPLES, -1))
        logits = readers.forward(arm, weights, batch)
        every = functional.cross_entropy(
            logits.flatten(0, 1), kinds[chosen].flatten(), reduction="none"
        )
        loss = every.view(len(seeds), -1).mean(1)
        grads = torch.autograd.grad(loss.sum(), list(weights.values()))
        losses.append(loss.tolist())
        warm = min(1.0, (step + 1) / WARM)
        now = rate * warm * (1 + math.cos(math.pi * step / STEPS)) / 2
        _adam(weights, grads, first, second, now, step)
        if step % 100 == 0:
            print(f"\r{order}, {arm}: step {step}", end="", flush=True)
    print()
    return weights, losses


def _adam(
    weights: Weights,
    grads: Sequence[Tensor],
    first: Weights,
    second: Weights,
    rate: Tensor,
    step: int,
) -> None:
    """One step of each run, whose gradients are scaled down to a norm of 1 together."""
    norms = torch.stack([g.flatten(1).square().sum(1) for g in grads]).sum(0).sqrt()
    scale = (1 / norms.clamp(min=1e-12)).clamp(max=1.0)
    with torch.no_grad():
        for (name, value), grad in zip(weights.items(), grads, strict=True):
            shape = (-1, *(1,) * (value.ndim - 1))
            grad = grad * scale.view(shape)
            first[name].lerp_(grad, 0.1)
            second[name].lerp_(grad.square(), 0.001)
            mean = first[name] / (1 - 0.9 ** (step + 1))
            root = (second[name] / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8
            value -= rate.view(shape) * mean / root


@torch.no_grad()
def accuracy(
    arm: str, order: str, weights: Weights, seeds: Sequence[int], part: str
) -> list[float]:
    """Share of right answers of each run."""
    pixels, kinds = digit_readers.split(part)
    found = readers.forward(arm, weights, seen(pixels, orders(order, seeds))).argmax(-1)
    return (found == kinds).float().mean(1).tolist()


def tune(arm: str, order: str) -> dict[str, list[float]]:
    """Validation accuracy by "rate, start", one number a seed of TUNING.

    While the best rate is the largest that was tried, twice that is tried, too.
    """
    starts, rates, found = STARTS.get(arm, (1.0,)), RATES, {}
    while rates:
        tried = [(seed, rate, start) for rate in rates for start in starts for seed in TUNING]
        seeds, each_rate, each_start = zip(*tried, strict=True)
        weights, _ = runs(arm, order, seeds, each_rate, each_start)
        scores = accuracy(arm, order, weights, seeds, "validation")
        for i in range(0, len(tried), len(TUNING)):
            found[f"{each_rate[i]}, {each_start[i]}"] = scores[i : i + len(TUNING)]
        rates = (2 * rates[-1],) if best(found)[0] == rates[-1] else ()
    return found


def best(tuning: Mapping[str, Sequence[float]]) -> tuple[float, float]:
    """The rate and the start of the best mean; of equal ones, the first, which is the smallest."""
    rate, start = max(tuning, key=lambda tried: sum(tuning[tried])).split(", ")
    return float(rate), float(start)


def arm_row(arm: str, order: str, tuning: Mapping[str, list[float]]) -> tuple[Weights, dict]:
    """Train one arm on the seeds that were not tuned on."""
    rate, start = best(tuning)
    weights, losses = runs(arm, order, SEEDS, [rate] * len(SEEDS), [start] * len(SEEDS))
    row: dict[str, Any] = {
        "numbers": readers.count(weights),
        "tuning": tuning,
        "rate": rate,
        "start": start,
        "losses": [[round(one, 5) for one in losses[i]] for i in range(0, len(losses), EVERY)],
        "accuracy": accuracy(arm, order, weights, SEEDS, "test"),
    }
    return weights, row


def main(only: Sequence[str]) -> None:
    """Write the table; with arms, only their rows are made anew."""
    for arm in only or ARMS:
        for order in ORDERS:
            weights, row = arm_row(arm, order, tune(arm, order))
            table = json.loads(TABLE.read_text()) if TABLE.is_file() else {}
            rows = {**table.get(order, {}), arm: row}
            table[order] = {name: rows[name] for name in ARMS if name in rows}
            TABLE.write_text(json.dumps(table, indent=1) + "\n")
            print(order, arm, row["rate"], row["start"], row["accuracy"], flush=True)
            if arm == "S4D" and order == ORDERS[0]:
                stored = {n: v[0].detach().numpy() for n, v in weights.items()}
                np.savez_compressed(WEIGHTS, **stored)  # type: ignore[arg-type]


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1:])
