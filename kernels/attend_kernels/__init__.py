"""Kernels to read and to use: each fast Triton version beside its ``naive_`` twin in PyTorch.

The same source runs compiled on a GPU and interpreted on a CPU (``TRITON_INTERPRET=1``). Where
neither is possible, a public function warns once and runs its twin: same answer, less speed.

Importing this package imports neither torch nor triton; a name below brings its module along when
it is first used.

===================  ==========================================================================
``fused_softmax``    softmax over the last axis in one pass over memory, with its gradient
``naive_softmax``    its twin
``assert_shape``     shape documentation that runs: ``assert_shape(q, "B H T D")``
===================  ==========================================================================
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attend_kernels.shapes import ShapeError, assert_shape
    from attend_kernels.softmax import fused_softmax, naive_softmax

__all__ = ["ShapeError", "assert_shape", "fused_softmax", "naive_softmax"]

_HOME = {
    "ShapeError": "shapes",
    "assert_shape": "shapes",
    "fused_softmax": "softmax",
    "naive_softmax": "softmax",
}


def __getattr__(name: str) -> Any:
    """Import the module a public name lives in when it is first asked for (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    """List the public names, imported yet or not."""
    return sorted(__all__)
