"""The arguments of a call as text: small ones such that the call can be pasted and run again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

REPLAYED_ELEMENTS = 16
"""Calls whose arrays are all up to this size are shown whole; others are told by shapes."""

_LINE = 88

HUGE = 1e8


def describe_call(
    function: str, names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str:
    """What was called, and with what.

    Where all arrays are small: Python text that repeats the call, in one line
    (``softmax(np.array([1.0, 2.0]), axis=0)``) or with one array a line, under its name. Otherwise
    names and shapes: ``q (3, 9), k (5, 9) int64, scaled=False``.
    """
    pairs = [*zip(names, args, strict=False), *kwargs.items()]
    if not all(_replayable(value) for _, value in pairs):
        return ", ".join(f"{name}{_shape_of(value)}" for name, value in pairs)
    options = [f"{name}={_literal(value)}" for name, value in kwargs.items()]
    inline = f"{function}({', '.join([*(_literal(value) for value in args), *options])})"
    if len(args) == 1 and len(inline) <= _LINE:
        return inline
    lines = [f"{name} = {_literal(value)}" for name, value in zip(names, args, strict=False)]
    return "\n".join([*lines, f"{function}({', '.join([*names[: len(args)], *options])})"])


def _replayable(value: Any) -> bool:
    """Whether ``value`` can be written down; a view's gaps and order in memory cannot."""
    if isinstance(value, np.ndarray):
        return value.size <= REPLAYED_ELEMENTS and value.flags.c_contiguous
    if _is_tensor(value):
        return value.numel() <= REPLAYED_ELEMENTS and value.is_contiguous()
    if isinstance(value, tuple):
        return all(_replayable(item) for item in value)
    return value is None or isinstance(value, (bool, int, float, str))


def _literal(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(_literal(item) for item in value)}{',' * (len(value) == 1)})"
    if _is_tensor(value):
        kind = str(value.dtype)
        dtype = "" if kind in ("torch.float32", "torch.int64", "torch.bool") else f", dtype={kind}"
        exact = value.double().round(decimals=6) if kind == "torch.float32" else value
        if kind == "torch.float32" and _only_zeros(exact.numpy()):
            return f"torch.zeros({', '.join(map(str, value.shape))})"
        if not value.numel():  # brackets alone would lose the shape and the type
            kind = "" if kind == "torch.float32" else f", dtype={kind}"
            return f"torch.zeros({tuple(value.shape)}{kind})"
        return f"torch.tensor({_nested(exact.tolist()).replace('np.', 'torch.')}{dtype})"
    if not isinstance(value, np.ndarray):
        return repr(value)
    plain = value.dtype in (np.dtype(float), np.dtype(int), np.dtype(bool))
    dtype = "" if plain else f", dtype=np.{value.dtype}"
    if value.dtype == np.dtype(float) and _only_zeros(value):
        return f"np.zeros({value.shape if value.ndim > 1 else len(value)})"
    if not value.size:  # brackets alone would lose the shape and the type
        kind = {"f8": "", "i8": ", dtype=int", "b1": ", dtype=bool"}.get(value.dtype.str[1:], dtype)
        return f"np.zeros({value.shape}{kind})"
    return f"np.array({_nested(value.tolist())}{dtype})"


def _only_zeros(array: np.ndarray) -> bool:
    """Whether it is told in short as zeros: three numbers or more, none of them -0."""
    return array.size > 2 and not array.any() and not np.signbit(array).any()


def _nested(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_nested(item) for item in value)}]"
    if not isinstance(value, float):
        return repr(value)
    # ten digits repeat any case, seventeen hide it; of huge numbers, the last ones may matter
    text = repr(value if abs(value) >= HUGE else float(f"{value:.10g}"))
    return text.replace("inf", "np.inf").replace("nan", "np.nan")


def _shape_of(value: Any) -> str:
    if isinstance(value, tuple):
        return f" of{','.join(_shape_of(item) for item in value)}"
    if isinstance(value, Mapping):
        listed = ", ".join(f"{name}{_shape_of(item)}" for name, item in value.items())
        return f" of {{{listed}}}"
    if not hasattr(value, "shape"):
        return f"={value!r}"
    kind = str(value.dtype)
    usual = kind in ("float64", "torch.float32")
    return f" {tuple(value.shape)}" + ("" if usual else f" {kind.removeprefix('torch.')}")


def _is_tensor(value: Any) -> bool:
    return type(value).__module__.startswith("torch") and hasattr(value, "numel")
