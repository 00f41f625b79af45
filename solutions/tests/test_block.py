"""Chapter 07's references against torch's layers and Hugging Face's models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attend_solutions.block import (
    RepairedBlock,
    TransformerBlock,
    feed_forward,
    layer_norm,
    parameter_count,
    residual_init,
    rms_norm,
)
from torch import Tensor, nn
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel, LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaForCausalLM

SIZES = [
    # B, T, C, H
    pytest.param(1, 1, 4, 1, id="B1-T1-C4-H1"),
    pytest.param(2, 5, 12, 3, id="B2-T5-C12-H3"),
    pytest.param(3, 4, 8, 8, id="B3-T4-C8-H8"),
]
NO_MASK, CAUSAL = "everyone", "causal"


def close(actual: Tensor, expected: Tensor) -> None:
    """float64 throughout, sums of a few dozen products: 1e-12 is a hundredfold margin."""
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


def normal(*shape: int, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=draw, dtype=torch.float64)


def drawn(block: nn.Module) -> Any:
    """The same block with random norms too, in float64."""
    block = block.double()
    with torch.no_grad():
        for number, p in enumerate(block.parameters()):
            p.copy_(normal(*p.shape, seed=number) * (0.4 if p.dim() == 2 else 1))
    return block


def causal(tokens: int) -> Tensor:
    return torch.ones(tokens, tokens, dtype=torch.bool).tril()


def test_layer_norm_is_torchs_with_its_gradients() -> None:
    leaves = [normal(3, 5, 7).requires_grad_(), normal(7, seed=1), normal(7, seed=2)]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    x, weight, bias = leaves
    for eps in (1e-5, 0.3):
        got = layer_norm(x, weight, bias, eps)
        want = nn.functional.layer_norm(x, (7,), weight, bias, eps)
        close(got, want)
        pull = normal(3, 5, 7, seed=3)
        pairs = zip(
            torch.autograd.grad(got, leaves, pull),
            torch.autograd.grad(want, leaves, pull),
            strict=True,
        )
        for mine, right in pairs:
            close(mine, right)


def test_rms_norm_is_torchs() -> None:
    x, weight = normal(3, 5, 7), normal(7, seed=1)
    for eps in (1e-6, 0.3):
        theirs = nn.RMSNorm(7, eps=eps).double()
        theirs.load_state_dict({"weight": weight})
        close(rms_norm(x, weight, eps), theirs(x))


def test_norms_of_equal_numbers_are_finite() -> None:
    same = torch.full((2, 4), 3.0)
    close(layer_norm(same, torch.ones(4), torch.full((4,), 2.0)), torch.full((2, 4), 2.0))
    assert rms_norm(torch.zeros(2, 4), torch.ones(4)).eq(0).all()


def test_a_mean_of_0_makes_the_two_norms_one() -> None:
    x = normal(4, 6)
    x = x - x.mean(-1, keepdim=True)
    ones = torch.ones(6, dtype=torch.float64)
    close(layer_norm(x, ones, 0 * ones, 1e-6), rms_norm(x, ones))


def test_feed_forward_is_two_or_three_linear_layers() -> None:
    x, w_in, w_out, gate = normal(2, 3, 4), normal(9, 4, seed=1), normal(4, 9, seed=2), normal(9, 4)
    up = nn.functional.linear(x, w_in)
    wanted = {
        "relu": up.clamp(min=0),
        "gelu": up * torch.distributions.Normal(0.0, 1.0).cdf(up),
        "swiglu": (x @ gate.T) / (1 + torch.exp(-x @ gate.T)) * up,
    }
    for kind, hidden in wanted.items():
        close(feed_forward(x, w_in, w_out, kind, gate), hidden @ w_out.T)
    for kind in ("tanh", "swiglu"):
        with pytest.raises(ValueError, match=f"kind must be .* got '{kind}'"):
            feed_forward(x, w_in, w_out, kind)


@pytest.mark.parametrize(("batch", "tokens", "width", "heads"), SIZES)
@pytest.mark.parametrize("mask", [NO_MASK, CAUSAL])
@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("kind", ["relu", "gelu"])
def test_the_block_is_torchs_encoder_layer(
    batch: int, tokens: int, width: int, heads: int, mask: str, order: str, kind: Any
) -> None:
    ours = drawn(TransformerBlock(width, heads, order, kind=kind))
    theirs = nn.TransformerEncoderLayer(
        width, heads, 4 * width, 0.0, kind, batch_first=True, norm_first=order == "pre",
        dtype=torch.float64,
    )  # fmt: skip
    a = ours.attention
    state = theirs.state_dict() | {
        "self_attn.in_proj_weight": torch.cat([a.query.weight, a.key.weight, a.value.weight]),
        "self_attn.out_proj.weight": a.output.weight,
        "linear1.weight": ours.up.weight,
        "linear2.weight": ours.down.weight,
    }
    for which in (0, 1):
        state[f"norm{which + 1}.weight"] = ours.scale[which]
        state[f"norm{which + 1}.bias"] = ours.shift[which]
    for name in ("self_attn.in_proj_bias", "self_attn.out_proj.bias", "linear1.bias"):
        state[name] = torch.zeros_like(state[name])
    state["linear2.bias"] = torch.zeros_like(state["linear2.bias"])
    theirs.load_state_dict(state)
    x = normal(batch, tokens, width, seed=9)
    allowed = causal(tokens) if mask == CAUSAL else None
    wanted = theirs(x, src_mask=None if allowed is None else ~allowed)
    close(ours(x, allowed), wanted)
    if (order, kind) == ("pre", "gelu"):
        repaired = RepairedBlock(width, heads).double()
        repaired.load_state_dict(ours.state_dict())
        close(repaired(x, allowed), wanted)


def test_the_block_is_a_llama_layer_that_does_not_turn() -> None:
    """Hugging Face's layer with RoPE by an angle of 0; its norm works in float32, so we do too."""
    torch.manual_seed(0)
    ours = TransformerBlock(12, 3, norm="rms", kind="swiglu")
    nn.init.normal_(ours.scale)
    config = LlamaConfig(
        hidden_size=12, num_attention_heads=3, intermediate_size=32, rms_norm_eps=1e-6
    )
    config._attn_implementation = "eager"
    theirs: Any = LlamaDecoderLayer(config, 0)
    assert ours.gate is not None
    a = ours.attention
    theirs.load_state_dict(
        {
            "self_attn.q_proj.weight": a.query.weight,
            "self_attn.k_proj.weight": a.key.weight,
            "self_attn.v_proj.weight": a.value.weight,
            "self_attn.o_proj.weight": a.output.weight,
            "mlp.gate_proj.weight": ours.gate.weight,
            "mlp.up_proj.weight": ours.up.weight,
            "mlp.down_proj.weight": ours.down.weight,
            "input_layernorm.weight": ours.scale[0],
            "post_attention_layernorm.weight": ours.scale[1],
        }
    )
    x = torch.randn(2, 5, 12)
    unturned = torch.ones(2, 5, 4), torch.zeros(2, 5, 4)  # cosines and sines
    added = torch.zeros(5, 5).masked_fill(~causal(5), -torch.inf)[None, None]
    wanted = theirs(x, attention_mask=added, position_embeddings=unturned)
    wanted = wanted[0] if isinstance(wanted, tuple) else wanted
    torch.testing.assert_close(ours(x, causal(5)), wanted, rtol=1e-5, atol=1e-5)


def test_parallel_adds_both_to_the_same_stream() -> None:
    block = drawn(TransformerBlock(8, 2, "parallel"))
    x = normal(2, 3, 8)
    calm = nn.functional.layer_norm(x, (8,), block.scale[0], block.shift[0])
    found, _ = block.attention(calm)
    fed = nn.functional.gelu(calm @ block.up.weight.T) @ block.down.weight.T
    close(block(x), x + found + fed)
    assert block.scale.shape == (1, 8)


def test_a_pre_norm_block_that_writes_zeros_returns_its_input() -> None:
    for order in ("pre", "parallel"):
        block = drawn(TransformerBlock(8, 2, order))
        for matrix in (block.attention.output.weight, block.down.weight):
            nn.init.zeros_(matrix)
        x = normal(2, 3, 8)
        assert torch.equal(block(x), x)


def test_the_three_kinds_have_nearly_as_many_numbers() -> None:
    counts = {
        kind: sum(p.numel() for p in TransformerBlock(96, 4, kind=kind).parameters())
        for kind in ("relu", "gelu", "swiglu")
    }
    assert counts["relu"] == counts["gelu"] == counts["swiglu"]


@pytest.mark.parametrize("wrong", [{"order": "first"}, {"norm": "batch"}])
def test_an_unknown_block_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong.values()))):
        TransformerBlock(8, 2, **wrong)


def counted(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def test_counts_are_those_of_published_models() -> None:
    """Built on torch's meta device: the layers are there, the numbers are not."""
    with torch.device("meta"):
        gpt2, bert = GPT2LMHeadModel(GPT2Config()), BertModel(BertConfig())
        llama = LlamaForCausalLM(LlamaConfig())
        grouped = LlamaForCausalLM(
            LlamaConfig(hidden_size=64, num_attention_heads=8, num_key_value_heads=2)
        )
    assert parameter_count(50257, 768, 12, 3072, positions=1024) == counted(gpt2) == 124_439_808
    assert (
        parameter_count(30522, 768, 12, 3072, positions=512, segments=2, pooler=True)
        == counted(bert)
        == 109_482_240
    )
    plain: Any = {"gated": True, "biases": False, "rms": True, "tied": False}
    assert parameter_count(32000, 4096, 32, 11008, **plain) == counted(llama) == 6_738_415_616
    assert parameter_count(32000, 64, 32, 11008, kv_width=16, **plain) == counted(grouped)


def test_counts_are_those_of_our_own_blocks() -> None:
    for norm, kind in (("layer", "gelu"), ("rms", "swiglu")):
        block = TransformerBlock(12, 3, norm=norm, kind=kind)
        more: Any = {"gated": kind == "swiglu", "biases": False, "rms": norm == "rms"}
        inner = block.up.out_features
        one, two = (parameter_count(7, 12, layers, inner, **more) for layers in (1, 2))
        assert two - one == counted(block)


def test_residual_init_keeps_the_stream_near_its_first_size() -> None:
    """Each of 2L writes has variance 1 before: together they then add about 1, whatever L is."""
    for layers in (1, 4, 24):
        stream = normal(400, 30)
        start = stream.var()
        for step in range(layers):
            six = [normal(30, 30, seed=10 * step + i) / 30**0.5 for i in range(6)]
            made = residual_init(*six, layers)  # type: ignore[call-arg]
            for i, (new, old) in enumerate(zip(made, six, strict=True)):
                close(new * ((2 * layers) ** 0.5 if i in (3, 5) else 1.0), old)
            for matrix in (made[3], made[5]):
                stream = (
                    stream + normal(400, 30, seed=1000 + step + int(matrix is made[5])) @ matrix
                )
        assert 1.7 < stream.var() / start < 2.3
