"""The packages a submission can import in the jail: the course without its answers and checks.

- ``attend``: as it is.
- ``attend_grader``: ``check``, ``hint``, ``ready``, ``share`` and ``solution`` that do nothing (a
  notebook imports them), and the side of a subject that runs submitted code.
- ``attend_solutions``: answers of earlier chapters, which notebooks import; those of the chapter
  being graded and of later ones are cut out.
"""

from __future__ import annotations

import ast
import importlib.util
import shutil
from pathlib import Path

from attend_grader.chapters import INDEX

INSIDE = (
    "codec.py",
    "executor.py",
    "lean.py",
    "origins.py",
    "torch_gradients.py",
    "sandbox/calls.py",
    "sandbox/notebook.py",
    "sandbox/zygote.py",
)
"""The parts of this package that the jail needs; no check, oracle or answer is among them."""

_GRADER = '''"""In the jail nothing is decided: these do nothing."""


def check(candidate=None, exercise_id=None):
    """Do nothing: checks run outside."""


def hint(candidate_or_name=None):
    """Do nothing."""


def share(chapter_id=None):
    """Do nothing: what was shared stands in the notebook that was handed in."""


def solution(candidate_or_name=None):
    """Do nothing."""


def ready(*functions):
    """Say no: pictures and experiments are not part of grading."""
    return False
'''
_SESSION = '''"""In the jail there is nobody to explain anything to."""


def explain_missing_names(shell):
    """Do nothing."""
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
    for name in INSIDE:
        target = grader / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(package("attend_grader") / name, target)
    (grader / "__init__.py").write_text(_GRADER, encoding="utf-8")
    (grader / "session.py").write_text(_SESSION, encoding="utf-8")
    (grader / "sandbox" / "__init__.py").write_text("", encoding="utf-8")
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
