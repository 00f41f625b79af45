"""Models that read a digit pixel by pixel, many runs side by side: chapter 23's arms.

All tensors have a leading axis of R runs: every run has its own weights, and none sees another, so
one pass of Python trains a whole sweep of rates and seeds.

    S4D                 linear, then 2 x (RMSNorm -> S4D -> ReLU -> linear -> add), read at the end
    RNN                 tanh, its matrix orthogonal times a gain at the start; read at the end
    LSTM                the cell with a forget gate, whose bias starts at 1 to 4; read at the end
    MLP, all at once    one hidden layer over all 64 pixels: no order, no memory
    linear, all at once the same without the hidden layer

Letters as in ``attend_solutions.state_spaces``: P pairs in a channel's state, C channels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

PIXELS, KINDS = 64, 10
CHANNELS, PAIRS, LAYERS = 32, 8, 2
HIDDEN = {"RNN": 64, "LSTM": 32, "MLP, all at once": 63}
"""Widths with which all arms but the last have nearly as many numbers."""

ARMS = ("S4D", "RNN", "LSTM", "MLP, all at once", "linear, all at once")
SHORTEST, LONGEST = 0.01, 0.3
"""Step sizes Δ that channels start with."""

Weights = dict[str, Tensor]


def start(arm: str, seeds: Sequence[int], starts: Sequence[float]) -> Weights:
    """Fresh weights of one run a seed.

    ``starts`` are gains of the RNN's matrix, or biases of the LSTM's forget gate.
    """
    runs = [
        _one(arm, torch.Generator().manual_seed(seed), own)
        for seed, own in zip(seeds, starts, strict=True)
    ]
    return {name: torch.stack([run[name] for run in runs]).requires_grad_() for name in runs[0]}


def _one(arm: str, draw: torch.Generator, own: float) -> Weights:
    def uniform(*shape: int, fan: int) -> Tensor:
        return (torch.rand(shape, generator=draw) * 2 - 1) / math.sqrt(fan)

    def layer(name: str, into: int, out: int) -> Weights:
        weight, bias = uniform(out, into, fan=into), uniform(out, fan=into)
        return {f"{name}.weight": weight, f"{name}.bias": bias}

    if arm.startswith("linear"):
        return layer("head", PIXELS, KINDS)
    if arm == "S4D":
        found = layer("first", 1, CHANNELS) | layer("head", CHANNELS, KINDS)
        for place in range(LAYERS):
            mine = _s4d(draw) | layer("mix", CHANNELS, CHANNELS)
            found |= {f"{place}.{name}": value for name, value in mine.items()}
        return found
    width = HIDDEN[arm]
    found = layer("head", width, KINDS)
    if arm.startswith("MLP"):
        return found | layer("first", PIXELS, width)
    many = 4 if arm == "LSTM" else 1
    found |= {"input": uniform(many * width, fan=width), "bias": torch.zeros(many * width)}
    if arm == "LSTM":
        found["bias"][width : 2 * width] = own
        return found | {"hidden": uniform(many * width, width, fan=width)}
    square = torch.empty(width, width)
    torch.nn.init.orthogonal_(square, own, generator=draw)
    return found | {"hidden": square}


def _s4d(draw: torch.Generator) -> Weights:
    """Rates (S4D-Lin), output vectors, step sizes and skip of one layer; b is 1 throughout."""
    span = math.log(LONGEST / SHORTEST)
    return {
        "rate_log": torch.full((CHANNELS, PAIRS), math.log(0.5)),
        "turns": (math.pi * torch.arange(PAIRS)).repeat(CHANNELS, 1),
        "c": torch.randn(CHANNELS, PAIRS, 2, generator=draw) * 0.5**0.5,
        "delta_log": torch.rand(CHANNELS, generator=draw) * span + math.log(SHORTEST),
        "skip": torch.ones(CHANNELS),
        "norm": torch.ones(CHANNELS),
    }


def count(weights: Weights) -> int:
    """Numbers in one run's weights."""
    return sum(value[0].numel() for value in weights.values())


def forward(arm: str, weights: Weights, pixels: Tensor) -> Tensor:
    """Logits (R, B, 10) of pixels (R, B, T)."""
    if arm == "S4D":
        return linear(space(weights, pixels)[:, :, -1], weights, "head")
    if arm.startswith("linear"):
        return linear(pixels, weights, "head")
    if arm.startswith("MLP"):
        return linear(functional.relu(linear(pixels, weights, "first")), weights, "head")
    cell = lstm if arm == "LSTM" else rnn
    return linear(cell(weights, pixels), weights, "head")


def linear(x: Tensor, weights: Weights, name: str) -> Tensor:
    """x (R, B, …, in), weights (R, out, in) -> (R, B, …, out)."""
    flat = x.flatten(1, -2)
    out = torch.baddbmm(weights[f"{name}.bias"][:, None], flat, weights[f"{name}.weight"].mT)
    return out.unflatten(1, x.shape[1:-1])


def kernel(mine: Weights, length: int) -> Tensor:
    """The kernels of one layer's channels, (R, C, T)."""
    a = torch.complex(-mine["rate_log"].exp(), mine["turns"])  # (R, C, P)
    moved = mine["delta_log"].exp()[..., None] * a
    taps = torch.view_as_complex(mine["c"]) * torch.expm1(moved) / a
    powers = (moved[..., None] * torch.arange(length)).exp()  # (R, C, P, T)
    return 2 * (taps[..., None] * powers).sum(-2).real


def space(weights: Weights, pixels: Tensor) -> Tensor:
    """What two S4D layers make of the pixels, (R, B, T, C)."""
    x, length = linear(pixels[..., None], weights, "first"), pixels.shape[-1]
    for place in range(LAYERS):
        head = f"{place}."
        mine = {n.removeprefix(head): v for n, v in weights.items() if n.startswith(head)}
        u = functional.rms_norm(x, x.shape[-1:], eps=1e-5) * mine["norm"][:, None, None]
        y = late_sums(u, kernel(mine, length)) + u * mine["skip"][:, None, None]
        x = x + linear(functional.relu(y), mine, "mix")
    return x


def late_sums(u: Tensor, taps: Tensor) -> Tensor:
    """y_t = sum over s <= t of K_(t-s) u_s. u (R, B, T, C), taps (R, C, T).

    As one matrix a channel: for 64 tokens that is cheaper than FFTs.
    """
    padded = torch.cat([taps.flip(-1), torch.zeros_like(taps[..., 1:])], dim=-1)
    late = padded.unfold(-1, u.shape[2], 1)  # (R, C, T, T), last t first
    return (late @ u.permute(0, 3, 2, 1)).flip(2).permute(0, 3, 2, 1)


def rnn(weights: Weights, pixels: Tensor) -> Tensor:
    """The last state of a plain recurrent network, (R, B, width)."""
    h = pixels.new_zeros(*pixels.shape[:2], weights["bias"].shape[1])
    for given in _given(weights, pixels):
        h = torch.baddbmm(given, h, weights["hidden"].mT).tanh()
    return h


def lstm(weights: Weights, pixels: Tensor) -> Tensor:
    """The last output of an LSTM, (R, B, width)."""
    h = cell = pixels.new_zeros(*pixels.shape[:2], weights["hidden"].shape[2])
    for given in _given(weights, pixels):
        i, f, g, o = torch.baddbmm(given, h, weights["hidden"].mT).chunk(4, dim=-1)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        h = o.sigmoid() * cell.tanh()
    return h


def _given(weights: Weights, pixels: Tensor) -> list[Tensor]:
    """What each pixel adds before the nonlinearity: T tensors (R, B, out)."""
    shared = weights["bias"][:, None, None]
    added = shared + pixels[..., None] * weights["input"][:, None, None]
    return list(added.unbind(2))
