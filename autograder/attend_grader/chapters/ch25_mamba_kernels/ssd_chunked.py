"""Exercise 25_mamba_kernels/ssd_chunked: attention within chunks, the recurrence between them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from attend_solutions import mamba_kernels as answers
from torch.nn import functional

from attend_grader.chapters.ch25_mamba_kernels import READY_MADE
from attend_grader.chapters.ch25_mamba_kernels.shared import expect_faint, sequence
from attend_grader.checks.compare import FLOAT32, Miss
from attend_grader.checks.contract import FLOAT64
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees, known, worked
from attend_grader.checks.properties import expect_growth
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import normal


def _case(rng: np.random.Generator, chunk: int, *sizes: int, going_on: bool = False) -> Call:
    batch, _, heads, width, state = sizes
    more = (normal(rng, batch, heads, width, state),) if going_on else ()
    return Call((*sequence(rng, *sizes), chunk, *more))


def _whole(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for chunk, *sizes in ((2, 2, 6, 3, 4, 2), (3, 3, 9, 3, 3, 3), (4, 1, 8, 1, 2, 5)):
        yield f"{sizes[1]} steps in chunks of {chunk}", _case(rng, chunk, *sizes)


def _ragged(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for chunk, tokens in ((3, 7), (4, 5), (1, 3), (9, 4), (2, 1), (5, 5)):
        yield f"{tokens} steps in chunks of {chunk}", _case(rng, chunk, 2, tokens, 2, 3, 2)


def _goes_on(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for chunk, *sizes in ((2, 2, 5, 3, 2, 4), (4, 1, 4, 2, 3, 1), (8, 2, 3, 1, 1, 2)):
        yield "a state is given", _case(rng, chunk, *sizes, going_on=True)
    x, log_decay, b, c, chunk, state = _case(rng, 2, 2, 1, 3, 2, 4, going_on=True).args
    faded = Call((0 * x, torch.full_like(log_decay, -25), b, 1e10 * c, chunk, 1e10 * state))
    yield "a state and c of 10¹⁰, a log decay of −25", faded


def _strong(rng: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    x, log_decay, b, c = sequence(rng, 2, 6, 2, 3, 4)
    alone = (c * b).sum(-1)[..., None, None] * x
    last = x[:, -1, :, :, None] * b[:, -1, None, None, :]
    yield (
        "log decays of −33: e⁹⁹ is infinite in float32",
        (x, torch.full_like(log_decay, -33), b, c, 3),
        (alone, last),
    )


STRONG = known("strong decays do not overflow", _strong, tolerance=FLOAT32)


def _strong_and_faint(subject: Subject, probe: Probe) -> None:
    """Where decays are strong, what is left counts as well, in one chunk or from chunk to chunk."""
    STRONG.test(subject, probe)
    for chunk in (1, 2, 3):
        expect_faint(subject, probe, chunk)


CUTS = (
    (15, 119, lambda tokens: tokens // 2 + 1, False),
    (18, 126, lambda tokens: tokens // 2, True),
)
"""A short and a long text, their chunk, whether a state is given: of two even chunks, the second
not full, and of two odd ones."""

ADVICE = "Is there a matrix of T × T numbers? Within chunks, Q × Q are enough."


def _cheap(subject: Subject, probe: Probe) -> None:
    """No loop over the steps of a chunk, and no T × T matrix."""
    why = "cost counts for right values only"
    probe.agree(subject, *sequence(probe.rng, 1, 8, 1, 2, 2), 4, tolerance=FLOAT32, why=why)
    seed = int(probe.rng.integers(2**31))

    def made(tokens: int, chunk: int, *, state: bool) -> tuple[Any, ...]:
        rng = np.random.default_rng(seed)
        more = (normal(rng, 1, 1, 1, 1),) if state else ()
        return (*sequence(rng, 1, tokens, 1, 1, 1), chunk, *more)

    for few, many, cut, state in CUTS:
        expect_growth(
            subject,
            lambda tokens, cut=cut, state=state: made(tokens, cut(tokens), state=state),
            sizes=(few, many),
            at_most=3,
            cost="steps",
            of=f"steps in chunks {many // few} times as long",
            advice="Is there a loop over the steps of a chunk? Within a chunk, all go at once.",
        )
    short = [(9, 3, False), (9, 3, True), (12, 4, True), (11, 4, False)]  # its last is not full
    for tokens, chunk, state in (*short, (384, 48, False), (375, 47, True)):
        call = made(tokens, chunk, state=state)
        each = 4 if tokens < 100 else 1  # bytes: a long text's mask of truth values is seen too
        if subject.run(call, measure=True).tensor_bytes >= each * tokens**2:
            raise Miss(
                f"too large: {tokens} steps in chunks of {chunk} make a tensor of {tokens} × "
                f"{tokens} numbers. {ADVICE}",
                topic="a matrix of T × T numbers",
            )


def draws(rng: np.random.Generator) -> list[Call]:
    """Chunks that fit and that do not, one chunk, chunks of one; a state given, all forgotten."""
    x, log_decay, b, c = sequence(rng, 1, 5, 2, 2, 3)
    return [
        _case(rng, 3, 2, 6, 3, 4, 2),
        _case(rng, 3, 2, 5, 2, 3, 4, going_on=True),
        _case(rng, 1, 1, 5, 2, 2, 3, going_on=True),
        _case(rng, 2, 2, 1, 2, 3, 4, going_on=True),
        Call((x, torch.full_like(log_decay, -50), b, c, 2)),
        Call((*sequence(rng, 1, 3, 2, 2, 3), 2, torch.zeros(1, 2, 2, 3))),
    ]


def one_matrix(x, log_decay, b, c, chunk, state=None):  # noqa: D103 (told is the slip's)
    del chunk
    since = torch.exp(log_decay.cumsum(1))[..., None]
    until = torch.exp(answers.segsum(log_decay.mT)[..., -1, :]).mT[..., None]
    y = answers.ssd_quadratic(x, log_decay, b, c)
    last = torch.einsum("bqhd,bqn->bhdn", until * x, b)
    if state is None:
        return y, last
    y = y + since * torch.einsum("bqn,bhdn->bqhd", c, state)
    return y, since[:, -1, :, :, None] * state + last


def step_by_step(x, log_decay, b, c, chunk, state=None):  # noqa: D103
    del chunk
    batch, tokens, heads, width = x.shape
    h = x.new_zeros(batch, heads, width, b.shape[-1]) if state is None else state
    rows = []
    for t in range(tokens):
        h = torch.exp(log_decay[:, t])[..., None, None] * h
        h = h + x[:, t, :, :, None] * b[:, t, None, None, :]
        rows.append((h * c[:, t, None, None, :]).sum(-1))
    return torch.stack(rows, dim=1), h


UNTIL = "torch.exp(segsum(logs.mT)[..., -1, :]).mT[..., None]"

SLIPS = (
    Slip(
        "one matrix for the whole text",
        one_matrix,
        "Values are right, but a tensor of T × T numbers is made, although chunks are shorter.",
    ),
    Slip(
        "step by step",
        step_by_step,
        "Values are right, but it takes a step of Python for each step of the text, whatever the "
        "chunk is. Within a chunk do all steps at once, by ssd_quadratic.",
    ),
    Slip(
        "whole chunks only",
        (
            ("range(0, x.shape[1], chunk)", "range(0, x.shape[1] - chunk + 1, chunk)"),
            ("torch.cat(read,", "torch.cat([*read, 0 * x[:, x.shape[1] // chunk * chunk :]],"),
        ),
        "The steps of a last, shorter chunk give 0 and write nothing. It should count like the "
        "others.",
    ),
    Slip(
        "the state is not read",
        (" + since * before)", ")"),
        "Each chunk sees only itself: what earlier chunks have written is not read.",
    ),
    Slip(
        "the state is read unfaded",
        (" + since * before)", " + before)"),
        "The state before a chunk is read without the decay since the chunk's start. Step t of a "
        "chunk should fade it by exp of the sum of all log decays from the chunk's first to t.",
    ),
    Slip(
        "what a chunk writes fades from its start",
        (UNTIL, "since"),
        "What a step adds to the state is faded by the decays from the chunk's start to it. "
        "Wanted are the decays after that step, up to the chunk's end.",
    ),
    Slip(
        "what a chunk writes is not faded until its end",
        (UNTIL, "torch.ones_like(since)"),
        "What an early step of a chunk adds to the state is not faded until the chunk's end. It "
        "should fade by the decays of the later steps of its chunk.",
    ),
    Slip(
        "what a chunk writes fades one step too many",
        (UNTIL, f"{UNTIL} * torch.exp(logs)[..., None]"),
        "What a step writes is faded by its own decay too before the next chunk reads it. Only "
        "later steps should fade it.",
    ),
    Slip(
        "the state is not faded from chunk to chunk",
        ("h = since[:, -1, :, :, None] * h + written", "h = h + written"),
        "From chunk to chunk the state is only added to. A chunk should also fade what was there, "
        "by all its decays together.",
    ),
    Slip(
        "the state fades by one decay",
        ("h = since[:, -1, :, :, None] * h", "h = torch.exp(logs[:, -1])[..., None, None] * h"),
        "From chunk to chunk the state fades by the decay of the last step alone. It should fade "
        "by exp of the sum of all log decays of the chunk.",
    ),
    Slip(
        "the state is read after the chunk has written",
        (
            "queries, h)",
            "queries, since[:, -1, :, :, None] * h + torch.einsum('bqhd,bqn->bhdn', "
            "until * own, keys))",
        ),
        "Step t reads from a state that already contains this chunk. Read from the state before "
        "the chunk, then update it.",
    ),
    Slip(
        "the state is read with b",
        ('bhdn->bqhd", queries', 'bhdn->bqhd", keys'),
        "What came before the chunk is read with b, which says where a step writes. Read with c.",
    ),
    Slip(
        "the state is read one decay too early",
        (" + since * before)", " + torch.exp(logs.cumsum(1) - logs)[..., None] * before)"),
        "The state before a chunk is read without the reading step's own decay. Step t of a chunk "
        "should fade it by its own decay too.",
    ),
    Slip(
        "a state that was given is not used",
        ("if state is None else state", "if True else state"),
        "The state starts from zeros although one is given.",
    ),
)


def all_chunks_at_once(x, log_decay, b, c, chunk, state=None):
    """The paper's listing: pads, reshapes, and passes states by a matrix over chunks."""
    tokens = x.shape[1]
    more = -tokens % chunk
    x, b, c = (functional.pad(m, (0, 0) * (m.dim() - 2) + (0, more)) for m in (x, b, c))
    logs = functional.pad(log_decay, (0, 0, 0, more))
    x, logs, b, c = (m.unflatten(1, (-1, chunk)) for m in (x, logs, b, c))
    logs = logs.permute(0, 3, 1, 2)  # (B, H, chunks, Q)
    fade = torch.exp(answers.segsum(logs))
    inside = torch.einsum("bkqn,bksn,bhkqs,bkshd->bkqhd", c, b, fade, x)
    wrote = torch.einsum("bksn,bhks,bkshd->bkhdn", b, fade[..., -1, :], x)
    first = torch.zeros_like(wrote[:, :1]) if state is None else state[:, None]
    wrote = torch.cat([first, wrote], dim=1)
    between = torch.exp(answers.segsum(functional.pad(logs.sum(-1), (1, 0))))
    states = torch.einsum("bhzk,bkhdn->bzhdn", between, wrote)
    read = torch.einsum("bkqn,bkhdn,bhkq->bkqhd", c, states[:, :-1], logs.cumsum(-1).exp())
    return (inside + read).flatten(1, 2)[:, :tokens], states[:, -1]


def with_lists(x, log_decay, b, c, chunk, state=None):
    """Splits every argument, and writes the mask out."""
    h = 0 * (x[:, 0, :, :, None] * b[:, 0, None, None, :]) if state is None else state
    rows = []
    pieces = (m.split(chunk, dim=1) for m in (x, log_decay, b, c))
    for xs, logs, keys, queries in zip(*pieces, strict=True):
        time = logs.cumsum(1)
        apart = time[:, :, None] - time[:, None]  # (B, Q, Q, H)
        past = torch.ones(xs.shape[1], xs.shape[1], dtype=torch.bool).tril()
        fade = torch.exp(apart.masked_fill(~past[..., None], -math.inf))
        score = torch.einsum("btn,bsn->bts", queries, keys)[..., None] * fade
        own = torch.einsum("btsh,bshd->bthd", score, xs)
        rows.append(own + torch.einsum("bth,btn,bhdn->bthd", time.exp(), queries, h))
        left = torch.exp(time[:, -1:] - time)
        h = torch.exp(time[:, -1])[..., None, None] * h + torch.einsum(
            "bsh,bshd,bsn->bhdn", left, xs, keys
        )
    return torch.cat(rows, dim=1), h


EXERCISE = Exercise(
    chapter="25_mamba_kernels",
    title="By chunks",
    goal="Compute the same outputs by attention within chunks and the recurrence between them.",
    reference=answers.ssd_chunked,
    contract=Contract(
        accepts=(FLOAT64,),
        views=True,
        same_dtype=True,
        arguments_unchanged=True,
        ranges={"log_decay": (-60, 0)},
        gradients=("x", "log_decay", "b", "c", "state"),
        forbids=("ssd_recurrent", *READY_MADE),
        says=(
            "In float32 the log decays of a chunk sum to −100 or more.",
            "Within a chunk no loop over steps.",
            "From 3 to 8 chunks no tensor has T × T numbers.",
        ),
    ),
    properties=(
        worked(
            "the worked example in chunks of 2: y = 1, 2.5, 5.25, 2.625",
            torch.tensor([1.0, 2.0, 4.0, 0.0]).view(1, 4, 1, 1),
            torch.full((1, 4, 1), math.log(0.5)),
            torch.ones(1, 4, 1),
            torch.ones(1, 4, 1),
            2,
            want=(
                torch.tensor([1.0, 2.5, 5.25, 2.625]).view(1, 4, 1, 1),
                torch.full((1, 1, 1, 1), 2.625),
            ),
            tolerance=FLOAT32,
        ),
        agrees("chunks that fit", _whole, points=2, repeat=1, tolerance=FLOAT32),
        agrees(
            "chunks that do not, and a chunk longer than the text",
            _ragged,
            repeat=1,
            tolerance=FLOAT32,
        ),
        agrees("goes on from a state that is given", _goes_on, tolerance=FLOAT32),
        Property(STRONG.name, 1, _strong_and_faint),
        Property("no loop within a chunk, no T × T matrix", 1, _cheap),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"the paper's listing": all_chunks_at_once, "the mask written out": with_lists},
    hints=(
        "Do two chunks by hand: which part of the matrix is the first chunk's own, which the "
        "second's own, and which is left? The last is what the second chunk reads of the state.",
        "For each chunk: ssd_quadratic of its own steps; plus exp of the running sum of log "
        "decays, times c · h, for what came before. Then h fades by the whole chunk's decay, and "
        "what the chunk writes is added, each step faded by the steps after it.",
        "The decay from step s to the chunk's end is the last row of exp(segsum(logs.mT)). What "
        "the chunk writes: torch.einsum('bqhd,bqn->bhdn', until * x, b); what it reads: "
        "torch.einsum('bqn,bhdn->bqhd', c, h).",
    ),
    minutes=30,
    difficulty=5,
    importance=5,
    uses=("segsum", "ssd_quadratic"),
    results=("y", "state"),
)
