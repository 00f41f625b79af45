"""An nbgrader course directory: what is released and handed in, and its gradebook."""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import nbgrader
from alembic.script import ScriptDirectory
from nbformat import NotebookNode
from nbformat.v4 import new_notebook
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import AssignLatePenalties
from nbgrader.utils import (
    compute_checksum,
    determine_grade,
    is_grade,
    is_solution,
    is_task,
)
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError, SAWarning, SQLAlchemyError
from traitlets.config import Config
from traitlets.config.loader import ConfigFileNotFound, PyFileConfigLoader

from attend_grader.classes.record import Record, write_whole
from attend_grader.sandbox.jail import Limits

CONFIG = "nbgrader_config.py"

LOCK_SECONDS = 30
"""To wait for a gradebook that another program holds: formgrader writes for less than one."""


class CourseError(RuntimeError):
    """The course directory does not allow what was asked; one sentence says what to do."""


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
        return cls(root, config, CourseDirectory(config=config))

    @property
    def records(self) -> Path:
        """Where records are kept."""
        return self.root / ".attend" / "records"

    @property
    def limits(self) -> Limits:
        """How much a submission may use: the config's ``c.RunChecks.limits``, else the defaults.

        Raises:
            CourseError: the config names a limit there is none of.
        """
        chosen = dict(self.config.RunChecks.get("limits", {}))
        try:
            return Limits(**chosen)
        except TypeError:
            known = ", ".join(f.name for f in fields(Limits))
            raise CourseError(
                f"c.RunChecks.limits in {CONFIG} holds {', '.join(chosen)}; limits are: {known}."
            ) from None

    def release(self, assignment: str) -> dict[str, bytes]:
        """The released notebooks of an assignment, by name.

        Raises:
            CourseError: there are none.
        """
        folder = self._path(self.places.release_directory, ".", assignment)
        found = {path.stem: path.read_bytes() for path in sorted(folder.glob("*.ipynb"))}
        if found:
            return found
        source = self._path(self.places.source_directory, ".", assignment)
        if source.is_dir():
            raise CourseError(
                f"{assignment} is not released yet, and submissions are rebuilt from the released "
                f"notebook: run `nbgrader generate_assignment {assignment}` first."
            )
        known = sorted(p.name for p in source.parent.glob("*") if p.is_dir())
        listed = ", ".join(known) or "none"
        raise CourseError(f"there is no assignment {assignment!r}; this course has: {listed}.")

    def students(self, assignment: str) -> list[str]:
        """Who handed something in, sorted."""
        folder = self._path(self.places.submitted_directory, "*", assignment)
        return sorted(p.parent.name for p in folder.parent.parent.glob(f"*/{assignment}"))

    def submitted(self, student: str, assignment: str) -> Path:
        """The folder of one submission."""
        return self._path(self.places.submitted_directory, student, assignment)

    def autograded(self, student: str, assignment: str) -> Path:
        """The folder of its graded copy."""
        return self._path(self.places.autograded_directory, student, assignment)

    def gradebook(self) -> Gradebook:
        """The gradebook, to be closed.

        Raises:
            CourseError: it cannot be opened.
        """
        try:
            opened = Gradebook(self.db_url, self.places.course_id)
            made_by = opened.db.execute(text("SELECT version_num FROM alembic_version")).scalar()
        except (SQLAlchemyError, ModuleNotFoundError) as error:
            raise CourseError(f"the gradebook cannot be opened: {_first_line(error)}") from None
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
        self, gradebook: Gradebook, record: Record, notebook: NotebookNode | None, timestamp: Any
    ) -> None:
        """Write a record's scores in one transaction, then its graded copy.

        The copy, which names the record, comes last: where it is there, all is. Manual scores
        stay; nbgrader's own rules say which cells still need one.

        Raises:
            CourseError: the gradebook is locked or has no such assignment.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SAWarning)  # nbgrader's own queries cause them
                self._save_scores(gradebook, record, notebook, timestamp)
        except MissingEntry:
            raise CourseError(
                f"the gradebook does not know {record.assignment}: run `nbgrader "
                f"generate_assignment {record.assignment} --force` first."
            ) from None
        except OperationalError as error:
            gradebook.db.rollback()
            raise CourseError(
                f"the gradebook cannot be written: {_first_line(error)}. What is graded is kept: "
                "run the same command again to go on."
            ) from None
        folder = self.autograded(record.student, record.assignment)
        if notebook is None:
            shutil.rmtree(folder, ignore_errors=True)  # no stale copy of an earlier version
            return
        folder.mkdir(parents=True, exist_ok=True)
        content = nbformat.writes(notebook).encode()
        write_whole(folder / f"{record.notebook}.ipynb", content)

    def is_saved(self, record: Record) -> bool:
        """Whether :meth:`save` came to its end for this record."""
        folder = self.autograded(record.student, record.assignment)
        if record.problem:
            return not folder.exists()
        try:
            copy = (folder / f"{record.notebook}.ipynb").read_text(encoding="utf-8")
            said = json.loads(copy)["metadata"]["attend"]
            return (said["record"], said["seed"]) == (record.key, record.seed)
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return False

    def scores(self, gradebook: Gradebook, assignment: str) -> dict[tuple[str, str], float]:
        """(student, notebook) → the score that the checks gave, as the gradebook has it now.

        Raises:
            CourseError: the gradebook cannot be read.
        """
        try:
            submissions: Any = gradebook.assignment_submissions(assignment)
            return {
                (submission.student_id, book.name): sum(g.auto_score or 0 for g in book.grades)
                for submission in submissions
                for book in submission.notebooks
            }
        except MissingEntry:
            return {}
        except OperationalError as error:
            raise CourseError(f"the gradebook cannot be read: {_first_line(error)}.") from None

    def _save_scores(
        self, gradebook: Gradebook, record: Record, notebook: NotebookNode | None, timestamp: Any
    ) -> None:
        gradebook.find_notebook(record.notebook, record.assignment)
        gradebook.update_or_create_student(record.student)
        dated = {} if timestamp is None else {"timestamp": timestamp}
        gradebook.update_or_create_submission(record.assignment, record.student, **dated)
        submitted: Any = gradebook.find_submission_notebook(
            record.notebook, record.assignment, record.student
        )
        earned = {verdict.name: verdict.score for verdict in record.verdicts}
        cells = {} if notebook is None else _marked(notebook)
        for grade in submitted.grades:
            cell = cells.get(grade.name)
            if grade.name in earned:
                grade.auto_score = earned[grade.name]
            elif cell is not None and is_grade(cell):
                grade.auto_score = determine_grade(cell)[0]
            else:
                grade.auto_score = 0.0
            manual = grade.manual_score is not None or grade.auto_score is None
            grade.needs_manual_grade = manual
        for comment in submitted.comments:
            cell = cells.get(comment.name)
            empty = (
                cell is not None
                and (is_solution(cell) or is_task(cell))
                and cell.metadata.nbgrader.get("checksum") == compute_checksum(cell)
                and not is_task(cell)
            )
            comment.auto_comment = "No response." if empty else None
        gradebook.db.commit()
        ids = {name: getattr(record, name) for name in ("student", "assignment", "notebook")}
        resources: Any = {"nbgrader": {**ids, "db_url": self.db_url}}
        AssignLatePenalties(config=self.config).preprocess(new_notebook(), resources)

    def _path(self, step: str, student: str, assignment: str) -> Path:
        return Path(self.places.format_path(step, student, assignment))


def _marked(notebook: NotebookNode) -> dict[str, NotebookNode]:
    return {
        cell.metadata.nbgrader.grade_id: cell
        for cell in notebook.cells
        if cell.metadata.get("nbgrader", {}).get("grade_id")
    }


@cache
def _gradebook_version() -> str | None:
    """The version of gradebooks that the installed nbgrader makes."""
    return ScriptDirectory(str(Path(nbgrader.__file__).parent / "alembic")).get_current_head()


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:300]
