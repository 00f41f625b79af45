"""Calls taken apart: every array by the name of its argument, and calls with some replaced.

An array may be NumPy's or torch's; what is written here works for both, and imports torch only
where a tensor came in.
"""

from __future__ import annotations

import inspect
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Literal

import numpy as np

from attend_grader.checks.compare import as_array
from attend_grader.checks.instances import target_of
from attend_grader.checks.outcomes import CallError, Outcome
from attend_grader.checks.probe import Call
from attend_grader.checks.properties import VIEWS
from attend_grader.checks.subject import Subject, local
from attend_grader.inside import codec
from attend_grader.inside.kernels import launches

Path = tuple[int | str, ...]
"""Where an array stands in a call: position or keyword, then indices into nested tuples."""

VARIADIC = 16
"""How many arguments that a parameter with a star collects are named."""

Kind = Literal["floating", "integer", "boolean", "other"]


@dataclass(frozen=True)
class Leaf:
    """One array of a call.

    Attributes:
        path: where it stands.
        name: what a message calls it: ``q``, or ``state[1]`` for one in a tuple.
        value: the array or tensor.
    """

    path: Path
    name: str
    value: Any

    @property
    def kind(self) -> Kind:
        """Floating, integer or boolean."""
        return kind_of(self.value)

    @property
    def finite(self) -> bool:
        """Whether all its numbers are finite."""
        return bool(np.isfinite(numbers(self.value)).all())


@cache
def parameters_of(reference: Any, method: str | None = None) -> tuple[str, ...]:
    """Names of the parameters of a function, or of a class's ``forward`` (or another method).

    ``*masks`` stands as ``mask_1``, ``mask_2``, …
    """
    target = reference
    if isinstance(reference, type):
        target = getattr(reference, method or "forward", None) or reference.__call__
    found = inspect.signature(target).parameters.values()
    names: list[str] = []
    for each in found:
        one = each.name.removesuffix("s")
        many = [f"{one}_{i + 1}" for i in range(VARIADIC)]
        names += many if each.kind is each.VAR_POSITIONAL else [each.name]
    return tuple(names[1:] if isinstance(reference, type) else names)


def leaves(call: Call, names: Sequence[str]) -> list[Leaf]:
    """Every array of the call, in the order of its arguments."""
    found: list[Leaf] = []
    for position, value in enumerate(call.args):
        name = names[position] if position < len(names) else f"argument {position + 1}"
        found += _leaves(value, (position,), name)
    for name, value in call.kwargs.items():
        found += _leaves(value, (name,), name)
    return found


def _leaves(value: Any, path: Path, name: str) -> Iterator[Leaf]:
    if is_array(value):
        yield Leaf(path, name, value)
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index), f"{name}[{index}]")


def replaced(call: Call, changes: Mapping[Path, Any]) -> Call:
    """The same call with other values at the given paths."""
    args, kwargs = list(call.args), dict(call.kwargs)
    for (first, *rest), value in changes.items():
        if isinstance(first, int):
            args[first] = _put(args[first], rest, value)
        else:
            kwargs[first] = _put(kwargs[first], rest, value)
    return replace(call, args=tuple(args), kwargs=kwargs)


def _put(whole: Any, path: Sequence[int | str], value: Any) -> Any:
    if not path:
        return value
    first, *rest = path
    return type(whole)(_put(v, rest, value) if i == first else v for i, v in enumerate(whole))


class Bench:
    """A subject on variants of one call; a class is built once, with the call's parameters."""

    def __init__(self, subject: Subject, call: Call) -> None:
        self._whole, self._call = subject, call
        self._made: Subject | CallError | None = subject if call.build is None else None
        self._known: dict[tuple[int, bool], tuple[Call, Outcome]] = {}

    @property
    def _built(self) -> Subject | CallError:
        """What is called, made when it is first asked for; or why it could not be made."""
        if self._made is None:
            build_ahead([self])
        assert self._made is not None
        return self._made

    @property
    def subject(self) -> Subject:
        """What is called: the subject, or the instance that was built."""
        return self._whole if isinstance(self._built, CallError) else self._built

    @property
    def error(self) -> CallError | None:
        """Why no instance could be built."""
        return self._built if isinstance(self._built, CallError) else None

    def __call__(self, call: Call, *, graph: bool = True) -> Outcome:
        """What the subject does; never raises for its errors."""
        if self.error is not None:
            return Outcome(None, self.error)
        if self.knows(call, graph):
            return self._known[id(call), graph][1]
        return self._run(call, graph)

    def _run(self, call: Call, graph: bool) -> Outcome:
        return self.subject.run(call.args, call.kwargs, method=call.method, graph=graph)

    def knows(self, call: Call, graph: bool = True) -> bool:
        """Whether this very call was run already."""
        return (id(call), graph) in self._known

    def know(self, call: Call, outcome: Outcome, graph: bool = True) -> None:
        """Answer this very call with this outcome: it was run together with others."""
        self._known[id(call), graph] = call, outcome


def build_ahead(benches: Sequence[Bench]) -> None:
    """Build the instances of a candidate's benches together, where they are not built yet."""
    waiting = [bench for bench in dict.fromkeys(benches) if bench._made is None]
    if waiting:
        made = waiting[0]._whole.built([bench._call for bench in waiting])
        for bench, subject in zip(waiting, made, strict=True):
            bench._made = subject


def run_ahead(pairs: Sequence[tuple[Bench, Call]], *, graph: bool = True) -> None:
    """Run a candidate's calls together, which is cheaper; their benches answer from there."""
    once = {(id(bench), id(call)): (bench, call) for bench, call in pairs}
    asked = [(bench, call) for bench, call in once.values() if not bench.knows(call, graph)]
    build_ahead([bench for bench, _ in asked])
    asked = [(bench, call) for bench, call in asked if bench.error is None]
    if not asked:
        return
    subjects = [bench.subject for bench, _ in asked]
    calls = [replace(call, build=None) for _, call in asked]
    outcomes = subjects[0].many(calls, subjects, graph=graph)
    for (bench, call), outcome in zip(asked, outcomes, strict=True):
        bench.know(call, outcome, graph)


def reference_on(reference: Callable[..., Any], call: Call) -> Bench:
    """A bench for the reference, or for what a method or a closure makes of it."""
    plain = isinstance(reference, (type, types.FunctionType))
    traced = plain and _launches(reference)
    return Bench(local(reference), call) if traced else _OwnBench(reference, call)


_launches = lru_cache(launches)


class _OwnBench(Bench):
    """The reference on variants of one call: our own code, called without a subject around it."""

    def __init__(self, reference: Callable[..., Any], call: Call) -> None:
        super().__init__(local(reference), replace(call, build=None))
        self._made_for, self._reference = call, reference

    def _run(self, call: Call, graph: bool) -> Outcome:
        args, kwargs = codec.copied(tuple(call.args)), codec.copied(dict(call.kwargs))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                target = target_of(self._reference, self._made_for)
                target = getattr(target, call.method) if call.method else target
                return Outcome(codec.copied(target(*args, **kwargs)))
        except Exception as error:  # a call that must be refused: whoever asks decides
            bases = [base.__name__ for base in type(error).__mro__[1:]]
            return Outcome(None, CallError(type(error).__name__, str(error), bases=bases))


def is_array(value: Any) -> bool:
    """Whether it is a NumPy array or a torch tensor."""
    return isinstance(value, np.ndarray) or is_tensor(value)


def is_tensor(value: Any) -> bool:
    """Whether it is a torch tensor; imports nothing."""
    return type(value).__module__.startswith("torch") and hasattr(value, "numel")


def numbers(value: Any) -> np.ndarray:
    """An array's or a tensor's numbers (or one plain number), as a NumPy array.

    What is no array, such as a list of arrays of several lengths, comes as one object.
    """
    array = as_array(value)
    if array is not None:
        return array
    try:
        return np.asarray(value)
    except ValueError:
        whole = np.empty((), object)
        whole[()] = value
        return whole


def kind_of(value: Any) -> Kind:
    """What an array holds."""
    kind = "f" if _is_float_tensor(value) else numbers(value).dtype.kind
    return {"f": "floating", "i": "integer", "u": "integer", "b": "boolean"}.get(kind, "other")  # type: ignore[return-value]


def _is_float_tensor(value: Any) -> bool:
    return is_tensor(value) and value.dtype.is_floating_point


def cast(value: Any, dtype: str) -> Any:
    """An array or tensor in ``float64``, ``float32``, ``int64`` or ``bool``: always a copy."""
    if is_tensor(value):
        import torch

        return value.to(getattr(torch, dtype), copy=True)
    return np.array(value, dtype=dtype)


def rounded(value: Any, factor: float = 2.0) -> Any:
    """Whole numbers near ``factor`` times the value, still stored as floats."""
    scaled = value * factor
    return scaled.round() if is_tensor(value) else np.rint(scaled)


def stacked(values: Sequence[Any], shape: Sequence[int]) -> Any:
    """Arrays of one shape along new leading axes of the given lengths."""
    first = values[0]
    if is_tensor(first):
        import torch

        return torch.stack(list(values)).reshape(*shape, *first.shape)
    return np.stack(values).reshape(*shape, *np.shape(first))


def views(value: Any) -> dict[str, Any]:
    """The same numbers in other memory layouts, by how a message tells of them."""
    if is_tensor(value):
        from attend_grader.checks.torch_properties import VIEWS as LAYOUTS
    else:
        LAYOUTS = VIEWS  # noqa: N806 (the same constant, of another library)
    laid = {why.split(" (")[0].removeprefix("arguments "): lay for why, lay in LAYOUTS.items()}
    return {how: lay(value) for how, lay in laid.items() if not (value.ndim < 2 and "trans" in how)}


def parts(value: Any) -> tuple[Any, ...]:
    """The results of a call: the items of a tuple or list, or the one value."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def usable(outcome: Outcome, *, infinite: bool = False) -> bool:
    """Whether a call gave arrays or numbers, all of them finite; or ``infinite``, but not NaN."""
    if outcome.error is not None or outcome.value is None:
        return False
    try:
        values = [numbers(part) for part in parts(outcome.value)]
        return not any((np.isnan(x) if infinite else ~np.isfinite(x)).any() for x in values)
    except TypeError:  # no numbers
        return False
