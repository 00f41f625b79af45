"""Killed at any moment and run again, grading ends in the same gradebook and the same records."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = 50


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")
def test_killed_at_random_moments_nothing_is_lost(tmp_path: Path) -> None:
    """Graders, their workers and their sandboxes are killed, alone and all at once."""
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("killing.py"), tmp_path, str(KILLS), "1"],
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp"), "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result = json.loads(done.stdout)
    assert result["undisturbed"]["grades"]
    assert [r["reason"] for r in result["undisturbed"]["records"]] == [
        *("PASSED", "PARTIAL", "PARTIAL", "CRASH", "NOT_STARTED"),
    ]
    assert result["different"] == []
    assert result["left"] == [], "processes outlived their grader"
    assert all(result["kills"].values()), result["kills"]
    assert sum(result["kills"].values()) >= KILLS
