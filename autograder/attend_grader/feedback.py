"""The name that a class's nbgrader_config.py uses for ``gradebook.feedback``."""

from attend_grader.gradebook.feedback import FeedbackPage

__all__ = ["FeedbackPage"]
