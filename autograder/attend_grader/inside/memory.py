"""Buffers as a traced kernel sees them: moved between guard zones, with a record of each element.

A kernel reads and writes numbers behind bare addresses. Under the tracer each tensor lies alone,
with guard zones on both sides, so that every address belongs to one buffer; which program read or
wrote an element last is kept beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

GUARD = 1 << 16
"""Least bytes on either side of a buffer; a larger buffer has guards of its own size."""

MOST_GUARD = 1 << 24
NOBODY, SEVERAL, ATOMIC = -1, -2, -3
"""In the place of a program: none, more than one, some by atomic operations."""

NO_ARGUMENT = "memory of no argument"

_PATTERNS = {1: 0x5B, 2: 0x7FB5, 4: 0x7FB5A5B5, 8: 0x7FF5A5B5A5B5A5B5}
"""By item size: bits of fresh memory. As floats (16 to 64 bits) they are NaN."""

_WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass
class Buffer:
    """One tensor's memory during a launch.

    Attributes:
        name: the kernel's name for it, without ``_ptr``.
        shape: the tensor's.
        itemsize: bytes an element.
        start: address of the storage's first element in its place between the guards.
        owned: which elements of the storage the tensor has; False for gaps between its rows.
        writer: by element, the program that wrote it in this launch.
        reader: by element, the program that read it in this launch.
        again: which elements were read by more than one load.
        fresh: it was made by ``torch.empty`` or the like.
        stored: something was written to it in this launch.
        loaded: something was read from it in this launch.
    """

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    itemsize: int
    start: int
    owned: np.ndarray
    fresh: bool
    guard: int
    writer: np.ndarray = field(init=False)
    reader: np.ndarray = field(init=False)
    again: np.ndarray = field(init=False)
    stored: bool = False
    loaded: bool = False

    def __post_init__(self) -> None:
        self.writer = np.full(len(self.owned), NOBODY, np.int32)
        self.reader = np.full(len(self.owned), NOBODY, np.int32)
        self.again = np.zeros(len(self.owned), bool)

    def place(self, element: int) -> list[int]:
        """The index of a storage element in the tensor (for non-overlapping strides)."""
        rest, index = element - self.offset, {}
        for axis in sorted(range(len(self.shape)), key=lambda a: -self.strides[a]):
            step = self.strides[axis]
            index[axis], rest = divmod(rest, step) if step else (0, rest)
        return [int(index[axis]) for axis in range(len(self.shape))]


class Arena:
    """Copies of a launch's tensors between guard zones, and the way back."""

    def __init__(self, fresh: set[int]) -> None:
        self.buffers: list[Buffer] = []
        self._fresh = fresh
        self._moved: dict[int, tuple[torch.Tensor, torch.Tensor, int]] = {}

    def moved(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        """The same tensor in guarded memory; what shares a storage goes on sharing it."""
        storage = tensor.untyped_storage()
        key, size = storage.data_ptr(), storage.nbytes()
        item = tensor.element_size()
        guard = -(-min(max(GUARD, size), MOST_GUARD) // 256) * 256
        if key not in self._moved:
            filled = np.full(size + 2 * guard + 256, _PATTERNS[1], np.uint8)
            raw = torch.from_numpy(filled)  # torch would fill it with threads, which takes longer
            shift = -(raw.data_ptr() + guard) % 256 + guard
            original = torch.tensor((), dtype=torch.uint8).set_(storage, 0, (size,), (1,))
            raw[shift : shift + size] = original
            self._moved[key] = (original, raw, shift)
        _, raw, shift = self._moved[key]
        copy = torch.tensor((), dtype=tensor.dtype)
        offset = shift // item + tensor.storage_offset()
        copy.set_(raw.untyped_storage(), offset, tensor.size(), tensor.stride())
        known = next((b for b in self.buffers if b.start == raw.data_ptr() + shift), None)
        if known is None:
            owned = np.zeros(size // item, bool)
            self.buffers.append(
                Buffer(
                    name,
                    tuple(tensor.shape),
                    tuple(tensor.stride()),
                    int(tensor.storage_offset()),
                    item,
                    raw.data_ptr() + shift,
                    owned,
                    key in self._fresh,
                    guard,
                )
            )
            known = self.buffers[-1]
        _own(known.owned, tensor)
        return copy

    def restore(self) -> set[int]:
        """Copy everything back to where the caller's tensors are; the storages written to."""
        for original, raw, shift in self._moved.values():
            original.copy_(raw[shift : shift + len(original)])
        written = {b.start for b in self.buffers if (b.writer != NOBODY).any()}
        return {k for k, (_, raw, at) in self._moved.items() if raw.data_ptr() + at in written}

    def within(self, addresses: np.ndarray) -> tuple[Buffer | None, np.ndarray]:
        """(the buffer whose elements all the addresses are, these elements), or (None, nothing)."""
        low, high = int(np.minimum.reduce(addresses)), int(np.maximum.reduce(addresses))
        for buffer in self.buffers:
            if buffer.start <= low and high < buffer.start + len(buffer.owned) * buffer.itemsize:
                elements = (addresses - buffer.start) // buffer.itemsize
                if np.count_nonzero(buffer.owned[elements]) == len(elements):
                    return buffer, elements
        return None, addresses[:0]

    def split(self, addresses: np.ndarray) -> Iterator[tuple[Buffer, np.ndarray, np.ndarray]]:
        """(buffer, which of the addresses are near it, their elements, perhaps outside)."""
        if not len(addresses):
            return
        low, high = int(addresses.min()), int(addresses.max())
        for buffer in self.buffers:
            start = buffer.start - buffer.guard
            end = buffer.start + len(buffer.owned) * buffer.itemsize + buffer.guard
            if high < start or low >= end:
                continue
            near = (addresses >= start) & (addresses < end)
            if near.any():
                elements = (addresses[near] - buffer.start) // buffer.itemsize
                yield buffer, near, elements


def _own(owned: np.ndarray, tensor: torch.Tensor) -> None:
    if tensor.is_contiguous():
        owned[tensor.storage_offset() :][: tensor.numel()] = True
        return
    elements = np.full((), tensor.storage_offset(), np.int64)
    for length, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements = elements[..., None] + np.arange(length) * stride
    owned[elements.reshape(-1)] = True


def pieces(addresses: np.ndarray, size: int) -> int:
    """How many pieces of memory of this size (bytes, aligned) the addresses touch."""
    places = addresses // size
    steps = places[1:] - places[:-1]
    if np.minimum.reduce(steps, initial=0) == 0:  # in order, as most are
        return 1 + int(np.count_nonzero(steps))
    return len(np.unique(places))


def unwritten(values: np.ndarray) -> np.ndarray:
    """Which numbers are still the pattern of fresh memory."""
    return values.view(f"u{values.itemsize}") == _PATTERNS[values.itemsize]


_MAKERS: Sequence[tuple[Any, str]] = (
    (torch, "empty"),
    (torch, "empty_like"),
    (torch, "empty_strided"),
    (torch.Tensor, "new_empty"),
)


@contextmanager
def poisoned(fresh: set[int]) -> Iterator[None]:
    """Meanwhile, memory that ``torch.empty`` and the like make holds a pattern (NaN for floats).

    Args:
        fresh: addresses of the storages made so; filled in.
    """
    saved = [(owner, name, getattr(owner, name)) for owner, name in _MAKERS]
    alive: list[torch.Tensor] = []  # an address must not be used again meanwhile

    def poisoning(make: Any) -> Any:
        def made(*args: Any, **kwargs: Any) -> Any:
            tensor = make(*args, **kwargs)
            if tensor.device.type == "cpu" and tensor.numel() and not tensor.is_complex():
                whole = _WHOLE[tensor.element_size()]
                pattern = _PATTERNS[tensor.element_size()]
                with torch.no_grad():
                    if tensor.dtype != torch.bool:
                        tensor.view(whole).fill_(pattern)
                fresh.add(tensor.untyped_storage().data_ptr())
                alive.append(tensor)
            return tensor

        return made

    for owner, name, make in saved:
        setattr(owner, name, poisoning(make))
    try:
        yield
    finally:
        for owner, name, make in saved:
            setattr(owner, name, make)
