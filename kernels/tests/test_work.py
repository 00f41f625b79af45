"""Work grows linearly with the length: what the kernels move and compute, counted.

Seconds on a GPU are not measured here. That the counts are the algorithm's is held for one kernel;
that softmax attention and the twin without chunks are told apart shows that the count could fail.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from attend_kernels import naive_linear_attention_parallel
from attend_kernels.common import fallback
from torch.utils.flop_counter import FlopCounterMode

if not (fallback.HAS_TRITON and fallback.interpreted()):
    pytest.skip("counts what Triton's interpreter does", allow_module_level=True)

from attend_kernels.bench import cli, work

NOTES = Path(__file__).parents[1] / "bench" / "NOTES.md"


@pytest.mark.thin(keep=3)
@pytest.mark.parametrize("name", work.LINEAR)
def test_work_is_affine_in_the_length(name: str):
    """From T to 2 T to 4 T, the second step adds exactly twice what the first added."""
    for direction, counts in zip(work.PASSES, work.rows(name), strict=True):
        for of, (once, twice, four_times) in enumerate(zip(*counts, strict=True)):
            assert four_times - twice == 2 * (twice - once), (direction, of)
        assert counts[1][0] > 1.5 * counts[0][0], direction  # it is the length that grew
        assert counts[1][3] > counts[0][3] or name == "causal convolution", direction


def test_softmax_attention_is_not():
    for counts in work.rows("flash attention, for comparison"):
        products = [count[2] for count in counts]
        assert products == [products[0], 4 * products[0], 16 * products[0]]
        loaded = [count[0] for count in counts]
        assert loaded[2] - loaded[1] > 3 * (loaded[1] - loaded[0])


def test_the_twin_without_chunks_is_not():
    found = []
    for length in (64, 128, 256):
        q, k, v = torch.randn(3, 1, 1, length, work.WIDTH)
        with FlopCounterMode(display=False) as counter:
            naive_linear_attention_parallel(q, k, v)
        found.append(counter.get_total_flops())
    assert found[2] - found[1] > 3 * (found[1] - found[0])


def test_the_counts_are_those_of_the_algorithm():
    """A step loads q, k and v, stores o; 2 C (D + D_v) + 4 D D_v operations, as the module says."""
    steps, width = 2 * work.CHUNK, work.WIDTH
    forward, _ = work.linear("plain", steps)
    assert forward.loaded == steps * 3 * width * 4
    assert forward.stored == (steps * width + width * width) * 4
    assert forward.products == steps * (2 * work.CHUNK * 2 * width + 4 * width * width)


def test_what_masks_hide_is_not_counted():
    """Steps that are not there are neither read nor written."""
    forward, _ = work.linear("plain", work.CHUNK + 1)
    assert forward.loaded == (work.CHUNK + 1) * 3 * work.WIDTH * 4


@pytest.mark.thin(keep=1)
@pytest.mark.parametrize("name", work.LINEAR | work.QUADRATIC)
def test_the_notes_have_the_table(name: str):
    """All but its last column, which depends on how Triton puts operations together."""
    text = NOTES.read_text()
    assert work.HEAD in text
    for line in work.table_rows(name):
        assert line[: line[:-1].rindex("|")] in text, "python -m attend_kernels.bench --work"


def test_the_command_prints_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(work, "table", lambda: work.HEAD)
    assert cli.main(["--work"]) == 0
    assert capsys.readouterr().out == work.HEAD
