"""The packages a submission can import in the jail: the course without its answers and checks.

- ``attend``: as it is.
- ``attend_grader``: ``inside/`` whole, and no more: the side of a subject that runs submitted code,
  and ``check``, ``hint``, ``ready``, ``share`` and ``solution`` that do nothing (notebooks import
  them).
- ``attend_solutions``: answers of earlier chapters, which notebooks import; those of the chapter
  being graded and of later ones are cut out.
"""

from __future__ import annotations

import ast
import importlib.util
import shutil
from pathlib import Path

from attend_grader.chapters import INDEX

_GRADER = '''"""In the jail nothing is decided: these do nothing."""

from attend_grader.inside.face import check, hint, ready, share, solution
'''
_SESSION = '''"""In the jail there is nobody to explain anything to."""

from attend_grader.inside.face import explain_missing_names
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


def write(directory: Path, chapter_id: str) -> None:
    """Write the packages into an empty ``directory``, for grading one chapter."""
    ignore = shutil.ignore_patterns("__pycache__", "*.ipynb")
    shutil.copytree(package("attend"), directory / "attend", ignore=ignore)
    grader = directory / "attend_grader"
    shutil.copytree(package("attend_grader") / "inside", grader / "inside", ignore=ignore)
    (grader / "__init__.py").write_text(_GRADER, encoding="utf-8")
    (grader / "session.py").write_text(_SESSION, encoding="utf-8")
    solutions = directory / "attend_solutions"
    solutions.mkdir()
    hidden = {name for chapter, names in INDEX.items() if chapter >= chapter_id for name in names}
    for path in package("attend_solutions").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        (solutions / path.name).write_text(without(text, hidden), encoding="utf-8")


def without(source: str, hidden: set[str]) -> str:
    """A module's source without the hidden functions and classes, and their private helpers.

    Where nothing is hidden in it, the source stays as it is.
    """
    tree = ast.parse(source)
    kinds = (ast.FunctionDef, ast.ClassDef)
    if not any(isinstance(node, kinds) and node.name in hidden for node in tree.body):
        return source
    tree.body = [
        node
        for node in tree.body
        if not isinstance(node, kinds) or (node.name not in hidden and node.name[0] != "_")
    ]
    return ast.unparse(tree)
