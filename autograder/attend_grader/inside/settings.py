"""Settings of a process that a notebook may have changed, as checks need them."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numpy import errstate  # as it is now: submitted code may put another in its place


def torch_if_imported() -> Any:
    """The module torch, or None; submitted code may have put something else in its place."""
    torch = sys.modules.get("torch")
    return torch if getattr(torch, "__name__", "") == "torch" else None


@contextmanager
def graph(kept: bool) -> Iterator[None]:
    """Torch's graph, or ``torch.no_grad()``."""
    torch = torch_if_imported()
    if kept or torch is None:
        yield
        return
    torch.set_grad_enabled(False)
    try:
        yield
    finally:
        torch.set_grad_enabled(True)


@contextmanager
def usual_settings() -> Iterator[None]:
    """Numbers as they come: torch's dtype, device and gradients, and NumPy's warnings.

    ``torch.set_default_dtype(torch.float64)`` at the top of a notebook is no mistake, and would
    make every new parameter one of another type than the exercise's.
    """
    torch = torch_if_imported()
    with errstate(divide="warn", over="warn", under="ignore", invalid="warn"):
        if torch is None:
            yield
            return
        dtype, enabled = torch.get_default_dtype(), torch.is_grad_enabled()
        if dtype == torch.float32 and enabled:
            yield
            return
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(True)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(enabled)


@contextmanager
def no_input() -> Iterator[None]:
    """An error in place of ``input()``, which nobody would answer."""

    def refuse(prompt: object = "") -> str:
        del prompt
        raise RuntimeError("input() was called: a checked function gets all it needs as arguments")

    saved, builtins.input = builtins.input, refuse
    try:
        yield
    finally:
        builtins.input = saved
