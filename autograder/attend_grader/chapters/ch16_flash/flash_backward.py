"""Exercise 16_flash/flash_backward: gradients tile by tile, the weights made again from the LSE."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from attend_solutions import flash
from attend_solutions.flash import expect_shapes, tiles

from attend_grader.chapters.ch16_flash.shared import (
    ARRAYS,
    FOR_RIGHT_VALUES,
    bad_attention_input,
    blanked,
    qkv,
    tiles_as_asked,
    whole,
)
from attend_grader.checks.compare import Tolerance
from attend_grader.checks.contract import FLOAT32, FLOAT64
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees, gradient_by_hand, worked
from attend_grader.checks.properties import expect_growth, normal
from attend_grader.checks.sizes import ANY
from attend_grader.checks.subject import Subject

Inputs = tuple[Any, ...]

LARGE = Tolerance(
    "scores of 1,000",
    1e-9,
    "an LSE near 1,000 is rounded at 1e-13, and weights made from it in another order differ by "
    "that part; times q and k of some 30 and cancelled, 1e-11 to 1e-10 are left of it",
    absolute=1e-9,
)


def _inputs(
    rng: np.random.Generator, t: int, s: int, d: int, d_v: int, *sizes: int, lead: int | None = None
) -> Inputs:
    before = () if lead is None else (lead,)
    q, k, v = qkv(rng, t, s, d, d_v, before)
    return q, k, v, *whole(q, k, v), normal(rng, *before, t, d_v), *sizes


def _loss(q: Any, k: Any, v: Any, output: Any, lse: Any, grad: Any, *sizes: int) -> Any:
    """A number whose gradient with respect to attention's output is ``grad``."""
    del output, lse, sizes
    return (whole(q, k, v)[0] * grad).sum()


def _small(rng: np.random.Generator) -> Iterator[Inputs]:
    for sizes in ((2, 4, 4, 2, 1, 3), (3, 3, 3, 3, 2, 2)):
        yield _inputs(rng, *sizes)


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((3, 5, 3, 2, 2, 2), (5, 4, 4, 4, 1, 1), (4, 7, 2, 3, 64, 3), (1, 2, 8, 1, 1, 64)):
        yield f"tiles of {sizes[4]} × {sizes[5]}", Call(_inputs(rng, *sizes))
    yield "no tile sizes given", Call(_inputs(rng, 3, 5, 4, 2))
    yield from _zeros(rng)
    yield from _one_array(rng)


def _zeros(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    """Something on the way is 0 for a tile: the others still make gradients of it."""
    q, k, v = qkv(rng, 4, 4, 3, 2)
    for first, second in ((0, 2), (2, 4)):
        rows = slice(first, second)
        grad = normal(rng, 4, 2)
        for which, what in (
            ((0,), "queries"),
            ((1,), "keys"),
            ((2,), "values"),
            ((1, 2), "keys and values"),
        ):
            arrays = blanked((q, k, v), rows, which)
            yield f"a tile whose {what} are all zeros", Call((*arrays, *whole(*arrays), grad, 2, 2))
        output, lse = whole(q, k, v)
        grad[rows] = output[rows, ::-1] * [1.0, -1.0]
        why = "a tile of queries whose outputs are at a right angle to their gradients: delta = 0"
        yield why, Call((q, k, v, output, lse, grad, 2, 2))
        grad = blanked((normal(rng, 4, 2),), rows, (0,))[0]
        yield "a tile of queries whose gradients are 0", Call((q, k, v, output, lse, grad, 2, 2))
    pairs = np.repeat(k[:2], 2, axis=0)
    cancel = np.repeat(v[:2], 2, axis=0) * np.array([[1.0], [-1.0], [1.0], [-1.0]])
    why = "values that cancel: every output is 0, or nearly"
    yield why, Call((q, pairs, cancel, *whole(q, pairs, cancel), normal(rng, 4, 2), 2, 2))
    output, lse = whole(q, k, v)
    why = "values of 1e9 and gradients of 1e-9"
    yield why, Call((q, k, 1e9 * v, 1e9 * output, lse, 1e-9 * normal(rng, 4, 2), 2, 2))


def _one_array(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    """Two arguments are one and the same array, or one is a view of the other."""
    for first, second, what in ((0, 1, "q and k"), (0, 2, "q and v"), (1, 2, "k and v")):
        arrays = list(qkv(rng, 3, 3, 3, 3))
        for turned in (False, True):
            arrays[second] = arrays[first].T.copy() if turned else arrays[first].copy()
            args = *arrays, *whole(*arrays), normal(rng, 3, 3), 2, 2
            why = f"{what} are one array{', transposed' * turned}"
            yield why, Call(args, shared=(first, second), turned=turned)
    arrays = qkv(rng, 3, 5, 4, 2)
    output, lse = whole(*arrays)
    why = "output and grad_output are one array, as for a loss of ½ ‖output‖²"
    yield why, Call((*arrays, output, lse, output.copy(), 2, 2), shared=(3, 5))


def _huge(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    q, k, v = qkv(rng, 3, 5, 4, 2)
    q, k = 30 * q, 30 * k
    output, lse = whole(q, k, v)
    yield "scores of some ±1,000", Call((q, k, v, output, lse, normal(rng, 3, 2), 2, 2))
    q = np.array([[500.0], [-500.0], [1.0]]) * np.ones(4)  # scores near 1,000, −1,000, 2 in a tile
    k = 1 + normal(rng, 5, 4) / 500
    why = "scores near 1,000 for one query, near −1,000 for another"
    yield why, Call((q, k, v, *whole(q, k, v), normal(rng, 3, 2), 3, 2))


def _memory(subject: Subject, probe: Probe) -> None:
    """Four times the queries and keys: four times the gradients, not 16 times the weights."""
    probe.agree(subject, *_inputs(probe.rng, 4, 6, 3, 2, 2, 4), why=FOR_RIGHT_VALUES)
    state = int(probe.rng.integers(2**31))

    def make(length: int) -> Inputs:
        rng = np.random.default_rng(state)
        q, k, v, grad_output = rng.standard_normal((4, length, 8))
        return q, k, v, *whole(q, k, v), grad_output, 32, 32

    expect_growth(
        subject,
        make,
        sizes=(128, 512),
        at_most=6,
        cost="peak_bytes",
        of="queries and keys",
        advice="Something of T × S numbers is stored. Make the weights of one pair of tiles, use "
        "them for all three gradients, and let them go.",
    )


def draws(rng: np.random.Generator) -> list[Call]:
    """Ragged, square, leading axes, tiles of one, one tile, one query."""
    made = [_inputs(rng, *sizes) for sizes in ((3, 5, 3, 2, 2, 2), (4, 4, 4, 4, 2, 2))]
    made.append(_inputs(rng, 3, 4, 5, 2, 2, 3, lead=2))
    for sizes in ((5, 3, 2, 3, 1, 1), (3, 5, 4, 2, 64, 64), (1, 4, 3, 2, 1, 2)):
        made.append(_inputs(rng, *sizes))
    return [Call(args) for args in made]


def _last_only(names: str) -> Slip:
    grads = names.split(" and ")
    place, other = ("rows", "keys") if names == "grad_q" else ("columns", "queries")
    keeps, holds, it = ("keeps", "holds", "it") if len(grads) == 1 else ("keep", "hold", "them")
    return Slip(
        f"{names} {keeps} the last tile only",
        tuple((f"{g}[..., {place}, :] += ", f"{g}[..., {place}, :] = ") for g in grads),
        f"{names} {holds} what the last tile of {other} gave. Let every tile of {other} add to "
        f"{it}: +=.",
    )


SLIPS = (
    Slip(
        "weights from unscaled scores",
        ("np.swapaxes(k_tile, -1, -2) / root", "np.swapaxes(k_tile, -1, -2)"),
        "The weights are made from scores not divided by √D. They do not fit the LSE.",
    ),
    Slip(
        "forgot delta",
        ("(grad_weights - delta[..., rows, :])", "grad_weights"),
        "grad_q and grad_k lack delta = rowsum(dO ∘ O): subtract it from dP.",
    ),
    Slip(
        "delta from one tile only",
        ("delta[..., rows, :]) /", "(weights * grad_weights).sum(axis=-1, keepdims=True)) /"),
        "delta is summed over the keys of one tile only, as rowsum(P ∘ dP) of a tile is. "
        "rowsum(dO ∘ O) is that sum over all keys, and needs none of them.",
    ),
    *(_last_only(names) for names in ("grad_q", "grad_k", "grad_v", "grad_k and grad_v")),
    Slip(
        "a softmax of each tile in place of the LSE",
        ("np.exp(scores - lse[..., rows, None])",
         "np.exp(scores - scores.max(axis=-1, keepdims=True))\n"
         "            weights = weights / weights.sum(axis=-1, keepdims=True)"),
        "The weights of each tile sum to 1 by themselves, as if there were no other keys. The LSE "
        "counts all keys: a weight should be e^(score − LSE), with no sum of its own.",
    ),
)  # fmt: skip


def keys_outside(q, k, v, output, lse, grad_output, tile_q=64, tile_k=64):
    """The loops of FlashAttention-2's kernel: a tile of keys stays, queries pass by."""
    expect_shapes(q, k, v)
    delta = np.einsum("...tv,...tv->...t", output, grad_output)
    grad_q, grad_k, grad_v = (np.zeros(x.shape) for x in (q, k, v))
    scale = 1 / np.sqrt(q.shape[-1])
    for c in tiles(k.shape[-2], tile_k):
        for r in tiles(q.shape[-2], tile_q):
            p = np.exp(scale * np.einsum("...td,...sd->...ts", q[..., r, :], k[..., c, :])
                       - np.expand_dims(lse[..., r], -1))  # fmt: skip
            dp = np.einsum("...tv,...sv->...ts", grad_output[..., r, :], v[..., c, :])
            dz = scale * p * (dp - delta[..., r][..., None])
            grad_v[..., c, :] += np.einsum("...ts,...tv->...sv", p, grad_output[..., r, :])
            grad_q[..., r, :] += np.einsum("...ts,...sd->...td", dz, k[..., c, :])
            grad_k[..., c, :] += np.einsum("...ts,...td->...sd", dz, q[..., r, :])
    return grad_q, grad_k, grad_v


def scale_in_the_inputs(q, k, v, output, lse, grad_output, tile_q=64, tile_k=64):
    """The scale in queries and keys; grad_q is summed apart."""
    expect_shapes(q, k, v)
    grad_q, grad_k, grad_v = (np.zeros(x.shape) for x in (q, k, v))
    scale = q.shape[-1] ** -0.5
    for r in tiles(q.shape[-2], tile_q):
        mine, grad_mine, grad_rows = q[..., r, :] * scale, grad_output[..., r, :], 0
        delta = (grad_mine * output[..., r, :]).sum(-1, keepdims=True)
        for c in tiles(k.shape[-2], tile_k):
            p = np.exp(mine @ k[..., c, :].swapaxes(-1, -2) - np.expand_dims(lse[..., r], -1))
            dz = p * (grad_mine @ v[..., c, :].swapaxes(-1, -2) - delta)
            grad_rows = grad_rows + dz @ (k[..., c, :] * scale)
            grad_k[..., c, :] += dz.swapaxes(-1, -2) @ mine
            grad_v[..., c, :] += p.swapaxes(-1, -2) @ grad_mine
        grad_q[..., r, :] = grad_rows
    return grad_q, grad_k, grad_v


EXERCISE = Exercise(
    chapter="16_flash",
    title="Flash attention, backward",
    goal="Gradients of q, k and v, with the weights made again tile by tile.",
    reference=flash.flash_backward,
    contract=replace(
        ARRAYS,
        leading_axes=("q", "k", "v", "output", "lse", "grad_output"),
        accepts=(FLOAT64, FLOAT32),
        ranges={"grad_output": ANY},
        says=(
            "(Gradients are of floats, hence no integers.)",
            "Beside the results and copies of the size of q, the output or a result, no more than "
            "a few tiles in memory at once, none of more than tile_q queries or tile_k keys.",
            "Shapes of q, k and v that do not fit and tiles of less than 1 raise a ValueError.",
        ),
    ),
    properties=(
        worked(
            "a hand-worked example: three equal weights",
            *(np.array([[2.0] * 4, [4.0] * 4]), np.eye(4)[:3], np.array([[0.0], [6.0], [3.0]])),
            *(np.array([[3.0], [3.0]]), np.log(3.0) + np.array([1.0, 2.0])),
            *(np.array([[1.0], [2.0]]), 1, 2),
            want=(
                np.array([[-0.5, 0.5, 0.0, 0.0], [-1.0, 1.0, 0.0, 0.0]]),
                np.array([[-5.0] * 4, [5.0] * 4, [0.0] * 4]),
                np.ones((3, 1)),
            ),
            why="every weight is 1/3",
        ),
        gradient_by_hand("grad_q agrees with a numerical derivative", 0, _small, _loss),
        gradient_by_hand("grad_k agrees with a numerical derivative", 1, _small, _loss),
        gradient_by_hand("grad_v agrees with a numerical derivative", 2, _small, _loss),
        agrees("tiles of any size", _values),
        agrees("large scores", _huge, repeat=1, tolerance=LARGE),
        Property("memory grows with the gradients only, not with T × S", 1, _memory),
        tiles_as_asked(_inputs),
        bad_attention_input(np.ones((2, 2)), np.log(4.0) * np.ones(2), np.ones((2, 2))),
    ),
    draws=draws,
    slips=SLIPS,
    related=True,
    alternatives={
        "keys in the outer loop, einsum": keys_outside,
        "scale in the inputs": scale_in_the_inputs,
    },
    hints=(
        "Take chapter 03's backward pass and ask of each of its five lines: does it need a whole "
        "row of weights, or only the pair of tiles at hand? One line did; delta replaces it.",
        "delta = rowsum(dO ∘ O), before the loops, with its axis kept. In the loops: "
        "weights = exp(scores − LSE), then dP, then dZ, then three products. Several tiles add to "
        "the same rows of each gradient.",
        "For each pair of tiles: P = exp(q_tile @ k_tileᵀ / √D − LSE of these rows, with an axis "
        "added); dP = dO_tile @ v_tileᵀ; dZ = P ∘ (dP − delta of these rows) / √D. Then add: "
        "dZ @ k_tile to grad_q, dZᵀ @ q_tile to grad_k, Pᵀ @ dO_tile to grad_v.",
    ),
    minutes=25,
    difficulty=4,
    importance=4,
    results=("grad_q", "grad_k", "grad_v"),
)
