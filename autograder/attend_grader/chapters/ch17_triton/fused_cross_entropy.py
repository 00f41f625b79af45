"""Exercise 17_triton/fused_cross_entropy: the loss and its gradient in one kernel."""

# pyright: reportArgumentType=false, reportCallIssue=false
# (a kernel's constants are plain numbers where it is launched)

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from attend_solutions import triton as answers
from attend_solutions.interpreted import tl, triton
from torch.nn import functional

from attend_grader.chapters.ch17_triton.shared import (
    LONG,
    MANY,
    ROWS,
    SOFTMAX,
    Case,
    blocks_as_asked,
    calls,
    kernel_properties,
    many,
)
from attend_grader.checks.exercise import Call, Contract, Exercise, Slip
from attend_grader.checks.kernels import right_values
from attend_grader.checks.torch_numbers import normal


def _case(
    rng: np.random.Generator, logits: torch.Tensor, block: int, why: str = "", least: int = 0
) -> Case:
    rows, words = logits.shape
    targets = torch.from_numpy(rng.integers(least, words, rows))
    leaf = logits.double().requires_grad_()
    loss = functional.cross_entropy(leaf, targets, reduction="none")
    (grad,) = torch.autograd.grad(loss.sum(), leaf)
    why = why or f"{many(rows, 'row')} of {words} in blocks of {block}"
    return why, Call((logits, targets, block)), (loss.detach().float(), grad.float())


def _longest(rng: np.random.Generator) -> Iterator[Case]:
    yield _case(rng, 2 * normal(rng, 1, 144) - 2, 8, least=130)  # targets past an int8's 127


def _counted(rng: np.random.Generator) -> Iterator[Case]:
    yield from _longest(rng)
    yield _case(rng, 2 * normal(rng, 1, 7), 1)
    yield _case(rng, 2 * normal(rng, 1, 8192), 4096)


def _even(rng: np.random.Generator) -> Iterator[Case]:
    yield from _longest(rng)
    for rows, words, block in ((3, 32, 16), (2, 8, 8)):
        yield _case(rng, 2 * normal(rng, rows, words) - 2, block)


def _ragged(rng: np.random.Generator) -> Iterator[Case]:
    for rows, words, block in ((4, 21, 8), (2, 5, 8), (1, 1, 4)):
        yield _case(rng, 2 * normal(rng, rows, words) - 2, block)


def _farthest(rng: np.random.Generator) -> Iterator[Case]:
    block = 16_384
    later = 83.0 * (torch.arange(LONG) >= block)
    why = f"1 row of {LONG} in blocks of {block}, logits near 0, then near 83"
    yield _case(rng, normal(rng, 1, LONG) + later, block, why, least=2**16)
    yield _case(rng, normal(rng, MANY, 2), 4)
    yield _case(rng, 2 * normal(rng, 1, 600) - 2, 8)


def _climbing(rng: np.random.Generator) -> Iterator[Case]:
    steps = torch.arange(12.0) * 30
    yield _case(rng, normal(rng, 2, 12) + steps, 4, "logits that climb by 30")
    yield _case(rng, normal(rng, 2, 12) - steps, 4, "logits that fall by 30")
    yield _case(rng, normal(rng, 2, 6) - 200, 4, "logits near −200, the last block not full")
    low = torch.tensor([-2.0, -3, -2.5, -5, -4, -6]) * 1e28
    yield _case(rng, low.repeat(2, 1), 4, "logits below −10²⁸")
    yield _case(rng, 2 * normal(rng, 1, 70), 1)


def _bytes(call: Call) -> int:
    logits, targets, _ = call.args
    return 12 * logits.numel() + (24 + targets.element_size()) * len(logits)


def draws(rng: np.random.Generator) -> list[Call]:
    """Several blocks, ragged and not, logits that climb and fall."""
    return [*calls(_ragged, rng)[:2], *calls(_even, rng)[2:], *calls(_climbing, rng)]


FIRST = "    running_sum = 0.0\n    for first in range(0, words, BLOCK):\n"
LOADED = 'other=-float("inf"))\n        new_max'
ONE = "tl.where(word == target, 1.0, 0.0)"

SLIPS = (
    Slip(
        "gradient without the target's 1",
        (f" - {ONE}", ""),
        "The gradient is the softmax alone. At the target it should be softmax − 1.",
    ),
    Slip(
        "gradient with its sign turned",
        (f"tl.exp(z - lse) - {ONE}", f"{ONE} - tl.exp(z - lse)"),
        "The gradient has the wrong sign. It should be softmax − 1 at the target, softmax "
        "elsewhere.",
    ),
    Slip(
        "loss with its sign turned",
        ("row, lse - tl.load(logits_ptr + start + target)",
         "row, tl.load(logits_ptr + start + target) - lse"),
        "The loss has the wrong sign. It should be LSE − logit of the target.",
    ),
    Slip(
        "the target looked up in the first row",
        ("logits_ptr + start + target", "logits_ptr + target"),
        "The target's logit comes from the first row. Load that of row r from r · words + target.",
    ),
    Slip(
        "sum not rescaled",
        ("running_sum * tl.exp(running_max - new_max)", "running_sum * 1.0"),
        "When a later block brings a larger logit, the sum so far was measured from the old "
        "maximum. Multiply it by exp(old maximum − new maximum).",
    ),
    Slip(
        "the running maximum begins at 0",
        ('running_max = -float("inf")', "running_max = 0.0"),
        "Where all logits are very low the sum is 0, as if the running maximum began at 0. Begin "
        "at −∞, which masked lanes should hold, too.",
    ),
    Slip(
        "LSE without the maximum",
        ("running_max + tl.log(running_sum)", "tl.log(running_sum)"),
        "The logarithm of the running sum is measured from the running maximum: add that.",
    ),
    Slip(
        "masked lanes count as logits of 0",
        (LOADED, "other=0.0)\n        new_max"),
        "Lanes past the row's end hold 0 and count as words. They must hold −∞.",
    ),
    Slip(
        "only the first block in the sum",
        (FIRST, FIRST.replace("0, words, BLOCK", "0, BLOCK, BLOCK")),
        "Maximum and sum come from the first block only.",
    ),
    Slip(
        "divided by the number of rows",
        ((f"tl.exp(z - lse) - {ONE}", f"(tl.exp(z - lse) - {ONE}) / tl.num_programs(0)"),),
        "The gradient is divided by the number of rows. Each row has its own loss here: take no "
        "mean.",
    ),
)  # fmt: skip


@triton.jit
def _corrected_kernel(z_ptr, t_ptr, loss_ptr, grad_ptr, words, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    z_ptr += row * words
    grad_ptr += row * words
    target = tl.load(t_ptr + row)
    lse = float("-inf")
    mine = 0.0
    for first in range(0, words, BLOCK):
        w = first + tl.arange(0, BLOCK)
        z = tl.load(z_ptr + w, w < words, other=float("-inf"))
        top = tl.maximum(lse, tl.max(z))
        lse = top + tl.log(tl.exp(lse - top) + tl.sum(tl.exp(z - top)))
        mine += tl.sum(tl.where(w == target, z, 0.0))
    tl.store(loss_ptr + row, lse - mine)
    for first in range(0, words, BLOCK):
        w = first + tl.arange(0, BLOCK)
        z = tl.load(z_ptr + w, w < words, other=float("-inf"))
        tl.store(grad_ptr + w, tl.exp(z - lse) - (w == target).to(tl.float32), w < words)


def found_on_the_way(logits, targets, block=16):
    """The target's logit is picked up in the first loop."""
    loss, grad = logits.new_empty(len(logits)), torch.empty_like(logits)
    _corrected_kernel[(len(logits),)](logits, targets, loss, grad, logits.shape[1], block)
    return loss, grad


@triton.jit
def _loss_kernel(z_ptr, t_ptr, loss_ptr, lse_ptr, words, BLOCK: tl.constexpr):
    row, lane = tl.program_id(0), tl.arange(0, BLOCK)
    top, total = -float("inf"), 0.0
    for first in range(0, words, BLOCK):
        live = first + lane < words
        z = tl.load(z_ptr + row * words + first + lane, live, other=-float("inf"))
        larger = tl.maximum(top, tl.max(z, axis=0))
        total = total * tl.exp(top - larger) + tl.sum(tl.exp(z - larger), axis=0)
        top = larger
    lse = top + tl.log(total)
    tl.store(lse_ptr + row, lse)
    tl.store(loss_ptr + row, lse - tl.load(z_ptr + row * words + tl.load(t_ptr + row)))


@triton.jit
def _grad_kernel(z_ptr, t_ptr, lse_ptr, grad_ptr, words, BLOCK: tl.constexpr):
    row, word = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    z = tl.load(z_ptr + row * words + word, word < words)
    p = tl.exp(z - tl.load(lse_ptr + row))
    p = tl.where(word == tl.load(t_ptr + row), p - 1, p)
    tl.store(grad_ptr + row * words + word, p, word < words)


def two_kernels(logits, targets, block=16):
    """One kernel for the loss; a second one, a block a program, for the gradient."""
    rows, words = logits.shape
    loss, lse, grad = torch.empty(rows), torch.empty(rows), torch.empty(rows, words)
    _loss_kernel[(rows,)](logits, targets, loss, lse, words, BLOCK=block)
    _grad_kernel[(rows, triton.cdiv(words, block))](logits, targets, lse, grad, words, BLOCK=block)
    return loss, grad


EXERCISE = Exercise(
    chapter="17_triton",
    title="A loss and its gradient at once",
    goal="Each row's cross-entropy and its gradient, without storing the softmax.",
    reference=answers.fused_cross_entropy,
    contract=Contract(
        arguments_unchanged=True,
        forbids=(*SOFTMAX, "torch.logsumexp", "torch.log_softmax"),
        says=(
            "Each row of logits is read at most twice, in blocks of `block`, up to 75 a row. "
            f"{ROWS} Logits from −10²⁹ to 10²⁹.",
        ),
    ),
    properties=kernel_properties(
        ("rows of whole blocks", _even),
        ("rows that are no multiple of the block", _ragged),
        _bytes,
        counted="What is needed: each logit is loaded twice, each gradient stored once, and 32 "
        "bytes a row are enough for the target, its logit and the loss.",
        factor=1.2,
        points=1,
        longest=_farthest,
        more=(
            blocks_as_asked(_counted, 2, 8),
            right_values(
                "logits that climb or fall by 30 from word to word, or are very low", _climbing
            ),
        ),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"picked up on the way": found_on_the_way, "two kernels": two_kernels},
    hints=(
        "It is long_softmax once more. What is stored in the place of the weights, and what is "
        "the loss once you have the running maximum and sum?",
        "LSE = running_max + log(running_sum); loss = LSE − logit of the target, which is one "
        "load. Gradient: exp(z − LSE), minus 1 where word == target.",
        "The launch: one program a row; loss = torch.empty(rows), grad = torch.empty_like(logits).",
    ),
    minutes=16,
    difficulty=4,
    importance=4,
    results=("loss", "gradient"),
)
