"""Kernels launched by hand in a notebook: guarded as those under a check are, and told of.

Without this a store past the end of a tensor would write into whatever lies there, and end the
learner's process sooner or later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attend_grader.inside import tracer


def watch(tell: Callable[[dict[str, Any]], None]) -> None:
    """From now on, run every launch between guard zones; ``tell`` gets what each one did.

    Launches under a tracer of their own are left alone.

    Args:
        tell: called with a launch as plain data (:class:`attend_grader.inside.tracer.Launch`).
    """
    from triton.runtime.interpreter import GridExecutor

    before: Any = GridExecutor.__call__
    if hasattr(before, "tells"):
        before.tells = tell
        return

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if tracer.active():
            return before(self, *args, **kwargs)
        with tracer.traced() as mine:
            result = before(self, *args, **kwargs)
        for launch in mine.to_plain():
            call.tells(launch)  # type: ignore[attr-defined]
        return result

    call.tells = tell  # type: ignore[attr-defined]
    GridExecutor.__call__ = call
