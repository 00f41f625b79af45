"""The tests behind a contract: each compares the learner's function with itself.

Where the function already fails on the plain call there is nothing to compare, and the call is
passed over: its own properties say what is wrong. A promise that could be tried on no call at all
is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from attend_grader.checks.calls import (
    Leaf,
    Path,
    cast,
    is_tensor,
    numbers,
    parts,
    replaced,
    rounded,
    run_ahead,
    usable,
    views,
)
from attend_grader.checks.compare import Miss
from attend_grader.checks.leading import with_stack
from attend_grader.checks.outcomes import Outcome
from attend_grader.checks.probe import Call, Probe, Test
from attend_grader.checks.subject import Subject
from attend_grader.checks.trials import (
    ALIKE,
    Draws,
    Trial,
    form_of,
    keep_tried,
    run_together,
    trials,
)
from attend_grader.inside.kernels import kernels_of

Whole = Mapping[str, Callable[[np.ndarray], np.ndarray]]

SEVEN = (
    "Yours is right to some 7 digits only: is something rounded to float32, or cut off, or is a "
    "small number added?"
)

TURNS = 3
"""How often one more call is made, with numbers other than the first one's."""

ROUNDED = "It is off by no more than rounding to float32 can make it here."
"""Said of values for which even float32 is a coarse grid, as of differences of large numbers."""

CHANGES, OVERWRITES = "changes an argument", "changes an earlier result"
"""Topics of what is lost where memory of others is written to."""

Stacks = tuple[str, ...] | None
"""Arguments that have leading axes: None for all arrays, empty for none."""


def kinds(
    draws: Draws,
    *,
    integers: bool,
    single: bool,
    double: bool,
    layouts: bool,
    one_array: bool,
    same_dtype: bool,
    whole: Whole,
    stacks: Stacks = (),
) -> Test:
    """Integers, float32, float64 and views, in each argument in turn and in all at once.

    With ``one_array``, arrays of one shape also come as one and the same array.
    """

    def variants(trial: Trial) -> list[Variant]:
        tensors = any(is_tensor(leaf.value) for leaf in trial.leaves())
        found = _views(trial) if layouts else []
        found += _one_array(trial) if one_array else []
        if integers:
            found += _integers(trial, whole)
        if (double if tensors else single) and trial.call.build is None:
            found += _widths(trial, "float64" if tensors else "float32")
        return found

    def test(subject: Subject, probe: Probe) -> None:
        drawn = trials(subject, probe, draws, alike=ALIKE)
        drawn = drawn if stacks == () else with_stack(drawn, draws, stacks)
        run_together(drawn, lambda trial: [trial.call])
        usual = [trial for trial in drawn if usable(trial.bench(trial.call), infinite=True)]
        tries = {id(trial): variants(trial) for trial in usual}
        run_together(usual, lambda trial: [call for v in tries[id(trial)] for call in v.calls])
        for trial in usual:
            if same_dtype:
                _keep_dtype(trial, trial.call, trial.bench(trial.call))
            for variant in tries[id(trial)]:
                _try(trial, variant, same_dtype=same_dtype)
        keep_tried(len(usual))

    return test


@dataclass(frozen=True)
class Variant:
    """A call in another guise.

    Attributes:
        what: what is special about it: "integers in k".
        base: the same numbers in a plain guise.
        call: the variant.
        single: whether float32 takes part.
        plain: what the plain guise is called: "the same numbers as floats".
        width: the type that every argument has; empty where that is not what it is about.
    """

    what: str
    base: Call
    call: Call
    single: bool
    plain: str
    width: str = ""

    @property
    def calls(self) -> tuple[Call, Call]:
        """Both."""
        return self.base, self.call


def _try(trial: Trial, variant: Variant, *, same_dtype: bool) -> None:
    base = trial.bench(variant.base)
    if not usable(base, infinite=True):
        return
    call = variant.call
    told: dict[str, Any] = {"single": variant.single, "plain": variant.plain}
    outcome = trial.same(call, base, variant.what, made=variant.base, **told)
    if same_dtype and variant.width:
        _keep_dtype(trial, call, outcome)
        if variant.width == "float64":
            _keep_digits(trial, call, outcome)


def _views(trial: Trial) -> list[Variant]:
    found = []
    for leaf in trial.leaves():
        single = numbers(leaf.value).dtype.itemsize < 8
        for how, laid in views(leaf.value).items() if leaf.value.ndim else ():
            call = replaced(trial.call, {leaf.path: laid})
            found.append(Variant(f"{leaf.name} {how}", trial.call, call, single, "a copy of it"))
    return found


def _one_array(trial: Trial) -> list[Variant]:
    """Arguments of one shape as one array, two by two and all."""
    alike: dict[Any, list[Leaf]] = {}
    for leaf in trial.floats():
        if len(leaf.path) == 1 and isinstance(leaf.path[0], int):
            alike.setdefault(numbers(leaf.value).shape, []).append(leaf)
    found = []
    for group in alike.values():
        for some in (*combinations(group, 2), *([group] if len(group) > 2 else [])):
            first, *rest = some
            base = replaced(trial.call, {leaf.path: first.value.copy() for leaf in rest})
            call = replace(base, shared=tuple(int(leaf.path[0]) for leaf in some))
            what = f"one array as {', '.join(leaf.name for leaf in rest)} and {first.name}"
            found.append(Variant(what, base, call, False, "copies of it"))
    return found


def _each_and_all(
    changes: dict[Path, Any], names: dict[Path, str], *, but_one: bool = False
) -> Iterator[tuple[str, dict]]:
    for path, value in changes.items():
        yield names[path], {path: value}
    if len(changes) > 1:
        yield "every array", changes
    if but_one and len(changes) > 2:  # a product of two integers, then `+=` of a float
        for left in changes:
            rest = {path: value for path, value in changes.items() if path != left}
            yield f"every array but {names[left]}", rest


def _integers(trial: Trial, whole: Whole) -> list[Variant]:
    floats = trial.floats()
    names = {leaf.path: leaf.name for leaf in floats}
    rounds = {
        leaf.path: whole[leaf.name](leaf.value) if leaf.name in whole else rounded(leaf.value)
        for leaf in floats
    }
    single = any(is_tensor(leaf.value) for leaf in floats)
    found = []
    for name, changes in _each_and_all(rounds, names, but_one=True):
        stored = {path: cast(value, "int64") for path, value in changes.items()}
        base, call = replaced(trial.call, changes), replaced(trial.call, stored)
        plain = "the same numbers as floats"
        found.append(Variant(f"integers in {name}", base, call, single, plain))
    return found


def _widths(trial: Trial, dtype: str) -> list[Variant]:
    """The other width of floats: numbers that both can hold."""
    floats = trial.floats()
    names = {leaf.path: leaf.name for leaf in floats}
    other = {leaf.path: cast(cast(leaf.value, "float32"), dtype) for leaf in floats}
    plain_type = "float64" if dtype == "float32" else "float32"
    tries = _each_and_all(other, names)
    if dtype == "float64":  # torch multiplies no matrices of different types
        tries = iter([("every argument", other)])
    found = []
    for name, changes in tries:
        plain = {path: cast(value, plain_type) for path, value in changes.items()}
        base, call = replaced(trial.call, plain), replaced(trial.call, changes)
        what, told = f"{dtype} in {name}", f"the same numbers in {plain_type}"
        width = dtype if len(changes) == len(other) else ""
        found.append(Variant(what, base, call, True, told, width))
    return found


def _keep_digits(trial: Trial, call: Call, outcome: Outcome) -> None:
    """Hold results that are right to float32's digits to those of float64.

    What rounding may do says nothing of values that are far off, as where a number that is rounded
    decides who is inside: those are wrong for another reason, which is not told here.

    Raises:
        Miss: something was rounded to float32 on the way.
    """
    want = trial.right(*call.args, **call.kwargs)
    alike = trial.alike(call)
    if alike.difference(outcome.value, want, single=True) is not None:
        return
    near = alike.difference(outcome.value, want, single=True, strict=True) is None
    if not near and _far(outcome.value, want):
        return
    found = alike.difference(outcome.value, want, single=False)
    if found is not None:
        place, mine, right = found
        text = f"float64 in every array: {place} is {mine}, expected {right}. "
        text += SEVEN if near else ROUNDED
        raise Miss(text, topic="digits of float64").on(trial.given(call), "")


def _far(mine: Any, right: Any) -> bool:
    """Whether a number is off by more than a thousandth of the largest of its result."""
    for got, want in zip(parts(mine), parts(right), strict=True):
        a, b = (np.where(np.isfinite(x), x, 0) for x in (numbers(got), numbers(want)))
        if np.abs(a - b).max(initial=0.0) > 1e-3 * np.abs(b).max(initial=0.0):
            return True
    return False


def _keep_dtype(trial: Trial, call: Call, outcome: Outcome) -> None:
    """Hold results to the floating types that the reference gives.

    Raises:
        Miss: one has another type.
    """
    want = trial.right(*call.args, **call.kwargs)
    alike = trial.alike(call)
    for index, (mine, right) in enumerate(zip(parts(outcome.value), parts(want), strict=False)):
        got, expected = (str(getattr(x, "dtype", type(x).__name__)) for x in (mine, right))
        if got != expected:
            name = alike.name(index, len(parts(want)))
            text = f"{name} has the type {got}, expected {expected}."
            raise Miss(text, topic="type of the result").on(trial.given(call), "")


def unchanged(draws: Draws, *, integers: bool, whole: Whole, stacks: Stacks = ()) -> Test:
    """No argument is written to, on every draw, in every type that is accepted; no result either.
    Of kernels' draws some do, as all calls that other properties make are looked at, too.

    The first draw of each form comes once more, with other numbers: a result that is kept between
    calls, by its shape, would be overwritten. The largest of all comes several times more, as
    results may be used in turns. An instance gets other numbers in each form.
    """

    def guises(trial: Trial, widths: Sequence[str]) -> list[Call]:
        floats = trial.floats()
        found = [trial.call]
        if integers:
            made = {
                leaf.path: cast(
                    whole[leaf.name](leaf.value) if leaf.name in whole else rounded(leaf.value),
                    "int64",
                )
                for leaf in floats
            }
            found.append(replaced(trial.call, made))
        for dtype in widths if trial.call.build is None else ():
            if any(not str(leaf.value.dtype).endswith(dtype) for leaf in floats):
                made = {leaf.path: cast(leaf.value, dtype) for leaf in floats}
                found.append(replaced(trial.call, made))
        return found

    def test(subject: Subject, probe: Probe) -> None:
        interpreted = bool(kernels_of(probe.reference))  # each launch takes long
        drawn = trials(subject, probe, draws, alike=ALIKE if interpreted else None)
        drawn = drawn if stacks == () else with_stack(drawn, draws, stacks)
        widths = () if interpreted else ("float32", "float64")
        calls = {id(trial): guises(trial, widths) for trial in drawn}
        once_more = trials(subject, probe, draws, alike=1)
        calls |= {id(trial): [trial.call] for trial in once_more}
        alike = {form_of(trial.call): trial for trial in once_more}
        ordered: list[Trial] = []
        for trial in drawn:  # a result is followed by another one of its shape
            other = alike.pop(form_of(trial.call), None)
            ordered += [trial] if other is None else [trial, other]
        ordered += alike.values()
        fresh = trials(subject, probe, draws)
        large = max(range(len(fresh)), key=lambda place: _elements(fresh[place]), default=None)
        if large is not None:
            drawn, ordered = [*drawn, fresh[large]], [*ordered, fresh[large]]
            calls[id(fresh[large])] = [fresh[large].call]
        asked = [(trial.bench, call) for trial in ordered for call in calls[id(trial)]]
        others = trials(subject, probe, draws)
        both = zip(drawn, others, strict=False)
        again = [(one.bench, other.call) for one, other in both if one.call.build is not None]
        if large is not None and large < len(others):
            other = others[large].call
            again += [(fresh[large].bench, replace(other)) for _ in range(TURNS)]
        run_ahead([*asked, *again])
        tensors = [t for t in drawn if any(is_tensor(leaf.value) for leaf in t.leaves())]
        tensors = tensors[:1] if interpreted else tensors
        run_ahead([(trial.bench, trial.call) for trial in tensors], graph=False)
        tried = 0
        for trial in drawn:
            plain, *others = calls[id(trial)]
            tried += _stays(trial, plain)
            if trial in tensors:
                _stays(trial, plain, graph=False)
            for call in others:
                _stays(trial, call)
        keep_tried(tried)

    return test


def _elements(trial: Trial) -> int:
    return sum(numbers(leaf.value).size for leaf in trial.leaves())


def _stays(trial: Trial, call: Call, *, graph: bool = True) -> bool:
    """Hold one call to leaving its arguments alone; whether it came to a result."""
    outcome = trial.bench(call, graph=graph)
    if outcome.mutated:
        given = trial.given(call) if graph else f"under torch.no_grad(): {trial.given(call)}"
        named = [trial.names[i] if isinstance(i, int) else i for i in outcome.mutated]
        raise changes(named).on(given, "")
    if outcome.overwritten:
        raise overwrites().on(trial.given(call), "")
    return outcome.error is None


def overwrites() -> Miss:
    """What is said where an earlier result is changed."""
    return Miss(
        "a later call of your function changed what this one had returned: both write into "
        "the same memory. Make a new result in each call.",
        topic=OVERWRITES,
    )


def changes(names: Sequence[str]) -> Miss:
    """What is said where arguments of these names are changed."""
    several, it = ("s", "them") if len(names) > 1 else ("", "it")
    return Miss(
        f"your function changes its argument{several} {' and '.join(names)} in place: whoever "
        f"called it would find {it} changed. `x -= y`, `x[...] = y` and `out=x` write into the "
        "array itself, by whatever name; `z = x - y` makes a new one.",
        topic=CHANGES,
    )
