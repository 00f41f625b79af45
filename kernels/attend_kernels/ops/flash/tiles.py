"""Which tile each flash kernel uses: a fixed table by architecture, kernel, dtype, width, mask.

A tile is BLOCK_T queries by BLOCK_S keys, the warps of a program, and the stages of its software
pipeline (how many tiles of the loop are on their way to shared memory).

The entries were chosen without a GPU, from the compiler's word alone: with the Triton of
constraints.txt each fits its architecture's shared memory, and compiles without a spilled register
where heads are not grouped. Grouped heads were compiled after the table was set; COMPILED.md
says what they spill, and what a round of each loop costs, which ranks tiles better. What a GPU
found faster (``bench.sweep``) stands in ``measured`` and takes the entry's place. None has been
timed on a GPU yet.

What limits them, at 255 registers a thread: the forward kernel keeps BLOCK_T × D numbers of O in
fp32 and BLOCK_T × BLOCK_S scores; the dK/dV kernel 2 × BLOCK_S × D sums and twice the scores. On
Hopper a tile needs at least 64 rows for its matrix instruction (HGMMA) to be used. fp32 products
are made of single FMAs, which keep their operands in registers: hence small tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from attend_kernels.common import fallback
from attend_kernels.common.devices import architecture, padded
from attend_kernels.ops.flash.measured import MEASURED


@dataclass(frozen=True)
class Tile:
    """Block shape and launch settings of one kernel."""

    block_t: int
    block_s: int
    warps: int
    stages: int
    descriptors: bool = False  # K and V by tensor descriptors (forward, queries; sm_90)
    gluon: bool = False  # the forward kernel in Gluon where it can run (see forward.by_gluon)


# Kernels: "forward", "keys" (dK and dV), "queries" (dQ), "atomic" (all three, dQ with atomics).
# Widths are those of the padded head, the next power of two; narrower heads use the entry for 64.
# (architecture, kernel, dtype class, width): tiles by mask
TABLE: dict[tuple[int, str, str, int], dict[str, Tile]] = {}
# Only causal or not, or with a window, ALiBi, a soft cap or packed sequences: these take registers.
MASKS = ("full", "causal", "options")


def _add(architecture: int, kernel: str, kind: str, width: int, *tiles: Tile) -> None:
    """Set the tiles of the masks in order; the last one stands for those left out."""
    tiles += tiles[-1:] * (len(MASKS) - len(tiles))
    TABLE[architecture, kernel, kind, width] = dict(zip(MASKS, tiles, strict=True))


# Hopper (H100, H200); also used for anything newer, untested.
_add(90, "forward", "half", 64, Tile(128, 128, 8, 3))
_add(90, "forward", "half", 128, Tile(128, 64, 8, 3))
_add(90, "forward", "half", 256, Tile(128, 32, 8, 3))
_add(90, "keys", "half", 64, Tile(64, 128, 8, 3))
_add(90, "keys", "half", 128, *[Tile(64, 128, 8, 2)] * 2, Tile(32, 128, 8, 2))
_add(90, "keys", "half", 256, Tile(64, 32, 8, 2))  # 32 rows: HMMA; 64 keys would spill
_add(90, "queries", "half", 64, Tile(128, 64, 8, 3))
_add(90, "queries", "half", 128, Tile(128, 64, 8, 3))
_add(90, "queries", "half", 256, Tile(128, 32, 8, 2))
_add(90, "atomic", "half", 64, *[Tile(64, 128, 8, 3)] * 2, Tile(32, 128, 8, 3))
_add(90, "atomic", "half", 128, *[Tile(32, 128, 8, 2)] * 2, Tile(32, 64, 8, 2))
# Ampere and Ada. All fit the 99 KiB of the consumer cards (8.6, 8.9), not only the A100's 163 KiB.
_add(80, "forward", "half", 64, Tile(128, 64, 8, 3))
_add(80, "forward", "half", 128, *[Tile(128, 64, 8, 3)] * 2, Tile(128, 32, 8, 3))
_add(80, "forward", "half", 256, Tile(64, 32, 8, 2))
# 128 keys spill if full or with options.
_add(80, "keys", "half", 64, Tile(64, 64, 8, 2), Tile(64, 128, 8, 2), Tile(64, 64, 8, 2))
_add(80, "keys", "half", 128, Tile(64, 64, 8, 2))
_add(80, "keys", "half", 256, Tile(32, 32, 8, 1))
_add(80, "queries", "half", 64, Tile(128, 64, 8, 2))
_add(80, "queries", "half", 128, Tile(128, 32, 8, 2))
_add(80, "queries", "half", 256, Tile(64, 32, 8, 1))
_add(80, "atomic", "half", 64, Tile(32, 64, 8, 2))
_add(80, "atomic", "half", 128, Tile(16, 64, 4, 2))
# fp32, the same on both.
for _architecture in (80, 90):
    _add(_architecture, "forward", "fp32", 64, Tile(32, 32, 4, 1))
    _add(_architecture, "forward", "fp32", 128, Tile(16, 16, 4, 1))
    _add(_architecture, "forward", "fp32", 256, Tile(16, 16, 4, 1))
    _add(_architecture, "keys", "fp32", 64, Tile(32, 32, 8, 1))
    _add(_architecture, "keys", "fp32", 128, Tile(16, 16, 4, 1))
    _add(_architecture, "keys", "fp32", 256, Tile(16, 16, 8, 1))
    _add(_architecture, "queries", "fp32", 64, Tile(32, 32, 8, 1))
    _add(_architecture, "queries", "fp32", 128, *[Tile(16, 32, 4, 1)] * 2, Tile(16, 16, 4, 1))
    _add(_architecture, "queries", "fp32", 256, Tile(16, 16, 4, 1))
# Without a causal mask these three would spill 8 or 16 bytes with the tile of the causal kernel.
_add(90, "forward", "fp32", 256, Tile(16, 16, 8, 1), Tile(16, 16, 4, 1))
_add(80, "keys", "fp32", 256, Tile(16, 32, 8, 1), Tile(16, 16, 8, 1))
_add(80, "queries", "fp32", 128, Tile(16, 16, 4, 1), Tile(16, 32, 4, 1), Tile(16, 16, 4, 1))

for (*_key, _mask), _tile in MEASURED.items():
    TABLE[tuple(_key)][str(_mask)] = Tile(*_tile)

# What the Gluon kernel runs with, by width: candidates of the sweep, in no place of the table until
# a GPU has found them right and faster. Its program has 12 warps; the 8 are of the Triton kernel,
# which takes the tile where Gluon cannot run.
GLUON = {64: Tile(128, 128, 8, 3, True, True), 128: Tile(128, 128, 8, 2, True, True)}

# Interpreted: unequal sides show an exchanged axis; a step costs the same for any small tile.
INTERPRETED = Tile(64, 32, 4, 1)


def choose(kernel: str, q: torch.Tensor, mask: str) -> Tile:
    """Pick the tile for ``kernel`` on q's device, dtype and width, with one of the ``MASKS``."""
    if fallback.interpreted():
        return INTERPRETED
    kind = "fp32" if q.dtype == torch.float32 else "half"
    key = (architecture(q.device), kernel, kind, max(64, padded(q.shape[-1])))
    return TABLE[key][mask]


def has_atomic(q: torch.Tensor) -> bool:
    """Tell whether there is a one-pass backward for q: fp32 and D > 128 leave it no registers."""
    return fallback.interpreted() or (q.dtype != torch.float32 and q.shape[-1] <= 128)
