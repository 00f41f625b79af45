"""Chapter 03's reference functions against PyTorch, SciPy, autograd and their own definitions."""

import doctest
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from attend_solutions import attention
from attend_solutions.attention import (
    attention_backward,
    attention_scores,
    scaled_dot_product_attention,
    score_variance,
    softmax,
    softmax_jacobian,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp


def assert_close(actual: np.ndarray, expected: np.ndarray | float, atol: float = 1e-12) -> None:
    """float64 throughout, sums of a few hundred products: 1e-12 is a thousandfold margin."""
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=atol)


SHAPES = [
    # leading axes, T, S, D, D_v
    pytest.param((), 1, 1, 1, 1, id="T1-S1-D1-Dv1"),
    pytest.param((), 3, 3, 2, 2, id="T3-S3-D2-Dv2"),
    pytest.param((), 4, 7, 5, 3, id="T4-S7-D5-Dv3"),
    pytest.param((2,), 5, 1, 3, 8, id="B2-T5-S1-D3-Dv8"),
    pytest.param((2, 3), 1, 6, 9, 4, id="B2-H3-T1-S6-D9-Dv4"),
    pytest.param((2, 1, 3), 13, 11, 17, 5, id="B2-1-3-T13-S11-D17-Dv5"),
]


def make_inputs(
    lead: tuple[int, ...], t: int, s: int, d: int, d_v: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([t, s, d, d_v])
    q = rng.standard_normal((*lead, t, d))
    k = rng.standard_normal((*lead, s, d))
    v = rng.standard_normal((*lead, s, d_v))
    grad_output = rng.standard_normal((*lead, t, d_v))
    return q, k, v, grad_output


finite_scores = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=1, max_dims=4, max_side=5),
    elements=st.floats(-1e4, 1e4, allow_subnormal=False),
)


def test_docstring_examples_are_right() -> None:
    assert attention.__doc__
    results = doctest.testmod(attention)
    assert results.attempted > 10
    assert results.failed == 0


def test_importing_the_module_does_not_import_torch() -> None:
    code = "import sys, attend_solutions.attention; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestSoftmax:
    @settings(deadline=None)
    @given(finite_scores, st.integers(-4, 3))
    def test_every_slice_is_a_distribution(self, scores: np.ndarray, axis: int) -> None:
        axis = axis % scores.ndim
        weights = softmax(scores, axis=axis)
        assert weights.shape == scores.shape
        assert (weights >= 0).all()
        assert_close(weights.sum(axis=axis), 1.0)

    @settings(deadline=None)
    @given(finite_scores, st.floats(-1e3, 1e3, allow_subnormal=False))
    def test_a_shift_of_all_scores_changes_nothing(self, scores: np.ndarray, shift: float) -> None:
        # Adding the shift rounds the scores by about 1e-12 of their size, here up to 1e4.
        assert_close(softmax(scores + shift), softmax(scores), atol=1e-11)

    @pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
    def test_agrees_with_scipy_along_every_axis(self, axis: int) -> None:
        special = pytest.importorskip("scipy.special")
        scores = np.random.default_rng(0).standard_normal((3, 4, 5)) * 30
        assert_close(softmax(scores, axis), special.softmax(scores, axis))

    def test_log_of_a_distribution_gives_the_distribution_back(self) -> None:
        p = np.array([0.1, 0.2, 0.7])
        assert_close(softmax(np.log(p)), p)

    @pytest.mark.parametrize("size", [1e3, 1e300, -1e300])
    def test_huge_scores_stay_finite(self, size: float) -> None:
        np.testing.assert_array_equal(softmax(np.array([size, size])), [0.5, 0.5])

    def test_minus_infinity_gets_no_weight(self) -> None:
        weights = softmax(np.array([[0.0, -np.inf], [-np.inf, 5.0]]))
        np.testing.assert_array_equal(weights, np.eye(2))

    @pytest.mark.parametrize(
        ("given_type", "returned_type"),
        [
            (np.float16, np.float16),
            (np.float32, np.float32),
            (np.float64, np.float64),
            (np.int8, np.float64),
            (np.uint8, np.float64),
            (np.int64, np.float64),
        ],
    )
    def test_types(self, given_type: type, returned_type: type) -> None:
        weights = softmax(np.array([1, 3], dtype=given_type))
        assert weights.dtype == returned_type
        tolerance = float(np.finfo(returned_type).eps)
        assert weights[1] == pytest.approx(1 / (1 + math.exp(-2)), rel=4 * tolerance)


class TestScores:
    @pytest.mark.parametrize(("lead", "t", "s", "d", "d_v"), SHAPES)
    def test_each_entry_is_one_dot_product(
        self, lead: tuple[int, ...], t: int, s: int, d: int, d_v: int
    ) -> None:
        q, k, _, _ = make_inputs(lead, t, s, d, d_v)
        expected = np.einsum("...td,...sd->...ts", q, k)
        assert_close(attention_scores(q, k, scaled=False), expected)
        assert_close(attention_scores(q, k), expected / math.sqrt(d))

    def test_scale_is_absent_at_width_one(self) -> None:
        q, k, _, _ = make_inputs((2,), 3, 4, 1, 1)
        np.testing.assert_array_equal(attention_scores(q, k), attention_scores(q, k, scaled=False))

    def test_float32_stays_float32(self) -> None:
        q, k, v, grad_output = (a.astype(np.float32) for a in make_inputs((2,), 3, 4, 5, 6))
        assert attention_scores(q, k).dtype == np.float32
        assert {a.dtype for a in scaled_dot_product_attention(q, k, v)} == {np.dtype(np.float32)}
        assert {a.dtype for a in attention_backward(q, k, v, grad_output)} == {np.dtype(np.float32)}


class TestAttention:
    @pytest.mark.parametrize(("lead", "t", "s", "d", "d_v"), SHAPES)
    def test_agrees_with_torch(
        self, lead: tuple[int, ...], t: int, s: int, d: int, d_v: int
    ) -> None:
        q, k, v, _ = make_inputs(lead, t, s, d, d_v)
        output, weights = scaled_dot_product_attention(q, k, v)
        expected = torch.nn.functional.scaled_dot_product_attention(
            torch.from_numpy(q), torch.from_numpy(k), torch.from_numpy(v)
        )
        assert_close(output, expected.numpy())
        assert weights.shape == (*lead, t, s)
        assert_close(weights.sum(axis=-1), 1.0)

    def test_output_lies_between_the_values(self) -> None:
        q, k, v, _ = make_inputs((), 9, 5, 4, 3)
        output, _ = scaled_dot_product_attention(q, k, v)
        assert (output <= v.max(axis=0) + 1e-12).all()
        assert (output >= v.min(axis=0) - 1e-12).all()

    def test_order_of_keys_does_not_matter_and_order_of_queries_is_kept(self) -> None:
        q, k, v, _ = make_inputs((), 5, 7, 4, 3)
        output, _ = scaled_dot_product_attention(q, k, v)
        rng = np.random.default_rng(1)
        keys, queries = rng.permutation(7), rng.permutation(5)
        same, _ = scaled_dot_product_attention(q, k[keys], v[keys])
        moved, _ = scaled_dot_product_attention(q[queries], k, v)
        assert_close(same, output)
        assert_close(moved, output[queries])

    def test_a_very_strong_match_is_a_hard_look_up(self) -> None:
        keys = 100 * np.eye(4)
        values = np.arange(8.0).reshape(4, 2)
        output, _ = scaled_dot_product_attention(keys[[2, 0]], keys, values)
        np.testing.assert_array_equal(output, values[[2, 0]])

    def test_cat_sat_mat(self) -> None:
        x = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        _, weights = scaled_dot_product_attention(x, x, x)
        high, low = math.exp(1 / math.sqrt(2)), 1.0
        expected = np.array([high, low, high]) / (2 * high + low)
        assert_close(weights[0], expected)
        np.testing.assert_array_equal(weights[0].round(3), [0.401, 0.198, 0.401])


class TestScoreVariance:
    @pytest.mark.parametrize("scaled", [False, True])
    def test_agrees_with_the_definition(self, scaled: bool) -> None:
        rng = np.random.default_rng(0)
        q, k = rng.standard_normal((2, 41, 7)) + 0.5
        dots = [sum(a * b for a, b in zip(u, w, strict=True)) for u, w in zip(q, k, strict=True)]
        mean = sum(dots) / 41
        variance = sum((x - mean) ** 2 for x in dots) / 41 / (7 if scaled else 1)
        answer = score_variance(q, k, scaled)
        assert type(answer) is float
        assert answer == pytest.approx(variance, rel=1e-12)

    @pytest.mark.parametrize("d", [1, 4, 64, 512])
    def test_is_the_width_without_the_scale_and_one_with_it(self, d: int) -> None:
        n = 20_000
        q, k = np.random.default_rng(d).standard_normal((2, n, d))
        # The fourth moment of a dot product is at most 9 D²: the estimate's standard error is at
        # most √(8/n) = 2 %; 10 % is five of them.
        assert score_variance(q, k) == pytest.approx(d, rel=0.1)
        assert score_variance(q, k, scaled=True) == pytest.approx(1.0, rel=0.1)


class TestJacobian:
    @pytest.mark.parametrize("shape", [(1,), (5,), (2, 3), (2, 3, 7)])
    def test_agrees_with_autograd(self, shape: tuple[int, ...]) -> None:
        scores = np.random.default_rng(0).standard_normal(shape) * 3
        jacobian = softmax_jacobian(softmax(scores))
        assert jacobian.shape == (*shape, shape[-1])
        rows = scores.reshape(-1, shape[-1])
        blocks = jacobian.reshape(-1, shape[-1], shape[-1])
        for row, block in zip(rows, blocks, strict=True):
            expected = torch.autograd.functional.jacobian(
                lambda x: torch.softmax(x, dim=-1), torch.from_numpy(row)
            )
            assert isinstance(expected, torch.Tensor)
            assert_close(block, expected.numpy())

    def test_symmetric_rows_sum_to_zero_and_no_negative_eigenvalue(self) -> None:
        jacobian = softmax_jacobian(softmax(np.random.default_rng(0).standard_normal((4, 6))))
        np.testing.assert_array_equal(jacobian, np.swapaxes(jacobian, -1, -2))
        assert_close(jacobian.sum(axis=-1), 0.0)
        assert np.linalg.eigvalsh(jacobian).min() > -1e-12

    def test_vanishes_where_one_weight_is_one(self) -> None:
        np.testing.assert_array_equal(softmax_jacobian(np.array([0.0, 1.0, 0.0])), np.zeros((3, 3)))

    def test_float32_stays_float32(self) -> None:
        assert softmax_jacobian(np.array([0.5, 0.5], dtype=np.float32)).dtype == np.float32


class TestBackward:
    @pytest.mark.parametrize(("lead", "t", "s", "d", "d_v"), SHAPES)
    def test_agrees_with_autograd(
        self, lead: tuple[int, ...], t: int, s: int, d: int, d_v: int
    ) -> None:
        q, k, v, grad_output = make_inputs(lead, t, s, d, d_v)
        leaves = [torch.from_numpy(a).requires_grad_() for a in (q, k, v)]
        output = torch.nn.functional.scaled_dot_product_attention(leaves[0], leaves[1], leaves[2])
        output.backward(torch.from_numpy(grad_output))
        gradients = attention_backward(q, k, v, grad_output)
        for leaf, gradient in zip(leaves, gradients, strict=True):
            assert leaf.grad is not None
            assert_close(gradient, leaf.grad.numpy())

    def test_agrees_with_finite_differences(self) -> None:
        q, k, v, grad_output = make_inputs((), 2, 3, 4, 2)
        step = 1e-5  # error of the central difference: about step² ≈ 1e-10

        def loss(arrays: list[np.ndarray]) -> float:
            return float((scaled_dot_product_attention(*arrays)[0] * grad_output).sum())

        gradients = attention_backward(q, k, v, grad_output)
        for which, gradient in enumerate(gradients):
            for index in np.ndindex(gradient.shape):
                plus, minus = [a.copy() for a in (q, k, v)], [a.copy() for a in (q, k, v)]
                plus[which][index] += step
                minus[which][index] -= step
                slope = (loss(plus) - loss(minus)) / (2 * step)
                assert gradient[index] == pytest.approx(slope, abs=1e-8)

    def test_jacobian_gives_the_same_gradient_the_slow_way(self) -> None:
        q, k, v, grad_output = make_inputs((2,), 3, 5, 4, 6)
        _, weights = scaled_dot_product_attention(q, k, v)
        grad_weights = np.einsum("btv,bsv->bts", grad_output, v)
        grad_dots = np.einsum("bts,btsr->btr", grad_weights, softmax_jacobian(weights)) / 2.0
        grad_q, grad_k, _ = attention_backward(q, k, v, grad_output)
        assert_close(grad_q, np.einsum("bts,bsd->btd", grad_dots, k))
        assert_close(grad_k, np.einsum("bts,btd->bsd", grad_dots, q))

    def test_equal_values_leave_nothing_to_gain_from_other_weights(self) -> None:
        q, k, _, grad_output = make_inputs((), 3, 4, 5, 2)
        grad_q, grad_k, _ = attention_backward(q, k, np.ones((4, 2)), grad_output)
        assert_close(grad_q, 0.0)
        assert_close(grad_k, 0.0)


def test_inputs_are_not_modified_and_may_be_views() -> None:
    arrays = make_inputs((2,), 3, 4, 5, 6)
    views = [np.moveaxis(np.moveaxis(a, 0, -1).copy(), -1, 0) for a in arrays]
    for view in views:
        assert not view.flags["C_CONTIGUOUS"]
        view.flags.writeable = False
    q, k, v, grad_output = views
    output, weights = scaled_dot_product_attention(q, k, v)
    weights.flags.writeable = False
    softmax_jacobian(weights)
    score_variance(q[0], k[0, :3])
    gradients = attention_backward(q, k, v, grad_output)
    assert_close(output, scaled_dot_product_attention(*arrays[:3])[0])
    for ours, theirs in zip(gradients, attention_backward(*arrays), strict=True):
        assert_close(ours, theirs)
