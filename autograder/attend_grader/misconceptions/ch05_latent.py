# ruff: noqa: D102  # the class's docstring is what learners are told; its methods say no more
"""Chapter 05, latents and bytes: how LatentAttention and kv_cache_bytes go wrong in practice.

Each docstring is what the learner is told; see :mod:`attend_grader.misconceptions.ch05_heads`.
"""

import math

from attend_solutions.multi_head import (
    LatentAttention,
    masked_attention,
    merge_heads,
    split_heads,
)

# LatentAttention


class _Wrong(LatentAttention):
    def queries(self, x):
        return split_heads(self.query(x), self.heads)

    def up(self, layer):
        return layer.weight.unflatten(0, (self.heads, -1))  # (H, D, R)

    def naive(self, x, mask, key, value):
        latents = self.compress(x)
        k, v = (split_heads(layer(latents), self.heads) for layer in (key, value))
        return masked_attention(self.queries(x), k, v, mask)


class WithoutMask(_Wrong):
    """forward takes no notice of the mask: hand it on to masked_attention."""

    def forward(self, x, mask=None):
        found, weights = self.naive(x, None, self.key, self.value)
        return self.output(merge_heads(found)), weights


class ValuesFromKeys(_Wrong):
    """forward averages the keys. Values are made from the latents by their own matrix:
    self.value(latents).
    """

    def forward(self, x, mask=None):
        found, weights = self.naive(x, mask, self.key, self.key)
        return self.output(merge_heads(found)), weights


class WithoutOutput(_Wrong):
    """forward returns the heads' results side by side. One projection is left, self.output, which
    mixes the heads.
    """

    def forward(self, x, mask=None):
        found, weights = self.naive(x, mask, self.key, self.value)
        return merge_heads(found), weights


class OutputOnly(_Wrong):
    """forward has one result, the output. Return the weights too: `return output, weights`."""

    def forward(self, x, mask=None):
        return self.output(merge_heads(self.naive(x, mask, self.key, self.value)[0]))


class ScaledByRank(_Wrong):
    """forward is right. forward_absorbed divides the scores by √R, the width of its latents. They
    are the scores of queries of width D: hand masked_attention the scale D ** -0.5.
    """

    def forward_absorbed(self, x, mask=None):
        latents = self.compress(x)[:, None]
        asked = self.queries(x) @ self.up(self.key)
        found, weights = masked_attention(asked, latents, latents, mask)
        values = found @ self.up(self.value).transpose(-1, -2)
        return self.output(merge_heads(values)), weights


class NotAbsorbed(_Wrong):
    """forward_absorbed is right, but it still makes the keys and values of every token, which is
    what it should save. Carry W_uk over to the queries, and apply W_uv after the weighted mean.
    """

    def forward_absorbed(self, x, mask=None):
        return self.forward(x, mask)


class ValuesNotAbsorbed(_Wrong):
    """forward_absorbed meets the latents with its queries, but still makes the values of every
    token. Take the weighted mean of the latents first, then apply W_uv to it.
    """

    def forward_absorbed(self, x, mask=None):
        latents = self.compress(x)
        asked = self.queries(x) @ self.up(self.key)
        scale = (x.shape[-1] // self.heads) ** -0.5
        _, weights = masked_attention(asked, latents[:, None], latents[:, None], mask, scale)
        values = split_heads(self.value(latents), self.heads)
        return self.output(merge_heads(weights @ values)), weights


class KeysNotAbsorbed(_Wrong):
    """forward_absorbed applies W_uv after the look-up, but still makes the keys of every token.
    Carry W_uk over to the queries: q · (W_ukᵀ c) is (q W_ukᵀ) · c.
    """

    def forward_absorbed(self, x, mask=None):
        latents = self.compress(x)
        keys = split_heads(self.key(latents), self.heads)
        found, weights = masked_attention(self.queries(x), keys, latents[:, None], mask)
        values = found @ self.up(self.value).transpose(-1, -2)
        return self.output(merge_heads(values)), weights


class AbsorbedWithoutMask(_Wrong):
    """forward_absorbed takes no notice of the mask: hand it on there too."""

    def forward_absorbed(self, x, mask=None):
        return super().forward_absorbed(x)


class HeadsBehindWidth(_Wrong):
    """forward is right. In forward_absorbed the rows of W_uk and W_uv are given to the heads in
    turn. Rows 0 … D-1 of the stored weight belong to head 0: unflatten them to (heads, D, R).
    """

    def up(self, layer):
        return layer.weight.unflatten(0, (-1, self.heads)).transpose(0, 1)

    def forward_absorbed(self, x, mask=None):
        latents = self.compress(x)[:, None]
        q = self.queries(x)
        asked = q @ self.up(self.key)
        found, weights = masked_attention(asked, latents, latents, mask, q.shape[-1] ** -0.5)
        values = found @ self.up(self.value).transpose(-1, -2)
        return self.output(merge_heads(values)), weights


class MatricesExchanged(_Wrong):
    """forward is right. forward_absorbed uses W_uv for the queries and W_uk at the end: it is the
    other way round.
    """

    def forward_absorbed(self, x, mask=None):
        latents = self.compress(x)[:, None]
        q = self.queries(x)
        asked = q @ self.up(self.value)
        found, weights = masked_attention(asked, latents, latents, mask, q.shape[-1] ** -0.5)
        values = found @ self.up(self.key).transpose(-1, -2)
        return self.output(merge_heads(values)), weights


class AbsorbedWithoutOutput(_Wrong):
    """forward_absorbed leaves out the last projection, self.output."""

    def forward_absorbed(self, x, mask=None):
        latents = self.compress(x)[:, None]
        q = self.queries(x)
        asked = q @ self.up(self.key)
        found, weights = masked_attention(asked, latents, latents, mask, q.shape[-1] ** -0.5)
        return merge_heads(found @ self.up(self.value).transpose(-1, -2)), weights


class GraphCut(_Wrong):
    """The numbers of forward are right, but no gradient passes: .detach(), .data, .numpy() or
    torch.no_grad() cuts the graph somewhere between x and the result.
    """

    def forward(self, x, mask=None):
        latents = self.compress(x).detach()
        k, v = (split_heads(layer(latents), self.heads) for layer in (self.key, self.value))
        found, weights = masked_attention(self.queries(x), k, v, mask)
        return self.output(merge_heads(found)), weights


LATENT = {
    "mask not used": WithoutMask,
    "values from the key matrix": ValuesFromKeys,
    "no output projection": WithoutOutput,
    "weights not returned": OutputOnly,
    "absorbed: scaled by √R": ScaledByRank,
    "absorbed: makes keys and values": NotAbsorbed,
    "absorbed: makes values": ValuesNotAbsorbed,
    "absorbed: makes keys": KeysNotAbsorbed,
    "absorbed: mask not used": AbsorbedWithoutMask,
    "absorbed: rows given in turn": HeadsBehindWidth,
    "absorbed: the two matrices exchanged": MatricesExchanged,
    "absorbed: no output projection": AbsorbedWithoutOutput,
    "graph cut": GraphCut,
}

# kv_cache_bytes


def _numbers(tokens, layers, kv_heads, head_dim, batch, latent, window):
    kept = tokens if window is None else min(tokens, window)
    return batch * layers * kept * (2 * kv_heads * head_dim if latent is None else latent)


def bytes_of_keys_only(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You count half: keys alone. A value lies beside each key, so there are 2 · D numbers for
    each head.
    """
    kept = tokens if window is None else min(tokens, window)
    per_token = kv_heads * head_dim if latent is None else latent
    return -(-batch * layers * kept * per_token * bits // 8)


def bytes_are_bits(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You return bits. A byte has 8 of them."""
    return _numbers(tokens, layers, kv_heads, head_dim, batch, latent, window) * bits


def bytes_of_one_layer(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You count one layer. Every layer keeps keys and values of its own."""
    count = _numbers(tokens, 1, kv_heads, head_dim, batch, latent, window)
    return -(-count * bits // 8)


def bytes_without_batch(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You count one sentence, whatever batch says. Sentences share no keys: multiply by batch."""
    count = _numbers(tokens, layers, kv_heads, head_dim, 1, latent, window)
    return -(-count * bits // 8)


def bytes_always_sixteen_bits(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You count 2 bytes for every number, whatever bits says."""
    return 2 * _numbers(tokens, layers, kv_heads, head_dim, batch, latent, window)


def bytes_latent_twice(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You count each latent twice. Keys and values are both made from the same one: it is kept
    once.
    """
    count = _numbers(tokens, layers, kv_heads, head_dim, batch, latent, window)
    return -(-count * (1 if latent is None else 2) * bits // 8)


def bytes_latent_of_each_head(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You count a latent for every head. There is one for all heads: that is what it saves."""
    count = _numbers(tokens, layers, kv_heads, head_dim, batch, latent, window)
    return -(-count * (1 if latent is None else kv_heads) * bits // 8)


def bytes_latent_added(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You add the latent to the keys and values. It is kept in their place."""
    kept = tokens if window is None else min(tokens, window)
    per_token = 2 * kv_heads * head_dim + (latent or 0)
    return -(-batch * layers * kept * per_token * bits // 8)


def bytes_without_window(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """The window changes nothing. No more than that many tokens are kept."""
    count = _numbers(tokens, layers, kv_heads, head_dim, batch, latent, None)
    return -(-count * bits // 8)


def bytes_full_window(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You count a full window also where there are fewer tokens than that: take the smaller of
    the two.
    """
    kept = tokens if window is None else window
    count = _numbers(kept, layers, kv_heads, head_dim, batch, latent, None)
    return -(-count * bits // 8)


def bytes_as_float(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You return a float. Bytes are whole: round up and return an int; `/` always makes a float."""
    return _numbers(tokens, layers, kv_heads, head_dim, batch, latent, window) * bits / 8


def bytes_rounded_down(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """Your bytes are rounded down: `//` drops the rest, and the last bits have no room. Round up,
    once, at the end.
    """
    return _numbers(tokens, layers, kv_heads, head_dim, batch, latent, window) * bits // 8


def bytes_of_a_number_rounded(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You give every number whole bytes of its own. Numbers of 4 bits lie two in a byte: multiply
    by the bits first, round up once at the end.
    """
    count = _numbers(tokens, layers, kv_heads, head_dim, batch, latent, window)
    return count * math.ceil(bits / 8)


BYTES = {
    "keys counted, values not": bytes_of_keys_only,
    "bits, not bytes": bytes_are_bits,
    "one layer": bytes_of_one_layer,
    "batch not used": bytes_without_batch,
    "bits not used": bytes_always_sixteen_bits,
    "latent counted twice": bytes_latent_twice,
    "a latent for every head": bytes_latent_of_each_head,
    "latent added to keys and values": bytes_latent_added,
    "window not used": bytes_without_window,
    "window always full": bytes_full_window,
    "a float": bytes_as_float,
    "rounded down": bytes_rounded_down,
    "every number rounded up": bytes_of_a_number_rounded,
}
