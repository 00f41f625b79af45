"""Chapter 06, tables: how learned positions and T5's bias go wrong in practice.

Each is written as a learner might write it; its docstring is what the learner is told. It is told
to whoever's code behaves alike, so it speaks of what comes out before it guesses at code.
"""

import math

import torch
from attend_solutions.positions import LearnedPositions

# LearnedPositions


def _refuse(end, rows):
    if end > rows:
        raise ValueError(f"position {end - 1} lies past the table's {rows} rows")


class IgnoresStart(LearnedPositions):
    """The first token always gets row 0. With `start` it gets row `start`, the next one the row
    after that: slice the table from start to start + T.
    """

    def forward(self, x, start=0):
        """x with rows of the table."""
        _refuse(start + x.shape[-2], len(self.table))
        return x + self.table[: x.shape[-2]]


class EndIsLength(LearnedPositions):
    """The slice ends at row T, wherever it starts: with `start` some rows are missing. It must run
    from start to start + T.
    """

    def forward(self, x, start=0):
        """x with rows of the table."""
        _refuse(start + x.shape[-2], len(self.table))
        return x + self.table[start : max(x.shape[-2], start + 1)]


class AnswersPastTheEnd(LearnedPositions):
    """No ValueError where the table ends. A slice that is too long comes out shorter, and then the
    sum fails with another error, or, if a single row is left, adds that row to every token. Compare
    start + T with the number of rows first.
    """

    def forward(self, x, start=0):
        """x with rows of the table."""
        return x + self.table[start : start + x.shape[-2]]


class OneRowTooEarly(LearnedPositions):
    """The last row of the table is refused, though it can be used: the end of a slice is not part
    of it, so start + T may be equal to the number of rows.
    """

    def forward(self, x, start=0):
        """x with rows of the table."""
        end = start + x.shape[-2]
        _refuse(end + 1, len(self.table))
        return x + self.table[start:end]


class LastRowAgain(LearnedPositions):
    """Tokens past the end get the last row again (the positions are clamped). Then the model sees
    many tokens at one place and nobody is told. Raise a ValueError.
    """

    def forward(self, x, start=0):
        """x with rows of the table."""
        rows = torch.arange(start, start + x.shape[-2]).clamp(max=len(self.table) - 1)
        return x + self.table[rows]


class FromTheTopAgain(LearnedPositions):
    """Tokens past the end start from the first row again (the positions are taken modulo the number
    of rows). Then different places look alike and nobody is told. Raise a ValueError.
    """

    def forward(self, x, start=0):
        """x with rows of the table."""
        return x + self.table[torch.arange(start, start + x.shape[-2]) % len(self.table)]


class CountsSequences(LearnedPositions):
    """The length is read from an axis that need not be the tokens': shape[1], or shape[0]. There
    may be any number of axes before the last two; the tokens' is x.shape[-2].
    """

    def forward(self, x, start=0):
        """x with rows of the table."""
        end = start + x.shape[1]
        _refuse(end, len(self.table))
        return x + self.table[start:end]


class CountsFirstAxis(LearnedPositions):
    """The length is read from the first axis, which counts sequences, not tokens. The tokens' axis
    is the last but one: x.shape[-2].
    """

    def forward(self, x, start=0):
        """x with rows of the table."""
        end = start + len(x)
        _refuse(end, len(self.table))
        return x + self.table[start:end]


class RowsOnly(LearnedPositions):
    """What comes back are rows of the table alone, without the tokens. Add them to x."""

    def forward(self, x, start=0):
        """x with rows of the table."""
        end = start + x.shape[-2]
        _refuse(end, len(self.table))
        return self.table[start:end].expand(x.shape).clone()


class Multiplies(LearnedPositions):
    """The tokens are multiplied by the rows. They are added: x + rows."""

    def forward(self, x, start=0):
        """x with rows of the table."""
        end = start + x.shape[-2]
        _refuse(end, len(self.table))
        return x * self.table[start:end]


class InPlace(LearnedPositions):
    """`x += …` writes into the caller's tensor. Return a new one: x + rows."""

    def forward(self, x, start=0):
        """x with rows of the table."""
        end = start + x.shape[-2]
        _refuse(end, len(self.table))
        x += self.table[start:end]
        return x


class Detached(LearnedPositions):
    """The numbers are right, but no gradient reaches the table (.data, .detach() or no_grad), so it
    would never learn. Use self.table itself.
    """

    def forward(self, x, start=0):
        """x with rows of the table."""
        end = start + x.shape[-2]
        _refuse(end, len(self.table))
        return x + self.table.data[start:end]


LEARNED = {
    "ignored start": IgnoresStart,
    "the slice ends at T": EndIsLength,
    "no error past the end": AnswersPastTheEnd,
    "refused the last row": OneRowTooEarly,
    "clamped past the end": LastRowAgain,
    "started from the top again": FromTheTopAgain,
    "length from the second axis": CountsSequences,
    "length from the first axis": CountsFirstAxis,
    "rows without tokens": RowsOnly,
    "multiplied by the rows": Multiplies,
    "changed x in place": InPlace,
    "table cut from the graph": Detached,
}

# relative_bias


def _bias(
    table,
    relative,
    bidirectional,
    max_distance,
    *,
    sign=1,
    halve=True,
    ahead=0,
    exact_share=2,
    log=True,
    last=True,
    look_back=lambda r: (-r).clamp(min=0),
    whole=torch.floor,
):
    """The answer with one thing changed."""
    relative = sign * relative
    one_side, first = len(table), torch.zeros_like(relative)
    if bidirectional:
        one_side = one_side // 2 if halve else one_side
        first = (relative > ahead).long() * (len(table) // 2)
        distance = relative.abs()
    else:
        distance = look_back(relative)
    exact = one_side // exact_share
    share = (distance / exact).log() / math.log(max_distance / exact) if log else distance * 0.0
    far = exact + (one_side - exact) * share if log else distance.double()
    far = whole(far).clamp(0, one_side - 1 if last else 10**9)
    bucket = first + torch.where(distance < exact, distance, far.long())
    return table[bucket.clamp(max=len(table) - 1)].movedim(-1, 0)


def bias_other_sign(table, relative, bidirectional=True, max_distance=128):
    """Keys before and after the query have changed places. `relative` is the key's position minus
    the query's: negative for keys before it, which have the first half of the table.
    """
    return _bias(table, relative, bidirectional, max_distance, sign=-1)


def bias_whole_table_both_ways(table, relative, bidirectional=True, max_distance=128):
    """With bidirectional each side has only half of the table, and your ranges are made for all of
    it: halve the number of buckets before you halve it again for the exact ones.
    """
    return _bias(table, relative, bidirectional, max_distance, halve=False)


def bias_clipped(table, relative, bidirectional=True, max_distance=128):
    """Every distance has a bucket of its own until the buckets run out (as in Shaw et al. 2018). T5
    gives only half of a side's buckets to single distances; the others get ranges that widen like a
    logarithm, up to max_distance.
    """
    return _bias(table, relative, bidirectional, max_distance, log=False)


def bias_future_by_distance(table, relative, bidirectional=True, max_distance=128):
    """Without bidirectional, keys after the query are treated like keys as far before it. They all
    count as distance 0: clamp, do not take the absolute value.
    """
    return _bias(table, relative, bidirectional, max_distance, look_back=torch.abs)


def bias_rounded(table, relative, bidirectional=True, max_distance=128):
    """Far distances come out a bucket too high here and there: the logarithm is rounded to the
    nearest whole number. Cut it off (floor, or .long()).
    """
    return _bias(table, relative, bidirectional, max_distance, whole=torch.round)


def bias_fixed_distance(table, relative, bidirectional=True, max_distance=128):
    """Your buckets end at 128 whatever max_distance says. Use the argument."""
    return _bias(table, relative, bidirectional, 128)


def bias_ignores_direction(table, relative, bidirectional=True, max_distance=128):
    """Both sides of the query share buckets even where bidirectional is True. Keys after the query
    have the second half of the table: add half of its length to their bucket.
    """
    return _bias(table, relative, bidirectional, max_distance, ahead=10**9)


def bias_query_in_second_half(table, relative, bidirectional=True, max_distance=128):
    """The query itself, at distance 0, gets the second half of the table. Only keys after it do:
    relative > 0, not >= 0.
    """
    return _bias(table, relative, bidirectional, max_distance, ahead=-1)


def bias_always_both_ways(table, relative, bidirectional=True, max_distance=128):
    """bidirectional=False changes nothing in your answer. Then the whole table serves keys at or
    before the query, and keys after it count as distance 0.
    """
    return _bias(table, relative, True, max_distance)


def bias_quarter_exact(table, relative, bidirectional=True, max_distance=128):
    """Too few distances have a bucket of their own: a quarter of a side's buckets instead of half.
    Was the number of buckets halved once too often?
    """
    return _bias(table, relative, bidirectional, max_distance, exact_share=4)


def bias_halved_by_division(table, relative, bidirectional=True, max_distance=128):
    """A half of the buckets was made by `/`, which gives a float, and a table cannot be indexed by
    floats. Halve with `//`.
    """
    one_side, first = len(table), 0
    distance = (-relative).clamp(min=0)
    if bidirectional:
        one_side = one_side / 2
        first, distance = (relative > 0) * one_side, relative.abs()
    exact = one_side // 2
    share = (distance / exact).log() / math.log(max_distance / exact)
    far = (exact + (one_side - exact) * share).clamp(0, one_side - 1).long()
    return table[first + torch.where(distance < exact, distance, far)].movedim(-1, 0)


def bias_heads_last(table, relative, bidirectional=True, max_distance=128):
    """Your heads are the last axis, as the table has them. Scores are (H, T, S): move the last axis
    to the front.
    """
    return _bias(table, relative, bidirectional, max_distance).movedim(0, -1)


def bias_detached(table, relative, bidirectional=True, max_distance=128):
    """The numbers are right, but no gradient reaches the table (.data, .detach() or no_grad), so it
    would never learn. Index the table itself.
    """
    return _bias(table.detach(), relative, bidirectional, max_distance)


BIAS = {
    "before and after exchanged": bias_other_sign,
    "the whole table for each side": bias_whole_table_both_ways,
    "a bucket for every distance": bias_clipped,
    "keys ahead count by distance": bias_future_by_distance,
    "rounded instead of cut off": bias_rounded,
    "ignored max_distance": bias_fixed_distance,
    "one half for both directions": bias_ignores_direction,
    "the query itself in the second half": bias_query_in_second_half,
    "ignored bidirectional=False": bias_always_both_ways,
    "a quarter of the buckets exact": bias_quarter_exact,
    "halved with / instead of //": bias_halved_by_division,
    "heads last": bias_heads_last,
    "table cut from the graph": bias_detached,
}
