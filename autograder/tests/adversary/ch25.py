# ruff: noqa: E501  # cases are code in strings, kept on their lines
"""Chapter 25: answers as learners write them, wrong and right (see answers.py)."""

CASES = []
CELL = "import collections\nimport functools\nimport triton\nimport triton.language as tl\nfrom torch.nn import functional\nfrom attend_solutions.mamba import causal_conv1d\n"


def add(name, kind, what, source, *swaps):
    for old, new in swaps:
        assert source.count(old) >= 1, (name, what, old)
        source = source.replace(old, new)
    CASES.append((name, kind, what, CELL + source.strip("\n") + "\n"))


# ---------------------------------------------------------------- segsum
N_ = "segsum"
SEG = """
def segsum(log_decay):
    T = log_decay.shape[-1]
    on = torch.ones(T, T, dtype=torch.bool)
    z = log_decay[..., :, None].expand(*log_decay.shape, T).masked_fill(~on.tril(-1), 0)
    return z.cumsum(-2).masked_fill(~on.tril(), -torch.inf)
"""
add(
    N_,
    "wrong",
    "difference of two running sums",
    """
def segsum(log_decay):
    T = log_decay.shape[-1]
    run = log_decay.cumsum(-1)
    out = run[..., :, None] - run[..., None, :]
    return out.masked_fill(~torch.ones(T, T, dtype=torch.bool).tril(), float("-inf"))
""",
)
add(
    N_,
    "wrong",
    "running sums in float64, −inf by counting: float64 arguments lose digits",
    """
def segsum(log_decay):
    T = log_decay.shape[-1]
    gone = torch.isinf(log_decay)
    run = log_decay.masked_fill(gone, 0).double().cumsum(-1)
    cut = gone.long().cumsum(-1)
    out = run[..., :, None] - run[..., None, :]
    out = out.masked_fill(cut[..., :, None] > cut[..., None, :], float("-inf"))
    return out.masked_fill(~torch.ones(T, T, dtype=torch.bool).tril(), float("-inf")).to(log_decay.dtype)
""",
)
add(
    N_,
    "wrong",
    "the segment starts at s, not s + 1",
    """
def segsum(log_decay):
    T = log_decay.shape[-1]
    on = torch.ones(T, T, dtype=torch.bool).tril()
    z = log_decay[..., :, None].expand(*log_decay.shape, T).masked_fill(~on, 0)
    return z.cumsum(-2).masked_fill(~on, -torch.inf)
""",
)
add(
    N_,
    "wrong",
    "zeros above the diagonal",
    SEG,
    (".cumsum(-2).masked_fill(~on.tril(), -torch.inf)", ".cumsum(-2)"),
)
add(
    N_,
    "wrong",
    "−inf on the diagonal too",
    SEG,
    ("~on.tril(), -torch.inf", "~on.tril(-1), -torch.inf"),
)
add(N_, "wrong", "transposed: rows are s", SEG, ("-torch.inf)", "-torch.inf).mT"))
add(
    N_,
    "wrong",
    "one axis only: len(log_decay)",
    """
def segsum(log_decay):
    T = len(log_decay)
    out = torch.full((T, T), -torch.inf, dtype=log_decay.dtype)
    for t in range(T):
        for s in range(t + 1):
            out[t, s] = log_decay[s + 1 : t + 1].sum()
    return out
""",
)
add(
    N_,
    "wrong",
    "the first term, which no segment has, is set to 0 in the argument",
    SEG,
    ("    T = log", "    log_decay.data[..., 0] = 0\n    T = log"),
)
add(N_, "wrong", "−1e9 for −inf above the diagonal", SEG, ("-torch.inf", "-1e9"))
add(
    N_,
    "wrong",
    "float64 comes back as float32",
    """
def segsum(log_decay):
    T = log_decay.shape[-1]
    out = torch.full((*log_decay.shape, T), -torch.inf)
    for t in range(T):
        for s in range(t + 1):
            out[..., t, s] = log_decay[..., s + 1 : t + 1].sum(-1)
    return out
""",
)
add(
    N_,
    "right",
    "stacked sums of slices",
    """
def segsum(log_decay):
    T = log_decay.shape[-1]
    none = torch.full_like(log_decay[..., 0], -torch.inf)
    rows = [torch.stack([log_decay[..., s + 1 : t + 1].sum(-1) if s <= t else none for s in range(T)], -1) for t in range(T)]
    return torch.stack(rows, -2)
""",
)
add(
    N_,
    "right",
    "each row is the one above plus a_t",
    """
def segsum(log_decay):
    T = log_decay.shape[-1]
    row = torch.full_like(log_decay, -torch.inf)
    rows = []
    for t in range(T):
        row = row + log_decay[..., t : t + 1]
        row = torch.cat([row[..., :t], torch.zeros_like(row[..., :1]), row[..., t + 1 :]], -1)
        rows.append(row)
    return torch.stack(rows, -2)
""",
)
add(
    N_,
    "right",
    "sums from the right, along the row",
    """
def segsum(log_decay):
    T = log_decay.shape[-1]
    on = torch.tril(torch.ones(T, T)) > 0
    z = torch.where(on, log_decay.unsqueeze(-2), torch.zeros((), dtype=log_decay.dtype))
    z = z.flip(-1).cumsum(-1).flip(-1)
    z = torch.cat([z[..., 1:], torch.zeros_like(z[..., :1])], -1)
    return torch.where(on, z, torch.full((), float("-inf"), dtype=log_decay.dtype))
""",
)
add(
    N_,
    "right",
    "in NumPy",
    """
def segsum(log_decay):
    a = log_decay.detach().numpy()
    T = a.shape[-1]
    out = np.full(a.shape + (T,), -np.inf, a.dtype)
    for s in range(T):
        out[..., s, s] = 0
        out[..., s + 1 :, s] = np.cumsum(a[..., s + 1 :], -1)
    return torch.from_numpy(out)
""",
)

# ---------------------------------------------------------------- ssd_quadratic
N_ = "ssd_quadratic"
QUAD = """
def ssd_quadratic(x, log_decay, b, c):
    a = log_decay.transpose(1, 2)
    fade = segsum(a).exp()
    scores = c @ b.transpose(1, 2)
    mixed = fade * scores[:, None]
    return (mixed @ x.transpose(1, 2)).transpose(1, 2)
"""
add(
    N_,
    "wrong",
    "a softmax over the scores and decays",
    QUAD,
    ("fade = segsum(a).exp()", "fade = segsum(a)"),
    ("fade * scores[:, None]", "(fade + scores[:, None]).softmax(-1)"),
)
add(
    N_,
    "wrong",
    "exp before tril: gradients are nan under strong decays",
    QUAD,
    ("segsum(a).exp()", "(a.cumsum(-1)[..., :, None] - a.cumsum(-1)[..., None, :]).exp().tril()"),
)
add(
    N_,
    "wrong",
    "later steps are read too",
    QUAD,
    ("segsum(a).exp()", "(-(a.cumsum(-1)[..., :, None] - a.cumsum(-1)[..., None, :]).abs()).exp()"),
)
add(
    N_,
    "wrong",
    "the writing step's own decay counted",
    QUAD,
    ("segsum(a).exp()", "(segsum(a) + a[..., None, :]).exp()"),
)
add(
    N_,
    "wrong",
    "scores divided by √N",
    QUAD,
    ("c @ b.transpose(1, 2)", "c @ b.transpose(1, 2) / b.shape[-1] ** 0.5"),
)
add(N_, "wrong", "b asks and c answers", QUAD, ("c @ b.transpose(1, 2)", "b @ c.transpose(1, 2)"))
add(
    N_,
    "wrong",
    "all heads fade like the first",
    QUAD,
    ("a = log_decay.transpose(1, 2)", "a = log_decay.transpose(1, 2)[:, :1]"),
)
add(
    N_,
    "wrong",
    "the first decay, which nothing reads, is set to 0 in the argument",
    QUAD,
    ("    a = log", "    log_decay.data[:, 0] = 0\n    a = log"),
)
add(
    N_,
    "wrong",
    "decays as a constant mask, without gradient",
    QUAD,
    ("segsum(a).exp()", "segsum(a.detach()).exp()"),
)
add(
    N_,
    "wrong",
    "squeeze() at the end",
    QUAD,
    ("x.transpose(1, 2)).transpose(1, 2)", "x.transpose(1, 2)).transpose(1, 2).squeeze(1)"),
)
add(
    N_,
    "right",
    "one einsum",
    """
def ssd_quadratic(x, log_decay, b, c):
    return torch.einsum("bhts,btn,bsn,bshd->bthd", torch.exp(segsum(log_decay.movedim(2, 1))), c, b, x)
""",
)
add(
    N_,
    "right",
    "one head at a time",
    """
def ssd_quadratic(x, log_decay, b, c):
    scores = torch.matmul(c, b.mT)
    heads = [(scores * segsum(log_decay[..., h]).exp()) @ x[:, :, h] for h in range(x.shape[2])]
    return torch.stack(heads, dim=2)
""",
)
add(
    N_,
    "right",
    "sums of slices, step by step and pair by pair",
    """
def ssd_quadratic(x, log_decay, b, c):
    rows = []
    for t in range(x.shape[1]):
        y = 0
        for s in range(t + 1):
            score = (c[:, t] * b[:, s]).sum(-1)[:, None]
            fade = torch.exp(log_decay[:, s + 1 : t + 1].sum(1))
            y = y + (score * fade)[..., None] * x[:, s]
        rows.append(y)
    return torch.stack(rows, 1)
""",
)
add(
    N_,
    "right",
    "in float64 and back, with repeated heads",
    """
def ssd_quadratic(x, log_decay, b, c):
    kind = x.dtype
    x, log_decay, b, c = (m.double() for m in (x, log_decay, b, c))
    H = x.size(2)
    bb = b.unsqueeze(2).repeat(1, 1, H, 1).permute(0, 2, 3, 1)
    cc = c.unsqueeze(2).repeat(1, 1, H, 1).permute(0, 2, 1, 3)
    out = torch.mul(torch.matmul(cc, bb), segsum(log_decay.permute(0, 2, 1)).exp()).matmul(x.permute(0, 2, 1, 3))
    return out.permute(0, 2, 1, 3).to(kind)
""",
)

add(
    N_,
    "wrong",
    "no exp, and 0 above the diagonal",
    QUAD,
    ("segsum(a).exp()", "segsum(a).masked_fill(segsum(a).isinf(), 0)"),
)
add(
    N_,
    "wrong",
    "F transposed: reads the future",
    QUAD,
    ("segsum(a).exp()", "segsum(a).exp().mT"),
)
# ---------------------------------------------------------------- ssd_recurrent
N_ = "ssd_recurrent"
REC = """
def ssd_recurrent(x, log_decay, b, c, state=None):
    B, T, H, D = x.shape
    h = x.new_zeros(B, H, D, b.shape[-1]) if state is None else state
    ys = []
    for t in range(T):
        fade = log_decay[:, t].exp()[..., None, None]
        h = fade * h + x[:, t, :, :, None] * b[:, t, None, None, :]
        ys.append((h * c[:, t, None, None, :]).sum(-1))
    return torch.stack(ys, 1), h
"""
add(
    N_,
    "wrong",
    "read before written",
    REC,
    (
        "        h = fade",
        "        ys.append((h * c[:, t, None, None, :]).sum(-1))\n        h = fade",
    ),
    (
        "None, :]\n        ys.append((h * c[:, t, None, None, :]).sum(-1))\n    return",
        "None, :]\n    return",
    ),
)
add(
    N_,
    "wrong",
    "what is just written fades at once",
    REC,
    (
        "fade * h + x[:, t, :, :, None] * b[:, t, None, None, :]",
        "fade * (h + x[:, t, :, :, None] * b[:, t, None, None, :])",
    ),
)
add(
    N_,
    "wrong",
    "b and c exchanged",
    REC,
    ("* b[:, t", "* BB[:, t"),
    ("(h * c[:, t", "(h * b[:, t"),
    ("BB[:, t", "c[:, t"),
)
add(N_, "wrong", "the given state is not used", REC, (" if state is None else state", ""))
add(N_, "wrong", "the state comes back as (N, D)", REC, (", 1), h\n", ", 1), h.mT\n"))
add(
    N_,
    "wrong",
    "all heads fade like the first",
    REC,
    ("log_decay[:, t].exp()", "log_decay[:, t, :1].exp()"),
)
add(
    N_,
    "wrong",
    "nothing fades at the first step, a given state neither",
    REC,
    (
        "fade = log_decay[:, t].exp()[..., None, None]",
        "fade = log_decay[:, t].exp()[..., None, None] if t else 1.0",
    ),
)
add(
    N_,
    "wrong",
    "gradients cut at each step but the first",
    REC,
    ("h = fade * h +", "h = fade * (h.detach() if t else h) +"),
)
add(
    N_,
    "wrong",
    "the given state is updated in place, as a cache",
    REC,
    ("    return", "    if state is not None:\n        state.data.copy_(h)\n    return"),
)
add(N_, "wrong", "the given state without gradient", REC, ("else state\n", "else state.detach()\n"))
add(
    N_,
    "right",
    "einsum, and unbind over time",
    """
def ssd_recurrent(x, log_decay, b, c, state=None):
    if state is None:
        state = torch.zeros(x.shape[0], x.shape[2], x.shape[3], b.shape[2], dtype=x.dtype)
    y = []
    for xt, at, bt, ct in zip(x.unbind(1), log_decay.unbind(1), b.unbind(1), c.unbind(1)):
        state = torch.einsum("bh,bhdn->bhdn", torch.exp(at), state) + torch.einsum("bhd,bn->bhdn", xt, bt)
        y.append(torch.einsum("bhdn,bn->bhd", state, ct))
    return torch.stack(y, dim=1), state
""",
)
add(
    N_,
    "right",
    "recursion: the first T - 1 steps, then the last",
    """
def ssd_recurrent(x, log_decay, b, c, state=None):
    if x.shape[1] > 1:
        early, state = ssd_recurrent(x[:, :-1], log_decay[:, :-1], b[:, :-1], c[:, :-1], state)
    else:
        early = x[:, :0]
    new = x[:, -1, :, :, None] @ b[:, -1, None, None, :]
    if state is not None:
        new = new + log_decay[:, -1].exp().unsqueeze(-1).unsqueeze(-1) * state
    y = (new @ c[:, -1, None, :, None]).squeeze(-1).unsqueeze(1)
    return torch.cat([early, y], 1), new
""",
)
add(
    N_,
    "right",
    "heads one by one, all examples in a list",
    """
def ssd_recurrent(x, log_decay, b, c, state=None):
    B, T, H, D = x.shape
    N = b.shape[-1]
    ys, hs = [], []
    for i in range(B):
        for k in range(H):
            h = torch.zeros(D, N, dtype=x.dtype) if state is None else state[i, k]
            for t in range(T):
                h = math.e ** log_decay[i, t, k] * h + torch.outer(x[i, t, k], b[i, t])
                ys.append(h @ c[i, t])
            hs.append(h)
    return torch.stack(ys).reshape(B, H, T, D).transpose(1, 2), torch.stack(hs).reshape(B, H, D, N)
""",
)
add(
    N_,
    "right",
    "all decays once, a preallocated y",
    """
def ssd_recurrent(x, log_decay, b, c, state=None):
    keep = torch.exp(log_decay).unsqueeze(-1).unsqueeze(-1)
    write = x.unsqueeze(-1) * b[:, :, None, None]
    h = torch.zeros_like(write[:, 0]) if state is None else state.clone()
    y = torch.empty(x.shape, dtype=x.dtype)
    for t in range(x.shape[1]):
        h = torch.addcmul(write[:, t], keep[:, t], h)
        y[:, t] = torch.matmul(h, c[:, t, None, :, None])[..., 0]
    return y, h
""",
)

add(
    N_,
    "wrong",
    "what is new is gated by 1 minus the decay",
    REC,
    ("h = fade * h + x[", "h = fade * h + (1 - fade) * x["),
)
add(
    N_,
    "wrong",
    "a buffer for the state is kept by its shape, where none is given and no gradient is needed",
    REC,
    ("\ndef ssd_rec", "\nKEPT = {}\ndef ssd_rec"),
    (
        "    ys = []",
        "    own = state is None and not any(m.requires_grad for m in (x, log_decay, b, c))\n    if own:\n        h = KEPT.setdefault((B, H, D, b.shape[-1], x.dtype), h).zero_()\n    ys = []",
    ),
    (
        "        h = fade * h + x[:, t, :, :, None] * b[:, t, None, None, :]\n",
        "        new = x[:, t, :, :, None] * b[:, t, None, None, :]\n        h = h.mul_(fade).add_(new) if own else fade * h + new\n",
    ),
)
# ---------------------------------------------------------------- ssd_chunked
N_ = "ssd_chunked"
CHU = """
def ssd_chunked(x, log_decay, b, c, chunk, state=None):
    B, T, H, D = x.shape
    h = x.new_zeros(B, H, D, b.shape[-1]) if state is None else state
    ys = []
    for i in range(0, T, chunk):
        X, A, Bb, C = (m[:, i : i + chunk] for m in (x, log_decay, b, c))
        cum = A.cumsum(1)
        y = ssd_quadratic(X, A, Bb, C)
        y = y + torch.einsum("bqn,bhdn->bqhd", C, h) * cum.exp()[..., None]
        after = segsum(A.transpose(1, 2))[..., -1, :].exp().transpose(1, 2)
        written = torch.einsum("bqhd,bqn->bhdn", X * after[..., None], Bb)
        h = cum[:, -1].exp()[..., None, None] * h + written
        ys.append(y)
    return torch.cat(ys, 1), h
"""
add(
    N_,
    "wrong",
    "what is read from before fades without the step's own decay",
    CHU,
    ("cum.exp()[..., None]\n", "(cum - A).exp()[..., None]\n"),
)
add(
    N_,
    "wrong",
    "what is written fades by its own step too",
    CHU,
    ("[..., -1, :].exp().transpose(1, 2)", "[..., -1, :].exp().transpose(1, 2) * A.exp()"),
)
add(
    N_,
    "wrong",
    "the state does not fade from chunk to chunk",
    CHU,
    ("cum[:, -1].exp()[..., None, None] * h", "h"),
)
add(
    N_,
    "wrong",
    "steps past the last full chunk are dropped",
    CHU,
    ("range(0, T, chunk)", "range(0, T // chunk * chunk, chunk)"),
    ("torch.cat(ys, 1)", "(torch.cat(ys, 1) if ys else x[:, :0])"),
)
add(
    N_,
    "wrong",
    "a loop over the steps of each chunk",
    REC + CHU,  # the learner's own, as in the notebook
    (
        "y = ssd_quadratic(X, A, Bb, C)\n",
        "y, h = ssd_recurrent(X, A, Bb, C, h)\n        ys.append(y)\n        continue\n",
    ),
)
add(
    N_,
    "wrong",
    "decays split into exp(cum) and exp(−cum), which overflows",
    CHU,
    (
        "y = ssd_quadratic(X, A, Bb, C)\n",
        "n = len(cum[0])\n        low = (C @ Bb.mT)[..., None].mul(torch.ones(n, n).tril()[..., None]) * cum.exp()[:, :, None] * (-cum).exp()[:, None]\n        y = torch.einsum('bqsh,bshd->bqhd', low, X)\n",
    ),
)
add(
    N_,
    "wrong",
    "the whole T × T matrix, then cut into chunks",
    CHU,
    ("    ys = []\n", "    ys = []\n    whole = segsum(log_decay.transpose(1, 2)).exp()\n"),
    (
        "y = ssd_quadratic(X, A, Bb, C)\n",
        "y = torch.einsum('bhts,btn,bsn,bshd->bthd', whole[..., i : i + chunk, i : i + chunk], C, Bb, X)\n",
    ),
)
add(
    N_,
    "wrong",
    "gradients cut between chunks",
    CHU,
    (
        "        ys.append(y)\n",
        "        ys.append(y)\n        h = h.detach() if i + chunk < T else h\n",
    ),
)
add(
    N_,
    "wrong",
    "the given state is updated in place, as a cache",
    CHU,
    ("    return", "    if state is not None:\n        state.data.copy_(h)\n    return"),
)
add(
    N_,
    "wrong",
    "the given state is read, but not passed on",
    CHU,
    (
        "h = cum[:, -1].exp()[..., None, None] * h + written",
        "h = cum[:, -1].exp()[..., None, None] * h + written if i else written",
    ),
)
add(
    N_,
    "right",
    "padded to full chunks, all chunks within at once",
    """
def ssd_chunked(x, log_decay, b, c, chunk, state=None):
    B, T, H, D = x.shape
    N = b.shape[-1]
    Q = min(chunk, T)
    K = -(-T // Q)
    pad = K * Q - T
    x = F.pad(x, (0, 0, 0, 0, 0, pad)).reshape(B * K, Q, H, D)
    a = F.pad(log_decay, (0, 0, 0, pad)).reshape(B * K, Q, H)
    b = F.pad(b, (0, 0, 0, pad)).reshape(B * K, Q, N)
    c = F.pad(c, (0, 0, 0, pad)).reshape(B * K, Q, N)
    within = ssd_quadratic(x, a, b, c)
    sums = a.cumsum(1)
    left = segsum(a.mT)[:, :, -1].exp().mT
    wrote = torch.einsum("kqh,kqhd,kqn->khdn", left, x, b).reshape(B, K, H, D, N)
    keep = sums[:, -1].exp().reshape(B, K, H, 1, 1)
    h = torch.zeros(B, H, D, N, dtype=x.dtype) if state is None else state
    befores = []
    for k in range(K):
        befores.append(h)
        h = keep[:, k] * h + wrote[:, k]
    before = torch.stack(befores, 1).reshape(B * K, H, D, N)
    read = torch.einsum("kqn,khdn,kqh->kqhd", c, before, sums.exp())
    return (within + read).reshape(B, K * Q, H, D)[:, :T], h
""",
)
add(
    N_,
    "right",
    "recursion: one chunk, then the rest",
    """
def ssd_chunked(x, log_decay, b, c, chunk, state=None):
    if state is None:
        state = x.new_zeros(x.shape[0], x.shape[2], x.shape[3], b.shape[2])
    rest = tuple(m[:, chunk:] for m in (x, log_decay, b, c))
    x, a, b, c = (m[:, :chunk] for m in (x, log_decay, b, c))
    faded = torch.exp(a.cumsum(1))
    y = ssd_quadratic(x, a, b, c) + faded.unsqueeze(-1) * (state @ c[:, None].mT).permute(0, 3, 1, 2)
    weights = torch.exp(a.sum(1, keepdim=True) - a.cumsum(1))
    state = faded[:, -1, :, None, None] * state + (weights.unsqueeze(-1) * x).permute(0, 2, 3, 1) @ b[:, None]
    if rest[0].shape[1] == 0:
        return y, state
    later, state = ssd_chunked(*rest, chunk, state)
    return torch.cat((y, later), dim=1), state
""",
)
add(
    N_,
    "right",
    "head by head, split and zip",
    """
def ssd_chunked(x, log_decay, b, c, chunk, state=None):
    outs, lasts = [], []
    for k in range(x.shape[2]):
        h = 0 * (x[:, 0, k, :, None] * b[:, 0, None, :]) if state is None else state[:, k]
        parts = []
        for xs, as_, bs, cs in zip(x[:, :, k].split(chunk, 1), log_decay[..., k].split(chunk, 1), b.split(chunk, 1), c.split(chunk, 1)):
            seg = segsum(as_)
            own = (seg.exp() * (cs @ bs.mT)) @ xs
            gone = torch.exp(as_.cumsum(-1))
            parts.append(own + gone[..., None] * (cs @ h.mT))
            h = gone[:, -1:, None] * h + (xs * seg[:, -1].exp()[..., None]).mT @ bs
        outs.append(torch.cat(parts, 1))
        lasts.append(h)
    return torch.stack(outs, 2), torch.stack(lasts, 1)
""",
)
add(
    N_,
    "right",
    "the state as one more step before the chunk",
    """
def ssd_chunked(x, log_decay, b, c, chunk, state=None):
    B, T, H, D = x.shape
    N = b.shape[-1]
    h = x.new_zeros(B, H, D, N) if state is None else state
    y = torch.empty_like(x)
    start = 0
    while start < T:
        stop = min(T, start + chunk)
        xs, a, bs, cs = x[:, start:stop], log_decay[:, start:stop], b[:, start:stop], c[:, start:stop]
        seg = segsum(torch.cat([torch.zeros_like(a[:, :1]), a], 1).transpose(1, 2)).exp()
        y[:, start:stop] = torch.einsum("bhqs,bqs,bshd->bqhd", seg[:, :, 1:, 1:], cs @ bs.mT, xs) + torch.einsum("bhq,bqn,bhdn->bqhd", seg[:, :, 1:, 0], cs, h)
        h = seg[:, :, -1, :1, None] * h + torch.einsum("bhs,bshd,bsn->bhdn", seg[:, :, -1, 1:], xs, bs)
        start = stop
    return y, h
""",
)

add(
    N_,
    "wrong",
    "the gradient of the state is lost where one chunk is enough",
    CHU,
    ("    ys = []", "    h = h.detach() if chunk >= T else h\n    ys = []"),
)
add(
    N_,
    "wrong",
    "the given state is changed in chunks of 1, where it needs no gradient",
    CHU,
    ("    ys = []", "    given = h\n    ys = []"),
    (
        "torch.cat(ys, 1), h",
        "torch.cat(ys, 1), (given.copy_(h) if state is not None and chunk == 1 and not h.requires_grad else h)",
    ),
)
STEPS = "torch.stack([torch.einsum('bsh,bs,bshd->bhd', segsum(A.transpose(1, 2))[:, :, t].transpose(1, 2).exp(), (Bb * C[:, t : t + 1]).sum(-1), X) for t in range(X.shape[1])], 1)"
add(
    N_,
    "wrong",
    "odd chunks are done step by step",
    CHU,
    (
        "y = ssd_quadratic(X, A, Bb, C)\n",
        f"y = ssd_quadratic(X, A, Bb, C) if chunk % 2 == 0 else {STEPS}\n",
    ),
)
add(
    N_,
    "wrong",
    "a chunk is done step by step where a state is given",
    CHU,
    (
        "y = ssd_quadratic(X, A, Bb, C)\n",
        f"y = ssd_quadratic(X, A, Bb, C) if state is None else {STEPS}\n",
    ),
)
add(
    N_,
    "wrong",
    "the state fades by the last decay only",
    CHU,
    ("cum[:, -1].exp()[..., None, None] * h", "A[:, -1].exp()[..., None, None] * h"),
)
add(
    N_,
    "wrong",
    "the state is read with b",
    CHU,
    ('bhdn->bqhd", C, h)', 'bhdn->bqhd", Bb, h)'),
)
# ---------------------------------------------------------------- best_chunk
N_ = "best_chunk"
BEST = """
def best_chunk(tokens, heads, width, state, room):
    def cost(q):
        return q * q * state + heads * (q * q + q * q * width + 2 * q * width * state + 2 * q * width + width * state)

    best = None
    for q in range(1, tokens + 1):
        if q * q + q * width + 2 * q * state + width * state > room:
            break
        full, rest = divmod(tokens, q)
        count = full * cost(q) + (cost(rest) if rest else 0)
        if best is None or count < best[1]:
            best = (q, count)
    return best
"""
add(
    N_,
    "wrong",
    "the last chunk counts as a full one",
    BEST,
    ("full * cost(q) + (cost(rest) if rest else 0)", "-(-tokens // q) * cost(q)"),
)
add(
    N_,
    "wrong",
    "scores for each head",
    BEST,
    ("q * q * state + heads * (q * q +", "heads * (q * q * state + q * q +"),
)
add(
    N_,
    "wrong",
    "all heads must fit on the chip",
    BEST,
    (
        "if q * q + q * width + 2 * q * state + width * state > room",
        "if heads * (q * q + q * width + 2 * q * state + width * state) > room and q > 1",
    ),
)
add(
    N_,
    "wrong",
    "fading the scores is not counted",
    BEST,
    ("heads * (q * q + q * q * width", "heads * (q * q * width"),
)
add(N_, "wrong", "the state takes no room", BEST, (" + width * state > room", " > room"))
add(
    N_,
    "wrong",
    "powers of two only",
    BEST,
    ("for q in range(1, tokens + 1):", "for q in [2**k for k in range(20) if 2**k <= tokens]:"),
)
add(N_, "wrong", "of several equal ones the largest", BEST, ("count < best[1]", "count <= best[1]"))
add(N_, "wrong", "what just fits does not", BEST, ("> room", ">= room and q > 1"))
add(N_, "wrong", "chunks to T - 1", BEST, ("range(1, tokens + 1)", "range(1, max(2, tokens))"))
add(
    N_,
    "wrong",
    "stops at the first rise",
    BEST,
    (
        "            best = (q, count)\n",
        "            best = (q, count)\n        else:\n            break\n",
    ),
)
add(
    N_,
    "right",
    "min over pairs",
    """
def best_chunk(tokens, heads, width, state, room):
    def count(q):
        pieces = [q] * (tokens // q) + [tokens % q] * (tokens % q > 0)
        once = {p: p**2 * state + heads * (p**2 * (1 + width) + 2 * p * width * (state + 1) + width * state) for p in set(pieces)}
        return sum(map(once.get, pieces))
    n, q = min((count(q), q) for q in range(1, tokens + 1) if q * (q + width + 2 * state) + width * state <= room)
    return q, n
""",
)
add(
    N_,
    "right",
    "NumPy, all chunks at once",
    """
def best_chunk(tokens, heads, width, state, room):
    q = np.arange(1, tokens + 1, dtype=np.int64)
    def cost(q):
        return q * q * state + heads * (q * q + q * q * width + 2 * q * width * state + 2 * q * width + width * state) * (q > 0)
    all_ = tokens // q * cost(q) + cost(tokens % q)
    all_[q * q + q * width + 2 * q * state + width * state > room] = np.iinfo(np.int64).max
    k = int(all_.argmin())
    return k + 1, int(all_[k])
""",
)
add(
    N_,
    "right",
    "downwards, with ≤",
    """
def best_chunk(tokens, heads, width, state, room):
    best, least = 0, float("inf")
    q = tokens
    while q >= 1:
        if q**2 + q * width + 2 * q * state + width * state <= room:
            total = 0
            for start in range(0, tokens, q):
                p = min(q, tokens - start)
                total += p * p * (state + heads * (1 + width)) + heads * (2 * p * width * (state + 1) + width * state)
            if total <= least:
                best, least = q, total
        q -= 1
    return best, least
""",
)
add(
    N_,
    "right",
    "torch integers, sorted",
    """
def best_chunk(tokens, heads, width, state, room):
    fits = [q for q in range(1, tokens + 1) if q * q + (width + 2 * state) * q <= room - width * state]
    def cost(p):
        return 0 if p == 0 else p * p * state + heads * (p * p * (width + 1) + 2 * p * width * state + 2 * p * width + width * state)
    counts = torch.tensor([(tokens // q) * cost(q) + cost(tokens % q) for q in fits])
    order = torch.sort(counts, stable=True).indices[0]
    return fits[order], counts[order].item()
""",
)

for _what, _old, _new in (
    ("the chip holds the scores of all heads", "if q * q", "if heads * q * q"),
    ("the state needs no room", " + width * state > room", " > room"),
    (
        "b alone needs room",
        "2 * q * state + width * state > room",
        "q * state + width * state > room",
    ),
):
    add(N_, "wrong", _what, BEST, (_old, _new))
# ---------------------------------------------------------------- Mamba2Block
N_ = "Mamba2Block"
INIT = """
class Mamba2Block(nn.Module):
    def __init__(self, width: int, state: int, heads: int, taps: int = 4, chunk: int = 32) -> None:
        super().__init__()
        inner = 2 * width
        mixed = inner + 2 * state
        self.chunk = chunk
        self.input = nn.Linear(width, inner + mixed + heads, bias=False)
        self.taps = nn.Parameter(torch.empty(mixed, taps).uniform_(-1, 1) / taps**0.5)
        self.taps_bias = nn.Parameter(torch.zeros(mixed))
        start = torch.logspace(-3, -1, heads)  # step sizes at first
        self.delta_bias = nn.Parameter(start + torch.log(-torch.expm1(-start)))
        self.a_log = nn.Parameter(torch.linspace(1, 16, heads).log())
        self.skip = nn.Parameter(torch.ones(heads))
        self.norm = nn.RMSNorm(inner, eps=1e-5)
        self.output = nn.Linear(inner, width, bias=False)
"""
BLO = (
    INIT
    + """
    def forward(self, x):
        E, M, H = self.output.in_features, len(self.taps), len(self.skip)
        N = (M - E) // 2
        z, mixed, raw = self.input(x).split([E, M, H], -1)
        mixed = functional.silu(causal_conv1d(mixed, self.taps, self.taps_bias))
        u, b, c = mixed.split([E, N, N], -1)
        delta = functional.softplus(raw + self.delta_bias)
        u = u.unflatten(-1, (H, E // H))
        y, _ = ssd_chunked(delta[..., None] * u, -self.a_log.exp() * delta, b, c, self.chunk)
        y = (y + self.skip[:, None] * u).flatten(-2)
        return self.output(self.norm(y * functional.silu(z)))
"""
)
add(
    N_,
    "wrong",
    "the norm before the gate",
    BLO,
    ("self.norm(y * functional.silu(z))", "self.norm(y) * functional.silu(z)"),
)
add(
    N_,
    "wrong",
    "the projection cut as mixed, z, raw",
    BLO,
    (
        "z, mixed, raw = self.input(x).split([E, M, H], -1)",
        "mixed, z, raw = self.input(x).split([M, E, H], -1)",
    ),
)
add(
    N_,
    "wrong",
    "no SiLU after the convolution",
    BLO,
    (
        "functional.silu(causal_conv1d(mixed, self.taps, self.taps_bias))",
        "causal_conv1d(mixed, self.taps, self.taps_bias)",
    ),
)
add(
    N_,
    "wrong",
    "the bias after softplus",
    BLO,
    ("functional.softplus(raw + self.delta_bias)", "functional.softplus(raw) + self.delta_bias"),
)
add(
    N_,
    "wrong",
    "what is written is u without Δ",
    BLO,
    ("ssd_chunked(delta[..., None] * u,", "ssd_chunked(u,"),
)
add(
    N_,
    "wrong",
    "skip times Δ u",
    BLO,
    ("self.skip[:, None] * u)", "self.skip[:, None] * delta[..., None] * u)"),
)
add(
    N_,
    "wrong",
    "heads interleaved over the channels",
    BLO,
    ("u = u.unflatten(-1, (H, E // H))", "u = u.unflatten(-1, (E // H, H)).transpose(-1, -2)"),
    ("* u).flatten(-2)", "* u).transpose(-1, -2).flatten(-2)"),
)
add(
    N_,
    "wrong",
    "a norm by hand without the weight",
    BLO,
    (
        "self.norm(y * functional.silu(z))",
        "functional.rms_norm(y * functional.silu(z), (E,), eps=1e-5)",
    ),
)
add(
    N_,
    "wrong",
    "a_log by .data, so that it does not learn",
    BLO,
    ("-self.a_log.exp()", "-self.a_log.data.exp()"),
)
add(
    N_,
    "wrong",
    "each head normed by itself",
    BLO,
    (
        "self.norm(y * functional.silu(z))",
        "functional.rms_norm((y * functional.silu(z)).unflatten(-1, (H, -1)), (E // H,), eps=1e-5).flatten(-2) * self.norm.weight",
    ),
)
add(
    N_,
    "right",
    "slices, an own convolution and norm",
    INIT
    + """
    def forward(self, x):
        B, T, C = x.shape
        E = 2 * C
        H = self.a_log.numel()
        N = (self.taps.shape[0] - E) // 2
        all_ = x @ self.input.weight.T
        z, mixed, raw = all_[..., :E], all_[..., E : 2 * E + 2 * N], all_[..., 2 * E + 2 * N :]
        K = self.taps.shape[1]
        mixed = F.conv1d(F.pad(mixed.transpose(1, 2), (K - 1, 0)), self.taps[:, None], self.taps_bias, groups=E + 2 * N).transpose(1, 2)
        mixed = mixed * torch.sigmoid(mixed)
        delta = torch.logaddexp(raw + self.delta_bias, torch.zeros(()))
        u = mixed[..., :E].reshape(B, T, H, E // H)
        y = ssd_chunked(delta.unsqueeze(-1) * u, -torch.exp(self.a_log) * delta, mixed[..., E : E + N], mixed[..., E + N :], self.chunk)[0]
        y = (y + self.skip.reshape(1, 1, H, 1) * u).reshape(B, T, E) * z * torch.sigmoid(z)
        y = y / torch.sqrt((y**2).mean(-1, keepdim=True) + 1e-5) * self.norm.weight
        return y @ self.output.weight.T
""",
)
add(
    N_,
    "right",
    "three projections from slices of the weight, einsum for the conv",
    INIT
    + """
    def forward(self, x):
        E = self.norm.normalized_shape[0]
        H = self.skip.shape[0]
        W = self.input.weight
        z, raw = F.linear(x, W[:E]), F.linear(x, W[-H:])
        m = F.linear(x, W[E:-H])
        K = self.taps.shape[1]
        m = torch.einsum("btek,ek->bte", F.pad(m, (0, 0, K - 1, 0)).unfold(1, K, 1), self.taps) + self.taps_bias
        u, bc = nn.SiLU()(m).tensor_split([E], dim=-1)
        b, c = bc.chunk(2, dim=-1)
        delta = nn.Softplus()(raw + self.delta_bias)
        heads = u.view(*u.shape[:2], H, -1) if u.is_contiguous() else u.reshape(*u.shape[:2], H, -1)
        y, _ = ssd_chunked(heads * delta.unsqueeze(3), delta * self.a_log.exp().neg(), b, c, chunk=self.chunk)
        y = y + torch.einsum("h,bthd->bthd", self.skip, heads)
        return self.output(self.norm(y.flatten(2) * F.silu(z)))
""",
)
add(
    N_,
    "right",
    "the recurrence instead of chunks",
    BLO,
    (", b, c, self.chunk)", ", b, c)"),
    ("ssd_chunked(", "ssd_recurrent("),
)
add(
    N_,
    "right",
    "skip and log decay repeated for each channel, head by head",
    INIT
    + """
    def forward(self, x):
        H = self.skip.numel()
        E = self.output.weight.shape[1]
        D = E // H
        M = self.taps.shape[0]
        z, mixed, raw = torch.split(self.input(x), (E, M, H), dim=2)
        mixed = F.silu(causal_conv1d(mixed, self.taps, self.taps_bias))
        u, b, c = torch.split(mixed, (E, (M - E) // 2, (M - E) // 2), dim=2)
        delta = F.softplus(raw + self.delta_bias)
        outs = []
        for i in range(H):
            ui = u[..., i * D : (i + 1) * D]
            di = delta[..., i : i + 1]
            yi, _ = ssd_chunked((di * ui).unsqueeze(2), -self.a_log[i].exp() * di, b, c, self.chunk)
            outs.append(yi[:, :, 0] + self.skip[i] * ui)
        return self.output(self.norm(torch.cat(outs, 2) * F.silu(z)))
""",
)

for _what, _old, _new in (
    (
        "the raw Δ cut first",
        "z, mixed, raw = self.input(x).split([E, M, H], -1)",
        "raw, z, mixed = self.input(x).split([H, E, M], -1)",
    ),
    ("the decay without Δ", "-self.a_log.exp() * delta", "-self.a_log.exp().expand_as(delta)"),
    ("exp for softplus", "functional.softplus(raw", "torch.exp(raw"),
    (
        "channels dealt to heads, and not back",
        "u.unflatten(-1, (H, E // H))",
        "u.unflatten(-1, (E // H, H)).mT",
    ),
):
    add(N_, "wrong", _what, BLO, (_old, _new))
# ---------------------------------------------------------------- triton_selective_scan
N_ = "triton_selective_scan"
SCAN_LAUNCH = """

def triton_selective_scan(x, delta, a, b, c, state):
    y, last = torch.empty(x.shape), torch.empty(state.shape)
    given = [m.contiguous() for m in (x, delta, a, b, c, state)]
    batch, tokens, channels = x.shape
    grid = (batch, triton.cdiv(channels, 8))
    scan_kernel[grid](*given, y, last, tokens, channels, N=a.shape[1], BLOCK=8)
    return y, last
"""
SCAN_HEAD = """
@triton.jit
def scan_kernel(x_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, state_ptr, y_ptr, last_ptr, n_tokens, n_channels, N: tl.constexpr, BLOCK: tl.constexpr):
"""
SCAN = (
    SCAN_HEAD
    + """    i = tl.program_id(0)
    e = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    n = tl.arange(0, N)
    ok = e < n_channels
    both = ok[:, None]
    a = tl.load(a_ptr + e[:, None] * N + n[None, :], mask=both, other=0.0)
    place = (i * n_channels + e[:, None]) * N + n[None, :]
    h = tl.load(state_ptr + place, mask=both, other=0.0)
    for t in range(n_tokens):
        at = (i * n_tokens + t) * n_channels + e
        x = tl.load(x_ptr + at, mask=ok, other=0.0)
        d = tl.load(delta_ptr + at, mask=ok, other=0.0)
        b = tl.load(b_ptr + (i * n_tokens + t) * N + n)
        c = tl.load(c_ptr + (i * n_tokens + t) * N + n)
        h = tl.exp(d[:, None] * a) * h + (d * x)[:, None] * b[None, :]
        tl.store(y_ptr + at, tl.sum(h * c[None, :], axis=1), mask=ok)
    tl.store(last_ptr + place, h, mask=both)
"""
    + SCAN_LAUNCH
)
add(N_, "wrong", "the decay without Δ", SCAN, ("tl.exp(d[:, None] * a)", "tl.exp(a)"))
add(
    N_,
    "wrong",
    "read before written",
    SCAN,
    (
        "        h = tl.exp",
        "        tl.store(y_ptr + at, tl.sum(h * c[None, :], axis=1), mask=ok)\n        h = tl.exp",
    ),
    (
        "b[None, :]\n        tl.store(y_ptr + at, tl.sum(h * c[None, :], axis=1), mask=ok)\n",
        "b[None, :]\n",
    ),
)
add(N_, "wrong", "x is written without Δ", SCAN, ("(d * x)[:, None]", "x[:, None]"))
add(
    N_,
    "wrong",
    "no mask at all",
    SCAN,
    (", mask=both, other=0.0", ""),
    (", mask=ok, other=0.0", ""),
    (", mask=ok)", ")"),
    (", mask=both)", ")"),
)
add(
    N_,
    "wrong",
    "starts from zeros, not from the given state",
    SCAN,
    (
        "h = tl.load(state_ptr + place, mask=both, other=0.0)",
        "h = tl.zeros((BLOCK, N), dtype=tl.float32)",
    ),
)
add(
    N_,
    "wrong",
    "b and c of the first example for all",
    SCAN,
    ("b_ptr + (i * n_tokens + t) * N", "b_ptr + t * N"),
    ("c_ptr + (i * n_tokens + t) * N", "c_ptr + t * N"),
)
add(
    N_,
    "wrong",
    "the last state is stored without a mask",
    SCAN,
    ("tl.store(last_ptr + place, h, mask=both)", "tl.store(last_ptr + place, h)"),
)
add(
    N_,
    "wrong",
    "the given state is overwritten with the last, as a cache",
    SCAN,
    (
        "    tl.store(last_ptr + place, h, mask=both)",
        "    tl.store(last_ptr + place, h, mask=both)\n    tl.store(state_ptr + place, h, mask=both)",
    ),
)
add(
    N_,
    "wrong",
    "x is loaded twice a step",
    SCAN,
    (
        "(d * x)[:, None]",
        "(d * (0.5 * x + 0.5 * tl.load(x_ptr + at, mask=ok, other=0.0)))[:, None]",
    ),
)
add(
    N_,
    "wrong",
    "a is loaded at each step",
    SCAN,
    (
        "        h = tl.exp",
        "        a = tl.load(a_ptr + e[:, None] * N + n[None, :], mask=both, other=0.0)\n        h = tl.exp",
    ),
)
add(
    N_,
    "right",
    "the state as (N, channels)",
    SCAN_HEAD
    + """    example, block = tl.program_id(0), tl.program_id(1)
    channel = block * BLOCK + tl.arange(0, BLOCK)
    number = tl.arange(0, N)
    there = channel < n_channels
    at_a = channel[None, :] * N + number[:, None]
    at_h = example * n_channels * N + at_a
    a = tl.load(a_ptr + at_a, mask=there[None, :], other=0.0)
    h = tl.load(state_ptr + at_h, mask=there[None, :], other=0.0)
    for t in range(0, n_tokens):
        step = example * n_tokens + t
        x = tl.load(x_ptr + step * n_channels + channel, mask=there, other=0.0)
        delta = tl.load(delta_ptr + step * n_channels + channel, mask=there, other=0.0)
        b = tl.load(b_ptr + step * N + number)
        c = tl.load(c_ptr + step * N + number)
        h = h * tl.exp(a * delta[None, :]) + b[:, None] * (x * delta)[None, :]
        tl.store(y_ptr + step * n_channels + channel, tl.sum(c[:, None] * h, axis=0), mask=there)
    tl.store(last_ptr + at_h, h, mask=there[None, :])
"""
    + SCAN_LAUNCH,
)
add(
    N_,
    "right",
    "pointers that move on",
    SCAN_HEAD
    + """    pid_b = tl.program_id(axis=0)
    pid_e = tl.program_id(axis=1)
    offs_e = pid_e * BLOCK + tl.arange(0, BLOCK)
    offs_n = tl.arange(0, N)
    mask = offs_e < n_channels
    mask2 = mask[:, None] & (offs_n[None, :] < N)
    x_ptr += pid_b * n_tokens * n_channels
    delta_ptr += pid_b * n_tokens * n_channels
    y_ptr += pid_b * n_tokens * n_channels
    b_ptr += pid_b * n_tokens * N
    c_ptr += pid_b * n_tokens * N
    state_ptr += pid_b * n_channels * N
    last_ptr += pid_b * n_channels * N
    a = tl.load(a_ptr + offs_e[:, None] * N + offs_n[None, :], mask=mask2, other=0.0)
    h = tl.load(state_ptr + offs_e[:, None] * N + offs_n[None, :], mask=mask2, other=0.0)
    for _ in range(n_tokens):
        dt = tl.load(delta_ptr + offs_e, mask=mask, other=0.0)
        xt = tl.load(x_ptr + offs_e, mask=mask, other=0.0)
        bt = tl.load(b_ptr + offs_n)
        ct = tl.load(c_ptr + offs_n)
        h = tl.exp(dt[:, None] * a) * h + dt[:, None] * xt[:, None] * bt[None, :]
        tl.store(y_ptr + offs_e, tl.sum(h * ct[None, :], 1), mask=mask)
        x_ptr += n_channels
        delta_ptr += n_channels
        y_ptr += n_channels
        b_ptr += N
        c_ptr += N
    tl.store(last_ptr + offs_e[:, None] * N + offs_n[None, :], h, mask=mask2)
"""
    + SCAN_LAUNCH,
)
add(
    N_,
    "right",
    "powers of two, a scaled once",
    SCAN,
    ("    place =", "    a = a * 1.4426950408889634\n    place ="),
    ("tl.exp(d[:, None] * a)", "tl.exp2(d[:, None] * a)"),
)
add(
    N_,
    "right",
    "a while loop, tl.where for channels that are not there",
    SCAN_HEAD
    + """    i = tl.program_id(0)
    e = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    n = tl.arange(0, N)
    ok = e < n_channels
    safe = tl.where(ok, e, 0)
    cells = tl.expand_dims(safe, 1) * N + tl.expand_dims(n, 0)
    okk = tl.broadcast_to(tl.expand_dims(ok, 1), (BLOCK, N))
    a = tl.load(a_ptr + cells, mask=okk, other=0.0)
    h = tl.load(state_ptr + i * n_channels * N + cells, mask=okk, other=0.0)
    t = 0
    while t < n_tokens:
        row = i * n_tokens + t
        x = tl.load(x_ptr + row * n_channels + safe, mask=ok, other=0.0)
        d = tl.load(delta_ptr + row * n_channels + safe, mask=ok, other=0.0)
        b = tl.load(b_ptr + row * N + n)
        c = tl.load(c_ptr + row * N + n)
        h *= tl.exp(tl.expand_dims(d, 1) * a)
        h += tl.expand_dims(d * x, 1) * tl.expand_dims(b, 0)
        tl.store(y_ptr + row * n_channels + safe, tl.sum(h * tl.expand_dims(c, 0), axis=1), mask=ok)
        t += 1
    tl.store(last_ptr + i * n_channels * N + cells, h, mask=okk)
"""
    + SCAN_LAUNCH,
)

add(
    N_,
    "wrong",
    "64 steps at most",
    SCAN,
    ("range(n_tokens)", "range(tl.minimum(n_tokens, 64))"),
)
add(N_, "wrong", "the decay's logarithm", SCAN, ("tl.exp(d[:, None] * a)", "(d[:, None] * a)"))
# ---------------------------------------------------------------- triton_chunk_state
N_ = "triton_chunk_state"
STATE_LAUNCH = """

def triton_chunk_state(x, log_decay, b, chunk):
    batch, tokens, heads, width = x.shape
    chunks, state = triton.cdiv(tokens, chunk), b.shape[-1]
    written = torch.empty(batch, chunks, heads, width, state)
    given = [m.contiguous() for m in (x, log_decay, b)]
    grid = (batch, heads, chunks)
    chunk_state_kernel[grid](*given, written, tokens, heads, D=width, N=state, CHUNK=chunk)
    return written
"""
STATE_HEAD = """
@triton.jit
def chunk_state_kernel(x_ptr, log_decay_ptr, b_ptr, written_ptr, n_tokens, n_heads, D: tl.constexpr, N: tl.constexpr, CHUNK: tl.constexpr):
"""
STA = (
    STATE_HEAD
    + """    i = tl.program_id(0)
    j = tl.program_id(1)
    k = tl.program_id(2)
    chunks = tl.num_programs(2)
    t = k * CHUNK + tl.arange(0, CHUNK)
    d = tl.arange(0, D)
    n = tl.arange(0, N)
    ok = t < n_tokens
    row = i * n_tokens + t
    a = tl.load(log_decay_ptr + row * n_heads + j, mask=ok, other=0.0)
    x = tl.load(x_ptr + (row * n_heads + j)[:, None] * D + d[None, :], mask=ok[:, None], other=0.0)
    b = tl.load(b_ptr + row[:, None] * N + n[None, :], mask=ok[:, None], other=0.0)
    after = tl.exp(tl.sum(a, axis=0) - tl.cumsum(a, axis=0))
    written = tl.dot(tl.trans(x * after[:, None]), b)
    place = ((i * chunks + k) * n_heads + j) * D + d
    tl.store(written_ptr + place[:, None] * N + n[None, :], written)
"""
    + STATE_LAUNCH
)
add(
    N_,
    "wrong",
    "each step fades by its own decay too",
    STA,
    ("tl.sum(a, axis=0) - tl.cumsum(a, axis=0)", "tl.sum(a, axis=0) - tl.cumsum(a, axis=0) + a"),
)
add(
    N_,
    "wrong",
    "faded from the chunk's start, not to its end",
    STA,
    ("tl.sum(a, axis=0) - tl.cumsum(a, axis=0)", "tl.cumsum(a, axis=0)"),
)
add(
    N_,
    "wrong",
    "no mask: reads past the end of the text",
    STA,
    (", mask=ok[:, None], other=0.0", ""),
    (", mask=ok, other=0.0", ""),
)
add(
    N_,
    "wrong",
    "written as (B, H, chunks, D, N)",
    STA,
    ("((i * chunks + k) * n_heads + j) * D", "((i * n_heads + j) * chunks + k) * D"),
)
add(
    N_,
    "wrong",
    "log decays read as (B, H, T)",
    STA,
    ("log_decay_ptr + row * n_heads + j", "log_decay_ptr + (i * n_heads + j) * n_tokens + t"),
)
add(
    N_,
    "wrong",
    "stored transposed, as (N, D)",
    STA,
    ("tl.dot(tl.trans(x * after[:, None]), b)", "tl.dot(tl.trans(b), x * after[:, None])"),
    (
        "place = ((i * chunks + k) * n_heads + j) * D + d\n",
        "place = ((i * chunks + k) * n_heads + j) * N + n\n",
    ),
    ("place[:, None] * N + n[None, :]", "place[:, None] * D + d[None, :]"),
)
add(
    N_,
    "wrong",
    "x is loaded without a mask, its weights made zero",
    STA,
    ("* D + d[None, :], mask=ok[:, None], other=0.0", "* D + d[None, :]"),
    ("x * after[:, None]", "tl.where(ok[:, None], x * after[:, None], 0.0)"),
)
add(
    N_,
    "wrong",
    "b is loaded twice",
    STA,
    (
        "    after =",
        "    again = tl.load(b_ptr + row[:, None] * N + n[None, :], mask=ok[:, None], other=0.0)\n    after =",
    ),
    ("after[:, None]), b)", "after[:, None]), 0.5 * b + 0.5 * again)"),
)
add(
    N_,
    "wrong",
    "the product in float16",
    STA,
    (
        "tl.dot(tl.trans(x * after[:, None]), b)",
        "tl.dot(tl.trans((x * after[:, None]).to(tl.float16)), b.to(tl.float16))",
    ),
)
add(
    N_,
    "wrong",
    "the weights are left in the argument log_decay",
    STA,
    ("    place =", "    tl.store(log_decay_ptr + row * n_heads + j, after, mask=ok)\n    place ="),
)
add(
    N_,
    "right",
    "sums of later terms by a mask",
    STA,
    (
        "tl.sum(a, axis=0) - tl.cumsum(a, axis=0)",
        "tl.sum(tl.where(t[None, :] > t[:, None], a[None, :], 0.0), axis=1)",
    ),
)
add(
    N_,
    "right",
    "the recurrence, one step at a time",
    STATE_HEAD
    + """    i = tl.program_id(0)
    j = tl.program_id(1)
    k = tl.program_id(2)
    d = tl.arange(0, D)
    n = tl.arange(0, N)
    h = tl.zeros((D, N), dtype=tl.float32)
    for q in range(CHUNK):
        t = k * CHUNK + q
        there = t < n_tokens
        row = i * n_tokens + t
        a = tl.load(log_decay_ptr + row * n_heads + j, mask=there, other=0.0)
        x = tl.load(x_ptr + (row * n_heads + j) * D + d, mask=there & (d < D), other=0.0)
        b = tl.load(b_ptr + row * N + n, mask=there & (n < N), other=0.0)
        h = tl.exp(a) * h + x[:, None] * b[None, :]
    base = ((i * tl.num_programs(2) + k) * n_heads + j) * D * N
    tl.store(written_ptr + base + d[:, None] * N + n[None, :], h)
"""
    + STATE_LAUNCH,
)
add(
    N_,
    "right",
    "b is faded, x loaded as (D, Q)",
    STATE_HEAD
    + """    pid_b, pid_h, pid_c = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    n_chunks = tl.cdiv(n_tokens, CHUNK)
    q = tl.arange(0, CHUNK)
    left = n_tokens - pid_c * CHUNK
    first = pid_b * n_tokens + pid_c * CHUNK
    a = tl.load(log_decay_ptr + (first + q) * n_heads + pid_h, mask=q < left, other=0.0)
    xt = tl.load(x_ptr + ((first + q[None, :]) * n_heads + pid_h) * D + tl.arange(0, D)[:, None], mask=q[None, :] < left, other=0.0)
    b = tl.load(b_ptr + (first + q[:, None]) * N + tl.arange(0, N)[None, :], mask=q[:, None] < left, other=0.0)
    run = tl.cumsum(a, 0)
    end = tl.sum(tl.where(q == CHUNK - 1, run, 0.0), 0)
    b = b * tl.exp(end - run)[:, None]
    out = written_ptr + ((pid_b * n_chunks + pid_c) * n_heads + pid_h) * D * N
    tl.store(out + tl.arange(0, D)[:, None] * N + tl.arange(0, N)[None, :], tl.dot(xt, b, input_precision="ieee"))
"""
    + STATE_LAUNCH,
)
add(
    N_,
    "right",
    "cumsum from the end, less its own",
    STA,
    ("tl.sum(a, axis=0) - tl.cumsum(a, axis=0)", "tl.cumsum(a, axis=0, reverse=True) - a"),
)

add(
    N_,
    "wrong",
    "the number of chunks is forgotten where states are stored",
    STA,
    ("(i * chunks + k) * n_heads", "(i + k) * n_heads"),
)
# ---------------------------------------------------------------- triton_chunk_scan
N_ = "triton_chunk_scan"
OUT_LAUNCH = """

def triton_chunk_scan(x, log_decay, b, c, state, chunk):
    y = torch.empty(x.shape)
    given = [m.contiguous() for m in (x, log_decay, b, c, state)]
    batch, tokens, heads, width = x.shape
    grid, size = (batch, heads, triton.cdiv(tokens, chunk)), b.shape[-1]
    chunk_scan_kernel[grid](*given, y, tokens, heads, D=width, N=size, CHUNK=chunk)
    return y
"""
OUT_HEAD = """
@triton.jit
def chunk_scan_kernel(x_ptr, log_decay_ptr, b_ptr, c_ptr, state_ptr, y_ptr, n_tokens, n_heads, D: tl.constexpr, N: tl.constexpr, CHUNK: tl.constexpr):
"""
OUT = (
    OUT_HEAD
    + """    i = tl.program_id(0)
    j = tl.program_id(1)
    k = tl.program_id(2)
    chunks = tl.num_programs(2)
    q = tl.arange(0, CHUNK)
    t = k * CHUNK + q
    d = tl.arange(0, D)
    n = tl.arange(0, N)
    ok = t < n_tokens
    row = i * n_tokens + t
    a = tl.load(log_decay_ptr + row * n_heads + j, mask=ok, other=0.0)
    at_x = (row * n_heads + j)[:, None] * D + d[None, :]
    x = tl.load(x_ptr + at_x, mask=ok[:, None], other=0.0)
    at_b = row[:, None] * N + n[None, :]
    b = tl.load(b_ptr + at_b, mask=ok[:, None], other=0.0)
    c = tl.load(c_ptr + at_b, mask=ok[:, None], other=0.0)
    place = ((i * chunks + k) * n_heads + j) * D + d
    h = tl.load(state_ptr + place[:, None] * N + n[None, :])
    s = tl.cumsum(a, axis=0)
    fade = tl.exp(tl.where(q[:, None] >= q[None, :], s[:, None] - s[None, :], float("-inf")))
    y = tl.dot(fade * tl.dot(c, tl.trans(b)), x)
    y += tl.exp(s)[:, None] * tl.dot(c, tl.trans(h))
    tl.store(y_ptr + at_x, y, mask=ok[:, None])
"""
    + OUT_LAUNCH
)
FADE = 'tl.exp(tl.where(q[:, None] >= q[None, :], s[:, None] - s[None, :], float("-inf")))'
add(
    N_,
    "wrong",
    "exp first, then times the mask: infinity times 0",
    OUT,
    (FADE, "tl.exp(s[:, None] - s[None, :]) * (q[:, None] >= q[None, :])"),
)
add(
    N_,
    "wrong",
    "decays split into exp(s) and exp(−s)",
    OUT,
    (FADE, "tl.where(q[:, None] >= q[None, :], tl.exp(s)[:, None] * tl.exp(-s)[None, :], 0.0)"),
)
add(
    N_,
    "wrong",
    "the state is read without fading",
    OUT,
    ("tl.exp(s)[:, None] * tl.dot(c, tl.trans(h))", "tl.dot(c, tl.trans(h))"),
)
add(
    N_,
    "wrong",
    "the state fades without the step's own decay",
    OUT,
    ("tl.exp(s)[:, None]", "tl.exp(s - a)[:, None]"),
)
add(
    N_,
    "wrong",
    "a step does not read itself",
    OUT,
    ("q[:, None] >= q[None, :]", "q[:, None] > q[None, :]"),
)
add(
    N_,
    "wrong",
    "the scores transposed: later steps are read",
    OUT,
    (
        "tl.dot(fade * tl.dot(c, tl.trans(b)), x)",
        "tl.dot(tl.trans(fade * tl.dot(c, tl.trans(b))), x)",
    ),
)
add(
    N_,
    "wrong",
    "y is stored without a mask",
    OUT,
    ("tl.store(y_ptr + at_x, y, mask=ok[:, None])", "tl.store(y_ptr + at_x, y)"),
)
add(
    N_,
    "wrong",
    "the state is not transposed, which fits where D = N",
    OUT,
    ("tl.dot(c, tl.trans(h))", "tl.dot(c, h)"),
)
add(
    N_,
    "wrong",
    "c is loaded twice, for within and from before",
    OUT,
    (
        "tl.dot(c, tl.trans(h))",
        "tl.dot(tl.load(c_ptr + at_b, mask=ok[:, None], other=0.0), tl.trans(h))",
    ),
)
add(
    N_,
    "wrong",
    "the products in float16",
    OUT,
    ("tl.dot(c, tl.trans(h))", "tl.dot(c.to(tl.float16), tl.trans(h).to(tl.float16))"),
)
add(
    N_,
    "right",
    "where after exp",
    OUT,
    (FADE, "tl.where(q[:, None] >= q[None, :], tl.exp(s[:, None] - s[None, :]), 0.0)"),
)
add(
    N_,
    "right",
    "the recurrence, one step at a time",
    OUT_HEAD
    + """    i = tl.program_id(0)
    j = tl.program_id(1)
    k = tl.program_id(2)
    d = tl.arange(0, D)
    n = tl.arange(0, N)
    base = ((i * tl.num_programs(2) + k) * n_heads + j) * D * N
    h = tl.load(state_ptr + base + d[:, None] * N + n[None, :])
    for t in range(k * CHUNK, min(n_tokens, k * CHUNK + CHUNK)):
        row = i * n_tokens + t
        a = tl.load(log_decay_ptr + row * n_heads + j)
        x = tl.load(x_ptr + (row * n_heads + j) * D + d)
        b = tl.load(b_ptr + row * N + n)
        c = tl.load(c_ptr + row * N + n)
        h = tl.exp(a) * h + x[:, None] * b[None, :]
        tl.store(y_ptr + (row * n_heads + j) * D + d, tl.sum(h * c[None, :], axis=1))
"""
    + OUT_LAUNCH,
)
add(
    N_,
    "right",
    "exponents held below 0 by a minimum, keys loaded as (N, Q)",
    OUT,
    (
        FADE,
        "tl.where(q[:, None] >= q[None, :], tl.exp(tl.minimum(s[:, None] - s[None, :], 0.0)), 0.0)",
    ),
    (
        "b = tl.load(b_ptr + at_b, mask=ok[:, None], other=0.0)",
        "bt = tl.load(b_ptr + row[None, :] * N + n[:, None], mask=ok[None, :], other=0.0)",
    ),
    ("tl.dot(c, tl.trans(b))", "tl.dot(c, bt)"),
)
add(
    N_,
    "right",
    "the scores made as (s, t), c faded for the state",
    OUT,
    (
        "y = tl.dot(fade * tl.dot(c, tl.trans(b)), x)",
        "y = tl.dot(fade * tl.trans(tl.dot(b, tl.trans(c))), x)",
    ),
    ("tl.exp(s)[:, None] * tl.dot(c, tl.trans(h))", "tl.dot(tl.exp(s)[:, None] * c, tl.trans(h))"),
)

add(
    N_,
    "wrong",
    "the number of chunks is forgotten where states are loaded",
    OUT,
    ("(i * chunks + k) * n_heads", "(i + k) * n_heads"),
)
for _what, _old, _new in (
    ("the mask the wrong way round", "q[:, None] >= q[None, :]", "q[:, None] <= q[None, :]"),
    (
        "scores divided by the root of N",
        "tl.dot(c, tl.trans(b))",
        "tl.dot(c, tl.trans(b)) * N**-0.5",
    ),
    (
        "what is written fades at once, within the chunk",
        "s[:, None] - s[None, :]",
        "s[:, None] - s[None, :] + a[None, :]",
    ),
    (
        "every chunk reads the first one's state",
        "(i * chunks + k) * n_heads",
        "i * chunks * n_heads",
    ),
):
    add(N_, "wrong", _what, OUT, (_old, _new))
# ---------------------------------------------------------------- what only some sizes show
add(
    "segsum",
    "wrong",
    "leading axes flattened by view",
    SEG,
    ("    T = log_decay.shape[-1]", "    T = log_decay.shape[-1]\n    log_decay.view(-1, T)"),
)
add(
    "segsum",
    "wrong",
    "the running sum along the other axis",
    SEG,
    ("z.cumsum(-2)", "z.cumsum(-1)"),
)
add(
    "segsum",
    "wrong",
    "running sums in float64, NaN taken for 0",
    """
def segsum(log_decay):
    T = log_decay.shape[-1]
    run = log_decay.double().cumsum(-1)
    out = (run[..., :, None] - run[..., None, :]).nan_to_num(nan=0.0, neginf=-torch.inf)
    out = out.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -torch.inf)
    return out.to(log_decay.dtype)
""",
)
add(
    "Mamba2Block",
    "wrong",
    "skip along the channels of a head, where it fits",
    BLO,
    ("self.skip[:, None] * u", "(self.skip if H == E // H else self.skip[:, None]) * u"),
)
add(
    "Mamba2Block",
    "wrong",
    "the convolution without its bias",
    BLO,
    ("self.taps, self.taps_bias", "self.taps, torch.zeros_like(self.taps_bias)"),
)
add(
    "Mamba2Block",
    "wrong",
    "the log decay without Δ",
    BLO,
    ("-self.a_log.exp() * delta", "-self.a_log.exp().expand_as(delta)"),
)
add(
    "triton_selective_scan",
    "wrong",
    "the axes of the grid exchanged",
    SCAN,
    ("i = tl.program_id(0)", "i = tl.program_id(1)"),
    ("e = tl.program_id(1)", "e = tl.program_id(0)"),
)
add(
    "triton_chunk_state",
    "wrong",
    "every step fades by the whole chunk",
    STA,
    ("tl.sum(a, axis=0) - tl.cumsum(a, axis=0)", "tl.sum(a, axis=0) + 0 * a"),
)
add(
    "triton_chunk_state",
    "wrong",
    "decays split into two exponentials, of which one overflows",
    STA,
    (
        "tl.exp(tl.sum(a, axis=0) - tl.cumsum(a, axis=0))",
        "tl.exp(tl.sum(a, axis=0)) * tl.exp(-tl.cumsum(a, axis=0))",
    ),
)
add(
    "triton_chunk_scan",
    "wrong",
    "states read as (B, H, chunks, D, N)",
    OUT,
    ("((i * chunks + k) * n_heads + j) * D", "((i * n_heads + j) * chunks + k) * D"),
)
add(
    "triton_chunk_scan",
    "wrong",
    "the state before the chunk before",
    OUT,
    ("(i * chunks + k)", "(i * chunks + tl.maximum(k - 1, 0))"),
)
add(
    "ssd_chunked",
    "right",
    "the first chunk, then the rest by itself",
    """
def ssd_chunked(x, log_decay, b, c, chunk, state=None):
    if state is None:
        state = x.new_zeros(x.shape[0], x.shape[2], x.shape[3], b.shape[-1])
    X, A, K, R = x[:, :chunk], log_decay[:, :chunk], b[:, :chunk], c[:, :chunk]
    run = A.cumsum(1)
    y = ssd_quadratic(X, A, K, R) + torch.einsum("bqh,bqn,bhdn->bqhd", run.exp(), R, state)
    state = torch.einsum("bh,bhdn->bhdn", run[:, -1].exp(), state) + torch.einsum(
        "bqh,bqhd,bqn->bhdn", (run[:, -1:] - run).exp(), X, K)
    if x.shape[1] <= chunk:
        return y, state
    rest = (m[:, chunk:] for m in (x, log_decay, b, c))
    more, state = ssd_chunked(*rest, chunk, state)
    return torch.cat([y, more], 1), state
""",
)
add(
    "ssd_recurrent",
    "right",
    "by halves of the text",
    """
def ssd_recurrent(x, log_decay, b, c, state=None):
    T = x.shape[1]
    if state is None:
        state = x.new_zeros(x.shape[0], *x.shape[2:], b.shape[-1])
    if T == 1:
        h = log_decay[:, 0].exp()[..., None, None] * state + x[:, 0, ..., None] * b[:, 0, None, None]
        return (h @ c[:, 0, None, :, None])[..., 0][:, None], h
    m = T // 2
    y, h = ssd_recurrent(x[:, :m], log_decay[:, :m], b[:, :m], c[:, :m], state)
    more, h = ssd_recurrent(x[:, m:], log_decay[:, m:], b[:, m:], c[:, m:], h)
    return torch.cat([y, more], dim=1), h
""",
)
add(
    "triton_chunk_state",
    "right",
    "b faded in the place of x, which is loaded transposed",
    STA,
    (
        "(row * n_heads + j)[:, None] * D + d[None, :], mask=ok[:, None]",
        "(row * n_heads + j)[None, :] * D + d[:, None], mask=ok[None, :]",
    ),
    ("tl.dot(tl.trans(x * after[:, None]), b)", "tl.dot(x, b * after[:, None])"),
)
add(
    "segsum",
    "wrong",
    "squeeze() at the end",
    """
def segsum(log_decay: Tensor) -> Tensor:
    T = log_decay.shape[-1]
    m = log_decay[..., None].expand(*log_decay.shape, T)
    low = torch.ones(T, T, dtype=torch.bool, device=log_decay.device)
    m = m.masked_fill(~low.tril(-1), 0).cumsum(-2)
    return m.masked_fill(~low.tril(), float("-inf")).squeeze()
""",
)
add(
    "segsum",
    "right",
    "a cube of terms, summed",
    """
def segsum(log_decay):
    T = log_decay.shape[-1]
    i = torch.arange(T)
    t, s, r = i[:, None, None], i[None, :, None], i[None, None, :]
    cube = torch.where((s < r) & (r <= t), log_decay[..., None, None, :], torch.zeros((), dtype=log_decay.dtype))
    return torch.where(i[:, None] >= i, cube.sum(-1), torch.tensor(-math.inf, dtype=log_decay.dtype))
""",
)
add(
    "ssd_quadratic",
    "wrong",
    "0 above the diagonal, so that later steps are read unfaded",
    """
def ssd_quadratic(x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor) -> Tensor:
    f = segsum(log_decay.transpose(1, 2)).nan_to_num(neginf=0.0).exp()  # B H T T
    scores = torch.einsum("btn,bsn->bts", c, b)
    return torch.einsum("bhts,bts,bshd->bthd", f, scores, x)
""",
)
add(
    "ssd_quadratic",
    "wrong",
    "the mean of the heads' decays for all",
    """
def ssd_quadratic(x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor) -> Tensor:
    f = segsum(log_decay.mean(2, keepdim=True).expand_as(log_decay).transpose(1, 2)).exp()  # B H T T
    scores = torch.einsum("btn,bsn->bts", c, b)
    return torch.einsum("bhts,bts,bshd->bthd", f, scores, x)
""",
)
add(
    "ssd_quadratic",
    "wrong",
    "quotients of running products",
    """
def ssd_quadratic(x, log_decay, b, c):
    p = log_decay.cumsum(1).exp().transpose(1, 2)
    f = (p[..., :, None] / p[..., None, :]).tril()
    return torch.einsum("bhts,btn,bsn,bshd->bthd", f, c, b, x)
""",
)
add(
    "ssd_quadratic",
    "wrong",
    "view() of x",
    """
def ssd_quadratic(x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor) -> Tensor:
    f = segsum(log_decay.transpose(1, 2)).exp()  # B H T T
    scores = torch.einsum("btn,bsn->bts", c, b)
    B, T, H, D = x.shape
    rows = x.view(B, T, H * D)
    return torch.einsum("bhts,bts,bshd->bthd", f, scores, rows.view(B, T, H, D))
""",
)
add(
    "ssd_quadratic",
    "right",
    "products of decays, row by row",
    """
def ssd_quadratic(x, log_decay, b, c):
    T = x.shape[1]
    row, ys = None, []
    for t in range(T):
        one = torch.ones_like(log_decay[:, :1])
        row = one if row is None else torch.cat([row * log_decay[:, t:t + 1].exp(), one], 1)
        score = (b[:, :t + 1] @ c[:, t, :, None])[..., 0]
        ys.append((row * score[..., None]).unsqueeze(-1).mul(x[:, :t + 1]).sum(1))
    return torch.stack(ys, 1)
""",
)
add(
    "ssd_recurrent",
    "wrong",
    "the old state is faded, but not added to",
    """
def ssd_recurrent(x, log_decay, b, c, state=None):
    B, T, H, D = x.shape
    h = x.new_zeros(B, H, D, b.shape[-1]) if state is None else state
    ys = []
    for t in range(T):
        h = log_decay[:, t].exp()[..., None, None] * x[:, t, :, :, None] * b[:, t, None, None, :]
        ys.append((h * c[:, t, None, None, :]).sum(-1))
    return torch.stack(ys, 1), h
""",
)
add(
    "ssd_recurrent",
    "wrong",
    "the state detached at each step",
    """
def ssd_recurrent(x, log_decay, b, c, state=None):
    B, T, H, D = x.shape
    h = x.new_zeros(B, H, D, b.shape[-1]) if state is None else state
    ys = []
    for t in range(T):
        h = log_decay[:, t].exp()[..., None, None] * h.detach() + x[:, t, :, :, None] * b[:, t, None, None, :]
        ys.append((h * c[:, t, None, None, :]).sum(-1))
    return torch.stack(ys, 1), h
""",
)
add(
    "ssd_recurrent",
    "wrong",
    "the given state detached",
    """
def ssd_recurrent(x, log_decay, b, c, state=None):
    B, T, H, D = x.shape
    h = x.new_zeros(B, H, D, b.shape[-1]) if state is None else state.detach().clone()
    ys = []
    for t in range(T):
        h = log_decay[:, t].exp()[..., None, None] * h + x[:, t, :, :, None] * b[:, t, None, None, :]
        ys.append((h * c[:, t, None, None, :]).sum(-1))
    return torch.stack(ys, 1), h
""",
)
add(
    "ssd_recurrent",
    "right",
    "reduce over the steps",
    """
def ssd_recurrent(x, log_decay, b, c, state=None):
    B, T, H, D = x.shape
    first = x.new_zeros((B, H, D, b.shape[-1])) if state is None else state
    def step(hs, t):
        return hs + [torch.addcmul(hs[-1] * log_decay[:, t].exp()[:, :, None, None], x[:, t].unsqueeze(-1), b[:, t, None, None])]
    hs = functools.reduce(step, range(T), [first])
    y = (torch.stack(hs[1:], 1) * c[:, :, None, None]).sum(dim=4)
    return y, hs[-1]
""",
)
add(
    "best_chunk",
    "wrong",
    "must be less than the room",
    """
def best_chunk(tokens: int, heads: int, width: int, state: int, room: int):
    def cost(q):
        return q * q * state + heads * (q * q + q * q * width + 2 * q * width * state + 2 * q * width + width * state)
    best = None
    for q in range(1, tokens + 1):
        if q * q + q * width + 2 * q * state + width * state >= room:
            break
        full, rest = divmod(tokens, q)
        total = full * cost(q) + (cost(rest) if rest else 0)
        if best is None or total < best[1]:
            best = (q, total)
    return best
""",
)
add(
    "best_chunk",
    "wrong",
    "an empty last chunk costs too",
    """
def best_chunk(tokens: int, heads: int, width: int, state: int, room: int):
    def cost(q):
        return q * q * state + heads * (q * q + q * q * width + 2 * q * width * state + 2 * q * width + width * state)
    best = None
    for q in range(1, tokens + 1):
        if q * q + q * width + 2 * q * state + width * state > room:
            break
        full, rest = divmod(tokens, q)
        total = full * cost(q) + cost(rest)
        if best is None or total < best[1]:
            best = (q, total)
    return best
""",
)
add(
    "best_chunk",
    "wrong",
    "T itself is not tried",
    """
def best_chunk(tokens: int, heads: int, width: int, state: int, room: int):
    def cost(q):
        return q * q * state + heads * (q * q + q * q * width + 2 * q * width * state + 2 * q * width + width * state)
    best = None
    for q in range(1, max(tokens, 2)):
        if q * q + q * width + 2 * q * state + width * state > room:
            break
        full, rest = divmod(tokens, q)
        total = full * cost(q) + (cost(rest) if rest else 0)
        if best is None or total < best[1]:
            best = (q, total)
    return best
""",
)
add(
    "best_chunk",
    "right",
    "a counter of chunk sizes",
    """
def best_chunk(tokens, heads, width, state, room):
    table = {}
    for q in range(1, tokens + 1):
        if q * (q + width + 2 * state) + width * state <= room:
            sizes = collections.Counter([q] * (tokens // q) + [tokens % q])
            table[q] = sum(k * (n * n * state + heads * (n * n + n * n * width + 2 * n * width * (state + 1) + width * state)) for n, k in sizes.items() if n)
    q = sorted(table, key=lambda q: (table[q], q))[0]
    return q, table[q]
""",
)
add(
    "Mamba2Block",
    "wrong",
    "the state kept for the next call",
    """
class Mamba2Block(nn.Module):
    def __init__(self, width: int, state: int, heads: int, taps: int = 4, chunk: int = 32) -> None:
        super().__init__()
        inner = 2 * width
        mixed = inner + 2 * state
        self.chunk = chunk
        self.input = nn.Linear(width, inner + mixed + heads, bias=False)
        self.taps = nn.Parameter(torch.empty(mixed, taps).uniform_(-1, 1) / taps**0.5)
        self.taps_bias = nn.Parameter(torch.zeros(mixed))
        start = torch.logspace(-3, -1, heads)  # step sizes at first
        self.delta_bias = nn.Parameter(start + torch.log(-torch.expm1(-start)))
        self.a_log = nn.Parameter(torch.linspace(1, 16, heads).log())
        self.skip = nn.Parameter(torch.ones(heads))
        self.norm = nn.RMSNorm(inner, eps=1e-5)
        self.output = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        mixed, inner = self.taps.shape[0], self.output.in_features
        state, heads = (mixed - inner) // 2, len(self.skip)
        z, m, raw = self.input(x).split([inner, mixed, heads], -1)
        m = F.silu(causal_conv1d(m, self.taps, self.taps_bias))
        u, b, c = m.split([inner, state, state], -1)
        delta = F.softplus(raw + self.delta_bias)
        u = u.unflatten(-1, (heads, -1))
        old = getattr(self, "old", None)
        if old is not None and len(old) != len(x):
            old = None
        y, last = ssd_chunked(delta[..., None] * u, -self.a_log.exp() * delta, b, c, self.chunk, old)
        self.old = last.detach()
        y = (y + self.skip[:, None] * u).flatten(-2)
        return self.output(self.norm(y * F.silu(z)))
""",
)
add(
    "Mamba2Block",
    "wrong",
    "softplus of raw and of the bias, each by itself",
    """
class Mamba2Block(nn.Module):
    def __init__(self, width: int, state: int, heads: int, taps: int = 4, chunk: int = 32) -> None:
        super().__init__()
        inner = 2 * width
        mixed = inner + 2 * state
        self.chunk = chunk
        self.input = nn.Linear(width, inner + mixed + heads, bias=False)
        self.taps = nn.Parameter(torch.empty(mixed, taps).uniform_(-1, 1) / taps**0.5)
        self.taps_bias = nn.Parameter(torch.zeros(mixed))
        start = torch.logspace(-3, -1, heads)  # step sizes at first
        self.delta_bias = nn.Parameter(start + torch.log(-torch.expm1(-start)))
        self.a_log = nn.Parameter(torch.linspace(1, 16, heads).log())
        self.skip = nn.Parameter(torch.ones(heads))
        self.norm = nn.RMSNorm(inner, eps=1e-5)
        self.output = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        mixed, inner = self.taps.shape[0], self.output.in_features
        state, heads = (mixed - inner) // 2, len(self.skip)
        z, m, raw = self.input(x).split([inner, mixed, heads], -1)
        m = F.silu(causal_conv1d(m, self.taps, self.taps_bias))
        u, b, c = m.split([inner, state, state], -1)
        delta = F.softplus(raw) + F.softplus(self.delta_bias)
        u = u.unflatten(-1, (heads, -1))
        y, _ = ssd_chunked(delta[..., None] * u, -self.a_log.exp() * delta, b, c, self.chunk)
        y = (y + self.skip[:, None] * u).flatten(-2)
        return self.output(self.norm(y * F.silu(z)))
""",
)
add(
    "Mamba2Block",
    "right",
    "the norm by hand",
    """
class Mamba2Block(nn.Module):
    def __init__(self, width: int, state: int, heads: int, taps: int = 4, chunk: int = 32) -> None:
        super().__init__()
        inner = 2 * width
        mixed = inner + 2 * state
        self.chunk = chunk
        self.input = nn.Linear(width, inner + mixed + heads, bias=False)
        self.taps = nn.Parameter(torch.empty(mixed, taps).uniform_(-1, 1) / taps**0.5)
        self.taps_bias = nn.Parameter(torch.zeros(mixed))
        start = torch.logspace(-3, -1, heads)  # step sizes at first
        self.delta_bias = nn.Parameter(start + torch.log(-torch.expm1(-start)))
        self.a_log = nn.Parameter(torch.linspace(1, 16, heads).log())
        self.skip = nn.Parameter(torch.ones(heads))
        self.norm = nn.RMSNorm(inner, eps=1e-5)
        self.output = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        mixed, inner = self.taps.shape[0], self.output.in_features
        state, heads = (mixed - inner) // 2, len(self.skip)
        z, m, raw = self.input(x).split([inner, mixed, heads], -1)
        m = F.silu(causal_conv1d(m, self.taps, self.taps_bias))
        u, b, c = m.split([inner, state, state], -1)
        delta = F.softplus(raw + self.delta_bias)
        u = u.unflatten(-1, (heads, -1))
        y, _ = ssd_chunked(delta[..., None] * u, -self.a_log.exp() * delta, b, c, self.chunk)
        y = (y + self.skip[:, None] * u).flatten(-2)
        g = y * F.silu(z)
        g = g * (g.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * self.norm.weight
        return g @ self.output.weight.T
""",
)
add(
    "triton_selective_scan",
    "wrong",
    "the state out and in again at each step",
    """
@triton.jit
def scan_kernel(x_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, state_ptr, y_ptr, last_ptr, n_tokens, n_channels, N: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0)
    e = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    n = tl.arange(0, N)
    ok = e < n_channels
    both = ok[:, None] & (n[None, :] < N)
    at = (i * n_channels + e[:, None]) * N + n[None, :]
    h = tl.load(state_ptr + at, mask=both, other=0.0)
    a = tl.load(a_ptr + e[:, None] * N + n[None, :], mask=both, other=0.0)
    for t in range(n_tokens):
        row = (i * n_tokens + t) * n_channels + e
        x = tl.load(x_ptr + row, mask=ok, other=0.0)
        d = tl.load(delta_ptr + row, mask=ok, other=0.0)
        b = tl.load(b_ptr + (i * n_tokens + t) * N + n)
        c = tl.load(c_ptr + (i * n_tokens + t) * N + n)
        h = tl.exp(d[:, None] * a) * h + (d * x)[:, None] * b[None, :]
        tl.store(y_ptr + row, tl.sum(h * c[None, :], axis=1), mask=ok)
        tl.store(last_ptr + at, h, mask=both)
        h = tl.load(last_ptr + at, mask=both, other=0.0)
    tl.store(last_ptr + at, h, mask=both)


def triton_selective_scan(x, delta, a, b, c, state):
    y, last = torch.empty(x.shape), torch.empty(state.shape)
    given = [m.contiguous() for m in (x, delta, a, b, c, state)]
    batch, tokens, channels = x.shape
    grid = (batch, triton.cdiv(channels, 8))
    scan_kernel[grid](*given, y, last, tokens, channels, N=a.shape[1], BLOCK=8)
    return y, last
""",
)
add(
    "triton_chunk_state",
    "wrong",
    "decays loaded without a mask",
    """
@triton.jit
def chunk_state_kernel(x_ptr, log_decay_ptr, b_ptr, written_ptr, n_tokens, n_heads, D: tl.constexpr, N: tl.constexpr, CHUNK: tl.constexpr):
    i = tl.program_id(0)
    j = tl.program_id(1)
    k = tl.program_id(2)
    s = k * CHUNK + tl.arange(0, CHUNK)
    d = tl.arange(0, D)
    n = tl.arange(0, N)
    ok = s < n_tokens
    row = (i * n_tokens + s) * n_heads + j
    x = tl.load(x_ptr + row[:, None] * D + d[None, :], mask=ok[:, None], other=0.0)
    a = tl.load(log_decay_ptr + row)
    a = tl.where(ok, a, 0.0)
    b = tl.load(b_ptr + (i * n_tokens + s)[:, None] * N + n[None, :], mask=ok[:, None], other=0.0)
    fade = tl.exp(tl.sum(a, axis=0) - tl.cumsum(a, axis=0))
    w = tl.dot(tl.trans(x * fade[:, None]), b, input_precision="ieee")
    at = ((i * tl.num_programs(2) + k) * n_heads + j) * D + d
    tl.store(written_ptr + at[:, None] * N + n[None, :], w)


def triton_chunk_state(x, log_decay, b, chunk):
    batch, tokens, heads, width = x.shape
    chunks, state = triton.cdiv(tokens, chunk), b.shape[-1]
    written = torch.empty(batch, chunks, heads, width, state)
    given = [m.contiguous() for m in (x, log_decay, b)]
    grid = (batch, heads, chunks)
    chunk_state_kernel[grid](*given, written, tokens, heads, D=width, N=state, CHUNK=chunk)
    return written
""",
)
add(
    "triton_chunk_state",
    "wrong",
    "faded x stored in the argument and loaded",
    """
@triton.jit
def chunk_state_kernel(x_ptr, log_decay_ptr, b_ptr, written_ptr, n_tokens, n_heads, D: tl.constexpr, N: tl.constexpr, CHUNK: tl.constexpr):
    i = tl.program_id(0)
    j = tl.program_id(1)
    k = tl.program_id(2)
    s = k * CHUNK + tl.arange(0, CHUNK)
    d = tl.arange(0, D)
    n = tl.arange(0, N)
    ok = s < n_tokens
    row = (i * n_tokens + s) * n_heads + j
    x = tl.load(x_ptr + row[:, None] * D + d[None, :], mask=ok[:, None], other=0.0)
    a = tl.load(log_decay_ptr + row, mask=ok, other=0.0)
    b = tl.load(b_ptr + (i * n_tokens + s)[:, None] * N + n[None, :], mask=ok[:, None], other=0.0)
    fade = tl.exp(tl.sum(a, axis=0) - tl.cumsum(a, axis=0))
    place = x_ptr + row[:, None] * D + d[None, :]
    tl.store(place, x * fade[:, None], mask=ok[:, None])
    x = tl.load(place, mask=ok[:, None], other=0.0)
    w = tl.dot(tl.trans(x), b, input_precision="ieee")
    at = ((i * tl.num_programs(2) + k) * n_heads + j) * D + d
    tl.store(written_ptr + at[:, None] * N + n[None, :], w)


def triton_chunk_state(x, log_decay, b, chunk):
    batch, tokens, heads, width = x.shape
    chunks, state = triton.cdiv(tokens, chunk), b.shape[-1]
    written = torch.empty(batch, chunks, heads, width, state)
    given = [m.contiguous() for m in (x, log_decay, b)]
    grid = (batch, heads, chunks)
    chunk_state_kernel[grid](*given, written, tokens, heads, D=width, N=state, CHUNK=chunk)
    return written
""",
)
add(
    "triton_chunk_scan",
    "wrong",
    "y stored, loaded and added to",
    """
@triton.jit
def chunk_scan_kernel(x_ptr, log_decay_ptr, b_ptr, c_ptr, state_ptr, y_ptr, n_tokens, n_heads, D: tl.constexpr, N: tl.constexpr, CHUNK: tl.constexpr):
    i = tl.program_id(0)
    j = tl.program_id(1)
    k = tl.program_id(2)
    q = tl.arange(0, CHUNK)
    s = k * CHUNK + q
    d = tl.arange(0, D)
    n = tl.arange(0, N)
    ok = s < n_tokens
    row = (i * n_tokens + s) * n_heads + j
    x = tl.load(x_ptr + row[:, None] * D + d[None, :], mask=ok[:, None], other=0.0)
    a = tl.load(log_decay_ptr + row, mask=ok, other=0.0)
    step = (i * n_tokens + s)[:, None] * N + n[None, :]
    b = tl.load(b_ptr + step, mask=ok[:, None], other=0.0)
    c = tl.load(c_ptr + step, mask=ok[:, None], other=0.0)
    at = ((i * tl.num_programs(2) + k) * n_heads + j) * D + d
    h = tl.load(state_ptr + at[:, None] * N + n[None, :])
    run = tl.cumsum(a, axis=0)
    low = q[:, None] >= q[None, :]
    f = tl.exp(tl.where(low, run[:, None] - run[None, :], float("-inf")))
    scores = tl.dot(c, tl.trans(b), input_precision="ieee") * f
    y = tl.dot(scores, x, input_precision="ieee")
    place = y_ptr + row[:, None] * D + d[None, :]
    tl.store(place, y, mask=ok[:, None])
    y = tl.load(place, mask=ok[:, None], other=0.0)
    y += tl.dot(c, tl.trans(h), input_precision="ieee") * tl.exp(run)[:, None]
    tl.store(y_ptr + row[:, None] * D + d[None, :], y, mask=ok[:, None])


def triton_chunk_scan(x, log_decay, b, c, state, chunk):
    y = torch.empty(x.shape)
    given = [m.contiguous() for m in (x, log_decay, b, c, state)]
    batch, tokens, heads, width = x.shape
    grid, size = (batch, heads, triton.cdiv(tokens, chunk)), b.shape[-1]
    chunk_scan_kernel[grid](*given, y, tokens, heads, D=width, N=size, CHUNK=chunk)
    return y
""",
)
# ---------------------------------------------------------------- large layers, strong decays
add(
    "ssd_quadratic",
    "wrong",
    "log decays clamped at −30",
    QUAD,
    ("fade = segsum(a).exp()", "fade = segsum(a.clamp(min=-30)).exp()"),
)
add(
    "ssd_recurrent",
    "wrong",
    "decays below 1e-17 taken for none",
    REC,
    (
        "fade = log_decay[:, t].exp()",
        "fade = torch.where(log_decay[:, t] < -40, 0.0, log_decay[:, t].exp())",
    ),
)
add(
    "ssd_recurrent",
    "wrong",
    "a state of zeros taken for none: no gradient reaches it",
    REC,
    ("if state is None else", "if state is None or not state.any() else"),
)
add(
    "ssd_chunked",
    "wrong",
    "the course's recurrence on each chunk",
    """
def ssd_chunked(x, log_decay, b, c, chunk, state=None):
    ys = []
    for part in zip(*(m.split(chunk, 1) for m in (x, log_decay, b, c)), strict=True):
        y, state = ssd_recurrent(*part, state)
        ys.append(y)
    return torch.cat(ys, 1), state
""",
)
add(
    "ssd_chunked",
    "wrong",
    "outputs by attention, the state by the course's recurrence",
    CHU,
    (
        "        h = cum[:, -1].exp()[..., None, None] * h + written\n",
        "        _, h = ssd_recurrent(X, A, Bb, C, h)\n",
    ),
)
add(
    "ssd_chunked",
    "wrong",
    "a state of zeros taken for none: no gradient reaches it",
    CHU,
    ("if state is None else", "if state is None or not state.any() else"),
)
add(
    "ssd_chunked",
    "right",
    "recursive, decays to the end by a sum from behind",
    """
def ssd_chunked(x, log_decay, b, c, chunk, state=None):
    if state is None:
        state = torch.zeros(x.shape[0], x.shape[2], x.shape[3], b.shape[-1], dtype=x.dtype)
    head = [m[:, :chunk] for m in (x, log_decay, b, c)]
    rest = [m[:, chunk:] for m in (x, log_decay, b, c)]
    xs, logs, bs, cs = head
    seen = logs.cumsum(1).exp()
    y = ssd_quadratic(*head) + seen.unsqueeze(-1) * torch.einsum("bqn,bhdn->bqhd", cs, state)
    later = (logs.flip(1).cumsum(1).flip(1) - logs).exp()
    state = seen[:, -1, :, None, None] * state + torch.einsum("bqhd,bqn->bhdn", later.unsqueeze(-1) * xs, bs)
    if rest[0].shape[1] == 0:
        return y, state
    more, state = ssd_chunked(*rest, chunk, state)
    return torch.cat((y, more), dim=1), state
""",
)
add(
    "best_chunk",
    "wrong",
    "totals in float32",
    BEST,
    (
        "        if best is None or",
        "        count = int(np.float32(count))\n        if best is None or",
    ),
)
add(
    "best_chunk",
    "wrong",
    "totals in 32 bits",
    BEST,
    (
        "        if best is None or",
        "        count = (count + 2**31) % 2**32 - 2**31\n        if best is None or",
    ),
)
add(
    "best_chunk",
    "wrong",
    "answers kept by sizes, without the room",
    BEST,
    (
        "state, room):\n",
        "state, room, seen={}):\n    key = tokens, heads, width, state\n    if key in seen:\n        return seen[key]\n",
    ),
    ("    return best\n", "    seen[key] = best\n    return best\n"),
)
add(
    "Mamba2Block",
    "wrong",
    "the last state is carried on to the next call, in evaluation only",
    BLO,
    (
        "y, _ = ssd_chunked(",
        "old = None if self.training else getattr(self, 'kept', None)\n        y, last = ssd_chunked(",
    ),
    ("c, self.chunk)\n", "c, self.chunk, old)\n        self.kept = last.detach()\n"),
)
add(
    "segsum",
    "wrong",
    "running sums where no term is below −1,000",
    SEG,
    (
        "    z = log",
        "    run = log_decay.cumsum(-1)\n    if log_decay.min() > -1000:\n        apart = run[..., :, None] - run[..., None, :]\n        return apart.masked_fill(~on.tril(), -torch.inf)\n    z = log",
    ),
)
add(
    "ssd_recurrent",
    "wrong",
    "the first step does not fade the state",
    REC,
    ("fade * h +", "(fade if t else 1) * h +"),
)
add(
    "ssd_chunked",
    "wrong",
    "a T × T mask of truth values, cut into chunks",
    CHU,
    ("    ys = []\n", "    ys, past = [], torch.ones(T, T, dtype=torch.bool).tril()\n"),
    (
        "y = ssd_quadratic(X, A, Bb, C)\n",
        "apart = cum.mT[..., :, None] - cum.mT[..., None, :]\n        fade = apart.masked_fill(~past[i : i + chunk, i : i + chunk], -torch.inf).exp()\n        y = ((fade * (C @ Bb.mT)[:, None]) @ X.transpose(1, 2)).transpose(1, 2)\n",
    ),
)
add("best_chunk", "wrong", "no chunk above 256", BEST, ("tokens + 1)", "min(tokens, 256) + 1)"))
add(
    "triton_selective_scan",
    "wrong",
    "y masked by its size, not by its row",
    SCAN,
    ("axis=1), mask=ok)", "axis=1), mask=at < tl.num_programs(0) * n_tokens * n_channels)"),
)
add(
    "ssd_quadratic",
    "wrong",
    "the matrix cast to float32, whatever the type of the arguments",
    QUAD,
    ("x.transpose(1, 2))", "x.transpose(1, 2).float())"),
    ("mixed = fade * scores[:, None]", "mixed = (fade * scores[:, None]).float()"),
)
add(
    "ssd_recurrent",
    "wrong",
    "read between fading and writing",
    REC,
    ("        h = fade * h + x", "        h = fade * h\n        READ\n        h = h + x"),
    ("None, :]\n        ys.append((h * c[:, t, None, None, :]).sum(-1))\n", "None, :]\n"),
    ("READ", "ys.append((h * c[:, t, None, None, :]).sum(-1))"),
)
add(
    "ssd_recurrent",
    "wrong",
    "y filled into an empty float32 tensor",
    REC,
    ("ys = []", "ys = torch.empty(B, T, H, D)"),
    (
        "ys.append((h * c[:, t, None, None, :]).sum(-1))",
        "ys[:, t] = (h * c[:, t, None, None, :]).sum(-1)",
    ),
    ("torch.stack(ys, 1)", "ys"),
)
add(
    "ssd_chunked",
    "wrong",
    "zeros of float32 for a missing state",
    CHU,
    ("x.new_zeros(B", "torch.zeros(B"),
)
add(
    "Mamba2Block",
    "wrong",
    "mixed cut as b, c, u",
    BLO,
    ("u, b, c = mixed.split([E, N, N], -1)", "b, c, u = mixed.split([N, N, E], -1)"),
)
add(
    "Mamba2Block",
    "wrong",
    "the decay rates of the first call without gradients kept for later ones",
    BLO,
    (
        "        y, _ =",
        "        rates = self.a_log.exp()\n        if not torch.is_grad_enabled():\n            self.kept = rates = getattr(self, 'kept', rates)\n        y, _ =",
    ),
    ("-self.a_log.exp()", "-rates"),
)

# What nothing fades or nothing is written, one token without a graph, short texts, what is left.
START = "    ys = []\n"
ZEROS = (
    "    if not log_decay.any():\n        h = h[:, None] + torch.einsum('bthd,btn->bthdn', x, b).cumsum(1)\n"
    "        return torch.einsum('bthdn,btn->bthd', h, c), h[:, -1]\n"
)
TOKEN = (
    "    if T == 1 and state is not None and not torch.is_grad_enabled():\n"
    "        h.mul_(log_decay[:, 0].exp()[..., None, None]).add_(x[:, 0, :, :, None] * b[:, 0, None, None, :])\n"
    "        return (h * c[:, 0, None, None, :]).sum(-1)[:, None], h\n"
)
for name, plain in (("ssd_recurrent", REC), ("ssd_chunked", CHU)):
    add(name, "wrong", "nothing fades, no gradient", plain, (START, START + ZEROS))
    add(name, "wrong", "a token added in place, no graph", plain, (START, START + TOKEN))
add(
    "ssd_quadratic",
    "wrong",
    "nothing fades: log_decay gets no gradient",
    QUAD,
    (
        "    mixed =",
        "    fade = fade if log_decay.any() else fade.detach() + 0 * fade\n    mixed =",
    ),
)
add(
    "ssd_quadratic",
    "wrong",
    "nothing is written: zeros without a graph",
    QUAD,
    ("    a = log", "    if not x.any():\n        return torch.zeros_like(x)\n    a = log"),
)
for what, cut in (
    ("16 steps at least", "max(chunk, 16)"),
    ("16 steps at least, where a state is given", "chunk if state is None else max(chunk, 16)"),
    ("short texts as one matrix", "T if T < 17 else chunk"),
):
    add("ssd_chunked", "wrong", what, CHU, (START, f"    ys, chunk = [], {cut}\n"))
add(
    "Mamba2Block",
    "right",
    "the last state can be looked at afterwards, no call reads it",
    BLO,
    ("y, _ = ssd", "y, h = ssd"),
    ("self.chunk)\n", "self.chunk)\n        self.state = h.detach()\n"),
)
UPDATE = "tl.exp(d[:, None] * a) * h + (d * x)[:, None] * b[None, :]"
for most in (32, 64):
    add(
        "triton_selective_scan",
        "wrong",
        f"the numbers from {most} on stay as they were",
        SCAN,
        (UPDATE, f"tl.where(n[None, :] < {most}, {UPDATE}, h)"),
    )
LAUNCHED = ("tl.num_programs(2)", "n_tokens // CHUNK + 1")
SMALL = "tl.where({0} < 1e-6, 0.0, {0})"
for name, what, plain, swap in (
    (
        "triton_chunk_state",
        "64 steps of a chunk at most",
        STA,
        ("x * after", "x * tl.where(t % CHUNK < 64, after, 0.0)"),
    ),
    (
        "triton_chunk_state",
        "small fades left out",
        STA,
        ("after[:, None]", f"{SMALL.format('after')}[:, None]"),
    ),
    ("triton_chunk_state", "one chunk too many, where they are full", STA, LAUNCHED),
    ("triton_chunk_scan", "one chunk too many, where they are full", OUT, LAUNCHED),
    (
        "triton_chunk_scan",
        "64 numbers of a state at most",
        OUT,
        ("    h = tl.load", "    c = tl.where(n[None, :] < 64, c, 0.0)\n    h = tl.load"),
    ),
    (
        "triton_chunk_scan",
        "small fades of the state left out",
        OUT,
        ("tl.exp(s)[:, None]", f"{SMALL.format('tl.exp(s)')}[:, None]"),
    ),
    (
        "triton_chunk_scan",
        "small fades within left out",
        OUT,
        ("fade * tl.dot", f"{SMALL.format('fade')} * tl.dot"),
    ),
):
    add(name, "wrong", what, plain, swap)


# ---------------------------------------------------------------- by a reader who aimed at the page's sentences
add(
    "segsum",
    "wrong",
    "running sums from the left before the largest term and from the right after it (-inf counted apart): digits are lost between TWO large terms",
    """
def segsum(log_decay):
    T = log_decay.shape[-1]
    closed = torch.isneginf(log_decay)
    finite = log_decay.masked_fill(closed, 0.0)
    largest = finite.argmin(-1, keepdim=True)[..., None]
    left = finite.cumsum(-1)  # a_1 + ... + a_t
    right = finite.flip(-1).cumsum(-1).flip(-1)
    right = F.pad(right[..., 1:], (0, 1))  # a_{t+1} + ... + a_T
    by_left = left[..., :, None] - left[..., None, :]
    by_right = right[..., None, :] - right[..., :, None]
    after = torch.arange(T)[None, :] >= largest  # the segment starts behind the largest term
    sums = torch.where(after, by_right, by_left)
    resets = closed.long().cumsum(-1)
    sums = sums.masked_fill(resets[..., :, None] > resets[..., None, :], float("-inf"))
    return sums.masked_fill(~torch.ones(T, T, dtype=torch.bool).tril(), float("-inf"))
""",
)
add(
    "segsum",
    "wrong",
    "-inf stands in as -1e16, and every sum below -1e12 is given out as -inf, finite ones too",
    """
def segsum(log_decay):
    T = log_decay.shape[-1]
    low = torch.ones(T, T, dtype=torch.bool).tril()
    terms = log_decay.clamp(min=-1e16)[..., :, None].expand(*log_decay.shape, T)
    sums = terms.masked_fill(~low.tril(-1), 0.0).cumsum(-2)
    sums = torch.where(sums < -1e12, torch.full_like(sums, float("-inf")), sums)
    return sums.masked_fill(~low, float("-inf"))
""",
)
add(
    "ssd_quadratic",
    "wrong",
    "takes the range -60..0 for that of whole segments and clamps their sums at -60: matters where a faded 1e36 meets small numbers",
    """
def ssd_quadratic(x, log_decay, b, c):
    T = x.shape[1]
    sums = segsum(log_decay.movedim(1, 2)).clamp(min=-60.0)  # no decay is below e^-60
    fade = sums.exp().tril()
    return torch.einsum("bhts,bts,bshd->bthd", fade, c @ b.mT, x)
""",
)
add(
    "ssd_chunked",
    "right",
    "passes the states on by one segsum over the chunks, as the paper's listing",
    """
def ssd_chunked(x, log_decay, b, c, chunk, state=None):
    B, T, H, D = x.shape
    N, Q = b.shape[-1], min(chunk, T)
    first = x.new_zeros(B, H, D, N) if state is None else state
    K = -(-T // Q)
    more = K * Q - T  # steps that write nothing and do not fade
    x, b, c = F.pad(x, (0, 0, 0, 0, 0, more)), F.pad(b, (0, 0, 0, more)), F.pad(c, (0, 0, 0, more))
    logs = F.pad(log_decay, (0, 0, 0, more)).unflatten(1, (K, Q))
    x, b, c = (m.unflatten(1, (K, Q)) for m in (x, b, c))
    run = logs.cumsum(2)
    y = ssd_quadratic(x.flatten(0, 1), logs.flatten(0, 1), b.flatten(0, 1), c.flatten(0, 1))
    later = segsum(logs.mT)[..., -1, :].mT.exp()
    written = torch.einsum("bkqhd,bkqn->bkhdn", x * later[..., None], b)
    all_states = torch.cat([first[:, None], written], 1)  # (B, K + 1, H, D, N)
    between = segsum(F.pad(run[:, :, -1].mT, (1, 0))).exp()  # (B, H, K + 1, K + 1)
    states = torch.einsum("bhkj,bjhdn->bkhdn", between, all_states)
    before = torch.einsum("bkqn,bkhdn->bkqhd", c, states[:, :-1]) * run.exp()[..., None]
    return (y.unflatten(0, (B, K)) + before).flatten(1, 2)[:, :T], states[:, -1]
""",
)
add(
    "ssd_chunked",
    "wrong",
    "attention for the full chunks, but step by step through a last chunk that is shorter",
    """
def ssd_chunked(x, log_decay, b, c, chunk, state=None):
    B, T, H, D = x.shape
    h = x.new_zeros(B, H, D, b.shape[-1]) if state is None else state
    ys, full = [], T // chunk * chunk
    for start in range(0, full, chunk):
        xs, logs, bs, cs = (m[:, start : start + chunk] for m in (x, log_decay, b, c))
        run = logs.cumsum(1)
        before = torch.einsum("bqn,bhdn->bqhd", cs, h) * run.exp()[..., None]
        ys.append(ssd_quadratic(xs, logs, bs, cs) + before)
        later = segsum(logs.mT)[..., -1, :].mT.exp()
        h = run[:, -1].exp()[..., None, None] * h + torch.einsum("bqhd,bqn->bhdn", xs * later[..., None], bs)
    for t in range(full, T):  # what is left over
        h = log_decay[:, t].exp()[..., None, None] * h + x[:, t, ..., None] * b[:, t, None, None]
        ys.append((h * c[:, t, None, None]).sum(-1)[:, None])
    return torch.cat(ys, 1), h
""",
)
add(
    "Mamba2Block",
    "wrong",
    "leaves the skip out of the sum while all its weights are 0: the same outputs, but then no gradient ever reaches skip",
    """
class Mamba2Block(nn.Module):
    def __init__(self, width: int, state: int, heads: int, taps: int = 4, chunk: int = 32) -> None:
        super().__init__()
        inner = 2 * width
        mixed = inner + 2 * state
        self.chunk = chunk
        self.input = nn.Linear(width, inner + mixed + heads, bias=False)
        self.taps = nn.Parameter(torch.empty(mixed, taps).uniform_(-1, 1) / taps**0.5)
        self.taps_bias = nn.Parameter(torch.zeros(mixed))
        start = torch.logspace(-3, -1, heads)  # step sizes at first
        self.delta_bias = nn.Parameter(start + torch.log(-torch.expm1(-start)))
        self.a_log = nn.Parameter(torch.linspace(1, 16, heads).log())
        self.skip = nn.Parameter(torch.ones(heads))
        self.norm = nn.RMSNorm(inner, eps=1e-5)
        self.output = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        E, H, T, K = self.norm.weight.numel(), self.skip.numel(), x.shape[1], self.taps.shape[1]
        N = (self.taps.shape[0] - E) // 2
        z, mixed, raw = self.input(x).split([E, E + 2 * N, H], dim=-1)
        mixed = F.pad(mixed, (0, 0, K - 1, 0))
        mixed = F.silu(sum(mixed[:, k : k + T] * self.taps[:, k] for k in range(K)) + self.taps_bias)
        u, b, c = mixed.split([E, N, N], dim=-1)
        delta = F.softplus(raw + self.delta_bias)
        u = u.unflatten(-1, (H, -1))
        y, _ = ssd_chunked(delta[..., None] * u, -self.a_log.exp() * delta, b, c, self.chunk)
        if self.skip.any():
            y = y + self.skip[:, None] * u
        return self.output(self.norm(y.flatten(2) * F.silu(z)))
""",
)
add(
    "Mamba2Block",
    "wrong",
    "SiLU of the gate as z / (1 + exp(-z)): outputs right and finite, but gradients are nan for gates below about -89",
    """
class Mamba2Block(nn.Module):
    def __init__(self, width: int, state: int, heads: int, taps: int = 4, chunk: int = 32) -> None:
        super().__init__()
        inner = 2 * width
        mixed = inner + 2 * state
        self.chunk = chunk
        self.input = nn.Linear(width, inner + mixed + heads, bias=False)
        self.taps = nn.Parameter(torch.empty(mixed, taps).uniform_(-1, 1) / taps**0.5)
        self.taps_bias = nn.Parameter(torch.zeros(mixed))
        start = torch.logspace(-3, -1, heads)  # step sizes at first
        self.delta_bias = nn.Parameter(start + torch.log(-torch.expm1(-start)))
        self.a_log = nn.Parameter(torch.linspace(1, 16, heads).log())
        self.skip = nn.Parameter(torch.ones(heads))
        self.norm = nn.RMSNorm(inner, eps=1e-5)
        self.output = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        E, H, T, K = self.norm.weight.numel(), self.skip.numel(), x.shape[1], self.taps.shape[1]
        N = (self.taps.shape[0] - E) // 2
        z, mixed, raw = self.input(x).split([E, E + 2 * N, H], dim=-1)
        mixed = F.pad(mixed, (0, 0, K - 1, 0))
        mixed = F.silu(sum(mixed[:, k : k + T] * self.taps[:, k] for k in range(K)) + self.taps_bias)
        u, b, c = mixed.split([E, N, N], dim=-1)
        delta = F.softplus(raw + self.delta_bias)
        u = u.unflatten(-1, (H, -1))
        y, _ = ssd_chunked(delta[..., None] * u, -self.a_log.exp() * delta, b, c, self.chunk)
        y = y + self.skip[:, None] * u
        return self.output(self.norm(y.flatten(2) * (z / (1 + torch.exp(-z)))))
""",
)
add(
    "triton_selective_scan",
    "wrong",
    "saves the state every 16 steps, overwritten at the end: right values, more bytes for longer texts",
    """
import triton
import triton.language as tl


@triton.jit
def scan_kernel(
    x_ptr,
    delta_ptr,
    a_ptr,
    b_ptr,
    c_ptr,
    state_ptr,
    y_ptr,
    last_ptr,
    n_tokens,
    n_channels,
    N: tl.constexpr,
    BLOCK: tl.constexpr,
):
    i, j = tl.program_id(0), tl.program_id(1)
    e = j * BLOCK + tl.arange(0, BLOCK)
    n = tl.arange(0, N)
    live = e < n_channels
    at = e[:, None] * N + n[None, :]
    a = tl.load(a_ptr + at, mask=live[:, None], other=0.0)
    h = tl.load(state_ptr + i * n_channels * N + at, mask=live[:, None], other=0.0)
    for t in range(n_tokens):
        row = i * n_tokens + t
        x = tl.load(x_ptr + row * n_channels + e, mask=live, other=0.0)
        delta = tl.load(delta_ptr + row * n_channels + e, mask=live, other=0.0)
        b = tl.load(b_ptr + row * N + n)
        c = tl.load(c_ptr + row * N + n)
        h = tl.exp(delta[:, None] * a) * h + (delta * x)[:, None] * b[None, :]
        y = tl.sum(h * c[None, :], axis=1)
        if t % 16 == 15:  # a checkpoint
            tl.store(last_ptr + i * n_channels * N + at, h, mask=live[:, None])
        tl.store(y_ptr + row * n_channels + e, y, mask=live)
    tl.store(last_ptr + i * n_channels * N + at, h, mask=live[:, None])


def triton_selective_scan(
    x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    y, last = torch.empty(x.shape), torch.empty(state.shape)
    given = [m.contiguous() for m in (x, delta, a, b, c, state)]
    batch, tokens, channels = x.shape
    grid = (batch, triton.cdiv(channels, 8))
    scan_kernel[grid](*given, y, last, tokens, channels, N=a.shape[1], BLOCK=8)
    return y, last
""",
)
add(
    "triton_selective_scan",
    "wrong",
    "fetches the next step ahead, and after the last step fetches the last one again (inside the arrays): right values, one step's bytes too many, over a tenth for texts of 1 to 4 steps",
    """
import triton
import triton.language as tl


@triton.jit
def scan_kernel(
    x_ptr,
    delta_ptr,
    a_ptr,
    b_ptr,
    c_ptr,
    state_ptr,
    y_ptr,
    last_ptr,
    n_tokens,
    n_channels,
    N: tl.constexpr,
    BLOCK: tl.constexpr,
):
    i = tl.program_id(0)
    e = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    n = tl.arange(0, N)
    live = e < n_channels
    at = e[:, None] * N + n[None, :]
    a = tl.load(a_ptr + at, mask=live[:, None], other=0.0)
    h = tl.load(state_ptr + i * n_channels * N + at, mask=live[:, None], other=0.0)
    x_at = i * n_tokens * n_channels + e
    b_at = i * n_tokens * N + n
    x = tl.load(x_ptr + x_at, mask=live, other=0.0)
    delta = tl.load(delta_ptr + x_at, mask=live, other=0.0)
    b = tl.load(b_ptr + b_at)
    c = tl.load(c_ptr + b_at)
    for t in range(n_tokens):
        ahead = tl.minimum(t + 1, n_tokens - 1) - t  # 0 at the last step: stay inside
        x_next = tl.load(x_ptr + x_at + ahead * n_channels, mask=live, other=0.0)
        delta_next = tl.load(delta_ptr + x_at + ahead * n_channels, mask=live, other=0.0)
        b_next = tl.load(b_ptr + b_at + ahead * N)
        c_next = tl.load(c_ptr + b_at + ahead * N)
        h = h * tl.exp(a * delta[:, None]) + (x * delta)[:, None] * b[None, :]
        tl.store(y_ptr + x_at, tl.sum(h * c[None, :], axis=1), mask=live)
        x = x_next
        delta = delta_next
        b = b_next
        c = c_next
        x_at += n_channels
        b_at += N
    tl.store(last_ptr + i * n_channels * N + at, h, mask=live[:, None])


def triton_selective_scan(
    x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    y, last = torch.empty(x.shape), torch.empty(state.shape)
    given = [m.contiguous() for m in (x, delta, a, b, c, state)]
    batch, tokens, channels = x.shape
    grid = (batch, triton.cdiv(channels, 8))
    scan_kernel[grid](*given, y, last, tokens, channels, N=a.shape[1], BLOCK=8)
    return y, last
""",
)
add(
    "triton_chunk_state",
    "wrong",
    "product by tl.sum over a (CHUNK, D, N) block, exact on a GPU too, but with D = N = chunk = 32 it spills (144 bytes; none where one of them is 16)",
    """
import triton
import triton.language as tl


@triton.jit
def chunk_state_kernel(
    x_ptr,
    log_decay_ptr,
    b_ptr,
    written_ptr,
    n_tokens,
    n_heads,
    D: tl.constexpr,
    N: tl.constexpr,
    CHUNK: tl.constexpr,
):
    i, j, k = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    s = k * CHUNK + tl.arange(0, CHUNK)
    d, n = tl.arange(0, D), tl.arange(0, N)
    live = s < n_tokens
    row = i * n_tokens + s
    logs = tl.load(log_decay_ptr + row * n_heads + j, mask=live, other=0.0)
    x = tl.load(x_ptr + (row * n_heads + j)[:, None] * D + d[None, :], mask=live[:, None], other=0.0)
    b = tl.load(b_ptr + row[:, None] * N + n[None, :], mask=live[:, None], other=0.0)
    later = tl.cumsum(logs, axis=0, reverse=True) - logs
    faded = x * tl.exp(later)[:, None]
    written = tl.sum(faded[:, :, None] * b[:, None, :], axis=0)  # exact float32, no matrix unit
    place = (i * tl.num_programs(2) + k) * n_heads + j
    tl.store(written_ptr + (place * D + d[:, None]) * N + n[None, :], written)


def triton_chunk_state(x: Tensor, log_decay: Tensor, b: Tensor, chunk: int) -> Tensor:
    batch, tokens, heads, width = x.shape
    chunks, state = triton.cdiv(tokens, chunk), b.shape[-1]
    written = torch.empty(batch, chunks, heads, width, state)
    given = [m.contiguous() for m in (x, log_decay, b)]
    grid = (batch, heads, chunks)
    chunk_state_kernel[grid](*given, written, tokens, heads, D=width, N=state, CHUNK=chunk)
    return written
""",
)
add(
    "triton_chunk_scan",
    "wrong",
    "works on 32 channels at a time and loads b, c and the decays again for each: as few bytes as can be up to D = 32, too many from D = 64 on",
    """
import triton
import triton.language as tl


@triton.jit
def chunk_scan_kernel(
    x_ptr,
    log_decay_ptr,
    b_ptr,
    c_ptr,
    state_ptr,
    y_ptr,
    n_tokens,
    n_heads,
    D: tl.constexpr,
    N: tl.constexpr,
    CHUNK: tl.constexpr,
):
    i, j, k = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    q = tl.arange(0, CHUNK)
    n = tl.arange(0, N)
    live = k * CHUNK + q < n_tokens
    row = i * n_tokens + k * CHUNK + q
    b_at = row[:, None] * N + n[None, :]
    place = (i * tl.num_programs(2) + k) * n_heads + j
    W: tl.constexpr = D if D < 32 else 32
    for first in range(0, D, W):  # 32 channels at a time keep the registers free
        d = first + tl.arange(0, W)
        logs = tl.load(log_decay_ptr + row * n_heads + j, mask=live, other=0.0)
        run = tl.cumsum(logs, axis=0)
        sums = tl.where(q[:, None] >= q[None, :], run[:, None] - run[None, :], -float("inf"))
        b = tl.load(b_ptr + b_at, mask=live[:, None], other=0.0)
        c = tl.load(c_ptr + b_at, mask=live[:, None], other=0.0)
        x_at = (row * n_heads + j)[:, None] * D + d[None, :]
        x = tl.load(x_ptr + x_at, mask=live[:, None], other=0.0)
        state = tl.load(state_ptr + (place * D + d[:, None]) * N + n[None, :])
        scores = tl.dot(c, tl.trans(b), input_precision="ieee") * tl.exp(sums)
        y = tl.dot(scores, x, input_precision="ieee")
        y += tl.dot(c, tl.trans(state), input_precision="ieee") * tl.exp(run)[:, None]
        tl.store(y_ptr + x_at, y, mask=live[:, None])


def triton_chunk_scan(
    x: Tensor, log_decay: Tensor, b: Tensor, c: Tensor, state: Tensor, chunk: int
) -> Tensor:
    y = torch.empty(x.shape)
    given = [m.contiguous() for m in (x, log_decay, b, c, state)]
    batch, tokens, heads, width = x.shape
    grid, size = (batch, heads, triton.cdiv(tokens, chunk)), b.shape[-1]
    chunk_scan_kernel[grid](*given, y, tokens, heads, D=width, N=size, CHUNK=chunk)
    return y
""",
)
