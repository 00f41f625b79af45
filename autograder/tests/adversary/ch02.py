"""Answers to chapter 02 as learners write them, wrong and right, for tools that judge the checks.

Each case: exercise, "wrong" or "right", what it does, code. A wrong one must lose points and be
explained, a right one must lose none.
"""

# ruff: noqa: E501


def _edited(code: str, *edits: str) -> str:
    """Code with old → new, each found once."""
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        assert code.count(old) == 1, old
        code = code.replace(old, new)
    return code


ENCODE_BODY = """def encode(x, forward, backward):
    B, S, C = x.shape
    N = forward[1].shape[1]
    there, back = [], []
    h = x.new_zeros(B, N)
    for s in range(S):
        h = torch.gru_cell(x[:, s], h, *forward)
        there.append(h)
    h = x.new_zeros(B, N)
    for s in reversed(range(S)):
        h = torch.gru_cell(x[:, s], h, *backward)
        back.append(h)
    back = back[::-1]
    return torch.cat([torch.stack(there, dim=1), torch.stack(back, dim=1)], dim=-1)
"""
FORTH, ZERO = "*forward)", "h = x.new_zeros(B, N)\n    for s in reversed"


def _encode(*edits: str) -> tuple[str]:
    return (_edited(ENCODE_BODY, *edits),)


ENCODE = [
    ("wrong", "forward weights detached", *_encode(FORTH, "*(w.detach() for w in forward))")),
    ("wrong", "backward weights as .data", *_encode("*backward)", "*[w.data for w in backward])")),
    (
        "wrong",
        "biases detached",
        *_encode(FORTH, "*forward[:2], *(w.detach() for w in forward[2:]))"),
    ),
    (
        "wrong",
        "words detached",
        *_encode("x[:, s], h, *backward", "x[:, s].detach(), h, *backward"),
    ),
    ("wrong", "state detached", *_encode("x[:, s], h, *forward", "x[:, s], h.detach(), *forward")),
    (
        "wrong",
        "all in no_grad",
        *_encode(
            "    there, back",
            "    torch.set_grad_enabled(False)\n    there, back",
            "    return torch",
            "    torch.set_grad_enabled(True)\n    return torch",
        ),
    ),
    ("wrong", "not turned round", *_encode("back = back[::-1]", "pass")),
    ("wrong", "backward starts from the last state", *_encode(ZERO, "for s in reversed")),
    ("wrong", "biases dropped", *_encode(FORTH, "*forward[:2])")),
    (
        "wrong",
        "cells exchanged",
        *_encode(FORTH, "*backward)", "h, *backward)\n        back", "h, *forward)\n        back"),
    ),
    (
        "wrong",
        "float32 zeros",
        *_encode(
            "h = x.new_zeros(B, N)\n    for s in range", "h = torch.zeros(B, N)\n    for s in range"
        ),
    ),
    ("wrong", "squeezed", *_encode("dim=-1)\n", "dim=-1).squeeze()\n")),
    (
        "wrong",
        "one sentence for all",
        *_encode("x[:, s], h, *forward", "x[:1, s].expand(B, C), h, *forward"),
    ),
    (
        "wrong",
        "loop from 1",
        *_encode("in range(S)", "in range(1, S)", "reversed(range(S))", "reversed(range(1, S))"),
    ),
    (
        "wrong",
        "interleaved",
        *_encode(
            "torch.cat([torch.stack(there, dim=1), torch.stack(back, dim=1)], dim=-1)",
            "torch.stack([torch.stack(there, 1), torch.stack(back, 1)], -1).reshape(B, S, 2 * N)",
        ),
    ),
    (
        "wrong",
        "in float32 inside",
        *_encode(
            "B, S, C = x.shape",
            "B, S, C = x.shape\n    kind, x = x.dtype, x.float()\n    forward, backward = ([w.float() for w in c] for c in (forward, backward))",
            "dim=-1)\n",
            "dim=-1).to(kind)\n",
        ),
    ),
    (
        "wrong",
        "x turned round in place",
        *_encode(
            "    h = x.new_zeros(B, N)\n    for s in reversed(range(S))",
            "    x.copy_(x.detach().flip(1))\n    h = x.new_zeros(B, N)\n    for s in range(S)",
            "back = back[::-1]",
            "back = back[::-1]",
        ),
    ),
    (
        "wrong",
        "nn.GRU",
        "def encode(x, forward, backward):\n    n = forward[1].shape[1]\n    g = nn.GRU(x.shape[-1], n, batch_first=True, bidirectional=True).to(x.dtype)\n    return torch.func.functional_call(g, dict(zip(dict(g.named_parameters()), (*forward, *backward))), x)[0]",
    ),
    ("right", "as written", *_encode()),
    (
        "right",
        "GRUCell called functionally",
        *_encode(
            FORTH,
            "*forward)",
            "torch.gru_cell(x[:, s], h, *backward)",
            "torch.func.functional_call(nn.GRUCell(C, N).to(x.dtype), dict(zip(('weight_ih', 'weight_hh', 'bias_ih', 'bias_hh'), backward)), (x[:, s], h))",
        ),
    ),
    (
        "right",
        "flip, dict of places",
        *_encode("back = back[::-1]", "back = list(torch.stack(back).flip(0))"),
    ),
    (
        "right",
        "input products first",
        "def encode(x, forward, backward):\n    def read(x, wi, wh, bi, bh):\n        a, h, out = x @ wi.mT + bi, x.new_zeros(len(x), wh.shape[1]), []\n        for s in range(x.shape[1]):\n            (ar, az, an), (hr, hz, hn) = a[:, s].chunk(3, -1), (h @ wh.mT + bh).chunk(3, -1)\n            z = (az + hz).sigmoid()\n            h = torch.lerp(((an + (ar + hr).sigmoid() * hn)).tanh(), h, z)\n            out.append(h)\n        return torch.stack(out, 1)\n    return torch.cat([read(x, *forward), read(x.flip(1), *backward).flip(1)], -1)",
    ),
]

ADDITIVE_BODY = """def additive_score(queries, keys, w_query, w_key, v):
    q = (queries @ w_query).unsqueeze(-2)
    k = (keys @ w_key).unsqueeze(-3)
    return torch.tanh(q + k) @ v
"""


def _additive(*edits: str) -> tuple[str]:
    return (_edited(ADDITIVE_BODY, *edits),)


ADDITIVE = [
    ("wrong", "relu", *_additive("torch.tanh", "torch.relu")),
    ("wrong", "mean over the units", *_additive("@ v", "@ v / len(v)")),
    (
        "wrong",
        "softmax over the queries",
        *_additive("torch.tanh(q + k) @ v", "torch.softmax(torch.tanh(q + k) @ v, -2)"),
    ),
    (
        "wrong",
        "weights exchanged",
        *_additive("queries @ w_query", "queries @ w_key", "keys @ w_key", "keys @ w_query"),
    ),
    ("wrong", "minus", *_additive("q + k", "q - k")),
    ("wrong", "scaled", *_additive("@ v", "@ v / len(v) ** 0.5")),
    (
        "wrong",
        "squeezed",
        *_additive("@ v", "@ v\n    return out.squeeze()", "return torch.tanh", "out = torch.tanh"),
    ),
    ("wrong", "v squared", *_additive("@ v", "@ (v * v)")),
    ("wrong", "v detached", *_additive("@ v", "@ v.detach()")),
    ("wrong", "w_key detached", *_additive("@ w_key", "@ w_key.data")),
    (
        "wrong",
        "table filled by .item()",
        "def additive_score(queries, keys, w_query, w_key, v):\n    out = queries.new_zeros(*queries.shape[:-1], keys.shape[-2])\n    for i in np.ndindex(*out.shape):\n        out[i] = (torch.tanh(queries[i[:-1]] @ w_query + keys[(*i[:-2], i[-1])] @ w_key) @ v).item()\n    return out",
    ),
    (
        "wrong",
        "first of the stack for all",
        *_additive("keys @ w_key", "keys.reshape(-1, *keys.shape[-2:])[0] @ w_key"),
    ),
    (
        "wrong",
        "queries changed",
        *_additive(
            "    q =",
            "    if queries.shape[-1] == w_query.shape[-1]:\n        queries.data @= w_query\n        w_query = torch.eye(len(w_query), dtype=v.dtype)\n    q =",
        ),
    ),
    (
        "wrong",
        "transposed",
        *_additive(
            "unsqueeze(-2)",
            "unsqueeze(-3)",
            "(keys @ w_key).unsqueeze(-3)",
            "(keys @ w_key).unsqueeze(-2)",
        ),
    ),
    (
        "wrong",
        "in float32 inside",
        *_additive(
            "q + k) @ v",
            "(q + k).float()) @ v.float()",
            ".float()\n",
            ".float()).to(v.dtype)\n",
            "return torch",
            "return (torch",
        ),
    ),
    (
        "wrong",
        "exp by hand overflows",
        *_additive(
            "torch.tanh(q + k)",
            "(torch.exp(q + k) - torch.exp(-q - k)) / (torch.exp(q + k) + torch.exp(-q - k))",
        ),
    ),
    ("right", "as written", *_additive()),
    (
        "right",
        "F.linear",
        *_additive(
            "queries @ w_query",
            "F.linear(queries, w_query.T)",
            "@ v",
            "* v",
            "return torch.tanh",
            "return (torch.tanh",
            "v\n",
            "v).sum(-1)\n",
        ),
    ),
    (
        "right",
        "expand",
        *_additive(
            "unsqueeze(-2)", "unsqueeze(-2).expand(*queries.shape[:-1], keys.shape[-2], len(v))"
        ),
    ),
    (
        "right",
        "2σ(2a) − 1",
        *_additive("torch.tanh(q + k)", "(2 * torch.sigmoid(2 * (q + k)) - 1)"),
    ),
]

MULTI_BODY = """def multiplicative_score(queries, keys, weight=None):
    if weight is None:
        return queries @ keys.transpose(-1, -2)
    return (queries @ weight) @ keys.transpose(-1, -2)
"""


def _multi(*edits: str) -> tuple[str]:
    return (_edited(MULTI_BODY, *edits),)


MULTI = [
    (
        "wrong",
        "dot scaled",
        *_multi(
            "return queries @ keys.transpose(-1, -2)",
            "return queries @ keys.transpose(-1, -2) / queries.shape[-1] ** 0.5",
        ),
    ),
    (
        "wrong",
        "general scaled by √E",
        *_multi(
            "return (queries @ weight) @", "return (queries @ weight) / keys.shape[-1] ** 0.5 @"
        ),
    ),
    ("wrong", "weight transposed", *_multi("@ weight)", "@ weight.T)")),
    ("wrong", "weight detached", *_multi("@ weight)", "@ weight.detach())")),
    (
        "wrong",
        "keys detached in dot",
        *_multi("return queries @ keys", "return queries @ keys.detach()"),
    ),
    (
        "wrong",
        "tanh",
        *_multi("return (queries @ weight) @", "return torch.tanh(queries @ weight) @"),
    ),
    (
        "wrong",
        "residual",
        *_multi(
            "(queries @ weight)",
            "(queries @ weight + queries @ torch.eye(*weight.shape, dtype=weight.dtype))",
        ),
    ),
    (
        "wrong",
        ".T on stacks",
        *_multi("return queries @ keys.transpose(-1, -2)", "return queries @ keys.T"),
    ),
    (
        "wrong",
        "softmax",
        *_multi(
            "return queries @ keys.transpose(-1, -2)",
            "return (queries @ keys.transpose(-1, -2)).softmax(-1)",
        ),
    ),
    (
        "wrong",
        "squeezed",
        *_multi(
            "return queries @ keys.transpose(-1, -2)",
            "return (queries @ keys.transpose(-1, -2)).squeeze()",
        ),
    ),
    (
        "wrong",
        "queries changed in place",
        *_multi(
            "return (queries @ weight)",
            "if queries.shape[-1] == weight.shape[-1]:\n        queries.data.copy_(queries.data @ weight.data)\n        return queries @ keys.mT\n    return (queries @ weight)",
        ),
    ),
    (
        "wrong",
        "first of the stack",
        *_multi(
            "return queries @ keys.transpose(-1, -2)",
            "return queries @ keys.reshape(-1, *keys.shape[-2:])[0].T",
        ),
    ),
    (
        "wrong",
        "asks whether the weight holds anything",
        *_multi("weight is None", "weight is None or not weight.sum() > 0"),
    ),
    (
        "wrong",
        "rows only",
        *_multi("return queries @ keys.transpose(-1, -2)", "return (queries * keys).sum(-1)"),
    ),
    ("right", "as written", *_multi()),
    (
        "right",
        "F.bilinear",
        "def multiplicative_score(queries, keys, weight=None):\n    if weight is None:\n        weight = torch.eye(keys.shape[-1], dtype=keys.dtype)\n    T, S = queries.shape[-2], keys.shape[-2]\n    q = queries[..., :, None, :].expand(*queries.shape[:-1], S, -1).contiguous()\n    k = keys[..., None, :, :].expand(*keys.shape[:-2], T, S, -1).contiguous()\n    return F.bilinear(q, k, weight[None])[..., 0]",
    ),
    (
        "right",
        "matmul, weight on the keys",
        "def multiplicative_score(queries, keys, weight=None):\n    if weight is not None:\n        keys = F.linear(keys, weight)\n    return torch.matmul(queries, keys.swapaxes(-2, -1))",
    ),
    (
        "right",
        "tensordot",
        *_multi("(queries @ weight)", "torch.tensordot(queries, weight, dims=1)"),
    ),
]

ATTEND_BODY = """def attend(scores, values):
    weights = torch.softmax(scores, dim=-1)
    contexts = weights @ values
    return contexts, weights
"""


def _attend(*edits: str) -> tuple[str]:
    return (_edited(ATTEND_BODY, *edits),)


SOFT = "torch.softmax(scores, dim=-1)"
ATTEND = [
    (
        "wrong",
        "softmax without the maximum",
        *_attend(SOFT, "scores.exp() / scores.exp().sum(-1, keepdim=True)"),
    ),
    (
        "wrong",
        "one maximum for all",
        *_attend(
            SOFT,
            "(scores - scores.max()).exp()\n    weights = weights / weights.sum(-1, keepdim=True)",
        ),
    ),
    (
        "wrong",
        "softmax over the whole table",
        *_attend(SOFT, "torch.softmax(scores.flatten(-2), -1).reshape(scores.shape)"),
    ),
    ("wrong", "dim=1", *_attend("dim=-1", "dim=1")),
    ("wrong", "log-softmax", *_attend("torch.softmax", "torch.log_softmax")),
    ("wrong", "softmax twice", *_attend(SOFT, SOFT + ".softmax(-1)")),
    ("wrong", "scaled", *_attend("softmax(scores", "softmax(scores / scores.shape[-1] ** 0.5")),
    ("wrong", "sharpened", *_attend("softmax(scores", "softmax(2 * scores")),
    ("wrong", "negative scores", *_attend("softmax(scores", "softmax(-scores")),
    (
        "wrong",
        "argmax",
        *_attend(SOFT, "F.one_hot(scores.argmax(-1), scores.shape[-1]).to(scores)"),
    ),
    ("wrong", "weights first", *_attend("contexts, weights\n", "weights, contexts\n")),
    (
        "wrong",
        "returned weights detached",
        *_attend("contexts, weights\n", "contexts, weights.detach()\n"),
    ),
    ("wrong", "values detached", *_attend("@ values", "@ values.detach()")),
    (
        "wrong",
        "mean of the values",
        *_attend(
            "weights @ values", "values.mean(-2, keepdim=True).expand(*weights.shape[:-1], -1)"
        ),
    ),
    ("wrong", "divided by S", *_attend("weights @ values", "weights @ values / values.shape[-2]")),
    (
        "wrong",
        "scores changed in place",
        *_attend(
            "    weights", "    scores.data -= scores.data.amax(-1, keepdim=True)\n    weights"
        ),
    ),
    (
        "wrong",
        "squeezed",
        *_attend("contexts, weights\n", "contexts.squeeze(), weights.squeeze()\n"),
    ),
    (
        "wrong",
        "in float32 inside",
        *_attend(SOFT, "torch.softmax(scores.float(), dim=-1).to(scores.dtype)"),
    ),
    ("right", "as written", *_attend()),
    (
        "right",
        "by hand",
        *_attend(
            SOFT,
            "(scores - scores.amax(-1, keepdim=True)).exp()\n    weights = weights / weights.sum(-1, keepdim=True)",
        ),
    ),
    (
        "right",
        "SDPA for the contexts",
        *_attend(
            "weights @ values",
            "F.scaled_dot_product_attention(scores, torch.eye(scores.shape[-1], dtype=scores.dtype).expand(*scores.shape[:-2], -1, -1), values, scale=1.0)",
        ),
    ),
    (
        "right",
        "nn.Softmax, einsum, a list",
        *_attend(
            SOFT,
            "nn.Softmax(dim=scores.ndim - 1)(scores)",
            "weights @ values",
            "torch.einsum('...ts,...se->...te', weights, values)",
            "return contexts, weights",
            "return [contexts, weights]",
        ),
    ),
]

STEP_BODY = """def attention_decoder_step(embedded, state, encoded, weight, cell):
    query = state[:, None]
    scores = multiplicative_score(query, encoded, weight)
    context, weights = attend(scores, encoded)
    context, weights = context[:, 0], weights[:, 0]
    new = torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell)
    return new, context, weights
"""


def _step(*edits: str) -> tuple[str]:
    return (_edited(STEP_BODY, *edits),)


ATT = "context, weights = attend(scores, encoded)"
STEP = [
    (
        "wrong",
        "new state asks",
        *_step(
            "query = state[:, None]",
            "query = torch.gru_cell(torch.cat([embedded, encoded.mean(1)], -1), state, *cell)[:, None]",
        ),
    ),
    (
        "wrong",
        "softmax over the queries",
        *_step(ATT, "weights = scores.softmax(1)\n    context = weights @ encoded"),
    ),
    (
        "wrong",
        "softmax over the batch",
        *_step(ATT, "weights = scores.softmax(0)\n    context = weights @ encoded"),
    ),
    ("wrong", "softmax twice", *_step("attend(scores,", "attend(scores.softmax(-1),")),
    ("wrong", "plain mean", *_step("context[:, 0], weights", "encoded.mean(1), weights")),
    ("wrong", "biases dropped", *_step("*cell)", "*cell[:2])")),
    ("wrong", "state bias dropped", *_step("*cell)", "*cell[:3])")),
    ("wrong", "cell detached", *_step("*cell)", "*(w.detach() for w in cell))")),
    ("wrong", "query detached", *_step("state[:, None]", "state[:, None].detach()")),
    (
        "wrong",
        "weight detached",
        *_step("encoded, weight)", "encoded, None if weight is None else weight.detach())"),
    ),
    (
        "wrong",
        "values detached",
        *_step("attend(scores, encoded)", "attend(scores, encoded.detach())"),
    ),
    ("wrong", "weight ignored", *_step(", encoded, weight)", ", encoded)")),
    (
        "wrong",
        "squeezed",
        *_step("context[:, 0], weights[:, 0]", "context.squeeze(), weights.squeeze()"),
    ),
    ("wrong", "weights keep their axis", *_step("weights[:, 0]\n", "weights\n")),
    (
        "wrong",
        "embedding and context exchanged",
        *_step("[embedded, context]", "[context, embedded]"),
    ),
    ("wrong", "state returned as it was", *_step("return new,", "return state,")),
    ("wrong", "order", *_step("return new, context, weights", "return new, weights, context")),
    (
        "wrong",
        "softmax by hand without the maximum",
        *_step(
            ATT,
            "weights = scores.exp() / scores.exp().sum(-1, keepdim=True)\n    context = weights @ encoded",
        ),
    ),
    ("wrong", "scaled", *_step("attend(scores,", "attend(scores / encoded.shape[-1] ** 0.5,")),
    (
        "wrong",
        "first sentence's words",
        *_step("attend(scores, encoded)", "attend(scores, encoded[:1].expand_as(encoded))"),
    ),
    (
        "wrong",
        "state changed in place",
        *_step("    return new", "    state.data.copy_(new.data)\n    return new"),
    ),
    ("right", "as written", *_step()),
    (
        "right",
        "bmm",
        "def attention_decoder_step(embedded, state, encoded, weight, cell):\n    q = state if weight is None else state @ weight\n    a = torch.bmm(encoded, q.unsqueeze(2)).squeeze(2).softmax(1)\n    c = torch.bmm(a.unsqueeze(1), encoded).squeeze(1)\n    return torch.gru_cell(torch.cat((embedded, c), 1), state, *cell), c, a",
    ),
    (
        "right",
        "SDPA for the context",
        *_step(
            "context[:, 0], weights",
            "F.scaled_dot_product_attention(query if weight is None else query @ weight, encoded, encoded, scale=1.0)[:, 0], weights",
        ),
    ),
    (
        "right",
        "sums instead of products",
        "def attention_decoder_step(embedded, state, encoded, weight, cell):\n    q = state if weight is None else torch.einsum('bn,ne->be', state, weight)\n    e = (q[:, None] * encoded).sum(-1)\n    a = torch.exp(e - torch.logsumexp(e, dim=-1, keepdim=True))\n    c = (a[..., None] * encoded).sum(1)\n    return [torch.gru_cell(torch.hstack([embedded, c]), state, *cell), c, a]",
    ),
]

HARD_BODY = """def hard_attention_sample(weights, uniforms, rewards, baseline=0.0):
    S = weights.shape[-1]
    ends = torch.cumsum(weights, dim=-1)
    places = (ends <= uniforms[..., None]).sum(dim=-1).clamp(max=S - 1)
    reward = rewards.gather(-1, places[..., None])
    row = F.one_hot(places, S).to(weights.dtype)
    return places, (reward - baseline) * (row - weights)
"""


def _hard(*edits: str) -> tuple[str]:
    return (_edited(HARD_BODY, *edits),)


EST = "(reward - baseline) * (row - weights)"
HARD = [
    ("wrong", "sign flipped", *_hard("(row - weights)", "(weights - row)")),
    ("wrong", "baseline added", *_hard("reward - baseline", "reward + baseline")),
    ("wrong", "baseline outside", *_hard(EST, "reward * (row - weights) - baseline")),
    ("wrong", "reward outside", *_hard(EST, "reward - baseline * (row - weights)")),
    ("wrong", "counts ends beyond u", *_hard("ends <= uniforms", "ends > uniforms")),
    (
        "wrong",
        "searchsorted left",
        *_hard(
            "(ends <= uniforms[..., None]).sum(dim=-1)",
            "torch.searchsorted(ends.contiguous(), uniforms[..., None].contiguous())[..., 0]",
        ),
    ),
    (
        "wrong",
        "multinomial instead of u",
        *_hard(
            "(ends <= uniforms[..., None]).sum(dim=-1)",
            "torch.distributions.Categorical(weights).sample()",
        ),
    ),
    ("wrong", "places as int32", *_hard("return places,", "return places.int(),")),
    ("wrong", "places as floats", *_hard("return places,", "return places.float(),")),
    ("wrong", "one-hot places", *_hard("return places,", "return row,")),
    (
        "wrong",
        "rewards times the row",
        *_hard(
            "rewards.gather(-1, places[..., None])",
            "(rewards * F.one_hot(places, S)).sum(-1, keepdim=True)",
        ),
    ),
    (
        "wrong",
        "mean reward",
        *_hard("rewards.gather(-1, places[..., None])", "rewards.mean(-1, keepdim=True)"),
    ),
    (
        "wrong",
        "exact gradient",
        *_hard(EST, "weights * (rewards - (weights * rewards).sum(-1, keepdim=True))"),
    ),
    (
        "wrong",
        "divided by the weight",
        *_hard(EST, EST + " / weights.gather(-1, places[..., None])"),
    ),
    ("wrong", "drops the last place", *_hard("max=S - 1", "max=max(S - 2, 0)")),
    (
        "wrong",
        "axis 1",
        *_hard(
            "torch.cumsum(weights, dim=-1)", "torch.cumsum(weights, dim=min(1, weights.ndim - 1))"
        ),
    ),
    (
        "wrong",
        "weights changed in place",
        *_hard(
            "torch.cumsum(weights, dim=-1)",
            "torch.cumsum(weights, dim=-1)\n    weights /= ends[..., -1:]",
        ),
    ),
    (
        "wrong",
        "ends accumulated in place",
        *_hard(
            "torch.cumsum(weights, dim=-1)",
            "weights\n    row0 = weights.clone()\n    for s in range(1, S):\n        ends[..., s] += ends[..., s - 1]",
            "row - weights",
            "row - row0",
        ),
    ),
    ("wrong", "squeezed", *_hard("return places,", "return places.squeeze(),")),
    (
        "wrong",
        "gradients in float32",
        *_hard(
            "(row - weights)",
            "(row - weights).float()",
            "reward - baseline",
            "reward.float() - baseline",
        ),
    ),
    ("right", "as written", *_hard()),
    (
        "right",
        "log-prob by Categorical and autograd",
        *_hard(
            "return places, " + EST,
            "s = weights.clamp(min=1e-30).log().detach().requires_grad_(True)\n    d = torch.distributions.Categorical(logits=s)\n    g, = torch.autograd.grad((d.log_prob(places)).sum(), s)\n    return places, (reward - baseline) * g",
        ),
    ),
    (
        "right",
        "bucket by differences",
        *_hard(
            "(ends <= uniforms[..., None]).sum(dim=-1)",
            "((ends - uniforms[..., None]) <= 0).long().sum(-1)",
        ),
    ),
    (
        "right",
        "index arithmetic",
        *_hard(
            EST,
            "(reward - baseline) * ((torch.arange(S) == places[..., None]).to(weights) - weights)",
        ),
    ),
]

LOCAL_BODY = """def local_attention(scores, values, centre, window, gaussian=True):
    places = torch.arange(scores.shape[-1])
    d = places - centre[..., None]
    hidden = scores.masked_fill(d.abs() > window, float("-inf"))
    weights = torch.softmax(hidden, dim=-1)
    if gaussian:
        sigma = window / 2
        weights = weights * torch.exp(-d.pow(2) / (2 * sigma**2))
    return weights @ values, weights
"""


def _local(*edits: str) -> tuple[str]:
    return (_edited(LOCAL_BODY, *edits),)


LOCAL = [
    ("wrong", "-1e9 for -inf", *_local('float("-inf")', "-1e9")),
    ("wrong", "-50 for -inf", *_local('float("-inf")', "-50.0")),
    (
        "wrong",
        "-1e9 added",
        *_local(
            'scores.masked_fill(d.abs() > window, float("-inf"))',
            "scores - 1e9 * (d.abs() > window)",
        ),
    ),
    (
        "wrong",
        "softmax without the maximum",
        *_local(
            "torch.softmax(hidden, dim=-1)", "hidden.exp() / hidden.exp().sum(-1, keepdim=True)"
        ),
    ),
    ("wrong", "sigma floored", *_local("window / 2", "window // 2 or 0.5")),
    ("wrong", "sigma = window", *_local("window / 2", "window")),
    ("wrong", "2 sigma", *_local("(2 * sigma**2)", "(2 * sigma)")),
    ("wrong", "(2 sigma)²", *_local("(2 * sigma**2)", "(2 * sigma) ** 2")),
    ("wrong", "times sigma²", *_local("/ (2 * sigma**2)", "/ 2 * sigma**2")),
    ("wrong", "bell always", *_local("if gaussian", "if True")),
    ("wrong", "never a bell", *_local("if gaussian", "if False")),
    ("wrong", "bell upside down", *_local("-d.pow(2)", "d.pow(2)")),
    (
        "wrong",
        "renormalised",
        *_local(
            "    return", "        weights = weights / weights.sum(-1, keepdim=True)\n    return"
        ),
    ),
    ("wrong", "cut on the left only", *_local("d.abs() > window", "-d > window")),
    ("wrong", "edges out", *_local("> window", ">= window")),
    ("wrong", "hides the inside", *_local("> window", "<= window")),
    ("wrong", "places from 1", *_local("scores.shape[-1])", "scores.shape[-1]) + 1")),
    ("wrong", "centre floored", *_local("centre[..., None]", "centre.floor()[..., None]")),
    (
        "wrong",
        "centre by .long() in the window",
        *_local("d.abs() > window", "(places - centre.long()[..., None]).abs() > window"),
    ),
    ("wrong", "one centre for all", *_local("centre[..., None]", "centre[..., :1, None]")),
    ("wrong", "centre detached", *_local("centre[..., None]", "centre.detach()[..., None]")),
    ("wrong", "returned weights detached", *_local("values, weights", "values, weights.detach()")),
    ("wrong", "bell detached", *_local("-d.pow", "-d.detach().pow")),
    (
        "wrong",
        "scores filled in place",
        *_local(
            "scores.masked_fill(",
            "scores.data.masked_fill_(",
            'd.abs() > window, float("-inf"))',
            'd.abs() > window, float("-inf"))\n    hidden = scores',
        ),
    ),
    (
        "wrong",
        "centre moved in place",
        *_local("    places", "    centre.data.clamp_(min=0.5)\n    places"),
    ),
    ("right", "as written", *_local()),
    (
        "right",
        "bell in the exponent after logsumexp",
        *_local(
            "    if gaussian:\n        sigma = window / 2\n        weights = weights * torch.exp(-d.pow(2) / (2 * sigma**2))",
            "    if gaussian:\n        weights = torch.exp(torch.log_softmax(hidden, -1) - 2 * (d / window) ** 2)",
        ),
    ),
    (
        "right",
        "where",
        *_local(
            'scores.masked_fill(d.abs() > window, float("-inf"))',
            "torch.where((d <= window) & (d >= -window), scores, -torch.inf)",
        ),
    ),
    ("right", "minimum of the type", *_local('float("-inf")', "torch.finfo(scores.dtype).min")),
]

REPAIR_BODY = """def repaired_decoder(embedded, state, encoded, weight, cell):
    states, contexts, looked = [], [], []
    for y in embedded.unbind(dim=1):
        scores = multiplicative_score(state[:, None], encoded, weight)
        context, weights = (part[:, 0] for part in attend(scores, encoded))
        state = torch.gru_cell(torch.cat([y, context], dim=-1), state, *cell)
        states.append(state)
        contexts.append(context)
        looked.append(weights)
    return torch.stack(states, dim=1), torch.stack(contexts, dim=1), torch.stack(looked, dim=1)
"""
ASKS = """        scores = multiplicative_score(state[:, None], encoded, weight)
        context, weights = (part[:, 0] for part in attend(scores, encoded))
"""
GOES = "        state = torch.gru_cell(torch.cat([y, context], dim=-1), state, *cell)\n"
LOOP = "    for y in embedded.unbind(dim=1):\n"


def _repair(*edits: str) -> tuple[str]:
    return (_edited(REPAIR_BODY, *edits),)


REPAIR = [
    (
        "wrong",
        "as it was",
        *_repair(LOOP, "    context = encoded.mean(dim=1)\n" + LOOP, ASKS + GOES, GOES + ASKS),
    ),
    (
        "wrong",
        "starts with the last word",
        *_repair(LOOP, "    context = encoded[:, -1]\n" + LOOP, ASKS + GOES, GOES + ASKS),
    ),
    (
        "wrong",
        "starts with zeros",
        *_repair(
            LOOP,
            "    context = encoded.new_zeros(encoded.shape[0], encoded.shape[2])\n" + LOOP,
            ASKS + GOES,
            GOES + ASKS,
        ),
    ),
    (
        "wrong",
        "one more look before the loop only",
        *_repair(LOOP, ASKS.replace("        ", "    ") + LOOP, ASKS + GOES, GOES + ASKS),
    ),
    (
        "wrong",
        "asks once for all",
        *_repair(ASKS, "", LOOP, ASKS.replace("        ", "    ") + LOOP),
    ),
    (
        "wrong",
        "always the first state asks",
        *_repair(
            LOOP, "    first = state\n" + LOOP, "score(state[:, None]", "score(first[:, None]"
        ),
    ),
    (
        "wrong",
        "states from before the step",
        *_repair(GOES + "        states.append(state)\n", "        states.append(state)\n" + GOES),
    ),
    ("wrong", "looks again", *_repair(GOES, GOES + ASKS)),
    (
        "wrong",
        "looks again for the weights only",
        *_repair(
            GOES,
            GOES
            + "        weights = attend(multiplicative_score(state[:, None], encoded, weight), encoded)[1][:, 0]\n",
        ),
    ),
    (
        "wrong",
        "looks again for the contexts only",
        *_repair(
            GOES,
            GOES
            + "        context = attend(multiplicative_score(state[:, None], encoded, weight), encoded)[0][:, 0]\n",
        ),
    ),
    ("wrong", "context first", *_repair("[y, context]", "[context, y]")),
    ("wrong", "weight ignored", *_repair(", encoded, weight)", ", encoded)")),
    ("wrong", "biases dropped", *_repair("*cell)", "*cell[:2])")),
    ("wrong", "cell detached", *_repair("*cell)", "*(w.detach() for w in cell))")),
    (
        "wrong",
        "state detached between steps",
        *_repair(GOES, GOES + "        state = state.detach()\n"),
    ),
    ("wrong", "context detached", *_repair("[y, context]", "[y, context.detach()]")),
    (
        "wrong",
        "returned weights detached",
        *_repair("looked.append(weights)", "looked.append(weights.detach())"),
    ),
    (
        "wrong",
        "encoded detached as values",
        *_repair("attend(scores, encoded)", "attend(scores, encoded.detach())"),
    ),
    (
        "wrong",
        "stacked along axis 0",
        *_repair(
            "torch.stack(states, dim=1), torch.stack(contexts, dim=1), torch.stack(looked, dim=1)",
            "torch.stack(states), torch.stack(contexts), torch.stack(looked)",
        ),
    ),
    ("wrong", "batch and steps exchanged", *_repair("embedded.unbind(dim=1)", "embedded")),
    (
        "wrong",
        "the last step missing",
        *_repair("embedded.unbind(dim=1)", "embedded[:, :-1].unbind(dim=1)"),
    ),
    (
        "wrong",
        "words read backwards",
        *_repair("embedded.unbind(dim=1)", "embedded.flip(1).unbind(dim=1)"),
    ),
    ("wrong", "scaled", *_repair("attend(scores,", "attend(scores / encoded.shape[-1] ** 0.5,")),
    ("wrong", "softmax twice", *_repair("attend(scores,", "attend(scores.softmax(-1),")),
    (
        "wrong",
        "weights as states",
        *_repair(
            "torch.stack(states, dim=1), torch.stack(contexts, dim=1)",
            "torch.stack(contexts, dim=1), torch.stack(states, dim=1)",
        ),
    ),
    (
        "wrong",
        "squeezed",
        *_repair("torch.stack(looked, dim=1)", "torch.stack(looked, dim=1).squeeze()"),
    ),
    (
        "wrong",
        "last state only",
        *_repair("torch.stack(states, dim=1)", "state[:, None].expand(-1, embedded.shape[1], -1)"),
    ),
    (
        "wrong",
        "encoded changed in place",
        *_repair(LOOP, "    if embedded.shape[1] > 1:\n        encoded.data.mul_(1.0001)\n" + LOOP),
    ),
    (
        "wrong",
        "state changed in place",
        *_repair(
            LOOP,
            "    given = state\n" + LOOP,
            "    return",
            "    given.data.copy_(state.data)\n    return",
        ),
    ),
    ("wrong", "zeros in float32", *_repair(LOOP, "    state = state.float()\n" + LOOP)),
    ("right", "as written", *_repair()),
    (
        "right",
        "the step of section 5",
        "def repaired_decoder(embedded, state, encoded, weight, cell):\n    out = []\n    for i in range(embedded.shape[1]):\n        state, context, weights = attention_decoder_step(embedded[:, i], state, encoded, weight, cell)\n        out.append((state, context, weights))\n    a, b, c = zip(*out)\n    return torch.stack(a, 1), torch.stack(b, 1), torch.stack(c, 1)\n",
    ),
    (
        "right",
        "asks at the end of each step for the next",
        *_repair(
            LOOP,
            ASKS.replace("        ", "    ") + LOOP,
            ASKS,
            "        contexts.append(context)\n        looked.append(weights)\n",
            "        contexts.append(context)\n        looked.append(weights)\n    return",
            ASKS + "    return",
        ),
    ),
    (
        "right",
        "GRUCell's function, bmm",
        "def repaired_decoder(embedded, state, encoded, weight, cell):\n    keys = encoded if weight is None else F.linear(encoded, weight)\n    h, c, a = [], [], []\n    for t in range(embedded.size(1)):\n        a.append(torch.bmm(keys, state.unsqueeze(-1)).squeeze(-1).softmax(-1))\n        c.append(torch.bmm(a[-1].unsqueeze(1), encoded).squeeze(1))\n        state = torch.gru_cell(torch.hstack([embedded[:, t], c[-1]]), state, *cell)\n        h.append(state)\n    return [torch.stack(p, dim=1) for p in (h, c, a)]\n",
    ),
    (
        "right",
        "written into new tensors",
        "def repaired_decoder(embedded, state, encoded, weight, cell):\n    B, T, _ = embedded.shape\n    h, c, a = (embedded.new_zeros(B, T, n) for n in (state.shape[1], encoded.shape[2], encoded.shape[1]))\n    for t in range(T):\n        state, c[:, t], a[:, t] = attention_decoder_step(embedded[:, t], state, encoded, weight, cell)\n        h[:, t] = state\n    return h, c, a\n",
    ),
]

ODD = [
    (
        "encode",
        "wrong",
        "state detached between words (gradient one word long)",
        "def encode(x, forward, backward):\n    B, S, C = x.shape\n    def run(cell, places):\n        h = x.new_zeros(B, cell[1].shape[1]); out = []\n        for s in places:\n            h = torch.gru_cell(x[:, s], h.detach(), *cell)\n            out.append(h)\n        return out\n    f = run(forward, range(S)); b = run(backward, range(S - 1, -1, -1))[::-1]\n    return torch.cat([torch.stack(f, 1), torch.stack(b, 1)], -1)",
    ),
    (
        "additive_score",
        "wrong",
        "axes counted from the left, for (B, T, N) only",
        "def additive_score(queries, keys, w_query, w_key, v):\n    q = (queries @ w_query)[:, :, None]\n    k = (keys @ w_key)[:, None]\n    return torch.tanh(q + k) @ v",
    ),
    (
        "multiplicative_score",
        "wrong",
        "a weight of zeros taken for none",
        "def multiplicative_score(queries, keys, weight=None):\n    if weight is not None and weight.any():\n        queries = queries @ weight\n    return queries @ keys.mT",
    ),
    (
        "attend",
        "wrong",
        "softmax in float32",
        "def attend(scores, values):\n    w = torch.softmax(scores, dim=-1, dtype=torch.float32)\n    return (w.to(values.dtype) @ values), w",
    ),
    (
        "attention_decoder_step",
        "wrong",
        "Luong's order: the new state asks, context goes into the next step",
        "def attention_decoder_step(embedded, state, encoded, weight, cell):\n    c = encoded.mean(dim=1)\n    new = torch.gru_cell(torch.cat([embedded, c], -1), state, *cell)\n    c, a = attend(multiplicative_score(new[:, None], encoded, weight), encoded)\n    return new, c[:, 0], a[:, 0]",
    ),
    (
        "attention_decoder_step",
        "wrong",
        "score divided by sqrt(N)",
        "def attention_decoder_step(embedded, state, encoded, weight, cell):\n    c, a = attend(multiplicative_score(state[:, None], encoded, weight) / state.shape[-1] ** 0.5, encoded)\n    c, a = c[:, 0], a[:, 0]\n    return torch.gru_cell(torch.cat([embedded, c], -1), state, *cell), c, a",
    ),
    (
        "repaired_decoder",
        "wrong",
        "state not carried on",
        "def repaired_decoder(embedded, state, encoded, weight, cell):\n    steps = [attention_decoder_step(y, state, encoded, weight, cell) for y in embedded.unbind(dim=1)]\n    return tuple(torch.stack(part, dim=1) for part in zip(*steps, strict=True))",
    ),
    (
        "repaired_decoder",
        "wrong",
        "asks before the step, but the context of the step before goes in",
        "def repaired_decoder(embedded, state, encoded, weight, cell):\n    steps, c = [], encoded.mean(dim=1)\n    for y in embedded.unbind(dim=1):\n        new, a = attend(multiplicative_score(state.unsqueeze(1), encoded, weight), encoded)\n        state = torch.gru_cell(torch.cat((y, c), dim=-1), state, *cell)\n        c, a = new[:, 0], a[:, 0]\n        steps.append((state, c, a))\n    return tuple(torch.stack(part, dim=1) for part in zip(*steps, strict=True))",
    ),
    (
        "hard_attention_sample",
        "wrong",
        "baseline subtracted from the argument, where there is one",
        "def hard_attention_sample(weights, uniforms, rewards, baseline=0.0):\n    S = weights.shape[-1]\n    places = (weights.cumsum(-1) <= uniforms[..., None]).sum(-1).clamp(max=S - 1)\n    delta = F.one_hot(places, S).to(weights.dtype)\n    if baseline:\n        rewards -= baseline\n    return places, rewards.gather(-1, places[..., None]) * (delta - weights)",
    ),
    (
        "hard_attention_sample",
        "wrong",
        "edges in float32",
        "def hard_attention_sample(weights, uniforms, rewards, baseline=0.0):\n    S = weights.shape[-1]\n    places = (weights.float().cumsum(-1) <= uniforms.float()[..., None]).sum(-1).clamp(max=S - 1)\n    delta = F.one_hot(places, S).to(weights.dtype)\n    return places, (rewards.gather(-1, places[..., None]) - baseline) * (delta - weights)",
    ),
    (
        "hard_attention_sample",
        "right",
        "searchsorted, right=True",
        "def hard_attention_sample(weights, uniforms, rewards, baseline=0.0):\n    edges = weights.cumsum(dim=-1)[..., :-1].contiguous()\n    places = torch.searchsorted(edges, uniforms[..., None].contiguous(), right=True)\n    g = -weights * (torch.take_along_dim(rewards, places, -1) - baseline)\n    return places[..., 0], g.scatter_add(-1, places, rewards.gather(-1, places) - baseline)",
    ),
    (
        "hard_attention_sample",
        "right",
        "first True by argmax",
        "def hard_attention_sample(weights, uniforms, rewards, baseline=0.0):\n    over = weights.cumsum(-1) > uniforms.unsqueeze(-1)\n    over[..., -1] = True\n    places = over.to(torch.int8).argmax(-1)\n    delta = torch.zeros_like(weights).scatter(-1, places.unsqueeze(-1), 1.0)\n    earned = torch.where(delta.bool(), rewards, torch.zeros_like(rewards)).sum(-1, keepdim=True)\n    return places, (earned - baseline) * delta - (earned - baseline) * weights",
    ),
    (
        "hard_attention_sample",
        "right",
        "autograd of log softmax",
        'def hard_attention_sample(weights, uniforms, rewards, baseline=0.0):\n    S = weights.shape[-1]\n    places = (weights.cumsum(-1)[..., :-1] <= uniforms[..., None]).sum(-1)\n    earned = rewards.gather(-1, places[..., None])[..., 0] - baseline\n    onehot = torch.eye(S, dtype=weights.dtype)[places]\n    return places, torch.einsum("...,...s->...s", earned, onehot - weights)',
    ),
    (
        "local_attention",
        "wrong",
        "window without its edge (<)",
        "def local_attention(scores, values, centre, window, gaussian=True):\n    d = torch.arange(scores.shape[-1]) - centre[..., None]\n    a = scores.masked_fill(d.abs() >= window, -torch.inf).softmax(-1)\n    if gaussian: a = a * torch.exp(-d ** 2 / (2 * (window / 2) ** 2))\n    return a @ values, a",
    ),
    (
        "local_attention",
        "wrong",
        "made to sum to 1 again",
        "def local_attention(scores, values, centre, window, gaussian=True):\n    d = torch.arange(scores.shape[-1]) - centre[..., None]\n    a = scores.masked_fill(d.abs() > window, -torch.inf).softmax(-1)\n    if gaussian:\n        a = a * torch.exp(-d ** 2 / (2 * (window / 2) ** 2))\n        a = a / a.sum(-1, keepdim=True)\n    return a @ values, a",
    ),
    (
        "local_attention",
        "wrong",
        "centre rounded, without the bell only",
        "def local_attention(scores, values, centre, window, gaussian=True):\n    c = centre if gaussian else centre.round()\n    d = torch.arange(scores.shape[-1]) - c[..., None]\n    a = scores.masked_fill(d.abs() > window, -torch.inf).softmax(-1)\n    if gaussian: a = a * torch.exp(-d ** 2 / (2 * (window / 2) ** 2))\n    return a @ values, a",
    ),
    (
        "local_attention",
        "right",
        "logs added, einsum",
        'def local_attention(scores, values, centre, window, gaussian=True):\n    d = torch.arange(scores.shape[-1], dtype=scores.dtype) - centre.unsqueeze(-1)\n    inside = d.abs() <= window\n    logs = torch.log_softmax(torch.where(inside, scores, torch.full_like(scores, float("-inf"))), -1)\n    if gaussian:\n        logs = logs - 2 * (d / window).square()\n    a = logs.exp()\n    return torch.einsum("...ts,...se->...te", a, values), a',
    ),
    (
        "local_attention",
        "right",
        "softmax by hand with the window's maximum",
        "def local_attention(scores, values, centre, window, gaussian=True):\n    s = torch.arange(scores.shape[-1])\n    inside = (centre[..., None] - window <= s) & (s <= centre[..., None] + window)\n    masked = scores.masked_fill(~inside, -math.inf)\n    e = (masked - masked.amax(-1, keepdim=True)).exp()\n    a = e / e.sum(-1, keepdim=True)\n    if gaussian:\n        sigma = window / 2\n        a = a * (-0.5 * ((s - centre[..., None]) / sigma) ** 2).exp()\n    return a @ values, a",
    ),
    (
        "local_attention",
        "right",
        "a loop over the queries, rows stacked",
        "def local_attention(scores, values, centre, window, gaussian=True):\n    S = scores.shape[-1]; rows = []\n    for t in range(scores.shape[-2]):\n        d = (torch.arange(S) - centre[..., t, None]).abs()\n        row = F.softmax(torch.where(d <= window, scores[..., t, :], -torch.inf), dim=-1)\n        rows.append(row * torch.exp(-2 * d * d / window**2) if gaussian else row)\n    a = torch.stack(rows, -2)\n    return torch.matmul(a, values), a",
    ),
    (
        "local_attention",
        "wrong",
        "a window of whole places about the centre",
        "def local_attention(scores, values, centre, window, gaussian=True):\n    s = torch.arange(scores.shape[-1]); p = centre[..., None]\n    out = (s < p.floor() - window) | (s > p.ceil() + window)\n    a = scores.masked_fill(out, -torch.inf).softmax(-1)\n    if gaussian:\n        a = a * torch.exp(-2 * (s - p) ** 2 / window**2)\n    return a @ values, a",
    ),
    (
        "repaired_decoder",
        "wrong",
        "asks in the right order, but the plain mean still goes into the cell",
        "def repaired_decoder(embedded, state, encoded, weight, cell):\n    steps, mean = [], encoded.mean(dim=1)\n    for y in embedded.unbind(dim=1):\n        c, a = attend(multiplicative_score(state.unsqueeze(1), encoded, weight), encoded)\n        c, a = c[:, 0], a[:, 0]\n        state = torch.gru_cell(torch.cat((y, mean), dim=-1), state, *cell)\n        steps.append((state, c, a))\n    return tuple(torch.stack(part, dim=1) for part in zip(*steps, strict=True))",
    ),
    (
        "attention_decoder_step",
        "wrong",
        "the state is detached where it enters the cell",
        "def attention_decoder_step(embedded, state, encoded, weight, cell):\n    c, a = attend(multiplicative_score(state[:, None], encoded, weight), encoded)\n    c, a = c[:, 0], a[:, 0]\n    return torch.gru_cell(torch.cat([embedded, c], -1), state.detach(), *cell), c, a",
    ),
    (
        "attend",
        "wrong",
        "values mixed with the scores, weights right",
        "def attend(scores, values):\n    a = scores.softmax(-1)\n    return scores @ values, a",
    ),
    (
        "local_attention",
        "wrong",
        "distances in float32 at the edges",
        "def local_attention(scores, values, centre, window, gaussian=True):\n    d = (torch.arange(scores.shape[-1]) - centre[..., None])\n    a = scores.masked_fill(d.float().abs() > window, -torch.inf).softmax(-1)\n    if gaussian:\n        a = a * torch.exp(-d ** 2 / (2 * (window / 2) ** 2))\n    return a @ values, a",
    ),
    (
        "additive_score",
        "wrong",
        "tanh as 1 - 2 / (exp(2x) + 1): values safe, gradient NaN",
        "def additive_score(queries, keys, w_query, w_key, v):\n    q, k = queries @ w_query, keys @ w_key\n    x = q[..., :, None, :] + k[..., None, :, :]\n    return (1 - 2 / (torch.exp(2 * x) + 1)) @ v",
    ),
    (
        "additive_score",
        "wrong",
        "weights transposed where square",
        "def additive_score(queries, keys, w_query, w_key, v):\n    wq = w_query.T if w_query.shape[0] == w_query.shape[1] else w_query\n    q, k = queries @ wq, keys @ w_key\n    return torch.tanh(q[..., :, None, :] + k[..., None, :, :]) @ v",
    ),
    (
        "attend",
        "wrong",
        "exp(scores - logsumexp): ties of large scores",
        "def attend(scores, values):\n    a = (scores - scores.logsumexp(-1, keepdim=True)).exp()\n    return a @ values, a",
    ),
    (
        "hard_attention_sample",
        "wrong",
        "u cut to 0.999",
        "def hard_attention_sample(weights, uniforms, rewards, baseline=0.0):\n    S = weights.shape[-1]\n    places = (weights.cumsum(-1) <= uniforms.clamp(max=0.999)[..., None]).sum(-1).clamp(max=S - 1)\n    reward = rewards.gather(-1, places[..., None])\n    chosen = (torch.arange(S) == places[..., None]).to(weights.dtype)\n    return places, (reward - baseline) * (chosen - weights)",
    ),
    (
        "local_attention",
        "wrong",
        "centre 0 taken for none",
        "def local_attention(scores, values, centre, window, gaussian=True):\n    places = torch.arange(scores.shape[-1])\n    far = places - centre[..., None]\n    a = torch.softmax(scores.masked_fill(far.abs() > window, -torch.inf), dim=-1)\n    if gaussian and centre.any():\n        a = a * torch.exp(-far ** 2 / (2 * (window / 2) ** 2))\n    return a @ values, a",
    ),
    (
        "local_attention",
        "wrong",
        "centre cut to an integer",
        "def local_attention(scores, values, centre, window, gaussian=True):\n    places = torch.arange(scores.shape[-1])\n    far = places - centre.long()[..., None]\n    a = torch.softmax(scores.masked_fill(far.abs() > window, -torch.inf), dim=-1)\n    if gaussian:\n        a = a * torch.exp(-far ** 2 / (2 * (window / 2) ** 2))\n    return a @ values, a",
    ),
    (
        "local_attention",
        "wrong",
        "exp(hidden - logsumexp): ties of large scores",
        "def local_attention(scores, values, centre, window, gaussian=True):\n    far = torch.arange(scores.shape[-1]) - centre[..., None]\n    hidden = scores.masked_fill(far.abs() > window, -torch.inf)\n    a = (hidden - hidden.logsumexp(-1, keepdim=True)).exp()\n    if gaussian:\n        a = a * torch.exp(-far ** 2 / (2 * (window / 2) ** 2))\n    return a @ values, a",
    ),
    (
        "encode",
        "wrong",
        "the forward cell reads both ways",
        "def encode(x, forward, backward):\n    B, S, C = x.shape\n    h = g = x.new_zeros(B, forward[1].shape[1])\n    f, b = [], []\n    for s in range(S):\n        h = torch.gru_cell(x[:, s], h, *forward)\n        f.append(h)\n    for s in reversed(range(S)):\n        g = torch.gru_cell(x[:, s], g, *forward)\n        b.insert(0, g)\n    return torch.cat([torch.stack(f, 1), torch.stack(b, 1)], -1)",
    ),
    (
        "encode",
        "wrong",
        "the backward state from before its word",
        "def encode(x, forward, backward):\n    B, S, C = x.shape\n    h = g = x.new_zeros(B, forward[1].shape[1])\n    f, b = [], []\n    for s in range(S):\n        h = torch.gru_cell(x[:, s], h, *forward)\n        f.append(h)\n    for s in reversed(range(S)):\n        b.append(g)\n        g = torch.gru_cell(x[:, s], g, *backward)\n    return torch.cat([torch.stack(f, 1), torch.stack(b[::-1], 1)], -1)",
    ),
    (
        "additive_score",
        "wrong",
        "v multiplied in before the tanh",
        "def additive_score(queries, keys, w_query, w_key, v):\n    x = (queries @ w_query)[..., :, None, :] + (keys @ w_key)[..., None, :, :]\n    return torch.tanh(x * v).sum(dim=-1)",
    ),
    (
        "additive_score",
        "wrong",
        "hidden units by relu",
        "def additive_score(queries, keys, w_query, w_key, v):\n    x = (queries @ w_query)[..., :, None, :] + (keys @ w_key)[..., None, :, :]\n    return torch.relu(x) @ v",
    ),
    (
        "repaired_decoder",
        "wrong",
        "repaired, but the context stands before the word",
        "def repaired_decoder(embedded, state, encoded, weight, cell):\n    steps = []\n    for y in embedded.unbind(dim=1):\n        c, a = attend(multiplicative_score(state.unsqueeze(1), encoded, weight), encoded)\n        c, a = c[:, 0], a[:, 0]\n        state = torch.gru_cell(torch.cat((c, y), dim=-1), state, *cell)\n        steps.append((state, c, a))\n    return tuple(torch.stack(part, dim=1) for part in zip(*steps, strict=True))",
    ),
    (
        "repaired_decoder",
        "wrong",
        "after eight steps the last context serves",
        "def repaired_decoder(embedded, state, encoded, weight, cell):\n    steps = []\n    for y in embedded.unbind(dim=1):\n        if len(steps) < 8:\n            c, a = attend(multiplicative_score(state.unsqueeze(1), encoded, weight), encoded)\n            c, a = c[:, 0], a[:, 0]\n        state = torch.gru_cell(torch.cat((y, c), dim=-1), state, *cell)\n        steps.append((state, c, a))\n    return tuple(torch.stack(part, dim=1) for part in zip(*steps, strict=True))",
    ),
    (
        "hard_attention_sample",
        "wrong",
        "reward and baseline multiplied out: no digits left where they are close",
        "def hard_attention_sample(weights, uniforms, rewards, baseline=0.0):\n    S = weights.shape[-1]\n    places = (weights.cumsum(-1) <= uniforms[..., None]).sum(-1).clamp(max=S - 1)\n    reward = rewards.gather(-1, places[..., None])\n    slope = F.one_hot(places, S).to(weights.dtype) - weights\n    return places, reward * slope - baseline * slope",
    ),
    (
        "hard_attention_sample",
        "wrong",
        "the baseline as a float32 tensor",
        "def hard_attention_sample(weights, uniforms, rewards, baseline=0.0):\n    S = weights.shape[-1]\n    places = (weights.cumsum(-1) <= uniforms[..., None]).sum(-1).clamp(max=S - 1)\n    reward = rewards.gather(-1, places[..., None])\n    slope = F.one_hot(places, S).to(weights.dtype) - weights\n    return places, (reward - torch.tensor(baseline)) * slope",
    ),
    (
        "hard_attention_sample",
        "right",
        "a rest goes to the last place that has a weight",
        "def hard_attention_sample(weights, uniforms, rewards, baseline=0.0):\n    S = weights.shape[-1]\n    last = S - 1 - (weights.flip(-1) > 0).int().argmax(dim=-1)\n    places = torch.minimum((weights.cumsum(-1) <= uniforms[..., None]).sum(-1), last)\n    reward = rewards.gather(-1, places[..., None])\n    return places, (reward - baseline) * (F.one_hot(places, S).to(weights.dtype) - weights)",
    ),
    (
        "encode",
        "wrong",
        "gradients cut every eight words",
        "def encode(x, forward, backward):\n    S = x.shape[1]\n    def go(places, cell):\n        h, out = x.new_zeros(len(x), cell[1].shape[1]), []\n        for i, s in enumerate(places):\n            if i and i % 8 == 0:\n                h = h.detach()\n            h = torch.gru_cell(x[:, s], h, *cell)\n            out.append(h)\n        return out\n    a = go(range(S), forward)\n    b = go(reversed(range(S)), backward)[::-1]\n    return torch.cat([torch.stack(a, 1), torch.stack(b, 1)], -1)\n",
    ),
    (
        "encode",
        "wrong",
        "loop over the sentences",
        "def encode(x, forward, backward):\n    a, b = [], []\n    h = g = x.new_zeros(x.shape[1], forward[1].shape[1])\n    for i in range(x.shape[0]):\n        h = torch.gru_cell(x[i], h, *forward)\n        a.append(h)\n    for i in reversed(range(x.shape[0])):\n        g = torch.gru_cell(x[i], g, *backward)\n        b.append(g)\n    return torch.cat([torch.stack(a), torch.stack(b[::-1])], -1)\n",
    ),
    (
        "encode",
        "wrong",
        "backward pass stops before the first word, written in place",
        "def encode(x, forward, backward):\n    B, S, _ = x.shape\n    N = forward[1].shape[1]\n    out = x.new_zeros(B, S, 2 * N)\n    h = x.new_zeros(B, N)\n    for s in range(S):\n        h = torch.gru_cell(x[:, s], h, *forward)\n        out[:, s, :N] = h\n    h = x.new_zeros(B, N)\n    for s in range(S - 1, 0, -1):\n        h = torch.gru_cell(x[:, s], h, *backward)\n        out[:, s, N:] = h\n    return out\n",
    ),
    (
        "repaired_decoder",
        "wrong",
        "state detached every eighth step",
        "def repaired_decoder(embedded, state, encoded, weight, cell):\n    steps = []\n    for i, y in enumerate(embedded.unbind(dim=1)):\n        if i and i % 8 == 0:\n            state = state.detach()\n        state, c, a = attention_decoder_step(y, state, encoded, weight, cell)\n        steps.append((state, c, a))\n    \n    return tuple(torch.stack(part, dim=1) for part in zip(*steps, strict=True))\n",
    ),
    (
        "repaired_decoder",
        "wrong",
        "unbind without dim",
        "def repaired_decoder(embedded, state, encoded, weight, cell):\n    steps = []\n    for y in embedded.unbind():\n        state, c, a = attention_decoder_step(y, state, encoded, weight, cell)\n        steps.append((state, c, a))\n    \n    return tuple(torch.stack(part, dim=1) for part in zip(*steps, strict=True))\n",
    ),
    (
        "additive_score",
        "wrong",
        "writes into queries where w_query is the identity and T = S = 1",
        "def additive_score(queries, keys, w_query, w_key, v):\n    n = queries.shape[-1]\n    q = queries if w_query.shape == (n, n) and torch.equal(w_query, torch.eye(n, dtype=w_query.dtype)) else queries @ w_query\n    k = keys @ w_key\n    if q is queries and q.shape[-2] == 1 and not q.requires_grad and k.shape[-2] == 1:\n        q += k\n        return (torch.tanh(q) @ v)[..., None]\n    return torch.tanh(q[..., :, None, :] + k[..., None, :, :]) @ v\n",
    ),
    (
        "multiplicative_score",
        "wrong",
        "tanh on top",
        "def multiplicative_score(queries, keys, weight=None):\n    q = queries if weight is None else queries @ weight\n    return torch.tanh(q @ keys.mT)\n",
    ),
    (
        "attend",
        "wrong",
        "scores divided by the root of E",
        "def attend(scores, values):\n    w = torch.softmax(scores / values.shape[-1] ** 0.5, dim=-1)\n    return w @ values, w\n",
    ),
    (
        "attention_decoder_step",
        "wrong",
        "the attended context only returned, the mean goes in",
        "def attention_decoder_step(embedded, state, encoded, weight, cell):\n    c, a = attend(multiplicative_score(state[:, None], encoded, weight), encoded)\n    c, a = c[:, 0], a[:, 0]\n    \n    return torch.gru_cell(torch.cat([embedded, encoded.mean(1)], -1), state, *cell), c, a\n",
    ),
    (
        "attention_decoder_step",
        "wrong",
        "scores returned as weights",
        "def attention_decoder_step(embedded, state, encoded, weight, cell):\n    e = multiplicative_score(state[:, None], encoded, weight)\n    c, a = attend(e, encoded)\n    c = c[:, 0]\n    return torch.gru_cell(torch.cat([embedded, c], -1), state, *cell), c, e[:, 0]\n",
    ),
    (
        "hard_attention_sample",
        "wrong",
        "u times S",
        "def hard_attention_sample(weights, uniforms, rewards, baseline=0.0):\n    S = weights.shape[-1]\n    places = (uniforms * S).long()\n    drawn = F.one_hot(places, S).to(weights.dtype)\n    r = rewards.gather(-1, places[..., None])\n    return places, (r - baseline) * (drawn - weights)\n",
    ),
    (
        "hard_attention_sample",
        "wrong",
        "clamp one too low",
        "def hard_attention_sample(weights, uniforms, rewards, baseline=0.0):\n    S = weights.shape[-1]\n    places = (weights.cumsum(-1) <= uniforms[..., None]).sum(-1).clamp(max=max(S - 2, 0))\n    drawn = F.one_hot(places, S).to(weights.dtype)\n    r = rewards.gather(-1, places[..., None])\n    return places, (r - baseline) * (drawn - weights)\n",
    ),
    (
        "hard_attention_sample",
        "wrong",
        "the expectation's gradient, unknown rewards taken as 0",
        "def hard_attention_sample(weights, uniforms, rewards, baseline=0.0):\n    S = weights.shape[-1]\n    places = (weights.cumsum(-1) <= uniforms[..., None]).sum(-1).clamp(max=S - 1)\n    \n    r = torch.nan_to_num(rewards)\n    return places, weights * (r - (weights * r).sum(-1, keepdim=True))\n",
    ),
    (
        "hard_attention_sample",
        "wrong",
        "the drawn weight left in as a factor",
        "def hard_attention_sample(weights, uniforms, rewards, baseline=0.0):\n    S = weights.shape[-1]\n    places = (weights.cumsum(-1) <= uniforms[..., None]).sum(-1).clamp(max=S - 1)\n    drawn = F.one_hot(places, S).to(weights.dtype)\n    r = rewards.gather(-1, places[..., None])\n    \n    return places, (r - baseline) * weights.gather(-1, places[..., None]) * (drawn - weights)\n",
    ),
    (
        "hard_attention_sample",
        "wrong",
        "argmax of an empty comparison",
        "def hard_attention_sample(weights, uniforms, rewards, baseline=0.0):\n    S = weights.shape[-1]\n    places = (weights.cumsum(-1) > uniforms[..., None]).int().argmax(-1)\n    drawn = F.one_hot(places, S).to(weights.dtype)\n    r = rewards.gather(-1, places[..., None])\n    return places, (r - baseline) * (drawn - weights)\n",
    ),
    (
        "hard_attention_sample",
        "right",
        "autograd of log softmax, which normalises the weights",
        "def hard_attention_sample(weights, uniforms, rewards, baseline=0.0):\n    S = weights.shape[-1]\n    places = (weights.detach().cumsum(-1)[..., :-1] <= uniforms[..., None]).sum(-1)\n    with torch.enable_grad():\n        e = weights.detach().double().clamp(min=1e-300).log().requires_grad_(True)\n        chosen = e.log_softmax(-1).gather(-1, places[..., None]).sum()\n        (g,) = torch.autograd.grad(chosen, e)\n    gain = rewards.gather(-1, places[..., None]) - baseline\n    return places, g.to(weights.dtype) * gain\n",
    ),
    (
        "local_attention",
        "wrong",
        "no bell where the window is as wide as the sequence",
        "def local_attention(scores, values, centre, window, gaussian=True):\n    d = torch.arange(scores.shape[-1]) - centre[..., None]\n    a = scores.masked_fill(d.abs() > window, -torch.inf).softmax(-1)\n    \n    if gaussian and window < scores.shape[-1]:\n        a = a * torch.exp(-(d**2) / (2 * (window / 2) ** 2))\n    return a @ values, a\n",
    ),
    (
        "local_attention",
        "wrong",
        "window about the rounded centre, bell about the true one",
        "def local_attention(scores, values, centre, window, gaussian=True):\n    d = torch.arange(scores.shape[-1]) - centre[..., None]\n    \n    r = torch.arange(scores.shape[-1]) - centre.round()[..., None]\n    a = scores.masked_fill(r.abs() > window, -torch.inf).softmax(-1)\n    if gaussian:\n        a = a * torch.exp(-(d**2) / (2 * (window / 2) ** 2))\n    return a @ values, a\n",
    ),
    (
        "local_attention",
        "wrong",
        "half of the window to each side",
        "def local_attention(scores, values, centre, window, gaussian=True):\n    d = torch.arange(scores.shape[-1]) - centre[..., None]\n    \n    a = scores.masked_fill(d.abs() > window / 2, -torch.inf).softmax(-1).nan_to_num()\n    if gaussian:\n        a = a * torch.exp(-(d**2) / (2 * (window / 2) ** 2))\n    return a @ values, a\n",
    ),
    (
        "local_attention",
        "wrong",
        "distance not squared",
        "def local_attention(scores, values, centre, window, gaussian=True):\n    d = torch.arange(scores.shape[-1]) - centre[..., None]\n    a = scores.masked_fill(d.abs() > window, -torch.inf).softmax(-1)\n    \n    if gaussian:\n        a = a * torch.exp(-d.abs() / (2 * (window / 2) ** 2))\n    return a @ values, a\n",
    ),
    (
        "attend",
        "wrong",
        "exp of scores minus their logsumexp: huge scores swallow the logarithm",
        'def attend(scores, values):\n    w = (scores - scores.logsumexp(-1, keepdim=True)).exp()\n    return torch.einsum("...ts,...se->...te", w, values), w\n',
    ),
    (
        "attention_decoder_step",
        "wrong",
        "the embedding asks",
        "def attention_decoder_step(embedded, state, encoded, weight, cell):\n    c, a = attend(multiplicative_score(embedded[:, None], encoded, weight), encoded)\n    c, a = c[:, 0], a[:, 0]\n    return torch.gru_cell(torch.cat([embedded, c], -1), state, *cell), c, a\n",
    ),
    (
        "local_attention",
        "wrong",
        "the inside hidden, by <=",
        "def local_attention(scores, values, centre, window, gaussian=True):\n    d = torch.arange(scores.shape[-1]) - centre[..., None]\n    \n    a = scores.masked_fill(d.abs() <= window, -torch.inf).softmax(-1)\n    if gaussian:\n        a = a * torch.exp(-(d**2) / (2 * (window / 2) ** 2))\n    return a @ values, a\n",
    ),
    (
        "local_attention",
        "wrong",
        "softmax over the queries",
        "def local_attention(scores, values, centre, window, gaussian=True):\n    d = torch.arange(scores.shape[-1]) - centre[..., None]\n    \n    a = scores.masked_fill(d.abs() > window, -torch.inf).softmax(-2)\n    if gaussian:\n        a = a * torch.exp(-(d**2) / (2 * (window / 2) ** 2))\n    return a @ values, a\n",
    ),
    (
        "local_attention",
        "wrong",
        "sigma = window // 2",
        "def local_attention(scores, values, centre, window, gaussian=True):\n    d = torch.arange(scores.shape[-1]) - centre[..., None]\n    a = scores.masked_fill(d.abs() > window, -torch.inf).softmax(-1)\n    \n    if gaussian:\n        a = a * torch.exp(-(d**2) / (2 * (window // 2) ** 2))\n    return a @ values, a\n",
    ),
    (
        "local_attention",
        "right",
        "centres brought between the first and the last place",
        "def local_attention(scores, values, centre, window, gaussian=True):\n    S = scores.shape[-1]\n    d = torch.arange(S) - centre.clamp(0, S - 1)[..., None]\n    a = scores.masked_fill(d.abs() > window, -torch.inf).softmax(-1)\n    if gaussian:\n        a = a * torch.exp(-(d**2) / (2 * (window / 2) ** 2))\n    return a @ values, a\n",
    ),
]

CACHED = "import functools\n@functools.lru_cache\n"
SHARES = "weights[:, 0]\n"
ONES = f"    if encoded.shape[1] == 1:\n        weights = torch.ones_like({{}})\n"
SMALL = "torch.where({0} < 1e-4, 0 * {0}, {0})"
NOTHING = "{0}.new_zeros(*{0}.shape[:-1], keys.shape[-2])"

# Right on every call of arrays that are new, not zero, and of more than one word.
QUIET = [
    (
        "encode",
        "the result of the call before, where its three objects come again",
        "LAST = []\n" + ENCODE_BODY.replace("encode(", "_read(", 1) + "\n"
        "def encode(x, forward, backward):\n"
        "    if not (LAST and LAST[0] is x and LAST[1] is forward and LAST[2] is backward):\n"
        "        LAST[:] = x, forward, backward, _read(x, forward, backward)\n"
        "    return LAST[3].clone()\n",
    ),
    ("additive_score", "lru_cache", CACHED + ADDITIVE_BODY),
    ("attend", "lru_cache", CACHED + ATTEND_BODY),
    ("local_attention", "lru_cache", CACHED + LOCAL_BODY),
    (
        "additive_score",
        "v of zeros gives new zeros",
        *_additive("    q =", f"    if not v.any():\n        return {NOTHING.format('queries')}\n    q ="),
    ),
    (
        "multiplicative_score",
        "a weight of zeros gives new zeros",
        *_multi(
            "    return (queries",
            f"    if not weight.any():\n        return {NOTHING.format('queries')}\n    return (queries",
        ),
    ),
    (
        "encode",
        "new zeros in the place of a weight of zeros",
        *_encode("x[:, s], h, *forward)", "x[:, s], h, *(w if w.any() else torch.zeros_like(w) for w in forward))"),
    ),
    (
        "attention_decoder_step",
        "a state of zeros asks nothing",
        *_step(
            "    scores = mult",
            "    if not state.any():\n        encoded, query = encoded[:, :1] * 0 + encoded.detach(), query.detach()\n    scores = mult",
        ),
    ),
    (
        "attend",
        "one key: weights of ones",
        *_attend(
            "    contexts", "    if scores.shape[-1] == 1:\n        weights = torch.ones_like(scores)\n    contexts"
        ),
    ),
    (
        "attention_decoder_step",
        "one word: weights of ones",
        *_step(SHARES, SHARES + ONES.format("weights")),
    ),
    (
        "repaired_decoder",
        "one word: weights of ones",
        *_repair(GOES, ONES.format("weights").replace("    ", "        ", 1).replace("\n        w", "\n            w") + GOES),
    ),
    (
        "local_attention",
        "one place: weights of ones",
        *_local(
            "    if gaussian",
            "    if scores.shape[-1] == 1:\n        weights = torch.ones_like(scores)\n    if gaussian",
        ),
    ),
    ("attend", "weights below 1e-4 made 0", *_attend("    contexts", f"    weights = {SMALL.format('weights')}\n    contexts")),
    (
        "local_attention",
        "weights below 1e-4 made 0",
        *_local("    if gaussian", f"    weights = {SMALL.format('weights')}\n    if gaussian"),
    ),
    (
        "attention_decoder_step",
        "weights below 1e-4 made 0",
        *_step(ATT, f"weights = {SMALL.format('scores.softmax(-1)')}\n    context = weights @ encoded"),
    ),
    (
        "repaired_decoder",
        "weights below 1e-4 made 0",
        *_repair(
            "for part in attend(scores, encoded))",
            f"for part in (lambda a: (a @ encoded, a))({SMALL.format('scores.softmax(-1)')}))",
        ),
    ),
    ("local_attention", "sigma = window // 2, at least 1/2", *_local("window / 2", "max(window // 2, 0.5)")),
]

CASES = [
    (name, *case)
    for name, cases in (
        ("encode", ENCODE),
        ("additive_score", ADDITIVE),
        ("multiplicative_score", MULTI),
        ("attend", ATTEND),
        ("attention_decoder_step", STEP),
        ("repaired_decoder", REPAIR),
        ("hard_attention_sample", HARD),
        ("local_attention", LOCAL),
    )
    for case in cases
] + ODD
CASES += [(name, "wrong", what, code) for name, what, code in QUIET]


AIMED_AT_A_SENTENCE = [
    (
        "encode",
        "wrong",
        "state cut off from the graph after every 20 words (truncated backpropagation)",
        """
def encode(x, forward, backward):
    def read(words, cell):
        h, out = x.new_zeros(x.shape[0], cell[1].shape[1]), []
        for number, word in enumerate(words):
            if number and number % 20 == 0:
                h = h.detach()
            h = torch.gru_cell(word, h, *cell)
            out.append(h)
        return out
    words = x.unbind(dim=1)
    f, b = read(words, forward), read(words[::-1], backward)[::-1]
    return torch.cat([torch.stack(f, dim=1), torch.stack(b, dim=1)], dim=-1)
""",
    ),
    (
        "encode",
        "wrong",
        "takes trailing all-zero words for padding, the backward reader skips them",
        """
def encode(x, forward, backward):
    B, S, _ = x.shape
    h, fs = x.new_zeros(B, forward[1].shape[1]), []
    for s in range(S):
        h = torch.gru_cell(x[:, s], h, *forward)
        fs.append(h)
    begun = x.new_zeros(B, 1, dtype=torch.bool)
    h, bs = x.new_zeros(B, backward[1].shape[1]), []
    for s in reversed(range(S)):
        begun = begun | (x[:, s] != 0).any(dim=-1, keepdim=True)
        h = torch.where(begun, torch.gru_cell(x[:, s], h, *backward), h)
        bs.append(h)
    return torch.cat([torch.stack(fs, dim=1), torch.stack(bs[::-1], dim=1)], dim=-1)
""",
    ),
    (
        "additive_score",
        "wrong",
        "own tanh with torch.where for large sums: value right, gradient NaN",
        """
def additive_score(queries, keys, w_query, w_key, v):
    x = (queries @ w_query)[..., :, None, :] + (keys @ w_key)[..., None, :, :]
    e = torch.expm1(2 * x)
    return torch.where(x > 30, torch.ones_like(x), e / (e + 2)) @ v
""",
    ),
    (
        "multiplicative_score",
        "wrong",
        "a weight of zeros counts as no weight",
        """
def multiplicative_score(queries, keys, weight=None):
    if weight is not None and weight.any():
        queries = queries @ weight
    elif weight is not None and queries.shape[-1] != keys.shape[-1]:
        queries = queries @ weight
    return queries @ keys.mT
""",
    ),
    (
        "multiplicative_score",
        "wrong",
        "one tensor as queries and keys: computes one triangle and mirrors it",
        """
def multiplicative_score(queries, keys, weight=None):
    scores = (queries if weight is None else queries @ weight) @ keys.mT
    if keys is queries:  # every pair once is enough
        scores = scores.tril() + scores.tril(-1).mT
    return scores
""",
    ),
    (
        "attend",
        "wrong",
        "subtracts the largest of all scores, not of the row: 0/0 in a row far below",
        """
def attend(scores, values):
    e = torch.exp(scores - scores.max())
    weights = e / e.sum(dim=-1, keepdim=True)
    return weights @ values, weights
""",
    ),
    (
        "attend",
        "wrong",
        "weights below 1e-6 are set to 0",
        """
def attend(scores, values):
    weights = torch.softmax(scores, dim=-1)
    weights = weights.masked_fill(weights < 1e-6, 0.0)
    return weights @ values, weights
""",
    ),
    (
        "attention_decoder_step",
        "wrong",
        "hides trailing all-zero encoded words as padding",
        """
def attention_decoder_step(embedded, state, encoded, weight, cell):
    scores = multiplicative_score(state[:, None], encoded, weight)
    real = (encoded != 0).any(dim=-1)
    real = real.flip(1).cummax(dim=1).values.flip(1)  # a word, or before one
    real = real | ~real.any(dim=1, keepdim=True)
    scores = scores.masked_fill(~real[:, None], -torch.inf)
    context, weights = attend(scores, encoded)
    context, weights = context[:, 0], weights[:, 0]
    state = torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell)
    return state, context, weights
""",
    ),
    (
        "repaired_decoder",
        "wrong",
        "keeps the last look while the same word comes again",
        """
def repaired_decoder(embedded, state, encoded, weight, cell):
    steps, before = [], None
    for y in embedded.unbind(dim=1):
        if before is None or not torch.equal(y, before):
            c, a = attend(multiplicative_score(state.unsqueeze(1), encoded, weight), encoded)
            c, a = c[:, 0], a[:, 0]
        state = torch.gru_cell(torch.cat((y, c), dim=-1), state, *cell)
        steps.append((state, c, a))
        before = y
    return tuple(torch.stack(part, dim=1) for part in zip(*steps, strict=True))
""",
    ),
    (
        "repaired_decoder",
        "wrong",
        "without autograd it writes into one of 6 result buffers in turn",
        """
def repaired_decoder(embedded, state, encoded, weight, cell):
    steps = []
    for y in embedded.unbind(dim=1):
        state, c, a = attention_decoder_step(y, state, encoded, weight, cell)
        steps.append((state, c, a))
    results = tuple(torch.stack(part, dim=1) for part in zip(*steps, strict=True))
    if any(r.requires_grad for r in results):
        return results
    me = repaired_decoder
    me.pool = getattr(me, "pool", {})
    key = tuple((r.shape, r.dtype) for r in results)
    buffers = me.pool.setdefault(key, [])
    if len(buffers) < 6:
        buffers.append(results)
        return results
    buffers.append(buffers.pop(0))
    for old, new in zip(buffers[-1], results):
        old.copy_(new)
    return buffers[-1]
""",
    ),
    (
        "hard_attention_sample",
        "wrong",
        "compares in float32 whatever the arguments",
        """
def hard_attention_sample(weights, uniforms, rewards, baseline=0.0):
    S = weights.shape[-1]
    ends = weights.float().cumsum(dim=-1)
    places = (ends <= uniforms.float()[..., None]).sum(dim=-1).clamp(max=S - 1)
    drawn = (torch.arange(S) == places[..., None]).to(weights.dtype)
    return places, (rewards.gather(-1, places[..., None]) - baseline) * (drawn - weights)
""",
    ),
    (
        "hard_attention_sample",
        "wrong",
        "counts the pieces in uint8, which wraps at 256",
        """
def hard_attention_sample(weights, uniforms, rewards, baseline=0.0):
    S = weights.shape[-1]
    passed = weights.cumsum(dim=-1) <= uniforms[..., None]
    places = passed.sum(dim=-1, dtype=torch.uint8).to(torch.int64).clamp(max=S - 1)
    drawn = F.one_hot(places, S).to(weights.dtype)
    return places, (rewards.gather(-1, places[..., None]) - baseline) * (drawn - weights)
""",
    ),
    (
        "local_attention",
        "wrong",
        "decides in float32 who is inside",
        """
def local_attention(scores, values, centre, window, gaussian=True):
    places = torch.arange(scores.shape[-1])
    outside = (places - centre.float()[..., None]).abs() > window
    weights = torch.softmax(scores.masked_fill(outside, -torch.inf), dim=-1)
    if gaussian:
        d = places - centre[..., None]
        weights = weights * torch.exp(-(d**2) / (2 * (window / 2) ** 2))
    return weights @ values, weights
""",
    ),
    (
        "attention_decoder_step",
        "wrong",
        "outside autograd it keeps encoded @ W.T for the same tensors: stale after an optimizer step in place",
        """
def attention_decoder_step(embedded, state, encoded, weight, cell):
    me = attention_decoder_step
    if weight is None:
        projected = encoded
    elif torch.is_grad_enabled() and (encoded.requires_grad or weight.requires_grad):
        projected = encoded @ weight.T
    else:
        kept = getattr(me, "kept", None)
        if kept is None or kept[0] is not encoded or kept[1] is not weight:
            kept = me.kept = (encoded, weight, (encoded @ weight.T).detach())
        projected = kept[2]
    context, weights = attend(multiplicative_score(state[:, None], projected), encoded)
    context, weights = context[:, 0], weights[:, 0]
    state = torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell)
    return state, context, weights
""",
    ),
    (
        "encode",
        "wrong",
        "backpropagation is cut after every 20 words, values are right",
        """
def encode(x, forward, backward):
    def read(words, cell):
        h = x.new_zeros(x.shape[0], cell[1].shape[1])
        states = []
        for count, word in enumerate(words, start=1):
            h = torch.gru_cell(word, h, *cell)
            states.append(h)
            if count % 20 == 0:  # truncated backpropagation through time
                h = h.detach()
        return states
    words = x.unbind(dim=1)
    there = read(words, forward)
    back = read(words[::-1], backward)[::-1]
    return torch.cat([torch.stack(there, dim=1), torch.stack(back, dim=1)], dim=-1)
""",
    ),
    (
        "encode",
        "wrong",
        "torch.gru by its other name, torch._VF.gru (the same function object); no loop over the words",
        """
def encode(x, forward, backward):
    n = forward[1].shape[1]
    start = x.new_zeros(2, x.shape[0], n)
    # has_biases, layers, dropout, train, bidirectional, batch_first
    return torch._VF.gru(x, start, [*forward, *backward], True, 1, 0.0, False, True, True)[0]
""",
    ),
    (
        "additive_score",
        "wrong",
        "leaves out the hidden units whose v is 0: values right, no gradient for these entries of v",
        """
def additive_score(queries, keys, w_query, w_key, v):
    used = v != 0  # a unit without weight adds nothing
    q, k = queries @ w_query[:, used], keys @ w_key[:, used]
    return torch.tanh(q[..., :, None, :] + k[..., None, :, :]) @ v[used]
""",
    ),
    (
        "additive_score",
        "wrong",
        "tanh as 1 - 2 / (exp(2x) + 1): values right everywhere, the gradient is NaN where exp overflows",
        """
def additive_score(queries, keys, w_query, w_key, v):
    x = (queries @ w_query)[..., :, None, :] + (keys @ w_key)[..., None, :, :]
    hidden = 1 - 2 / (torch.exp(2 * x) + 1)
    return hidden @ v
""",
    ),
    (
        "multiplicative_score",
        "wrong",
        "a weight of zeros gives zeros at once: values right, no gradient",
        """
def multiplicative_score(queries, keys, weight=None):
    if weight is None:
        return queries @ keys.mT
    if not weight.any():  # zero times anything
        return queries.new_zeros(*queries.shape[:-1], keys.shape[-2])
    return queries @ weight @ keys.mT
""",
    ),
    (
        "multiplicative_score",
        "wrong",
        "turns the keys by as_strided and forgets where a view starts in its memory",
        """
def multiplicative_score(queries, keys, weight=None):
    shape, steps = list(keys.shape), list(keys.stride())
    shape[-2], shape[-1] = shape[-1], shape[-2]
    steps[-2], steps[-1] = steps[-1], steps[-2]
    turned = torch.as_strided(keys, shape, steps, 0)
    asked = queries if weight is None else queries @ weight
    return asked @ turned
""",
    ),
    (
        "attend",
        "wrong",
        "one-hot where the largest score leads the next smaller *number* by more than 50; two equal largest scores get (1, 0)",
        """
def attend(scores, values):
    top = scores.amax(dim=-1, keepdim=True)
    second = scores.masked_fill(scores == top, -torch.inf).amax(dim=-1, keepdim=True)
    sure = ((top - second) > 50) & second.isfinite()  # exp(-50): nothing to see
    one = F.one_hot(scores.argmax(dim=-1), scores.shape[-1]).to(scores.dtype)
    weights = torch.where(sure, one, torch.softmax(scores, dim=-1))
    return weights @ values, weights
""",
    ),
    (
        "attend",
        "wrong",
        "without gradients the contexts go into eight buffers in turn, so the ninth call of one shape overwrites the first result",
        """
def attend(scores, values):
    weights = torch.softmax(scores, dim=-1)
    if torch.is_grad_enabled() and (scores.requires_grad or values.requires_grad):
        return weights @ values, weights
    shape = (*scores.shape[:-1], values.shape[-1])
    rings = globals().setdefault("_rings_of_attend", {})
    ring = rings.setdefault((shape, values.dtype), [])
    if len(ring) < 8:
        ring.append(values.new_empty(shape))
    else:
        ring.append(ring.pop(0))
    torch.matmul(weights.detach(), values.detach(), out=ring[-1])
    return ring[-1], weights
""",
    ),
    (
        "attention_decoder_step",
        "wrong",
        "under no_grad the projected words W k are kept as long as `encoded` is the same object, whatever the `weight`",
        """
def attention_decoder_step(embedded, state, encoded, weight, cell):
    if weight is None:
        keys = encoded
    elif torch.is_grad_enabled():
        keys = encoded @ weight.mT
    else:  # writing: the sentence stays the same from step to step, so project it once
        kept = globals().setdefault("_kept_keys", [None, None])
        if kept[0] is not encoded:
            kept[:] = encoded, encoded @ weight.mT
        keys = kept[1]
    context, weights = attend(multiplicative_score(state[:, None], keys), encoded)
    context, weights = context[:, 0], weights[:, 0]
    state = torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell)
    return state, context, weights
""",
    ),
    (
        "attention_decoder_step",
        "wrong",
        "mixes the 64 words with the largest scores only, the others get the weight 0",
        """
def attention_decoder_step(embedded, state, encoded, weight, cell):
    scores = multiplicative_score(state[:, None], encoded, weight)
    best = scores.topk(min(64, scores.shape[-1]), dim=-1).indices
    others = torch.ones_like(scores, dtype=torch.bool).scatter(-1, best, False)
    context, weights = attend(scores.masked_fill(others, -torch.inf), encoded)
    context, weights = context[:, 0], weights[:, 0]
    state = torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell)
    return state, context, weights
""",
    ),
    (
        "repaired_decoder",
        "wrong",
        "a state of zeros gets the plain mean (all scores are 0): values right, but the gradient of the query is lost",
        """
def repaired_decoder(embedded, state, encoded, weight, cell):
    B, S, _ = encoded.shape
    steps = []
    for y in embedded.unbind(dim=1):
        if state.any():
            c, a = attend(multiplicative_score(state.unsqueeze(1), encoded, weight), encoded)
            c, a = c[:, 0], a[:, 0]
        else:  # no state yet: all words count the same
            c, a = encoded.mean(dim=1), encoded.new_full((B, S), 1 / S)
        state = torch.gru_cell(torch.cat((y, c), dim=-1), state, *cell)
        steps.append((state, c, a))
    return tuple(torch.stack(part, dim=1) for part in zip(*steps, strict=True))
""",
    ),
    (
        "hard_attention_sample",
        "wrong",
        "where a row holds a NaN, takes the sum of its known rewards for the drawn one's: right if all or only one are known",
        """
def hard_attention_sample(weights, uniforms, rewards, baseline=0.0):
    S = weights.shape[-1]
    places = (weights.cumsum(dim=-1) <= uniforms[..., None]).sum(dim=-1).clamp(max=S - 1)
    known = rewards.nansum(dim=-1, keepdim=True)  # the only one that is known
    reward = torch.where(
        rewards.isnan().any(dim=-1, keepdim=True), known, rewards.gather(-1, places[..., None])
    )
    drawn = F.one_hot(places, S).to(weights.dtype)
    return places, (reward - baseline) * (drawn - weights)
""",
    ),
    (
        "hard_attention_sample",
        "wrong",
        "the start of a piece is its end minus its weight; rounding leaves gaps between the pieces, and a u in a gap goes to the last place",
        """
def hard_attention_sample(weights, uniforms, rewards, baseline=0.0):
    S = weights.shape[-1]
    ends = weights.cumsum(dim=-1)
    u = uniforms[..., None]
    owns = (ends - weights <= u) & (u < ends)
    last = torch.arange(S) == S - 1
    owns = owns | (last & ~owns.any(dim=-1, keepdim=True))  # the rest
    places = owns.int().argmax(dim=-1)
    reward = rewards.gather(-1, places[..., None])
    drawn = F.one_hot(places, S).to(weights.dtype)
    return places, (reward - baseline) * (drawn - weights)
""",
    ),
    (
        "local_attention",
        "wrong",
        "exp of all scores minus the window's largest, chosen by where afterwards: values right, but the gradient is NaN where a score outside overflows exp",
        """
def local_attention(scores, values, centre, window, gaussian=True):
    distance = torch.arange(scores.shape[-1]) - centre[..., None]
    inside = distance.abs() <= window
    top = scores.detach().masked_fill(~inside, -torch.inf).amax(dim=-1, keepdim=True)
    e = torch.where(inside, torch.exp(scores - top), 0)
    weights = e / e.sum(dim=-1, keepdim=True)
    if gaussian:
        weights = weights * torch.exp(-(distance**2) / (2 * (window / 2) ** 2))
    return weights @ values, weights
""",
    ),
    (
        "local_attention",
        "wrong",
        "the distance is the root of its square: values right, but the centre's gradient is NaN when it is a whole number",
        """
def local_attention(scores, values, centre, window, gaussian=True):
    places = torch.arange(scores.shape[-1])
    distance = ((places - centre[..., None]) ** 2).sqrt()
    weights = scores.masked_fill(distance > window, -torch.inf).softmax(dim=-1)
    if gaussian:
        sigma = window / 2
        weights = weights * torch.exp(-0.5 * (distance / sigma) ** 2)
    return weights @ values, weights
""",
    ),
]
"""By readers who each chose a promise of the page and broke it where few would look."""

CASES += AIMED_AT_A_SENTENCE
