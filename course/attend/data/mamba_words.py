"""Python's own documentation as numbers, and the small Mamba that was trained to write it.

The text is ``pydoc_data.topics``, what ``help("assert")`` prints; it differs between Pythons. The
weights were made by ``python course/24_mamba/train.py words``: two layers, half precision.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from pydoc_data import topics

import numpy as np
import torch
from torch import Tensor

ALPHABET = "\n" + "".join(chr(code) for code in range(32, 127))
"""Line feed and the printable characters of ASCII; anything else is left out of the text."""

WEIGHTS = Path(__file__).with_suffix(".npz")


def encode(words: str) -> Tensor:
    """Numbers in ALPHABET of the characters of ``words`` that are in it."""
    return torch.tensor([ALPHABET.index(letter) for letter in words if letter in ALPHABET])


def decode(tokens: Tensor) -> str:
    """The characters of numbers in ALPHABET. Shapes: tokens (T,)."""
    return "".join(ALPHABET[token] for token in tokens.tolist())


@cache
def text() -> tuple[Tensor, Tensor]:
    """All topics as numbers: the first nine tenths, and the last, on which nothing is trained."""
    joined = encode("\n\n".join(topics.topics[name] for name in sorted(topics.topics)))
    cut = 9 * len(joined) // 10
    return joined[:cut], joined[cut:]


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
