"""Answers to chapter 01 as learners write them, wrong and right, for tools that judge the checks.

Each case: exercise, "wrong" or "right", what it does, code. A wrong one must lose points and be
explained, a right one must lose none.
"""

# ruff: noqa: E501


def _step(body: str) -> str:
    return f"def rnn_step(x, h, w_x, w_h, b):\n    {body}"


RNN_STEP = [
    ("rnn_step", "wrong", "bias twice", _step("return np.tanh(x @ w_x + b + h @ w_h + b)")),
    ("rnn_step", "wrong", "first state for all", _step("return np.tanh(x @ w_x + h[0] @ w_h + b)")),
    ("rnn_step", "wrong", "first input for all", _step("return np.tanh(x[0] @ w_x + h @ w_h + b)")),
    ("rnn_step", "wrong", "squeezed", _step("return np.tanh(x @ w_x + h @ w_h + b).squeeze()")),
    (
        "rnn_step",
        "wrong",
        "+= on h @ w_h, integers in all but the bias",
        _step("a = h @ w_h\n    a += x @ w_x\n    a += b\n    return np.tanh(a)"),
    ),
    (
        "rnn_step",
        "wrong",
        "into zeros_like(h)",
        _step("new = np.zeros_like(h)\n    new[:] = np.tanh(x @ w_x + h @ w_h + b)\n    return new"),
    ),
    (
        "rnn_step",
        "wrong",
        "in place through asarray",
        _step("h = np.asarray(h, float)\n    h[:] = np.tanh(x @ w_x + h @ w_h + b)\n    return h"),
    ),
    (
        "rnn_step",
        "wrong",
        "x changed in place when square",
        _step(
            "if w_x.shape[0] == w_x.shape[1]:\n        x @= w_x\n"
            "        return np.tanh(x + h @ w_h + b)\n    return np.tanh(x @ w_x + h @ w_h + b)"
        ),
    ),
    ("rnn_step", "wrong", "minus bias", _step("return np.tanh(x @ w_x + h @ w_h - b)")),
    ("rnn_step", "wrong", "tanh twice", _step("return np.tanh(np.tanh(x @ w_x + h @ w_h + b))")),
    ("rnn_step", "wrong", "ReLU", _step("return np.maximum(x @ w_x + h @ w_h + b, 0)")),
    ("rnn_step", "wrong", "clipped sums", _step("return np.clip(x @ w_x + h @ w_h + b, -1, 1)")),
    (
        "rnn_step",
        "wrong",
        "exp by hand",
        _step(
            "a = x @ w_x + h @ w_h + b\n"
            "    return (np.exp(2 * a) - 1) / (np.exp(2 * a) + 1)"
        ),
    ),
    (
        "rnn_step",
        "right",
        "float() of everything, in place on copies",
        _step(
            "a = np.array(x @ w_x, dtype=float)\n    a += h @ w_h\n    a += b\n"
            "    return np.tanh(a, out=a)"
        ),
    ),
    ("rnn_step", "right", "einsum", _step("return np.tanh(np.einsum('bc,cn->bn', x, w_x) + h.dot(w_h) + b)")),
    (
        "rnn_step",
        "right",
        "list of rows",
        _step("return np.array([np.tanh(w_x.T @ p + w_h.T @ q + b) for p, q in zip(x, h)])"),
    ),
    (
        "rnn_step",
        "right",
        "2σ(2a) − 1 clipped",
        _step(
            "a = np.clip(x @ w_x + h @ w_h + b, -40, 40)\n    return 2 / (1 + np.exp(-2 * a)) - 1"
        ),
    ),
]


def _loop(loop: str, end: str = "np.stack(out, axis=1)", start: str = "h, out = h0, []") -> str:
    return f"def rnn_forward(x, h0, w_x, w_h, b):\n    {start}\n{loop}\n    return {end}"


KEEP = (
    "    for t in range(x.shape[1]):\n        h = rnn_step(x[:, t], h, w_x, w_h, b)\n"
    "        out.append(h)"
)

RNN_FORWARD = [
    ("rnn_forward", "wrong", "loop from 1", _loop(KEEP.replace("range(", "range(1, "))),
    ("rnn_forward", "wrong", "last step missing", _loop(KEEP.replace("[1])", "[1] - 1)"))),
    (
        "rnn_forward",
        "wrong",
        "last step left at zero",
        _loop(
            KEEP.replace("[1])", "[1] - 1)").replace("out.append(h)", "out[:, t] = h"),
            "out",
            "h, out = h0, np.zeros((*x.shape[:2], h0.shape[1]))",
        ),
    ),
    (
        "rnn_forward",
        "wrong",
        "bias twice",
        _loop(KEEP.replace("w_x, w_h, b)", "w_x, w_h, 2 * b)")),
    ),
    (
        "rnn_forward",
        "wrong",
        "first sequence only",
        _loop(KEEP, "np.stack(out, axis=1)[:1].repeat(len(x), axis=0)"),
    ),
    (
        "rnn_forward",
        "wrong",
        "stored like the inputs",
        _loop(
            KEEP.replace("out.append(h)", "out[:, t] = h"),
            "out",
            "h, out = h0, np.zeros((*x.shape[:2], h0.shape[1]), dtype=x.dtype)",
        ),
    ),
    (
        "rnn_forward",
        "wrong",
        "stored like h0",
        _loop(
            KEEP.replace("out.append(h)", "out[:, t] = h"),
            "out",
            "h, out = h0, np.zeros((*x.shape[:2], h0.shape[1]), dtype=h0.dtype)",
        ),
    ),
    (
        "rnn_forward",
        "wrong",
        "h0 overwritten through asarray",
        _loop(
            KEEP.replace("h = rnn", "h[:] = rnn").replace("append(h)", "append(h.copy())"),
            start="h, out = np.asarray(h0, float), []",
        ),
    ),
    ("rnn_forward", "wrong", "starts from zeros", _loop(KEEP, start="h, out = 0 * h0, []")),
    ("rnn_forward", "wrong", "squeezed", _loop(KEEP, "np.stack(out, axis=1).squeeze()")),
    ("rnn_forward", "wrong", "reshaped, time first", _loop(KEEP, "np.stack(out).reshape(len(x), -1, len(b))")),
    ("rnn_forward", "wrong", "residual", _loop(KEEP.replace("h = rnn", "h = h + rnn"))),
    ("rnn_forward", "wrong", "return in the loop", _loop(KEEP + "\n        return np.stack(out, axis=1)")),
    ("rnn_forward", "wrong", "a list", _loop(KEEP, "out")),
    (
        "rnn_forward",
        "right",
        "without rnn_step, transposed at the end",
        _loop(
            "    for row in np.swapaxes(x, 0, 1):\n"
            "        h = np.tanh(row @ w_x + h @ w_h + b)\n        out += [h]",
            "np.transpose(np.array(out), (1, 0, 2))",
        ),
    ),
    (
        "rnn_forward",
        "right",
        "recursion",
        "def rnn_forward(x, h0, w_x, w_h, b):\n"
        "    h = rnn_step(x[:, 0], h0, w_x, w_h, b)[:, None]\n"
        "    if x.shape[1] == 1:\n        return h\n"
        "    return np.concatenate([h, rnn_forward(x[:, 1:], h[:, 0], w_x, w_h, b)], axis=1)",
    ),
    (
        "rnn_forward",
        "right",
        "padded with h0 and cut",
        "def rnn_forward(x, h0, w_x, w_h, b):\n"
        "    out = np.zeros((x.shape[0], x.shape[1] + 1, len(b)))\n    out[:, 0] = h0\n"
        "    for t, row in enumerate(np.moveaxis(x, 1, 0)):\n"
        "        out[:, t + 1] = rnn_step(row, out[:, t], w_x, w_h, b)\n    return out[:, 1:]",
    ),
]

BPTT_BODY = """def bptt(x, h0, states, w_x, w_h, grad_states):
    grad_x = np.zeros(x.shape)
    dw_x, dw_h, db = np.zeros(w_x.shape), np.zeros(w_h.shape), np.zeros(w_h.shape[0])
    back = np.zeros(h0.shape)
    for t in range(x.shape[1] - 1, -1, -1):
        prev = h0 if t == 0 else states[:, t - 1]
        da = (grad_states[:, t] + back) * (1 - states[:, t] ** 2)
        grad_x[:, t] = da @ w_x.T
        dw_x += x[:, t].T @ da
        dw_h += prev.T @ da
        db += da.sum(axis=0)
        back = da @ w_h.T
    return grad_x, back, dw_x, dw_h, db
"""


def _bptt(*edits: str) -> str:
    code = BPTT_BODY
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        assert code.count(old) == 1, old
        code = code.replace(old, new)
    return code


SUM = "(grad_states[:, t] + back) * (1 - states[:, t] ** 2)"
BPTT = [
    ("bptt", "wrong", "direct part only", _bptt(SUM, "grad_states[:, t] * (1 - states[:, t] ** 2) + back")),
    ("bptt", "wrong", "(1 - h)²", _bptt("1 - states[:, t] ** 2", "(1 - states[:, t]) ** 2")),
    ("bptt", "wrong", "1 - h", _bptt("states[:, t] ** 2", "states[:, t]")),
    ("bptt", "wrong", "dW_h transposed", _bptt("prev.T @ da", "da.T @ prev")),
    ("bptt", "wrong", "h0 left out", _bptt("h0 if t == 0", "0 * h0 if t == 0")),
    ("bptt", "wrong", "first step missing", _bptt("- 1, -1, -1)", "- 1, 0, -1)")),
    ("bptt", "wrong", "last step missing", _bptt("x.shape[1] - 1", "x.shape[1] - 2")),
    ("bptt", "wrong", "first sequence in dW_x", _bptt("x[:, t].T @ da", "x[:1, t].T @ da[:1]")),
    ("bptt", "wrong", "buffer like x", _bptt("np.zeros(x.shape)", "np.zeros_like(x)")),
    ("bptt", "wrong", "buffer like w_x", _bptt("np.zeros(w_x.shape)", "np.zeros(w_x.shape, w_x.dtype)")),
    ("bptt", "wrong", "buffer like w_h", _bptt("np.zeros(w_h.shape),", "np.zeros(w_h.shape, w_h.dtype),")),
    (
        "bptt",
        "wrong",
        "grad_states changed through asarray",
        _bptt("back = np.zeros", "g = np.asarray(grad_states, float)\n    back = np.zeros", SUM,
              "g[:, t] * (1 - states[:, t] ** 2)", "back = da @ w_h.T",
              "back = da @ w_h.T\n        if t:\n            g[:, t - 1] += back"),
    ),
    ("bptt", "wrong", "starts with h0's buffer", _bptt("np.zeros(h0.shape)", "np.asarray(h0, float)")),
    ("bptt", "wrong", "back before the slope", _bptt("back = da @", "back = (grad_states[:, t] + back) @")),
    ("bptt", "wrong", "mean over the batch", _bptt("da.sum(axis=0)", "da.mean(axis=0)")),
    ("bptt", "wrong", "bias squeezed", _bptt("dw_h, db\n", "dw_h, db.sum(keepdims=True)\n")),
    ("bptt", "wrong", "h0 one product short", _bptt("grad_x, back,", "grad_x, da,")),
    ("bptt", "wrong", "order of the weights", _bptt("dw_x, dw_h, db\n", "dw_h, dw_x, db\n")),
    (
        "bptt",
        "wrong",
        "starts again for every step",
        "def bptt(x, h0, states, w_x, w_h, grad_states):\n"
        "    out = [np.zeros(x.shape), np.zeros(h0.shape), np.zeros(w_x.shape), "
        "np.zeros(w_h.shape), np.zeros(len(w_h))]\n"
        "    for last in range(x.shape[1]):\n        back = grad_states[:, last]\n"
        "        for t in range(last, -1, -1):\n"
        "            da = back * (1 - states[:, t] ** 2)\n"
        "            out[0][:, t] += da @ w_x.T\n            out[2] += x[:, t].T @ da\n"
        "            out[3] += (states[:, t - 1] if t else h0).T @ da\n"
        "            out[4] += da.sum(axis=0)\n            back = da @ w_h.T\n"
        "        out[1] += back\n    return tuple(out)",
    ),
    ("bptt", "right", "as the table says", _bptt()),
    ("bptt", "right", "outer by einsum", _bptt("prev.T @ da", "np.einsum('bi,bj->ij', prev, da)")),
    (
        "bptt",
        "right",
        "the gradient of the next sums carried",
        _bptt("grad_states[:, t] + back", "back @ w_h.T + grad_states[:, t]",
              "back = da @ w_h.T", "back = da", "grad_x, back,", "grad_x, back @ w_h.T,"),
    ),
    (
        "bptt",
        "right",
        "recursion over time",
        "def bptt(x, h0, states, w_x, w_h, grad_states, back=None):\n"
        "    g = grad_states[:, -1] + (0 if back is None else back)\n"
        "    da = g * (1 - states[:, -1] ** 2)\n"
        "    prev = states[:, -2] if x.shape[1] > 1 else h0\n"
        "    own = (da @ w_x.T)[:, None], da @ w_h.T, x[:, -1].T @ da, prev.T @ da, da.sum(0)\n"
        "    if x.shape[1] == 1:\n        return own\n"
        "    r = bptt(x[:, :-1], h0, states[:, :-1], w_x, w_h, grad_states[:, :-1], own[1])\n"
        "    return (np.concatenate([r[0], own[0]], 1), r[1], r[2] + own[2], r[3] + own[3], "
        "r[4] + own[4])",
    ),
]

NORMS_BODY = """def gradient_norms(states, w_h):
    B, T, N = states.shape
    J = np.tile(np.eye(N), (B, 1, 1))
    norms = np.ones((B, T))
    for t in range(T - 1, 0, -1):
        J = J * (1 - states[:, t] ** 2)[:, None, :] @ w_h.T
        norms[:, t - 1] = np.linalg.norm(J, ord=2, axis=(1, 2))
    return norms
"""


def _norms(old: str = "", new: str = "") -> str:
    assert not old or NORMS_BODY.count(old) == 1, old
    return NORMS_BODY.replace(old, new) if old else NORMS_BODY


NORM = "np.linalg.norm(J, ord=2, axis=(1, 2))"
NORMS = [
    ("gradient_norms", "wrong", "Frobenius", _norms("ord=2, ", "")),
    ("gradient_norms", "wrong", "norm of the whole stack", _norms(NORM, "np.linalg.norm(J)")),
    ("gradient_norms", "wrong", "nuclear norm", _norms("ord=2", "ord='nuc'")),
    ("gradient_norms", "wrong", "largest column sum", _norms("ord=2", "ord=1")),
    ("gradient_norms", "wrong", "smallest", _norms("ord=2", "ord=-2")),
    ("gradient_norms", "wrong", "first sequence for all", _norms(NORM, "np.linalg.norm(J[0], ord=2)")),
    ("gradient_norms", "wrong", "last left empty", _norms("np.ones((B, T))", "np.zeros((B, T))")),
    ("gradient_norms", "wrong", "buffer like states", _norms("np.ones((B, T))", "np.ones((B, T), dtype=states.dtype)")),
    ("gradient_norms", "wrong", "reversed", _norms("return norms", "return norms[:, ::-1]")),
    ("gradient_norms", "wrong", "(1 - h)²", _norms("1 - states[:, t] ** 2", "(1 - states[:, t]) ** 2")),
    ("gradient_norms", "wrong", "slope not squared", _norms("states[:, t] ** 2", "states[:, t]")),
    ("gradient_norms", "wrong", "sqrt", _norms(NORM, f"{NORM} ** 0.5")),
    ("gradient_norms", "wrong", "from the left", _norms("J * (1 - states[:, t] ** 2)[:, None, :] @ w_h.T",
     "((1 - states[:, t] ** 2)[:, :, None] * w_h.T) @ J")),
    ("gradient_norms", "wrong", "states changed in place", _norms("    B, T, N", "    states *= 1\n    states **= 2\n    B, T, N").replace("states[:, t] ** 2", "states[:, t]")),
    ("gradient_norms", "wrong", "w_h scaled through asarray", _norms("    B, T, N", "    w = np.asarray(w_h, float)\n    w *= -1\n    B, T, N")),
    ("gradient_norms", "right", "as written", _norms()),
    ("gradient_norms", "right", "transposed product", _norms(
        "J * (1 - states[:, t] ** 2)[:, None, :] @ w_h.T",
        "np.einsum('bij,bj,kj->bik', J, 1 - states[:, t] ** 2, w_h)")),
    ("gradient_norms", "right", "svd", _norms(NORM, "np.linalg.svd(J)[1][:, 0]")),
    ("gradient_norms", "right", "root of the largest eigenvalue of J Jᵀ", _norms(
        NORM, "np.sqrt(np.linalg.eigvalsh(J @ J.transpose(0, 2, 1)).max(axis=-1))")),
]

LSTM_BODY = """def lstm_cell(x, h, c, w_x, w_h, b):
    sums = x @ w_x + h @ w_h + b
    n = h.shape[1]
    i, f = sigmoid(sums[:, :n]), sigmoid(sums[:, n : 2 * n])
    g, o = np.tanh(sums[:, 2 * n : 3 * n]), sigmoid(sums[:, 3 * n :])
    new_c = f * c + i * g
    return o * np.tanh(new_c), new_c
"""


def _lstm(*edits: str) -> str:
    code = LSTM_BODY
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        assert code.count(old) == 1, old
        code = code.replace(old, new)
    return code.replace("def ", "def sigmoid(a):\n    return np.tanh(a / 2) / 2 + 0.5\n\n\ndef ", 1)


LSTM = [
    ("lstm_cell", "wrong", "output gate forgotten", _lstm("return o * ", "return ")),
    ("lstm_cell", "wrong", "output gate is the input gate", _lstm("return o *", "return i *")),
    ("lstm_cell", "wrong", "bias twice", _lstm("h @ w_h + b", "h @ w_h + 2 * b")),
    ("lstm_cell", "wrong", "first state for all", _lstm("h @ w_h", "h[0] @ w_h")),
    ("lstm_cell", "wrong", "no input gate", _lstm("i * g", "g")),
    ("lstm_cell", "wrong", "no forget gate", _lstm("f * c", "c")),
    ("lstm_cell", "wrong", "tied gates", _lstm("i * g", "(1 - f) * g")),
    ("lstm_cell", "wrong", "c changed in place", _lstm("new_c = f * c + i * g", "c *= f\n    c += i * g\n    new_c = c")),
    ("lstm_cell", "wrong", "c changed through asarray", _lstm("new_c = f * c + i * g", "new_c = np.asarray(c, float)\n    new_c *= f\n    new_c += i * g")),
    ("lstm_cell", "wrong", "memory like c", _lstm("new_c = f * c + i * g", "new_c = np.zeros_like(c)\n    new_c[:] = f * c + i * g")),
    ("lstm_cell", "wrong", "sums like h @ w_h", _lstm("x @ w_x + h @ w_h + b", "h @ w_h\n    sums += x @ w_x + b")),
    ("lstm_cell", "wrong", "memory returned first", _lstm("return o * np.tanh(new_c), new_c", "return new_c, o * np.tanh(new_c)")),
    ("lstm_cell", "wrong", "state returned twice", _lstm("np.tanh(new_c), new_c", "np.tanh(new_c), o * np.tanh(new_c)")),
    ("lstm_cell", "wrong", "tanh gates", _lstm("g, o = np.tanh(sums[:, 2 * n : 3 * n])", "g, o = sigmoid(sums[:, 2 * n : 3 * n])")),
    ("lstm_cell", "wrong", "interleaved", _lstm("n = h.shape[1]", "n = h.shape[1]\n    sums = np.concatenate([sums[:, k::4] for k in range(4)], axis=1)")),
    ("lstm_cell", "wrong", "peephole", _lstm("h @ w_h + b", "h @ w_h + b + np.tile(c, 4)")),
    ("lstm_cell", "wrong", "squeezed", _lstm("new_c), new_c", "new_c).squeeze(), new_c.squeeze()")),
    ("lstm_cell", "wrong", "sigmoid overflows", _lstm("sums = x @ w_x", "sigmoid = lambda a: np.exp(a) / (1 + np.exp(a))\n    sums = x @ w_x")),
    ("lstm_cell", "right", "as written", _lstm()),
    ("lstm_cell", "right", "a list, own sigmoid", _lstm("return o * np.tanh(new_c), new_c", "return [o * np.tanh(new_c), new_c]",
     "sums = x @ w_x", "sigmoid = lambda a: 1 / (1 + np.exp(-np.clip(a, -500, 500)))\n    sums = x @ w_x")),
    ("lstm_cell", "right", "where(a > 0)", _lstm("sums = x @ w_x", "sigmoid = lambda a: np.where(a > 0, 1, np.exp(-abs(a))) / (1 + np.exp(-abs(a)))\n    sums = x @ w_x")),
    ("lstm_cell", "right", "four products", "def lstm_cell(x, h, c, w_x, w_h, b):\n"
     "    i, f, g, o = (x @ p + h @ q + r for p, q, r in zip(np.split(w_x, 4, 1), np.split(w_h, 4, 1), np.split(b, 4)))\n"
     "    s = lambda a: (1 + np.tanh(a / 2)) / 2\n    c = s(f) * c + s(i) * np.tanh(g)\n    return s(o) * np.tanh(c), c"),
]

GRU_BODY = """def gru_cell(x, h, w_x, w_h, b_x, b_h):
    xs, hs = x @ w_x + b_x, h @ w_h + b_h
    n = h.shape[1]
    r = sigmoid(xs[:, :n] + hs[:, :n])
    z = sigmoid(xs[:, n : 2 * n] + hs[:, n : 2 * n])
    new = np.tanh(xs[:, 2 * n :] + r * hs[:, 2 * n :])
    return (1 - z) * new + z * h
"""


def _gru(*edits: str) -> str:
    code = GRU_BODY
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        assert code.count(old) == 1, old
        code = code.replace(old, new)
    return code.replace("def ", "def sigmoid(a):\n    return np.tanh(a / 2) / 2 + 0.5\n\n\ndef ", 1)


GRU = [
    ("gru_cell", "wrong", "(1 - z) n + h", _gru("z * h", "h")),
    ("gru_cell", "wrong", "n + z h", _gru("(1 - z) * new", "new")),
    ("gru_cell", "wrong", "swapped", _gru("(1 - z) * new + z * h", "(1 - z) * h + z * new")),
    ("gru_cell", "wrong", "reset on the kept state", _gru("z * h", "z * r * h")),
    ("gru_cell", "wrong", "reset on the input", _gru("xs[:, 2 * n :] + r * hs[:, 2 * n :]", "r * xs[:, 2 * n :] + hs[:, 2 * n :]")),
    ("gru_cell", "wrong", "update gate resets", _gru("r * hs[", "z * hs[")),
    ("gru_cell", "wrong", "no b_h", _gru(" + b_h", "")),
    ("gru_cell", "wrong", "no b_x", _gru(" + b_x", "")),
    ("gru_cell", "wrong", "no b_h in the candidate", _gru("r * hs[:, 2 * n :]", "r * (hs - b_h)[:, 2 * n :]")),
    ("gru_cell", "wrong", "biases exchanged", _gru("x @ w_x + b_x, h @ w_h + b_h", "x @ w_x + b_h, h @ w_h + b_x")),
    ("gru_cell", "wrong", "first state for all", _gru("h @ w_h", "h[:1] @ w_h")),
    ("gru_cell", "wrong", "candidate without tanh", _gru("np.tanh(", "(")),
    ("gru_cell", "wrong", "h changed in place", _gru("return (1 - z) * new + z * h", "h *= z\n    h += (1 - z) * new\n    return h")),
    ("gru_cell", "wrong", "h changed through asarray", _gru("return (1 - z) * new + z * h", "h = np.asarray(h, float)\n    h *= z\n    return h + (1 - z) * new")),
    ("gru_cell", "wrong", "result like h", _gru("return (1 - z) * new + z * h", "out = np.empty_like(h)\n    out[:] = (1 - z) * new + z * h\n    return out")),
    ("gru_cell", "wrong", "+= into integers", _gru("x @ w_x + b_x, h @ w_h + b_h", "x @ w_x, h @ w_h\n    xs += b_x\n    hs += b_h")),
    ("gru_cell", "wrong", "order z, r, n", _gru("r = sigmoid", "q = sigmoid", "z = sigmoid", "r = sigmoid", "    new =", "    z = q\n    new =")),
    ("gru_cell", "wrong", "sigmoid overflows", _gru("xs, hs =", "sigmoid = lambda a: np.exp(a) / (1 + np.exp(a))\n    xs, hs =")),
    ("gru_cell", "right", "as written", _gru()),
    ("gru_cell", "right", "step from the state", _gru("(1 - z) * new + z * h", "h + (1 - z) * (new - h)")),
    ("gru_cell", "right", "own sigmoid", _gru("xs, hs =", "sigmoid = lambda a: 1 / (1 + np.exp(-np.clip(a, -700, 700)))\n    xs, hs =")),
    ("gru_cell", "right", "in place on its own array", _gru("return (1 - z) * new + z * h", "new *= 1 - z\n    new += z * h\n    return new")),
]

REPAIR_BODY = """def repaired_bptt(x, h0, states, w_x, w_h, grad_states):
    slopes = 1.0 - states**2
    da = grad_states * slopes
    for t in reversed(range(1, x.shape[1])):
        da[:, t - 1] += da[:, t] @ w_h.T * slopes[:, t - 1]
    before = np.concatenate([h0[:, None], states[:, :-1]], axis=1)
    grad_w_x = np.tensordot(x, da, axes=((0, 1), (0, 1)))
    grad_w_h = np.tensordot(before, da, axes=((0, 1), (0, 1)))
    return da @ w_x.T, da[:, 0] @ w_h.T, grad_w_x, grad_w_h, da.sum(axis=(0, 1))
"""


def _repair(*edits: str) -> str:
    code = REPAIR_BODY
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        assert code.count(old) == 1, old
        code = code.replace(old, new)
    return code


ADDED = "da[:, t - 1] += da[:, t] @ w_h.T * slopes[:, t - 1]"
WALKED = """    da = np.array(grad_states, float)
    for t in range(x.shape[1] - 1, -1, -1):
        if t + 1 < x.shape[1]:
            da[:, t] += da[:, t + 1] @ w_h.T
        da[:, t] *= slopes[:, t]"""
REPAIR = [
    ("repaired_bptt", "wrong", "as it was", _repair(" * slopes[:, t - 1]", "")),
    ("repaired_bptt", "wrong", "slope of step t", _repair(ADDED, ADDED.replace("slopes[:, t - 1]", "slopes[:, t]"))),
    ("repaired_bptt", "wrong", "slope of the first step", _repair(ADDED, ADDED.replace("slopes[:, t - 1]", "slopes[:, 0]"))),
    ("repaired_bptt", "wrong", "slope of the last step", _repair(ADDED, ADDED.replace("slopes[:, t - 1]", "slopes[:, -1]"))),
    ("repaired_bptt", "wrong", "slope before the weights", _repair(ADDED, "da[:, t - 1] += (da[:, t] * slopes[:, t - 1]) @ w_h.T")),
    ("repaired_bptt", "wrong", "= instead of +=", _repair("da[:, t - 1] +=", "da[:, t - 1] =")),
    ("repaired_bptt", "wrong", "multiplied at the end", _repair(" * slopes[:, t - 1]", "", "    before", "    da = da * slopes\n    before")),
    ("repaired_bptt", "wrong", "no slope on the direct part", _repair("grad_states * slopes", "1.0 * grad_states")),
    ("repaired_bptt", "wrong", "1 - h", _repair("states**2", "states")),
    ("repaired_bptt", "wrong", "w_h not transposed", _repair("da[:, t] @ w_h.T", "da[:, t] @ w_h")),
    ("repaired_bptt", "wrong", "loop ends at 2", _repair("range(1, x", "range(2, x")),
    ("repaired_bptt", "wrong", "forwards", _repair("reversed(range(1, x.shape[1]))", "range(1, x.shape[1])")),
    ("repaired_bptt", "wrong", "one step back only", _repair("da = grad_states * slopes", "da = grad_states * slopes\n    own = da.copy()", "da[:, t] @ w_h.T *", "own[:, t] @ w_h.T *")),
    ("repaired_bptt", "wrong", "states, not those before", _repair("np.concatenate([h0[:, None], states[:, :-1]], axis=1)", "states")),
    ("repaired_bptt", "wrong", "grad_states changed through asarray", _repair("da = grad_states * slopes", "da = np.asarray(grad_states, float)\n    da *= slopes")),
    ("repaired_bptt", "wrong", "integers stay integers", _repair("1.0 - states**2", "1 - states**2")),
    ("repaired_bptt", "wrong", "first sequence's slopes", _repair(ADDED, ADDED.replace("slopes[:, t - 1]", "slopes[:1, t - 1]"))),
    ("repaired_bptt", "right", "as written", _repair()),
    ("repaired_bptt", "right", "slope at the step, once", _repair("    da = grad_states * slopes\n    for t in reversed(range(1, x.shape[1])):\n        " + ADDED, WALKED)),
    ("repaired_bptt", "right", "einsum, a new array", _repair(ADDED, "da[:, t - 1] = da[:, t - 1] + np.einsum('bn,mn,bm->bm', da[:, t], w_h, slopes[:, t - 1])")),
    ("repaired_bptt", "right", "slopes by hand", _repair("1.0 - states**2", "(1.0 - states) * (1.0 + states)")),
]

CASES = [*RNN_STEP, *RNN_FORWARD, *BPTT, *NORMS, *LSTM, *GRU, *REPAIR]
