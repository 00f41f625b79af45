"""Small models that differ in how they know positions: trained at 64 tokens, read up to 1,024.

Nine arms and three tasks (``attend.data.reading``), how one model is trained and examined, and
the table of what came out, which ``python course/06_positions/train.py arms`` makes. All arms have
two layers and the same targets at every length: the last ``ASKED`` tokens of texts of 1,024, read
with the last 32, 64, … 1,024 tokens before them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from attend.data import reading
from attend.training import fit

BASES = (10, 100, 10_000)
ROPE = {f"RoPE, base {base:,}": base for base in BASES}
ARMS = (
    "none",
    "sinusoidal",
    "learned",
    "T5",
    "ALiBi, published slopes",
    "ALiBi, slopes 1 and 1/2",
    *ROPE,
)
PLAIN = "RoPE, base 10,000"
FAR = 32
"""T5's largest distance here: training at 64 reaches every bucket that can be used."""
STEEP = torch.tensor([1.0, 0.5])
WIDTH, HEADS, LAYERS, TRAINED, LONGEST = 32, 2, 2, 64, 1024
D = WIDTH // HEADS
LENGTHS = (64, 128, 256, 512, 1024)
TEXTS, ASKED = 32, 32
"""Texts of an exam, and tokens scored in each."""
TASKS: dict[str, tuple[Callable[..., Any], int, int]] = {
    "letters": (reading.letters, len(reading.ALPHABET), 250),
    "three steps back": (reading.steps_back, reading.TOKENS, 300),
    "bags": (reading.bags, reading.TOKENS, 120),
}
"""Task: what draws its texts, how many kinds of tokens, and how many steps of training."""
WAYS = ("as it was", "PI", "NTK", "YaRN")
BETA = 8.0
"""YaRN's β here: within 64 tokens the fastest pair makes 10 turns, so none would reach 32."""
TABLE = Path(__file__).with_suffix(".json")

Place = Callable[[int], tuple[Tensor, Tensor, float]]
"""From a text's length to positions (T,), frequencies (D/2,) and a factor of queries and keys."""
Answers = Mapping[str, Any]


def one_of(own: Answers | None, name: str) -> Any:
    """The function of this name: from ``own``, or else the course's."""
    if own is not None and name in own:
        return own[name]
    from attend_solutions import longer_positions, positions  # not where submissions are graded

    return vars(positions).get(name) or vars(longer_positions)[name]


class Reader(nn.Module):
    """Two layers of causal attention and a small network, with one way to know positions.

    Args:
        arm: one of ARMS.
        tokens: V, kinds of tokens.
        own: functions by the names of chapter 06's exercises, such as a learner's; where one is
            missing, the course's own is used.

    Shapes of a call:
        tokens: (B, T); place: where RoPE's queries and keys stand, ``as_trained`` by default
        returns: scores of what comes next (B, T, V)

    Raises:
        ValueError: no such arm.
    """

    def __init__(self, arm: str, tokens: int, own: Answers | None = None) -> None:
        super().__init__()
        if arm not in ARMS:
            raise ValueError(f"arm must be one of {', '.join(ARMS)}; got {arm!r}.")
        self.arm, self.own = arm, own
        self.embed = nn.Embedding(tokens, WIDTH)
        nn.init.normal_(self.embed.weight, std=0.5)
        self.layers = nn.ModuleList(_Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, tokens)
        if arm == "learned":
            self.rows = one_of(own, "LearnedPositions")(LONGEST, WIDTH)
            nn.init.normal_(self.rows.table, std=0.5)  # as large as the tokens, as in BERT
        if arm == "T5":
            self.table = nn.Parameter(torch.zeros(32, HEADS))  # one for all layers, as in T5

    def bias(self, length: int) -> Tensor | None:
        """What is added to the scores (H, T, T), −inf for keys ahead; None for a plain mask."""
        where = torch.arange(length)
        if self.arm.startswith("ALiBi"):
            steep = self.arm.endswith("1/2")
            slopes = STEEP if steep else one_of(self.own, "alibi_slopes")(HEADS)
            found = one_of(self.own, "alibi_bias")(slopes, where, where)
        elif self.arm == "T5":
            relative = where - where[:, None]
            found = one_of(self.own, "relative_bias")(self.table, relative, False, FAR)
        else:
            return None
        return found + torch.full((length, length), -math.inf).triu(1)

    def turned(self, place: Place | None) -> Callable[[Tensor, int], Tensor]:
        """What is done to queries and keys (B, H, T, D) of a text."""
        if self.arm not in ROPE:
            return lambda x, length: x
        at = place or as_trained(ROPE[self.arm])

        def turn(x: Tensor, length: int) -> Tensor:
            where, frequencies, factor = at(length)
            return factor * one_of(self.own, "apply_rope")(x, where, frequencies)

        return turn

    def forward(self, tokens: Tensor, place: Place | None = None) -> Tensor:
        """Scores of the next token after each."""
        length = tokens.shape[1]
        x = self.embed(tokens)  # (B, T, C)
        if self.arm == "learned":
            x = self.rows(x)
        if self.arm == "sinusoidal":
            x = x + one_of(self.own, "sinusoidal_encoding")(torch.arange(length), WIDTH)
        bias, turn = self.bias(length), self.turned(place)
        for layer in self.layers:
            x = layer(x, bias, lambda y: turn(y, length))
        return self.head(self.norm(x))


class _Layer(nn.Module):
    """Attention and a small network, each added to what went in."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(WIDTH, 3 * WIDTH, bias=False)  # queries, keys, values
        self.merge = nn.Linear(WIDTH, WIDTH, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(2))
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def heads(self, x: Tensor) -> Tensor:
        """Queries, keys and values: (3, B, H, T, D)."""
        split = self.project(self.norms[0](x)).unflatten(-1, (3, HEADS, D))
        return split.permute(2, 0, 3, 1, 4)

    def forward(self, x: Tensor, bias: Tensor | None, turn: Callable[[Tensor], Tensor]) -> Tensor:
        """The stream after this layer. Shapes: (B, T, C) both."""
        q, k, v = self.heads(x)
        found = functional.scaled_dot_product_attention(
            turn(q), turn(k), v, attn_mask=bias, is_causal=bias is None
        )
        x = x + self.merge(found.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norms[1](x))))


def as_trained(base: float) -> Place:
    """RoPE as it was trained: whole positions, frequencies of this base."""
    frequencies = base ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)
    return lambda length: (torch.arange(length), frequencies, 1.0)


def stretched(way: str, base: float, own: Answers | None = None) -> Place:
    """RoPE in one of WAYS, by a text's length over the trained one."""
    plain = as_trained(base)

    def place(length: int) -> tuple[Tensor, Tensor, float]:
        where, frequencies, one = plain(length)
        by = max(1.0, length / TRAINED)
        if way == "PI":
            squeeze = one_of(own, "position_interpolation")
            return squeeze(where, TRAINED, round(by * TRAINED)), frequencies, one
        if way == "NTK":
            return as_trained(one_of(own, "ntk_scale")(D, base, by))(length)
        if way == "YaRN":
            slow = one_of(own, "yarn_frequencies")
            return where, *slow(D, base, by, TRAINED, beta=BETA)
        return where, frequencies, one

    return place


def loss_of(scores: Tensor, targets: Tensor) -> Tensor:
    """Mean loss in nats over all tokens that have an answer."""
    return functional.cross_entropy(scores.flatten(0, 1), targets.flatten())


def draw(task: str, rng: np.random.Generator, texts: int, length: int, **more: Any) -> Any:
    """Tokens and targets (texts, length) of a task, as tensors."""
    return tuple(torch.from_numpy(part) for part in TASKS[task][0](rng, texts, length, **more))


@cache
def exam(task: str, tuning: bool = False) -> tuple[Tensor, Tensor]:
    """Texts of LONGEST tokens and what is asked in them; others for tuning than for the table."""
    rng = np.random.default_rng([6, 2_000 if tuning else 1_000])
    half = (0.0, 0.5) if tuning else (0.5, 1.0)
    more = {"held_out": True, "between": half} if task == "letters" else {}
    return draw(task, rng, TEXTS, LONGEST, **more)


@torch.no_grad()
def examine(
    model: nn.Module,
    task: str,
    lengths: tuple[int, ...] = LENGTHS,
    place: Place | None = None,
    tuning: bool = False,
) -> dict[int, tuple[float, float]]:
    """Loss in nats and share of right answers at each length; always of the same targets."""
    tokens, targets = exam(task, tuning)
    asked, found = targets[:, -ASKED:], {}
    for length in lengths:
        parts = tokens[:, -length:].split(16)  # all at once would not fit the processor's cache
        scores = torch.cat([model(part, place)[:, -ASKED:] for part in parts])
        right = (scores.argmax(dim=-1) == asked).float().mean()
        found[length] = float(loss_of(scores, asked)), float(right)
    return found


def train(
    arm: str,
    task: str,
    rate: float,
    seed: int,
    *,
    steps: int | None = None,
    own: Answers | None = None,
    progress: bool = False,
) -> tuple[Reader, list[float]]:
    """Train one arm on texts of 64 tokens: Adam, the rate warmed up, then falling to 0 in a line.

    Returns:
        the model, and the loss of every step; ``steps`` cuts the training short.
    """
    _, tokens, whole = TASKS[task]
    torch.manual_seed(600 + seed)
    rng = np.random.default_rng([6, seed])
    model = Reader(arm, tokens, own)

    def loss(step: int) -> Tensor:
        text, targets = draw(task, rng, 8, TRAINED)
        return loss_of(model(text), targets)

    def pace(step: int) -> float:
        return rate * min(1.0, (step + 1) / 20) * (1 - step / whole)

    losses = fit(model.parameters(), loss, steps=steps or whole, rate=pace, progress=progress)
    return model, losses


@cache
def table() -> dict[str, Any]:
    """What ``train.py`` found, by task and arm; of RoPE that reads letters, also by way."""
    return json.loads(TABLE.read_text(encoding="utf-8"))
