"""Chapter 04: answers as an adversary writes them, from the notebook alone.

``CASES`` holds (exercise, "wrong" | "right", what it does, code). A wrong answer must lose points
on every seed, and a right one none.
"""

from __future__ import annotations

CASES: list[tuple[str, str, str, str]] = []


def _case(exercise: str, kind: str, what: str, body: str, head: str) -> None:
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    CASES.append((exercise, kind, what, f"def {exercise}({head}):\n{lines}\n"))


def _masked(kind: str, what: str, body: str) -> None:
    _case("masked_softmax", kind, what, body, "scores, mask=None")


GUARDED = """
top = s.max(axis=-1, keepdims=True)
top = np.where(top == -np.inf, 0, top)
e = np.exp(s - top)
n = e.sum(axis=-1, keepdims=True)
return e / np.where(n == 0, 1, n)
"""
FILL = "s = scores * 1.0 if mask is None else np.where(mask, scores, -np.inf)"
_masked(
    "wrong",
    "no maximum subtracted",
    f"""{FILL}
e = np.exp(s)
n = e.sum(axis=-1, keepdims=True)
return e / np.where(n == 0, 1, n)""",
)
_masked(
    "wrong",
    "fills with -1e9, empty rows set to 0 afterwards",
    """if mask is None:
    mask = np.array(True)
s = np.where(mask, scores, -1e9)
e = np.exp(s - s.max(axis=-1, keepdims=True))
return e / e.sum(axis=-1, keepdims=True) * mask""",
)
_masked(
    "wrong",
    "fills with -50",
    "s = scores if mask is None else np.where(mask, scores, -50.0)" + GUARDED,
)
_masked(
    "wrong",
    "an all-False mask taken for none",
    "s = np.asarray(scores) * 1.0\nif mask is not None and np.any(mask):\n"
    "    s = np.where(mask, s, -np.inf)" + GUARDED,
)
_masked(
    "wrong",
    "changes a float64 argument through asarray",
    """s = np.asarray(scores, dtype=float)
if mask is not None:
    s = np.where(mask, s, -np.inf)
top = s.max(axis=-1, keepdims=True)
s -= np.where(top == -np.inf, 0, top)
e = np.exp(s)
n = e.sum(axis=-1, keepdims=True)
return e / np.where(n == 0, 1, n)""",
)
_masked(
    "wrong",
    "writes into the mask where a row is empty",
    """if mask is None:
    mask = np.ones(np.shape(scores), bool)
mask = np.broadcast_to(mask, np.broadcast_shapes(np.shape(scores), mask.shape)) \\
    if mask.shape != np.shape(scores) else mask
empty = ~mask.any(axis=-1, keepdims=True)
if mask.flags.writeable:
    mask |= empty
    s = np.where(mask, scores, -np.inf)
else:
    s = np.where(mask | empty, scores, -np.inf)
top = s.max(axis=-1, keepdims=True)
top = np.where(top == -np.inf, 0, top)
e = np.exp(s - top)
n = e.sum(axis=-1, keepdims=True)
return np.where(empty, 0, e / np.where(n == 0, 1, n))""",
)
_masked(
    "wrong",
    "buffer like integer scores",
    "s = np.zeros_like(scores)\ns[...] = scores\n"
    "if mask is not None:\n    s = np.where(mask, s, -np.inf)\n"
    "e = np.zeros_like(np.asarray(scores))\n"
    "t = s.max(axis=-1, keepdims=True)\nt = np.where(t == -np.inf, 0, t)\n"
    "q = np.exp(s - t)\nn = q.sum(axis=-1, keepdims=True)\nq = q / np.where(n == 0, 1, n)\n"
    "return q.astype(scores.dtype) if scores.dtype.kind == 'i' else q",
)
_masked("wrong", "softmax over the first axis", f"{FILL}\n" + GUARDED.replace("axis=-1", "axis=0"))
_masked(
    "wrong",
    "-inf scores without a mask give NaN",
    """if mask is None:
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
s = np.where(mask, scores, -np.inf)"""
    + GUARDED,
)
_masked(
    "wrong",
    "squeezes",
    f"{FILL}\n"
    + GUARDED.replace("return e / np.where(n == 0, 1, n)", "")
    + "return np.squeeze(e / np.where(n == 0, 1, n))",
)
_masked(
    "wrong",
    "the mask must have the shape of the scores",
    "s = np.array(scores, dtype=float)\nif mask is not None:\n    s[~mask] = -np.inf" + GUARDED,
)
_masked("right", "guards, float64", f"s = np.array(scores, float)\n{FILL}" + GUARDED)
_masked(
    "right",
    "log-sum-exp",
    """s = np.array(scores, dtype=float)
if mask is not None:
    s = np.where(mask, s, float('-inf'))
with np.errstate(all='ignore'):
    total = np.logaddexp.reduce(s, axis=-1, keepdims=True)
    return np.where(s == -np.inf, 0.0, np.exp(s - np.where(total == -np.inf, 0.0, total)))""",
)
_masked(
    "right",
    "np.ma",
    """if mask is None:
    mask = np.True_
s = np.where(mask, scores, -np.inf)
alive = (s > -np.inf).any(axis=-1, keepdims=True)
s = np.where(alive, s, 0)
e = np.exp(s - np.max(s, axis=-1, keepdims=True))
return np.where(alive, e / np.sum(e, axis=-1, keepdims=True), 0.0)""",
)

SELF = "x, w_q, w_k, w_v, mask=None"
OURS = "q, k, v = x @ w_q, x @ w_k, x @ w_v\n"
LOOK = "p = masked_softmax(attention_scores(q, k), mask)\nreturn p @ v, p"


def _self(kind: str, what: str, body: str) -> None:
    _case("self_attention", kind, what, body, SELF)


IMPORT = "from attend_solutions.attention import attention_scores, softmax\n"
BY_HAND = """
s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
if mask is not None:
    s = np.where(mask, s, FILL)
TOP
e = np.exp(s)
n = e.sum(axis=-1, keepdims=True)
p = e / np.where(n == 0, 1, n)
EMPTY
return p @ v, p"""


def _hand(fill: str, top: str, empty: str = "") -> str:
    return BY_HAND.replace("FILL", fill).replace("TOP", top).replace("EMPTY", empty)


SAFE = "t = s.max(axis=-1, keepdims=True)\ns = s - np.where(np.isneginf(t), 0, t)"
ZERO = "p = p if mask is None else p * mask.any(axis=-1, keepdims=True)"
_self("wrong", "no maximum", OURS + _hand("-np.inf", "pass"))
_self("wrong", "-1e9 and empty rows set to 0", OURS + _hand("-1e9", SAFE, ZERO))
_self("wrong", "-50 for -inf", OURS + _hand("-50.0", SAFE, ZERO))
_self(
    "wrong",
    "all-False mask taken for none",
    IMPORT + OURS + "mask = None if mask is None or not mask.any() else mask\n" + LOOK,
)
_self(
    "wrong",
    "a mask with leading axes loses them",
    IMPORT
    + OURS
    + "mask = None if mask is None else mask.reshape(-1, *mask.shape[-2:])[0]\n"
    + LOOK,
)
_self(
    "wrong",
    "mask inverted in place",
    IMPORT + OURS + "if mask is not None:\n"
    "    np.logical_not(mask, out=mask)\n    mask = ~mask\n" + LOOK.replace("~", ""),
)
_self(
    "wrong",
    "x changed in place",
    IMPORT + "x /= 1.0 if x.dtype.kind == 'f' else 1\n"
    "x = np.asarray(x, float)\nx *= 2\nx /= 4\n" + "x = 2 * x\n" + OURS + LOOK,
)
_self(
    "wrong",
    "scale of T",
    OURS + IMPORT + "p = masked_softmax(q @ np.swapaxes(k, -1, -2)"
    " / np.sqrt(x.shape[-2]), mask)\nreturn p @ v, p",
)
_self(
    "wrong",
    ".T in place of swapaxes",
    OURS + "p = masked_softmax(q @ k.T / np.sqrt(q.shape[-1]), mask)\nreturn p @ v, p",
)
_self(
    "wrong",
    "integer buffer for the output",
    IMPORT
    + OURS
    + "p = masked_softmax(attention_scores(q, k), mask)\no = (p @ v).astype(v.dtype)\nreturn o, p",
)
_self(
    "wrong",
    "values weighted by the wrong axis",
    IMPORT + OURS + "p = masked_softmax(attention_scores(q, k), mask)\n"
    "return np.swapaxes(p, -1, -2) @ v, p",
)
_self(
    "right",
    "einsum",
    OURS + "s = np.einsum('...td,...sd->...ts', q, k) / q.shape[-1] ** 0.5\n"
    "p = masked_softmax(s, mask=mask)\nreturn np.einsum('...ts,...sd->...td', p, v), p",
)
_self("right", "by hand", OURS + _hand("-np.inf", SAFE))
_self(
    "right",
    "scaled queries, a mask of ones",
    IMPORT + OURS + "q = q * w_q.shape[1] ** -0.5\n"
    "mask = np.True_ if mask is None else mask\n"
    "p = masked_softmax(q @ np.moveaxis(k, -1, -2), mask)\nreturn np.matmul(p, v), p",
)

CROSS = "x, context, w_q, w_k, w_v, mask=None"
THEIRS = "q, k, v = x @ w_q, context @ w_k, context @ w_v\n"


def _cross(kind: str, what: str, body: str) -> None:
    _case("cross_attention", kind, what, body, CROSS)


_cross("wrong", "no maximum", THEIRS + _hand("-np.inf", "pass"))
_cross("wrong", "-1e9 and empty rows set to 0", THEIRS + _hand("-1e9", SAFE, ZERO))
_cross(
    "wrong",
    "scale of the context's width",
    THEIRS + "p = masked_softmax(q @ "
    "np.swapaxes(k, -1, -2) / np.sqrt(context.shape[-1]), mask)\nreturn p @ v, p",
)
_cross(
    "wrong",
    "mask of another sentence only",
    IMPORT + THEIRS + "mask = None if mask is None else mask[..., :1, :]\n" + LOOK,
)
_cross(
    "wrong",
    "all-False mask taken for none",
    IMPORT + THEIRS + "mask = None if mask is None or not mask.any() else mask\n" + LOOK,
)
_cross(
    "wrong",
    "masked where T = S only",
    IMPORT
    + THEIRS
    + "if mask is not None and x.shape[-2] != context.shape[-2]:\n    mask = None\n"
    + LOOK,
)
_cross(
    "wrong",
    "context changed in place",
    IMPORT + "c = np.asarray(context, float)\nc += 0.5\ncontext = c - 0.5\n" + THEIRS + LOOK,
)
_cross(
    "wrong",
    "k from x where the widths agree",
    IMPORT
    + THEIRS
    + "if x.shape[-1] == context.shape[-1]:\n    k = x @ w_k\n    if k.shape[-2] != v.shape[-2]:\n"
    "        k = context @ w_k\n" + LOOK,
)
_cross(
    "wrong",
    "hidden scores are 0",
    THEIRS
    + IMPORT
    + "s = attention_scores(q, k)\np = softmax(s if mask is None else s * mask)\nreturn p @ v, p",
)
_cross("wrong", "only the weights", IMPORT + THEIRS + LOOK.replace("p @ v, p", "p"))
_cross(
    "right",
    "via einsum",
    THEIRS + "p = masked_softmax(np.einsum('...td,...sd->...ts', q, k)"
    " / np.sqrt(w_k.shape[-1]), mask)\nreturn np.einsum('...ts,...sd->...td', p, v), p",
)
_cross("right", "a list", IMPORT + THEIRS + LOOK.replace("return p @ v, p", "return [p @ v, p]"))
_cross("right", "by hand", THEIRS + _hand("-np.inf", SAFE))

PERMUTATION = "order, x, w_q, w_k, w_v, mask=None"
MATRIX = "p = np.eye(len(order))[list(order)]\nw = (w_q, w_k, w_v)\n"
MOVED = "m = None if mask is None else (p @ mask @ p.T).astype(bool)\n"
RESULTS = """a = self_attention(x, *w, mask)[0]
b = self_attention(p @ x, *w, mask)[0]
c = self_attention(p @ x, *w, m)[0]
return p @ a, b, c"""


def _moves(kind: str, what: str, body: str) -> None:
    _case("permutation_matrix_test", kind, what, body, PERMUTATION)


_moves(
    "wrong",
    "third is a copy of the first",
    MATRIX + MOVED + RESULTS.replace("a, b, c", "a, b, p @ a"),
)
_moves(
    "wrong",
    "first is a copy of the third",
    MATRIX + MOVED + RESULTS.replace("p @ a, b, c", "c, b, c"),
)
_moves(
    "wrong",
    "all-False mask taken for none",
    MATRIX + "mask = mask if mask is not None and mask.any() else None\n" + MOVED + RESULTS,
)
_moves(
    "wrong",
    "mask moved in place",
    MATRIX + "m = mask\nif m is not None:\n"
    "    a = self_attention(x, *w, mask)[0]\n    b = self_attention(p @ x, *w, mask)[0]\n"
    "    m[...] = m[order][:, order]\n    return p @ a, b, self_attention(p @ x, *w, m)[0]\n"
    + RESULTS,
)
_moves("wrong", "inverse order", MATRIX.replace("p =", "p = ") + "p = p.T\n" + MOVED + RESULTS)
_moves("wrong", "order sorted", MATRIX + MOVED + RESULTS.replace("p @ a", "a[np.sort(order)]"))
_moves(
    "wrong",
    "the weights moved too",
    MATRIX + MOVED + RESULTS.replace("return p @ a", "return p @ a @ np.eye(a.shape[1])[::-1]"),
)
_moves(
    "wrong",
    "the mask's rows move twice",
    MATRIX + "m = None if mask is None else mask[order][order]\n" + RESULTS,
)
_moves(
    "wrong",
    "no mask in the second",
    MATRIX + MOVED + RESULTS.replace("p @ x, *w, mask", "p @ x, *w, None"),
)
_moves(
    "wrong",
    "whole numbers",
    MATRIX + MOVED + "x = np.asarray(x)\nx = x if x.dtype.kind == 'f' "
    "else (x // 2) * 2\n" + RESULTS,
)
_moves(
    "right",
    "longdouble throughout",
    MATRIX.replace("np.eye(len(order))", "np.eye(len(order), dtype=np.longdouble)")
    + "x = np.asarray(x, np.longdouble)\n"
    + MOVED
    + RESULTS,
)
_moves(
    "right",
    "np.ix_",
    MATRIX + "m = mask if mask is None else mask[np.ix_(order, order)]\n" + RESULTS,
)
_moves("right", "index of the output", MATRIX + MOVED + RESULTS.replace("p @ a", "a[order]"))

CAUSAL = "queries, keys=None"


def _causal(kind: str, what: str, body: str) -> None:
    _case("causal_mask", kind, what, body, CAUSAL)


_causal(
    "wrong",
    "keys or queries",
    "keys = keys or queries\nreturn np.tril(np.ones((queries, keys), bool), keys - queries)",
)
_causal(
    "wrong",
    "strict",
    "keys = queries if keys is None else keys\n"
    "return np.arange(keys) < np.arange(queries)[:, None] + keys - queries",
)
_causal(
    "wrong",
    "from the start",
    "keys = queries if keys is None else keys\nreturn np.tril(np.ones((queries, keys), bool))",
)
_causal(
    "wrong",
    "numbers",
    "keys = queries if keys is None else keys\n"
    "return np.tril(np.ones((queries, keys)), keys - queries)",
)
_causal(
    "wrong",
    "no negative shift",
    "keys = queries if keys is None else keys\n"
    "return np.tril(np.ones((queries, keys), bool), max(keys - queries, 0))",
)
_causal(
    "wrong",
    "one query sees itself only",
    "keys = queries if keys is None else keys\n"
    "m = np.tril(np.ones((queries, keys), bool), keys - queries)\n"
    "if queries == 1:\n    m[:, :-1] = False\nreturn m",
)
_causal("wrong", "keys ignored", "return np.tril(np.ones((queries, queries), bool))")
_causal(
    "wrong",
    "a leading axis",
    "keys = queries if keys is None else keys\n"
    "return np.tril(np.ones((1, queries, keys), bool), keys - queries)",
)
_causal(
    "wrong",
    "a list of lists",
    "keys = queries if keys is None else keys\n"
    "return [[s <= t + keys - queries for s in range(keys)] for t in range(queries)]",
)
_causal(
    "right",
    "fromfunction",
    "keys = queries if keys is None else keys\n"
    "return np.fromfunction(lambda t, s: s <= t + keys - queries, (queries, keys), dtype=int)",
)
_causal(
    "right",
    "not triu",
    "if keys is None:\n    keys = queries\n"
    "return ~np.triu(np.ones((queries, keys), bool), 1 + keys - queries)",
)
_causal(
    "right",
    "row by row",
    "keys = queries if keys is None else keys\n"
    "m = np.zeros((queries, keys), bool)\nfor t in range(queries):\n"
    "    m[t, :max(t + 1 + keys - queries, 0)] = True\nreturn m",
)

PADDING = "lengths, size, side='right'"


def _padding(kind: str, what: str, body: str) -> None:
    _case("padding_mask", kind, what, body, PADDING)


N = "n = np.asarray(lengths)[:, None, None]\ns = np.arange(size)\n"
_padding(
    "wrong",
    "no list",
    "n = lengths[:, None, None]\ns = np.arange(size)\n"
    "return s < n if side == 'right' else s >= size - n",
)
_padding(
    "wrong",
    "slices from the end",
    "m = np.zeros((len(lengths), 1, size), bool)\n"
    "for b, n in enumerate(lengths):\n    if side == 'left':\n        m[b, 0, -n:] = True\n"
    "    else:\n        m[b, 0, :n] = True\nreturn m",
)
_padding(
    "wrong",
    "repeated",
    N + "m = s < n if side == 'right' else s >= size - n\nreturn np.repeat(m, size, axis=1)",
)
_padding(
    "wrong", "squeezed", N + "m = s < n if side == 'right' else s >= size - n\nreturn m.squeeze()"
)
_padding(
    "wrong",
    "lengths changed",
    "n = np.asarray(lengths)\nif side == 'left':\n    n *= -1\n"
    "    n += size\n    return np.arange(size) >= n[:, None, None]\n"
    "return np.arange(size) < n[:, None, None]",
)
_padding(
    "wrong",
    "additive",
    N + "m = s < n if side == 'right' else s >= size - n\nreturn np.where(m, 0.0, -np.inf)",
)
_padding(
    "wrong",
    "left is right reversed over sentences",
    N + "m = s < n\nreturn m if side == 'right' else m[::-1]",
)
_padding(
    "wrong",
    "the longest decides the size",
    N + "s = np.arange(max(lengths))\nreturn s < n if side == 'right' else s >= max(lengths) - n",
)
_padding("wrong", "one too few", N + "return s < n - 1 if side == 'right' else s > size - n")
_padding("right", "flip", N + "m = s < n\nreturn m if side == 'right' else m[..., ::-1]")
_padding(
    "right",
    "comprehension",
    "return np.array([[[(s < n if side == 'right' else size - s <= n)"
    " for s in range(size)]] for n in lengths], dtype=bool)",
)
_padding(
    "right",
    "expand_dims",
    "n = np.expand_dims(np.array(lengths), (1, 2))\n"
    "s = np.arange(size)[None, None]\nreturn np.where(side == 'left', s >= size - n, s < n)",
)

COMBINE = "*masks"


def _combine(kind: str, what: str, body: str) -> None:
    _case("combine_masks", kind, what, body, COMBINE)


GIVEN = "g = [m for m in masks if m is not None]\nif not g:\n    return None\n"
_combine(
    "wrong", "any instead of all", GIVEN + "return np.stack(np.broadcast_arrays(*g)).any(axis=0)"
)
_combine(
    "wrong",
    "all-False masks left out",
    "g = [m for m in masks if m is not None and m.any()]\n"
    "if not g:\n    return None\nr = g[0]\nfor m in g[1:]:\n    r = r & m\nreturn r",
)
_combine(
    "wrong",
    "all-True masks give None",
    GIVEN + "r = g[0]\nfor m in g[1:]:\n    r = r & m\nreturn None if r.all() else r",
)
_combine(
    "wrong",
    "in place where it fits",
    GIVEN + "r = g[0]\nfor m in g[1:]:\n"
    "    if r.shape == np.broadcast_shapes(r.shape, m.shape):\n        r &= m\n"
    "    else:\n        r = r & m\nreturn r",
)
_combine(
    "wrong",
    "min of numbers",
    GIVEN + "r = g[0].astype(int)\nfor m in g[1:]:\n    r = np.minimum(r, m)\nreturn r",
)
_combine("wrong", "no broadcasting", GIVEN + "return np.stack(g).all(axis=0)")
_combine("wrong", "xor", GIVEN + "r = g[0]\nfor m in g[1:]:\n    r = r ^ m\nreturn r")
_combine(
    "wrong",
    "True for none",
    "r = np.array(True)\nfor m in masks:\n    if m is not None:\n        r = r & m\nreturn r",
)
_combine(
    "wrong",
    "stops at the first None",
    "r = None\nfor m in masks:\n    if m is None:\n        break\n"
    "    r = m if r is None else r & m\nreturn r",
)
_combine(
    "wrong",
    "the second mask twice",
    "r = None\nfor m in masks[:1] + masks[-1:]:\n"
    "    if m is not None:\n        r = m if r is None else r & m\nreturn r",
)
_combine(
    "right", "logical_and.reduce", GIVEN + "return np.logical_and.reduce(np.broadcast_arrays(*g))"
)
_combine("right", "not of any not", GIVEN + "r = ~g[0]\nfor m in g[1:]:\n    r = r | ~m\nreturn ~r")
_combine(
    "right",
    "a copy, written into",
    GIVEN + "r = np.ones(np.broadcast_shapes(*(m.shape for m in g)), bool)\n"
    "for m in g:\n    r &= m\nreturn r",
)

REPAIRED = "q, k, v, mask=None"


def _repaired(kind: str, what: str, body: str) -> None:
    _case("repaired_attention", kind, what, IMPORT + body, REPAIRED)


SUSPECT = """p = softmax(attention_scores(q, k))
if mask is not None:
    p = np.where(mask, p, 0.0)
    p = DIVIDED
"""
AGAIN = "return p @ v, p"


def _divided(by: str) -> str:
    return SUSPECT.replace("DIVIDED", by) + AGAIN


_repaired("wrong", "as it was", _divided("p / p.sum(axis=-1, keepdims=True)"))
_repaired("wrong", "not divided", _divided("p"))
_repaired("wrong", "1e-12 in the sum", _divided("p / (p.sum(axis=-1, keepdims=True) + 1e-12)"))
_repaired(
    "wrong",
    "1e-300 in the sum",
    _divided("p / np.maximum(p.sum(axis=-1, keepdims=True), 1e-300)"),
)
_repaired("wrong", "NaN to 0", _divided("np.nan_to_num(p / p.sum(axis=-1, keepdims=True))"))
_repaired(
    "wrong",
    "divides where the sum is above 0",
    _divided("np.divide(p, p.sum(axis=-1, keepdims=True), out=p, where=p.sum(-1)[..., None] > 0)"),
)
_repaired(
    "wrong",
    "scores clipped to 300",
    "s = np.clip(attention_scores(q, k), -300, 300)\n"
    + _divided("p / p.sum(axis=-1, keepdims=True)").replace("attention_scores(q, k)", "s"),
)
_repaired(
    "wrong",
    "exponentials without the maximum, masked",
    """e = np.exp(attention_scores(q, k))
if mask is not None:
    e = e * mask
n = e.sum(axis=-1, keepdims=True)
p = e / np.where(n == 0, 1, n)
return p @ v, p""",
)
_repaired(
    "wrong",
    "all-False mask taken for none",
    "mask = None if mask is None or not np.any(mask) else mask\n"
    "p = masked_softmax(attention_scores(q, k), mask)\n" + AGAIN,
)
_repaired(
    "wrong",
    "empty rows share evenly",
    "s = attention_scores(q, k)\nif mask is not None:\n    s = np.where(mask, s, -1e30)\n"
    "p = softmax(s)\n" + AGAIN,
)
_repaired(
    "wrong",
    "-1e4 in float32's manner, empty rows 0",
    "s = attention_scores(q, k)\nif mask is not None:\n    s = s + (1.0 - mask) * -1e4\n"
    "p = softmax(s)\nif mask is not None:\n    p = p * mask\n" + AGAIN,
)
_repaired(
    "wrong",
    "hidden values set to 0 only",
    "p = softmax(attention_scores(q, k))\nif mask is not None:\n"
    "    p = p * mask\n    p = p / np.where(p.sum(-1, keepdims=True) == 0, 1, "
    "p.sum(-1, keepdims=True))\n" + AGAIN,
)
_repaired(
    "wrong",
    "the mask inverted in place and back, but empty ones",
    "if mask is not None and not mask.any():\n    mask = mask.copy()\n    mask[..., 0] = True\n"
    "p = masked_softmax(attention_scores(q, k), mask)\n" + AGAIN,
)
_repaired("wrong", "weights first", "p = masked_softmax(attention_scores(q, k), mask)\nreturn p, p @ v")
_repaired("right", "one line", "p = masked_softmax(attention_scores(q, k), mask)\n" + AGAIN)
_repaired(
    "right",
    "-inf, empty rows settled first",
    """s = attention_scores(q, k)
if mask is None:
    p = softmax(s)
    return p @ v, p
s = np.where(mask, s, -np.inf)
alive = np.isfinite(s).any(axis=-1, keepdims=True)
p = softmax(np.where(alive, s, 0.0)) * alive
return p @ v, p""",
)
_repaired(
    "right",
    "masked arrays of NumPy",
    """s = attention_scores(q, k)
m = np.broadcast_to(True if mask is None else mask, np.broadcast_shapes(
    s.shape, () if mask is None else mask.shape))
top = np.max(np.broadcast_to(s, m.shape), axis=-1, keepdims=True, where=m, initial=-1e308)
e = np.where(m, np.exp(np.where(m, s - top, 0)), 0)
n = e.sum(axis=-1, keepdims=True)
p = e / np.where(n > 0, n, 1)
return p @ v, p""",
)
_masked(
    "wrong",
    "an empty mask counts as none",
    "mask = None if mask is not None and mask.size == 0 else mask\n"
    "s = np.asarray(scores) * 1.0\nif mask is not None and not mask.all():\n"
    "    s = np.where(mask, s, -1e30)" + GUARDED,
)
_masked("wrong", "multiplies scores by the mask", "s = scores * (1 if mask is None else mask)" + GUARDED)
_masked(
    "wrong",
    "infinite scores that are hidden",
    "s = scores + (0 if mask is None else np.where(mask, 0, -np.inf))" + GUARDED,
)
