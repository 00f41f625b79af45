"""Run every kernel where this machine can: compiled on a GPU, else interpreted on the CPU.

Triton reads TRITON_INTERPRET when it is first imported, so it is set here, before any test module
(and any xdist worker) can import it. ``TRITON_INTERPRET=1 pytest`` interprets on a GPU machine too.
"""

from __future__ import annotations

import os
import sys

import pytest
import torch

HAS_GPU = torch.cuda.is_available()

if not HAS_GPU and "TRITON_INTERPRET" not in os.environ:
    if "triton" in sys.modules:
        raise RuntimeError("triton was imported before kernels/tests/conftest.py could set it up")
    os.environ["TRITON_INTERPRET"] = "1"
# Outputs are poisoned by PyTorch's deterministic mode, in which cuBLAS wants this.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, visibly, what needs a GPU where there is none."""
    for item in items:
        if item.get_closest_marker("gpu") and not HAS_GPU:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))


@pytest.fixture(scope="session")
def device() -> str:
    """Where kernel tests put their tensors."""
    return "cuda" if HAS_GPU else "cpu"
