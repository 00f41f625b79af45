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
    "wrong",
    "log-sum-exp, which rounds beside scores of 10¹²",
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
_repaired(
    "wrong", "weights first", "p = masked_softmax(attention_scores(q, k), mask)\nreturn p, p @ v"
)
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
_masked(
    "wrong", "multiplies scores by the mask", "s = scores * (1 if mask is None else mask)" + GUARDED
)
_masked(
    "wrong",
    "infinite scores that are hidden",
    "s = scores + (0 if mask is None else np.where(mask, 0, -np.inf))" + GUARDED,
)

HEADS = {
    "masked_softmax": "scores, mask=None",
    "self_attention": SELF,
    "cross_attention": "x, context, w_q, w_k, w_v, mask=None",
    "permutation_matrix_test": "order, x, w_q, w_k, w_v, mask=None",
    "causal_mask": "queries, keys=None",
    "repaired_attention": REPAIRED,
    "padding_mask": "lengths, size, side='right'",
    "combine_masks": "*masks",
}


def _of(exercise: str, kind: str, what: str, body: str) -> None:
    _case(exercise, kind, what, IMPORT + body, HEADS[exercise])


_of(
    "masked_softmax",
    "wrong",
    "maximum taken before hiding",
    """m = np.max(scores, axis=-1, keepdims=True)
z = np.where(mask, scores, -np.inf) if mask is not None else scores
m = np.where(m == -np.inf, 0, m)
e = np.exp(z - m)
s = e.sum(axis=-1, keepdims=True)
return e / np.where(s == 0, 1, s)""",
)
_of(
    "masked_softmax",
    "wrong",
    "-1e9 for -inf, empty rows and -inf scores cared for",
    """scores = np.asarray(scores)
allowed = scores != -np.inf
if mask is not None:
    allowed = allowed & mask
z = np.where(allowed, scores, -1e9)
e = np.exp(z - z.max(axis=-1, keepdims=True))
p = e / e.sum(axis=-1, keepdims=True)
return np.where(allowed.any(axis=-1, keepdims=True), p, 0.0)""",
)
_of(
    "masked_softmax",
    "wrong",
    "writes -inf into scores where mask has the same shape and scores are floats",
    """if mask is not None:
    if np.shape(mask) == np.shape(scores) and np.issubdtype(scores.dtype, np.floating):
        scores[~mask] = -np.inf
    else:
        scores = np.where(mask, scores, -np.inf)
m = np.max(scores, axis=-1, keepdims=True)
e = np.exp(scores - np.where(m == -np.inf, 0, m))
s = e.sum(axis=-1, keepdims=True)
return e / np.where(s == 0, 1, s)""",
)
_of(
    "masked_softmax",
    "wrong",
    "writes into the mask (mask &= scores > -inf) where the shapes agree",
    """seen = np.asarray(scores) != -np.inf
if mask is None:
    mask = seen
elif mask.shape == seen.shape and mask.dtype == bool:
    mask &= seen
else:
    mask = mask & seen
z = np.where(mask, scores, -np.inf)
m = z.max(axis=-1, keepdims=True)
e = np.exp(z - np.where(m == -np.inf, 0, m))
s = e.sum(axis=-1, keepdims=True)
return e / np.where(s == 0, 1, s)""",
)
_of(
    "masked_softmax",
    "wrong",
    "guarded only under a mask; a row of -inf without a mask is NaN",
    """if mask is None:
    return softmax(scores)
z = np.where(mask, scores, -np.inf)
m = z.max(axis=-1, keepdims=True)
e = np.exp(z - np.where(m == -np.inf, 0, m))
s = e.sum(axis=-1, keepdims=True)
return e / np.where(s == 0, 1, s)""",
)
_of(
    "masked_softmax",
    "right",
    "chapter 03's softmax, empty rows replaced by zeros first",
    """z = np.where(np.True_ if mask is None else mask, scores, -np.inf)
empty = np.isneginf(z).all(axis=-1, keepdims=True)
return softmax(np.where(empty, 0.0, z)) * ~empty""",
)
_of(
    "masked_softmax",
    "wrong",
    "logaddexp.reduce, which rounds beside scores of 10¹²",
    """z = np.where(np.True_ if mask is None else mask, scores, -np.inf)
total = np.logaddexp.reduce(z, axis=-1)[..., None]
return np.exp(z - np.where(np.isneginf(total), 0.0, total))""",
)
_of(
    "self_attention",
    "wrong",
    "returns only the weights' transpose applied: weights.T @ v",
    """q, k, v = x @ w_q, x @ w_k, x @ w_v
weights = masked_softmax(attention_scores(q, k), mask)
return np.swapaxes(weights, -1, -2) @ v, weights""",
)
_of(
    "self_attention",
    "wrong",
    "an all-False mask is taken for no mask",
    """weights = masked_softmax(attention_scores(x @ w_q, x @ w_k), mask if np.any(mask) else None)
return weights @ (x @ w_v), weights""",
)
_of(
    "self_attention",
    "wrong",
    "w_q /= sqrt(D) through an alias (float64 only)",
    """w_q = np.asarray(w_q, dtype=float)
w_q /= np.sqrt(w_q.shape[-1])
weights = masked_softmax((x @ w_q) @ np.swapaxes(x @ w_k, -1, -2), mask)
return weights @ (x @ w_v), weights""",
)
_of(
    "self_attention",
    "wrong",
    "output in a buffer of the values' type: whole numbers if x and w_v both are",
    """v = x @ w_v
weights = masked_softmax(attention_scores(x @ w_q, x @ w_k), mask)
output = np.zeros(weights.shape[:-1] + v.shape[-1:], dtype=v.dtype)
output[...] = weights @ v
return output, weights""",
)
_of(
    "self_attention",
    "wrong",
    "mask forced to the scores' shape; a mask with more leading axes than x fails",
    """scores = attention_scores(x @ w_q, x @ w_k)
if mask is not None:
    mask = np.broadcast_to(mask, scores.shape)
weights = masked_softmax(scores, mask)
return weights @ (x @ w_v), weights""",
)
_of(
    "self_attention",
    "right",
    "einsum all the way",
    """q, k, v = (np.einsum("...tc,cd->...td", x, w) for w in (w_q, w_k, w_v))
weights = masked_softmax(np.einsum("...td,...sd->...ts", q, k) / len(w_q[0]) ** 0.5, mask)
return np.einsum("...ts,...sd->...td", weights, v), weights""",
)
_of(
    "self_attention",
    "right",
    "one product with the three matrices side by side",
    """every = x @ np.concatenate([w_q, w_k, w_v], axis=1)
d = w_q.shape[1]
q, k, v = np.split(every, [d, 2 * d], axis=-1)
weights = masked_softmax(attention_scores(q, k), mask)
return weights @ v, weights""",
)
_of(
    "cross_attention",
    "wrong",
    "queries from the context, keys from x",
    """weights = masked_softmax(attention_scores(context @ w_q, x @ w_k), mask)
return weights @ (context @ w_v), weights""",
)
_of(
    "cross_attention",
    "wrong",
    "w_v used for the keys and w_k for the values",
    """weights = masked_softmax(attention_scores(x @ w_q, context @ w_v), mask)
return weights @ (context @ w_k), weights""",
)
_of(
    "cross_attention",
    "wrong",
    "softmax by hand without the maximum, scores clipped to 700",
    """scores = np.clip(attention_scores(x @ w_q, context @ w_k), -700, 700)
e = np.exp(scores) * (1 if mask is None else mask)
s = e.sum(axis=-1, keepdims=True)
weights = e / np.where(s == 0, 1, s)
return weights @ (context @ w_v), weights""",
)
_of(
    "cross_attention",
    "wrong",
    "x cast to the context's type; truncated where only the context is whole",
    """x = np.asarray(x, dtype=context.dtype)
weights = masked_softmax(attention_scores(x @ w_q, context @ w_k), mask)
return weights @ (context @ w_v), weights""",
)
_of(
    "cross_attention",
    "wrong",
    "mask repeated over the queries by hand; a mask (S,) fails",
    """scores = attention_scores(x @ w_q, context @ w_k)
if mask is not None and mask.shape[-2] != scores.shape[-2]:
    mask = np.repeat(mask, scores.shape[-2], axis=-2)
weights = masked_softmax(scores, mask)
return weights @ (context @ w_v), weights""",
)
_of(
    "cross_attention",
    "wrong",
    "empty rows opened in the caller's mask, weights set to 0 later",
    """scores = attention_scores(x @ w_q, context @ w_k)
if mask is None:
    weights = softmax(scores)
else:
    mask = np.asarray(mask)
    empty = ~np.broadcast_to(mask, np.broadcast_shapes(mask.shape, scores.shape)).any(axis=-1)
    mask[~mask.any(axis=-1)] = True
    weights = softmax(np.where(mask, scores, -np.inf)) * ~empty[..., None]
return weights @ (context @ w_v), weights""",
)
_of(
    "cross_attention",
    "right",
    "keys made transposed: W_k^T c^T",
    """keys = w_k.T @ np.swapaxes(context, -1, -2)
weights = masked_softmax((x @ w_q) @ keys / np.sqrt(w_k.shape[-1]), mask)
return weights @ (context @ w_v), weights""",
)
_of(
    "cross_attention",
    "right",
    "W_q W_k^T multiplied first; weights applied to the context, then W_v",
    """scores = x @ (w_q @ w_k.T) @ context.swapaxes(-2, -1)
weights = masked_softmax(scores / float(w_q.shape[-1]) ** 0.5, mask)
return weights @ context @ w_v, weights""",
)
_of(
    "permutation_matrix_test",
    "wrong",
    "expected is a copy of mask_moves",
    """stays = self_attention(x[order], w_q, w_k, w_v, mask)[0]
moved = None if mask is None else mask[order][:, order]
moves = self_attention(x[order], w_q, w_k, w_v, moved)[0]
return moves.copy(), stays, moves""",
)
_of(
    "permutation_matrix_test",
    "wrong",
    "without a mask all three are copies of one run",
    """expected = self_attention(x, w_q, w_k, w_v, mask)[0][order]
if mask is None:
    return expected, expected.copy(), expected.copy()
stays = self_attention(x[order], w_q, w_k, w_v, mask)[0]
return expected, stays, self_attention(x[order], w_q, w_k, w_v, mask[order][:, order])[0]""",
)
_of(
    "permutation_matrix_test",
    "wrong",
    "moved mask only if np.any(mask): all False becomes no mask",
    """moved = mask[order][:, order] if np.any(mask) else None
expected = self_attention(x, w_q, w_k, w_v, mask)[0][order]
stays = self_attention(x[order], w_q, w_k, w_v, mask)[0]
return expected, stays, self_attention(x[order], w_q, w_k, w_v, moved)[0]""",
)
_of(
    "permutation_matrix_test",
    "wrong",
    "moves the caller's mask itself",
    """expected = self_attention(x, w_q, w_k, w_v, mask)[0][order]
stays = self_attention(x[order], w_q, w_k, w_v, mask)[0]
if mask is not None:
    mask[:] = mask[order][:, order]
return expected, stays, self_attention(x[order], w_q, w_k, w_v, mask)[0]""",
)
_of(
    "permutation_matrix_test",
    "right",
    "a list of three returned as a tuple, order as a slice of an array, .T twice for the mask",
    """order = np.array(order)[...]
results = []
for move_input, move_mask in ((0, 0), (1, 0), (1, 1)):
    m = mask[order].T[order].T if move_mask and mask is not None else mask
    o = self_attention(x[order] if move_input else x, w_q, w_k, w_v, m)[0]
    results.append(o if move_input else o[order])
return tuple(results)""",
)
_of(
    "causal_mask",
    "wrong",
    "`keys or queries`: 0 keys taken for None",
    """keys = keys or queries
return np.arange(keys) <= np.arange(queries)[:, None] + keys - queries""",
)
_of(
    "causal_mask",
    "wrong",
    "shift never below 0: wrong with fewer keys than queries",
    """keys = queries if keys is None else keys
return np.tri(queries, keys, max(keys - queries, 0), dtype=bool)""",
)
_of(
    "causal_mask",
    "wrong",
    "one query gives shape (S,)",
    """keys = queries if keys is None else keys
if queries == 1:
    return np.ones(keys, dtype=bool)
return np.tri(queries, keys, keys - queries, dtype=bool)""",
)
_of(
    "causal_mask",
    "wrong",
    "places in int8: wrong from 129 keys on",
    """keys = queries if keys is None else keys
s = np.arange(keys).astype(np.int8)
t = (np.arange(queries) + keys - queries).astype(np.int8)
return s <= t[:, None]""",
)
_of(
    "causal_mask",
    "right",
    "np.tri",
    """if keys is None:
    return np.tri(queries, dtype=bool)
return np.tri(queries, keys, k=keys - queries, dtype=bool)""",
)
_of(
    "causal_mask",
    "right",
    "np.fromfunction",
    """s_all = queries if keys is None else keys
return np.fromfunction(lambda t, s: s <= t + s_all - queries, (queries, s_all), dtype=int)""",
)
_of(
    "repaired_attention",
    "wrong",
    "an empty row gets equal weights instead of 0/0",
    """weights = softmax(attention_scores(q, k))
if mask is not None:
    weights = np.where(mask, weights, 0.0)
    total = weights.sum(axis=-1, keepdims=True)
    weights = np.where(total > 0, weights / np.where(total > 0, total, 1), 1 / k.shape[-2])
return weights @ v, weights""",
)
_of(
    "repaired_attention",
    "wrong",
    "-1e9 before the softmax, times the mask, empty rows 0",
    """scores = attention_scores(q, k)
if mask is None:
    weights = softmax(scores)
else:
    weights = softmax(np.where(mask, scores, -1e9)) * mask
return weights @ v, weights""",
)
_of(
    "repaired_attention",
    "wrong",
    "an all-False mask is taken for no mask",
    """scores = attention_scores(q, k)
if mask is not None and not np.any(mask):
    mask = None
weights = masked_softmax(scores, mask)
return weights @ v, weights""",
)
_of(
    "repaired_attention",
    "wrong",
    "suspect's way in longdouble: holds to 11,000 only",
    """s = attention_scores(q, k).astype(np.longdouble)
weights = np.exp(s - s.max(axis=-1, keepdims=True))
if mask is not None:
    weights = np.where(mask, weights, 0)
total = weights.sum(axis=-1, keepdims=True)
weights = (weights / np.where(total == 0, 1, total)).astype(float)
return weights @ v, weights""",
)
_of(
    "repaired_attention",
    "wrong",
    "k scaled in place through an alias",
    """k = np.ascontiguousarray(k, dtype=float)
k *= 1 / np.sqrt(k.shape[-1])
weights = masked_softmax(q @ np.swapaxes(k, -1, -2), mask)
return weights @ v, weights""",
)
_of(
    "repaired_attention",
    "right",
    "the maximum of the visible scores, by hand",
    """scores = attention_scores(q, k)
mask = np.ones_like(scores, dtype=bool) if mask is None else np.asarray(mask)
scores, mask = np.broadcast_arrays(scores, mask)
top = scores.max(axis=-1, keepdims=True, where=mask, initial=-np.inf)
e = np.where(mask, np.exp(np.minimum(scores - np.where(np.isinf(top), 0, top), 0)), 0.0)
total = e.sum(axis=-1, keepdims=True)
weights = np.divide(e, total, out=np.zeros(e.shape), where=total > 0)
return weights @ v, weights""",
)
_of(
    "repaired_attention",
    "right",
    "one query at a time over the compressed keys",
    """scores = attention_scores(q, k)
mask = np.True_ if mask is None else mask
scores, mask = np.broadcast_arrays(scores, mask)
weights = np.zeros(scores.shape)
for at in np.ndindex(scores.shape[:-1]):
    if mask[at].any():
        weights[at + (mask[at],)] = softmax(scores[at][mask[at]])
return weights @ v, weights""",
)
_of(
    "padding_mask",
    "wrong",
    "left: mask[b, 0, -n:] = True; a length of 0 shows all",
    """mask = np.zeros((len(lengths), 1, size), dtype=bool)
for b, n in enumerate(lengths):
    if side == "right":
        mask[b, 0, :n] = True
    else:
        mask[b, 0, -n:] = True
return mask""",
)
_of(
    "padding_mask",
    "wrong",
    "left changes the lengths in place, if an array",
    """lengths = np.asarray(lengths)
s = np.arange(size)
if side == "left":
    lengths *= -1
    lengths += size
    return s >= lengths[:, None, None]
return s < lengths[:, None, None]""",
)
_of(
    "padding_mask",
    "wrong",
    "one sentence gives (1, S)",
    """n = np.asarray(lengths)[:, None]
s = np.arange(size)
mask = s < n if side == "right" else s >= size - n
return mask[:, None] if len(mask) > 1 else mask""",
)
_of(
    "padding_mask",
    "wrong",
    "lengths in uint8: wrong from 256 on",
    """n = np.array(lengths, dtype=np.int64).astype(np.uint8).astype(int)[:, None, None]
s = np.arange(size)
return s < n if side == "right" else s >= size - n""",
)
_of(
    "padding_mask",
    "right",
    "rows of a Python list",
    """rows = []
for n in lengths:
    n = int(n)
    row = [True] * n + [False] * (size - n)
    rows.append([row if side == "right" else row[::-1]])
return np.array(rows, dtype=bool).reshape(len(rows), 1, size)""",
)
_of(
    "padding_mask",
    "right",
    "the mask for the right, read backwards",
    """right = np.less(np.arange(size)[None, None, :], np.reshape(lengths, (-1, 1, 1)))
return {"right": right, "left": right[..., ::-1]}[side]""",
)
_of(
    "combine_masks",
    "wrong",
    "np.stack: shapes must agree",
    """given = [mask for mask in masks if mask is not None]
return np.stack(given).all(axis=0) if given else None""",
)
_of(
    "combine_masks",
    "wrong",
    "only the last two: result forgets",
    """result, before = None, None
for mask in masks:
    if mask is not None:
        result = mask if before is None else before & mask
        before = mask
return result""",
)
_of(
    "combine_masks",
    "wrong",
    "&= into the first mask where shapes agree, & otherwise",
    """result = None
for mask in masks:
    if mask is None:
        continue
    if result is None:
        result = mask
    elif result.shape == mask.shape:
        result &= mask
    else:
        result = result & mask
return result""",
)
_of(
    "combine_masks",
    "wrong",
    "np.any(mask) for `is not None`: an all-False mask is dropped",
    """result = None
for mask in masks:
    if np.any(mask):
        result = mask if result is None else result & mask
return result""",
)
_of(
    "combine_masks",
    "wrong",
    "stops at the first None all the way",
    """result = None
for mask in masks:
    if mask is None:
        break
    result = mask if result is None else result & mask
return result""",
)
_of(
    "combine_masks",
    "wrong",
    "logical_and with out= a copy of the first: a wider one later fails",
    """result = None
for mask in masks:
    if mask is not None:
        if result is None:
            result = mask.copy()
        else:
            np.logical_and(result, mask, out=result)
return result""",
)
_of(
    "combine_masks",
    "right",
    "functools.reduce",
    """import functools
given = [mask for mask in masks if mask is not None]
return functools.reduce(np.logical_and, given) if given else None""",
)
_of(
    "combine_masks",
    "right",
    "broadcast_arrays and all",
    """given = tuple(mask for mask in masks if mask is not None)
return np.all(np.broadcast_arrays(*given), axis=0) if len(given) else None""",
)
_of(
    "self_attention",
    "wrong",
    "softmax over the queries",
    OURS
    + """s = attention_scores(q, k)
if mask is not None:
    s = np.where(mask, s, -np.inf)
p = masked_softmax(s.swapaxes(-1, -2)).swapaxes(-1, -2)
return p @ v, p""",
)
_of(
    "cross_attention",
    "wrong",
    "softmax over the queries",
    THEIRS
    + """s = attention_scores(q, k)
if mask is not None:
    s, mask = np.broadcast_arrays(s, mask)
    mask = mask.swapaxes(-1, -2)
p = masked_softmax(s.swapaxes(-1, -2), mask).swapaxes(-1, -2)
return p @ v, p""",
)
_of(
    "cross_attention",
    "wrong",
    "hidden weights 0, the rest not divided again",
    THEIRS
    + """p = masked_softmax(attention_scores(q, k))
if mask is not None:
    p = p * mask
return p @ v, p""",
)
_of("cross_attention", "right", "w_v last", THEIRS + LOOK.replace("p @ v", "(p @ context) @ w_v"))
_of(
    "permutation_matrix_test",
    "wrong",
    "without a mask one run for all three",
    """order, w = np.asarray(order), (w_q, w_k, w_v)
expected = self_attention(x, *w, mask)[0][order]
if mask is None:
    return expected, expected.copy(), expected.copy()
stays = self_attention(x[order], *w, mask)[0]
return expected, stays, self_attention(x[order], *w, mask[np.ix_(order, order)])[0]""",
)
_of(
    "repaired_attention",
    "wrong",
    "the maximum of all keys, then hidden",
    """s = attention_scores(q, k)
e = np.exp(s - s.max(axis=-1, keepdims=True))
if mask is not None:
    e = e * mask
p = e / np.maximum(e.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
return p @ v, p""",
)
_of(
    "combine_masks",
    "wrong",
    "as many True as there are masks, None counted",
    """found = [mask for mask in masks if mask is not None]
return sum(mask.astype(int) for mask in found) == len(masks) if found else None""",
)
_of(
    "combine_masks",
    "wrong",
    "stops where nothing is left, before the larger shapes",
    """out = None
for m in masks:
    if m is not None:
        out = m if out is None else out & m
        if not out.any():
            return out
return out""",
)
_of(
    "repaired_attention",
    "wrong",
    "hides before the softmax only in rows that came out as 0 / 0",
    """s = attention_scores(q, k)
e = np.exp(s - s.max(axis=-1, keepdims=True))
if mask is not None:
    e = np.where(mask, e, 0.0)
n = e.sum(axis=-1, keepdims=True)
p = np.where(n > 0, e / np.where(n > 0, n, 1), masked_softmax(s, mask))
return p @ v, p""",
)
_of(
    "cross_attention",
    "wrong",
    "a causal mask on top, aligned at the end",
    THEIRS
    + """s = attention_scores(q, k)
past = np.tri(*s.shape[-2:], s.shape[-1] - s.shape[-2], dtype=bool)
p = masked_softmax(s, past if mask is None else mask & past)
return p @ v, p""",
)


DROPPED = "a mask (B, 1, S) loses its middle axis where the rest broadcasts: wrong where B = T"
NO_AXIS = """s = attention_scores(q, k)
flat = mask
if mask is not None and mask.ndim == 3 and mask.shape[-2] == 1:
    flat = mask[:, 0]
try:
    p = masked_softmax(s, flat)
except ValueError:
    p = masked_softmax(s, mask)
return p @ v, p"""
_of("self_attention", "wrong", DROPPED, OURS + NO_AXIS)
_of("cross_attention", "wrong", DROPPED, THEIRS + NO_AXIS)
_of("repaired_attention", "wrong", DROPPED, NO_AXIS)
_masked(
    "wrong",
    DROPPED,
    """s, flat = scores * 1.0, mask
if mask is not None and mask.ndim == 3 and mask.shape[-2] == 1 < scores.shape[-2]:
    flat = mask[:, 0]
if mask is not None:
    try:
        s = np.where(flat, s, -np.inf)
    except ValueError:
        s = np.where(mask, s, -np.inf)"""
    + GUARDED,
)

# One array for two arguments; a length of 1; lists written to; shortcuts that lose a shape.
SHOW = "return weights @ v, weights"
_of(
    "cross_attention",
    "wrong",
    "keys scaled in place, which are the values where w_k is w_v",
    f"""k = (context @ w_k).astype(float)
v = k if w_v is w_k else context @ w_v
k /= np.sqrt(w_q.shape[1])
weights = masked_softmax(x @ w_q @ np.swapaxes(k, -1, -2), mask)
{SHOW}""",
)
_of(
    "self_attention",
    "wrong",
    "queries scaled in place, which are the keys where w_q is w_k",
    f"""q = (x @ w_q).astype(float)
k, v = q if w_k is w_q else x @ w_k, x @ w_v
q /= np.sqrt(w_q.shape[1])
weights = masked_softmax(q @ np.swapaxes(k, -1, -2), mask)
{SHOW}""",
)
_of(
    "repaired_attention",
    "wrong",
    "queries scaled in place, which are the keys where q is k",
    f"""own = np.array(q, dtype=float)
other = own if k is q else k
own /= np.sqrt(q.shape[-1])
weights = masked_softmax(own @ np.swapaxes(other, -1, -2), mask)
{SHOW}""",
)
for _name, _made, _len in (
    ("self_attention", OURS, "x"),
    ("cross_attention", THEIRS, "context"),
    ("repaired_attention", "", "k"),
):
    _of(
        _name,
        "wrong",
        "a single key is always seen",
        f"""{_made}weights = masked_softmax(attention_scores(q, k), mask)
if {_len}.shape[-2] == 1:
    weights = np.ones(weights.shape)
{SHOW}""",
    )
    _of(
        _name,
        "wrong",
        "an all-False mask: zeros of the scores' shape, not of what both broadcast to",
        f"""{_made}scores = attention_scores(q, k)
nobody = mask is not None and not mask.any()
weights = np.zeros(scores.shape) if nobody else masked_softmax(scores, mask)
{SHOW}""",
    )
_masked(
    "wrong",
    "an all-False mask: zeros of the scores' shape, not of what both broadcast to",
    f"if mask is not None and not mask.any():\n    return np.zeros(scores.shape)\n{FILL}{GUARDED}",
)
for _what, _write in (
    ("sorts the caller's list", "order.sort()"),
    ("turns the caller's list into its inverse", "order[:] = np.argsort(rows).tolist()"),
):
    _moves(
        "wrong",
        _what,
        f"""rows = np.array(order)
if isinstance(order, list):
    {_write}
m = None if mask is None else mask[np.ix_(rows, rows)]
a, b, c = ((x, mask), (x[rows], mask), (x[rows], m))
a, b, c = (self_attention(t, w_q, w_k, w_v, seen)[0] for t, seen in (a, b, c))
return a[rows], b, c""",
    )
for _what, _row in (
    ("without filling, one row for all", "(n == size).all()"),
    ("two equal lengths, one row for both", "len(n) == 2 and n[0] == n[1]"),
):
    _padding(
        "wrong",
        _what,
        f"""n = np.asarray(lengths)
n, s = (n[:1] if {_row} else n)[:, None, None], np.arange(size)
return s < n if side == "right" else s >= size - n""",
    )
_combine(
    "wrong",
    "a later mask that hides nothing is left out, and its shape with it",
    """result = None
for mask in masks:
    if mask is not None and (result is None or not mask.all()):
        result = mask.copy() if result is None else result & mask
return result""",
)


AIMED_AT_A_SENTENCE = [
    (
        "masked_softmax",
        "wrong",
        "the maximum starts from -1e9, so a row of lower visible scores underflows to 0",
        """
def masked_softmax(scores, mask=None):
    z = np.asarray(scores, dtype=float)
    if mask is not None:
        z = np.where(mask, z, -np.inf)
    m = z.max(axis=-1, keepdims=True, initial=-1e9)
    e = np.exp(z - m)
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)
""",
    ),
    (
        "masked_softmax",
        "wrong",
        "where all is hidden it hands out one shared array of zeros again and again",
        """
def masked_softmax(scores, mask=None):
    z = np.asarray(scores, dtype=float)
    if mask is not None:
        z = np.where(mask, z, -np.inf)
    if (z == -np.inf).all():
        zeros = masked_softmax.__dict__.setdefault("zeros", {})
        return zeros.setdefault(z.shape, np.zeros(z.shape))
    m = z.max(axis=-1, keepdims=True)
    m = np.where(m == -np.inf, 0.0, m)
    e = np.exp(z - m)
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)
""",
    ),
    (
        "self_attention",
        "wrong",
        "a sentence of one token 'can only look at itself', the mask is not asked",
        """
def self_attention(x, w_q, w_k, w_v, mask=None):
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    if x.shape[-2] == 1 and (mask is None or mask.ndim <= 2):
        return v * 1.0, np.ones(x.shape[:-1] + (1,))
    weights = masked_softmax(q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1]), mask)
    return weights @ v, weights
""",
    ),
    (
        "self_attention",
        "wrong",
        "clips the scores at 1e30 'for safety'",
        """
def self_attention(x, w_q, w_k, w_v, mask=None):
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    weights = masked_softmax(np.clip(scores, -1e30, 1e30), mask)
    return weights @ v, weights
""",
    ),
    (
        "cross_attention",
        "wrong",
        "keeps keys and values while the context is the same object, also after it was filled anew",
        """
def cross_attention(x, context, w_q, w_k, w_v, mask=None):
    kept = cross_attention.__dict__.setdefault("kept", [])
    now = (context, w_k, w_v)
    if not kept or any(a is not b for a, b in zip(kept[0], now)):
        kept[:] = [now, context @ w_k, context @ w_v]
    q, (_, k, v) = x @ w_q, kept
    weights = masked_softmax(q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1]), mask)
    return weights @ v, weights
""",
    ),
    (
        "permutation_matrix_test",
        "wrong",
        "keeps the order in 8 bits",
        """
def permutation_matrix_test(order, x, w_q, w_k, w_v, mask=None):
    order = np.asarray(order).astype(np.uint8)
    moved = None if mask is None else mask[order][:, order]
    return (
        self_attention(x, w_q, w_k, w_v, mask)[0][order],
        self_attention(x[order], w_q, w_k, w_v, mask)[0],
        self_attention(x[order], w_q, w_k, w_v, moved)[0],
    )
""",
    ),
    (
        "causal_mask",
        "wrong",
        "distances in 8 bits, so places 128 ahead look like places behind",
        """
def causal_mask(queries, keys=None):
    keys = queries if keys is None else keys
    ahead = (np.arange(keys) - np.arange(queries)[:, None]).astype(np.int8)
    return ahead <= keys - queries
""",
    ),
    (
        "causal_mask",
        "wrong",
        "one shared array for each size, so what a caller writes into it comes back",
        """
@functools.lru_cache(maxsize=None)
def causal_mask(queries, keys=None):
    keys = queries if keys is None else keys
    return np.arange(keys) <= np.arange(queries)[:, None] + keys - queries
""",
    ),
    (
        "repaired_attention",
        "wrong",
        "masks properly only in rows where the old way gives exactly 0; just before that the visible weights are the last few bits above 0",
        """
def repaired_attention(q, k, v, mask=None):
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    weights = masked_softmax(scores)
    if mask is not None:
        weights = np.where(mask, weights, 0.0)
        total = weights.sum(axis=-1, keepdims=True)
        lost = total == 0
        weights = weights / np.where(lost, 1.0, total)
        weights = np.where(lost, masked_softmax(scores, mask), weights)
    return weights @ v, weights
""",
    ),
    (
        "padding_mask",
        "wrong",
        "lengths kept in 8 bits",
        """
def padding_mask(lengths, size, side="right"):
    real = np.asarray(lengths).astype(np.uint8)[:, None, None]
    places = np.arange(size)
    return places < real if side == "right" else places >= size - real.astype(int)
""",
    ),
    (
        "padding_mask",
        "wrong",
        "compares the side with 'is', right only for the same string object",
        """
def padding_mask(lengths, size, side="right"):
    lengths = np.asarray(lengths)[:, None, None]
    places = np.arange(size)
    right = "right"
    return places < lengths if side is right else places >= size - lengths
""",
    ),
    (
        "combine_masks",
        "wrong",
        "leaves out masks with the same bytes as an earlier one, also where the shape differs",
        """
def combine_masks(*masks):
    different = {mask.tobytes(): mask for mask in masks if mask is not None}
    result = None
    for mask in different.values():
        result = mask.copy() if result is None else result & mask
    return result
""",
    ),
    (
        "combine_masks",
        "wrong",
        "stops once nothing is allowed, so the shape misses the later masks",
        """
def combine_masks(*masks):
    result = None
    for mask in masks:
        if mask is None:
            continue
        result = mask.copy() if result is None else result & mask
        if not result.any():
            break
    return result
""",
    ),
    (
        "cross_attention",
        "wrong",
        "takes self-attention where np.allclose(x, context), which holds for any small numbers",
        """
def cross_attention(x, context, w_q, w_k, w_v, mask=None):
    if x.shape == context.shape and np.allclose(x, context):
        return self_attention(x, w_q, w_k, w_v, mask)  # the case c = x
    q, k, v = x @ w_q, context @ w_k, context @ w_v
    weights = masked_softmax(q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1]), mask)
    return weights @ v, weights
""",
    ),
    (
        "permutation_matrix_test",
        "wrong",
        "leaves a symmetric mask where it is",
        """
def permutation_matrix_test(order, x, w_q, w_k, w_v, mask=None):
    moved = mask
    if mask is not None and not np.array_equal(mask, mask.T):
        moved = mask[order][:, order]
    return (
        self_attention(x, w_q, w_k, w_v, mask)[0][order],
        self_attention(x[order], w_q, w_k, w_v, mask)[0],
        self_attention(x[order], w_q, w_k, w_v, moved)[0],
    )
""",
    ),
    (
        "masked_softmax",
        "wrong",
        "avoids a maximum of -inf with max(initial=-1e8), so rows whose visible scores are all below it are 0",
        """
def masked_softmax(scores, mask=None):
    z = np.where(True if mask is None else mask, scores, -np.inf)
    m = z.max(axis=-1, keepdims=True, initial=-1e8)
    e = np.exp(z - m)
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)
""",
    ),
    (
        "masked_softmax",
        "wrong",
        "short cut for a mask that hides everything forgets the mask's own leading axes",
        """
def masked_softmax(scores, mask=None):
    scores = np.asarray(scores)
    if mask is not None and not mask.any():
        return np.zeros(scores.shape)
    z = np.where(True if mask is None else mask, scores, -np.inf)
    m = z.max(axis=-1, keepdims=True)
    e = np.exp(z - np.where(m == -np.inf, 0.0, m))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)
""",
    ),
    (
        "self_attention",
        "wrong",
        "hides with the lowest float32, but scores of legal numbers go down to -1e48",
        """
def self_attention(x, w_q, w_k, w_v, mask=None):
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    seen = np.True_ if mask is None else mask
    scores = np.where(seen, scores, np.finfo(np.float32).min)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True)) * seen
    total = e.sum(axis=-1, keepdims=True)
    weights = e / np.where(total == 0, 1.0, total)
    return weights @ v, weights
""",
    ),
    (
        "self_attention",
        "wrong",
        "works on 64 queries at a time and cuts the mask's rows along, also where the mask has one row for all queries",
        """
def self_attention(x, w_q, w_k, w_v, mask=None):
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    outputs, weights = [], []
    for start in range(0, q.shape[-2], 64):
        rows = slice(start, start + 64)
        part = mask[..., rows, :] if mask is not None and mask.ndim > 1 else mask
        scores = q[..., rows, :] @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
        weights.append(masked_softmax(scores, part))
        outputs.append(weights[-1] @ v)
    return np.concatenate(outputs, axis=-2), np.concatenate(weights, axis=-2)
""",
    ),
    (
        "cross_attention",
        "wrong",
        "takes x and context for one text where they share memory, but one may be another view of it",
        """
def cross_attention(x, context, w_q, w_k, w_v, mask=None):
    if x.shape == context.shape and np.shares_memory(x, context):
        return self_attention(x, w_q, w_k, w_v, mask)  # the same text
    q, k, v = x @ w_q, context @ w_k, context @ w_v
    weights = masked_softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]), mask)
    return weights @ v, weights
""",
    ),
    (
        "cross_attention",
        "wrong",
        "running softmax over 64 keys at a time; if a query's first 64 keys are hidden and its first visible scores are below -709, 0 * inf is NaN",
        """
def cross_attention(x, context, w_q, w_k, w_v, mask=None):
    q, k, v = x @ w_q, context @ w_k, context @ w_v
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)

    def part(start):
        z = scores[..., start:start + 64]
        top = z.max(axis=-1, keepdims=True)
        top = np.where(top == -np.inf, 0.0, top)
        e = np.exp(z - top)
        return top, e, e.sum(axis=-1, keepdims=True)

    top, e, total = part(0)
    for start in range(64, k.shape[-2], 64):
        new_top, new, new_total = part(start)
        both = np.where(new_total == 0, top, np.where(total == 0, new_top, np.maximum(top, new_top)))
        shrink, new_shrink = np.exp(top - both), np.exp(new_top - both)
        e = np.concatenate([e * shrink, new * new_shrink], axis=-1)
        total, top = total * shrink + new_total * new_shrink, both
    weights = e / np.where(total == 0, 1.0, total)
    return weights @ v, weights
""",
    ),
    (
        "permutation_matrix_test",
        "wrong",
        "keeps the order in one byte, which goes around at 256",
        """
def permutation_matrix_test(order, x, w_q, w_k, w_v, mask=None):
    order = np.array(order).astype(np.uint8)
    moved = None if mask is None else mask[order][:, order]
    expected = self_attention(x, w_q, w_k, w_v, mask)[0][order]
    stays = self_attention(x[order], w_q, w_k, w_v, mask)[0]
    moves = self_attention(x[order], w_q, w_k, w_v, moved)[0]
    return expected, stays, moves
""",
    ),
    (
        "permutation_matrix_test",
        "wrong",
        "leaves a mask as it is where all rows and all columns have equally many True, taking it for one that no order changes; two packed texts of equal length are such a mask",
        """
def permutation_matrix_test(order, x, w_q, w_k, w_v, mask=None):
    order = np.asarray(order)
    moved = mask
    if mask is not None:
        counts = np.concatenate([mask.sum(axis=0), mask.sum(axis=1)])
        if (counts != counts[0]).any():  # otherwise all tokens are treated alike
            moved = mask[np.ix_(order, order)]
    expected = self_attention(x, w_q, w_k, w_v, mask)[0][order]
    stays = self_attention(x[order], w_q, w_k, w_v, mask)[0]
    moves = self_attention(x[order], w_q, w_k, w_v, moved)[0]
    return expected, stays, moves
""",
    ),
    (
        "causal_mask",
        "wrong",
        "short cut for a single query, which sees all keys; 'keys or 1' takes 0 keys for None there",
        """
def causal_mask(queries, keys=None):
    if queries == 1:  # the last place of all: it sees every key
        return np.ones((1, keys or 1), dtype=bool)
    keys = queries if keys is None else keys
    return np.arange(keys) <= np.arange(keys - queries, keys)[:, None]
""",
    ),
    (
        "causal_mask",
        "wrong",
        "numbers the queries in one byte: from 257 queries on the last ones count from 0 again and see nothing",
        """
def causal_mask(queries, keys=None):
    keys = queries if keys is None else keys
    rows = np.arange(queries).astype(np.uint8)[:, None]
    return np.arange(keys) <= rows + np.int64(keys - queries)
""",
    ),
    (
        "repaired_attention",
        "wrong",
        "keeps the softmax first and computes anew only rows whose visible weights sum to 0; where they are denormal (hidden score 710 to 745 above) they have a few bits only",
        """
def repaired_attention(q, k, v, mask=None):
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    weights = masked_softmax(scores)
    if mask is not None:
        weights = np.where(mask, weights, 0.0)
        total = weights.sum(axis=-1, keepdims=True)
        lost = total == 0
        weights = np.where(lost, masked_softmax(scores, mask), weights / np.where(lost, 1.0, total))
    return weights @ v, weights
""",
    ),
    (
        "repaired_attention",
        "wrong",
        "hides with a score 1,000 below the lowest, which is the lowest itself where scores are beyond 1e19",
        """
def repaired_attention(q, k, v, mask=None):
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, scores.min() - 1000.0)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if mask is not None:
        weights = np.where(mask.any(axis=-1, keepdims=True), weights, 0.0)
    return weights @ v, weights
""",
    ),
    (
        "padding_mask",
        "wrong",
        "compares the side by identity, so an equal text that is another object counts as left",
        """
def padding_mask(lengths, size, side="right"):
    right = "right"
    lengths, places = np.asarray(lengths)[:, None, None], np.arange(size)
    return places < lengths if side is right else places >= size - lengths
""",
    ),
    (
        "padding_mask",
        "wrong",
        "keeps its last mask and turns that array around when the same batch is asked for with the other side",
        """
def padding_mask(lengths, size, side="right"):
    batch = (tuple(int(n) for n in lengths), size)
    last = padding_mask.__dict__.get("last")
    if last is not None and last[0] == batch and last[1] != side:
        mask = last[2]
        mask[:] = mask[..., ::-1].copy()
    else:
        counts, places = np.asarray(lengths)[:, None, None], np.arange(size)
        mask = places < counts if side == "right" else places >= size - counts
    padding_mask.last = (batch, side, mask)
    return mask
""",
    ),
    (
        "combine_masks",
        "wrong",
        "stops when two masks leave nothing, before the later masks have given their shape",
        """
def combine_masks(*masks):
    result = None
    for mask in masks:
        if mask is None:
            continue
        if result is None:
            result = mask.copy()
        else:
            result = result & mask
            if not result.any():
                return result
    return result
""",
    ),
    (
        "combine_masks",
        "wrong",
        "counts the masks that allow in one byte: of 256 that all hide, 0 is as many as 256",
        """
def combine_masks(*masks):
    present = [mask for mask in masks if mask is not None]
    if not present:
        return None
    allowed, wanted = np.uint8(0), np.uint8(len(present) % 256)
    for mask in present:
        allowed = np.add(allowed, mask, dtype=np.uint8)
    return np.asarray(allowed == wanted)
""",
    ),
]
"""By readers who each chose a promise of the page and broke it where few would look."""

CASES += AIMED_AT_A_SENTENCE
