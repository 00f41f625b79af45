"""One call of the exercise that promises are tried on, and what is known of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from attend_grader.checks.alike import Alike
from attend_grader.checks.calls import (
    Bench,
    Leaf,
    is_array,
    kind_of,
    leaves,
    numbers,
    parameters_of,
    parts,
    run_ahead,
)
from attend_grader.checks.compare import SINGLE, Miss, mismatches
from attend_grader.checks.instances import instance
from attend_grader.checks.outcomes import Outcome
from attend_grader.checks.probe import Call, Probe
from attend_grader.checks.replay import describe_call
from attend_grader.checks.subject import Subject, SubjectError

Draws = Callable[[np.random.Generator], Sequence[Call]]

KEPT = "Is something kept from one call for the next, or drawn at random?"
"""Asked where the same call gives another result."""

ALIKE = 2
"""Draws of one form (options, which arguments are None, numbers of axes) that a promise is tried
on: of more, each grading of a class would pay for the same again."""


@dataclass(eq=False)
class Trial:
    """One draw, the subject and the reference on it, and what its arguments are called."""

    subject: Subject
    probe: Probe
    call: Call

    def __post_init__(self) -> None:
        self.names = parameters_of(self.probe.reference, self.call.method)
        self.bench = Bench(self.subject, self.call)

    @cached_property
    def module(self) -> Any:
        """What the reference is called on: of a class, an instance with the parameters."""
        return instance(self.probe.reference, self.call)

    def right(self, *args: Any, **kwargs: Any) -> Any:
        """What the reference gives for these arguments."""
        return self.target(*args, **kwargs)

    @property
    def target(self) -> Callable[..., Any]:
        """The reference itself, or the method of its instance that is called."""
        return getattr(self.module, self.call.method) if self.call.method else self.module

    def alike(self, call: Call | None = None) -> Alike:
        """Compares results of this call, or of another with the same instance."""
        plain = replace(call or self.call, build=None)
        return Alike(self.right, plain, self.names, self.probe.results)

    def leaves(self) -> list[Leaf]:
        """The arrays of the call."""
        return leaves(self.call, self.names)

    def floats(self) -> list[Leaf]:
        """Its finite floating arrays."""
        return [leaf for leaf in self.leaves() if leaf.kind == "floating" and leaf.finite]

    def given(self, call: Call) -> str:
        """A call as text."""
        name = self.probe.reference.__name__
        if call.build is not None:
            plain = [*map(repr, call.build.args)]
            plain += [f"{k}={v!r}" for k, v in call.build.kwargs.items()]
            name = f"{name}({', '.join(plain)})"
        name = f"{name}.{call.method}" if call.method else name
        return describe_call(name, self.names, call.args, call.kwargs)

    def same(
        self,
        call: Call,
        base: Outcome,
        what: str,
        *,
        single: bool,
        plain: str,
        made: Call | None = None,
    ) -> Outcome:
        """Hold the subject on ``call`` to what it did on the same numbers in a plain guise.

        Args:
            call: the variant.
            base: the outcome that the variant must repeat.
            what: what is special about the variant: "integers in k".
            single: whether float32 takes part.
            plain: what the plain guise is called: "the same numbers as floats".
            made: the call that gave ``base``, if it was the subject's: where that gives another
                result now, the guise is not to blame.

        Returns:
            what the subject did.

        Raises:
            Miss: the results differ.
            SubjectError: the variant raised.
        """
        outcome = self.bench(call)
        if outcome.error is not None:
            raise SubjectError(outcome.error, f"{what}: {self.given(call)}")
        alike = self.alike()
        found = alike.difference(outcome.value, base.value, single=single)
        if found is None:
            return outcome
        if made is not None:
            self._repeats(made, base, alike, single=single)
        place, mine, want = found
        text = f"{what}: {place} is {mine}, but {want} for {plain}."
        cause = _cut(outcome.value, base.value, alike)
        whole = what.removeprefix("integers in ")
        if not cause and whole in self.names and not place.startswith("the "):
            cause = f"Is something else given {whole}'s type there? Integers hold no fractions."
            if _rounded(outcome.value, base.value):
                cause = f"Yours is a rounded float. Does something round where {whole} is whole?"
            if _single(outcome.value, base.value):
                cause = "Right to seven digits: is something float32 on the way?"
        raise Miss(text, cause=cause, topic=f"{what} {place.split('[')[0]}").on(
            self.given(call), ""
        )

    def _repeats(self, call: Call, first: Outcome, alike: Alike, *, single: bool) -> None:
        """Hold the subject to doing the same as before on a call that it has had.

        Raises:
            Miss: it gives another result.
        """
        again = self.bench.subject.run(call.args, call.kwargs, method=call.method)
        found = alike.difference(again.value, first.value, single=single)
        if again.error is None and found is not None:
            place, mine, before = found
            text = f"called again with the same arguments: {place} is {mine}, before {before}."
            raise Miss(text, cause=KEPT, topic=KEPT).on(self.given(call), "")


def _rounded(value: Any, plain: Any) -> bool:
    """Whether results are floats, and the whole numbers next to those of the plain guise."""
    pairs = [(numbers(a), numbers(b)) for a, b in zip(parts(value), parts(plain), strict=False)]
    return all(
        a.shape == b.shape and a.dtype.kind == "f" and np.array_equal(a, np.rint(b))
        for a, b in pairs
    )


def _single(value: Any, plain: Any) -> bool:
    """Whether results differ by no more than float32's rounding."""
    pairs = [(numbers(a), numbers(b)) for a, b in zip(parts(value), parts(plain), strict=False)]
    return all(
        a.shape == b.shape
        and a.dtype.kind == b.dtype.kind == "f"
        and not mismatches(a, b, SINGLE).any()
        for a, b in pairs
    )


def _cut(value: Any, plain: Any, alike: Alike) -> str:
    """Which wrong results hold integers, where those of the plain guise hold none."""
    pairs = [(numbers(a), numbers(b)) for a, b in zip(parts(value), parts(plain), strict=False)]
    names = [
        alike.name(i, len(pairs))
        for i, (here, there) in enumerate(pairs)
        if here.dtype.kind in "iu" and there.dtype.kind not in "iu" and _differ(here, there)
    ]
    if not names:
        return ""
    who = " and ".join(names) if len(pairs) > 1 else "Your result"
    return f"{who} {'holds' if len(names) == 1 else 'hold'} integers there, so fractions are lost."


def _differ(here: np.ndarray, there: np.ndarray) -> bool:
    """Whether numbers are others: an argument that is handed back may hold whole ones."""
    return here.shape != there.shape or bool(mismatches(here, there, SINGLE).any())


def trials(
    subject: Subject, probe: Probe, draws: Draws, *, alike: int | None = None
) -> list[Trial]:
    """The exercise's draws.

    Args:
        subject: what is being checked.
        probe: says which draws.
        draws: makes them.
        alike: of draws that differ in numbers and lengths only, so many at most.
    """
    rng = np.random.default_rng(probe.rng.integers(2**32))
    made = [Trial(subject, probe, call) for call in draws(rng)]
    if alike is None:
        return made
    seen: Counter[Any] = Counter()
    kept = []
    for trial in made:
        seen[form := form_of(trial.call)] += 1
        if seen[form] <= alike:
            kept.append(trial)
    return kept


def form_of(call: Call) -> tuple[Any, ...]:
    """What draws have in common that differ in numbers and lengths only."""
    own = (call.method, _form(tuple(call.args)), _form(tuple(call.kwargs.items())))
    return own if call.build is None else (*own, form_of(call.build))


def _form(value: Any) -> Any:
    if is_array(value):
        return kind_of(value), value.ndim
    if isinstance(value, (tuple, list)):
        return tuple(map(_form, value))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return type(value).__name__, min(max(value, -1), 2)
    return repr(value)


def run_together(trials: Sequence[Trial], calls: Callable[[Trial], Sequence[Call]]) -> None:
    """Run the calls of several trials together; each trial's bench answers from there."""
    run_ahead([(trial.bench, call) for trial in trials for call in calls(trial)])


def keep_tried(
    tried: int,
    why: str = "your function raised, or gave no finite numbers, for all inputs tried here",
) -> None:
    """Refuse a promise that could be tried on no call.

    Args:
        tried: on how many it was tried.
        why: said where there was none.

    Raises:
        Miss: there was none.
    """
    if not tried:
        raise Miss(f"this could not be tried: {why}.", topic=why)
