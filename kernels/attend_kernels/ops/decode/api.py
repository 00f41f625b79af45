"""Attention of a new token to all the tokens before it, from a cache of their keys and values.

Equation, for one query over the keys s < length of its sequence::

    x_s = scale q · k_s      L = log sum_s exp(x_s)      o = sum_s exp(x_s - L) v_s

cut into parts, as soon as there are more processors than sequences: part i has some of the keys and
gives o_i and L_i by the same equation; then

    L = log sum_i exp(L_i)       o = sum_i exp(L_i - L) o_i

is exact, however the keys were cut, for exp(x_s - L) = exp(L_i - L) exp(x_s - L_i).

Letters: ``B`` sequences, ``H`` query heads, ``G`` key/value heads (query head h reads key/value
head h // (H / G)), ``T`` new tokens (1, or the few that speculative decoding checks at once), ``S``
keys the cache has room for, ``D`` head dim. L is the LSE.

The cache, contiguous: ``(B, G, S, D)``, as ``flash_attention`` takes K and V; of sequence b the
first ``lengths[b]`` keys count. Paged: ``(pages, page, G, D)``, where ``page`` is how many tokens a
page holds; token s of sequence b lies in page ``block_table[b, s // page]`` at ``s % page``, so a
sequence needs no memory it does not use (and two can share the pages of one prompt). Keys past the
length and pages no table names are never read. The new tokens' own keys are in the cache already.

Memory traffic, in elements, for one sequence and key/value head: 2 length D, K and V once. Q and O
are H / G · T · D, next to nothing. Each key is used for 4 H / G · T · D operations: with one query
head a bf16 cache gives 1 operation a byte, where a GPU can do a hundred and more. So the time is
that of reading the cache, and what counts is: to read it once for all the query heads that share it
(they are the rows of one tile); to keep all of the GPU reading (split the keys); to make the cache
smaller (fewer key/value heads; 8 bits, see ``quantise``). Splitting costs 2 H T D
fp32 numbers a part, written and read once more.

Sources: Dao, Haziza, Massa & Sizov 2023, "Flash-Decoding for long-context inference"; Kwon et al.
2023, "PagedAttention", section 4; grouped heads: Ainslie et al. 2023, "GQA". Nothing here has been
timed on a GPU yet.
"""

from __future__ import annotations

import math
from typing import Literal, Never, TypedDict, Unpack, overload

import torch

from attend_kernels.common import fallback
from attend_kernels.common.arguments import assert_tensors
from attend_kernels.common.attention import Window, reach
from attend_kernels.common.foreign import DECODE, refuse
from attend_kernels.common.known import Known
from attend_kernels.common.layout import Layout, heads_first
from attend_kernels.common.sinks import check_sinks, with_sinks
from attend_kernels.ops.decode import operators
from attend_kernels.ops.decode.checks import check_decode, check_values
from attend_kernels.ops.decode.quantise import LIMITS

KNOWN = Known(casts=True)


class Keywords(TypedDict, total=False):
    """Options of ``decode_attention``, which has their defaults and explains them."""

    scale: float | None
    window: Window
    softcap: float | None
    sinks: torch.Tensor | None
    splits: int | None
    k_scale: torch.Tensor | None
    v_scale: torch.Tensor | None
    layout: Layout


@overload
def decode_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    lengths: torch.Tensor,
    block_table: torch.Tensor | None = None,
    *,
    return_lse: Literal[False] = False,
    **options: Unpack[Keywords],
) -> torch.Tensor: ...
@overload
def decode_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    lengths: torch.Tensor,
    block_table: torch.Tensor | None = None,
    *,
    return_lse: Literal[True],
    **options: Unpack[Keywords],
) -> tuple[torch.Tensor, torch.Tensor]: ...
def decode_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    lengths: torch.Tensor,
    block_table: torch.Tensor | None = None,
    *,
    scale: float | None = None,
    window: Window = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    return_lse: bool = False,
    splits: int | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    layout: Layout = "bhtd",
    **foreign: Never,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """softmax(scale q Kᵀ) V of a few new queries over a cache, contiguous or paged. Forward only.

    The last query stands at the last key, so with T queries, query t sees the keys up to
    ``length - T + t``: what ``flash_attention`` with ``causal=True`` gives in its last T rows. A
    query that sees no key, as in a sequence of length 0, gets zeros and an LSE of -inf.

    No gradient is computed, and asking for one is an error. Under ``torch.autocast`` q takes the
    cache's dtype (autocast's, where the cache is 8-bit); the cache is never cast. A cache in which
    D is not the innermost axis is copied first. Without Triton or a GPU it warns once and runs
    ``naive_decode_attention``, fp16 and bf16 computed in fp32; so it does for an fp8 cache on a GPU
    without fp8 (before compute capability 8.9).

    On a GPU the values in lengths and block_table are taken at their word: to look at them the CPU
    would have to wait for the GPU. A length the cache has no room for, or a page there is not,
    makes that sequence's answer NaN. On the CPU it is an error, unless compiled.

    Args:
        q: queries; fp16, bf16 or fp32.
        k_cache: keys, in q's dtype, or codes in int8 or float8_e4m3fn.
        v_cache: values, likewise.
        lengths: keys of each sequence, the new tokens' included; int32 or int64.
        block_table: for a paged cache, the pages of each sequence in order; int32 or int64. Entries
            past a sequence's last page may hold anything.
        scale: factor of the scores, by default 1 / sqrt(D).
        window: how many keys before its own a query sees; None or -1 for no limit. Of two numbers,
            as flash_attention takes them, the first.
        softcap: scores are bent to c tanh(score / c); None or 0.0 is no cap.
        sinks: a score a query head, which takes weight and gives no value; the LSE counts it.
        return_lse: also return log(sum(exp(scores))), natural log.
        splits: into how many parts the keys of each sequence are cut, 1 to 128; by default
            ``tiles.choose_splits`` says. It changes the answer by rounding alone.
        k_scale: what a code in k_cache counts, for 8 bits; fp32, as ``quantise_cache`` makes it.
        v_scale: likewise for v_cache.
        layout: ``"bhtd"``, or ``"bthd"`` for heads after time, as flash_attn has them: in q of four
            axes, the output, a contiguous cache and its scales. The LSE stays, and so do pages.

    Shapes: q ``(B, H, D)`` or ``(B, H, T, D)``, H a multiple of G and D <= 256; caches
    ``(B, G, S, D)``, or with block_table ``(B, n)`` ``(pages, page, G, D)`` where S = n · page;
    lengths ``(B,)``; scales ``(G,)``, or the cache's shape without D -> output like q in q's dtype,
    and the LSE, q's shape without D, in fp32.

    Raises:
        ShapeError: the shapes do not belong together.
        ValueError: heads, width, window, scale, soft cap, splits, devices, or (on the CPU) lengths
            or pages are not ones it can work with; scales are missing; a gradient is asked for.
        TypeError: a dtype is none of those above.
    """
    if foreign:
        refuse("decode_attention", foreign, DECODE)
    tensors = (q, k_cache, v_cache, lengths, block_table, k_scale, v_scale)
    key = KNOWN.key((*tensors, sinks), scale, window, softcap, splits, layout)
    if (options := KNOWN.find(key)) is not None:
        check_values(lengths, block_table, k_cache, layout)
        tensors = tensors if layout == "bhtd" else _heads_before(*tensors)
        output, lse = operators.launch_decode(*tensors, *options)
        output, lse = _finish(output, lse, sinks, layout)
        return (output, lse) if return_lse else output
    given = {"q": q, "k_cache": k_cache, "v_cache": v_cache, "lengths": lengths}
    optional = {"block_table": block_table, "k_scale": k_scale, "v_scale": v_scale, "sinks": sinks}
    assert_tensors("decode_attention", tuple(optional), **given, **optional)
    if torch.is_autocast_enabled(q.device.type):
        bytes_ = k_cache.dtype in LIMITS
        q = q.to(torch.get_autocast_dtype(q.device.type) if bytes_ else k_cache.dtype)
    scales = (k_scale, v_scale)
    softcap = softcap or None
    check_decode(q, k_cache, v_cache, lengths, block_table, scales, scale, softcap, splits, layout)
    if layout == "bthd":
        q, k_cache, v_cache, _, _, k_scale, v_scale = _heads_before(
            q, k_cache, v_cache, lengths, block_table, k_scale, v_scale
        )
    check_sinks("decode_attention", sinks, q, {"H": q.shape[1]})
    window, _ = reach(True, window)
    scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    if reason := operators.why_not(q, k_cache):
        fallback.warn_once("decode_attention", "naive_decode_attention", reason)
    else:
        KNOWN.keep(key, (scale, softcap, window, splits))
    output, lse = operators.decode(
        q if q.dim() == 4 else q[:, :, None],
        k_cache, v_cache, lengths, block_table, k_scale, v_scale, scale, softcap, window, splits,
    )  # fmt: skip
    output, lse = output.reshape(q.shape), lse.reshape(q.shape[:-1])
    output, lse = _finish(output, lse, sinks, layout)
    return (output, lse) if return_lse else output


def _heads_before(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    lengths: torch.Tensor,
    block_table: torch.Tensor | None,
    k_scale: torch.Tensor | None,
    v_scale: torch.Tensor | None,
) -> tuple[
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor,
    torch.Tensor | None,
    torch.Tensor | None,
    torch.Tensor | None,
]:
    """View arguments in the layout "bthd" as in "bhtd"; pages lie as they always do."""
    q = q.transpose(1, 2) if q.dim() == 4 else q
    if block_table is None:
        k_cache, v_cache = k_cache.transpose(1, 2), v_cache.transpose(1, 2)
        k_scale, v_scale = (
            x.transpose(1, 2) if x is not None and x.dim() == 3 else x for x in (k_scale, v_scale)
        )
    return q, k_cache, v_cache, lengths, block_table, k_scale, v_scale


def _finish(
    output: torch.Tensor, lse: torch.Tensor, sinks: torch.Tensor | None, layout: Layout
) -> tuple[torch.Tensor, torch.Tensor]:
    """Let sinks take their share, and put heads where the caller has them; T may be missing."""
    if output.dim() == 4:
        output, lse = with_sinks(output, lse, sinks)
        return heads_first(output, layout), lse
    if sinks is not None:
        output, lse = with_sinks(output[:, :, None], lse[:, :, None], sinks)
        return output[:, :, 0], lse[:, :, 0]
    return output, lse
