"""Make what chapter 05 ships: five tables, and the models of its first picture.

    python course/05_multi_head/heads.py asking    # → course/attend/data/head_trials.json
    python course/05_multi_head/heads.py asking "friend only"   # one of its questions
    python course/05_multi_head/heads.py stuck     # → the same file, another table
    python course/05_multi_head/heads.py saving    # → the same file, another table
    python course/05_multi_head/heads.py again     # → the same file, another table
    python course/05_multi_head/heads.py sharing   # → the same file, another table
    python course/05_multi_head/heads.py surgery   # → course/attend/data/head_surgery.npz

All run on one thread of a CPU. Each arm tries every rate of RATES (sharing: MORE_RATES) on the
seeds of TUNING and rows that are used for nothing else; the rate with the lowest mean error then
runs on SEEDS.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from attend.data import deep_stack as deep
from attend.data import head_trials as trials
from attend.training import fit
from attend_solutions.multi_head import (
    GroupedQueryAttention,
    LatentAttention,
    MultiHeadAttention,
)

RATES, MORE_RATES = (5e-3, 1e-2, 2e-2, 4e-2), (3e-4, 1e-3, 3e-3)
POOLED = ((4, "mean"), (2, "mean"), (1, "mean"), (1, "first"))
"""Heads of keys and values in ``sharing``, and how they are made of four."""
TUNING, SEEDS, MORE_SEEDS = (100, 101), (0, 1, 2, 3, 4), tuple(range(10, 30))
SURGERY_RATE, SURGERY_STEPS = 2e-2, 300

Run = tuple[dict[str, float], list[float]]
"""What was measured in a run (its "error" chooses the rate), and its losses."""


def side_by_side(
    build: Callable[[], torch.nn.Module],
    runs: Sequence[tuple[int, float]],
    steps: int,
    rows: int,
    asked: str = trials.BOTH,
    width: int = trials.WIDTH,
) -> list[Run]:
    """What ``trials.train`` does, for many runs (seed, rate) at once: most of the time is Python's.

    Each is measured on the rows of that seed, at the end and at step ``EARLY``.
    """
    models = []
    for seed, _ in runs:
        torch.manual_seed(seed)
        models.append(build())
    weights, _ = torch.func.stack_module_state(models)
    seeds = list(dict.fromkeys(seed for seed, _ in runs))
    data = {seed: trials.rows(seed, trials.BATCH * steps, width, asked) for seed in seeds}
    rates = torch.tensor([rate for _, rate in runs])
    first, second = ({n: torch.zeros_like(w) for n, w in weights.items()} for _ in range(2))
    empty, losses = build().to("meta"), torch.empty(steps, len(runs))
    found: list[dict[str, float]] = [{} for _ in runs]

    def loss(own: dict[str, torch.Tensor], x: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
        return trials.loss_of(torch.func.functional_call(empty, own, (x,)), answers, asked)

    def measure(name: str) -> None:
        for run, model in enumerate(models):
            model.load_state_dict({n: w[run].detach() for n, w in weights.items()})
            found[run][name] = trials.error_of(model, asked, width, rows)

    for step in range(steps):
        if step == trials.EARLY:
            measure("early")
        some = slice(step * trials.BATCH, (step + 1) * trials.BATCH)
        x = torch.stack([data[seed].x[some] for seed, _ in runs])
        answers = torch.stack([data[seed].answers[some] for seed, _ in runs])
        value = torch.func.vmap(loss)(weights, x, answers)
        grads = torch.autograd.grad(value.sum(), list(weights.values()))
        losses[step] = value.detach()
        with torch.no_grad():
            norms = torch.stack([g.flatten(1).square().sum(1) for g in grads]).sum(0).sqrt()
            shrink = (1 / (norms + 1e-6)).clamp(max=1.0)
            for (name, weight), grad in zip(weights.items(), grads, strict=True):
                shape = (-1, *[1] * (weight.dim() - 1))
                grad = grad * shrink.view(shape)
                first[name].lerp_(grad, 0.1)
                second[name].lerp_(grad.square(), 0.001)
                spread = (second[name] / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8
                weight -= rates.view(shape) * first[name] / (1 - 0.9 ** (step + 1)) / spread
    measure("error")
    return [(found[run], losses[:, run].tolist()) for run in range(len(runs))]


def tuned(
    many: Callable[[Sequence[tuple[int, float]], int], list[Run]], rates: Sequence[float] = RATES
) -> dict[str, Any]:
    """Choose a rate for one arm, then run it on the other seeds.

    `many(runs, rows)` trains a model for each (seed, rate), and measures on the rows of that seed.
    """
    started = time.process_time()
    tries = [(seed, rate) for rate in rates for seed in TUNING]
    errors = [found["error"] for found, _ in many(tries, trials.TUNE)]
    tried = {r: [e for (_, o), e in zip(tries, errors, strict=True) if o == r] for r in rates}
    rate = min(rates, key=lambda rate: sum(tried[rate]))
    runs = many([(seed, rate) for seed in SEEDS], trials.TEST)
    return {
        "rate": rate,
        "tuning": {f"{r:g}": [float(f"{e:.3g}") for e in found] for r, found in tried.items()},
        "seeds": list(SEEDS),
        **{name: [float(f"{found[name]:.4g}") for found, _ in runs] for name in runs[0][0]},
        "losses": [[round(loss, 4) for loss in losses[:: trials.EVERY]][:30] for _, losses in runs],
        "seconds": round(time.process_time() - started),
    }


def store(name: str, *keys: str, row: dict[str, Any]) -> None:
    """Write one arm into the table, and say so."""
    path = trials.TABLE
    whole = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    place = whole.setdefault(name, {})
    for key in keys[:-1]:
        place = place.setdefault(key, {})
    place[keys[-1]] = row
    path.write_text(json.dumps(whole) + "\n", encoding="utf-8")
    print(name, *keys, {k: v for k, v in row.items() if k != "losses"}, flush=True)


def asking(only: Sequence[str] = ()) -> None:
    """Heads, their widths, and what comes behind them, by what is asked."""
    for asked, steps in trials.STEPS.items():
        if only and asked not in only:
            continue
        for arm in trials.ASKED[asked]:
            width = trials.ASKING[arm][0]

            def many(
                runs: Sequence[tuple[int, float]],
                rows: int,
                arm: str = arm,
                width: int = width,
                asked: str = asked,
                steps: int = steps,
            ) -> list[Run]:
                def build() -> torch.nn.Module:
                    return trials.Asker(arm, MultiHeadAttention)

                return side_by_side(build, runs, steps, rows, asked, width)

            store("asking", asked, arm, row=tuned(many))


def stuck() -> None:
    """Twenty more runs of two, four and eight heads at their rates: how many know one answer?"""
    for arm in ("2 heads of 24", "4 heads of 12", "8 heads of 6"):
        rate = trials.table()["asking"][trials.BOTH][arm]["rate"]

        def build(arm: str = arm) -> torch.nn.Module:
            return trials.Asker(arm, MultiHeadAttention)

        runs = [(seed, rate) for seed in MORE_SEEDS]
        found = side_by_side(build, runs, trials.STEPS[trials.BOTH], trials.TEST)
        errors = [float(f"{one['error']:.4g}") for one, _ in found]
        store("stuck", arm, row={"rate": rate, "seeds": list(MORE_SEEDS), "error": errors})


def saving() -> None:
    """Error against numbers kept of a token, at equal parameters."""
    for arm in trials.SAVING:

        def many(runs: Sequence[tuple[int, float]], rows: int, arm: str = arm) -> list[Run]:
            def build() -> torch.nn.Module:
                return trials.Saver(arm, GroupedQueryAttention, LatentAttention)

            return side_by_side(build, runs, trials.SAVING_STEPS, rows)

        store("saving", arm, row=tuned(many))


def again() -> None:
    """Twenty more runs of ``saving`` with 12 numbers kept, at their rates."""
    for arm in ("1 kv_heads, 8 heads", "latent of 12"):
        rate = trials.table()["saving"][arm]["rate"]

        def build(arm: str = arm) -> torch.nn.Module:
            return trials.Saver(arm, GroupedQueryAttention, LatentAttention)

        runs = [(seed, rate) for seed in MORE_SEEDS]
        found = [one for one, _ in side_by_side(build, runs, trials.SAVING_STEPS, trials.TEST)]
        row = {name: [float(f"{one[name]:.4g}") for one in found] for name in ("error", "early")}
        store("again", arm, row={"rate": rate, "seeds": list(MORE_SEEDS), **row})


def sharing() -> None:
    """The writer of chapter 07 with fewer heads of keys: at once, and after 5 % more training."""
    for kv_heads, how in POOLED:

        def many(
            runs: Sequence[tuple[int, float]], rows: int, kv_heads: int = kv_heads, how: str = how
        ) -> list[Run]:
            del rows  # text is not drawn from a seed of rows
            return [shared(kv_heads, how, rate, seed) for seed, rate in runs]

        store("sharing", f"{kv_heads} kv_heads, {how}", row=tuned(many, MORE_RATES))


def shared(kv_heads: int, how: str, rate: float, seed: int) -> Run:
    """One run of ``sharing``: bits a character before and after."""
    model = trials.share(trials.writer(), kv_heads, how, GroupedQueryAttention)
    before = deep.bits(model, 128, 64)
    draw = torch.Generator().manual_seed(2000 + seed)
    losses = fit(
        model.parameters(),
        lambda _: deep.loss_of(model, *deep.batch(draw, 12, 128)),
        steps=trials.MORE_STEPS,
        rate=rate,
        progress=False,
    )
    return {"error": deep.bits(model, 128, 64), "before": before}, losses


def surgery() -> None:
    """Four models with the same start and rows; store half precision."""
    state = {}
    for kv_heads in (8, 4, 2, 1):

        def build(kv_heads: int = kv_heads) -> torch.nn.Module:
            model: Any = torch.nn.Identity()
            model = trials.Asker("8 heads of 6", MultiHeadAttention)
            model.look = GroupedQueryAttention(trials.WIDTH, trials.HEADS, kv_heads)
            return model

        model, _ = trials.train(build, SURGERY_RATE, 0, SURGERY_STEPS)
        print(kv_heads, trials.error_of(model, trials.BOTH))
        for name, value in model.state_dict().items():
            state[f"{kv_heads}.{name.removeprefix('look.')}"] = value.half().numpy()
    np.savez_compressed(trials.WEIGHTS, **state)  # type: ignore[arg-type]


if __name__ == "__main__":
    torch.set_num_threads(1)
    makes = {
        "stuck": stuck,
        "saving": saving,
        "again": again,
        "sharing": sharing,
        "surgery": surgery,
    }
    if sys.argv[1:2] == ["asking"]:
        asking(sys.argv[2:])
    elif len(sys.argv) == 2 and sys.argv[1] in makes:
        makes[sys.argv[1]]()
    else:
        sys.exit(__doc__)
