"""What chapter 19 does with a backward pass: counted memory, other orders, a model that learns."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("attend_solutions.triton_flash_backward")

import torch
from attend.data.flash_gradients import (
    BY_HEART,
    Learner,
    checkpointed,
    differing,
    in_a_model,
    memory,
    plain_attention,
    program_order,
    repeated,
)
from attend.data.flash_kernels import heads
from attend_solutions import triton_flash_backward as kernels

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="kernels are traced in the interpreter"
)


def drawn(length: int, number: int = 3) -> list[torch.Tensor]:
    draw = heads(2, length, 16)
    return [next(draw) for _ in range(number)]


@pytest.mark.parametrize("length", [32, 64])
def test_memory_is_counted_by_shapes(length: int) -> None:
    matrix, rows = 4 * 2 * length**2, 4 * 2 * length * 16
    assert memory(plain_attention, *drawn(length)) == (matrix, max(matrix, rows))
    assert memory(checkpointed, *drawn(length)) == (0, max(matrix, rows))
    assert memory(kernels.flash_attention, *drawn(length)) == (rows + 4 * 2 * length, rows)


def test_in_a_model_the_output_is_added_and_other_calls_follow() -> None:
    calls = []

    def attention(*args: object) -> torch.Tensor:
        calls.append(args)
        return plain_attention(*args)  # type: ignore[arg-type]

    q, k, v = drawn(16)
    assert torch.equal(in_a_model(attention, q, k, v, True), q + plain_attention(q, k, v, True))
    assert len(calls) == 3
    assert calls[2][3:] == (True, 0.7)


def test_another_order_changes_only_sums_that_programs_share() -> None:
    q, k, v, d_out = drawn(64, 4)
    out, lse = kernels.forward_heads(q, k, v)
    args = q, k, v, d_out, lse, kernels.flash_delta(out, d_out), False, None, 16, 16
    before = kernels.one_pass(*args), (kernels.grad_queries(*args),)
    with program_order([2, 0, 3, 1]):
        after = kernels.one_pass(*args), (kernels.grad_queries(*args),)
    changed = [differing(a, b) for a, b in zip(sum(before, ()), sum(after, ()), strict=True)]
    assert changed[0] > 0
    assert changed[1:] == [0, 0, 0]
    assert [differing(a, b) for a, b in zip(before[0], kernels.one_pass(*args), strict=True)] == [
        0, 0, 0
    ]  # fmt: skip


def test_a_model_learns_a_sentence_by_heart() -> None:
    learner = Learner()
    assert learner.recite() != BY_HEART
    bits = learner.learn(plain_attention, 7)
    assert bits[-1] < 0.15 * bits[0]
    assert learner.recite() == BY_HEART


def test_kernels_give_the_bits_of_autograd() -> None:
    yours, plain = Learner(), Learner()
    found = yours.learn(kernels.flash_attention, 2), plain.learn(plain_attention, 2)
    # float32 through four layers; Adam divides by the gradients' size, so noise in it stays noise
    assert found[0] == pytest.approx(found[1], abs=1e-3)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_nothing_is_timed_without_a_gpu() -> None:
    assert repeated(kernels.grad_queries) is None
