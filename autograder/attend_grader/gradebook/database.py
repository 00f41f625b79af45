"""What a gradebook's database may refuse, said in a sentence."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from nbgrader.api import Gradebook, InvalidEntry
from sqlalchemy.exc import SAWarning, SQLAlchemyError
from tornado.log import app_log


class CourseError(RuntimeError):
    """The course directory does not allow what was asked; one sentence says what to do."""

    exit_code = 1
    """What a command ends with."""


class NotKnown(CourseError):
    """Unknown assignment or student."""

    exit_code = 2


@contextmanager
def written(gradebook: Gradebook) -> Iterator[None]:
    """Write to the gradebook: all that is written within, or nothing.

    Raises:
        CourseError: it cannot be written.
    """
    try:
        with warnings.catch_warnings(), without_nbgraders_log():
            warnings.simplefilter("ignore", SAWarning)  # nbgrader's own queries cause them
            yield
    except (SQLAlchemyError, InvalidEntry) as error:
        gradebook.db.rollback()
        raise CourseError(
            f"the gradebook cannot be written: {first_line(error)}. What is graded is kept: "
            "run the same command again to go on."
        ) from None


@contextmanager
def without_nbgraders_log() -> Iterator[None]:
    """For nbgrader, which logs a traceback of what it raises besides."""

    def other(entry: logging.LogRecord) -> bool:
        return not entry.getMessage().startswith("Rolling back session due to database error")

    app_log.addFilter(other)
    try:
        yield
    finally:
        app_log.removeFilter(other)


def first_line(error: Exception) -> str:
    """What a database said, without the name of the driver's class before it."""
    line = str(error.args[0] if error.args else error).strip().split("\n")[0]
    return re.sub(r"^\(\w+(\.\w+)+\) ", "", line)[:300]
