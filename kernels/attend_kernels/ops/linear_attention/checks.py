"""What ``linear_attention`` and its step refuse, and what they say comes nearest."""

from __future__ import annotations

import torch

from attend_kernels.common.arguments import assert_dtype, assert_one_device, assert_width
from attend_kernels.common.shapes import assert_shape
from attend_kernels.ops.linear_attention.tiles import CHUNKS


def check(
    function: str,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    state: torch.Tensor | None,
    others: tuple[torch.Tensor | None, ...],
    axes: str = "B H T",
) -> dict[str, int]:
    """Refuse what no kernel can compute; return the sizes.

    Args:
        function: whose error it is.
        q: queries, of ``axes`` and D.
        k: keys, likewise.
        v: values, of ``axes`` and D_v.
        state: the state before, if there is one.
        others: gates and beta, of which only the device is looked at.
        axes: "B H" for a single step.

    Raises:
        ShapeError, ValueError, TypeError: as ``linear_attention``.
    """
    sizes = assert_shape(q, f"{axes} D", name="q")
    sizes = assert_shape(k, f"{axes} D", sizes, name="k")
    sizes = assert_shape(v, f"{axes} D_v", sizes, name="v")
    if state is not None:
        name = "initial_state" if "T" in axes else "state"
        sizes = assert_shape(state, "B H D D_v", sizes, name=name)
        if not state.is_floating_point():
            raise TypeError(
                f"{function}: a state is a sum, expected floating point, got {name} of "
                f"{state.dtype}. Next: {name}.float()."
            )
    twin = "naive_linear_attention"
    for letter in ("D", "D_v"):
        assert_width(function, twin, letter, sizes[letter])
    assert_dtype(function, twin, q=q, k=k, v=v)
    assert_one_device(function, q, k, v, state, *others)
    return sizes


def check_chunk(function: str, chunk: int) -> None:
    """Refuse a chunk that is none of the three."""
    if chunk not in CHUNKS:
        raise ValueError(
            f"{function}: a chunk has 16, 32 or 64 steps, the sizes of a GPU's matrix "
            f"products; got {chunk}. Next: leave it out for 64."
        )


def as_gates(
    function: str,
    decay: torch.Tensor | None,
    gate: torch.Tensor | None,
    sizes: dict[str, int],
    axes: str = "B H T",
) -> torch.Tensor | None:
    """Write a decay a head as gates a step, which take no memory; refuse what are no gates."""
    if decay is not None and gate is not None:
        raise ValueError(
            f"{function}: expected decay or gate, got both. Next: gate + decay[:, None], one gate "
            f"a step, does what you mean."
        )
    given = decay if decay is not None else gate
    if given is None:
        return None
    if not given.is_floating_point():
        raise TypeError(
            f"{function}: gates are logarithms, expected floating point, got {given.dtype}. "
            f"Next: decay=torch.log(gamma), gate=torch.nn.functional.logsigmoid(x)."
        )
    if decay is not None:
        assert_shape(decay, "H", sizes, name="decay")
        steps = [sizes["T"]] if "T" in axes else []
        return decay.reshape(1, -1, *[1] * len(steps)).expand(sizes["B"], -1, *steps)
    wide = given.dim() == len(axes.split()) + 1
    assert_shape(given, f"{axes} D" if wide else axes, sizes, name="gate")
    if wide:
        check_falling(function, given)
    return given


def check_falling(function: str, gate: torch.Tensor) -> None:
    """Refuse growth; only on a CPU, for to look the CPU would have to wait for a GPU."""
    if gate.is_cuda or torch.compiler.is_compiling() or not gate.numel():
        return
    if bool((gate > 0).any()):
        raise ValueError(
            f"{function}: gates of a key dimension are logarithms of numbers up to 1, so 0 or "
            f"less; got {float(gate.max()):.3g}. Likely cause: the sigmoid itself, not its "
            f"logarithm. Next: torch.nn.functional.logsigmoid(x)."
        )


def check_beta(
    function: str,
    beta: torch.Tensor,
    gate: torch.Tensor | None,
    sizes: dict[str, int],
    axes: str = "B H T",
) -> None:
    """Refuse a beta of the wrong shape or kind, or beside gates of a key dimension.

    ``gate``: as ``as_gates`` gives them; None for a step that needs no gradient, which takes all.
    """
    if gate is not None and gate.dim() == len(axes.split()) + 1:
        least = "" if "T" in axes else " Without a gradient, under torch.no_grad(), one step can."
        raise ValueError(
            f"{function}: expected beta beside a gate a step, got it beside a gate a key "
            f"dimension, of shape {tuple(gate.shape)}. The delta rule's chunks fade all of a state "
            f"alike.{least} Next: a gate of ({', '.join(axes.split())}), a decay a head, or "
            f"naive_linear_attention, which has both."
        )
    assert_shape(beta, axes, sizes, name="beta")
    if not beta.is_floating_point():
        raise TypeError(
            f"{function}: beta says how much to correct, from 0 to 1: expected floating point, got "
            f"{beta.dtype}. Next: torch.sigmoid(x)."
        )
