# ruff: noqa: E501  # cases are code in strings, kept on their lines
"""Chapter 24: answers as learners write them, wrong and right (see answers.py)."""

COPY = """
def selective_copy_data(keys, symbols):
    M = symbols.shape[1]
    places = torch.argsort(keys, dim=1)[:, :M].sort(dim=1)[0]
    tokens = torch.zeros(keys.shape, dtype=torch.long)
    {scatter}
    tokens = torch.cat([tokens, {ask}], 1)
    targets = {targets}
    return {back}
"""
USUAL = {
    "scatter": "tokens.scatter_(1, places, symbols)",
    "ask": "torch.ones_like(symbols)",
    "targets": "torch.cat([torch.full(keys.shape, -100), symbols], 1)",
    "back": "tokens, targets",
}


def copy(**other):
    return COPY.format(**USUAL | other)


PARAMETERS = """
def selective_parameters(x, w_select, w_delta, bias_delta):
    R = {rank}
    N = (w_select.shape[0] - R) // 2
    out = {out}
    low, b, c = {cut}
    delta = {delta}
    return delta, b, c
"""
SELECT = {
    "rank": "w_delta.shape[1]",
    "out": "F.linear(x, w_select)",
    "cut": "out[..., :R], out[..., R:R + N], out[..., R + N:]",
    "delta": "F.softplus(F.linear(low, w_delta, bias_delta))",
}


def parameters(**other):
    return PARAMETERS.format(**SELECT | other)


def discretize(decay, gain):
    return f"""
def discretize_selective(delta, a, b):
    decay = {decay}
    gain = {gain}
    return decay, gain
"""


DECAY, GAIN = "torch.exp(delta.unsqueeze(-1) * a)", "delta.unsqueeze(-1) * b.unsqueeze(2)"

SCAN = """
def selective_scan(x, delta, a, b, c, skip, state=None):
    decay, gain = discretize_selective(delta, a, b)
    B, T, E = x.shape
    h = {start}
    ys = []
    for t in range({steps}):
        h = {update}
        ys.append({read})
    y = torch.stack(ys, {axis})
    return {back}
"""
LOOP = {
    "start": "torch.zeros(B, E, a.shape[1], dtype=x.dtype) if state is None else state",
    "steps": "T",
    "update": "decay[:, t] * h + gain[:, t] * x[:, t, :, None]",
    "read": "(h * c[:, t].unsqueeze(1)).sum(-1)",
    "axis": "1",
    "back": "y + x * skip, h",
}


def scan(**other):
    return SCAN.format(**LOOP | other)


RAW = """
def raw_scan(x, raw, bias, a, b, c):
    {first}
    decay = torch.exp({decay}[..., None] * a)
    added = ({written} * x)[..., None] * b[..., None, :]
    h, out = {start}, []
    for t in range(x.shape[1]):
        h = decay[:, t] * h + added[:, t]
        out.append((h * c[:, t, None]).sum(-1))
    return {back}
"""
FIXED = {
    "first": "step = F.softplus(raw + bias)",
    "decay": "step",
    "written": "step",
    "start": "torch.zeros_like(added[:, 0])",
    "back": "torch.stack(out, dim=1), h",
}


def raw(**other):
    return RAW.format(**FIXED | other)


TREE = """
def associative_scan(decay, written):
    T = written.shape[1]
    if T == 1:
        return {base}
    d1, d2 = decay[:, :T - T % 2:2], decay[:, 1::2]
    w1, w2 = written[:, :T - T % 2:2], written[:, 1::2]
    even, pairs, rounds = associative_scan({both}, {added})
    {count_up}
    out = torch.zeros_like(written)
    out[:, 0] = {first}
    out[:, 1::2] = even
    n = (T - 1) // 2
    if n:
        out[:, 2::2] = {odd}
        {count_down}
    return out, pairs, rounds
"""
BRANCH = {
    "base": "written.clone(), 0, 0",
    "both": "d2 * d1",
    "added": "d2 * w1 + w2",
    "count_up": "pairs, rounds = pairs + d1.shape[1], rounds + 1",
    "first": "written[:, 0]",
    "odd": "decay[:, 2::2] * even[:, :n] + written[:, 2::2]",
    "count_down": "pairs, rounds = pairs + n, rounds + 1",
}


def tree(**other):
    return TREE.format(**BRANCH | other)


def conv(body):
    return f"""
def causal_conv1d(x, taps, bias):
    B, T, E = x.shape
    K = taps.shape[1]
{body}
"""


def shifts(pad="(0, 0, K - 1, 0)", term="p[:, k:k + T] * taps[:, k]", end="y + bias"):
    return conv(
        f"    p = F.pad(x, {pad})\n    y = 0\n    for k in range(K):\n        y = y + {term}\n"
        f"    return {end}"
    )


BLOCK = """
class MambaBlock(nn.Module):
    def __init__(self, width, state, taps=4, rank=None):
        super().__init__()
        inner, rank = 2 * width, rank or math.ceil(width / 16)
        self.input = nn.Linear(width, 2 * inner, bias=False)
        self.taps = nn.Parameter(torch.empty(inner, taps).uniform_(-1, 1) / math.sqrt(taps))
        self.taps_bias = nn.Parameter(torch.zeros(inner))
        self.select = nn.Parameter(torch.empty(rank + 2 * state, inner).uniform_(-1, 1))
        self.delta = nn.Parameter(torch.empty(inner, rank).uniform_(-1, 1) / math.sqrt(rank))
        self.delta_bias = nn.Parameter(torch.zeros(inner))
        self.a_log = nn.Parameter(torch.zeros(inner, state))
        self.skip = nn.Parameter(torch.ones(inner))
        self.output = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        xz = self.input(x)
        u, z = {halves}
        u = {convolved}
        delta, b, c = selective_parameters({chosen}, self.select, self.delta, self.delta_bias)
        y, h = selective_scan(u, delta, {a}, b, c, {skip})
        return {back}
"""
WHOLE = {
    "halves": "xz.split(xz.shape[-1] // 2, dim=-1)",
    "convolved": "F.silu(causal_conv1d(u, self.taps, self.taps_bias))",
    "chosen": "u",
    "a": "-self.a_log.exp()",
    "skip": "self.skip",
    "back": "self.output(F.silu(z) * y)",
}


def block(**other):
    return BLOCK.format(**WHOLE | other)


STEP = """
def mamba_step(block, x, recent, state):
    xz = F.linear(x, block["input.weight"])
    u, z = xz.chunk(2, dim=-1)
    {window}
    v = (window * block["taps"].T).sum(1) + block["taps_bias"]
    v = {act}
    delta, b, c = selective_parameters(
        {chosen}, block["select"], block["delta"], block["delta_bias"])
    A = {a}
    y, new = selective_scan(v[:, None], delta, A, b, c, block["skip"], {given})
    y = y[:, 0] * F.silu(z)
    return {back}
"""
TOKEN = {
    "window": "window = torch.cat([recent, u.unsqueeze(1)], 1)",
    "act": "F.silu(v)",
    "chosen": "v[:, None]",
    "a": "-torch.exp(block['a_log'])",
    "given": "state",
    "back": "y @ block['output.weight'].T, window[:, 1:], new",
}


def step(**other):
    return STEP.format(**TOKEN | other)


def cases(name, write, wrong, right):
    """Rows of CASES: what, and what changes."""
    rows = [(name, "wrong", what, write(**change)) for what, change in wrong.items()]
    return rows + [(name, "right", what, write(**change)) for what, change in right.items()]


CASES = [
    *cases(
        "selective_copy_data",
        copy,
        {
            "targets not ignored but 0": {
                "targets": "torch.cat([torch.zeros_like(tokens[:, M:]), symbols], 1)"
            },
            "targets one early": {
                "targets": "torch.cat([torch.full((len(keys), keys.shape[1] - 1), -100), symbols, "
                "torch.full((len(keys), 1), -100)], 1)"
            },
            "asks with 0": {"ask": "torch.zeros_like(symbols)"},
            "asks with 2": {"ask": "torch.full_like(symbols, 2)"},
            "the largest keys": {
                "scatter": "tokens.scatter_(1, keys.topk(M, 1).indices.sort(1).values, symbols)"
            },
            "unsorted places": {"scatter": "tokens.scatter_(1, keys.argsort(1)[:, :M], symbols)"},
            "the places of the first text": {"scatter": "tokens[:, places[0]] = symbols"},
            "symbols sorted": {"scatter": "tokens.scatter_(1, places, symbols.sort(1).values)"},
            "tokens and targets exchanged": {"back": "targets, tokens"},
            "symbols in reverse": {"scatter": "tokens.scatter_(1, places, symbols.flip(1))"},
            "keys sorted in place": {
                "scatter": "keys.sort(dim=1, out=(keys, keys.argsort(1))); tokens.scatter_(1, places, symbols)"
            },
        },
        {
            "as it is": {},
            "row by row": {
                "scatter": "for i in range(len(keys)): tokens[i, places[i]] = symbols[i]"
            },
            "topk of the negative": {
                "scatter": "tokens.scatter_(1, (-keys).topk(M, 1).indices.sort(1).values, symbols)"
            },
        },
    ),
    *cases(
        "selective_parameters",
        parameters,
        {
            "relu": {"delta": "F.relu(F.linear(low, w_delta, bias_delta))"},
            "sigmoid": {"delta": "torch.sigmoid(F.linear(low, w_delta, bias_delta))"},
            "softplus by hand overflows": {
                "delta": "torch.log(1 + torch.exp(F.linear(low, w_delta, bias_delta)))"
            },
            "no bias": {"delta": "F.softplus(low @ w_delta.T)"},
            "bias outside": {"delta": "F.softplus(low @ w_delta.T) + bias_delta"},
            "rank taken for N": {"cut": "out[..., :R], out[..., R + N:], out[..., R:R + N]"},
            "b first": {"cut": "out[..., 2 * N:], out[..., :N], out[..., N:2 * N]"},
            "one Δ for all channels": {
                "delta": "F.softplus(F.linear(low, w_delta, bias_delta)).mean(-1, keepdim=True)"
                ".expand_as(x)"
            },
            "Δ detached": {"delta": "F.softplus(F.linear(low, w_delta, bias_delta)).detach()"},
            "bias changed in place": {
                "delta": "F.softplus(F.linear(low, w_delta, bias_delta.data.add_(1e-3)))"
            },
        },
        {
            "as it is": {},
            "softplus by hand, safe": {
                "delta": "(lambda r: r.clamp(min=0) + torch.log1p(torch.exp(-r.abs())))"
                "(low @ w_delta.T + bias_delta)"
            },
            "chunks": {"cut": "(out[..., :R], *out[..., R:].chunk(2, dim=-1))"},
        },
    ),
    *(
        ("discretize_selective", kind, what, discretize(decay, gain))
        for kind, what, decay, gain in (
            ("wrong", "gain without Δ", DECAY, "b.unsqueeze(2).expand(*delta.shape, -1)"),
            ("wrong", "no exp", "delta.unsqueeze(-1) * a", GAIN),
            ("wrong", "Euler", "1 + delta.unsqueeze(-1) * a", GAIN),
            ("wrong", "1 / (1 − Δ a)", "1 / (1 - delta.unsqueeze(-1) * a)", GAIN),
            ("wrong", "exact gain", DECAY, "(decay - 1) / a * b.unsqueeze(2)"),
            ("wrong", "exp of −Δ a", "torch.exp(-delta.unsqueeze(-1) * a)", GAIN),
            ("wrong", "exp2", "torch.exp2(delta.unsqueeze(-1) * a)", GAIN),
            ("wrong", "gain times decay", DECAY, GAIN + " * decay"),
            ("wrong", "a without gradient", "torch.exp(delta.unsqueeze(-1) * a.detach())", GAIN),
            ("wrong", "mean rate", "torch.exp(delta.unsqueeze(-1) * a.mean(0))", GAIN),
            ("right", "as it is", DECAY, GAIN),
            ("right", "einsum", "torch.einsum('bte,en->bten', delta, a).exp()", GAIN),
            ("right", "None", DECAY, "delta[:, :, :, None] * b[:, :, None, :]"),
        )
    ),
    *cases(
        "selective_scan",
        scan,
        {
            "no skip": {"back": "y, h"},
            "skip in the wrong place": {"back": "y * skip + x, h"},
            "y and state exchanged": {"back": "h, y + x * skip"},
            "state given is ignored": {"start": "torch.zeros(B, E, a.shape[1], dtype=x.dtype)"},
            "gain without x": {"update": "decay[:, t] * h + gain[:, t]"},
            "the next decay": {
                "update": "decay[:, (t + 1) % T] * h + gain[:, t] * x[:, t, :, None]"
            },
            "mean over N": {"read": "(h * c[:, t].unsqueeze(1)).mean(-1)"},
            "stacked along batch": {"axis": "0"},
            "stops one early": {"steps": "max(1, T - 1)"},
            "reads with b": {"read": "(h * b[:, t].unsqueeze(1)).sum(-1)"},
            "the state is written into": {
                "start": "torch.zeros(B, E, a.shape[1], dtype=x.dtype) if state is None else state"
                ".mul_(1.0).add_(0.0)",
                "update": "h.data.copy_(decay[:, t] * h + gain[:, t] * x[:, t, :, None])",
            },
            "truncated: no gradient through time": {
                "update": "decay[:, t] * h.detach() + gain[:, t] * x[:, t, :, None]"
            },
        },
        {
            "as it is": {},
            "einsum": {"read": "torch.einsum('ben,bn->be', h, c[:, t])"},
            "matmul": {"read": "(h @ c[:, t].unsqueeze(-1)).squeeze(-1)"},
        },
    ),
    *cases(
        "raw_scan",
        raw,
        {
            "as broken": {"first": "step = F.softplus(raw + bias); r = raw + bias", "decay": "r"},
            "the other half broken": {
                "first": "step = F.softplus(raw + bias); r = raw + bias",
                "written": "r",
            },
            "abs for softplus": {"first": "step = (raw + bias).abs()"},
            "relu": {"first": "step = F.relu(raw + bias)"},
            "clamped": {"first": "step = (raw + bias).clamp(min=1e-4)"},
            "bias left out": {"first": "step = F.softplus(raw)"},
            "decay clamped only": {
                "first": "step = F.softplus(raw + bias); r = (raw + bias).clamp(min=0)",
                "decay": "r",
            },
            "no last state": {"back": "torch.stack(out, dim=1)"},
            "bias added in place": {"first": "raw += bias; step = F.softplus(raw)"},
            "starts with ones": {"start": "torch.ones_like(added[:, 0])"},
        },
        {
            "as it is": {},
            "logaddexp": {"first": "step = torch.logaddexp(raw + bias, torch.zeros_like(raw))"},
            "delta renamed": {"first": "delta = F.softplus(raw + bias); step = delta"},
        },
    ),
    *cases(
        "associative_scan",
        tree,
        {
            "order exchanged": {"added": "d1 * w2 + w1"},
            "decay not squared": {"both": "d2"},
            "no decay going down": {"odd": "even[:, :n] + written[:, 2::2]"},
            "down with the wrong decay": {
                "odd": "decay[:, 1::2][:, :n] * even[:, :n] + written[:, 2::2]"
            },
            "first is decayed": {"first": "decay[:, 0] * written[:, 0]"},
            "count of the last call": {"count_up": "pairs, rounds = d1.shape[1], 1"},
            "rounds by pairs": {
                "count_up": "pairs, rounds = pairs + d1.shape[1], rounds + d1.shape[1]"
            },
            "base counts one": {"base": "written.clone(), 1, 1"},
            "down not counted": {"count_down": "pass"},
            "in place": {
                "base": "written.mul_(1.0).add_(1e-9), 0, 0",
                "odd": "decay[:, 2::2] * even[:, :n] + written[:, 2::2].add_(1e-3)",
            },
        },
        {
            "as it is": {},
            "addcmul": {"odd": "torch.addcmul(written[:, 2::2], decay[:, 2::2], even[:, :n])"},
            "base not cloned": {"base": "written, 0, 0"},
        },
    ),
    (
        "associative_scan",
        "wrong",
        "a loop that says it is a tree",
        """
def associative_scan(decay, written):
    T, h, rows = written.shape[1], torch.zeros_like(written[:, 0]), []
    for t in range(T):
        h = decay[:, t] * h + written[:, t]
        rows.append(h)
    pairs = rounds = 0
    n = T
    while n > 1:
        pairs, rounds = pairs + n // 2 + (n - 1) // 2, rounds + 1 + (n > 2)
        n //= 2
    return torch.stack(rows, 1), pairs, rounds
""",
    ),
    (
        "associative_scan",
        "wrong",
        "cumulative products, divided",
        """
def associative_scan(decay, written):
    total = decay.cumprod(1)
    T = n = written.shape[1]
    pairs = rounds = 0
    while n > 1:
        pairs, rounds = pairs + n // 2 + (n - 1) // 2, rounds + 1 + (n > 2)
        n //= 2
    return total * (written / total).cumsum(1), pairs, rounds
""",
    ),
    *(
        ("causal_conv1d", kind, what, code)
        for kind, what, code in (
            ("wrong", "pads behind", shifts("(0, 0, 0, K - 1)")),
            ("wrong", "pads K", shifts("(0, 0, K, 0)")),
            ("wrong", "pads on both sides", shifts("(0, 0, K // 2, K)")),
            ("wrong", "taps in reverse", shifts(term="p[:, k:k + T] * taps[:, K - 1 - k]")),
            ("wrong", "no bias", shifts(end="y")),
            ("wrong", "bias K times", shifts(term="p[:, k:k + T] * taps[:, k] + bias", end="y")),
            (
                "wrong",
                "edge repeated",
                conv(
                    "    p = torch.cat([x[:, :1].expand(-1, K - 1, -1), x], 1)\n"
                    "    return sum(p[:, k:k + T] * taps[:, k] for k in range(K)) + bias"
                ),
            ),
            (
                "wrong",
                "circular",
                conv("    return sum(x.roll(K - 1 - k, 1) * taps[:, k] for k in range(K)) + bias"),
            ),
            ("wrong", "with SiLU", shifts(end="F.silu(y + bias)")),
            (
                "wrong",
                "one tap short",
                conv(
                    "    p = F.pad(x, (0, 0, K - 1, 0))\n"
                    "    return sum(p[:, k:k + T] * taps[:, k] for k in range(1, K)) + bias\n"
                ),
            ),
            ("right", "shifts", shifts()),
            (
                "right",
                "conv1d",
                conv(
                    "    y = F.conv1d(x.transpose(1, 2), taps[:, None], bias, padding=K - 1, groups=E)\n"
                    "    return y[..., :T].transpose(1, 2)"
                ),
            ),
            (
                "right",
                "unfold",
                conv(
                    "    p = torch.cat([x.new_zeros(B, K - 1, E), x], 1)\n"
                    "    return torch.einsum('btek,ek->bte', p.unfold(1, K, 1), taps) + bias"
                ),
            ),
        )
    ),
    *cases(
        "MambaBlock",
        block,
        {
            "no gate": {"back": "self.output(y)"},
            "gate by sigmoid": {"back": "self.output(torch.sigmoid(z) * y)"},
            "gate without SiLU": {"back": "self.output(z * y)"},
            "no SiLU": {"convolved": "causal_conv1d(u, self.taps, self.taps_bias)"},
            "SiLU before the convolution": {
                "convolved": "causal_conv1d(F.silu(u), self.taps, self.taps_bias)"
            },
            "a_log itself": {"a": "self.a_log"},
            "minus a_log": {"a": "-self.a_log"},
            "chosen from z": {"chosen": "z"},
            "residual inside": {"back": "x + self.output(F.silu(z) * y)"},
            "skip detached": {"skip": "self.skip.detach()"},
            "halves interleaved": {"halves": "(xz[..., ::2], xz[..., 1::2])"},
            "convolution's bias forgotten": {
                "convolved": "F.silu(causal_conv1d(u, self.taps, 0 * self.taps_bias))"
            },
        },
        {
            "as it is": {},
            "slices": {"halves": "(xz[..., :xz.shape[-1] // 2], xz[..., xz.shape[-1] // 2:])"},
            "gate after the sum": {"back": "F.linear(y * z * z.sigmoid(), self.output.weight)"},
        },
    ),
    *cases(
        "mamba_step",
        step,
        {
            "recent unchanged": {"back": "y @ block['output.weight'].T, recent, new"},
            "recent grows": {"back": "y @ block['output.weight'].T, window, new"},
            "keeps the oldest": {"back": "y @ block['output.weight'].T, window[:, :-1], new"},
            "state unchanged": {"back": "y @ block['output.weight'].T, window[:, 1:], state"},
            "no state given": {"given": "None"},
            "no activation": {"act": "v"},
            "new input first": {"window": "window = torch.cat([u.unsqueeze(1), recent], 1)"},
            "selected from the raw u": {"chosen": "u[:, None]"},
            "a_log itself": {"a": "block['a_log']"},
            "recent written in place": {
                "window": "window = torch.cat([recent, u.unsqueeze(1)], 1); "
                "recent.copy_(window[:, 1:])"
            },
            "state written in place": {
                "back": "y @ block['output.weight'].T, window[:, 1:], state.copy_(new)"
            },
        },
        {
            "as it is": {},
            "linear at the end": {
                "back": "F.linear(y, block['output.weight']), window[:, 1:], new"
            },
            "recent cloned": {
                "back": "y @ block['output.weight'].T, window[:, 1:].clone(), new.clone()"
            },
        },
    ),
]


# Another reader's, each written out or made of one answer with a part exchanged.

USED = """from collections.abc import Mapping
from torch.nn import functional
NOISE, READ, IGNORED = 0, 1, -100
"""


def add(name, kind, what, code):
    CASES.append((name, kind, what, USED + code))


# 24.1
def copied(
    places="keys.argsort(dim=1)[:, :M].sort(dim=1).values",
    values="symbols",
    noise="NOISE",
    read="READ",
    targets="torch.cat([torch.full((B, T), IGNORED), symbols], dim=1)",
    before="",
):
    return f"""
def selective_copy_data(keys, symbols):
    B, T = keys.shape
    M = symbols.shape[1]
    {before}
    places = {places}
    values = {values}
    hidden = torch.full((B, T), {noise}).scatter(1, places, values)
    tokens = torch.cat([hidden, torch.full((B, M), {read})], dim=1)
    targets = {targets}
    return tokens, targets
"""


add(
    "selective_copy_data",
    "wrong",
    "targets stand where the symbols are hidden",
    copied(targets="torch.full((B, T + M), IGNORED).scatter(1, places, symbols)"),
)
add(
    "selective_copy_data",
    "wrong",
    "smallest keys by argmin, the found one overwritten in keys itself",
    """
def selective_copy_data(keys, symbols):
    B, T = keys.shape
    M = symbols.shape[1]
    mask = torch.zeros(B, T, dtype=torch.bool)
    rows = torch.arange(B)
    for _ in range(M):
        place = keys.argmin(dim=1)
        mask[rows, place] = True
        keys[rows, place] = float("inf")
    hidden = torch.full((B, T), NOISE)
    hidden[mask] = symbols.reshape(-1)
    tokens = torch.cat([hidden, torch.full((B, M), READ)], dim=1)
    return tokens, torch.cat([torch.full((B, T), IGNORED), symbols], dim=1)
""",
)
add(
    "selective_copy_data",
    "wrong",
    "smallest keys by argmin on a copy, the found one set to 1 (keys above 1 come out wrong)",
    """
def selective_copy_data(keys, symbols):
    B, T = keys.shape
    M = symbols.shape[1]
    left, mask, rows = keys.clone(), torch.zeros(B, T, dtype=torch.bool), torch.arange(B)
    for _ in range(M):
        place = left.argmin(dim=1)
        mask[rows, place] = True
        left[rows, place] = 1
    hidden = torch.full((B, T), NOISE)
    hidden[mask] = symbols.reshape(-1)[: int(mask.sum())]
    tokens = torch.cat([hidden, torch.full((B, M), READ)], dim=1)
    return tokens, torch.cat([torch.full((B, T), IGNORED), symbols], dim=1)
""",
)
add(
    "selective_copy_data",
    "wrong",
    "symbols.view(-1) fails on a transposed symbols",
    """
def selective_copy_data(keys, symbols):
    B, T = keys.shape
    M = symbols.shape[1]
    mask = keys <= keys.sort(dim=1).values[:, M - 1 : M]
    hidden = torch.full((B, T), NOISE)
    hidden[mask] = symbols.view(-1)
    tokens = torch.cat([hidden, torch.full((B, M), READ)], dim=1)
    return tokens, torch.cat([torch.full((B, T), IGNORED), symbols], dim=1)
""",
)
add(
    "selective_copy_data",
    "right",
    "plain Python lists",
    """
def selective_copy_data(keys, symbols):
    tokens, targets = [], []
    for ks, ss in zip(keys.tolist(), symbols.tolist()):
        chosen = sorted(sorted(range(len(ks)), key=ks.__getitem__)[: len(ss)])
        row = [NOISE] * len(ks) + [READ] * len(ss)
        for p, s in zip(chosen, ss):
            row[p] = s
        tokens.append(row)
        targets.append([IGNORED] * len(ks) + ss)
    return torch.tensor(tokens), torch.tensor(targets)
""",
)
add(
    "selective_copy_data",
    "right",
    "kthvalue, mask and boolean assignment",
    """
def selective_copy_data(keys, symbols):
    B, T = keys.shape
    M = symbols.shape[1]
    mask = keys <= keys.kthvalue(M, dim=1, keepdim=True).values
    tokens = symbols.new_full((B, T + M), READ)
    tokens[:, :T] = NOISE
    tokens[:, :T][mask] = symbols.flatten()
    targets = symbols.new_full((B, T + M), IGNORED)
    targets[:, T:] = symbols
    return tokens, targets
""",
)
add(
    "selective_copy_data",
    "right",
    "rank by comparing all pairs of keys, gather by cumsum",
    """
def selective_copy_data(keys, symbols):
    (B, T), M = keys.shape, symbols.size(1)
    rank = (keys[:, None, :] < keys[:, :, None]).sum(-1)
    mask = rank < M
    which = (mask.cumsum(1) - 1).clamp(min=0)
    hidden = torch.where(mask, symbols.gather(1, which), torch.tensor(NOISE))
    return F.pad(hidden, (0, M), value=READ), F.pad(symbols, (T, 0), value=IGNORED)
""",
)
add(
    "selective_copy_data",
    "right",
    "numpy throughout, torch.from_numpy at the end",
    """
def selective_copy_data(keys, symbols):
    k, s = keys.numpy(), symbols.numpy()
    places = np.sort(np.argsort(k, axis=1)[:, : s.shape[1]], axis=1)
    tokens = np.zeros((k.shape[0], k.shape[1] + s.shape[1]), dtype=np.int64)
    np.put_along_axis(tokens, places, s, axis=1)
    tokens[:, k.shape[1]:] = READ
    targets = np.full(tokens.shape, IGNORED)
    targets[:, k.shape[1]:] = s
    return torch.from_numpy(tokens), torch.from_numpy(targets)
""",
)


# 24.2
def selected(
    delta="functional.softplus(low @ w_delta.T + bias_delta)",
    split="(x @ w_select.T).split([R, N, N], dim=-1)",
    ret="delta, b, c",
    before="pass",
):
    return f"""
def selective_parameters(x, w_select, w_delta, bias_delta):
    R = w_delta.shape[1]
    N = (w_select.shape[0] - R) // 2
    {before}
    low, b, c = {split}
    delta = {delta}
    return {ret}
"""


add("selective_parameters", "wrong", "no softplus", selected("low @ w_delta.T + bias_delta"))
add(
    "selective_parameters",
    "wrong",
    "softplus of the description, before w_delta",
    selected("functional.softplus(low) @ w_delta.T + bias_delta"),
)
add("selective_parameters", "wrong", "b and c swapped", selected(ret="delta, c, b"))
add(
    "selective_parameters",
    "wrong",
    "three equal parts (chunk), right only where R = N",
    selected(split="(x @ w_select.T).chunk(3, dim=-1)"),
)
add(
    "selective_parameters",
    "wrong",
    "softplus by hand, torch.where keeps the values safe but not the gradients (inf * 0)",
    selected(
        "(lambda r: torch.where(r > 20, r, torch.log1p(torch.exp(r))))(low @ w_delta.T + bias_delta)"
    ),
)
add(
    "selective_parameters",
    "wrong",
    "log(1 + e^r) by hand from max(r, 0) on: 0 for very negative r",
    selected(
        "(lambda r: r.clamp(min=0) + torch.log(1 + torch.exp(-r.abs())))(low @ w_delta.T + bias_delta)"
    ),
)
add(
    "selective_parameters",
    "wrong",
    "the description is detached; w_select still learns through b and c",
    selected("functional.softplus(low.detach() @ w_delta.T + bias_delta)"),
)
add(
    "selective_parameters",
    "wrong",
    "x.view(B * T, E) fails on a view",
    """
def selective_parameters(x, w_select, w_delta, bias_delta):
    B, T, E = x.shape
    R = w_delta.shape[1]
    N = (w_select.shape[0] - R) // 2
    out = x.view(B * T, E) @ w_select.T
    low, b, c = out[:, :R], out[:, R : R + N], out[:, R + N :]
    delta = functional.softplus(low @ w_delta.T + bias_delta)
    return delta.reshape(B, T, E), b.reshape(B, T, N), c.reshape(B, T, N)
""",
)
add(
    "selective_parameters",
    "right",
    "einsum and logaddexp",
    """
def selective_parameters(x, w_select, w_delta, bias_delta):
    r = w_delta.size(-1)
    low = torch.einsum("bte,re->btr", x, w_select[:r])
    b, c = torch.einsum("bte,kne->kbtn", x, w_select[r:].reshape(2, -1, x.size(-1)))
    raw = torch.einsum("btr,er->bte", low, w_delta) + bias_delta
    return torch.logaddexp(raw, torch.zeros_like(raw)), b, c
""",
)
add(
    "selective_parameters",
    "right",
    "-logsigmoid(-r), F.linear",
    """
def selective_parameters(x, w_select, w_delta, bias_delta):
    r = w_delta.shape[1]
    out = F.linear(x, w_select)
    n = (out.shape[-1] - r) // 2
    return -F.logsigmoid(-F.linear(out[..., :r], w_delta, bias_delta)), out[..., r:-n], out[..., -n:]
""",
)
add(
    "selective_parameters",
    "right",
    "W_delta W_select multiplied first (a full matrix), tensor_split",
    """
def selective_parameters(x, w_select, w_delta, bias_delta):
    r = w_delta.shape[1]
    n = (len(w_select) - r) // 2
    wl, wb, wc = torch.tensor_split(w_select, [r, r + n])
    return nn.Softplus()(x @ (w_delta @ wl).mT + bias_delta), x @ wb.mT, x @ wc.mT
""",
)
add(
    "selective_parameters",
    "right",
    "token by token in a Python loop",
    """
def selective_parameters(x, w_select, w_delta, bias_delta):
    r = w_delta.shape[1]
    n = (w_select.shape[0] - r) // 2
    ds, bs, cs = [], [], []
    for t in range(x.shape[1]):
        out = (w_select @ x[:, t].T).T
        raw = out[:, :r] @ w_delta.T + bias_delta
        ds.append(raw.clamp(min=0) + torch.log1p(torch.exp(-raw.abs())) if False else F.softplus(raw))
        bs.append(out[:, r : r + n])
        cs.append(out[:, r + n :])
    return torch.stack(ds, 1), torch.stack(bs, 1), torch.stack(cs, 1)
""",
)


# 24.3
def stepped(
    decay="torch.exp(delta[..., None] * a)",
    gain="delta[..., None] * b[:, :, None, :]",
    before="pass",
):
    return f"""
def discretize_selective(delta, a, b):
    {before}
    decay = {decay}
    gain = {gain}
    return decay, gain
"""


add(
    "discretize_selective",
    "wrong",
    "decay of b: delta * b in the exponent, a in the gain",
    stepped("torch.exp(delta[..., None] * b[:, :, None, :])", "delta[..., None] * a"),
)
add(
    "discretize_selective",
    "wrong",
    "b.unsqueeze_(2) changes the shape of the argument",
    stepped(before="b.unsqueeze_(2)", gain="delta[..., None] * b"),
)
add(
    "discretize_selective",
    "wrong",
    "delta is detached in the gain; it still learns through the decay",
    stepped(gain="delta.detach()[..., None] * b[:, :, None, :]"),
)
add(
    "discretize_selective",
    "wrong",
    "delta.view(B * T, E, 1) fails on a view",
    stepped("torch.exp(delta.view(-1, delta.shape[2], 1) * a).reshape(*delta.shape, -1)"),
)
add(
    "discretize_selective",
    "wrong",
    "the exponent clamped at -2, so that decays never fall below e^-2",
    stepped("torch.exp((delta[..., None] * a).clamp(min=-2))"),
)
add(
    "discretize_selective",
    "right",
    "einsum for both",
    """
def discretize_selective(delta, a, b):
    return torch.einsum("bte,en->bten", delta, a).exp(), torch.einsum("bte,btn->bten", delta, b)
""",
)
add(
    "discretize_selective",
    "right",
    "powers of e^a: exp(a) ** delta",
    """
def discretize_selective(delta, a, b):
    d = delta.unsqueeze(-1)
    return torch.pow(math.e, d * a), d @ b.unsqueeze(-2)
""",
)
add(
    "discretize_selective",
    "right",
    "a loop over the N numbers, stack",
    """
def discretize_selective(delta, a, b):
    decay = torch.stack([torch.exp(delta * a[:, k]) for k in range(a.shape[1])], dim=3)
    gain = torch.stack([delta * b[:, :, k : k + 1] for k in range(a.shape[1])], dim=3)
    return decay, gain
""",
)
add(
    "discretize_selective",
    "right",
    "broadcasting everything first, expm1 + 1, a list returned as a tuple",
    """
def discretize_selective(delta, a, b):
    delta, a, b = torch.broadcast_tensors(delta[..., None], a[None, None], b[:, :, None])
    return torch.special.expm1(delta * a) + 1, torch.mul(b, delta)
""",
)


# 24.4
def scanned(
    start="torch.zeros_like(decay[:, 0]) if state is None else state",
    h="decay[:, t] * h + gain[:, t] * x[:, t, :, None]",
    y="(h * c[:, t, None, :]).sum(-1) + skip * x[:, t]",
    ret="torch.stack(out, dim=1), h",
    order="hy",
    before="pass",
):
    steps = {"h": f"h = {h}", "y": f"out.append({y})"}
    body = "\n        ".join(steps[k] for k in order)
    return f"""
def selective_scan(x, delta, a, b, c, skip, state=None):
    {before}
    decay, gain = discretize_selective(delta, a, b)
    h = {start}
    out = []
    for t in range(x.shape[1]):
        {body}
    return {ret}
"""


add("selective_scan", "wrong", "reads the state before it is updated", scanned(order="yh"))
add(
    "selective_scan",
    "wrong",
    "returns all states",
    scanned(
        h="decay[:, t] * h + gain[:, t] * x[:, t, :, None]",
        ret="torch.stack(out, dim=1), torch.stack([h] * x.shape[1], dim=1)",
    ),
)
add(
    "selective_scan",
    "wrong",
    "c left out: the numbers of the state are summed",
    scanned(y="h.sum(-1) + skip * x[:, t]"),
)
add(
    "selective_scan",
    "wrong",
    "the state given is updated in place (h *= ...; h += ...)",
    """
def selective_scan(x, delta, a, b, c, skip, state=None):
    decay, gain = discretize_selective(delta, a, b)
    h = torch.zeros_like(decay[:, 0]) if state is None else state
    out = []
    for t in range(x.shape[1]):
        if t == 0 and state is not None:
            with torch.no_grad():
                h *= 1.0
                h.mul_(decay[:, 0]).add_(gain[:, 0] * x[:, 0, :, None])
        else:
            h = decay[:, t] * h + gain[:, t] * x[:, t, :, None]
        out.append((h * c[:, t, None, :]).sum(-1) + skip * x[:, t])
    return torch.stack(out, dim=1), h
""",
)
add(
    "selective_scan",
    "wrong",
    "no loop, cumprod and cumsum of w / P: 0/0 where the decay is tiny (delta = 50)",
    """
def selective_scan(x, delta, a, b, c, skip, state=None):
    decay, gain = discretize_selective(delta, a, b)
    w = gain * x[..., None]
    P = decay.cumprod(1)
    h = P * (w / P).cumsum(1)
    if state is not None:
        h = h + P * state[:, None]
    return (h * c[:, :, None]).sum(-1) + skip * x, h[:, -1]
""",
)
add(
    "selective_scan",
    "wrong",
    "the state given is detached, so no gradient reaches it",
    scanned("torch.zeros_like(decay[:, 0]) if state is None else state.detach()"),
)
add(
    "selective_scan",
    "right",
    "by associative_scan, the given state added by the products of the decays",
    """
def selective_scan(x, delta, a, b, c, skip, state=None):
    decay, gain = discretize_selective(delta, a, b)
    written = gain * x[..., None]
    if state is not None:
        written = torch.cat([(written[:, 0] + decay[:, 0] * state)[:, None], written[:, 1:]], dim=1)
    h, _, _ = associative_scan(decay, written)
    return torch.einsum("bten,btn->bte", h, c) + x * skip, h[:, -1]
""",
)
add(
    "selective_scan",
    "right",
    "one matrix of all decays between two steps, masked before the exp",
    """
def selective_scan(x, delta, a, b, c, skip, state=None):
    T = x.shape[1]
    s = (delta[..., None] * a).cumsum(1)
    seg = s[:, :, None] - s[:, None]                                   # (B, T, T, E, N)
    mask = torch.ones(T, T, dtype=torch.bool).tril()[None, :, :, None, None]
    D = torch.exp(seg.masked_fill(~mask, float("-inf")))
    h = torch.einsum("btsen,bsen->bten", D, (delta * x)[..., None] * b[:, :, None])
    if state is not None:
        h = h + s.exp() * state[:, None]
    return torch.einsum("bten,btn->bte", h, c) + skip * x, h[:, -1]
""",
)
add(
    "selective_scan",
    "right",
    "itertools.accumulate, zeros of torch's default type",
    """
def selective_scan(x, delta, a, b, c, skip, state=None):
    B, T, E = x.shape
    start = torch.zeros(B, E, a.shape[1]) if state is None else state
    decay, gain = discretize_selective(delta, a, b)
    steps = zip(decay.unbind(1), (gain * x.unsqueeze(-1)).unbind(1))
    states = list(itertools.accumulate(steps, lambda h, s: s[0] * h + s[1], initial=start))[1:]
    h = torch.stack(states, 1)
    return (h @ c.unsqueeze(-1)).squeeze(-1) + x * skip, states[-1]
""",
)
add(
    "selective_scan",
    "right",
    "one number of the state after the other",
    """
def selective_scan(x, delta, a, b, c, skip, state=None):
    y, last = skip * x, []
    for k in range(a.shape[1]):
        h = 0 * x[:, 0] if state is None else state[:, :, k]
        hs = []
        for t in range(x.shape[1]):
            h = torch.exp(delta[:, t] * a[:, k]) * h + delta[:, t] * b[:, t, k, None] * x[:, t]
            hs.append(h * c[:, t, k, None])
        y = y + torch.stack(hs, 1)
        last.append(h)
    return y, torch.stack(last, -1)
""",
)


# 24.5
def from_raw(
    step="functional.softplus(raw + bias)",
    decay="torch.exp(step[..., None] * a)",
    added="(step * x)[..., None] * b[..., None, :]",
    h="decay[:, t] * h + added[:, t]",
    y="(h * c[:, t, None]).sum(-1)",
    before="pass",
    extra="",
):
    return f"""
def raw_scan(x, raw, bias, a, b, c):
    {before}
    step = {step}
    decay = {decay}
    added = {added}
    h, out = torch.zeros_like(added[:, 0]), []
    for t in range(x.shape[1]):
        h = {h}
        out.append({y})
    return torch.stack(out, dim=1){extra}, h
"""


add("raw_scan", "wrong", "softplus(raw) + bias", from_raw("functional.softplus(raw) + bias"))
add(
    "raw_scan",
    "wrong",
    "softplus twice in the decay",
    from_raw(decay="torch.exp(functional.softplus(step)[..., None] * a)"),
)
add(
    "raw_scan",
    "wrong",
    "log(1 + e^r) by hand: 0 for very negative, inf for very large",
    from_raw("torch.log(1 + torch.exp(raw + bias))"),
)
add(
    "raw_scan",
    "wrong",
    "torch.where(r > 20, r, log1p(e^r)): values safe, gradients NaN for very large r",
    from_raw("(lambda r: torch.where(r > 20, r, torch.log1p(torch.exp(r))))(raw + bias)"),
)
add(
    "raw_scan",
    "wrong",
    "the step is detached in the decay; raw still learns through what is added",
    from_raw(decay="torch.exp(step.detach()[..., None] * a)"),
)
add(
    "raw_scan",
    "right",
    "by selective_scan with a skip of zeros",
    """
def raw_scan(x, raw, bias, a, b, c):
    return selective_scan(x, torch.nn.functional.softplus(raw + bias), a, b, c, torch.zeros_like(bias))
""",
)
add(
    "raw_scan",
    "right",
    "logaddexp, associative_scan, einsum",
    """
def raw_scan(x, raw, bias, a, b, c):
    step = torch.logaddexp(raw + bias, torch.zeros(()).to(raw))
    states, *_ = associative_scan(torch.exp(torch.einsum("bte,en->bten", step, a)), torch.einsum("bte,btn->bten", step * x, b))
    return torch.einsum("bten,btn->bte", states, c), states[:, -1]
""",
)
add(
    "raw_scan",
    "right",
    "softplus as r + softplus(-r), max form with log1p",
    """
def raw_scan(x, raw, bias, a, b, c):
    step = -F.logsigmoid(-(raw + bias))
    y, h = torch.empty_like(x), 0
    ys = []
    for t in range(x.size(1)):
        s = step[:, t].unsqueeze(2)
        h = h * (s * a).exp() + s * b[:, t].unsqueeze(1) * x[:, t].unsqueeze(2)
        ys.append(torch.matmul(h, c[:, t].unsqueeze(2)).squeeze(2))
    return torch.stack(ys, 1), h
""",
)
add(
    "raw_scan",
    "right",
    "the broken function called with the softplus undone: only its decay line replaced",
    """
def raw_scan(x, raw, bias, a, b, c):
    raw = raw + bias
    step = nn.Softplus(beta=1, threshold=30)(raw)
    decay, added = discretize_selective(step, a, b)
    h, out = torch.zeros(x.shape[0], *a.shape), []
    for d, w, xt, ct in zip(decay.unbind(1), added.unbind(1), x.unbind(1), c.unbind(1)):
        h = d * h + w * xt[:, :, None]
        out.append(torch.einsum("ben,bn->be", h, ct))
    return torch.stack(out).transpose(0, 1), h
""",
)


# 24.6
def by_tree(
    base="written.clone(), 0, 0",
    d="d2 * d1",
    w="d2 * w1 + w2",
    p_up="d2.shape[1]",
    r_up="1",
    down="decay[:, 2::2] * even[:, :rest] + written[:, 2::2]",
    p_down="rest",
    r_down="1",
    cond="if rest:",
    first="written[:, 0]",
    before="pass",
):
    return f"""
def associative_scan(decay, written):
    T = decay.shape[1]
    if T == 1:
        return {base}
    {before}
    d1, d2 = decay[:, 0 : T - 1 : 2], decay[:, 1::2]
    w1, w2 = written[:, 0 : T - 1 : 2], written[:, 1::2]
    even, pairs, rounds = associative_scan({d}, {w})
    pairs, rounds = pairs + {p_up}, rounds + {r_up}
    states = torch.empty_like(written)
    states[:, 0] = {first}
    states[:, 1::2] = even
    rest = written[:, 2::2].shape[1]
    {cond}
        states[:, 2::2] = {down}
        pairs, rounds = pairs + {p_down}, rounds + {r_down}
    return states, pairs, rounds
"""


add(
    "associative_scan",
    "wrong",
    "a loop: T - 1 pairs in T - 1 rounds",
    """
def associative_scan(decay, written):
    h, out = written[:, 0], [written[:, 0]]
    for t in range(1, written.shape[1]):
        h = decay[:, t] * h + written[:, t]
        out.append(h)
    return torch.stack(out, 1), len(out) - 1, len(out) - 1
""",
)
add(
    "associative_scan",
    "wrong",
    "Hillis and Steele: log2 T rounds, but T log2 T pairs",
    """
def associative_scan(decay, written):
    d, w, T = decay.clone(), written.clone(), decay.shape[1]
    pairs = rounds = 0
    step = 1
    while step < T:
        nd, nw = d.clone(), w.clone()
        nw[:, step:] = d[:, step:] * w[:, :-step] + w[:, step:]
        nd[:, step:] = d[:, step:] * d[:, :-step]
        d, w = nd, nw
        pairs, rounds, step = pairs + T - step, rounds + 1, 2 * step
    return w, pairs, rounds
""",
)
add("associative_scan", "wrong", "the pairs of the way down are not counted", by_tree(p_down="0"))
add(
    "associative_scan",
    "wrong",
    "a round is counted on the way down although nothing is filled in (T = 2)",
    by_tree(cond="if True:"),
)
add(
    "associative_scan",
    "wrong",
    "padded to a power of two, the padding counted",
    """
def associative_scan(decay, written):
    T = decay.shape[1]
    size = 1 << max(0, (T - 1).bit_length())
    d = F.pad(decay, (0, 0, 0, 0, 0, size - T), value=1.0)
    w = F.pad(written, (0, 0, 0, 0, 0, size - T))
    def go(d, w):
        if d.shape[1] == 1:
            return w.clone(), 0, 0
        even, p, r = go(d[:, 1::2] * d[:, ::2], d[:, 1::2] * w[:, ::2] + w[:, 1::2])
        out = w.clone()
        out[:, 1::2] = even
        p, r = p + d.shape[1] // 2, r + 1
        if d.shape[1] > 2:
            out[:, 2::2] = d[:, 2::2] * even[:, :-1] + w[:, 2::2]
            p, r = p + d.shape[1] // 2 - 1, r + 1
        return out, p, r
    out, p, r = go(d, w)
    return out[:, :T], p, r
""",
)
add(
    "associative_scan",
    "wrong",
    "a loop over time in numpy, the counts of the tree by their formula",
    """
def associative_scan(decay, written):
    d, w = decay.detach().numpy(), written.detach().numpy()
    out = w.copy()
    for t in range(1, w.shape[1]):
        out[:, t] += d[:, t] * out[:, t - 1]
    def count(T):
        if T == 1:
            return 0, 0
        p, r = count(T // 2)
        rest = (T - 1) // 2
        return p + T // 2 + rest, r + 1 + (rest > 0)
    return (torch.from_numpy(out), *count(w.shape[1]))
""",
)
add(
    "associative_scan",
    "wrong",
    "the tree works in place on written, the argument",
    """
def associative_scan(decay, written):
    T = decay.shape[1]
    if T == 1:
        return written, 0, 0
    d2 = decay[:, 1::2]
    written[:, 1::2] += d2 * written[:, 0 : T - 1 : 2]
    even, pairs, rounds = associative_scan(d2 * decay[:, 0 : T - 1 : 2], written[:, 1::2])
    pairs, rounds = pairs + d2.shape[1], rounds + 1
    written[:, 1::2] = even
    rest = written[:, 2::2].shape[1]
    if rest:
        written[:, 2::2] += decay[:, 2::2] * written[:, 1 : T - 1 : 2][:, :rest]
        pairs, rounds = pairs + rest, rounds + 1
    return written, pairs, rounds
""",
)
add(
    "associative_scan",
    "wrong",
    "decay.view(B, T, E * N) fails on a view",
    """
def associative_scan(decay, written):
    B, T, E, N = decay.shape
    def go(d, w):
        T = d.shape[1]
        if T == 1:
            return w.clone(), 0, 0
        half, rest = T // 2, (T - 1) // 2
        d2 = d[:, 1::2]
        even, pairs, rounds = go(d2 * d[:, : 2 * half : 2], d2 * w[:, : 2 * half : 2] + w[:, 1::2])
        states = w.clone()
        states[:, 1::2] = even
        if rest:
            states[:, 2::2] += d[:, 2::2] * even[:, :rest]
        return states, pairs + half + rest, rounds + 1 + (rest > 0)
    states, pairs, rounds = go(decay.view(B, T, E * N), written.view(B, T, E * N))
    return states.view(B, T, E, N), pairs, rounds
""",
)
add(
    "associative_scan",
    "right",
    "no recursion: a list of levels up, then down",
    """
def associative_scan(decay, written):
    levels, pairs, rounds = [(decay, written)], 0, 0
    while levels[-1][0].shape[1] > 1:
        d, w = levels[-1]
        m = d.shape[1] // 2
        d1, d2, w1, w2 = d[:, : 2 * m : 2], d[:, 1::2], w[:, : 2 * m : 2], w[:, 1::2]
        levels.append((d1 * d2, torch.addcmul(w2, d2, w1)))
        pairs += m
        rounds += 1
    h = levels.pop()[1]
    for d, w in reversed(levels):
        new = w.clone()
        new[:, 1::2] = h
        k = (w.shape[1] - 1) // 2
        if k > 0:
            new[:, 2::2] += d[:, 2::2] * h[:, :k]
            pairs += k
            rounds += 1
        h = new
    return h, pairs, rounds
""",
)
add(
    "associative_scan",
    "right",
    "in place on clones with strides (up-sweep, down-sweep on one array)",
    """
def associative_scan(decay, written):
    d, w, T = decay.clone(), written.clone(), decay.shape[1]
    pairs = rounds = 0
    s = 1
    while 2 * s <= T:
        right = torch.arange(2 * s - 1, T, 2 * s)
        w[:, right] = d[:, right] * w[:, right - s] + w[:, right]
        d[:, right] = d[:, right] * d[:, right - s]
        pairs, rounds, s = pairs + len(right), rounds + 1, 2 * s
    while s > 1:
        s //= 2
        fill = torch.tensor(list(range(3 * s - 1, T, 2 * s)), dtype=torch.long)
        if len(fill):
            w[:, fill] = d[:, fill] * w[:, fill - s] + w[:, fill]
            pairs, rounds = pairs + len(fill), rounds + 1
    return w, pairs, rounds
""",
)
add(
    "associative_scan",
    "right",
    "the recursion in numpy (no gradients are asked for)",
    """
def associative_scan(decay, written):
    def go(d, w):
        T = d.shape[1]
        if T == 1:
            return w.copy(), 0, 0
        m, k = T // 2, (T - 1) // 2
        even, p, r = go(d[:, 1::2] * d[:, :2 * m:2], d[:, 1::2] * w[:, :2 * m:2] + w[:, 1::2])
        out = w.copy()
        out[:, 1::2] = even
        if k:
            out[:, 2::2] += d[:, 2::2] * even[:, :k]
        return out, p + m + k, r + 1 + bool(k)
    out, p, r = go(decay.detach().numpy(), written.detach().numpy())
    return torch.from_numpy(out), p, r
""",
)
add(
    "associative_scan",
    "right",
    "interleaved by stack and flatten, counts as numpy-free ints, odd end concatenated",
    """
def associative_scan(decay, written):
    T = decay.size(1)
    if T < 2:
        return written + 0, 0, 0
    d1, d2 = decay[:, ::2][:, : T // 2], decay[:, 1::2]
    w1, w2 = written[:, ::2][:, : T // 2], written[:, 1::2]
    even, p, r = associative_scan(d1 * d2, w1 * d2 + w2)
    odd = written[:, :1]
    if T > 2:
        k = (T - 1) // 2
        odd = torch.cat([odd, written[:, 2::2] + decay[:, 2::2] * even[:, :k]], dim=1)
        p, r = p + k, r + 1
    both = torch.stack([odd[:, : T // 2], even], dim=2).flatten(1, 2)
    if T % 2:
        both = torch.cat([both, odd[:, -1:]], dim=1)
    return both, p + T // 2, r + 1
""",
)


# 24.7
def convolved(
    pad="(0, 0, K - 1, 0)",
    term="taps[:, k] * padded[:, k : k + T]",
    start="bias",
    before="pass",
    src="x",
):
    return f"""
def causal_conv1d(x, taps, bias):
    K, T = taps.shape[1], x.shape[1]
    {before}
    padded = functional.pad({src}, {pad})
    y = {start}
    for k in range(K):
        y = y + {term}
    return y
"""


add(
    "causal_conv1d",
    "wrong",
    "zeros on both sides ('same')",
    convolved(pad="(0, 0, (K - 1) // 2, K - 1 - (K - 1) // 2)"),
)
add(
    "causal_conv1d",
    "wrong",
    "K taken to be 4 (pad 3, three shifts)",
    """
def causal_conv1d(x, taps, bias):
    E = x.shape[2]
    padded = functional.pad(x.mT, (3, 0))
    return functional.conv1d(padded, taps[:, None, :], bias, groups=E).mT[:, : x.shape[1]]
""",
)
add(
    "causal_conv1d",
    "wrong",
    "the past is detached: x learns through the present only",
    convolved(term="taps[:, k] * (padded if k == K - 1 else padded.detach())[:, k : k + T]"),
)
add(
    "causal_conv1d",
    "wrong",
    "shifted[:, s:] = x[:, :T - s] fails on texts shorter than K - 1",
    """
def causal_conv1d(x, taps, bias):
    K, T = taps.shape[1], x.shape[1]
    y = bias
    for k in range(K):
        s = K - 1 - k
        shifted = torch.zeros_like(x)
        shifted[:, s:] = x[:, : T - s]
        y = y + taps[:, k] * shifted
    return y
""",
)
add(
    "causal_conv1d",
    "wrong",
    "x is multiplied by the last tap in place",
    """
def causal_conv1d(x, taps, bias):
    K, old = taps.shape[1], x.clone()
    with torch.no_grad():
        x *= taps[:, -1]
    padded = functional.pad(old, (0, 0, K - 1, 0))
    y = bias
    for k in range(K):
        y = y + taps[:, k] * padded[:, k : k + x.shape[1]]
    return y
""",
)
add(
    "causal_conv1d",
    "right",
    "conv1d with groups, padding on both sides and the end cut off",
    """
def causal_conv1d(x, taps, bias):
    K = taps.shape[1]
    y = F.conv1d(x.transpose(1, 2), taps.unsqueeze(1), bias, padding=K - 1, groups=x.shape[2])
    return y[:, :, : x.shape[1]].transpose(1, 2)
""",
)
add(
    "causal_conv1d",
    "right",
    "unfold and einsum",
    """
def causal_conv1d(x, taps, bias):
    windows = F.pad(x, (0, 0, taps.shape[1] - 1, 0)).unfold(1, taps.shape[1], 1)
    return torch.einsum("btek,ek->bte", windows, taps) + bias
""",
)
add(
    "causal_conv1d",
    "right",
    "one (T, T) Toeplitz matrix per channel",
    """
def causal_conv1d(x, taps, bias):
    T, K = x.shape[1], taps.shape[1]
    lag = torch.arange(T)[:, None] - torch.arange(T)[None]
    inside = (lag >= 0) & (lag < K)
    m = torch.where(inside, taps[:, (K - 1 - lag).clamp(0, K - 1)], torch.zeros((), dtype=taps.dtype))
    return torch.einsum("ets,bse->bte", m, x) + bias
""",
)
add(
    "causal_conv1d",
    "right",
    "FFT, long enough not to wrap",
    """
def causal_conv1d(x, taps, bias):
    T, K = x.shape[1], taps.shape[1]
    n = T + K - 1
    fx = torch.fft.rfft(x, n=n, dim=1)
    ft = torch.fft.rfft(taps.flip(1), n=n, dim=1).mT
    return torch.fft.irfft(fx * ft, n=n, dim=1)[:, :T] + bias
""",
)

# 24.8
INIT = """
class MambaBlock(nn.Module):
    def __init__(self, width: int, state: int, taps: int = 4, rank: int | None = None) -> None:
        super().__init__()
        inner, rank = 2 * width, rank or math.ceil(width / 16)
        self.input = nn.Linear(width, 2 * inner, bias=False)
        self.taps = nn.Parameter(torch.empty(inner, taps).uniform_(-1, 1) / math.sqrt(taps))
        self.taps_bias = nn.Parameter(torch.zeros(inner))
        self.select = nn.Parameter(torch.empty(rank + 2 * state, inner).uniform_(-1, 1))
        self.delta = nn.Parameter(torch.empty(inner, rank).uniform_(-1, 1) / math.sqrt(rank))
        start = torch.empty(inner).uniform_(math.log(1e-3), math.log(1e-1)).exp()
        self.delta_bias = nn.Parameter(start + torch.log(-torch.expm1(-start)))
        self.a_log = nn.Parameter(torch.arange(1.0, state + 1).log().repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))
        self.output = nn.Linear(inner, width, bias=False)
        with torch.no_grad():
            self.select /= math.sqrt(inner)
"""


def mamba(
    split="self.input(x).chunk(2, dim=-1)",
    names="u, z",
    conv="functional.silu(causal_conv1d(u, self.taps, self.taps_bias))",
    sel="v",
    a="-self.a_log.exp()",
    scan="v",
    skip="self.skip",
    gate="y * functional.silu(z)",
    out="self.output({})",
    state="",
    keep="_",
):
    return (
        INIT
        + f"""
    def forward(self, x):
        {names} = {split}
        v = {conv}
        delta, b, c = selective_parameters({sel}, self.select, self.delta, self.delta_bias)
        y, {keep} = selective_scan({scan}, delta, {a}, b, c, {skip}{state})
        return {out.format(gate)}
"""
    )


add("MambaBlock", "wrong", "the halves swapped: z is convolved", mamba(names="z, u"))
add("MambaBlock", "wrong", "Δ, b, c computed before the convolution, from u", mamba(sel="u"))
add(
    "MambaBlock",
    "wrong",
    "the state of the last call is kept in the module and goes into the next",
    mamba(
        state=", self.h if getattr(self, 'h', None) is not None and self.h.shape[0] == x.shape[0] else None",
        keep="h",
    ).replace(
        "        return self.output", "        self.h = h.detach()\n        return self.output"
    ),
)
add(
    "MambaBlock",
    "wrong",
    "the gate's z is detached: that half of input.weight never learns",
    mamba(gate="y * functional.silu(z.detach())"),
)
add(
    "MambaBlock",
    "wrong",
    "a is made from a_log.data: a_log never learns",
    mamba(a="-self.a_log.data.exp()"),
)
add(
    "MambaBlock",
    "wrong",
    "x.view(-1, C) fails on a view",
    mamba(
        split="self.input(x.view(-1, x.shape[-1])).view(x.shape[0], x.shape[1], -1).chunk(2, dim=-1)"
    ),
)
add(
    "MambaBlock",
    "right",
    "z times sigmoid(z), split by slices, F.conv1d",
    INIT
    + """
    def forward(self, x):
        e = self.skip.numel()
        both = x @ self.input.weight.T
        u, z = both[..., :e], both[..., e:]
        k = self.taps.shape[1]
        u = F.conv1d(F.pad(u.mT, (k - 1, 0)), self.taps[:, None], self.taps_bias, groups=e).mT
        u = u * torch.sigmoid(u)
        delta, b, c = selective_parameters(u, self.select, self.delta, self.delta_bias)
        y = selective_scan(u, delta, torch.neg(torch.exp(self.a_log)), b, c, self.skip)[0]
        return (y * z * torch.sigmoid(z)) @ self.output.weight.T
""",
)
add(
    "MambaBlock",
    "right",
    "token by token with mamba_step",
    INIT
    + """
    def forward(self, x):
        block = dict(self.named_parameters())
        e, k, s = self.skip.numel(), self.taps.shape[1], self.a_log.shape[1]
        recent, h = x.new_zeros(x.shape[0], k - 1, e), x.new_zeros(x.shape[0], e, s)
        out = []
        for t in range(x.shape[1]):
            y, recent, h = mamba_step(block, x[:, t], recent, h)
            out.append(y)
        return torch.stack(out, 1)
""",
)
add(
    "MambaBlock",
    "right",
    "skip added by hand outside the scan, raw_scan inside",
    INIT
    + """
    def forward(self, x):
        u, z = torch.tensor_split(self.input(x), 2, dim=2)
        u = nn.SiLU()(causal_conv1d(u, self.taps, self.taps_bias))
        n, r = self.a_log.shape[1], self.delta.shape[1]
        low, b, c = F.linear(u, self.select).split((r, n, n), -1)
        y, _ = raw_scan(u, low @ self.delta.T, self.delta_bias, -self.a_log.exp(), b, c)
        return F.linear((y + u * self.skip) * F.silu(z), self.output.weight)
""",
)
add(
    "MambaBlock",
    "right",
    "everything by the tree and einsum",
    INIT
    + """
    def forward(self, x):
        u, z = self.input(x).unflatten(-1, (2, -1)).unbind(-2)
        u = functional.silu(causal_conv1d(u, self.taps, self.taps_bias))
        delta, b, c = selective_parameters(u, self.select, self.delta, self.delta_bias)
        decay, gain = discretize_selective(delta, -torch.exp(self.a_log), b)
        h, _, _ = associative_scan(decay, gain * u[..., None])
        y = torch.einsum("bten,btn->bte", h, c) + self.skip * u
        return self.output(torch.mul(functional.silu(z), y))
""",
)


# 24.9
def one_step(
    window="torch.cat([recent, u[:, None]], dim=1)",
    conv='functional.silu((window * block["taps"].T).sum(1) + block["taps_bias"])',
    a='-block["a_log"].exp()',
    skip='block["skip"]',
    state="state",
    gate="y[:, 0] * functional.silu(z)",
    new="window[:, 1:]",
    h="h",
    before="pass",
    ret=None,
):
    ret = ret or f'({gate}) @ block["output.weight"].T, {new}, {h}'
    return f"""
def mamba_step(block, x, recent, state):
    {before}
    u, z = (x @ block["input.weight"].T).chunk(2, dim=-1)
    window = {window}
    v = {conv}
    delta, b, c = selective_parameters(v[:, None], block["select"], block["delta"], block["delta_bias"])
    y, h = selective_scan(v[:, None], delta, {a}, b, c, {skip}, {state})
    return {ret}
"""


add(
    "mamba_step",
    "wrong",
    "recent keeps what came out of the convolution",
    one_step(new="torch.cat([recent, v[:, None]], dim=1)[:, 1:]"),
)
add(
    "mamba_step",
    "wrong",
    "newest first: the token is put before recent",
    one_step(window="torch.cat([u[:, None], recent], dim=1)", new="window[:, :-1]"),
)
add(
    "mamba_step",
    "wrong",
    "taps the other way round",
    one_step(
        conv='functional.silu((window * block["taps"].flip(1).T).sum(1) + block["taps_bias"])'
    ),
)
add(
    "mamba_step",
    "wrong",
    "-exp(a_log) is stored in the dict that was given",
    one_step(before='block["a"] = -block["a_log"].exp()', a='block["a"]'),
)
add(
    "mamba_step",
    "wrong",
    "recent is shifted in place",
    """
def mamba_step(block, x, recent, state):
    u, z = (x @ block["input.weight"].T).chunk(2, dim=-1)
    window = torch.cat([recent, u[:, None]], dim=1)
    v = functional.silu((window * block["taps"].T).sum(1) + block["taps_bias"])
    delta, b, c = selective_parameters(v[:, None], block["select"], block["delta"], block["delta_bias"])
    y, h = selective_scan(v[:, None], delta, -block["a_log"].exp(), b, c, block["skip"], state)
    with torch.no_grad():
        recent.copy_(window[:, 1:])
    return (y[:, 0] * functional.silu(z)) @ block["output.weight"].T, recent, h
""",
)
add(
    "mamba_step",
    "wrong",
    "-exp(a_log) is computed once and kept on the function: another block gets the old one",
    one_step(
        before='mamba_step.a = getattr(mamba_step, "a", None) if getattr(mamba_step, "a", None) is not None and mamba_step.a.shape == block["a_log"].shape else -block["a_log"].detach().exp()',
        a="mamba_step.a",
    ),
)
add(
    "mamba_step",
    "wrong",
    "one tap (K = 1): recent grows to one place (cat of recent[:, 1:] and u)",
    one_step(new="torch.cat([recent[:, 1:], u[:, None]], dim=1)"),
)
add(
    "mamba_step",
    "right",
    "under no_grad, by einsum, without the functions of before",
    """
@torch.no_grad()
def mamba_step(block, x, recent, state):
    p = block
    u, z = torch.einsum("bc,kec->kbe", x, p["input.weight"].reshape(2, -1, x.shape[1]))
    window = torch.cat((recent, u.unsqueeze(1)), 1)
    u = F.silu(torch.einsum("bke,ek->be", window, p["taps"]) + p["taps_bias"])
    r, n = p["delta"].shape[1], state.shape[2]
    low, b, c = (u @ p["select"].T).split([r, n, n], 1)
    d = F.softplus(low @ p["delta"].T + p["delta_bias"]).unsqueeze(-1)
    h = torch.exp(-d * p["a_log"].exp()) * state + d * b.unsqueeze(1) * u.unsqueeze(-1)
    y = (h * c.unsqueeze(1)).sum(-1) + p["skip"] * u
    return F.linear(y * F.silu(z), p["output.weight"]), window[:, 1:].clone(), h
""",
)
add(
    "mamba_step",
    "right",
    "causal_conv1d of the window, its last place",
    """
def mamba_step(block, x, recent, state):
    u, z = F.linear(x, block["input.weight"]).chunk(2, -1)
    window = torch.cat([recent, u[:, None]], 1)
    v = F.silu(causal_conv1d(window, block["taps"], block["taps_bias"])[:, -1:])
    y, h = selective_scan(v, *(lambda d, b, c: (d, -block["a_log"].exp(), b, c))(*selective_parameters(v, block["select"], block["delta"], block["delta_bias"])), block["skip"], state)
    return F.linear(y[:, -1] * F.silu(z), block["output.weight"]), window[:, 1:], h
""",
)
add(
    "mamba_step",
    "right",
    "recent rolled on a copy; tap by tap",
    """
def mamba_step(block, x, recent, state):
    e = block["skip"].shape[0]
    both = x @ block["input.weight"].mT
    u, z = both[:, :e], both[:, e:]
    taps = block["taps"]
    v = block["taps_bias"] + taps[:, -1] * u
    for k in range(recent.shape[1]):
        v = v + taps[:, k] * recent[:, k]
    new = recent.clone()
    if recent.shape[1]:
        new = recent.roll(-1, 1)
        new[:, -1] = u
    v = v * v.sigmoid()
    delta, b, c = selective_parameters(v.unsqueeze(1), block["select"], block["delta"], block["delta_bias"])
    y, h = selective_scan(v.unsqueeze(1), delta, -torch.exp(block["a_log"]), b, c, block["skip"], state.clone())
    return (y.squeeze(1) * z * z.sigmoid()) @ block["output.weight"].mT, new, h
""",
)
add(
    "mamba_step",
    "right",
    "raw_scan of one step, with the old state added by hand",
    """
def mamba_step(block, x, recent, state):
    g = block.get
    u, z = (g("input.weight") @ x.T).T.tensor_split(2, dim=1)
    window = torch.cat([recent, u[:, None]], 1)
    v = F.silu((window.mT * g("taps")).sum(-1) + g("taps_bias"))
    delta, b, c = (t[:, 0] for t in selective_parameters(v[:, None], g("select"), g("delta"), g("delta_bias")))
    h = state * torch.exp(torch.einsum("be,en->ben", delta, -g("a_log").exp())) + torch.einsum("be,bn,be->ben", delta, b, v)
    y = torch.bmm(h, c[:, :, None])[:, :, 0] + v * g("skip")
    return (y * F.silu(z)) @ g("output.weight").T, window[:, 1:], h
""",
)
add(
    "selective_copy_data",
    "wrong",
    "random places of its own",
    """
def selective_copy_data(keys, symbols):
    B, T = keys.shape
    M = symbols.shape[1]
    places = torch.rand(B, T).argsort(dim=1)[:, :M].sort(dim=1).values
    tokens = torch.full((B, T + M), 0, dtype=torch.long)
    tokens = tokens.scatter(1, places, symbols.long())
    tokens[:, T:] = 1
    targets = torch.full((B, T + M), -100, dtype=torch.long)
    targets[:, T:] = symbols
    return tokens, targets
""",
)
add(
    "selective_copy_data",
    "wrong",
    "all keys below the (M+1)-th smallest; fails where M = T",
    """
def selective_copy_data(keys, symbols):
    B, T = keys.shape
    M = symbols.shape[1]
    limit = keys.sort(dim=1).values[:, M : M + 1]
    chosen = keys < limit
    tokens = torch.zeros(B, T, dtype=torch.long)
    tokens[chosen] = symbols.reshape(-1)
    tokens = torch.cat([tokens, torch.full((B, M), 1)], 1)
    targets = torch.cat([torch.full((B, T), -100), symbols], 1)
    return tokens, targets
""",
)
add(
    "selective_parameters",
    "wrong",
    "R taken as 1, as in the example",
    """
def selective_parameters(x, w_select, w_delta, bias_delta):
    R = 1
    N = (w_select.shape[0] - R) // 2
    low, b, c = (x @ w_select.T).split([R, N, N], dim=-1)
    return F.softplus(low @ w_delta.T + bias_delta), b, c
""",
)
add(
    "selective_parameters",
    "wrong",
    "log1p(exp) with r cut at 20",
    """
def selective_parameters(x, w_select, w_delta, bias_delta):
    R = w_delta.shape[1]
    N = (w_select.shape[0] - R) // 2
    low, b, c = (x @ w_select.T).split([R, N, N], dim=-1)
    return torch.log1p(torch.exp((low @ w_delta.T + bias_delta).clamp(max=20))), b, c
""",
)
add(
    "selective_parameters",
    "wrong",
    "softplus kept above 1e-4",
    """
def selective_parameters(x, w_select, w_delta, bias_delta):
    R = w_delta.shape[1]
    N = (w_select.shape[0] - R) // 2
    low, b, c = (x @ w_select.T).split([R, N, N], dim=-1)
    return F.softplus(low @ w_delta.T + bias_delta).clamp(min=1e-4), b, c
""",
)
add(
    "selective_parameters",
    "wrong",
    "w_delta without its gradient",
    """
def selective_parameters(x, w_select, w_delta, bias_delta):
    R = w_delta.shape[1]
    N = (w_select.shape[0] - R) // 2
    low, b, c = (x @ w_select.T).split([R, N, N], dim=-1)
    return F.softplus(low @ w_delta.data.T + bias_delta), b, c
""",
)
add(
    "selective_parameters",
    "right",
    "nn.Softplus and one product of both matrices",
    """
def selective_parameters(x, w_select, w_delta, bias_delta):
    rank = w_delta.shape[1]
    states = (w_select.shape[0] - rank) // 2
    both = w_delta @ w_select[:rank]
    delta = torch.nn.Softplus()(x @ both.mT + bias_delta)
    return delta, x @ w_select[rank:-states].mT, x @ w_select[-states:].mT
""",
)
add(
    "discretize_selective",
    "wrong",
    "gain is (1 − decay) b",
    """
def discretize_selective(delta, a, b):
    return torch.exp(delta[..., None] * a), (1 - torch.exp(delta[..., None] * a)) * b[:, :, None]
""",
)
add(
    "discretize_selective",
    "wrong",
    "decay by the bilinear rule",
    """
def discretize_selective(delta, a, b):
    return (1 + delta[..., None] * a / 2) / (1 - delta[..., None] * a / 2), delta[..., None] * b[:, :, None]
""",
)
add(
    "discretize_selective",
    "wrong",
    "Δ cut at 20",
    """
def discretize_selective(delta, a, b):
    delta = delta.clamp(max=20)
    return torch.exp(delta[..., None] * a), delta[..., None] * b[:, :, None]
""",
)
add(
    "discretize_selective",
    "wrong",
    "a made negative in place",
    """
def discretize_selective(delta, a, b):
    return torch.exp(delta[..., None] * -a.abs_()), delta[..., None] * b[:, :, None]
""",
)
add(
    "discretize_selective",
    "right",
    "powers of two",
    """
def discretize_selective(delta, a, b):
    big = delta.unsqueeze(3)
    return torch.exp2(big * a / math.log(2)), torch.mul(big, b.unsqueeze(2))
""",
)
add(
    "selective_scan",
    "wrong",
    "the decay of the first token for all",
    """
def selective_scan(x, delta, a, b, c, skip, state=None):
    decay, gain = discretize_selective(delta, a, b)
    B, T, E = x.shape
    h = torch.zeros(B, E, a.shape[1], dtype=x.dtype) if state is None else state
    out = []
    for t in range(T):
        h = decay[:, 0] * h + gain[:, t] * x[:, t, :, None]
        out.append((h * c[:, t, None]).sum(-1) + skip * x[:, t])
    return torch.stack(out, 1), h
""",
)
add(
    "selective_scan",
    "wrong",
    "exp of all pairs of times, masked afterwards (inf * 0)",
    """
def selective_scan(x, delta, a, b, c, skip, state=None):
    T = x.shape[1]
    total = (delta[..., None] * a).cumsum(1)
    between = torch.exp(total[:, :, None] - total[:, None])          # (B, t, s, E, N)
    between = between * torch.ones(T, T, dtype=x.dtype).tril()[None, :, :, None, None]
    written = (delta * x)[..., None] * b[:, :, None]
    h = (between * written[:, None]).sum(2)
    if state is not None:
        h = h + torch.exp(total) * state[:, None]
    return (h * c[:, :, None]).sum(-1) + skip * x, h[:, -1]
""",
)
add(
    "selective_scan",
    "right",
    "no loop: sums over segments, masked before exp",
    """
def selective_scan(x, delta, a, b, c, skip, state=None):
    T = x.shape[1]
    rate = delta[..., None] * a                                          # (B, T, E, N)
    later = torch.ones(T, T, dtype=torch.bool).tril(-1)[None, :, :, None, None]
    seg = torch.where(later, rate[:, :, None], torch.zeros((), dtype=x.dtype)).cumsum(1)   # sum over s < r <= t
    keep = torch.ones(T, T, dtype=torch.bool).tril()[None, :, :, None, None]
    share = seg.masked_fill(~keep, -math.inf).exp()
    h = (share * ((delta * x)[..., None] * b[:, :, None])[:, None]).sum(2)
    if state is not None:
        h = h + rate.cumsum(1).exp() * state[:, None]
    return torch.einsum("bten,btn->bte", h, c) + x * skip, h[:, -1]
""",
)
add(
    "selective_scan",
    "right",
    "doubling: log T rounds on shifted copies",
    """
def selective_scan(x, delta, a, b, c, skip, state=None):
    d, g = discretize_selective(delta, a, b)
    w = g * x.unsqueeze(-1)
    if state is not None:
        w = torch.cat([(w[:, 0] + d[:, 0] * state)[:, None], w[:, 1:]], 1)
    k, T = 1, x.shape[1]
    while k < T:
        w = torch.cat([w[:, :k], w[:, k:] + d[:, k:] * w[:, :-k]], 1)
        d = torch.cat([d[:, :k], d[:, k:] * d[:, :-k]], 1)
        k *= 2
    return (w @ c.unsqueeze(-1)).squeeze(-1) + skip * x, w[:, -1]
""",
)
add(
    "raw_scan",
    "wrong",
    "explosion cured by |raw| in the decay",
    """
def raw_scan(x, raw, bias, a, b, c):
    step = F.softplus(raw + bias)
    decay = torch.exp((raw + bias).abs()[..., None] * a)
    added = (step * x)[..., None] * b[..., None, :]
    h, out = torch.zeros_like(added[:, 0]), []
    for t in range(x.shape[1]):
        h = decay[:, t] * h + added[:, t]
        out.append((h * c[:, t, None]).sum(-1))
    return torch.stack(out, dim=1), h
""",
)
add(
    "raw_scan",
    "right",
    "safe where, with both branches made finite",
    """
def raw_scan(x, raw, bias, a, b, c):
    r = raw + bias
    small = torch.where(r > 30, torch.zeros_like(r), r)
    step = torch.where(r > 30, r, torch.log1p(torch.exp(small)))
    decay, gain = discretize_selective(step, a, b)
    h, out = torch.zeros_like(gain[:, 0]), []
    for d, g, v, q in zip(decay.unbind(1), gain.unbind(1), x.unbind(1), c.unbind(1)):
        h = torch.addcmul(g * v[..., None], d, h)
        out.append((h * q[:, None]).sum(2))
    return torch.stack(out, dim=1), h
""",
)
add(
    "associative_scan",
    "wrong",
    "only the pairs and rounds on the way up are counted",
    """
def associative_scan(decay, written):
    T = written.shape[1]
    if T == 1:
        return written.clone(), 0, 0
    even = T // 2 * 2
    d1, d2 = decay[:, 0:even:2], decay[:, 1:even:2]
    w1, w2 = written[:, 0:even:2], written[:, 1:even:2]
    inner, pairs, rounds = associative_scan(d2 * d1, d2 * w1 + w2)
    states = torch.empty_like(written)
    states[:, 0] = written[:, 0]
    states[:, 1::2] = inner
    pairs += T // 2
    rounds += 1
    rest = (T - 1) // 2
    if rest:
        states[:, 2::2] = decay[:, 2::2] * inner[:, :rest] + written[:, 2::2]
    return states, pairs, rounds
""",
)
add(
    "associative_scan",
    "wrong",
    "the odd step at the end is not filled in",
    """
def associative_scan(decay, written):
    T = written.shape[1]
    if T == 1:
        return written.clone(), 0, 0
    even = T // 2 * 2
    d1, d2 = decay[:, 0:even:2], decay[:, 1:even:2]
    w1, w2 = written[:, 0:even:2], written[:, 1:even:2]
    inner, pairs, rounds = associative_scan(d2 * d1, d2 * w1 + w2)
    states = torch.zeros_like(written)
    states[:, 0] = written[:, 0]
    states[:, 1::2] = inner
    pairs += T // 2
    rounds += 1
    rest = (T // 2 * 2 - 1) // 2
    if rest:
        states[:, 2:2 * rest + 2:2] = decay[:, 2:2 * rest + 2:2] * inner[:, :rest] + written[:, 2:2 * rest + 2:2]
        pairs += rest
        rounds += 1
    return states, pairs, rounds
""",
)
add(
    "associative_scan",
    "wrong",
    "the smallest case is two steps; one step fails",
    """
def associative_scan(decay, written):
    T = written.shape[1]
    if T == 2:
        return torch.stack([written[:, 0], decay[:, 1] * written[:, 0] + written[:, 1]], 1), 1, 1
    if T == 3:
        second = decay[:, 1] * written[:, 0] + written[:, 1]
        return torch.stack([written[:, 0], second, decay[:, 2] * second + written[:, 2]], 1), 2, 2
    even = T // 2 * 2
    d1, d2 = decay[:, 0:even:2], decay[:, 1:even:2]
    w1, w2 = written[:, 0:even:2], written[:, 1:even:2]
    inner, pairs, rounds = associative_scan(d2 * d1, d2 * w1 + w2)
    states = torch.empty_like(written)
    states[:, 0] = written[:, 0]
    states[:, 1::2] = inner
    pairs += T // 2
    rounds += 1
    rest = (T - 1) // 2
    if rest:
        states[:, 2::2] = decay[:, 2::2] * inner[:, :rest] + written[:, 2::2]
        pairs += rest
        rounds += 1
    return states, pairs, rounds
""",
)
add(
    "associative_scan",
    "right",
    "a combine that counts, recursion, index_select",
    """
def associative_scan(decay, written):
    count = {"pairs": 0, "rounds": 0}
    def combine(first, second):
        (d1, w1), (d2, w2) = first, second
        count["pairs"] += w2.shape[1]
        count["rounds"] += 1
        return d1 * d2, w1 * d2 + w2
    def run(d, w):
        length = w.shape[1]
        if length < 2:
            return w
        odd = slice(1, None, 2)
        even = slice(0, length - length % 2, 2)
        known = run(*combine((d[:, even], w[:, even]), (d[:, odd], w[:, odd])))
        parts = [w[:, :1]]
        if length > 2:
            m = (length - 1) // 2
            _, rest = combine((torch.ones_like(known[:, :m]), known[:, :m]), (d[:, 2::2], w[:, 2::2]))
            parts.append(rest)
        order = torch.empty(length, dtype=torch.long)
        order[0::2] = torch.arange((length + 1) // 2)
        order[1::2] = torch.arange(length // 2) + (length + 1) // 2
        return torch.cat([*parts, known], 1)[:, order]
    return run(decay, written), count["pairs"], count["rounds"]
""",
)
add(
    "causal_conv1d",
    "wrong",
    "zeros after the end: sees only the present and later",
    """
def causal_conv1d(x, taps, bias):
    K = taps.shape[1]
    T = x.shape[1]
    p = F.pad(x, (0, 0, 0, K - 1))
    return sum(taps[:, k] * p[:, k : k + T] for k in range(K)) + bias
""",
)
add(
    "causal_conv1d",
    "wrong",
    "x turned in place",
    """
def causal_conv1d(x, taps, bias):
    E, K = taps.shape
    T = x.shape[1]
    x.transpose_(1, 2)
    y = F.conv1d(x, taps[:, None], bias, padding=K - 1, groups=E)
    return y[..., :T].transpose(1, 2)
""",
)
add(
    "causal_conv1d",
    "wrong",
    "taps without their gradient",
    """
def causal_conv1d(x, taps, bias):
    K = taps.shape[1]
    T = x.shape[1]
    p = F.pad(x, (0, 0, K - 1, 0))
    return sum(taps.detach()[:, k] * p[:, k : k + T] for k in range(K)) + bias
""",
)
add(
    "causal_conv1d",
    "right",
    "token by token with a window in a list",
    """
def causal_conv1d(x, taps, bias):
    K = taps.shape[1]
    window = [torch.zeros_like(x[:, 0])] * K
    out = []
    for t in range(x.shape[1]):
        window = [*window[1:], x[:, t]]
        out.append(sum(w * taps[:, i] for i, w in enumerate(window)) + bias)
    return torch.stack(out, 1)
""",
)
add(
    "MambaBlock",
    "wrong",
    "a computed in the first call and kept",
    """
class MambaBlock(nn.Module):
    def __init__(self, width: int, state: int, taps: int = 4, rank: int | None = None) -> None:
        super().__init__()
        inner, rank = 2 * width, rank or math.ceil(width / 16)
        self.input = nn.Linear(width, 2 * inner, bias=False)
        self.taps = nn.Parameter(torch.empty(inner, taps).uniform_(-1, 1) / math.sqrt(taps))
        self.taps_bias = nn.Parameter(torch.zeros(inner))
        self.select = nn.Parameter(torch.empty(rank + 2 * state, inner).uniform_(-1, 1))
        self.delta = nn.Parameter(torch.empty(inner, rank).uniform_(-1, 1) / math.sqrt(rank))
        start = torch.empty(inner).uniform_(math.log(1e-3), math.log(1e-1)).exp()
        self.delta_bias = nn.Parameter(start + torch.log(-torch.expm1(-start)))
        self.a_log = nn.Parameter(torch.arange(1.0, state + 1).log().repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))
        self.output = nn.Linear(inner, width, bias=False)
        with torch.no_grad():
            self.select /= math.sqrt(inner)

    def forward(self, x: Tensor) -> Tensor:
        u, z = self.input(x).chunk(2, dim=-1)
        u = F.silu(causal_conv1d(u, self.taps, self.taps_bias))
        delta, b, c = selective_parameters(u, self.select, self.delta, self.delta_bias)
        if not hasattr(self, 'a'):
            self.a = -torch.exp(self.a_log)
        y, _ = selective_scan(u, delta, self.a, b, c, self.skip)
        return self.output(y * F.silu(z))
""",
)
add(
    "MambaBlock",
    "right",
    "helper methods and nn.SiLU",
    """
class MambaBlock(nn.Module):
    def __init__(self, width: int, state: int, taps: int = 4, rank: int | None = None) -> None:
        super().__init__()
        inner, rank = 2 * width, rank or math.ceil(width / 16)
        self.input = nn.Linear(width, 2 * inner, bias=False)
        self.taps = nn.Parameter(torch.empty(inner, taps).uniform_(-1, 1) / math.sqrt(taps))
        self.taps_bias = nn.Parameter(torch.zeros(inner))
        self.select = nn.Parameter(torch.empty(rank + 2 * state, inner).uniform_(-1, 1))
        self.delta = nn.Parameter(torch.empty(inner, rank).uniform_(-1, 1) / math.sqrt(rank))
        start = torch.empty(inner).uniform_(math.log(1e-3), math.log(1e-1)).exp()
        self.delta_bias = nn.Parameter(start + torch.log(-torch.expm1(-start)))
        self.a_log = nn.Parameter(torch.arange(1.0, state + 1).log().repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))
        self.output = nn.Linear(inner, width, bias=False)
        with torch.no_grad():
            self.select /= math.sqrt(inner)


    def branch(self, u):
        u = nn.SiLU()(causal_conv1d(u, self.taps, self.taps_bias))
        chosen = selective_parameters(u, self.select, self.delta, self.delta_bias)
        return selective_scan(u, chosen[0], self.a_log.exp().neg(), *chosen[1:], self.skip)[0]

    def forward(self, x):
        inner = self.skip.numel()
        u, z = torch.split(self.input(x), inner, dim=2)
        return self.output(torch.mul(self.branch(u), F.silu(z)))
""",
)
add(
    "mamba_step",
    "wrong",
    "recent newest first",
    """
def mamba_step(block, x, recent, state):
    u, z = (x @ block["input.weight"].T).chunk(2, dim=-1)
    window = torch.cat([recent, u[:, None]], dim=1)
    v = F.silu((window * block["taps"].T).sum(1) + block["taps_bias"])
    delta, b, c = selective_parameters(v[:, None], block["select"], block["delta"], block["delta_bias"])
    y, h = selective_scan(v[:, None], delta, -block["a_log"].exp(), b, c, block["skip"], state)
    return (y[:, 0] * F.silu(z)) @ block["output.weight"].T, torch.cat([u[:, None], recent[:, :-1]], dim=1), h
""",
)
add(
    "mamba_step",
    "wrong",
    "R from the default rule, C / 16 rounded up",
    """
def mamba_step(block, x, recent, state):
    u, z = (x @ block["input.weight"].T).chunk(2, dim=-1)
    window = torch.cat([recent, u[:, None]], dim=1)
    v = F.silu((window * block["taps"].T).sum(1) + block["taps_bias"])
    rank, n = math.ceil(x.shape[1] / 16), state.shape[2]
    p = v @ block["select"].T
    low, b, c = p[:, :rank], p[:, rank : rank + n], p[:, rank + n :]
    delta = F.softplus(low @ block["delta"].T + block["delta_bias"])
    state = torch.exp(delta[..., None] * -block["a_log"].exp()) * state + (delta * v)[..., None] * b[:, None]
    y = (state * c[:, None]).sum(-1) + block["skip"] * v
    return (y * F.silu(z)) @ block["output.weight"].T, window[:, 1:], state
""",
)
add(
    "mamba_step",
    "right",
    "raw_scan-like: state folded in, locals unpacked",
    """
def mamba_step(block, x, recent, state):
    w_in, taps, tb, sel, dl, db, al, sk, w_out = (block[k] for k in ("input.weight", "taps", "taps_bias", "select", "delta", "delta_bias", "a_log", "skip", "output.weight"))
    E, K = taps.shape
    R = dl.shape[1]
    N = (sel.shape[0] - R) // 2
    new_in = x @ w_in.T
    u, z = new_in.split(E, 1)
    acc = tb + taps[:, K - 1] * u
    for k in range(K - 1):
        acc = acc + taps[:, k] * recent[:, k]
    v = F.silu(acc)
    p = v @ sel.T
    d = F.softplus(p[:, :R] @ dl.T + db)
    a = -al.exp()
    columns = [torch.exp(d * a[:, i]) * state[:, :, i] + d * v * p[:, R + i : R + i + 1] for i in range(N)]
    h = torch.stack(columns, 2)
    y = sum(h[:, :, i] * p[:, R + N + i : R + N + i + 1] for i in range(N)) + sk * v
    rest = [recent[:, k] for k in range(1, K - 1)]
    moved = torch.stack([*rest, u], 1) if K > 1 else recent.clone()
    return (y * F.silu(z)) @ w_out.T, moved, h
""",
)


# Answers that keep the letter of most promises and break one.
add(
    "selective_copy_data",
    "wrong",
    "rounds keys to float32 before ranking",
    """
def selective_copy_data(keys, symbols):
    B, T = keys.shape
    M = symbols.shape[1]
    places = keys.float().topk(M, dim=1, largest=False).indices.sort(dim=1).values
    tokens = torch.zeros(B, T, dtype=torch.long).scatter(1, places, symbols)
    tokens = torch.cat([tokens, torch.ones(B, M, dtype=torch.long)], 1)
    return tokens, torch.cat([torch.full((B, T), -100), symbols], 1)
""",
)
add(
    "selective_copy_data",
    "wrong",
    "tokens have the dtype of keys",
    """
def selective_copy_data(keys, symbols):
    B, T = keys.shape
    M = symbols.shape[1]
    places = keys.argsort(dim=1)[:, :M].sort(dim=1).values
    tokens = torch.zeros_like(keys).scatter(1, places, symbols.to(keys.dtype))
    tokens = torch.cat([tokens, torch.ones(B, M)], 1)
    targets = torch.cat([torch.full((B, T), -100), symbols], 1)
    return tokens, targets
""",
)
add(
    "selective_copy_data",
    "wrong",
    "symbols stand at the READ places of tokens too (no questions)",
    """
def selective_copy_data(keys, symbols):
    B, T = keys.shape
    M = symbols.shape[1]
    places = keys.argsort(dim=1)[:, :M].sort(dim=1).values
    tokens = torch.zeros(B, T, dtype=torch.long).scatter(1, places, symbols)
    tokens = torch.cat([tokens, symbols], 1)
    return tokens, torch.cat([torch.full((B, T), -100), symbols], 1)
""",
)
add(
    "selective_parameters",
    "wrong",
    "softplus with threshold 5",
    """
def selective_parameters(x, w_select, w_delta, bias_delta):
    R = w_delta.shape[1]
    N = (w_select.shape[0] - R) // 2

    low, b, c = (x @ w_select.T).split([R, N, N], -1)
    return F.softplus(low @ w_delta.T + bias_delta, threshold=5), b, c
""",
)
add(
    "discretize_selective",
    "wrong",
    "gain from the logarithm of the decay (inf where it underflows)",
    """
def discretize_selective(delta, a, b):
    decay = torch.exp(delta[..., None] * a)
    return decay, torch.log(decay) / a * b[:, :, None]
""",
)
add(
    "discretize_selective",
    "wrong",
    "with N = 1 the gain is written into delta's own numbers",
    """
def discretize_selective(delta, a, b):
    d = delta.unsqueeze(-1)
    decay = torch.exp(d * a)
    if a.shape[1] == 1 and not delta.requires_grad:
        return decay, d.mul_(b.unsqueeze(2))
    return decay, d * b.unsqueeze(2)
""",
)
add(
    "discretize_selective",
    "wrong",
    "b clipped to ±10,000",
    """
def discretize_selective(delta, a, b):
    d = delta[..., None]
    return torch.exp(d * a), d * b.clamp(-1e4, 1e4)[:, :, None]
""",
)
add(
    "selective_scan",
    "wrong",
    "decays not below a millionth",
    """
def selective_scan(x, delta, a, b, c, skip, state=None):
    decay = torch.exp(delta[..., None] * a).clamp(min=1e-6)
    added = (delta * x)[..., None] * b[:, :, None]
    h, ys = torch.zeros_like(added[:, 0]) if state is None else state, []
    for t in range(x.shape[1]):
        h = decay[:, t] * h + added[:, t]
        ys.append((h * c[:, t, None]).sum(-1) + skip * x[:, t])
    return torch.stack(ys, 1), h
""",
)
add(
    "selective_scan",
    "wrong",
    "one token at a time writes into the caller's state",
    """
def selective_scan(x, delta, a, b, c, skip, state=None):
    decay = torch.exp(delta[..., None] * a)
    added = (delta * x)[..., None] * b[:, :, None]

    if x.shape[1] == 1 and state is not None and not state.requires_grad:
        state *= decay[:, 0]
        state += added[:, 0]
        return ((state * c[:, 0, None]).sum(-1) + skip * x[:, 0])[:, None], state
    h, ys = torch.zeros_like(added[:, 0]) if state is None else state, []
    for t in range(x.shape[1]):
        h = decay[:, t] * h + added[:, t]
        ys.append((h * c[:, t, None]).sum(-1) + skip * x[:, t])
    return torch.stack(ys, 1), h
""",
)
add(
    "selective_scan",
    "wrong",
    "without a state it goes on from the last call of this shape",
    """
_LAST = {}
def selective_scan(x, delta, a, b, c, skip, state=None):
    decay = torch.exp(delta[..., None] * a)
    added = (delta * x)[..., None] * b[:, :, None]
    key = tuple(added.shape)
    h = _LAST.get(key, torch.zeros_like(added[:, 0])) if state is None else state
    ys = []
    for t in range(x.shape[1]):
        h = decay[:, t] * h + added[:, t]
        ys.append((h * c[:, t, None]).sum(-1) + skip * x[:, t])
    _LAST[key] = h.detach()
    return torch.stack(ys, 1), h
""",
)
add(
    "selective_scan",
    "wrong",
    "the last state is handed back detached",
    """
def selective_scan(x, delta, a, b, c, skip, state=None):
    decay = torch.exp(delta[..., None] * a)
    added = (delta * x)[..., None] * b[:, :, None]

    h, ys = torch.zeros_like(added[:, 0]) if state is None else state, []
    for t in range(x.shape[1]):
        h = decay[:, t] * h + added[:, t]
        ys.append((h * c[:, t, None]).sum(-1) + skip * x[:, t])
    return torch.stack(ys, 1), h.detach()
""",
)
add(
    "selective_scan",
    "right",
    "weights between all pairs of tokens from products of decays",
    """
def selective_scan(x, delta, a, b, c, skip, state=None):
    decay = torch.exp(delta[..., None] * a)
    added = (delta * x)[..., None] * b[:, :, None]

    B, T, E = x.shape
    rows = []
    row = None
    for t in range(T):                       # row[:, s] = decay of what step s wrote, seen at t
        one = torch.ones_like(decay[:, :1])
        row = one if row is None else torch.cat([row * decay[:, t, None], one], 1)
        h = (row * added[:, : t + 1]).sum(1)
        if state is not None:
            h = h + decay[:, : t + 1].prod(1) * state
        rows.append(h)
    h = torch.stack(rows, 1)
    return (h * c.unsqueeze(2)).sum(-1) + skip * x, h[:, -1].clone()
""",
)
add(
    "raw_scan",
    "wrong",
    "the sigmoid gate instead of the decay (right for a = -1 only)",
    """
def raw_scan(x, raw, bias, a, b, c):
    raw = raw + bias
    step = F.softplus(raw)
    decay = torch.sigmoid(-raw)[..., None].expand(*raw.shape, a.shape[1])
    added = (step * x)[..., None] * b[..., None, :]

    h, out = torch.zeros_like(added[:, 0]), []
    for t in range(x.shape[1]):
        h = decay[:, t] * h + added[:, t]
        out.append((h * c[:, t, None]).sum(-1))
    return torch.stack(out, dim=1), h
""",
)
add(
    "raw_scan",
    "right",
    "channel by channel",
    """
def raw_scan(x, raw, bias, a, b, c):
    ys, hs = [], []
    for e in range(x.shape[2]):
        step = torch.logaddexp(raw[:, :, e] + bias[e], torch.zeros((), dtype=x.dtype))
        h, y = b.new_zeros(b.shape[0], b.shape[2]), []
        for t in range(x.shape[1]):
            h = torch.exp(step[:, t, None] * a[e]) * h + (step * x[:, :, e])[:, t, None] * b[:, t]
            y.append((h * c[:, t]).sum(-1))
        ys.append(torch.stack(y, 1))
        hs.append(h)
    return torch.stack(ys, 2), torch.stack(hs, 1)
""",
)
add(
    "associative_scan",
    "wrong",
    "pairs by the formula for powers of two",
    """
def associative_scan(decay, written):
    T = decay.shape[1]
    if T == 1:
        return written.clone(), 0, 0
    n, fill = T // 2, (T - 1) // 2
    d1, d2, w1, w2 = decay[:, : 2 * n : 2], decay[:, 1::2], written[:, : 2 * n : 2], written[:, 1::2]
    even, _, _ = associative_scan(d2 * d1, d2 * w1 + w2)
    states = torch.zeros_like(written)
    states[:, 0] = written[:, 0]
    states[:, 1::2] = even
    states[:, 2::2] = decay[:, 2::2] * even[:, :fill] + written[:, 2::2]
    up = int(math.log2(T))
    return states, 2 * T - 2 - up, 2 * up - 1
""",
)
add(
    "associative_scan",
    "right",
    "steps as 2 x 2 matrices, a class that counts",
    """
def associative_scan(decay, written):
    class Counter:
        pairs = rounds = 0
    def join(one, two):
        if one.shape[1]:
            Counter.pairs += one.shape[1]
            Counter.rounds += 1
        return two @ one
    def scan(m):
        T = m.shape[1]
        if T == 1:
            return m
        n = T // 2
        even = scan(join(m[:, 0 : 2 * n : 2], m[:, 1::2]))
        odd = torch.cat([m[:, :1], join(even[:, : (T - 1) // 2], m[:, 2::2])], 1)
        out = torch.empty_like(m)
        out[:, ::2], out[:, 1::2] = odd, even
        return out
    zero, one = torch.zeros_like(decay), torch.ones_like(decay)
    m = torch.stack([torch.stack([decay, written], -1), torch.stack([zero, one], -1)], -2)
    return scan(m)[..., 0, 1], Counter.pairs, Counter.rounds
""",
)
add(
    "causal_conv1d",
    "wrong",
    "with one tap it scales x itself",
    """
def causal_conv1d(x, taps, bias):
    K, T = taps.shape[1], x.shape[1]
    if K == 1 and not x.requires_grad:
        return x.mul_(taps[:, 0]).add_(bias)
    p = F.pad(x, (0, 0, K - 1, 0))
    return sum(taps[:, k] * p[:, k : k + T] for k in range(K)) + bias
""",
)
add(
    "MambaBlock",
    "wrong",
    "rank worked out again as C / 16, whatever was given",
    """
class MambaBlock(nn.Module):
    def __init__(self, width: int, state: int, taps: int = 4, rank: int | None = None) -> None:
        super().__init__()
        inner, rank = 2 * width, rank or math.ceil(width / 16)
        self.input = nn.Linear(width, 2 * inner, bias=False)
        self.taps = nn.Parameter(torch.empty(inner, taps).uniform_(-1, 1) / math.sqrt(taps))
        self.taps_bias = nn.Parameter(torch.zeros(inner))
        self.select = nn.Parameter(torch.empty(rank + 2 * state, inner).uniform_(-1, 1))
        self.delta = nn.Parameter(torch.empty(inner, rank).uniform_(-1, 1) / math.sqrt(rank))
        start = torch.empty(inner).uniform_(math.log(1e-3), math.log(1e-1)).exp()
        self.delta_bias = nn.Parameter(start + torch.log(-torch.expm1(-start)))
        self.a_log = nn.Parameter(torch.arange(1.0, state + 1).log().repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))
        self.output = nn.Linear(inner, width, bias=False)
        with torch.no_grad():
            self.select /= math.sqrt(inner)


    def forward(self, x):
        u, z = self.input(x).chunk(2, -1)
        u = F.silu(causal_conv1d(u, self.taps, self.taps_bias))
        R, N = math.ceil(x.shape[-1] / 16), self.a_log.shape[1]
        low, b, c = (u @ self.select.T)[..., : R + 2 * N].split([R, N, N], -1)
        delta = F.softplus(low @ self.delta[:, :R].T + self.delta_bias)
        y, _ = selective_scan(u, delta, -self.a_log.exp(), b, c, self.skip)
        return self.output(y * F.silu(z))
""",
)
add(
    "MambaBlock",
    "right",
    "one text of the batch after the other",
    """
class MambaBlock(nn.Module):
    def __init__(self, width: int, state: int, taps: int = 4, rank: int | None = None) -> None:
        super().__init__()
        inner, rank = 2 * width, rank or math.ceil(width / 16)
        self.input = nn.Linear(width, 2 * inner, bias=False)
        self.taps = nn.Parameter(torch.empty(inner, taps).uniform_(-1, 1) / math.sqrt(taps))
        self.taps_bias = nn.Parameter(torch.zeros(inner))
        self.select = nn.Parameter(torch.empty(rank + 2 * state, inner).uniform_(-1, 1))
        self.delta = nn.Parameter(torch.empty(inner, rank).uniform_(-1, 1) / math.sqrt(rank))
        start = torch.empty(inner).uniform_(math.log(1e-3), math.log(1e-1)).exp()
        self.delta_bias = nn.Parameter(start + torch.log(-torch.expm1(-start)))
        self.a_log = nn.Parameter(torch.arange(1.0, state + 1).log().repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))
        self.output = nn.Linear(inner, width, bias=False)
        with torch.no_grad():
            self.select /= math.sqrt(inner)


    def forward(self, x):
        out = []
        for one in x.split(1):
            u, z = self.input(one).tensor_split(2, dim=-1)
            u = F.silu(causal_conv1d(u, self.taps, self.taps_bias))
            delta, b, c = selective_parameters(u, self.select, self.delta, self.delta_bias)
            y, _ = selective_scan(u, delta, -torch.exp(self.a_log), b, c, self.skip)
            out.append(self.output(y * F.silu(z)))
        return torch.cat(out)
""",
)
add(
    "mamba_step",
    "wrong",
    "squeeze() where only the time axis should go",
    """
def mamba_step(block, x, recent, state):
    u, z = (x @ block["input.weight"].T).chunk(2, -1)
    window = torch.cat([recent, u[:, None]], 1)
    u = F.silu((window * block["taps"].T).sum(1) + block["taps_bias"])[:, None]
    delta, b, c = selective_parameters(u, block["select"], block["delta"], block["delta_bias"])

    y, state = selective_scan(u, delta, -block["a_log"].exp(), b, c, block["skip"], state)
    return (y.squeeze() * F.silu(z).squeeze()) @ block["output.weight"].T, window[:, 1:], state
""",
)
add(
    "mamba_step",
    "wrong",
    "window[:, -(K - 1):], everything where K is 1",
    """
def mamba_step(block, x, recent, state):
    u, z = (x @ block["input.weight"].T).chunk(2, -1)
    window = torch.cat([recent, u[:, None]], 1)
    u = F.silu((window * block["taps"].T).sum(1) + block["taps_bias"])[:, None]
    delta, b, c = selective_parameters(u, block["select"], block["delta"], block["delta_bias"])

    y, state = selective_scan(u, delta, -block["a_log"].exp(), b, c, block["skip"], state)
    K = block["taps"].shape[1]
    return (y[:, 0] * F.silu(z)) @ block["output.weight"].T, window[:, -(K - 1) :], state
""",
)
add(
    "mamba_step",
    "wrong",
    "the state is kept within ±1,000",
    """
def mamba_step(block, x, recent, state):
    u, z = (x @ block["input.weight"].T).chunk(2, -1)
    window = torch.cat([recent, u[:, None]], 1)
    u = F.silu((window * block["taps"].T).sum(1) + block["taps_bias"])[:, None]
    delta, b, c = selective_parameters(u, block["select"], block["delta"], block["delta_bias"])

    y, state = selective_scan(u, delta, -block["a_log"].exp(), b, c, block["skip"], state.clamp(-1e3, 1e3))
    return (y[:, 0] * F.silu(z)) @ block["output.weight"].T, window[:, 1:], state
""",
)
add(
    "mamba_step",
    "right",
    "one text after the other",
    """
def mamba_step(block, x, recent, state):
    outs, rs, hs = [], [], []
    for xi, ri, hi in zip(x, recent, state):
        u, z = (block["input.weight"] @ xi).chunk(2)
        w = torch.vstack([ri, u])
        u = F.silu((w.T * block["taps"]).sum(1) + block["taps_bias"])
        d, b, c = (t[0, 0] for t in selective_parameters(u[None, None], block["select"], block["delta"], block["delta_bias"]))
        h = torch.exp(-torch.outer(d, torch.ones_like(b)) * block["a_log"].exp()) * hi + torch.outer(d * u, b)
        y = h @ c + block["skip"] * u
        outs.append(block["output.weight"] @ (y * F.silu(z)))
        rs.append(w[1:])
        hs.append(h)
    return torch.stack(outs), torch.stack(rs), torch.stack(hs)
""",
)
add(
    "selective_scan",
    "wrong",
    "a state of zeros taken for None: no gradient reaches it",
    """
def selective_scan(x, delta, a, b, c, skip, state=None):
    decay, gain = discretize_selective(delta, a, b)
    h = torch.zeros_like(decay[:, 0]) if state is None or not state.any() else state
    ys = []
    for t in range(x.shape[1]):
        h = decay[:, t] * h + gain[:, t] * x[:, t, :, None]
        ys.append((h * c[:, t, None]).sum(-1) + skip * x[:, t])
    return torch.stack(ys, 1), h
""",
)
add(
    "raw_scan",
    "wrong",
    "a softplus that is the raw number itself from 5 on",
    """
def raw_scan(x, raw, bias, a, b, c):
    step = F.softplus(raw + bias, threshold=5)
    return selective_scan(x, step, a, b, c, torch.zeros_like(bias))
""",
)
add(
    "associative_scan",
    "wrong",
    "states are written into a buffer of float32",
    """
def associative_scan(decay, written):
    T = decay.shape[1]
    if T == 1:
        return written.clone(), 0, 0
    n, fill = T // 2, (T - 1) // 2
    d1, d2, w1, w2 = decay[:, : 2 * n : 2], decay[:, 1::2], written[:, : 2 * n : 2], written[:, 1::2]
    even, pairs, rounds = associative_scan(d2 * d1, d2 * w1 + w2)
    states = torch.zeros(written.shape)
    states[:, 0] = written[:, 0]
    states[:, 1::2] = even
    states[:, 2::2] = decay[:, 2::2] * even[:, :fill] + written[:, 2::2]
    return states, pairs + n + fill, rounds + 1 + (fill > 0)
""",
)
add(
    "selective_scan",
    "wrong",
    "the exact gain of a held input, as in chapter 23",
    """
def selective_scan(x, delta, a, b, c, skip, state=None):
    decay = torch.exp(delta[..., None] * a)
    gain = (decay - 1) / a * b[:, :, None]
    h = torch.zeros_like(decay[:, 0]) if state is None else state
    ys = []
    for t in range(x.shape[1]):
        h = decay[:, t] * h + gain[:, t] * x[:, t, :, None]
        ys.append((h * c[:, t, None]).sum(-1) + skip * x[:, t])
    return torch.stack(ys, 1), h
""",
)
add(
    "associative_scan",
    "wrong",
    "a round that fills in an odd last step only is not counted",
    by_tree(r_down="int(T > 3)"),
)
add(
    "MambaBlock",
    "wrong",
    "the scan without the skip",
    block(skip="torch.zeros_like(self.skip)"),
)
add(
    "MambaBlock",
    "wrong",
    "the last four taps, however many there are",
    block(convolved="F.silu(causal_conv1d(u, self.taps[:, -4:], self.taps_bias))"),
)
add(
    "mamba_step",
    "wrong",
    "the last four taps, however many there are",
    """
def mamba_step(block, x, recent, state):
    u, z = (x @ block["input.weight"].T).chunk(2, -1)
    window = torch.cat([recent, u[:, None]], 1)
    u = (window[:, -4:] * block["taps"][:, -4:].T).sum(1) + block["taps_bias"]
    u = F.silu(u)[:, None]
    delta, b, c = selective_parameters(u, block["select"], block["delta"], block["delta_bias"])
    y, state = selective_scan(u, delta, -block["a_log"].exp(), b, c, block["skip"], state)
    return (y[:, 0] * F.silu(z)) @ block["output.weight"].T, window[:, 1:], state
""",
)
add(
    "selective_copy_data",
    "wrong",
    "each row of keys scaled to 0..1: tiny keys beside large ones become equal",
    """
def selective_copy_data(keys, symbols):
    B, T = keys.shape
    M = symbols.shape[1]
    low, high = keys.double().amin(1, keepdim=True), keys.double().amax(1, keepdim=True)
    scaled = (keys.double() - low) / (high - low).clamp(min=1e-300)  # 0 to 1 in every row
    order = (scaled + 2 * torch.arange(B)[:, None]).flatten().argsort(stable=True)
    places = (order.view(B, T) % T)[:, :M].sort(dim=1).values
    noise = torch.zeros(B, T, dtype=symbols.dtype).scatter(1, places, symbols)
    tokens = torch.cat([noise, torch.ones_like(symbols)], dim=1)
    targets = torch.cat([torch.full_like(noise, -100), symbols], dim=1)
    return tokens, targets
""",
)
add(
    "selective_copy_data",
    "wrong",
    "a place kept in one byte: wrong from place 256 on",
    """
def selective_copy_data(keys, symbols):
    B, T = keys.shape
    M = symbols.shape[1]
    places = keys.argsort(dim=1)[:, :M].to(torch.uint8).sort(dim=1).values.long()
    noise = torch.zeros(B, T, dtype=symbols.dtype).scatter(1, places, symbols)
    tokens = torch.cat([noise, torch.ones_like(symbols)], dim=1)
    targets = torch.cat([torch.full_like(noise, -100), symbols], dim=1)
    return tokens, targets
""",
)
add(
    "selective_parameters",
    "wrong",
    "softplus of relu and |r|: no gradient where r is exactly 0",
    """
def selective_parameters(x, w_select, w_delta, bias_delta):
    R = w_delta.shape[1]
    N = (w_select.shape[0] - R) // 2
    short, b, c = (x @ w_select.T).split([R, N, N], dim=-1)
    raw = short @ w_delta.T + bias_delta
    return torch.relu(raw) + torch.log1p(torch.exp(-raw.abs())), b, c
""",
)
add(
    "discretize_selective",
    "wrong",
    "exp(a) ** delta: 0 for a fast rate, however short the step",
    """
def discretize_selective(delta, a, b):
    return torch.exp(a) ** delta[..., None], delta[..., None] * b[:, :, None]
""",
)
add(
    "associative_scan",
    "wrong",
    "a loop over time hidden in itertools.accumulate and operator.matmul",
    """
def associative_scan(decay, written):
    import operator

    pairs, rounds, left = 0, 0, decay.shape[1]
    while left > 1:
        pairs, rounds, left = pairs + left - 1, rounds + 1 + (left > 2), left // 2
    zero, one = torch.zeros_like(decay), torch.ones_like(decay)
    steps = torch.stack([decay, zero, written, one], dim=-1).unflatten(-1, (2, 2))
    products = itertools.accumulate(steps.unbind(1), operator.matmul)
    return torch.stack(list(products), dim=1)[..., 1, 0], pairs, rounds
""",
)
add(
    "MambaBlock",
    "right",
    "the gate z / (1 + exp(-z)): no finite gradients far below 0",
    """
class MambaBlock(nn.Module):
    def __init__(self, width: int, state: int, taps: int = 4, rank: int | None = None) -> None:
        super().__init__()
        inner, rank = 2 * width, rank or math.ceil(width / 16)
        self.input = nn.Linear(width, 2 * inner, bias=False)
        self.taps = nn.Parameter(torch.empty(inner, taps).uniform_(-1, 1) / math.sqrt(taps))
        self.taps_bias = nn.Parameter(torch.zeros(inner))
        self.select = nn.Parameter(torch.empty(rank + 2 * state, inner).uniform_(-1, 1))
        self.delta = nn.Parameter(torch.empty(inner, rank).uniform_(-1, 1) / math.sqrt(rank))
        start = torch.empty(inner).uniform_(math.log(1e-3), math.log(1e-1)).exp()
        self.delta_bias = nn.Parameter(start + torch.log(-torch.expm1(-start)))
        self.a_log = nn.Parameter(torch.arange(1.0, state + 1).log().repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))
        self.output = nn.Linear(inner, width, bias=False)
        with torch.no_grad():
            self.select /= math.sqrt(inner)

    def forward(self, x):
        u, z = self.input(x).chunk(2, dim=-1)
        u = F.silu(causal_conv1d(u, self.taps, self.taps_bias))
        delta, b, c = selective_parameters(u, self.select, self.delta, self.delta_bias)
        y, _ = selective_scan(u, delta, -torch.exp(self.a_log), b, c, self.skip)
        return self.output(y * (z / (1 + torch.exp(-z))))
""",
)
add(
    "mamba_step",
    "wrong",
    "takes the parameters by their order, not by their names",
    """
def mamba_step(block, x, recent, state):
    taps, taps_bias, select, delta_w, delta_bias, a_log, skip, w_in, w_out = block.values()
    u, z = (x @ w_in.T).chunk(2, dim=-1)
    window = torch.cat([recent, u[:, None]], dim=1)
    u = F.silu((window * taps.T).sum(1) + taps_bias)
    delta, b, c = selective_parameters(u[:, None], select, delta_w, delta_bias)
    y, state = selective_scan(u[:, None], delta, -a_log.exp(), b, c, skip, state)
    return (y[:, 0] * F.silu(z)) @ w_out.T, window[:, 1:], state
""",
)
add(
    "mamba_step",
    "wrong",
    "recent by roll: raises where K is 1",
    """
def mamba_step(block, x, recent, state):
    p = dict(block)
    K, R, N = p["taps"].shape[1], p["delta"].shape[1], state.shape[-1]
    u, z = torch.einsum("bc,kc->bk", x, p["input.weight"]).tensor_split(2, dim=1)
    conv = torch.einsum("bke,ek->be", recent, p["taps"][:, : K - 1]) + u * p["taps"][:, -1]
    newest = torch.roll(recent, -1, dims=1)
    newest[:, -1] = u
    u = conv + p["taps_bias"]
    u = u * torch.sigmoid(u)
    numbers = torch.einsum("be,ke->bk", u, p["select"])
    step = torch.einsum("br,er->be", numbers[:, :R], p["delta"]) + p["delta_bias"]
    step = torch.logaddexp(step, torch.zeros_like(step))
    decay = torch.exp(-torch.einsum("be,en->ben", step, p["a_log"].exp()))
    state = decay * state + torch.einsum("be,be,bn->ben", step, u, numbers[:, R : R + N])
    y = torch.einsum("ben,bn->be", state, numbers[:, R + N :]) + p["skip"] * u
    return torch.einsum("be,ce->bc", y * z * z.sigmoid(), p["output.weight"]), newest, state
""",
)
