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
