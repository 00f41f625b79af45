# %% [markdown]
# # 18 · FlashAttention in Triton
#
# **The question.** How is a FlashAttention forward pass written?

# %%
import attend.kernels  # first: it lets Triton interpret kernels on the CPU
import torch
import triton
import triton.language as tl
from attend import widgets
from attend.data.flash_kernels import (
    Reader,
    causal_for_h100,
    compiled_for_h100,
    heads,
    moved,
    timed,
)
from attend_grader import check, hint, ready, solution
from attend_solutions.flash import hbm_traffic
from IPython.display import display

SEED = 18  # every random number below follows from it
torch.set_printoptions(precision=3, sci_mode=False)
display(widgets.program_tiles())

# %% [markdown]
# Move the sliders. Chapter 16 walked through the tiles of attention one after the other. On a GPU
# each row is a **program**: it owns 16 queries, and all eight programs start at once. Nobody
# promises which of them is ahead. That is no problem here, because a program reads what others read
# but writes only its own rows. But look at the causal mask: program 7 has eight times the work of
# program 0. And look at a window of 16: most tiles are never touched.
#
# You will write these kernels: one tile, the loop, then what makes them whole. It takes about two
# hours; you need chapters 16 (the online softmax) and 17 (a kernel, its masks and its launch).
#
# **How it works.** Fill in a kernel, run `check(...)` below it. The kernel runs in Triton's
# interpreter, under a tracer that sees each load and store with its program. Some checks also
# compile it for an H100, which needs no GPU but takes a few seconds. `hint(...)` gives up to three
# hints, `solution(...)` the course's own answer.
#
# | letter | counts | | name | is |
# |---|---|---|---|---|
# | $T$, $S$ | queries; keys and values | | `t`, `s`, `d` | queries, keys, columns of a tile |
# | $D$ | width of a head: 16, 32, 64 or 128 | | `BLOCK_T`, `BLOCK_S` | sides of a tile of scores |
# | $B$, $H$, $G$ | batch; heads of queries; of keys | | LSE | logarithm of a sum of exponentials |

# %% [markdown]
# ## 1 · One tile
#
# <!-- exercise: one_tile -->
#
# **Why.** Begin with texts so short that all keys fit one tile. Then a program needs no loop: it
# loads its queries, all keys and all values, and everything between loading and storing stays on
# the chip:
#
# $$O = \operatorname{softmax}(Q K^\top / \sqrt D)\, V .$$
#
# | argument of the kernel | meaning | shape |
# |---|---|---|
# | `q_ptr`, `out_ptr` | addresses of $Q$ and $O$ | $(T, D)$ |
# | `k_ptr`, `v_ptr` | addresses of $K$ and $V$ | $(S, D)$ |
# | `scale` | $1/\sqrt D$ | |
#
# All are stored row after row without gaps, so number $d$ of row $i$ lies at `ptr + i * D + d`. A
# whole tile of addresses is `ptr + t[:, None] * D + d[None, :]`.
#
# **Blocks are powers of two; texts are not.** With 13 keys in a tile of 16, three places hold no
# key. A mask keeps the load inside its buffer and `other=0.0` fills those places. But a key of
# zeros has the score 0, and $e^0 = 1$ is a weight. So hide the *scores* as well:
# `tl.where(condition, this, that)` chooses entry by entry.
#
# `tl.dot(a, b)` multiplies matrices and sums in float32. Both must have one type, so with float16
# values the weights have to be cast: `weights.to(v.dtype)`. `tl.trans(k)` is $K^\top$.
# `tl.max(x, axis=1)` and `tl.sum` give one number a row; `[:, None]` makes a column of it.
#
# **By hand.** One query, keys with scores 0 and $\ln 3$, values 8 and 4, in a tile of 16: weights
# $\tfrac14$ and $\tfrac34$, output 5. If the 14 empty places count, the sum of exponentials is 18
# instead of 4 (no maximum subtracted), and the output is $20 / 18 = 1.11$.
#
# <details><summary>Predict first: 40 queries in blocks of 16. How many programs run, and how many
# rows does the last one store?</summary>
#
# Three; the last one stores eight rows. Its other eight lie behind the end of the output.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.triton_flash import one_tile

# %% [markdown]
# **What you should see.** Your kernel against PyTorch's attention in float64. The difference is
# float32's rounding, whatever the number of keys:

# %%
if ready(one_tile):
    for keys in (1, 13, 16, 50):
        q, k, v = (next(heads(n, 32, seed=n)) for n in (40, keys, keys))
        right = torch.nn.functional.scaled_dot_product_attention(*(x.double() for x in (q, k, v)))
        print(f"{keys:3d} keys: largest difference {(one_tile(q, k, v) - right).abs().max():.0e}")

# %% [markdown]
# ## 2 · The loop
#
# <!-- exercise: flash_loop -->
#
# **Why.** A tile with all the scores of a program's queries grows with the text, and soon it no
# longer fits (section 8 shows where). So take `BLOCK_S` keys at a time and carry three things from
# tile to tile, as in chapter 16; $x$ are a tile's scores, $v$ its values:
#
# $$m' = \max(m, \max_s x_s), \qquad c = e^{m - m'},$$
#
# $$\begin{gathered}
# \ell' = c\,\ell + \sum_s e^{x_s - m'}, \\
# a' = c\,a + \sum_s e^{x_s - m'} v_s .
# \end{gathered}$$
#
# | symbol | name | shape |
# |---|---|---|
# | $m$, $\ell$ | `running_max`, `running_sum` | $(\text{BLOCK\_T})$ |
# | $a$ | `accumulator` | $(\text{BLOCK\_T}, D)$ |
#
# They are plain variables: they live in registers while the loop runs, and no other
# program can see them. Loads and the store are given; the seven lines between are yours.
# `tl.maximum(a, b)` takes the larger one entry by entry. Here $S$ is a multiple of `BLOCK_S`, so no
# key is missing.
#
# **By hand.** A query has seen one key: $m = 0$, $\ell = 1$, $a = 8$. A tile with a single score
# $\ln 4$ and the value 3 comes: $m' = \ln 4$, $c = \tfrac14$, $\ell' = 1.25$, $a' = 5$. The output
# is 4.

# %% tags=["exercise"]
from attend_solutions.triton_flash import flash_loop

# %% [markdown]
# **What you should see.** Blocks of any size give the same numbers up to rounding, and fewer bytes
# move when a program owns more queries, because keys and values are read once for each program.

# %%
if ready(flash_loop):
    q, k, v = (next(heads(128, 16, seed=n)) for n in range(3))
    first = flash_loop(q, k, v, 16, 16)
    for block_t, block_s in ((16, 16), (16, 64), (32, 16), (64, 16), (128, 32)):
        apart = (flash_loop(q, k, v, block_t, block_s) - first).abs().max()
        bytes_ = moved(flash_loop, q, k, v, block_t, block_s)
        print(f"{block_t:3d} × {block_s:2d}: apart {apart:.0e}, {bytes_:7,} bytes moved")

# %% [markdown]
# > **Takeaway.** The state of a query is a maximum, a sum and a row of numbers. When the
# > maximum rises, the sum and the row are multiplied by the correction: in registers, once a tile.

# %% [markdown]
# ## 3 · A kernel that passes its tests
#
# <!-- exercise: ragged_flash -->
#
# **Why.** Somebody has added masks to the loads, so that any number of keys can be used. The kernel
# stays inside its buffers, and its tests pass: they have 16, 32 and 64 keys. One line is missing.


# %% tags=["repair-ragged_flash"]
@triton.jit
def careless_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, T, S, scale,
    D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """It looks right. It is not."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + t[:, None] * D + d[None, :], mask=t[:, None] < T, other=0.0)
    m = tl.full((BLOCK_T,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_T,), tl.float32)
    summed = tl.zeros((BLOCK_T, D), tl.float32)
    for first in range(0, S, BLOCK_S):
        s = first + tl.arange(0, BLOCK_S)
        k = tl.load(k_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)
        v = tl.load(v_ptr + s[:, None] * D + d[None, :], mask=s[:, None] < S, other=0.0)
        x = tl.dot(q, tl.trans(k)) * scale
        m_new = tl.maximum(m, tl.max(x, axis=1))
        p = tl.exp(x - m_new[:, None])
        shrink = tl.exp(m - m_new)
        total = total * shrink + tl.sum(p, axis=1)
        summed = summed * shrink[:, None] + tl.dot(p.to(v.dtype), v)
        m = m_new
    tl.store(out_ptr + t[:, None] * D + d[None, :], summed / total[:, None], mask=t[:, None] < T)


def careless_flash(q, k, v, block_t=16, block_s=16):
    """Launch it."""
    (T, D), S = q.shape, len(k)
    out = torch.empty((T, D), dtype=torch.float32)
    careless_kernel[(triton.cdiv(T, block_t),)](
        q, k, v, out, T, S, D**-0.5, D=D, BLOCK_T=block_t, BLOCK_S=block_s
    )
    return out


# %% [markdown]
# **Get evidence first.** If all values are 1, each output must be 1, whatever the weights are.
# Which lengths give something else, and why is it always less than 1?
#
# <details><summary>Why?</summary>
#
# Empty places have scores of 0, so they take a share of the weights; their values are zeros.
#
# </details>

# %%
for keys in (15, 16, 17, 31, 32, 33):
    q, k = (next(heads(n, 16, seed=n)) for n in (4, keys))
    print(f"{keys} keys: {careless_flash(q, k, torch.ones(keys, 16))[:, 0]}")

# %% [markdown]
# Now write the repaired kernel: your lines of section 2, or those above, and the one that is
# missing.

# %% tags=["exercise"]
from attend_solutions.triton_flash import ragged_flash

# %%
if ready(ragged_flash):
    for keys in (15, 16, 17, 31, 32, 33):
        q, k = (next(heads(n, 16, seed=n)) for n in (4, keys))
        print(f"{keys} keys: {ragged_flash(q, k, torch.ones(keys, 16))[:, 0]}")

# %% [markdown]
# > **Takeaway.** A mask on a load protects memory; it says nothing about arithmetic. Test at
# > lengths that are no multiple of a block, and at 1.

# %% [markdown]
# ## 4 · Powers of two, and a number for the way back
#
# <!-- exercise: flash_lse -->
#
# **Why.** A GPU has an instruction for $2^x$ and none for $e^x$. `tl.exp(x)` becomes that
# instruction and three multiplications, one of them by $\log_2 e$. But the scores are multiplied by
# $1/\sqrt D$ already, so let one factor do both:
#
# $$\begin{gathered}
# e^{x/\sqrt D - m} = 2^{x u - m_2}, \\
# u = \log_2(e)/\sqrt D, \\
# m_2 = m \log_2 e .
# \end{gathered}$$
#
# All scores, the running maximum included, are then in base 2. Weights, sum and accumulator are the
# same numbers as before.
#
# The backward pass (chapter 19) and every merge of parts (chapter 20) need the **LSE** in base $e$,
# one number a query. At the end of the loop the sum holds $\sum_s 2^{y_s - m_2}$, so
#
# $$\text{LSE} = \ln \sum_s e^{x_s/\sqrt D} = (m_2 + \log_2 \ell) \cdot \ln 2 .$$
#
# | argument | is | shape |
# |---|---|---|
# | `lse_ptr` | address of the LSE | $(T)$ |
#
# **By hand.** Scores $\ln 2$ and $\ln 6$ in base $e$ are 1 and $2.585$ in base 2. $m_2 = 2.585$;
# the sum is $2^{1 - 2.585} + 1 = \tfrac13 + 1$; its logarithm to base 2 is $0.415$. LSE: $(2.585 +
# 0.415) \cdot 0.693 = 2.079 = \ln 8$.
#
# You write the factor, a turn of the loop and the LSE. `tl.exp2` and `tl.log2` are there. $\log_2
# e = 1.4426950408889634$, $\ln 2 = 0.6931471805599453$.
#
# <details><summary>Predict first: what happens to the output if you forget $\log_2 e$ in
# the factor?</summary>
#
# Weights become $2^{x/\sqrt D}$ instead of $e^{x/\sqrt D}$, up to the sum. It is a softmax at
# temperature 1.44: flatter than it should be, and plausible to the eye.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.triton_flash import flash_lse

# %% [markdown]
# **What you should see.** The compiler's instructions for your two kernels, for a tile of 64 × 64
# of width 64 in float16: multiplications alone (FMUL), multiplications with an addition (FFMA), and
# the unit that computes $2^x$ (MUFU). Then all instructions, though yours with the LSE does more.

# %%
if ready(ragged_flash, flash_lse):
    tiles = [next(heads(64, 64, seed=n, dtype=torch.float16)) for n in range(3)]
    for function in (ragged_flash, flash_lse):
        report = compiled_for_h100(function, *tiles, 64, 64)
        counts = report.get("instructions", {})
        few = ", ".join(f"{counts.get(name, 0):3d} {name}" for name in ("FMUL", "FFMA", "MUFU"))
        print(f"{function.__name__:12s}: {few}, {sum(counts.values()):,} in all")

# %% [markdown]
# With the course's answers, 266 multiplications become 173, for 32 scores a thread: `tl.exp2` saves
# 68, the factor 33, and the LSE's logarithm adds 8 and all the new fused ones. The exponential's
# unit has the same work in both. These are instructions in the code, not seconds.

# %% [markdown]
# ## 5 · Tiles that nobody may see
#
# <!-- exercise: causal_flash -->
#
# **Why.** Under a causal mask nearly half of the tiles are dark, with a short window most. A mask
# alone gives the right answer and saves nothing. What saves is a loop that begins later and ends
# earlier.
#
# The last query stands at the last key: query $t$ stands at $p = t + S - T$, and $T \le S$. It sees
# the keys $p - w \ldots p$, where $w$ is the `window`; without one, the launch passes $w = S$.
#
# A program's queries stand at $p_0, p_0 + 1, \ldots$ next to each other. So all the keys that one
# of them sees are in one range: from $p_0 - w$, rounded down to the beginning of a tile, to the
# last one's place. Inside the first and the last tiles of that range the mask is still needed. Your
# first blank sets the factor, and `start` and `stop`, the ends of the loop. (You may also begin at
# $p_0 - w$ itself, where that is not negative: then tiles begin elsewhere, and no more are read.)
#
# **The trap.** Take $w = 5$ and tiles of 16. The first of 16 queries sees keys of the tile before,
# so that tile is read. The last query sees nothing in it: all its scores are $-\infty$, its maximum
# stays $-\infty$, and $-\infty - (-\infty)$ is not a number. Hide scores with a finite number such
# as $-10^{30}$ instead. Then such a row gets weights of 1, which are wrong. But as soon as a
# visible key comes, the correction $2^{-10^{30} - m'}$ is 0 and wipes them out; and one comes,
# because each query sees the key at its own place.
#
# **By hand.** $T = S = 48$, tiles of 16, $w = 5$. Program 2 has the places 32 to 47: the oldest key
# is 27, in the tile that begins at 16. It reads two tiles. Program 0 reads one.

# %% tags=["exercise"]
from attend_solutions.triton_flash import causal_flash

# %% [markdown]
# **What you should see.** The picture of the first screen again, but this one is drawn from the
# loads of *your* kernel. A tile that is read in vain, or needed and never read, is marked.

# %%
if ready(causal_flash):
    display(widgets.program_tiles(causal_flash))

# %% [markdown]
# ## 6 · All heads of a batch
#
# <!-- exercise: grouped_flash -->
#
# **Why.** A model has $B \cdot H$ heads, and they do not depend on each other: more programs. The
# grid gets a second axis, and each program moves its pointers to its own head before it begins.
#
# Two things are new. **Strides:** a layer's queries are often a view, with the heads beside each
# other in a token's row. So the kernel is told how many numbers lie between neighbours:
# `q_batch`, `q_head` and `q_row` for $Q$, likewise for $K$ and $V$. Output and LSE are made by the
# launch, without gaps. **Groups** (chapter 05): `GROUP` = $H / G$ query heads next to each other
# share a head of keys and values, so query head $h$ reads key head $h // \text{GROUP}$. Nothing is
# copied for that.
#
# | array | shape |
# |---|---|
# | `q`, output | $(B, H, T, D)$ |
# | `k`, `v` | $(B, G, S, D)$ |
# | LSE | $(B, H, T)$ |
#
# **By hand.** $B = 2$, $H = 4$, $G = 2$: program $(0, 6)$ has batch entry 1 and query head 2; it
# reads key head 1. Its output begins at number $6 \cdot T \cdot D$, its LSE at $6 \cdot T$.
#
# The blanks, in order: pointers moved to the head, and `q`; the factor and `stop`; a turn of the
# loop (that of section 5, without a window) with its loads; the LSE; the launch: the grid, and what
# the kernel is passed.

# %% tags=["exercise"]
from attend_solutions.triton_flash import grouped_flash

# %% [markdown]
# **Use it.** Chapter 07's small model (4 layers of 4 heads, trained on Python's documentation)
# ships with the course. Put your kernel in the place of its attention. Its heads are 12 wide, so
# they are filled up with zeros to 16. Bits a character on unseen text must stay what they were, and
# so must the text it writes when the same random numbers draw the letters.

# %%
if ready(grouped_flash):
    reader = Reader()
    print(f"attention of chapter 07: {reader.bits(4):.6f} bits a character")
    print(f"your kernel:             {reader.bits(4, grouped_flash):.6f}")
    before = reader.write("The following ", 24, SEED)
    with reader.attending(grouped_flash):
        after = reader.write("The following ", 24, SEED)
    print(f"{before!r}\n{after!r}\n{'the same' if before == after else 'NOT the same'} letters")

# %% [markdown]
# ## 7 · Which tiles?
#
# <!-- exercise: choose_tiles -->
#
# **Why.** So far 16 × 16 would do. On an H100 the sides of a tile decide how many bytes move,
# in which form the tensor cores are used, and whether the program fits at all. Choose for float16
# heads of width 64 and 128. The compiler is the judge, and it needs no GPU: ask it by
# `causal_for_h100(width, (block_t, block_s, warps, stages))`. Blocks are powers of two from 16 on,
# warps powers of two up to 32.
#
# | what | width 64 | width 128 |
# |---|---|---|
# | bytes of one causal head of 8,192 tokens, output in float16 | at most 71 MB | at most 141 MB |
# | turns of the loop for 8,192 keys | | at most 64 |
# | stages: tiles of keys and values in shared memory at once | at least 3 | at least 3 |
# | shared memory of a program | 232,448 bytes | 232,448 bytes |
# | registers spilled; tensor cores by HGMMA | none; used | none; used |
# | programs that fit one processor at once | 2 | 1 |
#
# Bytes are `hbm_traffic(8192, 8192, D, block_t, block_s, causal=True)`; a MB is $10^6$ of them.
# HGMMA is an H100's form of a product, in which four warps take 64 rows together.
# A processor of an H100 has 65,536 registers and 233,472 bytes of shared memory, of which each
# program costs 1,024 more. A warp has 32 threads, and a thread at most 255 registers.
#
# **By hand.** With HGMMA, the queries and, for each stage, a tile of keys and one of values lie in
# shared memory, two bytes a number: $2 D (\text{BLOCK\_T} + 2 \cdot \text{stages} \cdot
# \text{BLOCK\_S})$ bytes. For $D = 64$, tiles of 64 × 64 and 3 stages: 57,344. That is what the
# compiler says, too.

# %% tags=["exercise"]
from attend_solutions.triton_flash import choose_tiles

# %% [markdown]
# **What you should see.** What your tiles spare against those of 16 × 16, and what they take:

# %%
if ready(choose_tiles):
    for width in (64, 128):
        tiles = choose_tiles(width)
        yours, small = (
            hbm_traffic(8192, 8192, width, *sides, causal=True) / 1e6
            for sides in (tiles[:2], (16, 16))
        )
        report = causal_for_h100(width, tiles)
        print(f"width {width}, {tiles}: {yours:.0f} MB, where 16 × 16 moves {small:.0f} MB;")
        print(f"   {report['registers']} registers a thread, {report['shared']:,} bytes shared")

# %% [markdown]
# > **Takeaway.** Queries decide the traffic, tiles and stages the shared memory, both sides and the
# > warps the registers. At width 128 a program of 128 × 128 with three stages takes 229,376 of the
# > 232,448 bytes.

# %% [markdown]
# ## 8 · Experiment: are these the bytes of chapter 16?
#
# Chapter 16 counted on paper what a tiled forward pass moves. Here is what your kernel does move,
# load by load, at five sizes drawn at random. (The sizes are the only thing to vary: no address
# depends on a number, so all numbers move the same bytes.) The control is the kernel of section 4,
# which skips nothing.

# %%
if ready(flash_lse, causal_flash):
    for seed in range(5):
        draw = torch.Generator().manual_seed(1000 * SEED + seed)
        s, fewer, window = (int(torch.randint(n, (), generator=draw)) + 1 for n in (120, 40, 60))
        t, s = s, s + fewer
        block_t, block_s = ((16, 16), (16, 32), (32, 16), (32, 32), (64, 16))[seed]
        q, k, v = (next(heads(n, 16, seed=seed)) for n in (t, s, s))
        seen = moved(causal_flash, q, k, v, window, block_t, block_s)
        paper = hbm_traffic(t, s, 16, block_t, block_s, True, window, itemsize=4)
        control = moved(flash_lse, q, k, v, block_t, block_s)
        print(
            f"T {t:3d}, S {s:3d}, window {window:2d}, tiles {block_t} × {block_s}: {seen:6,} bytes"
        )
        print(f"   chapter 16: {paper:6,}; without skipping: {control:6,}")

# %% [markdown]
# With tiles that begin at multiples of `BLOCK_S` the two agree to the byte in every case: the
# formula counts a real kernel's loads, ragged ends included. A loop that begins at $p_0 - w$ moves
# no more.
# Where the window reaches all keys and one program has all queries, there is nothing to skip.
#
# **Is the loop worth it?** A simple rival is `one_tile`: no running maximum, no
# correction, and with as many queries a program it moves just as few bytes. What it needs is room
# for a row of scores. Ask the compiler, for 64 queries of width 64:

# %%
if ready(one_tile, ragged_flash):
    h = heads(512, 64, dtype=torch.float16)
    q, k, v = (next(h) for _ in range(3))
    for keys in (64, 128, 256, 512):
        report = compiled_for_h100(one_tile, q[:64], k[:keys], v[:keys], 64)
        words = f"{report['registers']} registers, {report['spilled']:3d} bytes spilled"
        print(f"one tile of {keys:3d} keys: {words}, {report['shared']:7,} bytes shared")
    report = compiled_for_h100(ragged_flash, q[:64], k, v, 64, 64)
    print(f"the loop, any length: {report['registers']} registers, {report['shared']:,} bytes")
    one, loop = moved(one_tile, q[:64], k, v, 64), moved(ragged_flash, q[:64], k, v, 64, 64)
    print(f"bytes moved with 512 keys: one tile {one:,}, the loop {loop:,}")

# %% [markdown]
# With the course's answers and four warps, one tile holds 256 keys without a spill; at 512 keys a
# thread spills 392 bytes (yours may spill more or fewer). At 1,024 it takes 270,336 bytes of shared
# memory, more than there are. More warps do not help: 8 still spill 272 bytes at 512 keys. The
# loop, with two stages (section 7), takes the same whatever the text.
#
# **On a GPU** the next cell also compiles your `grouped_flash` and times it beside PyTorch's own
# attention and the course's kernel, for float16, 16 heads in groups of four, width 64, causal.
# Yours writes float32.

# %%
if ready(grouped_flash):
    found = timed(grouped_flash)
    if found is None:
        print("No GPU here: the timing is skipped.")
    else:
        print(found["device"])
        for row in found["rows"]:
            ms, low, high = row["ms"]
            print(
                f"{row['length']:6,} tokens, {row['way']:14s}: {ms:.3f} ms ({low:.3f}–{high:.3f})"
            )

# %% [markdown]
# **What this does not show.** Seconds, where there is no GPU. Bytes asked for are not bytes fetched
# from slow memory: programs that run side by side read the same keys, and a cache serves most of
# those reads. Where two choices of tiles fit, the compiler does not say which is faster.

# %% [markdown]
# ## 9 · Beside the course's own kernel
#
# `attend_kernels` holds a flash attention that is meant to be used. Find your seven lines
# in its loop; then see what else it has.

# %%
if ready(flash_lse):
    import inspect

    from attend_kernels.ops.flash.forward import attend_tiles

    lines = inspect.getsource(attend_tiles.fn).splitlines()
    loop = next(n for n, line in enumerate(lines) if line.startswith("    unit"))
    print("\n".join(line[4:80] + ("…" if len(line) > 80 else "") for line in lines[loop:]))

# %% [markdown]
# - **`MASKED`.** It is called twice: once for tiles that all queries see whole, and once for those
#   that an edge cuts. Comparing and choosing takes instructions for each score, and in a long
#   causal text nearly no tile needs them.
# - **`x * unit - new_max`.** The factor of section 4 waits until the subtraction, so that both are
#   one fused instruction.
# - **`tl.where(seen, weights, 0.0)`, and a division that looks first.** A query may see no key at
#   all ($T > S$). Its output is 0 and its LSE $-\infty$, which chapter 16's `merge_partials`
#   understands.
# - **`bend`, `slope`, `left`, `right`.** Soft caps, ALiBi, windows on both sides. What is off is
#   `None`, known when the kernel is compiled, and costs nothing.
# - **64-bit offsets** (in `load_rows`). In your kernel each index times its stride must stay
#   below $2^{31}$.
# - **Each head's longest programs first** (in `flash_forward_kernel`). Program 7 of the first
#   screen should not be the last to begin. How much is at stake? A model: 1,024 programs of 1 to 64
#   turns, given to 132 processors as these become free.

# %%
import heapq


def finished(turns: list[int], processors: int = 132) -> int:
    """When the last program ends, if each begins where a processor becomes free first."""
    free = [0] * processors
    for each in turns:
        heapq.heappush(free, heapq.heappop(free) + each)
    return max(free)


rows = [turn for turn in range(1, 65) for _ in range(16)]  # 64 tiles of queries, 16 heads
print(f"at least {-(-sum(rows) // 132)} turns; short ones first {finished(rows)}, ", end="")
print(f"long ones first {finished(rows[::-1])}")
print(f"   head by head, long ones first in each: {finished(list(range(64, 0, -1)) * 16)}")
for seed in range(5):
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    print(f"   in a random order: {finished([rows[i] for i in order])}")

# %% [markdown]
# Long ones of all heads first need the fewest turns possible. Head by head, as the package's kernel
# goes, takes 11 % longer, short ones first 12 %, and 1,500 random orders 10 to 18 %. It is a model:
# real turns are not all equally long.

# %% [markdown]
# ## 10 · Where this breaks
#
# **Queries without keys.** With $T > S$ the first queries stand before the first key. Your kernels
# divide 0 by 0, take $-\infty$ from $-\infty$, or keep the garbage of hidden places, because no
# visible key wipes it out.
#
# **Heads of other widths.** `tl.arange` needs powers of two. A width of 80 takes blocks of 128 and
# a mask along $d$ as well.
#
# **One query.** When a model writes one text, $T = 1$: one program a head, and with 32 heads most
# processors have nothing to do. Chapter 20 splits the *keys* among programs and merges by LSE.
#
# **What the interpreter does not show.** It runs one program after the other, so a race looks
# right; the tracer reports overlapping writes. It forgives products with inner sizes below 16,
# which the compiler refuses. It multiplies float32 as such; on an H100 `tl.dot` takes factors as
# TF32, with 10 of 23 binary digits.
#
# ## 11 · Recap
#
# - A program owns `BLOCK_T` queries; maximum, sum and accumulator stay in its registers.
# - Masks guard memory; hidden scores guard the sum. They are different things.
# - One factor, $\log_2(e)/\sqrt D$, makes exponentials powers of two; the LSE goes back to $e$.
# - Skipping is a matter of the loop's two ends; the mask is for the tiles at the edges.
# - A head is three strides and a division; whether a tile fits, the compiler says.
#
# **Before:** chapters 16 (the algorithm) and 17 (kernels). **Next:** chapter 19 writes the
# gradient, with the LSE of section 4.
#
# ## Sources
#
# - Skipped tiles and one division at the end: Dao 2023, *FlashAttention-2*, §3.1. Queries in the
#   outer loop: §3.2, which credits Tillet's kernel in Triton.
# - Tiles and traffic: Dao, Fu, Ermon, Rudra and Ré 2022, *FlashAttention*.
# - The running maximum: Milakov and Gimelshein 2018, *Online normalizer calculation for softmax*.
# - Grouped heads: Ainslie et al. 2023, *GQA*. Windows: Beltagy et al. 2020, *Longformer*.
# - Triton: Tillet, Kung and Cox 2019, *Triton: an intermediate language and compiler for tiled
#   neural network computations*.
# - Shared memory and registers: NVIDIA, *CUDA C++ Programming Guide*, compute capability 9.0.
