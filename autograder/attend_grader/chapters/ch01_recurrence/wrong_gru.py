"""Chapter 01, gates: how a GRU's step goes wrong in practice.

Each function is written as a learner might write it; its docstring is what the learner is told. It
is told to whoever's code behaves alike, so it speaks of what comes out before it guesses at code.
"""

import numpy as np
from attend_solutions.recurrence import sigmoid


def _both(x, h, w_x, w_h, b_x, b_h):
    return [
        *np.split(x @ w_x + b_x, 3, axis=-1),
        *np.split(h @ w_h + b_h, 3, axis=-1),
    ]


def _right(x, h, w_x, w_h, b_x, b_h):
    """The right answer, for slips in what goes into it."""
    x_r, x_z, x_n, h_r, h_z, h_n = _both(x, h, w_x, w_h, b_x, b_h)
    z = sigmoid(x_z + h_z)
    return (1 - z) * np.tanh(x_n + sigmoid(x_r + h_r) * h_n) + z * h


def gru_update_reversed(x, h, w_x, w_h, b_x, b_h):
    """Your update gate of 1 replaces the state, as in Chung et al. 2014. Here, as in PyTorch and in
    Cho et al. 2014, it keeps it: (1 − z) · candidate + z · h.
    """
    x_r, x_z, x_n, h_r, h_z, h_n = _both(x, h, w_x, w_h, b_x, b_h)
    z = sigmoid(x_z + h_z)
    return z * np.tanh(x_n + sigmoid(x_r + h_r) * h_n) + (1 - z) * h


def gru_reset_before_product(x, h, w_x, w_h, b_x, b_h):
    """The reset gate multiplies the state before the product with W_h, as in Cho et al. 2014. Here,
    as in PyTorch, it multiplies h @ w_h + b_h.
    """
    n = h.shape[-1]
    x_r, x_z, x_n, h_r, h_z, _ = _both(x, h, w_x, w_h, b_x, b_h)
    z, r = sigmoid(x_z + h_z), sigmoid(x_r + h_r)
    h_n = (r * h) @ w_h[:, 2 * n :] + b_h[2 * n :]
    return (1 - z) * np.tanh(x_n + h_n) + z * h


def gru_bias_outside_reset(x, h, w_x, w_h, b_x, b_h):
    """The reset gate multiplies h @ w_h, and the bias b_h is added after it. The bias belongs to
    what comes from the state: r · (h @ w_h + b_h).
    """
    return _right(x, h, w_x, w_h, b_x + b_h, np.zeros(b_h.shape))


def gru_update_first(x, h, w_x, w_h, b_x, b_h):
    """Reset gate and update gate are exchanged. The first block is the reset gate r, the second the
    update gate z.
    """
    x_z, x_r, x_n, h_z, h_r, h_n = _both(x, h, w_x, w_h, b_x, b_h)
    z = sigmoid(x_z + h_z)
    return (1 - z) * np.tanh(x_n + sigmoid(x_r + h_r) * h_n) + z * h


def gru_candidate_first(x, h, w_x, w_h, b_x, b_h):
    """The candidate is taken from the first block. The blocks are r, z, n: the candidate is the
    last.
    """
    x_n, x_r, x_z, h_n, h_r, h_z = _both(x, h, w_x, w_h, b_x, b_h)
    z = sigmoid(x_z + h_z)
    return (1 - z) * np.tanh(x_n + sigmoid(x_r + h_r) * h_n) + z * h


def gru_without_reset(x, h, w_x, w_h, b_x, b_h):
    """The reset gate has no effect. In the candidate, what comes from the state is multiplied by
    it.
    """
    _, x_z, x_n, _, h_z, h_n = _both(x, h, w_x, w_h, b_x, b_h)
    z = sigmoid(x_z + h_z)
    return (1 - z) * np.tanh(x_n + h_n) + z * h


def gru_resets_all(x, h, w_x, w_h, b_x, b_h):
    """The reset gate multiplies the whole candidate's sum, the input's part as well. It mutes only
    what comes from the state: x_n + r · h_n.
    """
    x_r, x_z, x_n, h_r, h_z, h_n = _both(x, h, w_x, w_h, b_x, b_h)
    z = sigmoid(x_z + h_z)
    return (1 - z) * np.tanh(sigmoid(x_r + h_r) * (x_n + h_n)) + z * h


def gru_adds_all_of_the_candidate(x, h, w_x, w_h, b_x, b_h):
    """The candidate is added in full. The two shares make 1 together: (1 − z) of the candidate, z
    of the old state.
    """
    x_r, x_z, x_n, h_r, h_z, h_n = _both(x, h, w_x, w_h, b_x, b_h)
    return np.tanh(x_n + sigmoid(x_r + h_r) * h_n) + sigmoid(x_z + h_z) * h


def gru_sigmoid_candidate(x, h, w_x, w_h, b_x, b_h):
    """The candidate went through a sigmoid. It is no gate but new content, between −1 and 1:
    np.tanh.
    """
    x_r, x_z, x_n, h_r, h_z, h_n = _both(x, h, w_x, w_h, b_x, b_h)
    z = sigmoid(x_z + h_z)
    return (1 - z) * sigmoid(x_n + sigmoid(x_r + h_r) * h_n) + z * h


def gru_tanh_gates(x, h, w_x, w_h, b_x, b_h):
    """The gates go through tanh and can be negative. A gate says how much gets through, from 0 to
    1: sigmoid.
    """
    x_r, x_z, x_n, h_r, h_z, h_n = _both(x, h, w_x, w_h, b_x, b_h)
    z = np.tanh(x_z + h_z)
    return (1 - z) * np.tanh(x_n + np.tanh(x_r + h_r) * h_n) + z * h


def gru_without_state_bias(x, h, w_x, w_h, b_x, b_h):
    """The bias b_h is missing from what comes from the state: h @ w_h + b_h."""
    return _right(x, h, w_x, w_h, b_x, np.zeros(b_h.shape))


def gru_without_input_bias(x, h, w_x, w_h, b_x, b_h):
    """The bias b_x is missing from what comes from the input: x @ w_x + b_x."""
    return _right(x, h, w_x, w_h, np.zeros(b_x.shape), b_h)


def gru_keeps_reset_state(x, h, w_x, w_h, b_x, b_h):
    """The old state is kept after the reset gate has muted it. The reset gate belongs to the
    candidate only; the last line takes h as it was.
    """
    x_r, x_z, x_n, h_r, h_z, h_n = _both(x, h, w_x, w_h, b_x, b_h)
    z, r = sigmoid(x_z + h_z), sigmoid(x_r + h_r)
    return (1 - z) * np.tanh(x_n + r * h_n) + z * (r * h)


def gru_interleaved(x, h, w_x, w_h, b_x, b_h):
    """Every third column is taken for one gate. The columns are three blocks of N, one after the
    other: np.split(sums, 3, axis=-1).
    """
    from_x, from_h = x @ w_x + b_x, h @ w_h + b_h
    x_r, x_z, x_n = (from_x[:, k::3] for k in range(3))
    h_r, h_z, h_n = (from_h[:, k::3] for k in range(3))
    z = sigmoid(x_z + h_z)
    return (1 - z) * np.tanh(x_n + sigmoid(x_r + h_r) * h_n) + z * h


def gru_in_place(x, h, w_x, w_h, b_x, b_h):
    """The new state is written into the caller's h (as `h[...] =` or `h *=` do). Return a new array
    instead.
    """
    h[...] = _right(x, h, w_x, w_h, b_x, b_h)
    return h


def gru_sigmoid_overflows(x, h, w_x, w_h, b_x, b_h):
    """Your sigmoid is eˣ / (1 + eˣ): for a large x that is inf / inf, which is NaN. Use the sigmoid
    given above, or 1 / (1 + e⁻ˣ), whose overflow ends in 1 / inf = 0.
    """
    x_r, x_z, x_n, h_r, h_z, h_n = _both(x, h, w_x, w_h, b_x, b_h)
    r, z = (np.exp(s) / (1 + np.exp(s)) for s in (x_r + h_r, x_z + h_z))
    return (1 - z) * np.tanh(x_n + r * h_n) + z * h


def gru_linear_gates(x, h, w_x, w_h, b_x, b_h):
    """The gates are the bare sums, of any size. A gate says how much gets through, from 0 to 1: put
    sigmoid around the sums of r and z.
    """
    x_r, x_z, x_n, h_r, h_z, h_n = _both(x, h, w_x, w_h, b_x, b_h)
    z = x_z + h_z
    return (1 - z) * np.tanh(x_n + (x_r + h_r) * h_n) + z * h


def gru_bare_candidate(x, h, w_x, w_h, b_x, b_h):
    """The candidate is the bare sum, of any size. It goes through tanh: np.tanh(x_n + r · h_n)."""
    x_r, x_z, x_n, h_r, h_z, h_n = _both(x, h, w_x, w_h, b_x, b_h)
    z = sigmoid(x_z + h_z)
    return (1 - z) * (x_n + sigmoid(x_r + h_r) * h_n) + z * h


def gru_resets_the_input(x, h, w_x, w_h, b_x, b_h):
    """The reset gate multiplies what comes from the input. It mutes what comes from the state:
    x_n + r · h_n.
    """
    x_r, x_z, x_n, h_r, h_z, h_n = _both(x, h, w_x, w_h, b_x, b_h)
    z = sigmoid(x_z + h_z)
    return (1 - z) * np.tanh(sigmoid(x_r + h_r) * x_n + h_n) + z * h


GRU = {
    "update gate the other way round (Chung et al.)": gru_update_reversed,
    "reset before the product (Cho et al.)": gru_reset_before_product,
    "bias outside the reset gate": gru_bias_outside_reset,
    "reset and update exchanged": gru_update_first,
    "candidate in the first block": gru_candidate_first,
    "no reset gate": gru_without_reset,
    "reset gate on the input too": gru_resets_all,
    "candidate added in full": gru_adds_all_of_the_candidate,
    "sigmoid for the candidate": gru_sigmoid_candidate,
    "tanh for the gates": gru_tanh_gates,
    "no sigmoid on the gates": gru_linear_gates,
    "no tanh on the candidate": gru_bare_candidate,
    "reset gate on the input instead": gru_resets_the_input,
    "forgot b_h": gru_without_state_bias,
    "forgot b_x": gru_without_input_bias,
    "reset gate on the state that is kept": gru_keeps_reset_state,
    "gates interleaved": gru_interleaved,
    "changed h in place": gru_in_place,
    "sigmoid overflows": gru_sigmoid_overflows,
}
