"""Deep stacks of chapter 07's block that read Python's documentation, a character at a time.

Seven ways to stack the same blocks ("arms"), how one is trained, and the table of what came out,
which ``python course/07_block/depth.py arms`` makes. All arms have the same tables, the same last
norm and the same output layer, so they differ between the tables and the last norm only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from attend.data.mamba_words import ALPHABET, text
from attend.training import fit

NOTHING, LARGE, RESIDUAL, SMALL, POST, POST_SMALL, PRE = (
    "nothing",
    "nothing, large start",
    "residual",
    "residual, small start",
    "post-norm",
    "post-norm, small start",
    "pre-norm",
)
ARMS = (NOTHING, LARGE, RESIDUAL, SMALL, POST, POST_SMALL, PRE)
NORMED = (POST, POST_SMALL, PRE)
"""Arms with norms in their blocks."""
DEEP, WIDTH, HEADS, TOKENS, EXAMPLES = 24, 24, 2, 16, 8
STEPS, WARM_UP = 120, 40
EVERY = 10
"""Steps between two entries of a curve in the table."""
GELU_GAIN = 1.533
"""1/√E[GELU(u)²] of a standard normal u: what a large start makes up for."""
TABLE = Path(__file__).with_name("block_arms.json")
WEIGHTS = Path(__file__).with_name("block_words.npz")
WRITER: dict[str, Any] = {
    "arm": PRE, "layers": 4, "width": 48, "heads": 4, "tokens": 128, "norm": "rms", "kind": "swiglu"
}  # fmt: skip
"""What the model is built with that ships with its weights."""


class Deep(nn.Module):
    """Tables of characters and places, then blocks, a norm, and a score for each character.

    Args:
        arm: one of ARMS.
        layers: L.
        block: a class with the arguments of ``TransformerBlock``, such as the learner's; chapter
            07's answer where it is left out, and likewise the start.
        start: a function with the arguments of ``residual_init``, for "small start". A "large
            start" keeps the size of the stream without any norm or residual connection.
        width, heads, tokens: C, H and the longest text.
        norm, kind: of the blocks.

    Shapes of a call:
        tokens: (B, T), numbers in ALPHABET
        returns: scores (B, T, V)

    Raises:
        ValueError: no such arm.
    """

    def __init__(
        self,
        arm: str,
        layers: int = DEEP,
        block: Callable[..., Any] | None = None,
        start: Callable[..., Any] | None = None,
        *,
        width: int = WIDTH,
        heads: int = HEADS,
        tokens: int = TOKENS,
        norm: str = "layer",
        kind: str = "gelu",
    ) -> None:
        super().__init__()
        if arm not in ARMS:
            raise ValueError(f"arm must be one of {', '.join(ARMS)}; got {arm!r}.")
        if block is None or start is None:
            from attend_solutions import block as answers  # not where submissions are graded

            block, start = block or answers.TransformerBlock, start or answers.residual_init
        self.arm = arm
        self.embedding, self.places = (
            nn.Embedding(len(ALPHABET), width),
            nn.Embedding(tokens, width),
        )
        order = "post" if arm in (POST, POST_SMALL) else "pre"
        blocks: list[Any] = [block(width, heads, order, norm, kind) for _ in range(layers)]
        self.blocks = nn.ModuleList(blocks)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, len(ALPHABET))
        for one in blocks:
            a = one.attention
            owners = (a.query, a.key, a.value, a.output, one.up, one.down)
            made = tuple(owner.weight.detach() for owner in owners)
            if arm in (SMALL, POST_SMALL):
                made = start(*made, layers)
            elif arm == LARGE:  # nn.Linear starts with variance 1/(3C); this makes it 1/C
                gains = (1.0, 1.0, 3**0.5, 3**0.5, 3**0.5, 3**0.5 * GELU_GAIN)
                made = tuple(gain * weight for gain, weight in zip(gains, made, strict=True))
            for owner, weight in zip(owners, made, strict=True):
                owner.weight = nn.Parameter(weight.clone())

    def streams(self, tokens: Tensor) -> Iterator[Tensor]:
        """The stream before the first block, and after each. Shapes: (B, T, C) each."""
        x = self.embedding(tokens) + self.places.weight[: tokens.shape[1]]
        mask = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()
        yield x
        for block in self.blocks:
            x = through(self.arm, block, x, mask)
            yield x

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of the next character after each."""
        *_, x = self.streams(tokens)
        return self.head(self.norm(x))


def through(arm: str, block: Any, x: Tensor, mask: Tensor) -> Tensor:
    """One block as ``arm`` uses it: without norms, the block's parts alone."""
    if arm in NORMED:
        return block(x, mask)
    if arm in (NOTHING, LARGE):
        return block.feed(block.attend(x, mask))
    x = x + block.attend(x, mask)
    return x + block.feed(x)


def batch(draw: torch.Generator, examples: int, tokens: int) -> tuple[Tensor, Tensor]:
    """Pieces of the text, and each character's next one. Shapes: (examples, tokens) both."""
    read, _ = text()
    starts = torch.randint(len(read) - tokens - 1, (examples,), generator=draw)
    rows = read[starts[:, None] + torch.arange(tokens + 1)]
    return rows[:, :-1], rows[:, 1:]


def loss_of(model: nn.Module, tokens: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats a character."""
    return functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())


@torch.no_grad()
def bits(model: nn.Module, tokens: int = TOKENS, pieces: int = 128) -> float:
    """Bits a character on text that no model is trained on; infinite if the model overflowed."""
    _, unseen = text()
    rows = unseen[: pieces * (tokens + 1)].view(pieces, tokens + 1)
    found = float(loss_of(model, rows[:, :-1], rows[:, 1:])) / math.log(2)
    return found if math.isfinite(found) else math.inf


def train(
    arm: str,
    rate: float,
    warm_up: bool,
    seed: int,
    layers: int = DEEP,
    *,
    steps: int = STEPS,
    **model: Any,
) -> tuple[list[float], float]:
    """Train one stack with Adam, gradients clipped to norm 1; the rate constant, or warmed up.

    Returns:
        loss of every step in nats, and bits a character on unseen text; a run that overflows stops
        and has infinite bits.
    """
    torch.manual_seed(seed)
    stack = Deep(arm, layers, **model)
    draw = torch.Generator().manual_seed(1000 + seed)
    losses: list[float] = []

    def loss(step: int) -> Tensor:
        value = loss_of(stack, *batch(draw, EXAMPLES, TOKENS))
        losses.append(value.item())
        return value

    def pace(step: int) -> float:
        return rate * min(1.0, (step + 1) / WARM_UP) if warm_up else rate

    try:
        fit(stack.parameters(), loss, steps=steps, rate=pace, progress=False)
    except FloatingPointError:
        return losses, math.inf
    return losses, bits(stack)


@cache
def table() -> dict[str, dict[str, dict[str, Any]]]:
    """By depth, arm and "warm-up" or "constant": tuning, best rate, losses and bits of each run."""
    return json.loads(TABLE.read_text(encoding="utf-8"))


@cache
def counted_bits(pairs: bool) -> float:
    """Bits a character on the same unseen text of a table of counts: the baselines.

    It is counted on as many characters as a stack is trained on, of each character after each
    (pairs) or of each alone; 0.1 is added to every count.
    """
    _, unseen = text()
    counts = torch.full((len(ALPHABET), len(ALPHABET)), 0.1)
    draw = torch.Generator().manual_seed(0)
    before, after = batch(draw, STEPS * EXAMPLES, TOKENS)
    counts.index_put_((before.flatten(), after.flatten()), torch.tensor(1.0), accumulate=True)
    if not pairs:
        counts = counts.sum(0).expand_as(counts)
    chances = counts / counts.sum(1, keepdim=True)
    rows = unseen[: 128 * (TOKENS + 1)].view(128, TOKENS + 1)
    return -float(chances[rows[:, :-1], rows[:, 1:]].log2().mean())


def words() -> dict[str, Tensor]:
    """State of the trained writer, in float32: ``Deep(**WRITER).load_state_dict(words())``."""
    with np.load(WEIGHTS) as stored:
        return {name: torch.from_numpy(stored[name].astype(np.float32)) for name in stored.files}
