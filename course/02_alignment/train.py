"""Make what chapter 02 ships: the table of three arms, and the film of two small translators.

    python course/02_alignment/train.py arms     # about 20 minutes, one thread of a CPU
    python course/02_alignment/train.py film     # about ten seconds

``arms`` writes course/attend/data/date_translators.json. Each arm is trained in every width, for
every number of steps. Each such combination tries every rate of RATES on the seed TUNING and is
judged by the validation sentences; where the smallest or largest is the best, a smaller or larger
one is tried, too. The best rate is then run on the seeds of SEEDS, and judged by the test
sentences, which nothing was chosen on.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from attend.data import date_translators as translators
from attend.data.date_translators import ARMS, FILM, TABLE, Sentences, Weights
from torch import Tensor

WIDTHS, STEPS = (48, 24, 96), (160, 480, 1440)
RATES = (0.006, 0.012, 0.025, 0.05)
TUNING, SEEDS = 100, (0, 1, 2, 3, 4)
BATCH, WARM = 48, 20

FILM_STEPS = (0, 40, 60, 80, 100, 160)
FILM_WIDTH, FILM_NUMBERS, FILM_RATE, FILM_SEED = 32, 16, 0.04, 2


def scale(step: int, steps: int) -> float:
    """Of the rate: up within WARM steps, down over the last 40 %."""
    return min(1, (step + 1) / WARM, max(0.05, (1 - step / steps) / 0.4))


def runs(
    arm: str,
    width: int,
    steps: int,
    seeds: Sequence[int],
    rates: Sequence[float],
    numbers: int = 32,
    stop: int | None = None,
    keep: Sequence[int] = (),
) -> tuple[Weights, list[list[float]], dict[int, Weights]]:
    """Train one translator a (seed, rate), side by side, with Adam.

    The length of each step's sentences is the same in all runs, the sentences are not.

    Returns:
        weights; loss by step, by run; the weights at the steps to keep.
    """
    weights = translators.start(seeds, width, numbers)
    for value in weights.values():
        value.requires_grad_(True)
    groups = list(translators.data()[0].values())
    sizes = np.array([len(source) for source, _ in groups])
    order = np.random.default_rng(7).choice(len(groups), steps, p=sizes / sizes.sum())
    streams = [np.random.default_rng([2, 200 + seed]) for seed in seeds]
    first = {name: torch.zeros_like(value) for name, value in weights.items()}
    second = {name: torch.zeros_like(value) for name, value in weights.items()}
    losses, kept = [], {}
    for step in range(steps if stop is None else stop):
        if step in keep:
            kept[step] = {name: value.detach().clone() for name, value in weights.items()}
        source, target = groups[order[step]]
        chosen = np.stack([stream.integers(0, len(source), BATCH) for stream in streams])
        each = translators.loss(arm, weights, source[chosen], target[chosen])
        grads = torch.autograd.grad(each.sum(), list(weights.values()))
        losses.append(each.tolist())
        now = torch.tensor(rates) * scale(step, steps)
        _adam(weights, grads, first, second, now, step)
    if steps in keep:
        kept[steps] = {name: value.detach().clone() for name, value in weights.items()}
    return {name: value.detach() for name, value in weights.items()}, losses, kept


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
    factor = (1 / norms.clamp(min=1e-12)).clamp(max=1.0)
    with torch.no_grad():
        for (name, value), grad in zip(weights.items(), grads, strict=True):
            shape = (-1, *(1,) * (value.ndim - 1))
            grad = grad * factor.view(shape)
            first[name].lerp_(grad, 0.1)
            second[name].lerp_(grad.square(), 0.001)
            mean = first[name] / (1 - 0.9 ** (step + 1))
            root = (second[name] / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8
            value -= rate.view(shape) * mean / root


def marks(arm: str, weights: Weights, sentences: Sentences) -> list[dict[str, list[int]]]:
    """For each run: "dates,words" → sentences without a mistake, and all sentences."""
    count = len(weights["start"])
    found: list[dict[str, list[int]]] = [{} for _ in range(count)]
    for (s, t), (source, target) in sentences.items():
        written, _ = translators.write(arm, weights, source.expand(count, -1, -1), t)
        right = (written == target).all(dim=2).sum(dim=1).tolist()
        for run, number in enumerate(right):
            found[run][f"{t // 3},{s}"] = [number, len(source)]
    return found


def total(run: dict[str, list[int]]) -> float:
    """Share of all sentences without a mistake."""
    return sum(right for right, _ in run.values()) / sum(count for _, count in run.values())


def best_rate(tuning: dict[str, float]) -> float:
    """The rate with the largest share; of equal ones, the smallest."""
    return min((-share, float(rate)) for rate, share in tuning.items())[1]


def entry(arm: str, width: int, steps: int) -> dict[str, Any]:
    """Tune the rate, then run every seed."""
    _, judge, test = translators.data()
    tuning: dict[str, float] = {}
    trying: tuple[float, ...] = RATES
    while trying:
        weights, _, _ = runs(arm, width, steps, [TUNING] * len(trying), trying)
        shares = [total(run) for run in marks(arm, weights, judge)]
        tuning |= {f"{rate:g}": share for rate, share in zip(trying, shares, strict=True)}
        best, tried = best_rate(tuning), sorted(map(float, tuning))
        trying = ()
        if best == tried[-1] and best < 0.3:
            trying = (2 * best,)
        elif best == tried[0] and best > 0.0008:
            trying = (best / 2,)
    weights, losses, _ = runs(arm, width, steps, SEEDS, [best_rate(tuning)] * len(SEEDS))
    return {
        "arm": arm,
        "width": width,
        "steps": steps,
        "rate": best_rate(tuning),
        "tuning": tuning,
        "losses": [[round(x, 5) for x in losses[at]] for at in (0, 10, 20)],
        "runs": marks(arm, weights, test),
    }


def arms() -> None:
    """Write the table, after every combination: a run that is stopped goes on where it was."""
    done = json.loads(TABLE.read_text()) if TABLE.exists() else []
    known = {(e["arm"], e["width"], e["steps"]) for e in done}
    for width in WIDTHS:
        for steps in STEPS:
            for arm in ARMS:
                if (arm, width, steps) not in known:
                    done.append(entry(arm, width, steps))
                    TABLE.write_text(json.dumps(done, separators=(",", ":")))
                    last = done[-1]
                    told = [round(total(run), 3) for run in last["runs"]]
                    print(arm, width, steps, last["rate"], told, flush=True)


def film() -> None:
    """Write the weights of two small translators at FILM_STEPS."""
    packed = []
    for arm in ARMS[:2]:
        weights, _, kept = runs(
            arm,
            FILM_WIDTH,
            FILM_STEPS[-1],
            [FILM_SEED],
            [FILM_RATE],
            FILM_NUMBERS,
            keep=FILM_STEPS,
        )
        print(arm, total(marks(arm, weights, translators.data()[2])[0]))
        packed.append([translators.pack(kept[at]) for at in FILM_STEPS])
    np.savez_compressed(
        FILM,
        steps=np.array(FILM_STEPS),
        sizes=np.array([FILM_WIDTH, FILM_NUMBERS]),
        numbers=np.array([[numbers for numbers, _ in arm] for arm in packed]),
        scales=np.array([[scales for _, scales in arm] for arm in packed]),
    )
    print(FILM.stat().st_size, "bytes")


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"arms": arms, "film": film}[sys.argv[1]]()
