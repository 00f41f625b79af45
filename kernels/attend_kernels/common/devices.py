"""What a GPU is and allows: which tuned table is its own, and whether fp32 products may round."""

from __future__ import annotations

from functools import cache

import torch


def padded(width: int) -> int:
    """Width of a tile for heads this wide: a power of two, and the 16 that ``tl.dot`` asks for."""
    return max(16, 1 << (width - 1).bit_length())


@cache
def architecture(device: torch.device) -> int:
    """The table's architecture for a device; 12.x (consumer Blackwell) is closest to Ampere."""
    major, _ = torch.cuda.get_device_capability(device)
    return 90 if major in (9, 10) else 80


def tf32_allowed() -> bool:
    """Tell whether PyTorch's own fp32 matrix products would use tf32."""
    return torch.backends.cuda.matmul.fp32_precision == "tf32"
