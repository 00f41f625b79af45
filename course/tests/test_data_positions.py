"""What chapter 06 ships: readers that know positions in nine ways, and the table of how they do."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from attend.data import position_arms as arms
from attend_solutions.positions import apply_rope

from .documentation import of_the_tables

SCRIPT = Path(__file__).resolve().parents[1] / "06_positions" / "train.py"
VOCABULARY = {task: tokens for task, (_, tokens, _) in arms.TASKS.items()}


def script() -> Any:
    spec = importlib.util.spec_from_file_location("positions_train", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("arm", arms.ARMS)
def test_nothing_looks_ahead(arm: str) -> None:
    torch.manual_seed(0)
    model, tokens = arms.Reader(arm, 16), torch.randint(16, (2, 9))
    changed = tokens.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % 16
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :6], after[:, :6])
    assert (before[:, 6:] - after[:, 6:]).abs().max() > 1e-3


def test_an_unknown_arm_is_refused() -> None:
    with pytest.raises(ValueError, match=r"arm must be one of none.* got 'RoPE'"):
        arms.Reader("RoPE", 16)


def test_a_learners_function_is_used() -> None:
    calls = []

    def spied(x: torch.Tensor, *where: Any) -> torch.Tensor:
        calls.append(x.shape)
        return apply_rope(x, *where)

    tokens = torch.randint(16, (1, 5))
    torch.manual_seed(0)
    ours = arms.Reader(arms.PLAIN, 16)
    torch.manual_seed(0)
    theirs = arms.Reader(arms.PLAIN, 16, {"apply_rope": spied})
    assert torch.equal(ours(tokens), theirs(tokens))
    assert len(calls) == 2 * arms.LAYERS


def test_the_targets_are_the_same_at_every_length() -> None:
    for task in arms.TASKS:
        tokens, targets = arms.exam(task)
        assert tokens.shape == (arms.TEXTS, arms.LONGEST)
        others, _ = arms.exam(task, tuning=True)
        assert not torch.equal(tokens, others)
        if task == "three steps back":
            assert torch.equal(targets[:, 3:], tokens[:, :-3])
        seen = []

        class Spy(torch.nn.Module):
            def forward(self, text: torch.Tensor, place: object = None) -> torch.Tensor:
                seen.append(text[:, -arms.ASKED :])  # noqa: B023  # called at once
                return torch.zeros(*text.shape, 27)

        arms.examine(Spy(), task)
        rounds = [torch.cat(seen[i : i + 2]) for i in range(0, len(seen), 2)]
        assert len(rounds) == len(arms.LENGTHS)
        assert all(torch.equal(part, tokens[:, -arms.ASKED :]) for part in rounds)


def test_the_table_is_complete() -> None:
    made = script()
    table = arms.table()
    for task in arms.TASKS:
        assert set(table[task]) == set(made.CONTROL if task == "bags" else arms.ARMS)
        for arm, row in table[task].items():
            assert len(row["runs"]) == len(row["losses"]) == len(made.SEEDS)
            assert set(row["tuning"]) == {f"{rate:g}" for rate in made.RATES}
            best = min(row["tuning"], key=lambda rate: sum(row["tuning"][rate]))
            assert row["rate"] == float(best)
            for run in row["runs"]:
                assert set(run) == {str(length) for length in arms.LENGTHS}
            assert ("ways" in row) == (task == "letters" and arm in arms.ROPE)


@pytest.mark.parametrize(
    ("task", "arm"),
    [
        pytest.param("letters", arms.PLAIN, marks=of_the_tables),
        ("three steps back", "T5"),
        ("bags", "ALiBi, published slopes"),
    ],
)
def test_a_run_is_what_the_table_says(task: str, arm: str) -> None:
    """Eleven steps; what is left between processors is rounding, and four printed digits."""
    found = arms.table()[task][arm]
    _, losses = arms.train(arm, task, found["rate"], 0, steps=11)
    assert losses[::10] == pytest.approx(found["losses"][0][:2], abs=2e-3)


def test_short_texts_are_read_as_they_were_trained_in_every_way() -> None:
    torch.manual_seed(0)
    model = arms.Reader(arms.PLAIN, VOCABULARY["letters"])
    plain = arms.examine(model, "letters", (64,))
    for way in arms.WAYS:
        place = arms.stretched(way, arms.ROPE[arms.PLAIN])
        assert arms.examine(model, "letters", (64,), place)[64] == pytest.approx(plain[64])
