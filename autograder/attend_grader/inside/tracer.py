"""Triton kernels in the interpreter, with every load and store recorded with its program.

The interpreter forgives what a GPU does not: an address outside a buffer reads what lies there,
and programs run one after another, so no race ever shows. Under :func:`traced` an access outside
its buffer is recorded and not carried out, fresh memory holds a pattern that is NaN, and elements
that two programs touch are noticed. What a right kernel computes stays the same to the bit.

Works with Triton's interpreter (``TRITON_INTERPRET=1`` before Triton is imported).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from attend_grader.inside.interpreting import patch_builtins, replacements
from attend_grader.inside.memory import poisoned
from attend_grader.inside.recorder import Tracer

_active: list[Tracer] = []
_untraced: dict[tuple[Any, str], Any] = {}
"""Triton's own methods, as they were before the first tracer."""


def active() -> bool:
    """Whether a tracer is at work."""
    return bool(_active)


@contextmanager
def traced(*, log: bool = False, zeros: bool = False) -> Iterator[Tracer]:
    """Record every launch of an interpreted kernel meanwhile.

    Args:
        log: also keep each access, for pictures.
        zeros: where a load masks lanes out and names no ``other``, they hold 0 and not NaN.

    Raises:
        RuntimeError: Triton's interpreter is not in use.
    """
    if os.environ.get("TRITON_INTERPRET") != "1":
        raise RuntimeError("kernels are traced in Triton's interpreter: TRITON_INTERPRET=1")
    from triton.language import int1
    from triton.language.semantic import TritonSemantic
    from triton.runtime import interpreter

    tracer = Tracer(log=log)
    builder, executor = interpreter.InterpreterBuilder, interpreter.GridExecutor
    saved: list[tuple[Any, str, Any]] = []

    def patch(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        saved.append((owner, name, getattr(owner, name)))
        original = _untraced.setdefault((owner, name), getattr(owner, name))
        setattr(owner, name, make(original))  # a tracer within another one works alone

    def load(before: Any) -> Any:
        def masked_load(self: Any, ptrs: Any, mask: Any, other: Any, *rest: Any) -> Any:
            allowed = tracer.access(ptrs.data, mask.data, store=False)
            narrowed = interpreter.TensorHandle(allowed, int1)  # a block's mask is a bare array
            made = before(self, ptrs, narrowed, other, *rest)
            if np.count_nonzero(allowed) == allowed.size:
                tracer.loaded(ptrs.data, allowed, made.data)
                return made
            filled = other is not None or tracer.filled or zeros
            lost = np.asarray(mask.data, bool) & ~allowed if filled else ~allowed
            if not filled:
                tracer.left(np.asarray(mask.data, bool))
            if lost.any() and made.data.dtype.kind == "f":
                made.data = np.where(lost, np.nan, made.data).astype(made.data.dtype)
            tracer.loaded(ptrs.data, allowed, made.data)
            return made

        return masked_load

    def asked(before: Any) -> Any:
        def semantic_load(self: Any, ptr: Any, mask: Any, other: Any, *rest: Any) -> Any:
            tracer.filled = other is not None  # the interpreter drops a single 0 on the way
            try:
                return before(self, ptr, mask, other, *rest)
            finally:
                tracer.filled = False

        return semantic_load

    def store(before: Any) -> Any:
        def masked_store(self: Any, ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
            allowed = tracer.access(ptrs.data, mask.data, store=True)
            return before(self, ptrs, value, interpreter.TensorHandle(allowed, int1), *rest)

        return masked_store

    def rmw(before: Any) -> Any:
        def atomic_rmw(self: Any, op: Any, ptr: Any, val: Any, mask: Any, *rest: Any) -> Any:
            shared = rest[-1].name != "CTA"  # that scope orders one program's own threads only
            allowed = tracer.access(ptr.data, mask.data, store=True, atomic=shared)
            narrowed = interpreter.TensorHandle(allowed, mask.dtype)
            return before(self, op, ptr, val, narrowed, *rest)

        return atomic_rmw

    def cas(before: Any) -> Any:
        def atomic_cas(self: Any, ptr: Any, *rest: Any) -> Any:
            every = np.ones_like(ptr.data, dtype=bool)
            if not tracer.access(ptr.data, every, store=True, atomic=True).all():
                raise IndexError("an atomic compare-and-swap outside every buffer")
            return before(self, ptr, *rest)

        return atomic_cas

    def arguments(before: Any) -> Any:
        del before

        def guarded(self: Any, args: Any, kwargs: Any) -> Any:
            names = [*self.arg_names, *(f"argument {i}" for i in range(len(args)))]
            tracer.begin(
                self.fn, {**dict(zip(names, args, strict=False)), **kwargs}, self.constexprs
            )
            with torch._C.DisableTorchFunction():  # bans, say, look at torch functions one by one
                moved = [tracer.guard(name, arg) for name, arg in zip(names, args, strict=False)]
                return moved, {name: tracer.guard(name, arg) for name, arg in kwargs.items()}

        return guarded

    def call(before: Any) -> Any:
        def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
            tracer.options = kwargs
            return before(self, *args, **kwargs)

        return noted

    def told(note: Callable[..., None]) -> Callable[[Any], Any]:
        def make(before: Any) -> Any:
            def method(self: Any, *args: int) -> Any:
                note(*args)
                return before(self, *args)

            return method

        return make

    if hasattr(interpreter, "_patch_builtin"):  # its own, and slower
        patch(interpreter, "_patch_builtin", lambda before: patch_builtins)
    for owner, name, quicker in replacements():
        patch(owner, name, lambda before, quicker=quicker: quicker)
    patch(TritonSemantic, "load", asked)
    patch(builder, "create_masked_load", load)
    patch(builder, "create_masked_store", store)
    patch(builder, "create_atomic_rmw", rmw)
    patch(builder, "create_atomic_cas", cas)
    patch(builder, "set_grid_idx", told(tracer.at))
    patch(builder, "set_grid_dim", told(tracer.dims))
    patch(executor, "__call__", call)
    patch(executor, "_init_args_hst", arguments)
    patch(executor, "_restore_args_dev", lambda before: lambda self, *args: tracer.end())
    _active.append(tracer)
    try:
        with poisoned(tracer.fresh):
            yield tracer
    finally:
        _active.pop()
        for owner, name, original in reversed(saved):
            setattr(owner, name, original)
