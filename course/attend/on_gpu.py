"""A learner's softmax timed on a GPU, beside eager PyTorch and ``torch.compile``.

In a notebook kernels are interpreted, so this runs in a process of its own, without the
interpreter, on the text of the learner's kernel and launch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROWS, COLUMNS, RUNS, BUFFERS = 16_384, 2_048, 40, 4
"""128 MiB a tensor in float32, and several of them: more than the cache holds."""

_SCRIPT = """
import json, statistics, sys
import torch, triton, triton.language as tl
{source}
xs = [torch.randn({rows}, {columns}, device="cuda") for _ in range({buffers})]
empty = torch.empty
torch.empty = lambda *a, **k: empty(*a, **({{"device": "cuda"}} | k))
ways = {{"yours": {name}, "torch": lambda x: torch.softmax(x, -1),
         "torch.compile": torch.compile(lambda x: torch.softmax(x, -1)), "a copy": torch.clone}}
right, told = torch.softmax(xs[0], -1), {{}}
for way, function in ways.items():
    if way != "a copy":
        assert torch.allclose(function(xs[0]), right, atol=1e-5), way
    speeds = []
    for run in range({runs} + 5):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record(); function(xs[run % len(xs)]); end.record()
        torch.cuda.synchronize()
        speeds.append(2 * xs[0].nbytes / start.elapsed_time(end) / 1e6)
    speeds = sorted(speeds[5:])
    told[way] = [statistics.median(speeds), speeds[0], speeds[-1]]
print(json.dumps({{"device": torch.cuda.get_device_name(), "ways": told}}))
"""


def race_softmax(function: Callable[..., Any]) -> None:
    """Print GB/s (bytes of one reading and one writing over time): median, least and most."""
    from attend_grader.inside.kernels import whole_source

    text = _SCRIPT.format(
        source=whole_source(function), name=function.__name__, rows=ROWS, columns=COLUMNS,
        runs=RUNS, buffers=BUFFERS,
    )  # fmt: skip
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "race.py"  # Triton reads a kernel's text from its file
        path.write_text(text, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, str(path)], capture_output=True, text=True, env=environment
        )
    if done.returncode:
        print("The kernels did not run on the GPU:", (done.stderr.splitlines() or ["?"])[-1])
        return
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"{found['device']}, {ROWS:,} rows of {COLUMNS:,}, {RUNS} runs each:")
    for way, (middle, least, most) in found["ways"].items():
        print(f"  {way:14s} {middle:6.0f} GB/s (from {least:.0f} to {most:.0f})")
