"""New tokens written into caches: against the twin, with nothing else touched."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attend_kernels import (
    ShapeError,
    append_to_cache,
    decode_attention,
    naive_append_to_cache,
    quantise_cache,
)
from attend_kernels.common import fallback

from .decode_cases import draw
from .modules_cases import choose

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
B, G, D, PAGE, S = 3, 2, 5, 4, 12
KINDS = {"fp32": torch.float32, "bf16": torch.bfloat16, "int8": torch.int8}
KINDS["fp8"] = torch.float8_e4m3fn


def caches(kind: str, paged: bool, per_head: bool) -> dict[str, Any]:
    """Caches full of numbers that no token owns, and their scales."""
    dtype = KINDS[kind]
    shape = (B * 3 + 1, PAGE, G, D) if paged else (B, G, S, D)
    made: dict[str, Any] = {}
    for at, name in enumerate("kv"):
        codes, scale = draw(shape, 3 + at), None
        if dtype.itemsize == 1:
            codes, scale = quantise_cache(codes, dtype, (2 if paged else 1) if per_head else None)
        made |= {f"{name}_cache": codes.to(dtype), f"{name}_scale": scale}
    if paged:
        made["block_table"] = torch.randperm(B * 3, generator=torch.Generator().manual_seed(0))
        made["block_table"] = made["block_table"].reshape(B, 3).to(torch.int32)
    return made


def copied(made: dict[str, Any]) -> dict[str, Any]:
    return {n: None if x is None else x.clone() for n, x in made.items()}


def raw(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.uint8) if x.element_size() == 1 else x


@pytest.mark.thin(keep=6)
@needs_triton
@pytest.mark.parametrize("way", ["kernel", "twin"])
@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
@pytest.mark.parametrize("per_head", [False, True], ids=["per-token", "per-head"])
@pytest.mark.parametrize("paged", [False, True], ids=["contiguous", "paged"])
@pytest.mark.parametrize("kind", KINDS)
def test_all_numbers_are_the_twins(
    kind: str, paged: bool, per_head: bool, layout: str, way: str, monkeypatch: pytest.MonkeyPatch
):
    choose(way, monkeypatch)
    want = caches(kind, paged, per_head)
    got = copied(want)
    lengths, counts = torch.tensor([0, 7, 3]), torch.tensor([4, 1, 0], dtype=torch.int32)
    dtype = torch.bfloat16 if kind == "bf16" else torch.float32
    k, v = draw((B, G, 4, D), 1).to(dtype), draw((B, G, 4, D), 2).to(dtype)
    after = naive_append_to_cache(k=k, v=v, lengths=lengths, counts=counts, **want)
    assert after.tolist() == [4, 8, 3]
    given = got
    if layout == "bthd":
        k, v = k.transpose(1, 2), v.transpose(1, 2)
        turning = () if paged else ("k_cache", "v_cache", "k_scale", "v_scale")
        given = {
            n: x.transpose(1, 2) if n in turning and x is not None and x.dim() > 1 else x
            for n, x in got.items()
        }
    options: Any = {"layout": layout}
    result = append_to_cache(k=k, v=v, lengths=lengths, counts=counts, **given, **options)
    assert result.tolist() == after.tolist()
    assert lengths.tolist() == [0, 7, 3]
    for name, value in got.items():
        if value is not None:
            assert torch.equal(raw(value), raw(want[name])), name


@pytest.mark.thin(keep=2)
@needs_triton
@pytest.mark.parametrize("paged", [False, True], ids=["contiguous", "paged"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_appended_is_attended_to(kind: str, paged: bool):
    made = caches(kind, paged, False)
    dtype = torch.bfloat16 if kind == "bf16" else torch.float32
    k, v = draw((B, G, 6, D), 1).to(dtype), draw((B, G, 6, D), 2).to(dtype)
    lengths = torch.zeros(B, dtype=torch.int32)
    lengths = append_to_cache(k=k[:, :, :5], v=v[:, :, :5], lengths=lengths, **made)
    lengths = append_to_cache(k=k[:, :, 5], v=v[:, :, 5], lengths=lengths, **made)
    q = draw((B, 2 * G, D), 9).to(dtype)
    got = decode_attention(q, lengths=lengths, **made)
    want = decode_attention(q, k, v, lengths)
    assert torch.allclose(got, want, atol=1e-6 if kind in ("fp32", "bf16") else 0.1)


@needs_triton
def test_any_strides():
    wide = draw((B, G, S, 2 * D), 0)
    cache = wide[..., ::2]
    before = wide.clone()
    k = draw((G, B, D, 1), 1).permute(1, 0, 3, 2)
    lengths = torch.tensor([9, 0, 1, 0, 2, 0])[::2]
    append_to_cache(cache, cache, k, k, lengths)
    for b, length in enumerate(lengths.tolist()):
        assert torch.equal(cache[b, :, length], k[b, :, 0])
        before[b, :, length, ::2] = k[b, :, 0]
    assert torch.equal(wide, before)


@needs_triton
def test_tokens_without_a_place_are_not_written(monkeypatch: pytest.MonkeyPatch):
    """As on a GPU, where nobody looks at lengths."""
    from attend_kernels.ops.decode import append as module

    monkeypatch.setattr(module, "check_values", lambda *_: None)
    made = caches("fp32", True, False)
    made["block_table"] = torch.tensor([[0, 1, 99], [2, -1, 3], [4, 5, 6]])
    before = made["k_cache"].clone()
    k = draw((B, G, 2, D), 1)
    append_to_cache(k=k, v=k, lengths=torch.tensor([8, 3, 11]), **made)
    before[2, 3], before[6, 3] = k[1, :, 0], k[2, :, 0]
    assert torch.equal(made["k_cache"], before)


@pytest.mark.deep
@needs_triton
def test_stays_whole_under_torch_compile():
    k_cache, k = draw((B, G, S, D), 0), draw((B, G, D), 1)

    def both(cache: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return append_to_cache(cache, cache * 1.0, k, k, lengths)

    compiled = torch.compile(both, backend="aot_eager", fullgraph=True)
    mine, theirs = k_cache.clone(), k_cache.clone()
    lengths = torch.tensor([1, 2, 3])
    assert torch.equal(compiled(mine, lengths), both(theirs, lengths))
    assert torch.equal(mine, theirs)


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


ONE = {"k": zeros(1, 2, 1, 4), "v": zeros(1, 2, 1, 4), "lengths": torch.tensor([3])}
ROOM = {"k_cache": zeros(1, 2, 4, 4), "v_cache": zeros(1, 2, 4, 4)}
CODES = {n: zeros(1, 2, 4, 4, dtype=torch.int8) for n in ROOM}
ERRORS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "heads": ({"k": zeros(1, 3, 1, 4)}, ShapeError, "v has the wrong shape"),
    "width": (
        {"k_cache": zeros(1, 2, 4, 5)}, ShapeError, "k_cache has the wrong shape: expected B G S D",
    ),
    "full": ({"lengths": torch.tensor([4])}, ValueError, r"append_to_cache: lengths\[0\] is 5"),
    "negative": ({"lengths": torch.tensor([-1])}, ValueError, r"lengths\[0\] is -1"),
    "no-page": (
        {"block_table": torch.tensor([[7]]), "k_cache": zeros(2, 4, 2, 4)}
        | {"v_cache": zeros(2, 4, 2, 4)},
        ValueError,
        r"append_to_cache: block_table\[0, 0\] is 7; expected 0 to 1",
    ),
    "dtype": ({"k": zeros(1, 2, 1, 4).half()}, TypeError, "k is torch.float16, k_cache torch.fl"),
    "lengths": ({"lengths": torch.tensor([1.0])}, TypeError, "lengths must be int32 or int64"),
    "counts": ({"counts": torch.tensor([1.0])}, TypeError, "counts must be int32 or int64"),
    "no-scales": (CODES, ValueError, "append_to_cache: k_scale is missing"),
    "scales": ({"k_scale": zeros(2)}, ValueError, "append_to_cache: k_scale was given"),
    "two-kinds": (
        CODES | {"k_scale": torch.ones(2), "v_scale": torch.ones(1, 2, 4)},
        ValueError,
        "k_scale has 1 axes, v_scale 3",
    ),
    "layout": ({"layout": "thbd"}, ValueError, "layout must be"),
    "gradient": ({"k": zeros(1, 2, 1, 4).requires_grad_()}, ValueError, "has no gradient"),
    "list": ({"lengths": [3]}, TypeError, "lengths must be a tensor, got list"),
}  # fmt: skip


@pytest.mark.parametrize(("wrong", "error", "said"), ERRORS.values(), ids=ERRORS)
def test_errors_say_what_was_expected(
    wrong: dict[str, Any], error: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch
):
    choose("twin", monkeypatch)
    given: dict[str, Any] = ROOM | ONE | wrong
    with pytest.raises(error, match=said):
        append_to_cache(**given)
