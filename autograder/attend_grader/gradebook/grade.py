"""``attend grade``: every submission of an assignment to one result, the gradebook included."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from nbformat import NotebookNode
from nbgrader.api import Gradebook

from attend_grader.checks.plain import plain
from attend_grader.gradebook import scores
from attend_grader.gradebook.database import NotKnown
from attend_grader.gradebook.directory import Course, CourseError
from attend_grader.gradebook.intake import notes_of
from attend_grader.gradebook.late import Penalties
from attend_grader.gradebook.preprocessors import not_graded, notice, write_verdicts
from attend_grader.grading import cluster, handed_in, processes, work
from attend_grader.grading.handed_in import HandedIn
from attend_grader.grading.rebuild import rebuild
from attend_grader.grading.record import Record, Store
from attend_grader.grading.work import Job
from attend_grader.sandbox import jail
from attend_grader.sandbox.folder import sweep

ROUNDS = 3
"""How often a submission that is replaced while it is graded is graded again in the same run."""


@dataclass(frozen=True)
class Event:
    """Something a display may show: a submission waits, is unchanged, or is done."""

    kind: Literal["waiting", "unchanged", "done"]
    student: str
    notebook: str
    record: Record | None = None


@dataclass(frozen=True)
class Plan:
    """What is to be graded, and what has been graded as it stands."""

    jobs: tuple[Job, ...]
    unchanged: tuple[Record, ...]
    handed: dict[tuple[str, str], HandedIn]
    released: dict[str, bytes]


def grade_assignment(
    course: Course,
    assignment: str,
    *,
    students: Sequence[str] = (),
    workers: int = 2,
    scheduler: str = "",
    force: bool = False,
    seed: int | None = None,
    unsafe: bool = False,
    show: Callable[[Event], None] = lambda event: None,
) -> list[Record]:
    """Grade all submissions of ``assignment`` that changed, and bring the gradebook up to date.

    Killed at any moment and run again, it ends in the same gradebook: a record is whole or not
    there, scores of one submission are one transaction, and what is not in the gradebook yet is
    written again.

    Args:
        course: the course directory.
        assignment: its name.
        students: grade these only; empty for all.
        workers: processes on this machine.
        scheduler: address of a Dask scheduler, to grade there instead.
        force: grade also what has been graded as it stands.
        seed: draw the same inputs for all; None: fresh ones for each submission.
        unsafe: without a jail.
        show: called with what happens, as it happens.

    Returns:
        one record for each submission, in the order of students.

    Raises:
        CourseError: the course directory does not allow it.
        ClusterError: the scheduler's workers cannot grade.
        SandboxMissing: submissions cannot be run safely here.
    """
    if not unsafe and not scheduler:
        jail.available()
    course.release(assignment)  # before anything is written for an assignment that is none
    penalties = Penalties(course.config, course.root)
    store = Store(course.records / assignment)
    sweep()
    with _alone(store, assignment), course.gradebook() as gradebook:
        plan = planned(course, assignment, students, force=force, seed=seed, unsafe=unsafe)
        for record in plan.unchanged:
            show(Event("unchanged", record.student, record.notebook, record))
        for job in plan.jobs:
            show(Event("waiting", job.record.student, job.record.notebook))
        records = list(plan.unchanged)
        known = scores.held(gradebook, assignment)
        for record in plan.unchanged:
            handed = plan.handed[record.student, record.notebook]
            there = known.get((record.student, record.notebook))
            if there != (record.score, handed.timestamp) or not course.is_saved(record):
                _merge(course, gradebook, plan, record, penalties)
        course.renew_penalties(gradebook, assignment, penalties)
        for _ in range(ROUNDS):
            changed = []
            for record in _graded(plan.jobs, workers, scheduler):
                store.put(record)
                if _merge(course, gradebook, plan, record, penalties):
                    records.append(record)
                    show(Event("done", record.student, record.notebook, record))
                else:
                    changed.append(record.student)
            if not changed:
                break
            plan = planned(course, assignment, changed, seed=seed, unsafe=unsafe)
    return sorted(records, key=lambda r: (r.student, r.notebook))


@contextmanager
def _alone(store: Store, assignment: str) -> Iterator[None]:
    try:
        with store.alone():
            yield
    except BlockingIOError:
        raise CourseError(
            f"another `attend grade {assignment}` is at work in this course: wait until it is done."
        ) from None


def _graded(jobs: Sequence[Job], workers: int, scheduler: str) -> Iterator[Record]:
    if not jobs:
        return iter(())
    if scheduler:
        return cluster.on_scheduler(jobs, scheduler)
    return processes.in_processes(jobs, workers)


def planned(
    course: Course,
    assignment: str,
    students: Sequence[str] = (),
    *,
    force: bool = False,
    seed: int | None = None,
    unsafe: bool = False,
) -> Plan:
    """What there is to grade; nothing that was handed in is run.

    Raises:
        NotKnown: there is no such assignment or student.
        CourseError: it is not released, or nobody handed anything in.
    """
    released = course.release(assignment)
    present = course.students(assignment)
    unknown = sorted(set(students) - set(present))
    if unknown:
        raise NotKnown(f"no submission of {assignment} by {', '.join(unknown)}.")
    if not present:
        lost = course.misplaced(assignment, released)
        place = f"{course.submitted('STUDENT', assignment)}/{next(iter(released))}.ipynb"
        raise CourseError(
            f"nobody has handed in {assignment}: put submissions at {place}."
            + (f" There is {named(lost)}." if lost else "")
        )
    store, limits = Store(course.records / assignment), course.limits
    noted = notes_of(course, assignment)
    jobs: list[Job] = []
    unchanged: list[Record] = []
    handed: dict[tuple[str, str], HandedIn] = {}
    for student in students or present:
        folder = course.submitted(student, assignment)
        for name, release in released.items():
            found = handed_in.read(folder, name).without_content()
            found = replace(found, flags=(*found.flags, *noted(student, found.sha256)))
            handed[student, name] = found
            record = Record(
                student=student,
                assignment=assignment,
                notebook=name,
                submission=found.sha256,
                release=hashlib.sha256(release).hexdigest(),
                seed=secrets.randbits(32) if seed is None else seed,
                problem=found.problem,
                flags=found.flags,
            )
            old = None if force else store.get(record.key)
            if old is not None and seed in (None, old.seed):
                kept = (f for f in old.flags if f not in (handed_in.UNDATED, *found.flags))
                unchanged.append(replace(old, flags=(*found.flags, *kept)))
            else:
                jobs.append(Job(record, b"", release, unsafe, limits, folder))
    return Plan(tuple(jobs), tuple(unchanged), handed, released)


def named(paths: Sequence[Path]) -> str:
    """Files as a message names them: three, and how many more."""
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ", ".join(plain(path) for path in paths[:3]) + more


def _merge(
    course: Course, gradebook: Gradebook, plan: Plan, record: Record, penalties: Penalties
) -> bool:
    """Write a record into the gradebook; False if another version has been handed in since."""
    handed = plan.handed[record.student, record.notebook]
    content = b""
    if not record.problem:
        folder = course.submitted(record.student, record.assignment)
        now = handed_in.read(folder, record.notebook)
        if now.sha256 != record.submission:
            return False
        content = now.content
    release = plan.released[record.notebook]
    copy = graded_copy(record, content, release, show_inputs=course.show_inputs)
    course.save(gradebook, record, copy, handed.timestamp, penalties)
    return True


def graded_copy(
    record: Record, content: bytes, release: bytes, *, show_inputs: bool = False
) -> NotebookNode:
    """The notebook that nbgrader's feedback and formgrader show: rebuilt, with the verdicts.

    Where nothing could be graded, it is the released one, and says why.
    """
    given = handed_in.released(release)
    lost = record.problem
    notebook, put_back = rebuild(given if lost else handed_in.submitted(content), given)
    write_verdicts(notebook, list(record.verdicts), show_inputs=show_inputs)
    if lost:
        notebook.cells.insert(0, not_graded(lost))
    elif put_back:  # what else is flagged is for the instructor
        notebook.cells.insert(0, notice(put_back))
    notebook.metadata.attend.update(
        record=record.key, seed=record.seed, grader_version=record.version
    )
    return notebook


def replay(
    course: Course, assignment: str, student: str, exercise: str = "", *, unsafe: bool = False
) -> Record:
    """Grade one submission again with the seed of its record, and change nothing.

    Args:
        course: the course directory.
        assignment: its name.
        student: whose.
        exercise: decides which notebook, where the assignment has several.
        unsafe: without a jail.

    Raises:
        CourseError: it was not graded as it stands.
        SandboxMissing: submissions cannot be run safely here.
    """
    if not unsafe:
        jail.available()
    plan = planned(course, assignment, [student], unsafe=unsafe)
    if not plan.unchanged:
        raise CourseError(
            f"{student}'s {assignment} was not graded as it stands: run `attend grade "
            f"{assignment} --students {student}` first."
        )
    names = {f"check-{exercise}", exercise}
    chosen = [r for r in plan.unchanged if names & {verdict.name for verdict in r.verdicts}]
    old = [*chosen, plan.unchanged[0]][0]
    handed = plan.handed[student, old.notebook]
    blank = replace(old, verdicts=(), flags=handed.flags, problem=handed.problem)
    release, folder = plan.released[old.notebook], course.submitted(student, assignment)
    return work.grade(Job(blank, b"", release, unsafe, course.limits, folder).loaded())
