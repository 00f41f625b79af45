"""Mutants: the reference with one small change, such as learners make and checks must notice.

A mutant has one operator, constant, axis, comparison, keyword, argument order or statement changed.

Source: DeMillo, Lipton and Sayward 1978, "Hints on test data selection".
"""

from __future__ import annotations

import ast
import copy
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

OPERATORS: Mapping[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Div, ast.Mult),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.MatMult: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}
TWINS = {"max": "min", "min": "max", "sum": "mean", "mean": "sum", "var": "std", "std": "var"}
"""Methods and functions that stand for each other with the same arguments."""


@dataclass(frozen=True)
class Mutant:
    """One changed reference: where, what was written and what is now."""

    line: int
    before: str
    after: str
    function: Callable[..., Any]

    def __str__(self) -> str:
        return f"line {self.line}: {self.before} → {self.after}"


def mutants(reference: Callable[..., Any]) -> Iterator[Mutant]:
    """Every mutant of a function or class, living in the reference's own namespace."""
    tree = _parsed(reference)
    for path, before in _nodes(tree):
        for after in _replacements(before):
            changed = copy.deepcopy(tree)
            _put(changed, path, after)
            ast.fix_missing_locations(changed)
            try:
                function = _define(changed, reference)
            except (SyntaxError, TypeError, ValueError):  # not a program: nothing to notice
                continue
            yield Mutant(
                getattr(before, "lineno", 0), _text(before), _text(after) or "nothing", function
            )


def edits(reference: Callable[..., Any]) -> Iterator[tuple[ast.AST, ast.AST, Callable[..., Any]]]:
    """Mutants and more, as (node before, node after, function): what behaviour is compared with.

    Besides all mutants: one operand alone, a function not applied, another argument or variable.
    Bodies of ``while`` stay as they are, so that every edit comes to an end.
    """
    tree = _parsed(reference)
    module = inspect.getmodule(reference)
    space = vars(module) if module is not None else {}
    looped = {id(n) for w in ast.walk(tree) if isinstance(w, ast.While) for n in ast.walk(w)}
    nodes = [(path, node) for path, node in _nodes(tree) if id(node) not in looped]
    plans = [(p, n, after) for p, n in nodes for after in (*_more(n), *_replacements(n))]
    plans += [(p, n, after) for p, n in nodes for after in _other_names(n, tree)]
    plans = [(p, n, after) for p, n in nodes for after in _other_places(n)] + plans
    for path, before, after in plans:
        if before is not after:
            _put(tree, path, after)
            try:
                code = compile(ast.fix_missing_locations(tree), "<edit>", "exec")
            except (SyntaxError, TypeError, ValueError):  # not a program
                continue
            finally:
                _put(tree, path, before)
            namespace = dict(space)
            try:
                exec(code, namespace)
            except Exception:  # a default, a base class, a decorator that is none
                continue
            yield before, after, namespace[reference.__name__]


def to_write(reference: Callable[..., Any]) -> set[int] | None:
    """Lines of a reference that its stub leaves to the learner; None where it leaves all of them.

    They are those between ``### BEGIN SOLUTION`` and ``### END SOLUTION``.
    """
    source = textwrap.dedent(inspect.getsource(reference))
    if "### BEGIN SOLUTION" not in source:
        return None
    lines: set[int] = set()
    first = 0
    for number, line in enumerate(source.splitlines(), start=1):
        match line.strip():
            case "### BEGIN SOLUTION":
                first = number
            case "### END SOLUTION":
                lines |= {*range(first, number)}
    return lines


def returned(reference: Callable[..., Any]) -> set[tuple[int, int]]:
    """Line and column of each tuple that a reference returns, as in :func:`edits`' nodes."""
    values = (n.value for n in ast.walk(_parsed(reference)) if isinstance(n, ast.Return))
    return {(v.lineno, v.col_offset) for v in values if isinstance(v, ast.Tuple)}


def axes(reference: Callable[..., Any]) -> set[tuple[int, int]]:
    """Line and column of each argument that says which axes are exchanged."""
    found = (n for n in ast.walk(_parsed(reference)) if isinstance(n, ast.Call))
    turns = (n for n in found if getattr(n.func, "attr", "") in _TURNS)
    return {(a.lineno, a.col_offset) for turn in turns for a in ast.walk(turn) if _number(a)}


def _number(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and type(node.value) is int


_TURNS = ("transpose", "swapaxes", "permute", "moveaxis", "movedim")


def calls(reference: Callable[..., Any], name: str) -> int:
    """How often a reference calls a function or method of this name."""
    found = (n.func for n in ast.walk(_parsed(reference)) if isinstance(n, ast.Call))
    return sum(name in (getattr(f, "id", ""), getattr(f, "attr", "")) for f in found)


_LIBRARIES = ("np", "torch", "F", "nn", "math", "self")


def _more(node: ast.AST) -> Iterator[ast.AST]:
    """Edits that learners make and mutants do not."""
    match node:
        case ast.BinOp(left=left, right=right):
            yield from (left, right)
        case ast.Call(func=ast.Attribute(value=value), args=args, keywords=keywords):
            if args and (len(args) > 1 or keywords):
                yield args[0]
            if not isinstance(value, ast.Name) or value.id not in (
                "np",
                "torch",
                "F",
                "nn",
                "self",
            ):
                yield value
            yield from _other_axes(node)
        case ast.Call(args=[first, *rest], keywords=keywords) if rest or keywords:
            yield first


def _other_places(node: ast.AST) -> Iterator[ast.AST]:
    """Another index, or another number given to a method of the object."""
    match node:
        case ast.Subscript(value=value, slice=ast.Constant(value=int(index)), ctx=ast.Load()):
            for other in (index + 1, index - 1):
                yield ast.Subscript(value, ast.Constant(other), ast.Load())
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="self")),
            args=[ast.Constant(value=int(number)), *rest],
        ) if not isinstance(number, bool):
            for other in (number + 1, number - 1):
                yield ast.Call(node.func, [ast.Constant(other), *rest], node.keywords)


def _other_names(node: ast.AST, tree: ast.Module) -> Iterator[ast.AST]:
    """Another argument in the place of an argument or variable."""
    match node:
        case ast.Name(id=name, ctx=ast.Load()) if name in _variables(tree):
            for other in _arguments(tree):
                if other != name:
                    yield ast.Name(other, ast.Load())


def _other_axes(call: ast.Call) -> Iterator[ast.AST]:
    """Along axis 1, or the last."""
    for i, keyword in enumerate(call.keywords):
        others = [*call.keywords[:i], *call.keywords[i + 1 :]]
        if keyword.arg in ("axis", "dim"):
            for value in (ast.Constant(1), ast.Constant(-1)):
                yield ast.Call(call.func, call.args, [*others, ast.keyword(keyword.arg, value)])


def _arguments(tree: ast.Module) -> list[str]:
    """Arguments of all functions in the tree."""
    names = dict.fromkeys(node.arg for node in ast.walk(tree) if isinstance(node, ast.arg))
    return [name for name in names if name != "self"]


def _variables(tree: ast.Module) -> list[str]:
    """Arguments and local variables of all functions in the tree, in order."""
    found: dict[str, None] = {}
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                found[name] = None
    found.pop("self", None)
    return list(found)


Path = tuple[tuple[str, int | None], ...]


def _parsed(reference: Callable[..., Any]) -> ast.Module:
    """The reference's tree without docstrings and annotations."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(reference)))
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:] or [ast.Pass()]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
    return tree


def _nodes(tree: ast.AST, path: Path = ()) -> Iterator[tuple[Path, ast.AST]]:
    for name, value in ast.iter_fields(tree):
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                here: Path = (*path, (name, index))
                yield here, child
                yield from _nodes(child, here)


def _put(tree: ast.AST, path: Path, new: ast.AST) -> None:
    for name, index in path[:-1]:
        value = getattr(tree, name)
        tree = value if index is None else value[index]
    name, index = path[-1]
    if index is None:
        setattr(tree, name, new)
    else:
        getattr(tree, name)[index] = new


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    """All single changes to one node."""
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            for other in OPERATORS.get(type(op), ()):
                yield ast.BinOp(left, other(), right)  # type: ignore[arg-type]  # an operator
            if not isinstance(op, (ast.Add, ast.Mult)):
                yield ast.BinOp(right, op, left)
        case ast.Compare(left=left, ops=[op], comparators=comparators):
            for other in OPERATORS.get(type(op), ()):
                yield ast.Compare(left, [other()], comparators)  # type: ignore[list-item]  # an operator
        case ast.BoolOp(op=op, values=values):
            for other in OPERATORS[type(op)]:
                yield ast.BoolOp(other(), values)  # type: ignore[arg-type]  # an operator
        case ast.UnaryOp(operand=operand):
            yield operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Constant(value=float(value)):
            yield from (ast.Constant(value * 2), ast.Constant(value + 1))
        case ast.Call(func=func, args=args, keywords=keywords):
            yield from _calls(func, args, keywords)
        case ast.Tuple(elts=[first, second, *rest], ctx=ast.Load()):
            yield ast.Tuple([second, first, *rest], ast.Load())
        case ast.If(test=test, body=body, orelse=orelse):
            yield from (ast.If(t, body, orelse) for t in _conditions(test))
            yield ast.Pass()
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield from (ast.IfExp(t, body, orelse) for t in _conditions(test))
        case ast.Assign() | ast.AugAssign() | ast.Expr() | ast.Return() | ast.For() | ast.While():
            yield ast.Pass()


def _calls(func: ast.expr, args: list[ast.expr], keywords: list[ast.keyword]) -> Iterator[ast.AST]:
    for i in range(len(args) - 1):
        swapped = [*args[:i], args[i + 1], args[i], *args[i + 2 :]]
        yield ast.Call(func, swapped, keywords)
    for i, keyword in enumerate(keywords):
        yield ast.Call(func, args, [*keywords[:i], *keywords[i + 1 :]])
        if keyword.arg in ("axis", "dim"):
            others = [ast.Constant(0), ast.UnaryOp(ast.USub(), ast.Constant(2)), ast.Constant(None)]
            for value in others:
                if ast.unparse(value) != ast.unparse(keyword.value):
                    new = ast.keyword(keyword.arg, value)
                    yield ast.Call(func, args, [*keywords[:i], new, *keywords[i + 1 :]])
    if isinstance(func, ast.Attribute) and func.attr in TWINS:
        yield ast.Call(ast.Attribute(func.value, TWINS[func.attr], func.ctx), args, keywords)
    if len(args) == 1 and not keywords:
        yield args[0]


def _conditions(test: ast.expr) -> Iterator[ast.expr]:
    yield ast.UnaryOp(ast.Not(), test)
    yield from (ast.Constant(True), ast.Constant(False))


_count = iter(range(10**9))


def _define(tree: ast.Module, reference: Callable[..., Any]) -> Callable[..., Any]:
    """Run the changed definition in a copy of the reference's namespace."""
    source, filename = ast.unparse(tree), f"<mutant {next(_count)}>"
    lines = source.splitlines(keepends=True)
    linecache.cache[filename] = (len(source), None, lines, filename)
    module = inspect.getmodule(reference)
    namespace = dict(vars(module)) if module is not None else {}
    exec(compile(source, filename, "exec"), namespace)
    return namespace[reference.__name__]


def _text(node: ast.AST) -> str:
    text = ast.unparse(node).strip().split("\n")[0]
    return "" if text == "pass" else text
