"""Linear attention's kernels for GPUs that are not here: every entry of the table is compiled.

What came out, and what each case is held to, is checked for all families by ``test_compiled``.
"""

from __future__ import annotations

import pytest
from attend_kernels.common import fallback
from attend_kernels.ops.linear_attention import tiles as linear_attention_tiles

if not fallback.HAS_TRITON:
    pytest.skip("Triton is not installed", allow_module_level=True)

from attend_kernels.compiled import linear_attention as family
from attend_kernels.compiled import page


def test_the_cases_are_the_whole_table_in_every_way_and_width_it_is_launched():
    listed = {
        (case.launch.architecture, case.kernel, case.dtype, case.shape)
        for case in page.cases("linear_attention")
    }
    table = linear_attention_tiles.TABLE
    assert len(table) == 2 * 2 * 3 * len(linear_attention_tiles.KERNELS)
    for architecture, kernel, kind, widest in table:
        dtype = "fp32" if kind == "fp32" else "fp16, bf16"
        for width in (16, 32, 64) if widest == 64 else (widest,):
            for way in family.WAYS[kernel]:
                assert (architecture, kernel, dtype, f"D {width}, {way}") in listed
