"""That a module keeps nothing made from its parameters from one call for the next."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from attend_grader.checks.compare import Miss
from attend_grader.checks.subject import SubjectError
from attend_grader.checks.trials import Trial


def follows_parameters(trial: Trial) -> None:
    """After a change of all parameters, as training makes it, a module does what a new one does.

    With torch's graph, and under ``torch.no_grad()``, as in decoding; while training and after
    ``.eval()``.

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
    # what one way of calling renews, the other may have kept
    for ways, training in (((True, False), True), ((False, True), True), ((True,), False)):
        if not training:
            module.run(method="eval")
            module.run(args, kwargs, method=how)
        now = {name: _otherwise(value, rng) for name, value in now.items()}
        module = module.reload(now)
        fresh = trial.subject.build(*built.args, parameters=now, **built.kwargs)
        if not training:
            fresh.run(method="eval")
        for graph in ways:
            want = fresh.run(args, kwargs, method=how, graph=graph)
            if want.error is not None:
                return
            what = "called, then all parameters were changed, as a step of training does"
            what += "" if training else "; in eval mode"
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
