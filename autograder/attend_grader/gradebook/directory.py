"""An nbgrader course directory: what is released and handed in, and its gradebook."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cache
from glob import escape
from pathlib import Path
from typing import Any

import nbformat
import nbgrader
from alembic.script import ScriptDirectory
from nbformat import NotebookNode
from nbgrader.api import Gradebook, InvalidEntry, MissingEntry
from nbgrader.coursedir import CourseDirectory
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from traitlets import TraitError
from traitlets.config import Config
from traitlets.config.loader import ConfigFileNotFound, PyFileConfigLoader

from attend_grader.checks.files import write_whole
from attend_grader.gradebook import scores
from attend_grader.gradebook.database import (
    CourseError,
    NotKnown,
    first_line,
    without_nbgraders_log,
    written,
)
from attend_grader.gradebook.late import Penalties
from attend_grader.gradebook.scripts import scripts_on_path
from attend_grader.grading import handed_in
from attend_grader.grading.record import Record
from attend_grader.sandbox.jail import Limits

CONFIG = "nbgrader_config.py"

LOCK_SECONDS = 30
"""To wait for a gradebook that another program holds: formgrader writes for less than one."""


END = 2**16
"""Bytes at the end of a graded copy in which its metadata is."""


@dataclass(frozen=True)
class Course:
    """A course directory that has been opened."""

    root: Path
    config: Config
    places: CourseDirectory = field(repr=False)

    @classmethod
    def open(cls, root: Path) -> Course:
        """Open the course directory ``root``.

        Raises:
            CourseError: it is none.
        """
        root = root.resolve()
        try:
            config = PyFileConfigLoader(CONFIG, path=str(root)).load_config()
        except ConfigFileNotFound:
            raise CourseError(
                f"{root} is no course directory: it has no {CONFIG}. Go to the one that "
                "`attend class init` made, or name it with --course."
            ) from None
        except Exception as error:  # the config is a program of the instructor's
            raise CourseError(f"{root / CONFIG} fails: {type(error).__name__}: {error}") from None
        config.CourseDirectory.setdefault("root", str(root))
        try:
            return cls(root, config, CourseDirectory(config=config))
        except TraitError as error:
            raise CourseError(f"{root / CONFIG} cannot be used: {error}") from None

    @property
    def records(self) -> Path:
        """Where records are kept."""
        return self.root / ".attend" / "records"

    @property
    def limits(self) -> Limits:
        """How much a submission may use: the config's ``c.RunChecks.limits``, else the defaults.

        Raises:
            CourseError: the config's are none.
        """
        return limits_from(self.config.RunChecks.get("limits", {}))

    @property
    def show_inputs(self) -> bool:
        """Whether learners see the inputs their answers were checked with."""
        return bool(self.config.RunChecks.get("show_inputs", False))

    @property
    def assignments(self) -> list[str]:
        """Names of assignments that the course has, released or not."""
        steps = (self.places.source_directory, self.places.release_directory)
        folders = [self._path(step, ".", "*").parent for step in steps]
        found = {path.name for folder in folders for path in folder.glob("[!.]*") if path.is_dir()}
        return sorted(found)

    def check(self, assignment: str) -> None:
        """Check that the course has such an assignment, released or not.

        Raises:
            NotKnown: there is none; the message names those that there are.
        """
        known = self.assignments
        if assignment not in known:
            listed = ", ".join(known) or "none"
            raise NotKnown(f"there is no assignment {assignment!r}; this course has: {listed}.")

    def release(self, assignment: str) -> dict[str, bytes]:
        """The released notebooks of an assignment, by name.

        Raises:
            NotKnown: the course has no such assignment.
            CourseError: there are none, or what lies there is no notebook.
        """
        self.check(assignment)
        folder = self._path(self.places.release_directory, ".", assignment)
        found = {path.stem: path.read_bytes() for path in sorted(folder.glob("[!.]*.ipynb"))}
        if not found:
            raise CourseError(
                f"{assignment} is not released yet, and submissions are rebuilt from the released "
                f"notebook: run `nbgrader generate_assignment {assignment}` first."
            )
        for name, content in found.items():
            try:
                handed_in.released(content)
            except ValueError as error:
                raise CourseError(
                    f"{folder / name}.ipynb, from which submissions are rebuilt, cannot be used: "
                    f"{error}. Run `nbgrader generate_assignment {assignment} --force`."
                ) from None
        return found

    def students(self, assignment: str) -> list[str]:
        """Who handed something in, sorted; also whose folder cannot be looked into.

        Names that begin with a dot, and names that are not text, are left to :meth:`misplaced`.
        """
        top = self.submitted("*", assignment).parent.parent
        found = []
        for name in _listed(top):
            if name.startswith(".") or not _is_text(name):
                continue
            try:
                os.lstat(top / name / assignment)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:  # it may hold a submission: its record says that it cannot be read
                pass
            found.append(name)
        return sorted(found)

    def misplaced(self, assignment: str, notebooks: Iterable[str]) -> list[Path]:
        """Notebooks of the assignment that lie where nobody's submission is looked for, sorted.

        Such as ``submitted/STUDENT/03_attention.ipynb``, which lacks a folder, or
        ``submitted/03_attention/STUDENT/03_attention.ipynb``, with folders the wrong way round;
        and whole submissions in folders whose name begins with a dot or is not text.
        """
        top = self.submitted("*", assignment).parent.parent
        known = {*self.assignments, assignment}
        names = [f"{escape(notebook)}.ipynb" for notebook in notebooks]
        loose = {path for name in names for path in (*top.glob(name), *top.glob(f"*/{name}"))}
        deeper = {path for name in names for path in top.glob(f"*/*/{name}")}
        astray = {p for p in deeper if p.parent.name not in known}
        unnamed = {p for p in deeper if p.parts[-3].startswith(".") or not _is_text(p.parts[-3])}
        return sorted(loose | astray | unnamed)

    def submitted(self, student: str, assignment: str) -> Path:
        """The folder of one submission."""
        return self._path(self.places.submitted_directory, student, assignment)

    def autograded(self, student: str, assignment: str) -> Path:
        """The folder of its graded copy."""
        return self._path(self.places.autograded_directory, student, assignment)

    def feedback(self, student: str, assignment: str) -> Path:
        """The folder of its feedback."""
        return self._path(self.places.feedback_directory, student, assignment)

    def gradebook(self) -> Gradebook:
        """The gradebook, to be closed.

        Raises:
            CourseError: it cannot be opened.
        """
        try:
            with scripts_on_path(), without_nbgraders_log():
                opened = Gradebook(self.db_url, self.places.course_id)
            made_by = opened.db.execute(text("SELECT version_num FROM alembic_version")).scalar()
        except (SQLAlchemyError, InvalidEntry, ModuleNotFoundError) as error:
            raise CourseError(f"the gradebook cannot be opened: {first_line(error)}") from None
        except FileNotFoundError:
            raise CourseError(
                "a new gradebook needs nbgrader's command `alembic`: activate the environment that "
                "nbgrader is installed in."
            ) from None
        if made_by != _gradebook_version():
            opened.close()
            raise CourseError(
                f"the gradebook is of another version of nbgrader ({made_by}): run `nbgrader db "
                "upgrade`, which keeps a copy, or install the nbgrader that made it."
            )
        return opened

    @property
    def db_url(self) -> str:
        """The gradebook's URL; a locked SQLite file is waited for."""
        url = make_url(self.places.db_url)
        if url.get_backend_name() == "sqlite":
            url = url.update_query_dict({"timeout": str(LOCK_SECONDS)})
        return url.render_as_string(hide_password=False)

    def save(
        self,
        gradebook: Gradebook,
        record: Record,
        notebook: NotebookNode,
        timestamp: datetime | None,
        penalties: Penalties,
    ) -> None:
        """Write a record's scores in one transaction, then its graded copy.

        The copy, which names the record, comes last: where it is there, all is. Manual scores
        stay; nbgrader's own rules say which cells still need one. Feedback on an earlier version
        is removed, so that `nbgrader generate_feedback` writes it again.

        Raises:
            CourseError: the gradebook cannot be written or has no such assignment.
        """
        with written(gradebook):
            try:
                scores.save(gradebook, record, notebook, timestamp, penalties)
            except MissingEntry:
                raise CourseError(
                    f"the gradebook does not know {record.assignment}: run `nbgrader "
                    f"generate_assignment {record.assignment} --force` first."
                ) from None
        shutil.rmtree(self.feedback(record.student, record.assignment), ignore_errors=True)
        folder = self.autograded(record.student, record.assignment)
        folder.mkdir(parents=True, exist_ok=True)
        dated = folder / "timestamp.txt"  # tells nbgrader whether a submission is newer
        if timestamp is None:
            dated.unlink(missing_ok=True)
        else:
            write_whole(dated, f"{timestamp:%Y-%m-%d %H:%M:%S.%f} UTC\n".encode())
        content = nbformat.writes(notebook).encode()
        write_whole(folder / f"{record.notebook}.ipynb", content)

    def renew_penalties(self, gradebook: Gradebook, assignment: str, penalties: Penalties) -> None:
        """Bring late penalties up to date: the due date or the rule may have changed.

        Raises:
            CourseError: the gradebook cannot be written.
        """
        with written(gradebook):
            for book in scores.dated(gradebook, assignment):
                penalties.renew(gradebook, book.assignment, book)
            gradebook.db.commit()

    def is_saved(self, record: Record) -> bool:
        """Whether :meth:`save` came to its end for this record."""
        copy = self.autograded(record.student, record.assignment) / f"{record.notebook}.ipynb"
        try:
            with copy.open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(file.tell() - END, 0))
                end = file.read().decode(errors="replace")
        except FileNotFoundError:
            return False
        # nbformat sorts keys; a record's depends on the submission, which so cannot hold it
        after = end.partition(f'"record": "{record.key}",')[2]
        found = re.match(r'\s+"seed": (\d+)\b', after)
        return found is not None and int(found[1]) == record.seed

    def _path(self, step: str, student: str, assignment: str) -> Path:
        return Path(self.places.format_path(step, student, assignment))


def limits_from(chosen: Any) -> Limits:
    """Limits by name, the defaults for all others.

    Raises:
        CourseError: there is no such limit, or this is no number for one.
    """
    known = asdict(Limits())
    where = f"c.RunChecks.limits in {CONFIG}"
    if not isinstance(chosen, Mapping):
        raise CourseError(f'{where} should look like {{"cell_seconds": 60.0}}, got {chosen!r}.')
    for name, value in chosen.items():
        if name not in known:
            raise CourseError(f"{where} holds {name!r}; limits are: {', '.join(known)}.")
        if type(value) not in (int, float) or not 0 < value < float("inf"):
            raise CourseError(f"{where}: {name} should be a number above 0, got {value!r}.")
    return Limits(**{name: type(known[name])(value) for name, value in chosen.items()})


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _is_text(name: str) -> bool:
    """Whether a file's name can be written to a gradebook: it may hold bytes that are no text."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


@cache
def _gradebook_version() -> str | None:
    """The version of gradebooks that the installed nbgrader makes."""
    return ScriptDirectory(str(Path(nbgrader.__file__).parent / "alembic")).get_current_head()
