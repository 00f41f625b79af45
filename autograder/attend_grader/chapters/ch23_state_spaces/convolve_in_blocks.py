"""Exercise 23_state_spaces/convolve_in_blocks: repair a convolution that wraps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import state_spaces as answers

from attend_grader.chapters.ch23_state_spaces.shared import INT64, RELATIVE, changing
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, known, refuses, worked
from attend_grader.checks.properties import normal

SIZES = ((3, 10, 4), (6, 11, 4), (2, 9, 3), (1, 8, 2), (12, 5, 3))
"""Taps, tokens, tokens in a block: kernels shorter and longer than a block and than the text."""


def case(rng: np.random.Generator, taps: int, length: int, block: int) -> Call:
    """A kernel, a text and a length of blocks."""
    return Call((normal(rng, taps), normal(rng, length), block))


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for taps, length, block in (*SIZES, (90, 200, 30), (300, 300, 64), (5000, 6000, 1000)):
        yield f"{taps} taps, {length} tokens in blocks of {block}", case(rng, taps, length, block)
    x = np.array([2.0, -2.0, 0.0, 3.0, 1.0, -1.0, 0.0, 0.0, 4.0])
    yield "blocks whose sum is 0", Call((normal(rng, 3), x, 2))
    yield "taps whose sum is 0", Call((np.array([0.0, 1.0, 0.0, -1.0]), normal(rng, 9), 2))
    rows = normal(rng, 3, 8)
    rows[0, 2:4] = rows[1, :4] = rows[2, ::2] = 0
    yield "blocks of 0 in some rows", Call((normal(rng, 5), rows, 2))
    for what, numbers in changing(rng, 50, 30):
        yield f"taps: {what}", Call((numbers, normal(rng, 90), 12))
        yield f"tokens: {what}", Call((normal(rng, 20), numbers, 12))
    rows = np.stack([numbers for _, numbers in changing(rng, 50, 30)])
    yield "five texts that look settled", Call((normal(rng, 20), rows, 12))


def _any_block(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    kernel, x = normal(rng, 4), normal(rng, 9)
    whole = np.convolve(kernel, x)[:9]
    for block in (1, 2, 3, 4, 8, 9, 20):
        yield f"the same in blocks of {block}", (kernel, x, block), whole
    for scale in (1e-12, 1e12):
        yield f"taps times {scale:g}", (scale * kernel, x, 4), scale * whole
        yield f"tokens times {scale:g}", (kernel, scale * x, 4), scale * whole


def _one_block(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    del rng
    for last in (0.0, 2.0):  # its third tap has no place left
        x, late = np.array([0, 1, 0, 0, last]), np.array([0, 1, 2, 3, last])
        yield "one block for the whole text", (np.arange(1.0, 4.0), x, 5), late


def draws(rng: np.random.Generator) -> list[Call]:
    """Kernels shorter and longer than a block, blocks of one, one block, one tap, a stack."""
    made = [case(rng, *one) for one in SIZES]
    made += [case(rng, 4, 6, 1), case(rng, 3, 6, 40), case(rng, 4, 8, 4)]
    return [*made, Call((normal(rng, 3), normal(rng, 2, 7), 3))]


LENGTH = "part.shape[-1] + len(kernel) - 1"
SLIPS = (
    Slip(
        "wraps inside each block",
        (LENGTH, "max(part.shape[-1], len(kernel))"),
        "Each block's answer has only as many numbers as the longer of block and kernel: where "
        "both have more than one, its end comes round to its beginning. L tokens and K taps need "
        "L + K − 1.",
        seen="the broken function in the text",
    ),
    Slip(
        "one number too short",
        (LENGTH, "max(part.shape[-1] + len(kernel) - 2, 1)"),
        "Where a block's answer should have more than one number, it has one too few: the last "
        "comes round or is cut off. L tokens and K taps need L + K − 1.",
    ),
    Slip(
        "one number too short, or as long as the longer",
        (LENGTH, "max(part.shape[-1] + len(kernel) - 2, part.shape[-1], len(kernel))"),
        "Where neither block nor kernel has length 1, a block's answer has one number too few: the "
        "last comes round. L tokens and K taps need L + K − 1.",
    ),
    Slip(
        "twice the block",
        (LENGTH, "2 * block"),
        "A full block's answer has 2 · block numbers. For more than block + 1 taps that is too "
        "few: its end comes round, or taps beyond 2 · block are lost, or both.",
    ),
    Slip(
        "twice the kernel",
        (LENGTH, "max(2 * len(kernel), part.shape[-1])"),
        "A block's answer has at most 2K numbers, or as many as the block. With more than one tap "
        "and more than K + 1 tokens in a block, that is too few: the end comes round.",
    ),
    Slip(
        "ends are dropped",
        ("start + length] += answer", "start + block] = answer[..., :block]"),
        "Each block is right as if nothing had come before it: what its answer has beyond the "
        "block is dropped or written over. Add it to the tokens that follow.",
    ),
    Slip(
        "ends reach one block",
        (
            "start + length] += answer",
            "start + min(length, 2 * block)] += answer[..., : 2 * block]",
        ),
        "What a block's answer has beyond the next block is lost. A kernel of more than block + 1 "
        "taps reaches farther.",
    ),
    Slip(
        "the transform's length is not said",
        ("irfft(product, length)", "irfft(product, 2 * (product.shape[-1] - 1) or 1)"),
        "np.fft.irfft makes an even number of places unless it is told how many: give it the "
        "length that rfft had.",
    ),
    Slip(
        "irfft makes another length than rfft had",
        (
            ("irfft(product, length)", "irfft(product, max(2 * (product.shape[-1] - 1), 1))"),
            ("start : start + length", "start : start + answer.shape[-1]"),
        ),
        "np.fft.irfft makes an even number of places unless it is told how many: give it the "
        "length that rfft had.",
    ),
    Slip(
        "whole blocks only",
        ("range(0, x.shape[-1], block)", "range(0, x.shape[-1] - block + 1, block)"),
        "The last block is left out where it has fewer than `block` tokens. It should count, too.",
    ),
    Slip(
        "the kernel is cut",
        ("np.fft.rfft(kernel, length)", "np.fft.rfft(kernel[:block], length)"),
        "Taps beyond the first `block` are lost.",
    ),
    Slip(
        "the kernel is turned round",
        ("np.fft.rfft(kernel, length)", "np.fft.rfft(kernel[::-1], length)"),
        "The kernel is turned round: its last tap weighs the newest token. K_0 should.",
    ),
    Slip(
        "one place more",
        (LENGTH, "max(part.shape[-1], len(kernel)) + 1"),
        "A block's answer has one number more than the longer of block and kernel. Where both are "
        "longer than 2, that is too few: its end still comes round. L tokens and K taps need "
        "L + K − 1.",
    ),
)


def direct(kernel, x, block):
    """Delays in the place of transforms."""
    if block < 1:
        raise ValueError("a block of 0")
    length = x.shape[-1]
    y = np.zeros(x.shape)
    for j, tap in enumerate(kernel[:length]):
        y[..., j:] += tap * x[..., : length - j]
    return y


def saved(kernel, x, block):
    """Overlap-save: each block is read together with the K − 1 tokens before it."""
    if block < 1:
        raise ValueError("a block of 0")
    before, size = len(kernel) - 1, len(kernel) - 1 + block
    length = x.shape[-1]
    zeros = np.zeros((*x.shape[:-1], before))
    long = np.concatenate([zeros, x, np.zeros((*x.shape[:-1], block))], axis=-1)
    rows = []
    for start in range(0, length, block):
        both = np.fft.fft(long[..., start : start + size], size) * np.fft.fft(kernel, size)
        rows.append(np.fft.ifft(both).real[..., before:])  # what comes before wraps
    return np.concatenate(rows, axis=-1)[..., :length]


EXERCISE = Exercise(
    chapter="23_state_spaces",
    title="Repair: the convolution that wraps",
    goal="Find and fix why a convolution in blocks goes wrong.",
    reference=answers.convolve_in_blocks,
    contract=Contract(
        numpy_only=True,
        leading_axes=("x",),
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        says=(
            INT64,
            "The result does not depend on `block`.",
            "A block of less than 1 token raises a ValueError.",
        ),
    ),
    properties=(
        worked(
            "by hand: a tap of 1, then one of 1/2",
            np.array([1.0, 0.5]),
            np.array([4.0, 2.0, 6.0]),
            2,
            want=np.array([4.0, 4.0, 7.0]),
        ),
        agrees("kernels shorter and longer than a block", _values),
        known("any block gives the same", _any_block, tolerance=RELATIVE),
        known(
            "one block for the whole text",
            _one_block,
        ),
        refuses(
            (
                ("a block of 0 tokens", (np.ones(2), np.ones(3), 0)),
                ("a block of −1 tokens", (np.ones(2), np.ones(3), -1)),
            )
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"delays": direct, "overlap-save": saved},
    hints=(
        "Take a text of zeros with a 1 at the end of a block. Where does the kernel come out?",
        "How many numbers has the whole answer of L tokens and K taps? A transform that is shorter "
        "lays the rest over the beginning.",
        "length = part.shape[-1] + len(kernel) - 1; the answer is cut only where the text ends.",
    ),
    minutes=10,
    difficulty=3,
    importance=4,
)
