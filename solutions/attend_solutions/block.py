"""The transformer block: what stands around attention, and how many numbers it has.

A block adds twice to a *stream* x of C numbers a token: what attention found, and what a small
network makes of it. Where the norms stand has a name::

    post      x ← N(x + A(x)),   x ← N(x + F(x))           the original
    pre       x ← x + A(N(x)),   x ← x + F(N(x))           GPT-2, Llama
    parallel  x ← x + A(N(x)) + F(N(x))                    GPT-J, PaLM

Letters: ``B`` texts, ``T`` tokens, ``C`` numbers of a token, ``H`` heads, ``F`` numbers inside the
feed-forward network (d_ff in the papers), ``L`` blocks, ``V`` tokens in the vocabulary.

Source: Vaswani et al. 2017, "Attention Is All You Need", §3.1 and §3.3; Xiong et al. 2020, "On
Layer Normalization in the Transformer Architecture", figure 1.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from attend_solutions.multi_head import MultiHeadAttention


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """Give every token mean 0 and variance 1, then a scale and a shift that are learned.

    y = (x − μ) / √(σ² + eps) · weight + bias, with μ and σ² over the C numbers of each token;
    σ² is divided by C.

    Shapes:
        x: (..., C)
        weight, bias: (C,)
        returns: (..., C)

    Source: Ba et al. 2016, "Layer Normalization", equation (4).

    >>> layer_norm(torch.tensor([1.0, 3.0]), torch.ones(2), torch.zeros(2), eps=0.0)
    tensor([-1.,  1.])
    """
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    return centred / torch.sqrt(variance + eps) * weight + bias


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """Divide every token by its root mean square, then scale: y = x / √(mean(x²) + eps) · weight.

    Shapes:
        x: (..., C)
        weight: (C,)
        returns: (..., C)

    Source: Zhang and Sennrich 2019, "Root Mean Square Layer Normalization", equation (4).

    >>> rms_norm(torch.tensor([1.0, 7.0]), torch.tensor([5.0, 5.0]), eps=0.0)  # RMS 5
    tensor([1., 7.])
    """
    return x / torch.sqrt(x.square().mean(dim=-1, keepdim=True) + eps) * weight


def feed_forward(
    x: Tensor, w_in: Tensor, w_out: Tensor, kind: str = "gelu", w_gate: Tensor | None = None
) -> Tensor:
    """Change every token by itself: out to F numbers, through an activation function, and back.

    relu:    max(0, x W_inᵀ) W_outᵀ
    gelu:    GELU(x W_inᵀ) W_outᵀ, with GELU(u) = u · Φ(u), exact and not by tanh
    swiglu:  (SiLU(x W_gateᵀ) ∘ x W_inᵀ) W_outᵀ, with SiLU(u) = u · sigmoid(u)

    Shapes:
        x: (..., C)
        w_in: (F, C)
        w_out: (C, F)
        w_gate: (F, C), of swiglu only; relu and gelu do not use it
        returns: (..., C)

    Raises:
        ValueError: ``kind`` is another, or swiglu has no ``w_gate``.

    Source: Vaswani et al. 2017, equation (2); Hendrycks and Gimpel 2016, "Gaussian Error Linear
    Units", §2; Shazeer 2020, "GLU Variants Improve Transformer", equation (6). No biases.
    """
    up = x @ w_in.T  # (..., F)
    if kind == "relu":
        hidden = functional.relu(up)
    elif kind == "gelu":
        hidden = functional.gelu(up)
    elif kind == "swiglu" and w_gate is not None:
        hidden = functional.silu(x @ w_gate.T) * up
    else:
        raise ValueError(f"kind must be relu, gelu, or swiglu with a w_gate; got {kind!r}.")
    return hidden @ w_out.T


class TransformerBlock(nn.Module):
    """Attention and a feed-forward network around one stream.

    Args:
        width: C.
        heads: H; divides the width.
        order: where the norms stand: "pre", "post" or "parallel".
        norm: "layer" or "rms".
        kind: of feed-forward network: "relu", "gelu" (F = 4C) or "swiglu" (F = 8C/3, rounded).

    Shapes of a call:
        x: (B, T, C)
        mask: boolean, broadcasts with (B, H, T, T); True: may look; None: everyone may
        returns: (B, T, C)

    Raises:
        ValueError: an unknown order or norm.

    Source: Vaswani et al. 2017, §3.1 (post); Xiong et al. 2020, figure 1 (pre); Wang and
    Komatsuzaki 2021, GPT-J, and Chowdhery et al. 2022, "PaLM", §2 (parallel, one norm for both).
    """

    def __init__(
        self, width: int, heads: int, order: str = "pre", norm: str = "layer", kind: str = "gelu"
    ) -> None:
        super().__init__()
        if order not in ("pre", "post", "parallel") or norm not in ("layer", "rms"):
            raise ValueError(f"no such block: order {order!r}, norm {norm!r}.")
        inner, norms = 4 * width, 1 if order == "parallel" else 2
        if kind == "swiglu":
            inner = round(8 * width / 3)
        self.order, self.kind = order, kind
        self.attention = MultiHeadAttention(width, heads)
        self.up = nn.Linear(width, inner, bias=False)
        self.gate = nn.Linear(width, inner, bias=False) if kind == "swiglu" else None
        self.down = nn.Linear(inner, width, bias=False)
        self.scale = nn.Parameter(torch.ones(norms, width))
        self.shift = nn.Parameter(torch.zeros(norms, width)) if norm == "layer" else None

    def attend(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """What attention finds."""
        return self.attention(x, mask)[0]

    def feed(self, x: Tensor) -> Tensor:
        """What the feed-forward network makes of it."""
        gate = None if self.gate is None else self.gate.weight
        return feed_forward(x, self.up.weight, self.down.weight, self.kind, gate)

    def norm(self, which: int, x: Tensor) -> Tensor:
        """The first norm (0) or the second (1)."""
        if self.shift is None:
            return rms_norm(x, self.scale[which])
        return layer_norm(x, self.scale[which], self.shift[which])

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Add to the stream what attention and the feed-forward network have to say."""
        ### BEGIN SOLUTION
        if self.order == "post":
            x = self.norm(0, x + self.attend(x, mask))
            return self.norm(1, x + self.feed(x))
        calm = self.norm(0, x)
        if self.order == "parallel":
            return x + self.attend(calm, mask) + self.feed(calm)
        x = x + self.attend(calm, mask)
        return x + self.feed(self.norm(1, x))
        ### END SOLUTION


class RepairedBlock(nn.Module):
    """A pre-norm block with GELU, as ``TransformerBlock`` is by default.

    Args:
        width: C.
        heads: H; divides the width.

    Shapes of a call:
        x: (B, T, C)
        mask: boolean, broadcasts with (B, H, T, T); True: may look; None: everyone may
        returns: (B, T, C)

    Source: Xiong et al. 2020, figure 1 (b).
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(width, heads)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)
        self.scale = nn.Parameter(torch.ones(2, width))
        self.shift = nn.Parameter(torch.zeros(2, width))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Add to the stream what attention and the feed-forward network have to say."""
        ### BEGIN SOLUTION
        found, _ = self.attention(layer_norm(x, self.scale[0], self.shift[0]), mask)
        x = x + found
        calm = layer_norm(x, self.scale[1], self.shift[1])
        return x + feed_forward(calm, self.up.weight, self.down.weight)
        ### END SOLUTION


def parameter_count(
    vocabulary: int,
    width: int,
    layers: int,
    inner: int,
    *,
    positions: int = 0,
    segments: int = 0,
    kv_width: int | None = None,
    gated: bool = False,
    biases: bool = True,
    rms: bool = False,
    tied: bool = True,
    pooler: bool = False,
) -> int:
    """Count the numbers that a transformer learns, from its configuration.

    Args:
        vocabulary: V, rows of the table of tokens.
        width: C.
        layers: L.
        inner: F.
        positions: rows of a learned table of places; 0: there is none.
        segments: rows of a table that tells first from second text (BERT); 0: there is none.
        kv_width: numbers in all keys of a token, and in all values (G·D); None: C.
        gated: the feed-forward network has a third matrix, w_gate.
        biases: every matrix product has a bias (not the tables and not the output scores).
        rms: norms have a scale only; else (layer norm) a scale and a shift.
        tied: the output scores use the table of tokens; else a matrix of their own.
        pooler: one more linear layer from C to C at the end (BERT).

    Each block has two norms, and one norm stands outside: after the last block (GPT-2, Llama) or
    after the tables (BERT).

    Source: Radford et al. 2019 (GPT-2); Devlin et al. 2019 (BERT), §3; Touvron et al. 2023
    (Llama 2).
    """
    shared = width if kv_width is None else kv_width
    attention = 2 * width * width + 2 * width * shared
    feed = (3 if gated else 2) * width * inner
    if biases:
        attention += 2 * width + 2 * shared
        feed += (2 if gated else 1) * inner + width
    one_norm = width if rms else 2 * width
    tables = (vocabulary + positions + segments) * width
    end = 0 if tied else vocabulary * width
    if pooler:
        end += width * width + (width if biases else 0)
    return tables + layers * (attention + feed + 2 * one_norm) + one_norm + end


def residual_init(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    w_in: Tensor,
    w_out: Tensor,
    layers: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Start the matrices of one block so that L blocks add little to the stream.

    Matrices whose results are added to the stream are multiplied by 1/√(2L); L blocks have 2L of
    them. All others stay as they are.

    Shapes:
        query, key, value, output: (C, C), of attention
        w_in: (F, C)
        w_out: (C, F)
        layers: L, a whole number from 1 on
        returns: the six matrices in the same order

    Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", §2.3.
    """
    smaller = (2 * layers) ** -0.5
    return query, key, value, output * smaller, w_in, w_out * smaller
