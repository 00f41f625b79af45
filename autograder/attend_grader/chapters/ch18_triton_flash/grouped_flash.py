"""Exercise 18_triton_flash/grouped_flash: a batch of heads that share keys and values."""

# pyright: reportArgumentType=false, reportCallIssue=false
# (a kernel's constants are plain numbers where it is launched)

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import triton_flash as answers
from attend_solutions.flash import hbm_traffic

from attend_grader.chapters.ch18_triton_flash.shared import (
    HALF,
    Case,
    as_edits,
    far,
    halves,
    right,
    seen,
)
from attend_grader.checks.compare import FLOAT32, Miss, expect_close
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.kernels import (
    clean_memory,
    compiles_as_launched,
    launched,
    right_values,
    within_budget,
)
from attend_grader.checks.subject import Subject, SubjectError
from attend_grader.checks.torch_numbers import normal
from attend_grader.inside.views import memories_of

Size = tuple[int, int, int, int, int, int]
"""B, H, G, T, S, D."""


ORDERS = (
    ((0, 2, 1, 3), (2, 0, 1, 3), (0, 1, 2, 3)),
    ((1, 2, 0, 3), (0, 2, 1, 3), (2, 1, 0, 3)),
)
"""Of q, k and v: which axis is outermost in memory, which next, …"""


def _heads(rng: np.random.Generator, size: Size) -> list[torch.Tensor]:
    b, h, g, t, s, d = size
    q, k, v = normal(rng, b, h, t, d), normal(rng, b, g, s, d), normal(rng, b, g, s, d)
    return [2 * q, k, v]


def _case(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *blocks: int) -> Case:
    (b, h, t, _), (g, s) = q.shape, k.shape[1:3]
    group = h // g
    wide = (x.repeat_interleave(group, 1) for x in (k, v))
    why = f"batch {b}, {h} query heads, {g} of keys and values, T {t}, S {s}"
    return why, Call((q, k, v, *blocks)), right(q, *wide, seen(t, s), lse=True)


def _alone(rng: np.random.Generator) -> Iterator[Case]:
    for size in ((2, 2, 2, 4, 4, 16), (3, 1, 1, 5, 21, 16)):
        yield _case(*_heads(rng, size))


def _grouped(rng: np.random.Generator) -> Iterator[Case]:
    for size, *blocks in (
        ((1, 4, 2, 17, 17, 16), 16, 16),
        ((2, 3, 1, 3, 3, 32), 16, 16),
        ((1, 4, 2, 16, 17, 16), 16, 32),
        ((1, 2, 1, 33, 35, 16), 32, 16),
    ):
        yield _case(*_heads(rng, size), *blocks)


def _longest(rng: np.random.Generator) -> Iterator[Case]:
    yield from _grouped(rng)
    for size, *blocks in (
        ((4, 16, 4, 1, 1, 16), 16, 16),
        ((1, 1, 1, 1, 512, 16), 16, 16),
        ((1, 1, 1, 512, 512, 16), 64, 64),
    ):
        yield _case(*_heads(rng, size), *blocks)


def _counted(rng: np.random.Generator) -> Iterator[Case]:
    yield from _grouped(rng)
    yield _case(*_heads(rng, (2, 1, 1, 17, 17, 16)), 16, 16)
    yield _case(*_heads(rng, (1, 2, 2, 17, 33, 16)), 16, 16)
    yield _case(*_heads(rng, (1, 1, 1, 33, 70, 16)), 16, 32)


def _float16(rng: np.random.Generator) -> Iterator[Case]:
    *_, large = far(rng, 5, 21, 16)
    for why, (q, k, v) in (*halves(rng, 5, 21, 16, 16), large):
        _, call, want = _case(q.repeat(1, 2, 1, 1), k[None, None], v[None, None])
        yield why, call, want


def _stored(x: torch.Tensor, *order: int) -> torch.Tensor:
    """The same numbers, with the axes in another order in memory."""
    return x.permute(order).contiguous().permute([order.index(axis) for axis in range(4)])


def _views(rng: np.random.Generator) -> Iterator[Case]:
    q, k, v = _heads(rng, (2, 4, 2, 3, 5, 16))
    for orders in ORDERS:
        views = [_stored(x, *order) for x, order in zip((q, k, v), orders, strict=True)]
        why, call, want = _case(*views)
        yield f"axes in another order in memory; {why}", call, want


VIEWS = right_values("views with strides of their own", _views)


def _views_and_no_gaps(subject: Subject, probe: Probe) -> None:
    """Views are read right, and the results of a view are no views."""
    VIEWS.test(subject, probe)
    why, call, want = next(_views(probe.rng))
    outcome = subject.run(call.args, launcher=f"{memories_of.__module__}:{memories_of.__name__}")
    given = probe.given(call.args, call.kwargs)
    if outcome.error is not None:
        raise SubjectError(outcome.error, given)
    try:
        expect_close(outcome.value, tuple(x.reshape(-1) for x in want), FLOAT32)
    except Miss as miss:
        text = "in memory, the numbers of your results do not lie head after head, row after row."
        cause = "Output and LSE have no gaps, whatever the strides of q, k and v are."
        raise Miss(text, miss.evidence, cause, "results with gaps").on(given, why) from None


def _half(rng: np.random.Generator) -> Iterator[Case]:
    q, k, v = (x.half() for x in _heads(rng, (1, 2, 1, 64, 64, 64)))
    yield "", Call((q, k, v, 64, 64)), None


def _all(rng: np.random.Generator) -> Iterator[Case]:
    yield _case(*_heads(rng, (2, 3, 1, 17, 19, 16)))
    yield from _views(rng)


def _bytes(call: Call) -> int:
    q, k, _, block_t, block_s = call.args
    (b, h, t, d), s = q.shape, k.shape[2]
    return b * h * hbm_traffic(t, s, d, block_t, block_s, causal=True, itemsize=4)


MOVES = within_budget("moves the bytes of chapter 16's count, no more", _counted, _bytes, factor=1)


def _moves_and_copies_little(subject: Subject, probe: Probe) -> None:
    """The kernel moves what is counted, and no key was copied beforehand for each query head."""
    MOVES.test(subject, probe)
    why, call, _ = next(_grouped(probe.rng))
    passed = launched(subject, probe, call).trace[-1]["buffers"].get("k", {}).get("elements", 0)
    if passed > call.args[1].numel():
        raise Miss(
            f"the kernel is passed {passed:,} numbers as k, and k has {call.args[1].numel():,}.",
            cause="Do not copy keys for each query head: query head h reads key head h // GROUP.",
            topic="keys copied",
        ).on(probe.given(call.args, call.kwargs), why)


def draws(rng: np.random.Generator) -> list[Call]:
    """Heads alone and in groups, one batch entry and several, a view."""
    sizes: tuple[Size, ...] = (
        (2, 4, 2, 5, 9, 16),
        (1, 3, 3, 4, 4, 16),
        (1, 6, 2, 3, 5, 16),
        (1, 2, 1, 17, 17, 16),
        (1, 2, 2, 5, 21, 16),
    )
    cases = [_case(*_heads(rng, size)) for size in sizes]
    q, k, v = _heads(rng, (2, 2, 2, 6, 6, 16))
    views = _stored(q, 0, 2, 1, 3), _stored(k, 2, 0, 1, 3), _stored(v, 0, 2, 1, 3)
    others = _stored(q, 2, 1, 0, 3), k, v
    return [call for _, call, _ in (*cases, _case(*views), _case(*others))]


BATCH = "batch = tl.program_id(1) // H"
HEAD = "head = tl.program_id(1) % H"
K = "k_ptr += batch * k_batch + head // GROUP * k_head"
V = "v_ptr += batch * v_batch + head // GROUP * v_head"
STOP = "stop = tl.minimum(S, (tl.program_id(0) + 1) * BLOCK_T + S - T)"
OUT = "out_ptr += tl.program_id(1) * T * D\n"
SEEN = "seen = (s[None, :] <= t[:, None] + S - T) & (s[None, :] < S)"
GRID = "grid = (triton.cdiv(T, block_t), B * H)"

SLIPS = (
    Slip(
        "heads dealt out in turn",
        ((K, K.replace("head // GROUP", "head % (H // GROUP)")),
         (V, V.replace("head // GROUP", "head % (H // GROUP)"))),
        "Query heads are dealt out to key heads in turn. Neighbours should share: let query head "
        "h read key head h // GROUP.",
    ),
    Slip(
        "heads dealt out by the rest",
        ((K, K.replace("head // GROUP", "head % GROUP")),
         (V, V.replace("head // GROUP", "head % GROUP"))),
        "Query head h reads key head h % GROUP. Neighbours should share: let it read h // GROUP.",
    ),
    Slip(
        "as many heads in a group as there are groups",
        ("GROUP=H // G", "GROUP=G"),
        "Query heads are grouped as if GROUP were G, the number of groups. It should be H // G.",
    ),
    Slip(
        "batch and head the wrong way round",
        ((BATCH, "batch = tl.program_id(1) % H"), (HEAD, "head = tl.program_id(1) // H")),
        "Program (i, j) comes out as if its head were j // H and its batch entry j % H. Exchange "
        "the two.",
    ),
    Slip(
        "every query head with keys of its own",
        ((K, K.replace("head // GROUP", "head")), (V, V.replace("head // GROUP", "head"))),
        "Query head h reads key head h, and there are only G of those. It should read h // GROUP.",
    ),
    Slip(
        "the batch forgotten in k and v",
        ((K, K.replace("batch * k_batch + ", "")), (V, V.replace("batch * v_batch + ", ""))),
        "All batch entries read the keys and values of the first one: add batch · stride to their "
        "pointers too.",
    ),
    Slip(
        "the batch forgotten in k",
        (K, K.replace("batch * k_batch + ", "")),
        "All batch entries read the keys of the first one: add batch · stride to their pointer "
        "too.",
    ),
    Slip(
        "the batch forgotten in v",
        (V, V.replace("batch * v_batch + ", "")),
        "All batch entries read the values of the first one: add batch · stride to their pointer "
        "too.",
    ),
    Slip(
        "batch and head exchanged",
        ((BATCH, "batch = tl.program_id(1) % tl.cdiv(tl.num_programs(1), H)"),
         (HEAD, "head = tl.program_id(1) // tl.cdiv(tl.num_programs(1), H)")),
        "Heads are read in one order and stored in another, as if one had the batch as the faster "
        "number and the other the head. Let the head be the faster one in both.",
    ),
    Slip(
        "the batch forgotten",
        (BATCH, "batch = 0"),
        "All batch entries get the result of the first one: add batch · stride to the pointers of "
        "q, k and v.",
    ),
    Slip(
        "rows taken for contiguous in q",
        ("t[:, None] * q_row", "t[:, None] * D"),
        "Rows of q are taken to be D numbers apart. In a view they are q_row apart.",
    ),
    Slip(
        "rows taken for contiguous in k",
        ("s[:, None] * k_row", "s[:, None] * D"),
        "Rows of k are taken to be D numbers apart. In a view they are k_row apart.",
    ),
    Slip(
        "rows taken for contiguous in v",
        ("s[:, None] * v_row", "s[:, None] * D"),
        "Rows of v are taken to be D numbers apart. In a view they are v_row apart.",
    ),
    Slip(
        "rows taken for contiguous in k and v",
        (("s[:, None] * k_row", "s[:, None] * D"), ("s[:, None] * v_row", "s[:, None] * D")),
        "Rows of k and v are taken to be D numbers apart. In a view they are k_row and v_row "
        "apart.",
    ),
    Slip(
        "v with the strides of k",
        ((V, V.replace("v_batch", "k_batch").replace("v_head", "k_head")),
         ("s[:, None] * v_row", "s[:, None] * k_row")),
        "v is read with the strides of k. They may be views of different kinds.",
    ),
    Slip(
        "tiles after the diagonal are read",
        (STOP, "stop = S"),
        "Tiles after the last query's place are read, though no query of the program may see them. "
        "End the loop at min(S, the first query's place + BLOCK_T).",
    ),
    Slip(
        "ended without S − T",
        (STOP, "stop = tl.minimum(S, (tl.program_id(0) + 1) * BLOCK_T)"),
        "Where T < S, keys may be left out, as if the loop's end left S − T out. Query t stands "
        "at t + S − T.",
    ),
    Slip(
        "queries counted from the first key",
        (SEEN, SEEN.replace(" + S - T", "")),
        "Query t comes out as if it stood at t, which is right where T = S only. The last query "
        "stands at the last key, so place query t at t + S − T, in the mask too.",
    ),
    Slip(
        "the output of all heads in one place",
        (OUT, "out_ptr += 0\n"),
        "All heads write their output to the same T · D places. Head number i of the whole batch "
        "should begin at i · T · D.",
    ),
    Slip(
        "the LSE of all heads in one place",
        ("lse_ptr += tl.program_id(1) * T\n", "lse_ptr += 0\n"),
        "All heads write their LSE to the same T places. Head number i of the whole batch should "
        "begin at i · T.",
    ),
    Slip(
        "heads of the first batch entry only",
        (GRID, "grid = (triton.cdiv(T, block_t), H)"),
        "Heads of the first batch entry only are computed. The grid should have programs for all "
        "B · H heads.",
    ),
)  # fmt: skip

ALTERNATIVES = as_edits(
    answers.grouped_flash,
    {
        "three axes of programs": (
            (BATCH, "batch = tl.program_id(2)"),
            (HEAD, "head = tl.program_id(1)"),
            ("out_ptr += tl.program_id(1) * T * D", "out_ptr += (batch * H + head) * T * D"),
            ("lse_ptr += tl.program_id(1) * T\n", "lse_ptr += (batch * H + head) * T\n"),
            (GRID, "grid = (triton.cdiv(T, block_t), H, B)"),
        ),
        "heads by division, rows by offsets": (
            (HEAD, "head = tl.program_id(1) - batch * H"),
            (K, "group = head // GROUP\n    k_ptr = k_ptr + batch * k_batch + group * k_head"),
            (V, "v_ptr = v_ptr + batch * v_batch + group * v_head"),
            (GRID, "grid = (-(-T // block_t), q.shape[0] * q.shape[1])"),
        ),
    },
)  # fmt: skip

EXERCISE = Exercise(
    chapter="18_triton_flash",
    title="All heads of a batch",
    goal="Give each program its head: grouped heads, any strides; the launch is yours too.",
    reference=answers.grouped_flash,
    contract=Contract(
        arguments_unchanged=True,
        says=(
            "B is at most 4, H at most 16 and a multiple of G; S is at most 512, and T at most S.",
            "The first three axes of q, k and v may have any order in memory.",
            "float32 or float16; sums and results are float32.",
            "A program reads each tile that one of its queries may see once, and no other.",
            "With float16, width 64 and tiles of 64 × 64 it compiles for an H100 without spilling "
            "registers.",
        ),
    ),
    properties=(
        right_values("heads with keys of their own", _alone),
        right_values("grouped heads", _longest),
        right_values("float16 in, float32 in the sums", _float16, tolerance=HALF, same_types=True),
        Property(VIEWS.name, 1, _views_and_no_gaps),
        clean_memory("stays inside its buffers; no two programs write one place", _all),
        Property(MOVES.name, 1, _moves_and_copies_little),
        compiles_as_launched(
            "compiles for an H100, on its tensor cores, without spills", _half, uses=("HGMMA",)
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=ALTERNATIVES,
    hints=(
        "The second number of a program, tl.program_id(1), runs over B · H heads. Which batch "
        "entry and which head is number 5, if H is 4?",
        "batch = number // H, head = number % H; keys and values come from head // GROUP. Move "
        "each pointer to its head once, before the loop: q_ptr += batch * q_batch + head * q_head.",
        "Output and LSE have no gaps: head number i begins at i * T * D and i * T. In the loop, "
        "rows of k are k_row apart: k_ptr + s[:, None] * k_row + d[None, :]. The grid is "
        "(triton.cdiv(T, block_t), B * H), GROUP is H // G.",
    ),
    minutes=20,
    difficulty=3,
    importance=4,
    results=("output", "LSE"),
)
