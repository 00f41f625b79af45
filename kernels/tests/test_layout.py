"""``layout="bthd"``: the same numbers with heads after time, without a copy, and who sees it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import attend_kernels
import pytest
import torch
from attend_kernels import ShapeError
from attend_kernels.common import fallback
from attend_kernels.common import layout as layouts

kernels: Any = attend_kernels
needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
Tensors = dict[str, torch.Tensor]


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + len(shape)))


def linear(**given: Any) -> Any:
    return kernels.linear_attention(**given, chunk=16, output_state=True)


def cases() -> dict[str, tuple[Callable[..., Any], Tensors, dict[str, torch.Tensor]]]:
    """Function, arguments with axes of heads and time, and the others."""
    qkv = {name: draw(1, 2, 19, 16, seed=at) for at, name in enumerate("qkv")}
    grouped = qkv | {name: qkv[name][:, :1] for name in "kv"}
    beta = torch.sigmoid(draw(1, 2, 19))
    unit = qkv | {"k": torch.nn.functional.normalize(qkv["k"], dim=-1), "beta": beta}
    gate = -draw(1, 2, 19, seed=4).abs()
    wide = -draw(1, 2, 19, 16, seed=4).abs()
    cos, sin = attend_kernels.rope_table(19, 8)

    def flash(**given: Any) -> Any:
        return kernels.flash_attention(**given, causal=True, return_lse=True)

    return {
        "flash": (flash, grouped, {}),
        "linear": (linear, qkv, {}),
        "decay": (linear, qkv, {"decay": -draw(2).abs()}),
        "gate": (linear, qkv | {"gate": gate}, {}),
        "gates": (linear, qkv | {"gate": wide}, {}),
        "delta": (linear, unit, {}),
        "gated-delta": (linear, unit | {"gate": gate}, {}),
        "rope": (kernels.apply_rope, {"x": qkv["q"]}, {"cos": cos, "sin": sin}),
    }


def turned(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(1, 2).contiguous()


def run(function: Callable[..., Any], inputs: Tensors, **options: Any) -> list[torch.Tensor]:
    """What comes out, and the gradients of the inputs."""
    leaves = {name: x.detach().requires_grad_() for name, x in inputs.items()}
    result = function(**leaves, **options)
    result = result if isinstance(result, tuple) else (result,)
    loss = sum((x * torch.arange(1.0, x.shape[-1] + 1)).sum() for x in result)
    assert isinstance(loss, torch.Tensor)
    loss.backward()
    return [*(x.detach() for x in result), *(x.grad for x in leaves.values() if x.grad is not None)]


@pytest.mark.thin(keep=3)
@needs_triton
@pytest.mark.parametrize("name", cases())
def test_same_numbers_and_gradients_in_the_callers_layout(name: str):
    function, inputs, others = cases()[name]
    if name == "flash":  # the LSE keeps its shape, as flash_attn's
        assert function(**inputs)[1].shape == (1, 2, 19)

        def plain(**given: Any) -> Any:
            return function(**given)[0]

    else:
        plain = function
    want = run(plain, inputs, **others)
    given = {n: turned(x) for n, x in inputs.items()}
    got = run(plain, given, layout="bthd", **others)
    assert len(got) == len(want)
    turning = [x.dim() == 4 and x.shape[1] == 19 for x in got]
    turning = [t or (x.dim() == 3 and x.shape[1] == 19) for t, x in zip(turning, got, strict=True)]
    assert sum(turning) == 1 + len(inputs)  # all but the state
    for value, expected, turn in zip(got, want, turning, strict=True):
        assert torch.equal(value, expected.transpose(1, 2) if turn else expected)
    assert got[0].is_contiguous()  # as it came: nothing was copied on the way


def test_decoding_from_a_cache_with_heads_after_time():
    q, cache = draw(2, 4, 3, 8), draw(2, 2, 9, 8)
    lengths = torch.tensor([9, 4])
    for given in (q, q[:, :, 0]):
        four = given.dim() == 4
        want, lse = kernels.decode_attention(given, cache, cache, lengths, return_lse=True)
        got, got_lse = kernels.decode_attention(
            turned(given) if four else given, turned(cache), turned(cache), lengths,
            layout="bthd", return_lse=True,
        )  # fmt: skip
        assert torch.equal(got, want.transpose(1, 2) if four else want)
        assert torch.equal(got_lse, lse)


@pytest.mark.parametrize("axis", [1, None], ids=["per-head", "per-token"])
def test_decoding_from_codes_with_heads_after_time(axis: int | None):
    q, cache, lengths = draw(1, 2, 8), draw(1, 2, 9, 8), torch.tensor([9])
    codes, scale = kernels.quantise_cache(cache, head_axis=axis)
    want = kernels.decode_attention(q, codes, codes, lengths, k_scale=scale, v_scale=scale)
    scale = scale if scale.dim() == 1 else turned(scale)
    got = kernels.decode_attention(
        q, turned(codes), turned(codes), lengths, k_scale=scale, v_scale=scale, layout="bthd"
    )
    assert torch.equal(got, want)


def test_pages_lie_as_they_always_do():
    q, pages = draw(1, 4, 2, 8), draw(3, 4, 2, 8)
    lengths, table = torch.tensor([7]), torch.tensor([[2, 0]])
    want = kernels.decode_attention(q, pages, pages, lengths, table)
    got = kernels.decode_attention(turned(q), pages, pages, lengths, table, layout="bthd")
    assert torch.equal(got, want.transpose(1, 2))


def test_partials_with_heads_after_time():
    outputs, lses = [draw(1, 2, 5, 4, seed=s) for s in (0, 1)], [draw(1, 2, 5), draw(1, 2, 5) + 1]
    want, lse = kernels.merge_partials(outputs, lses)
    got, got_lse = kernels.merge_partials([turned(x) for x in outputs], lses, layout="bthd")
    assert torch.equal(got, want.transpose(1, 2))
    assert torch.equal(got_lse, lse)


@pytest.mark.parametrize("name", cases())
def test_an_unknown_layout_is_refused(name: str):
    function, inputs, others = cases()[name]
    with pytest.raises(ValueError, match=r"layout must be 'bhtd' .* or 'bthd' .*, got 'bhdt'"):
        function(**inputs, **others, layout="bhdt")


def test_errors_speak_of_the_callers_axes():
    q, k = draw(1, 5, 2, 8), draw(1, 5, 2, 4)
    with pytest.raises(ShapeError, match="k has the wrong shape: expected B S G D"):
        kernels.flash_attention(q, k, k, layout="bthd")
    with pytest.raises(ShapeError, match="beta has the wrong shape: expected B T H"):
        kernels.linear_attention(q, q, q, beta=q[..., 0].mT, layout="bthd")
    with pytest.raises(ShapeError, match="k_cache has the wrong shape: expected B S G D"):
        kernels.decode_attention(q, k, k, torch.tensor([5]), layout="bthd")


def test_layout_of_packed_rows_is_fixed():
    q, starts = draw(5, 2, 8), torch.tensor([0, 5])
    with pytest.raises(TypeError, match="no argument layout"):
        kernels.flash_attention_varlen(q, q, q, starts, starts, layout="bthd")


@pytest.fixture
def first_time() -> Iterator[None]:
    """As if nothing had been warned of."""
    layouts._warn.cache_clear()
    yield
    layouts._warn.cache_clear()


LONG = (1, 129, 2, 8)  # 129 tokens of 2 heads, taken for heads


def long_calls() -> dict[str, Callable[..., Any]]:
    x = draw(*LONG)
    table = attend_kernels.rope_table(129, 8)
    return {
        "flash_attention": lambda **o: kernels.flash_attention(x, x, x, **o),
        "linear_attention": lambda **o: kernels.linear_attention(x, x, x, chunk=16, **o),
        "apply_rope": lambda **o: kernels.apply_rope(x, *table, **o),
        "decode_attention": lambda **o: kernels.decode_attention(
            x[:, :, 0] if not o else x[:, 0], x, x, torch.tensor([2]), **o
        ),
    }


@pytest.mark.thin(keep=2)
@pytest.mark.usefixtures("first_time")
@pytest.mark.parametrize("name", long_calls())
def test_a_warning_once_where_axes_look_exchanged(name: str, monkeypatch: pytest.MonkeyPatch):
    call = long_calls()[name]
    if name != "apply_rope":  # the slow ones need not run interpreted
        monkeypatch.setattr(fallback, "why_not", lambda *_: "a test")
        monkeypatch.setattr(fallback, "warn_once", lambda *_: None)
    with pytest.warns(UserWarning, match=rf"{name}: layout='bhtd' .* Next: layout='bthd'"):
        call()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call()  # said once
        layouts._warn.cache_clear()
        call(layout="bthd")


@pytest.mark.usefixtures("first_time")
@pytest.mark.parametrize("shape", [(1, 32, 1, 8), (1, 128, 2, 8), (1, 129, 33, 8)], ids=str)
def test_no_warning_for_heads_as_models_have_them(shape: tuple[int, ...]):
    _, heads, tokens, _ = shape
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layouts.look_exchanged("f", heads, tokens, "bhtd")


@pytest.mark.deep
@needs_triton
def test_layout_stays_whole_under_torch_compile():
    q = draw(1, 9, 2, 16)

    def both(x: torch.Tensor) -> torch.Tensor:
        y = kernels.flash_attention(x, x, x, layout="bthd")
        return y + kernels.linear_attention(x, x, x, chunk=16, layout="bthd")

    compiled = torch.compile(both, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(q), both(q))


@needs_triton
def test_the_short_way_of_a_second_call_does_all_that_the_long_way_does():
    """See ``common.known``: without gradients, a call like one before is not checked again."""
    from attend_kernels.ops.decode import api as decode
    from attend_kernels.ops.norm import api as norm
    from attend_kernels.ops.rope import api as rope

    q, cache, n = draw(2, 3, 4, 8), draw(2, 9, 2, 8), torch.tensor([9, 4])
    sinks, table = draw(4), attend_kernels.rope_table(5, 8)
    x = draw(3, 8)
    calls: list[tuple[Any, Callable[[], Any]]] = []
    for at in (q, q[:, 0]):
        for given in ({}, {"sinks": sinks}):
            options = {"layout": "bthd", "return_lse": True, **given}
            one = (at, cache, cache, n)
            calls.append(
                (decode.KNOWN, lambda one=one, o=options: kernels.decode_attention(*one, **o))
            )
    calls.append((rope.KNOWN, lambda: kernels.apply_rope(q, *table, layout="bthd")))
    calls.append((norm.RMS, lambda: kernels.rms_norm(x)))
    calls.append((norm.LAYER, lambda: kernels.layer_norm(x)))
    for known, call in calls:
        known._found.clear()
        first = call()
        assert len(known._found) == 1
        second = call()
        pairs = zip(first, second, strict=True) if isinstance(first, tuple) else [(first, second)]
        for before, after in pairs:
            assert torch.equal(before, after)
            assert before.stride() == after.stride()
