"""Commands of this environment, for programs that call them by name."""

from __future__ import annotations

import contextlib
import os
import sysconfig
from collections.abc import Iterator


@contextlib.contextmanager
def scripts_on_path() -> Iterator[None]:
    """For nbgrader, which calls `alembic` by name: it stands beside this Python.

    (nbgrader's own ``setenv`` leaves PATH deleted behind it.)
    """
    before = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), before])
    try:
        yield
    finally:
        os.environ["PATH"] = before
