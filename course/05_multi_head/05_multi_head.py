# %% [markdown]
# # 05 · Many heads
#
# **Why many heads, and how few keys and values suffice?** Run the next cell (Shift+Enter). Its
# small models answer two questions at once. Switch off head 2, then head 6, then head 1.

# %%
from attend import widgets

widgets.head_surgery()

# %% [markdown]
# Twelve people stand in a row, in three houses of four. Each says its name, the name of a friend,
# its house, whether it is the first of its house, and four random numbers. And each asks for the
# numbers of two others: of its **friend**, and of the first of its **house**. One of this model's
# eight heads finds the friend and another the house; switch off any other, alone, and little
# happens. The slider loads models whose heads share keys and values. In the smallest all eight
# share one head of them: it keeps an eighth of the numbers per token (the *cache*), and its
# answers are still nearly right.
#
# You write multi-head attention, equal to PyTorch's own, and three forms that save memory; you
# operate on a model that writes, and choose a cache that fits a GPU.
#
# It takes about two and a half hours. You need attention and masks (chapters 03 and 04), PyTorch
# tensors, and how an `nn.Linear` is called. `check(...)` says what is wrong, `hint(...)` helps,
# `solution(...)` shows the course's answer. A cell that needs what you have not written yet waits.
#
# | letter | counts | | letter | counts |
# |---|---|---|---|---|
# | $B$ | sentences in a batch | | $H$ | heads, of queries |
# | $T$, $S$ | queries; keys and values | | $G$ | heads of keys and values |
# | $C$ | numbers of a token: $C = H \cdot D$ | | $D$ | numbers of one head's query, key or value |
# | $L$ | layers | | $R$ | numbers of a latent (section 6) |
#
# In self-attention $S = T$. A *mask* is `True` where a query may look at a key.

# %%
import torch
from attend import charts
from attend.data import deep_stack, head_trials
from attend.data.published_models import MODELS
from attend_grader import check, hint, ready, solution
from attend_solutions.multi_head import masked_attention
from IPython.display import display
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

SEED = 5
torch.set_num_threads(1)  # the models are small: a second thread only gets in the way
torch.set_printoptions(precision=3, sci_mode=False)

# %% [markdown]
# ## 1 · Many heads in one tensor
#
# A **head** is one look-up with queries, keys and values of its own. One large matrix product is
# faster than many small ones, so the heads' matrices lie side by side, and one product makes the
# queries of all heads: each token's first $D$ numbers belong to head 0, the next $D$ to head 1.
#
# ```text
# x (B, T, C)  ── query ──▶  │ head 0 │ head 1 │ … │   (B, T, C)      of each token
#                                     split                              ▼
#                            head 0: (T, D)   head 1: (T, D)   …      (B, H, T, D)
# ```
#
# <!-- exercise: split_heads -->
#
# **Why.** Attention works on the last two axes, (tokens, width), and treats earlier axes as
# separate problems. If the heads are an axis before the tokens, one call does all heads.
#
# $$\text{out}_{b,h,t,d} = x_{b,\,t,\;hD + d}$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$ | `x`: tokens with all heads side by side | $(B, T, C)$ |
# | $H$ | `heads` | a whole number that divides $C$ |
# | out | returned | $(B, H, T, D)$ with $D = C / H$ |
#
# **By hand.** Two tokens, $C = 4$, two heads:
#
# | | numbers | head 0 | head 1 |
# |---|---|---|---|
# | token 0 | 1 2 3 4 | 1 2 | 3 4 |
# | token 1 | 5 6 7 8 | 5 6 | 7 8 |
#
# **PyTorch you need.** `reshape` lays another shape over the numbers and keeps their *reading
# order*, last axis fastest. So it can cut one axis into two neighbours, or join two neighbours. It
# cannot exchange axes: that is `transpose(i, j)`. Here are 2 shelves of 6 books, in 3 boxes of 2:
#
# ```python
# books = torch.arange(12).reshape(2, 6)   # shelf 0: 0 … 5, shelf 1: 6 … 11
# boxes = books.reshape(2, 3, 2)           # (shelf, box, book): each shelf cut into 3 boxes
# boxes[1, 0]                              # tensor([6, 7]): the first box of shelf 1
# boxes.transpose(0, 1).shape              # (3, 2, 2): (box, shelf, book)
# books.reshape(3, 2, 2)[0]                # tensor([[0, 1], [2, 3]]): two boxes of shelf 0!
# ```
#
# `6 // 3` is the whole number 2; `6 / 3` is the float 2.0, which no shape takes.
#
# <details><summary>Predict first: x has the shape (8, 50, 512), and there are 16 heads. What is the
# shape of the result?</summary>
#
# (8, 16, 50, 32). The width of a head is 512 / 16 = 32.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.multi_head import split_heads

# %% [markdown]
# **What you should see.** The example above: each head has both tokens, and half of their numbers.

# %%
if ready(split_heads):
    parts = split_heads(torch.tensor([[[1, 2, 3, 4], [5, 6, 7, 8]]]), 2)
    for h in range(2):
        print(f"head {h}:", parts[0, h].tolist())

# %% [markdown]
# <!-- exercise: merge_heads -->
#
# **Why.** After attention every head has found something for every token. The next layer wants
# tokens of $C$ numbers again: what the heads found, side by side.
#
# $$\text{out}_{b,\,t,\;hD + d} = x_{b,h,t,d}$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$ | `x`: what each head found | $(B, H, T, D)$ |
# | out | returned | $(B, T, H \cdot D)$ |
#
# **By hand.** Head 0 has found (1, 2) and (3, 4) for the two tokens; head 1 (5, 6) and (7, 8).
# Token 0 becomes (1, 2, 5, 6), token 1 becomes (3, 4, 7, 8).
#
# **PyTorch you need.** A transposed tensor is a *view*: the numbers lie in memory as before.
# `view` is a `reshape` that refuses to copy, so it fails there. `reshape` copies when it must.

# %% tags=["exercise"]
from attend_solutions.multi_head import merge_heads

# %% [markdown]
# **What you should see.** Both only move numbers, and the second undoes the first to the last bit.

# %%
if ready(split_heads, merge_heads):
    x = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(SEED))
    for h in (1, 2, 3, 12):
        print(f"{h:2d} heads: all numbers back:", torch.equal(merge_heads(split_heads(x, h)), x))

# %% [markdown]
# ## 2 · Multi-head attention
#
# ```text
#       ┌─ query ─ split ─┐
# x ────┼─ key ── split ──┼─ attend in every head ── merge ── output ──▶
#       └─ value ─ split ─┘       (under the mask)
# ```
#
# <!-- exercise: MultiHeadAttention -->
#
# **Why.** This module, or a variant from sections 5 and 6, is in almost every transformer (§3.2.2
# of Vaswani et al. 2017, "the paper" from here on); chapters 06 and 07 build on yours.
#
# $$\begin{gathered}
# o^{(h)} = \operatorname{softmax}\!\left(\frac{q^{(h)} {k^{(h)}}^\top}{\sqrt D}\right) v^{(h)}, \\
# \text{output} = [\,o^{(1)} \cdots o^{(H)}\,]\; W_o
# \end{gathered}$$
#
# The scale is $\sqrt D$, with the width of *one head*: its dot products have $D$ terms.
#
# | symbol | in the class | shape |
# |---|---|---|
# | $x$ | `x` | $(B, T, C)$ |
# | $W_q, W_k, W_v$ | `self.query`, `self.key`, `self.value`: layers | $C \times C$ each |
# | $W_o$ | `self.output` | $C \times C$ |
# | mask | `mask`; `None` hides nothing | broadcasts with $(B, H, T, T)$ |
# | output | first result | $(B, T, C)$ |
# | weights | second result, of every head | $(B, H, T, T)$ |
#
# **By hand.** $C = 4$, two heads, two tokens. Suppose their projections are these, where
# $a = \sqrt 2 \ln 2$ and a bar separates head 0 from head 1:
#
# | | query | key | value |
# |---|---|---|---|
# | token 0 | 0 0 \| 0 $a$ | 1 0 \| 0 0 | 6 0 \| 0 6 |
# | token 1 | $a$ 0 \| 0 0 | 0 1 \| 0 1 | 0 6 \| 3 0 |
#
# - Head 0, token 0: the query is 0, so are its scores. Weights $(1/2, 1/2)$, found $(3, 3)$.
# - Head 0, token 1: products $(a, 0)$, divided by $\sqrt 2$: scores $(\ln 2, 0)$, weights $(2/3,
#   1/3)$, found $(4, 2)$.
# - Head 1: token 0 has weights $(1/3, 2/3)$ and finds $(2, 2)$; token 1 finds $(1.5, 3)$.
#
# Merged: $(3, 3, 2, 2)$ and $(4, 2, 1.5, 3)$. With $W_o = I$ that is the output.
#
# **PyTorch you need.** `layer(x)` projects the last axis and leaves the others alone. Attention
# under a mask, which you wrote in chapters 03 and 04, is given in torch: `masked_attention(q, k, v,
# mask)` returns what is found and the weights. It works on the last two axes; all before them are
# separate problems. Every query may look at one key at least.
#
# <details><summary>Predict first: you double the heads from 8 to 16 and keep C. Does the module get
# more parameters? More multiplications?</summary>
#
# Neither: the four projections are $C \times C$, and the scores are $H$ products of $T \times D$
# with $D \times T$, $H D = C$ multiplications for each pair of tokens. What grows is the number of
# *weights*, $H T^2$, and with it the softmax. Each head gets narrower.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.multi_head import MultiHeadAttention

# %% [markdown]
# **What you should see.** Your module beside torch's `nn.MultiheadAttention` with the same weights:
# rounding only. (In torch's mask `True` means the opposite: hidden.) Then the counts for 1, 4 and
# 16 heads.

# %%
if ready(split_heads, merge_heads, MultiHeadAttention):
    torch.manual_seed(SEED)
    mine, x = MultiHeadAttention(48, 8), torch.randn(2, 10, 48)
    theirs = nn.MultiheadAttention(48, 8, bias=False, batch_first=True)
    three = torch.cat([layer.weight for layer in (mine.query, mine.key, mine.value)])
    theirs.load_state_dict({"in_proj_weight": three, "out_proj.weight": mine.output.weight})
    causal = torch.ones(10, 10, dtype=torch.bool).tril()
    outputs = mine(x, causal), theirs(x, x, x, attn_mask=~causal, average_attn_weights=False)
    for name, one, other in zip(("output", "weights"), *outputs, strict=True):
        print(f"{name:7s} {tuple(one.shape)}: largest difference {(one - other).abs().max():.0e}")
    for h in (1, 4, 16):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            _, weights = (model := MultiHeadAttention(48, h))(x)
        numbers = sum(p.numel() for p in model.parameters())
        flops, count = counter.get_total_flops(), weights.numel()
        print(f"{h:2d} heads: {numbers:,} parameters, {flops:,} FLOPs, {count:,} weights")

# %% [markdown]
# ### What a head adds
#
# Concatenating and projecting is a *sum*. Cut $W_o$ into slices of $D$ rows, one for each head:
#
# $$[\,o^{(1)} \cdots o^{(H)}\,]\; W_o = \sum_{h=1}^{H} o^{(h)}\, W_o^{(h)} .$$
#
# So a head is switched off by setting its slice to 0, as the first picture does. Here its trained
# model is in *your* module. A triangle marks where the friend and the first of the house stand.
# Compare head 5 with head 1 (pictures count from 1, tensors from 0).

# %%
rows = head_trials.rows(head_trials.TEST, 256)
if ready(split_heads, merge_heads, MultiHeadAttention):
    (model := MultiHeadAttention(48, 8)).load_state_dict(head_trials.surgery(8))
    marks = {name: rows.places[:8, :, n] for n, name in enumerate(("friend", "house"))}
    display(widgets.head_explorer(model, rows.x[:8], [rows.row(n) for n in range(8)], marks=marks))

# %% [markdown]
# Heads 1 and 5 look at the house, with 98 % and 82 % of their weight on average. But without
# head 1 nothing is known of it, and without head 5 its error is only 0.0025. A large weight is not
# a large influence: that also depends on the values and on the slice of $W_o$.
#
# <!-- exercise: repaired_attention -->
#
# **Why.** A colleague attends with projected queries, keys and values. Two tests pass: with one
# head it is plain attention, and under a causal mask no token sees a later one.
#
# | argument | shape | | | |
# |---|---|---|---|---|
# | `q` | $(B, T, C)$ | | `mask` | broadcasts with $(B, H, T, S)$ |
# | `k`, `v` | $(B, S, C)$ | | returned | $(B, T, C)$: what the heads found, side by side |


# %%
def suspect_attention(q, k, v, heads, mask=None):
    def cut(part):
        return part.reshape(len(part), heads, part.shape[1], -1)

    found, _ = masked_attention(cut(q), cut(k), cut(v), mask)
    return found.reshape(q.shape)


# %% jupyter={"source_hidden": true}
def reaches(attend, heads=4, tokens=8):
    """For each output a line, for each input a mark: # where the input matters."""
    x = torch.randn(1, tokens, 8, generator=torch.Generator().manual_seed(SEED))
    mask = torch.ones(tokens, tokens, dtype=torch.bool).tril()
    whole = torch.autograd.functional.jacobian(lambda y: attend(y, y, y, heads, mask), x)
    seen = torch.as_tensor(whole)[0, :, :, 0].abs().sum((1, 3)) > 0
    return ["".join("#" if mark else "." for mark in row) for row in seen.tolist()]


x = torch.randn(2, 8, 6, generator=torch.Generator().manual_seed(SEED))
plain, _ = masked_attention(x, x, x)
print("one head is attention:", torch.equal(suspect_attention(x, x, x, 1), plain))
print("\n".join(reaches(suspect_attention)))

# %% [markdown]
# In the table a line is an output and a column an input, with a causal mask and four heads. Nothing
# looks ahead, as promised. What is missing? Find the mistake, then write it as it should be.

# %% tags=["exercise"]
from attend_solutions.multi_head import repaired_attention

# %% [markdown]
# <details><summary>What had your colleague built?</summary>
#
# The reshape keeps the reading order, so head 0 gets *all* numbers of the first quarter of the
# tokens, cut into pieces that look at each other. It is attention in $H$ separate blocks of the
# text; no head looks beyond its block. The order of the pieces is that of the tokens, so a causal
# mask still hides the future. And with one head there is nothing to exchange.
#
# </details>

# %%
if ready(split_heads, merge_heads, repaired_attention):
    print("\n".join(reaches(repaired_attention)))

# %% [markdown]
# ## 3 · One head, one mean
#
# What can *one* head do with two questions? It has one unit of weight: $p$ for the first place and
# $1 - p$ for the second, and it finds $o = p\,a + (1-p)\,b$. Let $a$ and $b$ be independent with
# mean 0 and variance 1. The best multiple $m\,o$ to guess $a$ with has an error that follows from
# $\mathbb E[a\,o] = p$ and $\mathbb E[o^2] = p^2 + (1-p)^2$:
#
# $$\begin{gathered}
# \text{error}_a = 1 - \frac{p^2}{p^2 + (1-p)^2}, \\
# \text{error}_b = 1 - \frac{(1-p)^2}{p^2 + (1-p)^2}
# \end{gathered}$$
#
# $$\boxed{\text{error}_a + \text{error}_b = 1}$$
#
# for every $p$ independent of $a$ and $b$: all of $a$, half of each, or anything between. For
# normal numbers no other function of $o$ does better, so a network behind the head is no help. The
# paper says: "With a single attention head, averaging inhibits this" (§3.2.2). In its table 3 (A)
# one head costs 0.9 BLEU, and 32 narrow ones 0.4.
#
# **But look at what was assumed.** The answers are *continuous*, lie in the *same* coordinates, and
# do not move $p$. If $a$ fills the first numbers of a value and $b$ the others,
# $o = (p\,a, (1-p)\,b)$ has lost nothing. And of *symbols* nothing is lost either: from
# $0.7\,e_a + 0.3\,e_b$ one reads off which symbol has the larger share, and which the smaller.
#
# <details><summary>Predict first: the error (the mean of both) of 1, 2, 4 and 8 heads on the people
# and houses of the first picture. Does a wider head help? A network behind it? A second
# layer?</summary>
#
# The derivation says ½ for one head, however wide, and nothing against 0 for two. A second layer
# can ask again, while the first answer waits in $x$.
#
# </details>
#
# **The experiment.** Every head is at least as wide as the four numbers it is asked for. **The
# control** asks for the friend only. In a third task everybody says one of four *symbols* instead
# of four numbers, and the share of wrong answers counts (by chance 0.75). Each arm trains with Adam
# for 500 steps of 16 rows (symbols: 1,000), at the best of four rates, chosen on two other seeds
# and other rows. `python course/05_multi_head/heads.py asking` makes the table; this cell prints
# it: smallest to largest error of five seeds on unseen rows.

# %% jupyter={"source_hidden": true}
asked = head_trials.table()["asking"]
print(f"{'':32s} numbers, both  friend only   symbols, both")
for arm in head_trials.ASKING:
    told = f"{arm:32s}"
    for cells in asked.values():
        errors = cells[arm]["error"] if arm in cells else []
        told += f" {min(errors):.4f}-{max(errors):.4f}" if errors else 14 * " "
    print(told)

# %% [markdown]
# Live, by *your* module: the first 60 steps of two runs.

# %%
if ready(split_heads, merge_heads, MultiHeadAttention):
    for arm in ("1 head of 48", "2 heads of 24"):
        cell = asked[head_trials.BOTH][arm]
        _, losses = head_trials.train(
            lambda arm=arm: head_trials.Asker(arm, MultiHeadAttention),
            cell["rate"],
            seed=0,
            steps=60,
            total=head_trials.STEPS[head_trials.BOTH],
        )
        pairs = zip(losses[:: head_trials.EVERY], cell["losses"][0], strict=False)
        off = max(abs(one - other) for one, other in pairs)
        print(f"{arm:14s} loss {losses[0]:.2f} to {losses[-1]:.2f}; off the table by {off:.4f}")

# %% [markdown]
# **What it shows.** One head ends at about ½ in all runs, with 48 numbers or with 192, and with a
# network behind it. A second layer brings the error to about 0.001, as do four and eight heads.
# Of the runs with *exactly* two heads one is still at 0.50: both its heads look at the house. Two
# heads are enough, but training may fail to use both: of 20 more runs each (`heads.py stuck`), one
# with two heads ends at 0.50 and one at 0.05; none with four or eight heads is above 0.0003. With
# one question, the control, one head is enough. And with symbols, a network behind one head does
# help: about a fifth are wrong, against a third or more without it (0.375 for one answer known).
# Two heads make no mistake.
#
# **What it does not show.** That eight heads are better than four: here they are not. That language
# models have "two questions": nobody knows how many means a token needs. Nor that
# stuck runs stay stuck.
#
# ## 4 · Use it: operate on a model that writes
#
# Chapter 07 ships a small transformer, trained on Python's own help texts: four layers of four
# heads. Its attention is now *yours*, with the trained weights. How many bits does it need for a
# character of unseen text, how many more without one head, and how many more without several, the
# least missed first?
#
# <details><summary>Predict first: all eight heads that are missed least, off together: do they cost
# less than the sum of what each costs alone, or more?</summary>
#
# More, here. When only one head is off, another that found something similar may stand in for it.
#
# </details>


# %% jupyter={"source_hidden": true}
def bits_without(writer, heads):
    """Bits a character on unseen text with these (layer, head) switched off."""
    kept = [block.attention.output.weight.detach().clone() for block in writer.blocks]
    with torch.no_grad():
        for layer, h in heads:
            writer.blocks[layer].attention.output.weight[:, 12 * h : 12 * h + 12] = 0
        found = deep_stack.bits(writer, 128, 64)
        for block, weight in zip(writer.blocks, kept, strict=True):
            block.attention.output.weight.copy_(weight)
    return found


if ready(split_heads, merge_heads, MultiHeadAttention):
    writer = head_trials.writer(MultiHeadAttention)
    whole = bits_without(writer, [])
    alone = {(n, h): bits_without(writer, [(n, h)]) - whole for n in range(4) for h in range(4)}
    order = sorted(alone, key=lambda head: alone[head])
    print(
        f"all 16 heads: {whole:.2f} bits; a single one costs {alone[order[0]]:.2f} to "
        f"{alone[order[-1]]:.2f} more"
    )
    lines = []
    for n in range(17):
        together = bits_without(writer, order[:n]) - whole
        parts = {"together": together, "sum of each alone": sum(alone[one] for one in order[:n])}
        lines += [{"off": n, "bits": cost, "how": how} for how, cost in parts.items()]
    display(
        charts.line(
            lines,
            "off",
            "bits",
            "how",
            title="Many heads together are missed more than the sum says",
            description="Bits a character lost against the number of heads switched off, the least "
            "missed first. Both lines rise together up to about five heads; at 13 it is 1.5 "
            "together against 0.9 in the sum, at 16 1.8 against 1.4.",
            x_title="heads switched off, of 16",
            y_title="bits a character lost",
        )
    )

# %% [markdown]
# **What you should see.** With all 16 heads 3.00 bits. One head less costs 0.01 to 0.17 bits, four
# of them less than 0.05. But many together are missed more than the sum says: the eight least
# missed cost 0.46 instead of 0.39, thirteen 1.50 instead of 0.91. Michel et al. (2019) removed each
# of the 96 heads of a translation model's encoder, *one at a time*: 8 made a significant
# difference, 4 for the better. Together, only about a fifth of all heads, the decoder's included,
# could go without harm. Voita et al. (2019) removed 38 of an encoder's 48, but trained gates for
# it, and those that stayed were specialized. **What this does not show:** how much any other model
# depends on its heads.
#
# ## 5 · Fewer keys and values
#
# A language model writes one token after the other. The newest query looks at the keys and values
# of *all* tokens before it. These do not change, so one keeps them: the **KV cache**. It grows by
# $2 H D$ numbers a token and layer, and for every new token *all of it* is read from memory. For
# long texts that reading is what one waits for (Shazeer 2019, §2.4). But does every head need its
# own keys and values?
#
# | | heads of keys and values | kept of a token in a layer |
# |---|---|---|
# | multi-head (MHA) | $G = H$ | $2 H D$ |
# | grouped-query (GQA; Ainslie et al. 2023) | $1 < G < H$ | $2 G D$ |
# | multi-query (MQA; Shazeer 2019) | $G = 1$ | $2 D$ |
#
# Queries stay as many as they were, so heads can still ask different questions. But the heads of a
# group search the same keys and average the same values.
#
# <!-- exercise: repeat_kv -->
#
# **Why.** Queries have $H$ heads, keys only $G$: each head of keys serves a group of them.
#
# $$\text{out}_{b,h,s,d} = x_{b,\,\lfloor h / \text{repeats} \rfloor,\,s,\,d}$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$ | `x`: keys, or values | $(B, G, S, D)$ |
# | | `repeats`: $H / G$, query heads in a group | a whole number |
# | out | returned | $(B, G \cdot \text{repeats}, S, D)$ |
#
# **By hand.** Two heads $k_0, k_1$ and `repeats` = 3: $k_0, k_0, k_0, k_1, k_1, k_1$. Neighbours
# share. That is a convention, which published weights follow; in rounds, $k_0, k_1, k_0, k_1,
# \ldots$, queries would meet the wrong keys.
#
# **PyTorch you need.** `x[:, None]` puts in an axis of length 1 behind the first. `expand` lets
# such an axis pretend to be longer, without copying. Here are prices of 2 shops, for 3 days:
#
# ```python
# prices = torch.tensor([5.0, 8.0])
# prices[None].expand(3, 2)             # tensor([[5., 8.], [5., 8.], [5., 8.]]): days, shops
# prices[None].expand(3, 2).reshape(6)  # tensor([5., 8., 5., 8., 5., 8.]): now copied, in rounds
# prices.repeat(3)                      # the same rounds
# ```
#
# Where the new axis stands decides which copies become neighbours.

# %% tags=["exercise"]
from attend_solutions.multi_head import repeat_kv

# %% [markdown]
# **What you should see.** Two heads, whose keys are 0 and 10, for six queries.

# %%
if ready(repeat_kv):
    print(repeat_kv(torch.tensor([0.0, 10.0]).reshape(1, 2, 1, 1), 3).flatten())

# %% [markdown]
# <!-- exercise: GroupedQueryAttention -->
#
# **Why.** One more number in `__init__` gives the whole family: `kv_heads` = `heads` is MHA,
# `kv_heads` = 1 is MQA.
#
# $$\begin{gathered}
# o^{(h)} = \operatorname{softmax}\!\left(\frac{q^{(h)} {k^{(g)}}^\top}{\sqrt D}\right) v^{(g)}, \\
# g = \lfloor h\, G / H \rfloor
# \end{gathered}$$
#
# | symbol | in the class | shape |
# |---|---|---|
# | $W_q$, $W_o$ | `self.query`, `self.output` | $C \times C$ |
# | $W_k$, $W_v$ | `self.key`, `self.value` | $C \times G D$ |
# | $H$, $G$ | `self.heads`, `self.kv_heads` | whole numbers; $G$ divides $H$ |
# | output, weights | returned | $(B, T, C)$, $(B, H, T, T)$ |
#
# **By hand.** $C = 8$, 4 heads, 2 kv_heads: $D = 2$. Queries are $(B, 4, T, 2)$, keys and values
# $(B, 2, T, 2)$, and $4 / 2 = 2$ query heads share each.
#
# <details><summary>Predict first: in multi-query attention, can two heads have different weights
# for the same token?</summary>
#
# Yes. The keys are shared, the queries are not.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.multi_head import GroupedQueryAttention

# %% [markdown]
# **What you should see.** Your class beside torch's `scaled_dot_product_attention` with
# `enable_gqa=True`: rounding only. Then the first picture again, by *your* class.

# %%
if ready(split_heads, merge_heads, repeat_kv, GroupedQueryAttention):
    torch.manual_seed(SEED)
    x = torch.randn(2, 10, 48)
    for kv_heads in (1, 2, 4, 8):
        model = GroupedQueryAttention(48, 8, kv_heads)
        three = (layer(x) for layer in (model.query, model.key, model.value))
        q, k, v = (part.unflatten(-1, (-1, 6)).transpose(1, 2) for part in three)
        found = nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        apart = (model(x)[0] - model.output(found.transpose(1, 2).flatten(2))).abs().max()
        print(f"{kv_heads} kv_heads: largest difference {apart:.0e}")
    display(widgets.head_surgery(GroupedQueryAttention))

# %% [markdown]
# ## 6 · One latent for all heads
#
# Sharing makes heads *equal* where they were different. DeepSeek-V2 (DeepSeek-AI 2024, §2.1.2)
# takes another way, multi-head latent attention (MLA): every head has its own keys and values, but
# all are made from one short vector, the **latent**, and only that is kept:
#
# $$\begin{gathered}
# c_s = x_s W_{dkv}, \\
# k_s^{(h)} = c_s W_{uk}^{(h)}, \\
# v_s^{(h)} = c_s W_{uv}^{(h)} .
# \end{gathered}$$
#
# $d$ is for down, from $C$ to $R$ numbers; $u$ for up, to the $D$ numbers of each head. GQA is the
# special case in which the latent is the $G$ keys and values themselves, $R = 2GD$, and each
# $W_{uk}^{(h)}$, $W_{uv}^{(h)}$ picks its group's. So at equal cache MLA can do all that GQA can.
#
# Must all keys be made again for each new token? Look at one score (vectors are rows):
#
# $$\begin{gathered}
# q \cdot k_s = q\,(c_s W_{uk})^\top = (q\,W_{uk}^\top) \cdot c_s, \\
# \sum_s p_s\,(c_s W_{uv}) = \Big(\sum_s p_s\, c_s\Big) W_{uv} .
# \end{gathered}$$
#
# The brackets have moved: project the *one* query to the latents' width, average the latents, and
# project the mean back up. The matrices are **absorbed**. Nothing is approximated; it is
# multi-query attention with heads of width $R$ whose keys are also the values.
#
# ```text
# forward             x ─ compress ─ c ─┬─ key ──▶ k of every token ─┐
#                                       └─ value ▶ v of every token ─┴─ attend ──▶ output
#
# forward_absorbed    q ─ W_ukᵀ ─▶ asked ─┐
#                     c, as it is kept  ──┴─ attend ─ mean of c ─ W_uv ──▶ output
# ```
#
# <!-- exercise: LatentAttention -->
#
# **Why.** One model, two ways to run it: `forward` as one trains it, `forward_absorbed` as one
# generates with it. They must agree.
#
# | symbol | in the class | as a matrix | stored as `.weight` |
# |---|---|---|---|
# | $W_q$, $W_o$ | `self.query`, `self.output` | $C \times C$ | $(C, C)$ |
# | $W_{dkv}$ | `self.compress` | $C \times R$ | $(R, C)$ |
# | $W_{uk}$, all heads side by side | `self.key` | $R \times C$ | $(C, R)$ |
# | $W_{uv}$, all heads side by side | `self.value` | $R \times C$ | $(C, R)$ |
# | output, weights | returned by both | $(B, T, C)$, $(B, H, T, T)$ | |
#
# `forward` calls the layers; `forward_absorbed` needs the matrices. **`nn.Linear` stores its matrix
# transposed:** `layer(x)` is `x @ layer.weight.T`, so `self.key.weight` is $W_{uk}^\top$ already.
# Its rows $0 \ldots D - 1$ belong to head 0, the next $D$ to head 1.
#
# | in `forward_absorbed` | shape |
# |---|---|
# | queries $q$ | $(B, H, T, D)$ |
# | $W_{uk}^\top$ of each head, from `self.key.weight` | $(H, D, R)$ |
# | $W_{uv}$ of each head, from `self.value.weight` | $(H, R, D)$ |
# | absorbed queries $q\,W_{uk}^\top$; means of latents | $(B, H, T, R)$ |
# | latents $c$, one for all heads | $(B, 1, T, R)$ |
# | these means times $W_{uv}$ of each head | $(B, H, T, D)$ |
#
# **Mind the scale.** It stays $1/\sqrt D$: the scores are the same numbers as before.
# `masked_attention` would take the width of what it gets, $R$; its fifth argument is `scale`, what
# dot products are multiplied by.
#
# **By hand.** One head, $D = 1$, $R = 2$. The query is $3$, the latent $(1, 2)$, and $W_{uk} = (4,
# 5)^\top$. The key is $1 \cdot 4 + 2 \cdot 5 = 14$ and the score $42$. Absorbed: the query becomes
# $(12, 15)$, and $(12, 15) \cdot (1, 2) = 42$.
#
# **PyTorch you need.** `unflatten` cuts one axis into two, and stacks of matrices broadcast:
#
# ```python
# rows = torch.zeros(12, 5)
# rows.unflatten(0, (3, -1)).shape                        # (3, 4, 5): -1 is worked out
# (torch.zeros(2, 3, 7, 4) @ torch.zeros(3, 4, 5)).shape  # (2, 3, 7, 5): a matrix for each of the 3
# ```
#
# **Left out.** DeepSeek-V2 also compresses the queries, which saves parameters and, in training,
# memory. And it keeps 64 more numbers a token, one key for all heads that carries the position.

# %% tags=["exercise"]
from attend_solutions.multi_head import LatentAttention

# %% [markdown]
# **What you should see.** Both agree up to rounding.

# %%
if ready(split_heads, merge_heads, LatentAttention):
    torch.manual_seed(SEED)
    x = torch.randn(2, 100, 48)
    for r in (4, 12, 48):
        model = LatentAttention(48, 8, r)
        pairs = zip(model(x), model.forward_absorbed(x), strict=True)
        off = [float((a - b).detach().abs().max()) for a, b in pairs]
        print(f"R = {r:2d}: outputs differ by {off[0]:.0e}, weights by {off[1]:.0e}")

# %% [markdown]
# <details><summary>Predict first: does absorbing take more arithmetic, or less?</summary>
#
# Reading a whole text (*prefill*) there are as many queries as keys, and each score takes $R$
# products instead of $D$: more, if $R > D$. Writing one token (*decoding*),
# absorbing saves making all keys and values again.
#
# </details>
#
# Count it, from cached latents to what the heads have found, at the course's size and DeepSeek-V2's
# (`"meta"`: shapes without numbers).


# %%
def find(model, latents, q, absorbed):
    """From latents (1, 1, S, R) and queries (1, H, T, D) to what heads find; no scale, no mask."""
    up_key, up_value = (
        layer.weight.unflatten(0, (model.heads, -1)) for layer in (model.key, model.value)
    )  # (H, D, R)
    if absorbed:
        return ((q @ up_key) @ latents.mT).softmax(-1) @ latents @ up_value.mT
    k, v = latents @ up_key.mT, latents @ up_value.mT  # (1, H, S, D)
    return (q @ k.mT).softmax(-1) @ v


# %% jupyter={"source_hidden": true}
if ready(split_heads, merge_heads, LatentAttention):
    print("operations, absorbed : making keys and values")
    sizes = ((48, 8, 4, 100), (48, 8, 12, 100), (48, 8, 48, 100), (16384, 128, 512, 1024))
    for c, h, r, s in sizes:
        told = f"D = {c // h:3d}, R = {r:3d}, S = {s:4d}"
        for t, name in ((s, "prefill"), (1, "decoding")):
            flops = []
            with torch.device("meta"), torch.no_grad():
                model = LatentAttention(c, h, r)
                latents, q = torch.empty(1, 1, s, r), torch.empty(1, h, t, c // h)
                for absorbed in (True, False):
                    with FlopCounterMode(display=False) as counter:
                        find(model, latents, q, absorbed)
                    flops.append(counter.get_total_flops())
            told += f"   {name} 1 : {flops[1] / flops[0]:.3g}"
        print(told)

# %% [markdown]
# In decoding the absorbed form takes 5.8 to 7.1 times fewer operations than making keys and values
# again at each step, and 114 times fewer at DeepSeek-V2's with 1,024
# tokens. In prefill it takes up to 5.7 times as many, except where $R < D$. Against *kept* keys and
# values, decoding takes $R/D + R/S$ times as many, 4.5 there, and saves memory.
#
# ## 7 · What is kept, in bytes
#
# <!-- exercise: kv_cache_bytes -->
#
# **Why.** "How many users fit on this machine, and how long may their texts be?" After the model's
# own parameters, the cache decides. A model with a `window` looks at the last `window` tokens only,
# and keeps no more.
#
# $$\begin{gathered}
# \text{bytes} = \left\lceil \frac{\text{bits}}{8}\, B\, L\, S_{\text{kept}}\, n \right\rceil, \\
# n = \begin{cases} 2\,G\,D & \text{keys and values} \\ R & \text{a latent (MLA)} \end{cases}
# \end{gathered}$$
#
# | symbol | argument | |
# |---|---|---|
# | $S$ | `tokens` | in one sentence |
# | $L$ | `layers` | each keeps its own |
# | $G$, $D$ | `kv_heads`, `head_dim` | |
# | $B$ | `batch` | sentences at once |
# | | `bits` | of one number, usually 16 |
# | $R$ | `latent` | numbers in a latent, or `None` |
# | $S_{\text{kept}}$ | `window` | the smaller of `tokens` and `window`; all if it is `None` |
#
# **By hand.** Llama 2 7B has 32 layers and 32 key and value heads of 128 numbers. For one token it
# keeps $2 \cdot 32 \cdot 32 \cdot 128 = 262{,}144$ numbers: half a MiB at 16 bits. A text of 4,096
# tokens takes 2 GiB. (1 KiB = 1,024 bytes, 1 MiB = 1,024 KiB, 1 GiB = 1,024 MiB.)
#
# **Python you need.** `x // y` rounds *down*. To round up, add what is missing first: with $y =
# 10$, `(x + 9) // 10`.

# %% tags=["exercise"]
from attend_solutions.multi_head import kv_cache_bytes

# %% [markdown]
# **What you should see.** What published models keep of one token. The last column asks: with how
# many heads of keys and values would *this* model keep as much? For DeepSeek-V2 it is 2.25, as its
# authors state (§2.1.4). Then a calculator: from which length on does Mistral 7B stop growing? How
# many texts of 131,072 tokens fit on 80 GiB with Llama 2 7B?

# %%
if ready(kv_cache_bytes):
    for name, m in MODELS.items():
        kept = kv_cache_bytes(1, m.layers, m.kv_heads, m.head_dim, latent=m.latent)
        one_head = kv_cache_bytes(1, m.layers, 1, m.head_dim)
        print(
            f"{name:13s} {m.kind}  {m.layers:3d} layers, {m.heads:3d} heads of {m.head_dim:3d}: "
            f"{kept / 1024:7.1f} KiB, {kept / one_head:5.2f} kv_heads"
        )
    display(widgets.kv_cache_calculator(kv_cache_bytes))

# %% [markdown]
# <details><summary>What you should have found</summary>
#
# Mistral 7B grows up to 4,096 tokens, its window: 512 MiB. Of Llama 2 7B one text fits: $2^{17}$
# tokens at 512 KiB take 64 GiB, and the parameters need another 13 GiB.
#
# </details>
#
# <!-- exercise: heads_for_cache -->
#
# **Why.** You have a GPU, and the model gets as many heads of keys and values as
# fit. The number must divide the query heads, so that all groups are equal.
#
# | argument | meaning |
# |---|---|
# | `budget` | bytes that are free for the cache; exactly that many fit |
# | `tokens`, `layers`, `head_dim`, `batch`, `bits` | as in `kv_cache_bytes` |
# | `heads` | $H$, query heads |
# | returned | the largest $G$ that divides $H$ and fits |
#
# **By hand.** 12 query heads; one head of keys and values keeps 80 bytes. In a budget of 470 bytes
# 5 heads fit, but 5 does not divide 12: the answer is 4.

# %% tags=["exercise"]
from attend_solutions.multi_head import heads_for_cache

# %% [markdown]
# **What you should see.** A model with the sizes of Llama 3 8B (32 layers, 32 heads of 128) and
# texts of 131,072 tokens on a GPU of 80 GB, of which 16 GB go to its parameters. Llama 3 8B itself
# has 8.

# %%
if ready(kv_cache_bytes, heads_for_cache):
    for batch, bits in ((1, 16), (2, 16), (3, 16), (3, 8)):
        g = heads_for_cache(64 * 10**9, 131_072, 32, 32, 128, batch=batch, bits=bits)
        size = kv_cache_bytes(131_072, 32, g, 128, batch=batch, bits=bits)
        print(f"{batch} texts, {bits:2d} bits: {g:2d} kv_heads keep {size / 1e9:.1f} GB")

# %% [markdown]
# ## 8 · Experiment: how few numbers suffice?
#
# **The claim to test:** at equal cache, sharing keys and values beats simply having fewer heads,
# and latents beat sharing. The task is the people and houses again. The **baseline** is the
# simplest saving: *fewer heads*, all of width 6. **Equal parameters:** a network behind the
# attention gets what each arm saves, so all models have 10,752. 1,000 steps; rates, seeds and rows
# as in section 3 (`heads.py saving`). What must fit into the cache? A token is found by its name
# and by its house, and hands over 4 numbers.
#
# <details><summary>Predict first: one head of keys and values for eight of queries, or one head in
# all? MQA, or a latent of the same 12 numbers?</summary>
#
# A single head is one mean: ½. MQA must split its 12 numbers, 6 for keys and 6 for values; a latent
# of 12 is both at once. The table tells whether that shows.
#
# </details>

# %% jupyter={"source_hidden": true}
saving = head_trials.table()["saving"]
points = []
print(f"{'':20s}kept   error, five seeds   at step 250       rate")
for arm, (kind, _) in head_trials.SAVING.items():
    cell, kept = saving[arm], head_trials.kept(arm)
    end, early = ((min(f), max(f)) for f in (cell["error"], cell["early"]))
    name = "1 head" if arm == "1 heads" else arm
    told = f"{name:20s}{kept:4d}   {end[0]:.5f}-{end[1]:.5f}     {early[0]:.4f}-{early[1]:.4f}"
    print(f"{told}     {cell['rate']:g}")
    points += [{"bytes": 4 * kept, "error": error, "way": kind} for error in cell["error"]]
display(
    charts.bands(
        points,
        "bytes",
        "error",
        "way",
        title="Equal parameters: an eighth of the cache is enough, "
        "a single head or a latent of 6 is not",
        description="Error after 1,000 steps against bytes kept of a token, mean and range of five "
        "runs, both axes logarithmic. Shared keys, fewer heads and latents all lie between 0.00003 "
        "and 0.0005 from 384 bytes down; a single head, 48 bytes, is at 0.5, a latent of 6, 24 "
        "bytes, at 0.44.",
        x_title="bytes kept of a token (log scale)",
        y_title="mean squared error (log scale)",
        log_x=2,
        log_y=10,
    )
)

# %% [markdown]
# **What it shows.** An eighth of the cache is nearly always enough: these five MQAs, and 19 of 20
# more (`heads.py again`), are below 0.0005, the last at 0.018. The claim's first half mostly fails:
# at 48 and 24 numbers kept, four or two heads in all do about as well as eight that share. Sharing
# wins at 12 numbers, where fewer heads of width 6 means one: 0.50 against 0.0002. Latents of 24 and
# 12 end a little lower than shared heads, but runs overlap. At step 250 the median of 20 latents is
# 0.001, of 20 MQAs 0.02, at rate 0.02, chosen for step 1,000; at 0.01 (tried) MQA is the faster. A
# latent of 8 learns late, one of 6 fails, also in 4,000 steps (tried): six numbers seem too few to
# hold the 4 asked for *and* say whose they are.
#
# **What it does not show.** That anything here is better in a language model, which asks more than
# two questions. Ainslie et al. (2023, table 1) find MQA a little below and GQA close to MHA;
# DeepSeek-AI (2024, appendix D) find MLA above MHA in most comparisons. Narrower heads were not
# tried.
#
# ### Sharing afterwards
#
# A trained model does not have to be trained anew: Ainslie et al. (2023, §2.1) replace the heads of
# a group by their *mean* and train on for 5 % of the steps. Here it is done to the model that
# writes: 75 of its 1,500 steps, at the best of three rates. Controls: the *first* head of each
# group instead of the mean, and 75 more steps with all four heads. The first number is *yours*,
# live.

# %% jupyter={"source_hidden": true}
if ready(split_heads, merge_heads, repeat_kv, GroupedQueryAttention):
    print("bits a character           at once (yours)    after 75 more steps, five seeds")
    for name, cell in head_trials.table()["sharing"].items():
        kv_heads, _, how = name.partition(" kv_heads, ")
        model = head_trials.share(head_trials.writer(), int(kv_heads), how, GroupedQueryAttention)
        found, after = deep_stack.bits(model, 128, 64), cell["error"]
        told = "4 kv_heads, as trained" if kv_heads == "4" else name
        print(f"{told:30s}{found:5.2f}              {min(after):.2f} - {max(after):.2f}")

# %% [markdown]
# **What you should see.** At once, two heads of keys and values lose 1.2 bits and one loses 1.7.
# After 75 more steps two are at 3.14 to 3.19 and one at 3.31 to 3.37 (with the first head instead
# of the mean: 3.33 to 3.40), against 2.99 to 3.02 for all four: most of the loss is recovered. The
# rates were chosen on the same text, though on other seeds, and for the shared heads the largest
# was best.
#
# ## 9 · Break it
#
# - **A mask without the axis of heads.** Weights are $(B, H, T, T)$, and shapes are compared from
#   the right. With $H > 1$ a mask $(B, T, T)$ raises an error if $B$ is neither 1 nor $H$. If
#   $B = H$, *head* 0 gets the mask of *sentence* 0, and no error tells you. Write `mask[:, None]`.
# - **Heads that are too narrow.** A head's scores are a product of $T \times D$ and $D \times T$,
#   so their rank is at most $D$. The logarithm of the weights is the scores plus one number per
#   row: rank at most $D + 1$. With $D + 1 < T$ not every table of weights is possible (after
#   Bhojanapalli et al. 2020).
# - **Absorbing and positions.** If keys are rotated by an angle that depends on the place, as RoPE
#   does (chapter 06), the rotation stands between $W_{uk}$ and the query and cannot be absorbed.

# %%
if ready(split_heads, merge_heads, MultiHeadAttention):
    torch.manual_seed(SEED)
    x, model = torch.randn(2, 3, 8), MultiHeadAttention(8, 2)  # two sentences, two heads
    real = torch.tensor([[True, True, True], [True, False, False]])  # the second has one word
    mask = real[:, None].expand(2, 3, 3)
    for name, table in {"mask": mask, "mask[:, None]": mask[:, None]}.items():
        looked = model(x, table)[1][1, 0, 0]
        print(f"{name:13s} second sentence, head 0:", *(f"{w:.2f}" for w in looked.tolist()))
    x = torch.randn(1, 12, 48, dtype=torch.float64)
    for h in (1, 8, 16, 48):
        weights = MultiHeadAttention(48, h).double()(x)[1].detach()
        rank = int(torch.linalg.matrix_rank(weights[0, 0].log()))
        print(f"{h:2d} heads of width {48 // h:2d}: rank of a head's log weights {rank:2d} of 12")

# %% [markdown]
# ## A postcard
#
# > One head is one mean; two independent continuous answers in the same coordinates need two, or
# > two layers.
# >
# > Split: cut $C$ into $(H, D)$, then bring $H$ before $T$. A reshape alone makes blocks of text.
# >
# > Merging and projecting is a sum: $\sum_h o^{(h)} W_o^{(h)}$.
# >
# > A cache holds $2 L G D$ numbers a token. GQA shares heads of keys and values, MQA has one; MLA
# > keeps a latent of $R$ numbers, of which GQA is a special case.
# >
# > Absorbing, $q \cdot (c\,W_{uk}) = (q\,W_{uk}^\top) \cdot c$, lets one keep latents only;
# > decoding takes far fewer operations than making keys again, usually more than reading kept ones.
#
# **Before:** chapter 04, masks. **Next:** chapter 06, how a model knows where tokens stand.
#
# ## Sources
#
# - Many heads: Vaswani et al. 2017, *Attention Is All You Need*, §3.2.2 and table 3 (A).
# - One head of keys and values: Shazeer 2019, *Fast Transformer Decoding: One Write-Head is All You
#   Need*, §2.4 and §3. Groups: Ainslie et al. 2023, *GQA*, §2.
# - Latents: DeepSeek-AI 2024, *DeepSeek-V2*, §2.1.2, equations (9) to (11); sizes §3.1.2;
#   comparison with GQA §2.1.4. GQA as a case of MLA: Meng et al. 2025, *TransMLA*.
# - Heads that can go: Michel et al. 2019, *Are Sixteen Heads Really Better than One?*; Voita et al.
#   2019, *Analyzing Multi-Head Self-Attention*.
# - Narrow heads: Bhojanapalli et al. 2020, *Low-Rank Bottleneck in Multi-head Attention Models*.
# - Published sizes: Brown et al. 2020, table 2.1; Touvron et al. 2023, *LLaMA*, table 2, and *Llama
#   2*, appendix A.2.1; Grattafiori et al. 2024, *The Llama 3 Herd of Models*, table 3; Yang et al.
#   2024, *Qwen2*, table 1; Jiang et al. 2023, *Mistral 7B*, table 1; Almazrouei et al. 2023, *The
#   Falcon Series*.
