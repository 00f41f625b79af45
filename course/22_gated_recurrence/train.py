"""Make what chapter 22 ships: the table of five arms, and the model that writes documentation.

    python course/22_gated_recurrence/train.py arms     # → course/attend/data/gated_arms.json
    python course/22_gated_recurrence/train.py words    # → course/attend/data/gated_words.npz
    python course/22_gated_recurrence/train.py near     # prints what window and bias do

All run on one thread of a CPU. The arms differ only in what mixes tokens:

    sum                linear attention without decay (chapter 15)
    fixed decays       one decay for each row of the memory, trained, the same for all tokens
    gated              gated linear attention: the same decays, but from the token
    softmax, cache     softmax over the last tokens, as many as fit into the same bytes
    softmax, all       softmax over all tokens: the control, which keeps more

Both softmaxes have a learned bias for each distance. Each arm tries every rate of RATES on the
seeds of TUNING; the best mean on the first half of the held-out text is then run on SEEDS, which
are read on the second half.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from attend.data import gated_words, mamba_words
from torch import Tensor, nn
from torch.nn import functional

ARMS = ("sum", "fixed decays", "gated", "softmax, cache", "softmax, all")
RATES = (0.012, 0.036, 0.108, 0.324)
TUNING, SEEDS = (100,), (0, 1, 2, 3, 4)
TRAINED, LENGTHS = 128, (128, 1024)
"""Tokens in a training text; in the texts that are read."""
WIDTH, HEADS, STEPS, EXAMPLES = 32, 2, 400, 16
EVERY = 20
"""Steps between two entries of a curve."""
CHUNK = 16


def in_chunks(q: Tensor, k: Tensor, v: Tensor, gates: Tensor) -> Tensor:
    """Gated linear attention, (..., T, D) each: the answer's chunks, all of them side by side."""
    q, k, v, gates = (x.unflatten(-2, (-1, CHUNK)) for x in (q, k, v, gates))
    total = gates.cumsum(-2)
    between = (total[..., :, None, :] - total[..., None, :, :]).clamp(max=0.0)
    weights = torch.einsum("...td,...sd,...tsd->...ts", q, k, between.exp()).tril()
    last = total[..., -1:, :]
    written = (k * (last - total).exp()).mT @ v
    state, states = torch.zeros_like(written[..., 0, :, :]), []
    for place in range(written.shape[-3]):
        states.append(state)
        state = last[..., place, :, :].exp().mT * state + written[..., place, :, :]
    return ((q * total.exp()) @ torch.stack(states, -3) + weights @ v).flatten(-3, -2)


class Layer(nn.Module):
    """Token shift, mixer, MLP; the parameters are those of ``attend.data.gated_words.read``."""

    queries: nn.Parameter
    keys: nn.Parameter
    values: nn.Parameter
    open: nn.Parameter
    output: nn.Parameter
    gates: nn.Parameter

    def __init__(self, arm: str, width: int, heads: int) -> None:
        super().__init__()
        self.arm, self.heads = arm, heads
        self.norm, self.norm_2 = (nn.Parameter(torch.ones(width)) for _ in range(2))
        self.mix = nn.Parameter(torch.full((width,), 0.5))
        names = ("queries", "keys", "values", "open", "output")
        for name in (*names, "gates") if arm == "gated" else names:
            self.register_parameter(name, nn.Parameter(torch.randn(width, width) / width**0.5))
        self.up = nn.Parameter(torch.randn(width, 2 * width) / width**0.5)
        self.down = nn.Parameter(torch.randn(2 * width, width) / (2 * width) ** 0.5)
        if arm in ("gated", "fixed decays"):
            self.gates_bias = nn.Parameter(torch.linspace(-2, 4, width))
        if arm.startswith("softmax"):
            self.bias = nn.Parameter(torch.zeros(heads, TRAINED))
        depth = width // heads
        self.window = TRAINED * 64 if arm == "softmax, all" else depth // 2  # D² = window · 2 D

    def mixed(self, q: Tensor, k: Tensor, v: Tensor, shifted: Tensor) -> Tensor:
        """Mix tokens: (B, heads, T, D) each."""
        if self.arm.startswith("softmax"):
            place = torch.arange(q.shape[-2])
            age = place[:, None] - place
            scores = q @ k.mT + self.bias[:, age.clamp(0, TRAINED - 1)]
            hidden = (age < 0) | (age >= self.window)
            return scores.masked_fill(hidden, -math.inf).softmax(-1) @ v
        gates = torch.zeros_like(q)
        if self.arm != "sum":
            raw = self.gates_bias.expand_as(shifted)
            raw = raw + shifted @ self.gates if self.arm == "gated" else raw
            gates = self.split(functional.logsigmoid(raw) / gated_words.SOFTENED)
        return in_chunks(q, k, v, gates)

    def split(self, x: Tensor) -> Tensor:
        """(B, T, C) to (B, heads, T, D)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, C) -> (B, T, C)."""
        normed = root_mean_square(x) * self.norm
        before = functional.pad(normed, (0, 0, 1, -1))
        shifted = self.mix * normed + (1 - self.mix) * before
        q, k, v = (self.split(shifted @ w) for w in (self.queries, self.keys, self.values))
        mixed = self.mixed(q / q.shape[-1] ** 0.5, k, v, shifted)
        joined = root_mean_square(mixed).transpose(1, 2).flatten(2)
        x = x + (joined * functional.silu(normed @ self.open)) @ self.output
        return x + functional.silu((root_mean_square(x) * self.norm_2) @ self.up) @ self.down


def root_mean_square(x: Tensor) -> Tensor:
    """Divide by the root mean square of the last axis."""
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()


class Model(nn.Module):
    """Embedding, two layers, norm, head."""

    def __init__(self, arm: str, width: int = WIDTH, heads: int = HEADS) -> None:
        super().__init__()
        letters = len(gated_words.ALPHABET)
        self.embedding = nn.Parameter(torch.randn(letters, width))
        self.layers = nn.ModuleList(Layer(arm, width, heads) for _ in range(gated_words.LAYERS))
        self.norm = nn.Parameter(torch.ones(width))
        self.head = nn.Parameter(torch.randn(width, letters) / width**0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, T) -> scores of the next character, (B, T, 96)."""
        x = self.embedding[tokens]
        for layer in self.layers:
            x = layer(x)
        return (root_mean_square(x) * self.norm) @ self.head


def train(
    model: Model, rate: float, seed: int, steps: int, examples: int, stop: int | None = None
) -> list[float]:
    """Adam, warmed up over 50 steps, then a cosine to 0 at ``steps``; loss by step, in nats."""
    read = torch.from_numpy(gated_words.text()[0])
    stream = torch.Generator().manual_seed(1000 + seed)
    optimizer = torch.optim.Adam(model.parameters(), rate, betas=(0.9, 0.99))
    losses = []
    for step in range(steps if stop is None else stop):
        pace = min(1.0, (step + 1) / 50) * 0.5 * (1 + math.cos(math.pi * step / steps))
        optimizer.param_groups[0]["lr"] = rate * pace
        starts = torch.randint(len(read) - TRAINED - 1, (examples,), generator=stream)
        rows = read[starts[:, None] + torch.arange(TRAINED + 1)]
        loss = functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step % 200 == 0:
            print(f"step {step}: {losses[-1]:.3f}", flush=True)
    return losses


@torch.no_grad()
def bits(model: Model, length: int, half: int) -> float:
    """Bits a character on one half of the held-out text, cut into rows of a length."""
    unseen = torch.from_numpy(gated_words.text()[1]).chunk(2)[half]
    rows = unseen[: (len(unseen) - 1) // 1024 * 1024]
    nexts = unseen[1 : len(rows) + 1].view(-1, length)
    found = [
        functional.cross_entropy(model(row).flatten(0, 1), following.flatten())
        for row, following in zip(rows.view(-1, length).split(8), nexts.split(8), strict=True)
    ]
    return float(torch.stack(found).mean()) / math.log(2)


def run(arm: str, rate: float, seed: int, stop: int | None = None) -> tuple[Model, list[float]]:
    """Train one small model."""
    torch.manual_seed(seed)
    model = Model(arm)
    return model, train(model, rate, seed, STEPS, EXAMPLES, stop)


def arm_row(arm: str) -> dict[str, Any]:
    """Tune one arm, and train it on the seeds that were not tuned on."""
    tuning = {
        str(rate): [bits(run(arm, rate, seed)[0], TRAINED, 0) for seed in TUNING] for rate in RATES
    }
    rate = float(min(tuning, key=lambda name: sum(tuning[name])))
    pairs = [run(arm, rate, seed) for seed in SEEDS]
    return {
        "numbers": sum(p.numel() for p in pairs[0][0].parameters()),
        "tuning": tuning,
        "rate": rate,
        "losses": [[round(loss, 5) for loss in losses[::EVERY]] for _, losses in pairs],
        "bits": {str(n): [round(bits(model, n, 1), 4) for model, _ in pairs] for n in LENGTHS},
    }


def counted() -> dict[str, list[float]]:
    """The baseline: bits a character by a table of what followed each four letters (chapter 24)."""
    read, unseen = (torch.from_numpy(part) for part in gated_words.text())
    unseen = unseen.chunk(2)[1]
    rows = (len(unseen) - 1) // 1024 * 1024
    return {
        str(n): [round(float(mamba_words.table_bits(read, unseen[:rows].view(-1, n)).mean()), 4)]
        for n in LENGTHS
    }


def arms(only: Sequence[str]) -> None:
    """Write the table; with arguments, only the rows of these arms are made anew."""
    for arm in only or (*ARMS, gated_words.COUNTS):
        row = {"bits": counted()} if arm == gated_words.COUNTS else arm_row(arm)
        made = json.loads(gated_words.TABLE.read_text()) if gated_words.TABLE.is_file() else {}
        made[arm] = row
        gated_words.TABLE.write_text(json.dumps(made, indent=1) + "\n")
        print(arm, row.get("rate"), row["bits"], flush=True)


BETWEEN, OTHERS = 0.06, (5, 6, 7, 8, 9)
"""A rate between those of the table, and seeds that it does not use."""


def near() -> None:
    """Print bits at 128 and 1,024 of gates, and of the cache with another window or no bias.

    And of softmax over everything, at its own rate, which then reads the last 128 tokens only.
    """
    rate = float(json.loads(gated_words.TABLE.read_text())["softmax, all"]["rate"])
    ways = {
        "gated": ("gated", BETWEEN, 0, True),
        "cache": ("softmax, cache", BETWEEN, 0, True),
        "cache of 32 tokens": ("softmax, cache", BETWEEN, 32, True),
        "cache without a bias": ("softmax, cache", BETWEEN, 0, False),
        "softmax, all": ("softmax, all", rate, 0, True),
    }
    for way, (arm, pace, window, bias) in ways.items():
        for seed in OTHERS:
            torch.manual_seed(seed)
            model = Model(arm)
            layers: list[Any] = list(model.layers)
            for layer in layers:
                layer.window = window or layer.window
                if arm != "gated":
                    layer.bias.requires_grad_(bias)
            train(model, pace, seed, STEPS, EXAMPLES)
            found = [bits(model, length, 1) for length in LENGTHS]
            if way == "softmax, all":
                for layer in layers:
                    layer.window = TRAINED
                found.append(bits(model, LENGTHS[-1], 1))
            print(way, seed, *(f"{each:.3f}" for each in found), flush=True)


WORDS_WIDTH, WORDS_STEPS, WORDS_EXAMPLES, WORDS_RATE = 64, 1500, 16, 0.006


def words(stop: int | None = None) -> list[float]:
    """Train the model that writes documentation, and write its weights in half precision."""
    torch.manual_seed(0)
    model = Model("gated", WORDS_WIDTH, gated_words.HEADS)
    losses = train(model, WORDS_RATE, 0, WORDS_STEPS, WORDS_EXAMPLES, stop)
    if stop is not None:
        return losses
    print(f"held out: {bits(model, 1024, 1):.3f} bits a character", flush=True)
    stored = {
        name.removeprefix("layers."): value.detach().half().numpy()
        for name, value in model.named_parameters()
    }
    curve = np.array(losses[::EVERY], dtype=np.float32)
    np.savez_compressed(gated_words.WEIGHTS, curve=curve, **stored)  # type: ignore[arg-type]
    return losses


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:] == ["words"]:
        words()
    elif sys.argv[1:2] == ["arms"]:
        arms(sys.argv[2:])
    elif sys.argv[1:] == ["near"]:
        near()
    else:
        sys.exit(__doc__)
