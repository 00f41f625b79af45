"""The kernels of single steps against their twins in float64: layouts, dtypes, options."""

# axis letters are capitals
# ruff: noqa: N806

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attend_kernels
import pytest
import torch
from attend_kernels.common import fallback

from . import numerics
from .numerics import relative_error

pytestmark = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
kernels: Any = attend_kernels  # Any: arguments are splatted, results of two kinds
DTYPES = numerics.DTYPES
LAYOUTS = ["contiguous", "turned", "spaced"]


@pytest.fixture(autouse=True)
def poisoned() -> Iterator[None]:
    with numerics.poisoned():
        yield


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def laid_out(x: torch.Tensor, how: str) -> torch.Tensor:
    """The same numbers, with the last two axes turned in memory, or with NaN between them."""
    if how == "turned":
        return x.mT.contiguous().mT
    if how == "spaced":
        wider = torch.full((*x.shape[:-1], 2 * x.shape[-1]), float("nan"), dtype=x.dtype)
        wider[..., ::2] = x
        return wider[..., ::2]
    return x.contiguous()


def compare(got: Any, want: Any, dtype: torch.dtype, device: str) -> None:
    for ours, right in zip(got, want, strict=True):
        assert ours.shape == right.shape
        limit = numerics.TOLERANCE.get(dtype, 1e-13)
        assert relative_error(ours.to(device), right.double()) < limit


@pytest.mark.thin
@pytest.mark.parametrize("options", [(), ("D", "z", "delta_bias")], ids=["bare", "all"])
@pytest.mark.parametrize("name", [*DTYPES, "fp64"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 33, 16), (3, 70, 40)], ids=str)
def test_a_step_of_the_scan(
    sizes: tuple[int, int, int], layout: str, name: str, options: tuple[str, ...], device: str
):
    B, C, N = sizes
    dtype = DTYPES.get(name, torch.float64)
    given = {"u": draw(B, C).to(dtype), "delta": draw(B, C, seed=1).to(dtype)}
    given |= {"B": draw(B, N, seed=2).to(dtype), "C": draw(B, N, seed=3).to(dtype)}
    given |= {"A": laid_out(-draw(C, N).abs().to(dtype), layout), "D": draw(C)}
    given |= {"z": draw(B, C, seed=4).to(dtype), "delta_bias": draw(C, seed=5)}
    given = {n: x.to(device) for n, x in given.items() if len(n) == 1 and n not in "Dz"} | {
        n: given[n].to(device) for n in (*options, "delta")
    }
    state = laid_out(draw(B, C, N, seed=6), layout).to(device)
    before = state.clone()
    got = kernels.selective_scan_step(state, **given)
    wide = {
        n: x.double() if n in ("A", *options) else x.double()[:, None] for n, x in given.items()
    }
    if "z" in wide:
        wide["z"] = wide["z"][:, None]
    y, new = kernels.naive_selective_scan(**wide, initial_state=state.double())
    compare(got, (y[:, 0], new), dtype, device)
    assert torch.equal(state, before)
    assert (got[0].dtype, got[1].dtype) == (dtype, torch.promote_types(torch.float32, dtype))


@pytest.mark.thin
@pytest.mark.parametrize("name", [*DTYPES, "fp64"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("taps", [1, 2, 4, 8])
@pytest.mark.parametrize("activation", ["silu", None])
def test_a_step_of_the_convolution(
    activation: str | None, taps: int, layout: str, name: str, device: str
):
    dtype = DTYPES.get(name, torch.float64)
    x, w, b = draw(2, 300).to(dtype), laid_out(draw(300, taps), layout).to(dtype), draw(300)
    state = laid_out(draw(2, 300, taps - 1, seed=3).to(dtype), layout)
    x, w, b, state = (m.to(device) for m in (x, w, b, state))
    y, new = kernels.causal_conv1d_step(state, x, w, b, activation=activation)
    want = kernels.naive_causal_conv1d(
        *(m.double() for m in (x[:, None], w, b)), activation=activation, state=state.double()
    )
    compare((y,), (want[:, 0],), dtype, device)
    assert torch.equal(new, torch.cat([state[..., 1:], x[..., None]], -1)[..., : taps - 1])
    assert new.is_contiguous()


@pytest.mark.thin
@pytest.mark.parametrize("softplus", [False, True], ids=["bare", "softplus"])
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (2, 6, 2, 40, 24)], ids=str)
def test_a_step_of_ssd(sizes: tuple[int, ...], name: str, softplus: bool, device: str):
    B, H, G, P, N = sizes
    dtype = DTYPES[name]
    x, b, c = (draw(*s).to(dtype) for s in ((B, H, P), (B, G, N), (B, G, N)))
    dt, A, D, bias = draw(B, H).abs().to(dtype), -draw(H).abs(), draw(H, seed=1), draw(H, seed=2)
    bias = bias if softplus else bias.abs()
    state = draw(B, H, P, N, seed=3)
    given = [m.to(device) for m in (state, x, dt, A, b, c, D)]
    options: Any = {"dt_bias": bias.to(device, dtype), "softplus": softplus}
    got = kernels.ssd_step(*given, **options)
    state, x, dt, A, b, c, D = (m.double() for m in given)
    dt = kernels.step_sizes(dt, options["dt_bias"], softplus)
    compare(got, kernels.naive_ssd_step(state, x, dt, A, b, c, D), dtype, device)


def test_operators_keep_pytorchs_contract(device: str):
    from attend_kernels.ops.conv1d import operators as conv
    from attend_kernels.ops.selective_scan import operators as scan

    u, a, b, state = (draw(*s).to(device) for s in ((2, 3), (3, 4), (2, 4), (2, 3, 4)))
    torch.library.opcheck(scan.scan_step, (state, u, u, -a.abs(), b, b, None, u, None, True))
    torch.library.opcheck(conv.conv_step, (state[..., 1:], u, a, None, True))
