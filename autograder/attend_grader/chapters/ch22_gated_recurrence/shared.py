"""Chapter 22: numbers and properties that several exercises use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from attend_solutions.types import Array

from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.properties import expect_growth, normal
from attend_grader.checks.subject import Subject

WHOLE: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "decay": np.ones_like,
    "gates": lambda gates: -np.ceil(abs(gates)),
    "beta": lambda beta: np.ceil(beta - 0.5),
    "keys": np.round,
}
"""Whole numbers in the place of decays (1), gates (-1 and less) and step sizes (0 and 1)."""

INT64 = "Products of integers fit into int64."
"""Said where an answer may multiply integers as they are."""

REFUSED = "`q`, `k` and `v` that do not fit raise a ValueError."
REFUSED_CHUNKS = "`q`, `k` and `v` that do not fit and chunks of less than 1 raise a ValueError."
"""What is refused: a state or a decay that does not fit may broadcast."""

PLAIN = (np.ones((4, 3)), np.ones((4, 3)), np.ones((4, 2)))
"""A text that fits."""


def misfits(*rest: Any) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Texts that do not fit, also such as would broadcast, with the same arguments behind them."""
    q, k, v = PLAIN
    return tuple(
        (what, (*text, *rest))
        for what, text in (
            ("fewer keys than queries", (q, k[:3], v[:3])),
            ("one key for four queries", (q, k[:1], v)),
            ("one query for four keys", (q[:1], k, v)),
            ("one value for four keys", (q, k, v[:1])),
            ("keys of width 1 for queries of width 3", (q, k[:, :1], v)),
            ("queries of width 1 for keys of width 3", (q[:, :1], k, v)),
        )
    )


def no_chunks(*rest: Any) -> tuple[tuple[Any, ...], ...]:
    """Chunks of less than 1, also for texts that no chunk would cut, with arguments before them."""
    first = tuple(np.asarray(each)[:1] if np.ndim(each) else each for each in rest)
    one = tuple(each[:1] for each in PLAIN) + first
    memory = {"state": np.ones((3, 2))}
    return (
        ("a chunk of 0 tokens", (*PLAIN, *rest, 0)),
        ("a chunk of −1 token", (*PLAIN, *rest, -1)),
        ("a chunk of 0 tokens for one token", (*one, 0)),
        ("a chunk of −1 token for one token and a memory", (*one, -1), memory),
        ("a chunk of 0 tokens for four tokens and a memory", (*PLAIN, *rest, 0), memory),
    )


def qkv(
    rng: np.random.Generator, t: int, d: int, d_v: int, lead: tuple[int, ...] = ()
) -> tuple[Array, Array, Array]:
    """Random q and k (*lead, t, d), and v (*lead, t, d_v)."""
    q, k, v = (normal(rng, *lead, t, width) for width in (d, d, d_v))
    return q, k, v


def unit_keys(k: Array) -> Array:
    """Keys of norm 1 and less digits: what keeps the delta rule in bounds."""
    return (k / np.maximum(np.linalg.norm(k, axis=-1, keepdims=True), 1.0)).round(2)


def between(rng: np.random.Generator, low: float, high: float, *shape: int) -> Array:
    """Uniform numbers of two decimals; with no shape an array without axes."""
    return np.asarray(rng.uniform(low, high, shape).round(2))


def shared_decays(rng: np.random.Generator, *rest: int) -> Iterator[tuple[str, Call]]:
    """Two texts of two heads, and the same two decays for each head, and for each text."""
    two, three = between(rng, 0.3, 0.95, 2), between(rng, 0.3, 0.95, 3)
    for told, decay in (("head", two), ("head", two[None]), ("text", two[:, None])):
        args = *qkv(rng, 5, 3, 2, (2, 2)), decay
        yield f"2 texts of 2 heads, a decay for each {told}, {decay.shape}", Call((*args, *rest))
    yield "2 texts of 3 heads", Call((*qkv(rng, 5, 3, 2, (2, 3)), three, *rest))


def nearly_gone(rng: np.random.Generator, t: int) -> tuple[Array, Array, Array, float]:
    """A text and its decay: the only query, at the end, reads 1e-12 of a first value of 1e12.

    Whoever takes so small a share for nothing, or for more than it is, is wrong there.
    """
    decay = 1e-12 ** (1 / (t - 1))
    q, k, v = qkv(rng, t, 2, 2)
    q[:-1] = 0.0
    v[0] *= decay ** -(t - 1.0)
    return q, k, v, decay


def one_product(t: int) -> tuple[Array, Array, Array, float]:
    """All zeros but one query, key and value of 1e12: 1e-40 of their product is read at the end.

    Whoever takes shares below some bound for nothing is wrong there.
    """
    q, k, v = np.zeros((3, t, 1))
    q[-1] = k[0] = v[0] = 1e12
    return q, k, v, 1e-40 ** (1 / (t - 1))


def many_decays(rng: np.random.Generator) -> tuple[tuple[Any, ...], tuple[Array, Array]]:
    """Long texts whose decays are tiny, 1, or nearly the same, and what is right for them.

    A tiny decay has powers whose inverse overflows; the others differ late in their digits.
    """
    decay = np.array([1e-12, 1 - 3e-7, 1 - 9e-7, 1 - 9.001e-7, 1.0])
    q, k, v = qkv(rng, 300, 1, 1, (5,))
    rows = zip(q, k, v, decay, strict=True)
    came = [loop(asked, key, value, np.full((300, 1), left)) for asked, key, value, left in rows]
    return (q, k, v, decay), (np.stack([o for o, _ in came]), np.stack([s for _, s in came]))


def long_texts(rng: np.random.Generator, longest: int = 1_200) -> list[Call]:
    """Long texts in memories that hardly fade, or not at all."""
    return [
        Call((*qkv(rng, longest, 2, 2), 1.0)),
        Call((*qkv(rng, 1_200, 2, 2), 0.9995)),
    ]


def faint(rng: np.random.Generator) -> tuple[Array, Array, Array, float]:
    """Two tokens and a decay: the second reads 1e-12 of what the first, of 1e12, has left."""
    q, k, v = qkv(rng, 2, 2, 2)
    q[0], k[1] = 0.0, 0.0
    return q, k, 1e12 * v, 1e-12


def large_at_last(q: Array, k: Array, v: Array) -> tuple[Array, Array, Array]:
    """The last token writes 1e12 times as much and reads nothing: no sum may take it off again."""
    q, k, v = q.copy(), k.copy(), v.copy()
    q[-1], v[-1] = 0.0, 1e12 * v[-1]
    return q, k, v


def loop(
    q: Array, k: Array, v: Array, keep: Array, state: Array | None = None
) -> tuple[Array, Array]:
    """What a memory gives whose rows fade by ``keep`` (T, D) each step: token by token, no axes."""
    memory: Array = np.zeros((k.shape[-1], v.shape[-1])) if state is None else state
    rows = []
    for asked, key, value, left in zip(q, k, v, keep, strict=True):
        memory = left[:, None] * memory + np.outer(key, value)
        rows.append(asked @ memory)
    return np.stack(rows), memory


def cost(
    name: str,
    kind: str,
    layouts: tuple[tuple[Callable[[np.random.Generator, int], Call], tuple[int, int], float], ...],
    advice: str,
    first: Callable[[np.random.Generator], Call],
) -> Property:
    """Memory (``peak_bytes``) or ``steps`` may grow so many times.

    Args:
        name: the card's line.
        kind: "peak_bytes" or "steps".
        layouts: what makes a call of a given length, a short and a long length, and the largest
            ratio of their costs.
        advice: what to try.
        first: a call that must be right before anything is counted.
    """

    def test(subject: Subject, probe: Probe) -> None:
        right = first(probe.rng)
        why = "what it costs counts for right values only"
        probe.agree(subject, *right.args, why=why, **right.kwargs)
        state = int(probe.rng.integers(2**31))
        for make, sizes, at_most in layouts:
            expect_growth(
                subject,
                lambda size, make=make: make(np.random.default_rng(state), size).args,
                sizes=sizes,
                at_most=at_most,
                cost=kind,  # type: ignore[arg-type]
                of="tokens",
                advice=advice,
            )

    return Property(name, 1, test)


def cheap(case: Callable[..., Call], *, blocks: bool = False) -> tuple[Property, Property]:
    """Memory grows with T, not with T × T; so many chunks take as many steps, however long.

    Args:
        case: ``case(rng, T, D, D_v, chunk)`` makes a call.
        blocks: whether a chunk of 32 may be cut into blocks of 8 tokens, one step each. Then steps
            may grow there, but not up to 8 tokens, as those of a loop over tokens do.
    """

    def cut(chunk: Callable[[int], int]) -> Callable[[np.random.Generator, int], Call]:
        return lambda rng, length: case(rng, length, 4, 4, chunk(length))

    sixteen = cut(lambda _: 16)  # of 4,096 tokens a mask of truth values is seen too
    four = cut(lambda length: length // 4)
    shorter = cut(lambda length: length // 2 + 1)  # two chunks, the second of a token less
    unfilled = cut(lambda length: 2 * length)
    small = ((four, (8, 32), 1.5), (shorter, (3, 15), 1.5), (unfilled, (2, 8), 1.5))
    most = 4 if blocks else 2
    large = ((four, (16, 128), most), (shorter, (7, 63), most), (unfilled, (4, 32), most))
    return (
        cost(
            "memory grows with T, not with T × T",
            "peak_bytes",
            tuple((sixteen, *most) for most in (((128, 1024), 12), ((128, 4096), 44))),
            "Something of T × T numbers is stored. Weights of pairs are made for one chunk.",
            lambda rng: case(rng, 7, 3, 2, 3),
        ),
        cost(
            "four chunks take as many steps, however long they are",
            "steps",
            (*large, *small) if blocks else large,
            "A loop gets longer with the chunk, as one over its tokens does. Inside a chunk "
            "matrices do for all of them at once, also in one that is not full.",
            lambda rng: case(rng, 7, 3, 2, 3),
        ),
    )
