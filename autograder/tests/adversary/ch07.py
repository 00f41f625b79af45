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
    ("wrong", "statistics without a graph", "mu, var = x.detach().mean(-1, keepdim=True), x.detach().var(-1, keepdim=True, correction=0); return (x - mu) / torch.sqrt(var + eps) * weight + bias"),
    ("wrong", "squeezed in the place of keepdim", "d = x - x.mean(-1, keepdim=True).squeeze()[..., None]; var = (d * d).mean(-1, keepdim=True).squeeze()[..., None]; return d / torch.sqrt(var + eps) * weight + bias"),
    ("wrong", "in place where no gradient is asked for", "d = x.clone() if x.requires_grad else x.contiguous(); d -= d.mean(-1, keepdim=True); return d / torch.sqrt((d * d).mean(-1, keepdim=True) + eps) * weight + bias"),
    ("right", "token by token", "d = [row - row.mean() for row in x.reshape(-1, x.shape[-1])]; return torch.stack([r / (r.dot(r) / len(r) + eps).sqrt() for r in d]).reshape(x.shape) * weight + bias"),
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
    ("wrong", "squeezed in the place of keepdim", "return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True).squeeze()[..., None] + eps) * weight"),
    ("wrong", "in place where no gradient is asked for", "m = torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps); x = x / m if x.requires_grad else x.div_(m); return x * weight"),
    ("right", "hypot with the root of eps", "m = x.norm(dim=-1, keepdim=True) / x.shape[-1] ** 0.5; return x / torch.hypot(m, torch.tensor(eps ** 0.5, dtype=x.dtype)) * weight"),
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
    ("wrong", "activated a second time", feed_of("if kind == 'relu': return F.relu(F.relu(x @ w_in.T) @ w_out.T)\nif kind == 'gelu': return F.gelu(F.gelu(x @ w_in.T) @ w_out.T)\nif kind != 'swiglu' or w_gate is None: raise ValueError(kind)\nreturn (F.silu(x @ w_gate.T) * (x @ w_in.T)) @ w_out.T")),
    ("wrong", "swiglu flattens by view", feed(swiglu="(F.silu(x.view(-1, x.shape[-1]) @ w_gate.T) * (x.view(-1, x.shape[-1]) @ w_in.T)).view(*x.shape[:-1], -1)")),
    ("wrong", "swiglu without a gate is gated by itself", feed(swiglu="F.silu(x @ (w_in if w_gate is None else w_gate).T) * u", gate="kind == 'swiglu'")),
    ("wrong", "x cut off on its way to the gate", feed(swiglu="F.silu(x.detach() @ w_gate.T) * u")),
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
    ("wrong", "a batch of one squeezed", orders(pre=PRE.replace("return x", "x = x") + "\nreturn x.squeeze(0)")),
    ("wrong", "pre without residual", orders(pre="return self.feed(self.norm(1, self.attend(self.norm(0, x), mask)))")),
    ("wrong", "kind forgotten in parallel", orders(side=SIDE.replace("self.feed(h)", "feed_forward(h, self.up.weight, self.down.weight)"))),
    ("wrong", "rms forgotten in post", orders(post=POST.replace("self.norm(1, ", "layer_norm(").replace("self.feed(x))", "self.feed(x), self.scale[1], torch.zeros(x.shape[-1]) if self.shift is None else self.shift[1])"))),
    ("wrong", "post takes norm 0 twice", orders(post=POST.replace("norm(1", "norm(0"))),
    ("wrong", "pre detached at the second sum", orders(pre=PRE.replace("return x + ", "return x.detach() + "))),
    ("wrong", "parallel feeds a detached norm", orders(side=SIDE.replace("self.feed(h)", "self.feed(h.detach())"))),
    ("right", "a copy changed in place", orders(pre="y = x.clone()\ny += self.attend(self.norm(0, x), mask)\nreturn y + self.feed(self.norm(1, y))")),
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
    ("wrong", "scale of one norm, shift of the other", repaired(GOOD.replace("self.scale[1]", "self.scale[0]"))),
    ("wrong", "second norm detached", repaired(GOOD.replace("self.shift[1])", "self.shift[1]).detach()"))),
    ("wrong", "a mask of two axes cut in place", repaired("if mask is not None and mask.ndim == 2: mask &= mask.tril()\n" + GOOD)),
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
    ("wrong", "isqrt", start(SIX, "s = 1 / math.isqrt(2 * layers)")),
    ("wrong", "one block left as it is", start(SIX, "s = (2 * layers) ** -0.5 if layers > 1 else 1.0")),
    ("wrong", "in place where no gradient is asked for", start("query, key, value, output * s, w_in, w_out * s if w_out.requires_grad else w_out.mul_(s)")),
    ("wrong", "new parameters", start("query, key, value, nn.Parameter(output * s), w_in, nn.Parameter(w_out * s)")),
    ("right", "lerp from zeros", start("query, key, value, torch.lerp(torch.zeros_like(output), output, s), w_in, torch.lerp(torch.zeros_like(w_out), w_out, s)")),
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
    ("wrong", "no shift without biases", other("width if rms else", "width if rms or not biases else")),
    ("wrong", "scores with a bias where there are biases", other("total += vocabulary * width", "total += vocabulary * (width + biases)")),
    ("wrong", "NumPy's int64", other("return total", "return np.int64(total)")),
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

# fmt: on


def lines_of(head: str, body: str) -> str:
    return head + "\n    " + "\n    ".join(body.strip().split("\n")) + "\n"


def plain_norm(body: str) -> str:
    return lines_of("def layer_norm(x, weight, bias, eps=1e-5):", body)


def plain_rms(body: str) -> str:
    return lines_of("def rms_norm(x, weight, eps=1e-6):", body)


def plain_init(body: str) -> str:
    return lines_of("def residual_init(query, key, value, output, w_in, w_out, layers):", body)


MORE: list[Case] = [
    (
        "rms_norm",
        "wrong",
        "layer norm's eps where none is given",
        norm("return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight", "rms_norm"),
    ),
    (
        "layer_norm",
        "wrong",
        "scales the shift too",
        plain_norm("""
d = x - x.mean(-1, keepdim=True)
return (d / torch.sqrt((d * d).mean(-1, keepdim=True) + eps) + bias) * weight"""),
    ),
    (
        "layer_norm",
        "wrong",
        "no root",
        plain_norm("""
d = x - x.mean(-1, keepdim=True)
return d / ((d * d).mean(-1, keepdim=True) + eps) * weight + bias"""),
    ),
    (
        "layer_norm",
        "wrong",
        "mean and variance over all tokens of a text",
        plain_norm("""
dims = tuple(range(1, x.dim())) if x.dim() > 2 else (-1,)
d = x - x.mean(dims, keepdim=True)
return d / torch.sqrt((d * d).mean(dims, keepdim=True) + eps) * weight + bias"""),
    ),
    (
        "layer_norm",
        "wrong",
        "x -= mean where no gradient is wanted",
        plain_norm("""
mu = x.mean(-1, keepdim=True)
if x.requires_grad:
    x = x - mu
else:
    x -= mu
return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight + bias"""),
    ),
    (
        "layer_norm",
        "wrong",
        "one token comes back as (1, C)",
        plain_norm("""
x = torch.atleast_2d(x)
d = x - x.mean(-1, keepdim=True)
return d / torch.sqrt((d * d).mean(-1, keepdim=True) + eps) * weight + bias"""),
    ),
    (
        "layer_norm",
        "wrong",
        "eps only where the variance is 0",
        plain_norm("""
d = x - x.mean(-1, keepdim=True)
var = (d * d).mean(-1, keepdim=True)
return d / torch.sqrt(torch.where(var == 0, var + eps, var)) * weight + bias"""),
    ),
    (
        "layer_norm",
        "wrong",
        "x.view(-1, C)",
        plain_norm("""
C = x.shape[-1]
rows = x.view(-1, C)
d = rows - rows.mean(-1, keepdim=True)
return (d / torch.sqrt((d * d).mean(-1, keepdim=True) + eps) * weight + bias).view(x.shape)"""),
    ),
    (
        "layer_norm",
        "right",
        "var_mean and addcmul",
        plain_norm("""
var, mu = torch.var_mean(x, -1, correction=0, keepdim=True)
return torch.addcmul(bias, (x - mu) * torch.rsqrt(var + eps), weight)"""),
    ),
    (
        "layer_norm",
        "right",
        "loop over tokens",
        plain_norm("""
rows = []
for row in x.reshape(-1, x.shape[-1]).unbind(0):
    d = row - row.sum() / len(row)
    rows.append(weight * (d / (d.dot(d) / len(row) + eps) ** 0.5) + bias)
return torch.stack(rows).reshape(x.shape)"""),
    ),
    (
        "layer_norm",
        "right",
        "einsum, axis moved to the front",
        plain_norm("""
h = x.movedim(-1, 0)
d = h - h.mean(0)
var = torch.einsum('c...,c...->...', d, d) / d.shape[0]
return (d / torch.sqrt(var + eps)).movedim(0, -1) * weight + bias"""),
    ),
    (
        "rms_norm",
        "wrong",
        "sum, not mean",
        plain_rms("""
return x / torch.sqrt((x * x).sum(-1, keepdim=True) + eps) * weight"""),
    ),
    (
        "rms_norm",
        "wrong",
        "square of the mean",
        plain_rms("""
return x / torch.sqrt(x.mean(-1, keepdim=True) ** 2 + eps) * weight"""),
    ),
    (
        "rms_norm",
        "wrong",
        "eps as a lower bound",
        plain_rms("""
return x * torch.rsqrt((x * x).mean(-1, keepdim=True).clamp(min=eps)) * weight"""),
    ),
    (
        "rms_norm",
        "wrong",
        "x /= where no gradient is wanted",
        plain_rms("""
rms = torch.sqrt((x * x).mean(-1, keepdim=True) + eps)
if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad):
    return x / rms * weight
x /= rms
return x * weight"""),
    ),
    (
        "rms_norm",
        "wrong",
        "weight.detach()",
        plain_rms("""
return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight.detach()"""),
    ),
    (
        "rms_norm",
        "wrong",
        "eps fixed at 1e-6",
        plain_rms("""
return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight"""),
    ),
    (
        "rms_norm",
        "right",
        "hypot of the RMS and the root of eps",
        plain_rms("""
rms = torch.linalg.vector_norm(x, dim=-1, keepdim=True) / x.shape[-1] ** 0.5
return weight * x / torch.hypot(rms, torch.full_like(rms, eps ** 0.5))"""),
    ),
    (
        "rms_norm",
        "right",
        "einsum with diag(weight)",
        plain_rms("""
s = torch.einsum('...c,...c->...', x, x) / x.size(-1)
return torch.einsum('...,...c,cd->...d', (s + eps) ** -0.5, x, torch.diag(weight))"""),
    ),
    (
        "rms_norm",
        "right",
        "recursion over leading axes",
        plain_rms("""
if x.dim() > 1:
    return torch.stack([rms_norm(part, weight, eps) for part in x])
return x / ((x @ x) / x.numel() + eps).sqrt() * weight"""),
    ),
    (
        "feed_forward",
        "wrong",
        "dictionary: another kind is a KeyError",
        feed_of("""
if kind == 'swiglu':
    if w_gate is None: raise ValueError('no gate')
    return (F.silu(x @ w_gate.T) * (x @ w_in.T)) @ w_out.T
return {'relu': F.relu, 'gelu': F.gelu}[kind](x @ w_in.T) @ w_out.T"""),
    ),
    (
        "feed_forward",
        "wrong",
        "swiglu without gate takes w_in",
        feed_of("""
if kind == 'relu': return F.relu(x @ w_in.T) @ w_out.T
if kind == 'gelu': return F.gelu(x @ w_in.T) @ w_out.T
if kind == 'swiglu': return (F.silu(x @ (w_in if w_gate is None else w_gate).T) * (x @ w_in.T)) @ w_out.T
raise ValueError(kind)"""),
    ),
    (
        "feed_forward",
        "wrong",
        "bend after the second matrix",
        feed_of("""
if kind == 'relu': return F.relu(x @ w_in.T @ w_out.T)
if kind == 'gelu': return F.gelu(x @ w_in.T @ w_out.T)
if kind == 'swiglu' and w_gate is not None: return (F.silu(x @ w_gate.T) * (x @ w_in.T)) @ w_out.T
raise ValueError(kind)"""),
    ),
    (
        "feed_forward",
        "wrong",
        "kind or 'gelu': '' is accepted",
        feed_of("""
kind = kind or 'gelu'
if kind == 'relu': return F.relu(x @ w_in.T) @ w_out.T
if kind == 'gelu': return F.gelu(x @ w_in.T) @ w_out.T
if kind == 'swiglu' and w_gate is not None: return (F.silu(x @ w_gate.T) * (x @ w_in.T)) @ w_out.T
raise ValueError(kind)"""),
    ),
    (
        "feed_forward",
        "wrong",
        "relu and gelu gate when w_gate is given",
        feed_of("""
if kind not in ('relu', 'gelu', 'swiglu') or kind == 'swiglu' and w_gate is None: raise ValueError(kind)
act = {'relu': F.relu, 'gelu': F.gelu, 'swiglu': F.silu}[kind]
if w_gate is None: return act(x @ w_in.T) @ w_out.T
return (act(x @ w_gate.T) * (x @ w_in.T)) @ w_out.T"""),
    ),
    (
        "feed_forward",
        "wrong",
        "the gate under no_grad",
        feed_of("""
if kind == 'relu': return F.relu(x @ w_in.T) @ w_out.T
if kind == 'gelu': return F.gelu(x @ w_in.T) @ w_out.T
if kind == 'swiglu' and w_gate is not None:
    with torch.no_grad():
        gate = F.silu(x @ w_gate.T)
    return (gate * (x @ w_in.T)) @ w_out.T
raise ValueError(kind)"""),
    ),
    (
        "feed_forward",
        "right",
        "the formulas letter by letter",
        feed_of("""
u = x @ w_in.T
if kind == 'relu': h = torch.maximum(u, torch.zeros_like(u))
elif kind == 'gelu': h = u * 0.5 * (1 + torch.erf(u / math.sqrt(2)))
elif kind == 'swiglu' and w_gate is not None:
    g = x @ w_gate.T
    h = g / (1 + torch.exp(-g)) * u
else: raise ValueError('no such kind')
return h @ w_out.T"""),
    ),
    (
        "feed_forward",
        "right",
        "own subclass of ValueError, match, F.linear",
        feed_of("""
class NoSuchKind(ValueError): ...
match kind, w_gate:
    case 'relu', _: h = F.relu(F.linear(x, w_in))
    case 'gelu', _: h = F.gelu(F.linear(x, w_in))
    case 'swiglu', torch.Tensor(): h = F.silu(F.linear(x, w_gate)) * F.linear(x, w_in)
    case _: raise NoSuchKind(kind, w_gate)
return F.linear(h, w_out)"""),
    ),
    (
        "feed_forward",
        "right",
        "einsum and Normal.cdf by ndtr",
        feed_of("""
bends = {'relu': lambda u, g: u * (u > 0), 'gelu': lambda u, g: u * torch.special.ndtr(u),
         'swiglu': lambda u, g: g * torch.sigmoid(g) * u}
try: bend = bends[kind]
except KeyError as e: raise ValueError(f'{kind}?') from e
g = None
if kind == 'swiglu':
    if w_gate is None: raise ValueError('swiglu needs w_gate')
    g = torch.einsum('...c,fc->...f', x, w_gate)
return torch.einsum('...f,cf->...c', bend(torch.einsum('...c,fc->...f', x, w_in), g), w_out)"""),
    ),
    (
        "feed_forward",
        "right",
        "sum over the F numbers one by one",
        feed_of("""
if kind not in ('relu', 'gelu', 'swiglu'): raise ValueError(kind)
if kind == 'swiglu' and w_gate is None: raise ValueError('gate')
out = torch.zeros_like(x)
for f in range(w_in.shape[0]):
    u = (x * w_in[f]).sum(-1, keepdim=True)
    if kind == 'relu': h = F.relu(u)
    elif kind == 'gelu': h = F.gelu(u)
    else: h = F.silu((x * w_gate[f]).sum(-1, keepdim=True)) * u
    out = out + h * w_out[:, f]
return out"""),
    ),
    (
        "TransformerBlock",
        "wrong",
        "parallel adds the stream twice",
        block("""
if self.order == 'pre':
    x = x + self.attend(self.norm(0, x), mask)
    return x + self.feed(self.norm(1, x))
if self.order == 'post':
    x = self.norm(0, x + self.attend(x, mask))
    return self.norm(1, x + self.feed(x))
n = self.norm(0, x)
return (x + self.attend(n, mask)) + (x + self.feed(n))"""),
    ),
    (
        "TransformerBlock",
        "wrong",
        "mask cut to [..., :T, :T], fails on a mask with one axis",
        block("""
if mask is not None:
    mask = mask[..., :x.shape[1], :x.shape[1]]
if self.order == 'pre':
    x = x + self.attend(self.norm(0, x), mask)
    return x + self.feed(self.norm(1, x))
if self.order == 'post':
    x = self.norm(0, x + self.attend(x, mask))
    return self.norm(1, x + self.feed(x))
n = self.norm(0, x)
return x + self.attend(n, mask) + self.feed(n)"""),
    ),
    (
        "TransformerBlock",
        "wrong",
        "parallel: feed under no_grad",
        block("""
if self.order == 'pre':
    x = x + self.attend(self.norm(0, x), mask)
    return x + self.feed(self.norm(1, x))
if self.order == 'post':
    x = self.norm(0, x + self.attend(x, mask))
    return self.norm(1, x + self.feed(x))
n = self.norm(0, x)
with torch.no_grad():
    fed = self.feed(n)
return x + self.attend(n, mask) + fed"""),
    ),
    (
        "TransformerBlock",
        "wrong",
        "the constructor no longer refuses an unknown norm",
        """
from attend_solutions.multi_head import MultiHeadAttention
class TransformerBlock(nn.Module):
    def __init__(self, width, heads, order="pre", norm="layer", kind="gelu"):
        super().__init__()
        if order not in ("pre", "post", "parallel"):
            raise ValueError(f"no such block: order {order!r}, norm {norm!r}.")
        inner, norms = 4 * width, 1 if order == "parallel" else 2
        if kind == "swiglu":
            inner = round(8 * width / 3)
        self.order, self.kind = order, kind
        self.attention = MultiHeadAttention(width, heads)
        self.up = nn.Linear(width, inner, bias=False)
        self.gate = nn.Linear(width, inner, bias=False) if kind == "swiglu" else None
        self.down = nn.Linear(inner, width, bias=False)
        self.scale = nn.Parameter(torch.ones(norms, width))
        self.shift = nn.Parameter(torch.zeros(norms, width)) if norm == "layer" else None
    def attend(self, x, mask=None):
        return self.attention(x, mask)[0]
    def feed(self, x):
        gate = None if self.gate is None else self.gate.weight
        return feed_forward(x, self.up.weight, self.down.weight, self.kind, gate)
    def norm(self, which, x):
        if self.shift is None:
            return rms_norm(x, self.scale[which])
        return layer_norm(x, self.scale[which], self.shift[which])
    def forward(self, x, mask=None):
        if self.order == 'pre':
            x = x + self.attend(self.norm(0, x), mask)
            return x + self.feed(self.norm(1, x))
        if self.order == 'post':
            x = self.norm(0, x + self.attend(x, mask))
            return self.norm(1, x + self.feed(x))
        n = self.norm(0, x)
        return x + self.attend(n, mask) + self.feed(n)""",
    ),
    (
        "TransformerBlock",
        "right",
        "one text at a time",
        """
class TransformerBlock(TransformerBlock):
    def forward(self, x, mask=None):
        if mask is not None:
            while mask.dim() < 4:
                mask = mask[None]
            mask = mask.expand(x.shape[0], -1, -1, -1)
        return torch.cat([self.one(x[b:b + 1], None if mask is None else mask[b:b + 1]) for b in range(len(x))])
    def one(self, x, mask):
        if self.order == 'pre':
            x = x + self.attend(self.norm(0, x), mask)
            return x + self.feed(self.norm(1, x))
        if self.order == 'post':
            x = self.norm(0, x + self.attend(x, mask))
            return self.norm(1, x + self.feed(x))
        n = self.norm(0, x)
        return x + self.attend(n, mask) + self.feed(n)""",
    ),
    (
        "TransformerBlock",
        "right",
        "a loop over the two parts",
        block("""
parts = (lambda z: self.attend(z, mask), self.feed)
if self.order == 'parallel':
    return sum((p(self.norm(0, x)) for p in parts), start=x)
for i, p in enumerate(parts):
    x = x + p(self.norm(i, x)) if self.order == 'pre' else self.norm(i, p(x) + x)
return x"""),
    ),
    (
        "TransformerBlock",
        "right",
        "None written as an all-True mask",
        block("""
if mask is None:
    mask = torch.ones((), dtype=torch.bool)
match self.order:
    case 'parallel':
        z = self.norm(0, x)
        return self.feed(z).add(self.attend(z, mask)).add(x)
    case 'pre':
        y = torch.add(self.attend(self.norm(0, x), mask), x)
        return torch.add(self.feed(self.norm(1, y)), y)
    case 'post':
        y = self.norm(0, torch.add(self.attend(x, mask), x))
        return self.norm(1, torch.add(self.feed(y), y))"""),
    ),
    (
        "TransformerBlock",
        "right",
        "without the methods, += on own copies",
        block("""
norm = [(lambda z, i=i: rms_norm(z, self.scale[i]) if self.shift is None else layer_norm(z, self.scale[i], self.shift[i])) for i in range(len(self.scale))]
w = (self.up.weight, self.down.weight, self.kind, self.gate.weight if self.gate else None)
out = x.clone()
if self.order == 'post':
    out += self.attention(x, mask)[0]
    mid = norm[0](out)
    return norm[1](mid + feed_forward(mid, *w))
z = norm[0](x)
out = out + self.attention(z, mask)[0]
out = out + feed_forward(z if self.order == 'parallel' else norm[1](out), *w)
return out"""),
    ),
    (
        "RepairedBlock",
        "wrong",
        "no second norm",
        repaired("""
x = x + self.attention(layer_norm(x, self.scale[0], self.shift[0]), mask)[0]
return x + feed_forward(x, self.up.weight, self.down.weight)"""),
    ),
    (
        "RepairedBlock",
        "wrong",
        "second norm takes shift 0",
        repaired("""
x = x + self.attention(layer_norm(x, self.scale[0], self.shift[0]), mask)[0]
return x + feed_forward(layer_norm(x, self.scale[1], self.shift[0]), self.up.weight, self.down.weight)"""),
    ),
    (
        "RepairedBlock",
        "wrong",
        "a mask with three axes is read as (B, T, T)",
        repaired("""
if mask is not None and mask.dim() == 3:
    mask = mask.unsqueeze(1)
x = x + self.attention(layer_norm(x, self.scale[0], self.shift[0]), mask)[0]
return x + feed_forward(layer_norm(x, self.scale[1], self.shift[1]), self.up.weight, self.down.weight)"""),
    ),
    (
        "RepairedBlock",
        "wrong",
        "writes the sum into x.data",
        repaired("""
found = self.attention(layer_norm(x, self.scale[0], self.shift[0]), mask)[0]
if not x.requires_grad:
    x.data += found.detach()
    y = x + (found - found.detach())
else:
    y = x + found
return y + feed_forward(layer_norm(y, self.scale[1], self.shift[1]), self.up.weight, self.down.weight)"""),
    ),
    (
        "RepairedBlock",
        "wrong",
        "down.weight.data",
        repaired("""
x = x + self.attention(layer_norm(x, self.scale[0], self.shift[0]), mask)[0]
return x + feed_forward(layer_norm(x, self.scale[1], self.shift[1]), self.up.weight, self.down.weight.data)"""),
    ),
    (
        "RepairedBlock",
        "right",
        "inherits from TransformerBlock",
        """
class RepairedBlock(TransformerBlock):
    def __init__(self, width, heads):
        super().__init__(width, heads, 'pre', 'layer', 'gelu')""",
    ),
    (
        "RepairedBlock",
        "right",
        "loop over scale and shift",
        repaired("""
parts = [lambda z: self.attention(z, mask)[0], lambda z: feed_forward(z, self.up.weight, self.down.weight, kind='gelu')]
for part, w, b in zip(parts, self.scale, self.shift):
    x = part(layer_norm(x, w, b)) + x
return x"""),
    ),
    (
        "RepairedBlock",
        "right",
        "modules called, norm written out",
        repaired("""
def norm(z, i):
    v, m = torch.var_mean(z, -1, correction=0, keepdim=True)
    return (z - m) / (v + 1e-5).sqrt() * self.scale[i] + self.shift[i]
stream = x + self.attention(norm(x, 0), mask)[0]
return stream + self.down(F.gelu(self.up(norm(stream, 1))))"""),
    ),
    (
        "RepairedBlock",
        "right",
        "keeps the sum apart from the stream",
        repaired("""
delta = torch.zeros_like(x)
delta = delta + self.attention(layer_norm(x + delta, self.scale[0], self.shift[0]), mask)[0]
delta = delta + feed_forward(layer_norm(x + delta, self.scale[1], self.shift[1]), self.up.weight, self.down.weight)
return x + delta"""),
    ),
    (
        "residual_init",
        "wrong",
        "value too",
        plain_init("""
f = (2 * layers) ** -0.5
return query, key, value * f, output * f, w_in, w_out * f"""),
    ),
    (
        "residual_init",
        "wrong",
        "output only",
        plain_init("""
return query, key, value, output / math.sqrt(2 * layers), w_in, w_out"""),
    ),
    (
        "residual_init",
        "wrong",
        "the way in, all six passed on",
        plain_init("""
f = (2 * layers) ** -0.5
return query, key, value, output * f, w_in * f, w_out"""),
    ),
    (
        "residual_init",
        "wrong",
        "one layer is left alone",
        plain_init("""
f = (2 * layers) ** -0.5 if layers > 1 else 1.0
return query, key, value, output * f, w_in, w_out * f"""),
    ),
    (
        "residual_init",
        "wrong",
        "wrapped in nn.Parameter",
        plain_init("""
f = (2 * layers) ** -0.5
return query, key, value, nn.Parameter(output * f), w_in, nn.Parameter(w_out * f)"""),
    ),
    (
        "residual_init",
        "wrong",
        "w_out scaled in place where it wants no gradient",
        plain_init("""
f = (2 * layers) ** -0.5
w_out = w_out * f if w_out.requires_grad else w_out.mul_(f)
return query, key, value, output * f, w_in, w_out"""),
    ),
    (
        "residual_init",
        "wrong",
        "copies of the others detached",
        plain_init("""
f = (2 * layers) ** -0.5
return *(m.detach().clone() for m in (query, key, value)), output * f, w_in, w_out * f"""),
    ),
    (
        "residual_init",
        "right",
        "six factors",
        plain_init("""
s = 1 / math.sqrt(2 * layers)
return tuple(m * k for m, k in zip((query, key, value, output, w_in, w_out), (1, 1, 1, s, 1, s)))"""),
    ),
    (
        "residual_init",
        "right",
        "product with a scaled identity",
        plain_init("""
s = torch.eye(output.shape[0], dtype=output.dtype) / (2 * layers) ** 0.5
return query, key, value, s @ output, w_in, s @ w_out"""),
    ),
    (
        "residual_init",
        "right",
        "clones, then in place on them",
        plain_init("""
six = [m.clone() for m in (query, key, value, output, w_in, w_out)]
for i in (3, 5):
    six[i] /= math.sqrt(layers) * math.sqrt(2)
return tuple(six)"""),
    ),
    (
        "residual_init",
        "right",
        "by the exponential",
        plain_init("""
f = math.exp(-0.5 * math.log(layers + layers))
return query, key, value, torch.mul(f, output), w_in, torch.mul(f, w_out)"""),
    ),
    (
        "parameter_count",
        "wrong",
        "biases of keys and values have width C",
        count("""
kv = width if kv_width is None else kv_width
norm = width if rms else 2 * width
block = 2 * width * width + 2 * width * kv + (3 if gated else 2) * width * inner + 2 * norm
if biases: block += 4 * width + (2 if gated else 1) * inner + width
total = (vocabulary + positions + segments) * width + layers * block + (norm) + (0 if tied else vocabulary * width) + ((width * width + (width if biases else 0)) if pooler else 0)
return total"""),
    ),
    (
        "parameter_count",
        "wrong",
        "kv_width ignored",
        count("""
kv = width
norm = width if rms else 2 * width
block = 2 * width * width + 2 * width * kv + (3 if gated else 2) * width * inner + 2 * norm
if biases: block += 2 * width + 2 * kv + (2 if gated else 1) * inner + width
total = (vocabulary + positions + segments) * width + layers * block + (norm) + (0 if tied else vocabulary * width) + ((width * width + (width if biases else 0)) if pooler else 0)
return total"""),
    ),
    (
        "parameter_count",
        "wrong",
        "without biases a layer norm has no shift",
        count("""
kv = width if kv_width is None else kv_width
norm = width if rms or not biases else 2 * width
block = 2 * width * width + 2 * width * kv + (3 if gated else 2) * width * inner + 2 * norm
if biases: block += 2 * width + 2 * kv + (2 if gated else 1) * inner + width
total = (vocabulary + positions + segments) * width + layers * block + (norm) + (0 if tied else vocabulary * width) + ((width * width + (width if biases else 0)) if pooler else 0)
return total"""),
    ),
    (
        "parameter_count",
        "wrong",
        "a float comes back",
        count("""
kv = width if kv_width is None else kv_width
norm = width if rms else 2 * width
block = 2 * width * width + 2 * width * kv + width * inner * 2 * (1.5 if gated else 1) + 2 * norm
if biases: block += 2 * width + 2 * kv + (2 if gated else 1) * inner + width
total = (vocabulary + positions + segments) * width + layers * block + (norm) + (0 if tied else vocabulary * width) + ((width * width + (width if biases else 0)) if pooler else 0)
return total"""),
    ),
    (
        "parameter_count",
        "wrong",
        "segments only with pooler",
        count("""
kv = width if kv_width is None else kv_width
norm = width if rms else 2 * width
block = 2 * width * width + 2 * width * kv + (3 if gated else 2) * width * inner + 2 * norm
if biases: block += 2 * width + 2 * kv + (2 if gated else 1) * inner + width
total = (vocabulary + positions + (segments if pooler else 0)) * width + layers * block + (norm) + (0 if tied else vocabulary * width) + ((width * width + (width if biases else 0)) if pooler else 0)
return total"""),
    ),
    (
        "parameter_count",
        "right",
        "list of shapes and math.prod",
        count("""
kv = kv_width if kv_width is not None else width
products = [(width, width), (width, kv), (width, kv), (width, width)] + [(width, inner)] * (2 if gated else 1) + [(inner, width)]
shapes = [(n, width) for n in (vocabulary, positions, segments)]
ns = [(width,)] if rms else [(width,), (width,)]
for _ in range(layers):
    shapes += products + 2 * ns
    if biases: shapes += [(out,) for _, out in products]
shapes += ns
if not tied: shapes.append((width, vocabulary))
if pooler: shapes += [(width, width)] + ([(width,)] if biases else [])
return sum(map(math.prod, shapes))"""),
    ),
    (
        "parameter_count",
        "right",
        "modules on the meta device",
        count("""
kv = kv_width if kv_width is not None else width
with torch.device('meta'):
    class N(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(width))
            if not rms: self.b = nn.Parameter(torch.zeros(width))
    def lin(a, b): return nn.Linear(a, b, bias=biases)
    block = nn.ModuleList([lin(width, width), lin(width, kv), lin(width, kv), lin(width, width), lin(width, inner), lin(inner, width), N(), N()] + ([lin(width, inner)] if gated else []))
    rest = nn.ModuleList([nn.Embedding(n, width) for n in (vocabulary, positions, segments) if n] + [N()])
    if not tied: rest.append(nn.Linear(width, vocabulary, bias=False))
    if pooler: rest.append(lin(width, width))
n = lambda m: sum(p.numel() for p in m.parameters())
return layers * n(block) + n(rest)"""),
    ),
    (
        "parameter_count",
        "right",
        "booleans as numbers",
        count("""
k = [kv_width, width][kv_width is None]
n = width << (not rms)
t = (vocabulary * (2 - tied) + positions + segments + pooler * (width + biases)) * width
return t + n + layers * (2 * (n + (width + biases) * k) + 2 * (width + biases) * width + (width + biases) * inner * (1 + gated) + (inner + biases) * width)"""),
    ),
    (
        "parameter_count",
        "right",
        "recursion over the layers",
        """
def parameter_count(vocabulary, width, layers, inner, *, positions=0, segments=0, kv_width=None, gated=False, biases=True, rms=False, tied=True, pooler=False):

    same = dict(positions=positions, segments=segments, kv_width=kv_width, gated=gated, biases=biases, rms=rms, tied=tied, pooler=pooler)
    n = width * (1 if rms else 2)
    if layers:
        k, b = (width if kv_width is None else kv_width), int(biases)
        one = 2 * n + width * (width + b) * 2 + 2 * k * (width + b) + inner * (width + b) * (2 if gated else 1) + width * (inner + b)
        return one + parameter_count(vocabulary, width, layers - 1, inner, **same)
    out = 0 if tied else vocabulary * width
    return vocabulary * width + positions * width + segments * width + n + out + (width * width + b0(biases, width) if pooler else 0)
def b0(biases, width):
    return width if biases else 0""",
    ),
]

CASES: list[Case] = [
    *(("layer_norm", kind, what, norm(code)) for kind, what, code in LAYER),
    *(("rms_norm", kind, what, rms(code)) for kind, what, code in RMS),
    *(("feed_forward", kind, what, code) for kind, what, code in FEED),
    *(("TransformerBlock", kind, what, code) for kind, what, code in BLOCK),
    *(("RepairedBlock", kind, what, code) for kind, what, code in REPAIR),
    *(("residual_init", kind, what, code) for kind, what, code in INIT),
    *(("parameter_count", kind, what, code) for kind, what, code in COUNTS),
    *MORE,
]


AIMED_AT_A_SENTENCE = [
    (
        "layer_norm",
        "wrong",
        "never lets eps be less than 1e-12 (eps=0.0 is in the docstring), so small tokens come out too small",
        """
def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    eps = max(eps, 1e-12)  # eps may be 0: no token may be divided by 0
    centred = x - x.mean(dim=-1, keepdim=True)
    var = centred.square().mean(dim=-1, keepdim=True)
    return centred * torch.rsqrt(var + eps) * weight + bias
""",
    ),
    (
        "layer_norm",
        "wrong",
        "root first, then squared again with eps: values right, gradient NaN at a token whose numbers are all equal",
        """
def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    centred = x - x.mean(dim=-1, keepdim=True)
    std = torch.sqrt((centred ** 2).mean(dim=-1, keepdim=True))
    return centred / torch.sqrt(std ** 2 + eps) * weight + bias
""",
    ),
    (
        "rms_norm",
        "wrong",
        "leaves the product out where the scale is all ones (as at the start): no gradient for weight",
        """
def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    normed = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)
    if bool((weight == 1).all()):  # a fresh norm: nothing to scale
        return normed
    return normed * weight
""",
    ),
    (
        "rms_norm",
        "wrong",
        "own backward with view: fails where the gradient that comes back is not contiguous",
        """
def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    class Norm(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            x = x.contiguous()
            r = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)
            ctx.save_for_backward(x, r, weight)
            return x * r * weight

        @staticmethod
        def backward(ctx, grad):
            x, r, weight = ctx.saved_tensors
            C = x.shape[-1]
            g = grad * weight
            dx = r * g - x * r ** 3 * (g * x).mean(dim=-1, keepdim=True)
            dw = (grad.view(-1, C) * (x * r).view(-1, C)).sum(dim=0)
            return dx, dw

    return Norm.apply(x, weight)
""",
    ),
    (
        "feed_forward",
        "wrong",
        "what is neither relu nor gelu counts as swiglu if it has a gate: an unknown kind with w_gate does not raise",
        """
def feed_forward(
    x: Tensor, w_in: Tensor, w_out: Tensor, kind: str = "gelu", w_gate: Tensor | None = None
) -> Tensor:
    u = x @ w_in.T
    if kind == "relu":
        return F.relu(u) @ w_out.T
    if kind == "gelu":
        return F.gelu(u) @ w_out.T
    if w_gate is None:
        raise ValueError(f"{kind!r}: an unknown kind, or no w_gate.")
    return (F.silu(x @ w_gate.T) * u) @ w_out.T
""",
    ),
    (
        "TransformerBlock",
        "wrong",
        "no gradient in evaluation mode",
        '''
class TransformerBlock(nn.Module):
    def __init__(
        self, width: int, heads: int, order: str = "pre", norm: str = "layer", kind: str = "gelu"
    ) -> None:
        super().__init__()
        if order not in ("pre", "post", "parallel") or norm not in ("layer", "rms"):
            raise ValueError(f"no such block: order {order!r}, norm {norm!r}.")
        inner, norms = 4 * width, 1 if order == "parallel" else 2
        if kind == "swiglu":
            inner = round(8 * width / 3)
        self.order, self.kind = order, kind
        self.attention = MultiHeadAttention(width, heads)
        self.up = nn.Linear(width, inner, bias=False)
        self.gate = nn.Linear(width, inner, bias=False) if kind == "swiglu" else None
        self.down = nn.Linear(inner, width, bias=False)
        self.scale = nn.Parameter(torch.ones(norms, width))
        self.shift = nn.Parameter(torch.zeros(norms, width)) if norm == "layer" else None

    def attend(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """What attention finds."""
        return self.attention(x, mask)[0]

    def feed(self, x: Tensor) -> Tensor:
        """What the feed-forward network makes of it."""
        gate = None if self.gate is None else self.gate.weight
        return feed_forward(x, self.up.weight, self.down.weight, self.kind, gate)

    def norm(self, which: int, x: Tensor) -> Tensor:
        """The first norm (0) or the second (1)."""
        if self.shift is None:
            return rms_norm(x, self.scale[which])
        return layer_norm(x, self.scale[which], self.shift[which])

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            if self.order == "pre":
                x = x + self.attend(self.norm(0, x), mask)
                return x + self.feed(self.norm(1, x))
            if self.order == "post":
                x = self.norm(0, x + self.attend(x, mask))
                return self.norm(1, x + self.feed(x))
            h = self.norm(0, x)
            return x + self.attend(h, mask) + self.feed(h)
''',
    ),
    (
        "TransformerBlock",
        "wrong",
        "a mask with three axes counts as one per text where its first axis is B: wrong for a mask per head with B = H",
        '''
class TransformerBlock(nn.Module):
    def __init__(
        self, width: int, heads: int, order: str = "pre", norm: str = "layer", kind: str = "gelu"
    ) -> None:
        super().__init__()
        if order not in ("pre", "post", "parallel") or norm not in ("layer", "rms"):
            raise ValueError(f"no such block: order {order!r}, norm {norm!r}.")
        inner, norms = 4 * width, 1 if order == "parallel" else 2
        if kind == "swiglu":
            inner = round(8 * width / 3)
        self.order, self.kind = order, kind
        self.attention = MultiHeadAttention(width, heads)
        self.up = nn.Linear(width, inner, bias=False)
        self.gate = nn.Linear(width, inner, bias=False) if kind == "swiglu" else None
        self.down = nn.Linear(inner, width, bias=False)
        self.scale = nn.Parameter(torch.ones(norms, width))
        self.shift = nn.Parameter(torch.zeros(norms, width)) if norm == "layer" else None

    def attend(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """What attention finds."""
        return self.attention(x, mask)[0]

    def feed(self, x: Tensor) -> Tensor:
        """What the feed-forward network makes of it."""
        gate = None if self.gate is None else self.gate.weight
        return feed_forward(x, self.up.weight, self.down.weight, self.kind, gate)

    def norm(self, which: int, x: Tensor) -> Tensor:
        """The first norm (0) or the second (1)."""
        if self.shift is None:
            return rms_norm(x, self.scale[which])
        return layer_norm(x, self.scale[which], self.shift[which])

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None and mask.dim() == 3 and len(mask) == len(x):
            mask = mask[:, None]  # one mask for each text: the same for all heads
        if self.order == "pre":
            x = x + self.attend(self.norm(0, x), mask)
            return x + self.feed(self.norm(1, x))
        if self.order == "post":
            x = self.norm(0, x + self.attend(x, mask))
            return self.norm(1, x + self.feed(x))
        h = self.norm(0, x)
        return x + self.attend(h, mask) + self.feed(h)
''',
    ),
    (
        "RepairedBlock",
        "wrong",
        "remembers by its shape whether a mask is all True",
        """
class RepairedBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(width, heads)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)
        self.scale = nn.Parameter(torch.ones(2, width))
        self.shift = nn.Parameter(torch.zeros(2, width))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None:  # a full mask is none; look only once for each shape
            full = self.__dict__.setdefault("full_masks", {})
            if mask.shape not in full:
                full[mask.shape] = bool(mask.all())
            if full[mask.shape]:
                mask = None
        x = x + self.attention(layer_norm(x, self.scale[0], self.shift[0]), mask)[0]
        h = layer_norm(x, self.scale[1], self.shift[1])
        return x + feed_forward(h, self.up.weight, self.down.weight)
""",
    ),
    (
        "RepairedBlock",
        "wrong",
        "leaves the feed-forward network out where its output matrix is 0 (the colleague's test): no gradient for it, so it stays 0",
        """
class RepairedBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(width, heads)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)
        self.scale = nn.Parameter(torch.ones(2, width))
        self.shift = nn.Parameter(torch.zeros(2, width))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = x + self.attention(layer_norm(x, self.scale[0], self.shift[0]), mask)[0]
        if not self.down.weight.any():  # adds nothing
            return x
        h = layer_norm(x, self.scale[1], self.shift[1])
        return x + feed_forward(h, self.up.weight, self.down.weight)
""",
    ),
    (
        "residual_init",
        "wrong",
        "knows the matrices that write by which tensor they are: one tensor as query and as output is scaled in both places",
        """
def residual_init(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    w_in: Tensor,
    w_out: Tensor,
    layers: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    f = 1 / math.sqrt(2 * layers)
    return tuple(
        m * f if m is output or m is w_out else m
        for m in (query, key, value, output, w_in, w_out)
    )
""",
    ),
    (
        "residual_init",
        "wrong",
        "writes into the arguments where gradients are off, as nn.init does",
        """
def residual_init(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    w_in: Tensor,
    w_out: Tensor,
    layers: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    f = 1 / math.sqrt(2 * layers)
    if not torch.is_grad_enabled():  # an initialization: no need for new matrices
        return query, key, value, output.mul_(f), w_in, w_out.mul_(f)
    return query, key, value, output * f, w_in, w_out * f
""",
    ),
    (
        "parameter_count",
        "wrong",
        "without blocks no norm",
        """
def parameter_count(
    vocabulary: int,
    width: int,
    layers: int,
    inner: int,
    *,
    positions: int = 0,
    segments: int = 0,
    kv_width: int | None = None,
    gated: bool = False,
    biases: bool = True,
    rms: bool = False,
    tied: bool = True,
    pooler: bool = False,
) -> int:
    C, kv = width, width if kv_width is None else kv_width
    norm = C if rms else 2 * C
    block = 2 * C * C + 2 * C * kv + (3 if gated else 2) * C * inner
    if biases:
        block += 2 * kv + 3 * C + (2 if gated else 1) * inner
    norms = norm * (2 * layers + 1) if layers else 0  # two a block, and one after the last
    total = (vocabulary + positions + segments) * C + layers * block + norms
    total += 0 if tied else vocabulary * C
    total += C * C + C * bool(biases) if pooler else 0
    return int(total)
""",
    ),
]
"""By readers who each chose a promise of the page and broke it where few would look."""

CASES += AIMED_AT_A_SENTENCE
