"""The command: ``python -m attend_kernels.bench``; ``--help`` says what it takes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attend_kernels.bench.case import Case

FAMILIES = ("flash", "decode", "norm", "rope", "cross_entropy", "softmax")
FAMILIES += ("linear", "selective_scan", "conv1d", "ssd")  # the recurrences
MATMUL_SIDE = 8192
HOST = 30.0  # seconds that the calls of a decoding loop take, compilations included
COPIED = 4 * 2**30  # bytes; far past any cache


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or 1 where a kernel of ours is wrong or fails."""
    options = _parse(arguments)
    if options.report:
        from attend_kernels.bench import report

        return _publish(report.read(options.report), options.report)
    import torch

    from attend_kernels.common import fallback

    if options.host:
        return _host(fallback)
    if torch.cuda.is_available() and not fallback.interpreted() and not options.work:
        return _measure(options.only, 60 * options.minutes, options.out)
    if "triton" not in sys.modules:  # else it has read the variable already
        os.environ.setdefault("TRITON_INTERPRET", "1")
    if not (fallback.HAS_TRITON and fallback.interpreted()):
        print("There is no NVIDIA GPU here, and Triton's interpreter is not installed or not on.")
        print("Nothing was checked and nothing was measured.")
        return 0
    if options.work:
        from attend_kernels.bench import work

        print(work.table(), end="")
        return 0
    return _rehearse(options.only)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m attend_kernels.bench",
        description="Check and time the kernels beside their peers. Without a GPU: check them "
        "only, at tiny sizes under Triton's interpreter.",
    )
    parser.add_argument(
        "--only", type=families_of(FAMILIES), default=FAMILIES, help=f"some of {','.join(FAMILIES)}"
    )
    parser.add_argument(
        "--minutes", type=minutes_of, default=10.0, help="time there is (default 10)"
    )
    parser.add_argument(
        "--out", type=Path, default=_results(), help="folder for the results (default: %(default)s)"
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="only make the tables of a results file"
    )
    parser.add_argument(
        "--work", action="store_true", help="only count what kernels do as T grows, interpreted"
    )
    parser.add_argument(
        "--host", action="store_true", help="only time what the CPU does before a launch: no GPU"
    )
    return parser.parse_args(arguments)


def families_of(known: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """Make a reader of names separated by commas, each of which must be known."""

    def read(text: str) -> tuple[str, ...]:
        names = tuple(name.strip() for name in text.split(","))
        for name in names:
            if name not in known:
                there = ", ".join(known)
                raise argparse.ArgumentTypeError(f"no kernel {name!r}; there are {there}")
        return names

    return read


def minutes_of(text: str) -> float:
    """Read a positive number of minutes."""
    minutes = float(text)
    if not minutes > 0:
        raise argparse.ArgumentTypeError(f"expected a positive number of minutes, got {text}")
    return minutes


def _results() -> Path:
    """The repository's folder for results; where there is none, the current directory."""
    folder = Path(__file__).parents[2] / "bench" / "results"
    return folder if folder.is_dir() else Path()


def _cases(only: Sequence[str], tiny: bool) -> list[Case]:
    from attend_kernels.bench import attention, decoding, linear, memory, scan, ssd

    makers: dict[str, Callable[[bool], list[Case]]] = {
        "flash": attention.cases,
        "decode": decoding.cases,
        "norm": memory.norm_cases,
        "rope": memory.rope_cases,
        "cross_entropy": memory.cross_entropy_cases,
        "softmax": memory.softmax_cases,
        "linear": linear.cases,
        "ssd": ssd.cases,
        "selective_scan": scan.scan_cases,
        "conv1d": scan.conv_cases,
    }
    return [case for name in only for case in makers[name](tiny)]


def _rehearse(only: Sequence[str]) -> int:
    """Check each kernel at a tiny size on the CPU, and say what that does not tell."""
    from attend_kernels.bench.runner import check_peers

    rows: list[dict[str, Any]] = []
    wrong = False
    for case in _cases(only, tiny=True):
        ready, errors = check_peers(case, case.make(0), rows)
        wrong |= not ready
        found = errors.get("attend")
        said = rows[-1]["reason"] if not ready else "right"
        if found:
            said += f" (error {found['output_error']:.0e}, gradients {found['gradient_error']:.0e})"
        print(f"{case.title}: {said}")
    print(
        "There is no NVIDIA GPU here: each kernel was checked at one tiny size, interpreted, fp32."
    )
    print("NOT measured: any speed; any peer; fp16 and bf16; any size that fills a GPU; ceilings.")
    print("No results file was written.")
    return int(wrong)


def _host(fallback: Any) -> int:
    """Print what the CPU does before each launch of a decoding step."""
    if not fallback.HAS_TRITON or fallback.interpreted():
        print("--host needs Triton, and not its interpreter: unset TRITON_INTERPRET.")
        return 1
    from attend_kernels.bench import host, report

    print("\n".join(report.host_table(host.measure())))
    return 0


def _measure(only: Sequence[str], seconds: float, out: Path) -> int:
    """Measure on the GPU and write the results file and its tables."""
    import torch

    from attend_kernels.bench import host, machine, report
    from attend_kernels.bench.runner import Results, run_all
    from attend_kernels.bench.timing import Budget, ceilings, cuda_clock

    budget = Budget(seconds)
    device = torch.device("cuda", torch.cuda.current_device())
    described = machine.describe(device)
    now = datetime.now(UTC)
    path = report.free_path(out, f"{now:%Y-%m-%d}-{machine.slug(str(described['name']))}")
    free, _ = torch.cuda.mem_get_info(device)
    limits = ceilings(cuda_clock, device, MATMUL_SIDE, min(COPIED, free // 4))
    torch.cuda.empty_cache()
    print(
        f"{described['name']}: {limits['matmul_tflops']:.0f} TFLOP/s bf16 matrix product, ", end=""
    )
    print(f"{limits['copy_gbps']:.0f} GB/s copy, {limits['read_gbps']:.0f} GB/s read", flush=True)
    results = Results()
    host_rows: list[dict[str, Any]] = []

    def document() -> dict[str, Any]:
        return {
            "date": f"{now:%Y-%m-%d %H:%M} UTC",
            "device": described,
            "versions": machine.versions(),
            "sources": machine.sources(),
            "ceilings": limits,
            "budget": {"seconds": seconds, "spent": budget.spent()},
            "cut": results.cut,
            "aborted": results.aborted,
            "rows": results.rows,
            "host": host_rows,
        }

    cache = torch.cuda.get_device_properties(device).L2_cache_size
    run_all(
        _cases(only, tiny=False),
        results,
        cuda_clock,
        budget,
        cache,
        say=lambda text: print(text, flush=True),
        save=lambda: report.write(path, document()),
    )
    if results.aborted is None and budget.allows(HOST):
        host_rows += host.measure(batches=5)
    report.write(path, document())
    return _publish(document(), path)


def _publish(document: Mapping[str, Any], path: Path) -> int:
    """Write the tables of a results file, and say what came out."""
    from attend_kernels.bench import report

    table = report.markdown(document)
    path.with_suffix(".md").write_text(table, encoding="utf-8")
    print(table)
    print(f"Results: {path}")
    ours = [r for r in document["rows"] if r["peer"] == "attend" and r["status"] != "ok"]
    return int(bool(ours) or document["aborted"] is not None)
