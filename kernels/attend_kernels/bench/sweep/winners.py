"""What a file of results says is fastest, and the tables made of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attend_kernels.bench.sweep.within import Place, Values

GAIN = 0.98  # of the shipped tile's time, over all cases: less is within what a run differs by
LOSS = 1.02  # in no case may a winner take longer than this
OURS = "attend"
Row = Mapping[str, Any]
OPS = Path(__file__).parents[2] / "ops"

MODULE = '''\
"""Tiles measured to be faster than those chosen without a GPU: place in the table, fields.

Written by ``python -m attend_kernels.bench.sweep --write``; never edited by hand.
"""

from __future__ import annotations

from typing import Any

MEASURED: dict[Any, tuple[Any, ...]] = {entries}
'''


def winners(rows: Iterable[Row]) -> dict[Place, tuple[Values, float]]:
    """Find for each place the best candidate, and its share of the shipped tile's time.

    A candidate counts where it was right and timed in every case of its place. The share is the
    geometric mean over the cases.
    """
    times: dict[Place, dict[str, dict[str, float]]] = {}  # place, case, peer: median
    tiles: dict[tuple[Place, str], Values] = {}
    for row in rows:
        if row["status"] != "ok":
            continue
        place = tuple(row["place"])
        case = f"{row['name']} {sorted(row['size'].items())}"
        times.setdefault(place, {}).setdefault(case, {})[row["peer"]] = row["median_ms"]
        if row.get("tile"):
            tiles[place, row["peer"]] = tuple(row["tile"])
    found: dict[Place, tuple[Values, float]] = {}
    for place, cases in times.items():
        shares: dict[Values, float] = {}
        for (at, peer), tile in tiles.items():
            if at != place or not all(peer in case and OURS in case for case in cases.values()):
                continue
            ratios = [case[peer] / case[OURS] for case in cases.values()]
            if max(ratios) <= LOSS:
                shares[tile] = math.exp(sum(map(math.log, ratios)) / len(ratios))
        best = min(shares, key=lambda tile: shares[tile], default=None)
        if best is not None and shares[best] <= GAIN:
            found[place] = best, shares[best]
    return found


def write(found: Mapping[Place, tuple[Values, float]], folder: Path = OPS) -> list[Path]:
    """Add the winners to the families' ``measured`` modules; return those that were written."""
    written = []
    for family in sorted({place[0] for place in found}):
        path = folder / family / "measured.py"
        scope: dict[str, Any] = {}
        exec(path.read_text(encoding="utf-8"), scope)
        entries = scope["MEASURED"] | {
            place[1:]: values for place, (values, _) in found.items() if place[0] == family
        }
        path.write_text(module(entries), encoding="utf-8")
        written.append(path)
    return written


def module(entries: Mapping[Place, Values]) -> str:
    """Write a family's module."""
    lines = "".join(f"    {place!r}: {values!r},\n" for place, values in sorted(entries.items()))
    text = MODULE.format(entries=f"{{\n{lines}}}" if entries else "{}")
    return text.replace("'", '"')
