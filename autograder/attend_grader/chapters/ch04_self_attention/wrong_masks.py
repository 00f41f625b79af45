"""Chapter 04: how masks go wrong in practice.

Each function is written as a learner might write it; its docstring is what the learner is told. It
is told to whoever's code behaves alike, so it speaks of what comes out before it guesses at code.
"""

import numpy as np

# causal_mask


def _triangle(queries, keys=None, shift=0):
    """The right mask, shifted to the right."""
    keys = queries if keys is None else keys
    return np.tril(np.ones((queries, keys), dtype=bool), k=keys - queries + shift)


def causal_strict(queries, keys=None):
    """No query sees itself. A token may look at its own place: s <= t, not s < t."""
    return _triangle(queries, keys, -1)


def causal_one_ahead(queries, keys=None):
    """Every query sees one place ahead of itself: s <= t, where your mask allows s <= t + 1."""
    return _triangle(queries, keys, 1)


def causal_future(queries, keys=None):
    """Your queries see themselves and what comes after. Turn the triangle over: key s is allowed
    where s <= t (np.tril keeps that part, np.triu the other).
    """
    keys = queries if keys is None else keys
    return np.triu(np.ones((queries, keys), dtype=bool), k=keys - queries)


def causal_inverted(queries, keys=None):
    """Your mask is True where looking is forbidden. Here True means "may look": write `~` in front
    of it, or turn the comparison round.
    """
    return ~_triangle(queries, keys)


def causal_aligned_at_start(queries, keys=None):
    """The triangle starts at the upper left, so the last query does not see the last keys. The
    queries are the last places: query t stands at place t + keys − queries.
    """
    keys = queries if keys is None else keys
    return np.tril(np.ones((queries, keys), dtype=bool))


def causal_ignores_keys(queries, keys=None):
    """Your mask is always square. Make it queries × keys where keys are given."""
    return np.tril(np.ones((queries, queries), dtype=bool))


def causal_shifted_back(queries, keys=None):
    """The triangle is shifted the wrong way: query t stands at place t + keys − queries, not
    t + queries − keys.
    """
    keys = queries if keys is None else keys
    return np.tril(np.ones((queries, keys), dtype=bool), k=queries - keys)


def causal_numbers(queries, keys=None):
    """The entries are 1 and 0, not True and False. `~` and np.where read such numbers otherwise
    than you mean: compare places (`<=`), or say dtype=bool.
    """
    return _triangle(queries, keys).astype(float)


def causal_additive(queries, keys=None):
    """The entries are 0 and −inf, to be added to scores. That is another kind of mask; here it is
    boolean, True where the query may look.
    """
    return np.where(_triangle(queries, keys), 0.0, -np.inf)


def causal_keys_by_queries(queries, keys=None):
    """Rows and columns have changed places. A row belongs to a query, a column to a key: the shape
    is (queries, keys).
    """
    return np.ascontiguousarray(_triangle(queries, keys).T)


CAUSAL = {
    "a token does not see itself": causal_strict,
    "one place too far": causal_one_ahead,
    "future instead of past": causal_future,
    "True taken for hidden": causal_inverted,
    "aligned at the start, not at the end": causal_aligned_at_start,
    "always square": causal_ignores_keys,
    "shifted the wrong way": causal_shifted_back,
    "numbers instead of booleans": causal_numbers,
    "0 and −inf instead of booleans": causal_additive,
    "rows and columns exchanged": causal_keys_by_queries,
}

# padding_mask


def _tokens(lengths, size, side="right"):
    """The right mask."""
    count, place = np.asarray(lengths)[:, None, None], np.arange(size)
    return place >= size - count if side == "left" else place < count


def padding_inverted(lengths, size, side="right"):
    """Your mask is True where there is filling. Here True means "may look": True for tokens."""
    return ~_tokens(lengths, size, side)


def padding_two_axes(lengths, size, side="right"):
    """The shape is (B, S). Against scores (B, T, S) NumPy would line B up with T, which fails or,
    where they are equal, is wrong. Put an axis of length 1 between: lengths[:, None, None].
    """
    return _tokens(lengths, size, side)[:, 0]


def padding_ignores_side(lengths, size, side="right"):
    """The filling is always on the right. With side="left" the tokens are the last places: place >=
    size − length.
    """
    return _tokens(lengths, size)


def padding_sides_exchanged(lengths, size, side="right"):
    """Left and right are exchanged. `side` says where the filling is: on the right, the tokens come
    first.
    """
    return _tokens(lengths, size, "right" if side == "left" else "left")


def padding_one_too_many(lengths, size, side="right"):
    """One place of filling counts as a token. Places start at 0: with 3 tokens they are 0, 1, 2, so
    place < 3, and on the left place >= size − 3.
    """
    return _tokens(np.minimum(np.asarray(lengths) + 1, size), size, side)


def padding_one_too_few(lengths, size, side="right"):
    """One token counts as filling. With 3 tokens on the left of 5 places they are 0, 1, 2: place <
    3; on the right side of 5 they are 2, 3, 4: place >= 5 − 3.
    """
    return _tokens(np.maximum(np.asarray(lengths) - 1, 0), size, side)


def padding_of_queries(lengths, size, side="right"):
    """The shape is (B, S, 1): that hides queries. The keys are the last axis: (B, 1, S)."""
    return np.swapaxes(_tokens(lengths, size, side), 1, 2).copy()


def padding_square(lengths, size, side="right"):
    """The shape is (B, S, S). How many queries there are is not known here, and need not be: an
    axis of length 1 broadcasts. Return (B, 1, S).
    """
    return np.repeat(_tokens(lengths, size, side), size, axis=1)


def padding_left_from_length(lengths, size, side="right"):
    """On the left side your tokens start at place `length`. They are the last `length` places and
    start at size − length.
    """
    count, place = np.asarray(lengths)[:, None, None], np.arange(size)
    return place >= count if side == "left" else place < count


def padding_left_minus_zero(lengths, size, side="right"):
    """On the left side a sentence of length 0 is all tokens. −0 is 0, so `row[-n:]` with n = 0 is
    the whole row: write row[size - n:].
    """
    if side == "right":
        return _tokens(lengths, size)
    mask = np.zeros((len(lengths), 1, size), dtype=bool)
    for b, n in enumerate(lengths):
        mask[b, :, -n:] = True
    return mask


def padding_left_one_too_few(lengths, size, side="right"):
    """On the left side the first token counts as filling. With 3 tokens in 5 places they are 2, 3,
    4: place >= 5 − 3, where 2 itself belongs to it.
    """
    return _tokens(lengths, size, side) & (
        side == "right" or np.arange(size) > size - np.asarray(lengths)[:, None, None]
    )


def padding_left_sentences_reversed(lengths, size, side="right"):
    """On the left side the sentences are in reverse order, and the filling is still on the right:
    [::-1] turns axis 0 round. The places are the last axis: [..., ::-1].
    """
    mask = _tokens(lengths, size)
    return mask[::-1] if side == "left" else mask


def padding_numbers(lengths, size, side="right"):
    """The entries are 1 and 0, as tokenizers give them, not True and False. `~` and `&` read such
    numbers otherwise than you mean: return the comparison itself, or .astype(bool).
    """
    return _tokens(lengths, size, side).astype(int)


def padding_additive(lengths, size, side="right"):
    """The entries are 0 and −inf, to be added to scores. That is another kind of mask; here it is
    boolean, True where the key is a token.
    """
    return np.where(_tokens(lengths, size, side), 0.0, -np.inf)


PADDING = {
    "True taken for hidden": padding_inverted,
    "no axis for the queries": padding_two_axes,
    "side has no effect": padding_ignores_side,
    "left and right exchanged": padding_sides_exchanged,
    "one place too many": padding_one_too_many,
    "one place too few": padding_one_too_few,
    "queries hidden instead of keys": padding_of_queries,
    "repeated for every query": padding_square,
    "left side counted from the wrong end": padding_left_from_length,
    "left side of an empty sentence": padding_left_minus_zero,
    "one place too few on the left": padding_left_one_too_few,
    "left side turns the batch round": padding_left_sentences_reversed,
    "numbers instead of booleans": padding_numbers,
    "0 and −inf instead of booleans": padding_additive,
}

# combine_masks


def _and(*masks):
    """The right mask."""
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else combined & mask
    return combined


def combine_or(*masks):
    """What any mask allows is allowed. It takes all of them: `&` (and), not `|` (or) or `+`, which
    is "or" for booleans.
    """
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else combined | mask
    return combined


def combine_first_two(*masks):
    """Only the first two masks count. There may be any number: go through all of `masks`."""
    return _and(*masks[:2])


def combine_last(*masks):
    """Only the last mask counts. In the loop, combine each with what you have so far: combined =
    combined & mask.
    """
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask
    return combined


def combine_first(*masks):
    """Only the first mask counts. Is the `return` inside the loop?"""
    for mask in masks:
        if mask is not None:
            return mask
    return None


def combine_true(*masks):
    """Where there is nothing to combine, the result is True instead of None. None is the mask that
    hides nothing: return it.
    """
    combined = _and(*masks)
    return np.array(True) if combined is None else combined


def combine_none_wins(*masks):
    """One None makes the whole result None, and all the other masks are lost. Leave None out and
    combine the rest.
    """
    return None if any(mask is None for mask in masks) else _and(*masks)


def combine_none_hides(*masks):
    """A None hides everything. It stands for a mask that hides nothing: leave it out."""
    if all(mask is None for mask in masks):
        return None
    return _and(*(np.array(False) if mask is None else mask for mask in masks))


def combine_in_place(*masks):
    """`&=` (or `combined[...] =`) writes into the caller's first mask. Write combined = combined &
    mask, which makes a new array.
    """
    given = [mask for mask in masks if mask is not None]
    if not given:
        return None
    combined = given[0]
    if combined.shape == np.broadcast_shapes(*(mask.shape for mask in given)):
        for mask in given[1:]:
            combined &= mask
        return combined
    return _and(*given)


def combine_numbers(*masks):
    """The result holds 1 and 0, not True and False. Combine booleans with `&` or np.logical_and,
    and they stay booleans.
    """
    combined = _and(*masks)
    return None if combined is None else combined.astype(float)


def combine_equal(*masks):
    """Allowed is what the masks agree about, also where both say False: that is `==`. What both
    allow is `&`.
    """
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else combined == mask
    return combined


COMBINE = {
    "or instead of and": combine_or,
    "the first two masks only": combine_first_two,
    "the last mask only": combine_last,
    "the first mask only": combine_first,
    "True instead of None": combine_true,
    "one None, and all is lost": combine_none_wins,
    "None hides everything": combine_none_hides,
    "changed a mask in place": combine_in_place,
    "numbers instead of booleans": combine_numbers,
    "== instead of &": combine_equal,
}
