# %% [markdown]
# # 07 · The block
#
# **What surrounds attention in a transformer, and why?** Run the next cell (Shift+Enter). It stacks
# 24 layers of attention and a small network, and measures them before any training.

# %%
from attend import widgets

widgets.depth_thermometer()

# %% [markdown]
# One attention and one feed-forward network (the *parts*) are a *block*; the *stream* is the
# numbers handed from block to block. Choose what stands around the parts:
#
# - *nothing*: the stream has died out by the sixth block, and so have all gradients. Training has
#   nothing to go by.
# - *nothing, large start*: now the bars stay up (from this start; some others end hundreds of
#   times lower), and still little can be learned. One reason shows in the ticks, which say how much
#   differs between tokens: each layer of attention averages the tokens a little, so after 24 of
#   them all tokens are the same (Dong et al. 2021).
# - *residual*: bars and ticks stay up, and every block has a gradient; but the bars grow, block by
#   block.
#
# In this chapter you write what makes depth possible: the norms, the feed-forward network, the
# block in its three arrangements, and a smaller initialization, "the small start". You count the
# parameters of GPT-2, BERT and Llama 2, let your block write documentation, and find out which of
# these things 24 layers need.
#
# It takes about two and a half hours, nearly half of that in seven exercises. You need PyTorch
# tensors and modules, and from chapter 05 that attention takes $(B, T, C)$ and returns the same
# shape. `check(...)` says what is right and what is not, `hint(...)` helps, `solution(...)` shows
# the course's answer.
#
# | letter | counts | | letter | counts |
# |---|---|---|---|---|
# | $B$ | texts in a batch | | $F$ | numbers inside the feed-forward network |
# | $T$ | tokens in a text | | $L$ | blocks |
# | $C$ | numbers of a token | | $V$ | tokens in the vocabulary |
# | $H$ | heads | | | |

# %%
import math
import textwrap
from functools import partial

import torch
from attend import charts
from attend.data import deep_stack as deep
from attend.data.mamba_words import decode, encode
from attend_grader import check, hint, ready, solution
from attend_solutions.multi_head import MultiHeadAttention  # chapter 05
from IPython.display import display
from torch import Tensor, nn
from torch.nn import functional

SEED = 7
torch.set_num_threads(1)  # the models are small: a second thread only gets in the way
torch.set_printoptions(precision=3, sci_mode=False)

# %% [markdown]
# ## 1 · Norms: every token the same size
#
# <!-- exercise: layer_norm -->
#
# **Why.** A stack multiplies sizes: 24 layers that each make numbers 1.5 times larger make them
# 17,000 times larger. A norm sets the size back, for each token by itself, so neither the other
# tokens nor the batch matter:
#
# $$\begin{gathered}
# y = \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} \circ w + b, \\
# \mu = \frac1C \sum_{c=1}^{C} x_c, \\
# \sigma^2 = \frac1C \sum_{c=1}^{C} (x_c - \mu)^2 .
# \end{gathered}$$
#
# The scale $w$ and the shift $b$ are learned. The small $\varepsilon$ keeps a token whose numbers
# are all equal from a division by 0.
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$ | `x` | $(\ldots, C)$ |
# | $w$, $b$ | `weight`, `bias` | $(C,)$ |
# | $\varepsilon$ | `eps` | a number |
# | $y$ | returned | as `x` |
#
# **By hand.** $x = (1, 1, 5, 5)$ has $\mu = 3$ and $\sigma^2 = 4$, so without $\varepsilon$ the
# fraction is $(-1, -1, 1, 1)$. With $w = (1, 2, 1, 2)$ and $b = (0, 0, 10, 10)$ the result is
# $(-1, -2, 11, 12)$.
#
# *PyTorch you need.* `x.mean(dim=-1, keepdim=True)` keeps the axis with length 1, so that the
# result lines up with `x`. `x.var` divides by $C - 1$ unless you say `correction=0`. A *view* is a
# transposed or cut tensor: `reshape` takes it, `view` may not.
#
# <details><summary>Predict first: all numbers of a token are doubled. What changes? And if 1,000
# is added to all of them?</summary>
#
# Nothing, in both cases, but for $\varepsilon$ and rounding. So the square must be taken *after*
# the mean is subtracted: beside $1000^2$, float32 keeps about one digit of what differs.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.block import layer_norm

# %% [markdown]
# **What you should see.** A token, and the same token times 100 and plus 100: all three come out
# alike, but for $\varepsilon$ and rounding.

# %%
token = torch.tensor([-1.0, 0.0, 0.0, 2.0])
three, ones = torch.stack([token, 100 * token, token + 100]), torch.ones(4)
if ready(layer_norm):
    print(layer_norm(three, ones, 0 * ones))

# %% [markdown]
# <!-- exercise: rms_norm -->
#
# **Why.** Is the mean worth subtracting? Zhang and Sennrich (2019) leave it out, and a shift of the
# norm's own too. That is cheaper, and Llama and most models since do the same:
#
# $$y = \frac{x}{\sqrt{\frac1C \sum_c x_c^2 + \varepsilon}} \circ w .$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$ | `x` | $(\ldots, C)$ |
# | $w$ | `weight` | $(C,)$ |
# | $\varepsilon$ | `eps` | one number, $10^{-6}$ by default |
# | $y$ | returned | as `x` |
#
# **By hand.** $x = (1, 7)$: the mean of the squares is 25, so without $\varepsilon$ the fraction is
# $(0.2, 1.4)$; with $w = (5, 10)$ the result is $(1, 14)$.

# %% tags=["exercise"]
from attend_solutions.block import rms_norm

# %% [markdown]
# **What you should see.** The same three tokens. RMSNorm takes the factor away, but in the third
# token it keeps the offset, and what differs nearly disappears beside it.

# %%
if ready(rms_norm):
    print(rms_norm(three, ones))

# %% [markdown]
# ## 2 · The feed-forward network
#
# <!-- exercise: feed_forward -->
#
# **Why.** Attention mixes tokens, but what it adds is a weighted mean of values. The second part
# works on each token alone: it takes it out to $F$ numbers, applies an *activation function* to
# each, and brings them back. At $F = 4C$ two thirds of a block's numbers are here. With fewer heads
# of keys the share is larger: in Llama 3 8B, whose feed-forward part has a third matrix, 81 %.
#
# $$\begin{gathered}
# \text{relu: } \max(0, x W_{\text{in}}^\top)\, W_{\text{out}}^\top, \\
# \text{gelu: } \operatorname{GELU}(x W_{\text{in}}^\top)\, W_{\text{out}}^\top, \\
# \text{swiglu: } \big(\operatorname{SiLU}(x W_{\text{gate}}^\top) \circ x
# W_{\text{in}}^\top\big)\, W_{\text{out}}^\top
# \end{gathered}$$
#
# with $\operatorname{GELU}(u) = u\,\Phi(u)$, where $\Phi$ is the normal distribution function
# (exactly, not by tanh), and $\operatorname{SiLU}(u) = u / (1 + e^{-u})$. In swiglu one product
# *gates* the other: it decides, number by number, how much passes.
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$ | `x` | $(\ldots, C)$ |
# | $W_{\text{in}}$, $W_{\text{gate}}$ | `w_in`, `w_gate` | $(F, C)$ |
# | $W_{\text{out}}$ | `w_out` | $(C, F)$ |
# | returned | | as `x` |
#
# **By hand.** relu with $x = (1, 2)$: the rows of $W_{\text{in}}$ are $(1, 1)$ and $(1, -1)$, so
# the $F = 2$ numbers inside are $(3, -1)$; relu makes them $(3, 0)$. The rows of $W_{\text{out}}$
# are $(3, 5)$ and $(1, 0)$: the result is $(9, 3)$.
#
# *PyTorch you need.* `functional.relu`, `functional.gelu` and `functional.silu` work number by
# number.
#
# <details><summary>Predict first: with F = 4C, relu and gelu have 8C² numbers. How large may F be
# in swiglu, if it is to have as many?</summary>
#
# It has three matrices, so $3CF = 8C^2$ and $F = \tfrac83 C$. Llama 2 7B has $C = 4096$ and $F =
# 11{,}008$: $\tfrac83 C = 10{,}923$, rounded up to a multiple of 256.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.block import feed_forward

# %% [markdown]
# **What you should see.** One number $u$ through each kind, with all matrices 1. relu cuts off
# sharply. GELU is smooth, and dips a little below 0. swiglu, with $u$ as gate and as value, grows
# like $u^2$ to the right; to the left both are negative, so their product is positive, and from
# about $-2$ on it dies out with the gate.

# %% jupyter={"source_hidden": true}
if ready(feed_forward):
    u, one = torch.linspace(-8, 2, 101)[:, None], torch.ones(1, 1)
    display(
        charts.line(
            [
                {"u": float(a), "out": float(b), "kind": kind}
                for kind in ("relu", "gelu", "swiglu")
                for a, b in zip(u, feed_forward(u, one, one, kind, one), strict=True)
            ],
            "u",
            "out",
            "kind",
            title="Three activation functions",
            description="Output against input from -8 to 2. relu is 0 up to 0 and then rises "
            "straight; gelu is close to it, a little below 0 near -0.8; swiglu is positive on both "
            "sides, has a hill of 0.5 near -2, is nearly 0 at -8, and curves upwards on the right.",
            x_title="input u (no unit)",
            y_title="output (no unit)",
        )
    )

# %% [markdown]
# ## 3 · The block
#
# <!-- exercise: TransformerBlock -->
#
# **Why.** The parts do not *replace* what came before: each **adds** to it. The running sum is the
# *stream*. That is a residual connection, and the reason why it helps stands in one line (He et al.
# 2016b). With $f_i$ for what is added in step $i$,
#
# $$\begin{gathered}
# x_{n} = x_0 + \sum_{i=1}^{n} f_i(x_{i-1}), \\
# \frac{\partial x_n}{\partial x_k} = I + \frac{\partial}{\partial x_k} \sum_{i=k+1}^{n} f_i .
# \end{gathered}$$
#
# Because of the $I$, every token reaches every block, and its gradient comes back, even where the
# $f_i$ pass nothing on. It does not keep sizes in bounds: that is what norms or a small start are
# for. Where do the norms stand? Three arrangements:
#
# ```text
# post       x ─┬─────────────┬─ + ─ norm 0 ─┬────────┬─ + ─ norm 1 ─
#               └─ attention ─┘              └─ feed ─┘
#
# pre        x ─┬──────────────────────┬─ + ─┬─────────────────┬─ + ─
#               └─ norm 0 ─ attention ─┘     └─ norm 1 ─ feed ─┘
#
# parallel   x ─┬──────────────────────────┬─ + ─
#               │          ┌─ attention ─┐ │
#               └─ norm 0 ─┴─── feed ────┴─┘
# ```
#
# **Post** is the original transformer. There the stream itself goes through $2L$ norms, so there
# is no $I$ all the way. **Pre** leaves the stream alone. **Parallel** needs one norm, and its two
# parts can run at once.
#
# | name | meaning | shape |
# |---|---|---|
# | `x` | the stream | $(B, T, C)$ |
# | `mask` | who may look at whom (True: may); `None`: everyone | broadcasts with $(B, H, T, T)$ |
# | returned | the stream after the block | $(B, T, C)$ |
#
# Given are the parameters, and three methods that call your functions: `self.norm(0, x)` and
# `self.norm(1, x)`, `self.attend(x, mask)`, `self.feed(x)`. Write `forward` for the three values of
# `self.order`: `"pre"`, `"post"` and `"parallel"`.
#
# **By hand.** Let `attend` return 1 everywhere, `feed` 2, and `norm` halve every number. From $x =
# 4$, *pre* gives $4 + 1 + 2 = 7$, *post* $(4 + 1)/2 = 2.5$ and then $(2.5 + 2)/2 = 2.25$, and
# *parallel* 7.

# %% tags=["exercise"]
from attend_solutions.block import TransformerBlock

# %% [markdown]
# **What you should see.** A text of large numbers goes through one fresh block. Pre and parallel
# leave their size nearly as it was; post sets it to 1. (Size is the root mean square.)

# %%
if ready(layer_norm, feed_forward, TransformerBlock):
    torch.manual_seed(SEED)
    x = 10 * torch.randn(2, 5, 16)
    print(f"goes in   size {x.square().mean().sqrt():5.2f}")
    for order in ("pre", "post", "parallel"):
        y = TransformerBlock(16, 2, order)(x).detach()
        same = functional.cosine_similarity(x, y, dim=-1).mean()
        print(f"{order:8s}  size {y.square().mean().sqrt():5.2f}   cosine with x {same:.3f}")

# %% [markdown]
# ### Repair: where does it branch off?
#
# <!-- exercise: RepairedBlock -->
#
# **Why.** A colleague wrote a pre-norm block without the course's methods. Its shapes are right,
# it trains at two layers, and it has a test: if both output matrices are 0, the block must return
# its input. The test passes.


# %%
class SuspectBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = MultiHeadAttention(width, heads)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)
        self.scale = nn.Parameter(torch.ones(2, width))
        self.shift = nn.Parameter(torch.zeros(2, width))

    def forward(self, x, mask=None):
        x = layer_norm(x, self.scale[0], self.shift[0])
        x = x + self.attention(x, mask)[0]
        x = layer_norm(x, self.scale[1], self.shift[1])
        return x + feed_forward(x, self.up.weight, self.down.weight)


if ready(layer_norm, feed_forward):
    suspect = SuspectBlock(4, 2)
    nn.init.zeros_(suspect.attention.output.weight), nn.init.zeros_(suspect.down.weight)
    x = torch.tensor([[[-1.0, -1.0, 1.0, 1.0], [1.0, -1.0, 1.0, -1.0]]])
    print("test passes:", torch.allclose(suspect(x), x, atol=1e-4))

# %% [markdown]
# For which inputs does that test say nothing? Find the mistake, then write `forward` as it should
# be. The constructor is given, and this block is always pre-norm, with layer norm and gelu.

# %% tags=["exercise"]
from attend_solutions.block import RepairedBlock

# %% [markdown]
# <details><summary>What had your colleague built?</summary>
#
# Write down a stack of these blocks: norm, part, add, norm, part, add, … Move the first norm to the
# end, and it is a stack of *post*-norm blocks, with the same norms in the same order. The stream
# goes through all $2L$ of them.
#
# The test's tokens have mean 0 and variance 1 already, where a norm changes nothing. Nor does it
# change a token of zeros. Almost any other token fails the test.
#
# </details>

# %%
if ready(layer_norm, feed_forward, RepairedBlock):
    torch.manual_seed(SEED)
    blocks = {"suspect": SuspectBlock(16, 2), "repaired": RepairedBlock(16, 2)}
    x = 10 * torch.randn(2, 5, 16)
    print(f"goes in   size {x.square().mean().sqrt():5.2f}")
    for name, made in blocks.items():
        print(f"{name:8s}  size {made(x).detach().square().mean().sqrt():5.2f}")

# %% [markdown]
# ## 4 · A small start
#
# <!-- exercise: residual_init -->
#
# **Why.** At the start all that is added is random and nearly independent, so variances add: $2L$
# parts of variance $v$ make the stream's variance grow by $2Lv$. In the first picture "pre-norm"
# grows this way, because the norm keeps $v$ about the same in every block. In "residual" what is
# added grows with the stream: 24 blocks make its variance 26 times as large (mean of 100 starts).
#
# GPT-2 therefore multiplies the matrices that *write to the stream* by
#
# $$\frac{1}{\sqrt{2L}}, \qquad\text{because}\qquad 2L \cdot \frac{v}{2L} = v .$$
#
# Now the stream grows by about one $v$, at any depth. Which of a block's six matrices write to the
# stream? The others stay as they are, and so does swiglu's seventh, the gate.
#
# | argument | shape | used in |
# |---|---|---|
# | `query`, `key`, `value`, `output` | $(C, C)$ | attention: $q, k, v$, and the last projection |
# | `w_in`, `w_out` | $(F, C)$, $(C, F)$ | the feed-forward network |
# | `layers` | $L$ | |
# | returned | | the six matrices, in this order |
#
# **By hand.** With $L = 8$ blocks the factor is $1/\sqrt{16} = 1/4$.

# %% tags=["exercise"]
from attend_solutions.block import residual_init

# %% [markdown]
# **What you should see.** The first picture, now with *your* block and *your* start. Compare
# "residual" with "residual, small start" at 24 blocks and at 2: the factor works without norms,
# too, and 24 blocks make the variance 3 to 4 % larger, on average. Let some of them train for 60
# steps (this takes some seconds).

# %%
if ready(layer_norm, feed_forward, TransformerBlock, residual_init):
    display(widgets.depth_thermometer(TransformerBlock, residual_init))

# %% [markdown]
# ## 5 · Where the parameters are
#
# <!-- exercise: parameter_count -->
#
# **Why.** "124M", "7B": a model's name is its number of parameters, and with what you built you can
# work it out to the last digit. There are four places.
#
# - **Tables:** `vocabulary`, `positions` and `segments` rows of $C$ numbers each.
# - **Each of `layers` blocks:** attention, with $C \times C$ numbers for the queries and as many
#   for the output, and $C \times$ `kv_width` for the keys and as many for the values; the
#   feed-forward network, $C \times F$ twice, or three times if `gated`; two norms.
# - **Outside the blocks:** one more norm.
# - **The end:** $C \times V$ numbers for the scores, unless they are `tied` to the table of tokens;
#   with `pooler`, one more $C \times C$ product.
#
# With `biases` every product in the blocks and the pooler (not the scores) has a bias, one number
# for each of its outputs. A layer norm has $2C$ numbers; with `rms` it has $C$. `kv_width` is $C$
# if it is `None` (chapter 05: fewer heads of keys and values make it smaller).
#
# **By hand.** `parameter_count(5, 2, 3, 7, biases=False)`: tables 10; a block $4 \cdot 4 + 2 \cdot
# 14 + 2 \cdot 4 = 52$; the norm outside 4; in all $10 + 3 \cdot 52 + 4 = 170$. With biases a block
# has $8 + 9$ more, in all 221.

# %% tags=["exercise"]
from attend_solutions.block import parameter_count

# %% [markdown]
# **What you should see.** Three published models, from their papers and released configurations.
# The GPT-2 paper says 117M: a miscount that OpenAI corrected later. The cell finds the blocks'
# share by counting once more with 0 blocks.

# %%
if ready(parameter_count):
    gpt = partial(parameter_count, positions=1024)
    bert = partial(parameter_count, positions=512, segments=2, pooler=True)
    llama = partial(parameter_count, gated=True, biases=False, rms=True, tied=False)
    for name, (v, c, n, f), count in (
        ("GPT-2 small", (50257, 768, 12, 3072), gpt),
        ("BERT-base", (30522, 768, 12, 3072), bert),
        ("Llama 2 7B", (32000, 4096, 32, 11008), llama),
    ):
        total, bare = count(v, c, n, f), count(v, c, 0, f)
        print(f"{name:12s} {total:13,}   in the blocks {total - bare:13,} ({1 - bare / total:.0%})")

# %% [markdown]
# ## 6 · Use it: your block writes
#
# Blocks with pre-norm, RMSNorm and swiglu are what Llama is made of. This model has four of yours;
# its positions are learned (Llama: RoPE, chapter 06), and its last norm is a layer norm. It has
# 126,528 numbers and was trained on nine tenths of Python's own help texts, character by character,
# by `course/07_block/depth.py`. Its weights go into your blocks.

# %%
if ready(rms_norm, feed_forward, TransformerBlock):
    writer = deep.Deep(**deep.WRITER, block=TransformerBlock)
    writer.load_state_dict(deep.words())

    @torch.no_grad()
    def write(prompt, count, cool=0.6):
        """Draw one character after the other; the model sees the last 128."""
        draw, tokens = torch.Generator().manual_seed(SEED), encode(prompt)
        for _ in range(count):
            chances = (writer(tokens[None, -128:])[0, -1] / cool).softmax(-1)
            tokens = torch.cat([tokens, torch.multinomial(chances, 1, generator=draw)])
        return decode(tokens)

    for line in write("The statement is", 400).split("\n"):
        print(textwrap.fill(line, 46, drop_whitespace=False))
    print(f"\nbits a character on unseen text: {deep.bits(writer, 128):.2f}")

# %% [markdown]
# It has the look of the documentation: indents, brackets, short words. It has no idea what it says.
# To compare: on the same text a table of what followed the last two characters, backed by shorter
# ones, gets 2.69 bits, of three 2.27. Your model gets about as far as the first.
#
# ## 7 · Experiment: what do 24 layers need?
#
# **The claims to test.** Without residual connections 24 layers do not learn. Post-norm needs a
# *warm-up* (a learning rate that rises from near 0 over the first steps), which is "crucial to the
# final performance" (Xiong et al. 2020, abstract), and pre-norm does not. A suitable start can
# replace both warm-up and norms (Huang et al. 2020, abstract).
#
# The task is the same text, 16 characters at a time, with blocks of 24 numbers and two heads, 120
# steps of Adam with gradients clipped to norm 1.
#
# - **Arms:** seven, the choices in the picture. All have the same tables, the same norm at the end
#   and the same output layer.
# - **Learning rate:** constant, or with a linear warm-up over 40 steps. So there are 14 *cells*.
# - **Runs:** each cell tries four rates, 0.0003 to 0.01, on two seeds; the best one then runs on
#   five *other* seeds.
# - **Control:** the same 14 cells with 2 layers.
# - **Baselines:** tables of counts from as much text, of each character alone and of pairs.
#
# `python course/07_block/depth.py arms` makes the table in eight minutes of processor time; this
# cell only prints it, in bits a character on the same 2,048 unseen characters: smallest to largest
# of five runs, `*` for each run that overflowed, and the rate. A cell *reads* if each of its runs
# ends below 4.5: the frequency of single characters alone gives 4.59.


# %% jupyter={"source_hidden": true}
def spread(cell):
    """Smallest to largest, a star for each run that overflowed, the rate, and whether it reads."""
    kept = [run for run in cell["bits"] if run is not None]
    lost = (len(cell["bits"]) - len(kept)) * "*"
    reads = "reads" if max(kept) < 4.5 and not lost else ""
    return f"{min(kept):.2f}-{max(kept):.2f}{lost:2s} {cell['rate']:<6g} {reads:6s}"


for pairs, name in ((False, "each character alone"), (True, "pairs of characters")):
    print(f"counted, {name}: {deep.counted_bits(pairs):.2f} bits")
for layers, cells in deep.table().items():
    print(f"{layers + ' layers':26s}constant    rate          warm-up     rate")
    for arm in deep.ARMS:
        print(f"  {arm:24s}" + " ".join(spread(cell) for cell in cells[arm].values()).rstrip())

# %% jupyter={"source_hidden": true}
display(
    charts.bands(
        [
            {"layers": int(layers), "bits": bits, "arm": arm}
            for layers, cells in deep.table().items()
            for arm in reversed(deep.ARMS)
            for bits in cells[arm]["constant"]["bits"]
            if bits is not None
        ],
        "layers",
        "bits",
        "arm",
        title="Two layers and 24, at the tuned constant rates; runs that overflowed left out",
        description="Bits against layers, 2 and 24, mean and range of the runs that did not "
        "overflow: three of five for the large start and for residual at 24 layers, five "
        "elsewhere. At 2 layers the five arms with a residual connection lie between 4.0 and 4.2, "
        "the two without near 4.55. At 24 pre-norm lies near 4.2, the small start near 4.3 with "
        "and without norms, all others near 4.6 (post-norm at the rate 0.01).",
        x_title="layers (log scale)",
        y_title="bits a character on unseen text",
        log_x=2,
    )
)

# %% [markdown]
# And live, by your block: the first 31 steps of two of these runs again, and one run whole that is
# not in the table: post-norm at the constant rate 0.001, which the two tuning seeds passed over. On
# Python 3.11, which made the table, only rounding differs. Other versions have other help texts,
# and so other numbers, here and in the counts above.

# %%
if ready(layer_norm, feed_forward, TransformerBlock):
    for arm in (deep.POST, deep.PRE):
        found = deep.table()[str(deep.DEEP)][arm]["constant"]
        losses, _ = deep.train(arm, found["rate"], False, seed=0, steps=31, block=TransformerBlock)
        pairs = list(zip(losses[:: deep.EVERY], found["losses"][0], strict=False))
        apart = max(abs(mine - stored) for mine, stored in pairs)
        print(f"{arm}: loss {losses[0]:.2f} to {losses[-1]:.2f}; off the table by {apart:.4f}")
    _, ended = deep.train(deep.POST, 0.001, False, seed=3, block=TransformerBlock)
    print(f"{deep.POST}, constant rate 0.001, seed 3: {ended:.2f} bits")

# %% [markdown]
# **What it shows.**
#
# - *Without a residual connection* nothing is read at 24 layers, and next to nothing at 2. The
#   large start keeps the gradients between 0.1 and 10 at first, in most starts; still two of its
#   ten runs overflow, and the others read nothing.
# - *Post-norm* with the usual start reads a little, in some runs: with warm-up one of these five
#   (27 of 55 others). And without? The tuning seeds chose the rate 0.01, where nothing is read. But
#   at 0.001 the same five seeds end at 4.36 to 4.62 (`depth.py passed-over`), and with warm-up at
#   4.35 to 4.62. So at this rate warm-up makes no difference. (Two seeds were too few to choose
#   by.)
# - *The start* does: with the small one post-norm reads in all ten runs. And without any norm in
#   the blocks, the small start reads in all ten, too, where a residual connection alone reads
#   nothing. This agrees with Huang et al.
# - *Pre-norm* reads in all runs, either way.
# - *The control:* at 2 layers all five arms with a residual connection are close together. So it is
#   depth that tells them apart, at this number of steps.
#
# **What it does not show.**
#
# - That the others cannot be trained: these are 120 steps, of which the warm-up takes a third, and
#   models of 24 numbers a token. With 600 steps two layers without a sum get to about 4.1 to 4.4,
#   and post-norm with the usual start and a constant rate to 3.7 to 4.3, while pre-norm gets to
#   3.6 (`depth.py longer` trains all three).
# - That nobody needs a warm-up: the original transformer was post-norm, had 6 layers on each side,
#   and a warm-up of 4,000 steps.
# - That depth is good: after 15,360 characters, two layers beat 24, and counting pairs (3.83) beats
#   every stack.
# - The best rates: in 14 of the 28 cells the best one is the largest that was tried, and they were
#   chosen on the same text, though on other seeds.
#
# > **Takeaway.** In these runs nothing deep learned without a sum. (He et al. 2023 do it with a
# > changed attention and a special start.) A deep sum can be trained with a
# > norm in front of each part, or with a small start, with a norm behind each part or none.
#
# ## 8 · Break it
#
# - **In pre-norm late blocks turn the stream less.** At the start the stream grows faster than what
#   a block adds; by block 96 the angle is about half.
# - **No position.** Without a mask, the block does not know where a token stands: shuffle the
#   tokens, and the outputs are shuffled (chapter 06). A causal mask tells it something, where
#   tokens differ: how many tokens come before.
# - **One number out of bounds.** In a norm all numbers share one size: one huge number makes all
#   others of its token nearly alike. Trained models have such numbers (Sun et al. 2024).

# %%
if ready(layer_norm, feed_forward, TransformerBlock):
    torch.manual_seed(SEED)
    stream = torch.randn(4, 16, 32)
    with torch.no_grad():
        for number in range(1, 97):
            before, stream = stream, TransformerBlock(32, 2)(stream)
            if number in (1, 6, 24, 96):
                cosine = functional.cosine_similarity(before, stream, dim=-1)
                turned = torch.rad2deg(torch.acos(cosine.clamp(max=1))).mean()
                print(f"block {number:2d} turns the stream by {turned:4.1f} degrees")
    huge, ones = torch.tensor([[1000.0, -3, -2, -1, 0, 1, 2, 3]]), torch.ones(8)
    print("one number is 1,000, the others -3 to 3:")
    print(layer_norm(huge, ones, 0 * ones))

# %% [markdown]
# ## A postcard
#
# > A block adds twice to a stream: what attention found, and what a feed-forward network makes of
# > each token. The sum keeps tokens apart and brings the gradient everywhere.
# >
# > post: norm(x + part(x)), the original. pre: x + part(norm(x)), most models today.
# >
# > RMSNorm is layer norm without mean and shift. SwiGLU has three matrices, so $F = \tfrac83 C$.
# >
# > $2L$ writes of variance $v/2L$ add up to $v$: multiply what writes to the stream by
# > $1/\sqrt{2L}$ at the start.
# >
# > With $F = 4C$ a block has about $12 C^2$ numbers, two thirds of them in the feed-forward
# > network.
#
# **Before:** chapter 06, how the model knows where it is. **Next:** chapter 08 (planned), what one
# builds from blocks: encoders, decoders, both.
#
# ## Sources
#
# - The block: Vaswani et al. 2017, *Attention Is All You Need*, §3.1 and §3.3.
# - Residual connections: He et al. 2016a, *Deep Residual Learning for Image Recognition*; the
#   argument in one line: He et al. 2016b, *Identity Mappings in Deep Residual Networks*, equations
#   (4) and (5). Without them: He et al. 2023, *Deep Transformers without Shortcuts*.
# - Norms: Ba et al. 2016, *Layer Normalization*; Zhang and Sennrich 2019, *Root Mean Square Layer
#   Normalization*.
# - Pre and post, warm-up: Xiong et al. 2020, *On Layer Normalization in the Transformer
#   Architecture*; parallel: Wang and Komatsuzaki 2021, *GPT-J*; Chowdhery et al. 2022, *PaLM*, §2.
# - Activation functions: Hendrycks and Gimpel 2016, *Gaussian Error Linear Units*; Shazeer 2020,
#   *GLU Variants Improve Transformer*.
# - A start in the place of warm-up and norms: Huang et al. 2020, *Improving Transformer
#   Optimization Through Better Initialization*.
# - Tokens become alike: Dong et al. 2021, *Attention Is Not All You Need: Pure Attention Loses Rank
#   Doubly Exponentially with Depth*.
# - The small start: Radford et al. 2019, *Language Models are Unsupervised Multitask Learners*,
#   §2.3.
# - Sizes: Radford et al. 2019; Devlin et al. 2019, *BERT*, §3; Touvron et al. 2023, *Llama 2*, and
#   its released configuration; Llama 3: Grattafiori et al. 2024, *The Llama 3 Herd of Models*,
#   §3.2.
# - Huge numbers: Sun et al. 2024, *Massive Activations in Large Language Models*.
