"""Mamba: a state space model whose step size, input and output depend on the input.

One channel keeps N numbers. At step t it forgets by exp(Δ_t a), writes Δ_t b_t x_t and reads with
c_t, and Δ_t, b_t and c_t are computed from x_t::

    h_t = exp(Δ_t a) ∘ h_{t-1} + Δ_t b_t x_t        y_t = c_t · h_t + skip x_t

Letters: ``B`` examples, ``T`` steps, ``C`` numbers in one token, ``E`` channels inside a block
(2 C), ``N`` numbers in one channel's state, ``R`` rank of Δ, ``K`` taps of the convolution, ``V``
tokens in the vocabulary. The papers write B_t and C_t for b_t and c_t, L for T and D for C.

Source: Gu and Dao 2023, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces".
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

NOISE, READ, IGNORED = 0, 1, -100
"""Tokens of selective copying, and the target that `cross_entropy` leaves out."""


def selective_copy_data(keys: Tensor, symbols: Tensor) -> tuple[Tensor, Tensor]:
    """Hide symbols in noise, in order, and ask for them at the end.

    The M places with the smallest keys carry the symbols: the first symbol at the earliest of these
    places, the last at the latest. All other places hold NOISE. After them stand M tokens READ;
    the target of the first READ is the first symbol, and so on. All other targets are IGNORED.

    Shapes:
        keys: (B, T), numbers that are all different, such as ``torch.rand(B, T)``
        symbols: (B, M), whole numbers from 2 on; M at most T
        returns: tokens (B, T + M) and targets (B, T + M), whole numbers

    Source: Gu and Dao 2023, §3.1 and §4.1.1; Jing et al. 2019 (denoising), for the task.
    """
    asked = symbols.shape[1]
    places = keys.argsort(dim=1)[:, :asked].sort(dim=1).values
    tokens = symbols.new_full(keys.shape, NOISE).scatter(1, places, symbols)
    tokens = torch.cat([tokens, torch.full_like(symbols, READ)], dim=1)
    targets = torch.cat([symbols.new_full(keys.shape, IGNORED), symbols], dim=1)
    return tokens, targets


def selective_parameters(
    x: Tensor, w_select: Tensor, w_delta: Tensor, bias_delta: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute step size, input and output vectors from each token.

    The first R numbers of ``x w_selectᵀ`` are a short description of the step size, the next N are
    b, the last N are c. The step size of every channel is softplus(description w_deltaᵀ + bias).

    Shapes:
        x: (B, T, E)
        w_select: (R + 2 N, E), N at least 1
        w_delta: (E, R)
        bias_delta: (E,)
        returns: Δ (B, T, E), positive; b (B, T, N); c (B, T, N)

    Source: Gu and Dao 2023, §3.2, algorithm 2, and §3.6 for the rank R.
    """
    rank = w_delta.shape[1]
    state = (w_select.shape[0] - rank) // 2
    if state < 1:
        raise ValueError(
            f"w_select needs R + 2 N rows with R = {rank} (from w_delta) and N at least 1; "
            f"it has {len(w_select)}"
        )
    low, b, c = (x @ w_select.T).split([rank, state, state], dim=-1)
    return functional.softplus(low @ w_delta.T + bias_delta), b, c


def discretize_selective(delta: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Turn Δ, a and b into what each step keeps of the state and adds for an input of 1.

    ``decay = exp(Δ a)`` (exact for an input held constant over the step), ``gain = Δ b`` (its
    first-order approximation).

    Shapes:
        delta: (B, T, E)
        a: (E, N), negative
        b: (B, T, N)
        returns: decay and gain, both (B, T, E, N)

    Source: Gu and Dao 2023, equation (4) for the decay, and the authors' code for the gain.
    """
    step = delta[..., None]
    return torch.exp(step * a), step * b[..., None, :]


def selective_scan(
    x: Tensor,
    delta: Tensor,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    skip: Tensor,
    state: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Run the recurrence one step after the other.

    h_t = decay_t ∘ h_{t-1} + gain_t x_t,  y_t = Σ_n c_tn h_tn + skip x_t, per channel.

    Shapes:
        x, delta: (B, T, E)
        a: (E, N)
        b, c: (B, T, N)
        skip: (E,)
        state: (B, E, N), what an earlier call returned; None: zeros
        returns: y (B, T, E) and the last state (B, E, N)

    Source: Gu and Dao 2023, equations (2a) and (2b).
    """
    decay, gain = discretize_selective(delta, a, b)
    written = gain * x[..., None]  # (B, T, E, N)
    h = torch.zeros_like(written[:, 0]) if state is None else state
    read = []
    for keep, add, out in zip(decay.unbind(1), written.unbind(1), c.unbind(1), strict=True):
        h = keep * h + add
        read.append((h * out[:, None]).sum(-1))  # (B, E)
    return torch.stack(read, dim=1) + skip * x, h


def raw_scan(
    x: Tensor, raw: Tensor, bias: Tensor, a: Tensor, b: Tensor, c: Tensor
) -> tuple[Tensor, Tensor]:
    """Run the recurrence from the raw step size: Δ = softplus(raw + bias). No skip.

    Shapes:
        x, raw: (B, T, E)
        bias: (E,)
        a: (E, N)
        b, c: (B, T, N)
        returns: y (B, T, E) and the last state (B, E, N)

    Source: the arguments of ``selective_scan_fn`` in the authors' code, with delta_softplus=True.
    """
    step = functional.softplus(raw + bias)
    decay = torch.exp(step[..., None] * a)
    written = (step * x)[..., None] * b[..., None, :]
    h = torch.zeros_like(written[:, 0])
    read = []
    for t in range(x.shape[1]):
        h = decay[:, t] * h + written[:, t]
        read.append((h * c[:, t, None]).sum(-1))
    return torch.stack(read, dim=1), h


def associative_scan(decay: Tensor, written: Tensor) -> tuple[Tensor, int, int]:
    """Compute all states h_t = decay_t ∘ h_{t-1} + written_t by a tree, from h_0 = 0.

    Up: steps 1 and 2, 3 and 4, … are combined into one each (an odd one at the end is left out),
    then the same again with what results, until one step is left. Down: the states after each pair
    of steps are known; one more combination of all at once gives the states in between.

    Shapes:
        decay, written: (B, T, E, N), T at least 1
        returns: states (B, T, E, N); how many pairs of steps were combined in all, up and down; in
            how many rounds, where everything that is combined at once is one round

    Source: Blelloch 1990, "Prefix Sums and Their Applications", §1.2; Gu and Dao 2023, §3.3.2.
    """
    levels, pairs, rounds = [], 0, 0
    while written.shape[1] > 1:
        levels.append((decay, written))
        early, late = slice(0, written.shape[1] - 1, 2), slice(1, None, 2)
        written = decay[:, late] * written[:, early] + written[:, late]
        decay = decay[:, late] * decay[:, early]
        pairs, rounds = pairs + decay.shape[1], rounds + 1
    states = written
    for decay, written in reversed(levels):  # states: after steps 2, 4, … of this level
        before = states[:, : (written.shape[1] - 1) // 2]
        odd = decay[:, 2::2] * before + written[:, 2::2]  # after steps 3, 5, …
        if odd.shape[1]:
            pairs, rounds = pairs + odd.shape[1], rounds + 1
        even, states = states, torch.empty_like(written)
        states[:, 0], states[:, 1::2], states[:, 2::2] = written[:, 0], even, odd
    return states, pairs, rounds


def causal_conv1d(x: Tensor, taps: Tensor, bias: Tensor) -> Tensor:
    """Mix each channel with its own last K - 1 values: y_t = Σ_k taps_k x_{t-K+1+k} + bias.

    The last tap belongs to the present; before the first step there are zeros.

    Shapes:
        x: (B, T, E)
        taps: (E, K)
        bias: (E,)
        returns: (B, T, E)

    Source: Gu and Dao 2023, §3.4 and figure 3; Fu et al. 2023, "Hungry Hungry Hippos", §3.2.
    """
    width = taps.shape[1]
    padded = functional.pad(x, (0, 0, width - 1, 0))  # K - 1 zeros before the first step
    return (padded.unfold(1, width, 1) * taps).sum(-1) + bias


class MambaBlock(nn.Module):
    """Two branches: one is convolved and scanned, the other is its gate.

        u, z = the halves of x W_inᵀ          u = SiLU(conv(u))
        Δ, b, c = selective_parameters(u)     y = selective_scan(u, Δ, −exp(a_log), b, c, skip)
        output = (y ∘ SiLU(z)) W_outᵀ

    Args:
        width: C, of a token; E is twice that.
        state: N.
        taps: K.
        rank: R; None: C / 16, rounded up.

    Shapes of a call:
        x: (B, T, C)
        returns: (B, T, C)

    Source: Gu and Dao 2023, §3.4 and figure 3; §3.6 for how the weights start.
    """

    def __init__(self, width: int, state: int, taps: int = 4, rank: int | None = None) -> None:
        super().__init__()
        inner, rank = 2 * width, rank or math.ceil(width / 16)
        self.input = nn.Linear(width, 2 * inner, bias=False)
        self.taps = nn.Parameter(torch.empty(inner, taps).uniform_(-1, 1) / math.sqrt(taps))
        self.taps_bias = nn.Parameter(torch.zeros(inner))
        self.select = nn.Parameter(torch.empty(rank + 2 * state, inner).uniform_(-1, 1))
        self.delta = nn.Parameter(torch.empty(inner, rank).uniform_(-1, 1) / math.sqrt(rank))
        start = torch.empty(inner).uniform_(math.log(1e-3), math.log(1e-1)).exp()
        self.delta_bias = nn.Parameter(start + torch.log(-torch.expm1(-start)))
        self.a_log = nn.Parameter(torch.arange(1.0, state + 1).log().repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))
        self.output = nn.Linear(inner, width, bias=False)
        with torch.no_grad():
            self.select /= math.sqrt(inner)

    def forward(self, x: Tensor) -> Tensor:
        """Mix the tokens of each example, from left to right."""
        ### BEGIN SOLUTION
        u, z = self.input(x).chunk(2, dim=-1)  # (B, T, E) each
        u = functional.silu(causal_conv1d(u, self.taps, self.taps_bias))
        delta, b, c = selective_parameters(u, self.select, self.delta, self.delta_bias)
        y, _ = selective_scan(u, delta, -torch.exp(self.a_log), b, c, self.skip)
        return self.output(y * functional.silu(z))
        ### END SOLUTION


def mamba_step(
    block: Mapping[str, Tensor], x: Tensor, recent: Tensor, state: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Read one token, with what a MambaBlock remembers of the tokens before.

    Args:
        block: a MambaBlock's parameters by name: ``dict(block.named_parameters())``.
        x: the token.
        recent: the last K - 1 inputs of the convolution, oldest first; zeros at the start.
        state: of the scan; zeros at the start.

    Shapes:
        x: (B, C)
        recent: (B, K - 1, E)
        state: (B, E, N)
        returns: output (B, C), and recent and state for the next token, of the same shapes

    Source: Gu and Dao 2023, §3.4; ``step`` in the authors' code.
    """
    u, z = (x @ block["input.weight"].T).chunk(2, dim=-1)  # (B, E) each
    window = torch.cat([recent, u[:, None]], dim=1)  # (B, K, E)
    u = (window * block["taps"].T).sum(1) + block["taps_bias"]
    u = functional.silu(u)[:, None]  # (B, 1, E): a text of one token
    delta, b, c = selective_parameters(u, block["select"], block["delta"], block["delta_bias"])
    a = -torch.exp(block["a_log"])
    y, state = selective_scan(u, delta, a, b, c, block["skip"], state)
    y = (y[:, 0] * functional.silu(z)) @ block["output.weight"].T
    return y, window[:, 1:], state
