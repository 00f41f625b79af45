"""An instructor's class: an ordinary nbgrader course directory made from the chapters.

From there on, nbgrader's own commands and JupyterLab's formgrader do the work; the config written
here only adds the course's preprocessors (:mod:`attend_grader.gradebook.preprocessors`) to them.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from attend import chapter
from attend.build import solved_notebook, to_text
from attend.errors import AttendError

DATABASES = ("sqlite", "postgresql")
DRIVERS = {"psycopg": "psycopg[binary]", "psycopg2": "psycopg2-binary"}
"""Module → the package that brings it with everything it needs."""


def init(directory: Path, chapters: list[str], db: str | None) -> None:
    """Make the course directory: all of it, or nothing.

    Args:
        directory: a new or empty directory.
        chapters: chapter ids, such as ``["03_attention"]``; empty for all that are written.
        db: the gradebook's SQLAlchemy URL; None for ``gradebook.db`` in the directory.

    Raises:
        AttendError: the directory is not empty, is a file or cannot be written; a chapter is
            unknown; the URL is not one of SQLite's or PostgreSQL's.
    """
    directory = Path(os.path.abspath(directory))
    chosen = _chosen(chapters)
    driver = None if db is None else _driver(db)
    _refuse_used(directory)
    files = {
        "nbgrader_config.py": _config(_course_id(directory), db),
        "README.md": _readme(directory.name, chosen),
    }
    print(f"Writing {', '.join(chosen)} ...", flush=True)  # 2 s a chapter, more on a slow machine
    for name in chosen:
        files[f"source/{name}/{name}.ipynb"] = to_text(solved_notebook(name))
    _write(directory, files, _course_id(directory) if db is None else None)
    print(f"Made {directory}. Its README.md has the next commands.")
    if driver:
        print(f"This gradebook needs the Python package {driver}: pip install '{driver}'")


def _chosen(chapters: list[str]) -> list[str]:
    known = chapter.chapter_ids()
    chosen = list(dict.fromkeys(name.strip() for name in chapters)) or known
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise AttendError(
            f"there is no chapter {', '.join(map(repr, unknown))}; "
            f"written so far: {', '.join(known) or 'none'}",
            2,
        )
    if not chosen:
        raise AttendError("no chapter is written yet, so there is nothing to make a class of")
    return chosen


def _driver(db: str) -> str | None:
    """The Python package that the gradebook's URL needs and that is missing here, if any.

    Raises:
        AttendError: this is no URL of a database that nbgrader can use.
    """
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    form = "sqlite:///grades.db or postgresql://user:password@host/database"
    try:
        url = make_url(db)
        if url.get_backend_name() not in DATABASES or not url.database:
            raise AttendError(f"--db: a URL like {form} is needed", 2)
        url.get_dialect().import_dbapi()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise AttendError(f"--db: this is not a database URL; it looks like {form}", 2) from None
    except ModuleNotFoundError as error:
        return DRIVERS.get(error.name or "", error.name)
    return None


def _refuse_used(directory: Path) -> None:
    if directory.is_dir():
        try:
            found = sorted(path.name for path in directory.iterdir())
        except PermissionError:
            raise AttendError(f"{directory} cannot be read: choose another directory") from None
        if found:
            more = f" and {len(found) - 5} more" if len(found) > 5 else ""
            raise AttendError(
                f"{directory} is not empty: it holds {', '.join(found[:5])}{more}. "
                "Choose a new or empty directory."
            )
    elif os.path.lexists(directory):
        raise AttendError(f"{directory} is a file: choose a new or empty directory")
    elif not directory.parent.is_dir():
        raise AttendError(f"{directory.parent} does not exist: make it first, or choose another")


def _write(directory: Path, files: dict[str, str], course_id: str | None) -> None:
    """Write everything beside its place, then move it there: an interruption leaves nothing."""
    exists = directory.is_dir()
    place = directory if exists else directory.parent
    draft = place / f".{directory.name}-{os.getpid()}"
    try:
        draft.mkdir()
    except OSError as error:
        raise AttendError(f"{place} cannot be written ({error.strerror})") from None
    try:
        for name, text in files.items():
            path = draft / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if course_id is not None:
            _gradebook(draft / "gradebook.db", course_id)
        if exists:
            for path in draft.iterdir():
                path.rename(directory / path.name)
        else:
            draft.rename(directory)
    except OSError as error:
        raise AttendError(f"{directory} could not be written ({error.strerror})") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _gradebook(path: Path, course_id: str) -> None:
    """An empty SQLite gradebook."""
    from attend_grader.gradebook.scripts import scripts_on_path
    from nbgrader.api import Gradebook

    with scripts_on_path():
        Gradebook(f"sqlite:///{path}", course_id).close()


def _course_id(directory: Path) -> str:
    """The directory's name, as far as nbgrader and its exchange can use it."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", directory.name).strip("-") or "attend"


def _config(course_id: str, db: str | None) -> str:
    url = "" if db is None else f"c.CourseDirectory.db_url = {db!r}\n"
    return f'''"""nbgrader's settings for this class. Yours to change."""

c = get_config()  # noqa: F821 (nbgrader provides it)

c.CourseDirectory.course_id = {course_id!r}
{url}
# What was handed in is read without trusting it, ...
c.Autograde.exporter_class = "attend_grader.gradebook.preprocessors.SubmissionReader"
# ... what is graded is rebuilt from the released notebook and the learner's answers, ...
c.Autograde.sanitize_preprocessors = [
    "attend_grader.gradebook.preprocessors.RebuildFromRelease",
    "nbgrader.preprocessors.ClearOutput",
    "nbgrader.preprocessors.DeduplicateIds",
    "nbgrader.preprocessors.OverwriteKernelspec",
    "nbgrader.preprocessors.OverwriteCells",
    "nbgrader.preprocessors.CheckCellMetadata",
]
# ... and run in a jail, while the checks decide outside it (this needs bubblewrap).
c.Autograde.autograde_preprocessors = [
    "attend_grader.gradebook.preprocessors.RunChecks",
    "nbgrader.preprocessors.IgnorePattern",
    "nbgrader.preprocessors.LimitOutput",
    "nbgrader.preprocessors.SaveAutoGrades",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]
# Feedback has the cards first, in one small page.
c.GenerateFeedback.exporter_class = "attend_grader.gradebook.feedback.FeedbackPage"
'''


def _readme(name: str, chapters: list[str]) -> str:
    first = chapters[0]
    listed = "\n".join(f"- `{chapter_id}`" for chapter_id in chapters)
    return f"""# {name}: a class with nbgrader

Assignments, solved, in `source/`:

{listed}

Run these here, in this directory, with the course's environment active.

| step | command |
|---|---|
| make the notebook to hand out: `release/{first}/` | `nbgrader generate_assignment {first}` |
| enter the class's list, from Canvas, Moodle or nbgrader | `attend roster list.csv` |
| put submissions at `submitted/STUDENT/{first}/{first}.ipynb` | `attend collect`, or copy them |
| grade all submissions that changed | `attend grade {first}` |
| show one verdict again, with its inputs | `attend grade {first} --replay STUDENT EXERCISE` |
| write a report on the class: `reports/{first}.html` | `attend report {first}` |
| look at it in the browser, score by hand | `jupyter lab`, then menu Nbgrader → Formgrader |
| grade one exercise again, or by hand | `attend regrade STUDENT EXERCISE --note "why"` |
| write `feedback/STUDENT/{first}/{first}.html` and a page a student | `attend feedback {first}` |
| write scores for Canvas, Moodle or LTI: `exports/` | `attend export {first} --format canvas` |
| write `grades.csv` with all assignments | `nbgrader export` |

What is graded is a copy, rebuilt from `release/` and the learner's answers: edited, deleted or
skipped test cells are put back, and the copy says so at its top. `submitted/` is never changed.

Submissions are programs. They run in a jail (bubblewrap) that sees neither this directory nor the
network, and the checks decide outside it. Without bubblewrap grading stops and says so.
`nbgrader autograde {first}` grades in the same way, more slowly.
"""
