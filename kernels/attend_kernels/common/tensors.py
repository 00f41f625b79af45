"""Tensors as the kernels read them: adjacent last axes, widths that are powers of two."""

from __future__ import annotations

import torch


def unit_rows(x: torch.Tensor) -> torch.Tensor:
    """Return ``x`` with a contiguous last axis, as the kernels read it; a copy if need be."""
    return x if x.stride(-1) == 1 else x.contiguous()


def unit_stride(x: torch.Tensor | None) -> torch.Tensor | None:
    """``unit_rows`` of what may be left out: vectors of one number a head or channel."""
    return None if x is None else unit_rows(x)


def filled(x: torch.Tensor, *widths: int) -> torch.Tensor:
    """Return ``x`` with its last axes filled up with zeros to ``widths``, one for each axis.

    For kernels whose tiles are powers of two. Masks for other widths would cost registers, and rows
    that do not start at multiples of 16 bytes are read a few bytes at a time.
    """
    missing = [width - has for width, has in zip(widths, x.shape[-len(widths) :], strict=True)]
    if not any(missing):
        return x
    return torch.nn.functional.pad(x, [n for m in reversed(missing) for n in (0, m)])
