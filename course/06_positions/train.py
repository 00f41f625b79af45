"""Make the table of chapter 06's experiments, course/attend/data/position_arms.json.

    python course/06_positions/train.py arms           # every arm on every task; 20 minutes
    python course/06_positions/train.py arms letters   # only this task; also: only one arm
    python course/06_positions/train.py dilution       # T5 with its last bucket lowered; a minute
    python course/06_positions/train.py offsets        # RoPE, far keys turned as near; 8 min
    python course/06_positions/train.py longer         # four times the steps, on letters; 4 minutes

All run on one thread of a CPU. Each arm tries every rate of RATES on the seeds of TUNING, with
texts of their own; the rate with the lowest loss at the trained length then runs on SEEDS.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import Any

import torch
from attend.data import position_arms as p
from attend_solutions.positions import angular_frequencies, apply_rope
from torch import Tensor, nn

RATES = (0.003, 0.01, 0.03)
TUNING, SEEDS = (100,), tuple(range(10))
ALIBI = ("ALiBi, published slopes", "ALiBi, slopes 1 and 1/2")
CONTROL = ("none", "sinusoidal", "T5", *ALIBI, p.PLAIN)
LONGER = ("none", "learned", ALIBI[1], p.PLAIN)


def _short(found: dict[int, tuple[float, float]]) -> dict[str, list[float]]:
    return {str(length): [round(one, 4) for one in both] for length, both in found.items()}


def cell(arm: str, task: str) -> dict[str, Any]:
    """Tune one arm, then train it on the other seeds and examine it at every length."""
    tuning = {}
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
            print(task, arm, row["rate"], at, flush=True)


def _keep(first: str, second: str, row: Any) -> None:
    made = json.loads(p.TABLE.read_text()) if p.TABLE.is_file() else {}
    made.setdefault(first, {})[second] = row
    p.TABLE.write_text(json.dumps(made) + "\n")


def dilution() -> None:
    """Print what T5 gets right, and what once far keys together weigh what they did in training.

    All keys from distance 31 on share the last bucket. A query at a text's end has n - 31 of them,
    so the bucket's number is lowered by the logarithm of how many times as many there are.
    """
    task, last = "three steps back", p.FAR - 1
    for seed in SEEDS[:5]:
        model, _ = p.train("T5", task, p.table()[task]["T5"]["rate"], seed)
        plain = p.examine(model, task)
        trained, found = model.table.data.clone(), {}
        for length in p.LENGTHS[1:]:
            model.table.data = trained.clone()
            model.table.data[last] -= math.log((length - last) / (p.TRAINED - last))
            found[length] = p.examine(model, task, (length,))[length][1]
        print(seed, {n: (round(plain[n][1], 4), round(one, 4)) for n, one in found.items()})


class FarAsTrained(nn.Module):
    """A trained RoPE reader whose far keys stand at offsets of training: only these change.

    Keys 64 or more back all stay, but are turned as if 32 + (offset mod 32) back, so 32 to 63.
    """

    def __init__(self, reader: p.Reader) -> None:
        super().__init__()
        self.reader, self.frequencies = reader, angular_frequencies(p.D, p.ROPE[reader.arm])

    def forward(self, tokens: Tensor, place: p.Place | None = None) -> Tensor:
        """Scores of the next token after each (B, T, V); text by text, to spare memory."""
        return torch.cat([self._read(text) for text in tokens.split(1)])

    def _read(self, tokens: Tensor) -> Tensor:
        at, half = torch.arange(tokens.shape[1]), p.TRAINED // 2
        offset, within = at[:, None] - at, at % half
        x = self.reader.embed(tokens)
        layer: Any
        for layer in self.reader.layers:
            q, k, v = layer.heads(x)
            near = self._scores(q, at, k, at)
            ahead, behind = (self._scores(q, within + by, k, within) for by in (half, 2 * half))
            far = torch.where(within[:, None] >= within, ahead, behind)
            scores = torch.where(offset < p.TRAINED, near, far) / math.sqrt(p.D)
            weights = scores.masked_fill(offset < 0, -math.inf).softmax(dim=-1)
            x = x + layer.merge((weights @ v).transpose(1, 2).flatten(2))
            x = x + layer.down(nn.functional.gelu(layer.up(layer.norms[1](x))))
        return self.reader.head(self.reader.norm(x))

    def _scores(self, q: Tensor, q_at: Tensor, k: Tensor, k_at: Tensor) -> Tensor:
        return apply_rope(q, q_at, self.frequencies) @ apply_rope(
            k, k_at, self.frequencies
        ).transpose(-1, -2)


def offsets(only: Sequence[str]) -> None:
    """Print how RoPE reads 1,024 tokens as it is, and with far keys at trained offsets."""
    for task in only or ("three steps back", "letters"):
        for arm in ("RoPE, base 10", p.PLAIN):
            for seed in SEEDS:
                model, _ = p.train(arm, task, p.table()[task][arm]["rate"], seed)
                both = (p.examine(m, task, (p.LONGEST,)) for m in (model, FarAsTrained(model)))
                print(
                    task, arm, seed, [_short(found)[str(p.LONGEST)] for found in both], flush=True
                )


def longer() -> None:
    """Print the loss on letters after four times the steps, all at the rate 0.01."""
    task = "letters"
    draws, kinds, steps = p.TASKS[task]
    p.TASKS[task] = draws, kinds, 4 * steps
    for arm in LONGER:
        for seed in SEEDS[:3]:
            model, _ = p.train(arm, task, 0.01, seed)
            found = p.examine(model, task, (p.TRAINED, p.LONGEST))
            print(arm, seed, {length: round(loss, 4) for length, (loss, _) in found.items()})


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["arms"]:
        arms(sys.argv[2:])
    elif sys.argv[1:] == ["dilution"]:
        dilution()
    elif sys.argv[1:2] == ["offsets"]:
        offsets(sys.argv[2:])
    elif sys.argv[1:] == ["longer"]:
        longer()
    else:
        sys.exit(__doc__)
