"""That a module keeps nothing from one call for the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from attend_grader.checks.compare import Miss
from attend_grader.checks.subject import Subject, SubjectError
from attend_grader.checks.trials import Trial

PLAIN = (bool, int, float, str, type(None))
"""Types of options: what a module holds besides parameters and modules."""


def follows_parameters(trial: Trial) -> None:
    """After a change of all parameters, as training makes it, a module does what a new one does.

    With torch's graph, and under ``torch.no_grad()``, as in decoding.

    Raises:
        Miss: it gives other values.
        SubjectError: it raises, and a new one does not.
    """
    call, rng = trial.call, trial.probe.rng
    if call.build is None or call.parameters is None or trial.bench.error is not None:
        return
    args, kwargs, built, how = call.args, call.kwargs, call.build, call.method
    now = dict(call.parameters)
    module = trial.subject.build(*built.args, parameters=now, **built.kwargs)
    for graph in (True, False):
        if module.run(args, kwargs, method=how, graph=graph).error is not None:
            return
    for first in (True, False):  # what one way of calling renews, the other may have kept
        now = {name: _otherwise(value, rng) for name, value in now.items()}
        module = module.reload(now)
        fresh = trial.subject.build(*built.args, parameters=now, **built.kwargs)
        for graph in (first, not first):
            want = fresh.run(args, kwargs, method=how, graph=graph)
            if want.error is not None:
                return
            what = "called, then all parameters were changed, as a step of training does"
            what += "" if graph else "; called again under torch.no_grad()"
            after = module.run(args, kwargs, method=how, graph=graph)
            if after.error is not None:
                raise SubjectError(after.error, f"{what}: {trial.given(call)}")
            found = trial.alike().difference(after.value, want.value, single=True)
            if found is not None:
                place, mine, right = found
                text = f"{place} is {mine}, but {right} for a new module with the same parameters."
                cause = "Is something made from the parameters kept from one call for the next?"
                miss = Miss(text, cause=cause, topic="stale parameters")
                raise miss.on(trial.given(call), what)


def _otherwise(value: Any, rng: np.random.Generator) -> Any:
    """A parameter's numbers in another order, and a little larger."""
    if not value.is_floating_point():
        return value.clone()
    order = torch.from_numpy(rng.permutation(value.numel()))
    return 1.1 * value.detach().flatten()[order].reshape(value.shape)


def keeps_nothing(drawn: Sequence[Trial]) -> None:
    """A call leaves no attribute behind and changes no option, with torch's graph and without.

    Raises:
        Miss: it does.
    """
    for trial in drawn:
        built = trial.call.build
        if built is None or trial.bench.error is not None:
            continue
        options = [name for name, value in vars(trial.module).items() if isinstance(value, PLAIN)]
        module = trial.subject.build(*built.args, parameters=trial.call.parameters, **built.kwargs)
        before = _held(module, options)
        for graph in (True, False):
            how: dict[str, Any] = {"method": trial.call.method, "graph": graph}
            if module.run(trial.call.args, trial.call.kwargs, **how).error is not None:
                break
        after = _held(module, options)
        told = [f"self.{name} is new" for name in sorted(after.keys() - before.keys())]
        told += [
            f"self.{name} was {was!r} and is {after.get(name)!r}"
            for name, was in before.items()
            if after.get(name) != was
        ]
        if told:
            raise Miss(
                f"a call leaves something behind in the module: {', '.join(told[:3])}.",
                cause="What a call leaves there stays in memory, a result with its whole graph: "
                "use a plain name.",
                topic="something is kept between calls",
            ).on(trial.given(trial.call), "")


def _held(module: Subject, options: list[str]) -> dict[str, Any]:
    """The names of a module's attributes, with the values of these."""
    held = dict.fromkeys(module.run(method="__dir__").value or ())
    return held | {name: module.run((name,), method="__getattribute__").value for name in options}
