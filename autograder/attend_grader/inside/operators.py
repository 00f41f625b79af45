"""Operators of Triton's language in the interpreter: once as it does them, then by NumPy alone.

For each ``a + b`` the interpreter works out the result's type, fills blocks with scalars and builds
types anew, though a kernel repeats the same few operations thousands of times. What :func:`quick`
makes lets the interpreter do the first operation on operands of some types and shapes, and where
NumPy is known to give the same, NumPy does the next ones. With other operands (bfloat16, different
types, numbers of unusual size) the interpreter does them all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

_ORDER = {
    "__lt__": np.less,
    "__le__": np.less_equal,
    "__gt__": np.greater,
    "__ge__": np.greater_equal,
    "__eq__": np.equal,
    "__ne__": np.not_equal,
}
_BITS = {"__and__": np.bitwise_and, "__or__": np.bitwise_or}
_FUNCTIONS = {
    "__add__": np.add,
    "__radd__": np.add,
    "__sub__": np.subtract,
    "__mul__": np.multiply,
    "__rmul__": np.multiply,
    "__truediv__": np.divide,
    **_BITS,
    **_ORDER,
}
"""By method of the language's tensor: NumPy's function of the tensor and the other operand."""

_WHOLE, _FLOATS = ("int32", "int64"), ("fp16", "fp32", "fp64")
_LARGE = 1 << 31
"""Smaller integers of Python are int32 to the language."""


class _Plan(NamedTuple):
    """How to make a result: everything but the numbers in it.

    Attributes:
        kind: its type.
        scalar: the type of one element.
        numel: as the tensor has it.
        shape: as the tensor has it.
        number: NumPy's type of an operand that is a number.
        width: bytes by which 1 moves an address; 0 where the tensor holds no addresses.
        number_first: whether the number stands on the left.
    """

    kind: Any
    scalar: Any
    numel: Any
    shape: Any
    number: Any
    width: int
    number_first: bool


def quick(name: str, slow: Callable[..., Any]) -> Callable[..., Any]:
    """A method of the language's tensor that gives what ``slow`` gives, to the bit.

    Args:
        name: such as ``"__add__"``.
        slow: the interpreter's own; also the result where nothing quicker is known.
    """
    from triton.language import core
    from triton.runtime.interpreter import TensorHandle

    if name not in _FUNCTIONS:
        return slow
    function = _FUNCTIONS[name]
    constant, block, new = core.constexpr, core.tensor, object.__new__
    plans: dict[Any, _Plan | None] = {}

    def operator(self: Any, other: Any) -> Any:
        kind, left = type(other), self.handle.data
        if kind is constant:
            other = other.value
            kind = type(other)
        if kind is block:
            key = self.type.name, left.shape, other.type.name, other.handle.data.shape
        elif (kind is int or kind is float) and -_LARGE <= other < _LARGE:
            key = self.type.name, left.shape, kind
        else:
            return slow(self, other)
        if key not in plans:
            result = slow(self, other)
            plans[key] = _plan(name, self, other, result)
            return result
        plan = plans[key]
        if plan is None:
            return slow(self, other)
        right = other.handle.data if kind is block else np.array([other or 0], plan.number)
        if plan.width:
            right = plan.width * right.astype(np.uint64)
        handle, result = new(TensorHandle), new(block)
        handle.data, handle.attr = function(left, right), {}
        handle.dtype = plan.scalar if plan.number_first else self.handle.dtype.scalar
        result.handle, result.type, result.dtype = handle, plan.kind, plan.scalar
        result.numel, result.shape = plan.numel, plan.shape
        return result

    return operator


def _plan(name: str, tensor: Any, other: Any, result: Any) -> _Plan | None:
    """How to make results like this one, or None where only the interpreter knows."""
    element, is_number = tensor.type.scalar, isinstance(other, (int, float))
    kind = element.name
    if not isinstance(result.handle.data, np.ndarray):
        return None
    if element.is_ptr():
        offsets = isinstance(other, int) if is_number else other.type.scalar.name in _WHOLE
        if not offsets or name not in ("__add__", "__radd__"):
            return None
        width = max(1, element.element_ty.primitive_bitwidth // 8)
        return _Plan(*_outside(result), np.int32, width, number_first=False)
    known = _WHOLE + _FLOATS
    if name in _BITS:
        known = _WHOLE if is_number else ("int1", *_WHOLE)
    elif name == "__truediv__":
        known = "fp32", "fp64"
    fitting = (
        kind == other.type.scalar.name
        if not is_number
        else (isinstance(other, int) or (kind in _FLOATS and name not in _ORDER))
    )
    if kind not in known or not fitting:
        return None
    first = is_number and name in ("__radd__", "__rmul__")
    return _Plan(*_outside(result), tensor.handle.data.dtype, 0, number_first=first)


def _outside(result: Any) -> tuple[Any, Any, Any, Any]:
    return result.type, result.dtype, result.numel, result.shape
