"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: bytes, *, shared: bool = False) -> None:
    """Write a file so that it is there whole or as it was, whenever the process is killed.

    Args:
        path: where to; its folder must be there.
        content: what to write.
        shared: several processes may write it at a time. Else a part that a kill left is written
            over by the next one.

    Raises:
        OSError: it cannot be written; it names ``path``.
    """
    part = path.with_name(f".{path.name}.{f'{os.getpid()}.' if shared else ''}part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # a failing write does not tell which
        raise
