"""What a learner has done so far, chapter by chapter, for the start page and the terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from attend_grader import progress as store
from attend_grader.chapters import INDEX

from attend.curriculum import title
from attend.errors import AttendError

BAR = 5
"""Characters of a bar of text."""


@dataclass(frozen=True)
class Row:
    """One exercise: the best score so far, or None where no check was run."""

    chapter: str
    name: str
    score: float | None
    points: float
    hints: int
    solution_shown: bool

    @property
    def state(self) -> str:
        """The state in words: colour is never the only sign."""
        if self.score is None:
            return "not started"
        return "done" if self.score >= self.points else "begun"


@dataclass(frozen=True)
class Part:
    """One chapter's exercises."""

    id: str
    rows: tuple[Row, ...]

    @property
    def done(self) -> int:
        """Exercises with full marks."""
        return sum(row.state == "done" for row in self.rows)

    @property
    def begun(self) -> bool:
        """Whether a check was run, a hint taken or a solution looked at."""
        return any(row.score is not None or row.hints or row.solution_shown for row in self.rows)

    @property
    def next(self) -> Row | None:
        """The first exercise that is not done."""
        return next((row for row in self.rows if row.state != "done"), None)

    @property
    def bar(self) -> str:
        """Points as a bar of text, which every viewer shows: ``▰▰▱▱▱``."""
        earned = sum(row.score or 0 for row in self.rows)
        full = int(BAR * earned / max(sum(row.points for row in self.rows), 1))
        full = max(full, 1) if earned else 0
        return "▰" * full + "▱" * (BAR - full)

    @property
    def said(self) -> str:
        """``3 of 7``: what is done, in words."""
        return f"{self.done} of {len(self.rows)}"


class Progress:
    """What is done; a notebook shows it as HTML, a terminal as text."""

    def __init__(self, rows: list[Row], latest: str | None = None) -> None:
        """Keep the rows, in the course's order.

        Args:
            rows: one for each exercise.
            latest: the chapter that was worked on last, if that is known.
        """
        self.rows = rows
        grouped = groupby(rows, key=lambda row: row.chapter)
        self.parts = {chapter: Part(chapter, tuple(some)) for chapter, some in grouped}
        self.latest = latest

    @property
    def summary(self) -> str:
        """One sentence: exercises done and points earned."""
        done = sum(part.done for part in self.parts.values())
        earned = sum(row.score or 0 for row in self.rows)
        points = sum(row.points for row in self.rows)
        return f"{done} of {len(self.rows)} exercises done, {earned:g} of {points:g} points."

    @property
    def to_continue(self) -> Part | None:
        """Where to go on: the latest chapter, or else the first that is begun and not done."""
        begun = [part for part in self.parts.values() if part.begun and part.next]
        latest = [part for part in begun if part.id == self.latest]
        return next(iter(latest + begun), None)

    def __repr__(self) -> str:
        """Aligned text; the exercises of chapters that were begun."""
        rows = [row for part in self.parts.values() if part.begun for row in part.rows]
        width = max((len(row.name) for row in rows), default=0)
        lines = [self.summary]
        for part in self.parts.values():
            lines.append(f"{part.bar}  {part.id}: {part.said} exercises done")
            for row in part.rows if part.begun else ():
                lines.append(f"    {row.name:{width}}  {_score(row):>7}  {row.state}{_help(row)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """A line a chapter, with a bar; exercises are folded below the chapter."""
        text = [f"<p>{self.summary}</p>"]
        part = self.to_continue
        if part is not None and part.next is not None:
            link = f'<a href="{part.id}.ipynb">{escape(title(part.id))}</a>'
            text.append(f"<p>Continue with {link}: next is <code>{part.next.name}</code>.</p>")
        return "".join(text) + "".join(map(_details, self.parts.values()))


def _details(part: Part) -> str:
    body = "".join(
        f"<tr><td><code>{escape(row.name)}</code></td>"
        f'<td style="text-align:right">{_score(row)}</td>'
        f'<td><progress max="{row.points:g}" value="{row.score or 0:g}" '
        f'aria-label="points for {escape(row.name)}"></progress></td>'
        f"<td>{row.state}{_help(row)}</td></tr>"
        for row in part.rows
    )
    columns = ("Exercise", "Points", "", "State")
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    earned = sum(row.score or 0 for row in part.rows)
    points = sum(row.points for row in part.rows)
    return (
        f'<details><summary><progress max="{points:g}" value="{earned:g}" '
        f'aria-label="points in chapter {escape(part.id)}"></progress> '
        f'<a href="{part.id}.ipynb">{escape(title(part.id))}</a>: {part.said} exercises done'
        f"</summary><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></details>"
    )


def show(work: Path | None = None) -> Progress:
    """Read the progress kept in a folder (None: in that of the notebook), ready to be shown.

    Raises:
        AttendError: there is no such folder.
    """
    try:
        with contextlib.chdir(work or Path()):
            return Progress(rows(store.load()["exercises"]), _latest())
    except (FileNotFoundError, NotADirectoryError):
        raise AttendError(f"There is no folder {work}: run attend lab first.") from None


def rows(records: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """One row for every exercise of the course, done or not."""
    return [
        Row(
            chapter,
            name,
            (record := records.get(f"{chapter}/{name}", {})).get("score"),
            record.get("max_score", points),
            int(record.get("hints", 0)),
            bool(record.get("solution_shown", False)),
        )
        for chapter, names in INDEX.items()
        for name, points in names.items()
    ]


def _latest() -> str | None:
    """The chapter in this folder whose notebook was saved last."""
    here = {id: Path(f"{id}.ipynb") for id in INDEX}
    saved = {id: path.stat().st_mtime for id, path in here.items() if path.is_file()}
    return max(saved, key=lambda id: saved[id], default=None)


def _score(row: Row) -> str:
    return f"{row.score or 0:g} / {row.points:g}"


def _help(row: Row) -> str:
    words = []
    if row.hints:
        words.append(f"{row.hints} hint{'s' if row.hints > 1 else ''}")
    if row.solution_shown:
        words.append("solution seen")
    return f" ({', '.join(words)})" if words else ""
