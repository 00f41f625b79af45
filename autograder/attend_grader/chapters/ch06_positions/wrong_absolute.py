"""Chapter 06, sines: how the encoding and its shift go wrong in practice.

Each function is written as a learner might write it; its docstring is what the learner is told. It
is told to whoever's code behaves alike, so it speaks of what comes out before it guesses at code.
"""

import math

import torch
from attend_solutions.positions import angular_frequencies

# sinusoidal_encoding


def sinusoid_in_halves(positions, width, base=10_000.0):
    """All sines come first, then all cosines. Here they take turns: column 2i is the sine and
    column 2i + 1 the cosine of the same angle. Stack the two along a new last axis and flatten it.
    """
    angles = positions[:, None] * angular_frequencies(width, base)
    return torch.cat((angles.sin(), angles.cos()), dim=-1).float()


def sinusoid_cosine_first(positions, width, base=10_000.0):
    """Your even columns hold cosines. Position 0 must read 0, 1, 0, 1, …: the sine comes first."""
    angles = positions[:, None] * angular_frequencies(width, base)
    return torch.stack((angles.cos(), angles.sin()), dim=-1).flatten(-2).float()


def sinusoid_own_frequency(positions, width, base=10_000.0):
    """Every column has a frequency of its own. The two columns of a pair share one: column 2i + 1
    is the cosine of the very angle whose sine is in column 2i.
    """
    columns = torch.arange(width, dtype=torch.float64)
    angles = positions[:, None] * base ** (-columns / width)
    return torch.where(columns % 2 == 0, angles.sin(), angles.cos()).float()


def sinusoid_half_exponent(positions, width, base=10_000.0):
    """Your frequencies fall only half as fast: the exponent is i / C where it must be 2i / C."""
    pairs = torch.arange(width // 2, dtype=torch.float64)
    angles = positions[:, None] * base ** (-pairs / width)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).float()


def sinusoid_frequencies_grow(positions, width, base=10_000.0):
    """Your frequencies grow from pair to pair: the position is multiplied by base^(2i/C), or
    divided by a frequency. They must fall: multiply by angular_frequencies(width, base).
    """
    angles = positions[:, None] / angular_frequencies(width, base)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).float()


def sinusoid_ignores_base(positions, width, base=10_000.0):
    """Your answer does not depend on the base. Pass it on: angular_frequencies(width, base)."""
    angles = positions[:, None] * angular_frequencies(width)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).float()


def sinusoid_counts(positions, width, base=10_000.0):
    """You encode 0, 1, 2, … whatever the positions are. Use the numbers in `positions`."""
    angles = torch.arange(len(positions))[:, None] * angular_frequencies(width, base)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).float()


def sinusoid_in_float32(positions, width, base=10_000.0):
    """Near 0 all is right, but far out digits are lost: the angles were rounded to float32.
    Multiply in float64, take sine and cosine, and only then convert.
    """
    angles = positions[:, None].float() * angular_frequencies(width, base).float()
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


def sinusoid_product_in_float32(positions, width, base=10_000.0):
    """Near 0 all is right, but far out digits are lost: position times frequency is right, and
    then the angles themselves are converted to float32. Take sine and cosine first, then convert.
    """
    angles = (positions[:, None] * angular_frequencies(width, base)).float()
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


def sinusoid_in_turns(positions, width, base=10_000.0):
    """Your angles are 2π times too large. The frequencies are radians a step: no 2π is needed."""
    angles = 2 * math.pi * positions[:, None] * angular_frequencies(width, base)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).float()


def sinusoid_stays_float64(positions, width, base=10_000.0):
    """All numbers are right, but they come in float64, while embeddings are float32. Convert the
    finished table with .float().
    """
    angles = positions[:, None] * angular_frequencies(width, base)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


def sinusoid_transposed(positions, width, base=10_000.0):
    """Your pairs are laid side by side without taking turns in each row: the stacked axis comes
    before the pairs. Stack along the last axis, dim=-1, then flatten the last two.
    """
    angles = positions[:, None] * angular_frequencies(width, base)
    return torch.stack((angles.sin(), angles.cos()), dim=0).reshape(len(positions), width).float()


SINUSOID = {
    "sines first, then cosines": sinusoid_in_halves,
    "cosine before sine": sinusoid_cosine_first,
    "a frequency for every column": sinusoid_own_frequency,
    "exponent i/C instead of 2i/C": sinusoid_half_exponent,
    "frequencies grow": sinusoid_frequencies_grow,
    "ignored the base": sinusoid_ignores_base,
    "counted instead of reading positions": sinusoid_counts,
    "angles in float32": sinusoid_in_float32,
    "angles converted before the sine": sinusoid_product_in_float32,
    "angles in turns, not radians": sinusoid_in_turns,
    "left in float64": sinusoid_stays_float64,
    "stacked along the first axis": sinusoid_transposed,
}

# shift_matrix


def _blocks(a, b, c, d):
    return torch.block_diag(*torch.stack((a, b, c, d), dim=-1).unflatten(-1, (2, 2))).float()


def shift_backwards(offset, width, base=10_000.0):
    """Your matrix shifts by −offset: it is the transpose of the right one. The pair is (sin, cos)
    in this order, so the minus sign stands in the lower left: (cos, sin) above (−sin, cos).
    """
    angles = offset * angular_frequencies(width, base)
    return _blocks(angles.cos(), -angles.sin(), angles.sin(), angles.cos())


def shift_without_minus(offset, width, base=10_000.0):
    """There is no minus sign in your blocks. cos(a + b) = cos a cos b − sin a sin b: the sine in
    the lower left is negative, or lengths would change.
    """
    angles = offset * angular_frequencies(width, base)
    return _blocks(angles.cos(), angles.sin(), angles.sin(), angles.cos())


def shift_swapped(offset, width, base=10_000.0):
    """Sine and cosine have changed places in your blocks. An offset of 0 must give the identity:
    the cosines stand on the diagonal.
    """
    angles = offset * angular_frequencies(width, base)
    return _blocks(angles.sin(), angles.cos(), -angles.cos(), angles.sin())


def shift_in_halves(offset, width, base=10_000.0):
    """Your pairs are the columns i and i + C/2. In this encoding sine and cosine of a pair are
    neighbours, columns 2i and 2i + 1, so the 2 × 2 blocks lie along the diagonal.
    """
    angles = offset * angular_frequencies(width, base)
    cos, sin = torch.diag(angles.cos()), torch.diag(angles.sin())
    return torch.cat((torch.cat((cos, sin), 1), torch.cat((-sin, cos), 1))).float()


def shift_one_frequency(offset, width, base=10_000.0):
    """All your blocks turn by the same angle. Pair i turns by offset · θ_i."""
    angles = torch.full((width // 2,), float(offset), dtype=torch.float64)
    return _blocks(angles.cos(), angles.sin(), -angles.sin(), angles.cos())


def shift_ignores_base(offset, width, base=10_000.0):
    """Your matrix does not depend on the base. Pass it on: angular_frequencies(width, base)."""
    angles = offset * angular_frequencies(width)
    return _blocks(angles.cos(), angles.sin(), -angles.sin(), angles.cos())


def shift_in_float32(offset, width, base=10_000.0):
    """Small offsets are right, large ones lose digits: the angles were rounded to float32. Multiply
    in float64, take sine and cosine, and only then convert.
    """
    angles = offset * angular_frequencies(width, base).float()
    return _blocks(angles.cos(), angles.sin(), -angles.sin(), angles.cos())


def shift_product_in_float32(offset, width, base=10_000.0):
    """Small offsets are right, large ones lose digits: offset times frequency is right, and then
    the angles themselves are converted to float32. Take sine and cosine first, then convert.
    """
    angles = (offset * angular_frequencies(width, base)).float()
    return _blocks(angles.cos(), angles.sin(), -angles.sin(), angles.cos())


def shift_without_sign(offset, width, base=10_000.0):
    """An offset of −3 gives the same matrix as 3: its sign is lost. A shift back is a rotation the
    other way; use the offset as it is.
    """
    angles = abs(offset) * angular_frequencies(width, base)
    return _blocks(angles.cos(), angles.sin(), -angles.sin(), angles.cos())


def shift_left_in_float64(offset, width, base=10_000.0):
    """All numbers are right, but they come in float64, while encodings are float32. Convert the
    finished matrix with .float().
    """
    angles = offset * angular_frequencies(width, base)
    cos, sin = angles.cos(), angles.sin()
    return torch.block_diag(*torch.stack((cos, sin, -sin, cos), dim=-1).unflatten(-1, (2, 2)))


def shift_diagonal_only(offset, width, base=10_000.0):
    """Only the diagonal of your matrix is filled. A shift mixes sine and cosine of a pair: each
    block has two more numbers beside the diagonal.
    """
    angles = offset * angular_frequencies(width, base)
    return torch.diag(angles.cos().repeat_interleave(2)).float()


def shift_whole_steps(offset, width, base=10_000.0):
    """Parts of a step are cut off: offset 0.5 is taken for 0. An offset need not be whole; do not
    convert it to an integer.
    """
    angles = int(offset) * angular_frequencies(width, base)
    return _blocks(angles.cos(), angles.sin(), -angles.sin(), angles.cos())


SHIFT = {
    "shifts backwards": shift_backwards,
    "no minus sign": shift_without_minus,
    "cosines beside the diagonal": shift_swapped,
    "pairs the two halves": shift_in_halves,
    "one frequency for all pairs": shift_one_frequency,
    "ignored the base": shift_ignores_base,
    "angles in float32": shift_in_float32,
    "angles converted before the sine": shift_product_in_float32,
    "ignored the offset's sign": shift_without_sign,
    "left in float64": shift_left_in_float64,
    "diagonal only": shift_diagonal_only,
    "whole steps only": shift_whole_steps,
}
