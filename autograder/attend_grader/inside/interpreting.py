"""Triton's interpreter at less cost: it computes the same, from less Python.

A kernel of small blocks spends nearly all its time in the interpreter's own work on types and
shapes. :func:`replacements` does that work once for each type or shape, where the interpreter does
it for each operation. It fits the version of Triton named in ``KNOWN``; with others, kernels run in
the interpreter as it is.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from attend_grader.inside import operators

KNOWN = "3.7."
"""Versions of Triton that these replacements were written for and tested with."""

_found: dict[Any, list[tuple[str, Any, Any]]] = {}
"""(name, function, the same to compute here) of Triton's own, by module or class of its language.
"""


def patch_builtins(package: Any, builder: Any, scope: Any) -> None:
    """Stand in for the interpreter's ``_patch_builtin``.

    It lets each of the language's own functions compute here, from a launch to its end. It is
    called at each launch and, in vain, at each call of a function such as ``tl.sum`` within one:
    a fifth of all time.
    """
    from triton.language.core import is_builtin

    del builder
    if package not in _found:
        members = [pair for pair in inspect.getmembers(package) if is_builtin(pair[1])]
        if not members:  # within a launch
            return
        _found[package] = [
            (name, member, _quick(package, name, _computed(member))) for name, member in members
        ]
    for name, member, computed in _found[package]:
        if getattr(package, name) is not member:  # within a launch
            return
        scope.set_attr(package, name, computed)


def _computed(member: Callable[..., Any]) -> Callable[..., Any]:
    from triton.language import core
    from triton.runtime.interpreter import interpreter_semantic

    @core.builtin
    def marked() -> None:
        """Shows what a function is wrapped in that is marked as the language's own."""

    alone = getattr(member, "__code__", None) is marked.__code__  # no method made of a function
    plain = vars(member)["__wrapped__"] if alone else member

    def computed(*args: Any, **kwargs: Any) -> Any:
        kwargs["_semantic"] = interpreter_semantic
        return plain(*args, **kwargs)

    return computed


def _quick(package: Any, name: str, computed: Callable[..., Any]) -> Callable[..., Any]:
    """The same, quicker where the package is the language's tensor and its version is known."""
    from triton.language import core

    known = package is core.tensor and replacements()
    return operators.quick(name, computed) if known else computed


@cache
def replacements() -> list[tuple[Any, str, Any]]:
    """(module or class, name, what to put in its place) for Triton's interpreter.

    Nothing where this version of Triton is not one of ``KNOWN``.
    """
    import triton
    from triton.language import core
    from triton.language.semantic import TritonSemantic
    from triton.runtime import interpreter

    if not triton.__version__.startswith(KNOWN):
        return []
    numpy_types: dict[str, Any] = {}
    blocks: dict[tuple[int, ...], tuple[Any, int, str]] = {}
    shapes: dict[tuple[int, ...], tuple[Any, Any]] = {}
    languages: dict[Any, list[Any]] = {}
    patch_all = interpreter._patch_lang
    find_type, make_block = interpreter._get_np_dtype, core.block_type.__init__
    equal_types, broadcast = core.dtype.__eq__, TritonSemantic.broadcast_impl_value
    constexpr, sequence, pair = core.constexpr, core.tuple, (tuple, list)

    def unwrapped(value: Any) -> Any:
        kind = type(value)
        if kind is constexpr:
            return value.value
        if kind is sequence:
            return sequence([unwrapped(item) for item in value.values], value.type)
        if isinstance(value, pair):
            items = [unwrapped(item) for item in value]
            return items if isinstance(value, list) else core._tuple_create(value, items)
        return value.value if isinstance(value, constexpr) else value

    def numpy_type(kind: Any) -> Any:
        name = kind.scalar.name
        if name not in numpy_types:
            numpy_types[name] = find_type(kind)
        return numpy_types[name]

    def block_type(self: Any, element: Any, shape: Any) -> None:
        key = tuple([size.value if type(size) is constexpr else size for size in shape])
        if key not in blocks:
            make_block(self, element, shape)
            blocks[key] = self.shape, self.numel, f"<{self.shape}, "
        self.element_ty = element
        self.shape, self.numel, name = blocks[key]
        self.name = f"{name}{element}>"

    def tensor(self: Any, handle: Any, kind: Any) -> None:
        key = tuple(kind.shape.values) if kind.is_block() else ()
        if key not in shapes:
            sizes = [constexpr(size) for size in key]
            shapes[key] = constexpr(math.prod(key)), sequence(sizes)
        self.handle, self.type, self.dtype = handle, kind, kind.scalar
        self.numel, self.shape = shapes[key]

    def same_type(self: Any, other: Any) -> bool:
        return self is other or equal_types(self, other)

    def same_shape(self: Any, other: Any) -> Any:
        values = unwrapped(list(other.values if type(other) is sequence else other))
        return constexpr(self.values == values)

    def splat(self: Any, value: Any, like: Any) -> Any:
        handle, shape = value.handle, like.shape.values
        data = np.empty(shape, numpy_type(handle.dtype))
        data[...] = handle.data
        kind = core.block_type(value.type.scalar, shape)
        return self.tensor(interpreter.TensorHandle(data, handle.dtype.scalar), kind)

    def stretched(self: Any, value: Any, shape: list[int]) -> Any:
        if value.type.shape.values == shape:
            return value
        data = np.broadcast_to(value.handle.data, shape)
        kind = core.block_type(value.type.scalar, shape)
        return self.tensor(interpreter.TensorHandle(data, value.handle.dtype.scalar), kind)

    def broadcast_values(self: Any, lhs: Any, rhs: Any) -> Any:
        left, right = lhs.type, rhs.type
        if not left.is_block():
            return (splat(self, lhs, right) if right.is_block() else lhs), rhs
        if not right.is_block():
            return lhs, splat(self, rhs, left)
        sizes = left.shape.values, right.shape.values
        if sizes[0] == sizes[1]:
            return lhs, rhs
        if len(sizes[0]) != len(sizes[1]):
            return broadcast(self, lhs, rhs)
        shape = [b if a == 1 else a for a, b in zip(*sizes, strict=True)]
        if any(b not in (1, size) for b, size in zip(sizes[1], shape, strict=True)):
            return broadcast(self, lhs, rhs)  # which says why not
        return stretched(self, lhs, shape), stretched(self, rhs, shape)

    def patch_language(function: Any) -> Any:
        if function not in languages:
            known = core, triton.language
            found = [each for each in function.__globals__.values() if inspect.ismodule(each)]
            languages[function] = [each for each in found if each in known]
        patched = core.tensor.__add__, *(each.load for each in languages[function])
        if languages[function] and not any(core.is_builtin(member) for member in patched):
            return interpreter._LangPatchScope()  # a call of a function within a launch
        return patch_all(function)

    return [
        (core, "_unwrap_if_constexpr", unwrapped),
        (core.dtype, "__eq__", same_type),
        (core.block_type, "__init__", block_type),
        (core.tensor, "__init__", tensor),
        (sequence, "__eq__", same_shape),
        (interpreter, "_patch_lang", patch_language),
        (interpreter, "_get_np_dtype", numpy_type),
        (TritonSemantic, "broadcast_impl_value", broadcast_values),
        # it asserts nothing: device_assert does nothing in the interpreter
        (TritonSemantic, "binary_op_sanitize_overflow_impl", lambda *_: None),
        (TritonSemantic, "_load_legacy", operators.quick_load(TritonSemantic._load_legacy)),
        (TritonSemantic, "_store_legacy", operators.quick_store(TritonSemantic._store_legacy)),
        (TritonSemantic, "dot", operators.quick_dot(TritonSemantic.dot)),
    ]
