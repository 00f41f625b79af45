"""Calls that are asked for: as requests, in loads that are carried together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol


class Asked(Protocol):
    """A call that is asked for: :class:`.probe.Call`."""

    @property
    def args(self) -> tuple[Any, ...]: ...  # noqa: D102
    @property
    def kwargs(self) -> Mapping[str, Any]: ...  # noqa: D102
    @property
    def build(self) -> Asked | None: ...  # noqa: D102
    @property
    def parameters(self) -> Mapping[str, Any] | None: ...  # noqa: D102
    @property
    def method(self) -> str | None: ...  # noqa: D102
    @property
    def launcher(self) -> str: ...  # noqa: D102
    @property
    def shared(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def turned(self) -> bool: ...  # noqa: D102


def asked(call: Asked) -> dict[str, Any]:
    """The request for a call."""
    request: dict[str, Any] = {"op": "call", "method": call.method}
    request |= {"args": tuple(call.args), "kwargs": dict(call.kwargs)}
    request |= {"launcher": call.launcher} if call.launcher else {}
    request |= {"shared": call.shared, "turned": call.turned} if call.shared else {}
    return request if call.build is None else {**request, "build": built_as(call)}


def built_as(call: Asked) -> dict[str, Any]:
    """How the instance of a call is built."""
    build: Any = call.build
    parameters = None if call.parameters is None else dict(call.parameters)
    return {"args": tuple(build.args), "kwargs": dict(build.kwargs), "parameters": parameters}


MOST_CALLS, MOST_BYTES = 64, 2**22
"""Calls that are carried together, and bytes of their arguments."""


def loads(calls: Sequence[Asked]) -> Iterator[Sequence[Asked]]:
    """The calls in order, as many at a time as are carried together."""
    load: list[Asked] = []
    size = 0
    for call in calls:
        more = sum(size_of(value) for value in (*call.args, *call.kwargs.values()))
        more += sum(map(size_of, (call.parameters or {}).values()))
        if load and (len(load) == MOST_CALLS or size + more > MOST_BYTES):
            yield load
            load, size = [], 0
        load.append(call)
        size += more
    if load:
        yield load


def size_of(value: Any) -> int:
    """Bytes of the arrays in a value."""
    if isinstance(value, (tuple, list)):
        return sum(map(size_of, value))
    if isinstance(value, dict):
        return sum(map(size_of, value.values()))
    return int(getattr(value, "nbytes", 0))
