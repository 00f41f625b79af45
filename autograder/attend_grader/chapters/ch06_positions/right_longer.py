"""Chapter 06, longer texts: other right ways to write each answer. All must get full marks."""

import math

import numpy as np
import torch
from attend_solutions.positions import angular_frequencies

# alibi_slopes


def slopes_recursive(heads):
    """As in the code released with the paper."""

    def power_of_two(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    def get(n):
        if math.log2(n).is_integer():
            return power_of_two(n)
        below = 2 ** math.floor(math.log2(n))
        return power_of_two(below) + get(2 * below)[0::2][: n - below]

    return torch.tensor(get(heads))


def slopes_by_exponents(heads):
    """Exponents first, as whole numbers over the power of two."""
    below = 1 << (heads.bit_length() - 1)
    steps = [8 * h / below for h in range(1, below + 1)]
    steps += [4 * h / below for h in range(1, 2 * (heads - below), 2)]
    return torch.exp2(-torch.tensor(steps))


SLOPES = {"recursive": slopes_recursive, "exponents first": slopes_by_exponents}

# alibi_bias


def alibi_by_loops(slopes, query_positions, key_positions):
    """Number by number."""
    bias = torch.zeros(len(slopes), len(query_positions), len(key_positions))
    for h, t, s in np.ndindex(*bias.shape):
        bias[h, t, s] = -slopes[h] * abs(int(query_positions[t]) - int(key_positions[s]))
    return bias


def alibi_einsum(slopes, query_positions, key_positions):
    """cdist, then an outer product with the slopes."""
    queries, keys = (p.to(slopes.dtype)[:, None] for p in (query_positions, key_positions))
    return torch.einsum("h,ts->hts", -slopes, torch.cdist(queries, keys, p=1))


def alibi_of_the_smaller(slopes, query_positions, key_positions):
    """The smaller of the two signed differences."""
    offset = key_positions.view(1, 1, -1) - query_positions.view(1, -1, 1)
    return slopes.reshape(-1, 1, 1) * torch.minimum(offset, -offset)


ALIBI = {
    "number by number": alibi_by_loops,
    "cdist and einsum": alibi_einsum,
    "smaller of two differences": alibi_of_the_smaller,
}

# position_interpolation


def interpolation_branches(positions, trained_length, length):
    """Asks first."""
    positions = positions.to(torch.float64)
    if length <= trained_length:
        return positions
    return positions / (length / trained_length)


def interpolation_numpy(positions, trained_length, length):
    """In NumPy."""
    factor = np.minimum(1, np.float64(trained_length) / length)
    return torch.from_numpy(np.asarray(positions, dtype=np.float64) * factor)


INTERPOLATION = {"asks first": interpolation_branches, "NumPy": interpolation_numpy}

# ntk_scale


def ntk_by_logarithms(width, base, factor):
    """Sums of logarithms."""
    return math.exp(math.log(base) + math.log(factor) * width / (width - 2))


def ntk_by_the_slowest(width, base, factor):
    """Solves for the base whose slowest pair has a frequency `factor` times smaller."""
    slowest = base ** (-(width - 2) / width) / factor
    return slowest ** (-width / (width - 2))


NTK = {"logarithms": ntk_by_logarithms, "solved for the base": ntk_by_the_slowest}

# yarn_frequencies


def yarn_by_loops(width, base, factor, trained_length, alpha=1.0, beta=32.0):
    """Pair by pair, asking where on the ramp it is."""
    found = []
    for i in range(0, width, 2):
        rate = 1 / base ** (i / width)
        turns = trained_length / (2 * math.pi / rate)
        if turns < alpha:
            found.append(rate / factor)
        elif turns > beta:
            found.append(rate)
        else:
            keep = (turns - alpha) / (beta - alpha)
            found.append((1 - keep) * rate / factor + keep * rate)
    return torch.tensor(found, dtype=torch.float64), 1 + math.log(factor) / 10


def yarn_lerp(width, base, factor, trained_length, alpha=1.0, beta=32.0):
    """lerp between the slowed and the plain frequencies, by wavelengths."""
    plain = angular_frequencies(width, base)
    wavelengths = 2 * torch.pi / plain
    share = torch.clamp((trained_length / wavelengths - alpha) / (beta - alpha), min=0, max=1)
    return torch.lerp(plain / factor, plain, share), float(0.1 * np.log(factor) + 1.0)


YARN = {"pair by pair": yarn_by_loops, "lerp": yarn_lerp}
