"""A function of ours that runs with another tile in one place of the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import torch

from attend_kernels.bench.case import Function
from attend_kernels.common import devices
from attend_kernels.ops.decode import tiles as decode_tiles
from attend_kernels.ops.flash import tiles as flash_tiles
from attend_kernels.ops.linear_attention import tiles as linear_tiles
from attend_kernels.ops.ssd import tiles as ssd_tiles

Place = tuple[Any, ...]  # a family, then the key in its table, and what the entry has tiles for
Values = tuple[int | bool, ...]  # the fields of a tile, in their order
TABLES: dict[str, Any] = {
    "flash": flash_tiles,
    "decode": decode_tiles,
    "linear_attention": linear_tiles,
    "ssd": ssd_tiles,
}


def made(place: Place, values: Values) -> Any:
    """Make the family's tile of its fields."""
    tables = TABLES[place[0]]
    return (decode_tiles.DecodeTile if tables is decode_tiles else tables.Tile)(*values)


def shipped(place: Place) -> Any:
    """Look up the tile that the table has there."""
    family, *key = place
    table = TABLES[family].TABLE
    if family in ("flash", "ssd"):
        *key, which = key
        return table[tuple(key)][which]
    return table[tuple(key)]


@contextmanager
def using(place: Place, tile: Any) -> Iterator[None]:
    """Let the package choose ``tile`` in one place, on any device, and what it has elsewhere."""
    tables = TABLES[place[0]]
    chosen = CHOOSERS[place[0]](place[2:], tile, tables.choose)
    with mock.patch.object(tables, "choose", chosen):
        yield


def _flash(key: Place, tile: Any, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    kernel, _, width, mask = key

    def choose(name: str, q: torch.Tensor, seen: str) -> Any:
        here = (name, max(64, devices.padded(q.shape[-1])), seen) == (kernel, width, mask)
        return tile if here else otherwise(name, q, seen)

    return choose


def _decode(key: Place, tile: Any, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    kind, width = key
    size = {"byte": 1, "half": 2, "fp32": 4}[kind]

    def choose(device: torch.device, dtype: torch.dtype, d: int) -> Any:
        here = (dtype.itemsize, max(64, devices.padded(d))) == (size, width)
        return tile if here else otherwise(device, dtype, d)

    return choose


def _linear(key: Place, tile: Any, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    kernel, _, width = key

    def choose(name: str, write: torch.Tensor, value: torch.Tensor) -> Any:
        here = (name, max(64, devices.padded(write.shape[-1]))) == (kernel, width)
        columns = min(tile.columns, devices.padded(value.shape[-1]))
        return replace(tile, columns=columns) if here else otherwise(name, write, value)

    return choose


def _ssd(key: Place, tile: Any, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    _, wide, states, kernel = key

    def choose(x: torch.Tensor, n: int) -> Any:
        found = otherwise(x, n)
        here = (x.shape[-1] > 64, max(64, devices.padded(n))) == (wide, states)
        return {**found, kernel: tile} if here else found

    return choose


CHOOSERS = {"flash": _flash, "decode": _decode, "linear_attention": _linear, "ssd": _ssd}


def within(place: Place, tile: Any, function: Function) -> Function:
    """Make a function that runs with ``tile`` in its place, forward and backward."""

    def run(*inputs: torch.Tensor) -> Any:
        if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
            return _Within.apply(place, tile, function, *inputs)
        with using(place, tile):
            return function(*inputs)

    return run


class _Within(torch.autograd.Function):
    """Runs the backward pass with the tile, too."""

    @staticmethod
    def forward(
        ctx: Any, place: Place, tile: Any, function: Function, *inputs: torch.Tensor
    ) -> Any:
        ctx.place, ctx.tile = place, tile
        ctx.leaves = [
            x.detach().requires_grad_(learns)
            for x, learns in zip(inputs, ctx.needs_input_grad[3:], strict=True)
        ]
        with torch.enable_grad(), using(place, tile):
            ctx.output = function(*ctx.leaves)
        return ctx.output.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        learning = [x for x in ctx.leaves if x.requires_grad]
        with using(ctx.place, ctx.tile):
            found = iter(torch.autograd.grad(ctx.output, learning, grads[0], retain_graph=True))
        return (None, None, None, *(next(found) if x.requires_grad else None for x in ctx.leaves))
