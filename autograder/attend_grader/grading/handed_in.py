"""What a student handed in, read without trusting it.

Whatever is wrong with one student's files becomes that student's ``problem``; nothing here raises
for it. Every file is read by :func:`bounded`, which takes no more than it may.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import stat
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from attend_grader.checks.plain import plain
from attend_grader.judging import reading

MAX_BYTES = 32 * 2**20
"""A learner's notebook is about 0.1 to 3 MiB, outputs included."""

MAX_OBJECTS, MAX_CELLS = 2_000_000, 5_000
"""Objects and lists in a file, and cells: more would take a grader's memory and time."""

MAX_READ = 300_000
"""Objects and lists besides outputs and metadata that nobody reads: each takes over a kilobyte."""

READ = ("nbgrader", "tags")
"""Of the metadata of a submission's cells, what is looked at."""

KEPT = ("kernelspec", "language_info")
"""Of a notebook's own."""

MAX_DATE = 200
"""Bytes of timestamp.txt."""

ARCHIVES = (".zip", ".gz", ".tar", ".7z", ".rar")
"""Files that a message names; nothing is ever unpacked."""

UNDATED = (
    "timestamp.txt holds no time; the submission counts as undated. Correct or delete that file: "
    "nbgrader's formgrader fails at it."
)


@dataclass(frozen=True)
class HandedIn:
    """One submitted notebook, or why there is none.

    Attributes:
        content: the file's bytes; empty where it could not be read, and where they were dropped.
        problem: one sentence on why the file cannot be read; empty where it can. Whether it holds
            a notebook is found out by :func:`submitted`.
        flags: what an instructor should know about the folder.
        timestamp: when it was handed in, in UTC, where the folder says so.
        sha256: which version this is: a hash of the bytes, or of the problem.
    """

    content: bytes
    problem: str = ""
    flags: tuple[str, ...] = ()
    timestamp: datetime | None = None
    sha256: str = ""

    def __post_init__(self) -> None:
        """Find the hash where none was given."""
        if not self.sha256:
            digest = hashlib.sha256(self.content or self.problem.encode()).hexdigest()
            object.__setattr__(self, "sha256", digest)

    def without_content(self) -> HandedIn:
        """The same without its bytes: a class of 2,000 does not fit in memory."""
        return replace(self, content=b"")


def read(folder: Path, notebook: str) -> HandedIn:
    """Read ``folder/notebook.ipynb`` and what else the folder says; never raises.

    A symbolic link could point at somebody else's work, and is refused.
    """
    try:
        timestamp, flags = _timestamp(folder)
        content, problem = _content(folder, f"{notebook}.ipynb")
    except Exception as error:  # one student's files must not stop the class
        return HandedIn(b"", f"the folder cannot be read ({_why(error)})")
    return HandedIn(content, plain(problem), flags, timestamp)


def bounded(path: Path, most: int) -> bytes:
    """The contents of a regular file.

    Args:
        path: of the file; a link, a pipe or a folder is refused, nothing waits for it.
        most: bytes that it may have.

    Raises:
        ValueError: it is no regular file, or larger; the message says which.
        OSError: it cannot be opened or read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{path.name} is not a file")
        size = status.st_size
        if size <= most:
            with os.fdopen(os.dup(descriptor), "rb") as file:
                content = file.read(most + 1)
            size = len(content)
            if size <= most:
                return content
    finally:
        os.close(descriptor)
    unit, name = (2**20, "MiB") if most >= 2**20 else (1, "bytes")
    raise ValueError(f"{path.name} has {size / unit:.0f} {name}; {most // unit} are allowed")


@lru_cache(maxsize=4)
def released(content: bytes) -> NotebookNode:
    """A released notebook, the same one for all its submissions: not to be modified."""
    return parse(content)


def imported(notebook: NotebookNode) -> tuple[str, ...]:
    """Names that may be modules in the imports of a notebook's code cells, in order, each once."""
    names: list[str] = []
    for cell in notebook.cells:
        tree = reading.parse(cell.source) if cell.cell_type == "code" else None
        for node in tree.body if tree is not None else ():
            if isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(dict.fromkeys(names))


def submitted(content: bytes) -> NotebookNode:
    """A submission's notebook, in the current format, without metadata that nobody reads.

    Raises:
        ValueError: it is no notebook; one sentence says why.
    """
    return _parsed(content, whole=False)


def parse(content: bytes) -> NotebookNode:
    """The notebook in ``content``, in the current format, with all its metadata: one of ours.

    Raises:
        ValueError: it is no notebook; one sentence says why.
    """
    return _parsed(content, whole=True)


def _parsed(content: bytes, whole: bool) -> NotebookNode:
    """The notebook in ``content``, with all of its metadata or with what is read of it.

    Raises:
        ValueError: it is no notebook; one sentence says why.
    """
    try:
        text = content.decode("utf-8-sig")  # some editors on Windows put a mark in front
    except UnicodeDecodeError:
        raise ValueError("the file is not text") from None
    if not text.strip():
        raise ValueError("the file is empty")
    if content.count(b"{") + content.count(b"[") > MAX_OBJECTS:
        raise ValueError(f"the file holds more than {MAX_OBJECTS:,} objects")
    try:
        raw = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        raise ValueError("the file is not a notebook, or only a part of one") from None
    if not isinstance(raw, dict) or not isinstance(raw.get("cells", raw.get("worksheets")), list):
        raise ValueError("the file is not a notebook: it holds no cells")
    cells = _cells(raw)
    if len(cells) > MAX_CELLS:
        raise ValueError(f"the notebook has {len(cells):,} cells; {MAX_CELLS:,} are allowed")
    for cell in cells:
        if isinstance(cell, dict) and "outputs" in cell:
            cell["outputs"] = []  # nobody reads them, and they may be many
    if not whole:
        _without_metadata(raw, cells)
    text = json.dumps(raw)
    if text.count("{") + text.count("[") > MAX_READ:
        raise ValueError(f"the notebook holds more than {MAX_READ:,} objects besides its outputs")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nbformat repairs ids with a warning
            notebook = nbformat.reads(text, as_version=4)
        for cell in notebook.cells:
            texts = isinstance(cell.source, str) and isinstance(cell.cell_type, str)
            if not texts or not isinstance(cell.metadata, dict):
                raise ValueError("the file is not a notebook: a cell has no source")
    except ValueError as error:
        raise ValueError(plain(error)) from None
    except Exception as error:  # nbformat raises whatever its own code trips over
        raise ValueError(f"the notebook cannot be read ({type(error).__name__})") from None
    return notebook


def _cells(raw: dict[str, Any]) -> list[Any]:
    """All cells of a file, also of format 3, which has them in worksheets."""
    if isinstance(raw.get("cells"), list):
        return raw["cells"]
    sheets = [sheet for sheet in raw["worksheets"] if isinstance(sheet, dict)]
    lists = [sheet["cells"] for sheet in sheets if isinstance(sheet.get("cells"), list)]
    return [cell for cells in lists for cell in cells]


def _without_metadata(raw: dict[str, Any], cells: Iterable[Any]) -> None:
    """Leave of a file's metadata what is looked at; what is of a wrong form stays as it is."""
    kept = raw.get("metadata")
    if isinstance(kept, dict):
        raw["metadata"] = {k: v for k, v in kept.items() if k in KEPT and isinstance(v, dict)}
    for cell in cells:
        if isinstance(cell, dict) and isinstance(cell.get("metadata"), dict):
            cell["metadata"] = {k: v for k, v in cell["metadata"].items() if k in READ}


def link(folder: Path, name: str) -> str:
    """Why the file is not a student's own: it is reached by a symbolic link; empty if not."""
    if _is_link(folder) or _is_link(folder.parent):
        return "the submission's folder is a link; submissions are folders of their own"
    if _is_link(folder / name):
        return f"{name} is a link; a submission is a file of its own"
    return ""


def _is_link(path: Path) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False


def _content(folder: Path, name: str) -> tuple[bytes, str]:
    """The file's bytes, or why there are none.

    Raises:
        OSError: the folder cannot be read.
    """
    problem = link(folder, name)
    if problem:
        return b"", problem
    try:
        content = bounded(folder / name, MAX_BYTES)
    except FileNotFoundError:
        return b"", _missing(folder, name)
    except ValueError as error:
        return b"", str(error)
    except OSError as error:
        return b"", f"{name} cannot be read ({_why(error)})"
    return content, "" if content else "the file is empty"


def _missing(folder: Path, name: str) -> str:
    if not stat.S_ISDIR(os.lstat(folder).st_mode):
        return f"{folder.name} is not a folder, so there is no {name} in it"
    others = sorted(entry for entry in os.listdir(folder) if entry.endswith((".ipynb", *ARCHIVES)))
    listed = ", ".join(plain(entry, 80) for entry in others[:3])
    more = f"; it holds {listed}" if others else ""
    return f"there is no {name} in the folder{more}"


def _why(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else type(error).__name__


def _timestamp(folder: Path) -> tuple[datetime | None, tuple[str, ...]]:
    from nbgrader.utils import parse_utc

    try:
        text = bounded(folder / "timestamp.txt", MAX_DATE).decode().strip()
        return (parse_utc(text) if text else None), ()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None, ()
    except Exception:  # a learner's file; dateutil raises many kinds of errors
        return None, (UNDATED,)
