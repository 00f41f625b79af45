"""New tokens' keys and values, written into a cache where each sequence goes on.

Token t of sequence b goes to position ``lengths[b] + t``: row ``[b, :, lengths[b] + t]`` of a
contiguous cache; of a paged one, page ``block_table[b, s // page]``, slot ``s % page``, for that
position s. Nothing else is touched, and no position is looked at by the CPU.

Letters and the cache's layouts: as in ``api``; ``T`` new tokens.

Memory traffic: the least, 2 T D elements a sequence and head read and as many written. An 8-bit
cache is quantised on the way (``quantise``), by PyTorch, which reads and writes them a few times
more.

Source: Kwon et al. 2023, "PagedAttention", section 4. Nothing here has been timed on a GPU yet.
"""

from __future__ import annotations

import torch

from attend_kernels.common import fallback
from attend_kernels.common.arguments import assert_one_device, assert_tensors
from attend_kernels.common.layout import Layout, heads_first, pattern
from attend_kernels.common.shapes import assert_shape
from attend_kernels.ops.decode.checks import check_scale, check_values
from attend_kernels.ops.decode.naive import naive_append_to_cache
from attend_kernels.ops.decode.operators import heads_first as heads_before
from attend_kernels.ops.decode.quantise import LIMITS, encode, quantise_cache

NAME = "append_to_cache"


def append_to_cache(
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: torch.Tensor,
    block_table: torch.Tensor | None = None,
    *,
    counts: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    layout: Layout = "bhtd",
) -> torch.Tensor:
    """Write new keys and values into a cache, in place, and return the new lengths.

    What it returns is what ``decode_attention`` takes as lengths; ``lengths`` itself is left as it
    is. Forward only. On a GPU lengths and block_table are taken at their word, and a token without
    a place (the cache is full, or there is no such page) is not written; on the CPU that is an
    error. Without Triton or a GPU it warns once and runs ``naive_append_to_cache``.

    Args:
        k_cache: keys, in k's dtype, or codes in int8 or float8_e4m3fn; changed.
        v_cache: values, likewise.
        k: the new tokens' keys.
        v: and their values.
        lengths: how many tokens each sequence has so far; int32 or int64.
        block_table: for a paged cache, the pages of each sequence in order; int32 or int64.
        counts: how many of the T tokens count, for each sequence, where prompts of different
            lengths are filled up on the right; None is T.
        k_scale: for 8 bits: scales of each token and head, which are changed too; or of each head,
            which are not, and whose last code is the largest number that can be kept.
        v_scale: likewise for v_cache.
        layout: ``"bthd"`` for heads after time in k, v, a contiguous cache and its scales.

    Shapes: caches ``(B, G, S, D)``, or with block_table ``(B, n)`` ``(pages, page, G, D)``; k and v
    ``(B, G, T, D)``, or ``(B, G, D)`` for one token; lengths and counts ``(B,)``; scales ``(G,)``,
    or the cache's shape without D -> ``(B,)`` in lengths' dtype.

    Raises:
        ShapeError: the shapes do not belong together.
        ValueError: scales are missing, too many or of two kinds, devices differ, or a gradient is
            asked for; on a CPU also if there is no room or no such page.
        TypeError: dtypes differ or are none of those above.
    """
    given = {"k_cache": k_cache, "v_cache": v_cache, "k": k, "v": v, "lengths": lengths}
    optional = {"block_table": block_table, "counts": counts}
    optional |= {"k_scale": k_scale, "v_scale": v_scale}
    assert_tensors(NAME, tuple(optional), **given, **optional)
    paged = block_table is not None
    axes = pattern(NAME, layout, "B G T D")
    cache_axes = "pages page G D" if paged else pattern(NAME, layout, "B G S D")
    sizes = assert_shape(k, "B G D" if k.dim() == 3 else axes, name="k")
    sizes = assert_shape(v, "B G D" if k.dim() == 3 else axes, sizes, name="v")
    sizes = assert_shape(k_cache, cache_axes, sizes, name="k_cache")
    sizes = assert_shape(v_cache, cache_axes, sizes, name="v_cache")
    for name, x, shape in (
        ("lengths", lengths, "B"),
        ("counts", counts, "B"),
        ("block_table", block_table, "B n"),
    ):
        sizes = sizes if x is None else _check_integers(name, x, shape, sizes)
    tensors = (*given.values(), *(x for x in optional.values() if x is not None))
    assert_one_device(NAME, *tensors)
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        raise ValueError(
            f"{NAME} has no gradient, but one of its tensors requires one. Next: with "
            f"torch.no_grad(): ..., or flash_attention without a cache to train."
        )
    k, v = (x.unsqueeze(2) if x.dim() == 3 else heads_first(x, layout) for x in (k, v))
    after = lengths + (k.shape[2] if counts is None else counts.to(lengths.dtype))
    for count in (lengths, after):
        check_values(count, block_table, k_cache, layout, NAME)
    k, k_new = _encoded("k", k, k_cache, k_scale, cache_axes, sizes)
    v, v_new = _encoded("v", v, v_cache, v_scale, cache_axes, sizes)
    if k_scale is not None and v_scale is not None and k_scale.dim() != v_scale.dim():
        raise ValueError(
            f"{NAME}: k_scale has {k_scale.dim()} axes, v_scale {v_scale.dim()}; expected "
            f"scales of heads in both, or of tokens in both. Next: quantise keys and values alike."
        )
    if reason := fallback.why_not(k):
        fallback.warn_once(NAME, "naive_append_to_cache", reason)
    turned = "bhtd" if paged else layout  # heads come after time in pages, whatever the layout
    k_cache, v_cache = heads_first(k_cache, turned), heads_first(v_cache, turned)
    write = write_rows if torch.compiler.is_compiling() else write_rows_now
    write(k_cache, v_cache, k, v, lengths, block_table, counts)
    if k_new is not None and v_new is not None and k_scale is not None and v_scale is not None:
        k_kept, v_kept = (heads_first(x, turned)[..., None] for x in (k_scale, v_scale))
        write(k_kept, v_kept, k_new[..., None], v_new[..., None], lengths, block_table, counts)
    return after


def _check_integers(name: str, x: torch.Tensor, axes: str, sizes: dict[str, int]) -> dict[str, int]:
    if x.dtype not in (torch.int32, torch.int64):
        raise TypeError(
            f"{NAME}: {name} must be int32 or int64, got {x.dtype}. Next: {name}.to(torch.int32)."
        )
    return assert_shape(x, axes, sizes, name=name)


def _encoded(
    name: str,
    x: torch.Tensor,
    cache: torch.Tensor,
    scale: torch.Tensor | None,
    axes: str,
    sizes: dict[str, int],
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """What to write into a cache, and into its scales if tokens have their own."""
    if cache.dtype not in LIMITS and cache.dtype != x.dtype:
        raise TypeError(
            f"{NAME}: {name} is {x.dtype}, {name}_cache {cache.dtype}; expected one dtype, or a "
            f"cache in int8 or float8_e4m3fn. Next: {name}.to({name}_cache.dtype)."
        )
    check_scale(f"{name}_scale", scale, cache.dtype, axes, sizes, NAME)
    if scale is None:
        return x, None
    if scale.dim() == 1:
        return encode(x, scale, cache.dtype, head_axis=1), None
    return quantise_cache(x, cache.dtype)


def write_rows_now(
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: torch.Tensor,
    block_table: torch.Tensor | None,
    counts: torch.Tensor | None,
) -> None:
    """Copy rows into both caches, ``(B, G, S, D)`` or ``(pages, page, G, D)``, as they are."""
    if fallback.why_not(k):
        naive_append_to_cache(k_cache, v_cache, k, v, lengths, block_table, counts=counts)
        return
    from attend_kernels.ops.decode import append_kernels

    paged = block_table is not None
    k_cache, v_cache = heads_before(k_cache, paged), heads_before(v_cache, paged)
    append_kernels.append(k_cache, v_cache, k, v, lengths, block_table, counts)


write_rows = torch.library.custom_op(
    "attend::append", write_rows_now, mutates_args=("k_cache", "v_cache")
)
