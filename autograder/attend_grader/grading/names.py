"""Where the names that an answer uses come from, read from its cells outside the jail.

Inside, :mod:`attend_grader.inside.origins` looks at living functions, and submitted code could
replace it. This reads the source that was handed in: imports, assignments of one name to another,
helper functions, default arguments, decorators, class bodies. What it cannot follow is refused when
it is called (:mod:`attend_grader.inside.bans`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from attend_grader.judging import reading

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
MOST = 200
"""Names that are told."""


def origins(
    sources: Sequence[str], name: str, parts: Collection[str] = ()
) -> dict[str, list[object]] | None:
    """Map each global name that ``name`` can reach to where it comes from.

    Args:
        sources: the cells that ran, in order.
        name: the function or class that is checked.
        parts: earlier exercises that it may call; what these use is their own affair.

    Returns:
        written name (``"sm"``, ``"np.exp"``) → [the dotted name it stands for, the function that
        uses it, the line within that function], as the jail tells it; None where no cell that
        can be read defines ``name``.
    """
    aliases: dict[str, str] = {}
    definitions: dict[str, ast.AST] = {}
    for source in sources:
        tree = reading.parse(source) or reading.parse(reading.without_magics(source))
        for statement in tree.body if tree is not None else ():
            _take(statement, aliases, definitions)
    if name not in definitions:
        return None
    found: dict[str, list[object]] = {}
    pending, seen = [name], {*parts} - {name}
    while pending and len(found) < MOST:
        user = pending.pop()
        if user in seen or user not in definitions:
            continue
        seen.add(user)
        node = definitions[user]
        first = getattr(node, "lineno", 1)
        for written, line in _free_names(node):
            root, dot, rest = written.partition(".")
            if root in definitions:
                pending.append(root)
            elif root in aliases:
                origin = f"{aliases[root]}{dot}{rest}"
                found.setdefault(written, [origin, user, line - first + 1])
                found.setdefault(root, [aliases[root], user, line - first + 1])
    return found


def _take(statement: ast.stmt, aliases: dict[str, str], definitions: dict[str, ast.AST]) -> None:
    """Note what a statement at the top level of a cell binds."""
    for node in [statement] if isinstance(statement, Definition) else ast.walk(statement):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                definitions[node.name] = node
                aliases.pop(node.name, None)
            case ast.Import(names=names):
                for alias in names:
                    name = alias.asname or alias.name.partition(".")[0]
                    aliases[name] = alias.name if alias.asname else name
                    definitions.pop(name, None)
            case ast.ImportFrom(module=str(module), names=names):
                for alias in names:
                    aliases[alias.asname or alias.name] = f"{module}.{alias.name}"
                    definitions.pop(alias.asname or alias.name, None)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    _assign(target, value, aliases, definitions)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                _assign(target, value, aliases, definitions)
            case ast.NamedExpr(target=target, value=value):
                _assign(target, value, aliases, definitions)


def _assign(
    target: ast.expr, value: ast.expr, aliases: dict[str, str], definitions: dict[str, ast.AST]
) -> None:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, other in zip(target.elts, value.elts, strict=False):
            _assign(one, other, aliases, definitions)
        return
    if not isinstance(target, ast.Name):
        return
    aliases.pop(target.id, None)
    definitions.pop(target.id, None)
    dotted = _dotted(value)
    root = dotted.partition(".")[0]
    if root in aliases:
        aliases[target.id] = aliases[root] + dotted[len(root) :]
    else:
        definitions[target.id] = value  # such as functools.partial(softmax, axis=-1)


def _free_names(node: ast.AST, bound: frozenset[str] = frozenset()) -> Iterator[tuple[str, int]]:
    """(written, line) of names and attribute chains that are not local where they are used."""
    if isinstance(node, Definition):
        outer: list[ast.AST] = []
        if not isinstance(node, ast.Lambda):
            outer += node.decorator_list
        if isinstance(node, ast.ClassDef):
            outer += [*node.bases, *node.keywords]
            inner: Iterable[ast.AST] = node.body
        else:
            arguments = node.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            every += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
            outer += [d for d in (*arguments.defaults, *arguments.kw_defaults) if d is not None]
            inner = [node.body] if isinstance(node, ast.Lambda) else node.body
            bound |= {argument.arg for argument in every} | _stored(inner)
        for part in outer:
            yield from _free_names(part, bound - _arguments(node))
        for part in inner:
            yield from _free_names(part, bound)
        return
    dotted = _dotted(node)
    if dotted:
        root = dotted.partition(".")[0]
        if root not in bound:
            yield dotted, getattr(node, "lineno", 1)
        return
    for child in ast.iter_child_nodes(node):
        yield from _free_names(child, bound)


def _arguments(node: ast.AST) -> frozenset[str]:
    """A function's own arguments: its defaults are worked out where these are not yet bound."""
    arguments = getattr(node, "args", None)
    if not isinstance(arguments, ast.arguments):
        return frozenset()
    return frozenset(
        a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    )


def _stored(body: Iterable[ast.AST]) -> set[str]:
    """Names that a function's body binds by assignment, so that they are local to it.

    Imports are left out: what they bring is as good as global.
    """
    found, free = set[str](), set[str]()
    pending = list(body)
    while pending:
        node = pending.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
                continue
            case ast.ClassDef(name=name):
                found.add(name)
                continue
            case ast.Lambda():
                continue
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                free |= {*names}
        pending += ast.iter_child_nodes(node)
    return found - free


def _dotted(node: ast.AST) -> str:
    """``a.b.c`` as it is written; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
        return ""
    return ".".join([node.id, *reversed(parts)])


def with_kernels(definition: str, sources: Sequence[str]) -> str:
    """A function's source with that of the Triton kernels it names in front, from the cells."""
    kernels: dict[str, str] = {}
    for source in sources if any("jit" in source for source in sources) else ():
        text = reading.without_magics(source)
        tree = reading.parse(text)
        for node in tree.body if tree is not None else ():
            marks = [ast.unparse(m) for m in getattr(node, "decorator_list", ())]
            if isinstance(node, ast.FunctionDef) and any(m.endswith("jit") for m in marks):
                kernels.pop(node.name, None)
                kernels[node.name] = ast.get_source_segment(text, node) or ""
    used: set[str] = set()
    pending = [definition]
    while pending:
        text = pending.pop()
        named = {n for n in kernels if n not in used and re.search(rf"\b{n}\b", text)}
        used |= named
        pending += [kernels[n] for n in named]
    return "\n\n".join([*(text for name, text in kernels.items() if name in used), definition])
