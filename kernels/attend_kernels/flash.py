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

import math
from typing import Literal, overload

import torch

from attend_kernels import fallback, flash_ops
from attend_kernels.arguments import assert_tensors
from attend_kernels.shapes import assert_shape

MAX_WIDTH = 256  # widest head: rows any wider leave no room for a tile in the registers
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
TWINS = {
    "flash_attention": "naive_attention",
    "flash_attention_varlen": "naive_attention_varlen",
    "decode_attention": "naive_decode_attention",
}
Window = int | tuple[int | None, int | None] | None


def naive_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: Window = None,
    alibi: torch.Tensor | None = None,
    softcap: float | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention with every matrix written out: the twin of ``flash_attention``.

    It computes in the dtype it is given: float64 for an oracle, bf16 for what plain PyTorch would
    get. The options are those of ``flash_attention``.

    Shapes: q ``(B, H, T, D)``, k and v ``(B, G, S, D)``, alibi ``(H,)`` -> output ``(B, H, T, D)``
    and LSE ``(B, H, T)``.
    """
    T, S = q.shape[2], k.shape[2]  # noqa: N806  # axis letters
    scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))  # (B, H, S, D)
    scores = scale * (q @ k.transpose(-1, -2))  # (B, H, T, S)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    t = torch.arange(T, device=q.device)[:, None] + (S - T)  # where query t stands among the keys
    s = torch.arange(S, device=q.device)
    if alibi is not None:
        scores = scores - alibi.to(scores.dtype)[:, None, None] * (t - s).abs()
    left, right = reach(causal, window)
    hidden = torch.zeros(T, S, dtype=torch.bool, device=q.device)
    if left is not None:
        hidden |= s < t - left
    if right is not None:
        hidden |= s > t + right
    empty = hidden.all(dim=-1)  # (T,): these rows see no key; -inf everywhere would give NaN
    scores = scores.masked_fill(hidden, float("-inf")).masked_fill(empty[:, None], 0.0)
    weights = torch.softmax(scores, dim=-1).masked_fill(hidden, 0.0)
    return weights @ v, torch.logsumexp(scores, dim=-1).masked_fill(empty, float("-inf"))


@overload
def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: Window = None,
    alibi: torch.Tensor | None = None,
    softcap: float | None = None,
    scale: float | None = None,
    return_lse: Literal[False] = False,
    deterministic: bool = True,
) -> torch.Tensor: ...
@overload
def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: Window = None,
    alibi: torch.Tensor | None = None,
    softcap: float | None = None,
    scale: float | None = None,
    return_lse: Literal[True],
    deterministic: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]: ...
def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: Window = None,
    alibi: torch.Tensor | None = None,
    softcap: float | None = None,
    scale: float | None = None,
    return_lse: bool = False,
    deterministic: bool = True,
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
            ``None`` is no limit. A number is both, or ``left`` alone if causal.
        alibi: slopes, one a query head, each taken from the score per key of distance (Press et
            al. 2022, section 3). Not trained: no gradient.
        softcap: scores are bent to c tanh(score / c), before ALiBi (Gemma 2, 2024, section 2).
        scale: factor of the scores, by default 1 / sqrt(D).
        return_lse: also return log(sum(exp(scores))), natural log; gradients flow through it.
        deterministic: gradients are the same to the bit each time. If False, dQ may be summed with
            atomics, in any order: one pass over the tiles less.

    Shapes: q ``(B, H, T, D)``, k and v ``(B, G, S, D)`` with H a multiple of G and D <= 256, alibi
    ``(H,)`` -> ``(B, H, T, D)`` in q's dtype, and the LSE ``(B, H, T)`` in fp32.

    Raises:
        ShapeError: the shapes do not belong together.
        ValueError: heads, width, window, scale, soft cap or devices are not ones it can work with.
        TypeError: the dtypes differ or are none of the three.
    """
    assert_tensors("flash_attention", ("alibi",), q=q, k=k, v=v, alibi=alibi)
    q, k, v = autocast(q, k, v)
    sizes = assert_shape(q, "B H T D", name="q")
    sizes = assert_shape(k, "B G S D", sizes, name="k")
    sizes = assert_shape(v, "B G S D", sizes, name="v")
    check("flash_attention", q, k, v, alibi, sizes, softcap, scale)
    left, right = reach(causal, window)
    scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    if reason := fallback.why_not(q):
        fallback.warn_once("flash_attention", "naive_attention", reason)
        wide = (q.float(), k.float(), v.float())
        output, lse = naive_attention(
            *wide, window=(left, right), alibi=alibi, softcap=softcap, scale=scale
        )
        output = output.to(q.dtype)
    else:
        output, lse = flash_ops.flash_forward(
            q, k, v, alibi, None, None, scale, softcap, left, right, deterministic
        )
    return (output, lse) if return_lse else output


def autocast(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """Cast to autocast's dtype where autocast is on, as ``torch.matmul`` does."""
    kind = tensors[0].device.type
    if not torch.is_autocast_enabled(kind):
        return list(tensors)
    dtype = torch.get_autocast_dtype(kind)
    exempt = (torch.float64, *(x.dtype for x in tensors if not x.is_floating_point()))
    return [x if x.dtype in exempt else x.to(dtype) for x in tensors]


def reach(causal: bool, window: Window) -> tuple[int | None, int | None]:
    """How far a query sees: keys before and after its own, None for no limit."""
    sides = tuple(window) if isinstance(window, tuple | list) else (window, window)
    whole = (int, torch.SymInt, type(None))  # SymInt: an int that torch.compile has not fixed
    if len(sides) != 2 or not all(isinstance(keys, whole) for keys in sides):
        raise TypeError(
            f"window must be a whole number of keys, or two, (left, right), got {window!r}. "
            f"Next: window=256 for 256 keys back, window=(256, None) for any number ahead."
        )
    left, right = sides
    for side, keys in (("left", left), ("right", right)):
        if keys is not None and keys < 0:
            raise ValueError(
                f"the window's {side} side must be 0 or more keys, got {keys}. "
                f"Next: None for no limit, 0 to see the query's own position alone."
            )
    return left, 0 if causal else right


def check(
    function: str,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    alibi: torch.Tensor | None,
    sizes: dict[str, int],
    softcap: float | None,
    scale: float | None,
) -> None:
    """Refuse what no kernel can compute, and say what comes nearest."""
    H, G, D = sizes["H"], sizes["G"], sizes["D"]  # noqa: N806
    twin = TWINS[function]
    if G == 0 or H % G:
        near = [g for g in range(1, H + 1) if H % g == 0]
        # Then the third axis divides as heads do: (B, T, H, D), as some libraries have it.
        exchanged = function == "flash_attention" and sizes["S"] and sizes["T"] % sizes["S"] == 0
        raise ValueError(
            f"{function}: q has {H} heads, k and v have {G}; expected a divisor of {H}, so that "
            f"each key/value head serves as many query heads. "
            + ("Likely cause: heads behind tokens. Next: x.transpose(1, 2), or " * bool(exchanged))
            + ("Next: " * (not exchanged) + f"{_or(near)} key/value heads.")
        )
    if not 1 <= D <= MAX_WIDTH:
        raise ValueError(
            f"{function}: heads are D={D} wide; expected 1 to {MAX_WIDTH}, what a GPU's registers "
            f"hold. Likely cause: heads not split off yet. Next: more heads, each narrower, or "
            f"{twin}, which takes any width."
        )
    if not q.dtype == k.dtype == v.dtype:
        raise TypeError(
            f"{function}: q, k and v must have one dtype, got {q.dtype}, {k.dtype} and {v.dtype}. "
            f"Next: k.to(q.dtype), v.to(q.dtype)."
        )
    if q.dtype not in DTYPES:
        raise TypeError(
            f"{function}: expected float16, bfloat16 or float32, got {q.dtype}. "
            f"Next: x.float(); for float64, {twin}."
        )
    if alibi is not None:
        assert_shape(alibi, "H", sizes, name="alibi")
        if alibi.requires_grad and torch.is_grad_enabled():
            raise ValueError(
                f"{function}: ALiBi's slopes are constants here and get no gradient. "
                f"Next: alibi.detach(), or {twin} to train them."
            )
    devices = {x.device for x in (q, k, v, alibi) if x is not None}
    if len(devices) > 1:
        names = " and ".join(sorted(str(d) for d in devices))
        raise ValueError(
            f"{function}: all tensors must be on one device, got {names}. Next: x.to(q.device)."
        )
    for name, value in (("scale", scale), ("softcap", softcap)):
        if value is not None and not 0.0 < value < math.inf:
            raise ValueError(
                f"{function}: {name} must be a positive number, got {value}. Next: leave it out"
                + (" for 1 / sqrt(D)." if name == "scale" else ": None is no cap.")
            )


def _or(numbers: list[int]) -> str:
    texts = [str(n) for n in numbers]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"
