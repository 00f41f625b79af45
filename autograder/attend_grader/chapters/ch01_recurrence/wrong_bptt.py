"""Chapter 01: how back-propagation through time goes wrong in practice.

Each function is written as a learner might write it; its docstring is what the learner is told. It
is told to whoever's code behaves alike, so it speaks of what comes out before it guesses at code.
"""

import numpy as np


def _walk(x, h0, states, w_x, w_h, grad_states, before=None, slope=None, carry=None):
    """Back-propagation whose three decisions can be replaced: what a step started from, the slope
    of its tanh, and what is handed back.
    """
    before = before or (lambda t: states[:, t - 1] if t > 0 else h0)
    slope = slope or (lambda t: 1 - states[:, t] ** 2)
    carry = carry or (lambda total, grad_sum: grad_sum @ w_h.T)
    grad_x, carried = np.zeros(x.shape), np.zeros(h0.shape)
    grad_w_x, grad_w_h = np.zeros(w_x.shape), np.zeros(w_h.shape)
    grad_b = np.zeros(w_h.shape[0])
    for t in reversed(range(x.shape[1])):
        total = grad_states[:, t] + carried
        grad_sum = total * slope(t)
        grad_x[:, t] = grad_sum @ w_x.T
        grad_w_x += x[:, t].T @ grad_sum
        grad_w_h += before(t).T @ grad_sum
        grad_b += grad_sum.sum(axis=0)
        carried = carry(total, grad_sum)
    return grad_x, carried, grad_w_x, grad_w_h, grad_b


def bptt_truncated(x, h0, states, w_x, w_h, grad_states):
    """Each step answers for its own state only: what comes back from later steps is missing. The
    state at t also feeds step t + 1, so its gradient is grad_states[:, t] plus what that step hands
    back.
    """
    grad_sums = grad_states * (1 - states**2)
    before = np.concatenate([h0[:, None], states[:, :-1]], axis=1)
    grad_w_x = np.einsum("btc,btn->cn", x, grad_sums)
    grad_w_h = np.einsum("btm,btn->mn", before, grad_sums)
    grad_h0 = grad_sums[:, 0] @ w_h.T
    return grad_sums @ w_x.T, grad_h0, grad_w_x, grad_w_h, grad_sums.sum(axis=(0, 1))


def bptt_without_slope(x, h0, states, w_x, w_h, grad_states):
    """tanh is left out on the way back. The derivative of tanh is 1 − tanh², and tanh is the state
    itself: multiply by 1 − states[:, t]**2.
    """
    return _walk(x, h0, states, w_x, w_h, grad_states, slope=lambda t: 1.0)


def bptt_slope_of_previous(x, h0, states, w_x, w_h, grad_states):
    """The slope is taken from the state before the step. What came out of tanh at step t is
    states[:, t]: use 1 − states[:, t]**2.
    """
    before = np.concatenate([h0[:, None], states[:, :-1]], axis=1)
    return _walk(x, h0, states, w_x, w_h, grad_states, slope=lambda t: 1 - before[:, t] ** 2)


def bptt_slope_not_squared(x, h0, states, w_x, w_h, grad_states):
    """The slope is 1 − h instead of 1 − h²: the square is missing."""
    return _walk(x, h0, states, w_x, w_h, grad_states, slope=lambda t: 1 - states[:, t])


def bptt_tanh_again(x, h0, states, w_x, w_h, grad_states):
    """The slope is 1 − tanh(h)², with tanh taken of the state once more. The state already is a
    tanh: 1 − states[:, t]**2.
    """
    return _walk(
        x, h0, states, w_x, w_h, grad_states, slope=lambda t: 1 - np.tanh(states[:, t]) ** 2
    )


def bptt_slope_of_sigmoid(x, h0, states, w_x, w_h, grad_states):
    """The slope is h (1 − h), which is that of the sigmoid. For tanh it is 1 − h²."""
    return _walk(
        x, h0, states, w_x, w_h, grad_states, slope=lambda t: states[:, t] * (1 - states[:, t])
    )


def bptt_weights_not_transposed(x, h0, states, w_x, w_h, grad_states):
    """What goes back a step is multiplied by w_h, which fits because w_h is square. Backwards it is
    the transpose: grad_sum @ w_h.T.
    """
    return _walk(x, h0, states, w_x, w_h, grad_states, carry=lambda total, grad_sum: grad_sum @ w_h)


def bptt_carries_without_slope(x, h0, states, w_x, w_h, grad_states):
    """What is handed back to the step before has not gone through tanh. Multiply by 1 − h² first,
    and hand that back: grad_sum @ w_h.T.
    """
    return _walk(x, h0, states, w_x, w_h, grad_states, carry=lambda total, grad_sum: total @ w_h.T)


def bptt_carries_without_weights(x, h0, states, w_x, w_h, grad_states):
    """What is handed back to the step before is not multiplied by w_h. The old state entered the
    sums through w_h: hand back grad_sum @ w_h.T.
    """
    return _walk(x, h0, states, w_x, w_h, grad_states, carry=lambda total, grad_sum: grad_sum)


def bptt_current_state(x, h0, states, w_x, w_h, grad_states):
    """grad_w_h pairs each step with the state it made. w_h was multiplied by the state before the
    step: states[:, t - 1], and h0 for the first.
    """
    return _walk(x, h0, states, w_x, w_h, grad_states, before=lambda t: states[:, t])


def bptt_wraps_around(x, h0, states, w_x, w_h, grad_states):
    """At the first step, states[:, t - 1] is states[:, -1]: the last state, as negative indices
    count from the end. The state before the first step is h0.
    """
    return _walk(x, h0, states, w_x, w_h, grad_states, before=lambda t: states[:, t - 1])


def bptt_forgets_h0(x, h0, states, w_x, w_h, grad_states):
    """grad_w_h leaves out the first step, whose state before it is h0. It counts like
    the others."""
    before = np.concatenate([0.0 * h0[:, None], states[:, :-1]], axis=1)
    return _walk(x, h0, states, w_x, w_h, grad_states, before=lambda t: before[:, t])


def bptt_last_loss_only(x, h0, states, w_x, w_h, grad_states):
    """Only grad_states of the last step is used. The loss may look at every state: at each step add
    grad_states[:, t] to what comes back from later.
    """
    last = np.zeros(states.shape)
    last[:, -1] = grad_states[:, -1]
    return _walk(
        x,
        h0,
        states,
        w_x,
        w_h,
        last,
    )


def bptt_overwrites(x, h0, states, w_x, w_h, grad_states):
    """The weights' gradients hold one step only, as when `=` stands where `+=` belongs. The same
    weights serve every step: add up over all of them.
    """
    grad_x, grad_h0, *_ = _walk(x, h0, states, w_x, w_h, grad_states)
    first = grad_states[:, 0].copy()
    if x.shape[1] > 1:
        rest = _walk(x[:, 1:], states[:, 0], states[:, 1:], w_x, w_h, grad_states[:, 1:])
        first = first + rest[1]
    grad_sum = first * (1 - states[:, 0] ** 2)
    return grad_x, grad_h0, x[:, 0].T @ grad_sum, h0.T @ grad_sum, grad_sum.sum(axis=0)


def bptt_mean_over_batch(x, h0, states, w_x, w_h, grad_states):
    """The weights' gradients are divided by the number of sequences. Whether the loss is a mean is
    already in grad_states: here add up.
    """
    grad_x, grad_h0, *rest = _walk(x, h0, states, w_x, w_h, grad_states)
    return (grad_x, grad_h0, *(gradient / x.shape[0] for gradient in rest))


def bptt_forwards(x, h0, states, w_x, w_h, grad_states):
    """The loop runs forwards in time, so that each step hands its gradient to the next. Gradients
    go back: begin at the last step, reversed(range(T)).
    """
    grad_x, carried = np.zeros(x.shape), np.zeros(h0.shape)
    grad_w_x, grad_w_h = np.zeros(w_x.shape), np.zeros(w_h.shape)
    grad_b = np.zeros(w_h.shape[0])
    for t in range(x.shape[1]):
        before = states[:, t - 1] if t > 0 else h0
        grad_sum = (grad_states[:, t] + carried) * (1 - states[:, t] ** 2)
        grad_x[:, t] = grad_sum @ w_x.T
        grad_w_x += x[:, t].T @ grad_sum
        grad_w_h += before.T @ grad_sum
        grad_b += grad_sum.sum(axis=0)
        carried = grad_sum @ w_h.T
    return grad_x, carried, grad_w_x, grad_w_h, grad_b


def bptt_weights_first(x, h0, states, w_x, w_h, grad_states):
    """The weights' gradients come first. The order is that of rnn_forward's arguments: grad_x,
    grad_h0, grad_w_x, grad_w_h, grad_b.
    """
    grad_x, grad_h0, *rest = _walk(x, h0, states, w_x, w_h, grad_states)
    return (*rest, grad_x, grad_h0)


def bptt_in_place(x, h0, states, w_x, w_h, grad_states):
    """What comes back from later steps is added into the caller's grad_states (`grad_states[:, t]
    +=`). Make a new array: grad_states[:, t] + carried.
    """
    answer = _walk(x, h0, states, w_x, w_h, grad_states)
    grad_sum = np.zeros(h0.shape)
    for t in reversed(range(x.shape[1])):
        grad_states[:, t] += grad_sum @ w_h.T
        grad_sum = grad_states[:, t] * (1 - states[:, t] ** 2)
    return answer


def bptt_h0_one_short(x, h0, states, w_x, w_h, grad_states):
    """grad_h0 stops one product short: it still has to go from the first step's sums through w_h.
    After the loop, what is carried back is the answer.
    """
    answer = _walk(x, h0, states, w_x, w_h, grad_states)
    grad_sum = np.zeros(h0.shape)
    for t in reversed(range(x.shape[1])):
        grad_sum = (grad_states[:, t] + grad_sum @ w_h.T) * (1 - states[:, t] ** 2)
    return (answer[0], grad_sum, *answer[2:])


def bptt_bias_keeps_batch(x, h0, states, w_x, w_h, grad_states):
    """grad_b still has the batch's axis. One bias serves all sequences: sum over axis 0."""
    answer = _walk(x, h0, states, w_x, w_h, grad_states)
    grad_b = np.zeros(h0.shape)
    carried = np.zeros(h0.shape)
    for t in reversed(range(x.shape[1])):
        grad_sum = (grad_states[:, t] + carried) * (1 - states[:, t] ** 2)
        grad_b += grad_sum
        carried = grad_sum @ w_h.T
    return (*answer[:4], grad_b)


def bptt_slope_on_carried_only(x, h0, states, w_x, w_h, grad_states):
    """Only what comes back from later steps is multiplied by tanh's slope, the direct part is not:
    brackets are missing. (grad_states[:, t] + carried) * (1 - states[:, t]**2).
    """
    grad_x, carried = np.zeros(x.shape), np.zeros(h0.shape)
    grad_w_x, grad_w_h = np.zeros(w_x.shape), np.zeros(w_h.shape)
    grad_b = np.zeros(w_h.shape[0])
    for t in reversed(range(x.shape[1])):
        before = states[:, t - 1] if t > 0 else h0
        grad_sum = grad_states[:, t] + carried * (1 - states[:, t] ** 2)
        grad_x[:, t] = grad_sum @ w_x.T
        grad_w_x += x[:, t].T @ grad_sum
        grad_w_h += before.T @ grad_sum
        grad_b += grad_sum.sum(axis=0)
        carried = grad_sum @ w_h.T
    return grad_x, carried, grad_w_x, grad_w_h, grad_b


def bptt_stops_before_the_first(x, h0, states, w_x, w_h, grad_states):
    """The walk ends before the first step: its input's gradient stays 0, and it is missing from the
    sums. range(T - 1, 0, -1) stops before 0; reversed(range(T)) does not.
    """
    rest = _walk(x[:, 1:], states[:, 0], states[:, 1:], w_x, w_h, grad_states[:, 1:])
    grad_x = np.concatenate([np.zeros((x.shape[0], 1, x.shape[2])), rest[0]], axis=1)
    return grad_x, *rest[1:]


def bptt_first_state_for_h0(x, h0, states, w_x, w_h, grad_states):
    """grad_h0 is the gradient of the first state, not of the one before it. After the first step it
    goes through tanh's slope and w_h once more: what is carried back at the end is grad_h0.
    """
    answer = _walk(x, h0, states, w_x, w_h, grad_states)
    later = np.zeros(h0.shape)
    if x.shape[1] > 1:
        rest = (x[:, 1:], states[:, 0], states[:, 1:], w_x, w_h, grad_states[:, 1:])
        later = _walk(*rest)[1]
    return (answer[0], grad_states[:, 0] + later, *answer[2:])


def bptt_carries_h0(x, h0, states, w_x, w_h, grad_states):
    """The walk back begins with h0 in hand. What comes back to the last step from later ones is
    nothing: begin with zeros of h0's shape.
    """
    more = grad_states.astype(float)
    more[:, -1] = more[:, -1] + h0
    return _walk(x, h0, states, w_x, w_h, more)


def bptt_restarts(x, h0, states, w_x, w_h, grad_states):
    """For every step the way back is walked again from the end, so that twice the length costs four
    times the work. Walk back once, and hand one array from each step to the one before.
    """
    grad_x, grad_h0 = np.zeros(x.shape), np.zeros(h0.shape)
    grad_w_x, grad_w_h = np.zeros(w_x.shape), np.zeros(w_h.shape)
    grad_b = np.zeros(w_h.shape[0])
    for last in range(x.shape[1]):
        carried = grad_states[:, last]
        for t in reversed(range(last + 1)):
            before = states[:, t - 1] if t > 0 else h0
            grad_sum = carried * (1 - states[:, t] ** 2)
            grad_x[:, t] += grad_sum @ w_x.T
            grad_w_x += x[:, t].T @ grad_sum
            grad_w_h += before.T @ grad_sum
            grad_b += grad_sum.sum(axis=0)
            carried = grad_sum @ w_h.T
        grad_h0 += carried
    return grad_x, grad_h0, grad_w_x, grad_w_h, grad_b


def bptt_slope_without_brackets(x, h0, states, w_x, w_h, grad_states):
    """h² is subtracted from the gradient, in place of multiplying it by 1 − h²: brackets are
    missing. `a * 1 - h**2` is a − h²; write a * (1 - h**2).
    """
    grad_x, carried = np.zeros(x.shape), np.zeros(h0.shape)
    grad_w_x, grad_w_h = np.zeros(w_x.shape), np.zeros(w_h.shape)
    grad_b = np.zeros(w_h.shape[0])
    for t in reversed(range(x.shape[1])):
        before = states[:, t - 1] if t > 0 else h0
        grad_sum = grad_states[:, t] + carried - states[:, t] ** 2
        grad_x[:, t] = grad_sum @ w_x.T
        grad_w_x += x[:, t].T @ grad_sum
        grad_w_h += before.T @ grad_sum
        grad_b += grad_sum.sum(axis=0)
        carried = grad_sum @ w_h.T
    return grad_x, carried, grad_w_x, grad_w_h, grad_b


def bptt_inputs_last_first(x, h0, states, w_x, w_h, grad_states):
    """grad_x is in reverse order in time: the last step's comes first, as a list filled on the way
    back has it. Write into grad_x[:, t], or turn the list round.
    """
    answer = _walk(x, h0, states, w_x, w_h, grad_states)
    return (answer[0][:, ::-1], *answer[1:])


def bptt_bias_of_one_number(x, h0, states, w_x, w_h, grad_states):
    """All entries of grad_b are the same: the sum runs over the numbers of a state too. Each has a
    bias of its own: .sum(axis=0) sums over the batch only.
    """
    answer = _walk(x, h0, states, w_x, w_h, grad_states)
    return (*answer[:4], np.full(answer[4].shape, answer[4].sum()))


BPTT = {
    "nothing comes back from later steps": bptt_truncated,
    "forgot tanh's slope": bptt_without_slope,
    "slope of the state before": bptt_slope_of_previous,
    "slope not squared": bptt_slope_not_squared,
    "tanh taken twice in the slope": bptt_tanh_again,
    "slope of the sigmoid": bptt_slope_of_sigmoid,
    "w_h instead of its transpose": bptt_weights_not_transposed,
    "handed back before tanh's slope": bptt_carries_without_slope,
    "handed back without w_h": bptt_carries_without_weights,
    "new state instead of old in grad_w_h": bptt_current_state,
    "index −1 at the first step": bptt_wraps_around,
    "left h0 out of grad_w_h": bptt_forgets_h0,
    "used the last step's loss only": bptt_last_loss_only,
    "= instead of += for the weights": bptt_overwrites,
    "mean over the batch": bptt_mean_over_batch,
    "walked forwards": bptt_forwards,
    "weights' gradients returned first": bptt_weights_first,
    "changed grad_states in place": bptt_in_place,
    "grad_h0 one product short": bptt_h0_one_short,
    "grad_b not summed over the batch": bptt_bias_keeps_batch,
    "slope on what comes back only": bptt_slope_on_carried_only,
    "h² subtracted: brackets missing": bptt_slope_without_brackets,
    "grad_b the same for all": bptt_bias_of_one_number,
    "grad_x in reverse order": bptt_inputs_last_first,
    "stopped before the first step": bptt_stops_before_the_first,
    "gradient of h₁ returned as grad_h0": bptt_first_state_for_h0,
    "began with h0 instead of zeros": bptt_carries_h0,
    "starts again for every step": bptt_restarts,
}
