# %% [markdown]
# # 19 · FlashAttention backwards
#
# **The question.** How do kernels make the gradient of attention?

# %%
import itertools
from typing import Any

import attend.kernels  # first: it lets Triton interpret kernels on the CPU
import torch
import triton
import triton.language as tl
from attend import widgets
from attend.data import flash_gradients as given
from attend_grader import check, hint, ready, solution
from attend_solutions.triton_flash_backward import forward_heads
from IPython.display import display

SEED = 19  # every random number below follows from it
torch.set_printoptions(precision=3, sci_mode=False)
display(widgets.row_writers())

# %% [markdown]
# Move the sliders. Forwards, each program owned some queries and wrote their rows of the output;
# nobody else did. Backwards there are three results. Rows of $dK$ and $dV$ are sums over *queries*,
# rows of $dQ$ are sums over *keys*. Whoever owns keys can sum $dK$ and $dV$ alone, but has only a
# share of rows of $dQ$. You can walk over all tiles twice (left), or let several programs add to
# the same rows (right). This chapter builds and measures both.
#
# It takes about two hours. You need chapter 16 (`flash_backward`, the same in NumPy) and chapter 18
# (tiles, masks, the LSE).
#
# **How it works.** Fill in a kernel, run `check(...)` below it. It runs in Triton's interpreter,
# under a tracer that sees each load and store with its program. `hint(...)` gives up to three
# hints, `solution(...)` the course's own answer.
#
# | letter | counts | | name | is |
# |---|---|---|---|---|
# | $H$ | heads, of all texts of a batch | | `t`, `s`, `d` | queries, keys, columns of a tile |
# | $T$, $S$ | queries; keys and values | | `d_out`, $dO$ | gradient of the loss by the output |
# | $D$ | width of a head | | LSE | logarithm of a sum of exponentials |
#
# Everything lies without gaps, head after head: row $t$ of head $h$ is row $hT + t$ of a matrix
# with $D$ columns. `forward_heads(q, k, v, causal, scale)` runs the kernels of chapter 18 for each
# head, and returns output and LSE.

# %% [markdown]
# ## 1 · One number for each query
#
# <!-- exercise: flash_delta -->
#
# **Why.** The gradient of a softmax subtracts a sum over a whole row, $\sum_s P_{ts}\,dP_{ts}$.
# Chapter 16 found that sum without any weight:
#
# $$\delta_t = \sum_s P_{ts}\,dP_{ts} = \sum_d dO_{td}\, O_{td} .$$
#
# So a small kernel makes all $\delta$ first, and later kernels need no whole row.
#
# | argument | is | shape |
# |---|---|---|
# | `out`, `d_out` | $O$ and $dO$ | $(H, T, D)$ |
# | returned | $\delta$ | $(H, T)$ |
#
# A tile has `block_t` queries. The grid has two axes, and is launched once: program $(i, h)$ takes
# tile $i$ of head $h$. You write kernel and grid.
#
# **By hand.** $O_t = (1, 2)$ and $dO_t = (3, -1)$: $\delta_t = 3 - 2 = 1$.
#
# <details><summary>Predict first: T is 20 and a block has 16 queries. Without a mask on the store,
# where do the last 12 numbers of head 0's second program go?</summary>
#
# To the first 12 rows of head 1, which another program writes. For the last head they go behind the
# end of the buffer.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.triton_flash_backward import flash_delta

# %% [markdown]
# **What you should see.** The two sums of the equation, for five seeds: the right side by your
# kernel, the left side with all weights, in float64.

# %%
if ready(flash_delta):
    for seed in range(5):
        q, k, v, d_out = given.drawn(4, 2, 40, 16, seed=seed)
        delta = flash_delta(forward_heads(q, k, v)[0], d_out)
        weights = torch.softmax(q.double() @ k.double().mT / 4, -1)
        left = (weights * (d_out.double() @ v.double().mT)).sum(-1)
        print(f"seed {seed}: largest difference {(delta - left).abs().max():.0e}")

# %% [markdown]
# ## 2 · A program owns keys
#
# <!-- exercise: grad_keys_values -->
#
# **Why.** With LSE and $\delta$ at hand, a tile of weights can be made again from a tile of queries
# and a tile of keys, and nothing else:
#
# $$\begin{aligned}
# P &= e^{\text{scale}\cdot QK^\top - \text{LSE}} \\
# dX &= P \circ (dO\,V^\top - \delta) \\
# dV &\mathrel{+}= P^\top dO \\
# dK &\mathrel{+}= dX^\top Q, \text{ at the end times scale}
# \end{aligned}$$
#
# A program keeps its keys and values, and two sums; tiles of queries pass by.
#
# | argument | is | shape |
# |---|---|---|
# | `q`, `d_out` | $Q$, $dO$ | $(H, T, D)$ |
# | `k`, `v`; returned: dK, dV | $K$, $V$ | $(H, S, D)$ |
# | `lse`, `delta` | LSE, $\delta$ | $(H, T)$ |
#
# **Turn the tile.** Both sums need $P^\top$ and $dX^\top$. So make them as such, with keys for
# rows: `tl.dot(k, q.T)` is $K Q^\top$. Then neither has to be transposed on the way into its sum.
# LSE and $\delta$ belong to columns now: `lse[None, :]`.
#
# **Which queries?** Under a causal mask query $t$ stands at the place $t + S - T$ and sees keys up
# to there. The first query that sees key $s$ is $t = s - (S - T)$, or 0. So the loop *starts* late,
# there or where its tile begins, and runs to the end. Inside the tiles that the diagonal cuts,
# hidden weights become 0.
#
# **What about places behind the end?** Such a query was loaded as zeros, its LSE too. So its weight
# is $e^0 = 1$, and is multiplied by a $dO$ of 0. Such a key spoils only rows that are not stored.
#
# **By hand.** $D = 1$, scale 1, $q = 9$, two keys 0, values 0 and 8, $dO = 1$. Weights
# $\tfrac12, \tfrac12$; $\delta = 4$; $dO\,V^\top = (0, 8)$; $dX = (-2, 2)$. So $dV = (\tfrac12,
# \tfrac12)$ and $dK = (-18, 18)$.
#
# Loads and stores are given. Bring the scale into $dK$ before it is stored: in the loop, or in a
# line of your own after it. `CAUSAL` is known when the kernel is compiled, so `if CAUSAL:` costs
# nothing. Cast the first factor of a product to the second one's type, as in chapter 18.

# %% tags=["exercise"]
from attend_solutions.triton_flash_backward import grad_keys_values

# %% [markdown]
# **What you should see.** A query's weights sum to 1, so $dV$ shares $dO$ out among the values:
# summed over all rows, the two are the same. And a number added to all scores of a query changes no
# weight. So each row of $dX$ sums to 0, and so do the columns of $dK$. The control leaves out
# $\delta$.

# %%
if ready(flash_delta, grad_keys_values):
    for seed in range(5):
        q, k, v, d_out = given.drawn(4, 1, 40, 16, seed=seed)
        o, lse = forward_heads(q, k, v)
        delta = flash_delta(o, d_out)
        dk, dv = grad_keys_values(q, k, v, d_out, lse, delta)
        control, _ = grad_keys_values(q, k, v, d_out, lse, 0 * delta)
        sums = d_out.sum(1) - dv.sum(1), dk.sum(1), control.sum(1)
        off = [f"{x.abs().max():.0e}" for x in sums]
        print(f"seed {seed}: dV's sum is {off[0]} off, that of dK {off[1]}; control {off[2]}")

# %% [markdown]
# ## 3 · A program owns queries
#
# <!-- exercise: grad_queries -->
#
# **Why.** $dQ = \text{scale} \cdot dX\,K$ is a sum over keys. A second launch gives each program
# some queries, as in the forward pass, and makes every tile of weights once more.
#
# The arguments are those of section 2; returned is dQ, $(H, T, D)$. You write the kernel but for
# its first two lines, and the grid. Under a causal mask the loop begins at 0 and *ends* early.
#
# **The trap.** Now the rows are queries, and places behind the last *key* are in every row. Such a
# key was loaded as zeros, so its score is 0 and its weight $e^{0 - \text{LSE}}$. It is multiplied
# by a key of zeros: does it matter? If all true scores lie near $-2{,}000$, so does the LSE, and
# $e^{2000}$ is infinite. Infinity times 0 is not a number. So set those weights to 0, with
# `tl.where`.
#
# **By hand.** Scale 1, $q = 0$, keys 1 and 3, values 0 and 8, $dO = 1$: weights $\tfrac12,
# \tfrac12$, $\delta = 4$, $dX = (-2, 2)$, $dQ = -2 \cdot 1 + 2 \cdot 3 = 4$.
#
# <details><summary>Predict first: a product of T × S × D counts 1. How many do sections 2 and 3
# take together? How many would do?</summary>
#
# Section 2: $KQ^\top$, $V dO^\top$, $dV$, $dK$. Section 3: $QK^\top$, $dO V^\top$, $dQ$. Together
# seven. If weights and $dX$ were made once, five.
#
# </details>
# %% tags=["exercise"]
from attend_solutions.triton_flash_backward import grad_queries

# %% [markdown]
# **What you should see.** All three gradients beside autograd's, of plain attention in float64:

# %%
if ready(flash_delta, grad_keys_values, grad_queries):
    for causal, scale in ((False, None), (True, None), (True, 0.1)):
        q, k, v, d_out = given.drawn(4, 2, 40, 16, seed=SEED)
        o, lse = forward_heads(q, k, v, causal, scale)
        rest = d_out, lse, flash_delta(o, d_out), causal, scale, 16, 16
        mine = grad_queries(q, k, v, *rest), *grad_keys_values(q, k, v, *rest)
        leaves = [x.double().requires_grad_() for x in (q, k, v)]
        plain = given.plain_attention(*leaves, causal, scale)
        right = torch.autograd.grad(plain, leaves, d_out.double())
        pairs = zip(mine, right, strict=True)
        apart = [f"{(a - b).abs().max() / b.abs().max():.0e}" for a, b in pairs]
        print(f"causal {causal}, scale {scale}: dQ, dK, dV apart by {', '.join(apart)}")

# %% [markdown]
# > **Takeaway.** A gradient is a sum. Give each program the rows that it sums, and no two programs
# > meet. Where several share a head, the price here is that weights are made twice on the way
# > back.

# %% [markdown]
# ## 4 · A function that autograd knows
#
# <!-- exercise: flash_attention -->
#
# **Why.** Autograd cannot look into a kernel. A `torch.autograd.Function` tells it both ways:
# `forward(ctx, …)` computes, and saves tensors by `ctx.save_for_backward(…)`; then
# `backward(ctx, d_out)` finds them in `ctx.saved_tensors` and returns one gradient for each
# argument of `forward`.
#
# | argument | is | shape |
# |---|---|---|
# | `q`; returned | $Q$; $O$ | $(H, T, D)$ |
# | `k`, `v` | $K$, $V$ | $(H, S, D)$ |
# | `causal`, `scale` | for both ways; None: $1/\sqrt D$ | |
#
# The class stands inside a function here, so both methods see `causal` and `scale`. A library would
# define it once, pass them through `apply`, and return `None` as their gradients.
#
# **Two traps.** What comes into `backward` need not be contiguous: the gradient of `out.sum()`
# is a single 1, expanded, and that of `out.mT` is transposed. Your kernels count on rows without
# gaps, so use `.contiguous()`; the same holds for `q`, `k` and `v`. And its type is the output's,
# float32, even where `q` is float16; a product wants one type. What you return may be float32:
# autograd casts it.

# %% tags=["exercise"]
from attend_solutions.triton_flash_backward import flash_attention

# %% [markdown]
# **Use it.** Chapter 07's model (4 layers of 4 heads) can attend through your function, forwards
# and backwards. Let it learn a sentence by heart, in 7 steps of Adam: all gradients of its
# queries, keys and values come from your kernels. A second copy learns by plain attention and
# autograd. (`recite` goes on from the first four letters, by plain attention.)

# %%
if ready(flash_delta, grad_keys_values, grad_queries, flash_attention):
    yours, plain = given.Learner(), given.Learner()
    print(f"before: {yours.recite()!r}")
    found = yours.learn(flash_attention, 7), plain.learn(given.plain_attention, 7)
    for step in range(0, 7, 2):
        one, other = found[0][step], found[1][step]
        print(f"step {step:2d}: {one:.6f} bits a letter, by autograd {other:.6f}")
    print(f"after:  {yours.recite()!r}")

# %% [markdown]
# The bits agree here to about a millionth. That it recites says little: with no gradient through
# attention at all, the rest of the model learns this as well (at this rate). The bits say more, but
# need autograd beside them; the next section does without.

# %% [markdown]
# ## 5 · Are these the gradients?
#
# <!-- exercise: gradient_gaps -->
#
# **Why.** A wrong scale, or a missing $\delta$ in a few rows, still lets the loss fall. So compare
# with something that knows no calculus: move the input a little along a direction $u$ and look at
# the loss $L = \sum O \circ dO$. If $g$ is the gradient, then
#
# $$\sum g \circ u \;\approx\; \frac{L(x + \epsilon u) - L(x - \epsilon u)}{2 \epsilon} .$$
#
# One random direction for each of `q`, `k` and `v` takes six forward passes, whatever the size. An
# error hides only where it is nearly at right angles to it, or no larger than the slope's own
# error: curvature and rounding.
#
# | argument | is | shape |
# |---|---|---|
# | `q`, `k`, `v`, `d_out` | as before | |
# | `gradients`, `directions` | three each | those of `q`, `k`, `v` |
# | `step` | $\epsilon$ | |
# | returned | left side minus right side | three floats |
#
# The loss comes from `forward_heads`. Move one of the three at a time. Sums in float64
# (`.double()`) add no rounding of their own.
#
# **By hand.** Let $L = x^3$ at $x = 1$, $\epsilon = \tfrac12$, $u = 1$: left 3, right $(3.375 -
# 0.125)/1 = 3.25$, gap $-0.25$. With $\epsilon = \tfrac1{32}$ it is $-0.001$.
#
# <details><summary>Predict first: why not take a step of a millionth, then?</summary>
#
# Inputs and outputs are float32, so $L$ is off by some $10^{-6}$, and that is divided by
# $2\epsilon$. A large step errs by curvature, a small one by rounding.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.triton_flash_backward import gradient_gaps

# %% [markdown]
# **What you should see.** Your gradients, with steps of all sizes; then with three mistakes, at a
# step among the best. (The slope along the direction of `q` is about −7.4 here.)

# %%
if ready(flash_delta, grad_keys_values, grad_queries, gradient_gaps):
    q, k, v, d_out, *directions = given.drawn(7, 1, 20, 16, seed=SEED)
    o, lse = forward_heads(q, k, v)
    right = flash_delta(o, d_out)

    def gaps(delta, step, factor=1.0):
        """Gaps of gradients that are made with this delta; dQ times a factor."""
        rest = q, k, v, d_out, lse, delta
        found = factor * grad_queries(*rest), *grad_keys_values(*rest)
        told = gradient_gaps(q, k, v, d_out, found, tuple(directions), step=step)
        return ", ".join(f"{gap:+.5f}" for gap in told)

    for power in (0, 2, 4, 6, 8, 10, 12, 14):
        print(f"step 2^-{power:<2d}: gaps of q, k, v: {gaps(right, 2.0**-power)}")
    print(f"no delta:      {gaps(0 * right, 2.0**-7)}")
    row = torch.arange(20) != 3
    print(f"one row's δ lost: {gaps(right * row, 2.0**-7)}")
    print(f"dQ 1 % larger: {gaps(right, 2.0**-7, 1.01)}")

# %% [markdown]
# From $2^{-2}$ on the gaps of $q$ and $k$ fall here with the square of the step, until rounding
# takes over: then they jump about, and grow in the mean as steps shrink. That of $v$ knows no
# curvature, because the output is linear in the values.

# %% [markdown]
# ## 6 · One pass, and a race
#
# <!-- exercise: one_pass -->
#
# **Why.** Two passes make all weights twice. The kernel of section 2 has $dX$ in its hands already;
# could it not add `dX K` to the rows of $dQ$ on its way? Somebody has tried. The result is right,
# in every test, on this machine.


# %% tags=["repair-one_pass"]
@triton.jit
def racing_kernel(
    q_ptr, k_ptr, v_ptr, d_out_ptr, lse_ptr, delta_ptr, dq_ptr, dk_ptr, dv_ptr, T, S, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """It looks right. It is not."""
    s = tl.program_id(0) * BLOCK_S + tl.arange(0, BLOCK_S)
    d = tl.arange(0, D)
    keys = (s + tl.program_id(1) * S)[:, None] * D + d[None, :]
    k = tl.load(k_ptr + keys, mask=(s < S)[:, None], other=0.0)
    v = tl.load(v_ptr + keys, mask=(s < S)[:, None], other=0.0)
    dk = tl.zeros((BLOCK_S, D), tl.float32)
    dv = tl.zeros((BLOCK_S, D), tl.float32)
    start = 0
    if CAUSAL:
        start = tl.maximum(tl.program_id(0) * BLOCK_S - (S - T), 0) // BLOCK_T * BLOCK_T
    for first in range(start, T, BLOCK_T):
        t = first + tl.arange(0, BLOCK_T)
        row = t + tl.program_id(1) * T
        rows = row[:, None] * D + d[None, :]
        q = tl.load(q_ptr + rows, mask=(t < T)[:, None], other=0.0)
        do = tl.load(d_out_ptr + rows, mask=(t < T)[:, None], other=0.0)
        lse = tl.load(lse_ptr + row, t < T, other=0.0)[None, :]
        delta = tl.load(delta_ptr + row, t < T, other=0.0)[None, :]
        hidden = (s >= S)[:, None]
        if CAUSAL:
            hidden |= s[:, None] > (t + S - T)[None, :]
        p = tl.where(hidden, 0.0, tl.exp(tl.dot(k, q.T) * scale - lse))
        dv = tl.dot(p.to(do.dtype), do, dv)
        dx = p * (tl.dot(v, do.T) - delta)
        dk = tl.dot(dx.to(q.dtype), q, dk)
        share = tl.dot(k.T, dx.to(k.dtype)) * scale  # (D, BLOCK_T)
        places = dq_ptr + row[None, :] * D + d[:, None]
        so_far = tl.load(places, mask=t[None, :] < T, other=0.0)
        tl.store(places, so_far + share, mask=t[None, :] < T)
    tl.store(dk_ptr + keys, dk * scale, mask=s[:, None] < S)
    tl.store(dv_ptr + keys, dv, mask=s[:, None] < S)


def racing_pass(q, k, v, d_out, lse, delta, causal=False, scale=None, block_t=64, block_s=64):
    """Launch it."""
    (H, T, D), S = q.shape, k.shape[1]
    dq, dk, dv = (torch.zeros_like(x, dtype=torch.float32) for x in (q, k, v))
    racing_kernel[triton.cdiv(S, block_s), H](
        q, k, v, d_out, lse, delta, dq, dk, dv, T, S, D**-0.5 if scale is None else scale,
        CAUSAL=causal, D=D, BLOCK_T=block_t, BLOCK_S=block_s,
    )  # fmt: skip
    return dq, dk, dv


# %% [markdown]
# **Get evidence first.** Launch it under the tracer, read what it saw, and compare with your
# `grad_queries`.

# %%
if ready(flash_delta, grad_queries):
    q, k, v, d_out = given.drawn(4, 1, 48, 16, seed=SEED)
    out, lse = forward_heads(q, k, v)
    rest = q, k, v, d_out, lse, flash_delta(out, d_out), False, None, 16, 16
    raced, *_ = given.watched(racing_pass, *rest)
    print(f"dQ differs from yours by {(raced - grad_queries(*rest)).abs().max():.0e}")

# %% [markdown]
# The interpreter runs one program after the other. On a GPU two programs may load the same row
# before either has stored it, and one share is lost. Repair it: loading, adding and storing must be
# one step, for all programs. In Triton that is `tl.atomic_add(pointers, values, mask=…)`.

# %% tags=["exercise"]
from attend_solutions.triton_flash_backward import one_pass

# %% [markdown]
# **What you should see.** The picture of the first screen, drawn from the stores and atomic
# additions of *your* kernels. (Put `racing_pass` in the place of `one_pass`: its tiles of $dQ$ are
# marked.)

# %%
if ready(grad_keys_values, grad_queries, one_pass):
    display(widgets.row_writers((grad_keys_values, grad_queries), one_pass))

# %% [markdown]
# ## 7 · Experiment: the same twice?
#
# An atomic addition loses no share. But float32 sums of three terms or more can depend on their
# order, and nobody promises one. The interpreter has a fixed one; `program_order` gives its
# programs other numbers, so that they come in any order you like. (That is less than a GPU does:
# there, programs also overlap.) Five draws of numbers, each with an order of its own. The control
# runs the same order twice.

# %%
if ready(flash_delta, grad_keys_values, grad_queries, one_pass):

    def two_passes(*args):
        """The same three gradients, in two launches."""
        return grad_queries(*args), *grad_keys_values(*args)

    for seed, order in enumerate(list(itertools.permutations(range(4)))[4::4]):
        q, k, v, d_out = given.drawn(4, 1, 64, 16, seed=seed)
        out, lse = forward_heads(q, k, v)
        args = q, k, v, d_out, lse, flash_delta(out, d_out), False, None, 16, 16
        told = []
        for way in (one_pass, two_passes):
            usual, again = way(*args), way(*args)
            with given.program_order(order):
                other = way(*args)
            changed = [given.differing(a, b) for a, b in zip(usual, other, strict=True)]
            apart = (usual[0] - other[0]).abs().max() / usual[0].abs().max()
            control = sum(map(given.differing, usual, again))
            told.append(f"{changed}, by {apart:.0e}; control {control}")
        print(f"order {order}\n   one pass   {told[0]}\n   two passes {told[1]}")

# %% [markdown]
# Printed is how many numbers of dQ, dK and dV differ in any bit, of 1,024 each, and by how much of
# the largest one those of dQ do. In one pass some 200 to 500 numbers of $dQ$ changed in these
# draws; in two passes none, nor did $dK$ or $dV$ in either form, because each of these sums lives
# in one program. The changes are rounding, so they do not say that either form is nearer the truth.
# But a training run that cannot be repeated is hard to debug.
#
# **What the second pass costs,** in bytes that the loads, stores and additions ask for:

# %%
if ready(flash_delta, grad_keys_values, grad_queries, one_pass):
    for kind, causal in itertools.product((torch.float32, torch.float16), (False, True)):
        here = *(x.to(kind) for x in args[:4]), *args[4:6], causal, None, 16, 16
        counted = [attend.kernels.moved(way, *here) for way in (two_passes, one_pass)]
        zeros = 0, 4 * here[0].numel()  # dQ is filled before anything can be added
        pairs = zip(counted, zeros, strict=True)
        sums = [f"{each.read + each.written + more:,} bytes" for each, more in pairs]
        print(f"{kind}, causal {causal}: two passes {sums[0]}, one pass {sums[1]}")

# %% [markdown]
# One pass saves two of seven products, but not always traffic. With four tiles each way, $dQ$'s
# zeros counted, it moves 9 % less in float32, 12 % under the causal mask; in float16 21 % more, 13
# % under the mask. It reads $Q$, $dO$, LSE and $\delta$ once less; but where the second pass reads
# $K$ and $V$, it adds to $dQ$ in memory, in float32 always. (An addition counts as a read and a
# write; the program itself sends the addend alone.) With more tiles the gain fades and the loss
# grows, to 38 % without a mask at 16 tiles. Which is faster, only a clock can say.
#
# **On a GPU** the next cell compiles your kernels, runs each form ten times on the same numbers,
# and counts how many different results come out:

# %%
if ready(grad_keys_values, grad_queries, one_pass):
    found = given.repeated(grad_keys_values, grad_queries, one_pass)
    if found is None:
        print("No GPU here: nothing was run or timed.")
    else:
        print(found["device"])
        for row in found["rows"]:
            ms = "{:.3f} ms ({:.3f}–{:.3f})".format(*row["ms"])
            print(f"{row['length']:,} tokens, {row['way']}: {row['distinct']} results, {ms}")

# %% [markdown]
# **Is memory flat?** What a call keeps for its way back and the largest tensor made on either way,
# in bytes for each token of two heads, without `q`, `k` and `v` (in the kernels: of all that they
# touch). Beside yours: plain attention, and a simple rival, `checkpointed`, which keeps nothing
# more and computes plain attention again on the way back.

# %%
if ready(flash_delta, grad_keys_values, grad_queries, flash_attention):
    for length in (64, 128, 256):
        q, k, v = given.drawn(3, 2, length, 16, seed=SEED)
        print(f"{length} tokens")
        for way in (given.plain_attention, given.checkpointed, flash_attention):
            kept, largest = (bytes_ // length for bytes_ in given.memory(way, q, k, v))
            print(f"   {way.__name__:16s}: keeps {kept:5,}, largest tensor {largest:5,}")

# %% [markdown]
# A token of two heads keeps 136 bytes with your function, whatever the length: 2 · 16 numbers of
# output and 2 LSE (and copies of q, k and v where these are not contiguous). Plain attention keeps
# one number for each pair. `checkpointed` keeps nothing, but its largest tensor has a number for
# each pair; in blocks of queries it would be flat, too. (Sizes follow from shapes and strides, not
# from seeds.)
#
# **What this does not show.** Time, where there is no GPU. How often sums differ there: our orders
# were picked, a GPU's are not. Memory of the allocator, which rounds sizes up. A third form:
# shares of $dQ$ are stored apart, and summed in a fixed order.

# %% [markdown]
# ## 8 · Beside the course's own kernel
#
# `attend_kernels` has a backward pass that is meant to be used. Here is its loop over queries. Find
# your six lines.

# %%
if ready(grad_keys_values):
    import inspect

    from attend_kernels.ops.flash.backward import keys_over_queries

    lines = inspect.getsource(keys_over_queries.fn).splitlines()
    loop = next(n for n, line in enumerate(lines) if line.startswith("    for step"))
    print("\n".join(line[4:80] + ("…" if len(line) > 80 else "") for line in lines[loop:]))

# %% [markdown]
# - **`GROUP`.** Heads of queries that share keys (chapter 05) pass by in one loop of one program,
#   so $dK$ and $dV$ of a shared head need no atomics either.
# - **`exp2` and `LOG2E`**, as in chapter 18; the factor waits until it can be fused.
# - **`MASKED`.** Called once for whole tiles and once for those that an edge cuts. A query behind
#   the end gets the LSE $\infty$, so that its weights are 0.
# - **`dq_ptr`.** Both forms are in one kernel: `flash_attention(…, deterministic=False)` may pass
#   $dQ$ and add with atomics, otherwise it is `None`, and a second pass sums it.
# - **`delta`** (in `flash_delta_kernel`) also takes a gradient of the LSE: it is subtracted there,
#   because the LSE's derivative by a score is the weight itself.

# %% [markdown]
# ## 9 · Where this breaks
#
# **Gradients of gradients.** Kernels make $dQ$, $dK$ and $dV$; autograd knows nothing of how. Ask
# for a second derivative, and there is none; behind another layer, it may be a wrong one without an
# error.
#
# **Queries without keys.** With $T > S$ and a causal mask, the first queries see nothing. Chapter
# 18's kernel makes their rows an average of hidden values and empty places (zeros), or NaN;
# gradients here are as if these rows were zeros. With larger tiles of queries backwards than
# forwards, $dQ$ and $dK$ may be NaN.
#
# **Heads of other widths, dropout.** Widths other than powers of two need a mask along $d$, zeros
# up to the next one, or a sum of several products. Dropout needs the same random numbers both ways.
#
# **What the interpreter does not show.** Section 6's race looks right in it; the tracer found it,
# as it keeps a record of who stored where. It sees nothing of races *within* a program.
# Nor does it round as a GPU does: on NVIDIA's tensor cores `tl.dot` takes float32 to tf32, unless
# `input_precision` says otherwise.
#
# ## 10 · Recap
#
# - Beside inputs and $dO$, the way back needs two numbers a query: the LSE, and $\delta$ from $O$.
# - Whoever owns the rows of a sum can make it alone. With several programs a head, that takes two
#   passes and seven products here.
# - One pass has five, but those programs share $dQ$. Atomic additions lose no share; no order is
#   fixed.
# - Sums in one program have a fixed order: of the same compiled kernel on the same GPU, their bits
#   do not change from run to run.
# - A gradient is checked by differences, at a step between curvature and rounding.
#
# **Next.** Chapter 22: gated recurrence. Before: 16 (the algorithm), 18 (forwards).
#
# ## Sources
#
# - The loops, and $\delta$: Dao 2023, *FlashAttention-2*, algorithm 2; its programs add to $dQ$ by
#   atomics (§3.2); Dao, Fu, Ermon, Rudra and Ré 2022, *FlashAttention*, appendix B and algorithm 4.
# - Without atomics: tutorial 06 of the Triton documentation, *Fused Attention*, whose programs own
#   first a tile of keys, then a tile of queries.
# - Checkpointing: Chen, Xu, Zhang and Guestrin 2016, *Training deep nets with sublinear memory
#   cost*.
# - Extending autograd: PyTorch documentation, *Extending PyTorch*.
