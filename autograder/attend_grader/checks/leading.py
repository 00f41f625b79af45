"""The promise of leading axes: a stack of calls gives what its entries give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attend_grader.checks.calls import (
    Leaf,
    Path,
    leaves,
    numbers,
    parts,
    reference_on,
    replaced,
    run_ahead,
    stacked,
    usable,
)
from attend_grader.checks.compare import Miss, longer
from attend_grader.checks.probe import Call, Probe, Test
from attend_grader.checks.subject import Subject, SubjectError
from attend_grader.checks.trials import ALIKE, Draws, Trial, form_of, keep_tried

STACKS = {(2,): (0, 1), (1,): (2,), (3, 2): (0, 1, 1, 2, 2, 0)}
"""Leading axes that a stack is tried with, and which of three entries stand there, in order. With
the length 1, ``squeeze`` takes one too many; no two rows or columns of the last one are alike."""
PAIR = {(2,): (0, 1)}
TRIES = 4
"""Seeds that are tried for a second call of the same shapes."""


def leading(draws: Draws, *, stacks: tuple[str, ...] | None, shared: tuple[str, ...]) -> Test:
    """A stack of calls gives what its entries give.

    Args:
        draws: where entries come from: the same draw with other numbers.
        stacks: arguments that have leading axes; None: all arrays.
        shared: those that may also lack them, or have length 1 there.
    """

    def test(subject: Subject, probe: Probe) -> None:
        made: list[tuple[Trial, Stack]] = []
        seeds = probe.rng.integers(2**32, size=3)
        seen: Counter[Any] = Counter()
        for entries in zip(*(draws(np.random.default_rng(s)) for s in seeds), strict=True):
            seen[form := form_of(entries[0])] += 1
            if seen[form] <= ALIKE:
                trial = Trial(subject, probe, entries[0])
                made += [(trial, s) for s in _stacks(trial, entries, STACKS, stacks, shared)]
        run_ahead([(trial.bench, call) for trial, stack in made for call in stack.entries])
        usual = [
            (trial, stack)
            for trial, stack in made
            if all(usable(trial.bench(call), infinite=True) for call in stack.entries)
        ]
        run_ahead([(trial.bench, stack.call) for trial, stack in usual])
        for trial, stack in usual:
            _same_stack(trial, stack)
        keep_tried(len(usual))

    return test


def with_stack(made: Sequence[Trial], draws: Draws, stacks: tuple[str, ...] | None) -> list[Trial]:
    """The trials, and one with a leading axis of length 2: of the draw with the most arrays.

    What a function does to an argument, or to whole numbers, it may do in its loop over the leading
    axis only.

    Args:
        made: trials of ``draws``.
        draws: where a second entry comes from.
        stacks: arguments that have leading axes; None: all arrays.
    """
    if not made:
        return []
    most = max(made, key=lambda trial: len(trial.leaves()))
    for seed in range(TRIES):
        other = [call for call in draws(np.random.default_rng(seed)) if _alike(call, most)]
        for call in other:
            found = stack_of(most, call, stacks)
            if found is not None:
                return [*made, Trial(most.subject, most.probe, found)]
    return list(made)


def stack_of(trial: Trial, other: Call, stacks: tuple[str, ...] | None) -> Call | None:
    """A stack of two calls, where they fit: the trial's and another."""
    found = next(_stacks(trial, (trial.call, other), PAIR, stacks, ()), None)
    return None if found is None else found.call


def _alike(call: Call, trial: Trial) -> bool:
    """Whether a call is like a trial's in all but its numbers."""
    shapes = [
        [(leaf.path, numbers(leaf.value).shape) for leaf in leaves(each, trial.names)]
        for each in (call, trial.call)
    ]
    return form_of(call) == form_of(trial.call) and shapes[0] == shapes[1]


@dataclass(frozen=True)
class Stack:
    """Calls that are stacked.

    Attributes:
        call: the whole stack.
        entries: its entries, each alone.
        shape: of the leading axes.
        common: arguments that all entries share and that lack the leading axes.
    """

    call: Call
    entries: tuple[Call, ...]
    shape: tuple[int, ...]
    common: tuple[str, ...]


def _stacks(
    trial: Trial,
    entries: Sequence[Call],
    shapes: Mapping[tuple[int, ...], Sequence[int]],
    stacks: tuple[str, ...] | None,
    shared: tuple[str, ...],
) -> Iterator[Stack]:
    """One draw's calls in stacks of several shapes; none where the calls' own shapes differ."""
    named = [
        [leaf for leaf in leaves(entry, trial.names) if stacks is None or root(leaf) in stacks]
        for entry in entries
    ]
    forms = {tuple((leaf.path, numbers(leaf.value).shape) for leaf in row) for row in named}
    if len(forms) != 1 or not named[0]:
        return
    widest = max(numbers(leaf.value).ndim for leaf in named[0])
    for common in [(), *((name,) for name in shared if any(root(x) == name for x in named[0]))]:
        single: list[Call] = []
        for row in named:
            use = [
                leaf if root(leaf) not in common else own
                for leaf, own in zip(row, named[0], strict=True)
            ]
            single.append(replaced(trial.call, {leaf.path: leaf.value for leaf in use}))
        for shape, picked in shapes.items():
            whole: dict[Path, Any] = {}
            for column in zip(*(named[place] for place in picked), strict=True):
                if root(column[0]) not in common:
                    wide = [_widened(leaf, widest) for leaf in column]
                    whole[column[0].path] = stacked(wide, shape)
            call = _shifted(replaced(trial.call, whole), len(shape))
            yield Stack(call, tuple(single[place] for place in picked), shape, common)


def _widened(leaf: Leaf, axes: int) -> Any:
    """A mask with axes of length 1 in front, so that it still broadcasts once it is stacked."""
    value = leaf.value
    if leaf.kind != "boolean":
        return value
    return value.reshape((1,) * (axes - value.ndim) + tuple(value.shape))


def root(leaf: Leaf) -> str:
    """The argument that an array belongs to."""
    return leaf.name.partition("[")[0]


def _shifted(call: Call, more: int) -> Call:
    """Axes counted from the start lie further on in a stack."""
    moved = {
        name: call.kwargs[name] + more
        for name in ("axis", "dim")
        if isinstance(call.kwargs.get(name), int) and call.kwargs[name] >= 0
    }
    return replace(call, kwargs={**call.kwargs, **moved})


def _same_stack(trial: Trial, stack: Stack) -> None:
    call, shape, common = stack.call, stack.shape, stack.common
    bases = [trial.bench(entry) for entry in stack.entries]
    what = f"one more leading axis, of length {shape[0]}"
    if len(shape) > 1:
        what = f"{len(shape)} more leading axes, {' × '.join(map(str, shape))}"
    if common:
        what += f", shared by {' and '.join(common)}"
    outcome = trial.bench(call)
    if outcome.error is not None:
        raise SubjectError(outcome.error, f"{what}: {trial.given(call)}")
    got = parts(outcome.value)
    many = isinstance(bases[0].value, (tuple, list))
    single = any(numbers(part).dtype.itemsize < 8 for part in parts(bases[0].value))
    alike = trial.alike()
    for place, base in zip(np.ndindex(shape), bases, strict=True):
        wants = parts(base.value)
        if len(got) != len(wants):
            raise Miss(f"{what}: the number of results is another than without.").on(
                trial.given(call), ""
            )
        entries = []
        for index, (part, want) in enumerate(zip(got, wants, strict=True)):
            name = alike.name(index, len(wants))
            expected = (*shape, *numbers(want).shape)
            if numbers(part).shape != expected:
                _keep_shape_alone(trial, stack.entries[0], index, name, numbers(want).shape)
                raise Miss(
                    f"{what}: {name} has the shape {numbers(part).shape}, expected {expected}: "
                    "one answer for each leading index.",
                    cause=longer(numbers(part).shape, expected),
                    topic="leading axes",
                ).on(trial.given(call), "")
            entries.append(numbers(part)[place])
        found = alike.difference(tuple(entries) if many else entries[0], base.value, single=single)
        if found is not None:
            name, mine, want = found
            raise Miss(
                f"{what}: for leading index {list(place)} {name} is {mine}, but {want} when that "
                "entry is given alone.",
                topic="leading axes",
            ).on(trial.given(call), "")


def _keep_shape_alone(
    trial: Trial, entry: Call, index: int, name: str, shape: tuple[int, ...]
) -> None:
    """Hold the result for one entry to the right shape: else it, and not the stack, is to blame.

    Args:
        trial: whose calls are stacked.
        entry: one of them, alone.
        index: of the result.
        name: what a message calls the result.
        shape: that the subject gave.

    Raises:
        Miss: the result has another shape.
    """
    right = reference_on(trial.probe.reference, entry)(entry)
    shapes = [numbers(part).shape for part in parts(right.value)]
    if index < len(shapes) and shapes[index] != shape:
        raise Miss(
            f"already without one more leading axis {name} has the shape {shape}, expected "
            f"{shapes[index]}.",
            topic="leading axes",
        ).on(trial.given(entry), "")
