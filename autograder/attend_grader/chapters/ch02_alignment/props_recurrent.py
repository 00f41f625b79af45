"""Chapter 02, the recurrent parts: what must hold of the encoder and of the decoder's step.

The oracles are torch's own bidirectional GRU and GRU cell, and worked numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attend_grader.checks.compare import FLOAT32, FLOAT64, PRINTED
from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_properties import (
    agree_dtype,
    agree_gradients,
    agree_untouched,
    normal,
)

Cell = tuple[Tensor, ...]


def gru(rng: np.random.Generator, inputs: int, n: int) -> Cell:
    """The weights of a GRU with N states: (3N, inputs), (3N, N), (3N,), (3N,)."""
    shapes = ((3 * n, inputs), (3 * n, n), (3 * n,), (3 * n,))
    return tuple(normal(rng, *shape) for shape in shapes)


def undecided(*rows: list[float]) -> Cell:
    """A GRU whose gates are all 1/2: the new state is tanh(input · row) / 2 + state / 2."""
    n, zeros = len(rows), torch.zeros(2 * len(rows), len(rows[0]))
    w_input = torch.cat([zeros, torch.tensor(rows)])
    return w_input, torch.zeros(3 * n, n), torch.zeros(3 * n), torch.zeros(3 * n)


# encode


def torchs_gru(x: Tensor, forward: Cell, backward: Cell) -> Tensor:
    """What nn.GRU makes of the same sentences and weights: (B, S, 2N)."""
    n = forward[1].shape[1]
    module = nn.GRU(x.shape[-1], n, batch_first=True, bidirectional=True).to(x.dtype)
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    state = dict(zip(names, forward, strict=True))
    state |= {f"{name}_reverse": w for name, w in zip(names, backward, strict=True)}
    module.load_state_dict(state)
    with torch.no_grad():
        return module(x)[0]


def encode_worked(subject: Subject, probe: Probe) -> None:
    """Words 9, -9, 0; the forward cell adds half the sign, the backward cell half its opposite."""
    x = torch.tensor([[[9.0], [-9.0], [0.0]]])
    want = torch.tensor([[[0.5, -0.25], [-0.25, 0.5], [-0.125, 0.0]]])
    cells = undecided([1.0]), undecided([-1.0])
    why = "all gates 1/2, so each state is half the state before plus half of tanh"
    probe.agree(subject, x, *cells, want=want, tolerance=PRINTED, why=why)


def encode_one_word(subject: Subject, probe: Probe) -> None:
    """One word: one step of each cell, from zeros."""
    x, cells = normal(probe.rng, 2, 1, 3), (gru(probe.rng, 3, 4), gru(probe.rng, 3, 4))
    start = torch.zeros(2, 4)
    want = torch.cat([torch.gru_cell(x[:, 0], start, *cell) for cell in cells], dim=-1)[:, None]
    why = "one word only: one step of each cell"
    probe.agree(subject, x, *cells, want=want, tolerance=FLOAT32, why=why)


def _half(which: int) -> Callable[[Subject, Probe], None]:
    """A test of the forward (0) or the backward (1) states alone."""

    def test(subject: Subject, probe: Probe) -> None:
        for _ in probe.repeat(1, 3):
            for b, s, c, n in ((2, 4, 3, 5), (3, 3, 3, 3), (1, 6, 2, 4)):
                x, cells = normal(probe.rng, b, s, c), (gru(probe.rng, c, n), gru(probe.rng, c, n))
                want = torchs_gru(x, *cells)
                got = probe.call(subject, x, *cells).value
                if isinstance(got, Tensor) and got.shape == want.shape and got.is_floating_point():
                    mine = slice(0, n) if which else slice(n, 2 * n)
                    want[..., mine] = got[..., mine].detach()  # the other half is not looked at
                side = "backward states, last N numbers" if which else "forward states, first N"
                why = f"{side} (B = {b}, S = {s}, N = {n})"
                clue = _half_clue(x, cells[which], which)
                probe.agree(subject, x, *cells, want=want, tolerance=FLOAT32, why=why, clue=clue)

    return test


def _half_clue(x: Tensor, cell: Cell, which: int) -> Callable[[Any], str]:
    """A clue: what one direction's states are instead of what they should be."""
    words = x.flip(1) if which else x  # in the order in which they are read
    zeros = x.new_zeros(x.shape[0], cell[1].shape[1])
    states = [zeros]
    for word in words.unbind(1):
        states.append(torch.gru_cell(word, states[-1], *cell))
    alone = [torch.gru_cell(word, zeros, *cell) for word in words.unbind(1)]
    slips = (
        (
            states[:0:-1],
            "The states are there, in the opposite order: those of the last word belong to the "
            "last place.",
        ),
        (
            states[:-1],
            "The states are there, each one place late: the state at a word is the one after "
            "reading it. Take the step first, then keep the state.",
        ),
        (
            alone,
            "Each word is read by itself, from zeros: give the cell the state that the step before "
            "returned.",
        ),
    )

    def clue(value: Any) -> str:
        n = zeros.shape[1]
        got = torch.as_tensor(value)[..., which * n : (which + 1) * n]
        for read, told in slips:
            like = torch.stack(read, dim=1)
            if torch.allclose(got, like.flip(1) if which else like, atol=1e-5):
                return told
        return ""

    return clue


def encode_gradients(subject: Subject, probe: Probe) -> None:
    """The gradient goes back through every step to every word."""
    x, cells = normal(probe.rng, 2, 4, 3), (gru(probe.rng, 3, 4), gru(probe.rng, 3, 4))
    agree_gradients(probe, subject, x, *cells, wrt=(0,))


def encode_awkward(subject: Subject, probe: Probe) -> None:
    """Views, float64; and the arguments stay as they were."""
    x, cells = normal(probe.rng, 2, 4, 3), (gru(probe.rng, 3, 2), gru(probe.rng, 3, 2))
    agree_untouched(probe, subject, x, *cells)
    agree_dtype(probe, subject, x, *cells, tolerance=FLOAT64)


ENCODE = (
    Property("a hand-worked example: three words, gates of 1/2", 1, encode_worked),
    Property("one word: one step of each cell, from zeros", 1, encode_one_word),
    Property("forward states agree with torch's GRU", 2, _half(0)),
    Property("backward states agree with it, each at its own word", 2, _half(1)),
    Property("gradients go back through all steps", 1, encode_gradients),
    Property("views and float64 work; arguments stay as they were", 1, encode_awkward),
)


def encode_draws(rng: np.random.Generator) -> list[Call]:
    """All lengths different; all lengths alike; one word; one sentence."""
    return [
        Call((normal(rng, 2, 4, 3), gru(rng, 3, 5), gru(rng, 3, 5))),
        Call((normal(rng, 3, 3, 3), gru(rng, 3, 3), gru(rng, 3, 3))),
        Call((normal(rng, 2, 1, 2), gru(rng, 2, 3), gru(rng, 2, 3))),
        Call((normal(rng, 1, 5, 1), gru(rng, 1, 2), gru(rng, 1, 2))),
    ]


# attention_decoder_step


def step_inputs(
    rng: np.random.Generator, b: int, s: int, c: int, n: int, e: int, general: bool = True
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Cell]:
    """Arguments of one step; without ``general``, for the dot score (E = N)."""
    e = e if general else n
    weight = 0.5 * normal(rng, n, e) if general else None
    vectors = normal(rng, b, c), normal(rng, b, n), normal(rng, b, s, e)
    return *vectors, weight, gru(rng, c + e, n)


def step_worked(subject: Subject, probe: Probe) -> None:
    """Scores ln 3 and 0, so weights 3/4 and 1/4; the cell sees the context alone."""
    embedded, state = torch.tensor([[5.0]]), torch.tensor([[1.0]])
    encoded = torch.tensor([[[1.0], [0.0]]])
    weight = torch.tensor([[3.0]]).log()
    after = torch.tensor([[0.5 + 0.5 * np.tanh(1.5)]], dtype=torch.float32)
    want = (after, torch.tensor([[0.75]]), torch.tensor([[0.75, 0.25]]))
    for part in (2, 1, 0):
        cell = undecided([0.0, 2.0])
        why = "scores ln 3 and 0; all gates 1/2; the cell reads 0 · word + 2 · context"
        arguments = (embedded, state, encoded, weight, cell)
        probe.agree(subject, *arguments, want=want, part=part, tolerance=PRINTED, why=why)


SIZES = ((2, 4, 3, 5, 6), (3, 3, 3, 3, 3), (1, 5, 2, 4, 4))
"""(B, S, C, N, E): all different, all alike, one sentence."""


def _part(part: int, why: str) -> Callable[[Subject, Probe], None]:
    """A test of one of the three results."""

    def test(subject: Subject, probe: Probe) -> None:
        for _ in probe.repeat(1, 3):
            for sizes in SIZES:
                inputs = step_inputs(probe.rng, *sizes)
                told = f"{why} (B, S, C, N, E = {', '.join(map(str, sizes))})"
                probe.agree(subject, *inputs, part=part, tolerance=FLOAT32, why=told)

    return test


def step_state(subject: Subject, probe: Probe) -> None:
    """The next state is torch's GRU cell on embedding and context (the learner's own)."""
    for sizes in SIZES:
        inputs = step_inputs(probe.rng, *sizes)
        embedded, state, _, _, cell = inputs
        want = list(probe.reference(*inputs))
        value = probe.call(subject, *inputs).value
        own = value[1] if isinstance(value, (tuple, list)) and len(value) == 3 else None
        if isinstance(own, Tensor) and own.shape == want[1].shape:
            together = torch.cat([embedded, own.detach().to(state.dtype)], dim=-1)
            want[0] = torch.gru_cell(together, state, *cell)
        else:
            probe.agree(subject, *inputs, part=1, tolerance=FLOAT32)
        why = "expected: torch's GRU cell on [embedded; your context]"
        probe.agree(subject, *inputs, want=tuple(want), part=0, tolerance=FLOAT32, why=why)


def step_dot(subject: Subject, probe: Probe) -> None:
    """Without a weight, the score is the dot product of state and encoded word."""
    for b, s, c, n in ((2, 4, 3, 5), (3, 3, 2, 3)):
        inputs = step_inputs(probe.rng, b, s, c, n, n, general=False)
        probe.agree(subject, *inputs, tolerance=FLOAT32, why="weight is None, so the dot score")


def step_one(subject: Subject, probe: Probe) -> None:
    """One encoded vector: its weight is 1, and it is the context whatever the state is."""
    inputs = step_inputs(probe.rng, 3, 1, 2, 4, 5)
    want = list(probe.reference(*inputs))
    want[1:] = inputs[2][:, 0], torch.ones(3, 1)
    why = "one encoded vector only, so it is the context"
    probe.agree(subject, *inputs, want=tuple(want), tolerance=FLOAT32, why=why)


def step_gradients(subject: Subject, probe: Probe) -> None:
    """State, context and weights carry gradients back to all that made them."""
    inputs = step_inputs(probe.rng, 2, 4, 3, 5, 6)
    agree_gradients(probe, subject, *inputs, wrt=(0, 1, 2, 3))


def step_awkward(subject: Subject, probe: Probe) -> None:
    """Views, float64; and the arguments stay as they were."""
    for general in (True, False):
        inputs = step_inputs(probe.rng, 2, 3, 2, 4, 3, general=general)
        agree_untouched(probe, subject, *inputs)
        agree_dtype(probe, subject, *inputs, tolerance=FLOAT64)


STEP = (
    Property("a hand-worked example: weights 3/4 and 1/4", 1, step_worked),
    Property("weights: from the state before the step", 1, _part(2, "the weights")),
    Property("context: the weighted mean of the encoded words", 1, _part(1, "the context")),
    Property("state: the cell on the embedding, then the context", 2, step_state),
    Property("without a weight, the dot score", 1, step_dot),
    Property("one encoded vector is the context itself", 1, step_one),
    Property("gradients reach embedding, state, words and weight", 1, step_gradients),
    Property("views and float64 work; arguments stay as they were", 1, step_awkward),
)


def step_draws(rng: np.random.Generator) -> list[Call]:
    """All lengths different, alike, the dot score, one sentence, one word."""
    return [
        Call(step_inputs(rng, 2, 4, 3, 5, 6)),
        Call(step_inputs(rng, 3, 3, 3, 3, 3)),
        Call(step_inputs(rng, 2, 4, 3, 5, 5, general=False)),
        Call(step_inputs(rng, 1, 3, 2, 4, 4)),
        Call(step_inputs(rng, 2, 1, 2, 3, 4)),
    ]
