"""Make what chapter 05 ships: three tables, and the models of its first picture.

    python course/05_multi_head/heads.py asking    # → course/attend/data/head_trials.json
    python course/05_multi_head/heads.py saving    # → the same file, another table
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
TUNING, SEEDS = (100, 101), (0, 1, 2, 3, 4)
SURGERY_RATE, SURGERY_STEPS = 2e-2, 300

Run = tuple[dict[str, float], list[float]]
"""What was measured in a run (its "error" chooses the rate), and its losses."""


def tuned(run: Callable[[float, int, int], Run], rates: Sequence[float] = RATES) -> dict[str, Any]:
    """Choose a rate for one arm, then run it on the other seeds.

    `run(rate, seed, rows)` trains one model and measures it on the rows of that seed.
    """
    started = time.process_time()
    tried = {rate: [run(rate, seed, trials.TUNE)[0]["error"] for seed in TUNING] for rate in rates}
    rate = min(rates, key=lambda rate: sum(tried[rate]))
    runs = [run(rate, seed, trials.TEST) for seed in SEEDS]
    return {
        "rate": rate,
        "tuning": {f"{r:g}": [float(f"{e:.3g}") for e in errors] for r, errors in tried.items()},
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


def asking() -> None:
    """Heads, their widths, and what comes behind them, by what is asked."""
    for asked, steps in trials.STEPS.items():
        for arm, (width, _, _) in trials.ASKING.items():

            def run(
                rate: float,
                seed: int,
                rows: int,
                arm: str = arm,
                width: int = width,
                asked: str = asked,
                steps: int = steps,
            ) -> Run:
                model, losses = trials.train(
                    lambda: trials.Asker(arm, MultiHeadAttention), rate, seed, steps, asked, width
                )
                return {"error": trials.error_of(model, asked, width, rows)}, losses

            store("asking", asked, arm, row=tuned(run))


def saving() -> None:
    """Error against numbers kept of a token, at equal parameters."""
    for arm in trials.SAVING:

        def run(rate: float, seed: int, rows: int, arm: str = arm) -> Run:
            early = {}

            def at(step: int, model: torch.nn.Module) -> None:
                if step == trials.EARLY:
                    early["early"] = trials.error_of(model, trials.BOTH, seed=rows)

            model, losses = trials.train(
                lambda: trials.Saver(arm, GroupedQueryAttention, LatentAttention),
                rate,
                seed,
                trials.SAVING_STEPS,
                at=at,
            )
            return {"error": trials.error_of(model, trials.BOTH, seed=rows), **early}, losses

        store("saving", arm, row=tuned(run))


def sharing() -> None:
    """The writer of chapter 07 with fewer heads of keys: at once, and after 5 % more training."""
    for kv_heads, how in ((4, "mean"), (2, "mean"), (2, "first"), (1, "mean"), (1, "first")):

        def run(
            rate: float, seed: int, rows: int, kv_heads: int = kv_heads, how: str = how
        ) -> Run:
            del rows  # text is not drawn from a seed of rows
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

        store("sharing", f"{kv_heads} kv_heads, {how}", row=tuned(run, MORE_RATES))


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
    makes = {"asking": asking, "saving": saving, "sharing": sharing, "surgery": surgery}
    if len(sys.argv) == 2 and sys.argv[1] in makes:
        makes[sys.argv[1]]()
    else:
        sys.exit(__doc__)
