"""Chapter 23's answers against SciPy's signal processing, closed forms and each other."""

import doctest
from typing import Any

import numpy as np
import pytest
from attend_solutions import state_spaces as answers
from attend_solutions.state_spaces import (
    convolve_in_blocks,
    cut_after,
    discretize,
    dplr_kernel,
    hippo_legs,
    hippo_reconstruct,
    legs_dplr,
    matrix_exponential,
    s4d_init,
    s4d_kernel,
    ssm_convolve,
    ssm_kernel,
    ssm_recurrent,
)
from scipy import integrate, linalg, signal, special

EPS = float(np.finfo(np.float64).eps)


def stable(size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, b and c; the eigenvalues of A have real parts below 0."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((size, size))
    a -= (np.linalg.eigvals(a).real.max() + 0.3) * np.eye(size)
    return a, rng.standard_normal(size), rng.standard_normal(size)


def sampled(system: Any, delta: float, method: str) -> tuple[np.ndarray, np.ndarray]:
    """SciPy's Ā and b̄."""
    found: Any = signal.cont2discrete(system, delta, method)
    return found[0], found[1]


def assert_close(got: np.ndarray, want: np.ndarray, roundings: float) -> None:
    """As many roundings of eps as the steps of the formula, relative to the largest value."""
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= roundings * EPS * max(float(np.abs(want).max()), 1.0)


def test_examples_of_the_docstrings() -> None:
    assert doctest.testmod(answers).failed == 0


@pytest.mark.parametrize("scale", [0.0, 1e-3, 0.5, 1.0, 7.0, 40.0])
def test_matrix_exponential_is_scipys(scale: float) -> None:
    m = scale * stable(5)[0]
    assert_close(matrix_exponential(m), linalg.expm(m), 1e4 * (1 + scale))


@pytest.mark.parametrize("method", ["zoh", "bilinear"])
@pytest.mark.parametrize(("size", "delta"), [(1, 0.1), (2, 1.0), (5, 0.03), (8, 2.0)])
def test_discretize_is_scipys(method, size, delta) -> None:
    a, b, c = stable(size)
    system = (a, b[:, None], c[None], np.zeros((1, 1)))
    want_a, want_b = sampled(system, delta, method)
    got_a, got_b = discretize(a, b, delta, method)
    assert_close(got_a, want_a, 1e5)
    assert_close(got_b, want_b[:, 0], 1e5)


def test_zero_order_hold_is_exact_for_an_input_that_is_held() -> None:
    a, b, _ = stable(3)
    h, x = np.array([1.0, -2.0, 0.5]), 0.7
    solved = integrate.solve_ivp(
        lambda _, now: a @ now + b * x, (0, 1.3), h, method="DOP853", rtol=1e-12, atol=1e-12
    )
    a_bar, b_bar = discretize(a, b, 1.3)
    np.testing.assert_allclose(a_bar @ h + b_bar * x, solved.y[:, -1], rtol=1e-9, atol=1e-9)


def test_both_methods_take_a_double_integrator() -> None:
    """x is an acceleration: after 0.5 at rest under 1, the speed is 0.5 and the way 0.125."""
    a, b = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([0.0, 1.0])
    for method in ("zoh", "bilinear"):
        a_bar, b_bar = discretize(a, b, 0.5, method)
        assert_close(a_bar, np.array([[1.0, 0.5], [0.0, 1.0]]), 4)
        assert_close(b_bar, np.array([0.125, 0.5]), 4)


def test_bilinear_never_leaves_the_circle_where_euler_does() -> None:
    a, b, _ = stable(6)
    for delta in (0.1, 10.0, 1e4):
        assert np.abs(np.linalg.eigvals(discretize(a, b, delta, "bilinear")[0])).max() < 1
    assert np.abs(np.linalg.eigvals(np.eye(6) + 10 * a)).max() > 1


@pytest.mark.parametrize(("size", "length"), [(1, 1), (3, 7), (6, 100)])
def test_three_forms_and_scipys_simulation_agree(size, length) -> None:
    a, b, c = stable(size)
    a_bar, b_bar = discretize(a, b, 0.4)
    x = np.random.default_rng(1).standard_normal(length)
    # dlsim reads the state before it is updated, so c · (Ā h + b̄ x) is its output
    system = (a_bar, b_bar[:, None], (c @ a_bar)[None], np.array([[c @ b_bar]]), 0.4)
    simulated: Any = signal.dlsim(system, x)
    _, want, states = simulated
    y, state = ssm_recurrent(a_bar, b_bar, c, x)
    kernel = ssm_kernel(a_bar, b_bar, c, length)
    assert_close(y, want[:, 0], 1e3)
    assert_close(state, a_bar @ states[-1] + b_bar * x[-1], 1e3)
    assert_close(ssm_convolve(kernel, x), want[:, 0], 1e4)
    assert np.abs(ssm_convolve(kernel, x) - y).max() < 1e-10


def test_kernel_is_scipys_impulse_response() -> None:
    a, b, c = stable(4)
    a_bar, b_bar = discretize(a, b, 0.2, "bilinear")
    system = (a_bar, b_bar[:, None], c[None], np.zeros((1, 1)), 0.2)
    impulse: Any = signal.dimpulse(system, n=21)
    _, (response,) = impulse
    assert_close(ssm_kernel(a_bar, b_bar, c, 20), response[1:, 0], 1e3)  # SciPy's comes a step late


@pytest.mark.parametrize("cut", [1, 4, 8])
def test_a_text_may_be_read_in_parts(cut: int) -> None:
    a, b, c = stable(3)
    a_bar, b_bar = discretize(a, b, 0.3)
    x = np.random.default_rng(2).standard_normal((2, 5, 9))
    whole, last = ssm_recurrent(a_bar, b_bar, c, x)
    first, state = ssm_recurrent(a_bar, b_bar, c, x[..., :cut])
    second, state = ssm_recurrent(a_bar, b_bar, c, x[..., cut:], state)
    assert_close(np.concatenate([first, second], axis=-1), whole, 100)
    assert_close(state, last, 100)


@pytest.mark.parametrize("length", [1, 2, 5, 64, 101])
def test_convolution_is_scipys_direct_one(length: int) -> None:
    rng = np.random.default_rng(3)
    kernel, x = rng.standard_normal((3, length)), rng.standard_normal((2, 3, length))
    got = ssm_convolve(kernel, x)
    for i, j in np.ndindex(2, 3):
        want = signal.convolve(kernel[j], x[i, j], method="direct")[:length]
        assert_close(got[i, j], want, 100 * length)


@pytest.mark.parametrize("taps", [1, 2, 4, 9, 30])
@pytest.mark.parametrize("block", [1, 2, 3, 5, 17, 50])
def test_blocks_change_nothing(taps: int, block: int) -> None:
    rng = np.random.default_rng(4)
    kernel, x = rng.standard_normal(taps), rng.standard_normal((2, 17))
    got = convolve_in_blocks(kernel, x, block)
    for i in range(2):
        filtered: Any = signal.lfilter(kernel, 1, x[i])
        assert_close(got[i], filtered, 1e3)


def test_hippo_is_the_matrix_of_the_paper() -> None:
    a, b = hippo_legs(4)
    for n in range(4):
        assert b[n] == pytest.approx((2 * n + 1) ** 0.5)
        for k in range(4):
            want = -(((2 * n + 1) * (2 * k + 1)) ** 0.5) if n > k else -(n + 1.0) * (n == k)
            assert a[n, k] == pytest.approx(want)


def test_hippos_state_is_the_projection_on_legendre_polynomials() -> None:
    """With h' = A h + b x, h_n = ∫ √(2n+1) P_n(2e^-τ - 1) x(τ ago) e^-τ dτ."""
    size = 5
    a, b = hippo_legs(size)

    def ago(tau: float) -> float:
        return float(np.sin(2 * tau) + tau)

    def weight(n: int, u: float) -> float:
        return (2 * n + 1) ** 0.5 * float(special.eval_legendre(n, 2 * u - 1))

    want = [
        integrate.quad(lambda t, n=n: weight(n, np.exp(-t)) * ago(t) * np.exp(-t), 0, 40)[0]
        for n in range(size)
    ]
    start = 40.0  # time of now; the state before is forgotten: e^-40
    solved = integrate.solve_ivp(
        lambda t, h: a @ h + b * ago(start - t), (0, start), np.zeros(size), rtol=1e-10, atol=1e-10
    )
    np.testing.assert_allclose(solved.y[:, -1], want, rtol=1e-6, atol=1e-6)


def test_reconstruction_returns_every_polynomial() -> None:
    rng = np.random.default_rng(5)
    nodes, weights = special.roots_legendre(20)
    places = (nodes + 1) / 2
    curve = np.polyval(rng.standard_normal(6), places)  # of degree 5
    n = np.arange(6)[:, None]
    basis = np.sqrt(2 * n + 1) * special.eval_legendre(n, nodes)  # orthonormal on (0, 1)
    coefficients = basis @ (weights / 2 * curve)
    assert_close(hippo_reconstruct(coefficients, places), curve, 1e3)
    stack = np.stack([coefficients, 2 * coefficients])
    assert_close(hippo_reconstruct(stack, places), np.stack([curve, 2 * curve]), 1e3)


def test_memory_draws_a_polynomial_of_its_past() -> None:
    """A constant clock turns e^-τ, the place, into a straight line: N = 2 numbers hold it."""
    a, b = hippo_legs(2)
    delta, steps = 1e-3, 20_000
    a_bar, b_bar = discretize(a, b, delta)
    ages = delta * (np.arange(steps)[::-1] + 0.5)  # middles of the steps
    curve = 3 * np.exp(-ages) - 1
    _, state = ssm_recurrent(a_bar, b_bar, np.ones(2), curve)
    places = np.array([1.0, 0.5, 0.1])
    np.testing.assert_allclose(hippo_reconstruct(state, places), 3 * places - 1, atol=1e-5)


def test_s4d_starts_where_the_paper_says() -> None:
    lin, inv = s4d_init(32), s4d_init(32, "inv")
    np.testing.assert_allclose(lin[[0, 1, 31]].imag, [0, np.pi, 31 * np.pi])
    np.testing.assert_allclose(inv[0].imag, 64 / np.pi * 63)
    assert (lin.real == -0.5).all()
    assert (inv.real == -0.5).all()


def test_s4d_kernel_is_the_dense_one_of_its_pairs() -> None:
    rng = np.random.default_rng(6)
    a = -rng.random(3) + 1j * rng.standard_normal(3)
    b, c = rng.standard_normal((2, 3)) + 1j * rng.standard_normal((2, 3))
    both = [np.concatenate([v, v.conj()]) for v in (a, b, c)]
    system = (np.diag(both[0]), both[1][:, None], both[2][None], np.zeros((1, 1)))
    a_bar, b_bar = sampled(system, 0.3, "zoh")
    want = [(both[2] @ np.linalg.matrix_power(a_bar, j) @ b_bar[:, 0]) for j in range(9)]
    got = s4d_kernel(a, b, c, np.array(0.3), 9)
    assert got.dtype == np.float64
    assert_close(got, np.array(want).real, 1e3)


def test_s4d_kernel_has_a_step_size_for_each_channel() -> None:
    a = np.stack([s4d_init(4), s4d_init(4, "inv")])
    ones, delta = np.ones((2, 4)), np.array([0.1, 0.7])
    got = s4d_kernel(a, ones, ones, delta, 11)
    for channel in range(2):
        one = s4d_kernel(a[channel], ones[0], ones[0], delta[channel], 11)
        assert_close(got[channel], one, 100)


@pytest.mark.parametrize("size", [1, 2, 8, 32])
def test_legs_is_diagonal_plus_an_outer_product(size: int) -> None:
    a, b = hippo_legs(size)
    diagonal, p, turned, v = legs_dplr(size)
    assert_close(v.conj().T @ v, np.eye(size), 1e3)
    rebuilt = v @ (np.diag(diagonal) - np.outer(p, p.conj())) @ v.conj().T
    assert_close(rebuilt, a.astype(complex), 1e3)
    assert_close(v @ turned, b.astype(complex), 1e3)


@pytest.mark.parametrize(("size", "length"), [(1, 1), (2, 2), (4, 9), (16, 64), (32, 33)])
def test_cauchy_kernel_of_hippo_is_the_dense_one(size: int, length: int) -> None:
    a, b = hippo_legs(size)
    c = np.random.default_rng(7).standard_normal(size)
    want = ssm_kernel(*discretize(a, b, 0.05, "bilinear"), c, length)
    diagonal, p, turned, v = legs_dplr(size)
    got = dplr_kernel(diagonal, p, turned, c @ v, 0.05, length)
    assert_close(got, want, 1e4 * size)


def test_cut_after_makes_an_endless_sum_finite() -> None:
    diagonal, p, _, _ = legs_dplr(3)
    c = np.array([1.0, 2.0, 3.0], dtype=complex)
    a_bar, _ = discretize_complex(diagonal, p, 0.2)
    powers = [np.linalg.matrix_power(a_bar, j) for j in range(5)]
    z = np.exp(-2j * np.pi / 5)
    want = sum(c @ power * z**j for j, power in enumerate(powers))
    got = cut_after(c, diagonal, p, 0.2, 5) @ np.linalg.inv(np.eye(3) - z * a_bar)
    assert_close(got, np.array(want), 1e3)


def discretize_complex(diagonal, p, delta) -> tuple[np.ndarray, np.ndarray]:
    """SciPy's bilinear Ā and b̄ of Λ - p p*, with b = 1."""
    size = len(p)
    a = np.diag(diagonal) - np.outer(p, p.conj())
    system = (a, np.ones((size, 1)), np.ones((1, size)), np.zeros((1, 1)))
    a_bar, b_bar = sampled(system, delta, "bilinear")
    return a_bar, b_bar[:, 0]


class TestRefusals:
    def test_shapes(self) -> None:
        square, row = np.ones((2, 2)), np.ones(2)
        with pytest.raises(ValueError, match=r"square matrix, \(N, N\); got the shape \(2, 3\)"):
            discretize(np.ones((2, 3)), row, 0.1)
        with pytest.raises(ValueError, match=r"b of shape \(2,\), as A; got \(3,\)"):
            ssm_kernel(square, np.ones(3), row, 4)
        with pytest.raises(ValueError, match=r"c of shape \(2,\), as A; got \(2, 1\)"):
            ssm_recurrent(square, row, row[:, None], row)
        with pytest.raises(ValueError, match="expected 3 taps, one a token; got 2"):
            ssm_convolve(row, np.ones(3))

    def test_options(self) -> None:
        with pytest.raises(ValueError, match="'zoh' or 'bilinear'; got 'euler'"):
            discretize(np.ones((1, 1)), np.ones(1), 0.1, "euler")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="'lin' or 'inv'; got 'legs'"):
            s4d_init(3, "legs")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="at least 1 token; got 0"):
            convolve_in_blocks(np.ones(2), np.ones(3), 0)
