"""S4D's convolution kernel: against its twin and the recurrence it stands for, and at its edges."""

# ruff: noqa: N803, N806  # axis letters are capitals

from __future__ import annotations

from typing import Any

import attend_kernels
import pytest
import torch
from attend_kernels import ShapeError, long_convolution, naive_s4d_kernel
from attend_kernels.common import fallback

from .modules_cases import WAYS, choose, draw
from .numerics import assert_right, poisoned, relative_error

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
s4d_kernel: Any = attend_kernels.s4d_kernel


def inputs(C: int = 3, N: int = 5, device: str = "cpu") -> dict[str, torch.Tensor]:
    """As S4D-Lin starts: -1/2 + i pi n, steps of 0.001 to 0.1."""
    imaginary = torch.pi * torch.arange(N).expand(C, N)
    rates = torch.complex(-0.5 + 0.1 * draw(C, N), imaginary + 0.1 * draw(C, N, seed=1))
    weights = torch.complex(draw(C, N, seed=2), draw(C, N, seed=3))
    delta = torch.exp(draw(C, seed=4) - 4)
    return {n: x.to(device) for n, x in {"delta": delta, "A": rates, "C": weights}.items()}


def run(function: Any, given: dict[str, torch.Tensor], length: int) -> list[torch.Tensor]:
    """The kernel and all gradients, complex ones as pairs."""
    leaves = [x.detach().requires_grad_() for x in given.values()]
    out = function(*leaves, length)
    grad = draw(*out.shape, seed=9).to(out)
    found = [out.detach(), *torch.autograd.grad(out, leaves, grad)]
    return [torch.view_as_real(x.resolve_conj()) if x.is_complex() else x for x in found]


def wide(given: dict[str, torch.Tensor], shaken: bool = False) -> dict[str, torch.Tensor]:
    """In double precision; ``shaken``: each number by one unit of fp32's last place at random."""
    found = {}
    for at, (name, x) in enumerate(given.items()):
        real = torch.view_as_real(x) if x.is_complex() else x
        if shaken:
            up = torch.rand(real.shape, generator=torch.Generator().manual_seed(at)).to(real) < 0.5
            real = torch.nextafter(real, torch.where(up, torch.inf, -torch.inf).to(real.dtype))
        real = real.double()
        found[name] = torch.view_as_complex(real) if x.is_complex() else real
    return found


def check(given: dict[str, torch.Tensor], length: int) -> None:
    with poisoned():
        got = run(s4d_kernel, given, length)
    want = run(naive_s4d_kernel, wide(given), length)
    moved = run(naive_s4d_kernel, wide(given, shaken=True), length)
    for name, g, w, m in zip(("K", "ddelta", "dA", "dC"), got, want, moved, strict=True):
        # The angles l Im(z) may be hundreds of turns: what the inputs' last place is worth there.
        assert_right(g, w, torch.float32, m, what=name, tolerance=None if length < 100 else 1e-4)
        error, shake = relative_error(g, w), relative_error(m, w)
        assert error <= 16 * (shake + 2.0**-24), (name, error, shake)


@pytest.mark.thin(keep=4)
@needs_triton
@pytest.mark.parametrize("length", [1, 2, 17, 64, 97])
@pytest.mark.parametrize("N", [1, 5, 16, 33], ids=lambda n: f"N{n}")
def test_kernel_and_gradients(N: int, length: int):
    check(inputs(2, N), length)


@pytest.mark.deep
@needs_triton
def test_a_long_kernel():
    check(inputs(2, 4), 1500)


@pytest.mark.parametrize("way", WAYS)
def test_convolution_with_it_is_the_recurrence(way: str, monkeypatch: pytest.MonkeyPatch):
    """h_t = exp(Δ A) h_{t-1} + (exp(Δ A) - 1) / A u_t, y = 2 Re(C h) + D u: zero-order hold."""
    choose(way, monkeypatch)
    given, u, skip = inputs(), draw(2, 9, 3), draw(3)
    got = long_convolution(u, s4d_kernel(**given, length=12), skip)
    delta, A, C = wide(given).values()
    decay, gain = torch.exp(delta[:, None] * A), torch.expm1(delta[:, None] * A) / A
    h, rows = torch.zeros(2, 3, 5, dtype=torch.complex128), []
    for t in range(9):
        h = decay * h + gain * u[:, t, :, None]
        rows.append(2 * (C * h).sum(-1).real + skip * u[:, t])
    assert relative_error(got, torch.stack(rows, dim=1)) < 1e-5


def test_the_convolution_looks_back_only():
    u, kernel = draw(1, 8, 2).requires_grad_(), draw(2, 8)
    y = long_convolution(u, kernel)
    (grad,) = torch.autograd.grad(y[:, 3].sum(), u)
    assert grad[:, 4:].abs().max() < 1e-6
    want = torch.stack([kernel[:, t] for t in range(4)]).flip(0)
    assert torch.allclose(grad[0, :4], want, atol=1e-6)


@pytest.mark.deep
@needs_triton
def test_operator_keeps_pytorchs_contract():
    from attend_kernels.ops.s4d.operators import powers

    factor, z = (torch.view_as_real(inputs(1, 2)[n]).clone().requires_grad_() for n in "CA")
    torch.library.opcheck(powers, (factor, (0.1 * z).detach().requires_grad_(), 5))


@pytest.mark.gpu
def test_on_a_gpu():
    check(inputs(200, 32, "cuda"), 1000)


GOOD = inputs()
ERRORS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "states": ({"C": GOOD["C"][:, :4]}, ShapeError, "C has the wrong shape"),
    "real": ({"A": GOOD["A"].real}, TypeError, "A must be torch.complex64, got torch.float32"),
    "wide": ({"delta": GOOD["delta"].double()}, TypeError, "delta must be torch.float32"),
    "length": ({"length": -1}, ValueError, "length must be a number of steps, 0 or more, got -1"),
    "list": ({"delta": [0.1]}, TypeError, "delta must be a tensor, got list"),
}


@pytest.mark.parametrize(("wrong", "error", "said"), ERRORS.values(), ids=ERRORS)
def test_errors_say_what_was_expected(wrong: dict[str, Any], error: type[Exception], said: str):
    given: dict[str, Any] = GOOD | {"length": 4} | wrong
    with pytest.raises(error, match=said):
        s4d_kernel(**given)


def test_a_kernel_shorter_than_the_sequence():
    with pytest.raises(ValueError, match="the kernel has 3 steps, u has 4"):
        long_convolution(draw(1, 4, 2), draw(2, 3))
