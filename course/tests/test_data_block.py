"""What chapter 07 ships: its stacks, its table of six arms, and the model that writes."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from attend.data import deep_stack as deep
from attend_solutions.block import TransformerBlock

from .documentation import of_the_tables

SCRIPT = Path(__file__).resolve().parents[1] / "07_block" / "depth.py"


def script() -> Any:
    spec = importlib.util.spec_from_file_location("depth", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("arm", [deep.POST, deep.PRE])
def test_a_stack_is_its_blocks_in_a_row(arm: str):
    torch.manual_seed(0)
    stack, tokens = deep.Deep(arm, 3), torch.randint(90, (2, 7))
    *_, last = stack.streams(tokens)
    x = stack.embedding(tokens) + stack.places.weight[:7]
    for block in stack.blocks:
        x = block(x, torch.ones(7, 7, dtype=torch.bool).tril())
    assert torch.equal(last, x)
    changed = tokens.clone()
    changed[:, 5:] = 3
    torch.testing.assert_close(stack(changed)[:, :5], stack(tokens)[:, :5])  # nothing looks ahead


def test_the_arms_differ_between_the_tables_and_the_last_norm_only():
    stacks = {}
    for arm in deep.ARMS:
        torch.manual_seed(0)
        stacks[arm] = deep.Deep(arm, 2)
    states = [stack.state_dict() for stack in stacks.values()]
    for name in ("embedding.weight", "places.weight", "norm.weight", "head.weight"):
        assert all(torch.equal(state[name], states[0][name]) for state in states)
    plain, small = (stacks[arm].blocks[0] for arm in (deep.RESIDUAL, deep.SMALL))
    torch.testing.assert_close(2 * small.down.weight, plain.down.weight)  # √(2 · 2) times
    assert torch.equal(small.up.weight, plain.up.weight)
    with pytest.raises(ValueError, match=r"arm must be one of .* got 'norm'"):
        deep.Deep("norm")


def test_the_table_is_complete():
    depth = script()
    assert set(deep.table()) == {str(layers) for layers in depth.DEPTHS}
    for cells in deep.table().values():
        assert set(cells) == set(deep.ARMS)
        for both in cells.values():
            for schedule in depth.SCHEDULES:
                found = both[schedule]
                assert found["seeds"] == list(depth.SEEDS)
                assert len(found["bits"]) == len(depth.SEEDS)
                assert set(found["tuning"]) == {f"{rate:g}" for rate in depth.RATES}
                mean = {
                    float(rate): sum(math.inf if b is None else b for b in bits)
                    for rate, bits in found["tuning"].items()
                }
                assert found["rate"] == min(mean, key=lambda rate: mean[rate])


@of_the_tables
@pytest.mark.parametrize("arm", [deep.POST, deep.PRE])
def test_a_run_is_what_the_table_says(arm: str):
    """Eleven steps; what is left between processors is rounding, and four printed digits."""
    found = deep.table()[str(deep.DEEP)][arm]["constant"]
    losses, _ = deep.train(arm, found["rate"], False, 0, steps=11, block=TransformerBlock)
    assert losses[:: deep.EVERY] == pytest.approx(found["losses"][0][:2], abs=2e-3)


@pytest.mark.parametrize("arm", [deep.SMALL, deep.POST])
def test_side_by_side_is_one_after_the_other(arm: str):
    runs = [(0, 1e-3), (1, 1e-2)]
    together, bits = script().side_by_side(arm, True, 2, runs, steps=6)
    for run, (seed, rate) in enumerate(runs):
        losses, own = deep.train(arm, rate, True, seed, 2, steps=6)
        assert together[:, run].tolist() == pytest.approx(losses, rel=1e-4)
        assert bits[run] == pytest.approx(own, rel=1e-4)


def test_pairs_say_more_than_single_characters():
    assert 3 < deep.counted_bits(True) < deep.counted_bits(False) < 5


def test_the_writer_is_small_and_predicts_better_than_pairs():
    assert deep.WEIGHTS.stat().st_size <= 300_000
    writer = deep.Deep(**deep.WRITER)
    writer.load_state_dict(deep.words())
    assert deep.bits(writer, 128, 32) < deep.counted_bits(True) - 0.5
