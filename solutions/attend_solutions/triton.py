"""Chapter 17: kernels in Triton, each with the function that launches it.

A *program* works on one block of the data. The launch says how many programs run; each asks
``tl.program_id`` which one it is. They run at the same time on a GPU, in no order.

Letters: ``n`` elements, ``R`` rows, ``C`` columns, ``V`` words of a vocabulary; a name in capitals
is known when the kernel is compiled. The interpreter runs all this on a CPU
(:mod:`attend_solutions.interpreted`).

Source: Tillet, Kung and Cox 2019, "Triton: an intermediate language and compiler for tiled neural
network computations"; Triton's own tutorials.
"""

# pyright: reportArgumentType=false, reportCallIssue=false
# (a kernel's constants are plain numbers where it is launched)

from __future__ import annotations

import torch

from attend_solutions.interpreted import tl, triton


@triton.jit
def vector_add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """One program adds one block of BLOCK elements."""
    ### BEGIN SOLUTION
    here = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = here < n
    x = tl.load(x_ptr + here, mask=inside)
    y = tl.load(y_ptr + here, mask=inside)
    tl.store(out_ptr + here, x + y, mask=inside)
    ### END SOLUTION


def vector_add(x: torch.Tensor, y: torch.Tensor, block: int = 16) -> torch.Tensor:
    """Launch one program a block. Shapes: x, y and the result (n,)."""
    out = torch.empty_like(x)
    n = x.numel()
    programs = triton.cdiv(n, block)  # n / block, rounded up
    vector_add_kernel[(programs,)](x, y, out, n, BLOCK=block)
    return out


@triton.jit
def copy_strided_kernel(
    x_ptr, out_ptr, rows, columns, row_stride, column_stride,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Program (i, j) copies the tile of ROWS x COLUMNS elements at that place."""
    ### BEGIN SOLUTION
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    column = (tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    inside = (row < rows) & (column < columns)
    tile = tl.load(x_ptr + row * row_stride + column * column_stride, mask=inside)
    tl.store(out_ptr + row * columns + column, tile, mask=inside)
    ### END SOLUTION


def copy_strided(x: torch.Tensor, tile_rows: int = 4, tile_columns: int = 8) -> torch.Tensor:
    """Copy a view into contiguous memory. Shapes: x and the result (R, C)."""
    rows, columns = x.shape
    out = torch.empty(rows, columns, dtype=x.dtype)
    grid = (triton.cdiv(rows, tile_rows), triton.cdiv(columns, tile_columns))
    tile = {"ROWS": tile_rows, "COLUMNS": tile_columns}
    copy_strided_kernel[grid](x, out, rows, columns, *x.stride(), **tile)
    return out


@triton.jit
def fused_softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    """One program turns one row of scores into weights; BLOCK is at least the row's length."""
    ### BEGIN SOLUTION
    start = tl.program_id(0) * columns
    column = tl.arange(0, BLOCK)
    inside = column < columns
    scores = tl.load(x_ptr + start + column, mask=inside, other=-float("inf"))
    weights = tl.exp(scores - tl.max(scores, axis=0))
    weights = weights / tl.sum(weights, axis=0)
    tl.store(out_ptr + start + column, weights, mask=inside)
    ### END SOLUTION


def fused_softmax(x: torch.Tensor) -> torch.Tensor:
    """Launch one program a row. Shapes: x (contiguous) and the result (R, C)."""
    rows, columns = x.shape
    out = torch.empty_like(x)
    fused_softmax_kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
    return out


@triton.jit
def padded_softmax_kernel(x_ptr, length_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    """What `suspect_kernel` should do: softmax over the first `length` scores of each row."""
    ### BEGIN SOLUTION
    row, lane = tl.program_id(0), tl.arange(0, BLOCK)
    length = tl.load(length_ptr + row)
    z = tl.load(x_ptr + row * columns + lane, mask=lane < length, other=-float("inf"))
    e = tl.exp(z - tl.max(z, axis=0))
    tl.store(out_ptr + row * columns + lane, e / tl.sum(e, axis=0), mask=lane < columns)
    ### END SOLUTION


def padded_softmax(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Launch one program a row. Shapes: x (R, C), lengths (R,), result (R, C), 0 in the padding."""
    rows, columns = x.shape
    out, size = torch.empty_like(x), triton.next_power_of_2(columns)
    padded_softmax_kernel[(rows,)](x, lengths, out, columns, BLOCK=size)
    return out


@triton.jit
def long_softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    """One program a row of any length: a running maximum and sum, then the weights."""
    ### BEGIN SOLUTION
    start = tl.program_id(0) * columns
    lane = tl.arange(0, BLOCK)
    running_max = -float("inf")
    running_sum = 0.0
    for first in range(0, columns, BLOCK):
        column = first + lane
        scores = tl.load(x_ptr + start + column, mask=column < columns, other=-float("inf"))
        new_max = tl.maximum(running_max, tl.max(scores, axis=0))
        running_sum = running_sum * tl.exp(running_max - new_max)
        running_sum += tl.sum(tl.exp(scores - new_max), axis=0)
        running_max = new_max
    for first in range(0, columns, BLOCK):
        column = first + lane
        scores = tl.load(x_ptr + start + column, mask=column < columns, other=-float("inf"))
        weights = tl.exp(scores - running_max) / running_sum
        tl.store(out_ptr + start + column, weights, mask=column < columns)
    ### END SOLUTION


def long_softmax(x: torch.Tensor, block: int = 16) -> torch.Tensor:
    """Launch one program a row. Shapes: x (contiguous) and the result (R, C)."""
    rows, columns = x.shape
    out = torch.empty_like(x)
    long_softmax_kernel[(rows,)](x, out, columns, BLOCK=block)
    return out


@triton.jit
def layer_norm_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, mean_ptr, rstd_ptr, columns, eps, BLOCK: tl.constexpr
):
    """One program normalises one row; BLOCK is at least its length."""
    ### BEGIN SOLUTION
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(inside, x - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    weight = tl.load(weight_ptr + column, mask=inside)
    bias = tl.load(bias_ptr + column, mask=inside)
    tl.store(out_ptr + row * columns + column, centred * rstd * weight + bias, mask=inside)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    ### END SOLUTION


def fused_layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Normalise each row. Return the result and, for the backward pass, mean and 1/deviation.

    Shapes: x (R, C), weight and bias (C,); result (R, C) in x's type, mean and rstd (R,), float32.
    """
    ### BEGIN SOLUTION
    rows, columns = x.shape
    out = torch.empty_like(x)
    mean, rstd = torch.empty(rows), torch.empty(rows)
    block = triton.next_power_of_2(columns)
    layer_norm_kernel[(rows,)](x, weight, bias, out, mean, rstd, columns, eps, BLOCK=block)
    return out, mean, rstd
    ### END SOLUTION


@triton.jit
def layer_norm_backward_kernel(
    grad_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr, partial_ptr, rows, columns,
    PROGRAMS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Program p writes dx of its rows, as p, p + PROGRAMS, …, and its own rows of partial sums."""
    ### BEGIN SOLUTION
    program = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    weight = tl.load(weight_ptr + column, mask=inside, other=0.0)
    weight_sum = tl.zeros([BLOCK], dtype=tl.float32)
    bias_sum = tl.zeros([BLOCK], dtype=tl.float32)
    for row in range(program, rows, PROGRAMS):
        here = row * columns + column
        grad = tl.load(grad_ptr + here, mask=inside, other=0.0)
        x = tl.load(x_ptr + here, mask=inside, other=0.0)
        rstd = tl.load(rstd_ptr + row)
        normed = tl.where(inside, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
        scaled = grad * weight
        along = tl.sum(scaled * normed, axis=0) / columns
        common = tl.sum(scaled, axis=0) / columns
        tl.store(dx_ptr + here, (scaled - common - normed * along) * rstd, mask=inside)
        weight_sum += grad * normed
        bias_sum += grad
    tl.store(partial_ptr + 2 * program * columns + column, weight_sum, mask=inside)
    tl.store(partial_ptr + (2 * program + 1) * columns + column, bias_sum, mask=inside)
    ### END SOLUTION


@triton.jit
def sum_programs_kernel(partial_ptr, out_ptr, n, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    """Add the n partial sums of all programs, one block a program."""
    ### BEGIN SOLUTION
    here = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for program in range(PROGRAMS):
        total += tl.load(partial_ptr + program * n + here, mask=here < n, other=0.0)
    tl.store(out_ptr + here, total, mask=here < n)
    ### END SOLUTION


def fused_layer_norm_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor,
    rstd: torch.Tensor, programs: int = 4,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Gradients of x, weight and bias, from that of the result; `programs` share the rows.

    Shapes: grad and x (R, C), weight (C,), mean and rstd (R,); results (R, C), (C,), (C,).
    """
    ### BEGIN SOLUTION
    rows, columns = x.shape
    programs = min(programs, rows)
    dx, sums = torch.empty_like(x), torch.empty(2, columns)
    partial = torch.empty(programs, 2, columns)
    block = triton.next_power_of_2(columns)
    layer_norm_backward_kernel[(programs,)](
        grad, x, weight, mean, rstd, dx, partial, rows, columns, PROGRAMS=programs, BLOCK=block
    )
    n = 2 * columns
    grid = (triton.cdiv(n, block),)
    sum_programs_kernel[grid](partial, sums, n, PROGRAMS=programs, BLOCK=block)
    return dx, sums[0], sums[1]
    ### END SOLUTION


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, out_ptr, rows, columns, inner,
    BLOCK: tl.constexpr, STEP: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One program computes one tile of BLOCK x BLOCK of the product, STEP of the sum at a time."""
    across = tl.cdiv(columns, BLOCK)  # tiles beside each other
    group, within = tl.program_id(0) // (GROUP * across), tl.program_id(0) % (GROUP * across)
    height = tl.minimum(GROUP, tl.cdiv(rows, BLOCK) - group * GROUP)  # the last group's is less
    tile_row, tile_column = group * GROUP + within % height, within // height
    ### BEGIN SOLUTION
    row = (tile_row * BLOCK + tl.arange(0, BLOCK))[:, None]
    column = (tile_column * BLOCK + tl.arange(0, BLOCK))[None, :]
    step = tl.arange(0, STEP)
    total = tl.zeros([BLOCK, BLOCK], dtype=tl.float32)
    for first in range(0, inner, STEP):
        down, right = first + step[:, None], first + step[None, :]
        a_mask = (row < rows) & (right < inner)
        b_mask = (down < inner) & (column < columns)
        a = tl.load(a_ptr + row * inner + right, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + down * columns + column, mask=b_mask, other=0.0)
        total += tl.dot(a, b, input_precision="ieee")
    inside = (row < rows) & (column < columns)
    tl.store(out_ptr + row * columns + column, total.to(out_ptr.dtype.element_ty), mask=inside)
    ### END SOLUTION


def matmul(a: torch.Tensor, b: torch.Tensor, block: int = 16, group: int = 2) -> torch.Tensor:
    """Multiply two matrices. Shapes: a (R, K), b (K, C), both contiguous; result (R, C)."""
    ### BEGIN SOLUTION
    (rows, inner), columns = a.shape, b.shape[1]
    out = torch.empty(rows, columns, dtype=a.dtype)
    grid = (triton.cdiv(rows, block) * triton.cdiv(columns, block),)
    matmul_kernel[grid](a, b, out, rows, columns, inner, BLOCK=block, STEP=16, GROUP=group)
    return out
    ### END SOLUTION


def block_for_budget(n: int, budget: int) -> int:
    """Choose the tiles of :func:`matmul` for two matrices of n x n float32 numbers.

    Returns:
        the smallest power of two, from 16 on, with which at most ``budget`` bytes are moved.

    Raises:
        ValueError: no block does.
    """
    block = 16
    while True:
        across = -(-n // block)
        if 4 * (2 * n * n * across + n * n) <= budget:
            return block
        if across == 1:
            raise ValueError(f"{n} x {n} matrices need more than {budget} bytes")
        block *= 2


@triton.jit
def cross_entropy_kernel(logits_ptr, target_ptr, loss_ptr, grad_ptr, words, BLOCK: tl.constexpr):
    """One program a row: its loss, and the gradient of the loss, block by block."""
    ### BEGIN SOLUTION
    row = tl.program_id(0)
    start = row.to(tl.int64) * words
    lane = tl.arange(0, BLOCK)
    target = tl.load(target_ptr + row)
    running_max = -float("inf")
    running_sum = 0.0
    for first in range(0, words, BLOCK):
        word = first + lane
        z = tl.load(logits_ptr + start + word, mask=word < words, other=-float("inf"))
        new_max = tl.maximum(running_max, tl.max(z, axis=0))
        running_sum = running_sum * tl.exp(running_max - new_max)
        running_sum += tl.sum(tl.exp(z - new_max), axis=0)
        running_max = new_max
    lse = running_max + tl.log(running_sum)
    tl.store(loss_ptr + row, lse - tl.load(logits_ptr + start + target))
    for first in range(0, words, BLOCK):
        word = first + lane
        z = tl.load(logits_ptr + start + word, mask=word < words, other=-float("inf"))
        grad = tl.exp(z - lse) - tl.where(word == target, 1.0, 0.0)
        tl.store(grad_ptr + start + word, grad, mask=word < words)
    ### END SOLUTION


def fused_cross_entropy(
    logits: torch.Tensor, targets: torch.Tensor, block: int = 16
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each row's loss -ln softmax(logits)[target], and its gradient with respect to the logits.

    Shapes: logits (R, V), contiguous, targets (R,); results (R,), (R, V).
    """
    ### BEGIN SOLUTION
    rows, words = logits.shape
    loss, grad = torch.empty(rows, dtype=logits.dtype), torch.empty_like(logits)
    cross_entropy_kernel[(rows,)](logits, targets, loss, grad, words, BLOCK=block)
    return loss, grad
    ### END SOLUTION
