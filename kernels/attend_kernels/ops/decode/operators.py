"""The decode kernels as one operator of PyTorch, so that ``torch.compile`` keeps them whole.

The operator also runs the twin where the kernels cannot run: the twin looks at the lengths, which a
compiled graph has not got yet.
"""

from __future__ import annotations

from typing import Any

import torch

from attend_kernels.common import fallback
from attend_kernels.common.tensors import unit_rows


@torch.library.custom_op("attend::decode", mutates_args=())
def decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    lengths: torch.Tensor,
    block_table: torch.Tensor | None,
    k_scale: torch.Tensor | None,
    v_scale: torch.Tensor | None,
    scale: float,
    softcap: float | None,
    window: int | None,
    splits: int | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return O and LSE. Shapes: as ``decode_attention``, q with its axis T."""
    if why_not(q, k_cache):
        from attend_kernels.ops.decode.naive import naive_decode_attention

        output, lse = naive_decode_attention(
            q.float(), k_cache, v_cache, lengths, block_table,
            scale=scale, window=window, softcap=softcap, k_scale=k_scale, v_scale=v_scale,
        )  # fmt: skip
        return output.to(q.dtype, memory_format=torch.contiguous_format), lse
    return launch_decode(
        q, k_cache, v_cache, lengths, block_table, k_scale, v_scale, scale, softcap, window, splits
    )


@decode.register_fake
def _(q: torch.Tensor, *_: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return q.new_empty(q.shape), q.new_empty(q.shape[:3], dtype=torch.float32)


def launch_decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    lengths: torch.Tensor,
    block_table: torch.Tensor | None,
    k_scale: torch.Tensor | None,
    v_scale: torch.Tensor | None,
    scale: float,
    softcap: float | None,
    window: int | None,
    splits: int | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run the kernels: ``decode`` where they can run. q, O and LSE may lack the axis T."""
    from attend_kernels.ops.decode import forward

    paged = block_table is not None
    k, v = (heads_first(unit_rows(x), paged) for x in (k_cache, v_cache))
    return forward.decode(
        unit_rows(q), k, v, unit_rows(lengths), unit_rows(block_table) if paged else None,
        spread_scale(k_scale, k, paged), spread_scale(v_scale, v, paged),
        scale, softcap, window, splits,
    )  # fmt: skip


def why_not(q: torch.Tensor, k_cache: torch.Tensor) -> str | None:
    """Say why the kernels cannot run on these, or None when they can."""
    if (reason := fallback.why_not(q)) or not q.is_cuda:
        return reason
    major, minor = torch.cuda.get_device_capability(q.device)
    if k_cache.dtype == torch.float8_e4m3fn and (major, minor) < (8, 9):
        return f"fp8 needs a GPU of compute capability 8.9, this one has {major}.{minor}"
    return None


def heads_first(x: torch.Tensor, paged: bool) -> torch.Tensor:
    """View pages ``(pages, page, G, …)`` as ``(pages, G, page, …)``, like ``(B, G, S, …)``."""
    return x.transpose(1, 2) if paged else x


def spread_scale(scale: torch.Tensor | None, x: torch.Tensor, paged: bool) -> torch.Tensor | None:
    """View scales, one a head or one a token and head, as ``x`` without its last axis."""
    if scale is None:
        return None
    if scale.dim() == 1:
        return scale[None, :, None].expand(x.shape[:3])
    return heads_first(scale, paged)
