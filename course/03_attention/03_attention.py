# %% [markdown]
# # 03 · Scaled dot-product attention
#
# **What if a look-up returns a weighted mean instead of one entry, and why are its scores divided
# by the square root of the vectors' width?** Run the next cell (Shift+Enter), push the slider
# slowly to the right and watch the arrow. Push it back and drag the blue dot.

# %%
from attend import widgets

widgets.drag_query()

# %% [markdown]
# The output never leaves the triangle. The arrow shows where gradient descent would move the query
# so that the output gets nearer to the goal (dashed ring). From the start position, stretching the
# scores first makes the arrow longer; then one key takes all the weight, and the arrow vanishes
# although the output is in the wrong corner.
#
# In this chapter you write everything that moves in this picture, forward and backward, in NumPy.
# You let it complete handwritten digits, and find out what that square root does and does not do.
# It takes about two hours.
#
# You need Python, a little NumPy, the dot product, the variance and the chain rule; no other
# chapter. `check(...)` says what is wrong, `hint(...)` helps,
# and `solution(...)` shows the course's answer. A cell that needs a function you have not written
# yet says so and waits.

# %%
import numpy as np
from attend import charts
from attend_grader import check, hint, ready, solution
from attend_solutions.types import Array  # a NumPy array of floats, in the signatures
from IPython.display import display

SEED = 3
np.set_printoptions(precision=3, suppress=True)

# %% [markdown]
# ## 1 · A soft dictionary
#
# A Python dictionary is **hard**. `{"cat": 3}["kitten"]` finds nothing, although "cat" is a fair
# answer, and if you change the query a little, the answer stays exactly the same or jumps. So
# there is no slope that training could follow.
#
# Attention makes it **soft**. Queries and keys are vectors; each of the $S$ keys gets a weight
# $p_s$ that says how well it fits the query; and the output is the weighted mean of *all* values
# $v_s$:
#
# $$\begin{gathered}
# \text{output} = \sum_{s=1}^{S} p_s\, v_s, \\
# p_s \ge 0, \\
# \sum_{s=1}^{S} p_s = 1 .
# \end{gathered}$$
#
# | name and colour | in a dictionary | in attention |
# |---|---|---|
# | <span style="color:#0072B2">■</span> **query** (blue) | what you ask | what a word looks for |
# | <span style="color:#E69F00">■</span> **key** (orange) | the names | what a word is found by |
# | <span style="color:#009E73">■</span> **value** (green) | the contents | what you then get |
#
# Two things are missing: a way to turn scores into weights, and the scores.

# %% [markdown]
# <!-- exercise: softmax -->
#
# **Why.** Scores can be any numbers. Weights must be at least 0 and sum to 1, a larger score should
# get a larger weight, and adding the same number to all scores should change nothing. The
# exponential does all that:
#
# $$p_s = \frac{e^{z_s}}{\sum_{r} e^{z_r}} = \frac{e^{z_s - m}}{\sum_r e^{z_r - m}}$$
#
# The second form is the same number for every $m$, because $e^{-m}$ cancels. It is also how you
# avoid a trap: $e^{710}$ is too large for float64, and $\infty/\infty$ is not a number. With
# $m = \max_r z_r$ the largest exponent is 0, so nothing overflows, and the sum is at least 1.
#
# | symbol | meaning | shape |
# |---|---|---|
# | $z$ | scores | any; one axis is normalised, usually the last: $(\ldots, S)$ |
# | $m$ | largest score along that axis | the same, with length 1 there |
# | $p$ | weights | the same as the scores |
#
# **By hand.** Scores $(1001, 1000)$: the differences to the largest are $(0, -1)$, their
# exponentials $(1, 0.368)$, the sum $1.368$, the weights $(0.731, 0.269)$.
#
# **NumPy you need.** A reduction removes its axis; `keepdims=True` keeps it with length 1, so
# that the result still lines up with the array (*broadcasts*):
#
# ```python
# degrees = np.array([[10.0, 12.0, 17.0], [20.0, 20.0, 26.0]])  # (2, 3)
# degrees - degrees.mean(axis=1, keepdims=True)  # [[-3. -1. 4.] [-2. -2. 4.]]
# ```
#
# `.max` and `.sum` take the same arguments, `np.exp` works entry by entry, `axis=-1` is the last
# axis. `a -= b` would write into the caller's array; `a = a - b` makes a new one.
#
# <details><summary>Predict first: scores (0, 1) have the weights (0.269, 0.731). Do the weights
# stay if you add 10 to both scores? If you multiply both by 10?</summary>
#
# Adding 10 changes nothing. Multiplying does: the ratio of the weights goes from $e \approx 2.7$
# to $e^{10} \approx 22\,000$. Softmax ignores a shift, but not a stretch.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.attention import softmax

# %% [markdown]
# **What you should see.** The scores 1, 2, 3, all multiplied by the same number. At 0 every
# weight is 1/3; at 5 the largest has 0.993 and the softmax is nearly a hard dictionary.

# %% jupyter={"source_hidden": true}
if ready(softmax):
    display(
        charts.line(
            [
                {"stretch": float(m), "weight": float(w), "score": f"score {score}"}
                for m in np.linspace(0, 5, 26)
                for score, w in zip((1, 2, 3), softmax(m * np.array([1.0, 2.0, 3.0])), strict=True)
            ],
            "stretch",
            "weight",
            "score",
            title="Stretching the scores makes the softmax sharper",
            description="Three weights against a stretch from 0 to 5. They start equal at one "
            "third; the weight of the largest score rises towards 1, the other two fall towards 0.",
            x_title="stretch of all scores (no unit)",
            y_title="weight (share of 1)",
        )
    )

# %% [markdown]
# ## 2 · Scores: every query meets every key
#
# The course uses the same letters everywhere: $T$ queries, $S$ keys (and as many values), $D$
# numbers in one query or key, which the papers call $d_k$, and $D_v$ numbers in one value. Three
# dots stand for any leading axes, such as a batch.

# %% [markdown]
# <!-- exercise: attention_scores -->
#
# **Why.** The dot product $q \cdot k = \|q\| \|k\| \cos\theta$ is large when two vectors point
# the same way, 0 at a right angle and negative when they are opposed. And all dot products of $T$
# queries with $S$ keys are one matrix product.
#
# $$Z = \frac{Q K^\top}{\sqrt{D}}, \qquad Z_{ts} = \frac{1}{\sqrt D}\sum_{j=1}^{D} Q_{tj}\, K_{sj}$$
#
# Take the $\sqrt D$ as given until section 5. With `scaled=False` your function leaves it out, so
# that you can compare.
#
# | symbol | argument | shape |
# |---|---|---|
# | $Q$ | `q` | $(\ldots, T, D)$ |
# | $K$ | `k` | $(\ldots, S, D)$ |
# | $Z$ | returned | $(\ldots, T, S)$: a row per query, a column per key |
#
# **By hand.** $D = 4$, one query $(1, 2, 2, 0)$, two keys $(3, 1, 0, 5)$ and $(0, -1, 1, 7)$. The
# dot products are $3 + 2 + 0 + 0 = 5$ and $0 - 2 + 2 + 0 = 0$; divided by $\sqrt 4 = 2$ they are
# $2.5$ and $0$.
#
# **NumPy you need.** `a @ b` multiplies matrices; all axes before the last two are a stack, and the
# product is taken for each matrix of the stack. `.T` reverses *all* axes, so for stacks swap two
# axes by number:
#
# ```python
# prices = np.ones((7, 2, 3))              # 7 days, each a 2 × 3 matrix
# (prices @ np.ones((7, 3, 4))).shape      # (7, 2, 4): 7 matrix products
# np.swapaxes(prices, 0, 1).shape          # (2, 7, 3); axes may be counted from the end: -1, -2
# prices.T.shape                           # (3, 2, 7): the days have moved as well
# ```
#
# <details><summary>Predict first: you write every query and every key twice in a row, so that (1,
# 2) becomes (1, 2, 1, 2). What happens to the unscaled and to the scaled scores?</summary>
#
# The dot product doubles. $D$ doubles too, so the divisor grows by $\sqrt 2$, and the scaled score
# grows by $2/\sqrt 2 = 1.41$. The copies are not independent: section 5.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.attention import attention_scores

# %% [markdown]
# **What you should see.** Three tokens, used as queries and as keys: a table of dot products, then
# each number divided by $\sqrt 2 = 1.414$.

# %%
tokens = ["cat", "sat", "mat"]
x = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
if ready(attention_scores):
    print("dot products", attention_scores(x, x, scaled=False), sep="\n")
    print("scaled", attention_scores(x, x), sep="\n")

# %% [markdown]
# ## 3 · The whole look-up

# %% [markdown]
# <!-- exercise: scaled_dot_product_attention -->
#
# **Why.** One step is left, the mean of the values under each query's weights. For all queries at
# once, this is equation (1) of *Attention Is All You Need* (Vaswani et al. 2017), from here on
# "the paper":
#
# $$\begin{gathered}
# P = \operatorname{softmax}\!\left(\frac{QK^\top}{\sqrt D}\right), \\
# O = P\,V, \\
# O_t = \sum_{s=1}^{S} P_{ts} V_s
# \end{gathered}$$
#
# The softmax runs over the **keys**, so the weights of each query sum to 1.
#
# | symbol | name | shape |
# |---|---|---|
# | $Q$, $K$ | queries, keys | $(\ldots, T, D)$, $(\ldots, S, D)$ |
# | $V$ | values, one per key | $(\ldots, S, D_v)$ |
# | $P$ | weights, second result | $(\ldots, T, S)$, each row sums to 1 |
# | $O$ | output, first result | $(\ldots, T, D_v)$ |
#
# **By hand.** One query, two keys, scaled scores $(0, \ln 3)$: the exponentials are $(1, 3)$, the
# weights $(0.25, 0.75)$. With the values $(8, 0, 2)$ and $(4, 2, 2)$ the output is
# $0.25\,(8, 0, 2) + 0.75\,(4, 2, 2) = (5,\ 1.5,\ 2)$.
#
# <details><summary>Predict first: all keys are the same vector. What is the output? And if there
# is only one key?</summary>
#
# Equal keys get equal weights, so the output is the plain mean of the values. A single key always
# has the weight 1, so the output is its value. In both cases the query does not matter.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.attention import scaled_dot_product_attention

# %% [markdown]
# **What you should see.** "sat" gives the weights 0.198, 0.401, 0.401: about a fifth to "cat",
# whose vector is at a right angle to its own. Your function computes the table. Make "sat" longer
# and its row gets harder. Set "sat" to (0, 0): its three scores are 0, and its output is the plain
# mean.

# %%
if ready(softmax, attention_scores, scaled_dot_product_attention):
    display(
        widgets.attention_table(scaled_dot_product_attention, tokens, x, scores=attention_scores)
    )

# %% [markdown]
# In *self-attention* (chapter 04), queries, keys and values are three learned projections of the
# same tokens.

# %% [markdown]
# ## 4 · Use it: complete half a digit
#
# A soft dictionary is already useful without any training. scikit-learn brings 1,797 handwritten
# digits of 8 × 8 pixels. Of 1,000 of them we keep the upper half as a **key** and the lower half as
# the **value**. The upper half of each of the other 797 is a **query**: what would the lower half
# look like? Every key and query gets length 1, and a `sharpness` multiplies the scores (times
# $\sqrt{32}$, which undoes your function's scale).
#
# <details><summary>Predict first: what do you get at sharpness 0, and at a huge
# one?</summary>
#
# At 0 all weights are 1/1,000: the same grey mean digit for every query. A huge sharpness is the
# hard dictionary: it copies the lower half of the single most similar upper half.
#
# </details>

# %%
from sklearn.datasets import load_digits

pictures, _ = load_digits(return_X_y=True)  # (1797, 64), brightness from 0 to 16
upper, lower = pictures[:, :32], pictures[:, 32:]
upper = upper / np.linalg.norm(upper, axis=1, keepdims=True)


def complete(sharpness, seed):
    """Guess the lower halves of 797 digits from 1,000 others; also say which digits."""
    order = np.random.default_rng(seed).permutation(len(pictures))
    known, asked = order[:1000], order[1000:]
    q = sharpness * 32**0.5 * upper[asked]  # undoes the division by √D, D = 32
    guess, _ = scaled_dot_product_attention(q, upper[known], lower[known])
    return guess, asked


# %% jupyter={"source_hidden": true}
SHARP = {0: "0: plain mean", 10: "10", 80: "80", 100_000: "100,000: one key"}
if ready(scaled_dot_product_attention):
    import altair as alt

    shown, pixels = 8, []
    for row, sharpness in enumerate((None, *SHARP)):
        guess, asked = complete(sharpness or 0, SEED)
        for column, picture in enumerate(asked[:shown]):
            below = lower[picture] if sharpness is None else guess[column]
            whole = np.concatenate([pictures[picture, :32], below]).reshape(8, 8)
            pixels += [
                {"x": 9 * column + j, "y": 9.5 * row + i, "ink": float(whole[i, j])}
                for i, j in np.ndindex(8, 8)
            ]
    labels = ["written", *SHARP.values()]
    names = [{"x": -1, "y": 9.5 * row + 4, "t": label} for row, label in enumerate(labels)]
    place = {
        "x": alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-24, 9 * shown])),
        "y": alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[47.5, -1])),
    }
    ink = alt.Color("ink:Q", scale=alt.Scale(scheme="cividis"), title="ink (0 to 16)")
    marks = alt.Chart(alt.Data(values=pixels)).mark_square(size=62, opacity=1)
    words = alt.Chart(alt.Data(values=names)).mark_text(align="right", fontSize=13)
    display(
        alt.layer(marks.encode(color=ink, **place), words.encode(text="t:N", **place)).properties(
            title="Lower halves, looked up by the upper halves",
            width=charts.WIDTH,
            height=360,
            description="Eight handwritten digits, and the lower half that attention gives each "
            "at four values of sharpness: one grey mean at 0, other halves at 80.",
        )
    )
    print("mean squared error of the lower half, smallest to largest of 5 splits:")
    for sharpness, label in SHARP.items():
        errors = []
        for seed in range(5):
            guess, asked = complete(sharpness, seed)
            errors.append(float(((guess - lower[asked]) ** 2).mean()))
        print(f"  sharpness {label:20s} {min(errors):5.1f} to {max(errors):.1f}")

# %% [markdown]
# Of these four, sharpness 80 is best: its error is about 9, against about 14.5 for the single
# nearest key, 16 at sharpness 10 and 20 for the plain mean. Averaging a dozen or so similar digits
# cancels what only one of them has; averaging too many blurs the digit.
#
# **What this does not show.** That 80 is the best sharpness, or that attention is the best method:
# kernel ridge regression reaches about 8.4, and the plain mean of the 5 nearest keys about 9.6.
# The split is random, so the same people wrote keys and queries.
#
# **The idea is old.** For vectors of length 1, $\|q - k\|^2 = 2 - 2\, q \cdot k$. So the weights
# you used are also Gaussian weights of the distance, and this is the kernel regression that
# Nadaraya and Watson published in 1964. Graves et al. (2014) and Miller et al. (2016) used soft
# look-ups as the memory of a network. Luong et al. (2015) scored encoder states against a decoder's
# state by the dot product (chapter 02).

# %% [markdown]
# ## 5 · How large is a dot product?
#
# In the first picture *you* stretched the scores. Width does it too. Suppose, as the paper does in
# its footnote 4, that all components of $q$ and $k$ are independent, with mean 0 and variance 1.
#
# - One term $q_j k_j$ has the mean $\mathbb E[q_j]\,\mathbb E[k_j] = 0$ and the variance $\mathbb
#   E[q_j^2]\,\mathbb E[k_j^2] = 1$.
# - The $D$ terms are independent, so their variances add: $\operatorname{Var}(q \cdot k) = D$.
# - Dividing by a number $a$ divides the variance by $a^2$. So $\operatorname{Var}(q \cdot k / \sqrt
#   D) = 1$ for every $D$.
#
# Dividing by $D$ instead would leave a variance of $1/D$: at $D = 512$ nearly equal weights.

# %% [markdown]
# <!-- exercise: score_variance -->
#
# **Why.** Check the derivation by measuring.
#
# $$\begin{gathered}
# y_i = \sum_{j=1}^D q_{ij}\, k_{ij}, \\
# \bar y = \frac1n \sum_{i=1}^n y_i, \\
# \operatorname{Var} = \frac1n \sum_{i=1}^n (y_i - \bar y)^2
# \end{gathered}$$
#
# With `scaled=True`, every $y_i$ is divided by $\sqrt D$ first; here `scaled` is False unless
# given. Query $i$ meets key $i$ only, so there are $n$ numbers and no table.
#
# | symbol | argument | shape |
# |---|---|---|
# | $q_{ij}$, $k_{ij}$ | `q`, `k`: $n$ pairs | $(n, D)$ each |
# | $y_i$ | dot products, one per pair | $(n,)$ |
# | $\operatorname{Var}$ | returned | one Python float |
#
# **By hand.** Three pairs have the dot products $1, 3, 5$. The mean is $3$, the deviations are
# $-2, 0, 2$, the variance is $(4 + 0 + 4)/3 = 2.67$. If $D = 4$, the scaled variance is a quarter
# of that, $0.67$.
#
# **NumPy you need.** `*` works entry by entry; the method `.var()` divides by $n$, as here;
# `float(...)` makes a Python float of a NumPy number (float32 arrays give a float32).
#
# <details><summary>Predict first: variance 1 and D = 256. Between which two numbers do about two
# thirds of the unscaled dot products lie?</summary>
#
# Between −16 and 16: the standard deviation is $\sqrt{256} = 16$, and a sum of many independent
# terms is nearly normal.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.attention import score_variance

# %% [markdown]
# **What you should see.** Without the scale the variance is about $D$. With it, it is 1 within a
# few per cent, because there are only 4,000 pairs.

# %%
if ready(score_variance):
    rng = np.random.default_rng(SEED)
    for d in (1, 4, 16, 64, 256, 512):
        q, k = rng.standard_normal((2, 4000, d))
        plain, divided = score_variance(q, k), score_variance(q, k, scaled=True)
        print(f"D = {d:3d}   variance without the scale {plain:7.2f}   with {divided:.3f}")

# %% [markdown]
# **When is it not so?** For inputs with mean square 1, PyTorch's `nn.Linear` starts with outputs
# of variance 1/3 (without bias). So at the start the variance is $D/9$: the growth with $D$ is
# right, the 1 is not. Once trained, even the growth can differ: queries and keys are then
# correlated, $q \cdot k$ can grow like $D$ and not like $\sqrt D$, and Yang et al. (2022) divide by
# $D$ for that reason.

# %% [markdown]
# ## 6 · Back through the softmax
#
# How does each weight change when one score changes? The logarithm turns the quotient into a
# difference, $\ln p_s = z_s - \ln \sum_u e^{z_u}$ ($s$, $r$ and $u$ number the keys). Differentiate
# with respect to $z_r$; with $\delta_{sr} = 1$ for $s = r$ and 0 otherwise,
#
# $$\begin{gathered}
# \frac{\partial \ln p_s}{\partial z_r} = \delta_{sr} - p_r \\
# \Longrightarrow\quad \frac{\partial p_s}{\partial z_r} = p_s\,(\delta_{sr} - p_r) .
# \end{gathered}$$
#
# This table of derivatives is the **Jacobian**. A higher score gives a higher weight, by $p_s (1 -
# p_s)$, and what one key gains the others lose, by $p_s p_r$. If one weight is nearly 1, all
# entries are nearly 0. The softmax is *saturated*: right or wrong, it hardly moves any more. This
# is why the arrow in the first picture vanished.

# %% [markdown]
# <!-- exercise: softmax_jacobian -->
#
# **Why.** With the Jacobian you can see how much gradient a query's softmax lets through.
#
# $$J_{sr} = \delta_{sr}\, p_s - p_s\, p_r$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $p$ | `weights`: the softmax's *output* | $(\ldots, S)$ |
# | $J$ | returned | $(\ldots, S, S)$ |
#
# **By hand.** $p = (0.8,\ 0.2)$: on the diagonal $0.8 - 0.64 = 0.16$ and $0.2 - 0.04 = 0.16$, off
# it $-0.8 \cdot 0.2 = -0.16$ twice. Each row sums to 0.
#
# **NumPy you need.** Indexing with `None` inserts an axis of length 1, and a column against a row
# broadcasts to a table:
#
# ```python
# heights = np.array([3.0, 5.0, 9.0])
# heights[:, None] - heights[None, :]   # [[ 0. -2. -6.] [ 2.  0. -4.] [ 6.  4.  0.]]
# np.ones((7, 3))[..., None, :].shape   # (7, 1, 3): `...` stands for all axes before
# ```
#
# `np.eye(3)` is the 3 × 3 identity, which is $\delta_{sr}$. Two short cuts fail here: `np.diag`
# does not work on stacks, and for one axis `p @ p.T` is a single number.
#
# <details><summary>Predict first: for which weights of two keys is the Jacobian largest, and for
# which is it exactly 0?</summary>
#
# Largest at (0.5, 0.5), where $p(1-p) = 0.25$. Exactly 0 at (1, 0) and (0, 1), the hard
# dictionary.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.attention import softmax_jacobian

# %% [markdown]
# **What you should see.** A softmax over two keys, more and more certain: the entries fall with the
# smaller of the two weights.

# %%
if ready(softmax_jacobian):
    for p in (0.5, 0.9, 0.99, 0.999):
        row = softmax_jacobian(np.array([p, 1 - p]))[0]
        print(f"weights ({p}, {1 - p:.3g})   first row of J: {row[0]:.6f} {row[1]:.6f}")

# %% [markdown]
# What does a large spread of the scores (section 5) do to the softmax? Move the slider. The entropy
# says how many keys share the weight: $\ln S$ if all are equal, 0 if one has everything. The size
# of a Jacobian is the root of the sum of its squares. Without the scale it rises a little up to
# $D = 4$, and then it falls.

# %%
widgets.dk_explorer()

# %% [markdown]
# ## 7 · The gradient, by hand
#
# Training needs the gradient of a loss $L$ with respect to $Q$, $K$ and $V$. From here on $dX$
# means $\partial L/\partial X$; it has the shape of $X$. You are given $dO$. Go backwards through
# $Z = QK^\top/\sqrt D$, $P = \operatorname{softmax}(Z)$ and $O = PV$.
#
# **Through the mean.** $O_{tc} = \sum_s P_{ts} V_{sc}$. The gradient of a value sums over all
# queries, that of a weight over all columns of $V$:
#
# $$\begin{gathered}
# dV_{sc} = \sum_t P_{ts}\, dO_{tc} \;\Rightarrow\; dV = P^\top dO, \\
# dP_{ts} = \sum_c dO_{tc} V_{sc} \;\Rightarrow\; dP = dO\, V^\top .
# \end{gathered}$$
#
# **Through the softmax.** A score moves all weights of its row, by the Jacobian:
#
# $$\begin{aligned}
# dZ_{ts} &= \sum_r dP_{tr}\, P_{tr} (\delta_{rs} - P_{ts}) \\
# &= P_{ts} \Big( dP_{ts} - \sum_r P_{tr}\, dP_{tr} \Big) .
# \end{aligned}$$
#
# So each $dP_{ts}$ is compared with its mean under the weights of query $t$. With $\circ$ for the
# product entry by entry, $dZ = P \circ (dP - \operatorname{rowsum}(P \circ dP))$. You never need
# the Jacobian itself: at $T = S = 1024$ it would take $1024^3$ float64s, 8.6 GB.
#
# **Through the dot product.** $dQ = dZ\, K/\sqrt D$ and $dK = dZ^\top Q/\sqrt D$.

# %% [markdown]
# <!-- exercise: attention_backward -->
#
# **Why.** The five equations of this section are the backward pass of scaled dot-product attention.
# $dP$ and $dZ$ have the shape of $P$, $(\ldots, T, S)$. A transpose swaps the last two axes only.
# Your forward function gives you $P$ again, as the second of its results.
#
# | gradient | name | shape |
# |---|---|---|
# | $dO$ | `grad_output`, given | $(\ldots, T, D_v)$ |
# | $dQ$ | `grad_q`, first result | $(\ldots, T, D)$ |
# | $dK$ | `grad_k`, second result | $(\ldots, S, D)$ |
# | $dV$ | `grad_v`, third result | $(\ldots, S, D_v)$ |
#
# **By hand.** $D = 4$, one query, keys $k_1 = (1,0,0,0)$ and $k_2 = (0,2,0,0)$, weights $P =
# (0.75,\ 0.25)$, values $2$ and $6$, $dO = 1$.
#
# 1. $dV = (0.75,\ 0.25)$ and $dP = (2,\ 6)$.
# 2. The row sum is $0.75 \cdot 2 + 0.25 \cdot 6 = 3$.
# 3. $dZ_1 = 0.75 \cdot (2 - 3) = -0.75$ and $dZ_2 = 0.25 \cdot (6 - 3) = 0.75$. They sum to 0.
# 4. $dQ = (-0.75\,k_1 + 0.75\,k_2)/2$, that is $(-0.375,\ 0.75,\ 0,\ 0)$: to raise the output,
#    turn the query away from the key with the small value and towards the other.
# 5. $dK$: key 1 gets $-0.75\,q/2$, key 2 gets $+0.75\,q/2$.
#
# <details><summary>Predict first: all values are the same vector. What are dQ and dK? And what is
# dZ if the weights are exactly (1, 0)?</summary>
#
# All zero. With equal values no change of the weights changes the output: $dP$ is the same for
# all keys, and minus its mean it is 0. With weights (1, 0) the mean is $dP_1$ itself, and the
# other entry is multiplied by 0. No gradient gets through, as in the first picture.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.attention import attention_backward

# %% [markdown]
# **What you should see.** A gradient can be tested numerically: move one number by a tiny step both
# ways and see how much the loss changes. All three differences should be far below a millionth.

# %% jupyter={"source_hidden": true}
if ready(scaled_dot_product_attention, attention_backward):
    rng = np.random.default_rng(SEED)
    inputs = {"q": rng.standard_normal((4, 6))}  # T = 4, D = 6
    inputs |= {"k": rng.standard_normal((5, 6)), "v": rng.standard_normal((5, 3))}  # S = 5, D_v = 3
    grad_output = rng.standard_normal((4, 3))
    gradients = attention_backward(**inputs, grad_output=grad_output)
    h = 1e-5
    for (name, array), gradient in zip(inputs.items(), gradients, strict=True):
        slopes = np.zeros_like(array)
        for index in np.ndindex(array.shape):
            losses = []
            for step in (h, -h):
                moved = {key: value.copy() for key, value in inputs.items()}
                moved[name][index] += step
                output, _ = scaled_dot_product_attention(**moved)
                losses.append((output * grad_output).sum())
            slopes[index] = (losses[0] - losses[1]) / (2 * h)
        print(f"grad_{name}: largest difference {np.abs(slopes - gradient).max():.0e}")

# %% [markdown]
# <!-- exercise: repaired_backward -->
#
# **Why.** A wrong gradient often raises no error; the model just trains badly. Here is a
# colleague's version. Its one test passes; one line is wrong.


# %%
def suspect_backward(q, k, v, grad_output):
    _, p = scaled_dot_product_attention(q, k, v)
    root = q.shape[-1] ** 0.5
    dp = grad_output @ np.swapaxes(v, -1, -2)
    dz = p * (dp - dp.mean(axis=-1, keepdims=True))
    dq, dk = dz @ k / root, np.swapaxes(dz, -1, -2) @ q / root
    dv = np.swapaxes(p, -1, -2) @ grad_output
    return dq, dk, dv


# %%
if ready(scaled_dot_product_attention, attention_backward):
    q, k, v = np.eye(3), np.ones((5, 3)), np.arange(10.0).reshape(5, 2)
    test = q, k, v, np.eye(3)[:, :2]  # the last is dO
    pairs = zip(suspect_backward(*test), attention_backward(*test), strict=True)
    print("test passes:", all(np.allclose(a, b) for a, b in pairs))

# %% [markdown]
# <details><summary>Predict first, from the code: on random inputs, which of its gradients differ
# from yours? And what hides that in the test?</summary>
#
# $dQ$ and $dK$ differ; $dV$ never does. The test has five equal keys, so all weights are 1/5.
#
# </details>

# %%
drawn = np.random.default_rng(SEED).standard_normal((4, 5, 8))  # q, k, v and dO
if ready(scaled_dot_product_attention, attention_backward):
    pairs = zip(suspect_backward(*drawn), attention_backward(*drawn), strict=True)
    print("dQ, dK and dV differ by", [float(np.abs(a - b).max().round(3)) for a, b in pairs])

# %% tags=["exercise"]
from attend_solutions.attention import repaired_backward

# %% [markdown]
# The plain mean of $dP$ is the weighted mean wherever all weights are equal, as in the test.
#
# <details><summary>Shorter still: dO ∘ O</summary>
#
# The forward output, thrown away here, can replace a sum:
#
# $$\begin{aligned}
# \sum_s P_{ts}\, dP_{ts} &= \sum_c dO_{tc} \sum_s P_{ts} V_{sc} \\
# &= \sum_c dO_{tc}\, O_{tc} ,
# \end{aligned}$$
#
# so the row sum of $P \circ dP$ is the row sum of $dO \circ O$. FlashAttention uses this: it sums
# $D_v$ numbers that are at hand, instead of $S$ weights that were never stored.
#
# </details>

# %%
if ready(attention_backward, repaired_backward):
    pairs = zip(attention_backward(*drawn), repaired_backward(*drawn), strict=True)
    print("your two backward passes differ by", max(np.abs(a - b).max() for a, b in pairs))

# %% [markdown]
# ## 8 · Experiment: what does the scale do to the gradient?
#
# The paper is careful: "We *suspect* that for large values of $d_k$, the dot products grow large
# in magnitude, pushing the softmax function into regions where it has extremely small gradients"
# (§3.2.1, our emphasis). There are two opposite effects: without the scale the Jacobian shrinks,
# but the factor $1/\sqrt D$ in $dQ$ is gone too, so what gets through is $\sqrt D$ times larger.
#
# <details><summary>Predict first: at D = 512 and with 8 random keys, is ‖dQ‖ without the scale
# smaller or larger than with it? For the median query? On average?</summary>
#
# Both! The median is hundreds of times smaller, the mean about three times larger.
#
# </details>


# %%
def query_gradients(d, scaled, seed):
    """‖dQ‖ of 1,000 random queries, each with 8 random keys and a random dO: shape (1000,)."""
    rng = np.random.default_rng(seed)
    q, k = rng.standard_normal((1000, 1, d)), rng.standard_normal((1000, 8, d))
    v, grad_output = rng.standard_normal((1000, 8, 4)), rng.standard_normal((1000, 1, 4))
    factor = 1.0 if scaled else d**0.5  # multiplying q by √D cancels the scale inside
    grad_q, _, _ = attention_backward(factor * q, k, v, grad_output)
    return np.linalg.norm(factor * grad_q, axis=-1)[:, 0]


# %% jupyter={"source_hidden": true}
if ready(scaled_dot_product_attention, attention_backward):
    rows, colors, dashes, shares = [], {}, {}, {}
    print("D = 512, smallest to largest of 5 seeds")
    for d in (1, 4, 16, 64, 256, 512):
        for scaled, name in ((True, "with the scale"), (False, "without")):
            norms = [query_gradients(d, scaled, seed) for seed in range(5)]
            top = [np.sort(n**2)[-100:].sum() / (n**2).sum() for n in norms]
            small = [float((n < 0.05).mean()) for n in norms]
            shares[d, scaled] = f"{min(small):.1%} to {max(small):.1%}"
            said = f"{name}:"
            for kind, measure in (("median", np.median), ("mean", np.mean)):
                found = [float(measure(n)) for n in norms]
                said += f" {kind} {min(found):.2g} to {max(found):.2g},"
                queries = f"{kind}, {name}"
                rows += [{"D": d, "norm": y, "queries": queries} for y in found]
                colors[queries] = charts.SCALED if scaled else charts.UNSCALED
                dashes[queries] = [1, 0] if kind == "median" else [7, 3]
            if d == 512:
                print(f"{said} top tenth {min(top):.0%} to {max(top):.0%}")
                there, at_64 = shares[512, scaled], shares[64, scaled]
                print(f"  ‖dQ‖ below 0.05: {there} of the queries (at D = 64: {at_64})")
    display(
        charts.bands(
            rows,
            "D",
            "norm",
            "queries",
            title="Without the scale, 8 keys: the median collapses beyond D = 64",
            description="Norm of the gradient of a query against the width D, median and mean of "
            "1,000 queries, range over 5 seeds. With the scale both level off near 0.6. Without, "
            "the mean rises to about 2 while the median falls to 0.001 to 0.002 at D = 512.",
            x_title="width D of queries and keys (log scale)",
            y_title="norm of dQ (log scale)",
            log_x=2,
            log_y=10,
            colors=colors,
            dashes=dashes,
        )
    )

# %% [markdown]
# The control is $D = 1$, where $\sqrt D = 1$ and both variants are the same. At $D = 512$, ‖dQ‖
# over five seeds (top tenth: the share of $\sum \|dQ\|^2$ that the largest tenth carries):
#
# | scale | median | mean | top tenth | below 0.05 |
# |---|---|---|---|---|
# | with | 0.55 to 0.56 | 0.62 to 0.65 | 40 to 42 % | 0 to 0.2 % |
# | without | 0.001 to 0.002 | 1.9 to 2.3 | 96 to 98 % | 63 to 66 % |
#
# So "the gradient vanishes" is true of two queries in three and false on average; at the paper's
# $D = 64$ it is true of about 3 in 10. Most of what is left comes from queries whose weight is
# mostly shared by two keys.
#
# **What this does not show.** Many keys: with 256 random keys at $D = 512$ the two medians are of
# the same order (although without the scale 4 queries in 10 are below 0.05, with it at most 2 in
# 100). Other variances: with 1/3 in queries and keys, at $D = 512$, the median without the scale
# is the larger one.

# %% [markdown]
# ### Does the scale make the model better?
#
# **The model** has two matrices, $q = x W_q$ and $k = x W_k$, and is trained by plain gradient
# descent. **The task:** 32 items, each with a random vector of 16 numbers and a value; a question
# is a copy of one item's vector, and the target is its value. Each step draws two new examples. The
# plain mean of all values has a loss of 0.97, an item picked at random one of 1.94.
#
# A model without the scale could start $W_q$ and $W_k$ smaller by $D^{-1/4}$ each. Then its first
# scores are those of the scaled model. Does it also learn like the scaled model?
#
# <details><summary>Predict first, with pencil: this model learns at rate r. At which rate does the
# scaled model take exactly the same steps?</summary>
#
# At $r\sqrt D$. Write $W$ for a matrix of the scaled model and $w = D^{-1/4} W$ for its partner.
# Scores agree, because the two factors $D^{-1/4}$ make the $1/\sqrt D$. By the chain rule $dW =
# D^{-1/4} dw$, so a step of the scaled model at rate $R$ moves $w$ by $D^{-1/4} R\, D^{-1/4} dw =
# (R/\sqrt D)\, dw$. For $R = r\sqrt D$ that is $r\,dw$. So the two models are one.
#
# </details>

# %% jupyter={"source_hidden": true}
RUNS, EXAMPLES, ITEMS, NUMBERS, STEPS = 8, 2, 32, 16, 100


def lookup_task(rng):
    """Questions and items (RUNS, EXAMPLES, ITEMS, NUMBERS), values and targets (…, ITEMS, 4)."""
    items = rng.standard_normal((RUNS, EXAMPLES, ITEMS, NUMBERS))
    values = rng.standard_normal((RUNS, EXAMPLES, ITEMS, 4))
    order = rng.permuted(np.tile(np.arange(ITEMS), (RUNS, EXAMPLES, 1)), axis=-1)[..., None]
    questions, targets = (np.take_along_axis(a, order, axis=-2) for a in (items, values))
    return questions, items, values, targets


def weight_gradient(inputs, grad):
    """Gradient of W in `inputs @ W`, summed over examples and items: (RUNS, 1, NUMBERS, D)."""
    inputs = inputs.reshape(RUNS, EXAMPLES * ITEMS, NUMBERS)
    return (np.swapaxes(inputs, 1, 2) @ grad.reshape(RUNS, EXAMPLES * ITEMS, -1))[:, None]


def train(d, scaled, rate, start=1.0, seed=SEED):
    """Train 8 models at once; return the loss of every step and run: (STEPS, RUNS)."""
    rng = np.random.default_rng(seed)
    w_q, w_k = start * rng.standard_normal((2, RUNS, 1, NUMBERS, d)) / NUMBERS**0.5
    factor, losses = 1.0 if scaled else d**0.5, np.empty((STEPS, RUNS))
    for step in range(STEPS):
        questions, items, values, targets = lookup_task(rng)
        q, k = factor * (questions @ w_q), items @ w_k
        error = scaled_dot_product_attention(q, k, values)[0] - targets
        losses[step] = (error**2).mean(axis=(1, 2, 3))
        grad_q, grad_k, _ = attention_backward(q, k, values, 2 * error / error[0].size)
        w_q = w_q - rate * weight_gradient(questions, factor * grad_q)
        w_k = w_k - rate * weight_gradient(items, grad_k)
    return losses


# %% [markdown]
# The next cell compares these two at $D = 256$. Then it trains models whose start does *not* know
# $D$, each at the best of eight rates between 0.1 and 20, chosen on eight other runs. It takes
# about 20 seconds.

# %% jupyter={"source_hidden": true}
ARMS = {  # is it scaled, and the standard deviation of the first queries and keys
    "with the scale": (True, 1.0),
    "without": (False, 1.0),
    "without, PyTorch's start": (False, 3**-0.5),
}
if ready(scaled_dot_product_attention, attention_backward):
    pair = train(256, True, 256**0.5), train(256, False, 1.0, start=256**-0.25)
    print(f"the smaller start: largest difference of {STEPS * RUNS} losses", np.ptp(pair, 0).max())
    rows = []
    for d in (16, 64, 256):
        for name, (scaled, start) in ARMS.items():
            tried = {
                r: float(np.nan_to_num(train(d, scaled, r, start, SEED + 1).mean(), nan=9.0))
                for r in np.geomspace(0.1, 20, 8)
            }
            rate = min(tried, key=lambda r: tried[r])
            runs = train(d, scaled, rate, start).mean(axis=0)
            rows += [{"D": d, "loss": float(loss), "model": name} for loss in runs]
            print(f"D = {d:3d}  {name:24s}  rate {rate:4.2g}  {runs.min():.2f} to {runs.max():.2f}")
    display(
        charts.bands(
            rows,
            "D",
            "loss",
            "model",
            title="Started with variance 1, the missing scale costs time",
            description="Mean loss of the first 100 steps against the width D, mean and range of 8 "
            "runs, each arm at its own rate. With the scale the loss is low at every width; "
            "without it, it rises with D, later from PyTorch's start than from variance 1.",
            x_title="width D of queries and keys (log scale)",
            y_title="mean squared error, mean of steps 1 to 100",
            log_x=2,
            colors={
                "with the scale": charts.SCALED,
                "without": charts.UNSCALED,
                "without, PyTorch's start": charts.GROUPS[0],
            },
        )
    )

# %% [markdown]
# The difference is exactly zero (at $D = 64$, rounding leaves 4e-16): the two take the same steps.
# So here the scale is a choice of start and rate, nothing more.
#
# Started with variance 1, the model without the scale is slower at all three widths, least at 16,
# where single runs may overlap. From PyTorch's start, with variance 1/3, it is nearly as fast as
# the scaled model at $D = 16$, somewhat slower at $64$, and much slower at $256$. With the scale,
# one start serves all three, each with its own rate.
#
# **What this does not show.**
#
# - That the scale helps at every width: from PyTorch's start in both arms, the mean loss with the
#   scale is higher at $D = 16$ (0.14 against 0.12), lower at $64$ (0.09 against 0.11) and at $256$
#   (0.07 against 0.2).
# - That the slow arm ends worse: after 500 steps at $D = 64$ both arms, with their rates chosen
#   anew (the slow arm's is the lowest tried), end between 0.02 and 0.05 (mean of the last 50
#   steps).
# - That it is so with other optimisers, or where other parameters share the rate.

# %% [markdown]
# ## 9 · Break it
#
# - **Long vectors.** The scale corrects for the width, not for the length. Multiply the tokens by
#   10 and the scores grow by a factor of 100: "mat" saturates although $D$ is only 2. Some models
#   therefore normalise queries and keys first (QK-norm, Henry et al. 2020).
# - **No order.** Shuffle the tokens and the outputs are shuffled the same way. Without a mask or
#   positions, attention treats a sentence as a bag of words: chapter 06.
# - **All keys hidden.** A score of $-\infty$ hides a key. If all keys are hidden, the weights are
#   not numbers: chapter 04 decides what they should be.
# - **float16.** Its largest number is 65,504. A dot product of 102,400 is infinite, and dividing
#   afterwards comes too late. If you divide the query *before* the product, it is 12,800. Which
#   does your function do? (`inf`: it divides afterwards. The check accepts both.)

# %%
if ready(softmax, attention_scores, scaled_dot_product_attention):
    for stretch in (1, 10):
        _, weights = scaled_dot_product_attention(stretch * x, stretch * x, x)
        print(f"tokens × {stretch:2d}: weights of mat", weights[2])
    order = [2, 0, 1]
    output, moved = (scaled_dot_product_attention(y, y, y)[0] for y in (x, x[order]))
    print("shuffling first or last is the same:", np.allclose(moved, output[order]))
    with np.errstate(all="ignore"):  # the warnings are the point here; the numbers say it as well
        print("all keys hidden:", softmax(np.full(3, -np.inf)))
        big = np.full((1, 64), 40.0, dtype=np.float16)
        print("float16, your scores:", attention_scores(big, big))

# %% [markdown]
# **Memory.** Storing $P$ takes $T \times S$ numbers in every head of every layer: in float32, 4.2
# MB at 1,024 tokens and 69 GB at 131,072.
#
# ## A postcard
#
# > $O = \operatorname{softmax}(QK^\top/\sqrt D)\,V$: a soft dictionary. Query · key says how much,
# > the value says what, and the output is a mean of values.
# >
# > Softmax depends on differences of scores only. Its Jacobian $\operatorname{diag}(p) - pp^\top$
# > goes to 0 when one key gets all the weight.
# >
# > For independent components with mean 0 and variance 1, a dot product has variance $D$. Without
# > $1/\sqrt D$, at $D = 512$ with 8 keys, a tenth of the queries carries about 97 % of
# > $\sum \|dQ\|^2$. Under plain gradient descent, starting $W_q$ and $W_k$ smaller by $D^{-1/4}$
# > and training at another rate *is* the scaled model.
# >
# > Backward: $dZ = P \circ (dP - \operatorname{rowsum}(P \circ dP))$, and that row sum is
# > $\operatorname{rowsum}(dO \circ O)$.
#
# **Before:** chapter 02, where a decoder learned to look back. **Next:** chapter 04, who may look
# at whom.
#
# ## Sources
#
# - Attention and its scale: Vaswani et al. 2017, *Attention Is All You Need*, §3.2.1, equation (1)
#   and footnote 4.
# - Ancestors: Nadaraya 1964, *On Estimating Regression*; Watson 1964, *Smooth Regression
#   Analysis*; Graves et al. 2014, *Neural Turing Machines*, §3.3.1; Luong et al. 2015, *Effective
#   Approaches to Attention-based Neural Machine Translation*, §3.1; Miller et al. 2016, *Key-Value
#   Memory Networks for Directly Reading Documents*.
# - Softmax: Milakov and Gimelshein 2018, *Online normalizer calculation for softmax*, §2; its
#   derivative: Bishop 2006, *Pattern Recognition and Machine Learning*, equation (4.106).
# - Backward, and $dO \circ O$: Dao et al. 2022, *FlashAttention*, appendix B.2.
# - $1/D$ for wide models: Yang et al. 2022, *Tensor Programs V*, definition 4.1.
# - Normalised queries and keys: Henry et al. 2020, *Query-Key Normalization for Transformers*.
# - The digits: Alpaydin and Kaynak 1998, *Optical Recognition of Handwritten Digits*, UCI.
# - Colours: Okabe and Ito 2008, *Color Universal Design*.
