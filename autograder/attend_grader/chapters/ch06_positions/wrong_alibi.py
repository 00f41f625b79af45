"""Chapter 06, ALiBi: how its slopes and its bias go wrong in practice.

Each function is written as a learner might write it; its docstring is what the learner is told. It
is told to whoever's code behaves alike, so it speaks of what comes out before it guesses at code.
"""

import math

import torch

# alibi_slopes


def _of(heads):
    """The slopes of a power of two."""
    return 2.0 ** (-8 / heads * torch.arange(1, heads + 1))


def _right(heads):
    """The slopes of any number of heads."""
    power = 2 ** int(math.log2(heads))
    return torch.cat((_of(power), _of(2 * power)[::2][: heads - power]))


def slopes_same_formula(heads):
    """2^(−8h/H) is used for every number of heads. That is right for powers of two; for others,
    take the slopes of the largest power of two below, then every other slope of twice that many
    heads.
    """
    return _of(heads)


def slopes_from_zero(heads):
    """Your first slope is 1: h was counted from 0. It runs from 1 to H."""
    return _right(heads) * (2.0 ** (8 / 2 ** int(math.log2(heads))))


def slopes_first_of_twice(heads):
    """What is added after the power of two are the first slopes of twice as many heads. Take every
    other one, beginning with the first: [0::2].
    """
    power = 2 ** int(math.log2(heads))
    return torch.cat((_of(power), _of(2 * power)[: heads - power]))


def slopes_second_of_twice(heads):
    """What is added after the power of two are the 2nd, 4th, 6th slope of twice as many heads:
    those are there already. Take the 1st, 3rd, 5th: [0::2].
    """
    power = 2 ** int(math.log2(heads))
    return torch.cat((_of(power), _of(2 * power)[1::2][: heads - power]))


def slopes_power_above(heads):
    """For other numbers than powers of two you take the slopes of the next power above and leave
    out the last. Take those of the power below, then every other slope of twice as many heads.
    """
    return _of(2 ** math.ceil(math.log2(heads)))[:heads]


def slopes_sorted(heads):
    """The right slopes in another order. Those of the power of two come first, then those added."""
    return _right(heads).sort(descending=True).values


def slopes_growing(heads):
    """Your slopes are above 1 and grow: the exponent has lost its minus sign. It is 2^(−8h/H)."""
    return 1 / _right(heads)


def slopes_power_strictly_below(heads):
    """A power of two is treated like any other number: it gets the slopes of half as many heads
    first. The largest power of two that is not above 8 is 8 itself.
    """
    power = 1
    while 2 * power < heads:
        power *= 2
    return torch.cat((_of(power), _of(2 * power)[::2][: heads - power]))


def slopes_left_in_float64(heads):
    """All numbers are right, but they come in float64, while scores are float32. Convert them with
    .float(), or count with a float32 tensor.
    """
    return _right(heads).double()


def slopes_halved(heads):
    """Your slopes halve from head to head, whatever their number. For H heads (a power of two) the
    ratio is 2^(−8/H), so that the last slope is always 1/256.
    """
    power = 2 ** int(math.log2(heads))
    return _right(heads).log2().mul(power / 8).exp2()


def slopes_negative(heads):
    """Your slopes are negative. They are positive here; the minus sign belongs to the bias."""
    return -_right(heads)


def slopes_as_a_list(heads):
    """The numbers are right, but they come as a list, which does not calculate with tensors. Make a
    tensor of it: torch.tensor(…).
    """
    return _right(heads).tolist()


SLOPES = {
    "one formula for all head counts": slopes_same_formula,
    "counted heads from 0": slopes_from_zero,
    "the first of twice as many": slopes_first_of_twice,
    "the even ones of twice as many": slopes_second_of_twice,
    "the power of two above": slopes_power_above,
    "sorted": slopes_sorted,
    "halved from head to head": slopes_halved,
    "negative slopes": slopes_negative,
    "exponent without its minus": slopes_growing,
    "a power of two passed over": slopes_power_strictly_below,
    "left in float64": slopes_left_in_float64,
    "a list": slopes_as_a_list,
}

# alibi_bias


def _bias(slopes, query_positions, key_positions):
    return -slopes[:, None, None] * (query_positions[:, None] - key_positions).abs()


def alibi_bonus(slopes, query_positions, key_positions):
    """Distance is rewarded: your bias is positive. It is a penalty: minus slope times distance."""
    return -_bias(slopes, query_positions, key_positions)


def alibi_signed(slopes, query_positions, key_positions):
    """Keys after the query get a bonus: the distance has kept its sign. Take its absolute value."""
    return -slopes[:, None, None] * (query_positions[:, None] - key_positions)


def alibi_nothing_ahead(slopes, query_positions, key_positions):
    """Keys after the query have no penalty at all: the distance is held at 0 or above (clamp). It
    has no sign: take the absolute value.
    """
    distance = (query_positions[:, None] - key_positions).clamp(min=0)
    return -slopes[:, None, None] * distance


def alibi_keys_by_queries(slopes, query_positions, key_positions):
    """Your rows are keys and your columns queries. Scores are (H, T, S): queries as a column, keys
    as a row.
    """
    return _bias(slopes, key_positions, query_positions)


def alibi_heads_last(slopes, query_positions, key_positions):
    """Your heads are the last axis. Scores are (H, T, S): give the slopes two axes behind theirs,
    slopes[:, None, None].
    """
    return _bias(slopes, query_positions, key_positions).movedim(0, -1)


def alibi_counts(slopes, query_positions, key_positions):
    """You count the tokens of each tensor from 0. A single new query would stand at 0, far from the
    keys just before it. Use the positions given.
    """
    queries, keys = torch.arange(len(query_positions)), torch.arange(len(key_positions))
    return _bias(slopes, queries, keys)


def alibi_by_key_only(slopes, query_positions, key_positions):
    """Your bias grows with the key's position and does not look at the query's. Under a causal mask
    the softmax cannot tell the two apart, which some code uses to save work. Here the bias itself
    is asked for: minus slope times distance.
    """
    return (slopes[:, None, None] * key_positions).expand(-1, len(query_positions), -1).clone()


def alibi_squared(slopes, query_positions, key_positions):
    """Your penalty grows with the square of the distance. It is linear: that is the L in ALiBi."""
    distance = query_positions[:, None] - key_positions
    return -slopes[:, None, None] * distance**2


def alibi_hides_later(slopes, query_positions, key_positions):
    """Keys after the query have no finite bias: a causal mask is built in. The mask is another
    term; here such a key is penalised like one as far before the query.
    """
    bias = _bias(slopes, query_positions, key_positions)
    return bias.masked_fill(key_positions > query_positions[:, None], -math.inf)


def alibi_one_slope(slopes, query_positions, key_positions):
    """All heads have the slope of the first. Each has its own, from steep to nearly flat."""
    return _bias(slopes[:1].expand(len(slopes)), query_positions, key_positions)


ALIBI = {
    "a bonus for distance": alibi_bonus,
    "the sign of the distance kept": alibi_signed,
    "no penalty for keys ahead": alibi_nothing_ahead,
    "keys and queries exchanged": alibi_keys_by_queries,
    "heads last": alibi_heads_last,
    "counted instead of reading positions": alibi_counts,
    "by the key's position alone": alibi_by_key_only,
    "squared distance": alibi_squared,
    "a causal mask built in": alibi_hides_later,
    "one slope for all heads": alibi_one_slope,
}
