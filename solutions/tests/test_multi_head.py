"""Chapter 05's references against torch's own attention and their definitions, written plainly."""

import doctest

import pytest
import torch
from attend_solutions import multi_head
from attend_solutions.multi_head import (
    GroupedQueryAttention,
    LatentAttention,
    MultiHeadAttention,
    heads_for_cache,
    kv_cache_bytes,
    masked_attention,
    merge_heads,
    repaired_attention,
    repeat_kv,
    split_heads,
)
from torch import Tensor, nn
from torch.nn import functional

SIZES = [
    # B, T, C, H
    pytest.param(1, 1, 4, 1, id="B1-T1-C4-H1"),
    pytest.param(2, 5, 12, 4, id="B2-T5-C12-H4"),
    pytest.param(3, 4, 8, 8, id="B3-T4-C8-H8"),
    pytest.param(2, 7, 16, 2, id="B2-T7-C16-H2"),
]


def close(actual: Tensor, expected: Tensor) -> None:
    """float64 throughout, sums of a few dozen products: 1e-12 is a hundredfold margin."""
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


def causal(tokens: int) -> Tensor:
    return torch.ones(tokens, tokens).tril().bool()


def masks(batch: int, tokens: int) -> dict[str, Tensor | None]:
    lengths = torch.arange(batch) % tokens + 1
    padded = torch.arange(tokens) < lengths[:, None]
    return {
        "none": None,
        "causal": causal(tokens),
        "each sentence's own": (causal(tokens) & padded[:, None])[:, None],
    }


def test_doctests() -> None:
    result = doctest.testmod(multi_head)
    assert result.attempted >= 8
    assert result.failed == 0


@pytest.mark.parametrize("mask", ["none", "causal", "each sentence's own"])
def test_masked_attention_is_torchs(mask: str) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 5, 4, dtype=torch.float64) for _ in range(3))
    table = masks(2, 5)[mask]
    output, weights = masked_attention(q, k, v, table)
    close(output, functional.scaled_dot_product_attention(q, k, v, table))
    close(weights.sum(-1), torch.ones(2, 3, 5, dtype=torch.float64))
    scaled, _ = masked_attention(q, k, v, table, scale=0.3)
    close(scaled, functional.scaled_dot_product_attention(q, k, v, table, scale=0.3))


def test_a_query_that_may_look_at_nothing_gets_nothing_and_hurts_nobody() -> None:
    q = torch.randn(1, 3, 2, requires_grad=True)
    mask = torch.tensor([[True, False, False], [False, False, False], [True, True, True]])
    output, weights = masked_attention(q, q, q, mask)
    assert weights[0, 1].eq(0).all()
    assert output[0, 1].eq(0).all()
    output.sum().backward()
    assert q.grad is not None
    assert q.grad.isfinite().all()


@pytest.mark.parametrize(("batch", "tokens", "width", "heads"), SIZES)
def test_split_and_merge_are_inverse_and_cut_by_head(
    batch: int, tokens: int, width: int, heads: int
) -> None:
    x = torch.randn(batch, tokens, width)
    parts = split_heads(x, heads)
    for head, part in enumerate(x.chunk(heads, dim=-1)):
        assert torch.equal(parts[:, head], part)
    assert torch.equal(merge_heads(parts), x)


def as_torch(module: MultiHeadAttention, width: int) -> nn.MultiheadAttention:
    theirs = nn.MultiheadAttention(width, module.heads, bias=False, batch_first=True)
    stacked = [module.query.weight, module.key.weight, module.value.weight]
    state = {"in_proj_weight": torch.cat(stacked), "out_proj.weight": module.output.weight}
    theirs.load_state_dict(state)
    return theirs.double()


@pytest.mark.parametrize("mask", ["none", "causal", "each sentence's own"])
@pytest.mark.parametrize(("batch", "tokens", "width", "heads"), SIZES)
def test_multi_head_is_torchs_with_the_same_weights(
    batch: int, tokens: int, width: int, heads: int, mask: str
) -> None:
    torch.manual_seed(0)
    ours = MultiHeadAttention(width, heads)
    theirs = as_torch(ours, width)
    x = torch.randn(batch, tokens, width, dtype=torch.float64)
    table = masks(batch, tokens)[mask]
    hidden = None if table is None else ~table  # torch's module means the opposite by True
    if hidden is not None and hidden.ndim == 4:
        hidden = hidden.expand(batch, heads, tokens, tokens).flatten(0, 1)
    want = theirs(x, x, x, attn_mask=hidden, average_attn_weights=False)
    for got, right in zip(ours.double()(x, table), want, strict=True):
        close(got, right)


@pytest.mark.parametrize("repeats", [1, 2, 5])
def test_repeat_kv_copies_neighbours(repeats: int) -> None:
    x = torch.randn(2, 3, 4, 5, requires_grad=True)
    repeated = repeat_kv(x, repeats)
    assert torch.equal(repeated, x.repeat_interleave(repeats, dim=1))
    repeated.sum().backward()
    assert x.grad is not None
    assert x.grad.eq(repeats).all()


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("mask", ["none", "causal", "each sentence's own"])
def test_grouped_query_is_torchs(kv_heads: int, mask: str) -> None:
    torch.manual_seed(0)
    module = GroupedQueryAttention(12, 4, kv_heads).double()
    x = torch.randn(3, 5, 12, dtype=torch.float64)
    q, k, v = (
        layer(x).unflatten(-1, (-1, 3)).transpose(1, 2)
        for layer in (module.query, module.key, module.value)
    )
    table = masks(3, 5)[mask]
    found = functional.scaled_dot_product_attention(q, k, v, table, enable_gqa=True)
    close(module(x, table)[0], module.output(found.transpose(1, 2).flatten(2)))


def test_the_ends_of_grouped_query_attention() -> None:
    torch.manual_seed(0)
    many, grouped = MultiHeadAttention(12, 4), GroupedQueryAttention(12, 4, 4)
    grouped.load_state_dict(many.state_dict())
    x = torch.randn(2, 5, 12)
    for one, other in zip(many(x), grouped(x), strict=True):
        assert torch.equal(one, other)
    single = GroupedQueryAttention(12, 4, 1)
    assert single.key.weight.shape == (3, 12)
    with torch.no_grad():  # the same one head of keys and values, written out four times
        state = {
            "query.weight": single.query.weight,
            "key.weight": single.key.weight.repeat(4, 1),
            "value.weight": single.value.weight.repeat(4, 1),
            "output.weight": single.output.weight,
        }
        many.load_state_dict(state)
    torch.testing.assert_close(many(x)[0], single(x)[0])


@pytest.mark.parametrize("rank", [1, 3, 12, 20])
@pytest.mark.parametrize("mask", ["none", "causal", "each sentence's own"])
def test_latent_attention_absorbed_is_naive_is_multi_head(rank: int, mask: str) -> None:
    torch.manual_seed(0)
    latent, many = LatentAttention(12, 4, rank).double(), MultiHeadAttention(12, 4).double()
    many.load_state_dict(
        {
            "query.weight": latent.query.weight,
            "key.weight": latent.key.weight @ latent.compress.weight,
            "value.weight": latent.value.weight @ latent.compress.weight,
            "output.weight": latent.output.weight,
        }
    )
    x = torch.randn(3, 5, 12, dtype=torch.float64)
    table = masks(3, 5)[mask]
    want = many(x, table)
    for got in (latent(x, table), latent.forward_absorbed(x, table)):
        for one, other in zip(got, want, strict=True):
            close(one, other)


def test_the_absorbed_form_makes_no_keys_and_no_values() -> None:
    """Keys and values would be 10⁵⁰ and overflow; queries of 0 and latents that cancel do not."""
    latent = LatentAttention(2, 2, 1)
    with torch.no_grad():
        for parameter in latent.parameters():
            parameter.fill_(1e25)
        latent.query.weight.zero_()
        latent.output.weight.fill_(1.0)
    x = torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]])
    assert latent.forward_absorbed(x)[0].eq(0).all()
    assert latent(x)[0].isnan().any()


def test_gradients_reach_every_parameter() -> None:
    x = torch.randn(2, 3, 8)
    for module in (
        MultiHeadAttention(8, 2),
        GroupedQueryAttention(8, 4, 2),
        LatentAttention(8, 2, 3),
    ):
        module(x)[0].square().sum().backward()
        assert all(p.grad is not None and p.grad.any() for p in module.parameters())


@pytest.mark.parametrize(
    ("expected", "arguments", "more"),
    [
        pytest.param(2**31, (4096, 32, 32, 128), {}, id="Llama-2-7B"),
        pytest.param(4096 * 80 * 2 * 8 * 128 * 2, (4096, 80, 8, 128), {}, id="Llama-2-70B"),
        pytest.param(2**29, (100_000, 32, 8, 128), {"window": 4096}, id="Mistral-7B"),
        pytest.param(60 * 576 * 2, (1, 60, 128, 128), {"latent": 576}, id="DeepSeek-V2"),
        pytest.param(2, (1, 1, 1, 3), {"bits": 2}, id="12-bits-round-up"),
        pytest.param(0, (0, 32, 32, 128), {}, id="no-tokens"),
        pytest.param(3 * 960, (10, 2, 3, 4), {"batch": 3}, id="batch"),
    ],
)
def test_cache_bytes(expected: int, arguments: tuple[int, ...], more: dict[str, int]) -> None:
    found = kv_cache_bytes(*arguments, **more)
    assert found == expected
    assert type(found) is int


def test_cache_bytes_are_those_of_real_tensors() -> None:
    module = GroupedQueryAttention(16, 4, 2)
    x = torch.randn(3, 7, 16)
    cached = [split_heads(layer(x), 2) for layer in (module.key, module.value)]
    assert kv_cache_bytes(7, 1, 2, 4, batch=3, bits=32) == sum(t.nbytes for t in cached)


@pytest.mark.parametrize("mask", ["none", "each sentence's own"])
def test_repaired_attention_is_torchs_of_every_head(mask: str) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(3, 5, 12, dtype=torch.float64) for _ in range(3))
    table = masks(3, 5)[mask]
    parts = (part.unflatten(-1, (4, 3)).transpose(1, 2) for part in (q, k, v))
    want = functional.scaled_dot_product_attention(*parts, attn_mask=table)
    close(repaired_attention(q, k, v, 4, table), want.transpose(1, 2).flatten(2))


def test_repaired_attention_takes_more_keys_than_queries() -> None:
    q, k, v = (torch.randn(2, n, 6, dtype=torch.float64) for n in (3, 7, 7))
    for head in range(2):
        part = slice(3 * head, 3 * head + 3)
        own = functional.scaled_dot_product_attention(q[..., part], k[..., part], v[..., part])
        close(repaired_attention(q, k, v, 2)[..., part], own)


@pytest.mark.parametrize("heads", [1, 6, 7, 12, 64])
def test_heads_for_cache_is_the_best_of_all(heads: int) -> None:
    """Every budget from nothing to more than enough, against trying all heads."""
    each = kv_cache_bytes(5, 2, 1, 3, batch=2, bits=8)
    for budget in range(0, each * (heads + 1), 17):
        fit = [g for g in range(1, heads + 1) if heads % g == 0 and g * each <= budget]
        if fit:
            assert heads_for_cache(budget, 5, 2, heads, 3, batch=2, bits=8) == max(fit)
        else:
            with pytest.raises(ValueError, match="one head"):
                heads_for_cache(budget, 5, 2, heads, 3, batch=2, bits=8)
