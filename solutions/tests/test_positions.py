"""Chapter 06's reference functions against Hugging Face's code and their own definitions."""

import doctest
import math

import numpy as np
import pytest
import torch
from attend_solutions import longer_positions, positions
from attend_solutions.longer_positions import (
    alibi_bias,
    alibi_slopes,
    ntk_scale,
    position_interpolation,
    yarn_frequencies,
)
from attend_solutions.positions import (
    LearnedPositions,
    angular_frequencies,
    apply_rope,
    relative_bias,
    repaired_rope,
    shift_matrix,
    sinusoidal_encoding,
)
from torch.testing import assert_close
from transformers import LlamaConfig, RoFormerConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.roformer.modeling_roformer import RoFormerSelfAttention
from transformers.models.t5.modeling_t5 import T5Attention
from transformers.models.xlm.modeling_xlm import create_sinusoidal_embeddings

FAR = 100_000


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("module", [positions, longer_positions], ids=lambda m: m.__name__)
def test_docstring_examples_are_right(module) -> None:
    results = doctest.testmod(module)
    assert results.attempted > 5
    assert results.failed == 0


def llama(width: int, base: float, **scaling) -> LlamaConfig:
    """A configuration with heads of this width; `scaling` says how RoPE is stretched."""
    return LlamaConfig(
        hidden_size=2 * width,
        num_attention_heads=2,
        max_position_embeddings=scaling.pop("max_position_embeddings", 64),
        rope_parameters={"rope_theta": base, "rope_type": "default", **scaling},
    )


def scaled(config: LlamaConfig, length: int | None = None):
    """Hugging Face's frequencies for this kind of RoPE, and its factor for queries and keys."""
    kind = dict(config.rope_parameters or {})["rope_type"]
    return ROPE_INIT_FUNCTIONS[str(kind)](config, torch.device("cpu"), seq_len=length)


class TestSinusoidal:
    @pytest.mark.parametrize("width", [2, 6, 64])
    def test_equals_hugging_face(self, width: int) -> None:
        table = torch.empty(50, width)
        create_sinusoidal_embeddings(50, width, table)
        assert_close(sinusoidal_encoding(torch.arange(50), width), table, atol=2e-6, rtol=0)

    def test_is_exact_far_out(self) -> None:
        found = sinusoidal_encoding(torch.tensor([FAR]), 8, base=100.0)
        angles = [FAR * 100.0 ** (-2 * i / 8) for i in range(4)]
        want = [f(a) for a in angles for f in (math.sin, math.cos)]
        assert_close(found, torch.tensor([want]), atol=1e-7, rtol=0)

    @pytest.mark.parametrize("dtype", [torch.int32, torch.float32, torch.bfloat16])
    def test_any_dtype_of_positions(self, dtype: torch.dtype) -> None:
        whole = torch.arange(40)
        found = sinusoidal_encoding(whole.to(dtype), 6)
        assert found.dtype == torch.float32
        assert_close(found, sinusoidal_encoding(whole, 6), atol=0, rtol=0)


class TestShift:
    @pytest.mark.parametrize("offset", [0, 1, -7, 2.5, FAR])
    def test_moves_every_position(self, offset: float) -> None:
        places = torch.tensor([0.0, 3.0, 41.0, 500.0])
        moved = sinusoidal_encoding(places, 12) @ shift_matrix(offset, 12).T
        assert_close(moved, sinusoidal_encoding(places + offset, 12), atol=1e-6, rtol=0)

    def test_is_a_rotation(self) -> None:
        m = shift_matrix(5, 8)
        assert_close(m @ m.T, torch.eye(8), atol=1e-6, rtol=0)
        assert_close(torch.linalg.det(m), torch.tensor(1.0))
        assert_close(shift_matrix(2, 8) @ shift_matrix(3, 8), m, atol=1e-6, rtol=0)


class TestLearned:
    def test_is_an_embedding_of_the_position(self) -> None:
        module = LearnedPositions(10, 4)
        x = torch.randn(2, 3, 4)
        rows = torch.nn.functional.embedding(torch.tensor([5, 6, 7]), module.table)
        assert_close(module(x, start=5), x + rows, atol=0, rtol=0)

    @pytest.mark.parametrize(("start", "count"), [(0, 11), (9, 2), (10, 1), (12, 5)])
    def test_refuses_positions_past_the_end(self, start: int, count: int) -> None:
        with pytest.raises(ValueError, match="past the table's 10 rows"):
            LearnedPositions(10, 4)(torch.zeros(1, count, 4), start)


class TestRelative:
    @pytest.mark.parametrize("bidirectional", [True, False], ids=["both", "causal"])
    @pytest.mark.parametrize(
        ("buckets", "far"), [(32, 128), (32, 64), (16, 64), (8, 16), (20, 100), (10, 77), (6, 20)]
    )
    def test_buckets_equal_t5s(self, buckets: int, far: int, bidirectional: bool) -> None:
        relative = torch.arange(-3000, 3001)[None]
        own = torch.arange(buckets, dtype=torch.float32)[:, None]  # a bucket's bias is its number
        found = relative_bias(own, relative, bidirectional, far)[0].long()
        want = T5Attention._relative_position_bucket(relative, bidirectional, buckets, far)
        assert torch.equal(found, want)

    def test_bias_equals_t5s(self) -> None:
        from transformers import T5Config

        config = T5Config(d_model=8, num_heads=4, d_kv=2)
        layer = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
        table = layer.relative_attention_bias.weight
        relative = torch.arange(30) - torch.arange(20)[:, None]
        assert_close(relative_bias(table, relative)[None], layer.compute_bias(20, 30))


class TestRope:
    @pytest.mark.parametrize(("width", "base"), [(2, 10_000.0), (8, 10_000.0), (16, 500.0)])
    def test_equals_llama(self, width: int, base: float) -> None:
        q, k = torch.randn(2, 2, 3, 20, width)
        where = torch.arange(20)
        cos, sin = LlamaRotaryEmbedding(llama(width, base))(q, where[None])
        wanted = apply_rotary_pos_emb(q, k, cos, sin)
        for x, want in zip((q, k), wanted, strict=True):
            found = apply_rope(x, where, angular_frequencies(width, base))
            assert_close(found, want, atol=1e-5, rtol=0)

    def test_equals_roformer_up_to_the_order_of_the_numbers(self) -> None:
        config = RoFormerConfig(hidden_size=16, num_attention_heads=2, embedding_size=16)
        width = config.hidden_size // config.num_attention_heads
        q, k = torch.randn(2, 1, 2, 9, width)
        angles = torch.arange(9)[:, None] * angular_frequencies(width)
        waves = torch.cat((angles.sin(), angles.cos()), dim=-1).float()[None, None]
        want, *_ = RoFormerSelfAttention.apply_rotary_position_embeddings(waves, q, k)
        order = [*range(0, width, 2), *range(1, width, 2)]  # neighbours to halves
        found = apply_rope(q[..., order], torch.arange(9), angular_frequencies(width))
        assert_close(found, want[..., order], atol=1e-6, rtol=0)

    @pytest.mark.parametrize("start", [0, 1000, FAR])
    def test_scores_depend_on_the_offset_alone(self, start: int) -> None:
        frequencies = angular_frequencies(64)
        q, k = torch.nn.functional.normalize(torch.randn(2, 8, 64), dim=-1)
        for offset in (0, 1, 17, 500):
            want = (q.double() * apply_rope(k.double(), torch.tensor([-offset]), frequencies)).sum(
                -1
            )
            far_q = apply_rope(q, torch.tensor([start + offset]), frequencies)
            far_k = apply_rope(k, torch.tensor([start]), frequencies)
            assert_close((far_q * far_k).sum(-1).double(), want, atol=1e-6, rtol=0)

    def test_float32_angles_lose_three_digits_far_out(self) -> None:
        frequencies = angular_frequencies(64)
        angle = (torch.tensor([FAR + 1.0]) * frequencies.float()).double()
        error = (angle - (FAR + 1) * frequencies).abs().max()
        assert 1e-3 < error < 1e-2

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
    def test_keeps_the_dtype(self, dtype: torch.dtype) -> None:
        x = torch.randn(3, 4).to(dtype)
        assert apply_rope(x, torch.arange(3), angular_frequencies(4)).dtype == dtype

    def test_positions_of_each_sequence(self) -> None:
        x = torch.randn(2, 3, 4, 6)
        where = torch.tensor([[0, 1, 2, 3], [7, 8, 9, 10]])[:, None]
        found = apply_rope(x, where, angular_frequencies(6))
        for b in range(2):
            assert_close(found[b], apply_rope(x[b], where[b, 0], angular_frequencies(6)))

    def test_the_repaired_function_turns_both_as_llama_does(self) -> None:
        rotary = LlamaRotaryEmbedding(llama(16, 1e4))
        where = torch.arange(50)
        q, k = torch.randn(2, 1, 2, 50, 16)
        wanted = apply_rotary_pos_emb(q, k, *rotary(q, where[None]))
        found = repaired_rope(q, k, where, angular_frequencies(16))
        for got, want in zip(found, wanted, strict=True):
            assert_close(got, want, atol=1e-5, rtol=0)


class TestAlibi:
    @pytest.mark.parametrize("heads", [1, 2, 3, 6, 8, 12, 16, 20, 25, 112])
    def test_bias_of_one_query_equals_blooms(self, heads: int) -> None:
        bloom = build_alibi_tensor(torch.ones(1, 9), heads, torch.float32)  # (H, 1, 9): m · s
        found = alibi_bias(alibi_slopes(heads), torch.tensor([8]), torch.arange(9))
        assert_close(found + 8 * alibi_slopes(heads)[:, None, None], bloom)

    def test_weights_under_a_causal_mask_equal_blooms(self) -> None:
        bloom = build_alibi_tensor(torch.ones(1, 7), 6, torch.float32)
        hidden = torch.full((7, 7), -math.inf).triu(1)
        scores = torch.randn(6, 7, 7) + hidden
        ours = alibi_bias(alibi_slopes(6), torch.arange(7), torch.arange(7))
        assert_close((scores + ours).softmax(-1), (scores + bloom).softmax(-1))


class TestLonger:
    @pytest.mark.parametrize(("width", "factor"), [(4, 2.0), (64, 4.0), (128, 16.0)])
    def test_interpolation_equals_linear_scaling(self, width: int, factor: float) -> None:
        want, scale = scaled(llama(width, 1e4, rope_type="linear", factor=factor))
        where = position_interpolation(torch.arange(100), 64, int(64 * factor))
        found = where[:, None] * angular_frequencies(width)
        assert scale == 1.0
        assert_close(found.float(), torch.arange(100)[:, None] * want, rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize(("width", "factor"), [(4, 2.0), (64, 4.0), (128, 16.0)])
    def test_ntk_equals_dynamic_scaling(self, width: int, factor: float) -> None:
        config = llama(width, 1e4, rope_type="dynamic", factor=1.0)
        want, _ = scaled(config, int(64 * factor))
        found = angular_frequencies(width, ntk_scale(width, 1e4, factor))
        assert_close(found.float(), want, rtol=1e-5, atol=0)

    def test_published_bases(self) -> None:
        """Llama's width 128: the exponent is 64/63 (as in text-generation-webui's RoPE.py)."""
        for factor in (2, 4, 8):
            assert ntk_scale(128, 1e4, factor) == pytest.approx(10_000 * factor ** (64 / 63.0))

    @pytest.mark.parametrize(
        ("width", "base", "factor", "trained"),
        [(128, 1e4, 16.0, 4096), (128, 5e5, 8.0, 8192), (64, 1e4, 40.0, 4096), (16, 1e4, 4.0, 64)],
    )
    def test_yarn_equals_llama_3s_parts(
        self, width: int, base: float, factor: float, trained: int
    ) -> None:
        """Llama 3's scaling is the paper's definition 2, with other names for alpha and beta."""
        scaling = {"low_freq_factor": 1.0, "high_freq_factor": 32.0, "factor": factor}
        scaling["original_max_position_embeddings"] = trained
        want, _ = scaled(llama(width, base, rope_type="llama3", **scaling))
        found, _ = yarn_frequencies(width, base, factor, trained)
        assert_close(found.float(), want, rtol=1e-5, atol=0)

    @pytest.mark.parametrize("factor", [1.0, 16.0, 32.0])
    def test_yarn_and_the_code_released_with_it(self, factor: float) -> None:
        """That code's ramp is linear in the pair's index; beyond both its ends the two agree."""
        scaling = {"factor": factor, "original_max_position_embeddings": 4096}
        want, scale = scaled(llama(128, 1e4, rope_type="yarn", **scaling))
        found, own = yarn_frequencies(128, 1e4, factor, 4096)
        assert own == pytest.approx(scale)
        outside = torch.cat((torch.arange(0, 21), torch.arange(46, 64)))  # Llama 2: pairs 20 to 46
        assert_close(found.float()[outside], want[outside], rtol=1e-5, atol=0)

    def test_published_factors_for_queries_and_keys(self) -> None:
        """The 64k and 128k models of Peng et al. have factors 16 and 32."""
        found = [yarn_frequencies(128, 1e4, s, 4096)[1] for s in (1, 16, 32)]
        np.testing.assert_allclose(found, [1.0, 1.2773, 1.3466], atol=5e-5)
