"""What public functions ask of any argument: to be a tensor at all."""

from __future__ import annotations

from typing import Any

import torch


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
