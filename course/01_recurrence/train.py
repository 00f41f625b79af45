"""Make what chapter 01 ships: the table of seven arms, and the four networks of the first picture.

    python course/01_recurrence/train.py arms     # → course/attend/data/copy_arms.json
    python course/01_recurrence/train.py longer   # → the same, with a longer run of three arms
    python course/01_recurrence/train.py knock    # → course/attend/data/knock.npz

Both run on one thread of a CPU. The arms are three architectures of nearly as many weights and the
starts that people use; nothing else differs:

    plain, as PyTorch starts it      every weight uniform in ±1/√N: a spectral radius near 0.58
    plain, radius 1                  the same W_h, scaled to a spectral radius of 1
    plain, orthogonal × 1.1          W_h a random orthogonal matrix times 1.1
    GRU, LSTM as PyTorch starts it   gates half open
    GRU, LSTM, gate open             the update or forget gate starts with a bias of 4

For every lag each arm tries every rate of RATES on the seeds of TUNING; the rate with the smallest
mean loss over its last steps is then run on SEEDS.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import torch
from attend.data import copy_arms, knock
from attend.data.copy_task import SYMBOLS, TOKENS, copy_task
from torch import Tensor, nn

ARMS: dict[str, tuple[type[nn.RNNBase], int, str]] = {  # module, N, start
    "plain, as PyTorch starts it": (nn.RNN, 35, ""),
    "plain, radius 1": (nn.RNN, 35, "radius"),
    "plain, orthogonal × 1.1": (nn.RNN, 35, "orthogonal"),
    "GRU, as PyTorch starts it": (nn.GRU, 18, ""),
    "GRU, gate open": (nn.GRU, 18, "open"),
    "LSTM, as PyTorch starts it": (nn.LSTM, 15, ""),
    "LSTM, gate open": (nn.LSTM, 15, "open"),
}
LAGS = (5, 10, 20, 40)
RATES = (0.0025, 0.005, 0.01, 0.02, 0.04)
TUNING, SEEDS = (100, 101), (0, 1, 2, 3, 4)
BATCH, STEPS, TESTS, OPEN = 64, 150, 1000, 4.0
LONG_LAG, LONG_STEPS, LONG_RATE = 40, 600, 0.01
"""The run of four times as many steps, of the arms as PyTorch starts them, at one rate."""
EVERY = 20
"""Steps between two entries of a curve."""


class Copier(nn.Module):
    """A recurrent network and a matrix from its last state to scores."""

    def __init__(self, arm: str) -> None:
        super().__init__()
        kind, n, start = ARMS[arm]
        self.network = kind(TOKENS, n, batch_first=True)
        self.readout = nn.Linear(n, SYMBOLS)
        with torch.no_grad():
            w_h = self.network.weight_hh_l0
            if start == "radius":
                w_h /= torch.linalg.eigvals(w_h).abs().max()
            if start == "orthogonal":
                w_h.copy_(1.1 * nn.init.orthogonal_(torch.empty(n, n)))
            if start == "open":  # block 1 is the forget gate (LSTM) or the update gate (GRU)
                self.network.bias_ih_l0[n : 2 * n] = OPEN
                self.network.bias_hh_l0[n : 2 * n] = 0.0

    def forward(self, tokens: np.ndarray) -> Tensor:
        """(B, T) -> scores of the symbols (B, SYMBOLS)."""
        one_hot = nn.functional.one_hot(torch.from_numpy(tokens), TOKENS).float()
        return self.readout(self.network(one_hot)[0][:, -1])


def run(
    arm: str,
    lag: int,
    rate: float,
    seed: int,
    steps: int = STEPS,
    shuffled: bool = False,
    stop: int | None = None,
) -> tuple[Copier, list[float], float]:
    """Train one model from its start; its losses, and the share it gets right on fresh sequences.

    Adam, gradients clipped to a length of 1 (as ``attend.training.fit``, but a run that diverges
    counts as chance instead of stopping the search).
    """
    torch.manual_seed(seed)
    rng = np.random.default_rng([seed, lag])
    copier = Copier(arm)

    def draw(sequences: int) -> tuple[np.ndarray, Tensor]:
        tokens, answers = copy_task(rng, sequences, lag)
        return tokens, torch.from_numpy(rng.permutation(answers) if shuffled else answers)

    optimizer, losses = torch.optim.Adam(copier.parameters(), rate), []
    for _ in range(steps if stop is None else stop):
        tokens, answers = draw(BATCH)
        loss = nn.functional.cross_entropy(copier(tokens), answers)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(copier.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        tokens, answers = draw(TESTS)
        right = (copier(tokens).argmax(dim=-1) == answers).float().mean()
    return copier, losses, float(right)


def tuned(
    arm: str,
    lag: int,
) -> dict[str, Any]:
    """Choose a rate for one arm and lag, and train it on the seeds that were not tuned on."""
    tried = {
        str(rate): [
            round(float(np.mean(run(arm, lag, rate, seed)[1][-EVERY:])), 4) for seed in TUNING
        ]
        for rate in RATES
    }
    rate = float(min(tried, key=lambda name: sum(tried[name])))
    runs = [run(arm, lag, rate, seed) for seed in SEEDS]
    return {
        "tuning": tried,
        "rate": rate,
        "right": [right for _, _, right in runs],
        "losses": [round(loss, 5) for loss in runs[0][1][::EVERY]],
    }


def arms() -> None:
    """Write the table by arm and lag, and the control with shuffled answers."""
    made: dict[str, Any] = {"arms": {}, "long": {}, "control": [], "weights": {}}
    made["control"] = [run("GRU, gate open", 5, 0.01, s, shuffled=True)[2] for s in SEEDS]
    for arm in ARMS:
        made["weights"][arm] = sum(p.numel() for p in Copier(arm).parameters())
        made["arms"][arm] = {str(lag): tuned(arm, lag) for lag in LAGS}
        copy_arms.TABLE.write_text(json.dumps(made, indent=1) + "\n")
        print(arm, {k: (v["rate"], v["right"]) for k, v in made["arms"][arm].items()}, flush=True)


def longer() -> None:
    """Write the longer run of each kind of network as PyTorch starts it, into the same table."""
    made = json.loads(copy_arms.TABLE.read_text(encoding="utf-8"))
    for arm in (arm for arm, (_, _, start) in ARMS.items() if not start):
        runs = [run(arm, LONG_LAG, LONG_RATE, seed, LONG_STEPS)[2] for seed in SEEDS]
        made["long"][arm] = {"rate": LONG_RATE, "right": runs}
        copy_arms.TABLE.write_text(json.dumps(made, indent=1) + "\n")
        print("longer", arm, runs, flush=True)


KNOCK_STEPS, KNOCK_RATE, KNOCK_SEED = 900, 0.005, 0


def knocked(arm: str, stop: int | None = None) -> tuple[Copier, list[float], float]:
    """One network of the first picture."""
    return run(arm, knock.LAG, KNOCK_RATE, KNOCK_SEED, KNOCK_STEPS, stop=stop)


def networks() -> None:
    """Write the weights of the first picture's networks, with rows as inputs (w_x is (C, N))."""
    stored = {}
    for short, arm in knock.NETWORKS.items():
        copier, losses, right = knocked(arm)
        print(f"{arm}: {right:.1%} right at lag {knock.LAG}", flush=True)
        own = copier.network
        given = {
            "w_x": own.weight_ih_l0.T,
            "w_h": own.weight_hh_l0.T,
            "b_x": own.bias_ih_l0,
            "b_h": own.bias_hh_l0,
            "w_o": copier.readout.weight.T,
            "b_o": copier.readout.bias,
        }
        for name, value in given.items():
            stored[f"{short}.{name}"] = value.detach().numpy()
        stored[f"{short}.curve"] = np.array(losses[::EVERY], dtype=np.float32)
    np.savez_compressed(knock.WEIGHTS, **stored)  # type: ignore[arg-type]


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:] == ["arms"]:
        arms()
    elif sys.argv[1:] == ["longer"]:
        longer()
    elif sys.argv[1:] == ["knock"]:
        networks()
    else:
        sys.exit(__doc__)
