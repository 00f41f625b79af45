"""What a learner has done so far, as a table for the start page and the terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from attend_grader import progress as store
from attend_grader.chapters import INDEX

from attend.errors import AttendError


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


class Progress:
    """The table; a notebook shows it as HTML, a terminal as text."""

    def __init__(self, rows: list[Row]) -> None:
        """Keep the rows, in the course's order."""
        self.rows = rows

    @property
    def summary(self) -> str:
        """One sentence: exercises done and points earned."""
        done = sum(row.state == "done" for row in self.rows)
        earned = sum(row.score or 0 for row in self.rows)
        points = sum(row.points for row in self.rows)
        return f"{done} of {len(self.rows)} exercises done, {earned:g} of {points:g} points."

    def __repr__(self) -> str:
        """The table as aligned text."""
        width = max((len(row.name) for row in self.rows), default=0)
        lines, chapter = [self.summary], ""
        for row in self.rows:
            if row.chapter != chapter:
                chapter = row.chapter
                lines.append(chapter)
            lines.append(f"  {row.name:{width}}  {_score(row):>7}  {row.state}{_help(row)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The table as HTML, with a bar a row."""
        body = "".join(
            f"<tr><td>{escape(row.chapter)}</td><td><code>{escape(row.name)}</code></td>"
            f'<td style="text-align:right">{_score(row)}</td>'
            f'<td><progress max="{row.points:g}" value="{row.score or 0:g}" '
            f'aria-label="points for {escape(row.name)}"></progress></td>'
            f"<td>{row.state}{_help(row)}</td></tr>"
            for row in self.rows
        )
        head = "".join(
            f'<th scope="col">{title}</th>'
            for title in ("Chapter", "Exercise", "Points", "", "State")
        )
        return (
            f"<p>{self.summary}</p><table><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )


def show(work: Path | None = None) -> Progress:
    """Read the progress kept in a folder (None: in that of the notebook), ready to be shown.

    Raises:
        AttendError: there is no such folder.
    """
    try:
        with contextlib.chdir(work or Path()):
            return Progress(rows(store.load()["exercises"]))
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


def _score(row: Row) -> str:
    return f"{row.score or 0:g} / {row.points:g}"


def _help(row: Row) -> str:
    words = []
    if row.hints:
        words.append(f"{row.hints} hint{'s' if row.hints > 1 else ''}")
    if row.solution_shown:
        words.append("solution seen")
    return f" ({', '.join(words)})" if words else ""
