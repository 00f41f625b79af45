# %% [markdown]
# # 06 · Positions
#
# **The question.** How does the model know where it is?
#
# Attention compares contents. Nothing in it says which token came first. At the end you will have
# written five ways to tell it, from the sines of 2017 to the rotations that most models use today,
# and three ways to make the rotations last longer. You will have checked each by its proof, and
# measured which of them still work in a text sixteen times as long as any seen in training. It
# takes about two hours, most of it in the exercises.
#
# You need: Python, PyTorch tensors (indexing, broadcasting), sine and cosine, and the formula of
# attention, $O = \operatorname{softmax}(QK^\top/\sqrt D)\,V$ (chapter 03). You need no other
# chapter. The PyTorch that an exercise uses is explained just before it.
#
# **How it works.** You fill in ten functions, most of them a few lines long. Below each one,
# `check(...)` says what holds, what does not, and why. `hint(...)` gives up to three hints;
# `solution(...)` shows the course's own answer, after asking. A cell that needs a function you have
# not written yet says so and waits; nothing breaks if you run everything at once.
#
# | section | you write | you find out |
# |---|---|---|
# | 1 | | why attention needs to be told |
# | 2 | `sinusoidal_encoding` | a code for every position, and a trap in float32 |
# | 3 | `shift_matrix` | moving along the text is a rotation |
# | 4 | `LearnedPositions` | a table, and its end |
# | 5 | `relative_bias` | only the distance counts: T5 |
# | 6 | `apply_rope` | rotations: RoPE |
# | 7 | `alibi_slopes`, `alibi_bias` | a penalty for distance: ALiBi |
# | 8 | `position_interpolation`, `ntk_scale`, `yarn_frequencies` | reading further than trained |
# | 9 | | trained at 64, tested at 1,024: who still reads |
# | 10–11 | | where this breaks; recap |

# %%
import math
import sys

import numpy as np
import torch
from attend import charts, widgets
from attend.data import reading
from attend.training import fit, over_seeds
from attend_grader import check, hint, ready, solution
from attend_solutions.positions import angular_frequencies  # given; section 2 shows what it does
from IPython.display import display
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

SEED = 6  # the only seed in this notebook: every random number below follows from it
torch.set_printoptions(precision=3, sci_mode=False)
torch.set_num_threads(1)  # models as small as these are fastest on one core

# %% [markdown]
# ### Letters
#
# | letter | counts | | letter | counts |
# |---|---|---|---|---|
# | $B$ | sequences in a batch | | $C$ | numbers in one embedding |
# | $T$ | queries, or tokens | | $D$ | numbers in one query or key |
# | $S$ | keys | | $H$ | heads: look-ups side by side |
#
# A token's **position** is $p = 0, 1, 2, \ldots$ Where a query and a key meet, the query stands at
# $m$ and the key at $n$; their **offset** is $m - n$. Their **score** is the product
# $q \cdot k/\sqrt D$, before the softmax makes **weights** of all the scores of a query. A section
# that needs more letters says so.

# %% [markdown]
# ## 1 · A set has no order
#
# *Dog bites man* is no news, *man bites dog* is. Give each of the three words a random query, key
# and value, and let the words look at each other, in both orders. What changes for the dog?

# %%
attention = functional.scaled_dot_product_attention
torch.manual_seed(SEED)
q, k, v = torch.randn(3, 1, 3, 4)  # each (1, T, D): dog, bites, man
order = [2, 1, 0]  # man bites dog
first = attention(q, k, v)
second = attention(q[:, order], k[:, order], v[:, order])
print("dog bites man, what dog gets:", first[0, 0])
print("man bites dog, what dog gets:", second[0, 2])

# %% [markdown]
# Nothing changes. A query is compared with *all* keys, and a sum over all keys does not care in
# which order they stand. Attention reads a **bag of words**.
#
# A causal mask, under which each token sees only itself and those before it, changes that: the
# first word sees one word, the last sees three.

# %%
first = attention(q, k, v, is_causal=True)
second = attention(q[:, order], k[:, order], v[:, order], is_causal=True)
print("dog first, under a causal mask:", first[0, 0])
print("dog last,  under a causal mask:", second[0, 2])
equal = torch.zeros(1, 6, 4)
marked = torch.zeros(1, 6, 1)
marked[0, 0] = 1.0  # only the first token's value is 1
print(
    "share of the first token if all weights are equal:",
    attention(equal, equal, marked, is_causal=True).flatten(),
)

# %% [markdown]
# So a causal mask leaks the position: a head that weighs all tokens equally gives the first one
# $1/1, 1/2, 1/3, \ldots$, and a later layer can read $p$ from that. Models without any code of
# position do learn to count in this way (Haviv et al. 2022; Kazemnejad et al. 2023). We keep such a
# model as a baseline, under the name **none**. It is a weak way to see which of two words, both
# long past, came first. The rest of this chapter gives better ones.
#
# > **Takeaway.** Attention without a mask cannot tell orders apart. With a causal mask it can, but
# > badly.

# %% [markdown]
# ## 2 · A code for every position
#
# The simplest idea: add to each token's embedding a vector that depends on its position. Which
# vector? Four wishes:
#
# 1. Every position has its own.
# 2. Its numbers stay small, or they would drown the embedding. So not $p$ itself.
# 3. It means the same in a short and in a long text. So not $p/T$.
# 4. Neighbours are similar, and moving on by $\delta$ steps is the same operation everywhere.
#
# You know a code that fulfils the first three: digits. In binary, 7 is `0111` and 8 is `1000`. The
# last digit changes at each step, the one before at every second step, and so on: each digit is a
# slower clock. But 7 and 8 are neighbours and differ in *every* digit. Make the clocks smooth:
# instead of a digit that jumps, take a hand that turns.
#
# In this section $i$ counts clocks. Clock $i$ turns by an angle $\theta_i$ at each step. After $p$
# steps its hand points to $p\,\theta_i$, and you write down where the tip is: $(\sin p\theta_i,
# \cos p\theta_i)$. The angles per step fall from 1 in equal ratios:
#
# $$\theta_i = \text{base}^{-2i/C}, \qquad i = 0, 1, \ldots, C/2 - 1, \qquad
# \text{base} = 10{,}000 .$$
#
# We call the $\theta_i$ **angular frequencies**, in radians a step. You are given a function for
# them, as you will need it again and again:

# %%
# angular_frequencies(width, base) is base ** (-2i / width) for i = 0, 1, 2, …, in float64
print("width 8, base 10,000:", angular_frequencies(8))
print("steps for a full turn:", (2 * math.pi / angular_frequencies(8)).round())

# %% [markdown]
# <!-- exercise: sinusoidal_encoding -->
#
# **Why.** This is how the first Transformer knew where it was (Vaswani et al. 2017, §3.5). It has
# nothing to learn and gives a code for any position.
#
# $$\mathrm{PE}(p)_{2i} = \sin(p\,\theta_i), \qquad \mathrm{PE}(p)_{2i+1} = \cos(p\,\theta_i)$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $p$ | `positions`: whole numbers or not, also below 0, in any order | $(T,)$ |
# | $C$ | `width`: even | one number |
# | $\theta_i$ | `angular_frequencies(width, base)` | $(C/2,)$ in float64 |
# | $\mathrm{PE}$ | returned | $(T, C)$ in float32, sine and cosine in turns |
#
# **By hand.** $C = 4$ and base 100: $\theta = (1,\ 0.1)$. At $p = 1$ the angles are $1$ and $0.1$,
# so $\mathrm{PE}(1) = (\sin 1, \cos 1, \sin 0.1, \cos 0.1) = (0.841,\ 0.540,\ 0.100,\ 0.995)$. At
# $p = 0$ it is $(0, 1, 0, 1)$.
#
# **Mind the type.** Work out the angles in float64 and convert the *result* to float32. You will
# see in a moment why.

# %% [markdown]
# **PyTorch you need.** A column times a row is a table: `a[:, None] * b` has the shape
# $(\text{len } a, \text{len } b)$. A product of whole numbers and float64 numbers is float64.
# `torch.stack((a, b), dim=-1)` puts two tensors side by side on a new last axis, and `.flatten(-2)`
# makes one axis of the last two:
#
# ```python
# odd, even = torch.tensor([[1, 3], [5, 7]]), torch.tensor([[2, 4], [6, 8]])
# torch.stack((odd, even), dim=-1).shape         # (2, 2, 2)
# torch.stack((odd, even), dim=-1).flatten(-2)   # [[1, 2, 3, 4], [5, 6, 7, 8]]
# torch.cat((odd, even), dim=-1)                 # [[1, 3, 2, 4], [5, 7, 6, 8]]
# ```
#
# `.sin()`, `.cos()` work entry by entry; `.float()` converts to float32.

# %% [markdown]
# **Predict first,** then open:
#
# <details><summary>The first pair turns by 1 radian a step. Does it come back to the same place
# exactly, at some whole position?</summary>
#
# No. It would need $p \cdot 1 = 2\pi j$ for whole $p$ and $j$, and $\pi$ is irrational. It comes
# close, though: $44 \approx 7 \cdot 2\pi$, and $377 \approx 60 \cdot 2\pi$, off by 0.009. Remember
# the second number; it will come back in section 9.
#
# </details>
#
# <details><summary>Base 10,000 and C = 512: how many steps does the slowest pair need for a full
# turn?</summary>
#
# $\theta_{255} = 10000^{-510/512} = 1/9647$, so $2\pi \cdot 9647 \approx 60{,}600$ steps. Wish 1
# holds far beyond the texts of 2017.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.positions import sinusoidal_encoding

# %% [markdown]
# **What you should see.** Fast clocks on the left, slow ones on the right. Try these:
#
# - Move the base to 10: now all clocks are fast. At 100,000 most of them hardly move.
# - Choose another row: the curve on the right moves along and keeps its shape.
# - Set the first position to 100,000. The pattern is another, the curve is not.

# %%
if ready(sinusoidal_encoding):
    display(widgets.frequency_map(sinusoidal_encoding))

# %% [markdown]
# The curve is the dot product of two encodings. You can see why it knows only the distance: a pair
# with the angles $\alpha$ and $\beta$ contributes $\sin\alpha\sin\beta + \cos\alpha\cos\beta =
# \cos(\alpha - \beta)$, and so
#
# $$\mathrm{PE}(m) \cdot \mathrm{PE}(n) = \sum_i \cos\big((m - n)\,\theta_i\big).$$

# %% [markdown]
# ### The precision trap
#
# Why the angles in float64? A float32 number has 24 binary digits, about 7 decimal ones. Near
# 100,000 the next float32 number is 0.008 away, so a product $p\,\theta$ there is wrong by some
# thousandths: for a sine that is an error in the third decimal. bfloat16 has 8 binary digits. Near
# 300 its numbers are 2 apart: position 301 becomes 300, and the fastest angle is wrong by a radian.
# It happens silently: the numbers stay between −1 and 1 and look like any others.
#
# Here is the largest error of a sine or cosine when positions, frequencies and angles have each of
# three types, and that of your function.

# %%
if ready(sinusoidal_encoding):
    rows = []
    for exponent in range(1, 7):
        place = 10**exponent
        here = torch.arange(place - 8, place)
        exact = torch.outer(here.double(), angular_frequencies(64))
        errors = {}
        for kind in (torch.bfloat16, torch.float16, torch.float32):
            rounded = torch.outer(here.to(kind), angular_frequencies(64).to(kind)).double()
            wrong = torch.stack((rounded.sin() - exact.sin(), rounded.cos() - exact.cos()))
            errors[str(kind).removeprefix("torch.")] = wrong.abs().nan_to_num(2.0).max()
        yours = sinusoidal_encoding(here, 64)
        sines, cosines = yours[:, 0::2] - exact.sin(), yours[:, 1::2] - exact.cos()
        errors["your function"] = torch.cat((sines, cosines)).abs().max()
        print(f"{place:9,d}: " + "  ".join(f"{n} {float(e):.0e}" for n, e in errors.items()))
        rows += [{"p": place, "error": float(e), "angles in": n} for n, e in errors.items()]
    display(
        charts.line(
            rows,
            "p",
            "error",
            "angles in",
            title="Angles in float32 lose a digit with every power of ten",
            description="Largest error of sines and cosines near positions 10 to a million, both "
            "axes logarithmic. Angles in float32 rise from below 1e-6 at 10 to a few hundredths at "
            "a million; bfloat16 reaches the largest possible error, 2, at 1,000, float16 at "
            "10,000. The learner's function stays below 1e-7 everywhere.",
            x_title="position p (log scale)",
            y_title="largest error of a sine (log scale)",
            log_x=10,
            log_y=10,
        )
    )

# %% [markdown]
# An error of 2 is the largest there can be: −1 instead of 1. (float16 ends at 65,504; beyond, there
# is no number at all, shown as 2.)
#
# > **Takeaway.** Sines and cosines of falling frequencies give every position a bounded code of its
# > own. Make the angles in float64 and round last.

# %% [markdown]
# ## 3 · Moving on is a rotation
#
# Wish 4 said: moving on by $\delta$ steps should be the same operation everywhere. Look at one
# pair. By the addition theorems,
#
# $$\sin((p+\delta)\theta) = \cos(\delta\theta)\,\sin(p\theta) + \sin(\delta\theta)\,\cos(p\theta)$$
# $$\cos((p+\delta)\theta) = -\sin(\delta\theta)\,\sin(p\theta) +
# \cos(\delta\theta)\,\cos(p\theta)$$
#
# The numbers in front of $\sin(p\theta)$ and $\cos(p\theta)$ contain $\delta$ but not $p$. As a
# matrix:
#
# $$\begin{pmatrix}\sin((p+\delta)\theta)\\ \cos((p+\delta)\theta)\end{pmatrix} =
# \begin{pmatrix}\cos \delta\theta & \sin \delta\theta\\ -\sin \delta\theta &
# \cos \delta\theta\end{pmatrix}
# \begin{pmatrix}\sin p\theta\\ \cos p\theta\end{pmatrix}$$
#
# That is a rotation. Put the blocks of all pairs on the diagonal of one matrix $M_\delta$:
#
# $$\mathrm{PE}(p + \delta) = M_\delta\,\mathrm{PE}(p) \qquad \text{for every } p .$$
#
# This is why sines were chosen: a linear layer, which is what makes queries and keys, can learn
# $M_\delta$ once and so look $\delta$ steps back from anywhere.

# %% [markdown]
# <!-- exercise: shift_matrix -->
#
# **Why.** "Can be represented as a linear function" is a claim of the paper. Build the function,
# and it is a fact.
#
# $$M_\delta = \begin{pmatrix} R_0 & & \\ & R_1 & \\ & & \ddots\end{pmatrix}, \qquad R_i =
# \begin{pmatrix}\cos \delta\theta_i & \sin \delta\theta_i\\ -\sin \delta\theta_i &
# \cos \delta\theta_i\end{pmatrix}$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $\delta$ | `offset`: any number, also negative | one number |
# | $\theta_i$ | `angular_frequencies(width, base)` | $(C/2,)$ |
# | $R_i$ | one block for each pair | $(C/2, 2, 2)$ |
# | $M_\delta$ | returned | $(C, C)$ in float32 |
#
# **By hand.** Width 2, so $\theta_0 = 1$. For $\delta = \pi/2$: $\cos = 0$, $\sin = 1$, and $M =
# \begin{pmatrix}0 & 1\\ -1 & 0\end{pmatrix}$. Position 0 has the code $(0, 1)$, and $M$ times it
# is $(1, 0)$: the sine and cosine of $\pi/2$.
#
# **PyTorch you need.** `torch.block_diag(a, b, c)` puts matrices along the diagonal; a list of them
# goes in with a star, `torch.block_diag(*blocks)`, and so does a tensor $(n, 2, 2)$. The opposite
# of flatten is `x.unflatten(-1, (2, 2))`: it makes two axes of the last one, row by row. Or start
# from `torch.zeros(width, width)` and write into it. Here, too, angles are float64 and only the
# result is float32.

# %% [markdown]
# **Predict first,** then open:
#
# <details><summary>What is $M_3 M_{-3}$? And what is $M_\delta^\top$?</summary>
#
# The identity: three steps on and three steps back. And $M_\delta^\top = M_{-\delta}$, since
# transposing a rotation turns it round.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.positions import shift_matrix

# %% [markdown]
# **What you should see.** One matrix for each offset, and it moves the codes of 1,000 positions at
# once, exact to the last digit of float32. (`PE @ M.T` applies $M$ to each row.)

# %%
if ready(sinusoidal_encoding, shift_matrix):
    places = torch.arange(1000)
    codes = sinusoidal_encoding(places, 64)
    for offset in (1, 7, -3, 0.5, 100_000):
        moved = codes @ shift_matrix(offset, 64).T
        error = (moved - sinusoidal_encoding(places + offset, 64)).abs().max()
        print(f"offset {offset:9,}: largest error over 1,000 positions {error:.0e}")

# %% [markdown]
# > **Takeaway.** Moving by $\delta$ is one rotation $M_\delta$, the same at every position. Keep
# > the rotation in mind: section 6 drops the code and keeps the rotation.

# %% [markdown]
# ## 4 · A table
#
# If a layer must learn to read the codes anyway, why not learn the codes too? A table with one
# trained row for each position: that is what BERT and GPT-2 do (Devlin et al. 2019; Radford et al.
# 2019; earlier Gehring et al. 2017). Such a table is a **parameter** of the model: a tensor whose
# numbers training changes.

# %% [markdown]
# <!-- exercise: LearnedPositions -->
#
# **Why.** It is the simplest code of all, and its weakness is plain to see: a table has an end, and
# a row that was never used in training was never trained.
#
# $$y_t = x_t + P_{\,\text{start} + t}, \qquad t = 0, \ldots, T - 1$$
#
# | symbol | name | shape |
# |---|---|---|
# | $P$ | `self.table`: the parameter, given | $(\text{max\_length}, C)$ |
# | $x$ | `x`: tokens, in order, counted by $t$ | $(\ldots, T, C)$ |
# | start | `start`: the first token's position | one whole number |
# | $y$ | returned | $(\ldots, T, C)$ |
#
# `start` is needed when a model writes token by token: the newest token comes alone, but it does
# not stand at position 0.
#
# **By hand.** The table has the rows $(1, 2)$, $(3, 4)$, $(5, 6)$. Two tokens $(10, 10)$ and $(20,
# 20)$ from `start = 1` become $(13, 14)$ and $(25, 26)$. Three tokens from there would need a
# fourth row: raise a `ValueError`.
#
# **PyTorch you need.** Slices never fail: `table[2:9]` of a table with 3 rows is its last row,
# alone. And a single row is broadcast to *all* tokens without a word. So compare before you slice.
# `x.shape[-2]` is the length of the last axis but one.
#
# The class and its `__init__` are there; write the body of `forward`.

# %% [markdown]
# <details><summary>Predict first: a table of 8 rows, and three tokens from start = 7. What would
# `x + table[7:10]` be?</summary>
#
# `table[7:10]` is the last row alone, and it is added to *all three* tokens. No error, and two
# tokens get a position that is not theirs.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.positions import LearnedPositions

# %% [markdown]
# **What you should see.** Sixteen tokens fit, the seventeenth does not. When a model meets a longer
# text, that is where it stops.

# %%
if ready(LearnedPositions):
    table = LearnedPositions(max_length=16, width=4)
    print("16 tokens:", tuple(table(torch.zeros(1, 16, 4)).shape))
    try:
        table(torch.zeros(1, 17, 4))
    except ValueError as error:
        print("17 tokens: ValueError:", error)

# %% [markdown]
# > **Takeaway.** A trained table is easy and strong within its length, and has nothing to say
# > beyond.

# %% [markdown]
# ## 5 · Only the distance counts
#
# When the code $P_m$ is added to the embedding $x_m$ of the token at $m$, a score becomes a product
# of sums. With $W$ for all that makes queries and keys,
#
# $$(x_m + P_m)\,W\,(x_n + P_n)^\top = \underbrace{x_m W x_n^\top}_{\text{content}} + x_m W
# P_n^\top + P_m W x_n^\top + \underbrace{P_m W P_n^\top}_{\text{positions}} .$$
#
# The last term says how much a token at $m$ looks at a token at $n$, whatever they are. Mostly one
# wants it to depend on the distance alone: the word before, the same line, somewhere earlier. So
# drop the codes and write that term down directly (Shaw et al. 2018 first gave each offset a
# trained vector; T5 made it a single number, Raffel et al. 2020):
#
# $$\text{score}(m, n) = \frac{q_m \cdot k_n}{\sqrt D} + b_{\,\text{head}}(n - m)$$
#
# Mind the sign: T5 counts from the query to the key. In this section $r = n - m$, minus the
# offset, and $d = |r|$ is the distance.
#
# One number for each offset would again be a table with an end. T5 lets offsets share **buckets**:
# near ones have a bucket each, far ones share, in ranges that widen in proportion, and everything
# from a largest distance on is one bucket. That has a last bucket, but no end.

# %% [markdown]
# <!-- exercise: relative_bias -->
#
# **Why.** The bias is what T5 has in the place of a code, and the buckets are a good trick
# elsewhere. It is also the fiddliest function of this chapter; take the steps one by one.
#
# Let *side* be the number of buckets for one side of the query, and *exact* = side // 2 how many of
# them hold a single distance. A distance $d$ has the bucket
#
# $$d \ \text{ if } d < \text{exact}, \qquad \text{else}\quad \min\!\left(\text{side} - 1,\quad
# \text{exact} + \left\lfloor (\text{side} - \text{exact})\, \frac{\ln(d/\text{exact})}
# {\ln(\text{max\_distance}/\text{exact})} \right\rfloor\right).$$
#
# | `bidirectional` | *side* | keys at or before the query | keys after it |
# |---|---|---|---|
# | `True` | half of the table | $d = -r$, first half | $d = r$, second half: add *side* |
# | `False` | the whole table | $d = -r$ | count as $d = 0$ |
#
# Here $r$ is an entry of `relative`: the key's position minus the query's. Negative: the key is
# before the query.
#
# | symbol | argument | shape |
# |---|---|---|
# | $b$ | `table`: a trained number for each bucket and head | (buckets, $H$) |
# | $r$ | `relative` | $(T, S)$, whole numbers |
# | | returned: $b$ of each pair's bucket | $(H, T, S)$ |
#
# **By hand.** 8 buckets, looking back only, so side = 8, exact = 4; max_distance 16, so
# $\ln(16/4) = \ln 4$. Distances 0, 1, 2, 3 have buckets 0 to 3. Distance 6: $4 \cdot \ln 1.5 / \ln
# 4 = 1.17$, bucket $4 + 1 = 5$. Distance 11: $4 \cdot \ln 2.75/\ln 4 = 2.92$, bucket 6. Distance
# 16: bucket 8, but at most 7.
#
# **PyTorch you need.** `torch.where(condition, a, b)` chooses entry by entry. `.clamp(low, high)`
# holds numbers within bounds, and `.long()` cuts the fraction off. Logarithms are made for all
# entries, also where they are not wanted: $\ln 0 = -\infty$ is harmless if you clamp *before* you
# convert. Indexing with a tensor of whole numbers looks up a row for each: if `bucket` has the
# shape $(T, S)$, `table[bucket]` has $(T, S, H)$. `.movedim(-1, 0)` moves the last axis to the
# front.

# %% [markdown]
# **Predict first,** then open:
#
# <details><summary>T5 has 32 buckets and max_distance 128, looking back only. Which distances have
# a bucket for themselves?</summary>
#
# side = 32, so exact = 16: distances 0 to 15. The first shared bucket holds 16 to 18.
#
# </details>
#
# <details><summary>A model was trained on texts of 64 tokens with max_distance 128. How many
# training examples did the last bucket have?</summary>
#
# None. Its distances begin at 113, and the farthest key was 63 away. What the model does with that
# bucket in a longer text is left to its start value. So it is with buckets 27 to 30. You will
# measure that in section 9.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.positions import relative_bias

# %% [markdown]
# **What you should see.** A table whose entries are their own bucket numbers, looking back. With
# max_distance 128: steps of one up to distance 15, then ever longer steps. With 32 there is no room
# for that: 16 buckets are left for the distances 16 to 31. One bucket is never used (distance 19
# has bucket 19, distance 20 has 21), and distances 27 and 28 share another.

# %%
if ready(relative_bias):
    numbered = torch.arange(32.0)[:, None]  # (32, 1): bucket b holds b
    distances = torch.arange(0, 200)
    rows = []
    for far in (128, 32):
        bucket = relative_bias(numbered, -distances[None], bidirectional=False, max_distance=far)
        rows += [
            {"d": float(d), "bucket": float(b), "max_distance": f"{far}"}
            for d, b in zip(distances, bucket[0, 0], strict=True)
        ]
    display(
        charts.line(
            rows,
            "d",
            "bucket",
            "max_distance",
            title="Near distances have a bucket each, far ones share",
            description="Bucket against distance, 32 buckets. Both lines rise by one a step up to "
            "distance 16. With max_distance 128 the steps then widen until bucket 31 begins at "
            "distance 113; with 32 the line goes on almost as before, skips bucket 20, and ends at "
            "bucket 31 from distance 31 on.",
            x_title="distance d of the key (tokens)",
            y_title="bucket",
        )
    )

# %% [markdown]
# > **Takeaway.** A number for each head and bucket, added to the score, says how near matters. It
# > has no end, but distances it never saw were never trained.

# %% [markdown]
# ## 6 · Turn, do not add
#
# Can a score know the offset without a table? Ask for a function $f$ that is told a query and its
# position $m$, or a key and its position $n$, such that the dot product depends on $m - n$ only,
# by some function $g$:
#
# $$f(q, m) \cdot f(k, n) = g(q, k, m - n) .$$
#
# Start with two numbers. Two arrows in the plane have a dot product that depends on their lengths
# and on the *angle between them*. Turn both by the same angle, and it stays. So turn the query by
# $m\theta$ and the key by $n\theta$: the angle between them changes by $(m - n)\theta$, and by
# nothing else. With $R(\varphi)$ for the rotation by $\varphi$:
#
# $$\big(R(m\theta)\,q\big) \cdot \big(R(n\theta)\,k\big) = q^\top R(m\theta)^\top R(n\theta)\,k =
# q^\top R\big((n - m)\theta\big)\,k .$$
#
# For $D$ numbers take $D/2$ pairs, each with its own frequency $\theta_i$: those of section 2, with
# $D$ in the place of $C$. That is **RoPE**, the rotary position embedding (Su et al. 2021). Nothing
# is added, nothing is learned, the lengths of queries and keys stay. It is $M_\delta$ of section 3,
# set to work on the queries and keys themselves.
#
# **Which numbers are a pair?** Two conventions are in use. RoFormer, GPT-J and Meta's own code for
# Llama pair neighbours, $(x_0, x_1), (x_2, x_3), \ldots$ GPT-NeoX and Hugging Face's Llama pair
# halves, $(x_i, x_{i + D/2})$, which needs no interleaving; the weights are reordered when a model
# moves from one to the other. **Here we use halves.** For a model it makes no difference, as the
# order of the numbers in a query is arbitrary; but weights made for one must not be run with the
# other.

# %% [markdown]
# <!-- exercise: apply_rope -->
#
# **Why.** This function is in nearly every language model of today, called on every query and key
# of every layer.
#
# $$\begin{aligned} y_i &= x_i \cos(p\theta_i) - x_{i + D/2} \sin(p\theta_i)\\
# y_{i + D/2} &= x_{i + D/2} \cos(p\theta_i) + x_i \sin(p\theta_i) \end{aligned}
# \qquad i = 0, \ldots, D/2 - 1$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$ | `x`: queries or keys | $(\ldots, T, D)$ |
# | $p$ | `positions` | $(T,)$, or $(\ldots, 1, T)$ where sequences differ |
# | $\theta$ | `frequencies` | $(D/2,)$ |
# | $p\,\theta_i$ | angles, in float64 | $(\ldots, T, D/2)$ |
# | $y$ | returned, in the dtype of $x$ | $(\ldots, T, D)$ |
#
# **By hand.** $D = 4$, $x = (1, 4, 0, 5)$: the pairs are $(1, 0)$ and $(4, 5)$. Position 3,
# frequencies $(\pi/6,\ 0)$: the angles are $\pi/2$ and $0$. A quarter turn takes $(1, 0)$ to $(0,
# 1)$; the other pair stays. So $y = (0, 4, 1, 5)$.
#
# **PyTorch you need.** `x.chunk(2, dim=-1)` cuts the last axis in two halves. They are views:
# writing into one writes into `x`. `positions[..., None]` adds a last axis, whatever comes before.
# `.double()` makes float64, `.to(x.dtype)` the type of x. Convert sines and cosines, not angles:
# the trap of section 2 is worse in bfloat16, in which many models run.

# %% [markdown]
# **Predict first,** then open:
#
# <details><summary>A query and a key, both at position 1,000,000. What is their score?</summary>
#
# The same as at position 0: their plain dot product. The offset is 0, both are turned alike.
#
# </details>
#
# <details><summary>D = 64, and the query is three tokens after the key. What has become of what the
# fastest pair contributes to their score, and of what the slowest contributes?</summary>
#
# The fastest has turned by 3 radians, nearly half a turn: its contribution has about changed its
# sign. The slowest has turned by $3/7499$ radians: it contributes as if there were no positions.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.positions import apply_rope

# %% [markdown]
# **What you should see.** One pair of numbers, a query and a key, and your function.
#
# - Move the query alone: its arrow turns, and the score runs along the curve.
# - Move both: both arrows turn, and the score stays. Try 100,000: if your angles were float32, its
#   last digits would change.
# - Take a slow frequency: near keys all look alike. Take the fast one: far keys look like near
#   ones.

# %%
if ready(apply_rope):
    display(widgets.rope_dial(apply_rope))

# %% [markdown]
# **The proof as a check.** Take 200 random pairs of unit vectors, $D = 64$, an offset of 5, and
# start at 0, at 100, …, at a million. By how much does the score change, at most? Beside your
# function: the same rotation with angles made in float32 and in bfloat16, as code that is not
# careful does it.

# %%
if ready(apply_rope):
    torch.manual_seed(SEED)
    pairs = functional.normalize(torch.randn(2, 200, 1, 64), dim=-1)
    theta = angular_frequencies(64)

    def scores(start: int, turn) -> Tensor:
        """Scores of 200 queries at start + 5 with their keys at start."""
        query, key = pairs
        at_query, at_key = torch.tensor([start + 5]), torch.tensor([start])
        return (turn(query, at_query) * turn(key, at_key)).sum(dim=-1)

    def careless(kind):
        """Your rotation, told an angle that was made in the type `kind`, as a single step."""

        def turn(x, position):
            angle = (position.to(kind) * theta.to(kind)).double()
            return apply_rope(x, torch.tensor([1]), angle)

        return turn

    ways = {
        "your function": lambda x, position: apply_rope(x, position, theta),
        "float32 angles": careless(torch.float32),
        "bfloat16 angles": careless(torch.bfloat16),
    }
    exact = scores(0, lambda x, position: apply_rope(x.double(), position, theta))
    rows = []
    for start in (0, 100, 1_000, 10_000, 100_000, 1_000_000):
        for name, turn in ways.items():
            change = float((scores(start, turn) - exact).abs().max())
            rows.append({"start": float(max(start, 10)), "change": change, "rotation": name})
        told = "  ".join(f"{row['rotation']} {row['change']:.0e}" for row in rows[-3:])
        print(f"key at {start:9,d}: {told}")
    display(
        charts.line(
            rows,
            "start",
            "change",
            "rotation",
            title="A score that should not change, and does in float32",
            description="Largest change of 200 scores at offset 5, keys at 0 (drawn at 10) to a "
            "million, both axes logarithmic. The learner's function stays below 1e-7. With float32 "
            "angles the change grows tenfold with every power of ten, to about 2e-4 at 100,000; "
            "with bfloat16 angles it is 0.02 at 100 and about 0.2 from 1,000 on.",
            x_title="position of the key (log scale; 10 stands for 0)",
            y_title="largest change of a score (log scale)",
            log_x=10,
            log_y=10,
        )
    )

# %% [markdown]
# With float64 angles a score knows the offset and nothing else, to $10^{-6}$ and better, at 100,000
# as at 0.
#
# Is anybody careless? Hugging Face's Llama makes its angles in float32, whatever type the model
# has: far better than bfloat16, and off by 2e-4 at 100,000.
#
# **The two pairings are one.** Sort the numbers of each vector so that the even places come first,
# then the odd ones. Now neighbours have become halves. Rotate, sort back, and compare with a
# rotation of neighbours, here written with complex numbers: $x_{2i} + \mathrm i\,x_{2i+1}$ times
# $e^{\mathrm i p \theta_i}$.

# %%
if ready(apply_rope):
    torch.manual_seed(SEED)
    x, where, theta = torch.randn(5, 8), torch.arange(5), angular_frequencies(8)
    turns = torch.exp(1j * torch.outer(where.double(), theta))
    neighbours = torch.view_as_real(torch.view_as_complex(x.double().unflatten(-1, (4, 2))) * turns)
    sort = [0, 2, 4, 6, 1, 3, 5, 7]
    back = [sort.index(i) for i in range(8)]
    for name, halves in (
        ("sorted, rotated, sorted back", apply_rope(x[:, sort], where, theta)[:, back]),
        ("rotated without sorting     ", apply_rope(x, where, theta)),
    ):
        same = torch.allclose(neighbours.flatten(-2).float(), halves, atol=1e-6)
        print(f"{name}: equal to the rotation of neighbours: {same}")

# %% [markdown]
# > **Takeaway.** Turn queries and keys by their positions, and their dot product knows only how far
# > apart they are. Whether that is enough to read longer texts is another question.

# %% [markdown]
# ## 7 · Far is less: ALiBi
#
# The simplest relative bias has nothing to learn: subtract from each score the distance, times a
# number (Press et al. 2022). It is called attention with linear biases:
#
# $$\text{score}(m, n) = \frac{q_m \cdot k_n}{\sqrt D} - \text{slope}_h\,|m - n|$$
#
# Here $h$ counts heads, from 1. What does it do to the weights? The softmax turns differences of
# scores into ratios of weights: each further token multiplies the weight by $e^{-\text{slope}_h}$.
# With a slope of $1/2$ a key ten tokens back gets $e^{-5} = 0.007$ of what it would get; with
# $1/256$ it gets $0.96$. So every head has its own range, from a few tokens to hundreds, and *no
# distance is new*: 1,000 is only a little less than 900.

# %% [markdown]
# <!-- exercise: alibi_slopes -->
#
# **Why.** Heads should cover all ranges evenly. For $H$ heads, a power of two, the slopes fall in
# equal ratios down to $2^{-8}$:
#
# $$\text{slope}_h = 2^{-8h/H}, \qquad h = 1, \ldots, H$$
#
# Models have 12, 20 or 25 heads too. The paper's code then takes the slopes for the largest power
# of two below, and fills up with slopes that lie *between* them: those of twice that power that
# are new, in order, as many as are needed.
#
# | symbol | name | shape |
# |---|---|---|
# | $H$ | `heads`: any number from 1 on | one whole number |
# | slope | returned, in this order: the power of two's, then those between | $(H,)$ in float32 |
#
# **By hand.** Four heads: $2^{-2}, 2^{-4}, 2^{-6}, 2^{-8}$. Eight heads: $2^{-1}, 2^{-2}, 2^{-3},
# \ldots, 2^{-8}$. Every second one of these is a slope of four heads; new are the 1st, 3rd, 5th and
# 7th. So six heads have $2^{-2}, 2^{-4}, 2^{-6}, 2^{-8}$ and then $2^{-1}, 2^{-3}$.
#
# **PyTorch you need.** `2.0 ** tensor` raises 2 to each entry. `torch.arange(1, 8, 2)` is
# `[1, 3, 5, 7]`. `math.log2(12)` is 3.58, and `int` cuts that to 3.

# %% [markdown]
# <details><summary>Predict first: how many of the 12 slopes of 12 heads are steeper than the first
# of 8 heads?</summary>
#
# One. The first eight are those of 8 heads, $2^{-1}$ to $2^{-8}$. Then follow the 1st, 3rd, 5th and
# 7th of 16 heads: $2^{-0.5}, 2^{-1.5}, 2^{-2.5}, 2^{-3.5}$. Only $2^{-0.5}$ is above $2^{-1}$.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.longer_positions import alibi_slopes

# %% [markdown]
# **What you should see.** The slopes of three head counts. The last column is where a head's weight
# has fallen to a half: $\ln 2 / \text{slope}_h$ tokens back. A head sees about that far.

# %%
if ready(alibi_slopes):
    for heads in (4, 6, 8):
        for h, slope in enumerate(alibi_slopes(heads).tolist(), 1):
            print(
                f"{heads} heads, head {h}: slope 1/{1 / slope:<5.0f}"
                f" half at {math.log(2) / slope:6.1f} tokens"
            )
        print()

# %% [markdown]
# <!-- exercise: alibi_bias -->
#
# **Why.** With this table added to the scores, a model needs no other code of position.
#
# $$b_h(m, n) = -\text{slope}_h\,|m - n|$$
#
# | symbol | argument | shape |
# |---|---|---|
# | slope | `slopes` | $(H,)$ |
# | $m$ | `query_positions` | $(T,)$ |
# | $n$ | `key_positions` | $(S,)$ |
# | $b$ | returned | $(H, T, S)$ |
#
# The positions are given, not counted, as a model that writes has one query, at position 900, say,
# and 901 keys.
#
# **By hand.** Slope $1/2$, a query at 2, keys at 0, 1, 2, 3: the distances are 2, 1, 0, 1 and the
# bias is $-1, -0.5, 0, -0.5$. Under a causal mask the last one is hidden anyway.
#
# **PyTorch you need.** `.abs()`. A column minus a row is a table; `slopes[:, None, None]` has the
# shape $(H, 1, 1)$ and multiplies a whole table for each head.

# %% [markdown]
# <details><summary>Predict first: all scores are equal. Which share of the weight does the token
# itself get, in a long text and with slope 1/4?</summary>
#
# The weights stand as $1 : e^{-1/4} : e^{-2/4} : \ldots$ Their sum is $1/(1 - e^{-1/4}) = 4.52$, so
# the token itself gets $0.22$, at any length.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.longer_positions import alibi_bias

# %% [markdown]
# **What you should see.** The weights of a query at 63 whose scores are all equal, for four heads:
# the first sees about five tokens, the last nearly all 64.

# %%
if ready(alibi_slopes, alibi_bias):
    bias = alibi_bias(alibi_slopes(4), torch.tensor([63]), torch.arange(64))  # (4, 1, 64)
    weights = bias.softmax(dim=-1)[:, 0]
    for h in range(4):
        near = weights[h].flip(0).cumsum(0)
        print(
            f"head {h + 1}: weight of the token {near[0]:.3f},"
            f" of the 5 nearest {near[4]:.3f}, of the 32 nearest {near[31]:.3f}"
        )

# %% [markdown]
# > **Takeaway.** ALiBi has one idea: far counts less. It cannot single out "three tokens back", and
# > no distance surprises it.

# %% [markdown]
# ## 8 · Reading further than trained
#
# Most models turn (RoPE), and each was trained at some length $T_0$. Beyond it slow pairs reach
# angles they never had in training. Their scores there are whatever the trained weights happen to
# give. Three repairs share one idea: bring the angles of a text of $T$ tokens nearer to those of
# $T_0$. Let the *factor* be $T/T_0$. They differ in *what* they slow down.
#
# | | changes | fast pairs | slow pairs |
# |---|---|---|---|
# | position interpolation (PI) | the positions | slowed by the factor | slowed by the factor |
# | NTK-aware | the base | nearly as before | slowed by up to the factor |
# | YaRN | each frequency | as before | slowed by the factor |

# %% [markdown]
# <!-- exercise: position_interpolation -->
#
# **Why.** The plainest repair (Chen et al. 2023): squeeze the positions. With
# $T_0 = 2{,}048$, a text of 8,192 tokens has positions $0,\ 0.25,\ 0.5, \ldots$ below 2,048, and no
# slow pair goes further than it did.
#
# $$p' = p \cdot \frac{T_0}{T} \quad\text{if } T > T_0, \qquad\text{else}\quad p' = p$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $p$ | `positions`: all of a text's, or some | any |
# | $T_0$, $T$ | `trained_length`, and `length` of the text | whole numbers |
# | $p'$ | returned | the same, in float64 |
#
# **By hand.** Trained on 2, wanted 8: $(0, 1, 5)$ becomes $(0,\ 0.25,\ 1.25)$.
#
# <details><summary>Predict first: what do two neighbours look like to the fastest pair, with a
# factor of 16?</summary>
#
# They are $1/16$ radian apart, 3.6 degrees, instead of 57. In training they never were that near.
# The model has to read finer than it learned to, and that needs some more training.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.longer_positions import position_interpolation

# %% [markdown]
# **What you should see.** A text of 1,024 tokens, read by a model with $D = 16$ trained on 64: the
# last position; how far the fastest pair turns from a token to the next; and how far the slowest
# pair gets. Squeezed, the slowest stays within what it has seen, but neighbours are 16 times
# closer.

# %%
if ready(position_interpolation):
    theta = angular_frequencies(16)
    for name, where in (
        ("64 tokens, as trained", torch.arange(64)),
        ("1,024 tokens", torch.arange(1024)),
        ("1,024 tokens, squeezed", position_interpolation(torch.arange(1024), 64, 1024)),
    ):
        print(
            f"{name:22s} last p {float(where[-1]):7.2f}"
            f"   neighbours {float((where[1] - where[0]) * theta[0]):.3f} rad apart"
            f"   slowest up to {float(where[-1] * theta[-1]):.3f} rad"
        )

# %% [markdown]
# <!-- exercise: ntk_scale -->
#
# **Why.** Squeezing everything blurs the near, which the fast pairs tell apart and which needs no
# repair. Change the base instead (bloc97 2023; the name comes from the neural tangent kernel, which
# inspired it): $\theta_i = \text{base}^{-2i/D}$. The fastest pair has $\text{base}^0 = 1$ whatever
# the base is. The slowest has $i = D/2 - 1$, so $\text{base}^{-(D-2)/D}$. Ask that this one be
# slower by the factor, with a new base:
#
# $$\text{new base}^{\,-(D-2)/D} = \frac{\text{base}^{-(D-2)/D}}{\text{factor}}
# \qquad\Longrightarrow\qquad \text{new base} = \text{base} \cdot \text{factor}^{\,D/(D-2)} .$$
#
# | symbol | argument | |
# |---|---|---|
# | $D$ | `width`: at least 4 | one number |
# | base, factor | `base`, `factor` | one number each |
# | new base | returned | one Python float |
#
# **By hand.** $D = 6$: the exponent is $6/4 = 1.5$. Base 100 and factor 4: $4^{1.5} = 8$, so the
# new base is 800.
#
# <details><summary>Predict first: Llama has D = 128 and base 10,000. Which base is it for twice the
# length?</summary>
#
# The exponent is $128/126 = 1.016$, so a little more than twice: 20,221. This number, and the
# exponent as $64/63$, can be found in many programs.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.longer_positions import ntk_scale

# %% [markdown]
# **What you should see.** Llama's bases for longer texts, and by how much the fastest and the
# slowest pair of $D = 128$ turn more slowly.

# %%
if ready(ntk_scale):
    plain = angular_frequencies(128)
    for factor in (1.0, 2.0, 4.0, 8.0):
        base = ntk_scale(128, 10_000.0, factor)
        ratio = plain / angular_frequencies(128, base)
        print(
            f"factor {factor:.0f}: base {base:9,.1f}"
            f"   fastest pair slower by {ratio[0]:.2f}, slowest by {ratio[-1]:.2f}"
        )

# %% [markdown]
# <!-- exercise: yarn_frequencies -->
#
# **Why.** How slow is slow? Count the turns that a pair makes within the trained length:
#
# $$\text{turns}_i = \frac{T_0\,\theta_i}{2\pi}$$
#
# A pair with many turns has shown all its angles in training; nothing it meets later is new. Leave
# it. A pair with less than one turn has not: slow it down by the factor, as PI does. In between,
# blend (Peng et al. 2023, "NTK by parts"). The share of $\theta_i$ that is kept, $\gamma_i$, rises
# from 0 at $\alpha$ turns to 1 at $\beta$ turns:
#
# $$\gamma_i = \min\!\left(1,\ \max\!\left(0,\ \frac{\text{turns}_i - \alpha}{\beta -
# \alpha}\right)\right), \qquad \theta_i' = \gamma_i\,\theta_i + (1 -
# \gamma_i)\,\frac{\theta_i}{\text{factor}}$$
#
# For Llama they recommend $\alpha = 1$, $\beta = 32$. And one thing more: with more keys, the same
# scores give a flatter softmax. YaRN makes the scores a little larger, by multiplying queries *and*
# keys by
#
# $$0.1 \ln(\text{factor}) + 1 .$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $D$, base, factor, $T_0$ | `width`, `base`, `factor`, `trained_length` | one number each |
# | $\alpha$, $\beta$ | `alpha`, `beta` | one number each |
# | $\theta'$ | first result | $(D/2,)$ in float64 |
# | $0.1 \ln(\text{factor}) + 1$ | second result | one Python float |
#
# **By hand.** $\theta = (1,\ 0.1)$, $T_0 = 63$, so the turns are $(10.03,\ 1.003)$. With $\alpha =
# 0$, $\beta = 2$: $\gamma = (1,\ 0.5013)$. With the factor 8: $\theta_0' = 1$, and $\theta_1' =
# 0.5013 \cdot 0.1 + 0.4987 \cdot 0.0125 = 0.0564$. The second result is $0.1 \cdot 2.08 + 1 =
# 1.208$.
#
# **A remark.** The code released with the paper, and copies of it in other libraries, lets the
# share fall linearly over the pair's *index*, between the pairs with $\beta$ and with $\alpha$
# turns. The paper's formula, above, is linear in the *turns*. We follow the paper. Beyond both ends
# the two agree.

# %% [markdown]
# <details><summary>Predict first: D = 16, base 10,000, trained on 64 tokens. How many of the 8
# pairs make more than one turn, and how many more than 32?</summary>
#
# $64\,\theta/2\pi = 10.2\,\theta$, with $\theta = 1,\ 0.316,\ 0.1, \ldots$: that is
# $10.2,\ 3.2,\ 1.02,\ 0.32, \ldots$ Three make more than one turn, none more than 32. With
# $\beta = 32$ no pair would be left alone. Section 9 comes back to this.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.longer_positions import yarn_frequencies

# %% [markdown]
# **What you should see.** How many times slower each pair gets, for $D = 64$, trained on 4,096,
# factor 16. PI slows all alike. NTK bends from 1 to 16 in equal ratios. YaRN keeps the fast pairs
# and slows those that make less than one turn. Below that, the turns in a text 16 times as long:
# pair 24 made 0.65 in training. With PI and YaRN it makes no more than that in the whole long text;
# with NTK it makes 1.22, and so meets angles that are new.

# %%
if ready(position_interpolation, ntk_scale, yarn_frequencies):
    plain = angular_frequencies(64)
    squeezed = position_interpolation(torch.tensor([16_000]), 4096, 16 * 4096)[0] / 16_000
    slowed = {
        "PI": plain * squeezed,
        "NTK": angular_frequencies(64, ntk_scale(64, 10_000.0, 16.0)),
        "YaRN": yarn_frequencies(64, 10_000.0, 16.0, 4096)[0],
    }
    rows = [
        {"pair": float(i), "slower": float(ratio), "way": way}
        for way, theta in slowed.items()
        for i, ratio in enumerate(plain / theta)
    ]
    print("turns in training, and how many times slower:")
    for i in (0, 8, 16, 24, 31):
        turns = 4096 * float(plain[i]) / (2 * math.pi)
        told = "  ".join(
            f"{way} {float(plain[i] / theta[i]):5.2f}" for way, theta in slowed.items()
        )
        print(f"pair {i:2d}: {turns:6.2f}   slower by  {told}")
    print("turns in training, and in 16 times the text:")
    for i in (23, 24, 28, 31):
        turns = 4096 * plain[i] / (2 * math.pi)
        told = "  ".join(
            f"{way} {float(16 * turns * theta[i] / plain[i]):4.2f}" for way, theta in slowed.items()
        )
        print(f"pair {i:2d}: {float(turns):6.2f}   then  {told}")
    display(
        charts.line(
            rows,
            "pair",
            "slower",
            "way",
            title="Three ways to slow RoPE down 16 times",
            description="How many times slower each of 32 pairs turns, logarithmic. PI is 16 for "
            "all. NTK rises evenly from 1 to 16. YaRN is 1 up to pair 10, then rises, and is 16 "
            "from pair 23 on.",
            x_title="pair i, from the fastest to the slowest",
            y_title="times slower (log scale)",
            log_y=2,
        )
    )

# %% [markdown]
# > **Takeaway.** PI keeps all angles of a long text within what was trained, and blurs the near.
# > YaRN does so for the pairs that had not turned full circle, and leaves the others. NTK does so
# > for the slowest pair only; it blurs less, and the pairs before the slowest meet new angles.

# %% [markdown]
# ## 9 · Experiment: train at 64, read 1,024
#
# Now let them compete. One small model, and only the way it knows positions differs. It is trained
# on texts of 64 tokens and tested on texts of 16 to 1,024.
#
# | name | position |
# |---|---|
# | none | only the causal mask |
# | sinusoidal | your `sinusoidal_encoding`, added to the embeddings |
# | learned | your `LearnedPositions`, 1,024 rows, of which training uses 64 |
# | T5 128 | your `relative_bias`, 32 buckets, max_distance 128 |
# | T5 32 | the same with max_distance 32, so that training reaches every bucket in use |
# | RoPE | your `apply_rope` |
# | ALiBi | your `alibi_bias` |
#
# You need not read the next two code cells. The model has one layer: attention with 2 heads of
# width 16 under a causal mask, then a small network; 250 steps of Adam, a common form of gradient
# descent (chapter 09). What a text of length $T$ is scored by is its **second half**, where each
# token has at least $T/2$ before it. The loss is in nats: minus the natural logarithm of the
# probability given to the right answer. Who guesses among 27 letters pays $\ln 27 = 3.30$.

# %%
C, H, TRAINED, LONGEST = 32, 2, 64, 1024
D = C // H
THETA = angular_frequencies(D)
LENGTHS = (16, 32, 64, 128, 256, 512, 1024)


def as_trained(length):
    """Positions, frequencies and factor of queries and keys: RoPE as it was trained."""
    return torch.arange(length), THETA, 1.0


class Reader(nn.Module):
    """One layer of attention and a small network, with one of the schemes of the table above."""

    def __init__(self, scheme, tokens):
        super().__init__()
        self.scheme = scheme
        self.embed = nn.Embedding(tokens, C)
        nn.init.normal_(self.embed.weight, std=0.5)
        self.project = nn.Linear(C, 3 * C, bias=False)  # queries, keys, values
        self.merge = nn.Linear(C, C, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(C) for _ in range(3))  # chapter 07 says what for
        self.think = nn.Sequential(nn.Linear(C, 2 * C), nn.GELU(), nn.Linear(2 * C, C))
        self.answer = nn.Linear(C, tokens)
        if scheme == "learned":
            self.rows = LearnedPositions(LONGEST, C)
            nn.init.normal_(self.rows.table, std=0.5)  # as large as the tokens, as in BERT
        if scheme.startswith("T5"):
            self.table = nn.Parameter(torch.zeros(32, H))

    def bias(self, length):
        """What is added to the scores (H, T, T), −inf for keys ahead; None for a plain mask."""
        where = torch.arange(length)
        hidden = torch.full((length, length), -math.inf).triu(1)
        if self.scheme == "ALiBi":
            return hidden + alibi_bias(alibi_slopes(H), where, where)
        if self.scheme.startswith("T5"):
            far = int(self.scheme.split()[-1])
            return hidden + relative_bias(self.table, where - where[:, None], False, far)
        return None

    def look(self, x, place=as_trained):
        """Queries, keys and values (B, H, T, D), turned where the scheme turns them."""
        q, k, v = self.project(self.norms[0](x)).unflatten(-1, (3, H, D)).permute(2, 0, 3, 1, 4)
        if self.scheme == "RoPE":
            where, theta, factor = place(x.shape[1])
            q, k = (factor * apply_rope(z, where, theta) for z in (q, k))
        return q, k, v

    def forward(self, tokens, place=as_trained):
        x = self.embed(tokens)  # (B, T, C)
        if self.scheme == "learned":
            x = self.rows(x)
        if self.scheme == "sinusoidal":
            x = x + sinusoidal_encoding(torch.arange(tokens.shape[1]), C)
        bias = self.bias(tokens.shape[1])
        found = attention(*self.look(x, place), attn_mask=bias, is_causal=bias is None)
        x = x + self.merge(found.transpose(1, 2).flatten(2))
        return self.answer(self.norms[2](x + self.think(self.norms[1](x))))


# %%
def as_tensors(batch):
    return tuple(torch.from_numpy(array) for array in batch)


def loss_of(scores, answers):
    """Mean loss in nats over all tokens that have an answer."""
    return functional.cross_entropy(scores.flatten(0, 1), answers.flatten())


def train(task, scheme, seed, tokens, steps):
    """A model trained on texts of 64 tokens; the same start and data for every scheme."""
    torch.manual_seed(100 * SEED + seed)
    rng = np.random.default_rng([SEED, seed])
    model = Reader(scheme, tokens)

    def loss(step):
        text, answers = as_tensors(task(rng, 8, TRAINED))
        return loss_of(model(text), answers)

    def rate(step):
        return 0.02 * min(1.0, (step + 1) / 20) * (1 - step / steps)

    fit(model.parameters(), loss, steps=steps, rate=rate, progress=False)
    return model


def exam(task, **more):
    """Texts of every length, 4,096 tokens for each."""
    rng = np.random.default_rng([SEED, 1_000])
    return {length: as_tensors(task(rng, 4096 // length, length, **more)) for length in LENGTHS}


@torch.no_grad()
def examine(model, texts, place=as_trained):
    """Loss and share of right answers over the second half of the texts of each length."""
    for length, (text, answers) in texts.items():
        scores, asked = model(text, place)[:, length // 2 :], answers[:, length // 2 :]
        right = (scores.argmax(dim=-1) == asked).float().mean()
        yield {"length": length, "loss": float(loss_of(scores, asked)), "right": float(right)}


models = {}  # (task, scheme, seed): trained model


def compare(task, tokens, steps, schemes, **more):
    """Train every scheme with three seeds and test it at every length; rows for a chart."""
    texts = exam(task, **more)

    def run(seed, model):
        trained = train(task, model, seed, tokens, steps)
        models[task.__name__, model, seed] = trained
        return examine(trained, texts)

    return over_seeds(run, range(3), name="training", model=schemes)


def print_means(rows, measure):
    """The mean over seeds at every length, a line for each model."""
    print("length          " + "".join(f"{length:8d}" for length in LENGTHS))
    for name in dict.fromkeys(row["model"] for row in rows):
        means = [
            np.mean([r[measure] for r in rows if r["model"] == name and r["length"] == length])
            for length in LENGTHS
        ]
        print(f"{name:16s}" + "".join(f"{mean:8.2f}" for mean in means))


# %% [markdown]
# ### A real text
#
# The text is Python's own documentation, in lower case, every letter a token; asked is the next
# letter. Mostly the last few letters decide: a model that knows *where* they stand can read
# syllables, one that knows only *which* letters were there cannot.
#
# **Predict first:** which of the seven will be best at 64? And at 1,024?
#
# The next cell trains 21 models. It takes 10 to 40 seconds.

# %%
SCHEMES = ("none", "sinusoidal", "learned", "T5 128", "T5 32", "RoPE", "ALiBi")
EVERYTHING = (
    sinusoidal_encoding,
    LearnedPositions,
    relative_bias,
    apply_rope,
    alibi_slopes,
    alibi_bias,
)

letters = []
if ready(*EVERYTHING):
    letters = compare(reading.letters, len(reading.ALPHABET), 250, SCHEMES, held_out=True)
    print_means(letters, "loss")
    display(
        charts.bands(
            letters,
            "length",
            "loss",
            "model",
            title="Trained on 64 letters: who still reads 1,024?",
            description="Loss in nats per letter over the second half of texts of 16 to 1,024 "
            "letters, mean and range of 3 seeds, trained at 64. Up to 64 the T5 biases are best, "
            "then RoPE, then sinusoids; ALiBi is a little better than none, the learned table no "
            "better. Beyond 128 RoPE rises above all others; sinusoids and T5 128 rise "
            "too, T5 32 a little; ALiBi, learned and none stay flat.",
            x_title="length of the text (letters, log scale; trained at 64)",
            y_title="loss (nats per letter)",
            log_x=2,
            height=340,
        )
    )

# %% [markdown]
# **What it shows.** Mean of three seeds. Compare models at one length: each length has texts of its
# own, and those of 128 happen to be easier. From 64 to 128 the loss falls by 0.05 for none and by
# 0.07 for ALiBi, which gain nothing from length.
#
# | loss at | 64 | 1,024 | |
# |---|---|---|---|
# | T5 32 | 1.97 | 2.21 | best at 1,024, and at 64 together with the next |
# | T5 128 | 1.97 | 2.42 | the same code, another constant |
# | RoPE | 2.10 | 2.72 | third at 64, worst at 1,024 |
# | sinusoidal | 2.22 | 2.59 | codes it never saw |
# | ALiBi | 2.28 | 2.25 | does not notice |
# | none | 2.33 | 2.30 | does not notice either |
# | learned | 2.35 | 2.33 | had learned nothing in 250 steps |
#
# - Three kinds of failure. *New codes*: sinusoids and RoPE at angles they never had. *New buckets*:
#   T5 with max_distance 128, whose buckets 27 to 31 were never trained; with 32 every bucket in use
#   was, and it reads on. *Dilution*: even that one gets worse, slowly, since more keys share the
#   weight.
# - ALiBi keeps what it has, and with two heads it has little: slopes of 1/16 and 1/256 are flat for
#   a text in which the last three letters count.
# - A model **without positions is better at 1,024 than RoPE**, though far worse at 64.
#
# **What it does not show.** How large models behave, whose slow pairs are many and whose texts are
# long. Nor that a learned table is useless: it needs more steps, since each row learns from its own
# place only. In the next experiment it succeeds.
#
# ### "RoPE extrapolates because it is relative"
#
# You will read that. It sounds right: if a score depends on $m - n$ alone, then a text may begin
# anywhere, and why should it matter how long it is? Test it where nothing else can help: among
# random tokens, repeat the one that stood **three steps back**. The offset is always 3, at 64 as at
# 1,024. A score that knows the offset is all that is needed.
#
# The next cell trains 15 models. It takes 5 to 25 seconds.

# %%
back = []
if ready(*EVERYTHING):
    schemes = ("sinusoidal", "learned", "T5 32", "RoPE", "ALiBi")
    back = compare(reading.steps_back, reading.TOKENS, 150, schemes)
    print_means(back, "right")
    display(
        charts.bands(
            back,
            "length",
            "right",
            "model",
            title="Three steps back: solved at 64, lost at 1,024",
            description="Share of right answers over the second half of texts of 16 to 1,024 "
            "tokens, mean and range of 3 seeds. Up to 64, sinusoids, table, T5 and RoPE give every "
            "answer; ALiBi a quarter of them. At 128 the table is at chance, one sixteenth. "
            "Sinusoids and RoPE fall to chance by 1,024. T5 falls slowest, to about two fifths. "
            "ALiBi stays at a quarter.",
            x_title="length of the text (tokens, log scale; trained at 64)",
            y_title="share of right answers (chance: 0.06)",
            log_x=2,
            height=340,
        )
    )

# %% [markdown]
# **What it shows.** RoPE answers everything at 64. At 128 it is right about 9 times in 10, at 256
# between 1 in 12 and 1 in 2, by seed; at 1,024 it is at chance (0.06 to 0.09). Yet its scores know
# the offset and nothing else: you proved that to seven digits. The learned table falls to chance
# with the first untrained row. ALiBi never solved the task: nothing in it can prefer the third key
# to the first. And T5 has a bucket of its own for offset 3; what becomes of it you will see.
#
# > **Myth refuted.** "RoPE extrapolates because it is relative." It is relative at any distance,
# > and it does not extrapolate. To know the offset is one thing; to have learned what to do with an
# > offset never seen is another.
#
# **Why does RoPE fail?** Look at what it learned. Take the trained model, 4 new texts of 1,024
# tokens, and average the scores of all queries with the keys at each offset.

# %%
if ready(*EVERYTHING) and back:
    text, _ = as_tensors(reading.steps_back(np.random.default_rng([SEED, 2_000]), 4, LONGEST))

    def score_by_offset(seed: int) -> Tensor:
        """Mean score of queries and keys at each offset (LONGEST,), from one trained model."""
        model = models["steps_back", "RoPE", seed]
        with torch.no_grad():
            q, k, _ = model.look(model.embed(text))
        table = (q @ k.mT / math.sqrt(D)).mean(dim=(0, 1))  # (T, S)
        return torch.stack([table.diagonal(-offset).mean() for offset in range(LONGEST)])

    curves = [score_by_offset(seed) for seed in range(3)]
    for seed, curve in enumerate(curves):
        rival = max(curve[:3].max(), curve[4:64].max())
        best = {o: round(float(curve[o]), 1) for o in curve.argsort(descending=True)[:3].tolist()}
        print(
            f"seed {seed}: offset 3 scores {curve[3]:.1f}, the best other one below 64 {rival:.1f};"
            f" best of all {best}"
        )
    curve = curves[0]
    peaks = curve.unflatten(0, (-1, 8)).amax(dim=-1)  # (128,)
    display(
        charts.line(
            [
                {"offset": float(o), "score": float(peaks[o // 8]), "offsets": name}
                for name, some in (
                    ("seen in training", range(0, 64, 8)),
                    ("never seen", range(64, LONGEST, 8)),
                )
                for o in some
            ]
            + [
                {"offset": float(o), "score": float(curve[3]), "offsets": "score at offset 3"}
                for o in (0, LONGEST - 8)
            ],
            "offset",
            "score",
            "offsets",
            title="Relative, and yet wrong: the score of offsets never seen",
            description="Highest mean score among 8 neighbouring offsets, 0 to 1,023, of the RoPE "
            "model of seed 0. Below 64 the peak at offset 3 is the highest by 9. Beyond, several "
            "peaks reach above it; the highest is at offset 380.",
            x_title="offset m − n (tokens)",
            y_title="highest mean score of 8 offsets",
        )
    )

# %% [markdown]
# In training, the score at offset 3 beats every other by 8.7 (seed 0; by 8.8 and 10.9 with the
# others). That is a factor of $e^{8.7} \approx 6{,}000$ in weight, plenty against 63 rivals. Nobody
# ever said anything about offset 380. There the score is *higher* than at 3, and with seeds 1 and 2
# it is highest of all at 757. Why there? Because $380 - 3 = 377$ and $757 - 3 = 2 \cdot 377$, and
# you met 377 in section 2: it is 60.00 turns of the fastest pair. It is 18.97 turns of the second
# ($\theta = 0.316$) and 6.00 of the third ($\theta = 0.1$). All three hands stand about where they
# stood at offset 3. Only the slow hands could tell, and in 64 steps they never moved far enough to
# learn from.
#
# **And T5?** Its bias knows nothing of offsets that were not trained: all from 31 on share a
# bucket. Here is the weight of the key three steps back, for queries further and further on.

# %%
if ready(*EVERYTHING) and back:
    text, _ = as_tensors(reading.steps_back(np.random.default_rng([SEED, 2_000]), 4, LONGEST))
    model = models["steps_back", "T5 32", 0]
    with torch.no_grad():
        q, k, _ = model.look(model.embed(text))
        weights = (q @ k.mT / math.sqrt(D) + model.bias(LONGEST)).softmax(dim=-1)
        margin = model.table[3] - model.table[31]
    for t in (31, 63, 255, 1023):
        print(
            f"query at {t:4d}: weight of the key at {t - 3:4d} {weights[:, :, t, t - 3].mean():.3f}"
        )
    print("bias of offset 3 minus that of the far bucket, for each head:", margin)

# %% [markdown]
# The bias prefers offset 3 to a far key by 2.7: a factor of 15. Against 63 keys that leaves it a
# sixth of the weight, enough to win; against 1,023 a sixtieth. Nothing new has happened, there are
# only more of the far. This is **dilution**, and no code of position is free of it.
#
# ### The control: a task without places
#
# In a **bag** each token is drawn by shares that belong to its text; order says nothing, and the
# best one can do is count. No scheme should matter here, within 64 tokens. And beyond?
#
# The next cell trains 12 models. It takes 5 to 20 seconds.

# %%
if ready(*EVERYTHING):
    bags = compare(reading.bags, reading.TOKENS, 100, ("none", "sinusoidal", "RoPE", "ALiBi"))
    print_means(bags, "loss")

# %% [markdown]
# Compare within a column; the texts differ between columns. Up to 64 no scheme is better than none,
# as it must be. The sinusoids are worse, by 0.10 at 64: they are added to the tokens, and the model
# has to learn to ignore them. Beyond 64 the gap grows to 0.3, though order says nothing here. So
# the damage is not lost knowledge of places; it is **unknown codes disturbing what would work
# without them**. RoPE and ALiBi lose 0.01 at 1,024.
#
# ### Stretching RoPE
#
# Now the three repairs of section 8, on the RoPE models of the first experiment: each text is read
# with a factor of its length over 64, first as it is, and then after 30 more steps of training on
# texts of 1,024 letters, one in each step. The control is RoPE as it was, trained further in the
# same way.
#
# One number must be chosen. YaRN's $\beta = 32$ was found for models trained on thousands of
# tokens. Here the fastest pair makes $64/2\pi = 10$ turns in training, so no pair would be kept
# whole: the shares of the first three would be 0.30, 0.07 and 0.001. We take $\beta = 8$, with
# shares of 1, 0.32 and 0.003.
#
# It takes 5 to 20 seconds.


# %%
def squeeze_positions(length):
    return position_interpolation(torch.arange(length), TRAINED, length), THETA, 1.0


def other_base(length):
    base = ntk_scale(D, 10_000.0, max(1.0, length / TRAINED))
    return torch.arange(length), angular_frequencies(D, base), 1.0


def by_parts(length):
    factor = max(1.0, length / TRAINED)
    return torch.arange(length), *yarn_frequencies(D, 10_000.0, factor, TRAINED, beta=8.0)


WAYS = {"RoPE as it was": as_trained, "PI": squeeze_positions, "NTK": other_base, "YaRN": by_parts}


def stretch(seed, model):
    """Loss of a RoPE model read in one of the ways, before and after 30 steps on long texts."""
    place, rng = WAYS[model], np.random.default_rng([SEED, seed, 1])
    reader = Reader("RoPE", len(reading.ALPHABET))
    reader.load_state_dict(models["letters", "RoPE", seed].state_dict())
    texts = exam(reading.letters, held_out=True)
    yield from ({"after": "", **row} for row in examine(reader, texts, place))

    def loss(step):
        text, answers = as_tensors(reading.letters(rng, 1, LONGEST))
        return loss_of(reader(text, place), answers)

    def rate(step):
        return 0.005 * (1 - step / 30)

    fit(reader.parameters(), loss, steps=30, rate=rate, progress=False)
    yield from ({"after": "30 steps", **row} for row in examine(reader, texts, place))


stretched = []
if ready(*EVERYTHING, position_interpolation, ntk_scale, yarn_frequencies) and letters:
    stretched = over_seeds(stretch, range(3), name="stretching", model=tuple(WAYS))
    print("as it is")
    print_means([row for row in stretched if not row["after"]], "loss")
    print("after 30 steps on texts of 1,024 letters")
    print_means([row for row in stretched if row["after"]], "loss")
    display(
        charts.bands(
            [row for row in stretched if not row["after"]]
            + [row for row in letters if row["model"] == "none"],
            "length",
            "loss",
            "model",
            title="RoPE stretched, without any further training",
            description="Loss in nats per letter against the length of the text, mean and range of "
            "3 seeds, trained at 64. RoPE as it was rises steeply beyond 128, PI nearly as much. "
            "NTK stays low up to 256 and then rises. YaRN rises least and is best from 512 on. A "
            "model without positions stays flat, below all of them at 1,024.",
            x_title="length of the text (letters, log scale; trained at 64)",
            y_title="loss (nats per letter)",
            log_x=2,
            height=340,
        )
    )

# %% [markdown]
# **What it shows.** Without further training all three help at 1,024, and none reaches the model
# without positions (2.30). Up to 256 NTK is best (2.18): it leaves the fast pairs alone, which tell
# near letters apart. At 1,024 YaRN is (2.45, against 2.72 as it was). PI pays at once: 2.21 at 128,
# where RoPE as it was still has 2.10. It blurs the near.
#
# After 30 steps on long texts YaRN has 2.16, NTK 2.22, RoPE as it was 2.23 and PI 2.28. All are now
# better than none (2.30, without these 30 steps). Most of the gain is the *training* at 1,024,
# which also plain RoPE can use; YaRN gets more out of it. All pay a little on short texts: 0.03 to
# 0.08 at 64.
#
# **What it does not show.** That PI is bad: its authors train for about 1,000 steps, and factors of
# 16 are large. That $\beta = 8$ is best: we chose it from the number of turns, and tried one value.
# Nor what your model needs: here near letters count most; elsewhere it may be far ones.
#
# > **Takeaway.** Train on long texts if you can; even 30 steps do more than any formula. The
# > formulas decide how much those steps yield.

# %% [markdown]
# ## 10 · Where this breaks
#
# **Mixed frequencies.** A model that writes keeps its old keys, already turned. If the base or the
# factor changes as the text grows ("dynamic NTK"), old keys are turned with old frequencies and new
# queries with new ones. Then a score depends on *where* the two stand, and not only on how far
# apart:

# %%
if ready(apply_rope, ntk_scale):
    torch.manual_seed(SEED)
    q, k = functional.normalize(torch.randn(2, 1, 64), dim=-1)
    old, new = angular_frequencies(64), angular_frequencies(64, ntk_scale(64, 10_000.0, 2.0))
    for start in (0, 100, 1000):
        query = apply_rope(q, torch.tensor([start + 5]), new)
        same, mixed = (apply_rope(k, torch.tensor([start]), theta) for theta in (new, old))
        print(
            f"key at {start:5d}, offset 5: score {float((query * same).sum()):.4f}"
            f"   with a key turned before the change {float((query * mixed).sum()):.4f}"
        )

# %% [markdown]
# The cure is to keep the keys as they were before they were turned, and turn them anew at each
# step.
#
# **The wrong pairing.** Weights trained with neighbours as pairs, run with halves, give no error
# and no NaN; the model only gets worse. When you load a model's weights into other code, compare
# scores.
#
# **Dilution.** Even with perfect positions a longer text has more keys, and each takes a little of
# the weight, as you saw in T5. YaRN's $0.1 \ln(\text{factor}) + 1$ is a remedy for that, and it is
# small.
#
# **Fast kernels.** RoPE changes queries and keys *before* attention, so any attention code works
# with it. A bias must be added inside: fast attention programs need to know ALiBi, and T5's table
# needs a gradient there as well.
#
# **Position is more than one number.** A pixel has two coordinates, a node of a graph has none, an
# event has a time. Chapter 12 comes back to that.

# %% [markdown]
# ## 11 · Recap
#
# | scheme | where it acts | proof or property | beyond the trained length |
# |---|---|---|---|
# | sinusoidal | added to embeddings | a rotation $M_\delta$ moves codes by $\delta$ | new codes |
# | learned | added to embeddings | none | the table ends |
# | T5 bias | added to scores | buckets of distances | reads on if they were trained; diluted |
# | RoPE | turns queries and keys | $q_m \cdot k_n$ knows $m - n$ only | new angles |
# | ALiBi | added to scores | weight times $e^{-\text{slope}_h}$ a token | works, for the near |
#
# - Attention without a mask is blind to order; a causal mask leaks a little of it.
# - Angles in float64, rounding last. In float32 they lose a digit with every power of ten.
# - Relative is not enough: a score at an offset that was never trained is whatever comes out.
#
# **Next.** Chapter 07 puts attention into a block: residuals, normalisation, and the small network
# beside it.
#
# ## Sources
#
# - Sines, and the linear function of the shift: Vaswani et al. 2017, *Attention Is All You Need*,
#   §3.5.
# - Learned positions: Gehring et al. 2017, *Convolutional Sequence to Sequence Learning*, §3.1;
#   Devlin et al. 2019, *BERT*, §3; Radford et al. 2019 (GPT-2).
# - Relative positions: Shaw et al. 2018, *Self-Attention with Relative Position Representations*,
#   §3; Raffel et al. 2020, *Exploring the Limits of Transfer Learning with a Unified Text-to-Text
#   Transformer*, §2.1.
# - RoPE: Su et al. 2021, *RoFormer: Enhanced Transformer with Rotary Position Embedding*, §3.
# - ALiBi: Press, Smith and Lewis 2022, *Train Short, Test Long: Attention with Linear Biases
#   Enables Input Length Extrapolation*, §3.
# - Position interpolation: Chen et al. 2023, *Extending Context Window of Large Language Models
#   via Positional Interpolation*, §2.3.
# - NTK-aware scaling: bloc97 2023 (a post on Reddit, r/LocalLLaMA); Peng et al. 2023, definition 1.
# - YaRN: Peng et al. 2023, *YaRN: Efficient Context Window Extension of Large Language Models*,
#   definitions 2 and 3.
# - Models without any code: Haviv et al. 2022, *Transformer Language Models without Positional
#   Encodings Still Learn Positional Information*; Kazemnejad et al. 2023, *The Impact of Positional
#   Encoding on Length Generalization in Transformers*.
