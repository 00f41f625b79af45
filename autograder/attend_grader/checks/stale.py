"""That a module keeps nothing made from its parameters from one call for the next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from attend_grader.checks.compare import Miss
from attend_grader.checks.outcomes import Outcome
from attend_grader.checks.subject import SubjectError
from attend_grader.checks.trials import Trial


def follows_parameters(trial: Trial, methods: Iterable[str | None]) -> None:
    """After a change of all parameters, as training makes it, a module does what a new one does.

    With torch's graph, and under ``torch.no_grad()``, as in decoding; and after ``.eval()``; also
    by another of its ``methods``, with the very same arrays.

    Raises:
        Miss: it gives other values.
        SubjectError: it raises, and a new one does not.
    """
    call = trial.call
    if call.build is None or call.parameters is None or trial.bench.error is not None:
        return
    _follows(trial, evaluating=False)
    if isinstance(trial.module, torch.nn.Module):
        _follows(trial, evaluating=True)
    for method in methods:
        _follows_with_the_same(trial, method)


def _follows_with_the_same(trial: Trial, method: str | None) -> None:
    call = trial.call
    assert call.build is not None
    args, kwargs, built, before = call.args, call.kwargs, call.build, dict(call.parameters or {})
    now = {name: _otherwise(value, trial.probe.rng) for name, value in before.items()}
    new = trial.subject.build(*built.args, parameters=now, **built.kwargs)
    want = new.run(args, kwargs, method=method, graph=False)
    module = trial.subject.build(*built.args, parameters=before, **built.kwargs)
    again = {"parameters": now, "method": method}
    after = module.run(args, kwargs, method=call.method, graph=False, again=again)
    if want.error is not None or after.error is not None:
        return
    what = "called under torch.no_grad(), then all parameters were changed; called again"
    what += f" by {method}" if method != call.method else " with the same arrays"
    _as_new(trial, after, want, what)


def _follows(trial: Trial, *, evaluating: bool) -> None:
    call, rng = trial.call, trial.probe.rng
    assert call.build is not None
    args, kwargs, built, how = call.args, call.kwargs, call.build, call.method
    now = dict(call.parameters or {})
    module = trial.subject.build(*built.args, parameters=now, **built.kwargs)
    if evaluating:
        module.run(method="eval", graph=False)
    for graph in (True, False):
        if module.run(args, kwargs, method=how, graph=graph).error is not None:
            return
    for first in (False,) if evaluating else (True, False):  # one may keep what the other renews
        now = {name: _otherwise(value, rng) for name, value in now.items()}
        module = module.reload(now)
        fresh = trial.subject.build(*built.args, parameters=now, **built.kwargs)
        for graph in (first, not first):
            want = fresh.run(args, kwargs, method=how, graph=graph)
            if want.error is not None:
                return
            what = "called, then all parameters were changed, as a step of training does"
            what += "" if graph else "; called again under torch.no_grad()"
            what = f"after .eval(): {what}" if evaluating else what
            after = module.run(args, kwargs, method=how, graph=graph)
            if after.error is not None:
                raise SubjectError(after.error, f"{what}: {trial.given(call)}")
            _as_new(trial, after, want, what)


def _as_new(trial: Trial, after: Outcome, want: Outcome, what: str) -> None:
    """Hold a call to what a new module gives.

    Raises:
        Miss: it gives other values.
    """
    found = trial.alike().difference(after.value, want.value, single=True)
    if found is not None:
        place, mine, right = found
        text = f"{place} is {mine}, but {right} for a new module with the same parameters."
        cause = "Is something made from the parameters kept from one call for the next?"
        miss = Miss(text, cause=cause, topic="stale parameters")
        raise miss.on(trial.given(trial.call), what)


def _otherwise(value: Any, rng: np.random.Generator) -> Any:
    """A parameter's numbers in another order, and a little larger."""
    if not value.is_floating_point():
        return value.clone()
    order = torch.from_numpy(rng.permutation(value.numel()))
    return 1.1 * value.detach().flatten()[order].reshape(value.shape)
