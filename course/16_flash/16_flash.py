# %% [markdown]
# # 16 · Flash attention
#
# **The question.** How does exact attention avoid the $N^2$ matrix?

# %%
import numpy as np
from attend import widgets
from attend.counting import bytes_moved, peak_bytes
from attend.data.recall import LAGS, Recall, continued, recall
from attend_grader import check, hint, ready, solution
from attend_solutions.attention import scaled_dot_product_attention
from attend_solutions.flash import expect_shapes, expect_window, tiles
from attend_solutions.types import Array, Mask
from IPython.display import display

SEED = 16  # every random number below follows from it
np.set_printoptions(precision=3, suppress=True)
display(widgets.score_memory())

# %% [markdown]
# Move the slider. With 65,536 tokens, queries, keys, values and output of one head of width 128 are
# 67 MB in float16. The scores, one number for each query and key, are **8.6 GB**. A model has
# dozens of heads in each of dozens of layers, and 200,000 tokens are no longer unusual. Flash
# attention never stores the scores, and its answer differs from the plain one only by rounding.
#
# You will write that algorithm, forward and backward, in NumPy. It takes about two and a half
# hours; you need chapter 03 (`softmax`, and the gradient of attention).
#
# **How it works.** Fill in a function, run `check(...)` below it; `hint(...)` gives up to three
# hints, `solution(...)` the course's own answer. With float32, results to 10⁻⁵ are enough.
#
# | letter | counts | | name | is |
# |---|---|---|---|---|
# | $T$, $S$ | queries; keys and values | | $z$, $Z$ | a score, all scores $QK^\top/\sqrt D$ |
# | $D$, $D_v$ | width of a key; of a value | | $m, \ell, a$ | running maximum, sum, accumulator |
# | $M$ | numbers that fit on the chip | | LSE | logarithm of a sum of exponentials |
#
# The papers write $N$ where $T = S$, and $d$ for $D$.

# %% [markdown]
# ## 1 · A softmax that never looks back
#
# An H100 has 80 GB of slow memory. Beside each of its processors lies a fast *shared memory*, of
# which a program gets at most 227 KiB (232 kB). (Registers, about as much again, and a cache in
# between are left out here.) So read a **tile** of keys, use it up, forget it. What stands in the
# way is the softmax: it divides by a sum over *all* keys, and subtracts the maximum over *all*
# keys, before the first weight is known.

# %% [markdown]
# <!-- exercise: online_softmax -->
#
# **Why.** Keep two running numbers and one running vector for a query while keys come in: the
# largest score so far, the sum of exponentials so far, and the sum of the values times their
# exponentials. When a larger score comes, the two sums were measured from the wrong maximum. But
# that can be put right, without going back to a single key, because every old term is off by the
# *same* factor:
#
# $$e^{z - m_{\text{new}}} = e^{z - m_{\text{old}}} \cdot e^{m_{\text{old}} - m_{\text{new}}} .$$
#
# So a tile of scores $z_j$ with values $v_j$ changes the state like this:
#
# $$m' = \max(m, \max_j z_j), \qquad c = e^{m - m'},$$
#
# $$\ell' = c\,\ell + \sum_j e^{z_j - m'}, \quad a' = c\,a + \sum_j e^{z_j - m'} v_j .$$
#
# Start with $m = -\infty$, $\ell = 0$, $a = 0$. After the last tile the output is $a / \ell$.
#
# | symbol | argument | shape |
# |---|---|---|
# | $m$, $\ell$ | `running_max`, `running_sum` | $(\ldots, T)$ |
# | $a$ | `accumulator` | $(\ldots, T, D_v)$ |
# | $z$ | `scores` of this tile, scaled already | $(\ldots, T, n)$ |
# | $v$ | `values` of this tile | $(\ldots, n, D_v)$ |
#
# **By hand.** One query has seen one key: $m = 0$, $\ell = 1$, $a = 8$. Now a key with score $\ln
# 4$ and value 3 comes. $m' = \ln 4$, so $c = \tfrac14$, $\ell' = \tfrac14 + 1 = 1.25$ and $a' =
# \tfrac14 \cdot 8 + 3 = 5$. The output is $5 / 1.25 = 4$: weights $\tfrac15$ and $\tfrac45$.
#
# **The trap.** A score of $-\infty$ is a key that a mask hides. If a query has seen hidden keys
# only, its maximum is $-\infty$, and $-\infty - (-\infty)$ is not a number. Subtract any finite
# number in such a row: all its exponentials are 0 then, and its state stays $-\infty, 0, 0$.
# `np.where(condition, this, that)` chooses entry by entry.
#
# <details><summary>Predict first: a tile holds much smaller scores than those before. What is
# c?</summary>
#
# 1. The maximum stays, so nothing has to be corrected, and the tile adds next to nothing.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.flash import online_softmax

# %% [markdown]
# **What you should see.** Step through four queries and six keys with ← and →. Lane 3 is your
# function. At the end of each tile of queries an output is written. The scores never all exist at
# the same time.

# %%
if ready(online_softmax):
    q = np.array([[1, 0], [0, 2], [2, 1], [1, 1]])
    k = np.array([[1, 0], [0, 1], [2, 0], [1, 2], [3, 1], [0, 0]])
    v = np.array([[1, 0], [0, 1], [2, 0], [0, 2], [3, 0], [0, 3]])
    display(widgets.tile_stepper(online_softmax, q, k, v))

# %% [markdown]
# > **Takeaway.** A running maximum, sum and vector replace a row of scores. Each tile costs one
# > multiplication of what was summed before.

# %% [markdown]
# ## 2 · Parts in any order
#
# <!-- exercise: merge_partials -->
#
# **Why.** Keys need not come one tile after the other. Let different processors, or different
# machines, each finish their own part of the keys, and merge the results at the end. A finished
# part has an output $o$, divided by its own sum already, and one number that gives the size of that
# sum, the **LSE**:
#
# $$\text{LSE} = \ln \sum_j e^{z_j} = m + \ln \ell .$$
#
# Why its logarithm? The sum itself overflows, like every exponential of a large score. The sums of
# two parts add up, and each output counts by its share of the total:
#
# $$\text{LSE} = \ln\left(e^{\text{LSE}_1} + e^{\text{LSE}_2}\right),$$
#
# $$o = e^{\text{LSE}_1 - \text{LSE}}\, o_1 + e^{\text{LSE}_2 - \text{LSE}}\, o_2 .$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $o_1$, $o_2$ | `output`, `other_output` | $(\ldots, T, D_v)$ |
# | $\text{LSE}_1$, $\text{LSE}_2$ | `lse`, `other_lse` | $(\ldots, T)$ |
#
# **By hand.** Sums 1 and 3, so LSEs $\ln 1$ and $\ln 3$; outputs 8 and 4. The shares are
# $\tfrac14$ and $\tfrac34$: the output is $\tfrac14 \cdot 8 + \tfrac34 \cdot 4 = 5$, the LSE $\ln
# 4$.
#
# A part without a visible key has the LSE $-\infty$ and the output 0. Merging it changes nothing;
# two of them give such a part again. `np.logaddexp(a, b)` is $\ln(e^a + e^b)$ without overflow.
#
# <details><summary>Predict first: does it matter in which order parts are merged, and how they are
# bracketed?</summary>
#
# No: it is the same sum, added up in another order. Only rounding differs. Chapters 20 (many
# processors, one query) and 21 (a ring of machines), both planned, use this.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.flash import merge_partials

# %% [markdown]
# **What you should see.** Sixty-four keys in eight parts, merged in five random orders, against
# attention in one piece. The differences are rounding: about $10^{-16}$ to $10^{-15}$.

# %%
if ready(merge_partials):
    rng = np.random.default_rng(SEED)
    q, k, v = (rng.standard_normal((n, 8)) for n in (4, 64, 64))
    whole, _ = scaled_dot_product_attention(q, k, v)
    for _ in range(5):
        order = rng.permutation(8)
        output, lse = np.zeros((4, 8)), np.full(4, -np.inf)
        for part in order:
            mine = slice(8 * part, 8 * part + 8)
            scores = q @ k[mine].T / 8**0.5
            its_output, _ = scaled_dot_product_attention(q, k[mine], v[mine])
            its_lse = np.log(np.exp(scores).sum(axis=-1))
            output, lse = merge_partials(output, lse, its_output, its_lse)
        print(order, f"largest difference {abs(output - whole).max():.1e}")

# %% [markdown]
# > **Takeaway.** An output and one number, the LSE, are all that is needed of a part.

# %% [markdown]
# ## 3 · A bug that hides
#
# <!-- exercise: stream_attention -->
#
# **Why.** The cell below answers a single query while its keys stream by, as when a model writes
# one token. It runs, it never overflows, and it is wrong. Yet it is exact when the largest score is
# in the first tile, so a test with no more keys than one tile never sees the mistake. Scores that
# differ little hide it too: with 512 keys in eight tiles and scores of standard deviation 0.01, an
# output that should be 1 is off by 0.2 %; with 1, by about a quarter (medians of 200 draws).
#
# | argument | shape | | result | shape |
# |---|---|---|---|---|
# | `q` | $(D,)$ | | output | $(D_v,)$ |
# | `k`, `v` | $(S, D)$, $(S, D_v)$ | | LSE | one number |
#
# `tiles(5, 2)` cuts five places into slices of two: `0:2`, `2:4`, `4:5`; a size of less than 1
# raises a `ValueError`. `expect_shapes` raises one where shapes do not fit. Both are used below,
# and yours to use.


# %% tags=["repair-stream_attention"]
def forgetful_stream(q: Array, k: Array, v: Array, tile_k: int = 64) -> tuple[Array, float]:
    """It looks right. It is not."""
    expect_shapes(q[None], k, v)
    largest, total, weighted = -np.inf, 0.0, np.zeros(v.shape[-1])
    for part in tiles(len(k), tile_k):
        scores = k[part] @ q / len(q) ** 0.5
        new_largest = max(largest, scores.max())
        exponentials = np.exp(scores - new_largest)
        shrink = np.exp(largest - new_largest)
        total = shrink * total + exponentials.sum()
        weighted = weighted + exponentials @ v[part]
        largest = new_largest
    return weighted / total, float(largest + np.log(total))


# %% [markdown]
# **Get evidence first.** If all values are 1, a weighted mean is 1, whatever the weights are. Try
# keys whose scores fall from tile to tile, then keys whose scores rise. Why does one order hide
# the mistake?

# %%
rising = np.arange(1.0, 7.0)[:, None]  # six keys of width 1
ones = np.ones((6, 1))
for name, keys in (("scores fall", rising[::-1]), ("scores rise", rising)):
    print(f"{name}: output {forgetful_stream(np.ones(1), keys, ones, 2)[0]}, expected [1.]")

# %% [markdown]
# Now write the repaired function: copy the body, and change what is wrong. The check also looks
# at memory, so `softmax` over the whole row is no repair.

# %% tags=["exercise"]
from attend_solutions.flash import stream_attention

# %%
if ready(stream_attention):
    for name, keys in (("scores fall", rising[::-1]), ("scores rise", rising)):
        print(f"{name}: output {stream_attention(np.ones(1), keys, ones, 2)[0]}, expected [1.]")

# %% [markdown]
# > **Takeaway.** Whatever is summed while the maximum moves must move with it. Values of 1 show
# > it, unless both sums forget.

# %% [markdown]
# ## 4 · Tiles of queries, too
#
# <!-- exercise: flash_forward -->
#
# **Why.** With one query at a time, every key is read again for the next query. So keep a tile of
# *queries* on the chip while the keys pass by. That is all of FlashAttention-2's algorithm 1:
#
# > for each tile of queries: start the state at $-\infty, 0, 0$; for each tile of keys: scores,
# > then one step of section 1; at the end, write $a / \ell$ and $m + \ln \ell$.
#
# | symbol | argument or result | shape |
# |---|---|---|
# | $Q$, $K$, $V$ | `q`, `k`, `v` | $(\ldots, T, D)$, $(\ldots, S, D)$, $(\ldots, S, D_v)$ |
# | | `tile_q`, `tile_k`: the last tile may be shorter | |
# | $O$, LSE | returned | $(\ldots, T, D_v)$, $(\ldots, T)$ |
#
# **By hand.** One query with equal scores for three keys, values 1, 2, 6, `tile_k` 2. First tile:
# $\ell = 2$, $a = 3$. Second: $c = 1$, $\ell = 3$, $a = 9$. Output 3; for scores of 0 the LSE is
# $\ln 3$.
#
# **NumPy you need.** With `rows` a slice, `q[..., rows, :]` is a tile of queries whatever stands in
# front, and `output[..., rows, :] = …` fills in its rows. `np.swapaxes(x, -1, -2)` turns over the
# last two axes only (`.T` turns all). `np.full(shape, -np.inf)` makes the first maximum.
#
# **A memory budget.** Memory that grows with $S$, memory that grows with $T \cdot S$, and tiles
# larger than asked cost one point each.

# %% tags=["exercise"]
from attend_solutions.flash import flash_forward

# %% [markdown]
# **Use it: a library of 65,536 letters.** Here is a reader without a network. Keys are all places
# of a long piece of Python's own documentation, each described by its last eight letters. The
# value of a place is the letter that came next. A question is a place of *another* piece; the
# score of a key is the sum of eight *strengths*, one for each letter that matches. So attention
# answers "what came next where it looked like this?" Its output is a guess at the next letter
# (Khandelwal et al. 2020 do much the same with a model's own vectors, over the nearest keys only,
# and mix it with the model's guess). The scores would take 0.13 GB (float32), and their weights as
# much again.
#
# The strengths are set by hand here: the last letter counts 4, the eighth last 0.5. Each guess is
# mixed with 2 % of an even one. The control looks at no letter: with strengths of 0 every guess is
# how frequent each letter is in the library.

# %%
by_hand = np.linspace(4, 0.5, LAGS)


def asked(library: int, seed: int) -> Recall:
    """A library and 512 questions; none from the part that training asks about in section 5."""
    return recall(np.random.default_rng([SEED, seed, 99]), library, 512)


def bits(strengths: Array, library: int, seed: int) -> float:
    """The mean surprise of a letter, in bits."""
    task = asked(library, seed)
    output, _ = flash_forward(task.queries(strengths), task.keys, task.values, 256, 1024)
    return task.surprise(output)[0]


def frequencies(library: int, seed: int) -> float:
    """The same for the control: every key counts alike, so every guess is the mean value."""
    task = asked(library, seed)
    return task.surprise(np.tile(task.values.mean(axis=0), (512, 1)))[0]


if ready(online_softmax, flash_forward):
    for library in (1024, 4096, 16384, 65536):
        read = np.array([bits(by_hand, library, seed) for seed in range(5)])
        control = np.array([frequencies(library, seed) for seed in range(5)])
        print(f"{library:6,} letters: {read.round(2)}")
        print(f"       control: {control.round(2)}")

# %% [markdown]
# These are bits per letter, for five pieces of text. With 1,024 letters the reader was worse than
# the control in three of our five, because it is too sure: with `0.5 * by_hand` it wins all five.
# From 4,096 on it was better in all, and each longer library helped in all. (The documentation
# repeats some pages: with another `SEED` the reader may simply find the page.) And the reader can
# write, one query at a time, through your repaired `stream_attention`:

# %%
if ready(stream_attention):
    task = recall(np.random.default_rng(SEED), 65536, 1)
    for seed in range(2):
        rng = np.random.default_rng(seed)
        print(continued(stream_attention, task, 1.5 * by_hand, "a function ", 33, rng))

# %% [markdown]
# ## 5 · Backward, without stored weights
#
# <!-- exercise: flash_backward -->
#
# **Why.** Chapter 03's backward pass needs the weights $P$. Storing them would bring the $T \times
# S$ matrix back. But the LSE was kept, and with it each weight can be made again by itself, with
# no sum and no maximum:
#
# $$P_{ts} = \frac{e^{Z_{ts}}}{\sum_j e^{Z_{tj}}} = e^{Z_{ts} - \text{LSE}_t} .$$
#
# One more sum ran over a whole row: $\operatorname{rowsum}(P \circ dP)$. With $dP = dO\,V^\top$ it
# is
#
# $$\delta_t = \sum_s P_{ts} \sum_d dO_{td} V_{sd} = \sum_d dO_{td}\, O_{td},$$
#
# because $\sum_s P_{ts} V_{sd} = O_{td}$: a product of two arrays that you have. So every pair of
# tiles can be treated alone:
#
# $$\begin{aligned}
# P &= e^{Z - \text{LSE}} & dV &\mathrel{+}= P^\top dO \\
# dP &= dO\,V^\top & dQ &\mathrel{+}= dZ\, K \\
# dZ &= P \circ (dP - \delta)/\sqrt D & \quad dK &\mathrel{+}= dZ^\top Q
# \end{aligned}$$
#
# | symbol | argument or result | shape |
# |---|---|---|
# | $O$, $dO$; LSE | `output`, `grad_output`; `lse` | $(\ldots, T, D_v)$; $(\ldots, T)$ |
# | $dQ$, $dK$, $dV$ | returned | those of `q`, `k`, `v` |
#
# A copy of `k` or `v` is as large as a result here, so it is allowed.
#
# **By hand.** Take $D = 1$, $q = 9$, two keys 0, two values 0 and 8, $dO = 1$. Both weights are
# $\tfrac12$, $O = 4$, $\delta = 4$, $dP = (0, 8)$, $dZ = \tfrac12(-4, 4) = (-2, 2)$. So $dK =
# (-18, 18)$, $dV = (\tfrac12, \tfrac12)$, and $dQ = 0$, since the keys are 0.
#
# <details><summary>Predict first: a matrix product of T × S × D counts 1. How many does a forward
# and backward pass take with P stored, and with P made again?</summary>
#
# Stored: 2 forward ($QK^\top$, $PV$), 4 backward ($dV$, $dP$, $dQ$, $dK$): 6. Made again: one more
# $QK^\top$, so 7. Flash attention does **more** arithmetic. What it saves is traffic.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.flash import flash_backward

# %% [markdown]
# **Use it: learn the eight strengths.** They start at 1 and follow the gradient that your backward
# pass gives, for 30 steps, each with a new library of 4,096 letters. Then they are tried with
# another library and on questions from a part of the text that training never asks about. There
# are five runs with other pieces of text in each; printed are bits per letter. It takes 10 to 30
# seconds.


# %%
def trained(seed: int, rate: float = 2.0) -> Array:
    """The strengths after 30 steps of gradient descent."""
    strengths = np.ones(LAGS)
    for step in range(30):
        rng = np.random.default_rng([SEED, seed, step])
        task = recall(rng, 4096, 128, training=True)
        inputs = task.queries(strengths), task.keys, task.values
        output, lse = flash_forward(*inputs, 128, 1024)
        _, grad_output = task.surprise(output)
        grad_q, _, _ = flash_backward(*inputs, output, lse, grad_output, 128, 1024)
        strengths = strengths - rate * task.strength_gradient(grad_q)
    return strengths


# %%
if ready(online_softmax, flash_forward, flash_backward):
    for seed in range(5):
        strengths = trained(seed)
        tried = {"by hand": by_hand, "× 0.7": 0.7 * by_hand}
        tried |= {"learned": strengths, "× 1.5": 1.5 * strengths}
        print(f"run {seed}: {strengths.round(1)}")
        for library in (4096, 65536):
            found = [f"{name} {bits(each, library, seed):.2f}" for name, each in tried.items()]
            print(f"{library:6,}: {', '.join(found[:2])},\n        {', '.join(found[2:])}")

# %% [markdown]
# The learned strengths fall over the first five letters; the last three are small. At 4,096 letters
# they beat those by hand by 0.5 to 0.65 bits in our five runs; more than half of that is sharpness,
# which × 0.7 by hand gains as well. At 65,536 they fall behind in all five: a longer library holds
# closer matches, and larger strengths single those out. × 1.5 they are the best of the four in four
# of the five. (Those by hand are large enough for it: × 1.3 they did worse in ten runs of ten. Both
# factors above were chosen after seeing such runs. Your numbers differ with your Python's
# documentation.) This does not show that such a reader is good: it was compared with letters'
# frequencies only.

# %% [markdown]
# > **Takeaway.** The LSE of each query replaces the stored weights, for one more matrix product.

# %% [markdown]
# ## 6 · Tiles that nobody needs
#
# <!-- exercise: tiles_needed -->
#
# **Why.** Under a causal mask nearly half of all pairs are hidden if $T = S$, and with a window
# that is short beside the text nearly all. Tiles with no visible pair need not be read. Which are
# they? The mask itself would be $T \times S$ again. But four numbers decide: the places of a tile's
# first and last query and of its first and last key. (To try its four corner pairs is not enough.)
#
# The rules are those of chapter 04: the last query stands at the last key, so query $t$ stands at
# $p = t + S - T$. With `causal` it may look at keys $s \le p$, with `window` at keys with
# $|s - p| \le$ `window`; with both, both rules hold. With $T > S$ the first queries stand before
# the first key, at $p < 0$: under `causal` a tile of only such queries has a row of False.
#
# | argument | meaning | | result | shape |
# |---|---|---|---|---|
# | `queries`, `keys` | $T$, $S$ | | booleans: is a pair visible? | (tiles of queries, of keys) |
# | `tile_q`, `tile_k` | their sizes | | | |
# | `causal`, `window` | hide later keys? keys further away? | | | |
#
# **By hand.** Six queries and keys in tiles of two, causal: the rows are `1 0 0`, `1 1 0`, `1 1 1`.
# With a window of 1 as well, the first tile of the last row goes: its query 4 sees keys 3 and 4.
#
# `tiles` cuts both into slices; the last may be shorter. Use their `.start` and `.stop`.

# %% tags=["exercise"]
from attend_solutions.flash import tiles_needed

# %%
if ready(tiles_needed):
    for window in (None, 1024):
        for length in (4096, 16384, 65536):
            needed = tiles_needed(length, length, 128, 128, causal=True, window=window)
            print(f"window {window}, {length:6,} tokens: {needed.mean():.1%} of the tiles")

# %% [markdown]
# > **Takeaway.** Four places decide whether a tile is read; its mask need not be made for that.

# %% [markdown]
# ## 7 · What the tiles save
#
# <!-- exercise: hbm_traffic -->
#
# **Why.** NumPy's seconds are not a GPU's. Bytes
# can be counted anywhere, and before anything runs. (HBM, high-bandwidth memory, is the GPU's large
# and slow one.)
#
# Walk through the loops of `flash_forward` for one head with $D_v = D$: each tile of $Q$ is read
# once, even if it sees no key. For each of them, those tiles of $K$ and $V$ are read that
# `tiles_needed` finds. Output and LSE are written once. Nothing else leaves the chip.
#
# | argument | meaning |
# |---|---|
# | `queries`, `keys`, `width` | $T$, $S$, $D$ |
# | `tile_q`, `tile_k`, `causal`, `window` | as for `tiles_needed` |
# | `itemsize` | bytes of a number |
#
# **By hand.** $T = 4$, $S = 6$, $D = 8$, tiles of 2 × 3, no mask: $Q$ has 32 numbers; $K$ and $V$
# have 96, read twice; output 32, LSE 4. That is 260 numbers, 520 bytes in float16.

# %% tags=["exercise"]
from attend_solutions.flash import hbm_traffic

# %% [markdown]
# **Experiment 1: is the count right?** `bytes_moved` runs *your* `flash_forward` on arrays that
# count every tile cut out of them. (The two agree if your outer loop runs over queries.) Five draws
# of numbers and sizes:

# %%
if ready(online_softmax, flash_forward, tiles_needed, hbm_traffic):
    for seed in range(5):
        rng = np.random.default_rng([SEED, seed])
        t, s = (int(n) for n in rng.integers(90, 300, 2))
        d, tile_q, tile_k = (int(n) for n in rng.integers(8, 64, 3))
        arrays = [rng.standard_normal((n, d)) for n in (t, s, s)]
        counted = bytes_moved(flash_forward, arrays, tile_q, tile_k)
        predicted = hbm_traffic(t, s, d, tile_q, tile_k, itemsize=8)
        sizes = f"T {t}, S {s}, D {d}, tiles {tile_q} × {tile_k}"
        print(f"{sizes}, bytes:\n   {counted:,} counted, {predicted:,} predicted")

# %% [markdown]
# **Experiment 2: what does on-chip memory buy?** Let $M$ numbers fit on the chip. Four exact ways
# to do one head with $T = S = 8{,}192$, $D = 128$:
#
# - *flash*: one pass over the keys, with a running maximum, sum and accumulator;
# - *two passes*: the first over the keys for the maximum, the second over keys and values for sum
#   and accumulator. It never rescales, and holds no row of scores;
# - *whole rows*: each query keeps all its $S$ scores, so an ordinary softmax will do;
# - *standard*: two matrix products. $Z$ and $P$ are written to slow memory and read again.
#
# Each way keeps as many queries as fit, and reads keys one at a time, which leaves most room for
# queries.
#
# <details><summary>Predict first: M doubles. What happens to each?</summary>
#
# Twice as many queries fit, so keys and values are read half as often: flash and two passes move
# about half as much, until $Q$ and $O$ count, and so do whole rows, in coarser steps, as few
# queries fit. The standard way keeps its matrices, and soon hardly changes.
#
# </details>


# %%
def bytes_of(way: str, length: int, d: int, kib: int) -> float:
    """What one head moves, in float16; NaN where not one query fits."""
    each = {"standard": d + 1, "whole rows": 2 * d + 2 + length}  # numbers that a query takes
    beside = d if way == "standard" else 2 * d  # a key, and a value
    tile_q = (kib * 512 - beside) // each.get(way, 2 * d + 3)
    if tile_q < 1:
        return np.nan
    ends = 2 * (2 * length * d + length)  # queries, output and LSE
    keys = hbm_traffic(length, length, d, tile_q, length) - ends  # the same in any tiles of keys
    matrices = 8 * length**2 if way == "standard" else 0
    return ends + keys * (1.5 if way == "two passes" else 1) + matrices


# %%
if ready(tiles_needed, hbm_traffic):
    rows, ways = [], ("flash", "two passes", "whole rows", "standard")
    for kib in (16, 32, 64, 128, 227, 512, 1024):
        for way in ways:
            gigabytes = bytes_of(way, 8192, 128, kib) / 1e9
            if np.isfinite(gigabytes):
                rows.append({"KiB": kib, "GB": gigabytes, "way": way})
    display(widgets.traffic_chart(rows))

    chip = 227  # KiB; change it to the shared memory of your own GPU
    print(f"GB at {chip} KiB:")
    for way in ways:
        print(f"   {way:10s} {bytes_of(way, 8192, 128, chip) / 1e9:.3f}")

# %%
if ready(tiles_needed, hbm_traffic):
    for length, d, kib in ((8192, 64, 227), (8192, 128, 227), (65536, 128, 227), (65536, 128, 64)):
        flash, standard = (bytes_of(way, length, d, kib) for way in ("flash", "standard"))
        constant = flash / 2 * (kib * 512) / (length * d) ** 2
        case = f"{length:6,} tokens, D {d:3d}, {kib:3d} KiB"
        print(f"{case}: constant {constant:.2f},")
        print(f"   standard moves {standard / flash:.1f} × as much")

# %% [markdown]
# Tiles of queries alone avoid storing the matrix. But a query with its whole row takes $S$ numbers
# on the chip, so few fit and keys are read again and again: 2.7 GB at 227 KiB, where the standard
# way moves 0.6. Reading the keys twice, for the maximum and then for both sums, avoids the row too;
# it moves 1.4 to 1.5 times the bytes of flash and makes $QK^\top$ twice. At 16 KiB flash moves 5 %
# more than the standard way, from 32 KiB on less.
#
# **The law.** A tile of queries and its accumulator take about $2D$ numbers a query, so $M / 2D$
# queries fit. Each tile reads $2SD$ numbers, and there are $2TD/M$ tiles: **$4\,T S D^2 / M$**.
# Dao et al. 2022 prove (theorem 2, for their order of loops and $D \le M \le ND$)
# $\Theta(N^2 D^2 / M)$. Is the constant 4? In the cases printed it is 4.1 to 4.9: a query also
# keeps a score, its maximum and its sum, the key and value take room, the last tile is partly
# empty, and $Q$ and $O$ move too.
#
# <details><summary>Where these counts change</summary>
#
# - At 1,024 tokens and 227 KiB whole rows move less than the standard way, and the constant is
#   7.1: a partly empty tile, $Q$ and $O$ count more on short texts.
# - With 16 keys at a time, as matrix units want them, the constant is 4.5 to 5.3.
# - The first of two passes has no accumulator, so it could take larger tiles, and move less.
# - The standard way is counted with one reading of $Z$, though at 16 KiB, and at 65,536 tokens in
#   64 KiB, a row of it no longer fits.
#
# </details>
#
# **What this does not show.** Seconds. A GPU runs many programs at once, an H100 (SXM) on 132
# processors with 227 KiB each, and many repeated reads of $K$ and $V$ are served by a cache between
# the two memories, which this model leaves out. Real tiles are also limited by registers: in
# FlashAttention-3 on an H100 most have 128 or 192 queries.
#
# **Experiment 3: memory, and exactness.** The most memory held at once, measured; then the
# difference to the naive form, and of both to the same sum in 80-bit numbers, over five draws.
# `forgetful_stream` is the control: a wrong answer must show.

# %%
if ready(online_softmax, flash_forward):
    rows = []
    for length in (256, 512, 1024, 2048):
        q, k, v = np.random.default_rng(SEED).standard_normal((3, length, 32))
        held = {
            "naive": peak_bytes(scaled_dot_product_attention, q, k, v),
            "flash": peak_bytes(flash_forward, q, k, v),
            "results alone": q.nbytes + length * 8,
        }
        rows += [{"T": length, "MB": held[name] / 1e6, "form": name} for name in held]
    display(widgets.peak_chart(rows))

# %%
if ready(online_softmax, flash_forward):
    for spread in (1, 10):
        worst = {"flash − naive": 0.0, "naive − exact": 0.0, "flash − exact": 0.0, "control": 0.0}
        for seed in range(5):
            q, k, v = np.random.default_rng([SEED, seed]).standard_normal((3, 512, 32))
            q = spread * q
            naive, _ = scaled_dot_product_attention(q, k, v)
            exact, _ = scaled_dot_product_attention(*(x.astype(np.longdouble) for x in (q, k, v)))
            flash, _ = flash_forward(q, k, v)
            control, _ = forgetful_stream(q[0], k, v)
            pairs = (flash, naive), (naive, exact), (flash, exact), (control, exact[0])
            for name, (one, other) in zip(worst, pairs, strict=True):
                worst[name] = max(worst[name], float(abs(one - other).max()))
        print(f"scores × {spread}:")
        for name, found in worst.items():
            print(f"   {name:13s} {found:.0e}")

# %% [markdown]
# Flash attention is **exact**: its answer is the same sum, bracketed otherwise. Its rounding is of
# the same size as the naive form's here. Methods that are faster
# because they look at fewer pairs (chapter 14, planned) or drop the softmax (15) compute something
# else. (Where NumPy has no 80-bit numbers, "exact" is float64 too.)

# %% [markdown]
# ## 8 · Where this breaks
#
# **Short texts, and writing.** How much is left of the gain when $Z$ is small, or when there is one
# query?

# %%
if ready(tiles_needed, hbm_traffic):
    for t, s in ((16, 16), (64, 64), (256, 256), (65536, 65536), (1, 65536)):
        flash, standard = hbm_traffic(t, s, 128, 256, 16), 4 * (t + s) * 128 + 8 * t * s
        print(f"T {t:6,}, S {s:6,}: standard moves {standard / flash:5.2f} ×")

# %% [markdown]
# The gain in bytes is 1.5 × at 64 tokens and 3 × at 256. (Tiles have 256 queries here, hence 4.0 ×
# and not section 7's 7.4 ×.) At 64 tokens whole rows fit too, so that gain comes from never storing
# $Z$, not from section 1. With one query it is gone (1.02 ×): keys and values must be read once in
# any case, and they are nearly all there is. Many processors can still read parts of the cache
# at once and *merge*: chapter 20 (planned).
#
# **Arithmetic.** Forward and backward together take seven products instead of six. Where
# arithmetic, not traffic, is the limit, there is no time to gain, though the memory is still saved;
# and without a mask all $T \cdot S$ scores are still computed. Flash attention makes memory linear,
# not time.
#
# **Rows with no key.** Here every query sees a key. With masks, $\ell$ can be 0 at the end:
# `attend_kernels` returns the output 0 and the LSE $-\infty$, which `merge_partials` understands.
#
# ## 9 · Recap
#
# - A softmax-weighted sum needs one pass: maximum, sum and accumulator run along; a new maximum
#   shrinks the other two by $e^{m_{\text{old}} - m_{\text{new}}}$.
# - Output and LSE of parts merge in any order.
# - Tiles of queries × tiles of keys: memory of a few tiles. Traffic falls as $1/M$: 4 to 5 times
#   $TSD^2/M$ if tiles fill the chip, keys come one by one, and $D \ll M \ll TD, SD$.
# - Backward: weights again from the LSE, $\delta = \operatorname{rowsum}(dO \circ O)$; 7 products
#   for 6.
# - Exact up to rounding.
#
# **Next.** Chapter 17 writes kernels; chapter 18 turns these loops into a kernel. Before: chapter
# 03 (the gradient), 15 (what if the softmax went away?), and 13 (what a byte costs; planned).
#
# ## Sources
#
# - Online softmax: Milakov and Gimelshein 2018, *Online normalizer calculation for softmax*.
# - Attention with it, and parts with their own sums: Rabe and Staats 2021, *Self-attention Does Not
#   Need O(n²) Memory*.
# - Tiles, traffic, theorem 2: Dao, Fu, Ermon, Rudra and Ré 2022, *FlashAttention: Fast and
#   Memory-Efficient Exact Attention with IO-Awareness*.
# - The order of loops used here, and skipped tiles: Dao 2023, *FlashAttention-2*. Overlap and
#   8-bit numbers: Shah et al. 2024, *FlashAttention-3*.
# - Merging parts: Milakov and Gimelshein 2018, §3.1 (sums); on GPUs, Dao, Haziza, Massa and Sizov
#   2023, *Flash-Decoding for long-context inference*.
# - The reader: Khandelwal et al. 2020, *Generalization through Memorization*.
