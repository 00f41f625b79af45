"""Answers to chapter 16 as learners write them: wrong ones must lose points, right ones none."""
# ruff: noqa: E501  (one case a line: what is changed stands beside what it becomes)

ONLINE = "def online_softmax(running_max, running_sum, accumulator, scores, values):\n"
MERGE = "def merge_partials(output, lse, other_output, other_lse):\n"
STREAM = "def stream_attention(q, k, v, tile_k=64):\n    expect_shapes(q[None], k, v)\n"
FORWARD = "def flash_forward(q, k, v, tile_q=64, tile_k=64):\n    expect_shapes(q, k, v)\n"
BACKWARD = (
    "def flash_backward(q, k, v, output, lse, grad_output, tile_q=64, tile_k=64):\n"
    "    expect_shapes(q, k, v)\n"
)
NEEDED = (
    "def tiles_needed(queries, keys, tile_q, tile_k, causal=False, window=None):\n"
    "    expect_window(window)\n"
)
TRAFFIC = "def hbm_traffic(queries, keys, width, tile_q, tile_k, causal=False, window=None, itemsize=2):\n"
HELPERS = "from attend_solutions.flash import expect_shapes, expect_window, tiles\n"


def _with(head: str, body: str) -> str:
    return HELPERS + head + "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))


STEP = """
m = np.maximum(running_max, scores.max(-1))
s = np.where(np.isinf(m), 0.0, m)
p = np.exp(scores - s[..., None])
c = np.exp(running_max - s)
return m, c * running_sum + p.sum(-1), c[..., None] * accumulator + p @ values
"""


def _step(old: str, new: str) -> str:
    assert old in STEP, old
    return _with(ONLINE, STEP.replace(old, new))


JOIN = """
total = np.logaddexp(lse, other_lse)
s = np.where(np.isinf(total), 0.0, total)
a, b = np.exp(lse - s)[..., None], np.exp(other_lse - s)[..., None]
return a * output + b * other_output, total
"""


def _join(old: str, new: str) -> str:
    assert old in JOIN, old
    return _with(MERGE, JOIN.replace(old, new))


PASS = """
largest, total, weighted = -np.inf, 0.0, np.zeros(v.shape[-1])
for part in tiles(len(k), tile_k):
    z = k[part] @ q / np.sqrt(len(q))
    new = max(largest, z.max())
    p = np.exp(z - new)
    c = np.exp(largest - new)
    total = c * total + p.sum()
    weighted = c * weighted + p @ v[part]
    largest = new
return weighted / total, float(largest + np.log(total))
"""


def _pass(old: str, new: str) -> str:
    assert old in PASS, old
    return _with(STREAM, PASS.replace(old, new))


LOOPS = """
o, lse = np.zeros((*q.shape[:-1], v.shape[-1])), np.zeros(q.shape[:-1])
for r in tiles(q.shape[-2], tile_q):
    qt = q[..., r, :]
    m = np.full(qt.shape[:-1], -np.inf)
    l = np.zeros(qt.shape[:-1])
    a = np.zeros((*qt.shape[:-1], v.shape[-1]))
    for c in tiles(k.shape[-2], tile_k):
        z = qt @ np.swapaxes(k[..., c, :], -1, -2) / np.sqrt(q.shape[-1])
        m, l, a = online_softmax(m, l, a, z, v[..., c, :])
    o[..., r, :] = a / l[..., None]
    lse[..., r] = m + np.log(l)
return o, lse
"""


def _loops(old: str, new: str) -> str:
    assert old in LOOPS, old
    return _with(FORWARD, LOOPS.replace(old, new))


BACK = """
delta = (grad_output * output).sum(-1)
gq, gk, gv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
root = np.sqrt(q.shape[-1])
for r in tiles(q.shape[-2], tile_q):
    for c in tiles(k.shape[-2], tile_k):
        qt, kt, vt, go = q[..., r, :], k[..., c, :], v[..., c, :], grad_output[..., r, :]
        p = np.exp(qt @ np.swapaxes(kt, -1, -2) / root - lse[..., r][..., None])
        dp = go @ np.swapaxes(vt, -1, -2)
        dz = p * (dp - delta[..., r][..., None]) / root
        gq[..., r, :] += dz @ kt
        gk[..., c, :] += np.swapaxes(dz, -1, -2) @ qt
        gv[..., c, :] += np.swapaxes(p, -1, -2) @ go
return gq, gk, gv
"""


def _back(old: str, new: str) -> str:
    assert old in BACK, old
    return _with(BACKWARD, BACK.replace(old, new))


GRID = """
rows, columns = tiles(queries, tile_q), tiles(keys, tile_k)
grid = np.zeros((len(rows), len(columns)), dtype=bool)
for i, r in enumerate(rows):
    p0, p1 = r.start + keys - queries, r.stop - 1 + keys - queries
    for j, c in enumerate(columns):
        s0, s1 = c.start, c.stop - 1
        ok = True
        if causal:
            ok = ok and s0 <= p1
        if window is not None:
            ok = ok and s1 >= p0 - window and s0 <= p1 + window
        grid[i, j] = ok
return grid
"""


def _grid(old: str, new: str) -> str:
    assert old in GRID, old
    return _with(NEEDED, GRID.replace(old, new))


COUNT = """
grid = tiles_needed(queries, keys, tile_q, tile_k, causal, window)
numbers = 0
for i, r in enumerate(tiles(queries, tile_q)):
    n = r.stop - r.start
    numbers += n * width
    for j, c in enumerate(tiles(keys, tile_k)):
        if grid[i, j]:
            numbers += 2 * (c.stop - c.start) * width
    numbers += n * width + n
return numbers * itemsize
"""


def _count(old: str, new: str) -> str:
    assert old in COUNT, old
    return _with(TRAFFIC, COUNT.replace(old, new))


# fmt: off
CASES = [
    ("online_softmax", "wrong", "infinities turned into 0 in the state too", _step("return m,", "return s,")),
    ("online_softmax", "wrong", "correction applied to the sum twice", _step("c * running_sum", "c * c * running_sum")),
    ("online_softmax", "wrong", "minimum in place of the maximum", _step("scores.max(-1)", "scores.min(-1)")),
    ("online_softmax", "wrong", "maximum over the queries", _step("scores.max(-1)", "scores.max(-2)[..., :1]")),
    ("online_softmax", "wrong", "sum over the queries too", _step("p.sum(-1)", "p.sum(axis=(-1, -2))[..., None]")),
    ("online_softmax", "wrong", "new sum replaces the old one", _step("c * running_sum + p", "p")),
    ("online_softmax", "wrong", "accumulator comes back before the sum",
     _step("c * running_sum + p.sum(-1), c[..., None] * accumulator + p @ values",
           "c[..., None] * accumulator + p @ values, c * running_sum + p.sum(-1)")),
    ("online_softmax", "wrong", "a huge negative number for −inf", _step("np.isinf(m), 0.0, m", "m < -1e3, 0.0, m")),
    ("online_softmax", "wrong", "scaled again", _step("p = np.exp(scores", "scores = scores / np.sqrt(values.shape[-1])\np = np.exp(scores")),
    ("online_softmax", "wrong", "sum changed in place", _step("return m,", "running_sum *= c\nrunning_sum += p.sum(-1)\nreturn m, running_sum, c[..., None] * accumulator + p @ values\nreturn m,")),
    ("online_softmax", "wrong", "the correction lacks an axis", _step("c[..., None] *", "c *")),
    ("online_softmax", "wrong", "exponents clipped at −50", _step("np.exp(scores - s[..., None])", "np.exp(np.clip(scores - s[..., None], -50, 0))")),
    ("online_softmax", "wrong", "squeeze takes an axis of T = 1 too", _step("p.sum(-1)", "p.sum(-1, keepdims=True).squeeze()")),
    ("online_softmax", "right", "where on the difference", _with(ONLINE, """
m = np.maximum(running_max, scores.max(axis=-1))
with np.errstate(invalid="ignore"):
    c = np.where(running_max == m, 1.0, np.exp(running_max - m))
    p = np.where(scores == -np.inf, 0.0, np.exp(scores - m[..., np.newaxis]))
return m, running_sum * c + p.sum(axis=-1), accumulator * c[..., np.newaxis] + np.matmul(p, values)
""")),
    ("online_softmax", "right", "finite floor", _with(ONLINE, """
m = np.maximum(running_max, np.amax(scores, axis=-1))
base = np.maximum(m, -1e300)
grow = np.exp(running_max - base)
e = np.exp(scores - np.expand_dims(base, -1))
return m, grow * running_sum + np.sum(e, axis=-1), np.expand_dims(grow, -1) * accumulator + e @ values
""")),
    ("online_softmax", "right", "values and ones in one product", _with(ONLINE, """
m = np.maximum(running_max, scores.max(-1))
base = np.where(m == -np.inf, 0, m)
e = np.exp(scores - base[..., None])
wide = np.concatenate([values, np.ones((*values.shape[:-1], 1))], -1)
both = e @ wide
c = np.exp(running_max - base)
return m, running_sum * c + both[..., -1], accumulator * c[..., None] + both[..., :-1]
""")),
    ("merge_partials", "wrong", "shares of the LSEs themselves", _join("np.exp(lse - s)[..., None], np.exp(other_lse - s)[..., None]", "(lse / (lse + other_lse))[..., None], (other_lse / (lse + other_lse))[..., None]")),
    ("merge_partials", "wrong", "base 2", _join("np.logaddexp(", "np.logaddexp2(")),
    ("merge_partials", "wrong", "mean of the LSEs", _join("return a * output + b * other_output, total", "return a * output + b * other_output, (lse + other_lse) / 2")),
    ("merge_partials", "wrong", "LSE of the first part returned", _join("other_output, total", "other_output, lse")),
    ("merge_partials", "wrong", "hard choice of the larger", _join("a * output + b * other_output", "np.where((lse > other_lse)[..., None], output, other_output)")),
    ("merge_partials", "wrong", "shares not divided by the total", _join("s = np.where(np.isinf(total), 0.0, total)", "s = np.maximum(np.maximum(lse, other_lse), -1e300)")),
    ("merge_partials", "wrong", "nan_to_num hides the empty LSE", _join("other_output, total", "other_output, np.nan_to_num(total, neginf=0.0)")),
    ("merge_partials", "wrong", "results exchanged", _join("a * output + b * other_output, total", "total, a * output + b * other_output")),
    ("merge_partials", "wrong", "output written in place", _join("return a *", "output *= a\noutput += b * other_output\nreturn output, total\nreturn a *")),
    ("merge_partials", "wrong", "1 added for safety", _join("np.logaddexp(lse, other_lse)", "np.log(np.exp(lse) + np.exp(other_lse) + 1e-6)")),
    ("merge_partials", "wrong", "guarded only if every row is empty", _join("np.where(np.isinf(total), 0.0, total)", "np.zeros_like(total) if np.all(np.isinf(total)) else total")),
    ("merge_partials", "wrong", "log1p overflows if the other is far larger", _join("np.logaddexp(lse, other_lse)", "np.where(np.isneginf(lse), other_lse, lse + np.log1p(np.exp(other_lse - np.where(np.isneginf(lse), 0.0, lse))))")),
    ("merge_partials", "right", "log1p", _with(MERGE, """
high, low = np.maximum(lse, other_lse), np.minimum(lse, other_lse)
gap = np.where(np.isinf(low), -np.inf, low - np.where(np.isinf(high), 0, high))
total = high + np.log1p(np.exp(gap))
safe = np.where(np.isinf(total), 0, total)
return np.exp(lse - safe)[..., None] * output + np.exp(other_lse - safe)[..., None] * other_output, total
""")),
    ("merge_partials", "right", "difference of outputs", _with(MERGE, """
total = np.logaddexp(lse, other_lse)
share = np.exp(other_lse - np.where(total == -np.inf, 0.0, total))[..., None]
first = np.exp(lse - np.where(total == -np.inf, 0.0, total))[..., None]
return output * (first + share) + share * (1.0 * other_output - output), total
""")),
    ("merge_partials", "right", "softmax of the two", _with(MERGE, """
both = np.stack(np.broadcast_arrays(lse, other_lse), -1) * 1.0
top = np.maximum(both.max(-1, keepdims=True), -1e300)
e = np.exp(both - top)
total = e.sum(-1, keepdims=True)
w = np.divide(e, total, out=np.zeros_like(e), where=total > 0)
with np.errstate(divide="ignore"):
    lse_both = top[..., 0] + np.log(total[..., 0])
return w[..., :1] * output + w[..., 1:] * other_output, lse_both
""")),
    ("stream_attention", "wrong", "total only is not rescaled now", _pass("total = c * total", "total = total")),
    ("stream_attention", "wrong", "the largest is forgotten", _pass("    largest = new\n", "")),
    ("stream_attention", "wrong", "rescaled before the maximum is known", _pass("    c = np.exp(largest - new)\n", "    c = np.exp(largest - z.max())\n")),
    ("stream_attention", "wrong", "divides inside the loop", _pass("    largest = new\n", "    weighted = weighted / total\n    largest = new\n")),
    ("stream_attention", "wrong", "no maximum at all", _pass("new = max(largest, z.max())", "new = 0.0")),
    ("stream_attention", "wrong", "LSE is the total", _pass("float(largest + np.log(total))", "float(total)")),
    ("stream_attention", "wrong", "first tile sets the maximum", _pass("max(largest, z.max())", "largest if np.isfinite(largest) else z.max()")),
    ("stream_attention", "wrong", "√D_v in place of √D", _pass("np.sqrt(len(q))", "np.sqrt(v.shape[-1])")),
    ("stream_attention", "wrong", "keeps every tile's scores", _with(STREAM, """
parts = [k[part] @ q / np.sqrt(len(q)) for part in tiles(len(k), tile_k)]
z = np.concatenate(parts)
p = np.exp(z - z.max())
return p @ v / p.sum(), float(z.max() + np.log(p.sum()))
""")),
    ("stream_attention", "wrong", "output only", _pass("return weighted / total, float(largest + np.log(total))", "return weighted / total")),
    ("stream_attention", "wrong", "maximum starts at 0", _pass("largest, total, weighted = -np.inf", "largest, total, weighted = 0.0")),
    ("stream_attention", "wrong", "maximum starts at −10,000", _pass("largest, total, weighted = -np.inf", "largest, total, weighted = -1e4")),
    ("stream_attention", "wrong", "maximum of this tile only", _pass("max(largest, z.max())", "z.max()")),
    ("stream_attention", "wrong", "tiles of 4096, whatever is asked", _pass("tiles(len(k), tile_k)", "tiles(len(k), 4096 * min(tile_k, 1))")),
    ("stream_attention", "wrong", "the last keys are left out", _pass("for part in tiles(len(k), tile_k):", "for i in range(max(len(k) // tile_k, 1)):\n    part = slice(i * tile_k, (i + 1) * tile_k)")),
    ("stream_attention", "wrong", "shapes are not looked at", HELPERS + "def stream_attention(q, k, v, tile_k=64):\n" + "".join(f"    {line}\n" for line in PASS.strip().split("\n"))),
    ("stream_attention", "wrong", "a tile of −1 gives NaN", _pass("for part in tiles(len(k), tile_k):", "for i in range(0, len(k), tile_k):\n    part = slice(i, i + tile_k)")),
    ("stream_attention", "right", "two states merged by hand", _with(STREAM, """
o, lse = np.zeros(v.shape[-1]), -np.inf
for part in tiles(len(k), tile_k):
    z = k[part] @ q * len(q) ** -0.5
    top = z.max()
    p = np.exp(z - top)
    mine = top + np.log(p.sum())
    new = np.logaddexp(lse, mine)
    o = np.exp(lse - new) * o + np.exp(mine - new) * (p @ v[part] / p.sum())
    lse = new
return o, float(lse)
""")),
    ("stream_attention", "right", "an if for the maximum", _with(STREAM, """
m, l, a = None, 0.0, 0.0
for i in range(0, k.shape[0], tile_k) if tile_k > 0 else tiles(1, tile_k):
    z = (k[i:i + tile_k] * q).sum(-1) / math.sqrt(q.shape[0])
    if m is None or z.max() > m:
        factor = 0.0 if m is None else math.exp(m - z.max())
        m, l, a = float(z.max()), l * factor, a * factor
    e = np.exp(z - m)
    l, a = l + float(e.sum()), a + e @ v[i:i + tile_k]
return a / l, m + math.log(l)
""")),
    ("stream_attention", "right", "key by key", _with(STREAM, """
m, l, a = -math.inf, 0.0, np.zeros(v.shape[1])
for part in tiles(len(k), tile_k):
    for key, value in zip(k[part], v[part]):
        z = float(key @ q) / math.sqrt(len(q))
        new = max(m, z)
        l = l * math.exp(m - new) + math.exp(z - new)
        a = a * math.exp(m - new) + math.exp(z - new) * value
        m = new
return a / l, m + math.log(l)
""")),
    ("flash_forward", "wrong", "√ of the tile width", _loops("np.sqrt(q.shape[-1])", "np.sqrt(k.shape[-2])")),
    ("flash_forward", "wrong", "scaled by D", _loops("np.sqrt(q.shape[-1])", "q.shape[-1]")),
    ("flash_forward", "wrong", "base-2 logarithm", _loops("np.log(l)", "np.log2(l)")),
    ("flash_forward", "wrong", "state not carried between key tiles", _loops("m, l, a = online_softmax(m, l, a,", "m, l, a = online_softmax(m - np.inf, l * 0, a * 0,")),
    ("flash_forward", "wrong", "divided after each tile of keys", _loops("v[..., c, :])\n", "v[..., c, :])\n        a = a / l[..., None]\n        l = l / l\n")),
    ("flash_forward", "wrong", "single matrices only", _loops("np.swapaxes(k[..., c, :], -1, -2)", "k[..., c, :].T")),
    ("flash_forward", "wrong", "only full tiles of queries", _loops("tiles(q.shape[-2], tile_q)", "tiles(max(q.shape[-2] // tile_q, 1) * tile_q if q.shape[-2] > tile_q else q.shape[-2], tile_q)")),
    ("flash_forward", "wrong", "all partial results kept", _with(FORWARD, """
outs, lses = [], []
for c in tiles(k.shape[-2], tile_k):
    z = q @ np.swapaxes(k[..., c, :], -1, -2) / np.sqrt(q.shape[-1])
    m = z.max(-1, keepdims=True)
    p = np.exp(z - m)
    outs.append(p @ v[..., c, :] / p.sum(-1, keepdims=True))
    lses.append(m[..., 0] + np.log(p.sum(-1)))
tiles(1, tile_q)
lse = np.logaddexp.reduce(np.stack(lses), axis=0)
return sum(np.exp(b - lse)[..., None] * o for o, b in zip(outs, lses)), lse
""")),
    ("flash_forward", "wrong", "zero before the first tile", _loops("np.full(qt.shape[:-1], -np.inf)", "np.zeros(qt.shape[:-1])")),
    ("flash_forward", "wrong", "copies all keys transposed", _loops("for r in tiles(q", "kt = np.array(np.swapaxes(k, -1, -2))\nfor r in tiles(q").replace("np.swapaxes(k[..., c, :], -1, -2)", "kt[..., c]")),
    ("flash_forward", "wrong", "maximum starts at −10,000", _loops("np.full(qt.shape[:-1], -np.inf)", "np.full(qt.shape[:-1], -1e4)")),
    ("flash_forward", "wrong", "maximum carried over to the next queries", _loops("m = np.full(qt.shape[:-1], -np.inf)", "m = np.full(qt.shape[:-1], -np.inf) if r.start == 0 else m[..., : r.stop - r.start]")),
    ("flash_forward", "wrong", "state made once, outside the loop", _loops("for r in tiles(q.shape[-2], tile_q):\n    qt = q[..., r, :]\n    m = np.full(qt.shape[:-1], -np.inf)\n    l = np.zeros(qt.shape[:-1])\n    a = np.zeros((*qt.shape[:-1], v.shape[-1]))\n", "n = min(tile_q, q.shape[-2])\nm = np.full((*q.shape[:-2], n), -np.inf)\nl = np.zeros((*q.shape[:-2], n))\na = np.zeros((*q.shape[:-2], n, v.shape[-1]))\nfor r in tiles(q.shape[-2], tile_q):\n    qt = q[..., r, :]\n    n = r.stop - r.start\n    m, l, a = m[..., :n], l[..., :n], a[..., :n, :]\n")),
    ("flash_forward", "wrong", "tile sizes exchanged", _loops("q.shape[-2], tile_q", "q.shape[-2], tile_k").replace("k.shape[-2], tile_k", "k.shape[-2], tile_q")),
    ("flash_forward", "wrong", "tiles of 64, whatever is asked", _loops("q.shape[-2], tile_q", "q.shape[-2], 64 * min(tile_q, 1)").replace("k.shape[-2], tile_k", "k.shape[-2], 64 * min(tile_k, 1)")),
    ("flash_forward", "wrong", "all queries in one tile", _loops("q.shape[-2], tile_q", "q.shape[-2], q.shape[-2] * min(tile_q, 1)")),
    ("flash_forward", "right", "matmul with a transposed view", _loops("np.swapaxes(k[..., c, :], -1, -2)", "np.swapaxes(k, -1, -2)[..., c]")),
    ("flash_forward", "right", "LSE first, then the output from it", _with(FORWARD, """
lse = np.full(q.shape[:-1], -np.inf)
out = np.zeros((*q.shape[:-1], v.shape[-1]))
def score(r, c):
    return q[..., r, :] @ np.swapaxes(k[..., c, :], -1, -2) / q.shape[-1] ** 0.5
for r in tiles(q.shape[-2], tile_q):
    for c in tiles(k.shape[-2], tile_k):
        lse[..., r] = np.logaddexp(lse[..., r], np.logaddexp.reduce(score(r, c), axis=-1))
    for c in tiles(k.shape[-2], tile_k):
        out[..., r, :] += np.exp(score(r, c) - lse[..., r][..., None]) @ v[..., c, :]
return out, lse
""")),
    ("flash_forward", "right", "a while loop, own update", _with(FORWARD, """
rows, cols = tiles(q.shape[-2], tile_q), tiles(k.shape[-2], tile_k)
O = np.empty(q.shape[:-1] + (v.shape[-1],))
L = np.empty(q.shape[:-1])
for r in rows:
    Q = q[..., r, :] / math.sqrt(q.shape[-1])
    m = l = a = None
    for c in cols:
        Z = np.einsum('...td,...sd->...ts', Q, k[..., c, :])
        top = Z.max(-1, keepdims=True) if m is None else np.maximum(m, Z.max(-1, keepdims=True))
        P = np.exp(Z - top)
        if m is None:
            l, a = P.sum(-1, keepdims=True), P @ v[..., c, :]
        else:
            l = l * np.exp(m - top) + P.sum(-1, keepdims=True)
            a = a * np.exp(m - top) + P @ v[..., c, :]
        m = top
    O[..., r, :] = a / l
    L[..., r] = (m + np.log(l))[..., 0]
return O, L
""")),
    ("flash_backward", "wrong", "delta from P and dP of the tile", _back("dz = p * (dp - delta[..., r][..., None])", "dz = p * (dp - (p * dp).sum(-1, keepdims=True))")),
    ("flash_backward", "wrong", "delta with a plus", _back("dp - delta", "dp + delta")),
    ("flash_backward", "wrong", "scaled twice", _back("[..., None]) / root\n        gq", "[..., None]) / root / root\n        gq")),
    ("flash_backward", "wrong", "LSE added", _back("/ root - lse", "/ root + lse")),
    ("flash_backward", "wrong", "softmax in the tile", _back("dp = go", "p = p / p.sum(-1, keepdims=True)\n        dp = go")),
    ("flash_backward", "wrong", "grad_k from the keys", _back("np.swapaxes(dz, -1, -2) @ qt", "np.swapaxes(dz, -1, -2) @ (dz @ kt)")),
    ("flash_backward", "wrong", "grad_v with dz", _back("np.swapaxes(p, -1, -2) @ go", "np.swapaxes(dz, -1, -2) @ go")),
    ("flash_backward", "wrong", "grad_v keeps the last tile", _back("gv[..., c, :] += ", "gv[..., c, :] = ")),
    ("flash_backward", "wrong", "the LSE changed in place", _back("/ root - lse", "/ root + lse").replace("root = np", "lse *= -1\n    root = np")),
    ("flash_backward", "wrong", "results in the order v, k, q", _back("return gq, gk, gv", "return gv, gk, gq")),
    ("flash_backward", "wrong", "delta averaged", _back(".sum(-1)", ".mean(-1)")),
    ("flash_backward", "wrong", "all queries in one tile", _back("q.shape[-2], tile_q", "q.shape[-2], q.shape[-2] * min(tile_q, 1)")),
    ("flash_backward", "wrong", "all keys in one tile", _back("k.shape[-2], tile_k", "k.shape[-2], k.shape[-2] * min(tile_k, 1)")),
    ("flash_backward", "wrong", "tiles of 64, whatever is asked", _back("q.shape[-2], tile_q", "q.shape[-2], 64 * min(tile_q, 1)").replace("k.shape[-2], tile_k", "k.shape[-2], 64 * min(tile_k, 1)")),
    ("flash_backward", "wrong", "grad_k keeps the last tile", _back("gk[..., c, :] += ", "gk[..., c, :] = ")),
    ("flash_backward", "wrong", "shapes are not looked at", _back("root = ", "root = ").replace("    expect_shapes(q, k, v)\n", "")),
    ("flash_backward", "wrong", "tiles of −1 give zeros", _back("for r in tiles(q.shape[-2], tile_q):", "for i in range(0, q.shape[-2], tile_q):\n    r = slice(i, i + tile_q)").replace("for c in tiles(k.shape[-2], tile_k):", "for j in range(0, k.shape[-2], tile_k):\n            c = slice(j, j + tile_k)")),
    ("flash_backward", "right", "the scale in q and k", _back("[..., None]) / root", "[..., None])").replace("dz @ kt", "dz @ (kt / root)").replace("np.swapaxes(dz, -1, -2) @ qt", "np.swapaxes(dz, -1, -2) @ (qt / root)")),
    ("flash_backward", "right", "delta per tile of queries", _back("delta = (grad_output * output).sum(-1)\n", "").replace("delta[..., r][..., None]", "np.einsum('...v,...v->...', go, output[..., r, :])[..., None]")),
    ("flash_backward", "right", "lists of tiles", _with(BACKWARD, """
R, C = tiles(q.shape[-2], tile_q), tiles(k.shape[-2], tile_k)
d = q.shape[-1] ** -0.5
D = np.sum(grad_output * output, axis=-1, keepdims=True)
def both(r, c):
    p = np.exp(d * (q[..., r, :] @ k[..., c, :].swapaxes(-1, -2)) - np.expand_dims(lse, -1)[..., r, :])
    return p, p * (grad_output[..., r, :] @ v[..., c, :].swapaxes(-1, -2) - D[..., r, :]) * d
gq = np.concatenate([sum(both(r, c)[1] @ k[..., c, :] for c in C) for r in R], -2)
gk = np.concatenate([sum(both(r, c)[1].swapaxes(-1, -2) @ q[..., r, :] for r in R) for c in C], -2)
gv = np.concatenate([sum(both(r, c)[0].swapaxes(-1, -2) @ grad_output[..., r, :] for r in R) for c in C], -2)
return gq, gk, gv
""")),
    ("flash_backward", "right", "delta by a pass of its own", _back("delta = (grad_output * output).sum(-1)\n", "").replace("        for c in", "        delta = sum((np.exp(q[..., r, :] @ np.swapaxes(k[..., c, :], -1, -2) / root - lse[..., r][..., None]) * (grad_output[..., r, :] @ np.swapaxes(v[..., c, :], -1, -2))).sum(-1) for c in tiles(k.shape[-2], tile_k))\n        for c in").replace("delta[..., r][..., None]", "delta[..., None]")),
    ("tiles_needed", "wrong", "by tile numbers", _with(NEEDED, """
rows, columns = tiles(queries, tile_q), tiles(keys, tile_k)
i, j = np.arange(len(rows))[:, None], np.arange(len(columns))
grid = np.ones((len(rows), len(columns)), dtype=bool)
if causal:
    grid &= j <= i
if window is not None:
    grid &= abs(i - j) * tile_k <= window + tile_k
return grid
""")),
    ("tiles_needed", "wrong", "stop taken for the last place", _grid("r.stop - 1 +", "r.stop +")),
    ("tiles_needed", "wrong", "last key one too far", _grid("c.stop - 1", "c.stop")),
    ("tiles_needed", "wrong", "shift the other way", _grid("r.start + keys - queries, r.stop - 1 + keys - queries", "r.start + queries - keys, r.stop - 1 + queries - keys")),
    ("tiles_needed", "wrong", "window of w keys in all", _grid("p0 - window and s0 <= p1 + window", "p0 - window + 1 and s0 <= p1 + window - 1")),
    ("tiles_needed", "wrong", "a window of 0 taken for none", _grid("if window is not None:", "if window:")),
    ("tiles_needed", "wrong", "hidden tiles are True", _grid("return grid", "return ~grid")),
    ("tiles_needed", "wrong", "transposed", _grid("return grid", "return grid.T")),
    ("tiles_needed", "wrong", "the whole mask", _with(NEEDED, """
rows, columns = tiles(queries, tile_q), tiles(keys, tile_k)
p, s = np.arange(queries)[:, None] + keys - queries, np.arange(keys)
mask = np.ones((queries, keys), dtype=bool)
if causal:
    mask &= s <= p
if window is not None:
    mask &= abs(s - p) <= window
return np.array([[mask[r, c].any() for c in columns] for r in rows])
""")),
    ("tiles_needed", "wrong", "either rule is enough", _grid("        if window is not None:\n            ok = ok and s1", "        if window is not None:\n            ok = (causal and ok) or s1")),
    ("tiles_needed", "wrong", "any of the four corners", _grid("        if causal:\n            ok = ok and s0 <= p1\n        if window is not None:\n            ok = ok and s1 >= p0 - window and s0 <= p1 + window\n", "        ok = any((not causal or s <= p) and (window is None or abs(s - p) <= window) for p in (p0, p1) for s in (s0, s1))\n")),
    ("tiles_needed", "wrong", "the last key of a tile decides", _grid("ok and s0 <= p1\n", "ok and s1 <= p1\n")),
    ("tiles_needed", "wrong", "places before the first key moved to it", _grid("p0, p1 = r.start + keys - queries, r.stop - 1 + keys - queries", "p0, p1 = max(r.start + keys - queries, 0), max(r.stop - 1 + keys - queries, 0)")),
    ("tiles_needed", "wrong", "causal by tile numbers", _grid("ok and s0 <= p1\n", "ok and j <= i\n")),
    ("tiles_needed", "wrong", "window in whole tiles", _grid("ok and s1 >= p0 - window and s0 <= p1 + window", "ok and abs(i - j) <= -(-window // tile_k)")),
    ("tiles_needed", "wrong", "window looks ahead only", _grid("s1 >= p0 - window and s0", "s0")),
    ("tiles_needed", "right", "numbers 0 and 1", _grid("return grid", "return grid.astype(bool)")),
    ("tiles_needed", "right", "early continue", _with(NEEDED, """
rows, columns = list(tiles(queries, tile_q)), list(tiles(keys, tile_k))
grid = np.full((len(rows), len(columns)), True)
shift = keys - queries
for (i, r), (j, c) in itertools.product(enumerate(rows), enumerate(columns)):
    if causal and not c.start < r.stop + shift:
        grid[i, j] = False
        continue
    if window is None:
        continue
    nearest = max(c.start - (r.stop - 1 + shift), (r.start + shift) - (c.stop - 1), 0)
    grid[i, j] = nearest <= window
return grid
""")),
    ("tiles_needed", "right", "intervals of offsets", _with(NEEDED, """
rows, columns = tiles(queries, tile_q), tiles(keys, tile_k)
low = -math.inf if window is None else -window
high = math.inf if window is None else window
if causal:
    high = min(high, 0)
out = []
for r in rows:
    a, b = r.start + keys - queries, r.stop - 1 + keys - queries
    out.append([c.start - b <= high and c.stop - 1 - a >= low for c in columns])
return np.array(out)
""")),
    ("hbm_traffic", "wrong", "keys read once a query", _count("2 * (c.stop - c.start) * width", "2 * (c.stop - c.start) * width * n")),
    ("hbm_traffic", "wrong", "O read back as well", _count("numbers += n * width + n", "numbers += 2 * n * width + n")),
    ("hbm_traffic", "wrong", "maximum and sum both written", _count("n * width + n\nreturn", "n * width + 2 * n\nreturn")),
    ("hbm_traffic", "wrong", "LSE of the width of the output", _count("n * width + n\nreturn", "2 * n * width\nreturn")),
    ("hbm_traffic", "wrong", "bits", _count("numbers * itemsize", "numbers * itemsize * 8")),
    ("hbm_traffic", "wrong", "two bytes whatever is asked", _count("numbers * itemsize", "numbers * 2")),
    ("hbm_traffic", "wrong", "causal taken for half", _with(TRAFFIC, """
full = 2 * queries * width + queries
read = 2 * keys * width * -(-queries // tile_q)
if causal:
    read //= 2
return (full + read) * itemsize
""")),
    ("hbm_traffic", "wrong", "tiles rounded down", _with(TRAFFIC, """
grid = tiles_needed(queries, keys, tile_q, tile_k, causal, window)
read = int(grid.sum()) * 2 * tile_k * width
return (2 * queries * width + queries + read) * itemsize
""")),
    ("hbm_traffic", "wrong", "window not passed on", _count("causal, window)", "causal)")),
    ("hbm_traffic", "wrong", "float tiles of queries", _with(TRAFFIC, """
return (2 * queries * width + queries + 2 * keys * width * queries / tile_q) * itemsize
""")),
    ("hbm_traffic", "wrong", "a closed formula takes a tile of −1", _with(TRAFFIC, """
if not causal and window is None:
    return (2 * queries * width + queries - (-queries // tile_q) * 2 * keys * width) * itemsize
""" + COUNT)),
    ("hbm_traffic", "wrong", "a float", _count("return numbers * itemsize", "return 1.0 * numbers * itemsize")),
    ("hbm_traffic", "wrong", "the standard way's count", _with(TRAFFIC, """
return (2 * queries * width + 2 * keys * width + 4 * queries * keys) * itemsize
""")),
    ("hbm_traffic", "right", "sum of a product", _with(TRAFFIC, """
sizes = [c.stop - c.start for c in tiles(keys, tile_k)]
grid = tiles_needed(queries, keys, tile_q, tile_k, causal=causal, window=window)
pairs = sum(size for row in grid for size, yes in zip(sizes, row) if yes)
return itemsize * (queries * (2 * width + 1) + 2 * width * pairs)
""")),
    ("hbm_traffic", "right", "a NumPy integer", _count("return numbers * itemsize", "return np.int64(numbers) * itemsize")),
    ("hbm_traffic", "right", "written first", _with(TRAFFIC, """
total = (queries * width + queries) * itemsize
total += queries * width * itemsize
needed = tiles_needed(queries, keys, tile_q, tile_k, causal, window)
for j, c in enumerate(tiles(keys, tile_k)):
    total += int(needed[:, j].sum()) * (c.stop - c.start) * width * itemsize * 2
return total
""")),
    # Seen by readers
    ("online_softmax", "wrong", "a floor of −10,000 for what is subtracted", _step("np.where(np.isinf(m), 0.0, m)", "np.maximum(m, -1e4)")),
    ("online_softmax", "wrong", "the correction upside down, guarded", _step("c = np.exp(running_max - s)", "c = np.exp(s - np.where(np.isinf(running_max), s, running_max))")),
    ("online_softmax", "wrong", "the tile's own maximum under its exponentials", _step("p = np.exp(scores - s[..., None])", "t = scores.max(-1, keepdims=True)\np = np.exp(scores - np.where(np.isinf(t), 0.0, t))")),
    ("online_softmax", "wrong", "guards only if every row is hidden", _step("s = np.where(np.isinf(m), 0.0, m)", "if np.all(np.isinf(m)):\n    return running_max, running_sum, accumulator\ns = m")),
    ("merge_partials", "wrong", "any empty row: the other set whole", _with(MERGE, """
if np.any(np.isneginf(other_lse)):
    return output, lse
if np.any(np.isneginf(lse)):
    return other_output, other_lse
total = np.logaddexp(lse, other_lse)
return np.exp(lse - total)[..., None] * output + np.exp(other_lse - total)[..., None] * other_output, total
""")),
    ("merge_partials", "wrong", "a floor of −10,000 for what is subtracted", _join("np.where(np.isinf(total), 0.0, total)", "np.maximum(total, -1e4)")),
    ("stream_attention", "wrong", "a copy of all values unless they are float64", _pass("largest, total, weighted =", "v = np.asarray(v, float)\nlargest, total, weighted =")),
    ("stream_attention", "wrong", "a contiguous copy of all keys", _pass("largest, total, weighted =", "k = np.ascontiguousarray(k)\nlargest, total, weighted =")),
    ("stream_attention", "wrong", "tiles of 64, whatever is asked", _pass("for part in tiles(len(k), tile_k):", "tiles(1, tile_k)\nfor i in range(0, len(k), 64):\n    part = slice(i, i + 64)")),
    ("stream_attention", "wrong", "tiles of 64 by tiles(…), whatever is asked", _pass("for part in tiles(len(k), tile_k):", "tiles(1, tile_k)\nfor part in tiles(len(k), 64):")),
    ("stream_attention", "wrong", "the weighted sum divided by what shrinks it", _pass("weighted = c * weighted", "weighted = (weighted / c if c else weighted)")),
    ("flash_forward", "wrong", "a copy of all keys unless they are float64", _loops("o, lse =", "k = np.asarray(k, float)\no, lse =")),
    ("flash_forward", "wrong", "a contiguous copy of all values", _loops("o, lse =", "v = np.ascontiguousarray(v)\no, lse =")),
    ("flash_forward", "wrong", "sizes of the two kinds of tiles exchanged", _with(FORWARD, LOOPS.replace("tile_k", "TK").replace("tile_q", "tile_k").replace("TK", "tile_q"))),
    ("flash_forward", "wrong", "divided after every tile of keys", _loops("z, v[..., c, :])\n    o[..., r, :] = a / l[..., None]", "z, v[..., c, :])\n        a = a / l[..., None]\n    o[..., r, :] = a")),
    ("flash_backward", "wrong", "a softmax of each tile", _back("- lse[..., r][..., None])", ")\n        p = p / p.sum(-1, keepdims=True)")),
    ("flash_backward", "wrong", "lse.shape is set", _back("delta =", "lse.shape = lse.shape + (1,)\ndelta =").replace("lse[..., r][..., None]", "lse[..., r, :]")),
    ("tiles_needed", "wrong", "the window's edge is left out", _grid("s1 >= p0 - window and s0 <= p1 + window", "s1 > p0 - window and s0 < p1 + window")),
    ("tiles_needed", "wrong", "filled up to a column that may be negative", _with(NEEDED, """
rows, columns = tiles(queries, tile_q), tiles(keys, tile_k)
grid = np.zeros((len(rows), len(columns)), bool)
for i, r in enumerate(rows):
    p0, p1 = r.start + keys - queries, r.stop - 1 + keys - queries
    first = 0 if window is None else max(0, (p0 - window) // tile_k)
    last = p1 if causal else keys - 1 if window is None else p1 + window
    grid[i, first : last // tile_k + 1] = True
return grid
""")),
    ("hbm_traffic", "wrong", "a window of 0 is passed on as none", _count("causal, window)", "causal, window or None)")),
    ("hbm_traffic", "wrong", "Q once for each needed pair of tiles", _count("    numbers += n * width\n    for", "    for").replace("numbers += 2 * (c.stop - c.start) * width", "numbers += 2 * (c.stop - c.start) * width + n * width")),
    ("hbm_traffic", "wrong", "the missing part of the last tile taken off in every row", _with(TRAFFIC, """
grid = tiles_needed(queries, keys, tile_q, tile_k, causal, window)
read = int(grid.sum()) * tile_k - grid.shape[0] * (grid.shape[1] * tile_k - keys)
return (2 * queries * width + queries + 2 * read * width) * itemsize
""")),
    ("hbm_traffic", "wrong", "tiles of Q that see no key are not read", _count("    numbers += n * width\n    for", "    numbers += n * width if grid[i].any() else 0\n    for")),
    ("stream_attention", "right", "last tile first, a while loop", _with(STREAM, """
if tile_k < 1:
    raise ValueError("a tile of less than one key")
m, l, a, stop = -math.inf, 0.0, 0.0, len(k)
while stop > 0:
    start = max(0, stop - tile_k)
    z = np.einsum("sd,d->s", k[start:stop], q) / np.sqrt(q.shape[-1])
    n = max(m, float(z.max()))
    e, f = np.exp(z - n), math.exp(m - n)
    l, a, m, stop = l * f + e.sum(), a * f + (e[:, None] * v[start:stop]).sum(0), n, start
return np.asarray(a / l), m + math.log(l)
""")),
    # Seen by later readers
    ("online_softmax", "wrong", "divided in each step where the sum is not 0", _step("return m, c * running_sum + p.sum(-1), c[..., None] * accumulator + p @ values", "t = c * running_sum + p.sum(-1)\na = c[..., None] * accumulator + p @ values\nreturn m, t, a / np.where(t == 0, 1, t)[..., None]")),
    ("online_softmax", "wrong", "−1e9 for −inf, and handed back", _step("np.maximum(running_max, scores.max(-1))", "np.maximum(np.maximum(running_max, scores.max(-1)), -1e9)")),
    ("online_softmax", "wrong", "every maximum below −10,000 counts as hidden", _step("np.isinf(m)", "m < -1e4")),
    ("online_softmax", "wrong", "exponentials written into zeros_like(scores)", _step("p = np.exp(scores - s[..., None])", "p = np.zeros_like(scores)\np[...] = np.exp(scores - s[..., None])")),
    ("online_softmax", "wrong", "the accumulator changed through asarray", _step("return m, c * running_sum + p.sum(-1), c[..., None] * accumulator + p @ values", "a = np.asarray(accumulator, dtype=float)\na *= c[..., None]\na += p @ values\nreturn m, c * running_sum + p.sum(-1), a")),
    ("online_softmax", "right", "row by row, with math", _with(ONLINE, """
m, l, a = (np.array(x, dtype=float) for x in (running_max, running_sum, accumulator))
for at in np.ndindex(m.shape):
    old, row = m[at], np.asarray(scores)[at].tolist()
    top = max([old, *row])
    if top == -math.inf:
        continue
    m[at] = top
    l[at] *= math.exp(old - top)
    a[at] *= math.exp(old - top)
    for j, z in enumerate(row):
        l[at] += math.exp(z - top)
        a[at] += math.exp(z - top) * values[at[:-1]][j]
return m, l, a
""")),
    ("online_softmax", "right", "one key after the other", _with(ONLINE, """
m, l, a = running_max, running_sum, accumulator
for j in range(scores.shape[-1]):
    z = scores[..., j]
    new = np.where(z > m, z, m)
    by = np.where(new == -np.inf, 7.0, new)
    c, e = np.exp(m - by), np.exp(z - by)
    l, a, m = l * c + e, a * c[..., None] + e[..., None] * values[..., j, None, :], new
return m, l, a
""")),
    ("merge_partials", "wrong", "weighted by the LSEs, then divided", _with(MERGE, """
total = lse + other_lse
return (lse[..., None] * output + other_lse[..., None] * other_output) / total[..., None], np.logaddexp(lse, other_lse)
""")),
    ("merge_partials", "wrong", "the exponentials of the LSEs overflow", _with(MERGE, """
one, two = np.exp(lse), np.exp(other_lse)
total = one + two
safe = np.where(total == 0, 1, total)
return (one[..., None] * output + two[..., None] * other_output) / safe[..., None], np.log(total)
""")),
    ("merge_partials", "wrong", "other_lse is set where both are empty", _join("total = np", "other_lse = np.asarray(other_lse, dtype=float)\ntotal = np").replace("    a, b =", "    other_lse[np.isinf(total)] = 0.0\n    a, b =")),
    ("merge_partials", "wrong", "made like other_output", _join("return a * output + b * other_output, total", "merged = np.empty_like(other_output)\nmerged[...] = a * output + b * other_output\nreturn merged, total")),
    ("merge_partials", "right", "one step with the other part as a key", _with(MERGE, """
m, s, a = online_softmax(lse[..., None], np.isfinite(lse)[..., None] * 1.0, output[..., None, :], other_lse[..., None, None], other_output[..., None, :])
with np.errstate(divide="ignore"):
    return a[..., 0, :] / np.maximum(s, 1e-300), m[..., 0] + np.log(s[..., 0])
""")),
    ("stream_attention", "wrong", "the sum of values made like v", _pass("np.zeros(v.shape[-1])", "np.zeros_like(v[0])").replace("weighted = c * weighted", "weighted[:] = c * weighted")),
    ("stream_attention", "wrong", "tiles of at least 16 keys", _pass("largest, total, weighted =", "tiles(1, tile_k)\ntile_k = max(tile_k, 16)\nlargest, total, weighted =")),
    ("stream_attention", "wrong", "scores of all tiles kept for a second pass", _with(STREAM, """
z = np.empty(len(k))
for part in tiles(len(k), tile_k):
    z[part] = k[part] @ q / len(q) ** 0.5
top, total, weighted = z.max(), 0.0, np.zeros(v.shape[-1])
for part in tiles(len(k), tile_k):
    e = np.exp(z[part] - top)
    total += e.sum()
    weighted += e @ v[part]
return weighted / total, float(top + np.log(total))
""")),
    ("flash_forward", "wrong", "the output in the shape of q", _loops("np.zeros((*q.shape[:-1], v.shape[-1])), np", "np.zeros(q.shape), np")),
    ("flash_forward", "wrong", "the output in the type of v", _loops("np.zeros((*q.shape[:-1], v.shape[-1])), np", "np.zeros((*q.shape[:-1], v.shape[-1]), dtype=v.dtype), np")),
    ("flash_forward", "wrong", "q scaled in place through asarray", _loops("o, lse =", "q = np.asarray(q, dtype=float)\nq /= np.sqrt(q.shape[-1])\no, lse =").replace(", -1, -2) / np.sqrt(q.shape[-1])", ", -1, -2)")),
    ("flash_forward", "right", "two passes, lists of tiles joined", _with(FORWARD, """
outs, lses = [], []
for r in tiles(q.shape[-2], tile_q):
    mine, top, total, weighted = q[..., r, :] / np.sqrt(q.shape[-1]), -np.inf, 0.0, 0.0
    for c in tiles(k.shape[-2], tile_k):
        top = np.maximum(top, (mine @ k[..., c, :].swapaxes(-2, -1)).max(-1, keepdims=True))
    for c in tiles(k.shape[-2], tile_k):
        e = np.exp(mine @ k[..., c, :].swapaxes(-2, -1) - top)
        total, weighted = total + e.sum(-1, keepdims=True), weighted + e @ v[..., c, :]
    outs.append(weighted / total)
    lses.append((top + np.log(total))[..., 0])
return np.concatenate(outs, axis=-2), np.concatenate(lses, axis=-1)
""")),
    ("flash_backward", "wrong", "output changed in place", _back("delta = (grad_output * output).sum(-1)", "output = np.asarray(output, dtype=float)\noutput *= grad_output\ndelta = output.sum(-1)")),
    ("flash_backward", "wrong", "e^Z over e^LSE overflows", _back("- lse[..., r][..., None])", ") / np.exp(lse[..., r][..., None])")),
    ("flash_backward", "right", "gradients in lists of tiles, joined at the end", _with(BACKWARD, """
R, C = tiles(q.shape[-2], tile_q), tiles(k.shape[-2], tile_k)
gq, gk, gv = [0.0] * len(R), [0.0] * len(C), [0.0] * len(C)
for i, r in enumerate(R):
    for j, c in enumerate(C):
        p = np.exp(q[..., r, :] @ k[..., c, :].swapaxes(-1, -2) / q.shape[-1] ** 0.5 - lse[..., r, None])
        d = grad_output[..., r, :] @ v[..., c, :].swapaxes(-1, -2)
        d = p * (d - (grad_output[..., r, :] * output[..., r, :]).sum(-1)[..., None]) / q.shape[-1] ** 0.5
        gq[i], gk[j] = gq[i] + d @ k[..., c, :], gk[j] + d.swapaxes(-1, -2) @ q[..., r, :]
        gv[j] = gv[j] + p.swapaxes(-1, -2) @ grad_output[..., r, :]
return tuple(np.concatenate(g, axis=-2) for g in (gq, gk, gv))
""")),
    ("flash_backward", "right", "delta and a scaled copy of q beforehand", _with(BACKWARD, """
scaled, delta = q * q.shape[-1] ** -0.5, np.sum(output * grad_output, axis=-1)
gq, gk, gv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
for i, j in itertools.product(tiles(q.shape[-2], tile_q), tiles(k.shape[-2], tile_k)):
    p = np.exp(scaled[..., i, :] @ np.moveaxis(k[..., j, :], -1, -2) - np.expand_dims(lse[..., i], -1))
    gv[..., j, :] += np.moveaxis(p, -1, -2) @ grad_output[..., i, :]
    p *= grad_output[..., i, :] @ np.moveaxis(v[..., j, :], -1, -2) - delta[..., i, None]
    gq[..., i, :] += p @ k[..., j, :]
    gk[..., j, :] += np.moveaxis(p, -1, -2) @ scaled[..., i, :]
gq *= q.shape[-1] ** -0.5
return gq, gk, gv
""")),
    ("tiles_needed", "wrong", "only tiles with all pairs visible", _grid("ok and s0 <= p1\n", "ok and s1 <= p0\n").replace("s1 >= p0 - window and s0 <= p1 + window", "s0 >= p1 - window and s1 <= p0 + window")),
    ("tiles_needed", "wrong", "a window looks back only", _grid("s1 >= p0 - window and s0 <= p1 + window", "s1 >= p0 - window and s0 <= p1")),
    ("tiles_needed", "wrong", "with causal the window is forgotten", _grid("        if window is not None:", "        elif window is not None:")),
    ("tiles_needed", "wrong", "0 and 1 instead of booleans", _grid("return grid", "return grid.astype(int)")),
    ("tiles_needed", "right", "ranges of p − s against those allowed", _with(NEEDED, """
low = 0 if causal else (-math.inf if window is None else -window)
high = math.inf if window is None else window
shift = keys - queries
return np.array([
    [max(r.start + shift - c.stop + 1, low) <= min(r.stop - 1 + shift - c.start, high) for c in tiles(keys, tile_k)]
    for r in tiles(queries, tile_q)
])
""")),
    ("hbm_traffic", "wrong", "causal: half of all tiles", _count("grid = tiles_needed(queries, keys, tile_q, tile_k, causal, window)", "grid = tiles_needed(queries, keys, tile_q, tile_k, False, window) / (2 if causal else 1)").replace("if grid[i, j]:\n                numbers += 2 *", "if grid[i, j]:\n                numbers += grid[i, j] * 2 *").replace("return numbers * itemsize", "return int(numbers) * itemsize")),
    ("hbm_traffic", "wrong", "the last tile of Q counted as a full one", _count("    numbers += n * width\n    for", "    numbers += tile_q * width\n    for")),
    ("hbm_traffic", "wrong", "a short formula without a mask takes any tile", _count("grid = tiles", "if not causal and window is None:\n    count = math.ceil(queries / tile_q)\n    return (2 * queries * width + queries + 2 * width * keys * count) * itemsize\ngrid = tiles")),
    ("hbm_traffic", "right", "full tiles, less what the last one lacks", _with(TRAFFIC, """
table = tiles_needed(queries, keys, tile_q, tile_k, causal, window)
read = table.sum().item() * tile_k - table[:, -1].sum().item() * (-keys % tile_k)
return itemsize * (2 * width * read + 2 * width * queries + queries)
""")),
    ("merge_partials", "wrong", "one maximum for all queries", _join("total = np.logaddexp(lse, other_lse)", "top = max(lse.max(), other_lse.max())\ntop = 0 if top == -np.inf else top\nwith np.errstate(divide='ignore'):\n    total = top + np.log(np.exp(lse - top) + np.exp(other_lse - top))")),
    ("merge_partials", "right", "the share by a tanh", _with(MERGE, """
both = np.isneginf(lse) & np.isneginf(other_lse)
with np.errstate(invalid="ignore"):
    gap = np.where(both, 0.0, np.subtract(lse, other_lse, dtype=float))
share = (0.5 + 0.5 * np.tanh(gap / 2))[..., None]
return share * output + (1 - share) * other_output, np.logaddexp(lse, other_lse)
""")),
    ("flash_forward", "wrong", "tile_k is looked at, tile_q is taken", _loops("k.shape[-2], tile_k", "k.shape[-2], tile_k if tile_k < 1 else tile_q")),
    ("flash_forward", "wrong", "tile_q is looked at, tile_k is taken", _loops("q.shape[-2], tile_q", "q.shape[-2], tile_q if tile_q < 1 else tile_k")),
    ("flash_backward", "wrong", "keys in tiles of 64", _back("k.shape[-2], tile_k", "k.shape[-2], 64 * min(tile_k, 1)")),
    ("flash_backward", "wrong", "queries in tiles of 64", _back("q.shape[-2], tile_q", "q.shape[-2], 64 * min(tile_q, 1)")),
    ("flash_backward", "wrong", "weights from one maximum for all queries of a tile", _back("np.exp(qt @ np.swapaxes(kt, -1, -2) / root - lse[..., r][..., None])", "np.exp(qt @ np.swapaxes(kt, -1, -2) / root - lse[..., r].max())\n        p = p / np.exp(lse[..., r] - lse[..., r].max())[..., None]")),
    ("hbm_traffic", "wrong", "the window counts under causal only", _count("tile_k, causal, window)", "tile_k, causal, window if causal or (window or 0) < 0 else None)")),
    ("hbm_traffic", "wrong", "the share of needed tiles times all keys", _with(TRAFFIC, """
grid = tiles_needed(queries, keys, tile_q, tile_k, causal, window)
read = round(grid.mean() * keys * len(grid))
return itemsize * (2 * width * read + 2 * width * queries + queries)
""")),
    ("online_softmax", "wrong", "the accumulator takes exponentials without the maximum", _step("+ p @ values", "+ np.exp(scores) @ values")),
    ("online_softmax", "right", "the tile first by its own maximum, then both on the new one", _with(ONLINE, """
mine = scores.max(-1)
shift = np.where(mine == -np.inf, 0, mine)
e = np.exp(scores - shift[..., None])
top = np.fmax(running_max, mine)
base = np.where(top == -np.inf, 0, top)
old, new = np.exp(running_max - base), np.exp(mine - base)
return top, old * running_sum + new * e.sum(-1), old[..., None] * accumulator + new[..., None] * (e @ values)
""")),
    ("merge_partials", "wrong", "guarded only if one side is empty for every query", _with(MERGE, """
if np.isneginf(lse).all():
    return other_output.astype(float), other_lse.astype(float)
if np.isneginf(other_lse).all():
    return output.astype(float), lse.astype(float)
total = np.logaddexp(lse, other_lse)
return np.exp(lse - total)[..., None] * output + np.exp(other_lse - total)[..., None] * other_output, total
""")),
    ("merge_partials", "wrong", "LSEs floored at −1e9", _join("total = np", "lse, other_lse = np.maximum(lse, -1e9), np.maximum(other_lse, -1e9)\ntotal = np")),
    ("merge_partials", "right", "query by query, with math", _with(MERGE, """
out, total = np.zeros(np.shape(output)), np.full(np.shape(lse), -math.inf)
for at in np.ndindex(*lse.shape):
    big, small = max(lse[at], other_lse[at]), min(lse[at], other_lse[at])
    if big == -math.inf:
        continue
    first, second = (output, other_output) if lse[at] >= other_lse[at] else (other_output, output)
    e = math.exp(float(small) - float(big))
    total[at], out[at] = big + math.log1p(e), (first[at] + e * second[at]) / (1 + e)
return out, total
""")),
    ("stream_attention", "wrong", "k and v copied as float64 first", _pass("largest, total, weighted =", "k, v = np.array(k, dtype=float), np.array(v, dtype=float)\nlargest, total, weighted =")),
    ("stream_attention", "right", "a running mean, tiles taken backwards", _with(STREAM, """
lse, mean = -np.inf, np.zeros(v.shape[-1])
for part in reversed(list(tiles(len(k), tile_k))):
    z = np.inner(k[part], q) * len(q) ** -0.5
    new = np.logaddexp(lse, np.logaddexp.reduce(z))
    mean = np.exp(lse - new) * mean + np.exp(z - new) @ v[part]
    lse = new
return mean, float(lse)
""")),
    ("flash_forward", "wrong", "plain mean of the tiles' own softmax outputs", _with(FORWARD, """
o, lse = np.zeros((*q.shape[:-1], v.shape[-1])), np.full(q.shape[:-1], -np.inf)
for r in tiles(q.shape[-2], tile_q):
    parts = list(tiles(k.shape[-2], tile_k))
    for c in parts:
        z = q[..., r, :] @ np.swapaxes(k[..., c, :], -1, -2) / q.shape[-1] ** 0.5
        top = z.max(-1, keepdims=True)
        e = np.exp(z - top)
        o[..., r, :] += e @ v[..., c, :] / e.sum(-1, keepdims=True) / len(parts)
        lse[..., r] = np.logaddexp(lse[..., r], (top + np.log(e.sum(-1, keepdims=True)))[..., 0])
return o, lse
""")),
    ("flash_forward", "right", "query by query through stream_attention", _with(FORWARD, """
if tile_q < 1 or tile_k < 1:
    raise ValueError("tiles of at least 1")
o, lse = np.empty((*q.shape[:-1], v.shape[-1])), np.empty(q.shape[:-1])
for at in np.ndindex(q.shape[:-1]):
    o[at], lse[at] = stream_attention(q[at], k[at[:-1]], v[at[:-1]], tile_k)
return o, lse
""")),
    ("flash_backward", "wrong", "lse[r]: the first axis", _back("lse[..., r][..., None]", "lse[r][..., None]")),
    ("flash_backward", "wrong", "a tile of no keys becomes one of one", _back("k.shape[-2], tile_k", "k.shape[-2], max(1, tile_k)")),
    ("tiles_needed", "wrong", "with causal the window reaches one key less far", _grid("p0 - window and", "p0 - window + causal and")),
    ("tiles_needed", "right", "edges as arrays, ends not cut off", _with(NEEDED, """
if min(tile_q, tile_k) < 1:
    raise ValueError("tiles of at least 1")
first = (np.arange(0, queries, tile_q) + keys - queries)[:, None]
start = np.arange(0, keys, tile_k)[None]
grid = np.ones((first.size, start.size), dtype=bool)
if causal:
    grid &= start < first + tile_q
if window is not None:
    grid &= (start < first + tile_q + window) & (start + tile_k > first - window)
return grid
""")),
    ("tiles_needed", "right", "filled from the first to the last tile of each row", _with(NEEDED, """
rows, count = tiles(queries, tile_q), len(tiles(keys, tile_k))
grid = np.zeros((len(rows), count), dtype=np.bool_)
for i, r in enumerate(rows):
    low, high = 0, keys - 1
    p0, p1 = r.start + keys - queries, r.stop - 1 + keys - queries
    if window is not None:
        low, high = max(low, p0 - window), min(high, p1 + window)
    if causal:
        high = min(high, p1)
    if high >= low:
        grid[i, low // tile_k : high // tile_k + 1] = True
return grid
""")),
    ("hbm_traffic", "wrong", "Q once for every tile of keys, hidden ones too", _count("    numbers += n * width\n    for", "    numbers += n * width * grid.shape[1]\n    for")),
    ("hbm_traffic", "right", "by columns of the table", _with(TRAFFIC, """
times = tiles_needed(queries, keys, tile_q, tile_k, causal, window).sum(axis=0)
kv = sum(int(n) * (c.stop - c.start) * width for n, c in zip(times, tiles(keys, tile_k)))
return (kv + kv + queries * width * 2 + queries) * itemsize
""")),
    # by fresh readers, who broke a sentence of the notebook where few would look, and like them
    ("merge_partials", "wrong", "−inf replaced by −300,000", """
def merge_partials(output, lse, other_output, other_lse):
    lowest = -300_000.0
    one, other = np.asarray(lse, float), np.asarray(other_lse, float)
    empty = np.isneginf(one) & np.isneginf(other)
    one, other = np.maximum(one, lowest), np.maximum(other, lowest)
    total = np.logaddexp(one, other)
    merged = np.exp(one - total)[..., None] * output + np.exp(other - total)[..., None] * other_output
    return merged, np.where(empty, -np.inf, total)
"""),
    ("stream_attention", "wrong", "a last tile of a single key taken with the tile before", """
def stream_attention(q, k, v, tile_k=64):
    if q.ndim != 1 or k.ndim != 2 or v.ndim != 2 or len(q) != k.shape[1] or len(k) != len(v) or tile_k < 1:
        raise ValueError("shapes do not fit, or a tile is less than 1")
    largest, total, weighted = -np.inf, 0.0, np.zeros(v.shape[-1])
    start = 0
    while start < len(k):
        stop = start + tile_k
        if len(k) - stop == 1:  # one key left over: no tile of its own
            stop = len(k)
        part = slice(start, stop)
        scores = k[part].astype(float) @ q / len(q) ** 0.5
        new_largest = max(largest, scores.max())
        exponentials = np.exp(scores - new_largest)
        shrink = np.exp(largest - new_largest)
        total = shrink * total + exponentials.sum()
        weighted = shrink * weighted + exponentials @ v[part]
        largest = new_largest
        start = stop
    return weighted / total, float(largest + np.log(total))
"""),
    ("flash_forward", "wrong", "reshape copies k and v where leading axes cannot be merged", """
def flash_forward(q, k, v, tile_q=64, tile_k=64):
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2] or min(tile_q, tile_k) < 1:
        raise ValueError("widths or lengths differ, or a tile is less than 1")
    if not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        raise ValueError("leading axes differ")
    shape = q.shape[:-1]
    q, k, v = (x.reshape((-1,) + x.shape[-2:]) for x in (q, k, v))
    output = np.empty(q.shape[:-1] + v.shape[-1:])
    lse = np.empty(q.shape[:-1])
    for i in range(0, q.shape[-2], tile_q):
        rows = slice(i, i + tile_q)
        queries = q[:, rows].astype(float) / q.shape[-1] ** 0.5
        m, l, a = np.full(queries.shape[:-1], -np.inf), np.zeros(queries.shape[:-1]), np.zeros(queries.shape[:-1] + v.shape[-1:])
        for j in range(0, k.shape[-2], tile_k):
            part = slice(j, j + tile_k)
            m, l, a = online_softmax(m, l, a, queries @ np.swapaxes(k[:, part], -1, -2), v[:, part])
        output[:, rows] = a / l[..., None]
        lse[:, rows] = m + np.log(l)
    return output.reshape(shape + v.shape[-1:]), lse.reshape(shape)
"""),
    ("flash_backward", "wrong", "scales a tile of q in place and puts it back: q may be k", """
def flash_backward(q, k, v, output, lse, grad_output, tile_q=64, tile_k=64):
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2] or min(tile_q, tile_k) < 1:
        raise ValueError("widths or lengths differ, or a tile is less than 1")
    if not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        raise ValueError("leading axes differ")
    root = q.shape[-1] ** 0.5
    if q.dtype != np.float64 or not q.flags.writeable:
        q = q.astype(np.float64)
    grad_q, grad_k, grad_v = (np.zeros(x.shape) for x in (q, k, v))
    for i in range(0, q.shape[-2], tile_q):
        rows = slice(i, i + tile_q)
        queries = q[..., rows, :]
        kept = queries.copy()
        queries /= root  # for the scores and for dK
        grad = grad_output[..., rows, :].astype(float)
        delta = (grad * output[..., rows, :]).sum(axis=-1, keepdims=True)
        for j in range(0, k.shape[-2], tile_k):
            part = slice(j, j + tile_k)
            keys, values = (x[..., part, :].astype(float) for x in (k, v))
            p = np.exp(queries @ keys.swapaxes(-1, -2) - lse[..., rows, None])
            dz = p * (grad @ values.swapaxes(-1, -2) - delta)
            grad_v[..., part, :] += p.swapaxes(-1, -2) @ grad
            grad_q[..., rows, :] += dz @ keys / root
            grad_k[..., part, :] += dz.swapaxes(-1, -2) @ queries
        queries[...] = kept
    return grad_q, grad_k, grad_v
"""),
    ("flash_backward", "wrong", "skips a tile of queries whose delta is 0", """
def flash_backward(q, k, v, output, lse, grad_output, tile_q=64, tile_k=64):
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2] or min(tile_q, tile_k) < 1:
        raise ValueError("widths or lengths differ, or a tile is less than 1")
    if not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        raise ValueError("leading axes differ")
    root = q.shape[-1] ** 0.5
    grad_q, grad_k, grad_v = (np.zeros(x.shape) for x in (q, k, v))
    for i in range(0, q.shape[-2], tile_q):
        rows = slice(i, i + tile_q)
        queries, grad = (x[..., rows, :].astype(float) for x in (q, grad_output))
        delta = (grad * output[..., rows, :]).sum(axis=-1, keepdims=True)
        if not delta.any():
            continue  # nothing flows back from this tile
        for j in range(0, k.shape[-2], tile_k):
            part = slice(j, j + tile_k)
            keys, values = (x[..., part, :].astype(float) for x in (k, v))
            p = np.exp(queries @ keys.swapaxes(-1, -2) / root - lse[..., rows, None])
            dp = grad @ values.swapaxes(-1, -2)
            dz = p * (dp - delta) / root
            grad_v[..., part, :] += p.swapaxes(-1, -2) @ grad
            grad_q[..., rows, :] += dz @ keys
            grad_k[..., part, :] += dz.swapaxes(-1, -2) @ queries
    return grad_q, grad_k, grad_v
"""),
    ("tiles_needed", "wrong", "a single tile is answered before the window is looked at", """
def tiles_needed(queries, keys, tile_q, tile_k, causal=False, window=None):
    if tile_q < 1 or tile_k < 1:
        raise ValueError("a tile is less than 1")
    if tile_q >= queries and tile_k >= keys:
        return np.ones((1, 1), dtype=bool)  # the last query sees the last key in any case
    if window is not None and window < 0:
        raise ValueError("a negative window")
    first_q = np.arange(0, queries, tile_q)[:, None] + keys - queries
    last_q = np.minimum(first_q + tile_q - 1, keys - 1)
    first_k = np.arange(0, keys, tile_k)
    last_k = np.minimum(first_k + tile_k - 1, keys - 1)
    needed = np.ones((len(first_q), len(first_k)), dtype=bool)
    if causal:
        needed &= first_k <= last_q
    if window is not None:
        needed &= last_k >= first_q - window
        needed &= first_k <= last_q + window
    return needed
"""),
    ("tiles_needed", "wrong", "all queries in one tile: a table of queries × keys", """
def tiles_needed(queries, keys, tile_q, tile_k, causal=False, window=None):
    if tile_q < 1 or tile_k < 1:
        raise ValueError("a tile is less than 1")
    if window is not None and window < 0:
        raise ValueError("a negative window")
    if tile_q >= queries:  # one row: ask the pairs themselves
        p, s = np.arange(keys - queries, keys)[:, None], np.arange(keys)
        low = p - (queries + keys if window is None else window)
        high = p if causal else p + (queries + keys if window is None else window)
        seen = ((low <= s) & (s <= high)).any(axis=0)
        return np.logical_or.reduceat(seen, np.arange(0, keys, tile_k))[None]
    first_q = np.arange(0, queries, tile_q)[:, None] + keys - queries
    last_q = np.minimum(first_q + tile_q - 1, keys - 1)
    first_k = np.arange(0, keys, tile_k)
    last_k = np.minimum(first_k + tile_k - 1, keys - 1)
    needed = np.ones((len(first_q), len(first_k)), dtype=bool)
    if causal:
        needed &= first_k <= last_q
    if window is not None:
        needed &= last_k >= first_q - window
        needed &= first_k <= last_q + window
    return needed
"""),
    ("hbm_traffic", "wrong", "one query without a window answered before the tiles are looked at", """
def hbm_traffic(queries, keys, width, tile_q, tile_k, causal=False, window=None, itemsize=2):
    if queries == 1 and window is None:  # writing: everything is read once
        return (2 * keys * width + 2 * width + 1) * itemsize
    needed = tiles_needed(queries, keys, tile_q, tile_k, causal, window)
    sizes = [min(tile_k, keys - start) for start in range(0, keys, tile_k)]
    read = queries * width
    for row in needed:
        for here, size in zip(row, sizes):
            if here:
                read += 2 * size * width
    written = queries * width + queries
    return (read + written) * itemsize
"""),
    ("flash_forward", "wrong", "what is left over with the tile before", """
def flash_forward(q, k, v, tile_q=64, tile_k=64):
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError("no")
    if min(tile_q, tile_k) < 1:
        raise ValueError('t')
    def cut(n, t):
        starts = list(range(0, n, t)) if n % t == 0 or n < t else list(range(0, n, t))[:-1]
        return [slice(i, j) for i, j in zip(starts, starts[1:] + [n])]
    o, l = np.empty(q.shape[:-1] + v.shape[-1:]), np.empty(q.shape[:-1])
    for r in cut(q.shape[-2], tile_q):
        m, s, a = np.full(l[..., r].shape, -np.inf), np.zeros(l[..., r].shape), np.zeros(o[..., r, :].shape)
        for c in cut(k.shape[-2], tile_k):
            pass
            z = q[..., r, :] @ np.swapaxes(k[..., c, :], -1, -2) / q.shape[-1] ** 0.5
            m, s, a = online_softmax(m, s, a, z, v[..., c, :])
        o[..., r, :], l[..., r] = a / s[..., None], m + np.log(s)
    return o, l
"""),
    ("flash_forward", "wrong", "one query: no tiles of keys", """
def flash_forward(q, k, v, tile_q=64, tile_k=64):
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError("no")
    if min(tile_q, tile_k) < 1:
        raise ValueError('t')
    tile_k = k.shape[-2] if q.shape[-2] == 1 else tile_k
    def cut(n, t):
        return [slice(i, min(i + t, n)) for i in range(0, n, t)]
    o, l = np.empty(q.shape[:-1] + v.shape[-1:]), np.empty(q.shape[:-1])
    for r in cut(q.shape[-2], tile_q):
        m, s, a = np.full(l[..., r].shape, -np.inf), np.zeros(l[..., r].shape), np.zeros(o[..., r, :].shape)
        for c in cut(k.shape[-2], tile_k):
            pass
            z = q[..., r, :] @ np.swapaxes(k[..., c, :], -1, -2) / q.shape[-1] ** 0.5
            m, s, a = online_softmax(m, s, a, z, v[..., c, :])
        o[..., r, :], l[..., r] = a / s[..., None], m + np.log(s)
    return o, l
"""),
    ("flash_backward", "wrong", "skips where values are 0", """
def flash_backward(q, k, v, output, lse, grad_output, tile_q=64, tile_k=64):
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2] or min(tile_q, tile_k) < 1:
        raise ValueError("no")
    def cut(n, t):
        return [slice(i, min(i + t, n)) for i in range(0, n, t)]
    root = q.shape[-1] ** 0.5
    gq, gk, gv = (np.zeros(x.shape) for x in (q, k, v))
    delta = (output * grad_output).sum(-1, keepdims=True)
    for r in cut(q.shape[-2], tile_q):
        for c in cut(k.shape[-2], tile_k):
            dp = grad_output[..., r, :] @ np.swapaxes(v[..., c, :], -1, -2)
            if not v[..., c, :].any() and v.any():
                continue
            p = np.exp(q[..., r, :] @ np.swapaxes(k[..., c, :], -1, -2) / root - lse[..., r, None])
            dz = p * (dp - delta[..., r, :]) / root
            gq[..., r, :] += dz @ k[..., c, :]
            gk[..., c, :] += np.swapaxes(dz, -1, -2) @ q[..., r, :]
            gv[..., c, :] += np.swapaxes(p, -1, -2) @ grad_output[..., r, :]
    return gq, gk, gv
"""),
    ("online_softmax", "wrong", "-inf replaced by -1e12", """
def online_softmax(running_max, running_sum, accumulator, scores, values):
    z = np.where(np.isneginf(scores), -1e12, scores)
    new = np.maximum(running_max, z.max(-1))
    hid = np.isneginf(running_max) & np.isneginf(scores).all(-1)
    p = np.exp(z - new[..., None])
    p = np.where(hid[..., None], 0.0, p)
    c = np.where(np.isneginf(running_max), 0.0, np.exp(np.where(np.isneginf(running_max), 0, running_max) - new))
    return np.where(hid, -np.inf, new), c * running_sum + p.sum(-1), c[..., None] * accumulator + p @ values
"""),
    ("tiles_needed", "wrong", "table where all keys are in one tile", """
def tiles_needed(queries, keys, tile_q, tile_k, causal=False, window=None):
    if tile_q < 1 or tile_k < 1:
        raise ValueError("t")
    if window is not None and window < 0:
        raise ValueError("w")
    tile_q, tile_k = max(tile_q, 1), max(tile_k, 1)
    if tile_k >= keys:
        p, s = np.arange(keys - queries, keys)[:, None], np.arange(keys)
        big = queries + keys
        w = big if window is None else window
        ok = (s <= (p if causal else p + w)) & (s <= p + w) & (s >= p - w)
        rows = [slice(i, i + tile_q) for i in range(0, queries, tile_q)]
        cols = [slice(i, i + tile_k) for i in range(0, keys, tile_k)]
        return np.array([[bool(ok[r, c].any()) for c in cols] for r in rows])
    fq = np.arange(0, queries, tile_q)[:, None] + keys - queries
    lq = np.minimum(fq + tile_q - 1, keys - 1)
    fk = np.arange(0, keys, tile_k)
    lk = np.minimum(fk + tile_k - 1, keys - 1)
    n = np.ones((len(fq), len(fk)), dtype=bool)
    if causal:
        n &= fk <= lq
    if window is not None:
        n &= (lk >= fq - window) & (fk <= lq + window)
    return n
"""),
]
# fmt: on
