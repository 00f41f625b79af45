# ruff: noqa: E501  # cases are code in strings, kept on their lines
"""Chapter 06: answers as an adversary writes them, from the notebook alone.

``CASES`` holds (exercise, "wrong" | "right", what it does, code). A wrong answer must lose points
on every seed, and a right one none.
"""

from __future__ import annotations

import textwrap

CASES: list[tuple[str, str, str, str]] = []

IMPORT = "from attend_solutions.positions import angular_frequencies\n"


def _cases(head: str, *cases: tuple[str, str, str]) -> None:
    for kind, what, body in cases:
        lines = textwrap.indent(body.strip("\n"), "    ")
        CASES.append((head.partition("(")[0], kind, what, f"{IMPORT}def {head}:\n{lines}\n"))


_cases(
    "sinusoidal_encoding(positions, width, base=10_000.0)",
    ("wrong", "2π in the angle", "a = 2 * math.pi * positions[:, None].double() * angular_frequencies(width, base)\nreturn torch.stack((a.sin(), a.cos()), -1).flatten(-2).float()"),
    ("wrong", "stacked in front and reshaped", "a = positions[:, None].double() * angular_frequencies(width, base)\nreturn torch.stack((a.sin(), a.cos())).reshape(len(positions), width).float()"),
    ("wrong", "exponent over width − 2", "i = torch.arange(0, width, 2).double()\na = positions[:, None].double() * base ** (-i / max(width - 2, 1))\nreturn torch.stack((a.sin(), a.cos()), -1).flatten(-2).float()"),
    ("wrong", "base cut to a whole number", "a = positions[:, None].double() * angular_frequencies(width, int(base))\nreturn torch.stack((a.sin(), a.cos()), -1).flatten(-2).float()"),
    ("wrong", "positions cut to whole numbers", "a = positions.long()[:, None] * angular_frequencies(width, base)\nreturn torch.stack((a.sin(), a.cos()), -1).flatten(-2).float()"),
    ("wrong", "float32 positions first", "a = positions.float().double()[:, None] * angular_frequencies(width, base)\nreturn torch.stack((a.sin(), a.cos()), -1).flatten(-2).float()"),
    ("wrong", "absolute positions", "a = positions.abs()[:, None] * angular_frequencies(width, base)\nreturn torch.stack((a.sin(), a.cos()), -1).flatten(-2).float()"),
    ("wrong", "scales its float64 argument in place", "p = positions.double()\np -= 0.0\np *= 1.0\np += 1\na = (p - 1)[:, None] * angular_frequencies(width, base)\nreturn torch.stack((a.sin(), a.cos()), -1).flatten(-2).float()"),
    ("wrong", "in place for floats only", "if positions.is_floating_point():\n    positions += 1\n    positions = positions - 1\na = positions[:, None] * angular_frequencies(width, base)\nreturn torch.stack((a.sin(), a.cos()), -1).flatten(-2).float()"),
    ("wrong", "table filled in the type of positions", "a = positions[:, None] * angular_frequencies(width, base)\nt = torch.zeros(len(positions), width, dtype=positions.dtype)\nt[:, ::2], t[:, 1::2] = a.sin(), a.cos()\nreturn t.float()"),
    ("wrong", "squeezed", "a = positions[:, None] * angular_frequencies(width, base)\nreturn torch.stack((a.sin(), a.cos()), -1).flatten(-2).float().squeeze()"),
    ("wrong", "divided by the largest position", "p = positions.double() / max(float(positions.max()), 1.0)\na = p[:, None] * angular_frequencies(width, base)\nreturn torch.stack((a.sin(), a.cos()), -1).flatten(-2).float()"),
    ("wrong", "half precision at the end", "a = positions[:, None] * angular_frequencies(width, base)\nreturn torch.stack((a.sin(), a.cos()), -1).flatten(-2).half().float()"),
    ("wrong", "fails on views", "a = positions.view(-1, 1) * angular_frequencies(width, base)\nassert positions.is_contiguous()\nreturn torch.stack((a.sin(), a.cos()), -1).flatten(-2).float()"),
    ("right", "one sine, shifted, in NumPy", "c = np.arange(width)\na = positions.double().numpy()[:, None] * base ** (-(c // 2 * 2) / width)\nreturn torch.from_numpy(np.sin(a + np.pi / 2 * (c % 2)).astype(np.float32))"),
    ("right", "interleaved by index", "a = torch.outer(positions.double(), angular_frequencies(width, base))\nboth = torch.cat((a.sin(), a.cos()), dim=1)\norder = torch.arange(width).view(2, -1).T.flatten()\nreturn both[:, order].to(torch.float32)"),
    ("right", "row by row", "rows = []\nfor p in positions.double():\n    a = p * angular_frequencies(width, base)\n    rows.append(torch.stack([a.sin(), a.cos()], 1).reshape(-1))\nreturn torch.stack(rows).float()"),
    ("right", "logarithms, addition theorem", "r = torch.exp(-math.log(base) * torch.arange(width // 2).double() * 2 / width)\np = positions.double()\nwhole = p.floor()\na, b = whole[:, None] * r, (p - whole)[:, None] * r\ns, c = a.sin() * b.cos() + a.cos() * b.sin(), a.cos() * b.cos() - a.sin() * b.sin()\nreturn torch.stack((s, c), -1).flatten(1).float()"),
)  # fmt: skip

_cases(
    "shift_matrix(offset, width, base=10_000.0)",
    ("wrong", "float32 offset", "a = torch.tensor(float(offset)).double() * angular_frequencies(width, base)\nb = torch.stack((a.cos(), a.sin(), -a.sin(), a.cos()), -1).unflatten(-1, (2, 2))\nreturn torch.block_diag(*b).float()"),
    ("wrong", "angles rounded after the product", "a = (offset * angular_frequencies(width, base)).float()\nb = torch.stack((a.cos(), a.sin(), -a.sin(), a.cos()), -1).unflatten(-1, (2, 2))\nreturn torch.block_diag(*b)"),
    ("wrong", "diagonal only", "a = offset * angular_frequencies(width, base)\nreturn torch.diag(a.cos().repeat_interleave(2)).float()"),
    ("wrong", "only the first block turns", "a = offset * angular_frequencies(width, base)\nm = torch.eye(width)\nm[:2, :2] = torch.tensor([[math.cos(a[0]), math.sin(a[0])], [-math.sin(a[0]), math.cos(a[0])]])\nreturn m"),
    ("wrong", "rounded offset", "a = round(offset) * angular_frequencies(width, base)\nb = torch.stack((a.cos(), a.sin(), -a.sin(), a.cos()), -1).unflatten(-1, (2, 2))\nreturn torch.block_diag(*b).float()"),
    ("wrong", "twice the angle", "a = 2 * offset * angular_frequencies(width, base)\nb = torch.stack((a.cos(), a.sin(), -a.sin(), a.cos()), -1).unflatten(-1, (2, 2))\nreturn torch.block_diag(*b).float()"),
    ("wrong", "frequencies reversed", "a = offset * angular_frequencies(width, base).flip(0)\nb = torch.stack((a.cos(), a.sin(), -a.sin(), a.cos()), -1).unflatten(-1, (2, 2))\nreturn torch.block_diag(*b).float()"),
    ("wrong", "blocks stacked, not laid out", "a = offset * angular_frequencies(width, base)\nreturn torch.stack((a.cos(), a.sin(), -a.sin(), a.cos()), -1).unflatten(-1, (2, 2)).float()"),
    ("wrong", "works for positive offsets only", "a = max(offset, 0) * angular_frequencies(width, base)\nb = torch.stack((a.cos(), a.sin(), -a.sin(), a.cos()), -1).unflatten(-1, (2, 2))\nreturn torch.block_diag(*b).float()"),
    ("wrong", "the encoding of the offset on the diagonal", "return torch.diag(sinusoidal_encoding(torch.tensor([offset]), width, base)[0])"),
    ("wrong", "base cut to a whole number", "a = offset * angular_frequencies(width, int(base))\nb = torch.stack((a.cos(), a.sin(), -a.sin(), a.cos()), -1).unflatten(-1, (2, 2))\nreturn torch.block_diag(*b).float()"),
    ("right", "index tensors", "a = offset * angular_frequencies(width, base)\ne = torch.arange(0, width, 2)\nm = torch.zeros(width, width, dtype=torch.float64)\nm[e, e] = m[e + 1, e + 1] = a.cos()\nm[e, e + 1] = a.sin()\nm[e + 1, e] = -a.sin()\nreturn m.to(torch.float32)"),
    ("right", "from the encoding of the offset", "code = sinusoidal_encoding(torch.tensor([offset], dtype=torch.float64), width, base)[0]\nm = torch.zeros(width, width)\nfor i in range(0, width, 2):\n    s, c = code[i], code[i + 1]\n    m[i : i + 2, i : i + 2] = torch.stack((c, s, -s, c)).view(2, 2)\nreturn m"),
    ("right", "diagonals", "a = (offset * angular_frequencies(width, base)).numpy()\nup = np.stack((np.sin(a), 0 * a), 1).ravel()[:-1]\nm = np.diag(np.repeat(np.cos(a), 2)) + np.diag(up, 1) - np.diag(up, -1)\nreturn torch.tensor(m, dtype=torch.float32)"),
    ("right", "kron-like product", "a = offset * angular_frequencies(width, base)\nj = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)\nm = torch.kron(torch.diag(a.cos()), torch.eye(2).double()) + torch.kron(torch.diag(a.sin()), j)\nreturn m.float()"),
)  # fmt: skip


def _learned(*cases: tuple[str, str, str]) -> None:
    head = "class LearnedPositions(nn.Module):\n    def __init__(self, max_length, width):\n        super().__init__()\n        self.table = nn.Parameter(0.02 * torch.randn(max_length, width))\n\n    def forward(self, x, start=0):\n"
    for kind, what, body in cases:
        CASES.append(("LearnedPositions", kind, what, head + textwrap.indent(body, " " * 8) + "\n"))


GUARD = "end = start + x.shape[-2]\nif end > len(self.table):\n    raise ValueError('too long')\n"

_learned(
    ("wrong", "T compared without start", "if x.shape[-2] > len(self.table):\n    raise ValueError('too long')\nreturn x + self.table[start : start + x.shape[-2]]"),
    ("wrong", "past the end modulo", "rows = torch.arange(start, start + x.shape[-2]) % len(self.table)\nreturn x + self.table[rows]"),
    ("wrong", "an IndexError past the end", "rows = torch.arange(start, start + x.shape[-2])\nreturn x + self.table[rows]"),
    ("wrong", "assert instead of ValueError", "end = start + x.shape[-2]\nassert end <= len(self.table)\nreturn x + self.table[start:end]"),
    ("wrong", "start without effect on a batch", GUARD + "if x.dim() > 2:\n    start = 0\nreturn x + self.table[start : start + x.shape[-2]]"),
    ("wrong", "in place for a single sentence", GUARD + "if len(x) == 1:\n    x += self.table[start:end]\n    return x\nreturn x + self.table[start:end]"),
    ("wrong", "data of the table", GUARD + "return x + self.table.data[start:end]"),
    ("wrong", "x detached", GUARD + "return x.detach() + self.table[start:end]"),
    ("wrong", "length of the first axis", "end = start + len(x)\nif end > len(self.table):\n    raise ValueError('too long')\nreturn x + self.table[start:end]"),
    ("wrong", "multiplied", GUARD + "return x * self.table[start:end]"),
    ("wrong", "rows in reverse order", GUARD + "return x + self.table[start:end].flip(0)"),
    ("wrong", "view, which fails on views", GUARD + "return (x.view(-1, *x.shape[-2:]) + self.table[start:end]).view(x.shape)"),
    ("wrong", "one row for all tokens", GUARD + "return x + self.table[start]"),
    ("wrong", "batches only", "b, t, c = x.shape\nif start + t > len(self.table):\n    raise ValueError('too long')\nreturn x + self.table[start : start + t]"),
    ("right", "narrow, its error translated", "try:\n    rows = self.table.narrow(0, start, x.shape[-2])\nexcept (RuntimeError, IndexError) as error:\n    raise ValueError('past the end') from error\nreturn x + rows.expand_as(x)"),
    ("right", "one-hot product", GUARD + "hot = F.one_hot(torch.arange(start, end), len(self.table)).to(x.dtype)\nreturn hot @ self.table + x"),
    ("right", "clone, then in place", GUARD + "y = x.clone()\ny += self.table[start:end]\nreturn y"),
    ("right", "index_select", "t = x.size(-2)\nif not start + t <= self.table.size(0):\n    raise ValueError(f'{start} + {t}')\nreturn x + self.table.index_select(0, torch.arange(t) + start)"),
)  # fmt: skip

T5 = """
n = len(table)
side = torch.zeros_like(relative)
if bidirectional:
    n //= 2
    side = (relative > 0).long() * n
    d = relative.abs()
else:
    d = (-relative).clamp(min=0)
exact = n // 2
ratio = (d.clamp(min=1).double() / exact).log() / math.log(max_distance / exact)
far = (exact + ratio * (n - exact)).floor().long().clamp(max=n - 1)
bucket = side + torch.where(d < exact, d, far)
return table[bucket].permute(2, 0, 1)
"""

_cases(
    "relative_bias(table, relative, bidirectional=True, max_distance=128)",
    ("wrong", "max_distance without effect", T5.replace("max_distance /", "128 /")),
    ("wrong", "the query itself in the second half", T5.replace("relative > 0", "relative >= 0")),
    ("wrong", "a quarter of the buckets exact", T5.replace("exact = n // 2", "exact = max(n // 4, 1)")),
    ("wrong", "distance + 1 in the logarithm", T5.replace("d.clamp(min=1).double()", "(d + 1).double()")),
    ("wrong", "ceil", T5.replace(".floor()", ".ceil()")),
    ("wrong", "exact distances one too few", T5.replace("d < exact", "d < exact - 1")),
    ("wrong", "logarithm to the end of the text", T5.replace("max_distance / exact)", "max(int(d.max()), exact + 1) / exact)")),
    ("wrong", "table detached", T5.replace("table[bucket]", "table.detach()[bucket]")),
    ("wrong", "table's rows changed in place", "table -= 0\ntable.mul_(2)\ntable = table / 2" + T5),
    ("wrong", "keys and queries exchanged", T5.replace("permute(2, 0, 1)", "permute(2, 1, 0)")),
    ("wrong", "squeezed", T5.replace("permute(2, 0, 1)", "permute(2, 0, 1).squeeze()")),
    ("wrong", "even number of exact buckets", T5.replace("exact = n // 2", "exact = n // 4 * 2")),
    ("wrong", "sign taken out of the argument in place", T5.replace("d = relative.abs()", "d = relative.abs_()")),
    ("wrong", "in place looking back", T5.replace("d = (-relative).clamp(min=0)", "d = relative.neg_().clamp_(min=0)")),
    ("wrong", "first head for all", T5.replace("table[bucket]", "table[:, :1].expand_as(table)[bucket]")),
    ("wrong", "half = (buckets + 1) // 2 of a side", T5.replace("exact = n // 2", "exact = (n + 1) // 2")),
    ("right", "float64 throughout", T5),
    ("right", "by the edges", "from bisect import bisect_right\nn = len(table) // 2 if bidirectional else len(table)\nexact, far = n // 2, n - n // 2\nedges = [*range(1, exact), *(exact * (max_distance / exact) ** (i / far) - 1e-9 for i in range(far))]\n\ndef bucket(r):\n    if bidirectional and r > 0:\n        return n + bisect_right(edges, r)\n    return bisect_right(edges, -r)\n\nb = torch.tensor([[bucket(r) for r in row] for row in relative.tolist()])\nreturn torch.einsum('tsh->hts', F.embedding(b, table))"),
    ("right", "one column of the table at a time", T5.replace("return table[bucket].permute(2, 0, 1)", "return torch.stack([table[:, h][bucket] for h in range(table.shape[1])])")),
    ("right", "float32, like T5's code", T5.replace(".double()", ".float()").replace("ratio * (n - exact)", "(n - exact) * ratio")),
)  # fmt: skip

ROPE = """
a = positions.double().unsqueeze(-1) * frequencies.double()
cos, sin = a.cos().to(x.dtype), a.sin().to(x.dtype)
h = x.shape[-1] // 2
u, v = x[..., :h], x[..., h:]
return torch.cat((u * cos - v * sin, v * cos + u * sin), -1)
"""

_cases(
    "apply_rope(x, positions, frequencies)",
    ("wrong", "halves exchanged in the result", ROPE.replace("(u * cos - v * sin, v * cos + u * sin)", "(v * cos + u * sin, u * cos - v * sin)")),
    ("wrong", "stacked, not joined", ROPE.replace("torch.cat(", "torch.stack(")),
    ("wrong", "results take turns", ROPE.replace("torch.cat((u * cos - v * sin, v * cos + u * sin), -1)", "torch.stack((u * cos - v * sin, v * cos + u * sin), -1).flatten(-2)")),
    ("wrong", "one frequency for all pairs", ROPE.replace("frequencies.double()", "frequencies[:1].double()")),
    ("wrong", "angle rounded to float32", ROPE.replace("* frequencies.double()", "* frequencies.double()\na = a.float()")),
    ("wrong", "float32 positions", ROPE.replace("positions.double()", "positions.float().double()")),
    ("wrong", "whole positions", ROPE.replace("positions.double()", "positions.long().double()")),
    ("wrong", "x changed through its halves", ROPE.replace("return torch.cat((u * cos - v * sin, v * cos + u * sin), -1)", "new = u * cos - v * sin\nv *= cos\nv += u * sin\nreturn torch.cat((new, v), -1)")),
    ("wrong", "frequencies scaled in place", "f = frequencies.double()\nf *= 2\nfrequencies = f / 2" + ROPE),
    ("wrong", "positions scaled in place where they are floats", "if positions.is_floating_point():\n    positions *= 2\n    positions = positions / 2" + ROPE),
    ("wrong", "x detached", ROPE.replace("u, v = x[", "x = x.detach()\nu, v = x[")),
    ("wrong", "second half detached", ROPE.replace("x[..., h:]", "x[..., h:].detach()")),
    ("wrong", "positions from 0", ROPE.replace("positions.double()", "(positions - positions.min()).double()")),
    ("wrong", "heads counted as tokens", ROPE.replace("cos, sin = a", "if x.dim() == 4:\n    a = a.transpose(-1, -2).reshape(a.shape)\ncos, sin = a")),
    ("wrong", "always float32", ROPE.replace("return torch.cat(", "x = x.float()\nreturn torch.cat(").replace("to(x.dtype)", "float()").replace("sin), -1)", "sin), -1).float()")),
    ("wrong", "no positions with axes", ROPE.replace("a = positions", "positions = positions.reshape(-1)[: x.shape[-2]]\na = positions")),
    ("wrong", "first sequence's angles", ROPE.replace("cos, sin = a", "while a.dim() > 2:\n    a = a[0]\ncos, sin = a")),
    ("wrong", "lengths doubled by a missing half", ROPE.replace("v * cos + u * sin", "v * cos + 2 * u * sin")),
    ("right", "rotation matrices", "a = positions.double()[..., None] * frequencies\nc, s = a.cos(), a.sin()\nm = torch.stack((torch.stack((c, -s), -1), torch.stack((s, c), -1)), -2)\np = x.double().unflatten(-1, (2, -1))\nreturn torch.einsum('...tpab,...tbp->...tap', m, p).flatten(-2).to(x.dtype)"),
    ("right", "neighbours, sorted there and back", "d = x.shape[-1]\ny = torch.stack(x.chunk(2, -1), -1).contiguous()\na = positions.double().unsqueeze(-1) * frequencies\nc, s = a.cos().to(x.dtype), a.sin().to(x.dtype)\ne, o = y[..., 0], y[..., 1]\nreturn torch.cat([e * c - o * s, e * s + o * c], dim=-1)"),
    ("right", "roll", "a = positions.double().unsqueeze(-1) * torch.cat((frequencies, frequencies)).double()\nh = x.shape[-1] // 2\nsign = torch.cat((-torch.ones(h), torch.ones(h))).to(x.dtype)\nreturn x * a.cos().to(x.dtype) + x.roll(h, -1) * (sign * a.sin().to(x.dtype))"),
    ("right", "in float64, converted at the end", "y = x.double()\na = positions.double().unsqueeze(-1) * frequencies.double()\nu, v = y.chunk(2, -1)\nreturn torch.cat((u * a.cos() - v * a.sin(), v * a.cos() + u * a.sin()), -1).to(x.dtype)"),
)  # fmt: skip

SLOPES = """
power = 1
while 2 * power <= heads:
    power *= 2
own = [2.0 ** (-8 * h / power) for h in range(1, power + 1)]
more = [2.0 ** (-4 * h / power) for h in range(1, 2 * power, 2)]
return torch.tensor((own + more)[:heads])
"""

_cases(
    "alibi_slopes(heads)",
    ("wrong", "negative slopes", SLOPES.replace("return torch", "return -torch")),
    ("wrong", "float64", SLOPES.replace("[:heads])", "[:heads], dtype=torch.float64)")),
    ("wrong", "a list", SLOPES.replace("torch.tensor((own + more)[:heads])", "(own + more)[:heads]")),
    ("wrong", "new ones first", SLOPES.replace("(own + more)[:heads]", "more[: heads - power] + own")),
    ("wrong", "rounded logarithm", "power = 2 ** round(math.log2(heads))\nown = [2.0 ** (-8 * h / power) for h in range(1, power + 1)]\nmore = [2.0 ** (-4 * h / power) for h in range(1, 2 * power, 2)]\nreturn torch.tensor((own + more)[:heads])"),
    ("wrong", "the last new ones", SLOPES.replace("(own + more)[:heads]", "own + more[::-1][: heads - power]")),
    ("wrong", "merged in order", SLOPES.replace("(own + more)[:heads]", "sorted((own + more)[:heads])[::-1]")),
    ("wrong", "evenly between for other numbers", SLOPES.replace("return torch", "if heads != power:\n    own, more = [2.0 ** (-8 * h / heads) for h in range(1, heads + 1)], []\nreturn torch")),
    ("wrong", "ratio of 8 heads", SLOPES.replace("-8 * h / power", "-h")),
    ("wrong", "e instead of 2", SLOPES.replace("2.0 ** (", "math.exp(")),
    ("wrong", "no new ones", SLOPES.replace("(own + more)[:heads]", "own")),
    ("wrong", "last slope 2^−7", SLOPES.replace("-8 *", "-7 *").replace("-4 *", "-3.5 *")),
    ("right", "Python lists", SLOPES),
    ("right", "bit tricks", "below = 1 << (heads.bit_length() - 1)\ne = torch.cat((torch.arange(1, below + 1) * 8 / below, torch.arange(1, 2 * below, 2) * 4 / below))\nreturn torch.exp2(-e[:heads]).float()"),
    ("right", "geometric sequences", "p = 2 ** math.floor(math.log2(heads))\nr = 2 ** (-8 / p)\na = r ** np.arange(1, p + 1)\nb = np.sqrt(r) ** np.arange(1, 2 * (heads - p), 2)\nreturn torch.tensor(np.concatenate((a, b)), dtype=torch.float32)"),
    ("right", "logspace", "p = 2 ** int(math.log2(heads))\na = torch.logspace(-8 / p, -8, p, base=2)\nb = torch.logspace(-4 / p, -8, 2 * p, base=2)[::2]\nreturn torch.cat([a, b])[:heads]"),
)  # fmt: skip

_cases(
    "alibi_bias(slopes, query_positions, key_positions)",
    ("wrong", "distance + 1", "d = (query_positions[:, None] - key_positions).abs() + 1\nreturn -slopes[:, None, None] * d"),
    ("wrong", "a negative slope taken for granted", "d = (query_positions[:, None] - key_positions).abs()\nreturn slopes[:, None, None] * d"),
    ("wrong", "weights instead of a bias", "d = (query_positions[:, None] - key_positions).abs()\nreturn torch.exp(-slopes[:, None, None] * d)"),
    ("wrong", "causal mask of 0", "d = (query_positions[:, None] - key_positions).clamp(min=0)\nreturn -slopes[:, None, None] * d"),
    ("wrong", "slopes made anew", "d = (query_positions[:, None] - key_positions).abs()\nreturn -alibi_slopes(len(slopes))[:, None, None] * d"),
    ("wrong", "counted from the end", "t, s = len(query_positions), len(key_positions)\nd = (torch.arange(s - t, s)[:, None] - torch.arange(s)).abs()\nreturn -slopes[:, None, None] * d"),
    ("wrong", "squeezed", "d = (query_positions[:, None] - key_positions).abs()\nreturn (-slopes[:, None, None] * d).squeeze()"),
    ("wrong", "slopes negated in place", "d = (query_positions[:, None] - key_positions).abs()\nreturn slopes.neg_()[:, None, None] * d"),
    ("wrong", "keys moved in place", "key_positions -= int(query_positions[0])\nd = (query_positions[:, None] - query_positions[0] - key_positions).abs()\nreturn -slopes[:, None, None] * d"),
    ("wrong", "view of the slopes", "d = (query_positions[:, None] - key_positions).abs()\nassert slopes.is_contiguous()\nreturn -slopes.view(-1, 1, 1) * d"),
    ("wrong", "queries, heads, keys", "d = (query_positions[:, None] - key_positions).abs()\nreturn -slopes[None, :, None] * d[:, None]"),
    ("wrong", "the key's distance from 0", "d = key_positions.expand(len(query_positions), -1)\nreturn -slopes[:, None, None] * d"),
    ("wrong", "logarithm of the distance", "d = (query_positions[:, None] - key_positions).abs()\nreturn -slopes[:, None, None] * torch.log1p(d)"),
    ("right", "einsum", "d = (query_positions.unsqueeze(1) - key_positions.unsqueeze(0)).abs().to(slopes.dtype)\nreturn -torch.einsum('h,ts->hts', slopes, d)"),
    ("right", "head by head", "rows = [-s * torch.abs(key_positions[None] - query_positions[:, None]) for s in slopes]\nreturn torch.stack(rows)"),
    ("right", "maximum minus minimum", "q, k = torch.meshgrid(query_positions, key_positions, indexing='ij')\nreturn torch.tensordot(slopes, torch.minimum(q, k).sub(torch.maximum(q, k))[None].to(slopes.dtype), dims=0).squeeze(1)"),
)  # fmt: skip

_cases(
    "position_interpolation(positions, trained_length, length)",
    ("wrong", "clamped", "return positions.double().clamp(max=trained_length - 1)"),
    ("wrong", "starts again", "return positions.double() % trained_length"),
    ("wrong", "nothing", "return positions.double()"),
    ("wrong", "in place on float64", "p = positions.double()\np *= min(1.0, trained_length / length)\nreturn p"),
    ("wrong", "in place where the text fits", "if length <= trained_length:\n    p = positions.double()\n    p += 0.5\n    return p - 0.5\nreturn positions.double() * trained_length / length"),
    ("wrong", "the argument itself where the text fits", "if length <= trained_length:\n    return positions\nreturn positions.double() * trained_length / length"),
    ("wrong", "float32 where the text fits", "if length <= trained_length:\n    return positions.float()\nreturn positions.double() * trained_length / length"),
    ("wrong", "largest position instead of the length", "return positions.double() * min(1.0, trained_length / (float(positions.max()) + 1))"),
    ("wrong", "rounded to whole positions", "return (positions.double() * min(1.0, trained_length / length)).round()"),
    ("wrong", "factor in float32", "f = torch.tensor(trained_length / length).clamp(max=1)\nreturn positions.double() * f.double()"),
    ("wrong", "only beyond the trained length", "p = positions.double()\nreturn torch.where(p < trained_length, p, p * trained_length / length)"),
    ("wrong", "flattened", "return positions.double().flatten() * min(1.0, trained_length / length)"),
    ("wrong", "trained length minus one", "return positions.double() * min(1.0, (trained_length - 1) / length)"),
    ("wrong", "view", "return positions.view(-1).double().view(positions.shape) * min(1.0, trained_length / length)"),
    ("right", "in NumPy", "return torch.from_numpy(positions.numpy().astype(np.float64) * min(trained_length, length) / length)"),
    ("right", "divided by the larger", "return positions.to(torch.float64) / max(length / trained_length, 1)"),
    ("right", "linspace", "scale = trained_length / length if length > trained_length else 1\nout = torch.empty(positions.shape, dtype=torch.float64)\nout.copy_(positions)\nout *= scale\nreturn out"),
)  # fmt: skip

_cases(
    "ntk_scale(width, base, factor)",
    ("wrong", "the position squeezed too", "return base / factor * factor ** (width / (width - 2))"),
    ("wrong", "exponent over pairs", "return base * factor ** (width / 2 / (width - 2))"),
    ("wrong", "whole division in the exponent", "return base * factor ** (width // (width - 2))"),
    ("wrong", "a whole number", "return int(base * factor ** (width / (width - 2)))"),
    ("wrong", "rounded", "return round(base * factor ** (width / (width - 2)), 1)"),
    ("wrong", "a tensor in float32", "return float(torch.tensor(float(base)) * torch.tensor(float(factor)) ** (width / (width - 2)))"),
    ("wrong", "Llama's exponent", "return base * factor ** (64 / 63)"),
    ("wrong", "logarithm of the factor", "return base * math.exp(math.log(factor)) ** ((width - 2) / width)"),
    ("wrong", "width plus two", "return base * factor ** (width / (width + 2))"),
    ("wrong", "minus 1 in the factor", "return base * (factor - 1) ** (width / (width - 2))"),
    ("wrong", "Hugging Face's dynamic form", "return base * (factor * 2 - (factor - 1)) ** (width / (width - 2))"),
    ("wrong", "only the power", "return factor ** (width / (width - 2))"),
    ("right", "logarithms to base 2", "return 2 ** (math.log2(base) + math.log2(factor) * width / (width - 2))"),
    ("right", "pairs", "i = width // 2 - 1\nreturn float(base * factor ** ((i + 1) / i))"),
    ("right", "two factors", "return base * factor * factor ** (2 / (width - 2))"),
    ("right", "NumPy's power", "return float(np.float64(base) * np.power(float(factor), width / (width - 2)))"),
)  # fmt: skip

YARN = """
theta = angular_frequencies(width, base)
turns = trained_length * theta / (2 * math.pi)
g = ((turns - alpha) / (beta - alpha)).clamp(0, 1)
return g * theta + (1 - g) * theta / factor, 0.1 * math.log(factor) + 1
"""

_cases(
    "yarn_frequencies(width, base, factor, trained_length, alpha=1.0, beta=32.0)",
    ("wrong", "alpha and beta without effect", YARN.replace("(turns - alpha) / (beta - alpha)", "(turns - 1) / 31")),
    ("wrong", "every pair slowed", YARN.replace("g * theta + (1 - g) * theta / factor", "theta / factor")),
    ("wrong", "no + 1", YARN.replace("(factor) + 1", "(factor)")),
    ("wrong", "one result", YARN.replace(", 0.1 * math.log(factor) + 1", "")),
    ("wrong", "results exchanged", YARN.replace("g * theta + (1 - g) * theta / factor, 0.1 * math.log(factor) + 1", "0.1 * math.log(factor) + 1, g * theta + (1 - g) * theta / factor")),
    ("wrong", "frequencies in float32", YARN.replace("theta / factor,", "theta / factor,").replace("angular_frequencies(width, base)", "angular_frequencies(width, base).float()")),
    ("wrong", "the scale in float32", YARN.replace("math.log(factor)", "float(torch.tensor(float(factor)).log())")),
    ("wrong", "base 2 logarithm", YARN.replace("math.log(", "math.log2(")),
    ("wrong", "clamped below only", YARN.replace("clamp(0, 1)", "clamp(min=0)")),
    ("wrong", "clamped above only", YARN.replace("clamp(0, 1)", "clamp(max=1)")),
    ("wrong", "turns of the squeezed text", YARN.replace("turns = trained_length", "turns = trained_length * factor")),
    ("wrong", "geometric blend", YARN.replace("g * theta + (1 - g) * theta / factor", "theta / factor ** (1 - g)")),
    ("wrong", "ramp in the logarithm of the turns", YARN.replace("(turns - alpha) / (beta - alpha)", "(turns / alpha).log() / math.log(beta / alpha)")),
    ("wrong", "multiplied by the factor", YARN.replace("theta / factor", "theta * factor")),
    ("wrong", "the scale as a tensor in float32", YARN.replace("0.1 * math.log(factor) + 1", "torch.tensor(0.1 * math.log(factor) + 1)")),
    ("wrong", "whole turns", YARN.replace("(2 * math.pi)", "(2 * math.pi)\nturns = turns.floor()")),
    ("right", "by wavelengths", "theta = angular_frequencies(width, base)\nw = 2 * math.pi / theta\ng = torch.clamp((trained_length / w - alpha) / (beta - alpha), 0.0, 1.0)\nreturn torch.lerp(theta / factor, theta, g), 1 + math.log(factor) / 10"),
    ("right", "minimum and maximum, in NumPy", "t = base ** (-np.arange(0, width, 2) / width)\ng = np.minimum(1, np.maximum(0, (trained_length * t / (2 * np.pi) - alpha) / (beta - alpha)))\nreturn torch.from_numpy(t * (g + (1 - g) / factor)), float(0.1 * np.log(factor) + 1)"),
    ("right", "three cases", "t = angular_frequencies(width, base)\nturns = trained_length * t / (2 * math.pi)\nout = t.clone()\nout[turns < alpha] /= factor\nmid = (turns >= alpha) & (turns <= beta)\ng = (turns[mid] - alpha) / (beta - alpha)\nout[mid] = t[mid] * (1 - (1 - g) * (1 - 1 / factor))\nreturn out, math.log(factor) * 0.1 + 1.0"),
)  # fmt: skip

TURN = """
def repaired_rope(q, k, positions, frequencies):
    angles = positions[..., None].double() * frequencies.double()
    angles = torch.cat((angles, angles), dim=-1)
    cos, sin = angles.cos().to(q.dtype), angles.sin().to(q.dtype)

    def turn(x):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin

    def old(x):
        return x * cos + torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2) * sin

    return turn(q), turn(k)
"""
LAST = "return turn(q), turn(k)"
PARTNER = "torch.cat((-b, a), -1)"
CASES += [
    ("repaired_rope", kind, what, TURN.replace(old, new))
    for kind, what, old, new in (
        ("wrong", "as it was", LAST, "return old(q), old(k)"),
        ("wrong", "only q repaired", LAST, "return turn(q), old(k)"),
        ("wrong", "only k repaired", LAST, "return old(q), turn(k)"),
        ("wrong", "partners of halves, angles of neighbours", "torch.cat((angles, angles), dim=-1)", "angles.repeat_interleave(2, -1)"),
        ("wrong", "minus on the second half", "(-b, a)", "(b, -a)"),
        ("wrong", "no minus", "(-b, a)", "(b, a)"),
        ("wrong", "halves not exchanged", "(-b, a)", "(-a, b)"),
        ("wrong", "keys not turned", LAST, "return turn(q), k"),
        ("wrong", "queries twice", LAST, "return turn(q), turn(q)"),
        ("wrong", "written into q", LAST, "q.copy_(turn(q))\n    return q, turn(k)"),
        ("wrong", "written into k", LAST, "out = turn(q)\n    k.copy_(turn(k).detach())\n    return out, k"),
        ("wrong", "float64 comes out", ".to(q.dtype)", ""),
        ("wrong", "float32 angles", "double()", "float()"),
        ("wrong", "keys detached", LAST, "return turn(q), turn(k.detach())"),
        ("wrong", "lengths set to 1", LAST, "return F.normalize(turn(q), dim=-1), F.normalize(turn(k), dim=-1)"),
        ("wrong", "turned twice", LAST, "return turn(turn(q)), turn(turn(k))"),
        ("wrong", "queries only", LAST, "return turn(q)"),
        ("wrong", "rolled without a sign", PARTNER, "x.roll(x.shape[-1] // 2, -1)"),
        ("right", "halves", LAST, LAST),
        ("right", "a list", LAST, "return [turn(x) for x in (q, k)]"),
        ("right", "stacked", LAST, "both = turn(torch.stack((q, k)))\n    return both[0], both[1]"),
        ("right", "rolled with a sign", PARTNER, "x.roll(x.shape[-1] // 2, -1) * torch.cat((-torch.ones_like(a), torch.ones_like(b)), -1)"),
    )
]  # fmt: skip

CASES += [
    ('relative_bias', 'wrong', 'odd table: half rounded up', 'def relative_bias(table, relative, bidirectional=True, max_distance=128):\n    n = table.shape[0]\n    pass\n    ret = torch.zeros_like(relative)\n    if bidirectional:\n        n = (n + 1) // 2\n        ret = (relative > 0).long() * n\n        d = relative.abs()\n    else:\n        d = -torch.clamp(relative, max=0)\n    e = n // 2\n    big = e + (torch.log(d.float() / e) / math.log(max_distance / e) * (n - e)).clamp(min=-e).long()\n    big = big.clamp(max=n - 1)\n    return table[ret + torch.where(d < e, d, big)].permute(2, 0, 1)\n'),
    ('relative_bias', 'wrong', 'odd table: second half counted from the end', 'def relative_bias(table, relative, bidirectional=True, max_distance=128):\n    n = table.shape[0]\n    first = torch.zeros_like(relative)\n    if bidirectional:\n        first = (relative > 0) * (n - n // 2)\n        n //= 2\n        d = relative.abs()\n    else:\n        d = (-relative).clamp(min=0)\n    e = n // 2\n    far = (e + torch.log(d / e) / math.log(max_distance / e) * (n - e)).clamp(0, n - 1).long()\n    return table[first + torch.where(d < e, d, far)].movedim(-1, 0)\n'),
    ('relative_bias', 'wrong', 'relative changed in place in one branch', 'def relative_bias(table, relative, bidirectional=True, max_distance=128):\n    n = table.shape[0]\n    first = torch.zeros_like(relative)\n    if bidirectional:\n        n //= 2\n        first = (relative > 0) * n\n        d = relative.abs()\n    else:\n        d = relative.neg_().clamp_(min=0)\n    e = n // 2\n    far = (e + torch.log(d / e) / math.log(max_distance / e) * (n - e)).clamp(0, n - 1).long()\n    return table[first + torch.where(d < e, d, far)].movedim(-1, 0)\n'),
    ('relative_bias', 'wrong', 'relative changed in place (abs_) with bidirectional', 'def relative_bias(table, relative, bidirectional=True, max_distance=128):\n    n = table.shape[0]\n    first = torch.zeros_like(relative)\n    if bidirectional:\n        n //= 2\n        first = (relative > 0) * n\n        d = relative.abs_()\n    else:\n        d = (-relative).clamp(min=0)\n    e = n // 2\n    far = (e + torch.log(d / e) / math.log(max_distance / e) * (n - e)).clamp(0, n - 1).long()\n    return table[first + torch.where(d < e, d, far)].movedim(-1, 0)\n'),
    ('position_interpolation', 'wrong', '.double() alias changed in place', 'def position_interpolation(positions, trained_length, length):\n    p = positions.double()\n    if length > trained_length:\n        p *= trained_length / length\n    return p\n'),
    ('position_interpolation', 'wrong', 'in place in one branch', 'def position_interpolation(positions, trained_length, length):\n    if length <= trained_length:\n        return positions.double()\n    if positions.dtype == torch.float64:\n        return positions.mul_(trained_length / length)\n    return positions.double() * (trained_length / length)\n'),
    ('position_interpolation', 'wrong', 'compares positions', 'def position_interpolation(positions, trained_length, length):\n    if positions.max() < trained_length:\n        return positions.double()\n    return positions.double() * (trained_length / length)\n'),
    ('yarn_frequencies', 'wrong', 'whole-number base', 'from attend_solutions.positions import angular_frequencies\ndef yarn_frequencies(width, base, factor, trained_length, alpha=1.0, beta=32.0):\n    f = angular_frequencies(width, int(base))\n    g = ((trained_length * f / (2 * math.pi) - alpha) / (beta - alpha)).clamp(0, 1)\n    return g * f + (1 - g) * f / factor, 0.1 * math.log(factor) + 1\n'),
]  # fmt: skip
