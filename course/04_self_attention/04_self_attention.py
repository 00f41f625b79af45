# %% [markdown]
# # 04 · Self-attention and masks
#
# **The question.** Who may look at whom?
#
# At the end a sentence looks at itself, in your own NumPy code, and a *mask* says which word may
# look at which. You will have a test that finds glimpses of the future without opening the model.
# You will have measured how far information gets through a stack of layers. It takes about 100
# minutes, an hour of them in the exercises.
#
# You need: Python, a little NumPy, matrix products, and the idea of attention: weights from
# scores, then a weighted mean. Chapter 03 builds that; its `softmax` and `attention_scores` are
# imported here, so you need not have done it. The NumPy that an exercise uses is explained just
# before it.
#
# **How it works.** You fill in seven functions. Below each one, `check(...)` says what holds, what
# does not, and why. `hint(...)` gives up to three hints; `solution(...)` shows the course's own
# answer, after asking. A cell that needs a function you have not written yet says so and waits;
# nothing breaks if you run everything at once.
#
# | section | you write | you find out |
# |---|---|---|
# | 1 | | what a mask is, by hand |
# | 2 | `masked_softmax` | how to hide, and what to do when nothing is left |
# | 3 | `self_attention` | how a sentence looks at itself |
# | 4 | `permutation_matrix_test` | that it does not notice the order of its words |
# | 5 | `causal_mask` | how to hide the future, and a test for leaks that no eye would find |
# | 6 | `padding_mask`, `combine_masks` | how sentences of different lengths share a batch |
# | 7 | | a mask to paint |
# | 8 | `cross_attention` | how one text looks at another |
# | 9–11 | | how far information walks through layers; where this breaks |

# %%
import numpy as np
from attend import charts, widgets
from attend.leaks import influence, leak_test
from attend_grader import check, hint, ready, solution
from attend_solutions.attention import attention_scores, softmax  # chapter 03
from attend_solutions.types import Array, Integers, Mask  # of floats, whole numbers, booleans
from IPython.display import display

SEED = 4  # the only seed in this notebook: every random number below follows from it
np.set_printoptions(precision=3, suppress=True)

# %% [markdown]
# ### Letters
#
# | letter | counts | | letter | counts |
# |---|---|---|---|---|
# | $T$ | queries | | $C$ | numbers in one token of `x` |
# | $S$ | keys, and values | | $C_c$ | numbers in one token of another text, the context |
# | $B$ | sentences in a batch | | $D$ | numbers in one query or key |
# | $L$ | layers | | $D_v$ | numbers in one value |
# | $\ldots$ | any leading axes, as $B$ | | | |
#
# In an equation a capital letter is a matrix: scores $S$, weights $P$, mask $M$, output $O$. In a
# shape, $S$ is the number of keys. The context tells you which.
#
# Code counts from 0: row 0 is the first. So do the exercises and what they print. Where the text
# tells of the first word, the third token or "place $t$ (from 1)", it counts from 1, as one speaks.

# %% [markdown]
# ## 1 · Who looks at whom
#
# Attention is a look-up. A query is compared with keys, the comparisons become weights, and the
# answer is the weighted mean of the values (chapter 03):
#
# $$P = \operatorname{softmax}\!\left(\frac{Q K^\top}{\sqrt D}\right), \qquad O = P\,V .$$
#
# Nothing in it says where queries, keys and values come from. In **self-attention** all three come
# from the same sentence. Every token asks a question, every token can be found, every token has
# something to say:
#
# $$Q = x W_q, \qquad K = x W_k, \qquad V = x W_v .$$
#
# So $T = S$, and $P$ is a square table: row $t$ says how token $t$ spreads its attention over the
# tokens of its own sentence.
#
# See it as a **graph**. The tokens are points; $P_{ts}$ is an arrow that carries something from
# token $s$ to token $t$. In a recurrent network (chapter 01) the arrows are fixed: each word hears
# from the one before it. Here the sentence itself decides how strong each arrow is. Another
# sentence, another graph, with the same three matrices: the topology is dynamic.
#
# **But not everyone may look at everyone.** Two reasons:
#
# - *The future.* A model that writes must guess the next word. In training it is given the whole
#   text at once. If word 5 may look at word 6, guessing word 6 is no art.
# - *Filling.* Sentences have different lengths, an array has one. Short sentences are filled up
#   with something, and nobody should listen to that.
#
# So you give attention a table of permissions, the **mask** $M$. $M_{ts}$ is True where query $t$
# may look at key $s$. (The convention is not the same everywhere. PyTorch's
# `scaled_dot_product_attention` means the same by True as this course does. Its
# `nn.MultiheadAttention` means the opposite: True hides.)
#
# **By hand.** Chapter 03's three tokens, $q = k = v = x$ and $D = 2$:
#
# $$x_{\text{cat}} = (1, 0), \qquad x_{\text{sat}} = (0, 1), \qquad x_{\text{mat}} = (1, 1).$$
#
# The scores of **sat** were $0$, $0.707$, $0.707$. Now sat may not look at what comes after it:
#
# | step | cat | sat | mat |
# |---|---|---|---|
# | mask, row of sat | True | True | **False** |
# | score | $0$ | $0.707$ | $-\infty$ |
# | exponential | $1$ | $2.028$ | $0$ |
# | divided by their sum, $3.028$: the **weight** | $0.330$ | $0.670$ | $0$ |
#
# Before, sat gave 0.401 to mat. That share is gone, and the other two have it between them, in the
# proportion they had before: $1 : 2.028$.

# %%
tokens = ["cat", "sat", "mat"]
x = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # (T, C)
identity = np.eye(2)

# %% [markdown]
# ## 2 · Hiding

# %% [markdown]
# <!-- exercise: masked_softmax -->
#
# **Why.** To hide a key is to give it the weight 0, *exactly* 0, and to share its weight out among
# the others. Which score has that effect? The weight is $e^s / \sum_j e^{s_j}$, and no finite
# number $s$ makes $e^s$ zero. Only $-\infty$ does:
#
# $$\tilde s_j = \begin{cases} s_j & \text{if } M_j \\ -\infty & \text{otherwise} \end{cases}
# \qquad\qquad p_i = \frac{e^{\tilde s_i - m}}{\sum_j e^{\tilde s_j - m}},
# \qquad m = \max_j \tilde s_j .$$
#
# The shift by $m$ changes no weight and keeps $e$ from overflowing (chapter 03). Mind the order:
# first hide, then look for the largest score. A hidden score of 1,000 would otherwise press all
# visible ones down to $e^{-1000}$, which is rounded to 0.
#
# **When nothing is left.** What if *all* places of a row are hidden? Then $m = -\infty$, and
# $-\infty - (-\infty)$ is not a number (NaN). It spreads: one NaN in one row, and the loss of the
# whole batch is NaN. Such rows occur, as you will see in section 6. Three answers are possible:
#
# | answer | what it means |
# |---|---|
# | NaN | "you should not have asked"; everything computed from it is NaN too |
# | $1/S$ everywhere | the query looks at all that was hidden from it |
# | 0 everywhere | nothing to look at, so nothing is seen |
#
# This course takes the third. So does PyTorch's `scaled_dot_product_attention` (tried with version
# 2.13). It is a decision, not a theorem: the row then sums to 0, not to 1.
#
# | symbol | argument | shape |
# |---|---|---|
# | $s$ | `scores` | $(\ldots, S)$, usually $(\ldots, T, S)$; the last axis is normalised |
# | $M$ | `mask`, True where one may look; None hides nothing | broadcasts with the scores |
# | $p$ | returned | what both broadcast to |
#
# **By hand.** Scores $(2, 9, 2)$, mask (True, False, True). The visible ones are equal, so the
# weights are $(0.5,\ 0,\ 0.5)$. The 9 is never looked at.

# %% [markdown]
# **NumPy you need: choosing place by place.** `np.where(condition, a, b)` takes `a` where the
# condition is True and `b` where it is False. All three broadcast: an axis of length 1, or a plain
# number, is repeated as often as the others ask.
#
# ```python
# degrees = np.array([[12.0, 31.0, 8.0], [25.0, 33.0, 19.0]])     # (2, 3): two cities, three days
# np.where(degrees > 30, 30.0, degrees)                            # [[12. 30. 8.] [25. 30. 19.]]
# holiday = np.array([False, True, False])                         # (3,): the same for both cities
# np.where(holiday, degrees, 0.0)                                  # [[0. 31. 0.] [0. 33. 0.]]
# ```
#
# `degrees.max(axis=-1, keepdims=True)` is the largest of each row, with shape $(2, 1)$, so that it
# broadcasts back. `-np.inf` is $-\infty$: it is smaller than every number, `np.exp(-np.inf)` is
# exactly 0, and `-np.inf == -np.inf` is True.
#
# **Without NaN.** A row that is all $-\infty$ has the maximum $-\infty$ and the sum 0. Replace both
# by harmless numbers, before you subtract and before you divide: a maximum of $-\infty$ by 0, a sum
# of 0 by 1. Its exponentials are 0 then, and $0/1$ is 0. Other rows keep theirs.
#
# `a = a - b` makes a new array, `a -= b` and `a[...] = b` write into the caller's.

# %% [markdown]
# **Predict first,** then open:
#
# <details><summary>Somebody hides by multiplying: scores * mask. What weight does a hidden key get
# if the visible scores are −1 and −2?</summary>
#
# The largest of all. Its score becomes 0, which is more than −1 and −2. A score of 0 is a score
# like any other.
#
# </details>
#
# <details><summary>Somebody adds −1,000,000,000 to hidden scores. What comes out for a row in which
# everything is hidden?</summary>
#
# Weights, not zeros. On paper the softmax as if nothing were hidden: the same number is added to
# all scores, and a shift changes no weight. In float64 it comes out so. In float32 it does not:
# next to $-10^9$ a score of 2 is smaller than rounding, so all sums are equal and so are the
# weights. Section 10 shows both.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.self_attention import masked_softmax

# %% [markdown]
# **What you should see.** Four masks on the same three scores. Each row but the last sums
# to 1, hidden places are 0, and the visible ones keep their proportions. The last row is 0
# throughout.

# %%
if ready(masked_softmax):
    table = np.array([[1, 1, 1], [1, 1, 0], [0, 1, 0], [0, 0, 0]], dtype=bool)
    for row in table:
        print(
            "may look:",
            row.astype(int),
            "  weights:",
            masked_softmax(np.array([0.0, 1.0, 2.0]), row),
        )

# %% [markdown]
# > **Takeaway.** Hide before the softmax, with $-\infty$. Where nothing is left, the weights are 0.

# %% [markdown]
# ## 3 · A sentence looks at itself

# %% [markdown]
# <!-- exercise: self_attention -->
#
# **Why.** You have all the parts. Three matrices turn each token into a query, a key and a value.
# They are three because what a token looks for, what it can be found by, and what it says are
# three different things. They are the same for all tokens: the sentence may have any length.
#
# $$Q = x W_q, \qquad K = x W_k, \qquad V = x W_v,$$
#
# $$P = \operatorname{softmax}_M\!\left(\frac{QK^\top}{\sqrt D}\right), \qquad O = P\,V,$$
#
# where $\operatorname{softmax}_M$ is your `masked_softmax` with the mask $M$.
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$ | `x`, the sentence | $(\ldots, T, C)$ |
# | $W_q$, $W_k$ | `w_q`, `w_k` | $(C, D)$ |
# | $W_v$ | `w_v` | $(C, D_v)$ |
# | $M$ | `mask`, or None | broadcasts with $(\ldots, T, T)$ |
# | $O$ | output, first result | $(\ldots, T, D_v)$ |
# | $P$ | weights, second result | $(\ldots, T, T)$ |
#
# A token that may look at nothing has weights of 0, so its output is 0: that follows by itself.
#
# **By hand.** Two tokens $x = \begin{pmatrix} 2 & 0 \\ 0 & 4 \end{pmatrix}$. With $W_q = 0$ all
# scores are 0. So the weights are equal, $0.5$ each; with $W_v$ the identity both outputs are the
# mean, $(1, 2)$. If the first token may look only at itself, its output is $(2, 0)$.

# %% [markdown]
# **NumPy you need: nothing new.** `x @ w` multiplies every token of every sentence by `w`: for `x`
# of shape $(B, T, C)$ and `w` of shape $(C, D)$ it has the shape $(B, T, D)$.
#
# From chapter 03: `attention_scores(q, k)` is $QK^\top/\sqrt D$, for queries $(\ldots, T, D)$ and
# keys $(\ldots, S, D)$. It divides by the root of the queries' width by itself.

# %% [markdown]
# **Predict first,** then open:
#
# <details><summary>w_q and w_k are the same matrix, and there is no mask. Are the weights a
# symmetric table?</summary>
#
# The scores are: $q_t \cdot k_s = q_s \cdot k_t$. The weights are not: each row is divided by its
# own sum. Being looked at does not oblige you to look back.
#
# </details>
#
# <details><summary>The mask is the identity matrix: everyone sees only itself. What is the
# output?</summary>
#
# Every weight on the diagonal is 1, so $P = I$ and $O = x W_v$. Queries and keys have no effect.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.self_attention import self_attention

# %% [markdown]
# **What you should see.** First without a mask, then with the one from section 1. The row of sat
# turns from 0.198, 0.401, 0.401 into 0.330, 0.670, 0. The row of mat stays: nothing comes after it.
#
# Then "mat" is replaced by another token, $(3, 0)$, with the same three matrices. Without a mask
# *every* row changes: the sentence has made itself another graph. Under the mask the rows of cat
# and sat stay as they are.

# %%
if ready(masked_softmax, self_attention):
    no_future = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=bool)
    other = x.copy()
    other[2] = 3.0, 0.0
    for sentence, name in ((x, "cat sat mat"), (other, "cat sat (3, 0)")):
        for mask, kind in ((None, "no mask"), (no_future, "no future")):
            _, weights = self_attention(sentence, identity, identity, identity, mask)
            print(f"{name}, {kind}:", *(str(row) for row in weights), sep="\n   ")

# %% [markdown]
# > **Takeaway.** Self-attention is a graph that each sentence draws for itself. The mask says which
# > arrows may exist at all; the tokens say how strong they are.

# %% [markdown]
# ## 4 · Does it notice the order?
#
# Write the tokens in another order. What happens to the output? You can prove it, and then measure
# whether your code agrees with the proof.
#
# A **permutation matrix** $P$ has a single 1 in each row and each column (in this section $P$ is
# never the weights). $P x$ holds the rows of $x$ in another order, and $P^\top P = I$: turning the
# order back. Now put $P x$ into self-attention. Queries, keys and values are moved in the same way,
# since each is made from its own token: $PQ$, $PK$, $PV$. The scores are
#
# $$(PQ)(PK)^\top = P\,(Q K^\top)\,P^\top .$$
#
# The table of scores has its rows moved and its columns moved, nothing else. Softmax works on each
# row by itself and does not care in which order the numbers of a row stand. So the weights are
# moved in the same two ways, and the output is
#
# $$\big(P\,\operatorname{softmax}(\ldots)\,P^\top\big)\,\big(P V\big)
# = P\,\operatorname{softmax}(\ldots)\,V,$$
#
# since $P^\top P = I$. That is, with $f$ for self-attention,
#
# $$f(Px) = P f(x) . \tag{1}$$
#
# The outputs are moved as the tokens were, and otherwise the same. This is called **permutation
# equivariance**. For self-attention without a mask, a sentence is a bag of words.
#
# **With a mask** the step that fails is "nothing else": the mask is laid over the moved table, but
# the mask has not moved. Token 5, now in place 1, gets the permissions of place 1. Equation (1)
# holds again if the mask moves along, in its rows and in its columns. With $f_M$ for self-attention
# under the mask $M$:
#
# $$f_{P M P^\top}(P x) = P f_M(x) . \tag{2}$$

# %% [markdown]
# <!-- exercise: permutation_matrix_test -->
#
# **Why.** A proof is about equations; your code might do something else. Compute the two sides, and
# see whether they agree. You need three outputs (not the weights, which `self_attention` returns
# too):
#
# | result | equation | in words |
# |---|---|---|
# | `expected` | $P f_M(x)$ | output moved afterwards |
# | `mask_stays` | $f_M(Px)$ | tokens moved, the mask left as it is |
# | `mask_moves` | $f_{PMP^\top}(Px)$ | tokens moved, and the mask moved along |
#
# | symbol | argument | shape |
# |---|---|---|
# | $P$ | built from `order` $(T,)$: row $i$ of $Px$ is row `order[i]` of $x$ | $(T, T)$ |
# | $x$ | `x` | $(T, C)$ |
# | $W_q$, $W_k$, $W_v$ | `w_q`, `w_k`, `w_v` | $(C, D)$, $(C, D)$, $(C, D_v)$ |
# | $M$ | `mask`, or None (then it is None in all three) | $(T, T)$ |
# | | returned: `expected, mask_stays, mask_moves` | three times $(T, D_v)$ |
#
# **By hand.** Three tokens of one number, $x = (3, 9, 6)$. All matrices are such that the scores
# are 0 and the values are $x$. The mask hides the future, so each output is the mean of the tokens
# so far: $f_M(x) = (3, 6, 6)$. The order is $(2, 0, 1)$; places count from 0.
#
# $$P = \begin{pmatrix} 0 & 0 & 1 \\ 1 & 0 & 0 \\ 0 & 1 & 0 \end{pmatrix}, \qquad
# P x = (6, 3, 9), \qquad P M P^\top = \begin{pmatrix} 1 & 1 & 1 \\ 0 & 1 & 0 \\ 0 & 1 & 1
# \end{pmatrix} .$$
#
# 1. `expected`: $P f_M(x) = (6, 3, 6)$.
# 2. `mask_stays`: means of $6, 3, 9$ so far: $(6,\ 4.5,\ 6)$. Not the same.
# 3. `mask_moves`: row 0 of the moved mask lets all three be seen: $6$. Row 1: only place 1, the
#    token 3: $3$. Row 2: places 1 and 2, so $(3 + 9)/2 = 6$. Together $(6, 3, 6)$: the same.

# %% [markdown]
# **NumPy you need: rows in another order.** Index an array with a list of whole numbers, and you
# get those rows, in that order:
#
# ```python
# names = np.array([["Ada", "Lovelace"], ["Alan", "Turing"], ["Grace", "Hopper"]])
# names[[2, 0, 1]]                      # Grace Hopper, Ada Lovelace, Alan Turing
# ```
#
# `np.eye(3)` is the $3 \times 3$ identity. Its row 2 has the 1 in column 2. Which of its rows, in
# which order, make the $P$ above?
#
# `p @ mask @ p.T` counts True as 1 and False as 0, and gives numbers. `numbers > 0` makes booleans
# of them.

# %% [markdown]
# **Predict first,** then open:
#
# <details><summary>Which masks are the same after being moved, whatever the order?</summary>
#
# Those in which all places of the diagonal are alike and all others are alike: everything
# allowed, only itself allowed, all but itself allowed, nothing allowed. For them (1) holds, as
# without a mask. For every other mask there is an order that it notices.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.self_attention import permutation_matrix_test

# %% [markdown]
# **What you should see.** Eight random tokens in a random order, under three masks. The numbers are
# the largest differences to `expected`. Without a mask both are rounding, around $10^{-16}$. With
# a mask that hides the future, or one that shows only neighbours, leaving the mask makes a
# difference of 1.5 or 2.6, as large as the outputs themselves. Moving it along makes none.

# %%
rng = np.random.default_rng(SEED)
T, C = 8, 16
text = rng.standard_normal((T, C))
w_q, w_k, w_v = rng.standard_normal((3, C, C)) / np.sqrt(C)  # D = D_v = C
order = rng.permutation(T)
place = np.arange(T)
past = place <= place[:, None]
neighbours = abs(place - place[:, None]) <= 1

if ready(masked_softmax, self_attention, permutation_matrix_test):
    print("order:", order)
    for mask, name in ((None, "no mask"), (past, "no future"), (neighbours, "neighbours only")):
        expected, mask_stays, mask_moves = permutation_matrix_test(order, text, w_q, w_k, w_v, mask)
        stays, moves = (np.abs(side - expected).max() for side in (mask_stays, mask_moves))
        print(f"{name:16s} difference with the mask left {stays:8.1e}   moved along {moves:8.1e}")

# %% [markdown]
# > **Takeaway.** Without a mask, self-attention treats a sentence as a bag of words. A mask is tied
# > to places, so it brings the order back in.

# %% [markdown]
# ## 5 · Hiding the future
#
# A model that writes is trained on whole texts. Position $t$ sees the words up to $t$ and must
# guess word $t + 1$. One pass through the network trains all positions at once, provided that no
# position sees ahead. The mask for that is the **causal mask**:
#
# $$M_{ts} = (s \le t) .$$

# %% [markdown]
# <!-- exercise: causal_mask -->
#
# **Why.** In training there are as many queries as keys. In writing there are not. The text so far
# has 100 words, you add one, and only that one needs a new output: 1 query, 101 keys. So say what
# $s \le t$ means when $T \ne S$. Here the queries are the *last* $T$ places of the $S$. Query $t$
# stands at place $t + S - T$, and
#
# $$M_{ts} = \big(s \le t + S - T\big), \qquad t = 0 \ldots T - 1, \quad s = 0 \ldots S - 1 .$$
#
# | symbol | argument | |
# |---|---|---|
# | $T$ | `queries` | a whole number |
# | $S$ | `keys` | a whole number; None means as many as queries |
# | $M$ | returned | $(T, S)$ |
#
# **By hand.** 2 queries, 3 keys: query 0 stands at place $0 + 3 - 2 = 1$ and sees places 0 and 1;
# query 1 stands at place 2 and sees all three. One query and 4 keys: it stands at place 3 and sees
# everything.
#
# $$\text{2 queries, 3 keys: } \begin{pmatrix} 1 & 1 & 0 \\ 1 & 1 & 1 \end{pmatrix} \qquad
# \text{1 query, 4 keys: } \begin{pmatrix} 1 & 1 & 1 & 1 \end{pmatrix}$$
#
# With fewer keys than queries the formula still says what to do: the first queries stand before
# all keys ($t + S - T < 0$) and see nothing.

# %% [markdown]
# **NumPy you need: a table from a column and a row.** Index with `None` to put in an axis of
# length 1. A column against a row broadcasts to a table, for a comparison as for a sum. Which of
# these boxes fit into which drawers?
#
# ```python
# drawers = np.arange(3)                  # [0 1 2]
# boxes = np.array([2, 0])
# drawers[:, None]                        # shape (3, 1), a column
# boxes < drawers[:, None]                # [[False False] [False True] [False True]], shape (3, 2)
# ```

# %% [markdown]
# **Predict first,** then open:
#
# <details><summary>How many of the T × T entries does the causal mask allow?</summary>
#
# Row $t$ (from 0) has $t + 1$: together $T(T+1)/2$, a little more than half.
#
# </details>
#
# <details><summary>A library has the flag is_causal and puts the triangle at the upper left, also
# for 1 query and 101 keys. What does the new word see?</summary>
#
# Only the very first word. There is no error, and the text comes out odd. PyTorch's
# `scaled_dot_product_attention(..., is_causal=True)` does just that (tried with version 2.13).
# There one passes no mask for a single query, or `causal_lower_right`.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.self_attention import causal_mask

# %% [markdown]
# **What you should see.** The mask for five words; then the one for the last two of them, which is
# nothing but its last two rows.

# %%
if ready(causal_mask):
    print(causal_mask(5).astype(int))
    print(causal_mask(2, 5).astype(int))

# %% [markdown]
# ### The leak test
#
# You can look at a mask and see that it is a triangle. But is the *model* blind to the future? A
# leak can be anywhere: in the mask, in the order of mask and softmax, in a mean taken over all
# tokens before attention begins. There is a test that does not need to know:
#
# > Change one token. Every output that moved, be it in its last bit, depends on that token.
#
# Changing token $s$ for every $s$ gives a table like a mask, but *measured*: what each output
# **does** depend on. `influence(function, x)` returns how far output $t$ moves when token $s$ is
# changed; exactly 0 where not a bit differs. `leak_test(function, x)` names each pair $(t, s)$ with
# $s > t$ that is not 0. (`allowed=...` is for a mask other than causal, `size=...` says how
# strongly a token is changed.) Both take any function from tokens to outputs, so you can use them
# on every model you will ever write: `from attend.leaks import influence, leak_test`.
#
# Why compare bits, and not "nearly equal"? Because a hidden key has the weight 0, and $0 \cdot v$
# adds 0, whatever number $v$ is. Nothing is rounded differently. "Nearly" would only hide small
# leaks.
#
# Below are eight suspects. Which ones leak? The table counts the pairs twice: where a token is
# changed by random numbers of size 1, and, in the last column, of size 100,000. Between them stands
# how far the worst output moved at size 1.
#
# <details><summary>Predict first: weights are set to 0 after the softmax, outside the triangle. Row
# by row the future has no weight. Does it leak?</summary>
#
# Yes. The weights that remain were divided by a sum in which the future took part. A large score
# ahead makes all of them smaller.
#
# </details>
#
# <details><summary>And if the remaining weights are then divided by their own sum?</summary>
#
# On paper, no: the common divisor cancels. In numbers, a little: the last bits differ. And if a
# future score is very large, the others have been rounded to 0 before, and $0/0$ is NaN.
#
# </details>

# %%
if ready(masked_softmax, self_attention, causal_mask):
    triangle = causal_mask(T)

    def under(mask):
        """Self-attention under a mask, as a function of the tokens alone."""
        return lambda tokens: self_attention(tokens, w_q, w_k, w_v, mask)[0]

    def by_hand(weigh):
        """Attention whose weights are made from the scores by `weigh`."""
        return lambda tokens: weigh(attention_scores(tokens @ w_q, tokens @ w_k)) @ (tokens @ w_v)

    def after(scores):
        return softmax(scores) * triangle

    def after_divided(scores):
        return after(scores) / after(scores).sum(axis=-1, keepdims=True)

    suspects = {
        "causal mask": under(triangle),
        "no mask": under(None),
        "triangle one place too wide": under(np.tril(np.ones((T, T), bool), k=1)),
        "hidden scores multiplied by 0": by_hand(lambda scores: softmax(scores * triangle)),
        "hidden weights set to 0": by_hand(after),
        "the same, then divided by the sum": by_hand(after_divided),
        "−10,000 added to hidden scores": by_hand(
            lambda scores: softmax(scores + np.where(triangle, 0.0, -1e4))
        ),
        "causal mask, mean taken off before": lambda tokens: under(triangle)(
            tokens - tokens.mean(axis=0)
        ),
    }
    pairs = T * (T - 1) // 2
    print(f"{'':34}{f'leaks, of {pairs}':>13}{'largest':>10}{'leaks at 100,000':>18}")
    for name, function in suspects.items():
        with np.errstate(all="ignore"):  # 0 / 0 is the point of one of them
            few, many = (len(leak_test(function, text, size=size)) for size in (1.0, 1e5))
            largest = np.where(triangle, 0, influence(function, text)).max()
        print(f"{name:34}{few:13d}{largest:10.1e}{many:18d}")

# %% [markdown]
# **What it shows.**
#
# - The causal mask has no leak, also when a token changes beyond all measure.
# - A triangle one place too wide leaks at 7 pairs: each word sees the next one, which is the very
#   word it is to guess. Training on it gives a wonderful loss and a useless model.
# - "Divided by the sum" leaks in the last bits only. Whether a bit differs depends on the rounding
#   of your machine, so the number of its leaks may not be the 20 that was measured for this text.
# - **−10,000 passes the test** with small changes and fails it with large ones. It only lowers a
#   score. One that is 10,000 above the visible ones is level with them again.
# - The last suspect has a perfect mask. The leak is in a mean over all tokens, one line earlier.
#   You would not find it by looking at the mask.
#
# **What it does not show.** An empty list is no proof. The test tries one text and one change for
# each token; a leak that opens only for certain words stays hidden, as the −10,000 did. Try
# several sizes, and several texts.
#
# > **Takeaway.** Do not look at the mask; change the future and compare bits.

# %% [markdown]
# ### A sentence you will find printed
#
# > "Attention has no notion of order. Without position encodings a transformer cannot know where a
# > word stands."
#
# Equation (1) proves it, without a mask; chapter 03 said as much. But a model that writes has a
# causal mask. Is it still true?
#
# Take a text whose first token is special, $(1, 0)$, and whose other tokens are all the *same*,
# $(0, 1)$. Nothing distinguishes them but their place. Set $W_q = W_k = 0$, so that all scores are
# 0, and let $W_v$ pick out the first number of a token: the value is 1 for the first token and 0
# for all others.
#
# <details><summary>Predict first: what is the output at place t (from 1), without a mask and with
# the causal mask?</summary>
#
# Without a mask every place gets the mean of all values, $1/T$: no way to tell them apart. With
# the mask, place $t$ gets the mean over the first $t$ values, of which one is 1 and the others are
# 0: $1/t$. Turn it over, and you read off the place.
#
# </details>

# %%
if ready(masked_softmax, self_attention, causal_mask):
    same = np.tile([0.0, 1.0], (12, 1))
    same[0] = 1.0, 0.0  # the special token at the start
    nothing, first_number = np.zeros((2, 1)), np.array([[1.0], [0.0]])
    for mask, name in ((None, "no mask"), (causal_mask(12), "causal mask")):
        output, _ = self_attention(same, nothing, nothing, first_number, mask)
        print(f"{name:12} 1 / output:", (1 / output[:, 0]).round(6))

# %% [markdown]
# > **Myth refuted.** Under a causal mask, *one* layer without any position encoding can count. A
# > mask is tied to places, and here the number of visible places is the place. Models without
# > position encodings do learn it: Haviv et al. 2022 read positions off the inner states of such
# > trained models, and Kazemnejad et al. 2023 (theorem 1) prove the construction above.
#
# What it does *not* show: that counting this way is convenient. Places 1,000 and 1,001 differ by
# one millionth in the output. Chapter 06 gives a model its positions in better ways.

# %% [markdown]
# ## 6 · Sentences of different lengths
#
# A batch is one array: $B$ sentences, each of $S$ places. Shorter sentences are **padded**, filled
# up with tokens that mean nothing. They can stand on either side:
#
# | | places 0 … 4 |
# |---|---|
# | filled on the right | the · cat · sat · ▢ · ▢ |
# | filled on the left | ▢ · ▢ · the · cat · sat |
#
# The right is usual in training. The left is usual in writing: then all sentences end at the same
# place, and the next word of each goes to the same column.

# %% [markdown]
# <!-- exercise: padding_mask -->
#
# **Why.** Nobody should look at the filling. With $n_b$ the length of sentence $b$, key $s$ is a
# token, not filling, where
#
# $$M_{b\,1\,s} = \begin{cases} s < n_b & \text{filled on the right} \\
# s \ge S - n_b & \text{filled on the left.} \end{cases}$$
#
# That holds for all queries alike. So the mask has an axis of length 1 in the place of the queries;
# against scores of shape $(B, T, S)$ it broadcasts.
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

# %% [markdown]
# **NumPy you need: two more axes.** If `ages` has the shape $(4,)$, then `ages[:, None, None]` has
# the shape $(4, 1, 1)$. Against a row of shape $(5,)$ it broadcasts to $(4, 1, 5)$. A list becomes
# an array by `np.asarray(...)`.

# %% [markdown]
# **Predict first,** then open:
#
# <details><summary>Why not simply leave out the middle axis and return (B, S)?</summary>
#
# Shapes are compared from the last axis. Against scores $(B, T, S)$ the $B$ of the mask would meet
# the $T$ of the scores. That fails, or, where $B = T$, works and is wrong: query $t$ gets the
# padding of sentence $t$.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.self_attention import padding_mask

# %% [markdown]
# **What you should see.** Lengths 3, 5 and 2 in five places, filled on the right and on the left.

# %%
lengths = [3, 5, 2]
if ready(padding_mask):
    for side in ("right", "left"):
        mask = padding_mask(lengths, 5, side=side)
        print(f"filled on the {side}, shape {mask.shape}:", mask[:, 0].astype(int), sep="\n")

# %% [markdown]
# <!-- exercise: combine_masks -->
#
# **Why.** A batch of sentences in a model that writes needs both: no future *and* no filling. What
# is allowed is what every mask allows. Masks have different shapes, $(T, S)$ for the causal one and
# $(B, 1, S)$ for the padding, and sometimes there is none at all.
#
# $$M = M^{(1)} \wedge M^{(2)} \wedge \ldots$$
#
# Here $\wedge$ is "and", place by place: 1 where both are 1.
#
# | symbol | argument | shape |
# |---|---|---|
# | $M^{(1)}, M^{(2)}, \ldots$ | `*masks`, any number; None hides nothing | they broadcast |
# | $M$ | returned; None where all are None, or there are none | as broadcast |
#
# **By hand.** Three tokens, of which the first is filling (left), and no future:
#
# $$\begin{pmatrix} 1 & 0 & 0 \\ 1 & 1 & 0 \\ 1 & 1 & 1 \end{pmatrix} \wedge
# \begin{pmatrix} 0 & 1 & 1 \end{pmatrix} =
# \begin{pmatrix} 0 & 0 & 0 \\ 0 & 1 & 0 \\ 0 & 1 & 1 \end{pmatrix} .$$
#
# The first row is empty. It belongs to the filling itself: before it there is nothing, and at
# itself it may not look. This is where the rows with nothing to look at come from.

# %% [markdown]
# **NumPy you need.** `a & b` is "and", entry by entry, with broadcasting; `a | b` is "or", `~a` is
# "not". (Python's own `and` asks whether a whole array is true, which has no answer.) `a &= b`
# would write into `a`.
#
# A star in front of a parameter collects all arguments in a tuple:
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
# <details><summary>Predict first: two masks that each allow half of all pairs. How much can their
# combination allow, at most and at least?</summary>
#
# At most half (they are the same), at least nothing (they are opposites). Combining never allows
# more than any one of them.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.self_attention import combine_masks

# %% [markdown]
# **What you should see.** Does padding do its job? Three random sentences of 3, 5 and 2 tokens go
# through self-attention, each alone. Then all three in one batch of five places. The filling holds
# either zeros or hundreds. The numbers are the largest difference between a real token's output in
# the batch and its output alone. 0, or rounding around $10^{-16}$, means: it cannot tell that it
# is in a batch.
#
# <details><summary>Predict first: the filling is all zeros and there is no mask. Does a token made
# of zeros disturb the others?</summary>
#
# Yes. Its key is 0, so its score is 0. That is no small score: others are negative. It gets weight,
# and the others lose it.
#
# </details>
#
# <details><summary>Under a causal mask, filled on the right: is the padding mask needed at
# all?</summary>
#
# Not for real tokens: the filling comes after all of them, and they never look ahead. On the left
# it is needed: the filling is in the past of everyone.
#
# </details>

# %%
if ready(masked_softmax, self_attention, causal_mask, padding_mask, combine_masks):
    rng = np.random.default_rng(SEED)
    sentences = [rng.standard_normal((n, C)) for n in lengths]
    print("filled on   with   padding mask   causal mask   difference   empty rows")
    yes_no = ((False, False), (False, True), (True, False), (True, True))
    for side in ("right", "left"):
        real = [slice(0, n) if side == "right" else slice(5 - n, 5) for n in lengths]
        for filling, (padded, causal) in [(f, both) for f in (0.0, 100.0) for both in yes_no]:
            batch = np.full((3, 5, C), filling)
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
            print(f"{side:9}{filling:7g}   {used[0]:15}{used[1]:11}{worst:10.1e}{empty:14d}")

# %% [markdown]
# Without a padding mask the difference is 1 to 2 with zeros and about 180 with hundreds, except in
# one case: filled on the right under a causal mask. With the padding mask there is none, on either
# side, whatever the filling holds.
#
# On the left under both masks there are five empty rows: the $2 + 0 + 3$ places of filling, which
# have nothing to look at. Thanks to your `masked_softmax` their output is 0 and not NaN.
#
# > **Takeaway.** Masks are data: booleans that you make, move and combine. A padded sentence must
# > not be able to tell that it was padded.

# %% [markdown]
# ## 7 · A mask to paint
#
# Here is a mask in your hands. Click the cells (or Tab to one and press Space; or choose it with
# the sliders and turn it). Your `self_attention` runs on it at once. Try these:
#
# - *causal*; then give "the" (row 1) a single 1 further right. Which row of the weights changes?
# - Make a row empty.
# - *window*: each token sees itself and its neighbours. Follow "the" (1) in the second picture:
#   whom has it reached after 1, 2, 3 layers?
# - *padding left* and *padding right*: whom does the filling reach? Whom does a word reach?

# %%
if ready(masked_softmax, self_attention):
    words = ["the", "cat", "sat", "on", "the", "mat"]
    vectors = np.random.default_rng(SEED).standard_normal((6, 4)).round(1)
    vectors[4] = vectors[0]  # the same word twice
    display(widgets.mask_painter(self_attention, words, vectors))

# %% [markdown]
# The widget measures too: it changes the followed token and lets *your* function say who notices.
# When a token notices although no arrows lead to it, the widget tells you.
#
# <details><summary>causal, and one more 1 in row 1: which row of the weights changes?</summary>
#
# Only row 1. A row of the mask is the permissions of one query, and the softmax shares out each row
# by itself. In this one layer nobody else notices. In the second picture a way back in time opens:
# from the token you allowed to token 1, and from there to everyone who sees token 1.
#
# </details>
#
# <details><summary>An empty row: what becomes of it?</summary>
#
# Its weights are all 0, and so is its output. A line above the pictures says so. If your function
# gave NaN or $1/6$ each, you would see it here.
#
# </details>
#
# <details><summary>window, following token 1: whom has it reached after 1, 2, 3 layers?</summary>
#
# Tokens 1 and 2, then 1 to 3, then 1 to 4: one more with each layer. All six take five layers.
#
# </details>
#
# <details><summary>padding left or right: whom does the filling reach, and whom does a
# word?</summary>
#
# The filling reaches nobody else, however many layers: its columns are 0. A word reaches everyone
# in one layer, the filling too: the filling's rows are not empty, so it listens. That harms
# nobody, since nobody listens to it.
#
# </details>
#
# <details><summary>With padding left, follow the first token. It is hidden from all, also from
# itself. Why does a dashed arrow lead from it to itself?</summary>
#
# It is still a *query*. It asks, the others answer, and what it asked shapes its own output. A mask
# hides keys and values, not the question. (Where there is only one key to see, the question does
# not matter: that one gets the weight 1.)
#
# </details>
#
# Under *window*, how can the first token's information arrive where the first token is not seen?
# It walks. Token 3 sees token 2, and token 2 has already heard of token 1. Section 9 measures how
# far such walks get.

# %% [markdown]
# ## 8 · One text looks at another

# %% [markdown]
# <!-- exercise: cross_attention -->
#
# **Why.** A translator writes French while looking at English. The French words ask, the English
# ones answer: the queries come from one text, keys and values from the other, the **context**. This
# is **cross-attention**. It is the look-up of the original Transformer's decoder ("encoder-decoder
# attention", Vaswani et al. 2017, §3.2.3), and self-attention is the case in which a text is its
# own context.
#
# $$Q = x W_q, \qquad K = c\, W_k, \qquad V = c\, W_v,$$
#
# $$P = \operatorname{softmax}_M\!\left(\frac{QK^\top}{\sqrt D}\right), \qquad O = P\,V .$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$ | `x`, the text that asks | $(\ldots, T, C)$ |
# | $c$ | `context`, the text that answers; another width is fine | $(\ldots, S, C_c)$ |
# | $W_q$ | `w_q` | $(C, D)$ |
# | $W_k$ | `w_k` | $(C_c, D)$ |
# | $W_v$ | `w_v` | $(C_c, D_v)$ |
# | $M$ | `mask`, or None | broadcasts with $(\ldots, T, S)$ |
# | $O$ | output, first result | $(\ldots, T, D_v)$: a row for each token that asks |
# | $P$ | weights, second result | $(\ldots, T, S)$ |
#
# **By hand.** One query; a context of three tokens $2$, $4$ and $9$ (so $C_c = 1$), with equal
# scores, and $W_v = (1)$. The output is their mean, $5$. If the mask hides the third, it is $(2 +
# 4)/2 = 3$.

# %% [markdown]
# **Predict first,** then open:
#
# <details><summary>Should the mask of cross-attention be causal?</summary>
#
# No. The English sentence is there as a whole before the first French word is written. What must be
# hidden is its filling. The causal mask belongs to the French text's *self*-attention.
#
# </details>
#
# <details><summary>You write the context in another order. What happens to the output?</summary>
#
# Nothing, but for rounding. The columns of the weights move with the tokens, and the sum over them
# stays: it only adds in another order. Queries do not notice the order of what they look at. If
# there is a mask, its columns must move along, or it hides other tokens than before.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.self_attention import cross_attention

# %% [markdown]
# **What you should see.** Three French words look at three English ones. The features and matrices
# are written by hand, to show what weights *can* express; nothing was learned. "noir" looks at
# "black" and "chat" at "cat", each with the weight 0.94, though they stand in another order. The
# outputs say what was found.

# %%
french, english = ["le", "chat", "noir"], ["the", "black", "cat"]
features = ["article", "colour", "animal", "noun"]  # of the English words
context = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]])  # (S, C_c)
found_by = np.eye(4, 3)  # (C_c, D): an English word is found by its first three features
asking = np.eye(3)  # (T, C): each French word is a token of its own
ask_for = 6 * np.array([[1.0, 0, 0], [0, 0, 1], [0, 1, 0]])  # (C, D): article, animal, colour

if ready(masked_softmax, cross_attention):
    output, weights = cross_attention(asking, context, ask_for, found_by, np.eye(4))
    for word, row in zip(french, output, strict=True):
        print(f"{word:4} finds", dict(zip(features, row.round(2).tolist(), strict=True)))
    display(widgets.attention_explorer(french, weights, key_tokens=english))

# %% [markdown]
# > **Takeaway.** Self- and cross-attention are one look-up. They differ in where keys and values
# > come from; the mask says what of it may be seen.

# %% [markdown]
# ## 9 · Experiment: seeing is not walking
#
# In one layer a token hears of what it sees. Its output then holds a little of all of that. In the
# next layer whoever looks at *it* hears of that as well. So after $L$ layers, token $t$ can know of
# token $s$ if there is a **walk** of $L$ steps from $s$ to $t$, each step along a 1 of the mask.
# Let $R^{(L)}_{ts}$ say whether there is one:
#
# $$R^{(0)} = I, \qquad R^{(L)}_{ts} = \bigvee_{u} \big(M_{tu} \wedge R^{(L-1)}_{us}\big),
# \qquad\text{so}\qquad R^{(L)} = M^L$$
#
# with "and" ($\wedge$) for times, "or" ($\vee$) for plus, and $u$ for the token in between. In what
# follows everyone sees itself, so nothing is lost on the way: a walk may also wait.
#
# What follows? Let a token see $w$ places to each side. One layer reaches $w$ places, $L$ layers
# reach $L\,w$. To see is to look at $2w + 1$ tokens in one layer; to know of all $T$ takes about
# $T/w$ layers. Mistral 7B (Jiang et al. 2023, §2) lets a token see the last 4,096 and has 32
# layers: walks of up to $32 \cdot 4{,}096 = 131{,}072$ places.
#
# **Measured, not only counted.** $R^{(L)}$ is graph theory; it never asks your function. So the
# experiment uses the leak test's idea: change one of $T = 24$ tokens, send old and new text through
# $L$ layers of your `self_attention` with random matrices, and see which outputs moved, to the last
# bit. Six masks:
#
# | mask | ones in a row |
# |---|---|
# | all: everyone sees everyone (control: one layer should do) | 24 |
# | causal: itself and all before | 1 to 24 |
# | random: itself and two others, drawn anew in each run | 3 |
# | window: itself and one on each side | 3 (2 at the ends) |
# | causal window: itself and the two before | 3 (fewer at the start) |
# | self: only itself (control: nothing should ever arrive) | 1 |
#
# Random, window and causal window cost the same. Five runs, each with fresh tokens and matrices.
#
# <details><summary>Predict first: which of the three masks with 3 ones needs the fewest layers to
# bring a token far? How many layers does the window need to reach everyone?</summary>
#
# The random one: each layer can triple what is reached ($3, 9, 27, \ldots$), so a handful is
# enough. The window adds one place on each side per layer: from one end to the other 23 layers.
#
# </details>
#
# <details><summary>And the causal mask: what share of all pairs can it ever reach?</summary>
#
# $T(T+1)/2$ of $T^2$: $300/576 = 0.52$. All of it in the first layer; more layers add nothing.
# Information never goes back in time, by no detour.
#
# </details>

# %%
SIZE, WIDTH, LAYERS, RUNS = 24, 16, 24, 5  # T, C (and D, D_v), L


def masks_of(rng):
    """The six masks (T, T); the random one is drawn from `rng`."""
    ahead = np.arange(SIZE)[:, None] - np.arange(SIZE)  # how far the query is ahead of the key
    random = np.eye(SIZE, dtype=bool)
    for t in range(SIZE):
        random[t, rng.choice(np.delete(np.arange(SIZE), t), 2, replace=False)] = True
    return {
        "all": np.ones((SIZE, SIZE), dtype=bool),
        "causal": ahead >= 0,
        "random": random,
        "window": abs(ahead) <= 1,
        "causal window": (ahead >= 0) & (ahead <= 2),
        "self": ahead == 0,
    }


def changes(mask, rng):
    """How far output t moves after each layer when token s is changed: (L, T, T)."""
    texts = np.repeat(rng.standard_normal((1, SIZE, WIDTH)), SIZE + 1, axis=0)
    for s in range(SIZE):
        texts[s + 1, s] += rng.standard_normal(WIDTH)  # text 0 is as it was, text s + 1 changed
    moved = []
    for _ in range(LAYERS):
        w_q, w_k = rng.standard_normal((2, WIDTH, WIDTH)) / np.sqrt(WIDTH)
        w_v, _ = np.linalg.qr(rng.standard_normal((WIDTH, WIDTH)))  # turns values, keeps their size
        texts, _ = self_attention(texts, w_q, w_k, w_v, mask)
        moved.append(np.abs(texts[1:] - texts[0]).max(axis=-1).T)
    return np.array(moved)


def walks(mask):
    """Whether a walk of 1, 2, … L steps leads from s to t: (L, T, T)."""
    reach, steps = np.eye(SIZE, dtype=bool), []
    for _ in range(LAYERS):
        reach = mask @ reach  # for booleans, @ is "or" over "and"
        steps.append(reach)
    return np.array(steps)


# %%
measured: dict[str, list[np.ndarray]] = {}  # mask: for each run, changes (L, T, T)
possible: dict[str, list[np.ndarray]] = {}  # mask: for each run, walks (L, T, T)
if ready(masked_softmax, self_attention):
    for run in range(RUNS):
        for name, mask in masks_of(np.random.default_rng([SEED, run])).items():
            measured.setdefault(name, []).append(changes(mask, np.random.default_rng([SEED, run])))
            possible.setdefault(name, []).append(walks(mask))
    for name in measured:
        noticed, walk = np.array(measured[name]) > 0, np.array(possible[name])
        print(
            f"{name:14} noticed without a walk: {int((noticed & ~walk).sum())}   "
            f"walk, not noticed: {int((~noticed & walk).sum()):2d}   of {walk.size}"
        )

# %% [markdown]
# **What you should see.** Of 415,000 comparisons about 179,000 have no walk, and in not one of
# those is anything noticed, to the last bit. Where there is a walk, the change is noticed, but for
# about twenty cases under the causal mask, which come back below. Now the shares, layer by layer:
# the line is the mean over the runs, the band goes from the smallest run to the largest.

# %%
if ready(masked_softmax, self_attention) and measured:
    display(
        charts.bands(
            [
                {"layers": layer + 1, "share": float((change[layer] > 0).mean()), "mask": name}
                for name, runs in measured.items()
                for change in runs
                for layer in range(LAYERS)
            ],
            "layers",
            "share",
            "mask",
            title="Three ones in a row: a window walks, a random mask jumps",
            description="Share of all pairs of tokens in which a change of one is noticed by the "
            "other, against the number of layers, for six masks, mean and range of 5 runs. "
            "All: 1 from the first layer on. Self: 0.04 throughout. Causal: 0.52 from "
            "the first layer on. Random: rises from 0.12 to about 0.7 within five layers, then "
            "stays, with a wide band. Window: a steady rise to 1 at layer 23. Causal window: a "
            "steady rise to 0.52 at layer 12.",
            x_title="layers",
            y_title="pairs that notice (share of 576)",
            height=320,
        )
    )

# %% [markdown]
# - **Window** and **causal window** rise steadily: so many places per layer, no more. They need 23
#   and 12 layers to reach what they ever will.
# - **Random** is nearly done after five layers, with the same number of ones. A few long jumps make
#   a large world small. (Sparse attention uses this: BigBird, Zaheer et al. 2020, and chapter 14.)
# - But random does *not* reach everyone: it stays near three quarters. Everyone looks at two
#   others; nobody guarantees that someone looks at *you*. A token that no one looks at is heard by
#   no one. That also makes the band so wide.
# - **Causal** stops at 0.52, and both controls do what they should.

# %% [markdown]
# ### Reachable is not loud
#
# A walk says that something *can* arrive. How much does? Here is the median change of an output
# among the pairs that are reached for the first time at each layer: for the window that is at
# distance 1, 2, 3, …


# %%
def first_arrivals(name):
    """For each run and layer, the median change among the pairs that layer reaches first."""
    rows = []
    for change, walk in zip(measured[name], possible[name], strict=True):
        earlier = np.eye(SIZE, dtype=bool)
        for layer in range(12):
            first, earlier = walk[layer] & ~earlier, walk[layer]
            typical = float(np.median(change[layer][first])) if first.any() else 0.0
            if typical > 0:  # a logarithmic axis has no place for 0
                rows.append({"layer": layer + 1, "change": typical, "mask": name})
    return rows


if ready(masked_softmax, self_attention) and measured:
    three = ("random", "window", "causal window")
    rows = [row for name in three for row in first_arrivals(name)]
    display(
        charts.bands(
            rows,
            "layer",
            "change",
            "mask",
            title="What arrives from far away is faint",
            description="Median change of an output that is reached for the first time at a layer, "
            "against the layer, logarithmic, for three masks, mean and range of 5 runs. All three "
            "fall from about 0.7 at the first layer along nearly straight lines: to a few "
            "hundredths or less at layer 5; the two windows to below 0.001 at layer 12.",
            x_title="layer at which the change first arrives",
            y_title="median change (log scale)",
            log_y=10,
            colors=dict(zip(measured, charts.GROUPS, strict=False)),
        )
    )
    print("mean of the runs at layer")
    for name in three:
        at = {
            n: [row["change"] for row in rows if (row["mask"], row["layer"]) == (name, n)]
            for n in (1, 2, 3, 5, 8, 12)
        }
        told = ", ".join(f"{layer}: {np.mean(v):.1g}" for layer, v in at.items() if v)
        print(f"{name:14} {told}")

# %% [markdown]
# **What it shows.** Each hop costs a factor of about three, since at each one the message is mixed
# with two others. Under the window, a change arrives at a thousandth of its size after seven or
# eight hops, and after twelve at millionths; under the causal window, at hundred-thousandths. "The
# receptive field is $L\,w$" is true and says little about how much is *received*. A token reaches
# more in few hops than in many; that is what the long jumps of the random mask buy.
#
# The walks that went unnoticed are of the same kind. Under the causal mask a late token mixes
# itself with all before it, in each layer anew, so little of its own is left. Here it fell below
# rounding a few times: nearly all of these cases are two late tokens of one of the five runs, which
# after some 17 layers no longer noticed a change of themselves. That is rare; with other random
# numbers it is other tokens, or none.
#
# **What it does not show.**
#
# - Anything about trained models. These matrices are random; training can make an arrow strong.
# - Anything about real blocks. They *add* attention's output to the token instead of replacing it
#   (the residual connection, chapter 07), so that a token keeps itself at full strength.
# - That a window is worse. What a text needs from far away is another question; chapter 14 asks it.
#
# > **Takeaway.** A mask limits what is seen in one layer. Depth lets information walk on, never
# > against the arrows, and fainter with every hop.

# %% [markdown]
# ## 10 · Where this breaks
#
# **A very low number is not $-\infty$.** Many programs add $-10^9$ to hidden scores. As long as
# something is visible, that works. In an empty row it does not: here row 0 of the left-padded
# causal mask from section 6. In float64 what comes out is the softmax of the scores as if *nothing*
# were hidden. In float32, which many models use, all weights come out equal: near $-10^9$ its
# numbers are 64 apart, so 0, 1 and 2 are rounded away. Either way the query looks at what is hidden
# from it. And float16 has no number as low as $-10^9$: it becomes $-\infty$ by itself, and the row
# NaN. So some programs add $-10^4$ there; you have seen in section 5 what that does.

# %%
if ready(masked_softmax, causal_mask, padding_mask, combine_masks):
    both = combine_masks(causal_mask(3), padding_mask([2], 3, side="left"))
    empty_row = np.zeros(3, dtype=bool) if both is None else both[0, 0]
    row_scores = np.array([0.0, 1.0, 2.0])
    added = np.where(empty_row, 0.0, -1e9)
    print("row 0 of the mask:             ", empty_row.astype(int))
    print("−1e9 added, then softmax:      ", softmax(row_scores + added))
    print("the same in float32:           ", softmax((row_scores + added).astype(np.float32)))
    print("the scores without any mask:   ", softmax(row_scores))
    print("yours:                         ", masked_softmax(row_scores, empty_row))
    with np.errstate(all="ignore"):  # the overflow is the point
        print("−1e9 in float16:               ", np.float16(-1e9))

# %% [markdown]
# **A weight of 0 does not stop NaN.** $0 \cdot v$ is 0 for every number $v$, but $0 \cdot \infty$
# and $0 \cdot \text{NaN}$ are NaN. The mask keeps the filling out of the weights, not out of the
# product with the values. So fill with numbers, never with "nothing".

# %%
if ready(masked_softmax, self_attention, padding_mask):
    filled = np.full((4, C), np.nan)
    filled[:2] = text[:2]
    with np.errstate(all="ignore"):
        output, weights = self_attention(filled, w_q, w_k, w_v, padding_mask([2], 4)[0])
    print("weights of token 0:", weights[0], "  its output:", output[0, :3], "…")

# %% [markdown]
# **A mask saves no work.** All $T \times S$ scores are computed, and those outside the triangle are
# thrown away: nearly half of them. Skipping them takes another algorithm (chapters 14 and 16).
#
# **A mask is not an explanation.** It says what *cannot* have played a part. What did play a part,
# and how much, is neither in the mask nor simply in the weights (chapter 11).
#
# **Two conventions.** `~` in the wrong place gives a model that sees only the future, and no error.
# The leak test finds it. So does a look at the first row: under a causal mask the first token gives
# itself the weight 1.

# %% [markdown]
# ## 11 · Recap
#
# - Self-attention: queries, keys and values from one sentence. Cross-attention: keys and values
#   from another.
# - A mask is a table of booleans, True where query $t$ may look at key $s$. Masks combine by "and".
# - Hide before the softmax, with $-\infty$. A row with nothing to look at is 0.
# - Without a mask, $f(Px) = Pf(x)$. A mask breaks that, and $f_{PMP^\top}(Px) = P f_M(x)$
#   restores it.
#   A causal mask alone can tell places apart.
# - Change a token and compare bits: `leak_test` finds leaks that no look at a mask would find.
# - After $L$ layers, information gets as far as walks of $L$ steps, $M^L$; it gets fainter with
#   each.
#
# **Next.** One look-up gives one mean. Chapter 05 lets several run side by side: many heads.
#
# ## Sources
#
# - Self-attention, the causal mask by $-\infty$, encoder-decoder attention: Vaswani et al. 2017,
#   *Attention Is All You Need*, §3.2.1 and §3.2.3.
# - Permutation equivariance: Lee et al. 2019, *Set Transformer: A Framework for Attention-based
#   Permutation-Invariant Neural Networks*, §3.
# - Order without position encodings: Haviv et al. 2022, *Transformer Language Models without
#   Positional Encodings Still Learn Positional Information*; Kazemnejad et al. 2023, *The Impact of
#   Positional Encoding on Length Generalization in Transformers*, theorem 1.
# - A window and its reach through layers: Jiang et al. 2023, *Mistral 7B*, §2; Beltagy et al. 2020,
#   *Longformer: The Long-Document Transformer*, §3.1.
# - Random attention and short paths: Zaheer et al. 2020, *Big Bird: Transformers for Longer
#   Sequences*, §2.
# - The mask's two conventions: PyTorch's documentation of `scaled_dot_product_attention` and
#   `nn.MultiheadAttention`.
