"""Attention that sees some tiles of the scores and skips the rest: any pattern of blocks.

Equation, for one head and query t, over the keys s it may see::

    seen_ts = mask[t // block, s // block]        and, if causal, s <= t + S - T
    x_ts = scale q_t · k_s      L_t = log sum_s exp(x_ts)      o_t = sum_s exp(x_ts - L_t) v_s

with the gradient of ``flash_attention``. A query that sees no key has o = 0, L = -inf and gradients
0. So sliding windows with global blocks, strided and random patterns (Zaheer et al. 2020, "Big
bird") and choices made by a model (Yuan et al. 2025, "Native sparse attention") are one call.

Letters: ``B`` batch, ``H`` query heads, ``G`` key/value heads (query head h reads key/value head
h // (H / G)), ``T`` queries, ``S`` keys, ``D`` head dim, ``D_v`` width of values.

How: for each row of blocks a list of those it sees, made from the mask by PyTorch, on the GPU, so
nothing waits; a program owns rows of queries and walks its list, as ``flash_attention`` walks all.
The gradient of keys and values walks the lists of the columns.

Arithmetic and memory traffic: those of ``flash_attention`` times the share of blocks that are seen,
and 8 bytes for each block of the mask, seen or not.

Sources: Child et al. 2019, "Generating long sequences with sparse transformers", section 5; Dao et
al. 2022, "FlashAttention", section 3.3. Nothing here has been timed on a GPU yet.
"""

from __future__ import annotations

import math
from typing import Literal, Never, TypedDict, Unpack, overload

import torch

from attend_kernels.common import devices, fallback
from attend_kernels.common.arguments import assert_tensors, autocast
from attend_kernels.common.attention import check
from attend_kernels.common.foreign import ATTENTION, refuse
from attend_kernels.common.layout import Layout, heads_first, look_exchanged, pattern
from attend_kernels.common.shapes import ShapeError, assert_shape
from attend_kernels.common.tensors import filled
from attend_kernels.ops.block_sparse import operators
from attend_kernels.ops.block_sparse.naive import naive_block_sparse_attention

NAME = "block_sparse_attention"
BLOCKS = (16, 32, 64, 128, 256)


class Keywords(TypedDict, total=False):
    """Options of ``block_sparse_attention``, which has their defaults and explains them."""

    block: int
    causal: bool
    scale: float | None
    layout: Layout


@overload
def block_sparse_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor,
    *,
    return_lse: Literal[False] = False,
    **options: Unpack[Keywords],
) -> torch.Tensor: ...
@overload
def block_sparse_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor,
    *,
    return_lse: Literal[True],
    **options: Unpack[Keywords],
) -> tuple[torch.Tensor, torch.Tensor]: ...
def block_sparse_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor,
    *,
    block: int = 64,
    causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
    layout: Layout = "bhtd",
    **foreign: Never,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """softmax(scale Q Kᵀ) V over the blocks of keys that a mask lets each block of queries see.

    Dtypes, autocast and tf32 as in ``flash_attention``; gradients are the same to the bit each
    time. Without Triton or a GPU it warns once and runs ``naive_block_sparse_attention``.

    Args:
        q: queries; fp16, bf16 or fp32, any strides.
        k: keys, one head for each H / G query heads.
        v: values, as many as keys.
        mask: True where a block of queries sees a block of keys; the last blocks may be shorter.
        block: length of a block: 16, 32, 64, 128 or 256. 64 or more keeps a GPU busy.
        causal: within what the mask shows, a query sees no key after it; the last query stands at
            the last key.
        scale: factor of the scores, by default 1 / sqrt(D).
        return_lse: also return log(sum(exp(scores))), natural log; gradients flow through it.
        layout: ``"bhtd"``, or ``"bthd"`` for heads after time.

    Shapes: q ``(B, H, T, D)``, k ``(B, G, S, D)``, v ``(B, G, S, D_v)`` with H a multiple of G, D
    and D_v <= 256; mask ``(T / block, S / block)``, rounded up, or with ``H`` or ``B, H`` before
    -> ``(B, H, T, D_v)`` in q's dtype, and the LSE ``(B, H, T)`` in fp32.

    Raises:
        ShapeError: the shapes do not belong together.
        ValueError: heads, widths, block, scale or devices are not ones it can work with.
        TypeError: the dtypes differ or are none of the three, or the mask is not bool.
    """
    if foreign:
        refuse(NAME, foreign, ATTENTION)
    assert_tensors(NAME, q=q, k=k, v=v, mask=mask)
    q, k, v = autocast(q, k, v)
    sizes = assert_shape(q, pattern(NAME, layout, "B H T D"), name="q")
    sizes = assert_shape(k, pattern(NAME, layout, "B G S D"), sizes, name="k")
    sizes = assert_shape(v, pattern(NAME, layout, "B G S E"), sizes, name="v")
    look_exchanged(NAME, sizes["G"], sizes["S"], layout)
    check(NAME, q, k, v, None, sizes, None, scale)
    _check_mask(mask, block, sizes, q)
    q, k, v = (heads_first(x, layout) for x in (q, k, v))
    mask = mask.expand(*(1,) * (4 - mask.dim()), *mask.shape)
    scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    if reason := fallback.why_not(q):
        fallback.warn_once(NAME, "naive_block_sparse_attention", reason)
        output, lse = naive_block_sparse_attention(
            q.float(), k.float(), v.float(), mask, block=block, causal=causal, scale=scale
        )
        output = output.to(q.dtype)
    else:
        wide, wide_v = devices.padded(sizes["D"]), devices.padded(sizes["E"])
        q, k, v = filled(q, wide), filled(k, wide), filled(v, wide_v)
        output, lse = operators.forward(q, k, v, mask, block, causal, scale)
        output = output[..., : sizes["E"]]
    output = heads_first(output, layout)
    return (output, lse) if return_lse else output


def _check_mask(mask: torch.Tensor, block: int, sizes: dict[str, int], q: torch.Tensor) -> None:
    if block not in BLOCKS:
        raise ValueError(
            f"{NAME}: block must be 16, 32, 64, 128 or 256, got {block!r}. Next: 64, and a mask "
            f"with a row for each 64 queries."
        )
    if mask.dtype != torch.bool:
        raise TypeError(f"{NAME}: mask must be bool, got {mask.dtype}. Next: mask != 0.")
    if mask.device != q.device:
        raise ValueError(
            f"{NAME}: mask is on {mask.device}, q on {q.device}; expected one device. "
            f"Next: mask.to(q.device)."
        )
    want = (-(-sizes["T"] // block), -(-sizes["S"] // block))
    before = tuple(mask.shape[:-2])
    fits = (), (sizes["H"],), (sizes["B"], sizes["H"]), (1, sizes["H"]), (sizes["B"], 1), (1, 1)
    if tuple(mask.shape[-2:]) != want or before not in fits:
        raise ShapeError(
            f"{NAME}: mask must have {want[0]} × {want[1]} blocks of {block}, for T={sizes['T']} "
            f"and S={sizes['S']}, alone or behind (H,) or (B, H); got {tuple(mask.shape)}. "
            f"Next: one entry a block, not one a key."
        )
