"""Check first, then time: every peer of every case, wave by wave, within the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from attend_kernels.bench.case import (
    GRADIENT_FACTOR,
    TOLERANCE,
    AbsentError,
    Answer,
    Case,
    Function,
    Tensors,
    call,
    gradients,
    learning,
    output_gradients,
    solve,
    worst_error,
)
from attend_kernels.bench.timing import Budget, Clock, Run, Times, measure

DIRECTIONS = ("forward", "backward", "both")
ROUNDS = 2
SECONDS = 0.06  # of calls a round
RESERVE = 60.0  # seconds a case may take, compilations included: with less left it is cut
MOST_SETS = 8  # of inputs; enough to outrun the L2 cache where one set is small

Row = dict[str, Any]
Ready = dict[str, Function]


class DeviceLostError(Exception):
    """The device answers no more: nothing after this can be measured."""


@dataclass
class Results:
    """What was measured, what was cut, and what ended the run early."""

    rows: list[Row] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    aborted: str | None = None


def run_all(
    cases: Iterable[Case],
    results: Results,
    clock: Clock,
    budget: Budget,
    cache_bytes: int,
    say: Callable[[str], None],
    save: Callable[[], None],
) -> None:
    """Measure the cases in the order of their waves until the budget is spent.

    Args:
        cases: what to measure; within a wave the order is kept.
        results: filled as the run goes.
        clock: the timer.
        budget: the time there is. A case starts only if RESERVE seconds are left.
        cache_bytes: size of the device's last cache.
        say: tells the user what is going on.
        save: called after each case, so that a run that is killed loses one case at most.
    """
    for case in sorted(cases, key=lambda case: case.wave):
        if results.aborted or not budget.allows(RESERVE):
            results.cut.append(case.title)
            continue
        say(f"{budget.spent():5.0f} s  {case.title}")
        try:
            results.rows += run_case(case, clock, cache_bytes)
        except DeviceLostError as error:
            results.aborted = f"{case.title}: {error}"
        save()
        torch.compiler.reset()  # each case is another shape: without it the limit is soon reached


def run_case(case: Case, clock: Clock, cache_bytes: int) -> list[Row]:
    """Check and time every peer of one case; what fails is recorded with its reason.

    The peers are timed in turn, then once more in reverse, so that a device that warms up or slows
    down meets them all alike.
    """
    size = sum(t.numel() * t.element_size() for t in case.make(0))
    count = min(MOST_SETS, 2 + 2 * cache_bytes // max(1, size))
    inputs = [case.make(seed) for seed in range(count)]
    rows: list[Row] = []
    ready, errors = check_peers(case, inputs[0], rows)
    samples: dict[tuple[str, str], list[list[float]]] = {}
    order = [(p, d) for d in DIRECTIONS if d in case.bytes for p in ready]
    broken: set[tuple[str, str]] = set()
    for number in range(ROUNDS):
        for peer, direction in order if number % 2 == 0 else reversed(order):
            if (peer, direction) in broken:
                continue
            try:
                run = prepare(case, ready[peer], direction, inputs)
                samples.setdefault((peer, direction), []).append(measure(run, clock, SECONDS))
            except Exception as error:  # a peer may raise anything: it is recorded, not hidden
                broken.add((peer, direction))
                rows.append(_row(case, peer, "failed", direction, reason=_reason(error)))
                _still_there(error)
    for peer, direction in order:
        if (peer, direction) not in broken:
            times = Times.of(samples[peer, direction]).as_dict()
            costs = {"flops": case.flops[direction], "bytes": case.bytes[direction]}
            rows.append(_row(case, peer, "ok", direction, **times, **costs, **errors[peer]))
    return rows


def check_peers(case: Case, inputs: Tensors, rows: list[Row]) -> tuple[Ready, dict[str, Row]]:
    """Make every peer and compare it with the oracle; return those that are right, and their errors."""
    ready: Ready = {}
    errors: dict[str, Row] = {}
    oracle: Answer | None = None
    seed = 1
    for peer, build in case.peers.items():
        try:
            function = build()
            got, grads = solve(function, case, inputs, seed)
            if oracle is None:
                oracle = case.oracle(inputs, grads)
            out_error, gradient_error = worst_error(case, got, oracle)
        except AbsentError as absence:
            rows.append(_row(case, peer, "absent", None, reason=str(absence)))
            continue
        except Exception as error:  # a peer may raise anything: it is recorded, not hidden
            rows.append(_row(case, peer, "failed", None, reason=_reason(error)))
            _still_there(error)
            continue
        errors[peer] = {"output_error": out_error, "gradient_error": gradient_error}
        limit = TOLERANCE[inputs[0].dtype]
        if not (out_error < limit and gradient_error < GRADIENT_FACTOR * limit):
            reason = (
                f"relative error {out_error:.1e} (limit {limit:.0e}), gradients "
                f"{gradient_error:.1e} (limit {GRADIENT_FACTOR * limit:.0e})"
            )
            rows.append(_row(case, peer, "wrong", None, reason=reason, **errors[peer]))
            continue
        ready[peer] = function
    return ready, errors


def prepare(case: Case, function: Function, direction: str, inputs: list[Tensors]) -> Run:
    """Make a function of the repeat's number that does one direction on the next input set."""
    count = len(inputs)
    inputs = [tuple(t.clone() for t in tensors) for tensors in inputs]  # a peer may work in place
    if direction == "forward":

        def forward(number: int) -> None:
            with torch.no_grad():
                function(*inputs[number % count])

        return forward
    leaves = [learning(case, tensors) for tensors in inputs]
    if direction == "both":
        grads = output_gradients(call(function, leaves[0]), seed=1)

        def both(number: int) -> None:
            mine = leaves[number % count]
            gradients(case, call(function, mine), grads, mine, keep=False)

        return both
    made = [call(function, mine) for mine in leaves]
    their_grads = [output_gradients(outputs, seed) for seed, outputs in enumerate(made)]

    def backward(number: int) -> None:
        at = number % count
        gradients(case, made[at], their_grads[at], leaves[at], keep=True)

    return backward


def _row(case: Case, peer: str, status: str, direction: str | None, **more: Any) -> Row:
    head = {"family": case.family, "name": case.name, "size": dict(case.size)}
    return {**head, "peer": peer, "direction": direction, "status": status, **more}


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines() or ["no message"]
    return f"{type(error).__name__}: {lines[0][:300]}"


def _still_there(error: Exception) -> None:
    """Give back memory after a failure, and stop the run where the device itself has failed."""
    if not torch.cuda.is_available():
        return
    error.__traceback__ = None  # its frames hold the tensors that did not fit
    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    except RuntimeError as lost:
        raise DeviceLostError(f"{_reason(error)}; then {_reason(lost)}") from lost
