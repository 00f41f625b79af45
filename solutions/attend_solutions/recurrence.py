"""Recurrent networks in NumPy: a plain one and its gradient by hand, the LSTM and the GRU.

One small function is applied again at every step of a sequence. What it carries along, the state,
is all that the network remembers of the steps before.

    a_t = x_t W_x + h_{t-1} W_h + b      sums
    h_t = tanh(a_t)                      states

Letters:
    B    sequences in a batch           C    numbers in one input
    T    steps of a sequence            N    numbers in one state
    In equations h_t and x_t are rows; h_0 is the state before the first step.

Source: Elman 1990, "Finding Structure in Time" (the network); Werbos 1990, "Backpropagation
Through Time" (its gradient); Pascanu, Mikolov and Bengio 2013, "On the difficulty of training
recurrent neural networks", §2 (why the gradient vanishes or explodes); Hochreiter and Schmidhuber
1997, "Long Short-Term Memory"; Cho et al. 2014, "Learning Phrase Representations using RNN
Encoder-Decoder for Statistical Machine Translation", §2.3 (the GRU).
"""

import numpy as np

from attend_solutions.types import Array


def rnn_step(x: Array, h: Array, w_x: Array, w_h: Array, b: Array) -> Array:
    """Take one step of a recurrent network: from input and state to the next state.

    Shapes:
        x: (B, C), one input for each sequence of the batch
        h: (B, N), the states before the step
        w_x: (C, N)
        w_h: (N, N)
        b: (N,)
        returns: (B, N), the states after the step, each number between -1 and 1

    Source: Elman 1990, "Finding Structure in Time", figure 2 (there with another squashing
    function).

    >>> x, h = np.array([[1.0, 2.0]]), np.array([[0.5, -0.5]])
    >>> w_x = np.array([[0.1, 0.0], [0.2, -0.1]])
    >>> w_h = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> rnn_step(x, h, w_x, w_h, np.array([0.0, 1.2])).round(3)  # tanh of 1.0 and of 0.0
    array([[0.762, 0.   ]])
    """
    return np.tanh(x @ w_x + h @ w_h + b)


def rnn_forward(x: Array, h0: Array, w_x: Array, w_h: Array, b: Array) -> Array:
    """Run the recurrent network over whole sequences and keep every state.

    Shapes:
        x: (B, T, C), T at least 1
        h0: (B, N), the states before the first step
        w_x: (C, N)
        w_h: (N, N)
        b: (N,)
        returns: (B, T, N); entry [:, t] holds the states after reading x[:, t]

    The state before the first step is not among those returned.

    Source: Elman 1990, "Finding Structure in Time", figure 2.

    >>> x = np.array([[[1.0], [0.0], [0.0]]])  # one sequence, three steps, one number each
    >>> w_x, w_h, b = np.array([[2.0]]), np.array([[1.0]]), np.array([0.0])
    >>> rnn_forward(x, np.array([[0.0]]), w_x, w_h, b).round(3)[0, :, 0]
    array([0.964, 0.746, 0.633])
    """
    h, states = h0, []
    for t in range(x.shape[1]):
        h = rnn_step(x[:, t], h, w_x, w_h, b)
        states.append(h)
    return np.stack(states, axis=1)  # (B, T, N)


def bptt(
    x: Array, h0: Array, states: Array, w_x: Array, w_h: Array, grad_states: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """Give the gradients of a loss with respect to all that went into the recurrent network.

    ``states`` is what rnn_forward returned; ``grad_states[:, t]`` is how the loss depends on
    ``states[:, t]`` directly, not by way of later states. Back-propagation through time adds what
    comes by way of later states.

    Shapes:
        x: (B, T, C)
        h0: (B, N)
        states: (B, T, N)
        w_x: (C, N)
        w_h: (N, N)
        grad_states: (B, T, N)
        returns: grad_x (B, T, C), grad_h0 (B, N), grad_w_x (C, N), grad_w_h (N, N), grad_b (N,)

    The weights serve every sequence and every step, so their gradients are sums over B and T.

    Source: Werbos 1990, "Backpropagation Through Time"; Pascanu et al. 2013, §2, equations
    (3) to (5).

    >>> x, h0 = np.array([[[1.0], [3.0]]]), np.array([[2.0]])  # one sequence, two steps
    >>> states = np.array([[[0.5], [0.0]]])  # so the slopes of tanh are 0.75 and 1
    >>> w_x, w_h = np.array([[10.0]]), np.array([[4.0]])
    >>> only_the_last = np.array([[[0.0], [1.0]]])
    >>> grad_x, grad_h0, grad_w_x, grad_w_h, grad_b = bptt(
    ...     x, h0, states, w_x, w_h, only_the_last
    ... )
    >>> grad_x[0, :, 0]  # 1 · 10 at the last step, (1 · 4 · 0.75) · 10 at the first
    array([30., 10.])
    >>> grad_h0  # (1 · 4 · 0.75) · 4
    array([[12.]])
    >>> grad_w_x, grad_w_h, grad_b  # 3·1 + 1·3, 0.5·1 + 2·3, 1 + 3
    (array([[6.]]), array([[6.5]]), array([4.]))
    """
    grad_x, carried = np.zeros(x.shape), np.zeros(h0.shape)  # carried: from later steps
    grad_w_x, grad_w_h = np.zeros(w_x.shape), np.zeros(w_h.shape)
    grad_b = np.zeros(w_h.shape[0])
    for t in reversed(range(x.shape[1])):
        before = states[:, t - 1] if t > 0 else h0
        grad_sum = (grad_states[:, t] + carried) * (1 - states[:, t] ** 2)  # (B, N), before tanh
        grad_x[:, t] = grad_sum @ w_x.T
        grad_w_x += x[:, t].T @ grad_sum
        grad_w_h += before.T @ grad_sum
        grad_b += grad_sum.sum(axis=0)
        carried = grad_sum @ w_h.T
    return grad_x, carried, grad_w_x, grad_w_h, grad_b


def repaired_bptt(
    x: Array, h0: Array, states: Array, w_x: Array, w_h: Array, grad_states: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """Give what ``suspect_bptt`` should give: the five gradients.

    Copy the body of ``suspect_bptt``, and repair it.

    Shapes:
        x: (B, T, C)
        h0: (B, N)
        states: (B, T, N)
        w_x: (C, N)
        w_h: (N, N)
        grad_states: (B, T, N)
        returns: grad_x (B, T, C), grad_h0 (B, N), grad_w_x (C, N), grad_w_h (N, N), grad_b (N,)

    Source: Werbos 1990, "Backpropagation Through Time".

    >>> x, h0 = np.array([[[1.0], [3.0]]]), np.array([[2.0]])
    >>> states = np.array([[[0.5], [0.0]]])  # so the slopes of tanh are 0.75 and 1
    >>> only_the_last = np.array([[[0.0], [1.0]]])
    >>> repaired_bptt(x, h0, states, np.array([[10.0]]), np.array([[4.0]]), only_the_last)[0]
    array([[[30.],
            [10.]]])
    """
    slopes = 1.0 - states**2
    grad_sums = grad_states * slopes  # (B, T, N), what each state's own loss sends to the sums
    for t in reversed(range(1, x.shape[1])):
        grad_sums[:, t - 1] += (grad_sums[:, t] @ w_h.T) * slopes[:, t - 1]
    earlier = np.concatenate([h0[:, None], states[:, :-1]], axis=1)  # (B, T, N)
    grad_w_x = np.tensordot(x, grad_sums, axes=((0, 1), (0, 1)))
    grad_w_h = np.tensordot(earlier, grad_sums, axes=((0, 1), (0, 1)))
    return (
        grad_sums @ w_x.T,
        grad_sums[:, 0] @ w_h.T,
        grad_w_x,
        grad_w_h,
        grad_sums.sum(axis=(0, 1)),
    )


def gradient_norms(states: Array, w_h: Array) -> Array:
    """Measure how strongly the last state depends on each state: the size of ∂h_T/∂h_t.

    The size of a Jacobian is its spectral norm, that is its largest singular value: the most by
    which a small change of h_t can be stretched on its way to h_T.

    Shapes:
        states: (B, T, N), as rnn_forward returns them
        w_h: (N, N)
        returns: (B, T); entry [:, t] belongs to states[:, t], and the last one is 1

    States of zeros give the network without tanh, since the slope of tanh at 0 is 1.

    Source: Pascanu et al. 2013, §2.1 and equation (5).

    >>> w_h = np.array([[0.5, 0.0], [0.0, 2.0]])
    >>> gradient_norms(np.zeros((1, 4, 2)), w_h)
    array([[8., 4., 2., 1.]])
    >>> half = np.array([[[0.0, 0.0], [0.0, 0.0], [0.0, 0.5]]])  # slopes 1 and 0.75 at the end
    >>> gradient_norms(half, w_h)
    array([[3. , 1.5, 1. ]])
    """
    batch, steps, width = states.shape
    jacobian = np.broadcast_to(np.eye(width), (batch, width, width))
    norms = np.empty((batch, steps))
    for t in reversed(range(steps)):
        norms[:, t] = np.linalg.norm(jacobian, ord=2, axis=(1, 2))
        slopes = 1 - states[:, t] ** 2  # (B, N)
        jacobian = (jacobian * slopes[:, None]) @ w_h.T
    return norms


def sigmoid(x: Array) -> Array:
    """Squeeze numbers into the range 0 to 1, by tanh: so nothing overflows.

    Shapes:
        x: any shape
        returns: the same shape, floating point

    >>> sigmoid(np.array([-1000.0, 0.0, 1000.0]))
    array([0. , 0.5, 1. ])
    """
    return 0.5 * np.tanh(0.5 * x) + 0.5


def lstm_cell(
    x: Array, h: Array, c: Array, w_x: Array, w_h: Array, b: Array
) -> tuple[Array, Array]:
    """Take one step of an LSTM (long short-term memory).

    The columns of ``w_x`` and ``w_h`` and the entries of ``b`` are four blocks of N: for the input
    gate, the forget gate, the candidate and the output gate, in this order (i, f, g, o, as in
    PyTorch).

    Shapes:
        x: (B, C), one input for each sequence of the batch
        h: (B, N), the states before the step
        c: (B, N), the memory cells before the step
        w_x: (C, 4N)
        w_h: (N, 4N)
        b: (4N,)
        returns: the new states (B, N) and the new memory cells (B, N)

    Source: Hochreiter and Schmidhuber 1997, "Long Short-Term Memory"; the forget gate: Gers,
    Schmidhuber and Cummins 2000, "Learning to Forget: Continual Prediction with LSTM".

    >>> x, h, c = np.array([[1.0]]), np.array([[0.0]]), np.array([[6.0]])
    >>> w_x = np.array([[0.0, -np.log(3), 9.0, 0.0]])  # the gates are 1/2, 1/4 and 1/2
    >>> new_h, new_c = lstm_cell(x, h, c, w_x, np.zeros((1, 4)), np.zeros(4))
    >>> new_c.round(3), new_h.round(3)  # 1/4 · 6 + 1/2 · tanh(9), and 1/2 · tanh of that
    (array([[2.]]), array([[0.482]]))
    """
    i, f, g, o = np.split(x @ w_x + h @ w_h + b, 4, axis=-1)  # each (B, N)
    new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(new_c), new_c


def gru_cell(x: Array, h: Array, w_x: Array, w_h: Array, b_x: Array, b_h: Array) -> Array:
    """Take one step of a GRU (gated recurrent unit).

    The columns of ``w_x`` and ``w_h`` and the entries of ``b_x`` and ``b_h`` are three blocks of
    N: for the reset gate, the update gate and the candidate, in this order (r, z, n, as in
    PyTorch). As there, the reset gate multiplies what comes from the state after the product with
    its weights and with its bias added; and an update gate of 1 keeps the old state.

    Shapes:
        x: (B, C), one input for each sequence of the batch
        h: (B, N), the states before the step
        w_x: (C, 3N)
        w_h: (N, 3N)
        b_x: (3N,), added to what comes from the input
        b_h: (3N,), added to what comes from the state
        returns: (B, N), the states after the step

    Source: Cho et al. 2014, §2.3, equations (5) to (8), where the reset gate multiplies the state
    before the product.

    >>> x, h = np.array([[1.0]]), np.array([[0.8]])
    >>> w_x = np.array([[0.0, np.log(3), 0.0]])  # the reset gate is 1/2, the update gate 3/4
    >>> w_h = np.array([[0.0, 0.0, 1.0]])
    >>> gru_cell(x, h, w_x, w_h, np.zeros(3), np.zeros(3)).round(3)  # 1/4 · tanh(0.4) + 3/4 · 0.8
    array([[0.695]])
    """
    x_r, x_z, x_n = np.split(x @ w_x + b_x, 3, axis=-1)  # each (B, N)
    h_r, h_z, h_n = np.split(h @ w_h + b_h, 3, axis=-1)
    reset, update = sigmoid(x_r + h_r), sigmoid(x_z + h_z)
    candidate = np.tanh(x_n + reset * h_n)
    return (1 - update) * candidate + update * h
