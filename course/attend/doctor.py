"""``attend doctor``: what works on this machine, and what to do about what does not."""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement

from attend.curriculum import LAB

PACKAGE = "attend-course"
NEEDED_MIB = 500
"""Free disk space from which notebooks, logs and compiled kernels have room."""

State = Literal["ok", "missing", "broken"]


@dataclass(frozen=True)
class Line:
    """One thing that was looked at.

    Attributes:
        state: ``missing``: the course works without it, less well; ``broken``: it does not work.
        what: what was looked at.
        found: what is there.
        to_do: what helps; empty where nothing is wrong.
    """

    state: State
    what: str
    found: str
    to_do: str = ""

    def __str__(self) -> str:
        """``ok       Python: 3.11.7``, and on a second line what to do."""
        text = f"{self.state:8} {self.what}: {self.found}"
        return f"{text}\n         → {self.to_do}" if self.to_do else text


def main(work: Path) -> int:
    """Print a line for each thing; 1 where the course cannot work."""
    lines = [line for look in LOOKS for line in look(work)]
    for line in lines:
        print(line)
    broken = sum(line.state == "broken" for line in lines)
    missing = sum(line.state == "missing" for line in lines)
    if broken:
        print(f"\n{broken} to repair before the course works.")
    elif missing:
        print(f"\nThe course works. {missing} could be better.")
    else:
        print("\nAll is well.")
    return int(broken > 0)


def python(work: Path) -> Iterator[Line]:
    """Python's version."""
    del work
    yield Line("ok", "Python", f"{platform.python_version()} ({sys.executable})")


def packages(work: Path) -> Iterator[Line]:
    """Every package that the course depends on: there, of an admitted version, importable."""
    del work
    wrong: list[str] = []
    needed = [Requirement(text) for text in requires(PACKAGE) or ()]
    needed = [one for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]
    for one in needed:
        try:
            have = version(one.name)
        except PackageNotFoundError:
            wrong.append(f"{one.name} is not installed")
            continue
        if not one.specifier.contains(have, prereleases=True):
            wrong.append(f"{one.name} is {have}, needed {one.specifier}")
    if wrong:
        again = "Run make lab" if LAB == "make lab" else "pip install --upgrade attend-course"
        yield Line("broken", "Packages", "; ".join(wrong), f"{again}: it installs what is missing.")
    else:
        yield Line("ok", "Packages", f"{len(needed)} of {len(needed)}")


def numerics(work: Path) -> Iterator[Line]:
    """NumPy, torch and their libraries: imported, and a product computed."""
    del work
    for name in ("numpy", "torch"):
        try:
            module = importlib.import_module(name)
            two = module.ones((2, 2)) @ module.ones((2, 2))
            if float(two[0, 0]) != 2.0:
                raise ArithmeticError(f"1 · 1 + 1 · 1 gave {float(two[0, 0])}")
            yield Line("ok", name, str(module.__version__))
        except Exception as error:  # a broken binary may raise anything
            told = f"{type(error).__name__}: {error}".splitlines()[0]
            again = f"{sys.executable} -m pip install --force-reinstall {name}"
            yield Line("broken", name, told, f"Install it again: {again}")


def triton(work: Path) -> Iterator[Line]:
    """Triton, and whether its kernels run on a GPU or in the interpreter."""
    del work
    try:
        found = version("triton")
        importlib.import_module("triton")
    except Exception as error:  # as above
        yield Line(
            "missing",
            "Triton",
            f"{type(error).__name__}: {error}".splitlines()[0],
            "Chapters 17 to 20 and a part of 25 need it: pip install triton (Linux), "
            "triton-windows (Windows). There is none for macOS: use Binder or Colab there.",
        )
        return
    import torch

    if torch.cuda.is_available():
        yield Line("ok", "Triton", f"{found}, on {torch.cuda.get_device_name()}")
    else:
        yield Line("ok", "Triton", f"{found}, in its interpreter: there is no NVIDIA GPU here")


def sandbox(work: Path) -> Iterator[Line]:
    """What `attend grade` keeps submissions in."""
    del work
    if sys.platform != "linux":
        told = "Learners need none. To grade a class, use Linux."
        yield Line("missing", "Sandbox (instructors)", f"none on {platform.system()}", told)
        return
    if shutil.which("bwrap") is None:
        told = "Learners need none. To grade a class: sudo apt install bubblewrap"
        yield Line("missing", "Sandbox (instructors)", "bubblewrap is not installed", told)
        return
    from attend_grader.sandbox.jail import SandboxMissing
    from attend_grader.sandbox.warm import WarmParent

    try:
        with WarmParent("03_attention") as parent, parent.child() as child:
            child.run_cell("1 + 1")
        yield Line("ok", "Sandbox (instructors)", "bubblewrap, and it starts")
    except SandboxMissing as error:
        told = 'Learners need none. To grade a class, see autograder/README.md, "The sandbox".'
        yield Line("missing", "Sandbox (instructors)", str(error), told)


def ports(work: Path) -> Iterator[Line]:
    """A port for JupyterLab."""
    del work
    from attend.errors import AttendError
    from attend.lab import choose_port

    try:
        yield Line("ok", "Port for JupyterLab", str(choose_port(None)))
    except AttendError as error:
        yield Line("broken", "Port for JupyterLab", str(error), "Stop one of those programs.")
    try:
        socket.getaddrinfo("localhost", None)
    except OSError as error:
        told = "Add the line `127.0.0.1 localhost` to the hosts file."
        yield Line("broken", "localhost", str(error), told)


def folder(work: Path) -> Iterator[Line]:
    """The learner's folder: writable, with room."""
    place = next(parent for parent in (work, *work.parents) if parent.exists())
    if not os.access(place, os.W_OK):
        told = "Make it writable, or give another folder with --work."
        yield Line("broken", "Your notebooks", f"{place} cannot be written to", told)
        return
    free = shutil.disk_usage(place).free // 2**20
    if free < NEEDED_MIB:
        told = "Make room: a notebook that cannot be saved is lost."
        yield Line("broken", "Your notebooks", f"{work}, {free} MiB free", told)
    else:
        yield Line("ok", "Your notebooks", str(work))


LOOKS: tuple[Callable[[Path], Iterator[Line]], ...] = (
    python,
    packages,
    numerics,
    triton,
    sandbox,
    ports,
    folder,
)
"""What is looked at, in this order."""
