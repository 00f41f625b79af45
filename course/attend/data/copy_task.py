"""The copy task: remember the first token until you are asked for it.

    x_1 = a symbol      x_2 … = fillers, `lag` of them      x_T = the question      answer: x_1

Every token is drawn anew, so nothing but memory helps: who guesses is right once in as many times
as there are symbols. The fillers come from an alphabet of their own, so that a network can know
what to ignore; it is still moved by each of them.

Tokens are numbered: the symbols first, then the fillers, the question last.

Source: the latching problem of Bengio, Simard and Frasconi 1994, "Learning Long-Term Dependencies
with Gradient Descent is Difficult", §II; Hochreiter and Schmidhuber 1997, "Long Short-Term
Memory", §5.2, has the same with more to tell apart. (The "copying memory problem" of Arjovsky,
Shah and Bengio 2016 asks for ten symbols and fills the gap with one blank.)
"""

from __future__ import annotations

import numpy as np

SYMBOLS = 8
FILLERS = 8
QUESTION = SYMBOLS + FILLERS
TOKENS = SYMBOLS + FILLERS + 1
"""How many tokens there are: symbols, fillers and the question."""


def copy_task(rng: np.random.Generator, sequences: int, lag: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw sequences with a symbol in front, and the symbols to be remembered.

    Args:
        rng: where the tokens come from; the same state gives the same sequences.
        sequences: how many (B).
        lag: how many fillers lie between the symbol and the question; 0 for none.

    Shapes:
        returns: tokens (B, T) with T = lag + 2, and answers (B,), both whole numbers

    Raises:
        ValueError: there are no sequences, or the lag is negative.

    >>> tokens, answers = copy_task(np.random.default_rng(0), 2, lag=3)
    >>> tokens
    array([[ 6, 12, 10, 10, 16],
           [ 5,  8,  8,  8, 16]])
    >>> answers
    array([6, 5])
    """
    if sequences < 1 or lag < 0:
        raise ValueError(
            f"copy_task draws at least 1 sequence with a lag of 0 or more; got {sequences} and "
            f"lag {lag}."
        )
    answers = rng.integers(0, SYMBOLS, sequences)
    fillers = rng.integers(SYMBOLS, SYMBOLS + FILLERS, (sequences, lag))
    question = np.full((sequences, 1), QUESTION)
    return np.concatenate([answers[:, None], fillers, question], axis=1), answers
