"""A character model around a recurrent network: batches of text, a readout, Adam, sampling.

What is recurrent is handed in: chapter 01 trains it with the learner's rnn_forward and bptt. The
text is Python's documentation (:mod:`attend.data.gated_words`). NumPy only.

Letters: B texts side by side, T characters in a piece, N numbers in a state, V = 96 characters.

Source: Kingma and Ba 2015, "Adam", algorithm 1; Pascanu et al. 2013, algorithm 1 (clipping).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from attend.data.gated_words import ALPHABET, decode, encode, text

Array = npt.NDArray[np.floating]
Numbers = npt.NDArray[np.integer]
Weights = dict[str, Array]
Step = Callable[[Weights, Numbers, Numbers, Array], tuple[float, Array, Weights]]
"""(weights, tokens, targets, h0) -> loss in nats, last states, gradients by name."""

STATE, TEXTS, PIECE = 96, 32, 32
"""N, B and T."""
VOCABULARY = len(ALPHABET)


def start(seed: int) -> Weights:
    """Untrained weights: w_h orthogonal, w_x and w_o small. w_x (V, N), w_h (N, N), w_o (N, V)."""
    rng = np.random.default_rng(seed)
    w_h, _ = np.linalg.qr(rng.standard_normal((STATE, STATE)))
    return {
        "w_x": 0.3 * rng.standard_normal((VOCABULARY, STATE)),
        "w_h": w_h,
        "b": np.zeros(STATE),
        "w_o": 0.1 * rng.standard_normal((STATE, VOCABULARY)),
        "b_o": np.zeros(VOCABULARY),
    }


def one_hot(tokens: Numbers) -> Array:
    """Rows with a 1 at the token's number. Shapes: (...) -> (..., V)."""
    return np.eye(VOCABULARY)[tokens]


def readout(
    states: Array, targets: Numbers, weights: Weights
) -> tuple[float, Array, dict[str, Array]]:
    """Cross-entropy of the next characters, and its gradients.

    Shapes:
        states: (B, T, N)
        targets: (B, T), numbers of characters
        returns: the mean loss in nats; its gradient with respect to states (B, T, N); those with
            respect to w_o and b_o, by name
    """
    scores = states @ weights["w_o"] + weights["b_o"]  # (B, T, V)
    scores = scores - scores.max(axis=-1, keepdims=True)
    shares = np.exp(scores)
    shares /= shares.sum(axis=-1, keepdims=True)
    right = np.take_along_axis(shares, targets[..., None], axis=-1)
    grad = (shares - one_hot(targets)) / targets.size
    gradients = {
        "w_o": np.tensordot(states, grad, axes=((0, 1), (0, 1))),
        "b_o": grad.sum(axis=(0, 1)),
    }
    return float(-np.log(right).mean()), grad @ weights["w_o"].T, gradients


def pieces(seed: int) -> Iterator[tuple[Numbers, Numbers]]:
    """Endless (tokens, targets) of shape (B, T) each; a row goes on where its last piece ended."""
    read, _ = text()
    places = np.random.default_rng([seed, 1]).integers(0, len(read), TEXTS)
    while True:
        index = (places[:, None] + np.arange(PIECE + 1)) % len(read)
        yield read[index[:, :-1]], read[index[:, 1:]]
        places = places + PIECE


def train(
    step: Step, weights: Weights, steps: int, seed: int, rate: float = 0.006, every: int = 25
) -> list[tuple[int, float]]:
    """Train the weights in place with Adam, gradients clipped to a length of 1.

    Returns the mean loss in bits a character of each ``every`` steps, with the step it ends at.
    Raises FloatingPointError when the loss is no finite number.
    """
    h, stream, losses, curve = np.zeros((TEXTS, STATE)), pieces(seed), [], []
    mean = {name: np.zeros_like(w) for name, w in weights.items()}
    square = {name: np.zeros_like(w) for name, w in weights.items()}
    bar = tqdm(range(1, steps + 1), "training", mininterval=1, leave=False, file=sys.stdout)
    for count in bar:
        loss, h, gradients = step(weights, *next(stream), h)
        if not np.isfinite(loss):
            raise FloatingPointError(f"the loss is {loss} at step {count}: look at the gradients.")
        length = np.sqrt(sum((g**2).sum() for g in gradients.values()))
        pace = rate * (1 - count / (steps + 1))
        for name, gradient in gradients.items():
            gradient = gradient * min(1.0, 1.0 / length)
            mean[name] += 0.1 * (gradient - mean[name])
            square[name] += 0.01 * (gradient**2 - square[name])
            first, second = mean[name] / (1 - 0.9**count), square[name] / (1 - 0.99**count)
            weights[name] -= pace * first / (np.sqrt(second) + 1e-8)
        losses.append(loss / np.log(2))
        if count % every == 0:
            curve.append((count, float(np.mean(losses[-every:]))))
    return curve


def held_out(forward: Callable[..., Array], weights: Weights, length: int = 512) -> float:
    """Bits a character on text that was not trained on: 16 texts, begun without a past."""
    _, unseen = text()
    rows = unseen[: 16 * (length + 1)].reshape(16, length + 1)
    names = ("w_x", "w_h", "b")
    h0 = np.zeros((16, len(weights["b"])))
    states = forward(one_hot(rows[:, :-1]), h0, *(weights[name] for name in names))
    return readout(states, rows[:, 1:], weights)[0] / float(np.log(2))


def write(
    forward: Callable[..., Array], weights: Weights, prompt: str, count: int, seed: int
) -> str:
    """Continue a prompt by characters drawn from what the model predicts."""
    rng, h, tokens = np.random.default_rng(seed), np.zeros((1, len(weights["b"]))), encode(prompt)
    written, given = [], tokens
    for _ in range(count):
        states = forward(one_hot(given[None]), h, weights["w_x"], weights["w_h"], weights["b"])
        h = states[:, -1]
        scores = (h @ weights["w_o"] + weights["b_o"])[0]
        shares = np.exp(scores - scores.max())
        given = np.array([rng.choice(VOCABULARY, p=shares / shares.sum())])
        written.append(int(given[0]))
    return decode(np.array(written))


def counted(order: int) -> float:
    """The baseline: bits a character by counts of what followed each ``order`` characters.

    Add-one counts are mixed down to shorter contexts (Witten-Bell), on the text of ``held_out``.
    """
    read, unseen = text()
    rows = unseen[: 16 * 513].reshape(16, 513)
    tables: list[dict[bytes, dict[int, int]]] = [{} for _ in range(order + 1)]
    data = read.astype(np.uint8).tobytes()
    for place in range(order, len(data)):
        for size, table in enumerate(tables):
            followers = table.setdefault(data[place - size : place], {})
            followers[data[place]] = followers.get(data[place], 0) + 1
    total = 0.0
    for row in rows.astype(np.uint8):
        line = row.tobytes()
        for place in range(1, len(line)):
            share = 1 / VOCABULARY
            for size in range(min(order, place) + 1):
                followers = tables[size].get(line[place - size : place])
                if followers is None:
                    break
                seen, kinds = sum(followers.values()), len(followers)
                share = (followers.get(line[place], 0) + kinds * share) / (seen + kinds)
            total -= float(np.log2(share))
    return total / (rows.shape[0] * (rows.shape[1] - 1))
