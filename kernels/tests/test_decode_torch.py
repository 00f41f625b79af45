"""Decoding inside PyTorch: torch.compile, autocast, the operator, errors, the fallback."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attend_kernels import ShapeError, decode_attention
from attend_kernels.common import fallback
from attend_kernels.ops.decode import operators as decode_operators

from .decode_cases import Case

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
EVERYTHING = Case((33, 5), T=2, page=16, codes=torch.int8, window=20, softcap=5.0, splits=2)


@needs_triton
@pytest.mark.parametrize("case", [Case((33, 5)), EVERYTHING], ids=str)
def test_stays_whole_under_torch_compile(case: Case, device: str):
    """One graph (``fullgraph`` raises at a break), and the same bits as without."""
    compiled = torch.compile(decode_attention, backend="aot_eager", fullgraph=True)
    options = {**case.options(), "splits": case.splits, "return_lse": True}
    q, cache = case.queries(device), case.cache(device)
    got, want = (f(q, **cache, **options) for f in (compiled, decode_attention))
    assert torch.equal(got[0], want[0])
    assert torch.equal(got[1], want[1])


@needs_triton
def test_one_compilation_serves_a_growing_cache(device: str):
    compilations = 0

    def count(graph: Any, _: Any) -> Any:
        nonlocal compilations
        compilations += 1
        return graph.forward

    compiled = torch.compile(decode_attention, backend=count, fullgraph=True, dynamic=True)
    for length in (33, 40, 57):
        q, cache = Case((length,)).queries(device), Case((length,)).cache(device)
        assert torch.equal(compiled(q, **cache), decode_attention(q, **cache))
    assert compilations == 1


@needs_triton
@pytest.mark.parametrize(
    "case", [Case((5, 9), T=1, D=16), EVERYTHING.but(D=16)], ids=["contiguous", "paged-int8"]
)
def test_operator_keeps_pytorchs_contract(case: Case, device: str):
    """Schema and fake kernel (shapes, dtypes, strides), by PyTorch's own checker."""
    cache = case.cache(device)
    names = ("k_cache", "v_cache", "lengths", "block_table", "k_scale", "v_scale")
    tensors = [cache.get(name) for name in names]
    q = case.queries(device)
    for x in (q, q.transpose(1, 2).contiguous().transpose(1, 2)):
        torch.library.opcheck(
            decode_operators.decode, (x, *tensors, 0.25, case.softcap, case.window, case.splits)
        )


@needs_triton
@pytest.mark.parametrize("codes", [None, torch.int8], ids=["bf16", "int8"])
def test_under_autocast_q_takes_the_dtype_of_the_cache(codes: torch.dtype | None, device: str):
    case = Case((33, 5), dtype=torch.bfloat16, codes=codes)
    q, cache = case.queries(device), case.cache(device)
    with torch.autocast(device, torch.bfloat16):
        got = decode_attention(q.float(), **cache)
    assert got.dtype == torch.bfloat16
    assert torch.equal(got, decode_attention(q, **cache))
    with torch.autocast(device, torch.bfloat16), torch.no_grad():
        wide = Case((33, 5)).cache(device)
        assert decode_attention(q, **wide).dtype == torch.float32


@needs_triton
def test_a_gradient_is_refused_unless_nobody_asks(device: str):
    q, cache = Case((33, 5)).queries(device).requires_grad_(), Case((33, 5)).cache(device)
    with pytest.raises(ValueError, match=r"computes no gradient.*torch\.no_grad"):
        decode_attention(q, **cache)
    with torch.no_grad():
        assert not decode_attention(q, **cache).requires_grad


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


def numbers(*values: Any) -> torch.Tensor:
    return torch.tensor(values)


Q, K, N = zeros(2, 6, 16), zeros(2, 3, 7, 16), numbers(3, 7)
PAGES, TABLE = zeros(5, 4, 3, 16), numbers([0, 1], [4, 2])
CODES, SCALE = zeros(2, 3, 7, 16, dtype=torch.int8), zeros(3)
WRONG: dict[str, tuple[type[Exception], str, tuple[Any, ...], dict[str, Any]]] = {
    "q-axes": (ShapeError, r"q has 2 axes; expected 4", (Q[0], K, K, N), {}),
    "other-batch": (ShapeError, "k_cache has the wrong shape.*B=2", (Q, K[:1], K[:1], N), {}),
    "fewer-values": (ShapeError, "v_cache has the wrong shape.*S=7", (Q, K, K[:, :, 1:], N), {}),
    "tokens-outside": (ShapeError, "swapped", (Q, K, K.transpose(1, 2), N), {}),
    "lengths-count": (ShapeError, "lengths has the wrong shape", (Q, K, K, N[:1]), {}),
    "table-count": (ShapeError, "block_table", (Q, PAGES, PAGES, N, TABLE[:1]), {}),
    "no-page": (ValueError, "pages hold 0 tokens", (Q, *[PAGES[:, :0]] * 2, 0 * N, TABLE), {}),
    "heads": (
        ValueError,
        "q has 6 heads.*have 4.*1, 2, 3 or 6",
        (Q, *[zeros(2, 4, 7, 16)] * 2, N),
        {},
    ),
    "too-wide": (ValueError, "D=320 wide", (zeros(2, 6, 320), *[zeros(2, 3, 7, 320)] * 2, N), {}),
    "dtypes-differ": (TypeError, r"must have one dtype.*k\.to", (Q, K.half(), K, N), {}),
    "one-quantised": (TypeError, "quantise both or neither", (Q, CODES, K, N), {"k_scale": SCALE}),
    "no-scale": (ValueError, "k_scale is missing.*quantise_cache", (Q, CODES, CODES, N), {}),
    "needless-scale": (
        ValueError,
        "v_scale was given.*leave v_scale",
        (Q, K, K, N),
        {"v_scale": SCALE},
    ),
    "scale-shape": (
        ShapeError,
        "k_scale has the wrong shape",
        (Q, CODES, CODES, N),
        {"k_scale": zeros(2, 7, 3), "v_scale": SCALE},
    ),
    "scale-dtype": (
        TypeError,
        r"k_scale must be float32.*k_scale\.float\(\)",
        (Q, CODES, CODES, N),
        {"k_scale": SCALE.half(), "v_scale": SCALE},
    ),
    "lengths-dtype": (TypeError, r"lengths must be int32 or int64", (Q, K, K, N.float()), {}),
    "table-dtype": (TypeError, "block_table must be int", (Q, PAGES, PAGES, N, TABLE.bool()), {}),
    "devices": (ValueError, "one device, got cpu and meta", (Q, K, K, N.to("meta")), {}),
    "too-long": (
        ValueError,
        r"lengths\[1\] is 8; expected 0 to 7.*row",
        (Q, K, K, N + numbers(0, 1)),
        {},
    ),
    "negative": (ValueError, r"lengths\[0\] is -1", (Q, K, K, numbers(-1, 0)), {}),
    "too-long-pages": (
        ValueError,
        r"is 9; expected 0 to 8.*page",
        (Q, PAGES, PAGES, N + 2, TABLE),
        {},
    ),
    "no-such-page": (
        ValueError,
        r"block_table\[1, 0\] is 5; expected 0 to 4",
        (Q, PAGES, PAGES, N, TABLE + numbers([0], [1])),
        {},
    ),
    "list": (TypeError, "lengths must be a tensor, got list", (Q, K, K, [7, 7]), {}),
    "splits": (ValueError, "splits must be 1 to 128 parts, got 0", (Q, K, K, N), {"splits": 0}),
    "window": (ValueError, "0 or more keys, got -3", (Q, K, K, N), {"window": -3}),
    "softcap": (ValueError, "softcap must be a positive", (Q, K, K, N), {"softcap": -1.0}),
}


@pytest.mark.parametrize(("error", "message", "tensors", "options"), WRONG.values(), ids=WRONG)
def test_errors_say_what_was_expected_and_what_to_do(
    error: type[Exception],
    message: str,
    tensors: tuple[torch.Tensor, ...],
    options: dict[str, Any],
):
    with pytest.raises(error, match=message):
        decode_attention(*tensors, **options)


def test_a_table_may_hold_anything_past_the_last_page():
    table = torch.tensor([[0, -1], [4, 2]])
    assert decode_attention(Q, PAGES, PAGES, torch.tensor([4, 5]), table).eq(0).all()
