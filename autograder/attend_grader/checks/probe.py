"""What checks are written with: calls, what a check works with, and properties."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attend_grader.checks.compare import (
    FLOAT64,
    Miss,
    Tolerance,
    as_array,
    expect_close,
    expect_item,
    item_names,
)
from attend_grader.checks.outcomes import Logged, Outcome
from attend_grader.checks.replay import describe_call
from attend_grader.checks.subject import Subject, SubjectError


@dataclass(frozen=True)
class Call:
    """One set of arguments for an exercise's function, or for an instance of its class.

    Attributes:
        args: positional arguments.
        kwargs: keyword arguments.
        build: for a class: how to construct the instance that is called.
        parameters: for a class: parameters by name, loaded into the instance.
        method: for a class: call this method of the instance instead of the instance itself.
        launcher: for a Triton kernel: ``"module:function"`` of the course that is called with the
            kernel in front of the arguments, and launches it (:mod:`.kernels`).
        shared: positions of arguments that are one and the same array: the first of them.
        turned: whether the others are views of that, with the last two axes exchanged.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    build: Call | None = None
    parameters: Mapping[str, Any] | None = None
    method: str | None = None
    launcher: str = ""
    shared: tuple[int, ...] = ()
    turned: bool = False

    def on(self, subject: Subject) -> Outcome:
        """What ``subject`` does on this call; never raises for its errors."""
        if self.build is not None:
            try:
                built = self.build
                subject = subject.build(*built.args, parameters=self.parameters, **built.kwargs)
            except SubjectError as failure:
                return Outcome(None, failure.error)
        return subject.run(self.args, self.kwargs, method=self.method, launcher=self.launcher)


def call_of(logged: Logged) -> Call:
    """A call that was made, to be made again."""
    made = logged.made
    build = None if made is None else Call(made.args, made.kwargs)
    parameters = None if made is None else made.parameters
    return Call(logged.args, logged.kwargs, build, parameters, logged.method, logged.launcher)


@dataclass(frozen=True)
class Learning:
    """A call whose gradients are looked at.

    Attributes:
        call: the call.
        what: what is special about it, for a message.
        finite: whether gradients are held to being finite, and not to being right.
    """

    call: Call
    what: str
    finite: bool = False


@dataclass(frozen=True)
class Probe:
    """What a check works with: fresh random numbers and the exercise's oracle.

    Attributes:
        rng: this property's own generator; its numbers depend on the seed and the property alone.
        reference: the oracle.
        extra: true when grading: run more cases than a notebook check does.
        names: parameter names of the reference, for messages.
        results: what to call each value the function returns, where it returns several.
        label: what a message calls the function; empty for the reference's own name.
    """

    rng: np.random.Generator
    reference: Callable[..., Any]
    extra: bool
    names: tuple[str, ...]
    results: tuple[str, ...] = ()
    label: str = ""

    def repeat(self, usual: int, extra: int) -> range:
        """How often to repeat a random case: ``usual`` in a notebook, ``extra`` when grading."""
        return range(extra if self.extra else usual)

    def build(
        self,
        subject: Subject,
        *args: Any,
        scale: float = 1.0,
        parameters: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> tuple[Subject, Probe]:
        """Construct the candidate's class and the reference's, with the same parameters.

        Args:
            subject: a class that is a torch module.
            *args: the constructor's arguments.
            scale: standard deviation of fresh parameters.
            parameters: by name; None draws fresh ones.
            **kwargs: the constructor's keyword arguments.

        Returns:
            the instance, and a probe whose reference is the reference's instance: with these,
            :meth:`call` and :meth:`agree` work as they do for functions.

        Raises:
            SubjectError: the constructor raised, or the parameters have other names or shapes.
        """
        from attend_grader.checks.torch_numbers import fresh_parameters

        instance = self.reference(*args, **kwargs)
        if parameters is None:
            parameters = fresh_parameters(instance, self.rng, scale)
        instance.load_state_dict(parameters)
        given = describe_call(self.reference.__name__, self.names, args, kwargs)
        try:
            built = subject.build(*args, parameters=parameters, **kwargs)
        except SubjectError as failure:
            raise SubjectError(failure.error, given) from None
        return built, self.on(instance, args, kwargs)

    def on(self, instance: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Probe:
        """A probe whose reference is this instance of it, built with these arguments."""
        names = tuple(inspect.signature(instance.forward).parameters)
        label = f"{self.reference.__name__}({', '.join(_plain(args, kwargs))})"
        return replace(self, reference=instance, names=names, label=label)

    def train(self, built: Subject, scale: float = 1.0) -> tuple[Subject, Mapping[str, Any]]:
        """Change every parameter of a built instance and of the reference's, as training does.

        Args:
            built: what :meth:`build` returned, and this probe with it.
            scale: standard deviation of the new parameters.

        Returns:
            the instance, and the parameters that it had.

        Raises:
            SubjectError: the parameters do not fit any more.
        """
        from attend_grader.checks.torch_numbers import fresh_parameters

        instance: Any = self.reference
        before = {name: value.clone() for name, value in instance.state_dict().items()}
        after = fresh_parameters(instance, self.rng, scale)
        instance.load_state_dict(after)
        return built.reload(after), before

    def call(
        self, subject: Subject, *args: Any, method: str | None = None, **kwargs: Any
    ) -> Outcome:
        """Call the subject (or a method of a built instance); what it did, if it did not raise.

        Raises:
            SubjectError: the candidate raised; it carries a description of the call.
        """
        outcome = subject.run(args, kwargs, method=method)
        self._expect_no_error(outcome, args, kwargs, method)
        return outcome

    def _expect_no_error(
        self, outcome: Outcome, args: Sequence[Any], kwargs: Mapping[str, Any], method: str | None
    ) -> None:
        if outcome.error is not None:
            raise SubjectError(outcome.error, self.given(args, kwargs, method))

    def agree(
        self,
        subject: Subject,
        *args: Any,
        want: Any = None,
        part: int | None = None,
        tolerance: Tolerance = FLOAT64,
        why: str = "",
        clue: Callable[[Any], str] = lambda value: "",
        method: str | None = None,
        came: Outcome | None = None,
        **kwargs: Any,
    ) -> Outcome:
        """Call the subject and compare what it returns with what is right.

        Args:
            subject: what is being checked.
            *args: arguments for the subject (and the reference).
            want: the right value; without it, the reference is asked.
            part: of several values, look at this one only.
            tolerance: how far values may differ.
            why: said in front of a miss: what is special about these arguments.
            clue: the likely cause where numbers of the right shape differ, given these numbers
                (a NumPy array, also where the candidate returns tensors);
                an empty string leaves the guess to :func:`.compare.likely_cause`.
            method: call this method of a built instance, here and of the reference.
            came: what the subject did on this call, where it was called already.
            **kwargs: keyword arguments for subject and reference.

        Returns:
            The subject's outcome.

        Raises:
            Miss: structure, shape, dtype or values differ.
            SubjectError: the candidate raised.
        """
        outcome = came or subject.run(args, kwargs, method=method)
        self._expect_no_error(outcome, args, kwargs, method)
        if want is None:
            oracle = self.reference if method is None else getattr(self.reference, method)
            want = oracle(*args, **kwargs)
        got, what = outcome.value, self.results or "result"

        def compare(got: Any) -> None:
            if part is not None:
                expect_item(got, want, part, tolerance, item_names(what, len(want)))
            else:
                expect_close(got, want, tolerance, what)

        try:
            compare(got)
        except Miss as miss:
            given = self.given(args, kwargs, method)
            kept = subject.made is not None and _holds(compare, subject, args, kwargs, method)
            warned = tuple(("NumPy warned", text) for text in outcome.warnings[:1])
            if part is not None and isinstance(got, (tuple, list)) and len(got) == len(want):
                got, want = got[part], want[part]
            got, want = as_array(got), as_array(want)
            if got is not None and want is not None:
                same_shape = got.shape == want.shape
                miss.cause = (same_shape and clue(got)) or miss.cause
            miss.cause = NEW if kept else miss.cause
            raise miss.on(given, why, warned) from None
        return outcome

    def miss(self, message: str, *args: Any, **kwargs: Any) -> Miss:
        """A miss about a call with these arguments."""
        return Miss(message).on(self.given(args, kwargs), "")

    def given(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], method: str | None = None
    ) -> str:
        """A call with these arguments as text, for the card."""
        label = self.label or self.reference.__name__
        called = label if method is None else f"{label}.{method}"
        return describe_call(called, self.names, args, kwargs)


NEW = "A new module gets this call right. Is something kept from an earlier call?"
"""Said where another instance, built alike, does."""


def _holds(
    compare: Callable[[Any], None],
    built: Subject,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    method: str | None,
) -> bool:
    """Whether another instance, built alike, gives what is right on this call."""
    try:
        compare(built.anew().run(args, kwargs, method=method).value)
    except (Miss, SubjectError):
        return False
    return True


def _plain(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    return [*(repr(value) for value in args), *(f"{k}={v!r}" for k, v in kwargs.items())]


Test = Callable[[Subject, Probe], None]
"""Raises :class:`Miss` (or lets a ``SubjectError`` through) where the property does not hold."""


@dataclass(frozen=True)
class Property:
    """One line of the card: a thing that must hold, and what it is worth.

    ``promise`` marks a property of a contract, which compares the candidate with itself: it counts
    once enough of the others hold. ``slow`` marks one that takes a second or more and is left out
    where slips are compared with a candidate. ``fresh`` is whether it is about values on fresh
    inputs, where that is known: such a one is lost where the last look finds a wrong value.
    ``begin`` lets something begin that takes long, goes on elsewhere and is asked for by the test
    that it returns: it is called before all other tests.
    """

    name: str
    points: int
    test: Test
    promise: bool = False
    slow: bool = False
    fresh: bool | None = None
    begin: Callable[[Subject, Probe], Test] | None = None


def begun_by(begin: Callable[[Subject, Probe], Test]) -> Test:
    """A whole test, of a beginning and the test that it returns."""
    return lambda subject, probe: begin(subject, probe)(subject, probe)
