"""What chapter 05 ships: its tables, and the models behind them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from attend.data import deep_stack as deep
from attend.data import head_trials as trials
from attend_solutions.multi_head import (
    GroupedQueryAttention,
    LatentAttention,
    MultiHeadAttention,
)

from .documentation import of_the_tables

SCRIPT = Path(__file__).resolve().parents[1] / "05_multi_head" / "heads.py"


def script() -> Any:
    spec = importlib.util.spec_from_file_location("heads", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_complete():
    heads, table = script(), trials.table()
    assert set(table) == {"asking", "stuck", "saving", "again", "sharing"}
    assert set(table["asking"]) == set(trials.STEPS)
    assert all(set(arms) == set(trials.ASKED[asked]) for asked, arms in table["asking"].items())
    assert set(table["saving"]) == set(trials.SAVING)
    more = [*table["stuck"].values(), *table["again"].values()]
    assert all(len(cell["error"]) == len(cell["seeds"]) == 20 for cell in more)
    assert len(table["sharing"]) == len(heads.POOLED)
    arms = [(heads.RATES, cell) for cells in table["asking"].values() for cell in cells.values()]
    arms += [(heads.RATES, cell) for cell in table["saving"].values()]
    arms += [(heads.MORE_RATES, cell) for cell in table["sharing"].values()]
    for rates, cell in arms:
        assert cell["seeds"] == list(heads.SEEDS)
        assert len(cell["error"]) == len(heads.SEEDS)
        mean = {float(rate): sum(errors) for rate, errors in cell["tuning"].items()}
        assert set(mean) == set(rates)
        assert mean[cell["rate"]] == pytest.approx(min(mean.values()), rel=0.01)  # three digits


@pytest.mark.parametrize("arm", trials.SAVING)
def test_every_model_of_saving_has_as_many_parameters(arm: str):
    model = trials.Saver(arm, GroupedQueryAttention, LatentAttention)
    assert sum(p.numel() for p in model.parameters()) == trials.PARAMETERS == 10_752
    assert model(torch.zeros(2, 12, 48)).shape == (2, 12, 48)


def test_fewer_heads_are_multi_head_attention():
    torch.manual_seed(0)
    few, many = trials.FewerHeads(8), MultiHeadAttention(48, 8)
    many.load_state_dict(few.state_dict())
    x = torch.randn(2, 12, 48)
    for one, other in zip(few(x), many(x), strict=True):
        torch.testing.assert_close(one, other)
    assert {trials.kept(arm) for arm in trials.SAVING} == {96, 48, 24, 12, 8, 6}


@pytest.mark.parametrize("arm", ["1 head of 48", "2 heads of 24"])
def test_a_run_is_what_the_table_says(arm: str):
    """Twenty-one steps; what is left between processors is rounding, and four printed digits."""
    cell = trials.table()["asking"][trials.BOTH][arm]
    _, losses = trials.train(
        lambda: trials.Asker(arm, MultiHeadAttention), cell["rate"], 0, 21,
        total=trials.STEPS[trials.BOTH],
    )  # fmt: skip
    assert losses[:: trials.EVERY] == pytest.approx(cell["losses"][0][:3], abs=2e-3)


@of_the_tables
def test_sharing_starts_as_the_table_says():
    heads = script()
    for name, cell in trials.table()["sharing"].items():
        kv_heads, _, how = name.partition(" kv_heads, ")
        model = trials.share(trials.writer(), int(kv_heads), how, GroupedQueryAttention)
        assert deep.bits(model, 128, 64) == pytest.approx(cell["before"][0], abs=2e-3)
        assert heads.MORE_RATES[0] <= cell["rate"] <= heads.MORE_RATES[-1]


@pytest.mark.parametrize("arm", ["1 head of 48, then a network", "1 head of 192"])
def test_side_by_side_is_one_after_the_other(arm: str):
    runs, width = [(0, 5e-3), (1, 2e-2)], trials.ASKING[arm][0]

    def build() -> torch.nn.Module:
        return trials.Asker(arm, MultiHeadAttention)

    together = script().side_by_side(build, runs, 6, trials.TUNE, trials.SYMBOLS, width)
    for (seed, rate), (found, losses) in zip(runs, together, strict=True):
        model, own = trials.train(build, rate, seed, 6, trials.SYMBOLS, width)
        assert losses == pytest.approx(own, rel=1e-4)
        error = trials.error_of(model, trials.SYMBOLS, width, trials.TUNE)
        assert found["error"] == pytest.approx(error, abs=2e-3)


def test_symbols_are_said_and_asked_for():
    rows, plain = trials.rows(3, 4, asked=trials.SYMBOLS), trials.rows(3, 4)
    said = rows.x[..., 28:32]
    assert said.sum(-1).eq(1).all()
    assert torch.equal(said.argmax(-1), plain.x[..., 28:32].argmax(-1))
    where = rows.places[0, 5]
    assert torch.equal(rows.answers[0, 5].argmax(-1), said[0, where].argmax(-1))


def test_the_writer_runs_on_any_attention_and_sharing_nothing_changes_nothing():
    assert trials.WEIGHTS.stat().st_size + trials.TABLE.stat().st_size <= 300_000
    plain = deep.bits(trials.writer(), 128, 8)
    assert deep.bits(trials.writer(MultiHeadAttention), 128, 8) == plain
    same = trials.share(trials.writer(), 4, "mean", GroupedQueryAttention)
    assert deep.bits(same, 128, 8) == pytest.approx(plain, rel=1e-5)
    first = trials.share(trials.writer(), 1, "first", GroupedQueryAttention)
    assert deep.bits(first, 128, 8) > plain + 1
