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

    def turn(x):
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin

    def old(x):
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
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
        ("wrong", "float64 comes out", ".to(x.dtype)", ""),
        ("wrong", "float32 angles", "double()", "float()"),
        ("wrong", "keys detached", LAST, "return turn(q), turn(k.detach())"),
        ("wrong", "lengths set to 1", LAST, "return F.normalize(turn(q), dim=-1), F.normalize(turn(k), dim=-1)"),
        ("wrong", "turned twice", LAST, "return turn(turn(q)), turn(turn(k))"),
        ("wrong", "queries only", LAST, "return turn(q)"),
        ("wrong", "rolled without a sign", PARTNER, "x.roll(x.shape[-1] // 2, -1)"),
        ("right", "halves", LAST, LAST),
        ("right", "a list", LAST, "return [turn(x) for x in (q, k)]"),
        ("wrong", "both types those of q", ".to(x.dtype)", ".to(q.dtype)"),
        ("wrong", "stacked, so of one shape", LAST, "both = turn(torch.stack((q, k)))\n    return both[0], both[1]"),
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

CASES += [
    ('sinusoidal_encoding', 'wrong', 'slows the positions in place, column by column', 'from attend_solutions.positions import angular_frequencies\ndef sinusoidal_encoding(positions, width, base=10_000.0):\n    p = positions.double()\n    out = torch.zeros(len(p), width)\n    for i in range(width // 2):\n        out[:, 2 * i], out[:, 2 * i + 1] = p.sin(), p.cos()\n        p *= base ** (-2 / width)\n    return out\n'),
    ('sinusoidal_encoding', 'wrong', 'counts on from the first position', 'from attend_solutions.positions import angular_frequencies\ndef sinusoidal_encoding(positions, width, base=10_000.0):\n    p = positions[0].double() + torch.arange(len(positions), dtype=torch.float64)\n    a = p[:, None] * angular_frequencies(width, base)\n    return torch.stack((a.sin(), a.cos()), dim=-1).flatten(-2).float()\n'),
    ('sinusoidal_encoding', 'wrong', 'frequencies by exp in float32, angles in float64', 'from attend_solutions.positions import angular_frequencies\ndef sinusoidal_encoding(positions, width, base=10_000.0):\n    theta = torch.exp(torch.arange(0, width, 2) * (-math.log(base) / width))\n    a = positions.double()[:, None] * theta.double()\n    return torch.stack((a.sin(), a.cos()), dim=-1).flatten(-2).float()\n'),
    ('sinusoidal_encoding', 'right', 'numpy', 'from attend_solutions.positions import angular_frequencies\ndef sinusoidal_encoding(positions, width, base=10_000.0):\n    p = np.asarray(positions.tolist(), dtype=np.float64)\n    a = np.outer(p, base ** (-np.arange(0, width, 2) / width))\n    out = np.empty((len(p), width), dtype=np.float32)\n    out[:, ::2] = np.sin(a)\n    out[:, 1::2] = np.cos(a)\n    return torch.from_numpy(out)\n'),
    ('sinusoidal_encoding', 'right', 'complex numbers', 'from attend_solutions.positions import angular_frequencies\ndef sinusoidal_encoding(positions, width, base=10_000.0):\n    a = torch.outer(positions.double(), angular_frequencies(width, base))\n    z = torch.polar(torch.ones_like(a), a)\n    return torch.view_as_real(z).flip(-1).reshape(len(positions), width).float()\n'),
    ('sinusoidal_encoding', 'right', 'Python lists and math', 'from attend_solutions.positions import angular_frequencies\ndef sinusoidal_encoding(positions, width, base=10_000.0):\n    rows = []\n    for p in positions.tolist():\n        row = []\n        for i in range(width // 2):\n            angle = p * base ** (-2 * i / width)\n            row += [math.sin(angle), math.cos(angle)]\n        rows.append(row)\n    return torch.tensor(rows, dtype=torch.float32).reshape(len(rows), width)\n'),
    ('sinusoidal_encoding', 'right', 'cosine as a sine a quarter turn on', 'from attend_solutions.positions import angular_frequencies\ndef sinusoidal_encoding(positions, width, base=10_000.0):\n    theta = angular_frequencies(width, base).repeat_interleave(2)\n    quarter = torch.tensor([0.0, math.pi / 2], dtype=torch.float64).repeat(width // 2)\n    return torch.sin(torch.einsum("t,c->tc", positions.to(torch.float64), theta) + quarter).to(torch.float32)\n'),
    ('shift_matrix', 'wrong', 'fraction of the offset cut off', 'from attend_solutions.positions import angular_frequencies\ndef shift_matrix(offset, width, base=10_000.0):\n    a = int(offset) * angular_frequencies(width, base)\n    c, s = a.cos(), a.sin()\n    return torch.block_diag(*torch.stack((c, s, -s, c), -1).unflatten(-1, (2, 2))).float()\n'),
    ('shift_matrix', 'wrong', 'a negative offset counts as positive', 'from attend_solutions.positions import angular_frequencies\ndef shift_matrix(offset, width, base=10_000.0):\n    a = abs(offset) * angular_frequencies(width, base)\n    c, s = a.cos(), a.sin()\n    return torch.block_diag(*torch.stack((c, s, -s, c), -1).unflatten(-1, (2, 2))).float()\n'),
    ('shift_matrix', 'wrong', 'frequencies rounded to float32 before use', 'from attend_solutions.positions import angular_frequencies\ndef shift_matrix(offset, width, base=10_000.0):\n    a = float(offset) * angular_frequencies(width, base).float().double()\n    c, s = a.cos(), a.sin()\n    return torch.block_diag(*torch.stack((c, s, -s, c), -1).unflatten(-1, (2, 2))).float()\n'),
    ('shift_matrix', 'wrong', 'offset reduced by whole turns of the fastest clock', 'from attend_solutions.positions import angular_frequencies\ndef shift_matrix(offset, width, base=10_000.0):\n    a = (offset % (2 * math.pi)) * angular_frequencies(width, base)\n    c, s = a.cos(), a.sin()\n    return torch.block_diag(*torch.stack((c, s, -s, c), -1).unflatten(-1, (2, 2))).float()\n'),
    ('shift_matrix', 'right', 'Kronecker products', 'from attend_solutions.positions import angular_frequencies\ndef shift_matrix(offset, width, base=10_000.0):\n    a = offset * angular_frequencies(width, base)\n    turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)\n    still = torch.eye(2, dtype=torch.float64)\n    return (torch.kron(a.cos().diag(), still) + torch.kron(a.sin().diag(), turn)).float()\n'),
    ('shift_matrix', 'right', 'matrix exponential of the generator', 'from attend_solutions.positions import angular_frequencies\ndef shift_matrix(offset, width, base=10_000.0):\n    a = offset * angular_frequencies(width, base)\n    a = torch.remainder(a, 2 * math.pi)\n    turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)\n    return torch.matrix_exp(torch.kron(a.diag(), turn)).float()\n'),
    ('shift_matrix', 'right', 'index assignment', 'from attend_solutions.positions import angular_frequencies\ndef shift_matrix(offset, width, base=10_000.0):\n    m = torch.zeros(width, width)\n    a = torch.as_tensor(offset, dtype=torch.float64) * angular_frequencies(width, base)\n    e = torch.arange(0, width, 2)\n    m[e, e] = m[e + 1, e + 1] = a.cos().float()\n    m[e, e + 1] = a.sin().float()\n    m[e + 1, e] = -a.sin().float()\n    return m\n'),
    ('shift_matrix', 'right', 'numpy loop', 'from attend_solutions.positions import angular_frequencies\ndef shift_matrix(offset, width, base=10_000.0):\n    m = np.zeros((width, width))\n    for i in range(0, width, 2):\n        t = offset / base ** (i / width)\n        m[i:i + 2, i:i + 2] = [[math.cos(t), math.sin(t)], [-math.sin(t), math.cos(t)]]\n    return torch.tensor(m, dtype=torch.float32)\n'),
    ('LearnedPositions', 'wrong', 'second axis taken for T', 'from attend_solutions.positions import angular_frequencies\nclass LearnedPositions(nn.Module):\n    def __init__(self, max_length, width):\n        super().__init__()\n        self.table = nn.Parameter(0.02 * torch.randn(max_length, width))\n\n    def forward(self, x, start=0):\n        T = x.shape[1]\n        if start + T > len(self.table):\n            raise ValueError("too long")\n        return x + self.table[start:start + T]\n'),
    ('LearnedPositions', 'wrong', 'x detached, once more', 'from attend_solutions.positions import angular_frequencies\nclass LearnedPositions(nn.Module):\n    def __init__(self, max_length, width):\n        super().__init__()\n        self.table = nn.Parameter(0.02 * torch.randn(max_length, width))\n\n    def forward(self, x, start=0):\n        if start + x.shape[-2] > len(self.table):\n            raise ValueError("past the end of the table")\n        return x.detach() + self.table[start:start + x.shape[-2]]\n'),
    ('LearnedPositions', 'wrong', 'adds into a contiguous x', 'from attend_solutions.positions import angular_frequencies\nclass LearnedPositions(nn.Module):\n    def __init__(self, max_length, width):\n        super().__init__()\n        self.table = nn.Parameter(0.02 * torch.randn(max_length, width))\n\n    def forward(self, x, start=0):\n        if start + x.shape[-2] > len(self.table):\n            raise ValueError("past the end of the table")\n\n        y = x.contiguous()\n        with torch.no_grad() if x.is_leaf and x.requires_grad else torch.enable_grad():\n            if not (x.is_leaf and x.requires_grad):\n                y += self.table[start:start + x.shape[-2]]\n                return y\n        return x + self.table[start:start + x.shape[-2]]\n'),
    ('LearnedPositions', 'right', 'functional.embedding', 'from attend_solutions.positions import angular_frequencies\nclass LearnedPositions(nn.Module):\n    def __init__(self, max_length, width):\n        super().__init__()\n        self.table = nn.Parameter(0.02 * torch.randn(max_length, width))\n\n    def forward(self, x, start=0):\n        if start + x.shape[-2] > len(self.table):\n            raise ValueError("past the end of the table")\n\n        at = torch.arange(start, start + x.shape[-2], device=x.device)\n        return x + F.embedding(at, self.table)\n'),
    ('LearnedPositions', 'right', 'catches the error of indexing', 'from attend_solutions.positions import angular_frequencies\nclass LearnedPositions(nn.Module):\n    def __init__(self, max_length, width):\n        super().__init__()\n        self.table = nn.Parameter(0.02 * torch.randn(max_length, width))\n\n    def forward(self, x, start=0):\n        try:\n            rows = torch.stack([self.table[start + t] for t in range(x.shape[-2])])\n        except IndexError as err:\n            raise ValueError("the table has no row for that position") from err\n        return rows + x\n'),
    ('LearnedPositions', 'right', 'compares the rows it got', 'from attend_solutions.positions import angular_frequencies\nclass LearnedPositions(nn.Module):\n    def __init__(self, max_length, width):\n        super().__init__()\n        self.table = nn.Parameter(0.02 * torch.randn(max_length, width))\n\n    def forward(self, x, start=0):\n        rows = self.table[start:start + x.size(-2)]\n        if rows.size(0) != x.size(-2):\n            raise ValueError(f"only {len(self.table)} rows")\n        return torch.add(rows, x)\n'),
    ('LearnedPositions', 'right', 'one-hot times the table', 'from attend_solutions.positions import angular_frequencies\nclass LearnedPositions(nn.Module):\n    def __init__(self, max_length, width):\n        super().__init__()\n        self.table = nn.Parameter(0.02 * torch.randn(max_length, width))\n\n    def forward(self, x, start=0):\n        last = start + x.shape[-2] - 1\n        if last > self.table.shape[0] - 1:\n            raise ValueError("no row")\n        at = torch.arange(start, last + 1)\n        return x + F.one_hot(at, self.table.shape[0]).to(self.table.dtype) @ self.table\n'),
    ('relative_bias', 'wrong', 'relative taken as query minus key', 'from attend_solutions.positions import angular_frequencies\ndef relative_bias(table, relative, bidirectional=True, max_distance=128):\n    relative = -relative\n    side = table.shape[0] // 2 if bidirectional else table.shape[0]\n    exact = side // 2\n    d = relative.abs() if bidirectional else (-relative).clamp(min=0)\n    l = (side - exact) * (d.double() / exact).log() / math.log(max_distance / exact)\n    far = (exact + l.clamp(min=0).long()).clamp(max=side - 1)\n    bucket = torch.where(d < exact, d, far)\n    if bidirectional:\n        bucket = bucket + side * (relative > 0).long()\n    return table[bucket].movedim(-1, 0)\n'),
    ('relative_bias', 'wrong', 'distance 0 put into the second half', 'from attend_solutions.positions import angular_frequencies\ndef relative_bias(table, relative, bidirectional=True, max_distance=128):\n    side = table.shape[0] // 2 if bidirectional else table.shape[0]\n    exact = side // 2\n    d = relative.abs() if bidirectional else (-relative).clamp(min=0)\n    l = (side - exact) * (d.double() / exact).log() / math.log(max_distance / exact)\n    far = (exact + l.clamp(min=0).long()).clamp(max=side - 1)\n    bucket = torch.where(d < exact, d, far)\n    if bidirectional:\n        bucket = bucket + side * (relative >= 0).long()\n    return table[bucket].movedim(-1, 0)\n'),
    ('relative_bias', 'wrong', 'exact from all buckets, not from a side', 'from attend_solutions.positions import angular_frequencies\ndef relative_bias(table, relative, bidirectional=True, max_distance=128):\n    side = table.shape[0] // 2 if bidirectional else table.shape[0]\n    exact = table.shape[0] // 2\n    d = relative.abs() if bidirectional else (-relative).clamp(min=0)\n    l = (side - exact) * (d.double() / exact).log() / math.log(max_distance / exact)\n    far = (exact + l.clamp(min=0).long()).clamp(max=side - 1)\n    bucket = torch.where(d < exact, d, far)\n    if bidirectional:\n        bucket = bucket + side * (relative > 0).long()\n    return table[bucket].movedim(-1, 0)\n'),
    ('relative_bias', 'wrong', 'divides by ln(max_distance)', 'from attend_solutions.positions import angular_frequencies\ndef relative_bias(table, relative, bidirectional=True, max_distance=128):\n    side = table.shape[0] // 2 if bidirectional else table.shape[0]\n    exact = side // 2\n    d = relative.abs() if bidirectional else (-relative).clamp(min=0)\n    l = (side - exact) * (d.double() / exact).log() / math.log(max_distance)\n    far = (exact + l.clamp(min=0).long()).clamp(max=side - 1)\n    bucket = torch.where(d < exact, d, far)\n    if bidirectional:\n        bucket = bucket + side * (relative > 0).long()\n    return table[bucket].movedim(-1, 0)\n'),
    ('relative_bias', 'wrong', 'looking back only: later keys by their distance', 'from attend_solutions.positions import angular_frequencies\ndef relative_bias(table, relative, bidirectional=True, max_distance=128):\n    side = table.shape[0] // 2 if bidirectional else table.shape[0]\n    exact = side // 2\n    d = relative.abs()\n    l = (side - exact) * (d.double() / exact).log() / math.log(max_distance / exact)\n    far = (exact + l.clamp(min=0).long()).clamp(max=side - 1)\n    bucket = torch.where(d < exact, d, far)\n    if bidirectional:\n        bucket = bucket + side * (relative > 0).long()\n    return table[bucket].movedim(-1, 0)\n'),
    ('relative_bias', 'wrong', 'rounds in place of cutting off', 'from attend_solutions.positions import angular_frequencies\ndef relative_bias(table, relative, bidirectional=True, max_distance=128):\n    side = table.shape[0] // 2 if bidirectional else table.shape[0]\n    exact = side // 2\n    d = relative.abs() if bidirectional else (-relative).clamp(min=0)\n    l = (side - exact) * (d.double() / exact).log() / math.log(max_distance / exact)\n    far = (exact + l.clamp(min=0).round().long()).clamp(max=side - 1)\n    bucket = torch.where(d < exact, d, far)\n    if bidirectional:\n        bucket = bucket + side * (relative > 0).long()\n    return table[bucket].movedim(-1, 0)\n'),
    ('relative_bias', 'wrong', 'sets later keys to 0 in the argument', 'from attend_solutions.positions import angular_frequencies\ndef relative_bias(table, relative, bidirectional=True, max_distance=128):\n    side = table.shape[0] // 2 if bidirectional else table.shape[0]\n    exact = side // 2\n    if not bidirectional:\n        relative[relative > 0] = 0\n    d = relative.abs() if bidirectional else (-relative).clamp(min=0)\n    l = (side - exact) * (d.double() / exact).log() / math.log(max_distance / exact)\n    far = (exact + l.clamp(min=0).long()).clamp(max=side - 1)\n    bucket = torch.where(d < exact, d, far)\n    if bidirectional:\n        bucket = bucket + side * (relative > 0).long()\n    return table[bucket].movedim(-1, 0)\n'),
    ('relative_bias', 'wrong', 'as many far buckets as exact ones (odd side)', 'from attend_solutions.positions import angular_frequencies\ndef relative_bias(table, relative, bidirectional=True, max_distance=128):\n    side = table.shape[0] // 2 if bidirectional else table.shape[0]\n    exact = side // 2\n    d = relative.abs() if bidirectional else (-relative).clamp(min=0)\n    l = exact * (d.double() / exact).log() / math.log(max_distance / exact)\n    far = (exact + l.clamp(min=0).long()).clamp(max=side - 1)\n    bucket = torch.where(d < exact, d, far)\n    if bidirectional:\n        bucket = bucket + side * (relative > 0).long()\n    return table[bucket].movedim(-1, 0)\n'),
    ('relative_bias', 'wrong', 'flattens the table with view', 'from attend_solutions.positions import angular_frequencies\ndef relative_bias(table, relative, bidirectional=True, max_distance=128):\n    side = table.shape[0] // 2 if bidirectional else table.shape[0]\n    exact = side // 2\n    d = relative.abs() if bidirectional else (-relative).clamp(min=0)\n    l = (side - exact) * (d.double() / exact).log() / math.log(max_distance / exact)\n    far = (exact + l.clamp(min=0).long()).clamp(max=side - 1)\n    bucket = torch.where(d < exact, d, far)\n    if bidirectional:\n        bucket = bucket + side * (relative > 0).long()\n    H = table.shape[1]\n    flat = table.view(-1)\n    return torch.stack([flat[bucket * H + h] for h in range(H)])\n'),
    ('relative_bias', 'wrong', 'table taken as data', 'from attend_solutions.positions import angular_frequencies\ndef relative_bias(table, relative, bidirectional=True, max_distance=128):\n    side = table.shape[0] // 2 if bidirectional else table.shape[0]\n    exact = side // 2\n    d = relative.abs() if bidirectional else (-relative).clamp(min=0)\n    l = (side - exact) * (d.double() / exact).log() / math.log(max_distance / exact)\n    far = (exact + l.clamp(min=0).long()).clamp(max=side - 1)\n    bucket = torch.where(d < exact, d, far)\n    if bidirectional:\n        bucket = bucket + side * (relative > 0).long()\n    return table.data[bucket].movedim(-1, 0)\n'),
    ('relative_bias', 'right', 'the code of T5 in float32', 'from attend_solutions.positions import angular_frequencies\ndef relative_bias(table, relative, bidirectional=True, max_distance=128):\n    relative_buckets = 0\n    num_buckets = table.shape[0]\n    if bidirectional:\n        num_buckets //= 2\n        relative_buckets = (relative > 0).to(torch.long) * num_buckets\n        relative = torch.abs(relative)\n    else:\n        relative = -torch.min(relative, torch.zeros_like(relative))\n    max_exact = num_buckets // 2\n    is_small = relative < max_exact\n    large = max_exact + (torch.log(relative.float() / max_exact) / math.log(max_distance / max_exact) * (num_buckets - max_exact)).clamp(min=0).to(torch.long)\n    large = torch.min(large, torch.full_like(large, num_buckets - 1))\n    return table[relative_buckets + torch.where(is_small, relative, large)].permute(2, 0, 1)\n'),
    ('relative_bias', 'right', 'a function of one pair, in loops', 'from attend_solutions.positions import angular_frequencies\ndef relative_bias(table, relative, bidirectional=True, max_distance=128):\n    side = len(table) // 2 if bidirectional else len(table)\n    exact = side // 2\n    def bucket(r):\n        d = max(-r, 0) if not bidirectional else abs(r)\n        if d < exact:\n            b = d\n        else:\n            b = min(side - 1, exact + math.floor((side - exact) * math.log(d / exact) / math.log(max_distance / exact)))\n        return b + side if bidirectional and r > 0 else b\n    rows = [[table[bucket(int(r))] for r in row] for row in relative.tolist()]\n    return torch.stack([torch.stack(row) for row in rows]).permute(2, 0, 1)\n'),
    ('relative_bias', 'right', 'a lookup list of all distances', 'from attend_solutions.positions import angular_frequencies\ndef relative_bias(table, relative, bidirectional=True, max_distance=128):\n    side = len(table) // (1 + bidirectional)\n    exact = side // 2\n    longest = int(relative.abs().max()) if relative.numel() else 0\n    of = [d if d < exact else min(side - 1, exact + int((side - exact) * math.log(d / exact) / math.log(max_distance / exact))) for d in range(longest + 1)]\n    of = torch.tensor(of)\n    back = of[(-relative).clamp(min=0)]\n    ahead = of[relative.clamp(min=0)] + side if bidirectional else torch.zeros_like(back)\n    return F.embedding(torch.where(relative > 0, ahead, back), table).movedim(2, 0)\n'),
    ('relative_bias', 'right', 'one-hot buckets, matrix product', 'from attend_solutions.positions import angular_frequencies\ndef relative_bias(table, relative, bidirectional=True, max_distance=128):\n    n = table.shape[0]\n    side = n // 2 if bidirectional else n\n    exact = side // 2\n    d = torch.relu(-relative) + (torch.relu(relative) if bidirectional else 0)\n    l = (side - exact) * torch.log(d.clamp(min=exact).to(torch.float64) / exact) / math.log(max_distance / exact)\n    b = torch.where(d < exact, d, torch.minimum(torch.tensor(side - 1), exact + l.floor().long()))\n    b = b + (relative > 0) * side * int(bidirectional)\n    return torch.einsum("tsb,bh->hts", F.one_hot(b, n).to(table.dtype), table)\n'),
    ('apply_rope', 'wrong', 'outer, so positions have one axis', 'from attend_solutions.positions import angular_frequencies\ndef apply_rope(x, positions, frequencies):\n    a = torch.outer(positions.double().flatten(), frequencies.double())\n    c, s = a.cos().to(x.dtype), a.sin().to(x.dtype)\n    a, b = x.chunk(2, dim=-1)\n    return torch.cat((a * c - b * s, b * c + a * s), dim=-1)\n'),
    ('apply_rope', 'wrong', 'x taken as data', 'from attend_solutions.positions import angular_frequencies\ndef apply_rope(x, positions, frequencies):\n    a = positions.double()[..., None] * frequencies.double()\n    c, s = a.cos().to(x.dtype), a.sin().to(x.dtype)\n    x = x.data\n    a, b = x.chunk(2, dim=-1)\n    return torch.cat((a * c - b * s, b * c + a * s), dim=-1)\n'),
    ('apply_rope', 'wrong', 'frequencies rounded to the dtype of x', 'from attend_solutions.positions import angular_frequencies\ndef apply_rope(x, positions, frequencies):\n    a = positions.double()[..., None] * frequencies.float().double()\n    c, s = a.cos().to(x.dtype), a.sin().to(x.dtype)\n    a, b = x.chunk(2, dim=-1)\n    return torch.cat((a * c - b * s, b * c + a * s), dim=-1)\n'),
    ('apply_rope', 'wrong', 'fractions of positions cut off', 'from attend_solutions.positions import angular_frequencies\ndef apply_rope(x, positions, frequencies):\n    positions = positions.long()\n    a = positions.double()[..., None] * frequencies.double()\n    c, s = a.cos().to(x.dtype), a.sin().to(x.dtype)\n    a, b = x.chunk(2, dim=-1)\n    return torch.cat((a * c - b * s, b * c + a * s), dim=-1)\n'),
    ('apply_rope', 'right', 'complex numbers', 'from attend_solutions.positions import angular_frequencies\ndef apply_rope(x, positions, frequencies):\n    a = positions.double().unsqueeze(-1) * frequencies.double()\n    u, v = x.double().chunk(2, dim=-1)\n    z = torch.complex(u, v) * torch.polar(torch.ones_like(a), a)\n    return torch.cat((z.real, z.imag), dim=-1).to(x.dtype)\n'),
    ('apply_rope', 'right', 'rotate_half of Hugging Face', 'from attend_solutions.positions import angular_frequencies\ndef apply_rope(x, positions, frequencies):\n    a = positions.double()[..., None] * frequencies.double()\n    e = torch.cat((a, a), dim=-1)\n    h = x.shape[-1] // 2\n    rotated = torch.cat((-x[..., h:], x[..., :h]), dim=-1)\n    return x * e.cos().type_as(x) + rotated * e.sin().type_as(x)\n'),
    ('apply_rope', 'right', 'rotation matrices by einsum', 'from attend_solutions.positions import angular_frequencies\ndef apply_rope(x, positions, frequencies):\n    a = torch.einsum("...t,f->...tf", positions.to(torch.float64), frequencies.to(torch.float64))\n    m = torch.stack((torch.stack((a.cos(), -a.sin()), -1), torch.stack((a.sin(), a.cos()), -1)), -2).to(x.dtype)\n    pairs = torch.stack(x.tensor_split(2, dim=-1), dim=-1)\n    y = (m @ pairs[..., None])[..., 0]\n    return y.transpose(-1, -2).flatten(-2)\n'),
    ('apply_rope', 'right', 'roll and signs', 'from attend_solutions.positions import angular_frequencies\ndef apply_rope(x, positions, frequencies):\n    h = x.shape[-1] // 2\n    a = (positions.double()[..., None] * frequencies.double()).tile(2)\n    sign = torch.ones(2 * h, dtype=torch.float64)\n    sign[:h] = -1\n    return x * a.cos().to(x.dtype) + x.roll(h, dims=-1) * (sign * a.sin()).to(x.dtype)\n'),
    ('repaired_rope', 'wrong', 'keys detached, once more', 'from attend_solutions.positions import angular_frequencies\ndef repaired_rope(q, k, positions, frequencies):\n    turns = positions.double()[..., None] * torch.cat((frequencies, frequencies)).double()\n    def turn(x):\n        a, b = x.chunk(2, dim=-1)\n        return x * turns.cos().to(x.dtype) + torch.cat((-b, a), dim=-1) * turns.sin().to(x.dtype)\n    return turn(q), turn(k.detach())\n'),
    ('repaired_rope', 'wrong', 'positions flattened', 'from attend_solutions.positions import angular_frequencies\ndef repaired_rope(q, k, positions, frequencies):\n    turns = torch.outer(positions.double().reshape(-1), torch.cat((frequencies, frequencies)).double())\n    def turn(x):\n        a, b = x.chunk(2, dim=-1)\n        return x * turns.cos().to(x.dtype) + torch.cat((-b, a), dim=-1) * turns.sin().to(x.dtype)\n    return turn(q), turn(k)\n'),
    ('repaired_rope', 'right', 'two formulas, map', 'from attend_solutions.positions import angular_frequencies\ndef repaired_rope(q, k, positions, frequencies):\n    a = positions.to(torch.float64)[..., None] * frequencies.to(torch.float64)\n    def turn(x):\n        h = x.shape[-1] // 2\n        u, v = x[..., :h], x[..., h:]\n        return torch.cat([u * a.cos().to(x) - v * a.sin().to(x), v * a.cos().to(x) + u * a.sin().to(x)], -1)\n    return tuple(map(turn, (q, k)))\n'),
    ('repaired_rope', 'right', 'roll', 'from attend_solutions.positions import angular_frequencies\ndef repaired_rope(q, k, positions, frequencies):\n    turns = positions[..., None].double() * torch.cat([frequencies] * 2).double()\n    out = []\n    for x in (q, k):\n        h = x.shape[-1] // 2\n        sign = torch.tensor([-1.0] * h + [1.0] * h, dtype=x.dtype)\n        out.append(x * turns.cos().to(x.dtype) + sign * x.roll(h, -1) * turns.sin().to(x.dtype))\n    return out[0], out[1]\n'),
    ('repaired_rope', 'right', 'complex numbers', 'from attend_solutions.positions import angular_frequencies\ndef repaired_rope(q, k, positions, frequencies):\n    a = positions.double()[..., None] * frequencies.double()\n    unit = torch.polar(torch.ones_like(a), a)\n    def turn(x):\n        u, v = x.chunk(2, -1)\n        z = torch.complex(u.double().contiguous(), v.double().contiguous()) * unit\n        return torch.cat((z.real, z.imag), -1).to(x.dtype)\n    return turn(q), turn(k)\n'),
    ('repaired_rope', 'right', 'a constant matrix for the partner', 'from attend_solutions.positions import angular_frequencies\ndef repaired_rope(q, k, positions, frequencies):\n    D = q.shape[-1]\n    h = D // 2\n    J = torch.zeros(D, D, dtype=torch.float64)\n    i = torch.arange(h)\n    J[h + i, i] = -1.0\n    J[i, h + i] = 1.0\n    turns = positions.double()[..., None] * frequencies.double().repeat(2)\n    return tuple((x.double() * turns.cos() + (x.double() @ J) * turns.sin()).to(x.dtype) for x in (q, k))\n'),
    ('alibi_slopes', 'wrong', 'h counted from 0', 'from attend_solutions.positions import angular_frequencies\ndef alibi_slopes(heads):\n    power = 2 ** int(math.log2(heads))\n    first = 2.0 ** (-8 * torch.arange(power) / power)\n    more = 2.0 ** (-8 * torch.arange(0, 2 * power, 2) / (2 * power))\n    return torch.cat((first, more[:heads - power]))\n'),
    ('alibi_slopes', 'wrong', 'the formula for any number of heads', 'from attend_solutions.positions import angular_frequencies\ndef alibi_slopes(heads):\n    return 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)\n'),
    ('alibi_slopes', 'wrong', 'the next power above, cut', 'from attend_solutions.positions import angular_frequencies\ndef alibi_slopes(heads):\n    power = 2 ** math.ceil(math.log2(heads))\n    return (2.0 ** (-8 * torch.arange(1, power + 1) / power))[:heads]\n'),
    ('alibi_slopes', 'wrong', 'added slopes 1st, 2nd, 3rd', 'from attend_solutions.positions import angular_frequencies\ndef alibi_slopes(heads):\n    power = 2 ** int(math.log2(heads))\n    first = 2.0 ** (-8 * torch.arange(1, power + 1) / power)\n    more = 2.0 ** (-8 * torch.arange(1, heads - power + 1) / (2 * power))\n    return torch.cat((first, more))\n'),
    ('alibi_slopes', 'wrong', 'sorted at the end', 'from attend_solutions.positions import angular_frequencies\ndef alibi_slopes(heads):\n    power = 2 ** int(math.log2(heads))\n    first = 2.0 ** (-8 * torch.arange(1, power + 1) / power)\n    more = 2.0 ** (-8 * torch.arange(1, 2 * power, 2) / (2 * power))\n    return torch.cat((first, more[:heads - power])).sort(descending=True).values\n'),
    ('alibi_slopes', 'wrong', 'added slopes 2nd, 4th, 6th', 'from attend_solutions.positions import angular_frequencies\ndef alibi_slopes(heads):\n    power = 2 ** int(math.log2(heads))\n    first = 2.0 ** (-8 * torch.arange(1, power + 1) / power)\n    more = 2.0 ** (-8 * torch.arange(2, 2 * power + 1, 2) / (2 * power))\n    return torch.cat((first, more[:heads - power]))\n'),
    ('alibi_slopes', 'wrong', 'float64, once more', 'from attend_solutions.positions import angular_frequencies\ndef alibi_slopes(heads):\n    power = 2 ** int(math.log2(heads))\n    first = 2.0 ** (-8 * torch.arange(1, power + 1, dtype=torch.float64) / power)\n    more = 2.0 ** (-8 * torch.arange(1, 2 * power, 2, dtype=torch.float64) / (2 * power))\n    return torch.cat((first, more[:heads - power]))\n'),
    ('alibi_slopes', 'wrong', 'one head has slope 1', 'from attend_solutions.positions import angular_frequencies\ndef alibi_slopes(heads):\n    if heads == 1:\n        return torch.ones(1)\n    power = 2 ** int(math.log2(heads))\n    first = 2.0 ** (-8 * torch.arange(1, power + 1) / power)\n    more = 2.0 ** (-8 * torch.arange(1, 2 * power, 2) / (2 * power))\n    return torch.cat((first, more[:heads - power]))\n'),
    ('alibi_slopes', 'wrong', 'powers listed up to 32', 'from attend_solutions.positions import angular_frequencies\ndef alibi_slopes(heads):\n    power = max(p for p in (1, 2, 4, 8, 16, 32) if p <= heads)\n    first = 2.0 ** (-8 * torch.arange(1, power + 1) / power)\n    more = 2.0 ** (-8 * torch.arange(1, 2 * power, 2) / (2 * power))\n    return torch.cat((first, more[:heads - power]))\n'),
    ('alibi_slopes', 'wrong', '8 // H, right for 1, 2, 4, 8 heads', 'from attend_solutions.positions import angular_frequencies\ndef alibi_slopes(heads):\n    power = 2 ** int(math.log2(heads))\n    first = 2.0 ** -(max(8 // power, 1) * torch.arange(1, power + 1))\n    more = 2.0 ** -(max(8 // (2 * power), 1) * torch.arange(1, 2 * power, 2))\n    return torch.cat((first, more[:heads - power])).float()\n'),
    ('alibi_slopes', 'right', 'recursion', 'from attend_solutions.positions import angular_frequencies\ndef alibi_slopes(heads):\n    if heads & (heads - 1) == 0:\n        start = 2 ** (-8 / heads)\n        return torch.tensor([start ** h for h in range(1, heads + 1)])\n    power = 1 << (heads.bit_length() - 1)\n    return torch.cat((alibi_slopes(power), alibi_slopes(2 * power)[::2][:heads - power]))\n'),
    ('alibi_slopes', 'right', 'lists', 'from attend_solutions.positions import angular_frequencies\ndef alibi_slopes(heads):\n    power = 1\n    while power * 2 <= heads:\n        power *= 2\n    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]\n    slopes += [2 ** (-4 * h / power) for h in range(1, 2 * (heads - power), 2)]\n    return torch.tensor(slopes, dtype=torch.float32)\n'),
    ('alibi_slopes', 'right', 'numpy', 'from attend_solutions.positions import angular_frequencies\ndef alibi_slopes(heads):\n    power = 2 ** int(np.floor(np.log2(heads)))\n    h = np.concatenate((2 * np.arange(1, power + 1), np.arange(1, 2 * (heads - power), 2)))\n    return torch.from_numpy(np.exp2(-4 * h / power).astype(np.float32))\n'),
    ('alibi_slopes', 'right', 'itertools', 'from attend_solutions.positions import angular_frequencies\ndef alibi_slopes(heads):\n    power = 2 ** (heads.bit_length() - 1)\n    of = lambda n: (2.0 ** (-8 * h / n) for h in range(1, n + 1))\n    return torch.tensor(list(itertools.islice(itertools.chain(of(power), itertools.islice(of(2 * power), 0, None, 2)), heads)))\n'),
    ('alibi_bias', 'wrong', 'later keys get 0', 'from attend_solutions.positions import angular_frequencies\ndef alibi_bias(slopes, query_positions, key_positions):\n    return -slopes[:, None, None] * (query_positions[:, None] - key_positions).clamp(min=0)\n'),
    ('alibi_bias', 'wrong', 'slopes made negative in place', 'from attend_solutions.positions import angular_frequencies\ndef alibi_bias(slopes, query_positions, key_positions):\n    return slopes.neg_()[:, None, None] * (query_positions[:, None] - key_positions).abs()\n'),
    ('alibi_bias', 'wrong', 'keys counted on from the first', 'from attend_solutions.positions import angular_frequencies\ndef alibi_bias(slopes, query_positions, key_positions):\n    keys = key_positions[0] + torch.arange(len(key_positions))\n    return -slopes[:, None, None] * (query_positions[:, None] - keys).abs()\n'),
    ('alibi_bias', 'wrong', 'squeezed, once more', 'from attend_solutions.positions import angular_frequencies\ndef alibi_bias(slopes, query_positions, key_positions):\n    return (-slopes[:, None, None] * (query_positions[:, None] - key_positions).abs()).squeeze(0)\n'),
    ('alibi_bias', 'right', 'einsum, once more', "from attend_solutions.positions import angular_frequencies\ndef alibi_bias(slopes, query_positions, key_positions):\n    return torch.einsum('h,ts->hts', -slopes, (query_positions[:, None] - key_positions[None]).abs().to(slopes.dtype))\n"),
    ('alibi_bias', 'right', 'stack over heads', 'from attend_solutions.positions import angular_frequencies\ndef alibi_bias(slopes, query_positions, key_positions):\n    far = torch.maximum(query_positions[:, None], key_positions) - torch.minimum(query_positions[:, None], key_positions)\n    return torch.stack([far * -slope for slope in slopes])\n'),
    ('alibi_bias', 'right', 'cdist', 'from attend_solutions.positions import angular_frequencies\ndef alibi_bias(slopes, query_positions, key_positions):\n    far = torch.cdist(query_positions[:, None].to(slopes.dtype), key_positions[:, None].to(slopes.dtype), p=1.0)\n    return far.expand(len(slopes), -1, -1) * slopes.neg().reshape(-1, 1, 1)\n'),
    ('alibi_bias', 'right', 'loops into a buffer', 'from attend_solutions.positions import angular_frequencies\ndef alibi_bias(slopes, query_positions, key_positions):\n    out = torch.zeros(len(slopes), len(query_positions), len(key_positions), dtype=slopes.dtype)\n    for h in range(out.shape[0]):\n        for t, m in enumerate(query_positions.tolist()):\n            for s, n in enumerate(key_positions.tolist()):\n                out[h, t, s] = -slopes[h] * abs(m - n)\n    return out\n'),
    ('position_interpolation', 'wrong', 'length read off the positions', 'from attend_solutions.positions import angular_frequencies\ndef position_interpolation(positions, trained_length, length):\n    length = positions.double().max() + 1\n    if length > trained_length:\n        return positions.double() * trained_length / length\n    return positions.double()\n'),
    ('position_interpolation', 'wrong', 'short texts keep their dtype', 'from attend_solutions.positions import angular_frequencies\ndef position_interpolation(positions, trained_length, length):\n    if length > trained_length:\n        return positions.double() * trained_length / length\n    return positions\n'),
    ('position_interpolation', 'wrong', 'ratio in float32', 'from attend_solutions.positions import angular_frequencies\ndef position_interpolation(positions, trained_length, length):\n    if length > trained_length:\n        return positions.double() * (torch.tensor(trained_length) / torch.tensor(length)).float()\n    return positions.double()\n'),
    ('position_interpolation', 'right', 'divides by a factor of at least 1', 'from attend_solutions.positions import angular_frequencies\ndef position_interpolation(positions, trained_length, length):\n    return positions.double() / max(1.0, length / trained_length)\n'),
    ('position_interpolation', 'right', 'smaller of 1 and the ratio', 'from attend_solutions.positions import angular_frequencies\ndef position_interpolation(positions, trained_length, length):\n    return torch.mul(positions, torch.tensor(min(1.0, trained_length / length), dtype=torch.float64)).to(torch.float64) if positions.dtype == torch.float64 else positions.to(torch.float64) * min(1.0, trained_length / length)\n'),
    ('position_interpolation', 'right', 'numpy', 'from attend_solutions.positions import angular_frequencies\ndef position_interpolation(positions, trained_length, length):\n    p = np.array(positions.tolist(), dtype=np.float64)\n    if trained_length < length:\n        p = p * trained_length / length\n    return torch.from_numpy(np.asarray(p)).reshape(positions.shape)\n'),
    ('position_interpolation', 'right', 'a copy scaled in place', 'from attend_solutions.positions import angular_frequencies\ndef position_interpolation(positions, trained_length, length):\n    p = positions.to(torch.float64, copy=True)\n    if not length <= trained_length:\n        p.mul_(trained_length).div_(length)\n    return p\n'),
    ('ntk_scale', 'wrong', 'base times factor', 'from attend_solutions.positions import angular_frequencies\ndef ntk_scale(width, base, factor):\n    return float(base * factor)\n'),
    ('ntk_scale', 'wrong', 'exponent D / (D - 1)', 'from attend_solutions.positions import angular_frequencies\ndef ntk_scale(width, base, factor):\n    return base * factor ** (width / (width - 1))\n'),
    ('ntk_scale', 'wrong', 'exponent (D - 2) / D', 'from attend_solutions.positions import angular_frequencies\ndef ntk_scale(width, base, factor):\n    return base * factor ** ((width - 2) / width)\n'),
    ('ntk_scale', 'wrong', 'base gets smaller', 'from attend_solutions.positions import angular_frequencies\ndef ntk_scale(width, base, factor):\n    return base / factor ** (width / (width - 2))\n'),
    ('ntk_scale', 'wrong', 'power on the base', 'from attend_solutions.positions import angular_frequencies\ndef ntk_scale(width, base, factor):\n    return factor * base ** (width / (width - 2))\n'),
    ('ntk_scale', 'wrong', 'exponent 2 / (D - 2)', 'from attend_solutions.positions import angular_frequencies\ndef ntk_scale(width, base, factor):\n    return base * factor ** (2 / (width - 2))\n'),
    ('ntk_scale', 'wrong', 'whole-number division in the exponent', 'from attend_solutions.positions import angular_frequencies\ndef ntk_scale(width, base, factor):\n    return float(base * factor ** (width // (width - 2)))\n'),
    ('ntk_scale', 'wrong', 'rounded to a whole base', 'from attend_solutions.positions import angular_frequencies\ndef ntk_scale(width, base, factor):\n    return float(round(base * factor ** (width / (width - 2))))\n'),
    ('ntk_scale', 'wrong', 'in float32', 'from attend_solutions.positions import angular_frequencies\ndef ntk_scale(width, base, factor):\n    return (torch.tensor(base, dtype=torch.float32) * torch.tensor(factor, dtype=torch.float32) ** (width / (width - 2))).item()\n'),
    ('ntk_scale', 'wrong', 'a tensor in place of a float', 'from attend_solutions.positions import angular_frequencies\ndef ntk_scale(width, base, factor):\n    return torch.tensor(base, dtype=torch.float64) * factor ** (width / (width - 2))\n'),
    ('ntk_scale', 'right', 'logarithms', 'from attend_solutions.positions import angular_frequencies\ndef ntk_scale(width, base, factor):\n    return math.exp(math.log(base) + math.log(factor) * width / (width - 2))\n'),
    ('ntk_scale', 'right', 'from the slowest frequency', 'from attend_solutions.positions import angular_frequencies\ndef ntk_scale(width, base, factor):\n    slowest = base ** (-(width - 2) / width) / factor\n    return slowest ** (-width / (width - 2))\n'),
    ('ntk_scale', 'right', 'torch in float64', 'from attend_solutions.positions import angular_frequencies\ndef ntk_scale(width, base, factor):\n    slow = angular_frequencies(width, base)[-1] / factor\n    return (slow ** (-width / (width - 2))).item()\n'),
    ('ntk_scale', 'right', 'half width', 'from attend_solutions.positions import angular_frequencies\ndef ntk_scale(width, base, factor):\n    half = width // 2\n    return float(np.power(float(factor), half / (half - 1)) * base)\n'),
    ('yarn_frequencies', 'wrong', 'fast pairs slowed, slow ones kept', 'from attend_solutions.positions import angular_frequencies\ndef yarn_frequencies(width, base, factor, trained_length, alpha=1.0, beta=32.0):\n    theta = angular_frequencies(width, base)\n    turns = trained_length * theta / (2 * math.pi)\n    gamma = ((turns - alpha) / (beta - alpha)).clamp(0, 1)\n    return (1 - gamma) * theta + gamma * theta / factor, 0.1 * math.log(factor) + 1\n'),
    ('yarn_frequencies', 'wrong', 'share not bounded', 'from attend_solutions.positions import angular_frequencies\ndef yarn_frequencies(width, base, factor, trained_length, alpha=1.0, beta=32.0):\n    theta = angular_frequencies(width, base)\n    turns = trained_length * theta / (2 * math.pi)\n    gamma = ((turns - alpha) / (beta - alpha))\n    return gamma * theta + (1 - gamma) * theta / factor, 0.1 * math.log(factor) + 1\n'),
    ('yarn_frequencies', 'wrong', 'turns without 2 pi', 'from attend_solutions.positions import angular_frequencies\ndef yarn_frequencies(width, base, factor, trained_length, alpha=1.0, beta=32.0):\n    theta = angular_frequencies(width, base)\n    turns = trained_length * theta\n    gamma = ((turns - alpha) / (beta - alpha)).clamp(0, 1)\n    return gamma * theta + (1 - gamma) * theta / factor, 0.1 * math.log(factor) + 1\n'),
    ('yarn_frequencies', 'wrong', 'logarithm to base 10', 'from attend_solutions.positions import angular_frequencies\ndef yarn_frequencies(width, base, factor, trained_length, alpha=1.0, beta=32.0):\n    theta = angular_frequencies(width, base)\n    turns = trained_length * theta / (2 * math.pi)\n    gamma = ((turns - alpha) / (beta - alpha)).clamp(0, 1)\n    return gamma * theta + (1 - gamma) * theta / factor, 0.1 * math.log10(factor) + 1\n'),
    ('yarn_frequencies', 'wrong', 'all or nothing, no blend', 'from attend_solutions.positions import angular_frequencies\ndef yarn_frequencies(width, base, factor, trained_length, alpha=1.0, beta=32.0):\n    theta = angular_frequencies(width, base)\n    turns = trained_length * theta / (2 * math.pi)\n    gamma = (turns > alpha).double()\n    return gamma * theta + (1 - gamma) * theta / factor, 0.1 * math.log(factor) + 1\n'),
    ('yarn_frequencies', 'wrong', 'turns counted in the long text', 'from attend_solutions.positions import angular_frequencies\ndef yarn_frequencies(width, base, factor, trained_length, alpha=1.0, beta=32.0):\n    theta = angular_frequencies(width, base)\n    turns = factor * trained_length * theta / (2 * math.pi)\n    gamma = ((turns - alpha) / (beta - alpha)).clamp(0, 1)\n    return gamma * theta + (1 - gamma) * theta / factor, 0.1 * math.log(factor) + 1\n'),
    ('yarn_frequencies', 'wrong', 'alpha and beta of Llama always', 'from attend_solutions.positions import angular_frequencies\ndef yarn_frequencies(width, base, factor, trained_length, alpha=1.0, beta=32.0):\n    alpha, beta = 1.0, 32.0\n    theta = angular_frequencies(width, base)\n    turns = trained_length * theta / (2 * math.pi)\n    gamma = ((turns - alpha) / (beta - alpha)).clamp(0, 1)\n    return gamma * theta + (1 - gamma) * theta / factor, 0.1 * math.log(factor) + 1\n'),
    ('yarn_frequencies', 'wrong', 'worked out in float32, returned in float64', 'from attend_solutions.positions import angular_frequencies\ndef yarn_frequencies(width, base, factor, trained_length, alpha=1.0, beta=32.0):\n    theta = angular_frequencies(width, base).float()\n    turns = trained_length * theta / (2 * math.pi)\n    gamma = ((turns - alpha) / (beta - alpha)).clamp(0, 1)\n    return (gamma * theta + (1 - gamma) * theta / factor).double(), 0.1 * math.log(factor) + 1\n'),
    ('yarn_frequencies', 'wrong', 'second result a tensor', 'from attend_solutions.positions import angular_frequencies\ndef yarn_frequencies(width, base, factor, trained_length, alpha=1.0, beta=32.0):\n    theta = angular_frequencies(width, base)\n    turns = trained_length * theta / (2 * math.pi)\n    gamma = ((turns - alpha) / (beta - alpha)).clamp(0, 1)\n    return gamma * theta + (1 - gamma) * theta / factor, 0.1 * torch.tensor(factor, dtype=torch.float64).log() + 1\n'),
    ('yarn_frequencies', 'wrong', 'whole turns only', 'from attend_solutions.positions import angular_frequencies\ndef yarn_frequencies(width, base, factor, trained_length, alpha=1.0, beta=32.0):\n    theta = angular_frequencies(width, base)\n    turns = trained_length * theta / (2 * math.pi)\n    turns = turns.floor()\n    gamma = ((turns - alpha) / (beta - alpha)).clamp(0, 1)\n    return gamma * theta + (1 - gamma) * theta / factor, 0.1 * math.log(factor) + 1\n'),
    ('yarn_frequencies', 'right', 'lerp', 'from attend_solutions.positions import angular_frequencies\ndef yarn_frequencies(width, base, factor, trained_length, alpha=1.0, beta=32.0):\n    fast = angular_frequencies(width, base)\n    lo, hi = alpha * 2 * math.pi / trained_length, beta * 2 * math.pi / trained_length\n    return torch.lerp(fast / factor, fast, ((fast - lo) / (hi - lo)).clip(0.0, 1.0)), 1 + math.log(factor) / 10\n'),
    ('yarn_frequencies', 'right', 'numpy', 'from attend_solutions.positions import angular_frequencies\ndef yarn_frequencies(width, base, factor, trained_length, alpha=1.0, beta=32.0):\n    theta = base ** (-np.arange(0, width, 2, dtype=np.float64) / width)\n    keep = np.interp(trained_length * theta / 2 / np.pi, [alpha, beta], [0.0, 1.0])\n    return torch.from_numpy(theta * (keep + (1 - keep) / factor)), 1.0 + 0.1 * float(np.log(factor))\n'),
    ('yarn_frequencies', 'right', 'a list', 'from attend_solutions.positions import angular_frequencies\ndef yarn_frequencies(width, base, factor, trained_length, alpha=1.0, beta=32.0):\n    out = []\n    for i in range(width // 2):\n        theta = base ** (-2 * i / width)\n        turns = trained_length * theta / math.tau\n        g = 0.0 if turns <= alpha else 1.0 if turns >= beta else (turns - alpha) / (beta - alpha)\n        out.append(theta / factor + g * (theta - theta / factor))\n    return torch.tensor(out, dtype=torch.float64), 0.1 * math.log(factor) + 1.0\n'),
    ('yarn_frequencies', 'right', 'where', 'from attend_solutions.positions import angular_frequencies\ndef yarn_frequencies(width, base, factor, trained_length, alpha=1.0, beta=32.0):\n    theta = angular_frequencies(width, base).to(torch.float64)\n    turns = theta * trained_length / (2 * torch.pi)\n    slow = theta / factor\n    mixed = slow + (theta - slow) * (turns - alpha) / (beta - alpha)\n    return torch.where(turns < alpha, slow, torch.where(turns > beta, theta, mixed)), math.log(factor, math.e) * 0.1 + 1\n'),
    ('shift_matrix', 'wrong', 'torch.tensor(offset) is float32', 'from attend_solutions.positions import angular_frequencies\ndef shift_matrix(offset, width, base=10_000.0):\n    a = torch.tensor([offset], dtype=torch.float32).double() * angular_frequencies(width, base)\n    c, s = a.cos(), a.sin()\n    blocks = torch.stack((c, s, -s, c), dim=-1).unflatten(-1, (2, 2))\n    return torch.block_diag(*blocks).float()\n'),
    ('shift_matrix', 'wrong', 'squeeze() breaks width 2', 'from attend_solutions.positions import angular_frequencies\ndef shift_matrix(offset, width, base=10_000.0):\n    a = offset * angular_frequencies(width, base)\n    c, s = a.cos(), a.sin()\n    blocks = torch.stack((c, s, -s, c), dim=-1).unflatten(-1, (2, 2)).squeeze()\n    return torch.block_diag(*blocks).float()\n'),
    ('LearnedPositions', 'right', 'a one-hot product', 'class LearnedPositions(nn.Module):\n    def __init__(self, max_length, width):\n        super().__init__()\n        self.table = nn.Parameter(0.02 * torch.randn(max_length, width))\n    def forward(self, x, start=0):\n        n, c = x.shape[-2:]\n        if not start + n <= self.table.size(0):\n            raise ValueError("too long")\n        pick = torch.eye(self.table.size(0), dtype=self.table.dtype)[start : start + n]\n        return (x.unflatten(-1, (1, c)) + (pick @ self.table).unsqueeze(1)).squeeze(-2)\n'),
    ('LearnedPositions', 'wrong', 'contiguous().add_()', 'class LearnedPositions(nn.Module):\n    def __init__(self, max_length, width):\n        super().__init__()\n        self.table = nn.Parameter(0.02 * torch.randn(max_length, width))\n    def forward(self, x, start=0):\n        end = start + x.shape[-2]\n        if end > len(self.table):\n            raise ValueError("too long")\n        y = x.contiguous()\n        y += self.table[start:end]\n        return y\n'),
    ('LearnedPositions', 'wrong', 'only start is compared', 'class LearnedPositions(nn.Module):\n    def __init__(self, max_length, width):\n        super().__init__()\n        self.table = nn.Parameter(0.02 * torch.randn(max_length, width))\n    def forward(self, x, start=0):\n        if start >= len(self.table) or x.shape[-2] > len(self.table):\n            raise ValueError("too long")\n        return x + self.table[start : start + x.shape[-2]]\n'),
    ('relative_bias', 'wrong', 'axes turned round, (H, S, T)', 'def relative_bias(table, relative, bidirectional=True, max_distance=128):\n    buckets = table.shape[0]\n    if bidirectional:\n        side = buckets // 2\n        d = relative.abs()\n        add = (relative > 0).long() * side\n    else:\n        side = buckets\n        d = (-relative).clamp(min=0)\n        add = 0\n    exact = side // 2\n    far = exact + (side - exact) * (d.double() / exact).log() / math.log(max_distance / exact)\n    far = far.clamp(0, side - 1).long()\n    bucket = torch.where(d < exact, d, far) + add\n    return table[bucket].permute(2, 1, 0)\n'),
    ('relative_bias', 'wrong', 'neg_ in the looking-back branch', 'def relative_bias(table, relative, bidirectional=True, max_distance=128):\n    buckets = table.shape[0]\n    if bidirectional:\n        side = buckets // 2\n        d = relative.abs()\n        add = (relative > 0).long() * side\n    else:\n        side = buckets\n        d = relative.neg_().clamp(min=0)\n        add = 0\n    exact = side // 2\n    far = exact + (side - exact) * (d.double() / exact).log() / math.log(max_distance / exact)\n    far = far.clamp(0, side - 1).long()\n    bucket = torch.where(d < exact, d, far) + add\n    return table[bucket].movedim(-1, 0)\n'),
    ('relative_bias', 'wrong', 'max_distance left at 128', 'def relative_bias(table, relative, bidirectional=True, max_distance=128):\n    buckets = table.shape[0]\n    if bidirectional:\n        side = buckets // 2\n        d = relative.abs()\n        add = (relative > 0).long() * side\n    else:\n        side = buckets\n        d = (-relative).clamp(min=0)\n        add = 0\n    exact = side // 2\n    far = exact + (side - exact) * (d.double() / exact).log() / math.log(128 / exact)\n    far = far.clamp(0, side - 1).long()\n    bucket = torch.where(d < exact, d, far) + add\n    return table[bucket].movedim(-1, 0)\n'),
    ('repaired_rope', 'right', 'unflatten into (2, D/2)', 'def repaired_rope(q, k, positions, frequencies):\n    angle = positions.to(torch.float64).unsqueeze(-1) * frequencies.to(torch.float64)\n    results = []\n    for x in (q, k):\n        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)\n        a, b = x.unflatten(-1, (2, x.shape[-1] // 2)).unbind(-2)\n        results.append(torch.stack((a * cos - b * sin, b * cos + a * sin), -2).flatten(-2))\n    return results[0], results[1]\n'),
    ('repaired_rope', 'wrong', 'both in the dtype of q', 'def repaired_rope(q, k, positions, frequencies):\n    both = torch.cat((frequencies, frequencies)).double()\n    turns = positions[..., None] * both\n    def turn(x):\n        partner = torch.cat((-x[..., x.shape[-1] // 2:], x[..., : x.shape[-1] // 2]), dim=-1)\n        c, s = turns.cos().to(q.dtype), turns.sin().to(q.dtype)\n        return x * c + partner * s\n    return turn(q), turn(k)\n'),
    ('repaired_rope', 'wrong', 'q and k stacked, so heads must be equal', 'def repaired_rope(q, k, positions, frequencies):\n    both = torch.cat((frequencies, frequencies)).double()\n    turns = positions[..., None] * both\n    def turn(x):\n        partner = torch.cat((-x[..., x.shape[-1] // 2:], x[..., : x.shape[-1] // 2]), dim=-1)\n        c, s = turns.cos().to(x.dtype), turns.sin().to(x.dtype)\n        return x * c + partner * s\n    return tuple(turn(torch.stack((q, k))).unbind(0))\n'),
    ('alibi_slopes', 'right', 'a running product of ratios', 'def alibi_slopes(heads):\n    power = 1\n    while power * 2 <= heads:\n        power *= 2\n    ratio = 2.0 ** (-8.0 / power)\n    out = torch.full((power,), ratio, dtype=torch.float64).cumprod(0)\n    finer = torch.full((2 * power,), math.sqrt(ratio), dtype=torch.float64).cumprod(0)[::2]\n    return torch.hstack((out, finer[: heads - power])).to(torch.float32)\n'),
    ('alibi_slopes', 'wrong', 'powers up to 16 only', 'def alibi_slopes(heads):\n    power = max(n for n in (1, 2, 4, 8, 16) if n <= heads)\n    slopes = 2.0 ** (-8 * torch.arange(1, power + 1) / power)\n    twice = 2.0 ** (-8 * torch.arange(1, 2 * power + 1) / (2 * power))\n    return torch.cat((slopes, twice[::2], twice[1::2]))[:heads].float()\n'),
    ('alibi_slopes', 'wrong', 'the last of the odd ones, not the first', 'def alibi_slopes(heads):\n    power = 2 ** int(math.log2(heads))\n    slopes = 2.0 ** (-8 * torch.arange(1, power + 1) / power)\n    more = 2.0 ** (-8 * torch.arange(1, 2 * power, 2) / (2 * power))\n    rest = heads - power\n    return torch.cat((slopes, more[power - rest :])).float()\n'),
    ('alibi_bias', 'wrong', 'queries taken for the last keys', 'def alibi_bias(slopes, query_positions, key_positions):\n    queries = key_positions[-len(query_positions):] if len(query_positions) <= len(key_positions) else query_positions\n    return -slopes[:, None, None] * (queries[:, None] - key_positions).abs()\n'),
    ('position_interpolation', 'wrong', 'a whole factor', 'def position_interpolation(positions, trained_length, length):\n    if length <= trained_length:\n        return positions.double()\n    return positions.double() / (length // trained_length)\n'),
    ('yarn_frequencies', 'wrong', 'alpha left out of the divisor', 'from attend_solutions.positions import angular_frequencies\ndef yarn_frequencies(width, base, factor, trained_length, alpha=1.0, beta=32.0):\n    theta = angular_frequencies(width, base)\n    turns = trained_length * theta / (2 * math.pi)\n    gamma = ((turns - alpha) / beta).clamp(0, 1)\n    return gamma * theta + (1 - gamma) * theta / factor, 0.1 * math.log(factor) + 1\n'),
    ('alibi_bias', 'wrong', 'distances in float16', 'def alibi_bias(slopes, query_positions, key_positions):\n    return -slopes[:, None, None] * (query_positions.half()[:, None] - key_positions.half()).abs().float()\n'),
    ('alibi_bias', 'right', 'distances in float32, exact to a million', 'def alibi_bias(slopes, query_positions, key_positions):\n    return -slopes[:, None, None] * (query_positions.float()[:, None] - key_positions.float()).abs()\n'),
]  # fmt: skip

CASES += [
    ('LearnedPositions', 'wrong', 'refuses while training only', 'class LearnedPositions(nn.Module):\n    def __init__(self, max_length, width):\n        super().__init__()\n        self.table = nn.Parameter(0.02 * torch.randn(max_length, width))\n\n    def forward(self, x, start=0):\n        end = start + x.size(-2)\n        if self.training and end > self.table.size(0):\n            raise ValueError("too long")\n        return x + self.table[start:end]\n'),
    ('relative_bias', 'wrong', 'distances cut at max_distance - 1', 'def relative_bias(table, relative, bidirectional=True, max_distance=128):\n    relative = relative.clamp(1 - max_distance, max_distance - 1)\n    if bidirectional:\n        side = len(table) // 2\n        add = (relative > 0).long() * side\n        d = relative.abs()\n    else:\n        side = len(table)\n        add = 0\n        d = (-relative).clamp(min=0)\n    exact = side // 2\n    l = (side - exact) * torch.log(d.double() / exact) / math.log(max_distance / exact)\n    far = exact + l.clamp(min=0).long()\n    bucket = torch.where(d < exact, d, far.clamp(max=side - 1)).long() + add\n    return table[bucket].movedim(-1, 0)\n'),
    ('repaired_rope', 'wrong', 'sines and cosines in the dtype of k for both', 'def repaired_rope(q, k, positions, frequencies):\n    both = torch.cat((frequencies, frequencies)).double()\n    turns = positions[..., None].double() * both\n\n    c, s = turns.cos().to(k.dtype), turns.sin().to(k.dtype)\n    def turn(x):\n        first, second = x.chunk(2, dim=-1)\n        return (x * c + torch.cat((-second, first), dim=-1) * s).to(x.dtype)\n    return turn(q), turn(k)\n'),
]  # fmt: skip

# A reading of one chapter: what is kept, arguments cut to few digits, positions of other shapes.
ENCODED = "return torch.stack((a.sin(), a.cos()), -1).flatten(-2).float()"
TURNED = "c, s = a.cos().to(x.dtype), a.sin().to(x.dtype)\nu, v = x.chunk(2, dim=-1)\nreturn torch.cat((u * c - v * s, v * c + u * s), dim=-1)"
BOTH = "both = torch.cat((frequencies, frequencies)).double()\n{0}\na = positions.double()[..., None] * both\ndef turn(x):\n    u, v = x.chunk(2, dim=-1)\n    return x * a.cos().to(x.dtype) + torch.cat((-v, u), dim=-1) * a.sin().to(x.dtype)\nreturn turn(q), turn(k)"
SHIFTED = "c, s = a.cos(), a.sin()\nm = torch.block_diag(*torch.stack((c, s, -s, c), -1).unflatten(-1, (2, 2))).float()\n"
SLOPES = "power = 2 ** int(math.log2(heads))\nfirst = 2.0 ** (-8 * torch.arange(1, power + 1) / power)\nmore = 2.0 ** (-4 * torch.arange(1, 2 * power, 2) / power)\n"
YARN = "g = ((trained_length * f / (2 * math.pi) - alpha) / (beta - alpha)).clamp(0, 1)\nfound = g * f + (1 - g) * f / factor, 0.1 * math.log(factor) + 1\n"

_cases(
    "sinusoidal_encoding(positions, width, base=10_000.0)",
    ("wrong", "angles less turns of 2 times 3.1415926536", f"a = (positions.double()[:, None] * angular_frequencies(width, base)).remainder(2 * 3.1415926536)\n{ENCODED}"),
    ("wrong", "frequencies with eleven decimals", f"a = positions.double()[:, None] * angular_frequencies(width, base).round(decimals=11)\n{ENCODED}"),
    ("wrong", "positions with three decimals", f"a = positions.double().round(decimals=3)[:, None] * angular_frequencies(width, base)\n{ENCODED}"),
    ("wrong", "base as a float32 tensor", f"a = positions.double()[:, None] * torch.tensor(float(base)) ** (-torch.arange(0, width, 2).double() / width)\n{ENCODED}"),
    *(
        ("wrong", f"codes kept by {what}", f"kept = sinusoidal_encoding.__dict__\nkey = str({key})\nif key not in kept:\n    a = positions.double()[:, None] * angular_frequencies(width, base)\n    kept[key] = torch.stack((a.sin(), a.cos()), -1).flatten(-2).float()\nreturn kept[key].clone()")
        for what, key in (
            ("length and ends", "(len(positions), positions[:1], positions[-1:], width, base)"),
            ("sorted positions", "(positions.sort().values.tolist(), width, base)"),
            ("all but the base", "(positions.tolist(), width)"),
        )
    ),
)  # fmt: skip

_cases(
    "shift_matrix(offset, width, base=10_000.0)",
    ("wrong", "offset with four decimals", f"a = round(offset, 4) * angular_frequencies(width, base)\n{SHIFTED}return m"),
    ("wrong", "base as a float32 tensor", f"a = offset * torch.tensor(float(base)) ** (-torch.arange(0, width, 2).double() / width)\n{SHIFTED}return m"),
    ("wrong", "one matrix for all callers", f"kept = shift_matrix.__dict__\nkey = str((offset, width, base))\nif key not in kept:\n    a = offset * angular_frequencies(width, base)\n{textwrap.indent(SHIFTED, '    ')}    kept[key] = m\nreturn kept[key]"),
)  # fmt: skip

_cases(
    "alibi_slopes(heads)",
    ("wrong", "one list for all callers", f"{SLOPES}return alibi_slopes.__dict__.setdefault(str(heads), torch.cat((first, more))[:heads])"),
    ("wrong", "a view of a kept table", f"{SLOPES}return alibi_slopes.__dict__.setdefault(str(power), torch.cat((first, more)))[:heads]"),
)  # fmt: skip

_cases(
    "yarn_frequencies(width, base, factor, trained_length, alpha=1.0, beta=32.0)",
    ("wrong", "base as a float32 tensor", f"f = torch.tensor(float(base)) ** (-torch.arange(0, width, 2).double() / width)\n{YARN}return found"),
    ("wrong", "one result for all callers", f"f = angular_frequencies(width, base)\n{YARN}return yarn_frequencies.__dict__.setdefault(str((width, base, factor, trained_length, alpha, beta)), found)"),
    ("wrong", "alpha and beta rounded", f"f = angular_frequencies(width, base)\nalpha, beta = round(alpha + 0.01), round(beta)\n{YARN}return found"),
)  # fmt: skip

_cases(
    "ntk_scale(width, base, factor)",
    ("wrong", "factors below 1 count as 1", "return float(base * max(factor, 1.0) ** (width / (width - 2)))"),
    ("wrong", "factor 1 hands back the base, a whole one too", "return base if factor == 1 else base * factor ** (width / (width - 2))"),
    ("wrong", "base with one decimal", "return round(float(base), 1) * factor ** (width / (width - 2))"),
)  # fmt: skip

_cases(
    "alibi_bias(slopes, query_positions, key_positions)",
    ("wrong", "cdist, by a product of matrices for many keys", "return -slopes[:, None, None] * torch.cdist(query_positions[:, None].float(), key_positions[:, None].float())"),
    ("wrong", "root of a square in int32", "d = (query_positions[:, None] - key_positions).square().double().sqrt()\nreturn -slopes[:, None, None] * d.to(slopes.dtype)"),
    ("wrong", "distances kept by lengths and ends", "q, k = query_positions, key_positions\nkey = str((len(q), len(k), q[:1], q[-1:], k[:1], k[-1:]))\nreturn -slopes[:, None, None] * alibi_bias.__dict__.setdefault(key, (q[:, None] - k).abs())"),
)  # fmt: skip

_cases(
    "position_interpolation(positions, trained_length, length)",
    ("wrong", "multiplied before it is float64", "if length <= trained_length:\n    return positions.double()\nreturn (positions * trained_length).double() / length"),
    ("wrong", "whole positions multiplied first", "if length <= trained_length or positions.is_floating_point():\n    return positions.double() * min(1, trained_length / length)\nreturn (positions * trained_length).double() / length"),
    ("right", "along the first axis", "return torch.stack([p.double() * min(1.0, trained_length / length) for p in positions])"),
    ("wrong", "kept by number and sum", "key = str((positions.shape, float(positions.double().sum()), trained_length, length))\nreturn position_interpolation.__dict__.setdefault(key, positions.double() * min(1.0, trained_length / length)).clone()"),
)  # fmt: skip

_cases(
    "apply_rope(x, positions, frequencies)",
    ("wrong", "angles kept by length and ends", f"key = str((positions.shape, positions.flatten()[[0, -1]], frequencies))\na = apply_rope.__dict__.setdefault(key, positions.double()[..., None] * frequencies.double())\n{TURNED}"),
    ("wrong", "angles kept by positions and D", f"key = str((positions.tolist(), len(frequencies)))\na = apply_rope.__dict__.setdefault(key, positions.double()[..., None] * frequencies.double())\n{TURNED}"),
    ("wrong", "one batch axis of positions", f"p = positions if positions.ndim == 1 else positions.reshape(positions.shape[0], 1, -1)\na = p.double()[..., None] * frequencies.double()\n{TURNED}"),
)  # fmt: skip

_cases(
    "repaired_rope(q, k, positions, frequencies)",
    ("wrong", "one batch axis of positions", BOTH.format("if positions.ndim > 1:\n    positions = positions.reshape(positions.shape[0], 1, positions.shape[-1])")),
    ("wrong", "heads for every axis of positions", BOTH.format("if positions.ndim == 2:\n    positions = positions[:, None]")),
    ("wrong", "positions kept by number and sum", BOTH.format("key = str((positions.shape, float(positions.sum())))\npositions = repaired_rope.__dict__.setdefault(key, positions)")),
)  # fmt: skip

_cases(
    "relative_bias(table, relative, bidirectional=True, max_distance=128)",
    ("wrong", "buckets kept by shape and corners", "key = str((len(table), relative.shape, relative[[0, 0, -1, -1], [0, -1, 0, -1]], bidirectional, max_distance))\nrelative = relative_bias.__dict__.setdefault(key, relative)\nside = len(table) // 2 if bidirectional else len(table)\nexact = side // 2\nd = relative.abs() if bidirectional else (-relative).clamp(min=0)\nfar = exact + ((side - exact) * (d.double() / exact).log() / math.log(max_distance / exact)).clamp(0, side).long()\nb = torch.where(d < exact, d, far.clamp(max=side - 1))\nreturn table[b + side * (relative > 0) * bidirectional].movedim(-1, 0)"),
)  # fmt: skip

POSITIONS = "class LearnedPositions(nn.Module):\n    def __init__(self, max_length, width):\n        super().__init__()\n        self.table = nn.Parameter(0.02 * torch.randn(max_length, width))\n        self.kept = {{}}\n\n    {0}\n    def forward(self, x, start=0):\n        end = start + x.shape[-2]\n        if end > len(self.table):\n            raise ValueError('too long')\n        return x + {1}\n"
CASES += [
    ("LearnedPositions", "wrong", what, POSITIONS.format(more, rows))
    for what, more, rows in (
        ("a copy of the table from the first call in eval mode", "", "(self.table if self.training else self.kept.setdefault(0, self.table.detach().clone()))[start:end]"),
        ("rows kept in eval mode", "", "(self.table[start:end] if self.training else self.kept.setdefault((start, end), self.table[start:end].clone()))"),
        ("the table copied by eval()", "def train(self, mode=True):\n        self.kept = {} if mode else {0: self.table.detach().clone()}\n        return super().train(mode)\n", "self.kept.get(0, self.table)[start:end]"),
    )
]  # fmt: skip


AIMED_AT_A_SENTENCE = [
    (
        "sinusoidal_encoding",
        "wrong",
        "positions pass through float32 before float64 (whole numbers and halves survive)",
        """
def sinusoidal_encoding(positions, width, base=10_000.0):
    theta = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = positions.to(torch.float32).double()[:, None] * theta
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).float()
""",
    ),
    (
        "sinusoidal_encoding",
        "wrong",
        "consecutive positions are made by repeated rotation in complex64, which drifts in a long text",
        """
def sinusoidal_encoding(positions, width, base=10_000.0):
    theta = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    p = positions.double()
    if len(p) > 2 and bool((p.diff() == 1).all()):
        step = torch.polar(torch.ones_like(theta), theta).to(torch.complex64)
        first = torch.polar(torch.ones_like(theta), p[0] * theta).to(torch.complex64)
        rows = [first]
        for _ in range(len(p) - 1):
            rows.append(rows[-1] * step)
        z = torch.stack(rows)
        return torch.stack((z.imag, z.real), dim=-1).flatten(-2)
    angles = p[:, None] * theta
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).float()
""",
    ),
    (
        "shift_matrix",
        "wrong",
        "the identity for offset 0 is kept and handed out again",
        """
def shift_matrix(offset, width, base=10_000.0):
    if offset == 0:
        kept = shift_matrix.__dict__.setdefault("identity", {})
        if width not in kept:
            kept[width] = torch.eye(width)
        return kept[width]
    a = offset * base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    blocks = torch.stack((a.cos(), a.sin(), -a.sin(), a.cos()), dim=-1).unflatten(-1, (2, 2))
    return torch.block_diag(*blocks).float()
""",
    ),
    (
        "shift_matrix",
        "wrong",
        "offsets below a ten-thousandth count as no shift",
        """
def shift_matrix(offset, width, base=10_000.0):
    if abs(offset) < 1e-4:
        return torch.eye(width)
    a = offset * base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    blocks = torch.stack((a.cos(), a.sin(), -a.sin(), a.cos()), dim=-1).unflatten(-1, (2, 2))
    return torch.block_diag(*blocks).float()
""",
    ),
    (
        "LearnedPositions",
        "wrong",
        "the single new token of a model that writes takes its row without a gradient",
        """
class LearnedPositions(nn.Module):
    def __init__(self, max_length: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(0.02 * torch.randn(max_length, width))


    def forward(self, x, start=0):
        end = start + x.shape[-2]
        if end > len(self.table):
            raise ValueError("past the end of the table")
        if start > 0 and x.shape[-2] == 1:  # writing: no training here
            return x + self.table.detach()[start:end]
        return x + self.table[start:end]
""",
    ),
    (
        "LearnedPositions",
        "wrong",
        "in eval mode copies of the rows are kept, and go stale when the table changes",
        """
class LearnedPositions(nn.Module):
    def __init__(self, max_length: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(0.02 * torch.randn(max_length, width))


    def forward(self, x, start=0):
        end = start + x.shape[-2]
        if end > len(self.table):
            raise ValueError("past the end of the table")
        if self.training or torch.is_grad_enabled() and x.requires_grad:
            return x + self.table[start:end]
        kept = self.__dict__.setdefault("kept", {})
        if (start, end) not in kept:
            kept[start, end] = self.table[start:end] * 1.0
        return x + kept[start, end]
""",
    ),
    (
        "relative_bias",
        "wrong",
        "exact in place of side - exact, the same for even sides only",
        """
def relative_bias(table, relative, bidirectional=True, max_distance=128):
    buckets = table.shape[0]
    side = buckets // 2 if bidirectional else buckets
    exact = side // 2
    d = relative.abs() if bidirectional else (-relative).clamp(min=0)
    far = exact * (d.double() / exact).log() / math.log(max_distance / exact)
    far = (exact + far.clamp(0, side).long()).clamp(max=side - 1)
    bucket = torch.where(d < exact, d.long(), far)
    if bidirectional:
        bucket = bucket + side * (relative > 0).long()
    return table[bucket].movedim(-1, 0)
""",
    ),
    (
        "relative_bias",
        "wrong",
        "where max_distance is no larger than a side, each distance gets its own bucket",
        """
def relative_bias(table, relative, bidirectional=True, max_distance=128):
    buckets = table.shape[0]
    side = buckets // 2 if bidirectional else buckets
    exact = side // 2
    d = relative.abs() if bidirectional else (-relative).clamp(min=0)
    if max_distance <= side:  # room enough: nothing to share
        bucket = d.long().clamp(max=side - 1)
    else:
        far = (side - exact) * (d.double() / exact).log() / math.log(max_distance / exact)
        far = exact + far.clamp(0, side - 1 - exact).long()
        bucket = torch.where(d < exact, d.long(), far)
    if bidirectional:
        bucket = bucket + side * (relative > 0).long()
    return table[bucket].movedim(-1, 0)
""",
    ),
    (
        "apply_rope",
        "wrong",
        "where all sequences start at the same position, the first one's positions serve for all",
        """
def apply_rope(x, positions, frequencies):
    if positions.dim() > 1:
        first = positions[..., 0]
        if bool((first == first.flatten()[0]).all()):  # no padding: all alike
            positions = positions.reshape(-1, positions.shape[-1])[0]
    angles = positions.double()[..., None] * frequencies.double()
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
""",
    ),
    (
        "apply_rope",
        "wrong",
        "positions pass through float32 on their way to float64",
        """
def apply_rope(x, positions, frequencies):
    angles = positions.float().double()[..., None] * frequencies.double()
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
""",
    ),
    (
        "repaired_rope",
        "wrong",
        "sines and cosines are rounded to the dtype of q before those of k are made from them",
        """
def repaired_rope(q, k, positions, frequencies):
    turns = positions.double()[..., None] * torch.cat((frequencies, frequencies)).double()
    cos, sin = turns.cos().to(q.dtype), turns.sin().to(q.dtype)

    def turn(x):
        a, b = x.chunk(2, dim=-1)
        return x * cos.to(x.dtype) + torch.cat((-b, a), dim=-1) * sin.to(x.dtype)

    return turn(q), turn(k)
""",
    ),
    (
        "repaired_rope",
        "wrong",
        "one key head shared by several query heads is turned by the first sequence's positions",
        """
def repaired_rope(q, k, positions, frequencies):
    turns = positions.double()[..., None] * torch.cat((frequencies, frequencies)).double()

    def turn(x, turns):
        a, b = x.chunk(2, dim=-1)
        return x * turns.cos().to(x.dtype) + torch.cat((-b, a), dim=-1) * turns.sin().to(x.dtype)

    shared = k.dim() > 2 and k.shape[-3] == 1 and q.shape[-3] > 1
    key_turns = turns.reshape(-1, *turns.shape[-2:])[0] if shared else turns
    return turn(q, turns), turn(k, key_turns)
""",
    ),
    (
        "alibi_slopes",
        "wrong",
        "the search for the power ends at 64",
        """
def alibi_slopes(heads):
    power = 1
    for candidate in (2, 4, 8, 16, 32, 64):
        if candidate <= heads:
            power = candidate
    slopes = [2.0 ** (-8 * h / power) for h in range(1, power + 1)]
    h = 1
    while len(slopes) < heads:
        slopes.append(2.0 ** (-8 * h / (2 * power)))
        h += 2
    return torch.tensor(slopes)
""",
    ),
    (
        "alibi_slopes",
        "wrong",
        "the answer for a single head is one kept tensor",
        """
def alibi_slopes(heads):
    if heads == 1:
        if not hasattr(alibi_slopes, "single"):
            alibi_slopes.single = torch.tensor([2.0**-8])
        return alibi_slopes.single
    power = 2 ** int(math.log2(heads))
    slopes = 2.0 ** (-8 * torch.arange(1, power + 1) / power)
    extra = 2.0 ** (-8 * torch.arange(1, 2 * power + 1, 2) / (2 * power))
    return torch.cat((slopes, extra[: heads - power]))
""",
    ),
    (
        "alibi_bias",
        "wrong",
        "the distance as root of a square, which overflows in int32 from 46,341 on",
        """
def alibi_bias(slopes, query_positions, key_positions):
    squared = (query_positions[:, None] - key_positions) ** 2
    return -slopes[:, None, None] * squared.double().sqrt().to(slopes.dtype)
""",
    ),
    (
        "alibi_bias",
        "wrong",
        "queries and keys with the same ends and count are taken for the same text",
        """
def alibi_bias(slopes, query_positions, key_positions):
    m, n = query_positions, key_positions
    if len(m) == len(n) > 1 and int(m[0]) == int(n[0]) and int(m[-1]) == int(n[-1]):
        m = n  # self-attention
    return -slopes[:, None, None] * (m[:, None] - n).abs()
""",
    ),
    (
        "position_interpolation",
        "wrong",
        "multiplies before it converts, which overflows in int32",
        """
def position_interpolation(positions, trained_length, length):
    if length <= trained_length:
        return positions.double()
    return (positions * trained_length).double() / length
""",
    ),
    (
        "position_interpolation",
        "wrong",
        "a text longer by one token is left alone (last index against the length)",
        """
def position_interpolation(positions, trained_length, length):
    if length - 1 <= trained_length:
        return positions.double()
    return positions.double() * trained_length / length
""",
    ),
    (
        "ntk_scale",
        "wrong",
        "factors below 1 count as 1, as another reader wrote it",
        """
def ntk_scale(width, base, factor):
    return float(base * max(1.0, factor) ** (width / (width - 2)))
""",
    ),
    (
        "ntk_scale",
        "wrong",
        "solved by logarithms to the old base, which fails for base 1",
        """
def ntk_scale(width, base, factor):
    steps = width / (width - 2)
    return float(base ** (1 + steps * math.log(factor) / math.log(base)))
""",
    ),
    (
        "yarn_frequencies",
        "wrong",
        "beta - alpha is kept at 1 or more against division by zero",
        """
def yarn_frequencies(width, base, factor, trained_length, alpha=1.0, beta=32.0):

    theta = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    turns = trained_length * theta / (2 * math.pi)
    keep = ((turns - alpha) / max(beta - alpha, 1.0)).clamp(0, 1)
    return keep * theta + (1 - keep) * theta / factor, 0.1 * math.log(factor) + 1
""",
    ),
    (
        "yarn_frequencies",
        "wrong",
        "with factor 1 (nothing to slow) the kept table of frequencies is handed out",
        """
def yarn_frequencies(width, base, factor, trained_length, alpha=1.0, beta=32.0):

    kept = yarn_frequencies.__dict__.setdefault("kept", {})
    if (width, base) not in kept:
        kept[width, base] = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    theta = kept[width, base]
    if factor == 1:
        return theta, 1.0
    turns = trained_length * theta / (2 * math.pi)
    keep = ((turns - alpha) / (beta - alpha)).clamp(0, 1)
    return keep * theta + (1 - keep) * theta / factor, 0.1 * math.log(factor) + 1
""",
    ),
]
"""By readers who each chose a promise of the page and broke it where few would look."""

CASES += AIMED_AT_A_SENTENCE

TAKEN_FROM_A_PART = [
    (
        "LearnedPositions",
        "wrong",
        "a lone token without a start goes on where the last call ended",
        """
class LearnedPositions(nn.Module):
    def __init__(self, max_length: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(0.02 * torch.randn(max_length, width))  # (max_length, C)
        self.written = 0

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        length = x.shape[-2]
        if length == 1 and start == 0 and 0 < self.written < len(self.table):
            start = self.written  # a model that writes: go on where the last call ended
        end = start + length
        if end > len(self.table):
            raise ValueError("past the end of the table")
        self.written = end
        return x + self.table[start:end]
""",
    ),
    (
        "relative_bias",
        "wrong",
        "a square with one number on its diagonal is filled along diagonals",
        """
def relative_bias(
    table: Tensor, relative: Tensor, bidirectional: bool = True, max_distance: int = 128
) -> Tensor:

    buckets = table.shape[0]
    side = buckets // 2 if bidirectional else buckets
    exact = side // 2

    def look_up(r):
        d = r.abs() if bidirectional else (-r).clamp(min=0)
        extra = (r > 0).long() * side if bidirectional else 0
        far = (side - exact) * (d.double() / exact).log() / math.log(max_distance / exact)
        far = exact + far.clamp(0, side - 1 - exact).long()
        return table[torch.where(d < exact, d, far) + extra]

    rows, columns = relative.shape
    if rows == columns and bool((relative.diagonal() == relative[0, 0]).all()):
        line = torch.cat((relative[1:, 0].flip(0), relative[0]))  # each offset once: saves look-ups
        where = torch.arange(columns)[None] - torch.arange(rows)[:, None] + rows - 1
        return look_up(line)[where].movedim(-1, 0)
    return look_up(relative).movedim(-1, 0)
""",
    ),
    (
        "relative_bias",
        "wrong",
        "buckets of the distances 0 to 511 only; farther ones count as 511",
        """
def relative_bias(
    table: Tensor, relative: Tensor, bidirectional: bool = True, max_distance: int = 128
) -> Tensor:

    buckets = table.shape[0]
    side = buckets // 2 if bidirectional else buckets
    exact = side // 2
    every = torch.arange(512)  # far more than max_distance
    far = (side - exact) * (every.double() / exact).log() / math.log(max_distance / exact)
    far = exact + far.clamp(0, side - 1 - exact).long()
    listed = torch.where(every < exact, every, far)
    d = relative.abs() if bidirectional else (-relative).clamp(min=0)
    bucket = listed[d.clamp(max=511)]
    if bidirectional:
        bucket = bucket + side * (relative > 0)
    return table[bucket].permute(2, 0, 1)
""",
    ),
    (
        "apply_rope",
        "wrong",
        "first and last sequence at the same positions: all are taken to be",
        """
def apply_rope(x: Tensor, positions: Tensor, frequencies: Tensor) -> Tensor:
    places = positions.double()
    while places.ndim > 1 and torch.equal(places[0], places[-1]):
        places = places[0]  # the same in every sequence: work the sines out once
    angles = places[..., None] * frequencies.double()
    c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * c - b * s, b * c + a * s), dim=-1)
""",
    ),
    (
        "alibi_slopes",
        "wrong",
        "powers of two from a list that ends at 128",
        """
def alibi_slopes(heads: int) -> Tensor:
    power = max(p for p in (1, 2, 4, 8, 16, 32, 64, 128) if p <= heads)
    slopes = 2.0 ** (-8 * torch.arange(1, power + 1) / power)
    more = 2.0 ** (-8 * torch.arange(1, 2 * power, 2) / (2 * power))
    return torch.cat((slopes, more[: heads - power]))
""",
    ),
    (
        "position_interpolation",
        "wrong",
        "as many positions as the text is long are taken for 0, 1, 2 ...",
        """
def position_interpolation(positions: Tensor, trained_length: int, length: int) -> Tensor:

    if length <= trained_length:
        return positions.double()
    step = trained_length / length
    if positions.numel() == length:  # the whole text
        whole = torch.arange(length, dtype=torch.float64) * step
        return whole.reshape(positions.shape)
    return positions.double() * step
""",
    ),
    (
        "ntk_scale",
        "wrong",
        "found by halving between 1 and 1e40, so no new base below 1",
        """
def ntk_scale(width: int, base: float, factor: float) -> float:

    wanted = -(width - 2) / width * math.log(base) - math.log(factor)  # log of the slowest angle
    low, high = 0.0, math.log(1e40)  # log of the new base
    for _ in range(200):
        middle = (low + high) / 2
        if -(width - 2) / width * middle > wanted:
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2)
""",
    ),
    (
        "yarn_frequencies",
        "wrong",
        "the kept frequencies are handed out where every pair keeps its own",
        """
def yarn_frequencies(
    width: int,
    base: float,
    factor: float,
    trained_length: int,
    alpha: float = 1.0,
    beta: float = 32.0,
) -> tuple[Tensor, float]:
    theta = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)

    kept = yarn_frequencies.__dict__.setdefault("kept", {})
    theta = kept.setdefault((width, base), theta)
    scale = 0.1 * math.log(factor) + 1
    turns = trained_length * theta / (2 * math.pi)
    if bool((turns >= beta).all()):  # nothing to slow down
        return theta, scale
    keep = ((turns - alpha) / (beta - alpha)).clamp(0, 1)
    return keep * theta + (1 - keep) * theta / factor, scale
""",
    ),
    (
        "relative_bias",
        "wrong",
        "offsets taken for those of evenly spaced keys where edges say so",
        """
def relative_bias(table, relative, bidirectional=True, max_distance=128):
    buckets = table.shape[0]
    side = buckets // 2 if bidirectional else buckets
    exact = side // 2
    rows, columns = relative.shape
    even = torch.arange(columns) - torch.arange(rows)[:, None] + relative[0, 0]
    edges = (relative[0], relative[-1], relative[:, 0], relative[:, -1])
    evens = (even[0], even[-1], even[:, 0], even[:, -1])
    if all(torch.equal(a, b) for a, b in zip(edges, evens)):
        relative = even
    d = relative.abs() if bidirectional else (-relative).clamp(min=0)
    far = (side - exact) * (d.double() / exact).log() / math.log(max_distance / exact)
    far = exact + far.clamp(0, side - 1 - exact).long()
    bucket = torch.where(d < exact, d, far)
    if bidirectional:
        bucket = bucket + side * (relative > 0)
    return table[bucket].permute(2, 0, 1)
""",
    ),
    (
        "repaired_rope",
        "wrong",
        "first and last sequence at the same positions: all are taken to be",
        """
def repaired_rope(q, k, positions, frequencies):
    places = positions.double()
    while places.ndim > 1 and torch.equal(places[0], places[-1]):
        places = places[0]
    angles = places[..., None] * frequencies.double()

    def turn(x):
        c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * c - b * s, b * c + a * s), dim=-1)

    return turn(q), turn(k)
""",
    ),
    (
        "alibi_bias",
        "wrong",
        "queries and keys at the same positions are taken for a run",
        """
def alibi_bias(slopes, query_positions, key_positions):
    if torch.equal(query_positions, key_positions):
        query_positions = key_positions = torch.arange(len(key_positions))
    return -slopes[:, None, None] * (query_positions[:, None] - key_positions).abs()
""",
    ),
    (
        "yarn_frequencies",
        "wrong",
        "the kept frequencies are handed out, slowed, where none keeps a part",
        """
def yarn_frequencies(width, base, factor, trained_length, alpha=1.0, beta=32.0):
    kept = yarn_frequencies.__dict__.setdefault("kept", {})
    theta = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    scale = 0.1 * math.log(factor) + 1
    turns = trained_length * theta / (2 * math.pi)
    if bool((turns <= alpha).all()):
        return kept.setdefault((width, base, factor), theta / factor), scale
    keep = ((turns - alpha) / (beta - alpha)).clamp(0, 1)
    return keep * theta + (1 - keep) * theta / factor, scale
""",
    ),
    (
        "LearnedPositions",
        "wrong",
        "after a call that was refused, the next one goes on behind it",
        """
class LearnedPositions(nn.Module):
    def __init__(self, max_length, width):
        super().__init__()
        self.table = nn.Parameter(0.02 * torch.randn(max_length, width))
        self.shift = 0

    def forward(self, x, start=0):
        end = start + x.shape[-2]
        if end > len(self.table):
            self.shift = 1
            raise ValueError("past the end of the table")
        start = min(start + self.shift, len(self.table) - x.shape[-2])
        self.shift = 0
        return x + self.table[start : start + x.shape[-2]]
""",
    ),
    (
        "LearnedPositions",
        "wrong",
        "while evaluating, a token without a start is put behind the last one",
        """
class LearnedPositions(nn.Module):
    def __init__(self, max_length, width):
        super().__init__()
        self.table = nn.Parameter(0.02 * torch.randn(max_length, width))
        self.written = 0

    def forward(self, x, start=None):
        if start is None:
            start = self.written if not self.training and x.shape[-2] == 1 else 0
            start = start if start < len(self.table) else 0
        end = start + x.shape[-2]
        if end > len(self.table):
            raise ValueError("past the end of the table")
        self.written = end
        return x + self.table[start:end]
""",
    ),
    (
        "shift_matrix",
        "wrong",
        "an offset near a whole number counts as whole, by a relative tolerance",
        """
def shift_matrix(offset, width, base=10_000.0):
    theta = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    if math.isclose(offset, round(offset), rel_tol=1e-6):
        offset = round(offset)
    c, s = (offset * theta).cos(), (offset * theta).sin()
    blocks = torch.stack((c, s, -s, c), dim=-1).unflatten(-1, (2, 2))
    return torch.block_diag(*blocks).float()
""",
    ),
    (
        "apply_rope",
        "wrong",
        "positions near whole numbers count as whole, by a relative tolerance",
        """
def apply_rope(x, positions, frequencies):
    p = positions.double()
    p = torch.where(torch.isclose(p, p.round(), rtol=1e-6, atol=0.0), p.round(), p)
    angles = p[..., None] * frequencies.double()
    c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * c - b * s, b * c + a * s), dim=-1)
""",
    ),
]
"""What was asked for is guessed: from a part of an argument, from an earlier call, from a list that
ends. By fresh readers, and the same for other exercises."""

CASES += TAKEN_FROM_A_PART
