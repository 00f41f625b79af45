"""Numbers in words, and a character model with one layer of attention that learns to write them.

The text is "eight hundred fifty six hundred thirty-seven …": random numbers from 1 to 999. The
model guesses the next letter at GUESSES places of a text of PLACES letters:

    x = letters[token] + places,   o = attention(x, w_q, w_k, w_v, mask)[0]
    guesses = softmax(ReLU([x, o] w_hidden) w_out)

NumPy only; attention is handed in and may be a learner's. Its weights are all that the backward
pass needs (chapter 03, section 7). The table of arms was made by
``python course/04_self_attention/train.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.integer]
Attention = Callable[..., Any]
"""(x, w_q, w_k, w_v, mask) → output and weights, as in exercise 4.2."""

SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
ROUND = "twenty thirty forty fifty sixty seventy eighty ninety"
ONES, TENS = SMALL.split(), ROUND.split()
WORDS = frozenset((*ONES, *TENS, "hundred"))
ALPHABET = " -" + "".join(sorted({letter for word in WORDS for letter in word}))

PLACES, GUESSES = 16, 12
"""Letters in one text; places that guess their next letter. So each of them has a future of 4."""

WIDTH, HIDDEN, EXAMPLES, STEPS, RATE = 32, 64, 32, 600, 0.01
NUMBERS, SEED = 20_000, 0
TABLE = Path(__file__).with_name("number_words.json")


@dataclass(frozen=True)
class Model:
    """What was trained, how, and the loss of each step in bits a letter."""

    parameters: dict[str, Array]
    mask: Mask
    attention: Attention
    curve: Array


def in_words(number: int) -> str:
    """``in_words(342)`` is "three hundred forty-two". From 0 to 999."""
    if number < 20:
        return ONES[number]
    if number < 100:
        ten, one = TENS[number // 10 - 2], number % 10
        return f"{ten}-{ONES[one]}" if one else ten
    rest = number % 100
    return f"{ONES[number // 100]} hundred" + (f" {in_words(rest)}" if rest else "")


def encode(words: str) -> Numbers:
    """Numbers in ALPHABET of the letters of ``words``."""
    return np.array([ALPHABET.index(letter) for letter in words])


def decode(tokens: Numbers) -> str:
    """The letters of numbers in ALPHABET. Shapes: tokens (T,)."""
    return "".join(ALPHABET[token] for token in tokens.tolist())


@cache
def text() -> tuple[Numbers, Numbers, Numbers]:
    """The whole text as numbers: eight tenths to train on, one to choose rates on, one to test."""
    drawn = np.random.default_rng(SEED).integers(1, 1000, NUMBERS)
    joined = encode(" ".join(in_words(int(number)) for number in drawn))
    tenth = len(joined) // 10
    return joined[: 8 * tenth], joined[8 * tenth : 9 * tenth], joined[9 * tenth :]


def causal() -> Mask:
    """The causal mask of one text, (PLACES, PLACES)."""
    return np.tril(np.ones((PLACES, PLACES), dtype=bool))


def diagonals(offsets: set[int] | frozenset[int]) -> Mask:
    """The mask (PLACES, PLACES) that shows each query the keys at these distances; +1 is ahead."""
    place = np.arange(PLACES)
    return np.isin(place - place[:, None], list(offsets))


def plain_attention(
    x: Array, w_q: Array, w_k: Array, w_v: Array, mask: Mask
) -> tuple[Array, Array]:
    """Masked self-attention where there is no learner's. Not the solution's: nothing to copy."""
    scores = (x @ w_q) @ np.swapaxes(x @ w_k, -1, -2) / np.sqrt(w_q.shape[-1])
    scores = np.where(mask, scores, -np.inf)
    shares = np.exp(scores - np.maximum(scores.max(axis=-1, keepdims=True), -1e300))
    weights = shares / np.maximum(shares.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ (x @ w_v), weights


def train(
    attention: Attention,
    mask: Mask,
    *,
    seed: int = 0,
    rate: float = RATE,
    steps: int = STEPS,
) -> Model:
    """Train with Adam for `steps`; the rate falls to 0 over the second half.

    Shapes: mask (PLACES, PLACES). Raises whatever `attention` raises, and ValueError where its
    output or weights are not finite or have another shape.
    """
    rng = np.random.default_rng(seed)
    parameters = _start(rng)
    means = {name: np.zeros_like(value) for name, value in parameters.items()}
    squares = {name: np.zeros_like(value) for name, value in parameters.items()}
    curve = np.empty(steps)
    for step in range(steps):
        tokens = _texts(text()[0], rng.integers(0, len(text()[0]) - PLACES, EXAMPLES))
        losses, gradients = _loss_and_gradients(parameters, tokens, mask, attention)
        curve[step] = losses.mean()
        now = rate * min(1.0, 2 * (1 - step / steps))
        for name, gradient in gradients.items():
            means[name] = 0.9 * means[name] + 0.1 * gradient
            squares[name] = 0.99 * squares[name] + 0.01 * gradient**2
            mean = means[name] / (1 - 0.9 ** (step + 1))
            square = squares[name] / (1 - 0.99 ** (step + 1))
            parameters[name] = parameters[name] - now * mean / (np.sqrt(square) + 1e-8)
    return Model(parameters, mask, attention, curve)


def bits(
    model: Model, mask: Mask | None = None, *, texts: int = 400, tuning: bool = False
) -> Array:
    """Loss on text that was not trained on, in bits a letter, at each place: (GUESSES,).

    Args:
        model: what was trained.
        mask: another mask than the one it was trained with.
        texts: how many, spread over the text.
        tuning: read the text that rates are chosen on, not the one for tests.
    """
    held_out = text()[1 if tuning else 2]
    tokens = _texts(held_out, np.linspace(0, len(held_out) - PLACES - 1, texts).astype(int))
    used = model.mask if mask is None else mask
    return _forward(model.parameters, tokens, used, model.attention)[0].mean(axis=0)


def weights(model: Model, words: str) -> Array:
    """The model's weights on one text of PLACES letters: (PLACES, PLACES)."""
    x = _embed(model.parameters, encode(words)[None])
    return _attend(model.parameters, x, model.mask, model.attention)[1][0]


def write(model: Model, *, lines: int = 4, letters: int = 44, seed: int = 0) -> list[str]:
    """Continue the first letters of held-out texts, letter by letter, each drawn as guessed.

    The last GUESSES letters are read. What comes after them is not there, whatever the mask says.
    """
    rng, held_out = np.random.default_rng(seed), text()[2]
    first = np.flatnonzero(held_out[:-GUESSES] == 0)  # blanks: lines begin with a word
    starts = rng.choice(first, lines, replace=False) + 1
    written = held_out[starts[:, None] + np.arange(4)]
    while written.shape[1] < letters:
        read = written[:, -GUESSES:]
        size = read.shape[1]
        guesses = _guess(model, read, model.mask[:size, :size])[:, -1]
        chosen = (guesses.cumsum(axis=-1) < rng.random((lines, 1))).sum(axis=-1)
        written = np.concatenate([written, chosen.clip(max=len(ALPHABET) - 1)[:, None]], axis=1)
    return [decode(line) for line in written]


def real_words(lines: list[str]) -> float:
    """Share of the written words that are words of the text; those cut at either end left out."""
    words = [word for line in lines for word in line.replace("-", " ").split(" ")[1:-1]]
    return sum(word in WORDS for word in words) / max(len(words), 1)


def table() -> dict[str, dict[str, Any]]:
    """By arm: rates tried, the best, and for each seed bits a letter and the share of real words.

    ``python course/04_self_attention/train.py`` made it.
    """
    return json.loads(TABLE.read_text(encoding="utf-8"))


def counted(order: int) -> float:
    """Bits a letter of a table: what followed each `order` letters in the training text.

    Counts lean on those of one letter less, as if these had been seen once: (n + p) / (N + 1).
    """
    read, _, held_out = text()
    size = len(ALPHABET)
    seen = dict[tuple[int, ...], Array]()
    tokens = read.tolist()
    for length in range(order + 1):
        for at in range(length, len(tokens)):
            context = tuple(tokens[at - length : at])
            seen.setdefault(context, np.zeros(size))[tokens[at]] += 1
    tokens, total = held_out.tolist(), 0.0
    for at in range(order, len(tokens)):
        chance = 1 / size
        for length in range(order + 1):
            counts = seen.get(tuple(tokens[at - length : at]))
            if counts is not None:
                chance = (counts[tokens[at]] + chance) / (counts.sum() + 1)
        total -= np.log2(chance)
    return total / (len(tokens) - order)


def _start(rng: np.random.Generator) -> dict[str, Array]:
    def normal(rows: int, columns: int) -> Array:
        return rng.standard_normal((rows, columns)) / np.sqrt(rows)

    return {
        "letters": rng.standard_normal((len(ALPHABET), WIDTH)) / 2,
        "places": rng.standard_normal((PLACES, WIDTH)) / 2,
        "w_q": normal(WIDTH, WIDTH),
        "w_k": normal(WIDTH, WIDTH),
        "w_v": normal(WIDTH, WIDTH),
        "w_hidden": normal(2 * WIDTH, HIDDEN),
        "w_out": normal(HIDDEN, len(ALPHABET)) / 2,
    }


def _texts(tokens: Numbers, starts: Numbers) -> Numbers:
    """Texts of PLACES letters, (len(starts), PLACES)."""
    return tokens[starts[:, None] + np.arange(PLACES)]


def _embed(parameters: dict[str, Array], tokens: Numbers) -> Array:
    return parameters["letters"][tokens] + parameters["places"][: tokens.shape[1]]


def _attend(
    parameters: dict[str, Array], x: Array, mask: Mask, attention: Attention
) -> tuple[Array, Array]:
    matrices = (parameters[name] for name in ("w_q", "w_k", "w_v"))
    found = [np.asarray(part) for part in attention(x, *matrices, mask)]
    shapes = [part.shape for part in found]
    if shapes != [x.shape, (*x.shape[:2], x.shape[1])]:
        raise ValueError(f"expected an output {x.shape} and weights; got shapes {shapes}")
    if not all(np.isfinite(part).all() for part in found):
        raise ValueError("the output or the weights hold NaN or infinity")
    return found[0], found[1]


def _read(
    parameters: dict[str, Array], tokens: Numbers, mask: Mask, attention: Attention
) -> tuple[Array, ...]:
    """x, weights, what the hidden layer reads, what it says, and the guesses (B, T, V)."""
    x = _embed(parameters, tokens)
    output, weights = _attend(parameters, x, mask, attention)
    both = np.concatenate([x, output], axis=-1)
    hidden = np.maximum(both @ parameters["w_hidden"], 0)
    scores = hidden @ parameters["w_out"]
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return x, weights, both, hidden, shares / shares.sum(axis=-1, keepdims=True)


def _guess(model: Model, tokens: Numbers, mask: Mask) -> Array:
    return _read(model.parameters, tokens, mask, model.attention)[-1]


def _forward(
    parameters: dict[str, Array], tokens: Numbers, mask: Mask, attention: Attention
) -> tuple[Array, tuple[Array, ...]]:
    """Losses in bits (B, GUESSES), and all that the backward pass needs."""
    kept = _read(parameters, tokens, mask, attention)
    rows, places = np.indices((len(tokens), GUESSES))
    chances = kept[-1][rows, places, tokens[:, 1 : GUESSES + 1]]
    return -np.log2(np.maximum(chances, 1e-30)), kept


def _loss_and_gradients(
    parameters: dict[str, Array], tokens: Numbers, mask: Mask, attention: Attention
) -> tuple[Array, dict[str, Array]]:
    """Losses in bits (B, GUESSES), and gradients of their mean in nats."""
    losses, (x, weights, both, hidden, guesses) = _forward(parameters, tokens, mask, attention)
    rows, places = np.indices(losses.shape)
    d_scores = guesses / losses.size
    d_scores[rows, places, tokens[:, 1 : GUESSES + 1]] -= 1 / losses.size
    d_scores[:, GUESSES:] = 0  # these places guess nothing
    d_hidden = (d_scores @ parameters["w_out"].T) * (hidden > 0)
    d_both = d_hidden @ parameters["w_hidden"].T
    d_x, d_output = d_both[..., :WIDTH], d_both[..., WIDTH:]
    q, k, v = (x @ parameters[name] for name in ("w_q", "w_k", "w_v"))
    d_weights = d_output @ np.swapaxes(v, -1, -2)
    inner = (weights * d_weights).sum(axis=-1, keepdims=True)
    d_dots = weights * (d_weights - inner) / np.sqrt(WIDTH)
    back = {
        "w_q": d_dots @ k,
        "w_k": np.swapaxes(d_dots, -1, -2) @ q,
        "w_v": np.swapaxes(weights, -1, -2) @ d_output,
    }
    d_x = d_x + sum(gradient @ parameters[name].T for name, gradient in back.items())
    one_hot = np.eye(len(ALPHABET))[tokens.ravel()]
    gradients: dict[str, Array] = {
        name: _flat(x).T @ _flat(gradient) for name, gradient in back.items()
    }
    gradients |= {
        "w_hidden": _flat(both).T @ _flat(d_hidden),
        "w_out": _flat(hidden).T @ _flat(d_scores),
        "letters": one_hot.T @ _flat(d_x),
        "places": d_x.sum(axis=0),
    }
    return losses, gradients


def _flat(array: Array) -> Array:
    return array.reshape(-1, array.shape[-1])
