# %% [markdown]
# # 17 · Triton
#
# **The question.** How does one write a kernel?

# %%
from itertools import pairwise
from pydoc_data import topics

import attend.kernels  # before Triton: kernels are interpreted on the CPU, one access at a time
import torch
import triton
import triton.language as tl
from attend import charts, widgets
from attend.kernels import moved, report
from attend_grader import check, hint, ready, solution
from IPython.display import display

SEED = 17  # every random number below follows from it
display(widgets.memory_viewer())

# %% [markdown]
# The number in each cell says which **program** touched it last. Choose another order: the result
# stays the same, because no program uses what another one writes. Take the mask away, and the last
# program writes to three places behind the end of the vector.
#
# A GPU kernel is this: one piece of code, run by many programs at the same time. In Triton you
# write what *one* program does to *one block* of numbers. The compiler spreads a block over threads
# and chooses the machine's instructions; addresses, and what each program owns, are yours.
#
# There are ten exercises, nine of them kernels, from a sum of vectors to a loss that never stores
# its softmax. They take about two hours and a quarter. You need PyTorch's tensors; the running
# maximum of chapter 16 is explained again.
#
# **No GPU is needed.** Triton's interpreter runs each program in turn, on the CPU, with NumPy.
# Here it runs under a *tracer*, which sees what a wrong kernel would do on a GPU: an access outside
# a tensor (reported, not carried out), two programs that write to one place, the bytes moved (a
# tenth more than are needed is always allowed). Each check also compiles your kernel for an H100.
# Neither shows time.
#
# **How it works.** Fill in a function, run `check(...)` below it; `hint(...)` gives up to three
# hints, `solution(...)` the course's own answer. Letters: $n$ elements, $R$ rows, $C$ columns, $V$
# words. A name in CAPITALS is known when the kernel is compiled.

# %% [markdown]
# ## 1 · One block a program
#
# Here is a whole kernel, and its launch by a grid of one program:


# %%
@triton.jit
def double_kernel(numbers_ptr, doubled_ptr, SIZE: tl.constexpr):
    lane = tl.arange(0, SIZE)  # the block [0, 1, 2, ..., SIZE - 1]; SIZE is a power of two
    block = tl.load(numbers_ptr + lane)
    tl.store(doubled_ptr + lane, 2 * block)


if hasattr(triton, "__file__"):  # not where Triton cannot be installed
    numbers, doubled = torch.arange(4.0), torch.empty(4)
    double_kernel[(1,)](numbers, doubled, SIZE=4)
    print(doubled)

# %% [markdown]
# A tensor arrives in the kernel as the *address* of its first element. `numbers_ptr + lane` is a
# block of addresses, counted in elements, and `tl.load` fetches all of them. There are no shapes
# and no bounds: element 4 of a tensor of 4 is simply the memory behind it.
#
# Two more words, and you can write the first one. `tl.program_id(0)` says which program this is.
# `mask=`, a block of True and False, says which lanes (places of a block) of a load or store take
# part.

# %% [markdown]
# <!-- exercise: vector_add -->
#
# **Why.** Nearly every kernel begins like this one: find your block, mask its ragged end.
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$, $y$, $x + y$ | `x`, `y`, the result | $(n)$ |
# | elements a program | `BLOCK` | |
#
# **By hand.** $n = 37$ with blocks of 16: program 2 owns elements 32 to 47, of which 32 to 36
# exist. So three programs are launched, and the mask of the last one is True in 5 of 16 lanes.
#
# The function below the kernel launches it, and is given: `vector_add_kernel[(programs,)]` starts
# that many programs.
#
# <details><summary>Predict first: without the mask on the loads (but with it on the store), is the
# result wrong?</summary>
#
# No, and that is what makes it dangerous: what was read outside is never stored. On a GPU it may
# end the program with an illegal address, or pass unnoticed for years. The check reports it.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.triton import vector_add

# %% [markdown]
# **What you should see.** Your kernel's own loads and stores. A bright frame is the present access,
# pale cells were loaded, full ones stored, dashed cells are not yours.

# %%
if ready(vector_add):
    display(widgets.memory_viewer(vector_add, torch.arange(37.0), torch.ones(37), 16))

# %%
if ready(vector_add):
    report(vector_add, torch.ones(4096), torch.ones(4096), 1024)

# %% [markdown]
# Registers are what a thread keeps its numbers in; *spilled* would mean that there were too few,
# and some went to slow memory. *Shared* memory is the fast memory of chapter 16.
#
# > **Takeaway.** A program owns a block; a mask keeps it inside.

# %% [markdown]
# ## 2 · Two axes
#
# <!-- exercise: copy_strided -->
#
# **Why.** Memory has one axis. A matrix is a rule: element $(r, c)$ lies $r \cdot s_0 + c \cdot
# s_1$ elements after the first. The two *strides* $s_0, s_1$ are `x.stride()`. For a contiguous $R
# \times C$ matrix they are $C$ and 1; for its transpose 1 and $C$; `x[:, ::2]` doubles the second.
# A view moves no number, it only changes the rule. So a kernel that takes strides takes any view.
#
# A block may have two axes: a column of row numbers plus a row of column numbers,
# `rows[:, None] + columns[None, :]`, broadcasts as in NumPy. The grid has two axes as well. Combine
# two masks by `&`: with `and` the interpreter keeps the second one alone.
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$, any view | `x` | $(R, C)$ |
# | $s_0$, $s_1$ | `row_stride`, `column_stride` | |
# | a program's tile | `ROWS`, `COLUMNS` | |
#
# **By hand.** `torch.arange(6.0).reshape(2, 3).T` has shape $(3, 2)$ and strides $(1, 3)$. Its
# element $(2, 1)$ lies at $2 \cdot 1 + 1 \cdot 3 = 5$. In the contiguous copy it is number $2 \cdot
# 2 + 1 = 5$ as well; element $(0, 1)$ comes from 3 and goes to 1.

# %% tags=["exercise"]
from attend_solutions.triton import copy_strided

# %% [markdown]
# **What you should see.** An NVIDIA GPU fetches no single number, but **sectors** of 32 bytes,
# eight float32. Play both, first a whole matrix, then every fourth column of it, and compare their
# last lines.

# %%
if ready(copy_strided):
    wide = torch.arange(64.0).reshape(4, 16)
    display(widgets.memory_viewer(copy_strided, wide, 4, 8))
    display(widgets.memory_viewer(copy_strided, wide[:, ::4], 4, 8))

# %% [markdown]
# The second view has a quarter of the elements and touches as many sectors of $x$: only two of
# eight numbers in each are used. (A cache may keep the sector for the next access; this count has
# none.)

# %% [markdown]
# ## 3 · A row a program
#
# <!-- exercise: fused_softmax -->
#
# **Why.** A softmax in separate steps (maximum, difference, exponential, sum, quotient) reads the
# matrix at each one and writes it at three. In a kernel a row is read once, stays on the chip, and
# is written once: 8 bytes a float32 number instead of 32. That is *fusion*.
#
# $$p_c = \frac{e^{z_c - m}}{\sum_j e^{z_j - m}}, \qquad m = \max_j z_j$$
#
# `tl.max(block, axis=0)` and `tl.sum(block, axis=0)` make one number of a block. A block's size
# is a power of two and a row's is not, so some lanes belong to no element; they are in the block
# all the same, and go into the maximum and the sum. `other=` in `tl.load` is the value that they
# get. Without it they hold anything. (The tracer makes it NaN.)
#
# Number by number work `tl.exp`, `tl.log`, `tl.sqrt`, `tl.maximum(a, b)` and
# `tl.where(condition, a, b)`; `tl.zeros((16,), tl.float32)` is a block of zeros; $-\infty$ is
# `-float("inf")`.
#
# | symbol | argument | shape |
# |---|---|---|
# | $z$, $p$ | `x`, the result | $(R, C)$, contiguous |
# | lanes | `BLOCK`, a power of two $\ge C$ | |
#
# **By hand.** The row $(0, \ln 3)$ has $m = \ln 3$, exponentials $\tfrac13$ and 1, and weights
# $\tfrac14$ and $\tfrac34$.

# %% tags=["exercise"]
from attend_solutions.triton import fused_softmax

# %% [markdown]
# <!-- exercise: padded_softmax -->
#
# **Why.** Texts in a batch have different lengths, and the rest of each row is padding. A
# colleague's kernel passes its test. One value in it is wrong.


# %% tags=["repair-padded_softmax"]
@triton.jit
def suspect_kernel(x_ptr, length_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, lane = tl.program_id(0), tl.arange(0, BLOCK)
    length = tl.load(length_ptr + row)
    z = tl.load(x_ptr + row * columns + lane, mask=lane < length, other=0.0)
    z = tl.where(lane < columns, z, -float("inf"))
    e = tl.exp(z - tl.max(z, axis=0))
    tl.store(out_ptr + row * columns + lane, e / tl.sum(e, axis=0), mask=lane < columns)


def suspect(x, lengths):
    out = torch.empty_like(x)
    suspect_kernel[(len(x),)](x, lengths, out, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return out


if hasattr(triton, "__file__"):
    test = torch.tensor([[120.0, 120.0, 0.0, 0.0], [40.0, 40.0, 40.0, 40.0]])
    print(suspect(test, torch.tensor([2, 4])))

# %% [markdown]
# Row 0 has two tokens, with half of the weight each; row 1 four, with a quarter. Right! Try other
# scores, then copy the kernel's body below and repair it.
#
# | symbol | argument | shape |
# |---|---|---|
# | scores; tokens in each row | `x`; `lengths` | $(R, C)$; $(R)$ |

# %% tags=["exercise"]
from attend_solutions.triton import padded_softmax

# %%
if ready(padded_softmax):
    low, two = torch.tensor([[-5.0, -5.0, 0.0, 0.0]]), torch.tensor([2])
    print("suspect:", suspect(low, two))
    print("yours:  ", padded_softmax(low, two))

# %% [markdown]
# <details><summary>Why did the test pass?</summary>
#
# Padding held 0, a score like any other, with a weight in proportion to $e^0 = 1$. Beside scores of
# 120 that is $10^{-52}$, which float32 rounds to 0. Beside scores of $-5$ it is 148 times the
# weight of a token. $-\infty$ adds nothing to the sum and is never the maximum.
#
# </details>

# %% [markdown]
# > **Takeaway.** Masked lanes take part. For a sum let them hold 0, for a maximum $-\infty$, for a
# > softmax $-\infty$.

# %% [markdown]
# ## 4 · Rows longer than a block
#
# <!-- exercise: long_softmax -->
#
# **Why.** A row of 200,000 scores (800 KB) does not fit into the registers and shared memory of one
# of an H100's processors (484 KB), so it comes in blocks, in a loop. The softmax needs the maximum
# and the sum over the *whole* row before the first weight. You can have both from one reading. Keep
# a running maximum $m$ and a running sum $\ell$ of $e^{z - m}$. When a block brings a larger
# maximum, all terms of $\ell$ are off by the same factor:
#
# $$\begin{gathered}
# m' = \max(m, \max_j z_j), \\
# \ell' = \ell\, e^{m - m'} + \sum_j e^{z_j - m'}.
# \end{gathered}$$
#
# Start with $m = -\infty$, $\ell = 0$. A second reading writes the weights $e^{z - m} / \ell$.
#
# | symbol | argument | shape |
# |---|---|---|
# | $z$, $p$ | `x`, the result | $(R, C)$, contiguous |
# | lanes | `BLOCK`, any power of two | |
#
# **By hand.** Blocks of one: $z = (0, \ln 3)$. After the first, $m = 0$ and $\ell = 1$. Then $m' =
# \ln 3$ and $\ell' = 1 \cdot \tfrac13 + 1 = \tfrac43$. Weights: $\tfrac13 / \tfrac43 = \tfrac14$
# and $1 / \tfrac43 = \tfrac34$.
#
# Loops are Python's: `for first in range(0, columns, BLOCK):`. A variable that changes in one must
# keep its type and shape from round to round, or the compiler refuses it.

# %% tags=["exercise"]
from attend_solutions.triton import long_softmax

# %% [markdown]
# **What you should see.** Each row is loaded twice, block by block, and stored once.

# %%
if ready(long_softmax):
    x = torch.randn(2, 21, generator=torch.Generator().manual_seed(SEED))
    display(widgets.memory_viewer(long_softmax, x, 8))

# %% [markdown]
# ## 5 · Layer normalisation
#
# From here on the launch is yours too: make the outputs with `torch.empty` or `torch.empty_like`,
# choose grid and block, call `kernel[grid](...)`. `triton.cdiv(a, b)` divides and rounds up,
# `triton.next_power_of_2` is what it says. Torch makes the memory, kernels do the arithmetic.
#
# <!-- exercise: fused_layer_norm -->
#
# **Why.** Many Transformers have it (chapter 07), and it has a trap that softmax does not have: no
# single value of `other` is right for both of its sums.
#
# $$\begin{gathered}
# \mu = \frac1C\sum_c x_c, \\
# \rho = \frac{1}{\sqrt{\frac1C\sum_c (x_c - \mu)^2 + \varepsilon}}, \\
# y_c = (x_c - \mu)\,\rho\, w_c + b_c
# \end{gathered}$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$, $y$ | `x`, the first result | $(R, C)$, contiguous |
# | $w$, $b$ | `weight`, `bias` | $(C)$ |
# | $\mu$, $\rho$ | `mean`, `rstd`: second and third result | $(R)$ |
#
# **By hand.** $x = (1, 2, 3)$ in a block of 4, $\varepsilon = 0$: $\mu = 2$, squares 1, 0, 1, so
# $\rho = \sqrt{3/2} \approx 1.225$ and $(x - \mu)\rho = (-1.225, 0, 1.225)$. The fourth lane holds
# 0; what is its $(x - \mu)^2$?
#
# float16 has 11 binary digits, too few for a sum: above 2,048 it cannot even count in ones. So
# load, convert with `.to(tl.float32)`, calculate. A store converts back to the type of its tensor;
# one number is stored as a block is, `tl.store(address, number)`.
# And subtract the mean *before* you square. The mean of the squares minus the square of the mean
# loses digits: where $\mu$ is 100 deviations, the variance kept about 3 of float32's 7 digits in
# most of 1,000 draws.

# %% tags=["exercise"]
from attend_solutions.triton import fused_layer_norm

# %%
if ready(fused_layer_norm):
    report(
        fused_layer_norm,
        torch.ones(4, 1024).half(),
        torch.ones(1024).half(),
        torch.ones(1024).half(),
    )

# %% [markdown]
# <!-- exercise: fused_layer_norm_backward -->
#
# **Why.** Let $g = \partial L/\partial y$ and $h = (x - \mu)\rho$. A row of $dx$ needs only its own
# row of $g$ and $x$. But $dw$ and $db$ are sums over all rows, which belong to different programs.
#
# $$\begin{gathered}
# dx = \rho\,\Big(gw - \overline{gw} - h \cdot \overline{gwh}\Big), \\
# dw = \sum_r g_r h_r, \\
# db = \sum_r g_r
# \end{gathered}$$
#
# (A bar is the mean over a row's $C$ columns; products are column by column.)
#
# If all programs added to one place, two could read it before either writes, and one sum would be
# lost: a **race**. Atomic additions repair that, but they come in any order, and float32 sums in
# another order may end in other digits, so two runs may differ. Here neither is needed. Each
# program adds up its own rows in registers and writes its sums to a place of its own, one row in
# `partial` for $dw$ and one for $db$; their order is yours. A second kernel, launched after the
# first, adds these up.
#
# | symbol | argument | shape |
# |---|---|---|
# | $g$, $x$, $dx$ | `grad`, `x`, first result | $(R, C)$, contiguous |
# | $w$, $dw$, $db$ | `weight`, second and third result | $(C)$ |
# | $\mu$, $\rho$ | `mean`, `rstd` | $(R)$ |
# | how many share the rows | `programs` | |
#
# **By hand.** $C = 2$, $w = (1, 1)$, $h = (-1, 1)$, $\rho = 1$, $g = (3, 5)$. Means: $\overline{gw}
# = 4$, $\overline{gwh} = (-3 + 5)/2 = 1$. $dx = (3 - 4 + 1,\; 5 - 4 - 1) = (0, 0)$: with two
# columns the normalised row is 1 and $-1$ or $-1$ and 1, whatever the two numbers of $x$ are, so
# small changes do nothing. (For $\varepsilon = 0$ and two numbers that differ.)

# %% tags=["exercise"]
from attend_solutions.triton import fused_layer_norm_backward

# %% [markdown]
# **What you should see.** Seven rows, three programs: in `partial` each writes only its own.

# %%
if ready(fused_layer_norm, fused_layer_norm_backward):
    x = torch.randn(7, 5, generator=torch.Generator().manual_seed(SEED))
    _, mean, rstd = fused_layer_norm(x, torch.ones(5), torch.zeros(5))
    numbers = torch.ones(7, 5), x, torch.ones(5), mean, rstd, 3
    display(widgets.memory_viewer(fused_layer_norm_backward, *numbers))

# %% [markdown]
# > **Takeaway.** Give a place in memory one writer. What programs share goes through partial sums
# > and a second launch, which waits for the first (on one stream, as here).

# %% [markdown]
# ## 6 · A matrix product
#
# <!-- exercise: matmul -->
#
# **Why.** In a product of two $N \times N$ matrices each number is needed $N$ times. Read anew each
# time, that is $2N^3$ loads. A program that computes a *tile* of $b \times b$ results uses each
# number that it loads $b$ times, so $b$ times fewer are loaded (where $b$ divides $N$; ragged tiles
# gain less). `tl.dot(a, b, input_precision="ieee")` multiplies two tiles. Compiled for an H100,
# float16 goes to the tensor cores; float32 with "ieee" does not, and keeps all its digits. Sums are
# float32. The compiler wants an inner size, here STEP, of 16 or more; the interpreter takes any.
# You choose it in the launch.
#
# $$\begin{gathered}
# O_{rc} = \sum_{k} A_{rk} B_{kc}, \\
# k \text{ in steps of STEP, added to a float32 tile}
# \end{gathered}$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $A$, $B$ | `a`, `b`, contiguous | $(R, K)$, $(K, C)$ |
# | $R$, $C$, $K$ | `rows`, `columns`, `inner` | |
# | tile, step, tiles in a group | `BLOCK`, `STEP`, `GROUP` | |
#
# **Which tile?** The grid has one axis, a program for each tile. The lines above your code turn a
# program's number into a tile's row and column, in **grouped order**: down GROUP tiles, then one to
# the right. With 4 × 4 tiles and GROUP 2, programs 0 to 3 make tiles (0, 0), (1, 0), (0, 1), (1,
# 1). Programs that run at about the same time then share rows of $A$ and columns of $B$, which a
# cache can serve: those four need 2 rows of tiles and 2 columns, and row by row they would need 1
# and 4.
#
# **By hand.** $R = C = 20$, tiles of 16: 2 × 2 tiles, four programs. With $K = 20$ the sum takes
# two steps of 16, and the second has 4 of its 16 places inside.

# %% tags=["exercise"]
from attend_solutions.triton import matmul

# %%
if ready(matmul):
    report(matmul, torch.ones(256, 256).half(), torch.ones(256, 256).half(), 64, 8)

# %% [markdown]
# <!-- exercise: block_for_budget -->
#
# **Why.** Larger tiles move fewer bytes, until one tile holds the whole product, and take more of
# the chip. Many real kernels choose by measured time; here the budget decides. Work out what the
# kernel above moves for two $n \times n$ float32 matrices, ragged tiles included, and choose.
# Masked lanes move nothing.
#
# | symbol | argument | is |
# |---|---|---|
# | $n$ | `n` | rows and columns of both |
# | bytes, loads and stores | `budget` | at most this many |
#
# **By hand.** $n = 20$, block 16: two tiles beside each other, so each of the 400 numbers of $A$
# and of $B$ is loaded twice, and 400 are stored: $4 \cdot (800 + 800 + 400) = 8{,}000$ bytes. Block
# 32: $4 \cdot 1{,}200 = 4{,}800$. A budget of 8,000 gives 16, of 7,999 gives 32; 4,799 is
# impossible.

# %% tags=["exercise"]
from attend_solutions.triton import block_for_budget

# %%
if ready(matmul, block_for_budget):
    for budget in (40_000, 30_000, 20_000):
        block = block_for_budget(40, budget)
        bytes_now = moved(matmul, torch.ones(40, 40), torch.ones(40, 40), block)
        print(f"budget {budget:,}: block {block}, {bytes_now.read + bytes_now.written:,} counted")

# %% [markdown]
# ## 7 · A loss that never stores its softmax
#
# <!-- exercise: fused_cross_entropy -->
#
# **Why.** A language model with 128,000 words makes 128,000 logits for each token. For 8,192 tokens
# in float32 they take 4.2 GB; a stored softmax is as much again. But the gradient of the loss *is*
# the softmax, minus 1 at the target. So write the gradient at once, and never store the softmax:
# two matrices of 4.2 GB are left of three, the logits and the gradient.
#
# With $m$ and $\ell$ of section 4, LSE is the logarithm of the sum of exponentials:
#
# $$\begin{gathered}
# \text{LSE} = m + \ln \ell, \\
# L = \text{LSE} - z_{\text{target}}, \\
# \frac{\partial L}{\partial z_v} = e^{z_v - \text{LSE}} - [v = \text{target}]
# \end{gathered}$$
#
# ($[v = \text{target}]$ is 1 for the target, 0 for other words.)
#
# | symbol | argument | shape |
# |---|---|---|
# | $z$, its gradient | `logits`, second result | $(R, V)$, contiguous |
# | target, $L$ | `targets`, first result | $(R)$ |
#
# **By hand.** $z = (0, \ln 3)$, target 0: LSE $= \ln 4$, $L = \ln 4 \approx 1.386$, gradient
# $(\tfrac14 - 1,\; \tfrac34)$.

# %% tags=["exercise"]
from attend_solutions.triton import fused_cross_entropy

# %% [markdown]
# ## 8 · Used: your kernels train a model
#
# A very small language model is a table: for each letter, 27 logits for the next one. Product,
# loss, gradient, transpose and step are your kernels; torch makes memory, picks letters, writes
# them as rows of 0 and 1, and turns the sign of the step. The text is Python's own documentation.
# (The cell takes some seconds: every program is interpreted.)

# %%
LETTERS = " abcdefghijklmnopqrstuvwxyz"
found = [LETTERS.find(c) for c in " ".join(topics.topics.values()).lower()]
text = torch.tensor([i for i, j in pairwise(found) if i >= 0 and i + j > 0])
seen = torch.zeros(27, 27).index_put_((text[:-1], text[1:]), torch.tensor(1.0), accumulate=True)
counts = seen / seen.sum(1, keepdim=True)
best = -(seen / seen.sum() * counts.clamp_min(1e-9).log()).sum()
alone = seen.sum(0) / seen.sum()  # how often each letter comes, whatever is before it
alone = -(alone * alone.clamp_min(1e-9).log()).sum()

if ready(vector_add, copy_strided, matmul, fused_cross_entropy):
    table, generator = torch.zeros(27, 27), torch.Generator().manual_seed(SEED)
    for step in range(26):
        at = torch.randint(len(text) - 1, (48,), generator=generator)
        inputs = torch.nn.functional.one_hot(text[at], 27).float()
        losses, gradient = fused_cross_entropy(matmul(inputs, table), text[at + 1], 32)
        slope = matmul(copy_strided(inputs.T, 16, 16), gradient)
        table = vector_add(table.reshape(-1), -slope.reshape(-1), 256).reshape(27, 27)
        if step % 5 == 0:
            print(f"step {step:2d}: loss {losses.mean():.2f} on 48 letters")
    nats = torch.nn.functional.cross_entropy(table[text[:-1]], text[1:])
    print(f"on the whole text: {nats:.2f}; knowing nothing: 3.30; counting letters: {alone:.2f};")
    print(f"counting all pairs: {best:.2f}")

# %% [markdown]
# Counting the pairs is the best that any table can do on this text. The table that your kernels
# made in 26 steps lies between that and counting single letters. Of 40 draws of letters 38 did
# so; the other two were a little worse than single letters.

# %% [markdown]
# ## 9 · Experiment: what does one reading save?
#
# Three softmaxes: yours with one reading of a row, yours with two, and one below that reads a row
# three times, for maximum, sum and weights. Each is run on 4 rows, with five draws of the scores;
# `copy_strided` is the control: no kernel that reads and writes every number asks for fewer bytes.
#
# <details><summary>Predict first: bytes for each number, for the four?</summary>
#
# A reading is 4 bytes, a writing 4: 8, 12, 16, and 8 for the copy.
#
# </details>


# %% jupyter={"source_hidden": true}
@triton.jit
def thrice_kernel(x_ptr, out_ptr, columns, SIZE: tl.constexpr):
    x_ptr += tl.program_id(0) * columns
    out_ptr += tl.program_id(0) * columns
    top, total = -float("inf"), 0.0
    for place in range(0, columns, SIZE):
        at = place + tl.arange(0, SIZE)
        top = tl.maximum(top, tl.max(tl.load(x_ptr + at, at < columns, other=-float("inf"))))
    for place in range(0, columns, SIZE):
        at = place + tl.arange(0, SIZE)
        total += tl.sum(tl.exp(tl.load(x_ptr + at, at < columns, other=-float("inf")) - top))
    for place in range(0, columns, SIZE):
        at = place + tl.arange(0, SIZE)
        z = tl.load(x_ptr + at, at < columns, other=0.0)
        tl.store(out_ptr + at, tl.exp(z - top) / total, at < columns)


def three_readings(x, size=16):
    out = torch.empty_like(x)
    thrice_kernel[(len(x),)](x, out, x.shape[1], SIZE=size)
    return out


# %%
if ready(fused_softmax, long_softmax, copy_strided):
    ways = {
        "three readings": three_readings,
        "two readings": long_softmax,
        "one reading": fused_softmax,
        "a copy (control)": copy_strided,
    }
    rows, asked = [], {}
    for columns in (8, 13, 16, 27, 32, 48):
        for seed in range(5):
            x = torch.randn(4, columns, generator=torch.Generator().manual_seed(seed))
            for way, function in ways.items():
                count = moved(function, x)
                asked.setdefault(way, set()).add((count.read + count.written) / x.numel())
                rows.append({"C": columns, "bytes": count.fetched / x.numel(), "way": way})
    display(
        charts.bands(
            rows, "C", "bytes", "way",
            title="Fetched: sectors of 32 bytes, access by access",
            description="Bytes fetched for each number by four kernels, against the row's length.",
            x_title="numbers in a row", y_title="bytes fetched for each number",
        )
    )  # fmt: skip
    for way, found in asked.items():
        print(f"{way:17s} asked for {sorted(found)} bytes a number, in all 30 cases")

# %% [markdown]
# What is *asked for* is exact: 16, 12, 8 and 8 bytes, in every draw and at every length. No count
# depends on the scores, so the bands have no width. What is *fetched* depends on the length: where
# a row is no multiple of eight numbers, rows begin in the middle of a sector, and neighbouring
# programs or blocks fetch it twice. At 27 that costs the copy more than one reading of whole rows:
# most rows of its tiles, eight numbers wide, lie in two sectors.
#
# **What this does not show.** Time. If memory were the only limit, three readings would take twice
# as long as one; but rows that fit into a cache together are read from slow memory once, whatever
# the kernel asks for, and a small launch is over before memory matters. A strong baseline is a
# compiler that fuses by itself: `torch.compile`. It needs a GPU to be compared here:

# %%
attend.kernels.race(fused_softmax if ready(fused_softmax) else None)

# %% [markdown]
# ## 10 · Where this breaks
#
# - **The interpreter is no GPU.** Programs run one after the other, so a race gives the same answer
#   each time. The tracer finds two writers of one place, and reads of what another program writes,
#   but only on the inputs you run. It knows nothing of caches or time.
# - **One row, one block.** `fused_softmax` keeps a row in registers. Run the cell below: at some
#   length threads have too few and spill. More warps a program, which is more threads, put that
#   off; longer rows can come in blocks, as in `long_softmax`.
# - **Offsets.** `row * columns` is a 32-bit product. Past $2^{31}$ elements it overflows.
# - **Few rows.** One program a row leaves part of a GPU idle where rows are fewer than processors
#   (an H100 SXM has 132).

# %%
if ready(fused_softmax):
    for columns in (1024, 8192, 32768):
        print(f"C = {columns:6,}: ", end="")
        report(fused_softmax, torch.zeros(1, columns))

# %% [markdown]
# ## 11 · Beside yours: attend_kernels
#
# The course has a package of kernels that are meant to be used. Open its softmax,
# `attend_kernels/ops/softmax/kernels.py`, beside your own:
#
# | softmax there | yours | why |
# |---|---|---|
# | `.to(tl.int64)` of `program_id` | 32-bit offsets | over $2^{31}$ elements |
# | `ROWS` rows a program | one | short rows alone leave most of a program's threads idle |
# | `row_stride`, `column_stride` | contiguous | a matrix's views are not copied |
# | a row of $-\infty$ only gives zeros | NaN; `long_softmax` if its first block is | masked rows |
# | one kernel, `ONE_BLOCK: tl.constexpr` | two | the compiler keeps the branch that is taken |
# | an `autograd.Function` | no gradient | `loss.backward()` |
# | a twin in PyTorch | none | where there is no GPU, and as the oracle of its tests |

# %%
import inspect

from attend_kernels.ops.softmax import kernels as finished

source = inspect.getsource(getattr(finished.softmax_forward_kernel, "fn", finished))
lines = [line.partition("  # noqa")[0] for line in source.splitlines()[:36]]
print("\n".join(line if len(line) <= 78 else line[:77] + "…" for line in lines))

# %% [markdown]
# ## Recap
#
# - A kernel says what one program does to one block; the launch says how many there are.
# - A tensor is an address and strides. Masks keep a program inside; `other` is what the rest holds.
# - Give each place one writer. Shared sums: partial sums, then a second launch.
# - Fusion reads a row once and writes it once. With a running maximum and sum rows of any length
#   fit, but are read twice.
# - Tiles of $b \times b$ divide a matrix product's loads by $b$, where $b$ divides its sizes.
#
# **Sources.** Tillet, Kung and Cox 2019, [Triton](https://doi.org/10.1145/3315508.3329973);
# Triton's [tutorials](https://triton-lang.org/main/getting-started/tutorials/); Milakov and
# Gimelshein 2018, [Online normalizer calculation for softmax](https://arxiv.org/abs/1805.02867);
# Ba, Kiros and Hinton 2016, [Layer normalization](https://arxiv.org/abs/1607.06450); NVIDIA's [CUDA
# C++ programming guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/) (sectors of 32
# bytes).
#
# Before: [16 · Flash attention](../16_flash/16_flash.ipynb), the algorithm in NumPy. After: 18, the
# same algorithm as a Triton kernel.
