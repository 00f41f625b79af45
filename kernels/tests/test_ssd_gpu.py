"""SSD on a GPU: every entry of the table, real lengths, half precision, tf32.

The other files' tests run there too. Here is what the interpreter cannot do: the table's tiles,
long sequences, and races, which only concurrent programs can show.
"""

# ruff: noqa: N803  # the papers' letters are capitals

from __future__ import annotations

import pytest
import torch
from attend_kernels import naive_ssd_chunked, ssd

from .numerics import DTYPES, TF32_TOLERANCE, TOLERANCE, relative_error
from .recurrences import run, wide
from .ssd_cases import Case, check, fast, part

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("N", [16, 40, 64, 128, 256], ids=lambda n: f"N{n}")
@pytest.mark.parametrize("P", [16, 64, 128], ids=lambda n: f"P{n}")
def test_every_entry_of_the_table(P: int, N: int, name: str):
    check(Case(113, B=2, H=4, G=2, P=P, N=N, dtype=DTYPES[name]), "cuda")


@pytest.mark.parametrize("chunk", [16, 32, 64, 128, 256], ids=lambda n: f"chunk{n}")
@pytest.mark.parametrize("name", DTYPES)
def test_every_chunk(name: str, chunk: int):
    check(Case(256, P=64, N=128, dtype=DTYPES[name]), "cuda", chunk=chunk)


@pytest.mark.parametrize("rate", [0.0, 0.1, 20.0], ids=lambda r: f"rate{r}")
@pytest.mark.parametrize("name", DTYPES)
def test_a_long_sequence(name: str, rate: float):
    inputs = Case(1025, H=4, P=64, N=64, dtype=DTYPES[name], rate=rate).inputs("cuda")
    got, want = run(fast, inputs), run(naive_ssd_chunked, wide(inputs))
    for key, value in got.items():
        assert relative_error(value, want[key], floor=1e-2) < TOLERANCE[DTYPES[name]], key


def test_tf32_where_pytorch_allows_it():
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        inputs = Case(256, P=64, N=128).inputs("cuda")
        got, want = run(fast, inputs), run(naive_ssd_chunked, wide(inputs))
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
    for key, value in got.items():
        assert relative_error(value, want[key], floor=1e-2) < TF32_TOLERANCE, key


def test_the_whole_machine_gives_the_same_bits_each_time():
    inputs = Case(2048, B=4, H=64, G=2, P=64, N=128, dtype=torch.bfloat16).inputs("cuda")
    first = run(fast, inputs)
    for _ in range(3):
        for name, value in run(fast, inputs).items():
            assert torch.equal(value, first[name]), name


def test_a_split_in_the_middle_of_a_long_sequence():
    inputs = Case(4096, H=8, P=64, N=128, dtype=torch.bfloat16).inputs("cuda")
    want, last = fast(**inputs)
    first, state = fast(**part(inputs, slice(None, 1500)))
    second, state = fast(**part(inputs, slice(1500, None)) | {"initial_state": state})
    oracle, final = naive_ssd_chunked(**wide(inputs))
    limit = TOLERANCE[torch.bfloat16]
    assert relative_error(torch.cat([first, second], dim=1), oracle) < limit
    assert relative_error(want, oracle) < limit
    assert relative_error(state, final) < limit
    assert relative_error(last, final) < limit


def test_many_packed_sequences():
    lengths = torch.randint(0, 400, (40,), generator=torch.Generator().manual_seed(0))
    starts = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).cuda()
    total = int(lengths.sum())
    inputs = Case(total, H=8, P=64, N=128, dtype=torch.bfloat16, options=("D",)).inputs("cuda")
    y, states = ssd(**inputs, cu_seqlens=starts, output_state=True)
    want, last = naive_ssd_chunked(**wide(inputs), cu_seqlens=starts)
    assert relative_error(y, want) < TOLERANCE[torch.bfloat16]
    assert relative_error(states, last) < TOLERANCE[torch.bfloat16]


def test_memory_stays_far_below_the_states():
    """At (B, T, H, P, N) = (2, 4096, 16, 64, 128) all states are 4 GiB in fp32."""
    inputs = Case(4096, B=2, H=16, P=64, N=128, dtype=torch.bfloat16).inputs("cuda")
    leaves = {k: m.requires_grad_() for k, m in inputs.items()}
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    y, state = fast(**leaves)
    (y.float().sum() + state.sum()).backward()
    assert torch.cuda.max_memory_allocated() - before < 2**32 // 16
