"""The convolution kernel of S4D, a state-space model with a diagonal, complex state matrix.

Equation, for one channel with step size Δ and N complex rates A_n and weights C_n (B is 1)::

    h' = A h + u, y = 2 Re(C · h)      discretised by a zero-order hold, is y = K * u with
    K_l = 2 Re sum_n C_n (exp(Δ A_n) - 1) / A_n exp(l Δ A_n)               l = 0 ... L - 1

a causal convolution with a kernel as long as the sequence: N numbers a channel decide L of them.
With c_n the factor in front and z_n = Δ A_n it is a product with a Vandermonde matrix of powers of
exp(z_n). Its gradient is two more, with G_l = dL/dK_l and bars for complex conjugates::

    dL/dc_n = 2 sum_l G_l conj(exp(l z_n))      dL/dz_n = 2 conj(c_n) sum_l l G_l conj(exp(l z_n))

Letters: ``C`` channels (the *argument* ``C`` is the paper's), ``N`` states a channel, of which the
conjugate half is not stored, ``L`` length of the kernel.

Memory traffic, in elements. The least, and what the kernel moves: C (4 N + L) forward, as much and
4 C N backward. The twin writes the powers, 2 C N L numbers, and reads them again.

Arithmetic: an exponential, a sine and a cosine and 4 more operations for each of C N L powers.

Sources: Gu, Gupta, Goel & Ré 2022, "On the parameterization and initialization of diagonal state
space models", section 3.2 and equation 8. Nothing here has been timed on a GPU yet.
"""

# ruff: noqa: N803  # A, B and C are the paper's matrices here

from __future__ import annotations

import torch

from attend_kernels.common import fallback
from attend_kernels.common.arguments import assert_one_device, assert_tensors
from attend_kernels.common.shapes import assert_shape
from attend_kernels.ops.s4d.naive import naive_powers
from attend_kernels.ops.s4d.operators import powers


def s4d_kernel(delta: torch.Tensor, A: torch.Tensor, C: torch.Tensor, length: int) -> torch.Tensor:
    """Make the kernel of the convolution that S4D is, forward and backward.

    Computed in fp32. Where the real part of A is not negative, the kernel grows. Gradients are the
    same to the bit each time. Without Triton or a GPU it warns once and runs ``naive_s4d_kernel``.

    Args:
        delta: step sizes, positive.
        A: rates, complex, with negative real parts: -exp(log_A_real) + 1j A_imag.
        C: weights of the states, complex (times B, if it is not 1).
        length: how many steps long the kernel is.

    Shapes: delta ``(C,)`` real, A and C ``(C, N)`` complex -> ``(C, length)`` in fp32.

    Raises:
        ShapeError: the shapes do not belong together.
        TypeError: delta is not float32, or A or C not complex64.
        ValueError: length is negative, or the tensors are on different devices.
    """
    assert_tensors("s4d_kernel", delta=delta, A=A, C=C)
    sizes = assert_shape(delta, "C", name="delta")
    sizes = assert_shape(A, "C N", sizes, name="A")
    assert_shape(C, "C N", sizes, name="C")
    for name, x, dtype in (
        ("delta", delta, torch.float32), ("A", A, torch.complex64), ("C", C, torch.complex64),
    ):  # fmt: skip
        if x.dtype != dtype:
            raise TypeError(
                f"s4d_kernel: {name} must be {dtype}, got {x.dtype}. Next: {name}.to({dtype}); for "
                f"double precision, naive_s4d_kernel."
            )
    assert_one_device("s4d_kernel", delta, A, C)
    if not isinstance(length, int | torch.SymInt) or length < 0:
        raise ValueError(
            f"s4d_kernel: length must be a number of steps, 0 or more, got {length!r}. "
            f"Next: x.shape[1]."
        )
    z = delta[:, None] * A
    factor = C * delta[:, None] * mean_power(z)
    if reason := fallback.why_not(delta):
        fallback.warn_once("s4d_kernel", "naive_s4d_kernel", reason)
        return naive_powers(factor, z, length)
    factor, z = torch.view_as_real(factor), torch.view_as_real(z)
    return powers(factor.contiguous(), z.contiguous(), length)


def mean_power(z: torch.Tensor) -> torch.Tensor:
    """(exp(z) - 1) / z, by its series where z is small: there neither it nor its slope cancels.

    Shapes: any, complex.
    """
    small = z.abs() < 0.5
    series = torch.ones_like(z)
    near = torch.where(small, z, 0.0)
    for k in range(10, 1, -1):  # 1 + z/2 (1 + z/3 (1 + ...)): 0.5^10 / 11! is far below 2^-24
        series = 1 + near / k * series
    far = torch.where(small, 1.0, z)
    return torch.where(small, series, (torch.exp(far) - 1) / far)


def long_convolution(
    u: torch.Tensor, kernel: torch.Tensor, skip: torch.Tensor | None = None
) -> torch.Tensor:
    """Convolve each channel with a kernel as long as the sequence: y_t = sum_s K_{t-s} u_s + D u_t.

    In plain PyTorch, by FFT, in fp32: T log T. Differentiable in all three.

    Shapes: u ``(B, T, C)``, kernel ``(C, L)`` with L >= T, skip ``(C,)`` -> ``(B, T, C)`` in u's
    dtype.

    Raises:
        ShapeError: the shapes do not belong together.
        ValueError: the kernel is shorter than the sequence.
    """
    sizes = assert_shape(u, "B T C", name="u")
    sizes = assert_shape(kernel, "C L", sizes, name="kernel")
    if skip is not None:
        assert_shape(skip, "C", sizes, name="skip")
    steps = sizes["T"]
    if sizes["L"] < steps:
        raise ValueError(
            f"long_convolution: the kernel has {sizes['L']} steps, u has {steps}; expected as many "
            f"at least. Next: s4d_kernel(…, length={steps})."
        )
    if not u.numel():
        return torch.zeros_like(u)
    wide = u.transpose(1, 2).float()
    size = 2 * steps  # twice as long, so that the end does not wrap round to the start
    spectrum = torch.fft.rfft(wide, n=size) * torch.fft.rfft(kernel[:, :steps].float(), n=size)
    y = torch.fft.irfft(spectrum, n=size)[..., :steps].transpose(1, 2)
    return (y if skip is None else y + skip * u).to(u.dtype)
