"""Chapter 01's experiment: who remembers a symbol over how many fillers, by architecture and start.

Made by ``python course/01_recurrence/train.py arms``, which says what the arms are and how each is
tuned; read here as rows for a chart.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("copy_arms.json")


@cache
def table() -> dict[str, Any]:
    """``arms`` (by arm, then lag), ``long`` and ``weights`` (by arm), ``control`` (a list)."""
    return json.loads(TABLE.read_text(encoding="utf-8"))


def rows() -> list[dict[str, Any]]:
    """One row an arm, lag and seed, with the share of right answers."""
    return [
        {"arm": arm, "lag": int(lag), "right": right, "seed": seed}
        for arm, lags in table()["arms"].items()
        for lag, found in lags.items()
        for seed, right in enumerate(found["right"])
    ]
