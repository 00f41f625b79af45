"""Python's documentation as numbers, and a small gated linear attention that learned to write it.

The text is ``pydoc_data.topics``, what ``help("assert")`` prints; it differs between Pythons. The
weights were made by ``python course/22_gated_recurrence/train.py words``, the table of five arms by
``… train.py arms``. NumPy only: what mixes tokens is handed in, and may be a learner's.

Two layers of ``x + output(norm(mixed) ∘ SiLU(gate))`` and ``x + MLP``, see :func:`read`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from pydoc_data import topics
from typing import Any

import numpy as np
import numpy.typing as npt

ALPHABET = "\n" + "".join(chr(code) for code in range(32, 127))
"""Line feed and the printable characters of ASCII; anything else is left out of the text."""

LAYERS, HEADS, SOFTENED = 2, 4, 8.0
"""Of the shipped model; gates are log σ(…) / SOFTENED, so that untrained ones forget slowly."""

WEIGHTS, TABLE = (Path(__file__).with_name(f"gated_{name}") for name in ("words.npz", "arms.json"))

COUNTS = "table of 4 letters"
"""The baseline in the table of arms: what followed each four letters in the text that was read."""

Array = npt.NDArray[np.floating]
Numbers = npt.NDArray[np.integer]
Weights = Mapping[str, Array]
States = dict[str, Array]


def encode(words: str) -> Numbers:
    """Numbers in ALPHABET of the characters of ``words`` that are in it."""
    return np.array([ALPHABET.index(letter) for letter in words if letter in ALPHABET], dtype=int)


def decode(tokens: Numbers) -> str:
    """The characters of numbers in ALPHABET. Shapes: tokens (T,)."""
    return "".join(ALPHABET[token] for token in tokens.tolist())


@cache
def text() -> tuple[Numbers, Numbers]:
    """All topics as numbers: the first nine tenths, and the last, on which nothing is trained."""
    joined = encode("\n\n".join(topics.topics[name] for name in sorted(topics.topics)))
    cut = 9 * len(joined) // 10
    return joined[:cut], joined[cut:]


@cache
def weights() -> Weights:
    """The trained weights by name; ``0.`` and ``1.`` begin those of the two layers."""
    with np.load(WEIGHTS) as stored:
        return {n: stored[n].astype(np.float64) for n in stored.files if n != "curve"}


def curve() -> Array:
    """Its training loss every 20 steps, in nats a character."""
    with np.load(WEIGHTS) as stored:
        return stored["curve"]


@cache
def table() -> dict[str, dict[str, Any]]:
    """By arm: numbers in the model, tuning, best rate, losses, bits a character by length."""
    return json.loads(TABLE.read_text(encoding="utf-8"))


def rows() -> list[dict[str, Any]]:
    """One row an arm, length and seed, with bits a character: for a chart."""
    return [
        {"arm": arm, "length": int(length), "bits": bits_, "seed": seed}
        for arm, found in table().items()
        for length, runs in found["bits"].items()
        for seed, bits_ in enumerate(runs)
    ]


def norm(x: Array) -> Array:
    """Divide by the root mean square of the last axis."""
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-5)


def silu(x: Array) -> Array:
    """x σ(x), where σ is the sigmoid."""
    return x * (0.5 + 0.5 * np.tanh(x / 2))


def split(x: Array) -> Array:
    """(..., T, C) to (..., HEADS, T, C / HEADS)."""
    return np.swapaxes(x.reshape(*x.shape[:-1], HEADS, -1), -2, -3)


def gates(weight: Weights, layer: int, shifted: Array) -> Array:
    """Logarithms of what a token leaves of each row of the memory: (..., HEADS, T, D)."""
    raw = shifted @ weight[f"{layer}.gates"] + weight[f"{layer}.gates_bias"]
    return split(-np.logaddexp(0, -raw) / SOFTENED)


def read(
    tokens: Numbers,
    token_shift: Callable[..., Any],
    gated_linear_attention: Callable[..., Any],
    states: States | None = None,
    seen: dict[str, Array] | None = None,
) -> tuple[Array, States]:
    """Read tokens and say what may come next.

    Args:
        tokens: numbers in ALPHABET, (..., T).
        token_shift: exercise 22.6.
        gated_linear_attention: exercise 22.4.
        states: what the model kept of the text before these tokens; None: there is none.
        seen: filled with the keys and gates of each layer, ``0.keys`` and so on, where given.

    Returns:
        scores of the next character (..., T, 96), and the states after the last token.
    """
    weight, states, kept = weights(), states or {}, {}
    x = weight["embedding"][tokens]
    for i in range(LAYERS):
        normed = norm(x) * weight[f"{i}.norm"]
        shifted, kept[f"{i}.last"] = token_shift(
            normed, weight[f"{i}.mix"], states.get(f"{i}.last")
        )
        q, k, v = (split(shifted @ weight[f"{i}.{name}"]) for name in ("queries", "keys", "values"))
        faded = gates(weight, i, shifted)
        if seen is not None:
            seen |= {f"{i}.gates": faded, f"{i}.keys": k}
        mixed, kept[f"{i}.memory"] = gated_linear_attention(
            q / q.shape[-1] ** 0.5, k, v, faded, 16, states.get(f"{i}.memory")
        )
        joined = np.swapaxes(norm(mixed), -2, -3).reshape(x.shape)
        x = x + (joined * silu(normed @ weight[f"{i}.open"])) @ weight[f"{i}.output"]
        inner = silu((norm(x) * weight[f"{i}.norm_2"]) @ weight[f"{i}.up"])
        x = x + inner @ weight[f"{i}.down"]
    return (norm(x) * weight["norm"]) @ weight["head"], kept


def bits(scores: Array, tokens: Numbers) -> Array:
    """Bits of each token by the scores it was given. Shapes: (..., T, 96), (..., T) -> (..., T)."""
    top = scores.max(axis=-1, keepdims=True)
    total = np.log(np.exp(scores - top).sum(axis=-1)) + top[..., 0]
    given = np.take_along_axis(scores, tokens[..., None], axis=-1)[..., 0]
    return (total - given) / np.log(2)
