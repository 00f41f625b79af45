"""What can be told from a candidate without running it: blank, signature, forbidden calls."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from attend_grader.checks.exercise import Exercise
from attend_grader.checks.subject import Description
from attend_grader.inside.compiling import python_function
from attend_grader.inside.kernels import whole_source

MAX_SOURCE = 200_000
"""Characters of a text that is parsed: a tree takes hundreds of bytes for each."""

MAX_KEPT = 10_000
"""Characters of a text whose tree is kept for the next time: 64 take some 100 MB at most."""


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's parameters, in order."""
    return tuple(inspect.signature(python_function(function)).parameters)


def blank(source: str | None, reference: Callable[..., Any] | None = None) -> bool:
    """Whether ``source`` is a function or class in which nothing has been written yet.

    Args:
        source: a definition.
        reference: the answer; what of it is given in the stub (outside its ``### BEGIN SOLUTION``
            and ``### END SOLUTION``) counts as nothing.
    """
    tree = parse(source)
    if tree is None or not tree.body:
        return False
    given = _given(reference)

    def unwritten(definition: ast.stmt) -> bool:
        if isinstance(definition, ast.ClassDef):
            methods = [n for n in definition.body if isinstance(n, ast.FunctionDef)]
            return bool(methods) and all(_empty(method.body, given) for method in methods)
        return isinstance(definition, ast.FunctionDef) and _empty(definition.body, given)

    return all(map(unwritten, tree.body))  # a function's kernels stand in front of it


def _given(reference: Callable[..., Any] | None) -> frozenset[str]:
    """The statements of an answer that its stub gives, as text; none where all is to be written."""
    try:
        source = whole_source(reference) if reference is not None else ""
    except (OSError, TypeError):
        return frozenset()
    if "### BEGIN SOLUTION" not in source:
        return frozenset()
    stub = re.sub(
        r"(?ms)^( *)### BEGIN SOLUTION.*?### END SOLUTION$",
        r"\1raise NotImplementedError()",
        source,
    )
    nodes = ast.walk(ast.parse(textwrap.dedent(stub)))
    bodies = [node.body for node in nodes if isinstance(node, ast.FunctionDef)]
    return frozenset(ast.unparse(statement) for body in bodies for statement in body)


def leftover_raise(source: str | None) -> str:
    """What to do about a ``raise NotImplementedError`` beside code of the learner's own, or ""."""
    tree = parse(source)
    for node in ast.walk(tree) if tree is not None and not blank(source) else ():
        if not isinstance(node, ast.FunctionDef):
            continue
        for number, statement in enumerate(node.body):
            left = [n for n in ast.walk(statement) if isinstance(n, ast.stmt) and _unwritten(n)]
            if left and not _empty(node.body):
                place = f"line {left[0].lineno - node.lineno + 1} of {node.name}"
                never = "your code above it ends there. Let your last line be a `return`."
                if not _empty(node.body[number + 1 :]):
                    never = "Python stops there, and your code below it never runs."
                return f"Delete the line `raise NotImplementedError()` ({place}): {never}"
    return ""


def _unwritten(statement: ast.stmt) -> bool:
    match statement:
        case ast.Raise(exc=ast.Call(func=ast.Name(id="NotImplementedError"))):
            return True
        case ast.Raise(exc=ast.Name(id="NotImplementedError")):
            return True
    return False


def _empty(body: list[ast.stmt], given: frozenset[str] = frozenset()) -> bool:
    for statement in body:
        if ast.unparse(statement) in given:
            continue
        match statement:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                continue
        if not _unwritten(statement):
            return False
    return True


def signature_problem(description: Description, reference: Callable[..., Any]) -> str:
    """Why the candidate cannot be called as the exercise says, or an empty string.

    Renamed positional parameters and extra ones with defaults are fine.
    """
    if description.parameters is None:
        return ""
    wanted = inspect.signature(python_function(reference))
    kinds = {kind for _, kind, _ in description.parameters}
    positional = [p for p in description.parameters if p[1].startswith("POSITIONAL")]
    names = {name for name, _, _ in description.parameters}
    needed = [p for p in wanted.parameters.values() if p.default is p.empty]
    optional = [p.name for p in wanted.parameters.values() if p.default is not p.empty]
    many = "VAR_POSITIONAL" in kinds
    too_few = len(positional) < len(needed) and not many
    required = [name for name, kind, default in positional[len(needed) :] if not default]
    missing = [n for n in optional if n not in names and "VAR_KEYWORD" not in kinds]
    extra = [n for n in required if n not in optional]
    undefaulted = [n for n in required if n in optional]
    plain = [p.replace(annotation=p.empty) for p in wanted.parameters.values()]
    shown = wanted.replace(parameters=plain, return_annotation=wanted.empty)
    yours = ", ".join(name for name, _, _ in description.parameters)
    expected = f"Expected {description.name}{shown}; yours has ({yours})."
    if too_few:
        return f"wrong signature: too few parameters. {expected}"
    if missing:
        return f"wrong signature: the parameter {', '.join(missing)} is missing. {expected}"
    if extra:
        return (
            f"wrong signature: the extra parameter {', '.join(extra)} needs a default. {expected}"
        )
    if undefaulted:
        return f"wrong signature: {', '.join(undefaulted)} has lost its default. {expected}"
    return ""


def forbidden_calls(description: Description, exercise: Exercise) -> list[str]:
    """Forbidden names the candidate uses, with the lines where they are written.

    Found by name in the source, and behind an alias or in a helper function by where the name
    comes from. Calling the course's own answer to this very exercise is always forbidden.
    """
    listed = (*exercise.forbidden, f"{exercise.reference.__module__}.{exercise.name}")
    banned = [name for ban in listed for name in (ban, *_written_in(ban))]
    found: dict[str, str] = {}
    tree = parse(description.source)
    for node in _outermost_names(tree) if tree is not None else ():
        for written in _dotted_names(node):
            origin = _resolve(written, description)
            if any(_matches(name, ban) for name in {written, origin} for ban in banned):
                where = f"line {getattr(node, 'lineno', 0)}"
                found.setdefault(written, _told(written, origin, where))
    longest_first = sorted(description.origins.items(), key=lambda item: -len(item[0]))
    for written, (origin, function, line) in longest_first:
        known = any(_matches(name, written) for name in found)
        if known or written == description.name or function in exercise.uses:
            continue
        if any(_matches(name, ban) for name in {written, origin} for ban in banned):
            where = f"line {line}" + ("" if function == description.name else f" of {function}")
            found[written] = _told(written, origin, where)
    return list(found.values())


@lru_cache(maxsize=256)
def _written_in(name: str) -> tuple[str, ...]:
    """Where the library's function or class of this name is written, if that is elsewhere.

    ``from torch.nn import GRU`` gives a class that says it is ``torch.nn.modules.rnn.GRU``.
    """
    module, _, last = name.rpartition(".")
    value = getattr(sys.modules.get(module), last, None)
    home, own = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if not callable(value) or not isinstance(home, str) or own != last:
        return ()
    return (f"{home}.{own}",)


def _told(written: str, origin: str, where: str) -> str:
    """``sm (line 3: it is scipy.special.softmax)``."""
    same = origin == written or origin.endswith(f".{written}") or _matches(origin, written)
    alias = "" if same else f": it is {origin}"
    return f"{written} ({where}{alias})"


def _matches(name: str, banned: str) -> bool:
    return name == banned or name.startswith(f"{banned}.")


def _resolve(written: str, description: Description) -> str:
    """``np.linalg.norm`` → ``numpy.linalg.norm`` where ``np`` is the module numpy."""
    root, dot, rest = written.partition(".")
    return f"{description.origins[root][0] if root in description.origins else root}{dot}{rest}"


def _outermost_names(node: ast.AST) -> Iterator[ast.AST]:
    """Attribute chains, names and imports under ``node``; ``a.b.c`` once, not ``a.b`` again."""
    if isinstance(node, ast.Attribute | ast.Import | ast.ImportFrom) and _dotted_names(node):
        yield node
        return
    if isinstance(node, ast.Name):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _outermost_names(child)


def _dotted_names(node: ast.AST) -> list[str]:
    match node:
        case ast.Attribute():
            text = ast.unparse(node)
            return [text] if all(part.isidentifier() for part in text.split(".")) else []
        case ast.Name(id=name, ctx=ast.Load()):
            return [name]
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom():
            return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


_MAGIC = re.compile(r"^([ \t]*)(?:%|!).*$|^([ \t]*)[\w.]+\?{1,2}[ \t]*$", re.MULTILINE)
_TRANSPARENT = re.compile(r"%%(?:time|capture|prun|memit)\b")
"""Cell magics under which a cell does as it does without them."""


@lru_cache(maxsize=256)
def bound(source: str) -> Mapping[str, tuple[str, int] | None] | None:
    """What a cell binds at its top level: names and what stands there, as its last binding.

    Returns:
        name → (the source of the function or class, its first line), or None where something else
        is bound to the name: a value, an import, a function in an ``if``. None instead of all this
        where the cell cannot be read. Lines that hold IPython's magics bind nothing.
    """
    if len(source) > MAX_SOURCE:
        return None
    text = source.replace("\r\n", "\n").replace("\r", "\n")
    tree = parse(text)
    if tree is None:
        text = without_magics(text)
        tree = parse(text)
    if tree is None:
        return None
    found: dict[str, tuple[str, int] | None] = {}
    lines = text.split("\n")
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            own = lines[node.lineno - 1 : node.end_lineno]
            found[node.name] = "\n".join(own) + "\n", node.lineno
        elif not isinstance(node, ast.AsyncFunctionDef):
            found |= dict.fromkeys(_stored(node))
    return found


def without_magics(source: str) -> str:
    """A cell's source with IPython's own lines taken out; as it is where all of it is a magic's."""
    text = source.replace("\r\n", "\n").replace("\r", "\n")
    if text.startswith("%%") and not _TRANSPARENT.match(text):
        return text
    return _MAGIC.sub(r"\1\2pass", text)


def _stored(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement which is no definition may bind."""
    for node in ast.walk(statement):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.alias(name=name, asname=other):
                yield other or name.partition(".")[0]


def parse(source: str | None) -> ast.Module | None:
    """The syntax tree of ``source``; None where there is none, whatever the text is."""
    if source is None or len(source) > MAX_SOURCE:
        return None
    return _parsed(source) if len(source) <= MAX_KEPT else _parsed.__wrapped__(source)


@lru_cache(maxsize=64)
def _parsed(source: str) -> ast.Module | None:
    """The tree, kept for the next exercise of the same notebook: not to be modified."""
    try:
        return ast.parse(source)
    except SyntaxError:  # a lambda in the middle of a line has no parsable source of its own
        return None
    except (ValueError, RecursionError, MemoryError):  # text that was made to break the parser
        return None
