"""The table of SSD's tiles: no widths are left without, and what it cannot hold it says."""

from __future__ import annotations

import pytest
from attend_kernels.common import fallback
from attend_kernels.ops.ssd import tiles as ssd_tiles


def test_every_width_has_tiles():
    for architecture in (80, 90):
        for kind in ("half", "fp32"):
            for width in (1, 16, 33, 64, 65, 128):
                for states in (1, 16, 40, 64, 65, 129, 255, 256):
                    found = ssd_tiles.entry(architecture, kind, width, states)
                    assert set(found) == set(ssd_tiles.KERNELS)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ((90, "half", 129, 64), "heads 129 wide and states 64 wide in half on sm_90"),
        ((90, "half", 64, 257), "states 257 wide.*expected up to 128 and 256"),
        ((70, "half", 64, 64), "on sm_70.*sm_80 or sm_90. Next: naive_ssd_chunked"),
        ((90, "fp8", 64, 64), "in fp8.*half or fp32"),
    ],
    ids=["heads", "states", "architecture", "kind"],
)
def test_what_the_table_lacks_is_named(place: tuple[int, str, int, int], said: str):
    with pytest.raises(ValueError, match=said):
        ssd_tiles.entry(*place)


@pytest.mark.skipif(not fallback.HAS_TRITON, reason="Triton is not installed")
def test_the_whole_table_is_compiled():
    from attend_kernels.compiled import ssd

    for architecture in (80, 90):
        listed = {(case.kernel, case.dtype, case.shape) for case in ssd.cases(architecture)}
        for of, kind, wide, states in ssd_tiles.TABLE:
            dtype = "fp32" if kind == "fp32" else "fp16, bf16"
            shape = f"P {128 if wide else 64}, N {states}"
            for kernel in (*ssd_tiles.KERNELS, "sweep, backward in time"):
                assert of != architecture or (kernel, dtype, shape) in listed
