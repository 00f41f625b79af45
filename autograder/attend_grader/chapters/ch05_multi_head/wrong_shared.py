# ruff: noqa: D102  # the class's docstring is what learners are told; its methods say no more
"""Chapter 05, shared keys: how repeat_kv and grouped-query attention go wrong in practice.

Each docstring is what the learner is told; see :mod:`.wrong_heads`.
"""

from attend_solutions.multi_head import (
    GroupedQueryAttention,
    masked_attention,
    merge_heads,
    repeat_kv,
    split_heads,
)

# repeat_kv


def repeat_in_rounds(x, repeats):
    """Your copies come in rounds: heads 0, 1, 0, 1, as x.repeat(…) or torch.cat lays them. Expected
    are neighbours: 0, 0, 1, 1. Put the axis of the copies behind that of the heads, x[:, :, None],
    expand it, and make one axis of the two.
    """
    return x.repeat(1, repeats, 1, 1)


def repeat_tokens(x, repeats):
    """The tokens are repeated; it is the heads, axis 1, that need copies."""
    return x.repeat_interleave(repeats, dim=2)


def repeat_sentences(x, repeats):
    """The sentences are repeated; it is the heads, axis 1, that need copies."""
    return x.repeat_interleave(repeats, dim=0)


def repeat_width(x, repeats):
    """The numbers of a key are repeated; it is the heads, axis 1, that need copies."""
    return x.repeat_interleave(repeats, dim=-1)


def repeat_to(x, repeats):
    """You return `repeats` heads in all. Expected are `repeats` copies of each head: G·repeats."""
    return x.repeat_interleave(max(repeats // x.shape[1], 1), dim=1)


def repeat_new_axis(x, repeats):
    """The copies are there, on an axis of their own: (B, G, repeats, S, D). Make one axis of G and
    repeats.
    """
    return x[:, :, None].expand(-1, -1, repeats, -1, -1)


def repeat_stretched(x, repeats):
    """Numbers of several tokens are mixed: the copies were made along another axis and then
    reshaped. Put the new axis right behind that of the heads, x[:, :, None].
    """
    batch, groups, tokens, width = x.shape
    copies = x[:, :, :, None].expand(-1, -1, -1, repeats, -1)
    return copies.reshape(batch, groups * repeats, tokens, width)


def repeat_detached(x, repeats):
    """The numbers are right, but no gradient passes: .detach(), .data, .numpy() or torch.tensor(…)
    cuts the graph.
    """
    return x.detach().repeat_interleave(repeats, dim=1)


REPEAT = {
    "copies in rounds": repeat_in_rounds,
    "tokens repeated": repeat_tokens,
    "sentences repeated": repeat_sentences,
    "numbers repeated": repeat_width,
    "repeats taken for the number of heads": repeat_to,
    "copies on an axis of their own": repeat_new_axis,
    "copies along the tokens, reshaped": repeat_stretched,
    "graph cut": repeat_detached,
}

# GroupedQueryAttention


class _Wrong(GroupedQueryAttention):
    @property
    def repeats(self):
        return self.heads // self.kv_heads

    def parts(self, x):
        q = split_heads(self.query(x), self.heads)
        return q, *(split_heads(p(x), self.kv_heads) for p in (self.key, self.value))

    def shared(self, x):
        q, k, v = self.parts(x)
        return q, repeat_kv(k, self.repeats), repeat_kv(v, self.repeats)


class GroupsInRounds(_Wrong):
    """Query heads find the wrong keys: as if copies came in rounds, 0, 1, 0, 1. Heads next to each
    other share: 0, 0, 1, 1. Your own repeat_kv does that.
    """

    def forward(self, x, mask=None):
        q, k, v = self.parts(x)
        rounds = (1, self.repeats, 1, 1)
        found, weights = masked_attention(q, k.repeat(rounds), v.repeat(rounds), mask)
        return self.output(merge_heads(found)), weights


class NotRepeated(_Wrong):
    """Queries have H heads, your keys and values only G, and the two do not fit. Hand each head of
    keys and values to its group first: repeat_kv(k, H // G), and the values alike.
    """

    def forward(self, x, mask=None):
        q, k, v = self.parts(x)
        found, weights = masked_attention(q, k, v, mask)
        return self.output(merge_heads(found)), weights


class RepeatedByGroups(_Wrong):
    """Every head of keys gets G copies, so there are G · G of them. It takes H / G copies to have
    as many as queries: self.heads // self.kv_heads.
    """

    @property
    def repeats(self):
        return self.kv_heads

    def forward(self, x, mask=None):
        found, weights = masked_attention(*self.shared(x), mask)
        return self.output(merge_heads(found)), weights


class RepeatedByHeads(RepeatedByGroups):
    """Every head of keys gets H copies, so there are G · H of them. It takes H / G copies to have
    as many as queries: self.heads // self.kv_heads.
    """

    @property
    def repeats(self):
        return self.heads


class SplitByHeads(_Wrong):
    """Keys and values are split into self.heads, and do not fit the queries or cannot be split at
    all. They are only G·D wide: split them into self.kv_heads.
    """

    def forward(self, x, mask=None):
        q, k, v = (split_heads(p(x), self.heads) for p in (self.query, self.key, self.value))
        found, weights = masked_attention(q, k, v, mask)
        return self.output(merge_heads(found)), weights


class ScaledByWidth(_Wrong):
    """Your scores are divided by √C. A head's queries are D wide: divide by √D, as
    masked_attention does by itself.
    """

    def forward(self, x, mask=None):
        q, k, v = self.shared(x)
        found, weights = masked_attention(q, k, v, mask, x.shape[-1] ** -0.5)
        return self.output(merge_heads(found)), weights


class ValuesInRounds(_Wrong):
    """The weights are right, but values come from the wrong heads. Repeat the values exactly as
    the keys: neighbours share.
    """

    def forward(self, x, mask=None):
        q, k, v = self.parts(x)
        rounds = v.repeat(1, self.repeats, 1, 1)
        found, weights = masked_attention(q, repeat_kv(k, self.repeats), rounds, mask)
        return self.output(merge_heads(found)), weights


class FirstGroupOnly(_Wrong):
    """All query heads use the first head of keys and values. Each group has its own: repeat_kv
    gives every query head the right one.
    """

    def forward(self, x, mask=None):
        q, k, v = self.parts(x)
        found, weights = masked_attention(q, k[:, :1], v[:, :1], mask)
        return self.output(merge_heads(found)), weights


class KeysAveraged(_Wrong):
    """The heads of keys and values are averaged into one for all. Keep them: each serves its own
    group of query heads.
    """

    def forward(self, x, mask=None):
        q, k, v = self.parts(x)
        k, v = (part.mean(dim=1, keepdim=True) for part in (k, v))
        found, weights = masked_attention(q, k, v, mask)
        return self.output(merge_heads(found)), weights


class QueriesAveraged(_Wrong):
    """The queries of a group are averaged, so its heads have the same weights. Sharing is for keys
    and values only: each query head asks for itself.
    """

    def forward(self, x, mask=None):
        q, k, v = self.shared(x)
        mean = q.unflatten(1, (self.kv_heads, -1)).mean(dim=2)
        found, weights = masked_attention(repeat_kv(mean, self.repeats), k, v, mask)
        return self.output(merge_heads(found)), weights


class WithoutMask(_Wrong):
    """The mask changes nothing: hand it on to masked_attention."""

    def forward(self, x, mask=None):
        found, weights = masked_attention(*self.shared(x))
        return self.output(merge_heads(found)), weights


class WithoutOutput(_Wrong):
    """The heads' results are laid side by side and returned as they are. One projection is left,
    self.output, which mixes the heads.
    """

    def forward(self, x, mask=None):
        found, weights = masked_attention(*self.shared(x), mask)
        return merge_heads(found), weights


class WeightsAveraged(_Wrong):
    """You return one table of weights for each head of keys, averaged over its group. Every query
    head has its own: (B, H, T, T).
    """

    def forward(self, x, mask=None):
        found, weights = masked_attention(*self.shared(x), mask)
        return self.output(merge_heads(found)), weights.unflatten(1, (self.kv_heads, -1)).mean(2)


class ValuesFromKeys(_Wrong):
    """The weights are right, but they average the keys. The values are self.value(x)."""

    def forward(self, x, mask=None):
        q, k, _ = self.shared(x)
        found, weights = masked_attention(q, k, k, mask)
        return self.output(merge_heads(found)), weights


class OutputOnly(_Wrong):
    """There is one result, the output. Return the weights too: `return output, weights`."""

    def forward(self, x, mask=None):
        return self.output(merge_heads(masked_attention(*self.shared(x), mask)[0]))


class GraphCut(_Wrong):
    """The numbers are right, but no gradient passes: .detach(), .data, .numpy() or torch.no_grad()
    cuts the graph somewhere between x and the result.
    """

    def forward(self, x, mask=None):
        q, k, v = self.shared(x)
        found, weights = masked_attention(q, k.detach(), v.detach(), mask)
        return self.output(merge_heads(found)), weights


GROUPED = {
    "graph cut": GraphCut,
    "groups in rounds": GroupsInRounds,
    "values in rounds": ValuesInRounds,
    "keys not repeated": NotRepeated,
    "G copies": RepeatedByGroups,
    "H copies": RepeatedByHeads,
    "keys split like queries": SplitByHeads,
    "scaled by √C": ScaledByWidth,
    "first group for all": FirstGroupOnly,
    "keys and values averaged": KeysAveraged,
    "queries averaged over the group": QueriesAveraged,
    "mask not used": WithoutMask,
    "no output projection": WithoutOutput,
    "weights averaged over the group": WeightsAveraged,
    "values from the key projection": ValuesFromKeys,
    "weights not returned": OutputOnly,
}
