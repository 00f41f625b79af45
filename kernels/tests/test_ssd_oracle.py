"""SSD against code that is not ours: Hugging Face's Mamba-2, and the paper's einsums."""

# ruff: noqa: N803, N806  # the papers' letters are capitals

from __future__ import annotations

from typing import Any

import pytest
import torch
from attend_kernels import naive_ssd_chunked, ssd, ssd_step
from attend_kernels.common import fallback

from .numerics import relative_error
from .recurrences import run, wide
from .ssd_cases import Case, fast

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
WIDTH, HEADS, GROUPS, STATES = 8, 4, 2, 16
KERNEL = pytest.param(True, marks=needs_triton)
both = pytest.mark.parametrize("kernel", [False, KERNEL], ids=["twin", "kernel"])


@pytest.fixture
def mixer() -> Any:
    pytest.importorskip("transformers")
    from transformers import Mamba2Config
    from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

    torch.manual_seed(0)
    config = Mamba2Config(
        hidden_size=WIDTH, num_heads=HEADS, head_dim=4, expand=2, state_size=STATES,
        n_groups=GROUPS, chunk_size=8, num_hidden_layers=1,
    )  # fmt: skip
    made = Mamba2Mixer(config, layer_idx=0).eval()
    for name, parameter in made.named_parameters():
        if name != "A_log":
            torch.nn.init.normal_(parameter, std=0.5)
    return made


def theirs(mixer: Any, x: torch.Tensor) -> torch.Tensor:
    """Run its PyTorch path; releases before 5 keep it apart from the one for CUDA."""
    return getattr(mixer, "torch_forward", mixer.forward)(x)


def ours(mixer: Any, hidden: torch.Tensor, kernel: bool) -> torch.Tensor:
    """The same block around our scan (Mamba-2, section 7)."""
    inner, states = mixer.intermediate_size, GROUPS * STATES
    z, mixed, dt = mixer.in_proj(hidden).split([inner, inner + 2 * states, HEADS], dim=-1)
    taps = mixer.conv1d(mixed.mT)[..., : hidden.shape[1]]
    x, B, C = torch.nn.functional.silu(taps.mT).split([inner, states, states], dim=-1)
    x = x.unflatten(-1, (HEADS, -1))
    A = -torch.exp(mixer.A_log)
    if kernel:
        y = ssd(
            x, dt, A, B, C, D=mixer.D, groups=GROUPS, chunk=16, dt_bias=mixer.dt_bias, softplus=True
        )
    else:
        B, C = (m.unflatten(-1, (GROUPS, STATES)) for m in (B, C))
        dt = torch.nn.functional.softplus(dt + mixer.dt_bias)
        y, _ = naive_ssd_chunked(x, dt, A, B, C, D=mixer.D)
    return mixer.out_proj(mixer.norm(y.flatten(2), z))


@both
def test_output_and_gradients_are_hugging_faces(mixer: Any, kernel: bool, device: str):
    mixer = mixer.to(device)
    hidden = torch.randn(2, 21, WIDTH, generator=torch.Generator().manual_seed(1)).to(device)
    leaves = [hidden.requires_grad_(), *mixer.parameters()]
    want = theirs(mixer, hidden)
    grad = torch.randn(want.shape, generator=torch.Generator().manual_seed(2)).to(device)
    wanted = torch.autograd.grad(want, leaves, grad)
    got = ours(mixer, hidden, kernel)
    found = torch.autograd.grad(got, leaves, grad)
    names = ["input", *(name for name, _ in mixer.named_parameters())]
    assert relative_error(got, want.double()) < 1e-5
    for name, g, w in zip(names, found, wanted, strict=True):
        assert relative_error(g, w.double()) < 2e-5, name  # both sides are fp32


def listing(
    X: torch.Tensor, A: torch.Tensor, B: torch.Tensor, C: torch.Tensor, state: torch.Tensor, Q: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The paper's algorithm in its own terms (listing 1): four einsums over all chunks at once.

    X is dt x and A is dt A, (B, T, H, …); T a multiple of the chunk Q. The log decays are summed
    another way than ours: pair by pair, from explicit index sets.
    """
    b, T, h, _ = X.shape
    X, A, B, C = (m.reshape(b, T // Q, Q, *m.shape[2:]) for m in (X, A, B, C))
    A = A.permute(0, 3, 1, 2)  # (b, h, c, l)
    step = torch.arange(Q)
    inside = (step[None, None] <= step[:, None, None]) & (step[None, None] > step[None, :, None])
    sums = torch.einsum("bhcr,ijr->bhcij", A, inside.to(A.dtype))
    L = torch.where(step[:, None] >= step[None], sums.exp(), 0.0)
    diagonal = torch.einsum("bclhn,bcshn,bhcls,bcshp->bclhp", C, B, L, X)
    total = A.sum(-1)  # (b, h, c)
    since, until = A.cumsum(-1), total[..., None] - A.cumsum(-1)
    written = torch.einsum("bclhn,bhcl,bclhp->bchpn", B, until.exp(), X)
    states = []
    for c in range(T // Q):
        states.append(state)
        state = total[:, :, c, None, None].exp() * state + written[:, c]
    off = torch.einsum("bclhn,bchpn,bhcl->bclhp", C, torch.stack(states, 1), since.exp())
    return (diagonal + off).reshape(b, T, h, -1), state


@both
@pytest.mark.parametrize("Q", [4, 12])
def test_the_papers_listing_agrees(Q: int, kernel: bool, device: str):
    inputs = Case(24, B=2, H=2, G=2, P=16, N=16).inputs(device)

    def paper(
        x: torch.Tensor, dt: torch.Tensor, A: torch.Tensor, B: torch.Tensor, C: torch.Tensor,
        D: torch.Tensor, initial_state: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
        y, state = listing(x * dt[..., None], dt * A, B, C, initial_state, Q)
        return y + D[:, None] * x, state

    want = run(paper, {k: m.cpu() for k, m in wide(inputs).items()})
    got = run(fast if kernel else naive_ssd_chunked, inputs if kernel else wide(inputs))
    for name, value in got.items():
        error = relative_error(value.cpu(), want[name])
        assert error < (1e-5 if kernel else 1e-12), name


@needs_triton
def test_decoding_step_by_step_is_hugging_faces_block(mixer: Any, device: str):
    """Prefill, then single steps, with our own state handed on."""
    mixer = mixer.to(device)
    hidden = torch.randn(1, 9, WIDTH, generator=torch.Generator().manual_seed(4)).to(device)
    with torch.no_grad():
        want = theirs(mixer, hidden)
        inner, states = mixer.intermediate_size, GROUPS * STATES
        z, mixed, dt = mixer.in_proj(hidden).split([inner, inner + 2 * states, HEADS], dim=-1)
        taps = torch.nn.functional.silu(mixer.conv1d(mixed.mT)[..., :9].mT)
        x, B, C = taps.split([inner, states, states], dim=-1)
        x, A = x.unflatten(-1, (HEADS, -1)), -torch.exp(mixer.A_log)
        B, C = (m.unflatten(-1, (GROUPS, STATES)) for m in (B, C))
        more = {"dt_bias": mixer.dt_bias, "softplus": True}
        y, state = ssd(
            x[:, :5], dt[:, :5], A, B[:, :5], C[:, :5], D=mixer.D, output_state=True, **more
        )
        rows = [y]
        for t in range(5, 9):
            y, state = ssd_step(state, x[:, t], dt[:, t], A, B[:, t], C[:, t], mixer.D, **more)
            rows.append(y[:, None])
        got = mixer.out_proj(mixer.norm(torch.cat(rows, dim=1).flatten(2), z))
    assert relative_error(got, want.double()) < 1e-5
