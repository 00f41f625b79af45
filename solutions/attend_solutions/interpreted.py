"""Triton as the course uses it: interpreted on the CPU, on every machine.

Triton decides when it is first imported whether kernels are compiled or interpreted.
"""

from __future__ import annotations

import os
import sys

if "triton" not in sys.modules:
    os.environ.setdefault("TRITON_INTERPRET", "1")

import triton
import triton.language as tl

if getattr(triton, "__file__", None) is None:  # a notebook's stand-in
    raise ModuleNotFoundError("Triton is not installed", name="triton")

__all__ = ["tl", "triton"]
