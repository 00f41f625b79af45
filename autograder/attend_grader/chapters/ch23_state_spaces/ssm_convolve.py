"""Exercise 23_state_spaces/ssm_convolve: the whole text at once, by FFT."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attend_solutions import state_spaces as answers

from attend_grader.chapters.ch23_state_spaces.shared import INT64, RELATIVE, changing, cost
from attend_grader.checks.contract import FLOAT32, FLOAT64, INTEGERS
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.helpers import agrees, known, refuses, worked
from attend_grader.checks.properties import normal


def _pair(rng: np.random.Generator, length: int) -> tuple[Any, ...]:
    return normal(rng, length), normal(rng, length)


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for length in (5, 8, 1, 2, 13, 200, 300):
        yield f"{length} tokens", Call(_pair(rng, length))
    turns = np.array([1.0, 0.0, -1.0, 2.0, -2.0])
    yield "taps whose sum is 0", Call((turns, normal(rng, 5)))
    yield "tokens whose sum is 0", Call((normal(rng, 5), turns))
    for what, numbers in changing(rng, 50, 30):
        yield f"taps: {what}", Call((numbers, normal(rng, 80)))
        yield f"tokens: {what}", Call((normal(rng, 80), numbers))
    rows = np.stack([numbers for _, numbers in changing(rng, 50, 30)])
    yield "five kernels whose taps look settled", Call((rows, normal(rng, 80)))
    yield "three channels, each with its kernel", Call((normal(rng, 3, 6), normal(rng, 2, 3, 6)))


def _limits(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    kernel, x = _pair(rng, 7)
    kernel[0] = 0.5
    first, last = np.eye(7)[0], np.eye(7)[-1]
    yield "a kernel of 1, 0, 0, …: nothing changes", (first, x), x
    late = np.concatenate([[0.0], x[:-1]])
    yield "a kernel of 0, 1, 0, …: a token late", (np.eye(7)[1], x), late
    for scale in (1e-12, 1e12):
        yield f"{scale:g} times a kernel of 1, 0, 0, …", (scale * first, x), scale * x
        yield f"{scale:g} times a token of 1", (kernel, scale * first), scale * kernel
    yield "only the last token is not 0", (kernel, last), kernel[0] * last


def draws(rng: np.random.Generator) -> list[Call]:
    """Odd and even lengths, one token, leading axes in both or in x alone."""
    return [
        Call(_pair(rng, 5)),
        Call(_pair(rng, 8)),
        Call(_pair(rng, 1)),
        Call((normal(rng, 2, 6), normal(rng, 2, 6))),
        Call((normal(rng, 4, 4), normal(rng, 4, 4))),
        Call(_pair(rng, 11)),
    ]


def table(kernel, x):  # noqa: D103 (what a learner is told is its slip's)
    length = x.shape[-1]
    if kernel.shape[-1] != length:
        raise ValueError("lengths differ")
    late = np.arange(length)[:, None] - np.arange(length)
    matrix = np.where(late >= 0, kernel[..., late], 0.0)
    return (matrix @ x[..., None])[..., 0]


def loop(kernel, x):  # noqa: D103
    if kernel.shape[-1] != x.shape[-1]:
        raise ValueError("lengths differ")
    rows = [
        (kernel[..., : t + 1] * x[..., t::-1]).sum(axis=-1)
        if t < x.shape[-1] - 1
        else (kernel * x[..., ::-1]).sum(axis=-1)
        for t in range(x.shape[-1])
    ]
    return np.stack(rows, axis=-1)


KERNEL = "np.fft.rfft(kernel, padded)"
SLIPS = (
    Slip(
        "it wraps round",
        ("padded = 2 * length", "padded = length"),
        "The end of the answer comes round and adds to its beginning: an FFT of T numbers is "
        "periodic. Pad both with zeros, to 2T.",
    ),
    Slip(
        "padded by half",
        ("padded = 2 * length", "padded = length + length // 2"),
        "From 3 tokens on, the padding is too short: the farthest taps still come round to the "
        "beginning. The whole answer has 2T − 1 numbers.",
    ),
    Slip(
        "a power of two that is too short",
        ("padded = 2 * length", "padded = 1 << length.bit_length()"),
        "The padding goes to the next power of two above T, which is below 2T − 1 unless T is a "
        "power of two: the farthest taps still come round.",
    ),
    Slip(
        "one zero",
        ("padded = 2 * length", "padded = length + 1"),
        "The padding is one number: all but one of the numbers after the text still come round to "
        "the beginning. The whole answer has 2T − 1 numbers.",
    ),
    Slip(
        "one number too short",
        ("padded = 2 * length", "padded = max(2 * length - 2, 1)"),
        "From 2 tokens on, the padding goes to 2T − 2, one number too few: the last tap of the "
        "last token comes round to the first place. The whole answer has 2T − 1 numbers.",
    ),
    Slip(
        "the transform's length is not said",
        (
            ("padded = 2 * length", "padded = 2 * length - 1"),
            ("irfft(product, padded)", "irfft(product)"),
        ),
        "np.fft.irfft makes an even number of places unless it is told how many: give it the "
        "length that rfft had.",
    ),
    Slip(
        "looks ahead",
        (KERNEL, KERNEL + ".conj()"),
        "The kernel is applied to later tokens: this is Σ K_j x_(t+j). It should be Σ K_j x_(t−j).",
    ),
    Slip(
        "the kernel is turned round",
        (KERNEL, "np.fft.rfft(kernel[..., ::-1], padded)"),
        "The kernel is turned round: its last tap weighs the newest token. K_0 should.",
    ),
    Slip(
        "the last T numbers",
        ("padded)[..., :length]", "padded)[..., length:]"),
        "These are the numbers after the text. Take the first T.",
    ),
    Slip(
        "the middle",
        ("padded)[..., :length]", "padded)[..., (length - 1) // 2 :][..., :length]"),
        'These are the numbers in the middle, as np.convolve\'s "same" gives them: from 3 tokens '
        "on, outputs see later tokens. Take the first T.",
    ),
    Slip(
        "sums without a kernel",
        (KERNEL, "np.fft.rfft(np.ones(kernel.shape), padded)"),
        "The kernel plays no role: every tap counts as 1.",
    ),
    Slip(
        "a table of T × T numbers",
        table,
        "Values are right, but a table of T × T numbers is made. Multiply two FFTs instead.",
    ),
    Slip(
        "a loop over tokens",
        loop,
        "Values are right, but it takes at least a step a token. Multiply two FFTs instead.",
    ),
)


def complex_transform(kernel, x):
    """Fft in the place of rfft, one less than 2T."""
    length = x.shape[-1]
    if kernel.shape[-1] != length:
        raise ValueError("lengths differ")
    full = 2 * length - 1
    both = np.fft.fft(kernel, n=full, axis=-1) * np.fft.fft(x, n=full, axis=-1)
    return np.fft.ifft(both, axis=-1).real[..., :length]


def power_of_two(kernel, x):
    """Zeros written out, up to a power of two."""
    length = x.shape[-1]
    if kernel.shape[-1] != length:
        raise ValueError("lengths differ")
    size = 2 ** int(np.ceil(np.log2(2 * length)))
    one, two = (
        np.concatenate([v, np.zeros((*v.shape[:-1], size - length))], axis=-1) for v in (kernel, x)
    )
    return np.fft.irfft(np.fft.rfft(one) * np.fft.rfft(two), size)[..., :length]


EXERCISE = Exercise(
    chapter="23_state_spaces",
    title="The convolution",
    goal="Apply a kernel to a whole text at once.",
    reference=answers.ssm_convolve,
    contract=Contract(
        numpy_only=True,
        leading_axes=True,
        shared=("kernel", "x"),
        accepts=(FLOAT64, FLOAT32, INTEGERS),
        views=True,
        arguments_unchanged=True,
        forbids=(
            "numpy.convolve",
            "numpy.correlate",
            "numpy.lib.stride_tricks.sliding_window_view",
            "numpy.lib.stride_tricks.as_strided",
        ),
        says=(
            INT64,
            "No table of T × T numbers, and no loop over tokens.",
            "A kernel that is not as long as the text raises a ValueError.",
        ),
    ),
    properties=(
        worked(
            "by hand: 1, 1 and 2, 3 give 2, 5",
            np.array([1.0, 1.0]),
            np.array([2.0, 3.0]),
            want=np.array([2.0, 5.0]),
        ),
        agrees("fresh kernels and texts", _values),
        known("kernels and texts of a single 1", _limits, tolerance=RELATIVE),
        cost(
            "memory grows with T, not with T × T",
            "peak_bytes",
            _pair,
            (128, 1024),
            12,
            "tokens",
            "Something of T × T numbers is stored. Multiply two FFTs instead.",
        ),
        cost(
            "no loop over tokens",
            "steps",
            _pair,
            (16, 256),
            2,
            "tokens",
            "A loop runs over tokens. Multiply two FFTs instead.",
        ),
        refuses((("a kernel that is too short", (np.ones(3), np.ones(4))),)),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"fft, 2T − 1": complex_transform, "power of two": power_of_two},
    hints=(
        "In an FFT of T numbers, place T is place 0 again. What happens to the product of the last "
        "tap and the last token?",
        "np.fft.rfft(x, 2 * T) fills up with zeros by itself. Multiply both transforms, go back "
        "with np.fft.irfft(…, 2 * T), and keep the first T.",
        "np.fft.irfft(np.fft.rfft(kernel, 2 * T) * np.fft.rfft(x, 2 * T), 2 * T)[..., :T]",
    ),
    minutes=10,
    difficulty=2,
    importance=5,
)
