"""What chapter 23 ships: digits read pixel by pixel, the table of five arms, one trained reader."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attend.data import digit_readers
from attend.data.digit_readers import ORDERS, PARTS
from attend_solutions.state_spaces import s4d_init, s4d_kernel, ssm_convolve

HERE = Path(__file__).resolve().parents[1] / "23_state_spaces"
ARMS = ("S4D", "RNN", "LSTM", "MLP, all at once", "linear, all at once")


@pytest.fixture(scope="module")
def script() -> Any:
    """The chapter's training script, as a module."""
    sys.path.insert(0, str(HERE))
    try:
        yield import_module("train")
    finally:
        sys.path.remove(str(HERE))
        for name in ("train", "readers"):
            sys.modules.pop(name, None)


def test_parts_are_apart_and_hold_all_digits() -> None:
    pixels, kinds = digit_readers.digits()
    assert pixels.shape == (1797, 64)
    assert (pixels.min(), pixels.max()) == (-0.5, 0.5)
    taken = [i for part in PARTS.values() for i in range(*part.indices(len(kinds)))]
    assert taken == list(range(len(kinds)))
    assert all(set(kinds[part]) == set(range(10)) for part in PARTS.values())


def test_the_table_has_every_arm_order_and_seed(script: Any) -> None:
    assert tuple(digit_readers.table()) == ORDERS
    for order in ORDERS:
        assert tuple(digit_readers.table()[order]) == ARMS
        for row in digit_readers.table()[order].values():
            assert (row["rate"], row["start"]) == script.best(row["tuning"])
            assert len(row["accuracy"]) == len(script.SEEDS)
            tried = {float(each.split(", ")[0]) for each in row["tuning"]}
            assert row["rate"] < max(tried), "the best rate has a larger one beside it"
    assert {arm: len(rows) for arm, rows in digit_readers.by_arm().items()} == dict.fromkeys(
        ARMS, 2
    )


def test_arms_have_nearly_as_many_numbers(script: Any) -> None:
    del script
    readers = sys.modules["readers"]
    counts = [readers.count(readers.start(arm, [0], [1.0])) for arm in ARMS]
    assert max(counts[:-1]) < 1.05 * min(counts[:-1])
    found = [digit_readers.table()[ORDERS[0]][arm]["numbers"] for arm in ARMS]
    assert found == counts


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("arm", ARMS)
def test_a_short_rerun_follows_the_same_curve(script: Any, arm: str, order: str) -> None:
    """The first 20 steps, where rounding has not been amplified yet: 1 % is a wide margin."""
    row, many = digit_readers.table()[order][arm], len(script.SEEDS)
    _, losses = script.runs(
        arm, order, script.SEEDS, [row["rate"]] * many, [row["start"]] * many, stop=21
    )
    np.testing.assert_allclose(losses[0], row["losses"][0], rtol=1e-3)
    np.testing.assert_allclose(losses[20], row["losses"][1], rtol=1e-2)


def test_each_run_is_permuted_in_its_own_way(script: Any) -> None:
    assert (script.orders(ORDERS[0], [3, 4]) == torch.arange(64)).all()
    mixed = script.orders(ORDERS[1], [3, 4])
    assert (mixed.sort(1).values == torch.arange(64)).all()
    assert (mixed[0] != mixed[1]).any()


def test_rates_are_extended_while_the_largest_is_best(
    script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An arm that is best at 0.1 is tried at 0.05, 0.1 and 0.2."""
    monkeypatch.setattr(script, "runs", lambda arm, order, seeds, rates, starts: (rates, None))

    def accuracy(arm: str, order: str, rates: Any, seeds: Any, part: str) -> list[float]:
        return [1 - abs(rate - 0.1) for rate in rates]

    monkeypatch.setattr(script, "accuracy", accuracy)
    tuning = script.tune("S4D", ORDERS[0])
    assert script.best(tuning) == (0.1, 1.0)
    assert list(tuning)[-2:] == ["0.1, 1.0", "0.2, 1.0"]


def test_the_scripts_layer_is_the_chapters_functions(script: Any) -> None:
    """S4D in torch against s4d_init, s4d_kernel and ssm_convolve."""
    del script
    readers = sys.modules["readers"]
    weights = readers.start("S4D", [5], [1.0])
    own = {n[2:]: v.detach() for n, v in weights.items() if n.startswith("0.")}
    a = (-own["rate_log"][0].exp() + 1j * own["turns"][0]).numpy()
    np.testing.assert_allclose(a, np.tile(s4d_init(8), (32, 1)), rtol=1e-6)
    c = torch.view_as_complex(own["c"][0]).numpy()
    delta = own["delta_log"][0].exp().numpy()
    want = s4d_kernel(a, np.ones_like(a), c, delta, 64)
    kernel = readers.kernel(own, 64)
    np.testing.assert_allclose(kernel[0], want, rtol=1e-4, atol=1e-5)
    u = torch.randn(1, 2, 64, 32, generator=torch.Generator().manual_seed(0))
    passed = readers.late_sums(u, kernel)[0].mT
    np.testing.assert_allclose(passed, ssm_convolve(want, u[0].mT.numpy()), rtol=1e-3, atol=1e-4)


def test_the_lstm_and_the_rnn_are_torchs(script: Any) -> None:
    del script
    readers = sys.modules["readers"]
    pixels = torch.randn(1, 3, 9, generator=torch.Generator().manual_seed(1))
    for arm, made in (("LSTM", torch.nn.LSTM), ("RNN", torch.nn.RNN)):
        weights = readers.start(arm, [2], [1.1])
        width = readers.HIDDEN[arm]
        module = made(1, width, batch_first=True)
        named = {
            "weight_ih_l0": weights["input"][0][:, None],
            "weight_hh_l0": weights["hidden"][0],
            "bias_ih_l0": weights["bias"][0],
            "bias_hh_l0": torch.zeros_like(weights["bias"][0]),
        }
        module.load_state_dict(named)
        want = module(pixels[0, :, :, None])[0][:, -1]
        mine = (readers.lstm if arm == "LSTM" else readers.rnn)(weights, pixels)[0]
        torch.testing.assert_close(mine, want, rtol=1e-4, atol=1e-5)


def test_the_reader_is_the_first_run_of_the_table() -> None:
    readers_dir = str(HERE)
    sys.path.insert(0, readers_dir)
    try:
        readers = import_module("readers")
        weights = {
            n: torch.tensor(v, dtype=torch.float32)[None]
            for n, v in digit_readers.weights().items()
        }
        pixels, kinds = digit_readers.split("test")
        with torch.no_grad():
            found = readers.forward("S4D", weights, pixels[None]).argmax(-1)[0]
    finally:
        sys.path.remove(readers_dir)
        sys.modules.pop("readers", None)
    share = float((found == kinds).float().mean())
    stored = digit_readers.table()[ORDERS[0]]["S4D"]["accuracy"][0]
    assert share == pytest.approx(stored, abs=0.005)  # a digit or two on another processor
    assert digit_readers.WEIGHTS.stat().st_size < 300_000


def test_tuning_rows_are_those_of_the_start_that_was_chosen() -> None:
    found = digit_readers.tuning_rows()
    for arm in ARMS:
        row = digit_readers.table()[ORDERS[0]][arm]
        kept = [
            100 * s
            for t, shares in row["tuning"].items()
            if t.endswith(f", {row['start']}")
            for s in shares
        ]
        assert [each["right"] for each in found if each["arm"] == arm] == kept
