"""What ``decode_attention`` refuses, and what it says then."""

from __future__ import annotations

import torch

from attend_kernels.common.arguments import assert_one_device
from attend_kernels.common.attention import check
from attend_kernels.common.layout import Layout, look_exchanged, pattern
from attend_kernels.common.shapes import assert_shape
from attend_kernels.ops.decode.quantise import LIMITS
from attend_kernels.ops.decode.tiles import MOST_SPLITS

NAME = "decode_attention"
CODES = tuple(LIMITS)


def check_decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    lengths: torch.Tensor,
    block_table: torch.Tensor | None,
    scales: tuple[torch.Tensor | None, torch.Tensor | None],
    scale: float | None,
    softcap: float | None,
    splits: int | None,
    layout: Layout = "bhtd",
) -> None:
    """Hold the arguments of ``decode_attention`` to their shapes, dtypes, devices and values."""
    axes, cache = (pattern(NAME, layout, each) for each in ("B H T D", "B G S D"))
    sizes = assert_shape(q, "B H D" if q.dim() == 3 else axes, name="q")
    cache = cache if block_table is None else "pages page G D"
    sizes = assert_shape(k_cache, cache, sizes, name="k_cache")
    sizes = assert_shape(v_cache, cache, sizes, name="v_cache")
    if block_table is None:
        look_exchanged(NAME, sizes["G"], sizes["S"], layout)
    assert_shape(lengths, "B", sizes, name="lengths")
    if block_table is not None:
        sizes = assert_shape(block_table, "B n", sizes, name="block_table")
        if sizes["page"] == 0:
            raise ValueError(
                f"{NAME}: the cache's pages hold 0 tokens; expected 1 or more. "
                f"Next: torch.empty(pages, 16, G, D)."
            )
    quantised = k_cache.dtype in CODES
    # An 8-bit cache has no dtype in common with q: the rest of the rules are those of attention.
    check(NAME, q, *((q, q) if quantised else (k_cache, v_cache)), None, sizes, softcap, scale)
    if v_cache.dtype != k_cache.dtype:
        raise TypeError(
            f"{NAME}: k_cache is {k_cache.dtype}, v_cache {v_cache.dtype}; expected one dtype. "
            f"Next: quantise both or neither."
        )
    for name, codes, code_scale in zip(("k", "v"), (k_cache, v_cache), scales, strict=True):
        check_scale(f"{name}_scale", code_scale, codes.dtype, cache, sizes)
    integers = {"lengths": lengths} | ({} if block_table is None else {"block_table": block_table})
    for name, x in integers.items():
        if x.dtype not in (torch.int32, torch.int64):
            raise TypeError(
                f"{NAME}: {name} must be int32 or int64, got {x.dtype}. "
                f"Next: {name}.to(torch.int32)."
            )
    given = [x for x in (q, k_cache, v_cache, *integers.values(), *scales) if x is not None]
    assert_one_device(NAME, *given)
    if torch.is_grad_enabled() and any(x.requires_grad for x in given):
        raise ValueError(
            f"{NAME} computes no gradient, but one of its tensors requires one. Likely cause: a "
            f"model decodes outside torch.no_grad(). Next: with torch.no_grad(): ..., or "
            f"flash_attention to train."
        )
    if splits is not None and not 1 <= splits <= MOST_SPLITS:
        raise ValueError(
            f"{NAME}: splits must be 1 to {MOST_SPLITS} parts, got {splits}. "
            f"Next: leave it out, and the number is chosen for the GPU."
        )
    check_values(lengths, block_table, k_cache, layout)


def check_scale(
    name: str,
    code_scale: torch.Tensor | None,
    dtype: torch.dtype,
    axes: str,
    sizes: dict[str, int],
    function: str = NAME,
) -> None:
    """Refuse scales that are missing, too many or of another shape or dtype."""
    codes = dtype in CODES
    if codes != (code_scale is not None):
        raise ValueError(
            f"{function}: {name} {'is missing' if codes else 'was given'} for a cache in {dtype};"
            f" expected scales for int8 and float8_e4m3fn, and for nothing else. "
            f"Next: {'codes, scale = quantise_cache(x)' if codes else f'leave {name} out'}."
        )
    if code_scale is None:
        return
    per_token = axes.removesuffix(" D")
    assert_shape(code_scale, "G" if code_scale.dim() == 1 else per_token, sizes, name=name)
    if code_scale.dtype != torch.float32:
        raise TypeError(
            f"{function}: {name} must be float32, got {code_scale.dtype}. Next: {name}.float()."
        )


def check_values(
    lengths: torch.Tensor,
    block_table: torch.Tensor | None,
    k_cache: torch.Tensor,
    layout: Layout = "bhtd",
    function: str = NAME,
) -> None:
    """Hold lengths and pages to what is there; only where looking at them costs no waiting."""
    if lengths.is_cuda or torch.compiler.is_compiling():
        return
    pages, page = k_cache.shape[:2]
    room = k_cache.shape[2 if layout == "bhtd" else 1]
    room = room if block_table is None else block_table.shape[1] * page
    for sequence, length in enumerate(lengths.tolist()):
        if not 0 <= length <= room:
            raise ValueError(
                f"{function}: lengths[{sequence}] is {length}; expected 0 to {room}, the keys a "
                f"sequence has room for. Likely cause: a token counted before its "
                + ("row was made. " if block_table is None else "page was given out. ")
                + "Next: a larger cache."
            )
        if block_table is None:
            continue
        for number, at in enumerate(block_table[sequence, : -(-length // page)].tolist()):
            if not 0 <= at < pages:
                raise ValueError(
                    f"{function}: block_table[{sequence}, {number}] is {at}; expected 0 to "
                    f"{pages - 1}, the pages there are. Likely cause: length {length} counts "
                    f"tokens whose page was never given out. Next: check lengths[{sequence}]."
                )
