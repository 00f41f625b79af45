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


class _Form(NamedTuple):
    """A tensor of the language without its numbers."""

    type: Any
    dtype: Any
    numel: Any
    shape: Any


class _Plan(NamedTuple):
    """How to make a result.

    Attributes:
        form: the result's.
        number: NumPy's type of an operand that is a number.
        width: bytes by which 1 moves an address; 0 where the tensor holds no addresses.
        number_first: whether the number stands on the left.
    """

    form: _Form
    number: Any
    width: int = 0
    number_first: bool = False


def quick(name: str, slow: Callable[..., Any]) -> Callable[..., Any]:
    """A method of the language's tensor that gives what ``slow`` gives, to the bit.

    Args:
        name: such as ``"__add__"``.
        slow: the interpreter's own; also the result where nothing quicker is known.
    """
    if name == "__getitem__":
        return _quick_index(slow)
    return _quick_operator(name, slow) if name in _FUNCTIONS else slow


def _quick_operator(name: str, slow: Callable[..., Any]) -> Callable[..., Any]:
    from triton.language import core

    function, tensor, constant = _FUNCTIONS[name], core.tensor, core.constexpr
    block = core.block_type
    plans: dict[Any, _Plan | None] = {}
    make = _maker()

    def operator(self: Any, other: Any) -> Any:
        kind, left = type(other), self.handle.data
        if kind is constant:
            other = other.value
            kind = type(other)
        if kind is tensor:
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
        right = other.handle.data if kind is tensor else np.array([other or 0], plan.number)
        if plan.width:
            right = plan.width * right.astype(np.uint64)
        held = plan.form.dtype if plan.number_first else self.handle.dtype
        return make(plan.form, function(left, right), held.scalar if type(held) is block else held)

    return operator


def _quick_index(slow: Callable[..., Any]) -> Callable[..., Any]:
    """The same for ``block[:, None]`` and the like."""
    from triton.language.core import block_type as block

    forms: dict[Any, _Form] = {}
    make, every = _maker(), slice(None)

    def index(self: Any, places: Any) -> Any:
        if type(places) is not tuple or not self.type.is_block():
            return slow(self, places)
        if not all(place is None or (type(place) is slice and place == every) for place in places):
            return slow(self, places)
        news = tuple([place is None for place in places])
        key = self.type.name, news
        if len(news) - sum(news) > self.handle.data.ndim:
            return slow(self, places)
        if key not in forms:
            result = slow(self, places)
            forms[key] = _form(result)
            return result
        held = self.handle.dtype
        data = self.handle.data[places]
        return make(forms[key], data, held.scalar if type(held) is block else held)

    return index


def _maker() -> Callable[[_Form, Any, Any], Any]:
    """What puts a tensor of the language together: of its form, its numbers and what holds them."""
    from triton.runtime.interpreter import TensorHandle

    new, filled = object.__new__, _filler()

    def make(form: _Form, data: Any, held: Any) -> Any:
        handle = new(TensorHandle)
        handle.data, handle.dtype, handle.attr = data, held, {}
        return filled(form, handle)

    return make


def _filler() -> Callable[[_Form, Any], Any]:
    """What puts a tensor of the language together: of its form, and a handle of its numbers."""
    from triton.language import core

    new, tensor = object.__new__, core.tensor

    def filled(form: _Form, handle: Any) -> Any:
        result = new(tensor)
        result.handle = handle
        result.type, result.dtype, result.numel, result.shape = form
        return result

    return filled


def quick_load(slow: Callable[..., Any]) -> Callable[..., Any]:
    """The interpreter's load of a block of addresses, which looks at types once."""
    from triton.runtime.interpreter import TensorHandle

    forms: dict[Any, tuple[_Form, Any]] = {}
    filled = _filler()

    def load(self: Any, ptr: Any, mask: Any, other: Any, *rest: Any) -> Any:
        boundary, padding, *how = rest
        key = ptr.type.name, mask is None or mask.type.name, other is None or other.type.name
        if boundary or padding or key not in forms:
            result = slow(self, ptr, mask, other, *rest)
            number = other is not None and _number_for(ptr, other)
            if _plain(ptr, mask, None if number else other) and result.dtype.name != "int1":
                forms[key] = _form(result), number and result.handle.data.dtype
            return result
        form, number = forms[key]
        if mask is None:
            return filled(form, self.builder.create_load(ptr.handle, *how))
        if number and other is not None:
            data = np.empty(ptr.handle.data.shape, number)
            data[...] = other.handle.data
            lost = TensorHandle(data, form.dtype)
        else:
            lost = other.handle if other else None  # as the interpreter asks: a single 0 is None
        return filled(form, self.builder.create_masked_load(ptr.handle, mask.handle, lost, *how))

    return load


def _number_for(ptr: Any, other: Any) -> bool:
    """Whether it is one number, for several addresses, that NumPy converts as the language does."""
    kinds = other.type.scalar.name, ptr.type.scalar.element_ty.name
    several = ptr.type.is_block() and ptr.handle.data.size > 1
    return several and not other.type.is_block() and all(k in _WHOLE + _FLOATS for k in kinds)


def quick_store(slow: Callable[..., Any]) -> Callable[..., Any]:
    """The interpreter's store to a block of addresses, which looks at types once."""
    forms: dict[Any, _Form] = {}
    filled = _filler()

    def store(self: Any, ptr: Any, val: Any, mask: Any, boundary: Any, *how: Any) -> Any:
        key = ptr.type.name, mask is None or mask.type.name, val.type.name
        if boundary or key not in forms:
            result = slow(self, ptr, val, mask, boundary, *how)
            if _plain(ptr, mask, val):
                forms[key] = _form(result)
            return result
        if mask is None:
            return filled(forms[key], self.builder.create_store(ptr.handle, val.handle, *how))
        return filled(
            forms[key],
            self.builder.create_masked_store(ptr.handle, val.handle, mask.handle, *how),
        )

    return store


def _plain(ptr: Any, mask: Any, value: Any) -> bool:
    """Whether nothing is to be stretched or converted before the addresses are used."""
    if not ptr.type.is_block():
        return False
    shape, element = ptr.type.shape, ptr.type.scalar.element_ty.name
    others = [(mask, "int1"), (value, element)]
    return all(
        x is None or (x.type.is_block() and x.type.shape == shape and x.type.scalar.name == kind)
        for x, kind in others
    )


def quick_dot(slow: Callable[..., Any]) -> Callable[..., Any]:
    """The interpreter's product of two blocks, which looks at types once."""
    from triton.runtime.interpreter import TensorHandle

    known: dict[Any, tuple[_Form, Any]] = {}
    filled = _filler()

    def dot(self: Any, lhs: Any, rhs: Any, acc: Any, *how: Any) -> Any:
        *precision, kind = how
        key = lhs.type.name, rhs.type.name, acc is None or acc.type.name, *precision, kind.name
        if key not in known:
            result = slow(self, lhs, rhs, acc, *how)
            if lhs.type.scalar.name in _FLOATS:
                zeros = np.zeros_like(result.handle.data)
                known[key] = _form(result), TensorHandle(zeros, result.handle.dtype)
            return result
        form, zeros = known[key]
        start = zeros if acc is None else acc.handle
        return filled(form, self.builder.create_dot(lhs.handle, rhs.handle, start, *precision))

    return dot


def _form(result: Any) -> _Form:
    return _Form(result.type, result.dtype, result.numel, result.shape)


def _plan(name: str, tensor: Any, other: Any, result: Any) -> _Plan | None:
    """How to make results like this one, or None where only the interpreter knows."""
    element, is_number = tensor.type.scalar, isinstance(other, (int, float))
    kind = element.name
    if not isinstance(result.handle.data, np.ndarray):
        return None
    if element.is_ptr():
        offsets = isinstance(other, int) if is_number else other.type.scalar.name in _WHOLE
        width = max(1, element.element_ty.primitive_bitwidth // 8)
        fitting = offsets and name in ("__add__", "__radd__")
        return _Plan(_form(result), np.int32, width) if fitting else None
    known = _WHOLE + _FLOATS
    if name in _BITS:
        known = _WHOLE if is_number else ("int1", *_WHOLE)
    elif name == "__truediv__":
        known = "fp32", "fp64"
    if isinstance(other, float):
        fitting = kind in _FLOATS and name not in _ORDER  # an order compares in the number's type
    else:
        fitting = is_number or other.type.scalar.name == kind
    if kind not in known or not fitting:
        return None
    first = is_number and name in ("__radd__", "__rmul__")
    return _Plan(_form(result), tensor.handle.data.dtype, number_first=first)
