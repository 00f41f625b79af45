"""The command: ``python -m attend_kernels.bench.sweep``; ``--help`` says what it takes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESERVE = 45.0  # seconds a case may take: some compilations, and two rounds of every peer


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or 1 where a candidate is wrong or nothing can be done."""
    options = _parse(arguments)
    if options.write:
        return _write(options.write)
    import torch

    from attend_kernels.common import fallback

    if options.dry and "triton" not in sys.modules:  # else it has read the variable already
        os.environ.setdefault("TRITON_INTERPRET", "1")
    if options.dry and fallback.HAS_TRITON and fallback.interpreted():
        return _dry(options.only)
    if options.dry or not torch.cuda.is_available() or fallback.interpreted():
        print("A sweep needs an NVIDIA GPU and no interpreter. Next: --dry, which times nothing.")
        return 1
    return _sweep(options.only, 60 * options.minutes, options.out)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    from attend_kernels.bench.cli import families_of, minutes_of

    names = ("flash", "decode", "linear_attention", "ssd")
    parser = argparse.ArgumentParser(
        prog="python -m attend_kernels.bench.sweep",
        description="Time tiles that may be faster than the tables', beside them and the peers.",
    )
    parser.add_argument(
        "--only", type=families_of(names), default=names, help=f"some of {','.join(names)}"
    )
    parser.add_argument(
        "--minutes", type=minutes_of, default=8.5, help="time for this call (default %(default)s)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("sweep.json"),
        help="file of the results; one that is there already is gone on with",
    )
    parser.add_argument("--dry", action="store_true", help="check every candidate, interpreted")
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="put the winners of FILE into the tables"
    )
    return parser.parse_args(arguments)


def _dry(only: Sequence[str]) -> int:
    """Run each candidate at a tiny size on the CPU and compare it with the oracle."""
    from attend_kernels.bench.runner import check_peers
    from attend_kernels.bench.sweep.candidates import sweeps

    wrong = 0
    for sweep in sweeps(dry=True):
        if sweep.place[0] not in only:
            continue
        for case in sweep.with_candidates():
            rows: list[dict[str, Any]] = []
            ready, _ = check_peers(case, case.make(0), rows)
            wrong += len(rows)
            print(f"{' '.join(map(str, sweep.place))}, {case.title}: {len(ready)} right")
            for row in rows:
                print(f"  {row['peer']}: {row['status']}, {row['reason']}")
    print("NOT measured: any speed. Next: the same command without --dry, on an NVIDIA GPU.")
    return int(wrong > 0)


def _sweep(only: Sequence[str], seconds: float, path: Path) -> int:
    """Time what the file of results lacks, until the time is up; write it after each case."""
    import torch

    from attend_kernels.bench import machine, report
    from attend_kernels.bench.runner import DeviceLostError, run_case
    from attend_kernels.bench.sweep.candidates import name_of, sweeps
    from attend_kernels.bench.timing import Budget, cuda_clock

    budget = Budget(seconds)
    device = torch.device("cuda", torch.cuda.current_device())
    cache = torch.cuda.get_device_properties(device).L2_cache_size
    document: dict[str, Any] = {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "device": machine.describe(device),
        "versions": machine.versions(),
        "sources": machine.sources(),
        "rows": [],
        "done": [],
    }
    if path.exists():
        before = report.read(path)
        for what in ("device", "versions", "sources"):
            if before[what] != document[what]:
                print(f"{path} has results of another {what}. Next: another name for --out.")
                return 1
        document |= before
    left = 0
    for sweep in sweeps(dry=False):
        if sweep.place[0] not in only:
            continue
        tiles = {name_of(values): list(values) for values in sweep.others()}
        for case in sweep.with_candidates():
            title = f"{' '.join(map(str, sweep.place))}, {case.title}"
            if title in document["done"]:
                continue
            if not budget.allows(RESERVE):
                left += 1
                continue
            print(f"{budget.spent():5.0f} s  {title}", flush=True)
            try:
                rows = run_case(case, cuda_clock, cache)
            except DeviceLostError as error:
                print(f"The device answers no more: {error}")
                return 1
            for row in rows:
                place = {"place": list(sweep.place), "tile": tiles.get(row["peer"])}
                document["rows"].append(row | place)
            document["done"].append(title)
            report.write(path, document)
    print(f"{len(document['done'])} cases in {path}, {left} left: call again with the same --out.")
    return _say(document["rows"])


def _write(path: Path) -> int:
    """Put the winners of a file of results into the tables."""
    from attend_kernels.bench import report
    from attend_kernels.bench.sweep import winners

    rows = report.read(path)["rows"]
    _say(rows)
    for written in winners.write(winners.winners(rows)):
        print(f"wrote {written}")
    print("Next: python -m attend_kernels.compiled, then the tests; COMPILED.md says what changed.")
    return 0


def _say(rows: Sequence[Any]) -> int:
    """Print the winners, and what was wrong; return 1 where something was."""
    from attend_kernels.bench.sweep import winners

    for place, (values, share) in winners.winners(rows).items():
        print(f"{' '.join(map(str, place))}: {values} takes {share:.0%} of the time")
    wrong = [row for row in rows if row["status"] == "wrong"]
    for row in wrong:
        print(f"{row['family']} {row['name']}, {row['peer']}: {row['reason']}")
    return int(bool(wrong))
