"""Make what chapter 07 ships: the table of seven arms, and the model that writes documentation.

    python course/07_block/depth.py arms          # → course/attend/data/block_arms.json
    python course/07_block/depth.py arms 2        # only the stacks of 2 blocks; also: an arm's name
    python course/07_block/depth.py longer        # prints what three of them do in 600 steps
    python course/07_block/depth.py passed-over   # prints post-norm at a rate that tuning left out
    python course/07_block/depth.py words         # → course/attend/data/block_words.npz

All run on one thread of a CPU. Each arm, with and without warm-up, tries every rate of RATES on
the seeds of TUNING; the rate with the lowest mean of bits on unseen text then runs on SEEDS.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from attend.data import deep_stack as deep
from attend.training import fit
from torch import Tensor
from torch.nn import functional

RATES = (3e-4, 1e-3, 3e-3, 1e-2)
TUNING, SEEDS = (100, 101), (0, 1, 2, 3, 4)
DEPTHS = (deep.DEEP, 2)
SCHEDULES = {"constant": False, "warm-up": True}
LONGER, OTHERS = 600, (10, 11, 12, 13, 14)
"""Steps and seeds of ``longer``."""


def side_by_side(
    arm: str, warm_up: bool, layers: int, runs: Sequence[tuple[int, float]], steps: int = deep.STEPS
) -> tuple[Tensor, list[float]]:
    """What ``deep.train`` does, for many runs (seed, rate) at once: most of the time is Python's.

    Returns:
        losses in nats, (steps, runs), NaN once a run has overflowed; and bits on unseen text.
    """
    stacks = []
    for seed, _ in runs:
        torch.manual_seed(seed)
        stacks.append(deep.Deep(arm, layers))
    weights, _ = torch.func.stack_module_state(stacks)
    if arm not in deep.NORMED:
        weights = {n: w for n, w in weights.items() if not n.endswith((".scale", ".shift"))}
    draws = [torch.Generator().manual_seed(1000 + seed) for seed, _ in runs]
    rates = torch.tensor([rate for _, rate in runs])
    first, second = ({n: torch.zeros_like(w) for n, w in weights.items()} for _ in range(2))
    empty, losses = deep.Deep(arm, layers).to("meta"), torch.empty(steps, len(runs))

    def loss(own: dict[str, Tensor], tokens: Tensor, targets: Tensor) -> Tensor:
        scores = torch.func.functional_call(empty, own, (tokens,))
        return functional.cross_entropy(scores.flatten(0, 1), targets.flatten())

    for step in range(steps):
        pairs = [deep.batch(draw, deep.EXAMPLES, deep.TOKENS) for draw in draws]
        tokens, targets = (torch.stack(part) for part in zip(*pairs, strict=True))
        found = torch.func.vmap(loss)(weights, tokens, targets)
        grads = torch.autograd.grad(found.sum(), list(weights.values()))
        losses[step] = found.detach()
        with torch.no_grad():
            norms = torch.stack([g.flatten(1).square().sum(1) for g in grads]).sum(0).sqrt()
            shrink = (1 / (norms + 1e-6)).clamp(max=1.0)
            pace = rates * (min(1.0, (step + 1) / deep.WARM_UP) if warm_up else 1.0)
            for (name, weight), grad in zip(weights.items(), grads, strict=True):
                shape = (-1, *[1] * (weight.dim() - 1))
                grad = grad * shrink.view(shape)
                first[name].lerp_(grad, 0.1)
                second[name].lerp_(grad.square(), 0.001)
                spread = (second[name] / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8
                weight -= pace.view(shape) * first[name] / (1 - 0.9 ** (step + 1)) / spread
    ends = []
    for run, stack in enumerate(stacks):
        stack.load_state_dict({n: w[run] for n, w in weights.items()}, strict=False)
        ends.append(deep.bits(stack) if losses[:, run].isfinite().all() else math.inf)
    return losses, ends


def cell(
    arm: str,
    warm_up: bool,
    layers: int,
    steps: int = deep.STEPS,
    rates: Sequence[float] = RATES,
    seeds: Sequence[int] = SEEDS,
) -> dict[str, Any]:
    """Tune one arm, then train it on the other seeds."""
    started = time.process_time()
    tried = [(seed, rate) for rate in rates for seed in TUNING]
    _, scores = side_by_side(arm, warm_up, layers, tried, steps)
    tuning = {
        rate: [bits for (_, r), bits in zip(tried, scores, strict=True) if r == rate]
        for rate in rates
    }
    rate = min(rates, key=lambda rate: sum(tuning[rate]))
    losses, bits = side_by_side(arm, warm_up, layers, [(seed, rate) for seed in seeds], steps)
    kept = losses[:: deep.EVERY].T.tolist()
    return {
        "rate": rate,
        "tuning": {f"{rate:g}": [_short(b) for b in found] for rate, found in tuning.items()},
        "seeds": list(seeds),
        "bits": [_short(found) for found in bits],
        "losses": [[round(one, 4) for one in run if math.isfinite(one)] for run in kept],
        "seconds": round(time.process_time() - started),
    }


def _short(bits: float) -> float | None:
    """Four digits; None of a run that overflowed, which JSON has no number for."""
    return round(bits, 4) if math.isfinite(bits) else None


def arms(only: Sequence[str]) -> None:
    """Write the table; with arguments, only rows whose depth or arm is named are made anew."""
    for layers in DEPTHS:
        for arm in deep.ARMS:
            if only and arm not in only and str(layers) not in only:
                continue
            for schedule, warm_up in SCHEDULES.items():
                row = cell(arm, warm_up, layers)
                table = json.loads(deep.TABLE.read_text()) if deep.TABLE.is_file() else {}
                table.setdefault(str(layers), {}).setdefault(arm, {})[schedule] = row
                deep.TABLE.write_text(json.dumps(table) + "\n")
                print(layers, arm, schedule, row["rate"], row["bits"], row["seconds"], flush=True)


def longer() -> None:
    """Print bits after 600 steps at a constant rate; that of pre-norm is not tuned again."""
    for arm, layers, rates in (
        (deep.NOTHING, 2, (1e-3, 3e-3, 1e-2)),
        (deep.POST, deep.DEEP, (1e-4, 3e-4, 1e-3)),
        (deep.PRE, deep.DEEP, (3e-3,)),
    ):
        row = cell(arm, False, layers, LONGER, rates, OTHERS)
        print(layers, arm, row["rate"], row["bits"], row["tuning"], row["seconds"], flush=True)


def passed_over(rate: float = 1e-3) -> None:
    """Print bits of post-norm at a constant rate that TUNING did not choose, on SEEDS."""
    _, bits = side_by_side(deep.POST, False, deep.DEEP, [(seed, rate) for seed in SEEDS])
    print(deep.DEEP, deep.POST, "constant", rate, [_short(found) for found in bits])


def words(steps: int = 1500, examples: int = 12, rate: float = 3e-3) -> None:
    """Train the writer: warmed up over 100 steps, then a cosine to 0; store half precision."""
    torch.manual_seed(0)
    model, draw = deep.Deep(**deep.WRITER), torch.Generator().manual_seed(0)
    length = deep.WRITER["tokens"]

    def pace(step: int) -> float:
        return rate * min(1.0, (step + 1) / 100) * 0.5 * (1 + math.cos(math.pi * step / steps))

    fit(
        model.parameters(),
        lambda _: deep.loss_of(model, *deep.batch(draw, examples, length)),
        steps=steps,
        rate=pace,
    )
    print(f"unseen: {deep.bits(model, length):.3f} bits a character")
    state = {name: value.half().numpy() for name, value in model.state_dict().items()}
    np.savez_compressed(deep.WEIGHTS, **state)  # type: ignore[arg-type]


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["arms"]:
        arms(sys.argv[2:])
    elif sys.argv[1:] == ["longer"]:
        longer()
    elif sys.argv[1:] == ["passed-over"]:
        passed_over()
    elif sys.argv[1:] == ["words"]:
        words()
    else:
        sys.exit(__doc__)
