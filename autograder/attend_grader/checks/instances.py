"""Instances of a reference that is a class: modules, with the parameters that calls give them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from attend_grader.checks.probe import Call
from attend_grader.inside.parameters import load


def target_of(reference: Callable[..., Any], call: Call) -> Any:
    """What the reference is called on; modules built alike are one, with parameters in turn."""
    if call.build is None or call.parameters is None:
        return instance(reference, call)
    module = shared(reference, call.build)
    if module.parameters is not call.parameters:
        load(module.module, dict(call.parameters))
        module.parameters = call.parameters
    return module.module


@dataclass
class Shared:
    """A module of the reference, and the parameters that it was given last."""

    module: Any
    parameters: Any = None


def shared(reference: Callable[..., Any], build: Call) -> Shared:
    """The module that the reference's class makes of these arguments; the same each time."""
    try:
        return _made(reference, *build.args, **build.kwargs)
    except TypeError:  # an argument that cannot be a key
        return Shared(reference(*build.args, **build.kwargs))


@lru_cache(maxsize=64, typed=True)
def _made(reference: Callable[..., Any], *args: Any, **kwargs: Any) -> Shared:
    return Shared(reference(*args, **kwargs))


def instance(reference: Callable[..., Any], call: Call) -> Any:
    """What the reference is called on: of a class, a new module with the call's parameters."""
    if call.build is None:
        return reference
    made = reference(*call.build.args, **call.build.kwargs)
    if call.parameters is not None:
        load(made, dict(call.parameters))
    return made
