"""Chapter 02's reference functions against PyTorch's GRU and attention, loops, and many draws."""

import doctest
import itertools

import pytest
import torch
from attend_solutions import alignment
from attend_solutions.alignment import (
    additive_score,
    attend,
    attention_decoder_step,
    encode,
    hard_attention_sample,
    local_attention,
    multiplicative_score,
    repaired_decoder,
)
from torch import Tensor

SIZES = [
    # B, S, C, N
    pytest.param(1, 1, 1, 1, id="B1-S1-C1-N1"),
    pytest.param(2, 3, 4, 5, id="B2-S3-C4-N5"),
    pytest.param(3, 3, 3, 3, id="B3-S3-C3-N3"),
    pytest.param(4, 17, 2, 7, id="B4-S17-C2-N7"),
]
LEADS = [pytest.param((), id="no-lead"), pytest.param((2, 3), id="lead-2-3")]


def make(*shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(sum(map(sum, shapes)))
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def make_cell(inputs: int, n: int) -> tuple[Tensor, ...]:
    return tuple(make((3 * n, inputs), (3 * n, n), (3 * n,), (3 * n,)))


def assert_close(actual: Tensor, expected: Tensor) -> None:
    """float64 throughout, sums of a few dozen products: 1e-12 is a hundredfold margin."""
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


def test_docstring_examples_are_right() -> None:
    results = doctest.testmod(alignment)
    assert results.attempted > 20
    assert results.failed == 0


@pytest.mark.parametrize(("b", "s", "c", "n"), SIZES)
def test_encode_is_torchs_bidirectional_gru(b: int, s: int, c: int, n: int) -> None:
    (x,) = make((b, s, c))
    forward, backward = make_cell(c, n), make_cell(c, n)
    backward = tuple(w.flip(0) for w in backward)
    gru = torch.nn.GRU(c, n, batch_first=True, bidirectional=True, dtype=torch.float64)
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    state = dict(zip(names, forward, strict=True))
    state |= {f"{name}_reverse": w for name, w in zip(names, backward, strict=True)}
    gru.load_state_dict(state)
    with torch.no_grad():
        assert_close(encode(x, forward, backward), gru(x)[0])


@pytest.mark.parametrize("lead", LEADS)
def test_additive_score_is_its_sum_over_hidden_units(lead: tuple[int, ...]) -> None:
    t, s, n, e, a = 3, 4, 5, 2, 6
    queries, keys = make((*lead, t, n), (*lead, s, e))
    w_query, w_key, v = make((n, a), (e, a), (a,))
    scores = additive_score(queries, keys, w_query, w_key, v)
    assert scores.shape == (*lead, t, s)
    for i, j in itertools.product(range(t), range(s)):
        hidden = queries[..., i, :] @ w_query + keys[..., j, :] @ w_key
        terms = [v[k] * torch.tanh(hidden[..., k]) for k in range(a)]
        assert_close(scores[..., i, j], torch.stack(terms).sum(dim=0))


@pytest.mark.parametrize("lead", LEADS)
def test_dot_score_and_attend_are_unscaled_sdpa(lead: tuple[int, ...]) -> None:
    queries, keys = make((*lead, 3, 5), (*lead, 4, 5))
    contexts, weights = attend(multiplicative_score(queries, keys), keys)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    assert_close(contexts, sdpa(queries, keys, keys, scale=1.0))
    assert_close(weights.sum(dim=-1), torch.ones(*lead, 3, dtype=torch.float64))
    assert_close(weights @ keys, contexts)


@pytest.mark.parametrize("lead", LEADS)
def test_general_score_is_torchs_bilinear_form(lead: tuple[int, ...]) -> None:
    queries, keys = make((*lead, 3, 5), (*lead, 4, 2))
    (weight,) = make((5, 2))
    scores = multiplicative_score(queries, keys, weight)
    for i, j in itertools.product(range(3), range(4)):
        pair = (queries[..., i, :].contiguous(), keys[..., j, :].contiguous())
        want = torch.nn.functional.bilinear(*pair, weight[None])[..., 0]
        assert_close(scores[..., i, j], want)


@pytest.mark.parametrize("general", [True, False])
def test_the_decoders_step_is_torchs_gru_cell_after_attention(general: bool) -> None:
    b, s, c, n = 3, 4, 2, 5
    e = 6 if general else n
    embedded, state, encoded = make((b, c), (b, n), (b, s, e))
    weight = make((n, e))[0] if general else None
    cell = make_cell(c + e, n)
    torch_cell = torch.nn.GRUCell(c + e, n, dtype=torch.float64)
    torch_cell.load_state_dict(
        dict(zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), cell, strict=True))
    )
    after, context, weights = attention_decoder_step(embedded, state, encoded, weight, cell)
    query = state if weight is None else state @ weight
    sdpa = torch.nn.functional.scaled_dot_product_attention
    assert_close(context, sdpa(query[:, None], encoded, encoded, scale=1.0)[:, 0])
    assert_close(torch.einsum("bs,bse->be", weights, encoded), context)
    with torch.no_grad():
        assert_close(after, torch_cell(torch.cat([embedded, context], dim=-1), state))


def test_one_encoded_vector_is_always_the_context() -> None:
    embedded, state, encoded = make((2, 3), (2, 4), (2, 1, 4))
    _, context, weights = attention_decoder_step(embedded, state, encoded, None, make_cell(7, 4))
    assert_close(context, encoded[:, 0])
    assert_close(weights, torch.ones(2, 1, dtype=torch.float64))


@pytest.mark.parametrize("general", [True, False])
def test_the_repaired_decoder_is_torchs_cell_and_attention_step_by_step(general: bool) -> None:
    b, t, s, c, n = 3, 4, 5, 2, 6
    e = 7 if general else n
    embedded, state, encoded = make((b, t, c), (b, n), (b, s, e))
    weight = make((n, e))[0] if general else None
    cell = make_cell(c + e, n)
    torch_cell = torch.nn.GRUCell(c + e, n, dtype=torch.float64)
    torch_cell.load_state_dict(
        dict(zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), cell, strict=True))
    )
    states, contexts, weights = repaired_decoder(embedded, state, encoded, weight, cell)
    assert weights.shape == (b, t, s)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    for step in range(t):
        query = state if weight is None else state @ weight
        context = sdpa(query[:, None], encoded, encoded, scale=1.0)[:, 0]
        assert_close(contexts[:, step], context)
        assert_close(torch.einsum("bs,bse->be", weights[:, step], encoded), context)
        with torch.no_grad():
            state = torch_cell(torch.cat([embedded[:, step], context], dim=-1), state)
        assert_close(states[:, step], state)


def enumerated(scores: Tensor, rewards: Tensor) -> Tensor:
    """The gradient of the expected reward with respect to the scores, by autograd."""
    leaf = scores.clone().requires_grad_(True)
    return torch.autograd.grad((torch.softmax(leaf, dim=-1) * rewards).sum(), leaf)[0]


@pytest.mark.parametrize("baseline", [0.0, 2.5])
def test_hard_attention_is_unbiased_within_its_standard_error(baseline: float) -> None:
    scores, rewards = make((5,), (5,))
    weights = torch.softmax(scores, dim=-1)
    count = 200_000
    uniforms = torch.rand(count, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    places, gradients = hard_attention_sample(
        weights.expand(count, 5), uniforms, rewards.expand(count, 5), baseline
    )
    error = gradients.std(dim=0) / count**0.5
    assert ((gradients.mean(dim=0) - enumerated(scores, rewards)).abs() < 4 * error).all()
    shares = torch.bincount(places, minlength=5) / count
    assert ((shares - weights).abs() < 4 * (weights * (1 - weights) / count) ** 0.5).all()


@pytest.mark.parametrize("baseline", [0.0, 2.5])
def test_hard_attention_averages_to_the_gradient_over_all_places(baseline: float) -> None:
    rewards = make((2, 4))[0]
    weights = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.25, 0.0, 0.5, 0.25]], dtype=torch.float64)
    grid = (torch.arange(20, dtype=torch.float64) + 0.5) / 20
    estimates = torch.stack(
        [hard_attention_sample(weights, u.expand(2), rewards, baseline)[1] for u in grid]
    )
    assert_close(estimates.mean(dim=0), enumerated(weights.log(), rewards))


def test_a_rest_from_rounding_belongs_to_the_last_place() -> None:
    weights = torch.tensor([0.333333, 0.333333, 0.333333])
    places, _ = hard_attention_sample(weights, torch.tensor(0.9999999), torch.ones(3))
    assert places.item() == 2


@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize("window", [1, 2, 5])
def test_local_attention_is_its_formula_place_by_place(window: int, gaussian: bool) -> None:
    t, s = 4, 7
    scores, values = make((2, t, s), (2, s, 3))
    centre = torch.tensor([[0.0, 2.0, 3.7, 6.0], [5.5, 0.3, 1.0, 4.2]], dtype=torch.float64)
    contexts, weights = local_attention(scores, values, centre, window, gaussian)
    for b, i in itertools.product(range(2), range(t)):
        p = centre[b, i].item()
        inside = [j for j in range(s) if p - window <= j <= p + window]
        total = sum(scores[b, i, j].exp() for j in inside)
        want = torch.zeros(s, dtype=torch.float64)
        for j in inside:
            bell = torch.tensor(-((j - p) ** 2) / (2 * (window / 2) ** 2)).exp() if gaussian else 1
            want[j] = scores[b, i, j].exp() / total * bell
        # the bell was computed in float32: 1e-6
        torch.testing.assert_close(weights[b, i], want, rtol=1e-6, atol=1e-9)
    assert_close(contexts, weights @ values)


def test_local_attention_with_a_wide_window_is_attention() -> None:
    scores, values = make((2, 3), (3, 4))
    centre = torch.tensor([1.0, 0.4], dtype=torch.float64)
    local = local_attention(scores, values, centre, window=3, gaussian=False)
    for mine, theirs in zip(local, attend(scores, values), strict=True):
        assert_close(mine, theirs)


def test_gradients_agree_with_finite_differences() -> None:
    def leaves(*shapes: tuple[int, ...]) -> list[Tensor]:
        return [tensor.requires_grad_(True) for tensor in make(*shapes)]

    cell = tuple(w.requires_grad_(True) for w in make_cell(2, 3))
    check = torch.autograd.gradcheck
    assert check(lambda x, *w: encode(x, w, w), (*leaves((2, 3, 2)), *cell))
    assert check(additive_score, tuple(leaves((2, 3, 4), (2, 5, 2), (4, 3), (2, 3), (3,))))
    assert check(multiplicative_score, tuple(leaves((2, 3, 4), (2, 5, 2), (4, 2))))
    assert check(attend, tuple(leaves((2, 3, 4), (2, 4, 2))))
    cell = tuple(w.requires_grad_(True) for w in make_cell(1 + 4, 3))
    assert check(
        lambda y, h, x, w, *c: attention_decoder_step(y, h, x, w, c),
        (*leaves((2, 1), (2, 3), (2, 5, 4), (3, 4)), *cell),
    )
    assert check(
        lambda y, h, x, w, *c: repaired_decoder(y, h, x, w, c),
        (*leaves((2, 3, 1), (2, 3), (2, 5, 4), (3, 4)), *cell),
    )
    centre = torch.tensor([1.3, 2.6], dtype=torch.float64, requires_grad=True)
    scores, values = leaves((2, 5), (5, 3))
    assert check(lambda e, v, p: local_attention(e, v, p, 2), (scores, values, centre))
