"""Layers against twins that follow the papers' equations in float64, and what all of them promise.

The names of flash-linear-attention's weights are those of its layers' sources.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attend_kernels.modules as modules
import pytest
import torch
from attend_kernels import ShapeError, naive_attention, naive_linear_attention
from attend_kernels.modules import DeltaNet, FlashAttention, GatedLinearAttention, RetNet

from .modules_cases import WAYS, choose, draw, fresh
from .numerics import relative_error

silu = torch.nn.functional.silu
LAYERS: dict[str, Callable[[], Any]] = {
    "attention": lambda: modules.FlashAttention(16, 4, 2, qk_norm=True, sliding_window=5),
    "no-rope": lambda: modules.FlashAttention(16, 2, rope_theta=None, softcap=3.0, sinks=True),
    "mamba": lambda: modules.MambaBlock(8, 4),
    "mamba2": lambda: modules.Mamba2Block(8, 2, 8, 16),
    "gated-deltanet": lambda: modules.GatedDeltaNet(16, 4, 2, 8, 6),
    "gla": lambda: modules.GatedLinearAttention(32, 2, 1, clamp_min=-1.0),
    "gla-conv": lambda: modules.GatedLinearAttention(
        32, 2, use_short_conv=True, conv_bias=True, use_output_gate=False
    ),
    "retnet": lambda: modules.RetNet(16, 2, 1),
    "retnet-conv": lambda: modules.RetNet(16, 2, use_short_conv=True, use_output_gate=False),
    "deltanet": lambda: modules.DeltaNet(16, 2),
    "deltanet-gate": lambda: modules.DeltaNet(
        16, 2, use_gate=True, use_short_conv=False, allow_neg_eigval=True
    ),
    "deltanet-beta": lambda: modules.DeltaNet(16, 1, use_beta=False),
}
LINEAR = {
    name: make
    for name, make in LAYERS.items()
    if name.split("-")[0] in ("gla", "retnet", "deltanet")
}


def make(name: str) -> Any:
    torch.manual_seed(0)
    layer = LAYERS[name]()
    for parameter_name, parameter in layer.named_parameters():
        if "A_log" not in parameter_name:
            torch.nn.init.normal_(parameter, 0.1, 0.4)
    return layer


def taps(layer: Any, name: str, x: torch.Tensor) -> torch.Tensor:
    """A projection in float64, through its convolution if there is one."""
    rows = x @ getattr(layer, f"{name}_proj").weight.double().T
    if not layer.has_convolutions:
        return rows
    conv = getattr(layer, f"{name}_conv1d")
    bias = None if conv.bias is None else conv.bias.double()
    padded = torch.nn.functional.pad(rows.mT, (conv.weight.shape[-1] - 1, 0))
    out = torch.nn.functional.conv1d(padded, conv.weight.double(), bias, groups=rows.shape[-1])
    return silu(out.mT)


def twin(layer: Any, x: torch.Tensor) -> torch.Tensor:
    """What the docstrings' equations say, step by step, in float64. (B, T, C) -> (B, T, C)."""
    q, k, v = (
        taps(layer, name, x).unflatten(-1, (-1, width)).transpose(1, 2)
        for name, width in zip("qkv", (layer.width_k, layer.width_k, layer.width_v), strict=True)
    )
    share, more = layer.heads // layer.groups, {}
    if isinstance(layer, RetNet):
        pair = torch.arange(layer.width_k // 2, dtype=torch.float64)
        angle = torch.arange(x.shape[1])[:, None] * 10_000.0 ** (-2 * pair / layer.width_k)
        turn = torch.polar(torch.ones_like(angle), angle)
        q, k = (torch.complex(*m.chunk(2, dim=-1)) * turn for m in (q, k))
        q, k = (torch.cat([m.real, m.imag], dim=-1) for m in (q, k))
        gamma = 1 - 2.0 ** (-5 - torch.arange(layer.heads, dtype=torch.float64))
        more["decay"] = gamma.log()
    if isinstance(layer, GatedLinearAttention):
        low, high = (p.double() for p in layer.gk_proj.parameters() if p.dim() == 2)
        bias = layer.get_parameter("gk_proj.1.bias").double()
        gate = x @ low.T @ high.T + bias
        gate = torch.log(torch.sigmoid(gate)) / layer.normalizer
        gate = gate if layer.least is None else gate.clamp(min=layer.least)
        gate = gate.unflatten(-1, (-1, layer.width_k)).transpose(1, 2)
        more["gate"] = gate.repeat_interleave(share, dim=1)
    if isinstance(layer, DeltaNet):
        if not layer.has_convolutions:
            q, k, v = silu(q), silu(k), silu(v)
        q, k = (m / (m.square().sum(-1, keepdim=True) + 1e-6).sqrt() for m in (q, k))
        beta = torch.ones(q.shape[:-1], dtype=torch.float64)
        if layer.b_proj is not None:
            beta = torch.sigmoid(x @ layer.b_proj.weight.double().T).transpose(1, 2)
        more["beta"] = layer.most * beta
    k, v = (m.repeat_interleave(share, dim=1) for m in (k, v))
    y, _ = naive_linear_attention(q / layer.width_k**0.5, k, v, **more)
    y = y.transpose(1, 2)
    norm: Any = layer.get_submodule(layer.norm_name)
    y = y / (y.square().mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight.double()
    y = y.flatten(-2)
    if layer.g_proj is not None:
        y = y * silu(x @ layer.g_proj.weight.double().T)
    return y @ layer.o_proj.weight.double().T


@pytest.mark.thin(keep=len(LINEAR))
@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("way", WAYS)
def test_linear_layers_are_their_equations(name: str, way: str, monkeypatch: pytest.MonkeyPatch):
    choose(way, monkeypatch)
    layer, x = make(name), draw(1, 9, make(name).hidden_size).requires_grad_()
    parameters = dict(layer.named_parameters())
    leaves = [x, *parameters.values()]
    want = twin(layer, x.double())
    wanted = torch.autograd.grad(want.sum(), leaves)
    got = layer(x)
    found = torch.autograd.grad(got.sum(), leaves)
    assert relative_error(got, want.detach()) < 1e-5
    floor = 1e-2 * max(float(w.norm()) for w in wanted)
    for n, f, w in zip(["input", *parameters], found, wanted, strict=True):
        assert relative_error(f, w.double(), floor) < 2e-5, n


@pytest.mark.parametrize("name", LAYERS)
@torch.no_grad()
def test_steps_and_pieces_are_the_whole(name: str, monkeypatch: pytest.MonkeyPatch):
    choose("twin", monkeypatch)
    layer = make(name)
    x = draw(2, 9, layer.hidden_size)
    want = layer(x).double()
    state = fresh(layer, 2, 9)
    pieces = [layer(x[:, :4], state), layer(x[:, 4:6], state)]
    pieces += [layer.step(x[:, t], state)[:, None] for t in range(6, 9)]
    assert relative_error(torch.cat(pieces, dim=1), want) < 1e-5
    state = fresh(layer, 2, 9)
    steps = [layer.step(x[:, t], state)[:, None] for t in range(9)]
    assert relative_error(torch.cat(steps, dim=1), want) < 1e-5


@pytest.mark.parametrize("name", [n for n in LAYERS if n not in ("attention", "no-rope")])
def test_gradients_flow_through_a_state_until_detached(name: str, monkeypatch: pytest.MonkeyPatch):
    choose("twin", monkeypatch)
    layer = make(name)
    x = draw(1, 6, layer.hidden_size).requires_grad_()
    (want,) = torch.autograd.grad(layer(x).sum(), x)
    state = layer.new_state()
    total = layer(x[:, :4], state).sum() + layer(x[:, 4:5], state).sum()
    cut = state.detach()
    (got,) = torch.autograd.grad(total + layer.step(x[:, 5], state).sum(), x)
    assert relative_error(got, want.double()) < 1e-5
    assert cut.length == 5
    first = x[:, :1].detach().requires_grad_()
    layer(first, state := layer.new_state())
    later = layer(x[:, 5:], state.detach()).sum()
    assert torch.autograd.grad(later, first, allow_unused=True) == (None,)


NAMES = {
    "gla": {"q_proj", "k_proj", "v_proj", "g_proj", "gk_proj.0", "gk_proj.1", "o_proj"}
    | {"g_norm_swish_gate"},
    "retnet": {"q_proj", "k_proj", "v_proj", "g_proj", "o_proj", "g_norm_swish_gate"},
    "retnet-conv": {"q_proj", "k_proj", "v_proj", "o_proj", "g_norm"}
    | {"q_conv1d", "k_conv1d", "v_conv1d"},
    "deltanet": {"q_proj", "k_proj", "v_proj", "b_proj", "o_proj", "o_norm"}
    | {"q_conv1d", "k_conv1d", "v_conv1d"},
    "deltanet-gate": {"q_proj", "k_proj", "v_proj", "b_proj", "g_proj", "o_proj", "o_norm"},
}


@pytest.mark.parametrize("name", NAMES)
def test_weights_have_flas_names(name: str):
    weights = {n for n in make(name).state_dict() if n != "gk_proj.1.bias"}
    assert weights == {f"{n}.weight" for n in NAMES[name]}


@torch.no_grad()
def test_prompts_of_different_lengths(monkeypatch: pytest.MonkeyPatch):
    """Filled up on the right, with garbage: each goes on as if it were alone."""
    choose("twin", monkeypatch)
    layer, x = make("attention"), draw(2, 9, 16)
    state = layer.new_state(2, 9)
    together = layer(x[:, :5], state, lengths=torch.tensor([5, 2]))
    after = [layer.step(torch.stack([x[0, 5 + t], x[1, 2 + t]]), state) for t in range(3)]
    for at, length in enumerate((5, 2)):
        alone = layer(x[at : at + 1, : length + 3])[0].double()
        got = torch.cat([together[at, :length], torch.stack([y[at] for y in after])])
        assert relative_error(got, alone) < 1e-5
    with pytest.raises(ValueError, match="go on token by token; got 2 tokens"):
        layer(x[:, :1].repeat(1, 2, 1)[:, :2], fresh_with(state))


def fresh_with(state: modules.KVCache) -> modules.KVCache:
    """The same cache, but for a step less in it."""
    state.longest -= 2
    return state


@torch.no_grad()
def test_attention_is_its_equation(monkeypatch: pytest.MonkeyPatch):
    choose("twin", monkeypatch)
    layer, x = make("no-rope"), draw(1, 7, 16)
    q, k, v = (
        (x.double() @ proj.weight.double().T).unflatten(-1, (2, 8)).transpose(1, 2)
        for proj in (layer.q_proj, layer.k_proj, layer.v_proj)
    )
    y, _ = naive_attention(q, k, v, causal=True, softcap=3.0, sinks=layer.sinks)
    want = y.transpose(1, 2).flatten(-2) @ layer.o_proj.weight.double().T
    assert relative_error(layer(x), want) < 1e-5


@torch.no_grad()
def test_a_table_of_ones_own(monkeypatch: pytest.MonkeyPatch):
    choose("twin", monkeypatch)
    x, plain = draw(1, 7, 16), make("attention")
    from attend_kernels import rope_table

    table = rope_table(torch.arange(8) / 4, 4)  # positions interpolated
    layer = FlashAttention(16, 4, 2, qk_norm=True, sliding_window=5, rope=table)
    layer.load_state_dict(plain.state_dict())
    state = layer.new_state(1, 9)
    pieces = [layer(x[:, :5], state), *(layer.step(x[:, t], state)[:, None] for t in (5, 6))]
    assert relative_error(torch.cat(pieces, dim=1), layer(x).double()) < 1e-5
    assert relative_error(layer(x), plain(x).double()) > 1e-2
    with pytest.raises(ValueError, match=r"rope table has 8 positions, but 9 tokens came"):
        layer(x[:, :2], state)


def test_in_half_precision(monkeypatch: pytest.MonkeyPatch):
    choose("twin", monkeypatch)
    for name in LAYERS:
        layer = make(name)
        x = draw(1, 6, layer.hidden_size)
        want = layer(x).detach().double()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            got = layer(x)
        assert got.dtype == torch.bfloat16, name
        assert relative_error(got, want) < 0.1, name
        with torch.no_grad():
            layer, state = layer.bfloat16(), fresh(layer.bfloat16(), 1, 6)
            half = x.bfloat16()
            got = torch.stack([layer.step(half[:, t], state) for t in range(6)], dim=1)
        assert got.dtype == torch.bfloat16, name
        assert relative_error(got, want) < 0.1, name


ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "groups": (
        lambda: FlashAttention(16, 4, 3),
        ValueError,
        "expected a multiple of num_key_value",
    ),
    "heads": (lambda: FlashAttention(18, 4), ValueError, "hidden_size is 18; expected a multiple"),
    "mamba2": (
        lambda: modules.Mamba2Block(16, 3, 8),
        ValueError,
        "is 24; expected expand · hidden_size = 32. Next: num_heads=4",
    ),
    "gla": (lambda: GatedLinearAttention(16, 3), ValueError, "the keys' width is 8"),
    "width": (
        lambda: make("mamba")(draw(1, 3, 9)),
        ShapeError,
        "the input of MambaBlock has the wrong shape: expected B T 8",
    ),
    "no-time": (lambda: make("gla")(draw(1, 32)), ShapeError, "has 2 axes; expected 3"),
    "step-of-many": (
        lambda: make("retnet").step(draw(1, 1, 16), make("retnet").new_state()),
        ShapeError,
        "has 3 axes; expected 2",
    ),
    "full": (
        lambda: make("attention").requires_grad_(False)(
            draw(1, 3, 16), fresh(make("attention"), 1, 2)
        ),
        ValueError,
        "room for 2 tokens and holds 0; expected at most 2 more, got 3",
    ),
    "gradient": (
        lambda: make("attention")(draw(1, 3, 16), fresh(make("attention"), 1, 3)),
        ValueError,
        "no gradient flows through a cache",
    ),
    "gradient-of-step": (
        lambda: make("attention").step(draw(1, 16), fresh(make("attention"), 1, 3)),
        ValueError,
        "no gradient flows through a cache",
    ),
}


@pytest.mark.parametrize(("call", "error", "said"), ERRORS.values(), ids=ERRORS)
def test_errors_say_what_was_expected(
    call: Callable[[], Any], error: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch
):
    choose("twin", monkeypatch)
    with pytest.raises(error, match=said):
        call()
