"""Flash attention on a GPU: the tiles of the table, real lengths, half precision, other streams.

The other files' tests run there too, on the table's tiles. Here is what the interpreter cannot do:
long sequences, every tile with every dtype, and races, which only concurrent programs can show.
"""

# ruff: noqa: N803  # axis letters are capitals

from __future__ import annotations

import pytest
import torch
from attend_kernels import flash_attention, flash_attention_varlen, naive_attention
from attend_kernels.common import devices
from attend_kernels.ops.flash import tiles as flash_tiles
from torch.nn.functional import scaled_dot_product_attention

from .flash_cases import Case, check, run
from .numerics import DTYPES, TF32_TOLERANCE, TOLERANCE, assert_right, poisoned, relative_error

pytestmark = pytest.mark.gpu
HALVES = {name: DTYPES[name] for name in ("fp16", "bf16")}


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("D", [16, 32, 64, 80, 128, 256], ids=lambda n: f"D{n}")
@pytest.mark.parametrize("T", [256, 1025], ids=lambda n: f"T{n}")
def test_every_tile_of_the_table(T: int, D: int, name: str, causal: bool):
    case = Case(T, B=2, H=4, G=2, D=D, dtype=DTYPES[name], causal=causal)
    check(case, "cuda")
    check(case, "cuda", deterministic=False)


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("D", [64, 128], ids=lambda n: f"D{n}")
@pytest.mark.parametrize(
    "options",
    [
        {"window": 100, "causal": True},
        {"window": (300, 50)},
        {"alibi": True, "causal": True},
        {"softcap": 20.0},
        {"alibi": True, "softcap": 20.0, "window": 200, "causal": True},
    ],
    ids=["window", "two-sided", "alibi", "softcap", "all"],
)
def test_options(options: dict, D: int, name: str):
    check(Case(777, 1025, B=2, H=4, G=1, D=D, dtype=DTYPES[name], **options), "cuda")


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("D", [64, 128], ids=lambda n: f"D{n}")
@pytest.mark.parametrize("N", [4096, 16_384], ids=lambda n: f"N{n}")
def test_long_sequences_against_pytorchs_own(N: int, D: int, causal: bool):
    """The naive twin would need N² memory: PyTorch's own attention in fp32 stands in for it."""
    case = Case(N, H=2, D=D, dtype=torch.bfloat16, causal=causal)
    inputs = case.inputs("cuda")
    inputs[4].zero_()
    with poisoned():
        got = run(flash_attention, inputs, return_lse=True, causal=causal)
    q, k, v = (x.float().requires_grad_() for x in inputs[:3])
    output = scaled_dot_product_attention(q, k, v, is_causal=causal)
    grads = torch.autograd.grad(output, (q, k, v), inputs[3].float())
    want = dict(zip(("output", "dQ", "dK", "dV"), (output.detach(), *grads), strict=True))
    for name, value in want.items():
        assert_right(got[name], value.double(), torch.bfloat16, what=name)


@pytest.mark.parametrize("D", [64, 128], ids=lambda n: f"D{n}")
def test_gradients_are_the_same_bits_each_time(D: int):
    case = Case(2048, B=2, H=8, G=2, D=D, dtype=torch.bfloat16, causal=True)
    inputs = case.inputs("cuda")
    first = run(flash_attention, inputs, return_lse=True, causal=True)
    for _ in range(5):
        again = run(flash_attention, inputs, return_lse=True, causal=True)
        for name, value in first.items():
            assert torch.equal(value, again[name]), name


def test_tf32_where_pytorch_allows_it():
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        inputs = Case(500, D=64).inputs("cuda")
        got = run(flash_attention, inputs, return_lse=True)
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
    want = run(naive_attention, [x.double() for x in inputs])
    for name, value in got.items():
        error = relative_error(value, want[name])
        assert error < 2 * TF32_TOLERANCE, name
    assert relative_error(got["output"], want["output"]) > 1e-5  # it was tf32 indeed


def test_packed_sequences_of_very_different_lengths():
    lengths = torch.tensor([1, 4000, 17, 0, 900, 128])
    starts = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).to("cuda", torch.int32)
    total = int(lengths.sum())
    q, k, v = (torch.randn(total, 4, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    with poisoned():
        output = flash_attention_varlen(q, k, v, starts, starts, causal=True)
    for first, stop in zip(starts.tolist(), starts.tolist()[1:], strict=False):
        one = [x[first:stop].transpose(0, 1)[None].double() for x in (q, k, v)]
        want = naive_attention(*one, causal=True)[0][0].transpose(0, 1)
        if stop > first:
            assert relative_error(output[first:stop], want) < TOLERANCE[torch.bfloat16]


def test_more_programs_than_a_grid_axis_holds():
    """B × H beyond 65,535, the limit of the second axis of a grid."""
    q, k, v = (torch.randn(4100, 16, 4, 16, device="cuda").half() for _ in range(3))
    want = naive_attention(*(x[-1:].double() for x in (q, k, v)))[0]
    assert relative_error(flash_attention(q, k, v)[-1:], want) < TOLERANCE[torch.float16]


def test_inputs_farther_apart_than_32_bits_count():
    """The last batch row begins beyond element 2³¹."""
    base = torch.empty(3, 2**30, device="cuda", dtype=torch.float16)
    view = base[:, : 2 * 64 * 64].view(3, 2, 64, 64)
    view.normal_()
    want = naive_attention(*[view[-1:].double()] * 3)[0]
    assert relative_error(flash_attention(view, view, view)[-1:], want) < TOLERANCE[torch.float16]


def test_under_inductor():
    compiled = torch.compile(flash_attention, fullgraph=True)
    case = Case(300, H=4, G=2, D=64, dtype=torch.bfloat16, causal=True)
    got = run(compiled, case.inputs("cuda"), return_lse=True, causal=True)
    want = run(flash_attention, case.inputs("cuda"), return_lse=True, causal=True)
    for name, value in got.items():
        assert torch.equal(value, want[name]), name


def test_the_table_covers_this_gpu():
    q = torch.empty(1, 1, 1, 64, device="cuda", dtype=torch.bfloat16)
    assert devices.architecture(q.device) in (80, 90)
    limit = torch.cuda.get_device_properties(q.device).shared_memory_per_block_optin
    tile = flash_tiles.choose("forward", q, "causal")
    assert (tile.block_t + 2 * tile.stages * tile.block_s) * 64 * 2 <= limit
