"""The backward kernels behind ``ssd``.

Equations and letters: see ``api``. Four launches, after the decays are made
again:

1. ``ssd_sweep_kernel`` forward in time makes the states again and writes the one each chunk starts
   from, in x's dtype, as matrix instructions read it.
2. The same kernel backward in time. The gradient of the state follows the state's own recurrence,
   with dy for x and C for B, and dx is read from it as y is from the state, with B for C: it is SSD
   run backward. It ends with the gradient of the initial state.
3. ``ssd_keys_kernel``: dB and dC as far as they come through those states.
4. ``ssd_scores_kernel``: dB and dC as they come through the scores inside a chunk; ddt and dA.

In 3 and 4 each chunk is a problem of its own. B and C belong to all the heads of a group, so a
program takes one chunk and up to MEMBERS heads, walks over them and adds up in registers. Where a
group has more heads, each program writes its share and a sum over the shares finishes them; dA and
dD are sums over chunks likewise. Nothing is added atomically: the same inputs give the same bits.

The gradient of the log decay a_r is the sum, over all j < r <= i, of what the loss owes to the flow
from step j to step i. Flows into the chunk (``entering``, i known), out of it (``leaving``, j
known), within it and across it are added up apart, all from their own terms: a difference of
running sums would cancel.

Tiles inside a chunk are transposed, earlier step × later step: dx and dB then need no transposed
accumulator, which some versions of Triton (3.4 to 3.7.0) miscompile on Hopper. dC does, and is
made as its transpose there, Bᵀ dS.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals
# Pyright takes a call from one jitted function to another for one that raises:
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

from attend_kernels.common.blocks import load_part, load_state, store_part, store_state
from attend_kernels.common.launch import launch
from attend_kernels.common.wide_products import dot_rows, dot_wide
from attend_kernels.ops.ssd import tiles as configs
from attend_kernels.ops.ssd.forward import (
    Inputs,
    constants,
    cut,
    decay_between,
    difference,
    extent,
    first_chunk,
    locate_chunk,
)
from attend_kernels.ops.ssd.tiles import Tile

MEMBERS = 8  # heads a program walks over for dB and dC


@triton.jit
def ssd_sweep_kernel(
    x_ptr, grad_ptr, logs_ptr, b_ptr, c_ptr, d_ptr, edge_ptr, starts_ptr, firsts_ptr,
    states_ptr, last_ptr, flows_ptr, dx_ptr,
    x_batch, x_row, x_head, grad_batch, grad_row, grad_head, b_batch, b_row, b_group,
    c_batch, c_row, c_group, dx_batch, dx_row, dx_head,
    tiles, heads, T,
    REVERSE: tl.constexpr,
    GROUP: tl.constexpr, P: tl.constexpr, BLOCK_P: tl.constexpr,
    N: tl.constexpr, CHUNK: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write BLOCK_P rows of the state at each chunk's start, and what flows out of it to the loss.

    REVERSE runs backward in time: dy comes as x, x as dy, C as B and B as C. Then it is the
    gradient of the state at each chunk's end and what flows into that, and dx is written too.
    ``edge`` is the state to begin with, ``last`` (if wanted) the one to end with.
    """
    BLOCKS: tl.constexpr = P // BLOCK_P
    pid = tl.program_id(0)
    block = pid % BLOCKS
    head = (pid // BLOCKS % heads).to(tl.int64)
    sequence = (pid // (BLOCKS * heads)).to(tl.int64)
    tile = first_chunk(sequence, firsts_ptr, T, CHUNK)
    start, T = extent(sequence, starts_ptr, T)
    x_ptr += sequence * x_batch + start * x_row + head * x_head + block * BLOCK_P
    grad_ptr += sequence * grad_batch + start * grad_row + head * grad_head + block * BLOCK_P
    dx_ptr += sequence * dx_batch + start * dx_row + head * dx_head + block * BLOCK_P
    b_ptr += sequence * b_batch + start * b_row + head // GROUP * b_group
    c_ptr += sequence * c_batch + start * c_row + head // GROUP * c_group
    plane = tl.cast(tiles, tl.int64) * heads * CHUNK
    flows_ptr += block * plane
    t = tl.arange(0, CHUNK)
    own_state = ((sequence * heads + head) * P + block * BLOCK_P) * N
    state = tl.zeros((N, BLOCK_P), tl.float32)
    if edge_ptr is not None:
        state = load_state(edge_ptr + own_state, 1, N, 0, N, BLOCK_P)
    chunks = tl.cdiv(T, CHUNK)
    for step in range(0, chunks):
        number = chunks - 1 - step if REVERSE else step
        first = number * CHUNK
        place = (tile + number) * heads + head
        logs = logs_ptr + place * CHUNK
        at = states_ptr + place * (N * P) + block * BLOCK_P
        store_state(at, P, 1, 0, state, N, BLOCK_P)
        b = load_part(b_ptr, first, b_row, T, CHUNK, N).to(DOT)
        c = load_part(c_ptr, first, c_row, T, CHUNK, N).to(DOT)
        x = load_part(x_ptr, first, x_row, T, CHUNK, BLOCK_P).to(DOT)
        grad = load_part(grad_ptr, first, grad_row, T, CHUNK, BLOCK_P)
        before = tl.exp2(tl.load(logs + plane + t))
        dt = tl.load(logs + t)
        after = tl.exp2(tl.load(logs + 2 * plane + t))
        read = dot_wide(c, state.to(DOT), PRECISION)  # (CHUNK, BLOCK_P)
        flow = tl.sum(read * grad.to(tl.float32), axis=1)
        weights = before if REVERSE else dt * after
        written = (x.to(tl.float32) * weights[:, None]).to(DOT)
        state *= tl.exp2(tl.load(logs + plane + CHUNK - 1))
        state = tl.dot(b.T, written, state, input_precision=PRECISION)
        if REVERSE:
            tl.store(flows_ptr + place * CHUNK + t, flow * after)
            # earlier × later
            scores = dot_rows(c, b, c_ptr, b_ptr, first, c_row, b_row, T, PRECISION)
            scores *= decay_between(logs, plane, 1, CHUNK, PRECISION == "ieee")
            read *= after[:, None]
            dx = tl.dot(scores.to(DOT), x, read, input_precision=PRECISION) * dt[:, None]
            if d_ptr is not None:
                dx += tl.load(d_ptr + head) * x.to(tl.float32)
            store_part(dx_ptr, first, dx_row, T, dx, CHUNK, BLOCK_P)
        else:
            tl.store(flows_ptr + place * CHUNK + t, flow * before)
    if last_ptr is not None:
        store_state(last_ptr + own_state, 1, N, 0, state, N, BLOCK_P)


@triton.jit
def ssd_keys_kernel(
    x_ptr, logs_ptr, grad_ptr, states_ptr, grad_states_ptr, starts_ptr, table_ptr,
    across_ptr, db_ptr, dc_ptr, dd_ptr,
    x_batch, x_row, x_head, grad_batch, grad_row, grad_head, db_batch, db_row, db_group, db_share,
    tiles, groups, T,
    MEMBERS: tl.constexpr, GROUP: tl.constexpr, P: tl.constexpr, BLOCK_P: tl.constexpr,
    N: tl.constexpr, CHUNK: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write what dB and dC owe to the states, of one chunk and MEMBERS heads, and what crosses it.

    y_i reads the state at the chunk's start, decayed; each step writes to the state at its end.
    """
    SHARES: tl.constexpr = (GROUP + MEMBERS - 1) // MEMBERS
    BLOCKS: tl.constexpr = P // BLOCK_P
    pid = tl.program_id(0)
    share = (pid % SHARES).to(tl.int64)
    group = (pid // SHARES % groups).to(tl.int64)
    tile = (pid // (SHARES * groups)).to(tl.int64)
    sequence, first, start, T = locate_chunk(tile, table_ptr, starts_ptr, T, CHUNK)
    if first >= T:
        return  # the table of a packed batch has a few rows to spare
    heads = groups * GROUP
    plane = tl.cast(tiles, tl.int64) * heads * CHUNK
    x_ptr += sequence * x_batch + start * x_row
    grad_ptr += sequence * grad_batch + start * grad_row
    t = tl.arange(0, CHUNK)
    db = tl.zeros((CHUNK, N), tl.float32)
    dc = tl.zeros((CHUNK, N), tl.float32)
    across = 0.0
    dd = 0.0
    for number in range(
        share * MEMBERS * BLOCKS, tl.minimum(share * MEMBERS + MEMBERS, GROUP) * BLOCKS
    ):
        block = number % BLOCKS
        head = group * GROUP + number // BLOCKS
        place = tile * heads + head
        logs = logs_ptr + place * CHUNK
        at = place * (N * P) + block * BLOCK_P
        x_at = x_ptr + head * x_head + block * BLOCK_P
        grad_at = grad_ptr + head * grad_head + block * BLOCK_P
        x = load_part(x_at, first, x_row, T, CHUNK, BLOCK_P).to(tl.float32)
        grad = load_part(grad_at, first, grad_row, T, CHUNK, BLOCK_P).to(tl.float32)
        dd = tl.where(block == 0, 0.0, dd) + tl.sum(x * grad)
        written = tl.load(logs + t) * tl.exp2(tl.load(logs + 2 * plane + t))
        x = (x * written[:, None]).to(DOT)
        grad_state = load_state(grad_states_ptr + at, P, 1, 0, N, BLOCK_P)
        db = tl.dot(x, grad_state.to(DOT).T, db, input_precision=PRECISION)
        before = tl.exp2(tl.load(logs + plane + t))
        grad = (grad * before[:, None]).to(DOT)
        state = load_state(states_ptr + at, P, 1, 0, N, BLOCK_P)
        dc = tl.dot(grad, state.to(DOT).T, dc, input_precision=PRECISION)
        flow = tl.sum(state * grad_state)
        across = tl.where(block == 0, 0.0, across) + flow
        tl.store(dd_ptr + place, dd)  # whole after the last block of the head
        tl.store(across_ptr + place, across * tl.exp2(tl.load(logs + plane + CHUNK - 1)))
    at = share * db_share + sequence * db_batch + start * db_row + group * db_group
    store_part(db_ptr + at, first, db_row, T, db, CHUNK, N)
    store_part(dc_ptr + at, first, db_row, T, dc, CHUNK, N)


@triton.jit
def ssd_scores_kernel(
    x_ptr, grad_ptr, logs_ptr, a_ptr, b_ptr, c_ptr, entering_ptr, leaving_ptr, across_ptr,
    starts_ptr, table_ptr, ddt_ptr, da_ptr, db_ptr, dc_ptr,
    x_batch, x_row, x_head, grad_batch, grad_row, grad_head, b_batch, b_row, b_group,
    c_batch, c_row, c_group, ddt_batch, ddt_row, ddt_head, db_batch, db_row, db_group, db_share,
    tiles, groups, T,
    PARTS: tl.constexpr, MEMBERS: tl.constexpr, GROUP: tl.constexpr,
    P: tl.constexpr, BLOCK_P: tl.constexpr, N: tl.constexpr,
    CHUNK: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write ddt and a chunk's share of dA; add to dB and dC what they owe to the scores.

    ``entering`` and ``leaving`` come in PARTS parts, from as many blocks of rows of the states.
    """
    SHARES: tl.constexpr = (GROUP + MEMBERS - 1) // MEMBERS
    BLOCKS: tl.constexpr = P // BLOCK_P
    pid = tl.program_id(0)
    share = (pid % SHARES).to(tl.int64)
    group = (pid // SHARES % groups).to(tl.int64)
    tile = (pid // (SHARES * groups)).to(tl.int64)
    sequence, first, start, T = locate_chunk(tile, table_ptr, starts_ptr, T, CHUNK)
    if first >= T:
        return
    heads = groups * GROUP
    plane = tl.cast(tiles, tl.int64) * heads * CHUNK
    t = tl.arange(0, CHUNK)
    x_ptr += sequence * x_batch + start * x_row
    grad_ptr += sequence * grad_batch + start * grad_row
    ddt_ptr += sequence * ddt_batch + (start + first) * ddt_row
    b_ptr += sequence * b_batch + start * b_row + group * b_group
    c_ptr += sequence * c_batch + start * c_row + group * c_group
    b = load_part(b_ptr, first, b_row, T, CHUNK, N).to(DOT)
    c = load_part(c_ptr, first, c_row, T, CHUNK, N).to(DOT)
    scores = tl.dot(b, c.T, input_precision=PRECISION)  # (CHUNK, CHUNK), earlier × later
    dscores = tl.zeros((CHUNK, CHUNK), tl.float32)
    sooner = (difference(t, 0) > 0).to(DOT)  # (r, j): 1 where j < r
    for member in range(share * MEMBERS, tl.minimum(share * MEMBERS + MEMBERS, GROUP)):
        head = group * GROUP + member
        place = tile * heads + head
        logs = logs_ptr + place * CHUNK
        dt = tl.load(logs + t)
        entering = tl.zeros((CHUNK,), tl.float32)
        ddt = tl.zeros((CHUNK,), tl.float32)
        for block in tl.static_range(PARTS):
            entering += tl.load(entering_ptr + block * plane + place * CHUNK + t)
            ddt += tl.load(leaving_ptr + block * plane + place * CHUNK + t)
        leaving = ddt * dt
        flow = tl.zeros((CHUNK, CHUNK), tl.float32)
        for block in tl.static_range(BLOCKS):
            x_at = x_ptr + head * x_head + block * BLOCK_P
            grad_at = grad_ptr + head * grad_head + block * BLOCK_P
            x = load_part(x_at, first, x_row, T, CHUNK, BLOCK_P).to(DOT)
            grad = load_part(grad_at, first, grad_row, T, CHUNK, BLOCK_P).to(DOT)
            flow = tl.dot(x, grad.T, flow, input_precision=PRECISION)
        flow *= decay_between(logs, plane, 1, CHUNK, PRECISION == "ieee")
        dscores += flow * dt[:, None]
        flow *= scores
        ddt += tl.sum(flow, axis=1)
        flow = (flow * dt[:, None]).to(DOT)
        past = tl.dot(sooner, flow, input_precision=PRECISION)  # sum over j < r: (r, i)
        past = tl.where(difference(t, 1) >= 0, past + entering[None, :], leaving[None, :])
        dlog = tl.sum(past, axis=1) + tl.load(across_ptr + place)
        ddt += tl.load(a_ptr + head) * dlog
        tl.store(ddt_ptr + head * ddt_head + t * ddt_row, ddt, mask=first + t < T)
        tl.store(da_ptr + place, tl.sum(dt * dlog, axis=0))
    db_ptr += share * db_share + sequence * db_batch + start * db_row + group * db_group
    db = load_part(db_ptr, first, db_row, T, CHUNK, N)
    db = tl.dot(dscores.to(DOT), c, db, input_precision=PRECISION)
    store_part(db_ptr, first, db_row, T, db, CHUNK, N)
    dc_ptr += share * db_share + sequence * db_batch + (start + first) * db_row + group * db_group
    n = tl.arange(0, N)[:, None]
    at = dc_ptr + t[None, :] * db_row + n
    real = (first + t < T)[None, :]
    dc = tl.load(at, mask=real, other=0.0)  # (N, CHUNK)
    dc = tl.dot(b.T, dscores.to(DOT), dc, input_precision=PRECISION)
    tl.store(at, dc, mask=real)


def backward(
    inputs: Inputs,
    grad: torch.Tensor,
    grad_final: torch.Tensor | None,
    chunk: int,
    tiles: dict[str, Tile] | None = None,
) -> list[torch.Tensor]:
    """Launch the backward kernels: gradients of x, dt, A, B, C, D and the initial state.

    Those of D and of the state are empty without one. ``grad`` has adjacent last axes, the gradient
    of the last states is contiguous.
    """
    x, dt, A, B, C, D = inputs.x, inputs.dt, inputs.A, inputs.B, inputs.C, inputs.D
    T, H, P = x.shape[1:]
    G, N = B.shape[2:]
    tile = {k: t for k, t in (tiles or configs.choose(x, N)).items() if k != "forward"}
    chunks = cut(inputs, min(chunk, *(t.chunk for t in tile.values())))
    setting = {name: constants(inputs, t, chunks.size) for name, t in tile.items()}
    blocks = -(-P // setting["sweep"]["BLOCK_P"])
    dx, ddt = inputs.empty(x), inputs.empty(dt)
    states, grad_states = x.new_empty(2, chunks.count, H, N, P)
    entering, leaving = dt.new_empty(2, blocks, chunks.count, H, chunks.size)
    dinitial = dt.new_empty((0,) if inputs.initial is None else inputs.state_shape())
    passes = (
        (False, x, grad, B, C, inputs.initial, states, None, entering),
        (True, grad, x, C, B, grad_final, grad_states, dinitial, leaving),
    )
    for reverse, values, other, write, read, edge, kept, last, flows in passes:
        launch(
            ssd_sweep_kernel, inputs.sequences * H * blocks, values, other, chunks.logs, write,
            read, D, edge, inputs.starts, chunks.firsts, kept,
            last if inputs.initial is not None else None, flows, dx,
            *inputs.strides(values, other, write, read, dx), chunks.count, H, T,
            REVERSE=reverse, **setting["sweep"],
        )  # fmt: skip

    shares = -(-H // (G * MEMBERS))
    make = torch.empty if inputs.starts is None else torch.zeros
    options = {"dtype": torch.float32, "device": x.device}
    db, dc = make((2, shares, *B.shape), **options)
    da, dd, across = make((3, chunks.count, H), **options)
    launch(
        ssd_keys_kernel, chunks.count * G * shares, x, chunks.logs, grad, states, grad_states,
        inputs.starts, chunks.table, across, db, dc, dd,
        *inputs.strides(x, grad, db[0]), db.stride(0), chunks.count, G, T,
        MEMBERS=MEMBERS, **setting["keys"],
    )  # fmt: skip
    launch(
        ssd_scores_kernel, chunks.count * G * shares, x, grad, chunks.logs, A, B, C,
        entering, leaving, across, inputs.starts, chunks.table, ddt, da, db, dc,
        *inputs.strides(x, grad, B, C, ddt, db[0]), db.stride(0), chunks.count, G, T,
        PARTS=blocks, MEMBERS=MEMBERS, **setting["scores"],
    )  # fmt: skip
    dd = dd.sum(0) if D is not None else dd.new_empty(0)
    return [dx, ddt, da.sum(0), db.sum(0).to(B.dtype), dc.sum(0).to(C.dtype), dd, dinitial]
