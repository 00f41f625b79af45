"""The one error a user of the ``attend`` command is meant to see, as a sentence."""

from __future__ import annotations


class AttendError(Exception):
    """Something the user can fix; its text is one clear sentence, shown without a traceback.

    Args:
        message: what failed, what was expected and what to do next.
        exit_code: what the command ends with: 1 when the work could not be done, 2 when the
            request itself was wrong (the convention of POSIX shells and of typer).
    """

    def __init__(self, message: str, exit_code: int = 1) -> None:
        """Keep the sentence and the exit code."""
        super().__init__(message)
        self.exit_code = exit_code
