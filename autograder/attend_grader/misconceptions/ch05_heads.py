# ruff: noqa: D102  # the class's docstring is what learners are told; its methods say no more
"""Chapter 05, heads: how splitting, merging and multi-head attention go wrong in practice.

Each is written as a learner might write it; its docstring is what the learner is told. It is told
to whoever's code behaves alike, so it speaks of what comes out before it guesses at code.
"""

import torch
from attend_solutions.multi_head import (
    MultiHeadAttention,
    masked_attention,
    merge_heads,
    split_heads,
)
from torch import Tensor

# split_heads


def split_by_reshape(x, heads):
    """A head gets numbers of one token where it should get those of another: the new shape was
    filled in reading order. Cut the width first, x.reshape(B, T, heads, D), then exchange the axes
    of tokens and heads.
    """
    batch, tokens, width = x.shape
    return x.reshape(batch, heads, tokens, width // heads)


def split_without_transpose(x, heads):
    """Your result is (B, T, heads, D): the width is cut, but the heads stand behind the tokens.
    Exchange axes 1 and 2, so that each head is a problem of its own, (T, D).
    """
    batch, tokens, width = x.shape
    return x.reshape(batch, tokens, heads, width // heads)


def split_interleaved(x, heads):
    """The numbers are dealt out to the heads in turn, like cards. Head 0 should get the first D
    next to each other: cut into (heads, D), not into (D, heads).
    """
    batch, tokens, width = x.shape
    return x.reshape(batch, tokens, width // heads, heads).permute(0, 3, 1, 2)


def split_heads_first(x, heads):
    """Your result is (heads, B, T, D). The sentences stay in front: (B, heads, T, D)."""
    return torch.stack(x.chunk(heads, dim=-1))


def split_tuple(x, heads):
    """You return one tensor for each head. Expected is a single tensor, with the heads as an axis:
    torch.stack joins them along a new one.
    """
    return x.chunk(heads, dim=-1)


def split_by_width(x, heads):
    """You cut pieces of `heads` numbers; expected are `heads` pieces. D is C // heads."""
    return x.unflatten(-1, (-1, heads)).transpose(1, 2)


def split_last_axes(x, heads):
    """The last two axes are exchanged: heads stand last. It is the axes of tokens and of heads that
    change places, 1 and 2.
    """
    return x.unflatten(-1, (heads, -1)).transpose(-1, -2)


def split_tokens(x, heads):
    """You gave the tokens to the heads, some to each. Every head sees all tokens; what is cut is
    the width, the last axis.
    """
    return torch.stack(x.mT.chunk(heads, dim=1), dim=1)


def split_detached(x, heads):
    """The numbers are right, but no gradient passes: .detach(), .data, .numpy() or torch.tensor(…)
    cuts the graph. reshape and transpose alone keep it.
    """
    return x.detach().unflatten(-1, (heads, -1)).transpose(1, 2)


SPLIT = {
    "one reshape, no transpose": split_by_reshape,
    "heads left behind the tokens": split_without_transpose,
    "numbers dealt out in turn": split_interleaved,
    "heads before the sentences": split_heads_first,
    "a tensor for each head": split_tuple,
    "pieces of `heads` numbers": split_by_width,
    "last two axes exchanged": split_last_axes,
    "width and heads turned round": split_tokens,
    "graph cut": split_detached,
}

# merge_heads


def merge_by_reshape(x):
    """A token gets numbers of other tokens: the heads were not moved behind the tokens before the
    last two axes became one. Exchange axes 1 and 2 first.
    """
    batch, heads, tokens, width = x.shape
    return x.reshape(batch, tokens, heads * width)


def merge_interleaved(x):
    """The numbers of a token come in turn from all heads. The D numbers of one head belong
    together: the order of the last two axes must be (H, D).
    """
    return x.permute(0, 2, 3, 1).flatten(2)


def merge_by_sum(x):
    """The heads are added up: the result is only D wide. Lay them side by side, to H·D."""
    return x.sum(dim=1)


def merge_by_mean(x):
    """The heads are averaged: the result is only D wide. Lay them side by side, to H·D."""
    return x.mean(dim=1, dtype=torch.get_default_dtype())


def merge_along_tokens(x):
    """The heads stand below each other: H·T tokens of width D. They belong beside each other: T
    tokens of width H·D.
    """
    return x.flatten(1, 2)


def merge_kept_apart(x):
    """The tokens stand before the heads, which is half of it. Now make one axis, H·D, of the last
    two.
    """
    return x.transpose(1, 2)


def merge_without_sentences(x):
    """All sentences run into one: (B·T, H·D). Keep B as an axis of its own."""
    return x.transpose(1, 2).flatten(2).flatten(0, 1)


def merge_last_axes(x):
    """The numbers of a token come from several tokens: the last two axes were exchanged. It is
    axes 1 and 2, heads and tokens, that change places.
    """
    batch, heads, tokens, width = x.shape
    return x.transpose(-1, -2).reshape(batch, tokens, heads * width)


def merge_detached(x):
    """The numbers are right, but no gradient passes: .detach(), .data, .numpy() or torch.tensor(…)
    cuts the graph. transpose and reshape alone keep it.
    """
    return x.detach().transpose(1, 2).flatten(2)


MERGE = {
    "reshape without transpose": merge_by_reshape,
    "heads in turn": merge_interleaved,
    "heads added up": merge_by_sum,
    "heads averaged": merge_by_mean,
    "heads below each other": merge_along_tokens,
    "last two axes not joined": merge_kept_apart,
    "sentences joined": merge_without_sentences,
    "last two axes exchanged": merge_last_axes,
    "graph cut": merge_detached,
}

# MultiHeadAttention


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
    "no output projection": WithoutOutput,
    "mask not used": WithoutMask,
    "mask the wrong way round": MaskInverted,
    "one head only": OneHead,
    "keys from the query projection": KeysFromQueries,
    "values from the key projection": ValuesFromKeys,
    "values not projected": ValuesNotProjected,
    "scaled twice": ScaledTwice,
    "scaled by √C": ScaledByWidth,
    "weights averaged over the heads": WeightsAveraged,
    "weights not returned": OutputOnly,
    "weights before the output": WeightsFirst,
    "merged without transpose": MergedByReshape,
    "no projections": SplitBeforeProjecting,
    "token added": TokenAdded,
    "graph cut": GraphCut,
}
