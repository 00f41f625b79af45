"""What the grader's tests share: functions with a source of their own; no real progress."""

import linecache
from collections.abc import Callable
from itertools import count
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from attend_grader import progress

_numbers = count()

Define = Callable[..., Any]


@pytest.fixture
def define() -> Define:
    """``define(source, name, **globals)``: run ``source`` as a notebook cell would."""

    def run(source: str, name: str, **globals_: Any) -> Any:
        text, filename = dedent(source), f"<cell {next(_numbers)}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        namespace = {"__name__": "__main__", "np": np, **globals_}
        exec(compile(text, filename, "exec"), namespace)
        return namespace[name]

    return run


@pytest.fixture(autouse=True)
def no_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work where no learner's progress lies, and begin with empty memory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress, "_memory", {"exercises": {}})
    monkeypatch.setattr(progress, "_unsaved", {})
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)


@pytest.fixture
def attend_home(tmp_path: Path) -> Path:
    """A directory whose progress is kept, as ``make lab`` makes ``work/``."""
    (tmp_path / ".attend").mkdir()
    return tmp_path
