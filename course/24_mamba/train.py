"""Make what chapter 24 ships: the table of six arms, and the model that writes documentation.

    python course/24_mamba/train.py arms     # → course/attend/data/mamba_arms.json
    python course/24_mamba/train.py words    # → course/attend/data/mamba_words.npz

Both run on one thread of a CPU. Each arm tries every rate of RATES on the seeds of TUNING. Of the
rates whose mean accuracy at the training length is within TIE of the best one, the smallest is then
run on the other seeds of SEEDS: two seeds and 128 texts cannot tell such rates apart, and the
largest of them may stand next to one at which training collapses.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
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
TIE = 0.01
"""Mean accuracies of two rates that differ by this or less count as equal."""
STEPS = {"selective copying": 600, "induction": 300}
EXAMPLES = 16
TESTED = 128
WIDTHS = {"fixed": 26, "fixed + gate": 21, "selective": 20, "LSTM": 22}
WIDTHS |= {"attention": 20, mixers.NO_POSITIONS: 20}
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


def tune(arm: str, task: str) -> dict[str, list[float]]:
    """Accuracy at the training length by rate (as text, for JSON), one number a seed of TUNING."""
    tried = [(seed, rate) for rate in RATES for seed in TUNING]
    weights, _ = runs(arm, task, [seed for seed, _ in tried], [rate for _, rate in tried])
    scores = accuracy(arm, weights, task, LENGTHS[0])
    each = len(TUNING)
    return {str(rate): scores[each * i : each * (i + 1)] for i, rate in enumerate(RATES)}


def best_rate(tuning: Mapping[str, Sequence[float]]) -> float:
    """The smallest rate whose mean accuracy is within TIE of the best."""
    means = {float(rate): sum(scores) / len(scores) for rate, scores in tuning.items()}
    return min(rate for rate, mean in means.items() if mean >= max(means.values()) - TIE)


def arm_row(arm: str, task: str, tuning: Mapping[str, list[float]]) -> dict[str, Any]:
    """Train one arm on the seeds that were not tuned on, and read longer texts with it."""
    rate = best_rate(tuning)
    weights, losses = runs(arm, task, SEEDS, [rate] * len(SEEDS))
    return {
        "numbers": mixers.count(weights),
        "tuning": tuning,
        "rate": rate,
        "losses": [
            [round(one, 5) for one in losses[step]] for step in range(0, len(losses), EVERY)
        ],
        "accuracy": {str(length): accuracy(arm, weights, task, length) for length in LENGTHS},
    }


def arms(only: Sequence[str]) -> None:
    """Write the table; with arguments, only rows whose task or arm is named are made anew."""
    for task in TASKS:
        for arm in ARMS:
            if only and task not in only and arm not in only:
                continue
            row = arm_row(arm, task, tune(arm, task))
            table = json.loads(TABLE.read_text()) if TABLE.is_file() else {}
            table.setdefault(task, {})[arm] = row
            TABLE.write_text(json.dumps(table, indent=1) + "\n")
            print(task, arm, row["accuracy"], flush=True)


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
