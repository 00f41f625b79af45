"""Chapter 03, adversary: wrong answers as learners write them, and right ones in odd styles.

Written from the notebook; some of the wrong ones are meant to slip through. Each case: exercise,
"wrong" or "right", what it is, code.
"""

SOFTMAX = [
    (
        "wrong",
        "in place through an alias",
        """
def softmax(scores, axis=-1):
    s = np.asarray(scores, dtype=float)
    s -= s.max(axis=axis, keepdims=True)
    e = np.exp(s)
    return e / e.sum(axis=axis, keepdims=True)
""",
    ),
    (
        "wrong",
        "epsilon in the divisor",
        """
def softmax(scores, axis=-1):
    e = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return e / (e.sum(axis=axis, keepdims=True) + 1e-8)
""",
    ),
    (
        "wrong",
        "buffer like the scores",
        """
def softmax(scores, axis=-1):
    out = np.zeros_like(scores)
    e = np.exp(scores - scores.max(axis=axis, keepdims=True))
    out += (e / e.sum(axis=axis, keepdims=True)).astype(scores.dtype)
    return out
""",
    ),
    (
        "wrong",
        "−inf replaced by 0",
        """
def softmax(scores, axis=-1):
    scores = np.nan_to_num(scores, neginf=0.0)
    e = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
""",
    ),
    (
        "wrong",
        "clipped against overflow",
        """
def softmax(scores, axis=-1):
    e = np.exp(np.clip(scores, -50, 50))
    return e / e.sum(axis=axis, keepdims=True)
""",
    ),
    (
        "wrong",
        "base 2",
        """
def softmax(scores, axis=-1):
    e = 2.0 ** (scores - scores.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
""",
    ),
    (
        "wrong",
        "rounded to four digits",
        """
def softmax(scores, axis=-1):
    e = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return np.round(e / e.sum(axis=axis, keepdims=True), 4)
""",
    ),
    (
        "wrong",
        "minimum subtracted",
        """
def softmax(scores, axis=-1):
    e = np.exp(scores - scores.min(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
""",
    ),
    (
        "wrong",
        "squeezed at the end",
        """
def softmax(scores, axis=-1):
    e = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return np.squeeze(e / e.sum(axis=axis, keepdims=True))
""",
    ),
    (
        "wrong",
        "two axes at most",
        """
def softmax(scores, axis=-1):
    if scores.ndim == 1:
        e = np.exp(scores - scores.max())
        return e / e.sum()
    if axis in (0, -2):
        return softmax(scores.T).T
    return np.stack([softmax(row) for row in scores])
""",
    ),
    (
        "wrong",
        "float32 inside",
        """
def softmax(scores, axis=-1):
    s = np.asarray(scores, dtype=np.float32)
    e = np.exp(s - s.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
""",
    ),
    (
        "wrong",
        "negative axes only",
        """
def softmax(scores, axis=-1):
    s = np.moveaxis(np.array(scores, float), -1 if axis >= 0 else axis, -1)
    s = np.exp(s - s.max(-1, keepdims=True))
    return np.moveaxis(s / s.sum(-1, keepdims=True), -1, -1 if axis >= 0 else axis)
""",
    ),
    (
        "right",
        "recursion over the axis",
        """
def softmax(scores, axis=-1):
    s = np.swapaxes(np.array(scores, dtype=float), axis, -1)
    top = s[..., :1]
    for i in range(1, s.shape[-1]):
        top = np.maximum(top, s[..., i:i + 1])
    e = np.e ** (s - top)
    return np.swapaxes(e / np.einsum("...i->...", e)[..., None], axis, -1)
""",
    ),
    (
        "right",
        "online, one pass",
        """
def softmax(scores, axis=-1):
    s = np.moveaxis(np.asarray(scores, dtype=np.float64), axis, 0)
    m, d = np.full(s.shape[1:], -np.inf), np.zeros(s.shape[1:])
    for row in s:
        new = np.maximum(m, row)
        with np.errstate(invalid="ignore"):
            kept = np.where(m == new, 1.0, np.exp(m - new))
            d = d * kept + np.where(row == -np.inf, 0.0, np.exp(row - new))
        m = new
    return np.moveaxis(np.exp(s - m) / d, 0, axis)
""",
    ),
    (
        "right",
        "differences to every score",
        """
def softmax(scores, axis=-1):
    s = np.moveaxis(np.asarray(scores) + 0.0, axis, -1)
    with np.errstate(over="ignore", invalid="ignore"):
        gap = s[..., None, :] - s[..., :, None]
        gap = np.where(np.isnan(gap), 0.0, gap)
        p = 1 / np.exp(gap).sum(-1)
    return np.moveaxis(np.where(s == -np.inf, 0.0, p), -1, axis)
""",
    ),
    (
        "wrong",
        "−inf becomes −50 after the maximum",
        """
def softmax(scores, axis=-1):
    z = scores - scores.max(axis=axis, keepdims=True)
    e = np.exp(np.where(np.isinf(z), -50.0, z))
    return e / e.sum(axis=axis, keepdims=True)
""",
    ),
    (
        "wrong",
        "differences clipped at −30",
        """
def softmax(scores, axis=-1):
    e = np.exp(np.maximum(scores - scores.max(axis=axis, keepdims=True), -30))
    return e / e.sum(axis=axis, keepdims=True)
""",
    ),
    (
        "wrong",
        "weights below 1e-12 set to 1e-12",
        """
def softmax(scores, axis=-1):
    z = scores
    e = np.exp(z - z.max(axis=axis, keepdims=True))
    return np.maximum(e / e.sum(axis=axis, keepdims=True), 1e-12)
""",
    ),
    (
        "wrong",
        "−inf gets the weight 1e-12",
        """
def softmax(scores, axis=-1):
    low = np.log(1e-12) + np.max(scores, axis=axis, keepdims=True)
    z = np.where(np.isinf(scores), low, scores)
    e = np.exp(z - z.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
""",
    ),
    (
        "wrong",
        "clipped at ±100,000",
        """
def softmax(scores, axis=-1):
    z = np.where(np.isinf(scores), scores, np.clip(scores, -1e5, 1e5))
    e = np.exp(z - z.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
""",
    ),
    (
        "wrong",
        "−inf becomes −1e9 before the maximum",
        """
def softmax(scores, axis=-1):
    z = np.nan_to_num(np.array(scores, dtype=float), neginf=-1e9)
    e = np.exp(z - z.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
""",
    ),
    (
        "wrong",
        "−inf becomes −1e30 before the maximum",
        """
def softmax(scores, axis=-1):
    z = np.where(np.isinf(scores), -1e30, scores)
    e = np.exp(z - z.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
""",
    ),
    (
        "wrong",
        "another default axis",
        """
def softmax(scores, axis=0):
    z = scores
    e = np.exp(z - z.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
""",
    ),
    (
        "right",
        "one over the sum of exp(z_j − z_i)",
        """
def softmax(scores, axis=-1):
    z = np.moveaxis(np.asarray(scores).astype(float), axis, -1)
    with np.errstate(all="ignore"):
        p = 1 / np.exp(z[..., None, :] - z[..., :, None]).sum(-1)
    return np.moveaxis(np.where(np.isneginf(z), 0.0, p), -1, axis)
""",
    ),
    (
        "wrong",
        "integers stay integers where a row holds one score",
        """
def softmax(scores, axis=-1):
    if scores.shape[axis] == 1:
        return np.ones_like(scores)
    e = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
""",
    ),
    (
        "wrong",
        "−2 taken for the last axis",
        """
def softmax(scores, axis=-1):
    axis = scores.ndim - 1 if axis < 0 else axis
    e = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
""",
    ),
    (
        "wrong",
        "clipped at ±1e30, −inf kept",
        """
def softmax(scores, axis=-1):
    z = np.where(np.isneginf(scores), -np.inf, np.clip(scores, -1e30, 1e30))
    e = np.exp(z - z.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
""",
    ),
    (
        "wrong",
        "−inf is kept along the last axis only",
        """
def softmax(scores, axis=-1):
    if axis not in (-1, scores.ndim - 1):
        scores = np.maximum(scores, -50.0)
    e = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
""",
    ),
    (
        "wrong",
        "integers through int32",
        """
def softmax(scores, axis=-1):
    if scores.dtype.kind == "i":
        scores = scores.astype(np.int32)
    e = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
""",
    ),
    (
        "wrong",
        "−inf becomes −1e30 in float32",
        """
def softmax(scores, axis=-1):
    if scores.dtype == np.float32:
        scores = np.maximum(scores, -1e30)
    e = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
""",
    ),
    (
        "right",
        "integers are subtracted as they are",
        """
def softmax(scores, axis=-1):
    e = np.exp(scores - np.amax(scores, axis, keepdims=True))
    return e / np.sum(e, axis, keepdims=True)
""",
    ),
]

SCORES = [
    (
        "wrong",
        "divided in place where scaled",
        """
def attention_scores(q, k, scaled=True):
    if scaled and q.dtype.kind == "f":
        q /= np.sqrt(q.shape[-1])
        return q @ np.swapaxes(k, -1, -2)
    s = q @ np.swapaxes(k, -1, -2)
    return s / np.sqrt(q.shape[-1]) if scaled else s
""",
    ),
    (
        "wrong",
        "keys changed through an alias",
        """
def attention_scores(q, k, scaled=True):
    k = np.asarray(k, dtype=float)
    if scaled:
        k *= q.shape[-1] ** -0.5
    return q @ np.swapaxes(k, -1, -2)
""",
    ),
    (
        "wrong",
        "floor division",
        """
def attention_scores(q, k, scaled=True):
    s = q @ np.swapaxes(k, -1, -2)
    return s // np.sqrt(q.shape[-1]) if scaled else s
""",
    ),
    (
        "wrong",
        "default is False",
        """
def attention_scores(q, k, scaled=False):
    s = q @ np.swapaxes(k, -1, -2)
    return s / np.sqrt(q.shape[-1]) if scaled else s
""",
    ),
    (
        "wrong",
        "fixed 64",
        """
def attention_scores(q, k, scaled=True):
    s = q @ np.swapaxes(k, -1, -2)
    return s / 8 if scaled else s
""",
    ),
    (
        "wrong",
        "root of the number of queries",
        """
def attention_scores(q, k, scaled=True):
    s = q @ np.swapaxes(k, -1, -2)
    return s / np.sqrt(q.shape[-2]) if scaled else s
""",
    ),
    (
        "wrong",
        "log of the width",
        """
def attention_scores(q, k, scaled=True):
    s = q @ np.swapaxes(k, -1, -2)
    return s / np.log(q.shape[-1] + 1) if scaled else s
""",
    ),
    (
        "wrong",
        "squeezed",
        """
def attention_scores(q, k, scaled=True):
    s = (q @ np.swapaxes(k, -1, -2)).squeeze()
    return s / np.sqrt(q.shape[-1]) if scaled else s
""",
    ),
    (
        "wrong",
        "integer buffer",
        """
def attention_scores(q, k, scaled=True):
    s = np.zeros((*q.shape[:-1], k.shape[-2]), dtype=q.dtype)
    s[...] = q @ np.swapaxes(k, -1, -2) / (np.sqrt(q.shape[-1]) if scaled else 1)
    return s
""",
    ),
    (
        "wrong",
        "keys wrap: last key left out",
        """
def attention_scores(q, k, scaled=True):
    s = q @ np.swapaxes(k, -1, -2)
    s = np.roll(s, 1, axis=-1)
    return s / np.sqrt(q.shape[-1]) if scaled else s
""",
    ),
    (
        "wrong",
        "first leading index for all",
        """
def attention_scores(q, k, scaled=True):
    kk = k if k.ndim == 2 else np.broadcast_to(k[:1], k.shape)
    s = q @ np.swapaxes(kk, -1, -2)
    return s / np.sqrt(q.shape[-1]) if scaled else s
""",
    ),
    (
        "wrong",
        "mean instead of sum",
        """
def attention_scores(q, k, scaled=True):
    s = (q[..., :, None, :] * k[..., None, :, :]).mean(-1)
    return s * np.sqrt(q.shape[-1]) if not scaled else s
""",
    ),
    (
        "right",
        "tensordot over flattened stacks",
        """
def attention_scores(q, k, scaled=True):
    lead, (t, d), s = q.shape[:-2], q.shape[-2:], k.shape[-2]
    a, b = q.reshape(-1, t, d), k.reshape(-1, s, d)
    out = np.array([np.tensordot(x, y, axes=([1], [1])) for x, y in zip(a, b)]).reshape(*lead, t, s)
    return out * (1 / math.sqrt(d)) if scaled else out
""",
    ),
    (
        "right",
        "both scaled by a fourth root",
        """
def attention_scores(q, k, scaled=True):
    f = q.shape[-1] ** -0.25 if scaled else 1.0
    return np.einsum("...td,...sd->...ts", q * f, k * f)
""",
    ),
    (
        "right",
        "swapped twice",
        """
def attention_scores(q, k, scaled=True):
    s = np.swapaxes(k @ np.swapaxes(q, -1, -2), -1, -2)
    return np.divide(s, np.sqrt(np.float64(q.shape[-1]))) if scaled else s + 0
""",
    ),
    (
        "wrong",
        "an argument can no longer be written to",
        """
def attention_scores(q, k, scaled=True):
    k.flags.writeable = False
    return q @ np.swapaxes(k, -1, -2) / (q.shape[-1] ** 0.5 if scaled else 1)
""",
    ),
]

ATTENTION = [
    (
        "wrong",
        "softmax without the maximum",
        """
def scaled_dot_product_attention(q, k, v):
    e = np.exp(attention_scores(q, k))
    p = e / e.sum(-1, keepdims=True)
    return p @ v, p
""",
    ),
    (
        "wrong",
        "one maximum for all",
        """
def scaled_dot_product_attention(q, k, v):
    s = attention_scores(q, k)
    e = np.exp(s - s.max())
    p = e / e.sum(-1, keepdims=True)
    return p @ v, p
""",
    ),
    (
        "wrong",
        "values changed in place",
        """
def scaled_dot_product_attention(q, k, v):
    p = softmax(attention_scores(q, k))
    out = p @ v
    v *= 1.5
    return out, p
""",
    ),
    (
        "wrong",
        "output like v",
        """
def scaled_dot_product_attention(q, k, v):
    p = softmax(attention_scores(q, k))
    out = np.zeros((*q.shape[:-1], v.shape[-1]), dtype=v.dtype)
    out[...] = p @ v
    return out, p
""",
    ),
    (
        "wrong",
        "softmax over axis 1",
        """
def scaled_dot_product_attention(q, k, v):
    p = softmax(attention_scores(q, k), axis=1)
    return p @ v, p
""",
    ),
    (
        "wrong",
        "causal by mistake",
        """
def scaled_dot_product_attention(q, k, v):
    s = attention_scores(q, k)
    s = np.where(np.tril(np.ones(s.shape[-2:], bool)), s, -np.inf)
    p = softmax(s)
    return p @ v, p
""",
    ),
    (
        "wrong",
        "hard maximum",
        """
def scaled_dot_product_attention(q, k, v):
    s = attention_scores(q, k)
    p = (s == s.max(-1, keepdims=True)).astype(float)
    return p @ v, p
""",
    ),
    (
        "wrong",
        "sum of values, not weighted",
        """
def scaled_dot_product_attention(q, k, v):
    p = softmax(attention_scores(q, k))
    out = np.broadcast_to(v.mean(-2, keepdims=True), (*q.shape[:-1], v.shape[-1])) + 0.0
    return out, p
""",
    ),
    (
        "wrong",
        "leading axes flattened",
        """
def scaled_dot_product_attention(q, k, v):
    p = softmax(attention_scores(q, k))
    out = p @ v
    return out.reshape(-1, out.shape[-1]), p
""",
    ),
    (
        "wrong",
        "weights transposed",
        """
def scaled_dot_product_attention(q, k, v):
    p = softmax(attention_scores(q, k))
    return p @ v, np.swapaxes(p, -1, -2)
""",
    ),
    (
        "wrong",
        "query added (residual)",
        """
def scaled_dot_product_attention(q, k, v):
    p = softmax(attention_scores(q, k))
    out = p @ v
    return out + (q if q.shape == out.shape else 0), p
""",
    ),
    (
        "wrong",
        "keys normalised",
        """
def scaled_dot_product_attention(q, k, v):
    k = k / np.linalg.norm(k, axis=-1, keepdims=True)
    p = softmax(attention_scores(q, k))
    return p @ v, p
""",
    ),
    (
        "right",
        "online over keys",
        """
def scaled_dot_product_attention(q, k, v):
    s = attention_scores(np.asarray(q, float), np.asarray(k, float))
    m = s.max(-1, keepdims=True)
    num, den = 0.0, 0.0
    for j in range(s.shape[-1]):
        e = np.exp(s[..., j:j + 1] - m)
        num = num + e * v[..., j:j + 1, :]
        den = den + e
    return num / den, np.exp(s - m) / den
""",
    ),
    (
        "right",
        "list of two",
        """
def scaled_dot_product_attention(q, k, v):
    p = softmax(attention_scores(q, k))
    return [np.matmul(p, v), p]
""",
    ),
    (
        "right",
        "as a query at a time in a comprehension",
        """
def scaled_dot_product_attention(q, k, v):
    rows = [softmax(attention_scores(q[..., t:t + 1, :], k)) for t in range(q.shape[-2])]
    p = np.concatenate(rows, axis=-2)
    return np.concatenate([r @ v for r in rows], axis=-2), p
""",
    ),
    (
        "wrong",
        "weights below 0.01 dropped",
        """
def scaled_dot_product_attention(q, k, v):
    p = softmax(attention_scores(q, k))
    p = np.where(p < 0.01, 0, p)
    return p @ v, p
""",
    ),
    (
        "wrong",
        "weights below 0.0001 dropped",
        """
def scaled_dot_product_attention(q, k, v):
    p = softmax(attention_scores(q, k))
    p = np.where(p < 1e-4, 0, p)
    return p @ v, p
""",
    ),
    (
        "wrong",
        "the eight best keys only",
        """
def scaled_dot_product_attention(q, k, v):
    z = attention_scores(q, k)
    if z.shape[-1] > 8:
        z = np.where(z < np.sort(z, axis=-1)[..., -8:-7], -np.inf, z)
    p = softmax(z)
    return p @ v, p
""",
    ),
    (
        "wrong",
        "scaled by √D_v",
        """
def scaled_dot_product_attention(q, k, v):
    p = softmax(attention_scores(q, k, scaled=False) / np.sqrt(v.shape[-1]))
    return p @ v, p
""",
    ),
    (
        "wrong",
        "weights below 1e-12 cut",
        """
def scaled_dot_product_attention(q, k, v):
    p = softmax(attention_scores(q, k))
    p = np.where(p < 1e-12, 0, p)
    return p @ v, p
""",
    ),
    (
        "wrong",
        "divided by the root of the number of keys",
        """
def scaled_dot_product_attention(q, k, v):
    p = softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(k.shape[-2]))
    return p @ v, p
""",
    ),
    (
        "wrong",
        "one query: the output loses its axis",
        """
def scaled_dot_product_attention(q, k, v):
    p = softmax(attention_scores(q, k))
    o = p @ v
    return (o[..., 0, :] if q.shape[-2] == 1 else o), p
""",
    ),
    (
        "wrong",
        "values of width 1: the output loses its axis",
        """
def scaled_dot_product_attention(q, k, v):
    p = softmax(attention_scores(q, k))
    o = p @ v
    return (o[..., 0] if v.shape[-1] == 1 else o), p
""",
    ),
    (
        "wrong",
        "queries of width 1 score nothing",
        """
def scaled_dot_product_attention(q, k, v):
    p = softmax(attention_scores(q if q.shape[-1] > 1 else 0 * q, k))
    return p @ v, p
""",
    ),
    (
        "wrong",
        "scores clipped at ±20,000",
        """
def scaled_dot_product_attention(q, k, v):
    p = softmax(np.clip(attention_scores(q, k), -20000, 20000))
    return p @ v, p
""",
    ),
]

VARIANCE = [
    (
        "wrong",
        "returns a NumPy number",
        """
def score_variance(q, k, scaled=False):
    d = (q * k).sum(-1)
    return np.float32(d.var() / (q.shape[-1] if scaled else 1))
""",
    ),
    (
        "wrong",
        "default True",
        """
def score_variance(q, k, scaled=True):
    d = (q * k).sum(-1)
    return float(d.var() / (q.shape[-1] if scaled else 1))
""",
    ),
    (
        "wrong",
        "ddof=1",
        """
def score_variance(q, k, scaled=False):
    d = (q * k).sum(-1)
    if scaled:
        d = d / np.sqrt(q.shape[-1])
    return float(d.var(ddof=1)) if len(d) > 1 else 0.0
""",
    ),
    (
        "wrong",
        "scaled twice",
        """
def score_variance(q, k, scaled=False):
    d = (q * k).sum(-1) / (q.shape[-1] if scaled else 1)
    return float(d.var())
""",
    ),
    (
        "wrong",
        "absolute deviations",
        """
def score_variance(q, k, scaled=False):
    d = (q * k).sum(-1) / (np.sqrt(q.shape[-1]) if scaled else 1)
    return float(np.abs(d - d.mean()).mean())
""",
    ),
    (
        "wrong",
        "in place",
        """
def score_variance(q, k, scaled=False):
    q = np.asarray(q, dtype=float)
    q *= k
    d = q.sum(-1) / (np.sqrt(q.shape[-1]) if scaled else 1)
    return float(d.var())
""",
    ),
    (
        "wrong",
        "rounded",
        """
def score_variance(q, k, scaled=False):
    d = (q * k).sum(-1) / (np.sqrt(q.shape[-1]) if scaled else 1)
    return round(float(d.var()), 3)
""",
    ),
    (
        "wrong",
        "variance around the median",
        """
def score_variance(q, k, scaled=False):
    d = (q * k).sum(-1) / (np.sqrt(q.shape[-1]) if scaled else 1)
    return float(((d - np.median(d)) ** 2).mean())
""",
    ),
    (
        "wrong",
        "last pair left out",
        """
def score_variance(q, k, scaled=False):
    d = np.array([q[i] @ k[i] for i in range(max(len(q) - 1, 1))])
    return float(d.var()) / (q.shape[-1] if scaled else 1)
""",
    ),
    (
        "wrong",
        "whole numbers",
        """
def score_variance(q, k, scaled=False):
    d = (q * k).sum(-1).astype(int) / (np.sqrt(q.shape[-1]) if scaled else 1)
    return float(d.var())
""",
    ),
    (
        "right",
        "E[z²] − E[z]²",
        """
def score_variance(q, k, scaled=False):
    z = np.einsum("nd,nd->n", np.asarray(q, float), np.asarray(k, float))
    z = z - z[0]
    v = float((z * z).mean() - z.mean() ** 2)
    return v / q.shape[-1] if scaled else v
""",
    ),
    (
        "right",
        "plain Python",
        """
def score_variance(q, k, scaled=False):
    z = [sum(float(a) * float(b) for a, b in zip(x, y)) for x, y in zip(q, k)]
    if scaled:
        z = [a / math.sqrt(q.shape[1]) for a in z]
    m = sum(z) / len(z)
    return sum((a - m) ** 2 for a in z) / len(z)
""",
    ),
    (
        "right",
        "np.cov",
        """
def score_variance(q, k, scaled=False):
    z = np.array([np.dot(a, b) for a, b in zip(q, k)], dtype=float)
    z = z * (1 / math.sqrt(q.shape[-1]) if scaled else 1)
    return float(np.cov(z, bias=True)) if len(z) > 1 else 0.0
""",
    ),
    (
        "wrong",
        "scaled is True unless given",
        """
def score_variance(q, k, scaled=True):
    z = (q * k).sum(axis=-1)
    return float((z / q.shape[-1] ** 0.5 if scaled else z).var())
""",
    ),
    (
        "wrong",
        "mean absolute deviation",
        """
def score_variance(q, k, scaled=False):
    z = (q * k).sum(axis=-1)
    z = z / np.sqrt(q.shape[-1]) if scaled else z
    return float(np.abs(z - z.mean()).mean())
""",
    ),
    (
        "wrong",
        "D times the product of two variances",
        """
def score_variance(q, k, scaled=False):
    x = float(q.var() * k.var()) * q.shape[-1]
    return x / q.shape[-1] if scaled else x
""",
    ),
    (
        "wrong",
        "divided by the root of n",
        """
def score_variance(q, k, scaled=False):
    dots = (q * k).sum(-1)
    return float((dots / np.sqrt(len(q)) if scaled else dots).var())
""",
    ),
]

JACOBIAN = [
    (
        "wrong",
        "np.diag and outer",
        """
def softmax_jacobian(weights):
    p = weights.ravel() if weights.ndim == 1 else weights[0]
    return np.diag(p) - np.outer(p, p)
""",
    ),
    (
        "wrong",
        "one minus on the wrong side",
        """
def softmax_jacobian(weights):
    p = weights
    return p[..., None, :] * (1 - p[..., :, None])
""",
    ),
    (
        "wrong",
        "diagonal doubled",
        """
def softmax_jacobian(weights):
    p = weights
    j = -p[..., :, None] * p[..., None, :]
    i = np.arange(p.shape[-1])
    j[..., i, i] += 2 * p
    return j
""",
    ),
    (
        "wrong",
        "diagonal p(1−p), zero beside",
        """
def softmax_jacobian(weights):
    p = weights
    return np.eye(p.shape[-1]) * (p * (1 - p))[..., None]
""",
    ),
    (
        "wrong",
        "half",
        """
def softmax_jacobian(weights):
    p = weights
    return 0.5 * (p[..., None] * np.eye(p.shape[-1]) - p[..., None] * p[..., None, :])
""",
    ),
    (
        "wrong",
        "writes into the weights",
        """
def softmax_jacobian(weights):
    p = weights
    j = p[..., None] * np.eye(p.shape[-1]) - p[..., None] * p[..., None, :]
    weights[...] = 0
    return j
""",
    ),
    (
        "wrong",
        "squeezed",
        """
def softmax_jacobian(weights):
    p = weights
    return (p[..., None] * np.eye(p.shape[-1]) - p[..., None] * p[..., None, :]).squeeze()
""",
    ),
    (
        "wrong",
        "normalises first",
        """
def softmax_jacobian(weights):
    p = np.exp(weights) / np.exp(weights).sum(-1, keepdims=True)
    return p[..., None] * np.eye(p.shape[-1]) - p[..., None] * p[..., None, :]
""",
    ),
    (
        "wrong",
        "identity with rows of p",
        """
def softmax_jacobian(weights):
    p = weights
    return p * np.eye(p.shape[-1]) - p[..., None] * p[..., None, :]
""",
    ),
    (
        "wrong",
        "two leading axes at most",
        """
def softmax_jacobian(weights):
    if weights.ndim == 1:
        return np.diag(weights) - np.outer(weights, weights)
    return np.array([np.diag(p) - np.outer(p, p) for p in weights])
""",
    ),
    (
        "wrong",
        "upper half only",
        """
def softmax_jacobian(weights):
    p = weights
    return np.triu(p[..., None] * np.eye(p.shape[-1]) - p[..., None] * p[..., None, :])
""",
    ),
    (
        "right",
        "p(δ − p)",
        """
def softmax_jacobian(weights):
    return weights[..., None] * (np.identity(weights.shape[-1]) - weights[..., None, :])
""",
    ),
    (
        "right",
        "recursive",
        """
def softmax_jacobian(weights):
    if weights.ndim > 1:
        return np.array([softmax_jacobian(w) for w in weights])
    return np.diag(weights) - np.outer(weights, weights)
""",
    ),
    (
        "right",
        "einsum with δ",
        """
def softmax_jacobian(weights):
    n = weights.shape[-1]
    j = np.einsum("...i,ij->...ij", weights, np.eye(n))
    return j - np.einsum("...i,...j->...ij", weights, weights)
""",
    ),
    (
        "wrong",
        "normalised in place through asarray",
        """
def softmax_jacobian(weights):
    p = np.asarray(weights, dtype=float)
    p /= p.sum(axis=-1, keepdims=True)
    return np.eye(p.shape[-1]) * p[..., None, :] - p[..., :, None] * p[..., None, :]
""",
    ),
    (
        "wrong",
        "central differences",
        """
def softmax_jacobian(weights):
    with np.errstate(divide="ignore"):
        scores, step = np.log(weights), 1e-6 * np.eye(weights.shape[-1])
    sides = [softmax(scores[..., None, :] + way * step) for way in (1, -1)]
    return np.swapaxes(sides[0] - sides[1], -1, -2) / 2e-6
""",
    ),
]

GIVEN = """
    _, p = scaled_dot_product_attention(q, k, v)
    T = lambda x: np.swapaxes(x, -1, -2)
    gv = T(p) @ grad_output
    gp = grad_output @ T(v)
"""
BACKWARD = [
    (
        "wrong",
        "scale on grad_k only",
        GIVEN
        + """
    gs = p * (gp - (p * gp).sum(-1, keepdims=True))
    return gs @ k, T(gs) @ q / np.sqrt(q.shape[-1]), gv
""",
    ),
    (
        "wrong",
        "multiplied by the root",
        GIVEN
        + """
    gs = p * (gp - (p * gp).sum(-1, keepdims=True)) * np.sqrt(q.shape[-1])
    return gs @ k, T(gs) @ q, gv
""",
    ),
    (
        "wrong",
        "grad_output changed in place",
        GIVEN
        + """
    gs = p * (gp - (p * gp).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    out = gs @ k, T(gs) @ q, gv
    grad_output *= 0
    return out
""",
    ),
    (
        "wrong",
        "buffers like the arguments",
        GIVEN
        + """
    gs = p * (gp - (p * gp).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    gk = np.zeros_like(k)
    gk[...] = T(gs) @ q
    return gs @ k, gk, gv
""",
    ),
    (
        "wrong",
        "sign of the row sum",
        GIVEN
        + """
    gs = p * (gp + (p * gp).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    return gs @ k, T(gs) @ q, gv
""",
    ),
    (
        "wrong",
        "softmax by hand without the maximum",
        """
    T = lambda x: np.swapaxes(x, -1, -2)
    e = np.exp(q @ T(k) / np.sqrt(q.shape[-1]))
    p = e / e.sum(-1, keepdims=True)
    gv = T(p) @ grad_output
    gp = grad_output @ T(v)
    gs = p * (gp - (p * gp).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    return gs @ k, T(gs) @ q, gv
""",
    ),
    (
        "wrong",
        "grad_v without transpose where it fits",
        GIVEN
        + """
    gs = p * (gp - (p * gp).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    return gs @ k, T(gs) @ q, (p @ grad_output if p.shape[-1] == p.shape[-2] else gv)
""",
    ),
    (
        "wrong",
        "gradient of the weights returned third",
        GIVEN
        + """
    gs = p * (gp - (p * gp).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    return gs @ k, T(gs) @ q, gp
""",
    ),
    (
        "wrong",
        "scale of the values' width",
        GIVEN
        + """
    gs = p * (gp - (p * gp).sum(-1, keepdims=True)) / np.sqrt(v.shape[-1])
    return gs @ k, T(gs) @ q, gv
""",
    ),
    (
        "wrong",
        "averaged over the queries",
        GIVEN
        + """
    gs = p * (gp - (p * gp).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    return gs @ k, T(gs) @ q / q.shape[-2], gv / q.shape[-2]
""",
    ),
    (
        "wrong",
        "summed over leading axes",
        GIVEN
        + """
    gs = p * (gp - (p * gp).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    gk = T(gs) @ q
    if gk.ndim > 2:
        gk = np.broadcast_to(gk.sum(0, keepdims=True), gk.shape)
    return gs @ k, gk, gv
""",
    ),
    (
        "wrong",
        "p squared",
        GIVEN
        + """
    gs = p * p * (gp - (p * gp).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    return gs @ k, T(gs) @ q, gv
""",
    ),
    (
        "right",
        "sum of rank-one updates",
        """
    q, k, v, grad_output = (np.array(a, dtype=float) for a in (q, k, v, grad_output))
    out, p = scaled_dot_product_attention(q, k, v)
    gq, gk, gv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    delta = (out * grad_output).sum(-1)
    for s in range(k.shape[-2]):
        ps = p[..., s]
        gv[..., s, :] = (ps[..., None] * grad_output).sum(-2)
        ds = ps * ((grad_output * v[..., s:s + 1, :]).sum(-1) - delta) / math.sqrt(q.shape[-1])
        gq += ds[..., None] * k[..., s:s + 1, :]
        gk[..., s, :] = (ds[..., None] * q).sum(-2)
    return gq, gk, gv
""",
    ),
    (
        "right",
        "centred values",
        GIVEN
        + """
    gs = p * gp - p * np.einsum("...ts,...ts->...t", p, gp)[..., None]
    c = 1 / q.shape[-1] ** 0.5
    return c * (gs @ k), c * np.einsum("...ts,...td->...sd", gs, q), gv
""",
    ),
    (
        "right",
        "as a list, float64 inside",
        """
    q, k, v, g = map(np.float64, (q, k, v, grad_output))
    p = softmax(attention_scores(q, k))
    gp = np.einsum("...tv,...sv->...ts", g, v)
    gs = p * (gp - np.sum(p * gp, axis=-1)[..., None]) / np.sqrt(q.shape[-1])
    return [gs @ k, gs.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ g]
""",
    ),
    (
        "wrong",
        "weights below 0.001 dropped",
        GIVEN.replace("T = ", "p = np.where(p < 1e-3, 0, p)\n    T = ")
        + """
    gs = p * (gp - (p * gp).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    return gs @ k, T(gs) @ q, gv
""",
    ),
    (
        "wrong",
        "clipped gradients",
        GIVEN
        + """
    gs = p * (gp - (p * gp).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    return tuple(np.clip(g, -1000, 1000) for g in (gs @ k, T(gs) @ q, gv))
""",
    ),
    (
        "wrong",
        "one key forgotten",
        GIVEN
        + """
    mean = (p * gp).sum(-1, keepdims=True) if p.shape[-1] > 1 else 0
    gs = p * (gp - mean) / np.sqrt(q.shape[-1])
    return gs @ k, T(gs) @ q, gv
""",
    ),
    (
        "wrong",
        "one query: grad_q loses its axis",
        GIVEN
        + """
    gs = p * (gp - (p * gp).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    gq = gs @ k
    return (gq[..., 0, :] if q.shape[-2] == 1 else gq), T(gs) @ q, gv
""",
    ),
    (
        "wrong",
        "values of width 1: grad_v loses its axis",
        GIVEN
        + """
    gs = p * (gp - (p * gp).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    return gs @ k, T(gs) @ q, (gv[..., 0] if v.shape[-1] == 1 else gv)
""",
    ),
    (
        "wrong",
        "gradients of the scores below 1e-9 set to 0",
        GIVEN
        + """
    gs = p * (gp - (p * gp).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    gs = np.where(np.abs(gs) < 1e-9, 0, gs)
    return gs @ k, T(gs) @ q, gv
""",
    ),
    (
        "wrong",
        "weights below 1e-12 dropped",
        GIVEN.replace("T = ", "p = np.where(p < 1e-12, 0, p)\n    T = ")
        + """
    gs = p * (gp - (p * gp).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    return gs @ k, T(gs) @ q, gv
""",
    ),
]

EXACT = [
    (
        "wrong",
        "numerical derivative",
        """
    q, k, v = (np.array(a, dtype=float) for a in (q, k, v))
    gradients = []
    for n, a in enumerate((q, k, v)):
        gradient = np.zeros_like(a)
        for i in np.ndindex(a.shape):
            losses = []
            for step in (1e-5, -1e-5):
                moved = [q, k, v]
                moved[n] = a.copy()
                moved[n][i] += step
                losses.append((scaled_dot_product_attention(*moved)[0] * grad_output).sum())
            gradient[i] = (losses[0] - losses[1]) / 2e-5
        gradients.append(gradient)
    return tuple(gradients)
""",
    ),
    (
        "wrong",
        "row sum by a matrix of ones",
        GIVEN
        + """
    gs = p * (gp - (p * gp) @ np.ones((p.shape[-1], p.shape[-1]))) / np.sqrt(q.shape[-1])
    return gs @ k, T(gs) @ q, gv
""",
    ),
    (
        "wrong",
        "an identity matrix for all queries",
        GIVEN
        + """
    gs = p * (gp @ np.identity(p.shape[-1]) - (p * gp).sum(-1, keepdims=True))
    return gs @ k / np.sqrt(q.shape[-1]), T(gs) @ q / np.sqrt(q.shape[-1]), gv
""",
    ),
    (
        "wrong",
        "one Jacobian at a time",
        GIVEN
        + """
    gs = np.empty(p.shape)
    for i in np.ndindex(p.shape[:-1]):
        gs[i] = (np.diag(p[i]) - np.outer(p[i], p[i])) @ gp[i] / np.sqrt(q.shape[-1])
    return gs @ k, T(gs) @ q, gv
""",
    ),
    (
        "wrong",
        "a table of S × S float16 numbers",
        GIVEN
        + """
    ones = np.ones((p.shape[-1], p.shape[-1]), dtype=np.float16)
    gs = p * (gp - (p * gp).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1]) * ones[0, 0]
    return gs @ k, T(gs) @ q, gv
""",
    ),
]

MORE = [
    (
        "softmax",
        "wrong",
        'another axis by .T: 3-D with the middle axis is wrong',
        """
def softmax(scores, axis=-1):
    if axis not in (-1, scores.ndim - 1):
        return softmax(scores.T).T
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
""",
    ),
    (
        "softmax",
        "right",
        'logaddexp of the shifted scores',
        """
def softmax(scores, axis=-1):
    z = scores - np.max(scores, axis=axis, keepdims=True)
    return np.exp(z - np.expand_dims(np.logaddexp.reduce(z.astype(float), axis=axis), axis))
""",
    ),
    (
        "softmax",
        "right",
        'Python loop with math.exp and math.fsum',
        """
def softmax(scores, axis=-1):
    moved = np.moveaxis(scores, axis, -1)
    out = np.empty(moved.shape, dtype=float)
    for i in np.ndindex(moved.shape[:-1]):
        row = moved[i].tolist()
        top = max(row)
        e = [math.exp(z - top) for z in row]
        total = math.fsum(e)
        out[i] = [x / total for x in e]
    return np.moveaxis(out, -1, axis)
""",
    ),
    (
        "softmax",
        "right",
        'apply_along_axis',
        """
def softmax(scores, axis=-1):
    def one(z):
        e = np.exp(z - np.amax(z))
        return e / np.add.reduce(e)
    return np.apply_along_axis(one, axis, scores)
""",
    ),
    (
        "softmax",
        "right",
        'in longdouble, back to float64',
        """
def softmax(scores, axis=-1):
    z = np.array(scores, dtype=np.longdouble)
    z = z - z.max(axis, keepdims=True)
    np.exp(z, out=z)
    z /= z.sum(axis, keepdims=True)
    return z.astype(np.float64)
""",
    ),
    (
        "attention_scores",
        "wrong",
        'integer root: right at D = 1, 4, 16, 64',
        """
def attention_scores(q, k, scaled=True):
    z = q @ np.swapaxes(k, -1, -2)
    return z / math.isqrt(q.shape[-1]) if scaled else z
""",
    ),
    (
        "attention_scores",
        "wrong",
        'keys divided in place and multiplied back',
        """
def attention_scores(q, k, scaled=True):
    k = np.asarray(k, dtype=float)
    root = q.shape[-1] ** 0.5
    if scaled:
        k /= root
    z = q @ np.swapaxes(k, -1, -2)
    if scaled:
        k *= root
    return z
""",
    ),
    (
        "attention_scores",
        "wrong",
        'keys reshaped, not transposed',
        """
def attention_scores(q, k, scaled=True):
    kt = k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])
    z = q @ kt
    return z / np.sqrt(q.shape[-1]) if scaled else z
""",
    ),
    (
        "attention_scores",
        "wrong",
        'np.inner',
        """
def attention_scores(q, k, scaled=True):
    z = np.inner(q, k)
    return z / np.sqrt(q.shape[-1]) if scaled else z
""",
    ),
    (
        "attention_scores",
        "right",
        'loops with fsum',
        """
def attention_scores(q, k, scaled=True):
    T, S, D = q.shape[-2], k.shape[-2], q.shape[-1]
    out = np.zeros(q.shape[:-2] + (T, S))
    for i in np.ndindex(q.shape[:-2]):
        for t in range(T):
            for s in range(S):
                out[i + (t, s)] = math.fsum(float(a) * float(b) for a, b in zip(q[i][t], k[i][s]))
    return out * (D ** -0.5) if scaled else out
""",
    ),
    (
        "attention_scores",
        "right",
        'table of products, summed',
        """
def attention_scores(q, k, scaled=True):
    z = np.sum(q[..., :, None, :] * k[..., None, :, :], axis=-1)
    return np.true_divide(z, np.sqrt(np.float64(q.shape[-1]))) if scaled else z
""",
    ),
    (
        "scaled_dot_product_attention",
        "wrong",
        'values centred in place (float64 only)',
        """
def scaled_dot_product_attention(q, k, v):
    p = softmax(attention_scores(q, k))
    v = np.asarray(v, dtype=float)
    mean = v.mean(axis=-2, keepdims=True)
    v -= mean
    return p @ v + mean, p
""",
    ),
    (
        "scaled_dot_product_attention",
        "wrong",
        "weights in the values' dtype",
        """
def scaled_dot_product_attention(q, k, v):
    p = softmax(attention_scores(q, k))
    return p.astype(v.dtype) @ v, p
""",
    ),
    (
        "scaled_dot_product_attention",
        "wrong",
        'np.dot on stacks',
        """
def scaled_dot_product_attention(q, k, v):
    p = softmax(attention_scores(q, k))
    return np.dot(p, v), p
""",
    ),
    (
        "scaled_dot_product_attention",
        "right",
        'column of ones, divided at the end',
        """
def scaled_dot_product_attention(q, k, v):
    z = attention_scores(q, k)
    e = np.exp(z - z.max(-1, keepdims=True))
    both = e @ np.concatenate([v, np.ones(v.shape[:-1] + (1,))], axis=-1)
    return both[..., :-1] / both[..., -1:], e / both[..., -1:]
""",
    ),
    (
        "scaled_dot_product_attention",
        "right",
        'einsum, and values moved by their first row',
        """
def scaled_dot_product_attention(q, k, v):
    p = softmax(np.einsum('...ij,...kj->...ik', q * q.shape[-1] ** -0.5, k))
    first = v[..., :1, :]
    return np.einsum('...ik,...kc->...ic', p, v - first) + first, p
""",
    ),
    (
        "scaled_dot_product_attention",
        "right",
        'softmax over axis -2 of the transposed table',
        """
def scaled_dot_product_attention(q, k, v):
    pt = softmax(attention_scores(k, q), axis=-2)
    return np.swapaxes(np.swapaxes(v, -1, -2) @ pt, -1, -2), np.swapaxes(pt, -1, -2)
""",
    ),
    (
        "score_variance",
        "wrong",
        'keys divided in place, in the scaled branch only',
        """
def score_variance(q, k, scaled=False):
    k = np.asarray(k, dtype=float)
    if scaled:
        k /= np.sqrt(k.shape[-1])
    return float((q * k).sum(axis=-1).var())
""",
    ),
    (
        "score_variance",
        "wrong",
        "buffer with the queries' dtype",
        """
def score_variance(q, k, scaled=False):
    y = np.empty(len(q), dtype=q.dtype)
    y[:] = (q * k).sum(axis=-1) / (q.shape[-1] ** 0.5 if scaled else 1)
    return float(y.var())
""",
    ),
    (
        "score_variance",
        "wrong",
        'dot products summed in float32',
        """
def score_variance(q, k, scaled=False):
    y = (q * k).sum(axis=-1, dtype=np.float32)
    if scaled:
        y = y / q.shape[-1] ** 0.5
    return float(y.astype(float).var())
""",
    ),
    (
        "score_variance",
        "wrong",
        'table of all pairs',
        """
def score_variance(q, k, scaled=False):
    y = q @ k.T
    if scaled:
        y = y / np.sqrt(q.shape[-1])
    return float(y.var())
""",
    ),
    (
        "score_variance",
        "wrong",
        'variance of the products, not summed',
        """
def score_variance(q, k, scaled=False):
    y = q * k
    if scaled:
        y = y / np.sqrt(q.shape[-1])
    return float(y.var())
""",
    ),
    (
        "score_variance",
        "right",
        'statistics.pvariance',
        """
def score_variance(q, k, scaled=False):
    import statistics
    y = [math.fsum(float(a) * float(b) for a, b in zip(r, s)) for r, s in zip(q, k)]
    return float(statistics.pvariance(y)) / (q.shape[1] if scaled else 1)
""",
    ),
    (
        "score_variance",
        "right",
        'diagonal of the table',
        """
def score_variance(q, k, scaled=False):
    y = np.diagonal(q @ k.T).astype(float)
    return float(np.mean((y - y.mean()) ** 2) / (q.shape[-1] if scaled else 1.0))
""",
    ),
    (
        "score_variance",
        "right",
        'mean of squared differences of all pairs, halved',
        """
def score_variance(q, k, scaled=False):
    y = np.array([np.dot(a, b) for a, b in zip(q, k)], dtype=float)
    y = y / math.sqrt(q.shape[1]) if scaled else y
    return float(((y[:, None] - y[None, :]) ** 2).mean() / 2)
""",
    ),
    (
        "softmax_jacobian",
        "wrong",
        'no diagonal',
        """
def softmax_jacobian(weights):
    return -weights[..., :, None] * weights[..., None, :]
""",
    ),
    (
        "softmax_jacobian",
        "wrong",
        'column twice',
        """
def softmax_jacobian(weights):
    p = weights[..., :, None]
    return p * (np.eye(weights.shape[-1]) - p)
""",
    ),
    (
        "softmax_jacobian",
        "wrong",
        'in float32',
        """
def softmax_jacobian(weights):
    p = weights.astype(np.float32)
    return (p[..., :, None] * np.eye(p.shape[-1], dtype=np.float32) - p[..., :, None] * p[..., None, :]).astype(float)
""",
    ),
    (
        "softmax_jacobian",
        "wrong",
        'weights kept above 1e-8',
        """
def softmax_jacobian(weights):
    p = np.clip(weights, 1e-8, 1.0)
    return p[..., :, None] * np.eye(p.shape[-1]) - p[..., :, None] * p[..., None, :]
""",
    ),
    (
        "softmax_jacobian",
        "right",
        'covariance of one-hot keys',
        """
def softmax_jacobian(weights):
    S = weights.shape[-1]
    away = np.eye(S) - weights[..., None, :]
    return np.swapaxes(away, -1, -2) @ (weights[..., :, None] * away)
""",
    ),
    (
        "softmax_jacobian",
        "right",
        'loops, diagonal by minus the rest of the row',
        """
def softmax_jacobian(weights):
    S = weights.shape[-1]
    J = np.zeros(weights.shape + (S,))
    for i in np.ndindex(weights.shape[:-1]):
        p = [float(x) for x in weights[i]]
        for s in range(S):
            for r in range(S):
                J[i + (s, r)] = p[s] * (1 - p[s]) if s == r else -p[s] * p[r]
    return J
""",
    ),
    (
        "attention_backward",
        "wrong",
        'keys divided in place (float64 only)',
        """
def attention_backward(q, k, v, grad_output):
    _, p = scaled_dot_product_attention(q, k, v)
    root = q.shape[-1] ** 0.5
    dp = grad_output @ np.swapaxes(v, -1, -2)
    dz = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    k = np.asarray(k, dtype=float)
    k /= root
    return dz @ k, np.swapaxes(dz, -1, -2) @ q / root, np.swapaxes(p, -1, -2) @ grad_output
""",
    ),
    (
        "attention_backward",
        "wrong",
        'dV in a buffer empty_like(v)',
        """
def attention_backward(q, k, v, grad_output):
    _, p = scaled_dot_product_attention(q, k, v)
    root = q.shape[-1] ** 0.5
    dp = grad_output @ np.swapaxes(v, -1, -2)
    dz = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    dv = np.empty_like(v)
    dv[...] = np.swapaxes(p, -1, -2) @ grad_output
    return dz @ k / root, np.swapaxes(dz, -1, -2) @ q / root, dv
""",
    ),
    (
        "attention_backward",
        "wrong",
        'sum over everything',
        """
def attention_backward(q, k, v, grad_output):
    _, p = scaled_dot_product_attention(q, k, v)
    root = q.shape[-1] ** 0.5
    dp = grad_output @ np.swapaxes(v, -1, -2)
    dz = p * (dp - (p * dp).sum())
    return dz @ k / root, np.swapaxes(dz, -1, -2) @ q / root, np.swapaxes(p, -1, -2) @ grad_output
""",
    ),
    (
        "attention_backward",
        "right",
        'row sum of dO * O',
        """
def attention_backward(q, k, v, grad_output):
    o, p = scaled_dot_product_attention(q, k, v)
    root = q.shape[-1] ** 0.5
    dp = grad_output @ np.swapaxes(v, -1, -2)
    dz = p * (dp - (grad_output * o).sum(axis=-1, keepdims=True)) / root
    return dz @ k, np.swapaxes(dz, -1, -2) @ q, np.swapaxes(p, -1, -2) @ grad_output
""",
    ),
    (
        "attention_backward",
        "right",
        'loop over queries, sums gathered in float64',
        """
def attention_backward(q, k, v, grad_output):
    p = softmax(attention_scores(q, k))
    dq, dk, dv = (np.zeros(a.shape, dtype=float) for a in (q, k, v))
    for t in range(q.shape[-2]):
        w = p[..., t, :, None]
        do = grad_output[..., t, None, :]
        dv += w * do
        dp = (do * v).sum(axis=-1, keepdims=True)
        dz = w * (dp - (w * dp).sum(axis=-2, keepdims=True)) / math.sqrt(q.shape[-1])
        dq[..., t, :] = (dz * k).sum(axis=-2)
        dk += dz * q[..., t, None, :]
    return dq, dk, dv
""",
    ),
    (
        "attention_backward",
        "right",
        'values moved by the output: dZ = P * (dO (V - O))',
        """
def attention_backward(q, k, v, grad_output):
    o, p = scaled_dot_product_attention(q, k, v)
    away = v[..., None, :, :] - o[..., :, None, :]
    dz = p * (away * grad_output[..., :, None, :]).sum(axis=-1) / q.shape[-1] ** 0.5
    return dz @ k, np.swapaxes(dz, -1, -2) @ q, np.swapaxes(p, -1, -2) @ grad_output
""",
    ),
    (
        "repaired_backward",
        "wrong",
        'sum without keepdims',
        """
def repaired_backward(q, k, v, grad_output):
    _, p = scaled_dot_product_attention(q, k, v)
    root = q.shape[-1] ** 0.5
    dp = grad_output @ np.swapaxes(v, -1, -2)
    dz = p * (dp - (p * dp).sum(axis=-1))
    dq, dk = dz @ k / root, np.swapaxes(dz, -1, -2) @ q / root
    dv = np.swapaxes(p, -1, -2) @ grad_output
    return dq, dk, dv
""",
    ),
    (
        "repaired_backward",
        "wrong",
        'dp -= ...: fails where v and grad_output are integers',
        """
def repaired_backward(q, k, v, grad_output):
    _, p = scaled_dot_product_attention(q, k, v)
    root = q.shape[-1] ** 0.5
    dp = grad_output @ np.swapaxes(v, -1, -2)
    dp -= (p * dp).sum(axis=-1, keepdims=True)
    dz = p * dp
    dq, dk = dz @ k / root, np.swapaxes(dz, -1, -2) @ q / root
    dv = np.swapaxes(p, -1, -2) @ grad_output
    return dq, dk, dv
""",
    ),
    (
        "repaired_backward",
        "wrong",
        'rounded to 12 digits: tiny gradients lost',
        """
def repaired_backward(q, k, v, grad_output):
    _, p = scaled_dot_product_attention(q, k, v)
    root = q.shape[-1] ** 0.5
    dp = grad_output @ np.swapaxes(v, -1, -2)
    dz = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    dq, dk = dz @ k / root, np.swapaxes(dz, -1, -2) @ q / root
    dv = np.swapaxes(p, -1, -2) @ grad_output
    return tuple(np.round(g, 12) for g in (dq, dk, dv))
""",
    ),
    (
        "repaired_backward",
        "wrong",
        "dq in the queries' dtype",
        """
def repaired_backward(q, k, v, grad_output):
    _, p = scaled_dot_product_attention(q, k, v)
    root = q.shape[-1] ** 0.5
    dp = grad_output @ np.swapaxes(v, -1, -2)
    dz = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    dq, dk = dz @ k / root, np.swapaxes(dz, -1, -2) @ q / root
    dv = np.swapaxes(p, -1, -2) @ grad_output
    return dq.astype(q.dtype), dk, dv
""",
    ),
    (
        "repaired_backward",
        "right",
        'np.average with weights',
        """
def repaired_backward(q, k, v, grad_output):
    _, p = scaled_dot_product_attention(q, k, v)
    root = q.shape[-1] ** 0.5
    dp = grad_output @ np.swapaxes(v, -1, -2)
    dz = p * (dp - np.average(dp, axis=-1, weights=p)[..., None])
    dq, dk = dz @ k / root, np.swapaxes(dz, -1, -2) @ q / root
    dv = np.swapaxes(p, -1, -2) @ grad_output
    return dq, dk, dv
""",
    ),
    (
        "repaired_backward",
        "right",
        'dp moved by its own first entry before the mean',
        """
def repaired_backward(q, k, v, grad_output):
    _, p = scaled_dot_product_attention(q, k, v)
    root = q.shape[-1] ** 0.5
    dp = grad_output @ np.swapaxes(v, -1, -2)
    dp = dp - dp[..., :1]
    dz = p * (dp - np.einsum('...ts,...ts->...t', p, dp)[..., None])
    dq, dk = dz @ k / root, np.swapaxes(dz, -1, -2) @ q / root
    dv = np.swapaxes(p, -1, -2) @ grad_output
    return dq, dk, dv
""",
    ),
    (
        "repaired_backward",
        "right",
        'dO * O, D**-0.25 to either side',
        """
def repaired_backward(q, k, v, grad_output):
    f = q.shape[-1] ** -0.25
    a, b = f * q, f * k
    p = softmax(a @ np.swapaxes(b, -1, -2))
    o = p @ v
    dz = p * (grad_output @ np.swapaxes(v, -1, -2) - np.sum(grad_output * o, axis=-1, keepdims=True))
    return f * (dz @ b), f * (np.swapaxes(dz, -1, -2) @ a), np.swapaxes(p, -1, -2) @ grad_output
""",
    ),
]

HEAD = "def attention_backward(q, k, v, grad_output):"
REPAIRED = "def repaired_backward(q, k, v, grad_output):"
CASES = [
    *(("softmax", *case) for case in SOFTMAX),
    *(("attention_scores", *case) for case in SCORES),
    *(("scaled_dot_product_attention", *case) for case in ATTENTION),
    *(("score_variance", *case) for case in VARIANCE),
    *(("softmax_jacobian", *case) for case in JACOBIAN),
    *(("attention_backward", kind, what, HEAD + body) for kind, what, body in BACKWARD),
    *(("attention_backward", kind, what, HEAD + body) for kind, what, body in EXACT),
    *(("repaired_backward", kind, what, REPAIRED + body) for kind, what, body in BACKWARD),
    *(("repaired_backward", kind, what, REPAIRED + body) for kind, what, body in EXACT[:1]),
    *MORE,
]
