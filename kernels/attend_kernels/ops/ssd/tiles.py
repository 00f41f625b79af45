"""Which tile each kernel of ``ssd`` uses: a fixed table by architecture, dtype and widths.

The entries were chosen without a GPU, from the compiler's word alone: with the Triton of
constraints.txt each fits its architecture's shared memory and none spills a register. The tests
assert it; COMPILED.md lists it. None has been timed on a GPU yet.

What limits them, at 255 registers a thread of 4 warps: the state, N × BLOCK_P numbers in fp32, the
scores of a chunk and what is made of them, CHUNK² each. 64 steps are the least that Hopper's matrix
instruction (HGMMA) takes; 8 warps would want 128, for where one product feeds the next Triton gives
each warp rows of its own. fp32 products are made of single FMAs, which keep their operands in
registers: small tiles. They are there for checking.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from attend_kernels.common import devices, fallback
from attend_kernels.ops.ssd.measured import MEASURED


@dataclass(frozen=True)
class Tile:
    """Block shape and launch settings of one kernel."""

    chunk: int  # steps handled at once, at most; the backward kernels agree on the least of theirs
    block_p: int  # columns of x, that is rows of the state, handled at once, at most
    warps: int
    stages: int


# The kernels: y; the states and their gradients, with dx; dB and dC through them; the rest.
KERNELS = ("forward", "sweep", "keys", "scores")
# (architecture, dtype class, whether heads are wider than 64, padded N): tiles of the kernels.
# States narrower than 64 use the entry for 64.
TABLE: dict[tuple[int, str, bool, int], dict[str, Tile]] = {}


def _add(architecture: int, kind: str, wide: bool, states: int, *tiles: Tile) -> None:
    TABLE[architecture, kind, wide, states] = dict(zip(KERNELS, tiles, strict=True))


# Hopper (H100, H200); also used for anything newer, untested.
for _wide in (False, True):
    _add(
        90, "half", _wide, 64,
        Tile(64, 32, 4, 2), Tile(64, 64, 8, 2), Tile(64, 64, 8, 2), Tile(64, 64, 8, 2),
    )  # fmt: skip
    _add(
        90, "half", _wide, 128,
        Tile(64, 32, 4, 2), Tile(64, 32, 4, 2), Tile(64, 64, 8, 2), Tile(64, 64, 8, 2),
    )  # fmt: skip
    _add(
        90, "half", _wide, 256,
        Tile(64, 16, 4, 2), Tile(32, 16, 8, 2), Tile(32, 64, 8, 2), Tile(32, 64, 4, 2),
    )  # fmt: skip
# Ampere and Ada. All fit the 99 KiB of the consumer cards (8.6, 8.9), not only the A100's 163 KiB.
for _wide in (False, True):
    _add(
        80, "half", _wide, 64,
        Tile(64, 32, 4, 2), Tile(64, 32, 8, 2), Tile(64, 64, 8, 2), Tile(64, 64, 8, 3),
    )  # fmt: skip
    _add(
        80, "half", _wide, 128,
        Tile(32, 32, 4, 2), Tile(32, 32, 4, 2), Tile(32, 64, 8, 2), Tile(32, 64, 4, 2),
    )  # fmt: skip
    _add(
        80, "half", _wide, 256,
        Tile(16, 16, 4, 2), Tile(16, 16, 4, 2), Tile(16, 32, 8, 1), Tile(16, 64, 4, 2),
    )  # fmt: skip
# fp32, the same on both.
for _architecture in (80, 90):
    for _wide in (False, True):
        _add(
            _architecture, "fp32", _wide, 64,
            Tile(32, 16, 4, 1), Tile(16, 32, 4, 1), Tile(16, 16, 8, 1), Tile(16, 32, 4, 1),
        )  # fmt: skip
        _add(
            _architecture, "fp32", _wide, 128,
            Tile(16, 16, 8, 1), Tile(16, 16, 8, 1), Tile(16, 16, 8, 1), Tile(16, 16, 16, 1),
        )  # fmt: skip
        _add(
            _architecture, "fp32", _wide, 256,
            Tile(16, 16, 8, 1), Tile(16, 16, 8, 1), Tile(16, 16, 8, 1), Tile(16, 32, 8, 1),
        )  # fmt: skip
for (*_key, _kernel), _tile in MEASURED.items():
    TABLE[tuple(_key)] = {**TABLE[tuple(_key)], str(_kernel): Tile(*_tile)}

# Interpreted: unequal sides show an exchanged axis; a step costs the same for any small tile.
INTERPRETED = {
    "forward": Tile(64, 32, 4, 1),
    "sweep": Tile(32, 32, 4, 1),
    "keys": Tile(32, 64, 4, 1),
    "scores": Tile(32, 64, 4, 1),
}


def choose(x: torch.Tensor, N: int) -> dict[str, Tile]:  # noqa: N803
    """Pick the kernels' tiles for x's device, dtype and head width, with states N wide."""
    if fallback.interpreted():
        return INTERPRETED
    kind = "fp32" if x.dtype == torch.float32 else "half"
    return entry(devices.architecture(x.device), kind, x.shape[-1], N)


def entry(architecture: int, kind: str, P: int, N: int) -> dict[str, Tile]:  # noqa: N803
    """Look up the tiles for heads P wide, up to 128, and states N wide, up to 256.

    Raises:
        ValueError: wider than the table, or another architecture or kind than it has.
    """
    states = max(64, devices.padded(N))
    key = (architecture, kind, P > 64, states)
    if P > 128 or key not in TABLE:
        raise ValueError(
            f"ssd: no tiles for heads {P} wide and states {N} wide in {kind} on sm_{architecture}; "
            f"expected up to 128 and 256, half or fp32, sm_80 or sm_90. Next: naive_ssd_chunked."
        )
    return TABLE[key]
