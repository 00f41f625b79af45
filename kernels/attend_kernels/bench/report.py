"""The results file, and the Markdown made from it alone.

One results file holds ``date``, ``device``, ``versions``, ``sources``, ``ceilings``, ``budget``,
``cut``, ``aborted``, ``rows`` and ``host``. A row of status ``ok`` is one peer in one direction of
one case; ``absent``, ``failed`` and ``wrong`` rows say why there is no number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Document = Mapping[str, Any]
Row = Mapping[str, Any]
OURS = "attend"
HOST = ("median_us", "least_us", "whole_us")


def write(path: Path, document: Document) -> None:
    """Write the results file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(path)


def read(path: Path) -> Document:
    """Read a results file."""
    return json.loads(path.read_text(encoding="utf-8"))


def free_path(folder: Path, stem: str) -> Path:
    """A results file of this name that does not exist yet: a second run gets ``-2``."""
    path, number = folder / f"{stem}.json", 1
    while path.exists():
        number += 1
        path = folder / f"{stem}-{number}.json"
    return path


def floor_ms(row: Row, ceilings: Mapping[str, float]) -> float:
    """Least time the device's measured ceilings allow: for the arithmetic or for the bytes."""
    compute = row["flops"] / ceilings["matmul_tflops"] / 1e9
    bandwidth = ceilings["read_gbps" if row["family"] == "decode" else "copy_gbps"]
    return max(compute, row["bytes"] / bandwidth / 1e6)


def rate(row: Row) -> tuple[float, str]:
    """The rate a reader compares: TFLOP/s for attention, GB/s for the rest."""
    if row["family"] == "flash":
        return row["flops"] / row["median_ms"] / 1e9, "TFLOP/s"
    return row["bytes"] / row["median_ms"] / 1e6, "GB/s"


def measured(document: Document) -> list[Row]:
    """The rows that hold a number."""
    return [row for row in document["rows"] if row["status"] == "ok"]


def markdown(document: Document) -> str:
    """Every table of a results file."""
    device, ceilings = document["device"], document["ceilings"]
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    lines = [
        f"# {device['name']}, {document['date']}",
        "",
        f"Measured by `python -m attend_kernels.bench` ({versions}; sources "
        f"`{document['sources']}`) in {document['budget']['spent']:.0f} s of "
        f"{document['budget']['seconds']:.0f} s.",
        "",
        f"Ceilings in the same run: bf16 matrix product {ceilings['matmul_tflops']:.0f} TFLOP/s, "
        f"copy {ceilings['copy_gbps']:.0f} GB/s (read and written), sum "
        f"{ceilings['read_gbps']:.0f} GB/s (read): the ceiling of decoding.",
        "",
        "A cell is the median rate, ± half the distance from the fastest to the slowest fifth of "
        "the calls. `of ceiling` is the least time the ceilings allow over the time of `attend`; "
        "`best peer` is how many times faster `attend` is than the fastest other.",
    ]
    if document["aborted"]:
        lines += ["", f"**The run ended early.** {document['aborted']}"]
    for group in _groups(measured(document)):
        lines += ["", *_table(group, ceilings)]
    lines += host_table(document.get("host", ()))
    lines += _list("Without a number", [_explain(row) for row in document["rows"]])
    lines += _list("Cut for want of time", document["cut"])
    return "\n".join(lines) + "\n"


def _groups(rows: Iterable[Row]) -> list[list[Row]]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["family"], row["direction"]), []).append(row)
    return list(groups.values())


def _table(rows: list[Row], ceilings: Mapping[str, float]) -> list[str]:
    first = rows[0]
    peers = list(dict.fromkeys(row["peer"] for row in rows))
    peers.sort(key=lambda peer: peer != OURS)
    sizes = list(dict.fromkeys(key for row in rows for key in row["size"]))
    head = ["case", *sizes, *peers, "of ceiling", "best peer"]
    lines = [
        f"## {first['family']}, {first['direction']} ({rate(first)[1]})",
        "",
        "| " + " | ".join(head) + " |",
        "|---" + "|---:" * (len(head) - 1) + "|",
    ]
    cases: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        key = (row["name"], *(row["size"].get(name, "") for name in sizes))
        cases.setdefault(key, {})[row["peer"]] = row
    for key, found in cases.items():
        cells = [_cell(found[peer]) if peer in found else "–" for peer in peers]
        ours = found.get(OURS)
        others = [row["median_ms"] for peer, row in found.items() if peer != OURS]
        share = f"{floor_ms(ours, ceilings) / ours['median_ms']:.0%}" if ours else "–"
        ahead = f"{min(others) / ours['median_ms']:.2f}×" if ours and others else "–"
        lines.append("| " + " | ".join([*map(str, key), *cells, share, ahead]) + " |")
    return lines


def _cell(row: Row) -> str:
    value = rate(row)[0]
    spread = (row["high_ms"] - row["low_ms"]) / 2 / row["median_ms"]
    return f"{value:.0f} ±{spread:.0%}"


def _explain(row: Row) -> str:
    if row["status"] == "ok":
        return ""
    sizes = " ".join(f"{key}{value}" for key, value in row["size"].items())
    direction = f", {row['direction']}" if row["direction"] else ""
    return (
        f"{row['peer']} ({row['status']}) at {row['family']} {row['name']} {sizes}{direction}: "
        + (row["reason"])
    )


def host_table(rows: Iterable[Row]) -> list[str]:
    """What the CPU does a call, in µs: before the launch (median and least), and in all."""
    lines = [
        f"| {row['name']} | "
        + " | ".join("–" if row[k] is None else f"{row[k]:.1f}" for k in HOST)
        + " |"
        for row in rows
    ]
    head = ["", "## host time of a decoding step's calls (µs)", ""]
    head += [
        "| function | before the launch, median | least | with launches |",
        "|---|---:|---:|---:|",
    ]
    return [*head, *lines] if lines else []


def _list(title: str, items: Iterable[str]) -> list[str]:
    kept = [item for item in items if item]
    return ["", f"## {title}", "", *(f"- {item}" for item in kept)] if kept else []
