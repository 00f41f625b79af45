# %% [markdown]
# # 25 · Mamba kernels
#
# **The question.** How is Mamba made fast, and what is it dual to? Run the next cell (Shift+Enter)
# and drag the chunk slider from 1 to 16.

# %%
from attend import widgets

widgets.semiseparable()

# %% [markdown]
# The matrix says how much each output takes from each input. You can read it in two ways. As a
# *whole* it is attention without a softmax: every output looks at every earlier input, in one
# matrix product, which GPUs are best at, but at a cost of $T^2$. *Row by row* it is a recurrence: a
# state of fixed size carries all that is needed of the past, at a cost of $T$, but without large
# matrix products.
#
# **Mamba-2** (Dao and Gu 2024) does both: attention in the blue squares, the recurrence
# between them. For that it gives up some of Mamba's freedom: all numbers of a head fade at the same
# rate. In this chapter you write both readings, join them, choose the length of a chunk, and build
# the block. Then you write the parts that a GPU runs, as kernels.
#
# It takes about three hours. You need PyTorch and chapter 24. Below each exercise, `check(...)`
# says what is right, what is not, and why; `hint(...)` helps; `solution(...)` shows the course's
# answer, after asking.

# %%
import os

os.environ.setdefault("TRITON_INTERPRET", "1")  # kernels run on this CPU; Triton asks once

import time

import torch
import triton
import triton.language as tl
from attend import charts
from attend.data import mamba_words
from attend.multiplications import multiplications
from attend.training import fit
from attend_grader import check, hint, ready, solution
from attend_solutions.mamba import MambaBlock, causal_conv1d, selective_scan
from attend_solutions.ssd_triton import states_before
from IPython.display import display
from torch import Tensor, nn
from torch.nn import functional

SEED = 25  # the only seed in this notebook: every random number below follows from it
torch.set_num_threads(1)  # the models are so small that a second thread only gets in the way
torch.set_printoptions(precision=3, sci_mode=False)

# %% [markdown]
# ### Letters
#
# | letter | counts | | letter | counts |
# |---|---|---|---|---|
# | $B$ | texts in a batch | | $N$ | numbers in one channel's state |
# | $T$ | steps (tokens) of a text | | $Q$ | steps in a chunk |
# | $H$ | heads | | $C$ | numbers in one token |
# | $D$ | channels in a head | | $E$ | channels in a block, $2C = HD$ |
#
# $t$ is the step that reads, $s \le t$ the step that has written. The paper writes $P$ for $D$.

# %% [markdown]
# ## 1 · One matrix
#
# Mamba's channels each have $N$ rates of decay. Mamba-2 lets all $D$ channels of a head fade by
# *one number* a step, $e^{a_t}$ with $a_t = \Delta_t A \le 0$. Then a head's state is a $D \times
# N$ matrix, and with $x_t$ for Δ times the input,
#
# $$h_t = e^{a_t} h_{t-1} + x_t b_t^\top, \qquad y_t = h_t\, c_t .$$
#
# What step $s$ has written fades at steps $s + 1, \ldots, t$, so
#
# $$y_t = \sum_{s \le t} F_{ts}\, (c_t \cdot b_s)\, x_s, \qquad
# F_{ts} = e^{a_{s+1} + \cdots + a_t} .$$
#
# <!-- exercise: segsum -->
#
# **Why.** First you need the exponents of $F$: the sum of each *segment* $a_{s+1} + \cdots + a_t$.
# The obvious way is a difference of two running sums. But a model that resets its memory at one
# step has a large negative $a$ there. After it the running sum has no digits left for small
# terms, and where $a = -\infty$ (a decay of 0), $-\infty - (-\infty)$ is not a number. So let each
# entry add up its own terms.
#
# | symbol | argument | shape |
# |---|---|---|
# | $a$ | `log_decay` | $(\ldots, T)$, at most 0 |
# | sums of segments, $-\infty$ for $s > t$ | returned | $(\ldots, T, T)$ |
#
# **By hand.** $a = (-1, -2, -4)$. Row 3 is $-2 - 4 = -6$, then $-4$, then 0 (no terms). Above the
# diagonal stands $-\infty$, whose exponential is 0.
#
# *PyTorch you need.* `x.masked_fill(mask, value)` writes a value where the mask is True;
# `torch.ones(T, T, dtype=torch.bool).tril(-1)` is True below the diagonal.

# %% tags=["exercise"]
from attend_solutions.mamba_kernels import segsum

# %% [markdown]
# **What you should see.** Four log decays, the second of them a reset. The difference of running
# sums has lost the last two terms, −0.25 and −0.5.

# %%
if ready(segsum):
    logs = torch.tensor([-1.0, -4e7, -0.25, -0.5])
    running = logs.cumsum(0)
    print("a_3 + a_4:  by segsum", segsum(logs)[3, 1].item(), end="")
    print("  by running sums", (running[3] - running[1]).item())

# %% [markdown]
# <!-- exercise: ssd_quadratic -->
#
# **Why.** The matrix as a whole. Compare it with attention: $c_t$ asks, $b_s$ answers, $x_s$ is the
# value. Instead of dividing by a sum of exponentials, each score is multiplied by $F_{ts}$.
#
# $$Y = \bigl(F \circ (c\, b^\top)\bigr)\, X \quad \text{for each head.}$$
#
# All heads share $b$ and $c$, so the scores are the same for all; the decays are not.
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$, $y$ | `x`, returned | $(B, T, H, D)$ |
# | $a$ | `log_decay` | $(B, T, H)$ |
# | $b$, $c$ | `b`, `c` | $(B, T, N)$ |
#
# **By hand.** One head, $D = N = 1$, $b = c = 1$, every decay $\tfrac12$, $x = 1, 2, 4$. The rows
# of $F$ are $(1)$, $(\tfrac12, 1)$, $(\tfrac14, \tfrac12, 1)$, so $y = 1$, $2.5$ and $0.25 + 1 + 4
# = 5.25$.

# %% tags=["exercise"]
from attend_solutions.mamba_kernels import ssd_quadratic

# %% [markdown]
# **What you should see.** The matrix itself, where all decays are 0.9 and $b = c = 1$: each input
# is an impulse of its own channel.


# %%
def example(tokens, heads=2, width=4, state=8, run=0, dtype=torch.float64):
    """x, log decays, b and c of one random sequence."""
    draw = torch.Generator().manual_seed(SEED + run)
    x = torch.randn(1, tokens, heads, width, generator=draw, dtype=dtype)
    logs = -torch.rand(1, tokens, heads, generator=draw, dtype=dtype)
    b, c = torch.randn(2, 1, tokens, state, generator=draw, dtype=dtype)
    return x, logs, b, c


if ready(ssd_quadratic):
    ones, logs = torch.ones(1, 8, 1), torch.full((1, 8, 1), 0.9).log()
    print(ssd_quadratic(torch.eye(8)[None, :, None], logs, ones, ones)[0, :, 0])

# %% [markdown]
# <!-- exercise: ssd_recurrent -->
#
# **Why.** The same matrix row by row, as at the top of this section. A long text can be read in
# parts, so the function takes a state and returns the last one.
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$, $a$, $b$, $c$ | as before | |
# | $h$ | `state`, and returned second | $(B, H, D, N)$; `None` is zeros |
# | $y$ | returned first | $(B, T, H, D)$ |
#
# **By hand.** The example again: the states are $1$, then $\tfrac12 + 2 = 2.5$, then $1.25 + 4 =
# 5.25$, and $y$ is the same.

# %% tags=["exercise"]
from attend_solutions.mamba_kernels import ssd_recurrent

# %% [markdown]
# **What you should see.** Two functions that share no line, and the same numbers.

# %%
if ready(ssd_quadratic, ssd_recurrent):
    given = example(100)
    apart = (ssd_quadratic(*given) - ssd_recurrent(*given)[0]).abs().max()
    print(f"largest difference: {apart:.0e}")

# %% [markdown]
# ### What it is dual to, and what not
#
# "Transformers are SSMs" is the paper's title. What it shows is about attention *without* a
# softmax. Why the difference matters: cut the text between two steps. The block of the matrix at
# the lower left, with rows after the cut and columns before it, is all that later outputs take from
# earlier inputs. Without a softmax its rank is at most $N$, because it is a product through the
# state. The softmax of the same scores and decays has no such limit.

# %%
if ready(segsum):
    for run in range(5):
        _, logs, b, c = (m[0] for m in example(64, heads=1, state=4, run=run))
        scores, sums = c @ b.mT, segsum(logs[:, 0])
        linear, soft = scores * sums.exp(), (scores + sums).softmax(-1)
        ranks = [torch.linalg.matrix_rank(m[32:, :32], rtol=1e-9).item() for m in (linear, soft)]
        print(f"run {run}: rank of the block, N = 4: {ranks[0]} without softmax, {ranks[1]} with")

# %% [markdown]
# A lower triangular matrix whose blocks on or below the diagonal all have rank at most $N$ is
# called $N$-*semiseparable*. With a softmax, no recurrence with 4 numbers a channel, linear in $x$,
# gives these outputs exactly.

# %% [markdown]
# ## 2 · Both at once
#
# <!-- exercise: ssd_chunked -->
#
# **Why.** The whole matrix costs $T^2$; the recurrence has only small products, one step after
# another, and machines are best at large ones. So cut the text into chunks of $Q$ steps. For one
# chunk, with $h$ the state before it:
#
# 1. *within* the chunk: your `ssd_quadratic` of its $Q$ steps;
# 2. *from before*: step $t$ reads $h\, c_t$, faded by all decays from the chunk's start to $t$, its
#    own included;
# 3. *for later*: $h$ fades by all the chunk's decays, and $x_s b_s^\top$ of each step is added,
#    faded by the decays *after* $s$ to the chunk's end.
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$, $a$, $b$, $c$ | as before | |
# | $Q$ | `chunk` | at least 1; the last chunk may be shorter |
# | $h$ | `state`, and returned second | $(B, H, D, N)$; `None` is zeros |
# | $y$ | returned first | $(B, T, H, D)$ |
#
# **By hand.** The example with a fourth step $x = 0$, in chunks of 2. After the first chunk $h =
# \tfrac12 + 2 = 2.5$. In the second chunk, within: 4 and $2 + 0$; from before: $\tfrac12 \cdot 2.5$
# and $\tfrac14 \cdot 2.5$. So $y = 1, 2.5, 5.25, 2.625$.
#
# *PyTorch you need.* `torch.einsum("bqhd,bqn->bhdn", x, b)` multiplies $x$ and $b$ and adds up over
# $q$: what a chunk writes. Reading is `"bqn,bhdn->bqhd"`.

# %% tags=["exercise"]
from attend_solutions.mamba_kernels import ssd_chunked

# %% [markdown]
# **What you should see.** The picture of the first screen, made by your function: each column is
# the response to one impulse. Move the chunk slider: the border moves, the numbers stay.

# %%
if ready(ssd_chunked):
    display(widgets.semiseparable(ssd_chunked))

# %% [markdown]
# **Do all forms agree?** Five random sequences of 200 steps in float64, against the recurrence. As
# a control, a chunked form that forgets its state between chunks.

# %% jupyter={"source_hidden": true}
if ready(ssd_quadratic, ssd_recurrent, ssd_chunked):

    def forgetful(x, logs, b, c, chunk=20):
        parts = zip(*(m.split(chunk, 1) for m in (x, logs, b, c)), strict=True)
        return torch.cat([ssd_quadratic(*part) for part in parts], 1)

    FORMS = {
        "quadratic": ssd_quadratic,
        **{
            f"chunks of {q}": lambda *given, q=q: ssd_chunked(*given, q)[0] for q in (1, 7, 64, 200)
        },
        "control: chunks of 20, no state": forgetful,
    }
    for name, form in FORMS.items():
        apart = []
        for run in range(5):
            given = example(200, run=run)
            want = ssd_recurrent(*given)[0]
            apart.append(float((form(*given) - want).abs().max() / want.abs().max()))
        print(f"{name:32s} largest relative difference of 5 runs: {max(apart):.0e}")

# %% [markdown]
# ## 3 · How long should a chunk be?
#
# <!-- exercise: best_chunk -->
#
# **Why.** Long chunks mean more attention, short chunks more work on states. Count
# multiplications, for one example and one chunk of $q$ steps, by the second table. A last, shorter
# chunk counts with its own $q$. Besides, a chunk must fit on the chip, for one head: $q^2$ scores,
# $q D + 2 q N$ numbers of $x$, $b$ and $c$, and $D N$ of the state.
#
# | symbol | argument | |
# |---|---|---|
# | $T$, $H$, $D$, $N$ | `tokens`, `heads`, `width`, `state` | whole numbers |
# | how many numbers fit on the chip | `room` | enough for one step |
# | the best $q$ from 1 to $T$, its multiplications | returned | the smallest $q$ of equal ones |
#
# | part | once | for each head |
# |---|---|---|
# | scores $c_t \cdot b_s$ (all heads share them) | $q^2 N$ | |
# | fade them, take the values | | $q^2 + q^2 D$ |
# | read the state, write to it | | $2 q D N$ |
# | fade what is read, and what is written | | $2 q D$ |
# | fade the state | | $D N$ |
#
# **By hand.** $T = 4$, $H = D = N = 1$. Chunks of 1 cost $1 + 2 + 2 + 2 + 1 = 8$ each, 32 in all;
# chunks of 2 cost $4 + 8 + 4 + 4 + 1 = 21$ each, 42 in all. So 1 wins.
#
# <details><summary>Predict first: for H = 8, D = 64, N = 128, is the best Q nearer to 10, 100 or
# 1,000?</summary>
#
# Per step and head, what depends on $Q$ is $Q (N/H + D + 1) + D N / Q$. It is least at $Q = \sqrt{D
# N / (N/H + D + 1)}$, here $\sqrt{8192 / 81} \approx 10$.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.mamba_kernels import best_chunk

# %% [markdown]
# **What you should see.** Multiplications counted while your `ssd_chunked` runs, for $T = 512$, $H
# = 2$, $D = N = 32$, against the chunk; then the two readings and your best chunk against $T$.

# %% jupyter={"source_hidden": true}
if ready(ssd_quadratic, ssd_recurrent, ssd_chunked, best_chunk):
    sizes = {"heads": 2, "width": 32, "state": 32}
    chosen, promised = best_chunk(512, **sizes, room=10**9)
    given, rows = example(512, **sizes), []
    for chunk in (1, 2, 3, 4, 5, 6, 8, 11, 16, 23, 32, 64, 128, 256, 512):
        count = multiplications(ssd_chunked, *given, chunk)
        rows.append({"chunk": chunk, "per step": count / 512, "form": "counted"})
    fewest = min(rows, key=lambda row: row["per step"])
    display(
        charts.line(
            rows,
            "chunk",
            "per step",
            "form",
            title="Multiplications a step, by chunk length",
            description="Counted multiplications a step against the chunk length. They fall from "
            "chunks of 1 to a flat least at 5, rise slowly to 16, and then ever faster, to ten "
            "times the least at 512.",
            x_title="chunk length Q (log scale)",
            y_title="multiplications a step (log scale)",
            log_x=2,
            log_y=10,
        )
    )
    print(f"fewest counted: {512 * fewest['per step']:,.0f} at Q = {fewest['chunk']}")
    print(f"best_chunk says {promised:,} at Q = {chosen}")
    rows = []
    for tokens in (64, 128, 256, 512, 1024):
        given = example(tokens, **sizes)
        best = best_chunk(tokens, **sizes, room=10**9)[0]
        for name, form in (
            ("quadratic", ssd_quadratic),
            ("recurrent", ssd_recurrent),
            ("best chunk", lambda *g, q=best: ssd_chunked(*g, q)),
        ):
            count = multiplications(form, *given)
            rows.append({"steps": tokens, "count": count, "form": name})
    display(
        charts.line(
            rows,
            "steps",
            "count",
            "form",
            title="Multiplications by length of the text",
            description="Counted multiplications of three forms against the length, both "
            "logarithmic: the quadratic form rises fourfold with each doubling, the recurrent and "
            "the chunked one twofold, and these two nearly coincide.",
            x_title="steps of the text (log scale)",
            y_title="multiplications (log scale)",
            log_x=2,
            log_y=10,
        )
    )

# %% [markdown]
# The recurrent and the chunked form grow in proportion to $T$, the quadratic one like $T^2$. The
# least is flat: chunks of 16 multiply 16 % more than chunks of 5, but they are a third as many, and
# their matrix products are larger. So what is fastest is another question than what multiplies
# least. Here it is on your processor: five runs each on fresh numbers, with torch's own softmax
# attention for comparison.

# %% jupyter={"source_hidden": true}
if ready(ssd_quadratic, ssd_recurrent, ssd_chunked):
    rows, sizes = [], {"heads": 4, "width": 32, "state": 32, "dtype": torch.float32}

    def soft(x, logs, b, c):
        """Causal softmax attention; its four heads share c as queries and b as keys."""
        q, k = (m[:, None].expand(-1, 4, -1, -1) for m in (c, b))
        return functional.scaled_dot_product_attention(q, k, x.transpose(1, 2), is_causal=True)

    TIMED = {
        "recurrent": ssd_recurrent,
        "quadratic": ssd_quadratic,
        "chunks of 5": lambda *g: ssd_chunked(*g, 5),
        "chunks of 64": lambda *g: ssd_chunked(*g, 64),
        "softmax attention": soft,
    }
    for tokens in (128, 512, 2048):
        for name, form in TIMED.items():
            took = []
            for run in range(5):
                given = example(tokens, run=run, **sizes)
                begin = time.process_time()
                with torch.no_grad():
                    form(*given)
                took.append(1e6 * (time.process_time() - begin) / tokens)
                rows.append({"steps": tokens, "µs": max(took[-1], 0.01), "form": name})
            print(f"{tokens:5d} steps, {name:18s} {min(took):7.2f} to {max(took):7.2f} µs a step")
    display(
        charts.bands(
            rows,
            "steps",
            "µs",
            "form",
            title="Time a step on this processor",
            description="Microseconds a step against the length of the text, mean and range of "
            "five runs, both logarithmic, for five forms. The printed lines give the numbers.",
            x_title="steps of the text (log scale)",
            y_title="microseconds a step (log scale)",
            log_x=2,
            log_y=10,
        )
    )

# %% [markdown]
# Microseconds a step at 2,048 steps, in three runs of this notebook with the course's answers:
#
# | chunks of 64 | softmax attention | recurrent | chunks of 5 | quadratic |
# |---|---|---|---|---|
# | 6 to 13 | 10 to 11 | 28 to 34 | 37 to 76 | 284 to 349 |
#
# Chunks of 5 multiply least, and were no faster than the plain recurrence: each is dozens of small
# operations in Python, which weigh more here than the multiplications they save. Up to 512 steps
# softmax attention was the fastest of all (4 to 5 at 512). It and the quadratic form take longer
# for a step as the text grows; of the others each took at most about twice as long at one length as
# at another.
#
# **What this does not show.** That attention without a softmax is slower than with one: torch's
# attention is one fused operator, your quadratic form several that write $T \times T$ numbers to
# memory. Nor how long a chunk should be on a GPU: there matrix products cost even less, compared
# with everything else.
#
# > **Takeaway.** The chunk with the fewest multiplications is near $\sqrt{D N / (N/H + D + 1)}$.
# > Which one is fastest has to be measured: here it was a longer one.

# %% [markdown]
# ## 4 · The block
#
# <!-- exercise: Mamba2Block -->
#
# **Why.** Mamba computed Δ, $b$ and $c$ from the convolved $x$, so the block had to wait for it. In
# Mamba-2 one projection makes everything at once:
#
# ```text
#            ┌ z (E) ─ SiLU ───────────────────────────────────────┐
# x ─ input ─┤ mixed (E + 2N) ─ conv ─ SiLU ─ u, b, c ─┐           │
#            └ raw (H) ─ + delta_bias ─ softplus ─ Δ ──┴ ssd_chunked ─ + skip u ─ × ─ norm ─ output
# ```
#
# Cut the projection in this order: $z$, then `mixed`, then the raw Δ, one for each head. `mixed` is
# cut into $u$, $b$ and $c$ after the convolution and SiLU. Head $i$ has channels $iD$ to $(i+1)D -
# 1$ of $u$. What is written is $\Delta u$, the log decay $-e^{\texttt{a\_log}} \Delta$; each head
# adds `skip` times its $u$. Because there is no softmax, outputs can be of any size: the norm,
# after the gate, keeps them in bounds.
#
# The parameters are given, with `causal_conv1d(x, taps, bias)` of chapter 24, for $x$ of shape $(B,
# T, \ldots)$. Write `forward`.

# %% tags=["exercise"]
from attend_solutions.mamba_kernels import Mamba2Block

# %% [markdown]
# **What you should see.** Two layers of your block learn Python's help texts, a character at a
# time, in 15 seconds or so. Two tables that only count stand beside them: how frequent each
# character is, and what followed each four characters in the text.


# %%
class Model(nn.Module):
    def __init__(self, width=32, layers=2):
        super().__init__()
        vocabulary = len(mamba_words.ALPHABET)
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Mamba2Block(width, 16, heads=4) for _ in range(layers))
        self.norms = nn.ModuleList(nn.RMSNorm(width, eps=1e-5) for _ in range(layers + 1))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for norm, block in zip(self.norms, self.blocks, strict=False):
            x = x + block(norm(x))
        return self.head(self.norms[-1](x))


# %% jupyter={"source_hidden": true}
if ready(Mamba2Block):
    text, unseen = mamba_words.text()

    def pieces(draw, of=text, count=8, length=128):
        """Random pieces of the text, one character longer than what is read."""
        places = torch.randint(len(of) - length - 1, (count, 1), generator=draw)
        return of[places + torch.arange(length + 1)]

    def bits(model, rows):
        """Bits a character of predicting each next one."""
        nats = functional.cross_entropy(model(rows[:, :-1]).mT, rows[:, 1:])
        return nats / torch.tensor(2.0).log()

    held = pieces(torch.Generator().manual_seed(SEED), of=unseen, count=64)
    torch.manual_seed(SEED)
    model, draw = Model(), torch.Generator().manual_seed(SEED)
    fit(
        model.parameters(),
        lambda step: bits(model, pieces(draw)),
        steps=150,
        rate=lambda step: 0.01 * min(1, step / 20),
    )
    share = torch.bincount(text).float() / len(text)
    alone = -share.clamp(min=1e-9).log2()[held[:, 1:]].mean()
    table = mamba_words.table_bits(text, held, order=4).mean()
    with torch.no_grad():
        print(f"bits a character of unseen text: your model {bits(model, held):.2f}")
    print(f"by how frequent each character is {alone:.2f}, by a table of four letters {table:.2f}")

# %% [markdown]
# In 150 steps it has left the frequencies behind, but not caught up with the table.
#
# **How much faster is it?** Forward and backward through one block, chapter 24's and yours,
# for a small and a large state, 512 tokens in 4 texts, five runs each.

# %%
if ready(Mamba2Block):
    for state in (16, 64):
        for name, block in (
            ("Mamba", MambaBlock(32, state)),
            ("Mamba-2", Mamba2Block(32, state, heads=4)),
        ):
            took, x = [], torch.randn(4, 512, 32, generator=torch.Generator().manual_seed(SEED))
            for _ in range(5):
                begin = time.process_time()
                block(x).square().sum().backward()
                took.append(1000 * (time.process_time() - begin))
            print(f"N = {state}: {name:8s}{min(took):4.0f} to {max(took):4.0f} milliseconds")

# %% [markdown]
# Where we ran it, Mamba took 63 to 157 milliseconds with $N = 16$ and 255 to 361 with $N = 64$;
# Mamba-2 took 27 to 39 and 37 to 56. That is about four times as much for Mamba, and less than
# twice for Mamba-2. This compares with chapter 24's *loop*: with the authors' kernel on a GPU Mamba
# is not that slow. What such a kernel does comes next.

# %% [markdown]
# ## 5 · On the chip
#
# A GPU has little fast memory beside each group of units and much slow memory for all. The
# authors' kernel for Mamba *never writes the $(B, T, E, N)$ states to slow memory*: a program loads
# its part of the input, keeps its state on the chip, and writes $y$ and very few states (theirs one
# each 2,048 steps, yours only the last).
#
# You write three such kernels in **Triton** (chapter 17). A kernel is one function that many
# *programs* run, each on its own part, in any order:
#
# | | |
# |---|---|
# | `tl.program_id(0)` | which program am I, along axis 0 of the grid |
# | `tl.num_programs(2)` | how many programs there are along axis 2 |
# | `tl.arange(0, 8)` | the numbers 0 to 7; a power of two |
# | `tl.load(p + i, mask=m, other=0.0)` | the numbers `i` places behind `p`; 0 where `m` is False |
# | `tl.store(p + i, value, mask=m)` | write there |
# | `tl.dot(a, b)`, `tl.trans(a)` | matrix product (inner size from 16 on), transpose |
# | `tl.sum(a, axis=0)`, `tl.cumsum(a, axis=0)`, `tl.exp`, `tl.where` | as in PyTorch |
#
# Tensors come as addresses, and places are counted by hand: in a contiguous tensor of shape $(B,
# T, E)$, number $(i, t, e)$ lies at $(i T + t) E + e$. The launch is given: it makes the outputs,
# whose memory holds anything at first, and starts the programs. Write the kernels.
#
# No GPU is needed: kernels run in Triton's interpreter, with every access recorded. A card can
# say that program 3 reads past the end of x. Triton also compiles them for an H100, without one,
# for sizes up to 32. There nothing may *spill*: what a program holds has to fit into its registers,
# because what does not fit goes to slow memory.

# %% [markdown]
# <!-- exercise: triton_selective_scan -->
#
# **Why.** Chapter 24's scan, $h = e^{\Delta_t a} \circ h + \Delta_t x_t\, b_t$ and $y_t = c_t \cdot
# h$, over one stretch of text. The numbers of a state fade at different rates, so each channel's
# matrix is no longer one mask $F$ times $c\, b^\top$. The kernel loops over the steps and keeps the
# state in a variable. Program $(i, j)$ has example $i$ and the 8 channels from $8j$ on; the last
# program may have fewer.
#
# | symbol | pointer | shape |
# |---|---|---|
# | $x$, Δ, $y$ | `x_ptr`, `delta_ptr`, `y_ptr` | $(B, T, E)$ |
# | $a$ | `a_ptr` | $(E, N)$, $N$ a power of two |
# | $b$, $c$ | `b_ptr`, `c_ptr` | $(B, T, N)$ |
# | state before, state after | `state_ptr`, `last_ptr` | $(B, E, N)$ |
#
# **By hand.** $E = 11$, $N = 4$: program $(1, 1)$ has channels 8, 9, 10 (its other five lanes lie
# past $E$ and must be masked). Channel 9 of example 1 at step 2 of $T = 5$ lies at $(1 \cdot 5 + 2)
# \cdot 11 + 9 = 86$ in $x$, its state's number 3 at $(1 \cdot 11 + 9) \cdot 4 + 3 = 83$.

# %% tags=["exercise"]
from attend_solutions.ssd_triton import triton_selective_scan

# %% [markdown]
# **What you should see.** Your kernel against chapter 24's loop, and what crosses the border to
# slow memory: the bytes of one program of 8 channels and 12 steps, against those of a loop that
# stores and loads its state at every step.

# %%
if ready(triton_selective_scan):
    draw = torch.Generator().manual_seed(SEED)
    x, delta = torch.randn(1, 12, 8, generator=draw), torch.rand(1, 12, 8, generator=draw)
    a, h = -torch.rand(8, 16, generator=draw), torch.zeros(1, 8, 16)
    b, c = torch.randn(2, 1, 12, 16, generator=draw)
    y, _ = triton_selective_scan(x, delta, a, b, c, h)
    want, _ = selective_scan(x, delta, a, b, c, torch.zeros(8))
    print(f"largest difference: {(y - want).abs().max():.0e}")
    kept = 4 * (3 * x.numel() + 2 * b.numel() + a.numel() + 2 * h.numel())
    print(f"bytes: {kept:,}; with every state out and in again {kept + 8 * 11 * h.numel():,}")

# %% [markdown]
# <!-- exercise: triton_chunk_state -->
#
# **Why.** This is step 3 of exercise 25.4, for all chunks *at once*: what each chunk would add to a
# state, whatever was before it.
#
# $$\text{written} = \sum_{s} e^{a_{s+1} + \cdots + a_{\text{last}}}\, x_s\, b_s^\top .$$
#
# Program $(i, j, k)$ has example $i$, head $j$, chunk $k$. Steps past the end of the text add
# nothing.
#
# | symbol | pointer | shape |
# |---|---|---|
# | $x$ | `x_ptr` | $(B, T, H, D)$ |
# | $a$ | `log_decay_ptr` | $(B, T, H)$ |
# | $b$ | `b_ptr` | $(B, T, N)$ |
# | what each chunk writes | `written_ptr` | $(B, \text{chunks}, H, D, N)$ |
#
# $D$, $N$ and the chunk are powers of two from 16 on.
#
# **By hand.** With $x = 1, 2, 4, 0$, every decay $\tfrac12$ and $b = 1$, as in exercise 25.4, the
# first chunk of 2 writes $\tfrac12 \cdot 1 + 2 = 2.5$, the second $\tfrac12 \cdot 4 + 0 = 2$.

# %% tags=["exercise"]
from attend_solutions.ssd_triton import triton_chunk_state

# %% [markdown]
# **What you should see.** A state that starts from zeros and reads one chunk is what that chunk
# writes: the difference to your recurrence is rounding.

# %%
if ready(ssd_recurrent, triton_chunk_state):
    x, logs, b, c = example(16, width=16, state=16, dtype=torch.float32)
    _, want = ssd_recurrent(x, logs, b, c)
    apart = (triton_chunk_state(x, logs, b, 16)[:, 0] - want).abs().max()
    print(f"largest difference: {apart:.0e}")

# %% [markdown]
# Between the two kernels the states are passed on, one small step a chunk: $h \leftarrow
# e^{\text{sum of the chunk's } a}\, h + \text{written}$. That function, `states_before`, is given.
#
# <!-- exercise: triton_chunk_scan -->
#
# **Why.** Steps 1 and 2 of exercise 25.4, for all chunks at once: attention within the chunk, plus
# what it reads of the state before it. Here differences of running sums are good enough: they start
# afresh with each chunk, and no log decay is $-\infty$ or as large as the reset of exercise 25.1.
# But mind the half above the diagonal: there the exponent is positive, its exponential may
# overflow, and infinity times 0 is not a number.
#
# | symbol | pointer | shape |
# |---|---|---|
# | $x$, $y$ | `x_ptr`, `y_ptr` | $(B, T, H, D)$ |
# | $a$, $b$, $c$ | `log_decay_ptr`, `b_ptr`, `c_ptr` | $(B, T, H)$, $(B, T, N)$ twice |
# | the state before each chunk | `state_ptr` | $(B, \text{chunks}, H, D, N)$ |
#
# **By hand.** The same example's second chunk, $x = 4, 0$ with a state of 2.5 before it: $4$ within
# plus $\tfrac12 \cdot 2.5$ from before is $5.25$; then $2 + \tfrac14 \cdot 2.5 = 2.625$.

# %% tags=["exercise"]
from attend_solutions.ssd_triton import triton_chunk_scan

# %% [markdown]
# **What you should see.** Your two kernels, with the states passed between them, give what the
# recurrence gives, in float32.

# %%
if ready(ssd_recurrent, triton_chunk_state, triton_chunk_scan):
    for run in range(5):
        x, logs, b, c = example(40, heads=2, width=16, state=16, run=run, dtype=torch.float32)
        before, _ = states_before(triton_chunk_state(x, logs, b, 16), logs, 16)
        y = triton_chunk_scan(x, logs, b, c, before, 16)
        want, _ = ssd_recurrent(x, logs, b, c)
        print(f"run {run}: relative difference {(y - want).abs().max() / want.abs().max():.0e}")

# %% [markdown]
# **What it does not show:** seconds on a GPU. There `tl.dot` runs on matrix units, in a rounded
# format unless you ask for more digits, and the interpreter shows neither speed nor that rounding.
# These kernels also write one state a chunk to slow memory; `attend_kernels.ssd` carries it within
# one kernel.

# %% [markdown]
# ## 6 · Where it breaks
#
# **One decay a head.** With constant $\Delta$, $b$ and $c$, Mamba's channel answers an impulse with
# a sum of $N$ exponentials. A head of Mamba-2 answers with *one*, whatever $N$ is: all its numbers
# fade alike. Look at the ratio of consecutive outputs.

# %%
if ready(ssd_recurrent):
    impulse, ones = torch.eye(12)[None, :, :1], torch.ones(1, 12, 2)
    rates, step = torch.tensor([[-0.1, -2.0]]), torch.ones(1, 12, 1)
    two, _ = selective_scan(impulse, step, rates, ones, ones, torch.zeros(1))
    one, _ = ssd_recurrent(impulse[..., None], torch.full((1, 12, 1), -0.1), ones, ones)
    for name, y in (("Mamba, N = 2", two.flatten()), ("Mamba-2, N = 2", one.flatten())):
        print(f"{name:15s} ratios: {y[1:7] / y[:6]}")

# %% [markdown]
# Here two heads of Mamba-2 together would give what the one channel gives. In exchange $N$ may be
# large: the state is read and written by matrix products. **What does a larger $N$ buy?** Use the
# state as a memory: no forgetting, $M$ pairs of a random key $b$ and a random value $x$, each read
# by its key. Beside it stands a KV cache of the *same bytes*, which keeps the last pairs and no
# others. An error of 1 means that nothing is recalled; all answers of a run are scaled by the best
# factor.

# %% jupyter={"source_hidden": true}
if ready(ssd_chunked):
    rows, width = [], 64
    for run in range(5):
        for n in (16, 128):
            kept = n * width // (n + width)  # pairs in a cache of as many numbers
            for count in (4, 8, 16, 32, 64, 128, 256):
                draw = torch.Generator().manual_seed(SEED + run)
                keys = torch.randn(1, count, n, generator=draw)
                keys = functional.normalize(keys, dim=-1)
                values = torch.randn(1, count, 1, width, generator=draw)
                _, memory = ssd_chunked(values, torch.zeros(1, count, 1), keys, keys, 16)
                found = (keys @ memory[0, 0].mT)[:, :, None]
                found = found * (found * values).sum() / found.square().sum()
                error = (found - values).square().mean() / values.square().mean()
                lost = values[:, : max(0, count - kept)].square().sum() / values.square().sum()
                rows.append({"pairs": count, "error": float(error), "memory": f"state, N = {n}"})
                name = f"cache of {kept} pairs"
                rows.append({"pairs": count, "error": float(lost), "memory": name})
    display(
        charts.bands(
            rows,
            "pairs",
            "error",
            "memory",
            title="Recall at equal bytes: 1,024 and 8,192 numbers",
            description="Error of recalling all pairs against how many were written, mean and "
            "range of five runs. The caches are exact up to 12 and 42 pairs. The states err from "
            "the start, the one with N = 128 far less, and both cross their cache's error later.",
            x_title="pairs written (log scale)",
            y_title="mean squared error (1: nothing recalled)",
            log_x=2,
        )
    )

# %% [markdown]
# The cache of 12 pairs is exact up to 12, the one of 42 up to 42. The state of the same bytes errs
# from the second pair on: by 0.16 to 0.23 at 32 pairs with $N = 128$, in 320 runs. On average its
# error follows $(M - 1) / (M - 1 + N)$, so with $N = 16$ it is about 0.66 there. With far more
# pairs than the cache holds the state errs less: at 128 pairs, on average, by 0.50 against 0.67
# with $N = 128$ and by 0.89 against 0.91 with $N = 16$.
#
# **What this does not show:** what a trained model recalls. It can choose its keys, and forget what
# it does not need. And equal bytes are not equal arithmetic.
#
# > **Takeaway.** Compared with softmax attention, Mamba-2 gives up exact recall of many pairs. In
# > return, its memory and its time for a token do not grow with the text.
#
# ## 7 · Recap
#
# - One number fades a whole head: $h_t = e^{a_t} h_{t-1} + x_t b_t^\top$, $y_t = h_t c_t$.
# - Written out, it is attention without a softmax: $Y = (F \circ c\, b^\top) X$, $F =
#   e^{\text{segsum}(a)}$.
# - By chunks: attention within, the state between. The cost grows like $T$; the fewest
#   multiplications lie near $Q = \sqrt{DN / (N/H + D + 1)}$, and chunks a little longer cost
#   little more.
# - Segments add up their own terms; above the diagonal the exponent is $-\infty$ *before* exp.
# - A kernel keeps in registers what it needs again: Mamba's state goes to slow memory only at the
#   end.
# - Given up: a decay for each number of the state, and exact recall of many pairs.
#
# **Before:** chapter 24, the block and its scan; chapter 15, linear attention; chapter 16, where
# attention itself stays on the chip. **Next:** chapter 26 asks which mixer to use when.
#
# ## Sources
#
# - Dao and Gu 2024, *Transformers are SSMs: Generalized Models and Efficient Algorithms Through
#   Structured State Space Duality*: the matrix §3, attention §4, the chunked algorithm §6, the
#   block §7; `segsum`: their code, `ssd_minimal.py`.
# - Gu and Dao 2023, *Mamba: Linear-Time Sequence Modeling with Selective State Spaces*, §3.3.2: the
#   scan that keeps its states on the chip.
# - Katharopoulos et al. 2020, *Transformers are RNNs*: linear attention as a recurrence.
# - Hua et al. 2022, *Transformer Quality in Linear Time*: attention within chunks, a sum between
#   them; Sun et al. 2023, *Retentive Network*: with a decay.
