"""Bounds for code that nobody has written: edits of an answer may loop or allocate without end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

MOST_LINES, MOST_MEMORY = 20_000, 2**28
"""What one call of an answer, or of an edit of it, may take: answers run hundreds of lines."""


class TooManyLines(RuntimeError):
    """A bounded function ran more lines than it may."""


@contextmanager
def bounded(function: Callable[..., Any], *, lines: int, memory: int) -> Iterator[None]:
    """Meanwhile, let ``function`` run so many lines of its own file, and take so many bytes.

    Beyond that it meets :class:`TooManyLines` or a MemoryError. Memory is bounded on Linux only.

    Args:
        function: a function or class; lines of other files are not counted.
        lines: the most that it may run.
        memory: bytes beyond what the process has mapped now.
    """
    own = vars(function).values() if isinstance(function, type) else (function,)
    codes = (getattr(member, "__code__", None) for member in own)
    files = {code.co_filename for code in codes if code is not None}
    left = lines

    def count(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal left
        del arg
        if frame.f_code.co_filename not in files:
            return None
        left -= event == "line"
        if left < 0:
            raise TooManyLines(f"more than {lines:,} lines")
        return count

    before = sys.gettrace()
    with memory_limit(memory):
        sys.settrace(count)
        try:
            yield
        finally:
            sys.settrace(before)


@contextmanager
def memory_limit(size: int) -> Iterator[None]:
    """Refuse more than ``size`` bytes beyond what is mapped now, where that can be told (Linux)."""
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[0])
    except (ImportError, OSError):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = pages * resource.getpagesize() + size
    known = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([most, *known]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
