"""What a contract promises of masks: each shape that broadcasts, all True, none, rows all False."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

from attend_grader.checks.calls import (
    Bench,
    Leaf,
    cast,
    numbers,
    parts,
    reference_on,
    replaced,
    run_ahead,
    usable,
)
from attend_grader.checks.leading import root
from attend_grader.checks.outcomes import Outcome
from attend_grader.checks.probe import Call, Probe, Test
from attend_grader.checks.subject import Subject
from attend_grader.checks.trials import Draws, Trial, form_of, keep_tried, run_together, trials

Tries = list[tuple[str, Call, Outcome]]
"""What is special about a call, the call, and what is right for it."""

NONE = "=None"
"""How what is special about a call without a mask ends."""


def masks(draws: Draws, *, named: tuple[str, ...], hidden_rows: bool) -> Test:
    """All True is None; a mask of each shape that broadcasts to a drawn one; rows that hide all.

    Where the function is right on the plain call, it must be right with each of these masks.
    """

    def test(subject: Subject, probe: Probe) -> None:
        tried: list[tuple[Trial, bool, Tries]] = []
        given, drawn = 0, trials(subject, probe, draws)
        run_together(drawn, lambda trial: [trial.call])
        for trial in drawn:
            right = reference_on(probe.reference, trial.call)
            for leaf in trial.leaves():
                if leaf.kind != "boolean" or root(leaf) not in named:
                    continue
                base, want = trial.bench(trial.call), right(trial.call)
                alike = trial.alike()
                given += usable(want)
                if not usable(base) or not usable(want):
                    continue
                single = any(numbers(p).dtype.itemsize < 8 for p in parts(want.value))
                if alike.difference(base.value, want.value, single=single) is not None:
                    continue
                tried.append((trial, single, _tries(trial, leaf, right, hidden_rows=hidden_rows)))
        run_ahead([(trial.bench, call) for trial, _, tries in tried for _, call, _ in tries])
        for trial, single, tries in tried:
            for what, call, want in tries:
                trial.same(call, want, what, single=single, plain="the right answer")
        for trial, single, tries in {form_of(each[0].call): each for each in tried}.values():
            _in_turn(trial, single, tries)
        keep_tried(
            len(tried),
            "it gives another mask to calls that your function gets right, and of the "
            f"{given} drawn here it gets none right",
        )

    return test


def _in_turn(trial: Trial, single: bool, tries: Tries) -> None:
    """Nothing of a mask is remembered: the drawn one after one of True, none after each other."""
    again = Trial(trial.subject, trial.probe, trial.call)
    asked = [(f"after {tries[0][0]}, the mask again", tries[0][1], replace(trial.call))]
    none = [(what, call) for what, call, _ in tries if what.endswith(NONE)]
    for without, (what, before, _) in product(none, tries):
        if before is not without[1]:
            asked.append((f"after {what}, {without[0]}", replace(before), replace(without[1])))
    run_ahead([(again.bench, call) for _, *both in asked for call in both])
    right = reference_on(trial.probe.reference, trial.call)
    for what, before, after in asked if again.bench.error is None else ():
        if usable(again.bench(before)):
            again.same(after, right(after), what, single=single, plain="the right answer")


def _tries(trial: Trial, leaf: Leaf, right: Bench, *, hidden_rows: bool) -> Tries:
    """The call with other masks, those that the reference takes, and what it gives."""
    mask = leaf.value
    ones = mask | ~mask
    tries = {
        f"all of {leaf.name} True": ones,
        f"{leaf.name} with one more leading axis of length 1": mask[None],
        **_narrower(leaf, hidden_rows),
    }
    if hidden_rows and mask.ndim >= 2:
        first = cast(mask, "bool")
        first[..., 0, :] = False
        tries |= {f"all of {leaf.name} False": ~ones, f"first row of {leaf.name} all False": first}
    if hidden_rows:
        nothing = mask[(*(0,) * mask.ndim, ...)]
        tries[f"{leaf.name} of the shape (), False"] = nothing & ~nothing
    tries[f"{leaf.name}{NONE}"] = None
    calls = {what: replaced(trial.call, {leaf.path: other}) for what, other in tries.items()}
    found = [(what, call, right(call)) for what, call in calls.items()]
    return [(what, call, want) for what, call, want in found if want.error is None]


def _narrower(leaf: Leaf, hidden_rows: bool) -> dict[str, Any]:
    """Masks that broadcast to the shape of this one: axes of length 1, axes left out."""
    mask, tries = leaf.value, {}
    for axis in range(mask.ndim):
        one = mask[(slice(None),) * axis + (slice(0, 1),)]
        tries[f"{leaf.name} of the shape {tuple(one.shape)}"] = one
    for left_out in range(1, mask.ndim + 1):
        rest = mask[(*(0,) * left_out, ...)]
        tries[f"{leaf.name} of the shape {tuple(rest.shape)}"] = rest
    return {
        what: other
        for what, other in tries.items()
        if other.shape != mask.shape and (hidden_rows or _shows_some(other))
    }


def _shows_some(mask: Any) -> bool:
    """Whether each row of a mask has a place that is True."""
    return bool((mask.any(-1) if mask.ndim else mask).all())
