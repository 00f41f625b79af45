"""``flash_attention`` for sequences of different lengths, packed one after another: no padding.

Equation, letters, sources: see ``api``; each sequence is a batch of its own. Where
they start is given as in FlashAttention's varlen functions: ``cu_seqlens = [0, n0, n0 + n1, …]``.

Memory traffic: that of ``flash`` with sums over the sequences, T = Σ T_i and S = Σ S_i; arithmetic
4 D Σ T_i S_i a head. Padding to the longest would cost batch × longest × longest.
"""

from __future__ import annotations

from typing import Literal, Never, Unpack, overload

import torch

from attend_kernels.common import fallback
from attend_kernels.common.arguments import assert_tensors, autocast
from attend_kernels.common.attention import Window, check
from attend_kernels.common.foreign import PACKED, refuse
from attend_kernels.common.packing import check_starts
from attend_kernels.common.shapes import assert_shape
from attend_kernels.common.sinks import check_sinks, with_sinks
from attend_kernels.ops.flash import operators
from attend_kernels.ops.flash.heads import widen_heads
from attend_kernels.ops.flash.naive import naive_attention_varlen
from attend_kernels.ops.flash.options import Keywords, Options


@overload
def flash_attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    *,
    return_lse: Literal[False] = False,
    **options: Unpack[Keywords],
) -> torch.Tensor: ...
@overload
def flash_attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    *,
    return_lse: Literal[True],
    **options: Unpack[Keywords],
) -> tuple[torch.Tensor, torch.Tensor]: ...
def flash_attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    *,
    causal: bool = False,
    window: Window = None,
    alibi: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    softcap: float | None = None,
    scale: float | None = None,
    return_lse: bool = False,
    deterministic: bool = True,
    **foreign: Never,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """``flash_attention`` within each of several packed sequences.

    Sequence i has the queries ``q[cu_seqlens_q[i]:cu_seqlens_q[i + 1]]`` and the keys
    ``k[cu_seqlens_k[i]:cu_seqlens_k[i + 1]]``; either may be empty. Rows after the last sequence
    come out 0, with LSE -inf and gradients 0. Options as in ``flash_attention``.

    On a GPU the values of cu_seqlens are taken at their word: to look at them the CPU would have
    to wait for the GPU. Elsewhere they are checked.

    Shapes: q ``(T, H, D)``, k ``(S, G, D)``, v ``(S, G, D_v)`` with T and S summed over the
    sequences, cu_seqlens ``(sequences + 1,)`` integers -> ``(T, H, D_v)``, and the LSE ``(H, T)``
    in fp32.

    Raises:
        ShapeError: the shapes do not belong together.
        ValueError: as ``flash_attention``; or cu_seqlens do not rise from 0 to at most T or S.
        TypeError: as ``flash_attention``; or cu_seqlens are not integers.
    """
    if foreign:
        refuse("flash_attention_varlen", foreign, PACKED)
    starts = {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k}
    optional = {"alibi": alibi, "sinks": sinks}
    assert_tensors("flash_attention_varlen", tuple(optional), q=q, k=k, v=v, **starts, **optional)
    q, k, v = autocast(q, k, v)
    sizes = assert_shape(q, "T H D", name="q")
    sizes = assert_shape(k, "S G D", sizes, name="k")
    sizes = assert_shape(v, "S G E", sizes, name="v")
    softcap = softcap or None
    check("flash_attention_varlen", q, k, v, alibi, sizes, softcap, scale)
    check_sinks("flash_attention_varlen", sinks, q, sizes)
    count = assert_shape(cu_seqlens_q, "sequences+1", name="cu_seqlens_q")
    assert_shape(cu_seqlens_k, "sequences+1", count, name="cu_seqlens_k")
    check_starts("cu_seqlens_q", cu_seqlens_q, q)
    check_starts("cu_seqlens_k", cu_seqlens_k, k)
    options = Options.of(q, causal, window, softcap, scale, deterministic)
    if reason := fallback.why_not(q):
        fallback.warn_once("flash_attention_varlen", "naive_attention_varlen", reason)
        wide = (q.float(), k.float(), v.float())
        output, lse = naive_attention_varlen(
            *wide, cu_seqlens_q, cu_seqlens_k,
            causal=causal, window=window, alibi=alibi, softcap=softcap, scale=scale,
        )  # fmt: skip
        output = output.to(q.dtype)
    else:
        # Two more sequences, of the rows after the last: queries without keys, then keys without
        # queries. So all of O and of the gradients is written, whatever cu_seqlens ends with.
        T, S = sizes["T"], sizes["S"]  # noqa: N806  # axis letters
        q_starts = torch.nn.functional.pad(cu_seqlens_q.to(torch.int32), (0, 2), value=T)
        k_starts = torch.cat([cu_seqlens_k, cu_seqlens_k[-1:]]).to(torch.int32)
        k_starts = torch.nn.functional.pad(k_starts, (0, 1), value=S)
        output, lse = operators.flash_forward(
            *widen_heads(*(x.transpose(0, 1)[None] for x in (q, k, v))),
            alibi, q_starts, k_starts, *options.flat(),
        )  # fmt: skip
        output, lse = output[0, ..., : sizes["E"]].transpose(0, 1), lse[0]
    turned, lse = with_sinks(output.transpose(0, 1), lse, sinks)
    return (turned.transpose(0, 1), lse) if return_lse else turned.transpose(0, 1)
