"""Which tile each kernel of linear attention uses, and how a sequence is cut into segments.

A tile is a chunk of steps by BLOCK_E columns of the state, the warps of a program, and the stages
of its software pipeline. All D rows of the state's columns are in the registers of one program.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from attend_kernels import fallback, flash_configs

CHUNKS = (16, 32, 64)
# Without a GPU's need for parallel work there is one segment. A test may change this.
INTERPRETED_SPAN: int | None = None


@dataclass(frozen=True)
class Tile:
    """Columns of the state a program owns, and its launch settings."""

    block_e: int
    warps: int
    stages: int


# (architecture, kernel, dtype class, padded D): tile
TABLE: dict[tuple[int, str, str, int], Tile] = {}
for _architecture in (80, 90):
    for _width, _columns in ((64, 64), (128, 64), (256, 32)):
        TABLE[_architecture, "walk", "half", _width] = Tile(_columns, 4, 2)
        TABLE[_architecture, "walk", "fp32", _width] = Tile(32, 4, 1)

INTERPRETED = Tile(32, 4, 1)  # narrow: several slices show an exchanged axis
PROGRAMS_PER_PROCESSOR = 2  # so many must be there for each to hide the other's waits


def choose(kernel: str, write: torch.Tensor, value: torch.Tensor, chunk: int) -> Tile:
    """Pick the tile for ``kernel`` on these tensors."""
    if fallback.interpreted():
        tile = INTERPRETED
    else:
        kind = "fp32" if write.dtype == torch.float32 else "half"
        width = max(64, flash_configs.padded(write.shape[-1]))
        tile = TABLE[flash_configs.architecture(write.device), kernel, kind, width]
    return Tile(min(tile.block_e, flash_configs.padded(value.shape[-1])), tile.warps, tile.stages)


def span(write: torch.Tensor, value: torch.Tensor, chunk: int) -> int:
    """Steps a segment: all of them, unless that leaves processors of the GPU without work.

    A multiple of every chunk: a segment's first pass costs a quarter of the walk, so none is short.
    """
    B, H, T = write.shape[:3]  # noqa: N806  # axis letters
    if fallback.interpreted():
        return INTERPRETED_SPAN or max(T, 1)
    slices = -(-value.shape[-1] // choose("walk", write, value, chunk).block_e)
    wanted = PROGRAMS_PER_PROCESSOR * processors(write.device)
    segments = max(1, wanted // max(1, B * H * slices))
    return max(1, -(-T // segments // LEAST_SPAN)) * LEAST_SPAN


LEAST_SPAN = 256


@cache
def processors(device: torch.device) -> int:
    """Count the GPU's multiprocessors."""
    return torch.cuda.get_device_properties(device).multi_processor_count
