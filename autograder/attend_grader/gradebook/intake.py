"""Taking submissions from an archive of Moodle or Canvas into ``submitted/``.

Whoever cannot be told apart, and whatever cannot be read, costs that student alone and is named.
Nothing is overwritten: where a newer version takes an older one's place, the older one is moved to
``.attend/earlier/``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook

from attend_grader.checks.files import write_whole
from attend_grader.checks.plain import plain
from attend_grader.gradebook.archive import Archive, Member, Sender
from attend_grader.gradebook.directory import Course
from attend_grader.grading import handed_in

SAME_SECONDS = 2
"""Dates in zip files are of every second second."""


@dataclass
class Collected:
    """What became of an archive.

    Attributes:
        new: students whose first version it is.
        newer: students whose older version was moved away.
        unchanged: students of whom the same, or a newer version, is there already.
        notes: student → what an instructor should know.
        refused: who → why nothing was taken.
        not_known: students that the gradebook does not list; they go by their names.
    """

    new: list[str] = field(default_factory=list)
    newer: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    notes: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    not_known: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Found:
    """One student's notebook in an archive, chosen among what they handed in."""

    student: str
    sender: Sender
    member: Member
    notes: tuple[str, ...]


def collect(course: Course, assignment: str, path: Path, *, dated: bool = False) -> Collected:
    """Take the notebooks of an archive into the course directory.

    Args:
        course: the course directory.
        assignment: its name; it has to be released, as its notebook's name is asked for.
        path: the archive.
        dated: the files' dates in the archive are when they were handed in.

    Raises:
        CourseError: the archive, the assignment or the gradebook cannot be used.
    """
    notebooks = list(course.release(assignment))
    done = Collected()
    with Archive(path) as archive, course.gradebook() as gradebook:
        people = People(gradebook)
        chosen: dict[tuple[str, str], Found] = {}
        for sender, members in archive.by_sender():
            try:
                student, known = people.find(sender)
                picked = _pick(members, notebooks)
            except ValueError as error:
                done.refused[_called(sender)] = str(error)
                continue
            if not known:
                done.not_known.append(student)
            for notebook, (member, notes) in picked.items():
                found = Found(student, sender, member, notes)
                other = chosen.get((student, notebook))
                if other is not None:
                    found = _newest(other, found)
                chosen[student, notebook] = found
        kept = _kept(course, assignment)
        try:
            for (student, notebook), found in chosen.items():
                try:
                    content = archive.read(found.member)
                    place = course.submitted(student, assignment) / f"{notebook}.ipynb"
                    there = _place(course, place, found, content, done, dated)
                except ValueError as error:
                    done.refused[student] = f"{plain(found.member.file)} {error}"
                    continue
                if there and found.notes:
                    done.notes.setdefault(student, []).extend(found.notes)
                    sha256 = hashlib.sha256(content).hexdigest()
                    kept[student] = {"submission": sha256, "notes": list(found.notes)}
                elif there:
                    kept.pop(student, None)
        finally:
            _keep(course, assignment, kept)
        for name in archive.unknown:
            done.refused[plain(name)] = "its name does not say whose it is"
    done.not_known[:] = [student for student in done.not_known if student not in done.refused]
    return done


def notes_of(course: Course, assignment: str) -> Callable[[str, str], tuple[str, ...]]:
    """A function of student and SHA-256: what was noted as that version was taken in."""
    kept = _kept(course, assignment)

    def notes(student: str, sha256: str) -> tuple[str, ...]:
        known = kept.get(student, {})
        return tuple(known["notes"]) if known.get("submission") == sha256 else ()

    return notes


class People:
    """Who is meant by a name or a number in an archive, by the gradebook."""

    def __init__(self, gradebook: Gradebook) -> None:
        students: Any = gradebook.students
        self._ids: set[str] = set()
        self._by_number: dict[str, set[str]] = {}
        self._by_name: dict[str, set[str]] = {}
        self._given: dict[str, Sender] = {}
        for person in students:
            self._ids.add(person.id)
            if person.lms_user_id:
                self._by_number.setdefault(person.lms_user_id, set()).add(person.id)
            first, last = person.first_name or "", person.last_name or ""
            for name in {squeezed(first + last), squeezed(last + first), squeezed(person.id)}:
                if name:
                    self._by_name.setdefault(name, set()).add(person.id)

    def find(self, sender: Sender) -> tuple[str, bool]:
        """The id of whoever sent it, and whether the gradebook has it.

        Raises:
            ValueError: several could be meant; the message names them.
        """
        found: set[str] = set()
        if sender.system == "canvas":
            found = self._by_number.get(sender.number, set())
        found = found or self._by_name.get(squeezed(sender.name), set())
        if len(found) > 1:
            raise ValueError(
                f"could be {' or '.join(map(plain, sorted(found)))}, who have the same name: put "
                "it in that student's folder by hand"
            )
        if found:
            (student,) = found
            return student, True
        student = _as_id(sender.name) or f"{sender.system}-{sender.number}"
        other = self._given.setdefault(student, sender)
        if other != sender:  # two of one name, neither in the gradebook
            student = f"{student} {sender.number}"
        return student, False


def squeezed(name: str) -> str:
    """A name as far as systems agree on how to write it: its letters and digits alone.

    >>> squeezed("Núñez-Lee, Ann")
    'nunezleeann'
    """
    letters = unicodedata.normalize("NFKD", name.casefold())
    return "".join(c for c in letters if c.isalnum())


def _as_id(name: str) -> str:
    """A name that can be a folder's: no control characters, no dot in front."""
    return re.sub(r"‹U\+\w+›", "", plain(name, 100)).strip().lstrip(".").strip()


def _called(sender: Sender) -> str:
    return f"{plain(sender.name, 100)} ({sender.number})"


def _pick(
    members: Sequence[Member], notebooks: Sequence[str]
) -> dict[str, tuple[Member, tuple[str, ...]]]:
    """Notebook → the file to take, and what to note.

    Raises:
        ValueError: there is none, or it is unclear which.
    """
    books = [member for member in members if member.is_notebook]
    if not books:
        bad = next((m for m in members if m.problem), None)
        if bad is not None:
            raise ValueError(f"{plain(bad.file)} {bad.problem}")
        listed = ", ".join(plain(m.file, 80) for m in members[:3])
        raise ValueError(f"handed in no notebook, but {listed}")
    picked: dict[str, tuple[Member, tuple[str, ...]]] = {}
    for notebook in notebooks:
        named = [m for m in books if _is_called(m.file, notebook)]
        if named:
            first = _sorted(named)[-1]
            picked[notebook] = first, (*_left(named, first), *_late(first))
    if picked:
        return picked
    if len(notebooks) > 1 or len({m.file for m in books}) > 1:
        listed = ", ".join(sorted({plain(m.file, 80) for m in books})[:4])
        raise ValueError(f"handed in {listed}, none of them called {' or '.join(notebooks)}.ipynb")
    first = _sorted(books)[-1]
    renamed = f"Handed in as “{plain(first.file, 80)}”; taken as {notebooks[0]}.ipynb."
    return {notebooks[0]: (first, (renamed, *_left(books, first), *_late(first)))}


def _is_called(file: str, notebook: str) -> bool:
    """Whether it has the notebook's name, or that with a number that a system or browser adds."""
    return re.fullmatch(rf"{re.escape(notebook)}(-\d+| ?\(\d+\))?\.ipynb", file, re.I) is not None


def _sorted(members: Sequence[Member]) -> list[Member]:
    """By time, then as the archive has them."""
    none = datetime.min.replace(tzinfo=UTC)
    return sorted(members, key=lambda m: (m.date or none, m.order))


def _left(members: Sequence[Member], taken: Member) -> tuple[str, ...]:
    others = len(members) - 1
    if not others:
        return ()
    return (
        f"{others + 1} versions were in the archive; the newest, {plain(taken.file, 80)}"
        f"{f' of {taken.date:%Y-%m-%d %H:%M} UTC' if taken.date else ''}, was taken.",
    )


def _late(member: Member) -> tuple[str, ...]:
    return ("Marked as late by Canvas, which does not say when it was handed in.",) * member.late


def _newest(one: Found, two: Found) -> Found:
    """Of two submissions under one student's name."""
    last = _sorted([one.member, two.member])[-1]
    found, other = (two, one) if last is two.member else (one, two)
    said = f"{_called(other.sender)} handed in under this name too; the newer one was taken."
    return Found(found.student, found.sender, found.member, (*found.notes, said))


def _place(
    course: Course, path: Path, found: Found, content: bytes, done: Collected, dated: bool
) -> bool:
    """Put one notebook into its place, if it is newer than what is there; whether it is there.

    Raises:
        ValueError: it cannot be put there; one sentence says why.
    """
    student, member, folder = found.student, found.member, path.parent
    problem = handed_in.link(folder, path.name)
    if problem:
        raise ValueError(f"cannot be put in its place: {problem}")
    try:
        if os.path.lexists(path):
            if handed_in.read(folder, path.stem).content == content:
                done.unchanged.append(student)
                return True
            if not _is_newer(member, path):
                done.unchanged.append(student)
                old = "another version, as new or newer, is there already and stays"
                done.notes.setdefault(student, []).append(old)
                return False
            kept = _aside(course, path, student)
            done.newer.append(student)
            said = f"an older version was moved to {kept.relative_to(course.root)}"
            done.notes.setdefault(student, []).append(said)
        else:
            done.new.append(student)
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
        if member.date is not None:
            seconds = member.date.timestamp()
            os.utime(path, (seconds, seconds))
            if dated:
                when = f"{member.date:%Y-%m-%d %H:%M:%S} UTC"
                write_whole(folder / "timestamp.txt", when.encode())
    except OSError as error:
        raise ValueError(f"cannot be written ({error.strerror})") from None
    return True


def _aside(course: Course, path: Path, student: str) -> Path:
    """Move a version out of the way; where to."""
    when = datetime.fromtimestamp(path.lstat().st_mtime, UTC)
    folder = course.root / ".attend" / "earlier" / path.stem / student
    folder.mkdir(parents=True, exist_ok=True)
    number, kept = 1, folder / f"{when:%Y-%m-%d %H.%M.%S}.ipynb"
    while os.path.lexists(kept):
        number += 1
        kept = folder / f"{when:%Y-%m-%d %H.%M.%S} ({number}).ipynb"
    path.rename(kept)
    return kept


def _is_newer(member: Member, path: Path) -> bool:
    if member.date is None:
        return False
    return member.date.timestamp() > path.lstat().st_mtime + SAME_SECONDS


def _keep(course: Course, assignment: str, kept: Mapping[str, Any]) -> None:
    """Remember what was noted of each version; grading shows it as flags."""
    path = _file(course, assignment)
    if kept or path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(kept, ensure_ascii=False, indent=1).encode())


def _kept(course: Course, assignment: str) -> dict[str, Any]:
    try:
        kept = json.loads(_file(course, assignment).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _file(course: Course, assignment: str) -> Path:
    return course.root / ".attend" / "intake" / f"{assignment}.json"
