"""The timer, the time budget, and the ceilings of the device.

A measurement is a list of times, one a call, between events on the device. Each call reads another
set of inputs, so that none finds its data in the L2 cache. All calls are queued behind a wait, so
that the host's work of launching them is over before the first one runs: what is timed is the
device's time, gaps between kernels included.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Protocol

import torch

Run = Callable[[int], object]  # the number of the repeat -> anything
WARM_UP = 3
FEWEST, MOST = 5, 50  # repeats; 50 calls of 20 launches still fit in the queue of launches
SLEEP_CYCLES = 2_000_000_000  # a second of waiting at the highest clock of an H200, near enough


class Clock(Protocol):
    """Times calls: milliseconds for each of ``repeats`` calls of ``run``."""

    def __call__(self, run: Run, repeats: int) -> list[float]:
        """Return the times in the order of the calls."""
        ...


def cuda_clock(run: Run, repeats: int) -> list[float]:
    """Time calls by events on the current stream, queued behind a wait."""
    started = time.perf_counter()
    run(0)  # how long the host takes to launch one call
    enqueue = time.perf_counter() - started
    events = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    torch.cuda.synchronize()
    torch.cuda._sleep(int(SLEEP_CYCLES * min(0.2, 1.5 * enqueue * repeats)))
    events[0].record()
    for number in range(repeats):
        run(number)
        events[number + 1].record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) for a, b in pairwise(events)]


def measure(run: Run, clock: Clock, seconds: float) -> list[float]:
    """Time as many calls as fit in ``seconds``, after a warm-up, within fixed bounds."""
    first = statistics.median(clock(run, WARM_UP))
    repeats = max(FEWEST, min(MOST, int(1000 * seconds / max(first, 1e-3))))
    return clock(run, repeats)


@dataclass(frozen=True)
class Times:
    """Two rounds of one measurement, in milliseconds."""

    median_ms: float
    low_ms: float  # a fifth of the calls were faster
    high_ms: float  # a fifth of the calls were slower
    round_medians_ms: tuple[float, ...]  # of each round: further apart than the spread is drift
    repeats: int

    @classmethod
    def of(cls, rounds: Sequence[Sequence[float]]) -> Times:
        """Summarise the rounds of a measurement."""
        every = sorted(t for times in rounds for t in times)
        low, high = every[len(every) // 5], every[-1 - len(every) // 5]
        medians = tuple(statistics.median(times) for times in rounds)
        return cls(statistics.median(every), low, high, medians, len(every))

    def as_dict(self) -> dict[str, object]:
        """The same for the results file."""
        return asdict(self)


class Budget:
    """How much of the time allowed is left."""

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._now = now
        self._start = now()

    def spent(self) -> float:
        """Seconds since the budget was made."""
        return self._now() - self._start

    def allows(self, seconds: float) -> bool:
        """Tell whether ``seconds`` more fit."""
        return self.spent() + seconds <= self.seconds


def ceilings(clock: Clock, device: torch.device, side: int, copied: int) -> dict[str, float]:
    """Measure what the device can do at most: a large bf16 product, a large copy, a sum.

    Args:
        clock: the timer.
        device: where.
        side: rows and columns of the matrices.
        copied: bytes of the buffer to copy and to add up; a multiple of 4.
    """
    a, b = (torch.randn(side, side, device=device).to(torch.bfloat16) for _ in range(2))
    product = torch.empty_like(a)
    matmul = statistics.median(measure(lambda _: torch.mm(a, b, out=product), clock, 0.5))
    source = torch.randint(0, 255, (copied,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copy = statistics.median(measure(lambda _: target.copy_(source), clock, 0.5))
    words = source.view(torch.float32)  # random bits, some of them NaN: the sum does not matter
    read = statistics.median(measure(lambda _: words.sum(), clock, 0.5))
    return {
        "matmul_tflops": 2 * side**3 / matmul / 1e9,
        "copy_gbps": 2 * copied / copy / 1e6,
        "read_gbps": copied / read / 1e6,
        "matmul_side": side,
        "copied_bytes": copied,
    }
