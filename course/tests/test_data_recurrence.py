"""What chapter 01 ships: its table of arms, four networks, and a model around a recurrence."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attend.data import char_writer, copy_arms, knock
from attend.data.copy_task import SYMBOLS, TOKENS, copy_task
from attend_solutions.recurrence import bptt, gru_cell, lstm_cell, rnn_forward, rnn_step

HERE = Path(__file__).resolve().parents[1] / "01_recurrence"
STEPS = {"plain": rnn_step, "plain, orthogonal": rnn_step, "GRU": gru_cell, "LSTM": lstm_cell}


@pytest.fixture(scope="module")
def script() -> Any:
    """The chapter's training script, as a module."""
    sys.path.insert(0, str(HERE))
    try:
        yield import_module("train")
    finally:
        sys.path.remove(str(HERE))
        sys.modules.pop("train", None)


# --- the table of arms


def test_the_table_has_every_arm_lag_and_seed(script: Any) -> None:
    made = copy_arms.table()
    assert list(made["arms"]) == list(script.ARMS)
    for lags in made["arms"].values():
        assert list(lags) == [str(lag) for lag in script.LAGS]
        for found in lags.values():
            assert list(found["tuning"]) == [str(rate) for rate in script.RATES]
            assert found["rate"] == float(
                min(found["tuning"], key=lambda r: sum(found["tuning"][r]))
            )
            assert len(found["right"]) == len(script.SEEDS) == 15
    assert len(copy_arms.rows()) == 15 * len(script.ARMS) * len(script.LAGS)
    assert not set(script.TUNING) & set(script.SEEDS)


def test_arms_have_nearly_as_many_weights(script: Any) -> None:
    counts = [sum(p.numel() for p in script.Copier(arm).parameters()) for arm in script.ARMS]
    assert counts == list(copy_arms.table()["weights"].values())
    assert max(counts) < 1.02 * min(counts)


def test_the_longer_run_has_every_rate_and_seed(script: Any) -> None:
    longer = copy_arms.table()["long"]
    assert list(longer) == list(script.LONG_ARMS)
    for found in longer.values():
        assert list(found) == [str(rate) for rate in script.LONG_RATES]
        assert {len(runs) for runs in found.values()} == {len(script.SEEDS)}


def test_the_control_is_at_chance() -> None:
    """1,000 answers of probability 1/8: a standard deviation of 0.0105; four of them, 15 runs."""
    assert np.abs(np.array(copy_arms.table()["control"]) - 1 / SYMBOLS).max() < 0.042


def test_arms_start_as_they_are_called(script: Any) -> None:
    torch.manual_seed(0)
    radius = script.Copier("plain, radius 1").network.weight_hh_l0.detach()
    assert float(torch.linalg.eigvals(radius).abs().max()) == pytest.approx(1.0, abs=1e-5)
    turned = script.Copier("plain, orthogonal × 1.1").network.weight_hh_l0.detach()
    torch.testing.assert_close(turned @ turned.T, 1.21 * torch.eye(35), atol=1e-5, rtol=0)
    for arm, n in (("GRU, gate open", 18), ("LSTM, gate open", 15)):
        network = script.Copier(arm).network
        both = (network.bias_ih_l0 + network.bias_hh_l0).detach()
        assert (both[n : 2 * n] == script.OPEN).all()
        assert (both[:n].abs() < 1).all()


@pytest.mark.parametrize("lag", [5, 40])
def test_a_short_rerun_follows_the_same_curve(script: Any, lag: int) -> None:
    for arm in script.ARMS:
        found = copy_arms.table()["arms"][arm][str(lag)]
        _, losses, _ = script.side_by_side(arm, lag, [(found["rate"], script.SEEDS[0])], stop=21)
        points = 1 if found["rate"] > 0.1 else 2  # there, other rounding shows after twenty steps
        np.testing.assert_allclose(losses[0, [0, 20][:points]], found["losses"][:points], rtol=5e-2)


@pytest.mark.parametrize("arm", ["plain, radius 1", "GRU, gate open", "LSTM, gate open"])
def test_runs_side_by_side_are_torchs_own_one_by_one(script: Any, arm: str) -> None:
    """Five steps of Adam with clipping, twice at once, against nn.RNN, nn.GRU, nn.LSTM alone."""
    weights, losses, _ = script.side_by_side(arm, 4, [(0.01, 0), (0.003, 7)], stop=5)
    for place, (rate, seed) in enumerate(((0.01, 0), (0.003, 7))):
        torch.manual_seed(seed)
        copier, stream = script.Copier(arm), np.random.default_rng([seed, 4])
        optimizer, alone = torch.optim.Adam(copier.parameters(), rate), []
        for _ in range(5):
            tokens, answers = copy_task(stream, script.BATCH, 4)
            loss = torch.nn.functional.cross_entropy(copier(tokens), torch.from_numpy(answers))
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(copier.parameters(), 1.0)
            optimizer.step()
            alone.append(loss.item())
        np.testing.assert_allclose(losses[place], alone, rtol=1e-4)
        for name, value in copier.named_parameters():
            torch.testing.assert_close(weights[name][place], value, rtol=1e-3, atol=1e-4)


# --- the four networks of the first picture


def test_the_networks_rerun_follows_their_curves(script: Any) -> None:
    for network, arm in knock.NETWORKS.items():
        _, losses, _ = script.knocked(arm, stop=21)
        np.testing.assert_allclose(losses[0, [0, 20]], knock.curve(network)[:2], rtol=5e-2)


@pytest.mark.parametrize("network", list(knock.NETWORKS))
def test_they_run_on_the_chapters_functions_as_in_torch(script: Any, network: str) -> None:
    copier, w = script.Copier(knock.NETWORKS[network]).double(), knock.weights(network)
    given = {"weight_ih": w["w_x"].T, "weight_hh": w["w_h"].T, "bias_ih": w["b_x"]}
    given["bias_hh"] = w["b_h"]
    copier.network.load_state_dict({f"{k}_l0": torch.from_numpy(v) for k, v in given.items()})
    copier.readout.weight.data = torch.from_numpy(w["w_o"].T.copy())
    copier.readout.bias.data = torch.from_numpy(w["b_o"])
    tokens, _ = knock.sequences(3, 6)
    with torch.no_grad():
        one_hot = torch.nn.functional.one_hot(torch.from_numpy(tokens), TOKENS).double()
        want_states, _ = copier.network(one_hot)
        want = copier.readout(want_states[:, -1])
    states, scores = knock.read(network, tokens, STEPS[network])
    np.testing.assert_allclose(states, want_states.numpy(), atol=1e-9)
    np.testing.assert_allclose(scores, want.numpy(), atol=1e-9)


def test_three_of_them_remember_the_letter_and_all_are_small() -> None:
    assert knock.WEIGHTS.stat().st_size < 60_000
    tokens, answers = knock.sequences(0, 200)
    right = {
        network: float((knock.read(network, tokens, step)[1].argmax(-1) == answers).mean())
        for network, step in STEPS.items()
    }
    assert min(right["plain, orthogonal"], right["GRU"], right["LSTM"]) > 0.95
    assert right["plain"] < 0.9


def test_shutting_the_forget_gate_makes_the_lstm_forget() -> None:
    tokens, answers = knock.sequences(0, 200)
    _, scores = knock.read("LSTM", tokens, lstm_cell, gate_shift=-6.0)
    assert float((scores.argmax(-1) == answers).mean()) < 0.3


def test_a_token_is_exchanged_for_one_of_its_kind() -> None:
    tokens = knock.sequences(1, 1)[0][0]
    for place in range(knock.LAG + 1):
        changed = knock.exchanged(tokens, place)
        assert np.flatnonzero(changed != tokens).tolist() == [place]
        assert changed[place] // 8 == tokens[place] // 8


# --- the character model


def given_step(weights, tokens, targets, h0):
    x, names = char_writer.one_hot(tokens), ("w_x", "w_h", "b")
    states = rnn_forward(x, h0, *(weights[name] for name in names))
    loss, grad_states, found = char_writer.readout(states, targets, weights)
    own = bptt(x, h0, states, weights["w_x"], weights["w_h"], grad_states)[2:]
    return loss, states[:, -1], found | dict(zip(names, own, strict=True))


def test_its_gradients_are_autograds() -> None:
    weights = char_writer.start(0)
    tokens, targets = next(char_writer.pieces(0))
    h0 = np.zeros((char_writer.TEXTS, char_writer.STATE))
    loss, last, gradients = given_step(weights, tokens, targets, h0)
    leaves = {n: torch.from_numpy(w.copy()).requires_grad_() for n, w in weights.items()}
    h, scores = torch.from_numpy(h0), []
    for t in range(char_writer.PIECE):
        h = torch.tanh(
            leaves["w_x"][torch.from_numpy(tokens[:, t])] + h @ leaves["w_h"] + leaves["b"]
        )
        scores.append(h @ leaves["w_o"] + leaves["b_o"])
    flat = torch.stack(scores, dim=1).flatten(0, 1)
    want = torch.nn.functional.cross_entropy(flat, torch.from_numpy(targets).flatten())
    want.backward()
    assert loss == pytest.approx(want.item(), rel=1e-12)
    np.testing.assert_allclose(last, h.detach().numpy(), atol=1e-12)
    for name, leaf in leaves.items():
        assert leaf.grad is not None
        np.testing.assert_allclose(gradients[name], leaf.grad.numpy(), atol=1e-12)


def test_it_learns_and_writes_the_same_for_the_same_seed() -> None:
    """Guessing costs 6.58 bits; letters by themselves 4.8."""
    weights = char_writer.start(0)
    curve = char_writer.train(given_step, weights, 60, 0, every=20)
    assert [count for count, _ in curve] == [20, 40, 60]
    assert curve[-1][1] < 4.8 < curve[0][1]
    first, again = (char_writer.write(rnn_forward, weights, "The ", 30, 4) for _ in range(2))
    assert first == again
    assert len(first) == 30


def test_what_diverges_is_said() -> None:
    def broken(weights, tokens, targets, h0):
        return float("nan"), h0, {}

    with pytest.raises(FloatingPointError, match="loss is nan at step 1"):
        char_writer.train(broken, char_writer.start(0), 3, 0)


def test_counting_more_letters_predicts_better() -> None:
    bits = [char_writer.counted(order) for order in (0, 1, 2)]
    assert bits == sorted(bits, reverse=True)
    assert 4 < bits[0] < 6.59
