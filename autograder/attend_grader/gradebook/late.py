"""Late penalties, by the rule that nbgrader's settings name, in the gradebook that is open."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook
from nbgrader.preprocessors import AssignLatePenalties
from traitlets.config import Config

from attend_grader.gradebook.database import CourseError


class Penalties:
    """What nbgrader's ``AssignLatePenalties`` does, without opening the gradebook once more.

    Args:
        config: of the course.
        root: the course directory; the rule may be a module there, as for nbgrader's own commands.

    Raises:
        CourseError: the rule cannot be loaded.
    """

    def __init__(self, config: Config, root: Path) -> None:
        if str(root) not in sys.path:
            sys.path.append(str(root))
        try:
            step = AssignLatePenalties(config=config)
            self._rule: Any = step.plugin_class(parent=step)
        except Exception as error:  # it is a program of the instructor's
            named = config.AssignLatePenalties.get("plugin_class", "")
            raise CourseError(
                f"the rule for late penalties, c.AssignLatePenalties.plugin_class = {named!r}, "
                f"cannot be loaded from {root} or the installed packages: "
                f"{error.__context__ or error}"
            ) from None

    def renew(self, gradebook: Gradebook, submission: Any, book: Any) -> None:
        """Set the penalty of a submitted notebook anew, whatever it was; nothing is committed.

        Raises:
            CourseError: the rule fails.
        """
        late, penalty = submission.total_seconds_late, None
        if late > 0:
            gradebook.db.flush()
            gradebook.db.refresh(book, ["score"])
            try:
                asked = self._rule.late_submission_penalty(submission.student_id, book.score, late)
                penalty = None if asked is None else min(max(float(asked), 0.0), book.score)
            except Exception as error:  # the config is the instructor's program
                raise CourseError(
                    f"the rule for late penalties fails for {submission.student_id}: "
                    f"{type(error).__name__}: {error}"
                ) from None
        if book.late_submission_penalty != penalty:
            book.late_submission_penalty = penalty
