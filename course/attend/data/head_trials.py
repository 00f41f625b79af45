"""Trials of chapter 05: how many heads a token needs, and how little its cache may keep.

Five tables, which ``python course/05_multi_head/heads.py`` makes, and the models behind them:

    asking   people who ask two questions at once (``two_relations``), by kinds of attention
    stuck    how many of twenty more runs know only one of two answers
    saving   the same task against numbers kept of a token, every model with as many parameters
    again    twenty more runs of two of its arms, with 12 numbers kept
    sharing  a model that was trained with four heads of keys, given fewer, and trained on

and the weights of four small models for the picture, with 8, 4, 2 and 1 heads of keys and values.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from attend.data import deep_stack as deep
from attend.data.two_relations import FEATURES, VALUES, TwoRelations, two_relations
from attend.training import fit

WIDTH, HEADS, HEAD, BATCH = 48, 8, 6, 16
TABLE = Path(__file__).with_name("head_trials.json")
WEIGHTS = Path(__file__).with_name("head_surgery.npz")
TEST, TUNE = 1005, 1006
"""Seeds of the rows that errors are measured on: at the end, and while rates are chosen."""
EVERY = 10
"""Steps between two entries of a curve in the table."""

BOTH, ONE, SYMBOLS = "friend and house", "friend only", "friend and house, symbols"
STEPS = {BOTH: 500, ONE: 500, SYMBOLS: 1000}
"""What is asked. Symbols: the answers are two of four symbols in the place of four numbers each."""

ASKING: dict[str, tuple[int, int, str]] = {
    "1 head of 48": (48, 1, ""),
    "1 head of 192": (192, 1, ""),
    "1 head of 48, then a network": (48, 1, "network"),
    "1 head of 48, then another layer": (48, 1, "layer"),
    "2 heads of 24": (48, 2, ""),
    "4 heads of 12": (48, 4, ""),
    "8 heads of 6": (48, 8, ""),
}
"""Width C, heads, and what comes behind the attention."""

ASKED: dict[str, tuple[str, ...]] = {
    BOTH: tuple(ASKING),
    ONE: ("1 head of 48", "2 heads of 24", "8 heads of 6"),
    SYMBOLS: ("1 head of 48", "1 head of 48, then a network", "2 heads of 24"),
}
"""The arms of each question."""

SHARED, FEWER, LATENT = "shared keys and values", "fewer heads", "latents"
SAVING: dict[str, tuple[str, int]] = {
    **{f"{n} kv_heads, 8 heads": (SHARED, n) for n in (8, 4, 2, 1)},
    **{f"{n} heads": (FEWER, n) for n in (4, 2, 1)},
    **{f"latent of {n}": (LATENT, n) for n in (24, 12, 8, 6)},
}
"""Kind of attention, and its heads of keys or its rank."""
SAVING_STEPS, EARLY = 1000, 250
PARAMETERS = 4 * WIDTH**2 + 2 * WIDTH * 16
"""Of every model in ``saving``: what attention saves, the network behind it gets."""

WAYS = ("mean", "first")
"""How several heads of keys become one: their mean, or the first of them."""
MORE_STEPS = 75
"""Steps of ``sharing``: 5 % of those the writer was trained for."""


class Asker(nn.Module):
    """Attention, and behind it nothing, a network, or a second layer of the same attention.

    Shapes of a call: x (B, T, C); returns (B, T, C).
    """

    def __init__(self, arm: str, attention: Callable[..., Any]) -> None:
        super().__init__()
        width, heads, behind = ASKING[arm]
        self.look, self.behind = attention(width, heads), behind
        self.again = attention(width, heads) if behind == "layer" else None
        if behind == "network":
            up, down = nn.Linear(width, 64), nn.Linear(64, width)
            self.think: nn.Module = nn.Sequential(up, nn.ReLU(), down)
        else:
            self.think = nn.Linear(width, width) if behind else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """What each person takes to be its answers, in the first numbers."""
        found, _ = self.look(x)
        if self.again is not None:
            found = x + found
            found = found + self.again(found)[0]
        return self.think(found)


class FewerHeads(nn.Module):
    """Multi-head attention with heads of 6 numbers that need not fill the width."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (
            nn.Linear(WIDTH, HEAD * heads, bias=False) for _ in range(3)
        )
        self.output = nn.Linear(HEAD * heads, WIDTH, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """As ``MultiHeadAttention``. Shapes: x (B, T, C); returns (B, T, C), (B, H, T, T)."""
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, HEAD)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        weights = (q @ k.mT / HEAD**0.5).softmax(dim=-1)
        return self.output((weights @ v).transpose(1, 2).flatten(2)), weights


class Saver(nn.Module):
    """Attention that keeps little, and a network that gets the parameters it saves.

    Args:
        arm: a key of SAVING.
        shared, latent: classes as ``GroupedQueryAttention`` and ``LatentAttention``.

    Shapes of a call: x (B, T, C); returns (B, T, C).
    """

    def __init__(self, arm: str, shared: Callable[..., Any], latent: Callable[..., Any]) -> None:
        super().__init__()
        kind, size = SAVING[arm]
        if kind == SHARED:
            self.look = shared(WIDTH, HEADS, size)
        else:
            self.look = FewerHeads(size) if kind == FEWER else latent(WIDTH, HEADS, size)
        hidden = (PARAMETERS - sum(p.numel() for p in self.look.parameters())) // (2 * WIDTH)
        self.up = nn.Linear(WIDTH, hidden, bias=False)
        self.down = nn.Linear(hidden, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """What each person takes to be its answers, in the first numbers."""
        found, _ = self.look(x)
        return found + self.down(functional.relu(self.up(found)))


def kept(arm: str) -> int:
    """Numbers kept of a token by an arm of ``saving``."""
    kind, size = SAVING[arm]
    return size if kind == LATENT else 2 * HEAD * size


@lru_cache(maxsize=8)
def rows(seed: int, batch: int, width: int = WIDTH, asked: str = BOTH) -> TwoRelations:
    """Rows of people; with symbols, each says one of four instead of four numbers."""
    made = two_relations(seed, batch, width)
    if asked != SYMBOLS:
        return made
    x, where = made.x.clone(), slice(FEATURES - VALUES, FEATURES)
    x[..., where] = functional.one_hot(x[..., where].argmax(-1), VALUES).float()
    return TwoRelations(x, made.answers, made.places, made.names)


def loss_of(output: Tensor, answers: Tensor, asked: str) -> Tensor:
    """Mean squared error; of symbols, cross-entropy. Shapes: (B, T, C), (B, T, 2, VALUES)."""
    wanted = answers[:, :, :1] if asked == ONE else answers
    guess = output[..., : wanted[0, 0].numel()].unflatten(-1, wanted.shape[2:])
    if asked == SYMBOLS:
        return functional.cross_entropy(guess.flatten(0, 2), wanted.argmax(-1).flatten())
    return (guess - wanted).square().mean()


@torch.no_grad()
def error_of(model: nn.Module, asked: str, width: int = WIDTH, seed: int = TEST) -> float:
    """Error on unseen rows: mean squared; of symbols, the share that is wrong."""
    unseen = rows(seed, 512, width, asked)
    output = model(unseen.x)
    if asked != SYMBOLS:
        return float(loss_of(output, unseen.answers, asked))
    guess = output[..., : 2 * VALUES].unflatten(-1, (2, VALUES)).argmax(-1)
    return float((guess != unseen.answers.argmax(-1)).float().mean())


def train(
    build: Callable[[], nn.Module],
    rate: float,
    seed: int,
    steps: int,
    asked: str = BOTH,
    width: int = WIDTH,
    *,
    total: int | None = None,
) -> tuple[nn.Module, list[float]]:
    """Train a fresh model with Adam on rows of its seed; return it and the loss of each step.

    Args:
        total: steps that rows are drawn for, where a run is to be the beginning of a longer one.
    """
    torch.manual_seed(seed)
    model = build()
    data = rows(seed, BATCH * (total or steps), width, asked)

    def loss(step: int) -> Tensor:
        some = slice(step * BATCH, (step + 1) * BATCH)
        return loss_of(model(data.x[some]), data.answers[some], asked)

    return model, fit(model.parameters(), loss, steps=steps, rate=rate, progress=False)


def share(writer: nn.Module, kv_heads: int, how: str, attention: Callable[..., Any]) -> nn.Module:
    """Give every block of chapter 07's writer fewer heads of keys and values, in place.

    Args:
        writer: ``deep_stack.Deep`` with its trained weights.
        kv_heads: G, a divisor of its heads.
        how: "mean" of the heads that become one, or the "first" of them.
        attention: a class as ``GroupedQueryAttention``.

    Returns:
        the same model.
    """
    blocks: Any = writer.blocks
    for block in blocks:
        old = block.attention
        width = old.query.weight.shape[0]
        state = {name: value.detach() for name, value in old.state_dict().items()}
        for name in ("key.weight", "value.weight"):
            groups = state[name].reshape(kv_heads, old.heads // kv_heads, -1, width)
            one = groups.mean(dim=1) if how == "mean" else groups[:, 0]
            state[name] = one.reshape(-1, width)
        new = attention(width, old.heads, kv_heads)
        new.load_state_dict(state)
        block.attention = new
    return writer


@cache
def table() -> dict[str, Any]:
    """The five tables, by name, then by arm: tuning, best rate, and the runs of five seeds."""
    return json.loads(TABLE.read_text(encoding="utf-8"))


def surgery(kv_heads: int) -> dict[str, Tensor]:
    """State of the picture's ``GroupedQueryAttention(48, 8, kv_heads)``, in float32."""
    with np.load(WEIGHTS) as stored:
        names = [name for name in stored.files if name.startswith(f"{kv_heads}.")]
        return {n.partition(".")[2]: torch.from_numpy(stored[n].astype(np.float32)) for n in names}


def writer(attention: Callable[..., Any] | None = None) -> deep.Deep:
    """Chapter 07's trained writer, 4 blocks of 4 heads, with `attention` in its blocks."""
    model = deep.Deep(**deep.WRITER)
    model.load_state_dict(deep.words())
    blocks: Any = model.blocks
    for block in blocks:
        if attention is not None:
            state = block.attention.state_dict()
            block.attention = attention(deep.WRITER["width"], deep.WRITER["heads"])
            block.attention.load_state_dict(state)
    return model
