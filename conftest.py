"""How the whole suite shares a machine: one thread for each process, the longest files first."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

# NumPy and PyTorch read it when they are first imported, here and in every kernel, grader and
# server that a test starts. Two workers fill two cores: a second thread of each would mostly wait,
# and it waits by spinning. To test with more threads: OMP_NUM_THREADS=2 pytest ...
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Where another environment is active, IPython would warn, and a warning is an error here.
os.environ.pop("VIRTUAL_ENV", None)

# Triton reads it when it is first imported, which other libraries do too: before any of them, so
# that a test file of its own runs kernels as the whole suite does (kernels/tests/conftest.py).
if not any(Path("/dev").glob("nvidia[0-9]*")):
    os.environ.setdefault("TRITON_INTERPRET", "1")

LONGEST = (
    "course/tests/test_notebooks.py",
    "autograder/tests/test_exercises.py",
    "kernels/tests/test_compiled.py",
    "autograder/tests/test_bad_submissions.py",
    "course/tests/test_binder.py",
    "kernels/tests/test_linear_attention.py",
    "course/tests/test_nbgrader.py",
    "course/tests/test_browser_chapter.py",
    "autograder/tests/test_killing.py",
    "autograder/tests/test_mutation.py",
    "autograder/tests/test_cluster.py",
)
"""Files of half a minute and more, the longest first: begun last, one would run on alone."""

SPLIT = (
    "autograder/tests/test_adversary.py",
    "autograder/tests/test_exercises.py",
    "autograder/tests/test_mutation.py",
)
"""Files whose tests the workers share; every other stays in one, which makes its fixtures once."""


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist nobody asks
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out whole files, but of those in `SPLIT` test by test.

    Not by xdist's groups: pytest 9.2 does not let it write them into a test's id, so that each
    worker would make every file's fixtures (pytest-xdist 3.8.0).
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return nodeid if file in SPLIT else file

    return ByFile(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let the workers of pytest-xdist begin with what takes longest, whatever was named first."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        places = {config.rootpath / Path(name): place for place, name in enumerate(LONGEST)}
        items.sort(key=lambda item: places.get(item.path, len(LONGEST)))
