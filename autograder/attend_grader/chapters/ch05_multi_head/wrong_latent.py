# ruff: noqa: D102  # the class's docstring is what learners are told; its methods say no more
"""Chapter 05, latents: how LatentAttention goes wrong in practice.

Each docstring is what the learner is told; see :mod:`.wrong_heads`.
"""

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


class ValueReshaped(_Wrong):
    """forward is right. In forward_absorbed W_uv is cut to (H, R, D) by a reshape, which mixes the
    heads. Cut the rows of the stored weight first, (H, D, R), then exchange the last two axes.
    """

    def up_value(self):
        return self.value.weight.T.reshape(self.heads, self.value.in_features, -1)

    def forward_absorbed(self, x, mask=None):
        latents = self.compress(x)[:, None]
        q = self.queries(x)
        asked = q @ self.up(self.key)
        found, weights = masked_attention(asked, latents, latents, mask, q.shape[-1] ** -0.5)
        return self.output(merge_heads(found @ self.up_value())), weights


class BothReshaped(_Wrong):
    """forward is right. In forward_absorbed both W_uk and W_uv are cut to (H, R, D) by a reshape,
    which mixes the heads. Cut the rows of the stored weights first: unflatten(0, (H, -1)) makes
    (H, D, R).
    """

    def up(self, layer):
        return layer.weight.T.reshape(self.heads, layer.in_features, -1).mT

    def forward_absorbed(self, x, mask=None):
        latents = self.compress(x)[:, None]
        q = self.queries(x)
        asked = q @ self.up(self.key)
        found, weights = masked_attention(asked, latents, latents, mask, q.shape[-1] ** -0.5)
        return self.output(merge_heads(found @ self.up(self.value).mT)), weights


class ValueNotTransposed(ValueReshaped):
    """forward is right. In forward_absorbed the means, (B, H, T, R), meet W_uv as it is stored,
    (H, D, R). The product needs (H, R, D): exchange its last two axes.
    """

    def up_value(self):
        return self.up(self.value)


class KeyTransposed(_Wrong):
    """forward is right. In forward_absorbed W_uk is transposed once too often: the stored weight is
    W_ukᵀ already. Cut into heads, (H, D, R), it is what the queries are multiplied by.
    """

    def forward_absorbed(self, x, mask=None):
        latents = self.compress(x)[:, None]
        q = self.queries(x)
        asked = q @ self.up(self.key).mT
        found, weights = masked_attention(asked, latents, latents, mask, q.shape[-1] ** -0.5)
        return self.output(merge_heads(found @ self.up(self.value).mT)), weights


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
    "graph cut": GraphCut,
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
    "absorbed: W_uv cut across the heads": ValueReshaped,
    "absorbed: both matrices cut across the heads": BothReshaped,
    "absorbed: W_uv not transposed": ValueNotTransposed,
    "absorbed: W_uk transposed twice": KeyTransposed,
    "absorbed: the two matrices exchanged": MatricesExchanged,
    "absorbed: no output projection": AbsorbedWithoutOutput,
}
