"""The packages a submission can import in the jail: the course without its answers and checks.

- ``attend``: as it is, but for its widgets: nobody looks at them, and they compute what exercises
  ask for.
- ``attend_grader``: ``inside/`` whole, and no more: the side of a subject that runs submitted code,
  and ``check``, ``hint``, ``ready``, ``share`` and ``solution`` that do nothing (notebooks import
  them).
- ``attend_solutions``: answers of earlier chapters, which notebooks import. Of the chapter that is
  graded and of later ones only what the released notebook imports, and never an answer.
"""

from __future__ import annotations

import ast
import importlib.util
import shutil
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

from attend_grader.chapters import INDEX, chapter

_GRADER = '''"""In the jail nothing is decided: these do nothing."""

from attend_grader.inside.face import check, hint, ready, share, solution
'''
_SESSION = '''"""In the jail there is nobody to explain anything to."""

from attend_grader.inside.face import explain_missing_names
'''
MASKS = "masked"
"""The folder, among the packages, of what stands in the place of packages a chapter forbids."""

_BANNED = '''"""Not in the jail: every exercise of the chapter forbids it."""

raise ModuleNotFoundError("{name} is not allowed in chapter {chapter}", name="{name}")
'''
_PICTURES = '''"""In the jail nobody looks at pictures: whatever is asked for does nothing."""


class _Nothing:
    def __call__(self, *args, **kwargs):
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Nothing()
'''


def package(name: str) -> Path:
    """The directory of an installed package.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"the package {name} is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


def write(directory: Path, chapter_id: str, imported: Iterable[str] = ()) -> None:
    """Write the packages into an empty ``directory``, for grading one chapter.

    Args:
        directory: where to.
        chapter_id: such as ``"03_attention"``.
        imported: dotted names that the released notebook imports.
    """
    ignore = shutil.ignore_patterns("__pycache__", "*.ipynb")
    shutil.copytree(package("attend"), directory / "attend", ignore=ignore)
    for path in (directory / "attend" / "widgets").rglob("*.py"):
        path.write_text(_PICTURES, encoding="utf-8")
    grader = directory / "attend_grader"
    shutil.copytree(package("attend_grader") / "inside", grader / "inside", ignore=ignore)
    (grader / "__init__.py").write_text(_GRADER, encoding="utf-8")
    (grader / "session.py").write_text(_SESSION, encoding="utf-8")
    needed = {name.partition(".")[0] for name in imported}
    for name in banned(chapter_id):
        if name in needed:  # for experiments; exercises may not call it all the same
            continue
        mask = directory / MASKS / name
        mask.mkdir(parents=True)
        text = _BANNED.format(name=name, chapter=chapter_id)
        (mask / "__init__.py").write_text(text, encoding="utf-8")
    solutions = directory / "attend_solutions"
    solutions.mkdir()
    for name, text in visible_answers(chapter_id, imported).items():
        (solutions / f"{name}.py").write_text(text, encoding="utf-8")


@cache
def banned(chapter_id: str) -> tuple[str, ...]:
    """Installed packages that every exercise of a chapter forbids as a whole."""
    if chapter_id not in INDEX:
        return ()
    bans = [set(exercise.forbidden) for exercise in chapter(chapter_id).exercises]
    shared = set.intersection(*bans) if bans else set()
    return tuple(sorted(name for name in shared if "." not in name and _installed(name)))


def _installed(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    return spec is not None and bool(spec.submodule_search_locations)


def visible_answers(chapter_id: str, imported: Iterable[str]) -> dict[str, str]:
    """The modules of ``attend_solutions`` that a chapter's submissions find, and their text.

    Modules of earlier chapters are whole. Of the chapter's own and of later ones there is what the
    released notebook imports and what that needs, without any exercise of theirs.
    """
    paths = sorted(package("attend_solutions").glob("*.py"))
    sources = {path.stem: path.read_text(encoding="utf-8") for path in paths}
    trees = {name: ast.parse(text) for name, text in sources.items()}
    hidden = {name for home, names in INDEX.items() if home >= chapter_id for name in names}
    known = {name for names in INDEX.values() for name in names}
    found, pending = {"__init__": sources["__init__"]}, dict[str, set[str]]()
    for name, tree in trees.items():
        exercises = known & _defined(tree).keys()
        if exercises and not exercises & hidden:
            found[name] = sources[name]
    for dotted in imported:
        match dotted.split("."):
            case ["attend_solutions", module, *names] if module in trees:
                pending.setdefault(module, set()).update(names)
    for text in list(found.values()):
        _ask_for(ast.parse(text), pending, trees)
    done: dict[str, set[str]] = {}
    while pending:
        name, wanted = pending.popitem()
        if name in found and name not in done:
            continue
        wanted |= done.get(name, set())
        if wanted == done.get(name):
            continue
        done[name] = wanted
        part = only(trees[name], wanted - hidden, hidden)
        found[name] = ast.unparse(part)
        _ask_for(part, pending, trees)
    return found


def only(tree: ast.Module, wanted: set[str], hidden: set[str]) -> ast.Module:
    """A module with what ``wanted`` names and all that this uses of the module, but not ``hidden``.

    Imports and the docstring stay.
    """
    defined = _defined(tree)
    needed, pending = set[str](), [name for name in wanted if name in defined]
    while pending:
        name = pending.pop()
        if name in needed or name in hidden:
            continue
        needed.add(name)
        used = (n.id for n in ast.walk(defined[name]) if isinstance(n, ast.Name))
        pending += [other for other in used if other in defined]
    kept = [
        node
        for number, node in enumerate(tree.body)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        or (number == 0 and isinstance(node, ast.Expr))
        or any(defined[name] is node for name in needed)
    ]
    return ast.Module(kept, [])


def _defined(tree: ast.Module) -> dict[str, ast.stmt]:
    """What a module defines at its top level: each name and its statement."""
    found: dict[str, ast.stmt] = {}
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found[name] = node
            case ast.Assign() | ast.AnnAssign():
                stored = (n for n in ast.walk(node) if isinstance(n, ast.Name))
                found |= {n.id: node for n in stored if isinstance(n.ctx, ast.Store)}
    return found


def _ask_for(tree: ast.Module, pending: dict[str, set[str]], known: Collection[str]) -> None:
    """Add to ``pending`` what a module imports from its neighbours."""
    for node in tree.body:
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                package_, _, name = module.partition(".")
                if package_ == "attend_solutions" and name in known:
                    pending.setdefault(name, set()).update(alias.name for alias in names)
