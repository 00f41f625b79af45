"""Triton's interpreter at less cost computes what it computed, and refuses what it refused."""

from __future__ import annotations

import itertools
import math
import operator
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from attend_grader.inside import interpreting
from attend_grader.inside.tracer import traced
from attend_solutions import triton_flash_backward
from triton.language import core
from triton.runtime import interpreter

TYPES = ("int1", "int8", "uint8", "int16", "int32", "uint32", "int64", "float16", "bfloat16")
TYPES += ("float32", "float64")
SHAPES = ((), (1,), (4,), (8,), (1, 8), (4, 1), (4, 8), (2, 4, 8))
NUMBERS = (0, 1, -3, 2.5, 1 << 40, tl.constexpr(7))
UNUSUAL = (0, -0.0, 1, -3, True, 2.5, (1 << 31) - 1, -(1 << 31), 1 << 31, 1 << 40, 70_000)
UNUSUAL += (float("nan"), float("inf"), 1e-40, 1e300, tl.constexpr(7), tl.constexpr(0.1))
OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "and_", "or_", "xor")
OPERATORS += ("lt", "le", "gt", "ge", "eq", "ne")
OPERATIONS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("a + b", lambda a, b: a + b),
    ("a - b", lambda a, b: a - b),
    ("a * b", lambda a, b: a * b),
    ("a / b", lambda a, b: a / b),
    ("a // b", lambda a, b: a // b),
    ("a % b", lambda a, b: a % b),
    ("a < b", lambda a, b: a < b),
    ("a == b", lambda a, b: a == b),
    ("a & b", lambda a, b: a & b),
    ("where", lambda a, b: tl.where(a > b, a, b)),
    ("maximum", lambda a, b: tl.maximum(a, b)),
    ("broadcast", lambda a, b: tl.broadcast(a, b)[0]),
    ("to", lambda a, b: a.to(b.dtype)),
    ("sum", lambda a, b: tl.sum(a * b, axis=0)),
    ("reshape", lambda a, b: tl.reshape(a, b.shape)),
    ("zeros", lambda a, b: tl.zeros(a.shape, b.dtype) + a),
    ("turned", lambda a, b: a[:, None] + b[None, :]),
    ("shape", lambda a, b: (a.numel, a.shape == b.shape, a.type == b.type, a + b)),
)


@contextmanager
def computing(*, replaced: bool) -> Iterator[None]:
    """The language's own functions compute here, in the interpreter as it is or at less cost."""
    saved = []
    found = interpreting.replacements() if replaced else []
    if replaced:
        found.append((interpreter, "_patch_builtin", interpreting.patch_builtins))
    for owner, name, member in found:
        saved.append((owner, name, getattr(owner, name)))
        setattr(owner, name, member)
    scope = interpreter._patch_lang(as_if_in_a_kernel)
    try:
        yield
    finally:
        scope.restore()
        for owner, name, member in reversed(saved):
            setattr(owner, name, member)


def both(make: Callable[[], list[Any]]) -> list[Any]:
    """What it makes in the interpreter as it is, which is what it makes at less cost."""
    with computing(replaced=False):
        plain = make()
    with computing(replaced=True):
        assert make() == plain
    return plain


def as_if_in_a_kernel() -> None:
    """Stands for a kernel: what is patched are the names that its module has."""


def value(rng: random.Random, kind: str, shape: tuple[int, ...]) -> Any:
    """A tensor of the language with small numbers, some of them 0."""
    pointer = kind == "pointer"
    dtype = tl.pointer_type(tl.float16) if pointer else getattr(tl, kind)
    size = max(1, torch.Size(shape).numel())
    drawn = [[rng.choice((-3, -1, 0, 1, 2, 5)) for _ in range(size)]]
    if kind in ("int1", "pointer") or kind.startswith("uint"):
        drawn = [[abs(number) for number in row] for row in drawn]
    plain = torch.tensor(drawn, dtype=torch.float32).reshape(shape or (1,)).numpy()
    if kind == "bfloat16":
        plain = (plain.view("uint32") >> 16).astype("uint16")
    handle = interpreter.TensorHandle(plain.astype(interpreter._get_np_dtype(dtype)), dtype)
    return core.tensor(handle, core.block_type(dtype, list(shape)) if shape else dtype)


def told(result: Any) -> Any:
    """All that a kernel or a message can see of a value."""
    if isinstance(result, (tuple, core.tuple)):
        return [told(part) for part in result]
    if isinstance(result, core.constexpr):
        return "constexpr", told(result.value)
    if not isinstance(result, core.tensor):
        return result
    data = result.handle.data
    shape = [told(size) for size in result.shape]
    kinds = str(result.type), str(result.dtype), str(result.handle.dtype)
    return kinds, shape, told(result.numel), str(data.dtype), data.shape, data.tobytes()


def outcome(operation: Callable[..., Any], a: Any, b: Any) -> Any:
    """What it gives, or how it fails."""
    try:
        return told(operation(a, b))
    except Exception as error:
        return type(error).__name__, str(error)


def same(seed: int) -> list[str]:
    """What many operations give, on values drawn with this seed."""
    rng, found = random.Random(seed), []
    for name, operation in OPERATIONS:
        for _ in range(30):
            a, b = (value(rng, rng.choice(TYPES), rng.choice(SHAPES)) for _ in range(2))
            if rng.random() < 0.2:
                b = rng.choice(NUMBERS)
            found.append(f"{name}: {told(a)}, {told(b)} -> {outcome(operation, a, b)}")
    return found


def each(operation: Callable[..., Any]) -> list[str]:
    """What one operator gives, twice for each pair of types and shapes, with other numbers."""
    rng, found = random.Random(5), []
    kinds = (*TYPES, "pointer")
    shapes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    shapes = (((), ()), ((8,), ()), ((), (8,)), ((4, 1), (1, 8)), ((4, 8), (4, 8)))
    pairs = [(a, b, at) for a in kinds for b in (*kinds, *UNUSUAL) for at in shapes]
    for a, b, at in pairs:
        for _ in range(2):
            right = value(rng, b, at[1]) if isinstance(b, str) else b
            left = value(rng, a, at[0])
            found.append(f"{told(left)}, {told(right)} -> {outcome(operation, left, right)}")
            if not isinstance(b, str):
                found.append(f"{b}, {told(left)} -> {outcome(operation, b, left)}")
    return found


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_give_the_same_time_after_time(name: str) -> None:
    operation = getattr(operator, name)
    assert both(lambda: each(operation))


def test_an_index_gives_the_same_time_after_time() -> None:
    every = slice(None)
    places = (None, every, (every, None), (None, every), (every, every), (None, every, None))
    places += ((every, None, every), (slice(0, 2), None), (every, every, None), (0,), ())

    def found() -> list[Any]:
        rng = random.Random(5)
        blocks = [value(rng, kind, shape) for kind in (*TYPES, "pointer") for shape in SHAPES]
        return [outcome(operator.getitem, b, at) for _ in range(2) for b in blocks for at in places]

    assert both(found)


def addresses(memory: np.ndarray, kind: str, shape: tuple[int, ...], rng: random.Random) -> Any:
    """A tensor of the language with addresses in this memory, none of them twice."""
    size = max(1, math.prod(shape))
    places = np.array(rng.sample(range(len(memory)), size), np.uint64).reshape(shape or (1,))
    data = memory.ctypes.data + places * np.uint64(memory.itemsize)
    dtype = tl.pointer_type(getattr(tl, kind))
    handle = interpreter.TensorHandle(data, dtype)
    return core.tensor(handle, core.block_type(dtype, list(shape)) if shape else dtype)


def accesses(seed: int) -> list[Any]:
    """What loads and stores of many kinds bring and leave behind, each kind twice in a row."""
    rng, found = random.Random(seed), []
    here: Any = np.random.default_rng(seed)
    for kind, shape in itertools.product(TYPES, ((), (1,), (8,), (4, 8))):
        for mask, other in itertools.product((None, shape, (), (8,)), (None, 0, -3, 2.5, *TYPES)):
            at = shape if rng.random() < 0.7 else ()
            for _ in range(2):
                numbers = here.integers(0, 2 if kind == "int1" else 9, 64)
                memory = numbers.astype(interpreter._get_np_dtype(getattr(tl, kind)))
                ptr = addresses(memory, kind, shape, rng)
                masks = None if mask is None else value(rng, "int1", mask)
                filled = value(rng, other, at) if isinstance(other, str) else other
                found.append(outcome(lambda p, m, o=filled: tl.load(p, m, o), ptr, masks))
                stored = value(rng, kind, shape) if filled is None else filled
                tell = outcome(lambda p, m, v=stored: tl.store(p, v, m), ptr, masks)
                found += [tell, memory.tobytes()]
    return found


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(3))
def test_loads_and_stores_do_the_same_time_after_time(seed: int) -> None:
    plain = both(lambda: accesses(seed))
    assert sum("Error" not in str(tell) for tell in plain) > len(plain) // 3


def products(seed: int) -> list[Any]:
    """Products of blocks, each kind twice in a row."""
    rng, found = random.Random(seed), []
    shapes = (((4, 8), (8, 2)), ((4, 8), (4, 8)), ((2, 4, 8), (2, 8, 4)), ((8,), (8,)))
    results = (None, tl.float32, tl.float16, tl.float64, tl.bfloat16)
    for kinds, (left, right), out in itertools.product(
        itertools.product(TYPES, repeat=2), shapes, results
    ):
        for start in (None, "float32", "float16"):
            for _ in range(2):
                a, b = value(rng, kinds[0], left), value(rng, kinds[1], right)
                acc = start and value(rng, start, (*left[:-1], right[-1]))
                more = {} if out is None else {"out_dtype": out}
                found.append(outcome(lambda a, b, c=acc, m=more: tl.dot(a, b, c, **m), a, b))
    return found


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_products_are_the_same_time_after_time() -> None:
    plain = both(lambda: products(1))
    assert sum("Error" not in str(tell) for tell in plain) > 100


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(6))
def test_operations_give_the_same_and_fail_the_same(seed: int) -> None:
    plain = both(lambda: same(seed))
    assert sum("Error" not in line for line in plain) > len(plain) // 3


def test_kernels_of_the_course_compute_the_same() -> None:
    rng = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(2, 24, 16, generator=rng) for _ in range(3))

    def run() -> list[torch.Tensor]:
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        out = triton_flash_backward.flash_attention(leaves[0], leaves[1], leaves[2])
        return [out.detach(), *torch.autograd.grad((out * out).sum(), leaves)]

    plain = run()
    with traced():
        quicker = run()
    assert all(torch.equal(a, b) for a, b in zip(plain, quicker, strict=True))


def test_everything_is_as_before_afterwards() -> None:
    places = [(owner, name) for owner, name, _ in interpreting.replacements()]
    before = [getattr(owner, name) for owner, name in places]
    with traced():
        during = [getattr(owner, name) for owner, name in places]
    assert during != before
    assert [getattr(owner, name) for owner, name in places] == before


def test_another_version_of_triton_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert interpreting.replacements()
    monkeypatch.setattr(triton, "__version__", "4.0.0")
    assert interpreting.replacements.__wrapped__() == []
