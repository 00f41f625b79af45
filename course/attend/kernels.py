"""Triton kernels in a notebook: interpreted, guarded, and told of where they stray.

To be imported before Triton. Where Triton is not installed (there is none for macOS) stand-ins take
its place, so that cells which define kernels still run; checks say that they cannot be made here.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

os.environ.setdefault("TRITON_INTERPRET", "1")


class _Nothing:
    """Stands for whatever Triton would have; cannot be launched."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, grid: Any) -> Any:
        raise RuntimeError(MISSING)


MISSING = (
    f"Triton is not installed; there is none for {platform.system()} on {platform.machine()}. You "
    "can read this chapter here. Its kernels run and are checked on Linux or Windows, or in the "
    "course's container on Binder."
)


def _stand_in(name: str) -> ModuleType:
    module = ModuleType(name)
    nothing = _Nothing()

    def missing(attribute: str) -> Any:
        return getattr(nothing, attribute)

    module.__getattr__ = missing  # type: ignore[method-assign]
    return module


def tell(launch: dict[str, Any]) -> None:
    """Print what a launch should not have done: one line for each kind, buffer and line."""
    try:
        from attend_grader.checks.launch_words import told
    except ModuleNotFoundError:  # in the jail nobody reads it
        return
    for event in launch["events"][:4]:
        print(f"⚠ {launch['kernel']}: {told(event, launch['grid']).text}")


@dataclass(frozen=True)
class Moved:
    """Bytes that a call's kernels read and wrote, and those of the sectors they touched."""

    read: int
    written: int
    fetched: int


def moved(function: Callable[..., Any], *args: Any) -> Moved:
    """Call ``function`` and count what its kernels move.

    Sectors of 32 bytes are counted access by access: without a cache.
    """
    from attend_grader.inside.recorder import SECTOR
    from attend_grader.inside.tracer import traced

    with traced() as tracer:
        function(*args)
    found = tracer.launches
    read, written = sum(x.bytes_read for x in found), sum(x.bytes_written for x in found)
    return Moved(read, written, SECTOR * sum(x.sectors for x in found))


def report(function: Callable[..., Any], *args: Any) -> None:
    """Print what a GPU's compiler makes of each kernel, as ``function`` launches it on ``args``."""
    try:
        from attend_grader.checks.kernels import compile_launch, summary
        from attend_grader.checks.subject import local
    except ModuleNotFoundError:  # in the jail nobody reads it
        return
    subject = local(function)
    for launch in subject.run(args, trace="events").trace:
        verdict, what = summary(compile_launch(subject, launch)).split(": ", 1)
        print(f"{launch['kernel']} {verdict}:\n  {what}")


def race(function: Callable[..., Any] | None) -> None:
    """On a machine with a GPU, time a softmax beside torch's and torch.compile's; else say so."""
    import torch

    if not torch.cuda.is_available():
        print("Skipped: no NVIDIA GPU here. Nothing was timed.")
    elif function is not None:
        from attend.on_gpu import race_softmax

        race_softmax(function)


try:
    import triton
    from attend_grader.inside.watching import watch
except ImportError:
    print(MISSING)
    sys.modules["triton"] = _stand_in("triton")
    sys.modules["triton.language"] = _stand_in("triton.language")
    sys.modules["triton"].language = sys.modules["triton.language"]  # type: ignore[attr-defined]
else:
    if type(triton.jit(tell)).__name__ != "InterpretedFunction":
        raise RuntimeError(
            "Triton was imported before this cell: restart the kernel, run it first."
        )
    if "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None:
        watch(tell)  # in a notebook: a test of other kernels wants the interpreter as it is
