"""The twins of ``ssd``: one recurrence written three ways, in plain PyTorch.

Equations and letters: see ``api``. The same answer comes out of

* ``naive_ssd``: the recurrence, one time step after the other: T (P N) operations a head;
* ``naive_ssd_quadratic``: masked linear attention, all at once: T² (P + N);
* ``naive_ssd_chunked``: the second inside chunks, the first between them. This is what the kernel
  does, and what ``ssd`` runs where there is no kernel.

They compute in the dtypes they are given: products in x's, decays and the state in dt's. In float64
they are the oracle of the tests.

Sources: Dao & Gu 2024, "Transformers are SSMs", sections 3 to 6; ``segsum`` is its listing 1.
"""

# ruff: noqa: N803, N806  # the paper's letters are capitals

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch

Pair = tuple[torch.Tensor, torch.Tensor]


def segsum(log_decay: torch.Tensor) -> torch.Tensor:
    """Sums of all segments: entry (i, j) is a_{j+1} + … + a_i, and -inf above the diagonal.

    Each entry adds up its own terms. The difference of two running sums is the same in exact
    arithmetic, but loses the small a_i beside large sums.

    Shapes: ``(..., T)`` -> ``(..., T, T)``.

    >>> segsum(torch.tensor([-1.0, -2.0, -4.0])).exp().log()
    tensor([[ 0., -inf, -inf],
            [-2.,  0., -inf],
            [-6., -4.,  0.]])
    """
    T = log_decay.shape[-1]
    lower = torch.ones(T, T, dtype=torch.bool, device=log_decay.device).tril()
    terms = log_decay[..., :, None].expand(*log_decay.shape, T)  # entry (r, j) is a_r
    sums = terms.masked_fill(~lower.tril(-1), 0.0).cumsum(dim=-2)
    return sums.masked_fill(~lower, float("-inf"))


def naive_ssd(
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    *,
    D: torch.Tensor | None = None,
    initial_state: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
) -> Pair:
    """The recurrence h = exp(dt A) h + dt x Bᵀ, y = h C + D x, step by step.

    ``dt`` is as the recurrence uses it: for a bias and softplus, ``step_sizes`` comes first.

    Shapes: as ``ssd``; returns y ``(B, T, H, P)`` and the last state ``(B, H, P, N)``.
    """
    if cu_seqlens is not None:
        return _each(naive_ssd, (x, dt, A, B, C), D, initial_state, cu_seqlens)
    B, C = per_head(B, x), per_head(C, x)  # (B, T, H, N)
    state = first_state(x, dt, B, initial_state)
    outputs = [state.new_empty(x[:, 0:0].shape)]
    for t in range(x.shape[1]):
        decay = torch.exp(dt[:, t] * A)[..., None, None]
        write = (dt[:, t, :, None] * x[:, t])[..., None] * B[:, t, :, None, :]  # (B, H, P, N)
        state = decay * state + write
        read = state @ C[:, t, :, :, None].to(state.dtype)  # (B, H, P, 1)
        outputs.append(read[:, None, ..., 0])
    return skip(torch.cat(outputs, dim=1).to(x.dtype), x, D), state


def naive_ssd_quadratic(
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    *,
    D: torch.Tensor | None = None,
    initial_state: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
) -> Pair:
    """Attention with queries C, keys B, values x, a decay for a mask, and no softmax.

    It writes the T × T matrix of every head. Shapes: as ``naive_ssd``.
    """
    if cu_seqlens is not None:
        return _each(naive_ssd_quadratic, (x, dt, A, B, C), D, initial_state, cu_seqlens)
    B, C = (per_head(m, x).transpose(1, 2) for m in (B, C))  # (B, H, T, N)
    state = first_state(x, dt, B, initial_state)
    steps, values = dt.transpose(1, 2), x.transpose(1, 2)  # (B, H, T), (B, H, T, P)
    logs = steps * A[:, None]
    mask = torch.exp(segsum(logs)) * steps[..., None, :]  # (B, H, T, T)
    y = ((C @ B.mT) * mask).to(x.dtype) @ values
    since = logs.cumsum(-1)
    y = y + (torch.exp(since)[..., None] * (C @ state.mT.to(C.dtype))).to(x.dtype)
    until = torch.exp(logs.flip(-1).cumsum(-1).flip(-1) - logs) * steps  # decay after each step
    write = (until[..., None] * values).to(x.dtype).mT @ B  # (B, H, P, N)
    state = torch.exp(logs.sum(-1))[..., None, None] * state + write
    return skip(y.transpose(1, 2), x, D), state


def naive_ssd_chunked(
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    *,
    D: torch.Tensor | None = None,
    chunk: int = 64,
    initial_state: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
) -> Pair:
    """The quadratic form inside chunks, the recurrence from chunk to chunk. Shapes: as the others.

    One chunk of all of T is the quadratic form, chunks of 1 are the recurrence.
    """
    if cu_seqlens is not None:
        tensors = (x, dt, A, B, C)
        return _each(naive_ssd_chunked, tensors, D, initial_state, cu_seqlens, chunk=chunk)
    state = first_state(x, dt, B, initial_state)
    outputs = [x[:, 0:0]]
    for first in range(0, x.shape[1], chunk):
        now = slice(first, first + chunk)
        y, state = naive_ssd_quadratic(
            x[:, now], dt[:, now], A, B[:, now], C[:, now], D=D, initial_state=state
        )
        outputs.append(y)
    return torch.cat(outputs, dim=1), state


def naive_ssd_step(
    state: torch.Tensor,
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor | None = None,
) -> Pair:
    """One step of the recurrence: the twin of ``ssd_step``, shapes as there."""
    y, state = naive_ssd(
        x[:, None], dt[:, None], A, B[:, None], C[:, None], D=D, initial_state=state
    )
    return y[:, 0], state


def step_sizes(
    dt: torch.Tensor, dt_bias: torch.Tensor | None = None, softplus: bool = False
) -> torch.Tensor:
    """dt in fp32 (float64 stays), plus its bias, through softplus if asked: (B, T, H)."""
    dt = dt if dt.dtype == torch.float64 else dt.float()
    dt = dt if dt_bias is None else dt + dt_bias.to(dt.dtype)
    return torch.nn.functional.softplus(dt) if softplus else dt


def per_head(m: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """B or C of each head's group: ``(B, T, G, N)`` -> ``(B, T, H, N)``."""
    return m.repeat_interleave(x.shape[2] // m.shape[2], dim=2)


def first_state(
    x: torch.Tensor, dt: torch.Tensor, B: torch.Tensor, initial_state: torch.Tensor | None
) -> torch.Tensor:
    """The state before the first step: the one given, or 0; ``(B, H, P, N)`` in dt's dtype."""
    if initial_state is not None:
        return initial_state.to(dt.dtype)
    return dt.new_zeros(x.shape[0], x.shape[2], x.shape[3], B.shape[-1])


def skip(y: torch.Tensor, x: torch.Tensor, D: torch.Tensor | None) -> torch.Tensor:
    """y + D x."""
    return y if D is None else (y + D[:, None] * x).to(y.dtype)


def _each(
    form: Callable[..., Pair],
    tensors: tuple[torch.Tensor, ...],
    D: torch.Tensor | None,
    initial_state: torch.Tensor | None,
    cu_seqlens: torch.Tensor,
    **options: Any,
) -> Pair:
    """``form`` of each packed sequence by itself; rows after the last one are 0."""
    x, dt, A, B, C = tensors
    starts = cu_seqlens.tolist()
    outputs, states = [], []
    for i, (first, stop) in enumerate(pairwise(starts)):
        own = slice(first, stop)
        y, state = form(
            x[:, own], dt[:, own], A, B[:, own], C[:, own], D=D,
            initial_state=None if initial_state is None else initial_state[i : i + 1], **options,
        )  # fmt: skip
        outputs.append(y)
        states.append(state)
    outputs.append(torch.zeros_like(x[:, starts[-1] :]))
    none = first_state(x[0:0], dt, B, None)
    return torch.cat(outputs, dim=1), torch.cat([none, *states])
