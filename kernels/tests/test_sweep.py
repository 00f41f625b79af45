"""The sweep: every candidate runs and is right, winners are told from noise, tables get them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from attend_kernels.common import fallback

if not fallback.HAS_TRITON:
    pytest.skip("Triton is not installed", allow_module_level=True)

from attend_kernels.bench import machine, report, runner
from attend_kernels.bench.sweep import candidates, cli, winners
from attend_kernels.bench.sweep.within import TABLES, made, shipped, using

SWEEPS = candidates.sweeps(dry=True)
TITLES = [" ".join(map(str, sweep.place)) for sweep in SWEEPS]


@pytest.mark.parametrize("sweep", SWEEPS, ids=TITLES)
def test_a_place_has_candidates_that_are_not_what_is_shipped(sweep: candidates.Sweep):
    assert sweep.others()
    assert len(set(sweep.tiles)) == len(sweep.tiles)
    assert shipped(sweep.place) not in [made(sweep.place, values) for values in sweep.others()]


def test_a_places_own_tile_is_replaced_and_no_other():
    place = ("flash", 90, "forward", "half", 128, "causal")
    tile = made(place, (16, 16, 4, 1))
    q = torch.empty(1, 1, 8, 128)
    tables = TABLES["flash"]
    before = tables.choose("forward", q, "causal")
    with using(place, tile):
        assert tables.choose("forward", q, "causal") is tile
        assert tables.choose("forward", q, "full") == before
        assert tables.choose("keys", q, "causal") == before
        assert tables.choose("forward", q[..., :64], "causal") == before
    assert tables.choose("forward", q, "causal") == before


def check(sweep: candidates.Sweep, most: int | None = None) -> None:
    for case in sweep.with_candidates():
        names = list(case.peers)[: None if most is None else most + 1]
        some = replace(case, peers={name: case.peers[name] for name in names})
        rows: list[dict[str, Any]] = []
        ready, _ = runner.check_peers(some, some.make(0), rows)
        assert rows == []
        assert list(ready) == names


FEW = [sweep for sweep in SWEEPS if sweep.place[-1] in (128, "causal", "forward")][::3]


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here: the sweep itself checks")
@pytest.mark.parametrize("sweep", FEW, ids=lambda sweep: " ".join(map(str, sweep.place)))
def test_a_candidate_runs_and_is_right(sweep: candidates.Sweep):
    check(sweep, most=1)


@pytest.mark.deep
@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here: the sweep itself checks")
@pytest.mark.parametrize("sweep", SWEEPS, ids=TITLES)
def test_every_candidate_runs_and_is_right(sweep: candidates.Sweep):
    check(sweep)


def test_a_wrong_candidate_is_found(monkeypatch: pytest.MonkeyPatch):
    """One that computes something else does not pass for a tile."""
    sweep = next(s for s in SWEEPS if s.place[0] == "decode")
    monkeypatch.setattr(
        candidates, "within", lambda place, tile, function: lambda *x: 1.1 * function(*x)
    )
    case = next(sweep.with_candidates())
    rows: list[dict[str, Any]] = []
    ready, _ = runner.check_peers(case, case.make(0), rows)
    assert list(ready) == ["attend"]
    assert {row["status"] for row in rows} == {"wrong"}


def row(peer: str, ms: float, size: int = 1, status: str = "ok", tile: Any = None) -> Any:
    head = {"family": "flash", "name": "causal", "size": {"N": size}, "status": status}
    place = ["flash", 90, "forward", "half", 128, "causal"]
    return head | {"peer": peer, "median_ms": ms, "place": place, "tile": tile}


FAST, SLOW = (128, 128, 8, 3), (64, 64, 4, 3)
PLACE = ("flash", 90, "forward", "half", 128, "causal")
AT_ONE = [row("attend", 1.0), row("a", 0.5, tile=FAST)]  # size
RESULTS: dict[str, tuple[list[Any], Any]] = {
    "one that is faster": (
        [row("attend", 1.0), row("a", 0.8, tile=FAST), row("b", 0.9, tile=SLOW)],
        {PLACE: (FAST, pytest.approx(0.8))},
    ),
    "one within the noise": ([row("attend", 1.0), row("a", 0.99, tile=FAST)], {}),
    "one that is slower somewhere": (
        [
            row("attend", 1.0),
            row("a", 0.5, tile=FAST),
            row("attend", 1.0, 2),
            row("a", 1.03, 2, tile=FAST),
        ],
        {},
    ),
    "one that was wrong somewhere": (
        [
            row("attend", 1.0),
            row("a", 0.5, tile=FAST),
            row("attend", 1.0, 2),
            row("a", 0.5, 2, "wrong", FAST),
        ],
        {},
    ),
    "a peer is no tile": ([row("attend", 1.0), row("sdpa", 0.1)], {}),
    "over two cases": (
        [
            row("attend", 1.0),
            row("a", 0.8, tile=FAST),
            row("attend", 4.0, 2),
            row("a", 2.0, 2, tile=FAST),
        ],
        {PLACE: (FAST, pytest.approx(0.4**0.5))},
    ),
}


@pytest.mark.parametrize(("rows", "found"), RESULTS.values(), ids=RESULTS)
def test_a_winner_is_faster_and_nowhere_slower(rows: list[Any], found: Any):
    assert winners.winners(rows) == found


def test_winners_are_written_into_the_tables(tmp_path: Path):
    path = tmp_path / "flash/measured.py"
    path.parent.mkdir()
    path.write_text(winners.module({(90, "keys", "half", 64, "full"): SLOW}))
    assert winners.write({PLACE: (FAST, 0.8)}, tmp_path) == [path]
    scope: dict[str, Any] = {}
    exec(path.read_text(), scope)
    assert scope["MEASURED"] == {PLACE[1:]: FAST, (90, "keys", "half", 64, "full"): SLOW}
    for family in TABLES:
        text = (winners.OPS / family / "measured.py").read_text()
        exec(text, scope)
        assert text == winners.module(scope["MEASURED"])


class Properties:
    L2_cache_size = 0


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A GPU that times nothing: what was run."""
    ran: list[str] = []

    def run(case: Any, *_: Any) -> list[Any]:
        ran.append(case.title)
        return [row("attend", 1.0), row(candidates.name_of(FAST), 0.5)]

    monkeypatch.setattr(runner, "run_case", run)
    monkeypatch.setattr(candidates, "sweeps", lambda dry: SWEEPS[:3])
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Properties)
    monkeypatch.setattr(machine, "describe", lambda _: {"name": "a GPU"})
    return ran


def test_a_call_goes_on_where_the_last_one_ended(
    on_a_gpu: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "sweep.json"
    assert cli._sweep(("flash",), 0.5, path) == 0
    assert "0 cases" in capsys.readouterr().out
    assert cli._sweep(("flash",), 600, path) == 0
    assert len(on_a_gpu) == 3
    assert cli._sweep(("flash",), 600, path) == 0
    assert len(on_a_gpu) == 3
    assert "(128, 128, 8, 3) takes 50% of the time" in capsys.readouterr().out
    assert report.read(path)["rows"][1]["tile"] == list(FAST)
    report.write(path, report.read(path) | {"sources": "other"})
    assert cli._sweep(("flash",), 600, path) == 1
    assert "results of another sources" in capsys.readouterr().out


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_without_a_gpu_it_says_so(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["--only", "decode"]) == 1
    assert "needs an NVIDIA GPU" in capsys.readouterr().out
