"""An 8-bit cache of keys and values: half the bytes of bf16, so half the time to read them.

Equation, for the numbers x that share one scale::

    scale = max |x| / limit          code = round(x / scale)          x̂ = scale · code

with limit 127 for int8 (codes are whole numbers) and 448 for fp8 e4m3 (codes are floats of 4
exponent and 3 mantissa bits). What is lost: for int8 |x - x̂| <= scale / 2, whatever x; for e4m3
|x - x̂| <= |x| / 16, or scale / 1024 where x is that small. So int8 keeps a row of similar numbers
better, e4m3 one with outliers.

Which numbers share a scale: the D numbers of one token and head, which can be done as tokens
arrive; or all the tokens of a head, which needs the largest number beforehand.

Letters: ``B`` batch, ``G`` key/value heads, ``S`` keys, ``D`` head dim; ``pages`` and ``page`` are
the number of pages of a paged cache and the tokens in one. Both layouts of ``decode_attention``
fit: ``(B, G, S, D)`` and ``(pages, page, G, D)``.

Memory traffic: D + 4 bytes a token and head are kept, against 2 D in bf16.

Source: e4m3: Micikevicius et al. 2022, "FP8 formats for deep learning", table 1.
"""

from __future__ import annotations

import torch

LIMITS = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}  # largest code of each dtype


def quantise_cache(
    x: torch.Tensor, dtype: torch.dtype = torch.int8, head_axis: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and fp32 scales of keys or values.

    Args:
        x: floating point, any strides.
        dtype: ``torch.int8`` or ``torch.float8_e4m3fn``.
        head_axis: None for a scale each token and head; for a scale each head, the axis of the
            heads: 1 in ``(B, G, S, D)``, 2 in ``(pages, page, G, D)``.

    Shapes: ``(..., D)`` -> codes ``(..., D)`` and scales ``(...)``, or ``(G,)`` with head_axis.

    Raises:
        ValueError: the dtype is not one of the two.
    """
    if dtype not in LIMITS:
        raise ValueError(
            f"quantise_cache makes torch.int8 or torch.float8_e4m3fn codes, not {dtype}. "
            f"Next: leave dtype out for int8."
        )
    largest = x.float().abs().amax(dim=_shared_axes(x, head_axis))
    scale = torch.where(largest == 0.0, 1.0, largest / LIMITS[dtype])  # zeros: any scale is right
    return encode(x, scale, dtype, head_axis), scale


def encode(
    x: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype, head_axis: int | None = None
) -> torch.Tensor:
    """Codes of x by scales that are there already; what lies beyond the last code becomes it.

    Shapes: x ``(..., D)``, scale ``(...)``, or ``(G,)`` with head_axis -> ``(..., D)``.
    """
    codes = x.float() / spread(scale, x, head_axis)
    codes = codes.clamp(-LIMITS[dtype], LIMITS[dtype])
    return (codes.round() if dtype == torch.int8 else codes).to(dtype)


def dequantise_cache(
    codes: torch.Tensor,
    scale: torch.Tensor,
    dtype: torch.dtype = torch.float32,
    head_axis: int | None = None,
) -> torch.Tensor:
    """Keys or values again, ``scale · code``, from what ``quantise_cache`` returned.

    Shapes: codes ``(..., D)``, scale ``(...)``, or ``(G,)`` with head_axis -> ``(..., D)``.
    """
    return codes.to(dtype) * spread(scale, codes, head_axis).to(dtype)


def spread(scale: torch.Tensor, x: torch.Tensor, head_axis: int | None) -> torch.Tensor:
    """View scales as something to multiply ``x (..., D)`` by."""
    if head_axis is None:
        return scale[..., None]
    return scale.reshape([-1 if axis == head_axis else 1 for axis in range(x.dim())])


def _shared_axes(x: torch.Tensor, head_axis: int | None) -> list[int]:
    """Axes of the numbers that share a scale."""
    return [-1] if head_axis is None else [axis for axis in range(x.dim()) if axis != head_axis]
