"""What results were measured on: device, versions, and the sources measured."""

from __future__ import annotations

import hashlib
import platform
import re
from importlib import metadata
from pathlib import Path

import torch

PACKAGES = ("torch", "triton", "numpy", "flash-attn", "liger-kernel", "mamba-ssm", "causal-conv1d")


def describe(device: torch.device) -> dict[str, object]:
    """Name the device and what tells it from its like."""
    if device.type != "cuda":
        return {"name": platform.processor() or platform.machine(), "type": device.type}
    found = torch.cuda.get_device_properties(device)
    return {
        "name": found.name,
        "type": "cuda",
        "capability": f"{found.major}.{found.minor}",
        "multiprocessors": found.multi_processor_count,
        "memory_bytes": found.total_memory,
        "l2_bytes": found.L2_cache_size,
    }


def versions() -> dict[str, str]:
    """Versions of Python, CUDA and the packages that matter; what is missing is left out."""
    found = {"python": platform.python_version(), "system": platform.platform()}
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def sources() -> str:
    """Fingerprint of the package's sources: which code was measured, committed or not."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def slug(name: str) -> str:
    """A device's name for a file name: ``NVIDIA H200`` becomes ``nvidia-h200``."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
