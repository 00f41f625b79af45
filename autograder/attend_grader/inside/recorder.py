"""What a tracer keeps of each launch: every load and store, and who touched an element before."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection
from typing import Any

import numpy as np
import torch

from attend_grader.inside.kernels import plain_constant, type_name
from attend_grader.inside.launches import Event, Launch
from attend_grader.inside.memory import (
    ATOMIC,
    NO_ARGUMENT,
    NOBODY,
    SEVERAL,
    Arena,
    Buffer,
    pieces,
    unwritten,
)
from attend_grader.inside.telling import line_of, within

SECTOR = 32
"""Bytes that a GPU fetches at the least (CUDA C++ Programming Guide, device memory accesses)."""

MOST_EVENTS, MOST_UNFILLED, MOST_LOGGED = 40, 8, 20_000


class Tracer:
    """Records launches; see :func:`traced`."""

    def __init__(self, *, log: bool) -> None:
        self.launches: list[Launch] = []
        self.fresh: set[int] = set()
        self._log = log
        self._arena = Arena(self.fresh)
        self._said: set[tuple[str, str, int]] = set()
        self._program: tuple[int, int, int] = (0, 0, 0)
        self._number = 0
        self._moved: Counter[tuple[int, int, int]] = Counter()
        self._dims = (1, 1, 1)
        self._file = ""
        self._stored: set[int] = set()
        self._versions: dict[int, int] = {}
        self.options: dict[str, Any] = {}
        self.filled = False

    def to_plain(self) -> list[dict[str, Any]]:
        """The launches as plain data."""
        return [{**vars(x), "events": [vars(e) for e in x.events]} for x in self.launches]

    def begin(self, function: Any, arguments: dict[str, Any], constants: Collection[str]) -> None:
        """A launch begins, with these arguments, of which some are compile-time ones."""
        self._arena, self._said, self._moved = Arena(self.fresh), set(), Counter()
        self._file = function.__code__.co_filename
        types = {n: type_name(v) for n, v in arguments.items() if n not in constants}
        fixed = {n: plain_constant(v) for n, v in arguments.items() if n in constants}
        warps, stages = (int(self.options.get(n) or 0) for n in ("num_warps", "num_stages"))
        self.launches.append(Launch(function.__name__, types, fixed, warps, stages))

    def guard(self, name: str, value: Any) -> Any:
        """An argument of the launch, tensors moved between guard zones."""
        if isinstance(value, torch.Tensor):
            self._versions[value.untyped_storage().data_ptr()] = _version(value)
            return self._arena.moved(value, name.removesuffix("_ptr"))
        if isinstance(value, tuple):
            return tuple(self.guard(f"{name}[{i}]", item) for i, item in enumerate(value))
        return value

    def end(self) -> None:
        """The launch is over: copy results back, say what was written."""
        launch = self.launches[-1]
        launch.grid = [int(n) for n in self._dims]
        every, launched = np.ndindex(*self._dims), all(self._dims)
        idle = [list(p) for p in every if p not in self._moved] if self._moved else []
        launch.idle = idle[:MOST_EVENTS]
        launch.busiest = max(self._moved.values(), default=0)
        for buffer in self._arena.buffers:
            written = int((buffer.writer != NOBODY).sum())
            launch.buffers[buffer.name] = {
                "shape": list(buffer.shape),
                "elements": int(buffer.owned.sum()),
                "itemsize": buffer.itemsize,
                "storage": len(buffer.owned),
                "written": written,
                "read": int((buffer.reader != NOBODY).sum()),
                "again": int(buffer.again.sum()),
                "fresh": buffer.fresh,
                "never": self._never(buffer) if buffer.fresh and (written or not launched) else [],
            }
        with torch._C.DisableTorchFunction():
            self._stored |= self._arena.restore()

    def _never(self, buffer: Buffer) -> list[list[int]]:
        """Of a fresh buffer, the first and the last element that no program wrote."""
        left = np.flatnonzero(buffer.owned & (buffer.writer == NOBODY))
        return [buffer.place(int(left[0])), buffer.place(int(left[-1]))] if len(left) else []

    def at(self, x: int, y: int, z: int) -> None:
        """Program (x, y, z) runs now."""
        self._program = (x, y, z)
        self._number = (x * self._dims[1] + y) * self._dims[2] + z

    def dims(self, x: int, y: int, z: int) -> None:
        """The launch's grid."""
        self._dims = (x, y, z)

    def access(
        self, pointers: np.ndarray, mask: np.ndarray, *, store: bool, atomic: bool = False
    ) -> np.ndarray:
        """Record one access; the mask of what may be carried out.

        Args:
            pointers: addresses.
            mask: which of them are asked for.
            store: whether it writes.
            atomic: whether it is an atomic operation: reads and writes, in any order of programs.
        """
        launch, shape = self.launches[-1], np.shape(pointers)
        asked = np.asarray(mask, bool)
        if asked.shape != shape:
            asked = np.broadcast_to(asked, shape)
        asked = asked.reshape(-1)
        count = np.count_nonzero(asked)
        if not count:
            return np.asarray(mask, bool)
        addresses = np.asarray(pointers).reshape(-1).astype(np.int64)
        if count < len(asked):
            addresses = addresses[asked]
        launch.accesses += 1
        launch.sectors += pieces(addresses, SECTOR)
        self._moved[self._program] += 0  # not idle, also where nothing of it lies inside
        buffer, elements = self._arena.within(addresses)
        if buffer is not None:
            self._carried_out(buffer, elements, elements, store=store, atomic=atomic)
            return asked.reshape(shape)
        allowed, wanted = np.zeros_like(asked), np.flatnonzero(asked)
        known = np.zeros(len(wanted), bool)
        for buffer, near, elements in self._arena.split(addresses):
            known |= near
            inside = (elements >= 0) & (elements < len(buffer.owned))
            inside[inside] = buffer.owned[elements[inside]]
            if not inside.all():
                outside = elements[~inside]
                self._outside(buffer, outside, store=store, whole=len(outside) == len(wanted))
            allowed[wanted[near][inside]] = True
            self._carried_out(buffer, elements[inside], elements, store=store, atomic=atomic)
        if not known.all():
            kind = "outside write" if store else "outside read"
            self._event(kind, NO_ARGUMENT, int((~known).sum()), whole=not known.any())
        return allowed.reshape(shape)

    def _carried_out(
        self, buffer: Buffer, inside: np.ndarray, asked: np.ndarray, *, store: bool, atomic: bool
    ) -> None:
        """Count what lay inside of a buffer, and look who touched it before."""
        launch, moved = self.launches[-1], len(inside) * buffer.itemsize
        launch.bytes_written += moved * store
        launch.bytes_read += moved * (atomic or not store)
        self._moved[self._program] += moved * (1 + atomic)
        self._touch(buffer, inside, store=store, atomic=atomic)
        if self._log and len(launch.log) < MOST_LOGGED:
            kind = "atomic" if atomic else "store" if store else "load"
            launch.log.append([list(self._program), kind, buffer.name, asked.tolist()])

    def left(self, mask: np.ndarray) -> None:
        """A load without ``other``: lanes that are masked out hold anything on a GPU."""
        found, line = self.launches[-1].unfilled, list(self._line())
        if not mask.all() and line not in found and len(found) < MOST_UNFILLED:
            found.append(line)

    def returned(self, value: Any) -> None:
        """The call that launched has returned ``value``: is it as kernels wrote it?"""
        parts = value if isinstance(value, (tuple, list)) else (value,)
        if self.launches and all(isinstance(part, torch.Tensor) for part in parts):
            self.launches[-1].by_kernel = [
                (place := part.untyped_storage().data_ptr()) in self._stored
                and _version(part) <= self._versions[place]
                for part in parts[:MOST_EVENTS]
            ]

    def loaded(self, pointers: np.ndarray, allowed: np.ndarray, values: np.ndarray) -> None:
        """Look at what a load brought: has somebody written it?"""
        numbers = np.ascontiguousarray(values).reshape(-1)
        sizes = {buffer.itemsize for buffer in self._arena.buffers if buffer.fresh}
        if numbers.itemsize not in sizes or not unwritten(numbers).any():
            return
        flat = np.asarray(pointers).reshape(-1).astype(np.int64)
        live = np.flatnonzero(np.asarray(allowed).reshape(-1))
        for buffer, near, elements in self._arena.split(flat[live]):
            if not buffer.fresh or numbers.itemsize != buffer.itemsize:
                continue
            empty = unwritten(numbers[live[near]])
            empty &= buffer.writer[elements] == NOBODY
            if empty.any():
                self._say("unwritten read", buffer, elements[empty])

    def _touch(self, buffer: Buffer, elements: np.ndarray, *, store: bool, atomic: bool) -> None:
        me, others = self._number, np.False_
        writer: Any = buffer.writer[elements] if buffer.stored else NOBODY
        reader: Any = buffer.reader[elements] if buffer.loaded else NOBODY
        if buffer.stored:
            others = (writer != NOBODY) & (writer != me)
            if atomic:
                others &= writer != ATOMIC  # atomic operations of several programs are in order
            if others.any():
                kind = "two writers" if store else "order"
                self._say(kind, buffer, elements[others], int(writer[others][0]))
        if not store:
            first = reader == NOBODY
            if buffer.loaded:
                buffer.again[elements] |= ~first
            buffer.reader[elements] = np.where(first | (reader == me), me, SEVERAL)
            buffer.loaded = True
            return
        if buffer.loaded:
            read = (reader != NOBODY) & (reader != me) & ~others
            if read.any():
                self._say("order", buffer, elements[read], int(reader[read][0]))
        # what it stored plainly before is in no order with others' atomic operations
        buffer.writer[elements] = np.where(writer == me, me, ATOMIC) if atomic else me
        buffer.stored = True

    def _outside(self, buffer: Buffer, elements: np.ndarray, *, store: bool, whole: bool) -> None:
        size = len(buffer.owned)
        kind = "outside write" if store else "outside read"
        event = self._event(kind, buffer.name, len(elements), whole=whole)
        if event is not None and not ((elements >= 0) & (elements < size)).any():
            past = np.where(elements < 0, elements, elements - size)
            event.first, event.last = [int(past.min())], [int(past.max())]

    def _say(self, kind: str, buffer: Buffer, elements: np.ndarray, other: int = NOBODY) -> None:
        event = self._event(kind, buffer.name, len(elements))
        if event is None:
            return
        if other >= 0:
            event.programs.append([int(i) for i in np.unravel_index(other, self._dims)])
        event.first = buffer.place(int(elements.min()))
        event.last = buffer.place(int(elements.max()))

    def _event(self, kind: str, name: str, count: int, *, whole: bool = False) -> Event | None:
        """A new event, or None where the like was recorded of this line."""
        line, text = self._line()
        launch = self.launches[-1]
        if (kind, name, line) in self._said or len(launch.events) == MOST_EVENTS:
            return None
        self._said.add((kind, name, line))
        event = Event(kind, name, [list(self._program)], count, [], [], line, text, whole)
        launch.events.append(event)
        return event

    def _line(self) -> tuple[int, str]:
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != self._file:
            frame = frame.f_back
        if frame is None:
            return 0, ""
        return within(frame, frame.f_lineno), line_of(frame, frame.f_lineno)


def _version(tensor: Any) -> int:
    """How often torch has written to a tensor; 0 where it does not count."""
    return 0 if tensor.is_inference() else tensor._version
