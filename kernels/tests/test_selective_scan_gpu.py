"""The selective scan on a GPU: every entry of the table, real lengths, half precision.

The other files' tests run there too. Here is what the interpreter cannot do: the table's blocks,
long sequences, and races, which only concurrent programs can show.
"""

# ruff: noqa: N803  # axis letters are capitals

from __future__ import annotations

import pytest
import torch
from attend_kernels import naive_selective_scan
from attend_kernels.ops.selective_scan import tiles as selective_scan_tiles

from .numerics import DTYPES, TOLERANCE, relative_error
from .recurrences import Tensors, run, wide
from .scan_cases import Case, check, fast

pytestmark = pytest.mark.gpu


@pytest.fixture(params=["one-pass", "segments"])
def passes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Without and with time cut into segments, whatever the rule says."""
    room = 0 if request.param == "one-pass" else 10_000
    monkeypatch.setattr(selective_scan_tiles, "multiprocessors", lambda _: room)
    return request.param


@pytest.mark.usefixtures("passes")
@pytest.mark.parametrize("name", [*DTYPES, "fp64"])
@pytest.mark.parametrize("N", [8, 16, 24, 32, 64, 128, 256], ids=lambda n: f"N{n}")
@pytest.mark.parametrize("T", [1, 97, 256], ids=lambda n: f"T{n}")
def test_every_entry_of_the_table(T: int, N: int, name: str):
    check(Case(T, 2, 72, N, DTYPES.get(name, torch.float64), rate=0.3), "cuda")


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("C", [33, 64, 1536], ids=lambda n: f"C{n}")
def test_lengths_of_a_model(C: int, name: str):
    check(Case(1025, 2, C, 16, DTYPES[name], rate=0.1), "cuda")


@pytest.mark.parametrize("B", [8, 1], ids=["one-pass", "segments"])
def test_the_whole_machine_gives_the_same_bits_each_time(B: int):
    inputs = Case(2048, B, 1024, 16, torch.bfloat16).inputs("cuda")
    first = run(fast, inputs)
    for _ in range(3):
        for name, value in run(fast, inputs).items():
            assert torch.equal(value, first[name]), name


def test_a_split_in_the_middle_of_a_long_sequence(passes: str):
    inputs = Case(4096, 1, 256, 16).inputs("cuda")
    timed = ("u", "delta", "B", "C", "z")

    def half(second: bool) -> Tensors:
        part = slice(1500, None) if second else slice(None, 1500)
        return {k: x[:, part] if k in timed else x for k, x in inputs.items()}

    want, last = fast(**inputs)
    first, state = fast(**half(False))
    second, state = fast(**half(True) | {"initial_state": state})
    together = torch.cat([first, second], dim=1)
    if passes == "one-pass":
        assert torch.equal(together, want)
        assert torch.equal(state, last)
    assert relative_error(together, want.double()) < 1e-5
    assert relative_error(state, last.double()) < 1e-5


def test_memory_stays_far_below_the_states():
    """At (B, T, C, N) = (2, 4096, 2048, 16) all states are 1 GiB; the rest of it is 0.3 GiB."""
    inputs = Case(4096, 2, 2048, 16, torch.bfloat16).inputs("cuda")
    leaves = {k: x.requires_grad_() for k, x in inputs.items()}
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    y, state = fast(**leaves)
    (y.sum() + state.sum()).backward()
    assert torch.cuda.max_memory_allocated() - before < 2 * 4096 * 2048 * 16 * 4


def test_oracle_in_float64_at_a_long_length():
    inputs = Case(2048, 1, 40, 16, torch.bfloat16, rate=0.05).inputs("cuda")
    got, want = run(fast, inputs), run(naive_selective_scan, wide(inputs))
    for name, value in got.items():
        assert relative_error(value, want[name]) < TOLERANCE[torch.bfloat16], name
