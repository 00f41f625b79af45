"""Convolution and selective scan against Hugging Face's Mamba, at tiny size with its weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attend_kernels import (
    causal_conv1d,
    causal_conv1d_step,
    naive_causal_conv1d,
    naive_selective_scan,
    selective_scan,
    selective_scan_step,
)
from attend_kernels.common import fallback

from .numerics import relative_error

transformers = pytest.importorskip("transformers")
needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
TOLERANCE = 1e-5  # Hugging Face's slow path computes in fp32


@pytest.fixture
def mixer() -> Any:
    from transformers import MambaConfig
    from transformers.models.mamba.modeling_mamba import MambaMixer

    torch.manual_seed(0)
    config = MambaConfig(hidden_size=6, state_size=4, conv_kernel=4, expand=2, time_step_rank=3)
    made = MambaMixer(config, layer_idx=0).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made


def slow(mixer: Any, x: torch.Tensor) -> torch.Tensor:
    """Run its PyTorch path; releases before 5 keep it apart from the one for CUDA."""
    return getattr(mixer, "slow_forward", mixer.forward)(x)


def parameters(mixer: Any, hidden: torch.Tensor) -> dict[str, Any]:
    """The scan's arguments but u and z, from the convolved input (Mamba, algorithm 2)."""
    rank, states = mixer.time_step_rank, mixer.ssm_state_size
    low, b, c = mixer.x_proj(hidden).split([rank, states, states], dim=-1)
    return {
        "delta": low @ mixer.dt_proj.weight.T,
        "A": -torch.exp(mixer.A_log),
        "B": b,
        "C": c,
        "D": mixer.D,
        "delta_bias": mixer.dt_proj.bias,
    }


def ours(mixer: Any, x: torch.Tensor, fast: bool) -> torch.Tensor:
    hidden, z = mixer.in_proj(x).chunk(2, dim=-1)
    w, b = mixer.conv1d.weight.squeeze(1), mixer.conv1d.bias
    if fast:
        hidden = causal_conv1d(hidden, w, b)
        return mixer.out_proj(selective_scan(hidden, z=z, **parameters(mixer, hidden)))
    hidden = naive_causal_conv1d(hidden, w, b)
    return mixer.out_proj(naive_selective_scan(hidden, z=z, **parameters(mixer, hidden))[0])


@pytest.mark.parametrize("fast", [False, pytest.param(True, marks=needs_triton)],
                         ids=["twin", "kernel"])  # fmt: skip
def test_output_and_gradients_are_hugging_faces(mixer: Any, fast: bool, device: str):
    mixer = mixer.to(device)
    x = torch.randn(1, 11, 6, generator=torch.Generator().manual_seed(1)).to(device)
    x.requires_grad_()
    leaves = [x, *mixer.parameters()]
    want = slow(mixer, x)
    grad = torch.randn(want.shape, generator=torch.Generator().manual_seed(2)).to(device)
    wanted = torch.autograd.grad(want, leaves, grad)
    got = ours(mixer, x, fast)
    found = torch.autograd.grad(got, leaves, grad)
    assert relative_error(got, want.detach().double()) < TOLERANCE
    for (name, _), g, w in zip([("x", x), *mixer.named_parameters()], found, wanted, strict=True):
        assert relative_error(g, w.double()) < 3 * TOLERANCE, name  # both sides round


@needs_triton
def test_decoding_step_by_step_is_hugging_faces_output(mixer: Any, device: str):
    mixer = mixer.to(device)
    x = torch.randn(1, 6, 6, generator=torch.Generator().manual_seed(1)).to(device)
    past, state = torch.zeros(1, 12, 3, device=device), torch.zeros(1, 12, 4, device=device)
    w, b = mixer.conv1d.weight.squeeze(1), mixer.conv1d.bias
    rows = []
    with torch.no_grad():
        for t in range(6):
            hidden, z = mixer.in_proj(x[:, t]).chunk(2, dim=-1)
            hidden, past = causal_conv1d_step(past, hidden, w, b)
            y, state = selective_scan_step(state, hidden, z=z, **parameters(mixer, hidden))
            rows.append(mixer.out_proj(y))
        want = slow(mixer, x)
    assert relative_error(torch.stack(rows, dim=1), want.double()) < TOLERANCE
