"""Chapter 15's answers against the T × T form, the course's kernels, autograd and expectations."""

import doctest
import itertools
from functools import partial

import numpy as np
import pytest
import torch
from attend_grader.checks.properties import derivative
from attend_kernels import linear_attention as kernel
from attend_kernels import naive_linear_attention
from attend_solutions import linear_attention as answers
from attend_solutions.attention import softmax
from attend_solutions.linear_attention import (
    causal_average,
    chunked_form,
    delta_rule_update,
    elu_plus_one,
    gaussian_projection,
    linear_attention,
    linformer_attention,
    memory_width,
    performer_attention,
    positive_random_features,
    recurrent_form,
)
from torch.nn.functional import elu

EPS = float(np.finfo(np.float64).eps)
EPS32 = float(np.finfo(np.float32).eps)
SIZES = [(1, 1, 1), (5, 3, 3), (7, 4, 2), (130, 8, 6)]  # T, D, D_v
CHUNKS = (1, 2, 3, 64, 200)


def make(t: int, d: int, d_v: int, lead: tuple[int, ...] = (), seed: int = 0) -> list[np.ndarray]:
    """q, k and v, standard normal."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((*lead, t, width)) for width in (d, d, d_v)]


def assert_close(got: np.ndarray, want: np.ndarray, terms: int, eps: float = EPS) -> None:
    """Two orders of a sum of products differ by a few eps a term, relative to the largest."""
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= 4 * eps * terms * max(np.abs(want).max(), 1.0)


def test_examples_of_the_docstrings() -> None:
    assert doctest.testmod(answers).failed == 0


def test_feature_map_is_torchs_elu_plus_1() -> None:
    x = np.linspace(-800, 800, 33)
    with np.errstate(over="raise"):
        got = elu_plus_one(x)
    np.testing.assert_allclose(got, (elu(torch.from_numpy(x)) + 1).numpy(), rtol=EPS, atol=EPS)


@pytest.mark.parametrize("lead", [(), (2,), (3, 2)])
@pytest.mark.parametrize(("t", "s", "d", "d_v"), [(1, 1, 1, 1), (4, 7, 5, 3), (6, 6, 2, 2)])
def test_linear_attention_is_the_quadratic_form(t, s, d, d_v, lead) -> None:
    rng = np.random.default_rng(1)
    q, k = (elu_plus_one(rng.standard_normal((*lead, n, d))) for n in (t, s))
    v = rng.standard_normal((*lead, s, d_v))
    weights = q @ np.swapaxes(k, -1, -2)
    weights = weights / weights.sum(axis=-1, keepdims=True)
    assert_close(linear_attention(q, k, v), weights @ v, s * d)


@pytest.mark.parametrize(("t", "d", "d_v"), SIZES)
@pytest.mark.parametrize("lead", [(), (2, 3)])
def test_three_forms_agree(t, d, d_v, lead) -> None:
    q, k, v = make(t, d, d_v, lead)
    parallel = np.tril(q @ np.swapaxes(k, -1, -2)) @ v
    output, state = recurrent_form(q, k, v)
    assert_close(output, parallel, t * d)
    assert_close(state, np.swapaxes(k, -1, -2) @ v, t)
    for chunk in CHUNKS:
        got, last = chunked_form(q, k, v, chunk)
        assert_close(got, parallel, t * d)
        assert_close(last, state, t)


@pytest.mark.parametrize(("cut", "chunk"), list(itertools.product((1, 3, 6), (1, 2, 64))))
def test_a_text_may_be_read_in_parts(cut, chunk) -> None:
    q, k, v = make(7, 4, 3, (2,))
    whole, last = recurrent_form(q, k, v)
    first, rest = (slice(None, cut), slice(cut, None))
    before, after = ([x[..., part, :] for x in (q, k, v)] for part in (first, rest))
    for form in (recurrent_form, partial(chunked_form, chunk=chunk)):
        one, state = form(before[0], before[1], before[2])
        two, state = form(after[0], after[1], after[2], state=state)
        assert_close(np.concatenate([one, two], axis=-2), whole, 28)
        assert_close(state, last, 7)


@pytest.mark.filterwarnings("ignore:linear_attention")  # without a GPU its twin runs, in fp32
@pytest.mark.parametrize(("t", "d", "d_v"), [(5, 3, 3), (70, 4, 2)])
def test_chunked_form_is_the_courses_kernel_forward_and_backward(t, d, d_v) -> None:
    q, k, v = make(t, d, d_v)
    weights = np.random.default_rng(2).standard_normal((t, d_v))  # of the loss
    tensors = [
        torch.tensor(x[None, None], dtype=torch.float32, requires_grad=True) for x in (q, k, v)
    ]
    output, state = kernel(*tensors, output_state=True)
    mine, my_state = chunked_form(q, k, v, 16)
    assert_close(output[0, 0].detach().numpy(), mine, t * d, EPS32)
    assert_close(state[0, 0].detach().numpy(), my_state, t, EPS32)
    (output * torch.tensor(weights, dtype=torch.float32)).sum().backward()
    inputs = [q, k, v]
    for place, tensor in enumerate(tensors):

        def loss(moved: np.ndarray, place: int = place) -> np.ndarray:
            now = [moved if i == place else x for i, x in enumerate(inputs)]
            return (chunked_form(now[0], now[1], now[2], 16)[0] * weights).sum()

        assert tensor.grad is not None
        slopes = derivative(loss, inputs[place])  # complex steps through the chunks
        assert_close(tensor.grad[0, 0].numpy(), slopes, t * d * d_v, EPS32)


def test_causal_average_is_a_masked_mean() -> None:
    q, k, v = make(9, 4, 3, (2,))
    q, k = elu_plus_one(q), elu_plus_one(k)
    weights = np.tril(q @ np.swapaxes(k, -1, -2))
    assert_close(causal_average(q, k, v), weights / weights.sum(axis=-1, keepdims=True) @ v, 36)
    changed = [x.copy() for x in (q, k, v)]
    for x in changed:
        x[..., 5:, :] += 1.0
    before, after = causal_average(q, k, v), causal_average(*changed)
    np.testing.assert_array_equal(before[..., :5, :], after[..., :5, :])
    assert np.abs(before - after)[..., 5:, :].min() > 0


def test_linformer_is_attention_over_mixtures_and_exact_without_them() -> None:
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((2, n, w)) for n, w in ((4, 3), (6, 3), (6, 5)))
    e, f = rng.standard_normal((2, 2, 6))
    want = softmax(q @ np.swapaxes(e @ k, -1, -2) / 3**0.5) @ (f @ v)
    assert_close(linformer_attention(q, k, v, e, f), want, 18)
    tensors = [torch.from_numpy(x) for x in (q, k, v)]
    sdpa = torch.nn.functional.scaled_dot_product_attention(tensors[0], tensors[1], tensors[2])
    order = np.eye(6)[rng.permutation(6)]
    assert_close(linformer_attention(q, k, v, order, order), sdpa.numpy(), 18)


@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize("size", [0.3, 0.8])
def test_random_features_have_the_expectation_and_variance_of_the_paper(orthogonal, size) -> None:
    """Mean e^(x·y) always; variance (e^‖x+y‖² - 1) e^(2x·y) / M for independent rows (lemma 2)."""
    rng = np.random.default_rng(4)
    width, features, times = 4, 8, 8_000
    x, y = (size * z / np.linalg.norm(z) for z in rng.standard_normal((2, width)))
    found = np.empty(times)
    for i in range(times):
        projection = gaussian_projection(rng, features, width, orthogonal)
        found[i] = positive_random_features(x, projection) @ positive_random_features(y, projection)
    kernel_value = np.exp(x @ y)
    variance = (np.exp(((x + y) ** 2).sum()) - 1) * kernel_value**2 / features
    assert abs(found.mean() - kernel_value) <= 5 * (found.var() / times) ** 0.5
    if orthogonal:
        assert found.var() < variance
    else:
        assert found.var() == pytest.approx(variance, rel=0.2)


def test_performer_comes_near_softmax_attention_as_features_grow() -> None:
    rng = np.random.default_rng(10)
    q, k, v = (rng.standard_normal((2, n, w)) for n, w in ((5, 4), (7, 4), (7, 3)))
    want = softmax(q @ np.swapaxes(k, -1, -2) / 2) @ v
    errors = []
    for features in (64, 4096, 262_144):
        got = performer_attention(q, k, v, gaussian_projection(rng, features, 4))
        errors.append(np.abs(got - want).max())
    assert errors[2] < errors[0] / 8  # the error falls as one over the root: 64 on average
    assert errors[2] < 0.1


def test_an_orthogonal_projection_is_orthogonal_in_blocks_with_rows_of_normal_length() -> None:
    rng = np.random.default_rng(5)
    rows = gaussian_projection(rng, 10, 4, orthogonal=True)
    assert rows.shape == (10, 4)
    for block in (rows[:4], rows[4:8], rows[8:]):
        gram = block @ block.T
        assert_close(gram, np.diag(np.diag(gram)), 100)
    squares = (gaussian_projection(rng, 4000, 4, orthogonal=True) ** 2).sum(axis=1)
    assert squares.mean() == pytest.approx(4, rel=0.1)  # chi squared: mean D, variance 2 D
    assert squares.var() == pytest.approx(8, rel=0.3)


def test_features_of_long_vectors_do_not_overflow() -> None:
    with np.errstate(all="raise", under="ignore"):
        got = positive_random_features(np.full((1, 3), 40.0), 5 * np.ones((2, 3)))
    np.testing.assert_array_equal(got, 0.0)  # e^(600 - 2400)


def test_delta_rule_is_the_courses_kernel() -> None:
    rng = np.random.default_rng(6)
    _, k, v = make(12, 5, 3, (2,))
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    state = rng.standard_normal((2, 5, 3))
    torch_state = torch.from_numpy(state)[None]
    keys, values = (torch.from_numpy(x)[None] for x in (k, v))
    beta = torch.full((1, 2, 12), 0.7, dtype=torch.float64)
    want = naive_linear_attention(keys, keys, values, beta=beta, initial_state=torch_state)[1]
    for t in range(12):
        state = delta_rule_update(state, k[:, t], v[:, t], 0.7)
    assert_close(state, want[0].numpy(), 60)


def test_delta_rule_is_a_gradient_step() -> None:
    rng = np.random.default_rng(7)
    state = torch.from_numpy(rng.standard_normal((4, 3))).requires_grad_()
    k, v = torch.from_numpy(rng.standard_normal(4)), torch.from_numpy(rng.standard_normal(3))
    (0.5 * (state.T @ k - v).square().sum()).backward()
    assert state.grad is not None
    want = (state - 0.3 * state.grad).detach().numpy()
    got = delta_rule_update(state.detach().numpy(), k.numpy(), v.numpy(), 0.3)
    assert_close(got, want, 4)


def test_delta_rule_answers_what_was_written_last() -> None:
    rng = np.random.default_rng(8)
    state, v = rng.standard_normal((4, 3)), rng.standard_normal(3)
    k = rng.standard_normal(4)
    k /= np.linalg.norm(k)
    assert_close(delta_rule_update(state, k, v).T @ k, v, 8)


@pytest.mark.parametrize(("pairs", "error"), [(9, 0.5), (30, 0.25), (60, 2.0), (2, 0.125)])
def test_memory_width_meets_its_error_when_measured(pairs, error) -> None:
    """The mean over 400 memories is within 5 standard errors of (n - 1) / D."""
    rng = np.random.default_rng(9)
    width = memory_width(pairs, error)
    found = np.empty(400)
    for i in range(len(found)):
        k, v = rng.standard_normal((pairs, width)), rng.standard_normal((pairs, 8))
        k /= np.linalg.norm(k, axis=1, keepdims=True)
        found[i] = ((k @ (k.T @ v) - v) ** 2).mean() / (v**2).mean()
    spread = 5 * found.std() / len(found) ** 0.5
    assert found.mean() <= error + spread
    assert found.mean() * width / max(width - 1, 0.5) >= error - 2 * spread  # one less is too few


class TestRefusals:
    q, k, v = np.ones((2, 3)), np.ones((4, 3)), np.ones((4, 5))

    def test_shapes(self) -> None:
        with pytest.raises(ValueError, match="width of the queries, 3; got 2"):
            linear_attention(self.q, self.k[:, :2], self.v)
        for form in (recurrent_form, chunked_form, causal_average):
            with pytest.raises(ValueError, match="expected 2 keys; got 4"):
                form(self.q, self.k, self.v)
            with pytest.raises(ValueError, match="expected 4 values; got 3"):
                form(self.k, self.k, self.v[:3])
        with pytest.raises(ValueError, match="at least 1 place; got 0"):
            chunked_form(self.k, self.k, self.v, 0)
        for e, f in (((2, 4), (2, 3)), ((2, 5), (2, 5)), ((2, 4), (1, 4))):
            with pytest.raises(ValueError, match=r"need the shape \(R, 4\); got"):
                linformer_attention(self.q, self.k, self.v, np.ones(e), np.ones(f))
        with pytest.raises(ValueError, match="width of x, 3; got 2"):
            positive_random_features(self.q, np.ones((5, 2)))

    @pytest.mark.parametrize(("pairs", "error"), [(0, 0.1), (3, 0.0), (3, -1.0)])
    def test_design(self, pairs, error) -> None:
        with pytest.raises(ValueError, match="at least 1 pair and an error above 0"):
            memory_width(pairs, error)
