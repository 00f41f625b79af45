"""Make the table that chapter 04 ships: what a look at the future does to loss and writing.

    python course/04_self_attention/train.py      # → course/attend/data/number_words.json

One thread of a CPU, about a minute and a half. The arms differ only in the mask that they are
trained with. Each tries every rate of RATES with the seeds of TUNING, on the tenth of the text that
is kept for that; the best is run with SEEDS and read on the last tenth.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from attend.data import number_words as data

PAST = frozenset(range(1 - data.PLACES, 1))
ARMS = {
    "the past": PAST,
    "the past, one ahead": PAST | {1},
    "the past, two ahead": PAST | {2},
    "itself only": frozenset({0}),
}
"""The distances that a query sees; +2 is the letter after the next, without the next."""

RATES = (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08)
TUNING, SEEDS = (100, 101), (0, 1, 2, 3, 4)
LINES = 100
ORDERS = (1, 4, 6)


def run(arm: str, rate: float, seed: int, steps: int = data.STEPS) -> dict[str, float]:
    """Train one model; bits as trained, bits with nothing ahead, and the share of real words."""
    model = data.train(
        data.plain_attention, data.diagonals(ARMS[arm]), seed=seed, rate=rate, steps=steps
    )
    return {
        "trained": float(data.bits(model).mean()),
        "alone": float(data.bits(model, model.mask & data.causal()).mean()),
        "words": data.real_words(data.write(model, lines=LINES, seed=seed)),
    }


def measure(arm: str) -> dict[str, Any]:
    """Choose the rate of an arm and run its seeds."""
    mask, tried = data.diagonals(ARMS[arm]), {}
    for rate in RATES:
        models = (data.train(data.plain_attention, mask, seed=s, rate=rate) for s in TUNING)
        tried[rate] = float(np.mean([data.bits(model, tuning=True).mean() for model in models]))
    rate = min(tried, key=lambda r: tried[r])
    runs = [run(arm, rate, seed) for seed in SEEDS]
    kept = {name: [float(f"{found[name]:.4g}") for found in runs] for name in runs[0]}
    return {"tried": {str(r): round(b, 6) for r, b in tried.items()}, "rate": rate, **kept}


def main() -> None:
    """Write the table."""
    found: dict[str, Any] = {arm: measure(arm) for arm in ARMS}
    found["counted"] = {str(order): round(data.counted(order), 4) for order in ORDERS}
    data.TABLE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
