# %% [markdown]
# # 02 · Alignment
#
# **How did a decoder learn to look back?** Run the next cell (Shift+Enter) and drag the step from
# 160 to 0 and back. Then press a word's button to hide its vector from attention.

# %%
from attend import widgets

widgets.learning_to_look()

# %% [markdown]
# A small network translates dates as people write them into dates as ISO 8601 writes them. It was
# trained on pairs of sentences only; nobody told it which word belongs to which. Its decoder looks
# back at the source for every word it writes, and within 160 steps it finds the right one (the
# rings). Hide one of them, and it mostly writes something else. The second translator has as many
# parameters and the same 160 steps, but gets the whole sentence as one fixed vector. Type one date,
# then the same in another order (march 7 1987; 1987 march 7). Which translator is right?
#
# In this chapter you write the translator in PyTorch and train it, repair a colleague's decoder,
# and test a common explanation of why the fixed vector fails. It takes about two hours. You need
# Python and a little PyTorch; no other chapter. `check(...)` says what is right and what is not,
# `hint(...)` helps, and `solution(...)` shows the course's answer. A cell that needs a function you
# have not written yet says so and waits.

# %% jupyter={"source_hidden": true}
import copy

import numpy as np
import torch
from attend import charts
from attend.data import date_translators, dates
from attend.training import fit, over_seeds
from attend_grader import check, hint, ready, solution
from IPython.display import display
from torch import Tensor

SEED = 2
torch.set_num_threads(1)  # the matrices are small: a second thread would mostly wait
torch.set_printoptions(precision=3, sci_mode=False)

# %% [markdown]
# ## 1 · One vector, or one for each word?
#
# An **encoder** network reads the source, a **decoder** network writes the translation. In the
# models of 2014 (Cho et al.; Sutskever et al.) a single vector stands between them, as long for 3
# words as for 30. Cho et al. (2014b) found that their translations got worse with length.
# Sutskever et al. reversed the source and "did not have difficulty on long sentences".
#
# How would *you* translate? To write the year of the second date, you look back to where it stands.
# Bahdanau, Cho and Bengio (2015) let the network do that: keep a vector for *every* source word,
# compare the decoder's state with each of them, turn the comparisons into weights, and take the
# weighted mean. Which written word belongs to which source word is called the **alignment**, and
# the network has to find it.

# %% jupyter={"source_hidden": true}
widgets.look_back()

# %% [markdown]
# | letter | counts | | letter | counts |
# |---|---|---|---|---|
# | $B$ | sentences in a batch | | $C$ | numbers in one embedding (the vector of a word) |
# | $S$ | source words: **keys** | | $N$ | numbers in one state of a recurrent network |
# | $T$ | words to write: **queries** | | $E$ | numbers in one encoded word |
# | $\ldots$ | any leading axes, as $B$ | | $A$ | hidden units of the additive score |
#
# In an equation a row vector stands left of its matrix, $q\,W$, as in PyTorch.

# %% [markdown]
# ## 2 · The encoder
#
# A word's vector should say what the word means *here*: is "2" the day of the first or of the
# second date? So the encoder is a recurrent network, which reads one word after the other and
# carries a **state** of $N$ numbers along. Here you take PyTorch's **GRU** cell (Cho et al. 2014)
# ready made:
#
# ```python
# h = torch.gru_cell(x, h, *cell)   # one step: input (B, C) and state (B, N) → next state (B, N)
# ```
#
# `cell` holds its four tensors, (3N, C), (3N, N), (3N,) and (3N,); the star passes them as four
# arguments. The new state is a mixture of the old one and of a proposal, entry by entry, $h' = (1 -
# z) \circ n + z \circ h$; input and state decide the proposal $n$ and the share $z$. (Bahdanau's
# paper exchanges $z$ and $1 - z$.)

# %% [markdown]
# <!-- exercise: encode -->
#
# **Why.** A state knows the words before it, but not those after it. Therefore read twice, with one
# GRU from the first word to the last and with another from the last to the first, both starting
# from zeros. Put the two states that stand at a word side by side:
#
# $$\begin{gathered}
# \overrightarrow{h}_s = \operatorname{GRU}(x_s, \overrightarrow{h}_{s-1}), \\
# \overleftarrow{h}_s = \operatorname{GRU}'(x_s, \overleftarrow{h}_{s+1}), \\
# k_s = [\,\overrightarrow{h}_s\,;\ \overleftarrow{h}_s\,] .
# \end{gathered}$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $x_s$ | `x[:, s]`: the embeddings of the words at place $s$ | $(B, C)$; `x` is $(B, S, C)$ |
# | $\operatorname{GRU}$, $\operatorname{GRU}'$ | `forward`, `backward` | four tensors each |
# | $k_s$ | returned, for all $s$ | $(B, S, 2N)$ |
#
# **By hand.** A cell with $h' = \tanh(x)/2 + h/2$ reads $9, 9, -9$; $\tanh(\pm 9)$ is $\pm 1$ to
# seven digits. Forward: $0.5$, $0.75$, $-0.125$. Backward, from the last word: $-0.5$, $0.25$,
# $0.625$. So the first word gets $(0.5,\ 0.625)$, the last $(-0.125,\ -0.5)$.
#
# **PyTorch you need.** `x.new_zeros(2, 5)` makes zeros of the type of `x`. The second tensor of a
# cell is $(3N, N)$, so `forward[1].shape[1]` is $N$. A list of tensors becomes one by `stack`,
# which makes a new axis, or by `cat`, which lengthens one that is there. Let a list grow by
# `append`: writing into a tensor can break autograd.
#
# ```python
# monday, tuesday = torch.zeros(4, 3), torch.ones(4, 3)   # 4 cities, 3 measurements
# torch.stack([monday, tuesday], dim=1).shape             # (4, 2, 3): a new axis for the days
# torch.cat([monday, tuesday], dim=-1).shape              # (4, 6): six measurements
# list(reversed(range(3))), [4, 7, 9][::-1]               # [2, 1, 0] and [9, 7, 4]
# ```
#
# <details><summary>Predict first: you change the last word of a sentence of five. Which of the ten
# states of the encoder change?</summary>
#
# Six: the forward state of the last word, and all five backward states.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.alignment import encode

# %% [markdown]
# **What you should see.** A sentence is encoded with random weights, then again with april instead
# of march. Forward states change from that word on, backward states up to it: each encoded word
# knows the whole sentence, and nearby words better.

# %% jupyter={"source_hidden": true}
generator = torch.Generator().manual_seed(SEED)


def random_cell(inputs: int, n: int) -> tuple[Tensor, ...]:
    """A GRU's weights, of the size that training starts from."""
    shapes = ((3 * n, inputs), (3 * n, n), (3 * n,), (3 * n,))
    return tuple(torch.randn(shape, generator=generator) / n**0.5 for shape in shapes)


embeddings = torch.randn(len(dates.SOURCE), 8, generator=generator)  # C = 8
cells = random_cell(8, 16), random_cell(8, 16)
words = ["the", "7th", "of", "march", "1987", "and", "may", "2", "2004"]
other = ["april" if word == "march" else word for word in words]
pair = torch.tensor([dates.source_numbers(words), dates.source_numbers(other)])  # (2, S)

if ready(encode):
    encoded = encode(embeddings[pair], *cells)  # (2, S, 32)
    change = (encoded[0] - encoded[1]).abs()
    print("largest change when march becomes april")
    for word, row in zip(words, change, strict=True):
        forth, back = (float(half.max()) for half in (row[:16], row[16:]))
        print(f"{word:6s} forward {forth:.3f} {'█' * round(20 * forth):20s}", end="")
        print(f" backward {back:.3f} {'█' * round(20 * back)}")

# %% [markdown]
# ## 3 · How well does a word fit?
#
# The decoder's state $q$ (the **query**) is compared with the encoded words $k_1 \ldots k_S$ (the
# **keys**): one number each, the score $e$. Here are two ways to compute it, both of 2015. Each of
# your functions takes all queries and all keys at once.

# %% [markdown]
# <!-- exercise: additive_score -->
#
# **Why.** Bahdanau et al. let a small network decide. Each of its $A$ hidden units is the tanh of a
# weighted sum of query and key; $v$ weighs the units and adds them up:
#
# $$e_{ts} = \tanh\!\big(q_t W_q + k_s W_k\big) \cdot v$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $q_t$ | `queries` | $(\ldots, T, N)$ |
# | $k_s$ | `keys` | $(\ldots, S, E)$ |
# | $W_q$, $W_k$ | `w_query`, `w_key` | $(N, A)$, $(E, A)$ |
# | $v$ | `v` | $(A,)$ |
# | $e_{ts}$ | returned: a row for each query, a column for each key | $(\ldots, T, S)$ |
#
# **By hand.** One query with $q W_q = (0.549,\ 0)$, one key with $k W_k = (0,\ 0.693)$, $v = (2,\
# 10)$. The sum is $(0.549,\ 0.693)$, its tanh $(0.5,\ 0.6)$, and the score $0.5 \cdot 2 + 0.6
# \cdot 10 = 7$.
#
# **PyTorch you need: every row with every row.** `None` in an index puts in an axis of length 1,
# which is repeated as often as the other tensor asks. `x @ v` sums over the last axis of `x`.
#
# ```python
# morning = torch.tensor([[3.0, 0.0], [5.0, 1.0], [9.0, 2.0]])    # (3, 2): three rows of two
# evening = torch.tensor([[1.0, 1.0], [2.0, 2.0]])                # (2, 2): two rows of two
# morning[..., :, None, :].shape, evening[..., None, :, :].shape  # (3, 1, 2) and (1, 2, 2)
# (morning[..., :, None, :] - evening[..., None, :, :]).shape     # (3, 2, 2): 3 × 2 pairs
# ```
#
# <details><summary>Predict first: leave out the tanh. Why can the query then no longer change a
# weight?</summary>
#
# Then $e_{ts} = q_t W_q v + k_s W_k v$, and the first term is the same for every key. Adding one
# number to all scores of a query changes no weight, because the exponentials cancel it. The
# tanh is what lets query and key meet.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.alignment import additive_score

# %% [markdown]
# **What you should see.** Two different queries, three keys. With the tanh, the queries rank
# the keys differently; without it, the second row is the first plus a constant.

# %%
if ready(additive_score):
    queries, keys = torch.tensor([[2.0], [-2.0]]), torch.tensor([[-1.0], [0.0], [1.0]])
    w_query, w_key = torch.tensor([[1.0, 1.0]]), torch.tensor([[2.0, -2.0]])
    v = torch.tensor([1.0, 3.0])
    print("scores", additive_score(queries, keys, w_query, w_key, v), sep="\n")
    tiny = 1e-3  # tanh(x) is x where x is small: this is the score without its tanh
    linear = additive_score(tiny * queries, tiny * keys, w_query, w_key, v) / tiny
    print("without the tanh", linear, sep="\n")

# %% [markdown]
# <!-- exercise: multiplicative_score -->
#
# **Why.** Luong, Pham and Manning (2015) use a product, which needs no hidden layer. The plain dot
# product ("dot") asks for query and key of one width; a matrix $W$ in between ("general") lets them
# differ:
#
# $$\begin{gathered}
# e_{ts} = q_t \cdot k_s \;\text{ (dot)}, \\
# e_{ts} = q_t\, W\, k_s^\top \;\text{ (general)}
# \end{gathered}$$
#
# | symbol | argument | shape |
# |---|---|---|
# | $q_t$ | `queries` | $(\ldots, T, N)$ |
# | $k_s$ | `keys` | $(\ldots, S, E)$; for dot, $E = N$ |
# | $W$ | `weight`, or `None` for dot | $(N, E)$ |
# | $e_{ts}$ | returned | $(\ldots, T, S)$ |
#
# Nothing is divided: the scale of chapter 03 came two years later.
#
# **By hand.** $q = (2, 1)$, keys $(1, 3)$ and $(0, -1)$. Dot: $2 + 3 = 5$ and $-1$. With $W =
# \begin{pmatrix} 0 & 1 \\ 1 & 0 \end{pmatrix}$, $qW = (1, 2)$: the scores are $1 + 6 = 7$ and $-2$.
#
# **PyTorch you need.** `b.mT` exchanges the last two axes of `b` and leaves the others alone; `b.T`
# is for matrices without leading axes. `if weight is not None:` asks whether there is a weight.
#
# <details><summary>Predict first: S = 20 source words, T = 10 to write. How many tanh does the
# additive score take with A = 24, and how many the multiplicative one?</summary>
#
# $10 \cdot 20 \cdot 24 = 4{,}800$, and none. Both make $T \times S = 200$ scores.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.alignment import multiplicative_score

# %% [markdown]
# **What you should see.** With dot and keys of one length, each query scores the key highest that
# it resembles. A matrix can ask for something else: this one exchanges the two components.

# %%
if ready(multiplicative_score):
    queries, keys = torch.tensor([[3.0, 0.5], [0.5, 3.0]]), torch.eye(2)
    turn = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    print("dot", multiplicative_score(queries, keys), sep="\n")
    print("general", multiplicative_score(queries, keys, turn), sep="\n")

# %% [markdown]
# ## 4 · From scores to a context

# %% [markdown]
# <!-- exercise: attend -->
#
# **Why.** Scores are any numbers. Turn each row into weights, positive and with a sum of 1, and
# take the mean of the values under these weights, the **context**:
#
# $$a_{ts} = \frac{\exp(e_{ts})}{\sum_{j} \exp(e_{tj})}, \qquad c_t = \sum_{s=1}^{S} a_{ts}\, k_s$$
#
# In a translator the values are the encoded words once more: what is compared is also what is
# mixed. Chapter 03 separates keys and values.
#
# | symbol | argument or result | shape |
# |---|---|---|
# | $e_{ts}$ | `scores` | $(\ldots, T, S)$ |
# | $k_s$ | `values` | $(\ldots, S, E)$ |
# | $c_t$ | first result | $(\ldots, T, E)$ |
# | $a_{ts}$ | second result; each row sums to 1, at scores of any size | $(\ldots, T, S)$ |
#
# **By hand.** Scores $0$ and $\ln 3$: the exponentials are $1$ and $3$, the weights $0.25$ and
# $0.75$. With the values $(8, 0)$ and $(4, 2)$ the context is $0.25\,(8, 0) + 0.75\,(4, 2) = (5,\
# 1.5)$.
#
# **PyTorch you need.** `torch.softmax(x, dim=-1)` does the first equation along the last axis.
#
# <details><summary>Predict first: all scores of a query are equal. What is its context? And if one
# score is larger than all others by 50?</summary>
#
# The plain mean of the values; and, to about 21 digits, the value of that one word, because
# $\exp(-50)$ is $2 \cdot 10^{-22}$.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.alignment import attend

# %% [markdown]
# **What you should see.** A look-up with vectors written by hand. Each source word says whether it
# is a day, a month, a year or something else; three states want the year, the month and the day;
# $W$ connects "write the month" with "is a month", with strength 5. Each row finds its word.

# %% jupyter={"source_hidden": true}
if ready(multiplicative_score, attend):
    words = ["saturday", "the", "7th", "of", "march", "1987"]
    kinds = ["other", "other", "day", "other", "month", "year"]
    features = ["day", "month", "year", "other"]
    keys = torch.tensor([[float(kind == feature) for feature in features] for kind in kinds])
    wanted = torch.eye(3)  # one state for each: write the year, the month, the day
    weight = 5 * torch.tensor([[0.0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0]])  # (N, E)
    _, weights = attend(multiplicative_score(wanted, keys, weight), keys)
    print("               " + " ".join(f"{word:>8s}" for word in words))
    for name, row in zip(("year", "month", "day"), weights, strict=True):
        print(f"write the {name:5s}" + " ".join(f"{number:8.3f}" for number in row))

# %% [markdown]
# ## 5 · The decoder looks back, then goes on

# %% [markdown]
# <!-- exercise: attention_decoder_step -->
#
# **Why.** Now put the parts in the order of the diagram. The decoder has the state $h_{t-1}$ and
# the embedding $y$ of the word it wrote last:
#
# $$\begin{gathered}
# \underbrace{h_{t-1}}_{\text{asks}} \;\to\; e_s = \operatorname{score}(h_{t-1}, k_s) \;\to \\
# a = \operatorname{softmax}(e) \;\to\; c = \sum_s a_s k_s \;\to \\
# h_t = \operatorname{GRU}\big([\,y\,;\,c\,],\ h_{t-1}\big)
# \end{gathered}$$
#
# The state *before* the step asks; the answer goes into the step. The score is your multiplicative
# one: general with a `weight`, dot without.
#
# | symbol | argument or result | shape |
# |---|---|---|
# | $y$ | `embedded` | $(B, C)$ |
# | $h_{t-1}$ | `state` | $(B, N)$ |
# | $k_s$ | `encoded`: keys and values | $(B, S, E)$ |
# | $W$ | `weight`, or `None` | $(N, E)$ |
# | $\operatorname{GRU}$ | `cell`, for $C + E$ inputs: $y$ first, then $c$ | four tensors |
# | $h_t$, $c$, $a$ | returned, in this order | $(B, N)$, $(B, E)$, $(B, S)$ |
#
# **By hand.** Encoded words $0$ and $8$, both with the score $0$: the weights are $0.5, 0.5$ and
# the context is $4$. A cell that makes $\tanh(c/8)/2 + h/2$ adds $0.231$ and $0.1$, so the state
# $0.2$ becomes $0.331$.
#
# **PyTorch you need.** Your scores expect queries $(B, T, N)$. Here $T = 1$: `state[:, None]` puts
# that axis in, and `context[:, 0]` takes it out again. (`squeeze()` would take out *every* axis of
# length 1, also a batch of one sentence.)
#
# <details><summary>Predict first: you hand over one encoded vector only, S = 1. What are weight and
# context, for any state?</summary>
#
# The weight is 1, and the context is that vector. This is the decoder with a fixed vector: same
# function, same parameters.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.alignment import attention_decoder_step

# %% [markdown]
# **What you should see.** Two random states look at different words, so they get different
# contexts. With one encoded vector, both get that one.

# %% jupyter={"source_hidden": true}
if ready(encode, multiplicative_score, attend, attention_decoder_step):
    states, latest = (torch.randn(2, 32, generator=generator) for _ in range(2))
    x = embeddings[pair[:1]].expand(2, -1, -1)  # one sentence, twice
    encoded = encode(x, *cells)  # (2, 9, 32)
    step_cell = random_cell(64, 32)
    for name, seen in (("nine vectors", encoded), ("one vector", encoded[:, -1:])):
        _, context, weights = attention_decoder_step(latest, states, seen, None, step_cell)
        distance = (context[0] - context[1]).norm()
        print(f"{name}: contexts differ by {distance:.2f}; weights", weights, sep="\n")

# %% [markdown]
# ## 6 · Use it: train your translator
#
# The next cell builds a translator from your functions: embeddings ($C = 32$) for 144 source words
# and 93 target words; `encode` with 24 numbers in each direction, so $E = 48$; a decoder state of
# 48 numbers, which starts from the encoder's two last states (at the last word and at the first);
# your `attention_decoder_step` with the dot score; and one matrix from state and context to a score
# for each target word. The translator with a **fixed vector** is the same one, with the same 45,888
# parameters, but hands your step one vector, those two last states.
#
# Both take 160 steps with Adam, each on 48 of 10,000 sentences with one, two or three dates. The
# loss is the cross-entropy of each word, given the right words before it. Then each writes 993
# other sentences by itself; a sentence counts if every word of it is right.

# %% jupyter={"source_hidden": true}
STEPS, RATE = 160, 0.025
train_set, _, test_set = date_translators.data()  # (S, T) → source (…, S), target (…, T)


class Translator:
    """Encoder, attention, decoder: your functions, and the parameters they use."""

    def __init__(self, look: str, seed: int = 0, n: int = 48, c: int = 32) -> None:
        start = date_translators.start([seed], n, c)
        w = self.weights = {name: value[0].requires_grad_(True) for name, value in start.items()}
        self.look, self.half = look, n // 2
        cells = (tuple(w[f"{k}.{i}"] for i in range(4)) for k in ("forward", "backward", "cell"))
        self.forward, self.backward, self.cell = cells

    def read(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Source words (B, S) → encoded words (B, S or 1, E) and the decoder's first state."""
        encoded = encode(self.weights["source_words"][source], self.forward, self.backward)
        ends = torch.cat([encoded[:, -1, : self.half], encoded[:, 0, self.half :]], dim=-1)
        if self.look == "fixed vector":
            encoded = ends[:, None]  # S = 1: nothing else to look at
        return encoded, torch.tanh(ends @ self.weights["start"])

    def loss(self, source: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy of the right words, each given the right words before it."""
        encoded, state = self.read(source)
        before = torch.cat([torch.zeros_like(target[:, :1]), target[:, :-1]], dim=1)  # 0 is start
        embedded, seen = self.weights["target_words"][before], []
        for latest in embedded.unbind(dim=1):
            state, context, _ = attention_decoder_step(latest, state, encoded, None, self.cell)
            seen.append(torch.cat([state, context], dim=-1))
        scores = torch.stack(seen, dim=1) @ self.weights["to_words"]  # (B, T, V)
        return torch.nn.functional.cross_entropy(scores.flatten(0, 1), target.flatten())

    @torch.no_grad()
    def write(self, source: Tensor, length: int, hidden=()) -> tuple[Tensor, Tensor]:
        """The words it writes by itself, (B, T), and its weights (B, T, S), 0 where hidden."""
        encoded, state = self.read(source)
        kept = [s for s in range(encoded.shape[1]) if s not in hidden]
        word, words, looked = torch.zeros_like(source[:, 0]), [], []
        for _ in range(length):
            latest = self.weights["target_words"][word]
            state, context, weights = attention_decoder_step(
                latest, state, encoded[:, kept], None, self.cell
            )
            word = (torch.cat([state, context], dim=-1) @ self.weights["to_words"]).argmax(dim=-1)
            words.append(word)
            looked.append(torch.zeros(len(source), encoded.shape[1]))
            looked[-1][:, kept] = weights
        return torch.stack(words, dim=1), torch.stack(looked, dim=1)

    def translate(self, words, hidden=()) -> tuple[list[str], np.ndarray]:
        """The words that it writes for one sentence, and its weights (T, S)."""
        numbers, looked = self.write(torch.tensor([dates.source_numbers(words)]), 13, hidden)
        target = [dates.TARGET[number] for number in numbers[0].tolist()]
        length = target.index("end") + 1 if "end" in target else 13
        return target[:length], looked[0, :length].numpy()


def train(look: str, seed: int = 0) -> dict[int, Translator]:
    """Train a translator; copies of it by step."""
    model, kept = Translator(look, seed), {}
    rng, groups = np.random.default_rng([SEED, 200 + seed]), list(train_set.values())
    sizes = np.array([len(source) for source, _ in groups])
    order = rng.choice(len(groups), STEPS, p=sizes / sizes.sum())

    def loss(step: int) -> Tensor:
        if step % 20 == 0:
            kept[step] = copy.deepcopy(model)
        source, target = groups[order[step]]
        rows = torch.from_numpy(rng.integers(0, len(source), 48))
        return model.loss(source[rows], target[rows])

    def rate(step: int) -> float:  # up within 20 steps, down over the last 40 %
        return RATE * min(1, (step + 1) / 20, max(0.05, (1 - step / STEPS) / 0.4))

    fit(model.weights.values(), loss, steps=STEPS, rate=rate, name=look)
    return kept | {STEPS: model}


def shares(model: Translator, sentences=None) -> dict[int, float]:
    """Share of sentences without a mistake, by number of dates."""
    right: dict[int, list[bool]] = {}
    for (_, t), (source, target) in (sentences or test_set).items():
        marks = (model.write(source, t)[0] == target).all(dim=1)
        right.setdefault(t // 3, []).extend(marks.tolist())
    return {count: float(np.mean(marks)) for count, marks in right.items()}


# %% [markdown]
# The next cell trains both in a few seconds and shows them in the first picture.

# %% jupyter={"source_hidden": true}
mine: dict[str, dict[int, Translator]] = {}
if ready(encode, multiplicative_score, attend, attention_decoder_step):
    mine = {look: train(look) for look in ("attention", "fixed vector")}
    print("share without a mistake   1 date  2 dates  3 dates")
    for look, kept in mine.items():
        print(f"{look:21s}" + "".join(f"{share:9.2f}" for share in shares(kept[160]).values()))

    def moment(step: int) -> widgets.Moment:
        looking, fixed = (kept[step] for kept in mine.values())
        return widgets.Moment(step, looking.translate, lambda words: fixed.translate(words)[0])

    display(widgets.learning_to_look([moment(step) for step in sorted(mine["attention"])]))

# %% [markdown]
# For these sentences the right word is known, so we can count how often the largest weight lies on
# it.

# %% jupyter={"source_hidden": true}
if mine:
    for step, model in mine["attention"].items():
        hits = []
        for (_, t), (source, _) in test_set.items():
            _, looked = model.write(source, t)
            for numbers, weights in zip(source.tolist(), looked, strict=True):
                goals = dates.aligned([dates.SOURCE[number] for number in numbers])
                hits += (weights.argmax(dim=-1)[:-1] == torch.tensor(goals)).tolist()
        print(f"step {step:3d}  largest weight on the right word {np.mean(hits):4.0%}", end="  ")
        print("█" * round(28 * np.mean(hits)))

# %% [markdown]
# Nobody told it. Looking at the right word made the next word easier to write, so the gradient
# moved the weights there: here they *are* the alignment. (Each of 23 runs ended above 99 %.)
#
# **What weights do not say.** They say where a context came from, not what is in it. Each vector
# also knows its neighbours, and the first state all words: type "friday 13 june 1997" above and
# hide 1997, then do it with other years. What it writes can change, although that word's vector is
# hidden. (It is a bad guess: with all 60 years, 19 translators wrote the hidden one in 43 of 1,140
# tries; chance gives 19.) And a weight matrix that only *looks* plausible proves nothing (Jain and
# Wallace 2019, whose tests Wiegreffe and Pinter 2019 dispute); chapter 11 tests what weights
# explain.

# %% [markdown]
# ## 7 · Repair a decoder

# %% [markdown]
# <!-- exercise: repaired_decoder -->
#
# **Why.** For training, all target words are known, so one call can run the whole loop. A colleague
# wrote it. Its only test compares it with your step, and passes.
#
# | symbol | argument or result | shape |
# |---|---|---|
# | $y_1 \ldots y_T$ | `embedded`: of the words before each written word | $(B, T, C)$ |
# | $h_0$ | `state` | $(B, N)$ |
# | | `encoded`, `weight`, `cell`: as in section 5 | |
# | $h_t$, $c_t$, $a_t$ | returned, for all $t$ | $(B, T, N)$, $(B, T, E)$, $(B, T, S)$ |


# %%
def suspect_decoder(embedded, state, encoded, weight, cell):
    steps, c = [], encoded.mean(dim=1)  # c: (B, E)
    for y in embedded.unbind(dim=1):
        state = torch.gru_cell(torch.cat((y, c), dim=-1), state, *cell)
        c, a = attend(multiplicative_score(state.unsqueeze(1), encoded, weight), encoded)
        c, a = c[:, 0], a[:, 0]
        steps.append((state, c, a))
    return tuple(torch.stack(part, dim=1) for part in zip(*steps, strict=True))


# %% jupyter={"source_hidden": true}
step_by_step = date_translators.looped(attention_decoder_step)  # your step, word by word


def farthest(one, other) -> str:
    """Largest difference of states, contexts and weights."""
    gaps = [float((a - b).abs().max()) for a, b in zip(one, other, strict=True)]
    return ", ".join(f"{name} {gap:.2g}" for name, gap in zip(("h", "c", "a"), gaps, strict=True))


def share_of_words(decoder, model: Translator) -> float:
    """Share of written words that are right, each given the right words before it."""
    right = []
    for source, target in test_set.values():
        encoded, state = model.read(source)
        before = torch.cat([torch.zeros_like(target[:, :1]), target[:, :-1]], dim=1)
        embedded = model.weights["target_words"][before]
        states, contexts, _ = decoder(embedded, state, encoded, None, model.cell)
        scores = torch.cat([states, contexts], dim=-1) @ model.weights["to_words"]
        right += (scores.argmax(dim=-1) == target).flatten().tolist()
    return float(np.mean(right))


if ready(multiplicative_score, attend, attention_decoder_step):
    made = torch.Generator().manual_seed(SEED)
    shapes = ((2, 3, 4), (2, 6), (2, 1, 6))  # the test's sentences have one word: S = 1
    embedded, state, encoded = (torch.randn(shape, generator=made) for shape in shapes)
    cell = tuple(torch.randn(s, generator=made) for s in ((18, 10), (18, 6), (18,), (18,)))
    test = (embedded, state, encoded, None, cell)
    print("the test's differences:", farthest(suspect_decoder(*test), step_by_step(*test)))
if mine:
    with torch.no_grad():
        for decoder in (step_by_step, suspect_decoder):
            told = share_of_words(decoder, mine["attention"][160])
            print(f"{decoder.__name__:16s} right words, with your trained weights: {told:.2f}")

# %% [markdown]
# <details><summary>Predict first, from the code: for which sources does the test pass? With
# three source words, is the first state right?</summary>
#
# With one source word, every context is that word, whoever asks and when. With three, the first
# state is wrong already: it was made with the plain mean. And the context returned with each state
# is already the next step's.
#
# </details>
#
# Asking with the new state is not wrong in itself. Luong's decoder does it, and this one, trained
# that way from the start, gets more than 0.9 of the sentences right (twenty runs, each number of
# dates). But your weights were trained in the other order.

# %% tags=["exercise"]
from attend_solutions.alignment import repaired_decoder

# %% jupyter={"source_hidden": true}
if ready(multiplicative_score, attend, attention_decoder_step, repaired_decoder) and mine:
    with torch.no_grad():
        told = share_of_words(repaired_decoder, mine["attention"][160])
    print(f"repaired_decoder right words: {told:.2f}")

# %% [markdown]
# ## 8 · Experiment: why does the fixed vector fail?
#
# Bahdanau et al. "conjecture that the use of a fixed-length vector is a bottleneck" (abstract): all
# that a sentence says must be compressed into it. Is it too small, or does the network just not
# *learn* to use it? First the arithmetic: three days out of 21,915 are 43 bits, and 48 numbers of
# 32 bits hold at most 1,536.
#
# <details><summary>Predict first: with two dates, what helps the fixed vector more, twice the width
# or three times the steps?</summary>
#
# From 48 numbers and 160 steps, with about 0.01 of the sentences right, twice the width leads to
# 0.07, three times the steps to about 0.4. From 0.4, either leads to nearly 0.8.
#
# </details>
#
# Three arms with equally many parameters: attention; the fixed vector; and as a control the plain
# *mean* of the encoded words, trained like that from the start, which has all words but no choice.
# For each arm, width $N$ and number of steps the rate was tuned alike, on validation sentences and
# a seed of its own. Then five seeds read 993 test sentences, none of which is in the training set
# (`course/02_alignment/train.py arms`: 20 minutes of processor time).


# %% jupyter={"source_hidden": true}
def by_dates(arm: str, width: int, steps: int, count: int) -> list[float]:
    """Each seed's share of sentences without a mistake."""
    chosen = [r for r in date_translators.rows(width, steps) if r["arm"] == arm]
    runs = [[r for r in chosen if (r["seed"], r["dates"]) == (seed, count)] for seed in range(5)]
    return [date_translators.share(run) for run in runs]


CELLS = sorted((e["arm"], e["width"], e["steps"]) for e in date_translators.table())
print("share without a mistake, median of 5 seeds; a tuned rate for each entry")
print("                            two dates              three dates")
print("arm           width   160    480   1440 steps   160    480   1440 steps")
for arm, width in dict.fromkeys(cell[:2] for cell in CELLS):
    told = [np.median(by_dates(arm, width, s, n)) for n in (2, 3) for s in (160, 480, 1440)]
    two, three = (" ".join(f"{share:6.2f}" for share in told[i : i + 3]) for i in (0, 3))
    print(f"{arm:13s} {width:4d} {two}      {three}")

# %% jupyter={"source_hidden": true}
display(
    charts.bands(
        [
            {"steps": steps, "share": share, "model": f"{arm}, {width} wide"}
            for arm, width, steps in CELLS
            if arm == "fixed vector" or (arm, width) == ("attention", 24)
            for share in by_dates(arm, width, steps, 2)
        ],
        "steps",
        "share",
        "model",
        title="Two dates: both width and training help the fixed vector",
        description="Share of sentences with two dates that are right against training steps, mean "
        "and range of five seeds. With attention, 24 wide, these five seeds have 0.95 or more "
        "from 160 steps on. With one fixed vector it rises with the steps, and is higher the wider "
        "the vector: after 160 steps at most 0.1, after 1,440 about 0.3 with 24 numbers, 0.76 "
        "with 48 and 0.95 with 96.",
        x_title="training steps (log scale)",
        y_title="share without a mistake, two dates",
        log_x=10,
    )
)

# %% [markdown]
# After 160 steps the fixed vector is not full. With 48 numbers, the share with two dates is about
# 0.01 then and nearly 0.8 after 1,440, and some with three come out right. More width helps as
# well, at every number of steps. But with three dates, attention with 24 numbers and 160 steps is
# right more often on average (0.5; seventeen runs, 0.06 to 0.83) than any fixed vector in the
# table, up to 96 numbers and 1,440 steps. The control, the plain mean, stays within 0.08 of the
# fixed vector in every column (one date, not shown: 0.12). So a mean of all words does
# about as well as the last two states; what attention adds is the choice.
#
# Collins et al. (2017) found something similar for plain networks, LSTM and GRU on their tasks:
# with careful training their capacities are nearly the same, about one real number per hidden unit,
# and many differences come from training.
#
# And is it the *length*? "Saturday the 7th of march 1987" has twice the words of "7 march 1987",
# but says the same. In the chart the fixed vector's lines are nearly level while the number of
# dates stays: with 11 words, two dates are right in about 0.4 of the sentences, three dates in
# about 0.01. Longer sentences of a real language usually say more, and the papers plot length.

# %% jupyter={"source_hidden": true}
names = {1: "one vector, 1 date", 2: "one vector, 2 dates", 3: "one vector, 3 dates"}
display(
    charts.bands(
        [
            {
                "words": row["words"],
                "share": row["right"] / row["count"],
                "model": names[row["dates"]] if row["arm"] == "fixed vector" else "attention",
            }
            for row in date_translators.rows(48, 480)
            if row["arm"] != "plain mean" and row["count"] >= 20  # of fewer it says little
        ],
        "words",
        "share",
        "model",
        title="48 wide, 480 steps: what counts is the number of dates, not of words read",
        description="Share of sentences without a mistake against source words, 3 to 17, mean and "
        "range of five seeds. With attention it is near 1 throughout. With one fixed vector it is "
        "near 1 for one date, 3 to 6 words; 0.4 to 0.5 for two dates, 7 to 12 words; near 0 for "
        "three dates, 11 to 17 words. Within one number of dates the lines are nearly level.",
        x_title="words in the source",
        y_title="share without a mistake",
    )
)

# %% [markdown]
# **What this does not show.** Whether width helps because there is more room or because it makes
# training easier; wider networks also have more parameters. Whether facts make it hard or words to
# write: each date brings both. Whether the fixed vector would catch up with three dates: after
# 1,440 steps no run has more than 0.34. And it is one small task, with each rate tuned on a single
# seed.

# %% [markdown]
# ## 9 · Break it
#
# **Four dates.** All training sentences had one, two or three.

# %% jupyter={"source_hidden": true}
if mine:
    model = mine["attention"][160]
    longer = date_translators.draw(103, 200, (4,))
    print(f"four dates: share without a mistake {shares(model, longer)[4]:.3f}")
    phrase = "7 march 1987 and 8 april 1998 and 9 may 2009 and 10 june 2010"
    print(phrase, "\n   →", *model.translate(phrase.split())[0])

# %% [markdown]
# In eleven runs not one of 200 was right. In the example each wrote three dates, as many as it had
# ever seen.
#
# **One query, one place.** Soft attention returns a mean. If two words fit equally well, it returns
# something between them, which may be neither: chapter 05 looks several times side by side.
#
# **No order.** Scores and sum do not care about the order of the encoded words. Which year is
# the second is known only because the recurrent encoder wrote it into the vectors: chapter 06.
#
# **Cost.** $T \times S$ scores. Of this translator's multiplications (48 wide), attention takes 8 %
# at $S = T = 32$, 26 % at 128 and 58 % at 512. Each recurrent step waits for the one before, and so
# do its scores here, because the state asks; the $S$ scores of one step do not wait for each other.
# The next chapters drop the recurrence (Vaswani et al. 2017): in training, a layer then makes all
# $T \times S$ scores at once.

# %% [markdown]
# ## 10 · Optional: hard attention, learning from luck
#
# Why compute the mean of *all* encoded words if one has nearly all the weight? Xu et al. (2015)
# **draw** one place from the weights and use only that ("hard" attention). But drawing has no
# slope: move a score a little, and either the same place is drawn or another. So follow the
# gradient of what is *expected*. If place $s$ earns the reward $R_s$ (such as the log-probability
# of the right word), and with $\partial a_s = a_s\, \partial \ln a_s$,
#
# $$\begin{gathered}
# J = \sum_s a_s R_s, \\
# \frac{\partial J}{\partial e_j} = \sum_s a_s\, R_s \frac{\partial \ln a_s}{\partial e_j} =
# \mathbb E_{s \sim a}\big[ R_s\, (\delta_{sj} - a_j) \big] ,
# \end{gathered}$$
#
# because $\ln a_s = e_s - \ln \sum_i \exp(e_i)$; $\delta_{sj}$ is 1 if $j = s$, else 0. A mean
# under the weights can be estimated by drawing: if the drawn place's reward is positive, raise its
# score and lower the others; if negative, the reverse. This is REINFORCE (Williams 1992).
# Subtracting a **baseline** $b$ from the reward keeps the mean, because $\sum_s a_s (\delta_{sj} -
# a_j) = a_j - a_j = 0$, and can take away much of the variance.

# %% [markdown]
# <!-- exercise: hard_attention_sample -->
#
# **Why.** Draw, and estimate. Lay the weights end to end on a line from 0 to 1; each place owns a
# piece as long as its weight, and a uniform random number $u$ falls into one of them. (So that your
# function can be checked, $u$ is an argument.)
#
# $$\begin{gathered}
# \text{place } s \text{ owns } [\,F_s,\ F_{s+1}), \\
# F_0 = 0,\ \ F_{s+1} = F_s + a_s ; \\
# g_j = (R_s - b)\,(\delta_{sj} - a_j)
# \end{gathered}$$
#
# From here on places count from 0, as in your code.
#
# | symbol | argument or result | shape |
# |---|---|---|
# | $a$ | `weights` | $(\ldots, S)$ |
# | $u$ | `uniforms` | $(\ldots)$ |
# | $R$ | `rewards`; only the drawn place's is known, the others may be NaN | $(\ldots, S)$ |
# | $b$ | `baseline` | a number |
# | $s$ | first result, the place drawn, `int64` | $(\ldots)$ |
# | $g$ | second result: the estimate for each score | $(\ldots, S)$ |
#
# **By hand.** Weights $(0.2,\ 0.5,\ 0.3)$: the pieces end at $0.2$, $0.7$ and $1$. $u = 0.65$ falls
# into the second, place 1. It earned $R = 6$, the baseline is $4$:
#
# $$\begin{aligned}
# g &= 2 \cdot (-0.2,\ 1 - 0.5,\ -0.3) \\
# &= (-0.4,\ 1,\ -0.6) .
# \end{aligned}$$
#
# It sums to 0.
#
# **PyTorch you need.** `x.cumsum(dim=-1)` gives running sums. A comparison gives True and False,
# which `sum` counts; `clamp(max=...)` cuts off what is too large; `gather` picks one entry of each
# row:
#
# ```python
# prices = torch.tensor([[3.0, 5.0, 9.0], [1.0, 2.0, 4.0]])
# (prices <= 4).sum(dim=-1)                                 # tensor([1, 3])
# choice = torch.tensor([2, 0])
# prices.gather(-1, choice[..., None])                      # [[9.], [1.]]
# (torch.arange(3) == choice[..., None]).to(prices.dtype)   # [[0, 0, 1], [1, 0, 0]]
# ```
#
# <details><summary>Predict first: all rewards are equal to the baseline. What is the estimate? And
# if all rewards are equal, but the baseline is 0?</summary>
#
# Zero. Without a baseline, each draw pushes the drawn place up (down, if rewards are negative, as
# log-probabilities are), and only on average do the pushes cancel: variance without any use.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.alignment import hard_attention_sample

# %% [markdown]
# **What you should see.** Eight places; one earns 11, the others 10. Add a rate times
# $g$ to the scores, 300 times. The exact gradient knows all rewards. The baseline is one moving
# average over 64 such problems side by side, and starts at 10. Each way at the best of three rates,
# five runs.

# %% jupyter={"source_hidden": true}
WAYS = ("exact gradient", "one draw, with a baseline", "one draw, no baseline")


def climb(seed: int, way: str, rate: float) -> list[dict]:
    """The weight of the best place, every tenth step, mean over 64 problems."""
    chance = torch.Generator().manual_seed(1000 * SEED + seed)
    scores, rewards = torch.zeros(64, 8), torch.full((64, 8), 10.0)
    rewards[:, 0] = 11.0
    running, found = 10.0, []
    for step in range(301):
        weights = scores.softmax(dim=-1)
        if step % 10 == 0:
            found.append({"step": step, "weight": weights[:, 0].mean().item()})
        if way == "exact gradient":
            g = weights * (rewards - (weights * rewards).sum(dim=-1, keepdim=True))
        else:
            baseline = 0.0 if way == "one draw, no baseline" else running
            u = torch.rand(64, generator=chance)
            places, g = hard_attention_sample(weights, u, rewards, baseline)
            running += 0.1 * (rewards.gather(-1, places[:, None]).mean().item() - running)
        scores = scores + rate * g
    return found


if ready(hard_attention_sample):
    climbed = over_seeds(climb, range(5), way=WAYS, rate=(0.02, 0.1, 0.5))
    best_rows = []
    for way in WAYS:
        ends = {
            rate: [
                r["weight"] for r in climbed if (r["way"], r["rate"], r["step"]) == (way, rate, 300)
            ]
            for rate in (0.02, 0.1, 0.5)
        }
        best = max(ends, key=lambda rate: np.mean(ends[rate]))
        best_rows += [r for r in climbed if r["way"] == way and r["rate"] == best]
        print(f"{way:26s} rate {best:4.2f}  {min(ends[best]):.2f} to {max(ends[best]):.2f}")
    display(
        charts.bands(
            best_rows,
            "step",
            "weight",
            "way",
            title="The same mean, another variance",
            description="Weight of the best of eight places against steps, 0 to 300, mean and "
            "range of five runs, each way at its best rate. The exact gradient and one draw with "
            "a baseline rise together, from 0.125 to 0.99. Without a baseline the weight reaches "
            "about a quarter.",
            x_title="step",
            y_title="weight of the best place (mean of 64 problems)",
        )
    )

# %% [markdown]
# With this baseline, one draw does almost as well as the exact gradient. (Started at 0, it reaches
# 0.8 to 0.9.) Without a baseline none of these rates gets far, because 10 is large beside the
# difference of 1: each draw adds $10\,(1 - a_s)$ or $11\,(1 - a_s)$ times the rate to the score of
# *whatever* $s$ was drawn. At a large rate the softmax is soon sure of a place that luck chose; at
# a small one the climb is slow.

# %% [markdown]
# ## 11 · Optional: local attention
#
# Luong et al. (2015) stay soft, but look only at a **window** around a centre $p_t$. *Local-m* sets
# $p_t = t$; *local-p* predicts $p_t$ from the state, as a number between the first and the last
# place (times $S$ in the paper; $S - 1$ if places count from 0):
#
# $$p_t = (S - 1) \cdot \operatorname{sigmoid}\big(\tanh(h W_p) \cdot v_p\big) .$$
#
# A window has hard edges: moving its centre a little changes nothing, until a word drops out. So a
# bell (a Gaussian) is laid over it, which moves with the centre and gives it a slope.

# %% [markdown]
# <!-- exercise: local_attention -->
#
# **Why.** With $w$ for how far the window reaches (Luong's $D$), and $\sigma = w/2$:
#
# $$\begin{gathered}
# a_{ts} = \frac{\exp(e_{ts})}{\sum_{|j - p_t| \le w} \exp(e_{tj})} \cdot
# \exp\!\left(-\frac{(s - p_t)^2}{2 \sigma^2}\right) \\
# \text{if } |s - p_t| \le w, \qquad a_{ts} = 0 \text{ otherwise.}
# \end{gathered}$$
#
# The first factor is a softmax over the window, whose sum is 1; `gaussian=False` leaves out the
# second. The product is *not* made to sum to 1 again, as in the paper.
#
# | symbol | argument or result | shape |
# |---|---|---|
# | $e_{ts}$ | `scores` | $(\ldots, T, S)$ |
# | | `values` | $(\ldots, S, E)$ |
# | $p_t$ | `centre`: a real number for each query | $(\ldots, T)$ |
# | $w$ | `window`, at least 1 | a whole number |
# | $c_t$, $a_{ts}$ | returned: contexts, weights | $(\ldots, T, E)$, $(\ldots, T, S)$ |
#
# **By hand.** Five places, equal scores, centre $2.5$, window $1$ ($\sigma = 0.5$). Inside are
# places 2 and 3, at a distance of $0.5$: half the weight each, times $\exp(-0.5) = 0.607$, so
# $0.303$.
#
# **PyTorch you need.** `torch.arange(5)` is $0, 1, 2, 3, 4$. `x.masked_fill(condition, -torch.inf)`
# puts $-\infty$ wherever the condition is True, and $\exp(-\infty) = 0$: a softmax gives these
# places no weight.
#
# <details><summary>Predict first: gaussian=False. Through what can the centre learn?</summary>
#
# Through nothing: the weights depend on it only by who is inside, which jumps. So local-m fixes its
# centre, and local-p needs the bell.
#
# </details>

# %% tags=["exercise"]
from attend_solutions.alignment import local_attention

# %% [markdown]
# **What you should see.** Equal scores, 12 places, window 3; the bell moves with the centre.

# %%
if ready(local_attention):
    centres = torch.tensor([3.0, 4.25, 5.5, 8.0, 10.0])
    _, weights = local_attention(torch.zeros(5, 12), torch.zeros(12, 1), centres, window=3)
    for centre, row in zip(centres, weights, strict=True):
        print(f"centre {centre:5.2f}  " + " ".join(f"{w:.2f}" if w else " .  " for w in row))

# %% [markdown]
# ## A postcard
#
# > Keep a vector for each source word. At every step: score, softmax, mean. The state *before* the
# > step asks, and the context goes into the step.
# >
# > Additive: $\tanh(q W_q + k W_k) \cdot v$. Multiplicative: $q \cdot k$, or $q W k^\top$.
# >
# > The alignment was not given. Here it emerged, because looking at the right word makes the next
# > word easier. It costs $T \times S$ scores.
# >
# > Hard attention draws one place. A baseline can take away variance: with rewards of 10 and 11,
# > learning was far slower without one. Local attention looks at a window, and must know where.
#
# **Before:** chapter 01, recurrent networks. **Next:** chapter 03, which takes the dot score and
# puts a scale to it.
#
# ## Sources
#
# - Attention in a decoder, the additive score, the bidirectional encoder: Bahdanau, Cho and Bengio
#   2015, *Neural Machine Translation by Jointly Learning to Align and Translate*, §3, appendix A.
# - Dot and general, local attention: Luong, Pham and Manning 2015, *Effective Approaches to
#   Attention-based Neural Machine Translation*, §3.1 and §3.2, equations (7), (9) and (10).
# - Hard attention: Xu et al. 2015, *Show, Attend and Tell*, §4.1. REINFORCE and its baseline:
#   Williams 1992, *Simple Statistical Gradient-Following Algorithms for Connectionist Reinforcement
#   Learning*.
# - Encoder and decoder, the GRU: Cho et al. 2014, *Learning Phrase Representations using RNN
#   Encoder-Decoder for Statistical Machine Translation* (there it scores phrase pairs for another
#   system); Sutskever, Vinyals and Le 2014, *Sequence to Sequence Learning with Neural Networks*.
#   Long sentences: Cho et al. 2014b, *On the Properties of Neural Machine Translation*.
# - Capacity: Collins, Sohl-Dickstein and Sussillo 2017, *Capacity and Trainability in Recurrent
#   Neural Networks*. Attention without recurrence: Vaswani et al. 2017, *Attention Is All You
#   Need*.
# - Adam: Kingma and Ba 2015. Do weights explain? Jain and Wallace 2019, *Attention is not
#   Explanation*; Wiegreffe and Pinter 2019, *Attention is not not Explanation*.
