"""Where heads stand: before time, ``"bhtd"`` as PyTorch has it, or after it, ``"bthd"``.

The kernels read any strides, so a layout is a view: nothing is copied, and what comes out lies in
memory as what went in.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Literal

import torch

Layout = Literal["bhtd", "bthd"]
LAYOUTS = ("bhtd", "bthd")
MOST_HEADS = 128  # more than models have: then it is time


def pattern(function: str, layout: str, axes: str) -> str:
    """Write the axes of ``assert_shape``, given as "B H T D", in the caller's order.

    Raises:
        ValueError: there is no such layout.

    >>> pattern("f", "bthd", "B G S D")
    'B S G D'
    """
    if layout not in LAYOUTS:
        raise ValueError(
            f"{function}: layout must be 'bhtd' (heads before time) or 'bthd' (time before heads), "
            f"got {layout!r}. Next: leave it out for 'bhtd'."
        )
    if layout == "bhtd":
        return axes
    first, heads, time, *rest = axes.split()
    return " ".join((first, time, heads, *rest))


def heads_first(x: torch.Tensor, layout: Layout) -> torch.Tensor:
    """View ``x`` with heads before time; the same call turns the answer back."""
    return x if layout == "bhtd" else x.transpose(1, 2)


def look_exchanged(function: str, heads: int, tokens: int, layout: Layout) -> None:
    """Warn, once a function, where what is taken for heads is probably time.

    Args:
        function: whose arguments they are.
        heads: how many heads ``layout`` says there are.
        tokens: and how many tokens.
        layout: the layout they were read in.

    Raises:
        UserWarning: as a warning, not an exception, unless the caller's filters say otherwise.
    """
    if torch.compiler.is_compiling():
        return
    if heads > MOST_HEADS and heads > 4 * tokens:
        _warn(function, layout)


@cache
def _warn(function: str, layout: Layout) -> None:
    other = LAYOUTS[layout == "bhtd"]
    warnings.warn(
        f"{function}: layout={layout!r} reads these tensors as more than {MOST_HEADS} heads, and a "
        f"quarter as many tokens at most. Likely cause: axes 1 and 2 are in the other order. "
        f"Next: layout={other!r}, which copies nothing.",
        UserWarning,
        stacklevel=4,
    )
