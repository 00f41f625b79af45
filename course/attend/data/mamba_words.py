"""Python's own documentation as numbers, and the small Mamba that was trained to write it.

The text is ``pydoc_data.topics``, what ``help("assert")`` prints; it differs between Pythons. The
weights were made by ``python course/24_mamba/train.py words``: two layers, half precision.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from pydoc_data import topics

import numpy as np
import torch
from torch import Tensor

ALPHABET = "\n" + "".join(chr(code) for code in range(32, 127))
"""Line feed and the printable characters of ASCII; anything else is left out of the text."""

_NUMBERS = {letter: number for number, letter in enumerate(ALPHABET)}

WEIGHTS = Path(__file__).with_suffix(".npz")


def encode(words: str) -> Tensor:
    """Numbers in ALPHABET of the characters of ``words`` that are in it."""
    return torch.tensor([_NUMBERS[letter] for letter in words if letter in _NUMBERS])


def decode(tokens: Tensor) -> str:
    """The characters of numbers in ALPHABET. Shapes: tokens (T,)."""
    return "".join(ALPHABET[token] for token in tokens.tolist())


@cache
def text() -> tuple[Tensor, Tensor]:
    """All topics as numbers: the first nine tenths, and the last, on which nothing is trained."""
    joined = encode("\n\n".join(topics.topics[name] for name in sorted(topics.topics)))
    cut = 9 * len(joined) // 10
    return joined[:cut], joined[cut:]


def table_bits(read: Tensor, rows: Tensor, order: int = 4) -> Tensor:
    """Bits of each character by a table of what followed the last ``order`` characters in a text.

    A context of k characters that was followed n times, by u different characters, gives
    ``(count + u · p) / (n + u)``, where p is what the context of k − 1 characters gives (Witten and
    Bell 1991, "The zero-frequency problem"); below the empty context all characters are equal.

    Args:
        read: the text that is counted, (T,), numbers in ALPHABET.
        rows: texts to predict, (R, L).
        order: the longest context.

    Returns:
        bits of all but the first character of each row, (R, L − 1).
    """
    seen = tuple(read.tolist())
    tables: list[dict[tuple[int, ...], Counter[int]]] = []
    for k in range(order + 1):
        followed: defaultdict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        for place in range(k, len(seen)):
            followed[seen[place - k : place]][seen[place]] += 1
        tables.append(dict(followed))

    def bits(row: tuple[int, ...], place: int) -> float:
        chance = 1 / len(ALPHABET)
        for k in range(min(order, place) + 1):
            counts = tables[k].get(row[place - k : place])
            if counts is None:  # nor was any longer context
                break
            chance = (counts[row[place]] + len(counts) * chance) / (counts.total() + len(counts))
        return -math.log2(chance)

    lines = [tuple(row) for row in rows.tolist()]
    return torch.tensor([[bits(row, place) for place in range(1, len(row))] for row in lines])


def kneser_ney_bits(read: Tensor, rows: Tensor, order: int = 5) -> Tensor:
    """As :func:`table_bits`, with the discounts of Kneser and Ney 1995: better in rare contexts.

    From each count of the longest contexts a discount d is taken; the share that this frees goes to
    the next shorter context, where a character counts once for each character it had *in front* of
    that context. d is n₁ / (n₁ + 2 n₂), of n₁ counts of 1 and n₂ of 2 (Ney et al. 1994); it is ½
    where n₁ is 0.

    Args:
        read: the text that is counted, (T,), numbers in ALPHABET.
        rows: texts to predict, (R, L).
        order: the longest context.

    Returns:
        bits of all but the first character of each row, (R, L − 1).
    """
    seen, tables, discounts = tuple(read.tolist()), [], []
    counted = Counter(seen[end - order - 1 : end] for end in range(order + 1, len(seen) + 1))
    for _ in range(order + 1):
        followed: defaultdict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        for gram, count in counted.items():
            followed[gram[:-1]][gram[-1]] = count
        tables.insert(0, {context: (c, c.total(), len(c)) for context, c in followed.items()})
        ones, twos = (sum(count == n for count in counted.values()) for n in (1, 2))
        discounts.insert(0, ones / (ones + 2 * twos) if ones else 0.5)
        counted = Counter(gram[1:] for gram in counted)

    def bits(row: tuple[int, ...], place: int) -> float:
        chance = 1 / len(ALPHABET)
        for k in range(min(order, place) + 1):
            if row[place - k : place] not in tables[k]:  # nor is any longer context
                break
            counts, total, kinds = tables[k][row[place - k : place]]
            kept = max(counts[row[place]] - discounts[k], 0.0)
            chance = (kept + discounts[k] * kinds * chance) / total
        return -math.log2(chance)

    lines = [tuple(row) for row in rows.tolist()]
    return torch.tensor([[bits(row, place) for place in range(1, len(row))] for row in lines])


def weights() -> dict[str, Tensor]:
    """The trained weights by name, in float32; ``0.`` and ``1.`` begin those of the two layers.

    A layer's names are those of ``attend_solutions.mamba.MambaBlock``'s parameters, and ``norm``.
    """
    with np.load(WEIGHTS) as stored:
        return {
            name: torch.from_numpy(stored[name].astype(np.float32))
            for name in stored.files
            if name != "curve"
        }


def state_dict() -> dict[str, Tensor]:
    """The same weights under the names that chapter 24's module ``Mamba`` gives them."""
    named = {"embedding": "embedding.weight", "norm": "norms.2.weight", "head": "head.weight"}
    found = {}
    for name, value in weights().items():
        layer, _, rest = name.partition(".")
        if rest == "norm":
            found[f"norms.{layer}.weight"] = value
        else:
            found[named.get(name) or f"blocks.{layer}.{rest}"] = value
    return found


def curve() -> np.ndarray:
    """Its training loss every 20 steps, in nats a character."""
    with np.load(WEIGHTS) as stored:
        return stored["curve"]
