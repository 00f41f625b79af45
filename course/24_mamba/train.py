"""Make what chapter 24 ships: the table of five arms, and the model that writes documentation.

    python course/24_mamba/train.py arms     # → course/attend/data/mamba_arms.json
    python course/24_mamba/train.py words    # → course/attend/data/mamba_words.npz

Both run on one thread of a CPU. Each arm tries every rate of RATES on the seeds of TUNING; the rate
with the best mean accuracy at the training length (among equals, the lowest loss at the end) is
then run on the other seeds of SEEDS.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import mixers  # pyright: ignore[reportMissingImports]  # beside this script
import numpy as np
import torch
from attend.data import mamba_words
from attend.data.mamba_arms import TABLE, TASKS, VOCABULARY, batch
from attend_solutions.mamba import IGNORED
from mixers import (  # pyright: ignore[reportMissingImports]  # same folder
    ARMS,
    Size,
    Weights,
)
from torch import Tensor
from torch.nn import functional

LENGTHS = (64, 128, 256, 512, 1024)
"""Trained at the first, read at all."""
RATES = (0.005, 0.01, 0.02, 0.04)
TUNING, SEEDS = (100, 101), (0, 1, 2, 3, 4)
STEPS = {"selective copying": 600, "induction": 300}
EXAMPLES = 16
TESTED = 128
WIDTHS = {"fixed": 26, "fixed + gate": 21, "selective": 20, "attention": 20, "LSTM": 22}
EVERY = 20
"""Steps between two entries of a curve."""

Draw = Callable[[torch.Generator], tuple[Tensor, Tensor]]


def size(arm: str, task: str) -> Size:
    """An arm's size for a task: widths are such that the arms have nearly as many numbers."""
    return Size(WIDTHS[arm], VOCABULARY[task])


def train(
    arm: str,
    weights: Weights,
    draw: Sequence[Draw],
    rates: Sequence[float],
    steps: int,
    stop: int | None = None,
    say: str = "",
) -> list[list[float]]:
    """Adam, one rate a run, warmed up over 50 steps, then a cosine to 0 at ``steps``.

    The weights change in place. Stops after ``stop`` steps, if given.

    Returns:
        loss by step, by run.
    """
    rate = torch.tensor(rates)
    first = {name: torch.zeros_like(value) for name, value in weights.items()}
    second = {name: torch.zeros_like(value) for name, value in weights.items()}
    losses = []
    for step in range(steps if stop is None else stop):
        pairs = [one(torch.Generator()) for one in draw]
        tokens, targets = (torch.stack(part) for part in zip(*pairs, strict=True))
        loss = run_losses(mixers.forward(arm, weights, tokens), targets)
        grads = torch.autograd.grad(loss.sum(), list(weights.values()))
        losses.append(loss.tolist())
        with torch.no_grad():
            squares = torch.stack([grad.flatten(1).square().sum(1) for grad in grads]).sum(0)
            shrink = 1 / squares.sqrt().clamp(min=1.0)  # a run's gradient has norm 1 at most
            pace = min(1.0, (step + 1) / 50) * 0.5 * (1 + math.cos(math.pi * step / steps))
            for (name, value), grad in zip(weights.items(), grads, strict=True):
                shape = (-1, *[1] * (value.dim() - 1))
                grad = grad * shrink.view(shape)
                first[name].lerp_(grad, 0.1)
                second[name].lerp_(grad.square(), 0.01)
                mean = first[name] / (1 - 0.9 ** (step + 1))
                spread = (second[name] / (1 - 0.99 ** (step + 1))).sqrt()
                value -= (rate * pace).view(shape) * mean / (spread + 1e-8)
        if say and step % 100 == 0:
            print(f"{say} step {step}: {[round(one, 3) for one in losses[-1]]}", flush=True)
    return losses


def run_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of each run, in nats: (R,)."""
    flat = functional.cross_entropy(
        logits.flatten(0, 2), targets.flatten(), ignore_index=IGNORED, reduction="none"
    )
    asked = (targets != IGNORED).flatten(1).sum(1)
    return flat.view(len(targets), -1).sum(1) / asked


@torch.no_grad()
def accuracy(arm: str, weights: Weights, task: str, length: int) -> list[float]:
    """Share of right answers of each run, on the same TESTED texts of that length for all."""
    draw = torch.Generator().manual_seed(10_000 + length)
    runs = len(weights["head"])
    right, asked = torch.zeros(runs), 0
    for _ in range(TESTED // 16):
        tokens, targets = batch(task, draw, 16, length, times=1)
        found = mixers.forward(arm, weights, tokens.expand(runs, -1, -1)).argmax(-1)
        right = right + (found == targets).flatten(1).sum(1)
        asked += int((targets != IGNORED).sum())
    return (right / asked).tolist()


def runs(
    arm: str, task: str, seeds: Sequence[int], rates: Sequence[float], stop: int | None = None
) -> tuple[Weights, list[list[float]]]:
    """Train one model a (seed, rate), side by side."""
    weights = mixers.start(arm, size(arm, task), seeds)
    streams = [torch.Generator().manual_seed(1000 + seed) for seed in seeds]

    def drawing(stream: torch.Generator) -> Draw:
        return lambda _: batch(task, stream, EXAMPLES, LENGTHS[0])

    say = f"{task}, {arm}"
    losses = train(arm, weights, [drawing(s) for s in streams], rates, STEPS[task], stop, say)
    return weights, losses


def arm_row(arm: str, task: str) -> dict[str, Any]:
    """Tune one arm on one task, train it on the other seeds, and read longer texts with it."""
    started = time.process_time()
    tried = [(seed, rate) for rate in RATES for seed in TUNING]
    seeds, rates = [seed for seed, _ in tried], [rate for _, rate in tried]
    tuned, tuning = runs(arm, task, seeds, rates)
    scores = accuracy(arm, tuned, task, LENGTHS[0])
    ends = torch.tensor(tuning[-STEPS[task] // 10 :]).mean(0).tolist()  # mean loss at the end
    places = {rate: slice(len(TUNING) * i, len(TUNING) * (i + 1)) for i, rate in enumerate(RATES)}
    by_rate = {rate: scores[place] for rate, place in places.items()}
    rate = max(RATES, key=lambda rate: (sum(by_rate[rate]), -sum(ends[places[rate]])))
    weights, losses = runs(arm, task, SEEDS, [rate] * len(SEEDS))
    return {
        "numbers": mixers.count(weights),
        "tuning": {str(rate): found for rate, found in by_rate.items()},
        "rate": rate,
        "losses": [
            [round(one, 5) for one in losses[step]] for step in range(0, len(losses), EVERY)
        ],
        "accuracy": {str(length): accuracy(arm, weights, task, length) for length in LENGTHS},
        "seconds": round(time.process_time() - started),
    }


def arms(only: Sequence[str]) -> None:
    """Write the table; with arguments, only rows whose task or arm is named are made anew."""
    for task in TASKS:
        for arm in ARMS:
            if only and task not in only and arm not in only:
                continue
            row = arm_row(arm, task)
            table = json.loads(TABLE.read_text()) if TABLE.is_file() else {}
            table.setdefault(task, {})[arm] = row
            TABLE.write_text(json.dumps(table, indent=1) + "\n")
            print(task, arm, row["accuracy"], row["seconds"], flush=True)


WORDS = Size(width=64, vocabulary=len(mamba_words.ALPHABET), state=8, rank=4)
WORDS_STEPS, WORDS_EXAMPLES, WORDS_LENGTH, WORDS_RATE = 1500, 12, 128, 0.01


def words(stop: int | None = None) -> list[list[float]]:
    """Train the model that writes documentation, and write its weights in half precision."""
    read, held_out = mamba_words.text()
    stream = torch.Generator().manual_seed(0)
    weights = mixers.start("selective", WORDS, [0])

    def draw(_: torch.Generator) -> tuple[Tensor, Tensor]:
        starts = torch.randint(len(read) - WORDS_LENGTH - 1, (WORDS_EXAMPLES,), generator=stream)
        rows = read[starts[:, None] + torch.arange(WORDS_LENGTH + 1)]
        return rows[:, :-1], rows[:, 1:]

    say = "words"
    losses = train("selective", weights, [draw], [WORDS_RATE], WORDS_STEPS, stop, say)
    if stop is not None:
        return losses
    rows = held_out[: len(held_out) // 512 * 512].view(-1, 512)
    with torch.no_grad():
        found = [
            float(run_losses(mixers.forward("selective", weights, r[None, :, :-1]), r[None, :, 1:]))
            for r in rows.split(4)
        ]
    print(f"held out: {sum(found) / len(found) / math.log(2):.3f} bits a letter", flush=True)
    stored = {
        name: (value[0].T if name.endswith("a_log") else value[0]).detach().half().numpy()
        for name, value in weights.items()  # a_log as in MambaBlock: (E, N)
    }
    curve = np.array([one[0] for one in losses[::EVERY]], dtype=np.float32)
    np.savez_compressed(mamba_words.WEIGHTS, curve=curve, **stored)  # type: ignore[arg-type]
    return losses


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:] == ["words"]:
        words()
    elif sys.argv[1:2] == ["arms"]:
        arms(sys.argv[2:])
    else:
        sys.exit(__doc__)
