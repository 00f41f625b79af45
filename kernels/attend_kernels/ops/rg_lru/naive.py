"""The unit one step at a time: the twin of ``rg_lru``. Equation and letters: see ``api``."""

from __future__ import annotations

import torch


def naive_rg_lru(
    x: torch.Tensor,
    input_gate: torch.Tensor,
    recurrence_gate: torch.Tensor,
    parameter: torch.Tensor,
    *,
    starts: torch.Tensor | None = None,
    initial_state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """RG-LRU as a recurrence in plain PyTorch, in x's dtype: float64 for an oracle.

    Shapes: as ``rg_lru``; it always returns y and the last state.
    """
    rate = 8.0 * torch.nn.functional.softplus(parameter)
    log_decay = -rate * torch.sigmoid(recurrence_gate)  # (B, T, C)
    # Where 1 - a² is 0, in rounding or because there is no decay, its root has no gradient.
    left = -torch.expm1(2.0 * log_decay)
    root = torch.where(left > 0, left, 1.0).sqrt() * (left > 0)
    decay = log_decay.exp()
    if starts is None:
        starts = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
        starts[:, :1] = initial_state is None
    decay = decay.masked_fill(starts[..., None], 0.0)
    root = root.masked_fill(starts[..., None], 1.0)
    gained = root * torch.sigmoid(input_gate) * x
    h = x.new_zeros(x.shape[0], x.shape[2]) if initial_state is None else initial_state.to(x)
    states = []
    for t in range(x.shape[1]):
        h = decay[:, t] * h + gained[:, t]
        states.append(h)
    return torch.stack(states, dim=1) if states else torch.zeros_like(x), h
