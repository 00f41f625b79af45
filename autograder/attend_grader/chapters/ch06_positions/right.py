"""Chapter 06: other right ways to write each answer. All must get full marks."""

import math
from bisect import bisect_right

import numpy as np
import torch
from attend_solutions.positions import LearnedPositions, angular_frequencies
from torch import nn

# sinusoidal_encoding


def sinusoid_by_loops(positions, width, base=10_000.0):
    """Number by number, with Python's own sine."""
    table = torch.zeros(len(positions), width)
    for row, p in enumerate(positions.tolist()):
        for i in range(0, width, 2):
            angle = p / base ** (i / width)
            table[row, i], table[row, i + 1] = math.sin(angle), math.cos(angle)
    return table


def sinusoid_by_columns(positions, width, base=10_000.0):
    """Fills the even columns, then the odd ones; the exponential of a logarithm."""
    rates = torch.exp(torch.arange(0, width, 2).double() * (-math.log(base) / width))
    angles = torch.outer(positions.to(torch.float64), rates)
    table = torch.zeros(len(positions), width)
    table[:, 0::2] = torch.sin(angles)
    table[:, 1::2] = torch.cos(angles)
    return table


def sinusoid_complex(positions, width, base=10_000.0):
    """The point e^{iα}, seen as (cos, sin), turned over."""
    angles = torch.einsum("t,c->tc", positions.double(), angular_frequencies(width, base))
    points = torch.view_as_real(torch.polar(torch.ones_like(angles), angles))
    return points.flip(-1).reshape(-1, width).to(torch.float32)


def sinusoid_numpy(positions, width, base=10_000.0):
    """In NumPy, with the cosine as a sine a quarter turn on."""
    columns = np.arange(width)
    angles = positions.double().numpy()[:, None] * base ** (-(columns // 2 * 2) / width)
    return torch.from_numpy(np.sin(angles + np.pi / 2 * (columns % 2)).astype(np.float32))


SINUSOID = {
    "number by number": sinusoid_by_loops,
    "even and odd columns": sinusoid_by_columns,
    "complex numbers": sinusoid_complex,
    "one sine, shifted": sinusoid_numpy,
}

# shift_matrix


def shift_by_loops(offset, width, base=10_000.0):
    """Block by block."""
    matrix = torch.zeros(width, width)
    for i in range(0, width, 2):
        angle = offset * base ** (-i / width)
        matrix[i, i] = matrix[i + 1, i + 1] = math.cos(angle)
        matrix[i, i + 1], matrix[i + 1, i] = math.sin(angle), -math.sin(angle)
    return matrix


def shift_by_index(offset, width, base=10_000.0):
    """Index tensors for the four numbers of all blocks."""
    angles = offset * angular_frequencies(width, base)
    even = torch.arange(0, width, 2)
    matrix = torch.zeros(width, width, dtype=torch.float64)
    matrix[even, even] = matrix[even + 1, even + 1] = angles.cos()
    matrix[even, even + 1] = angles.sin()
    matrix[even + 1, even] = -angles.sin()
    return matrix.to(torch.float32)


def shift_by_exponential(offset, width, base=10_000.0):
    """A rotation is the exponential of a skew matrix; far offsets are brought into one turn."""
    angles = (offset * angular_frequencies(width, base)).remainder(2 * math.pi)
    upper = torch.stack((angles, torch.zeros_like(angles)), dim=-1).flatten()[:-1]
    skew = torch.diag(upper, 1) - torch.diag(upper, -1)
    return torch.linalg.matrix_exp(skew).float()


SHIFT = {
    "block by block": shift_by_loops,
    "index tensors": shift_by_index,
    "matrix exponential": shift_by_exponential,
}

# LearnedPositions


class LearnedByIndex(LearnedPositions):
    """Rows by their numbers."""

    def forward(self, x, start=0):
        """x with rows of the table."""
        rows = torch.arange(start, start + x.size(-2))
        if rows[-1] >= self.table.size(0):
            raise ValueError("too long")
        return self.table[rows] + x


class LearnedByEmbedding(nn.Module):
    """torch's own embedding look-up; the parameter's start values are its own business."""

    def __init__(self, max_length, width):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(max_length, width))

    def forward(self, x, start=0):
        """x with rows of the table."""
        tokens = x.shape[-2]
        if start + tokens > len(self.table):
            raise ValueError(f"{start} + {tokens} is more than {len(self.table)}")
        places = torch.arange(tokens, device=x.device) + start
        return torch.add(x, nn.functional.embedding(places, self.table))


class LearnedByNarrow(LearnedPositions):
    """narrow, which raises of its own accord (a RuntimeError: translated)."""

    def forward(self, x, start=0):
        """x with rows of the table."""
        try:
            rows = self.table.narrow(0, start, x.shape[-2])
        except (RuntimeError, IndexError) as error:
            raise ValueError("past the end") from error
        return x + rows.expand_as(x)


LEARNED = {
    "rows by number": LearnedByIndex,
    "torch's embedding": LearnedByEmbedding,
    "narrow": LearnedByNarrow,
}

# relative_bias


def bias_by_loops(table, relative, bidirectional=True, max_distance=128):
    """Pair by pair, with Python's logarithm."""
    one_side = len(table) // 2 if bidirectional else len(table)
    exact = one_side // 2

    def bucket(r):
        distance = abs(r) if bidirectional else max(-r, 0)
        if distance >= exact:
            log = math.log(distance / exact) / math.log(max_distance / exact)
            distance = min(exact + int(log * (one_side - exact)), one_side - 1)
        return distance + (one_side if bidirectional and r > 0 else 0)

    rows = [torch.stack([table[bucket(r)] for r in row]) for row in relative.tolist()]
    return torch.stack(rows).permute(2, 0, 1)


def bias_by_edges(table, relative, bidirectional=True, max_distance=128):
    """A bucket is found among the edges; the table by an embedding."""
    n = len(table) // 2 if bidirectional else len(table)
    exact, far = n // 2, n - n // 2
    edges = [exact * (max_distance / exact) ** (i / far) - 1e-9 for i in range(far)]
    edges = [*range(1, exact), *edges]

    def bucket(r):
        if bidirectional and r > 0:
            return n + bisect_right(edges, r)
        return bisect_right(edges, -r)

    buckets = torch.tensor([[bucket(r) for r in row] for row in relative.tolist()])
    return torch.einsum("tsh->hts", nn.functional.embedding(buckets, table))


def bias_by_one_hot(table, relative, bidirectional=True, max_distance=128):
    """Logarithms to base 2 in float64, a one-hot product instead of indexing."""
    n = len(table)
    if bidirectional:
        n //= 2
        side, distance = torch.where(relative > 0, n, 0), torch.abs(relative)
    else:
        side, distance = torch.zeros_like(relative), torch.relu(-relative)
    exact = n // 2
    ratio = (distance.clamp(min=exact).double() / exact).log2() / math.log2(max_distance / exact)
    far = torch.clamp((exact + ratio * (n - exact)).floor().long(), max=n - 1)
    bucket = side + torch.where(distance < exact, distance, far)
    chosen = nn.functional.one_hot(bucket, len(table)).to(table.dtype)
    return (chosen @ table).permute(2, 0, 1).contiguous()


BIAS = {
    "pair by pair": bias_by_loops,
    "by the edges": bias_by_edges,
    "one-hot product": bias_by_one_hot,
}

# apply_rope


def rope_rotate_half(x, positions, frequencies):
    """As in Llama: cosines and sines for the whole width, and x with its halves exchanged."""
    angles = torch.einsum("...t,d->...td", positions.double(), frequencies.double())
    angles = torch.cat((angles, angles), dim=-1)
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * angles.cos().to(x.dtype) + turned * angles.sin().to(x.dtype)


def rope_complex(x, positions, frequencies):
    """One complex product, in float64."""
    half = x.shape[-1] // 2
    z = torch.complex(x[..., :half].double(), x[..., half:].double())
    angles = positions.double().unsqueeze(-1) * frequencies
    z = z * torch.exp(1j * angles)
    return torch.cat((z.real, z.imag), dim=-1).type_as(x)


def rope_by_matrices(x, positions, frequencies):
    """A rotation matrix for each position and pair, in float64."""
    angles = positions.double()[..., None] * frequencies
    cos, sin = angles.cos(), angles.sin()
    matrices = torch.stack((torch.stack((cos, -sin), -1), torch.stack((sin, cos), -1)), -2)
    pairs = x.double().unflatten(-1, (2, -1))  # (..., T, 2, D/2)
    turned = torch.einsum("...tpab,...tbp->...tap", matrices, pairs)
    return turned.flatten(-2).to(x.dtype)


def rope_by_pairs(x, positions, frequencies):
    """Pair by pair, written into a new tensor."""
    half = x.shape[-1] // 2
    out = torch.empty_like(x)
    for i, rate in enumerate(frequencies.tolist()):
        angle = positions.double() * rate
        cos, sin = torch.cos(angle).to(x.dtype), torch.sin(angle).to(x.dtype)
        out[..., i] = x[..., i] * cos - x[..., i + half] * sin
        out[..., i + half] = x[..., i] * sin + x[..., i + half] * cos
    return out


ROPE = {
    "rotate half, as in Llama": rope_rotate_half,
    "complex numbers": rope_complex,
    "rotation matrices": rope_by_matrices,
    "pair by pair": rope_by_pairs,
}
