"""The table of angles, and their rotation one step at a time: the twin of ``apply_rope``.

Equation and letters: see ``api``.
"""

from __future__ import annotations

import torch


def rope_table(
    positions: int | torch.Tensor, dim: int, base: float = 10_000.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of every position's angles, correct to the last bit of fp32.

    Shapes: ``positions`` a count P, for 0 ... P-1, or a tensor ``(...)`` of positions (they may be
    fractions); ``-> cos, sin (P, dim/2)`` or ``(..., dim/2)``, fp32. ``dim`` is R.

    The angle is formed in fp64: at position 100,000 fp32 holds it to 0.004 rad only, and cosines
    made from it are off in the third digit.

    Raises:
        ValueError: ``dim`` is odd or not positive, or ``base`` is not greater than 1.
    """
    if dim <= 0 or dim % 2:
        raise ValueError(
            f"rope_table needs an even rotary dim (channels turn in pairs), got dim={dim}. "
            f"Next: pass {max(2, dim + 1)}, or rotate only the first {max(2, dim - 1)} channels."
        )
    if not base > 1:
        raise ValueError(
            f"rope_table needs base > 1, so that later pairs turn slower, got {base}. "
            f"Likely cause: base and dim swapped. Next: rope_table(positions, dim, 10_000.0)."
        )
    at = torch.arange(positions) if isinstance(positions, int) else positions
    pair = torch.arange(dim // 2, dtype=torch.float64, device=at.device)
    frequency = base ** (-2.0 * pair / dim)
    angle = at.to(torch.float64)[..., None] * frequency
    return angle.cos().float(), angle.sin().float()


def naive_rope(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *,
    interleaved: bool = False,
    positions: torch.Tensor | None = None,
) -> torch.Tensor:
    """RoPE in plain PyTorch, one step at a time; shapes as ``apply_rope``."""
    if positions is None:
        positions = torch.arange(x.shape[2], device=x.device)
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    cos, sin = cos.to(wide)[positions.long()], sin.to(wide)[positions.long()]  # (T or B T, R/2)
    if positions.dim() == 2:
        cos, sin = cos[:, None], sin[:, None]  # (B, 1, T, R/2)
    rotary, rest = x.split([2 * cos.shape[-1], x.shape[-1] - 2 * cos.shape[-1]], dim=-1)
    rotary = rotary.to(wide)
    if interleaved:
        first, second = rotary[..., 0::2], rotary[..., 1::2]
    else:
        first, second = rotary.chunk(2, dim=-1)
    turned = (first * cos - second * sin, second * cos + first * sin)
    out = torch.stack(turned, dim=-1).flatten(-2) if interleaved else torch.cat(turned, dim=-1)
    return torch.cat((out.to(x.dtype), rest), dim=-1)
