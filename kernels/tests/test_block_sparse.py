"""Block-sparse attention: against its twin, against dense attention, and at its edges."""

# ruff: noqa: N803, N806  # axis letters are capitals

from __future__ import annotations

from typing import Any

import attend_kernels
import pytest
import torch
from attend_kernels import ShapeError, flash_attention, naive_block_sparse_attention
from attend_kernels.common import fallback

from .modules_cases import choose, draw
from .numerics import TOLERANCE, assert_right, poisoned, shake

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
block_sparse: Any = attend_kernels.block_sparse_attention  # Any: results of two kinds


def inputs(
    T: int, S: int, D: int = 16, E: int = 0, G: int = 2, device: str = "cpu"
) -> list[torch.Tensor]:
    """q, k, v and the gradients of O and of LSE."""
    shapes = [(1, 2, T, D), (1, G, S, D), (1, G, S, E or D), (1, 2, T, E or D), (1, 2, T)]
    return [draw(*shape, seed=at).to(device) for at, shape in enumerate(shapes)]


def pattern(T: int, S: int, block: int, heads: str = "", device: str = "cpu") -> torch.Tensor:
    """About half of the blocks; one row of them sees nothing, one column is not seen."""
    shape = {"": (), "H": (2,), "BH": (1, 2)}[heads]
    mask = torch.rand(
        *shape, -(-T // block), -(-S // block), generator=torch.Generator().manual_seed(0)
    )
    mask = mask < 0.5
    if mask.shape[-2] > 2:
        mask[..., 1, :] = False
    if mask.shape[-1] > 2:
        mask[..., 2] = False
    return mask.to(device)


def run(function: Any, given: list[torch.Tensor], *others: Any, **options: Any) -> list[Any]:
    leaves = [x.detach().requires_grad_() for x in given[:3]]
    output, lse = function(*leaves, *others, **options)
    grads = [g.to(x.dtype) for g, x in zip(given[3:], (output, lse), strict=True)]
    grads[1] = grads[1].masked_fill(lse.isinf(), 0.0)
    return [output.detach(), lse.detach(), *torch.autograd.grad([output, lse], leaves, grads)]


def check(
    given: list[torch.Tensor],
    mask: torch.Tensor,
    dtype: torch.dtype = torch.float32,
    **options: Any,
) -> list[torch.Tensor]:
    given = [x.to(dtype) for x in given]
    with poisoned():
        got = run(block_sparse, given, mask, return_lse=True, **options)
    want = run(naive_block_sparse_attention, [x.double() for x in given], mask, **options)
    near = [shake(x, at) for at, x in enumerate(given)]
    moved = run(naive_block_sparse_attention, near, mask, **options)
    floor = 1e-2 * float(given[3].double().norm())
    for at, name in enumerate(("output", "LSE", "dQ", "dK", "dV")):
        limit = TOLERANCE[torch.float32] if name == "LSE" else None
        shaken = moved[at] if dtype == torch.float32 else None
        small = 0.0 if at < 2 else floor
        assert_right(got[at], want[at], dtype, shaken, small, name, limit)
    return got


SHAPES = {
    "one": (16, 16, 16),
    "short": (5, 40, 16),
    "more-keys": (40, 70, 16),
    "more-queries": (70, 33, 32),
    "long-blocks": (70, 80, 64),
}


@pytest.mark.thin(keep=3)
@needs_triton
@pytest.mark.parametrize("heads", ["", "H", "BH"], ids=lambda h: f"mask{h}")
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_outputs_and_gradients(shape: tuple[int, int, int], causal: bool, heads: str):
    T, S, block = shape
    mask = pattern(T, S, block, heads)
    got = check(inputs(T, S), mask, block=block, causal=causal)
    if mask.shape[-2] > 2:
        assert got[0][:, :, block : 2 * block].eq(0).all()
        assert got[1][:, :, block : 2 * block].isinf().all()


@pytest.mark.thin(keep=1)
@needs_triton
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
@pytest.mark.parametrize("D", [40, 64], ids=lambda n: f"D{n}")
def test_half_precision_and_grouped_heads(D: int, dtype: torch.dtype):
    given = inputs(33, 40, D, G=1)
    check(given, pattern(33, 40, 16, "H"), dtype, block=16, causal=True)


@needs_triton
def test_blocks_of_several_tiles_and_other_widths():
    """fp32 goes 32 rows at a time at most: a block of 64 is two tiles. Narrower values."""
    check(inputs(70, 70, 24, 7), pattern(70, 70, 64, "H"), block=64, scale=0.3)


@needs_triton
def test_a_mask_that_shows_all_is_dense_attention():
    q, k, v, _, _ = inputs(40, 40)
    mask = torch.ones(3, 3, dtype=torch.bool)
    want, lse = flash_attention(q, k, v, causal=True, return_lse=True)
    got, got_lse = block_sparse(q, k, v, mask, block=16, causal=True, return_lse=True)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(got_lse, lse, rtol=1e-5, atol=1e-6)


@needs_triton
def test_blocks_out_of_sight_do_not_matter_at_all():
    q, k, v, _, _ = inputs(32, 48)
    mask = torch.tensor([[True, False, True], [False, True, False]])
    before = block_sparse(q, k, v, mask, block=16)
    k[:, :, 16:32] += 100.0
    v[:, :, 16:32] += 100.0
    after = block_sparse(q, k, v, mask, block=16)
    assert torch.equal(after[:, :, :16], before[:, :, :16])
    assert not torch.equal(after[:, :, 16:], before[:, :, 16:])


@needs_triton
@pytest.mark.parametrize("way", ["kernel", "twin"])
def test_the_other_layout(way: str, monkeypatch: pytest.MonkeyPatch):
    choose(way, monkeypatch)
    q, k, v, _, _ = inputs(20, 36)
    mask = pattern(20, 36, 16)
    turned = (x.transpose(1, 2).contiguous() for x in (q, k, v))
    got = block_sparse(*turned, mask, block=16, layout="bthd")
    want = block_sparse(q, k, v, mask, block=16)
    assert torch.equal(got.transpose(1, 2), want)
    assert got.is_contiguous() or way == "twin"


@pytest.mark.deep
@needs_triton
def test_operator_keeps_pytorchs_contract():
    from attend_kernels.ops.block_sparse.operators import forward

    q, k, v, _, _ = inputs(9, 20)
    leaves = (x.requires_grad_() for x in (q, k, v))
    mask = torch.ones(1, 1, 1, 2, dtype=torch.bool)
    torch.library.opcheck(forward, (*leaves, mask, 16, True, 0.25))


@pytest.mark.deep
@needs_triton
def test_stays_whole_under_torch_compile():
    q, k, v, _, _ = inputs(20, 20)
    mask = pattern(20, 20, 16)
    compiled = torch.compile(block_sparse, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(q, k, v, mask, block=16), block_sparse(q, k, v, mask, block=16))


@pytest.mark.gpu
@pytest.mark.parametrize("block", [16, 64, 128, 256], ids=lambda n: f"block{n}")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("D", [64, 128, 256], ids=lambda n: f"D{n}")
def test_on_a_gpu(D: int, dtype: torch.dtype, block: int):
    given = inputs(600, 700, D, G=1, device="cuda")
    check(given, pattern(600, 700, block, "H", "cuda"), dtype, block=block, causal=True)


Q, K, V = inputs(20, 36)[:3]
GOOD: dict[str, Any] = {"q": Q, "k": K, "v": V, "mask": pattern(20, 36, 16), "block": 16}
ERRORS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "mask": ({"mask": torch.ones(2, 2) > 0}, ShapeError, r"mask must have 2 × 3 blocks of 16"),
    "a-key-each": (
        {"mask": torch.ones(20, 36) > 0},
        ShapeError,
        "one entry a block, not one a key",
    ),
    "heads": ({"mask": torch.ones(3, 2, 3) > 0}, ShapeError, r"alone or behind \(H,\)"),
    "float-mask": ({"mask": torch.ones(2, 3)}, TypeError, "mask must be bool, got torch.float32"),
    "block": ({"block": 48}, ValueError, "block must be 16, 32, 64, 128 or 256, got 48"),
    "scale": ({"scale": -1.0}, ValueError, "scale must be a positive number"),
    "width": ({"k": K[..., :8]}, ShapeError, "k has the wrong shape"),
    "foreign": ({"dropout_p": 0.0}, TypeError, "there is no dropout here"),
}


@pytest.mark.parametrize(("wrong", "error", "said"), ERRORS.values(), ids=ERRORS)
def test_errors_say_what_was_expected(wrong: dict[str, Any], error: type[Exception], said: str):
    with pytest.raises(error, match=said):
        block_sparse(**(GOOD | wrong))
