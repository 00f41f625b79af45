"""Numerics of the tuned tiles, with a GPU's roundings, where there is none: see ``stand_in``.

A few tiles each time; with ATTEND_EVERY_TILE=1 all of the recurrences' tables and of attention's
(half an hour on one core). On a GPU the same tiles are held by the tests marked ``gpu``.
"""

# ruff: noqa: N803, N806  # axis letters are capitals

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from attend_kernels import naive_decode_attention
from attend_kernels.common import fallback

from . import decode_cases, flash_cases, linear_attention_cases, scan_cases, ssd_cases
from .linear_attention_cases import KINDS
from .numerics import DTYPES, TOLERANCE, relative_error
from .stand_in import from_bf16, gpu, roundings, to_bf16, to_tf32

if not fallback.interpreted():
    pytest.skip("a GPU is here: test_*_gpu.py check the same on it", allow_module_level=True)

EVERY_TILE = os.environ.get("ATTEND_EVERY_TILE") == "1"
REASON = "ATTEND_EVERY_TILE=1 holds every tile, in half an hour"
MIXED = [(64, 256), (256, 64), (256, 16)]  # widths of keys and values


@pytest.fixture(params=[90, 80], ids=lambda a: f"sm_{a}")
def architecture(request: pytest.FixtureRequest) -> Iterator[int]:
    """Tiles and roundings of a GPU."""
    if request.param != 90 and not EVERY_TILE:
        pytest.skip(REASON)
    with gpu(request.param), roundings():
        yield request.param


def now_and_then(kept: bool) -> None:
    """Leave what is not ``kept`` to the long run."""
    if not (kept or EVERY_TILE):
        pytest.skip(REASON)


@pytest.mark.usefixtures("architecture")
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("D", [64, 128, 256], ids=lambda n: f"D{n}")
@pytest.mark.parametrize("kind", KINDS)
def test_linear_attention(kind: str, D: int, name: str):
    now_and_then(D == 64 and name == "bf16")
    case = linear_attention_cases.Case(70, D=D, dtype=DTYPES[name], kind=kind, chunk=64)
    linear_attention_cases.check(case)


@pytest.mark.usefixtures("architecture")
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("widths", MIXED, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_linear_attention_of_two_widths(kind: str, widths: tuple[int, int], name: str):
    now_and_then(False)
    D, E = widths
    case = linear_attention_cases.Case(70, D=D, E=E, dtype=DTYPES[name], kind=kind, chunk=64)
    linear_attention_cases.check(case)


@pytest.mark.usefixtures("architecture")
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("N", [64, 128, 256], ids=lambda n: f"N{n}")
@pytest.mark.parametrize("P", [64, 128], ids=lambda n: f"P{n}")
def test_ssd(P: int, N: int, name: str):
    now_and_then((P, N, name) == (64, 128, "bf16"))
    ssd_cases.check(ssd_cases.Case(70, H=2, P=P, N=N, dtype=DTYPES[name]))


@pytest.mark.deep
@pytest.mark.usefixtures("architecture")
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("N", [16, 32, 64, 128, 256], ids=lambda n: f"N{n}")
@pytest.mark.parametrize("T", [40, 200], ids=["one-pass", "segments"])
def test_selective_scan(T: int, N: int, name: str):
    now_and_then((T, N, name) == (40, 16, "bf16"))
    scan_cases.check(scan_cases.Case(T, C=40, N=N, dtype=DTYPES[name], rate=0.3))


@pytest.mark.usefixtures("architecture")
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("D", [64, 128, 256], ids=lambda n: f"D{n}")
def test_flash_attention(D: int, name: str, causal: bool):
    now_and_then((D, name, causal) == (64, "bf16", True))
    flash_cases.check(
        flash_cases.Case(150, S=200, H=2, G=1, D=D, dtype=DTYPES[name], causal=causal)
    )


@pytest.mark.usefixtures("architecture")
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("D", [64, 128, 256], ids=lambda n: f"D{n}")
def test_decode_attention(D: int, name: str):
    now_and_then((D, name) == (64, "bf16"))
    decode_cases.check(decode_cases.Case(D=D, dtype=DTYPES[name], page=16))


@pytest.mark.usefixtures("architecture")
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("D", [64, 128, 256], ids=lambda n: f"D{n}")
def test_decode_attention_with_eight_bits(D: int, name: str):
    now_and_then(False)
    case = decode_cases.Case(D=D, dtype=DTYPES[name], codes=torch.int8, page=16)
    output, _ = decode_cases.run(case)
    want, _ = naive_decode_attention(case.queries().double(), **case.cache())
    # P is rounded to bf16 for fp16 too (see decode_triton.weights_type).
    limit = TOLERANCE[DTYPES[name] if name == "fp32" else torch.bfloat16]
    assert relative_error(output, want) < limit


@triton.jit
def product_kernel(x_ptr, y_ptr, out_ptr, PRECISION: tl.constexpr):
    """The product of two 16 × 16 matrices, and whether each of the first is above 0."""
    at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    positive = (x.to(tl.float32) > 0).to(y.dtype)
    tl.store(out_ptr + at, tl.dot(x, y, input_precision=PRECISION))
    tl.store(out_ptr + 256 + at, tl.dot(positive, y, input_precision=PRECISION))


@pytest.mark.parametrize("name", DTYPES)
def test_roundings_are_those_of_tensor_cores(name: str):
    """Exact products of rounded factors; the interpreter alone has none of bf16."""
    x, y = (torch.randn(16, 16, generator=torch.Generator().manual_seed(n)) for n in (0, 1))
    x, y = x.to(DTYPES[name]), y.to(DTYPES[name])
    out = torch.empty(2, 16, 16)
    with roundings():
        product_kernel[(1,)](x, y, out, PRECISION="tf32")  # pyright: ignore
    if name == "fp32":
        x, y = (torch.from_numpy(to_tf32(m.numpy())) for m in (x, y))
    torch.testing.assert_close(out[0], x.float() @ y.float(), rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(out[1], (x > 0).float() @ y.float(), rtol=1e-6, atol=1e-5)


def test_bf16_is_rounded_as_pytorch_rounds_it():
    x = torch.randn(4096, generator=torch.Generator().manual_seed(0)) * 1e3
    x[:4] = torch.tensor([0.0, -0.0, float("inf"), 1.00390625])  # the last is a tie
    assert np.array_equal(from_bf16(to_bf16(x.numpy())), x.bfloat16().float().numpy())
    assert np.isnan(from_bf16(to_bf16(np.full(1, np.nan, np.float32))))
