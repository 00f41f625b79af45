"""Chapter 02: other right ways to write each answer. All must get full marks."""

import math

import torch
from attend_solutions.alignment import attend, multiplicative_score

# encode


def _gru_by_hand(x, h, w_input, w_state, b_input, b_state):
    """A GRU's step from its equations, in PyTorch's order: reset, update, new."""
    n = h.shape[1]
    given, kept = x @ w_input.T + b_input, h @ w_state.T + b_state
    reset = torch.sigmoid(given[:, :n] + kept[:, :n])
    update = torch.sigmoid(given[:, n : 2 * n] + kept[:, n : 2 * n])
    new = torch.tanh(given[:, 2 * n :] + reset * kept[:, 2 * n :])
    return (1 - update) * new + update * h


def encode_by_hand(x, forward, backward):
    """The cell written out; the backward reading runs on the reversed sentence."""

    def read(words, cell):
        h = torch.zeros(words.shape[0], cell[1].shape[1], dtype=words.dtype)
        states = []
        for word in words.unbind(1):
            h = _gru_by_hand(word, h, *cell)
            states.append(h)
        return torch.stack(states, 1)

    return torch.cat((read(x, forward), read(x.flip(1), backward).flip(1)), -1)


def encode_in_place(x, forward, backward):
    """Both directions in one loop, written into one tensor."""
    b, s, _ = x.shape
    n = forward[1].shape[1]
    out = x.new_zeros((b, s, 2 * n))
    there = back = x.new_zeros((b, n))
    for i in range(s):
        there = torch.gru_cell(x[:, i], there, *forward)
        back = torch.gru_cell(x[:, s - 1 - i], back, *backward)
        out[:, i, :n] = there
        out[:, s - 1 - i, n:] = back
    return out


def encode_insert(x, forward, backward):
    """Lists; the backward states are put in front of each other."""
    there, back = [], []
    h = torch.zeros_like(x[:, 0, :1]).expand(-1, forward[2].shape[0] // 3)
    g = h
    for s in range(x.size(1)):
        h = torch.gru_cell(x[:, s], h, *forward)
        there.append(h)
    for s in range(x.size(1) - 1, -1, -1):
        g = torch.gru_cell(x[:, s], g, *backward)
        back.insert(0, g)
    return torch.stack([torch.cat(pair, 1) for pair in zip(there, back, strict=True)], 1)


ENCODE = {
    "the cell by hand, reversed sentence": encode_by_hand,
    "one loop, written in place": encode_in_place,
    "lists, backward states inserted": encode_insert,
}

# additive_score


def additive_einsum(queries, keys, w_query, w_key, v):
    """einsum throughout."""
    q = torch.einsum("...tn,na->...ta", queries, w_query).unsqueeze(-2)
    k = torch.einsum("...se,ea->...sa", keys, w_key).unsqueeze(-3)
    return torch.einsum("...tsa,a->...ts", torch.tanh(q + k), v)


def additive_by_queries(queries, keys, w_query, w_key, v):
    """One query at a time."""
    k = keys @ w_key
    rows = [
        ((queries[..., t : t + 1, :] @ w_query + k).tanh() * v).sum(-1)
        for t in range(queries.shape[-2])
    ]
    return torch.stack(rows, -2)


def additive_concatenated(queries, keys, w_query, w_key, v):
    """One matrix for query and key together, as the papers draw it."""
    t, s = queries.shape[-2], keys.shape[-2]
    q = queries[..., :, None, :].expand(*queries.shape[:-1], s, queries.shape[-1])
    k = keys[..., None, :, :].expand(*keys.shape[:-2], t, *keys.shape[-2:])
    both = torch.cat([q, k], dim=-1)
    return torch.matmul(torch.tanh(both @ torch.cat([w_query, w_key])), v[:, None]).squeeze(-1)


ADDITIVE = {
    "einsum": additive_einsum,
    "query by query": additive_by_queries,
    "one matrix for both": additive_concatenated,
}

# multiplicative_score


def multiplicative_einsum(queries, keys, weight=None):
    """One einsum for each case."""
    if weight is None:
        return torch.einsum("...tn,...sn->...ts", queries, keys)
    return torch.einsum("...tn,ne,...se->...ts", queries, weight, keys)


def multiplicative_weight_on_keys(queries, keys, weight=None):
    """The weight is applied to the keys."""
    if weight is not None:
        keys = keys @ weight.T
    return torch.matmul(queries, keys.transpose(-2, -1))


def multiplicative_broadcast(queries, keys, weight=None):
    """Every product at once, then a sum over the width; the identity where there is no weight."""
    if weight is None:
        weight = torch.eye(keys.shape[-1], dtype=keys.dtype)
    return ((queries @ weight).unsqueeze(-2) * keys.unsqueeze(-3)).sum(-1)


MULTIPLICATIVE = {
    "einsum": multiplicative_einsum,
    "weight on the keys": multiplicative_weight_on_keys,
    "broadcast and sum": multiplicative_broadcast,
}

# attend


def attend_by_hand(scores, values):
    """The softmax written out."""
    shares = (scores - scores.amax(-1, keepdim=True)).exp()
    weights = shares / shares.sum(-1, keepdim=True)
    return torch.einsum("...ts,...se->...te", weights, values), weights


def attend_by_logarithm(scores, values):
    """exp(score - logsumexp), a list as result."""
    weights = torch.exp(torch.log_softmax(scores, -1))
    return [(weights[..., None] * values[..., None, :, :]).sum(-2), weights]


def attend_divides_last(scores, values):
    """Divides by the sum of the exponentials at the end."""
    shares = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
    total = shares.sum(dim=-1, keepdim=True)
    return torch.matmul(shares, values) / total, shares / total


ATTEND = {
    "softmax by hand, einsum": attend_by_hand,
    "log-softmax, broadcast": attend_by_logarithm,
    "normalised at the end": attend_divides_last,
}

# attention_decoder_step


def step_einsum(embedded, state, encoded, weight, cell):
    """Self-contained: einsum, and the cell by hand."""
    query = state if weight is None else state @ weight
    weights = torch.softmax(torch.einsum("be,bse->bs", query, encoded), dim=1)
    context = torch.einsum("bs,bse->be", weights, encoded)
    after = _gru_by_hand(torch.cat([embedded, context], 1), state, *cell)
    return after, context, weights


def step_unsqueeze(embedded, state, encoded, weight, cell):
    """unsqueeze and squeeze along the query's axis."""
    scores = multiplicative_score(state.unsqueeze(1), encoded, weight=weight)
    context, weights = attend(scores, encoded)
    context = context.squeeze(1)
    joined = torch.hstack((embedded, context))
    return torch.gru_cell(joined, state, *cell), context, weights.squeeze(1)


def step_by_sentences(embedded, state, encoded, weight, cell):
    """One sentence at a time."""
    states, contexts, rows = [], [], []
    for y, h, words in zip(embedded, state, encoded, strict=True):
        context, weights = attend(multiplicative_score(h[None], words, weight), words)
        states.append(torch.gru_cell(torch.cat([y[None], context], -1), h[None], *cell))
        contexts.append(context)
        rows.append(weights)
    return torch.cat(states), torch.cat(contexts), torch.cat(rows)


STEP = {
    "self-contained, einsum": step_einsum,
    "unsqueeze and squeeze": step_unsqueeze,
    "sentence by sentence": step_by_sentences,
}

# hard_attention_sample


def hard_searchsorted(weights, uniforms, rewards, baseline=0.0):
    """searchsorted; one_hot."""
    ends = torch.cumsum(weights, -1).contiguous()
    found = torch.searchsorted(ends, uniforms[..., None].contiguous(), right=True)
    places = torch.clamp(found[..., 0], max=weights.shape[-1] - 1)
    reward = torch.gather(rewards, -1, places.unsqueeze(-1)) - baseline
    drawn = torch.nn.functional.one_hot(places, weights.shape[-1])
    return places, reward * drawn - reward * weights


def hard_argmax_of_bool(weights, uniforms, rewards, baseline=0.0):
    """The first end beyond u; the last is moved up to infinity."""
    ends = weights.cumsum(-1)
    ends = torch.cat([ends[..., :-1], torch.full_like(ends[..., -1:], math.inf)], -1)
    places = (ends > uniforms.unsqueeze(-1)).int().argmax(-1)
    reward = torch.take_along_dim(rewards, places[..., None], dim=-1)
    grads = -weights * (reward - baseline)
    return places, grads.scatter_add(-1, places[..., None], reward - baseline)


def hard_autograd(weights, uniforms, rewards, baseline=0.0):
    """Row by row; the derivative by autograd through log-softmax of the logarithms."""
    rows = weights.reshape(-1, weights.shape[-1])
    places, grads = [], []
    for row, u, earned in zip(rows, uniforms.reshape(-1), rewards.reshape(rows.shape), strict=True):
        end, place = 0.0, 0
        for place, weight in enumerate(row):  # noqa: B007  # the last place owns the rest
            end = end + weight
            if u < end:
                break
        scores = row.clamp(min=1e-30).log().requires_grad_(True)
        log_weight = torch.log_softmax(scores, dim=-1)[place]
        grads.append((earned[place] - baseline) * torch.autograd.grad(log_weight, scores)[0])
        places.append(place)
    return torch.tensor(places).reshape(uniforms.shape), torch.stack(grads).reshape(weights.shape)


HARD = {
    "searchsorted": hard_searchsorted,
    "first end beyond u": hard_argmax_of_bool,
    "row by row, autograd": hard_autograd,
}

# local_attention


def local_by_hand(scores, values, centre, window, gaussian=True):
    """Exponentials times a mask; the bell in the form of the paper."""
    places = torch.arange(scores.size(-1)).to(scores)
    away = places - centre.unsqueeze(-1)
    inside = (places >= centre.unsqueeze(-1) - window) & (places <= centre.unsqueeze(-1) + window)
    hidden = torch.where(inside, scores, torch.full_like(scores, -math.inf))
    weights = torch.exp(hidden - hidden.logsumexp(-1, keepdim=True))
    if gaussian:
        weights = weights * torch.exp(-0.5 * torch.square(away / (window / 2)))
    return torch.einsum("...ts,...se->...te", weights, values), weights


def local_added_mask(scores, values, centre, window, gaussian=True):
    """A mask of 0 and -inf is added; the bell as a power of 2 σ² = window² / 2."""
    away = centre[..., None] - torch.arange(scores.shape[-1])
    mask = torch.zeros_like(scores).masked_fill(away.abs() > window, -torch.inf)
    weights = (scores + mask).softmax(-1)
    bell = torch.exp(-2 * away.pow(2) / window**2) if gaussian else torch.ones_like(weights)
    return (weights * bell) @ values, weights * bell


def local_by_queries(scores, values, centre, window, gaussian=True):
    """Query by query: slice the window out, pad with zeros."""
    s = scores.shape[-1]
    flat, points = scores.reshape(-1, s), centre.reshape(-1)
    rows = []
    for row, p in zip(flat, points, strict=True):
        first = max(0, math.ceil(p.item() - window))
        last = min(s - 1, math.floor(p.item() + window))
        inside = torch.softmax(row[first : last + 1], dim=-1)
        if gaussian:
            sigma = window / 2
            away = torch.arange(first, last + 1) - p
            inside = inside * torch.exp(-(away**2) / (2 * sigma * sigma))
        rows.append(torch.nn.functional.pad(inside, (first, s - 1 - last)))
    weights = torch.stack(rows).reshape(scores.shape)
    return weights @ values, weights


LOCAL = {
    "mask and logsumexp": local_by_hand,
    "added mask": local_added_mask,
    "query by query, sliced": local_by_queries,
}
