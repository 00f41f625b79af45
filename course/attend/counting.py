"""Counting what a NumPy function reads from slow memory and how much it keeps at once.

Seconds of NumPy say little about a GPU. Bytes can be counted anywhere.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class SlowMemory:
    """An array that lies in slow memory: each piece cut out of it counts as bytes read.

    It has ``shape``, ``dtype``, ``ndim`` and indexing. Used as a whole array (``np.asarray``, a
    matrix product) it counts as read whole.

    Attributes:
        read: bytes read so far.
    """

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim
        self.read = 0

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, place: Any) -> np.ndarray:
        piece = np.array(self._array[place])
        self.read += piece.nbytes
        return piece

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy
        self.read += self._array.nbytes
        return np.array(self._array, dtype)


def bytes_moved(function: Callable[..., Any], arrays: Sequence[np.ndarray], *sizes: int) -> int:
    """Bytes that ``function(*arrays, *sizes)`` reads of its arrays, and those of its results.

    A function that does anything else with its arrays than to index them may fail here.
    """
    slow = [SlowMemory(array) for array in arrays]
    results = function(*slow, *sizes)
    written = sum(np.asarray(result).nbytes for result in results)
    return sum(array.read for array in slow) + written


def peak_bytes(function: Callable[..., Any], *args: Any) -> int:
    """The most memory, in bytes, that a call holds at once beside its arguments.

    Counted by Python's own tracemalloc, which sees NumPy's arrays; not for use inside another
    trace.
    """
    tracemalloc.start()
    try:
        function(*args)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
