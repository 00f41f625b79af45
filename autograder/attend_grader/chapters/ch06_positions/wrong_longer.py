"""Chapter 06, longer texts: how the ways to slow RoPE down go wrong in practice.

Each function is written as a learner might write it; its docstring is what the learner is told. It
is told to whoever's code behaves alike, so it speaks of what comes out before it guesses at code.
"""

import math

import torch
from attend_solutions.positions import angular_frequencies

# position_interpolation


def interpolation_inverse(positions, trained_length, length):
    """Positions are stretched, not squeezed: the factor is upside down. It is trained / wanted."""
    return positions.double() * max(1.0, length / trained_length)


def interpolation_always(positions, trained_length, length):
    """Texts that fit are stretched to the trained length. They keep their positions: the factor is
    at most 1.
    """
    return positions.double() * trained_length / length


def interpolation_whole(positions, trained_length, length):
    """Your positions are whole numbers, so neighbours share one. Divide without cutting off: `/`,
    not `//`, and no conversion to integers.
    """
    return (positions.double() * min(1.0, trained_length / length)).floor()


def interpolation_whole_division(positions, trained_length, length):
    """Your positions come as whole numbers, so that neighbours share one. Divide by `/`, not by
    `//`, and convert with .double().
    """
    if length <= trained_length:
        return positions
    return positions * trained_length // length


def interpolation_short_as_they_came(positions, trained_length, length):
    """Longer texts are right, but a text that fits gives back whole numbers, just as they came in.
    Asked for are float64 positions, always: positions.double().
    """
    return positions.double() * (trained_length / length) if length > trained_length else positions


def interpolation_by_count(positions, trained_length, length):
    """You divide by how many positions there are, len(positions) or the like, where the text's
    length is wanted. `positions` may hold only some of them: use the argument `length`.
    """
    return positions.double() * min(1.0, trained_length / positions.numel())


def interpolation_whole_factor(positions, trained_length, length):
    """The ratio of the lengths is cut to a whole number. Divide with `/`, not `//`."""
    return positions.double() / max(1, length // trained_length)


def interpolation_clamped(positions, trained_length, length):
    """Positions past the trained range are all set to its end. They must stay apart: squeeze all of
    them by the same factor.
    """
    return positions.double().clamp(max=trained_length - 1)


def interpolation_wraps(positions, trained_length, length):
    """Positions past the trained range start again from 0. They must stay apart: squeeze all of
    them by the same factor.
    """
    return positions.double() % trained_length


def interpolation_to_last(positions, trained_length, length):
    """The last position is mapped to the last trained one, by (trained − 1) / (wanted − 1).
    Chen et al. multiply by trained / wanted.
    """
    return positions.double() * min(1.0, (trained_length - 1) / (length - 1))


def interpolation_not_at_all(positions, trained_length, length):
    """Your positions are those that came in. Those of a longer text are multiplied by trained /
    wanted length.
    """
    return positions.double()


def interpolation_in_float32(positions, trained_length, length):
    """Your positions come in float32. Angles are made from them, and far out these need float64:
    use .double() before you multiply.
    """
    return positions.float() * min(1.0, trained_length / length)


def interpolation_doubled_late(positions, trained_length, length):
    """The dtype is float64, but the values are right to seven digits only: whole numbers times a
    Python float are float32, and .double() comes too late. Convert before you multiply.
    """
    return (positions * min(1.0, trained_length / length)).double()


INTERPOLATION = {
    "stretched instead of squeezed": interpolation_inverse,
    "stretched short texts": interpolation_always,
    "whole positions": interpolation_whole,
    "divided with //": interpolation_whole_division,
    "short texts as they came": interpolation_short_as_they_came,
    "counted the positions given": interpolation_by_count,
    "a whole factor": interpolation_whole_factor,
    "clamped": interpolation_clamped,
    "started from 0 again": interpolation_wraps,
    "last to last": interpolation_to_last,
    "changed nothing": interpolation_not_at_all,
    "positions in float32": interpolation_in_float32,
    "converted too late": interpolation_doubled_late,
}

# ntk_scale


def ntk_base_times_factor(width, base, factor):
    """The base is multiplied by the factor itself. Then the slowest pair turns too fast, as its
    exponent is (D − 2)/D, not 1: multiply by factor^(D/(D−2)).
    """
    return base * factor


def ntk_exponent_inverse(width, base, factor):
    """The exponent is upside down: (D−2)/D instead of D/(D−2)."""
    return base * factor ** ((width - 2) / width)


def ntk_squared(width, base, factor):
    """The base is multiplied by the factor's square. That is right for width 4 only: D/(D−2)."""
    return base * factor**2


def ntk_minus_one(width, base, factor):
    """The exponent is D/(D−1), but the slowest frequency is base^(−(D−2)/D): it is D/(D−2)."""
    return base * factor ** (width / (width - 1))


def ntk_per_pair(width, base, factor):
    """The exponent counts pairs where it should count numbers: with D/2 pairs it is (D/2)/(D/2 −
    1), which is D/(D−2), not (D/2)/(D/2 − 2).
    """
    return base * factor ** (width / max(width - 4, 1))


def ntk_divides(width, base, factor):
    """Your base shrinks, so the slow pairs turn faster. Multiply by the power of the factor."""
    return base / factor ** (width / (width - 2))


def ntk_inner_brackets(width, base, factor):
    """Python reads `width / width - 2` as (width / width) − 2, which is −1. Put width − 2 in
    brackets: factor ** (width / (width - 2)).
    """
    return base * factor ** (width / width - 2)


def ntk_power_of_product(width, base, factor):
    """The base itself is raised to D/(D−2) too. Only the factor is: base * factor ** (…)."""
    return (base * factor) ** (width / (width - 2))


def ntk_precedence(width, base, factor):
    """Python reads `factor ** width / (width - 2)` as (factor ** width) / (width − 2). Put the
    exponent in brackets: factor ** (width / (width - 2)).
    """
    return base * factor**width / (width - 2)


def ntk_in_float32(width, base, factor):
    """The value is right to seven digits: it was worked out in a float32 tensor. Return a Python
    float: no tensor is needed, `**` takes numbers.
    """
    return torch.tensor(base) * torch.tensor(factor) ** (width / (width - 2))


NTK = {
    "base times factor": ntk_base_times_factor,
    "exponent upside down": ntk_exponent_inverse,
    "factor squared": ntk_squared,
    "exponent D/(D−1)": ntk_minus_one,
    "exponent D/(D−4)": ntk_per_pair,
    "divided": ntk_divides,
    "width − 2 without brackets": ntk_inner_brackets,
    "the base raised too": ntk_power_of_product,
    "exponent without brackets": ntk_precedence,
    "a float32 tensor": ntk_in_float32,
}

# yarn_frequencies


def _yarn(width, base, factor, trained_length, alpha, beta, *, keep=None, scale=None):
    """The answer with another share kept, or another factor for queries and keys."""
    plain = angular_frequencies(width, base)
    turns = trained_length * plain / (2 * math.pi)
    share = ((turns - alpha) / (beta - alpha)).clamp(0, 1) if keep is None else keep(turns, plain)
    scale = 0.1 * math.log(factor) + 1 if scale is None else scale
    return share * plain + (1 - share) * plain / factor, scale


def yarn_other_way(width, base, factor, trained_length, alpha=1.0, beta=32.0):
    """Fast pairs are slowed and slow pairs kept: the ramp runs the wrong way. A pair with many
    turns keeps its frequency.
    """

    def keep(turns, plain):
        return 1 - ((turns - alpha) / (beta - alpha)).clamp(0, 1)

    return _yarn(width, base, factor, trained_length, alpha, beta, keep=keep)


def yarn_without_two_pi(width, base, factor, trained_length, alpha=1.0, beta=32.0):
    """Your turns are 2π times too many: trained_length · θ is an angle in radians. A full turn is
    2π.
    """

    def keep(turns, plain):
        return ((trained_length * plain - alpha) / (beta - alpha)).clamp(0, 1)

    return _yarn(width, base, factor, trained_length, alpha, beta, keep=keep)


def yarn_times_pi(width, base, factor, trained_length, alpha=1.0, beta=32.0):
    """Your turns are π² times too many: Python reads `/ 2 * math.pi` as (… / 2) · π. Put the
    divisor in brackets: / (2 * math.pi).
    """

    def keep(turns, plain):
        return ((trained_length * plain / 2 * math.pi - alpha) / (beta - alpha)).clamp(0, 1)

    return _yarn(width, base, factor, trained_length, alpha, beta, keep=keep)


def yarn_fixed_ends(width, base, factor, trained_length, alpha=1.0, beta=32.0):
    """Your ramp runs from 1 to 32 turns whatever alpha and beta say. Use the arguments."""
    return _yarn(width, base, factor, trained_length, 1.0, 32.0)


def yarn_in_float32(width, base, factor, trained_length, alpha=1.0, beta=32.0):
    """The frequencies are right to seven digits: a float32 tensor was at work. Far out angles need
    float64: start from angular_frequencies, without .float().
    """
    frequencies, scale = _yarn(width, base, factor, trained_length, alpha, beta)
    return frequencies.float(), scale


def yarn_scale_in_float32(width, base, factor, trained_length, alpha=1.0, beta=32.0):
    """The factor for queries and keys is right to seven digits: it was worked out in a float32
    tensor. Return a Python float: math.log takes numbers.
    """
    frequencies, _ = _yarn(width, base, factor, trained_length, alpha, beta)
    return frequencies, 0.1 * torch.log(torch.tensor(factor)) + 1


def yarn_without_clamp(width, base, factor, trained_length, alpha=1.0, beta=32.0):
    """The share that a pair keeps leaves the range from 0 to 1: pairs with more than beta turns
    speed up, others turn backwards. Clamp it to 0 … 1.
    """

    def keep(turns, plain):
        return (turns - alpha) / (beta - alpha)

    return _yarn(width, base, factor, trained_length, alpha, beta, keep=keep)


def yarn_by_index(width, base, factor, trained_length, alpha=1.0, beta=32.0):
    """Your ramp is linear in the pair's index, as in the code released with the paper (and in
    Hugging Face's). The paper's definition, which is asked for here, is linear in the number of
    turns.
    """

    def keep(turns, plain):
        def index(wanted):
            ratio = trained_length / (wanted * 2 * math.pi)
            return width * math.log(ratio) / (2 * math.log(base))

        low = max(math.floor(index(beta)), 0)
        high = min(math.ceil(index(alpha)), width - 1)
        pairs = torch.arange(width // 2, dtype=torch.float64)
        return 1 - ((pairs - low) / max(high - low, 1e-3)).clamp(0, 1)

    return _yarn(width, base, factor, trained_length, alpha, beta, keep=keep)


def yarn_step(width, base, factor, trained_length, alpha=1.0, beta=32.0):
    """Pairs are either kept or slowed, with no ramp between: those between alpha and beta turns
    keep a share that grows from 0 to 1.
    """

    def keep(turns, plain):
        return (turns > beta).double()

    return _yarn(width, base, factor, trained_length, alpha, beta, keep=keep)


def yarn_divides_by_beta(width, base, factor, trained_length, alpha=1.0, beta=32.0):
    """The ramp does not reach 1 at beta turns: it is divided by beta where it should be divided by
    beta − alpha.
    """

    def keep(turns, plain):
        return ((turns - alpha) / beta).clamp(0, 1)

    return _yarn(width, base, factor, trained_length, alpha, beta, keep=keep)


def yarn_everything_slowed(width, base, factor, trained_length, alpha=1.0, beta=32.0):
    """All pairs are slowed by the factor: that is position interpolation. Fast pairs keep their
    frequency.
    """

    def keep(turns, plain):
        return torch.zeros_like(plain)

    return _yarn(width, base, factor, trained_length, alpha, beta, keep=keep)


def yarn_blends_factors(width, base, factor, trained_length, alpha=1.0, beta=32.0):
    """You blend the divisors, 1 and factor, where the frequencies themselves, θ and θ / factor,
    must be blended. The two agree at the ends of the ramp only.
    """
    plain = angular_frequencies(width, base)
    turns = trained_length * plain / (2 * math.pi)
    share = ((turns - alpha) / (beta - alpha)).clamp(0, 1)
    return plain / (share + (1 - share) * factor), 0.1 * math.log(factor) + 1


def yarn_decimal_logarithm(width, base, factor, trained_length, alpha=1.0, beta=32.0):
    """Your factor for queries and keys is too small: it is made with the logarithm to base 10. ln
    is math.log.
    """
    scale = 0.1 * math.log10(factor) + 1
    return _yarn(width, base, factor, trained_length, alpha, beta, scale=scale)


def yarn_without_one(width, base, factor, trained_length, alpha=1.0, beta=32.0):
    """Your factor for queries and keys lacks the + 1: with it a factor of 1 changes nothing."""
    scale = 0.1 * math.log(factor)
    return _yarn(width, base, factor, trained_length, alpha, beta, scale=scale)


def yarn_scores_factor(width, base, factor, trained_length, alpha=1.0, beta=32.0):
    """You return the square of the factor, by which the scores grow. Asked for is the factor for
    queries and for keys, 0.1 ln(factor) + 1; as both have it, the scores get its square.
    """
    scale = (0.1 * math.log(factor) + 1) ** 2
    return _yarn(width, base, factor, trained_length, alpha, beta, scale=scale)


def yarn_one_result(width, base, factor, trained_length, alpha=1.0, beta=32.0):
    """There is one result, the frequencies. Return the factor for queries and keys too: `return
    frequencies, scale`.
    """
    return _yarn(width, base, factor, trained_length, alpha, beta)[0]


YARN = {
    "ramp the wrong way": yarn_other_way,
    "radians instead of turns": yarn_without_two_pi,
    "times π instead of divided": yarn_times_pi,
    "alpha and beta ignored": yarn_fixed_ends,
    "frequencies in float32": yarn_in_float32,
    "the factor as a float32 tensor": yarn_scale_in_float32,
    "no clamp": yarn_without_clamp,
    "ramp over the index": yarn_by_index,
    "a step instead of a ramp": yarn_step,
    "divided by beta": yarn_divides_by_beta,
    "slowed every pair": yarn_everything_slowed,
    "blended divisors": yarn_blends_factors,
    "logarithm to base 10": yarn_decimal_logarithm,
    "forgot the + 1": yarn_without_one,
    "the scores' factor": yarn_scores_factor,
    "frequencies alone": yarn_one_result,
}
