# %% [markdown]
# # 24 · Mamba
#
# **The question.** What if the input chose what to remember? Run the next cell (Shift+Enter) and
# drag the slider.

# %%
from attend import widgets

widgets.what_is_kept()

# %% [markdown]
# Three symbols stand in noise (·). A state reads the text from left to right; each token fades what
# is there and adds itself. In the first picture all tokens take the same step size: a short step
# lets all the noise in, and a long one forgets the symbols.
#
# In this picture noise writes as much as a symbol. A model with one step size could learn to write
# nothing for noise (tick the box), but where it forgets it cannot stop time: the same three symbols
# then leave another state at another spacing. In the second picture each token chooses its own
# step, and noise chooses 0. Now the spacing makes no difference.
#
# The models of chapter 23 are the first picture: their step size Δ is a constant. **Mamba** (Gu and
# Dao 2023) is the second one, learned from data. In this chapter you write all of it: the
# selection, the scan and the tree that makes it parallel, the block, and decoding with a
# memory that never grows. Then your block writes Python documentation, and you see inside it what
# each character did to its memory.
#
# It takes about three hours, two of them in the exercises. You need PyTorch tensors and the idea of
# a linear recurrence, $h_t = a\,h_{t-1} + b\,x_t$ (chapter 23). Below each exercise, `check(...)`
# says what is right, what is not, and why; `hint(...)` helps; `solution(...)` shows the course's
# answer, after asking.

# %%
import math
import textwrap
from collections.abc import Mapping  # in a signature

import torch
from attend import charts
from attend.data import mamba_arms, mamba_words
from attend.training import fit
from attend_grader import check, hint, ready, solution
from IPython.display import display
from torch import Tensor, nn
from torch.nn import functional

SEED = 24  # the only seed in this notebook: every random number below follows from it
torch.set_num_threads(1)  # the models are so small that a second thread only gets in the way
torch.set_printoptions(precision=3, sci_mode=False)

# %% [markdown]
# ### Letters
#
# | letter | counts | | letter | counts |
# |---|---|---|---|---|
# | $B$ | texts in a batch | | $N$ | numbers in one channel's state |
# | $T$ | tokens in a text | | $R$ | rank of Δ (exercise 24.2) |
# | $C$ | numbers in one token | | $K$ | taps of the convolution (24.7) |
# | $E$ | channels in a block, $2C$ | | $M$ | symbols to copy (24.1) |
#
# The paper writes $B_t$ and $C_t$ for the vectors that are $b_t$ and $c_t$ here.

# %% [markdown]
# ## 1 · A task that needs a choice
#
# <!-- exercise: selective_copy_data -->
#
# **Why.** To see whether a model can choose, take a task in which no fixed distance helps. In
# *selective copying* $M$ symbols stand at random places in noise, and at the end the model must
# repeat them in order. Because the places differ from text to text, the token 20 steps ago may be
# anything.
#
# To draw $M$ different places at random, give every place a random key and take the places of the
# $M$ smallest. The keys come as an argument, so your function is deterministic.
#
# | symbol | meaning | shape |
# |---|---|---|
# | `keys` | one number a place, all different | $(B, T)$ |
# | `symbols` | what to remember, in order | $(B, M)$ |
# | `tokens` | noise with symbols, then $M$ questions | $(B, T + M)$ |
# | `targets` | the right answers at the questions, else `IGNORED` | $(B, T + M)$ |
#
# **By hand.** The keys 0.8, 0.1, 0.5, 0.9, 0.3 and the symbols 7, 4: the two smallest keys are at
# places 2 and 5. Tokens: 0 7 0 0 4 1 1. Targets: five times −100, then 7 4.
#
# *PyTorch you need.* `keys.argsort(dim=1)` gives places from the smallest key to the largest;
# `zeros.scatter(1, places, values)` writes values at places, row by row.

# %%
NOISE, READ, IGNORED = 0, 1, -100  # symbols are 2 and up; cross_entropy leaves -100 out

# %% tags=["exercise"]
from attend_solutions.mamba import selective_copy_data

# %% [markdown]
# **What you should see.** Three texts of twelve places and three symbols each: the symbols stand in
# order, elsewhere in each text, and the last three columns ask for them.

# %%
if ready(selective_copy_data):
    draw = torch.Generator().manual_seed(SEED)
    tokens, targets = selective_copy_data(
        torch.rand(3, 12, generator=draw), torch.randint(2, 10, (3, 3), generator=draw)
    )
    for row, asked in zip(tokens.tolist(), targets.tolist(), strict=True):
        shown = " ".join("·?"[t] if t < 2 else str(t) for t in row)
        print(f"{shown}  →  {asked[-3:]}")

# %% [markdown]
# ## 2 · From a token to a state
#
# <!-- exercise: selective_parameters -->
#
# **Why.** A channel of chapter 23 keeps $N$ numbers $h$ and has constants: rates $a$, an input
# vector $b$, an output vector $c$ and a step size Δ. Mamba keeps $a$ a constant and computes the
# other three from the token. Each has a meaning:
#
# - $\Delta_t$, **how much time passes**: long steps forget and write much, short steps neither;
# - $b_t$, **where to write**: into which of the $N$ numbers;
# - $c_t$, **where to read**.
#
# $$\begin{gathered}
# (\ell_t,\; b_t,\; c_t) = W_{\text{select}}\, x_t, \\
# \Delta_t = \operatorname{softplus}(W_\Delta\, \ell_t + \beta).
# \end{gathered}$$
#
# Every channel has its own $\Delta_t$, while $b_t$ and $c_t$ are shared by all of them. A full
# matrix from $E$ to $E$ numbers for Δ would be large, so it goes through $R$ numbers $\ell_t$.
# ($R$ and $N$ are no arguments: read them off the shapes of `w_delta` and `w_select`.) The
# softplus, $\ln(1 + e^r)$, makes any number positive: it is nearly $r$ where $r$ is large, and
# nearly $e^r$ where $r$ is very negative. By hand it needs care where $e^r$ overflows, and where
# $1 + e^r$ rounds to 1; `functional.softplus` is right in both places.
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$ | `x` | $(B, T, E)$ |
# | $W_{\text{select}}$ | `w_select` | $(R + 2N, E)$: rows of $\ell$, then of $b$, then of $c$ |
# | $W_\Delta$, $\beta$ | `w_delta`, `bias_delta` | $(E, R)$, $(E,)$ |
# | $\Delta$, $b$, $c$ | returned | $(B, T, E)$, $(B, T, N)$, $(B, T, N)$ |
#
# **By hand.** $E = 2$, $R = N = 1$ and $x = (1, 2)$. The rows of $W_{\text{select}}$ are $(1, 1)$,
# $(2, 0)$, $(0, -1)$, so $\ell = 3$, $b = 2$, $c = -2$. With $W_\Delta = (0, 1)^\top$ and $\beta =
# (0, -3)$ both channels have $r = 0$, so $\Delta = \ln 2$ twice.

# %% tags=["exercise"]
from attend_solutions.mamba import selective_parameters

# %% [markdown]
# **What you should see.** One channel meets two tokens, $x = -1$ and $x = 3$, with a bias of −2.
# For the first it takes a step 27 times shorter than for the second.

# %%
if ready(selective_parameters):
    both, ones = torch.tensor([[[-1.0], [3.0]]]), torch.ones(3, 1)
    delta, _, _ = selective_parameters(both, ones, torch.ones(1, 1), torch.tensor([-2.0]))
    print("Δ:", delta.flatten())
    print(f"ratio: {float(delta[0, 1] / delta[0, 0]):.2f}")

# %% [markdown]
# <!-- exercise: discretize_selective -->
#
# **Why.** In chapter 23 a channel was a differential equation, $h' = a h + b x$, and Δ the time
# from one token to the next. If $x$ stays the same during the step, the equation has an exact
# solution: what was there fades by $e^{\Delta a}$. Mamba uses this decay, now with a Δ of each
# token's own. For what is added, its code takes the simplest approximation, Δ times $b$:
#
# $$\text{decay}_t = e^{\Delta_t a}, \qquad \text{gain}_t = \Delta_t\, b_t .$$
#
# As $a$ is negative, the decay lies between 0 and 1. With $\Delta \to 0$ the state stays as it is
# and the token is skipped; with a large Δ the state is overwritten. That is a **gate**, as in
# chapters 01 and 22.
#
# | symbol | argument | shape |
# |---|---|---|
# | $\Delta$ | `delta` | $(B, T, E)$ |
# | $a$ | `a` | $(E, N)$, negative |
# | $b$ | `b` | $(B, T, N)$ |
# | decay, gain | returned | $(B, T, E, N)$ both |
#
# **By hand.** One channel, $N = 2$, $\Delta = \ln 2$, $a = (-1, -2)$, $b = (1, 3)$. The decays are
# $\tfrac12$ and $\tfrac14$, the gains $0.69$ and $2.08$.
#
# *PyTorch you need.* Put the four axes side by side: `delta[..., None]` is $(B, T, E, 1)$ and
# `b[:, :, None]` is $(B, T, 1, N)$. Where a length is 1 or an axis is missing in front, as in
# `a`, PyTorch repeats (*broadcasts*) the numbers.
#
# <details><summary>How exactly is this a gate?</summary>
#
# Take $N = 1$, $a = -1$ and $\Delta = \operatorname{softplus}(r)$. Then $e^{-\Delta} = 1/(1 + e^r)
# = 1 - \sigma(r)$: a sigmoid gate. With the exact gain of a held input, $1 - e^{-\Delta} =
# \sigma(r)$, one gets $h_t = (1 - g_t) h_{t-1} + g_t x_t$: theorem 1 of the paper.
#
# </details>
# %% tags=["exercise"]
from attend_solutions.mamba import discretize_selective

# %% [markdown]
# **What you should see.** Four step sizes for a channel with $a = -1$ and $b = 1$: what the state
# keeps falls from nearly all to nearly nothing, while the gain rises.

# %%
if ready(discretize_selective):
    delta = torch.tensor([[[0.01], [0.1], [1.0], [5.0]]])
    decay, gain = discretize_selective(delta, -torch.ones(1, 1), torch.ones(1, 4, 1))
    for step, keeps, adds in zip(*(v.flatten() for v in (delta, decay, gain)), strict=True):
        print(f"Δ = {step:4.2f}: keeps {keeps:.3f} of h, adds {adds:.2f} x")

# %% [markdown]
# <!-- exercise: selective_scan -->
#
# **Why.** You now have everything to run the recurrence. Each of the $E$ channels has a state of
# $N$ numbers:
#
# $$\begin{gathered}
# h_t = \text{decay}_t \circ h_{t-1} + \text{gain}_t\, x_t, \\
# y_t = c_t \cdot h_t + \text{skip}\; x_t .
# \end{gathered}$$
#
# Chapter 23 could replace its loop by one long convolution, because the same kernel applied at
# every step. Here each step has its own decay, so there is no kernel and no FFT. Section 3
# makes it parallel another way.
#
# A long text can be read in parts: the function also returns the last state, and takes one to go
# on from.
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$, $\Delta$ | `x`, `delta` | $(B, T, E)$ |
# | $a$ | `a` | $(E, N)$ |
# | $b$, $c$ | `b`, `c` | $(B, T, N)$ |
# | skip | `skip` | $(E,)$ |
# | $h$ | `state`, and returned second | $(B, E, N)$; `None` is zeros |
# | $y$ | returned first | $(B, T, E)$ |
#
# **By hand.** One channel, $N = 1$, decay always $\tfrac12$ ($a = -1$, $\Delta = \ln 2$), gains 1,
# 1.5 and 1 (so $b$ is these divided by $\ln 2$), $c = 1$, no skip, $x = 1, 2, 0$. The states are
# $1$, then $\tfrac12 + 3 = 3.5$, then $1.75$.
#
# <details><summary>Predict first: at one token, one channel gets Δ = 50. What is left of the text
# before it, for that channel?</summary>
#
# If its $a$ is −1, $e^{-50} \approx 10^{-22}$ of it: nothing you would see beside anything newly
# written. A Mamba can reset a channel at a full stop, for instance. A fixed Δ cannot do it at one
# token only.
#
# </details>
# %% tags=["exercise"]
from attend_solutions.mamba import selective_scan

# %% [markdown]
# **What you should see.** The picture of the first screen, now by your own function: two texts of
# 20 tokens with the same symbols, read by one channel ($N = 1$, $a = -1$). Each token writes into a
# channel of its own, so that you see what is left of it: its share of the state at the end.

# %%
if ready(selective_scan):
    ones, a, skip = torch.ones(1, 20, 1), -torch.ones(20, 1), torch.zeros(20)
    for text in widgets.WHAT_IS_KEPT:
        symbol = torch.tensor([letter != "·" for letter in text])
        steps = {"one Δ for all": torch.full((20,), 0.3), "Δ = 0 for noise": 0.3 * symbol}
        for name, delta in steps.items():
            own = delta[None, :, None].expand(1, 20, 20)
            _, left = selective_scan(torch.eye(20)[None], own, a, ones, ones, skip)
            share = 100 * left[0, :, 0] / left.sum()
            print(f"{text} {name}:\n   7, 4, 2 have {share[symbol].round().int().tolist()} %")

# %% [markdown]
# <!-- exercise: raw_scan -->
#
# **Why.** Real kernels take the *raw* step size and its bias, and apply the softplus inside.
# Someone wrote the function below. It runs, its shapes are right, and on some inputs its results
# look plausible. On others the state explodes. Find the mistake, and write the function as it
# should be.
#
# The arguments are those of `selective_scan`, with `raw` $(B, T, E)$ and `bias` $(E,)$ in the place
# of Δ: $\Delta = \operatorname{softplus}(\text{raw} + \text{bias})$. There is no skip.


# %%
def broken_scan(x, raw, bias, a, b, c):
    raw = raw + bias
    decay = torch.exp(raw[..., None] * a)
    step = functional.softplus(raw)
    added = (step * x)[..., None] * b[..., None, :]
    h, out = torch.zeros_like(added[:, 0]), []
    for t in range(x.shape[1]):
        h = decay[:, t] * h + added[:, t]
        out.append((h * c[:, t, None]).sum(-1))
    return torch.stack(out, dim=1), h


# %%
for start in (2.0, -2.0):  # a usual bias of Mamba is between -7 and -2
    ones = torch.ones(1, 100, 1)
    _, h = broken_scan(ones, 0 * ones, torch.tensor([start]), -torch.ones(1, 1), ones, ones)
    print(f"bias {start:4.1f}: after 100 steps of 1, h = {float(h):.3g}")

# %% tags=["exercise"]
from attend_solutions.mamba import raw_scan

# %% [markdown]
# **What you should see.** With yours, both biases give a finite state: at an input of 1 the state
# comes near $\Delta / (1 - e^{-\Delta})$, or is still on its way there.

# %%
if ready(raw_scan):
    for start in (2.0, -2.0):
        _, h = raw_scan(ones, 0 * ones, torch.tensor([start]), -torch.ones(1, 1), ones, ones)
        print(f"bias {start:4.1f}: after 100 steps of 1, h = {float(h):.3g}")

# %% [markdown]
# ## 3 · The same, in parallel
#
# <!-- exercise: associative_scan -->
#
# **Why.** $T$ steps one after the other keep a machine with thousands of units waiting. But look at
# what two steps do together:
#
# $$\begin{aligned}
# h_2 &= d_2 (d_1 h_0 + w_1) + w_2 \\
# &= \underbrace{d_2 d_1}_{\text{decay}}\, h_0 + \underbrace{d_2 w_1 + w_2}_{\text{written}} .
# \end{aligned}$$
#
# Two steps are again *one step*, with a decay and something written. Combining steps is
# **associative**: it does not matter where you set the brackets. So set them as a tree (Blelloch
# 1990).
#
# - **Up.** Combine 1 with 2, 3 with 4, …, all at once: one *round*. An odd one at the end is left
#   out. Half as many steps are left. Do the same with them until one is left.
# - **Down.** On each level you know the states after steps 2, 4, 6, …. One more round gives the
#   states after steps 3, 5, …: one combination each, and that of an odd one at the end is among
#   them. The state after step 1 is what it wrote.
#
# Count what you do: every combination of a pair of neighbours is one *pair*, and everything done at
# once is one *round*. A loop needs $T - 1$ pairs in $T - 1$ rounds. Your tree should need less than
# $2T$ pairs in at most $2 \log_2 T$ rounds.
#
# | symbol | argument | shape |
# |---|---|---|
# | $d$, $w$ | `decay`, `written` | $(B, T, E, N)$, any $T \ge 1$ |
# | all $h_t$, from $h_0 = 0$ | returned first | $(B, T, E, N)$ |
# | pairs, rounds | returned second, third | two whole numbers |
#
# **By hand.** Decays all $\tfrac12$, written 4, 2, 8, 1. Up, first round: $\tfrac12 \cdot 4 + 2 =
# 4$ and $\tfrac12 \cdot 8 + 1 = 5$, with the decay $\tfrac14$ each. Second round: $\tfrac14 \cdot 4
# + 5 = 6$, the state after step 4. Down: the states after steps 2 and 4 are 4 and 6; the third
# round fills in step 3: $\tfrac12 \cdot 4 + 8 = 10$. So the states are 4, 4, 10, 6, with $2 + 1 +
# 1 = 4$ pairs in 3 rounds. (For $T = 2$ there is nothing to fill in: 1 pair, 1 round. For $T = 1$
# there is nothing to combine: 0 pairs, 0 rounds.)
#
# *PyTorch you need.* `x[:, 1::2]` takes places 1, 3, 5, … of the second axis, and you can assign to
# it: `states[:, 1::2] = even`.
# %% tags=["exercise"]
from attend_solutions.mamba import associative_scan

# %% [markdown]
# **What you should see.** The same states as the loop's, and two counts: pairs grow like $T$,
# rounds like $\log_2 T$.

# %%
if ready(associative_scan):
    for length in (4, 64, 100, 1024, 4096):
        draw = torch.Generator().manual_seed(SEED)
        decay = torch.rand(1, length, 2, 2, generator=draw, dtype=torch.float64)
        written = torch.randn(1, length, 2, 2, generator=draw, dtype=torch.float64)
        states, pairs, rounds = associative_scan(decay, written)
        h, worst = torch.zeros(1, 2, 2), 0.0
        for t in range(length):
            h = torch.addcmul(written[:, t], decay[:, t], h)
            worst = max(worst, float((states[:, t] - h).abs().max()))
        print(
            f"T = {length:4d}: {pairs:4d} pairs ({pairs / length:.2f} T)\n   {rounds:2d} rounds "
            f"(2 log₂ T = {2 * math.log2(length):4.1f}), off by {worst:.0e}"
        )

# %% [markdown]
# > **Takeaway.** Selection rules out the convolution, but the scan is still parallel: up to twice
# > the pairs of a loop, in a number of rounds that grows like the logarithm.
#
# In arithmetic it is about 2.5 × a loop: on the way up a pair takes three operations, on the way
# down two, as a step of the loop does.
#
# The authors' GPU kernel does this in fast memory and never stores the $(B, T, E, N)$ states in
# slow memory; that is chapter 25. The models below use your loop: for 16 texts of 64 tokens, on one
# processor core, a tree is no faster than a loop over `decay.unbind(1)`.

# %% [markdown]
# ## 4 · The block
#
# <!-- exercise: causal_conv1d -->
#
# **Why.** $\Delta_t$, $b_t$ and $c_t$ are computed from one token. But whether to write often
# depends on the token *before*: in "= 7" it is the "=" that makes the 7 worth keeping. So Mamba
# first lets each channel look a few steps back, by a convolution of $K = 4$ taps, each channel by
# itself:
#
# $$y_t = \sum_{k=0}^{K-1} \text{taps}_k\; x_{t - K + 1 + k} + \text{bias} .$$
#
# The last tap multiplies the current token. Before the first token there are zeros, and it must
# never look ahead: a model that sees the next token learns nothing about predicting it.
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$, $y$ | `x`, returned | $(B, T, E)$ |
# | taps, bias | `taps`, `bias` | $(E, K)$, $(E,)$ |
#
# **By hand.** One channel, $x = 1, 2, 3$, taps $(1, 10)$, no bias: $0 + 10 = 10$, $1 + 20 = 21$, $2
# + 30 = 32$.
#
# *PyTorch you need.* `functional.pad(x, (0, 0, before, after))` adds zeros to the second last axis.
# torch's `conv1d` wants channels before time, $(B, E, T)$; you need not use it.

# %% tags=["exercise"]
from attend_solutions.mamba import causal_conv1d

# %% [markdown]
# **What you should see.** The test for causality: change the last token, and no earlier output may
# move by more than rounding.

# %%
if ready(causal_conv1d):
    x = torch.randn(1, 6, 2, generator=torch.Generator().manual_seed(SEED))
    taps, bias, other = torch.ones(2, 4), torch.zeros(2), x.clone()
    other[:, -1] += 1
    moved = causal_conv1d(other, taps, bias) - causal_conv1d(x, taps, bias)
    print("outputs that moved:", (moved.abs() > 1e-4).any(-1)[0].int().tolist())

# %% [markdown]
# <!-- exercise: MambaBlock -->
#
# **Why.** A transformer's layer has attention and then an MLP; Mamba's block is both in one. It
# doubles the width, splits into two branches, and multiplies them:
#
# ```text
#  x (C) ─ input ─┬─ u (E) ─ causal_conv1d ─ SiLU ─┬─ selective_parameters ─ Δ, b, c
#                 │                                └─ selective_scan ─ y ─┐
#                 └─ z (E) ─ SiLU ────────────────────────────────────── × ─ output ─ (C)
# ```
#
# $\operatorname{SiLU}(z) = z\,\sigma(z)$. The rates are stored as `a_log` with $a =
# -e^{\texttt{a\_log}}$, so that they stay negative whatever training does. They start at $-1, -2,
# \ldots, -N$, and Δ between 0.001 and 0.1 by its bias: from the start, a channel's slowest number
# ($a = -1$) remembers for 10 to 1,000 tokens.
#
# The parameters are given. Write `forward`, with the functions you have.
# %% tags=["exercise"]
from attend_solutions.mamba import MambaBlock

# %% [markdown]
# **What you should see.** Around your block stand an embedding, norms and residual sums. With this
# seed it learns *induction* in 100 steps: token 0 stands a few times in random tokens, always
# followed by the same token; at the end stands a 0 again, and the model must say what follows. It
# trains on texts of 64 tokens, and then reads longer ones. This takes 5 to 20 seconds.


# %%
class Mamba(nn.Module):
    def __init__(self, vocabulary, width, state=8, rank=2, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(MambaBlock(width, state, 4, rank) for _ in range(layers))
        self.norms = nn.ModuleList(nn.RMSNorm(width, eps=1e-5) for _ in range(layers + 1))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for norm, block in zip(self.norms, self.blocks, strict=False):
            x = x + block(norm(x))
        return self.head(self.norms[-1](x))


# %%
if ready(MambaBlock):
    torch.manual_seed(SEED)
    model, draw = Mamba(vocabulary=16, width=20), torch.Generator().manual_seed(SEED)

    def loss(step):
        tokens, targets = mamba_arms.batch("induction", draw, 16, 64)
        return functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())

    losses = fit(model.parameters(), loss, steps=100, rate=lambda step: 0.02 * min(1, step / 30))
    for length in (64, 256, 1024):
        with torch.no_grad():
            tokens, targets = mamba_arms.batch("induction", draw, 32, length, times=1)
            right = (model(tokens)[:, -1].argmax(-1) == targets[:, -1]).float().mean()
        print(f"length {length:4d}: {100 * right:3.0f} % right (chance {100 / 15:.0f} %)")

# %% [markdown]
# ## 5 · Your block writes
#
# <!-- exercise: mamba_step -->
#
# **Why.** A model that writes reads its own last token and predicts the next. A transformer keeps
# the keys and values of *all* tokens for this, and each new token looks at all of them. Your block
# needs of its past only the state $h$ and the last $K - 1$ inputs of the convolution. Both have the
# same size after ten tokens and after ten million.
#
# `block` holds the parameters of a `MambaBlock` under their names: `input.weight`, `taps`,
# `taps_bias`, `select`, `delta`, `delta_bias`, `a_log`, `skip` and `output.weight`.
#
# | symbol | argument | shape |
# |---|---|---|
# | the block's parameters, by name | `block` | a dict: `block["taps"]`, … |
# | one token | `x` | $(B, C)$ |
# | last inputs of the convolution, oldest first | `recent` | $(B, K - 1, E)$ |
# | the state of the scan | `state` | $(B, E, N)$ |
# | output, and both memories for the next token | returned | $(B, C)$, as above |

# %% tags=["exercise"]
from attend_solutions.mamba import mamba_step

# %% [markdown]
# **What you should see.** Bytes that one layer keeps, and the processor time of one token: a Mamba
# layer of width 256 and $N = 16$, and an attention layer of the same width with one head and a
# KV cache that is full to the length given. Only your whole step and the look-up in the cache are
# timed (attention without its projections, which favours it), best of 20, on one thread of your
# processor.

# %% jupyter={"source_hidden": true}
if ready(mamba_step):
    import time

    wide, n, k = 256, 16, 4
    weights = {name: p.detach() for name, p in MambaBlock(wide, n).named_parameters()}
    x, recent, h = (
        torch.randn(1, wide),
        torch.zeros(1, k - 1, 2 * wide),
        torch.zeros(1, 2 * wide, n),
    )

    def fastest(call):
        """Processor milliseconds of the fastest of 20 calls."""
        took = []
        for _ in range(20):
            begin = time.process_time()
            call()
            took.append(1000 * (time.process_time() - begin))
        return min(took)

    mine, rows = fastest(lambda: mamba_step(weights, x, recent, h)), []
    for length in (16, 256, 1024, 4096, 16384):
        keys, values = torch.randn(2, 1, 1, length, wide)
        asked = (x[None, None], keys, values)
        look = fastest(lambda a=asked: functional.scaled_dot_product_attention(*a))
        for name, kept, took in (
            ("Mamba", recent.nbytes + h.nbytes, mine),
            ("attention", keys.nbytes + values.nbytes, look),
        ):
            rows.append({"tokens": length, "layer": name, "kB": kept / 1000, "ms": took})
            print(f"{length:5d} tokens, {name:9s} {kept / 1000:6,.0f} kB, {took:5.2f} ms")
    display(
        charts.line(
            rows,
            "tokens",
            "kB",
            "layer",
            title="What one layer keeps of a text",
            description="Kilobytes kept by one layer against tokens read, both logarithmic. Mamba "
            "stays at 39 kB; attention grows from 33 kB at 16 tokens to 34 MB at 16,384.",
            x_title="tokens read (log scale)",
            y_title="kilobytes kept (log scale)",
            log_x=4,
            log_y=10,
        )
    )

# %% [markdown]
# One layer keeps $2C(N + K - 1)$ numbers for Mamba and $2CS$ for $S$ tokens of attention with a
# key and a value head per query head. They are equal at $S = N + K - 1 = 19$ tokens, whatever the
# width, and every further token makes the cache larger. Two things move that point. With 8 query
# heads to one such pair it lies at 152 tokens. And a Mamba model has about twice as many layers as
# a transformer of its size, because its block is attention and MLP in one.
#
# In time a short cache is *faster* here: where we ran it, up to a few thousand tokens.

# %% [markdown]
# ### A model that writes documentation
#
# Here is a two-layer Mamba of width 64 with 71,616 numbers, trained on nine tenths of Python's
# own help texts (`help("assert")` and its like, 0.4 million characters), a character at a time, by
# `course/24_mamba/train.py` in two and a half minutes of processor time. Its weights go into your
# `MambaBlock`, and your `mamba_step` writes.

# %% jupyter={"source_hidden": true}
if ready(MambaBlock, mamba_step):
    writer = Mamba(len(mamba_words.ALPHABET), width=64, state=8, rank=4)
    writer.load_state_dict(mamba_words.state_dict())
    layers = [dict(block.named_parameters()) for block in writer.blocks]

    @torch.no_grad()
    def write(prompt, count, cool=0.6):
        """Read the prompt, then write: every token goes through mamba_step once."""
        draw, tokens = torch.Generator().manual_seed(SEED), mamba_words.encode(prompt).tolist()
        memories = [(torch.zeros(1, 3, 128), torch.zeros(1, 128, 8)) for _ in layers]
        for place in range(len(tokens) + count - 1):
            x = writer.embedding.weight[tokens[place]][None]
            for i, (norm, layer) in enumerate(zip(writer.norms, layers, strict=False)):
                y, recent, state = mamba_step(layer, norm(x), *memories[i])
                memories[i], x = (recent, state), x + y
            if place >= len(tokens) - 1:
                chances = (writer.head(writer.norms[-1](x))[0] / cool).softmax(-1)
                tokens.append(int(torch.multinomial(chances, 1, generator=draw)))
        return mamba_words.decode(torch.tensor(tokens))

    for line in write("The statement is", 500).split("\n"):
        print(textwrap.fill(line, 46, drop_whitespace=False))

# %% [markdown]
# It has learned the look of the documentation: words, quotes, brackets. It does not know what it
# says. How well does it predict the tenth that it was not trained on? As baselines, take two
# tables that count in the other nine tenths what followed each string of characters: of four, mixed
# with shorter ones in a simple way, and of five, with the counts of Kneser and Ney (1995).

# %%
if ready(MambaBlock, mamba_step):
    writer = Mamba(len(mamba_words.ALPHABET), width=64, state=8, rank=4)
    writer.load_state_dict(mamba_words.state_dict())
    read, unseen = mamba_words.text()
    rows = unseen[: len(unseen) // 512 * 512].view(-1, 512)[::5]  # every fifth piece of it
    with torch.no_grad():
        logits = writer(rows[:, :-1]).mT
    mine = functional.cross_entropy(logits, rows[:, 1:], reduction="none").mean(1) / math.log(2)
    simple = mamba_words.table_bits(read, rows, order=4).mean(1)
    better = mamba_words.kneser_ney_bits(read, rows, order=5).mean(1)
    share = torch.bincount(unseen).float() / len(unseen)
    alone = -(share * share.clamp(min=1e-9).log2()).sum()
    print(f"Mamba {mine.mean():.2f} bits, tables {simple.mean():.2f} and {better.mean():.2f}")
    print(f"by how frequent each character is: {alone:.2f}")
    print(f"the second table is ahead of Mamba on {(better < mine).sum()} of {len(rows)} pieces")

# %% [markdown]
# With the text of Python 3.11, on which it was trained, Mamba is ahead of the first table and
# behind the second, by less than a tenth of a bit each (other versions have other texts). The
# second holds more numbers than Mamba: 91,000 different strings of six characters. All three look
# better than they are: 22 % of these characters stand in the nine tenths too, in stretches of 40 or
# more (rules and blanks, mostly).

# %% [markdown]
# ### Inside: what each character did
#
# The picture runs your four functions on the trained weights. Type a text. Bright cells are long
# steps. Move the token slider: the bars are what is left in that layer of what each character
# wrote.

# %%
if ready(causal_conv1d, selective_parameters, discretize_selective, selective_scan):
    display(
        widgets.delta_explorer(
            mamba_words.weights(),
            causal_conv1d=causal_conv1d,
            selective_parameters=selective_parameters,
            discretize_selective=discretize_selective,
            selective_scan=selective_scan,
        )
    )

# %% [markdown]
# Two things to look for.
#
# - *In one row*, a channel takes a long step at some characters and hardly any at others. Chapter
#   23's model would show one colour a row. But the picture picks the 14 channels that vary most:
#   over all of them, on 40 pieces of unseen text, only about a quarter of the variance of $\ln
#   \Delta$ lies within channels. The rest is between them.
# - *In the bars*, most of what a character wrote is gone after ten more. The bars weigh the
#   channels by how much they write; the median channel has about half left after 8 characters.
#
# A long step says that something was written, not that it is used later, nor why. So ask the
# predictions: how much worse do they get if the model reads only the last few characters?

# %% jupyter={"source_hidden": true}
if ready(MambaBlock):
    writer = Mamba(len(mamba_words.ALPHABET), width=64, state=8, rank=4)
    writer.load_state_dict(mamba_words.state_dict())
    _, unseen = mamba_words.text()
    draw = torch.Generator().manual_seed(SEED)
    places = torch.randint(64, len(unseen) - 1, (400,), generator=draw)
    for context in (4, 8, 16, 64):
        seen = torch.stack([unseen[place - context : place] for place in places])
        with torch.no_grad():
            nats = functional.cross_entropy(writer(seen)[:, -1], unseen[places])
        print(f"the last {context:2d} characters: {nats / math.log(2):.2f} bits a character")

# %% [markdown]
# What it predicts hardly depends on more than the last 8 to 16 characters.

# %% [markdown]
# ## 6 · Does the choice matter? Six mixers
#
# **The claim to test:** computing Δ, $b$ and $c$ from the token is what solves selective tasks, and
# what was learned on short texts works on long ones. Six models of two layers, all with 7,700 to
# 9,100 numbers:
#
# | arm | what mixes tokens |
# |---|---|
# | fixed | your block with constant Δ, $b$, $c$ and no gate |
# | fixed + gate | the same with the gate $\operatorname{SiLU}(z)$ |
# | selective | your block |
# | attention | your block with one-head softmax attention (RoPE) in the place of the scan |
# | attention, no positions | the same without RoPE |
# | LSTM | chapter 01's cell |
#
# Two tasks: selective copying (two of eight symbols) and induction (exercise 24.8). All train on
# texts of 64 tokens, 16 at a time, with Adam. Each arm tries four rates, 0.005 to 0.04, on two
# seeds; of the rates within one percentage point of its best, the smallest then runs on five
# *other* seeds. They are tested on 128 texts of each length up to 1,024. `python
# course/24_mamba/train.py arms` makes the table; the next cell only draws it.

# %% jupyter={"source_hidden": true}
for task in mamba_arms.TASKS:
    display(
        charts.bands(
            mamba_arms.rows(task),
            "length",
            "right",
            "arm",
            title=f"{task.capitalize()}: trained at 64, tested up to 1,024",
            description=f"Share of right answers in {task} against the length of the text, for "
            "six mixers, mean and range of five runs. The text below gives the numbers.",
            x_title="tokens in the text (log scale)",
            y_title="right answers, %",
            log_x=2,
        )
    )

# %% [markdown]
# <details><summary>The numbers: right answers in percent, the range of five runs</summary>
#
# | arm | copying at 64 | 256 | 1,024 | induction at 64 | 256 | 1,024 |
# |---|---|---|---|---|---|---|
# | fixed | 55–87 | 9–31 | 10–17 | 47–99 | 15–30 | 5–9 |
# | fixed + gate | 48–67 | 14–23 | 11–13 | 56–98 | 8–23 | 6–9 |
# | selective | 97–100 | 60–100 | 25–93 | 99–100 | 87–100 | 37–66 |
# | attention | 99 | 50–68 | 23–50 | 100 | 77–99 | 15–61 |
# | attention, no positions | 62–99 | 43–99 | 23–88 | 100 | 99–100 | 97–100 |
# | LSTM | 77–100 | 37–81 | 11–46 | 98–100 | 49–71 | 13–26 |
#
# </details>
#
# **What it shows.** At 64 tokens the selective arm and attention solve both tasks in every run. The
# arm "fixed" is near chance (12 % and 7 %) at 1,024; the gate does not help
# it. With four times the steps the arm "fixed" solves both at 64 in all runs (copying: 97 % up),
# but not at 1,024: 6–27 %.
#
# In copying at 1,024 no arm is right in every run. In induction attention falls to 15–61 % there
# (with rate 0.02, to 49–99 %). Without positions it keeps 97–100 %. In copying it learns
# less reliably without them.
#
# **What it does not show.**
#
# - That it is Δ which matters: $b$ and $c$ are chosen as well.
# - Which arm is best beyond 64. The rates were tuned at 64, and rates that are equal there differ
#   later: with 0.04 instead of 0.005 the selective arm keeps 73–100 % of induction at 1,024, and
#   with 0.02 instead of 0.01 the LSTM keeps 50–86 % of copying there, the selective arm 12–97 %.
# - Anything about large models: these have about 8,000 numbers and 300 to 600 steps.
#
# > **Takeaway.** With Δ, $b$ and $c$ constant, no run here learned these tasks for 16 times the
# > trained length, with a gate or without. Where mixing depends on the input, some did; how far
# > depends on the run, the rate and the position code.

# %% [markdown]
# ## 7 · Where it breaks
#
# A state of fixed size cannot keep everything. Use your scan as a memory: no forgetting ($a \approx
# 0$), $\Delta = 1$, and $n$ pairs written one after the other, the key as $b_t$, the value as
# $x_t$. Then read each pair by its key as $c$. Beside it, a KV cache of the *same bytes*, which
# keeps the last pairs exactly and no others. Keys are random directions, or orthogonal ones as long
# as there are any ($N = 16$). An error of 1 is what you have if you recall nothing; all answers
# are scaled by one best factor.

# %% jupyter={"source_hidden": true}
if ready(selective_scan):
    rows, n_state, channels = [], 16, 64
    kept = n_state * channels // (n_state + channels)  # pairs in a cache of as many numbers

    def recall_error(keys, values):
        """Write pairs into a state by selective_scan, read all by their keys."""
        no_decay, ones = torch.full((channels, n_state), -1e-9), torch.ones_like(values)
        _, memory = selective_scan(values, ones, no_decay, keys, keys, torch.zeros(channels))
        found = keys @ memory.mT  # (1, count, channels)
        found = found * (found * values).sum() / found.square().sum()
        return float((found - values).square().mean() / values.square().mean())

    for run in range(5):
        draw = torch.Generator().manual_seed(SEED + run)
        for count in (1, 2, 4, 8, 12, 16, 32, 64, 128):
            keys = functional.normalize(torch.randn(1, count, n_state, generator=draw), dim=-1)
            values = torch.randn(1, count, channels, generator=draw)
            rows.append(
                {"pairs": count, "error": recall_error(keys, values), "memory": "random keys"}
            )
            if count <= n_state:
                square = torch.linalg.qr(torch.randn(n_state, n_state, generator=draw)).Q
                error = recall_error(square[None, :count], values)
                rows.append({"pairs": count, "error": error, "memory": "orthogonal keys"})
            lost = values[:, : max(0, count - kept)].square().sum() / values.square().sum()
            rows.append({"pairs": count, "error": float(lost), "memory": "cache, equal bytes"})
    display(
        charts.bands(
            rows,
            "pairs",
            "error",
            "memory",
            title="Recall at equal bytes: 1,024 numbers",
            description="Error of recalling all pairs against how many were written, mean and "
            "range of 5 runs. The cache of 12 pairs is exact up to 12 and then loses old pairs; "
            "the state errs from 2 pairs on. Both have lost most at 128. With orthogonal keys the "
            "state is exact up to 16, as many as there are.",
            x_title="pairs written (log scale)",
            y_title="mean squared error (1: nothing recalled)",
            log_x=2,
        )
    )

# %% [markdown]
# Up to 12 pairs the cache is exact, while the state errs as soon as two keys are not at a right
# angle: over many runs its error is about $(n - 1) / (n - 1 + N)$. With more pairs the cache has
# lost the oldest altogether, while the state knows a little of all. They are equal between 32 and
# 64 pairs, when both have lost two thirds or more. So with random keys read as they are, at equal
# bytes, attention wins while what you need fits its cache.
#
# With orthogonal keys the state is exact up to 16 pairs, four more than the cache, which has then
# lost about a quarter. A trained model may choose its keys, and what to forget. But no choice makes
# a fixed state hold any number of pairs (Jelassi et al. 2024; Arora et al. 2024).
#
# > **Takeaway.** What Mamba gains: bytes and time that do not grow with the text. What it gives up:
# > exact recall of more than its state can hold. Chapter 26 puts both kinds into one model.
#
# ## 8 · Recap
#
# - Δ is how much time a token takes. Long: forget and write. Short: skip.
# - $\Delta, b, c$ come from the token; $a$ stays: $h_t = e^{\Delta_t a} \circ h_{t-1} +
#   \Delta_t b_t x_t$ and $y_t = c_t \cdot h_t + \text{skip}\, x_t$.
# - Softplus first, then the decay: else the state can grow.
# - Steps combine: $(d_1, w_1)$ then $(d_2, w_2)$ is $(d_2 d_1,\; d_2 w_1 + w_2)$. A tree needs
#   less than $2T$ pairs in $2\log_2 T$ rounds.
# - Decoding keeps $2C(N + K - 1)$ numbers a layer, at any length. A KV cache with as many
#   heads for keys as for queries is larger from the token after the $(N + K - 1)$th on.
# - What you give up: exact recall of more than the state can hold.
#
# **Before:** chapter 23, where Δ was a constant. **Next:** chapter 25 makes the scan fast and finds
# that it is a kind of attention; chapter 26 mixes both.
#
# ## Sources
#
# - Mamba: Gu and Dao 2023, *Mamba: Linear-Time Sequence Modeling with Selective State Spaces*; the
#   tasks §3.1 and §4.1, the selection §3.2, the scan §3.3, the block §3.4, the gate theorem 1.
# - The scan as a tree: Blelloch 1990, *Prefix Sums and Their Applications*, §1.2; recurrences §1.4.
# - Selective copying, there called denoising: Jing et al. 2019, *Gated Orthogonal Recurrent Units:
#   On Learning to Forget*.
# - Induction: Olsson et al. 2022, *In-context Learning and Induction Heads*.
# - What a fixed state cannot recall: Jelassi et al. 2024, *Repeat After Me*; Arora et al. 2024,
#   *Simple linear attention language models balance the recall-throughput tradeoff*.
# - The second table: Kneser and Ney 1995, *Improved Backing-off for M-gram Language Modeling*.
# - The short convolution: Fu et al. 2023, *Hungry Hungry Hippos*, §3.2.
