"""A jailed process's channel, with what decides points taken from the submission itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attend_grader.sandbox.warm import Child


@dataclass
class Trusting:
    """A child's channel, with what decides points read from the submission, not asked of it.

    Attributes:
        child: whose.
        definition: the source, and its first line.
        read: where the names that it uses come from; None where no cell tells, and the process's
            own answer counts.
        starved: whether a call ended for want of memory.
    """

    child: Child
    definition: tuple[str, int] | None
    read: Mapping[str, list[object]] | None
    starved: bool = False

    def request(self, message: dict[str, Any]) -> dict[str, Any]:
        """Carry a request; a description's source is our own."""
        answer = self.child.request(message)
        for each in answer.get("answers", (answer,)):
            error = each.get("error")
            if isinstance(error, dict) and "MemoryError" in error["type"]:
                self.starved = True
        if message["op"] == "describe":
            if self.read is not None:
                answer = {**answer, "origins": self.read}
            if self.definition is not None:
                source, line = self.definition
                answer = {**answer, "source": source, "first_line": line}
        return answer
