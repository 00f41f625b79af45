"""Exercise 01_recurrence/repaired_bptt: find the one wrong line of a backward pass without sums.

The broken function stands in the notebook. What comes back from later steps does not go through
tanh's slope, which is right only where the slope is 1. The oracle is bptt's: a numerical
derivative.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from attend_solutions import recurrence

from attend_grader.chapters.ch01_recurrence.bptt import (
    RESULTS,
    by_sequences,
    numerical,
    problem,
    saturated,
    sums_kept,
    wide,
)
from attend_grader.chapters.ch01_recurrence.shared import PROMISES
from attend_grader.checks.exercise import Call, Exercise, Slip
from attend_grader.checks.helpers import Fresh, agrees


def _one_step(rng: np.random.Generator) -> Fresh:
    yield "sequences of one step", Call(problem(rng, 2, 1, 3, 4)[1])
    x, h0, states, w_x, w_h, grad_states = problem(rng, 2, 4, 3, 2)[1]
    yield "all states 0: every slope of tanh is 1", Call((x, h0, 0 * states, w_x, w_h, grad_states))


def _last(rng: np.random.Generator) -> Fresh:
    for sizes in ((2, 4, 2, 3), (3, 3, 3, 3), (1, 6, 1, 2)):
        *inputs, grad_states = problem(rng, *sizes)[1]
        grad_states[:, :-1] = 0.0
        yield "the loss looks at the last state only", Call((*inputs, grad_states))
    yield from saturated(rng)


def draws(rng: np.random.Generator) -> list[Call]:
    """Oblong, all sizes alike, one sequence, one step, one number; h0 inside and outside ±1."""
    sizes = ((2, 4, 3, 5), (3, 3, 3, 3), (1, 5, 2, 3), (2, 1, 2, 2), (2, 3, 1, 1))
    made = []
    for place, each in enumerate(sizes):
        x, h0, *rest = problem(rng, *each)[1]
        made.append(Call((x, h0 if place % 2 else h0 + 2 * np.sign(h0), *rest)))
    return made


BACK = "(grad_sums[:, t] @ w_h.T) * slopes[:, t - 1]"
START = (
    "grad_sums = grad_states * slopes  # (B, T, N), what each state's own loss sends to the sums"
)

SLIPS = (
    Slip(
        "not repaired",
        (BACK, "grad_sums[:, t] @ w_h.T"),
        "What comes back from a later step is still added without tanh's slope. It should go "
        "through the same tanh as grad_states: multiply it by slopes[:, t - 1].",
    ),
    Slip(
        "the later step's slope",
        (BACK, "(grad_sums[:, t] @ w_h.T) * slopes[:, t]"),
        "What comes back to step t − 1 is multiplied by the slope of step t. It needs that "
        "of the state it arrives at: slopes[:, t - 1].",
    ),
    Slip(
        "slope before the weights",
        (BACK, "(grad_sums[:, t] * slopes[:, t - 1]) @ w_h.T"),
        "The slope is multiplied in before w_h.T. Backwards you meet W_h first, which leads to "
        "h_{t−1}, and only then the tanh that made it: multiply by the slope last.",
    ),
    Slip(
        "slope twice on the direct part",
        (
            f"grad_sums[:, t - 1] += {BACK}",
            "grad_sums[:, t - 1] += grad_sums[:, t] @ w_h.T\n"
            "        grad_sums[:, t - 1] *= slopes[:, t - 1]",
        ),
        "Now what comes back has its slope, but the direct part, which was right, is multiplied "
        "by it a second time, at all steps but the last. Multiply only what is added.",
    ),
    Slip(
        "slope lost on the direct part",
        (START, "grad_sums = 1.0 * grad_states"),
        "What comes back has its slope now, but grad_states has lost its own. Both should go "
        "through the same tanh.",
    ),
    Slip(
        "w_h instead of its transpose",
        ("grad_sums[:, t] @ w_h.T", "grad_sums[:, t] @ w_h"),
        "What goes back to an earlier step is multiplied by w_h. The transpose was right: "
        "da[:, t] @ w_h.T.",
    ),
    Slip(
        "new state instead of old in grad_w_h",
        (
            "earlier = np.concatenate([h0[:, None], states[:, :-1]], axis=1)  # (B, T, N)",
            "earlier = states",
        ),
        "grad_w_h pairs each step with the state it made. That line was right: w_h was multiplied "
        "by the state before the step, and at the first step by h0.",
    ),
    Slip(
        "slopes once more, after the loop",
        (
            (BACK, "grad_sums[:, t] @ w_h.T"),
            ("    earlier =", "    grad_sums = grad_sums * slopes\n    earlier ="),
        ),
        "All slopes are multiplied in once more, after the loop. So the direct part has its slope "
        "twice, and what went back several steps has missed those on its way: multiply inside the "
        "loop.",
    ),
    Slip(
        "all slopes after the loop",
        (
            (START, "grad_sums = 1.0 * grad_states"),
            (BACK, "grad_sums[:, t] @ w_h.T"),
            ("    earlier =", "    grad_sums = grad_sums * slopes\n    earlier ="),
        ),
        "All slopes are multiplied in after the loop, so what comes back to a step has only that "
        "step's slope, and has missed those on its way. It should go through a tanh at each step: "
        "multiply inside the loop.",
    ),
    Slip(
        "tanh once more in the slope",
        ("states**2", "np.tanh(states) ** 2"),
        "The slope is taken as 1 − tanh²(h), but the states are tanh of the sums already. That "
        "line was right: 1 − states**2.",
    ),
    Slip(
        "carried one step only",
        ("reversed(range(1, x.shape[1]))", "range(1, x.shape[1])"),
        "Each step gets back only what the next one's own loss sends. da[:, t] must already hold "
        "what came to it from later steps when you pass it on: walk from the last step to the "
        "first.",
    ),
    Slip(
        "the loop goes on to step 0",
        ("range(1, x.shape[1])", "range(x.shape[1])"),
        "The loop goes on to t = 0, where t − 1 is −1: what goes back to h0 is added to the last "
        "step. That line was right: range(1, x.shape[1]).",
    ),
    Slip(
        "= instead of +=",
        ("grad_sums[:, t - 1] +=", "grad_sums[:, t - 1] ="),
        "What comes back replaces the direct part of each step but the last. A state is used "
        "twice, so its two parts are added: +=.",
    ),
    Slip(
        "the transpose removed, the slope still missing",
        (BACK, "grad_sums[:, t] @ w_h"),
        "What goes back to an earlier step is multiplied by w_h, and by no slope. The transpose "
        "was right, da[:, t] @ w_h.T; what is missing is the slope of the tanh that it goes "
        "through.",
    ),
)


EXERCISE = Exercise(
    chapter="01_recurrence",
    title="Repair a backward pass",
    goal="Find the one wrong line of a function whose own test passes, and repair it.",
    reference=recurrence.repaired_bptt,
    contract=replace(
        PROMISES, forbids=("bptt",), says=("No finite differences, which are not exact enough.",)
    ),
    properties=(
        agrees("one step, and slopes of 1: right, as it was", _one_step, repeat=1),
        agrees("a loss reaches every input, but not through a slope of 0", _last, part=0),
        numerical(2, RESULTS[2]),
        numerical(3, RESULTS[3]),
    ),
    draws=draws,
    wide=wide,
    slips=SLIPS,
    alternatives=(sums_kept, by_sequences),
    hints=(
        "Its test has tiny states, where tanh is nearly the identity. Compare with your bptt on "
        "states of ordinary size: at which steps does grad_x differ?",
        "The last step agrees, all earlier ones do not. So grad_states is treated right, and what "
        "comes back from later steps is not.",
        "In the loop, what is added to da[:, t - 1] must go through the tanh that made "
        "states[:, t - 1]: multiply it by 1 − states[:, t - 1]**2.",
    ),
    minutes=6,
    difficulty=2,
    importance=4,
    results=RESULTS,
)
