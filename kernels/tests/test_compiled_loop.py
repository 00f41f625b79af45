"""What is read from machine code: which loop, and the clocks each unit takes for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from attend_kernels.common import fallback

if not fallback.HAS_TRITON:
    pytest.skip("Triton is not installed", allow_module_level=True)

from attend_kernels.compiled import Compiled, page
from attend_kernels.compiled.case import MODEL, OUTSIDE, SHARED_IN_ALL
from attend_kernels.compiled.loop import HMMA_SHARE, Loop, hottest


def listing(*lines: str) -> str:
    """Lines as nvdisasm writes them; those that begin with a dot are labels."""
    return "\n".join(
        line if line.startswith(".") else f"        /*{16 * n:04x}*/    {line} ;"
        for n, line in enumerate(lines)
    )


PRODUCT = "HGMMA.64x64x16.F32.BF16 R88, gdesc[UR12], R88"
NESTED = listing(
    "MOV R1, c[0x0][0x28]",
    ".L_x_1:",
    "MOV R2, R3",
    ".L_x_2:",
    PRODUCT,
    "@!P0 BRA `(.L_x_2)",
    "@P0 BRA `(.L_x_1)",
    ".L_x_3:",
    PRODUCT,
    "FADD R1, R2, R3",
    "@!P0 BRA `(.L_x_3)",
    ".L_x_4:",
    "@P2 MUFU.EX2 R1, R2",
    "BRA `(.L_x_4)",
    "@P1 BRA `(.L_x_5)",
    ".L_x_5:",
    "EXIT",
)


def test_the_hottest_loop_is_innermost_has_most_products_and_is_the_shortest():
    found = hottest(NESTED)
    assert found is not None
    assert (found.instructions, found.special, found.tensor) == (2, 0, 8.0)


def test_without_products_in_a_loop_there_is_none():
    assert hottest(listing(PRODUCT, ".L_x_4:", "FADD R1, R2, R3", "BRA `(.L_x_4)")) is None
    assert hottest("") is None


COSTS = {
    "both-factors-in-shared-memory": ("HGMMA.64x128x16.F32.BF16 R1, gdesc[UR4], R1", 16, 1536),
    "one-factor-in-registers": ("HGMMA.64x128x16.F32 R1, R120, gdesc[UR4].tnspB, R1", 16, 1024),
    "a-narrow-one": ("@P1 HGMMA.64x32x16.F32.BF16 R1, gdesc[UR4], R1, gsb0", 4, 768),
    "of-a-warp": ("HMMA.16816.F32.BF16 R1, R2, R3, R4", 1 / HMMA_SHARE, 0),
    "of-a-warp-in-tf32": ("HMMA.1688.F32.TF32 R1, R2, R3, R4", 1 / HMMA_SHARE, 0),
    "of-a-warp-in-8-bits": ("IMMA.16832.S8.S8 R1, R2, R3, R4", 1 / HMMA_SHARE, 0),
}


@pytest.mark.parametrize(("line", "tensor", "shared"), COSTS.values(), ids=COSTS)
def test_products_take_clocks_and_shared_memory(line: str, tensor: float, shared: int):
    found = hottest(listing(".L_x_1:", line, "BRA `(.L_x_1)"))
    assert found is not None
    assert found.tensor == pytest.approx(tensor, abs=1e-3)
    assert found.shared == shared


MOVES = {
    "LDS.128 R1, [R2]": (512, 0, 0),
    "STS R1, [R2]": (128, 0, 0),
    "LDSM.16.M88.4 R1, [R2]": (512, 0, 0),
    "LDGSTS.E.BYPASS.128 [R1], [R2]": (512, 512, 0),
    "LDG.E.64 R1, [R2]": (0, 256, 0),
    "LDL.64 R1, [R2]": (0, 0, 1),
    "STL [R2], R1": (0, 0, 1),
}


@pytest.mark.parametrize(("line", "bytes_"), MOVES.items(), ids=lambda value: str(value))
def test_bytes_are_counted_where_they_go(line: str, bytes_: tuple[int, int, int]):
    found = hottest(listing(".L_x_1:", PRODUCT, line, "BRA `(.L_x_1)"))
    alone = hottest(listing(".L_x_1:", PRODUCT, "BRA `(.L_x_1)"))
    assert found is not None
    assert alone is not None
    assert (found.shared - alone.shared, found.loaded, found.spills) == bytes_


def test_a_tile_of_flash_attention_by_hand():
    """128 queries, 64 keys, D = 128: 2 × 2 × 128 × 64 × 128 operations, 4,096 a clock."""
    scores = ["HGMMA.64x64x16.F32.BF16 R88, gdesc[UR12], R88"] * 8
    outputs = ["HGMMA.64x128x16.F32.BF16 R24, R120, gdesc[UR4].tnspB, R24"] * 4
    found = hottest(listing(".L_x_1:", *scores, *outputs, "BRA `(.L_x_1)"))
    assert found is not None
    assert found.clocks(8)["tensor"] == 4 * 128 * 64 * 128 / 4096 == 1024


CASE = next(case for case in page.cases("flash") if case.modelled)
MADE = Compiled(168, 0, 100_000, {}, Loop(353, 34, 128.0, 17_280, 4_352, 0))


GOOD = replace(MADE, instructions={"HGMMA": 24, "LDGSTS.E.BYPASS.128": 52})


@pytest.mark.parametrize(
    ("registers", "shared", "programs"),
    [(128, 0, 2), (168, 0, 1), (32, 0, 8), (128, SHARED_IN_ALL[90] - 1024, 1), (129, 0, 1)],
)
def test_programs_a_multiprocessor_holds(registers: int, shared: int, programs: int):
    assert CASE.launch.warps == 8
    assert CASE.occupancy(replace(MADE, registers=registers, shared=shared)) == programs


def test_a_line_of_the_page_names_the_busiest_unit():
    line = CASE.modelled_row(MADE)
    assert line is not None
    assert line.count("|") == len(MODEL) + 1
    assert line.endswith("| 706 | 544 | 1,024 | 1,080 | 34,816 | 0 | shared | 31%–95% |")
    assert CASE.modelled_row(replace(MADE, loop=None)) is None


def test_what_spills_outside_the_loop_is_no_fault():
    spilled = replace(GOOD, spilled=OUTSIDE)
    assert CASE.faults(spilled) == []
    assert CASE.faults(replace(spilled, spilled=OUTSIDE + 1)) != []
    assert spilled.loop is not None
    assert CASE.faults(replace(spilled, loop=replace(spilled.loop, spills=1))) != []
    assert CASE.faults(replace(spilled, loop=None)) != []


def test_every_loop_with_products_on_sm_90_is_on_the_page():
    known = page.read().results
    missing = [
        case.title
        for family in page.FAMILIES
        for case in page.cases(family)
        if case.modelled and known[family][case.title].made.loop is None
    ]
    assert missing == []
