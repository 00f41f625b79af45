"""Chapter 01: how the measurement of ∂h_T/∂h_t goes wrong in practice.

Each function is written as a learner might write it; its docstring is what the learner is told. It
is told to whoever's code behaves alike, so it speaks of what comes out before it guesses at code.
"""

import numpy as np


def _jacobians(states, w_h, slope_at=None, step=None):
    """∂h_T/∂h_t for every t, last first, with its two decisions left open."""
    batch, steps, width = states.shape
    slope_at = slope_at or (lambda t: 1 - states[:, t] ** 2)
    step = step or (lambda jacobian, slopes: (jacobian * slopes[:, None]) @ w_h.T)
    jacobian = np.tile(np.eye(width), (batch, 1, 1))
    found = [jacobian]
    for t in reversed(range(1, steps)):
        jacobian = step(jacobian, slope_at(t))
        found.append(jacobian)
    return found


def _spectral(jacobians):
    return np.stack([np.linalg.norm(j, ord=2, axis=(1, 2)) for j in jacobians[::-1]], axis=1)


def norms_frobenius(states, w_h):
    """Your numbers are Frobenius norms: the root of the sum of all squared entries, NumPy's default
    for a matrix. Wanted is the largest singular value: ord=2.
    """
    jacobians = _jacobians(states, w_h)[::-1]
    return np.stack([np.linalg.norm(j, axis=(1, 2)) for j in jacobians], axis=1)


def norms_product_of_norms(states, w_h):
    """The norms of the single steps are multiplied. That is an upper bound: what one step stretches
    most, the next may shrink. Multiply the matrices, then take the norm.
    """
    batch, steps, width = states.shape
    norms = np.ones((batch, steps))
    for t in reversed(range(1, steps)):
        one = (np.eye(width) * (1 - states[:, t] ** 2)[:, None]) @ w_h.T
        norms[:, t - 1] = norms[:, t] * np.linalg.norm(one, ord=2, axis=(1, 2))
    return norms


def norms_radius(states, w_h):
    """Your numbers are the largest absolute eigenvalue of the product. A matrix can stretch a
    vector by more than that: take the largest singular value, np.linalg.norm(…, ord=2).
    """
    jacobians = _jacobians(states, w_h)[::-1]
    return np.stack([np.abs(np.linalg.eigvals(j)).max(axis=-1) for j in jacobians], axis=1)


def norms_without_slopes(states, w_h):
    """The slopes of tanh are missing: these are norms of powers of w_h. Each step also multiplies
    by 1 − h²; the states tell you h.
    """
    return _spectral(_jacobians(states, w_h, slope_at=lambda t: np.ones_like(states[:, t])))


def norms_slope_of_previous(states, w_h):
    """The slopes are one step off. On the way from h_{t−1} to h_t you go through the tanh that made
    h_t: its slope is 1 − h_t².
    """
    return _spectral(_jacobians(states, w_h, slope_at=lambda t: 1 - states[:, t - 1] ** 2))


def norms_reversed(states, w_h):
    """Your numbers are in reverse order: entry 0 must belong to the first state, the furthest from
    the end, and the last entry is 1.
    """
    return _spectral(_jacobians(states, w_h)[::-1])


def norms_one_step_too_many(states, w_h):
    """Every entry has gone one step too far back, so that the last is not 1. Take the norm first,
    then multiply by the step's slopes and weights.
    """
    batch, steps, width = states.shape
    jacobian = np.tile(np.eye(width), (batch, 1, 1))
    norms = np.empty((batch, steps))
    for t in reversed(range(steps)):
        jacobian = (jacobian * (1 - states[:, t] ** 2)[:, None]) @ w_h.T
        norms[:, t] = np.linalg.norm(jacobian, ord=2, axis=(1, 2))
    return norms


def norms_weights_first(states, w_h):
    """Slopes and weights come in the wrong order: going back, you meet tanh first and W_h after it.
    Multiply the columns by 1 − h², and only then by w_h.T.
    """
    return _spectral(
        _jacobians(states, w_h, step=lambda jacobian, slopes: (jacobian @ w_h.T) * slopes[:, None])
    )


def norms_slopes_on_rows(states, w_h):
    """The slopes multiply the rows of what came so far; a row belongs to a number of h_T. They
    belong to the columns, the numbers of h_t: slopes[:, None, :].
    """
    return _spectral(
        _jacobians(
            states, w_h, step=lambda jacobian, slopes: (jacobian * slopes[:, :, None]) @ w_h.T
        )
    )


def norms_weights_not_transposed(states, w_h):
    """w_h is used without its transpose. Entry (i, j) of ∂h_t/∂h_{t−1} is slope i times w_h[j, i]:
    multiply by w_h.T.
    """
    return _spectral(
        _jacobians(states, w_h, step=lambda jacobian, slopes: (jacobian * slopes[:, None]) @ w_h)
    )


def norms_single_steps(states, w_h):
    """Each of your numbers is the norm of one step alone. From h_t to h_T there are many steps:
    multiply their matrices.
    """
    batch, steps, width = states.shape
    norms = np.ones((batch, steps))
    for t in range(1, steps):
        one = (np.eye(width) * (1 - states[:, t] ** 2)[:, None]) @ w_h.T
        norms[:, t - 1] = np.linalg.norm(one, ord=2, axis=(1, 2))
    return norms


def norms_of_the_sum(states, w_h):
    """Your numbers are norms of one vector, the gradient of the sum of the last state. Wanted is
    the norm of the whole matrix: start from the identity, not from ones.
    """
    jacobians = _jacobians(states, w_h)[::-1]
    return np.stack([np.linalg.norm(j.sum(axis=1), axis=-1) for j in jacobians], axis=1)


def norms_smallest(states, w_h):
    """Your numbers are the smallest singular values. The spectral norm is the largest: ord=2, or
    the first of np.linalg.svd's values.
    """
    jacobians = _jacobians(states, w_h)[::-1]
    return np.stack([np.linalg.svd(j, compute_uv=False)[:, -1] for j in jacobians], axis=1)


def norms_first_sequence(states, w_h):
    """Every sequence shows the norms of the first one. Each has states of its own: keep the batch's
    axis, a stack of B matrices.
    """
    first = _spectral(_jacobians(states[:1], w_h))
    return np.tile(first, (states.shape[0], 1))


def norms_elementwise_powers(states, w_h):
    """The matrices are multiplied number by number, as `*` does. One step after the other is a
    matrix product: `@`.
    """
    return _spectral(
        _jacobians(
            states,
            w_h,
            step=lambda jacobian, slopes: jacobian * ((np.eye(len(w_h)) * slopes[:, None]) @ w_h.T),
        )
    )


def norms_whole_stack(states, w_h):
    """Your numbers are the root of the sum of squares over the matrices of all sequences at once,
    NumPy's default. Wanted is the largest singular value of each: ord=2, axis=(1, 2).
    """
    jacobians = _jacobians(states, w_h)[::-1]
    return np.tile([np.linalg.norm(j) for j in jacobians], (states.shape[0], 1))


def norms_slope_not_squared(states, w_h):
    """The slopes are 1 − h instead of 1 − h²: the square is missing."""
    return _spectral(_jacobians(states, w_h, slope_at=lambda t: 1 - states[:, t]))


def norms_tanh_again(states, w_h):
    """The slopes are 1 − tanh(h)², with tanh taken of the state once more. The state already is a
    tanh: 1 − states[:, t]**2.
    """
    return _spectral(_jacobians(states, w_h, slope_at=lambda t: 1 - np.tanh(states[:, t]) ** 2))


def norms_weights_on_the_left(states, w_h):
    """w_h.T is multiplied from the left, the slopes from the right. Both belong on the right of
    what you hold, the slopes first: (jacobian * slopes[:, None, :]) @ w_h.T.
    """
    return _spectral(
        _jacobians(states, w_h, step=lambda jacobian, slopes: w_h.T @ (jacobian * slopes[:, None]))
    )


def norms_from_the_left(states, w_h):
    """The steps are multiplied in the wrong order. Earlier steps stand further right in the product
    ∂h_T/∂h_{T−1} ⋯ ∂h_{t+1}/∂h_t: multiply what you hold from the right.
    """
    return _spectral(
        _jacobians(
            states,
            w_h,
            step=lambda jacobian, slopes: (slopes[:, :, None] * w_h.T) @ jacobian,
        )
    )


def norms_last_left_empty(states, w_h):
    """The last entry stays 0. It belongs to ∂h_T/∂h_T, the identity: 1."""
    norms = _spectral(_jacobians(states, w_h))
    norms[:, -1] = 0.0
    return norms


NORMS = {
    "Frobenius norm": norms_frobenius,
    "Frobenius norm of the whole stack": norms_whole_stack,
    "slope not squared": norms_slope_not_squared,
    "tanh taken twice in the slope": norms_tanh_again,
    "steps multiplied from the left": norms_from_the_left,
    "w_h multiplied from the left": norms_weights_on_the_left,
    "last entry left at 0": norms_last_left_empty,
    "product of norms, not norm of the product": norms_product_of_norms,
    "largest eigenvalue, not singular value": norms_radius,
    "forgot tanh's slopes": norms_without_slopes,
    "slopes one step off": norms_slope_of_previous,
    "in reverse order": norms_reversed,
    "one step too far": norms_one_step_too_many,
    "weights before slopes": norms_weights_first,
    "slopes on the rows": norms_slopes_on_rows,
    "w_h instead of its transpose": norms_weights_not_transposed,
    "single steps only": norms_single_steps,
    "norm of one gradient vector": norms_of_the_sum,
    "smallest singular value": norms_smallest,
    "the first sequence for all": norms_first_sequence,
    "elementwise product of the matrices": norms_elementwise_powers,
}
