"""Folders for temporary files that go, with their jails, even where their process was killed.

A process holds each of its folders by a lock, which the kernel takes back when the process ends,
however it ends. Whoever makes a folder next removes those that nobody holds any more.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from attend_grader.sandbox import jail

PREFIX = "attend-tmp-"


class Folder:
    """A folder of this process's own, where temporary files belong; to be removed."""

    def __init__(self) -> None:
        import fcntl  # not on Windows, where there is no sandbox either

        sweep()
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            try:
                self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                continue
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if self.path.exists():
                return
            os.close(self._lock)  # another one swept it before it was held

    def remove(self) -> None:
        """End the jails whose packages are in it, and remove it."""
        jail.end(self.path)
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def sweep() -> None:
    """Remove the folders, and end the jails, of this user's processes that were killed."""
    import fcntl  # not on Windows, where there is no sandbox

    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # gone meanwhile, or somebody else's
            continue
        try:
            if os.fstat(lock).st_uid == os.geteuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                jail.end(path)
                shutil.rmtree(path, ignore_errors=True)
        except OSError:  # it is held
            continue
        finally:
            os.close(lock)
