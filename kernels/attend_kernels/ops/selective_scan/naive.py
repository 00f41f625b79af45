"""The selective scan in plain PyTorch, twice: step by step, and as one masked matrix a channel.

Equations and letters: see ``api``. The recurrent twin is what the model
means; the parallel twin is the same sum written out, as attention is, and says why no step needs to
wait for another. Neither is fast: the first has T small steps, the second T² N numbers a channel.
Both compute float64 in float64 and everything else in float32, and return y in u's dtype.
"""

# ruff: noqa: N803, N806  # B and C are the paper's matrices here, as in every Mamba

from __future__ import annotations

import torch
from torch.nn import functional


def naive_selective_scan(
    u: torch.Tensor,
    delta: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    *,
    D: torch.Tensor | None = None,
    z: torch.Tensor | None = None,
    delta_bias: torch.Tensor | None = None,
    softplus: bool = True,
    initial_state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Selective scan, one step at a time: the twin of ``selective_scan``.

    Shapes: as ``selective_scan``; always returns y ``(B, T, C)`` and the last state ``(B, C, N)``.
    """
    wide = torch.float64 if u.dtype == torch.float64 else torch.float32
    x, A, B, C = (tensor.to(wide) for tensor in (u, A, B, C))
    step = step_sizes(delta, delta_bias, softplus, wide)  # (B, T, C)
    state = x.new_zeros(x.shape[0], *A.shape)  # (B, C, N)
    if initial_state is not None:
        state = initial_state.to(wide)
    rows = []
    for t in range(x.shape[1]):
        decay = torch.exp(step[:, t, :, None] * A)  # (B, C, N)
        written = (step[:, t] * x[:, t])[..., None] * B[:, t, None, :]
        state = decay * state + written
        rows.append((state * C[:, t, None, :]).sum(-1))  # (B, C)
    y = torch.stack(rows, dim=1) if rows else torch.zeros_like(x)
    return _skip_and_gate(y, x, D, z).to(u.dtype), state


def naive_parallel_selective_scan(
    u: torch.Tensor,
    delta: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    *,
    D: torch.Tensor | None = None,
    z: torch.Tensor | None = None,
    delta_bias: torch.Tensor | None = None,
    softplus: bool = True,
    initial_state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Selective scan, all steps at once: a lower-triangular matrix a channel, as in attention.

    y_t = sum over s <= t of M_ts Δ_s u_s, with M_ts = sum_n C_tn B_sn exp(A_n (τ_t - τ_s)) and
    τ_t = Δ_1 + ... + Δ_t. It holds (B, T, T, C, N) numbers: for tiny sizes.

    Shapes: as ``naive_selective_scan``.
    """
    wide = torch.float64 if u.dtype == torch.float64 else torch.float32
    x, A, B, C = (tensor.to(wide) for tensor in (u, A, B, C))
    step = step_sizes(delta, delta_bias, softplus, wide)  # (B, T, C)
    time = step.cumsum(1)
    passed = time[:, :, None] - time[:, None]  # (B, T, S, C): negative above the diagonal, where
    later = torch.ones(passed.shape[1:3], dtype=torch.bool, device=u.device).triu(1)
    passed = passed.masked_fill(later[:, :, None], 0.0)  # exp(A passed) could overflow
    decay = torch.exp(passed[..., None] * A).masked_fill(later[:, :, None, None], 0.0)
    matrix = torch.einsum("btn,bsn,btscn->btsc", C, B, decay)
    y = torch.einsum("btsc,bsc->btc", matrix, step * x)
    state = torch.einsum("bscn,bsn,bsc->bcn", decay[:, -1], B, step * x)
    if initial_state is not None:
        faded = torch.exp(time[..., None] * A) * initial_state.to(wide)[:, None]  # (B, T, C, N)
        y = y + torch.einsum("btn,btcn->btc", C, faded)
        state = state + faded[:, -1]
    return _skip_and_gate(y, x, D, z).to(u.dtype), state


def step_sizes(
    delta: torch.Tensor, delta_bias: torch.Tensor | None, softplus: bool, wide: torch.dtype
) -> torch.Tensor:
    """Δ as the recurrence uses it: with the bias, and through softplus, if asked.

    Shapes: delta ``(..., C)``, delta_bias ``(C,)`` -> ``(..., C)``.
    """
    raw = delta.to(wide)
    raw = raw if delta_bias is None else raw + delta_bias.to(wide)
    return functional.softplus(raw, threshold=20.0) if softplus else raw


def _skip_and_gate(
    y: torch.Tensor, x: torch.Tensor, D: torch.Tensor | None, z: torch.Tensor | None
) -> torch.Tensor:
    y = y if D is None else y + D.to(x.dtype) * x
    return y if z is None else y * functional.silu(z.to(x.dtype))
