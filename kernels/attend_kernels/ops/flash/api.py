"""Attention in one pass over memory: exact, with no T × S matrix ever written.

Equation, for one head and query t, over the keys s it may see::

    x_ts = scale q_t · k_s              x_ts = c tanh(x_ts / c)             (soft cap c, if asked)
    x_ts = x_ts - slope |t + S - T - s|                                     (ALiBi, if asked)
    m_t = max_s x_ts     l_t = sum_s exp(x_ts - m_t)     L_t = m_t + log l_t        (L is the LSE)
    p_ts = exp(x_ts - L_t)              o_t = sum_s p_ts v_s

and its gradient, where P is made again from Q, K and L instead of being kept::

    dp_ts = dO_t · v_s      delta_t = dO_t · o_t - dL_t      dx_ts = p_ts (dp_ts - delta_t)
    dq_t = scale sum_s dx_ts k_s      dk_s = scale sum_t dx_ts q_t      dv_s = sum_t p_ts dO_t

(with a soft cap, dx is also multiplied by 1 - tanh², taken before ALiBi).

Letters: ``B`` batch, ``H`` query heads, ``G`` key/value heads (query head h reads key/value head
h // (H / G)), ``T`` queries, ``S`` keys, ``D`` head dim. ``running_max`` and ``running_sum`` are m
and l of the keys seen so far; ``slope`` is ALiBi's, one a head.

Who sees whom: the last query stands at the last key. Query t may see key s under ``causal`` if
s <= t + S - T (as in FlashAttention-2), and under ``window=(left, right)`` if also
t + S - T - left <= s <= t + S - T + right. A query that sees no key has o = 0, L = -inf and
gradients 0.

Memory traffic, in elements a head. The least possible is 2 T D + 2 S D: Q, K, V read, O written
(and T for L). ``naive_attention`` adds 2 T S for the scores, 2 T S for the softmax, T S for the
product with V, and as much again for each option. The kernel reads Q and writes O once, and K and V
once for each BLOCK_T queries, mostly from the L2 cache. The backward pass must read Q, K, V, O, dO
and write dQ, dK, dV: 4 T D + 4 S D.

Arithmetic: 4 T S D operations forward and 10 T S D backward (14 in two passes), half if causal.

Sources: Dao et al. 2022, "FlashAttention", algorithms 1 and 4; Dao 2023, "FlashAttention-2",
algorithms 1 and 2; online softmax: Milakov & Gimelshein 2018. ALiBi: Press et al. 2022. Soft cap:
Gemma 2, 2024. Nothing here has been timed on a GPU yet.
"""

from __future__ import annotations

from typing import Literal, Never, Unpack, overload

import torch

from attend_kernels.common import fallback
from attend_kernels.common.arguments import assert_tensors, autocast
from attend_kernels.common.attention import Window, check
from attend_kernels.common.foreign import ATTENTION, refuse
from attend_kernels.common.layout import Layout, heads_first, look_exchanged, pattern
from attend_kernels.common.shapes import assert_shape
from attend_kernels.common.sinks import check_sinks, with_sinks
from attend_kernels.ops.flash import operators
from attend_kernels.ops.flash.heads import widen_heads
from attend_kernels.ops.flash.naive import naive_attention
from attend_kernels.ops.flash.options import DenseKeywords, Options


@overload
def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    return_lse: Literal[False] = False,
    **options: Unpack[DenseKeywords],
) -> torch.Tensor: ...
@overload
def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    return_lse: Literal[True],
    **options: Unpack[DenseKeywords],
) -> tuple[torch.Tensor, torch.Tensor]: ...
def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: Window = None,
    alibi: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    softcap: float | None = None,
    scale: float | None = None,
    return_lse: bool = False,
    deterministic: bool = True,
    layout: Layout = "bhtd",
    **foreign: Never,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """softmax(scale Q Kᵀ) V without the T × S matrix, forward and backward.

    Under ``torch.autocast`` q, k and v are cast as a matrix product's would be. fp32 is computed in
    fp32, or in tf32 where ``torch.backends.cuda.matmul`` allows it. Without Triton or a GPU it
    warns once and runs ``naive_attention`` (fp16 and bf16 computed in fp32).

    Args:
        q: queries; fp16, bf16 or fp32, any strides.
        k: keys, one head for each H / G query heads.
        v: values, as many as keys.
        causal: a query sees no key after it; the last query stands at the last key.
        window: how many keys before and after its own a query sees: ``(left, right)``, where
            ``None`` or -1 is no limit. A number is both, or ``left`` alone if causal.
        alibi: slopes, one a query head, each taken from the score per key of distance (Press et
            al. 2022, section 3). Not trained: no gradient.
        sinks: a learned score a query head, which takes weight and gives no value (gpt-oss); with
            gradients. The LSE counts it.
        softcap: scores are bent to c tanh(score / c), before ALiBi (Gemma 2, 2024, section 2).
            None or 0.0 is no cap.
        scale: factor of the scores, by default 1 / sqrt(D).
        return_lse: also return log(sum(exp(scores))), natural log; gradients flow through it.
        deterministic: gradients are the same to the bit each time. If False, dQ may be summed with
            atomics, in any order: one pass over the tiles less.
        layout: ``"bhtd"``, or ``"bthd"`` for heads after time, as flash_attn has them; of the
            output and the gradients too, not of the LSE. Nothing is copied.

    Shapes: q ``(B, H, T, D)``, k ``(B, G, S, D)``, v ``(B, G, S, D_v)`` with H a multiple of G, D
    and D_v <= 256, alibi and sinks ``(H,)`` -> ``(B, H, T, D_v)`` in q's dtype, and the LSE
    ``(B, H, T)`` in fp32. Where D_v is not D (as in DeepSeek's MLA), the narrower are copied,
    filled up with zeros.

    Raises:
        ShapeError: the shapes do not belong together.
        ValueError: heads, width, window, scale, soft cap or devices are not ones it can work with.
        TypeError: the dtypes differ or are none of the three.
    """
    if foreign:
        refuse("flash_attention", foreign, ATTENTION)
    optional = {"alibi": alibi, "sinks": sinks}
    assert_tensors("flash_attention", tuple(optional), q=q, k=k, v=v, **optional)
    q, k, v = autocast(q, k, v)
    axes = (pattern("flash_attention", layout, each) for each in ("B H T D", "B G S D", "B G S E"))
    sizes = assert_shape(q, next(axes), name="q")
    sizes = assert_shape(k, next(axes), sizes, name="k")
    sizes = assert_shape(v, next(axes), sizes, name="v")
    look_exchanged("flash_attention", sizes["G"], sizes["S"], layout)
    q, k, v = (heads_first(x, layout) for x in (q, k, v))
    softcap = softcap or None  # 0.0 is no cap, as flash_attn has it
    check("flash_attention", q, k, v, alibi, sizes, softcap, scale)
    check_sinks("flash_attention", sinks, q, sizes)
    options = Options.of(q, causal, window, softcap, scale, deterministic)
    if reason := fallback.why_not(q):
        fallback.warn_once("flash_attention", "naive_attention", reason)
        wide = (q.float(), k.float(), v.float())
        output, lse = naive_attention(
            *wide, causal=causal, window=window, alibi=alibi, softcap=softcap, scale=scale
        )
        output = output.to(q.dtype)
    else:
        q, k, v = widen_heads(q, k, v)
        output, lse = operators.flash_forward(q, k, v, alibi, None, None, *options.flat())
        output = output[..., : sizes["E"]]
    output, lse = with_sinks(output, lse, sinks)
    output = heads_first(output, layout)
    return (output, lse) if return_lse else output
