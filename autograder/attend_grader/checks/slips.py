"""Slips: known mistakes, written as small edits of the answer.

An edit is old text and new text. The old text must stand exactly once in the answer's code,
outside its docstring; else the slip is stale or ambiguous, which an error says when the slip is
first used and :meth:`Slips.stale` lists for the tests and the build. A slip that is another
algorithm altogether is given as a function.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attend_grader.inside.compiling import python_function
from attend_grader.inside.kernels import whole_source

Edit = tuple[str, str]
"""Old text, new text."""


class StaleSlip(ValueError):
    """An edit does not fit the answer (any more); the message says which and why."""


@dataclass(frozen=True)
class Slip:
    """One known mistake.

    Attributes:
        name: in a few words: "one maximum for all rows".
        edit: what changes in the answer: one edit, several (applied in order), or a function or
            class written out.
        told: what the learner is told. It is told to whoever's code behaves alike, so it speaks of
            what comes out before it guesses at code.
        seen: where it was seen: a review, a forum, a class.
    """

    name: str
    edit: Edit | tuple[Edit, ...] | Callable[..., Any]
    told: str
    seen: str = ""

    def applied(self, reference: Callable[..., Any]) -> Callable[..., Any]:
        """The answer with this slip, living in the answer's own namespace.

        Raises:
            StaleSlip: an edit does not fit, or what it makes is no Python.
        """
        if callable(self.edit):
            self.edit.__doc__ = self.told or self.edit.__doc__
            return self.edit
        source = code_of(reference)
        for old, new in self._edits():
            count = source.count(old)
            if count != 1:
                found = "is not in the answer" if not count else f"stands there {count} times"
                raise StaleSlip(f"{reference.__name__}, slip {self.name!r}: {old!r} {found}")
            source = source.replace(old, new)
        place = f"{reference.__module__}.{reference.__name__}"  # two chapters may repair one thing
        try:
            return define(source, reference, f"<slip {place}: {self.name}>", self.told)
        except SyntaxError as error:
            raise StaleSlip(f"{reference.__name__}, slip {self.name!r}: {error}") from None

    def _edits(self) -> tuple[Edit, ...]:
        match self.edit:
            case (str(old), str(new)):
                return ((old, new),)
            case tuple(several):
                return several  # type: ignore[return-value]  # what is no pair of texts holds pairs
        raise TypeError(f"slip {self.name!r} is a function")


def code_of(reference: Callable[..., Any]) -> str:
    """The source of a function or class, its kernels in front; docstrings blanked, lines kept."""
    lines = whole_source(reference).splitlines()
    for node in ast.walk(ast.parse("\n".join(lines))):
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            continue
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            last = first.end_lineno or first.lineno
            lines[first.lineno - 1 : last] = [""] * (last - first.lineno + 1)
    return "\n".join(lines) + "\n"


def define(
    source: str, reference: Callable[..., Any], filename: str, told: str = ""
) -> Callable[..., Any]:
    """Run a changed definition in a copy of the reference's namespace; the function or class."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    module = inspect.getmodule(python_function(reference))
    namespace = dict(vars(module)) if module is not None else {}
    exec(compile(source, filename, "exec"), namespace)
    made = namespace[reference.__name__]
    made.__doc__ = told
    return made


class Slips(Mapping[str, Callable[..., Any]]):
    """An exercise's slips by name, each made when it is first asked for.

    Args:
        reference: the answer.
        slips: in the order in which they are tried.
    """

    def __init__(self, reference: Callable[..., Any], slips: Sequence[Slip]) -> None:
        self.reference = reference
        self.slips = {slip.name: slip for slip in slips}
        self._made: dict[str, Callable[..., Any]] = {}
        if len(self.slips) != len(slips):
            raise ValueError(f"{reference.__name__}: two slips have the same name")

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name not in self._made:
            self._made[name] = self.slips[name].applied(self.reference)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.slips)

    def __len__(self) -> int:
        return len(self.slips)

    def stale(self) -> list[str]:
        """Which edits do not fit the answer, and why; empty where all do."""
        found = []
        for name in self:
            try:
                self[name]
            except StaleSlip as error:
                found.append(str(error))
        return found
