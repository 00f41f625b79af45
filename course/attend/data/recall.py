"""Recalling a text: what followed the places that looked like this one?

Each place of a long text is a key: its last ``LAGS`` letters, one-hot. The value is the letter that
came next. A question is a place of another text. Attention from questions to keys is then a guess
at the next letter, and the only numbers to learn say how much each of the last letters counts.

Attention over stored contexts as a language model: Khandelwal et al. 2020, "Generalization through
Memorization: Nearest Neighbor Language Models" (there with learned features).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from attend.data.reading import ALPHABET, letters

LAGS = 8
"""How many of the last letters a key consists of."""

DOUBT = 0.02
"""Share of every guess that is spread evenly over all letters, so that none has probability 0."""


@dataclass(frozen=True)
class Recall:
    """A library and questions to it.

    Shapes:
        keys: (S, LAGS · 27), one-hot letters times √width, so that scores count matches
        values: (S, 27), the next letter, one-hot
        asked: (T, LAGS, 27), the questions' last letters, one-hot, the latest first
        answers: (T,), numbers of the letters that really came next
    """

    keys: np.ndarray
    values: np.ndarray
    asked: np.ndarray
    answers: np.ndarray

    def queries(self, strengths: np.ndarray) -> np.ndarray:
        """The questions with each letter times the strength of its lag: (T, LAGS · 27).

        Shapes: strengths (LAGS,).
        """
        scaled = strengths[:, None].astype(np.float32) * self.asked
        return scaled.reshape(len(self.asked), -1)

    def strength_gradient(self, grad_queries: np.ndarray) -> np.ndarray:
        """The gradient of the strengths, from that of the queries: (LAGS,)."""
        return (grad_queries.reshape(self.asked.shape) * self.asked).sum(axis=(0, 2))

    def surprise(self, output: np.ndarray) -> tuple[float, np.ndarray]:
        """Bits per letter of the guesses, and their gradient with respect to the output (T, 27)."""
        right = np.arange(len(self.answers)), self.answers
        guess = (1 - DOUBT) * output[right] + DOUBT / len(ALPHABET)
        gradient = np.zeros(output.shape)
        gradient[right] = -(1 - DOUBT) / (guess * np.log(2) * len(guess))
        return float(-np.log2(guess).mean()), gradient


def continued(
    answer: Callable[..., tuple[np.ndarray, float]],
    library: Recall,
    strengths: np.ndarray,
    text: str,
    count: int,
    rng: np.random.Generator,
) -> str:
    """Write on: ask the library what comes next, draw a letter, ask again.

    Letters are drawn by the square of their share, which favours the likely ones.

    Args:
        answer: ``answer(q, k, v, tile_k)`` gives the output (27,) of one query, and its LSE.
        library: where to look.
        strengths: (LAGS,), how much each of the last letters counts.
        text: small letters and blanks, at least LAGS of them.
        count: how many letters to add.
        rng: draws the letters.
    """
    tokens = [ALPHABET.index(letter) for letter in text]
    for _ in range(count):
        last = _last_letters(np.array(tokens[-LAGS:]))[0]
        query = (strengths[:, None] * last).ravel()
        shares = np.asarray(answer(query, library.keys, library.values, 8192)[0]) ** 2
        tokens.append(int(rng.choice(len(ALPHABET), p=shares / shares.sum())))
    return "".join(ALPHABET[token] for token in tokens)


def recall(
    rng: np.random.Generator, library: int, questions: int, training: bool = False
) -> Recall:
    """Cut a library and questions out of Python's documentation; the questions from a part apart.

    Args:
        rng: where the pieces begin.
        library: places in the library, S.
        questions: how many, T.
        training: ask from the first half of that part, which tests never ask from; tests ask from
            its second half.

    Raises:
        ValueError: one of them is less than 1, or the text is too short.
    """
    if min(library, questions) < 1:
        raise ValueError(f"expected at least 1 place and 1 question; got {library} and {questions}")
    known, follows = letters(rng, 1, library + LAGS - 1)
    half = (0.0, 0.5) if training else (0.5, 1.0)
    asked, answers = letters(rng, 1, questions + LAGS - 1, held_out=True, between=half)
    keys = _last_letters(known[0]).reshape(library, -1)
    values = np.eye(len(ALPHABET), dtype=np.float32)[follows[0, LAGS - 1 :]]
    root = np.float32(keys.shape[1] ** 0.5)
    return Recall(root * keys, values, _last_letters(asked[0]), answers[0, LAGS - 1 :])


def _last_letters(text: np.ndarray) -> np.ndarray:
    """One-hot letters at each place that has LAGS of them, latest first: (n, LAGS, 27)."""
    windows = np.lib.stride_tricks.sliding_window_view(text, LAGS)[:, ::-1]
    return np.eye(len(ALPHABET), dtype=np.float32)[windows]
