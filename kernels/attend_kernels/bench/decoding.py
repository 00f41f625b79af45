"""The cases of decoding: one new token against a full cache of half a gigabyte, and its peers.

Bytes are the cache's, codes and scales, read once; queries and answers are nothing beside them. The
ceiling is the measured bandwidth of reading. Tables of pages and lengths are full, so that peers
which know neither can take part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

import attend_kernels as kernels
from attend_kernels.bench.case import AbsentError, Answer, Case, Function, Tensors

PAGE = 16  # tokens a page, as vLLM has it


@dataclass(frozen=True)
class Setting:
    """Sizes and the kind of cache of one case."""

    batch: int
    heads: int
    groups: int
    keys: int
    width: int
    cache: str = "contiguous"  # or "paged", "int8", "fp8"
    dtype: torch.dtype = torch.bfloat16
    device: str = "cuda"

    @property
    def codes(self) -> torch.dtype | None:
        """The dtype of an 8-bit cache."""
        return {"int8": torch.int8, "fp8": torch.float8_e4m3fn}.get(self.cache)


# All caches are 512 MiB (8-bit ones with their scales a little more).
SETTINGS = {
    Setting(16, 32, 8, 8192, 128): 0,  # grouped heads, a batch
    Setting(1, 32, 8, 131_072, 128): 0,  # one long sequence: nothing to do without splitting
    Setting(8, 32, 32, 4096, 128): 1,  # a key/value head for each query head
    Setting(32, 32, 8, 8192, 64): 1,
    Setting(16, 32, 8, 8192, 128, "paged"): 1,
    Setting(32, 32, 8, 8192, 128, "int8"): 1,
    Setting(32, 32, 8, 8192, 128, "fp8"): 1,
}


def cases(tiny: bool) -> list[Case]:
    """All decoding cases for a GPU, or ``tiny`` ones for the interpreter."""
    if not tiny:
        return [case_of(setting, wave, _peers(setting)) for setting, wave in SETTINGS.items()]
    made = []
    for cache in ("contiguous", "paged", "int8", "fp8"):
        setting = Setting(2, 4, 2, 48, 16, cache, torch.float32, "cpu")
        made.append(case_of(setting, 0, {"attend": partial(ours, setting)}))
    return made


def case_of(s: Setting, wave: int, peers: dict[str, Callable[[], Function]]) -> Case:
    """Make the case of a setting."""
    numbers = 2 * s.batch * s.groups * s.keys
    moved = numbers * (s.width + 4 if s.codes else s.width * s.dtype.itemsize)
    return Case(
        family="decode",
        name=s.cache,
        size={"D": s.width, "S": s.keys, "B": s.batch, "H": s.heads, "G": s.groups},
        wave=wave,
        make=partial(_make, s),
        learn=(),
        peers=peers,
        oracle=partial(_oracle, s),
        part=lambda answer: Answer((answer.outputs[0][:1],), ()),
        flops={"forward": 4.0 * s.batch * s.heads * s.keys * s.width},
        bytes={"forward": float(moved)},
    )


def _make(s: Setting, seed: int) -> Tensors:
    """q, K, V, lengths; then the table of a paged cache, or the scales of an 8-bit one."""
    generator = torch.Generator(s.device).manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=s.device).to(s.dtype)

    q = draw(s.batch, s.heads, 1, s.width)
    lengths = torch.full((s.batch,), s.keys, dtype=torch.int32, device=s.device)
    if s.cache == "paged":
        pages = s.batch * s.keys // PAGE
        order = torch.randperm(pages, generator=generator, device=s.device)
        table = order.view(s.batch, -1).to(torch.int32)
        k, v = (draw(pages, PAGE, s.groups, s.width) for _ in range(2))
        return q, k, v, lengths, table
    k, v = (draw(s.batch, s.groups, s.keys, s.width) for _ in range(2))
    if s.codes is None:
        return q, k, v, lengths
    k_codes, k_scale = kernels.quantise_cache(k, s.codes)
    v_codes, v_scale = kernels.quantise_cache(v, s.codes)
    return q, k_codes, v_codes, lengths, k_scale, v_scale


def ours(s: Setting) -> Function:
    """Our function with the setting's options."""
    if s.codes is None:
        return kernels.decode_attention

    def attend(
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        lengths: torch.Tensor,
        k_scale: torch.Tensor,
        v_scale: torch.Tensor,
    ) -> torch.Tensor:
        return kernels.decode_attention(q, k, v, lengths, k_scale=k_scale, v_scale=v_scale)

    return attend


def _oracle(s: Setting, inputs: Tensors, _: Tensors) -> Answer:
    """The first sequence in float64."""
    q, k, v, lengths, *rest = inputs
    if s.cache == "paged":
        first = kernels.naive_decode_attention(
            q[:1].double(), k, v, lengths[:1], block_table=rest[0][:1]
        )
    else:
        scales = [x[:1] for x in rest] or [None, None]
        first = kernels.naive_decode_attention(
            q[:1].double(), k[:1], v[:1], lengths[:1], k_scale=scales[0], v_scale=scales[1]
        )
    return Answer((first[0],), ())


def _peers(s: Setting) -> dict[str, Callable[[], Function]]:
    peers: dict[str, Callable[[], Function]] = {"attend": partial(ours, s)}
    if s.cache == "contiguous":
        peers["sdpa"] = lambda: _sdpa
        peers["sdpa-cudnn"] = _sdpa_cudnn
        peers["flex"] = _flex
    elif s.cache == "paged":
        peers["gather, then sdpa"] = lambda: _gather_sdpa
    else:
        peers["dequantise, then sdpa"] = lambda: _dequantise_sdpa
    return peers


def _sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
    """PyTorch's attention, by the backend it chooses itself."""
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def _sdpa_cudnn() -> Function:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return _sdpa(q, k, v)

    return attend


def _flex() -> Function:
    from torch.nn.attention.flex_attention import flex_attention

    if not torch.cuda.is_available():
        raise AbsentError("torch.compile is timed on a GPU only")
    compiled = torch.compile(flex_attention, dynamic=False)

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return compiled(q, k, v, enable_gqa=True)  # pyright: ignore[reportReturnType]  # no LSE asked

    return attend


def _gather_sdpa(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, _: torch.Tensor, table: torch.Tensor
) -> torch.Tensor:
    keys, values = (x[table].flatten(1, 2).transpose(1, 2) for x in (k, v))  # (B, G, S, D)
    return _sdpa(q, keys, values)


def _dequantise_sdpa(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    _: torch.Tensor,
    k_scale: torch.Tensor,
    v_scale: torch.Tensor,
) -> torch.Tensor:
    pairs = ((k, k_scale), (v, v_scale))
    k, v = (kernels.dequantise_cache(x, scale, q.dtype) for x, scale in pairs)
    return _sdpa(q, k, v)
