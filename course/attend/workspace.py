"""The learner's folder, ``work/`` in a clone: chapters are copied there, nothing is overwritten.

``work/.attend/copies.json`` remembers, for each file, which version of the course it was copied
from (``version``), what was in it (``content``) and which version was last put beside it
(``offered``). So a file nobody touched follows the course, and one the learner changed stays, with
the course's newer version named beside it, once.

Opening a notebook is not changing it: JupyterLab then writes the kernel's name and version into its
metadata, so ``content`` covers the cells alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from attend_grader.checks.files import write_whole

from attend import glossary, start
from attend.curriculum import CHAPTERS, LAB, PACKED, ROOT, PlannedChapter
from attend.errors import AttendError

LINK = re.compile(r"\]\(\.\./(\d\d_\w+)/\1\.ipynb")
"""A link from one chapter's folder to another's."""

_RECORD = "copies.json"


def home() -> Path:
    """The learner's folder: in a clone its ``work/``, else ``attend-work/`` where one stands."""
    if not PACKED.is_dir():
        return ROOT / "work"
    here = Path.cwd()
    return here if (here / ".attend").is_dir() else here / "attend-work"


def prepare(work: Path, root: Path = ROOT) -> list[str]:
    """Bring ``work`` up to date with the course in ``root``.

    Returns:
        One sentence for each file copied, updated or put beside the learner's own.

    Raises:
        AttendError: there is no course in ``root``, or ``work`` cannot be written.
    """
    ready = [chapter for chapter in CHAPTERS if chapter.is_ready(root)]
    if not ready:
        raise AttendError(
            f"There are no chapters in {root / 'course'}: attend lab works from a clone of the "
            f"course. Clone it again, or run git checkout there."
        )
    from attend import progress  # with NumPy, which the command line does without

    course = {chapter.notebook(root).name: newest(chapter.notebook(root)) for chapter in ready}
    course[glossary.NAME] = glossary.page([chapter.id for chapter in ready])
    try:
        (work / ".attend").mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=work).close()
        course[start.NAME] = start.page([chapter.id for chapter in ready], progress.show(work))
        return _update(work, course)
    except OSError as error:
        raise AttendError(
            f"{work} cannot be written ({error.strerror or error}), so there is no place for your "
            f"notebooks. Make it writable, or move it away and run {LAB} again."
        ) from error


def reset(work: Path, chapter: str, root: Path = ROOT, now: datetime | None = None) -> list[str]:
    """Put a fresh copy of a chapter into ``work``; the learner's own stays, with a dated name.

    Args:
        work: the learner's folder.
        chapter: its number or id: ``"03"``, ``"3"`` or ``"03_attention"``.
        root: where the course is.
        now: dates the name of what is kept; by default the present.

    Raises:
        AttendError: no chapter of that name is ready; or as for ``prepare``.
    """
    found = ready_chapter(chapter, root)
    mine, said = work / f"{found.id}.ipynb", []
    if mine.exists():
        kept = mine.with_name(f"{found.id}.{now or datetime.now():%Y-%m-%d-%H%M%S}.ipynb")
        if kept.exists():
            raise AttendError(f"{kept.name} is there already: try again in a second.")
        try:
            mine.rename(kept)
        except OSError as error:
            raise AttendError(f"{mine} cannot be renamed: {error.strerror}") from error
        said.append(f"Your notebook is kept as {kept.name}.")
    return said + prepare(work, root)


def ready_chapter(chapter: str, root: Path = ROOT) -> PlannedChapter:
    """The chapter with a number or id such as ``"03"`` or ``"03_attention"``.

    Raises:
        AttendError: no chapter of that name is ready.
    """
    ready = [c for c in CHAPTERS if c.is_ready(root)]
    asked = chapter.removesuffix(".ipynb").zfill(2)
    found = next((c for c in ready if asked in (c.number, c.id)), None)
    if found is None:
        known = ", ".join(c.id for c in ready) or "none"
        raise AttendError(f"There is no chapter {chapter!r} yet. Chapters so far: {known}.", 2)
    return found


def remove_offered(mine: Path, notebook: Path) -> None:
    """Remove the newest version that was put beside a learner's notebook, if it is as it was."""
    fresh = newest(notebook)
    beside = _beside(mine, fresh)
    if beside.is_file() and beside.read_bytes() == fresh:
        beside.unlink()


def _beside(target: Path, fresh: bytes) -> Path:
    return target.with_name(f"{target.stem}.new-{_digest(fresh)[:8]}{target.suffix}")


def same_course(mine: Path, notebook: Path, work: Path) -> bool:
    """Whether a learner's notebook was copied from the newest version of its chapter."""
    known = _read_record(work)[0].get(mine.name, {})
    return known.get("version") == _digest(newest(notebook))


def newest(notebook: Path) -> bytes:
    """A chapter's notebook as learners get it: among the others, and without the picture.

    The course has each chapter in a folder of its own, learners have all of them in one; and the
    picture is for who only reads.
    """
    content = notebook.read_bytes()
    try:
        made = json.loads(content)
        kept = [cell for cell in made["cells"] if cell.get("id") != start.PICTURE]
        beside = [cell | {"source": _beside_links(cell["source"])} for cell in kept]
        if beside == made["cells"]:
            return content
    except (ValueError, KeyError, TypeError, AttributeError):
        return content
    made["cells"] = beside
    return (json.dumps(made, indent=1, ensure_ascii=False) + "\n").encode()


def _beside_links(source: str | list[str]) -> str | list[str]:
    """Links to other chapters' notebooks as they are where all lie in one folder."""
    if isinstance(source, str):
        return LINK.sub(r"](\1.ipynb", source)
    return [LINK.sub(r"](\1.ipynb", line) for line in source]


def _update(work: Path, course: Mapping[str, bytes]) -> list[str]:
    record, said = _read_record(work)
    for name, fresh in course.items():
        target, version, content = work / name, _digest(fresh), _content(name, fresh)
        known = record.setdefault(name, {})
        theirs = _content(name, target.read_bytes()) if target.is_file() else None
        if not target.exists():
            _put(target, fresh)
            known |= {"version": version, "content": content}
            said.append(f"Copied {name}.")
        elif version == known.get("version"):
            continue
        elif name == start.NAME and theirs == content:  # progress was made
            write_whole(target, fresh)
            known |= {"version": version, "content": content}
        elif theirs and theirs in (known.get("content"), content):
            if theirs != content:
                said.append(f"Updated {name}: the course has a newer version, yours was unchanged.")
            _put(target, fresh)
            known |= {"version": version, "content": content}
        elif version != known.get("offered"):
            beside = _beside(target, fresh)
            write_whole(beside, fresh)
            known["offered"] = version
            said.append(
                f"The course has a newer version of {name}; yours has your work in it and is left "
                f"alone. The newer one is beside it: {beside.name}. To get it with your answers in "
                f"it: attend update {name[:2]}"
            )
    write_whole(work / ".attend" / _RECORD, json.dumps(record, indent=1, sort_keys=True).encode())
    return said


def as_copied(mine: Path) -> Path:
    """Where the version of the course is that a learner's notebook was copied from."""
    return mine.parent / ".attend" / "copied" / mine.name


def _put(target: Path, content: bytes) -> None:
    """Copy a file of the course, and keep it once more as it came: answers are told from stubs."""
    kept = as_copied(target)
    kept.parent.mkdir(exist_ok=True)
    write_whole(kept, content)
    write_whole(target, content)


def _read_record(work: Path) -> tuple[dict[str, dict[str, str]], list[str]]:
    path = work / ".attend" / _RECORD
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if not all(isinstance(known, dict) for known in record.values()):
            raise ValueError("its entries are not objects")
    except FileNotFoundError:
        return {}, []
    except (ValueError, AttributeError) as error:
        aside = path.with_name(f"{path.stem}.damaged{path.suffix}")
        os.replace(path, aside)
        return {}, [f"{path} was damaged ({error}); it is set aside as {aside.name}."]
    return record, []


def _content(name: str, notebook: bytes) -> str:
    """Digest of what a learner can lose: the cells, with their outputs.

    The start page's outputs and list of chapters are not work (they show progress, which is kept
    elsewhere).
    """
    keys = ["cell_type", "attachments"] + ["outputs"] * (name != start.NAME)
    try:
        cells = json.loads(notebook)["cells"]
        if name == start.NAME:
            cells = [cell for cell in cells if cell.get("id") != start.GENERATED]
        # a source may be one string or a list of lines
        kept = [["".join(cell["source"]), *map(cell.get, keys)] for cell in cells]
    except (ValueError, KeyError, TypeError, AttributeError):
        return _digest(notebook)  # not a notebook any more: every byte counts
    return _digest(json.dumps(kept, sort_keys=True).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
