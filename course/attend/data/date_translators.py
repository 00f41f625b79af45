"""Three kinds of date translator, many of them side by side, and what was measured of them.

    attention       the decoder looks back at all encoded words, by their dot product with its state
    fixed vector    it gets the encoder's two last states at every step: S = 1
    plain mean      it gets the plain mean of the encoded words at every step: S = 1

All have the same parameters. ``table`` reads what ``course/02_alignment/train.py arms`` made,
``film`` the weights of two small translators at several moments of their training, which
``train.py film`` made.

Letters: R translators side by side, each with weights of its own; B sentences; S source words; T
written words; C numbers in an embedding; N in a state and in an encoded word.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from attend.data import dates

ARMS = ("attention", "fixed vector", "plain mean")
TABLE = Path(__file__).with_suffix(".json")
FILM = Path(__file__).with_suffix(".npz")

Weights = dict[str, Tensor]
Sentences = dict[tuple[int, int], tuple[Tensor, Tensor]]


def shapes(n: int, c: int) -> dict[str, tuple[int, ...]]:
    """The parameters of one translator, in the order in which they are drawn."""

    def gru(name: str, inputs: int, states: int) -> dict[str, tuple[int, ...]]:
        sizes = ((3 * states, inputs), (3 * states, states), (3 * states,), (3 * states,))
        return {f"{name}.{place}": size for place, size in enumerate(sizes)}

    return (
        {"source_words": (len(dates.SOURCE), c), "target_words": (len(dates.TARGET), c)}
        | gru("forward", c, n // 2)
        | gru("backward", c, n // 2)
        | {"start": (n, n)}
        | gru("cell", c + n, n)
        | {"to_words": (2 * n, len(dates.TARGET))}
    )


def start(seeds: Sequence[int], n: int, c: int = 32) -> Weights:
    """Fresh weights (R, …): normal, over the root of the last length; vectors start at 0."""
    found: dict[str, list[Tensor]] = {name: [] for name in shapes(n, c)}
    for seed in seeds:
        generator = torch.Generator().manual_seed(2000 + seed)
        for name, shape in shapes(n, c).items():
            drawn = torch.randn(shape, generator=generator) / shape[-1] ** 0.5
            found[name].append(drawn if len(shape) > 1 else torch.zeros(shape))
    return {name: torch.stack(each) for name, each in found.items()}


def draw(number: int, count: int, of_dates: Sequence[int] = (1, 2, 3)) -> Sentences:
    """Sentences as tensors, by length: (S, T) → source (…, S), target (…, T)."""
    pairs = dates.sentences(np.random.default_rng([2, number]), count, of_dates)
    return {
        key: (torch.from_numpy(source), torch.from_numpy(target))
        for key, (source, target) in dates.by_length(pairs).items()
    }


def without(sentences: Sentences, seen: Sentences) -> Sentences:
    """The sentences that are not among those seen; lengths of which none is left are dropped."""
    found = {}
    for key, (source, target) in sentences.items():
        known = {tuple(row) for row in seen[key][0].tolist()} if key in seen else set()
        new = torch.tensor([tuple(row) not in known for row in source.tolist()])
        if new.any():
            found[key] = (source[new], target[new])
    return found


@cache
def data() -> tuple[Sentences, Sentences, Sentences]:
    """10,000 sentences to train on; 1,000 to choose a rate by; 1,000 to test on, all new."""
    seen = draw(100, 10_000)
    return seen, without(draw(102, 1_000), seen), without(draw(101, 1_000), seen)


def _look_up(table: Tensor, words: Tensor) -> Tensor:
    """Rows of each translator's table (R, V, C). Shapes: words (R, B, …); returns (R, B, …, C)."""
    runs = torch.arange(len(table)).view(-1, *(1,) * (words.ndim - 1))
    return table[runs, words]


def _gru(given: Tensor, h: Tensor, weights: Weights, name: str) -> Tensor:
    """One step of each GRU; ``given`` (R, B, 3N) is the input's part, its bias included."""
    n = h.shape[-1]
    kept = torch.baddbmm(weights[f"{name}.3"][:, None], h, weights[f"{name}.1"].mT)
    gates = torch.sigmoid(given[..., : 2 * n] + kept[..., : 2 * n])
    new = torch.tanh(given[..., 2 * n :] + gates[..., :n] * kept[..., 2 * n :])
    return torch.lerp(new, h, gates[..., n:])


def read(arm: str, weights: Weights, source: Tensor) -> tuple[Tensor, Tensor]:
    """Source words (R, B, S) → what may be looked at (R, B, S or 1, N), first state (R, B, N)."""
    x = _look_up(weights["source_words"], source)
    r, b, s, c = x.shape
    sides = []
    for name, places in (("forward", range(s)), ("backward", range(s - 1, -1, -1))):
        w = weights[f"{name}.0"].mT
        given = torch.baddbmm(weights[f"{name}.2"][:, None], x.reshape(r, b * s, c), w)
        parts, h = given.view(r, b, s, -1).unbind(2), x.new_zeros(r, b, w.shape[-1] // 3)
        states: list[Tensor] = [h] * s
        for place in places:
            states[place] = h = _gru(parts[place], h, weights, name)
        sides.append(states)
    ends = torch.cat([sides[0][-1], sides[1][0]], dim=-1)
    if arm == "fixed vector":
        seen = ends[:, :, None]
    else:
        seen = torch.cat([torch.stack(side, dim=2) for side in sides], dim=-1)
        seen = seen.mean(dim=2, keepdim=True) if arm == "plain mean" else seen
    return seen, torch.tanh(ends @ weights["start"])


def step(latest: Tensor, state: Tensor, seen: Tensor, weights: Weights) -> tuple[Tensor, ...]:
    """One step: latest word (R, B, C), state (R, B, N) → state, context (R, B, N), weights."""
    scores = (seen @ state[..., None])[..., 0]
    looked = torch.softmax(scores, dim=-1)  # (R, B, S)
    context = (looked[:, :, None] @ seen)[:, :, 0]
    both = torch.cat([latest, context], dim=-1)
    given = torch.baddbmm(weights["cell.2"][:, None], both, weights["cell.0"].mT)
    return _gru(given, state, weights, "cell"), context, looked


def loss(arm: str, weights: Weights, source: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of the right words, each given the right words before it: (R,)."""
    seen, state = read(arm, weights, source)
    before = functional.pad(target[..., :-1], (1, 0))  # word 0 is start
    latest, told = _look_up(weights["target_words"], before), []
    for t in range(target.shape[-1]):
        state, context, _ = step(latest[:, :, t], state, seen, weights)
        told.append(torch.cat([state, context], dim=-1))
    scores = torch.stack(told, dim=2).flatten(1, 2) @ weights["to_words"]  # (R, B T, V)
    every = functional.cross_entropy(scores.flatten(0, 1), target.flatten(), reduction="none")
    return every.view(len(target), -1).mean(dim=1)


@torch.no_grad()
def write(
    arm: str, weights: Weights, source: Tensor, length: int, allowed: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """What each writes by itself, (R, B, T), and its weights (R, B, T, S or 1).

    ``allowed`` (S,) says at which places the decoder may look; the encoder reads all.
    """
    seen, state = read(arm, weights, source)
    seen = seen if allowed is None or arm != "attention" else seen[:, :, allowed]
    word, words, looked = torch.zeros_like(source[..., 0]), [], []
    for _ in range(length):
        latest = _look_up(weights["target_words"], word)
        state, context, where = step(latest, state, seen, weights)
        word = (torch.cat([state, context], dim=-1) @ weights["to_words"]).argmax(dim=-1)
        words.append(word)
        looked.append(where)
    return torch.stack(words, dim=2), torch.stack(looked, dim=2)


def translate(
    arm: str, weights: Weights, words: Sequence[str], hidden: Sequence[int] = (), longest: int = 13
) -> tuple[list[str], np.ndarray]:
    """What one translator (R = 1) writes, and where it looked, (T, S); 0 at hidden places."""
    source = torch.tensor(dates.source_numbers(words))[None, None]
    allowed = torch.tensor([place not in hidden for place in range(len(words))])
    written, looked = write(arm, weights, source, longest, allowed)
    target = [dates.TARGET[number] for number in written[0, 0].tolist()]
    length = target.index(dates.END) + 1 if dates.END in target else longest
    where = np.zeros((length, len(words)))
    if arm == "attention":
        where[:, allowed.numpy()] = looked[0, 0, :length].numpy()
    return target[:length], where


@dataclass(frozen=True)
class Frame:
    """Two translators at one moment of their training."""

    step: int
    attention: Weights
    fixed: Weights


def pack(weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    """Weights of one translator (R = 1) in 8 bits a number; each row has a scale of its own."""
    numbers, scales = [], []
    for value in weights.values():
        rows = value[0].detach().numpy()
        scale = (np.abs(rows).max(axis=-1, keepdims=True) / 127).clip(1e-6).astype(np.float16)
        numbers.append(np.round(rows / scale).clip(-127, 127).astype(np.int8).ravel())
        scales.append(scale.ravel())
    return np.concatenate(numbers), np.concatenate(scales)


def unpack(numbers: np.ndarray, scales: np.ndarray, n: int, c: int) -> Weights:
    """Undo ``pack``, up to rounding: (1, …)."""
    found, at, row = {}, 0, 0
    for name, shape in shapes(n, c).items():
        size, count = math.prod(shape), math.prod(shape[:-1])
        rows = numbers[at : at + size].reshape(shape).astype(np.float32)
        scale = scales[row : row + count].astype(np.float32).reshape(*shape[:-1], 1)
        found[name] = torch.from_numpy(rows * scale)[None]
        at, row = at + size, row + count
    return found


def looped(step: Callable[..., tuple[Tensor, ...]]) -> Callable[..., tuple[Tensor, ...]]:
    """A decoder that calls ``step`` once for each word, with the state that it returned last."""

    def step_by_step(embedded: Tensor, state: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        found = []
        for latest in embedded.unbind(dim=1):
            found.append(step(latest, state, *rest))
            state = found[-1][0]
        return tuple(torch.stack(part, dim=1) for part in zip(*found, strict=True))

    return step_by_step


@cache
def film() -> tuple[Frame, ...]:
    """Both small translators, from step 0 to the last."""
    kept = np.load(FILM)
    n, c = kept["sizes"].tolist()

    def weights(arm: int, frame: int) -> Weights:
        return unpack(kept["numbers"][arm, frame], kept["scales"][arm, frame], n, c)

    steps = enumerate(kept["steps"].tolist())
    return tuple(Frame(step, weights(0, at), weights(1, at)) for at, step in steps)


@cache
def table() -> list[dict[str, Any]]:
    """One entry for each arm, width and number of steps: rates tried, rate, runs."""
    return json.loads(TABLE.read_text())


def rows(width: int, steps: int) -> list[dict[str, Any]]:
    """Share right by arm, run, dates and source words, of one width and number of steps."""
    found = []
    for entry in table():
        if (entry["width"], entry["steps"]) == (width, steps):
            for seed, run in enumerate(entry["runs"]):
                for key, (right, count) in run.items():
                    of_dates, words = map(int, key.split(","))
                    row = {"arm": entry["arm"], "seed": seed, "dates": of_dates, "words": words}
                    found.append(row | {"right": right, "count": count})
    return found


def share(chosen: Sequence[dict[str, Any]]) -> float:
    """The share of right sentences in some rows."""
    count = sum(row["count"] for row in chosen)
    return sum(row["right"] for row in chosen) / count if count else math.nan
