"""The archive of an assignment's submissions that Moodle or Canvas lets an instructor download.

Nothing is unpacked by the names in it. Each member is looked at, told apart by whose it is, and
read with a limit; what is no plain file of a plain name is refused, and the student is named.

Names in these archives, by the systems' own sources:

- Moodle (mod/assign/locallib.php, ``download_submissions``):
  ``Ann Lee_1234_assignsubmission_file_`` and then ``/notebook.ipynb`` or, without folders,
  ``notebook.ipynb``. The number is one of the assignment's own, which nothing else shows.
- Canvas (lib/content_zipper.rb): ``leeann_late_12_345_notebook.ipynb``: the sortable name without
  anything but letters and digits, ``late`` where it is, the user's id, the file's id, its name.
"""

from __future__ import annotations

import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from attend_grader.gradebook.database import CourseError
from attend_grader.grading.handed_in import MAX_BYTES

MOST_MEMBERS = 100_000
"""Members of an archive: 2,000 students hand in a few files each."""

BOMB_BYTES, BOMB_RATIO = 4 * 2**20, 200
"""A file above this size that was packed to less than one in so many bytes is no notebook: these
are packed to one in 3 to 30."""

_MOODLE = re.compile(
    r"(?P<name>[^/]*?)_(?P<number>\d+)_assignsubmission_(?P<kind>[a-z]+)(?:_/|/|_)(?P<file>.*)",
    re.DOTALL,
)
_CANVAS = re.compile(
    r"(?P<name>[^/]*?)_(?:(?P<late>late)_)?(?P<number>\d+)_(?P<order>\d+)_(?P<file>.+)",
    re.DOTALL | re.IGNORECASE,
)
_LEFT_OUT = re.compile(r"(^|/)(__MACOSX|\.ipynb_checkpoints|\._[^/]*|\.DS_Store)(/|$)")
"""What macOS and Jupyter put beside a learner's files."""

_EXTENDED_TIME = 0x5455
"""Of a zip file's extra fields: seconds since 1970 in UTC (Info-ZIP, ``extrafld.txt``)."""


@dataclass(frozen=True)
class Sender:
    """Whom a system names as the one who handed in.

    Attributes:
        system: ``"moodle"`` or ``"canvas"``.
        name: as the system writes it in file names.
        number: of the submission (Moodle) or the user (Canvas).
    """

    system: str
    name: str
    number: str


@dataclass(frozen=True)
class Member:
    """One file of an archive.

    Attributes:
        sender: whose it is.
        file: its own name, without what the system puts in front.
        late: marked as late by the system.
        date: of the file in the archive; None where there is none.
        order: where the file stands among those of the same date, the newest last.
        problem: why it is refused; empty where it can be read.
        info: where it lies in the archive.
    """

    sender: Sender
    file: str
    late: bool
    date: datetime | None
    order: int
    problem: str
    info: zipfile.ZipInfo

    @property
    def is_notebook(self) -> bool:
        """Whether it is one by its name."""
        return self.file.lower().endswith(".ipynb")


class Archive:
    """An open archive; to be used in a ``with``.

    Args:
        path: of the file.

    Raises:
        CourseError: it is no archive, or one of neither system.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._zip = zipfile.ZipFile(path)
        except FileNotFoundError:
            raise CourseError(f"there is no file {path}.") from None
        except (OSError, zipfile.BadZipFile, ValueError) as error:
            raise CourseError(f"{path} cannot be read as a zip archive: {error}.") from None
        infos = [info for info in self._zip.infolist() if not info.is_dir()]
        if len(infos) > MOST_MEMBERS:
            raise CourseError(f"{path} holds {len(infos):,} files; {MOST_MEMBERS:,} are allowed.")
        self.members: list[Member] = []
        self.unknown: list[str] = []
        """Files of which the name does not say whose they are."""
        top = _common(infos)
        moodle = any("_assignsubmission_" in info.filename for info in infos)
        for number, info in enumerate(infos):
            member = _member(info, info.filename.removeprefix(top), moodle, number)
            if member is not None:
                self.members.append(member)
            elif not _LEFT_OUT.search(info.filename):
                self.unknown.append(info.filename)
        if not self.members:
            self.close()
            raise CourseError(
                f"{path} is not an archive of submissions as Moodle (NAME_1234_assignsubmission_"
                "file_…) or Canvas (name_12_345_…) makes it."
            )

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._zip.close()

    def by_sender(self) -> Iterator[tuple[Sender, list[Member]]]:
        """All files of each sender, in the order of names."""
        found: dict[Sender, list[Member]] = {}
        for member in self.members:
            found.setdefault(member.sender, []).append(member)
        for sender in sorted(found, key=lambda s: (s.name.casefold(), s.number)):
            yield sender, found[sender]

    def read(self, member: Member) -> bytes:
        """The file's contents.

        Raises:
            ValueError: it cannot be unpacked, or is too large; one sentence says why.
        """
        if member.problem:
            raise ValueError(member.problem)
        try:
            with self._zip.open(member.info) as file:
                content = file.read(MAX_BYTES + 1)
        except (OSError, RuntimeError, NotImplementedError, EOFError, zlib.error) as error:
            raise ValueError(f"cannot be unpacked ({error})") from None
        except zipfile.BadZipFile:
            raise ValueError("cannot be unpacked (it is damaged)") from None
        if len(content) > MAX_BYTES:
            raise ValueError(f"unpacks to more than {MAX_BYTES // 2**20} MiB")
        return content


def _common(infos: Sequence[zipfile.ZipInfo]) -> str:
    """A folder that all files lie in, of an archive that somebody packed again; else nothing."""
    tops = {name.partition("/")[0] for info in infos if "/" in (name := info.filename)}
    if len(tops) != 1 or any("/" not in info.filename for info in infos):
        return ""
    (top,) = tops
    return "" if _MOODLE.match(f"{top}/") or top in ("", "..") else f"{top}/"


def _member(info: zipfile.ZipInfo, name: str, moodle: bool, number: int) -> Member | None:
    """A file with its sender; None where its name tells none, or it is nobody's."""
    clean = re.sub(r"^(?:\.\.?/|/|[A-Za-z]:/)+", "", name.replace("\\", "/"))
    found = (_MOODLE if moodle else _CANVAS).fullmatch(clean)
    if found is None or _LEFT_OUT.search(found["file"]):
        return None
    parts = found.groupdict()
    sender = Sender("moodle" if moodle else "canvas", found["name"], found["number"])
    file = found["file"].rpartition("/")[2]
    order = int(parts["order"]) if "order" in parts else number
    return Member(
        sender, file, bool(parts.get("late")), _date(info), order, _problem(info, name), info
    )


def _problem(info: zipfile.ZipInfo, name: str) -> str:
    """Why a file is not taken from the archive; empty where it may be."""
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind and kind != stat.S_IFREG:
        return "is a link or another thing that is no file"
    if name.startswith("/") or re.match(r"[A-Za-z]:", name) or "\\" in name:
        return "has an absolute path or one of another system"
    if ".." in name.split("/"):
        return "has a path that leads out of its folder"
    if info.flag_bits & 1:
        return "is encrypted"
    if info.file_size > MAX_BYTES:
        return f"unpacks to {info.file_size / 2**20:,.0f} MiB; {MAX_BYTES // 2**20} are allowed"
    if info.file_size > BOMB_BYTES and info.file_size > BOMB_RATIO * info.compress_size:
        times = info.file_size / max(info.compress_size, 1)
        return f"unpacks to {times:,.0f} times its size, as no notebook does"
    return ""


def _date(info: zipfile.ZipInfo) -> datetime | None:
    """When a file was changed last; in this machine's zone where the archive names none."""
    extra = info.extra
    while len(extra) >= 4:
        kind, size = struct.unpack("<HH", extra[:4])
        if kind == _EXTENDED_TIME and size >= 5 and len(extra) >= 9 and extra[4] & 1:
            return datetime.fromtimestamp(struct.unpack("<i", extra[5:9])[0], UTC)
        extra = extra[4 + size :]
    try:
        local = datetime(*info.date_time)
    except ValueError:
        return None
    return local.astimezone(UTC) if local.year > 1980 else None
