"""The twins of ``linear_attention``: one step at a time, and all pairs of steps at once.

Equations and letters: see ``api``. Both compute in the dtype
they are given: float64 for an oracle, bf16 for what plain PyTorch would get. They share no line, so
each is a test of the other.
"""

# ruff: noqa: N806  # axis letters are capitals

from __future__ import annotations

import torch

Pair = tuple[torch.Tensor, torch.Tensor]


def naive_linear_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    decay: torch.Tensor | None = None,
    gate: torch.Tensor | None = None,
    beta: torch.Tensor | None = None,
    initial_state: torch.Tensor | None = None,
) -> Pair:
    """Linear attention as a recurrence: T steps, one state.

    Here ``decay``, ``gate`` and ``beta`` may also be given together: the state first fades, then
    forgets what it held at k, then is written.

    Shapes: as ``linear_attention``; returns the output and the state after the last step.
    """
    B, H, T, D = k.shape
    state = k.new_zeros(B, H, D, v.shape[-1]) if initial_state is None else initial_state.to(k)
    outputs = []
    for t in range(T):
        if decay is not None:
            state = state * decay.to(state).exp()[:, None, None]
        if gate is not None:
            state = state * gate[:, :, t].to(state).exp().reshape(B, H, -1, 1)
        value = v[:, :, t]
        if beta is not None:
            held = torch.einsum("bhd,bhde->bhe", k[:, :, t], state)
            value = beta[:, :, t, None].to(state) * (value - held)
        state = state + k[:, :, t, :, None] * value[:, :, None, :]  # (B, H, D, D_v)
        outputs.append(torch.einsum("bhd,bhde->bhe", q[:, :, t], state))
    return torch.stack(outputs, dim=2) if outputs else torch.zeros_like(v), state


def naive_linear_attention_parallel(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    decay: torch.Tensor | None = None,
    gate: torch.Tensor | None = None,
    beta: torch.Tensor | None = None,
    initial_state: torch.Tensor | None = None,
) -> Pair:
    """Linear attention as attention without softmax: a masked T × T matrix, times the values.

    With a gate a key dimension it writes a (B, H, T, T, D) tensor: for short sequences.

    Shapes: as ``linear_attention``; returns the output and the state after the last step.
    """
    B, H, T, D = k.shape
    log_gate = k.new_zeros(B, H, T, 1)
    if decay is not None:
        log_gate = log_gate + decay.to(k)[:, None, None]
    if gate is not None:
        log_gate = log_gate + (gate if gate.dim() == 4 else gate[..., None]).to(k)
    total = log_gate.cumsum(dim=2)  # (B, H, T, 1 or D): log of all fading up to each step
    state = k.new_zeros(B, H, D, v.shape[-1]) if initial_state is None else initial_state.to(k)
    if T == 0:
        return torch.zeros_like(v), state
    past = torch.ones(T, T, dtype=torch.bool, device=k.device).tril()
    values = v
    if beta is not None:  # value_t = beta_t (v_t - what the state holds at k_t just before)
        held = pair_products(k, k, total, past).tril(-1)  # a step's own value is not held yet
        system = torch.eye(T, dtype=k.dtype, device=k.device) + beta.to(k)[..., None] * held
        told = v - (k * total.exp()) @ state
        values = torch.linalg.solve_triangular(
            system, beta.to(k)[..., None] * told, upper=False, unitriangular=True
        )
    output = pair_products(q, k, total, past) @ values + (q * total.exp()) @ state
    left = (total[:, :, -1:] - total).exp() * k  # (B, H, T, D): what is left of each key at the end
    state = total[:, :, -1, :, None].exp() * state + left.transpose(-1, -2) @ values
    return output, state


def pair_products(
    q: torch.Tensor, k: torch.Tensor, total: torch.Tensor, past: torch.Tensor
) -> torch.Tensor:
    """sum_d q_td k_sd exp(total_td - total_sd) for s <= t, else 0: ``(B, H, T, T)``."""
    if total.shape[-1] == 1:
        fading = total - total.transpose(-1, -2)
        return q @ k.transpose(-1, -2) * fading.masked_fill(~past, float("-inf")).exp()
    fading = total[:, :, :, None] - total[:, :, None]  # (B, H, T, T, D)
    fading = fading.masked_fill(~past[:, :, None], float("-inf")).exp()
    return torch.einsum("bhtd,bhsd,bhtsd->bhts", q, k, fading)
