"""What may have become of a right result: an axis moved, an order reversed, places lost, …"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import numpy as np

from attend_grader.checks.traits import AXES

Change = Callable[[np.ndarray], np.ndarray]
"""What may have become of the right result."""


def axis_words(axis: int, ndim: int) -> str:
    """An axis as a sentence names it."""
    return "its axis" if ndim == 1 else f"its {AXES.get(axis, f'{-axis}th-to-last axis')}"


def changes(ndim: int) -> Iterator[tuple[str, Change]]:
    """Whatever may have become of a right result with so many axes, plainest first."""
    axes = [axis for axis in (-1, -2, -3) if -axis <= ndim]
    if ndim >= 2:
        yield "the right one transposed (last two axes)", lambda w: np.swapaxes(w, -1, -2)
    if 3 <= ndim <= 4:
        for order in permutations(range(ndim)):
            if order != tuple(range(ndim)):
                listed = ", ".join(map(str, order))
                text = f"the right one with its axes in the order {listed}"
                yield text, lambda w, order=order: w.transpose(order)
    for axis in axes:
        name = axis_words(axis, ndim)
        yield f"the right one in reversed order along {name}", lambda w, a=axis: np.flip(w, a)
        for step, way in ((1, "later"), (-1, "earlier")):
            text = f"the right one shifted along {name}: every entry stands one place {way}"
            yield f"{text}, and wraps round", lambda w, a=axis, s=step: np.roll(w, s, a)
            yield f"{text}, with zeros moved in", lambda w, a=axis, s=step: _moved(w, a, s)
        yield f"the right one sorted along {name}", lambda w, a=axis: np.sort(w, a)
        yield (
            f"the right one added up along {name} (a running sum)",
            lambda w, a=axis: np.cumsum(w, a),
        )
        yield (
            f"the right one summed over {name}",
            lambda w, a=axis: w.sum(a),
        )
        yield f"the right one averaged over {name}", lambda w, a=axis: w.mean(a)
        yield (
            f"the right one averaged over {name}, at every place of it",
            lambda w, a=axis: np.broadcast_to(w.mean(a, keepdims=True), w.shape),
        )
        for place, word in ((0, "first"), (-1, "last")):
            yield (
                f"only the {word} entry along {name}",
                lambda w, a=axis, p=place: np.take(w, p, a),
            )
            yield (
                f"the {word} entry along {name}, at every place of it",
                lambda w, a=axis, p=place: np.broadcast_to(np.take(w, [p], a), w.shape),
            )
            yield (
                f"the right one without the {word} entry along {name}",
                lambda w, a=axis, p=place: np.delete(w, p, a),
            )
        yield (
            f"the right one divided by its sums along {name}",
            lambda w, a=axis: w / w.sum(a, keepdims=True),
        )
        yield (
            f"the softmax of the right one along {name}",
            lambda w, a=axis: np.exp(w) / np.exp(w).sum(a, keepdims=True),
        )
        yield (
            f"the right one less its mean along {name}",
            lambda w, a=axis: w - w.mean(a, keepdims=True),
        )
        yield (
            f"the right one with an axis of length 1 put in before {name}",
            (lambda w, a=axis: np.expand_dims(w, a - 1)),
        )
    if ndim >= 2:
        yield "the diagonal of the right one", lambda w: np.diagonal(w, axis1=-2, axis2=-1)
        yield "the right one with zeros above its diagonal", np.tril
        yield "the right one with zeros below its diagonal", np.triu
    yield "the right one with an axis of length 1 too many at the end", lambda w: w[..., None]
    for axis, name in ((0, "first axis"), *((a, AXES[a]) for a in axes)):
        yield (
            f"the right one without its {name} where that has length 1",
            lambda w, a=axis: np.squeeze(w, a) if w.shape[a] == 1 else w,
        )
    yield "the right one without its axes of length 1", np.squeeze
    yield "the right one in one row (flattened)", np.ravel
    yield "the sum of the right one", np.sum
    yield "the mean of the right one", np.mean
    yield from SIMPLE.items()
    for digits in range(9):
        text = f"the right one rounded to {digits} decimals" if digits else "the right one rounded"
        yield text, lambda w, d=digits: np.round(w, d)


SIMPLE: dict[str, Change] = {
    "the size of the right one, without its sign": np.abs,
    "the right one with everything below 0 set to 0": lambda w: np.maximum(w, 0),
    "the right one cut to whole numbers": np.trunc,
    "the right one with everything outside −1 to 1 set to −1 or 1": lambda w: np.clip(w, -1, 1),
    "1 minus the right one": lambda w: 1 - w,
    "exp of the right one": np.exp,
    "the logarithm of the right one": np.log,
    "the square of the right one": np.square,
    "the square root of the right one": np.sqrt,
    "1 divided by the right one": lambda w: 1 / w,
    "the opposite of the right one (True where False is expected)": lambda w: 1 - w.astype(int),
}


def _moved(array: np.ndarray, axis: int, step: int) -> np.ndarray:
    moved = np.roll(array, step, axis)
    index: list[Any] = [slice(None)] * array.ndim
    index[axis] = 0 if step > 0 else -1
    moved = moved.copy()
    moved[tuple(index)] = 0
    return moved
