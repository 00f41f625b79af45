"""The one result of one submission: what was graded, by what, with which seed, and what came of it.

Records are files, named by what they depend on and put in place whole: a grader that is killed
leaves all of a record or nothing of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

from attend_grader import chapters
from attend_grader.checks.files import write_whole
from attend_grader.grading.submission import Verdict
from attend_grader.judging import version as grader
from attend_grader.judging.report import Finding, Report


@dataclass(frozen=True)
class Record:
    """What became of one submission.

    Attributes:
        student: whose it is.
        assignment: the assignment, and the notebook in it.
        notebook: the notebook's name, without its ending.
        submission: SHA-256 of what was handed in.
        release: SHA-256 of the released notebook.
        seed: drew the inputs.
        version: of the grader, for the chapter that this is; found where it is left empty.
        reason: PASSED, PARTIAL, FAILED, NOT_STARTED, INVALID, TIMEOUT, MEMORY or CRASH.
        problem: one sentence where the whole submission could not be graded.
        verdicts: one for each graded test.
        flags: what was tampered with or odd, for the instructor.
        answers: exercise → the learner's cell, and what of it is their own
            (:func:`attend_grader.grading.similar.own`); only what differs from the stub.
        seconds: wall time it took.
        peak_memory: bytes, the most that one of its processes had in use.
    """

    student: str
    assignment: str
    notebook: str
    submission: str
    release: str
    seed: int
    version: str = ""
    reason: str = "INVALID"
    problem: str = ""
    verdicts: tuple[Verdict, ...] = ()
    flags: tuple[str, ...] = ()
    answers: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    seconds: float = 0.0
    peak_memory: int = 0

    def __post_init__(self) -> None:
        """Find the version where none was given."""
        if not self.version:
            object.__setattr__(self, "version", grader.of(self.chapter))

    @property
    def chapter(self) -> str:
        """The chapter that it answers; empty where there is none of that name."""
        return chapters.first_known(self.notebook, self.assignment)

    @property
    def score(self) -> float:
        """Points earned."""
        return sum(verdict.score for verdict in self.verdicts)

    @property
    def points(self) -> float:
        """Points there were."""
        return sum(verdict.points for verdict in self.verdicts)

    @property
    def key(self) -> str:
        """Names the record by the versions of what was handed in, the release and the grader."""
        parts = (self.student, self.notebook, self.submission, self.release, self.version)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    def to_json(self) -> str:
        """As text; :meth:`from_json` reads it."""
        return json.dumps(self, default=fields_of, ensure_ascii=False, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Record:
        """Read what :meth:`to_json` wrote.

        Raises:
            ValueError: it is something else.
        """
        try:
            form = json.loads(text)
            verdicts = tuple(_verdict(v) for v in form.pop("verdicts"))
            form["flags"] = tuple(form["flags"])
            answers = form.get("answers", {})
            form["answers"] = {n: (source, tuple(own)) for n, (source, own) in answers.items()}
            return cls(**form, verdicts=verdicts)
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise ValueError(f"not a record: {error}") from None


def fields_of(value: Any) -> dict[str, Any]:
    """A dataclass as JSON takes it: its fields as they are (``asdict`` copies all that is in them).

    Raises:
        TypeError: it is none.
    """
    if not is_dataclass(value):
        raise TypeError(f"{type(value).__name__} has no form in JSON")
    return {each.name: getattr(value, each.name) for each in fields(value)}


def overall(verdicts: Sequence[Verdict]) -> str:
    """One reason for the whole: what ended a process comes before what is wrong."""
    reasons = {verdict.reason for verdict in verdicts}
    for serious in ("TIMEOUT", "MEMORY", "CRASH"):
        if serious in reasons:
            return serious
    if reasons <= {"PASSED"}:
        return "PASSED"
    if reasons <= {"NOT_STARTED"}:
        return "NOT_STARTED"
    earned = any(verdict.score for verdict in verdicts)
    return "PARTIAL" if earned else "FAILED"


@dataclass(frozen=True)
class Store:
    """Records of one assignment, as files in a directory of the course."""

    directory: Path

    def get(self, key: str) -> Record | None:
        """The record with this key, if there is one and it is whole."""
        try:
            return Record.from_json((self.directory / f"{key}.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None

    def put(self, record: Record) -> None:
        """Keep a record; it is there whole or not at all."""
        self.directory.mkdir(parents=True, exist_ok=True)
        write_whole(self.directory / f"{record.key}.json", record.to_json().encode())

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep any other grader away from these records meanwhile.

        Raises:
            BlockingIOError: another one is at work.
        """
        import fcntl  # not on Windows, where there is no sandbox either

        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / ".lock").open("w") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for part in self.directory.glob(".*.part"):  # of one that was killed
                part.unlink()
            yield

    def all(self) -> Iterator[Record]:
        """Every record, in the order of students."""
        found = [self.get(path.stem) for path in self.directory.glob("*.json")]
        yield from sorted((r for r in found if r), key=lambda r: (r.student, r.key))


def _verdict(form: dict[str, Any]) -> Verdict:
    report = form["report"]
    if report is not None:
        for finding in report["findings"]:
            finding["evidence"] = tuple(map(tuple, finding["evidence"]))
        report["findings"] = tuple(Finding(**finding) for finding in report["findings"])
        report["fix_first"] = tuple(report["fix_first"])
        form["report"] = Report(**report)
    return Verdict(**form)
