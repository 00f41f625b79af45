"""Exercise 01_recurrence/lstm_cell: what must hold, how it goes wrong, other ways to write it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from attend_solutions import recurrence
from attend_solutions.types import Array

from attend_grader.chapters.ch01_recurrence.shared import (
    GATES,
    LN3,
    PROMISES,
    SIZES,
    WIDE,
    any_sizes,
    cell_draws,
    each_alone,
    huge_sums,
    inside,
    logistic,
    overflowed,
    weights,
    wide,
)
from attend_grader.checks.compare import PRINTED
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Fresh, Known, agrees, known, worked
from attend_grader.checks.properties import normal
from attend_grader.checks.subject import Subject


def _inputs(rng: np.random.Generator, b: int, c: int, n: int) -> tuple[Array, ...]:
    """Random x (b, c), h and memory (b, n), w_x (c, 4n), w_h (n, 4n) and bias (4n,)."""
    w_x, w_h = weights(rng, c, 4 * n), weights(rng, n, 4 * n)
    x, h, memory = normal(rng, b, c), inside(rng, b, n), normal(rng, b, n)
    return x, h, memory, w_x, w_h, normal(rng, 4 * n)


FAR = 1000.0
"""A memory may be far outside −1 to 1: it counts."""


def _gated(rng: np.random.Generator, i: float, f: float) -> Known:
    """A memory, some of it far from 0, with input and forget gate set by the bias."""
    x, h, c, w_x, w_h, b = _inputs(rng, 3, 2, 4)
    w_x[:, :8] = w_h[:, :8] = 0.0
    b[:8] = np.repeat([i, f], 4)
    c[:, :2] = FAR * np.sign(c[:, :2] - 1e-3)
    written = np.tanh((x @ w_x + h @ w_h + b)[:, 8:12])
    new = (c if f > 0 else 0.0) + (written if i > 0 else 0.0)
    inputs = (x, h, c, w_x, w_h, b)
    told = ["open" if gate > 0 else "shut" for gate in (i, f)]
    why = f"the input gate is {told[0]} and the forget gate {told[1]}"
    yield why, inputs, (recurrence.lstm_cell(*inputs)[0], new)


def _state(subject: Subject, probe: Probe) -> None:
    """The state is the output gate times tanh of the new memory (the learner's own)."""
    for _ in probe.repeat(1, 3):
        for sizes in SIZES:
            arguments = x, h, c, w_x, w_h, b = _inputs(probe.rng, *sizes)
            value = probe.call(subject, *arguments).value
            own = value[1] if isinstance(value, (tuple, list)) and len(value) == 2 else None
            if not isinstance(own, np.ndarray) or own.shape != c.shape:
                probe.agree(subject, *arguments)
                continue
            gate = logistic((x @ w_x + h @ w_h + b)[:, -c.shape[1] :])
            want = (gate * np.tanh(own), own)
            why = "from your second result, taken as the new memory"
            probe.agree(subject, *arguments, want=want, part=0, why=why)


def _memory(rng: np.random.Generator) -> Fresh:
    yield from any_sizes(_inputs)(rng)
    x, h, memory, w_x, w_h, b = _inputs(rng, 2, 3, 4)
    yield "a memory far outside −1 to 1", Call((x, h, FAR * memory, w_x, w_h, b))
    yield from each_alone(_inputs, "x", "h", "c", "w_x", "w_h", "b")(rng)


def _huge(rng: np.random.Generator) -> Fresh:
    yield from huge_sums(_inputs)(rng)
    x, h, memory, w_x, w_h, b = _inputs(rng, 2, 4, 3)
    b[3:6] = -1000.0
    why = "a forget gate's sum near −1000, and a memory near 1e12, of which nothing is left"
    yield why, Call((x, h, 1e12 * memory, w_x, w_h, b))


MEMORY = "sigmoid(f) * c + sigmoid(i) * np.tanh(g)"
STATE = "sigmoid(o) * np.tanh(new_c)"

SLIPS = (
    Slip(
        "order i, f, o, g",
        ("i, f, g, o =", "i, f, o, g ="),
        "The blocks are read as i, f, o, g. Their order should be i, f, g, o: the candidate the "
        "third, the output gate the fourth.",
    ),
    Slip(
        "order f, i, g, o",
        ("i, f, g, o =", "f, i, g, o ="),
        "Input gate and forget gate are exchanged. Take the first block for the input gate i, the "
        "second for the forget gate f.",
    ),
    Slip(
        "state from the old memory",
        ("np.tanh(new_c)", "np.tanh(c)"),
        "The new state is made from the old memory. Work out the new memory first, and make the "
        "state from that one.",
    ),
    Slip(
        "no output gate",
        ("sigmoid(o) * ", ""),
        "The new state is tanh of the new memory in full: the output gate is missing. It should "
        "decide how much of the memory is shown: o · tanh(c_t).",
    ),
    Slip(
        "sigmoid for the candidate",
        ("np.tanh(g)", "sigmoid(g)"),
        "The candidate lies between 0 and 1: it went through a sigmoid. It should be no gate but "
        "new content between −1 and 1: g = tanh(a_g).",
    ),
    Slip(
        "no sigmoid on the gates",
        (("sigmoid(f)", "f"), ("sigmoid(i)", "i"), ("sigmoid(o)", "o")),
        "The gates are the bare sums, of any size. A gate should say how much gets through, from "
        "0 to 1: take the sigmoid of a_i, a_f and a_o.",
    ),
    Slip(
        "tanh on the memory itself",
        ((MEMORY, f"np.tanh({MEMORY})"), ("np.tanh(new_c)", "new_c")),
        "The memory itself goes through tanh, so that it cannot leave −1 to 1 and is squeezed "
        "anew at each step. Keep it as it is, f · c + i · g; only the state should show tanh of "
        "it.",
    ),
    Slip(
        "forget gate the wrong way round",
        ("sigmoid(f) * c", "(1 - sigmoid(f)) * c"),
        "The memory is multiplied by 1 − forget gate. Despite its name, a forget gate of 1 should "
        "keep everything: f · c.",
    ),
    Slip(
        "1 added to the forget gate's sum",
        ("sigmoid(f)", "sigmoid(f + 1)"),
        "The forget gate's sum has 1 added to it. A bias that starts at 1 belongs in b, and "
        "training moves it: take f = σ(a_f).",
    ),
    Slip(
        "blocks dealt out in turn",
        (
            "np.split(x @ w_x + h @ w_h + b, 4, axis=-1)",
            "np.moveaxis((x @ w_x + h @ w_h + b).reshape(*h.shape, 4), -1, 0)",
        ),
        "Every fourth column is read as one block. Take each block as one piece of N columns: "
        "np.split(…, 4, axis=-1).",
    ),
    Slip(
        "forget gate on what is written too",
        (MEMORY, "sigmoid(f) * (c + sigmoid(i) * np.tanh(g))"),
        "The forget gate also multiplies what is written. It should act on the old memory only; "
        "what is written has its own gate: f · c + i · g.",
    ),
    Slip(
        "one gate for both, as in the GRU",
        ("sigmoid(i) *", "(1 - sigmoid(f)) *"),
        "What is written has the share 1 − forget gate, as in the GRU. Take the LSTM's own input "
        "gate for it, so that it can keep and write at once: i · g.",
    ),
)


def sliced(x, h, c, w_x, w_h, b):
    """One product; blocks by slices; the logistic function spelled out; a list."""
    n = c.shape[1]
    sums = b + np.concatenate([x, h], axis=1) @ np.concatenate([w_x, w_h])
    gates = logistic(sums)
    i, f, o = gates[:, :n], gates[:, n : 2 * n], gates[:, 3 * n :]
    memory = i * np.tanh(sums[:, 2 * n : 3 * n]) + f * c
    return [o * np.tanh(memory), memory]


def by_gates(x, h, c, w_x, w_h, b):
    """Each gate from its own weights."""
    n = b.shape[0] // 4
    blocks = []
    for k in range(4):
        own = slice(k * n, (k + 1) * n)
        a = np.einsum("bc,cn->bn", x, w_x[:, own]) + np.einsum("bm,mn->bn", h, w_h[:, own]) + b[own]
        blocks.append(np.tanh(a) if k == 2 else (np.tanh(a / 2) + 1) / 2)
    i, f, g, o = blocks
    memory = f * c + i * g
    return o * np.tanh(memory), memory


EXERCISE = Exercise(
    chapter="01_recurrence",
    title="A step of the LSTM",
    goal="Write the cell with three gates and a memory that is added to, not overwritten.",
    reference=recurrence.lstm_cell,
    contract=replace(PROMISES, says=(GATES,)),
    properties=(
        worked(
            "a hand-worked example: gates 1/4, 1/2, 3/4",
            *(np.array([[1.0]]), np.array([[0.0]]), np.array([[2.0]])),
            *(np.array([[-LN3, 0.0, LN3, LN3]]), np.zeros((1, 4)), np.zeros(4)),
            want=(np.array([[0.6252]]), np.array([[1.2]])),  # 0.25 · 0.8 + 0.5 · 2; 0.75 · tanh
            parts=(1, 0),
            tolerance=PRINTED,
            why="the gates i, f, o are 1/4, 1/2, 3/4 and the candidate is 0.8",
        ),
        known(
            "forget gate open: the memory stays, and with both gates open it is added to",
            lambda rng: (*_gated(rng, -WIDE, WIDE), *_gated(rng, WIDE, WIDE)),
            part=1,
        ),
        known(
            "forget gate shut, input gate open: the candidate replaces it",
            lambda rng: _gated(rng, WIDE, -WIDE),
            part=1,
        ),
        Property("state: the output gate times tanh of your new memory", 1, _state),
        agrees("the new memory, for any batch, input and state size", _memory, part=1),
        agrees("huge sums are safe", _huge, repeat=1, clue=overflowed),
    ),
    draws=cell_draws(_inputs),
    wide=wide(_inputs),
    slips=SLIPS,
    alternatives=(sliced, by_gates),
    hints=(
        "The sums are those of rnn_step before its tanh, four times as wide. Which four things do "
        "they decide, in which order, and which of them is no gate?",
        "np.split(sums, 4, axis=-1) gives the blocks i, f, g, o. Sigmoid for the three gates, tanh "
        "for g. The new memory first, then the new state from it.",
        "new_c is sigmoid(f) times c plus sigmoid(i) times tanh(g), number by number; new_h is "
        "sigmoid(o) times tanh(new_c). Return new_h, new_c.",
    ),
    minutes=12,
    difficulty=2,
    importance=4,
    results=("new_h", "new_c"),
)
