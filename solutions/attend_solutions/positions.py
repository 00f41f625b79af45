"""Positions added to or turned into what attention compares: sines, tables, buckets, rotations.

Attention sees a set. Four ways to tell it where a token is, with p a position and θ_i an angle per
step, i = 0 … C/2 − 1:

    θ_i = base^(−2i/C)                                      angular frequencies
    PE(p) = (sin pθ_0, cos pθ_0, sin pθ_1, cos pθ_1, …)     added to the embedding of a token
    PE(p) = row p of a table that is trained                the same
    score(m, n) ← score(m, n) + table[bucket(n − m)]        added to the scores, trained
    (x_i, x_{i+D/2}) turned by the angle pθ_i               done to queries and keys

Letters:
    B    sequences in a batch           C    width of an embedding
    H    heads                          D    width of a query and of a key; its θ_i use D for C
    T    queries, or tokens             S    keys
    m    a query's position             n    a key's position

Angles are worked out in float64: at position 10⁵ float32 angles are off by thousandths.

Source: Vaswani et al. 2017, "Attention Is All You Need", §3.5; Gehring et al. 2017, "Convolutional
Sequence to Sequence Learning", §3.1; Raffel et al. 2020, "Exploring the Limits of Transfer Learning
with a Unified Text-to-Text Transformer", §2.1; Su et al. 2021, "RoFormer", §3.
"""

import math

import torch
from torch import Tensor, nn


def angular_frequencies(width: int, base: float = 10_000.0) -> Tensor:
    """Give the angle per step of each pair of numbers: from 1 falling towards 1 / base.

    Shapes:
        returns: (width / 2,) in float64, where width is even

    Source: Vaswani et al. 2017, §3.5; Su et al. 2021, §3.2.2.

    >>> angular_frequencies(4, base=100.0)
    tensor([1.0000, 0.1000], dtype=torch.float64)
    """
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


def sinusoidal_encoding(positions: Tensor, width: int, base: float = 10_000.0) -> Tensor:
    """Encode positions by sines and cosines, a pair for each angular frequency θ_i.

    Column 2i holds sin(pθ_i), column 2i + 1 holds cos(pθ_i). The angles are worked out in float64,
    so that the answer is good to 1e-6 at any position up to a million; it is returned in float32.

    Shapes:
        positions: (T,), whole numbers or not, also below 0, in any order
        returns: (T, C) in float32, where C = width is even

    The positions are not modified.

    Source: Vaswani et al. 2017, §3.5.

    >>> sinusoidal_encoding(torch.tensor([0, 2]), width=4, base=100.0)
    tensor([[ 0.0000,  1.0000,  0.0000,  1.0000],
            [ 0.9093, -0.4161,  0.1987,  0.9801]])
    """
    angles = positions[:, None] * angular_frequencies(width, base)  # (T, C/2) in float64
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).float()


def shift_matrix(offset: float, width: int, base: float = 10_000.0) -> Tensor:
    """Give the matrix M with M @ PE(p) = PE(p + offset) for every position p.

    PE(p) is what sinusoidal_encoding gives for p, as a column. M depends on the offset alone. It
    turns each pair (sin, cos) by the pair's angle.

    Shapes:
        returns: (C, C) in float32, where C = width is even

    The offset may be negative, and need not be whole. Its angles are worked out in float64.

    Source: Vaswani et al. 2017, §3.5 ("PE_{pos+k} can be represented as a linear function of
    PE_pos").

    >>> shift_matrix(math.pi / 2, width=2).round(decimals=3)  # a quarter turn
    tensor([[ 0.,  1.],
            [-1.,  0.]])
    """
    angles = offset * angular_frequencies(width, base)  # (C/2,)
    cos, sin = angles.cos(), angles.sin()
    blocks = torch.stack((cos, sin, -sin, cos), dim=-1).unflatten(-1, (2, 2))  # (C/2, 2, 2)
    return torch.block_diag(*blocks).float()


class LearnedPositions(nn.Module):
    """Add a trained vector to every token: one row of a table for each position.

    Source: Gehring et al. 2017, §3.1; Devlin et al. 2019, "BERT", §3 (its position embeddings).
    """

    def __init__(self, max_length: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(0.02 * torch.randn(max_length, width))  # (max_length, C)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Return x with the rows start, start + 1, … of the table added to its tokens, in order.

        Shapes:
            x: (..., T, C), tokens at the positions start … start + T - 1
            returns: (..., T, C)

        x is not modified. Raises ValueError where a token lies past the end of the table.

        >>> positions = LearnedPositions(max_length=3, width=2)
        >>> positions.load_state_dict({"table": torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])})
        <All keys matched successfully>
        >>> positions(torch.zeros(1, 2, 2), start=1).tolist()
        [[[3.0, 4.0], [5.0, 6.0]]]
        """
        ### BEGIN SOLUTION
        end = start + x.shape[-2]
        if end > self.table.shape[0]:
            raise ValueError(f"position {end - 1} lies past the table's {self.table.shape[0]} rows")
        return x + self.table[start:end]
        ### END SOLUTION


def relative_bias(
    table: Tensor, relative: Tensor, bidirectional: bool = True, max_distance: int = 128
) -> Tensor:
    """Look up what T5 adds to the score of each query and key, by how far apart they are.

    Distances share buckets. Let side be how many buckets there are for one side of the query, and
    exact = side // 2. A distance below exact has a bucket of its own; a larger one, d, has bucket

        exact + floor((side - exact) · ln(d / exact) / ln(max_distance / exact)),

    but at most side - 1. If ``bidirectional``, the first half of the table (side = buckets // 2)
    serves keys at or before the query, the second half keys after it. Else the whole table (side =
    buckets) serves keys at or before it, and keys after it count as distance 0.

    Shapes:
        table: (buckets, H), a trained number for each bucket and head
        relative: (T, S), whole numbers: the key's position minus the query's
        returns: (H, T, S)

    exact is at least 1 and smaller than max_distance. The inputs are not modified.

    Source: Raffel et al. 2020, §2.1; the formula is in the code released with it.

    >>> table = torch.tensor([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [7.0]])
    >>> relative = torch.tensor([[-50, -5, -1, 0, 1, 50]])
    >>> relative_bias(table, relative, max_distance=16)
    tensor([[[3., 2., 1., 0., 5., 7.]]])
    >>> relative_bias(table, relative, bidirectional=False, max_distance=16)
    tensor([[[7., 4., 1., 0., 0., 0.]]])
    """
    one_side = table.shape[0]
    first = torch.zeros_like(relative)
    if bidirectional:
        one_side = one_side // 2
        first = (relative > 0) * one_side
        distance = relative.abs()
    else:
        distance = (-relative).clamp(min=0)
    exact = one_side // 2
    share = torch.log(distance / exact) / math.log(max_distance / exact)
    far = (exact + share * (one_side - exact)).clamp(0, one_side - 1).long()
    return table[first + torch.where(distance < exact, distance, far)].movedim(-1, 0)


def apply_rope(x: Tensor, positions: Tensor, frequencies: Tensor) -> Tensor:
    """Turn each pair of numbers of each query (or key) by its position times the pair's frequency.

    Pair i is (x_i, x_{i + D/2}); it is turned counter-clockwise, from the first number's axis
    towards the second's. Angles, sines and cosines are worked out in float64; the answer has the
    dtype of x.

    Shapes:
        x: (..., T, D), D even: queries or keys
        positions: (T,), or (..., 1, T) for sequences whose positions differ
        frequencies: (D/2,), angle per step of each pair, as angular_frequencies gives them
        returns: (..., T, D)

    The inputs are not modified.

    Source: Su et al. 2021, §3.4.2, which pairs neighbours (x_{2i}, x_{2i+1}); the pairs above are
    those of GPT-NeoX and of Hugging Face's Llama.

    >>> x = torch.tensor([[1.0, 4.0, 0.0, 5.0]])  # the pairs are (1, 0) and (4, 5)
    >>> frequencies = torch.tensor([math.pi / 6, 0.0], dtype=torch.float64)
    >>> apply_rope(x, torch.tensor([3]), frequencies).round(decimals=3)  # a quarter turn; none
    tensor([[0., 4., 1., 5.]])
    """
    angles = positions[..., None].double() * frequencies.double()  # (..., T, D/2)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def repaired_rope(
    q: Tensor, k: Tensor, positions: Tensor, frequencies: Tensor
) -> tuple[Tensor, Tensor]:
    """Turn queries and keys of the same positions, with halves as pairs.

    Pair i is (x_i, x_{i + D/2}), as in apply_rope. The suspect function laid its angles out for
    halves, (θ_0, θ_1, …, θ_0, θ_1, …), but took the partner of a number from its neighbour.

    Shapes:
        q, k: (..., T, D), D even
        positions: (T,), or (..., 1, T) for sequences whose positions differ
        frequencies: (D/2,)
        returns: q and k, turned, in their own shapes and dtypes

    The inputs are not modified.

    Source: Su et al. 2021, §3.4.2; the pairs are those of GPT-NeoX.

    >>> x = torch.tensor([[1.0, 4.0, 0.0, 5.0]])
    >>> frequencies = torch.tensor([math.pi / 6, 0.0], dtype=torch.float64)
    >>> repaired_rope(x, 2 * x, torch.tensor([3]), frequencies)[1].round(decimals=3)
    tensor([[ 0.,  8.,  2., 10.]])
    """
    angles = positions[..., None].double() * frequencies.double()
    angles = torch.cat((angles, angles), dim=-1)  # (..., T, D)

    def turn(x: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=-1)
        partner = torch.cat((-second, first), dim=-1)
        return x * angles.cos().to(x.dtype) + partner * angles.sin().to(x.dtype)

    return turn(q), turn(k)
