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


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder's own marker known."""
    config.addinivalue_line(
        "markers",
        "thin(keep): in `make test`, only so few cases that each value of each parameter comes up, "
        "and no more than `keep`; the rest is deep",
    )


@pytest.hookimpl(tryfirst=True)  # before the deep ones are deselected
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, visibly, what needs a GPU where there is none; leave most of the thin to the deep."""
    families: dict[str, list[pytest.Function]] = {}
    for item in items:
        if item.get_closest_marker("gpu") and not HAS_GPU:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))
        if item.get_closest_marker("thin") and isinstance(item, pytest.Function):
            families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for family in families.values():
        for item in set(family) - set(_covering(family)):
            item.add_marker(pytest.mark.deep)


def _covering(items: list[pytest.Function]) -> list[pytest.Function]:
    """Pick cases until each value of each parameter was there, those with most new ones first."""
    marker = items[0].get_closest_marker("thin")
    most = marker.kwargs.get("keep", len(items)) if marker else len(items)
    values = {item: {(k, repr(v)) for k, v in item.callspec.params.items()} for item in items}
    missing = set().union(*values.values())
    picked: list[pytest.Function] = []
    while missing and len(picked) < most:
        picked.append(max(items, key=lambda item: len(values[item] & missing)))
        missing -= values[picked[-1]]
    return picked


@pytest.fixture(scope="session")
def device() -> str:
    """Where kernel tests put their tensors."""
    return "cuda" if HAS_GPU else "cpu"
