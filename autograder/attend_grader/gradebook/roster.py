"""A class's list from a CSV file, as Canvas, Moodle or nbgrader write it, into the gradebook.

Columns are found by their names, whatever their order. Nobody is removed, and a column that the
file lacks changes nothing.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook, MissingEntry, Student

from attend_grader.checks.plain import plain
from attend_grader.gradebook.database import CourseError, written
from attend_grader.grading.handed_in import bounded

MOST_BYTES = 32 * 2**20
"""Of the file; a line of a list has some hundred bytes."""

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": ("student_id", "username", "sis login id", "login id", "sis user id", "id number"),
    "first_name": ("first_name", "first name", "given name"),
    "last_name": ("last_name", "last name", "surname", "family name"),
    "email": ("email", "email address", "e-mail"),
    "lms_user_id": ("lms_user_id", "canvas id"),
    "whole": ("student", "name", "full name"),
}
"""What a column may be called, the first that is there counting. ``id`` alone is nbgrader's own id
in its own lists, and Canvas's number of a user where a column ``Student`` is beside it."""

NOBODY = ("possible, points", "student, test")
"""Lines of a Canvas gradebook that are no student's."""


@dataclass
class Entered:
    """What became of a list: ids that are new, changed and as they were, and lines left out."""

    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def read(path: Path) -> list[tuple[int, dict[str, str]]]:
    """The file's lines: number, and what it says of one student by the gradebook's names.

    Raises:
        CourseError: it cannot be read, or has no column of ids.
    """
    try:
        text = bounded(path, MOST_BYTES).decode("utf-8-sig")
        head = text.partition("\n")[0]
        mark = max(",;\t", key=head.count)
        rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
        names = [(name or "").strip().casefold() for name in rows.fieldnames or ()]
        rows.fieldnames = names
        found = [(rows.line_num, row) for row in rows]
    except UnicodeDecodeError:
        raise CourseError(f"{path} is not text in UTF-8: save it as CSV UTF-8.") from None
    except OSError as error:
        raise CourseError(f"{path} cannot be read: {error.strerror}.") from None
    except (csv.Error, ValueError) as error:
        raise CourseError(f"{path} cannot be read as CSV: {error}.") from None
    places = _places(names)
    if "id" not in places:
        raise CourseError(
            f"{path} has no column of ids: one of {', '.join(COLUMNS['id'])} or id is needed, got "
            f"{plain(', '.join(names)) or 'no columns'}."
        )
    return [(number, _person(row, places)) for number, row in found]


def enter(gradebook: Gradebook, lines: Sequence[tuple[int, dict[str, str]]]) -> Entered:
    """Write a list into the gradebook: all of it, or nothing.

    Raises:
        CourseError: the gradebook cannot be written.
    """
    done = Entered()
    seen: dict[str, dict[str, str]] = {}
    with written(gradebook):
        for number, person in lines:
            who = person.pop("id", "")
            problem = _problem(who, person, seen)
            if problem is not None:
                if problem:
                    done.left_out.append(f"line {number}: {problem}")
                continue
            seen[who] = person
            kind = _enter(gradebook, who, person)
            getattr(done, kind).append(who)
        gradebook.db.commit()
    return done


def _enter(gradebook: Gradebook, who: str, person: Mapping[str, str]) -> str:
    """Add or change one student; which list of :class:`Entered` they go into."""
    try:
        known: Any = gradebook.find_student(who)
    except MissingEntry:
        gradebook.db.add(Student(id=who, **person))
        return "new"
    changes = {name: value for name, value in person.items() if getattr(known, name) != value}
    for name, value in changes.items():
        setattr(known, name, value)
    return "changed" if changes else "unchanged"


def _problem(who: str, person: Mapping[str, str], seen: Mapping[str, Any]) -> str | None:
    """Why a line is left out: "" where it is nobody's, None where it is entered."""
    whole = f"{person.get('last_name', '')}, {person.get('first_name', '')}".strip(" ,")
    if whole.casefold() in NOBODY or not (who or whole):
        return ""
    if not who:
        return f"{plain(whole)} has no id"
    if plain(who, 200) != who or who.startswith(".") or "/" in who or "\\" in who:
        return f"the id {plain(who)} cannot be a folder's name"
    if who in seen:
        same = seen[who] == person
        return "" if same else f"{plain(who)} is there twice; the first line counts"
    return None


def _places(names: Sequence[str]) -> dict[str, str]:
    """What each of ``COLUMNS`` is called in this file, as far as it is there."""
    places = {
        kind: next(name for name in known if name in names)
        for kind, known in COLUMNS.items()
        if any(name in names for name in known)
    }
    if "id" in names:
        places["lms_user_id" if "student" in names else "id"] = "id"
    return places


def _person(row: Mapping[str, Any], places: Mapping[str, str]) -> dict[str, str]:
    """What a line says; empty cells say nothing."""
    said = {kind: str(row.get(name) or "").strip() for kind, name in places.items()}
    whole = said.pop("whole", "")
    if whole and not said.get("last_name"):
        last, comma, first = whole.partition(",")
        if not comma:
            first, _, last = whole.rpartition(" ")
        said |= {"last_name": last.strip(), "first_name": first.strip()}
    return {kind: value for kind, value in said.items() if value}
