"""What a call costs: bytecode steps in the candidate's own code, and peak memory.

Counted, not timed: the same on every machine.
"""

from __future__ import annotations

import contextlib
import sys
import tracemalloc
import types
from collections.abc import Iterator
from typing import Any

_TRACED, _START_TRACING = tracemalloc.get_traced_memory, tracemalloc.start
"""As they are now: submitted code may put others in their place."""


def _largest_tensor() -> Any:
    """A context that notes the largest tensor as ``bytes``, where torch is in use."""
    if "torch" not in sys.modules:
        return contextlib.nullcontext()
    from attend_grader.inside.torch_memory import Largest

    return Largest()


@contextlib.contextmanager
def measured(namespace: dict[str, Any]) -> Iterator[dict[str, int]]:
    """Count bytecode steps in the candidate's own code, and peak memory in bytes.

    The peak is read before each step, so that ``tracemalloc.reset_peak`` hides nothing that was.
    Where torch is in use, it is at least the bytes of the largest tensor that is made, which
    are told apart as ``tensor_bytes``.
    """
    cost = {"steps": 0, "peak_bytes": 0, "tensor_bytes": 0}
    steps = most = 0
    traced, start_tracing = _TRACED, _START_TRACING

    def count(frame: types.FrameType, event: str, arg: Any) -> Any:
        nonlocal steps, most
        if event == "opcode":  # a hundred thousand of them: nothing but what is needed
            steps += 1
            peak = traced()[1]
            if peak > most:
                most = peak
            elif not peak:  # somebody ended it
                start_tracing()
            return count
        if frame.f_globals is not namespace:
            return None
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return count

    with _largest_tensor() as tensors:  # before memory counts: it may import a part of torch
        running = tracemalloc.is_tracing()
        if not running:
            tracemalloc.start()
        tracemalloc.reset_peak()
        start = tracemalloc.get_traced_memory()[0]
        previous = sys.gettrace()
        sys.settrace(count)
        try:
            yield cost
        finally:
            sys.settrace(previous)
            largest = getattr(tensors, "bytes", 0)
            cost["steps"], cost["tensor_bytes"] = steps, largest
            cost["peak_bytes"] = max(max(most, traced()[1]) - start, largest, 0)
            if not running:
                tracemalloc.stop()
