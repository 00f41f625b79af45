"""Mamba-2: one matrix with two readings, attention without a softmax and a recurrence.

Where a whole head of D channels fades by one number exp(a_t) a step, the recurrence ::

    h_t = exp(a_t) h_{t-1} + x_t b_tᵀ          y_t = h_t c_t

written out for all steps is a matrix with the entries (c_t · b_s) exp(a_{s+1} + … + a_t), s ≤ t:
masked attention with queries c, keys b and values x. Here x is what is written, Δ times the input,
and a_t = Δ_t A is the logarithm of the decay.

Letters: ``B`` examples, ``T`` steps, ``H`` heads, ``D`` channels of a head, ``N`` numbers a channel
keeps, ``C`` numbers in one token, ``E`` channels inside a block (2 C = H D), ``K`` taps of the
convolution, ``Q`` steps in a chunk. The paper writes P for D, and A, B, C for a, b, c.

Source: Dao and Gu 2024, "Transformers are SSMs: Generalized Models and Efficient Algorithms Through
Structured State Space Duality". The kernels of this chapter are in ``ssd_triton``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from attend_solutions.mamba import causal_conv1d


def segsum(log_decay: Tensor) -> Tensor:
    """Add up each segment of the last axis: entry (t, s) is a_{s+1} + … + a_t, for s ≤ t.

    The diagonal is 0, above it stands −inf. Each entry adds up its own terms only: a large term
    elsewhere costs it no digits, and a term may be −inf (a decay of 0).

    Shapes:
        log_decay: (..., T), of at most 0
        returns: (..., T, T)

    Source: the code of Dao and Gu 2024, ``ssd_minimal.py``.
    """
    tokens = log_decay.shape[-1]
    below = torch.ones(tokens, tokens, dtype=torch.bool, device=log_decay.device).tril(-1)
    terms = log_decay[..., :, None].expand(*log_decay.shape, tokens)  # entry (t, s) is a_t
    sums = terms.masked_fill(~below, 0.0).cumsum(dim=-2)
    return sums.masked_fill(below.mT, float("-inf"))


def ssd_quadratic(x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """All outputs at once, as masked attention without a softmax.

    y_t = Σ_{s ≤ t} exp(segsum(a)_ts) (c_t · b_s) x_s; all heads share b and c.

    Shapes:
        x: (B, T, H, D), times its step sizes already
        log_decay: (B, T, H), of at most 0
        b, c: (B, T, N)
        returns: (B, T, H, D)

    Source: Dao and Gu 2024, §3.2 (the matrix) and §4 (attention with a structured mask).
    """
    fade = torch.exp(segsum(log_decay.mT))  # (B, H, T, T)
    scores = c @ b.mT  # (B, T, T)
    return (fade * scores[:, None] @ x.transpose(1, 2)).transpose(1, 2)


def ssd_recurrent(
    x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The same outputs step by step: h_t = exp(a_t) h_{t-1} + x_t b_tᵀ, y_t = h_t c_t.

    Shapes:
        x: (B, T, H, D)
        log_decay: (B, T, H)
        b, c: (B, T, N)
        state: (B, H, D, N), what an earlier call returned; None: zeros
        returns: y (B, T, H, D) and the last state (B, H, D, N)

    Source: Dao and Gu 2024, §2.1, with the scalar decay of §5.1.
    """
    decay = torch.exp(log_decay)[..., None, None]  # (B, T, H, 1, 1)
    written = x[..., None] * b[:, :, None, None, :]  # (B, T, H, D, N)
    h = torch.zeros_like(written[:, 0]) if state is None else state
    read = []
    for t in range(x.shape[1]):
        h = decay[:, t] * h + written[:, t]
        read.append((h * c[:, t, None, None, :]).sum(-1))
    return torch.stack(read, dim=1), h


def ssd_chunked(
    x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor, chunk: int, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The same outputs by chunks: attention within each, the recurrence from one to the next.

    The last chunk is shorter where ``chunk`` does not divide T.

    Shapes:
        x: (B, T, H, D)
        log_decay: (B, T, H)
        b, c: (B, T, N)
        chunk: Q, at least 1
        state: (B, H, D, N), what an earlier call returned; None: zeros
        returns: y (B, T, H, D) and the last state (B, H, D, N)

    Source: Dao and Gu 2024, §6.
    """
    h = x.new_zeros(len(x), *x.shape[2:], b.shape[-1]) if state is None else state
    read = []
    for first in range(0, x.shape[1], chunk):
        now = slice(first, first + chunk)
        own, logs, keys, queries = x[:, now], log_decay[:, now], b[:, now], c[:, now]
        since = torch.exp(logs.cumsum(1))[..., None]  # (B, Q, H, 1): left of the state given
        until = torch.exp(segsum(logs.mT)[..., -1, :]).mT[..., None]  # left of it at the end
        before = torch.einsum("bqn,bhdn->bqhd", queries, h)
        read.append(ssd_quadratic(own, logs, keys, queries) + since * before)
        written = torch.einsum("bqhd,bqn->bhdn", until * own, keys)
        h = since[:, -1, :, :, None] * h + written
    return torch.cat(read, dim=1), h


def best_chunk(tokens: int, heads: int, width: int, state: int, room: int) -> tuple[int, int]:
    """The chunk length with the fewest multiplications among those that fit on the chip.

    A chunk of q steps costs, for one example: q² N for the scores, which all heads share; and for
    each of the H heads q² to fade them, q² D to take the values, 2 q D N to read the state and to
    write to it, 2 q D to fade what is read and written, and D N to fade the state. A last, shorter
    chunk counts with its own q. On the chip must fit, for one head, the scores (q²), the chunk's
    x, b and c (q D + 2 q N) and the state (D N).

    Args:
        tokens: T.
        heads: H.
        width: D.
        state: N.
        room: numbers that fit on the chip; a chunk of one step always does.

    Returns:
        the chunk length from 1 to T, the smallest of several that are equally good, and its
        number of multiplications.

    Source: Dao and Gu 2024, §6 (the steps of the algorithm); counted in this project's tests.
    """

    def operations(q: int) -> int:
        within = q * q * (state + heads * (width + 1))
        return within + heads * (2 * q * width * (state + 1) + width * state)

    counts = {}
    for q in range(1, tokens + 1):
        if q * q + q * (width + 2 * state) + width * state <= room:
            full, rest = divmod(tokens, q)
            counts[q] = full * operations(q) + (operations(rest) if rest else 0)
    best = min(counts, key=lambda q: counts[q])
    return best, counts[best]


class Mamba2Block(nn.Module):
    """One projection makes all; x, b and c are convolved; the gate comes before the norm.

        z, mixed, raw = the parts of x W_inᵀ       mixed = SiLU(conv(mixed))
        u, b, c = the parts of mixed               Δ = softplus(raw + delta_bias)
        y = ssd_chunked(Δ u, −exp(a_log) Δ, b, c) + skip u
        output = norm(y ∘ SiLU(z)) W_outᵀ

    Args:
        width: C, of a token; E is twice that.
        state: N.
        heads: H, a divisor of E.
        taps: K.
        chunk: Q.

    Shapes of a call:
        x: (B, T, C)
        returns: (B, T, C)

    Source: Dao and Gu 2024, §7.1 and figure 6, with one group of b and c.
    """

    def __init__(self, width: int, state: int, heads: int, taps: int = 4, chunk: int = 32) -> None:
        super().__init__()
        inner = 2 * width
        mixed = inner + 2 * state
        self.chunk = chunk
        self.input = nn.Linear(width, inner + mixed + heads, bias=False)
        self.taps = nn.Parameter(torch.empty(mixed, taps).uniform_(-1, 1) / taps**0.5)
        self.taps_bias = nn.Parameter(torch.zeros(mixed))
        start = torch.logspace(-3, -1, heads)  # step sizes at first
        self.delta_bias = nn.Parameter(start + torch.log(-torch.expm1(-start)))
        self.a_log = nn.Parameter(torch.linspace(1, 16, heads).log())
        self.skip = nn.Parameter(torch.ones(heads))
        self.norm = nn.RMSNorm(inner, eps=1e-5)
        self.output = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Mix the tokens of each example, from left to right."""
        ### BEGIN SOLUTION
        heads, inner = len(self.a_log), self.output.in_features
        state = (len(self.taps) - inner) // 2
        z, mixed, raw = self.input(x).split([inner, inner + 2 * state, heads], dim=-1)
        mixed = functional.silu(causal_conv1d(mixed, self.taps, self.taps_bias))
        u, b, c = mixed.split([inner, state, state], dim=-1)
        u = u.unflatten(-1, (heads, -1))  # (B, T, H, D)
        delta = functional.softplus(raw + self.delta_bias)  # (B, T, H)
        a = -torch.exp(self.a_log)
        y, _ = ssd_chunked(delta[..., None] * u, a * delta, b, c, self.chunk)
        y = (y + self.skip[:, None] * u).flatten(-2)
        return self.output(self.norm(y * functional.silu(z)))
        ### END SOLUTION
