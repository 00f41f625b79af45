"""What public functions ask of their arguments: tensors, of one dtype, on one device."""

from __future__ import annotations

from typing import Any

import torch

MAX_WIDTH = 256  # widest head: rows any wider leave no room for a tile in the registers
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def assert_tensors(function: str, optional: tuple[str, ...] = (), **given: Any) -> None:
    """Refuse lists, numbers, arrays and None where a tensor is meant.

    Args:
        function: what the error message calls the function.
        optional: names of arguments that may be None.
        given: the arguments, by name.

    Raises:
        TypeError: an argument is no ``torch.Tensor``.

    >>> assert_tensors("f", lengths=[3, 5])
    Traceback (most recent call last):
    TypeError: f: lengths must be a tensor, got list. Next: torch.as_tensor(lengths).
    """
    for name, value in given.items():
        if isinstance(value, torch.Tensor) or (value is None and name in optional):
            continue
        got = "None" if value is None else type(value).__name__
        if type(value).__module__ == "numpy":
            got = f"a NumPy {got}"
        following = f"pass a tensor as {name}" if value is None else f"torch.as_tensor({name})"
        raise TypeError(f"{function}: {name} must be a tensor, got {got}. Next: {following}.")


def assert_dtype(function: str, twin: str, **given: torch.Tensor) -> None:
    """Refuse tensors of several dtypes, or of one that no matrix product takes.

    Args:
        function: what the error message calls the function.
        twin: its twin in PyTorch, which takes float64.
        given: the tensors, by name.

    Raises:
        TypeError: the dtypes differ, or are none of ``DTYPES``.
    """
    (first, x), *others = given.items()
    if any(other.dtype != x.dtype for _, other in others):
        names, dtypes = list(given), [str(tensor.dtype) for tensor in given.values()]
        casts = ", ".join(f"{name}.to({first}.dtype)" for name, _ in others)
        raise TypeError(
            f"{function}: {_and(names)} must have one dtype, got {_and(dtypes)}. Next: {casts}."
        )
    if x.dtype not in DTYPES:
        raise TypeError(
            f"{function}: expected float16, bfloat16 or float32, got {x.dtype}. "
            f"Next: x.float(); for float64, {twin}."
        )


def assert_one_device(function: str, *tensors: torch.Tensor | None) -> None:
    """Refuse tensors on several devices.

    Raises:
        ValueError: the tensors that are not None are on more than one device.
    """
    devices = sorted({str(x.device) for x in tensors if x is not None})
    if len(devices) > 1:
        raise ValueError(
            f"{function}: all tensors must be on one device, got {_and(devices)}. "
            f"Next: x.to(q.device)."
        )


def assert_width(function: str, twin: str, letter: str, width: int) -> None:
    """Refuse heads wider than the kernels' tiles.

    Raises:
        ValueError: the width is not 1 to ``MAX_WIDTH``.
    """
    if not 1 <= width <= MAX_WIDTH:
        raise ValueError(
            f"{function}: heads are {letter}={width} wide; expected 1 to {MAX_WIDTH}, what a "
            f"GPU's registers hold. Likely cause: heads not split off yet. Next: more heads, each "
            f"narrower, or {twin}, which takes any width."
        )


def _and(words: list[str]) -> str:
    """Join words: "q, k and v"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def autocast(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """Cast to autocast's dtype where autocast is on, as ``torch.matmul`` does."""
    kind = tensors[0].device.type
    if not torch.is_autocast_enabled(kind):
        return list(tensors)
    dtype = torch.get_autocast_dtype(kind)
    exempt = (torch.float64, *(x.dtype for x in tensors if not x.is_floating_point()))
    return [x if x.dtype in exempt else x.to(dtype) for x in tensors]
