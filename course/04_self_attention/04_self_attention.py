# %% [markdown]
# # 04 · Self-attention and masks
#
# **Who may look at whom?** Run the next cell (Shift+Enter): a model of one attention layer learns
# to guess the next letter. Then click the first grey cell to the right of
# the coloured staircase.

# %%
from attend import widgets

widgets.the_cheat()

# %% [markdown]
# The click let every row see the letter it has to guess. The loss drops to nearly 0, and the model
# is useless: when it writes, the letter ahead does not exist yet. The coloured cells are the
# **mask**. You write self-attention and its masks, for the future and for filling, and use a test
# that finds a leak without opening the model. Then this model runs on your functions.
#
# It takes about two hours. You need Python, a little NumPy, and the idea of attention: weights from
# scores, then a weighted mean (chapter 03). `check(...)` says what is wrong, `hint(...)` helps, and
# `solution(...)` shows the course's answer. A cell that needs a function you have not written yet
# says so. With float32, results to 10⁻⁵ are enough.

# %%
import numpy as np
from attend import charts
from attend.data import number_words
from attend.leaks import influence, leak_test
from attend_grader import check, hint, ready, solution
from attend_solutions.attention import attention_scores, softmax  # chapter 03
from attend_solutions.types import Array, Integers, Mask  # of floats, whole numbers, booleans
from IPython.display import display

SEED = 4
np.set_printoptions(precision=3, suppress=True)

# %% [markdown]
# ## 1 · Who looks at whom
#
# In attention a query is compared with keys, the scores become weights, and the answer is the
# weighted mean of the values. In **self-attention** all three come from the same sentence $x$:
#
# $$Q = x W_q, \qquad K = x W_k, \qquad V = x W_v,$$
#
# $$P = \operatorname{softmax}\!\left(\frac{Q K^\top}{\sqrt D}\right), \qquad O = P\,V .$$
#
# Read $P$ as a graph: $P_{ts}$ is an arrow that carries something from token $s$ to token $t$. On
# paper a softmax gives every key a weight above 0, so without a mask *every* arrow exists, and the
# sentence only decides how strong each one is. Which arrows exist at all is decided by the mask
# $M$, a table of booleans: $M_{ts}$ is True where query $t$ may look at key $s$. It hides the
# *future* and *filling*, because sentences of different lengths share one array.
#
# Letters: $T$ queries, $S$ keys (in self-attention $T = S$), $B$ sentences in a batch, $C$ numbers
# in a token, $D$ in a query or key, $D_v$ in a value, and three dots for any leading axes.

# %% [markdown]
# <!-- exercise: masked_softmax -->
#
# **Why.** To hide a key is to give it the weight 0, *exactly* 0, and to share its weight out among
# the others. On paper no finite score has the exponential 0, but $-\infty$ does:
#
# $$\begin{gathered}
# \tilde z_s = \begin{cases} z_s & \text{if } M_s \\ -\infty & \text{otherwise} \end{cases} \\
# p_s = \frac{e^{\tilde z_s - m}}{\sum_r e^{\tilde z_r - m}}, \qquad m = \max_r \tilde z_r .
# \end{gathered}$$
#
# Hide first, then take the maximum: a hidden score of 1,000 would push all visible ones down to
# $e^{-1000}$, which is rounded to 0.
#
# **When nothing is left.** If *all* places of a row are hidden, $m = -\infty$, and $-\infty -
# (-\infty)$ is not a number (NaN), which spreads to the whole loss.
# The course gives them the weight 0, as PyTorch 2.13's `scaled_dot_product_attention`
# does.
#
# | symbol | argument | shape |
# |---|---|---|
# | $z$ | `scores` | $(\ldots, S)$, usually $(\ldots, T, S)$; $S \ge 1$ |
# | $M$ | `mask`, always booleans; True: may look; None hides nothing | broadcasts with the scores |
# | $p$ | returned; the last axis is normalised | what both broadcast to |
#
# **By hand.** Scores $(2, 9, 2)$, mask (True, False, True): the visible ones are equal, so the
# weights are $(0.5,\ 0,\ 0.5)$.
#
# **NumPy you need.** `np.where(condition, a, b)` takes `a` where the condition is True and `b`
# elsewhere; all three broadcast:
#
# ```python
# degrees = np.array([[12.0, 31.0, 8.0], [25.0, 33.0, 19.0]])     # (2, 3): two cities, three days
# np.where(degrees > 30, 30.0, degrees)                            # [[12. 30. 8.] [25. 30. 19.]]
# ```
#
# `degrees.max(axis=-1, keepdims=True)` has the shape $(2, 1)$ and broadcasts back.
# `np.exp(-np.inf)` is exactly 0, and `-np.inf == -np.inf` is True. To avoid NaN, replace a maximum
# of $-\infty$ by 0 and a sum of 0 by 1. `a -= b` would write into the caller's array.
#
# <details><summary>Predict first: somebody hides by multiplying, scores * mask. What weight does a
# hidden key get if the visible scores are −1 and −2?</summary>
#
# The largest of all. Its score becomes 0, which is more than −1 and −2.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.self_attention import masked_softmax

# %% [markdown]
# **What you should see.** Hidden places are 0, visible ones keep their proportions, and the last
# row is 0.

# %%
if ready(masked_softmax):
    for row in np.array([[1, 1, 1], [1, 1, 0], [0, 1, 0], [0, 0, 0]], dtype=bool):
        weights = masked_softmax(np.array([0.0, 1.0, 2.0]), row)
        print("may look:", row.astype(int), "  weights:", weights)

# %% [markdown]
# ## 2 · A sentence looks at itself, or at another

# %% [markdown]
# <!-- exercise: self_attention -->
#
# **Why.** These are section 1's equations, with your `masked_softmax` as the softmax.
# What a token looks for, what it is found by and what it passes on can differ, so there are three
# matrices. All tokens share them, so the sentence may have any length.
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$ | `x`, the sentence | $(\ldots, T, C)$ |
# | $W_q$, $W_k$, $W_v$ | `w_q`, `w_k`, `w_v` | $(C, D)$, $(C, D)$, $(C, D_v)$ |
# | $M$ | `mask`, or None | broadcasts with $(\ldots, T, T)$ |
# | $O$ | output, first result | $(\ldots, T, D_v)$ |
# | $P$ | weights, second result | $(\ldots, T, T)$ |
#
# **By hand.** Two tokens $x = \begin{pmatrix} 2 & 0 \\ 0 & 4 \end{pmatrix}$. With $W_q = 0$ all
# scores are 0 and the weights are $0.5$ each; with $W_v$ the identity both outputs are the mean,
# $(1, 2)$. If the first token may look only at itself, its output is $(2, 0)$.
#
# **NumPy you need.** `x @ w` multiplies every token of every sentence by `w`.
# `attention_scores(q, k)` is $QK^\top/\sqrt D$, the division included.
#
# <details><summary>Predict first: w_q and w_k are the same matrix, and there is no mask. Are the
# weights a symmetric table?</summary>
#
# The scores are: $q_t \cdot k_s = q_s \cdot k_t$. The weights are not, because each row is divided
# by its own sum.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.self_attention import self_attention

# %% [markdown]
# **What you should see.** The row of sat turns from 0.198, 0.401, 0.401 into 0.330, 0.670, 0: two
# shares keep their proportion. When "mat" becomes another token, every row changes without a mask;
# under the mask the rows of cat and sat stay.

# %%
if ready(masked_softmax, self_attention):
    no_future = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=bool)
    for last in ([1.0, 1.0], [3.0, 0.0]):
        sentence = np.array([[1.0, 0.0], [0.0, 1.0], last])  # cat, sat, mat
        for mask, kind in ((None, "no mask"), (no_future, "no future")):
            _, weights = self_attention(sentence, np.eye(2), np.eye(2), np.eye(2), mask)
            print(f"mat = {last}, {kind}:", *(str(row) for row in weights), sep="\n   ")

# %% [markdown]
# <!-- exercise: cross_attention -->
#
# **Why.** A translator writes French while looking at English: the French words ask, and the
# English ones answer. In **cross-attention** keys and values come from another text, the
# **context** $c$; self-attention is the case $c = x$.
#
# $$Q = x W_q, \qquad K = c\, W_k, \qquad V = c\, W_v$$
#
# | symbol | argument | what differs from self-attention |
# |---|---|---|
# | $c$ | `context` | $(\ldots, S, C_c)$: $S$ tokens of another width, leading axes as in $x$ |
# | $W_k$, $W_v$ | `w_k`, `w_v` | $(C_c, D)$, $(C_c, D_v)$ |
# | $M$, $P$ | `mask`, second result | $(\ldots, T, S)$ |
#
# **By hand.** One query; a context of three tokens $2$, $4$ and $9$ (so $C_c = 1$), with equal
# scores, and $W_v = (1)$. The output is their mean, $5$. If the mask hides the third, it is $3$.
#
# <details><summary>Predict first: should the mask of cross-attention be causal?</summary>
#
# No. The English sentence is there as a whole before the first French word is written. What must be
# hidden is its filling. The causal mask belongs to the French text's *self*-attention.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.self_attention import cross_attention

# %% [markdown]
# **What you should see.** "noir" looks at "black" and "chat" at "cat", each with the weight 0.94,
# though they stand in another order. The matrices are written by hand.

# %%
french, english = ["le", "chat", "noir"], ["the", "black", "cat"]
context = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]])  # article, colour, animal, noun
ask_for = 6 * np.array([[1.0, 0, 0], [0, 0, 1], [0, 1, 0]])  # (C, D): article, animal, colour
if ready(masked_softmax, cross_attention):
    _, weights = cross_attention(np.eye(3), context, ask_for, np.eye(4, 3), np.eye(4))
    display(widgets.attention_explorer(french, weights, key_tokens=english))

# %% [markdown]
# ## 3 · Does it notice the order?
#
# A **permutation matrix** $\Pi$ has a single 1 in each row and each column, so $\Pi x$ holds the
# rows of $x$ in another order, and $\Pi^\top \Pi = I$. Put $\Pi x$ into self-attention without a
# mask. Queries, keys and values move in the same way, since each is made from its own token. The
# scores become
#
# $$(\Pi Q)(\Pi K)^\top = \Pi\,(Q K^\top)\,\Pi^\top ,$$
#
# the old table with its rows and columns moved. So are the weights, because the softmax works on
# each row by itself, and the output is $\Pi P \Pi^\top\, \Pi V = \Pi P V$:
#
# $$f(\Pi x) = \Pi f(x) . \tag{1}$$
#
# The outputs move as the tokens did and are otherwise the same: **permutation equivariance**. Most
# masks break this, because they have not moved. If one moves along, in rows and columns, the
# equation holds again. With $f_M$ for self-attention under $M$:
#
# $$f_{\Pi M \Pi^\top}(\Pi x) = \Pi f_M(x) . \tag{2}$$

# %% [markdown]
# <!-- exercise: permutation_matrix_test -->
#
# **Why.** A proof is about equations; your code might do something else. Compute both sides.
#
# | result | equation | in words |
# |---|---|---|
# | `expected` | $\Pi f_M(x)$ | output moved afterwards |
# | `mask_stays` | $f_M(\Pi x)$ | tokens moved, the mask left as it is |
# | `mask_moves` | $f_{\Pi M \Pi^\top}(\Pi x)$ | tokens moved, and the mask moved along |
#
# `order`, of shape $(T,)$, says which row of $x$ becomes row $i$ of $\Pi x$: row `order[i]`. Here
# $x$ is $(T, C)$ and $M$ is $(T, T)$, or None in all three; the matrices are those of
# `self_attention`. Return the three outputs, each $(T, D_v)$, not the weights.
#
# **By hand.** $x = (3, 9, 6)$, all scores are 0, the values are $x$, and the mask hides the future,
# so $f_M(x) = (3, 6, 6)$: means of the tokens so far. The order is $(2, 0, 1)$.
#
# $$\begin{gathered}
# \Pi = \begin{pmatrix} 0 & 0 & 1 \\ 1 & 0 & 0 \\ 0 & 1 & 0 \end{pmatrix}, \qquad \Pi x = (6, 3,
# 9), \\
# \Pi M \Pi^\top = \begin{pmatrix} 1 & 1 & 1 \\ 0 & 1 & 0 \\ 0 & 1 & 1 \end{pmatrix} .
# \end{gathered}$$
#
# - `expected`: $(6, 3, 6)$.
# - `mask_stays`: means of $6, 3, 9$ so far, $(6,\ 4.5,\ 6)$.
# - `mask_moves`: $(6+3+9)/3 = 6$, then $3$, then $(3 + 9)/2 = 6$: the same as `expected`.
#
# **NumPy you need.** Index with a list of whole numbers to get those rows, in that order:
#
# ```python
# names = np.array([["Ada", "Lovelace"], ["Alan", "Turing"], ["Grace", "Hopper"]])
# names[[2, 0, 1]]                      # Grace Hopper, Ada Lovelace, Alan Turing
# ```
#
# `np.eye(3)` is the identity. `p @ mask @ p.T` counts True as 1; `numbers > 0` makes booleans.
#
# <details><summary>Predict first: which masks stay the same, whatever the order?</summary>
#
# Those in which all places of the diagonal are alike and all others are alike: everything allowed,
# only itself allowed, all but itself, nothing. For every other mask there is an order that it
# notices.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.self_attention import permutation_matrix_test

# %% [markdown]
# **What you should see.** Differences to `expected`. Without a mask both are rounding. With one,
# leaving it makes a difference as large as the outputs themselves; moving it along, only rounding.

# %%
rng = np.random.default_rng(SEED)
T, C = 8, 16
text = rng.standard_normal((T, C))
w_q, w_k, w_v = rng.standard_normal((3, C, C)) / np.sqrt(C)  # D = D_v = C
order = rng.permutation(T)
distance = np.arange(T) - np.arange(T)[:, None]  # from query to key: above 0 is ahead

if ready(masked_softmax, self_attention, permutation_matrix_test):
    for mask, name in (
        (None, "no mask"),
        (distance <= 0, "no future"),
        (abs(distance) <= 1, "neighbours only"),
    ):
        expected, *sides = permutation_matrix_test(order, text, w_q, w_k, w_v, mask)
        stays, moves = (np.abs(side - expected).max() for side in sides)
        print(f"{name:16s} mask left: {stays:.1e}   mask moved along: {moves:.1e}")

# %% [markdown]
# ## 4 · Hiding the future
#
# A model that writes factors a text's probability into guesses of the next token,
#
# $$p(x_0, \ldots, x_T) = p(x_0) \prod_{t=1}^{T} p(x_t \mid x_0, \ldots, x_{t-1}) .$$
#
# Training computes all factors in one pass, so row $t$ may see nothing after token $t$. The mask
# for that is the **causal mask**, $M_{ts} = (s \le t)$.

# %% [markdown]
# <!-- exercise: causal_mask -->
#
# **Why.** In training there are as many queries as keys. In writing, one new token after 100 others
# is 1 query with 101 keys. So the queries are the *last* $T$ of the $S$ places, query $t$ stands at
# place $t + S - T$, and
#
# $$\begin{gathered}
# M_{ts} = \big(s \le t + S - T\big), \\
# t = 0 \ldots T - 1, \\
# s = 0 \ldots S - 1 .
# \end{gathered}$$
#
# The arguments are `queries`, $T$, and `keys`, $S$; None means as many as queries. The mask is
# $(T, S)$. With fewer keys than queries the first queries stand before all keys and see nothing.
#
# **By hand.** 2 queries, 3 keys: query 0 stands at place $0 + 3 - 2 = 1$ and sees places 0 and 1;
# query 1 stands at place 2 and sees all three.
#
# **NumPy you need.** `None` in an index puts in an axis of length 1. A column against a row
# broadcasts to a table, for a comparison too:
#
# ```python
# drawers, boxes = np.arange(3), np.array([2, 0])
# boxes < drawers[:, None]                # [[False False] [False True] [False True]], shape (3, 2)
# ```
#
# <details><summary>Predict first: a library's flag is_causal puts the triangle at the upper left,
# also for 1 query and 101 keys. What does the new token see?</summary>
#
# Only the very first one. PyTorch's `scaled_dot_product_attention(..., is_causal=True)` does just
# that (tried with version 2.13). There one passes no mask for a single query, or
# `causal_lower_right`.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.self_attention import causal_mask

# %% [markdown]
# **What you should see.** The mask for the last two of five tokens is its last two rows.

# %%
if ready(causal_mask):
    print(causal_mask(5).astype(int))
    print(causal_mask(2, 5).astype(int))

# %% [markdown]
# ### The leak test
#
# A leak can be anywhere: in the mask, after it, in a mean before attention. A test need not know
# where, if the function repeats bit for bit (no dropout):
#
# > Change one token. Every output that moved, even in one bit, depends on that token.
#
# `influence(function, x)` says in entry $(t, s)$ how far output $t$ moved when token $s$ changed, 0
# where not a bit differs. `leak_test(function, x)` names the pairs with $s > t$ that are not 0;
# `size=...` says how strongly a token is changed. Both compare bits, because $0 \cdot v$ is exactly
# 0 for every finite $v$.
#
# <details><summary>Predict first: which of the five suspects in the next cell leak?</summary>
#
# All but the first. A triangle one place too wide shows the next token. A score of 0 is not hidden.
# Weights set to 0 after the softmax were divided by a sum that includes the future. The last has a
# perfect mask, and leaks in the mean of all tokens.
#
# </details>

# %%
if ready(masked_softmax, self_attention, causal_mask):
    triangle = causal_mask(T)

    def under(mask):
        return lambda x: self_attention(x, w_q, w_k, w_v, mask)[0]

    def by_hand(weigh):
        return lambda x: weigh(attention_scores(x @ w_q, x @ w_k)) @ (x @ w_v)

    suspects = {
        "causal mask": under(triangle),
        "one place too wide": under(distance <= 1),
        "hidden scores times 0": by_hand(lambda scores: softmax(scores * triangle)),
        "hidden weights times 0": by_hand(lambda scores: softmax(scores) * triangle),
        "mean taken off before": lambda x: under(triangle)(x - x.mean(axis=0)),
    }
    for name, function in suspects.items():
        largest = (influence(function, text) * ~triangle).max()
        print(f"{name:24} leaks {len(leak_test(function, text)):2d} of 28, largest {largest:.1e}")

# %% [markdown]
# **What this does not show.** An empty list is no proof: the test tries one text and one change of
# each token. After a small change, the next suspect leaks rounding only.

# %% [markdown]
# ### A leak that passes its tests
#
# On paper, you may set hidden weights to 0 *after* the softmax and divide each row by its new sum:
# the old sum cancels. A colleague did, and all three tests pass.


# %%
def suspect_attention(q, k, v, mask=None):
    weights = softmax(attention_scores(q, k))
    if mask is not None:
        weights = np.where(mask, weights, 0.0)
        weights = weights / weights.sum(axis=-1, keepdims=True)
    return weights @ v, weights


# %%
if ready(masked_softmax, self_attention, causal_mask):
    triangle = causal_mask(T)
    output, weights = suspect_attention(text @ w_q, text @ w_k, text @ w_v, triangle)
    expected, _ = self_attention(text, w_q, w_k, w_v, triangle)
    print("hidden weights are exactly 0: ", (weights[~triangle] == 0).all())
    print("every row sums to 1:          ", np.allclose(weights.sum(axis=-1), 1))
    print("the same as self_attention:   ", np.allclose(output, expected))

# %% [markdown]
# <details><summary>Predict first: which inputs break it? Think of what the softmax does to the
# visible scores, and of a row in which all is hidden.</summary>
#
# If a hidden score is 1,000 above the visible ones, the softmax rounds their weights to 0 before
# the mask comes, and what is left is $0/0$, as in an empty row.
#
# </details>

# %%
if ready(masked_softmax, self_attention, causal_mask):
    triangle = causal_mask(T)

    def suspect(x):
        return suspect_attention(x @ w_q, x @ w_k, x @ w_v, triangle)[0]

    for size in (1.0, 1e3):
        with np.errstate(all="ignore"):  # 0 / 0 is the point
            largest = influence(suspect, text, size=size)[~triangle].max()
            leaks = len(leak_test(suspect, text, size=size))
        print(f"tokens changed by about {size:g}: {leaks} of 28 leak, the largest by {largest:.1g}")

# %% [markdown]
# <!-- exercise: repaired_attention -->
#
# **Why.** $Q$ $(\ldots, T, D)$, $K$ $(\ldots, S, D)$ and $V$ $(\ldots, S, D_v)$ are given; mask
# and results are those of cross-attention. Chapter 05 has an exercise of this name too, so
# `check` is told which.

# %% tags=["exercise"]
from attend_solutions.self_attention import repaired_attention

# %% [markdown]
# **What you should see.** No leak at these three sizes.

# %%
if ready(masked_softmax, causal_mask, repaired_attention):

    def repaired(x):
        return repaired_attention(x @ w_q, x @ w_k, x @ w_v, causal_mask(T))[0]

    print("leaks:", [len(leak_test(repaired, text, size=size)) for size in (1.0, 1e3, 1e5)])

# %% [markdown]
# ### Use it: your functions write
#
# The first picture's model now runs on your functions. In the second cell, predict before you
# click: two letters ahead, without the next one? Everything hidden but the letter itself?

# %%
if ready(masked_softmax, self_attention, causal_mask):
    model = number_words.train(self_attention, causal_mask(number_words.PLACES), seed=SEED)
    print(f"{number_words.bits(model).mean():.2f} bits a letter; it writes:")
    print(*number_words.write(model, letters=70), sep="\n")

# %%
if ready(masked_softmax, self_attention):
    display(widgets.the_cheat(self_attention))

# %% [markdown]
# Each of four masks is trained with five seeds, at its best rate of six (chosen with other seeds
# on other text, by `train.py`; the picture takes 0.01 for all). "Two ahead" is without the next
# letter. "Alone" is the loss with nothing ahead, as in writing. The last lines count what
# followed the last one, four or six letters.

# %% jupyter={"source_hidden": true}
arms = number_words.table()
counts = arms.pop("counted")
print(f"{'sees':20} {'rate':>4}  {'bits as trained':16} {'bits alone':15} real words")
for arm, found in arms.items():
    spans = [
        f"{min(found[key]):.{digits}f} to {max(found[key]):.{digits}f}"
        for key, digits in (("trained", 3), ("alone", 2))
    ]
    words = f"{min(found['words']):.0%} to {max(found['words']):.0%}"
    print(f"{arm:20} {found['rate']:.2f}  {spans[0]:16} {spans[1]:15} {words}")
for letters, loss in counts.items():
    print(f"counts of {letters} letters: {loss:.3f}")

# %% [markdown]
# The models that look one or two ahead have the lowest loss and write mostly non-words. "Itself
# only", the control, has the loss of counts of one letter. The whole past gives 0.64 to 0.66,
# averaged over places that have seen 1 to 12 letters. On these a table of at most six letters gives
# 0.64 (the 0.50 always has six): here the network is no better than counting.
#
# **What this does not show.** That every leak makes such a difference, or how large models would
# use one: this one has one layer and 600 steps.

# %% [markdown]
# ### A sentence in print
#
# > "Since our model contains no recurrence and no convolution, in order for the model to make use
# > of the order of the sequence, we must inject some information about the relative or absolute
# > position of the tokens in the sequence." (Vaswani et al. 2017, §3.5)
#
# For a layer without a mask, equation (1) proves it. Is it true under a causal mask? Take a first
# token $(1, 0)$ and eleven tokens $(0, 1)$. With $W_q = W_k = 0$ all scores are 0, and $W_v$ picks
# out the first number.
#
# <details><summary>Predict first: what is the output in row t, without a mask and with the causal
# mask? And if the first token is like all others?</summary>
#
# Without a mask every row gets the mean of all values, $1/12$. With it, row $t$ gets the mean of
# the first $t + 1$ values, of which one is 1: $1/(t + 1)$. Its reciprocal is the place, counted
# from 1. If all tokens are the same, so are all values, and every mean of them is the same.
#
# </details>

# %%
if ready(masked_softmax, self_attention, causal_mask):
    one_differs, alike = np.tile([0.0, 1.0], (12, 1)), np.tile([1.0, 1.0], (12, 1))
    one_differs[0] = 1.0, 0.0
    nothing, first_number = np.zeros((2, 1)), np.array([[1.0], [0.0]])
    for tokens, mask, name in (
        (one_differs, None, "no mask"),
        (one_differs, causal_mask(12), "causal mask"),
        (alike, causal_mask(12), "causal, all alike"),
    ):
        output, _ = self_attention(tokens, nothing, nothing, first_number, mask)
        print(f"{name:17}", (1 / output[:, 0]).round(6))

# %% [markdown]
# > **Too strong under a causal mask.** If the first token differs from the rest, as a start token
# > does, *one* layer can count, because the number of visible places is the place. If all are
# > alike, it cannot. Kazemnejad et al. 2023 (theorem 1) prove the construction; Haviv et al. 2022
# > read positions off trained models without position encodings.
#
# It is not convenient: places 1,000 and 1,001 differ by a millionth. Chapter 06 has better ways.

# %% [markdown]
# ## 5 · Sentences of different lengths
#
# A batch is one array of $B$ sentences with $S$ places each. Shorter ones are **padded**: filled up
# on the right (the cat sat ▢ ▢), usual in training, or on the left (▢ ▢ the cat sat), usual in
# writing, because then the next token of each goes into the same column.

# %% [markdown]
# <!-- exercise: padding_mask -->
#
# **Why.** With $n_b$ the length of sentence $b$, key $s$ is a token, not filling, where
#
# $$M_{b\,0\,s} = \begin{cases} s < n_b & \text{filled on the right} \\
# s \ge S - n_b & \text{filled on the left.} \end{cases}$$
#
# That holds for all queries alike, so the mask has an axis of length 1 in the place of the queries.
#
# | symbol | argument | shape |
# |---|---|---|
# | $n$ | `lengths`, whole numbers from 0 to $S$ | $(B,)$ |
# | $S$ | `size` | a whole number |
# | | `side`: `"right"` or `"left"`, where the filling is | text |
# | $M$ | returned | $(B, 1, S)$ |
#
# **By hand.** Lengths $(1, 3)$, $S = 3$, filled on the left. Sentence 0: $s \ge 3 - 1 = 2$, so
# $(0, 0, 1)$. Sentence 1: $s \ge 0$, so $(1, 1, 1)$.
#
# **NumPy you need.** If `ages` has the shape $(4,)$, then `ages[:, None, None]` has $(4, 1, 1)$ and
# broadcasts against a row of shape $(5,)$ to $(4, 1, 5)$. `np.asarray(...)` makes an array of a
# list.
#
# <details><summary>Predict first: why not leave out the middle axis and return (B, S)?</summary>
#
# Against scores $(B, T, S)$ the $B$ of the mask would meet the $T$ of the scores. With $B, T > 1$
# that fails, or, where $B = T$, works and is wrong: query $t$ gets the padding of sentence $t$.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.self_attention import padding_mask

# %%
lengths = [3, 5, 2]
if ready(padding_mask):
    for side in ("right", "left"):
        mask = padding_mask(lengths, 5, side=side)
        print(f"filled on the {side}, shape {mask.shape}:", mask[:, 0].astype(int), sep="\n")

# %% [markdown]
# <!-- exercise: combine_masks -->
#
# **Why.** A batch in a model that writes may need both: no future *and* no filling. Allowed is what
# every mask allows, $M = M^{(1)} \wedge M^{(2)} \wedge \ldots$ The masks have different shapes,
# $(T, S)$ and $(B, 1, S)$, and some may be None.
#
# `combine_masks(*masks)` takes any number of masks that broadcast with each other, and None. It
# returns their "and", or None where all are None or there are none.
#
# **By hand.** Three tokens, of which the first is filling (left), and no future:
#
# $$\begin{pmatrix} 1 & 0 & 0 \\ 1 & 1 & 0 \\ 1 & 1 & 1 \end{pmatrix} \wedge
# \begin{pmatrix} 0 & 1 & 1 \end{pmatrix} =
# \begin{pmatrix} 0 & 0 & 0 \\ 0 & 1 & 0 \\ 0 & 1 & 1 \end{pmatrix} .$$
#
# The first row is empty: its token may see only itself, and that is filling.
#
# **NumPy you need.** `a & b` is "and", entry by entry, with broadcasting; `a | b` is "or", `~a` is
# "not"; `a &= b` would write into `a`. A star collects all arguments in a tuple:
#
# ```python
# def longest(*words):                    # longest("a", "bcd") has words = ("a", "bcd")
#     best = None
#     for word in words:
#         if best is None or len(word) > len(best):
#             best = word
#     return best                         # longest() returns None
# ```
#
# <details><summary>Predict first: two masks each allow half of all pairs. How much can their
# combination allow, at most and at least?</summary>
#
# At most half (they are the same), at least nothing (they are opposites).
#
# </details>

# %% tags=["exercise"]
from attend_solutions.self_attention import combine_masks

# %% [markdown]
# **What you should see.** Three sentences, each alone and then in one batch whose filling holds
# hundreds: the largest difference between a real token's two outputs. With the padding mask it is
# rounding. Without it only one case is safe, causal and filled on the right, where the filling
# comes after everything real. On the left both masks together leave $2 + 0 + 3$ empty rows.

# %% jupyter={"source_hidden": true}
if ready(masked_softmax, self_attention, causal_mask, padding_mask, combine_masks):
    rng = np.random.default_rng(SEED)
    sentences = [rng.standard_normal((n, C)) for n in lengths]
    print("filled on   padding mask   causal mask   difference   empty rows")
    yes_no = ((False, False), (False, True), (True, False), (True, True))
    for side, (padded, causal) in [(side, both) for side in ("right", "left") for both in yes_no]:
        real = [slice(0, n) if side == "right" else slice(5 - n, 5) for n in lengths]
        batch = np.full((3, 5, C), 100.0)
        for b, sentence in enumerate(sentences):
            batch[b, real[b]] = sentence
        mask = combine_masks(
            causal_mask(5) if causal else None,
            padding_mask(lengths, 5, side=side) if padded else None,
        )
        output, weights = self_attention(batch, w_q, w_k, w_v, mask)
        worst = 0.0
        for b, sentence in enumerate(sentences):
            alone = causal_mask(len(sentence)) if causal else None
            wanted, _ = self_attention(sentence, w_q, w_k, w_v, alone)
            worst = max(worst, np.abs(output[b, real[b]] - wanted).max())
        used = ("yes" if padded else "no", "yes" if causal else "no")
        empty = int((weights.sum(axis=-1) == 0).sum())
        print(f"{side:12}{used[0]:15}{used[1]:11}{worst:10.1e}{empty:14d}")

# %% [markdown]
# The filling must leave the *loss* as well: a third of these 15 places is filling, and a mean over
# all of them also trains the model to guess it. Average over real tokens only.
#
# **No filling at all.** Several documents can be packed into one row, if another mask keeps them
# apart.

# %%
if ready(masked_softmax, self_attention, causal_mask, combine_masks):
    document = np.array([0, 0, 0, 1, 1, 1, 1, 1])  # which document each of the T tokens is from
    mask = combine_masks(causal_mask(T), document[:, None] == document)
    packed, _ = self_attention(text, w_q, w_k, w_v, mask)
    alone, _ = self_attention(text[3:], w_q, w_k, w_v, causal_mask(5))
    print("packed or alone differ by", np.abs(packed[3:] - alone).max())

# %% [markdown]
# ## 6 · The ripple through layers
#
# In one layer a token hears of what it sees. In the next, whoever sees *it* hears of that as well.
# Paint a mask (click cells, or Tab and Space) and follow a token; your `self_attention` runs on it.
#
# - *causal*, then let row 1 see one token further right. Which row of the weights changes, and what
#   does it open in the second picture?
# - *window*: whom has "the" (1) reached after 1, 2, 3 layers?
# - *prefix*: the first two see each other, as in a prefix language model. *two texts*: packed.

# %%
if ready(masked_softmax, self_attention):
    vectors = np.random.default_rng(SEED).standard_normal((6, 4)).round(1)
    vectors[4] = vectors[0]  # the same word twice
    sentence = ["the", "cat", "sat", "on", "the", "mat"]
    display(widgets.mask_painter(self_attention, sentence, vectors))

# %% [markdown]
# <details><summary>What you should have seen</summary>
#
# Only row 1 changes, because each row has its own softmax. But a way back in time opens, from the
# token you allowed to row 1. Under *window* "the" reaches one token more with each layer.
#
# </details>

# %% [markdown]
# ## 7 · Experiment: seeing is not walking
#
# After $L$ layers, token $t$ can know of token $s$ if there is a **walk** of $L$ steps from $s$ to
# $t$ along the ones of the mask. Let $R^{(L)}_{ts}$ say whether there is one:
#
# $$R^{(0)} = I, \qquad R^{(L)}_{ts} = \bigvee_{u} \big(M_{tu} \wedge R^{(L-1)}_{us}\big) .$$
#
# With a window of $w$ places to each side, $L$ layers reach $L\,w$ places. In Mistral 7B, with
# 4,096 places back and 32 layers, that is 131,072 (Jiang et al. 2023, §2). How much arrives over
# such a walk?
#
# We change one of 24 random tokens, send both texts through 24 layers of your `self_attention` with
# random matrices, and measure how far each output moves. Six masks: *all* and *self* are controls;
# *causal*; and three with three ones in a row: *window* (itself and one on each side), *causal
# window* (itself and the two before) and *random* (itself and two others). Five runs, all drawn
# anew.
#
# <details><summary>Predict first: after how many layers has the window reached every pair? And can
# random reach every pair?</summary>
#
# The window needs 23. Random reaches most of its pairs in five, because each layer can triple
# what is reached, but a token that no other looks at reaches only itself.
#
# </details>

# %% jupyter={"source_hidden": true}
SIZE, WIDTH, LAYERS, RUNS = 24, 16, 24, 5  # T, C (and D, D_v), L
AHEAD = np.arange(SIZE) - np.arange(SIZE)[:, None]
MASKS = {
    "all": np.ones((SIZE, SIZE), dtype=bool),
    "causal": AHEAD <= 0,
    "random": None,  # drawn in each run
    "window": abs(AHEAD) <= 1,
    "causal window": (AHEAD <= 0) & (AHEAD >= -2),
    "self": AHEAD == 0,
}


def mask_of(name, run):
    """The mask (T, T) of one run."""
    if name != "random":
        return MASKS[name]
    rng, mask = np.random.default_rng([SEED, run]), MASKS["self"].copy()
    for t in range(SIZE):
        mask[t, rng.choice(np.delete(np.arange(SIZE), t), 2, replace=False)] = True
    return mask


def changes(name, run, real: type = np.float64, scores=1.0):
    """How far output t moves after each layer when token s is changed (L, T, T), and rounding (L).

    `real` is the type of all numbers; `scores=0` makes every layer a plain mean.
    """
    rng = np.random.default_rng([SEED, run])
    texts = np.repeat(rng.standard_normal((1, SIZE, WIDTH)), SIZE + 1, axis=0)
    for s in range(SIZE):
        texts[s + 1, s] += rng.standard_normal(WIDTH)  # text 0 is as it was, text s + 1 changed
    texts, moved, rounding = texts.astype(real), [], []
    for _ in range(LAYERS):
        w_q, w_k = (rng.standard_normal((2, WIDTH, WIDTH)) / np.sqrt(WIDTH)).astype(real)
        w_v = np.linalg.qr(rng.standard_normal((WIDTH, WIDTH)))[0].astype(real)  # keeps sizes
        texts, _ = self_attention(texts, scores * w_q, w_k, w_v, mask_of(name, run))
        moved.append(np.abs(texts[1:] - texts[0]).max(axis=-1).T)
        rounding.append(SIZE * np.finfo(np.float64).eps * np.abs(texts).max())
    return np.array(moved, dtype=float), np.array(rounding, dtype=float)


def walks(mask):
    """Whether a walk of 1, 2, … L steps leads from s to t: (L, T, T)."""
    reach, steps = np.eye(SIZE, dtype=bool), []
    for _ in range(LAYERS):
        reach = mask @ reach  # for booleans, @ is "or" over "and"
        steps.append(reach)
    return np.array(steps)


# %% [markdown]
# A change below $24\,\varepsilon$ times the largest output, a bound on what rounding does to a sum
# of 24 terms, is counted apart. The control is the same run in `longdouble`, which has 11 more bits
# under Linux on Intel and AMD.

# %% jupyter={"source_hidden": true}
measured, possible = {}, {}
if ready(masked_softmax, self_attention):
    print(f"pairs and layers, of {LAYERS * SIZE**2}; smallest to largest of {RUNS} runs")
    print(f"{'':14}{'no walk,':15}{'walk':16}{'walk, change':16}walk, change")
    print(f"{'mask':14}{'but moved':15}{'':16}{'above rounding':16}below rounding")
    for name in MASKS:
        measured[name] = [changes(name, run) for run in range(RUNS)]
        possible[name] = [walks(mask_of(name, run)) for run in range(RUNS)]
        rows = []
        for (moved, rounding), walk in zip(measured[name], possible[name], strict=True):
            loud = moved > rounding[:, None, None]
            rows.append([c.sum() for c in (~walk & (moved > 0), walk, walk & loud, walk & ~loud)])
        spans = [f"{min(c)} to {max(c)}" for c in zip(*rows, strict=True)]
        print(f"{name:14}{spans[0]:15}{spans[1]:16}{spans[2]:16}{spans[3]}")
    for real in (np.float64, np.longdouble):
        last = [changes("causal", run, real)[0][-1][MASKS["causal"]] for run in range(RUNS)]
        found = [float(np.median(moved)) for moved in last]
        told = f"{min(found):.1g} to {max(found):.1g}"
        print(f"causal, median change at layer {LAYERS} in {real.__name__}: {told}")

# %% [markdown]
# - Without a walk, not a bit moves: the mask *is* the topology.
# - Under *causal*, about a fifth of the walks over all 24 layers are below this bound, because all
#   rows drift towards the first token, which sees only itself. After 24 layers the median change is
#   that of float64's noise, and in each run ten or more times smaller in longdouble (unless your
#   function makes float64 of everything).


# %% jupyter={"source_hidden": true}
# What a layer reaches for the first time, and how much of it arrives.
def first_arrivals(name, runs, arm):
    """For each run and layer, the median change among the pairs that layer reaches first."""
    rows = []
    for (moved, _), walk in zip(runs, possible[name], strict=True):
        earlier = np.eye(SIZE, dtype=bool)
        for layer in range(12):
            first, earlier = walk[layer] & ~earlier, walk[layer]
            if first.any():
                change = float(np.median(moved[layer][first]))
                rows.append({"layer": layer + 1, "change": change, "mask": arm})
    return rows


if ready(masked_softmax, self_attention) and measured:
    means = [changes("window", run, scores=0.0) for run in range(RUNS)]
    rows = first_arrivals("window", means, "window, plain mean")
    for name in ("random", "window", "causal window"):
        rows += first_arrivals(name, measured[name], name)
    display(
        charts.bands(
            rows,
            "layer",
            "change",
            "mask",
            title="What first arrives from far away is faint",
            description="Median change of an output that is reached for the first time at a layer, "
            "against the layer, logarithmic, mean and range of up to 5 runs. All fall from 0.7, "
            "the window along a nearly straight line to some millionths at layer 12, with weights "
            "from scores as with a plain mean.",
            x_title="layer at which the change first arrives",
            y_title="median change (log scale)",
            log_y=10,
        )
    )

# %% [markdown]
# **What it shows.** At first arrival, each layer of the window has cost a factor of about three: a
# message is mixed with two others. A plain mean (all scores 0) loses as much.
# More layers bring more walks: from 12 places away some millionths after 12 layers, 0.002 to 0.003
# after 24. So "a receptive field of $L\,w$" says little about how much is received.
#
# **What this does not show.** Anything about trained models, where one arrow can be strong, or
# about blocks that *add* attention's output to the token (chapter 07).

# %% [markdown]
# ## 8 · Break it
#
# - **A very low number is not $-\infty$.** BERT's code adds −10,000 to hidden scores. In an
#   empty row that shift cancels (in float32 nearly), as if nothing were hidden. With $-10^9$ in
#   float32 scores from −32 to 32 get equal weights, because float32 numbers are 64 apart there; in
#   float16 it is $-\infty$, and the row NaN.
# - **A weight of 0 does not stop NaN.** $0 \cdot v$ is 0 for every finite $v$, but $0 \cdot
#   \text{NaN}$ is NaN. Fill with numbers.
# - **Two conventions.** True means "may look" here and in PyTorch's `scaled_dot_product_attention`;
#   in `nn.MultiheadAttention` it hides. A wrong `~` raises no error. On a causal mask the leak test
#   finds it.

# %%
if ready(masked_softmax, self_attention, padding_mask):
    row_scores, nothing_left = np.array([0.0, 1.0, 2.0]), np.zeros(3, dtype=bool)
    print("empty row, −10,000 added:      ", softmax(row_scores - 1e4))
    print("empty row, −1e9, in float32:   ", softmax((row_scores - 1e9).astype(np.float32)))
    print("empty row, yours:              ", masked_softmax(row_scores, nothing_left))
    filled = np.full((4, C), np.nan)
    filled[:2] = text[:2]
    with np.errstate(all="ignore"):
        output, weights = self_attention(filled, w_q, w_k, w_v, padding_mask([2], 4)[0])
    print("filled with NaN: weights", weights[0], "output", output[0, :3], "…")

# %% [markdown]
# ## A postcard
#
# > Self-attention: queries, keys and values from one sentence. Cross-attention: keys and values
# > from another. On paper weights are positive: the mask alone decides who can look at whom.
# >
# > Hide before the softmax, with $-\infty$. A row with nothing to look at is 0. Masks combine by
# > "and". Filling must leave the loss too.
# >
# > Without a mask $f(\Pi x) = \Pi f(x)$; with one, $f_{\Pi M \Pi^\top}(\Pi x) = \Pi f_M(x)$.
# >
# > A model that saw the next letter in training has a low loss that says nothing about its writing.
# > Change a token and compare bits: `leak_test`.
#
# **Before:** chapter 03, the scaled dot product. **Next:** chapter 05, several look-ups at once.
#
# ## Sources
#
# - Attention within one text: Cheng et al. 2016, *Long Short-Term Memory-Networks for Machine
#   Reading*; Parikh et al. 2016, *A Decomposable Attention Model for Natural Language Inference*;
#   Lin et al. 2017, *A Structured Self-attentive Sentence Embedding*. As the only mixer of tokens:
#   Vaswani et al. 2017, *Attention Is All You Need*, §3.2.
# - Permutation equivariance: Lee et al. 2019, *Set Transformer*, §3.
# - Order without position encodings: Haviv et al. 2022, *Transformer Language Models without
#   Positional Encodings Still Learn Positional Information*; Kazemnejad et al. 2023, *The Impact of
#   Positional Encoding on Length Generalization in Transformers*.
# - Windows, random attention: Jiang et al. 2023, *Mistral 7B*; Zaheer et al. 2020, *Big Bird*.
# - −10,000: google-research/bert, `modeling.py`, `attention_layer`. Conventions: PyTorch's
#   documentation of `scaled_dot_product_attention` and `nn.MultiheadAttention`.
