"""Make what chapter 01 ships: the table of seven arms, and the four networks of the first picture.

    python course/01_recurrence/train.py arms     # → course/attend/data/copy_arms.json
    python course/01_recurrence/train.py longer   # → the same, with a longer run of two arms
    python course/01_recurrence/train.py knock    # → course/attend/data/knock.npz

All run on one thread of a CPU. The arms are three architectures of nearly as many weights and the
starts that people use; nothing else differs:

    plain, as PyTorch starts it      every weight uniform in ±1/√N: a spectral radius of about 0.6
    plain, radius 1                  the same W_h, scaled to a spectral radius of 1
    plain, orthogonal × 1.1          W_h a random orthogonal matrix times 1.1
    GRU, LSTM as PyTorch starts it   gates half open
    GRU, LSTM, gate open             the update or forget gate starts with a bias of 4

For every lag each arm tries every rate of RATES on the seeds of TUNING; the rate with the smallest
mean loss over its last steps is then run on SEEDS. There are many seeds, for a run can go either
way: even other rounding, as of more runs side by side, leads some of them elsewhere.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from attend.data import copy_arms, knock
from attend.data.copy_task import SYMBOLS, TOKENS, copy_task
from torch import Tensor, nn

ARMS: dict[str, tuple[Callable[..., nn.RNNBase], int, str]] = {  # module, N, start
    "plain, as PyTorch starts it": (nn.RNN, 35, ""),
    "plain, radius 1": (nn.RNN, 35, "radius"),
    "plain, orthogonal × 1.1": (nn.RNN, 35, "orthogonal"),
    "GRU, as PyTorch starts it": (nn.GRU, 18, ""),
    "GRU, gate open": (nn.GRU, 18, "open"),
    "LSTM, as PyTorch starts it": (nn.LSTM, 15, ""),
    "LSTM, gate open": (nn.LSTM, 15, "open"),
}
LAGS = (5, 10, 20, 40)
RATES = (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16)
TUNING, SEEDS = (100, 101, 102), tuple(range(15))
BATCH, STEPS, TESTS, OPEN = 64, 150, 1000, 4.0
LONG_ARMS = ("LSTM, as PyTorch starts it", "plain, as PyTorch starts it")
LONG_LAG, LONG_STEPS, LONG_RATES = 40, 600, (0.01, 0.02, 0.04)
"""The run of four times as many steps, at all of these rates."""
EVERY = 20
"""Steps between two entries of a curve."""


NAMES = tuple(f"network.{kind}_{side}_l0" for kind in ("weight", "bias") for side in ("ih", "hh"))
NAMES = (*NAMES, "readout.weight", "readout.bias")
"""PyTorch's names of w_x, w_h, b_x, b_h, w_o and b_o, all of them turned over."""


class Copier(nn.Module):
    """A recurrent network and a matrix from its last state to scores."""

    def __init__(self, arm: str) -> None:
        super().__init__()
        kind, n, start = ARMS[arm]
        self.network = kind(TOKENS, n, batch_first=True)
        self.readout = nn.Linear(n, SYMBOLS)
        with torch.no_grad():
            w_h = self.network.get_parameter("weight_hh_l0")
            if start == "radius":
                w_h /= torch.linalg.eigvals(w_h).abs().max()
            if start == "orthogonal":
                w_h.copy_(1.1 * nn.init.orthogonal_(torch.empty(n, n)))
            if start == "open":  # block 1 is the forget gate (LSTM) or the update gate (GRU)
                self.network.get_parameter("bias_ih_l0")[n : 2 * n] = OPEN
                self.network.get_parameter("bias_hh_l0")[n : 2 * n] = 0.0

    def forward(self, tokens: np.ndarray) -> Tensor:
        """(B, T) -> scores of the symbols (B, SYMBOLS)."""
        one_hot = nn.functional.one_hot(torch.from_numpy(tokens), TOKENS).float()
        return self.readout(self.network(one_hot)[0][:, -1])


Run = tuple[float, int]
"""Rate and seed."""


def scores(arm: str, weights: dict[str, Tensor], tokens: Tensor) -> Tensor:
    """Several networks side by side, one a run: (R, B, T) -> (R, B, SYMBOLS)."""
    kind, n, _ = ARMS[arm]
    w_x, w_h, b_x, b_h, w_o, b_o = (weights[name] for name in NAMES)
    one_hot = nn.functional.one_hot(tokens, TOKENS).float()
    inputs = torch.einsum("rbtc,rnc->trbn", one_hot, w_x) + b_x[:, None]
    h = c = tokens.new_zeros((*tokens.shape[:2], n), dtype=torch.float32)
    for x in inputs:
        from_h = torch.baddbmm(b_h[:, None], h, w_h.mT)
        if kind is nn.RNN:
            h = torch.tanh(x + from_h)
        elif kind is nn.GRU:
            (x_r, x_z, x_n), (h_r, h_z, h_n) = x.chunk(3, -1), from_h.chunk(3, -1)
            candidate = torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n)
            h = candidate + torch.sigmoid(x_z + h_z) * (h - candidate)
        else:
            i, f, g, o = (x + from_h).chunk(4, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
    return torch.baddbmm(b_o[:, None], h, w_o.mT)


def side_by_side(
    arm: str,
    lag: int,
    runs: Sequence[Run],
    steps: int = STEPS,
    shuffled: bool = False,
    stop: int | None = None,
) -> tuple[dict[str, Tensor], np.ndarray, list[float]]:
    """Train one arm several times at once, each run from its own start and on its own sequences.

    Adam, and each run's gradients are clipped to a length of 1.

    Shapes:
        returns: weights by name (R, ...), losses (R, steps), share of right answers (R)
    """
    starts, streams = [], []
    for _, seed in runs:
        torch.manual_seed(seed)
        starts.append(dict(Copier(arm).named_parameters()))
        streams.append(np.random.default_rng([seed, lag]))
    weights = {
        name: torch.stack([start[name].detach() for start in starts]).requires_grad_()
        for name in NAMES
    }
    rates = torch.tensor([rate for rate, _ in runs])
    means, squares = ({n: torch.zeros_like(w) for n, w in weights.items()} for _ in range(2))

    def draw(sequences: int) -> tuple[Tensor, Tensor]:
        pairs = [copy_task(stream, sequences, lag) for stream in streams]
        answers = [
            stream.permutation(given) if shuffled else given
            for stream, (_, given) in zip(streams, pairs, strict=True)
        ]
        tokens = np.stack([tokens for tokens, _ in pairs])
        return torch.from_numpy(tokens), torch.from_numpy(np.stack(answers))

    losses = []
    for count in range(1, (steps if stop is None else stop) + 1):
        tokens, answers = draw(BATCH)
        found = scores(arm, weights, tokens).flatten(0, 1)
        each = nn.functional.cross_entropy(found, answers.flatten(), reduction="none")
        loss = each.view(len(runs), BATCH).mean(1)
        slopes = torch.autograd.grad(loss.sum(), list(weights.values()))
        gradients = dict(zip(NAMES, slopes, strict=True))
        squared = [gradient.flatten(1).square().sum(1) for gradient in gradients.values()]
        lengths = torch.stack(squared).sum(0).sqrt()
        shrink = (1 / (lengths + 1e-6)).clamp(max=1.0)
        with torch.no_grad():
            for name, weight in weights.items():
                across = (-1, *(1,) * (weight.dim() - 1))
                gradient = gradients[name] * shrink.view(across)
                means[name].lerp_(gradient, 0.1)
                squares[name].lerp_(gradient.square(), 0.001)
                spread = (squares[name] / (1 - 0.999**count)).sqrt() + 1e-8
                weight -= rates.view(across) * means[name] / (1 - 0.9**count) / spread
        losses.append(loss.detach().numpy())
    with torch.no_grad():
        tokens, answers = draw(TESTS)
        right = (scores(arm, weights, tokens).argmax(-1) == answers).float().mean(1)
    return weights, np.stack(losses, axis=1), [round(share, 4) for share in right.tolist()]


def tuned(arm: str, lag: int) -> dict[str, Any]:
    """Choose a rate for one arm and lag, and train it on the seeds that were not tuned on."""
    runs = [(rate, seed) for rate in RATES for seed in TUNING]
    _, losses, _ = side_by_side(arm, lag, runs)
    ends = losses[:, -EVERY:].mean(1).reshape(len(RATES), len(TUNING)).astype(float).round(4)
    tried = {str(rate): end for rate, end in zip(RATES, ends.tolist(), strict=True)}
    rate = float(min(tried, key=lambda name: sum(tried[name])))
    _, losses, right = side_by_side(arm, lag, [(rate, seed) for seed in SEEDS])
    curve = [round(loss, 5) for loss in losses[0, ::EVERY].tolist()]
    return {"tuning": tried, "rate": rate, "right": right, "losses": curve}


def arms() -> None:
    """Write the table by arm and lag, and the control with shuffled answers."""
    made: dict[str, Any] = {"arms": {}, "long": {}, "weights": {}}
    runs = [(0.01, seed) for seed in SEEDS]
    made["control"] = side_by_side("GRU, gate open", 5, runs, shuffled=True)[2]
    for arm in ARMS:
        made["weights"][arm] = sum(p.numel() for p in Copier(arm).parameters())
        made["arms"][arm] = {str(lag): tuned(arm, lag) for lag in LAGS}
        copy_arms.TABLE.write_text(json.dumps(made, indent=1) + "\n")
        print(arm, {k: (v["rate"], v["right"]) for k, v in made["arms"][arm].items()}, flush=True)


def longer() -> None:
    """Write the longer run, at each of its rates, into the same table."""
    made = json.loads(copy_arms.TABLE.read_text(encoding="utf-8"))
    for arm in LONG_ARMS:
        runs = [(rate, seed) for rate in LONG_RATES for seed in SEEDS]
        right = side_by_side(arm, LONG_LAG, runs, LONG_STEPS)[2]
        parts = np.reshape(right, (len(LONG_RATES), len(SEEDS))).tolist()
        made["long"][arm] = {str(r): part for r, part in zip(LONG_RATES, parts, strict=True)}
        copy_arms.TABLE.write_text(json.dumps(made, indent=1) + "\n")
        print("longer", made["long"], flush=True)


KNOCK_STEPS, KNOCK_RATE, KNOCK_SEED = 900, 0.005, 0


def knocked(arm: str, stop: int | None = None) -> tuple[dict[str, Tensor], np.ndarray, list[float]]:
    """One network of the first picture."""
    runs = [(KNOCK_RATE, KNOCK_SEED)]
    return side_by_side(arm, knock.LAG, runs, KNOCK_STEPS, stop=stop)


def networks() -> None:
    """Write the weights of the first picture's networks, with rows as inputs (w_x is (C, N))."""
    stored = {}
    for short, arm in knock.NETWORKS.items():
        weights, losses, right = knocked(arm)
        print(f"{arm}: {right[0]:.1%} right at lag {knock.LAG}", flush=True)
        for name, value in zip(
            ("w_x", "w_h", "b_x", "b_h", "w_o", "b_o"), weights.values(), strict=True
        ):
            own = value.detach()[0]
            stored[f"{short}.{name}"] = (own.T if own.dim() == 2 else own).numpy()
        stored[f"{short}.curve"] = losses[0, ::EVERY].astype(np.float32)
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
