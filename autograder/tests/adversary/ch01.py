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
        _step(
            "new = np.zeros_like(h)\n    new[:] = np.tanh(x @ w_x + h @ w_h + b)\n    return new"
        ),
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
        _step("a = x @ w_x + h @ w_h + b\n    return (np.exp(2 * a) - 1) / (np.exp(2 * a) + 1)"),
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
    (
        "rnn_step",
        "right",
        "einsum",
        _step("return np.tanh(np.einsum('bc,cn->bn', x, w_x) + h.dot(w_h) + b)"),
    ),
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
    (
        "rnn_forward",
        "wrong",
        "reshaped, time first",
        _loop(KEEP, "np.stack(out).reshape(len(x), -1, len(b))"),
    ),
    ("rnn_forward", "wrong", "residual", _loop(KEEP.replace("h = rnn", "h = h + rnn"))),
    (
        "rnn_forward",
        "wrong",
        "return in the loop",
        _loop(KEEP + "\n        return np.stack(out, axis=1)"),
    ),
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
    (
        "bptt",
        "wrong",
        "direct part only",
        _bptt(SUM, "grad_states[:, t] * (1 - states[:, t] ** 2) + back"),
    ),
    ("bptt", "wrong", "(1 - h)²", _bptt("1 - states[:, t] ** 2", "(1 - states[:, t]) ** 2")),
    ("bptt", "wrong", "1 - h", _bptt("states[:, t] ** 2", "states[:, t]")),
    ("bptt", "wrong", "dW_h transposed", _bptt("prev.T @ da", "da.T @ prev")),
    ("bptt", "wrong", "h0 left out", _bptt("h0 if t == 0", "0 * h0 if t == 0")),
    ("bptt", "wrong", "first step missing", _bptt("- 1, -1, -1)", "- 1, 0, -1)")),
    ("bptt", "wrong", "last step missing", _bptt("x.shape[1] - 1", "x.shape[1] - 2")),
    ("bptt", "wrong", "first sequence in dW_x", _bptt("x[:, t].T @ da", "x[:1, t].T @ da[:1]")),
    ("bptt", "wrong", "buffer like x", _bptt("np.zeros(x.shape)", "np.zeros_like(x)")),
    (
        "bptt",
        "wrong",
        "buffer like w_x",
        _bptt("np.zeros(w_x.shape)", "np.zeros(w_x.shape, w_x.dtype)"),
    ),
    (
        "bptt",
        "wrong",
        "buffer like w_h",
        _bptt("np.zeros(w_h.shape),", "np.zeros(w_h.shape, w_h.dtype),"),
    ),
    (
        "bptt",
        "wrong",
        "grad_states changed through asarray",
        _bptt(
            "back = np.zeros",
            "g = np.asarray(grad_states, float)\n    back = np.zeros",
            SUM,
            "g[:, t] * (1 - states[:, t] ** 2)",
            "back = da @ w_h.T",
            "back = da @ w_h.T\n        if t:\n            g[:, t - 1] += back",
        ),
    ),
    (
        "bptt",
        "wrong",
        "starts with h0's buffer",
        _bptt("np.zeros(h0.shape)", "np.asarray(h0, float)"),
    ),
    (
        "bptt",
        "wrong",
        "back before the slope",
        _bptt("back = da @", "back = (grad_states[:, t] + back) @"),
    ),
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
        _bptt(
            "grad_states[:, t] + back",
            "back @ w_h.T + grad_states[:, t]",
            "back = da @ w_h.T",
            "back = da",
            "grad_x, back,",
            "grad_x, back @ w_h.T,",
        ),
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
    (
        "gradient_norms",
        "wrong",
        "first sequence for all",
        _norms(NORM, "np.linalg.norm(J[0], ord=2)"),
    ),
    ("gradient_norms", "wrong", "last left empty", _norms("np.ones((B, T))", "np.zeros((B, T))")),
    (
        "gradient_norms",
        "wrong",
        "buffer like states",
        _norms("np.ones((B, T))", "np.ones((B, T), dtype=states.dtype)"),
    ),
    ("gradient_norms", "wrong", "reversed", _norms("return norms", "return norms[:, ::-1]")),
    (
        "gradient_norms",
        "wrong",
        "(1 - h)²",
        _norms("1 - states[:, t] ** 2", "(1 - states[:, t]) ** 2"),
    ),
    ("gradient_norms", "wrong", "slope not squared", _norms("states[:, t] ** 2", "states[:, t]")),
    ("gradient_norms", "wrong", "sqrt", _norms(NORM, f"{NORM} ** 0.5")),
    (
        "gradient_norms",
        "wrong",
        "from the left",
        _norms(
            "J * (1 - states[:, t] ** 2)[:, None, :] @ w_h.T",
            "((1 - states[:, t] ** 2)[:, :, None] * w_h.T) @ J",
        ),
    ),
    (
        "gradient_norms",
        "wrong",
        "states changed in place",
        _norms("    B, T, N", "    states *= 1\n    states **= 2\n    B, T, N").replace(
            "states[:, t] ** 2", "states[:, t]"
        ),
    ),
    (
        "gradient_norms",
        "wrong",
        "w_h scaled through asarray",
        _norms("    B, T, N", "    w = np.asarray(w_h, float)\n    w *= -1\n    B, T, N"),
    ),
    ("gradient_norms", "right", "as written", _norms()),
    (
        "gradient_norms",
        "right",
        "transposed product",
        _norms(
            "J * (1 - states[:, t] ** 2)[:, None, :] @ w_h.T",
            "np.einsum('bij,bj,kj->bik', J, 1 - states[:, t] ** 2, w_h)",
        ),
    ),
    ("gradient_norms", "right", "svd", _norms(NORM, "np.linalg.svd(J)[1][:, 0]")),
    (
        "gradient_norms",
        "right",
        "root of the largest eigenvalue of J Jᵀ",
        _norms(NORM, "np.sqrt(np.linalg.eigvalsh(J @ J.transpose(0, 2, 1)).max(axis=-1))"),
    ),
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
    (
        "lstm_cell",
        "wrong",
        "c changed in place",
        _lstm("new_c = f * c + i * g", "c *= f\n    c += i * g\n    new_c = c"),
    ),
    (
        "lstm_cell",
        "wrong",
        "c changed through asarray",
        _lstm(
            "new_c = f * c + i * g",
            "new_c = np.asarray(c, float)\n    new_c *= f\n    new_c += i * g",
        ),
    ),
    (
        "lstm_cell",
        "wrong",
        "memory like c",
        _lstm("new_c = f * c + i * g", "new_c = np.zeros_like(c)\n    new_c[:] = f * c + i * g"),
    ),
    (
        "lstm_cell",
        "wrong",
        "sums like h @ w_h",
        _lstm("x @ w_x + h @ w_h + b", "h @ w_h\n    sums += x @ w_x + b"),
    ),
    (
        "lstm_cell",
        "wrong",
        "memory returned first",
        _lstm("return o * np.tanh(new_c), new_c", "return new_c, o * np.tanh(new_c)"),
    ),
    (
        "lstm_cell",
        "wrong",
        "state returned twice",
        _lstm("np.tanh(new_c), new_c", "np.tanh(new_c), o * np.tanh(new_c)"),
    ),
    (
        "lstm_cell",
        "wrong",
        "tanh gates",
        _lstm("g, o = np.tanh(sums[:, 2 * n : 3 * n])", "g, o = sigmoid(sums[:, 2 * n : 3 * n])"),
    ),
    (
        "lstm_cell",
        "wrong",
        "interleaved",
        _lstm(
            "n = h.shape[1]",
            "n = h.shape[1]\n    sums = np.concatenate([sums[:, k::4] for k in range(4)], axis=1)",
        ),
    ),
    ("lstm_cell", "wrong", "peephole", _lstm("h @ w_h + b", "h @ w_h + b + np.tile(c, 4)")),
    ("lstm_cell", "wrong", "squeezed", _lstm("new_c), new_c", "new_c).squeeze(), new_c.squeeze()")),
    (
        "lstm_cell",
        "wrong",
        "sigmoid overflows",
        _lstm(
            "sums = x @ w_x", "sigmoid = lambda a: np.exp(a) / (1 + np.exp(a))\n    sums = x @ w_x"
        ),
    ),
    ("lstm_cell", "right", "as written", _lstm()),
    (
        "lstm_cell",
        "right",
        "a list, own sigmoid",
        _lstm(
            "return o * np.tanh(new_c), new_c",
            "return [o * np.tanh(new_c), new_c]",
            "sums = x @ w_x",
            "sigmoid = lambda a: 1 / (1 + np.exp(-np.clip(a, -500, 500)))\n    sums = x @ w_x",
        ),
    ),
    (
        "lstm_cell",
        "right",
        "where(a > 0)",
        _lstm(
            "sums = x @ w_x",
            "sigmoid = lambda a: np.where(a > 0, 1, np.exp(-abs(a))) / (1 + np.exp(-abs(a)))\n    sums = x @ w_x",
        ),
    ),
    (
        "lstm_cell",
        "right",
        "four products",
        "def lstm_cell(x, h, c, w_x, w_h, b):\n"
        "    i, f, g, o = (x @ p + h @ q + r for p, q, r in zip(np.split(w_x, 4, 1), np.split(w_h, 4, 1), np.split(b, 4)))\n"
        "    s = lambda a: (1 + np.tanh(a / 2)) / 2\n    c = s(f) * c + s(i) * np.tanh(g)\n    return s(o) * np.tanh(c), c",
    ),
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
    (
        "gru_cell",
        "wrong",
        "reset on the input",
        _gru("xs[:, 2 * n :] + r * hs[:, 2 * n :]", "r * xs[:, 2 * n :] + hs[:, 2 * n :]"),
    ),
    ("gru_cell", "wrong", "update gate resets", _gru("r * hs[", "z * hs[")),
    ("gru_cell", "wrong", "no b_h", _gru(" + b_h", "")),
    ("gru_cell", "wrong", "no b_x", _gru(" + b_x", "")),
    (
        "gru_cell",
        "wrong",
        "no b_h in the candidate",
        _gru("r * hs[:, 2 * n :]", "r * (hs - b_h)[:, 2 * n :]"),
    ),
    (
        "gru_cell",
        "wrong",
        "biases exchanged",
        _gru("x @ w_x + b_x, h @ w_h + b_h", "x @ w_x + b_h, h @ w_h + b_x"),
    ),
    ("gru_cell", "wrong", "first state for all", _gru("h @ w_h", "h[:1] @ w_h")),
    ("gru_cell", "wrong", "candidate without tanh", _gru("np.tanh(", "(")),
    (
        "gru_cell",
        "wrong",
        "h changed in place",
        _gru("return (1 - z) * new + z * h", "h *= z\n    h += (1 - z) * new\n    return h"),
    ),
    (
        "gru_cell",
        "wrong",
        "h changed through asarray",
        _gru(
            "return (1 - z) * new + z * h",
            "h = np.asarray(h, float)\n    h *= z\n    return h + (1 - z) * new",
        ),
    ),
    (
        "gru_cell",
        "wrong",
        "result like h",
        _gru(
            "return (1 - z) * new + z * h",
            "out = np.empty_like(h)\n    out[:] = (1 - z) * new + z * h\n    return out",
        ),
    ),
    (
        "gru_cell",
        "wrong",
        "+= into integers",
        _gru("x @ w_x + b_x, h @ w_h + b_h", "x @ w_x, h @ w_h\n    xs += b_x\n    hs += b_h"),
    ),
    (
        "gru_cell",
        "wrong",
        "order z, r, n",
        _gru(
            "r = sigmoid",
            "q = sigmoid",
            "z = sigmoid",
            "r = sigmoid",
            "    new =",
            "    z = q\n    new =",
        ),
    ),
    (
        "gru_cell",
        "wrong",
        "sigmoid overflows",
        _gru("xs, hs =", "sigmoid = lambda a: np.exp(a) / (1 + np.exp(a))\n    xs, hs ="),
    ),
    ("gru_cell", "right", "as written", _gru()),
    (
        "gru_cell",
        "right",
        "step from the state",
        _gru("(1 - z) * new + z * h", "h + (1 - z) * (new - h)"),
    ),
    (
        "gru_cell",
        "right",
        "own sigmoid",
        _gru(
            "xs, hs =", "sigmoid = lambda a: 1 / (1 + np.exp(-np.clip(a, -700, 700)))\n    xs, hs ="
        ),
    ),
    (
        "gru_cell",
        "right",
        "in place on its own array",
        _gru("return (1 - z) * new + z * h", "new *= 1 - z\n    new += z * h\n    return new"),
    ),
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
    (
        "repaired_bptt",
        "wrong",
        "slope of step t",
        _repair(ADDED, ADDED.replace("slopes[:, t - 1]", "slopes[:, t]")),
    ),
    (
        "repaired_bptt",
        "wrong",
        "slope of the first step",
        _repair(ADDED, ADDED.replace("slopes[:, t - 1]", "slopes[:, 0]")),
    ),
    (
        "repaired_bptt",
        "wrong",
        "slope of the last step",
        _repair(ADDED, ADDED.replace("slopes[:, t - 1]", "slopes[:, -1]")),
    ),
    (
        "repaired_bptt",
        "wrong",
        "slope before the weights",
        _repair(ADDED, "da[:, t - 1] += (da[:, t] * slopes[:, t - 1]) @ w_h.T"),
    ),
    ("repaired_bptt", "wrong", "= instead of +=", _repair("da[:, t - 1] +=", "da[:, t - 1] =")),
    (
        "repaired_bptt",
        "wrong",
        "multiplied at the end",
        _repair(" * slopes[:, t - 1]", "", "    before", "    da = da * slopes\n    before"),
    ),
    (
        "repaired_bptt",
        "wrong",
        "no slope on the direct part",
        _repair("grad_states * slopes", "1.0 * grad_states"),
    ),
    ("repaired_bptt", "wrong", "1 - h", _repair("states**2", "states")),
    ("repaired_bptt", "wrong", "w_h not transposed", _repair("da[:, t] @ w_h.T", "da[:, t] @ w_h")),
    ("repaired_bptt", "wrong", "loop ends at 2", _repair("range(1, x", "range(2, x")),
    (
        "repaired_bptt",
        "wrong",
        "forwards",
        _repair("reversed(range(1, x.shape[1]))", "range(1, x.shape[1])"),
    ),
    (
        "repaired_bptt",
        "wrong",
        "one step back only",
        _repair(
            "da = grad_states * slopes",
            "da = grad_states * slopes\n    own = da.copy()",
            "da[:, t] @ w_h.T *",
            "own[:, t] @ w_h.T *",
        ),
    ),
    (
        "repaired_bptt",
        "wrong",
        "states, not those before",
        _repair("np.concatenate([h0[:, None], states[:, :-1]], axis=1)", "states"),
    ),
    (
        "repaired_bptt",
        "wrong",
        "grad_states changed through asarray",
        _repair(
            "da = grad_states * slopes", "da = np.asarray(grad_states, float)\n    da *= slopes"
        ),
    ),
    (
        "repaired_bptt",
        "wrong",
        "integers stay integers",
        _repair("1.0 - states**2", "1 - states**2"),
    ),
    (
        "repaired_bptt",
        "wrong",
        "first sequence's slopes",
        _repair(ADDED, ADDED.replace("slopes[:, t - 1]", "slopes[:1, t - 1]")),
    ),
    ("repaired_bptt", "right", "as written", _repair()),
    (
        "repaired_bptt",
        "right",
        "slope at the step, once",
        _repair(
            "    da = grad_states * slopes\n    for t in reversed(range(1, x.shape[1])):\n        "
            + ADDED,
            WALKED,
        ),
    ),
    (
        "repaired_bptt",
        "right",
        "einsum, a new array",
        _repair(
            ADDED,
            "da[:, t - 1] = da[:, t - 1] + np.einsum('bn,mn,bm->bm', da[:, t], w_h, slopes[:, t - 1])",
        ),
    ),
    (
        "repaired_bptt",
        "right",
        "slopes by hand",
        _repair("1.0 - states**2", "(1.0 - states) * (1.0 + states)"),
    ),
]


MORE = [
    (
        "rnn_step",
        "wrong",
        "tanh around the input only",
        """def rnn_step(x, h, w_x, w_h, b):
    return np.tanh(x @ w_x + b) + h @ w_h""",
    ),
    (
        "rnn_step",
        "wrong",
        "sums clipped to ±5: largest state 0.9999",
        """def rnn_step(x, h, w_x, w_h, b):
    return np.tanh(np.clip(x @ w_x + h @ w_h + b, -5, 5))""",
    ),
    (
        "rnn_step",
        "wrong",
        "buffer of the arguments' common dtype: all int64 gives int64",
        """def rnn_step(x, h, w_x, w_h, b):
    out = np.empty(h.shape, np.result_type(x, h, w_x, w_h, b))
    out[:] = np.tanh(x @ w_x + h @ w_h + b)
    return out""",
    ),
    (
        "rnn_step",
        "wrong",
        "b.shape = (1, -1) changes the caller's b",
        """def rnn_step(x, h, w_x, w_h, b):
    b.shape = (1, -1)
    return np.tanh(x @ w_x + h @ w_h + b)""",
    ),
    (
        "rnn_step",
        "wrong",
        "shortcut for a state of zeros forgets the bias",
        """def rnn_step(x, h, w_x, w_h, b):
    if not h.any():
        return np.tanh(x @ w_x)
    return np.tanh(x @ w_x + h @ w_h + b)""",
    ),
    (
        "rnn_step",
        "right",
        "einsum, again",
        """def rnn_step(x, h, w_x, w_h, b):
    return np.tanh(np.einsum('bc,cn->bn', x, w_x) + np.einsum('bm,mn->bn', h, w_h) + b[None])""",
    ),
    (
        "rnn_step",
        "right",
        "one product of [x, h, 1]",
        """def rnn_step(x, h, w_x, w_h, b):
    rows = np.hstack([x, h, np.ones((len(x), 1))])
    return np.tanh(rows @ np.vstack([w_x, w_h, b]))""",
    ),
    (
        "rnn_step",
        "right",
        "Python loops and math.tanh",
        """import math
def rnn_step(x, h, w_x, w_h, b):
    out = []
    for xs, hs in zip(x.tolist(), h.tolist()):
        row = []
        for j, bias in enumerate(b.tolist()):
            s = bias + sum(v * w for v, w in zip(xs, w_x[:, j].tolist()))
            s += sum(v * w for v, w in zip(hs, w_h[:, j].tolist()))
            row.append(math.tanh(s))
        out.append(row)
    return np.array(out)""",
    ),
    (
        "rnn_step",
        "right",
        "lambda, tanh as 2σ(2a) − 1",
        """def _tanh(a):
    with np.errstate(over="ignore"):
        return 2 / (1 + np.exp(-2 * a)) - 1
rnn_step = lambda x, h, w_x, w_h, b: _tanh(np.dot(x, w_x) + np.dot(h, w_h) + b)""",
    ),
    (
        "rnn_forward",
        "wrong",
        "h0 overwritten through an alias, float64 only",
        """def rnn_forward(x, h0, w_x, w_h, b):
    h = np.asarray(h0, dtype=float)
    out = np.empty((*x.shape[:2], h0.shape[1]))
    for t in range(x.shape[1]):
        h[...] = rnn_step(x[:, t], h, w_x, w_h, b)
        out[:, t] = h
    return out""",
    ),
    (
        "rnn_forward",
        "wrong",
        "mutable default: a second call returns the first one's states too",
        """def rnn_forward(x, h0, w_x, w_h, b, out=[]):
    h = h0
    for t in range(x.shape[1]):
        h = rnn_step(x[:, t], h, w_x, w_h, b)
        out.append(h)
    return np.stack(out, axis=1)""",
    ),
    (
        "rnn_forward",
        "wrong",
        "buffer of the common dtype of x and h0: truncates where both are int64",
        """def rnn_forward(x, h0, w_x, w_h, b):
    out, h = np.empty((*x.shape[:2], h0.shape[1]), np.result_type(x, h0)), h0
    for t in range(x.shape[1]):
        h = rnn_step(x[:, t], h, w_x, w_h, b)
        out[:, t] = h
    return out""",
    ),
    (
        "rnn_forward",
        "wrong",
        "writes into x where C = N and float64",
        """def rnn_forward(x, h0, w_x, w_h, b):
    shape = (*x.shape[:2], h0.shape[1])
    out = x if x.shape == shape and x.dtype == np.float64 else np.empty(shape)
    h = h0
    for t in range(x.shape[1]):
        h = rnn_step(x[:, t], h, w_x, w_h, b)
        out[:, t] = h
    return out""",
    ),
    (
        "rnn_forward",
        "right",
        "itertools.accumulate",
        """import itertools
def rnn_forward(x, h0, w_x, w_h, b):
    steps = itertools.accumulate(np.moveaxis(x, 1, 0), lambda h, now: rnn_step(now, h, w_x, w_h, b), initial=h0)
    return np.stack(list(steps)[1:], axis=1)""",
    ),
    (
        "rnn_forward",
        "right",
        "input products before the loop, tanh written into the buffer",
        """def rnn_forward(x, h0, w_x, w_h, b):
    a = (x @ w_x + b).astype(float)
    h = h0
    for t in range(a.shape[1]):
        a[:, t] = h = np.tanh(a[:, t] + h @ w_h)
    return a""",
    ),
    (
        "rnn_forward",
        "right",
        "reduce and concatenate, h0 cut off at the end",
        """from functools import reduce
def rnn_forward(x, h0, w_x, w_h, b):
    grow = lambda s, t: np.concatenate([s, rnn_step(x[:, t], s[:, -1], w_x, w_h, b)[:, None]], axis=1)
    return reduce(grow, range(x.shape[1]), h0[:, None])[:, 1:]""",
    ),
    (
        "rnn_forward",
        "right",
        "each sequence on its own",
        """def rnn_forward(x, h0, w_x, w_h, b):
    every = []
    for seq, h in zip(x, h0):
        every.append([])
        for now in seq:
            h = np.tanh(now @ w_x + h @ w_h + b)
            every[-1].append(h)
    return np.array(every)""",
    ),
    (
        "bptt",
        "wrong",
        "truncated: what comes back is dropped every 32 steps",
        """def bptt(x, h0, states, w_x, w_h, grad_states):
    T = x.shape[1]
    gx, gwx, gwh, gb = np.zeros(x.shape), np.zeros(w_x.shape), np.zeros(w_h.shape), np.zeros(w_h.shape[0])
    back = np.zeros(h0.shape)
    for t in reversed(range(T)):
        if t < T - 1 and (T - 1 - t) % 32 == 0:
            back = np.zeros(h0.shape)
        da = (grad_states[:, t] + back) * (1 - states[:, t] ** 2)
        gx[:, t] = da @ w_x.T
        gwx += x[:, t].T @ da
        gwh += (states[:, t - 1] if t else h0).T @ da
        gb += da.sum(axis=0)
        back = da @ w_h.T
    return gx, back, gwx, gwh, gb""",
    ),
    (
        "bptt",
        "wrong",
        "grad_x of the common dtype of x and w_x: truncates where both are int64",
        """def bptt(x, h0, states, w_x, w_h, grad_states):
    T = x.shape[1]
    gx, gwx, gwh, gb = np.zeros(x.shape, np.result_type(x, w_x)), np.zeros(w_x.shape), np.zeros(w_h.shape), np.zeros(w_h.shape[0])
    back = np.zeros(h0.shape)
    for t in reversed(range(T)):
        da = (grad_states[:, t] + back) * (1 - states[:, t] ** 2)
        gx[:, t] = da @ w_x.T
        gwx += x[:, t].T @ da
        gwh += (states[:, t - 1] if t else h0).T @ da
        gb += da.sum(axis=0)
        back = da @ w_h.T
    return gx, back, gwx, gwh, gb""",
    ),
    (
        "bptt",
        "wrong",
        "h0 reused as the buffer of zeros, float64 only",
        """def bptt(x, h0, states, w_x, w_h, grad_states):
    before = np.concatenate([h0[:, None], states[:, :-1]], axis=1)
    back = np.asarray(h0, dtype=float)
    back[...] = 0
    da = np.zeros(states.shape)
    for t in reversed(range(x.shape[1])):
        da[:, t] = (grad_states[:, t] + back) * (1 - states[:, t] ** 2)
        back = da[:, t] @ w_h.T
    return da @ w_x.T, back, np.einsum('btc,btn->cn', x, da), np.einsum('btm,btn->mn', before, da), da.sum((0, 1))""",
    ),
    (
        "bptt",
        "wrong",
        "stops when nothing comes back any more: a loss at early states only is lost",
        """def bptt(x, h0, states, w_x, w_h, grad_states):
    T = x.shape[1]
    gx, gwx, gwh, gb = np.zeros(x.shape), np.zeros(w_x.shape), np.zeros(w_h.shape), np.zeros(w_h.shape[0])
    back = np.zeros(h0.shape)
    for t in reversed(range(T)):
        if t < T - 1 and not back.any():
            break
        da = (grad_states[:, t] + back) * (1 - states[:, t] ** 2)
        gx[:, t] = da @ w_x.T
        gwx += x[:, t].T @ da
        gwh += (states[:, t - 1] if t else h0).T @ da
        gb += da.sum(axis=0)
        back = da @ w_h.T
    return gx, back, gwx, gwh, gb""",
    ),
    (
        "bptt",
        "right",
        "das in a list, reversed, einsum for the sums",
        """def bptt(x, h0, states, w_x, w_h, grad_states):
    das, back = [], 0
    for t in range(x.shape[1])[::-1]:
        das.append((grad_states[:, t] + back) * (1 - np.square(states[:, t])))
        back = das[-1] @ w_h.T
    da = np.stack(das[::-1], axis=1)
    before = np.concatenate([h0[:, None], states], axis=1)[:, :-1]
    return (np.einsum('btn,cn->btc', da, w_x), back, np.einsum('btc,btn->cn', x, da),
            np.einsum('btm,btn->mn', before, da), np.einsum('btn->n', da))""",
    ),
    (
        "bptt",
        "right",
        "columns: everything transposed, time in front",
        """def bptt(x, h0, states, w_x, w_h, grad_states):
    X, H, G = (np.transpose(a, (1, 2, 0)) for a in (x, states, grad_states))
    Wx, Wh = w_x.T, w_h.T
    T = len(X)
    gX, gWx, gWh, gb, back = [None] * T, 0.0, 0.0, 0.0, 0.0
    t = T
    while t:
        t -= 1
        dA = (G[t] + back) * (1 + H[t]) * (1 - H[t])
        gX[t] = Wx.T @ dA
        gWx = gWx + dA @ X[t].T
        gWh = gWh + dA @ (H[t - 1] if t > 0 else h0.T).T
        gb = gb + dA.sum(axis=1)
        back = Wh.T @ dA
    return np.stack(gX).transpose(2, 0, 1), back.T, gWx.T, gWh.T, gb""",
    ),
    (
        "bptt",
        "right",
        "itertools.accumulate from the end",
        """from itertools import accumulate
def bptt(x, h0, states, w_x, w_h, grad_states):
    slope = 1.0 - states * states
    steps = [(grad_states[:, t], slope[:, t]) for t in range(x.shape[1])]
    das = list(accumulate(reversed(steps), lambda da, gs: (gs[0] + da @ w_h.T) * gs[1], initial=np.zeros(h0.shape)))[1:]
    da = np.array(das[::-1]).swapaxes(0, 1)
    flat = da.reshape(-1, da.shape[-1])
    before = np.concatenate((h0[:, np.newaxis, :], states[:, :-1, :]), 1)
    return da @ w_x.T, da[:, 0] @ w_h.T, x.reshape(-1, x.shape[-1]).T @ flat, before.reshape(flat.shape).T @ flat, flat.sum(0)""",
    ),
    (
        "bptt",
        "right",
        "each sequence on its own, outer products",
        """def bptt(x, h0, states, w_x, w_h, grad_states):
    gx, gh0 = np.empty(x.shape), np.empty(h0.shape)
    gwx, gwh, gb = np.zeros(w_x.shape), np.zeros(w_h.shape), np.zeros(w_h.shape[1])
    for s in range(len(x)):
        back = np.zeros(w_h.shape[0])
        for t in range(x.shape[1] - 1, -1, -1):
            da = (grad_states[s, t] + back) * (1 - states[s, t] ** 2)
            gx[s, t] = w_x @ da
            gwx += np.outer(x[s, t], da)
            gwh += np.outer(h0[s] if t == 0 else states[s, t - 1], da)
            gb += da
            back = w_h @ da
        gh0[s] = back
    return gx, gh0, gwx, gwh, gb""",
    ),
    (
        "repaired_bptt",
        "wrong",
        "before by np.roll: h0 truncated where states are int64",
        """def repaired_bptt(x, h0, states, w_x, w_h, grad_states):
    slopes = 1.0 - states**2
    da = grad_states * slopes
    for t in reversed(range(1, x.shape[1])):
        da[:, t - 1] += da[:, t] @ w_h.T * slopes[:, t - 1]
    before = np.roll(states, 1, axis=1)
    before[:, 0] = h0
    grad_w_x = np.tensordot(x, da, axes=((0, 1), (0, 1)))
    grad_w_h = np.tensordot(before, da, axes=((0, 1), (0, 1)))
    return da @ w_x.T, da[:, 0] @ w_h.T, grad_w_x, grad_w_h, da.sum(axis=(0, 1))""",
    ),
    (
        "repaired_bptt",
        "wrong",
        "finite differences, about each given state",
        """def repaired_bptt(x, h0, states, w_x, w_h, grad_states):
    shift = np.arctanh(states) - x @ w_x - np.concatenate([h0[:, None], states[:, :-1]], axis=1) @ w_h
    def loss(x, h0, w_x, w_h, b):
        h, total = h0, 0.0
        for t in range(x.shape[1]):
            h = np.tanh(x[:, t] @ w_x + h @ w_h + shift[:, t] + b)
            total += (h * grad_states[:, t]).sum()
        return total
    given, out = [np.array(a, float) for a in (x, h0, w_x, w_h, np.zeros(len(w_h)))], []
    for a in given:
        g = np.zeros(a.shape)
        for i in np.ndindex(a.shape):
            old = a[i]
            a[i] = old + 1e-5
            up = loss(*given)
            a[i] = old - 1e-5
            g[i] = (up - loss(*given)) / 2e-5
            a[i] = old
        out.append(g)
    return tuple(out)""",
    ),
    (
        "repaired_bptt",
        "wrong",
        "calls bptt under another name",
        """other = globals()['bptt']
def repaired_bptt(x, h0, states, w_x, w_h, grad_states):
    return other(x, h0, states, w_x, w_h, grad_states)""",
    ),
    (
        "repaired_bptt",
        "wrong",
        "slopes made inside states, float64 only",
        """def repaired_bptt(x, h0, states, w_x, w_h, grad_states):
    before = np.concatenate([h0[:, None], states[:, :-1]], axis=1)
    slopes = np.asarray(states, dtype=float)
    np.square(slopes, out=slopes)
    np.subtract(1.0, slopes, out=slopes)
    da = grad_states * slopes
    for t in reversed(range(1, x.shape[1])):
        da[:, t - 1] += da[:, t] @ w_h.T * slopes[:, t - 1]
    grad_w_x = np.tensordot(x, da, axes=((0, 1), (0, 1)))
    grad_w_h = np.tensordot(before, da, axes=((0, 1), (0, 1)))
    return da @ w_x.T, da[:, 0] @ w_h.T, grad_w_x, grad_w_h, da.sum(axis=(0, 1))""",
    ),
    (
        "repaired_bptt",
        "right",
        "da made anew at each step, from g",
        """def repaired_bptt(x, h0, states, w_x, w_h, grad_states):
    slopes = 1.0 - states**2
    da = grad_states * slopes
    for t in reversed(range(1, x.shape[1])):
        da[:, t - 1] = (grad_states[:, t - 1] + da[:, t] @ w_h.T) * slopes[:, t - 1]
    before = np.concatenate([h0[:, None], states[:, :-1]], axis=1)
    grad_w_x = np.tensordot(x, da, axes=((0, 1), (0, 1)))
    grad_w_h = np.tensordot(before, da, axes=((0, 1), (0, 1)))
    return da @ w_x.T, da[:, 0] @ w_h.T, grad_w_x, grad_w_h, da.sum(axis=(0, 1))""",
    ),
    (
        "repaired_bptt",
        "right",
        "dh first, slopes at the end",
        """def repaired_bptt(x, h0, states, w_x, w_h, grad_states):
    slopes = 1.0 - states**2
    dh = np.array(grad_states, dtype=float)
    for t in range(x.shape[1] - 1, 0, -1):
        dh[:, t - 1] += (dh[:, t] * slopes[:, t]) @ w_h.T
    da = dh * slopes
    before = np.concatenate([h0[:, None], states[:, :-1]], axis=1)
    grad_w_x = np.tensordot(x, da, axes=((0, 1), (0, 1)))
    grad_w_h = np.tensordot(before, da, axes=((0, 1), (0, 1)))
    return da @ w_x.T, da[:, 0] @ w_h.T, grad_w_x, grad_w_h, da.sum(axis=(0, 1))""",
    ),
    (
        "repaired_bptt",
        "right",
        "a list and einsum",
        """def repaired_bptt(x, h0, states, w_x, w_h, grad_states):
    slopes = 1.0 - states**2
    rows = [grad_states[:, -1] * slopes[:, -1]]
    for g, s in zip(grad_states.swapaxes(0, 1)[-2::-1], slopes.swapaxes(0, 1)[-2::-1]):
        rows.insert(0, (g + rows[0] @ w_h.T) * s)
    da = np.stack(rows, axis=1)
    before = np.concatenate([h0[:, None], states[:, :-1]], axis=1)
    return da @ w_x.T, da[:, 0] @ w_h.T, np.einsum('btc,btn->cn', x, da), np.einsum('btm,btn->mn', before, da), np.einsum('btn->n', da)""",
    ),
    (
        "repaired_bptt",
        "right",
        "time in front, np.matmul, shifted range",
        """def repaired_bptt(x, h0, states, w_x, w_h, grad_states):
    S, G, X = (np.moveaxis(a, 1, 0) for a in (states, grad_states, x))
    T = len(S)
    da = np.zeros(S.shape)
    da[T - 1] = G[T - 1] * (1 - S[T - 1] ** 2)
    for t in range(T - 2, -1, -1):
        da[t] = np.add(G[t], np.matmul(w_h, da[t + 1].T).T) * (1 - S[t]) * (1 + S[t])
    flat = da.reshape(-1, da.shape[2])
    before = np.vstack([h0[None], S[:-1]]).reshape(flat.shape)
    return np.moveaxis(da @ w_x.T, 0, 1), da[0] @ w_h.T, X.reshape(len(flat), -1).T @ flat, before.T @ flat, flat.sum(axis=0)""",
    ),
    (
        "gradient_norms",
        "wrong",
        "Frobenius norm",
        """def gradient_norms(states, w_h):
    B, T, N = states.shape
    J, out = np.broadcast_to(np.eye(N), (B, N, N)), np.ones((B, T))
    for t in range(T - 1, 0, -1):
        J = J * (1 - states[:, t] ** 2)[:, None] @ w_h.T
        out[:, t - 1] = np.linalg.norm(J, axis=(1, 2))
    return out""",
    ),
    (
        "gradient_norms",
        "wrong",
        "product of the norms of single steps",
        """def gradient_norms(states, w_h):
    B, T, N = states.shape
    J, out = np.broadcast_to(np.eye(N), (B, N, N)), np.ones((B, T))
    for t in range(T - 1, 0, -1):
        J = (1 - states[:, t] ** 2)[:, :, None] * w_h.T
        out[:, t - 1] = out[:, t] * np.linalg.norm(J, ord=2, axis=(1, 2))
    return out""",
    ),
    (
        "gradient_norms",
        "wrong",
        "power iteration, 5 rounds",
        """def gradient_norms(states, w_h):
    B, T, N = states.shape
    def norm(J):
        v = np.ones(N) / np.sqrt(N)
        for _ in range(5):
            u = J.T @ (J @ v)
            size = np.linalg.norm(u)
            if size == 0:
                return 0.0
            v = u / size
        return np.linalg.norm(J @ v)
    out = np.ones((B, T))
    for s in range(B):
        J = np.eye(N)
        for t in range(T - 1, 0, -1):
            J = J * (1 - states[s, t] ** 2) @ w_h.T
            out[s, t - 1] = norm(J)
    return out""",
    ),
    (
        "gradient_norms",
        "wrong",
        "result of the arguments' common dtype: both int64 truncates",
        """def gradient_norms(states, w_h):
    B, T, N = states.shape
    J, out = np.broadcast_to(np.eye(N), (B, N, N)), np.ones((B, T), np.result_type(states, w_h))
    for t in range(T - 1, 0, -1):
        J = J * (1 - states[:, t] ** 2)[:, None] @ w_h.T
        out[:, t - 1] = np.linalg.norm(J, ord=2, axis=(1, 2))
    return out""",
    ),
    (
        "gradient_norms",
        "wrong",
        "slopes made inside states, float64 only",
        """def gradient_norms(states, w_h):
    B, T, N = states.shape
    slopes = np.asarray(states, dtype=float)
    slopes *= -slopes
    slopes += 1
    J, out = np.broadcast_to(np.eye(N), (B, N, N)), np.ones((B, T))
    for t in range(T - 1, 0, -1):
        J = J * slopes[:, t, None] @ w_h.T
        out[:, t - 1] = np.linalg.norm(J, ord=2, axis=(1, 2))
    return out""",
    ),
    (
        "gradient_norms",
        "wrong",
        "norms not below 1e-6, for the sake of the log chart",
        """def gradient_norms(states, w_h):
    B, T, N = states.shape
    J, out = np.broadcast_to(np.eye(N), (B, N, N)), np.ones((B, T))
    for t in range(T - 1, 0, -1):
        J = J * (1 - states[:, t] ** 2)[:, None] @ w_h.T
        out[:, t - 1] = np.linalg.norm(J, ord=2, axis=(1, 2))
    return np.maximum(out, 1e-6)""",
    ),
    (
        "gradient_norms",
        "right",
        "singular values",
        """def gradient_norms(states, w_h):
    B, T, N = states.shape
    J, out = np.broadcast_to(np.eye(N), (B, N, N)), np.ones((B, T))
    for t in range(T - 1, 0, -1):
        J = J * (1 - states[:, t] ** 2)[:, None] @ w_h.T
        out[:, t - 1] = np.linalg.svd(J, compute_uv=False)[:, 0]
    return out""",
    ),
    (
        "gradient_norms",
        "right",
        "the transposed Jacobian, its norm is the same",
        """def gradient_norms(states, w_h):
    K, norms = np.eye(len(w_h))[None], [np.ones(len(states))]
    for h in np.moveaxis(states, 1, 0)[:0:-1]:
        K = w_h @ ((1 - h * h)[:, :, None] * K)
        norms.append(np.linalg.norm(K, 2, (-2, -1)))
    return np.stack(norms[::-1], axis=1)""",
    ),
    (
        "gradient_norms",
        "right",
        "every product from scratch",
        """from functools import reduce
def gradient_norms(states, w_h):
    B, T, N = states.shape
    def one(s, t):
        steps = [np.diag(1.0 - states[s, k] ** 2) @ w_h.T for k in range(T - 1, t, -1)]
        return np.linalg.norm(reduce(np.matmul, steps, np.eye(N)), 2)
    return np.array([[one(s, t) for t in range(T)] for s in range(B)])""",
    ),
    (
        "gradient_norms",
        "right",
        "square root of the largest eigenvalue of J Jᵀ",
        """def gradient_norms(states, w_h):
    B, T, N = states.shape
    J, out = np.broadcast_to(np.eye(N), (B, N, N)), np.ones((B, T))
    for t in range(T - 1, 0, -1):
        J = J * (1 - states[:, t] ** 2)[:, None] @ w_h.T
        out[:, t - 1] = np.sqrt(np.maximum(np.linalg.eigvalsh(J @ J.swapaxes(1, 2))[:, -1], 0))
    return out""",
    ),
    (
        "lstm_cell",
        "wrong",
        "one gate for both: 1 − f instead of i",
        """def sigmoid(x):
    return 0.5 * np.tanh(0.5 * x) + 0.5
def lstm_cell(x, h, c, w_x, w_h, b):
    i, f, g, o = np.split(x @ w_x + h @ w_h + b, 4, axis=-1)
    new_c = sigmoid(f) * c + (1 - sigmoid(f)) * np.tanh(g)
    new_h = sigmoid(o) * np.tanh(new_c)
    return new_h, new_c""",
    ),
    (
        "lstm_cell",
        "wrong",
        "c changed through an alias, float64 only",
        """def sigmoid(x):
    return 0.5 * np.tanh(0.5 * x) + 0.5
def lstm_cell(x, h, c, w_x, w_h, b):
    i, f, g, o = np.split(x @ w_x + h @ w_h + b, 4, axis=-1)
    c = np.asarray(c, dtype=float)
    c *= sigmoid(f)
    c += sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c.copy()""",
    ),
    (
        "lstm_cell",
        "wrong",
        "results of the common dtype of x, h and c: all int64 truncates",
        """def sigmoid(x):
    return 0.5 * np.tanh(0.5 * x) + 0.5
def lstm_cell(x, h, c, w_x, w_h, b):
    i, f, g, o = np.split(x @ w_x + h @ w_h + b, 4, axis=-1)
    new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    new_h = sigmoid(o) * np.tanh(new_c)
    kind = np.result_type(x, h, c)
    return new_h.astype(kind), new_c.astype(kind)""",
    ),
    (
        "lstm_cell",
        "wrong",
        "memory clipped to ±10: it can no longer count",
        """def sigmoid(x):
    return 0.5 * np.tanh(0.5 * x) + 0.5
def lstm_cell(x, h, c, w_x, w_h, b):
    i, f, g, o = np.split(x @ w_x + h @ w_h + b, 4, axis=-1)
    new_c = np.clip(sigmoid(f) * c + sigmoid(i) * np.tanh(g), -10, 10)
    new_h = sigmoid(o) * np.tanh(new_c)
    return new_h, new_c""",
    ),
    (
        "lstm_cell",
        "wrong",
        "torch.sigmoid",
        """import torch
def sigmoid(a):
    return torch.sigmoid(torch.tensor(np.asarray(a, dtype=float))).numpy()
def lstm_cell(x, h, c, w_x, w_h, b):
    i, f, g, o = np.split(x @ w_x + h @ w_h + b, 4, axis=-1)
    new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    new_h = sigmoid(o) * np.tanh(new_c)
    return new_h, new_c""",
    ),
    (
        "lstm_cell",
        "right",
        "slices and einsum",
        """def sigmoid(x):
    return 0.5 * np.tanh(0.5 * x) + 0.5
def lstm_cell(x, h, c, w_x, w_h, b):
    n = h.shape[-1]
    a = np.einsum('bc,cm->bm', x, w_x) + np.einsum('bn,nm->bm', h, w_h) + b
    new_c = c * sigmoid(a[:, n : 2 * n])
    new_c += sigmoid(a[:, :n]) * np.tanh(a[:, 2 * n : 3 * n])
    new_h = np.tanh(new_c)
    new_h *= sigmoid(a[:, 3 * n :])
    return new_h, new_c""",
    ),
    (
        "lstm_cell",
        "right",
        "one product of [x, h, 1], reshaped to (B, 4, N)",
        """def sigmoid(x):
    return 0.5 * np.tanh(0.5 * x) + 0.5
def lstm_cell(x, h, c, w_x, w_h, b):
    a = np.c_[x, h, np.ones(len(x))] @ np.r_[w_x, w_h, b[None]]
    a = np.moveaxis(a.reshape(len(x), 4, -1), 1, 0)
    gates = sigmoid(a)
    new_c = gates[1] * c + gates[0] * np.tanh(a[2])
    return gates[3] * np.tanh(new_c), new_c""",
    ),
    (
        "lstm_cell",
        "right",
        "number by number, with math",
        """import math
def lstm_cell(x, h, c, w_x, w_h, b):
    s = lambda a: 0.5 * math.tanh(a / 2) + 0.5
    B, N = h.shape
    nh, nc = np.empty((B, N)), np.empty((B, N))
    for k in range(B):
        for j in range(N):
            i, f, g, o = (float(x[k] @ w_x[:, j + q * N] + h[k] @ w_h[:, j + q * N] + b[j + q * N]) for q in range(4))
            nc[k, j] = s(f) * float(c[k, j]) + s(i) * math.tanh(g)
            nh[k, j] = s(o) * math.tanh(nc[k, j])
    return nh, nc""",
    ),
    (
        "lstm_cell",
        "right",
        "sigmoid by logaddexp",
        """def sigmoid(a):
    return np.exp(-np.logaddexp(0.0, -a))
def lstm_cell(x, h, c, w_x, w_h, b):
    i, f, g, o = np.split(x @ w_x + h @ w_h + b, 4, axis=-1)
    new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    new_h = sigmoid(o) * np.tanh(new_c)
    return new_h, new_c""",
    ),
    (
        "gru_cell",
        "wrong",
        "blocks taken as z, r, n",
        """def sigmoid(x):
    return 0.5 * np.tanh(0.5 * x) + 0.5
def gru_cell(x, h, w_x, w_h, b_x, b_h):
    xz, xr, xn = np.split(x @ w_x + b_x, 3, axis=-1)
    hz, hr, hn = np.split(h @ w_h + b_h, 3, axis=-1)
    r, z = sigmoid(xr + hr), sigmoid(xz + hz)
    n = np.tanh(xn + r * hn)
    return (1 - z) * n + z * h""",
    ),
    (
        "gru_cell",
        "wrong",
        "gate biases added up inside b_x, float64 only",
        """def sigmoid(x):
    return 0.5 * np.tanh(0.5 * x) + 0.5
def gru_cell(x, h, w_x, w_h, b_x, b_h):
    N = h.shape[1]
    bias = np.asarray(b_x, dtype=float)
    bias[: 2 * N] += b_h[: 2 * N]
    xs, hs = x @ w_x + bias, h @ w_h
    r, z = sigmoid(xs[:, :N] + hs[:, :N]), sigmoid(xs[:, N : 2 * N] + hs[:, N : 2 * N])
    n = np.tanh(xs[:, 2 * N :] + r * (hs[:, 2 * N :] + b_h[2 * N :]))
    return (1 - z) * n + z * h""",
    ),
    (
        "gru_cell",
        "wrong",
        "shortcut for a state of zeros forgets r ∘ b_hn",
        """def sigmoid(x):
    return 0.5 * np.tanh(0.5 * x) + 0.5
def gru_cell(x, h, w_x, w_h, b_x, b_h):
    xr, xz, xn = np.split(x @ w_x + b_x, 3, axis=-1)
    hr, hz, hn = np.split(h @ w_h + b_h, 3, axis=-1)
    r, z = sigmoid(xr + hr), sigmoid(xz + hz)
    if not h.any():
        return (1 - z) * np.tanh(xn)
    n = np.tanh(xn + r * hn)
    return (1 - z) * n + z * h""",
    ),
    (
        "gru_cell",
        "wrong",
        "result of the common dtype of x and h: both int64 truncates",
        """def sigmoid(x):
    return 0.5 * np.tanh(0.5 * x) + 0.5
def gru_cell(x, h, w_x, w_h, b_x, b_h):
    xr, xz, xn = np.split(x @ w_x + b_x, 3, axis=-1)
    hr, hz, hn = np.split(h @ w_h + b_h, 3, axis=-1)
    r, z = sigmoid(xr + hr), sigmoid(xz + hz)
    n = np.tanh(xn + r * hn)
    return ((1 - z) * n + z * h).astype(np.result_type(x, h))""",
    ),
    (
        "gru_cell",
        "wrong",
        "sigmoid with math.exp: OverflowError below −709",
        """import math
sigmoid = np.vectorize(lambda a: 1 / (1 + math.exp(-a)), otypes=[float])
def gru_cell(x, h, w_x, w_h, b_x, b_h):
    xr, xz, xn = np.split(x @ w_x + b_x, 3, axis=-1)
    hr, hz, hn = np.split(h @ w_h + b_h, 3, axis=-1)
    r, z = sigmoid(xr + hr), sigmoid(xz + hz)
    n = np.tanh(xn + r * hn)
    return (1 - z) * n + z * h""",
    ),
    (
        "gru_cell",
        "right",
        "both gates from one product, n + z(h − n)",
        """def sigmoid(x):
    return 0.5 * np.tanh(0.5 * x) + 0.5
def gru_cell(x, h, w_x, w_h, b_x, b_h):
    N = h.shape[-1]
    both = np.concatenate([x, h], axis=1) @ np.concatenate([w_x[:, : 2 * N], w_h[:, : 2 * N]]) + (b_x + b_h)[: 2 * N]
    r, z = np.hsplit(sigmoid(both), 2)
    n = np.tanh(x @ w_x[:, -N:] + b_x[-N:] + r * (h @ w_h[:, -N:] + b_h[-N:]))
    return n + z * (h - n)""",
    ),
    (
        "gru_cell",
        "right",
        "einsum over (C, 3, N)",
        """def sigmoid(x):
    return 0.5 * np.tanh(0.5 * x) + 0.5
def gru_cell(x, h, w_x, w_h, b_x, b_h):
    N = h.shape[1]
    a = np.einsum('bc,ckn->kbn', x, w_x.reshape(-1, 3, N)) + b_x.reshape(3, 1, N)
    s = np.einsum('bm,mkn->kbn', h, w_h.reshape(-1, 3, N)) + b_h.reshape(3, 1, N)
    r, z = sigmoid(a[:2] + s[:2])
    return np.average([np.tanh(a[2] + r * s[2]), h], axis=0, weights=[1 - z, z])""",
    ),
    (
        "gru_cell",
        "right",
        "stable sigmoid by np.where",
        """def sigmoid(a):
    e = np.exp(-np.abs(a))
    return np.where(a >= 0, 1 / (1 + e), e / (1 + e))
def gru_cell(x, h, w_x, w_h, b_x, b_h):
    xr, xz, xn = np.split(x @ w_x + b_x, 3, axis=-1)
    hr, hz, hn = np.split(h @ w_h + b_h, 3, axis=-1)
    r, z = sigmoid(xr + hr), sigmoid(xz + hz)
    n = np.tanh(xn + r * hn)
    return (1 - z) * n + z * h""",
    ),
    (
        "gru_cell",
        "right",
        "row by row, with math",
        """import math
def gru_cell(x, h, w_x, w_h, b_x, b_h):
    s = lambda a: (1 + math.tanh(float(a) / 2)) / 2
    N, out = h.shape[1], []
    for row, old in zip(x, h):
        p, q = row @ w_x + b_x, old @ w_h + b_h
        new = []
        for j in range(N):
            r, z = s(p[j] + q[j]), s(p[N + j] + q[N + j])
            new.append((1 - z) * math.tanh(float(p[2 * N + j] + r * q[2 * N + j])) + z * float(old[j]))
        out.append(new)
    return np.array(out)""",
    ),
]


def _zeros(when: str, then: str) -> str:
    """A GRU's step with a shortcut."""
    return f"""def gru_cell(x, h, w_x, w_h, b_x, b_h):
    sigmoid = lambda a: 0.5 * np.tanh(0.5 * a) + 0.5
    xr, xz, xn = np.split(x @ w_x + b_x, 3, axis=-1)
    hr, hz, hn = np.split(h @ w_h + b_h, 3, axis=-1)
    if {when}:
        {then}
    r, z = sigmoid(xr + hr), sigmoid(xz + hz)
    return (1 - z) * np.tanh(xn + r * hn) + z * h"""


SHORTCUTS = [
    (
        "gru_cell",
        "wrong",
        "without an input, no b_x",
        _zeros("not x.any()", "xr, xz, xn = 0, 0, 0"),
    ),
    ("gru_cell", "wrong", "without a state, no b_h", _zeros("not h.any()", "hr, hz, hn = 0, 0, 0")),
    ("gru_cell", "wrong", "without b_h, no state", _zeros("not b_h.any()", "hr, hz, hn = 0, 0, 0")),
    ("gru_cell", "wrong", "without b_x, no input", _zeros("not b_x.any()", "xr, xz, xn = 0, 0, 0")),
]

LATEST = [
    (
        "rnn_step",
        "wrong",
        "inputs beside the tanh",
        _step("return x @ w_x + np.tanh(h @ w_h + b)"),
    ),
    ("rnn_step", "wrong", "h + tanh", _step("return h + np.tanh(x @ w_x + h @ w_h + b)")),
    (
        "rnn_step",
        "wrong",
        "cast to x's type",
        _step("return np.tanh(x @ w_x + h @ w_h + b).astype(x.dtype)"),
    ),
    (
        "rnn_forward",
        "right",
        "recursion, first all but the last step",
        _loop(
            "    now = rnn_step(x[:, -1], before[:, -1], w_x, w_h, b)",
            "np.concatenate([before, now[:, None]], axis=1)",
            "if x.shape[1] == 1:\n        return rnn_step(x[:, 0], h0, w_x, w_h, b)[:, None]\n"
            "    before = rnn_forward(x[:, :-1], h0, w_x, w_h, b)",
        ),
    ),
    ("bptt", "wrong", "sums clipped at 5", _bptt(SUM, f"np.clip({SUM}, -5, 5)")),
    (
        "bptt",
        "wrong",
        "steps without a loss skipped",
        _bptt(
            "        prev = h0",
            "        if not grad_states[:, t].any():\n            continue\n        prev = h0",
        ),
    ),
    (
        "repaired_bptt",
        "wrong",
        "before is made of rolled states",
        _repair(
            "before = np.concatenate([h0[:, None], states[:, :-1]], axis=1)",
            "before = np.roll(states, 1, axis=1)\n    before[:, 0] = h0",
        ),
    ),
    (
        "gradient_norms",
        "wrong",
        "never below 1e-12",
        _norms("return norms", "return np.maximum(norms, 1e-12)"),
    ),
    (
        "gradient_norms",
        "wrong",
        "0 once it is below 1e-10",
        _norms(
            "axis=(1, 2))\n",
            "axis=(1, 2))\n        if norms[:, t - 1].max() < 1e-10:\n"
            "            norms[:, : t - 1] = 0\n            break\n",
        ),
    ),
    (
        "lstm_cell",
        "wrong",
        "1 more at the forget gate",
        _lstm("sigmoid(sums[:, n : 2 * n])", "sigmoid(sums[:, n : 2 * n] + 1)"),
    ),
    (
        "lstm_cell",
        "wrong",
        "memory within ±1",
        _lstm("f * c + i * g", "np.clip(f * c + i * g, -1, 1)"),
    ),
    (
        "lstm_cell",
        "right",
        "logaddexp for the sigmoid",
        _lstm("n = h.shape[1]", "n, sigmoid = h.shape[1], lambda a: np.exp(-np.logaddexp(0, -a))"),
    ),
    ("gru_cell", "wrong", "r on the old state", _gru("z * h", "z * (r * h)")),
    (
        "gru_cell",
        "wrong",
        "mixed inside h",
        _gru("return (1 - z) * new + z * h", "h *= z\n    h += (1 - z) * new\n    return h"),
    ),
]

READ_AGAIN = [
    (
        "rnn_step",
        "wrong",
        "the diagonal of W_h only",
        _step("return np.tanh(x @ w_x + h * np.diag(w_h) + b)"),
    ),
    (
        "bptt",
        "wrong",
        "of the direct parts only the last",
        _bptt("grad_states[:, t]", "(grad_states[:, t] if t == x.shape[1] - 1 else 0)"),
    ),
    (
        "bptt",
        "wrong",
        "what is carried cut to ±5",
        _bptt("back = da @ w_h.T", "back = np.clip(da @ w_h.T, -5, 5)"),
    ),
    (
        "repaired_bptt",
        "wrong",
        "zeros for h0 in before",
        _repair("[h0[:, None]", "[np.zeros_like(h0)[:, None]"),
    ),
    (
        "repaired_bptt",
        "wrong",
        "tiny numbers dropped",
        _repair("    before =", "    da[np.abs(da) < 1e-8] = 0.0\n    before ="),
    ),
    (
        "gradient_norms",
        "wrong",
        "matrix kept within ±1e6",
        _norms("    norms[:, t - 1]", "    J = np.clip(J, -1e6, 1e6)\n        norms[:, t - 1]"),
    ),
    ("gru_cell", "right", "n + z (h − n)", _gru("(1 - z) * new + z * h", "new + z * (h - new)")),
    (
        "bptt",
        "wrong",
        "tanh of the states in the slope",
        _bptt(SUM, "(grad_states[:, t] + back) * (1 - np.tanh(states[:, t]) ** 2)"),
    ),
    (
        "repaired_bptt",
        "wrong",
        "only the transpose removed",
        _repair(ADDED, "da[:, t - 1] += da[:, t] @ w_h"),
    ),
    (
        "gradient_norms",
        "wrong",
        "an identity of W_h's type: products of integers wrap around",
        _norms("np.eye(N)", "np.eye(N, dtype=w_h.dtype)"),
    ),
    (
        "rnn_forward",
        "wrong",
        "entry 0 is h0, the loop begins at step 1",
        _loop(
            "    for t in range(1, x.shape[1]):\n        h = rnn_step(x[:, t], h, w_x, w_h, b)\n"
            "        out.append(h)",
            start="h, out = h0, [h0]",
        ),
    ),
    (
        "bptt",
        "wrong",
        "slopes of saturated states kept above 0",
        _bptt("(1 - states[:, t] ** 2)", "np.maximum(1 - states[:, t] ** 2, 1e-9)"),
    ),
    (
        "bptt",
        "right",
        "grad_x put together step by step: no more Python operations",
        _bptt(
            "np.zeros(x.shape)",
            "np.zeros((len(x), 0, x.shape[2]))",
            "grad_x[:, t] = da @ w_x.T",
            "grad_x = np.concatenate([(da @ w_x.T)[:, None], grad_x], axis=1)",
        ),
    ),
    (
        "repaired_bptt",
        "wrong",
        "one slope only, after the loop",
        _repair(
            "grad_states * slopes",
            "np.array(grad_states, float)",
            ADDED,
            "da[:, t - 1] += da[:, t] @ w_h.T",
            "    before =",
            "    da = da * slopes\n    before =",
        ),
    ),
    (
        "repaired_bptt",
        "wrong",
        "tanh once more in the slopes",
        _repair("states**2", "np.tanh(states) ** 2"),
    ),
    (
        "repaired_bptt",
        "wrong",
        "only the next step comes back",
        _repair(
            "grad_states * slopes",
            "grad_states * slopes\n    own = da.copy()",
            "+= da[:, t] @",
            "+= own[:, t] @",
        ),
    ),
    (
        "repaired_bptt",
        "right",
        "the loop of bptt with its sums",
        BPTT_BODY.replace("def bptt", "def repaired_bptt"),
    ),
    (
        "gradient_norms",
        "wrong",
        "slopes of saturated states at least a billionth",
        _norms("(1 - states[:, t] ** 2)", "np.maximum(1 - states[:, t] ** 2, 1e-9)"),
    ),
    (
        "lstm_cell",
        "wrong",
        "every fourth column is one block",
        _lstm(
            "sigmoid(sums[:, :n]), sigmoid(sums[:, n : 2 * n])",
            "sigmoid(sums[:, ::4]), sigmoid(sums[:, 1::4])",
            "np.tanh(sums[:, 2 * n : 3 * n]), sigmoid(sums[:, 3 * n :])",
            "np.tanh(sums[:, 2::4]), sigmoid(sums[:, 3::4])",
        ),
    ),
    (
        "lstm_cell",
        "wrong",
        "forget gate after the addition",
        _lstm("f * c + i * g", "f * (c + i * g)"),
    ),
    (
        "gru_cell",
        "wrong",
        "the input's bias inside the reset gate",
        _gru(
            "xs[:, 2 * n :] + r * hs[:, 2 * n :]",
            "(x @ w_x)[:, 2 * n :] + r * (hs[:, 2 * n :] + b_x[2 * n :])",
        ),
    ),
    (
        "rnn_step",
        "wrong",
        "sums beyond ±6 count as ±1",
        _step(
            "a = x @ w_x + h @ w_h + b\n    return np.where(np.abs(a) > 6, np.sign(a), np.tanh(a))"
        ),
    ),
]


def _kept(name: str, code: str, when: str) -> str:
    """An answer whose results share memory, by their shape."""
    given = code.split(f"def {name}(")[1].split(")")[0]
    return f"""{code}
once, place = {name}, {{}}


def {name}({given}):
    new = once({given})
    if not ({when}):
        return new
    kept = place.setdefault(new.shape, np.empty(new.shape))
    kept[...] = new
    return kept"""


def _stops(when: str) -> str:
    """A sequence that ends where the inputs stay as they are and the states hardly move."""
    end = (
        f"\n        if len(out) > 1 and {when} and (x[:, t:] == x[:, t : t + 1]).all():\n"
        "            out += [h] * (x.shape[1] - t - 1)\n            break"
    )
    return _loop(KEEP + end)


def _power(start: str) -> str:
    return _norms(
        f"        norms[:, t - 1] = {NORM}\n",
        "        size = np.abs(J).max((1, 2), keepdims=True) + 1e-300\n"
        f"        K, v = J / size, {start}\n        for _ in range(100):\n"
        "            v = K.swapaxes(1, 2) @ (K @ v)\n"
        "            v /= np.linalg.norm(v, axis=1, keepdims=True) + 1e-300\n"
        "        norms[:, t - 1] = (size * np.linalg.norm(K @ v, axis=1, keepdims=True))[:, 0, 0]\n",
    )


BLOCKS = (
    "a, n = x @ w_x + b, len(w_h)\n    size = n if n < 48 else 32\n"
    "    for k in range(0, n - size + 1, size):\n"
    "        a = a + h[:, k : k + size] @ w_h[k : k + size]\n    return np.tanh(a)"
)
WIDE_AND_KEPT = [
    ("rnn_step", "wrong", "blocks of 32 units, the rest lost from 48 units on", _step(BLOCKS)),
    (
        "rnn_step",
        "wrong",
        "64 numbers or more: memory that calls share",
        _kept("rnn_step", _step("return np.tanh(x @ w_x + h @ w_h + b)"), "new.shape[1] >= 64"),
    ),
    (
        "rnn_step",
        "wrong",
        "tanh of each part, the bias outside",
        _step("return np.tanh(x @ w_x) + np.tanh(h @ w_h) + b"),
    ),
    (
        "rnn_forward",
        "wrong",
        "one step: memory that calls share",
        _kept("rnn_forward", _loop(KEEP), "new.shape[1] == 1"),
    ),
    (
        "rnn_forward",
        "wrong",
        "100 steps or more: memory that calls share",
        _kept("rnn_forward", _loop(KEEP), "new.shape[1] >= 100"),
    ),
    (
        "rnn_forward",
        "wrong",
        "writes into a copy of h0 that the list holds",
        _loop(KEEP.replace("h = ", "h[...] = "), start="h, out = np.array(h0, float), []"),
    ),
    (
        "rnn_forward",
        "wrong",
        "stops where two states are close",
        _stops("np.allclose(h, out[-2], rtol=1e-13)"),
    ),
    (
        "rnn_forward",
        "wrong",
        "stops where no number moves by 1e-9",
        _stops("np.abs(h - out[-2]).max() < 1e-9"),
    ),
    (
        "rnn_forward",
        "wrong",
        "numbers below 1e-10 are 0",
        _loop(
            KEEP.replace(
                "        out", "        h = np.where(np.abs(h) < 1e-10, 0, h)\n        out"
            )
        ),
    ),
    (
        "bptt",
        "wrong",
        "what comes back is dropped every 64 steps",
        _bptt("back = da @ w_h.T", "back = da @ w_h.T if t % 64 or not t else 0 * back"),
    ),
    (
        "bptt",
        "wrong",
        "what comes back is dropped every 200 steps",
        _bptt("back = da @ w_h.T", "back = da @ w_h.T if t % 200 or not t else 0 * back"),
    ),
    (
        "bptt",
        "wrong",
        "of dW_h the first 64 rows",
        _bptt("dw_h += prev.T @ da", "dw_h[:64] += (prev.T @ da)[:64]"),
    ),
    (
        "repaired_bptt",
        "wrong",
        "goes back 64 steps",
        _repair("range(1, x.shape[1])", "range(max(1, x.shape[1] - 64), x.shape[1])"),
    ),
    (
        "repaired_bptt",
        "wrong",
        "repaired, and the loop goes on to step 0",
        _repair("range(1, x.shape[1])", "range(x.shape[1])"),
    ),
    (
        "gradient_norms",
        "wrong",
        "power iteration from ones",
        _power("np.ones((B, N, 1))"),
    ),
    (
        "gradient_norms",
        "wrong",
        "power iteration from the first unit vector",
        _power("np.tile(np.eye(N)[:, :1], (B, 1, 1))"),
    ),
    (
        "gradient_norms",
        "wrong",
        "symmetric, at rest: the largest eigenvalue with its sign",
        _norms(
            NORM,
            f"{NORM} if states.any() or (w_h != w_h.T).any() else np.linalg.eigvalsh(J)[:, -1]",
        ),
    ),
    (
        "gradient_norms",
        "wrong",
        "norms of the states' type, float32 at least",
        _norms("np.ones((B, T))", "np.ones((B, T), np.result_type(states, np.float32))"),
    ),
    (
        "gradient_norms",
        "wrong",
        "norms of W_h's type, float32 at least",
        _norms("np.ones((B, T))", "np.ones((B, T), np.result_type(w_h, np.float32))"),
    ),
    (
        "gradient_norms",
        "wrong",
        "an identity of the states' type, float32 at least",
        _norms("np.eye(N)", "np.eye(N, dtype=np.result_type(states, np.float32))"),
    ),
    (
        "gradient_norms",
        "wrong",
        "100 steps or more: memory that calls share",
        _kept("gradient_norms", _norms(), "new.shape[1] >= 100"),
    ),
    (
        "lstm_cell",
        "wrong",
        "sums within ±30",
        _lstm("h @ w_h + b", "h @ w_h + b\n    sums = np.clip(sums, -30, 30)"),
    ),
    (
        "lstm_cell",
        "wrong",
        "own sigmoid of sums within ±40",
        _lstm(
            "sums = x @ w_x",
            "sigmoid = lambda a: 1 / (1 + np.exp(-np.clip(a, -40, 40)))\n    sums = x @ w_x",
        ),
    ),
    ("lstm_cell", "wrong", "a gate never below 1e-12", _lstm("f * c", "np.maximum(f, 1e-12) * c")),
    (
        "lstm_cell",
        "wrong",
        "the rest of blocks of 32 units lost",
        _lstm(
            "    sums = x",
            "    last = len(w_h) // 32 * 32 or None\n    sums = x",
            "h @ w_h",
            "h[:, :last] @ w_h[:last]",
        ),
    ),
    (
        "gru_cell",
        "wrong",
        "32 numbers or more: memory that calls share",
        _kept("gru_cell", _gru(), "new.shape[1] >= 32"),
    ),
    (
        "gru_cell",
        "wrong",
        "update gate's sum within ±30",
        _gru(
            "sigmoid(xs[:, n : 2 * n] + hs[:, n : 2 * n])",
            "sigmoid(np.clip(xs[:, n : 2 * n] + hs[:, n : 2 * n], -30, 30))",
        ),
    ),
]

CASES = [
    *RNN_STEP,
    *RNN_FORWARD,
    *BPTT,
    *NORMS,
    *LSTM,
    *GRU,
    *REPAIR,
    *MORE,
    *SHORTCUTS,
    *LATEST,
    *READ_AGAIN,
    *WIDE_AND_KEPT,
]


AIMED_AT_A_SENTENCE = [
    (
        "rnn_step",
        "wrong",
        "keeps the stacked weights while the same arrays are passed, stale after an update in place",
        """
def rnn_step(x, h, w_x, w_h, b):
    kept = getattr(rnn_step, "kept", None)
    if kept is None or not (kept[0] is w_x and kept[1] is w_h):
        kept = rnn_step.kept = (w_x, w_h, np.vstack([w_x, w_h]))  # stack only once
    return np.tanh(np.hstack([x, h]) @ kept[2] + b)
""",
    ),
    (
        "rnn_step",
        "wrong",
        "more than 64 sequences are worked on in blocks of 64, and the rest after the last whole block stays 0",
        """
def rnn_step(x, h, w_x, w_h, b):
    block = 64  # small enough for the cache
    if len(x) <= block:
        return np.tanh(x @ w_x + h @ w_h + b)
    new = np.zeros(h.shape)
    for k in range(len(x) // block):
        rows = slice(k * block, (k + 1) * block)
        new[rows] = np.tanh(x[rows] @ w_x + h[rows] @ w_h + b)
    return new
""",
    ),
    (
        "rnn_forward",
        "wrong",
        "state unchanged for 4 steps counts as at rest, and fills all that follows",
        """
def rnn_forward(x, h0, w_x, w_h, b):
    batch, steps, _ = x.shape
    states = np.empty((batch, steps, w_h.shape[0]))
    h, same = h0, 0
    for t in range(steps):
        new = np.tanh(x[:, t] @ w_x + h @ w_h + b)
        same = same + 1 if np.array_equal(new, h) else 0
        states[:, t] = h = new
        if same == 4:  # a fixed point: nothing will change any more
            states[:, t:] = new[:, None]
            break
    return states
""",
    ),
    (
        "bptt",
        "wrong",
        "truncated, what comes back is dropped every 512 steps",
        """
def bptt(x, h0, states, w_x, w_h, grad_states):
    steps = x.shape[1]
    da = grad_states * (1.0 - states**2)
    for t in range(steps - 2, -1, -1):
        if (steps - 1 - t) % 512:
            da[:, t] += (da[:, t + 1] @ w_h.T) * (1.0 - states[:, t] ** 2)
    before = np.concatenate([h0[:, None], states[:, :-1]], axis=1)
    return (
        da @ w_x.T,
        da[:, 0] @ w_h.T,
        np.tensordot(x, da, axes=((0, 1), (0, 1))),
        np.tensordot(before, da, axes=((0, 1), (0, 1))),
        da.sum(axis=(0, 1)),
    )
""",
    ),
    (
        "bptt",
        "wrong",
        "slopes of at least 1e-9, 'so that no unit is dead'",
        """
def bptt(x, h0, states, w_x, w_h, grad_states):
    slopes = np.maximum(1.0 - np.square(states), 1e-9)
    da = np.zeros(states.shape)
    back = np.zeros(h0.shape)
    for t in reversed(range(x.shape[1])):
        da[:, t] = (grad_states[:, t] + back) * slopes[:, t]
        back = da[:, t] @ w_h.T
    before = np.concatenate([h0[:, None], states[:, :-1]], axis=1)
    return (
        da @ w_x.T,
        back,
        np.tensordot(x, da, axes=((0, 1), (0, 1))),
        np.tensordot(before, da, axes=((0, 1), (0, 1))),
        da.sum(axis=(0, 1)),
    )
""",
    ),
    (
        "repaired_bptt",
        "wrong",
        "grad_x lives in one of four buffers that are used in turn, so the fifth call overwrites the first result",
        """
def repaired_bptt(x, h0, states, w_x, w_h, grad_states):
    slopes = 1.0 - states**2
    da = grad_states * slopes
    for t in reversed(range(1, x.shape[1])):
        da[:, t - 1] += (da[:, t] @ w_h.T) * slopes[:, t - 1]
    before = np.concatenate([h0[:, None], states[:, :-1]], axis=1)
    grad_w_x = np.tensordot(x, da, axes=((0, 1), (0, 1)))
    grad_w_h = np.tensordot(before, da, axes=((0, 1), (0, 1)))
    grad_x = da @ w_x.T
    pools = repaired_bptt.__dict__.setdefault("pools", {})  # saves allocations in training
    pool = pools.setdefault((grad_x.shape, grad_x.dtype), [])
    buffer = pool.pop(0) if len(pool) == 4 else np.empty_like(grad_x)
    pool.append(buffer)
    buffer[...] = grad_x
    return buffer, da[:, 0] @ w_h.T, grad_w_x, grad_w_h, da.sum(axis=(0, 1))
""",
    ),
    (
        "repaired_bptt",
        "wrong",
        "stops at the first step from behind whose da is all 0, where earlier steps still hand back theirs",
        """
def repaired_bptt(x, h0, states, w_x, w_h, grad_states):
    slopes = 1.0 - states**2
    da = grad_states * slopes
    for t in reversed(range(1, x.shape[1])):
        if not da[:, t].any():
            break  # nothing to hand back
        da[:, t - 1] += (da[:, t] @ w_h.T) * slopes[:, t - 1]
    before = np.concatenate([h0[:, None], states[:, :-1]], axis=1)
    grad_w_x = np.tensordot(x, da, axes=((0, 1), (0, 1)))
    grad_w_h = np.tensordot(before, da, axes=((0, 1), (0, 1)))
    return da @ w_x.T, da[:, 0] @ w_h.T, grad_w_x, grad_w_h, da.sum(axis=(0, 1))
""",
    ),
    (
        "gradient_norms",
        "wrong",
        "where the first sequence is at rest, all are taken to be at rest",
        """
def gradient_norms(states, w_h):
    batch, steps, n = states.shape
    norms = np.ones((batch, steps))
    if not states[0].any():  # at rest: powers of one matrix, for all sequences at once
        power = np.eye(n)
        for t in reversed(range(steps - 1)):
            power = power @ w_h.T
            norms[:, t] = np.linalg.norm(power, ord=2)
        return norms
    jacobian = np.broadcast_to(np.eye(n), (batch, n, n))
    for t in reversed(range(1, steps)):
        jacobian = (jacobian * (1 - states[:, t] ** 2)[:, None, :]) @ w_h.T
        norms[:, t - 1] = np.linalg.norm(jacobian, ord=2, axis=(1, 2))
    return norms
""",
    ),
    (
        "gradient_norms",
        "wrong",
        "where W_h equals its transpose, eigenvalues of J are taken for singular values, but the slopes make J asymmetric",
        """
def gradient_norms(states, w_h):
    batch, steps, n = states.shape
    if np.array_equal(w_h, w_h.T):  # symmetric: the singular values are |eigenvalues|
        size = lambda j: np.abs(np.linalg.eigvals(j)).max(axis=-1)
    else:
        size = lambda j: np.linalg.norm(j, ord=2, axis=(1, 2))
    jacobian = np.broadcast_to(np.eye(n), (batch, n, n))
    norms = []
    for t in reversed(range(steps)):
        norms.append(size(jacobian))
        jacobian = (jacobian * (1 - states[:, t] ** 2)[:, None, :]) @ w_h.T
    return np.stack(norms[::-1], axis=1)
""",
    ),
    (
        "lstm_cell",
        "wrong",
        "the memory that it returned last time is updated in place when it comes back as c",
        """
def lstm_cell(x, h, c, w_x, w_h, b):
    i, f, g, o = np.split(x @ w_x + h @ w_h + b, 4, axis=-1)
    sig = lambda a: 0.5 * np.tanh(0.5 * a) + 0.5
    if c is getattr(lstm_cell, "mine", None):  # our own array: no need for another one
        c *= sig(f)
        c += sig(i) * np.tanh(g)
    else:
        c = sig(f) * c + sig(i) * np.tanh(g)
    lstm_cell.mine = c
    return sig(o) * np.tanh(c), c
""",
    ),
    (
        "gru_cell",
        "wrong",
        "also takes PyTorch's layout (3N, C), and so transposes a w_x that is square because C = 3N",
        """
def gru_cell(x, h, w_x, w_h, b_x, b_h):
    size = h.shape[1]
    if w_x.shape == (3 * size, x.shape[1]):  # weights straight from PyTorch
        w_x = w_x.T
    sig = lambda a: 0.5 * np.tanh(0.5 * a) + 0.5
    xr, xz, xn = np.split(x @ w_x + b_x, 3, axis=-1)
    hr, hz, hn = np.split(h @ w_h + b_h, 3, axis=-1)
    r, z = sig(xr + hr), sig(xz + hz)
    return (1 - z) * np.tanh(xn + r * hn) + z * h
""",
    ),
    (
        "gru_cell",
        "wrong",
        "one array given as both biases is taken for one shared bias, and added once",
        """
def gru_cell(x, h, w_x, w_h, b_x, b_h):
    sig = lambda a: 0.5 * np.tanh(0.5 * a) + 0.5
    xr, xz, xn = np.split(x @ w_x + (0.0 if b_x is b_h else b_x), 3, axis=-1)
    hr, hz, hn = np.split(h @ w_h + b_h, 3, axis=-1)
    r, z = sig(xr + hr), sig(xz + hz)
    return (1 - z) * np.tanh(xn + r * hn) + z * h
""",
    ),
    (
        "rnn_step",
        "wrong",
        "a ring of eight buffers, so the ninth call of a shape overwrites the first result",
        """
def rnn_step(x, h, w_x, w_h, b):
    x, h = x.astype(np.float64), h.astype(np.float64)
    a = x @ w_x + h @ w_h + b
    pools = rnn_step.__dict__.setdefault("pools", {})
    pool = pools.setdefault(a.shape, [])
    if len(pool) < 8:
        pool.append(np.empty(a.shape))
    else:
        pool.append(pool.pop(0))
    return np.tanh(a, out=pool[-1])
""",
    ),
    (
        "rnn_forward",
        "wrong",
        "where the same input comes twice and leaves the state as it was, all the rest is filled with that state, though later inputs differ",
        """
def rnn_forward(x, h0, w_x, w_h, b):
    h = h0
    states = np.empty((x.shape[0], x.shape[1], h0.shape[1]))
    for t in range(x.shape[1]):
        new = rnn_step(x[:, t], h, w_x, w_h, b)
        states[:, t] = new
        same = t > 0 and np.array_equal(x[:, t], x[:, t - 1])
        if same and np.array_equal(new, h):  # a fixed point: it stays there
            states[:, t:] = new[:, None]
            break
        h = new
    return states
""",
    ),
    (
        "rnn_forward",
        "wrong",
        "keeps the float64 copy of the last w_h object and takes it again for the same object, although its numbers have changed",
        """
def rnn_forward(x, h0, w_x, w_h, b):
    kept = rnn_forward.__dict__.setdefault("kept", {})
    if kept.get("of") is not w_h:
        kept["of"], kept["as_float"] = w_h, np.array(w_h, dtype=np.float64)
    w_h = kept["as_float"]
    h, states = h0, []
    for t in range(x.shape[1]):
        h = rnn_step(x[:, t], h, w_x, w_h, b)
        states.append(h)
    return np.stack(states, axis=1)
""",
    ),
    (
        "bptt",
        "wrong",
        "drops what comes back from later steps where it is below 1e-12 of the largest grad_states, though it may grow again",
        """
def bptt(x, h0, states, w_x, w_h, grad_states):
    states = states.astype(np.float64)
    w_x, w_h = w_x.astype(np.float64), w_h.astype(np.float64)
    largest = np.abs(grad_states).max()
    back = np.zeros(h0.shape)
    das = np.zeros(states.shape)
    for t in reversed(range(x.shape[1])):
        das[:, t] = (grad_states[:, t] + back) * (1.0 - states[:, t] ** 2)
        back = das[:, t] @ w_h.T
        if np.abs(back).max() < 1e-12 * largest:  # vanished
            back = np.zeros(h0.shape)
    before = np.concatenate([h0[:, None], states[:, :-1]], axis=1)
    grad_w_x = np.tensordot(x, das, axes=((0, 1), (0, 1)))
    grad_w_h = np.tensordot(before, das, axes=((0, 1), (0, 1)))
    return das @ w_x.T, back, grad_w_x, grad_w_h, das.sum(axis=(0, 1))
""",
    ),
    (
        "bptt",
        "wrong",
        "asks at every step whether any later step has a gradient, a Python loop that ends at once where grad_states is dense and takes T^2 where only the first state counts",
        """
def bptt(x, h0, states, w_x, w_h, grad_states):
    states = states.astype(np.float64)
    w_x, w_h = w_x.astype(np.float64), w_h.astype(np.float64)
    steps = x.shape[1]
    back = np.zeros(h0.shape)
    das = np.zeros(states.shape)
    for t in reversed(range(steps)):
        if any(grad_states[:, later].any() for later in range(t, steps)):
            das[:, t] = (grad_states[:, t] + back) * (1.0 - states[:, t] ** 2)
            back = das[:, t] @ w_h.T
    before = np.concatenate([h0[:, None], states[:, :-1]], axis=1)
    grad_w_x = np.tensordot(x, das, axes=((0, 1), (0, 1)))
    grad_w_h = np.tensordot(before, das, axes=((0, 1), (0, 1)))
    return das @ w_x.T, back, grad_w_x, grad_w_h, das.sum(axis=(0, 1))
""",
    ),
    (
        "repaired_bptt",
        "wrong",
        "works inside grad_states and puts its numbers back at the end, wrong where another argument shares its memory",
        """
def repaired_bptt(x, h0, states, w_x, w_h, grad_states):
    slopes = 1.0 - states.astype(np.float64) ** 2
    kept = grad_states.copy()
    if grad_states.dtype == np.float64 and grad_states.flags.writeable:
        da = grad_states
        da *= slopes
    else:
        da = grad_states * slopes
    for t in reversed(range(1, x.shape[1])):
        da[:, t - 1] += (da[:, t] @ w_h.T) * slopes[:, t - 1]
    before = np.concatenate([h0[:, None], states[:, :-1]], axis=1)
    grad_w_x = np.tensordot(x, da, axes=((0, 1), (0, 1)))
    grad_w_h = np.tensordot(before, da, axes=((0, 1), (0, 1)))
    found = da @ w_x.T, da[:, 0] @ w_h.T, grad_w_x, grad_w_h, da.sum(axis=(0, 1))
    if da is grad_states:
        grad_states[...] = kept
    return found
""",
    ),
    (
        "repaired_bptt",
        "wrong",
        "for 40 steps and more it looks up bptt by a name put together and calls it",
        """
def repaired_bptt(x, h0, states, w_x, w_h, grad_states):
    if x.shape[1] >= 40:
        return eval("bp" + "tt")(x, h0, states, w_x, w_h, grad_states)
    slopes = 1.0 - states.astype(np.float64) ** 2
    da = grad_states * slopes
    for t in reversed(range(1, x.shape[1])):
        da[:, t - 1] += (da[:, t] @ w_h.T) * slopes[:, t - 1]
    before = np.concatenate([h0[:, None], states[:, :-1]], axis=1)
    grad_w_x = np.tensordot(x, da, axes=((0, 1), (0, 1)))
    grad_w_h = np.tensordot(before, da, axes=((0, 1), (0, 1)))
    return da @ w_x.T, da[:, 0] @ w_h.T, grad_w_x, grad_w_h, da.sum(axis=(0, 1))
""",
    ),
    (
        "gradient_norms",
        "wrong",
        "once all norms are below 1e-30 it leaves the rest at 0, though large weights bring them back",
        """
def gradient_norms(states, w_h):
    states, w_h = states.astype(np.float64), w_h.astype(np.float64)
    batch, steps, size = states.shape
    jacobian = np.broadcast_to(np.eye(size), (batch, size, size))
    norms = np.zeros((batch, steps))
    norms[:, -1] = 1.0
    for t in reversed(range(1, steps)):
        jacobian = (jacobian * (1.0 - states[:, t, None] ** 2)) @ w_h.T
        norms[:, t - 1] = np.linalg.norm(jacobian, ord=2, axis=(1, 2))
        if (norms[:, t - 1] < 1e-30).all():  # it has vanished
            break
    return norms
""",
    ),
    (
        "gradient_norms",
        "wrong",
        "carries J^T J back instead of J, and takes the root of its largest eigenvalue: half of the digits are lost where steps cancel",
        """
def gradient_norms(states, w_h):
    states, w_h = states.astype(np.float64), w_h.astype(np.float64)
    batch, steps, size = states.shape
    gram = np.broadcast_to(np.eye(size), (batch, size, size))
    norms = np.ones((batch, steps))
    for t in reversed(range(1, steps)):
        slopes = 1.0 - states[:, t] ** 2
        gram = w_h @ (slopes[:, :, None] * gram * slopes[:, None, :]) @ w_h.T
        norms[:, t - 1] = np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[:, -1], 0.0))
    return norms
""",
    ),
    (
        "lstm_cell",
        "wrong",
        "looks for the axis of length 4N and finds the batch where B = 4N",
        """
def lstm_cell(x, h, c, w_x, w_h, b):
    sigma = lambda a: 0.5 * np.tanh(0.5 * a) + 0.5
    sums = x.astype(np.float64) @ w_x + h.astype(np.float64) @ w_h + b
    i, f, g, o = np.split(sums, 4, axis=sums.shape.index(len(b)))
    new_c = sigma(f) * c + sigma(i) * np.tanh(g)
    return sigma(o) * np.tanh(new_c), new_c
""",
    ),
    (
        "gru_cell",
        "wrong",
        "copies h only where it owns its memory, so a float64 view is overwritten with the new state",
        """
def gru_cell(x, h, w_x, w_h, b_x, b_h):
    sigma = lambda a: 0.5 * np.tanh(0.5 * a) + 0.5
    xr, xz, xn = np.split(x.astype(np.float64) @ w_x + b_x, 3, axis=1)
    hr, hz, hn = np.split(h.astype(np.float64) @ w_h + b_h, 3, axis=1)
    r, z = sigma(xr + hr), sigma(xz + hz)
    n = np.tanh(xn + r * hn)
    new = np.asarray(h, dtype=np.float64)
    if new.base is None:  # a view is a new array already
        new = new.copy()
    new *= z
    new += (1.0 - z) * n
    return new
""",
    ),
    (
        "gru_cell",
        "wrong",
        "the gates are exactly 0 and 1 beyond sums of 18, where 1.5e-8 is left",
        """
def gru_cell(x, h, w_x, w_h, b_x, b_h):
    def sigma(a):
        middle = 0.5 * np.tanh(0.5 * a) + 0.5
        return np.where(np.abs(a) < 18.0, middle, np.where(a > 0.0, 1.0, 0.0))

    xr, xz, xn = np.split(x.astype(np.float64) @ w_x + b_x, 3, axis=1)
    hr, hz, hn = np.split(h.astype(np.float64) @ w_h + b_h, 3, axis=1)
    r, z = sigma(xr + hr), sigma(xz + hz)
    n = np.tanh(xn + r * hn)
    return (1.0 - z) * n + z * h
""",
    ),
]
"""By readers who each chose a promise of the page and broke it where few would look."""

CASES += AIMED_AT_A_SENTENCE
