"""Torch's forbidden functions: seen where Python calls them, and refused in the dispatcher.

A function mode sees each call of torch's Python interface that is not made within another one: of
``F.cross_entropy``, which takes a softmax inside, only the former. The dispatcher sees everything,
TorchScript included, so its operators let pass what is called within a function that was seen and
is allowed.
"""

from __future__ import annotations

import functools
import os
import sys
import types
import warnings
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from attend_grader.inside.telling import NotAllowed

_HOME = os.path.join(os.path.dirname(torch.__file__), "")
_FUSED = (
    "scaled_dot_product",
    "multi_head_attention",
    "flash_attention",
    "efficient_attention",
    "transformer_encoder_layer",
)
"""Parts of the names of operators that are a finished attention."""

_ATTENTION = frozenset(("scaled_dot_product_attention", "MultiheadAttention"))
_PREFIXES = ("_", "special_", "native_", "fused_", "safe_")


@functools.cache
def forbidden(names: frozenset[str]) -> frozenset[str]:
    """Names of functions and operators that these dotted names forbid.

    Where all of torch is forbidden the function mode alone refuses: there are 3,000 operators.
    """
    last = frozenset(name.rpartition(".")[2] for name in names if name != "torch")
    found = {operator for operator, plain in operators().items() if plain in last}
    if last & _ATTENTION:
        found |= {operator for operator in operators() if any(part in operator for part in _FUSED)}
    return last | {name for name in found if "backward" not in name}


@functools.cache
def operators() -> dict[str, str]:
    """All of torch's operators: name → what it is called without prefix and underscores."""
    every = torch._C._dispatch_get_all_op_names()
    names = {name[6:].partition(".")[0] for name in every if name.startswith("aten::")}
    return {name: _plain(name) for name in names}


def _plain(operator: str) -> str:
    """``_safe_softmax`` → ``softmax``; ``softmax_`` → ``softmax``."""
    name = operator.removesuffix("_")
    while prefix := next((p for p in _PREFIXES if name.startswith(p)), ""):
        name = name.removeprefix(prefix)
    return name


class _Mode(TorchFunctionMode):
    """Refuses functions of these names; all functions where ``"torch"`` is among them."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__()
        self._names = names
        self._all = "torch" in names
        self._allowed: set[Any] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in self._allowed:
            name = getattr(func, "__name__", "")
            if self._all or name in self._names or name.partition(".")[0] in self._names:
                raise NotAllowed(name)
            self._allowed.add(func)
        return func(*args, **kwargs) if kwargs else func(*args)


_SEEN = _Mode.__torch_function__.__code__


def mode(names: frozenset[str]) -> TorchFunctionMode:
    """Refuses forbidden functions, within ``with``."""
    return _Mode(forbidden(names) | (names & {"torch"}))


class Operators:
    """Forbidden operators refuse in the dispatcher, in this process, until :meth:`lift`."""

    def __init__(self, names: frozenset[str]) -> None:
        self._overloads = [
            overload
            for name in sorted(forbidden(names) & operators().keys())
            for overload in _overloads(name)
        ]
        self._library: Any = None
        self._close()

    def lift(self) -> None:
        """Let everything pass again."""
        if self._library is not None:
            self._library._destroy()
            self._library = None

    def _close(self) -> None:
        self._library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there is another kernel: so there is
            for overload in self._overloads:
                kernel = functools.partial(self._asked, overload)
                self._library.impl(overload, kernel, "AutogradCPU")

    def _asked(self, overload: Any, *args: Any, **kwargs: Any) -> Any:
        if not _within_an_allowed_function():
            raise NotAllowed(overload.name().removeprefix("aten::").partition(".")[0])
        self.lift()
        try:
            return overload(*args, **kwargs)
        finally:
            self._close()


def _overloads(name: str) -> list[Any]:
    packet = getattr(torch.ops.aten, name)
    return [getattr(packet, overload) for overload in packet.overloads()]


def _within_an_allowed_function() -> bool:
    """Whether torch's own code, called through the function mode, asks for the operator."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code is _SEEN:
            return True
        if not frame.f_code.co_filename.startswith(_HOME):
            return False
        frame = frame.f_back
    return False
