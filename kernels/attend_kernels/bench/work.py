"""How much work kernels do, counted: bytes they move, operations they do on numbers.

Under Triton's interpreter every load, store and operation of a kernel passes one object, its
builder; here that is watched. What comes out is exact and the same on every machine. It is not a
time: without a GPU no seconds are measured. But a kernel's time is that of its work, so work that
grows by the same amount with every chunk of steps says that the time is linear in their number.
What PyTorch itself does beside the kernels is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any
from unittest import mock

import torch

import attend_kernels as kernels
from attend_kernels.ops.selective_scan import tiles as selective_scan_tiles


@dataclass
class Work:
    """What kernels did."""

    loaded: int = 0  # bytes, of what masks let through
    stored: int = 0
    products: int = 0  # operations of matrix products: two a term
    others: int = 0  # floating-point operations on single numbers

    def counts(self) -> tuple[int, int, int, int]:
        """All four."""
        return self.loaded, self.stored, self.products, self.others


@contextmanager
def counted() -> Iterator[Work]:
    """Count what kernels do meanwhile; they must be interpreted."""
    from triton.runtime.interpreter import interpreter_builder as builder

    work = Work()

    def load(true: Any, pointers: Any, mask: Any, *rest: Any) -> Any:
        got = true(pointers, mask, *rest)
        work.loaded += int(mask.data.sum()) * got.data.itemsize
        return got

    def store(true: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        work.stored += int(mask.data.sum()) * value.data.itemsize
        return true(pointers, value, mask, *rest)

    def dot(true: Any, a: Any, b: Any, *rest: Any) -> Any:
        work.products += 2 * a.data.size * b.data.shape[-1]
        return true(a, b, *rest)

    def operate(true: Any, *arguments: Any) -> Any:
        got = true(*arguments)
        if got.dtype.scalar.is_floating():
            work.others += got.data.size
        return got

    watched = {"create_masked_load": load, "create_masked_store": store, "create_dot": dot}
    watched |= dict.fromkeys(("unary_op", "binary_op", "ternary_op"), operate)
    with ExitStack() as stack:
        for name, watch in watched.items():
            true = getattr(builder, name)
            stack.enter_context(mock.patch.object(builder, name, partial(watch, true)))
        yield work


def work_of(run: Callable[..., torch.Tensor], inputs: dict[str, torch.Tensor]) -> tuple[Work, Work]:
    """Work of a function, and of the gradients of all its inputs."""
    leaves = {name: x.clone().requires_grad_() for name, x in inputs.items()}
    with counted() as forward:
        output = run(**leaves)
    with counted() as backward:
        output.sum().backward()
    return forward, backward


WIDTH = 16  # of keys, values, channels and states
CHUNK = 32
SCAN_CHUNK = 8  # a step takes the interpreter as long as a chunk of the others


def _made(*shapes: tuple[str, Sequence[int]]) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {name: torch.rand(tuple(shape), generator=generator) for name, shape in shapes}


def linear(mode: str, length: int) -> tuple[Work, Work]:
    """``linear_attention``; "gate" is one a step, as "gated delta" has, "gates" one a dimension."""
    sides = (1, 1, length, WIDTH)
    inputs = _made(("q", sides), ("k", sides), ("v", sides))
    gates = {"decay": sides[1:2], "gate": sides[:3], "gates": sides, "gated delta": sides[:3]}
    if mode in gates:
        name = "decay" if mode == "decay" else "gate"
        inputs[name] = -_made((name, gates[mode]))[name]
    if mode.endswith("delta"):
        inputs |= _made(("beta", sides[:3]))
    return work_of(partial(kernels.linear_attention, chunk=CHUNK), inputs)


def selective_scan(length: int) -> tuple[Work, Work]:
    """``selective_scan``, with chunks of 8 steps."""
    channels, states = (1, length, WIDTH), (1, length, WIDTH)
    inputs = _made(("u", channels), ("delta", channels), ("B", states), ("C", states))
    with mock.patch.object(selective_scan_tiles, "CHUNK", SCAN_CHUNK):
        return work_of(kernels.selective_scan, inputs | {"A": -torch.ones(WIDTH, WIDTH)})


def ssd(length: int) -> tuple[Work, Work]:
    """``ssd``."""
    inputs = _made(("x", (1, length, 1, WIDTH)), ("dt", (1, length, 1)))
    inputs |= _made(("B", (1, length, 1, WIDTH)), ("C", (1, length, 1, WIDTH)))
    return work_of(partial(kernels.ssd, chunk=CHUNK), inputs | {"A": -torch.ones(1)})


def causal_conv1d(length: int) -> tuple[Work, Work]:
    """``causal_conv1d``, four taps, SiLU, with two tiles a program backward."""
    from attend_kernels.ops.conv1d import kernels as conv1d_kernels

    inputs = _made(("x", (1, length, WIDTH)), ("w", (WIDTH, 4)), ("b", (WIDTH,)))
    with mock.patch.dict(conv1d_kernels.BACKWARD, TILES=2):
        return work_of(partial(kernels.causal_conv1d, activation="silu"), inputs)


def flash(length: int) -> tuple[Work, Work]:
    """``flash_attention``, which is not linear: for comparison."""
    sides = (1, 1, length, WIDTH)
    return work_of(kernels.flash_attention, _made(("q", sides), ("k", sides), ("v", sides)))


# By name in the table: what runs at a length, and the shortest of three lengths, each twice the
# one before, that all tiles and chunks divide.
LINEAR: dict[str, tuple[Callable[[int], tuple[Work, Work]], int]] = {
    **{
        f"linear attention, {said}": (partial(linear, mode), CHUNK)
        for mode, said in (
            ("plain", "plain"),
            ("decay", "a decay a head"),
            ("gate", "a gate a step"),
            ("gates", "gates a dimension"),
            ("delta", "delta rule"),
            ("gated delta", "delta rule, a gate a step"),
        )
    },
    "selective scan": (selective_scan, SCAN_CHUNK),
    "SSD": (ssd, CHUNK),
    "causal convolution": (causal_conv1d, CHUNK),
}
QUADRATIC = {"flash attention, for comparison": (flash, 64)}
PASSES = ("forward", "backward")
DOUBLINGS = (1, 2, 4)
HEAD = """\
| kernel | pass | T | bytes loaded | bytes stored | operations of products | others |
|---|---|---|---|---|---|---|
"""


@cache
def rows(name: str) -> list[tuple[tuple[int, int, int, int], ...]]:
    """Counts of both passes at the three lengths."""
    run, shortest = (LINEAR | QUADRATIC)[name]
    found = [run(shortest * times) for times in DOUBLINGS]
    return [tuple(works[number].counts() for works in found) for number in range(len(PASSES))]


def table_rows(name: str) -> list[str]:
    """Lines of the Markdown table for both passes."""
    shortest = (LINEAR | QUADRATIC)[name][1]
    lengths = " / ".join(str(shortest * times) for times in DOUBLINGS)
    lines = []
    for direction, counts in zip(PASSES, rows(name), strict=True):
        cells = [" / ".join(f"{n:,}" for n in of) for of in zip(*counts, strict=True)]
        lines.append(f"| {' | '.join((name, direction, lengths, *cells))} |")
    return lines


def table() -> str:
    """Markdown table of all kernels' work."""
    return HEAD + "".join(f"{line}\n" for name in LINEAR | QUADRATIC for line in table_rows(name))
