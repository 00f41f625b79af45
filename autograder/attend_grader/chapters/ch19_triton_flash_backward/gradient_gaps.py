"""Exercise 19_triton_flash_backward/gradient_gaps: gradients against slopes, in float32."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from attend_solutions import triton_flash_backward as answers

from attend_grader.chapters.ch19_triton_flash_backward.shared import (
    Case,
    Size,
    as_edits,
    pieces,
    usual,
)
from attend_grader.checks.compare import Miss, Tolerance, expect_close
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.kernels import launched
from attend_grader.checks.outcomes import Outcome
from attend_grader.checks.promises import changes
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import normal
from attend_grader.inside.views import thrice

GAP = Tolerance(
    "a gap in float32",
    1e-3,
    "a loss of float32 outputs is some 1e-6 off; divided by twice a step of 2^-11 or more, that is "
    "1e-3",
    absolute=5e-3,
)
LEAST_ROUNDING = 1e-5
"""At a step of 2^-18: float32 outputs leave at least 3e-3 (60 draws), float64 ones 1e-7."""


def _slopes(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, d_out: torch.Tensor,
    directions: tuple[torch.Tensor, ...], size: Size, step: float,
) -> list[float]:  # fmt: skip
    """Central differences, in float64, of plain attention."""
    found = []
    for place, direction in enumerate(directions):
        losses = []
        for sign in (1, -1):
            moved = [x.double() for x in (q, k, v)]
            moved[place] = moved[place] + sign * step * direction.double()
            scores = moved[0] @ moved[1].mT * (size.D**-0.5 if size.scale is None else size.scale)
            if size.causal:
                ahead = torch.arange(size.S) - torch.arange(size.T)[:, None] - (size.S - size.T)
                scores = scores.masked_fill(ahead > 0, -torch.inf)
            losses.append(float((torch.softmax(scores, -1) @ moved[2] * d_out).sum()))
        found.append((losses[0] - losses[1]) / (2 * step))
    return found


def _case(
    rng: np.random.Generator, size: Size, step: float, wrong: str = "", long: int = 1,
    one: bool = False,
) -> Case:  # fmt: skip
    """A call and its gaps; gradients named in ``wrong`` are spoiled, directions are ``long``.

    With ``one`` q, k and v are one tensor.
    """
    q, k, v, d_out = usual(rng, size)
    q, k = q / 2, k / 2
    k, v = (q, q) if one else (k, v)
    right = pieces(q, k, v, d_out, size.causal, size.scale)
    given = {name: right[name] for name in ("dq", "dk", "dv")}
    for name in wrong.split():
        given[name] = given[name] * 0.75
    directions = tuple(long * normal(rng, *x.shape) for x in (q, k, v))
    slopes = _slopes(q, k, v, d_out, directions, size, step)
    pairs = zip(given.values(), directions, slopes, strict=True)
    gaps = tuple(float((g.double() * u.double()).sum()) - slope for g, u, slope in pairs)
    gradients = tuple(given.values())
    why = f"{size.why()}, step {step:g}" + (f", {wrong} spoiled" if wrong else "")
    why += f", directions {long} times as long" if long > 1 else ""
    rest = d_out, gradients, directions, size.causal, size.scale, step
    if one:
        launcher = f"{thrice.__module__}:{thrice.__name__}"
        return f"{why}, q, k and v are one tensor", Call((q, *rest), launcher=launcher), gaps
    return why, Call((q, k, v, *rest)), gaps


def _gaps(name: str, points: int, *made: tuple[Any, ...], floats: bool = False) -> Property:
    def test(subject: Subject, probe: Probe) -> None:
        for arguments in made:
            why, call, want = _case(probe.rng, *arguments)
            outcome = launched(subject, probe, call)
            wrong = True
            try:
                if floats:
                    _expect_floats(outcome.value, probe.results)
                expect_close(outcome.value, want, GAP, probe.results)
                wrong = False
                _expect_six_passes(outcome, call)
            except Miss as miss:
                args = (*2 * call.args[:1], *call.args) if call.launcher else call.args
                raise miss.on(probe.given(args, {}), why) from None
            finally:
                if not call.launcher:
                    subject.judged(call, outcome, want, wrong)

    return Property(name, points, test)


def _steps(subject: Subject, probe: Probe) -> None:
    """A large step, and small ones: along large directions, and where float32 outputs show."""
    usual_steps = (Size(1, 3, 3), 1.3, "dq"), (Size(1, 3, 4), 2**-11, "dk", 256)
    _gaps("", 1, *usual_steps).test(subject, probe)
    q, k, v, d_out = (
        torch.from_numpy(probe.rng.integers(-8, 9, (1, n, 16)) / 8).float() for n in (4, 5, 5, 4)
    )
    right = pieces(q, k, v, d_out)
    given = tuple(right[name] for name in ("dq", "dk", "dv"))
    signs = tuple(
        torch.from_numpy(probe.rng.choice((-1.0, 1.0), x.shape)).float() for x in (q, k, v)
    )
    call = Call((q, k, v, d_out, given, signs, False, None, 2.0**-18))
    outcome = launched(subject, probe, call)
    gaps = [abs(float(gap)) for gap in outcome.value]
    if max(gaps) < LEAST_ROUNDING:  # not NaN, which the calls above would have shown
        text = (
            "at a step of 2^-18 no gap exceeds 1e-5, where rounding in float32 outputs leaves more "
            "than 1e-3: these losses do not come from forward_heads."
        )
        raise Miss(text, topic="losses without kernels").on(
            probe.given(call.args, call.kwargs), "moved inputs that float32 holds exactly"
        )


def _expect_six_passes(outcome: Outcome, call: Call) -> None:
    """Expect kernels to write as many numbers as the outputs of six forward passes have."""
    buffers = [b for launch in outcome.trace for b in launch["buffers"].values()]
    written, asked = sum(b["written"] for b in buffers), 6 * call.args[0].numel()
    if written < asked:
        text = (
            f"kernels write {written} numbers, and the outputs of six forward passes have {asked}: "
            "each loss is to come from forward_heads."
        )
        raise Miss(text, topic="losses without kernels")


def _expect_floats(got: Any, names: Sequence[str]) -> None:
    """Expect no tensors or arrays; what is no tuple of three, the comparison of values tells."""
    if isinstance(got, (tuple, list)):
        for name, gap in zip(names, got, strict=False):
            if not isinstance(gap, Real):
                kind = type(gap).__name__
                raise Miss(f"{name} is a {kind}, not a float.", topic="type of the result")


def _unchanged(subject: Subject, probe: Probe) -> None:
    """No tensor is written to, in the tuples neither."""
    _, call, _ = _case(probe.rng, Size(1, 3, 4), 0.25)
    outcome = launched(subject, probe, call)
    if outcome.mutated:
        names = [probe.names[place] for place in outcome.mutated if isinstance(place, int)]
        raise changes(names).on(probe.given(call.args, call.kwargs), "")


def draws(rng: np.random.Generator) -> list[Call]:
    """Spoiled gradients, a large step, causal with a scale: one call, of six launches."""
    return [_case(rng, Size(1, 3, 7, causal=True, scale=0.6), 0.25, "dq dk dv")[1]]


SLOPE = "slope = (losses[0] - losses[1]) / (2 * step)"
GAPS = "gaps.append(float((gradients[i].double() * directions[i].double()).sum() - slope))"
MOVED = "moved = [x + sign * step * directions[i] if i == j else x for j, x in enumerate(inputs)]"

SLIPS = (
    Slip(
        "a one-sided slope",
        (("for sign in (1, -1):", "for sign in (1, 0):"), ("(2 * step)", "step")),
        "A slope from one side errs by about half the step times the curvature. Take a step to "
        "either side, and divide by two steps.",
    ),
    Slip(
        "divided by one step",
        ("(2 * step)", "step"),
        "Between the two points lie two steps: the slope is twice too large.",
    ),
    Slip(
        "all three are moved at once",
        (MOVED, "moved = [x + sign * step * u for x, u in zip(inputs, directions)]"),
        "q, k and v all move, so each slope is that along all three directions together. Move one "
        "at a time.",
    ),
    Slip(
        "the gap with the other sign",
        (GAPS, GAPS.replace("float((", "-float((")),
        "The gaps have the other sign. Take the slope by gradient minus the slope by differences.",
    ),
    Slip(
        "the gradient without its direction",
        (GAPS, "gaps.append(float(gradients[i].double().sum() - slope))"),
        "The gradient is summed without the direction. The slope along it should be the sum of "
        "gradient times direction.",
    ),
    Slip(
        "the step multiplies",
        ("(2 * step)", "2 * step"),
        "The difference is divided by 2 alone, and multiplied by the step, as in x / 2 * step. "
        "Put 2 * step in brackets.",
    ),
    Slip(
        "what was moved stays moved",
        (
            ("for i in range(3):", "ends = [list(inputs), list(inputs)]\n    for i in range(3):"),
            (
                MOVED,
                "moved = ends[sign < 0]\n            "
                "moved[i] = moved[i] + sign * step * directions[i]",
            ),
        ),
        "The slope along q is right; when k is moved q still is, and when v is, both. Begin each "
        "time from the three that were given.",
    ),
    Slip(
        "a loss without d_out",
        ("(out.double() * d_out.double()).sum()", "out.double().sum()"),
        "The loss is the sum of the output alone. Sum output times d_out: the gradients are given "
        "for that.",
    ),
    Slip(
        "a mean for a loss",
        ("(out.double() * d_out.double()).sum()", "(out.double() * d_out.double()).mean()"),
        "The loss is divided by how many numbers there are. It should be their sum.",
    ),
    Slip(
        "causal left out",
        ("forward_heads(*moved, causal, scale)", "forward_heads(*moved, False, scale)"),
        "The losses are those of attention without a mask: pass causal to forward_heads.",
    ),
    Slip(
        "scale left out",
        ("forward_heads(*moved, causal, scale)", "forward_heads(*moved, causal)"),
        "The losses are those of the scale 1/√D: pass scale to forward_heads.",
    ),
    Slip(
        "causal and scale left out",
        ("forward_heads(*moved, causal, scale)", "forward_heads(*moved)"),
        "The losses are those of attention without a mask, with the scale 1/√D: pass causal and "
        "scale to forward_heads.",
    ),
)

ALTERNATIVES = as_edits(
    answers.gradient_gaps,
    {
        "one loss function": (
            ("        losses = []\n", ""),
            (f"        for sign in (1, -1):\n            {MOVED}\n"
             "            out, _ = forward_heads(*moved, causal, scale)\n"
             "            losses.append((out.double() * d_out.double()).sum())\n",
             "        def loss(by):\n            moved = list(inputs)\n"
             "            moved[i] = moved[i] + by * directions[i]\n"
             "            out = forward_heads(*moved, causal, scale)[0]\n"
             "            return (out * d_out).sum().item()\n"),
            (SLOPE, "slope = (loss(step) - loss(-step)) / step / 2"),
        ),
        "added to a total": (
            (SLOPE, "slope = (losses[0] - losses[1]).item() * 0.5 / step"),
            (GAPS, "gaps += [torch.dot(gradients[i].flatten(), directions[i].flatten()).item() "
                   "- slope]"),
        ),
    },
)  # fmt: skip

EXERCISE = Exercise(
    chapter="19_triton_flash_backward",
    title="Show: are these the gradients?",
    goal="Compare gradients with slopes that differences of the loss give.",
    reference=answers.gradient_gaps,
    contract=Contract(
        says=(
            "Arguments stay as they were.",
            "Any step of 2⁻¹¹ or more.", "The loss comes from kernels, by way of `forward_heads`.",
        ),
    ),
    properties=(
        _gaps("right gradients: small gaps, as floats", 1, (Size(1, 5, 17), 1 / 32), floats=True),
        _gaps("a spoiled gradient shows, and only that one", 2,
              (Size(1, 5, 7), 1 / 16, "dq"), (Size(2, 3, 5), 1 / 16, "dv")),
        _gaps("causal, and any scale", 1, (Size(1, 4, 6, causal=True), 1 / 16, "dk"),
              (Size(1, 4, 4, scale=0.6), 1 / 16, "dk", 1, True),
              (Size(1, 3, 5, scale=0.0), 1 / 16, "dv")),
        Property("large steps, and small ones along large directions", 1, _steps),
        Property("arguments stay as they were", 1, _unchanged),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=ALTERNATIVES,
    hints=(
        "Along a direction u, the slope by the gradient g is the sum of g times u. The slope by "
        "differences needs two losses.",
        "For each of the three: move it alone by +step · direction and by −step · direction, call "
        "forward_heads both times, and take the difference of the losses over 2 · step.",
        "out, _ = forward_heads(*moved, causal, scale); a loss is (out.double() * "
        "d_out.double()).sum(); gap = (gradient · direction).sum() − (loss₊ − loss₋) / (2 · step), "
        "as a float.",
    ),
    minutes=15,
    difficulty=3,
    importance=3,
    results=("gap of q", "gap of k", "gap of v"),
)  # fmt: skip
