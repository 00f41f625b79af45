"""Six sequence mixers at nearly equal size, many runs side by side: chapter 24's models.

All tensors have a leading axis of runs: every run has its own weights, its own data and its own
learning rate, and none sees another. So one pass of Python trains a whole sweep of rates and seeds.

Every model is embedding -> 2 x (RMSNorm -> mixer -> add) -> RMSNorm -> linear. The mixers:

    fixed          Mamba's block with Δ, b and c constants of a channel, and no gate
    fixed + gate   the same with its gate
    selective      Mamba's block: Δ, b and c computed from the input
    attention      Mamba's block with one-head softmax attention and RoPE in the place of the scan
    attention, no positions   the same without RoPE; only the convolution knows about order
    LSTM           the cell of Hochreiter and Schmidhuber with a forget gate, its bias at 1

Letters as in ``attend_solutions.mamba``; in shapes here R counts the runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

NO_POSITIONS = "attention, no positions"
ARMS = ("fixed", "fixed + gate", "selective", "attention", NO_POSITIONS, "LSTM")
TAPS, LAYERS = 4, 2


@dataclass(frozen=True)
class Size:
    """What a model is made of: C, V, N and R (the rank of Δ)."""

    width: int
    vocabulary: int
    state: int = 8
    rank: int = 2


Weights = dict[str, Tensor]


class Scan(torch.autograd.Function):
    """Mamba's scan, with its gradient by hand: one step's numbers fit a processor's cache.

    Shapes: x and step (T, R, B, E), a (R, N, E), b and c (T, R, B, N) -> y (T, R, B, E).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, step: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        """Return y, and keep the states."""
        a = a[:, None]
        moved = (step * x)[..., None, :]  # (T, R, B, 1, E)
        states = x.new_empty(*b.shape, x.shape[-1])  # (T, R, B, N, E)
        y = torch.empty_like(x)
        h = torch.zeros_like(states[0])
        for t in range(len(x)):
            decay = (step[t, :, :, None] * a).exp_()
            h = torch.addcmul(decay.mul_(h), b[t, ..., None], moved[t], out=states[t])
            torch.sum(h * c[t, ..., None], dim=-2, out=y[t])
        ctx.save_for_backward(x, step, a, b, c, states)
        return y

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  # torch leaves it open
        ctx: Any, grad: Tensor
    ) -> tuple[Tensor, ...]:
        """The recurrence backwards in time; it computes the decays again."""
        x, step, a, b, c, states = ctx.saved_tensors
        moved = step * x
        of_moved, of_step, of_a = torch.empty_like(x), torch.empty_like(x), torch.zeros_like(a)
        of_b, of_c = torch.empty_like(b), torch.empty_like(c)
        g = torch.zeros_like(states[0])
        for t in range(len(x) - 1, -1, -1):
            pull = grad[t, :, :, None]
            g.addcmul_(c[t, ..., None], pull)
            torch.sum(states[t] * pull, dim=-1, out=of_c[t])
            torch.sum(g * b[t, ..., None], dim=-2, out=of_moved[t])
            torch.sum(g * moved[t, :, :, None], dim=-1, out=of_b[t])
            if t == 0:
                of_step[0] = 0.0
                break
            g.mul_((step[t, :, :, None] * a).exp_())
            through = g * states[t - 1]
            torch.sum(through * a, dim=-2, out=of_step[t])
            of_a += (through.mul_(step[t, :, :, None])).sum(1, keepdim=True)
        return of_moved * step, of_step + of_moved * x, of_a[:, 0], of_b, of_c


def start(arm: str, size: Size, seeds: Sequence[int]) -> Weights:
    """Fresh weights of one run a seed."""
    runs = [_one(arm, size, torch.Generator().manual_seed(seed)) for seed in seeds]
    return {name: torch.stack([run[name] for run in runs]).requires_grad_() for name in runs[0]}


def _one(arm: str, size: Size, draw: torch.Generator) -> Weights:
    def uniform(*shape: int, fan: int) -> Tensor:
        return (torch.rand(shape, generator=draw) * 2 - 1) / math.sqrt(fan)

    found = {
        "embedding": torch.randn(size.vocabulary, size.width, generator=draw) * 0.5,
        "norm": torch.ones(size.width),
        "head": uniform(size.vocabulary, size.width, fan=size.width),
    }
    for layer in range(LAYERS):
        mine = _lstm(size, uniform) if arm == "LSTM" else _block(arm, size, uniform, draw)
        mine["norm"] = torch.ones(size.width)
        found |= {f"{layer}.{name}": value for name, value in mine.items()}
    return found


def _lstm(size: Size, uniform: Callable[..., Tensor]) -> Weights:
    width = size.width
    bias = torch.zeros(4 * width)
    bias[width : 2 * width] = 1.0
    weights = {name: uniform(4 * width, width, fan=width) for name in ("input", "hidden")}
    return weights | {"bias": bias}


def _block(arm: str, size: Size, uniform: Callable[..., Tensor], draw: torch.Generator) -> Weights:
    width, inner = size.width, 2 * size.width
    halves = 1 if arm == "fixed" else 2
    mine = {
        "input.weight": uniform(halves * inner, width, fan=width),
        "taps": uniform(inner, TAPS, fan=TAPS),
        "taps_bias": torch.zeros(inner),
        "output.weight": uniform(width, inner, fan=inner),
    }
    if arm in ("attention", NO_POSITIONS):
        return mine | {"look": uniform(2 * width, inner, fan=inner)}
    steps = (torch.rand(inner, generator=draw) * math.log(100) + math.log(1e-3)).exp()
    mine |= {
        "delta_bias": steps + torch.log(-torch.expm1(-steps)),
        "a_log": torch.arange(1.0, size.state + 1).log()[:, None].repeat(1, inner),  # (N, E)
        "skip": torch.ones(inner),
    }
    if arm == "selective":
        select = uniform(size.rank + 2 * size.state, inner, fan=inner)
        return mine | {"select": select, "delta": uniform(inner, size.rank, fan=size.rank)}
    return mine | {"read": torch.randn(size.state, inner, generator=draw)}


def count(weights: Weights) -> int:
    """Numbers in one run's weights."""
    return sum(value[0].numel() for value in weights.values())


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """x (R, B, T, in), weight (R, out, in) -> (R, B, T, out)."""
    return (x.flatten(1, 2) @ weight.mT).unflatten(1, x.shape[1:3])


def normed(x: Tensor, weight: Tensor) -> Tensor:
    """RMSNorm. x (R, B, T, C), weight (R, C)."""
    return functional.rms_norm(x, x.shape[-1:], eps=1e-5) * weight[:, None, None]


def forward(arm: str, weights: Weights, tokens: Tensor) -> Tensor:
    """Logits (R, B, T, V) of tokens (R, B, T)."""
    runs = torch.arange(tokens.shape[0])[:, None, None]
    x = weights["embedding"][runs, tokens]
    for layer in range(LAYERS):
        head = f"{layer}."
        mine = {n.removeprefix(head): v for n, v in weights.items() if n.startswith(head)}
        x = x + MIXERS[arm](normed(x, mine["norm"]), mine)
    return linear(normed(x, weights["norm"]), weights["head"])


def convolved(u: Tensor, mine: Weights) -> Tensor:
    """Causal convolution and SiLU. u (R, B, T, E)."""
    length = u.shape[2]
    padded = functional.pad(u, (0, 0, TAPS - 1, 0))
    taps = mine["taps"][:, None, None]
    mixed = sum(padded[:, :, k : k + length] * taps[..., k] for k in range(TAPS))
    return functional.silu(mixed + mine["taps_bias"][:, None, None])


def space(x: Tensor, mine: Weights) -> Tensor:
    """Mamba's block, selective where it has `select`, gated where its input has two halves."""
    u, z = linear(x, mine["input.weight"]), None
    if u.shape[-1] > mine["skip"].shape[-1]:
        u, z = u.chunk(2, dim=-1)
    u = convolved(u, mine)
    a = -torch.exp(mine["a_log"])  # (R, N, E)
    bias = mine["delta_bias"][:, None]
    over = u.movedim(2, 0).contiguous()  # (T, R, B, E)
    if "select" in mine:
        rank, state = mine["delta"].shape[-1], a.shape[1]
        selected = linear(u, mine["select"]).movedim(2, 0)
        low, b, c = selected.split([rank, state, state], dim=-1)
        step = functional.softplus(low @ mine["delta"].mT + bias)
        y = Scan.apply(over, step, a, b.contiguous(), c.contiguous()).movedim(0, 2)
    else:
        step = functional.softplus(bias)  # (R, 1, E)
        passed = torch.arange(u.shape[2])[:, None, None, None]  # how long ago, in steps
        kernel = (torch.exp(passed * step * a) * step * mine["read"]).sum(-2)  # (T, R, E)
        y = late_sums(u, kernel)
    y = y + u * mine["skip"][:, None, None]
    return linear(y if z is None else y * functional.silu(z), mine["output.weight"])


def late_sums(u: Tensor, kernel: Tensor) -> Tensor:
    """y_t = sum over s <= t of kernel_(t-s) u_s. u (R, B, T, E), kernel (T, R, E)."""
    length = u.shape[2]
    if length <= 128:  # as one matrix a channel: cheaper than FFTs of short texts
        padded = torch.cat([kernel.flip(0), torch.zeros_like(kernel[1:])])  # (2 T - 1, R, E)
        late = padded.unfold(0, length, 1).permute(1, 2, 0, 3)  # (R, E, T, T), last t first
        return (late @ u.permute(0, 3, 2, 1)).flip(2).permute(0, 3, 2, 1)
    long = 2 * length
    found = torch.fft.rfft(kernel.movedim(0, 1)[:, None], n=long, dim=2)
    both = torch.fft.rfft(u, n=long, dim=2) * found
    return torch.fft.irfft(both, n=long, dim=2)[:, :, :length]


def attention(x: Tensor, mine: Weights, positions: bool = True) -> Tensor:
    """Mamba's block with causal softmax attention for its scan, with RoPE or without."""
    u, z = linear(x, mine["input.weight"]).chunk(2, dim=-1)
    u = convolved(u, mine)
    q, k = linear(u, mine["look"]).chunk(2, dim=-1)
    if positions:
        q, k = rotated(q), rotated(k)
    y = functional.scaled_dot_product_attention(q, k, u, is_causal=True)
    return linear(y * functional.silu(z), mine["output.weight"])


def rotated(x: Tensor) -> Tensor:
    """RoPE with base 10,000. x (R, B, T, D)."""
    half = x.shape[-1] // 2
    rates = 10_000.0 ** (-torch.arange(half) / half)
    angle = torch.arange(x.shape[2])[:, None] * rates
    first, second = x[..., :half], x[..., half:]
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def lstm(x: Tensor, mine: Weights) -> Tensor:
    """LSTM cell by cell."""
    gates = (linear(x, mine["input"]) + mine["bias"][:, None, None]).unbind(2)
    weight = mine["hidden"].mT
    h = cell = x.new_zeros(x.shape[0], x.shape[1], x.shape[3])
    rows = []
    for given in gates:
        i, f, g, o = torch.baddbmm(given, h, weight).chunk(4, dim=-1)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        h = o.sigmoid() * cell.tanh()
        rows.append(h)
    return torch.stack(rows, dim=2)


MIXERS = {
    "fixed": space,
    "fixed + gate": space,
    "selective": space,
    "attention": attention,
    NO_POSITIONS: partial(attention, positions=False),
    "LSTM": lstm,
}
