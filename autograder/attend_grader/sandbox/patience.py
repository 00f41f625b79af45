"""How much longer things may take on a machine that is busy with other work."""

from __future__ import annotations

import os

MOST = 4.0
"""Times that a limit on wall time may grow."""


def patience() -> float:
    """How many times as long as on an idle machine everything takes, roughly; 1 to ``MOST``.

    The processes that want to run, for each processor, over the last minute: an honest answer
    that needs 2 s took 10 s, and was a TIMEOUT, where five such processes shared a processor.
    """
    if not hasattr(os, "getloadavg"):
        return 1.0
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    wanting = os.getloadavg()[0] / (processors or os.cpu_count() or 1)
    return min(max(wanting, 1.0), MOST)
