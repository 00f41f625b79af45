"""Which tile each kernel of linear attention uses, and how a sequence is cut into segments.

A tile is the columns of the state (or of q and k) a program owns, the warps of a program, and the
stages of its software pipeline. All D rows of the state's columns are in the registers of one
program.

The entries were chosen without a GPU, from the compiler's word alone: with the Triton of
constraints.txt each fits its architecture's shared memory, and none spills a register
(kernels/COMPILED.md lists them, tests assert it). Widths between powers of two are filled up with
zeros. Of programs of 4 warps in half precision two fit a multiprocessor of an H200. None has been
timed on a GPU yet.

What limits them, at 255 registers a thread: the state, D × columns numbers in fp32, as many again
for the product that is added to it, and the chunk's pairs, C². 64 steps are the least that Hopper's
matrix instruction (HGMMA) takes; wide heads leave room for fewer, and use the older one (HMMA).
fp32 products are made of single FMAs, which keep their operands in registers: small tiles, and with
D > 128 they come in parts (``wide_products``). There fp32 is for checking; where speed matters,
take bf16 or narrower heads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import torch

from attend_kernels.common import devices, fallback
from attend_kernels.ops.linear_attention.measured import MEASURED

CHUNKS = (16, 32, 64)
# Without a GPU's need for parallel work there is one segment. A test may change this.
INTERPRETED_SPAN: int | None = None


@dataclass(frozen=True)
class Tile:
    """Columns a program owns, and its launch settings."""

    columns: int
    warps: int
    stages: int


# Walks over a head: without gates, with scalar gates, the same keeping states, with GLA's scores,
# and with GLA's gates on the columns; the gradient of scalar gates; GLA's scores, products and
# pairs inside chunks; the delta rule's inverse, its walk, and its walk back, and the same with a
# gate a step.
KERNELS = ("plain", "fading", "kept", "scored", "columns", "gates", "scores", "products", "pairs")
KERNELS += ("inverse", "delta", "back", "gated inverse", "gated delta", "gated back")
# (architecture, kernel, dtype class, padded D): tile; narrower heads use the entry for 64
TABLE: dict[tuple[int, str, str, int], Tile] = {}
# (architecture, dtype class, padded D): most steps of a chunk that the registers hold
STEPS: dict[tuple[int, str, int], int] = {}


def _add(architecture: int, kind: str, width: int, most: int, *tiles: tuple[int, int, int]) -> None:
    STEPS[architecture, kind, width] = most
    for kernel, tile in zip(KERNELS, tiles, strict=True):
        TABLE[architecture, kernel, kind, width] = Tile(*tile)


# Hopper (H100, H200); also used for anything newer, untested.
_add(
    90, "half", 64, 64,
    (64, 4, 3), (64, 4, 3), (64, 4, 3), (64, 4, 3), (32, 8, 3),
    (64, 4, 2), (64, 8, 2), (64, 4, 1), (32, 8, 2),
    (64, 4, 1), (64, 4, 3), (64, 4, 3),
    (64, 4, 1), (64, 4, 3), (64, 8, 3),
)  # fmt: skip
_add(
    90, "half", 128, 64,
    (64, 4, 2), (32, 4, 2), (32, 8, 2), (64, 4, 2), (32, 4, 2),
    (64, 4, 2), (64, 8, 2), (128, 4, 1), (32, 8, 2),
    (128, 8, 1), (64, 8, 3), (64, 8, 3),
    (128, 8, 1), (64, 4, 3), (32, 8, 3),
)  # fmt: skip
_add(
    90, "half", 256, 32,
    (32, 4, 2), (32, 8, 2), (32, 8, 2), (32, 4, 2), (32, 8, 2),
    (32, 8, 2), (64, 4, 2), (256, 4, 1), (64, 4, 2),
    (256, 4, 1), (64, 8, 1), (16, 8, 2),
    (256, 4, 1), (64, 8, 1), (16, 8, 2),
)  # fmt: skip
# Ampere and Ada. All fit the 99 KiB of the consumer cards (8.6, 8.9), not only the A100.
_add(
    80, "half", 64, 64,
    (32, 4, 3), (32, 8, 2), (32, 8, 2), (64, 4, 2), (32, 4, 2),
    (32, 8, 1), (64, 8, 2), (64, 4, 1), (32, 8, 2),
    (64, 4, 1), (32, 4, 3), (64, 4, 3),
    (64, 4, 1), (64, 4, 3), (16, 8, 3),
)  # fmt: skip
_add(
    80, "half", 128, 32,
    (32, 4, 3), (64, 8, 3), (64, 8, 2), (64, 4, 2), (32, 4, 2),
    (32, 4, 2), (64, 4, 2), (128, 4, 1), (64, 4, 2),
    (128, 4, 1), (32, 8, 2), (64, 4, 3),
    (128, 4, 1), (64, 4, 3), (64, 8, 3),
)  # fmt: skip
_add(
    80, "half", 256, 16,
    (64, 8, 3), (32, 8, 2), (32, 8, 2), (64, 8, 3), (32, 8, 2),
    (32, 8, 2), (64, 4, 2), (256, 4, 1), (64, 4, 2),
    (256, 4, 1), (64, 8, 2), (64, 8, 1),
    (256, 4, 1), (64, 8, 2), (32, 8, 3),
)  # fmt: skip
# fp32, the same on both.
for _architecture in (80, 90):
    _add(
        _architecture, "fp32", 64, 32,
        (16, 8, 1), (16, 8, 2), (16, 8, 1), (32, 8, 1), (32, 8, 1),
        (16, 8, 1), (32, 4, 1), (64, 4, 1), (32, 4, 1),
        (64, 4, 1), (16, 8, 1), (16, 8, 2),
        (64, 4, 1), (32, 8, 1), (16, 8, 3),
    )  # fmt: skip
    _add(
        _architecture, "fp32", 128, 16,
        (16, 8, 1), (16, 8, 1), (16, 8, 1), (16, 8, 1), (16, 8, 1),
        (32, 8, 2), (32, 4, 1), (128, 4, 1), (32, 4, 1),
        (128, 4, 1), (16, 8, 1), (16, 8, 1),
        (128, 4, 1), (16, 8, 1), (16, 8, 1),
    )  # fmt: skip
    _add(
        _architecture, "fp32", 256, 16,
        (16, 8, 1), (16, 8, 1), (16, 8, 1), (16, 8, 1), (16, 8, 1),
        (16, 8, 1), (32, 4, 1), (256, 4, 1), (32, 4, 1),
        (256, 4, 1), (16, 8, 1), (16, 8, 1),
        (256, 4, 1), (32, 8, 2), (16, 8, 1),
    )  # fmt: skip
TABLE[80, "gates", "fp32", 64] = Tile(16, 8, 2)  # the other spills where v is wider
for _key, _tile in MEASURED.items():
    TABLE[_key] = Tile(*_tile)

INTERPRETED = Tile(32, 4, 1)  # narrow: several slices show an exchanged axis
PROGRAMS_PER_PROCESSOR = 2  # so many must be there for each to hide the other's waits
LEAST_SPAN = 256


def choose(kernel: str, write: torch.Tensor, value: torch.Tensor) -> Tile:
    """Pick the tile for ``kernel`` on these tensors, whose last axes are D and D_v."""
    if fallback.interpreted():
        tile = INTERPRETED
    else:
        tile = TABLE[_where(write.device)[0], kernel, *_class(write)]
    return replace(tile, columns=min(tile.columns, devices.padded(value.shape[-1])))


def steps(k: torch.Tensor, v: torch.Tensor, chunk: int) -> int:
    """Steps of a chunk: those asked for, or as many as the registers hold for the wider of both."""
    if fallback.interpreted():
        return chunk
    wide = max(k, v, key=lambda x: x.shape[-1])
    return min(chunk, STEPS[_where(k.device)[0], *_class(wide)])


def span(kernel: str, write: torch.Tensor, value: torch.Tensor) -> int:
    """Steps a segment: all of them, unless that leaves processors of the GPU without work.

    A multiple of every chunk: a segment's first pass costs a quarter of the walk, so none is short.
    """
    B, H, T = write.shape[:3]  # noqa: N806  # axis letters
    if fallback.interpreted():
        return INTERPRETED_SPAN or max(T, 1)
    slices = -(-value.shape[-1] // choose(kernel, write, value).columns)
    wanted = PROGRAMS_PER_PROCESSOR * _where(write.device)[1]
    segments = max(1, wanted // max(1, B * H * slices))
    return max(1, -(-T // segments // LEAST_SPAN)) * LEAST_SPAN


def _class(x: torch.Tensor) -> tuple[str, int]:
    """The table's dtype class and width."""
    kind = "fp32" if x.dtype == torch.float32 else "half"
    return kind, max(64, devices.padded(x.shape[-1]))


@cache
def _where(device: torch.device) -> tuple[int, int]:
    """The table's architecture for a device, and how many multiprocessors it has."""
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    return devices.architecture(device), processors
