"""Exercise 02_alignment/encode: what must hold, how it goes wrong, other ways to write it.

The oracle is torch's own bidirectional GRU.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from attend_solutions import alignment
from torch import Tensor, nn

from attend_grader.chapters.ch02_alignment.shared import PROMISES, Cell, gru, gru_by_hand, undecided
from attend_grader.checks.compare import FLOAT32, PRINTED
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import Known, known, worked
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import normal

Inputs = tuple[Tensor, Cell, Cell]


def _inputs(rng: np.random.Generator, b: int, s: int, c: int, n: int) -> Inputs:
    """x (B, S, C) and two cells."""
    return normal(rng, b, s, c), gru(rng, c, n), gru(rng, c, n)


def _torchs_gru(x: Tensor, forward: Cell, backward: Cell) -> Tensor:
    """What nn.GRU makes of the same sentences and weights: (B, S, 2N)."""
    n = forward[1].shape[1]
    module = nn.GRU(x.shape[-1], n, batch_first=True, bidirectional=True)
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    state = dict(zip(names, forward, strict=True))
    state |= {f"{name}_reverse": w for name, w in zip(names, backward, strict=True)}
    module.load_state_dict(state)
    with torch.no_grad():
        return module(x)[0]


def _one_word(rng: np.random.Generator) -> Known:
    x, *cells = _inputs(rng, 2, 1, 3, 4)
    steps = [torch.gru_cell(x[:, 0], torch.zeros(2, 4), *cell) for cell in cells]
    want = torch.cat(steps, 1)[:, None]
    yield "one word only: one step of each cell", (x, cells[0], cells[1]), want


def _half(which: int, name: str) -> Property:
    """The forward (0) or the backward (1) states alone."""

    def test(subject: Subject, probe: Probe) -> None:
        for _ in probe.repeat(1, 3):
            for b, s, c, n in ((2, 4, 3, 5), (3, 3, 3, 3), (1, 12, 2, 4), (2, 3, 1, 1)):
                inputs = _inputs(probe.rng, b, s, c, n)
                want = _torchs_gru(*inputs)
                got = probe.call(subject, *inputs).value
                if isinstance(got, Tensor) and got.shape == want.shape and got.is_floating_point():
                    other = slice(0, n) if which else slice(n, 2 * n)
                    want[..., other] = got[..., other].detach()  # the other half is not looked at
                side = "backward states, last N numbers" if which else "forward states, first N"
                why = f"{side} (B = {b}, S = {s}, C = {c}, N = {n})"
                probe.agree(subject, *inputs, want=want, tolerance=FLOAT32, why=why)

    return Property(name, 2, test)


def draws(rng: np.random.Generator) -> list[Call]:
    """All lengths different; all lengths alike; one word; one sentence; many words."""
    sizes = (
        (2, 4, 3, 5),
        (3, 3, 3, 3),
        (2, 1, 2, 3),
        (1, 5, 1, 2),
        (2, int(rng.integers(20, 40)), 1, 2),
    )
    return [Call(_inputs(rng, *each)) for each in sizes]


STEP = "h = torch.gru_cell(x[:, s], h, *cell)"
KEEP = "states[s] = h"
ZEROS = "h = x.new_zeros(x.shape[0], cell[1].shape[1])"
THERE, BACK = "read(places, forward)", "read(places[::-1], backward)"

SLIPS = (
    Slip(
        "backward states not turned round",
        ("sorted(states)", "states"),
        "The backward states lie in the order in which they were made: the state after reading "
        "the last word lies at place 0. Put each at its word's place: turn their list round, with "
        "[::-1], before you stack it.",
    ),
    Slip(
        "read forward twice",
        ("places[::-1]", "places"),
        "Both cells read from the first word to the last. The second has to begin at the last "
        "word: run over reversed(range(S)).",
    ),
    Slip(
        "backward reading not started from zeros",
        (
            ("cell: tuple[Tensor, ...])", "cell: tuple[Tensor, ...], h=None)"),
            (ZEROS, f"{ZEROS} if h is None else h"),
            (BACK, f"read(places[::-1], backward, {THERE}[:, -1])"),
        ),
        "The backward reading starts from the last forward state. It should start from zeros, as "
        "the forward one does: set h to zeros again before the second loop.",
    ),
    Slip(
        "one cell for both directions",
        ("read(places[::-1], backward)", "read(places[::-1], forward)"),
        "Both readings use the cell `forward`. From the last word to the first, read with the "
        "cell `backward`, which has weights of its own.",
    ),
    Slip(
        "backward states from before their word",
        (
            BACK,
            f"torch.cat([{BACK}[:, 1:], x.new_zeros(len(x), 1, forward[1].shape[1])], dim=1)",
        ),
        "The backward state at each place is the one from before its word was read, so the word "
        "itself is missing from it. In the second loop, too, take the step first, then keep.",
    ),
    Slip(
        "backward reading stopped early",
        (BACK, f"torch.cat([0 * {BACK}[:, :1], {BACK}[:, 1:]], dim=1)"),
        "The backward state of the first word is 0, as if the second loop stopped one word too "
        "soon: range(S - 1, 0, -1) ends at 1. Take reversed(range(S)).",
    ),
    Slip(
        "looped over the sentences",
        (
            (ZEROS, ZEROS.replace("x.shape[0]", "x.shape[1]")),
            ("x[:, s]", "x[s]"),
            ("dim=1)", "dim=0)"),
            ("range(x.shape[1])", "range(x.shape[0])"),
        ),
        "The loop runs over the sentences: the state goes from one sentence to the next, and no "
        "word knows those beside it. Loop over the words: x[:, s], for each s in range(S).",
    ),
    Slip(
        "backward states first",
        (f"{THERE}, {BACK}", f"{BACK}, {THERE}"),
        "The backward states come first. Put the forward states first.",
    ),
    Slip(
        "state not carried on",
        ("x[:, s], h,", "x[:, s], torch.zeros_like(h),"),
        "Each word is encoded by itself: every step starts from zeros again. Give the cell the "
        "state that the step before returned: h = torch.gru_cell(x_s, h, *cell).",
    ),
    Slip(
        "kept the state before the step",
        (f"{STEP}\n            {KEEP}", f"{KEEP}\n            {STEP}"),
        "Each place holds the state from before its word was read. Take the step first, then keep "
        "the state.",
    ),
    Slip(
        "detached in the loop",
        ("x[:, s], h,", "x[:, s], h.detach(),"),
        "The values are right, but words do not get their whole gradient: a word or a state is "
        "detached before it goes into the cell. Hand over both as they are.",
    ),
)


def by_hand(x, forward, backward):
    """The cell written out; the backward reading runs on the reversed sentence."""

    def read(words, cell):
        h = torch.zeros(words.shape[0], cell[1].shape[1], dtype=words.dtype)
        states = []
        for word in words.unbind(1):
            h = gru_by_hand(word, h, *cell)
            states.append(h)
        return torch.stack(states, 1)

    return torch.cat((read(x, forward), read(x.flip(1), backward).flip(1)), -1)


def in_place(x, forward, backward):
    """Both directions in one loop, written into one tensor."""
    b, s, _ = x.shape
    n = forward[1].shape[1]
    out = x.new_zeros((b, s, 2 * n))
    there = back = x.new_zeros((b, n))
    for i in range(s):
        there = torch.gru_cell(x[:, i], there, *forward)
        back = torch.gru_cell(x[:, s - 1 - i], back, *backward)
        out[:, i, :n] = there
        out[:, s - 1 - i, n:] = back
    return out


EXERCISE = Exercise(
    chapter="02_alignment",
    title="The encoder",
    goal="Read a sentence in both directions, and keep what was known at every word.",
    reference=alignment.encode,
    contract=replace(
        PROMISES,
        gradients=("x", "forward", "backward"),
        forbids=(
            "torch.nn.GRU",
            "torch.gru",
            "torch.nn.RNNBase",
            "torch.ops",
            "torch._VF.gru",
            "torch.nn.modules.rnn.GRU",
            "torch.nn.modules.rnn.RNNBase",
        ),
    ),
    properties=(
        worked(
            "a hand-worked example: three words, gates of 1/2",
            torch.tensor([[[9.0], [-9.0], [0.0]]]),
            undecided([1.0]),
            undecided([-1.0]),
            want=torch.tensor([[[0.5, -0.25], [-0.25, 0.5], [-0.125, 0.0]]]),
            why="all gates 1/2, so each state is half the state before plus half of tanh",
            tolerance=PRINTED,
        ),
        known("one word: one step of each cell, from zeros", _one_word, tolerance=FLOAT32),
        _half(0, "forward states agree with torch's GRU"),
        _half(1, "backward states agree with it, each at its own word"),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=(by_hand, in_place),
    hints=(
        "Start with one direction: a state of zeros, a loop over the words, a list that grows by "
        "one state at each word. What changes for the other direction?",
        "The second loop runs over the words from the last to the first, with the other cell and a "
        "fresh state of zeros. Its list grows in that order too: turn it round before stacking, so "
        "that entry s belongs to word s.",
        "The state of zeros is (B, N): `x.new_zeros(B, N)`, N from the second tensor of a cell, "
        "`cell[1].shape[1]`. In the loop, `h = torch.gru_cell(x[:, s], h, *cell)`, then append. "
        "`torch.stack(states, dim=1)` gives (B, S, N); `torch.cat` puts both directions side by "
        "side along the last axis.",
    ),
    minutes=15,
    difficulty=3,
    importance=4,
)
