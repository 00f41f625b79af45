"""What a student handed in, read without trusting it."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import stat
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from attend_grader.judging import reading

MAX_BYTES = 32 * 2**20
"""A learner's notebook is about 0.1 to 3 MiB, outputs included."""

MAX_OBJECTS, MAX_CELLS = 2_000_000, 5_000
"""Objects and lists in a file, and cells: more would take a grader's memory and time."""

MAX_READ = 300_000
"""Objects and lists besides outputs and metadata that nobody reads: each takes over a kilobyte."""

READ = ("nbgrader", "tags")
"""Of the metadata of a submission's cells, what is looked at."""

KEPT = ("kernelspec", "language_info", "attend")
"""Of a notebook's own; the last is what we say of it, where nbgrader has us read our own copy."""

ARCHIVES = (".zip", ".gz", ".tar", ".7z", ".rar")
"""Files that a message names; nothing is ever unpacked."""

UNDATED = (
    "timestamp.txt holds no time; the submission counts as undated. Mend or delete that file: "
    "nbgrader's formgrader fails at it."
)


@dataclass(frozen=True)
class HandedIn:
    """One submitted notebook, or why there is none.

    Attributes:
        content: the file's bytes; empty where it could not be read.
        problem: one sentence on why it cannot be graded; empty where it can.
        flags: what an instructor should know about the folder.
        timestamp: when it was handed in, in UTC, where the folder says so.
    """

    content: bytes
    problem: str = ""
    flags: tuple[str, ...] = ()
    timestamp: datetime | None = None

    @property
    def sha256(self) -> str:
        """Which version this is: a hash of the bytes, or of the problem."""
        return hashlib.sha256(self.content or self.problem.encode()).hexdigest()


def read(folder: Path, notebook: str) -> HandedIn:
    """Read ``folder/notebook.ipynb`` and what else the folder says.

    A symbolic link could point at somebody else's work, and is refused.
    """
    timestamp, flags = _timestamp(folder / "timestamp.txt")
    content, problem = _content(folder, f"{notebook}.ipynb")
    if not problem:
        problem = _unreadable(content)
    return HandedIn(content, problem, tuple(flags), timestamp)


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
    cells = raw.get("cells", ())
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
            warnings.simplefilter("ignore")  # nbformat mends ids, and says so
            notebook = nbformat.reads(text, as_version=4)
        for cell in notebook.cells:
            texts = isinstance(cell.source, str) and isinstance(cell.cell_type, str)
            if not texts or not isinstance(cell.metadata, dict):
                raise ValueError("the file is not a notebook: a cell has no source")
    except ValueError:
        raise
    except Exception as error:  # nbformat raises whatever its own code trips over
        raise ValueError(f"the notebook cannot be read ({type(error).__name__})") from None
    return notebook


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
    if folder.is_symlink() or folder.parent.is_symlink():
        return "the submission's folder is a link; submissions are folders of their own"
    if (folder / name).is_symlink():
        return f"{name} is a link; a submission is a file of its own"
    return ""


def _content(folder: Path, name: str) -> tuple[bytes, str]:
    path = folder / name
    problem = link(folder, name)
    if problem:
        return b"", problem
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        others = sorted(p.name for p in folder.glob("*") if p.suffix in (".ipynb", *ARCHIVES))
        listed = ", ".join(shown(name[:80]) for name in others[:3])
        more = f"; it holds {listed}" if others else ""
        return b"", f"there is no {name} in the folder{more}"
    except OSError as error:
        return b"", f"{name} cannot be read ({error.strerror})"
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return b"", f"{name} is not a file"
        if status.st_size > MAX_BYTES:
            size = status.st_size / 2**20
            return b"", f"{name} has {size:.0f} MiB; {MAX_BYTES // 2**20} are allowed"
        return file.read(), ""


def shown(name: str) -> str:
    """A file's name as it can be printed anywhere: names may hold control codes, or no text."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def _unreadable(content: bytes) -> str:
    try:
        submitted(content)
    except ValueError as error:
        return str(error)
    return ""


def _timestamp(path: Path) -> tuple[datetime | None, list[str]]:
    from nbgrader.utils import parse_utc

    try:
        if path.is_symlink() or not path.is_file():
            return None, []
        text = path.read_bytes()[:200].decode().strip()
        return (parse_utc(text), []) if text else (None, [])
    except Exception:  # a learner's file; dateutil raises many kinds of errors
        return None, [UNDATED]
