"""Rotary position embedding (RoPE), fused: every pair of channels is turned by its token's angle.

Equation, for the pair (x_1, x_2) of index i in a token at position m::

    angle  = m base^(-2 i / R)
    out_1  = x_1 cos(angle) - x_2 sin(angle)
    out_2  = x_2 cos(angle) + x_1 sin(angle)

The map is a rotation, so its gradient is the rotation by the opposite angle, and a dot product of
a query at m with a key at n depends on m - n alone. Paper: Su et al. 2021, "RoFormer", equations
14 and 15.

Letters: ``B`` batch, ``H`` heads, ``T`` tokens, ``D`` head dim, ``R`` rotary dim (even, at most D;
the D - R channels behind it pass through), ``P`` positions in the table. The pair of index i is
channels (i, i + R/2): the two halves of the rotary dim (GPT-NeoX, Llama as released by Hugging
Face). With ``interleaved=True`` it is channels (2 i, 2 i + 1), as the paper has it.

Memory traffic, in elements a head and token: least possible, and what the kernel moves, 2 D (x in,
out out), plus R for the table, shared by four heads and mostly read from the cache.
``naive_rope`` moves 9 D: each product, the sum and the two halves go through memory.
"""

from __future__ import annotations

from typing import Never

import torch

from attend_kernels.common import fallback
from attend_kernels.common.arguments import assert_tensors
from attend_kernels.common.foreign import ROPE, refuse
from attend_kernels.common.known import Known
from attend_kernels.common.layout import Layout, heads_first, look_exchanged, pattern
from attend_kernels.common.shapes import ShapeError, assert_shape
from attend_kernels.ops.rope.naive import naive_rope
from attend_kernels.ops.rope.operators import launch_rope, rotate

KNOWN = Known()
INTEGERS = (torch.int32, torch.int64)


def apply_rope(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *,
    interleaved: bool = False,
    positions: torch.Tensor | None = None,
    layout: Layout = "bhtd",
    **foreign: Never,
) -> torch.Tensor:
    """Turn queries or keys by their positions in one kernel, forward and backward.

    Shapes: ``x (B, H, T, D)``, ``cos, sin (P, R/2)`` from ``rope_table``, ``positions`` integers
    ``(T,)`` or ``(B, T)``, each below P; ``-> (B, H, T, D)``, the dtype of x (fp16, bf16, fp32,
    fp64). Without ``positions``, token t is at position t. With ``layout="bthd"`` x and the result
    are ``(B, T, H, D)``. Any strides are read, nothing is copied. Computes in fp32 (fp64 for fp64).
    Without Triton or a GPU it warns once and runs ``naive_rope``.

    A position outside the table turns its token to NaN: raising would mean waiting for the GPU.

    Raises:
        ShapeError: a shape disagrees, or R is greater than D, or the table is shorter than T.
        TypeError: x or the table is not floating point, or positions are not integers.
        ValueError: tensors on different devices, a table that asks for a gradient, or an unknown
            layout.
    """
    if foreign:
        refuse("apply_rope", foreign, ROPE)
    key = KNOWN.key((x, cos, sin, positions), interleaved, layout)
    if KNOWN.find(key):
        turned = launch_rope(heads_first(x, layout), cos, sin, positions, interleaved, False)
        return heads_first(turned, layout)
    _check(x, cos, sin, positions, layout)
    if x.numel() == 0:
        return torch.empty_like(x)
    if reason := fallback.why_not(x):
        fallback.warn_once("apply_rope", "naive_rope", reason)
        x = heads_first(x, layout)
        turned = naive_rope(x, cos, sin, interleaved=interleaved, positions=positions)
    else:
        KNOWN.keep(key)
        turned = rotate(heads_first(x, layout), cos, sin, positions, interleaved, False)
    return heads_first(turned, layout)


def _check(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None,
    layout: Layout,
) -> None:
    assert_tensors("apply_rope", ("positions",), x=x, cos=cos, sin=sin, positions=positions)
    sizes = assert_shape(x, pattern("apply_rope", layout, "B H T D"), name="x")
    look_exchanged("apply_rope", sizes["H"], sizes["T"], layout)
    table = assert_shape(cos, "P R", name="cos")
    assert_shape(sin, "P R", table, name="sin")
    tensors = {"x": x, "cos": cos, "sin": sin}
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise TypeError(
                f"apply_rope needs floating-point tensors, got {name} of {tensor.dtype}. "
                f"Likely cause: the arguments are in another order. "
                f"Next: apply_rope(x, cos, sin, positions=positions)."
            )
    if positions is not None:
        tensors["positions"] = positions
        assert_shape(positions, "T" if positions.dim() == 1 else "B T", sizes, name="positions")
        if positions.dtype not in INTEGERS:
            raise TypeError(
                f"apply_rope looks positions up in its table, so they must be int32 or int64, got "
                f"{positions.dtype}. Next: positions.long(), or for fractions "
                f"rope_table(positions, dim) and no positions here."
            )
    for name, tensor in tensors.items():
        if tensor.device != x.device:
            raise ValueError(
                f"apply_rope needs all tensors on one device, got x on {x.device} and {name} on "
                f"{tensor.device}. Next: {name}.to(x.device), once, when the model is made."
            )
    if cos.requires_grad or sin.requires_grad:
        raise ValueError(
            "apply_rope has no gradient for its table: expected constants, got a cos or sin that "
            "requires a gradient. Next: cos.detach(), sin.detach(), or naive_rope to learn angles."
        )
    if 2 * table["R"] > sizes["D"]:
        raise ShapeError(
            f"cos has {table['R']} angles a position, which turn {2 * table['R']} channels, but x "
            f"has D={sizes['D']}. Likely cause: a table with every angle twice (Hugging Face's "
            f"layout). Next: cos[:, :{sizes['D'] // 2}], or rope_table(positions, dim=R), R <= D."
        )
    if positions is None and table["P"] < sizes["T"]:
        raise ShapeError(
            f"the table ends before x does: expected at least T={sizes['T']} positions, got "
            f"{table['P']}. Next: rope_table({sizes['T']}, ...), or pass positions."
        )
