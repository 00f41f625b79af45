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


class KnowsNoStart(LearnedPositions):
    """`start` is not used at all: the first token always gets row 0, and only T is compared with
    the number of rows. The rows run from start to start + T, and so does what must fit.
    """

    def forward(self, x, start=0):
        """x with rows of the table."""
        _refuse(x.shape[-2], len(self.table))
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


class OneRowTooLate(LearnedPositions):
    """One position too many is let through, and then a row serves tokens that it does not belong
    to, or none is left. The end of a slice is not part of it: refuse as soon as start + T is more
    than the number of rows, not start + T − 1.
    """

    def forward(self, x, start=0):
        """x with rows of the table."""
        end = start + x.shape[-2]
        _refuse(end - 1, len(self.table))
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
    "start not used at all": KnowsNoStart,
    "the slice ends at T": EndIsLength,
    "no error past the end": AnswersPastTheEnd,
    "refused the last row": OneRowTooEarly,
    "refused a row too late": OneRowTooLate,
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
    halves=2,
    second=None,
    ahead=0,
    exact_share=2,
    span=lambda one_side, exact: one_side - exact,
    log=True,
    last=True,
    look_back=lambda r: (-r).clamp(min=0),
    whole=torch.floor,
):
    """The answer with one thing changed."""
    relative = sign * relative
    one_side, first = len(table), torch.zeros_like(relative)
    if bidirectional:
        one_side = one_side // halves
        first = (relative > ahead).long() * (second or len(table) // 2)
        distance = relative.abs()
    else:
        distance = look_back(relative)
    exact = one_side // exact_share
    share = (distance / exact).log() / math.log(max_distance / exact)
    far = exact + span(one_side, exact) * share if log else distance.double()
    far = whole(far).clamp(0, one_side - 1 if last else 10**9)
    return table[first + torch.where(distance < exact, distance, far.long())].movedim(-1, 0)


def bias_other_sign(table, relative, bidirectional=True, max_distance=128):
    """Keys before and after the query have changed places. `relative` is the key's position minus
    the query's: negative for keys before it, which have the first half of the table.
    """
    return _bias(table, relative, bidirectional, max_distance, sign=-1)


def bias_never_halved(table, relative, bidirectional=True, max_distance=128):
    """With bidirectional each side has only half of the table, and yours has all of it: keys after
    the query end up past the table's end, and far keys before it in the half that is not theirs.
    The buckets of one side are len(table) // 2.
    """
    every = len(table)
    return _bias(table, relative, bidirectional, max_distance, halves=1, second=every)


def bias_whole_table_both_ways(table, relative, bidirectional=True, max_distance=128):
    """With bidirectional each side has only half of the table, and your ranges are made for all of
    it: halve the number of buckets before you halve it again for the exact ones.
    """
    return _bias(table, relative, bidirectional, max_distance, halves=1)


def bias_second_half_too_early(table, relative, bidirectional=True, max_distance=128):
    """The buckets of keys after the query begin too early: at the number of exact buckets, a
    quarter of the table. They begin at half of the table: all buckets of one side come before.
    """
    return _bias(table, relative, bidirectional, max_distance, second=len(table) // 4)


def bias_no_last_bucket(table, relative, bidirectional=True, max_distance=128):
    """Buckets of far keys run past the last bucket of their side, into the other half or past the
    table's end. Hold them at one side's number of buckets minus 1: .clamp(0, … − 1).
    """
    return _bias(table, relative, bidirectional, max_distance, last=False)


def bias_looks_ahead(table, relative, bidirectional=True, max_distance=128):
    """Looking back, before and after have changed places: keys before the query count as distance
    0 and those after it by how far they are. Keys before it have a negative `relative`: the
    distance is −relative, but at least 0.
    """
    return _bias(table, relative, bidirectional, max_distance, look_back=lambda r: r.clamp(min=0))


def bias_spread_too_wide(table, relative, bidirectional=True, max_distance=128):
    """Far distances climb too fast: the logarithm is multiplied by all buckets of a side. Only
    those that are not exact are left to share, one side's buckets minus the exact ones.
    """
    return _bias(
        table, relative, bidirectional, max_distance, span=lambda one_side, exact: one_side
    )


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
    "did not halve the table": bias_never_halved,
    "ranges made for the whole table": bias_whole_table_both_ways,
    "second half begun too early": bias_second_half_too_early,
    "no last bucket": bias_no_last_bucket,
    "looked ahead instead of back": bias_looks_ahead,
    "the logarithm spread too wide": bias_spread_too_wide,
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
