"""The name that a class's nbgrader_config.py uses for ``gradebook.preprocessors``."""

from attend_grader.gradebook.preprocessors import RebuildFromRelease, RunChecks, SubmissionReader

__all__ = ["RebuildFromRelease", "RunChecks", "SubmissionReader"]
