# %% [markdown]
# # 05 · Many heads
#
# **The question.** Why many heads, and how few keys and values suffice?
#
# At the end you will have written multi-head attention in PyTorch, equal to torch's own. You will
# have shown on a task of two questions what a second head is for, and what many more of them do.
# Then you will take heads of keys and values away again: grouped, shared, and compressed to one
# short latent, as large language models do to save memory. It takes about two and a half hours,
# half of them in the exercises.
#
# You need: attention (chapter 03), masks (chapter 04), and tensors in PyTorch: shapes, `@`, and
# how a `nn.Linear` is called. What an exercise uses beyond that is explained just before it.
#
# **How it works.** You fill in seven functions and classes. Below each one, `check(...)` says what
# holds, what does not, and why. `hint(...)` gives up to three hints; `solution(...)` shows the
# course's own answer, after asking. A cell that needs something you have not written yet says so
# and waits; nothing breaks if you run everything at once.
#
# | section | you write | you find out |
# |---|---|---|
# | 1 | | what one head cannot do, however wide it is |
# | 2–3 | `split_heads`, `merge_heads` | how one tensor holds many heads |
# | 4 | `MultiHeadAttention` | the whole of it; what more heads cost |
# | 5 | | two questions at once: 1, 2, 4, 8 and 16 heads |
# | 6 | `repeat_kv`, `GroupedQueryAttention` | how heads can share keys and values |
# | 7 | `LatentAttention` | how all of them can come from one latent |
# | 8 | `kv_cache_bytes` | what published models keep of a text |
# | 9–11 | | how few numbers suffice; where this breaks |

# %%
import itertools
from functools import cache
from typing import Any

import torch
from attend import charts, widgets
from attend.data.published_models import MODELS
from attend.data.two_relations import VALUES, two_relations
from attend.training import fit, over_seeds
from attend_grader import check, hint, ready, solution
from IPython.display import display
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

SEED = 5  # the only seed in this notebook: every random number below follows from it
torch.set_num_threads(1)  # the models here are so small that a second thread only gets in the way
torch.set_printoptions(precision=3, sci_mode=False)

# %% [markdown]
# ### Letters
#
# | letter | counts | | letter | counts |
# |---|---|---|---|---|
# | $B$ | sentences in a batch | | $H$ | heads, of queries |
# | $T$ | queries | | $G$ | heads of keys and values (section 6) |
# | $S$ | keys, and values | | $D$ | numbers in one head's query, key or value |
# | $C$ | numbers in one token: $C = H \cdot D$ | | $R$ | numbers in one latent (section 7) |
# | | | | $L$ | layers of a model (section 8) |
#
# In self-attention the queries and the keys come from the same tokens, so $S = T$. A *mask* is a
# table of permissions, as in chapter 04: `True` where a query may look at a key.

# %% [markdown]
# ## 1 · One head, one mean
#
# Chapter 03 put attention in one sentence: it is a dictionary that returns a mean. A query spreads
# *one* unit of weight over the keys, and gets the mean of the values under these weights. That is
# its strength, and its limit. One such look-up, with queries, keys and values of its own, is called
# a **head**.
#
# Read *Ann gave Ben her book.* To understand "her" you want two things: whose (Ann's), and what
# (the book). Often one token has two questions, with two answers at two different places.
#
# **What can one head do with two questions?** Let the two answers be the values $a$ and $b$, two
# numbers that know nothing of each other, each with mean 0 and variance 1. The head can give the
# weight $p$ to the first place and $1 - p$ to the second. It gets
#
# $$o = p\,a + (1 - p)\,b .$$
#
# All that follows sees $o$ only. How well can it guess $a$ from it? Try a multiple, $m\,o$. Its
# error is, on average,
#
# $$\mathbb E\big[(a - m\,o)^2\big] = 1 - 2 m p + m^2 \big(p^2 + (1 - p)^2\big),$$
#
# because $\mathbb E[a\,o] = p$ and $\mathbb E[o^2] = p^2 + (1-p)^2$. The best $m$ is where the
# derivative is 0, $m = p / (p^2 + (1-p)^2)$. Put it in:
#
# $$\text{error}_a = 1 - \frac{p^2}{p^2 + (1-p)^2}, \qquad
# \text{error}_b = 1 - \frac{(1-p)^2}{p^2 + (1-p)^2} .$$
#
# Now add the two. The fractions add up to 1:
#
# $$\boxed{\;\text{error}_a + \text{error}_b = 1 \quad\text{for every } p\;}$$
#
# An error of 1 is what you have when you know nothing. You wanted two answers, and the head gives
# you one: all of $a$ ($p = 1$), all of $b$ ($p = 0$), or half of each. On average over the two
# answers, the error is $\tfrac12$, whatever the head does. If it spends weight on other places, it
# only gets worse.
#
# Three things do *not* help:
#
# - *A wider head.* Its values may have a thousand numbers; the weights are the same for all.
# - *A network behind it.* For normally distributed numbers no function of $o$ guesses better than
#   $m\,o$. (That is a theorem about normal distributions. Section 5 tries it.)
# - *Better training.* No choice of $p$ is better than any other.
#
# What helps is a second mean, with weights of its own. That is a second head.

# %%
a, b = torch.randn(2, 100_000, generator=torch.Generator().manual_seed(SEED))
for p in (1.0, 0.9, 0.7, 0.5, 0.2):
    o = p * a + (1 - p) * b
    errors = [float((wanted - (wanted @ o) / (o @ o) * o).square().mean()) for wanted in (a, b)]
    print(
        f"p = {p:.1f}   error of a {errors[0]:.3f}   of b {errors[1]:.3f}   sum {sum(errors):.3f}"
    )

# %% [markdown]
# **What you should see.** The sum stays near 1, whatever $p$ is. It lies up to 0.011 above, because
# these two samples have variances of 1.004 and 1.011: 100,000 random numbers meet a variance of 1
# only to within about 1 %.

# %% [markdown]
# ## 2 · Many heads in one tensor
#
# Each head needs queries, keys and values of its own. You could give it its own three matrices,
# from $C$ numbers to $D$, and run a loop over the heads. Nobody does, because one large
# matrix product is faster than many small ones. Lay the heads' matrices side by side instead: with
# $D = C / H$, all $H$ of them together are one $C \times C$ matrix. One product makes the queries
# of all heads:
#
# $$x\,[\,W_q^{(1)} \;\cdots\; W_q^{(H)}\,] = [\,q^{(1)} \;\cdots\; q^{(H)}\,].$$
#
# Each token now has $C$ numbers of which the first $D$ belong to head 0, the next $D$ to head 1,
# and so on. What is left is to tell the heads apart.

# %% [markdown]
# <!-- exercise: split_heads -->
#
# **Why.** Attention works on the last two axes, (tokens, width), and treats all axes before them as
# separate problems. If the heads are an axis before the tokens, one call does all heads.
#
# $$\text{out}_{b,h,t,d} = x_{b,\,t,\;hD + d}$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$ | `x`: tokens with all heads side by side | $(B, T, C)$ |
# | $H$ | `heads` | a whole number that divides $C$ |
# | out | returned | $(B, H, T, D)$ with $D = C / H$ |
#
# **By hand.** One sentence of two tokens, $C = 4$, two heads:
#
# | | numbers | head 0 | head 1 |
# |---|---|---|---|
# | token 0 | 1 2 3 4 | 1 2 | 3 4 |
# | token 1 | 5 6 7 8 | 5 6 | 7 8 |
#
# So head 0 is $\begin{pmatrix} 1 & 2 \\ 5 & 6 \end{pmatrix}$ and head 1 is $\begin{pmatrix} 3 & 4
# \\ 7 & 8 \end{pmatrix}$.

# %% [markdown]
# **PyTorch you need: cut and turn.** A tensor is a row of numbers in memory with a shape laid over
# it. `reshape` lays another shape over the same row: it keeps the *reading order*, the last axis
# running fastest. So it can cut one axis into two neighbours, or join two neighbours into one. It
# cannot exchange axes. `transpose(i, j)` exchanges two axes and leaves the numbers where they are
# in the table. Here are 2 shelves with 6 books each, in 3 boxes of 2:
#
# ```python
# books = torch.arange(12).reshape(2, 6)   # shelf 0: 0 … 5, shelf 1: 6 … 11
# boxes = books.reshape(2, 3, 2)           # (shelf, box, book): each shelf cut into 3 boxes
# boxes[1, 0]                              # tensor([6, 7]): the first box of shelf 1
# boxes.transpose(0, 1).shape              # (3, 2, 2): (box, shelf, book)
# books.reshape(3, 2, 2)[0]                # tensor([[0, 1], [2, 3]]): two boxes of shelf 0!
# ```
#
# The last line has the right shape and the wrong numbers: it never exchanged anything. No error
# tells you.
#
# A length must be a whole number. In Python `6 // 3` divides whole numbers and gives the whole
# number 2, while `6 / 3` gives the float 2.0, which no shape takes.

# %% [markdown]
# **Predict first,** then open:
#
# <details><summary>x has the shape (8, 50, 512), and there are 16 heads. What is the shape of the
# result?</summary>
#
# (8, 16, 50, 32). The width of a head is 512 / 16 = 32.
#
# </details>
#
# <details><summary>With two heads of two numbers, does the value 3 of token 0 end up in the head of
# 1 and 2?</summary>
#
# No. Head 0 gets the first half of every token, head 1 the second half. 3 and 4 are in head 1.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.multi_head import split_heads

# %% [markdown]
# **What you should see.** The example above: each head has both tokens, and half of their numbers.

# %%
if ready(split_heads):
    parts = split_heads(torch.tensor([[[1, 2, 3, 4], [5, 6, 7, 8]]]), 2)
    for h in range(2):
        print(f"head {h}:", parts[0, h].tolist())

# %% [markdown]
# > **Takeaway.** Cut the width, then bring the heads before the tokens. A reshape alone gives the
# > right shape and the wrong heads.

# %% [markdown]
# ## 3 · And back again

# %% [markdown]
# <!-- exercise: merge_heads -->
#
# **Why.** After attention every head has found something for every token. The next layer wants
# tokens of $C$ numbers again: what the heads found, side by side. The paper calls it
# $\operatorname{Concat}$.
#
# $$\text{out}_{b,\,t,\;hD + d} = x_{b,h,t,d}$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$ | `x`: what each head found | $(B, H, T, D)$ |
# | out | returned | $(B, T, H \cdot D)$ |
#
# **By hand.** Head 0 holds the tokens (1, 2) and (3, 4); head 1 holds (5, 6) and (7, 8). Token 0
# becomes (1, 2, 5, 6), token 1 becomes (3, 4, 7, 8).
#
# **PyTorch you need: memory.** A transposed tensor is a *view*: the numbers lie in memory as
# before, and reading order is no longer memory order. `view` is a `reshape` that refuses to copy,
# so it fails there. `reshape` copies when it must.
#
# <details><summary>Predict first: what is merge_heads(split_heads(x, 4)) − x?</summary>
#
# Zero, to the last bit. Both only move numbers, and the second undoes the first.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.multi_head import merge_heads

# %% [markdown]
# **What you should see.** Splitting and merging gives back what went in, for any number of heads.

# %%
if ready(split_heads, merge_heads):
    x = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(SEED))
    for h in (1, 2, 3, 12):
        print(f"{h:2d} heads: all numbers back:", torch.equal(merge_heads(split_heads(x, h)), x))

# %% [markdown]
# > **Takeaway.** Splitting and merging move numbers and cost no arithmetic. Heads are a way to
# > *look* at $C$ numbers.

# %% [markdown]
# ## 4 · Multi-head attention
#
# Now put it together, as in §3.2.2 of Vaswani et al. 2017 ("the paper" from here on):
#
# 1. Project the tokens three times: $x W_q$, $x W_k$, $x W_v$, each $(B, T, C)$.
# 2. Split each into heads, $(B, H, T, D)$.
# 3. Attend in every head, under the mask: weights $(B, H, T, T)$, findings $(B, H, T, D)$.
# 4. Merge the findings, $(B, T, C)$.
# 5. Project once more, with $W_o$: this mixes what the heads found.

# %% [markdown]
# <!-- exercise: MultiHeadAttention -->
#
# **Why.** It is the part of a transformer from which the rest of this course starts.
#
# $$o^{(h)} = \operatorname{softmax}\!\left(\frac{q^{(h)} {k^{(h)}}^\top}{\sqrt D}\right) v^{(h)},
# \qquad \text{output} = [\,o^{(1)} \cdots o^{(H)}\,]\; W_o$$
#
# The scale is $\sqrt D$, with the width of *one head*: its dot products have $D$ terms.
#
# | symbol | in the class | shape |
# |---|---|---|
# | $x$ | `x` | $(B, T, C)$ |
# | $W_q, W_k, W_v$ | `self.query`, `self.key`, `self.value`: layers | $C \times C$ each |
# | $W_o$ | `self.output` | $C \times C$ |
# | mask | `mask`: `True` may look; `None` hides nothing | broadcasts with $(B, H, T, T)$ |
# | output | first result | $(B, T, C)$ |
# | weights | second result, of every head | $(B, H, T, T)$ |
#
# **By hand.** $C = 4$, two heads of width $D = 2$, and two tokens, $(1, 0, 0, 0)$ and $(0, 1, 0,
# 0)$: so the projections of token 0 are the first rows of $W_q$, $W_k$ and $W_v$, those of token 1
# the second rows. Let them be, with $a = \sqrt 2 \ln 2$ and a bar between head 0 and head 1:
#
# | | query | key | value |
# |---|---|---|---|
# | token 0 | 0 0 \| 0 $a$ | 1 0 \| 0 0 | 6 0 \| 0 6 |
# | token 1 | $a$ 0 \| 0 0 | 0 1 \| 0 1 | 0 6 \| 3 0 |
#
# - Head 0, token 0: its query is 0, so are its scores. Weights $(1/2, 1/2)$, finding $(3, 3)$.
# - Head 0, token 1: products $(a, 0)$, divided by $\sqrt 2$: scores $(\ln 2, 0)$, weights $(2/3,
#   1/3)$, finding $2/3 \cdot (6, 0) + 1/3 \cdot (0, 6) = (4, 2)$.
# - Head 1, token 0: products $(0, a)$, weights $(1/3, 2/3)$, finding $(2, 2)$.
# - Head 1, token 1: weights $(1/2, 1/2)$, finding $(1.5, 3)$.
#
# Merged, token 0 has found $(3, 3, 2, 2)$ and token 1 $(4, 2, 1.5, 3)$. With $W_o = I$ that is the
# output.
#
# **PyTorch you need: a module.** A `nn.Module` holds parameters and says in `forward` what becomes
# of an input. Layers are made once, in `__init__`; here that part is given. `layer(x)` projects the
# last axis and leaves the others alone:
#
# ```python
# layer = nn.Linear(6, 6, bias=False)
# layer(torch.zeros(2, 9, 6)).shape       # (2, 9, 6)
# ```
#
# Attention itself, with a mask, you have written in chapters 03 and 04. Here it is given, in torch:
# `masked_attention(q, k, v, mask)` returns the findings and the weights. It works on the last two
# axes; all before them are separate problems. (To a query that may look at nothing it gives weights
# of 0. The check asks for no such row: every query may look at one key at least.)

# %% [markdown]
# **Predict first,** then open:
#
# <details><summary>With one head, what is different from the attention of chapter 03?</summary>
#
# Only the last projection, $W_o$. With $W_o = I$ it is the same.
#
# </details>
#
# <details><summary>You double the heads from 8 to 16 and keep C. Does the module get more
# parameters? More multiplications?</summary>
#
# Write down your guess. The answer comes below the exercise, by counting.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.multi_head import MultiHeadAttention

# %% [markdown]
# **What you should see.** Your module beside torch's own `nn.MultiheadAttention`, with the same
# weights copied in: outputs and weights differ by rounding only. (torch keeps the three matrices in
# one, `in_proj_weight`. By `True` in a mask it means the opposite of this course: hidden.)

# %%
if ready(split_heads, merge_heads, MultiHeadAttention):
    torch.manual_seed(SEED)
    mine = MultiHeadAttention(48, 8)
    theirs = nn.MultiheadAttention(48, 8, bias=False, batch_first=True)
    with torch.no_grad():
        three = [layer.weight for layer in (mine.query, mine.key, mine.value)]
        theirs.in_proj_weight.copy_(torch.cat(three))
        theirs.out_proj.weight.copy_(mine.output.weight)
        x, causal = torch.randn(2, 10, 48), torch.ones(10, 10, dtype=torch.bool).tril()
        outputs = mine(x, causal), theirs(x, x, x, attn_mask=~causal, average_attn_weights=False)
    for name, one, other in zip(("output", "weights"), *outputs, strict=True):
        print(f"{name:7s} {tuple(one.shape)}: largest difference {(one - other).abs().max():.0e}")

# %% [markdown]
# ### A sentence you will read
#
# "More heads cost more." Count. A matrix product of $m \times n$ with $n \times k$ takes $m\,n\,k$
# multiplications and as many additions: $2mnk$ floating point operations (FLOPs).
#
# | step | FLOPs | with $H D = C$ |
# |---|---|---|
# | four projections | $4 \cdot 2\,B\,T\,C\,C$ | $8\,B\,T\,C^2$ |
# | scores: $H$ heads of $T \times D$ by $D \times T$ | $2\,B\,H\,T\,T\,D$ | $2\,B\,T^2 C$ |
# | means: $H$ heads of $T \times T$ by $T \times D$ | $2\,B\,H\,T\,T\,D$ | $2\,B\,T^2 C$ |
#
# $H$ has dropped out. Parameters: $4 C^2$, whatever $H$ is. The next cell counts both on your
# module, with a tool that watches every matrix product.

# %%
if ready(split_heads, merge_heads, MultiHeadAttention):
    x = torch.randn(1, 128, 48)
    for h in (1, 2, 4, 8, 16):
        model = MultiHeadAttention(48, h)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            _, weights = model(x)
        print(
            f"{h:2d} heads: {sum(p.numel() for p in model.parameters()):,} parameters, "
            f"{counter.get_total_flops():,} FLOPs, {weights.numel():,} attention weights"
        )

# %% [markdown]
# > **Myth refuted.** At a fixed width, more heads cost no parameter and no FLOP in matrix products.
# > What grows is the number of *weights*, $H T^2$, and with it the work of the softmax and the
# > memory to store them. And each head gets narrower: $D = C / H$. So heads are not bought with
# > parameters. They are bought with width.

# %% [markdown]
# > **Takeaway.** Project, split, attend, merge, project. Heads share the width among them.

# %% [markdown]
# ## 5 · Experiment: two questions at once
#
# Section 1 says: with two questions, one head must end at an error of ½. Let us see.
#
# Twelve people stand in a row, in three houses of four. Each says five things: its name, the name
# of a friend, its house, whether it is the first of its house, and four random numbers of its own.
# Each asks for the numbers of two people:
#
# - **friend**: the one whose name is my friend's. It may stand anywhere.
# - **house**: the first of my house. For three of the twelve that is oneself.
#
# It is a small picture of language: one question goes by content, the other by place. The two
# people are never the same. The random numbers have variance 1.
#
# *The model is your module and nothing else.* What a person says fills 32 of $C = 48$ numbers, and
# the first 8 numbers of the output are read as the answer. So for every number of heads there are
# the same $4 \cdot 48^2 = 9{,}216$ parameters. The loss is the mean squared error: 1 for knowing
# nothing, 0 for everything.
#
# **The control:** the same rows, but only the friend is asked for. One question, one place. If
# heads help because there are two questions, they should not help here.
#
# <details><summary>Predict first: the error of 1, 2, 4, 8 and 16 heads, for two questions and for
# one</summary>
#
# Section 1 predicts ½ for one head and two questions, and (nearly) 0 for all others. It says
# nothing about whether 16 heads of width 3 can be trained.
#
# </details>

# %%
C, B, STEPS, RATE = 48, 16, 250, 0.02
SEEDS = [10 * SEED + run for run in range(5)]
test = two_relations(seed=SEED, batch=512, width=C)  # no run trains on these rows
ASKED = {"friend and house": (0, 1), "friend only": (0,)}
trained: dict[tuple, Any] = {}  # (what, question, seed): the model


def first_of(what, section=5):
    """The first trained model of that kind; None, and a sentence, where there is none yet."""
    model = trained.get((what, "friend and house", SEEDS[0]))
    if model is None:
        print(f"This needs the models that section {section} trains: run the cell there first.")
    return model


@cache
def rows_for(seed):
    """What a run trains on: the same rows for every model of that seed."""
    return two_relations(seed, batch=STEPS * B, width=C)


def error_of(model, data, asked, some=slice(None)):
    """Mean squared error of the first numbers of the output, on some of the rows."""
    right = data.answers[some, :, ASKED[asked]].flatten(2)
    output, _ = model(data.x[some])
    return (output[..., : right.shape[-1]] - right).square().mean()


def train(build, seed, asked="friend and house"):
    """A model fresh from `build()`, trained; and the loss of each step."""
    torch.manual_seed(seed)
    model, data = build(), rows_for(seed)
    losses = fit(
        model.parameters(),
        lambda step: error_of(model, data, asked, slice(step * B, (step + 1) * B)),
        steps=STEPS,
        rate=RATE,
        progress=False,
    )
    return model, losses


def run(build, what, seed, asked="friend and house"):
    """One row for a chart: the error on the test rows, and when a quarter was reached."""
    try:
        model, losses = train(build, seed, asked)
        with torch.no_grad():
            error = float(error_of(model, test, asked))
    except (FloatingPointError, RuntimeError) as problem:  # a slip may make it untrainable
        print(f"{what}, {asked}: training stopped: {problem}. Run the check above.")
        return []
    trained[what, asked, seed] = model
    quarter = next((step for step, loss in enumerate(losses) if loss < 0.25), None)
    return [{"error": error, "model": what, "quarter": quarter}]


# %% [markdown]
# The next cell trains 50 models: five seeds for each of five numbers of heads and two tasks. It
# takes 15 to 40 seconds.

# %%
rows = []
if ready(split_heads, merge_heads, MultiHeadAttention):
    rows = over_seeds(
        lambda seed, heads, asked: run(lambda: MultiHeadAttention(C, heads), heads, seed, asked),
        SEEDS,
        heads=(1, 2, 4, 8, 16),
        asked=list(ASKED),
    )
for (heads, asked), group in itertools.groupby(rows, lambda row: (row["heads"], row["asked"])):
    several = list(group)
    errors = sorted(row["error"] for row in several)
    steps = [row["quarter"] for row in several]
    print(
        f"{heads:2d} heads, {asked:16s}  error {errors[0]:.4f} to {errors[-1]:.4f}"
        f"   first step below 0.25, run by run: {steps}"
    )

# %% [markdown]
# **What you should see.** Two lines that differ in one place: at one head.

# %%
if rows:
    display(
        charts.bands(
            rows,
            "heads",
            "error",
            "asked",
            title="Two questions need two heads; one question needs one",
            description="Error on unseen rows against the number of heads, both axes logarithmic, "
            "mean and range of 5 runs. With two questions one head stays at 0.5; two to eight "
            "heads are below 0.001, sixteen somewhat above. With one question all are low.",
            x_title="heads (log scale), at a fixed width of 48",
            y_title="mean squared error (log scale)",
            log_x=2,
            log_y=10,
            colors={"friend and house": charts.UNSCALED, "friend only": charts.SCALED},
        )
    )

# %% [markdown]
# **What it shows.** One head ends between 0.50 and 0.52 in all five runs, as section 1 derived: no
# training and no width can help it. Two heads end below 0.001. So do four and eight. With one
# question, one head is enough.
#
# Look at the printed steps too. *Narrow heads start more slowly.* The more heads, the later the
# loss falls below 0.25: with one question at about step 40 for one head, 65 for eight, 80 for
# sixteen. Sixteen heads (of width 3) are not quite there after 250 steps.
#
# And yet one more head than needed may be worth having. With exactly two heads, the runs differ
# most: four of them fall below 0.25 at about steps 50 to 75, the fifth only at about 140. Until one
# of its heads finds the other question, it is a model with one head. (With half the batch, outside
# this notebook, one run of three stayed at 0.50 to the end: only one question was ever answered.)
# With four heads the slowest run takes about 75 steps.
#
# **What it does not show.**
#
# - That 8 heads are better than 4, or 4 than 2. Here they are not. The number of heads in published
#   models comes from trying.
# - That a language model has "two questions". How many different means a token needs, nobody knows
#   beforehand.
#
# > **Takeaway.** A head is one mean. Count the different means that one token needs at the same
# > time: so many heads, and a few to spare for training.

# %% [markdown]
# ### Look at the heads
#
# Here is a trained model with four heads, on rows it has never seen. The marks below the arcs say
# where the friend and the first of the house stand. Choose a person with the slider "query", and
# compare the heads. Then change the example: your module runs on it. The picture opens on Gus, who
# *is* the first of the house: a loop is an arc to oneself. Query 2 has two other people to find.

# %%
if ready(split_heads, merge_heads, MultiHeadAttention) and (four := first_of(4)):
    marks = {name: test.places[:8, :, n] for n, name in enumerate(("friend", "house"))}
    names = [test.row(n) for n in range(8)]
    display(widgets.head_explorer(four, test.x[:8], names, marks=marks))

# %% [markdown]
# ### Does each head have its own job?
#
# It is tempting to give heads names. Measure first. For each head of a model with eight: how much
# weight it gives to the friend and to the first of the house, on average; and what happens to the
# two errors if its findings are set to 0. (The part of $W_o$ that reads this head is set to 0,
# which is the same.) Heads are counted from 1 here, as in the explorer.


# %%
def errors_without(model, heads):
    """The errors of friend and house, with the findings of these heads set to 0."""
    kept = model.output.weight.clone()
    for h in heads:
        model.output.weight[:, 6 * h : 6 * h + 6] = 0
    wrong = (model(test.x)[0][..., : 2 * VALUES] - test.answers.flatten(2)).square()
    model.output.weight.copy_(kept)
    return wrong.mean(dim=(0, 1)).reshape(2, VALUES).mean(dim=1).tolist()


if ready(split_heads, merge_heads, MultiHeadAttention) and (eight := first_of(8)):
    with torch.no_grad():
        _, weights = eight(test.x)
        alone = []
        for h in range(8):
            there = test.places[:, None].expand(-1, 8, -1, -1)
            friend, house = weights.gather(3, there)[:, h].mean(dim=(0, 1)).tolist()
            alone.append(errors_without(eight, [h]))
            print(
                f"head {h + 1}: weight on friend {friend:.2f}, on house {house:.2f}"
                f"   without it: error of friend {alone[h][0]:.2f}, of house {alone[h][1]:.2f}"
            )
        spare = [h for h in range(8) if max(alone[h]) < 0.1]
        if spare:
            off = errors_without(eight, spare)
            print(
                f"without heads {', '.join(str(h + 1) for h in spare)}, all at once: "
                f"error of friend {off[0]:.3f}, of house {off[1]:.3f}"
            )

# %% [markdown]
# **What you should see.** Head 3 looks at the friend, head 5 at the first of the house. Without
# head 3, nothing is known of the friend (error about 1); without head 5, little of the house (about
# 0.7). That is the tidy part of the story. The other six:
#
# - Heads 6 and 8 give more than 0.8 of their weight to the first of the house. Remove either: the
#   errors stay at about 0.01 or below. *A large weight is not a large influence.* What a head adds
#   also depends on its values and on its part of $W_o$.
# - The others look here and there. Remove any one of them: nothing happens.
# - Removing the six *together* is another question, since one may stand in for another. The last
#   line answers it: the friend's error stays at about 0.001, that of the house rises to about 0.02.
#
# So "each head learns its own relation" is not what happened: six of eight heads could go, with
# little harm. Michel et al. 2019 and Voita et al. 2019 found the same of most heads in trained
# translation models.
#
# > **Takeaway.** Heads are *room* for different questions. Which head takes which question, how
# > many take the same, and how many take none, is left to chance and training.

# %% [markdown]
# ### Is a second head the only way?
#
# Two more models with *one* head, trained in the same way, three runs each:
#
# - one head, and behind it a network with a hidden layer of 64 numbers. Section 1 says: no use.
# - two *layers* of one head, each adding to what was there. The second layer can ask again.
#
# It takes 3 to 8 seconds.

# %%


class HeadAndNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.look = MultiHeadAttention(C, 1)
        self.think = nn.Sequential(nn.Linear(C, 64), nn.ReLU(), nn.Linear(64, C))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found, weights = self.look(x)
        return self.think(found), weights


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = MultiHeadAttention(C, 1), MultiHeadAttention(C, 1)
        self.read = nn.Linear(C, C)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = x + self.first(x)[0]
        found, weights = self.second(x)
        return self.read(x + found), weights


if ready(split_heads, merge_heads, MultiHeadAttention):
    kinds = {"one head and a network": HeadAndNetwork, "two layers of one head": TwoLayers}
    pairs = over_seeds(lambda seed, kind: run(kinds[kind], kind, seed), SEEDS[:3], kind=list(kinds))
    for row in pairs:
        print(f"{row['kind']:23s}  error {row['error']:.4f}")

# %% [markdown]
# **What you should see.** The network behind the head changes nothing: 0.51 to 0.53. What is not in
# $o$ cannot be computed from it. Two layers of one head end below 0.001, like two heads: the
# second asks the second question, while the first answer waits in $x$.
#
# So heads are not the *only* way to ask twice. They are the way to ask at the same time, in one
# layer; depth asks one after the other. A transformer has both.

# %% [markdown]
# ## 6 · Fewer keys and values
#
# A language model writes one token after the other. The newest token's query looks at the keys and
# values of *all* tokens before it. These have not changed since the last step, so nobody computes
# them again: they are kept, in what is called the **KV cache**. (Queries are not kept: an old query
# is never asked again. Chapter 10 builds such a cache.)
#
# The cache grows by $2 \cdot H \cdot D$ numbers for every token, in every layer. And for every new
# token *all of it* is read from memory once. A chip computes far faster than it reads; so for long
# texts, reading the cache is what one waits for (Shazeer 2019, §2.4).
#
# Does every head need keys and values of its own? Two extremes and a way between:
#
# | | key and value heads | numbers kept of a token in a layer |
# |---|---|---|
# | multi-head (MHA) | $G = H$ | $2 H D$ |
# | grouped-query (GQA; Ainslie et al. 2023) | $1 < G < H$ | $2 G D$ |
# | multi-query (MQA; Shazeer 2019) | $G = 1$ | $2 D$ |
#
# The queries stay as many as they were. Heads can still ask different questions, each with its own
# weights. But the heads of a group search the same keys and average the same values.

# %% [markdown]
# <!-- exercise: repeat_kv -->
#
# **Why.** Queries have $H$ heads, keys only $G$. To compare them head by head, hand each head of
# keys to all query heads of its group. Query head $h$ belongs to group $h$ divided by `repeats`,
# rounded down:
#
# $$\text{out}_{b,h,s,d} = x_{b,\,\lfloor h / \text{repeats} \rfloor,\,s,\,d}$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$ | `x`: keys, or values | $(B, G, S, D)$ |
# | | `repeats`: $H / G$, query heads in a group | a whole number |
# | out | returned | $(B, G \cdot \text{repeats}, S, D)$ |
#
# **By hand.** Two heads $k_0, k_1$ and `repeats` = 3: the six are $k_0, k_0, k_0, k_1, k_1, k_1$.
# Neighbours share. That is a convention. Trained parameters that you can download ("checkpoints")
# follow it, so a model that repeats in rounds, $k_0, k_1, k_0, k_1, \ldots$, would look up the
# wrong keys.
#
# **PyTorch you need: copies.** `x[None]` puts in an axis of length 1 before the first one, `x[:,
# None]` behind it, `x[:, :, None]` behind the second. `expand` lets such an axis pretend to be
# longer, without copying: all entries along it are the same memory. Here is a price for each of 2
# shops, wanted for 3 days:
#
# ```python
# prices = torch.tensor([5.0, 8.0])
# prices[None].expand(3, 2)             # tensor([[5., 8.], [5., 8.], [5., 8.]]): days, shops
# prices[None].expand(3, 2).reshape(6)  # tensor([5., 8., 5., 8., 5., 8.]): now copied, in rounds
# prices.repeat(3)                      # the same rounds
# ```
#
# `reshape` keeps the reading order. So where the new axis stands decides which copies become
# neighbours.
#
# <details><summary>Predict first: the gradient of a key that serves three query heads</summary>
#
# It is the sum of three gradients, one from each head. Autograd adds them up by itself, through
# `expand` as through any copy.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.multi_head import repeat_kv

# %% [markdown]
# **What you should see.** Two heads, whose keys are 0 and 10, for six queries.

# %%
if ready(repeat_kv):
    print(repeat_kv(torch.tensor([0.0, 10.0]).reshape(1, 2, 1, 1), 3).flatten())

# %% [markdown]
# > **Takeaway.** Neighbouring query heads share a head of keys and values. The copies are for the
# > arithmetic only; the cache holds each once.

# %% [markdown]
# <!-- exercise: GroupedQueryAttention -->
#
# **Why.** With one more number in `__init__` you get the whole family: `kv_heads` = `heads` is
# multi-head attention, `kv_heads` = 1 is multi-query attention.
#
# $$o^{(h)} = \operatorname{softmax}\!\left(\frac{q^{(h)} {k^{(g)}}^\top}{\sqrt D}\right) v^{(g)},
# \qquad g = \lfloor h\, G / H \rfloor$$
#
# | symbol | in the class | shape |
# |---|---|---|
# | $W_q$, $W_o$ | `self.query`, `self.output` | $C \times C$ |
# | $W_k$, $W_v$ | `self.key`, `self.value` | $C \times G D$ |
# | $H$, $G$ | `self.heads`, `self.kv_heads` | whole numbers; $G$ divides $H$ |
# | output, weights | returned | $(B, T, C)$, $(B, H, T, T)$ |
#
# **By hand.** $C = 8$, 4 heads, 2 kv_heads: $D = 2$. Queries are $(B, 4, T, 2)$, keys and values
# $(B, 2, T, 2)$, and $4 / 2 = 2$ query heads share each. A token leaves $2 \cdot 2 \cdot 2 = 8$
# numbers in the cache instead of 16.
#
# <details><summary>Predict first: do the parameters stay the same as well?</summary>
#
# No. $W_k$ and $W_v$ shrink to $C \times GD$, so there are fewer. (Models that use GQA often spend
# the parameters they save elsewhere.)
#
# </details>
#
# <details><summary>Predict first: in multi-query attention, can two heads have different weights
# for the same token?</summary>
#
# Yes. The keys are shared, the queries are not.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.multi_head import GroupedQueryAttention

# %% [markdown]
# **What you should see.** Your class beside torch's `scaled_dot_product_attention` with
# `enable_gqa=True`, for 8 heads and every possible number of key and value heads. Only the
# projections around it are yours.

# %%
if ready(split_heads, merge_heads, repeat_kv, GroupedQueryAttention):
    torch.manual_seed(SEED)
    x = torch.randn(2, 10, 48)
    for kv_heads in (1, 2, 4, 8):
        model = GroupedQueryAttention(48, 8, kv_heads)
        with torch.no_grad():
            three = (layer(x) for layer in (model.query, model.key, model.value))
            q, k, v = (part.unflatten(-1, (-1, 6)).transpose(1, 2) for part in three)
            found = nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
            difference = model(x)[0] - model.output(found.transpose(1, 2).flatten(2))
        count = sum(p.numel() for p in model.parameters())
        print(
            f"8 heads, {kv_heads} kv_heads: largest difference {difference.abs().max():.0e}, "
            f"{count:,} parameters, {2 * kv_heads * 6} numbers kept of a token"
        )

# %% [markdown]
# > **Takeaway.** Grouped-query attention is multi-head attention whose key and value heads are
# > shared by neighbours. Its two ends are MHA and MQA.

# %% [markdown]
# ## 7 · One latent for all heads
#
# Sharing makes heads *equal* where they were different. DeepSeek-V2 (DeepSeek-AI 2024, §2.1.2)
# takes another way, multi-head latent attention (MLA): let every head keep its own keys and values,
# but make them all from one short vector, the **latent**:
#
# $$c_s = x_s W_{dkv}, \qquad k_s^{(h)} = c_s W_{uk}^{(h)}, \qquad v_s^{(h)} = c_s W_{uv}^{(h)} .$$
#
# $d$ is for down: $W_{dkv}$ leads from $C$ numbers down to $R$. $u$ is for up: $W_{uk}$ and
# $W_{uv}$ lead up to the $D$ numbers of each head. Only $c_s$ is kept: $R$ numbers a token, for
# keys and values of all heads together.
#
# It seems that nothing is won: to attend, you must make the keys of all tokens again at every step.
# That would be slow. But look at one score. Vectors are rows, as in the whole course:
#
# $$q \cdot k_s = q\,(c_s W_{uk})^\top = q\,W_{uk}^\top\, c_s^\top = (q\,W_{uk}^\top) \cdot c_s .$$
#
# The brackets have moved. Instead of leading every latent up to the query, lead the *one* query
# down to the latents. It becomes $R$ numbers wide, and meets the latents as they are: $W_{uk}$ is
# **absorbed** into the query. The values go the same way. Take the mean first, and lead up what
# comes out, one vector in place of $S$:
#
# $$\sum_s p_s\, v_s = \sum_s p_s\, (c_s W_{uv}) = \Big(\sum_s p_s\, c_s\Big) W_{uv} .$$
#
# (One step further, $W_{uv}$ and $W_o$ can be multiplied once and for all.) So in the absorbed form
# the latents are keys *and* values, the same for all heads: it is multi-query attention with heads
# of width $R$. Nothing is approximated. Only the order of the products has changed.

# %% [markdown]
# <!-- exercise: LatentAttention -->
#
# **Why.** One model, two ways to run it: `forward` as one trains it, `forward_absorbed` as one
# generates with it. They must agree.
#
# | symbol | in the class | as a matrix | stored as `.weight` |
# |---|---|---|---|
# | $W_q$, $W_o$ | `self.query`, `self.output` | $C \times C$ | $(C, C)$ |
# | $W_{dkv}$ | `self.compress` | $C \times R$ | $(R, C)$ |
# | $W_{uk}$, all heads side by side | `self.key` | $R \times C$ | $(C, R)$ |
# | $W_{uv}$, all heads side by side | `self.value` | $R \times C$ | $(C, R)$ |
# | output, weights | returned by both | $(B, T, C)$, $(B, H, T, T)$ | |
#
# `forward` calls the layers; `forward_absorbed` needs the matrices themselves. **`nn.Linear` stores
# its matrix transposed:** `layer(x)` is `x @ layer.weight.T`. So `self.key.weight` is $W_{uk}^\top$
# already. Its rows $0 \ldots D - 1$ belong to head 0, the next $D$ to head 1, and so on.
#
# | in `forward_absorbed` | shape |
# |---|---|
# | queries $q$ | $(B, H, T, D)$ |
# | $W_{uk}^\top$ of each head, from `self.key.weight` | $(H, D, R)$ |
# | $W_{uv}$ of each head, from `self.value.weight` | $(H, R, D)$ |
# | absorbed queries $q\,W_{uk}^\top$ | $(B, H, T, R)$ |
# | latents $c$, one for all heads | $(B, 1, T, R)$ |
# | means of latents | $(B, H, T, R)$ |
# | findings: these means times $W_{uv}$ of each head | $(B, H, T, D)$ |
#
# **Mind the scale.** It stays $1/\sqrt D$: the scores are the same numbers as before, so they must
# be divided by the same root. `masked_attention` would take the width of what it gets, $R$. Tell
# it: its fifth argument is `scale`, the number that dot products are multiplied by.
#
# **By hand.** One head, $D = 1$, $R = 2$. The query is $3$, the latent $c = (1, 2)$, and $W_{uk} =
# \begin{pmatrix} 4 \\ 5 \end{pmatrix}$. The key is $1 \cdot 4 + 2 \cdot 5 = 14$ and the score $3
# \cdot 14 = 42$. Absorbed: the query becomes $3 \cdot (4, 5) = (12, 15)$, and $(12, 15) \cdot (1,
# 2) = 12 + 30 = 42$. The scale is $1/\sqrt 1$ in both.
#
# **PyTorch you need.** `unflatten` cuts one axis into two, and stacks of matrices broadcast:
#
# ```python
# rows = torch.zeros(12, 5)
# rows.unflatten(0, (3, -1)).shape                        # (3, 4, 5): -1 is worked out
# (torch.zeros(2, 3, 7, 4) @ torch.zeros(3, 4, 5)).shape  # (2, 3, 7, 5): a matrix for each of the 3
# ```
#
# **Left out.** DeepSeek-V2 also compresses the queries, which saves memory in training only. And
# it keeps 64 more numbers a token, one key for all heads that carries the position by RoPE; a
# rotation between $W_{uk}$ and the query could not be absorbed. Chapter 06 explains RoPE.

# %% [markdown]
# **Predict first,** then open:
#
# <details><summary>In the absorbed form, does a score cost more or fewer multiplications than
# before?</summary>
#
# Usually more. A query and a latent have $R$ numbers each instead of $D$; in DeepSeek-V2, $R = 512$
# and $D = 128$. What is saved is *memory traffic*: one latent is read for all heads, in place of
# $H$ keys and $H$ values. When reading is what one waits for, that is a good trade.
#
# </details>
#
# <details><summary>R = C, and the matrices are free. Is there any multi-head attention that MLA
# cannot imitate?</summary>
#
# None. Take $W_{dkv} = I$; then $W_{uk}$ and $W_{uv}$ are the usual $W_k$ and $W_v$. For $R < C$
# the keys and values of all heads together depend on $R$ numbers of the token only.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.multi_head import LatentAttention

# %% [markdown]
# **What you should see.** Both forms agree up to rounding, also where $R$ is larger than $D = 6$.
# The last columns count the floating point operations. The absorbed form takes more of them where
# $R$ is larger than $D$: it saves memory, not arithmetic.

# %%
if ready(split_heads, merge_heads, LatentAttention):
    torch.manual_seed(SEED)
    x = torch.randn(2, 100, 48)
    for r in (4, 12, 24, 48):
        model = LatentAttention(48, 8, r)
        with torch.no_grad():
            with FlopCounterMode(display=False) as naive:
                one = model(x)
            with FlopCounterMode(display=False) as absorbed:
                other = model.forward_absorbed(x)
        off = [float((a - b).abs().max()) for a, b in zip(one, other, strict=True)]
        print(
            f"R = {r:2d}: largest difference of outputs {off[0]:.0e}, of weights {off[1]:.0e}; "
            f"FLOPs {naive.get_total_flops():,} and {absorbed.get_total_flops():,}"
        )

# %% [markdown]
# > **Takeaway.** Keep one latent, and move the brackets: the query comes down to the latents, and
# > the mean goes up. The same numbers, without keys and values.

# %% [markdown]
# ## 8 · What is kept, in bytes

# %% [markdown]
# <!-- exercise: kv_cache_bytes -->
#
# **Why.** "How many users fit on this machine, and how long may their texts be?" After the model's
# own parameters, the answer is decided by the cache. A number of 16 bits takes 2 bytes.
#
# $$\text{bytes} = \left\lceil \frac{\text{bits}}{8} \cdot B \cdot L \cdot S_{\text{kept}} \cdot n
# \right\rceil, \qquad n = \begin{cases} 2\,G\,D & \text{keys and values} \\ R & \text{a latent in
# their place (MLA)} \end{cases}$$
#
# A model with a *window* looks at the last `window` tokens only. It keeps no more than these.
#
# | symbol | argument | |
# |---|---|---|
# | $S$ | `tokens` | in one sentence |
# | $L$ | `layers` | each keeps its own |
# | $G$, $D$ | `kv_heads`, `head_dim` | |
# | $B$ | `batch` | sentences at once |
# | | `bits` | of one number, usually 16 |
# | $R$ | `latent` | numbers in a latent, or `None` |
# | $S_{\text{kept}}$ | `window` | the smaller of `tokens` and `window`; all if it is `None` |
#
# **By hand.** Llama 2 7B has 32 layers and 32 key and value heads of 128 numbers. For one token it
# keeps $2 \cdot 32 \cdot 32 \cdot 128 = 262{,}144$ numbers: 524,288 bytes, half a MiB. A text of
# 4,096 tokens takes 2 GiB. (1 KiB = 1,024 bytes, 1 MiB = 1,024 KiB, 1 GiB = 1,024 MiB.)
#
# **Python you need.** `x // y` divides whole numbers and rounds *down*; `x / y` makes a float. To
# round up, add what is missing first: with $y = 10$, `(x + 9) // 10`.
#
# <details><summary>Predict first: Llama 2 70B has ten times as many parameters as the 7B model, and
# 80 layers instead of 32. Does it keep more?</summary>
#
# Less. It has 8 key and value heads instead of 32: $80 \cdot 8 = 640$ against $32 \cdot 32 = 1024$.
# 1.25 GiB for 4,096 tokens.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.multi_head import kv_cache_bytes

# %% [markdown]
# **What you should see.** Published models and what they keep of one token, by your count. The
# last column asks: with how many key and value heads would *this* model keep as much? For
# DeepSeek-V2 it is 2.25 heads, the number that its authors state (§2.1.4).

# %%
if ready(kv_cache_bytes):
    for name, m in MODELS.items():
        kept = kv_cache_bytes(1, m.layers, m.kv_heads, m.head_dim, latent=m.latent)
        one_head = kv_cache_bytes(1, m.layers, 1, m.head_dim)
        print(
            f"{name:13s} {m.kind}  {m.layers:3d} layers, {m.heads:3d} heads of {m.head_dim:3d}: "
            f"{kept / 1024:7.1f} KiB a token, as with {kept / one_head:5.2f} kv_heads"
        )
    print("\nSources:")
    for name, m in MODELS.items():
        print(f"  {name}: {m.source}")

# %% [markdown]
# Now change the text. Try these:
#
# - Llama 2 7B at 131,072 tokens: how many such texts fit beside each other on a device of 80 GiB?
# - GPT-3 and DeepSeek-V2 have about the same number of parameters (175 and 236 billion). How many
#   times as much does GPT-3 keep?
# - Mistral 7B: from which length on does it stop growing?
# - Take numbers of 4 bits instead of 16. As how many fewer heads is that?

# %%
if ready(kv_cache_bytes):
    display(widgets.kv_cache_calculator(kv_cache_bytes))

# %% [markdown]
# <details><summary>What you should have found</summary>
#
# - One. It keeps 512 KiB a token, so $131{,}072 = 2^{17}$ tokens take 64 GiB. (The parameters must
#   fit beside it: 7 billion numbers of 2 bytes are another 13 GiB.)
# - 4.5 MiB a token against 67.5 KiB: 68 times as much.
# - From 4,096 tokens on, its window: 512 MiB.
# - A quarter of the bytes, as with a quarter of the key and value heads.
#
# </details>

# %% [markdown]
# > **Takeaway.** Bytes = 2 · batch · layers · tokens · kv_heads · head_dim · bytes of a number. Of
# > these, kv_heads is what one can reduce and keep the rest of the model as it is.

# %% [markdown]
# ## 9 · Experiment: how few numbers suffice?
#
# Back to the people and houses, both questions, eight heads of width 6. How much can you save
# before the answers get worse? Each model keeps so many numbers of a token, of 32 bits or 4 bytes
# each here:
#
# - shared heads: 8, 4, 2, 1 key and value heads: $2 \cdot G \cdot 6 = 96, 48, 24, 12$ numbers;
# - latents of $R = 24, 12, 6$ numbers.
#
# What must go into them? To answer, a token must be found by its name (12 of them), found by its
# house and by being the first, and hand over 4 numbers. The 4 numbers alone need a width of 4.
#
# <details><summary>Predict first: multi-query attention and a latent of 12 keep equally many
# numbers. Which does better?</summary>
#
# MQA must split its 12 numbers: 6 for the key, 6 for the value. A latent of 12 is both at once, and
# each head makes its own key from it. Whether that shows after 250 steps, the experiment tells.
#
# </details>
#
# The next cell trains 35 models. It takes 12 to 40 seconds.

# %%
savings = []
CHOICES = {"8 kv_heads": 8, "4 kv_heads": 4, "2 kv_heads": 2, "1 kv_head": 1}
CHOICES |= {"latent of 24": 24, "latent of 12": 12, "latent of 6": 6}


def smaller(choice):
    """A model that keeps less, with eight heads."""
    if "latent" in choice:
        return LatentAttention(C, 8, CHOICES[choice])
    return GroupedQueryAttention(C, 8, CHOICES[choice])


if ready(split_heads, merge_heads, repeat_kv, GroupedQueryAttention, LatentAttention):
    savings = over_seeds(
        lambda seed, choice: run(lambda: smaller(choice), choice, seed), SEEDS, choice=list(CHOICES)
    )
if savings and ready(kv_cache_bytes):
    for row in savings:
        size = CHOICES[row["choice"]]
        row["way"] = "latents" if "latent" in row["choice"] else "shared heads"
        latent = size if row["way"] == "latents" else None
        row["bytes"] = kv_cache_bytes(1, 1, size, 6, bits=32, latent=latent)
    for choice, group in itertools.groupby(savings, lambda row: row["choice"]):
        several = list(group)
        errors = sorted(row["error"] for row in several)
        print(f"{choice:12s} {several[0]['bytes']:4d} bytes: {errors[0]:.4f} to {errors[-1]:.4f}")
    display(
        charts.bands(
            savings,
            "bytes",
            "error",
            "way",
            title="Latents do more with equal bytes, until too few are left",
            description="Error against bytes kept of a token, both axes logarithmic, mean and "
            "range of 5 runs. Shared heads: low at 384 and 192 bytes, somewhat higher at 96, near "
            "0.02 at 48. Latents: low at 96 and 48 bytes, near 0.47 at 24.",
            x_title="bytes kept of a token (log scale)",
            y_title="mean squared error (log scale)",
            log_x=2,
            log_y=10,
            colors={"shared heads": charts.UNSCALED, "latents": charts.SCALED},
        )
    )

# %% [markdown]
# **What you should see.** Of 384 bytes a token (eight heads), three quarters can be saved, and the
# error stays below 0.005. A single head of keys and values, 48 bytes, ends between 0.001 and 0.04.
# Latents of the same 48 bytes end at about 0.001 or below. At 24 bytes it is over: 6 numbers cannot
# hold the 4 that are asked for *and* say whose they are. The error is about that of a model that
# answers one of the two questions.
#
# **What it shows.** Eight heads of queries do not need eight heads of keys. And with equally many
# bytes, a latent that every head reads in its own way did better than equal keys for all.
#
# **What it does not show.**
#
# - That MQA cannot do it. It learns more slowly here: with 1,000 steps (three runs, outside this
#   notebook) it reached 0.0001 in two of them. So did a latent of 8, in all three. A latent of 6
#   did not: it stayed above 0.40.
# - That latents are better in a large language model. DeepSeek-AI 2024 (appendix D) report so, for
#   their models. Positions, which this task does not need, make MLA more complicated.
# - How fast any of it is. That depends on kernels, chapter 20.
#
# > **Takeaway.** Keys and values of different heads have much in common. How little suffices, the
# > task decides: below that, no arrangement helps.

# %% [markdown]
# ## 10 · Where this breaks
#
# **A mask without the axis of heads.** You have a mask for each sentence, $(B, T, T)$. Weights are
# $(B, H, T, T)$. Shapes are compared from the right: $B$ meets $H$. If they differ, you get an
# error. If they happen to be equal, you get none, and *head* 0 is given the mask of *sentence* 0:
# below, it looks at padding. Write `mask[:, None]`.

# %%
if ready(split_heads, merge_heads, MultiHeadAttention):
    torch.manual_seed(SEED)
    x, model = torch.randn(2, 3, 8), MultiHeadAttention(8, 2)  # two sentences, two heads
    lengths = torch.tensor([3, 1])  # the second sentence has one word and two of padding
    mask = (torch.arange(3) < lengths[:, None])[:, None].expand(2, 3, 3)
    with torch.no_grad():
        for name, table in {"mask": mask, "mask[:, None]": mask[:, None]}.items():
            _, weights = model(x, table)
            for h in range(2):
                row = ", ".join(f"{weight:.2f}" for weight in weights[1, h, 0].tolist())
                print(f"{name:13s}  second sentence, first word, head {h}: {row}")


# %% [markdown]
# **Heads that are too narrow.** The scores of one head are a product of $T \times D$ and $D
# \times T$, so their rank is at most $D$. With $D < T$ a head cannot have just any table of weights
# (Bhojanapalli et al. 2020 call it the low-rank bottleneck). The logarithm of the weights gives the
# scores back, up to a number for each row; so its rank is at most $D + 1$.

# %%
if ready(split_heads, merge_heads, MultiHeadAttention):
    torch.manual_seed(SEED)
    x = torch.randn(1, 12, 48, dtype=torch.float64)
    for h in (1, 4, 8, 16, 48):
        with torch.no_grad():
            _, weights = MultiHeadAttention(48, h).double()(x)
        rank = int(torch.linalg.matrix_rank(weights[0, 0].log()))
        print(f"{h:2d} heads of width {48 // h:2d}: rank of a head's log weights {rank:2d} of 12")

# %% [markdown]
# **Sharing afterwards.** A model that was trained with eight heads of keys and values does not work
# with one, their mean. It must be trained on. (Ainslie et al. 2023, §2.1, start from the mean and
# train for 5 % of the original steps.)

# %%
if ready(split_heads, merge_heads, repeat_kv, GroupedQueryAttention) and (
    many := first_of("8 kv_heads", section=9)
):
    one = GroupedQueryAttention(C, 8, 1)
    state = many.state_dict()
    for name in ("key.weight", "value.weight"):
        state[name] = state[name].unflatten(0, (8, -1)).mean(dim=0)
    one.load_state_dict(state)
    with torch.no_grad():
        for name, model in {"as trained": many, "heads averaged to one": one}.items():
            print(f"{name:22s} error {float(error_of(model, test, 'friend and house')):.4f}")

# %% [markdown]
# **Absorbing and positions.** If a key is rotated by an angle that depends on its place, as RoPE
# does (chapter 06), the rotation stands between $W_{uk}$ and the query, and the brackets cannot be
# moved past it. That is why DeepSeek-V2 keeps 64 numbers besides the latent.

# %% [markdown]
# ## 11 · Recap
#
# - One head is one mean. For two independent answers its errors add up to 1, whatever its weights.
# - Heads share the width: $D = C / H$. Parameters and matrix products stay; the number of weights
#   grows with $H$, and heads get narrower.
# - Splitting is cut, then transpose. A reshape alone gives the right shape and the wrong heads.
# - A large weight is not a large influence; six of eight heads could go, together.
# - A cache holds $2 L G D$ numbers a token. GQA shares heads of keys and values, MQA has one.
# - MLA keeps a latent of $R$ numbers, and absorbs the matrices: $q \cdot (c\,W_{uk}) = (q\,
#   W_{uk}^\top) \cdot c$.
#
# **Next.** Chapter 06 asks how the model knows where a token stands.
#
# ## Sources
#
# - Many heads: Vaswani et al. 2017, *Attention Is All You Need*, §3.2.2.
# - One head of keys and values, and why reading the cache is slow: Shazeer 2019, *Fast Transformer
#   Decoding: One Write-Head is All You Need*, §2.4 and §3.
# - Groups: Ainslie et al. 2023, *GQA: Training Generalized Multi-Query Transformer Models from
#   Multi-Head Checkpoints*, §2.
# - Latents: DeepSeek-AI 2024, *DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts
#   Language Model*, §2.1.2, equations (9) to (11); sizes §3.1.2; comparison with GQA §2.1.4.
# - Heads that can be removed: Michel et al. 2019, *Are Sixteen Heads Really Better than One?*;
#   Voita et al. 2019, *Analyzing Multi-Head Self-Attention: Specialized Heads Do the Heavy Lifting,
#   the Rest Can Be Pruned*.
# - Narrow heads: Bhojanapalli et al. 2020, *Low-Rank Bottleneck in Multi-head Attention Models*.
# - Sizes of models: printed with their sources in section 8.
