# %% [markdown]
# # 15 · Linear attention
#
# **The question.** What if softmax went away?

# %%
import math

import numpy as np
from attend import charts, widgets
from attend.data import equal_bytes
from attend_grader import check, hint, ready, solution
from attend_solutions.attention import scaled_dot_product_attention
from attend_solutions.flash import expect_shapes, tiles
from attend_solutions.linear_attention import elu_plus_one, expect_pairs, gaussian_projection
from attend_solutions.types import Array
from IPython.display import display

SEED = 15  # of what is drawn below, but for splits of digits and races: they number their own
np.set_printoptions(precision=3, suppress=True)
widgets.matrix_memory()

# %% [markdown]
# One matrix of 16 × 25 numbers holds all the letters, one on top of the other, and each key reads
# its own letter back, a little blurred. Push the slider to the right. The matrix stays as large as
# it was, but the letters blur more and more: at 24 the error is larger than the letters.
# Now choose *orthogonal* keys. Up to 16 pairs nothing is lost.
#
# That matrix is what is left of attention without the softmax. Instead of keys and
# values that pile up with every token, there is a memory of fixed size, so 65,536 tokens take 16
# times as many multiplications as 4,096, and not 256 times. In this chapter you write this memory
# in all its forms, find out how much it can hold, teach it to overwrite, and race it against
# softmax attention that gets as many bytes.
#
# It takes about two and a half hours with the experiments; you need chapter 03 and a little NumPy.
# Below each exercise `check(...)` says what is right and what is not, `hint(...)` gives up to three
# hints, and `solution(...)` shows the course's answer. With float32, results to 10⁻⁵ are enough.
#
# | letter | is | | letter | is |
# |---|---|---|---|---|
# | $T$, $S$ | number of queries; of keys and values | | $n$ | number of pairs written |
# | $D$, $D_v$ | width of a key; of a value | | $\mathbf{S}$ | the memory, $(D, D_v)$ |
#
# An italic $S$ counts keys; a bold $\mathbf{S}$ is the memory, which the code calls `state`.

# %% [markdown]
# ## 1 · Another order of the products

# %% [markdown]
# <!-- exercise: linear_attention -->
#
# **Why.** Attention is a mean of values with weights $a_{ts} = e^{q_t \cdot k_s / \sqrt D}$,
# divided by their sum. The exponential has two jobs: it makes weights positive, and it makes them
# sharp. Do the first job differently: map queries and keys to positive numbers with a function
# $\varphi$, and let the weight be the plain product $\varphi(q_t) \cdot \varphi(k_s)$.
# Katharopoulos et al. (2020) take $\varphi(x) = \operatorname{elu}(x) + 1$, which is $x + 1$ above
# 0 and $e^x$ below.
#
# Below, `q` and `k` have been through $\varphi$ already. Then the product of three matrices may be
# bracketed as you like:
#
# $$\underbrace{(Q K^\top)}_{T \times S}\, V = Q\, \underbrace{(K^\top V)}_{D \times D_v}.$$
#
# The right side never makes a number for each query *and* key. The sum of a query's weights comes
# the same way, $\sum_s q_t \cdot k_s = q_t \cdot \sum_s k_s$. So
#
# $$o_t = \frac{q_t\, (K^\top V)}{q_t \cdot \sum_s k_s}.$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $Q$, $K$ | `q`, `k`: features, positive | $(\ldots, T, D)$, $(\ldots, S, D)$ |
# | $V$ | `v` | $(\ldots, S, D_v)$ |
# | $o$ | returned | $(\ldots, T, D_v)$ |
#
# Features may be as small as $10^{-15}$, so add nothing to the divisor.
#
# **By hand.** One query $(1, 1)$, keys $(1, 0)$ and $(1, 2)$, values 8 and 4. $K^\top V = (12, 8)$,
# so the sum is $20$. The keys sum to $(2, 2)$, so the total weight is 4, and the answer $5$. The
# other way round: weights 1 and 3, and $(1 \cdot 8 + 3 \cdot 4)/4 = 5$.
#
# *NumPy you need.* `np.swapaxes(k, -1, -2)` transposes the last two axes and leaves those in front.
# The line `expect_shapes(q, k, v)` stands there already and raises the `ValueError`s that the
# contract asks for. Write below such lines, here and later. (`expect_pairs` in later exercises also
# wants as many keys as queries.)
#
# <details><summary>Predict first: which order takes fewer multiplications, if T = S = 32 and
# D = 64?</summary>
#
# The old one. $(QK^\top)V$ takes $2 \cdot 32 \cdot 32 \cdot 64$ multiplications, $Q(K^\top V)$
# takes $2 \cdot 32 \cdot 64 \cdot 64$. With $T = S$ and $D = D_v$ the two are equal at $T = D$.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.linear_attention import linear_attention

# %% [markdown]
# **What you should see.** The same numbers as by the $T \times S$ weights, then a count of
# multiplications. "Linear" says how cost grows, not that it is small.

# %%
if ready(linear_attention):
    rng = np.random.default_rng(SEED)
    q, k = elu_plus_one(rng.standard_normal((2, 100, 8)))
    v = rng.standard_normal((100, 4))
    weights = q @ k.T / (q @ k.T).sum(axis=1, keepdims=True)
    print(f"largest difference {np.abs(linear_attention(q, k, v) - weights @ v).max():.0e}")
    for length in (32, 64, 1024, 65536):
        old, new = 2 * length**2 * 64, 2 * length * 64**2
        print(f"{length:6,} tokens of width 64: {old:15,} old order, {new:13,} new order")

# %% [markdown]
# > **Takeaway.** Without the exponential, keys and values can be put together before any query
# > comes. With $T = S$ and $D = D_v$ that takes fewer multiplications where $T > D$ (without a
# > mask).

# %% [markdown]
# ## 2 · A memory, written and read

# %% [markdown]
# <!-- exercise: recurrent_form -->
#
# **Why.** A model that writes text may look at the past only. Then $K^\top V$ is a sum that grows
# by one term with each token, and that is all there is to keep:
#
# $$\begin{gathered}
# \mathbf{S}_t = \mathbf{S}_{t-1} + k_t v_t^\top, \\
# o_t = \mathbf{S}_t^\top q_t = \sum_{s \le t} (q_t \cdot k_s)\, v_s .
# \end{gathered}$$
#
# So this kind of attention is a recurrent network, whose state is a matrix. Each token first
# writes, then reads, so it sees itself. We leave the division out for now (section 4 has it); the
# course's kernel, `attend_kernels.linear_attention`, leaves it out too.
#
# A long text can be read in parts: the function returns the last memory, and takes one to go on.
#
# | symbol | argument | shape |
# |---|---|---|
# | $q$, $k$ | `q`, `k`, any numbers | $(\ldots, T, D)$ |
# | $v$ | `v` | $(\ldots, T, D_v)$ |
# | $\mathbf{S}$ | `state`, and returned second; `None` is all zeros | $(\ldots, D, D_v)$ |
# | $o$ | returned first | $(\ldots, T, D_v)$ |
#
# **By hand.** $D = D_v = 1$, $k = (2, 3)$, $v = (1, 10)$, $q = (1, \tfrac12)$. The memory is $2$,
# then $2 + 30 = 32$. The outputs are $1 \cdot 2 = 2$ and $\tfrac12 \cdot 32 = 16$.
#
# *NumPy you need.* `a[..., :, None] * b[..., None, :]` is the outer product $ab^\top$, whatever
# axes stand in front. `(a[..., None, :] @ m)[..., 0, :]` is the vector $a^\top M$: $a$ gets an
# axis, which makes it a matrix of one row, and loses it afterwards. `np.stack(rows, axis=-2)` puts
# a list of rows together.

# %% tags=["exercise"]
from attend_solutions.linear_attention import recurrent_form

# %% [markdown]
# **What you should see.** The picture of the first screen, written by your function.

# %%
if ready(recurrent_form):
    display(widgets.matrix_memory(recurrent_form))

# %% [markdown]
# ## 3 · Three forms, one answer

# %% [markdown]
# <!-- exercise: chunked_form -->
#
# **Why.** As written, the recurrent form takes $T$ steps one after the other, each too small to
# keep a GPU busy. All outputs can also be computed in one step. This **parallel form** keeps the
# lower triangle of all products:
#
# $$O = \operatorname{tril}(Q K^\top)\, V .$$
#
# But that is the $T \times T$ matrix again. For the **chunked form**, cut the text into chunks. A
# token's past has two parts: earlier chunks, which are in the memory, and its own chunk up to
# itself, for which a small triangle is enough. For a chunk with rows $Q_c$, $K_c$, $V_c$:
#
# $$\begin{gathered}
# O_c = Q_c\, \mathbf{S} + \operatorname{tril}(Q_c K_c^\top)\, V_c, \\
# \mathbf{S} \leftarrow \mathbf{S} + K_c^\top V_c .
# \end{gathered}$$
#
# With a chunk of 1 this is the recurrent form, and with a chunk of $T$ the parallel one. RetNet and
# gated linear attention (see the sources) can be trained in this form, with decay, and the course's
# kernel, `attend_kernels.linear_attention`, is your function on a GPU.
#
# | argument | meaning | | result | shape |
# |---|---|---|---|---|
# | `q`, `k`, `v`, `state` | as before | | outputs | $(\ldots, T, D_v)$ |
# | `chunk` | length, up to 1,000; the last may be shorter | | last memory | $(\ldots, D, D_v)$ |
#
# **By hand.** The numbers of section 2 in chunks of 1. First chunk: the memory is 0, so
# $O = 0 + 1 \cdot 2 \cdot 1 = 2$, and the memory becomes 2. Second:
# $O = \tfrac12 \cdot 2 + \tfrac12 \cdot 3 \cdot 10 = 16$, and the memory becomes 32.
#
# `parts` holds the chunks as slices: `tiles(5, 2)` is `0:2`, `2:4`, `4:5`. `np.tril` keeps the
# lower triangle of the last two axes, diagonal included.
#
# <details><summary>Predict first: which chunk takes the fewest multiplications? Which takes the
# fewest steps?</summary>
#
# A chunk of $C$ costs a token $C(D + D_v)$ multiplications for the triangle and $2 D D_v$ for the
# memory, so the smallest chunk is cheapest. The largest takes the fewest steps. In between, near
# $C = D$, the triangle costs as much as the memory, and all of it is matrix products.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.linear_attention import chunked_form

# %% [markdown]
# **What you should see.** The same outputs for any chunk, up to rounding, and what each chunk
# costs.

# %%
if ready(recurrent_form, chunked_form):
    q, k, v = np.random.default_rng(SEED).standard_normal((3, 1024, 64))
    slow, _ = recurrent_form(q, k, v)
    for chunk in (1, 16, 64, 256, 1024):
        apart = np.abs(chunked_form(q, k, v, chunk)[0] - slow).max() / np.abs(slow).max()
        cost = 1024 * (chunk * 128 + 2 * 64 * 64)
        steps = math.ceil(1024 / chunk)
        print(f"chunk {chunk:4}: {steps:4} steps, {cost:11,} multiplications, apart by {apart:.0e}")

# %% [markdown]
# ## 4 · A mean that knows the future

# %% [markdown]
# <!-- exercise: causal_average -->
#
# **Why.** To get means again, divide by the total weight. That is tried in the function below. It
# runs, and the last token of every text comes out right. But a model that uses it is trained with a
# divisor that contains keys of later tokens. When it writes a text, those do not exist yet.
#
# | argument | shape | | result | shape |
# |---|---|---|---|---|
# | `q`, `k`: positive features, maybe tiny | $(\ldots, T, D)$ | | means | $(\ldots, T, D_v)$ |
# | `v` | $(\ldots, T, D_v)$ | | | |
#
# *NumPy you may need.* `np.cumsum(x, axis=-2)` gives running sums along the second-to-last axis:
# row $t$ is the sum of rows 0 to $t$. Shapes that do not fit are refused by `chunked_form`.


# %%
def suspect_average(q: Array, k: Array, v: Array) -> Array:
    weighted, _ = chunked_form(q, k, v)
    total = (q * k.sum(axis=-2, keepdims=True)).sum(axis=-1, keepdims=True)
    return weighted / total


q, k = elu_plus_one(np.random.default_rng(SEED).standard_normal((2, 4, 3)))
if ready(chunked_form):
    print("values of 1, whose mean is 1:", suspect_average(q, k, np.ones((4, 1)))[:, 0])
    k[3] += 5  # the last token changes
    print("after a change of the last key:", suspect_average(q, k, np.ones((4, 1)))[:, 0])

# %% [markdown]
# A mean of ones must be 1, and nothing may change before the last token. Both fail. Find the line,
# and write the function as it should be.

# %% tags=["exercise"]
from attend_solutions.linear_attention import causal_average

# %%
if ready(chunked_form, causal_average):
    q, k = elu_plus_one(np.random.default_rng(SEED).standard_normal((2, 4, 3)))
    print("values of 1, whose mean is 1:", causal_average(q, k, np.ones((4, 1)))[:, 0])

# %% [markdown]
# > **Takeaway.** A causal mask has to reach the divisor too. A mean of ones finds a divisor that
# > does not fit; changing a later token finds what leaks.

# %% [markdown]
# ## 5 · How much does it hold?

# %% [markdown]
# <!-- exercise: memory_width -->
#
# **Why.** Write $n$ pairs with keys of norm 1, and read at one of them:
#
# $$\mathbf{S}^\top k_1 = v_1 + \sum_{i=2}^{n} (k_1 \cdot k_i)\, v_i .$$
#
# The first term is what you want, the rest is **crosstalk**. If all keys are orthogonal, there is
# none; but only $D$ directions can be orthogonal. Let keys be random directions instead. Then each
# other key leaks $1/D$ of its value (in mean square), and $n - 1$ keys leak $(n-1)/D$. Why? The $D$
# squares of a key's numbers add up to 1, and none of them is special, so each is $1/D$ on average.
# Turn the space until $k_1 = (1, 0, \ldots)$: then $k_1 \cdot k_i$ is one number of $k_i$, with
# mean square $1/D$. As keys are independent, products of different terms cancel on average, and the
# squares of the $n - 1$ terms add up:
#
# $$\text{error} = \frac{\text{mean of } \|\text{answer} - v\|^2}{\text{mean of } \|v\|^2}
# = \frac{n - 1}{D}.$$
#
# **The design.** You are given $n$ and the error that is allowed. Choose the least $D$ that will
# do. The check fills memories of your width and measures: the error must be met, and a memory with
# a third less width must miss it. Then it asks for the least width exactly, for errors that are
# exact in binary, so that rounding plays no part.
#
# | argument | meaning | | result | |
# |---|---|---|---|---|
# | `pairs` | $n$, 1 or more | | $D$ | an `int`, 1 or more |
# | `error` | the most that is allowed, above 0 | | | |
#
# **By hand.** 9 pairs and an error of ½: 8 others, so $D = 16$. For 6 pairs and ¾:
# $5 / 0.75 = 6.67$, so 7.

# %% tags=["exercise"]
from attend_solutions.linear_attention import memory_width

# %% [markdown]
# **What you should see.** Your width, the error measured with it (five memories of random keys and
# values of width 64: the smallest, the mean, the largest), and what the memory takes, in numbers,
# beside a plain list of all pairs. The allowed error is an average: single memories lie on both
# sides.

# %%
if ready(memory_width, recurrent_form):
    print(f"{'pairs':>5}  error     D  {'five runs':16}  {'numbers':>7}  {'a list':>7}")
    for pairs, error in ((32, 2.0), (32, 0.5), (32, 0.1), (256, 0.5)):
        d, found = memory_width(pairs, error), []
        for seed in range(5):
            rng = np.random.default_rng([SEED, seed])
            k = equal_bytes.unit(rng.standard_normal((pairs, d)))
            v = rng.standard_normal((pairs, 64))
            _, memory = recurrent_form(k, k, v)
            found.append(((k @ memory - v) ** 2).mean() / (v**2).mean())
        spread = f"{min(found):.2f} {np.mean(found):.2f} {max(found):.2f}"
        print(f"{pairs:5}  {error:5}  {d:4}  {spread:16}  {64 * d:7,}  {128 * pairs:7,}")

# %% [markdown]
# For an error of ½ this memory is about as large as the list (last column; keys and values of width
# 64), which makes no error; for 0.1, with keys 310 wide, it is almost five times as large as that
# list. (To answer 0 makes an error of 1. Times 1 − error, half the width will do at ½.) So a summed
# memory of random keys costs more than the list if you want values back nearly exact. It saves
# where keys can be kept apart.

# %% [markdown]
# ## 6 · Correct instead of add

# %% [markdown]
# <!-- exercise: delta_rule_update -->
#
# **Why.** A sum never forgets: if a key comes again with a new value, the memory answers with old
# and new on top of each other. So look first at what the memory says at $k$, and write only what is
# wrong:
#
# $$\mathbf{S}' = \mathbf{S} + \beta\, k\, (v - \mathbf{S}^\top k)^\top .$$
#
# This is the **delta rule** (Widrow and Hoff 1960; for attention, Schlag et al. 2021). It is one
# step of gradient descent with the rate $\beta$ on the loss $\tfrac12 \|\mathbf{S}^\top k - v\|^2$,
# whose gradient is $k\, (\mathbf{S}^\top k - v)^\top$: the memory *learns* each pair while it
# reads. With $\beta = 1$ and $\|k\| = 1$ it answers $v$ at $k$ right afterwards.
#
# | symbol | argument | shape |
# |---|---|---|
# | $\mathbf{S}$ | `state` | $(\ldots, D, D_v)$ |
# | $k$, $v$ | `k`, `v`: one pair | $(\ldots, D)$, $(\ldots, D_v)$ |
# | $\beta$ | `beta`, one number from 0 to 1 | |
# | $\mathbf{S}'$ | returned | $(\ldots, D, D_v)$ |
#
# **By hand.** $\mathbf{S} = (5, 7)^\top$, $k = (1, 0)$, $v = 9$. The memory says 5, which is 4 too
# little. With $\beta = \tfrac12$ half of that is added under $k$: $\mathbf{S}' = (7, 7)^\top$.
#
# <details><summary>Predict first: keys are orthogonal and never repeat. What differs from the
# sum?</summary>
#
# With $\beta = 1$ nothing. The memory says 0 at a key that is orthogonal to all before, so the
# whole value is written.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.linear_attention import delta_rule_update

# %% [markdown]
# **What you should see.** Twenty letters under 16 orthogonal keys, so four keys are written
# twice. Change the rule. Then try random keys: the newest letter is exact, and on average a
# letter gets worse the more are written after it.

# %%
if ready(recurrent_form, delta_rule_update):
    display(widgets.matrix_memory(recurrent_form, delta_rule_update))

# %% [markdown]
# **Use it: complete a digit.** Chapter 03 kept 1,000 digits, upper halves as keys and lower halves
# as values, and completed 797 others with softmax attention. Here a single matrix reads the 1,000
# pairs one by one, and forgets them. Random features make it wider: a black box, until section 7,
# that maps 32 numbers to 254.
#
# | arm | keeps | tuned |
# |---|---|---|
# | softmax, $n$ digits | the last $n$ pairs, 64 numbers each | sharpness: a factor of the scores |
# | softmax, $n$ means | $n$ means, 65 numbers each: a pair moves the nearest | sharpness, keys |
# | mean of φ | matrix and sum, your `linear_attention` | length: $q$ and $k$ times this, before φ |
# | sum | a matrix of sums, and one factor, fitted to the pairs | nothing |
# | delta rule | a matrix, your `delta_rule_update` | step: $\beta$; at width 254 length, too |
# | least squares | the best matrix for all pairs at once | nothing |
#
# "Keys": how much keys count where the nearest is sought. "Centred" arms take the mean key and the
# mean value away first, and keep both; so does width 254. For these means, and for the sums'
# factor, the pairs are read twice.

# %% jupyter={"source_hidden": true}
from sklearn.datasets import load_digits

pictures, _ = load_digits(return_X_y=True)  # (1797, 64), brightness from 0 to 16
upper = equal_bytes.unit(pictures[:, :32])


def widened(x: Array, directions: Array) -> Array:
    """Keys of width 254: positive random features, of norm 1."""
    return equal_bytes.unit(np.exp(x @ directions.T - (x**2).sum(axis=1, keepdims=True) / 2))


def running_means(pairs: Array, n: int) -> Array:
    """The means of n groups, in one pass: each pair moves the nearest mean."""
    means, counts = pairs[:n].copy(), np.ones(n)
    for pair in pairs[n:]:
        nearest = ((means - pair) ** 2).sum(axis=1).argmin()
        counts[nearest] += 1
        means[nearest] += (pair - means[nearest]) / counts[nearest]
    return means


# %% jupyter={"source_hidden": true}
def digits_error(rule: str, options: tuple[float, ...], seed: int) -> float:
    """Mean squared error of 797 lower halves, from 1,000 other digits."""
    option, *more = options
    order = np.random.default_rng(seed).permutation(len(pictures))
    known, asked = order[:1000], order[1000:]
    k, q, v, want = upper[known], upper[asked], pictures[known, 32:], pictures[asked, 32:]
    mean = np.zeros(32)
    if rule.endswith("254"):
        drawn = gaussian_projection(np.random.default_rng([SEED, seed]), 254, 32, orthogonal=True)
        k, q = (widened(more[0] * (x - k.mean(axis=0)), drawn) for x in (k, q))
        mean = v.mean(axis=0)
        v = v - mean
    if "centred" in rule:
        centre, mean = k.mean(axis=0), v.mean(axis=0)
        k, q, v = k - centre, q - centre, v - mean
    if rule.startswith("softmax"):
        n = int(rule.split()[1].replace(",", ""))
        if rule.endswith("means"):
            pairs = running_means(np.hstack([more[0] * k, v]), n)  # keys may count more than values
            k, v = pairs[:, :32] / more[0], pairs[:, 32:]
        guess, _ = scaled_dot_product_attention(option * 32**0.5 * q, k[-n:], v[-n:])
    elif rule.startswith("mean of φ"):
        guess = linear_attention(elu_plus_one(option * q), elu_plus_one(option * k), v)
    elif rule.startswith("sum"):
        memory = k.T @ v
        read = k @ memory  # one factor for all answers, fitted to the known digits
        guess = (read * v).sum() / (read**2).sum() * q @ memory
    elif rule.startswith("least squares"):
        guess = q @ np.linalg.lstsq(k, v)[0]
    else:
        memory = np.zeros((k.shape[1], 32))
        for key, value in zip(k, v, strict=True):
            memory = delta_rule_update(memory, key, value, option)
        guess = q @ memory
    return float(((mean + guess - want) ** 2).mean())


def spread_over(weights: Array) -> float:
    """Over how many of the digits a query's weights spread: e to the entropy, on average."""
    shares = weights / weights.sum(axis=1, keepdims=True)
    return float(np.exp(-(shares * np.log(shares)).sum(axis=1)).mean())


# %% jupyter={"source_hidden": true}
SHARP, STEPS, LENGTHS, NOTHING = (
    [(sharpness,) for sharpness in (5, 10, 20, 40, 80, 160)],
    [(step,) for step in (0.02, 0.05, 0.1, 0.2, 0.5, 1)],
    [(length,) for length in (4, 16, 64, 256, 1024)],
    [(0,)],
)
MEANS = [(sharpness, keys) for sharpness in (10, 20, 40, 80, 160) for keys in (20, 80, 320, 1280)]
WIDE = [(step, length) for step in (0.05, 0.1, 0.2, 0.5) for length in (1, 2, 3, 4)]
RULES = {
    "softmax, 16 digits": (16 * 64, ("sharpness",), SHARP),
    "softmax, 15 means": (15 * 65, ("sharpness", "keys"), MEANS),
    "mean of φ": (32 * 33, ("length",), LENGTHS),
    "mean of φ, centred": (32 * 35, ("length",), LENGTHS),
    "sum": (32 * 32 + 1, (), NOTHING),
    "sum, centred": (32 * 34 + 1, (), NOTHING),
    "delta rule": (32 * 32, ("step",), STEPS),
    "delta rule, centred": (32 * 34, ("step",), STEPS),
    "least squares": (32 * 32, (), NOTHING),
    "least squares, centred": (32 * 34, (), NOTHING),
    "softmax, 128 digits": (128 * 64, ("sharpness",), SHARP),
    "softmax, 126 means": (126 * 65, ("sharpness", "keys"), MEANS),
    "delta rule, width 254": (254 * 32 + 64, ("step", "length"), WIDE),
    "softmax, 1,000 digits": (1000 * 64, ("sharpness",), SHARP),
}
PAIRED = (
    ("softmax, 15 means", "delta rule"),
    ("softmax, 15 means", "delta rule, centred"),
    ("delta rule, width 254", "softmax, 128 digits"),
)
if ready(linear_attention, delta_rule_update):
    print("numbers kept; mean squared error of twenty splits; tuned on two others")
    found = [digits_error("softmax, 1,000 digits", (0,), seed) for seed in range(20)]
    print(f"{'plain mean of values':30} {min(found):4.1f} to {max(found):4.1f}")
    errors = {}
    for rule, (numbers, tuned, options) in RULES.items():
        tried = {o: sum(digits_error(rule, o, seed) for seed in (100, 101)) for o in options}
        best = min(tried, key=lambda o: tried[o])
        errors[rule] = found = np.array([digits_error(rule, best, seed) for seed in range(20)])
        chosen = (f"{name} {o}" for name, o in zip(tuned, best, strict=False))
        told = f"{found.min():4.1f} to {found.max():4.1f}, mean {found.mean():4.1f}"
        print(f"{rule:23}{numbers:7,} {told}  {', '.join(chosen)}")
    for one, other in PAIRED:
        lower = errors[other] - errors[one]
        print(f"{one} below {other}: {(lower > 0).sum()} of 20, by {lower.mean():.2f}")
    order = np.random.default_rng(0).permutation(len(pictures))
    known, asked = upper[order[:1000]], upper[order[1000:]]
    print("a query's weights spread over so many of 1,000 digits:")
    print(f"  softmax {spread_over(np.exp(80 * asked @ known.T)):.0f}", end="")
    for name, centre in (("mean of φ", 0.0), ("centred", known.mean(axis=0))):
        q, k = (elu_plus_one(1024 * (x - centre)) for x in (asked, known))
        print(f", {name} {spread_over(q @ k.T):.0f}", end="")
    print()

# %% [markdown]
# Softmax over all 1,000 digits gets to 9, and keeps 64,000 numbers. **With few numbers it matters
# what is kept.** At about 1,000, softmax over the last 16 digits gets to between 17 and 20. The
# delta rule has seen all 1,000, and gets to 15. So have 15 running means, and softmax over them
# gets to between 13 and 16 and is ahead of the delta rule in 16 of 20 splits (of the centred delta
# rule in 7). At 8,192, the wide delta rule is ahead of softmax over 128 digits in all twenty splits
# (of forty others in 34), with 12.2 against 12.7 on average. Softmax over 126 means gets to about
# 11.
#
# Here, correcting and centring both help (means of twenty splits):
#
# | | as they are | centred |
# |---|---|---|
# | sum, with one factor | 19.6 | 15.7 |
# | delta rule | 14.9 | 13.9 |
# | least squares | 13.8 | 13.5 |
#
# The mean of φ, which has no such factor, hardly beats the plain mean of all digits (with one it
# gets to 16): a query's weights spread over 986 of the 1,000 (softmax: 18).

# %% [markdown]
# ## 7 · Can features imitate the softmax?

# %% [markdown]
# <!-- exercise: positive_random_features -->
#
# **Why.** Is there a $\varphi$ with $\varphi(x) \cdot \varphi(y) = e^{x \cdot y}$? Then linear
# attention *is* softmax attention. No finite number of features gives it exactly, but one random
# feature is right on average. For a standard normal vector $w$, the mean of $e^{w \cdot u}$ is
# $e^{\|u\|^2/2}$. Put in $u = x + y$, and $\|x + y\|^2 = \|x\|^2 + 2\,x \cdot y + \|y\|^2$:
#
# $$\mathbb{E}\; e^{w \cdot x - \|x\|^2/2}\; e^{w \cdot y - \|y\|^2/2} = e^{x \cdot y} .$$
#
# So draw $M$ directions $w_1, \ldots, w_M$, and take
#
# $$\varphi(x)_i = \tfrac{1}{\sqrt M}\, e^{w_i \cdot x - \|x\|^2/2} .$$
#
# These are the positive features of FAVOR+ (Choromanski et al. 2021), the heart of the *Performer*.
# All are positive, as weights should be; the older features with sine and cosine are not.
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$ | `x` | $(\ldots, D)$ |
# | $w$ | `projection` | $(M, D)$ |
# | $\varphi(x)$ | returned | $(\ldots, M)$ |
#
# **By hand.** $D = 1$, $x = 2$, $w = (1, 0, 3, 1)$. The exponents are $2 - 2 = 0$, $-2$, $4$ and
# $0$; the features are $\tfrac12 (1,\ 0.135,\ 54.6,\ 1)$.
#
# **The trap.** $e^{w \cdot x}$ alone overflows for a long $x$, and $e^{-\|x\|^2/2}$ alone is 0.
# Their product is then not a number, although the feature is.

# %% tags=["exercise"]
from attend_solutions.linear_attention import positive_random_features

# %% [markdown]
# **What you should see.** Two keys with scores 1 and −1, and only four features. For the first, one
# draw of the directions can be far off; the mean over 20,000 draws is right. The second is exact in
# every draw, because there $x + y = 0$.

# %%
rng = np.random.default_rng(SEED)
draws = [gaussian_projection(rng, 4, 2) for _ in range(20_000)]
x, y = np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [-1.0, 0.0]])
if ready(positive_random_features):
    pairs = [positive_random_features(x, w) @ positive_random_features(y, w).T for w in draws]
    for name, shown in (("one draw", pairs[0]), ("mean", np.mean(pairs, axis=0))):
        print(f"{name}: {shown[0]}, exact: {np.exp(x @ y.T)[0]}")

# %% [markdown]
# <!-- exercise: performer_attention -->
#
# **Why.** The scores of attention are $q \cdot k / \sqrt D$, so divide $q$ and $k$ by $D^{1/4}$
# each, map both, and let your `linear_attention` do the rest. (All of $\sqrt D$ on one side would
# be right on average too, but you will soon see why long vectors are bad here.)
#
# | symbol | argument | shape |
# |---|---|---|
# | $Q$, $K$ | `q`, `k`: not mapped yet | $(\ldots, T, D)$, $(\ldots, S, D)$ |
# | $V$ | `v` | $(\ldots, S, D_v)$ |
# | $w$ | `projection`, for both | $(M, D)$ |
# | $o$ | returned | $(\ldots, T, D_v)$ |
#
# The check has no vectors so long that all features of a query or of all keys are 0.
#
# **By hand.** $D = 16$, so $D^{1/4} = 2$. Let $q = k_1 = (2, 0, \ldots)$ and
# $k_2 = (0, 2, 0, \ldots)$; after division all have norm 1. With one direction $w = (1, 0, \ldots)$
# the features are $e^{1/2}$ for $q$ and $k_1$, $e^{-1/2}$ for $k_2$: weights as $e : 1$.
#
# `expect_shapes` does not look at the projection. `positive_random_features` refuses one of another
# width.

# %% tags=["exercise"]
from attend_solutions.linear_attention import performer_attention

# %% [markdown]
# **What you should see: a mean that is right, and a quotient that is not.** The same two keys, with
# the first one's value 1 and the other's 0. A weight is a quotient of two random numbers, and the
# mean of a quotient is not the quotient of the means: the first key gets too little.

# %%
if ready(linear_attention, positive_random_features, performer_attention):
    q, k = 2**0.25 * x, 2**0.25 * y  # D is 2
    weights = [performer_attention(q, k, np.array([[1.0], [0.0]]), w) for w in draws]
    exact = 1 / (1 + math.e**-2)
    print(f"weight of the first key, mean: {np.mean(weights):.3f}, exact: {exact:.3f}")

# %% [markdown]
# **Experiment 1: how good is the imitation?** The variance can be worked out (lemma 2 of the
# paper): with $M$ independent directions, the standard error of $e^{x \cdot y}$, relative to
# itself, is $\sqrt{(e^{\|x + y\|^2} - 1)/M}$. More features help as $1/\sqrt M$, but a longer
# $x + y$ hurts *exponentially*.
#
# We take 64 queries and 512 keys of width 16, so long that after the division by $D^{1/4}$ each has
# norm $r$. Then all scores lie between $-r^2$ and $r^2$. We measure
# $\|\text{error}\| / \|\text{exact output}\|$. Arms: independent
# directions; orthogonal ones, the paper's FAVOR+; sine and cosine, $M$ in all; softmax over $M$
# random keys; and two that draw nothing: the plain mean of values, and $1 + s$ in the place of
# $e^s$, which takes 17 features, $(1, q)$ and $(1, k)$ scaled.
#
# <details><summary>Predict first: r goes from 1 to 2. How many times more features for the same
# standard error, where x and y point the same way? And at which r will the plain mean beat 256
# features?</summary>
#
# $\|x + y\|^2 = 4r^2$, so $e^{16}/e^4 = e^{12}$: over 160,000 times more. About 1.5, here.
#
# </details>


# %% jupyter={"source_hidden": true}
def trigonometric(q, k, v, projection):
    """Random Fourier features: e^(‖x‖²/2) (cos w·x, sin w·x), averaged."""
    mapped = []
    for x in (q, k):
        x = x / x.shape[-1] ** 0.25
        turned, half = x @ projection.T, (x**2).sum(axis=-1, keepdims=True) / 2
        both = np.concatenate([np.cos(turned), np.sin(turned)], axis=-1)
        mapped.append(both * np.exp(half - half.max()))
    weights = mapped[0] @ mapped[1].T
    return weights @ v / weights.sum(axis=-1, keepdims=True)


def imitation_error(
    arm: str, features: int, radius: float, seed: int, follow: bool = False
) -> float:
    """Relative error of 64 outputs over 512 keys; values are noise, or follow their keys."""
    rng = np.random.default_rng([SEED, seed])
    q, k = (radius * 2 * equal_bytes.unit(rng.standard_normal((n, 16))) for n in (64, 512))
    v = k[:, :8] if follow else rng.standard_normal((512, 8))
    exact, _ = scaled_dot_product_attention(q, k, v)
    if arm == "plain mean":
        got = np.broadcast_to(v.mean(axis=0), exact.shape)
    elif arm == "1 + s":
        weights = 1 + q @ k.T / q.shape[-1] ** 0.5
        got = weights @ v / weights.sum(axis=-1, keepdims=True)
    elif arm == "softmax, M keys":
        some = rng.choice(512, min(features, 512), replace=False)
        got, _ = scaled_dot_product_attention(q, k[some], v[some])
    elif arm == "sine and cosine":
        got = trigonometric(q, k, v, gaussian_projection(rng, features // 2, 16))
    else:
        projection = gaussian_projection(rng, features, 16, arm == "orthogonal")
        got = performer_attention(q, k, v, projection)
    return float(np.linalg.norm(got - exact) / np.linalg.norm(exact))


# %% jupyter={"source_hidden": true}
IMITATIONS = (
    "independent",
    "orthogonal",
    "sine and cosine",
    "softmax, M keys",
    "plain mean",
    "1 + s",
)
if ready(linear_attention, positive_random_features, performer_attention):
    rows = [
        {"M": m, "error": min(imitation_error(arm, m, 1.5, seed), 20.0), "arm": arm}
        for arm in IMITATIONS
        for m in (16, 32, 64, 128, 256, 512, 1024, 2048)
        for seed in range(20)
        if arm != "softmax, M keys" or m < 512
    ]
    display(
        charts.bands(
            rows,
            "M",
            "error",
            "arm",
            title="Scores within ±2.25: more features help, slowly",
            description="Relative error against the number of features, both axes logarithmic, "
            "twenty seeds. Positive features fall from about 1 at 16 to 0.3 at 2,048 and cross "
            "the plain mean of values, level at 0.5, between 256 and 512. Sine and cosine start "
            "near 11, are below these from 256 on and end below 1 + s, level at 0.17. Softmax "
            "over M keys falls from 5 to 1.",
            x_title="features M (log scale)",
            y_title="relative error, at most 20 (log scale)",
            log_x=2,
            log_y=10,
            middle="median",
        )
    )

# %% jupyter={"source_hidden": true}
if ready(linear_attention, positive_random_features, performer_attention):
    rows = [
        {"r": r, "error": min(imitation_error(arm, 256, r, seed), 100.0), "arm": arm}
        for arm in IMITATIONS
        for r in (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
        for seed in range(20)
    ]
    display(
        charts.bands(
            rows,
            "r",
            "error",
            "arm",
            title="256 random features: long queries and keys defeat them",
            description="Relative error against the norm r of scaled queries and keys, twenty "
            "seeds. Positive features rise from 0.04 at 0.5 to 1.2 at 2; the plain mean of values "
            "rises from 0.06 to 1 and is lower from 1.5 on. Sine and cosine leap past 40 at 2.5. "
            "1 + s is lowest everywhere, from 0.002 to 0.86.",
            x_title="norm r of scaled queries and keys (scores within ± r²)",
            y_title="relative error, at most 100 (log scale)",
            log_y=10,
            middle="median",
        )
    )
    print("values that follow their keys, 256 features: median error of twenty seeds")
    for arm in IMITATIONS:
        told = []
        for r in (1.0, 1.5, 2.0):
            found = [imitation_error(arm, 256, r, seed, follow=True) for seed in range(20)]
            told.append(f"r = {r}: {np.median(found):.2f}")
        print(f"  {arm:17}", "  ".join(told))

# %% [markdown]
# More features help slowly: from 128 to 2,048 the error falls from 0.65 to 0.3. With 512
# it is below the plain mean (0.5) in most runs.
#
# **Length decides.** At $r = 1$ the error is 0.1 to 0.3. At $r = 2$, with scores within ±4, it is
# about 1.2, worse than the plain mean (0.6 to 0.9) in all twenty runs. Sine and cosine are as good
# or better up to 1.5, worse at 2, and explode at 2.5: a sum of weights can be near 0.
#
# **$1 + s$ needs no draw.** Its 17 features err less than 256 random ones in every run here.
# Up to $r = 2$ most scores lie within ±1, where it is off by 0.72 at most. Below −1 its weights are
# negative, and at 10 it is 11, where $e^s$ is 22,026.
#
# The values decide as well. In the charts they are noise, which favours the plain mean. With values
# that follow their keys, at $r = 2$, the plain mean errs by 1.0, positive features by 0.7, softmax
# over half of the keys by 0.25 and $1 + s$ by 0.1.
#
# <details><summary>Do orthogonal directions help?</summary>
#
# A little, where vectors are short: in 150 runs (geometric means) they lower the error of 256
# features by about a tenth at $r = 1$. From 1.5 on it is 7 % at most, and nothing with noise and
# fresh seeds.
#
# </details>
#
# **What this does not show.** Trained models: their queries and keys are not random, those trained
# *with* random features can keep them short, and the paper's models redraw directions in training.

# %% [markdown]
# ## 8 · Or mix the keys first

# %% [markdown]
# <!-- exercise: linformer_attention -->
#
# **Why.** Another way out of $T \times S$ keeps the softmax and has fewer keys. *Linformer* (Wang
# et al. 2020) mixes the $S$ keys into $R$ with a learned matrix $E$ of shape $(R, S)$, the values
# with another, $F$, and attends to the mixtures:
#
# $$O = \operatorname{softmax}\!\left(\frac{Q\,(E K)^\top}{\sqrt D}\right) F\, V .$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $Q$, $K$, $V$ | `q`, `k`, `v` | $(\ldots, T, D)$, $(\ldots, S, D)$, $(\ldots, S, D_v)$ |
# | $E$, $F$ | `project_k`, `project_v` | $(R, S)$ |
# | $O$ | returned | $(\ldots, T, D_v)$ |
#
# **By hand.** Four equal keys with values 0, 2, 4, 10, and both projections average the first two
# and the last two. The mixed values are 1 and 7, with equal weights: 4.
#
# $E$ and $F$ have the same $R$: mixture $i$ of the keys goes with mixture $i$ of the values. You
# may use `scaled_dot_product_attention` of chapter 03, which returns output and weights.

# %% tags=["exercise"]
from attend_solutions.linear_attention import linformer_attention

# %% [markdown]
# **What you should see.** Linformer is not causal. Change the *last* key and value: every output
# changes, because each mixture of a dense $E$ holds all keys, and a mask over $R$ mixtures cannot
# undo that. Such an $E$ also fits no text longer than $S$. Pooling can be masked by block.

# %%
if ready(linformer_attention):
    rng = np.random.default_rng(SEED)
    q, k, v = rng.standard_normal((3, 8, 4))
    e, f = rng.standard_normal((2, 3, 8)) / 8**0.5
    before = linformer_attention(q, k, v, e, f)
    k[-1], v[-1] = 3.0, 3.0
    print("change of each output:", np.abs(linformer_attention(q, k, v, e, f) - before).max(axis=1))

# %% [markdown]
# ## 9 · Experiment 2: recall at equal bytes
#
# Linear attention saves memory. So compare at *equal* memory: each arm may keep 1,024 numbers,
# 4,096 bytes in float32, and softmax attention gets a cache of that size as well. Here and above,
# random matrices that never change are not counted: a seed gives them back.
#
# **The task.** $n$ pairs of a random key (64 numbers) and one of 256 codes (32 numbers) come one
# after the other. Then each key is asked for by a noisy copy. An answer is right if the code
# nearest to it is the right one, so guessing gets 0.4 %. Every arm may narrow keys and codes to
# widths of its own, by random matrices with orthonormal columns; the nearest code is looked for
# among narrowed codes.
#
# | arm | keeps | tuned |
# |---|---|---|
# | sum | $D D_v$ numbers, your `recurrent_form` | $D$ |
# | elu + 1 | $D D_v + D$, your `linear_attention` | $D$, length of the keys |
# | random features | $M D_v + M$, your `performer_attention` | $M$, length of the keys |
# | delta rule | $D D_v$, your `delta_rule_update` | $D$, $\beta$ |
# | softmax, cache | the last $1024/(D + D_v)$ pairs | $D$, $D_v$, sharpness |
# | softmax, all kept (control) | everything, $96\,n$ numbers | sharpness |
#
# Each arm's options are tried on three seeds, and the best is run on twenty others, with 12
# memories each.
#
# <details><summary>Predict first: with 64 pairs, does the sum or the cache recall more?</summary>
#
# The cache, if it may choose its widths. Softmax picks out one pair and gives back its value as it
# was stored, so a few numbers a pair are enough. A sum blurs what it stores.
#
# </details>

# %% jupyter={"source_hidden": true}
YOURS = {
    "recurrent_form": recurrent_form,
    "linear_attention": linear_attention,
    "performer_attention": performer_attention,
    "delta_rule_update": delta_rule_update,
}
rows = []
if ready(recurrent_form, linear_attention, performer_attention, delta_rule_update):
    rows = [
        row | {"n": n}
        for n in (8, 16, 32, 64, 128)
        for row in equal_bytes.race(YOURS, equal_bytes.ONCE, pairs=n)
    ]
    display(
        charts.bands(
            rows,
            "n",
            "right",
            "arm",
            title="4,096 bytes each: all memories of fixed size fill up",
            description="Percentage of right answers against the number of pairs, twenty seeds. "
            "With all pairs kept softmax stays at 100. The softmax with a cache stays near 100 up "
            "to 64 pairs and falls to 66 at 128. The delta rule and the sum fall from 100 at 16 "
            "pairs to 33 and 31 at 128. Means of positive features are below them everywhere.",
            x_title="pairs n (log scale)",
            y_title="right answers (%)",
            log_x=2,
        )
    )

# %% [markdown]
# With everything kept, softmax attention recalls all. Its memory grows, though: 6,144 numbers at 64
# pairs. **At 1,024 numbers and 256 codes the cache wins.** Of 64 pairs it recalls 97 to 99 %
# (twenty runs), the delta rule 63 to 69 %, the sum 58 to 67 %. Twelve numbers of a key and four of
# a value are enough for softmax, so all 64 pairs fit. Of 128 pairs it keeps 102 and is still ahead,
# with 64 to 67 % against 32 to 37 % and 28 to 33 %. The two means of positive features are behind.
#
# Now write each of 24 keys three times, in random order, and ask for the last value. Three arms
# join. *Cache, recent first* lowers a score by how many pairs ago its pair came (chapter 06; the
# place counts as one number of a pair, and what a step costs is tuned). *All kept, recent first*
# does so with everything. *Cache, replacing* puts a pair in the place of one with an equal key.

# %% jupyter={"source_hidden": true}
if ready(recurrent_form, linear_attention, performer_attention, delta_rule_update):
    print("128 pairs, right answers in %, oldest to newest quarter, mean of twenty seeds")
    for arm in equal_bytes.ONCE:
        ages = np.mean([r["by_age"] for r in rows if r["arm"] == arm and r["n"] == 128], axis=0)
        print(f"  {arm:18}", "  ".join(f"{age:3.0f}" for age in ages))
    print("24 keys, each written three times: last values recalled, twenty seeds")
    for arm in equal_bytes.ARMS:
        found = [r["right"] for r in equal_bytes.race(YOURS, (arm,), pairs=24, times=3)]
        print(f"  {arm:22} {min(found):3.0f} to {max(found):3.0f} %")

    def never_again(option: tuple[int, float], seed: int) -> float:
        """The delta rule, asked for the same places of 72 pairs with 72 keys."""
        places = equal_bytes.task(seed, 24, times=3).due
        return 100 * equal_bytes.run(YOURS, "delta rule", option, seed, pairs=72)[places].mean()

    tried = {
        option: sum(never_again(option, seed) for seed in equal_bytes.TUNING)
        for option in equal_bytes.ARMS["delta rule"][1]
    }
    best = max(tried, key=lambda option: tried[option])
    found = [never_again(best, seed) for seed in equal_bytes.SEEDS]
    print(f"  delta rule, 72 keys    {min(found):3.0f} to {max(found):3.0f} %")

# %% [markdown]
# The sum is equally unsure of all pairs. The cache knows most of what it keeps and nothing of the
# rest. The delta rule forgets little by little.
#
# Where keys are written again, the sum fails: it holds all three values at once. So does softmax
# over everything, because nothing tells it which of three equal keys came last. The delta rule
# recalls 85 to 93 % of the last values. Part of that comes from overwriting: where all
# 72 pairs have keys of their own, it recalls 76 to 82 % at the same places. The cache of the last
# pairs recalls 50 to 59 %, but 98 to 100 % where older pairs score less. Softmax over everything
# does as well then, and so does the cache that replaces equal keys.
#
# Number for number, the best cache is level with the best matrix or ahead in this section's runs so
# far. **It is behind where pairs are many and values say little.** Of 512 pairs with one of 256
# codes the cache recalls 16 to 17 %, the delta rule 8. But with one of 4 codes (guessing gets 25 %)
# sum and delta rule recall 40 to 44 %, the cache 36 to 39 %: it keeps 102 pairs and guesses the
# rest (`race` with `pairs=512, codes=4`).
#
# **What this does not show.** It says nothing about trained models, which choose their keys,
# features and $\beta$ for what they need; there, too, recall grows with the state
# (Arora et al. 2024). And all pairs are asked for equally often: if only recent ones matter, any
# cache that holds them does well.

# %% [markdown]
# ## 10 · Where this breaks
#
# - **Recall.** A memory of fixed size loses something when much is written, by any rule.
# - **Sharpness.** For keys not made for them, elu + 1 features have much in common: weights differ
#   little, and the mean is blurred. RetNet and gated linear attention drop mean and positivity and
#   normalise the output instead (chapter 22).
# - **Nothing fades.** The sum keeps the first token as well as the last. Chapter 22 adds decay, and
#   the delta rule in chunks; chapter 24 lets the token choose.
# - **Rounding.** A sum of 65,536 outer products in float16 loses small terms. Kernels keep the
#   memory in float32.
# - **The delta rule with long keys.** The update multiplies what is there by $1 - \beta \|k\|^2$
#   along $k$. If that is below −1, the memory grows with every write under that key, without end.

# %%
if ready(delta_rule_update):
    for length in (1.0, 1.4, 1.5):
        state, key = np.zeros((2, 1)), np.array([length, 0.0])
        for _ in range(50):
            state = delta_rule_update(state, key, np.array([1.0]))
        print(f"‖k‖ = {length}: after 50 writes of 1, the memory answers {(key @ state)[0]:.3g}")

# %% [markdown]
# ## A postcard
#
# > $(QK^\top)V = Q(K^\top V)$: without the softmax, attention is a memory $\mathbf{S}$ of $D \times
# > D_v$ numbers, written by $k v^\top$ and read by $q$.
# >
# > Recurrent, parallel and chunked form give the same numbers: one step a token, one matrix, or a
# > small matrix a chunk with the memory in between.
# >
# > A summed memory of $n$ random keys of norm 1 has a relative squared error of $(n-1)/D$ when read
# > as it is. The delta rule writes only what is wrong, so it can overwrite.
# >
# > Random features imitate $e^{q \cdot k}$ without bias, and with a relative variance that grows as
# > $e^{\|q + k\|^2}$.
#
# **Before:** chapter 03 (attention). **Next:** chapter 16 (exact attention without
# the matrix), 22 (memories that fade).
#
# ## Sources
#
# - Linear attention and its recurrence: Katharopoulos et al. 2020, *Transformers are RNNs: Fast
#   Autoregressive Transformers with Linear Attention*.
# - In chunks: Sun et al. 2023, *Retentive Network*, equation 7; Yang et al. 2024, *Gated Linear
#   Attention Transformers with Hardware-Efficient Training*.
# - Matrix memories: Kohonen 1972, *Correlation Matrix Memories*; Schmidhuber 1992, *Learning to
#   Control Fast-Weight Memories*.
# - The delta rule: Widrow and Hoff 1960, *Adaptive Switching Circuits*; Schlag, Irie and
#   Schmidhuber 2021, *Linear Transformers Are Secretly Fast Weight Programmers*, §4.
# - FAVOR+: Choromanski et al. 2021, *Rethinking Attention with Performers*, lemmas 1 and 2, §2.4.
# - Sine and cosine features: Rahimi and Recht 2007, *Random Features for Large-Scale Kernel
#   Machines*.
# - Linformer: Wang et al. 2020, *Linformer: Self-Attention with Linear Complexity*.
# - Recall of trained models: Arora et al. 2024, *Simple linear attention language models balance
#   the recall-throughput tradeoff*.
