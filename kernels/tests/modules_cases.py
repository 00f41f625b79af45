"""What the tests of the layers share: where kernels run, and a language model around the layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from attend_kernels.common import fallback
from attend_kernels.modules import FlashAttention

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
WAYS = ["twin", pytest.param("kernel", marks=needs_triton)]


def choose(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let twins compute, silently: interpreted, a layer takes a hundred times as long."""
    if way == "twin":
        monkeypatch.setattr(fallback, "why_not", lambda _: "a test")
        monkeypatch.setattr(fallback, "warn_once", lambda *_: None)


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + len(shape)))


def fresh(layer: Any, batch: int, room: int) -> Any:
    """A state before the first token."""
    return layer.new_state(batch, room) if isinstance(layer, FlashAttention) else layer.new_state()


Mix = Callable[[Any, torch.Tensor, Any], torch.Tensor]


def whole(layer: Any, x: torch.Tensor, state: Any) -> torch.Tensor:
    return layer(x) if state is None else layer(x, state)


def single(layer: Any, x: torch.Tensor, state: Any) -> torch.Tensor:
    return layer.step(x[:, 0], state)[:, None]


def logits(
    model: Any, layers: list[Any], tokens: torch.Tensor, states: list[Any], mix: Mix
) -> torch.Tensor:
    """A Hugging Face model with our layers in place of its mixers: (B, T) -> (B, T, V)."""
    llama = hasattr(model, "model")
    base = model.model if llama else model.backbone
    x = model.get_input_embeddings()(tokens)
    for block, layer, state in zip(base.layers, layers, states, strict=True):
        x = x + mix(layer, (block.input_layernorm if llama else block.norm)(x), state)
        if llama:
            x = x + block.mlp(block.post_attention_layernorm(x))
    return model.lm_head((base.norm if llama else base.norm_f)(x))


def mixers(model: Any) -> list[torch.nn.Module]:
    """The modules our layers stand for."""
    if hasattr(model, "model"):
        return [block.self_attn for block in model.model.layers]
    return [block.mixer for block in model.backbone.layers]


def generate(model: Any, layers: list[Any], prompt: torch.Tensor, count: int) -> torch.Tensor:
    """Greedy decoding: the prompt at once, then token by token. (B, T) -> (B, T + count)."""
    states = [fresh(layer, len(prompt), prompt.shape[1] + count) for layer in layers]
    tokens, mix, fed = prompt, whole, prompt
    for _ in range(count):
        fed = logits(model, layers, fed, states, mix)[:, -1].argmax(-1, keepdim=True)
        tokens, mix = torch.cat([tokens, fed], dim=1), single
    return tokens
