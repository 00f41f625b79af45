"""Chapter 01: other right ways to write each answer. All must get full marks."""

import math
from functools import reduce
from itertools import accumulate

import numpy as np
from attend_solutions.recurrence import bptt, rnn_step

# rnn_step


def step_einsum(x, h, w_x, w_h, b):
    """One einsum for each product, bias first."""
    return np.tanh(b + np.einsum("bc,cn->bn", x, w_x) + np.einsum("bm,mn->bn", h, w_h))


def step_one_product(x, h, w_x, w_h, b):
    """Input, state and a 1 side by side, weights below each other: a single product."""
    ones = np.ones((len(x), 1))
    return np.tanh(np.hstack([x, h, ones]) @ np.vstack([w_x, w_h, b[None]]))


def step_by_loops(x, h, w_x, w_h, b):
    """Number by number, with Python's own tanh."""
    new = np.zeros((x.shape[0], b.shape[0]))
    for row, column in np.ndindex(new.shape):
        total = float(b[column])
        total += sum(float(x[row, c]) * float(w_x[c, column]) for c in range(x.shape[1]))
        total += sum(float(h[row, m]) * float(w_h[m, column]) for m in range(h.shape[1]))
        new[row, column] = math.tanh(total)
    return new


def step_through_exponentials(x, h, w_x, w_h, b):
    """tanh a = sign(a) (1 − e^(−2|a|)) / (1 + e^(−2|a|)): no overflow."""
    a = np.dot(x, w_x) + np.dot(h, w_h) + b
    small = np.exp(-2 * np.abs(a))
    return np.sign(a) * (1 - small) / (1 + small)


STEP = {
    "einsum": step_einsum,
    "one product": step_one_product,
    "number by number": step_by_loops,
    "tanh through exponentials": step_through_exponentials,
}

# rnn_forward


def forward_preallocated(x, h0, w_x, w_h, b):
    """Room for all states at once, filled step by step."""
    states = np.empty((x.shape[0], x.shape[1], h0.shape[1]))
    h = h0
    for t in range(x.shape[1]):
        states[:, t] = h = rnn_step(x[:, t], h, w_x, w_h, b)
    return states


def forward_inputs_first(x, h0, w_x, w_h, b):
    """All inputs through W_x at once; only the state's product waits its turn. Self-contained."""
    sums = x @ w_x + b
    states = np.empty_like(sums)
    for t in range(sums.shape[1]):
        states[:, t] = np.tanh(sums[:, t] + (states[:, t - 1] if t else h0) @ w_h)
    return states


def forward_accumulate(x, h0, w_x, w_h, b):
    """itertools.accumulate carries the state."""
    steps = accumulate(
        np.swapaxes(x, 0, 1), lambda h, now: rnn_step(now, h, w_x, w_h, b), initial=h0
    )
    return np.stack(list(steps)[1:], axis=1)


def forward_by_sequences(x, h0, w_x, w_h, b):
    """One sequence after the other."""
    found = []
    for sequence, h in zip(x, h0, strict=True):
        rows = []
        for now in sequence:
            h = np.tanh(now @ w_x + h @ w_h + b)
            rows.append(h)
        found.append(rows)
    return np.array(found)


FORWARD = {
    "preallocated": forward_preallocated,
    "inputs through W_x first": forward_inputs_first,
    "itertools.accumulate": forward_accumulate,
    "sequence by sequence": forward_by_sequences,
}

# bptt


def bptt_sums_kept(x, h0, states, w_x, w_h, grad_states):
    """Only the sums' gradients step by step; einsum for the rest."""
    grad_sums, carried = np.empty_like(states), np.zeros(h0.shape)
    for t in range(states.shape[1] - 1, -1, -1):
        grad_sums[:, t] = (grad_states[:, t] + carried) * (1 - states[:, t] ** 2)
        carried = grad_sums[:, t] @ w_h.T
    before = np.concatenate([h0[:, None], states[:, :-1]], axis=1)
    grad_w_x = np.einsum("btc,btn->cn", x, grad_sums)
    grad_w_h = np.einsum("btm,btn->mn", before, grad_sums)
    return [grad_sums @ w_x.T, carried, grad_w_x, grad_w_h, grad_sums.sum(axis=(0, 1))]


def bptt_time_first(x, h0, states, w_x, w_h, grad_states):
    """Works with time in front, and carries the gradient of the state before."""
    x, states, grads = (np.moveaxis(a, 1, 0) for a in (x, states, grad_states))
    befores = [h0, *states[:-1]]
    totals = {"w_x": 0.0, "w_h": 0.0, "b": 0.0}
    grad_x, carried = [], 0.0
    for now, before, state, grad in reversed(list(zip(x, befores, states, grads, strict=True))):
        grad_sum = np.multiply(grad + carried, 1 - np.square(state))
        grad_x.insert(0, grad_sum @ w_x.transpose())
        totals["w_x"] = totals["w_x"] + np.transpose(now) @ grad_sum
        totals["w_h"] = totals["w_h"] + np.transpose(before) @ grad_sum
        totals["b"] = totals["b"] + np.sum(grad_sum, axis=0)
        carried = np.einsum("bn,mn->bm", grad_sum, w_h)
    return np.stack(grad_x, axis=1), carried, totals["w_x"], totals["w_h"], totals["b"]


def bptt_by_sequences(x, h0, states, w_x, w_h, grad_states):
    """One sequence at a time, with outer products."""
    grad_x, grad_h0 = np.zeros(x.shape), np.zeros(h0.shape)
    grad_w_x, grad_w_h = np.zeros(w_x.shape), np.zeros(w_h.shape)
    grad_b = np.zeros(len(w_h))
    for row in range(len(x)):
        back = np.zeros(len(w_h))
        for t in reversed(range(x.shape[1])):
            h = states[row, t]
            back = (back + grad_states[row, t]) * (1 - h) * (1 + h)
            grad_x[row, t] = w_x @ back
            grad_w_x += np.outer(x[row, t], back)
            grad_w_h += np.outer(states[row, t - 1] if t else h0[row], back)
            grad_b += back
            back = w_h @ back
        grad_h0[row] = back
    return grad_x, grad_h0, grad_w_x, grad_w_h, grad_b


BPTT = {
    "gradients of the sums kept": bptt_sums_kept,
    "time first": bptt_time_first,
    "sequence by sequence": bptt_by_sequences,
}

# gradient_norms


def norms_by_sequences(states, w_h):
    """One sequence at a time; Jacobians as diagonal matrices; largest singular value by SVD."""
    norms = np.ones(states.shape[:2])
    for row, sequence in enumerate(states):
        product = np.eye(len(w_h))
        for t in range(len(sequence) - 1, 0, -1):
            product = product @ np.diag(1 - sequence[t] ** 2) @ w_h.T
            norms[row, t - 1] = np.linalg.svd(product, compute_uv=False)[0]
    return norms


def norms_from_scratch(states, w_h):
    """A product of its own for every t, transposed."""
    steps = states.shape[1]
    columns = []
    for start in range(steps):
        ones = [w_h * (1 - states[:, t] ** 2)[:, None] for t in range(start + 1, steps)]
        identity = np.broadcast_to(np.eye(len(w_h)), (len(states), *w_h.shape))
        columns.append(np.linalg.matrix_norm(reduce(np.matmul, ones, identity), ord=2))
    return np.stack(columns, axis=-1)


def norms_by_bptt(states, w_h):
    """Sends every unit vector back with bptt; its grad_h0 is a row of the Jacobian."""
    batch, steps, width = states.shape
    norms = np.ones((batch, steps))
    nothing, identity = np.zeros((width, steps, 1)), np.eye(width)
    for row, start in np.ndindex(batch, steps - 1):
        ahead = np.repeat(states[row : row + 1, start + 1 :], width, axis=0)
        grads = np.zeros_like(ahead)
        grads[:, -1] = identity
        x = nothing[:, start + 1 :]
        rows = bptt(x, np.zeros((width, width)), ahead, np.zeros((1, width)), w_h, grads)[1]
        norms[row, start] = np.sqrt(np.linalg.eigvalsh(rows @ rows.T)[-1])
    return norms


NORMS = {
    "sequence by sequence, SVD": norms_by_sequences,
    "a product for every step": norms_from_scratch,
    "through bptt": norms_by_bptt,
}

# lstm_cell


def _logistic(a):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-a))


def lstm_sliced(x, h, c, w_x, w_h, b):
    """Blocks by slices, the logistic function spelled out."""
    n = c.shape[1]
    sums = b + np.concatenate([x, h], axis=1) @ np.concatenate([w_x, w_h])
    gates = _logistic(sums)
    i, f, o = gates[:, :n], gates[:, n : 2 * n], gates[:, 3 * n :]
    memory = i * np.tanh(sums[:, 2 * n : 3 * n]) + f * c
    return [o * np.tanh(memory), memory]


def lstm_by_gates(x, h, c, w_x, w_h, b):
    """Each gate from its own weights."""
    n = b.shape[0] // 4
    blocks = []
    for k in range(4):
        own = slice(k * n, (k + 1) * n)
        a = np.einsum("bc,cn->bn", x, w_x[:, own]) + np.einsum("bm,mn->bn", h, w_h[:, own]) + b[own]
        blocks.append(np.tanh(a) if k == 2 else (np.tanh(a / 2) + 1) / 2)
    i, f, g, o = blocks
    memory = f * c + i * g
    return o * np.tanh(memory), memory


def lstm_by_reshape(x, h, c, w_x, w_h, b):
    """The four blocks as an axis of their own."""
    sums = (x @ w_x + h @ w_h + b).reshape(len(x), 4, -1)
    i, f, o = (_logistic(sums[:, k]) for k in (0, 1, 3))
    memory = f * c + i * np.tanh(sums[:, 2])
    return o * np.tanh(memory), memory


LSTM = {
    "slices": lstm_sliced,
    "gate by gate": lstm_by_gates,
    "blocks as an axis": lstm_by_reshape,
}

# gru_cell


def gru_sliced(x, h, w_x, w_h, b_x, b_h):
    """Blocks by slices; the mean written as a step from the candidate towards the state."""
    n = h.shape[1]
    from_x, from_h = x @ w_x + b_x, h @ w_h + b_h
    both = _logistic(from_x[:, : 2 * n] + from_h[:, : 2 * n])
    reset, update = both[:, :n], both[:, n:]
    candidate = np.tanh(from_x[:, 2 * n :] + reset * from_h[:, 2 * n :])
    return candidate + update * (h - candidate)


def gru_by_gates(x, h, w_x, w_h, b_x, b_h):
    """Each block from its own weights."""

    def block(k):
        own = slice(k * h.shape[1], (k + 1) * h.shape[1])
        return x @ w_x[:, own] + b_x[own], h @ w_h[:, own] + b_h[own]

    reset, update = (_logistic(sum(block(k))) for k in (0, 1))
    from_x, from_h = block(2)
    return (1 - update) * np.tanh(from_x + reset * from_h) + update * h


def gru_by_reshape(x, h, w_x, w_h, b_x, b_h):
    """The three blocks as an axis of their own, einsum for the products."""
    shape = (len(x), 3, -1)
    from_x = (np.einsum("bc,cn->bn", x, w_x) + b_x).reshape(shape)
    from_h = (np.einsum("bm,mn->bn", h, w_h) + b_h).reshape(shape)
    gates = (np.tanh((from_x[:, :2] + from_h[:, :2]) / 2) + 1) / 2
    candidate = np.tanh(from_x[:, 2] + gates[:, 0] * from_h[:, 2])
    return gates[:, 1] * h + (1 - gates[:, 1]) * candidate


GRU = {
    "slices": gru_sliced,
    "gate by gate": gru_by_gates,
    "blocks as an axis": gru_by_reshape,
}
