"""What stands in for a GPU where there is none: its tables' tiles, and how it rounds.

Interpreted, the package takes small tiles of its own, and products of half precision in fp32. So
the interpreter says nothing of what a GPU makes of the tuned tiles and of bf16. With ``gpu`` the
package takes a GPU's tiles; with ``roundings`` the interpreter rounds as its tensor cores do. What
is left to a real one are its compiler's errors, and races.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch
import triton.language as tl
from attend_kernels.common import fallback
from attend_kernels.ops.linear_attention import tiles as linear_attention_tiles
from attend_kernels.ops.selective_scan import tiles as selective_scan_tiles
from triton._C.libtriton import ir  # pyright: ignore[reportMissingImports]  # has no stubs
from triton.runtime import interpreter

PROCESSORS = 132  # multiprocessors of an H100 and an H200


class Properties(NamedTuple):
    """What the package asks of a GPU's properties."""

    multi_processor_count: int


@contextmanager
def gpu(architecture: int, processors: int = PROCESSORS) -> Iterator[None]:
    """Let the package believe that its tensors are on such a GPU; they stay on the CPU."""
    believed = [
        (fallback, "why_not", lambda _: None),
        (fallback, "interpreted", lambda: False),
        (torch.cuda, "get_device_capability", lambda *_: divmod(architecture, 10)),
        (torch.cuda, "get_device_properties", lambda *_: Properties(processors)),
        (selective_scan_tiles, "multiprocessors", lambda _: processors),  # of the CPU it has none
    ]
    with replaced(believed):
        linear_attention_tiles._where.cache_clear()
        try:
            yield
        finally:
            linear_attention_tiles._where.cache_clear()


@contextmanager
def roundings() -> Iterator[None]:
    """Let the interpreter round as tensor cores do.

    Products of bf16 (which it takes for those of the integers that store it) and of fp16 are exact
    and added up in fp32; bf16 is rounded to the nearest (it cuts it off); factors of tf32 lose 13
    bits (it keeps them).
    """
    builder = interpreter.InterpreterBuilder
    casts = ("create_si_to_fp", "create_ui_to_fp", "create_fp_to_si", "create_fp_to_ui")
    casts += ("create_fp_ext", "create_fp_trunc", "cast_impl")
    with replaced(
        [
            (interpreter, "_convert_float", _convert_float),
            (builder, "create_dot", _create_dot),
            *((builder, name, _cast) for name in casts),
        ]
    ):
        yield


@contextmanager
def single_numbers() -> Iterator[None]:
    """Round what a launch is given as a Python float to fp32, as a GPU gets it."""
    convert = interpreter._implicit_cvt
    with replaced(
        [
            (
                interpreter,
                "_implicit_cvt",
                lambda x: float(np.float32(x)) if isinstance(x, float) else convert(x),
            )
        ]
    ):
        yield


@contextmanager
def replaced(places: list[tuple[Any, str, Any]]) -> Iterator[None]:
    """Give attributes other values for a while: owner, name, value."""
    with ExitStack() as stack:
        for owner, name, value in places:
            stack.enter_context(mock.patch.object(owner, name, value))
        yield


def to_bf16(x: np.ndarray) -> np.ndarray:
    """Bits of bf16, rounded to the nearest, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(x), 0x7FC0, rounded).astype(np.uint16).reshape(x.shape)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    """Numbers that bits of bf16 stand for."""
    wide = np.ascontiguousarray(bits, np.uint16).astype(np.uint32) << 16
    return wide.view(np.float32).reshape(bits.shape)


def to_tf32(x: np.ndarray) -> np.ndarray:
    """fp32 without the 13 bits of its mantissa that a tensor core does not read."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFFF_E000)).view(np.float32).reshape(x.shape)


def _numbers(x: Any) -> np.ndarray:
    """A tensor of the interpreter as numbers."""
    return from_bf16(x.data) if x.dtype.scalar == tl.bfloat16 else x.data


_interpreters_convert_float = interpreter._convert_float


def _convert_float(x: np.ndarray, before: tl.dtype, after: tl.dtype, mode: Any) -> np.ndarray:
    if (before, after) == (tl.float32, tl.bfloat16):
        return to_bf16(x)
    if (before, after) == (tl.bfloat16, tl.float32):
        return from_bf16(x)
    return _interpreters_convert_float(x, before, after, mode)


def _cast(_: Any, x: Any, to: Any) -> Any:
    kind = to.scalar
    numbers = _numbers(x) if kind != x.dtype.scalar else x.data
    if kind == tl.bfloat16 and x.dtype.scalar != tl.bfloat16:
        return interpreter.TensorHandle(to_bf16(numbers), kind)
    return interpreter.TensorHandle(numbers.astype(interpreter._get_np_dtype(to)), kind)


def _create_dot(_: Any, a: Any, b: Any, start: Any, precision: Any, __: Any) -> Any:
    x, y = _numbers(a), _numbers(b)
    if precision == ir.INPUT_PRECISION.TF32 and x.dtype == y.dtype == np.float32:
        x, y = to_tf32(x), to_tf32(y)  # of bf16, all bits are among those that are read
    kind = start.data.dtype
    return interpreter.TensorHandle(
        np.matmul(x.astype(kind), y.astype(kind)) + start.data, start.dtype.scalar
    )
