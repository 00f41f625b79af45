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
        args: positional arguments; those at the positions in ``wanted["wrt"]`` need gradients:
            tensors, or tuples of tensors. A change in place shows in them.
        kwargs: keyword arguments; likewise by name.
        wanted: ``wrt`` (positions and names), ``parameters`` (names, for a module) and
            ``cotangents`` (one tensor for each output, same shapes); ``computed`` where arguments
            are to be no leaves of the graph, but results, as in a model.

    Returns:
        ``value`` (the detached outputs) and ``gradients`` (position, ``"1[0]"`` for the first
        tensor of the tuple at position 1, or parameter name → tensor, or None where the output
        does not depend on it through the graph). There are no gradients of outputs that do not
        fit the cotangents. ``loose`` are the positions of floating outputs that hang on no graph.
    """
    leaves: dict[Any, torch.Tensor] = {}
    moved, named = list(args), dict(kwargs)
    for key in wanted.get("wrt", ()):
        place: Any = moved if isinstance(key, int) else named
        place[key] = _leaf(place[key])
        if isinstance(place[key], tuple):
            leaves |= {f"{key}[{i}]": leaf for i, leaf in enumerate(place[key])}
        else:
            leaves[key] = place[key]
        if wanted.get("computed"):
            place[key] = _result(place[key])
    if wanted.get("parameters"):
        module: Any = getattr(target, "__self__", target)  # a module's own method
        own = dict(module.named_parameters())
        leaves |= {name: own[name] for name in wanted["parameters"]}
    value = target(*moved, **named)
    for key in wanted.get("wrt", ()):
        given: Any = args if isinstance(key, int) else kwargs
        _copy_back(given[key], moved[key] if isinstance(key, int) else named[key])
    outputs: Sequence[torch.Tensor] = value if isinstance(value, (tuple, list)) else (value,)
    plain = tuple(o.detach() if isinstance(o, torch.Tensor) else o for o in outputs)
    answer = {"value": plain if isinstance(value, (tuple, list)) else plain[0], "gradients": {}}
    answer["loose"] = [
        index
        for index, o in enumerate(outputs)
        if isinstance(o, torch.Tensor) and o.is_floating_point() and not o.requires_grad
    ]
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


def through(
    question: Callable[[dict[str, Any]], Any],
    wanted: dict[str, Any],
    needing: dict[int | str, torch.Tensor],
) -> Any:
    """A reference's value, asked for with ``question``, through which gradients flow back.

    Args:
        question: asks the grader's side.
        wanted: what is asked: ``name``, ``args`` and ``kwargs``.
        needing: position or name → the argument whose gradient is needed.

    Returns:
        a tensor or a tuple of tensors; without gradients where it is anything else.
    """
    value = question(wanted)
    several = isinstance(value, tuple)
    outputs = value if several else (value,)
    if not all(isinstance(o, torch.Tensor) and o.is_floating_point() for o in outputs):
        return value
    carried = _Asked.apply(question, wanted, tuple(needing), outputs, *needing.values())
    return carried if several else carried[0]


class _Asked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, question: Any, wanted: Any, keys: Any, outputs: Any, *needing: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        del needing
        ctx.question, ctx.wanted, ctx.keys = question, wanted, keys
        return tuple(output.clone() for output in outputs)

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]  # of these outputs
        asked = {"wrt": list(ctx.keys), "cotangents": list(cotangents)}
        found = ctx.question({**ctx.wanted, "gradients": asked})
        return (None, None, None, None, *(found[key] for key in ctx.keys))


def _copy_back(given: Any, leaf: Any) -> None:
    """What was done to the leaf in place was done to the argument."""
    if isinstance(given, (tuple, list)):
        for item, its in zip(given, leaf, strict=True):
            _copy_back(item, its)
    elif not torch.equal(given, leaf.detach()):
        given.copy_(leaf.detach())


def _result(value: Any) -> Any:
    """The same numbers as what comes of others."""
    return tuple(map(_result, value)) if isinstance(value, tuple) else 1 * value


def _leaf(value: Any) -> Any:
    """A copy that asks for gradients."""
    if isinstance(value, (tuple, list)):
        return tuple(_leaf(item) for item in value)
    return value.clone().requires_grad_(True)
