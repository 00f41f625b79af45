"""Which tile the decode kernel uses, and into how many parts it splits the keys.

A tile is ROWS queries by ``block_s`` keys; ROWS is not in the table: it is the number of query rows
that share a key/value head, padded. Decoding waits for memory and computes little, so the entries
aim at bytes on their way: stages × (K and V of a tile), twice a multiprocessor.

Chosen without a GPU from the compiler's word: no register spilled, shared memory within limits (the
tests assert it). None has been timed on a GPU yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from attend_kernels.common import fallback
from attend_kernels.common.devices import architecture, padded
from attend_kernels.ops.decode.measured import MEASURED

LEAST_ROWS, MOST_ROWS = 16, 64  # 16: the least a tensor core multiplies; past 64, more programs
MOST_ROWS_FP32 = 16  # FMAs keep their operands in registers: 64 rows would spill
OCCUPANCY = 2  # programs of 16 rows a multiprocessor holds at least, by registers and shared memory
LEAST_KEYS = 256  # a part shorter than this costs more to merge than it saves; a guess, not timed
MOST_SPLITS = 128  # parts the combine kernel can hold in registers at D = 256
FULL_ENOUGH = 0.9


@dataclass(frozen=True)
class DecodeTile:
    """Keys a step, and launch settings."""

    block_s: int
    warps: int
    stages: int


# (architecture, kind of cache, padded width, at least 64). "byte" is int8 and fp8.
TABLE: dict[tuple[int, str, int], DecodeTile] = {
    (90, "half", 64): DecodeTile(128, 4, 3),
    (90, "half", 128): DecodeTile(64, 4, 3),
    (90, "half", 256): DecodeTile(32, 4, 3),
    (90, "byte", 64): DecodeTile(128, 4, 3),
    (90, "byte", 128): DecodeTile(64, 4, 3),
    (90, "byte", 256): DecodeTile(32, 4, 3),
    (90, "fp32", 64): DecodeTile(32, 4, 2),
    (90, "fp32", 128): DecodeTile(16, 4, 2),
    (90, "fp32", 256): DecodeTile(16, 4, 2),
    (80, "half", 64): DecodeTile(64, 4, 3),
    (80, "half", 128): DecodeTile(32, 4, 3),
    (80, "half", 256): DecodeTile(16, 4, 3),
    (80, "byte", 64): DecodeTile(64, 4, 3),
    (80, "byte", 128): DecodeTile(32, 4, 3),
    (80, "byte", 256): DecodeTile(16, 4, 3),
    (80, "fp32", 64): DecodeTile(32, 4, 2),
    (80, "fp32", 128): DecodeTile(32, 4, 2),
    (80, "fp32", 256): DecodeTile(32, 8, 1),  # others spill with Triton 3.6, or with a window
}
for _key, _tile in MEASURED.items():
    TABLE[_key] = DecodeTile(*_tile)
INTERPRETED = DecodeTile(32, 4, 1)
INTERPRETED_SLOTS = 8


def choose(device: torch.device, cache_dtype: torch.dtype, width: int) -> DecodeTile:
    """Pick the tile for a cache of this dtype and head dim."""
    if fallback.interpreted():
        return INTERPRETED
    kind = {1: "byte", 2: "half", 4: "fp32"}[cache_dtype.itemsize]
    return TABLE[architecture(device), kind, max(64, padded(width))]


def tile_rows(rows: int, dtype: torch.dtype) -> int:
    """Rows of a tile for ``rows`` queries of a dtype that share a key/value head: a power of 2."""
    most = MOST_ROWS_FP32 if dtype == torch.float32 else MOST_ROWS
    return min(most, max(LEAST_ROWS, 1 << max(0, rows - 1).bit_length()))


@cache
def slots(device: torch.device) -> int:
    """Programs the device is to run at once: its multiprocessors times OCCUPANCY."""
    if fallback.interpreted():
        return INTERPRETED_SLOTS
    return torch.cuda.get_device_properties(device).multi_processor_count * OCCUPANCY


def choose_splits(programs: int, keys: int, room: int) -> int:
    """Into how many parts to split the keys of every sequence.

    Without splitting there is a program for each sequence and key/value head: 8 for one sequence of
    8 heads, where an H200 has room for 264. n parts make n times as many. They run in waves of
    ``room``; a last wave that is mostly empty is time lost. The rule: the fewest parts that keep
    the waves at least 0.9 times as full as the best number of parts would. Each part has at least
    LEAST_KEYS keys. (FlashAttention's ``num_splits_heuristic`` is of this kind.)

    Args:
        programs: programs without splitting, B · G · tiles of rows.
        keys: keys of the longest sequence the cache can hold: the lengths themselves are on the
            GPU, and to ask for them would be to wait for it.
        room: programs that run at once, see ``slots``.

    >>> choose_splits(programs=8, keys=32_768, room=264)  # 8 * 30 = 240 of 264
    30
    >>> choose_splits(programs=250, keys=32_768, room=264)
    1
    """
    most = max(1, min(MOST_SPLITS, keys // LEAST_KEYS))
    if programs == 0:  # nothing to launch
        return 1
    fullness = []
    for parts in range(1, most + 1):
        waves = programs * parts / room
        fullness.append(waves / -(-programs * parts // room))
    return next(n for n, full in enumerate(fullness, 1) if full >= FULL_ENOUGH * max(fullness))
