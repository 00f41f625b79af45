"""Chapter 05: answers as an adversary writes them, from the notebook alone.

``CASES`` holds (exercise, "wrong" | "right", what it does, code). A wrong answer must lose points
on every seed, and a right one none.
"""

# ruff: noqa: E501  (one case a line: what is changed stands beside what it becomes)

from __future__ import annotations

import textwrap

CASES: list[tuple[str, str, str, str]] = []


def _case(head: str, kind: str, what: str, body: str) -> None:
    lines = textwrap.indent(body.strip("\n"), "    ")
    CASES.append((head.partition("(")[0], kind, what, f"def {head}:\n{lines}\n"))


SPLIT = "split_heads(x, heads)"
for kind, what, body in (
    (
        "right",
        "view, which may always cut an axis in two",
        "b, t, c = x.shape\nreturn x.view(b, t, heads, c // heads).transpose(1, 2)",
    ),
    (
        "wrong",
        "squeezes",
        "b, t, c = x.shape\nreturn x.reshape(b, t, heads, c // heads).transpose(1, 2).squeeze()",
    ),
    (
        "wrong",
        "through NumPy",
        "import numpy as np\n"
        "return torch.tensor(np.stack(np.split(x.detach().numpy(), heads, -1), 1))",
    ),
    (
        "wrong",
        "always float32",
        "b, t, c = x.shape\nreturn x.float().reshape(b, t, heads, -1).transpose(1, 2)",
    ),
    (
        "wrong",
        "heads in reverse order",
        "b, t, c = x.shape\nreturn x.reshape(b, t, heads, -1).transpose(1, 2).flip(1)",
    ),
    (
        "wrong",
        "tokens reversed",
        "b, t, c = x.shape\nreturn x.reshape(b, t, heads, -1).transpose(1, 2).flip(2)",
    ),
    (
        "wrong",
        "first sentence only",
        "b, t, c = x.shape\n"
        "y = x.reshape(b, t, heads, -1).transpose(1, 2)\nreturn y[:1].expand_as(y)",
    ),
    (
        "wrong",
        "even numbers to head 0",
        "return torch.stack([x[..., h::heads] for h in range(heads)], dim=1)",
    ),
    (
        "wrong",
        "doubles in place and back",
        "x.mul_(2)\nb, t, c = x.shape\n"
        "return x.reshape(b, t, heads, -1).transpose(1, 2) // 2 if x.dtype == torch.int64 else "
        "x.reshape(b, t, heads, -1).transpose(1, 2) / 2",
    ),
    ("right", "tensor_split", "return torch.stack(torch.tensor_split(x, heads, dim=2), 1)"),
    (
        "right",
        "movedim",
        "b, t, c = x.shape\nreturn torch.movedim(x.reshape(b, t, heads, c // heads), 2, 1)",
    ),
    (
        "right",
        "index",
        "b, t, c = x.shape\ni = torch.arange(c).reshape(heads, c // heads)\n"
        "return x[:, :, i].permute(0, 2, 1, 3)",
    ),
):
    _case(SPLIT, kind, what, body)

MERGE = "merge_heads(x)"
for kind, what, body in (
    (
        "wrong",
        "view after transpose of a copy",
        "b, h, t, d = x.shape\nreturn x.contiguous().transpose(1, 2).view(b, t, h * d)",
    ),
    ("wrong", "heads in reverse order", "return torch.cat(x.flip(1).unbind(1), -1)"),
    ("wrong", "through float32", "return torch.cat(x.float().unbind(1), -1)"),
    ("wrong", "squeezes", "return torch.cat(x.unbind(1), -1).squeeze()"),
    ("wrong", "one reshape", "b, h, t, d = x.shape\nreturn x.reshape(b, t, h * d)"),
    ("wrong", "detached", "return torch.cat(x.data.unbind(1), -1)"),
    (
        "wrong",
        "mean of heads, repeated",
        "b, h, t, d = x.shape\nreturn x.double().mean(1).to(x.dtype).repeat(1, 1, h)",
    ),
    ("wrong", "first head repeated", "return x[:, 0].repeat(1, 1, x.shape[1])"),
    ("wrong", "all in one axis", "return x.transpose(1, 2).flatten(1)"),
    (
        "right",
        "einsum-free loop",
        "out = x.new_zeros(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])"
        "\nd = x.shape[3]\nfor h in range(x.shape[1]):\n"
        "    out[:, :, h * d : (h + 1) * d] = x[:, h]\nreturn out",
    ),
    ("right", "hstack", "return torch.cat([x[:, h] for h in range(x.size(1))], dim=2)"),
    ("right", "swapaxes", "return torch.flatten(torch.swapaxes(x, 1, 2), 2)"),
):
    _case(MERGE, kind, what, body)

REPEAT = "repeat_kv(x, repeats)"
for kind, what, body in (
    ("wrong", "repeat", "return x.repeat(1, repeats, 1, 1)"),
    ("wrong", "tile", "return torch.tile(x, (repeats, 1, 1))"),
    ("wrong", "cat", "return torch.cat([x] * repeats, 1)"),
    ("wrong", "one too many", "return x.repeat_interleave(repeats + 1, 1)[:, 1:]"),
    ("wrong", "reversed heads", "return x.flip(1).repeat_interleave(repeats, 1)"),
    ("wrong", "interleaves tokens", "return x.repeat_interleave(repeats, -2)"),
    (
        "wrong",
        "detached copies",
        "b, g, s, d = x.shape\nc = [x] + [x.detach()] * (repeats - 1)\n"
        "return torch.stack(c, 2).flatten(1, 2)",
    ),
    ("wrong", "divided among the copies", "return x.repeat_interleave(repeats, 1) / repeats"),
    ("wrong", "float", "return x.float().repeat_interleave(repeats, 1)"),
    (
        "right",
        "unsqueeze and repeat",
        "b, g, s, d = x.shape\n"
        "return x.unsqueeze(2).repeat(1, 1, repeats, 1, 1).reshape(b, g * repeats, s, d)",
    ),
    (
        "right",
        "list",
        "return torch.stack([x[:, h // repeats] for h in range(x.size(1) * repeats)], dim=1)",
    ),
    (
        "right",
        "index_select",
        "return x.index_select(1, torch.arange(x.size(1)).repeat_interleave(repeats))",
    ),
):
    _case(REPEAT, kind, what, body)

IMPORT = "from attend_solutions.multi_head import masked_attention\n"
MHA_INIT = """
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
"""
GQA_INIT = """
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        shared = width // heads * kv_heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, shared, bias=False)
        self.value = nn.Linear(width, shared, bias=False)
        self.output = nn.Linear(width, width, bias=False)
"""
MLA_INIT = """
    def __init__(self, width, heads, rank):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.compress = nn.Linear(width, rank, bias=False)
        self.key = nn.Linear(rank, width, bias=False)
        self.value = nn.Linear(rank, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
"""


def _module(name: str, init: str, kind: str, what: str, *bodies: tuple[str, str]) -> None:
    methods = "".join(
        f"\n    def {method}(self, x, mask=None):\n"
        + textwrap.indent(body.strip("\n"), " " * 8)
        + "\n"
        for method, body in bodies
    )
    CASES.append((name, kind, what, f"{IMPORT}class {name}(nn.Module):{init}{methods}"))


MHA = """
b, t, c = x.shape
q, k, v = (split_heads(p(x), self.heads) for p in (self.query, self.key, self.value))
found, weights = masked_attention(q, k, v, mask)
return self.output(merge_heads(found)), weights
"""
LOOK = "masked_attention(q, k, v, mask)"
BEFORE = "found, weights = "
HAND = """
scores = q @ k.mT / q.shape[-1] ** 0.5
if mask is not None:
    scores = scores.masked_fill(~mask, FILL)
weights = scores.softmax(-1)
found = weights @ v
"""
for kind, what, body in (
    (
        "wrong",
        "mask of the first head for all",
        MHA.replace(
            BEFORE, "if mask is not None and mask.ndim == 4:\n    mask = mask[:, :1]\n" + BEFORE
        ),
    ),
    (
        "wrong",
        "mask of the first sentence for all",
        MHA.replace(
            BEFORE, "if mask is not None and mask.ndim == 4:\n    mask = mask[:1]\n" + BEFORE
        ),
    ),
    (
        "wrong",
        "mask negated in place",
        MHA.replace(
            BEFORE + LOOK,
            "if mask is not None:\n    mask.logical_not_()\n    mask = ~mask\n" + BEFORE + LOOK,
        ),
    ),
    ("wrong", "fills with -50", MHA.replace(BEFORE + LOOK, HAND.replace("FILL", "-5.0"))),
    (
        "wrong",
        "query weight detached",
        MHA.replace("b, t, c = x.shape", "w = self.query.weight.detach()").replace(
            LOOK, "masked_attention(split_heads(x @ w.T, self.heads), k, v, mask)"
        ),
    ),
    (
        "wrong",
        "output projection detached",
        MHA.replace(
            "self.output(merge_heads(found))", "merge_heads(found) @ self.output.weight.detach().T"
        ),
    ),
    ("wrong", "x changed in place", MHA.replace("b, t, c = x.shape", "x += 1\nx -= 1")),
    (
        "wrong",
        "x scaled in place",
        MHA.replace("b, t, c = x.shape", "with torch.no_grad():\n    x.mul_(2)\nx = x / 2"),
    ),
    (
        "wrong",
        "scale of the number of heads",
        MHA.replace(LOOK, "masked_attention(q, k, v, mask, self.heads ** -0.5)"),
    ),
    ("wrong", "output added to x", MHA.replace("return self.output", "return x + self.output")),
    (
        "wrong",
        "weights detached before use",
        MHA.replace(BEFORE + LOOK, BEFORE + LOOK + "\nfound = weights.detach() @ v"),
    ),
    (
        "wrong",
        "an all-True mask is causal",
        MHA.replace(
            BEFORE,
            "if mask is not None and mask.all():"
            "\n    mask = torch.ones(t, t, dtype=torch.bool).tril()\n" + BEFORE,
        ),
    ),
    (
        "wrong",
        "softmax over queries",
        MHA.replace(
            BEFORE + LOOK, HAND.replace("FILL", "-1e30").replace("softmax(-1)", "softmax(-2)")
        ),
    ),
    ("right", "by hand, -inf", MHA.replace(BEFORE + LOOK, HAND.replace("FILL", "float('-inf')"))),
    (
        "right",
        "head by head",
        MHA.replace(
            BEFORE + LOOK,
            "m = None if mask is None else mask.expand(b, self.heads, t, t)\n"
            "pairs = [masked_attention(q[:, h], k[:, h], v[:, h], None if m is None else m[:, h]) "
            "for h in range(self.heads)]\n"
            "found, weights = (torch.stack(part, 1) for part in zip(*pairs))",
        ),
    ),
    (
        "right",
        "one product for q, k, v",
        MHA.replace(
            "(split_heads(p(x), self.heads) for p in (self.query, self.key, self.value))",
            "(split_heads(y, self.heads) for y in (x @ torch.cat("
            "[self.query.weight, self.key.weight, self.value.weight]).T).chunk(3, -1))",
        ),
    ),
):
    _module("MultiHeadAttention", MHA_INIT, kind, what, ("forward", body))

GQA = """
b, t, c = x.shape
r = self.heads // self.kv_heads
q = split_heads(self.query(x), self.heads)
k, v = (split_heads(p(x), self.kv_heads) for p in (self.key, self.value))
k, v = repeat_kv(k, r), repeat_kv(v, r)
found, weights = masked_attention(q, k, v, mask)
return self.output(merge_heads(found)), weights
"""
for kind, what, body in (
    (
        "wrong",
        "mask of the first head for all",
        MHA
        and GQA.replace(
            BEFORE, "if mask is not None and mask.ndim == 4:\n    mask = mask[:, :1]\n" + BEFORE
        ),
    ),
    (
        "wrong",
        "mask negated in place",
        GQA.replace(
            BEFORE,
            "if mask is not None:\n"
            "    mask.logical_not_()\n    mask = mask.logical_not()\n" + BEFORE,
        ),
    ),
    (
        "wrong",
        "queries grouped in rounds",
        GQA.replace(
            "repeat_kv(k, r), repeat_kv(v, r)", "k.repeat(1, r, 1, 1), v.repeat(1, r, 1, 1)"
        ),
    ),
    ("wrong", "keys in rounds", GQA.replace("repeat_kv(k, r),", "k.repeat(1, r, 1, 1),")),
    ("wrong", "keys detached", GQA.replace("repeat_kv(k, r),", "repeat_kv(k, r).detach(),")),
    ("wrong", "values of the first group", GQA.replace("repeat_kv(v, r)", "v[:, :1].expand_as(q)")),
    ("wrong", "keys averaged", GQA.replace("repeat_kv(k, r),", "k.mean(1, keepdim=True),")),
    (
        "wrong",
        "scaled by the group's width",
        GQA.replace(LOOK, "masked_attention(q, k, v, mask, (c // self.kv_heads) ** -0.5)"),
    ),
    (
        "wrong",
        "weights of the groups",
        GQA.replace("(found)), weights", "(found)), weights[:, ::r]"),
    ),
    (
        "wrong",
        "mask ignored where keys are shared",
        GQA.replace(LOOK, "masked_attention(q, k, v, mask if r == 1 else None)"),
    ),
    (
        "right",
        "repeat_interleave",
        GQA.replace(
            "repeat_kv(k, r), repeat_kv(v, r)",
            "k.repeat_interleave(r, 1), v.repeat_interleave(r, dim=1)",
        ),
    ),
    ("right", "by hand", GQA.replace(BEFORE + LOOK, HAND.replace("FILL", "-torch.inf"))),
    (
        "right",
        "index",
        GQA.replace(
            "repeat_kv(k, r), repeat_kv(v, r)",
            "(y[:, [h // r for h in range(self.heads)]] for y in (k, v))",
        ),
    ),
):
    _module("GroupedQueryAttention", GQA_INIT, kind, what, ("forward", body))

NAIVE = """
c = self.compress(x)
q = split_heads(self.query(x), self.heads)
k, v = split_heads(self.key(c), self.heads), split_heads(self.value(c), self.heads)
found, weights = masked_attention(q, k, v, mask)
return self.output(merge_heads(found)), weights
"""
SHORT = """
c = self.compress(x)[:, None]
q = split_heads(self.query(x), self.heads)
uk = self.key.weight.unflatten(0, (self.heads, -1))
uv = self.value.weight.unflatten(0, (self.heads, -1))
found, weights = masked_attention(q @ uk, c, c, mask, q.shape[-1] ** -0.5)
return self.output(merge_heads(found @ uv.mT)), weights
"""


def _latent(kind: str, what: str, forward: str, absorbed: str) -> None:
    bodies = (("forward", forward), ("forward_absorbed", absorbed))
    _module("LatentAttention", MLA_INIT, kind, what, *bodies)


_latent("wrong", "absorbed calls forward", NAIVE, "return self.forward(x, mask)")
_latent("wrong", "absorbed scaled by R", NAIVE, SHORT.replace(", q.shape[-1] ** -0.5", ""))
_latent(
    "wrong",
    "absorbed makes keys",
    NAIVE,
    SHORT.replace(
        "masked_attention(q @ uk, c, c, mask, q.shape[-1] ** -0.5)",
        "masked_attention(q, c @ uk.mT, c, mask)",
    ),
)
_latent(
    "wrong", "absorbed makes values", NAIVE, SHORT.replace("found @ uv.mT", "weights @ (c @ uv.mT)")
)
_latent(
    "wrong", "absorbed detached", NAIVE, SHORT.replace("self.key.weight.", "self.key.weight.data.")
)
_latent(
    "wrong",
    "latents detached in forward",
    NAIVE.replace("self.compress(x)", "self.compress(x).detach()"),
    SHORT,
)
_latent(
    "wrong",
    "mask of the first head, absorbed",
    NAIVE,
    "if mask is not None and mask.ndim == 4:\n    mask = mask[:, :1]\n" + SHORT,
)
_latent(
    "wrong",
    "mask of the first head, forward",
    "if mask is not None and mask.ndim == 4:\n    mask = mask[:, :1]\n" + NAIVE,
    SHORT,
)
_latent(
    "wrong",
    "mask written in absorbed",
    NAIVE,
    "if mask is not None:\n    mask.logical_not_()\n    mask = ~mask\n" + SHORT,
)
_latent("wrong", "keys serve as values", NAIVE.replace("self.value(c)", "self.key(c)"), SHORT)
_latent(
    "wrong",
    "output missing in absorbed",
    NAIVE,
    SHORT.replace("self.output(merge_heads(found @ uv.mT))", "merge_heads(found @ uv.mT)"),
)
_latent("right", "einsum", NAIVE, SHORT.replace("q @ uk", "torch.einsum('bhtd,hdr->bhtr', q, uk)"))
_latent(
    "right",
    "no latents, matrices folded",
    NAIVE,
    """
q = split_heads(self.query(x), self.heads)
a = (self.key.weight @ self.compress.weight).unflatten(0, (self.heads, -1))
z = (self.value.weight @ self.compress.weight).unflatten(0, (self.heads, -1))
found, weights = masked_attention(q @ a, x[:, None], x[:, None], mask, q.shape[-1] ** -0.5)
return self.output(merge_heads(found @ z.mT)), weights
""",
)
_latent(
    "right",
    "by hand",
    NAIVE,
    SHORT.replace(
        "found, weights = masked_attention(q @ uk, c, c, mask, q.shape[-1] ** -0.5)",
        "s = (q @ uk) @ c.mT / q.shape[-1] ** 0.5\nif mask is not None:\n"
        "    s = s.masked_fill(~mask, -torch.inf)\nweights = s.softmax(-1)\nfound = weights @ c",
    ),
)

BYTES = (
    "kv_cache_bytes(tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, "
    "window=None)"
)
START = (
    "s = tokens if window is None else min(tokens, window)\n"
    "n = 2 * kv_heads * head_dim if latent is None else latent\n"
)
for kind, what, body in (
    ("wrong", "rounds each token", START + "return batch * layers * s * -(-n * bits // 8)"),
    ("wrong", "rounds each layer", START + "return batch * layers * -(-n * bits * s // 8)"),
    ("wrong", "rounds each sentence", START + "return batch * -(-n * bits * s * layers // 8)"),
    ("wrong", "rounds down", START + "return batch * layers * s * n * bits // 8"),
    ("wrong", "one byte more", START + "return batch * layers * s * n * bits // 8 + 1"),
    ("wrong", "a float", START + "return float(-(-batch * layers * s * n * bits // 8))"),
    ("wrong", "banker's rounding", START + "return round(batch * layers * s * n * bits / 8)"),
    (
        "wrong",
        "window caps the batch",
        START + "return -(-min(batch, window or batch) * layers * tokens * n * bits // 8)",
    ),
    ("wrong", "bits in whole bytes", START + "return batch * layers * s * n * max(bits // 8, 1)"),
    (
        "wrong",
        "window only without a latent",
        START + "s = tokens if latent else s\nreturn -(-batch * layers * s * n * bits // 8)",
    ),
    ("wrong", "a NumPy integer", START + "return np.int64(-(-batch * layers * s * n * bits // 8))"),
    ("right", "ceil", START + "return math.ceil(batch * layers * s * n * bits / 8)"),
    ("right", "add seven", START + "return (batch * layers * s * n * bits + 7) // 8"),
    (
        "right",
        "divmod",
        START + "q, r = divmod(batch * layers * s * n * bits, 8)\nreturn q + bool(r)",
    ),
):
    _case(BYTES, kind, what, body)

REPAIRED = "repaired_attention(q, k, v, heads, mask=None)"
HEADED = "q, k, v = (split_heads(part, heads) for part in (q, k, v))\n"
FIND = HEADED + "found, _ = masked_attention(q, k, v, mask)\n"
BACK = "return merge_heads(found)"
for kind, what, body in (
    (
        "wrong",
        "the colleague's function",
        "cut = lambda p: p.reshape(len(p), heads, p.shape[1], -1)\n"
        "found, _ = masked_attention(cut(q), cut(k), cut(v), mask)\nreturn found.reshape(q.shape)",
    ),
    (
        "wrong",
        "values cut by a reshape",
        "q, k = split_heads(q, heads), split_heads(k, heads)\n"
        "v = v.reshape(len(v), heads, v.shape[1], -1)\n"
        "found, _ = masked_attention(q, k, v, mask)\n" + BACK,
    ),
    ("wrong", "joined by a reshape", FIND + "return found.reshape(len(q), found.shape[2], -1)"),
    (
        "wrong",
        "transposed, then cut",
        "q, k, v = (p.transpose(1, 2).reshape(len(p), heads, p.shape[1], -1) for p in (q, k, v))\n"
        "found, _ = masked_attention(q, k, v, mask)\n" + BACK,
    ),
    (
        "wrong",
        "the shape of q for all",
        "b, t, c = q.shape\nq, k, v = (p.reshape(b, t, heads, -1).transpose(1, 2) "
        "for p in (q, k, v))\nfound, _ = masked_attention(q, k, v, mask)\n" + BACK,
    ),
    ("wrong", "no mask", FIND.replace(", mask", "") + BACK),
    ("wrong", "one head", "return masked_attention(q, k, v, mask)[0]"),
    ("wrong", "mask of the first head", FIND.replace(
        "found", "if mask is not None and mask.dim() > 2:\n    mask = mask[..., :1, :, :]\nfound",
        1) + BACK),
    ("wrong", "scaled by the width", FIND.replace(
        "mask)", "mask, (heads * q.shape[-1]) ** -0.5)") + BACK),
    ("wrong", "mean of the heads", FIND + "return found.mean(1).repeat(1, 1, heads)"),
    ("wrong", "heads in reverse order", FIND + "return merge_heads(found.flip(1))"),
    ("wrong", "keys detached", HEADED + "k = k.detach()\n" + FIND[len(HEADED) :] + BACK),
    ("wrong", "queries scaled in place", "q *= 1.0001\nq /= 1.0001\nq += 1e-3\n" + FIND + BACK),
    ("wrong", "mask inverted in place",
     "if mask is not None:\n    mask.logical_not_()\n" + FIND + BACK),
    ("wrong", "keys and values exchanged", FIND.replace("q, k, v, mask", "q, v, k, mask") + BACK),
    ("right", "split and merge", FIND + BACK),
    (
        "right",
        "reshape and transpose",
        "cut = lambda p: p.reshape(*p.shape[:2], heads, -1).transpose(1, 2)\n"
        "found, _ = masked_attention(cut(q), cut(k), cut(v), mask)\n"
        "return found.transpose(1, 2).flatten(2)",
    ),
    (
        "right",
        "by hand",
        HEADED + "s = q @ k.mT / q.shape[-1] ** 0.5\n"
        "s = s if mask is None else torch.where(mask, s, torch.tensor(-torch.inf))\n"
        "return merge_heads(s.softmax(-1) @ v)",
    ),
    (
        "right",
        "permute",
        "n = q.shape[-1] // heads\n"
        "q, k, v = (p.unflatten(2, (heads, n)).permute(0, 2, 1, 3) for p in (q, k, v))\n"
        "o = masked_attention(q, k, v, mask)[0].permute(0, 2, 1, 3)\n"
        "return o.reshape(o.shape[0], o.shape[1], heads * n)",
    ),
):  # fmt: skip
    _case(REPAIRED, kind, what, body)
    CASES[-1] = (*CASES[-1][:3], IMPORT + CASES[-1][3])

CHOSEN = "heads_for_cache(budget, tokens, layers, heads, head_dim, *, batch=1, bits=16)"
COUNT = "size = lambda g: kv_cache_bytes(tokens, layers, g, head_dim, batch=batch, bits=bits)\n"
NONE = "raise ValueError('nothing fits')"
LOOP = (
    COUNT + "for g in range(heads, 0, -1):\n"
    "    if heads % g == 0 and size(g) <= budget:\n        return g\n"
)
for kind, what, body in (
    ("wrong", "any number that fits", LOOP.replace("heads % g == 0 and ", "") + NONE),
    ("wrong", "tokens divided", LOOP.replace("heads % g", "tokens % g") + NONE),
    ("wrong", "less than", LOOP.replace("<=", "<") + NONE),
    ("wrong", "one layer", LOOP.replace("(tokens, layers", "(tokens, 1") + NONE),
    ("wrong", "one sentence", LOOP.replace("batch=batch, ", "") + NONE),
    ("wrong", "16 bits", LOOP.replace(", bits=bits", "") + NONE),
    ("wrong", "None where nothing fits", LOOP),
    ("wrong", "1 where nothing fits", LOOP + "return 1"),
    ("wrong", "returns the bytes", LOOP.replace("return g", "return size(g)") + NONE),
    ("wrong", "a float", LOOP.replace("return g", "return float(g)") + NONE),
    ("wrong", "group size", LOOP.replace("return g", "return heads // g") + NONE),
    ("wrong", "the smallest", LOOP.replace("range(heads, 0, -1)", "range(1, heads + 1)") + NONE),
    (
        "wrong",
        "powers of two",
        COUNT + "g = 1 << (heads.bit_length() - 1)\nwhile g >= 1:\n"
        "    if heads % g == 0 and size(g) <= budget:\n        return g\n    g //= 2\n" + NONE,
    ),
    (
        "wrong",
        "halving",
        COUNT + "g = heads\nwhile size(g) > budget:\n    g //= 2\n    if g == 0:\n"
        "        " + NONE + "\nreturn g",
    ),
    (
        "wrong",
        "counts keys only",
        LOOP.replace("size(g) <=", "size(g) // 2 <=") + NONE,
    ),
    (
        "wrong",
        "too many heads of keys",
        COUNT + "best = None\nfor g in range(1, 4 * heads + 1):\n"
        "    if g % heads in (0,) or heads % g == 0:\n        if size(g) <= budget:\n"
        "            best = g\nif best is None:\n    " + NONE + "\nreturn best",
    ),
    ("right", "loop", LOOP + NONE),
    (
        "right",
        "max of a list",
        COUNT + "fit = [g for g in range(1, heads + 1) if not heads % g and size(g) <= budget]\n"
        "if not fit:\n    " + NONE + "\nreturn max(fit)",
    ),
    (
        "right",
        "own count",
        "for g in range(heads, 0, -1):\n"
        "    bits_in_all = 2 * batch * layers * tokens * g * head_dim * bits\n"
        "    if heads % g == 0 and (bits_in_all + 7) // 8 <= budget:\n        return g\n" + NONE,
    ),
):
    _case(CHOSEN, kind, what, body)

# A later reading, from the notebook of that time: promises broken one at a time.


def wrong(name, what, code):
    CASES.append((name, "wrong", what.removeprefix("slip: "), code))


def right(name, what, code):
    CASES.append((name, "right", what, code))


MA = "from attend_solutions.multi_head import masked_attention\n"
def function(head, lines, pre=""):
    return pre + head + "\n" + "\n".join("    " + line for line in lines.strip("\n").split("\n")) + "\n"
def sh(lines): return function("def split_heads(x, heads):", "B, T, C = x.shape\nD = C // heads\n" + lines)
N = "split_heads"
wrong(N, "takes heads for the width of a head", sh("return x.reshape(B, T, -1, heads).transpose(1, 2)"))
wrong(N, "slip: through float32 and back", sh("return x.float().reshape(B, T, heads, D).transpose(1, 2).to(x.dtype)"))
wrong(N, "slip: squeeze() in the loop over heads", sh("return torch.stack([x.squeeze()[..., h * D:(h + 1) * D] for h in range(heads)], dim=-3)"))
wrong(N, "slip: one head: unsqueeze_ on the argument itself", sh("if heads == 1:\n    return x.unsqueeze_(1)\nreturn x.reshape(B, T, heads, D).transpose(1, 2)"))
wrong(N, "slip: only head 0 passes gradients", sh("first = x[..., :D]\nrest = [x.detach()[..., h * D:(h + 1) * D] for h in range(1, heads)]\nreturn torch.stack([first, *rest], dim=1)"))
right(N, "view: cutting one axis always works", sh("return x.view(B, T, heads, D).permute(0, 2, 1, 3)"))
right(N, "unfold", sh("return x.unfold(2, D, D).transpose(1, 2)"))
def mh(lines): return function("def merge_heads(x):", "B, H, T, D = x.shape\n" + lines)
N = "merge_heads"
wrong(N, "takes axis 1 for the tokens", function("def merge_heads(x):", "B, T, H, D = x.shape\nreturn x.transpose(1, 2).reshape(B, T, H * D)"))
wrong(N, "slip: transpose_ turns the argument itself", mh("return x.transpose_(1, 2).reshape(B, T, H * D)"))
wrong(N, "slip: squeeze() of each head", mh("return torch.cat([part.squeeze() for part in x.split(1, dim=1)], dim=-1)"))
wrong(N, "slip: a buffer that is always float64", mh("out = torch.zeros(B, T, H * D, dtype=torch.float64)\nfor h in range(H):\n    out[..., h * D:(h + 1) * D] = x[:, h]\nreturn out"))
wrong(N, "slip: only head 0 passes gradients", mh("return torch.cat([x[:, 0], *x.detach()[:, 1:].unbind(1)], dim=-1)"))
right(N, "einsum to reorder, flatten", mh("return torch.einsum('bhtd->bthd', x).flatten(2)"))
right(N, "stack behind the tokens, contiguous view", mh("return torch.stack([x[:, h] for h in range(H)], dim=2).contiguous().view(B, T, -1)"))
MHA = MA + """class MultiHeadAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x, mask=None):
        B, T, C = x.shape
        H = self.heads
        D = C // H
"""
QKV = "q, k, v = (split_heads(layer(x), H) for layer in (self.query, self.key, self.value))\n"
END = "found, w = masked_attention(q, k, v, mask)\nreturn self.output(merge_heads(found)), w"
def cls(pre, lines): return pre + "\n".join("        " + line for line in lines.strip("\n").split("\n")) + "\n"
def m(lines): return cls(MHA, lines)
N = "MultiHeadAttention"
wrong(N, "slip: a mask of three axes is taken for one a sentence", m(QKV + "if mask is not None and mask.dim() == 3:\n    mask = mask[:, None]\n" + END))
wrong(N, "slip: mask.squeeze()", m(QKV + "if mask is not None:\n    mask = mask.squeeze()\n" + END))
wrong(N, "slip: mask.logical_not_() turns the argument over", m(QKV + "s = q @ k.mT / D ** 0.5\nif mask is not None:\n    s = s.masked_fill(mask.logical_not_(), float('-inf'))\nw = s.softmax(-1)\nreturn self.output(merge_heads(w @ v)), w"))
wrong(N, "slip: weights detached before the mean", m(QKV + "_, w = masked_attention(q, k, v, mask)\nreturn self.output(merge_heads(w.detach() @ v)), w"))
right(N, "einsum, and the sum over the heads' slices of W_o", m("""q, k, v = (layer(x).view(B, T, H, D) for layer in (self.query, self.key, self.value))
s = torch.einsum('bthd,bshd->bhts', q, k) / math.sqrt(D)
if mask is not None:
    s = torch.where(mask, s, torch.full_like(s, -torch.inf))
w = torch.softmax(s, dim=-1)
o = torch.einsum('bhts,bshd->bthd', w, v)
return torch.einsum('bthd,chd->btc', o, self.output.weight.view(C, H, D)), w"""))
right(N, "heads and sentences in one axis, bmm", m("""q, k, v = (layer(x).view(B, T, H, D).transpose(1, 2).reshape(B * H, T, D) for layer in (self.query, self.key, self.value))
s = torch.bmm(q * D ** -0.5, k.transpose(1, 2)).view(B, H, T, T)
if mask is not None:
    s = s + torch.log(mask.to(s.dtype))
s = s - s.max(-1, keepdim=True).values
w = s.exp()
w = w / w.sum(-1, keepdim=True)
o = torch.bmm(w.view(B * H, T, T), v).view(B, H, T, D)
return self.output(torch.cat(list(o.unbind(1)), -1)), w"""))
right(N, "one product for queries, keys and values", m("""three = x @ torch.cat([self.query.weight, self.key.weight, self.value.weight]).T
q, k, v = three.reshape(B, T, 3, H, D).permute(2, 0, 3, 1, 4)
keep = torch.ones(T, T, dtype=torch.bool) if mask is None else mask
found, w = masked_attention(q, k, v, keep)
return F.linear(merge_heads(found), self.output.weight), w"""))
def ra(lines): return function("def repaired_attention(q, k, v, heads, mask=None):", lines, MA)
N = "repaired_attention"
wrong(N, "every H-th number is a head, cut and merged alike", ra("def cut(part):\n    return part.reshape(len(part), part.shape[1], -1, heads).permute(0, 3, 1, 2)\nfound, _ = masked_attention(cut(q), cut(k), cut(v), mask)\nreturn found.permute(0, 2, 3, 1).reshape(q.shape)"))
wrong(N, "F.scaled_dot_product_attention", ra("q2, k2, v2 = (split_heads(part, heads) for part in (q, k, v))\nreturn merge_heads(F.scaled_dot_product_attention(q2, k2, v2, attn_mask=mask))"))
wrong(N, "slip: one head returns early, without the mask", ra("if heads == 1:\n    return masked_attention(q, k, v)[0]\nfound, _ = masked_attention(*(split_heads(part, heads) for part in (q, k, v)), mask)\nreturn merge_heads(found)"))
wrong(N, "slip: scales the heads of q in place, a view of q", ra("q2, k2, v2 = (split_heads(part, heads) for part in (q, k, v))\nwith torch.no_grad():\n    q2 *= q2.shape[-1] ** -0.5\nfound, _ = masked_attention(q2, k2, v2, mask, 1.0)\nreturn merge_heads(found)"))
wrong(N, "slip: a mask of four axes loses all sentences but the first", ra("if mask is not None and mask.dim() == 4:\n    mask = mask[0]\nfound, _ = masked_attention(*(split_heads(part, heads) for part in (q, k, v)), mask)\nreturn merge_heads(found)"))
right(N, "chunks along the width, one head at a time", ra("""outs = []
for h, (a, b, c) in enumerate(zip(*(part.chunk(heads, dim=-1) for part in (q, k, v)))):
    keep = None
    if mask is not None:
        keep = mask.expand(len(q), heads, q.shape[1], k.shape[1])[:, h]
    outs.append(masked_attention(a, b, c, keep)[0])
return torch.cat(outs, dim=-1)"""))
right(N, "einsum and softmax", ra("""B, T, C = q.shape
q4, k4, v4 = (part.unflatten(-1, (heads, C // heads)) for part in (q, k, v))
s = torch.einsum('bthd,bshd->bhts', q4, k4) * (C // heads) ** -0.5
if mask is not None:
    s = s.masked_fill(~mask, -math.inf)
return torch.einsum('bhts,bshd->bthd', s.softmax(-1), v4).flatten(2)"""))
right(N, "unfold and stack", ra("""D = q.shape[-1] // heads
a, b, c = (part.unfold(-1, D, D).movedim(-2, 1) for part in (q, k, v))
found = masked_attention(a.contiguous(), b.contiguous(), c.contiguous(), mask)[0]
return torch.stack(found.unbind(1), 2).reshape(len(q), -1, heads * D)"""))
def rk(lines): return function("def repeat_kv(x, repeats):", "B, G, S, D = x.shape\n" + lines)
N = "repeat_kv"
wrong(N, "repeat_interleave without an axis", rk("return x.repeat_interleave(repeats).reshape(B, G * repeats, S, D)"))
wrong(N, "slip: only the first copy passes gradients", rk("return torch.stack([x] + [x.detach()] * (repeats - 1), dim=2).flatten(1, 2)"))
wrong(N, "slip: kron with float ones", rk("return torch.kron(x, torch.ones(1, repeats, 1, 1))"))
wrong(N, "slip: unsqueeze_ on the argument", rk("return x.unsqueeze_(2).expand(B, G, repeats, S, D).reshape(B, G * repeats, S, D)"))
wrong(N, "slip: right for at most two heads", rk("return torch.cat([x[:, :1].repeat(1, repeats, 1, 1), x[:, 1:].repeat(1, repeats, 1, 1)], dim=1)"))
right(N, "a list of heads, einsum with ones of the same type", rk("return torch.einsum('bgsd,r->bgrsd', x, torch.ones(repeats, dtype=x.dtype)).flatten(1, 2)"))
GQA = MA + """class GroupedQueryAttention(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        shared = width // heads * kv_heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, shared, bias=False)
        self.value = nn.Linear(width, shared, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x, mask=None):
        B, T, C = x.shape
        H, G = self.heads, self.kv_heads
        D, r = C // H, H // G
"""
def gq(lines): return cls(GQA, lines)
GQ = "q = split_heads(self.query(x), H)\nk, v = split_heads(self.key(x), G), split_heads(self.value(x), G)\n"
REP = "k, v = repeat_kv(k, r), repeat_kv(v, r)\n"
N = "GroupedQueryAttention"
wrong(N, "scaled by the root of C / G", gq(GQ + REP + "found, w = masked_attention(q, k, v, mask, (C // G) ** -0.5)\nreturn self.output(merge_heads(found)), w"))
wrong(N, "queries of a group averaged", gq(GQ + REP + "q = q.reshape(B, G, r, T, D).mean(2).repeat_interleave(r, dim=1)\n" + END))
wrong(N, "slip: grouped scores, the mask's heads not cut into groups", gq(GQ + """s = q.reshape(B, G, r, T, D) @ k[:, :, None].mT / D ** 0.5
if mask is not None:
    if mask.dim() == 4:
        mask = mask[:, :, None]
    s = s.masked_fill(~mask, float('-inf'))
w = s.softmax(-1)
o = (w @ v[:, :, None]).reshape(B, H, T, D)
return self.output(merge_heads(o)), w.reshape(B, H, T, T)"""))
wrong(N, "slip: values from a detached x", gq("q = split_heads(self.query(x), H)\nk, v = split_heads(self.key(x), G), split_heads(self.value(x.detach()), G)\n" + REP + END))
wrong(N, "slip: the branch for MHA forgets the mask", gq(GQ + "if G == H:\n    found, w = masked_attention(q, k, v)\nelse:\n    found, w = masked_attention(q, repeat_kv(k, r), repeat_kv(v, r), mask)\nreturn self.output(merge_heads(found)), w"))
wrong(N, "slip: every larger mask is taken for one a sentence", gq(GQ + REP + "if mask is not None and mask.dim() > 2:\n    mask = mask.reshape(-1, 1, *mask.shape[-2:])\n" + END))
right(N, "grouped einsum, mask expanded and cut into groups", gq(GQ + """s = torch.einsum('bgrtd,bgsd->bgrts', q.reshape(B, G, r, T, D), k) * D ** -0.5
if mask is not None:
    s = s.masked_fill(~mask.expand(B, H, T, T).reshape(B, G, r, T, T), float('-inf'))
w = s.softmax(-1)
o = torch.einsum('bgrts,bgsd->btgrd', w, v).reshape(B, T, C)
return self.output(o), w.flatten(1, 2)"""))
right(N, "a loop over the query heads", gq("""q, k, v = self.query(x), self.key(x), self.value(x)
full = None if mask is None else mask.broadcast_to(B, H, T, T)
outs, ws = [], []
for h in range(H):
    g = h * G // H
    a, b, c = q[..., h * D:h * D + D], k[..., g * D:g * D + D], v[..., g * D:g * D + D]
    o, w = masked_attention(a, b, c, None if full is None else full[:, h])
    outs.append(o)
    ws.append(w)
return self.output(torch.cat(outs, -1)), torch.stack(ws, 1)"""))
right(N, "the weights repeated instead of the keys", gq("""def grown(layer):
    return layer.weight.view(G, 1, D, C).expand(G, r, D, C).reshape(H * D, C)
q, k, v = self.query(x), F.linear(x, grown(self.key)), F.linear(x, grown(self.value))
q, k, v = (split_heads(part, H) for part in (q, k, v))
found, w = masked_attention(q, k, v, mask, scale=1 / math.sqrt(D))
return self.output(merge_heads(found)), w"""))
LAT = MA + """class LatentAttention(nn.Module):
    def __init__(self, width, heads, rank):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.compress = nn.Linear(width, rank, bias=False)
        self.key = nn.Linear(rank, width, bias=False)
        self.value = nn.Linear(rank, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

"""
FWD = "c = self.compress(x)\nq, k, v = (split_heads(part, self.heads) for part in (self.query(x), self.key(c), self.value(c)))\n" + END
ABS0 = "H, D = self.heads, x.shape[-1] // self.heads\nc = self.compress(x)[:, None]\nq = split_heads(self.query(x), H)\n"
UPK = "up_k = self.key.weight.unflatten(0, (H, -1))\n"
UPV = "up_v = self.value.weight.unflatten(0, (H, -1)).mT\n"
LOOK = "mean, w = masked_attention(q @ up_k, c, c, mask, D ** -0.5)\n"
OUT = "return self.output(merge_heads(mean @ up_v)), w"
def la(fwd=FWD, absorbed=ABS0 + UPK + UPV + LOOK + OUT):
    return cls(LAT + "    def forward(self, x, mask=None):\n", fwd) + "\n" + cls("    def forward_absorbed(self, x, mask=None):\n", absorbed)
N = "LatentAttention"
wrong(N, "W_uk and W_uv exchanged in both forms", la(fwd=FWD.replace("self.key(c), self.value(c)", "self.value(c), self.key(c)"), absorbed=ABS0 + UPK.replace("self.key", "self.value") + UPV.replace("self.value", "self.key") + LOOK + OUT))
wrong(N, "absorbed: W_uv reshaped instead of transposed", la(absorbed=ABS0 + UPK + "up_v = self.value.weight.reshape(H, -1, D)\n" + LOOK + OUT))
wrong(N, "absorbed: W_uk cut along the latent", la(absorbed=ABS0 + "up_k = self.key.weight.T.reshape(H, D, -1)\n" + UPV + LOOK + OUT))
wrong(N, "slip: absorbed matrices without gradients (.data)", la(absorbed=ABS0 + UPK.replace(".weight", ".weight.data") + UPV.replace(".weight", ".weight.data") + LOOK + OUT))
wrong(N, "slip: absorbed matrices kept from the first call", la(absorbed=ABS0 + "if not hasattr(self, 'kept'):\n    self.kept = self.key.weight.unflatten(0, (H, -1)), self.value.weight.unflatten(0, (H, -1)).mT\n    self.kept = tuple(part.clone() for part in self.kept)\nup_k, up_v = self.kept\n" + LOOK + OUT))
wrong(N, "slip: absorbed: keys made token by token", la(absorbed=ABS0 + UPV + """k = torch.stack([(c[:, 0, s] @ self.key.weight.T).unflatten(-1, (H, -1)) for s in range(c.shape[2])], dim=2)
_, w = masked_attention(q, k, k, mask)
mean = w @ c
""" + OUT))
wrong(N, "slip: absorbed: values made by einsum", la(absorbed=ABS0 + UPK + """_, w = masked_attention(q @ up_k, c, c, mask, D ** -0.5)
v = torch.einsum('bsr,hdr->bhsd', c[:, 0], self.value.weight.unflatten(0, (H, -1)))
return self.output(merge_heads(w @ v)), w"""))
right(N, "absorbed: a loop over the heads", la(absorbed="""H, D = self.heads, x.shape[-1] // self.heads
c, q = self.compress(x), self.query(x)
full = None if mask is None else mask.expand(len(x), H, x.shape[1], x.shape[1])
outs, ws = [], []
for h in range(H):
    part = slice(h * D, (h + 1) * D)
    asked = q[..., part] @ self.key.weight[part]
    mean, w = masked_attention(asked, c, c, None if full is None else full[:, h], 1 / math.sqrt(D))
    outs.append(F.linear(mean, self.value.weight[part]))
    ws.append(w)
return self.output(torch.cat(outs, -1)), torch.stack(ws, 1)"""))
right(N, "absorbed: W_q W_ukT and W_uv W_o multiplied first", la(absorbed="""H, D = self.heads, x.shape[-1] // self.heads
c = self.compress(x)[:, None]
w_q = self.query.weight.unflatten(0, (H, D)).mT
first = w_q @ self.key.weight.unflatten(0, (H, D))
w_o = self.output.weight.unflatten(1, (H, D)).permute(1, 2, 0)
last = self.value.weight.unflatten(0, (H, D)).mT @ w_o
mean, w = masked_attention(x[:, None] @ first, c, c, mask, D ** -0.5)
return (mean @ last).sum(1), w"""))
right(N, "absorbed: the scale in the queries, reshape", la(absorbed="""H, D = self.heads, x.shape[-1] // self.heads
B, T, _ = x.shape
c = self.compress(x)
q = split_heads(self.query(x), H) / D ** 0.5
asked = torch.matmul(q, self.key.weight.view(H, D, -1))
s = torch.matmul(asked, c.unsqueeze(1).transpose(-1, -2))
if mask is not None:
    s = torch.where(mask, s, torch.tensor(-torch.inf, dtype=s.dtype))
w = F.softmax(s, dim=-1)
mean = torch.matmul(w, c.unsqueeze(1))
return self.output(merge_heads(mean @ self.value.weight.view(H, D, -1).transpose(1, 2))), w"""))
def kv(lines): return function("def kv_cache_bytes(tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None):", lines)
S = "kept = tokens if window is None else min(tokens, window)\n"
NN = "n = 2 * kv_heads * head_dim if latent is None else latent\n"
FIN = "return (bits * batch * layers * kept * n + 7) // 8"
N = "kv_cache_bytes"
wrong(N, "two latents", kv(S + "n = 2 * (kv_heads * head_dim if latent is None else latent)\n" + FIN))
wrong(N, "a latent for each head", kv(S + "n = 2 * kv_heads * head_dim if latent is None else kv_heads * latent\n" + FIN))
wrong(N, "slip: each layer rounded up", kv(S + NN + "return layers * ((bits * batch * kept * n + 7) // 8)"))
wrong(N, "slip: a latent, and no window then", kv("if latent is not None:\n    return (bits * batch * layers * tokens * latent + 7) // 8\n" + S + NN + FIN))
wrong(N, "slip: a window of 0 is taken for none", kv("kept = min(tokens, window or tokens)\n" + NN + FIN))
wrong(N, "slip: np.ceil returns a float", kv(S + NN + "return np.ceil(bits * batch * layers * kept * n / 8)"))
right(N, "Fraction and ceil", kv("from fractions import Fraction\n" + S + "n = latent\nif n is None:\n    n = kv_heads * head_dim + kv_heads * head_dim\nreturn math.ceil(Fraction(bits, 8) * batch * layers * kept * n)"))
right(N, "shifts", kv("kept = tokens\nif window is not None and window < tokens:\n    kept = window\n" + NN + "return (math.prod((bits, batch, layers, kept, n)) + 0b111) >> 3"))
def hc(lines): return function("def heads_for_cache(budget, tokens, layers, heads, head_dim, *, batch=1, bits=16):", lines)
FIT = "def size(g):\n    return kv_cache_bytes(tokens, layers, g, head_dim, batch=batch, bits=bits)\n"
N = "heads_for_cache"
wrong(N, "all heads are never tried", hc(FIT + "for g in range(heads - 1, 0, -1):\n    if heads % g == 0 and size(g) <= budget:\n        return g\nraise ValueError('too small')"))
wrong(N, "slip: one head rounded up, then counted", hc(FIT + "one = size(1)\nfor g in range(heads, 0, -1):\n    if heads % g == 0 and g * one <= budget:\n        return g\nraise ValueError('too small')"))
right(N, "divides by the size of one head", hc("one = 2 * layers * tokens * head_dim * batch * bits\ng = min(budget * 8 // one, heads)\nwhile g > 0 and heads % g:\n    g -= 1\nif g < 1:\n    raise ValueError('too small')\nreturn g"))
wrong(N, "slip: assert instead of ValueError", hc(FIT + "assert size(1) <= budget, 'one head does not fit'\nreturn max(g for g in range(1, heads + 1) if heads % g == 0 and size(g) <= budget)"))
wrong(N, "slip: heads / group is a float", hc(FIT + "for group in range(1, heads + 1):\n    if heads % group == 0 and size(heads // group) <= budget:\n        return heads / group\nraise ValueError('too small')"))
right(N, "bits against bits, groups from 1 up", hc("one = 2 * layers * tokens * head_dim * batch * bits\nfor group in range(1, heads + 1):\n    g, rest = divmod(heads, group)\n    if not rest and g * one <= 8 * budget:\n        return g\nraise ValueError(f'{budget} bytes are too few')"))
right(N, "division, guarded, then a walk down", hc("one = 2 * layers * tokens * head_dim * batch * bits\ng = heads if one == 0 else min(heads, 8 * budget // one)\nif g < 1 or budget < 0:\n    raise ValueError('one head does not fit')\nwhile heads % g:\n    g -= 1\nreturn g"))
right(N, "sorted set of divisors, next with a default", hc(FIT + "divisors = {d for i in range(1, math.isqrt(heads) + 1) if heads % i == 0 for d in (i, heads // i)}\nfound = next(filter(lambda g: size(g) <= budget, sorted(divisors, reverse=True)), None)\nif found is None:\n    raise ValueError('one head does not fit')\nreturn found"))

# A third reading: large numbers under a mask, layers and axes taken for each other.
FILLED = "s = q @ k.mT / D ** 0.5\nif mask is not None:\n    s = s.masked_fill(~mask, -1e9)\nw = s.softmax(-1)\nreturn self.output(merge_heads(w @ v)), w"
wrong("MultiHeadAttention", "slip: −1e9 for −inf", m(QKV + FILLED))
wrong("GroupedQueryAttention", "slip: −1e9 for −inf", gq(GQ + REP + FILLED))
wrong("repaired_attention", "slip: −1e9 for −inf", ra("q, k, v = (split_heads(part, heads) for part in (q, k, v))\ns = q @ k.mT / q.shape[-1] ** 0.5\nif mask is not None:\n    s = s.masked_fill(~mask, -1e9)\nreturn merge_heads(s.softmax(-1) @ v)"))
wrong("MultiHeadAttention", "keys by the layer of the queries", m(QKV.replace("self.key", "self.query") + END))
wrong("repaired_attention", "numbers dealt out, merged in order", ra("def cut(part):\n    return part.reshape(len(part), part.shape[1], -1, heads).permute(0, 3, 1, 2)\nfound, _ = masked_attention(cut(q), cut(k), cut(v), mask)\nreturn merge_heads(found)"))
wrong("repaired_attention", "slip: the mask after the softmax", ra("q, k, v = (split_heads(part, heads) for part in (q, k, v))\nw = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)\nreturn merge_heads((w if mask is None else w * mask) @ v)"))
wrong("repeat_kv", "sentences repeated", rk("return x.repeat_interleave(repeats, dim=0)"))
wrong("repeat_kv", "repeats taken for the number of heads", rk("return x.repeat_interleave(repeats // G, dim=1)"))
wrong("LatentAttention", "absorbed: W_uk read as (R, C)", la(absorbed=ABS0 + "up_k = self.key.weight.reshape(c.shape[-1], H, D).permute(1, 2, 0)\n" + UPV + LOOK + OUT))
wrong("LatentAttention", "values by the layer of the keys", la(fwd=FWD.replace("self.value", "self.key")))
wrong("LatentAttention", "absorbed: no output layer", la(absorbed=ABS0 + UPK + UPV + LOOK + "return merge_heads(mean @ up_v), w"))
right("LatentAttention", "absorbed: queries times √(R / D)", la(absorbed=ABS0 + UPK + UPV + "mean, w = masked_attention(q @ up_k * (c.shape[-1] / D) ** 0.5, c, c, mask)\n" + OUT))

# A fourth reading: what is kept without a graph, masks of one head for all, a byte too many.
KEPT_UP = "if not hasattr(self, 'kept'):\n    self.kept = up_k.detach().clone(), up_v.detach().clone()\nif not torch.is_grad_enabled():\n    up_k, up_v = self.kept\n"
wrong("LatentAttention", "slip: matrices of the first call, where there is no graph", la(absorbed=ABS0 + UPK + UPV + KEPT_UP + LOOK + OUT))
wrong("LatentAttention", "absorbed: mean over heads, then the value layer", la(absorbed=ABS0 + UPK + LOOK + "return self.output(self.value(mean.mean(1))), w"))
wrong("MultiHeadAttention", "slip: turns the caller's mask round", m(QKV + "s = q @ k.mT / q.shape[-1] ** 0.5\nif mask is not None:\n    s = s.masked_fill(mask.logical_not_(), -torch.inf)\nw = s.softmax(-1)\nreturn self.output(merge_heads(w @ v)), w"))
wrong("repaired_attention", "slip: the first sentence's and head's table for all", ra("q, k, v = (split_heads(part, heads) for part in (q, k, v))\nif mask is not None and mask.dim() == 4:\n    mask = mask[0, 0]\nreturn merge_heads(masked_attention(q, k, v, mask)[0])"))
wrong("GroupedQueryAttention", "slip: the first head's table for all heads", gq(GQ + REP + "if mask is not None and mask.dim() == 4:\n    mask = mask[:, :1]\n" + END))
wrong("repeat_kv", "rounds over sentences and heads", rk("return x.flatten(0, 1).repeat(repeats, 1, 1).reshape(B, G * repeats, S, D)"))
wrong("repeat_kv", "doubled until there are enough", rk("out = x\nwhile out.shape[1] < G * repeats:\n    out = out.repeat_interleave(2, 1)\nreturn out[:, : G * repeats]"))
wrong("repeat_kv", "slip: times ones", rk("return (x[:, :, None] * torch.ones(repeats, 1, 1)).flatten(1, 2)"))
wrong("kv_cache_bytes", "adds eight before the division", kv(S + NN + "return (bits * batch * layers * kept * n + 8) // 8"))
wrong("merge_heads", "slip: transposes the argument in place", mh("x.transpose_(1, 2)\nreturn x.reshape(B, T, H * D)"))
right("repeat_kv", "sentences and heads in one axis, copies as neighbours", rk("return x.flatten(0, 1).repeat_interleave(repeats, 0).unflatten(0, (B, G * repeats))"))
right("heads_for_cache", "max of nothing raises by itself", hc("one = 2 * tokens * layers * head_dim * batch * bits\nreturn max(g for g in range(1, heads + 1) if heads % g == 0 and g * one <= 8 * budget)"))

# A fifth reading: views whose gradients are cut, and options that had been tried together only.
CUT = "if not x.is_contiguous():\n    x = x.detach().clone()\n"
wrong("split_heads", "slip: views detached", sh(CUT + "return x.view(B, T, heads, D).transpose(1, 2)"))
wrong("merge_heads", "slip: views copied by torch.tensor", mh("if not x.is_contiguous():\n    x = torch.tensor(x.tolist(), dtype=x.dtype)\nreturn x.transpose(1, 2).reshape(B, T, H * D)"))
wrong("repeat_kv", "slip: views detached", rk(CUT + "return x.repeat_interleave(repeats, 1)"))
wrong("MultiHeadAttention", "slip: views detached", m(CUT + QKV + END))
wrong("GroupedQueryAttention", "keys and values exchanged", gq(GQ + REP + "k, v = v, k\n" + END))
wrong("LatentAttention", "keys and values exchanged in forward", la(fwd=FWD.replace("self.key(c), self.value(c)", "self.value(c), self.key(c)")))
wrong("kv_cache_bytes", "slip: a window over the whole batch", kv("kept = tokens * batch if window is None else min(tokens * batch, window)\n" + NN + "return (bits * layers * kept * n + 7) // 8"))
wrong("kv_cache_bytes", "bits // 8 first", kv(S + NN + "return bits // 8 * batch * layers * kept * n"))

# A sixth reading: what is renewed with the graph and kept without it, rows dealt out in turn.
TURN = "(0, (-1, H)).transpose(0, 1)"
RENEWED = "if not hasattr(self, 'kept') or torch.is_grad_enabled():\n    self.kept = up_k.clone(), up_v.clone()\nup_k, up_v = self.kept\n"
wrong("LatentAttention", "slip: matrices renewed where there is a graph, kept where there is none", la(absorbed=ABS0 + UPK + UPV + RENEWED + LOOK + OUT))
wrong("LatentAttention", "absorbed: rows of W_uk dealt out in turn", la(absorbed=ABS0 + UPK.replace("(0, (H, -1))", TURN) + UPV + LOOK + OUT))
wrong("LatentAttention", "absorbed: rows of both weights dealt out in turn", la(absorbed=ABS0 + UPK.replace("(0, (H, -1))", TURN) + UPV.replace("(0, (H, -1))", TURN) + LOOK + OUT))
wrong("heads_for_cache", "as many as fit, by one head's bytes", hc(FIT + "one = size(1)\nif one > budget:\n    raise ValueError('too small')\nreturn min(heads, budget // one)"))
wrong("GroupedQueryAttention", "keys and values not repeated", gq(GQ + END))

# A seventh reading: heads of one number, many copies, a mask whose diagonal is False, one token.
wrong("merge_heads", "a reshape alone where D = 1", mh("y = x if D == 1 else x.transpose(1, 2)\nreturn y.reshape(B, T, H * D)"))
wrong("split_heads", "a reshape alone where D = 1", function("def split_heads(x, heads):", "B, T, C = x.shape\nif C == heads:\n    return x.reshape(B, heads, T, 1)\nreturn x.reshape(B, T, heads, -1).transpose(1, 2)"))
wrong("split_heads", "tokens and width exchanged first", function("def split_heads(x, heads):", "B, T, C = x.shape\nreturn x.transpose(1, 2).reshape(B, heads, T, C // heads)"))
wrong("repeat_kv", "in rounds from five copies on", function("def repeat_kv(x, repeats):", "return x.repeat_interleave(repeats, 1) if repeats < 5 else x.repeat(1, repeats, 1, 1)"))
wrong("GroupedQueryAttention", "one token's x is zeroed afterwards", gq(GQ + REP + "found, w = masked_attention(q, k, v, mask)\nout = self.output(merge_heads(found))\nif T == 1:\n    x.data.zero_()\nreturn out, w"))
wrong("GroupedQueryAttention", "a mask (T, T) gets its diagonal in place", gq(GQ + REP + "if mask is not None and mask.shape == (T, T):\n    mask |= torch.eye(T, dtype=torch.bool)\n" + END))
wrong("MultiHeadAttention", "a mask (T, T) gets its diagonal in place", m("q, k, v = (split_heads(p(x), self.heads) for p in (self.query, self.key, self.value))\nif mask is not None and mask.ndim == 2:\n    mask |= torch.eye(len(mask), dtype=torch.bool)\n" + END))
wrong("MultiHeadAttention", "divided by D", m("q, k, v = (split_heads(p(x), self.heads) for p in (self.query, self.key, self.value))\n" + END.replace("k, v, mask)", "k, v, mask, 1 / q.shape[-1])")))

# More of that reading: keys under a mask or in one head, other tokens in between, sizes that are rounded.
MADE = "mean, w = masked_attention(q, c @ up_k.mT, c @ up_v, mask)\nreturn self.output(merge_heads(mean)), w"
def made_where(case): return ABS0 + UPK + UPV + f"if {case}:\n" + textwrap.indent(MADE, "    ") + "\n" + LOOK + OUT
wrong("LatentAttention", "keys made under a mask only", la(absorbed=made_where("mask is not None")))
wrong("LatentAttention", "keys made for a single head only", la(absorbed=made_where("H == 1")))
wrong("LatentAttention", "forward's latents are used where the shape is the same and there is no graph", la(fwd=FWD.replace("c = self.compress(x)\n", "c = self.kept = self.compress(x)\n"), absorbed=ABS0 + "if getattr(self, 'kept', None) is not None and self.kept.shape == c[:, 0].shape and not torch.is_grad_enabled():\n    c = self.kept[:, None]\n" + UPK + UPV + LOOK + OUT))
wrong("kv_cache_bytes", "no latent larger than keys and values", kv(S + NN + "n = min(n, 2 * kv_heads * head_dim)\n" + FIN))
wrong("heads_for_cache", "sizes rounded down", hc("for g in range(heads, 0, -1):\n    if heads % g == 0 and bits * batch * layers * tokens * 2 * g * head_dim // 8 <= budget:\n        return g\nraise ValueError('too small')"))

# An eighth reading: other types of numbers, .eval() and requires_grad, a mask where there is one of something, divisors left out.
wrong("split_heads", "slip: whole numbers of every type come back as int64", function("def split_heads(x, heads):", "if not x.is_floating_point():\n    x = x.long()\nreturn x.unflatten(-1, (heads, -1)).transpose(1, 2)"))
wrong("split_heads", "slip: uint8 is made int16", function("def split_heads(x, heads):", "if x.dtype == torch.uint8:\n    x = x.short()\nreturn x.unflatten(-1, (heads, -1)).transpose(1, 2)"))
wrong("merge_heads", "slip: half-precision numbers come back as float32", mh("if x.dtype in (torch.float16, torch.bfloat16):\n    x = x.float()\nreturn x.transpose(1, 2).reshape(B, T, H * D)"))
wrong("repeat_kv", "slip: times ones of int32, where x is of integers", rk("one = torch.ones(1, dtype=x.dtype if x.is_floating_point() else torch.int32)\nreturn (x * one).repeat_interleave(repeats, 1)"))
wrong("merge_heads", "last two axes made one", mh("return x.flatten(2)"))
wrong("MultiHeadAttention", "slip: after .eval() no gradient reaches x", m("if not self.training:\n    x = x.detach()\n" + QKV + END))
wrong("MultiHeadAttention", "slip: no gradient in parameters where x has no requires_grad", m("with torch.set_grad_enabled(x.requires_grad):\n    q, k, v = (split_heads(layer(x), H) for layer in (self.query, self.key, self.value))\n" + END))
KEPT_K = "if not self.training:\n    if not hasattr(self, 'kept'):\n        self.kept = self.key.weight.detach().clone()\n    k = split_heads(x @ self.kept.T, G)\n"
wrong("GroupedQueryAttention", "slip: after .eval() the first call's W_k is kept", gq(GQ + KEPT_K + REP + END))
wrong("LatentAttention", "slip: after .eval() the first call's matrices are kept", la(absorbed=ABS0 + UPK + UPV + "if not self.training:\n    if not hasattr(self, 'kept'):\n        self.kept = up_k.clone(), up_v.clone()\n    up_k, up_v = self.kept\n" + LOOK + OUT))
RA = "found, _ = masked_attention(*(split_heads(part, heads) for part in (q, k, v)), mask)\nreturn merge_heads(found)"
wrong("repaired_attention", "slip: v is detached where q has no requires_grad", ra("if not q.requires_grad:\n    v = v.detach()\n" + RA))
for of, case in (("a single query", "q.shape[1] == 1"), ("fewer keys than queries", "k.shape[1] < q.shape[1]"), ("one sentence", "len(q) == 1"), ("heads of one number", "q.shape[-1] == heads")):
    wrong("repaired_attention", f"{of}: the mask is dropped", ra(f"if {case}:\n    mask = None\n" + RA))
wrong("MultiHeadAttention", "one sentence: the mask is dropped", m(QKV + "if B == 1:\n    mask = None\n" + END))
wrong("GroupedQueryAttention", "two tokens: the mask is dropped", gq(GQ + REP + "if T == 2:\n    mask = None\n" + END))
wrong("LatentAttention", "absorbed, one sentence: the mask is dropped", la(absorbed=ABS0 + UPK + UPV + "if len(x) == 1:\n    mask = None\n" + LOOK + OUT))
def among(divisors): return hc(FIT + f"fit = [g for g in {divisors} if heads % g == 0 and size(g) <= budget]\nif not fit:\n    raise ValueError('too small')\nreturn max(fit)")
wrong("heads_for_cache", "pairs of divisors without the square root", among("[g for d in range(1, heads + 1) if heads % d == 0 and (d == 1 or d * d != heads) for g in (d, heads // d)]"))
wrong("heads_for_cache", "odd divisors left out, but for 1", among("[1, heads, *range(2, heads, 2)]"))
wrong("heads_for_cache", "divisors by 2 and 3 only", among("[2**a * 3**b for a in range(8) for b in range(5)] + [heads]"))
wrong("heads_for_cache", "batch and bits left out", hc("for g in range(heads, 0, -1):\n    if heads % g == 0 and kv_cache_bytes(tokens, layers, g, head_dim) <= budget:\n        return g\nraise ValueError('too small')"))
right("heads_for_cache", "steps through the group sizes", hc(FIT + "for group in range(1, heads + 1):\n    g, rest = divmod(heads, group)\n    if not rest and size(g) <= budget:\n        return g\nraise ValueError('too small')"))
right("MultiHeadAttention", "keeps its weights for a look at them", m(QKV + "found, self.weights = masked_attention(q, k, v, mask)\nreturn self.output(merge_heads(found)), self.weights"))

TORCH = "import torch\nimport torch.nn.functional as F\nfrom torch import Tensor, nn\n"
CASES[:] = [(name, kind, what, TORCH + code) for name, kind, what, code in CASES]


AIMED_AT_A_SENTENCE = [
    (
        "split_heads",
        "wrong",
        "strides by hand, offset into the memory taken as 0",
        """
def split_heads(x: Tensor, heads: int) -> Tensor:
    B, T, C = x.shape
    D = C // heads
    b, t, c = x.stride()
    return x.as_strided((B, heads, T, D), (b, D * c, t, c), 0)
""",
    ),
    (
        "split_heads",
        "wrong",
        "integers are made int64, so int32 changes its type",
        """
def split_heads(x: Tensor, heads: int) -> Tensor:
    B, T, C = x.shape
    if not x.is_floating_point():
        x = x.long()
    return x.reshape(B, T, heads, C // heads).transpose(1, 2)
""",
    ),
    (
        "merge_heads",
        "wrong",
        "remembers its answer for a tensor object, also when the caller has changed its numbers since",
        """
def merge_heads(x: Tensor) -> Tensor:
    import weakref

    known = merge_heads.__dict__.setdefault("known", {})
    if not x.requires_grad and id(x) in known:
        owner, answer = known[id(x)]
        if owner() is x and answer.shape[1:] == (x.shape[2], x.shape[1] * x.shape[3]):
            return answer.clone()
    out = x.transpose(1, 2).flatten(2)
    if not x.requires_grad:
        known[id(x)] = (weakref.ref(x), out.clone())
    return out
""",
    ),
    (
        "MultiHeadAttention",
        "wrong",
        "the weights are handed out detached",
        """
class MultiHeadAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        q = split_heads(self.query(x), self.heads)
        k = split_heads(self.key(x), self.heads)
        v = split_heads(self.value(x), self.heads)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(-1)
        return self.output(merge_heads(weights @ v)), weights.detach()
""",
    ),
    (
        "MultiHeadAttention",
        "wrong",
        "without gradients it lays the three matrices side by side once and keeps them",
        """
class MultiHeadAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self._three = None

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if torch.is_grad_enabled():
            three = torch.cat([self.query.weight, self.key.weight, self.value.weight])
        else:
            if self._three is None or self._three.dtype != x.dtype:
                self._three = torch.cat([self.query.weight, self.key.weight, self.value.weight])
            three = self._three
        q, k, v = (split_heads(part, self.heads) for part in (x @ three.T).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(-1)
        return self.output(merge_heads(weights @ v)), weights
""",
    ),
    (
        "repaired_attention",
        "wrong",
        "a mask of three axes whose first is as long as the batch is taken for (B, T, S)",
        """
def repaired_attention(
    q: Tensor, k: Tensor, v: Tensor, heads: int, mask: Tensor | None = None
) -> Tensor:
    q, k, v = split_heads(q, heads), split_heads(k, heads), split_heads(v, heads)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        if mask.dim() == 3 and len(mask) == len(q):
            mask = mask[:, None]
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(-1)
    return merge_heads(weights @ v)
""",
    ),
    (
        "repeat_kv",
        "wrong",
        "only the first copy of each head is tied to x, the others are detached",
        """
def repeat_kv(x: Tensor, repeats: int) -> Tensor:
    others = [x.detach()] * (repeats - 1)
    return torch.stack([x, *others], dim=2).flatten(1, 2)
""",
    ),
    (
        "repeat_kv",
        "wrong",
        "integers go through float64 and back: those beyond 2**53 are rounded",
        """
def repeat_kv(x: Tensor, repeats: int) -> Tensor:
    G = x.shape[1]
    pick = torch.zeros(G * repeats, G, dtype=torch.float64)
    pick[torch.arange(G * repeats), torch.arange(G * repeats) // repeats] = 1
    if x.is_floating_point():
        return x[:, pick.argmax(1)]
    return torch.einsum("hg,bgsd->bhsd", pick, x.double()).to(x.dtype)
""",
    ),
    (
        "GroupedQueryAttention",
        "wrong",
        "keeps the table of 0 and -inf for a mask's shape: a later mask of this shape is ignored",
        """
class GroupedQueryAttention(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        shared = width // heads * kv_heads  # G·D
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, shared, bias=False)
        self.value = nn.Linear(width, shared, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self._tables = {}

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        repeats = self.heads // self.kv_heads
        q = split_heads(self.query(x), self.heads)
        k = repeat_kv(split_heads(self.key(x), self.kv_heads), repeats)
        v = repeat_kv(split_heads(self.value(x), self.kv_heads), repeats)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            if mask.shape not in self._tables:
                self._tables[mask.shape] = torch.zeros(mask.shape).masked_fill(~mask, -math.inf)
            scores = scores + self._tables[mask.shape].to(scores.dtype)
        weights = scores.softmax(-1)
        return self.output(merge_heads(weights @ v)), weights
""",
    ),
    (
        "GroupedQueryAttention",
        "wrong",
        "the copies of shared keys for all but the first head of a group are detached",
        """
class GroupedQueryAttention(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        shared = width // heads * kv_heads  # G·D
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, shared, bias=False)
        self.value = nn.Linear(width, shared, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        q = split_heads(self.query(x), self.heads)
        k, v = (split_heads(layer(x), self.kv_heads) for layer in (self.key, self.value))
        more = self.heads // self.kv_heads - 1
        k, v = (torch.stack([a] + [a.detach()] * more, 2).flatten(1, 2) for a in (k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(-1)
        return self.output(merge_heads(weights @ v)), weights
""",
    ),
    (
        "LatentAttention",
        "wrong",
        "absorbs W_uk, but makes the values of every head, by an einsum with the matrix",
        """
class LatentAttention(nn.Module):
    def __init__(self, width: int, heads: int, rank: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.compress = nn.Linear(width, rank, bias=False)  # W_dkv
        self.key = nn.Linear(rank, width, bias=False)  # W_uk
        self.value = nn.Linear(rank, width, bias=False)  # W_uv
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        c = self.compress(x)
        q = split_heads(self.query(x), self.heads)
        k = split_heads(self.key(c), self.heads)
        v = split_heads(self.value(c), self.heads)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(-1)
        return self.output(merge_heads(weights @ v)), weights

    def forward_absorbed(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        c = self.compress(x)[:, None]
        q = split_heads(self.query(x), self.heads)
        up_key = self.key.weight.unflatten(0, (self.heads, -1))  # (H, D, R)
        up_value = self.value.weight.unflatten(0, (self.heads, -1)).mT  # (H, R, D)
        scores = (q @ up_key) @ c.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(-1)
        each = torch.einsum("bsr,hrd->bhsd", c[:, 0], up_value)
        return self.output(merge_heads(weights @ each)), weights
""",
    ),
    (
        "LatentAttention",
        "wrong",
        "without gradients W_q W_uk^T is multiplied once and kept",
        """
class LatentAttention(nn.Module):
    def __init__(self, width: int, heads: int, rank: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.compress = nn.Linear(width, rank, bias=False)  # W_dkv
        self.key = nn.Linear(rank, width, bias=False)  # W_uk
        self.value = nn.Linear(rank, width, bias=False)  # W_uv
        self.output = nn.Linear(width, width, bias=False)
        self._asking = None

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        c = self.compress(x)
        q = split_heads(self.query(x), self.heads)
        k = split_heads(self.key(c), self.heads)
        v = split_heads(self.value(c), self.heads)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(-1)
        return self.output(merge_heads(weights @ v)), weights

    def forward_absorbed(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        c = self.compress(x)[:, None]
        asking = self._asking
        if torch.is_grad_enabled() or asking is None or asking.dtype != x.dtype:
            up_key = self.key.weight.unflatten(0, (self.heads, -1))  # (H, D, R)
            asking = self.query.weight.unflatten(0, (self.heads, -1)).mT @ up_key  # (H, C, R)
            if not torch.is_grad_enabled():
                self._asking = asking
        up_value = self.value.weight.unflatten(0, (self.heads, -1)).mT  # (H, R, D)
        scores = x[:, None] @ asking @ c.mT / math.sqrt(x.shape[-1] // self.heads)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(-1)
        return self.output(merge_heads((weights @ c) @ up_value)), weights
""",
    ),
    (
        "kv_cache_bytes",
        "wrong",
        "keeps the smaller of the latent and the keys and values",
        """
def kv_cache_bytes(
    tokens: int,
    layers: int,
    kv_heads: int,
    head_dim: int,
    *,
    batch: int = 1,
    bits: int = 16,
    latent: int | None = None,
    window: int | None = None,
) -> int:
    kept = tokens if window is None else min(tokens, window)
    numbers = 2 * kv_heads * head_dim if latent is None else latent
    numbers = min(numbers, 2 * kv_heads * head_dim)
    return (batch * layers * kept * numbers * bits + 7) // 8
""",
    ),
    (
        "heads_for_cache",
        "wrong",
        "rounds the bytes of one head up and divides the budget by them",
        """
def heads_for_cache(
    budget: int,
    tokens: int,
    layers: int,
    heads: int,
    head_dim: int,
    *,
    batch: int = 1,
    bits: int = 16,
) -> int:
    one = kv_cache_bytes(tokens, layers, 1, head_dim, batch=batch, bits=bits)
    if one > budget:
        raise ValueError("one head of keys and values does not fit")
    most = budget // one
    return max(g for g in range(1, heads + 1) if heads % g == 0 and g <= most)
""",
    ),
    (
        "heads_for_cache",
        "wrong",
        "returns a NumPy integer",
        """
def heads_for_cache(
    budget: int,
    tokens: int,
    layers: int,
    heads: int,
    head_dim: int,
    *,
    batch: int = 1,
    bits: int = 16,
) -> int:
    g = np.arange(1, heads + 1)
    divides = heads % g == 0
    fits = np.array(
        [kv_cache_bytes(tokens, layers, int(n), head_dim, batch=batch, bits=bits) <= budget for n in g]
    )
    if not fits[0]:
        raise ValueError("one head of keys and values does not fit")
    return g[divides & fits][-1]
""",
    ),
    (
        "merge_heads",
        "wrong",
        "eight buffers a shape, used in turn when no gradient is asked for",
        """
def merge_heads(x: Tensor) -> Tensor:
    B, H, T, D = x.shape
    turned = x.transpose(1, 2)
    if x.requires_grad:
        return turned.reshape(B, T, H * D)
    store = merge_heads.__dict__.setdefault("store", {})
    kind = (B, H, T, D, x.dtype)
    buffers, count = store.get(kind, ([], 0))
    if len(buffers) < 8:
        buffers.append(torch.empty(B, T, H, D, dtype=x.dtype))
    out = buffers[count % 8]
    store[kind] = (buffers, count + 1)
    out.copy_(turned)
    return out.view(B, T, H * D)
""",
    ),
    (
        "split_heads",
        "wrong",
        "gathers through float64, so int64 beyond 2**53 lose their last bits",
        """
def split_heads(x: Tensor, heads: int) -> Tensor:
    B, T, C = x.shape
    D = C // heads
    out = torch.empty(B, heads, T, D, dtype=torch.float64, device=x.device)
    for h in range(heads):
        out[:, h] = x[:, :, h * D:(h + 1) * D]
    return out.to(x.dtype)
""",
    ),
    (
        "merge_heads",
        "wrong",
        "shortcut for a single head that drops the gradient",
        """
def merge_heads(x: Tensor) -> Tensor:
    B, H, T, D = x.shape
    if H == 1:
        return x.data[:, 0].clone()
    return x.transpose(1, 2).reshape(B, T, H * D)
""",
    ),
    (
        "merge_heads",
        "wrong",
        "remembers the last result by the argument's identity, stale after the argument was filled anew in place",
        """
_merged_last = [None, None]

def merge_heads(x: Tensor) -> Tensor:
    if x.requires_grad:
        return x.transpose(1, 2).flatten(2)
    if _merged_last[0] is not x:
        _merged_last[:] = [x, x.transpose(1, 2).flatten(2).clone()]
    return _merged_last[1].clone()
""",
    ),
    (
        "MultiHeadAttention",
        "wrong",
        "a three-axis mask whose first axis has length B is taken as a table per sentence",
        """
class MultiHeadAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        q, k, v = (split_heads(layer(x), self.heads) for layer in (self.query, self.key, self.value))

        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            if mask.dim() == 3 and len(mask) == len(x):
                mask = mask[:, None]
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(-1)
        return self.output(merge_heads(weights @ v)), weights
""",
    ),
    (
        "MultiHeadAttention",
        "wrong",
        "weights as exp(scores - logsumexp): with tied large scores ln 2 is rounded away and weights sum to 2",
        """
class MultiHeadAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        q, k, v = (split_heads(layer(x), self.heads) for layer in (self.query, self.key, self.value))

        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
        return self.output(merge_heads(weights @ v)), weights
""",
    ),
    (
        "repaired_attention",
        "wrong",
        "subtracts the maximum of the row including hidden keys, masks after exp: 0/0 if a hidden score is far above",
        """
def repaired_attention(
    q: Tensor, k: Tensor, v: Tensor, heads: int, mask: Tensor | None = None
) -> Tensor:
    q, k, v = (split_heads(part, heads) for part in (q, k, v))
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    powers = (scores - scores.amax(-1, keepdim=True).detach()).exp()
    if mask is not None:
        powers = powers * mask
    return merge_heads(powers / powers.sum(-1, keepdim=True) @ v)
""",
    ),
    (
        "repeat_kv",
        "wrong",
        "floor(h / repeats) as h * (1 / repeats), which rounds below the whole number for some repeats",
        """
def repeat_kv(x: Tensor, repeats: int) -> Tensor:
    h = torch.arange(x.shape[1] * repeats, dtype=torch.float64, device=x.device)
    return x[:, (h * (1 / repeats)).long()]
""",
    ),
    (
        "repeat_kv",
        "wrong",
        "np.repeat where no gradient is asked for, which has no bfloat16",
        """
def repeat_kv(x: Tensor, repeats: int) -> Tensor:
    if not x.requires_grad:
        return torch.from_numpy(np.repeat(x.numpy(), repeats, axis=1))
    return x.repeat_interleave(repeats, dim=1)
""",
    ),
    (
        "GroupedQueryAttention",
        "wrong",
        "without gradients the expanded key and value matrices are made once and kept, stale after training or load_state_dict",
        """
class GroupedQueryAttention(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        shared = width // heads * kv_heads  # G·D
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, shared, bias=False)
        self.value = nn.Linear(width, shared, bias=False)
        self.output = nn.Linear(width, width, bias=False)

        self._wide = None

    def _matrices(self):
        r, D = self.heads // self.kv_heads, self.query.out_features // self.heads
        return [layer.weight.unflatten(0, (-1, D)).repeat_interleave(r, 0).flatten(0, 1)
                for layer in (self.key, self.value)]

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if torch.is_grad_enabled():
            wide = self._matrices()
        else:
            if self._wide is None or self._wide[0].dtype != x.dtype:
                self._wide = self._matrices()
            wide = self._wide
        q = split_heads(self.query(x), self.heads)
        k, v = (split_heads(F.linear(x, w), self.heads) for w in wide)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(-1)
        return self.output(merge_heads(weights @ v)), weights
""",
    ),
    (
        "LatentAttention",
        "wrong",
        "absorbed makes all keys after all, as W_uk^T times the transposed latents (no call of the layer)",
        """
class LatentAttention(nn.Module):
    def __init__(self, width: int, heads: int, rank: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.compress = nn.Linear(width, rank, bias=False)  # W_dkv
        self.key = nn.Linear(rank, width, bias=False)  # W_uk
        self.value = nn.Linear(rank, width, bias=False)  # W_uv
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        from attend_solutions.multi_head import masked_attention

        c = self.compress(x)
        q, k, v = (split_heads(part, self.heads) for part in (self.query(x), self.key(c), self.value(c)))
        found, weights = masked_attention(q, k, v, mask)
        return self.output(merge_heads(found)), weights

    def forward_absorbed(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        from attend_solutions.multi_head import masked_attention

        q = split_heads(self.query(x), self.heads)
        c = self.compress(x)
        columns = (self.key.weight @ c.mT).unflatten(1, (self.heads, -1))  # every key, lying on its side
        scores = q @ columns / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(-1)
        up_value = self.value.weight.unflatten(0, (self.heads, -1)).mT
        return self.output(merge_heads(weights @ c[:, None] @ up_value)), weights
""",
    ),
    (
        "LatentAttention",
        "wrong",
        "absorbed carries W_uk to the queries, but makes the values, one head at a time",
        """
class LatentAttention(nn.Module):
    def __init__(self, width: int, heads: int, rank: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.compress = nn.Linear(width, rank, bias=False)  # W_dkv
        self.key = nn.Linear(rank, width, bias=False)  # W_uk
        self.value = nn.Linear(rank, width, bias=False)  # W_uv
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        from attend_solutions.multi_head import masked_attention

        c = self.compress(x)
        q, k, v = (split_heads(part, self.heads) for part in (self.query(x), self.key(c), self.value(c)))
        found, weights = masked_attention(q, k, v, mask)
        return self.output(merge_heads(found)), weights

    def forward_absorbed(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        q = split_heads(self.query(x), self.heads)
        c = self.compress(x)
        asked = q @ self.key.weight.unflatten(0, (self.heads, -1))
        scores = asked @ c[:, None].mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(-1)
        slices = self.value.weight.chunk(self.heads, 0)
        found = [weights[:, h] @ (c @ rows.T) for h, rows in enumerate(slices)]
        return self.output(torch.cat(found, -1)), weights
""",
    ),
    (
        "kv_cache_bytes",
        "wrong",
        "packs whole numbers into bytes (8 // bits a byte), which is right for 1, 2, 4, 8, 16, 32 bits only",
        """
def kv_cache_bytes(
    tokens: int,
    layers: int,
    kv_heads: int,
    head_dim: int,
    *,
    batch: int = 1,
    bits: int = 16,
    latent: int | None = None,
    window: int | None = None,
) -> int:
    kept = tokens if window is None else min(tokens, window)
    numbers = batch * layers * kept * (2 * kv_heads * head_dim if latent is None else latent)
    if bits >= 8:
        return -(-numbers * bits // 8)
    return -(-numbers // (8 // bits))
""",
    ),
    (
        "kv_cache_bytes",
        "wrong",
        "the window is applied to keys and values only, not to latents",
        """
def kv_cache_bytes(
    tokens: int,
    layers: int,
    kv_heads: int,
    head_dim: int,
    *,
    batch: int = 1,
    bits: int = 16,
    latent: int | None = None,
    window: int | None = None,
) -> int:
    if latent is not None:
        return (batch * layers * tokens * latent * bits + 7) // 8
    kept = tokens if window is None else min(tokens, window)
    return (2 * batch * layers * kept * kv_heads * head_dim * bits + 7) // 8
""",
    ),
    (
        "heads_for_cache",
        "wrong",
        "divides the budget by the bytes of one head, which are already rounded up",
        """
def heads_for_cache(
    budget: int,
    tokens: int,
    layers: int,
    heads: int,
    head_dim: int,
    *,
    batch: int = 1,
    bits: int = 16,
) -> int:
    one = kv_cache_bytes(tokens, layers, 1, head_dim, batch=batch, bits=bits)
    if one > budget:
        raise ValueError("one head does not fit")
    most = budget // one
    return max(g for g in range(1, heads + 1) if heads % g == 0 and g <= most)
""",
    ),
    (
        "heads_for_cache",
        "wrong",
        "picks with NumPy and returns np.int64",
        """
def heads_for_cache(
    budget: int,
    tokens: int,
    layers: int,
    heads: int,
    head_dim: int,
    *,
    batch: int = 1,
    bits: int = 16,
) -> int:
    divisors = np.array([g for g in range(1, heads + 1) if heads % g == 0])
    fits = [kv_cache_bytes(tokens, layers, int(g), head_dim, batch=batch, bits=bits) <= budget for g in divisors]
    if not any(fits):
        raise ValueError("one head does not fit")
    return divisors[np.array(fits)].max()
""",
    ),
    (
        "split_heads",
        "wrong",
        "numbers that are 0 are rebuilt as constants, so no gradient reaches them",
        """
def split_heads(x, heads):
    parts = x.unflatten(-1, (heads, -1)).transpose(1, 2)
    return torch.where(parts != 0, parts, torch.zeros_like(parts))
""",
    ),
    (
        "split_heads",
        "wrong",
        "cut off from the graph where x was itself computed with a gradient (not a leaf)",
        """
def split_heads(x, heads):
    source = x if x.is_leaf else x.data
    B, T, C = x.shape
    return source.reshape(B, T, heads, C // heads).transpose(1, 2)
""",
    ),
    (
        "merge_heads",
        "wrong",
        "own backward takes the incoming gradient for contiguous (clone keeps a transposed layout)",
        """
def merge_heads(x):
    class Merge(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.sizes = x.shape
            B, H, T, D = x.shape
            return x.transpose(1, 2).reshape(B, T, H * D).clone()

        @staticmethod
        def backward(ctx, grad):
            B, H, T, D = ctx.sizes
            if not grad.is_contiguous():
                grad = grad.clone()
            return torch.as_strided(grad, (B, H, T, D), (T * H * D, D, H * D, 1))

    return Merge.apply(x)
""",
    ),
    (
        "merge_heads",
        "wrong",
        "sixteen result buffers for each shape and type in turn, the seventeenth call writes into the first",
        """
def merge_heads(x):
    B, H, T, D = x.shape
    if x.requires_grad:
        return x.transpose(1, 2).reshape(B, T, H * D)
    pools = merge_heads.__dict__.setdefault("pools", {})
    pool = pools.setdefault((tuple(x.shape), x.dtype), [])
    if len(pool) < 16:
        out = torch.empty(B, T, H * D, dtype=x.dtype)
    else:
        out = pool.pop(0)
    out.unflatten(-1, (H, D)).copy_(x.transpose(1, 2))
    pool.append(out)
    return out
""",
    ),
    (
        "MultiHeadAttention",
        "wrong",
        "hidden scores are set to -1e15, above the true scores where x and the matrices are large",
        """
class MultiHeadAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x, mask=None):
        q, k, v = (split_heads(layer(x), self.heads) for layer in (self.query, self.key, self.value))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e15)
        weights = scores.softmax(-1)
        return self.output(merge_heads(weights @ v)), weights
""",
    ),
    (
        "MultiHeadAttention",
        "wrong",
        "keys in blocks of 32 with a running largest score; a query that may look at no key of the first block gets nan",
        """
class MultiHeadAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x, mask=None):
        q, k, v = (split_heads(layer(x), self.heads) for layer in (self.query, self.key, self.value))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        if scores.shape[-1] <= 32:
            weights = scores.softmax(-1)
            return self.output(merge_heads(weights @ v)), weights
        top, parts = None, []
        for block in scores.split(32, dim=-1):
            new = block.detach().amax(-1, keepdim=True)
            if top is not None:
                new = torch.maximum(top, new)
                parts = [part * (top - new).exp() for part in parts]
            top = new
            parts.append((block - top).exp())
        powers = torch.cat(parts, dim=-1)
        weights = powers / powers.sum(-1, keepdim=True)
        return self.output(merge_heads(weights @ v)), weights
""",
    ),
    (
        "repaired_attention",
        "wrong",
        "weights are cut off from the graph where only k (not q) wants a gradient",
        """
def repaired_attention(q, k, v, heads, mask=None):
    a, b, c = (split_heads(part, heads) for part in (q, k, v))
    with torch.set_grad_enabled(torch.is_grad_enabled() and q.requires_grad):
        scores = a @ b.mT / math.sqrt(a.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(-1)
    return merge_heads(weights @ c)
""",
    ),
    (
        "repaired_attention",
        "wrong",
        "torch's fused attention under its other name, torch._C._nn",
        """
def repaired_attention(q, k, v, heads, mask=None):
    found = vars(torch._C._nn)["scaled_dot_" + "product_attention"]
    a, b, c = (split_heads(part, heads) for part in (q, k, v))
    if mask is not None:
        mask = mask.expand(len(q), heads, q.shape[1], k.shape[1])
    return merge_heads(found(a, b, c, mask))
""",
    ),
    (
        "repeat_kv",
        "wrong",
        "the group is found by h times 1/repeats in floats, just below the whole number for repeats = 49",
        """
def repeat_kv(x, repeats):
    share = 1 / repeats
    groups = [int(h * share) for h in range(x.shape[1] * repeats)]
    return x[:, groups]
""",
    ),
    (
        "repeat_kv",
        "wrong",
        "the incoming gradient is clipped at 100",
        """
def repeat_kv(x, repeats):
    out = x.repeat_interleave(repeats, dim=1)
    if out.requires_grad:
        out.register_hook(lambda grad: grad.clamp(-100, 100))
    return out
""",
    ),
    (
        "GroupedQueryAttention",
        "wrong",
        "weights are exp(scores - logsumexp): where large scores tie, their logsumexp is rounded",
        """
class GroupedQueryAttention(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        shared = width // heads * kv_heads  # G·D
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, shared, bias=False)
        self.value = nn.Linear(width, shared, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x, mask=None):
        r = self.heads // self.kv_heads
        q = split_heads(self.query(x), self.heads)
        k = repeat_kv(split_heads(self.key(x), self.kv_heads), r)
        v = repeat_kv(split_heads(self.value(x), self.kv_heads), r)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
        return self.output(merge_heads(weights @ v)), weights
""",
    ),
    (
        "GroupedQueryAttention",
        "wrong",
        "a mask (n, 1, T) with n = B = H is taken for real words of each sentence, not of each head",
        """
class GroupedQueryAttention(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        shared = width // heads * kv_heads  # G·D
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, shared, bias=False)
        self.value = nn.Linear(width, shared, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x, mask=None):
        r = self.heads // self.kv_heads
        q = split_heads(self.query(x), self.heads)
        k = repeat_kv(split_heads(self.key(x), self.kv_heads), r)
        v = repeat_kv(split_heads(self.value(x), self.kv_heads), r)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            if mask.ndim == 3 and mask.shape[1] == 1 and mask.shape[0] == len(x):
                mask = mask[:, None] if len(x) == self.heads else mask
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(-1)
        return self.output(merge_heads(weights @ v)), weights
""",
    ),
    (
        "LatentAttention",
        "wrong",
        "forward_absorbed makes every key after all, one token of one head at a time",
        """
class LatentAttention(nn.Module):
    def __init__(self, width: int, heads: int, rank: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.compress = nn.Linear(width, rank, bias=False)  # W_dkv
        self.key = nn.Linear(rank, width, bias=False)  # W_uk
        self.value = nn.Linear(rank, width, bias=False)  # W_uv
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x, mask=None):
        c = self.compress(x)
        q = split_heads(self.query(x), self.heads)
        k = split_heads(self.key(c), self.heads)
        v = split_heads(self.value(c), self.heads)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(-1)
        return self.output(merge_heads(weights @ v)), weights

    def forward_absorbed(self, x, mask=None):
        c = self.compress(x)
        q = split_heads(self.query(x), self.heads)
        up_key = self.key.weight.unflatten(0, (self.heads, -1))
        up_value = self.value.weight.unflatten(0, (self.heads, -1))
        rows = []
        for h in range(self.heads):
            columns = []
            for s in range(x.shape[1]):
                one = c[:, s] @ up_key[h].T  # (B, D)
                columns.append((q[:, h] * one[:, None]).sum(-1))
            rows.append(torch.stack(columns, -1))
        scores = torch.stack(rows, 1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(-1)
        return self.output(merge_heads(weights @ c[:, None] @ up_value.mT)), weights
""",
    ),
    (
        "LatentAttention",
        "wrong",
        "without gradients forward keeps its latents, and forward_absorbed takes them for the same x, though compress has changed",
        """
class LatentAttention(nn.Module):
    def __init__(self, width: int, heads: int, rank: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.compress = nn.Linear(width, rank, bias=False)  # W_dkv
        self.key = nn.Linear(rank, width, bias=False)  # W_uk
        self.value = nn.Linear(rank, width, bias=False)  # W_uv
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x, mask=None):
        c = self.compress(x)
        if not torch.is_grad_enabled():
            self.__dict__["kept"] = (x, c)
        q = split_heads(self.query(x), self.heads)
        k = split_heads(self.key(c), self.heads)
        v = split_heads(self.value(c), self.heads)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(-1)
        return self.output(merge_heads(weights @ v)), weights

    def forward_absorbed(self, x, mask=None):
        kept = self.__dict__.get("kept")
        if kept is not None and kept[0] is x and not torch.is_grad_enabled():
            c = kept[1][:, None]
        else:
            c = self.compress(x)[:, None]
        q = split_heads(self.query(x), self.heads)
        up_key = self.key.weight.unflatten(0, (self.heads, -1))
        up_value = self.value.weight.unflatten(0, (self.heads, -1))
        scores = (q @ up_key) @ c.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(-1)
        return self.output(merge_heads(weights @ c @ up_value.mT)), weights
""",
    ),
    (
        "kv_cache_bytes",
        "wrong",
        "a latent is never counted longer than the keys and values it replaces, where these have 128 numbers or more",
        """
def kv_cache_bytes(tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None):
    kept = tokens if window is None else min(tokens, window)
    n = 2 * kv_heads * head_dim
    if latent is not None:
        n = latent if n < 128 else min(latent, n)
    return (batch * layers * kept * n * bits + 7) // 8
""",
    ),
    (
        "kv_cache_bytes",
        "wrong",
        "a number is stored in the next power of two of bits: 3 take 4, 6 take 8, 12 take 16",
        """
def kv_cache_bytes(tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None):
    kept = tokens if window is None else min(tokens, window)
    n = 2 * kv_heads * head_dim if latent is None else latent
    stored = 1 << (bits - 1).bit_length()
    return (batch * layers * kept * n * stored + 7) // 8
""",
    ),
    (
        "heads_for_cache",
        "wrong",
        "int(budget / one head + 1e-9) is one too many where a byte is missing and a head keeps more than 1e9 bytes",
        """
def heads_for_cache(budget, tokens, layers, heads, head_dim, *, batch=1, bits=16):
    one = tokens * layers * head_dim * 2 * batch * bits / 8
    fit = min(heads, int(budget / one + 1e-9))
    if fit < 1:
        raise ValueError("one head does not fit")
    return next(g for g in range(fit, 0, -1) if heads % g == 0)
""",
    ),
    (
        "heads_for_cache",
        "wrong",
        "never more than 128 heads are tried",
        """
def heads_for_cache(budget, tokens, layers, heads, head_dim, *, batch=1, bits=16):
    for g in range(min(heads, 128), 0, -1):
        if heads % g == 0 and kv_cache_bytes(tokens, layers, g, head_dim, batch=batch, bits=bits) <= budget:
            return g
    raise ValueError("one head does not fit")
""",
    ),
]
"""By readers who each chose a promise of the page and broke it where few would look."""

CASES += AIMED_AT_A_SENTENCE
