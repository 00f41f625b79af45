"""Where a kernel can run, and the one warning when it cannot."""

from __future__ import annotations

import os
import warnings
from functools import cache
from importlib.util import find_spec

import torch

HAS_TRITON = find_spec("triton") is not None


def interpreted() -> bool:
    """Tell whether Triton kernels are interpreted on the CPU (``TRITON_INTERPRET=1``)."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in {"1", "true", "yes", "on", "y"}


def why_not(x: torch.Tensor) -> str | None:
    """Say why a Triton kernel cannot run on ``x``, or None when it can."""
    if not HAS_TRITON:
        return "Triton is not installed here (it has packages for Linux and Windows only)"
    if x.is_cuda or interpreted():
        return None
    if not torch.cuda.is_available():
        return "no NVIDIA GPU is available here"
    return f"the input is on the {x.device.type}, not on the GPU"


def warn_once(function: str, twin: str, reason: str) -> None:
    """Warn that ``function`` runs its twin; each reason is said once a session.

    Raises:
        UserWarning: as a warning, not an exception, unless the caller's filters say otherwise.
    """
    _warn(function, twin, reason)


# torch.compile then runs it while it traces, instead of breaking the graph. The decorator that does
# this, torch.compiler.assume_constant_result, imports the whole compiler with it.
warn_once._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]


@cache
def _warn(function: str, twin: str, reason: str) -> None:
    warnings.warn(
        f"{function}: {reason}, so its PyTorch twin {twin} runs instead: same answer, slower. "
        f"To step through the kernel on a CPU, set TRITON_INTERPRET=1 before Python starts.",
        UserWarning,
        stacklevel=4,
    )
