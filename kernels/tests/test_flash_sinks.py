"""Attention sinks: against the twins, Hugging Face's gpt-oss, and what they mean."""

# ruff: noqa: N803  # axis letters are capitals

from __future__ import annotations

from typing import Any

import pytest
import torch
from attend_kernels import (
    ShapeError,
    decode_attention,
    flash_attention,
    flash_attention_varlen,
    merge_partials,
    naive_attention,
    naive_attention_varlen,
    naive_decode_attention,
)
from attend_kernels.common import fallback

from .decode_cases import draw
from .modules_cases import choose
from .numerics import assert_right, relative_error, shake

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
SINKS = torch.tensor([-2.0, 0.5, 1.0, 30.0])


def inputs(T: int, S: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """q, k, v, sinks, and the gradients of O and of LSE."""
    shapes = [(1, 4, T, 16), (1, 2, S, 16), (1, 2, S, 16), (4,), (1, 4, T, 16), (1, 4, T)]
    made = [draw(shape, seed).to(dtype) for seed, shape in enumerate(shapes)]
    return [*made[:3], SINKS.to(dtype), *made[4:]]


def results(function: Any, given: list[torch.Tensor], **options: Any) -> list[torch.Tensor]:
    """O, LSE and the gradients of q, k, v and sinks."""
    leaves = [x.detach().requires_grad_() for x in given[:4]]
    output, lse = function(*leaves[:3], sinks=leaves[3], **options)
    grads = [given[4].to(output.dtype), given[5].to(lse.dtype)]
    return [output.detach(), lse.detach(), *torch.autograd.grad([output, lse], leaves, grads)]


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"causal": True},
    "all": {"causal": True, "window": 9, "softcap": 3.0, "scale": 0.5},
}


@pytest.mark.thin(keep=2)
@needs_triton
@pytest.mark.parametrize("way", ["kernel", "fallback"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_outputs_and_gradients_are_the_twins(
    dtype: torch.dtype, options: dict[str, Any], way: str, monkeypatch: pytest.MonkeyPatch
):
    choose("twin" if way == "fallback" else way, monkeypatch)
    given = inputs(20, 17, dtype)  # causal: three rows see no key but the sink
    got = results(flash_attention, given, return_lse=True, **options)
    want = results(naive_attention, [x.double() for x in given], **options)
    near = [shake(x, n) for n, x in enumerate(given)]
    moved = results(naive_attention, near, **options)
    names = ("output", "LSE", "dQ", "dK", "dV", "dsinks")
    for name, g, w, m in zip(names, got, want, moved, strict=True):
        kind = torch.float32 if name == "LSE" and dtype == torch.float32 else dtype
        assert_right(g, w, kind, m, 0.1 * float(w.norm()) + 0.1, name)


@needs_triton
def test_packed_sequences():
    q, k, v = (draw((n, h, 16), h + n) for n, h in ((12, 4), (11, 2), (11, 2)))
    where = torch.tensor([0, 5, 9]), torch.tensor([0, 3, 11])
    got = flash_attention_varlen(q, k, v, *where, causal=True, sinks=SINKS, return_lse=True)
    wide = [x.double() for x in (q, k, v)]
    want = naive_attention_varlen(wide[0], wide[1], wide[2], *where, causal=True, sinks=SINKS)
    for g, w in zip(got, want, strict=True):
        assert relative_error(g, w) < 1e-5


@needs_triton
@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
def test_decoding(layout: Any):
    q, k, v = draw((2, 4, 3, 8), 0), draw((2, 2, 9, 8), 1), draw((2, 2, 9, 8), 2)
    lengths = torch.tensor([9, 2])
    want = naive_decode_attention(q.double(), k, v, lengths, sinks=SINKS)
    turned = [x.transpose(1, 2) if layout == "bthd" else x for x in (q, k, v)]
    decode: Any = decode_attention
    output, lse = decode(*turned, lengths, sinks=SINKS, layout=layout, return_lse=True)
    output = output.transpose(1, 2) if layout == "bthd" else output
    assert relative_error(output, want[0]) < 1e-5
    assert relative_error(lse, want[1]) < 1e-5
    whole, _ = naive_attention(
        q[:1].double(), k[:1].double(), v[:1].double(), causal=True, sinks=SINKS
    )
    assert relative_error(output[:1], whole) < 1e-5


@needs_triton
def test_a_sink_in_one_part_counts_once():
    q, k, v, sinks, _, _ = inputs(5, 18)
    first = flash_attention(q, k[:, :, :7], v[:, :, :7], sinks=sinks, return_lse=True)
    second = flash_attention(q, k[:, :, 7:], v[:, :, 7:], return_lse=True)
    got, lse = merge_partials(*zip(first, second, strict=True))
    want, want_lse = naive_attention(q.double(), k.double(), v.double(), sinks=sinks)
    assert relative_error(got, want) < 1e-5
    assert relative_error(lse, want_lse) < 1e-5


@pytest.mark.deep
@needs_triton
def test_attention_of_gpt_oss():
    modeling = pytest.importorskip("transformers.models.gpt_oss.modeling_gpt_oss")

    class Layer(torch.nn.Module):
        num_key_value_groups = 2
        sinks = SINKS

    q, k, v, _, _, _ = inputs(9, 9)
    mask = torch.full((9, 9), float("-inf")).triu(1)[None, None]
    layer = Layer().eval()
    want, _ = modeling.eager_attention_forward(layer, q, k, v, mask, scaling=0.25)
    got = flash_attention(q, k, v, causal=True, sinks=SINKS, layout="bhtd")
    assert relative_error(got.transpose(1, 2), want.double()) < 1e-5


ERRORS: dict[str, tuple[Any, type[Exception], str]] = {
    "shape": (torch.zeros(3), ShapeError, "sinks has the wrong shape: expected H with H=4"),
    "integers": (torch.zeros(4).long(), TypeError, "sinks are scores, expected floating point"),
    "number": (0.0, TypeError, "sinks must be a tensor, got float"),
}


@pytest.mark.parametrize(("sinks", "error", "said"), ERRORS.values(), ids=ERRORS)
def test_errors_say_what_was_expected(sinks: Any, error: type[Exception], said: str):
    q, k, v, _, _, _ = inputs(2, 3)
    with pytest.raises(error, match=said):
        flash_attention(q, k, v, sinks=sinks)
    with pytest.raises(error, match=said):
        decode_attention(q, k, v, torch.tensor([3]), sinks=sinks)
