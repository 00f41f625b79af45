"""The text of an answer as a notebook cell, and the names it needs around it."""

from __future__ import annotations

import ast
import builtins
import inspect
import symtable
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator
from typing import Any

from attend_grader.inside.compiling import python_function
from attend_grader.inside.kernels import definitions, kernels_of

from attend.errors import AttendError

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


def solution_text(reference: Callable[..., Any], defined: Collection[str] = ()) -> str:
    """The answer's source with its solution marked for nbgrader, the kernels it launches in front.

    Where the author marked regions, they stand; else all after the docstring is the solution.
    Where a kernel has marked regions, what is outside of these is given, in the launch too.

    Args:
        reference: the answer.
        defined: names that cells above define: these kernels are not repeated.

    Raises:
        AttendError: a class without marked regions: a stub must still be a class when it runs, so
            the solution is inside its methods.
    """
    *kernels, own = definitions(reference)
    names = [python_function(kernel).__name__ for kernel in kernels_of(reference)]
    parts = [text for name, text in zip(names, kernels, strict=True) if name not in defined]
    if BEGIN in "".join([*parts, own]):
        return "\n\n\n".join([*parts, own])
    return "\n\n\n".join(_marked(text, reference) for text in [*parts, own])


def _marked(source: str, reference: Callable[..., Any]) -> str:
    definition = ast.parse(source).body[0]
    if isinstance(definition, ast.ClassDef):
        raise AttendError(
            f"the class {definition.name} in {reference.__module__} marks no solution: put "
            f"{BEGIN} and {END} around what the learner writes, inside its methods"
        )
    assert isinstance(definition, ast.FunctionDef)
    lines = source.split("\n")
    first = _first_statement(definition)
    indent = " " * first.col_offset
    top = first.lineno - 1
    docstring_end = definition.body[0].end_lineno if first is not definition.body[0] else None
    while docstring_end is not None and top > docstring_end and lines[top - 1].strip()[:1] == "#":
        top -= 1  # comments above the first statement belong to the solution
    return "\n".join([*lines[:top], indent + BEGIN, *lines[top:], indent + END])


def _first_statement(definition: ast.FunctionDef) -> ast.stmt:
    body = definition.body
    documented = ast.get_docstring(definition) is not None and len(body) > 1
    return body[1] if documented else body[0]


def solution_statements(reference: Callable[..., Any]) -> list[str]:
    """The statements inside the solution, normalised: what a release must not contain."""
    marked = solution_text(reference).split("\n")
    begin = [n for n, line in enumerate(marked, 1) if line.strip() == BEGIN]
    end = [n for n, line in enumerate(marked, 1) if line.strip() == END]
    regions = list(zip(begin, end, strict=True))
    found = []
    for node in ast.walk(ast.parse("\n".join(marked))):
        if not isinstance(node, ast.stmt) or hasattr(node, "body"):
            continue
        if any(a < node.lineno < b for a, b in regions):
            found.append(ast.unparse(node))
    return found


def names_needed(text: str) -> set[str]:
    """Global names that a function's or class's source uses, annotations and defaults included."""

    def walk(table: symtable.SymbolTable) -> Iterator[str]:
        for symbol in table.get_symbols():
            free = symbol.is_global() or table.get_type() == "module"
            if symbol.is_referenced() and free:
                yield symbol.get_name()
        for child in table.get_children():
            yield from walk(child)

    table = symtable.symtable(text, "<solution>", "exec")
    own = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned()}
    return {name for name in walk(table) if name not in own and not hasattr(builtins, name)}


def names_defined(tree: ast.Module) -> set[str]:
    """Names a cell binds at its top level, inside ``if``, ``with`` and loops included."""
    found: set[str] = set()
    for node in _top_level(tree.body):
        match node:
            case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
                found.add(node.name)
            case ast.Import() | ast.ImportFrom():
                found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
            case ast.Name(ctx=ast.Store()):
                found.add(node.id)
    return found


def _top_level(body: list[ast.stmt]) -> Iterator[ast.AST]:
    for statement in body:
        yield statement
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            continue
        yield from ast.walk(statement)


def helper_text(reference: Callable[..., Any], name: str) -> str | None:
    """Source of a helper function that an answer uses and its module defines, or None."""
    helper = getattr(sys.modules[reference.__module__], name, None)
    if inspect.isfunction(helper) and helper.__module__ == reference.__module__:
        return textwrap.dedent(inspect.getsource(helper)).rstrip()
    return None
