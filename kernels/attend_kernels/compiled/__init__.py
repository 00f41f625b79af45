"""What the compiler makes of the kernels for GPUs that are not here: ``python -m`` this package.

Triton compiles for any NVIDIA architecture without a GPU, in a process without its interpreter.
The command compiles each tuned configuration of every family below, where its code changed, and
writes kernels/compiled.json and, from it, kernels/COMPILED.md. They say what code is made, never
how fast it runs. Tests assert that both are up to date and that every case keeps its promises.

==================  ===========================================================================
``compiler``        one launch: its source as Triton's IR, and what becomes of it
``case``            a launch with its place in the tables and what it must satisfy
``page``            the file of results and the page made from it; the families
``flash``, ...      a family each: its ``NOTE`` and ``cases(architecture)``
``gluon``           a command of its own: the forward kernel in Gluon, which is off
==================  ===========================================================================

To add a family: write such a module, and its name in ``page.FAMILIES``.
"""

from attend_kernels.compiled.case import Case
from attend_kernels.compiled.compiler import SHARED_LIMIT, Compiled, Launch, compile_kernel

__all__ = ["SHARED_LIMIT", "Case", "Compiled", "Launch", "compile_kernel"]
