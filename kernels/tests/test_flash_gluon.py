"""The forward kernel in Gluon: off by default, only where it can run, right on a GPU."""

# ruff: noqa: N803, N806  # axis letters are capitals

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import torch
from attend_kernels import flash_attention, naive_attention
from attend_kernels.common import fallback
from attend_kernels.common.packing import Packing

from . import gluon_stand_in, numerics
from .flash_cases import Case, check, run
from .numerics import relative_error

if not fallback.HAS_TRITON:
    pytest.skip("Triton is not installed", allow_module_level=True)

from attend_kernels.bench.sweep import candidates
from attend_kernels.ops import flash
from attend_kernels.ops.flash import forward, tiles
from attend_kernels.ops.flash.options import Options

MODULE = "attend_kernels.ops.flash.gluon"
TITLES = [
    f"{dtype}, D {width}, {mask}"
    for dtype in ("bf16", "fp16")
    for width in (64, 128)
    for mask in ("full", "causal")
]


def draw(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


def asks(
    tile: tiles.Tile = tiles.GLUON[128],
    q: torch.Tensor | None = None,
    kv: torch.Tensor | None = None,
    slopes: torch.Tensor | None = None,
    options: Options | None = None,
    packing: Packing | None = None,
) -> bool:
    """Whether Gluon is to run what it can run, but for what is said."""
    q = draw(2, 4, 7, 128) if q is None else q
    kv = draw(2, 2, 9, 128) if kv is None else kv
    return forward.by_gluon(tile, q, kv, kv, slopes, options or Options(0.1), packing)


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has all the kernel needs, and did not ask for it."""
    monkeypatch.setattr(forward, "can_gluon", lambda _: True)
    monkeypatch.setattr(forward, "GLUON_EVERYWHERE", False)


@pytest.mark.usefixtures("hopper")
def test_it_is_off_unless_a_tile_or_the_variable_says_so(monkeypatch: pytest.MonkeyPatch):
    shipped = replace(tiles.GLUON[128], gluon=False)
    assert not asks(shipped)
    assert asks(tiles.GLUON[128])
    monkeypatch.setattr(forward, "GLUON_EVERYWHERE", True)
    assert asks(shipped)


def test_no_place_of_the_table_has_it_that_was_not_measured():
    on = [
        (*key, mask)
        for key, by_mask in tiles.TABLE.items()
        for mask, tile in by_mask.items()
        if tile.gluon
    ]
    assert set(on) <= set(tiles.MEASURED)
    for width, tile in tiles.GLUON.items():
        values = (tile.block_t, tile.block_s, tile.warps, tile.stages, True, True)
        assert values in candidates.FORWARD[width]


def test_the_sweep_times_it_only_where_it_runs(monkeypatch: pytest.MonkeyPatch):
    for can in (True, False):
        with monkeypatch.context() as patched:
            patched.setattr(fallback, "interpreted", lambda: False)
            patched.setattr(torch.cuda, "current_device", lambda: 0)
            patched.setattr(forward, "can_gluon", lambda _, can=can: can)
            assert candidates.runs(tiles.GLUON[64]) is can
            assert candidates.runs(replace(tiles.GLUON[64], gluon=False))


@pytest.mark.parametrize(("value", "on"), [(None, False), ("1", True)], ids=str)
def test_the_variable_is_read_when_the_kernels_are_imported(value: str | None, on: bool):
    code = "from attend_kernels.ops.flash import forward; print(forward.GLUON_EVERYWHERE)"
    others = {k: v for k, v in os.environ.items() if k != "ATTEND_GLUON"}
    environment = others if value is None else others | {"ATTEND_GLUON": value}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.strip() == str(on)


REFUSED: dict[str, Callable[[], dict[str, Any]]] = {
    "fp32": lambda: {"q": draw(2, 4, 7, 128, dtype=torch.float32)},
    "heads of 96": lambda: {"q": draw(2, 4, 7, 96), "kv": draw(2, 2, 9, 96)},
    "heads of 256": lambda: {"q": draw(2, 4, 7, 256), "kv": draw(2, 2, 9, 256)},
    "a window": lambda: {"options": Options(0.1, left=5, right=0)},
    "keys after a query": lambda: {"options": Options(0.1, right=3)},
    "a soft cap": lambda: {"options": Options(0.1, softcap=30.0)},
    "a negative scale": lambda: {"options": Options(-0.1)},
    "ALiBi": lambda: {"slopes": draw(4)},
    "packed": lambda: {"packing": Packing.of(*[torch.tensor([0, 7], dtype=torch.int32)] * 2)},
    "no keys": lambda: {"kv": draw(2, 2, 0, 128)},
    "no queries": lambda: {"q": draw(2, 4, 0, 128)},
    "rows of odd length": lambda: {"q": draw(2, 4, 7, 129)[..., :128]},
    "one head for all": lambda: {"kv": draw(2, 1, 9, 128).expand(-1, 2, -1, -1)},
}


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize("what", REFUSED.values(), ids=REFUSED)
def test_all_else_goes_to_the_triton_kernel(what: Callable[[], dict[str, Any]]):
    assert not asks(**what())


@pytest.mark.usefixtures("hopper")
def test_what_it_takes():
    assert asks(options=Options(0.1, right=0))
    assert asks(q=draw(1, 4, 1, 64).half(), kv=draw(1, 1, 1, 64).half())
    assert asks(q=draw(2, 7, 4, 128).transpose(1, 2), kv=draw(2, 12, 2, 128).transpose(1, 2))


def test_only_a_hopper_can(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fallback, "interpreted", lambda: False)
    for capability, can in (((9, 0), True), ((10, 0), False), ((8, 0), False)):
        forward.can_gluon.cache_clear()
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, c=capability: c)
        assert forward.can_gluon(torch.device("cuda", 0)) is can
    forward.can_gluon.cache_clear()
    assert not forward.can_gluon(torch.device("cpu"))
    monkeypatch.setattr(fallback, "interpreted", lambda: True)
    forward.can_gluon.cache_clear()
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    assert not forward.can_gluon(torch.device("cuda", 0))
    forward.can_gluon.cache_clear()


@pytest.mark.skipif(not fallback.interpreted(), reason="in the interpreter")
def test_the_interpreter_never_imports_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(forward, "GLUON_EVERYWHERE", True)
    monkeypatch.setitem(sys.modules, MODULE, None)  # an import of it would raise
    monkeypatch.delattr(flash, "gluon", raising=False)
    q = torch.randn(1, 1, 5, 64, dtype=torch.bfloat16)
    want = naive_attention(q.double(), q.double(), q.double())[0]
    got = flash_attention(q, q, q)
    assert relative_error(got, want) < numerics.TOLERANCE[torch.bfloat16]


@pytest.mark.usefixtures("hopper")
def test_it_is_given_the_call_and_its_results_are_returned(monkeypatch: pytest.MonkeyPatch):
    class Stand:
        calls: list[Any] = []  # noqa: RUF012

        @staticmethod
        def run(q, k, v, out, lse, options, tile):
            Stand.calls.append((options, tile, k.shape, v.shape))
            out.fill_(3.0)
            lse.fill_(4.0)

    monkeypatch.setitem(sys.modules, MODULE, Stand)
    monkeypatch.setattr(flash, "gluon", Stand, raising=False)
    q, kv = draw(2, 4, 7, 64), draw(2, 2, 9, 64)
    options = Options(0.1, right=0)
    tile = replace(tiles.GLUON[64], stages=2)
    out, lse = forward.forward(q, kv, kv, None, options, tile=tile)
    assert (out == 3.0).all()
    assert (lse == 4.0).all()
    assert (out.shape, lse.shape) == (q.shape, q.shape[:3])
    monkeypatch.setattr(forward, "GLUON_EVERYWHERE", True)
    forward.forward(q, kv, kv, None, options, tile=tiles.INTERPRETED)
    want = [(options, t, kv.shape, kv.shape) for t in (tile, tiles.GLUON[64])]
    assert Stand.calls == want


@pytest.mark.deep
@pytest.mark.skipif(sys.platform != "linux", reason="reads the tools of the Linux wheel")
def test_it_compiles_for_hopper_without_spills():
    done = subprocess.run(
        [sys.executable, "-m", "attend_kernels.compiled.gluon"],
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == TITLES
    for title, made in found.items():
        count = {
            name: sum(n for op, n in made["instructions"].items() if op.startswith(name))
            for name in ("HGMMA", "HMMA", "UTMALDG", "USETMAXREG", "LDL", "STL")
        }
        assert made["spilled"] == count["LDL"] == count["STL"] == 0, title
        assert made["warps"] == 12, title
        assert made["registers"] * 32 * made["warps"] <= 65_536, title
        assert made["shared"] <= 232_448, title
        assert min(count["HGMMA"], count["UTMALDG"], count["USETMAXREG"]) > 0, title
        assert count["HMMA"] == 0, title
        assert made["loop"]["spills"] == 0, title
        # A thread's share of 64 × 128 weights, all under the product with V.
        assert made["overlapped"] >= 64, title


SHAPES = {  # B, H, G, T, S
    "one": (1, 1, 1, 1, 1),
    "whole tiles": (2, 4, 4, 256, 256),
    "odd": (1, 2, 2, 333, 333),
    "grouped": (2, 8, 2, 200, 391),
    "few queries": (1, 4, 1, 5, 1000),
    "more queries than keys": (1, 2, 1, 300, 77),
    "long": (1, 2, 1, 4097, 4097),
}


@pytest.mark.thin(keep=2)
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
@pytest.mark.parametrize("shape", list(SHAPES.values())[1:-1], ids=list(SHAPES)[1:-1])
@pytest.mark.parametrize("D", [64, 128], ids=lambda n: f"D{n}")
def test_its_source_is_right_as_plain_python(D: int, shape: tuple[int, ...], causal: bool):
    """Masks, extents, the hand-over of stages: see ``gluon_stand_in``."""
    pytest.importorskip("triton.experimental.gluon")
    from attend_kernels.ops.flash import gluon

    B, H, G, T, S = shape
    q, k, v = Case(T, S, B=B, H=H, G=G, D=D, dtype=torch.bfloat16).inputs()[:3]
    got, lse = gluon_stand_in.attend(gluon, q, k, v, causal, tiles.GLUON[D])
    want, want_lse = naive_attention(q.double(), k.double(), v.double(), causal=causal)
    assert relative_error(got, want) < numerics.TOLERANCE[torch.bfloat16]
    assert torch.equal(lse.isinf(), want_lse.isinf())
    some = ~lse.isinf()
    assert relative_error(lse[some], want_lse[some]) < numerics.TOLERANCE[torch.float32]


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch):
    """Gluon wherever it can run; calls are counted."""
    if not forward.can_gluon(torch.device("cuda", torch.cuda.current_device())):
        pytest.skip("needs an sm_90 GPU and a Triton that has Gluon")
    from attend_kernels.ops.flash import gluon

    monkeypatch.setattr(forward, "GLUON_EVERYWHERE", True)
    with mock.patch.object(gluon, "run", wraps=gluon.run) as ran:
        yield ran


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("D", [64, 128], ids=lambda n: f"D{n}")
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_it_is_right_on_a_gpu(shape, D: int, dtype: torch.dtype, causal: bool, everywhere):
    B, H, G, T, S = shape
    case = Case(T, S, B=B, H=H, G=G, D=D, dtype=dtype, causal=causal)
    check(case, "cuda", backward=T < 1000)
    assert everywhere.call_count == 1
    inputs = case.inputs("cuda")
    got = run(flash_attention, inputs, False, return_lse=True, causal=causal)
    assert everywhere.call_count == 2
    with mock.patch.object(forward, "by_gluon", return_value=False):
        want = run(flash_attention, inputs, False, return_lse=True, causal=causal)
    assert everywhere.call_count == 2
    for name in ("output", "LSE"):
        assert torch.equal(got[name].isinf(), want[name].isinf()), name
        finite = [x[name].float().masked_fill(x[name].isinf(), 0.0) for x in (got, want)]
        assert relative_error(finite[0], finite[1].double()) < numerics.TOLERANCE[dtype], name


@pytest.mark.gpu
def test_it_reads_any_strides_that_descriptors_admit(everywhere):
    x = torch.randn(2, 300, 3 * 4, 64, device="cuda", dtype=torch.bfloat16)
    q, k, v = x.transpose(1, 2).split(4, dim=1)
    got, lse = flash_attention(q, k, v, causal=True, return_lse=True)
    assert everywhere.call_count == 1
    want, want_lse = naive_attention(q.double(), k.double(), v.double(), causal=True)
    assert relative_error(got, want) < numerics.TOLERANCE[torch.bfloat16]
    assert relative_error(lse, want_lse) < numerics.TOLERANCE[torch.float32]


@pytest.mark.gpu
def test_it_gives_the_same_bits_each_time(everywhere):
    """Stages that were handed over too early would differ now and then."""
    q, k, v = (torch.randn(4, 8, 2048, 128, device="cuda").bfloat16() for _ in range(3))
    first = flash_attention(q, k, v, causal=True)
    for _ in range(50):
        assert torch.equal(first, flash_attention(q, k, v, causal=True))
    assert everywhere.call_count == 51
