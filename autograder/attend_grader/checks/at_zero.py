"""Calls with an argument of zeros, or a large one, where right values may have wrong gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from attend_grader.checks.calls import Leaf, parts, replaced
from attend_grader.checks.probe import Call, Probe
from attend_grader.checks.pulls import Pull, asked_of, normal_like, path_of, pull_of
from attend_grader.checks.subject import Subject
from attend_grader.checks.trials import Draws, Trial, trials
from attend_grader.inside.torch_gradients import gradients as pull_back

FAR = 1000.0
"""Times numbers of usual size: float32 ends at e^88."""

SLIDE = 1e-6
"""Of one-sided differences in float64, which tell a kink."""


def at_zero(
    subject: Subject,
    probe: Probe,
    draws: Draws,
    *,
    named: tuple[str, ...],
    taken: Callable[[Leaf], bool],
) -> Iterator[tuple[Call, str]]:
    """Each argument all zeros, or all ones, as weights are before training, and what is said.

    Of a module each parameter is all zeros. Where an argument makes a kink there is no gradient:
    such calls are left out.

    Args:
        subject: the candidate.
        probe: for random numbers.
        draws: calls of a function; each argument is tried in the first that has it.
        named: arguments that gradients must reach.
        taken: whether an argument may be all zeros.
    """
    tried = set[str]()
    for trial in trials(subject, probe, draws, alike=1):
        wrt, own = asked_of(trial, named)
        for name, value in (trial.call.parameters or {}).items():
            if name not in tried and name in own:
                tried.add(name)
                changed = {**(trial.call.parameters or {}), name: torch.zeros_like(value)}
                yield replace(trial.call, parameters=changed), f"{name} all zeros"
        for leaf in trial.floats() if trial.call.build is None else ():
            if leaf.path[0] not in wrt or leaf.name in tried or not taken(leaf):
                continue
            tried.add(leaf.name)
            starts = {"zeros": torch.zeros_like}
            if leaf.value.ndim == 1:  # as a scale is; a matrix does not begin so
                starts["ones"] = torch.ones_like
            for word, same in starts.items():
                call = replaced(trial.call, {leaf.path: same(leaf.value)})
                pull = pull_of(Trial(subject, probe, call), wrt, [])
                if pull is not None and _smooth(pull):
                    yield call, f"{leaf.name} all {word}"


def at_large(
    subject: Subject,
    probe: Probe,
    draws: Draws,
    *,
    named: tuple[str, ...],
    taken: Callable[[Leaf], bool],
) -> Iterator[tuple[Call, str]]:
    """Each argument so large that an exponential of it is no float, and what is said of that.

    Args:
        subject: the candidate.
        probe: for random numbers.
        draws: calls; each argument is tried in the first that has it.
        named: arguments that gradients must reach.
        taken: whether an argument may be so large.
    """
    tried = set[tuple[Any, ...]]()
    for trial in trials(subject, probe, draws, alike=1):
        wrt, _ = asked_of(trial, named)
        for leaf in trial.floats():
            if not isinstance(leaf.path[0], int) or leaf.path[0] not in wrt:
                continue
            large = replaced(trial.call, {leaf.path: FAR * leaf.value})
            words = tuple(each for each in trial.call.args if isinstance(each, str))
            if (leaf.name, words) not in tried and taken(leaf) and leaf.value.any():
                tried.add((leaf.name, words))
                yield large, f"{leaf.name} times {FAR:,.0f}"


def _smooth(asked: Pull) -> bool:
    """Whether the answer has the same slope to either side of a call, and its gradient tells it."""
    trial = asked.trial
    wide = {leaf.path: leaf.value.double() for leaf in trial.floats()}
    call = replaced(trial.call, wide)
    cotangents = [c.double() for c in asked.cotangents]
    wanted = asked.wanted(cotangents)
    slopes = pull_back(trial.target, call.args, dict(call.kwargs), wanted)["gradients"]
    leaves = [leaf for leaf in trial.floats() if leaf.path[0] in asked.wrt]
    along = {leaf.path: normal_like(trial.probe.rng, wide[leaf.path]) for leaf in leaves}

    def at(step: float) -> float:
        moved = {path: wide[path] + step * way for path, way in along.items()}
        there = replaced(call, moved)
        value = parts(trial.right(*there.args, **there.kwargs))
        return sum(float((p * c).sum()) for p, c in zip(value, cotangents, strict=True))

    got = {path_of(key): slope for key, slope in slopes.items() if slope is not None}
    terms = [(slope * along[path]).flatten() for path, slope in got.items()]
    if not terms:
        return False
    slope, size = float(torch.cat(terms).sum()), float(torch.cat(terms).abs().sum())
    here = at(0.0)
    ahead, behind = (at(SLIDE) - here) / SLIDE, (here - at(-SLIDE)) / SLIDE
    return max(abs(ahead - slope), abs(behind - slope)) <= 1e-3 * size
