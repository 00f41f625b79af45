"""Positions beyond the trained length: a penalty for distance, and RoPE read more slowly.

    score(m, n) ← score(m, n) − slope_h · |m − n|         ALiBi: a slope for each head h
    p → p · T_0 / T                                       position interpolation (PI)
    base → base · factor^(D/(D−2))                        NTK-aware scaling
    θ_i → keep_i · θ_i + (1 − keep_i) · θ_i / factor      YaRN: fast pairs keep all, slow ones none

Letters:
    H    heads                          T    queries, or tokens of a text
    D    width of a query and of a key  S    keys
    m    a query's position             n    a key's position
    T_0 is the length that was trained, T that of the text, and factor = T / T_0.

Source: Press, Smith and Lewis 2022, "Train Short, Test Long: Attention with Linear Biases Enables
Input Length Extrapolation"; Chen et al. 2023, "Extending Context Window of Large Language Models
via Positional Interpolation"; Peng et al. 2023, "YaRN: Efficient Context Window Extension of Large
Language Models".
"""

import math

import torch
from torch import Tensor

from attend_solutions.positions import angular_frequencies


def alibi_slopes(heads: int) -> Tensor:
    """Give the slope of each head's penalty for distance.

    For a power of two, head h = 1 … H has 2^(−8h/H). For another number of heads, let power be the
    largest power of two below it: first come the slopes of that many heads, then the first, third,
    fifth … slope of twice as many heads, until there are H.

    Shapes:
        returns: (H,) in float32

    Source: Press et al. 2022, §3, and the code released with it for other numbers of heads.

    >>> alibi_slopes(4)
    tensor([0.2500, 0.0625, 0.0156, 0.0039])
    >>> alibi_slopes(3)  # those of 2 heads, then the first of 4 heads
    tensor([0.0625, 0.0039, 0.2500])
    """
    power = 2 ** int(math.log2(heads))
    slopes = 2.0 ** (-8 / power * torch.arange(1, power + 1))
    between = 2.0 ** (-4 / power * torch.arange(1, 2 * power, 2))
    return torch.cat((slopes, between))[:heads]


def alibi_bias(slopes: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Give what ALiBi adds to the scores: minus slope times distance.

    Shapes:
        slopes: (H,)
        query_positions: (T,), whole numbers up to a million, int64 or int32
        key_positions: (S,), likewise
        returns: (H, T, S), floating point

    The distance has no sign: a key after the query is penalised like one as far before it. The
    inputs are not modified.

    Source: Press et al. 2022, §3, figure 3.

    >>> alibi_bias(torch.tensor([0.5, 0.25]), torch.tensor([2]), torch.tensor([0, 1, 2, 3]))
    tensor([[[-1.0000, -0.5000, -0.0000, -0.5000]],
    <BLANKLINE>
            [[-0.5000, -0.2500, -0.0000, -0.2500]]])
    """
    distance = (query_positions[:, None] - key_positions).abs()  # (T, S)
    return -slopes[:, None, None] * distance


def position_interpolation(positions: Tensor, trained_length: int, length: int) -> Tensor:
    """Squeeze the positions of a longer text into the range that was trained.

    Shapes:
        positions: one axis or more; whole numbers below length (int64, int32 or floats): all of a
            text's positions or some
        returns: the same shape in float64; below trained_length

    A text no longer than trained_length keeps its positions (in float64). The input is not
    modified.

    Source: Chen et al. 2023, §2.3, equation (4).

    >>> position_interpolation(torch.tensor([0, 1, 5]), trained_length=2, length=8)
    tensor([0.0000, 0.2500, 1.2500], dtype=torch.float64)
    """
    return positions.double() * min(1.0, trained_length / length)


def ntk_scale(width: int, base: float, factor: float) -> float:
    """Give the base with which RoPE's slowest pair turns ``factor`` times more slowly.

    The fastest pair turns as before (θ_0 = 1 for every base), those between are spread evenly.

    Shapes:
        width: D, even and at least 4
        base, factor: above 0
        returns: one Python float

    Source: bloc97 2023, "NTK-Aware Scaled RoPE"; Peng et al. 2023, definition 1.

    >>> ntk_scale(6, base=100.0, factor=4.0)  # 4^(6/4) = 8
    800.0
    """
    return base * factor ** (width / (width - 2))


def yarn_frequencies(
    width: int,
    base: float,
    factor: float,
    trained_length: int,
    alpha: float = 1.0,
    beta: float = 32.0,
) -> tuple[Tensor, float]:
    """Slow down the pairs that did not turn full circle in training, and leave the fast ones.

    Within the trained length pair i makes trained_length · θ_i / 2π turns. With more than
    ``beta`` turns it keeps its frequency θ_i; with fewer than ``alpha`` it gets θ_i / factor; in
    between, the share of θ_i that it keeps grows linearly with its turns.

    Shapes:
        returns: frequencies (D/2,) in float64, where D = width is even, and the number
            0.1 ln(factor) + 1 as a Python float: queries and keys are both multiplied by it

    The factor is at least 1, and alpha is smaller than beta.

    Source: Peng et al. 2023, definitions 2 and 3.

    >>> frequencies, scale = yarn_frequencies(4, 100.0, 8.0, trained_length=63, alpha=0, beta=2)
    >>> frequencies, round(scale, 3)  # 10 turns and 1.003 turns: the second keeps 0.5013
    (tensor([1.0000, 0.0564], dtype=torch.float64), 1.208)
    """
    plain = angular_frequencies(width, base)
    turns = trained_length * plain / (2 * math.pi)
    keep = ((turns - alpha) / (beta - alpha)).clamp(0, 1)
    return keep * plain + (1 - keep) * plain / factor, 0.1 * math.log(factor) + 1
