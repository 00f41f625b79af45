"""Gradients of tensors: that they reach every named argument and parameter, and are right.

Where the learner's values are right, their gradients must be the reference's. Where the values are
wrong, they must be the derivative of what the learner did compute, by finite differences, so that a
slip in the values costs nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import torch

from attend_grader.checks.calls import build_ahead, replaced, usable
from attend_grader.checks.compare import Miss
from attend_grader.checks.outcomes import Outcome
from attend_grader.checks.probe import Learning, Probe, Test
from attend_grader.checks.pulls import (
    EVERY,
    Pull,
    asked_of,
    compared,
    joined,
    name_of,
    pull_of,
)
from attend_grader.checks.stale import follows_parameters
from attend_grader.checks.subject import Subject, SubjectError
from attend_grader.checks.torch_properties import transposed
from attend_grader.checks.trials import KEPT, Draws, Trial, form_of, keep_tried, trials

VIEWED = 2
"""Draws whose arguments come once more as views: ``if x.is_contiguous()`` may cut the graph."""

EVAL = "after .eval()"
SILENT = "after the same call under torch.no_grad()"

NOTHING = (
    "your function raised, or gave no finite numbers of the right shape, for all inputs tried here"
)
"""Said where no gradient could be compared."""

TIMES = 10_000.0
LARGE = f"what comes back to the result {TIMES:,.0f} times as large, stored transposed"
"""Said of a backward pass that a step of the answer's own might cut short, or misread."""


def gradients(draws: Draws, *, named: tuple[str, ...], layouts: bool = False) -> Test:
    """Pull random cotangents back to each named argument and parameter.

    With ``layouts`` also to arguments that are views. Some come once more in the modes of a call
    that a learner's code can tell apart: after ``.eval()``, or where not all ask for gradients.
    """

    def test(subject: Subject, probe: Probe) -> None:
        asked, pulls, views = set(named), list[Pull](), list[Pull]()
        drawn = list(trials(subject, probe, draws))
        for trial in drawn:
            wrt, parameters = asked_of(trial, named)
            asked -= {trial.names[i] for i in wrt} | set(parameters)
            asked -= {EVERY} if parameters else set()
            pull = pull_of(trial, wrt, parameters) if wrt or parameters else None
            pulls += [] if pull is None else [pull]
            if layouts and pull is not None and len(views) < VIEWED:
                views += _viewed(pull)
        pulls += views
        pulls += next((found for pull in pulls if (found := _equal(pull))), [])
        if asked:
            raise ValueError(f"no draw has a tensor or parameter called {sorted(asked)}")
        pulls += _modes(pulls)
        build_ahead([pull.trial.bench for pull in pulls])
        pulls = [pull for pull in pulls if pull.trial.bench.error is None]
        for pull in pulls:
            call, built = pull.trial.call, pull.trial.bench.subject
            if pull.evaluating:
                built.run(method="eval", graph=False)
            if pull.silent:
                built.run(call.args, call.kwargs, method=call.method, graph=False)
        outcomes = _pulled(subject, pulls)
        came = {id(pull): outcome for pull, outcome in zip(pulls, outcomes, strict=True)}
        for pull, outcome in zip(pulls, outcomes, strict=True):
            if pull.plain is not None and id(pull.plain) in came:
                _as_plain(pull, outcome, came[id(pull.plain)])
        both = list(zip(pulls, outcomes, strict=True))
        keep_tried(sum(compared(pull, came) for pull, came in both if not pull.silent), NOTHING)
        if EVERY in named:
            firsts = {trial.call.method: trial for trial in reversed(drawn)}
            for first in firsts.values():
                follows_parameters(first, firsts)
        for pull, outcome in both:
            if pull.silent:
                _after_silence(pull, outcome)

    return test


def wrong_gradients(
    subject: Subject, probe: Probe, calls: Sequence[Learning], named: tuple[str, ...]
) -> Iterator[Miss | SubjectError | None]:
    """What is wrong with a candidate's gradients on each of several calls, if anything is."""
    pulls: list[Pull | None] = []
    for each in calls:
        trial = Trial(subject, probe, each.call)
        wrt, parameters = asked_of(trial, named)
        pull = pull_of(trial, wrt, parameters) if wrt or parameters else None
        pulls.append(None if pull is None else replace(pull, what=each.what))
    build_ahead([pull.trial.bench for pull in pulls if pull is not None])
    asked = [pull for pull in pulls if pull is not None and pull.trial.bench.error is None]
    came = {id(pull): outcome for pull, outcome in zip(asked, _pulled(subject, asked), strict=True)}
    for each, pull in zip(calls, pulls, strict=True):
        if pull is None or id(pull) not in came:
            yield None
        elif each.finite:
            yield _not_finite(pull, came[id(pull)])
        else:
            yield _lost(pull, came[id(pull)])


def _pulled(subject: Subject, pulls: Sequence[Pull]) -> list[Outcome]:
    """What came of each, asked for together."""
    return subject.many(
        [replace(pull.trial.call, build=None) for pull in pulls],
        [pull.trial.bench.subject for pull in pulls],
        gradients=[pull.wanted(pull.cotangents) for pull in pulls],
    )


def _lost(pull: Pull, outcome: Outcome) -> Miss | SubjectError | None:
    """A gradient that is missing or wrong, as a loss."""
    try:
        compared(pull, outcome)
    except (Miss, SubjectError) as loss:
        return loss
    return None


def _not_finite(pull: Pull, outcome: Outcome) -> Miss | None:
    """Gradients that are not finite where the values are, as a loss."""
    if not usable(outcome):
        return None
    trial, right = pull.trial, pull.right(pull.cotangents)
    for key, got in (outcome.gradients or {}).items():
        want = right.get(key)
        finite = want is not None and bool(want.isfinite().all())
        if finite and got is not None and not bool(got.isfinite().all()):
            name = name_of(trial, key)
            text = f"the gradient of {name} is not finite, and the result is."
            cause = "Does an exponential overflow on the way, where the result does not show it?"
            miss = Miss(text, cause=cause, topic=f"gradient of {name}")
            return miss.on(trial.given(trial.call), pull.what)
    return None


def _viewed(asked: Pull) -> list[Pull]:
    """The same with its arguments stored transposed, where it has any of two axes."""
    trial, floats = asked.trial, asked.trial.floats()
    laid = [leaf for leaf in floats if leaf.path[0] in asked.wrt and leaf.value.ndim > 1]
    if not laid:
        return []
    call = replaced(trial.call, {leaf.path: transposed(leaf.value) for leaf in laid})
    what = f"{joined([leaf.name for leaf in laid])} stored transposed, as a view is"
    what = f"{asked.what}, {what}" if asked.what else what
    return [replace(asked, trial=Trial(trial.subject, trial.probe, call), what=what)]


def _equal(asked: Pull) -> list[Pull]:
    """The same with two arguments of one shape holding equal numbers, where it has such."""
    trial = asked.trial
    arrays = [leaf for leaf in trial.floats() if leaf.path in {(key,) for key in asked.wrt}]
    for one, other in combinations(arrays, 2):
        if (one.value.shape, one.value.dtype) == (other.value.shape, other.value.dtype):
            call = replaced(trial.call, {other.path: one.value.clone()})
            same = Trial(trial.subject, trial.probe, call)
            pull = pull_of(same, asked.wrt, asked.parameters)
            return [] if pull is None else [replace(pull, what=f"{other.name} equal to {one.name}")]
    return []


def _modes(pulls: list[Pull]) -> list[Pull]:
    """Calls once more: a module after ``.eval()``, one that was called without the graph before,
    and where only some arguments ask for gradients.

    A module is built anew for each: what it keeps of one backward pass must not end the next.
    """

    def once_more(pull: Pull, what: str, **those: Any) -> Pull:
        trial = Trial(pull.trial.subject, pull.trial.probe, pull.trial.call)
        what = f"{pull.what}, {what}" if pull.what else what
        return replace(pull, trial=trial, what=what, plain=pull, **those)

    found = []
    for pull in {form_of(pull.trial.call): pull for pull in reversed(pulls)}.values():
        if isinstance(pull.trial.module, torch.nn.Module):
            found.append(once_more(pull, EVAL, evaluating=True))
            found.append(once_more(pull, SILENT, silent=True))
    for pull in {pull.trial.call.method: pull for pull in reversed(pulls)}.values():
        names = [name_of(pull.trial, key) for key in pull.wrt]
        if names:
            what = f"{joined(names)} computed, no leaf of the graph; {LARGE}"
            large = [transposed(TIMES * each) for each in pull.cotangents]
            found.append(once_more(pull, what, computed=True, cotangents=large))
        if pull.parameters and names:
            found.append(once_more(pull, f"{joined(names)} without requires_grad", wrt=[]))
        elif len(names) > 1:
            found += [
                once_more(pull, f"only {name} has requires_grad", wrt=[key])
                for name, key in zip(names, pull.wrt, strict=True)
            ]
    return found


def _after_silence(pull: Pull, outcome: Outcome) -> None:
    """As :func:`.pulls.compared`; what shows only after a call before is kept from that."""
    try:
        compared(pull, outcome)
    except Miss as miss:
        miss.cause, miss.topic = KEPT, f"{miss.topic}, {SILENT}"
        raise


def _as_plain(asked: Pull, outcome: Outcome, usual: Outcome) -> None:
    """Hold a call in another mode to what it gives in the usual one.

    Raises:
        Miss: it gives other values.
        SubjectError: it raises there only.
    """
    if usual.error is not None:
        return
    trial, given = asked.trial, asked.trial.given(asked.trial.call)
    if outcome.error is not None:
        raise SubjectError(outcome.error, f"{asked.what}: {given}")
    found = trial.alike().difference(outcome.value, usual.value, single=True)
    if found is not None:
        place, mine, before = found
        text = f"{place} is {mine}, but {before} without that."
        raise Miss(text, topic=asked.what).on(given, asked.what)
