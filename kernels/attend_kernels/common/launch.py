"""What launching any kernel takes; needs Triton."""

from __future__ import annotations

import math
from typing import Any

import torch
import triton.language as tl

LOG2E = tl.constexpr(math.log2(math.e))
LN2 = tl.constexpr(math.log(2.0))
TRITON_TYPES = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}


def launch(kernel: Any, programs: int, q: torch.Tensor, *arguments: Any, **settings: Any) -> None:
    """Launch that many programs where q is, if any."""
    if programs:
        with torch.cuda.device_of(q):  # a launch goes to the current device, not to the tensor's
            kernel[(programs,)](q, *arguments, **settings)
