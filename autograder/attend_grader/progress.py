"""What a learner has done: scores, hints taken, solutions looked at, time; one JSON file.

It lives in the nearest directory upwards that holds ``.attend/`` (``make lab`` makes one in
``work/``); where there is none, as when a submission is graded, it is kept in memory only.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

from attend_grader.checks.files import write_whole

PAUSE = 30 * 60
"""Seconds: whoever checks nothing for longer is taken to have done something else."""

_FILE = "progress.json"
_begun = time.time()
_memory: dict[str, Any] = {"exercises": {}}
_unsaved: dict[str, dict[str, Any]] = {}
"""Changes that could not be written to the file, by exercise."""


def home(start: Path | None = None) -> Path | None:
    """The directory that holds ``.attend/``, from ``start`` (the current directory) upwards."""
    here = (start or Path.cwd()).resolve()
    return next((d for d in (here, *here.parents) if (d / ".attend").is_dir()), None)


def load() -> dict[str, Any]:
    """All progress: ``{"exercises": {id: {"score", "max_score", "hints", "solution_shown"}}}``.

    Beside it, ``"seconds": {id: …}`` and ``"last"``, the time of the latest change.

    A file that cannot be read as such is set aside under another name, which a warning tells.
    """
    directory = home()
    if directory is None:
        return _memory
    path = directory / ".attend" / _FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        records = data["exercises"]
        if not isinstance(records, dict) or not all(isinstance(r, dict) for r in records.values()):
            raise TypeError("'exercises' is not an object of objects")
    except FileNotFoundError:
        data = {"exercises": {}}
    except OSError as error:
        _warn(f"progress cannot be read ({error}); it is kept in memory for now")
        return _memory
    except (ValueError, KeyError, TypeError) as error:
        aside = _set_aside(path)
        _warn(f"{path.name} was damaged ({error}); it is kept as {aside} and a new one begun")
        data = {"exercises": {}}
    for exercise_id, changes in _unsaved.items():
        data["exercises"].setdefault(exercise_id, {}).update(changes)
    return data


def of(exercise_id: str) -> dict[str, Any]:
    """Progress on one exercise; empty where there is none."""
    return load()["exercises"].get(exercise_id, {})


def seconds(exercise_id: str) -> float:
    """Time worked on an exercise, at least: from what was recorded before to each of its records.

    Pauses of more than half an hour do not count, nor what comes after the last check.
    """
    spent = load().get("seconds")
    value = spent.get(exercise_id, 0) if isinstance(spent, dict) else 0
    return value if isinstance(value, (int, float)) else 0.0


def record(exercise_id: str, **changes: Any) -> None:
    """Merge ``changes`` into the record of one exercise and save, atomically."""
    data = load()
    data["exercises"].setdefault(exercise_id, {}).update(changes)
    _spend(data, exercise_id)
    directory = home()
    if directory is None or data is _memory:
        return
    path = directory / ".attend" / _FILE
    try:
        write_whole(path, json.dumps(data, indent=1, sort_keys=True).encode(), shared=True)
        _unsaved.clear()
    except OSError as error:
        _unsaved.setdefault(exercise_id, {}).update(changes)
        _warn(f"progress cannot be saved ({error}); it lasts as long as this notebook runs")


def _spend(data: dict[str, Any], exercise_id: str) -> None:
    now, last, spent = time.time(), data.get("last"), data.get("seconds")
    if not isinstance(spent, dict):
        spent = data["seconds"] = {}
    since = now - max(_begun, last if isinstance(last, (int, float)) else 0)
    before = spent.get(exercise_id, 0)
    if 0 <= since <= PAUSE and isinstance(before, (int, float)):
        spent[exercise_id] = round(before + since, 1)
    data["last"] = round(now, 1)


def _set_aside(path: Path) -> str:
    number = 1
    while (aside := path.with_name(f"progress.damaged-{number}.json")).exists():
        number += 1
    try:
        os.replace(path, aside)
    except OSError:
        return path.name
    return aside.name


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=4)
