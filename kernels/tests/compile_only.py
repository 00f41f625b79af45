"""Compile the flash kernels in a process without Triton's interpreter, and read what came out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any


def compiled(architecture: int) -> list[dict[str, Any]]:
    """Every half-precision entry for an architecture: its case, what was made, its table row.

    Triton's own cache on disk makes a second run quick where the first one left it.
    """
    done = subprocess.run(
        [sys.executable, "-m", "attend_kernels.compiled", "--half", "--json", str(architecture)],
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
