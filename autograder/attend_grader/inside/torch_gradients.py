"""Gradients of a candidate that is written in torch (imported only when a check asks)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


def gradients(
    target: Callable[..., Any], args: tuple, kwargs: dict, wanted: dict[str, Any]
) -> dict[str, Any]:
    """Call ``target`` and pull ``wanted["cotangents"]`` back to inputs and parameters.

    Args:
        target: function, module or method of a module; returns one tensor or a tuple of tensors.
        args: positional arguments; those at the positions in ``wanted["wrt"]`` need gradients.
        kwargs: keyword arguments.
        wanted: ``wrt`` (positions), ``parameters`` (names, for a module) and ``cotangents``
            (one tensor for each output, same shapes).

    Returns:
        ``value`` (the detached outputs) and ``gradients`` (position or parameter name → tensor,
        or None where the output does not depend on it through the graph). There are no gradients
        of outputs that do not fit the cotangents.
    """
    leaves: dict[Any, torch.Tensor] = {}
    moved = list(args)
    for position in wanted.get("wrt", ()):
        moved[position] = args[position].clone().requires_grad_(True)
        leaves[position] = moved[position]
    if wanted.get("parameters"):
        module: Any = getattr(target, "__self__", target)  # a module's own method
        named = dict(module.named_parameters())
        leaves |= {name: named[name] for name in wanted["parameters"]}
    value = target(*moved, **kwargs)
    outputs: Sequence[torch.Tensor] = value if isinstance(value, (tuple, list)) else (value,)
    plain = tuple(o.detach() if isinstance(o, torch.Tensor) else o for o in outputs)
    answer = {"value": plain if isinstance(value, (tuple, list)) else plain[0], "gradients": {}}
    shapes = [o.shape if isinstance(o, torch.Tensor) else None for o in outputs]
    if shapes != [c.shape for c in wanted["cotangents"]]:
        return answer
    pulled: Sequence[torch.Tensor | None] = [None] * len(leaves)
    pairs = [(o, c) for o, c in zip(outputs, wanted["cotangents"], strict=True) if o.requires_grad]
    if pairs:
        pulled = torch.autograd.grad(
            [o for o, _ in pairs],
            list(leaves.values()),
            [c for _, c in pairs],
            allow_unused=True,
        )
    return answer | {"gradients": dict(zip(leaves, pulled, strict=True))}
