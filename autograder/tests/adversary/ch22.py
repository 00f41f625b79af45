# ruff: noqa: E501  # cases are code in strings, kept on their lines
"""Chapter 22: answers as learners write them, wrong and right (see answers.py)."""

IMPORTS = """
from attend_solutions.flash import tiles
from attend_solutions.linear_attention import expect_pairs
from attend_solutions.recurrence import sigmoid
"""

RECURRENT = """
def retention_recurrent(q, k, v, decay, state=None):
    expect_pairs(q, k, v)
    decay = np.asarray(decay, dtype=float)[..., None, None]
    S = {start}
    rows = []
    for t in {times}:
        {step}
    return {back}
"""
EMPTY = "np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))"
RECUR = {
    "start": f"{EMPTY} if state is None else state",
    "times": "range(q.shape[-2])",
    "step": "S = decay * S + k[..., t, :, None] * v[..., t, None, :]; rows.append((q[..., t, None, :] @ S)[..., 0, :])",
    "back": "np.stack(rows, axis=-2), S",
}


def recurrent(**other):
    return RECURRENT.format(**RECUR | other)


PARALLEL = """
def retention_parallel(q, k, v, decay):
    expect_pairs(q, k, v)
    decay = np.asarray(decay, dtype=float)[..., None, None]
    T = q.shape[-2]
    i, j = np.arange(T)[:, None], np.arange(T)[None, :]
    F = {fade}
    return {out}
"""
PARA = {
    "fade": "np.where(i >= j, decay ** np.maximum(i - j, 0), 0.0)",
    "out": "(F * (q @ np.swapaxes(k, -1, -2))) @ v",
}


def parallel(**other):
    return PARALLEL.format(**PARA | other)


CHUNKED = """
def retention_chunked(q, k, v, decay, chunk=64, state=None):
    expect_pairs(q, k, v)
    rate = np.asarray(decay, dtype=float)[..., None, None]
    S = {start}
    out = []
    for part in tiles(q.shape[-2], chunk):
        a, b, c = q[..., part, :], k[..., part, :], v[..., part, :]
        n = {count}
        i = np.arange(n)[:, None]
        o = {read}
        out.append(o + {inside})
        S = {carry}
    return np.concatenate(out, axis=-2), S
"""
CHUNK = {
    "start": f"{EMPTY} if state is None else state",
    "count": "b.shape[-2]",
    "read": "(rate ** (i + 1) * a) @ S",
    "inside": "retention_parallel(a, b, c, decay)",
    "carry": "rate ** n * S + np.swapaxes(rate ** (n - 1 - i) * b, -1, -2) @ c",
}


def chunked(**other):
    return CHUNKED.format(**CHUNK | other)


GATED = """
def gated_linear_attention(q, k, v, gates, chunk=64, state=None):
    expect_pairs(q, k, v)
    if gates.shape[-2:] != k.shape[-2:]:
        raise ValueError("gates")
    S = {start}
    out = []
    for part in {parts}:
        a, b, c, g = (x[..., part, :] for x in (q, k, v, gates))
        s = {sums}
        f = {fade}
        w = {weights}
        o = {read}
        out.append({add})
        S = {carry}
    return np.concatenate(out, axis=-2), S
"""
GATE = {
    "start": f"{EMPTY} if state is None else state",
    "parts": "tiles(q.shape[-2], chunk)",
    "sums": "np.cumsum(g, axis=-2)",
    "fade": "np.exp(np.minimum(s[..., :, None, :] - s[..., None, :, :], 0))",
    "weights": "np.tril((a[..., :, None, :] * b[..., None, :, :] * f).sum(-1))",
    "read": "(a * np.exp(s)) @ S",
    "add": "o + w @ c",
    "carry": "np.exp(s[..., -1, :])[..., None] * S + np.swapaxes(b * np.exp(s[..., -1:, :] - s), -1, -2) @ c",
}


def gated(**other):
    return GATED.format(**GATE | other)


DELTA = """
def delta_rule_chunked(q, k, v, beta, chunk=64, state=None):
    expect_pairs(q, k, v)
    if beta.shape[-1] != k.shape[-2]:
        raise ValueError("beta")
    S = {start}
    out = []
    for part in {parts}:
        a, b, c, s = q[..., part, :], k[..., part, :], v[..., part, :], beta[..., part]
        n, bt = b.shape[-2], np.swapaxes(b, -1, -2)
        A = {system}
        B = {right}
        U = {solve}
        out.append({read})
        S = {carry}
    return np.concatenate(out, axis=-2), S
"""
RULE = {
    "start": f"{EMPTY} if state is None else state",
    "parts": "tiles(q.shape[-2], chunk)",
    "system": "np.tril(s[..., None] * (b @ bt), -1)",
    "right": "s[..., None] * (c - b @ S)",
    "solve": "np.linalg.solve(np.eye(n) + A, B)",
    "read": "a @ S + np.tril(a @ bt) @ U",
    "carry": "S + bt @ U",
}


def delta(**other):
    return DELTA.format(**RULE | other)


def shift(
    before="np.concatenate([last[..., None, :], x[..., :-1, :]], axis=-2)",
    mixed="mix * x + (1 - mix) * before",
    kept="x[..., -1, :]",
    first="np.zeros(x[..., 0, :].shape)",
):
    return f"""
def token_shift(x, mix, last=None):
    if last is None:
        last = {first}
    before = {before}
    return {mixed}, {kept}
"""


RWKV = """
def rwkv_time_mix(r, k, v, rate, bonus, state=None):
    if state is None:
        nothing = np.zeros((*k.shape[:-2], k.shape[-1]))
        state = np.stack([nothing, nothing, nothing - {start}], axis=-2)
    a, b, m = {rows}
    out = []
    for t in range(k.shape[-2]):
        kt, vt = k[..., t, :], v[..., t, :]
        M = {top}
        e1, e2 = {first}
        out.append({mean})
        N = {next}
        e1, e2 = {second}
        {update}
    return {gate} * np.stack(out, axis=-2), np.stack([a, b, m], axis=-2)
"""
MIX = {
    "start": "np.inf",
    "rows": "np.moveaxis(state, -2, 0)",
    "top": "np.maximum(m, bonus + kt)",
    "first": "np.exp(m - M), np.exp(bonus + kt - M)",
    "mean": "(e1 * a + e2 * vt) / (e1 * b + e2)",
    "next": "np.maximum(m - rate, kt)",
    "second": "np.exp(m - rate - N), np.exp(kt - N)",
    "update": "a, b, m = e1 * a + e2 * vt, e1 * b + e2, N",
    "gate": "sigmoid(r)",
}


def rwkv(**other):
    return RWKV.format(**MIX | other)


LRU = """
def rg_lru(x, forget, admit, rates, state=None):
    log = {log}
    a = np.exp(log)
    w = {wrote}
    h = {start}
    out = []
    for t in range(x.shape[-2]):
        {step}
        out.append(h)
    return np.stack(out, axis=-2), {last}
"""
UNIT = {
    "log": "-8 * np.logaddexp(0, rates) * sigmoid(forget)",
    "wrote": "np.sqrt(1 - a**2) * sigmoid(admit) * x",
    "start": "np.zeros((*x.shape[:-2], x.shape[-1])) if state is None else state",
    "step": "h = a[..., t, :] * h + w[..., t, :]",
    "last": "h",
}


def lru(**other):
    return LRU.format(**UNIT | other)


R, P, K = "retention_recurrent", "retention_parallel", "retention_chunked"
G, D, S = "gated_linear_attention", "delta_rule_chunked", "token_shift"
W, L = "rwkv_time_mix", "rg_lru"
OUTER = "k[..., t, :, None] * v[..., t, None, :]"
READ = "rows.append((q[..., t, None, :] @ S)[..., 0, :])"

WRITTEN = [
    (
        R,
        "wrong",
        "reads, then fades and writes",
        recurrent(step=f"{READ}; S = decay * S + {OUTER}"),
    ),
    (R, "wrong", "fades after reading", recurrent(step=f"S = S + {OUTER}; {READ}; S = decay * S")),
    (R, "wrong", "no decay", recurrent(step=f"S = S + {OUTER}; {READ}")),
    (
        R,
        "wrong",
        "in place on the state",
        recurrent(
            start=f"{EMPTY} if state is None else np.asarray(state, float)",
            step=f"S *= decay; S += {OUTER}; {READ}",
        ),
    ),
    (
        R,
        "wrong",
        "zeros_like an integer outer product",
        recurrent(
            start="np.zeros_like(k[..., 0, :, None] * v[..., 0, None, :]) if state is None else state.copy()",
            step=f"S[...] = decay * S + {OUTER}; {READ}",
        ),
    ),
    (
        R,
        "wrong",
        "the state is not returned faded",
        recurrent(back="np.stack(rows, axis=-2), S / decay"),
    ),
    (R, "wrong", "root of the decay", recurrent(step=f"S = np.sqrt(decay) * S + {OUTER}; {READ}")),
    (R, "wrong", "stacked along the first axis", recurrent(back="np.stack(rows, axis=0), S")),
    (R, "wrong", "an all-zero state taken for none, else ignored", recurrent(start=f"{EMPTY}")),
    (
        R,
        "wrong",
        "transposed memory",
        recurrent(back="np.stack(rows, axis=-2), np.swapaxes(S, -1, -2)"),
    ),
    (
        R,
        "wrong",
        "forgets to fade at the first token when a state is given",
        recurrent(step=f"S = (decay if t else 1) * S + {OUTER}; {READ}"),
    ),
    (R, "right", "usual", recurrent()),
    (
        R,
        "right",
        "einsum",
        recurrent(
            step="S = decay * S + np.einsum('...d,...e->...de', k[..., t, :], v[..., t, :]); rows.append(np.einsum('...d,...de->...e', q[..., t, :], S))"
        ),
    ),
    (
        R,
        "right",
        "start from 0 and broadcasting",
        recurrent(start="0.0 if state is None else state"),
    ),
    (
        R,
        "right",
        "state copied and changed in place",
        recurrent(
            start=f"{EMPTY} if state is None else np.array(state, dtype=float)",
            step=f"S = S * decay; S += {OUTER}; {READ}",
        ),
    ),
    (
        P,
        "wrong",
        "ages transposed",
        parallel(fade="np.where(i <= j, decay ** np.maximum(j - i, 0), 0.0)"),
    ),
    (P, "wrong", "mask by multiplication", parallel(fade="np.tri(T) * decay ** (1.0 * (i - j))")),
    (
        P,
        "wrong",
        "strict mask",
        parallel(fade="np.where(i > j, decay ** np.maximum(i - j, 0), 0.0)"),
    ),
    (
        P,
        "wrong",
        "age from the end",
        parallel(fade="np.where(i >= j, decay ** (T - 1.0 - j), 0.0)"),
    ),
    (P, "wrong", "age from the start", parallel(fade="np.where(i >= j, decay ** (1.0 * i), 0.0)")),
    (
        P,
        "wrong",
        "scores scaled",
        parallel(out="(F * (q @ np.swapaxes(k, -1, -2)) / np.sqrt(q.shape[-1])) @ v"),
    ),
    (P, "wrong", "faded before the mask is applied to v only", parallel(out="F @ v")),
    (
        P,
        "wrong",
        "softmax",
        parallel(
            out="(lambda z: z / z.sum(-1, keepdims=True))(F * np.exp(q @ np.swapaxes(k, -1, -2))) @ v"
        ),
    ),
    (P, "wrong", "k.T", parallel(out="(F * (q @ k.T)) @ v")),
    (
        P,
        "wrong",
        "decay times the product plus mask",
        parallel(fade="np.tril(decay * np.ones((T, T)))"),
    ),
    (P, "right", "usual", parallel()),
    (P, "right", "logs", parallel(fade="np.tril(np.exp(np.log(decay) * np.maximum(i - j, 0)))")),
    (
        P,
        "right",
        "einsum",
        parallel(
            out="np.einsum('...ts,...se->...te', F * np.einsum('...td,...sd->...ts', q, k), v)"
        ),
    ),
    (
        P,
        "right",
        "inf ages",
        parallel(
            fade="decay ** np.where(i >= j, i - j, np.inf) if np.all(decay < 1) else np.tril(decay ** np.maximum(i - j, 0))"
        ),
    ),
    (
        K,
        "wrong",
        "as it was given",
        chunked(carry="np.swapaxes(rate ** (n - 1 - i) * b, -1, -2) @ c"),
    ),
    (
        K,
        "wrong",
        "carried without fading",
        chunked(carry="S + np.swapaxes(rate ** (n - 1 - i) * b, -1, -2) @ c"),
    ),
    (
        K,
        "wrong",
        "faded by the chunk's nominal length",
        chunked(carry="rate ** chunk * S + np.swapaxes(rate ** (n - 1 - i) * b, -1, -2) @ c"),
    ),
    (
        K,
        "wrong",
        "n - i",
        chunked(carry="rate ** n * S + np.swapaxes(rate ** (n - i) * b, -1, -2) @ c"),
    ),
    (
        K,
        "wrong",
        "one power too few",
        chunked(carry="rate ** (n - 1) * S + np.swapaxes(rate ** (n - 1 - i) * b, -1, -2) @ c"),
    ),
    (K, "wrong", "read with i", chunked(read="(rate ** i * a) @ S")),
    (
        K,
        "wrong",
        "adds the new to the old, both faded",
        chunked(carry="rate ** n * (S + np.swapaxes(rate ** (n - 1 - i) * b, -1, -2) @ c)"),
    ),
    (
        K,
        "wrong",
        "whole text at once",
        "def retention_chunked(q, k, v, decay, chunk=64, state=None):\n    if chunk < 1: raise ValueError('chunk')\n    out = retention_parallel(q, k, v, decay)\n    rate = np.asarray(decay, float)[..., None, None]\n    n = k.shape[-2]; i = np.arange(n)[:, None]\n    S = np.swapaxes(rate ** (n - 1 - i) * k, -1, -2) @ v\n    if state is not None:\n        out = out + (rate ** (i + 1) * q) @ state; S = S + rate ** n * state\n    return out, S\n",
    ),
    (
        K,
        "wrong",
        "through the recurrent form",
        "def retention_chunked(q, k, v, decay, chunk=64, state=None):\n    if chunk < 1: raise ValueError('chunk')\n    return retention_recurrent(q, k, v, decay, state)\n",
    ),
    (K, "wrong", "the given state is not used", chunked(start=EMPTY)),
    (K, "right", "usual", chunked()),
    (
        K,
        "right",
        "inside written out",
        chunked(
            inside="(np.tril(rate ** np.maximum(i - i.T, 0)) * (a @ np.swapaxes(b, -1, -2))) @ c"
        ),
    ),
    (
        K,
        "right",
        "einsum for what the chunk adds",
        chunked(
            carry="rate ** n * S + np.einsum('...sd,...se->...de', rate ** (n - 1 - i) * b, c)"
        ),
    ),
    (
        G,
        "wrong",
        "q e^b, k e^-b",
        gated(weights="np.tril((a * np.exp(s)) @ np.swapaxes(b * np.exp(-s), -1, -2))"),
    ),
    (
        G,
        "wrong",
        "exponent not clipped",
        gated(
            fade="np.exp(s[..., :, None, :] - s[..., None, :, :])",
            weights="np.tri(a.shape[-2]) * (a[..., :, None, :] * b[..., None, :, :] * f).sum(-1)",
        ),
    ),
    (G, "wrong", "sum of gates without its own", gated(sums="np.cumsum(g, axis=-2) - g")),
    (
        G,
        "wrong",
        "own gate fades own pair",
        gated(
            fade="np.exp(np.minimum(s[..., :, None, :] - s[..., None, :, :] + g[..., None, :, :], 0))"
        ),
    ),
    (
        G,
        "wrong",
        "state lost",
        gated(carry="np.swapaxes(b * np.exp(s[..., -1:, :] - s), -1, -2) @ c"),
    ),
    (
        G,
        "wrong",
        "state's columns fade",
        gated(
            carry="np.exp(s[..., -1, :])[..., None, :1] * S + np.swapaxes(b * np.exp(s[..., -1:, :] - s), -1, -2) @ c"
        ),
    ),
    (
        G,
        "wrong",
        "keys not faded",
        gated(carry="np.exp(s[..., -1, :])[..., None] * S + np.swapaxes(b, -1, -2) @ c"),
    ),
    (G, "wrong", "sum over the whole text", gated(sums="np.cumsum(gates, axis=-2)[..., part, :]")),
    (
        G,
        "wrong",
        "gates taken for factors",
        gated(sums="np.cumsum(np.log(np.maximum(-g, 1e-9)), axis=-2)"),
    ),
    (G, "wrong", "clipped at -30", gated(sums="np.cumsum(np.maximum(g, -30) * 1.001, axis=-2)")),
    (
        G,
        "wrong",
        "all in one chunk",
        gated(parts="[slice(0, q.shape[-2])] if chunk > 0 else tiles(1, 0)"),
    ),
    (
        G,
        "wrong",
        "chunks of one",
        gated(parts="tiles(q.shape[-2], 1) if chunk > 0 else tiles(1, 0)"),
    ),
    (G, "wrong", "gates summed in place", gated(sums="np.add.accumulate(g, axis=-2, out=g)")),
    (G, "right", "usual", gated()),
    (
        G,
        "right",
        "masked with -inf",
        gated(
            fade="np.exp(np.where(np.tri(a.shape[-2], dtype=bool)[..., None], s[..., :, None, :] - s[..., None, :, :], -np.inf))",
            weights="np.einsum('...td,...sd,...tsd->...ts', a, b, f)",
        ),
    ),
    (
        G,
        "right",
        "state from 0",
        gated(
            start="np.zeros(k.shape[:-2] + (k.shape[-1], v.shape[-1])) + (0 if state is None else state)"
        ),
    ),
    (D, "wrong", "no correction inside the chunk", delta(solve="B")),
    (D, "wrong", "I - A", delta(solve="B - A @ B")),
    (D, "wrong", "I - A solved", delta(solve="np.linalg.solve(np.eye(n) - A, B)")),
    (D, "wrong", "diagonal in A", delta(system="np.tril(s[..., None] * (b @ bt))")),
    (D, "wrong", "beta on columns", delta(system="np.tril(s[..., None, :] * (b @ bt), -1)")),
    (D, "wrong", "queries in A", delta(system="np.tril(s[..., None] * (a @ bt), -1)")),
    (D, "wrong", "values not corrected by the memory", delta(right="s[..., None] * c")),
    (D, "wrong", "beta on values only", delta(right="s[..., None] * c - b @ S")),
    (D, "wrong", "no beta", delta(right="c - b @ S", system="np.tril(b @ bt, -1)")),
    (D, "wrong", "queries see the future", delta(read="a @ S + (a @ bt) @ U")),
    (D, "wrong", "reads the new memory", delta(read="a @ (S + bt @ U)")),
    (
        D,
        "wrong",
        "keys normalised",
        delta(
            system="np.tril(s[..., None] * (b @ bt) / np.maximum((b**2).sum(-1)[..., None], 1e-9), -1)"
        ),
    ),
    (
        D,
        "wrong",
        "state in place",
        delta(
            start=f"{EMPTY} if state is None else np.asarray(state, dtype=float)",
            carry="np.add(S, bt @ U, out=S)",
        ),
    ),
    (D, "right", "usual", delta()),
    (D, "right", "inverse", delta(solve="np.linalg.inv(np.eye(n) + A) @ B")),
    (
        D,
        "right",
        "WY",
        delta(
            right="None",
            solve="(lambda M: M @ (s[..., None] * c) - (M @ (s[..., None] * b)) @ S)(np.linalg.inv(np.eye(n) + A))",
        ),
    ),
    (S, "wrong", "mix swapped", shift(mixed="(1 - mix) * x + mix * before")),
    (
        S,
        "wrong",
        "looks ahead",
        shift(before="np.concatenate([x[..., 1:, :], last[..., None, :]], axis=-2)"),
    ),
    (S, "wrong", "roll", shift(before="np.roll(x, 1, axis=-2)")),
    (
        S,
        "wrong",
        "roll, first row set in place",
        shift(before="np.roll(x, 1, axis=-2); before[..., 0, :] = last"),
    ),
    (S, "wrong", "roll along channels", shift(before="np.roll(x, 1, axis=-1)")),
    (
        S,
        "wrong",
        "returns the mixed token",
        shift(kept="(mix * x + (1 - mix) * before)[..., -1, :]"),
    ),
    (S, "wrong", "returns the token before the last", shift(kept="before[..., -1, :]")),
    (S, "wrong", "keeps an axis", shift(kept="x[..., -1:, :]")),
    (S, "wrong", "adds half of each", shift(mixed="0.5 * x + 0.5 * before")),
    (
        S,
        "wrong",
        "last ignored",
        shift(before="np.concatenate([np.zeros(x[..., :1, :].shape), x[..., :-1, :]], axis=-2)"),
    ),
    (
        S,
        "wrong",
        "concatenated along axis 0",
        shift(before="np.concatenate([last[None], x[:-1]], axis=0)"),
    ),
    (S, "right", "usual", shift()),
    (S, "right", "as a difference", shift(mixed="before + (x - before) * mix")),
    (
        S,
        "right",
        "pad",
        "def token_shift(x, mix, last=None):\n    before = np.pad(x[..., :-1, :] * 1.0, [(0, 0)] * (x.ndim - 2) + [(1, 0), (0, 0)])\n    if last is not None:\n        before[..., 0, :] = last\n    return mix * x + before - mix * before, x[..., -1, :]\n",
    ),
    (W, "wrong", "no maximum", rwkv(top="0 * kt", next="0 * kt", start="np.inf")),
    (W, "wrong", "maximum of the output kept for the state", rwkv(next="M")),
    (
        W,
        "wrong",
        "only the old maximum",
        rwkv(top="np.where(np.isinf(m), 0, m)", next="np.where(np.isinf(m), 0, m - rate)"),
    ),
    (
        W,
        "wrong",
        "bonus minus",
        rwkv(top="np.maximum(m, kt - bonus)", first="np.exp(m - M), np.exp(kt - bonus - M)"),
    ),
    (
        W,
        "wrong",
        "bonus multiplies",
        rwkv(top="np.maximum(m, bonus * kt)", first="np.exp(m - M), np.exp(bonus * kt - M)"),
    ),
    (W, "wrong", "no gate", rwkv(gate="1.0")),
    (W, "wrong", "gate without sigmoid", rwkv(gate="r")),
    (
        W,
        "wrong",
        "rate added",
        rwkv(next="np.maximum(m + rate, kt)", second="np.exp(m + rate - N), np.exp(kt - N)"),
    ),
    (
        W,
        "wrong",
        "weights also get values",
        rwkv(update="a, b, m = e1 * a + e2 * vt, e1 * b + e2 * vt, N"),
    ),
    (W, "wrong", "maximum clipped at 0", rwkv(start="0.0")),
    (
        W,
        "wrong",
        "state's maximum not kept",
        rwkv(update="a, b, m = e1 * a + e2 * vt, e1 * b + e2, np.maximum(m, N)"),
    ),
    (
        W,
        "wrong",
        "means stored",
        rwkv(update="a, b, m = (e1 * a + e2 * vt) / (e1 * b + e2), e1 * b + e2, N"),
    ),
    (W, "right", "usual", rwkv()),
    (
        W,
        "right",
        "rows by index",
        rwkv(
            rows="state[..., 0, :], state[..., 1, :], state[..., 2, :]", gate="1 / (1 + np.exp(-r))"
        ),
    ),
    (
        W,
        "right",
        "logaddexp for weights",
        rwkv(mean="(e1 * a + e2 * vt) * np.exp(-np.log(e1 * b + e2))"),
    ),
    (L, "wrong", "no root", lru(wrote="(1 - a**2) * sigmoid(admit) * x")),
    (L, "wrong", "1 - a", lru(wrote="(1 - a) * sigmoid(admit) * x")),
    (L, "wrong", "root of 1 - a", lru(wrote="np.sqrt(1 - a) * sigmoid(admit) * x")),
    (L, "wrong", "no admit", lru(wrote="np.sqrt(1 - a**2) * x")),
    (L, "wrong", "admit without sigmoid", lru(wrote="np.sqrt(1 - a**2) * admit * x")),
    (L, "wrong", "no 8", lru(log="-np.logaddexp(0, rates) * sigmoid(forget)")),
    (L, "wrong", "paper's sign", lru(log="-8 * np.logaddexp(0, -rates) * sigmoid(forget)")),
    (L, "wrong", "sigmoid of rates", lru(log="-8 * sigmoid(rates) * sigmoid(forget)")),
    (L, "wrong", "1 - sigmoid", lru(log="-8 * np.logaddexp(0, rates) * (1 - sigmoid(forget))")),
    (L, "wrong", "fades input too", lru(step="h = a[..., t, :] * (h + w[..., t, :])")),
    (L, "wrong", "state ignored", lru(start="np.zeros((*x.shape[:-2], x.shape[-1]))")),
    (L, "wrong", "last state of axis 0", lru(last="out[0]")),
    (
        L,
        "wrong",
        "state in place",
        lru(
            start="np.zeros((*x.shape[:-2], x.shape[-1])) if state is None else np.asarray(state, dtype=float)",
            step="h *= a[..., t, :]; h += w[..., t, :]; h = h.copy() if t else h",
        ),
    ),
    (L, "right", "usual", lru()),
    (
        L,
        "right",
        "log1p and division",
        lru(log="-8 * np.log1p(np.exp(rates)) / (1 + np.exp(-forget))"),
    ),
    (L, "right", "(1-a)(1+a)", lru(wrote="((1 - a) * (1 + a)) ** 0.5 * (x * sigmoid(admit))")),
]
CASES = [(name, kind, what, IMPORTS + code) for name, kind, what, code in WRITTEN]

# A second series, written by another hand from the notebook alone.

MORE = """
import functools, itertools
import numpy as np
from attend_solutions.flash import tiles
from attend_solutions.linear_attention import expect_pairs
from attend_solutions.recurrence import sigmoid
"""


def wrong(exercise, what, code):
    CASES.append((exercise, "wrong", what, MORE + code))


def right(exercise, what, code):
    CASES.append((exercise, "right", what, MORE + code))


# --- 22.1
X = "retention_recurrent"
H = """def retention_recurrent(q, k, v, decay, state=None):
    expect_pairs(q, k, v)
    decay = np.asarray(decay, dtype=float)[..., None, None]
"""
Z = """    if state is None:
        state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
"""
wrong(
    X,
    "reads before it writes",
    H
    + Z
    + """    out = []
    for t in range(q.shape[-2]):
        out.append((q[..., t, None, :] @ state)[..., 0, :] + 0 * v[..., t, :])
        state = decay * state + k[..., t, :, None] * v[..., t, None, :]
    return np.stack(out, axis=-2), state
""",
)
wrong(
    X,
    "the new pair fades too: decay * (S + k v)",
    H
    + Z
    + """    out = []
    for t in range(q.shape[-2]):
        state = decay * (state + k[..., t, :, None] * v[..., t, None, :])
        out.append((q[..., t, None, :] @ state)[..., 0, :])
    return np.stack(out, axis=-2), state
""",
)
wrong(
    X,
    "decay forgotten: a plain sum",
    H
    + Z
    + """    out = []
    for t in range(q.shape[-2]):
        state = state + k[..., t, :, None] * v[..., t, None, :] + 0 * decay
        out.append((q[..., t, None, :] @ state)[..., 0, :])
    return np.stack(out, axis=-2), state
""",
)
wrong(
    X,
    "decay ** t instead of decay in each step",
    H
    + Z
    + """    out = []
    for t in range(q.shape[-2]):
        state = decay ** t * state + k[..., t, :, None] * v[..., t, None, :]
        out.append((q[..., t, None, :] @ state)[..., 0, :])
    return np.stack(out, axis=-2), state
""",
)
wrong(
    X,
    "returns the memory as (D_v, D)",
    H
    + """    S = np.zeros((*k.shape[:-2], v.shape[-1], k.shape[-1])) if state is None else np.swapaxes(state, -1, -2)
    out = []
    for t in range(q.shape[-2]):
        S = decay * S + v[..., t, :, None] * k[..., t, None, :]
        out.append((S @ q[..., t, :, None])[..., 0])
    return np.stack(out, axis=-2), S
""",
)
wrong(
    X,
    "a memory that is given does not fade at the first token",
    H
    + Z
    + """    out = []
    for t in range(q.shape[-2]):
        if t > 0:
            state = decay * state
        state = state + k[..., t, :, None] * v[..., t, None, :]
        out.append((q[..., t, None, :] @ state)[..., 0, :])
    return np.stack(out, axis=-2), state
""",
)
wrong(
    X,
    "state *= decay in place, in the given memory",
    H
    + """    if state is None:
        state = np.zeros(np.broadcast_shapes(k.shape[:-2], v.shape[:-2], decay.shape[:-2]) + (k.shape[-1], v.shape[-1]))
    elif state.dtype.kind == "i" or state.shape[:-2] != np.broadcast_shapes(k.shape[:-2], v.shape[:-2], decay.shape[:-2]):
        state = state + 0.0 * decay * (k[..., 0, :, None] * v[..., 0, None, :])
    out = []
    for t in range(q.shape[-2]):
        state *= decay
        state += k[..., t, :, None] * v[..., t, None, :]
        out.append((q[..., t, None, :] @ state)[..., 0, :])
    return np.stack(out, axis=-2), state
""",
)
wrong(
    X,
    "outputs collected in zeros_like(v): integer values truncate",
    H
    + Z
    + """    out = np.zeros_like(v)
    for t in range(q.shape[-2]):
        state = decay * state + k[..., t, :, None] * v[..., t, None, :]
        out[..., t, :] = (q[..., t, None, :] @ state)[..., 0, :]
    return out, state
""",
)
wrong(
    X,
    "works in np.array(state): a memory of integers truncates",
    H
    + """    if state is None:
        S = np.zeros(np.broadcast_shapes(k.shape[:-2], v.shape[:-2], decay.shape[:-2]) + (k.shape[-1], v.shape[-1]))
    else:
        S = np.array(np.broadcast_to(state, np.broadcast_shapes(k.shape[:-2], v.shape[:-2], decay.shape[:-2], state.shape[:-2]) + state.shape[-2:]))
    out = []
    for t in range(q.shape[-2]):
        S[...] = decay * S + k[..., t, :, None] * v[..., t, None, :]
        out.append((q[..., t, None, :] @ S)[..., 0, :])
    return np.stack(out, axis=-2), S
""",
)
wrong(
    X,
    "decay flattened to (H, 1, 1): no decay of two leading axes",
    """def retention_recurrent(q, k, v, decay, state=None):
    expect_pairs(q, k, v)
    decay = np.asarray(decay, dtype=float)
    if decay.ndim:
        decay = decay.reshape(-1, 1, 1)
"""
    + Z
    + """    out = []
    for t in range(q.shape[-2]):
        state = decay * state + k[..., t, :, None] * v[..., t, None, :]
        out.append((q[..., t, None, :] @ state)[..., 0, :])
    return np.stack(out, axis=-2), state
""",
)
wrong(
    X,
    "recursion on the last token, which ends at 3,000",
    H
    + """    if state is None:
        state = np.swapaxes(0.0 * k, -1, -2) @ v
    if q.shape[-2] == 0:
        return np.zeros(np.broadcast_shapes(decay.shape[:-2], (q @ state).shape[:-2]) + (0, v.shape[-1])), state
    before, state = retention_recurrent(q[..., :-1, :], k[..., :-1, :], v[..., :-1, :], decay[..., 0, 0], state)
    state = state * decay + np.einsum("...d,...e->...de", k[..., -1, :], v[..., -1, :])
    return np.concatenate([before, q[..., -1:, :] @ state], axis=-2), state
""",
)
right(
    X,
    "itertools.accumulate, all memories stacked, one einsum",
    H
    + """    first = 0.0 if state is None else state
    pairs = [k[..., t, :, None] * v[..., t, None, :] for t in range(k.shape[-2])]
    every = list(itertools.accumulate(pairs, lambda s, p: decay * s + p, initial=first))[1:]
    every = np.stack([np.broadcast_to(s, every[-1].shape) for s in every], axis=-3)
    return np.einsum("...td,...tde->...te", q, every), every[..., -1, :, :]
""",
)
right(
    X,
    "at once: the matrix of powers, and the memory by powers",
    H
    + """    T = q.shape[-2]
    t = np.arange(T)
    F = np.where(t[:, None] >= t, decay ** abs(t[:, None] - t), 0.0)
    out = (F * (q @ np.swapaxes(k, -1, -2))) @ v
    last = np.swapaxes(decay ** (T - 1 - t)[:, None] * k, -1, -2) @ v
    if state is not None:
        out = out + decay ** (t + 1)[:, None] * (q @ state)
        last = last + decay ** T * state
    return out, last
""",
)
right(
    X,
    "a list of D rows, each carried by itself",
    H
    + """    D, T = k.shape[-1], k.shape[-2]
    rows = [0.0 if state is None else state[..., d, :] for d in range(D)]
    g = decay[..., 0]
    outs = []
    for t in range(T):
        rows = [g * row + k[..., t, d, None] * v[..., t, :] for d, row in enumerate(rows)]
        outs.append(sum(q[..., t, d, None] * row for d, row in enumerate(rows)))
    return np.moveaxis(np.array(outs), 0, -2), np.moveaxis(np.array(rows), 0, -2)
""",
)

# --- 22.2
X = "retention_parallel"
H = """def retention_parallel(q, k, v, decay):
    expect_pairs(q, k, v)
    decay = np.asarray(decay, dtype=float)[..., None, None]
    T = q.shape[-2]
    age = np.arange(T)[:, None] - np.arange(T)
"""
E = "    return (F * (q @ np.swapaxes(k, -1, -2))) @ v\n"
wrong(X, "no causal mask: decay ** |t - s|", H + "    F = decay ** np.abs(age)\n" + E)
wrong(
    X,
    "tril(..., -1): a token does not read its own pair",
    H + "    F = np.tril(decay ** np.maximum(age, 0), -1)\n" + E,
)
wrong(
    X,
    "transposed: each token reads the future",
    H + "    F = np.triu(decay ** np.maximum(-age, 0))\n" + E,
)
wrong(
    X, "one power too many: t - s + 1", H + "    F = np.tril(decay ** np.maximum(age + 1, 0))\n" + E
)
wrong(
    X,
    "rows of F normalised to sum 1",
    H + "    F = np.tril(decay ** np.maximum(age, 0))\n    F = F / F.sum(-1, keepdims=True)\n" + E,
)
wrong(
    X,
    "mask forgotten for the clipped part: ones above the diagonal",
    H + "    F = decay ** np.maximum(age, 0)\n" + E,
)
wrong(
    X,
    "power above the diagonal times a mask of 0: inf * 0 in long texts",
    H + "    F = decay ** age * np.tril(np.ones((T, T)))\n" + E,
)
wrong(
    X,
    "q γ^t times k γ^-t: overflows in long texts",
    H
    + """    place = np.arange(T)[:, None]
    return np.tril((q * decay ** place) @ np.swapaxes(k * decay ** -place, -1, -2)) @ v
""",
)
wrong(
    X,
    "logarithm written into decay's own numbers",
    """def retention_parallel(q, k, v, decay):
    expect_pairs(q, k, v)
    decay = np.asarray(decay, dtype=float)[..., None, None]
    np.log(decay, out=decay)
    T = q.shape[-2]
    age = np.arange(T)[:, None] - np.arange(T)
    F = np.tril(np.exp(decay * np.maximum(age, 0)))
"""
    + E,
)
wrong(
    X,
    "faded scores written back into integer scores",
    H
    + """    scores = q @ np.swapaxes(k, -1, -2)
    F = np.tril(decay ** np.maximum(age, 0))
    if np.broadcast_shapes(scores.shape, F.shape) == scores.shape:
        scores[...] = scores * F
    else:
        scores = scores * F
    return scores @ v
""",
)
right(
    X,
    "exp of logs with -inf above the diagonal, four-operand einsum",
    H
    + """    L = np.where(age >= 0, np.log(decay) * np.maximum(age, 0), -np.inf)
    return np.einsum("...td,...sd,...ts,...se->...te", q, k, np.exp(L), v)
""",
)
right(
    X,
    "F by rows: each row is the one before, faded, and a new 1",
    H
    + """    rows, row = [], np.zeros(decay.shape[:-2] + (T,))
    for t in range(T):
        row = row * decay[..., 0]
        row = row + np.eye(T)[t]
        rows.append(row)
    F = np.stack(rows, axis=-2)
"""
    + E,
)
right(
    X,
    "list of tokens, each a weighted sum over its past",
    H
    + """    out = []
    for t in range(T):
        w = decay[..., 0] ** np.arange(t, -1, -1) * (k[..., : t + 1, :] @ q[..., t, :, None])[..., 0]
        out.append((w[..., None, :] @ v[..., : t + 1, :])[..., 0, :])
    return np.stack(out, -2)
""",
)
right(
    X,
    "F as the inverse of I - γ shift",
    H
    + """    F = np.linalg.inv(np.eye(T) - decay * np.eye(T, k=-1))
"""
    + E,
)

# --- 22.3
X = "retention_chunked"
H = """def retention_chunked(q, k, v, decay, chunk=64, state=None):
    expect_pairs(q, k, v)
    rate = np.asarray(decay, dtype=float)[..., None, None]
    if state is None:
        state = np.swapaxes(0.0 * k, -1, -2) @ v
    outputs = []
    for part in tiles(q.shape[-2], chunk):
        asked, keys, values = q[..., part, :], k[..., part, :], v[..., part, :]
        n = keys.shape[-2]
        place = np.arange(n)[:, None]
        inside = retention_parallel(asked, keys, values, decay)
"""
E = "    return np.concatenate(outputs, axis=-2), state\n"


def body(read="rate ** (place + 1)", left="rate ** n * state", write="rate ** (n - 1 - place)"):
    return f"""        outputs.append(({read} * asked) @ state + inside)
        state = {left} + np.swapaxes({write} * keys, -1, -2) @ values
"""


wrong(X, "the suspect, unrepaired", H + body(left="0") + E)
wrong(X, "the old memory added, but not faded", H + body(left="state") + E)
wrong(X, "the old memory faded once a chunk", H + body(left="rate * state") + E)
wrong(X, "reads the memory faded i times", H + body(read="rate ** place") + E)
wrong(
    X, "pairs fade n - i times to the end of the chunk", H + body(write="rate ** (n - place)") + E
)
wrong(
    X,
    "the old memory fades rate ** chunk, also in a shorter last chunk",
    H + body(left="rate ** chunk * state") + E,
)
wrong(
    X,
    "the given memory changed in place",
    """def retention_chunked(q, k, v, decay, chunk=64, state=None):
    expect_pairs(q, k, v)
    rate = np.asarray(decay, dtype=float)[..., None, None]
    parts = tiles(q.shape[-2], chunk)
    lead = np.broadcast_shapes(rate.shape[:-2], k.shape[:-2], v.shape[:-2])
    if state is None:
        state = np.zeros(lead + (k.shape[-1], v.shape[-1]))
    elif state.dtype.kind == "i" or state.shape[:-2] != lead:
        state = np.broadcast_to(state, lead + state.shape[-2:]).astype(float)
    outputs = []
    for part in parts:
        asked, keys, values = q[..., part, :], k[..., part, :], v[..., part, :]
        n = keys.shape[-2]
        place = np.arange(n)[:, None]
        outputs.append((rate ** (place + 1) * asked) @ state + retention_parallel(asked, keys, values, decay))
        state *= rate ** n
        state += np.swapaxes(rate ** (n - 1 - place) * keys, -1, -2) @ values
"""
    + E,
)
wrong(
    X,
    "range(0, T, chunk) into zeros made before: a chunk of -1 gives zeros",
    """def retention_chunked(q, k, v, decay, chunk=64, state=None):
    expect_pairs(q, k, v)
    rate = np.asarray(decay, dtype=float)[..., None, None]
    if state is None:
        state = np.swapaxes(0.0 * k, -1, -2) @ v
    lead = np.broadcast_shapes(rate.shape[:-2], q.shape[:-2], k.shape[:-2], v.shape[:-2], state.shape[:-2])
    out = np.zeros(lead + v.shape[-2:])
    for start in range(0, q.shape[-2], chunk):
        part = slice(start, start + chunk)
        asked, keys, values = q[..., part, :], k[..., part, :], v[..., part, :]
        n = keys.shape[-2]
        place = np.arange(n)[:, None]
        out[..., part, :] = (rate ** (place + 1) * asked) @ state + retention_parallel(asked, keys, values, decay)
        state = rate ** n * state + np.swapaxes(rate ** (n - 1 - place) * keys, -1, -2) @ values
    return out, state
""",
)
wrong(
    X,
    "one table of T × T, whatever the chunk",
    """def retention_chunked(q, k, v, decay, chunk=64, state=None):
    expect_pairs(q, k, v)
    tiles(q.shape[-2], chunk)
    if chunk < 1:
        raise ValueError("chunk")
    rate = np.asarray(decay, dtype=float)[..., None, None]
    n = q.shape[-2]
    place = np.arange(n)[:, None]
    out = retention_parallel(q, k, v, decay)
    last = np.swapaxes(rate ** (n - 1 - place) * k, -1, -2) @ v
    if state is not None:
        out = out + (rate ** (place + 1) * q) @ state
        last = last + rate ** n * state
    return out, last
""",
)
wrong(
    X,
    "a loop over tokens inside the chunks",
    H.split("        n = keys")[0]
    + """        for t in range(keys.shape[-2]):
            state = rate * state + keys[..., t, :, None] * values[..., t, None, :]
            outputs.append(asked[..., t : t + 1, :] @ state)
"""
    + E,
)
right(
    X,
    "chunks padded with zeros and cut by reshape; loop over chunks",
    """def retention_chunked(q, k, v, decay, chunk=64, state=None):
    expect_pairs(q, k, v)
    if chunk < 1:
        raise ValueError("chunk")
    T = q.shape[-2]
    N = -(-T // chunk)
    def cut(x):
        x = np.concatenate([x, np.zeros((*x.shape[:-2], N * chunk - T, x.shape[-1]))], axis=-2)
        return x.reshape(*x.shape[:-2], N, chunk, x.shape[-1])
    Q, K, V = cut(q), cut(k), cut(v)
    g = np.asarray(decay, dtype=float)[..., None, None]
    i = np.arange(chunk)
    inside = retention_parallel(Q, K, V, np.asarray(decay, dtype=float)[..., None])
    writes = np.swapaxes(g[..., None] ** (chunk - 1 - i)[:, None] * K, -1, -2) @ V
    S = 0.0 * writes[..., 0, :, :] if state is None else state
    outs = []
    for c in range(N):
        outs.append(inside[..., c, :, :] + g ** (i + 1)[:, None] * (Q[..., c, :, :] @ S))
        n = min(chunk, T - c * chunk)
        if n == chunk:
            S = g ** n * S + writes[..., c, :, :]
        else:
            S = g ** n * S + np.swapaxes(g ** (n - 1 - i[:n])[:, None] * K[..., c, :n, :], -1, -2) @ V[..., c, :n, :]
    return np.concatenate(outs, axis=-2)[..., :T, :], S
""",
)
right(
    X,
    "the suspect repaired after the fact: old = state, state = … ; state += γ^n old",
    H
    + """        old = state
        outputs.append((rate ** (place + 1) * asked) @ old + inside)
        state = np.swapaxes(rate ** (len(place) - 1 - place) * keys, -1, -2) @ values
        state = state + rate ** len(place) * old
"""
    + E,
)
right(
    X,
    "logs and exp, einsum, functools.reduce over chunks",
    """def retention_chunked(q, k, v, decay, chunk=64, state=None):
    expect_pairs(q, k, v)
    log = np.log(np.asarray(decay, dtype=float))[..., None]
    def step(carry, part):
        outs, S = carry
        a, b, c = q[..., part, :], k[..., part, :], v[..., part, :]
        n = b.shape[-2]
        i = np.arange(n)
        new = np.einsum("...t,...td,...de->...te", np.exp(log * (i + 1)), a, S) + retention_parallel(a, b, c, decay)
        S = np.exp(log * n)[..., None] * S + np.einsum("...t,...td,...te->...de", np.exp(log * (n - 1 - i)), b, c)
        return outs + [new], S
    S = np.swapaxes(0.0 * k, -1, -2) @ v if state is None else state
    outs, S = functools.reduce(step, list(tiles(q.shape[-2], chunk)), ([], S))
    return np.concatenate(outs, axis=-2), S
""",
)
right(
    X,
    "while loop, own inner matrix, own ValueErrors, no tiles",
    """def retention_chunked(q, k, v, decay, chunk=64, state=None):
    if q.shape[-1] != k.shape[-1] or not q.shape[-2] == k.shape[-2] == v.shape[-2] or chunk < 1:
        raise ValueError("shapes or chunk")
    g = np.asarray(decay, dtype=float)[..., None, None]
    S, outs, at, T = state, [], 0, q.shape[-2]
    if S is None:
        S = np.zeros((k.shape[-1], v.shape[-1]))
    while at < T:
        stop = min(at + chunk, T)
        a, b, c = (z[..., at:stop, :].astype(float) for z in (q, k, v))
        age = np.subtract.outer(np.arange(stop - at), np.arange(stop - at))
        w = np.where(age < 0, 0.0, g ** np.where(age < 0, 0, age))
        outs.append(w * (a @ b.swapaxes(-1, -2)) @ c + g ** (1 + age[:, :1]) * (a @ S))
        S = g ** (stop - at) * S + (b * np.swapaxes(w[..., -1:, :], -1, -2)).swapaxes(-1, -2) @ c
        at = stop
    return np.concatenate(outs, -2), S
""",
)

# --- 22.4
X = "gated_linear_attention"
H = """def gated_linear_attention(q, k, v, gates, chunk=64, state=None):
    expect_pairs(q, k, v)
    if gates.shape[-2:] != k.shape[-2:]:
        raise ValueError(f"expected gates of the shape of k, {k.shape}; got {gates.shape}")
    parts = tiles(q.shape[-2], chunk)
    if state is None:
        state = np.swapaxes(0.0 * k, -1, -2) @ v
    out = []
"""


def gla(
    b="np.cumsum(g, axis=-2)",
    ex="np.exp(np.minimum(b[..., :, None, :] - b[..., None, :, :], 0))",
    scores='np.tril(np.einsum("...td,...sd,...tsd->...ts", a, c, E))',
    left="np.swapaxes(np.exp(end), -1, -2) * state",
    write="c * np.exp(end - b)",
    parts="parts",
    pre="",
):
    return f"""    for part in {parts}:
        a, c, d, g = (z[..., part, :] for z in (q, k, v, gates))
        b = {b}
{pre}        E = {ex}
        scores = {scores}
        out.append((a * np.exp(b)) @ state + scores @ d)
        end = b[..., -1:, :]
        state = {left} + np.swapaxes({write}, -1, -2) @ d
    return np.concatenate(out, axis=-2), state
"""


wrong(
    X,
    "product of e^b and e^-b",
    H + gla(ex="0", scores="np.tril((a * np.exp(b)) @ np.swapaxes(c * np.exp(-b), -1, -2))"),
)
wrong(X, "b without the token's own gate", H + gla(b="np.cumsum(g, axis=-2) - g"))
wrong(
    X,
    "gates summed over the whole text, not restarted in a chunk",
    H + gla(b="np.cumsum(gates, axis=-2)[..., part, :]"),
)
wrong(X, "the memory's columns fade, not its rows", H + gla(left="np.exp(end) * state"))
wrong(
    X,
    "the new pair fades by its own gate too",
    H
    + gla(
        ex="np.exp(np.minimum(b[..., :, None, :] - b[..., None, :, :] + g[..., None, :, :], 0))",
        write="c * np.exp(end - b + g)",
    ),
)
wrong(X, "old memory not faded at the end of a chunk", H + gla(left="state"))
wrong(
    X,
    "no clipping, a mask of 0 times inf",
    H
    + gla(
        ex="np.exp(b[..., :, None, :] - b[..., None, :, :]) * np.tril(np.ones(2 * (c.shape[-2],)))[..., None]",
        scores='np.einsum("...td,...sd,...tsd->...ts", a, c, E)',
    ),
)
wrong(
    X,
    "sums of gates clipped at -80, so that products do not overflow",
    H
    + gla(
        b="np.maximum(np.cumsum(g, axis=-2), -80.0)",
        ex="0",
        scores="np.tril((a * np.exp(b)) @ np.swapaxes(c * np.exp(-b), -1, -2))",
    ),
)
wrong(X, "gates summed into themselves", H + gla(b="np.cumsum(g, axis=-2, out=g)"))
wrong(
    X,
    "faded keys written into empty_like(keys): integer keys truncate",
    H
    + gla(
        pre="        faded = np.empty_like(c)\n        faded[...] = c * np.exp(b[..., -1:, :] - b)\n",
        write="faded",
    ),
)
right(
    X,
    "a loop over rows d of the memory",
    H
    + """    for part in parts:
        a, c, d, g = (z[..., part, :].astype(float) for z in (q, k, v, gates))
        b = g.cumsum(-2)
        scores = 0.0
        for r in range(k.shape[-1]):
            gap = b[..., :, None, r] - b[..., None, :, r]
            scores = scores + a[..., :, None, r] * c[..., None, :, r] * np.exp(np.where(gap > 0, 0, gap))
        out.append(np.einsum("...td,...de->...te", a * np.exp(b), state) + np.tril(scores) @ d)
        state = np.exp(b[..., -1, :, None]) * state + np.einsum("...td,...te->...de", c * np.exp(b[..., -1:, :] - b), d)
    return np.concatenate(out, -2), state
""",
)
right(
    X,
    "-inf above the diagonal, then one exp",
    H
    + gla(
        ex="np.exp(np.where(np.tri(c.shape[-2], dtype=bool)[..., None], b[..., :, None, :] - b[..., None, :, :], -np.inf))",
        scores="(a[..., :, None, :] * c[..., None, :, :] * E).sum(-1)",
    ),
)
right(
    X,
    "the memory as pairs before the chunk: D unit keys with the memory's rows as values",
    H
    + """    D = k.shape[-1]
    for part in parts:
        a, c, d, g = (z[..., part, :] * 1.0 for z in (q, k, v, gates))
        lead = np.broadcast_shapes(a.shape[:-2], c.shape[:-2], d.shape[:-2], g.shape[:-2], state.shape[:-2])
        wide = lambda z: np.broadcast_to(z, lead + z.shape[-2:])
        keys = np.concatenate([wide(np.eye(D)), wide(c)], -2)
        vals = np.concatenate([wide(state), wide(d)], -2)
        b = np.cumsum(np.concatenate([wide(np.zeros((D, D))), wide(g)], -2), -2)
        n = c.shape[-2]
        gap = np.minimum(b[..., D:, None, :] - b[..., None, :, :], 0)
        s = np.einsum("...td,...sd,...tsd->...ts", a, keys, np.exp(gap)) * np.tri(n, n + D, D)
        out.append(s @ vals)
        state = np.swapaxes(keys * np.exp(b[..., -1:, :] - b), -1, -2) @ vals
    return np.concatenate(out, -2), state
""",
)
right(
    X,
    "recursion: the first chunk, then the rest (halves)",
    """def gated_linear_attention(q, k, v, gates, chunk=64, state=None):
    expect_pairs(q, k, v)
    if gates.shape[-2:] != k.shape[-2:] or chunk < 1:
        raise ValueError("gates or chunk")
    T = q.shape[-2]
    if T > chunk:
        half = -(-T // chunk) // 2 * chunk
        one, two = slice(None, half), slice(half, None)
        first, state = gated_linear_attention(*(z[..., one, :] for z in (q, k, v, gates)), chunk, state)
        second, state = gated_linear_attention(*(z[..., two, :] for z in (q, k, v, gates)), chunk, state)
        return np.concatenate([first, second], axis=-2), state
    b = np.add.accumulate(np.asarray(gates, float), axis=-2)
    gap = b[..., :, None, :] - b[..., None, :, :]
    s = np.tril(((q[..., :, None, :] * k[..., None, :, :]) * np.exp(np.minimum(gap, 0))).sum(-1))
    o, S = s @ v, np.swapaxes(k * np.exp(b[..., -1:, :] - b), -1, -2) @ v
    if state is None:
        return o, S
    return o + (q * np.exp(b)) @ state, S + np.exp(b[..., -1, :])[..., None] * state
""",
)

# --- 22.5
X = "delta_rule_chunked"
H = """def delta_rule_chunked(q, k, v, beta, chunk=64, state=None):
    expect_pairs(q, k, v)
    if beta.shape[-1] != k.shape[-2]:
        raise ValueError(f"expected {k.shape[-2]} step sizes; got {beta.shape[-1]}")
    parts = tiles(q.shape[-2], chunk)
    if state is None:
        state = np.swapaxes(0.0 * k, -1, -2) @ v
    out = []
"""


def dr(
    be="beta[..., part, None]",
    overlaps="np.tril(be * (c @ ct), -1)",
    rest="be * (d - c @ state)",
    wrote="np.linalg.solve(np.eye(c.shape[-2]) + A, B)",
    read="a @ state + np.tril(a @ ct) @ U",
    left="state = state + ct @ U",
):
    return f"""    for part in parts:
        a, c, d = (z[..., part, :] for z in (q, k, v))
        be = {be}
        ct = np.swapaxes(c, -1, -2)
        A = {overlaps}
        B = {rest}
        U = {wrote}
        out.append({read})
        {left}
    return np.concatenate(out, axis=-2), state
"""


wrong(X, "the diagonal kept in A", H + dr(overlaps="np.tril(be * (c @ ct))"))
wrong(
    X,
    "beta multiplies the columns of A",
    H + dr(overlaps="np.tril(np.swapaxes(be, -1, -2) * (c @ ct), -1)"),
)
wrong(X, "beta on the values only: B = β v - k S", H + dr(rest="be * d - c @ state"))
wrong(X, "what the memory says at k is not subtracted in B", H + dr(rest="be * d"))
wrong(
    X, "reads without the own pair: tril(…, -1)", H + dr(read="a @ state + np.tril(a @ ct, -1) @ U")
)
wrong(
    X,
    "values instead of corrections are read and stored",
    H + dr(read="a @ state + np.tril(a @ ct) @ B", left="state = state + ct @ B"),
)
wrong(X, "two terms of the series instead of the system", H + dr(wrote="B - A @ B + A @ (A @ B)"))
wrong(
    X,
    "state += in the given memory",
    H
    + dr(
        left="state = np.add(state, ct @ U, out=state if state.dtype == float and state.shape == (ct @ U).shape else None)"
    ),
)
wrong(
    X,
    "the system solved token by token, in a loop",
    H
    + dr(
        wrote="np.zeros(np.broadcast_shapes(A.shape[:-2], B.shape[:-2]) + B.shape[-2:])",
        read="(lambda: [U.__setitem__((..., slice(t, t + 1), slice(None)), B[..., t : t + 1, :] - A[..., t : t + 1, :] @ U) for t in range(c.shape[-2])])() and a @ state + np.tril(a @ ct) @ U",
    ),
)
right(
    X,
    "the WY form: two solves at once, with and without S",
    H
    + """    E = v.shape[-1]
    for part in parts:
        a, c, d = (z[..., part, :].astype(float) for z in (q, k, v))
        be = np.asarray(beta, float)[..., part][..., None]
        lead = np.broadcast_shapes(c.shape[:-2], d.shape[:-2], be.shape[:-2])
        both = np.concatenate([np.broadcast_to(be * d, lead + d.shape[-2:]), np.broadcast_to(be * c, lead + c.shape[-2:])], axis=-1)
        n = c.shape[-2]
        both = np.linalg.solve(np.identity(n) + np.tri(n, k=-1) * (be * c @ c.swapaxes(-1, -2)), both)
        u = both[..., :E] - both[..., E:] @ state
        out.append(a @ state + (np.tri(n) * (a @ c.swapaxes(-1, -2))) @ u)
        state = state + c.swapaxes(-1, -2) @ u
    return np.concatenate(out, -2), state
""",
)
wrong(
    X,
    "the inverse, by doubling: (I - A)(I + A²)(I + A⁴)…, whose terms cancel where keys are alike",
    H
    + """    for part in parts:
        a, c, d = (z[..., part, :] for z in (q, k, v))
        n = c.shape[-2]
        A = -np.tril(beta[..., part, None] * np.einsum("...td,...sd->...ts", c, c), -1).astype(float)
        U = beta[..., part, None] * (d - c @ state)
        U = U + A @ U
        size = 2
        while size < n:
            A = A @ A
            U = U + A @ U
            size *= 2
        out.append(a @ state + np.tril(a @ np.swapaxes(c, -1, -2)) @ U)
        state = state + np.swapaxes(c, -1, -2) @ U
    return np.concatenate(out, -2), state
""",
)
right(X, "by np.linalg.inv", H + dr(wrote="np.linalg.inv(A + np.eye(A.shape[-1])) @ B"))
right(
    X,
    "a system for the corrections before beta: (I + tril(KKᵀ, -1) diag β) E = V - K S, then U = β E",
    H
    + dr(
        overlaps="np.tril(c @ ct, -1) * np.swapaxes(be, -1, -2)",
        rest="d - c @ state",
        wrote="be * np.linalg.solve(np.eye(c.shape[-2]) + A, B)",
    ),
)

# --- 22.6
X = "token_shift"
H = "def token_shift(x, mix, last=None):\n"
wrong(
    X,
    "mix the wrong way round",
    H
    + """    before = np.concatenate([np.zeros_like(x[..., :1, :]) if last is None else last[..., None, :], x[..., :-1, :]], axis=-2)
    return (1 - mix) * x + mix * before, x[..., -1, :]
""",
)
wrong(
    X,
    "np.roll: the first token mixes with the last",
    H
    + """    before = np.roll(x, 1, axis=-2)
    if last is not None:
        before = before.astype(float)
        before[..., 0, :] = last
    return mix * x + (1 - mix) * before, x[..., -1, :]
""",
)
wrong(
    X,
    "last is ignored",
    H
    + """    before = np.concatenate([np.zeros_like(x[..., :1, :]), x[..., :-1, :]], axis=-2)
    return mix * x + (1 - mix) * before, x[..., -1, :]
""",
)
wrong(
    X,
    "keeps the mixed token",
    H
    + """    before = np.concatenate([np.zeros_like(x[..., :1, :]) if last is None else last[..., None, :], x[..., :-1, :]], axis=-2)
    y = mix * x + (1 - mix) * before
    return y, y[..., -1, :]
""",
)
wrong(
    X,
    "mixes with the mixed token before: a running mean",
    H
    + """    y, h = [], 0.0 if last is None else last
    for t in range(x.shape[-2]):
        h = mix * x[..., t, :] + (1 - mix) * h
        y.append(h)
    return np.stack(y, axis=-2), x[..., -1, :]
""",
)
wrong(
    X,
    "shifts axis 0: no leading axes",
    H
    + """    before = np.zeros(x.shape)
    before[1:] = x[:-1]
    if last is not None:
        before[0] = last
    return mix * x + (1 - mix) * before, x[-1]
""",
)
wrong(
    X,
    "zeros_like(x): a last of floats truncates beside integer tokens",
    H
    + """    before = np.zeros_like(x)
    before[..., 1:, :] = x[..., :-1, :]
    if last is not None:
        before[..., 0, :] = last
    return mix * x + (1 - mix) * before, x[..., -1, :]
""",
)
wrong(
    X,
    "last *= 1 - mix, in place",
    H
    + """    y = 1.0 * mix * x
    y[..., 1:, :] += (1 - mix) * x[..., :-1, :]
    if last is not None:
        if last.dtype.kind == "i":
            last = last.astype(float)
        last *= 1 - mix
        y[..., 0, :] += last
    return y, x[..., -1, :]
""",
)
wrong(
    X,
    "y = mix * x; y += …: integer tokens and mix, a last of floats",
    H
    + """    y = mix * x
    y[..., 1:, :] += (1 - mix) * x[..., :-1, :]
    if last is not None:
        y[..., 0, :] += (1 - mix) * last
    return y, x[..., -1, :]
""",
)
wrong(
    X,
    "a text of one token is not mixed with last",
    H
    + """    if x.shape[-2] == 1:
        return mix * x, x[..., 0, :]
    before = np.concatenate([np.zeros_like(x[..., :1, :]) if last is None else last[..., None, :], x[..., :-1, :]], axis=-2)
    return mix * x + (1 - mix) * before, x[..., -1, :]
""",
)
right(
    X,
    "np.diff with prepend",
    H
    + """    first = np.zeros(x.shape[:-2] + (1, x.shape[-1])) if last is None else np.expand_dims(last, -2)
    return x - (1 - mix) * np.diff(x, axis=-2, prepend=first), x[..., -1, :].copy()
""",
)
right(
    X,
    "a shift matrix",
    H
    + """    T = x.shape[-2]
    before = np.eye(T, k=-1) @ x
    if last is not None:
        before = before + np.eye(T)[:, :1] * last[..., None, :]
    return before + mix * (x - before), np.take(x, -1, axis=-2)
""",
)
right(
    X,
    "np.pad, row 0 by hand, windows of two",
    H
    + """    pad = [(0, 0)] * (x.ndim - 2) + [(1, 0), (0, 0)]
    both = np.pad(np.asarray(x, dtype=float), pad)
    if last is not None:
        both[..., 0, :] = last
    both = np.lib.stride_tricks.sliding_window_view(both, 2, axis=-2)
    return both[..., 1] * mix + both[..., 0] * (1 - mix), both[..., -1, :, 1]
""",
)
right(
    X,
    "one token after the other, with a helper",
    H
    + """    out, before = [], (np.zeros(x.shape[-1]) if last is None else last)
    for now in np.moveaxis(x, -2, 0):
        out.append(now * mix + before - before * mix)
        before = now
    return np.moveaxis(np.asarray(out), 0, -2), before
""",
)

# --- 22.7
X = "rwkv_time_mix"
H = """def rwkv_time_mix(r, k, v, rate, bonus, state=None):
    if state is None:
        nothing = np.zeros((*k.shape[:-2], k.shape[-1]))
        state = np.stack([nothing, nothing, nothing - np.inf], axis=-2)
    values, weights, largest = np.moveaxis(state, -2, 0)
    out = []
"""


def rw(
    m1="np.maximum(largest, bonus + kt)",
    old1="np.exp(largest - M)",
    new1="np.exp(bonus + kt - M)",
    gate="sigmoid(r[..., t, :])",
    m2="np.maximum(largest - rate, kt)",
    old2="np.exp(largest - rate - M)",
    new2="np.exp(kt - M)",
    put="out.append(y)",
    end="np.stack(out, axis=-2)",
    up="values, weights, largest = old * values + new * vt, old * weights + new, M",
    pre="",
    kt="k[..., t, :]",
):
    return (
        pre
        + f"""    for t in range(k.shape[-2]):
        kt, vt = {kt}, v[..., t, :]
        M = {m1}
        old, new = {old1}, {new1}
        y = {gate} * (old * values + new * vt) / (old * weights + new)
        {put}
        M = {m2}
        old, new = {old2}, {new2}
        {up}
    return {end}, np.stack([values, weights, largest], axis=-2)
"""
    )


wrong(
    X,
    "sums of e^k without the largest exponent",
    """def rwkv_time_mix(r, k, v, rate, bonus, state=None):
    if state is None:
        a = b = np.zeros((*k.shape[:-2], k.shape[-1]))
        m = a
    else:
        a, b, m = np.moveaxis(state, -2, 0)
        a, b = a * np.exp(m), b * np.exp(m)
    out = []
    for t in range(k.shape[-2]):
        e, own = np.exp(k[..., t, :]), np.exp(bonus + k[..., t, :])
        out.append(sigmoid(r[..., t, :]) * (a + own * v[..., t, :]) / (b + own))
        a, b = np.exp(-rate) * a + e * v[..., t, :], np.exp(-rate) * b + e
    return np.stack(out, axis=-2), np.stack([a, b, 0 * b], axis=-2)
""",
)
wrong(
    X,
    "the bonus stays in the state",
    H + rw(m2="np.maximum(largest - rate, bonus + kt)", new2="np.exp(bonus + kt - M)"),
)
wrong(
    X,
    "a new token fades at once: k - w in the state",
    H + rw(m2="np.maximum(largest, kt) - rate", new2="np.exp(kt - rate - M)"),
)
wrong(X, "r without its sigmoid", H + rw(gate="r[..., t, :]"))
wrong(
    X,
    "the old sums fade before the output too",
    H + rw(m1="np.maximum(largest - rate, bonus + kt)", old1="np.exp(largest - rate - M)"),
)
wrong(
    X,
    "largest never sinks; e^-w as a factor of the old sums",
    H + rw(m2="np.maximum(largest, kt)", old2="np.exp(largest - M) * np.exp(-rate)"),
)
wrong(
    X,
    "in place in the rows of the given state",
    H
    + rw(
        up="values *= old; values += new * vt; weights *= old; weights += new; largest[...] = M",
        pre="""    if state.dtype.kind == "i":
        values, weights, largest = np.moveaxis(state.astype(float), -2, 0)
""",
    ),
)
wrong(
    X,
    "one largest for all channels in the output",
    H + rw(m1="np.maximum(largest, bonus + kt).max(axis=-1, keepdims=True)"),
)
wrong(
    X,
    "outputs in zeros_like(v): integer values truncate",
    H + rw(pre="    out = np.zeros_like(v)\n", put="out[..., t, :] = y", end="out"),
)
wrong(X, "keys clipped to ±500", H + rw(kt="np.clip(k[..., t, :], -500, 500)"))
right(
    X,
    "the whole text at once: a table of exponents, a softmax, the state from its last row",
    """def rwkv_time_mix(r, k, v, rate, bonus, state=None):
    T, C = k.shape[-2:]
    if state is None:
        state = np.broadcast_to(np.array([0.0, 0.0, -np.inf])[:, None], (*k.shape[:-2], 3, C))
    a, b, m = (state[..., i, None, :] for i in range(3))
    t, s = np.arange(T)[:, None, None], np.arange(T)[:, None]
    keys = k[..., None, :, :] * 1.0
    e = np.where(s < t, keys - (t - 1 - s) * rate, np.where(s == t, keys + bonus, -np.inf))
    old = m - np.arange(T)[:, None] * rate
    M = np.maximum(old, e.max(axis=-2))
    w, w0 = np.exp(e - M[..., None, :]), np.exp(old - M)
    y = (np.einsum("...tsc,...sc->...tc", w, v) + w0 * a) / (w.sum(-2) + w0 * b)
    e, old = k - (T - 1 - np.arange(T))[:, None] * rate, (m - T * rate)[..., 0, :]
    M = np.maximum(old, e.max(-2))
    w, w0 = np.exp(e - M[..., None, :]), np.exp(old - M)
    S = np.stack([(w * v).sum(-2) + w0 * a[..., 0, :], w.sum(-2) + w0 * b[..., 0, :], M], axis=-2)
    return y / (1 + np.exp(-1.0 * r)), S
""",
)
right(
    X,
    "tanh for the sigmoid, one helper that merges two pairs of sums",
    H
    + """    def merge(a, b, m, v, e):
        M = np.where(m > e, m, e)
        x, y = np.exp(m - M), np.exp(e - M)
        return a * x + v * y, b * x + y, M
    a, b, m = values, weights, largest
    for t in range(k.shape[-2]):
        n, d, _ = merge(a, b, m, v[..., t, :], bonus + k[..., t, :])
        out.append((n / d) * 0.5 * (1 + np.tanh(0.5 * r[..., t, :])))
        a, b, m = merge(a, b, m - rate, v[..., t, :], k[..., t, :] * 1.0)
    return np.stack(out, -2), np.stack((a, b, m), -2)
""",
)
right(
    X,
    "the mean and the log of the weight, turned back into sums at the end",
    H
    + """    with np.errstate(all="ignore"):
        log = np.log(weights) + largest
        mean = np.where(weights > 0, values / np.where(weights > 0, weights, 1), 0.0)
    m = largest
    for t in range(k.shape[-2]):
        kt, vt = k[..., t, :], v[..., t, :]
        total = np.logaddexp(log, bonus + kt)
        out.append(sigmoid(r[..., t, :]) * (mean * np.exp(log - total) + vt * np.exp(bonus + kt - total)))
        new = np.logaddexp(log - rate, kt)
        mean, log = mean * np.exp(log - rate - new) + vt * np.exp(kt - new), new
        m = np.maximum(m - rate, kt)
    weights = np.exp(log - m)
    return np.stack(out, -2), np.stack([mean * weights, weights, m], -2)
""",
)
right(
    X,
    "channels first, preallocated, state as one array",
    H
    + """    y = np.empty(np.broadcast_shapes(r.shape, k.shape, v.shape), dtype=float)
    S = np.array(state, dtype=float)
    for t in range(y.shape[-2]):
        new = np.stack([v[..., t, :], np.ones_like(v[..., t, :])], axis=-2) * 1.0
        e = (k[..., t, :] + bonus)[..., None, :]
        M = np.maximum(S[..., 2:, :], e)
        ab = np.exp(S[..., 2:, :] - M) * S[..., :2, :] + np.exp(e - M) * new
        y[..., t, :] = sigmoid(r[..., t, :]) * ab[..., 0, :] / ab[..., 1, :]
        fall, e = S[..., 2:, :] - rate, k[..., t, None, :]
        M = np.maximum(fall, e)
        S = np.concatenate([np.exp(fall - M) * S[..., :2, :] + np.exp(e - M) * new, M], axis=-2)
    return y, S
""",
)

# --- 22.8
X = "rg_lru"
H = "def rg_lru(x, forget, admit, rates, state=None):\n"


def rg(
    a="np.exp(-8 * np.logaddexp(0, rates) * sigmoid(forget))",
    root="np.sqrt(1 - a ** 2)",
    gate="sigmoid(admit)",
    h="np.zeros((*x.shape[:-2], x.shape[-1])) if state is None else state",
    pre="",
    loop="""    out = []
    for t in range(x.shape[-2]):
        h = a[..., t, :] * h + add[..., t, :]
        out.append(h)
    return np.stack(out, axis=-2), h
""",
):
    return (
        H
        + pre
        + f"""    a = {a}
    add = {root} * {gate} * x
    h = {h}
"""
        + loop
    )


wrong(X, "the input without its root", rg(root="1.0"))
wrong(X, "1 - a instead of the root", rg(root="(1 - a)"))
wrong(X, "the root of 1 - a", rg(root="np.sqrt(1 - a)"))
wrong(X, "admit without its sigmoid", rg(gate="admit"))
wrong(
    X,
    "the sign of the paper: softplus(-rates)",
    rg(a="np.exp(-8 * np.logaddexp(0, -np.asarray(rates)) * sigmoid(forget))"),
)
wrong(
    X,
    "forget and admit swapped",
    rg(a="np.exp(-8 * np.logaddexp(0, rates) * sigmoid(admit))", gate="sigmoid(forget)"),
)
wrong(
    X,
    "the given state changed in place",
    rg(
        h="np.zeros((*x.shape[:-2], x.shape[-1])) if state is None else state.astype(float) if state.dtype.kind == 'i' else state",
        loop="""    out = []
    for t in range(x.shape[-2]):
        h *= a[..., t, :]
        h += add[..., t, :]
        out.append(h.copy())
    return np.stack(out, axis=-2), h
""",
    ),
)
wrong(
    X,
    "softplus written into rates",
    rg(
        pre="""    rates = np.asarray(rates, dtype=float)
    np.logaddexp(0, rates, out=rates)
""",
        a="np.exp(-8 * rates * sigmoid(forget))",
    ),
)
wrong(
    X,
    "at once by dividing by the product of all a: 0/0 for fast channels",
    rg(
        loop="""    p = np.cumprod(a, axis=-2)
    h = p * (h[..., None, :] + np.cumsum(add / p, axis=-2))
    return h, h[..., -1, :]
"""
    ),
)
wrong(
    X,
    "works in np.array(state): a state of integers truncates",
    rg(
        h="np.zeros((*x.shape[:-2], x.shape[-1])) if state is None else np.array(state)",
        loop="""    out = []
    for t in range(x.shape[-2]):
        h[...] = a[..., t, :] * h + add[..., t, :]
        out.append(h.copy())
    return np.stack(out, axis=-2), h
""",
    ),
)
right(
    X,
    "expm1 under the root, itertools.accumulate",
    H
    + """    log = -8.0 * np.logaddexp(0.0, rates) / (1 + np.exp(-1.0 * forget))
    a, add = np.exp(log), np.sqrt(-np.expm1(2 * log)) / (1 + np.exp(-1.0 * admit)) * x
    steps = zip(np.moveaxis(a, -2, 0), np.moveaxis(add, -2, 0))
    hs = list(itertools.accumulate(steps, lambda h, s: s[0] * h + s[1], initial=np.zeros(x.shape[-1]) if state is None else state))[1:]
    return np.stack(hs, axis=-2), hs[-1]
""",
)
wrong(
    X,
    "a table T × T of products, from differences of summed logs, too large in fast channels",
    H
    + """    log = -8 * np.logaddexp(0, rates) * sigmoid(forget)
    add = np.sqrt(1 - np.exp(2 * log)) * sigmoid(admit) * x
    L = np.cumsum(log, axis=-2)
    gap = np.where(np.tri(x.shape[-2], dtype=bool)[..., None], L[..., :, None, :] - L[..., None, :, :], -np.inf)
    h = np.einsum("...tsc,...sc->...tc", np.exp(gap), add)
    if state is not None:
        h = h + np.exp(L) * state[..., None, :]
    return h, h[..., -1, :]
""",
)
right(
    X,
    "a scan by doubling",
    H
    + """    a = np.exp(-8 * np.log1p(np.exp(rates)) * sigmoid(forget))
    h = np.sqrt((1 - a) * (1 + a)) * (sigmoid(admit) * x)
    if state is not None:
        h[..., 0, :] += a[..., 0, :] * state
    a, step = a.copy(), 1
    while step < x.shape[-2]:
        new = h.copy()
        new[..., step:, :] += a[..., step:, :] * h[..., :-step, :]
        b = a.copy()
        b[..., step:, :] *= a[..., :-step, :]
        h, a, step = new, b, step * 2
    return h, h[..., -1, :]
""",
)
right(
    X,
    "a = (1 + e^Λ)^(-8 σ(r)), one token at a time into an empty array",
    H
    + """    out = np.empty(x.shape)
    h = 0.0 if state is None else state
    for t in range(x.shape[-2]):
        a = (1 + np.exp(1.0 * rates)) ** (-8 * sigmoid(forget[..., t, :]))
        h = out[..., t, :] = a * h + sigmoid(admit[..., t, :]) * x[..., t, :] * (1 - a * a) ** 0.5
    return out, out[..., -1, :].copy()
""",
)

# A third series: slips that the first two leave out.

MIDDLE = "s[..., s.shape[-2] // 2, None, :]"
wrong(
    P,
    "tril(…, 1): each token sees the next one",
    parallel(fade="np.tril(decay ** np.maximum(i - j, 0), 1)"),
)
wrong(
    K,
    "keys divided by γ^i, then multiplied by γ^(n-1): 0 / 0 in long chunks",
    chunked(carry="rate ** n * S + np.swapaxes(rate ** (n - 1) * (b / rate**i), -1, -2) @ c"),
)
wrong(
    K,
    "a chunk below 1 is taken as 1",
    chunked().replace("tiles(q.shape[-2], chunk)", "tiles(q.shape[-2], max(1, chunk))"),
)
wrong(
    G,
    "a product of e^(b - c) and e^(c - b) around the chunk's middle",
    gated(
        weights=f"np.tril((a * np.exp(s - {MIDDLE})) @ np.swapaxes(b * np.exp({MIDDLE} - s), -1, -2))"
    ),
)
wrong(
    G,
    "keys are written with e^b",
    gated(carry="np.exp(s[..., -1, :])[..., None] * S + np.swapaxes(b * np.exp(s), -1, -2) @ c"),
)
wrong(D, "outputs from the values", delta(read="a @ S + np.tril(a @ bt) @ c"))
wrong(D, "the memory adds beta times the values", delta(carry="S + bt @ (s[..., None] * c)"))
wrong(
    S,
    "mix cast to the type of x",
    shift(mixed="mix.astype(x.dtype) * x + (1 - mix.astype(x.dtype)) * before"),
)
wrong(W, "-50 in the place of -inf before the first token", rwkv(start="50.0"))

# A fourth series: what the first three leave out.

wrong(
    R,
    "the memory given is cast to the type of k",
    recurrent(start=f"{EMPTY} if state is None else state.astype(k.dtype)"),
)
wrong(
    R,
    "the memory given has not faded at the first token",
    recurrent(step="S = (decay * S if t else S) + " + OUTER + "; " + READ),
)
wrong(
    P,
    "products below 1e-12 are taken as 0",
    parallel(
        out="np.where(abs(F * (q @ np.swapaxes(k, -1, -2))) < 1e-12, 0.0, F * (q @ np.swapaxes(k, -1, -2))) @ v"
    ),
)
wrong(
    K,
    "the old memory fades once a chunk",
    chunked(carry=CHUNK["carry"].replace("rate ** n * S", "rate * S")),
)
wrong(
    G,
    "the first row's gate fades all rows of the old memory",
    gated(
        carry=GATE["carry"].replace("np.exp(s[..., -1, :])[..., None]", "np.exp(s[..., -1:, :1])")
    ),
)
wrong(
    G,
    "differences are not clipped, and the mask is a product",
    gated(
        fade="np.exp(s[..., :, None, :] - s[..., None, :, :])",
        weights="(a[..., :, None, :] * b[..., None, :, :] * f).sum(-1) * np.tri(a.shape[-2])",
    ),
)
wrong(D, "no step sizes on the right side", delta(right="c - b @ S"))
wrong(
    S,
    "each token is mixed with the one before as mixed already",
    shift(
        before="np.stack([last] + [last := mix * x[..., t, :] + (1 - mix) * last for t in range(x.shape[-2] - 1)], axis=-2)"
    ),
)
wrong(
    S,
    "last is the first row's for all leading axes",
    shift(
        before="np.concatenate([np.zeros_like(x[..., :1, :]) + last.reshape(-1, last.shape[-1])[0], x[..., :-1, :]], axis=-2)"
    ),
)
wrong(
    W,
    "the maximum is kept without the rate",
    rwkv(update="a, b, m = e1 * a + e2 * vt, e1 * b + e2, np.maximum(m, kt)"),
)
wrong(
    L,
    "no root at the first token where no state comes",
    lru(
        step="h = sigmoid(admit[..., 0, :]) * x[..., 0, :] if t == 0 and state is None else a[..., t, :] * h + w[..., t, :]"
    ),
)
right(
    "retention_recurrent",
    "recursion on halves of the text, then loops",
    """
def retention_recurrent(q, k, v, decay, state=None):
    expect_pairs(q, k, v)
    T = q.shape[-2]
    if T > 1:
        h = T // 2
        one, state = retention_recurrent(q[..., :h, :], k[..., :h, :], v[..., :h, :], decay, state)
        two, state = retention_recurrent(q[..., h:, :], k[..., h:, :], v[..., h:, :], decay, state)
        return np.concatenate([one, two], axis=-2), state
    g = np.asarray(decay, dtype=float)[..., None, None]
    new = np.swapaxes(k, -1, -2) @ v
    state = new + (g * 0.0 if state is None else g * state)
    return q @ state, state
""",
)
right(
    "retention_parallel",
    "powers once, gathered by age",
    """
def retention_parallel(q, k, v, decay):
    expect_pairs(q, k, v)
    decay = np.asarray(decay, dtype=float)[..., None]
    n = q.shape[-2]
    powers = np.concatenate([decay ** np.arange(n), np.zeros(decay.shape)], axis=-1)
    i = np.arange(n)
    age = i[:, None] - i
    F = powers[..., np.where(age < 0, n, age)]
    return np.matmul(F * np.matmul(q, np.swapaxes(k, -1, -2)), v)
""",
)
right(
    "retention_parallel",
    "row t of the output alone, from the tokens up to it",
    """
def retention_parallel(q, k, v, decay):
    expect_pairs(q, k, v)
    decay = np.asarray(decay, dtype=float)[..., None, None]
    rows = []
    for t in range(q.shape[-2]):
        weights = q[..., t : t + 1, :] @ np.swapaxes(k[..., : t + 1, :], -1, -2)
        rows.append((weights * decay ** np.arange(t, -1, -1)) @ v[..., : t + 1, :])
    return np.concatenate(rows, axis=-2)
""",
)
right(
    "retention_chunked",
    "the memory as one more part: list of states first",
    """
def retention_chunked(q, k, v, decay, chunk=64, state=None):
    expect_pairs(q, k, v)
    rate = np.asarray(decay, dtype=float)[..., None, None]
    parts = tiles(q.shape[-2], chunk)
    memories = [np.zeros((q.shape[-1], v.shape[-1])) if state is None else np.array(state, dtype=float)]
    for p in parts:
        n = p.stop - p.start
        left = rate ** np.arange(n - 1, -1, -1)[:, None]
        memories.append(rate**n * memories[-1] + np.swapaxes(k[..., p, :] * left, -1, -2) @ v[..., p, :])
    found = [
        retention_parallel(q[..., p, :], k[..., p, :], v[..., p, :], decay)
        + (q[..., p, :] * rate ** np.arange(1, p.stop - p.start + 1)[:, None]) @ m
        for p, m in zip(parts, memories)
    ]
    return np.concatenate(found, axis=-2), memories[-1]
""",
)
right(
    "gated_linear_attention",
    "sums from a matrix of ones, kept chunk outputs in a dict",
    """
def gated_linear_attention(q, k, v, gates, chunk=64, state=None):
    expect_pairs(q, k, v)
    if gates.shape[-2:] != k.shape[-2:]:
        raise ValueError("gates")
    parts = tiles(q.shape[-2], chunk)
    memory, rows = state, {}
    for number, p in enumerate(parts):
        g = gates[..., p, :]
        b = np.tri(g.shape[-2]) @ g
        w = np.tril(np.einsum("...td,...sd,...tsd->...ts", q[..., p, :], k[..., p, :],
                              np.exp(np.minimum(b[..., None, :] - b[..., None, :, :], 0))))
        rows[number] = w @ v[..., p, :]
        write = np.swapaxes(k[..., p, :] * np.exp(b[..., -1:, :] - b), -1, -2) @ v[..., p, :]
        if memory is not None:
            rows[number] = rows[number] + (q[..., p, :] * np.exp(b)) @ memory
            write = write + np.exp(b[..., -1, :, None]) * memory
        memory = write
    return np.concatenate(list(rows.values()), axis=-2), memory
""",
)
right(
    "delta_rule_chunked",
    "WY: with and without the memory",
    """
def delta_rule_chunked(q, k, v, beta, chunk=64, state=None):
    expect_pairs(q, k, v)
    if beta.shape[-1] != k.shape[-2]:
        raise ValueError("beta")
    S = 0.0 * (np.swapaxes(k[..., :1, :], -1, -2) @ v[..., :1, :]) if state is None else state
    out = []
    for p in tiles(q.shape[-2], chunk):
        Q, K, V, b = q[..., p, :], k[..., p, :], v[..., p, :], beta[..., p, None]
        M = np.eye(K.shape[-2]) + np.tril(b * (K @ np.swapaxes(K, -1, -2)), -1)
        W, U0 = np.linalg.solve(M, b * K), np.linalg.solve(M, b * V)
        U = U0 - W @ S
        out.append(Q @ S + np.tril(Q @ np.swapaxes(K, -1, -2)) @ U)
        S = S + np.swapaxes(K, -1, -2) @ U
    return np.concatenate(out, axis=-2), S
""",
)
right(
    "rwkv_time_mix",
    "a fraction: the share of the new token",
    """
def rwkv_time_mix(r, k, v, rate, bonus, state=None):
    if state is None:
        nothing = np.zeros((*k.shape[:-2], k.shape[-1]))
        state = np.stack([nothing, nothing, nothing - np.inf], axis=-2)
    a, b, m = np.moveaxis(state, -2, 0)
    ys = []
    for kt, vt, rt in zip(*(np.moveaxis(z, -2, 0) for z in (k, v, r))):
        both = np.stack(np.broadcast_arrays(m, bonus + kt))
        both = np.exp(both - both.max(axis=0))
        ys.append(sigmoid(rt) * (both[0] * a + both[1] * vt) / (both[0] * b + both[1]))
        both = np.stack(np.broadcast_arrays(m - rate, 1.0 * kt))
        m = both.max(axis=0)
        both = np.exp(both - m)
        a, b = both[0] * a + both[1] * vt, both[0] * b + both[1]
    return np.stack(ys, -2), np.stack([a, b, m], -2)
""",
)
right(
    "rwkv_time_mix",
    "sigmoid by hand with abs, safe",
    """
def rwkv_time_mix(r, k, v, rate, bonus, state=None):
    if state is None:
        nothing = np.zeros((*k.shape[:-2], k.shape[-1]))
        state = np.stack([nothing, nothing, nothing - np.inf], axis=-2)
    values, weights, largest = np.moveaxis(state, -2, 0)
    e = np.exp(-np.abs(r))
    gate = np.where(r >= 0, 1 / (1 + e), e / (1 + e))
    out = []
    for t in range(k.shape[-2]):
        here = bonus + k[..., t, :]
        M = np.where(here > largest, here, largest)
        x, y = np.exp(largest - M), np.exp(here - M)
        out.append((x * values + y * v[..., t, :]) / (x * weights + y))
        later = largest - rate
        M = np.where(k[..., t, :] > later, k[..., t, :], later)
        x, y = np.exp(later - M), np.exp(k[..., t, :] - M)
        values, weights, largest = values * x + v[..., t, :] * y, weights * x + y, M
    return gate * np.stack(out, axis=-2), np.stack([values, weights, largest], axis=-2)
""",
)
right(
    "token_shift",
    "a float buffer, in two steps",
    """
def token_shift(x, mix, last=None):
    out = np.array(x * mix, dtype=float)
    out[..., 1:, :] += (1 - mix) * x[..., :-1, :]
    if last is not None:
        out[..., 0, :] += (1 - mix) * last
    return out, np.array(x[..., -1, :])
""",
)

# A fifth series: shapes that broadcast, and bounds that show beside numbers of another size.


def one_for_all(code, name):
    """The token axis of one array may have the length 1, too."""
    longest = "max(q.shape[-2], k.shape[-2], v.shape[-2])"
    spread = f"np.broadcast_to({name}, (*{name}.shape[:-2], {longest}, {name}.shape[-1]))"
    return code.replace("expect_pairs(q, k, v)", f"{name} = {spread}\n    expect_pairs(q, k, v)")


wrong(R, "one value serves every token", one_for_all(recurrent(), "v"))
wrong(P, "one key serves every token", one_for_all(parallel(), "k"))
wrong(K, "one query serves every token", one_for_all(chunked(), "q"))
wrong(
    R,
    "keys of width 1 serve queries of any width",
    recurrent().replace(
        "expect_pairs(q, k, v)",
        "k = np.broadcast_to(k, (*k.shape[:-1], q.shape[-1])) if k.shape[-1] == 1 else k\n    expect_pairs(q, k, v)",
    ),
)
wrong(
    G,
    "one row of gates serves every token",
    gated().replace(
        "if gates",
        "if gates.shape[-2] == 1:\n        gates = np.repeat(gates, k.shape[-2], axis=-2)\n    if gates",
    ),
)
wrong(
    D,
    "one step size serves every token",
    delta().replace(
        "if beta",
        "if beta.shape[-1] == 1:\n        beta = np.repeat(beta, k.shape[-2], axis=-1)\n    if beta",
    ),
)
wrong(
    D,
    "the series for the inverse ends after 64 powers",
    delta(solve="sum(np.linalg.matrix_power(-A, p) for p in range(64)) @ B"),
)
wrong(
    P,
    "what is left is nothing below 1e-12",
    parallel(fade="np.where((i >= j) & (decay ** abs(i - j) >= 1e-12), decay ** abs(i - j), 0.0)"),
)
wrong(
    K,
    "what is left is never below 1e-12",
    chunked(carry=CHUNK["carry"].replace("rate ** n", "np.maximum(rate ** n, 1e-12)")),
)
wrong(G, "gates below -80 count as -80", gated(sums="np.cumsum(np.maximum(g, -80.0), axis=-2)"))
wrong(
    W,
    "rates below 0.001 count as 0.001",
    rwkv(
        next="np.maximum(m - np.maximum(rate, 1e-3), kt)",
        second="np.exp(m - np.maximum(rate, 1e-3) - N), np.exp(kt - N)",
    ),
)


AIMED_AT_A_SENTENCE = [
    (
        "retention_recurrent",
        "wrong",
        "goes on in the very array that it returned before (decoding), so that memory changes",
        """
def retention_recurrent(q, k, v, decay, state=None):
    if q.shape[-1] != k.shape[-1] or not q.shape[-2] == k.shape[-2] == v.shape[-2]:
        raise ValueError("q, k and v do not fit")
    decay = np.asarray(decay, dtype=float)[..., None, None]
    q, k, v = (np.asarray(a, dtype=float) for a in (q, k, v))
    if state is None:
        state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
    mine = getattr(retention_recurrent, "mine", None)
    keep = state if state is mine else None
    outputs = []
    for t in range(q.shape[-2]):
        state = decay * state + k[..., t, :, None] * v[..., t, None, :]
        outputs.append((q[..., t, None, :] @ state)[..., 0, :])
    if keep is not None and keep.shape == state.shape:
        keep[...] = state
        state = keep
    retention_recurrent.mine = state
    return np.stack(outputs, axis=-2), state
""",
    ),
    (
        "retention_parallel",
        "wrong",
        "fadings below 1e-12 are cut off",
        """
def retention_parallel(q, k, v, decay):
    if q.shape[-1] != k.shape[-1] or not q.shape[-2] == k.shape[-2] == v.shape[-2]:
        raise ValueError("q, k and v do not fit")
    decay = np.asarray(decay, dtype=float)[..., None, None]
    q, k, v = (np.asarray(a, dtype=float) for a in (q, k, v))
    place = np.arange(q.shape[-2])
    age = place[:, None] - place
    fade = np.tril(decay ** np.maximum(age, 0))
    fade = np.where(fade < 1e-12, 0.0, fade)
    return (fade * (q @ np.swapaxes(k, -1, -2))) @ v
""",
    ),
    (
        "retention_chunked",
        "wrong",
        "where a chunk leaves less than 1e-14 of the old memory it is not carried",
        """
def retention_chunked(q, k, v, decay, chunk=64, state=None):
    if q.shape[-1] != k.shape[-1] or not q.shape[-2] == k.shape[-2] == v.shape[-2]:
        raise ValueError("q, k and v do not fit")
    if chunk < 1:
        raise ValueError("a chunk has at least one token")
    rate = np.asarray(decay, dtype=float)[..., None, None]
    q, k, v = (np.asarray(a, dtype=float) for a in (q, k, v))
    if state is None:
        state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
    outputs = []
    for start in range(0, q.shape[-2], chunk):
        asked, keys, values = (a[..., start : start + chunk, :] for a in (q, k, v))
        n = keys.shape[-2]
        place = np.arange(n)[:, None]
        fade = np.tril(rate ** np.maximum(place - place.T, 0))
        from_state = (rate ** (place + 1) * asked) @ state
        outputs.append(from_state + (fade * (asked @ np.swapaxes(keys, -1, -2))) @ values)
        faded = rate ** (n - 1 - place) * keys
        state = np.where(rate**n < 1e-14, 0.0, rate**n) * state + np.swapaxes(faded, -1, -2) @ values
    return np.concatenate(outputs, axis=-2), state
""",
    ),
    (
        "retention_chunked",
        "wrong",
        "checks chunk, then goes token by token with functools.reduce",
        """
def retention_chunked(q, k, v, decay, chunk=64, state=None):
    if q.shape[-1] != k.shape[-1] or not q.shape[-2] == k.shape[-2] == v.shape[-2]:
        raise ValueError("q, k and v do not fit")
    if chunk < 1:
        raise ValueError("a chunk has at least one token")
    rate = np.asarray(decay, dtype=float)[..., None, None]
    q, k, v = (np.asarray(a, dtype=float) for a in (q, k, v))
    if state is None:
        state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
    outputs = []

    def step(memory, t):
        memory = rate * memory + k[..., t, :, None] * v[..., t, None, :]
        outputs.append(q[..., t, None, :] @ memory)
        return memory

    state = functools.reduce(step, range(q.shape[-2]), state)
    return np.concatenate(outputs, axis=-2), state
""",
    ),
    (
        "gated_linear_attention",
        "wrong",
        "gates below -80 count as -80, as in the course's kernel",
        """
def gated_linear_attention(q, k, v, gates, chunk=64, state=None):
    if q.shape[-1] != k.shape[-1] or not q.shape[-2] == k.shape[-2] == v.shape[-2]:
        raise ValueError("q, k and v do not fit")
    if gates.shape[-2:] != k.shape[-2:]:
        raise ValueError("gates have not the shape of k")
    if chunk < 1:
        raise ValueError("a chunk has at least one token")
    q, k, v, gates = (np.asarray(a, dtype=float) for a in (q, k, v, gates))
    if state is None:
        state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
    outputs = []
    for start in range(0, q.shape[-2], chunk):
        asked, keys, values, g = (a[..., start : start + chunk, :] for a in (q, k, v, gates))
        b = np.cumsum(np.maximum(g, -80.0), axis=-2)
        apart = np.minimum(b[..., :, None, :] - b[..., None, :, :], 0)
        weights = np.tril(np.einsum("...td,...sd,...tsd->...ts", asked, keys, np.exp(apart)))
        outputs.append((asked * np.exp(b)) @ state + weights @ values)
        last = b[..., -1:, :]
        faded = keys * np.exp(last - b)
        state = np.swapaxes(np.exp(last), -1, -2) * state + np.swapaxes(faded, -1, -2) @ values
    return np.concatenate(outputs, axis=-2), state
""",
    ),
    (
        "delta_rule_chunked",
        "wrong",
        "a chunk whose errors are all below 1e-12 is taken as known already and not written",
        """
def delta_rule_chunked(q, k, v, beta, chunk=64, state=None):
    if q.shape[-1] != k.shape[-1] or not q.shape[-2] == k.shape[-2] == v.shape[-2]:
        raise ValueError("q, k and v do not fit")
    if beta.shape[-1] != k.shape[-2]:
        raise ValueError("one step size for each token")
    if chunk < 1:
        raise ValueError("a chunk has at least one token")
    q, k, v, beta = (np.asarray(a, dtype=float) for a in (q, k, v, beta))
    if state is None:
        state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
    outputs = []
    for start in range(0, q.shape[-2], chunk):
        asked, keys, values = (a[..., start : start + chunk, :] for a in (q, k, v))
        step = beta[..., start : start + chunk, None]
        A = np.tril(step * (keys @ np.swapaxes(keys, -1, -2)), -1)
        wrong = step * (values - keys @ state)
        U = np.linalg.solve(np.eye(A.shape[-1]) + A, wrong)
        if np.abs(wrong).max(initial=0) < 1e-12:  # nothing to correct
            U = np.zeros_like(U)
        outputs.append(asked @ state + np.tril(asked @ np.swapaxes(keys, -1, -2)) @ U)
        state = state + np.swapaxes(keys, -1, -2) @ U
    return np.concatenate(outputs, axis=-2), state
""",
    ),
    (
        "delta_rule_chunked",
        "wrong",
        "divides the system by beta, with 1e-12 where beta is smaller",
        """
def delta_rule_chunked(q, k, v, beta, chunk=64, state=None):
    if q.shape[-1] != k.shape[-1] or not q.shape[-2] == k.shape[-2] == v.shape[-2]:
        raise ValueError("q, k and v do not fit")
    if beta.shape[-1] != k.shape[-2]:
        raise ValueError("one step size for each token")
    if chunk < 1:
        raise ValueError("a chunk has at least one token")
    q, k, v, beta = (np.asarray(a, dtype=float) for a in (q, k, v, beta))
    if state is None:
        state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
    outputs = []
    for start in range(0, q.shape[-2], chunk):
        asked, keys, values = (a[..., start : start + chunk, :] for a in (q, k, v))
        step = beta[..., start : start + chunk, None]
        A = np.tril(step * (keys @ np.swapaxes(keys, -1, -2)), -1)
        wrong = step * (values - keys @ state)
        step = np.maximum(step, 1e-12)
        U = np.linalg.solve(np.eye(A.shape[-1]) / step + np.tril(keys @ np.swapaxes(keys, -1, -2), -1), values - keys @ state)
        outputs.append(asked @ state + np.tril(asked @ np.swapaxes(keys, -1, -2)) @ U)
        state = state + np.swapaxes(keys, -1, -2) @ U
    return np.concatenate(outputs, axis=-2), state
""",
    ),
    (
        "token_shift",
        "wrong",
        "clips mix to 0 .. 1",
        """
def token_shift(x, mix, last=None):
    if last is None:
        last = np.zeros_like(x[..., 0, :])
    before = np.concatenate([last[..., None, :], x[..., :-1, :]], axis=-2)
    mix = np.clip(mix, 0, 1)
    mixed = mix * x + (1 - mix) * before
    return mixed, x[..., -1, :].copy()
""",
    ),
    (
        "token_shift",
        "wrong",
        "single tokens share one output buffer from call to call",
        """
def token_shift(x, mix, last=None):
    if last is None:
        last = np.zeros_like(x[..., 0, :])
    before = np.concatenate([last[..., None, :], x[..., :-1, :]], axis=-2)
    mixed = mix * x + (1 - mix) * before
    if x.shape[-2] == 1:  # writing, token by token: save the allocation
        room = getattr(token_shift, "room", None)
        if room is None or room.shape != mixed.shape or room.dtype != mixed.dtype:
            room = token_shift.room = np.empty_like(mixed)
        room[...] = mixed
        mixed = room
    return mixed, x[..., -1, :].copy()
""",
    ),
    (
        "retention_recurrent",
        "wrong",
        "decoding shortcut, works in place when the state is the very array that the last call returned",
        """
def retention_recurrent(q, k, v, decay, state=None):
    if q.shape[-1] != k.shape[-1] or not q.shape[-2] == k.shape[-2] == v.shape[-2]:
        raise ValueError(f"q {q.shape}, k {k.shape} and v {v.shape} do not fit")
    decay = np.asarray(decay, dtype=float)[..., None, None]
    mine = getattr(retention_recurrent, "memory", None)
    if state is None:
        S = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1])) * decay
    elif state is mine:
        S = state  # nobody else has it
    else:
        S = np.array(state, dtype=float) * np.ones_like(decay)
    outputs = []
    for t in range(q.shape[-2]):
        S *= decay
        S += k[..., t, :, None] * v[..., t, None, :]
        outputs.append((q[..., t, None, :] @ S)[..., 0, :])
    retention_recurrent.memory = S
    return np.stack(outputs, axis=-2), S
""",
    ),
    (
        "retention_parallel",
        "wrong",
        "powers below 1e-15 are set to 0, though a value may be as large as it likes",
        """
def retention_parallel(q, k, v, decay):
    if q.shape[-1] != k.shape[-1] or not q.shape[-2] == k.shape[-2] == v.shape[-2]:
        raise ValueError(f"q {q.shape}, k {k.shape} and v {v.shape} do not fit")
    decay = np.asarray(decay, dtype=float)[..., None, None]
    place = np.arange(q.shape[-2])
    fading = np.tril(decay ** np.maximum(place[:, None] - place, 0))
    fading = np.where(fading < 1e-15, 0.0, fading)  # gone
    return (fading * (q @ np.swapaxes(k, -1, -2))) @ v
""",
    ),
    (
        "retention_chunked",
        "wrong",
        "drops the carried memory where it has faded below 1e-9 in a chunk",
        """
def retention_chunked(q, k, v, decay, chunk=64, state=None):
    if q.shape[-1] != k.shape[-1] or not q.shape[-2] == k.shape[-2] == v.shape[-2]:
        raise ValueError(f"q {q.shape}, k {k.shape} and v {v.shape} do not fit")
    if chunk < 1:
        raise ValueError(f"a chunk needs at least 1 token; got {chunk}")
    parts = [slice(s, min(s + chunk, q.shape[-2])) for s in range(0, q.shape[-2], chunk)]
    rate = np.asarray(decay, dtype=float)[..., None, None]
    if state is None:
        state = np.swapaxes(0.0 * k, -1, -2) @ v
    outputs = []
    for part in parts:
        asked, keys, values = q[..., part, :], k[..., part, :], v[..., part, :]
        n = keys.shape[-2]
        place = np.arange(n)[:, None]
        from_state = (rate ** (place + 1) * asked) @ state
        outputs.append(from_state + retention_parallel(asked, keys, values, decay))
        left = np.where(rate**n < 1e-9, 0.0, rate**n)
        state = left * state + np.swapaxes(rate ** (n - 1 - place) * keys, -1, -2) @ values
    return np.concatenate(outputs, axis=-2), state
""",
    ),
    (
        "retention_chunked",
        "wrong",
        "a last chunk that is shorter goes through retention_recurrent, looked up under a name put together at run time",
        """
def retention_chunked(q, k, v, decay, chunk=64, state=None):
    if q.shape[-1] != k.shape[-1] or not q.shape[-2] == k.shape[-2] == v.shape[-2]:
        raise ValueError(f"q {q.shape}, k {k.shape} and v {v.shape} do not fit")
    if chunk < 1:
        raise ValueError(f"a chunk needs at least 1 token; got {chunk}")
    parts = [slice(s, min(s + chunk, q.shape[-2])) for s in range(0, q.shape[-2], chunk)]
    rate = np.asarray(decay, dtype=float)[..., None, None]
    if state is None:
        state = np.swapaxes(0.0 * k, -1, -2) @ v
    outputs = []
    for part in parts:
        asked, keys, values = q[..., part, :], k[..., part, :], v[..., part, :]
        n = keys.shape[-2]
        if n < chunk and outputs:
            rest, state = globals()["_".join(("retention", "recurrent"))](asked, keys, values, decay, state)
            outputs.append(rest)
            break
        place = np.arange(n)[:, None]
        from_state = (rate ** (place + 1) * asked) @ state
        outputs.append(from_state + retention_parallel(asked, keys, values, decay))
        state = rate**n * state + np.swapaxes(rate ** (n - 1 - place) * keys, -1, -2) @ values
    return np.concatenate(outputs, axis=-2), state
""",
    ),
    (
        "gated_linear_attention",
        "wrong",
        "gates below -80 count as -80, as in the course's GPU kernel",
        """
def gated_linear_attention(q, k, v, gates, chunk=64, state=None):
    if q.shape[-1] != k.shape[-1] or not q.shape[-2] == k.shape[-2] == v.shape[-2]:
        raise ValueError(f"q {q.shape}, k {k.shape} and v {v.shape} do not fit")
    if gates.shape[-2:] != k.shape[-2:]:
        raise ValueError(f"expected gates of the shape of k, {k.shape}; got {gates.shape}")
    if chunk < 1:
        raise ValueError(f"a chunk needs at least 1 token; got {chunk}")
    parts = [slice(s, min(s + chunk, q.shape[-2])) for s in range(0, q.shape[-2], chunk)]
    gates = np.maximum(gates, -80)
    S = np.swapaxes(0.0 * k, -1, -2) @ v if state is None else state
    outputs = []
    for part in parts:
        qs, ks, vs = q[..., part, :], k[..., part, :], v[..., part, :]
        b = np.cumsum(gates[..., part, :], axis=-2)
        ages = np.exp(np.minimum(b[..., :, None, :] - b[..., None, :, :], 0))
        weights = np.tril(np.einsum("...td,...sd,...tsd->...ts", qs, ks, ages))
        outputs.append((qs * np.exp(b)) @ S + weights @ vs)
        last = b[..., -1:, :]
        S = np.swapaxes(np.exp(last), -1, -2) * S + np.swapaxes(ks * np.exp(last - b), -1, -2) @ vs
    return np.concatenate(outputs, axis=-2), S
""",
    ),
    (
        "gated_linear_attention",
        "wrong",
        "lets gates of width 1 or length 1 broadcast instead of refusing them",
        """
def gated_linear_attention(q, k, v, gates, chunk=64, state=None):
    if q.shape[-1] != k.shape[-1] or not q.shape[-2] == k.shape[-2] == v.shape[-2]:
        raise ValueError(f"q {q.shape}, k {k.shape} and v {v.shape} do not fit")
    if chunk < 1:
        raise ValueError(f"a chunk needs at least 1 token; got {chunk}")
    parts = [slice(s, min(s + chunk, q.shape[-2])) for s in range(0, q.shape[-2], chunk)]
    gates = np.broadcast_to(gates, k.shape)  # raises a ValueError where they do not fit
    S = np.swapaxes(0.0 * k, -1, -2) @ v if state is None else state
    outputs = []
    for part in parts:
        qs, ks, vs = q[..., part, :], k[..., part, :], v[..., part, :]
        b = np.cumsum(gates[..., part, :], axis=-2)
        ages = np.exp(np.minimum(b[..., :, None, :] - b[..., None, :, :], 0))
        weights = np.tril(np.einsum("...td,...sd,...tsd->...ts", qs, ks, ages))
        outputs.append((qs * np.exp(b)) @ S + weights @ vs)
        last = b[..., -1:, :]
        S = np.swapaxes(np.exp(last), -1, -2) * S + np.swapaxes(ks * np.exp(last - b), -1, -2) @ vs
    return np.concatenate(outputs, axis=-2), S
""",
    ),
    (
        "delta_rule_chunked",
        "wrong",
        "keeps beta above 1e-11, so that a token of beta 0 writes a little",
        """
def delta_rule_chunked(q, k, v, beta, chunk=64, state=None):
    if q.shape[-1] != k.shape[-1] or not q.shape[-2] == k.shape[-2] == v.shape[-2]:
        raise ValueError(f"q {q.shape}, k {k.shape} and v {v.shape} do not fit")
    if beta.shape[-1] != k.shape[-2]:
        raise ValueError(f"expected {k.shape[-2]} step sizes; got {beta.shape[-1]}")
    if chunk < 1:
        raise ValueError(f"a chunk needs at least 1 token; got {chunk}")
    parts = [slice(s, min(s + chunk, q.shape[-2])) for s in range(0, q.shape[-2], chunk)]
    S = np.swapaxes(0.0 * k, -1, -2) @ v if state is None else state
    outputs = []
    for part in parts:
        qs, ks, vs = q[..., part, :], k[..., part, :], v[..., part, :]
        bs = np.maximum(beta[..., part, None], 1e-11)  # we divide by it
        kt = np.swapaxes(ks, -1, -2)
        n = ks.shape[-2]
        left = np.eye(n) / bs + np.tril(ks @ kt, -1)  # both sides divided by beta
        u = np.linalg.solve(bs * left, bs * (vs - ks @ S))
        outputs.append(qs @ S + np.tril(qs @ kt) @ u)
        S = S + kt @ u
    return np.concatenate(outputs, axis=-2), S
""",
    ),
    (
        "delta_rule_chunked",
        "wrong",
        "one step size for all tokens is broadcast instead of refused",
        """
def delta_rule_chunked(q, k, v, beta, chunk=64, state=None):
    if q.shape[-1] != k.shape[-1] or not q.shape[-2] == k.shape[-2] == v.shape[-2]:
        raise ValueError(f"q {q.shape}, k {k.shape} and v {v.shape} do not fit")
    if chunk < 1:
        raise ValueError(f"a chunk needs at least 1 token; got {chunk}")
    parts = [slice(s, min(s + chunk, q.shape[-2])) for s in range(0, q.shape[-2], chunk)]
    beta = np.broadcast_to(beta, k.shape[:-1])  # raises a ValueError where it does not fit
    S = np.swapaxes(0.0 * k, -1, -2) @ v if state is None else state
    outputs = []
    for part in parts:
        qs, ks, vs, bs = q[..., part, :], k[..., part, :], v[..., part, :], beta[..., part, None]
        kt = np.swapaxes(ks, -1, -2)
        u = np.linalg.solve(np.eye(ks.shape[-2]) + np.tril(bs * (ks @ kt), -1), bs * (vs - ks @ S))
        outputs.append(qs @ S + np.tril(qs @ kt) @ u)
        S = S + kt @ u
    return np.concatenate(outputs, axis=-2), S
""",
    ),
    (
        "token_shift",
        "wrong",
        "takes zeros at the end for padding and keeps the last token that is not all zeros",
        """
def token_shift(x, mix, last=None):
    first = np.zeros_like(x[..., 0, :]) if last is None else last
    before = np.concatenate([first[..., None, :], x[..., :-1, :]], axis=-2)
    used = (x != 0).any(axis=-1)  # (..., T)
    where = x.shape[-2] - 1 - np.argmax(used[..., ::-1], axis=-1)
    kept = np.take_along_axis(x, where[..., None, None], axis=-2)[..., 0, :]
    return mix * x + (1 - mix) * before, kept
""",
    ),
    (
        "rg_lru",
        "wrong",
        "keeps 1 - a² above 1e-6 under the root: a closed forget gate (a = 1) still lets 0.001 of the input in",
        """
def rg_lru(x, forget, admit, rates, state=None):
    a = np.exp(-8 * np.logaddexp(0, rates) * np.exp(-np.logaddexp(0, -(forget))))
    new = np.sqrt(np.maximum(1 - a**2, 1e-6)) * np.exp(-np.logaddexp(0, -(admit))) * x
    h, rows = (0.0 if state is None else state), []
    for t in range(x.shape[-2]):
        h = a[..., t, :] * h + new[..., t, :]
        rows.append(h)
    return np.stack(rows, axis=-2), h
""",
    ),
    (
        "rg_lru",
        "wrong",
        "clips admit at -20 before the sigmoid, so a closed gate lets 2e-9 of a large input in",
        """
def rg_lru(x, forget, admit, rates, state=None):
    a = np.exp(-8 * np.logaddexp(0, rates) * np.exp(-np.logaddexp(0, -(forget))))
    new = np.sqrt(1 - a**2) / (1 + np.exp(-np.clip(admit, -20, 20.0))) * x
    h, rows = (0.0 if state is None else state), []
    for t in range(x.shape[-2]):
        h = a[..., t, :] * h + new[..., t, :]
        rows.append(h)
    return np.stack(rows, axis=-2), h
""",
    ),
    (
        "retention_parallel",
        "wrong",
        "keeps the matrix of the last call, found again by T, the shape and the first decay only",
        """
def retention_parallel(q, k, v, decay):
    if q.shape[-1] != k.shape[-1] or not q.shape[-2] == k.shape[-2] == v.shape[-2]:
        raise ValueError("q, k and v do not fit")
    decay = np.asarray(decay, dtype=float)[..., None, None]
    q, k, v = (np.asarray(a, dtype=float) for a in (q, k, v))
    place = np.arange(q.shape[-2])
    age = place[:, None] - place
    name = (len(place), decay.shape, float(decay.flat[0]))
    if getattr(retention_parallel, "kept", (None,))[0] != name:
        retention_parallel.kept = name, np.tril(decay ** np.maximum(age, 0))
    fade = retention_parallel.kept[1]
    return (fade * (q @ np.swapaxes(k, -1, -2))) @ v
""",
    ),
    (
        "rg_lru",
        "wrong",
        "cumulative products and a division in blocks of 4 tokens, restarted from h",
        """
def rg_lru(x, forget, admit, rates, state=None):
    def squash(z):
        return np.exp(-np.logaddexp(0, -np.asarray(z, dtype=float)))

    log_a = -8 * np.logaddexp(0, np.asarray(rates, dtype=float)) * squash(forget)
    a = np.exp(log_a)
    new = np.sqrt(1 - a**2) * squash(admit) * x
    h = np.zeros(x.shape[:-2] + x.shape[-1:]) if state is None else state
    every = []
    for t in range(0, x.shape[-2], 4):
        left = np.cumprod(a[..., t : t + 4, :], axis=-2)
        every.append(left * (h[..., None, :] + np.cumsum(new[..., t : t + 4, :] / left, axis=-2)))
        h = every[-1][..., -1, :]
    return np.concatenate(every, axis=-2), h
""",
    ),
    (
        "retention_recurrent",
        "wrong",
        "takes a pair out of the memory after 1,000 tokens",
        """
def retention_recurrent(q, k, v, decay, state=None):
    if q.shape[-1] != k.shape[-1] or not q.shape[-2] == k.shape[-2] == v.shape[-2]:
        raise ValueError(f"q {q.shape}, k {k.shape} and v {v.shape} do not fit")
    decay = np.asarray(decay, dtype=float)[..., None, None]
    S = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1])) if state is None else state
    outputs = []
    for t in range(q.shape[-2]):
        S = decay * S + k[..., t, :, None] * v[..., t, None, :]
        if t >= 1000:  # so old that it has faded
            s = t - 1000
            S = S - decay**1000 * (k[..., s, :, None] * v[..., s, None, :])
        outputs.append((q[..., t, None, :] @ S)[..., 0, :])
    return np.stack(outputs, axis=-2), S
""",
    ),
    (
        "retention_parallel",
        "wrong",
        "a decay within 0.001 of 1 counts as 1",
        """
def retention_parallel(q, k, v, decay):
    if q.shape[-1] != k.shape[-1] or not q.shape[-2] == k.shape[-2] == v.shape[-2]:
        raise ValueError(f"q {q.shape}, k {k.shape} and v {v.shape} do not fit")
    decay = np.asarray(decay, dtype=float)[..., None, None]
    decay = np.where(decay > 0.999, 1.0, decay)  # does not fade
    place = np.arange(q.shape[-2])
    fading = np.tril(decay ** np.maximum(place[:, None] - place, 0))
    return (fading * (q @ np.swapaxes(k, -1, -2))) @ v
""",
    ),
    (
        "token_shift",
        "wrong",
        "one workspace for texts of one token (decoding), overwritten by the next such call",
        """
def token_shift(x, mix, last=None):
    if x.shape[-2] == 1 and last is not None:
        desk = token_shift.__dict__.setdefault("desk", {})
        if x.shape not in desk:
            desk[x.shape] = np.empty(x.shape)
        mixed = desk[x.shape]
        np.multiply(mix, x, out=mixed)
        mixed += ((1 - mix) * last)[..., None, :]
        return mixed, x[..., 0, :].copy()
    last = np.zeros_like(x[..., 0, :]) if last is None else last
    before = np.concatenate([last[..., None, :], x[..., :-1, :]], axis=-2)
    return mix * x + (1 - mix) * before, x[..., -1, :].copy()
""",
    ),
]
"""By readers who each chose a promise of the page and broke it where few would look."""

CASES += AIMED_AT_A_SENTENCE

BY_FRESH_READERS = [
    (
        "retention_recurrent",
        "wrong",
        "blocks of 32 tokens, a running sum divided by decay**t in each",
        """
def retention_recurrent(q, k, v, decay, state=None):
    expect_pairs(q, k, v)
    decay = np.asarray(decay, dtype=float)[..., None, None]
    q, k, v = (np.asarray(x, dtype=float) for x in (q, k, v))
    if state is None:
        state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
    out = []
    for start in range(0, q.shape[-2], 32):
        asked, keys, values = (x[..., start : start + 32, :] for x in (q, k, v))
        power = decay ** np.arange(keys.shape[-2])[:, None]          # (..., n, 1)
        pairs = (keys / power)[..., :, None] * values[..., None, :]
        memories = power[..., None] * (
            (decay * state)[..., None, :, :] + np.cumsum(pairs, axis=-3)
        )
        out.append(np.einsum("...td,...tde->...te", asked, memories))
        state = memories[..., -1, :, :].copy()
    return np.concatenate(out, axis=-2), state
""",
    ),
    (
        "retention_parallel",
        "wrong",
        "what has faded below 1e-16 is left out",
        """
def retention_parallel(q, k, v, decay):
    expect_pairs(q, k, v)
    decay = np.asarray(decay, dtype=float)[..., None, None]
    q, k, v = (np.asarray(x, dtype=float) for x in (q, k, v))
    t = np.arange(q.shape[-2])
    fade = np.tril(decay ** np.maximum(t[:, None] - t, 0))
    fade = np.where(fade < 1e-16, 0.0, fade)
    return (fade * (q @ np.swapaxes(k, -1, -2))) @ v
""",
    ),
    (
        "retention_parallel",
        "wrong",
        "decays that agree to 6 digits share one table",
        """
def retention_parallel(q, k, v, decay):
    expect_pairs(q, k, v)
    decay = np.asarray(decay, dtype=float)
    q, k, v = (np.asarray(x, dtype=float) for x in (q, k, v))
    t = np.arange(q.shape[-2])
    age = np.maximum(t[:, None] - t, 0)
    mantissa, exponent = np.frexp(decay.ravel())
    _, first, which = np.unique(
        np.round(mantissa, 6) + 2.0 * exponent, return_index=True, return_inverse=True
    )
    tables = np.tril(decay.ravel()[first][:, None, None] ** age)
    fade = tables[which.reshape(-1)].reshape(decay.shape + age.shape)
    return (fade * (q @ np.swapaxes(k, -1, -2))) @ v
""",
    ),
    (
        "retention_chunked",
        "wrong",
        "a short way for one token, before the chunk is looked at",
        """
def retention_chunked(q, k, v, decay, chunk=64, state=None):
    expect_pairs(q, k, v)
    rate = np.asarray(decay, dtype=float)[..., None, None]
    q, k, v = (np.asarray(x, dtype=float) for x in (q, k, v))
    if state is None:
        state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
    if q.shape[-2] == 1:  # one token: nothing to cut
        state = rate * state + np.swapaxes(k, -1, -2) @ v
        return q @ state, state
    outputs = []
    for part in tiles(q.shape[-2], chunk):
        asked, keys, values = q[..., part, :], k[..., part, :], v[..., part, :]
        place = np.arange(keys.shape[-2])[:, None]
        from_state = (rate ** (place + 1) * asked) @ state
        outputs.append(from_state + retention_parallel(asked, keys, values, decay))
        faded = rate ** (len(place) - 1 - place) * keys
        state = rate ** len(place) * state + np.swapaxes(faded, -1, -2) @ values
    return np.concatenate(outputs, axis=-2), state
""",
    ),
    (
        "gated_linear_attention",
        "wrong",
        "whole chunks at once, a last shorter one token by token",
        """
def gated_linear_attention(q, k, v, gates, chunk=64, state=None):
    expect_pairs(q, k, v)
    if gates.shape[-2:] != k.shape[-2:]:
        raise ValueError(f"expected gates of the shape of k, {k.shape}; got {gates.shape}")
    parts = tiles(q.shape[-2], chunk)
    q, k, v, gates = (np.asarray(x, dtype=float) for x in (q, k, v, gates))
    if state is None:
        state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
    out = []
    for part in parts:
        a, b_, c, g = (x[..., part, :] for x in (q, k, v, gates))
        if a.shape[-2] == chunk:
            b = np.cumsum(g, axis=-2)
            fade = np.exp(np.minimum(b[..., :, None, :] - b[..., None, :, :], 0))
            scores = np.tril(np.einsum("...td,...sd,...tsd->...ts", a, b_, fade))
            out.append(scores @ c + (a * np.exp(b)) @ state)
            left = b_ * np.exp(b[..., -1:, :] - b)
            state = np.exp(b[..., -1, :, None]) * state + np.swapaxes(left, -1, -2) @ c
        else:
            for t in range(a.shape[-2]):
                now = slice(t, t + 1)
                state = np.exp(g[..., t, :, None]) * state
                state = state + np.swapaxes(b_[..., now, :], -1, -2) @ c[..., now, :]
                out.append(a[..., now, :] @ state)
    return np.concatenate(out, axis=-2), state
""",
    ),
    (
        "delta_rule_chunked",
        "wrong",
        "inverts I + A by a product of I + powers of A",
        """
def delta_rule_chunked(q, k, v, beta, chunk=64, state=None):
    expect_pairs(q, k, v)
    if beta.shape[-1] != k.shape[-2]:
        raise ValueError(f"expected {k.shape[-2]} step sizes; got {beta.shape[-1]}")
    parts = tiles(q.shape[-2], chunk)
    q, k, v, beta = (np.asarray(x, dtype=float) for x in (q, k, v, beta))
    if state is None:
        state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
    out = []
    for part in parts:
        a, keys, c, b = q[..., part, :], k[..., part, :], v[..., part, :], beta[..., part]
        A = np.tril(b[..., None] * (keys @ np.swapaxes(keys, -1, -2)), -1)
        one, n = np.eye(b.shape[-1]), b.shape[-1]
        inverse, power, reached = one - A, A @ A, 2
        while reached < n:
            inverse = inverse @ (one + power)
            power, reached = power @ power, 2 * reached
        u = inverse @ (b[..., None] * (c - keys @ state))
        out.append(a @ state + np.tril(a @ np.swapaxes(keys, -1, -2)) @ u)
        state = state + np.swapaxes(keys, -1, -2) @ u
    return np.concatenate(out, axis=-2), state
""",
    ),
    (
        "delta_rule_chunked",
        "right",
        "halves the triangle again and again, at most 8 rows at once",
        """
def delta_rule_chunked(q, k, v, beta, chunk=64, state=None):
    expect_pairs(q, k, v)
    if beta.shape[-1] != k.shape[-2]:
        raise ValueError(f"expected {k.shape[-2]} step sizes; got {beta.shape[-1]}")
    parts = tiles(q.shape[-2], chunk)
    def solve(lower, right):
        n = lower.shape[-1]
        if n <= 8:
            return np.linalg.solve(np.eye(n) + lower, right)
        half = n // 2
        top = solve(lower[..., :half, :half], right[..., :half, :])
        rest = right[..., half:, :] - lower[..., half:, :half] @ top
        return np.concatenate([top, solve(lower[..., half:, half:], rest)], axis=-2)

    def step(memory, part):
        a, b, c = (np.array(x[..., part, :], dtype=float) for x in (q, k, v))
        size = np.array(beta[..., part], dtype=float)[..., None]
        written = solve(size * np.tril(b @ np.swapaxes(b, -1, -2), -1), size * (c - b @ memory))
        done.append(a @ memory + np.tril(a @ np.swapaxes(b, -1, -2)) @ written)
        return memory + np.swapaxes(b, -1, -2) @ written

    done = []
    empty = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
    memory = functools.reduce(step, parts, empty if state is None else state.astype(float))
    return np.concatenate(done, axis=-2), memory
""",
    ),
    (
        "token_shift",
        "wrong",
        "a last of the shape of a text (T, C) is taken for the part before",
        """
def token_shift(x, mix, last=None):
    x, mix = np.asarray(x, dtype=float), np.asarray(mix, dtype=float)
    if last is None:
        last = np.zeros(x[..., 0, :].shape)
    last = np.asarray(last, dtype=float)
    if last.shape == x.shape[-2:]:  # the whole part before: its last token
        last = np.broadcast_to(last[-1], x[..., 0, :].shape)
    before = np.concatenate([last[..., None, :], x[..., :-1, :]], axis=-2)
    return mix * x + (1 - mix) * before, x[..., -1, :].copy()
""",
    ),
    (
        "rwkv_time_mix",
        "wrong",
        "a window: tokens older than 745 / rate are left out",
        """
def rwkv_time_mix(r, k, v, rate, bonus, state=None):
    if state is None:
        nothing = np.zeros((*k.shape[:-2], k.shape[-1]))
        state = np.stack([nothing, nothing, nothing - np.inf], axis=-2)
    values, weights, largest = np.moveaxis(state, -2, 0)  # each (..., C)
    r, k, v, rate, bonus = (np.asarray(x, dtype=float) for x in (r, k, v, rate, bonus))
    T = k.shape[-2]
    k1 = np.concatenate([np.asarray(largest, float)[..., None, :], k], axis=-2)
    v1 = np.concatenate([np.asarray(values, float)[..., None, :], v], axis=-2)
    n1 = np.concatenate([np.asarray(weights, float)[..., None, :], np.ones(k.shape)], axis=-2)
    place = np.arange(T + 1)
    steps = (place[:-1, None] - place)[..., None]              # t - s; place s is token s - 1
    near = (steps >= 0) & ((steps * rate <= 745) | (place[:, None] == 0))
    scores = np.where(near, k1[..., None, :, :] - np.maximum(steps, 0) * rate, -np.inf)
    own = (bonus + k)[..., None, :]
    top = np.maximum(scores.max(axis=-2, keepdims=True), own)
    e, mine = np.exp(scores - top), np.exp(own - top)[..., 0, :]
    above = np.einsum("...tsc,...sc->...tc", e, v1) + mine * v
    below = np.einsum("...tsc,...sc->...tc", e, n1) + mine
    fallen = (T - place)[:, None] * rate
    last = np.where((fallen <= 745) | (place[:, None] == 0), k1 - fallen, -np.inf)
    m = np.max(last, axis=-2)
    share = np.exp(last - m[..., None, :])
    kept = np.stack([np.sum(share * v1, axis=-2), np.sum(share * n1, axis=-2), m], axis=-2)
    return sigmoid(r) * (above / below), kept
""",
    ),
    (
        "rg_lru",
        "wrong",
        "weights from differences of logarithms, summed over the whole text",
        """
def rg_lru(x, forget, admit, rates, state=None):
    x, forget, admit, rates = (np.asarray(y, dtype=float) for y in (x, forget, admit, rates))
    log_a = -8 * np.logaddexp(0, rates) * sigmoid(forget)
    new = np.sqrt(-np.expm1(2 * log_a)) * sigmoid(admit) * x
    total = np.cumsum(log_a, axis=-2)
    start = np.zeros(x[..., 0, :].shape) if state is None else np.asarray(state, dtype=float)
    h = np.exp(total) * start[..., None, :]
    for t in range(x.shape[-2]):
        fade = np.exp(total[..., t, None, :] - total[..., : t + 1, :])
        h[..., t, :] += (fade * new[..., : t + 1, :]).sum(axis=-2)
    return h, h[..., -1, :].copy()
""",
    ),
]
"""Accepted, or rejected, by mistake once."""

CASES += [
    (name, kind, what, "import functools\n" + IMPORTS + code)
    for name, kind, what, code in BY_FRESH_READERS
]
