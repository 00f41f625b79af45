"""The shared training loop: it trains, it says what is wrong, and runs are gathered in order."""

import pytest
import torch
from attend.training import fit, over_seeds


def test_fit_finds_the_minimum_of_a_parabola() -> None:
    x = torch.tensor([3.0], requires_grad=True)
    losses = fit([x], lambda step: (x - 1).square().mean(), steps=200, rate=0.1, progress=False)
    assert len(losses) == 200
    assert losses[0] == pytest.approx(4.0)
    assert losses[-1] < 1e-3
    assert x.item() == pytest.approx(1.0, abs=0.05)


def test_the_rate_may_follow_a_schedule() -> None:
    x = torch.tensor([3.0], requires_grad=True)
    fit([x], lambda step: x.square().sum(), steps=3, rate=lambda step: 0.0, progress=False)
    assert x.item() == 3.0


def test_gradients_are_clipped() -> None:
    x = torch.tensor([1.0], requires_grad=True)
    seen = []
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.abs().item()))
    fit([x], lambda step: 1000 * x.sum(), steps=1, rate=0.1, clip=1.0, progress=False)
    assert seen == [1000.0]
    assert x.grad is not None
    assert x.grad.item() == pytest.approx(1.0, rel=1e-4)


def test_what_is_wrong_is_said() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(ValueError, match=r"has shape \(2,\): take its mean"):
        fit([x], lambda step: x, steps=1, progress=False)
    with pytest.raises(FloatingPointError, match="nan at step 0"):
        fit([x], lambda step: x.sum() * float("nan"), steps=1, progress=False)
    with pytest.raises(ValueError, match="at least one step"):
        fit([x], lambda step: x.sum(), steps=0, progress=False)


def test_runs_over_seeds_and_variants_are_gathered_in_order() -> None:
    rows = over_seeds(
        lambda seed, model, lag: [{"score": seed + lag, "step": s} for s in (0, 1)],
        range(2),
        model=("a", "b"),
        lag=(10, 20),
    )
    assert len(rows) == 2 * 2 * 2 * 2
    assert rows[0] == {"seed": 0, "model": "a", "lag": 10, "score": 10, "step": 0}
    assert rows[-1] == {"seed": 1, "model": "b", "lag": 20, "score": 21, "step": 1}
