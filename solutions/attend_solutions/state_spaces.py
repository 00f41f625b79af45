"""State space models in NumPy: an ODE, its recurrence, its convolution, and HiPPO's memory.

    h'(t) = A h(t) + b x(t),  y(t) = c · h(t)           the differential equation
    h_t   = Ā h_t-1 + b̄ x_t,  y_t  = c · h_t            its recurrence, for steps of length Δ
    y_t   = Σ_j K_j x_t-j,    K_j  = c · Ā^j b̄          the same as one convolution

Letters:
    T    tokens in a text                    Δ    time from one token to the next
    N    numbers in a state                  P    pairs of complex conjugate numbers, N = 2 P
    K    taps of a kernel                    ...  any leading axes (batch, channels)

Sources: Gu et al. 2020, "HiPPO: Recurrent Memory with Optimal Polynomial Projections"; Gu, Goel and
Ré 2022, "Efficiently Modeling Long Sequences with Structured State Spaces" (S4); Gu et al. 2022,
"On the Parameterization and Initialization of Diagonal State Space Models" (S4D).
"""

import math
from typing import Literal

import numpy as np
from numpy.polynomial.legendre import legvander

from attend_solutions.types import Array, Complex


def matrix_exponential(m: Array) -> Array:
    """Return e^M = 1 + M + M²/2! + …, by its series for M / 2^s, squared s times.

    Shapes:
        m: (N, N)
        returns: (N, N)

    Source: Moler and Van Loan 2003, "Nineteen Dubious Ways to Compute the Exponential of a Matrix",
    method 3.

    >>> matrix_exponential(np.array([[0.0, 1.0], [0.0, 0.0]]))
    array([[1., 1.],
           [0., 1.]])
    """
    size = float(np.abs(m).sum(axis=0).max())
    squarings = max(0, math.ceil(math.log2(size)) + 1) if size > 0 else 0
    small = m / 2.0**squarings  # of norm 1/2 at most, so that 18 terms leave 1e-22
    total = term = np.eye(len(m))
    for n in range(1, 18):
        term = term @ small / n
        total = total + term
    for _ in range(squarings):
        total = total @ total
    return total


def expect_system(a: Array, b: Array, c: Array | None = None) -> None:
    """Refuse a matrix and vectors that do not fit each other.

    Raises:
        ValueError: says what was expected and what came.
    """
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise ValueError(f"expected a square matrix, (N, N); got the shape {a.shape}")
    for name, vector in (("b", b), ("c", c)):
        if vector is not None and vector.shape != (len(a),):
            raise ValueError(f"expected {name} of shape ({len(a)},), as A; got {vector.shape}")


def discretize(
    a: Array, b: Array, delta: float, method: Literal["zoh", "bilinear"] = "zoh"
) -> tuple[Array, Array]:
    """Turn h' = A h + b x into h_t = Ā h_t-1 + b̄ x_t, for steps of length Δ.

    "zoh" (zero-order hold) is exact where x keeps its value during a step. "bilinear" takes the
    mean of the slopes at both ends of the step.

    Shapes:
        a: (N, N), which may be singular
        b: (N,)
        returns: Ā (N, N), b̄ (N,)

    Args:
        delta: the time Δ of one step, above 0.

    Raises:
        ValueError: shapes that do not fit, or another method.

    Source: Gu, Goel and Ré 2022 (S4), equation 3 (bilinear); Gu et al. 2022 (S4D), §2.

    >>> discretize(np.zeros((1, 1)), np.ones(1), 0.5)
    (array([[1.]]), array([0.5]))
    >>> discretize(-np.ones((1, 1)), np.ones(1), 2.0, "bilinear")
    (array([[0.]]), array([1.]))
    """
    expect_system(a, b)
    if method not in ("zoh", "bilinear"):
        raise ValueError(f"expected the method 'zoh' or 'bilinear'; got {method!r}")
    ### BEGIN SOLUTION
    size = len(b)
    if method == "bilinear":
        half = delta / 2 * a
        back = np.eye(size) - half
        return np.linalg.solve(back, np.eye(size) + half), np.linalg.solve(back, delta * b)
    system = np.zeros((size + 1, size + 1))  # x is one state more, which does not change
    system[:size, :size], system[:size, size] = delta * a, delta * b
    step = matrix_exponential(system)
    return step[:size, :size], step[:size, size]
    ### END SOLUTION


def ssm_recurrent(
    a_bar: Array, b_bar: Array, c: Array, x: Array, state: Array | None = None
) -> tuple[Array, Array]:
    """Run h_t = Ā h_t-1 + b̄ x_t and y_t = c · h_t, token by token.

    Shapes:
        a_bar: (N, N)
        b_bar, c: (N,)
        x: (..., T), T at least 1
        state: (..., N), what is known of the text so far; None is all zeros
        returns: y (..., T), and the state after the last token (..., N)

    Raises:
        ValueError: shapes of the system do not fit.

    Source: Gu, Goel and Ré 2022 (S4), equation 3.

    >>> ssm_recurrent(np.array([[0.5]]), np.ones(1), np.ones(1), np.array([1.0, 2.0]))
    (array([1. , 2.5]), array([2.5]))
    """
    expect_system(a_bar, b_bar, c)
    ### BEGIN SOLUTION
    h = np.zeros((*x.shape[:-1], len(b_bar))) if state is None else state
    outputs = []
    for t in range(x.shape[-1]):
        h = h @ a_bar.T + x[..., t, None] * b_bar  # (..., N)
        outputs.append(h @ c)
    return np.stack(outputs, axis=-1), h
    ### END SOLUTION


def ssm_kernel(a_bar: Array, b_bar: Array, c: Array, length: int) -> Array:
    """List what an input of 1 is still worth at the output: K_j = c · Ā^j b̄, j tokens later.

    Shapes:
        a_bar: (N, N)
        b_bar, c: (N,)
        returns: (length,)

    Raises:
        ValueError: shapes of the system do not fit.

    Source: Gu, Goel and Ré 2022 (S4), equations 4 and 5.

    >>> ssm_kernel(np.array([[0.5]]), np.ones(1), np.ones(1), 3)
    array([1.  , 0.5 , 0.25])
    """
    expect_system(a_bar, b_bar, c)
    ### BEGIN SOLUTION
    kernel, moved = [], b_bar
    for _ in range(length):
        kernel.append(c @ moved)
        moved = a_bar @ moved  # (N,)
    return np.array(kernel, dtype=float)
    ### END SOLUTION


def ssm_convolve(kernel: Array, x: Array) -> Array:
    """Apply a kernel of T taps to T tokens by FFT: y_t = Σ_j≤t K_j x_t-j.

    Shapes:
        kernel: (..., T), whose leading axes broadcast with those of x
        x: (..., T)
        returns: (..., T)

    Raises:
        ValueError: the kernel has not as many taps as x has tokens.

    Source: Gu, Goel and Ré 2022 (S4), §2.4.

    >>> ssm_convolve(np.array([1.0, 0.5]), np.array([1.0, 2.0])).round(12)
    array([1. , 2.5])
    """
    length = x.shape[-1]
    if kernel.shape[-1] != length:
        raise ValueError(f"expected {length} taps, one a token; got {kernel.shape[-1]}")
    ### BEGIN SOLUTION
    padded = 2 * length  # so that nothing comes round to the beginning
    product = np.fft.rfft(kernel, padded) * np.fft.rfft(x, padded)
    return np.fft.irfft(product, padded)[..., :length]
    ### END SOLUTION


def convolve_in_blocks(kernel: Array, x: Array, block: int) -> Array:
    """Apply a kernel to a long text, ``block`` tokens at a time: y_t = Σ_j K_j x_t-j.

    Each block's answer is longer than the block: its end belongs to the tokens that follow.

    Shapes:
        kernel: (K,), K at least 1, shorter or longer than x
        x: (..., T)
        returns: (..., T)

    Raises:
        ValueError: a block of less than 1 token.

    Source: Oppenheim and Schafer 2010, "Discrete-Time Signal Processing", §8.7.3 (overlap-add).

    >>> convolve_in_blocks(np.array([1.0, 0.5]), np.array([1.0, 2.0, 4.0]), 2).round(12)
    array([1. , 2.5, 5. ])
    """
    if block < 1:
        raise ValueError(f"a block needs at least 1 token; got {block}")
    ### BEGIN SOLUTION
    y = np.zeros(x.shape)
    for start in range(0, x.shape[-1], block):
        part = x[..., start : start + block]
        length = part.shape[-1] + len(kernel) - 1  # of the whole answer to this part
        product = np.fft.rfft(kernel, length) * np.fft.rfft(part, length)
        answer = np.fft.irfft(product, length)[..., : x.shape[-1] - start]
        y[..., start : start + length] += answer
    return y
    ### END SOLUTION


def hippo_legs(size: int) -> tuple[Array, Array]:
    """Return HiPPO-LegS: A and b whose state holds the past as a sum of Legendre polynomials.

    Shapes:
        returns: A (size, size), b (size,)

    Source: Gu et al. 2020 (HiPPO), theorem 2; with the sign of S4, equation 2.

    >>> hippo_legs(2)[0].round(3)
    array([[-1.   ,  0.   ],
           [-1.732, -2.   ]])
    """
    n = np.arange(size)
    ### BEGIN SOLUTION
    root = np.sqrt(2 * n + 1)
    a = np.tril(-np.outer(root, root), -1) - np.diag(n + 1.0)
    return a, root
    ### END SOLUTION


def hippo_reconstruct(coefficients: Array, places: Array) -> Array:
    """Draw the past from N coefficients: Σ_n h_n √(2n+1) P_n(2u - 1), for each place u.

    u = 1 is now and u = 0 the beginning. With a clock that runs as 1/t the time s has the place
    s / t; with a constant clock, what is τ ago has the place e^-τ.

    Shapes:
        coefficients: (..., N)
        places: (T,), 0 to 1
        returns: (..., T)

    Source: Gu et al. 2020 (HiPPO), appendix D.3.

    >>> hippo_reconstruct(np.array([3.0, 1.0]), np.array([0.5, 1.0])).round(3)
    array([3.   , 4.732])
    """
    ### BEGIN SOLUTION
    n = np.arange(coefficients.shape[-1])
    basis = legvander(2 * places - 1, len(n) - 1) * np.sqrt(2 * n + 1)  # (T, N)
    return coefficients @ basis.T
    ### END SOLUTION


def s4d_init(pairs: int, kind: Literal["lin", "inv"] = "lin") -> Complex:
    """Return the rates that S4D starts with: P complex numbers, each for a pair of conjugates.

    "lin": -1/2 + iπ n. "inv": -1/2 + i (N/π) (N/(2n+1) - 1), with N = 2 P. n = 0, …, P - 1.

    Shapes:
        returns: (pairs,)

    Raises:
        ValueError: another kind.

    Source: Gu et al. 2022 (S4D), §4.

    >>> s4d_init(2).round(3)
    array([-0.5+0.j   , -0.5+3.142j])
    """
    if kind not in ("lin", "inv"):
        raise ValueError(f"expected the kind 'lin' or 'inv'; got {kind!r}")
    n, size = np.arange(pairs), 2 * pairs
    ### BEGIN SOLUTION
    turns = np.pi * n if kind == "lin" else size / np.pi * (size / (2 * n + 1) - 1)
    return -0.5 + 1j * turns
    ### END SOLUTION


def s4d_kernel(a: Complex, b: Complex, c: Complex, delta: Array, length: int) -> Array:
    """Return the kernel of a diagonal system held by zero-order hold: P numbers and their twins.

    K_j = 2 Re Σ_n c_n b̄_n Ā_n^j, with Ā_n = e^(Δ a_n) and b̄_n = (Ā_n - 1) / a_n · b_n.

    Shapes:
        a, b, c: (..., P); a is never 0
        delta: (...), one step size for each leading index
        returns: (..., length), real

    Source: Gu et al. 2022 (S4D), §3.2.

    >>> s4d_kernel(np.array([-1 + 0j]), np.ones(1), np.ones(1), np.array(np.log(2)), 2).round(3)
    array([1. , 0.5])
    """
    delta = np.asarray(delta)[..., None]  # (..., 1)
    ### BEGIN SOLUTION
    weights = c * b * (np.exp(delta * a) - 1) / a  # (..., P)
    powers = np.exp((delta * a)[..., None] * np.arange(length))  # (..., P, T), Vandermonde
    return 2 * (weights[..., None, :] @ powers)[..., 0, :].real
    ### END SOLUTION


def legs_dplr(size: int) -> tuple[Complex, Complex, Complex, Complex]:
    """Return HiPPO-LegS in the basis where it is diagonal but for one outer product.

    A = V (Λ - p p*) V*, with a unitary V.

    Shapes:
        returns: Λ's diagonal (N,), p (N,), b in the new basis, V* b (N,), V (N, N)

    Source: Gu, Goel and Ré 2022 (S4), theorem 1 and appendix C.1.
    """
    b = np.sqrt(2 * np.arange(size) + 1)
    p = b / 2**0.5
    # A + p pᵀ is -1/2 on the diagonal, and its lower half is minus its upper half
    skew = np.triu(np.outer(p, p), 1) - np.tril(np.outer(p, p), -1)
    turns, v = np.linalg.eigh(-1j * skew)
    return -0.5 + 1j * turns, v.conj().T @ p, v.conj().T @ b, v


def cut_after(c: Complex, diagonal: Complex, p: Complex, delta: float, length: int) -> Complex:
    """Return c̃ = c (1 - Ā^T): with it the endless kernel's sum is that of its first T taps.

    Shapes:
        c, diagonal, p: (N,); Ā is the bilinear one of diag(diagonal) - p p*
        returns: (N,)

    Source: Gu, Goel and Ré 2022 (S4), appendix C.3.
    """
    size = len(c)
    half = delta / 2 * (np.diag(diagonal) - np.outer(p, p.conj()))
    a_bar = np.linalg.solve(np.eye(size) - half, np.eye(size) + half)
    return c - c @ np.linalg.matrix_power(a_bar, length)


def dplr_kernel(
    diagonal: Complex, p: Complex, b: Complex, c: Complex, delta: float, length: int
) -> Array:
    """Return the bilinear kernel of A = Λ - p p* from its values at the T roots of unity.

    The N numbers are a real system in another basis, so that the kernel is real. At a root z, with
    d_n = 1 - z - w λ_n, w = (1 + z) Δ/2 and ⟨u, v⟩ = Σ_n u_n v_n / d_n:

        Σ_j K_j z^j = Δ (⟨c̃, b⟩ - w ⟨c̃, p⟩ ⟨p*, b⟩ / (1 + w ⟨p*, p⟩)).

    Shapes:
        diagonal, p, b, c: (N,)
        returns: (length,)

    Source: Gu, Goel and Ré 2022 (S4), algorithm 1 and appendix C.3, without its division by 1 + z.

    >>> one, none = np.ones(1, complex), np.zeros(1, complex)
    >>> dplr_kernel(-one, none, one, one, 2.0, 3).round(12)
    array([1., 0., 0.])
    """
    c_cut = cut_after(c, diagonal, p, delta, length)
    roots = np.exp(-2j * np.pi * np.arange(length) / length)  # as np.fft orders them
    ### BEGIN SOLUTION
    w = (1 + roots) * delta / 2  # (T,)
    cauchy = 1 / (1 - roots[:, None] - w[:, None] * diagonal)  # (T, N)
    cb, cp, pb, pp = (cauchy @ (u * v) for u in (c_cut, p.conj()) for v in (b, p))
    values = delta * (cb - w * cp * pb / (1 + w * pp))
    return np.fft.ifft(values).real
    ### END SOLUTION
