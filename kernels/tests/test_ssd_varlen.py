"""SSD of packed sequences: each alone and all together are the same."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from attend_kernels import naive_ssd, naive_ssd_chunked, naive_ssd_quadratic, ssd
from attend_kernels.common import fallback

from .numerics import poisoned, relative_error
from .recurrences import Tensors, run, wide
from .ssd_cases import Case, fast, part

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
LENGTHS = {
    "equal": [16, 16],
    "ragged": [17, 1, 40],
    "empty-ones": [0, 20, 0, 3, 0],
    "one": [33],
}


def packed(lengths: list[int], device: str, spare: int = 0) -> tuple[Tensors, torch.Tensor]:
    """Arguments with all sequences in one row, and where they start."""
    case = Case(sum(lengths) + spare)
    inputs = case.inputs(device)
    states = torch.randn(len(lengths), *inputs["initial_state"].shape[1:])
    starts = torch.tensor([0, *lengths]).cumsum(0).to(device, torch.int32)
    return inputs | {"initial_state": states.to(device)}, starts


def alone(starts: torch.Tensor, **arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The recurrence of each sequence by itself; 0 after the last."""
    ends = starts.tolist()
    outputs, states = [], []
    initial = arguments.pop("initial_state")
    for i, (first, stop) in enumerate(pairwise(ends)):
        own = part(arguments, slice(first, stop))
        y, state = naive_ssd(**own, initial_state=initial[i : i + 1])
        outputs.append(y)
        states.append(state)
    rest = torch.zeros_like(arguments["x"][:, ends[-1] :])
    return torch.cat([*outputs, rest], dim=1), torch.cat([initial[:0], *states])


@pytest.mark.parametrize("form", [naive_ssd, naive_ssd_quadratic, naive_ssd_chunked])
def test_the_twins_take_packed_sequences(form: Any):
    inputs, starts = packed(LENGTHS["ragged"], "cpu", spare=2)
    inputs = wide(inputs)
    y, state = form(**inputs, cu_seqlens=starts)
    want, last = alone(starts, **inputs)
    torch.testing.assert_close(y, want)
    torch.testing.assert_close(state, last)


@pytest.mark.thin(keep=3)
@needs_triton
@pytest.mark.parametrize("spare", [0, 5], ids=["full", "rows-to-spare"])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_packed_is_each_alone(lengths: list[int], spare: int, device: str):
    inputs, starts = packed(lengths, device, spare)

    def together(**arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return fast(**arguments, cu_seqlens=starts)

    with poisoned():
        got = run(together, inputs)
    want = run(lambda **arguments: alone(starts, **arguments), wide(inputs))
    for name, value in got.items():
        assert relative_error(value, want[name], floor=1e-2) < 1e-5, name
    for name in ("y", "dx", "ddt", "dB", "dC"):
        assert not got[name][:, sum(lengths) :].any(), name


@needs_triton
def test_rows_of_no_sequence_at_all(device: str):
    inputs, starts = packed([], device, spare=5)
    y, states = ssd(**inputs, cu_seqlens=starts, output_state=True)
    assert not y.any()
    assert states.shape == (0, 2, 16, 16)


@needs_triton
def test_64_bit_starts_and_no_initial_state(device: str):
    inputs, starts = packed([9, 20], device)
    del inputs["initial_state"]
    y, states = ssd(**inputs, cu_seqlens=starts.long(), output_state=True)
    for i, span in enumerate((slice(0, 9), slice(9, 29))):
        want, last = fast(**part(inputs, span))
        assert torch.equal(y[:, span], want)
        assert torch.equal(states[i : i + 1], last)
