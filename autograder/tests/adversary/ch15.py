"""Answers to chapter 15 as learners write them: wrong ones must lose points, right ones none."""
# ruff: noqa: E501  (one case a line: what is changed stands beside what it becomes)

HELPERS = (
    "from attend_solutions.attention import scaled_dot_product_attention\n"
    "from attend_solutions.flash import expect_shapes, tiles\n"
    "from attend_solutions.linear_attention import elu_plus_one, expect_pairs\n"
)
HEADS = {
    "linear_attention": "(q, k, v):\n    expect_shapes(q, k, v)",
    "recurrent_form": "(q, k, v, state=None):\n    expect_pairs(q, k, v)",
    "chunked_form": "(q, k, v, chunk=64, state=None):\n    expect_pairs(q, k, v)\n    parts = tiles(q.shape[-2], chunk)",
    "causal_average": "(q, k, v):\n    weighted, _ = chunked_form(q, k, v)",
    "memory_width": "(pairs, error):\n    if pairs < 1 or error <= 0:\n        raise ValueError('bad')",
    "delta_rule_update": "(state, k, v, beta=1.0):",
    "positive_random_features": "(x, projection):\n    if x.shape[-1] != projection.shape[-1]:\n        raise ValueError('widths')",
    "performer_attention": "(q, k, v, projection):\n    expect_shapes(q, k, v)",
    "linformer_attention": "(q, k, v, project_k, project_v):\n    expect_shapes(q, k, v)\n    if project_k.shape != project_v.shape or project_k.shape[-1] != k.shape[-2]:\n        raise ValueError('(R, S)')",
}
GOOD = {
    "linear_attention": """
memory = np.swapaxes(k, -1, -2) @ v
total = k.sum(-2)
return (q @ memory) / (q * total[..., None, :]).sum(-1, keepdims=True)
""",
    "recurrent_form": """
S = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1])) if state is None else state
rows = []
for t in range(q.shape[-2]):
    S = S + np.einsum('...d,...e->...de', k[..., t, :], v[..., t, :])
    rows.append(np.einsum('...d,...de->...e', q[..., t, :], S))
return np.stack(rows, axis=-2), S
""",
    "chunked_form": """
S = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1])) if state is None else state
rows = []
for p in parts:
    Q, K, V = q[..., p, :], k[..., p, :], v[..., p, :]
    A = Q @ np.swapaxes(K, -1, -2)
    rows.append(Q @ S + np.tril(A) @ V)
    S = S + np.swapaxes(K, -1, -2) @ V
return np.concatenate(rows, axis=-2), S
""",
    "causal_average": """
running = np.cumsum(k, axis=-2)
total = np.einsum('...td,...td->...t', q, running)
return weighted / total[..., None]
""",
    "memory_width": """
others = pairs - 1
d = math.ceil(others / error)
return d if d > 1 else 1
""",
    "delta_rule_update": """
old = np.einsum('...de,...d->...e', state, k)
change = beta * (v - old)
return state + np.einsum('...d,...e->...de', k, change)
""",
    "positive_random_features": """
m = projection.shape[0]
half = 0.5 * (x * x).sum(-1, keepdims=True)
z = x @ projection.T
return np.exp(z - half) / np.sqrt(m)
""",
    "performer_attention": """
s = q.shape[-1] ** -0.25
fq = positive_random_features(q * s, projection)
fk = positive_random_features(k * s, projection)
return linear_attention(fq, fk, v)
""",
    "linformer_attention": """
K, V = project_k @ k, project_v @ v
z = q @ np.swapaxes(K, -1, -2) / np.sqrt(q.shape[-1])
p = np.exp(z - z.max(-1, keepdims=True))
return p / p.sum(-1, keepdims=True) @ V
""",
}


def _write(name: str, body: str) -> str:
    lines = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    return f"{HELPERS}def {name}{HEADS[name]}\n{lines}"


def _edit(name: str, old: str, new: str) -> str:
    assert GOOD[name].count(old) == 1, (name, old)
    return _write(name, GOOD[name].replace(old, new))


def _wrong(name: str, what: str, old: str, new: str) -> tuple[str, str, str, str]:
    return (name, "wrong", what, _edit(name, old, new))


def _right(name: str, what: str, body: str) -> tuple[str, str, str, str]:
    return (name, "right", what, _write(name, body))


def _bare(name: str, kind: str, what: str, body: str) -> tuple[str, str, str, str]:
    """Without the lines that refuse bad input."""
    head = HEADS[name].split("\n")[0]
    lines = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    return (name, kind, what, f"{HELPERS}def {name}{head}\n{lines}")


# fmt: off
CASES = [
    _bare("linear_attention", "wrong", "one key broadcasts over many values", """
memory = (k[..., :, :, None] * v[..., :, None, :]).sum(-3)
return q @ memory / (q @ k.sum(-2)[..., None])
"""),
    _wrong("linear_attention", "the sum of the keys is no column", "(q * total[..., None, :]).sum(-1, keepdims=True)", "(q @ total)[..., None]"),
    _bare("chunked_form", "wrong", "a chunk below 0 is the whole text", "expect_pairs(q, k, v)\nif chunk == 0:\n    raise ValueError('chunk')\nparts = tiles(q.shape[-2], chunk if chunk > 0 else q.shape[-2])\n" + GOOD["chunked_form"]),
    _bare("chunked_form", "wrong", "slices clip longer values", "if q.shape[-2:] != k.shape[-2:]:\n    raise ValueError('pairs')\nparts = tiles(q.shape[-2], chunk)\n" + GOOD["chunked_form"]),
    ("chunked_form", "wrong", "the recurrent form in each chunk", _write("chunked_form", """
rows = []
for p in parts:
    o, state = recurrent_form(q[..., p, :], k[..., p, :], v[..., p, :], state)
    rows.append(o)
return np.concatenate(rows, axis=-2), state
""")),
    _right("chunked_form", "one chunk, then the rest by recursion", """
p = parts[0]
Q, K, V = q[..., p, :], k[..., p, :], v[..., p, :]
turned = np.swapaxes(K, -1, -2)
out, S = np.tril(Q @ turned) @ V, turned @ V
if state is not None:
    out, S = out + Q @ state, S + state
if len(parts) == 1:
    return out, S
rest, S = chunked_form(q[..., p.stop:, :], k[..., p.stop:, :], v[..., p.stop:, :], chunk, S)
return np.concatenate([out, rest], axis=-2), S
"""),
    _bare("memory_width", "wrong", "only no pair at all is refused", "if pairs == 0 or error <= 0:\n    raise ValueError('bad')\nreturn max(1, math.ceil((pairs - 1) / error))"),
    _wrong("performer_attention", "a projection of width 1 broadcasts", "s = q", "positive_random_features = lambda x, w: np.exp((x[..., None, :] * w).sum(-1) - (x**2).sum(-1, keepdims=True) / 2)\ns = q"),
    _wrong("linformer_attention", "no maximum", " - z.max(-1, keepdims=True)", ""),
    _wrong("linformer_attention", "clipped for the maximum", "np.exp(z - z.max(-1, keepdims=True))", "np.exp(np.clip(z, -50, 50))"),
    _wrong("linear_attention", "no division", " / (q * total[..., None, :]).sum(-1, keepdims=True)", ""),
    _wrong("linear_attention", "divided by S", "(q * total[..., None, :]).sum(-1, keepdims=True)", "k.shape[-2]"),
    _wrong("linear_attention", "plain transpose", "np.swapaxes(k, -1, -2)", "k.T"),
    _wrong("linear_attention", "scaled by √D", "q @ memory)", "q @ memory / np.sqrt(q.shape[-1]))"),
    _wrong("linear_attention", "1e-6 for safety", "keepdims=True)", "keepdims=True) + 1e-6"),
    _wrong("linear_attention", "mean of the keys in the divisor", "k.sum(-2)", "k.mean(-2)"),
    _wrong("linear_attention", "total of one batch entry", "k.sum(-2)", "k.reshape(-1, *k.shape[-2:])[0].sum(-2)"),
    _wrong("linear_attention", "features again, inside", "memory = np", "q, k = elu_plus_one(q), elu_plus_one(k)\nmemory = np"),
    _wrong("linear_attention", "all weights", "return (q @ memory)", "return ((q @ np.swapaxes(k, -1, -2)) @ v)"),
    _wrong("linear_attention", "values changed in place", "total = k", "v -= 0.5\ntotal = k"),
    ("linear_attention", "wrong", "loop over keys", _write("linear_attention", """
num, den = 0.0, 0.0
for s in range(k.shape[-2]):
    w = (q * k[..., s:s + 1, :]).sum(-1, keepdims=True)
    num, den = num + w * v[..., s:s + 1, :], den + w
return num / den
""")),
    _right("linear_attention", "divides the queries first", """
total = k.sum(axis=-2, keepdims=True)
return (q / (q @ np.swapaxes(total, -1, -2))) @ (k.swapaxes(-1, -2) @ v)
"""),
    _right("linear_attention", "ones beside the values", """
wide = np.concatenate((v, np.ones_like(v[..., :1])), -1)
both = q @ (np.moveaxis(k, -1, -2) @ wide)
return both[..., :-1] / both[..., -1:]
"""),
    _right("linear_attention", "one einsum for each", """
top = np.einsum('...td,...de->...te', q, np.einsum('...sd,...se->...de', k, v))
return top / np.einsum('...td,...d->...t', q, np.sum(k, -2))[..., None]
"""),
    _wrong("recurrent_form", "reads first", "    S = S + np.einsum('...d,...e->...de', k[..., t, :], v[..., t, :])\n    rows.append(np.einsum('...d,...de->...e', q[..., t, :], S))", "    rows.append(np.einsum('...d,...de->...e', q[..., t, :], S))\n    S = S + np.einsum('...d,...e->...de', k[..., t, :], v[..., t, :])"),
    _wrong("recurrent_form", "in place", "S = S + np", "S += np"),
    _wrong("recurrent_form", "memory of the wrong way round", "return np.stack(rows, axis=-2), S", "return np.stack(rows, axis=-2), np.swapaxes(S, -1, -2)"),
    ("recurrent_form", "wrong", "an output buffer of the queries' type", _write("recurrent_form", """
S = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1])) if state is None else state
out = np.zeros((*q.shape[:-1], v.shape[-1]), dtype=q.dtype)
for t in range(q.shape[-2]):
    S = S + k[..., t, :, None] * v[..., t, None, :]
    out[..., t, :] = np.einsum('...d,...de->...e', q[..., t, :], S)
return out, S
""")),
    _wrong("recurrent_form", "stacked in front", "axis=-2), S", "axis=0), S"),
    _wrong("recurrent_form", "given memory added at the end only", "np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1])) if state is None else state", "np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))"),
    _wrong("recurrent_form", "fades", "S = S + np", "S = 0.9 * S + np"),
    _wrong("recurrent_form", "normalised keys", "k[..., t, :], v", "k[..., t, :] / np.linalg.norm(k[..., t, :], axis=-1, keepdims=True), v"),
    _wrong("recurrent_form", "delta rule", "v[..., t, :])", "v[..., t, :] - np.einsum('...d,...de->...e', k[..., t, :], S))"),
    _wrong("recurrent_form", "divides by the number of tokens read", "q[..., t, :], S))", "q[..., t, :], S) / (t + 1))"),
    _wrong("recurrent_form", "if state, which arrays do not have", "if state is None else state", "if state is None or not np.any(state[..., 0, :] > 0) else state"),
    _right("recurrent_form", "lists of memories", """
S = state if state is not None else np.zeros(k.shape[:-2] + (k.shape[-1], v.shape[-1]))
memories = []
for t in range(k.shape[-2]):
    S = np.add(S, k[..., t, :, np.newaxis] * v[..., t, np.newaxis, :])
    memories.append(S)
return (q[..., None, :] @ np.stack(memories, -3))[..., 0, :], S
"""),
    _right("recurrent_form", "itertools.accumulate", """
first = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1])) if state is None else state
outer = [k[..., t, :, None] * v[..., t, None, :] for t in range(k.shape[-2])]
all_s = list(itertools.accumulate(outer, initial=first))[1:]
return np.stack([(q[..., t, :, None] * s).sum(-2) for t, s in enumerate(all_s)], -2), all_s[-1]
"""),
    _right("recurrent_form", "the parallel form", """
A = np.tril(q @ np.swapaxes(k, -1, -2))
last = np.swapaxes(k, -1, -2) @ v
out = A @ v
return (out, last) if state is None else (out + q @ state, last + state)
"""),
    _wrong("chunked_form", "no mask", "np.tril(A)", "A"),
    _wrong("chunked_form", "upper triangle", "np.tril(A)", "np.triu(A)"),
    _wrong("chunked_form", "memory before reading", "    rows.append(Q @ S + np.tril(A) @ V)\n    S = S + np.swapaxes(K, -1, -2) @ V", "    S = S + np.swapaxes(K, -1, -2) @ V\n    rows.append(Q @ S + np.tril(A) @ V)"),
    _wrong("chunked_form", "memory overwritten", "S = S + np.swapaxes", "S = np.swapaxes"),
    _wrong("chunked_form", "in place", "S = S + np.swapaxes", "S += np.swapaxes"),
    _wrong("chunked_form", "chunk ignored, one matrix", "for p in parts:", "for p in [slice(None)]:"),
    _wrong("chunked_form", "chunk ignored, tokens", "for p in parts:", "for p in tiles(q.shape[-2], 1):"),
    _wrong("chunked_form", "keys read the memory", "Q @ S", "K @ S"),
    _wrong("chunked_form", "given memory dropped", " if state is None else state", ""),
    _wrong("chunked_form", "mask one too wide", "np.tril(A)", "np.tril(A, 1)"),
    _wrong("chunked_form", "scaled", "A = Q @ np.swapaxes(K, -1, -2)", "A = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])"),
    _wrong("chunked_form", "only whole chunks remembered", "    S = S + np", "    if K.shape[-2] == chunk:\n        S = S + np"),
    _right("chunked_form", "np.where for the mask", """
S = 0.0 if state is None else state
rows = []
for p in parts:
    A = np.einsum('...td,...sd->...ts', q[..., p, :], k[..., p, :])
    n = A.shape[-1]
    A = np.where(np.arange(n)[:, None] >= np.arange(n), A, 0.0)
    past = 0.0 if isinstance(S, float) else q[..., p, :] @ S
    rows.append(A @ v[..., p, :] + past)
    S = S + np.einsum('...sd,...se->...de', k[..., p, :], v[..., p, :])
return np.concatenate(rows, -2), S
"""),
    _right("chunked_form", "through the recurrent form's memory", """
out = np.empty((*q.shape[:-1], v.shape[-1]))
memory = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1])) if state is None else 1.0 * state
for p in parts:
    A = q[..., p, :] @ k[..., p, :].swapaxes(-1, -2)
    A = A * np.tri(A.shape[-1])
    out[..., p, :] = A @ v[..., p, :]
    out[..., p, :] += q[..., p, :] @ memory
    memory += k[..., p, :].swapaxes(-1, -2) @ v[..., p, :]
return out, memory
"""),
    _right("chunked_form", "an extra chunk's rows", """
S = np.zeros(k.shape[:-2] + (k.shape[-1], v.shape[-1])) if state is None else state
outs, i = [], 0
while i < q.shape[-2]:
    j = min(i + chunk, q.shape[-2])
    Kt = np.moveaxis(k[..., i:j, :], -1, -2)
    outs += [q[..., i:j, :] @ S + np.tril(q[..., i:j, :] @ Kt) @ v[..., i:j, :]]
    S, i = S + Kt @ v[..., i:j, :], j
return np.concatenate(outs, axis=-2), S
"""),
    _wrong("causal_average", "the whole text's keys", "np.cumsum(k, axis=-2)", "k.sum(axis=-2, keepdims=True)"),
    _wrong("causal_average", "the whole text's keys, by hand", "np.cumsum(k, axis=-2)", "np.broadcast_to(np.ones(k.shape[-2]) @ k, k.shape) if k.ndim == 2 else np.sum(k, -2, keepdims=True)"),
    _wrong("causal_average", "tokens counted", "np.einsum('...td,...td->...t', q, running)", "np.cumsum(np.ones(q.shape[:-1]), axis=-1)"),
    _wrong("causal_average", "own key missing", "np.cumsum(k, axis=-2)", "np.cumsum(k, axis=-2) - k + 1e-9"),
    _wrong("causal_average", "wrong axis", "axis=-2", "axis=-1"),
    _wrong("causal_average", "first axis", "axis=-2", "axis=0"),
    _wrong("causal_average", "running mean in the place of the sum", "total = np", "running = running / np.arange(1, k.shape[-2] + 1)[:, None]\ntotal = np"),
    _wrong("causal_average", "softmaxed divisor", "np.cumsum(k, axis=-2)", "np.exp(np.cumsum(k, axis=-2))"),
    _wrong("causal_average", "divided by the largest total", "total[..., None]", "total.max(-1)[..., None, None]"),
    _wrong("causal_average", "keys changed in place", "running = np.cumsum(k, axis=-2)", "running = np.cumsum(k, axis=-2)\nk *= 1.0\nk += 1.0"),
    _right("causal_average", "chunked form of ones", """
ones, _ = chunked_form(q, k, np.ones((*k.shape[:-1], 1)))
return weighted / ones
"""),
    _right("causal_average", "lower triangle", """
return weighted / np.tril(q @ np.swapaxes(k, -1, -2)).sum(-1, keepdims=True)
"""),
    _right("causal_average", "add.accumulate", """
return weighted / np.sum(q * np.add.accumulate(1.0 * k, axis=k.ndim - 2), axis=-1)[..., None]
"""),
    _wrong("memory_width", "all pairs", "pairs - 1", "pairs"),
    _wrong("memory_width", "rounded down", "math.ceil(", "math.floor("),
    _wrong("memory_width", "a float", "math.ceil(others / error)", "float(math.ceil(others / error))"),
    _wrong("memory_width", "one more for safety", "return d if d > 1 else 1", "return d + 1"),
    _wrong("memory_width", "twice for safety", "math.ceil(", "2 * math.ceil("),
    _wrong("memory_width", "error squared", "/ error", "/ error**2"),
    _wrong("memory_width", "as many as pairs", "math.ceil(others / error)", "max(pairs, 1)"),
    _wrong("memory_width", "a power of two", "d = math.ceil(others / error)", "d = 1\nwhile d < others / error:\n    d *= 2"),
    _wrong("memory_width", "NumPy number", "math.ceil(others / error)", "np.ceil(others / error)"),
    _wrong("memory_width", "1 + error", "/ error", "/ (1 + error)"),
    _right("memory_width", "divmod", """
whole, rest = divmod(pairs - 1, error)
return max(1, int(whole) + (1 if rest > 0 else 0))
"""),
    _right("memory_width", "doubling, then bisection", """
low, high = 0, 1
while (pairs - 1) / high > error:
    high *= 2
while high - low > 1:
    middle = (low + high) // 2
    low, high = (low, middle) if (pairs - 1) / middle <= error else (middle, high)
return high
"""),
    _right("memory_width", "NumPy, made an int", """
return int(max(np.ceil((pairs - 1) / error), 1))
"""),
    _wrong("delta_rule_update", "adds", "(v - old)", "v"),
    _wrong("delta_rule_update", "the other way", "(v - old)", "(old - v)"),
    _wrong("delta_rule_update", "beta twice", "beta * (v - old)", "beta * beta * (v - old)"),
    _wrong("delta_rule_update", "beta for the value only", "beta * (v - old)", "beta * v - old"),
    _wrong("delta_rule_update", "no beta", "beta * (v - old)", "v - old"),
    _wrong("delta_rule_update", "in place", "return state + np", "state += np.einsum('...d,...e->...de', k, change)\nreturn state\nreturn state + np"),
    _wrong("delta_rule_update", "key of norm 1", "old = np", "k = k / np.linalg.norm(k, axis=-1, keepdims=True)\nold = np"),
    _wrong("delta_rule_update", "replaces the memory", "return state + np", "return np"),
    _wrong("delta_rule_update", "reads along the values where square", "'...de,...d->...e', state, k", "'...de,...d->...e', np.swapaxes(state, -1, -2) if state.shape[-1] == state.shape[-2] else state, k"),
    _wrong("delta_rule_update", "single vectors only", "np.einsum('...d,...e->...de', k, change)", "np.outer(k, change)"),
    _wrong("delta_rule_update", "all rows corrected alike", "np.einsum('...d,...e->...de', k, change)", "change[..., None, :]"),
    _right("delta_rule_update", "projection", """
eye = np.eye(k.shape[-1])
keep = eye - beta * k[..., :, None] * k[..., None, :]
return keep @ state + beta * k[..., :, None] * v[..., None, :]
"""),
    _right("delta_rule_update", "gradient", """
error = (np.swapaxes(state, -1, -2) @ k[..., None])[..., 0] - v
gradient = np.multiply(k[..., None], np.expand_dims(error, -2))
return state - gradient * beta
"""),
    _right("delta_rule_update", "through recurrent_form", """
old = (k[..., None, :] @ state)
out, new = recurrent_form(k[..., None, :], k[..., None, :], beta * (v[..., None, :] - old), state)
return new
"""),
    _wrong("positive_random_features", "no norm", "z - half", "z"),
    _wrong("positive_random_features", "whole norm", "0.5 * ", ""),
    _wrong("positive_random_features", "sum, not mean", " / np.sqrt(m)", ""),
    _wrong("positive_random_features", "√D", "np.sqrt(m)", "np.sqrt(x.shape[-1])"),
    _wrong("positive_random_features", "norm of the directions", "(x * x).sum(-1, keepdims=True)", "(projection * projection).sum(-1)"),
    _wrong("positive_random_features", "overflow", "np.exp(z - half)", "np.exp(z) / np.exp(half)"),
    _wrong("positive_random_features", "shifted by the largest", "np.exp(z - half)", "np.exp(z - half - (z - half).max(-1, keepdims=True))"),
    _wrong("positive_random_features", "directions made unit", "z = x @ projection.T", "z = x @ (projection / np.linalg.norm(projection, axis=1, keepdims=True)).T"),
    _wrong("positive_random_features", "scaled by D^1/4 already", "half = 0.5", "x = x / x.shape[-1] ** 0.25\nhalf = 0.5"),
    _wrong("positive_random_features", "both signs of every direction", "return np.exp(z - half) / np.sqrt(m)", "return np.concatenate([np.exp(z - half), np.exp(-z - half)], -1) / np.sqrt(2 * m)"),
    _wrong("positive_random_features", "squares in place", "half = 0.5 * (x * x).sum(-1, keepdims=True)\nz = x @ projection.T", "z = x @ projection.T\nx *= x\nhalf = 0.5 * x.sum(-1, keepdims=True)"),
    _right("positive_random_features", "norm by np.linalg", """
half = np.linalg.norm(x, axis=-1, keepdims=True) ** 2 / 2
return np.exp(np.matmul(x, projection.T) - half) * len(projection) ** -0.5
"""),
    _right("positive_random_features", "feature by feature", """
half = (1.0 * x * x).sum(-1) / 2
rows = [np.exp((x * w).sum(-1) - half) for w in projection]
return np.stack(rows, axis=-1) / math.sqrt(len(rows))
"""),
    _right("positive_random_features", "logarithm of the root inside", """
z = np.einsum('...d,md->...m', x, projection)
z = z - np.square(x).sum(-1)[..., None] / 2 - math.log(projection.shape[0]) / 2
return np.exp(z)
"""),
    _wrong("performer_attention", "√D on each side", "-0.25", "-0.5"),
    _wrong("performer_attention", "no scale", "s = q.shape[-1] ** -0.25", "s = 1.0"),
    _wrong("performer_attention", "scale on the queries", "positive_random_features(k * s, projection)", "positive_random_features(k, projection)"),
    _wrong("performer_attention", "width of the values", "q.shape[-1]", "v.shape[-1]"),
    _wrong("performer_attention", "elu + 1 in place of features", "fk = positive_random_features(k * s, projection)", "fq, fk = elu_plus_one(q), elu_plus_one(k)"),
    _wrong("performer_attention", "not normalised", "linear_attention(fq, fk, v)", "fq @ (np.swapaxes(fk, -1, -2) @ v)"),
    _wrong("performer_attention", "multiplied, not divided", "-0.25", "0.25"),
    _wrong("performer_attention", "exact", "return linear_attention(fq, fk, v)", "return scaled_dot_product_attention(q, k, v)[0]"),
    _wrong("performer_attention", "causal", "linear_attention(fq, fk, v)", "(causal_average(fq, fk, v) if q.shape == k.shape else linear_attention(fq, fk, v))"),
    _wrong("performer_attention", "fresh directions for the keys", "positive_random_features(k * s, projection)", "positive_random_features(k * s, projection[::-1])"),
    _right("performer_attention", "projection scaled", """
root = math.sqrt(math.sqrt(k.shape[-1]))
mapped = [positive_random_features(np.asarray(x) / root, projection) for x in (q, k)]
return linear_attention(*mapped, v)
"""),
    _right("performer_attention", "memory by hand", """
fq, fk = (positive_random_features(x / q.shape[-1] ** 0.25, projection) for x in (q, k))
num = fq @ (fk.swapaxes(-1, -2) @ v)
return num / (fq @ fk.sum(-2)[..., None])
"""),
    _right("performer_attention", "features without 1/√M", """
root, m = q.shape[-1] ** 0.25, len(projection) ** 0.5
return linear_attention(m * positive_random_features(q / root, projection), m * positive_random_features(k / root, projection), v)
"""),
    _wrong("linformer_attention", "one projection", "project_v @ v", "project_k @ v"),
    _wrong("linformer_attention", "no scale", " / np.sqrt(q.shape[-1])", ""),
    _wrong("linformer_attention", "scaled by √R", "np.sqrt(q.shape[-1])", "np.sqrt(K.shape[-2])"),
    _wrong("linformer_attention", "no softmax", "p = np.exp(z - z.max(-1, keepdims=True))", "p = z"),
    _wrong("linformer_attention", "softmax over the queries", "p.sum(-1", "p.sum(-2"),
    _wrong("linformer_attention", "weights normalised over all", "p.sum(-1, keepdims=True)", "p.sum(axis=(-1, -2), keepdims=True)"),
    _wrong("linformer_attention", "projections swapped", "project_k @ k, project_v @ v", "project_v @ k, project_k @ v"),
    _wrong("linformer_attention", "keys not mixed", "return p / p.sum(-1, keepdims=True) @ V", "return scaled_dot_product_attention(q, k, v)[0]"),
    _wrong("linformer_attention", "mixtures averaged", "project_k @ k,", "project_k @ k / k.shape[-2],"),
    _wrong("linformer_attention", "rows of the projections sum to 1", "K, V = project_k @ k, project_v @ v", "K, V = (p / p.sum(-1, keepdims=True) @ x for p, x in ((project_k, k), (project_v, v)))"),
    _right("linformer_attention", "chapter 03 on mixtures", """
out, _ = scaled_dot_product_attention(q, np.matmul(project_k, k), np.matmul(project_v, v))
return out
"""),
    _right("linformer_attention", "tensordot", """
K = np.moveaxis(np.tensordot(project_k, k, axes=(1, k.ndim - 2)), 0, -2)
V = np.moveaxis(np.tensordot(project_v, v, axes=(1, v.ndim - 2)), 0, -2)
return scaled_dot_product_attention(q, K, V)[0]
"""),
    _right("linformer_attention", "logsumexp", """
z = np.einsum('...td,rs,...sd->...tr', q, project_k, k) * q.shape[-1] ** -0.5
p = np.exp(z - np.logaddexp.reduce(z, axis=-1, keepdims=True))
return p @ (project_v @ v)
"""),
    # floors, caps and cuts that usual sizes do not reach
    _wrong("linear_attention", "divisor at least 1", "(q * total[..., None, :]).sum(-1, keepdims=True)", "np.clip((q * total[..., None, :]).sum(-1, keepdims=True), 1, None)"),
    _wrong("linear_attention", "divisor at least 0.01", "(q * total[..., None, :]).sum(-1, keepdims=True)", "np.maximum((q * total[..., None, :]).sum(-1, keepdims=True), 0.01)"),
    ("linear_attention", "wrong", "0 where the weight is small", _write("linear_attention", """
num = q @ (np.swapaxes(k, -1, -2) @ v)
den = q @ k.sum(-2)[..., None]
return np.divide(num, den, out=np.zeros(num.shape), where=den > 1e-2)
""")),
    ("recurrent_form", "wrong", "memories written back into the caller's array", _write("recurrent_form", """
S = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1])) if state is None else state
if q.ndim > 2:
    out = np.zeros(v.shape)
    for i in range(len(q)):
        out[i], S[i] = recurrent_form(q[i], k[i], v[i], S[i])
    return out, S
rows = []
for t in range(q.shape[-2]):
    S = S + np.outer(k[t], v[t])
    rows.append(q[t] @ S)
return np.stack(rows), S
""")),
    _right("recurrent_form", "one leading index after the other", """
S = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1])) if state is None else np.array(state, float)
out = np.zeros(v.shape)
for i in np.ndindex(q.shape[:-2]):
    for t in range(q.shape[-2]):
        S[i] += np.outer(k[i][t], v[i][t])
        out[i][t] = q[i][t] @ S[i]
return out, S
"""),
    ("chunked_form", "wrong", "memories written back into a copy of the caller's type", _write("chunked_form", """
S = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1])) if state is None else state
if q.ndim > 2:
    S, out = S.copy(), np.zeros(v.shape)
    for i in range(len(q)):
        out[i], S[i] = chunked_form(q[i], k[i], v[i], chunk, S[i])
    return out, S
""" + GOOD["chunked_form"].replace("S = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1])) if state is None else state\n", ""))),
    _bare("chunked_form", "wrong", "keys of width 1 broadcast", "if k.shape[-2] != q.shape[-2] or v.shape[-2] != q.shape[-2]:\n    raise ValueError('pairs')\nk = np.broadcast_to(k, q.shape)\nparts = tiles(q.shape[-2], chunk)\n" + GOOD["chunked_form"]),
    _bare("chunked_form", "wrong", "at most 32 tokens, whatever the chunk", "expect_pairs(q, k, v)\nparts = tiles(q.shape[-2], min(chunk, 32))\n" + GOOD["chunked_form"]),
    _wrong("chunked_form", "last chunk not remembered", "    S = S + np.swapaxes(K, -1, -2) @ V", "    if p != parts[-1]:\n        S = S + np.swapaxes(K, -1, -2) @ V"),
    _wrong("chunked_form", "output in the type of the values", "return np.concatenate(rows, axis=-2), S", "return np.concatenate(rows, axis=-2).astype(v.dtype), S"),
    ("causal_average", "wrong", "the running sum restarts with each chunk", _write("causal_average", """
sums = [np.cumsum(k[..., s:s + 64, :], axis=-2) for s in range(0, k.shape[-2], 64)]
return weighted / (q * np.concatenate(sums, axis=-2)).sum(-1, keepdims=True)
""")),
    ("causal_average", "wrong", "each chunk by itself", _write("causal_average", """
parts = tiles(q.shape[-2], 64)
weighted = np.concatenate([chunked_form(q[..., p, :], k[..., p, :], v[..., p, :])[0] for p in parts], -2)
return weighted / (q * np.cumsum(k, axis=-2)).sum(-1, keepdims=True)
""")),
    _wrong("causal_average", "divisor at least 1", "total[..., None]", "np.maximum(total, 1.0)[..., None]"),
    _wrong("memory_width", "rounded to one decimal first", "math.ceil(others / error)", "math.ceil(round(others / error, 1))"),
    _wrong("memory_width", "a little less, then up", "math.ceil(others / error)", "math.ceil(others / error - 0.01)"),
    _wrong("memory_width", "nothing above 1,000", "return d if d > 1 else 1", "return min(max(d, 1), 1000)"),
    _wrong("delta_rule_update", "beta a whole number", "change = beta", "change = int(beta)"),
    _wrong("delta_rule_update", "mean over the values", "(v - old)", "(v - old) / v.shape[-1]"),
    _wrong("positive_random_features", "exponent clipped on both sides", "np.exp(z - half)", "np.exp(np.clip(z - half, -50, 50))"),
    _wrong("positive_random_features", "exponent at most 10", "np.exp(z - half)", "np.exp(np.minimum(z - half, 10))"),
    _bare("positive_random_features", "wrong", "wider directions cut", "projection = projection[:, :x.shape[-1]]\n" + GOOD["positive_random_features"]),
    _bare("positive_random_features", "wrong", "only narrower directions refused", "if projection.shape[-1] < x.shape[-1]:\n    raise ValueError('widths')\nprojection = projection[:, :x.shape[-1]]\n" + GOOD["positive_random_features"]),
    _wrong("performer_attention", "wider directions cut", "s = q.shape[-1] ** -0.25", "s = q.shape[-1] ** -0.25\nprojection = projection[:, :q.shape[-1]]"),
    _bare("performer_attention", "wrong", "more values than keys cut", "v = v[..., :k.shape[-2], :]\n" + GOOD["performer_attention"]),
    _wrong("performer_attention", "fourth root rounded", "q.shape[-1] ** -0.25", "1 / round(q.shape[-1] ** 0.25)"),
    _wrong("linformer_attention", "one maximum for the table", "z.max(-1, keepdims=True)", "z.max()"),
    _wrong("linformer_attention", "one maximum for a leading index", "z.max(-1, keepdims=True)", "z.max(axis=(-1, -2), keepdims=True)"),
    _wrong("linformer_attention", "mean subtracted", "z.max(-1", "z.mean(-1"),
    _wrong("linformer_attention", "scaled by √D_v", "np.sqrt(q.shape[-1])", "np.sqrt(v.shape[-1])"),
    _wrong("linformer_attention", "scaled by √S", "np.sqrt(q.shape[-1])", "np.sqrt(k.shape[-2])"),
    _bare("linformer_attention", "wrong", "wider projections cut", "expect_shapes(q, k, v)\nS = k.shape[-2]\nif project_k.shape[-1] < S or project_v.shape[-1] < S:\n    raise ValueError('columns')\nreturn scaled_dot_product_attention(q, project_k[:, :S] @ k, project_v[:, :S] @ v)[0]"),
    _bare("linformer_attention", "wrong", "more values than keys cut", "S = k.shape[-2]\nif project_k.shape != project_v.shape or project_k.shape[-1] != S:\n    raise ValueError('columns')\nreturn scaled_dot_product_attention(q, project_k @ k, project_v @ v[..., :S, :])[0]"),
    _bare("linformer_attention", "wrong", "as many mixtures as both have", "expect_shapes(q, k, v)\nif project_k.shape[-1] != k.shape[-2] or project_v.shape[-1] != k.shape[-2]:\n    raise ValueError('columns')\nR = min(len(project_k), len(project_v))\nreturn scaled_dot_product_attention(q, project_k[:R] @ k, project_v[:R] @ v)[0]"),
    _bare("linformer_attention", "wrong", "a projection of width 1 broadcasts", "expect_shapes(q, k, v)\nreturn scaled_dot_product_attention(q, np.einsum('rs,...sd->...rd', project_k, k), np.einsum('rs,...sd->...rd', project_v, v))[0]"),
    _wrong("linformer_attention", "the weights", "return p / p.sum(-1, keepdims=True) @ V", "return p / p.sum(-1, keepdims=True)"),
    # small numbers added, types that cut, arguments behind np.asarray, axes of length 1
    _bare("linear_attention", "wrong", "1e-8 added to the divisor", """
expect_shapes(q, k, v)
num = q @ (np.swapaxes(k, -1, -2) @ v)
return num / (q @ k.sum(axis=-2)[..., None] + 1e-8)
"""),
    _bare("linear_attention", "wrong", "q normalised in place through asarray (the scale cancels)", """
expect_shapes(q, k, v)
q = np.asarray(q, dtype=float)
q /= q.sum(axis=-1, keepdims=True)
return q @ (np.swapaxes(k, -1, -2) @ v) / (q @ k.sum(axis=-2)[..., None])
"""),
    _bare("linear_attention", "wrong", "einsum, expect_shapes deleted: one value goes with five keys", """
memory = np.einsum("...sd,...se->...de", k, v)
total = np.einsum("...td,...sd->...t", q, k)
return np.einsum("...td,...de->...te", q, memory) / total[..., None]
"""),
    _bare("linear_attention", "wrong", "result written into a buffer of v's type", """
expect_shapes(q, k, v)
out = np.empty(q.shape[:-1] + v.shape[-1:], dtype=v.dtype)
out[...] = q @ (np.swapaxes(k, -1, -2) @ v) / (q @ k.sum(axis=-2)[..., None])
return out
"""),
    _bare("linear_attention", "right", "loop over features", """
expect_shapes(q, k, v)
num, den = 0.0, 0.0
for d in range(k.shape[-1]):
    column = k[..., :, d]
    num = num + q[..., :, d, None] * (column[..., None, :] @ v)
    den = den + q[..., :, d, None] * column.sum(axis=-1)[..., None, None]
return num / den
"""),
    _bare("linear_attention", "right", "memory of means, keys' sum by ones, float64 throughout", """
expect_shapes(q, k, v)
q, k, v = (np.array(a, dtype=np.float64) for a in (q, k, v))
kt = np.moveaxis(k, -1, -2)
z = kt @ np.ones((k.shape[-2], 1))
return np.true_divide(q @ (kt @ v), q @ z)
"""),
    _bare("recurrent_form", "wrong", "state changed through asarray(float), no copy of float64", """
expect_pairs(q, k, v)
state = np.zeros(k.shape[:-2] + (k.shape[-1], v.shape[-1])) if state is None else state

memory = np.asarray(state, dtype=float)
out = []
for t in range(q.shape[-2]):
    memory += k[..., t, :, None] * v[..., t, None, :]
    out.append((q[..., t, None, :] @ memory)[..., 0, :])
return np.stack(out, axis=-2), memory
"""),
    _bare("recurrent_form", "wrong", "outputs in zeros_like(v)", """
expect_pairs(q, k, v)
state = np.zeros(k.shape[:-2] + (k.shape[-1], v.shape[-1])) if state is None else state

out = np.zeros_like(v)
for t in range(q.shape[-2]):
    state = state + k[..., t, :, None] * v[..., t, None, :]
    out[..., t, :] = (q[..., t, None, :] @ state)[..., 0, :]
return out, state
"""),
    _bare("recurrent_form", "wrong", "expect_pairs deleted: more keys and values than queries are dropped in silence", """
state = np.zeros(k.shape[:-2] + (k.shape[-1], v.shape[-1])) if state is None else state

out = []
for t in range(q.shape[-2]):
    state = state + k[..., t, :, None] * v[..., t, None, :]
    out.append((q[..., t, None, :] @ state)[..., 0, :])
return np.stack(out, axis=-2), state
"""),
    _bare("recurrent_form", "wrong", "squeeze() of the output rows", """
expect_pairs(q, k, v)
state = np.zeros(k.shape[:-2] + (k.shape[-1], v.shape[-1])) if state is None else state

out = []
for t in range(q.shape[-2]):
    state = state + k[..., t, :, None] * v[..., t, None, :]
    out.append((q[..., t, None, :] @ state).squeeze())
return np.stack(out, axis=-2), state
"""),
    _bare("recurrent_form", "right", "columns: transposed memory inside, turned back at the end", """
expect_pairs(q, k, v)
st = np.zeros(k.shape[:-2] + (v.shape[-1], k.shape[-1])) if state is None else np.swapaxes(state, -1, -2)
cols = []
for t in range(q.shape[-2]):
    s = slice(t, t + 1)
    st = st + np.swapaxes(v[..., s, :], -1, -2) @ k[..., s, :]
    cols.append(st @ np.swapaxes(q[..., s, :], -1, -2))
return np.swapaxes(np.concatenate(cols, axis=-1), -1, -2), np.swapaxes(st, -1, -2)
"""),
    _bare("recurrent_form", "right", "while loop, result type worked out, state as a keyword default of 0", """
expect_pairs(q, k, v)
state = 0 if state is None else state
kind = np.result_type(q, k, v, float)
out, t = np.empty(v.shape, dtype=kind), 0
while t < v.shape[-2]:
    state = state + np.einsum("...i,...j->...ij", k[..., t, :], v[..., t, :])
    out[..., t, :] = np.einsum("...i,...ij->...j", q[..., t, :], state)
    t += 1
return (out, state)
"""),
    _bare("chunked_form", "wrong", "the parallel form, T x T, whatever the chunk", """
expect_pairs(q, k, v)
parts = tiles(q.shape[-2], chunk)
state = np.zeros(k.shape[:-2] + (k.shape[-1], v.shape[-1])) if state is None else state

kt = np.swapaxes(k, -1, -2)
return q @ state + np.tril(q @ kt) @ v, state + kt @ v
"""),
    _bare("chunked_form", "wrong", "state changed through asarray(float)", """
expect_pairs(q, k, v)
parts = tiles(q.shape[-2], chunk)
state = np.zeros(k.shape[:-2] + (k.shape[-1], v.shape[-1])) if state is None else state

memory = np.asarray(state, dtype=float)
out = []
for p in parts:
    a, b, c = q[..., p, :], k[..., p, :], v[..., p, :]
    out.append(a @ memory + np.tril(a @ np.swapaxes(b, -1, -2)) @ c)
    memory += np.swapaxes(b, -1, -2) @ c
return np.concatenate(out, axis=-2), memory
"""),
    _bare("chunked_form", "wrong", "own range instead of tiles: a chunk of -1 gives zeros", """
expect_pairs(q, k, v)
state = np.zeros(k.shape[:-2] + (k.shape[-1], v.shape[-1])) if state is None else state

out = np.zeros(v.shape)
for start in range(0, q.shape[-2], chunk):
    p = slice(start, start + chunk)
    a, b, c = q[..., p, :], k[..., p, :], v[..., p, :]
    out[..., p, :] = a @ state + np.tril(a @ np.swapaxes(b, -1, -2)) @ c
    state = state + np.swapaxes(b, -1, -2) @ c
return out, state
"""),
    _bare("chunked_form", "wrong", "outputs in a buffer of q's type", """
expect_pairs(q, k, v)
parts = tiles(q.shape[-2], chunk)
state = np.zeros(k.shape[:-2] + (k.shape[-1], v.shape[-1])) if state is None else state

out = np.zeros(v.shape, dtype=q.dtype)
for p in parts:
    a, b, c = q[..., p, :], k[..., p, :], v[..., p, :]
    out[..., p, :] = a @ state + np.tril(a @ np.swapaxes(b, -1, -2)) @ c
    state = state + np.swapaxes(b, -1, -2) @ c
return out, state
"""),
    _bare("chunked_form", "right", "calls itself on two halves of the chunks", """
expect_pairs(q, k, v)
parts = tiles(q.shape[-2], chunk)
if state is None:
    state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
if len(parts) == 1:
    kt = np.swapaxes(k, -1, -2)
    return q @ state + np.tril(q @ kt) @ v, state + kt @ v
cut = parts[len(parts) // 2].start
left, state = chunked_form(q[..., :cut, :], k[..., :cut, :], v[..., :cut, :], chunk, state)
right, state = chunked_form(q[..., cut:, :], k[..., cut:, :], v[..., cut:, :], chunk, state)
return np.concatenate([left, right], axis=-2), state
"""),
    _bare("chunked_form", "right", "np.where with aranges, float copy in place, einsum", """
expect_pairs(q, k, v)
parts = tiles(q.shape[-2], chunk)
state = np.zeros(k.shape[:-2] + (k.shape[-1], v.shape[-1])) if state is None else state

memory = np.array(state, dtype=np.float64)
out = np.empty(v.shape)
for p in parts:
    a, b, c = q[..., p, :], k[..., p, :], v[..., p, :]
    n = np.arange(a.shape[-2])
    scores = np.where(n[:, None] >= n, np.einsum("...td,...sd->...ts", a, b), 0.0)
    out[..., p, :] = np.einsum("...ts,...sv->...tv", scores, c)
    out[..., p, :] += np.einsum("...td,...dv->...tv", a, memory)
    memory += np.einsum("...sd,...sv->...dv", b, c)
return out, memory
"""),
    _bare("causal_average", "wrong", "1e-8 added to the divisor", """
weighted, _ = chunked_form(q, k, v)

total = (q * np.cumsum(k, axis=-2)).sum(axis=-1, keepdims=True)
return weighted / (total + 1e-8)
"""),
    _bare("causal_average", "wrong", "cumsum into k itself", """
weighted, _ = chunked_form(q, k, v)

np.cumsum(k, axis=-2, out=k)
return weighted / (q * k).sum(axis=-1, keepdims=True)
"""),
    _bare("causal_average", "wrong", "running sum in q's type: cuts float keys where q holds integers", """
weighted, _ = chunked_form(q, k, v)

total = (q * np.cumsum(k, axis=-2, dtype=q.dtype)).sum(axis=-1, keepdims=True)
return weighted / total
"""),
    _bare("causal_average", "wrong", "running sum starts anew every 64 tokens, as the chunks do", """
weighted, _ = chunked_form(q, k, v)

sums = [np.cumsum(k[..., i : i + 64, :], axis=-2) for i in range(0, k.shape[-2], 64)]
total = (q * np.concatenate(sums, axis=-2)).sum(axis=-1, keepdims=True)
return weighted / total
"""),
    _bare("causal_average", "right", "ones beside v, one token a chunk", """
both, _ = chunked_form(q, k, np.append(v, np.ones_like(v[..., :1]), axis=-1), chunk=1)
return both[..., :-1] / both[..., -1:]
"""),
    _bare("causal_average", "right", "loop, running sums", """
rows, s, z = [], 0.0, 0.0
for t in range(q.shape[-2]):
    s = s + np.einsum("...d,...v->...dv", k[..., t, :], v[..., t, :])
    z = z + k[..., t, :]
    rows.append(np.einsum("...d,...dv->...v", q[..., t, :], s) / np.einsum("...d,...d->...", q[..., t, :], z)[..., None])
return np.stack(rows, axis=-2)
"""),
    _bare("memory_width", "wrong", "a NumPy integer", """
if pairs < 1 or error <= 0:
    raise ValueError('bad')
return np.maximum(1, np.ceil((pairs - 1) / error)).astype(int)
"""),
    _bare("memory_width", "wrong", "no pair gives 1, the check for pairs deleted", """
if error <= 0:
    raise ValueError('bad')
return max(1, math.ceil((pairs - 1) / error))
"""),
    _bare("memory_width", "wrong", "searches up to 10,000 only", """
if pairs < 1 or error <= 0:
    raise ValueError('bad')

for d in range(1, 10_000):
    if (pairs - 1) / d <= error:
        return d
return 10_000
"""),
    _bare("memory_width", "wrong", "a tolerance of 0.01 before rounding up", """
if pairs < 1 or error <= 0:
    raise ValueError('bad')
return max(1, math.ceil((pairs - 1) / error - 0.01))
"""),
    _bare("memory_width", "right", "floor division of the negative", """
if pairs < 1 or error <= 0:
    raise ValueError('bad')
return int(-(-(pairs - 1) // error)) or 1
"""),
    _bare("memory_width", "right", "np.ceil, then int", """
if pairs < 1 or error <= 0:
    raise ValueError('bad')
return int(max(np.ceil(np.divide(pairs - 1, error)), 1))
"""),
    _bare("delta_rule_update", "wrong", "v changed through asarray(float)", """
wrong = np.asarray(v, dtype=float)
wrong -= (k[..., None, :] @ state)[..., 0, :]
return state + beta * k[..., :, None] * wrong[..., None, :]
"""),
    _bare("delta_rule_update", "wrong", "new memory in zeros_like(state)", """
said = (k[..., None, :] @ state)[..., 0, :]
new = np.zeros_like(state)
new[...] = state + beta * k[..., :, None] * (v - said)[..., None, :]
return new
"""),
    _bare("delta_rule_update", "wrong", "beta or 1.0: a step of 0 becomes 1", """
beta = beta or 1.0
said = (k[..., None, :] @ state)[..., 0, :]
return state + beta * k[..., :, None] * (v - said)[..., None, :]
"""),
    _bare("delta_rule_update", "wrong", "beta * k in k's type", """
said = (k[..., None, :] @ state)[..., 0, :]
step = (beta * k).astype(k.dtype)
return state + step[..., :, None] * (v - said)[..., None, :]
"""),
    _bare("delta_rule_update", "right", "forget, then recurrent_form writes", """
said = np.einsum("...d,...dv->...v", k, state)
_, new = recurrent_form(k[..., None, :], k[..., None, :], (beta * (v - said))[..., None, :], state)
return new
"""),
    _bare("delta_rule_update", "right", "between old and fully corrected", """
said = (state * k[..., None]).sum(axis=-2)
full = state + k[..., None] * np.expand_dims(v - said, axis=-2)
return (1 - beta) * state + beta * full
"""),
    _bare("positive_random_features", "wrong", "exponents cut at -100 and 100", """
if x.shape[-1] != projection.shape[-1]:
    raise ValueError('width')

e = x @ projection.T - (x**2).sum(axis=-1, keepdims=True) / 2
return np.exp(np.clip(e, -100, 100)) / np.sqrt(projection.shape[0])
"""),
    _bare("positive_random_features", "wrong", "x squared in place through asarray", """
if x.shape[-1] != projection.shape[-1]:
    raise ValueError('width')

x = np.asarray(x, dtype=float)
along = x @ projection.T
x **= 2
return np.exp(along - x.sum(axis=-1, keepdims=True) / 2) / np.sqrt(projection.shape[0])
"""),
    _bare("positive_random_features", "wrong", "features in a buffer of the projection's type", """
if x.shape[-1] != projection.shape[-1]:
    raise ValueError('width')

out = np.empty(x.shape[:-1] + projection.shape[:1], dtype=projection.dtype)
out[...] = np.exp(x @ projection.T - (x**2).sum(axis=-1, keepdims=True) / 2) / np.sqrt(projection.shape[0])
return out
"""),
    _bare("positive_random_features", "wrong", "broadcasting, the check deleted: a projection of width 1 fits all", """
along = (x[..., None, :] * projection).sum(axis=-1)
return np.exp(along - (x**2).sum(axis=-1, keepdims=True) / 2) / np.sqrt(len(projection))
"""),
    _bare("positive_random_features", "right", "by columns, a direction at a time", """
if x.shape[-1] != projection.shape[-1]:
    raise ValueError('width')

half = np.sum(np.square(x), axis=-1) / 2
return np.stack([np.exp((x * w).sum(-1) - half) for w in projection], axis=-1) / math.sqrt(len(projection))
"""),
    _bare("positive_random_features", "right", "x . (w - x/2)", """
if x.shape[-1] != projection.shape[-1]:
    raise ValueError('width')

x = np.asarray(x) * 1.0
return np.exp((x[..., None, :] * (projection - x[..., None, :] / 2)).sum(axis=-1)) / projection.shape[0] ** 0.5
"""),
    _bare("performer_attention", "wrong", "a T x S table of feature products", """
expect_shapes(q, k, v)

s = q.shape[-1] ** 0.25
a, b = positive_random_features(q / s, projection), positive_random_features(k / s, projection)
weights = a @ np.swapaxes(b, -1, -2)
return (weights / weights.sum(axis=-1, keepdims=True)) @ v
"""),
    _bare("performer_attention", "wrong", "k divided in place through asarray", """
expect_shapes(q, k, v)

s = q.shape[-1] ** 0.25
k = np.asarray(k, dtype=float)
k /= s
return linear_attention(positive_random_features(q / s, projection), positive_random_features(k, projection), v)
"""),
    _bare("performer_attention", "wrong", "scaled k in k's type", """
expect_shapes(q, k, v)

s = q.shape[-1] ** 0.25
small = np.empty_like(k)
small[...] = k / s
return linear_attention(positive_random_features(q / s, projection), positive_random_features(small, projection), v)
"""),
    _bare("performer_attention", "wrong", "a wider projection is cut to fit", """
expect_shapes(q, k, v)

s, projection = q.shape[-1] ** 0.25, projection[:, : q.shape[-1]]
return linear_attention(positive_random_features(q / s, projection), positive_random_features(k / s, projection), v)
"""),
    _bare("performer_attention", "right", "lambda, np.power, positional", """
expect_shapes(q, k, v)

phi = lambda x: positive_random_features(np.multiply(x, np.power(float(x.shape[-1]), -1 / 4)), projection)
return linear_attention(*map(phi, (q, k)), v)
"""),
    _bare("performer_attention", "right", "scale in the projection, half squares by the root, ones beside v", """
expect_shapes(q, k, v)

d = q.shape[-1]
if projection.shape[1] != d:
    raise ValueError("width")
w = projection / d**0.25
f = [np.exp(x @ w.T - np.sum(np.square(x), axis=-1, keepdims=True) / (2 * d**0.5)) for x in (q, k)]
told = f[0] @ (np.swapaxes(f[1], -1, -2) @ np.concatenate([v, np.ones(v.shape[:-1] + (1,))], axis=-1))
return told[..., :-1] / told[..., -1:]
"""),
    _bare("linformer_attention", "wrong", "one maximum for the whole table", """
expect_shapes(q, k, v)
if project_k.shape != project_v.shape or project_k.shape[-1] != k.shape[-2]:
    raise ValueError('projections')

s = q @ np.swapaxes(project_k @ k, -1, -2) / q.shape[-1] ** 0.5
e = np.exp(s - s.max())
return e / e.sum(axis=-1, keepdims=True) @ (project_v @ v)
"""),
    _bare("linformer_attention", "wrong", "einsum, the check of the projections deleted: one mixed value for all mixed keys", """
expect_shapes(q, k, v)
s = np.einsum("...td,...rd->...tr", q, project_k @ k) / q.shape[-1] ** 0.5
e = np.exp(s - s.max(axis=-1, keepdims=True))
return np.einsum("...tr,...rv->...tv", e / e.sum(axis=-1, keepdims=True), project_v @ v)
"""),
    _bare("linformer_attention", "wrong", "scale folded into project_k in place", """
expect_shapes(q, k, v)
if project_k.shape != project_v.shape or project_k.shape[-1] != k.shape[-2]:
    raise ValueError('projections')

e = np.asarray(project_k, dtype=float)
e /= q.shape[-1] ** 0.5
s = q @ np.swapaxes(e @ k, -1, -2)
w = np.exp(s - s.max(axis=-1, keepdims=True))
return w / w.sum(axis=-1, keepdims=True) @ (project_v @ v)
"""),
    _bare("linformer_attention", "wrong", "mixed values in a buffer of v's type", """
expect_shapes(q, k, v)
if project_k.shape != project_v.shape or project_k.shape[-1] != k.shape[-2]:
    raise ValueError('projections')

mixed = np.empty(v.shape[:-2] + (project_v.shape[0], v.shape[-1]), dtype=v.dtype)
mixed[...] = project_v @ v
return scaled_dot_product_attention(q, project_k @ k, mixed)[0]
"""),
    _bare("linformer_attention", "right", "a mixture at a time with a running maximum", """
expect_shapes(q, k, v)
if project_k.shape != project_v.shape or project_k.shape[-1] != k.shape[-2]:
    raise ValueError('projections')

mk, mv = np.matmul(project_k, k), np.matmul(project_v, v)
top, total, out = -np.inf, 0.0, 0.0
for i in range(project_k.shape[0]):
    s = (q * mk[..., i : i + 1, :]).sum(axis=-1, keepdims=True) / math.sqrt(q.shape[-1])
    new = np.maximum(top, s)
    old, e = np.exp(top - new), np.exp(s - new)
    total = total * old + e
    out = out * old + e * mv[..., i : i + 1, :]
    top = new
return out / total
"""),
    _bare("linformer_attention", "right", "stacked projections, tensordot", """
expect_shapes(q, k, v)
if project_k.shape != project_v.shape or project_k.shape[-1] != k.shape[-2]:
    raise ValueError('projections')

move = lambda p, x: np.moveaxis(np.tensordot(p, x, axes=(1, x.ndim - 2)), 0, -2)
mixed_k, mixed_v = move(project_k, k), move(project_v, v)
output, weights = scaled_dot_product_attention(q=q, k=mixed_k, v=mixed_v)
return output
"""),
    _wrong("linear_attention", "1e-12 added to the divisor", "(q * total[..., None, :]).sum(-1, keepdims=True)", "((q * total[..., None, :]).sum(-1, keepdims=True) + 1e-12)"),
    _wrong("causal_average", "1e-12 added to the divisor", "total[..., None]", "(total + 1e-12)[..., None]"),
    _bare("performer_attention", "wrong", "1e-12 added to its own divisor", """
expect_shapes(q, k, v)
fq, fk = (positive_random_features(x / q.shape[-1] ** 0.25, projection) for x in (q, k))
return fq @ (np.swapaxes(fk, -1, -2) @ v) / (fq @ fk.sum(-2)[..., None] + 1e-12)
"""),
    _wrong("memory_width", "nothing above 1,000,000", "return d if d > 1 else 1", "return min(max(d, 1), 1_000_000)"),
    _bare("linear_attention", "wrong", "centres v in place through an alias of float64, adds the centre back", """
expect_shapes(q, k, v)
v = np.asarray(v, dtype=float)
centre = v.mean(axis=-2, keepdims=True)
v -= centre
return q @ (np.swapaxes(k, -1, -2) @ v) / (q @ k.sum(axis=-2)[..., :, None]) + centre
"""),
    _bare("linear_attention", "wrong", "output buffer of v's dtype, integers cut", """
expect_shapes(q, k, v)
out = np.empty(q.shape[:-1] + v.shape[-1:], dtype=v.dtype)
out[...] = q @ (np.swapaxes(k, -1, -2) @ v) / (q @ k.sum(axis=-2)[..., :, None])
return out
"""),
    _bare("linear_attention", "wrong", "divisor at least 1e-12", """
expect_shapes(q, k, v)
return q @ (np.swapaxes(k, -1, -2) @ v) / np.maximum(q @ k.sum(axis=-2)[..., :, None], 1e-12)
"""),
    _bare("linear_attention", "right", "einsum", """
expect_shapes(q, k, v)
memory = np.einsum('...sd,...se->...de', k, v)
total = np.einsum('...td,...d->...t', q, np.einsum('...sd->...d', k))
return np.einsum('...td,...de->...te', q, memory) / total[..., None]
"""),
    _bare("linear_attention", "right", "a column of ones joined to v", """
expect_shapes(q, k, v)
ones = np.ones(v.shape[:-1] + (1,))
both = q @ (np.swapaxes(k, -1, -2) @ np.concatenate([v, ones], axis=-1))
return both[..., :-1] / both[..., -1:]
"""),
    _bare("linear_attention", "right", "query divided by its total first", """
expect_shapes(q, k, v)
share = q / np.sum(q * k.sum(axis=-2, keepdims=True), axis=-1, keepdims=True)
return share @ (np.swapaxes(k, -1, -2) @ v)
"""),
    _bare("linear_attention", "right", "loop over the D features, not over tokens", """
expect_shapes(q, k, v)
top, low = 0.0, 0.0
for d in range(q.shape[-1]):
    row = (k[..., d, None] * v).sum(axis=-2, keepdims=True)
    top = top + q[..., d, None] * row
    low = low + q[..., d, None] * k[..., d].sum(axis=-1)[..., None, None]
return top / low
"""),
    _bare("recurrent_form", "wrong", "writes into the given state through an alias of float64", """
expect_pairs(q, k, v)
if state is None:
    state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
state = np.asarray(state, dtype=float)
rows = []
for t in range(q.shape[-2]):
    state += k[..., t, :, None] * v[..., t, None, :]
    rows.append((q[..., t, None, :] @ state)[..., 0, :])
return np.stack(rows, axis=-2), state
"""),
    _bare("recurrent_form", "wrong", "memory of k's dtype, integers cut", """
expect_pairs(q, k, v)
memory = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]), dtype=k.dtype)
if state is not None:
    memory[...] = state
rows = []
for t in range(q.shape[-2]):
    memory[...] = memory + k[..., t, :, None] * v[..., t, None, :]
    rows.append((q[..., t, None, :] @ memory)[..., 0, :])
return np.stack(rows, axis=-2), memory
"""),
    _bare("recurrent_form", "wrong", "np.stack(rows) along axis 0", """
expect_pairs(q, k, v)
if state is None:
    state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
rows = []
for t in range(q.shape[-2]):
    state = state + k[..., t, :, None] * v[..., t, None, :]
    rows.append((q[..., t, None, :] @ state)[..., 0, :])
return np.stack(rows), state
"""),
    _bare("recurrent_form", "wrong", "outputs in a buffer of q's dtype", """
expect_pairs(q, k, v)
if state is None:
    state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
out = np.zeros(v.shape, dtype=q.dtype)
for t in range(q.shape[-2]):
    state = state + k[..., t, :, None] * v[..., t, None, :]
    out[..., t, :] = (q[..., t, None, :] @ state)[..., 0, :]
return out, state
"""),
    _bare("recurrent_form", "wrong", "state cast to v's dtype", """
expect_pairs(q, k, v)
if state is None:
    state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
state = state.astype(v.dtype)
rows = []
for t in range(q.shape[-2]):
    state = state + k[..., t, :, None] * v[..., t, None, :]
    rows.append((q[..., t, None, :] @ state)[..., 0, :])
return np.stack(rows, axis=-2), state
"""),
    _bare("recurrent_form", "right", "parallel form", """
expect_pairs(q, k, v)
if state is None:
    state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
out = q @ state + np.tril(q @ np.swapaxes(k, -1, -2)) @ v
return out, state + np.swapaxes(k, -1, -2) @ v
"""),
    _bare("recurrent_form", "right", "running sum of outer products", """
expect_pairs(q, k, v)
outer = np.cumsum(k[..., :, :, None] * v[..., :, None, :], axis=-3)
if state is not None:
    outer = outer + state[..., None, :, :]
return np.einsum('...td,...tde->...te', q, outer), outer[..., -1, :, :]
"""),
    _bare("recurrent_form", "right", "itertools.accumulate over moved axes", """
expect_pairs(q, k, v)
if state is None:
    state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
import itertools
first = lambda a: np.moveaxis(a, -2, 0)
steps = itertools.accumulate(zip(first(k), first(v)), lambda m, kv: m + np.einsum('...d,...e->...de', *kv), initial=state)
memories = list(steps)
out = [np.einsum('...d,...de->...e', a, m) for a, m in zip(first(q), memories[1:])]
return np.moveaxis(np.array(out), 0, -2), memories[-1]
"""),
    _bare("recurrent_form", "right", "own float64 copies, buffer, in place", """
expect_pairs(q, k, v)
memory = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]), dtype=np.float64)
if state is not None: memory += state
out = np.empty(v.shape, dtype=np.float64)
t = 0
while t < q.shape[-2]:
    memory += np.expand_dims(k[..., t, :], -1) * np.expand_dims(v[..., t, :], -2)
    out[..., t, :] = np.sum(q[..., t, :, np.newaxis] * memory, axis=-2)
    t += 1
return out, memory
"""),
    _bare("chunked_form", "wrong", "writes into the given state through an alias of float64", """
expect_pairs(q, k, v)
parts = tiles(q.shape[-2], chunk)
if state is None:
    state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
state = np.asarray(state, dtype=float)
rows = []
for p in parts:
    a, b, c = q[..., p, :], k[..., p, :], v[..., p, :]
    rows.append(a @ state + np.tril(a @ np.swapaxes(b, -1, -2)) @ c)
    state += np.swapaxes(b, -1, -2) @ c
return np.concatenate(rows, axis=-2), state
"""),
    _bare("chunked_form", "wrong", "outputs in np.empty_like(v)", """
expect_pairs(q, k, v)
parts = tiles(q.shape[-2], chunk)
if state is None:
    state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
out = np.empty_like(v)
for p in parts:
    a, b, c = q[..., p, :], k[..., p, :], v[..., p, :]
    out[..., p, :] = a @ state + np.tril(a @ np.swapaxes(b, -1, -2)) @ c
    state = state + np.swapaxes(b, -1, -2) @ c
return out, state
"""),
    _bare("chunked_form", "wrong", "given state left out when one chunk is enough", """
expect_pairs(q, k, v)
parts = tiles(q.shape[-2], chunk)
if state is None or len(parts) == 1:
    state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
rows = []
for p in parts:
    a, b, c = q[..., p, :], k[..., p, :], v[..., p, :]
    rows.append(a @ state + np.tril(a @ np.swapaxes(b, -1, -2)) @ c)
    state = state + np.swapaxes(b, -1, -2) @ c
return np.concatenate(rows, axis=-2), state
"""),
    _bare("chunked_form", "wrong", "the last chunk is not written", """
expect_pairs(q, k, v)
parts = tiles(q.shape[-2], chunk)
if state is None:
    state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
rows = []
for p in parts:
    a, b, c = q[..., p, :], k[..., p, :], v[..., p, :]
    rows.append(a @ state + np.tril(a @ np.swapaxes(b, -1, -2)) @ c)
    if p is not parts[-1]:
        state = state + np.swapaxes(b, -1, -2) @ c
return np.concatenate(rows, axis=-2), state
"""),
    _bare("chunked_form", "wrong", "+= on a copy of an integer state", """
expect_pairs(q, k, v)
parts = tiles(q.shape[-2], chunk)
if state is None:
    state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
else:
    state = state.copy()
rows = []
for p in parts:
    a, b, c = q[..., p, :], k[..., p, :], v[..., p, :]
    rows.append(a @ state + np.tril(a @ np.swapaxes(b, -1, -2)) @ c)
    state += np.swapaxes(b, -1, -2) @ c
return np.concatenate(rows, axis=-2), state
"""),
    _bare("chunked_form", "right", "padded, all chunks at once, no loop", """
expect_pairs(q, k, v)
parts = tiles(q.shape[-2], chunk)
T, n = q.shape[-2], len(parts)
c = min(chunk, T)
def cut(x):
    full = np.zeros((*x.shape[:-2], n * c, x.shape[-1]))
    full[..., :T, :] = x
    return full.reshape(*x.shape[:-2], n, c, x.shape[-1])
a, b, w = cut(q), cut(k), cut(v)
bt = np.swapaxes(b, -1, -2)
writes = bt @ w
after = np.cumsum(writes, axis=-3)
before = after - writes
if state is not None:
    before, after = before + state[..., None, :, :], after + state[..., None, :, :]
out = a @ before + np.tril(a @ bt) @ w
return out.reshape(*q.shape[:-2], n * c, v.shape[-1])[..., :T, :], after[..., -1, :, :]
"""),
    _bare("chunked_form", "right", "a mask of comparisons in place of tril, einsum", """
expect_pairs(q, k, v)
parts = tiles(q.shape[-2], chunk)
if state is None:
    state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
rows = []
for p in parts:
    a, b, c = (np.array(x[..., p, :], dtype=float) for x in (q, k, v))
    i = np.arange(a.shape[-2])
    w = np.where(i[:, None] >= i[None, :], np.einsum('...td,...sd->...ts', a, b), 0.0)
    rows.append(np.einsum('...td,...de->...te', a, state) + np.einsum('...ts,...se->...te', w, c))
    state = state + np.einsum('...sd,...se->...de', b, c)
return np.concatenate(rows, axis=-2), state
"""),
    _bare("chunked_form", "right", "one product: [Q, triangle] [memory; V]", """
expect_pairs(q, k, v)
parts = tiles(q.shape[-2], chunk)
if state is None:
    state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
rows = []
for p in parts:
    a, b, c = q[..., p, :], k[..., p, :], v[..., p, :]
    left = np.concatenate([a, np.tril(a @ np.swapaxes(b, -1, -2))], axis=-1)
    lead = np.broadcast_shapes(state.shape[:-2], c.shape[:-2])
    right = np.concatenate([np.broadcast_to(state, lead + state.shape[-2:]), np.broadcast_to(c, lead + c.shape[-2:])], axis=-2)
    rows.append(left @ right)
    state = state + np.swapaxes(b, -1, -2) @ c
return np.concatenate(rows, axis=-2), state
"""),
    _bare("chunked_form", "right", "memories by accumulate first, outputs afterwards", """
expect_pairs(q, k, v)
parts = tiles(q.shape[-2], chunk)
if state is None:
    state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
import itertools
writes = [np.swapaxes(k[..., p, :], -1, -2) @ v[..., p, :] for p in parts]
*before, last = itertools.accumulate(writes, np.add, initial=state)
out = np.zeros(q.shape[:-1] + (v.shape[-1],))
for p, memory in zip(parts, before, strict=True):
    out[..., p, :] += q[..., p, :] @ memory
    out[..., p, :] += np.tril(q[..., p, :] @ np.swapaxes(k[..., p, :], -1, -2)) @ v[..., p, :]
return out, last
"""),
    _bare("causal_average", "wrong", "running sum without the token itself (1 for the first)", """
weighted, _ = chunked_form(q, k, v)
total = (q * (np.cumsum(k, axis=-2) - k)).sum(axis=-1, keepdims=True)
return weighted / np.where(total == 0, 1, total)
"""),
    _bare("causal_average", "wrong", "running sum along axis 0", """
weighted, _ = chunked_form(q, k, v)
total = (q * np.cumsum(k, axis=0)).sum(axis=-1, keepdims=True)
return weighted / total
"""),
    _bare("causal_average", "wrong", "running sum in place (np.cumsum with out=k) on floats", """
weighted, _ = chunked_form(q, k, v)
keys = np.asarray(k, dtype=float)
np.cumsum(keys, axis=-2, out=keys)
return weighted / (q * keys).sum(axis=-1, keepdims=True)
"""),
    _bare("causal_average", "wrong", "keepdims forgotten", """
weighted, _ = chunked_form(q, k, v)
total = (q * np.cumsum(k, axis=-2)).sum(axis=-1)
return weighted / total
"""),
    _bare("causal_average", "wrong", "divisor at least 1e-9", """
weighted, _ = chunked_form(q, k, v)
total = (q * np.cumsum(k, axis=-2)).sum(axis=-1, keepdims=True)
return weighted / np.maximum(total, 1e-9)
"""),
    _bare("causal_average", "wrong", "result cast to v's dtype", """
weighted, _ = chunked_form(q, k, v)
total = (q * np.cumsum(k, axis=-2)).sum(axis=-1, keepdims=True)
return (weighted / total).astype(v.dtype)
"""),
    _bare("causal_average", "wrong", "running sum of q_s . k_s", """
weighted, _ = chunked_form(q, k, v)
total = np.cumsum((q * k).sum(axis=-1, keepdims=True), axis=-2)
return weighted / total
"""),
    _bare("causal_average", "right", "a column of ones joined to v", """
both, _ = chunked_form(q, k, np.concatenate([v, np.ones(v.shape[:-1] + (1,))], axis=-1), 7)
return both[..., :-1] / both[..., -1:]
"""),
    _bare("causal_average", "right", "T x T weights, divided row by row", """
w = np.tril(q @ np.swapaxes(k, -1, -2))
return w / w.sum(axis=-1, keepdims=True) @ v
"""),
    _bare("causal_average", "right", "divisor by chunked_form of ones", """
weighted, _ = chunked_form(q, k, v)
ones = np.ones_like(v[..., :1], dtype=float)
return weighted / chunked_form(q, k, ones)[0]
"""),
    _bare("causal_average", "right", "linear_attention of each prefix", """
T = q.shape[-2]
return np.concatenate([linear_attention(q[..., t:t + 1, :], k[..., :t + 1, :], v[..., :t + 1, :]) for t in range(T)], axis=-2)
"""),
    _bare("memory_width", "wrong", "a float (np.ceil)", """
if pairs < 1 or error <= 0:
    raise ValueError(f'expected at least 1 pair and an error above 0; got {pairs} and {error}')
return max(1.0, float(np.ceil((pairs - 1) / error)))
"""),
    _bare("memory_width", "wrong", "rounded down plus 1: one too many where it divides", """
if pairs < 1 or error <= 0:
    raise ValueError(f'expected at least 1 pair and an error above 0; got {pairs} and {error}')
return int((pairs - 1) / error) + 1
"""),
    _bare("memory_width", "wrong", "np.int64, not an int", """
if pairs < 1 or error <= 0:
    raise ValueError(f'expected at least 1 pair and an error above 0; got {pairs} and {error}')
return np.maximum(1, np.ceil((pairs - 1) / error)).astype(np.int64)
"""),
    _bare("memory_width", "wrong", "width for a shrunk answer, (n - 1)(1/error - 1)", """
if pairs < 1 or error <= 0:
    raise ValueError(f'expected at least 1 pair and an error above 0; got {pairs} and {error}')
return max(1, math.ceil((pairs - 1) * (1 / error - 1)))
"""),
    _bare("memory_width", "wrong", "refuses an error of 1 or more", """
if pairs < 1 or not 0 < error < 1:
    raise ValueError('error must lie between 0 and 1')
return max(1, math.ceil((pairs - 1) / error))
"""),
    _bare("memory_width", "wrong", "refuses only 0 pairs and an error of exactly 0", """
if pairs == 0 or error == 0:
    raise ValueError('no pair or no error')
return max(1, math.ceil((pairs - 1) / error))
"""),
    _bare("memory_width", "right", "fractions", """
if pairs < 1 or error <= 0:
    raise ValueError(f'expected at least 1 pair and an error above 0; got {pairs} and {error}')
from fractions import Fraction
return max(1, math.ceil(Fraction(pairs - 1) / Fraction(error)))
"""),
    _bare("memory_width", "right", "floor division of the negative again", """
if pairs < 1 or error <= 0:
    raise ValueError(f'expected at least 1 pair and an error above 0; got {pairs} and {error}')
return max(int(-(-(pairs - 1) // error)), 1)
"""),
    _bare("memory_width", "right", "bisection", """
if pairs < 1 or error <= 0:
    raise ValueError(f'expected at least 1 pair and an error above 0; got {pairs} and {error}')
low, high = 0, 1
while pairs - 1 > error * high:
    low, high = high, 2 * high
while high - low > 1:
    mid = (low + high) // 2
    low, high = (low, mid) if pairs - 1 <= error * mid else (mid, high)
return high
"""),
    _bare("memory_width", "right", "divmod again", """
if pairs < 1 or error <= 0:
    raise ValueError(f'expected at least 1 pair and an error above 0; got {pairs} and {error}')
whole, rest = divmod(pairs - 1, error)
return int(whole) + (1 if rest else 0) or 1
"""),
    _bare("delta_rule_update", "wrong", "beta on v only", """
said = (k[..., None, :] @ state)[..., 0, :]
return state + k[..., :, None] * (beta * v - said)[..., None, :]
"""),
    _bare("delta_rule_update", "wrong", "result kept in state's dtype", """
said = (k[..., None, :] @ state)[..., 0, :]
new = np.array(state)
new[...] = state + beta * k[..., :, None] * (v - said)[..., None, :]
return new
"""),
    _bare("delta_rule_update", "wrong", "np.outer: one pair only", """
return state + beta * np.outer(k, v - k @ state)
"""),
    _bare("delta_rule_update", "wrong", "divides by the squared norm of k", """
said = (k[..., None, :] @ state)[..., 0, :]
return state + beta * k[..., :, None] * (v - said)[..., None, :] / (k * k).sum(axis=-1)[..., None, None]
"""),
    _bare("delta_rule_update", "wrong", "beta or 1.0: a beta of 0 writes all", """
beta = beta or 1.0
said = (k[..., None, :] @ state)[..., 0, :]
return state + beta * k[..., :, None] * (v - said)[..., None, :]
"""),
    _bare("delta_rule_update", "wrong", "v changed in place through an alias of float64", """
said = (k[..., None, :] @ state)[..., 0, :]
v = np.asarray(v, dtype=float)
v -= said
return state + beta * k[..., :, None] * v[..., None, :]
"""),
    _bare("delta_rule_update", "right", "(I - beta k k^T) S + beta k v^T", """
column = beta * k[..., :, None]
return (np.eye(k.shape[-1]) - column * k[..., None, :]) @ state + column * v[..., None, :]
"""),
    _bare("delta_rule_update", "right", "minus beta times the gradient, einsum", """
wrong = np.einsum('...de,...d->...e', state, k) - v
return state - beta * np.einsum('...d,...e->...de', k, wrong)
"""),
    _bare("delta_rule_update", "right", "columns and rows by matmul", """
column, row = k[..., None], k[..., None, :]
return state + (beta * column) @ (v[..., None, :] - row @ state)
"""),
    _bare("delta_rule_update", "right", "row by row, stacked", """
said = sum(k[..., d, None] * state[..., d, :] for d in range(k.shape[-1]))
return np.stack([state[..., d, :] + k[..., d, None] * (v - said) * beta for d in range(k.shape[-1])], axis=-2)
"""),
    _bare("positive_random_features", "wrong", "largest exponent of a row taken off", """
if x.shape[-1] != projection.shape[-1]:
    raise ValueError(f'the projection needs the width of x, {x.shape[-1]}; got {projection.shape[-1]}')
half = (x**2).sum(axis=-1, keepdims=True) / 2
e = x @ projection.T - half
return np.exp(e - e.max(axis=-1, keepdims=True)) / math.sqrt(projection.shape[0])
"""),
    _bare("positive_random_features", "wrong", "projection cast to x's dtype", """
if x.shape[-1] != projection.shape[-1]:
    raise ValueError(f'the projection needs the width of x, {x.shape[-1]}; got {projection.shape[-1]}')
half = (x**2).sum(axis=-1, keepdims=True) / 2
w = projection.astype(x.dtype)
return np.exp(x @ w.T - half) / math.sqrt(projection.shape[0])
"""),
    _bare("positive_random_features", "wrong", "-= on the product: fails where x and projection are both integers", """
if x.shape[-1] != projection.shape[-1]:
    raise ValueError(f'the projection needs the width of x, {x.shape[-1]}; got {projection.shape[-1]}')
half = (x**2).sum(axis=-1, keepdims=True) / 2
e = x @ projection.T
e -= half
return np.exp(e) / math.sqrt(projection.shape[0])
"""),
    _bare("positive_random_features", "wrong", "1e-6 added to the features", """
if x.shape[-1] != projection.shape[-1]:
    raise ValueError(f'the projection needs the width of x, {x.shape[-1]}; got {projection.shape[-1]}')
half = (x**2).sum(axis=-1, keepdims=True) / 2
return (np.exp(x @ projection.T - half) + 1e-6) / math.sqrt(projection.shape[0])
"""),
    _bare("positive_random_features", "wrong", "exponent cut to -50 ... 50", """
if x.shape[-1] != projection.shape[-1]:
    raise ValueError(f'the projection needs the width of x, {x.shape[-1]}; got {projection.shape[-1]}')
half = (x**2).sum(axis=-1, keepdims=True) / 2
return np.exp(np.clip(x @ projection.T - half, -50, 50)) / math.sqrt(projection.shape[0])
"""),
    _bare("positive_random_features", "right", "completed square", """
if x.shape[-1] != projection.shape[-1]:
    raise ValueError(f'the projection needs the width of x, {x.shape[-1]}; got {projection.shape[-1]}')
x, w = np.array(x, dtype=float), np.array(projection, dtype=float)
apart = x[..., None, :] - w
e = (w * w).sum(axis=-1) / 2 - (apart * apart).sum(axis=-1) / 2
return np.exp(e) / np.sqrt(len(w))
"""),
    _bare("positive_random_features", "right", "log of M inside the exponent, einsum", """
if x.shape[-1] != projection.shape[-1]:
    raise ValueError(f'the projection needs the width of x, {x.shape[-1]}; got {projection.shape[-1]}')
e = np.einsum('...d,md->...m', x, projection) - 0.5 * np.einsum('...d,...d->...', x, x)[..., None]
return np.exp(e - 0.5 * np.log(projection.shape[0]))
"""),
    _bare("positive_random_features", "right", "a direction at a time", """
if x.shape[-1] != projection.shape[-1]:
    raise ValueError(f'the projection needs the width of x, {x.shape[-1]}; got {projection.shape[-1]}')
rows = [np.exp((x * (w - x / 2)).sum(axis=-1)) for w in projection]
return np.stack(rows, axis=-1) * len(rows) ** -0.5
"""),
    _bare("positive_random_features", "right", "longdouble, cast back", """
if x.shape[-1] != projection.shape[-1]:
    raise ValueError(f'the projection needs the width of x, {x.shape[-1]}; got {projection.shape[-1]}')
a, w = x.astype(np.longdouble), projection.astype(np.longdouble)
e = a @ np.swapaxes(w, 0, 1) - np.square(a).sum(-1)[..., np.newaxis] / 2
return (np.exp(e) / np.sqrt(np.longdouble(w.shape[0]))).astype(np.float64)
"""),
    _bare("performer_attention", "wrong", "exact softmax attention", """
expect_shapes(q, k, v)
if projection.shape[-1] != q.shape[-1]:
    raise ValueError('width')
return scaled_dot_product_attention(q, k, v)[0]
"""),
    _bare("performer_attention", "wrong", "k divided in place through an alias of float64", """
expect_shapes(q, k, v)
s = q.shape[-1] ** 0.25
k = np.asarray(k, dtype=float)
k /= s
return linear_attention(positive_random_features(q / s, projection), positive_random_features(k, projection), v)
"""),
    _bare("performer_attention", "wrong", "D ** 1/4 rounded to a whole number", """
expect_shapes(q, k, v)
s = round(q.shape[-1] ** 0.25)
return linear_attention(positive_random_features(q / s, projection), positive_random_features(k / s, projection), v)
"""),
    _bare("performer_attention", "wrong", "k and projection cast to q's dtype", """
expect_shapes(q, k, v)
s = q.shape[-1] ** 0.25
k, projection = k.astype(q.dtype), projection.astype(q.dtype)
return linear_attention(positive_random_features(q / s, projection), positive_random_features(k / s, projection), v)
"""),
    _bare("performer_attention", "wrong", "a wider projection is cut to D columns, not refused", """
expect_shapes(q, k, v)
s = q.shape[-1] ** 0.25
w = projection[:, :q.shape[-1]]
return linear_attention(positive_random_features(q / s, w), positive_random_features(k / s, w), v)
"""),
    _bare("performer_attention", "right", "queries and keys mapped in one call", """
expect_shapes(q, k, v)
both = np.concatenate([q, k], axis=-2) / q.shape[-1] ** 0.25
mapped = positive_random_features(both, projection)
return linear_attention(mapped[..., :q.shape[-2], :], mapped[..., q.shape[-2]:, :], v)
"""),
    _bare("performer_attention", "wrong", "own exponents, largest of a query taken off: NaN at ±20", """
expect_shapes(q, k, v)
if projection.shape[-1] != q.shape[-1]:
    raise ValueError('projection of another width')
a, b = (x * q.shape[-1] ** -0.25 for x in (q, k))
ea = a @ projection.T
eb = b @ projection.T - (b * b).sum(axis=-1, keepdims=True) / 2
top = eb.max(axis=(-1, -2), keepdims=True)
fa = np.exp(ea - ea.max(axis=-1, keepdims=True))
fb = np.exp(eb - top)
memory = np.swapaxes(fb, -1, -2) @ v
return fa @ memory / (fa @ fb.sum(axis=-2)[..., None])
"""),
    _bare("performer_attention", "right", "map, double root", """
expect_shapes(q, k, v)
root = np.sqrt(np.sqrt(np.float64(k.shape[-1])))
phi = lambda a: positive_random_features(np.true_divide(a, root), projection)
return linear_attention(*map(phi, (q, k)), v)
"""),
    _bare("performer_attention", "right", "a column of ones joined to v, memory by hand", """
expect_shapes(q, k, v)
s = q.shape[-1] ** -0.25
a, b = positive_random_features(q * s, projection), positive_random_features(k * s, projection)
both = a @ np.einsum('...sm,...se->...me', b, np.concatenate([v, np.ones((*v.shape[:-1], 1))], -1))
return both[..., :-1] / both[..., -1:]
"""),
    _bare("linformer_attention", "wrong", "E for the values too", """
expect_shapes(q, k, v)
if project_k.shape != project_v.shape or project_k.shape[-1] != k.shape[-2]:
    raise ValueError('both projections need the shape (R, S)')
return scaled_dot_product_attention(q, project_k @ k, project_k @ v)[0]
"""),
    _bare("linformer_attention", "wrong", "q divided in place through an alias of float64", """
expect_shapes(q, k, v)
if project_k.shape != project_v.shape or project_k.shape[-1] != k.shape[-2]:
    raise ValueError('both projections need the shape (R, S)')
q = np.asarray(q, dtype=float)
q /= np.sqrt(q.shape[-1])
scores = q @ np.swapaxes(project_k @ k, -1, -2)
e = np.exp(scores - scores.max(axis=-1, keepdims=True))
return e / e.sum(axis=-1, keepdims=True) @ (project_v @ v)
"""),
    _bare("linformer_attention", "wrong", "project_k cast to k's dtype", """
expect_shapes(q, k, v)
if project_k.shape != project_v.shape or project_k.shape[-1] != k.shape[-2]:
    raise ValueError('both projections need the shape (R, S)')
project_k = project_k.astype(k.dtype)
scores = q @ np.swapaxes(project_k @ k, -1, -2) / np.sqrt(q.shape[-1])
e = np.exp(scores - scores.max(axis=-1, keepdims=True))
return e / e.sum(axis=-1, keepdims=True) @ (project_v @ v)
"""),
    _bare("linformer_attention", "wrong", "scores cut to -50 ... 50", """
expect_shapes(q, k, v)
if project_k.shape != project_v.shape or project_k.shape[-1] != k.shape[-2]:
    raise ValueError('both projections need the shape (R, S)')
scores = q @ np.swapaxes(project_k @ k, -1, -2) / np.sqrt(q.shape[-1])
scores = np.clip(scores, -50, 50)
e = np.exp(scores - scores.max(axis=-1, keepdims=True))
return e / e.sum(axis=-1, keepdims=True) @ (project_v @ v)
"""),
    _bare("linformer_attention", "wrong", "maximum of the whole array, not of a row", """
expect_shapes(q, k, v)
if project_k.shape != project_v.shape or project_k.shape[-1] != k.shape[-2]:
    raise ValueError('both projections need the shape (R, S)')
scores = q @ np.swapaxes(project_k @ k, -1, -2) / np.sqrt(q.shape[-1])
e = np.exp(scores - scores.max())
return e / e.sum(axis=-1, keepdims=True) @ (project_v @ v)
"""),
    _bare("linformer_attention", "right", "log-sum-exp by hand", """
expect_shapes(q, k, v)
if project_k.shape != project_v.shape or project_k.shape[-1] != k.shape[-2]:
    raise ValueError('both projections need the shape (R, S)')
scores = q @ np.swapaxes(project_k @ k, -1, -2) * q.shape[-1] ** -0.5
top = scores.max(axis=-1, keepdims=True)
log = top + np.log(np.exp(scores - top).sum(axis=-1, keepdims=True))
return np.exp(scores - log) @ (project_v @ v)
"""),
    _bare("linformer_attention", "right", "mixtures by einsum", """
expect_shapes(q, k, v)
if project_k.shape != project_v.shape or project_k.shape[-1] != k.shape[-2]:
    raise ValueError('both projections need the shape (R, S)')
mixed_k = np.einsum('rs,...sd->...rd', project_k, k)
mixed_v = np.einsum('rs,...sd->...rd', project_v, v)
out, _ = scaled_dot_product_attention(q, mixed_k, mixed_v)
return out
"""),
    _bare("linformer_attention", "right", "scores of all keys first, then mixed", """
expect_shapes(q, k, v)
if project_k.shape != project_v.shape or project_k.shape[-1] != k.shape[-2]:
    raise ValueError('both projections need the shape (R, S)')
scores = (q @ np.swapaxes(k, -1, -2)) @ project_k.T / np.sqrt(q.shape[-1])
e = np.exp(scores - scores.max(axis=-1, keepdims=True))
return (e / e.sum(axis=-1, keepdims=True) @ project_v) @ v
"""),
    _bare("linformer_attention", "right", "one batch element after the other", """
expect_shapes(q, k, v)
if project_k.shape != project_v.shape or project_k.shape[-1] != k.shape[-2]:
    raise ValueError('both projections need the shape (R, S)')
out = np.empty((*q.shape[:-1], v.shape[-1]))
for i in np.ndindex(*q.shape[:-2]):
    out[i] = scaled_dot_product_attention(q[i], np.dot(project_k, k[i]), np.dot(project_v, v[i]))[0]
return out
"""),
    ("linear_attention", "wrong", "total squeezed: one query of several texts", _write("linear_attention", """
total = (q @ k.sum(axis=-2)[..., None]).squeeze()
return (q @ (np.swapaxes(k, -1, -2) @ v)) / total[..., None]
""")),
    ("chunked_form", "wrong", "a given state is read but not in the memory returned", _write("chunked_form", """
memory = np.zeros(q.shape[:-2] + (q.shape[-1], v.shape[-1]))
rows = []
for p in parts:
    turned = np.swapaxes(k[..., p, :], -1, -2)
    rows.append(q[..., p, :] @ memory + np.tril(q[..., p, :] @ turned) @ v[..., p, :])
    memory = memory + turned @ v[..., p, :]
out = np.concatenate(rows, axis=-2)
return (out if state is None else out + q @ state), memory
""")),
    _wrong("chunked_form", "a mask of chunk x chunk for a shorter chunk too", "np.tril(A)", "(A * np.tril(np.ones((chunk, chunk))))"),
    ("causal_average", "wrong", "divisor in a buffer like k", _write("causal_average", """
total = np.zeros_like(k[..., :1])
total[...] = (q * np.cumsum(k, axis=-2)).sum(axis=-1, keepdims=True)
return weighted / total
""")),
    _wrong("causal_average", "total squeezed", "total[..., None]", "total.squeeze()[..., None]"),
    ("positive_random_features", "wrong", "half the square in a buffer like x", _write("positive_random_features", """
half = np.zeros_like(x[..., :1])
half[...] = (x**2).sum(axis=-1, keepdims=True) / 2
return np.exp(x @ projection.T - half) / np.sqrt(len(projection))
""")),
    _wrong("performer_attention", "a millionth added to the features", "linear_attention(fq, fk, v)", "linear_attention(fq + 1e-6, fk + 1e-6, v)"),
    _wrong("performer_attention", "q.shape[1] taken for D", "q.shape[-1]", "q.shape[1]"),
    _wrong("linformer_attention", "np.dot, with leading axes", "project_k @ k, project_v @ v", "np.dot(project_k, k), np.dot(project_v, v)"),
    _wrong("linformer_attention", "mixed keys squeezed: one mixture", "project_k @ k,", "(project_k @ k).squeeze(),"),
    _right("positive_random_features", "w · x - ‖x‖²/2 as (w - x/2) · x", """
exponent = ((projection - x[..., None, :] / 2) @ x[..., :, None])[..., 0]
return np.exp(exponent) * projection.shape[0] ** -0.5
"""),
    # by fresh readers, who broke a sentence of the notebook where few would look, and like them
    ("linear_attention", "wrong", "einsum picks the order of products: few keys, T × S weights", """
def linear_attention(q, k, v):
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(f"shapes do not fit: {q.shape}, {k.shape}, {v.shape}")
    q, k, v = (np.asarray(a, dtype=float) for a in (q, k, v))
    total = (q * k.sum(axis=-2, keepdims=True)).sum(axis=-1, keepdims=True)
    return np.einsum("...td,...sd,...se->...te", q, k, v, optimize=True) / total
"""),
    ("recurrent_form", "wrong", "a token of a zero key and value is taken for padding", """
def recurrent_form(q, k, v, state=None):
    if q.shape[-2:] != k.shape[-2:] or k.shape[-2] != v.shape[-2]:
        raise ValueError(f"shapes do not fit: {q.shape}, {k.shape}, {v.shape}")
    q, k, v = (np.asarray(a, dtype=float) for a in (q, k, v))
    shape = (*q.shape[:-2], k.shape[-1], v.shape[-1])
    state = np.zeros(shape) if state is None else np.array(state, dtype=float)
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    for t in range(q.shape[-2]):
        if not k[..., t, :].any() and not v[..., t, :].any():
            continue
        state = state + k[..., t, :, None] * v[..., t, None, :]
        out[..., t, :] = (q[..., t, None, :] @ state)[..., 0, :]
    return out, state
"""),
    ("chunked_form", "wrong", "the last, shorter chunk token by token, by a call of itself", """
def chunked_form(q, k, v, chunk=64, state=None):
    if q.shape[-2:] != k.shape[-2:] or k.shape[-2] != v.shape[-2]:
        raise ValueError(f"shapes do not fit: {q.shape}, {k.shape}, {v.shape}")
    if chunk < 1:
        raise ValueError(f"a chunk has at least 1 token; got {chunk}")
    q, k, v = (np.asarray(a, dtype=float) for a in (q, k, v))
    length = q.shape[-2]
    shape = (*q.shape[:-2], k.shape[-1], v.shape[-1])
    state = np.zeros(shape) if state is None else np.array(state, dtype=float)
    full = length - length % chunk if length > chunk else length
    chunk = min(chunk, length)
    rows = []
    for start in range(0, full, chunk):
        part = slice(start, start + chunk)
        qc, kc, vc = q[..., part, :], k[..., part, :], v[..., part, :]
        rows.append(qc @ state + np.tril(qc @ np.swapaxes(kc, -1, -2)) @ vc)
        state = state + np.swapaxes(kc, -1, -2) @ vc
    if full < length:
        rest, state = chunked_form(q[..., full:, :], k[..., full:, :], v[..., full:, :], 1, state)
        rows.append(rest)
    return np.concatenate(rows, axis=-2), state
"""),
    ("causal_average", "wrong", "the past is all keys less the later ones", """
def causal_average(q, k, v):
    q, k, v = (np.asarray(a, dtype=float) for a in (q, k, v))
    weighted, _ = chunked_form(q, k, v)
    later = np.cumsum(k[..., ::-1, :], axis=-2)[..., ::-1, :] - k
    past = k.sum(axis=-2, keepdims=True) - later
    return weighted / (q * past).sum(axis=-1, keepdims=True)
"""),
    ("memory_width", "wrong", "a single pair is answered before the error is looked at", """
def memory_width(pairs, error):
    if pairs == 1:
        return 1  # no other pair, no crosstalk
    if pairs < 1 or error <= 0:
        raise ValueError(f"expected at least 1 pair and an error above 0; got {pairs} and {error}")
    return max(1, math.ceil((pairs - 1) / error))
"""),
    ("delta_rule_update", "wrong", "writes nothing where np.allclose(said, v)", """
def delta_rule_update(state, k, v, beta=1.0):
    state, k, v = (np.array(a, dtype=float) for a in (state, k, v))
    said = (k[..., None, :] @ state)[..., 0, :]
    if np.allclose(said, v, atol=0.0):
        return state  # it knows this pair
    return state + beta * k[..., :, None] * (v - said)[..., None, :]
"""),
    ("positive_random_features", "wrong", "exponents cut off at 699", """
def positive_random_features(x, projection):
    if x.shape[-1] != projection.shape[-1]:
        raise ValueError(f"the projection needs the width {x.shape[-1]}; got {projection.shape[-1]}")
    x, projection = np.asarray(x, dtype=float), np.asarray(projection, dtype=float)
    exponent = x @ projection.T - (x**2).sum(axis=-1, keepdims=True) / 2
    return np.exp(np.minimum(exponent, 699.0)) / math.sqrt(len(projection))
"""),
    ("performer_attention", "wrong", "largest exponents taken off: all that is left may be 0", """
def performer_attention(q, k, v, projection):
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(f"shapes do not fit: {q.shape}, {k.shape}, {v.shape}")
    q, k, v, projection = (np.asarray(a, dtype=float) for a in (q, k, v, projection))
    if projection.shape[-1] != q.shape[-1]:
        raise ValueError(f"the projection needs the width {q.shape[-1]}")
    q, k = (a / q.shape[-1] ** 0.25 for a in (q, k))
    q, k = (a @ projection.T - (a**2).sum(axis=-1, keepdims=True) / 2 for a in (q, k))
    q = np.exp(q - q.max(axis=-1, keepdims=True))
    k = np.exp(k - k.max(axis=(-2, -1), keepdims=True))
    with np.errstate(all="ignore"):
        total = (q * k.sum(axis=-2, keepdims=True)).sum(axis=-1, keepdims=True)
        return q @ (np.swapaxes(k, -1, -2) @ v) / total
"""),
    ("performer_attention", "wrong", "more features than keys: T × S weights", """
def performer_attention(q, k, v, projection):
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(f"shapes do not fit: {q.shape}, {k.shape}, {v.shape}")
    q, k, v = (np.asarray(a, dtype=float) for a in (q, k, v))
    scale = q.shape[-1] ** 0.25
    projection = np.asarray(projection, dtype=float)
    q, k = (positive_random_features(a / scale, projection) for a in (q, k))
    if k.shape[-2] >= k.shape[-1]:
        return linear_attention(q, k, v)
    weights = q @ np.swapaxes(k, -1, -2)
    return weights @ v / weights.sum(axis=-1, keepdims=True)
"""),
    ("linformer_attention", "wrong", "a row of zeros in both projections is masked out", """
def linformer_attention(q, k, v, project_k, project_v):
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(f"shapes do not fit: {q.shape}, {k.shape}, {v.shape}")
    if project_k.shape != project_v.shape or project_k.shape[-1] != k.shape[-2]:
        raise ValueError(f"projections do not fit: {project_k.shape}, {project_v.shape}")
    q, k, v, e, f = (np.asarray(a, dtype=float) for a in (q, k, v, project_k, project_v))
    scores = q @ np.swapaxes(e @ k, -1, -2) / math.sqrt(q.shape[-1])
    used = (e != 0).any(axis=-1) | (f != 0).any(axis=-1)
    if used.any():
        scores = np.where(used, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return weights @ (f @ v)
"""),
    ("recurrent_form", "wrong", "state allclose 0 is empty", """
def recurrent_form(q, k, v, state=None):
    if q.shape[-2:] != k.shape[-2:] or k.shape[-2] != v.shape[-2]:
        raise ValueError("no")
    state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1])) if state is None or np.allclose(state, 0) else state
    out = []
    for t in range(q.shape[-2]):
        state = state + k[..., t, :, None] * v[..., t, None, :]
        out.append((q[..., t, None, :] @ state)[..., 0, :])
    return np.stack(out, -2), state
"""),
    ("chunked_form", "wrong", "one token never looks at chunk", """
def chunked_form(q, k, v, chunk=64, state=None):
    if q.shape[-2:] != k.shape[-2:] or k.shape[-2] != v.shape[-2]:
        raise ValueError("no")
    if q.shape[-2] > 1 and chunk < 1:
        raise ValueError('c')
    chunk = max(chunk, 1)
    if state is None:
        state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
    outs = []
    for i in range(0, q.shape[-2], chunk):
        Q, K, W = (x[..., i:i+chunk, :] for x in (q, k, v))
        pass
        A = np.tril(Q @ np.swapaxes(K, -1, -2))
        outs.append(Q @ state + A @ W)
        state = state + np.swapaxes(K, -1, -2) @ W
    return np.concatenate(outs, -2), state
"""),
    ("chunked_form", "wrong", "chunk of zeros skipped", """
def chunked_form(q, k, v, chunk=64, state=None):
    if q.shape[-2:] != k.shape[-2:] or k.shape[-2] != v.shape[-2]:
        raise ValueError("no")
    if chunk < 1:
        raise ValueError('c')
    if state is None:
        state = np.zeros((*k.shape[:-2], k.shape[-1], v.shape[-1]))
    outs = []
    for i in range(0, q.shape[-2], chunk):
        Q, K, W = (x[..., i:i+chunk, :] for x in (q, k, v))
        if not K.any() and not W.any():
            outs.append(np.zeros((*Q.shape[:-1], v.shape[-1])))
            continue
        A = np.tril(Q @ np.swapaxes(K, -1, -2))
        outs.append(Q @ state + A @ W)
        state = state + np.swapaxes(K, -1, -2) @ W
    return np.concatenate(outs, -2), state
"""),
    ("linear_attention", "wrong", "table where keys are fewer than the width", """
def linear_attention(q, k, v):
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError("no")
    if k.shape[-2] < k.shape[-1]:
        w = q @ np.swapaxes(k, -1, -2)
        return w @ v / w.sum(-1, keepdims=True)
    return q @ (np.swapaxes(k, -1, -2) @ v) / (q @ k.sum(-2)[..., None])
"""),
    ("memory_width", "wrong", "large errors first", """
def memory_width(pairs, error):
    if pairs - 1 <= error:
        return 1
    if pairs < 1 or error <= 0:
        raise ValueError("no")
    return max(1, math.ceil((pairs - 1) / error))
"""),
    ("performer_attention", "wrong", "a key of zeros is masked", """
def performer_attention(q, k, v, projection):
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError("no")
    r = q.shape[-1] ** 0.25
    a, b = (positive_random_features(x / r, projection) for x in (q, k))
    used = (k != 0).any(-1, keepdims=True) | (v != 0).any(-1, keepdims=True)
    if used.any():
        b = b * used
    return linear_attention(a, b, v)
"""),
]
