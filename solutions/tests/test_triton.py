"""Chapter 17's answers against PyTorch in float64, at lengths that fit no block."""

# pyright: reportArgumentType=false, reportCallIssue=false
# (a kernel's constants are plain numbers where it is launched)

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch.nn import functional

pytest.importorskip("attend_solutions.interpreted")
from attend_grader.inside.tracer import traced
from attend_solutions import triton as answers

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="kernels are traced in the interpreter"
)


@pytest.fixture(autouse=True)
def clean() -> Any:
    """No launch strays or collides."""
    with traced() as tracer:
        yield
    events = [event for launch in tracer.launches for event in launch.events]
    assert events == []


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def close(mine: torch.Tensor, right: torch.Tensor, tolerance: float = 1e-6) -> None:
    error = (mine.double() - right.double()).abs().max()
    assert error <= tolerance * max(1.0, float(right.abs().max())), error


@pytest.mark.parametrize("n", [1, 5, 16, 17, 97])
@pytest.mark.parametrize("block", [1, 8, 32])
def test_vectors_are_added(n: int, block: int) -> None:
    x, y = randn(n), randn(n, seed=1)
    assert torch.equal(answers.vector_add(x, y, block), x + y)


@pytest.mark.parametrize("shape", [(1, 1), (5, 13), (8, 16), (3, 9)], ids=str)
def test_views_are_copied(shape: tuple[int, int]) -> None:
    x = randn(2 * shape[1], 3 * shape[0])
    for view in (randn(*shape), x.T[::3, ::2]):
        assert torch.equal(answers.copy_strided(view), view)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 16), (4, 33)], ids=str)
def test_softmaxes_are_pytorchs(shape: tuple[int, int]) -> None:
    x = 5 * randn(*shape) - 90
    right = torch.softmax(x.double(), -1)
    close(answers.fused_softmax(x), right)
    close(answers.long_softmax(x), right)
    close(answers.long_softmax(x, 2), right)


def test_padding_has_no_weight() -> None:
    x, lengths = randn(4, 9) - 3, torch.tensor([1, 9, 4, 8])
    hidden = torch.arange(9) >= lengths[:, None]
    right = torch.softmax(x.double().masked_fill(hidden, -torch.inf), -1)
    close(answers.padded_softmax(x, lengths), right)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 16), (5, 33)], ids=str)
@pytest.mark.parametrize("programs", [1, 3, 16])
def test_layer_norm_and_its_gradient_are_pytorchs(shape: tuple[int, int], programs: int) -> None:
    x, weight, bias = randn(*shape) + 2, randn(shape[1], seed=1), randn(shape[1], seed=2)
    doubles = [t.double().requires_grad_() for t in (x, weight, bias)]
    right = functional.layer_norm(doubles[0], (shape[1],), *doubles[1:])
    out, mean, rstd = answers.fused_layer_norm(x, weight, bias)
    close(out, right.detach(), 1e-5)
    close(mean, x.double().mean(1))
    grad = randn(*shape, seed=3)
    wanted = torch.autograd.grad(right, doubles, grad.double())
    got = answers.fused_layer_norm_backward(grad, x, weight, mean, rstd, programs)
    for mine, want in zip(got, wanted, strict=True):
        close(mine, want, 2e-5)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (5, 7, 3), (16, 32, 48), (33, 20, 17)], ids=str)
@pytest.mark.parametrize(("block", "group"), [(16, 1), (16, 2), (32, 3)])
def test_products_are_pytorchs(sizes: tuple[int, int, int], block: int, group: int) -> None:
    rows, inner, columns = sizes
    a, b = randn(rows, inner), randn(inner, columns, seed=1)
    close(answers.matmul(a, b, block, group), a.double() @ b.double())


@pytest.mark.parametrize(("n", "block"), [(48, 16), (48, 32), (48, 64), (33, 16)])
def test_a_block_for_a_budget_is_what_the_kernel_moves(n: int, block: int) -> None:
    with traced() as tracer:
        answers.matmul(randn(n, n), randn(n, n), block)
    moved = tracer.launches[0].bytes_read + tracer.launches[0].bytes_written
    assert answers.block_for_budget(n, moved) <= block
    assert answers.block_for_budget(n, moved) == block or n < block
    if block > 16:
        assert answers.block_for_budget(n, moved - 1) > block if n > block else True


def test_no_block_does_the_impossible() -> None:
    assert answers.block_for_budget(20, 12 * 400) == 32
    with pytest.raises(ValueError, match="more than"):
        answers.block_for_budget(20, 12 * 400 - 1)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 16), (4, 33)], ids=str)
def test_cross_entropy_and_its_gradient_are_pytorchs(shape: tuple[int, int]) -> None:
    logits, targets = 4 * randn(*shape) + 80, torch.arange(shape[0]) % shape[1]
    double = logits.double().requires_grad_()
    losses = functional.cross_entropy(double, targets, reduction="none")
    (right,) = torch.autograd.grad(losses.sum(), double)
    loss, grad = answers.fused_cross_entropy(logits, targets)
    close(loss, losses.detach(), 1e-6)
    close(grad, right, 1e-5)
