"""Exercise 25_mamba_kernels/ssd_quadratic: the recurrence as masked attention."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import mamba_kernels as answers

from attend_grader.chapters.ch25_mamba_kernels import READY_MADE
from attend_grader.chapters.ch25_mamba_kernels.shared import expect_faint, in_turn, sequence
from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.contract import FLOAT64
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Known, agrees, known, worked
from attend_grader.checks.subject import Subject

HALF = math.log(0.5)


def _usual(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for sizes in ((2, 5, 3, 4, 2), (3, 3, 3, 3, 3), (1, 6, 1, 2, 5)):
        yield "", Call(sequence(rng, *sizes))


def _small(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    yield "one step", Call(sequence(rng, 2, 1, 3, 2, 4))
    yield "one head, D = N = 1", Call(sequence(rng, 1, 4, 1, 1, 1))


def _strong(rng: np.random.Generator) -> Known:
    """Where everything is forgotten at once, each output is the step's own."""
    x, log_decay, b, c = sequence(rng, 2, 6, 2, 3, 4)
    alone = (c * b).sum(-1)[..., None, None] * x
    yield "log decays of −60: e⁻¹²⁰ is 0 in float32", (x, log_decay * 0 - 60, b, c), alone
    yield "300 log decays of −60 and −0.37 in turn", *in_turn()
    x, b, c = (m[:, :2].double() for m in (x, b, c))
    x[:, 0], x[:, 1], c[:, 0] = 1e12, 0, 0
    b, c = 1e7 * b, 1e7 * c
    left = (c * b[:, :1]).sum(-1)[..., None, None] * x[:, :1] * math.exp(-60)
    yield (
        "x of 10¹², b and c of 10⁷, then a log decay of −60",
        (x, torch.full((2, 2, 2), -60.0).double(), b, c),
        left,
    )


STRONG = known("strong decays do not overflow", _strong, tolerance=FLOAT32)


def _strong_and_faint(subject: Subject, probe: Probe) -> None:
    """Where decays are strong, what is left counts as well."""
    STRONG.test(subject, probe)
    expect_faint(subject, probe)


def draws(rng: np.random.Generator) -> list[Call]:
    """All sizes different, all the same, one step; all is forgotten, nothing is, x is 0."""
    x, log_decay, b, c = sequence(rng, 1, 4, 2, 2, 3)
    calls = [Call(sequence(rng, *s)) for s in ((2, 5, 3, 4, 2), (3, 3, 3, 3, 3), (2, 1, 3, 2, 4))]
    calls += [Call((x, torch.zeros_like(log_decay), b, c))]
    long, log_decays, *rest = sequence(rng, 1, 14, 2, 2, 3)
    calls += [Call((long, torch.full_like(log_decays, -60), *rest))]  # e⁷⁸⁰ is no float64
    return [*calls, Call((torch.zeros_like(x), log_decay, b, c))]


SLIPS = (
    Slip(
        "a softmax",
        ("fade * scores[:, None]", "torch.softmax(segsum(log_decay.mT) + scores[:, None], -1)"),
        "The weights of each step add up to 1: that is softmax attention. Multiply the score by "
        "exp of the segment's sum instead, and divide by nothing.",
    ),
    Slip(
        "a softmax of the scores",
        ("scores = c @ b.mT", "scores = torch.softmax(c @ b.mT, -1)"),
        "The scores went through a softmax before they were faded. They should be plain products "
        "c · b.",
    ),
    Slip(
        "a step does not see itself",
        ("torch.exp(segsum(log_decay.mT))", "torch.exp(segsum(log_decay.mT)).tril(-1)"),
        "The diagonal is 0, so no step reads what it has just written. On it F should be 1.",
    ),
    Slip(
        "no decay",
        ("torch.exp(segsum(log_decay.mT))", "torch.exp(0 * log_decay.mT[..., None]) * "
         "torch.ones(x.shape[1], x.shape[1]).tril()"),
        "Nothing fades: this is linear attention with a causal mask of ones. The mask's entries "
        "should be the exponentials of segsum.",
    ),
    Slip(
        "later steps are read unfaded",
        ("segsum(log_decay.mT)", "segsum(log_decay.mT).nan_to_num(neginf=0.0)"),
        "Above the diagonal the factor is 1, so a step reads later ones too. There it should be "
        "0, the exponential of −inf.",
    ),
    Slip(
        "queries and keys exchanged",
        ("c @ b.mT", "b @ c.mT"),
        "Scores are b_t · c_s. They should be c_t · b_s: step t reads, step s has written.",
    ),
    Slip(
        "the logarithm is used as the decay",
        ("torch.exp(segsum(log_decay.mT))", "segsum(log_decay.mT)"),
        "Scores are multiplied by the segments' sums themselves, which are at most 0, and −inf "
        "for later steps. F should be their exponential.",
    ),
    Slip(
        "the logarithm is used, and 0 for later steps",
        ("torch.exp(segsum(log_decay.mT))", "segsum(log_decay.mT).nan_to_num(neginf=0.0)"),
        "Scores are multiplied by the segments' sums themselves, which are at most 0. F should be "
        "their exponential.",
    ),
    Slip(
        "the decays are transposed",
        ("fade * scores[:, None]", "fade.mT * scores[:, None]"),
        "F is transposed: each step reads itself and later ones, and none before it. Row t of F "
        "should belong to the step that reads.",
    ),
    Slip(
        "scaled by √N",
        ("c @ b.mT", "c @ b.mT / b.shape[-1] ** 0.5"),
        "The scores are divided by √N, as in softmax attention. The recurrence has no such factor.",
    ),
    Slip(
        "divided by the sum of the weights",
        ("fade * scores[:, None]",
         "(fade * scores[:, None]) / (fade * scores[:, None]).sum(-1, keepdim=True)"),
        "Each step's weights are divided by their sum, as in linear attention with a normaliser. "
        "Divide by nothing.",
    ),
    Slip(
        "all heads fade alike",
        ("segsum(log_decay.mT)", "segsum(log_decay.mT[:, :1])"),
        "Every head has the first head's decays. Each should have its own.",
    ),
    Slip(
        "the written value is faded at once",
        ("fade = torch.exp(segsum(log_decay.mT))",
         "fade = torch.exp(segsum(log_decay.mT) + log_decay.mT[:, :, None])"),
        "What a step writes is faded by its own decay. The segment from s to t should begin after "
        "s.",
    ),
)  # fmt: skip


def with_einsum(x, log_decay, b, c):
    """One einsum over everything."""
    decay = torch.exp(answers.segsum(log_decay.transpose(1, 2)))
    return torch.einsum("btn,bsn,bhts,bshd->bthd", c, b, decay, x)


def row_by_row(x, log_decay, b, c):
    """One output after the other."""
    rows = []
    for t in range(x.shape[1]):
        left = log_decay[:, 1 : t + 1].flip(1).cumsum(1).flip(1)
        left = torch.cat([left, torch.zeros_like(log_decay[:, :1])], dim=1).exp()  # (B, t+1, H)
        score = (b[:, : t + 1] @ c[:, t, :, None])[..., 0]  # (B, t+1)
        rows.append(((left * score[..., None])[..., None] * x[:, : t + 1]).sum(1))
    return torch.stack(rows, dim=1)


EXERCISE = Exercise(
    chapter="25_mamba_kernels",
    title="All at once, as attention",
    goal="Compute all outputs as attention with a decay for its mask, and without a softmax.",
    reference=answers.ssd_quadratic,
    contract=Contract(
        accepts=(FLOAT64,),
        views=True,
        same_dtype=True,
        arguments_unchanged=True,
        ranges={"log_decay": (-60, 0)},
        gradients=("x", "log_decay", "b", "c"),
        forbids=READY_MADE,
    ),
    properties=(
        worked(
            "the worked example: y = 1, 2.5, 5.25",
            torch.tensor([1.0, 2.0, 4.0]).view(1, 3, 1, 1),
            torch.full((1, 3, 1), HALF),
            torch.ones(1, 3, 1),
            torch.ones(1, 3, 1),
            want=torch.tensor([1.0, 2.5, 5.25]).view(1, 3, 1, 1),
            tolerance=FLOAT32,
        ),
        agrees("several heads", _usual, tolerance=FLOAT32),
        agrees("one step, one head", _small, repeat=1, tolerance=FLOAT32),
        Property(STRONG.name, 1, _strong_and_faint),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"einsum": with_einsum, "row by row": row_by_row},
    hints=(
        "Which of b and c belongs to the step that reads, and which to the step that has written?",
        "The mask of each head is torch.exp(segsum(…)), which needs time last: log_decay.mT is "
        "(B, H, T). The scores c @ b.mT are (B, T, T), the same for all heads.",
        "`(fade * scores[:, None]) @ x.transpose(1, 2)` is (B, H, T, D). Bring the heads back "
        "behind the steps.",
    ),
    minutes=12,
    difficulty=3,
    importance=5,
    uses=("segsum",),
)
