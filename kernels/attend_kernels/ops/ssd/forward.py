"""The forward kernel behind ``ssd`` and what it shares with the backward kernels.

Equations, letters and memory traffic: see ``api``. One program owns BLOCK_P
rows of the state of one head of one sequence. It walks over the chunks with that state in
registers, so no state reaches memory but the last.

The state is held as its transpose, (N, BLOCK_P): its first side is then 16 to 256 long however few
rows of the state a program owns, and a matrix instruction wants the first side long.

Decays live in base 2 (``exp2`` is one instruction on a GPU, ``exp`` is two) and as running sums of
their logarithms from the chunk's start, ``since``, which a small kernel writes beforehand. The
decay from step j to step i is exp2(since_i - since_j). A difference of two large sums has lost the
digits that a small decay rate needs, so the sums are made in float64, and fp32 products come with
what rounding took from them: as exact as ``segsum``, which adds up each segment anew. Above the
diagonal the difference is positive and could overflow: it is replaced before exp2 sees it.

Rows after the end load as 0. Then dt = 0, the decay is 1 and nothing is written: such a step leaves
the state alone, and the last chunk needs no other care.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals
# Pyright takes a call from one jitted function to another for one that raises:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from attend_kernels.common import devices, fallback
from attend_kernels.common.blocks import load_part, load_state, store_part, store_state
from attend_kernels.common.launch import LOG2E, TRITON_TYPES, launch
from attend_kernels.common.packing import Packing, schedule
from attend_kernels.common.wide_products import dot_rows, dot_wide
from attend_kernels.ops.ssd import tiles as configs
from attend_kernels.ops.ssd.tiles import Tile

HIDDEN = tl.constexpr(-1e30)  # logarithm of the decay from a later step to an earlier one


@triton.jit
def extent(sequence, starts_ptr, T):
    """First row and length of a sequence; a dense batch has none to look up."""
    start = tl.full((), 0, tl.int64)
    if starts_ptr is not None:
        start = tl.load(starts_ptr + sequence).to(tl.int64)
        T = (tl.load(starts_ptr + sequence + 1) - start).to(tl.int32)
    return start, T


@triton.jit
def first_chunk(sequence, firsts_ptr, T, CHUNK: tl.constexpr):
    """Where the chunks of a sequence begin among all chunks."""
    if firsts_ptr is None:
        return sequence * tl.cdiv(T, CHUNK)
    else:
        return tl.load(firsts_ptr + sequence).to(tl.int64)


@triton.jit
def locate_chunk(tile, table_ptr, starts_ptr, T, CHUNK: tl.constexpr):
    """Sequence of a chunk, its first row there, and the sequence's first row and length."""
    if table_ptr is not None:
        sequence = tl.load(table_ptr + 2 * tile).to(tl.int64)
        first = tl.load(table_ptr + 2 * tile + 1)
    else:
        chunks = tl.cdiv(T, CHUNK)
        sequence = tile // chunks
        first = (tile % chunks).to(tl.int32) * CHUNK
    start, T = extent(sequence, starts_ptr, T)
    return sequence, first, start, T


@triton.jit
def ssd_decays_kernel(
    dt_ptr, a_ptr, logs_ptr, starts_ptr, table_ptr, dt_batch, dt_row, dt_head,
    tiles, heads, T, CHUNK: tl.constexpr, BLOCK_H: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Write dt and logarithms of decays, (planes, tiles, heads, CHUNK), for BLOCK_H heads.

    Planes: dt, since, until and, if EXACT, what rounding took from since.
    """
    pid = tl.program_id(0)
    blocks = tl.cdiv(heads, BLOCK_H)
    tile = (pid // blocks).to(tl.int64)
    sequence, first, start, T = locate_chunk(tile, table_ptr, starts_ptr, T, CHUNK)
    t = tl.arange(0, CHUNK)[:, None]
    head = pid % blocks * BLOCK_H + tl.arange(0, BLOCK_H)[None, :]
    dt_ptr += sequence * dt_batch + (start + first) * dt_row
    real = head < heads
    dt = tl.load(dt_ptr + t * dt_row + head * dt_head, mask=real & (first + t < T), other=0.0)
    logs = dt.to(tl.float64) * (tl.load(a_ptr + head, mask=real, other=0.0).to(tl.float64) * LOG2E)
    since = tl.cumsum(logs, 0)
    until = tl.sum(logs, 0)[None, :] - since
    high = since.to(tl.float32)
    plane = tl.cast(tiles, tl.int64) * heads * CHUNK
    at = logs_ptr + (tile * heads + head) * CHUNK + t
    tl.store(at, dt, mask=real)
    tl.store(at + plane, high, mask=real)
    tl.store(at + 2 * plane, until.to(tl.float32), mask=real)
    if EXACT:
        tl.store(at + 3 * plane, (since - high.to(tl.float64)).to(tl.float32), mask=real)


@triton.jit
def decay_between(logs_ptr, plane, LATER: tl.constexpr, CHUNK: tl.constexpr, EXACT: tl.constexpr):
    """Decay from each step of a chunk to each other, 0 back in time; axis LATER is the later."""
    t = tl.arange(0, CHUNK)
    log = difference(tl.load(logs_ptr + plane + t), LATER)
    if EXACT:
        log += difference(tl.load(logs_ptr + 3 * plane + t), LATER)
    return tl.exp2(tl.where(difference(t, LATER) >= 0, log, HIDDEN))


@triton.jit
def difference(v, LATER: tl.constexpr):
    """v_i - v_j for all pairs; i runs along axis LATER."""
    return v[:, None] - v[None, :] if LATER == 0 else v[None, :] - v[:, None]


@triton.jit
def ssd_forward_kernel(
    x_ptr, logs_ptr, b_ptr, c_ptr, d_ptr, initial_ptr, starts_ptr, firsts_ptr, y_ptr, final_ptr,
    x_batch, x_row, x_head, b_batch, b_row, b_group, c_batch, c_row, c_group,
    y_batch, y_row, y_head,
    tiles, heads, T,
    GROUP: tl.constexpr, P: tl.constexpr, BLOCK_P: tl.constexpr,
    N: tl.constexpr, CHUNK: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write BLOCK_P columns of y over all of time, and as many rows of the last state."""
    BLOCKS: tl.constexpr = P // BLOCK_P
    pid = tl.program_id(0)
    block = pid % BLOCKS
    head = (pid // BLOCKS % heads).to(tl.int64)  # heads of a group run side by side: B, C in L2
    sequence = (pid // (BLOCKS * heads)).to(tl.int64)
    tile = first_chunk(sequence, firsts_ptr, T, CHUNK)
    start, T = extent(sequence, starts_ptr, T)
    logs_ptr += (tile * heads + head) * CHUNK
    plane = tl.cast(tiles, tl.int64) * heads * CHUNK
    x_ptr += sequence * x_batch + start * x_row + head * x_head + block * BLOCK_P
    b_ptr += sequence * b_batch + start * b_row + head // GROUP * b_group
    c_ptr += sequence * c_batch + start * c_row + head // GROUP * c_group
    y_ptr += sequence * y_batch + start * y_row + head * y_head + block * BLOCK_P
    own_state = ((sequence * heads + head) * P + block * BLOCK_P) * N
    state = tl.zeros((N, BLOCK_P), tl.float32)
    if initial_ptr is not None:
        state = load_state(initial_ptr + own_state, 1, N, 0, N, BLOCK_P)
    t = tl.arange(0, CHUNK)
    for first in range(0, T, CHUNK):
        b = load_part(b_ptr, first, b_row, T, CHUNK, N).to(DOT)
        c = load_part(c_ptr, first, c_row, T, CHUNK, N).to(DOT)
        x = load_part(x_ptr, first, x_row, T, CHUNK, BLOCK_P).to(DOT)
        dt = tl.load(logs_ptr + t)
        y = dot_wide(c, state.to(DOT), PRECISION)  # (CHUNK, BLOCK_P)
        y *= tl.exp2(tl.load(logs_ptr + plane + t))[:, None]
        scores = dot_rows(  # (CHUNK, CHUNK), later × earlier
            c, b, c_ptr, b_ptr, first, c_row, b_row, T, PRECISION
        )
        scores *= decay_between(logs_ptr, plane, 0, CHUNK, PRECISION == "ieee")
        values = (x * dt[:, None]).to(DOT)
        y = tl.dot(scores.to(DOT), values, y, input_precision=PRECISION)
        if d_ptr is not None:
            y += tl.load(d_ptr + head) * x.to(tl.float32)
        store_part(y_ptr, first, y_row, T, y, CHUNK, BLOCK_P)
        written = (x * (dt * tl.exp2(tl.load(logs_ptr + 2 * plane + t)))[:, None]).to(DOT)
        state *= tl.exp2(tl.load(logs_ptr + plane + CHUNK - 1))
        state = tl.dot(b.T, written, state, input_precision=PRECISION)
        logs_ptr += heads * CHUNK
    store_state(final_ptr + own_state, 1, N, 0, state, N, BLOCK_P)


@dataclass(frozen=True)
class Inputs:
    """The tensors of one call: x, B, C of one dtype with adjacent last axes, the rest fp32.

    ``starts`` (int32) are those of packed sequences, with B = 1, or None.
    """

    x: torch.Tensor  # (B, T, H, P)
    dt: torch.Tensor  # (B, T, H)
    A: torch.Tensor  # (H,)
    B: torch.Tensor  # (B, T, G, N)
    C: torch.Tensor
    D: torch.Tensor | None  # (H,)
    initial: torch.Tensor | None  # (sequences, H, P, N), contiguous
    starts: torch.Tensor | None  # (sequences + 1,)

    @property
    def sequences(self) -> int:
        """How many states there are."""
        return self.x.shape[0] if self.starts is None else len(self.starts) - 1

    def state_shape(self) -> tuple[int, int, int, int]:
        """Shape of the states of all sequences."""
        return self.sequences, self.x.shape[2], self.x.shape[3], self.B.shape[-1]

    def strides(self, *tensors: torch.Tensor) -> list[int]:
        """Batch, row and head strides of each; packed sequences are told apart by rows alone."""
        found = []
        for tensor in tensors:
            batch, row, head = tensor.stride()[:3]
            found += [batch if self.starts is None else 0, row, head]
        return found

    def empty(self, like: torch.Tensor) -> torch.Tensor:
        """A result to fill; zeros where packed rows may belong to no sequence."""
        make = torch.empty if self.starts is None else torch.zeros
        return make(like.shape, dtype=like.dtype, device=like.device)


@dataclass(frozen=True)
class Chunks:
    """How time is cut, and the decays in each chunk."""

    size: int
    count: int
    table: torch.Tensor | None  # (count, 2): sequence, first row; None for a dense batch
    firsts: torch.Tensor | None  # (sequences + 1,): each sequence's first chunk
    logs: torch.Tensor  # (planes, count, H, size), see ssd_decays_kernel


def cut(inputs: Inputs, size: int) -> Chunks:
    """Cut time into chunks and launch the kernel that adds up the decays in them."""
    T, H = inputs.x.shape[1:3]
    count, table, firsts = inputs.sequences * -(-T // size), None, None
    if inputs.starts is not None:
        packing = Packing(inputs.starts, inputs.starts)
        count, table, _ = schedule(T, packing, size, over_queries=True)
        ends = ((inputs.starts.diff() + (size - 1)) // size).cumsum(0)
        firsts = torch.nn.functional.pad(ends, (1, 0))
    exact = precision(inputs.x) == "ieee"
    logs = inputs.dt.new_empty(3 + exact, count, H, size)
    block = min(16, 1 << (H - 1).bit_length())
    launch(
        ssd_decays_kernel, count * -(-H // block), inputs.dt, inputs.A, logs,
        inputs.starts, table, *inputs.strides(inputs.dt), count, H, T,
        CHUNK=size, BLOCK_H=block, EXACT=exact, num_warps=4,
    )  # fmt: skip
    return Chunks(size, count, table, firsts, logs)


def forward(inputs: Inputs, chunk: int, tiles: dict[str, Tile] | None = None) -> list[torch.Tensor]:
    """Launch the forward kernel: y like x, and the last states (sequences, H, P, N) in fp32."""
    x = inputs.x
    tile = (tiles or configs.choose(x, inputs.B.shape[-1]))["forward"]
    chunks = cut(inputs, min(chunk, tile.chunk))
    y = inputs.empty(x)
    final = torch.empty(inputs.state_shape(), dtype=torch.float32, device=x.device)
    settings = constants(inputs, tile, chunks.size)
    programs = inputs.sequences * x.shape[2] * -(-x.shape[3] // settings["BLOCK_P"])
    launch(
        ssd_forward_kernel, programs, x, chunks.logs, inputs.B, inputs.C, inputs.D,
        inputs.initial, inputs.starts, chunks.firsts, y, final,
        *inputs.strides(x, inputs.B, inputs.C, y), chunks.count, x.shape[2], x.shape[1], **settings,
    )  # fmt: skip
    return [y, final]


def constants(inputs: Inputs, tile: Tile, chunk: int) -> dict[str, Any]:
    """Compile-time values of the kernels."""
    x = inputs.x
    # The interpreter multiplies bf16 as the integers that store it: widen there.
    narrow = x.dtype != torch.float32 and not fallback.interpreted()
    return {
        "GROUP": x.shape[2] // inputs.B.shape[2],
        "P": x.shape[3],
        "BLOCK_P": min(x.shape[3], tile.block_p),
        "N": inputs.B.shape[3],
        "CHUNK": chunk,
        "DOT": TRITON_TYPES[x.dtype] if narrow else tl.float32,
        "PRECISION": precision(x),
        "num_warps": tile.warps,
        "num_stages": tile.stages,
    }


def precision(x: torch.Tensor) -> str:
    """How products round their factors: "ieee" is not at all."""
    exact = x.dtype == torch.float32 and not devices.tf32_allowed()
    return "ieee" if exact else "tf32"
