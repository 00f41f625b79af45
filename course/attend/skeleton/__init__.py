"""``attend new-chapter NN_slug``: the four rooms of a chapter, small, and passing every test.

What is in them is an example that an author replaces: one exercise with its contract, properties,
slips, alternatives and hints, its answer, a test of the answer, and a chapter's text around it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from attend.curriculum import CHAPTERS, ROOT, PlannedChapter
from attend.errors import AttendError

PLACES = {
    "text.py": "course/{id}/{id}.py",
    "solution.py": "solutions/attend_solutions/{slug}.py",
    "test_solution.py": "solutions/tests/test_{slug}.py",
    "chapter.py": "autograder/attend_grader/chapters/ch{id}/__init__.py",
    "exercise.py": "autograder/attend_grader/chapters/ch{id}/{slug}_example.py",
}
"""Template → where it goes."""


def main(chapter_id: str, root: Path = ROOT) -> int:
    """Write the rooms of a planned chapter, then build its notebook and the README's table.

    Raises:
        AttendError: the chapter is not in the plan, or has a room already.
    """
    chapter = _planned(chapter_id)
    written = dict(files(chapter))
    there = [path for path in written if (root / path).exists()]
    if there:
        raise AttendError(f"{', '.join(map(str, there))} is there already: nothing was written.")
    for path, text in written.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
        print(f"wrote {path}")
    for command in (["build", chapter.id], ["readme"]):
        # in a process of its own: this one imported the list of chapters before there was this one
        subprocess.run([sys.executable, "-m", "attend", *command], cwd=root, check=True)
    print(f"Next: “Adding a chapter” in CONTRIBUTING.md. Begin in {next(iter(written))}.")
    return 0


def files(chapter: PlannedChapter) -> Iterator[tuple[Path, str]]:
    """Yield each file of the skeleton: its path from the root, and its text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("attend.skeleton"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # what is written is Python, not HTML
    )
    names = {"id": chapter.id, "slug": chapter.id[3:]}
    for template, place in PLACES.items():
        text = environment.get_template(f"{template}.jinja").render(chapter=chapter, **names)
        yield Path(place.format(**names)), text


def _planned(chapter_id: str) -> PlannedChapter:
    for chapter in CHAPTERS:
        if chapter.id == chapter_id:
            return chapter
    planned = ", ".join(chapter.id for chapter in CHAPTERS if not chapter.is_ready())
    raise AttendError(
        f"{chapter_id!r} is not in the plan (course/attend/curriculum.py). Planned and not written:"
        f" {planned}.",
        2,
    )
