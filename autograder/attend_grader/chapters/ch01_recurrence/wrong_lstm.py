"""Chapter 01, gates: how an LSTM's step goes wrong in practice.

Each function is written as a learner might write it; its docstring is what the learner is told. It
is told to whoever's code behaves alike, so it speaks of what comes out before it guesses at code.
"""

import numpy as np
from attend_solutions.recurrence import sigmoid


def _blocks(x, h, w_x, w_h, b, count=4):
    return np.split(x @ w_x + h @ w_h + b, count, axis=-1)


def lstm_candidate_last(x, h, c, w_x, w_h, b):
    """The blocks are read as i, f, o, g. Their order is i, f, g, o: the candidate is the third, the
    output gate the fourth.
    """
    i, f, o, g = _blocks(x, h, w_x, w_h, b)
    new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(new_c), new_c


def lstm_forget_first(x, h, c, w_x, w_h, b):
    """Input gate and forget gate are exchanged. The first block is the input gate i, the second the
    forget gate f.
    """
    f, i, g, o = _blocks(x, h, w_x, w_h, b)
    new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(new_c), new_c


def lstm_candidate_second(x, h, c, w_x, w_h, b):
    """The blocks are read as i, g, f, o, as TensorFlow once stored them. Here the order is i, f, g,
    o.
    """
    i, g, f, o = _blocks(x, h, w_x, w_h, b)
    new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(new_c), new_c


def lstm_forget_first_candidate_last(x, h, c, w_x, w_h, b):
    """The blocks are read as f, i, o, g, the order of many textbooks. Here it is i, f, g, o."""
    f, i, o, g = _blocks(x, h, w_x, w_h, b)
    new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(new_c), new_c


def lstm_interleaved(x, h, c, w_x, w_h, b):
    """Every fourth column is taken for one gate. The columns are four blocks of N, one after the
    other: np.split(sums, 4, axis=-1).
    """
    sums = x @ w_x + h @ w_h + b
    i, f, g, o = (sums[:, k::4] for k in range(4))
    new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(new_c), new_c


def lstm_output_without_tanh(x, h, c, w_x, w_h, b):
    """The new state is the output gate times the memory itself. The memory goes through tanh first:
    sigmoid(o) * np.tanh(new_c).
    """
    i, f, g, o = _blocks(x, h, w_x, w_h, b)
    new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * new_c, new_c


def lstm_output_of_old_memory(x, h, c, w_x, w_h, b):
    """The new state is made from the old memory. Work out the new memory first; the state shows
    that one.
    """
    i, f, g, o = _blocks(x, h, w_x, w_h, b)
    return sigmoid(o) * np.tanh(c), sigmoid(f) * c + sigmoid(i) * np.tanh(g)


def lstm_sigmoid_candidate(x, h, c, w_x, w_h, b):
    """The candidate lies between 0 and 1: it went through a sigmoid. It is no gate but new content:
    np.tanh(g), between −1 and 1.
    """
    i, f, g, o = _blocks(x, h, w_x, w_h, b)
    new_c = sigmoid(f) * c + sigmoid(i) * sigmoid(g)
    return sigmoid(o) * np.tanh(new_c), new_c


def lstm_tanh_gates(x, h, c, w_x, w_h, b):
    """The gates go through tanh and can be negative. A gate says how much gets through, from 0 to
    1: sigmoid.
    """
    i, f, g, o = _blocks(x, h, w_x, w_h, b)
    new_c = np.tanh(f) * c + np.tanh(i) * np.tanh(g)
    return np.tanh(o) * np.tanh(new_c), new_c


def lstm_linear_gates(x, h, c, w_x, w_h, b):
    """The gates are the bare sums, of any size. A gate says how much gets through, from 0 to 1: put
    sigmoid around i, f and o.
    """
    i, f, g, o = _blocks(x, h, w_x, w_h, b)
    new_c = f * c + i * np.tanh(g)
    return o * np.tanh(new_c), new_c


def lstm_without_input_gate(x, h, c, w_x, w_h, b):
    """The candidate enters the memory in full. The input gate decides how much of it: sigmoid(i) *
    np.tanh(g).
    """
    _, f, g, o = _blocks(x, h, w_x, w_h, b)
    new_c = sigmoid(f) * c + np.tanh(g)
    return sigmoid(o) * np.tanh(new_c), new_c


def lstm_without_forget_gate(x, h, c, w_x, w_h, b):
    """Nothing is ever forgotten: the old memory counts in full, as in the first LSTM of 1997. Here
    it is multiplied by the forget gate.
    """
    i, _, g, o = _blocks(x, h, w_x, w_h, b)
    new_c = c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(new_c), new_c


def lstm_forgets_what_it_lets_in(x, h, c, w_x, w_h, b):
    """The input gate is taken to be 1 − forget gate. Here it has a block of its own, the first."""
    _, f, g, o = _blocks(x, h, w_x, w_h, b)
    new_c = sigmoid(f) * c + (1 - sigmoid(f)) * np.tanh(g)
    return sigmoid(o) * np.tanh(new_c), new_c


def lstm_forgets_by_one_minus(x, h, c, w_x, w_h, b):
    """The memory is multiplied by 1 − forget gate. For all its name, a forget gate of 1 keeps
    everything: sigmoid(f) * c.
    """
    i, f, g, o = _blocks(x, h, w_x, w_h, b)
    new_c = (1 - sigmoid(f)) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(new_c), new_c


def lstm_memory_first(x, h, c, w_x, w_h, b):
    """The memory comes first. The order is `return new_h, new_c`: the state first."""
    i, f, g, o = _blocks(x, h, w_x, w_h, b)
    new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return new_c, sigmoid(o) * np.tanh(new_c)


def lstm_without_bias(x, h, c, w_x, w_h, b):
    """The bias b is missing from the sums."""
    i, f, g, o = np.split(x @ w_x + h @ w_h, 4, axis=-1)
    new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(new_c), new_c


def lstm_without_state(x, h, c, w_x, w_h, b):
    """The old state h does not count. The gates depend on it as on the input: add h @ w_h."""
    i, f, g, o = np.split(x @ w_x + b, 4, axis=-1)
    new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(new_c), new_c


def lstm_gates_see_the_memory(x, h, c, w_x, w_h, b):
    """The gates are made from the memory c in the place of the state h. They see the state only: h
    @ w_h.
    """
    i, f, g, o = _blocks(x, c, w_x, w_h, b)
    new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(new_c), new_c


def lstm_in_place(x, h, c, w_x, w_h, b):
    """The new memory is written into the caller's c (as `c *= …` and `c += …` do). Make a new
    array: new_c = …
    """
    i, f, g, o = _blocks(x, h, w_x, w_h, b)
    c[...] = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def lstm_sigmoid_overflows(x, h, c, w_x, w_h, b):
    """Your sigmoid is eˣ / (1 + eˣ): for a large x that is inf / inf, which is NaN. Use the sigmoid
    given above, or 1 / (1 + e⁻ˣ), whose overflow ends in 1 / inf = 0.
    """
    i, f, g, o = _blocks(x, h, w_x, w_h, b)
    i, f, o = (np.exp(gate) / (1 + np.exp(gate)) for gate in (i, f, o))
    new_c = f * c + i * np.tanh(g)
    return o * np.tanh(new_c), new_c


def lstm_bare_candidate(x, h, c, w_x, w_h, b):
    """The candidate is the bare sum g, of any size. It goes through tanh first: np.tanh(g)."""
    i, f, g, o = _blocks(x, h, w_x, w_h, b)
    new_c = sigmoid(f) * c + sigmoid(i) * g
    return sigmoid(o) * np.tanh(new_c), new_c


def lstm_sums_through_tanh(x, h, c, w_x, w_h, b):
    """The sums have gone through tanh before they are cut into blocks, as rnn_step would do. Here
    they stay as they are; each block then has its own sigmoid or tanh.
    """
    i, f, g, o = np.tanh(_blocks(x, h, w_x, w_h, b))
    new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(new_c), new_c


def lstm_squeezes_the_memory(x, h, c, w_x, w_h, b):
    """The memory itself goes through tanh, so that it cannot leave −1 to 1 and is squeezed anew at
    each step. Keep it as it is, f · c + i · g; only the state shows tanh of it.
    """
    i, f, g, o = _blocks(x, h, w_x, w_h, b)
    new_c = np.tanh(sigmoid(f) * c + sigmoid(i) * np.tanh(g))
    return sigmoid(o) * new_c, new_c


def lstm_gates_the_other_way(x, h, c, w_x, w_h, b):
    """The gates open where they should shut: a sign is wrong, as in 1 / (1 + eˣ). The sigmoid is
    1 / (1 + e⁻ˣ); one is given above.
    """
    i, f, g, o = _blocks(x, h, w_x, w_h, b)
    new_c = sigmoid(-f) * c + sigmoid(-i) * np.tanh(g)
    return sigmoid(-o) * np.tanh(new_c), new_c


def lstm_sums_through_tanh_once(x, h, c, w_x, w_h, b):
    """The gates are sigmoids of a tanh: all sums have gone through tanh, though only the
    candidate's should. Cut the sums first; sigmoid for i, f and o, tanh for g.
    """
    i, f, g, o = np.tanh(_blocks(x, h, w_x, w_h, b))
    new_c = sigmoid(f) * c + sigmoid(i) * g
    return sigmoid(o) * np.tanh(new_c), new_c


LSTM = {
    "order i, f, o, g": lstm_candidate_last,
    "order f, i, g, o": lstm_forget_first,
    "order i, g, f, o": lstm_candidate_second,
    "order f, i, o, g": lstm_forget_first_candidate_last,
    "gates interleaved": lstm_interleaved,
    "no tanh on the new memory": lstm_output_without_tanh,
    "state from the old memory": lstm_output_of_old_memory,
    "sigmoid for the candidate": lstm_sigmoid_candidate,
    "no tanh on the candidate": lstm_bare_candidate,
    "tanh on all sums first": lstm_sums_through_tanh,
    "tanh on all sums, the candidate's only one": lstm_sums_through_tanh_once,
    "tanh for the gates": lstm_tanh_gates,
    "no sigmoid on the gates": lstm_linear_gates,
    "tanh on the memory itself": lstm_squeezes_the_memory,
    "sigmoid with the wrong sign": lstm_gates_the_other_way,
    "no input gate": lstm_without_input_gate,
    "no forget gate": lstm_without_forget_gate,
    "input gate tied to the forget gate": lstm_forgets_what_it_lets_in,
    "forget gate the wrong way round": lstm_forgets_by_one_minus,
    "memory returned first": lstm_memory_first,
    "forgot the bias": lstm_without_bias,
    "forgot the state": lstm_without_state,
    "memory in the place of the state": lstm_gates_see_the_memory,
    "changed c in place": lstm_in_place,
    "sigmoid overflows": lstm_sigmoid_overflows,
}
