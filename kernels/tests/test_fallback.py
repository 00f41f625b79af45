"""Where no kernel can run: the twin's answer, one warning at the caller's line, a whole graph."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import attend_kernels
import pytest
import torch
from attend_kernels.common import fallback

kernels: Any = attend_kernels  # Any: arguments are splatted, results of two kinds


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[warnings.WarningMessage]]:
    """Neither GPU nor interpreter, in a fresh session; the warnings given meanwhile."""
    if fallback.HAS_TRITON:
        import_module("triton.language")  # it reads the variable once, for the tests after these
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    monkeypatch.setattr(fallback, "HAS_TRITON", True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    fallback._warn.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught
    fallback._warn.cache_clear()
    torch.compiler.reset()


def assert_said(said: list[warnings.WarningMessage], **twins: str) -> None:
    """Assert that each function was warned of once, where it was called, naming its twin."""
    assert [w.filename for w in said] == [__file__] * len(twins), [str(w.message) for w in said]
    for warning, (function, twin) in zip(said, twins.items(), strict=True):
        start = f"{function}: no NVIDIA GPU is available here, so its PyTorch twin {twin} runs inst"
        assert str(warning.message).startswith(start)


def twice(function: Any, *arguments: Any, **options: Any) -> Any:
    """Call a function two times, to hear of one warning; return what the second gave."""
    function(*arguments, **options)
    return function(*arguments, **options)


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


REASONS = {
    "no Triton": ("Triton is not installed here", {"HAS_TRITON": False}),
    "no GPU": ("no NVIDIA GPU is available here", {}),
}


@pytest.mark.parametrize(("reason", "setting"), REASONS.values(), ids=REASONS)
def test_softmax_says_why(reason: str, setting: dict[str, Any], said: Any, monkeypatch: Any):
    for name, value in setting.items():
        monkeypatch.setattr(fallback, name, value)
    x = draw(3, 5)
    for _ in range(2):
        assert torch.equal(kernels.fused_softmax(x), kernels.naive_softmax(x))
    assert [str(w.message).partition(reason)[1] for w in said] == [reason]
    assert "naive_softmax runs instead" in str(said[0].message)


def test_norms(said: Any):
    x, w = draw(3, 5), draw(5)
    for _ in range(2):
        assert torch.equal(kernels.rms_norm(x, w), kernels.naive_rms_norm(x, w))
        got, want = kernels.layer_norm(x, w, w), kernels.naive_layer_norm(x, w, w)
        assert torch.equal(got, want)
    assert_said(said, rms_norm="naive_rms_norm", layer_norm="naive_layer_norm")


def test_rope(said: Any):
    x, table = draw(1, 2, 3, 8), kernels.rope_table(3, 8)
    for _ in range(2):
        assert torch.equal(kernels.apply_rope(x, *table), kernels.naive_rope(x, *table))
    assert_said(said, apply_rope="naive_rope")


def test_cross_entropy_compiled_too(said: Any):
    logits, targets = draw(3, 5).requires_grad_(), torch.tensor([0, 1, 2])
    want = kernels.naive_cross_entropy(logits, targets)
    compiled = torch.compile(kernels.cross_entropy, fullgraph=True, backend="aot_eager")
    for _ in range(2):
        torch.testing.assert_close(compiled(logits, targets), want)
        assert torch.equal(kernels.cross_entropy(logits, targets), want)
    assert len(said) == 1
    assert str(said[0].message).startswith("cross_entropy: no NVIDIA GPU is available here, so its")


def test_causal_conv1d(said: Any):
    x, w = draw(1, 5, 3), draw(3, 4)
    for _ in range(2):
        assert torch.equal(kernels.causal_conv1d(x, w), kernels.naive_causal_conv1d(x, w))
    assert_said(said, causal_conv1d="naive_causal_conv1d")


def test_flash_attention(said: Any):
    q = draw(1, 2, 5, 8).bfloat16().requires_grad_()
    at = torch.tensor([0, 5])
    rows = q[0].transpose(0, 1)
    output, lse = twice(kernels.flash_attention, q, q, q, causal=True, return_lse=True)
    packed = twice(kernels.flash_attention_varlen, rows, rows, rows, at, at, causal=True)
    wide = q.float()
    want, _ = kernels.naive_attention(wide, wide, wide, causal=True)
    assert torch.equal(output, want.bfloat16())
    assert lse.dtype == torch.float32
    assert torch.equal(packed.transpose(0, 1)[None], output)
    (grad,) = torch.autograd.grad(output.sum(), q)
    assert grad.isfinite().all()
    twins = {"flash_attention": "naive_attention"}
    assert_said(said, **twins, flash_attention_varlen="naive_attention_varlen")
    compiled = torch.compile(kernels.flash_attention, backend="aot_eager")
    torch.testing.assert_close(compiled(q, q, q, causal=True), output)


def test_decode_attention(said: Any):
    q, k, n = draw(2, 4, 8).bfloat16(), draw(2, 2, 9, 8).bfloat16(), torch.tensor([9, 0])
    output, lse = twice(kernels.decode_attention, q, k, k, n, return_lse=True)
    codes, scale = kernels.quantise_cache(k, torch.float8_e4m3fn)
    coarse = kernels.decode_attention(q, codes, codes, n, k_scale=scale, v_scale=scale)
    want, want_lse = kernels.naive_decode_attention(q.float(), k, k, n)
    assert torch.equal(output, want.bfloat16())
    assert torch.equal(lse, want_lse)
    assert 0 < (coarse - output).norm() < 0.1 * output.norm()
    assert_said(said, decode_attention="naive_decode_attention")
    compiled = torch.compile(kernels.decode_attention, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(q, k, k, n), output)


def test_linear_attention(said: Any):
    q, k, v = (draw(1, 2, 40, 8).roll(shift).bfloat16() for shift in range(3))
    q.requires_grad_()
    gate = -torch.rand(1, 2, 40, 8, generator=torch.Generator().manual_seed(0))
    beta = -0.1 * gate[..., 1]
    modes: list[dict[str, torch.Tensor]] = [{}, {"decay": gate[0, :, 0, 0]}, {"gate": gate[..., 0]}]
    modes += [{"gate": gate}, {"beta": beta}, {"beta": beta, "gate": gate[..., 0]}]
    output = q
    for mode in modes:
        output, state = kernels.linear_attention(q, k, v, **mode, output_state=True, chunk=16)
        assert (output.dtype, state.dtype) == (torch.bfloat16, torch.float32)
        want, last = kernels.naive_linear_attention(q.float(), k.float(), v.float(), **mode)
        torch.testing.assert_close(output.float(), want, rtol=1e-2, atol=1e-2)
        torch.testing.assert_close(state, last)
        (grad,) = torch.autograd.grad(output.float().square().sum(), q)
        assert grad.isfinite().all()
        now = {name: x if name == "decay" else x[:, :, 0] for name, x in mode.items()}
        first = (x[:, :, 0] for x in (q, k, v))
        one, _ = kernels.linear_attention_step(torch.zeros(1, 2, 8, 8), *first, **now)
        torch.testing.assert_close(one, output[:, :, 0])
    twins = {"linear_attention": "naive_linear_attention_parallel"}
    assert_said(said, **twins, linear_attention_step="naive_linear_attention")
    compiled = torch.compile(kernels.linear_attention, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(q, k, v, **modes[-1], chunk=16), output)


def test_selective_scan(said: Any):
    u, bc = draw(1, 5, 3).requires_grad_(), draw(1, 5, 2)
    arguments = (u, u, -torch.ones(3, 2), bc, bc)
    y, state = twice(kernels.selective_scan, *arguments, output_state=True)
    want, last = kernels.naive_selective_scan(*arguments)
    assert torch.equal(y, want)
    assert torch.equal(state, last)
    (grad,) = torch.autograd.grad(y.sum(), u)
    assert grad.isfinite().all()
    assert_said(said, selective_scan="naive_selective_scan")
    compiled = torch.compile(kernels.selective_scan, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(*arguments), y)


def test_ssd(said: Any):
    x, b = draw(1, 9, 2, 4).bfloat16().requires_grad_(), draw(1, 9, 1, 3).bfloat16()
    dt, a = draw(1, 9, 2).abs(), -torch.ones(2)
    y, state = twice(kernels.ssd, x, dt, a, b, b, output_state=True)
    with torch.no_grad():
        one, _ = twice(kernels.ssd_step, state, x[:, 0], dt[:, 0], a, b[:, 0], b[:, 0])
    want, last = kernels.naive_ssd(x.float(), dt, a, b.float(), b.float())
    assert y.dtype == one.dtype == torch.bfloat16
    assert state.dtype == torch.float32
    torch.testing.assert_close(y.float(), want, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(state, last)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert grad.isfinite().all()
    assert_said(said, ssd="naive_ssd_chunked", ssd_step="naive_ssd_step")
