"""Make the table of chapter 06's experiments, course/attend/data/position_arms.json.

    python course/06_positions/train.py arms           # every arm on every task; ten minutes
    python course/06_positions/train.py arms letters   # only this task; also: only one arm
    python course/06_positions/train.py longer         # RoPE trained further, on texts of 1,024

All run on one thread of a CPU. Each arm tries every rate of RATES on the seeds of TUNING, with
texts of their own; the rate with the lowest loss at the trained length then runs on SEEDS.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from attend.data import position_arms as p
from attend.training import fit

RATES = (0.003, 0.01, 0.03)
TUNING, SEEDS = (100,), (0, 1, 2, 3, 4)
FURTHER, FURTHER_RATES = 30, (0.003, 0.01)
"""Steps on long texts, one text each, and the rates they try."""
RAISED = "base 500,000"
CONTROL = ("none", "sinusoidal", "ALiBi, published slopes", p.PLAIN)
KINDS = (*p.WAYS, RAISED, "none")
FACTOR = p.LONGEST / p.TRAINED


def _short(found: dict[int, tuple[float, float]]) -> dict[str, list[float]]:
    return {str(length): [round(one, 4) for one in both] for length, both in found.items()}


def cell(arm: str, task: str) -> dict[str, Any]:
    """Tune one arm, then train it on the other seeds and examine it at every length."""
    started, tuning = time.process_time(), {}
    for rate in RATES:
        models = [p.train(arm, task, rate, seed)[0] for seed in TUNING]
        at = (p.TRAINED,)
        tuning[rate] = [p.examine(m, task, at, tuning=True)[p.TRAINED][0] for m in models]
    rate = min(RATES, key=lambda rate: sum(tuning[rate]))
    runs, ways, losses = [], [], []
    for seed in SEEDS:
        model, curve = p.train(arm, task, rate, seed)
        losses.append([round(one, 4) for one in curve[:21:10]])
        runs.append(_short(p.examine(model, task)))
        if task == "letters" and arm in p.ROPE:
            places = {way: p.stretched(way, p.ROPE[arm]) for way in p.WAYS[1:]}
            ways.append(
                {way: _short(p.examine(model, task, place=at)) for way, at in places.items()}
            )
    return {
        "rate": rate,
        "tuning": {f"{r:g}": [round(one, 4) for one in found] for r, found in tuning.items()},
        "losses": losses,
        "runs": runs,
        **({"ways": ways} if ways else {}),
        "seconds": round(time.process_time() - started),
    }


def arms(only: Sequence[str]) -> None:
    """Write the table; with arguments, only rows whose task or arm is named are made anew."""
    for task in p.TASKS:
        for arm in p.ARMS:
            if only and task not in only and arm not in only:
                continue
            if task == "bags" and arm not in CONTROL:
                continue
            row = cell(arm, task)
            _keep(task, arm, row)
            at = {length: [run[length] for run in row["runs"]] for length in ("64", "1024")}
            print(task, arm, row["rate"], at, row["seconds"], flush=True)


def _keep(first: str, second: str, row: Any) -> None:
    made = json.loads(p.TABLE.read_text()) if p.TABLE.is_file() else {}
    made.setdefault(first, {})[second] = row
    p.TABLE.write_text(json.dumps(made) + "\n")


def further(kind: str, rate: float, seed: int, model: p.Reader) -> p.Place | None:
    """Train a model on, on texts of LONGEST letters; return how it places queries and keys now."""
    place = None
    if kind == RAISED:
        place = p.as_trained(500_000)
    elif kind != "none":
        place = p.stretched(kind, p.ROPE[p.PLAIN], factor=FACTOR)
    rng = np.random.default_rng([6, seed, 1])

    def loss(step: int) -> torch.Tensor:
        text, targets = p.draw("letters", rng, 1, p.LONGEST)
        return p.loss_of(model(text, place), targets)

    pace = [rate * (1 - step / FURTHER) for step in range(FURTHER)]
    fit(model.parameters(), loss, steps=FURTHER, rate=pace.__getitem__, progress=False)
    return place


def longer() -> None:
    """What 30 steps on long texts do to RoPE, read in each way, and to a model without positions.

    The factor is 16 from then on, at every length. Each way tries FURTHER_RATES on TUNING's seeds.
    """
    made = json.loads(p.TABLE.read_text())["letters"]
    states = {
        (arm, seed): p.train(arm, "letters", made[arm]["rate"], seed)[0].state_dict()
        for arm in ("none", p.PLAIN)
        for seed in (*TUNING, *SEEDS)
    }

    def after(kind: str, rate: float, seed: int, tuning: bool) -> dict[int, tuple[float, float]]:
        arm = "none" if kind == "none" else p.PLAIN
        model = p.Reader(arm, len(p.reading.ALPHABET))
        model.load_state_dict(states[arm, seed])
        place = further(kind, rate, seed, model)
        return p.examine(model, "letters", (p.TRAINED, p.LONGEST), place, tuning)

    for kind in KINDS:
        tried = {
            rate: [after(kind, rate, seed, True)[p.LONGEST][0] for seed in TUNING]
            for rate in FURTHER_RATES
        }
        rate = min(FURTHER_RATES, key=lambda rate: sum(tried[rate]))
        runs = [_short(after(kind, rate, seed, False)) for seed in SEEDS]
        row = {"rate": rate, "tuning": {f"{r:g}": t for r, t in tried.items()}, "runs": runs}
        _keep("longer", kind, row)
        print(kind, rate, runs, flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["arms"]:
        arms(sys.argv[2:])
    elif sys.argv[1:] == ["longer"]:
        longer()
    else:
        sys.exit(__doc__)
