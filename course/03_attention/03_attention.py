# %% [markdown]
# # 03 · Scaled dot-product attention
#
# **The question.** What is scaled dot-product attention, and why is there a $\sqrt{d_k}$ in it?
#
# At the end you will have written it in NumPy, forward and backward. You will have measured what
# the scale does, and corrected a number that is often printed wrong. It takes about 100 minutes,
# an hour of them in the exercises.
#
# You need: Python, a little NumPy, the dot product, the mean and the variance, and the chain
# rule. You need no other chapter. The NumPy that an exercise uses is explained just before it.
#
# **How it works.** You fill in six functions. Below each one, `check(...)` says what holds, what
# does not, and why. `hint(...)` gives up to three hints; `solution(...)` shows the course's own
# answer, after asking. A cell that needs a function you have not written yet says so and waits;
# nothing breaks if you run everything at once.
#
# | section | you write | you find out |
# |---|---|---|
# | 1–2 | | why a look-up should be soft |
# | 3 | `softmax` | how scores become weights |
# | 4 | `attention_scores` | how a query meets every key |
# | 5 | `scaled_dot_product_attention` | the whole look-up, and a wrong number in print |
# | 6 | `score_variance` | why dot products grow with their width |
# | 7 | `softmax_jacobian` | what large scores do to the gradient |
# | 8 | `attention_backward` | the gradient of attention, by hand |
# | 9–11 | | training with and without the scale; where this breaks |

# %%
import sys

import numpy as np
from attend import charts, widgets
from attend_grader import check, hint, ready, solution
from attend_solutions.types import Array  # a NumPy array of floats, in the signatures
from IPython.display import display
from tqdm import tqdm

SEED = 3  # the only seed in this notebook: every random number below follows from it
np.set_printoptions(precision=3, suppress=True)

# %% [markdown]
# ### Letters
#
# The whole course uses the same letters for the axes of an array.
#
# | letter | counts | | letter | counts |
# |---|---|---|---|---|
# | $T$ | queries | | $D$ | numbers in one query or key (the papers write $d_k$) |
# | $S$ | keys, and values | | $D_v$ | numbers in one value |
# | $B$ | examples in a batch | | $C$ | numbers in one embedding (section 2) |
# | $H$ | heads: look-ups side by side (chapter 05) | | $\ldots$ | any leading axes, as $B, H$ |
#
# In an equation a capital letter is a matrix: $Q$, $K$, $V$, scores $S$, weights $P$, output $O$.
# In a shape, $S$ is the number of keys. The context tells you which.

# %% [markdown]
# ## 1 · The look-up problem
#
# You read: *The cat sat on the mat because it was tired.* What does "it" mean? To answer, you
# look something up: you have a question ("which thing can be tired?"), and you search the other
# words for the one that fits. Many steps of reading are look-ups. The subject of a verb, the noun
# of an article, the opening bracket of a closing one.
#
# Python has a type for looking things up: the dictionary. It has three roles.
#
# | role and its colour in this course | in `ages` below | in attention |
# |---|---|---|
# | <span style="color:#0072B2">■</span> **query** (blue) | what you ask | what a word looks for |
# | <span style="color:#E69F00">■</span> **key** (orange) | the names | what a word is found by |
# | <span style="color:#009E73">■</span> **value** (green) | the numbers | what you then get |

# %%
ages = {"cat": 3.0, "dog": 7.0}
print(ages["cat"])
print(ages.get("kitten", "nothing: no key is equal to the query"))

# %% [markdown]
# The dictionary is **hard**: a key is equal to the query, or it does not count at all. That has
# two consequences.
#
# 1. *Nearly right is as bad as wrong.* "kitten" finds nothing, though "cat" would be a fair
#    answer.
# 2. *It cannot be trained by gradient descent.* Change the query a little, and the answer stays
#    exactly the same, or jumps. The derivative is 0 or does not exist. Nothing tells you which
#    way to move the query to get a better answer.
#
# Make it **soft**. Let queries and keys be vectors. Give every key a weight that says how well it
# fits the query. Return the weighted mean of *all* the values:
#
# $$\text{answer} = \sum_{s=1}^{S} p_s\, v_s, \qquad p_s \ge 0, \qquad \sum_{s=1}^{S} p_s = 1 .$$
#
# If one weight is 1 and the others are 0, this is the hard dictionary again. In between, it
# answers "mostly cat, a little dog". And a small change of the query changes the weights a
# little: there is a slope to follow.
#
# Two things are left to choose. How do you measure that a key fits a query? By their dot product:
# section 4. How do you turn such scores into weights? By the softmax: section 3.

# %% [markdown]
# ## 2 · One row by hand: cat sat mat
#
# A model reads text in pieces called **tokens**; here each token is a word. The numbers that stand
# for a token are its **embedding**. Take three tokens, each with an embedding of $C = 2$ numbers:
#
# $$x_{\text{cat}} = (1, 0), \qquad x_{\text{sat}} = (0, 1), \qquad x_{\text{mat}} = (1, 1).$$
#
# A model makes the query, key and value of a token from its embedding by three learned matrices:
# $q = x W_q$, $k = x W_k$, $v = x W_v$. Three matrices, because what a token looks for, what it
# can be found by, and what it says are three different things. Here all three are the identity,
# so that you can follow each number: $q = k = v = x$, and $D = D_v = 2$.
#
# What does **sat** see? Its query is $(0, 1)$.
#
# | step | cat | sat | mat |
# |---|---|---|---|
# | key | $(1,0)$ | $(0,1)$ | $(1,1)$ |
# | dot product with the query $(0,1)$ | $0$ | $1$ | $1$ |
# | divided by $\sqrt{D} = \sqrt 2 = 1.414$ | $0$ | $0.707$ | $0.707$ |
# | exponential | $1$ | $2.028$ | $2.028$ |
# | divided by their sum, $5.056$: the **weight** | $0.198$ | $0.401$ | $0.401$ |
#
# The output is the weighted mean of the values:
#
# $$0.198\,(1,0) + 0.401\,(0,1) + 0.401\,(1,1) = (0.599,\ 0.802).$$
#
# So "sat" takes most from itself and from "mat", whose keys point its way, and about a fifth from
# "cat", whose key stands at a right angle to its query.
#
# All dot products at once, one row per query:
#
# | query ↓ key → | cat | sat | mat |
# |---|---|---|---|
# | cat | 1 | 0 | 1 |
# | sat | 0 | 1 | 1 |
# | mat | 1 | 1 | 2 |
#
# Your own functions will fill in the rest. Keep these three tokens in mind; they come back.

# %%
tokens = ["cat", "sat", "mat"]
x = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # (T, C)

# %% [markdown]
# ## 3 · From scores to weights

# %% [markdown]
# <!-- exercise: softmax -->
#
# **Why.** Scores can be any numbers, also negative. Weights of a mean must be positive, with a
# sum of 1. A larger score should give a larger weight. And it should not matter if you add the
# same number to all scores: only the differences say which key fits better. Exponentials do all
# that; a positive number becomes a weight when you divide by the sum:
#
# $$p_i = \frac{e^{s_i}}{\sum_{j} e^{s_j}}$$
#
# <details><summary>Why exponentials, and not some other increasing function?</summary>
#
# If the ratio $p_i / p_j$ may depend on $s_i - s_j$ alone, then $p_i \propto e^{\beta s_i}$ for
# some $\beta$: no other continuous function turns every sum into a product. The softmax takes
# $\beta = 1$.
#
# </details>
#
# **The trap.** The largest float64 is about $1.8 \cdot 10^{308}$, and $e^{710}$ is larger. Then
# you get $\infty / \infty$, which is not a number. In float16 it already happens at $e^{12}$. But
# a shift changes nothing, as you can see by cancelling $e^{-m}$:
#
# $$\frac{e^{s_i - m}}{\sum_j e^{s_j - m}} = \frac{e^{-m} e^{s_i}}{e^{-m} \sum_j e^{s_j}} = p_i .$$
#
# Choose $m = \max_j s_j$. Now the largest exponent is $0$, so nothing overflows. Also the sum is
# at least 1, so you never divide by 0.
#
# | symbol | meaning | shape |
# |---|---|---|
# | $s$ | scores | any; one axis is normalised, usually the last: $(\ldots, S)$ |
# | $m$ | largest score along that axis | the same, with length 1 there |
# | $p$ | weights | the same as the scores |
#
# **By hand.** Scores $(1001, 1000)$. The largest is $1001$; the differences to it are $(0, -1)$;
# their exponentials are $(1, 0.368)$, with the sum $1.368$; the weights are $(0.731, 0.269)$.

# %% [markdown]
# **NumPy you need: an axis that stays.** A reduction such as a mean removes the axis it runs
# over. With `keepdims=True` the axis stays, with length 1, and the result *broadcasts*: NumPy
# repeats an axis of length 1 as often as the other array asks. Here are temperatures of two
# cities on three days, and how far each is from its own city's mean:
#
# ```python
# degrees = np.array([[10.0, 12.0, 17.0], [20.0, 20.0, 26.0]])     # (2, 3)
# degrees.mean(axis=1)                                              # [13. 22.]        (2,)
# degrees.mean(axis=1, keepdims=True)                               # [[13.] [22.]]    (2, 1)
# degrees - degrees.mean(axis=1, keepdims=True)                     # [[-3. -1.  4.] [-2. -2.  4.]]
# ```
#
# Without `keepdims` the last line fails: shapes $(2, 3)$ and $(2,)$ do not fit. Worse, for a
# square array they *do* fit, and the answer is wrong.
#
# `.max` and `.sum` take the same arguments; `np.exp` works entry by entry.
#
# Two more things. `axis=-1` counts from the end: the last axis. And `a -= b` writes into the
# caller's array (and fails if `a` holds integers and `b` does not), while `a = a - b` makes a new
# one.

# %% [markdown]
# **Predict first,** then open:
#
# <details><summary>What are the weights of the scores (5, 5, 5, 5)? And of (105, 105, 105,
# 105)?</summary>
#
# Both are (0.25, 0.25, 0.25, 0.25). Equal scores give equal weights, whatever their size: only
# differences count.
#
# </details>
#
# <details><summary>Scores (0, 1) give the weights (0.269, 0.731). If you multiply both scores by
# 10, do the weights stay?</summary>
#
# No. The difference is now 10, so the ratio of the weights is $e^{10} \approx 22\,026$ instead of
# $e \approx 2.7$. Softmax ignores a shift but not a stretch. Remember this: it is what the whole
# of section 7 is about.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.attention import softmax

# %% [markdown]
# **What you should see.** Your function turns the scores 1, 2, 3 into weights, while all three
# are multiplied by the same number. At 0 the scores are equal: every weight is 1/3. At 1 the
# weights are 0.09, 0.24, 0.67. At 5 the largest has 0.993: nearly a hard dictionary.

# %%
if ready(softmax):
    fixed = np.array([1.0, 2.0, 3.0])
    rows = [
        {"multiplier": float(m), "weight": float(w), "score": f"score {s:.0f}"}
        for m in np.linspace(0, 5, 26)
        for s, w in zip(fixed, softmax(m * fixed), strict=True)
    ]
    display(
        charts.line(
            rows,
            "multiplier",
            "weight",
            "score",
            title="Stretching the scores makes the softmax harder",
            description="Three weights against a multiplier from 0 to 5. They start equal at one "
            "third; the weight of the largest score rises towards 1, the other two fall towards 0.",
            x_title="multiplier of all scores (no unit)",
            y_title="weight (share of 1)",
        )
    )

# %% [markdown]
# > **Takeaway.** Softmax keeps the order of the scores and makes them a distribution; how hard it
# > chooses depends on how far apart the scores are.

# %% [markdown]
# ## 4 · From queries and keys to scores

# %% [markdown]
# <!-- exercise: attention_scores -->
#
# **Why.** You need one number that says how well a key fits a query. The dot product $q \cdot k =
# \|q\| \|k\| \cos\theta$ is large when the vectors point the same way, 0 at a right angle,
# negative when they are opposed. It is cheap too: all the dot products of $T$ queries with $S$
# keys are one matrix product, which is what hardware does best. (Bahdanau et al. 2015, chapter
# 02, use a small network instead. Vaswani et al. 2017, "the paper" from here on, compare the two
# in §3.2.1.)
#
# $$S = \frac{Q K^\top}{\sqrt{D}}, \qquad S_{ts} = \frac{1}{\sqrt D}\sum_{d=1}^{D} Q_{td}\, K_{sd}$$
#
# Why divide by $\sqrt D$? Take it as given for now. You will derive it in section 6 and measure
# it in sections 7 and 9. So that you can compare, your function can also leave it out:
# `scaled=False`.
#
# | symbol | argument | shape |
# |---|---|---|
# | $Q$ | `q` | $(\ldots, T, D)$ |
# | $K$ | `k` | $(\ldots, S, D)$ |
# | $S$ | returned | $(\ldots, T, S)$: a row per query, a column per key |
#
# **By hand.** $D = 4$, one query $q = (1, 2, 2, 0)$, two keys $k_1 = (3, 1, 0, 5)$ and $k_2 = (0,
# -1, 1, 7)$. The dot products are $3 + 2 + 0 + 0 = 5$ and $0 - 2 + 2 + 0 = 0$. Divided by $\sqrt
# 4 = 2$ they are $2.5$ and $0$. The shape is $(1, 2)$.

# %% [markdown]
# **NumPy you need: products of stacks.** `a @ b` multiplies matrices: the last axis of `a`
# against the second last of `b`. All axes before these two are a *stack*, and the product runs
# over the stack by itself:
#
# ```python
# prices = np.ones((7, 2, 3))     # 7 days, each a 2 × 3 matrix
# amounts = np.ones((7, 3, 4))    # 7 days, each a 3 × 4 matrix
# (prices @ amounts).shape        # (7, 2, 4): 7 matrix products
# prices.shape[-1]                # 3: the length of the last axis
# ```
#
# To transpose, be careful: `.T` reverses *all* axes. `np.swapaxes` exchanges the two you name,
# counted from the start or, with negative numbers, from the end:
#
# ```python
# prices.T.shape                  # (3, 2, 7)  the days have moved
# np.swapaxes(prices, 0, 1).shape # (2, 7, 3)  the first two are exchanged
# ```
#
# Neither copies a number: the result is a **view**, the same memory read in another order. Your
# functions will be given views, integers and float32 too.
#
# <details><summary>A remark on types</summary>
#
# Dividing a float32 array by a plain Python number gives float32. Dividing by a NumPy float64
# number, which is what `np.sqrt(7)` returns, gives float64. Both are right; the first uses half
# the memory.
#
# </details>

# %% [markdown]
# **Predict first,** then open:
#
# <details><summary>q has the shape (8, 5, 64) and k the shape (8, 7, 64). What is the shape of
# the scores?</summary>
#
# (8, 5, 7). The 8 is a leading axis and stays. The 64 is summed over and disappears.
#
# </details>
#
# <details><summary>You write every query and every key twice in a row: (1, 2) becomes (1, 2, 1,
# 2). What happens to the unscaled scores, and to the scaled ones?</summary>
#
# The dot product has every term twice: it doubles. $D$ doubles as well, so the divisor grows by
# $\sqrt 2$, and the scaled score grows by $2/\sqrt 2 = 1.41$. Copies are not independent. If the
# new components were independent and random, the scaled scores would keep their size: section 6.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.attention import attention_scores

# %% [markdown]
# **What you should see.** For cat, sat, mat: first the table of section 2, then each number
# divided by $\sqrt 2 = 1.414$. Both are symmetric here, only because queries and keys are the
# same.

# %%
if ready(attention_scores):
    print("dot products", attention_scores(x, x, scaled=False), sep="\n")
    print("scaled", attention_scores(x, x), sep="\n")

# %% [markdown]
# > **Takeaway.** One matrix product compares every query with every key. Row $t$ belongs to query
# > $t$.

# %% [markdown]
# ## 5 · The whole look-up

# %% [markdown]
# <!-- exercise: scaled_dot_product_attention -->
#
# **Why.** You have scores and you can turn scores into weights. What is left is the last step of
# the soft dictionary: the mean of the values under each query's weights. For all queries at once,
# this is equation (1) of the paper:
#
# $$P = \operatorname{softmax}\!\left(\frac{QK^\top}{\sqrt D}\right), \qquad O = P\,V, \qquad
# O_t = \sum_{s=1}^{S} P_{ts} V_s$$
#
# The softmax runs over the **keys**: each query spreads a total of 1 over all keys. Nothing
# forces a key to be used. A key can be looked at by every query, or by none.
#
# | symbol | name | shape |
# |---|---|---|
# | $Q$, $K$ | queries, keys | $(\ldots, T, D)$, $(\ldots, S, D)$ |
# | $V$ | values, one per key; their width is their own | $(\ldots, S, D_v)$ |
# | $P$ | weights, second result | $(\ldots, T, S)$, each row sums to 1 |
# | $O$ | output, first result | $(\ldots, T, D_v)$ |
#
# **By hand.** One query, two keys, scaled scores $(0, \ln 3)$. The exponentials are $(1, 3)$, so
# the weights are $(0.25, 0.75)$. With the values $(8, 0, 2)$ and $(4, 2, 2)$, the output is
# $0.25\,(8, 0, 2) + 0.75\,(4, 2, 2) = (5,\ 1.5,\ 2)$. Each number of the output lies between
# those of the values: a mean cannot leave their range.
#
# **NumPy you need: nothing new.** In Python, `return a, b` returns two results, and `a, b = f()`
# takes them apart again.

# %% [markdown]
# **Predict first,** then open:
#
# <details><summary>All keys are the same vector. What is the output?</summary>
#
# All scores of a query are equal, so all weights are $1/S$. The output is the plain mean of the
# values, for every query.
#
# </details>
#
# <details><summary>There is only one key. How does the output depend on the query?</summary>
#
# Not at all. The only weight is 1, whatever the score is. The output is the value.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.attention import scaled_dot_product_attention

# %% [markdown]
# **What you should see.** The row of "sat" as you know it from section 2: weights 0.198, 0.401,
# 0.401 and output (0.599, 0.802). The row of "cat" is the same with the roles of "cat" and "sat"
# exchanged. "mat" gives half of its weight to itself.

# %%
if ready(scaled_dot_product_attention):
    output, weights = scaled_dot_product_attention(x, x, x)
    for token, row, mean in zip(tokens, weights, output, strict=True):
        print(f"{token}  weights {row}  output {mean}")

# %% [markdown]
# Now change the embeddings by hand. Your function works out each table again. Try these:
#
# - Make "sat" longer: $(0, 3)$. Its own row gets harder, and it draws more weight in the row of
#   "mat".
# - Make "sat" equal to "cat". What do their rows look like?
# - Set all embeddings to 0. What is left is the plain mean.

# %%
if ready(softmax, attention_scores, scaled_dot_product_attention):
    display(
        widgets.attention_table(scaled_dot_product_attention, tokens, x, scores=attention_scores)
    )

# %% [markdown]
# ### A number you will find printed
#
# You will find this very example in print: above it the formula with $\sqrt{d_k}$, below it, for
# the row of "cat", the weights
#
# $$0.42 \qquad 0.16 \qquad 0.42 .$$
#
# Your function says something else. Who is right?
#
# <details><summary>Predict first: which step could have been forgotten?</summary>
#
# The printed weights are further apart than yours. A ratio of weights is $e$ to the difference of
# the scores. Yours is $0.401/0.198 = 2.03 = e^{0.707}$: the difference is $1/\sqrt 2$. The
# printed one is $0.42/0.16 \approx 2.6$, and these numbers are rounded; $e^1$ is 2.72. The
# difference was 1, the dot product *before* it was divided by $\sqrt 2$.
#
# </details>

# %%
if ready(softmax, attention_scores):
    for scaled in (False, True):
        cat_row = softmax(attention_scores(x, x, scaled=scaled))[0]
        print("with the scale   " if scaled else "without the scale", cat_row)

# %% [markdown]
# > **Myth refuted.** 0.42 / 0.16 / 0.42 is the softmax of the *unscaled* scores. With the formula
# > as it is printed, the row is 0.401 / 0.198 / 0.401. At $D = 2$ the slip is small. At $D = 512$
# > it is not, as you will see. When you read a worked example, recompute it.

# %% [markdown]
# ### What a model could ask
#
# As long as $W_q$ and $W_k$ are the identity, a token finds what resembles it. Real queries ask
# for something *else*. Here is a sentence with features written by hand, and a matrix $W_q$, also
# written by hand, that says what each kind of word asks for: a verb asks for an animal, "it" asks
# for an animal that is a noun, a function word asks for a noun. Nothing here was learned; it only
# shows that separate queries and keys *can* express such questions. Look at the rows of "it" and
# "sat". Then look at the two rows of "the".

# %%
sentence = ["the", "cat", "sat", "on", "the", "mat", "because", "it", "was", "tired"]
features = ["noun", "animal", "verb", "pronoun", "function", "adjective"]
kinds = ["function", "noun animal", "verb", "function", "function", "noun", "function", "pronoun"]
kinds += ["verb", "adjective"]
asks_for = {
    "noun": "function",
    "verb": "animal",
    "pronoun": "noun animal",
    "function": "noun",
    "adjective": "animal",
}


def many_hot(words: str) -> np.ndarray:
    return np.array([float(feature in words.split()) for feature in features])


embeddings = np.array([many_hot(kind) for kind in kinds])  # (T, C)
w_query = 6 * np.array([many_hot(asks_for.get(feature, "")) for feature in features])  # (C, D)

if ready(scaled_dot_product_attention):
    _, weights = scaled_dot_product_attention(embeddings @ w_query, embeddings, embeddings)
    display(widgets.attention_explorer(sentence, weights))

# %% [markdown]
# "it" gives 0.873 to "cat" and 0.075 to "mat": both are nouns, one is an animal. The two rows of
# "the" are equal, though one belongs to the cat and one to the mat. Attention as it stands does
# not know *where* a token is. Section 10 comes back to that.
#
# Whether the weights of a trained model say why it answers as it does is another question, and an
# open one (Jain and Wallace 2019; Wiegreffe and Pinter 2019). Here they do, because you can read
# $W_q$.
#
# > **Takeaway.** Attention is a dictionary that returns a mean: query · key decides how much,
# > value decides what.

# %% [markdown]
# ## 6 · Why $\sqrt{d_k}$: how large is a dot product?
#
# Now for the scale. How large are dot products of $D$ numbers? Suppose, as the paper does in its
# footnote 4, that the components $q_1 \dots q_D$ and $k_1 \dots k_D$ are independent random
# numbers with mean 0 and variance 1. That is roughly what a network has just after it is
# initialised.
#
# **Step 1: one term.** The mean of a product of independent numbers is the product of their
# means:
#
# $$\mathbb E[q_d k_d] = \mathbb E[q_d]\;\mathbb E[k_d] = 0 \cdot 0 = 0 .$$
#
# For the variance, recall $\operatorname{Var}(z) = \mathbb E[z^2] - \mathbb E[z]^2$. For a mean
# of 0 and a variance of 1 it says $\mathbb E[q_d^2] = 1$. So
#
# $$\operatorname{Var}(q_d k_d) = \mathbb E[q_d^2 k_d^2] - 0^2 = \mathbb E[q_d^2]\;\mathbb E[k_d^2]
# = 1 \cdot 1 = 1 .$$
#
# **Step 2: the sum.** Means always add. Variances add when the terms are independent, and these
# are:
#
# $$\mathbb E[q \cdot k] = \sum_{d=1}^D 0 = 0, \qquad
# \operatorname{Var}(q \cdot k) = \sum_{d=1}^D 1 = D .$$
#
# **Step 3: the scale.** The typical size of a dot product is its standard deviation, $\sqrt D$: 8
# at $D = 64$, and 22.6 at $D = 512$. Dividing a number by $c$ divides its variance by $c^2$. To
# get back to variance 1, divide by $\sqrt D$:
#
# $$\operatorname{Var}\!\left(\frac{q \cdot k}{\sqrt D}\right) = \frac{D}{(\sqrt D)^2} = 1
# \qquad \text{for every } D.$$
#
# Why not divide by $D$? Then the variance would be $D/D^2 = 1/D$. At $D = 512$ the scores would
# have a standard deviation of 0.04, and all weights would be nearly equal. Only the root keeps
# the spread the same for every $D$.

# %% [markdown]
# <!-- exercise: score_variance -->
#
# **Why.** A derivation rests on assumptions. Measure it: draw many pairs, take their dot
# products, and see how widely they are spread.
#
# $$z_i = \sum_{d=1}^D q_{id}\, k_{id}, \qquad \bar z = \frac1n \sum_{i=1}^n z_i, \qquad
# \operatorname{Var} = \frac1n \sum_{i=1}^n (z_i - \bar z)^2$$
#
# With `scaled=True`, every $z_i$ is divided by $\sqrt D$ first.
#
# | symbol | argument | shape |
# |---|---|---|
# | $q_{id}$ | `q`: $n$ queries | $(n, D)$ |
# | $k_{id}$ | `k`: $n$ keys; row $i$ belongs to row $i$ of `q` | $(n, D)$ |
# | $z_i$ | dot products, one per pair | $(n,)$ |
# | $\operatorname{Var}$ | returned | one Python float |
#
# Mind the difference to section 4: there, *every* query met every key, and the answer was a
# table. Here pair $i$ gives one number.
#
# **By hand.** Three pairs have the dot products $1, 3, 5$. Their mean is $3$, the deviations are
# $-2, 0, 2$, and the variance is $(4 + 0 + 4)/3 = 2.67$. If $D$ is 4, the scaled ones are $0.5,
# 1.5, 2.5$, with the variance $0.67$: a quarter.
#
# **NumPy you need.** Operators such as `*` and `+` work entry by entry. Reductions take an axis:
# `np.array([[1.0, 2.0], [5.0, 3.0]]).max(axis=-1)` is `[2. 5.]`. `np.var` and the method `.var()`
# divide by $n$, as here. `float(...)` turns a NumPy number into a Python one.
#
# <details><summary>Predict first: q and k have variance 1 and D = 256. Between which two numbers
# do about two thirds of the unscaled dot products lie?</summary>
#
# Between −16 and 16. The standard deviation is $\sqrt{256} = 16$, and a sum of many independent
# terms is close to a normal distribution, which has 68 % within one standard deviation.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.attention import score_variance

# %% [markdown]
# **What you should see.** Without the scale, the variance follows $D$ itself: on two logarithmic
# axes, a straight line. With it, the variance stays at 1, give or take the few per cent by which
# a sample of 4,000 pairs is off.

# %%
widths = (1, 4, 16, 64, 256, 512)
if ready(score_variance):
    rng = np.random.default_rng(SEED)
    rows = []
    for d in widths:
        q, k = rng.standard_normal((2, 4000, d))
        plain, divided = score_variance(q, k), score_variance(q, k, scaled=True)
        print(f"D = {d:3d}   variance without the scale {plain:7.2f}   with {divided:.3f}")
        rows.append({"D": d, "variance": plain, "scores": "without the scale"})
        rows.append({"D": d, "variance": divided, "scores": "with the scale"})
    display(
        charts.line(
            rows,
            "D",
            "variance",
            "scores",
            title="A dot product of width D has variance D",
            description="Measured variance of 4,000 dot products at widths 1 to 512, both axes "
            "logarithmic. Without the scale it rises as a straight line from 1 to about 512; with "
            "the scale it stays near 1.",
            x_title="width D of queries and keys (log scale)",
            y_title="variance of the scores (log scale)",
            log_x=2,
            log_y=2,
            colors={"without the scale": charts.UNSCALED, "with the scale": charts.SCALED},
        )
    )

# %% [markdown]
# > **Takeaway.** The sum of $D$ independent products has variance $D$; dividing by $\sqrt D$
# > makes the size of a score independent of $D$.
#
# What does a large variance do to the softmax? Move the slider. Watch the scores spread, and the
# entropy and the gradient fall. The entropy says how many keys share the weight: $\ln n$ for $n$
# keys with equal weights, 0 for one key with everything. (Its unit, the nat, only says that the
# logarithm is natural. This widget needs none of your functions.)

# %%
widgets.dk_explorer()

# %% [markdown]
# ## 7 · What large scores do to the gradient
#
# Training moves the scores along a gradient. How does each weight answer when a score moves a
# little? All these answers together are the **Jacobian** of the softmax: the table of $\partial
# p_i / \partial s_j$.
#
# **Derive it.** Take the logarithm first; it turns the quotient into a difference:
#
# $$\ln p_i = s_i - \ln \sum_j e^{s_j} .$$
#
# Differentiate with respect to $s_j$. The first term gives 1 if $i = j$ and 0 otherwise; write
# $\delta_{ij}$ for that. The second gives, by the chain rule, $e^{s_j} / \sum_l e^{s_l}$, which
# is $p_j$:
#
# $$\frac{\partial \ln p_i}{\partial s_j} = \delta_{ij} - p_j .$$
#
# And since $\partial \ln p_i = \partial p_i / p_i$, multiply by $p_i$:
#
# $$\boxed{\;\frac{\partial p_i}{\partial s_j} = p_i\,(\delta_{ij} - p_j)\;}$$
#
# As a matrix: $J = \operatorname{diag}(p) - p\,p^\top$. The derivative needs only the weights;
# the scores have dropped out.
#
# Read it. On the diagonal, $p_i(1 - p_i)$ is positive: a higher score, a higher weight. Off the
# diagonal, $-p_i p_j$ is negative: what one key gains, the others lose. Each row sums to $p_i(1 -
# \sum_j p_j) = 0$: moving all scores together changes nothing, as in section 3.
#
# **Saturation.** Every entry contains $p_i (1 - p_i)$ or $p_i p_j$. If one weight is nearly 1 and
# the others nearly 0, *all* entries are nearly 0:
#
# | weights | diagonal entry $p_1(1 - p_1)$ |
# |---|---|
# | $(0.5,\ 0.5)$ | $0.25$ |
# | $(0.9,\ 0.1)$ | $0.09$ |
# | $(0.99,\ 0.01)$ | $0.0099$ |
# | $(0.999,\ 0.001)$ | $0.000999$ |
#
# The softmax has made up its mind, right or wrong, and the gradient can hardly change it.

# %% [markdown]
# <!-- exercise: softmax_jacobian -->
#
# **Why.** With the Jacobian in hand you can measure how much gradient gets through, query by
# query.
#
# $$J_{ij} = \delta_{ij}\, p_i - p_i\, p_j$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $p$ | `weights`: the softmax's *output* | $(\ldots, S)$ |
# | $p\,p^\top$ | all products of two weights | $(\ldots, S, S)$ |
# | $J$ | returned | $(\ldots, S, S)$ |
#
# **By hand.** $p = (0.8,\ 0.2)$. On the diagonal: $0.8 - 0.64 = 0.16$ and $0.2 - 0.04 = 0.16$.
# Off it: $-0.8 \cdot 0.2 = -0.16$, twice. So $J = \begin{pmatrix} 0.16 & -0.16 \\ -0.16 & 0.16
# \end{pmatrix}$. Each row sums to 0.

# %% [markdown]
# **NumPy you need: every entry with every entry.** Indexing with `None` puts in an axis with a
# single entry. A column against a row broadcasts to a table. Here are the differences of all
# pairs of numbers:
#
# ```python
# heights = np.array([3.0, 5.0, 9.0])
# heights[:, None]                    # shape (3, 1), a column
# heights[None, :]                    # shape (1, 3), a row
# heights[:, None] - heights[None, :] # [[ 0. -2. -6.] [ 2.  0. -4.] [ 6.  4.  0.]]
# ```
#
# With leading axes, write `...` for "all the axes before": if `many` has the shape $(7, 3)$,
# `many[..., None, :]` has $(7, 1, 3)$. `np.eye(3)` is the 3 × 3 identity, the $\delta_{ij}$ of
# the equation; it broadcasts against a stack too, once $p$ is a column.
#
# Two short cuts that fail: `np.diag` handles one row only. And `p @ p.T` does not give $p\,p^\top$
# here: for one axis `.T` does nothing, and `@` gives a single number.

# %% [markdown]
# **Predict first,** then open:
#
# <details><summary>For which weights of two keys is the Jacobian largest, and for which is it
# exactly 0?</summary>
#
# Largest at $(0.5, 0.5)$, where $p(1-p) = 0.25$: the softmax is undecided, and a little push
# counts. Exactly 0 at $(1, 0)$ and $(0, 1)$: there it is a hard dictionary, and you are back at
# problem 2 of section 1.
#
# </details>
#
# <details><summary>Random queries and keys of width 512, no scale: is the Jacobian of a typical
# query half as large as at width 1, a tenth, or less than a thousandth? And the mean over many
# queries?</summary>
#
# The scores have a standard deviation of 22.6, so typically one key has nearly everything: less
# than a thousandth. The mean falls far less, since a few queries have two keys nearly even. You
# will measure both below.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.attention import softmax_jacobian

# %% [markdown]
# **What you should see.** 1,000 random queries, each with 8 random keys. For each query the size
# of its Jacobian (the root of the sum of all squared entries). The line is the *median* query.
# With the scale it stays between 0.35 and 0.37. Without it, it falls to 0.07 at $D = 64$ and to
# 0.00005 at $D = 512$.

# %%
if ready(softmax, attention_scores, softmax_jacobian):
    rng = np.random.default_rng(SEED)
    rows = []
    for d in widths:
        q, k = rng.standard_normal((1000, 1, d)), rng.standard_normal((1000, 8, d))
        for scaled in (True, False):
            p = softmax(attention_scores(q, k, scaled=scaled))[:, 0]  # (1000, 8)
            sizes = np.linalg.norm(softmax_jacobian(p), axis=(-2, -1))  # (1000,)
            name = "with the scale" if scaled else "without the scale"
            rows.append({"D": d, "size": float(np.median(sizes)), "scores": name})
            print(
                f"D = {d:3d}  {name:17s}  median {np.median(sizes):.5f}  mean {sizes.mean():.3f}"
                f"  queries with one weight above 0.99: {(p.max(axis=-1) > 0.99).mean():4.0%}"
            )
    display(
        charts.line(
            rows,
            "D",
            "size",
            "scores",
            title="Without the scale, the median query gets hardly any gradient",
            description="Median norm of the softmax Jacobian over 1,000 random queries with 8 "
            "keys, widths 1 to 512, both axes logarithmic. Both lines start at 0.35; with the "
            "scale the line stays there, without it it falls by more than three powers of ten.",
            x_title="width D of queries and keys (log scale)",
            y_title="median norm of the Jacobian (log scale)",
            log_x=2,
            log_y=10,
            colors={"without the scale": charts.UNSCALED, "with the scale": charts.SCALED},
        )
    )

# %% [markdown]
# Look at the printed *means* as well: they fall far more slowly than the medians. Most queries
# are silent; a few, whose two best scores happen to be close, still get a strong gradient. "The
# gradient vanishes" is true of the typical query, not of all. Section 9 shows what that does to
# training.
#
# At $D = 4$ the line *without* the scale is slightly the higher one. Undecided means the largest
# gradient for two keys only: eight equal weights give 0.33, two even favourites among eight 0.5.
#
# > **Takeaway.** The softmax's gradient is $\operatorname{diag}(p) - pp^\top$: it dies when one
# > weight takes all, and large scores make one weight take all.

# %% [markdown]
# ## 8 · The gradient, by hand
#
# To train, you need the gradient of a loss $L$ with respect to $Q$, $K$ and $V$. A framework
# would do it for you. Do it once yourself: the result is short, and the fast GPU programs
# (kernels) later in the course are built on exactly these lines.
#
# The way forward was $S = QK^\top/\sqrt D$, then $P = \operatorname{softmax}(S)$, then $O = PV$.
# A $d$ in front of a capital is a gradient: $dX = \partial L/\partial X$, with the shape of $X$.
# (A small $d$ as an index still counts the $D$ numbers of a query.) Given is $dO$. Go backwards
# through
#
# $$S_{ts} = \tfrac{1}{\sqrt D} \sum_d Q_{td} K_{sd}, \qquad
# P_{ts} = \frac{e^{S_{ts}}}{\sum_j e^{S_{tj}}}, \qquad O_{tc} = \sum_s P_{ts} V_{sc} .$$
#
# **Through the mean.** $V_{sc}$ appears in $O_{tc}$ for every query $t$, with the factor
# $P_{ts}$. Add up what comes back from each:
#
# $$dV_{sc} = \sum_t P_{ts}\, dO_{tc} \qquad\Longrightarrow\qquad dV = P^\top dO .$$
#
# $P_{ts}$ appears in $O_{tc}$ for every column $c$, with the factor $V_{sc}$:
#
# $$dP_{ts} = \sum_c dO_{tc} V_{sc} \qquad\Longrightarrow\qquad dP = dO\, V^\top .$$
#
# **Through the softmax.** Score $S_{tj}$ moves all the weights of its row. Use the Jacobian:
#
# $$dS_{tj} = \sum_i dP_{ti} \frac{\partial P_{ti}}{\partial S_{tj}}
# = \sum_i dP_{ti} P_{ti} (\delta_{ij} - P_{tj})
# = P_{tj} \Big( dP_{tj} - \sum_i dP_{ti} P_{ti} \Big) .$$
#
# The sum is one number per query: the mean of $dP$ under the query's own weights. With $\circ$
# for the product entry by entry:
#
# $$dS = P \circ \big(dP - \operatorname{rowsum}(dP \circ P)\big) .$$
#
# So each key is compared with *what the query gets on average*. Descent lowers the score of a key
# whose value adds more to the loss than that mean, and raises the others.
#
# No Jacobian was built. It would have $S \times S$ entries for each query: for $T = S = 1024$
# that is $1024^3 \approx 1.07$ billion numbers, 8.6 GB in float64. $dS$ has 1.05 million, 8.4 MB.
#
# **Through the dot product.** $Q_{td}$ appears in $S_{ts}$ for every key $s$, with the factor
# $K_{sd}/\sqrt D$; likewise $K_{sd}$ with $Q_{td}/\sqrt D$:
#
# $$dQ_{td} = \tfrac{1}{\sqrt D}\sum_s dS_{ts} K_{sd}, \qquad
# dK_{sd} = \tfrac{1}{\sqrt D}\sum_t dS_{ts} Q_{td} .$$

# %% [markdown]
# <!-- exercise: attention_backward -->
#
# **Why.** These five lines *are* the training of attention. Everything else is bookkeeping.
#
# | gradient | equation | shape |
# |---|---|---|
# | $dO$ = `grad_output` | given | $(\ldots, T, D_v)$ |
# | $dV$ = `grad_v` | $P^\top dO$ | $(\ldots, S, D_v)$ |
# | $dP$ | $dO\, V^\top$ | $(\ldots, T, S)$ |
# | $dS$ | $P \circ (dP - \operatorname{rowsum}(dP \circ P))$ | $(\ldots, T, S)$ |
# | $dQ$ = `grad_q` | $dS\, K / \sqrt D$ | $(\ldots, T, D)$ |
# | $dK$ = `grad_k` | $dS^\top Q / \sqrt D$ | $(\ldots, S, D)$ |
#
# A transpose exchanges the last two axes; leading axes stay. The weights $P$ are computed again
# from $Q$ and $K$: your own forward function gives them to you, as the second of its *two*
# results.
#
# **By hand.** $D = 4$, one query, two keys $k_1 = (1,0,0,0)$ and $k_2 = (0,2,0,0)$, weights $P =
# (0.75,\ 0.25)$, values $2$ and $6$ (so $D_v = 1$), and $dO = 1$.
#
# 1. $dV = (0.75,\ 0.25)$: each value counts as much as its weight.
# 2. $dP = (2,\ 6)$: more weight on a key adds its value.
# 3. The row sum is $0.75 \cdot 2 + 0.25 \cdot 6 = 3$, which is the output itself.
# 4. $dS = (0.75 \cdot (2 - 3),\ 0.25 \cdot (6 - 3)) = (-0.75,\ 0.75)$. It sums to 0, as it must.
# 5. $dQ = (-0.75\,k_1 + 0.75\,k_2)/2 = (-0.375,\ 0.75,\ 0,\ 0)$. To raise the output, turn the
#    query away from $k_1$, whose value is below the mean of 3, and towards $k_2$, whose value is
#    above it.
# 6. $dK$: key 1 gets $-0.75\,q/2$ and key 2 gets $+0.75\,q/2$.

# %% [markdown]
# **Predict first,** then open:
#
# <details><summary>All values are the same vector. What are dQ and dK?</summary>
#
# Zero. Then $dP$ is the same for all keys, and minus its own mean it is 0. No change of the
# weights can change the output, so there is nothing to learn for the queries and keys.
#
# </details>
#
# <details><summary>The weights are exactly (1, 0). What is dS?</summary>
#
# Zero. The mean is $dP_1$ itself, so the first entry is $1 \cdot (dP_1 - dP_1) = 0$; the second
# is $0 \cdot (\ldots) = 0$. This is the saturation of section 7 again.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.attention import attention_backward

# %% [markdown]
# **What you should see.** A gradient can always be checked without any theory: move one number by
# a tiny step $h$ both ways, see how much the loss changes, and divide by $2h$. Here the loss is
# the sum of output times fixed random numbers, so that $dO$ is these numbers. The largest
# difference to your gradient should be far below a millionth for all three.

# %%
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
        print(f"d{name.upper()}: largest difference {np.abs(slopes - gradient).max():.1e}")

# %% [markdown]
# > **Takeaway.** The gradient of a score compares its key's value with the query's own mean. It
# > needs no Jacobian, only $P$ and one number per query.

# %% [markdown]
# ## 9 · Experiment: does the scale matter for training?
#
# You have everything to train a model, with your own forward and backward. The task is a look-up:
#
# - $S = 32$ items, each with $C = 16$ random numbers and a random value of $D_v = 4$ numbers.
# - The $T = 32$ questions are the same items in another order. Wanted is the value of the item
#   asked for.
# - The model has two matrices, $W_q$ and $W_k$ of shape $(C, D)$. It starts at random, with
#   entries of variance $1/C$, so that queries and keys have components of variance 1. Plain
#   gradient descent, the loss is the mean squared error, 2 new examples in each step, 100 steps.
#
# At the start $W_q$ and $W_k$ do not match, so the look-up finds nothing. Two numbers to judge by:
#
# - A model that weighs all 32 items equally has a loss of $1 - 1/32 = 0.97$. Its error is a value
#   of variance 1 minus the mean of 32 such values, of which it is one.
# - A model that picks *one* item, at random and with full weight, has $2\,(1 - 1/32) = 1.94$. Two
#   independent values differ with variance 2, and 1 time in 32 the pick is right.
#
# To be sure of a wrong answer costs twice as much as to be undecided.
#
# **A fair comparison.** The best learning rate need not be the same with and without the scale.
# So every model is trained with six rates, and each variant shows its *own best*. Each run is
# repeated 5 times with fresh weights and data. **The control:** at $D = 1$, $\sqrt D = 1$, so the
# two variants must coincide to the last bit.
#
# <details><summary>Predict first: at D = 512 without the scale, is the loss at the first step
# nearer to 0.97 or to 1.94?</summary>
#
# Nearer to 1.94. The scores have a standard deviation of 22.6, so one key takes nearly all the
# weight, and $W_q$, $W_k$ being random it is nearly always the wrong one.
#
# </details>

# %% [markdown]
# You need not read the next two code cells. They hold the task and plain gradient descent, with
# your two functions in the middle of the loop.
#
# <details><summary>How do they train without the scale, when your backward pass has it?</summary>
#
# They multiply $q$ by $\sqrt D$ before attention: the division inside cancels it. By the chain
# rule the gradient of $q$ gets the same factor.
#
# </details>

# %%
RUNS, B, S, C, D_V = 5, 2, 32, 16, 4
STEPS = 100
RATES = (0.1, 0.3, 1, 3, 10, 30)  # learning rates to choose from


def lookup_task(rng):
    """Questions (RUNS, B, S, C), items (RUNS, B, S, C), values and answers (RUNS, B, S, D_V)."""
    items = rng.standard_normal((RUNS, B, S, C))
    values = rng.standard_normal((RUNS, B, S, D_V))
    order = rng.permuted(np.tile(np.arange(S), (RUNS, B, 1)), axis=-1)[..., None]
    return (
        np.take_along_axis(items, order, axis=-2),
        items,
        values,
        np.take_along_axis(values, order, axis=-2),
    )


def weight_gradient(inputs, grad_projected):
    """Gradient of W in `inputs @ W`, summed over batch and tokens: (RUNS, 1, C, D)."""
    flat = inputs.reshape(RUNS, B * S, C)
    return (np.swapaxes(flat, 1, 2) @ grad_projected.reshape(RUNS, B * S, -1))[:, None]


def train(d, scaled, rate, start=1.0):
    """Loss of every step and run (STEPS, RUNS). `start` multiplies the initial weights."""
    rng = np.random.default_rng([SEED, d])  # the same weights and data for both variants
    w_q, w_k = start * rng.standard_normal((2, RUNS, 1, C, d)) / np.sqrt(C)
    factor = 1.0 if scaled else np.sqrt(d)
    losses = np.empty((STEPS, RUNS))
    for step in range(STEPS):
        questions, items, values, answers = lookup_task(rng)
        q, k = factor * (questions @ w_q), items @ w_k
        output, _ = scaled_dot_product_attention(q, k, values)
        error = output - answers
        losses[step] = (error**2).mean(axis=(1, 2, 3))
        grad_q, grad_k, _ = attention_backward(q, k, values, 2 * error / error[0].size)
        w_q -= rate * weight_gradient(questions, factor * grad_q)
        w_k -= rate * weight_gradient(items, grad_k)
    return losses


# %% [markdown]
# The next cell trains 72 models, five runs each. It takes 5 to 30 seconds.

# %%
found: dict[tuple[int, str], dict[float, np.ndarray]] = {}  # (D, variant): rate: losses
if ready(scaled_dot_product_attention, attention_backward):
    jobs = [(d, scaled, rate) for d in widths for scaled in (True, False) for rate in RATES]
    for d, scaled, rate in tqdm(jobs, desc="training", mininterval=1, leave=False, file=sys.stdout):
        name = "with the scale" if scaled else "without the scale"
        found.setdefault((d, name), {})[rate] = train(d, scaled, rate)


def best_rate(losses_by_rate):
    """The learning rate with the smallest mean loss."""
    return min(losses_by_rate, key=lambda rate: np.nan_to_num(losses_by_rate[rate].mean(), nan=9))


for (d, name), by_rate in found.items():
    losses = by_rate[best_rate(by_rate)]
    print(
        f"D = {d:3d}  {name:17s}  best rate {best_rate(by_rate):4g}"
        f"   loss: first step {losses[0].mean():.2f}, mean {losses.mean():.3f}"
        f"   mean at rate 3: {by_rate[3].mean():.3f}"
    )
if not all(np.isfinite(by_rate[best_rate(by_rate)]).all() for by_rate in found.values()):
    print("A model's loss is not a number at every rate, so there is no picture. Check section 8.")
    found.clear()
if found:
    pair = [found[1, name] for name in ("with the scale", "without the scale")]
    same = all(np.array_equal(pair[0][rate], pair[1][rate]) for rate in RATES)
    print("Control, D = 1: all losses equal to the last bit:", same)

# %% [markdown]
# **What you should see.** The lower a point, the faster the training: it is the mean loss over
# the first 100 steps. The band runs from the best to the worst of the five runs.

# %%
if ready(scaled_dot_product_attention, attention_backward) and found:
    display(
        charts.bands(
            [
                {"D": d, "loss": float(run.mean()), "model": name}
                for (d, name), by_rate in found.items()
                for run in by_rate[best_rate(by_rate)].T
            ],
            "D",
            "loss",
            "model",
            title="The wider the keys, the more the missing scale costs",
            description="Mean loss over the first 100 training steps against the width D, each "
            "model at its own best learning rate, mean and range of 5 runs. At D = 1 both "
            "agree, at 4 nearly. From D = 16 on the scaled model stays below 0.14, while the "
            "unscaled one rises to about 1 at D = 512.",
            x_title="width D of queries and keys (log scale)",
            y_title="mean squared error, mean of steps 1–100",
            log_x=2,
            colors={"without the scale": charts.UNSCALED, "with the scale": charts.SCALED},
        )
    )

# %% [markdown]
# Measured with this notebook's seed, at each variant's own best rate:
#
# | $D$ | 1 | 4 | 16 | 64 | 256 | 512 |
# |---|---|---|---|---|---|---|
# | with the scale | 0.930 | 0.743 | 0.132 | 0.080 | 0.063 | 0.072 |
# | without | 0.930 | 0.769 | 0.173 | 0.43–0.44 | 0.49–0.51 | 0.87–1.11 |
#
# The ranges are over about twenty right ways of writing your functions, equal but for rounding.
# Without the scale the training amplifies rounding errors, so your last digits will differ.
#
# At $D = 1$ and $4$ both models stay poor: so few numbers cannot tell 32 items of 16 numbers
# apart. From $D = 16$ on the task can be solved. There the model with the scale does about
# equally well at every width, and the other one gets slower and slower.
#
# Now look at $D = 512$ step by step, with a third model: no scale, but *smaller initial weights*,
# by $D^{-1/4}$ for $W_q$ and for $W_k$. At the first step its scores are exactly those of the
# model with the scale.

# %%
if ready(scaled_dot_product_attention, attention_backward) and found:
    small = "without, smaller start"
    by_rate = {rate: train(512, False, rate, start=512**-0.25) for rate in RATES}
    curves = {name: found[512, name] for name in ("with the scale", "without the scale")}
    curves[small] = by_rate
    for name, by_rate in curves.items():
        losses = by_rate[best_rate(by_rate)]
        print(f"D = 512  {name:22s}  best rate {best_rate(by_rate):3g}   mean {losses.mean():.3f}")
        first = [int(np.argmax(run < 0.1)) + 1 if (run < 0.1).any() else None for run in losses.T]
        print(f"         first step with a loss below 0.1, run by run: {first}")
    display(
        charts.bands(
            [
                {"step": step + 1, "loss": float(loss), "model": name}
                for name, by_rate in curves.items()
                for step, runs in enumerate(by_rate[best_rate(by_rate)])
                for loss in runs
            ],
            "step",
            "loss",
            "model",
            title="D = 512: without the scale, training starts sure and wrong",
            description="Loss against training step at width 512, mean and range of 5 runs, each "
            "model at its best learning rate. With the scale the loss falls from 1.0 to below 0.1 "
            "within 5 to 7 steps. Without it the loss starts near 1.9; three or four runs need "
            "about 45 to 95 steps, the others are not there after 100. Without the scale but with "
            "smaller initial weights it falls about as fast as with it.",
            x_title="training step",
            y_title="mean squared error",
            colors={
                "without the scale": charts.UNSCALED,
                "with the scale": charts.SCALED,
                small: charts.ROLE["V"],
            },
        )
    )

# %% [markdown]
# **What it shows.** At $D = 512$ without the scale, the model starts at a loss of 1.86: sure, and
# wrong. Three or four of the five runs get below 0.1, after about 45 to 95 steps; the others are
# not there at the end. With the scale all five take 5 to 7 steps. The best learning rate without
# the scale is between 0.3 and 1; with it, it rises with $D$ from 1 to 10. But at the one rate 3,
# all models with the scale from $D = 16$ to $512$ learn (mean loss 0.10 to 0.13), and none without
# it does (1.5 to 1.9).
#
# **What it does not show.**
#
# - That the scale is the only cure. Smaller initial weights did as well here (0.078 against
#   0.072). But then you must choose them for each $D$, and the best learning rate moves too.
# - That all gradients vanish. Most runs without the scale do learn in the end. As you saw in
#   section 7, a few queries still get a strong gradient.
# - That a trained model needs it as much. Its queries and keys are no longer independent; the
#   derivation describes the start of training.
# - Anything about other optimisers. Try one: Adam divides each gradient by its own size.
#
# > **Takeaway.** The scale keeps the softmax undecided at the start, at every width. So training
# > begins at once, and one rate (here 3) works from $D = 16$ to $512$.

# %% [markdown]
# ## 10 · Where this breaks
#
# **Large norms.** The scale corrects for the *width*, not for the *length* of the vectors.
# Multiply the embeddings by 10, and the scores grow by 100. "mat" has one best key, itself: its
# softmax saturates, though $D$ is only 2. "cat" and "sat" have two best keys each, equally good,
# and share their weight between them.

# %%
if ready(scaled_dot_product_attention, softmax_jacobian):
    for stretch in (1, 10):
        _, weights = scaled_dot_product_attention(stretch * x, stretch * x, x)
        for token, row in zip(tokens, weights, strict=True):
            size = np.linalg.norm(softmax_jacobian(row))
            print(f"embeddings × {stretch:2d}: {token} {row}, norm of Jacobian {size:.1e}")

# %% [markdown]
# Some models therefore normalise queries and keys before the dot product (QK-norm, Henry et al.
# 2020).
#
# **Cost.** Scores and weights have $T \times S$ entries. Twice the text, four times the memory: in
# float32, $P$ takes 4.2 MB at $T = S = 1{,}024$ and 69 GB at $131{,}072$, in every head of every
# layer. Later chapters avoid ever storing $P$, or replace the softmax.
#
# **No positions.** Shuffle the tokens, and the outputs are shuffled the same way; nothing else
# changes. For attention a sentence is a bag of words. "Cat eats mouse" and "mouse eats cat" give
# each word the same output.

# %%
if ready(scaled_dot_product_attention):
    shuffled = [2, 0, 1]
    output, _ = scaled_dot_product_attention(x, x, x)
    moved, _ = scaled_dot_product_attention(x[shuffled], x[shuffled], x[shuffled])
    print("shuffling first or last gives the same:", np.allclose(moved, output[shuffled]))

# %% [markdown]
# **A row with nothing to look at.** A score of $-\infty$ hides a key: its weight is 0. If *all*
# keys of a query are hidden, the largest score is $-\infty$ too, and $-\infty - (-\infty)$ is not
# a number. What the answer should be is a decision, and chapter 04 takes it.
#
# **float16.** Its largest number is 65,504. Take $D = 64$ and components of size 40: the dot
# product is $64 \cdot 40 \cdot 40 = 102{,}400$, which becomes $\infty$. Dividing afterwards comes
# too late. Divide the query *before* the product, and the result is $12{,}800$. Which of the two
# does your function do?

# %%
if ready(softmax, attention_scores):
    with np.errstate(all="ignore"):  # the warnings are the point here; the numbers say it as well
        print("all keys hidden:        ", softmax(np.full(3, -np.inf)))
        big = np.full((1, 64), 40.0, dtype=np.float16)
        print("float16, divided after: ", big @ big.T / 8)
        print("float16, divided before:", (big / 8) @ big.T)
        print("float16, your function: ", attention_scores(big, big))

# %% [markdown]
# ## 11 · Recap
#
# - A soft dictionary compares a <span style="color:#0072B2">■</span> query with every <span
#   style="color:#E69F00">■</span> key and returns the weighted mean of all <span
#   style="color:#009E73">■</span> values: $O = \operatorname{softmax}(QK^\top/\sqrt D)\,V$.
# - Softmax sees differences only. Subtract the largest score, and it never overflows.
# - Dot products of $D$ independent terms have variance $D$. The scale makes it 1.
# - Large scores saturate the softmax, and $\operatorname{diag}(p) - pp^\top$ goes to 0: the
#   typical query gets no gradient.
# - Backward: $dV = P^\top dO$, $dP = dO V^\top$, $dS = P \circ (dP - \operatorname{rowsum}(dP
#   \circ P))$, then $dQ$ and $dK$ with the scale.
# - 0.42 / 0.16 / 0.42 is what you get when you forget the scale.
#
# **Next.** Chapter 04 asks who may look at whom: masks, causality, and the row with nothing to
# look at.
#
# ## Sources
#
# - Attention, the scale, the variance $d_k$: Vaswani et al. 2017, *Attention Is All You Need*,
#   §3.2.1, equation (1) and footnote 4.
# - Softmax without overflow: Milakov and Gimelshein 2018, *Online normalizer calculation for
#   softmax*, §2.
# - The derivative of the softmax: Bishop 2006, *Pattern Recognition and Machine Learning*,
#   equation (4.106).
# - The backward pass: Dao et al. 2022, *FlashAttention: Fast and Memory-Efficient Exact Attention
#   with IO-Awareness*, appendix B.2.
# - A decoder that looks back: Bahdanau et al. 2015, *Neural Machine Translation by Jointly
#   Learning to Align and Translate*, §3.1.
# - Normalised queries and keys: Henry et al. 2020, *Query-Key Normalization for Transformers*.
# - Do weights explain? Jain and Wallace 2019, *Attention is not Explanation*; Wiegreffe and
#   Pinter 2019, *Attention is not not Explanation*.
# - Colours: Okabe and Ito 2008, *Color Universal Design*.
