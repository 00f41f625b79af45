"""Linear attention on a GPU: every entry of the table, real lengths, half precision, tf32.

The other files' tests run there too. Here is what the interpreter cannot do: the table's tiles,
segments as a GPU has them, long sequences, and races, which only concurrent programs can show.
"""

# ruff: noqa: N803  # axis letters are capitals

from __future__ import annotations

from typing import Any

import pytest
import torch
from attend_kernels import linear_attention, linear_attention_step, naive_linear_attention_parallel
from attend_kernels.ops.linear_attention import tiles as linear_attention_tiles

from .linear_attention_cases import KINDS, Case, Results, check, run, widened
from .numerics import DTYPES, TF32_TOLERANCE, TOLERANCE, relative_error

pytestmark = pytest.mark.gpu
FLOORS = {"d_decay": 1.0, "d_initial_state": 1e-2}


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("D", [16, 32, 40, 64, 128, 256], ids=lambda n: f"D{n}")
@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_of_the_table(kind: str, D: int, name: str):
    check(Case(113, B=2, H=2, D=D, dtype=DTYPES[name], kind=kind, chunk=64), "cuda")


@pytest.mark.parametrize("chunk", linear_attention_tiles.CHUNKS, ids=lambda n: f"chunk{n}")
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_chunk(kind: str, name: str, chunk: int):
    check(Case(97, H=2, D=64, E=128, dtype=DTYPES[name], kind=kind, chunk=chunk), "cuda")


@pytest.mark.parametrize("widths", [(64, 256), (256, 64), (59, 40), (128, 17)], ids=str)
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_keys_and_values_of_different_widths(kind: str, name: str, widths: tuple[int, int]):
    case = Case(70, H=2, D=widths[0], E=widths[1], dtype=DTYPES[name], kind=kind, chunk=64)
    check(case, "cuda")


def oracle(inputs: dict[str, torch.Tensor], backward: bool = True) -> Results:
    """The parallel twin in float64, chunk by chunk, for the recurrence would take too long."""

    def by_chunks(decay: Any = None, initial_state: Any = None, **steps: torch.Tensor):
        outputs = []
        for first in range(0, steps["q"].shape[2], 32):
            part = {name: x[:, :, first : first + 32] for name, x in steps.items()}
            output, initial_state = naive_linear_attention_parallel(
                **part, decay=decay, initial_state=initial_state
            )
            outputs.append(output)
        return torch.cat(outputs, dim=2), initial_state

    return run(by_chunks, widened(inputs), backward)


def assert_close(got: Results, want: Results, limit: float) -> None:
    for key, value in got.items():
        assert relative_error(value, want[key], FLOORS.get(key, 0.0)) < limit, key


@pytest.mark.parametrize("strength", [0.0, 0.05, 30.0], ids=lambda s: f"strength{s}")
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_long_sequence_in_segments(kind: str, name: str, strength: float):
    """One head fills no GPU: the sequence is cut, and the last segment is short."""
    case = Case(1025, D=64, dtype=DTYPES[name], kind=kind, strength=strength, chunk=64)
    inputs = case.inputs("cuda")
    k, v = inputs["k"], inputs["v"]
    assert linear_attention_tiles.span("plain", k, v) < 1025
    got = run(linear_attention, inputs, output_state=True)
    assert_close(got, oracle(inputs), TOLERANCE[DTYPES[name]])


@pytest.mark.parametrize("kind", KINDS)
def test_tf32_where_pytorch_allows_it(kind: str):
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        inputs = Case(256, H=2, D=64, kind=kind, chunk=64).inputs("cuda")
        got = run(linear_attention, inputs, output_state=True)
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
    assert_close(got, oracle(inputs), TF32_TOLERANCE)


@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_machine_gives_the_same_bits_each_time(kind: str):
    inputs = Case(2048, B=4, H=32, D=128, dtype=torch.bfloat16, kind=kind).inputs("cuda")
    first = run(linear_attention, inputs, output_state=True)
    for _ in range(3):
        for name, value in run(linear_attention, inputs, output_state=True).items():
            assert torch.equal(value, first[name]), name


@pytest.mark.parametrize("kind", KINDS)
def test_a_split_in_the_middle_of_a_long_sequence(kind: str):
    inputs = Case(4096, H=4, D=128, dtype=torch.bfloat16, kind=kind, strength=0.1).inputs("cuda")
    inputs = {name: x.detach() for name, x in inputs.items()}
    state, outputs = inputs.pop("initial_state"), []
    want = oracle(inputs | {"initial_state": state}, backward=False)
    for part in (slice(0, 1500), slice(1500, None)):
        here: Any = {n: x if n == "decay" else x[:, :, part] for n, x in inputs.items()}
        output, state = linear_attention(**here, initial_state=state, output_state=True)
        outputs.append(output)
    got = {"output": torch.cat(outputs, dim=2), "state": state}
    assert_close(got, want, TOLERANCE[torch.bfloat16])


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("D", [16, 59, 64, 128, 256], ids=lambda n: f"D{n}")
@pytest.mark.parametrize("kind", KINDS)
def test_steps(kind: str, D: int, name: str):
    inputs = Case(6, B=2, H=3, D=D, dtype=DTYPES[name], kind=kind).inputs("cuda")
    want = oracle(inputs, backward=False)
    inputs = {n: x.detach() for n, x in inputs.items()}
    state, outputs = inputs.pop("initial_state"), []
    for t in range(6):
        now: Any = {n: x if n == "decay" else x[:, :, t] for n, x in inputs.items()}
        output, state = linear_attention_step(state, **now)
        outputs.append(output)
    got = {"output": torch.stack(outputs, dim=2), "state": state}
    assert_close(got, want, TOLERANCE[DTYPES[name]])


@pytest.mark.parametrize("kind", KINDS)
def test_memory_stays_far_below_the_states(kind: str):
    """At (B, H, T, D, D_v) = (2, 16, 4096, 128, 128) all states are 4 GiB in bf16."""
    inputs = Case(4096, B=2, H=16, D=128, dtype=torch.bfloat16, kind=kind).inputs("cuda")
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    output, state = linear_attention(**inputs, output_state=True)  # pyright: ignore
    (output.float().sum() + state.sum()).backward()
    assert torch.cuda.max_memory_allocated() - before < 2**32 // 4
