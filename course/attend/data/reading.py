"""Texts to read on, past the length a model was trained at: three tasks for codes of position.

    letters     next letter of Python's own documentation, lower case and blanks: a real text, in
                which mostly the last few letters count
    steps_back  repeat what stood a few tokens ago, among random tokens: place is all that counts
    bags        next token of a sequence whose tokens are drawn from shares of its own: place counts
                for nothing, and the longer one reads, the better the shares are known

Each gives whole numbers for tokens and for what is to be answered at every token; ``UNASKED``
stands where nothing is asked.
"""

from __future__ import annotations

import re
from functools import cache
from pydoc_data import topics

import numpy as np

Batch = tuple[np.ndarray, np.ndarray]

ALPHABET = " abcdefghijklmnopqrstuvwxyz"
"""Tokens of ``letters``: a blank stands for anything that is no letter."""

TOKENS = 16
"""How many tokens ``steps_back`` and ``bags`` have."""

UNASKED = -100
"""The answer where there is none (torch's cross_entropy leaves it out by itself)."""


@cache
def _text() -> np.ndarray:
    """All of the documentation's topics as numbers of letters; it differs between Pythons."""
    joined = " ".join(topics.topics[name] for name in sorted(topics.topics))
    words = re.sub("[^a-z]+", " ", joined.lower())
    return np.array([ALPHABET.index(letter) for letter in words])


def letters(
    rng: np.random.Generator,
    sequences: int,
    length: int,
    held_out: bool = False,
    between: tuple[float, float] = (0.0, 1.0),
) -> Batch:
    """Cut pieces out of Python's documentation; the answer to each letter is the next one.

    Args:
        rng: where pieces begin; the same state gives the same pieces (in the same Python).
        sequences: how many (B).
        length: how many letters each has (T).
        held_out: cut from the last tenth of the text, which is not used otherwise.
        between: cut only between these shares of that text; (0.5, 1.0) is its second half.

    Shapes:
        returns: tokens (B, T) and answers (B, T), numbers of letters in ``ALPHABET``

    Raises:
        ValueError: there are no sequences, or the text is too short for the length.
    """
    text = _text()
    cut = 9 * len(text) // 10
    text = text[cut:] if held_out else text[:cut]
    first, last = (int(share * len(text)) for share in between)
    text = text[first:last]
    _require(sequences, length, len(text) - 1)
    starts = rng.integers(0, len(text) - length, sequences)
    pieces = text[starts[:, None] + np.arange(length + 1)]
    return pieces[:, :-1], pieces[:, 1:]


def steps_back(rng: np.random.Generator, sequences: int, length: int, back: int = 3) -> Batch:
    """Draw random tokens; the answer to each is the token that stands ``back`` steps before it.

    Shapes:
        returns: tokens (B, T) and answers (B, T); the first ``back`` answers are UNASKED

    Raises:
        ValueError: there are no sequences, or nothing stands that far back.

    >>> tokens, answers = steps_back(np.random.default_rng(0), 1, 6)
    >>> tokens[0].tolist(), answers[0].tolist()
    ([13, 10, 8, 4, 4, 0], [-100, -100, -100, 13, 10, 8])
    """
    _require(sequences, length)
    if not 0 < back < length:
        raise ValueError(f"steps_back: back must lie between 1 and {length - 1}; got {back}.")
    tokens = rng.integers(0, TOKENS, (sequences, length))
    answers = np.full_like(tokens, UNASKED)
    answers[:, back:] = tokens[:, :-back]
    return tokens, answers


def bags(rng: np.random.Generator, sequences: int, length: int) -> Batch:
    """Draw shares for each sequence, then tokens by these shares; the answer is the next token.

    The shares come from a Dirichlet distribution with parameter 0.3: a few tokens are frequent.
    The order of a sequence says nothing. Best is to count.

    Shapes:
        returns: tokens (B, T) and answers (B, T)

    Raises:
        ValueError: there are no sequences, or they have no tokens.
    """
    _require(sequences, length)
    shares = rng.dirichlet(np.full(TOKENS, 0.3), sequences)  # (B, TOKENS)
    levels = shares.cumsum(axis=-1)[:, None]  # (B, 1, TOKENS)
    drawn = (rng.random((sequences, length + 1, 1)) > levels).sum(axis=-1)
    drawn = drawn.clip(max=TOKENS - 1)  # the shares' sum may round to less than 1
    return drawn[:, :-1], drawn[:, 1:]


def _require(sequences: int, length: int, most: float = np.inf) -> None:
    if sequences < 1 or not 1 <= length < most:
        raise ValueError(
            f"asked for {sequences} sequences of {length} tokens; at least 1 of 1 is needed"
            + (f", and fewer than {most} tokens." if np.isfinite(most) else ".")
        )
