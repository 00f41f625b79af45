"""``attend readme``: the generated parts of README.md, between markers, from what they describe.

The badges come from the repository's address in pyproject.toml, the chapter table from the plan and
the grader's registry, the tree from the folders that are there.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from urllib.parse import quote, urlsplit

from attend_grader import chapters as registry

from attend.curriculum import CHAPTERS, ROOT, PlannedChapter
from attend.errors import AttendError
from attend.start import FIRST

START_PAGE = "lab/tree/work/start.ipynb"

TREE = {
    "Makefile": "make lab · make test · make help",
    "course/": "",
    "course/03_attention/": "a chapter: its source (.py) and the notebook made from it",
    "course/attend/": "the course at run time: build, widgets, charts, start page, command line",
    "course/install.py": "makes .venv; the only code that runs before anything is installed",
    "solutions/attend_solutions/": "the only copy of each answer, one typed module per topic",
    "autograder/attend_grader/": "checks, misconceptions, grading engine, way into nbgrader",
    "kernels/attend_kernels/": "Triton kernels, each beside its naive twin in PyTorch",
    "binder/": "what Binder needs",
    "*/tests/": "the tests of each part, beside it",
}
"""Path → what it is. A path that is not there is refused, so the tree cannot go stale unseen."""


def main(check: bool = False, root: Path = ROOT) -> int:
    """Rewrite README.md, or with ``check`` only say whether that is due.

    Returns:
        1 when it is stale and ``check`` is set, else 0.

    Raises:
        AttendError: README.md lacks a marker, or the tree names a path that does not exist.
    """
    path = root / "README.md"
    before = path.read_text(encoding="utf-8")
    after = before
    for name, text in generated(root).items():
        after = _put(after, name, text)
    if after == before:
        return 0
    if check:
        print("README.md is stale: run make readme.")
        return 1
    path.write_text(after, encoding="utf-8")
    print("README.md is up to date now.")
    return 0


def generated(root: Path = ROOT) -> dict[str, str]:
    """The generated parts: marker's name → Markdown."""
    return {"badge": badge(root), "chapters": chapters(root), "tree": tree(root)}


def repository(root: Path = ROOT) -> str:
    """``owner/name``, of ``project.urls.Repository``."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return urlsplit(project["urls"]["Repository"]).path.strip("/")


def badge(root: Path = ROOT) -> str:
    """The badges: Binder opens the start page, Colab the chapter that needs no other."""
    start = quote(START_PAGE, safe="")
    chapter = f"course/{FIRST}/{FIRST}.ipynb"
    return (
        "[![Open in Binder](https://mybinder.org/badge_logo.svg)]"
        f"(https://mybinder.org/v2/gh/{repository(root)}/HEAD?urlpath={start})\n"
        "[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]"
        f"(https://colab.research.google.com/github/{repository(root)}/blob/main/{chapter})"
    )


def chapters(root: Path = ROOT) -> str:
    """The chapter table: what each answers, its exercises, their minutes, whether it is ready."""
    ready = sum(chapter.is_ready(root) for chapter in CHAPTERS)
    rows = [f"{ready} of {len(CHAPTERS)} chapters can be opened so far.", ""]
    rows += ["| | Chapter | Exercises | Minutes | Status |", "|---|---|---|---|---|"]
    part = ""
    for chapter in CHAPTERS:
        if chapter.part != part:
            part = chapter.part
            rows.append(f"| | **{part}** | | | |")
        rows.append(_row(chapter, root))
    return "\n".join(rows)


def _row(chapter: PlannedChapter, root: Path) -> str:
    if not chapter.is_ready(root):
        return f"| {chapter.number} | {chapter.title}. {chapter.question} | | | planned |"
    known = registry.chapter(chapter.id)
    link = f"[{chapter.title}](course/{chapter.id}/{chapter.id}.ipynb)"
    names = ", ".join(f"`{exercise.name}`" for exercise in known.exercises)
    minutes = sum(exercise.minutes for exercise in known.exercises)
    return f"| {chapter.number} | {link}. {chapter.question} | {names} | {minutes} | open |"


def tree(root: Path = ROOT) -> str:
    """The annotated tree, as a code block.

    Raises:
        AttendError: a path in it does not exist.
    """
    missing = [path for path in TREE if not any(root.glob(path.rstrip("/")))]
    if missing:
        raise AttendError(
            f"README's tree names {', '.join(missing)}, which {root} has not: fix TREE in "
            f"{Path(__file__).name}."
        )
    lines = []
    for path, words in TREE.items():
        parents, _, name = path.rstrip("/").rpartition("/")
        nested = f"{parents}/" in TREE
        label = ("  " + name if nested else path.rstrip("/")) + "/" * path.endswith("/")
        lines.append(f"{label:<28} {words}".rstrip())
    return "\n".join(["```", *lines, "```"])


def _put(text: str, name: str, part: str) -> str:
    """Replace what stands between ``<!-- name -->`` and ``<!-- /name -->``."""
    opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
    pattern = re.compile(f"{re.escape(opening)}.*?{re.escape(closing)}", re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise AttendError(f"README.md should hold {opening} … {closing} once.")
    return pattern.sub(lambda _: f"{opening}\n{part}\n{closing}", text)
