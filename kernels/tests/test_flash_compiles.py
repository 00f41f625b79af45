"""The flash kernels compile for GPUs that are not here: no spill, memory fits, tensor cores."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import attend_kernels
import pytest
from attend_kernels import fallback, flash_configs

from .compile_only import compiled

pytestmark = [
    pytest.mark.skipif(not fallback.HAS_TRITON, reason="Triton is not installed"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads the cuobjdump of the Linux wheel"),
]
PAGE = Path(attend_kernels.__file__).parents[1] / "COMPILED.md"
SHARED_LIMIT = {80: 101_376, 90: 232_448}  # sm_80's tiles must fit its consumer cards (8.6) too
# Registers depend on the compiler: the table was chosen with the version the page names, and a
# newer one may spill a little. With every option on at once, so may the dK/dV kernel.
SPILL_ELSEWHERE = 512


def version() -> str:
    import triton

    return triton.__version__


def named() -> str:
    """The Triton version the committed page was made with."""
    found = re.search(r"Triton (\d+\.\d+\.\d+)", PAGE.read_text())
    assert found
    return found[1]


def name(entry: dict[str, Any]) -> str:
    case = entry["case"]
    return "-".join(str(case[k]) for k in ("architecture", "kernel", "width", "causal", "options"))


@pytest.mark.slow
@pytest.mark.parametrize("architecture", [80, 90], ids=lambda a: f"sm_{a}")
def test_every_tile_fits_its_gpu_and_the_page_says_so(architecture: int):
    entries, page = compiled(architecture), PAGE.read_text().splitlines()
    table = [key for key in flash_configs.TABLE if key[0] == architecture and key[2] == "half"]
    assert len({name(e) for e in entries if not e["case"]["options"]}) == 2 * len(table)
    for entry in entries:
        case, made = entry["case"], entry["made"]
        assert 0 < made["registers"] <= 255, name(entry)
        exact = version() == named() and not case["options"]
        assert made["spilled"] <= (0 if exact else SPILL_ELSEWHERE), name(entry)
        assert made["shared"] <= SHARED_LIMIT[architecture], name(entry)
        kinds = {instruction.split(".")[0] for instruction in made["instructions"]}
        # Tiles of fewer than 64 rows cannot use Hopper's instruction: dK/dV of the widest heads.
        small = case["kernel"] == "keys" and case["width"] == 256
        assert ("HGMMA" if architecture == 90 and not small else "HMMA") in kinds, name(entry)
        if version() == named():
            assert entry["row"] in page, "run python -m attend_kernels.compiled"


def test_the_page_lists_every_entry_of_the_table_and_no_spill():
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("| sm_")
    ]
    listed = {}
    for gpu, kernel, dtype, width, mask, blocks, warps, stages, _, spilled, *_ in rows:
        if mask == "all options":
            continue
        assert spilled == "0", (gpu, kernel, width)
        kind = "fp32" if dtype == "fp32" else "half"
        block_t, block_s = map(int, blocks.split(" × "))
        tile = flash_configs.Tile(block_t, block_s, int(warps), int(stages))
        listed[int(gpu.removeprefix("sm_")), kernel, kind, int(width), mask == "causal"] = tile
    for key, tiles in flash_configs.TABLE.items():
        for causal in (False, True):
            assert listed[(*key, causal)] == tiles[causal], key
