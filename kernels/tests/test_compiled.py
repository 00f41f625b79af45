"""Tuned configurations compile for GPUs that are not here as promised, and the page says so.

What each is held to stands with its case, in ``attend_kernels.compiled``. That the file of results
is that of this code is known from the digest of a family's sources, and where those changed from
the fingerprint of each case's IR. The deep test makes all fingerprints, and compiles one case of
each family and architecture again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attend_kernels.common import fallback
from attend_kernels.ops.decode import tiles as decode_tiles
from attend_kernels.ops.flash import tiles as flash_tiles

if not fallback.HAS_TRITON:
    pytest.skip("Triton is not installed", allow_module_level=True)

from attend_kernels.compiled import Case, Compiled, check, page

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads the tools of the Linux wheel")
REMEDY = "run python -m attend_kernels.compiled, and see in COMPILED.md what changed"


def report(*families: str) -> dict[str, Any]:
    """What the command says of families, in a process without the interpreter."""
    done = subprocess.run(
        [sys.executable, "-m", "attend_kernels.compiled", "--check", *families],
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("family", page.FAMILIES)
def test_every_case_is_listed_and_keeps_its_promises(family: str):
    assert check.compare(page.cases(family), page.read().results[family]) == ([], []), REMEDY


@linux
def test_results_are_those_of_this_code():
    if changed := check.changed():
        for found in report(*changed).values():
            assert (found["stale"], found["broken"]) == ([], []), REMEDY


@pytest.mark.deep
@linux
@pytest.mark.parametrize("family", page.FAMILIES)
def test_compiling_again_gives_the_same(family: str):
    found = report(family)[family]
    assert (found["stale"], found["broken"]) == ([], []), REMEDY
    assert found["cases"] == len(page.cases(family))
    assert found["again"] == len(page.ARCHITECTURES)


def test_the_page_is_made_from_the_results():
    assert check.page_is_fresh(), REMEDY


def test_a_digest_says_when_code_changed_but_not_when_words_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "ops/rope/kernels.py"
    file.parent.mkdir(parents=True)
    monkeypatch.setattr(page, "PACKAGE", tmp_path)
    texts = ["import triton\n" + text for text in ("x = 1\n", "x = 1  # why\n", "x = 2\n")]
    digests = []
    for text in texts:
        file.write_text(text)
        digests.append(page.sources("rope"))
    assert digests[0] == digests[1] != digests[2]


def test_flash_cases_are_its_whole_table():
    listed = {
        (launch.architecture, case.kernel, case.dtype, case.shape)
        for case in page.cases("flash")
        for launch in [case.launch]
    }
    for architecture, kernel, kind, width in flash_tiles.TABLE:
        for mask in ("causal", "full", "all options"):
            dtype = "fp32" if kind == "fp32" else "fp16, bf16"
            assert (architecture, kernel, dtype, f"D {width}, {mask}") in listed


def test_decode_cases_are_its_whole_table():
    listed = {(c.launch.architecture, c.dtype, c.shape) for c in page.cases("decode")}
    names = {"half": "fp16, bf16", "fp32": "fp32", "byte": "int8"}
    for architecture, kind, width in decode_tiles.TABLE:
        assert (architecture, names[kind], f"D {width}, 16 rows, paged") in listed
        if (architecture, kind) == (90, "byte"):
            assert (architecture, "fp8", f"D {width}, 16 rows, paged") in listed


class Fake:
    """A launch that needs no compiler."""

    architecture, warps, stages = 90, 4, 2
    made = Compiled(128, 0, 1000, {"HGMMA": 4, "LDGSTS.E.BYPASS.128": 2})

    def fingerprint(self) -> str:
        return "as it was"

    def compile(self) -> Compiled:
        return self.made


LAUNCH: Any = Fake()
GOOD = Case(LAUNCH, "forward", "bf16", "D 64", "64 × 64", product="HGMMA", most_shared=101_376)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"registers": 256}, "256 registers"),
        ({"spilled": 8}, "spills 8 bytes"),
        ({"shared": 101_377}, "101,377 bytes of shared memory"),
        ({"instructions": {"HMMA": 4, "LDG.E.128": 2}}, "no HGMMA"),
        ({"instructions": {"HGMMA": 4, "LDG.E.64": 2}}, "no load of 16 bytes"),
        ({"instructions": {"HGMMA": 4, "LDG.E.128": 2, "ATOM.E": 1}}, "has ATOM"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_broken_promise_is_named(change: dict[str, Any], fault: str):
    assert GOOD.faults(Fake.made) == []
    assert GOOD.faults(replace(Fake.made, **change)) == [f"sm_90 forward, bf16, D 64: {fault}"]


def test_a_memory_bound_kernel_may_not_use_tensor_cores():
    (fault,) = replace(GOOD, product=None).faults(Fake.made)
    assert fault.endswith("tensor cores: {'HGMMA': 4, 'HMMA': 0, 'IMMA': 0}")


def test_programs_must_fit_a_multiprocessor_by_registers_and_by_shared_memory():
    pair = replace(GOOD, programs=2)
    full = replace(Fake.made, registers=255)
    assert pair.faults(full) == []  # 2 × 4 × 32 × 255 = 65,280 registers
    assert replace(GOOD, programs=3).faults(full) != []
    pair = replace(pair, most_shared=None)
    assert pair.faults(replace(Fake.made, shared=115_712)) == []
    assert pair.faults(replace(Fake.made, shared=115_713)) != []


@pytest.mark.parametrize(
    ("known", "stale"),
    [
        ({GOOD.title: page.Result("as it was", Fake.made)}, []),
        ({}, [f"{GOOD.title}: never compiled"]),
        (
            {GOOD.title: page.Result("other", Fake.made)},
            [f"{GOOD.title}: its code changed"],
        ),
        (
            {GOOD.title: page.Result("as it was", replace(Fake.made, registers=90))},
            [f"{GOOD.title}: compiles to {Fake.made}"],
        ),
        (
            {t: page.Result("as it was", Fake.made) for t in (GOOD.title, "gone")},
            ["gone: not among the cases"],
        ),
    ],
    ids=["fresh", "new", "changed", "otherwise", "gone"],
)
def test_what_is_out_of_date_is_named(known: dict[str, page.Result], stale: list[str]):
    found = check.examine([GOOD], known, exact=True)
    assert (found["stale"], found["broken"]) == (stale, [])


def test_a_case_that_was_never_compiled_leaves_the_page_out_of_date(
    monkeypatch: pytest.MonkeyPatch,
):
    known = page.read()
    title = page.cases("rope")[0].title
    fewer = {k: v for k, v in known.results["rope"].items() if k != title}
    without = replace(known, results={**known.results, "rope": fewer})
    for found, fresh in ((known, True), (without, False)):
        monkeypatch.setattr(page, "read", lambda found=found: found)
        assert check.page_is_fresh() is fresh


def test_another_triton_may_spill_a_little(monkeypatch: pytest.MonkeyPatch):
    known = {GOOD.title: page.Result("as it was", Fake.made)}
    for bytes_, broken in ((check.SLACK_ELSEWHERE, 0), (check.SLACK_ELSEWHERE + 1, 1)):
        monkeypatch.setattr(Fake, "made", replace(Fake.made, spilled=bytes_))
        found = check.examine([GOOD], known, exact=False)
        assert (found["stale"], len(found["broken"])) == ([], broken)


def test_two_cases_of_one_title_are_found():
    known = {GOOD.title: page.Result("as it was", Fake.made)}
    assert check.examine([GOOD, GOOD], known, exact=True)["stale"] == [f"{GOOD.title}: twice"]


def test_results_are_read_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    results = {
        family: {case.title: page.Result("x", Fake.made) for case in page.cases(family)}
        for family in page.FAMILIES
    }
    monkeypatch.setattr(page, "RESULTS", tmp_path / "compiled.json")
    monkeypatch.setattr(page, "PAGE", tmp_path / "COMPILED.md")
    assert page.read() == page.Known("", {}, {})
    page.write("9.9.9", results)
    assert (page.read().triton, page.read().results) == ("9.9.9", results)
    text = page.PAGE.read_text()
    assert "Triton 9.9.9" in text
    assert text.count("| 128 | 0 | 1,000 |") == sum(len(page.cases(f)) for f in page.FAMILIES)
