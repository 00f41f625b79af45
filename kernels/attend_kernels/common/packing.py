"""Sequences of different lengths, packed: their starts and the tiles over them."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Packing:
    """Where packed sequences start in q and in k, and the last one ends: int32."""

    q_starts: torch.Tensor
    k_starts: torch.Tensor

    @classmethod
    def of(cls, q_starts: torch.Tensor | None, k_starts: torch.Tensor | None) -> Packing | None:
        """Both starts together, or None for a dense batch."""
        return None if q_starts is None or k_starts is None else cls(q_starts, k_starts)


def schedule(
    rows: int, packing: Packing | None, block: int, over_queries: bool
) -> tuple[int, torch.Tensor | None, tuple[torch.Tensor | None, torch.Tensor | None]]:
    """Number of tiles a head has, the table of them, and the starts: (tiles, table, starts).

    For packed sequences the table is made on the device, without waiting for it: a sequence of n
    rows has ceil(n / block) tiles, so all together have at most rows / block + sequences.
    """
    if packing is None:
        return -(-rows // block), None, (None, None)
    starts = packing.q_starts if over_queries else packing.k_starts
    sequences = len(starts) - 1
    tiles = rows // block + sequences if rows else 0
    blocks = (starts.diff() + (block - 1)) // block
    ends = blocks.cumsum(0)
    tile = torch.arange(tiles, device=starts.device)
    sequence = torch.searchsorted(ends, tile, right=True).clamp(max=sequences - 1)
    first = (tile - (ends - blocks)[sequence]) * block
    table = torch.stack([sequence, first], dim=1).to(torch.int32)
    return tiles, table, (packing.q_starts, packing.k_starts)


def check_starts(name: str, starts: torch.Tensor, x: torch.Tensor) -> None:
    """Refuse starts that are no integers, lie elsewhere, or (on the CPU) do not rise within x."""
    if starts.dtype not in (torch.int32, torch.int64):
        raise TypeError(
            f"{name} must be int32 or int64, got {starts.dtype}. Next: {name}.to(torch.int32)."
        )
    if starts.device != x.device:
        raise ValueError(
            f"{name} is on {starts.device}, the tensors on {x.device}. Next: {name}.to(q.device)."
        )
    if len(starts) == 0:
        raise ValueError(f"{name} is empty; expected [0, first end, …]. Next: at least [0].")
    if starts.is_cuda or torch.compiler.is_compiling():
        return
    values = starts.tolist()
    if values[0] != 0 or values != sorted(values) or values[-1] > len(x):
        raise ValueError(
            f"{name} must rise from 0 to at most {len(x)}, the rows there are; got {values}. "
            f"Likely cause: lengths instead of their running sum. Next: "
            f"torch.nn.functional.pad(lengths.cumsum(0), (1, 0))."
        )
