# ruff: noqa: D102  # the class's docstring is what learners are told; its methods say no more
"""Chapter 05, multi-head attention: how it goes wrong in practice.

Each docstring is what the learner is told; see :mod:`.wrong_heads`.
"""

from attend_solutions.multi_head import (
    MultiHeadAttention,
    masked_attention,
    merge_heads,
    split_heads,
)
from torch import Tensor


class _Wrong(MultiHeadAttention):
    def parts(self, x) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = (split_heads(p(x), self.heads) for p in (self.query, self.key, self.value))
        return q, k, v


class WithoutOutput(_Wrong):
    """The heads' results are laid side by side and returned as they are. One projection is left,
    self.output, which mixes the heads.
    """

    def forward(self, x, mask=None):
        found, weights = masked_attention(*self.parts(x), mask)
        return merge_heads(found), weights


class WithoutMask(_Wrong):
    """The mask changes nothing: hand it on to masked_attention."""

    def forward(self, x, mask=None):
        found, weights = masked_attention(*self.parts(x))
        return self.output(merge_heads(found)), weights


class MaskInverted(_Wrong):
    """What the mask allows is hidden, and what it forbids is seen. True means may look, here and
    in masked_attention: hand it on as it is.
    """

    def forward(self, x, mask=None):
        found, weights = masked_attention(*self.parts(x), None if mask is None else ~mask)
        return self.output(merge_heads(found)), weights


class OneHead(_Wrong):
    """There is one distribution for all: the width was never cut into heads. Split queries, keys
    and values before you attend.
    """

    def forward(self, x, mask=None):
        q, k, v = (split_heads(p(x), 1) for p in (self.query, self.key, self.value))
        found, weights = masked_attention(q, k, v, mask)
        return self.output(merge_heads(found)), weights.expand(-1, self.heads, -1, -1)


class NotSplit(_Wrong):
    """There are no heads: one table of weights for each sentence, (B, T, T), from queries of all C
    numbers. split_heads first, queries, keys and values; merge_heads after the look-up.
    """

    def forward(self, x, mask=None):
        found, weights = masked_attention(self.query(x), self.key(x), self.value(x), mask)
        return self.output(found), weights


class Exchanged(_Wrong):
    """Your weights are those of keys that ask and queries that are looked at: the two are
    exchanged. masked_attention takes q, k, v in this order.
    """

    def forward(self, x, mask=None):
        q, k, v = self.parts(x)
        found, weights = masked_attention(k, q, v, mask)
        return self.output(merge_heads(found)), weights


class WeightsUntransposed(_Wrong):
    """Queries, keys and values are x @ layer.weight. A layer keeps its matrix transposed: call the
    layer itself, self.query(x), which is x @ self.query.weight.T.
    """

    def forward(self, x, mask=None):
        return self.attend(x, mask, self.output)

    def attend(self, x, mask, output):
        layers = (self.query, self.key, self.value)
        q, k, v = (split_heads(x @ layer.weight, self.heads) for layer in layers)
        found, weights = masked_attention(q, k, v, mask)
        return output(merge_heads(found)), weights


class AllUntransposed(WeightsUntransposed):
    """All four projections are x @ layer.weight. A layer keeps its matrix transposed: call the
    layers themselves, self.query(x), which is x @ self.query.weight.T.
    """

    def forward(self, x, mask=None):
        return self.attend(x, mask, lambda merged: merged @ self.output.weight)


class KeysFromQueries(_Wrong):
    """Queries and keys come out of one projection: each has its own, self.query and self.key."""

    def forward(self, x, mask=None):
        q, _, v = self.parts(x)
        found, weights = masked_attention(q, q, v, mask)
        return self.output(merge_heads(found)), weights


class ValuesFromKeys(_Wrong):
    """The weights are right, but they average the keys. The values are self.value(x)."""

    def forward(self, x, mask=None):
        q, k, _ = self.parts(x)
        found, weights = masked_attention(q, k, k, mask)
        return self.output(merge_heads(found)), weights


class ValuesNotProjected(_Wrong):
    """The weights are right, but they average x itself. The values are self.value(x), split."""

    def forward(self, x, mask=None):
        q, k, _ = self.parts(x)
        found, weights = masked_attention(q, k, split_heads(x, self.heads), mask)
        return self.output(merge_heads(found)), weights


class ScaledTwice(_Wrong):
    """Your scores are divided by √D twice: masked_attention divides already."""

    def forward(self, x, mask=None):
        q, k, v = self.parts(x)
        found, weights = masked_attention(q / q.shape[-1] ** 0.5, k, v, mask)
        return self.output(merge_heads(found)), weights


class ScaledByWidth(_Wrong):
    """Your scores are divided by √C. A head's queries are D wide: divide by √D, as
    masked_attention does by itself.
    """

    def forward(self, x, mask=None):
        found, weights = masked_attention(*self.parts(x), mask, x.shape[-1] ** -0.5)
        return self.output(merge_heads(found)), weights


class ScaledUp(_Wrong):
    """Your scores are multiplied by √D. They are divided by it: `scale` is what dot products are
    multiplied by, D ** -0.5, and masked_attention takes that by itself.
    """

    def forward(self, x, mask=None):
        q, k, v = self.parts(x)
        found, weights = masked_attention(q, k, v, mask, q.shape[-1] ** 0.5)
        return self.output(merge_heads(found)), weights


class WeightsAveraged(_Wrong):
    """You return the mean of the weights over the heads, as nn.MultiheadAttention does unless told
    otherwise. Return those of every head: (B, H, T, T).
    """

    def forward(self, x, mask=None):
        found, weights = masked_attention(*self.parts(x), mask)
        return self.output(merge_heads(found)), weights.mean(dim=1)


class OutputOnly(_Wrong):
    """There is one result, the output. Return the weights too: `return output, weights`."""

    def forward(self, x, mask=None):
        found, _ = masked_attention(*self.parts(x), mask)
        return self.output(merge_heads(found))


class WeightsFirst(_Wrong):
    """The weights come first. The output comes first: `return output, weights`."""

    def forward(self, x, mask=None):
        found, weights = masked_attention(*self.parts(x), mask)
        return weights, self.output(merge_heads(found))


class MergedByReshape(_Wrong):
    """Weights and shapes are right, the output is not: as if the heads' results were reshaped to
    (B, T, C) without moving the heads behind the tokens. That is what merge_heads does.
    """

    def forward(self, x, mask=None):
        found, weights = masked_attention(*self.parts(x), mask)
        return self.output(found.reshape(x.shape)), weights


class SplitBeforeProjecting(_Wrong):
    """Weights and output are those of x split into heads, with the projections left out. Project
    first, self.query(x) and so on, then split.
    """

    def forward(self, x, mask=None):
        heads = split_heads(x, self.heads)
        found, weights = masked_attention(heads, heads, heads, mask)
        return self.output(merge_heads(found)), weights


class TokenAdded(_Wrong):
    """x itself is added to the output. That is the residual connection of a later chapter; it
    stands outside attention.
    """

    def forward(self, x, mask=None):
        found, weights = masked_attention(*self.parts(x), mask)
        return x + self.output(merge_heads(found)), weights


class GraphCut(_Wrong):
    """The numbers are right, but no gradient passes: .detach(), .data, .numpy() or torch.no_grad()
    cuts the graph somewhere between x and the result.
    """

    def forward(self, x, mask=None):
        q, k, v = self.parts(x)
        found, weights = masked_attention(q.detach(), k.detach(), v, mask)
        return self.output(merge_heads(found)), weights


HEADS = {
    "graph cut": GraphCut,
    "no output projection": WithoutOutput,
    "mask not used": WithoutMask,
    "mask the wrong way round": MaskInverted,
    "one head only": OneHead,
    "no heads": NotSplit,
    "queries and keys exchanged": Exchanged,
    "projected by the stored matrix": WeightsUntransposed,
    "all projected by the stored matrix": AllUntransposed,
    "keys from the query projection": KeysFromQueries,
    "values from the key projection": ValuesFromKeys,
    "values not projected": ValuesNotProjected,
    "scaled twice": ScaledTwice,
    "scaled by √C": ScaledByWidth,
    "multiplied by √D": ScaledUp,
    "weights averaged over the heads": WeightsAveraged,
    "weights not returned": OutputOnly,
    "weights before the output": WeightsFirst,
    "merged without transpose": MergedByReshape,
    "no projections": SplitBeforeProjecting,
    "token added": TokenAdded,
}
