"""What a GPU would be asked to compile makes code, whatever sizes and options decide it.

``compiled`` has the tables' tiles with chosen argument types. Here are the types that real calls
lead to: see ``launches``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import attend_kernels
import pytest
from attend_kernels.common import fallback

if not fallback.HAS_TRITON:
    pytest.skip("Triton is not installed", allow_module_level=True)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    """What the program says of every launch, in a process without the interpreter."""
    done = subprocess.run(
        [sys.executable, "-m", "kernels.tests.launches"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"},
    )
    assert done.stdout, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.deep
def test_every_launch_makes_code(lines: list[dict[str, Any]]):
    assert [line for line in lines if "error" in line] == []
    assert all(len(line["code"]) == 16 for line in lines)


@pytest.mark.deep
def test_every_kernel_is_launched(lines: list[dict[str, Any]]):
    kernels: set[str] = set()
    for module in Path(attend_kernels.__path__[0]).rglob("*.py"):
        kernels |= set(
            re.findall(r"^@triton\.jit.*\ndef (\w+_kernel)\(", module.read_text("utf-8"), re.M)
        )
    assert kernels == {line["kernel"] for line in lines}
