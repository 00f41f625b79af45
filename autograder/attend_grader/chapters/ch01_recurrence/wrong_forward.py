"""Chapter 01, forwards: how a recurrent step and its loop go wrong in practice.

Each function is written as a learner might write it; its docstring is what the learner is told. It
is told to whoever's code behaves alike, so it speaks of what comes out before it guesses at code.
"""

import numpy as np
from attend_solutions.recurrence import rnn_step

# rnn_step


def step_without_tanh(x, h, w_x, w_h, b):
    """These are the sums themselves, before tanh. Squeeze them: np.tanh(…) around all three parts.
    Without it the state can grow without limit.
    """
    return x @ w_x + h @ w_h + b


def step_without_bias(x, h, w_x, w_h, b):
    """The bias b is missing from the sums. Add it before tanh; it broadcasts over the batch."""
    return np.tanh(x @ w_x + h @ w_h)


def step_without_state(x, h, w_x, w_h, b):
    """The old state h does not count. Without h @ w_h in the sum, nothing is remembered from one
    step to the next.
    """
    return np.tanh(x @ w_x + b)


def step_bias_outside(x, h, w_x, w_h, b):
    """The bias is added after tanh. It belongs inside, with the other two parts of the sum."""
    return np.tanh(x @ w_x + h @ w_h) + b


def step_two_tanhs(x, h, w_x, w_h, b):
    """Input and state go through a tanh each, and then are added. Add first: one tanh of the whole
    sum.
    """
    return np.tanh(x @ w_x + b) + np.tanh(h @ w_h)


def step_state_squeezed_first(x, h, w_x, w_h, b):
    """tanh covers only part of the sum. It must be around x @ w_x + h @ w_h + b as a whole: look at
    your brackets.
    """
    return np.tanh(x @ w_x) + h @ w_h + b


def step_three_parts(x, h, w_x, w_h, b):
    """Input and state go through a tanh each, and the bias through none. Add all three first: one
    tanh of the whole sum.
    """
    return np.tanh(x @ w_x) + np.tanh(h @ w_h) + b


def step_sigmoid(x, h, w_x, w_h, b):
    """Your states lie between 0 and 1: that is the logistic sigmoid. Use np.tanh, whose values lie
    between −1 and 1.
    """
    return 0.5 * np.tanh(0.5 * (x @ w_x + h @ w_h + b)) + 0.5


def step_relu(x, h, w_x, w_h, b):
    """Negative sums become 0 and positive ones stay as they are (ReLU). Use np.tanh."""
    return np.maximum(x @ w_x + h @ w_h + b, 0.0)


def step_state_weights_transposed(x, h, w_x, w_h, b):
    """w_h is used transposed; as it is square, no error tells you. Row i of w_h says where number i
    of the state goes: h @ w_h.
    """
    return np.tanh(x @ w_x + h @ w_h.T + b)


def step_weights_transposed(x, h, w_x, w_h, b):
    """Both weight matrices are used transposed, as PyTorch stores them. Here w_x is (C, N): x @ w_x
    and h @ w_h, as they are.
    """
    if w_x.shape[0] != w_x.shape[1]:
        return np.tanh((w_x.T @ x.T).T + h @ w_h.T + b)
    return np.tanh(x @ w_x.T + h @ w_h.T + b)


def step_elementwise(x, h, w_x, w_h, b):
    """The state meets only the diagonal of w_h, number by number. Every number of the state goes
    into every sum: that is a matrix product, h @ w_h.
    """
    return np.tanh(x @ w_x + h * np.diag(w_h) + b)


def step_in_place(x, h, w_x, w_h, b):
    """The new state is written into the caller's h (as `h[...] =`, `h *=` or `out=h` do). Return a
    new array instead.
    """
    h[...] = np.tanh(x @ w_x + h @ w_h + b)
    return h


def step_tanh_overflows(x, h, w_x, w_h, b):
    """tanh is made of exponentials, and exp of a large number is infinite: inf / inf is NaN. Use
    np.tanh, which is safe.
    """
    a = x @ w_x + h @ w_h + b
    return (np.exp(a) - np.exp(-a)) / (np.exp(a) + np.exp(-a))


def step_bias_per_sequence(x, h, w_x, w_h, b):
    """Each sequence gets one number of the bias, which fits only where B = N. Every state has N
    numbers, and each has its own bias: + b, without a new axis.
    """
    return np.tanh(x @ w_x + h @ w_h + b[:, None])


def step_adds_the_old_state(x, h, w_x, w_h, b):
    """The old state is added to tanh of the sums. Here the new state is tanh alone; the old one
    counts through w_h only.
    """
    return h + np.tanh(x @ w_x + h @ w_h + b)


def step_weights_exchanged(x, h, w_x, w_h, b):
    """Input and state meet each other's weights, which fits only where C = N. The input goes
    through w_x, the state through w_h.
    """
    return np.tanh(x @ w_h + h @ w_x + b)


STEP = {
    "no tanh": step_without_tanh,
    "forgot the bias": step_without_bias,
    "forgot the state": step_without_state,
    "bias added after tanh": step_bias_outside,
    "a tanh for each part": step_two_tanhs,
    "tanh of one part only": step_state_squeezed_first,
    "a tanh for each part, none for the bias": step_three_parts,
    "sigmoid instead of tanh": step_sigmoid,
    "ReLU instead of tanh": step_relu,
    "w_h transposed": step_state_weights_transposed,
    "both weight matrices transposed": step_weights_transposed,
    "elementwise product with w_h": step_elementwise,
    "changed h in place": step_in_place,
    "tanh overflows": step_tanh_overflows,
    "bias along the batch": step_bias_per_sequence,
    "added the old state": step_adds_the_old_state,
    "w_x and w_h exchanged": step_weights_exchanged,
}

# rnn_forward


def forward_always_from_start(x, h0, w_x, w_h, b):
    """Every step starts from h0 again, so no step knows of those before it. Keep the state in a
    variable and hand it to the next step.
    """
    return np.stack([rnn_step(x[:, t], h0, w_x, w_h, b) for t in range(x.shape[1])], axis=1)


def forward_last_only(x, h0, w_x, w_h, b):
    """Only the last state comes back. Collect the state of every step, and put them together along
    a new axis 1.
    """
    h = h0
    for t in range(x.shape[1]):
        h = rnn_step(x[:, t], h, w_x, w_h, b)
    return h


def forward_time_first(x, h0, w_x, w_h, b):
    """Time comes first in your result: (T, B, N). The batch comes first: np.stack(states, axis=1)
    puts the new axis in second place.
    """
    h, states = h0, []
    for t in range(x.shape[1]):
        h = rnn_step(x[:, t], h, w_x, w_h, b)
        states.append(h)
    return np.stack(states)


def forward_with_start(x, h0, w_x, w_h, b):
    """Your result has one state too many: h0 itself comes first. Collect the states after each step
    only.
    """
    h, states = h0, [h0]
    for t in range(x.shape[1]):
        h = rnn_step(x[:, t], h, w_x, w_h, b)
        states.append(h)
    return np.stack(states, axis=1)


def forward_one_late(x, h0, w_x, w_h, b):
    """Entry t holds the state before step t instead of after it: yours begins with h0, and the last
    state is missing. Collect the state after the step.
    """
    h, states = h0, []
    for t in range(x.shape[1]):
        states.append(h)
        h = rnn_step(x[:, t], h, w_x, w_h, b)
    return np.stack(states, axis=1)


def forward_reversed(x, h0, w_x, w_h, b):
    """The sequence is read from its end. Start at t = 0."""
    h, states = h0, []
    for t in reversed(range(x.shape[1])):
        h = rnn_step(x[:, t], h, w_x, w_h, b)
        states.append(h)
    return np.stack(states[::-1], axis=1)


def forward_over_batch(x, h0, w_x, w_h, b):
    """The loop runs over axis 0, the sequences, so that one is read into the other. Time is axis 1:
    range(x.shape[1]) and x[:, t].
    """
    h, states = h0, []
    for t in range(x.shape[0]):
        h = rnn_step(x[t], h, w_x, w_h, b)
        states.append(h)
    return np.stack(states, axis=1)


def forward_over_batch_first(x, h0, w_x, w_h, b):
    """The loop runs over axis 0, the sequences, as `for x_t in x` does, so that one is read into
    the other. Time is axis 1: range(x.shape[1]) and x[:, t], and np.stack(states, axis=1).
    """
    h, states = h0, []
    for x_t in x:
        h = rnn_step(x_t, h, w_x, w_h, b)
        states.append(h)
    return np.stack(states)


def forward_from_zeros(x, h0, w_x, w_h, b):
    """The first step starts from zeros. Start from the argument: h = h0."""
    h, states = np.zeros(h0.shape), []
    for t in range(x.shape[1]):
        h = rnn_step(x[:, t], h, w_x, w_h, b)
        states.append(h)
    return np.stack(states, axis=1)


def forward_same_array(x, h0, w_x, w_h, b):
    """All your states are the last one, and h0 is changed: each step writes into the same array,
    which the list holds many times over. `h[...] = …` does that; `h = …` makes a new array.
    """
    h, states = h0, []
    for t in range(x.shape[1]):
        h[...] = rnn_step(x[:, t], h, w_x, w_h, b)
        states.append(h)
    return np.stack(states, axis=1)


def forward_into_integers(x, h0, w_x, w_h, b):
    """The states are stored with the inputs' type. Where inputs are integers, every state is cut to
    0. Ask for floats: np.zeros(shape) gives them.
    """
    h, states = h0, np.zeros((*x.shape[:2], h0.shape[1]), dtype=x.dtype)
    for t in range(x.shape[1]):
        h = rnn_step(x[:, t], h, w_x, w_h, b)
        states[:, t] = h
    return states


def forward_skips_the_first(x, h0, w_x, w_h, b):
    """The first input is never read, so your result is one step short or wrong from the start. The
    loop begins at t = 0: range(x.shape[1]).
    """
    h, states = h0, np.zeros((*x.shape[:2], h0.shape[1]))
    for t in range(1, x.shape[1]):
        h = rnn_step(x[:, t], h, w_x, w_h, b)
        states[:, t] = h
    return states


def forward_without_the_first(x, h0, w_x, w_h, b):
    """Your result is one step short, and begins with the second input. The loop begins at t = 0:
    range(x.shape[1]).
    """
    return np.stack(_states(x, h0, w_x, w_h, b, range(1, x.shape[1])), axis=1)


def forward_in_place(x, h0, w_x, w_h, b):
    """Each state is written into the caller's h0, which is changed, and cut to whole numbers where
    h0 holds such. `h[...] = …` writes into the array; `h = …` gives the name to a new one.
    """
    h, states = h0, np.zeros((*x.shape[:2], h0.shape[1]))
    for t in range(x.shape[1]):
        h[...] = rnn_step(x[:, t], h, w_x, w_h, b)
        states[:, t] = h
    return states


def forward_stops_early(x, h0, w_x, w_h, b):
    """The last input is never read: its state stays 0. range(n) already stops before n, so write
    range(x.shape[1]).
    """
    h, states = h0, np.zeros((*x.shape[:2], h0.shape[1]))
    for t in range(x.shape[1] - 1):
        h = rnn_step(x[:, t], h, w_x, w_h, b)
        states[:, t] = h
    return states


def forward_width_last(x, h0, w_x, w_h, b):
    """Your result is (B, N, T): time has become the last axis. np.stack(states, axis=1) puts it in
    second place.
    """
    h, states = h0, []
    for t in range(x.shape[1]):
        h = rnn_step(x[:, t], h, w_x, w_h, b)
        states.append(h)
    return np.stack(states, axis=-1)


def _states(x, h0, w_x, w_h, b, order=None):
    """Every state, in the order they were made."""
    h, states = h0, []
    for t in order or range(x.shape[1]):
        h = rnn_step(x[:, t], h, w_x, w_h, b)
        states.append(h)
    return states


def forward_last_first(x, h0, w_x, w_h, b):
    """Your states are in reverse order: the last comes first. Entry [:, t] must hold the state
    after reading x[:, t]; append each state at the end of the list.
    """
    return np.stack(_states(x, h0, w_x, w_h, b)[::-1], axis=1)


def forward_from_the_end(x, h0, w_x, w_h, b):
    """The sequence is read from its end, and the states are kept as they came. Start at t = 0 and
    go up: range(x.shape[1]).
    """
    return np.stack(_states(x, h0, w_x, w_h, b, reversed(range(x.shape[1]))), axis=1)


def forward_side_by_side(x, h0, w_x, w_h, b):
    """The states are joined along an axis they have, side by side, and time has no axis of its own.
    np.concatenate does that; np.stack(states, axis=1) makes a new axis.
    """
    return np.concatenate(_states(x, h0, w_x, w_h, b), axis=1)


def forward_returns_in_the_loop(x, h0, w_x, w_h, b):
    """Only one step is taken: the result holds the first state alone. Is `return` inside the loop?
    It belongs after it, as far left as `for`.
    """
    return _states(x, h0, w_x, w_h, b)[0][:, None]


def forward_same_copy(x, h0, w_x, w_h, b):
    """All your states are the last one: each step writes into the same array, which the list holds
    many times over. `h[...] = …` does that; `h = …` makes a new array.
    """
    return np.stack([_states(x, h0, w_x, w_h, b)[-1]] * x.shape[1], axis=1)


FORWARD = {
    "every step starts from h0": forward_always_from_start,
    "returned the last state only": forward_last_only,
    "time first instead of batch first": forward_time_first,
    "h0 among the states": forward_with_start,
    "states before the step, not after": forward_one_late,
    "read from the end": forward_reversed,
    "looped over the batch": forward_over_batch,
    "looped over the batch, stacked in front": forward_over_batch_first,
    "started from zeros, not from h0": forward_from_zeros,
    "one array for all states": forward_same_array,
    "one array for all states, h0 spared": forward_same_copy,
    "states in reverse order": forward_last_first,
    "read from the end, states as they came": forward_from_the_end,
    "states side by side": forward_side_by_side,
    "returned inside the loop": forward_returns_in_the_loop,
    "stored states as integers": forward_into_integers,
    "skipped the first input": forward_skips_the_first,
    "one step short": forward_without_the_first,
    "changed h0 in place": forward_in_place,
    "stopped one step early": forward_stops_early,
    "time last": forward_width_last,
}
