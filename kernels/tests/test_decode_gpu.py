"""Decoding on a GPU: the tiles of the table, long caches, odd layouts, CUDA graphs.

The other files' tests run there too, on the table's tiles.
"""

# ruff: noqa: N803  # axis letters are capitals

from __future__ import annotations

import pytest
import torch
from attend_kernels import decode_attention, naive_decode_attention
from attend_kernels.ops.decode import tiles as decode_tiles
from torch.nn.functional import scaled_dot_product_attention

from .decode_cases import Case, check, run
from .numerics import DTYPES, TOLERANCE, relative_error

pytestmark = pytest.mark.gpu
BF16 = torch.bfloat16


@pytest.mark.parametrize("page", [0, 16, 64], ids=lambda n: f"page{n}")
@pytest.mark.parametrize("T", [1, 8], ids=lambda n: f"T{n}")
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("D", [16, 64, 80, 128, 256], ids=lambda n: f"D{n}")
def test_every_tile_of_the_table(D: int, name: str, T: int, page: int):
    check(Case((0, 1, 300, 1025), H=8, G=1, D=D, T=T, dtype=DTYPES[name], page=page), "cuda")


@pytest.mark.parametrize("codes", [torch.int8, torch.float8_e4m3fn], ids=["int8", "fp8"])
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("page", [0, 16], ids=lambda n: f"page{n}")
@pytest.mark.parametrize("D", [64, 80, 128, 256], ids=lambda n: f"D{n}")
def test_every_tile_with_eight_bits(D: int, page: int, name: str, codes: torch.dtype):
    case = Case((5, 300, 1025), H=8, G=2, D=D, dtype=DTYPES[name], page=page, codes=codes)
    output, _ = run(case, "cuda")
    want, _ = naive_decode_attention(case.queries("cuda").double(), **case.cache("cuda"))
    # P is rounded to bf16 for fp16 too (see weights_type).
    assert relative_error(output, want) < (1e-5 if name == "fp32" else TOLERANCE[BF16])


def long_cache(B: int, G: int, S: int, D: int) -> list[torch.Tensor]:
    return [torch.randn(B, G, S, D, device="cuda", dtype=BF16) for _ in range(2)]


@pytest.mark.parametrize("splits", [None, 1, 7, 128], ids=lambda n: f"splits{n}")
@pytest.mark.parametrize("S", [16_384, 131_072], ids=lambda n: f"S{n}")
def test_long_caches_against_pytorchs_own(S: int, splits: int | None):
    k, v = long_cache(1, 2, S, 128)
    q = torch.randn(1, 16, 1, 128, device="cuda", dtype=BF16)
    lengths = torch.full((1,), S, device="cuda")
    output = decode_attention(q, k, v, lengths, splits=splits)
    want = scaled_dot_product_attention(q.double(), k.double(), v.double(), enable_gqa=True)
    assert relative_error(output, want) < TOLERANCE[BF16]
    assert torch.equal(output, decode_attention(q, k, v, lengths, splits=splits))


def test_a_cache_farther_apart_than_32_bits_count():
    """The last sequence begins beyond element 2³¹; the last page of a pool does too."""
    base = torch.empty(3, 2**30, device="cuda", dtype=torch.float16)
    cache = base[:, : 64 * 64].view(3, 1, 64, 64).normal_()
    q = torch.randn(3, 4, 64, device="cuda", dtype=torch.float16)
    lengths = torch.full((3,), 64, device="cuda")
    want, _ = naive_decode_attention(q.double(), cache, cache, lengths)
    assert relative_error(decode_attention(q, cache, cache, lengths), want) < 2e-3
    table = torch.arange(3, device="cuda")[:, None]
    pages = cache.transpose(1, 2)
    assert relative_error(decode_attention(q, pages, pages, lengths, table), want) < 2e-3


def test_in_a_cuda_graph_lengths_and_pages_may_change():
    """Nothing waits for the GPU or asks it anything: a captured step serves every later one."""
    case = Case((100, 700), H=8, D=64, T=1, dtype=BF16, page=16)
    q, cache = case.queries("cuda"), case.cache("cuda")
    decode_attention(q, **cache)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = decode_attention(q, **cache)
    other = case.but(lengths=(650, 690)).cache("cuda", seed=1)
    for name in ("k_cache", "v_cache"):
        shared = min(len(cache[name]), len(other[name]))
        cache[name][:shared] = other[name][:shared]
    cache["lengths"].copy_(torch.tensor([96, 640]))
    cache["block_table"].copy_(cache["block_table"].clamp(0, len(cache["k_cache"]) - 1))
    cache["k_cache"].nan_to_num_()
    cache["v_cache"].nan_to_num_()
    graph.replay()
    want, _ = naive_decode_attention(q.double(), **cache)
    assert relative_error(output, want) < TOLERANCE[BF16]


def test_under_inductor():
    case = Case((100, 700), H=8, D=64, dtype=BF16, page=16)
    q, cache = case.queries("cuda"), case.cache("cuda")
    compiled = torch.compile(decode_attention, fullgraph=True)
    assert torch.equal(compiled(q, **cache), decode_attention(q, **cache))


def test_the_number_of_splits_is_for_this_gpu():
    device = torch.device("cuda", torch.cuda.current_device())
    count = torch.cuda.get_device_properties(device).multi_processor_count
    assert decode_tiles.slots(device) == count * decode_tiles.OCCUPANCY
