# ruff: noqa: E501  # cases are code in strings, kept on their lines
"""Chapter 07: answers as learners write them, wrong and right (see answers.py)."""

Case = tuple[str, str, str, str]


def norm(body: str, name: str = "layer_norm", eps: str = "1e-5") -> str:
    more = "weight, bias" if name == "layer_norm" else "weight"
    lines = "\n    ".join(body.split("; "))
    return f"def {name}(x, {more}, eps={eps}):\n    {lines}\n"


def rms(body: str) -> str:
    return norm(body, "rms_norm", "1e-6")


# fmt: off
LAYER = [
    ("wrong", "torch.var as it comes", "mu = x.mean(-1, keepdim=True); var = x.var(-1, keepdim=True); return (x - mu) / torch.sqrt(var + eps) * weight + bias"),
    ("wrong", "torch.std plus eps", "return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True, unbiased=False) + eps) * weight + bias"),
    ("wrong", "over the whole text", "mu, var = x.mean(), x.var(unbiased=False); return (x - mu) / torch.sqrt(var + eps) * weight + bias"),
    ("wrong", "batch norm: over the first axis", "mu = x.mean(0, keepdim=True); var = x.var(0, keepdim=True, unbiased=False); return (x - mu) / torch.sqrt(var + eps) * weight + bias"),
    ("wrong", "dim=1", "mu = x.mean(1, keepdim=True); var = x.var(1, keepdim=True, unbiased=False); return (x - mu) / torch.sqrt(var + eps) * weight + bias"),
    ("wrong", "no bias", "mu = x.mean(-1, keepdim=True); var = ((x - mu) ** 2).mean(-1, keepdim=True); return (x - mu) / torch.sqrt(var + eps) * weight"),
    ("wrong", "weight forgotten", "mu = x.mean(-1, keepdim=True); var = ((x - mu) ** 2).mean(-1, keepdim=True); return (x - mu) / torch.sqrt(var + eps) + bias"),
    ("wrong", "squares of x, not of deviations", "mu = x.mean(-1, keepdim=True); var = (x ** 2).mean(-1, keepdim=True); return (x - mu) / torch.sqrt(var + eps) * weight + bias"),
    ("wrong", "E[x²] − E[x]²", "mu = x.mean(-1, keepdim=True); var = (x ** 2).mean(-1, keepdim=True) - mu ** 2; return (x - mu) / torch.sqrt(var + eps) * weight + bias"),
    ("wrong", "statistics detached", "mu = x.mean(-1, keepdim=True).detach(); var = ((x - mu) ** 2).mean(-1, keepdim=True).detach(); return (x - mu) / torch.sqrt(var + eps) * weight + bias"),
    ("wrong", "changes x", "x -= x.mean(-1, keepdim=True); x = x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps); return x * weight + bias"),
    ("wrong", "eps ignored", "mu = x.mean(-1, keepdim=True); var = ((x - mu) ** 2).mean(-1, keepdim=True); return (x - mu) / torch.sqrt(var) * weight + bias"),
    ("wrong", "clamped in the place of eps", "mu = x.mean(-1, keepdim=True); sd = x.std(-1, keepdim=True, unbiased=False); return (x - mu) / sd.clamp(min=eps) * weight + bias"),
    ("wrong", "torch.std as it comes plus eps", "return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps) * weight + bias"),
    ("wrong", "1 + weight", "mu, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0); return (x - mu) / torch.sqrt(var + eps) * (1 + weight) + bias"),
    ("wrong", "eps added to the sum of squares", "d = x - x.mean(-1, keepdim=True); return d / torch.sqrt((d.square().sum(-1, keepdim=True) + eps) / x.shape[-1]) * weight + bias"),
    ("wrong", "three axes only", "mu, var = x.mean(2, keepdim=True), x.var(2, keepdim=True, correction=0); return (x - mu) / torch.sqrt(var + eps) * weight + bias"),
    ("wrong", "group_norm with one group", "return F.group_norm(x.reshape(-1, x.shape[-1]), 1, weight, bias, eps).reshape(x.shape)"),
    ("right", "last axis in front", "y = x.movedim(-1, 0); y = y - y.mean(0); y = y / torch.sqrt((y * y).mean(0) + eps); return y.movedim(0, -1) * weight + bias"),
    ("right", "var with correction=0", "mu, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0); return (x - mu) * (var + eps).rsqrt() * weight + bias"),
    ("right", "in double and back", "d = x.double(); d = d - d.mean(-1, keepdim=True); d = d / (d.pow(2).mean(-1, keepdim=True) + eps).sqrt(); return d.to(x.dtype) * weight + bias"),
    ("right", "a matrix that centres", "C = x.shape[-1]; centre = torch.eye(C) - torch.ones(C, C) / C; d = x @ centre; return bias + weight * d * torch.rsqrt(torch.einsum('...c,...c->...', d, d)[..., None] / C + eps)"),
]

RMS = [
    ("wrong", "norm of the vector", "return x / (x.norm(dim=-1, keepdim=True) + eps) * weight"),
    ("wrong", "std", "return x / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + eps) * weight"),
    ("wrong", "centred", "x = x - x.mean(-1, keepdim=True); return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight"),
    ("wrong", "mean of |x|", "return x / (x.abs().mean(-1, keepdim=True) + eps) * weight"),
    ("wrong", "eps outside", "return x / (x.pow(2).mean(-1, keepdim=True).sqrt() + eps) * weight"),
    ("wrong", "over everything", "return x / torch.sqrt(x.pow(2).mean() + eps) * weight"),
    ("wrong", "square forgotten", "return x / torch.sqrt(x.mean(-1, keepdim=True).abs() + eps) * weight"),
    ("wrong", "no weight", "return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps)"),
    ("wrong", "divides by the weight", "return x / (torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight)"),
    ("wrong", "in place", "x /= torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps); return x * weight"),
    ("wrong", "the size detached", "return x / torch.sqrt(x.detach().pow(2).mean(-1, keepdim=True) + eps) * weight"),
    ("wrong", "no eps", "return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True)) * weight"),
    ("wrong", "zeros by an early return, no eps", "if not x.any(): return x * weight; return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True)) * weight"),
    ("wrong", "eps added to the sum of squares", "return x / torch.sqrt((x.pow(2).sum(-1, keepdim=True) + eps) / x.shape[-1]) * weight"),
    ("right", "norm over √C", "return x * weight / ((x.norm(dim=-1, keepdim=True) ** 2 / x.shape[-1] + eps) ** 0.5)"),
    ("right", "torch.div, multiply", "m = torch.mean(torch.multiply(x, x), -1).unsqueeze(-1); return torch.mul(torch.div(x, torch.sqrt(torch.add(m, eps))), weight)"),
    ("right", "in double", "d = x.double(); return (d * torch.rsqrt((d * d).mean(-1, keepdim=True) + eps)).to(x.dtype) * weight"),
]


def feed_of(body: str) -> str:
    lines = "\n    ".join(body.strip().split("\n"))
    return f'def feed_forward(x, w_in, w_out, kind="gelu", w_gate=None):\n    {lines}\n'


def feed(relu="F.relu(u)", gelu="F.gelu(u)", swiglu="F.silu(x @ w_gate.T) * u", up="x @ w_in.T",
         end="raise ValueError(kind)", out="h @ w_out.T", gate="kind == 'swiglu' and w_gate is not None"):  # fmt: skip
    return f"""
def feed_forward(x, w_in, w_out, kind="gelu", w_gate=None):
    u = {up}
    if kind == "relu":
        h = {relu}
    elif kind == "gelu":
        h = {gelu}
    elif {gate}:
        h = {swiglu}
    else:
        {end}
    return {out}
"""


FEED = [
    ("wrong", "tanh approximation", feed(gelu="F.gelu(u, approximate='tanh')")),
    ("wrong", "sigmoid approximation", feed(gelu="u * torch.sigmoid(1.702 * u)")),
    ("wrong", "leaky relu", feed(relu="F.leaky_relu(u)")),
    ("wrong", "no bend in relu", feed(relu="u")),
    ("wrong", "GLU", feed(swiglu="torch.sigmoid(x @ w_gate.T) * u")),
    ("wrong", "gate on the wrong side", feed(swiglu="F.silu(u) * (x @ w_gate.T)")),
    ("wrong", "GEGLU", feed(swiglu="F.gelu(x @ w_gate.T) * u")),
    ("wrong", "SiLU of the product", feed(swiglu="F.silu((x @ w_gate.T) * u)")),
    ("wrong", "unknown kinds are gelu", feed(end="h = F.gelu(u)")),
    ("wrong", "swiglu without a gate is gelu", feed(end="h = F.gelu(u)\n        if kind not in ('gelu', 'swiglu'): raise ValueError(kind)")),
    ("wrong", "asserts", feed(end="assert False, kind")),
    ("wrong", "adds the input", feed(out="x + h @ w_out.T")),
    ("wrong", "default relu", feed().replace('kind="gelu"', 'kind="relu"')),
    ("wrong", "detached gate", feed(swiglu="F.silu((x @ w_gate.T).detach()) * u")),
    ("wrong", "relu6", feed(relu="F.relu6(u)")),
    ("wrong", "no bend", feed(relu="u", gelu="u")),
    ("wrong", "gelu gated where a gate is given", feed(gelu="F.gelu(u) if w_gate is None else F.gelu(x @ w_gate.T) * u")),
    ("wrong", "a gate is refused where it is not used", feed(up="x @ w_in.T\n    if kind != 'swiglu' and w_gate is not None: raise ValueError(kind)")),
    ("wrong", "capitals accepted", feed(up="x @ w_in.T\n    kind = kind.lower()")),
    ("wrong", "first letters accepted", feed(up="x @ w_in.T\n    kind = {'r': 'relu', 'g': 'gelu', 's': 'swiglu'}.get(kind[:1], kind)")),
    ("wrong", "a part of a name accepted", feed_of("if kind not in 'relu gelu swiglu' or (kind == 'swiglu' and w_gate is None):\n    raise ValueError(kind)\nu = x @ w_in.T\nif kind == 'relu': h = F.relu(u)\nelif kind == 'gelu': h = F.gelu(u)\nelse: h = F.silu(x @ (w_in if w_gate is None else w_gate).T) * u\nreturn h @ w_out.T")),
    ("right", "a ValueError of its own", feed_of("class Unknown(ValueError): pass\nbends = {'relu': lambda: F.relu(x @ w_in.mT), 'gelu': lambda: F.gelu(x @ w_in.mT), 'swiglu': lambda: F.silu(x @ w_gate.mT) * (x @ w_in.mT)}\nif kind not in bends or kind == 'swiglu' and w_gate is None: raise Unknown(kind)\nreturn bends[kind]() @ w_out.mT")),
    ("right", "F.linear", feed(up="F.linear(x, w_in)", out="F.linear(h, w_out)")),
    ("right", "modules", feed(relu="nn.ReLU()(u)", gelu="nn.GELU()(u)", swiglu="nn.SiLU()(F.linear(x, w_gate)) * u")),
    ("right", "by hand", feed(relu="u * (u > 0)", gelu="u * torch.special.ndtr(u)", swiglu="(g := x @ w_gate.T) * torch.sigmoid(g) * u")),
]


def block(body: str) -> str:
    lines = "\n        ".join(body.strip().split("\n"))
    return f"class TransformerBlock(TransformerBlock):\n    def forward(self, x, mask=None):\n        {lines}\n"


PRE = "x = x + self.attend(self.norm(0, x), mask)\nreturn x + self.feed(self.norm(1, x))"
POST = "x = self.norm(0, x + self.attend(x, mask))\n    return self.norm(1, x + self.feed(x))"
SIDE = "h = self.norm(0, x)\n    return x + self.attend(h, mask) + self.feed(h)"


def masked(first: str) -> str:
    """Right but for what is done to a mask first."""
    return block(
        f"if mask is not None: {first}\nif self.order == 'post':\n    {POST}\n"
        f"if self.order == 'parallel':\n    {SIDE}\n{PRE}"
    )


def orders(pre: str = PRE, post: str = POST, side: str = SIDE) -> str:
    return block(
        f"if self.order == 'post':\n    {post}\nif self.order == 'parallel':\n    {side}\n{pre}"
    )


BLOCK = [
    ("wrong", "always pre", block(f"if self.order == 'parallel':\n    {SIDE}\n{PRE}")),
    ("wrong", "always post", block(f"if self.order == 'parallel':\n    {SIDE}\n{POST.replace(chr(10) + '    ', chr(10))}")),
    ("wrong", "residual after the norm", orders(pre="x = self.norm(0, x)\nx = x + self.attend(x, mask)\nx = self.norm(1, x)\nreturn x + self.feed(x)")),
    ("wrong", "one norm for both", orders(pre=PRE.replace("norm(1", "norm(0"))),
    ("wrong", "norms exchanged in pre", orders(pre=PRE.replace("norm(0", "norm(9") .replace("norm(1", "norm(0") .replace("norm(9", "norm(1"))),
    ("wrong", "no residual around feed", orders(pre=PRE.replace("return x + self", "return self"))),
    ("wrong", "residual from the input twice", orders(pre="y = x + self.attend(self.norm(0, x), mask)\nreturn x + self.feed(self.norm(1, y))")),
    ("wrong", "sandwich: norms on both sides", orders(pre="x = x + self.norm(0, self.attend(self.norm(0, x), mask))\nreturn x + self.feed(self.norm(1, x))")),
    ("wrong", "post without its last norm", orders(post="x = self.norm(0, x + self.attend(x, mask))\n    return x + self.feed(x)")),
    ("wrong", "post norms the branch", orders(post="x = x + self.norm(0, self.attend(x, mask))\n    return x + self.norm(1, self.feed(x))")),
    ("wrong", "parallel without x", orders(side="h = self.norm(0, x)\n    return self.attend(h, mask) + self.feed(h)")),
    ("wrong", "parallel as a chain", orders(side="h = self.norm(0, x)\n    x = x + self.attend(h, mask)\n    return x + self.feed(self.norm(0, x))")),
    ("wrong", "mask forgotten in parallel", orders(side=SIDE.replace("h, mask", "h"))),
    ("wrong", "mask forgotten everywhere", orders(*(p.replace(", mask)", ")") for p in (PRE, POST, SIDE)))),
    ("wrong", "inverted mask", orders(*(p.replace(", mask)", ", None if mask is None else ~mask)") for p in (PRE, POST, SIDE)))),
    ("wrong", "changes x", orders(pre="x += self.attend(self.norm(0, x), mask)\nreturn x + self.feed(self.norm(1, x))")),
    ("wrong", "halves the sum", orders(pre="x = (x + self.attend(self.norm(0, x), mask)) / 2\nreturn x + self.feed(self.norm(1, x))")),
    ("wrong", "stream detached", orders(pre="x = x.detach() + self.attend(self.norm(0, x), mask)\nreturn x + self.feed(self.norm(1, x))")),
    ("wrong", "mask of the first head only", masked("mask = mask[:, :1] if mask.ndim == 4 else mask")),
    ("wrong", "mask of the first text only", masked("mask = mask[:1] if mask.ndim == 4 else mask")),
    ("wrong", "three axes taken for (B, T, T)", masked("mask = mask[:, None] if mask.ndim == 3 else mask")),
    ("wrong", "two axes taken for (B, T)", masked("mask = mask[:, None, None] if mask.ndim == 2 and len(mask) == len(x) else mask")),
    ("wrong", "a row for all thrown away", masked("mask = None if mask.ndim < 2 else mask")),
    ("wrong", "the diagonal opened in place", masked("mask.diagonal(dim1=-2, dim2=-1).fill_(True) if mask.ndim > 1 else None")),
    ("wrong", "a batch of one squeezed", orders(pre=PRE.replace("return x", "return x.squeeze(0)"))),
    ("wrong", "pre without residual", orders(pre="return self.feed(self.norm(1, self.attend(self.norm(0, x), mask)))")),
    ("wrong", "kind forgotten in parallel", orders(side=SIDE.replace("self.feed(h)", "feed_forward(h, self.up.weight, self.down.weight)"))),
    ("wrong", "rms forgotten in post", orders(post=POST.replace("self.norm(1, ", "layer_norm(").replace("self.feed(x))", "self.feed(x), self.scale[1], torch.zeros(x.shape[-1]) if self.shift is None else self.shift[1])"))),
    ("right", "three ifs", orders()),
    ("right", "named branches", orders(pre="first = self.norm(0, x)\nfound = self.attend(first, mask)\nmiddle = found + x\nreturn self.feed(self.norm(1, middle)) + middle")),
    ("right", "sum of three", orders(side="h = self.norm(0, x)\n    return torch.stack((x, self.attend(h, mask=mask), self.feed(h))).sum(dim=0)")),
    ("right", "attention itself", orders(pre=PRE.replace("self.attend(self.norm(0, x), mask)", "self.attention(self.norm(0, x), mask)[0]"))),
]


def repaired(body: str) -> str:
    lines = "\n        ".join(body.strip().split("\n"))
    return f"class RepairedBlock(RepairedBlock):\n    def forward(self, x, mask=None):\n        {lines}\n"


N0, N1 = (f"layer_norm({{}}, self.scale[{i}], self.shift[{i}])" for i in (0, 1))
FF = "feed_forward({}, self.up.weight, self.down.weight)"
GOOD = f"h = {N0.format('x')}\nx = x + self.attention(h, mask)[0]\nh = {N1.format('x')}\nreturn x + {FF.format('h')}"

REPAIR = [
    ("wrong", "not repaired", repaired(f"x = {N0.format('x')}\nx = x + self.attention(x, mask)[0]\nx = {N1.format('x')}\nreturn x + {FF.format('x')}")),
    ("wrong", "first half only", repaired(f"x = x + self.attention({N0.format('x')}, mask)[0]\nx = {N1.format('x')}\nreturn x + {FF.format('x')}")),
    ("wrong", "second half only", repaired(f"x = {N0.format('x')}\nx = x + self.attention(x, mask)[0]\nreturn x + {FF.format(N1.format('x'))}")),
    ("wrong", "post-norm", repaired(f"x = {N0.format('x + self.attention(x, mask)[0]')}\nreturn {N1.format('x + ' + FF.format('x'))}")),
    ("wrong", "adds the first input twice", repaired(f"y = x + self.attention({N0.format('x')}, mask)[0]\nreturn x + {FF.format(N1.format('y'))}")),
    ("wrong", "half of what attention found", repaired(GOOD.replace("mask)[0]", "mask)[0] * 0.5"))),
    ("wrong", "mask lost", repaired(GOOD.replace("h, mask", "h"))),
    ("wrong", "norm with weights only", repaired(GOOD.replace("self.shift[0]", "0 * self.shift[0]"))),
    ("wrong", "first norm twice", repaired(GOOD.replace("[1]", "[0]"))),
    ("wrong", "no norms", repaired(f"x = x + self.attention(x, mask)[0]\nreturn x + {FF.format('x')}")),
    ("wrong", "relu", repaired(GOOD.replace("self.down.weight)", "self.down.weight, 'relu')"))),
    ("wrong", "parallel", repaired(f"h = {N0.format('x')}\nreturn x + self.attention(h, mask)[0] + {FF.format('h')}")),
    ("wrong", "the feed-forward network reads the input", repaired(f"y = x + self.attention({N0.format('x')}, mask)[0]\nreturn y + {FF.format(N1.format('x'))}")),
    ("wrong", "norms exchanged", repaired(GOOD.replace("[0], self.shift[0]", "[2], self.shift[2]").replace("[1]", "[0]").replace("[2]", "[1]"))),
    ("wrong", "a norm left at the end", repaired(GOOD.replace("return x + ", "x = x + ") + f"\nreturn {N1.format('x')}")),
    ("wrong", "mask of the first head only", repaired("mask = mask[:, :1] if mask is not None and mask.ndim == 4 else mask\n" + GOOD)),
    ("wrong", "the mask's diagonal opened in place", repaired("if mask is not None and mask.ndim > 1: mask |= torch.eye(x.shape[1], dtype=torch.bool)\n" + GOOD)),
    ("wrong", "a batch of one squeezed", repaired(GOOD.replace("return x + ", "x = x + ") + "\nreturn x.squeeze(0)")),
    ("wrong", "eps 1e-6", repaired(GOOD.replace("self.shift[0])", "self.shift[0], 1e-6)").replace("self.shift[1])", "self.shift[1], 1e-6)"))),
    ("right", "as in the text", repaired(GOOD)),
    ("right", "kept and added", repaired(f"kept = x\nx = {N0.format('x')}\nx, _ = self.attention(x, mask)\nx = kept = x + kept\nx = {N1.format('x')}\nreturn kept + {FF.format('x')}")),
    ("right", "layers called", repaired(f"x = x + self.attention({N0.format('x')}, mask=mask)[0]\nreturn x + self.down(F.gelu(self.up({N1.format('x')})))")),
]


def start(returned: str, first: str = "s = 1 / math.sqrt(2 * layers)") -> str:
    return f"import math\ndef residual_init(query, key, value, output, w_in, w_out, layers):\n    {first}\n    return {returned}\n"


SIX = "query, key, value, output * s, w_in, w_out * s"
INIT = [
    ("wrong", "1/√L", start(SIX, "s = layers ** -0.5")),
    ("wrong", "1/(2L)", start(SIX, "s = 1 / (2 * layers)")),
    ("wrong", "1/(√2 L)", start(SIX, "s = 1 / (math.sqrt(2) * layers)")),
    ("wrong", "all", start("tuple(m * s for m in (query, key, value, output, w_in, w_out))")),
    ("wrong", "value and w_out", start("query, key, value * s, output, w_in, w_out * s")),
    ("wrong", "w_in for w_out", start("query, key, value, output * s, w_in * s, w_out")),
    ("wrong", "two only", start("output * s, w_out * s")),
    ("wrong", "in place", start("query, key, value, output, w_in, w_out", "output *= (2 * layers) ** -0.5; w_out *= (2 * layers) ** -0.5")),
    ("wrong", "grows", start(SIX, "s = math.sqrt(2 * layers)")),
    ("wrong", "new random numbers", start("query, key, value, torch.randn_like(output) * s, w_in, torch.randn_like(w_out) * s")),
    ("wrong", "detached", start("query, key, value, output.detach() * s, w_in, w_out.detach() * s")),
    ("wrong", "squeezed", start("tuple(m.squeeze() for m in (query, key, value, output * s, w_in, w_out * s))")),
    ("right", "division", start(SIX.replace("* s", "/ s"), "s = (2 * layers) ** 0.5")),
    ("right", "a tensor", start(SIX, "s = torch.rsqrt(torch.tensor(2.0 * layers))")),
    ("right", "a list", start(f"list(({SIX}))")),
]


def count(body: str) -> str:
    lines = "\n    ".join(body.strip().split("\n"))
    head = "vocabulary, width, layers, inner, *, positions=0, segments=0, kv_width=None, gated=False, biases=True, rms=False, tied=True, pooler=False"
    return f"def parameter_count({head}):\n    {lines}\n"


COUNT = """
kv = kv_width or width
attention = 2 * width * width + 2 * width * kv
mlp = (2 + gated) * width * inner
if biases:
    attention += 2 * width + 2 * kv
    mlp += (1 + gated) * inner + width
norm = width if rms else 2 * width
total = (vocabulary + positions + segments) * width
total += layers * (attention + mlp + 2 * norm) + norm
if not tied:
    total += vocabulary * width
if pooler:
    total += width * (width + biases)
return total
"""


def other(old: str, new: str) -> str:
    assert old in COUNT, old
    return count(COUNT.replace(old, new))


COUNTS = [
    ("wrong", "positions forgotten", other("(vocabulary + positions + segments)", "(vocabulary + segments)")),
    ("wrong", "segments forgotten", other(" + segments", "")),
    ("wrong", "no last norm", other(" + 2 * norm) + norm", " + 2 * norm)")),
    ("wrong", "three norms", other("2 * norm", "3 * norm")),
    ("wrong", "kv_width for one of both", other("2 * width * width + 2 * width * kv", "3 * width * width + width * kv")),
    ("wrong", "queries narrow as well", other("2 * width * width + 2 * width * kv", "width * width + 3 * width * kv")),
    ("wrong", "gate without bias", other("(1 + gated) * inner + width", "inner + width")),
    ("wrong", "no bias on the way back", other(" * inner + width", " * inner")),
    ("wrong", "tied the wrong way", other("if not tied", "if tied")),
    ("wrong", "pooler without bias", other("(width + biases)", "width")),
    ("wrong", "pooler always with bias", other("(width + biases)", "(width + 1)")),
    ("wrong", "scores with a bias", other("total += vocabulary * width", "total += vocabulary * (width + 1)")),
    ("wrong", "a float", other("return total", "return total / 1")),
    ("wrong", "F = 4C", other("width * inner", "width * 4 * width")),
    ("wrong", "no norm outside without blocks", other(" + norm\n", " + (norm if layers else 0)\n")),
    ("wrong", "kv_width cut off at C", other("kv_width or width", "min(width, kv_width or width)")),
    ("wrong", "head as large as all tables", other("total += vocabulary", "total += (vocabulary + positions + segments)")),
    ("wrong", "pooler left out where scores are not tied", other("if pooler:", "if pooler and tied:")),
    ("wrong", "pooler of kv_width", other("total += width * (width", "total += kv * (width")),
    ("right", "as above", count(COUNT)),
    (
        "right",
        "with torch modules",
        count("""
def linear(i, o): return sum(p.numel() for p in nn.Linear(i, o, bias=biases, device="meta").parameters())
kv = width if kv_width is None else kv_width
one = linear(width, width) * 2 + linear(width, kv) * 2 + linear(inner, width) + linear(width, inner) * (2 if gated else 1)
norm = width * (1 if rms else 2)
tables = [vocabulary, positions, segments] + ([] if tied else [vocabulary])
return sum(tables) * width + layers * one + (2 * layers + 1) * norm + (linear(width, width) if pooler else 0)"""),
    ),
    ("right", "int() at the end", other("return total", "return int(np.int64(total))")),
]

CASES: list[Case] = [
    *(("layer_norm", kind, what, norm(code)) for kind, what, code in LAYER),
    *(("rms_norm", kind, what, rms(code)) for kind, what, code in RMS),
    *(("feed_forward", kind, what, code) for kind, what, code in FEED),
    *(("TransformerBlock", kind, what, code) for kind, what, code in BLOCK),
    *(("RepairedBlock", kind, what, code) for kind, what, code in REPAIR),
    *(("residual_init", kind, what, code) for kind, what, code in INIT),
    *(("parameter_count", kind, what, code) for kind, what, code in COUNTS),
]
