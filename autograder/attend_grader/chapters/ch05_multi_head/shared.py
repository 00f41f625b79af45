"""Chapter 05: numbers, masks and contracts that several exercises share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attend_grader.checks.clues import near_one
from attend_grader.checks.compare import FLOAT32 as ROUNDED
from attend_grader.checks.compare import Miss
from attend_grader.checks.contract import EVERY_PARAMETER, FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Contract, Probe, Slip
from attend_grader.checks.sizes import AS_DRAWN
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_properties import normal

SHAPES = (
    *((2, 3, 8, 4), (1, 4, 6, 2), (3, 2, 15, 3), (2, 4, 8, 4), (2, 5, 16, 4)),
    *((1, 1, 6, 3), (2, 3, 1, 1)),
)
"""(B, T, C, H), also with T = H and H = D, where an exchange of axes keeps the shape."""

SCALE = 0.4
"""Standard deviation of parameters: with widths of 6 to 12 the weights are neither flat nor 0/1."""

LAYERS = ("query.weight", "key.weight", "value.weight", "output.weight")

MOVES_NUMBERS = Contract(
    accepts=(FLOAT32, FLOAT64, INTEGERS),
    views=True,
    same_dtype=True,
    arguments_unchanged=True,
    ranges={"x": AS_DRAWN},
    gradients=("x",),
)
"""Of functions that only move numbers."""

ATTENTION = Contract(
    views=True,
    masks=("mask",),
    arguments_unchanged=True,
    gradients=("x", EVERY_PARAMETER),
    forbids=(
        "torch.nn.MultiheadAttention",
        "torch.nn.functional.multi_head_attention_forward",
        "torch.nn.functional.scaled_dot_product_attention",
        "torch._C._nn.scaled_dot_product_attention",
        "torch._native_multi_head_attention",
        "torch.nn.attention",
        "torch.ops",
    ),
)
"""Of attention that is built from its parts: no finished attention of torch's."""


SHORTER = (torch.float16, torch.bfloat16, torch.int32, torch.int16, torch.int8, torch.uint8)
"""Types of numbers that are tried besides those of the contract."""


def whole(rng: np.random.Generator, *shape: int) -> Tensor:
    """Different whole numbers in any order: a wrong place is seen."""
    count = int(np.prod(shape))
    return torch.from_numpy(rng.permutation(count).reshape(shape) + 1)


def keeps(
    subject: Subject, probe: Probe, x: Tensor, *args: Any, moved: Callable[[Tensor], Tensor]
) -> None:
    """Hold numbers that are only moved to their last bit in float64 and in int64; to every type.

    What comes back from these two in another type or in other places is judged elsewhere.

    ``x`` holds whole numbers up to 127; float32 holds none of them with a third added, no float
    with 2⁶⁰ added. They belong where ``moved`` takes them.

    Raises:
        Miss: numbers come back rounded, or in another type.
    """
    for numbers, through in ((x.double() + 1 / 3, "float32"), (x + 2**60, "a float")):
        want = moved(numbers)
        value = probe.call(subject, numbers, *args).value
        if not isinstance(value, Tensor) or (value.dtype, value.shape) != (want.dtype, want.shape):
            return
        if torch.equal(value.float(), want.float()) and not torch.equal(value, want):
            kind = str(want.dtype).removeprefix("torch.")
            text = f"numbers of the type {kind} come back rounded."
            cause = f"They went through {through} on the way: move them as they are."
            raise Miss(text, cause=cause).on(probe.given((numbers, *args), {}), "")
    for dtype in SHORTER:
        numbers, kind = x.to(dtype), str(dtype).removeprefix("torch.")
        want = moved(numbers)
        probe.agree(subject, numbers, *args, want=want, why=f"numbers of the type {kind}")
        value = probe.call(subject, numbers, *args).value
        if value.dtype != dtype:
            got = str(value.dtype).removeprefix("torch.")
            miss = Miss(f"result has the type {got}, expected {kind}.", topic="type of the result")
            raise miss.on(probe.given((numbers, *args), {}), "")


def causal(tokens: int) -> Tensor:
    """Every token may look at itself and at those before it."""
    return torch.ones(tokens, tokens, dtype=torch.bool).tril()


def padded(batch: int, tokens: int) -> Tensor:
    """A row for each sentence (B, 1, 1, T): its last 0, 1, 2, … tokens are padding."""
    lengths = tokens - torch.arange(batch) % tokens
    return (torch.arange(tokens) < lengths[:, None])[:, None, None]


def scattered(rng: np.random.Generator, *shape: int) -> Tensor:
    """A random mask (..., T, T); every query may look at itself."""
    mask = torch.from_numpy(rng.random(shape) < 0.5)
    return mask | torch.eye(shape[-1], dtype=torch.bool)


def others(tokens: int) -> Tensor:
    """Every token may look at all but itself."""
    return ~torch.eye(tokens, dtype=torch.bool)


def scales(asked: str) -> tuple[Slip, ...]:
    """The slips of the scale in a call of masked_attention that ends with ``mask)``."""
    return (
        Slip(
            "scaled by √C",
            (asked, asked.replace("mask)", "mask, (q.shape[1] * q.shape[-1]) ** -0.5)")),
            "Your scores are divided by √C. A head's queries are D wide: divide by √D, as "
            "masked_attention does by itself.",
        ),
        Slip(
            "not scaled",
            (asked, asked.replace("mask)", "mask, 1.0)")),
            "Your scores are not divided by √D, the root of a head's width. masked_attention does "
            "it by itself.",
        ),
        Slip(
            "divided by D",
            (asked, asked.replace("mask)", "mask, 1 / q.shape[-1])")),
            "Your scores are divided by D, a head's width. Divide by its root, √D, as "
            "masked_attention does by itself.",
        ),
    )


def row_sums(weights: np.ndarray) -> str:
    """A clue: by how much rows of weights miss the sum 1."""
    totals = np.ravel(weights.sum(axis=-1))
    worst = float(totals[np.argmax(np.abs(totals - 1))])
    if abs(worst - 1) < 1e-4 or not np.isfinite(worst):
        return ""
    return f"Each query's weights must sum to 1; somewhere yours sum to {near_one(worst)}."


def agree_masks(
    built: Subject, inside: Probe, width: int, heads: int, method: str | None = None
) -> None:
    """Hold a module of any kind to masks: one for all, for each sentence, head, or both."""
    x = normal(inside.rng, 3, 4, width)
    alone = torch.eye(4, dtype=torch.bool)
    masks = {
        "a causal mask (T, T)": causal(4),
        "a row of keys for each sentence (B, 1, 1, T)": padded(3, 4),
        "a mask for each sentence (B, 1, T, T)": scattered(inside.rng, 3, 1, 4, 4),
        "a mask for each head (H, T, T)": scattered(inside.rng, heads, 4, 4),
        "a mask for each sentence and head (B, H, T, T)": scattered(inside.rng, 3, heads, 4, 4),
        "each token sees itself only; x times 10⁶": alone,
    }
    for why, mask in masks.items():
        hidden = (~mask).numpy()
        tokens = x * 1e6 if mask is alone else x  # hidden scores are −∞, not −10⁹

        def clue(weights: np.ndarray, hidden: np.ndarray = hidden) -> str:
            if weights.ndim == 4 and (weights * hidden).max() > 1e-6:
                return "Some weight lies where the mask is False: there it must be 0."
            return row_sums(weights)

        told: dict[str, Any] = {"why": why, "tolerance": ROUNDED, "method": method}
        inside.agree(built, tokens, mask, part=1, clue=clue, **told)
        inside.agree(built, tokens, mask, part=0, **told)
    for x, mask, why in (
        (normal(inside.rng, 1, 140, width), torch.arange(140) >= 135, "135 of 140 keys hidden"),
        (
            normal(inside.rng, heads, 4, width),
            scattered(inside.rng, heads, 4, 4)[:, :1],
            "as many sentences as heads, a row of keys for each head (H, 1, T)",
        ),
    ):
        for part in (1, 0):
            told = {"why": why, "method": method, "part": part}
            inside.agree(built, x, mask, tolerance=ROUNDED, **told)
    for batch, tokens in ((1, 4), (3, 2)):
        told = {"why": f"a causal mask, B = {batch}, T = {tokens}", "method": method}
        x = normal(inside.rng, batch, tokens, width)
        for part in (1, 0):
            inside.agree(built, x, causal(tokens), part=part, tolerance=ROUNDED, **told)
