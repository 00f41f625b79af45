"""The short way of a call that nobody differentiates or compiles, whose like was checked before.

Checking a call in words takes the CPU 10 to 40 µs, and PyTorch's dispatch of an operator made in
Python as long again: more than the kernels of a decoding step take. All that the checks look at,
values apart, is the shapes, strides, dtypes and devices of the tensors and the options. So a call
that passed them is remembered by those, and the next one like it goes straight to its kernel.

The long way is taken where somebody has to see the operator: autograd, ``torch.compile``, a
dispatch mode, ``torch.func``, a subclass of tensors; and, for functions that cast their arguments
then, under ``torch.autocast``. What fails a check is never remembered, so errors are those of the
long way.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch

from attend_kernels.common import fallback

Key = tuple[Hashable, ...] | None
MOST = 4096  # calls remembered: lengths that grow by the step must not grow this too
PLAIN = (torch.Tensor, torch.nn.Parameter)


class Known:
    """Calls of one function that passed its checks, and what was worked out for each.

    Args:
        casts: the function casts its arguments under ``torch.autocast``.
    """

    def __init__(self, casts: bool = False) -> None:
        self._casts = casts
        self._found: dict[Hashable, Any] = {}

    def key(self, tensors: tuple[torch.Tensor | None, ...], *options: Hashable) -> Key:
        """Return what tells this call from others, or None where it must take the long way.

        Args:
            tensors: the tensor arguments in order, the first of them not None.
            options: all other arguments.
        """
        if torch.compiler.is_compiling() or _watched():
            return None
        learns = torch.is_grad_enabled()
        parts: list[Hashable] = [*options]
        for x in tensors:
            if x is None:
                parts.append(None)
                continue
            if type(x) not in PLAIN or (learns and x.requires_grad):
                return None
            parts += (x.shape, x.stride(), x.dtype, x.device)
        first = tensors[0]
        if first is None or first.is_meta or fallback.why_not(first):
            return None
        if self._casts and torch.is_autocast_enabled(first.device.type):
            return None
        return tuple(parts)

    def find(self, key: Key) -> Any:
        """Return what ``keep`` was given for a call like this one, or None."""
        if key is None:
            return None
        try:
            return self._found.get(key)
        except TypeError:  # an option that has no hash: the checks will say what they think of it
            return None

    def keep(self, key: Key, value: Any = True) -> None:
        """Remember a call that passed all checks."""
        if key is None:
            return
        if len(self._found) >= MOST:
            self._found.clear()
        try:
            self._found[key] = value
        except TypeError:  # no hash: every such call is checked
            return


def _watched() -> bool:
    """Whether a dispatch mode or a transform of ``torch.func`` is on, which must see operators."""
    return bool(
        torch._C._len_torch_dispatch_stack()  # pyright: ignore[reportAttributeAccessIssue]
        or torch._C._functorch.peek_interpreter_stack() is not None
    )
