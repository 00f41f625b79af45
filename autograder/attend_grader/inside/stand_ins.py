"""The course's own earlier functions, asked for over a channel, in the place of the learner's.

A value that comes over the channel has lost its graph. So where an argument needs a gradient, the
stand-in is an ``autograd.Function`` whose backward pass asks the same reference for the gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.exceptions import AxisError

from attend_grader.inside.settings import torch_if_imported

Question = Callable[[dict[str, Any]], Any]
"""Asks the grader's side; takes what the question holds besides its ``op``."""


def raised(error: str) -> Exception:
    """What a reference raised, of the same type where that is a plain one: "ValueError: …".

    A learner's function passes on what an earlier one raises, and a check may ask for its type.
    """
    name, _, message = error.partition(": ")
    plain = (
        ValueError,
        TypeError,
        IndexError,
        KeyError,
        ZeroDivisionError,
        AxisError,
    )
    kind = next((kind for kind in plain if kind.__name__ == name), None)
    return RuntimeError(error) if kind is None else kind(message)


def asking(question: Question) -> Callable[[str, tuple, dict], Any]:
    """What an executor calls for a reference's value: ``ask(name, args, kwargs)``."""

    def ask(name: str, args: tuple, kwargs: dict) -> Any:
        wanted = {"name": name, "args": args, "kwargs": kwargs}
        torch = torch_if_imported()
        if torch is None or not torch.is_grad_enabled():
            return question(wanted)
        values = {**dict(enumerate(args)), **kwargs}
        tensors = {k: v for k, v in values.items() if isinstance(v, torch.Tensor)}
        keys = tuple(key for key, value in tensors.items() if value.requires_grad)
        if not keys:
            return question(wanted)
        from attend_grader.inside.torch_gradients import through

        return through(question, wanted, {key: tensors[key] for key in keys})

    return ask
