"""Chapter 17: eight kernels in Triton, each with the function that launches it.

A *program* works on one block of the data. The launch says how many programs run; each asks
``tl.program_id`` which one it is. They run at the same time on a GPU, in no order.

Letters: ``n`` elements, ``R`` rows, ``C`` columns; a name in capitals is known when the kernel is
compiled. The interpreter runs all this on a CPU (:mod:`attend_solutions.interpreted`).

Source: Tillet, Kung and Cox 2019, "Triton: an intermediate language and compiler for tiled neural
network computations"; Triton's own tutorials.
"""

from __future__ import annotations

import torch

from attend_solutions.interpreted import tl, triton


@triton.jit
def vector_add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """One program adds one block of BLOCK elements."""
    ### BEGIN SOLUTION
    here = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = here < n
    x = tl.load(x_ptr + here, mask=inside)
    y = tl.load(y_ptr + here, mask=inside)
    tl.store(out_ptr + here, x + y, mask=inside)
    ### END SOLUTION


def vector_add(x: torch.Tensor, y: torch.Tensor, block: int = 16) -> torch.Tensor:
    """Launch one program a block. Shapes: x, y and the result (n,)."""
    out = torch.empty_like(x)
    n = x.numel()
    programs = triton.cdiv(n, block)  # n / block, rounded up
    vector_add_kernel[(programs,)](x, y, out, n, BLOCK=block)
    return out
