"""Linear attention against code that is not ours: Hugging Face's models, and our other scans.

Each kind has one: RWKV and MiniMax's lightning attention (a decay a head), xLSTM (a gate a step),
Mamba-1 (a gate a key dimension), Qwen3-Next and Kimi (the delta rule, with gates beside it).
"""

# ruff: noqa: N806  # the papers' letters are capitals

from __future__ import annotations

from typing import Any

import pytest
import torch
from attend_kernels import (
    linear_attention,
    linear_attention_step,
    naive_linear_attention,
    naive_linear_attention_parallel,
    naive_selective_scan,
    naive_ssd,
)
from attend_kernels.common import fallback

from .linear_attention_cases import Case
from .numerics import relative_error

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
LIMIT = 1e-5  # both sides are fp32


def kernel(*tensors: torch.Tensor, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return linear_attention(*tensors, **options, output_state=True, chunk=16)


FORMS = [
    pytest.param(naive_linear_attention, id="recurrence"),
    pytest.param(naive_linear_attention_parallel, id="masked-matrix"),
    pytest.param(kernel, id="kernel", marks=needs_triton),
]
forms = pytest.mark.parametrize("form", FORMS)
twins = pytest.mark.parametrize("form", FORMS[:2])


def model(name: str) -> Any:
    """A model's module of Hugging Face; skips the test where this release has it not."""
    return pytest.importorskip(f"transformers.models.{name}.modeling_{name}")


def draw(*shape: int, seed: int, device: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(device).requires_grad_()


def hold_same(want: torch.Tensor, got: torch.Tensor, leaves: list[torch.Tensor]) -> None:
    """Assert that two outputs and their gradients at ``leaves`` are the same numbers."""
    assert relative_error(got, want.detach().double()) < LIMIT
    grad = torch.randn(want.shape, generator=torch.Generator().manual_seed(99)).to(want.device)
    wanted = torch.autograd.grad(want, leaves, grad, retain_graph=True)
    found = torch.autograd.grad(got, leaves, grad, retain_graph=True)
    for number, (g, w) in enumerate(zip(found, wanted, strict=True)):
        assert relative_error(g, w.double()) < 3 * LIMIT, number


@pytest.mark.thin(keep=1)
@forms
def test_lightning_attention_of_minimax(form: Any, device: str):
    """The whole layer with its weights: SiLU, blocks of 8, norm, output gate."""
    minimax = model("minimax")
    config = minimax.MiniMaxConfig(
        hidden_size=24, num_attention_heads=3, head_dim=16, num_hidden_layers=2, block_size=8
    )
    torch.manual_seed(0)
    layer = minimax.MiniMaxLightningAttention(config, layer_idx=0).to(device)
    x = draw(2, 21, 24, seed=1, device=device)
    want, state, *_ = layer(x, None, None)
    heads = torch.nn.functional.silu(layer.qkv_proj(x)).unflatten(-1, (3, -1))
    q, k, v = (part.transpose(1, 2) for part in heads.chunk(3, dim=-1))
    mixed, last = form(q, k, v, decay=-layer.slope_rate.flatten())
    mixed = layer.norm(mixed.transpose(1, 2).flatten(2))
    got = layer.out_proj(torch.sigmoid(layer.output_gate(x)) * mixed)
    hold_same(want, got, [x, *layer.parameters()])
    assert relative_error(last, state.double()) < LIMIT


@forms
def test_time_mixing_of_rwkv(form: Any, device: str):
    """RWKV-4: each channel a head, its key one wide; numerator and denominator are two values."""
    k, v = (draw(2, 19, 6, seed=s, device=device) for s in (1, 2))
    rate, bonus = (draw(6, seed=s, device=device) for s in (3, 4))
    want, (numerator, denominator, scale) = model("rwkv").rwkv_linear_attention_cpu(
        rate, bonus, k, v, return_state=True
    )
    key = k.mT[..., None].exp()
    value = torch.stack([v.mT, torch.ones_like(v.mT)], dim=-1)  # (B, C, T, 2)
    sums, state = form(torch.ones_like(key), key, value, decay=-torch.exp(rate))
    before = torch.nn.functional.pad(sums[:, :, :-1], (0, 0, 1, 0))
    both = before + torch.exp(bonus)[:, None, None] * key * value  # a step sees itself by its bonus
    hold_same(want, (both[..., 0] / both[..., 1]).mT, [k, v, rate, bonus])
    last = torch.stack([numerator, denominator], dim=-1) * scale.exp()[..., None]
    assert relative_error(state[:, :, 0], last.detach().double()) < LIMIT


@forms
def test_matrix_memory_of_xlstm(form: Any, device: str):
    """mLSTM: input gates scale the keys, forget gates fade; the normaliser is one more value."""
    q, k, v = (draw(2, 3, 21, d, seed=s, device=device) for d, s in ((8, 1), (8, 2), (5, 3)))
    gates, forget = (draw(2, 3, 21, seed=s, device=device) for s in (4, 5))
    want, *_ = model("xlstm").mlstm_recurrent_sequence_native(
        q, k, v, igate=gates, fgate=forget, eps=0.0, return_last_states=True
    )
    value = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
    both, _ = form(
        8**-0.5 * q,
        k * gates.exp()[..., None],
        value,
        gate=torch.nn.functional.logsigmoid(forget),
    )
    got = both[..., :-1] / both[..., -1:].abs().clamp(min=1.0)
    hold_same(want, got, [q, k, v, gates, forget])


@forms
def test_delta_rule_of_qwen3_next(form: Any, device: str):
    """Step by step, without gates, from an initial state; queries are scaled there."""
    inputs = Case(21, B=2, H=2, E=24, kind="delta").inputs(device)
    q, k, v, beta, initial = (inputs[n] for n in ("q", "k", "v", "beta", "initial_state"))
    their = model("qwen3_next").torch_recurrent_gated_delta_rule
    want, last = their(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), torch.zeros_like(beta.mT),
        beta.mT, initial_state=initial, output_final_state=True,
    )  # fmt: skip
    got, state = form(16**-0.5 * q, k, v, beta=beta, initial_state=initial)
    hold_same(want.transpose(1, 2), got, [q, k, v, beta, initial])
    hold_same(last, state, [k, v, beta, initial])


@pytest.mark.thin(keep=2)
@forms
@pytest.mark.parametrize(
    "name", ["torch_recurrent_gated_delta_rule", "torch_chunk_gated_delta_rule"]
)
def test_gated_delta_rule_of_qwen3_next(name: str, form: Any, device: str):
    """Gates beside the delta rule, as that model has them: its two forms, outputs and states."""
    inputs = Case(37, H=2, E=24, kind="gated delta").inputs(device)
    q, k, v, gate, beta, initial = (inputs[n] for n in (*"qkv", "gate", "beta", "initial_state"))
    their = getattr(model("qwen3_next"), name)
    want, last = their(
        *(x.transpose(1, 2) for x in (q, k, v)), gate.mT, beta.mT,
        initial_state=initial, output_final_state=True,
    )  # fmt: skip
    got, state = form(16**-0.5 * q, k, v, gate=gate, beta=beta, initial_state=initial)
    hold_same(want.transpose(1, 2), got, [q, k, v, gate, beta, initial])
    hold_same(last, state, [k, v, gate, beta, initial])


@twins
def test_delta_attention_of_kimi(form: Any, device: str):
    """Gates a key dimension beside the delta rule, which the twins alone have."""
    inputs = Case(11, B=2, H=2, kind="delta").inputs(device)
    q, k, v, beta = (inputs[n] for n in ("q", "k", "v", "beta"))
    gate = (-draw(2, 2, 11, 16, seed=5, device=device).abs()).detach().requires_grad_()
    heads_last = (x.transpose(1, 2) for x in (q, k, v, gate))
    want, _ = model("kimi_linear").recurrent_kimi_delta_attention(
        *heads_last, beta.mT, initial_state=None, output_final_state=False
    )
    got, _ = form(16**-0.5 * q, k, v, gate=gate, beta=beta)
    hold_same(want.transpose(1, 2), got, [q, k, v, beta, gate])


@forms
def test_mamba_is_gated_linear_attention_of_one_value(form: Any, device: str):
    """Mamba-1: a channel is a head, its N states a key, delta A its gates. The scan's twin is held
    to Hugging Face's Mamba (``test_mamba_oracle``).
    """
    u, delta = (draw(2, 21, 3, seed=s, device=device) for s in (1, 2))
    b, c = (draw(2, 21, 8, seed=s, device=device) for s in (3, 4))
    rate = draw(3, 8, seed=5, device=device)
    A, step = -rate.exp(), torch.nn.functional.softplus(delta)
    want, last = naive_selective_scan(u, step, A, b, c, softplus=False)
    q, k = (x[:, None].expand(-1, 3, -1, -1) for x in (c, b))
    got, state = form(q, k, (step * u).mT[..., None], gate=step.mT[..., None] * A[:, None])
    hold_same(want, got[..., 0].mT, [u, delta, b, c, rate])
    assert relative_error(state[..., 0], last.detach().double()) < LIMIT


@forms
def test_ssd_is_linear_attention_with_a_gate_a_step(form: Any, device: str):
    """Mamba-2: C reads, B is the key, dt x the value, dt A the gate."""
    x, b, c = (draw(2, 21, 2, n, seed=s, device=device) for n, s in ((5, 1), (8, 2), (8, 3)))
    raw, A = draw(2, 21, 2, seed=4, device=device), -draw(2, seed=5, device=device).abs()
    dt = torch.nn.functional.softplus(raw)
    want, _ = naive_ssd(x, dt, A, b, c)
    heads_first = (m.transpose(1, 2) for m in (c, b, dt[..., None] * x))
    got, _ = form(*heads_first, gate=(dt * A).mT)
    hold_same(want, got.transpose(1, 2), [x, b, c, raw])


@needs_triton
def test_decoding_step_by_step_is_qwen3_nexts(device: str):
    their = model("qwen3_next").torch_recurrent_gated_delta_rule
    inputs = {k: x.detach() for k, x in Case(7, H=2, kind="gated delta").inputs(device).items()}
    state = inputs.pop("initial_state")
    q, k, v, gate, beta = (inputs[n].transpose(1, 2) for n in (*"qkv", "gate", "beta"))
    want, last = their(q, k, v, gate, beta, initial_state=state, output_final_state=True)
    for t in range(7):
        now = {name: x[:, :, t] for name, x in inputs.items()}
        output, state = linear_attention_step(state, **now)
        assert relative_error(16**-0.5 * output, want[:, t].double()) < LIMIT
    assert relative_error(state, last.double()) < LIMIT
