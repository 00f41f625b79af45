"""``flash_attention`` for sequences of different lengths, packed one after another: no padding.

Equation, letters, sources: see ``attend_kernels.flash``; each sequence is a batch of its own. Where
they start is given as in FlashAttention's varlen functions: ``cu_seqlens = [0, n0, n0 + n1, …]``.

Memory traffic: that of ``flash`` with sums over the sequences, T = Σ T_i and S = Σ S_i; arithmetic
4 D Σ T_i S_i a head. Padding to the longest would cost batch × longest × longest.
"""

from __future__ import annotations

import math
from typing import Literal, overload

import torch

from attend_kernels import fallback, flash_ops
from attend_kernels.arguments import assert_tensors
from attend_kernels.flash import Window, autocast, check, naive_attention, reach
from attend_kernels.shapes import assert_shape


def naive_attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    *,
    causal: bool = False,
    window: Window = None,
    alibi: torch.Tensor | None = None,
    softcap: float | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """``naive_attention`` of each sequence in turn: the twin of ``flash_attention_varlen``.

    Rows after the last sequence are 0 and their LSE -inf, here and there.

    Shapes: as ``flash_attention_varlen``.
    """
    output = torch.zeros_like(q)
    lse = torch.full((q.shape[1], q.shape[0]), float("-inf"), dtype=q.dtype, device=q.device)
    q_starts, k_starts = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
    spans = zip(q_starts, q_starts[1:], k_starts, k_starts[1:], strict=False)
    for q_first, q_stop, k_first, k_stop in spans:
        one = [
            x[first:stop].transpose(0, 1)[None]
            for x, first, stop in ((q, q_first, q_stop), (k, k_first, k_stop), (v, k_first, k_stop))
        ]
        rows, logs = naive_attention(
            *one, causal=causal, window=window, alibi=alibi, softcap=softcap, scale=scale
        )
        output = output.slice_scatter(rows[0].transpose(0, 1), 0, q_first, q_stop)
        lse = lse.slice_scatter(logs[0], 1, q_first, q_stop)
    return output, lse


@overload
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
    softcap: float | None = None,
    scale: float | None = None,
    return_lse: Literal[False] = False,
    deterministic: bool = True,
) -> torch.Tensor: ...
@overload
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
    softcap: float | None = None,
    scale: float | None = None,
    return_lse: Literal[True],
    deterministic: bool = True,
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
    softcap: float | None = None,
    scale: float | None = None,
    return_lse: bool = False,
    deterministic: bool = True,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """``flash_attention`` within each of several packed sequences.

    Sequence i has the queries ``q[cu_seqlens_q[i]:cu_seqlens_q[i + 1]]`` and the keys
    ``k[cu_seqlens_k[i]:cu_seqlens_k[i + 1]]``; either may be empty. Rows after the last sequence
    come out 0, with LSE -inf and gradients 0. Options as in ``flash_attention``.

    On a GPU the values of cu_seqlens are taken at their word: to look at them the CPU would have
    to wait for the GPU. Elsewhere they are checked.

    Shapes: q ``(T, H, D)``, k and v ``(S, G, D)`` with T and S summed over the sequences,
    cu_seqlens ``(sequences + 1,)`` integers -> ``(T, H, D)``, and the LSE ``(H, T)`` in fp32.

    Raises:
        ShapeError: the shapes do not belong together.
        ValueError: as ``flash_attention``; or cu_seqlens do not rise from 0 to at most T or S.
        TypeError: as ``flash_attention``; or cu_seqlens are not integers.
    """
    starts = {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k}
    assert_tensors("flash_attention_varlen", ("alibi",), q=q, k=k, v=v, alibi=alibi, **starts)
    q, k, v = autocast(q, k, v)
    sizes = assert_shape(q, "T H D", name="q")
    sizes = assert_shape(k, "S G D", sizes, name="k")
    sizes = assert_shape(v, "S G D", sizes, name="v")
    check("flash_attention_varlen", q, k, v, alibi, sizes, softcap, scale)
    count = assert_shape(cu_seqlens_q, "sequences+1", name="cu_seqlens_q")
    assert_shape(cu_seqlens_k, "sequences+1", count, name="cu_seqlens_k")
    check_starts("cu_seqlens_q", cu_seqlens_q, q)
    check_starts("cu_seqlens_k", cu_seqlens_k, k)
    left, right = reach(causal, window)
    scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    if reason := fallback.why_not(q):
        fallback.warn_once("flash_attention_varlen", "naive_attention_varlen", reason)
        wide = (q.float(), k.float(), v.float())
        output, lse = naive_attention_varlen(
            *wide, cu_seqlens_q, cu_seqlens_k,
            window=(left, right), alibi=alibi, softcap=softcap, scale=scale,
        )  # fmt: skip
        output = output.to(q.dtype)
    else:
        # Two more sequences, of the rows after the last: queries without keys, then keys without
        # queries. So all of O and of the gradients is written, whatever cu_seqlens ends with.
        T, S = sizes["T"], sizes["S"]  # noqa: N806  # axis letters
        q_starts = torch.nn.functional.pad(cu_seqlens_q.to(torch.int32), (0, 2), value=T)
        k_starts = torch.cat([cu_seqlens_k, cu_seqlens_k[-1:]]).to(torch.int32)
        k_starts = torch.nn.functional.pad(k_starts, (0, 1), value=S)
        output, lse = flash_ops.flash_forward(
            *(x.transpose(0, 1)[None] for x in (q, k, v)),
            alibi, q_starts, k_starts, scale, softcap, left, right, deterministic,
        )  # fmt: skip
        output, lse = output[0].transpose(0, 1), lse[0]
    return (output, lse) if return_lse else output


def check_starts(name: str, starts: torch.Tensor, x: torch.Tensor) -> None:
    """Refuse starts that are no integers, lie elsewhere, or (on the CPU) do not rise within x."""
    if starts.dtype not in (torch.int32, torch.int64):
        raise TypeError(
            f"{name} must be int32 or int64, got {starts.dtype}. Next: {name}.to(torch.int32)."
        )
    if starts.device != x.device:
        raise ValueError(
            f"{name} is on {starts.device}, the tensors on {x.device}. Next: {name}.to(q.device)."
        )
    if len(starts) == 0:
        raise ValueError(f"{name} is empty; expected [0, first end, …]. Next: at least [0].")
    if starts.is_cuda or torch.compiler.is_compiling():
        return
    values = starts.tolist()
    if values[0] != 0 or values != sorted(values) or values[-1] > len(x):
        raise ValueError(
            f"{name} must rise from 0 to at most {len(x)}, the rows there are; got {values}. "
            f"Likely cause: lengths instead of their running sum. Next: "
            f"torch.nn.functional.pad(lengths.cumsum(0), (1, 0))."
        )
