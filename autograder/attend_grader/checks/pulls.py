"""One backward pass that is asked for: what comes of it, compared with what should."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from attend_grader.checks.calls import Bench, parts, replaced, run_ahead
from attend_grader.checks.compare import Miss, expect_close
from attend_grader.checks.outcomes import Outcome
from attend_grader.checks.probe import Call
from attend_grader.checks.subject import SubjectError
from attend_grader.checks.torch_properties import GRADIENT
from attend_grader.checks.trials import Trial
from attend_grader.inside.torch_gradients import gradients as pull_back

EVERY = "every parameter"
STEP = 2.0**-6
"""Of finite differences in float32: the error is about STEP² plus 2⁻²⁴ / STEP."""


def asked_of(trial: Trial, named: tuple[str, ...]) -> tuple[list[int], list[str]]:
    """Positions of the named arguments that are floating tensors, and names of parameters."""
    wrt = [
        position
        for position, value in enumerate(trial.call.args)
        if trial.names[position] in named and _floating(value)
    ]
    own = dict(getattr(trial.module, "named_parameters", dict)())
    return wrt, [name for name in own if EVERY in named or name in named]


def _floating(value: Any) -> bool:
    """Whether it is a floating tensor, or a tuple of them."""
    if isinstance(value, tuple):
        return bool(value) and all(map(_floating, value))
    return isinstance(value, torch.Tensor) and value.is_floating_point()


@dataclass(frozen=True)
class Pull:
    """A draw, its right value, and cotangents to pull back.

    Attributes:
        trial: the draw.
        wrt: positions of arguments whose gradients are wanted.
        parameters: names of parameters, likewise.
        value: what the reference gives, with its graph.
        cotangents: one for each result.
        what: what is special about the call, for a message.
        plain: of the same call in another mode, the one in the usual mode.
        evaluating: whether the module is set to that mode, by ``.eval()``.
        silent: whether the module has had the same call before, under ``torch.no_grad()``.
        computed: whether arguments are no leaves of the graph, but results.
    """

    trial: Trial
    wrt: list[int]
    parameters: list[str]
    value: Any
    cotangents: list[torch.Tensor]
    what: str = ""
    plain: Pull | None = None
    evaluating: bool = False
    silent: bool = False
    computed: bool = False

    def wanted(self, cotangents: list[torch.Tensor]) -> dict[str, Any]:
        """What is asked of the subject or of the reference."""
        wanted = {"wrt": self.wrt, "parameters": self.parameters, "cotangents": cotangents}
        return {**wanted, "computed": self.computed}

    def pulled(self, cotangents: list[torch.Tensor]) -> Outcome:
        """What the subject's gradients are for these."""
        call, wanted = self.trial.call, self.wanted(cotangents)
        on = self.trial.bench.subject
        return on.gradients(call.args, call.kwargs, method=call.method, **wanted)

    def right(self, cotangents: list[torch.Tensor]) -> dict[int | str, Any]:
        """What the reference's gradients are for these."""
        call, wanted = self.trial.call, self.wanted(cotangents)
        return pull_back(self.trial.target, call.args, dict(call.kwargs), wanted)["gradients"]


def pull_of(trial: Trial, wrt: list[int], parameters: list[str]) -> Pull | None:
    """Random cotangents; None for a call that is refused, or whose backward pass may overflow."""
    call = trial.call
    if _huge(call):
        return None
    try:
        value = trial.right(*call.args, **call.kwargs)
    except Exception:  # a call that must be refused
        return None
    cotangents = [normal_like(trial.probe.rng, part.detach()) for part in parts(value)]
    return Pull(trial, wrt, parameters, value, cotangents, call.method or "")


def compared(asked: Pull, outcome: Outcome) -> bool:
    """Whether there was something to compare.

    Raises:
        Miss: a gradient is missing or wrong.
        SubjectError: only the call that asks for gradients raised.
    """
    trial, call, cotangents = asked.trial, asked.trial.call, asked.cotangents
    if outcome.error is not None:
        if trial.bench(call).error is not None:
            return False
        raise SubjectError(outcome.error, f"with gradients: {trial.given(call)}")
    mine = parts(outcome.value)
    if [getattr(part, "shape", None) for part in mine] != [c.shape for c in cotangents]:
        return False
    plain = tuple(part.detach() for part in parts(asked.value))
    alike = trial.alike()

    def differences() -> None:
        reached = {key for key, want in asked.right(cotangents).items() if not_zero(want)}
        keys = [key for key in [*_keys(call, asked.wrt), *asked.parameters] if key in reached]
        _as_differences(trial, outcome, keys, cotangents, asked.what)

    if alike.difference(mine, plain, single=True) is None:
        try:
            _as_reference(asked, outcome, asked.right(cotangents))
        except Miss as miss:
            if alike.difference(mine, plain, single=True, strict=True) is None:
                _tell_through(asked, miss)
                raise
            differences()  # rounding may hide wrong values
    else:
        differences()
    return True


def _huge(call: Call) -> bool:
    """Whether the product of two of its numbers, as backward passes form, overflows float32."""
    tensors = [value for value in call.args if isinstance(value, torch.Tensor)]
    finite = [value[value.isfinite()] for value in tensors if value.is_floating_point()]
    return any(float(value.abs().max()) > 1e19 for value in finite if value.numel())


def not_zero(gradient: Any) -> bool:
    """Whether there is a gradient, and a number in it that is not 0."""
    return gradient is not None and bool(gradient.any())


def _keys(call: Call, wrt: list[int]) -> list[int | str]:
    """Positions; of a tuple, ``"2[0]"`` and so on for its tensors."""
    keys: list[int | str] = []
    for position in wrt:
        value = call.args[position]
        many = isinstance(value, tuple)
        keys += [f"{position}[{i}]" for i in range(len(value))] if many else [position]
    return keys


def path_of(key: int | str) -> tuple[int, ...]:
    """Where an argument stands, of a key such as 2 or ``"2[0]"``; empty for a parameter."""
    if isinstance(key, int):
        return (key,)
    found = re.fullmatch(r"(\d+)\[(\d+)\]", key)
    return tuple(map(int, found.groups())) if found else ()


def _argument(trial: Trial, key: int | str) -> Any:
    path = path_of(key)
    at: Any = trial.call.args if path else (trial.call.parameters or {}).get(str(key))
    for index in path:
        at = at[index]
    return at


def name_of(trial: Trial, key: int | str) -> str:
    """What a message calls an argument, a tensor of a tuple, or a parameter."""
    first, *rest = path_of(key) or (key,)
    name = trial.names[first] if isinstance(first, int) else first
    return name + "".join(f"[{index}]" for index in rest)


def _as_reference(asked: Pull, outcome: Outcome, right: dict[int | str, Any]) -> None:
    trial, got = asked.trial, outcome.gradients or {}
    given = trial.given(trial.call)
    cut = [
        name_of(trial, key)
        for key, want in right.items()
        if not_zero(want) and got.get(key) is None
    ]
    if cut:
        raise _cut(cut).on(given, asked.what)
    if outcome.loose:
        _expect_graph(asked, outcome)
    for key, want in right.items():
        if want is None or not want.isfinite().all():  # it overflows, rightly
            continue
        mine = torch.zeros_like(want) if got.get(key) is None else got[key]
        try:
            expect_close(mine, want, GRADIENT, f"gradient of {name_of(trial, key)}")
        except Miss as miss:
            near = (
                mine.shape == want.shape
                and torch.dist(mine, want, torch.inf) < want.abs().max() / 100
            )
            miss.cause = miss.cause or _why(trial, outcome, key, near=bool(near))
            miss.topic = f"gradient of {name_of(trial, key)}"
            raise miss.on(given, asked.what) from None


def _expect_graph(asked: Pull, outcome: Outcome) -> None:
    """Hold results to hanging on the graph where the reference's do, though no gradient is lost.

    Raises:
        Miss: one does not, and a backward pass from it raises.
    """
    trial, call, wanted = asked.trial, asked.trial.call, asked.wanted(asked.cotangents)
    right = pull_back(trial.target, call.args, dict(call.kwargs), wanted)["loose"]
    names = [
        trial.alike().name(index, len(asked.cotangents))
        for index in outcome.loose
        if index not in right
    ]
    if names:
        told = (
            f"no graph leads back from {joined(names)}, so that a backward pass from there raises"
        )
        cause = "Is a constant put in the place of what is computed?"
        raise Miss(f"{told}.", cause=cause, topic=told).on(trial.given(call), asked.what)


def _why(trial: Trial, outcome: Outcome, key: int | str, *, near: bool) -> str:
    if near and not outcome.mutated:
        return "It is off by less than 1 %: is something approximated, or left out where small?"
    if not outcome.mutated:
        at = _argument(trial, key)
        if isinstance(at, torch.Tensor) and not at.any():
            return f"{name_of(trial, key)} is 0 here, so right values do not show how it is used."
        return (
            "Your values are right. Is part of the graph cut, does it lead to another argument, or "
            "is a gradient scaled?"
        )
    named = [trial.names[key] if isinstance(key, int) else key for key in outcome.mutated]
    return f"Your values are right, but the call changes {' and '.join(named)} in place."


def _tell_through(asked: Pull, miss: Miss) -> None:
    """Of several results, add to a miss those whose gradients, pulled alone, are wrong."""
    trial, cotangents = asked.trial, asked.cotangents
    names = trial.probe.results or tuple(f"result {i + 1}" for i in range(len(cotangents)))
    if len(cotangents) == 1:
        return
    named = re.split(r"[, ]+", miss.topic)
    wrong, tested = [], []
    for index, name in enumerate(names):
        alone = [c if i == index else torch.zeros_like(c) for i, c in enumerate(cotangents)]
        right = asked.right(alone)
        lost = (want for key, want in right.items() if name_of(trial, key) in named)
        if not any(map(not_zero, lost)):  # through this result nothing reaches it
            continue
        tested.append(name)
        try:
            _as_reference(asked, asked.pulled(alone), right)
        except Miss:
            wrong.append(name)
    if 0 < len(wrong) < len(tested):
        through = f"through {joined(wrong)}"
        rest = [name for name in tested if name not in wrong]
        text = (
            f"In this call the gradient is wrong {through} only, and right through {joined(rest)}."
        )
        miss.cause = f"{miss.cause} {text}".strip()
        miss.topic = f"{miss.topic} {through}"


def joined(names: list[str]) -> str:
    """``a, b and c``."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _cut(names: list[str]) -> Miss:
    told = f"no gradient reaches {', '.join(names)}"
    return Miss(
        f"{told}.",
        cause="Is it left out, or does something cut the graph: .detach(), .data, .numpy(), "
        ".item(), nn.Parameter(…) or torch.tensor(…) of a tensor, torch.no_grad()? Stay with "
        "tensor operations from input to output.",
        topic=told,
    )


def _as_differences(
    trial: Trial,
    outcome: Outcome,
    keys: list[int | str],
    cotangents: list[torch.Tensor],
    what: str,
) -> None:
    """Where wrong values have no gradient, hold them to having no slope, where the right ones have.

    A jump, as at the edge of a window, has a slope and no gradient.
    """
    got = outcome.gradients or {}
    drawn = [(key, at) for key in keys if (at := _argument(trial, key)) is not None]
    along = {key: normal_like(trial.probe.rng, at) for key, at in drawn}
    cut = [
        (key, at)
        for key, at in drawn
        if got.get(key) is None or float((got[key] * along[key]).sum()) == 0.0
    ]
    near = [_Step(trial, key, at, along[key], STEP) for key, at in cut]
    far = [_Step(trial, key, at, along[key], 2 * STEP) for key, at in cut]
    run_ahead([pair for step in (*near, *far) for pair in step.pairs])
    for (key, _), short, wide in zip(cut, near, far, strict=True):
        found, beside = short.slope(cotangents), wide.slope(cotangents)
        if found is None or beside is None:
            return
        (slope, noise), (wider, _) = found, beside
        if not np.isfinite(slope) or abs(slope) <= 10 * noise:
            continue
        if abs(wider - slope) <= abs(slope) / 4:  # of a jump, twice the step is half as steep
            raise _cut([name_of(trial, key)]).on(trial.given(trial.call), what)


class _Step:
    """A step to either side of an argument or a parameter.

    Attributes:
        pairs: the two calls, each with what is called.
    """

    def __init__(
        self, trial: Trial, key: int | str, at: torch.Tensor, along: torch.Tensor, size: float
    ) -> None:
        self._size = size
        calls = [_moved(trial.call, key, at + sign * along) for sign in (size, -size)]
        argument = bool(path_of(key))  # a parameter needs an instance of its own
        self.pairs = [(trial.bench if argument else Bench(trial.subject, c), c) for c in calls]

    def slope(self, cotangents: list[torch.Tensor]) -> tuple[float, float] | None:
        """The slope of what came, and how far rounding may carry it; None if a call fails."""
        sums, size = [], 0.0
        for bench, call in self.pairs:
            there = bench(call)
            if there.error is not None:
                return None
            terms = [p * c for p, c in zip(parts(there.value), cotangents, strict=True)]
            sums.append(sum(float(term.sum()) for term in terms))
            size += sum(float(term.abs().sum()) for term in terms)
        return (sums[0] - sums[1]) / (2 * self._size), 2.0**-20 * size / self._size


def _moved(call: Call, key: int | str, value: torch.Tensor) -> Call:
    path = path_of(key)
    if path:
        return replaced(call, {path: value})
    return replace(call, parameters={**(call.parameters or {}), str(key): value})


def normal_like(rng: np.random.Generator, like: torch.Tensor) -> torch.Tensor:
    """Normal numbers in the shape and type of a tensor."""
    return torch.from_numpy(np.asarray(rng.standard_normal(tuple(like.shape)))).to(like.dtype)
