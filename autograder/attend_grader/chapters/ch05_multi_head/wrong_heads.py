"""Chapter 05, heads: how splitting and merging go wrong in practice.

Each is written as a learner might write it; its docstring is what the learner is told. It is told
to whoever's code behaves alike, so it speaks of what comes out before it guesses at code.
"""

import torch

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
