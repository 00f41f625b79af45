"""RWKV-6: linear attention that reads the state before it writes, with a bonus for the present.

Equation, for one head; the state S is D × D_v, the decays w_t are logarithms, u is one bonus a key
dimension::

    y_t = (S_t + diag(u) k_t v_tᵀ)ᵀ r_t          S_{t+1} = diag(exp(w_t)) S_t + k_t v_tᵀ

so y_t = S_tᵀ r_t + (r_t · u k_t) v_t, and S_t is what ``linear_attention`` with ``gate=w`` has
after step t - 1: it is asked for with the next step's r. RWKV-5 is the same with one w for all
steps.

Letters and the walk in chunks: see ``api``.

Memory traffic: that of ``linear_attention`` with a gate a key dimension, and 3 T (D + D_v) elements
a head more, for r moved by a step and the bonus.

Source: Peng et al. 2024, "Eagle and Finch: RWKV with matrix-valued states and dynamic recurrence",
equations 15 to 19. Nothing here has been timed on a GPU yet.
"""

from __future__ import annotations

from typing import Literal, overload

import torch

from attend_kernels.common.arguments import assert_tensors
from attend_kernels.common.layout import Layout, heads_first, pattern
from attend_kernels.common.shapes import assert_shape
from attend_kernels.ops.linear_attention.api import linear_attention
from attend_kernels.ops.linear_attention.naive import Pair

NAME = "rwkv6"


@overload
def rwkv6(
    r: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    w: torch.Tensor,
    u: torch.Tensor,
    *,
    initial_state: torch.Tensor | None = None,
    output_state: Literal[False] = False,
    chunk: int = 64,
    layout: Layout = "bhtd",
) -> torch.Tensor: ...
@overload
def rwkv6(
    r: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    w: torch.Tensor,
    u: torch.Tensor,
    *,
    initial_state: torch.Tensor | None = None,
    output_state: Literal[True],
    chunk: int = 64,
    layout: Layout = "bhtd",
) -> Pair: ...
def rwkv6(
    r: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    w: torch.Tensor,
    u: torch.Tensor,
    *,
    initial_state: torch.Tensor | None = None,
    output_state: bool = False,
    chunk: int = 64,
    layout: Layout = "bhtd",
) -> torch.Tensor | Pair:
    """RWKV-6's recurrence in chunks, forward and backward, on ``linear_attention``'s kernels.

    Dtypes, autocast, determinism and fallback: as ``linear_attention``.

    Args:
        r: receptances: the queries.
        k: keys.
        v: values.
        w: log of what a step leaves of each key dimension's row, 0 or less: -exp(x) in the paper.
        u: bonus of the present step, one a head and key dimension.
        initial_state: the state before the first step; None is 0.
        output_state: also return the state after the last step, to go on from.
        chunk: as in ``linear_attention``.
        layout: ``"bhtd"``, or ``"bthd"`` for heads after time, as fla has them.

    Shapes: r, k and w ``(B, H, T, D)``, v ``(B, H, T, D_v)``, u ``(H, D)``, states ``(B, H, D,
    D_v)`` -> ``(B, H, T, D_v)`` in v's dtype, and the last state in fp32.

    Raises:
        ShapeError, ValueError, TypeError: as ``linear_attention``.
    """
    assert_tensors(NAME, ("initial_state",), r=r, k=k, v=v, w=w, u=u, initial_state=initial_state)
    axes = pattern(NAME, layout, "B H T D")
    sizes: dict[str, int] = {}
    for name, x in (("r", r), ("k", k), ("w", w)):
        sizes = assert_shape(x, axes, sizes, name=name)
    sizes = assert_shape(v, axes.replace("D", "E"), sizes, name="v")
    assert_shape(u, "H D", sizes, name="u")
    if initial_state is not None:
        assert_shape(initial_state, "B H D E", sizes, name="initial_state")
    r, k, v, w = (heads_first(x, layout) for x in (r, k, v, w))
    later = torch.nn.functional.pad(r[:, :, 1:], (0, 0, 0, 1)) if sizes["T"] else r
    read, state = linear_attention(
        later, k, v, gate=w, initial_state=initial_state, output_state=True, chunk=chunk
    )
    first = torch.zeros_like(read[:, :, :1])
    if initial_state is not None:
        first = r[:, :, :1].to(initial_state.dtype) @ initial_state
    read = torch.cat([first.to(read.dtype), read[:, :, :-1]], dim=2)[:, :, : sizes["T"]]
    bonus = (r.float() * u.float()[:, None] * k.float()).sum(-1, keepdim=True)
    y = heads_first((read + bonus * v).to(v.dtype), layout)
    return (y, state) if output_state else y


def rwkv6_step(
    state: torch.Tensor,
    r: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    w: torch.Tensor,
    u: torch.Tensor,
) -> Pair:
    """One step of ``rwkv6``, for decoding, in plain PyTorch: its output, and the state after it.

    Shapes: state ``(B, H, D, D_v)``, r, k and w ``(B, H, D)``, v ``(B, H, D_v)``, u ``(H, D)`` ->
    ``(B, H, D_v)`` in v's dtype, and the new state in fp32.

    Raises:
        ShapeError: the shapes do not belong together.
    """
    assert_tensors("rwkv6_step", state=state, r=r, k=k, v=v, w=w, u=u)
    sizes = assert_shape(r, "B H D", name="r")
    sizes = assert_shape(k, "B H D", sizes, name="k")
    sizes = assert_shape(v, "B H E", sizes, name="v")
    sizes = assert_shape(w, "B H D", sizes, name="w")
    sizes = assert_shape(u, "H D", sizes, name="u")
    assert_shape(state, "B H D E", sizes, name="state")
    old, wide = state.float(), [x.float() for x in (r, k, v, w, u)]
    written = wide[1][..., None] * wide[2][..., None, :]  # (B, H, D, D_v)
    y = torch.einsum("bhd,bhde->bhe", wide[0], old + wide[4][..., None] * written)
    return y.to(v.dtype), wide[3].exp()[..., None] * old + written


def naive_rwkv6(
    r: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    w: torch.Tensor,
    u: torch.Tensor,
    *,
    initial_state: torch.Tensor | None = None,
) -> Pair:
    """RWKV-6 one step at a time, in the dtype it is given: the twin of ``rwkv6``.

    Shapes: as ``rwkv6`` in the layout "bhtd"; it always returns the output and the last state.
    """
    state = initial_state
    if state is None:
        state = k.new_zeros(*k.shape[:2], k.shape[-1], v.shape[-1])
    outputs = []
    for t in range(k.shape[2]):
        written = k[:, :, t, :, None] * v[:, :, t, None, :]
        outputs.append(torch.einsum("bhd,bhde->bhe", r[:, :, t], state + u[..., None] * written))
        state = w[:, :, t].exp()[..., None] * state + written
    return torch.stack(outputs, dim=2) if outputs else torch.zeros_like(v), state
