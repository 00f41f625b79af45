"""What came of a call, and how it was made: what a subject gives and remembers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class CallError:
    """An exception raised by the candidate, cut to its own lines.

    ``lines`` holds (function, line within it, text), outermost first; ``shapes`` the arrays that
    were alive where it failed, and words: "a tuple of 2", "None"; ``own`` is true where the
    innermost line is the candidate's own rather than that of another function it calls; ``bases``
    are the names of the types that its own is derived from.
    """

    type: str
    message: str
    lines: Sequence[Sequence[Any]] = ()
    shapes: Mapping[str, Sequence[int] | str] = field(default_factory=dict)
    own: bool = False
    bases: Sequence[str] = ()

    def is_a(self, name: str) -> bool:
        """Whether it is an exception of this name, or of a type derived from it."""
        return name == self.type or name in self.bases


@dataclass(frozen=True)
class Outcome:
    """What one call did: its value or error, and what it did besides.

    ``overwritten``: a later call, carried together with it, changed what it had returned.
    ``loose``: results, by position, that hang on no graph, where gradients were asked for.
    """

    value: Any
    error: CallError | None = None
    mutated: Sequence[int | str] = ()
    overwritten: bool = False
    gradients: Mapping[int | str, Any] | None = None
    loose: Sequence[int] = ()
    steps: int = 0
    peak_bytes: int = 0
    tensor_bytes: int = 0
    trace: Sequence[Mapping[str, Any]] = ()
    printed: str = ""
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class Made:
    """How an instance was built: the constructor's arguments and its parameters."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    parameters: Mapping[str, Any] | None


@dataclass(frozen=True)
class Logged:
    """One call that was made, and what came.

    Attributes:
        args: of the call.
        kwargs: of the call.
        method: that was called, if not the candidate itself.
        made: how the instance was built that was called.
        references: earlier exercises whose references stood in.
        outcome: what came.
        launcher: that launched the candidate, a kernel.
        want: what is right, where a property has said whether the outcome is; else None.
        wrong: what it said.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    method: str | None
    made: Made | None
    references: tuple[str, ...]
    outcome: Outcome
    launcher: str = ""
    want: Any = None
    wrong: bool = False
