"""The forward kernel by tensor descriptors: right, and by pointers where there can be none."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import pytest
import torch
from attend_kernels import flash_attention, naive_attention
from attend_kernels.common import fallback

from . import numerics
from .numerics import relative_error

if not fallback.HAS_TRITON:
    pytest.skip("Triton is not installed", allow_module_level=True)

from attend_kernels.ops.flash import backward, forward, tiles
from attend_kernels.ops.flash.tiles import Tile
from triton.tools.tensor_descriptor import TensorDescriptor

WALKS = ("forward", "queries")  # kernels that walk over keys and values
TILE = Tile(32, 16, 4, 1, descriptors=True)


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Take descriptors for keys and values; whether each forward pass did."""
    seen: list[bool] = []
    launch = forward.launch

    def watch(kernel, programs, q, k, *arguments, **settings):
        seen.append(isinstance(k, TensorDescriptor))
        assert settings["DESCRIPTORS"] is seen[-1]
        launch(kernel, programs, q, k, *arguments, **settings)

    choose = tiles.choose
    monkeypatch.setattr(
        tiles, "choose", lambda name, *more: TILE if name in WALKS else choose(name, *more)
    )
    monkeypatch.setattr(forward, "launch", watch)
    with numerics.poisoned():
        yield seen


def draw(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


SIZES = {  # B, H, G, T, S, D
    "one": (1, 1, 1, 1, 1, 16),
    "ragged": (2, 2, 2, 37, 50, 32),
    "grouped": (1, 4, 2, 20, 33, 64),
    "wider-than-they-say": (1, 1, 1, 17, 40, 24),
    "fewer-keys": (1, 1, 1, 40, 17, 16),
}
OPTIONS = {"full": {}, "causal": {"causal": True}, "window": {"causal": True, "window": 9}}


@pytest.mark.thin
@pytest.mark.parametrize("name", numerics.DTYPES)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_the_answer_is_the_twins(sizes, options, name: str, described: list[bool]):
    B, H, G, T, S, D = sizes  # noqa: N806  # axis letters
    dtype = numerics.DTYPES[name]
    q, k, v = (
        draw(B, heads, length, D, dtype=dtype, seed=seed)
        for seed, (heads, length) in enumerate(((H, T), (G, S), (G, S)))
    )
    got, lse = flash_attention(q, k, v, return_lse=True, **options)
    want, want_lse = naive_attention(q.double(), k.double(), v.double(), **options)
    assert described == [True]
    assert relative_error(got, want) < numerics.TOLERANCE[dtype]
    assert relative_error(lse, want_lse) < numerics.TOLERANCE[dtype]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_queries_gradient_is_the_twins(options, described: list[bool], monkeypatch):
    leaves = [
        draw(1, heads, length, 32, seed=seed).requires_grad_()
        for seed, (heads, length) in enumerate(((4, 37), (2, 50), (2, 50)))
    ]
    launched = []
    launch = backward.launch

    def watch(kernel, programs, q, k, *more, **settings):
        launched.append((settings.get("DESCRIPTORS"), isinstance(k, TensorDescriptor)))
        launch(kernel, programs, q, k, *more, **settings)

    monkeypatch.setattr(backward, "launch", watch)
    grad = draw(1, 4, 37, 32, seed=9)
    found = torch.autograd.grad(flash_attention(*leaves, **options), leaves, grad)
    wide = [x.detach().double().requires_grad_() for x in leaves]
    want = torch.autograd.grad(naive_attention(*wide, **options)[0], wide, grad.double())
    for got, right in zip(found, want, strict=True):
        assert relative_error(got, right) < numerics.TOLERANCE[torch.float32]
    assert launched == [(None, False), (None, False), (True, True)]


def heads_last(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(1, 2).contiguous().transpose(1, 2)


LAYOUTS = {
    "time before heads": (heads_last, True),
    "a slice of a cache": (lambda x: torch.cat([x, x * torch.nan], 2)[:, :, :21], True),
    "one head for all": (lambda x: x[:, :1].expand(-1, 2, -1, -1), False),
    "an odd start": (lambda x: torch.cat([x.flatten()[:1], x.flatten()])[1:].view(x.shape), False),
    "odd rows": (lambda x: torch.cat([x, x[..., :1]], -1)[..., :-1], False),
}


@pytest.mark.parametrize(("lay_out", "can"), LAYOUTS.values(), ids=LAYOUTS)
def test_what_no_descriptor_can_say_goes_by_pointers(lay_out, can: bool, described: list[bool]):
    q, k, v = (draw(1, 2, 21, 32, seed=seed) for seed in range(3))
    k, v = (x[:, :1].expand(-1, 2, -1, -1) for x in (k, v)) if lay_out(k).stride(1) == 0 else (k, v)
    want = flash_attention(q, k, v, causal=True)
    described.clear()
    there = [lay_out(x.clone()) for x in (k, v)]
    assert torch.equal(flash_attention(q, *there, causal=True), want)
    assert described == [can]
    assert forward.describable(there[0]) is can


def test_keys_alone_or_none(described: list[bool]):
    q, k = draw(1, 1, 5, 16), draw(1, 1, 0, 16)
    assert torch.equal(flash_attention(q, k, k), torch.zeros_like(q))
    v = draw(1, 2, 9, 16)[:, :1].expand(1, 2, -1, -1)
    flash_attention(draw(1, 2, 5, 16), draw(1, 2, 9, 16), v)
    assert described == [False, False]


def test_nothing_is_described_unless_a_tile_says_so():
    with mock.patch.object(TensorDescriptor, "from_tensor") as made:
        q = draw(1, 1, 5, 16)
        flash_attention(q, q, q)
    made.assert_not_called()
    assert not any(t.descriptors for by_mask in tiles.TABLE.values() for t in by_mask.values())
