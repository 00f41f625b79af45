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
        "keys faded by division of powers",
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
