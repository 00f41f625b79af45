"""Cutting a sequence into segments that run side by side: how their states are joined again.

Letters: see ``api``. Each segment finds what it adds to the
state as if it began from 0; ``join_kernel`` adds that up, faded, into the state each starts from.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from attend_kernels.common.launch import launch
from attend_kernels.ops.linear_attention.fading import LEAST_GATE

JOIN_BLOCK = 1024  # elements of a state one program joins


@triton.jit
def join_kernel(
    states_ptr, fade_ptr, start_ptr, end_ptr,
    start_batch, start_head, start_row, start_column, end_batch, end_head, end_row, end_column,
    blocks, heads, segments, D, E,
    REVERSE: tl.constexpr, FADES: tl.constexpr, FAR: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Turn what each segment adds to the state into the state each starts from, in place.

    ``fade_ptr`` (B, H, segments, FADES): what a segment leaves of its state, one number or D.
    """
    pid = tl.program_id(0)
    head = pid // blocks % heads
    if FAR:
        head = head.to(tl.int64)
    batch = (pid // (blocks * heads)).to(tl.int64)
    line = (batch * heads + head) * segments
    at = pid % blocks * BLOCK + tl.arange(0, BLOCK)
    d, e = at // E, at % E
    state = tl.zeros((BLOCK,), tl.float32)
    if start_ptr is not None:
        start = start_ptr + batch * start_batch + head * start_head
        state += tl.load(start + d * start_row + e * start_column, mask=d < D, other=0.0)
    for step in range(0, segments):
        segment = line + (segments - 1 - step if REVERSE else step)
        here = states_ptr + segment * (D * E) + at
        added = tl.load(here, mask=d < D, other=0.0)
        tl.store(here, state, mask=d < D)
        if fade_ptr is not None:
            fade = fade_ptr + segment * FADES
            state *= tl.load(fade + (d if FADES > 1 else d * 0), mask=d < D, other=0.0)
        state += added
    if end_ptr is not None:
        end = end_ptr + batch * end_batch + head * end_head
        tl.store(end + d * end_row + e * end_column, state, mask=d < D)


def launch_heads(kernel: Any, programs: int, *arguments: Any, **settings: Any) -> None:
    """``launch`` with FAR: whether heads or columns lie further apart than 32 bits count.

    Registers are short, so offsets are of 32 bits in all but the largest tensors.
    """
    tensors = (x for x in arguments if isinstance(x, torch.Tensor))
    steps = (s * (n - 1) for x in tensors for s, n in zip(x.stride()[1:], x.shape[1:], strict=True))
    launch(kernel, programs, *arguments, FAR=any(abs(step) >= 2**31 for step in steps), **settings)


@dataclass(frozen=True)
class Fading:
    """How a state fades: by a gate a step, by gates a key dimension, or (nothing given) not at all.

    Attributes:
        gate: natural logarithms, ``(B, H, T)``, any strides.
        scores: products of all pairs of each chunk, gates included, ``(B, H, T, chunk)``.
        totals: base-2 logarithms, summed over each chunk, ``(B, H, chunks, D)``.
    """

    gate: torch.Tensor | None = None
    scores: torch.Tensor | None = None
    totals: torch.Tensor | None = None

    @property
    def kernel(self) -> str:
        """What ``tiles`` calls a walk with this fading."""
        return (
            "fading" if self.gate is not None else "scored" if self.scores is not None else "plain"
        )

    def over(self, span: int, chunk: int) -> torch.Tensor | None:
        """What segments of ``span`` steps leave of a state: ``(B, H, segments, 1 or D)``."""
        if self.gate is not None:
            return torch.exp(sums(self.gate.float().clamp(min=LEAST_GATE.value)[..., None], span))
        if self.totals is not None:
            return torch.exp2(sums(self.totals, span // chunk))
        return None


def sums(x: torch.Tensor, span: int) -> torch.Tensor:
    """Sums of ``span`` rows each, the last perhaps of fewer: ``(B, H, T, D) -> (B, H, n, D)``."""
    rows = torch.nn.functional.pad(x, (0, 0, 0, -x.shape[2] % span))
    return rows.unflatten(2, (-1, span)).sum(dim=3)


def join(
    states: torch.Tensor,
    fade: torch.Tensor | None,
    start: torch.Tensor | None,
    end: torch.Tensor | None,
    reverse: bool,
) -> None:
    """Launch ``join_kernel`` on states ``(B, H, segments, D, E)``; fills ``end``."""
    B, H, segments, D, E = states.shape
    blocks = -(-D * E // JOIN_BLOCK)
    launch_heads(
        join_kernel, blocks * H * B, states, fade, start, end, *strides(start, 4), *strides(end, 4),
        blocks, H, segments, D, E,
        REVERSE=reverse, FADES=1 if fade is None else fade.shape[-1], BLOCK=JOIN_BLOCK,
    )  # fmt: skip


def state_like(
    k: torch.Tensor,
    v: torch.Tensor,
    segments: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    """Make room for the states of k and v, ``(B, H, [segments,] D, D_v)``."""
    middle = () if segments is None else (segments,)
    shape = (*k.shape[:2], *middle, k.shape[-1], v.shape[-1])
    return torch.empty(shape, dtype=dtype, device=k.device)


def strides(x: torch.Tensor | None, count: int) -> tuple[int, ...]:
    """Return the first strides of ``x``, or zeros for what is left out."""
    return (0,) * count if x is None else tuple(x.stride()[:count])
