"""Layers with Hugging Face's weights: outputs, gradients and generation of tiny random models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attend_kernels.modules import FlashAttention, GatedDeltaNet, Mamba2Block, MambaBlock

from .modules_cases import WAYS, choose, draw, fresh, generate, logits, mixers, single, whole
from .numerics import relative_error

transformers = pytest.importorskip("transformers")
SIZES: dict[str, Any] = {"vocab_size": 29, "hidden_size": 16, "num_hidden_layers": 2}
SIZES |= {"initializer_range": 0.3, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": None}
HEADS: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 8}


def llama() -> tuple[Any, list[Any]]:
    config = transformers.LlamaConfig(**SIZES, **HEADS, attention_bias=True)
    layers = [FlashAttention(16, 4, 2, attention_bias=True) for _ in range(2)]
    return transformers.LlamaForCausalLM(config), layers


def qwen3() -> tuple[Any, list[Any]]:
    config = transformers.Qwen3Config(**SIZES, **HEADS, head_dim=6, rms_norm_eps=1e-5)
    theta = config.rope_parameters["rope_theta"]
    layers = [
        FlashAttention(16, 4, 2, head_dim=6, qk_norm=True, rms_norm_eps=1e-5, rope_theta=theta)
        for _ in range(2)
    ]
    return transformers.Qwen3ForCausalLM(config), layers


def mistral() -> tuple[Any, list[Any]]:
    config = transformers.MistralConfig(**SIZES, **HEADS, sliding_window=4)
    return (
        transformers.MistralForCausalLM(config),
        [FlashAttention(16, 4, 2, sliding_window=4) for _ in range(2)],
    )


def mamba() -> tuple[Any, list[Any]]:
    config = transformers.MambaConfig(**SIZES, state_size=4, time_step_rank=3, use_bias=True)
    layers = [MambaBlock(16, 4, time_step_rank=3, use_bias=True) for _ in range(2)]
    return transformers.MambaForCausalLM(config), layers


def mamba2() -> tuple[Any, list[Any]]:
    config = transformers.Mamba2Config(
        **SIZES, num_heads=4, head_dim=8, state_size=16, n_groups=2, chunk_size=8
    )
    layers = [Mamba2Block(16, 4, 8, 16, 2, chunk=16) for _ in range(2)]
    return transformers.Mamba2ForCausalLM(config), layers


MODELS = {m.__name__: m for m in (llama, qwen3, mistral, mamba, mamba2)}
models = pytest.mark.parametrize("name", MODELS)


def load(name: str) -> tuple[Any, list[Any]]:
    """A model with random weights, and our layers with the same."""
    torch.manual_seed(0)
    model, layers = MODELS[name]()
    for parameter_name, parameter in model.named_parameters():
        if parameter.dim() == 1 and "A_log" not in parameter_name:
            torch.nn.init.normal_(parameter, 0.5, 0.2)
    for mixer, layer in zip(mixers(model), layers, strict=True):
        layer.load_state_dict(mixer.state_dict())  # strict: the same names and shapes
    return model.eval(), layers


def tokens(batch: int = 2, length: int = 11) -> torch.Tensor:
    return torch.randint(1, 29, (batch, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.thin(keep=5)
@models
@pytest.mark.parametrize("way", WAYS)
def test_outputs_and_gradients(name: str, way: str, monkeypatch: pytest.MonkeyPatch):
    choose(way, monkeypatch)
    model, layers = load(name)
    length = 11 if way == "twin" else 6
    theirs = [p for mixer in mixers(model) for p in mixer.parameters()]
    names = [f"{n}" for mixer in mixers(model) for n, _ in mixer.named_parameters()]
    want = model(tokens(1, length)).logits
    wanted = torch.autograd.grad(want.square().mean(), theirs)
    got = logits(model, layers, tokens(1, length), [None] * 2, whole)
    ours = [dict(layer.named_parameters()) for layer in layers]
    mine = [ours[at >= len(names) // 2][n] for at, n in enumerate(names)]
    found = torch.autograd.grad(got.square().mean(), mine)
    assert relative_error(got, want.detach().double()) < 1e-5
    largest = max(float(w.norm()) for w in wanted)
    for n, f, w in zip(names, found, wanted, strict=True):
        assert relative_error(f, w.double(), floor=1e-2 * largest) < 2e-5, n


@pytest.mark.thin(keep=1)
@pytest.mark.parametrize("way", WAYS)
def test_gated_deltanet_is_qwen3_nexts(way: str, monkeypatch: pytest.MonkeyPatch):
    choose(way, monkeypatch)
    modeling = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next")
    config = transformers.Qwen3NextConfig(
        hidden_size=16, linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=8,
        linear_value_head_dim=6, num_hidden_layers=1, layer_types=["linear_attention"],
    )  # fmt: skip
    torch.manual_seed(0)
    theirs = modeling.Qwen3NextGatedDeltaNet(config, 0)
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, 0.2, 0.5)
    ours = GatedDeltaNet(16, 4, 2, 8, 6)
    ours.load_state_dict(theirs.state_dict())
    x = draw(2, 9, 16).requires_grad_()
    want, got = theirs(x), ours(x)
    assert relative_error(got, want.detach().double()) < 1e-5
    names = dict(theirs.named_parameters())
    wanted = torch.autograd.grad(want.square().sum(), [x, *names.values()])
    mine = dict(ours.named_parameters())
    found = torch.autograd.grad(got.square().sum(), [x, *(mine[name] for name in names)])
    for name, f, w in zip(["input", *names], found, wanted, strict=True):
        assert relative_error(f, w.double()) < 1e-4, name


@models
@torch.no_grad()
def test_generation_token_by_token(name: str, monkeypatch: pytest.MonkeyPatch):
    choose("twin", monkeypatch)
    model, layers = load(name)
    prompt = tokens(2, 5)
    want = model.generate(prompt, max_new_tokens=8, do_sample=False)
    got = generate(model, layers, prompt, 8)
    assert got.tolist() == want.tolist()
    assert len(set(got[:, 5:].flatten().tolist())) > 1  # not one token again and again


@pytest.mark.thin(keep=5)
@models
@pytest.mark.parametrize("way", WAYS)
@torch.no_grad()
def test_tokens_one_by_one_are_the_whole(name: str, way: str, monkeypatch: pytest.MonkeyPatch):
    choose(way, monkeypatch)
    model, layers = load(name)
    length = 9 if way == "twin" else 4
    given = tokens(2, length)
    want = model(given).logits
    states = [fresh(layer, 2, length) for layer in layers]
    got = [logits(model, layers, given[:, t : t + 1], states, single) for t in range(length)]
    assert relative_error(torch.cat(got, dim=1), want.double()) < 1e-5
