"""What learners may share with their instructor: hints, time, solutions looked at. On request only.

``share("03_attention")`` shows it and leaves it in that cell's output, where it is saved and handed
in with the notebook; clearing the output takes it back. It is what the notebook says, and anybody
can edit that: :func:`read` takes nothing from it but numbers in a sane range, and no score depends
on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from attend_grader import chapters, progress

MEDIA_TYPE = "application/vnd.attend.progress+json"
MOST_HINTS, MOST_MINUTES = 20, 6_000
"""Nobody takes more hints in an exercise, or works on it for longer."""


@dataclass(frozen=True)
class Effort:
    """What one exercise took.

    Attributes:
        hints: how many were taken.
        minutes: time worked on it, as :func:`attend_grader.progress.seconds` counts it.
        solution_shown: whether the solution was looked at.
    """

    hints: int
    minutes: int
    solution_shown: bool

    def __str__(self) -> str:
        """In words."""
        hints = f"{self.hints or 'no'} hint{'' if self.hints == 1 else 's'}"
        seen = ", solution seen" if self.solution_shown else ""
        return f"{hints}, about {self.minutes} min{seen}"


class Sharing:
    """What is shared, as a cell's output."""

    def __init__(self, chapter_id: str, efforts: Mapping[str, Effort]) -> None:
        """Keep it; ``efforts`` are by the exercise's name."""
        self.chapter_id = chapter_id
        self.efforts = efforts

    def __repr__(self) -> str:
        """What is shared and how to take it back."""
        if not self.efforts:
            return f"Nothing to share: no exercise of {self.chapter_id} was checked here yet."
        width = max(map(len, self.efforts))
        return "\n".join(
            [
                "This output goes to your instructor when you hand in the notebook:",
                *(f"  {name:{width}}  {effort}" for name, effort in self.efforts.items()),
                "No score depends on it. To take it back, clear the output and save.",
            ]
        )

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        efforts = {name: asdict(effort) for name, effort in self.efforts.items()}
        shared = {"chapter": self.chapter_id, "exercises": efforts}
        return {"text/plain": repr(self)} | ({MEDIA_TYPE: shared} if efforts else {})


def share(chapter_id: str) -> Sharing:
    """Put your hints and time for a chapter into this cell's output, for your instructor.

    Args:
        chapter_id: such as ``"03_attention"``.

    Raises:
        ValueError: there is no such chapter.
    """
    if chapter_id not in chapters.INDEX:
        known = ", ".join(chapters.INDEX)
        raise ValueError(f"no chapter is called {chapter_id!r}; there are: {known}")
    efforts = {}
    for name in chapters.INDEX[chapter_id]:
        kept = progress.of(f"{chapter_id}/{name}")
        if kept:
            minutes = round(progress.seconds(f"{chapter_id}/{name}") / 60)
            shown = bool(kept.get("solution_shown"))
            efforts[name] = Effort(int(kept.get("hints", 0)), minutes, shown)
    return Sharing(chapter_id, efforts)


def read(notebook: bytes, chapter_id: str) -> dict[str, Effort]:
    """What a notebook that was handed in says about ``chapter_id``, by exercise; the last wins.

    What is not as :func:`share` writes it is passed over.
    """
    if MEDIA_TYPE.encode() not in notebook:
        return {}
    found: dict[str, Effort] = {}
    for shared in _shared(notebook):
        if shared.get("chapter") == chapter_id and isinstance(shared.get("exercises"), dict):
            efforts = {name: _effort(form) for name, form in shared["exercises"].items()}
            found = {name: effort for name, effort in efforts.items() if effort is not None}
    return {name: found[name] for name in chapters.INDEX.get(chapter_id, ()) if name in found}


def _shared(notebook: bytes) -> Iterator[dict[str, Any]]:
    try:
        cells = json.loads(notebook)["cells"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return
    for cell in cells if isinstance(cells, list) else ():
        outputs = cell.get("outputs") if isinstance(cell, dict) else None
        for output in outputs if isinstance(outputs, list) else ():
            data = output.get("data") if isinstance(output, dict) else None
            shared = data.get(MEDIA_TYPE) if isinstance(data, dict) else None
            if isinstance(shared, dict):
                yield shared


def _effort(form: object) -> Effort | None:
    match form:
        case {"hints": int(hints), "minutes": int(minutes), "solution_shown": bool(shown)}:
            sane = 0 <= hints <= MOST_HINTS and 0 <= minutes <= MOST_MINUTES
            return Effort(int(hints), int(minutes), shown) if sane else None
    return None
