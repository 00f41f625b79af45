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

from typing import Any

import torch

from attend_kernels import fallback
from attend_kernels.arguments import assert_tensors
from attend_kernels.shapes import ShapeError, assert_shape

INTEGERS = (torch.int32, torch.int64)


def rope_table(
    positions: int | torch.Tensor, dim: int, base: float = 10_000.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of every position's angles, correct to the last bit of fp32.

    Shapes: ``positions`` a count P, for 0 ... P-1, or a tensor ``(...)`` of positions (they may be
    fractions); ``-> cos, sin (P, dim/2)`` or ``(..., dim/2)``, fp32. ``dim`` is R.

    The angle is formed in fp64: at position 100,000 fp32 holds it to 0.004 rad only, and cosines
    made from it are off in the third digit.

    Raises:
        ValueError: ``dim`` is odd or not positive, or ``base`` is not greater than 1.
    """
    if dim <= 0 or dim % 2:
        raise ValueError(
            f"rope_table needs an even rotary dim (channels turn in pairs), got dim={dim}. "
            f"Next: pass {max(2, dim + 1)}, or rotate only the first {max(2, dim - 1)} channels."
        )
    if not base > 1:
        raise ValueError(
            f"rope_table needs base > 1, so that later pairs turn slower, got {base}. "
            f"Likely cause: base and dim swapped. Next: rope_table(positions, dim, 10_000.0)."
        )
    at = torch.arange(positions) if isinstance(positions, int) else positions
    pair = torch.arange(dim // 2, dtype=torch.float64, device=at.device)
    frequency = base ** (-2.0 * pair / dim)
    angle = at.to(torch.float64)[..., None] * frequency
    return angle.cos().float(), angle.sin().float()


def naive_rope(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *,
    interleaved: bool = False,
    positions: torch.Tensor | None = None,
) -> torch.Tensor:
    """RoPE in plain PyTorch, one step at a time; shapes as ``apply_rope``."""
    if positions is None:
        positions = torch.arange(x.shape[2], device=x.device)
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    cos, sin = cos.to(wide)[positions.long()], sin.to(wide)[positions.long()]  # (T or B T, R/2)
    if positions.dim() == 2:
        cos, sin = cos[:, None], sin[:, None]  # (B, 1, T, R/2)
    rotary, rest = x.split([2 * cos.shape[-1], x.shape[-1] - 2 * cos.shape[-1]], dim=-1)
    rotary = rotary.to(wide)
    if interleaved:
        first, second = rotary[..., 0::2], rotary[..., 1::2]
    else:
        first, second = rotary.chunk(2, dim=-1)
    turned = (first * cos - second * sin, second * cos + first * sin)
    out = torch.stack(turned, dim=-1).flatten(-2) if interleaved else torch.cat(turned, dim=-1)
    return torch.cat((out.to(x.dtype), rest), dim=-1)


def apply_rope(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *,
    interleaved: bool = False,
    positions: torch.Tensor | None = None,
) -> torch.Tensor:
    """Turn queries or keys by their positions in one kernel, forward and backward.

    Shapes: ``x (B, H, T, D)``, ``cos, sin (P, R/2)`` from ``rope_table``, ``positions`` integers
    ``(T,)`` or ``(B, T)``, each below P; ``-> (B, H, T, D)``, the dtype of x (fp16, bf16, fp32,
    fp64). Without ``positions``, token t is at position t. Any strides are read. Computes in fp32
    (fp64 for fp64). Without Triton or a GPU it warns once and runs ``naive_rope``.

    A position outside the table turns its token to NaN: raising would mean waiting for the GPU.

    Raises:
        ShapeError: a shape disagrees, or R is greater than D, or the table is shorter than T.
        TypeError: x or the table is not floating point, or positions are not integers.
        ValueError: tensors on different devices, or a table that asks for a gradient.
    """
    _check(x, cos, sin, positions)
    if x.numel() == 0:
        return torch.empty_like(x)
    if reason := fallback.why_not(x):
        fallback.warn_once("apply_rope", "naive_rope", reason)
        return naive_rope(x, cos, sin, interleaved=interleaved, positions=positions)
    return _rope(x, cos, sin, positions, interleaved, False)


@torch.library.custom_op("attend::rope", mutates_args=())
def _rope(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None,
    interleaved: bool,
    inverse: bool,
) -> torch.Tensor:
    """Rotate by the table's angles, or by their opposites."""
    from attend_kernels import rope_triton

    return rope_triton.rotate(x, cos, sin, positions, interleaved, inverse)


@_rope.register_fake
def _(x, cos, sin, positions, interleaved, inverse):
    return torch.empty_like(x)


def _save(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    _, cos, sin, positions, interleaved, inverse = inputs
    ctx.save_for_backward(cos, sin, positions)
    ctx.way = (interleaved, not inverse)


def _gradient(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """Turn the gradient back; the rotation itself, so this can be differentiated again."""
    return _rope(grad, *ctx.saved_tensors, *ctx.way), None, None, None, None, None


_rope.register_autograd(_gradient, setup_context=_save)


def _check(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: torch.Tensor | None
) -> None:
    assert_tensors("apply_rope", ("positions",), x=x, cos=cos, sin=sin, positions=positions)
    sizes = assert_shape(x, "B H T D", name="x")
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
