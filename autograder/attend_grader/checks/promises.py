"""The tests behind a contract: each compares the learner's function with itself.

Where the function already fails on the plain call there is nothing to compare, and the call is
passed over: its own properties say what is wrong. A promise that could be tried on no call at all
is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attend_grader.checks.alike import Alike
from attend_grader.checks.calls import (
    Leaf,
    Path,
    cast,
    is_tensor,
    leaves,
    numbers,
    parts,
    replaced,
    rounded,
    stacked,
    usable,
    views,
)
from attend_grader.checks.compare import Miss
from attend_grader.checks.probe import Call, Probe, Test
from attend_grader.checks.subject import Outcome, Subject, SubjectError
from attend_grader.checks.trials import Draws, Trial, keep_tried, trials

Whole = Mapping[str, Callable[[np.ndarray], np.ndarray]]

STACKS = ((2,), (1,), (3, 2))
"""Leading axes that a stack is tried with; with the length 1, ``squeeze`` takes one too many."""


def kinds(
    draws: Draws,
    *,
    integers: bool,
    single: bool,
    double: bool,
    layouts: bool,
    same_dtype: bool,
    whole: Whole,
) -> Test:
    """Integers, float32, float64 and views, in each argument in turn and in all at once."""

    def test(subject: Subject, probe: Probe) -> None:
        tried = 0
        for trial in trials(subject, probe, draws):
            base = trial.bench(trial.call)
            if not usable(base):
                continue
            tried += 1
            if same_dtype:
                _keep_dtype(trial, trial.call, base)
            if layouts:
                _try_views(trial, base)
            if integers:
                _try_integers(trial, whole)
            tensors = any(is_tensor(leaf.value) for leaf in trial.leaves())
            if (double if tensors else single) and trial.call.build is None:
                _try_width(trial, "float64" if tensors else "float32", same_dtype)
        keep_tried(tried)

    return test


def _try_views(trial: Trial, base: Outcome) -> None:
    for leaf in trial.leaves():
        if not leaf.value.ndim:
            continue
        for how, laid in views(leaf.value).items():
            single = numbers(leaf.value).dtype.itemsize < 8
            call = replaced(trial.call, {leaf.path: laid})
            what = f"{leaf.name} {how}"
            trial.same(call, base, what, single=single, plain="a copy of it")


def _each_and_all(
    changes: dict[Path, Any], names: dict[Path, str], *, but_one: bool = False
) -> Iterator[tuple[str, dict]]:
    for path, value in changes.items():
        yield names[path], {path: value}
    if len(changes) > 1:
        yield "every argument", changes
    if but_one and len(changes) > 2:  # a product of two integers, then `+=` of a float
        for left in changes:
            rest = {path: value for path, value in changes.items() if path != left}
            yield f"every argument but {names[left]}", rest


def _try_integers(trial: Trial, whole: Whole) -> None:
    floats = trial.floats()
    names = {leaf.path: leaf.name for leaf in floats}
    rounds = {
        leaf.path: whole[leaf.name](leaf.value) if leaf.name in whole else rounded(leaf.value)
        for leaf in floats
    }
    single = any(is_tensor(leaf.value) for leaf in floats)
    for name, changes in _each_and_all(rounds, names, but_one=True):
        base = trial.bench(replaced(trial.call, changes))
        if not usable(base):
            continue
        stored = {path: cast(value, "int64") for path, value in changes.items()}
        call = replaced(trial.call, stored)
        plain = "the same numbers as floats"
        trial.same(call, base, f"integers in {name}", single=single, plain=plain)


def _try_width(trial: Trial, dtype: str, same_dtype: bool) -> None:
    """The other width of floats: numbers that both can hold."""
    floats = trial.floats()
    names = {leaf.path: leaf.name for leaf in floats}
    other = {leaf.path: cast(cast(leaf.value, "float32"), dtype) for leaf in floats}
    plain_type = "float64" if dtype == "float32" else "float32"
    tries = _each_and_all(other, names)
    if dtype == "float64":  # torch multiplies no matrices of different types
        tries = iter([("every argument", other)])
    for name, changes in tries:
        plain = {path: cast(value, plain_type) for path, value in changes.items()}
        base = trial.bench(replaced(trial.call, plain))
        if usable(base):
            call = replaced(trial.call, changes)
            what = f"{dtype} in {name}"
            outcome = trial.same(
                call, base, what, single=True, plain=f"the same numbers in {plain_type}"
            )
            if same_dtype and name == "every argument":
                _keep_dtype(trial, call, outcome)
                if dtype == "float64":
                    _keep_digits(trial, call, outcome)


def _keep_digits(trial: Trial, call: Call, outcome: Outcome) -> None:
    """Hold results that are right to float32's digits to those of float64.

    Raises:
        Miss: something was rounded to float32 on the way.
    """
    want = trial.right(*call.args, **call.kwargs)
    alike = Alike(trial.right, replace(call, build=None), trial.names, trial.probe.results)
    if alike.difference(outcome.value, want, single=True) is not None:
        return
    found = alike.difference(outcome.value, want, single=False)
    if found is not None:
        place, mine, right = found
        text = f"float64 in every argument: {place} is {mine}, expected {right}. "
        text += "Yours is right to float32's digits only."
        raise Miss(text, topic="digits of float64").on(trial.given(call), "")


def _keep_dtype(trial: Trial, call: Call, outcome: Outcome) -> None:
    """Hold results to the floating types that the reference gives.

    Raises:
        Miss: one has another type.
    """
    want = trial.right(*call.args, **call.kwargs)
    alike = Alike(trial.right, call, trial.names, trial.probe.results)
    for index, (mine, right) in enumerate(zip(parts(outcome.value), parts(want), strict=False)):
        got, expected = (str(getattr(x, "dtype", type(x).__name__)) for x in (mine, right))
        if got != expected:
            name = alike.name(index, len(parts(want)))
            text = f"{name} has the type {got}, expected {expected}."
            raise Miss(text, topic="type of the result").on(trial.given(call), "")


def unchanged(draws: Draws, *, integers: bool, widths: bool, whole: Whole) -> Test:
    """No argument is written to: on every draw, in every type that is accepted."""

    def test(subject: Subject, probe: Probe) -> None:
        tried = 0
        for trial in trials(subject, probe, draws):
            tried += _stays(trial, trial.call)
            floats = trial.floats()
            if integers:
                made = {
                    leaf.path: cast(
                        whole[leaf.name](leaf.value) if leaf.name in whole else rounded(leaf.value),
                        "int64",
                    )
                    for leaf in floats
                }
                _stays(trial, replaced(trial.call, made))
            for dtype in ("float32", "float64") if widths else ():
                _stays(
                    trial,
                    replaced(trial.call, {leaf.path: cast(leaf.value, dtype) for leaf in floats}),
                )
        keep_tried(tried)

    return test


def _stays(trial: Trial, call: Call) -> bool:
    """Hold one call to leaving its arguments alone; whether it came to a result."""
    outcome = trial.bench(call)
    if outcome.mutated:
        named = [trial.names[i] if isinstance(i, int) else i for i in outcome.mutated]
        raise Miss(
            f"your function changes its argument {' and '.join(named)} in place: whoever called "
            "it would find it changed. Assign to a new name; `x -= y` and `x[...] = y` "
            "write into the array itself, `z = x - y` makes a new one.",
            topic="changes an argument",
        ).on(trial.given(call), "")
    return outcome.error is None


def leading(draws: Draws, *, stacks: tuple[str, ...] | None, shared: tuple[str, ...]) -> Test:
    """A stack of calls gives what its entries give.

    Args:
        draws: where entries come from: the same draw with other numbers.
        stacks: arguments that have leading axes; None: all arrays.
        shared: those that may also lack them, or have length 1 there.
    """

    def test(subject: Subject, probe: Probe) -> None:
        tried = 0
        for shape in STACKS:
            count = int(np.prod(shape))
            seeds = probe.rng.integers(2**32, size=count)
            together = zip(*(draws(np.random.default_rng(s)) for s in seeds), strict=True)
            for entries in together:
                tried += _try_stack(
                    Trial(subject, probe, entries[0]), entries, shape, stacks, shared
                )
        keep_tried(tried)

    return test


def _try_stack(
    trial: Trial,
    entries: Sequence[Call],
    shape: tuple[int, ...],
    stacks: tuple[str, ...] | None,
    shared: tuple[str, ...],
) -> int:
    """Stack one draw's calls; the number of stacks that were compared."""
    named = [
        [leaf for leaf in leaves(entry, trial.names) if stacks is None or root(leaf) in stacks]
        for entry in entries
    ]
    forms = {tuple((leaf.path, numbers(leaf.value).shape) for leaf in row) for row in named}
    if len(forms) != 1 or not named[0]:
        return 0
    tried, widest = 0, max(numbers(leaf.value).ndim for leaf in named[0])
    for common in [(), *((name,) for name in shared if any(root(x) == name for x in named[0]))]:
        single: list[Call] = []
        for row in named:
            use = [
                leaf if root(leaf) not in common else own
                for leaf, own in zip(row, named[0], strict=True)
            ]
            single.append(replaced(trial.call, {leaf.path: leaf.value for leaf in use}))
        bases = [trial.bench(call) for call in single]
        if not all(usable(base) for base in bases):
            continue
        whole: dict[Path, Any] = {}
        for column in zip(*named, strict=True):
            if root(column[0]) not in common:
                whole[column[0].path] = stacked([_widened(leaf, widest) for leaf in column], shape)
        call = _shifted(replaced(trial.call, whole), len(shape))
        _same_stack(trial, call, bases, shape, common)
        tried += 1
    return tried


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


def _same_stack(
    trial: Trial,
    call: Call,
    bases: Sequence[Outcome],
    shape: tuple[int, ...],
    common: tuple[str, ...],
) -> None:
    axes = "one leading axis" if len(shape) == 1 else f"{len(shape)} leading axes"
    what = f"{axes}, {' × '.join(map(str, shape))}"
    if common:
        what += f", shared by {' and '.join(common)}"
    outcome = trial.bench(call)
    if outcome.error is not None:
        raise SubjectError(outcome.error, f"{what}: {trial.given(call)}")
    got = parts(outcome.value)
    many = isinstance(bases[0].value, (tuple, list))
    single = any(numbers(part).dtype.itemsize < 8 for part in parts(bases[0].value))
    alike = Alike(trial.right, replace(trial.call, build=None), trial.names, trial.probe.results)
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
                raise Miss(
                    f"{what}: {name} has the shape {numbers(part).shape}, expected {expected}: "
                    "one answer for each leading index.",
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
