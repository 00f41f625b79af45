"""Parts that checks of torch exercises are made of (imports torch: NumPy chapters must not use it).

Inputs are float32 unless a check is about dtypes: it is what learners work with, and a
``torch.zeros(...)`` in the middle of a right answer costs nobody points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from attend_grader.checks.compare import (
    FLOAT32,
    Miss,
    Tolerance,
    expect_close,
    expect_items,
    expect_kind,
    item_names,
)
from attend_grader.checks.probe import Call, Probe
from attend_grader.checks.properties import expect_unchanged, strided
from attend_grader.checks.properties import transposed as transposed_array
from attend_grader.checks.subject import Outcome, Subject, SubjectError
from attend_grader.checks.torch_numbers import fresh_parameters, normal
from attend_grader.inside.torch_gradients import gradients

GRADIENT = Tolerance(
    "gradient in float32",
    5e-5,
    "a backward pass adds as many rounded terms as the forward one (which FLOAT32 allows 1e-5), "
    "through two or three products in a row",
    absolute=5e-6,
)


def module_call(
    reference: Callable[..., torch.nn.Module],
    rng: np.random.Generator,
    build: Call,
    *args: Any,
    scale: float = 1.0,
    **kwargs: Any,
) -> Call:
    """A call of an instance with fresh parameters: what an exercise's ``draws`` are made of."""
    module = reference(*build.args, **build.kwargs)
    return Call(args, kwargs, build, fresh_parameters(module, rng, scale))


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in reversed memory order: what a view like ``x.mT`` looks like inside."""
    return torch.from_numpy(transposed_array(tensor.numpy()))


def gapped(tensor: torch.Tensor) -> torch.Tensor:
    """The same values with gaps between them: what a view like ``x[..., ::2]`` looks like."""
    return torch.from_numpy(strided(tensor.numpy()))


VIEWS = {
    "arguments stored transposed (a view, as `x.mT` gives; `.view` fails on it)": transposed,
    "arguments stored with gaps (a view, as `x[..., ::2]` gives)": gapped,
}
"""Memory layouts that are not contiguous, and how to tell them in a message."""


def agree_untouched(
    probe: Probe,
    subject: Subject,
    *args: Any,
    tolerance: Tolerance = FLOAT32,
    **kwargs: Any,
) -> None:
    """Hold the subject to the reference and to leaving ``args`` alone, in three memory layouts.

    Arguments that are not floating tensors stay as they are.
    """
    expect_unchanged(probe, probe.call(subject, *args, **kwargs))
    why = "in a plain call"
    probe.agree(subject, *args, tolerance=tolerance, why=why, **kwargs)
    for why, lay in VIEWS.items():
        laid = [lay(a) if _floating(a) and a.ndim else a for a in args]
        probe.agree(subject, *laid, tolerance=tolerance, why=why, **kwargs)


def agree_gradients(
    probe: Probe,
    subject: Subject,
    *args: Any,
    wrt: Sequence[int] = (),
    parameters: Sequence[str] = (),
    tolerance: Tolerance = GRADIENT,
    why: str = "",
    **kwargs: Any,
) -> Outcome:
    """Pull random cotangents back through the subject and compare its gradients with the reference's.

    Args:
        probe: its reference is the oracle: autograd through it gives the right gradients.
        subject: a function of tensors, or an instance that :meth:`Probe.build` made.
        *args: the call's arguments.
        wrt: positions in ``args`` of the inputs whose gradients are looked at.
        parameters: names of the module's parameters whose gradients are looked at.
        tolerance: how far gradients may differ.
        why: said in front of a miss.
        **kwargs: the call's keyword arguments.

    Raises:
        Miss: the answer has another form, or a gradient is missing (the graph is cut) or differs.
        SubjectError: the candidate raised.
    """
    value = probe.reference(*args, **kwargs)
    outputs = value if isinstance(value, tuple) else (value,)
    cotangents = [normal(probe.rng, *o.shape, dtype=o.dtype) for o in outputs]
    wanted = {"wrt": wrt, "parameters": parameters, "cotangents": cotangents}
    right = gradients(probe.reference, args, kwargs, wanted)["gradients"]
    outcome = subject.gradients(args, kwargs, wrt=wrt, parameters=parameters, cotangents=cotangents)
    given = probe.given(args, kwargs)
    if outcome.error is not None:
        raise SubjectError(outcome.error, given)
    try:
        _expect_form(outcome.value, value, probe.results or "result")
    except Miss as miss:
        raise miss.on(given, why) from None
    got: Mapping[int | str, Any] = outcome.gradients or {}
    names = {key: probe.names[key] if isinstance(key, int) else key for key in right}
    cut = [names[k] for k, v in right.items() if v is not None and v.any() and got.get(k) is None]
    if cut:
        raise Miss(
            f"no gradient reaches {' and '.join(cut)}.",
            cause="Is it left out, or does something cut the graph: .detach(), .data, .numpy(), "
            ".item(), torch.tensor(…) of a tensor, torch.no_grad()? Stay with tensor operations "
            "from input to output.",
            topic="cut graph",
        ).on(given, why)
    for key, want in right.items():
        if want is None:
            continue
        mine = torch.zeros_like(want) if got.get(key) is None else got[key]
        try:
            expect_close(mine, want, tolerance, f"gradient of {names[key]}")
        except Miss as miss:
            raise miss.on(given, why) from None
    return outcome


def _expect_form(got: Any, want: Any, what: str | tuple[str, ...]) -> None:
    """Hold an answer to a form that has the gradients asked for: tensors of the right shapes.

    Raises:
        Miss: it has another; one that other lines of the card tell too is the same as theirs.
    """
    names = item_names(what, len(want)) if isinstance(want, tuple) else (str(what),)
    if isinstance(want, tuple):
        expect_items(got, names)
    pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
    for name, (mine, right) in zip(names, pairs, strict=True):
        expect_kind(mine, right, name)
        shape = tuple(getattr(mine, "shape", ()))
        if shape != tuple(right.shape):
            raise Miss(
                f"no gradient was looked at: {name} is {shape}, expected {tuple(right.shape)}. "
                "Fix the shape first."
            )


def agree_dtype(
    probe: Probe, subject: Subject, *args: Any, tolerance: Tolerance, **kwargs: Any
) -> None:
    """Hold the subject to answering float64 arguments in float64, and as exactly.

    Raises:
        Miss: dtype or values differ.
    """
    wide = [_doubled(a) for a in args]
    value, right = probe.call(subject, *wide, **kwargs).value, probe.reference(*wide, **kwargs)
    many = isinstance(right, tuple) and isinstance(value, (tuple, list))
    names = item_names(probe.results or "result", len(right)) if many else ("result",)
    pairs = zip(value, right, strict=False) if many else [(value, right)]
    for name, (got, want) in zip(names, pairs, strict=False):
        if getattr(got, "dtype", want.dtype) != want.dtype:
            raise Miss(
                f"{name} has dtype {got.dtype} for float64 arguments, expected {want.dtype}.",
                cause="A tensor made inside needs the arguments' dtype: "
                "`torch.zeros(…, dtype=x.dtype)`, `x.new_zeros(…)` or `torch.zeros_like(x)`.",
            ).on(probe.given(wide, kwargs), "")
    probe.agree(subject, *wide, tolerance=tolerance, why="float64 arguments", **kwargs)


def _doubled(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_doubled(item) for item in value)
    return value.double().round(decimals=6) if _floating(value) else value


def _floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
