"""The kernel with all its powers written out: the twin of ``s4d_kernel``. Equation: see ``api``."""

# ruff: noqa: N803  # A and C are the paper's matrices here

from __future__ import annotations

import torch


def naive_s4d_kernel(
    delta: torch.Tensor, A: torch.Tensor, C: torch.Tensor, length: int
) -> torch.Tensor:
    """S4D's convolution kernel in plain PyTorch, in the dtype it is given.

    Shapes: as ``s4d_kernel``; complex128 is an oracle.
    """
    z = delta[:, None] * A
    return naive_powers(C * (torch.exp(z) - 1) / A, z, length)


def naive_powers(factor: torch.Tensor, z: torch.Tensor, length: int) -> torch.Tensor:
    """2 Re sum_n factor_n exp(l z_n). Shapes: factor and z ``(C, N)`` complex -> ``(C, L)``."""
    steps = torch.arange(length, device=z.device, dtype=z.real.dtype)
    return 2 * torch.einsum("cn,cnl->cl", factor, torch.exp(z[..., None] * steps)).real
