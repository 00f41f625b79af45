"""What a traced launch did, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Event:
    """Something a launch should not do, or not without knowing it.

    Attributes:
        kind: ``outside read``, ``outside write``, ``unwritten read``, ``two writers``,
            ``order`` (one program reads what another one writes in the same launch).
        buffer: which.
        programs: who; the other one second.
        count: how many elements of one access.
        first: index in the tensor of the first of them, or how many elements before (negative) or
            after the buffer's end it lies, from 0, for accesses outside; empty where it lies in a
            gap between the tensor's rows.
        last: the same of the last.
        line: the kernel's line, and its text.
        whole: nothing of that access lay inside a buffer.
    """

    kind: str
    buffer: str
    programs: list[list[int]]
    count: int
    first: list[int]
    last: list[int]
    line: int
    text: str
    whole: bool = False


@dataclass
class Launch:
    """What one launch did to memory.

    Attributes:
        kernel: its name.
        types: the run-time arguments' types as Triton names them: ``*fp32``, ``i32``.
        constants: the compile-time arguments; Triton's own types as text, ``"tl.float32"``.
        warps: a program, 0 where the launch does not say; likewise ``stages``.
        grid: programs along each axis.
        bytes_read: bytes of all loads, without masked lanes and what lies outside of buffers;
            likewise ``bytes_written``.
        sectors: sectors of 32 bytes that the accesses touched, one by one.
        accesses: how many loads and stores.
        unfilled: lines of loads that mask lanes out and name no ``other``, with their text.
        by_kernel: for the launch that came last before the call returned: of each result, whether
            its memory was written by a kernel.
        idle: programs that touched no memory.
        busiest: the bytes that the program moved that moved most.
        buffers: name → shape, elements, bytes of one, elements with the gaps, how many were
            written, how many read, how many read more than once, and between which ones none was
            written.
        events: see :class:`Event`; the first of each kind, buffer and line.
        log: where asked for, each access: program, ``"load"``, ``"store"`` or ``"atomic"``, buffer,
            its elements, counted from the buffer's first; those outside of it too.
    """

    kernel: str
    types: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    warps: int = 0
    stages: int = 0
    grid: list[int] = field(default_factory=list)
    bytes_read: int = 0
    bytes_written: int = 0
    sectors: int = 0
    accesses: int = 0
    unfilled: list[list[Any]] = field(default_factory=list)
    by_kernel: list[bool] = field(default_factory=list)
    idle: list[list[int]] = field(default_factory=list)
    busiest: int = 0
    buffers: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    log: list[list[Any]] = field(default_factory=list)
