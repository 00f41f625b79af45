"""Chapter 04's reference functions against PyTorch and against their own definitions."""

import doctest
import subprocess
import sys

import numpy as np
import pytest
import torch
from attend_solutions import self_attention as module
from attend_solutions.self_attention import (
    causal_mask,
    combine_masks,
    cross_attention,
    masked_softmax,
    padding_mask,
    permutation_matrix_test,
    self_attention,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention as sdpa


def assert_close(actual: np.ndarray, expected: object, atol: float = 1e-12) -> None:
    """float64 throughout, sums of a few dozen products: 1e-12 is a thousandfold margin."""
    np.testing.assert_allclose(actual, np.asarray(expected), rtol=1e-12, atol=atol)


SHAPES = [
    # leading axes, T, S, C, C_c, D, D_v
    pytest.param((), 1, 1, 1, 1, 1, 1, id="T1-S1-C1-Cc1-D1-Dv1"),
    pytest.param((), 3, 5, 4, 2, 3, 6, id="T3-S5-C4-Cc2-D3-Dv6"),
    pytest.param((2,), 4, 4, 5, 5, 5, 5, id="B2-T4-S4-C5-Cc5-D5-Dv5"),
    pytest.param((2, 3), 7, 2, 3, 4, 9, 1, id="B2-H3-T7-S2-C3-Cc4-D9-Dv1"),
]


def numbers(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng([len(shapes), *shapes[0]])
    return [rng.standard_normal(shape) for shape in shapes]


def some_mask(*shape: int) -> np.ndarray:
    """About half of all pairs, and (where there are several) a row with nothing to look at."""
    mask = np.random.default_rng(shape).random(shape) < 0.5
    mask[..., -1, :] = shape[-2] == 1
    return mask


def test_docstring_examples_are_right() -> None:
    results = doctest.testmod(module)
    assert results.attempted > 15
    assert results.failed == 0


def test_importing_the_module_does_not_import_torch() -> None:
    code = "import sys, attend_solutions.self_attention; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestMaskedSoftmax:
    @settings(deadline=None)
    @given(st.integers(0, 2**31), st.integers(1, 5), st.integers(1, 6), st.floats(0, 1))
    def test_weights_lie_on_allowed_places_and_sum_to_1_or_0(
        self, seed: int, t: int, s: int, share: float
    ) -> None:
        rng = np.random.default_rng(seed)
        scores, mask = 50 * rng.standard_normal((2, t, s)), rng.random((t, s)) < share
        weights = masked_softmax(scores, mask)
        assert (weights >= 0).all()
        assert (weights[~np.broadcast_to(mask, weights.shape)] == 0).all()
        sums = np.broadcast_to(mask.any(axis=-1).astype(float), (2, t))
        assert_close(weights.sum(axis=-1), sums)

    def test_visible_places_agree_with_torch_as_if_the_others_did_not_exist(self) -> None:
        (scores,) = numbers((4, 9))
        mask = some_mask(4, 9)
        for row, seen, weights in zip(scores, mask, masked_softmax(scores, mask), strict=True):
            assert_close(weights[seen], torch.softmax(torch.tensor(row[seen]), -1))

    @pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf, 1e300])
    def test_what_is_hidden_is_never_looked_at(self, garbage: float) -> None:
        (scores,) = numbers((4, 9))
        mask = some_mask(4, 9)
        expected = masked_softmax(scores, mask)
        assert (masked_softmax(np.where(mask, scores, garbage), mask) == expected).all()

    def test_a_score_of_minus_infinity_is_hidden(self) -> None:
        scores = np.array([[-np.inf, 1.0], [-np.inf, -np.inf]])
        assert masked_softmax(scores).tolist() == [[0.0, 1.0], [0.0, 0.0]]

    def test_a_visible_nan_is_not_swept_under_the_rug(self) -> None:
        assert np.isnan(masked_softmax(np.array([np.nan, 1.0]))).all()

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_keeps_the_floating_type(self, dtype: type) -> None:
        scores = np.ones((2, 3), dtype)
        assert masked_softmax(scores, np.eye(2, 3, dtype=bool)).dtype == dtype

    def test_integers_and_broadcasting(self) -> None:
        weights = masked_softmax(np.zeros((2, 3), int), some_mask(5, 1, 3))
        assert weights.shape == (5, 2, 3)
        assert weights.dtype == np.float64


class TestAttention:
    @pytest.mark.parametrize(("lead", "t", "s", "c", "c_c", "d", "d_v"), SHAPES)
    @pytest.mark.parametrize("masked", [False, True])
    def test_cross_attention_is_torchs(
        self,
        lead: tuple[int, ...],
        t: int,
        s: int,
        c: int,
        c_c: int,
        d: int,
        d_v: int,
        masked: bool,
    ) -> None:
        x, context, w_q, w_k, w_v = numbers(
            (*lead, t, c), (*lead, s, c_c), (c, d), (c_c, d), (c_c, d_v)
        )
        mask = some_mask(*lead, t, s) if masked else None
        q, k, v = (torch.tensor(a) for a in (x @ w_q, context @ w_k, context @ w_v))
        want = sdpa(q, k, v, attn_mask=None if mask is None else torch.tensor(mask))
        output, weights = cross_attention(x, context, w_q, w_k, w_v, mask)
        assert_close(output, want)
        assert weights.shape == (*lead, t, s)
        assert_close(weights @ (context @ w_v), output)

    def test_self_attention_is_one_head_of_torchs_module(self) -> None:
        x, w_q, w_k, w_v = numbers((6, 4), (4, 4), (4, 4), (4, 4))
        mask = causal_mask(6)
        head = torch.nn.MultiheadAttention(4, 1, bias=False, dtype=torch.float64)
        with torch.no_grad():
            head.in_proj_weight.copy_(torch.tensor(np.concatenate([w_q.T, w_k.T, w_v.T])))
            head.out_proj.weight.copy_(torch.eye(4))
            given = torch.tensor(x)
            hidden = torch.tensor(~mask)  # there, True means "may not look"
            output, weights = head(given, given, given, attn_mask=hidden)
        assert_close(self_attention(x, w_q, w_k, w_v, mask)[0], output)
        assert_close(self_attention(x, w_q, w_k, w_v, mask)[1], weights)

    def test_self_attention_is_cross_attention_with_itself(self) -> None:
        x, w_q, w_k, w_v = numbers((2, 5, 4), (4, 3), (4, 3), (4, 2))
        mask = some_mask(2, 5, 5)
        ours = self_attention(x, w_q, w_k, w_v, mask)
        for one, other in zip(ours, cross_attention(x, x, w_q, w_k, w_v, mask), strict=True):
            assert (one == other).all()

    def test_a_token_that_sees_nothing_gets_0(self) -> None:
        x, w_q, w_k, w_v = numbers((3, 4), (4, 4), (4, 4), (4, 2))
        mask = np.eye(3, dtype=bool)
        mask[1] = False
        output, weights = self_attention(x, w_q, w_k, w_v, mask)
        assert (output[1] == 0).all()
        assert_close(weights, np.diag([1.0, 0.0, 1.0]))

    @pytest.mark.parametrize("seed", range(5))
    def test_permutation(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        order, t = rng.permutation(7), 7
        x, mask = rng.standard_normal((t, 4)), rng.random((t, t)) < 0.6
        w_q, w_k, w_v = (rng.standard_normal((4, 4)) for _ in range(3))
        expected, stays, moves = permutation_matrix_test(order, x, w_q, w_k, w_v, mask)
        assert_close(moves, expected)
        assert np.abs(stays - expected).max() > 1e-3
        assert_close(expected, self_attention(x, w_q, w_k, w_v, mask)[0][order])
        moved = self_attention(x[order], w_q, w_k, w_v, mask[order][:, order])[0]
        assert_close(moves, moved)
        for result in permutation_matrix_test(order, x, w_q, w_k, w_v)[1:]:
            assert_close(result, self_attention(x, w_q, w_k, w_v)[0][order])


class TestMasks:
    @pytest.mark.parametrize("queries", range(1, 5))
    @pytest.mark.parametrize("keys", range(1, 7))
    def test_causal_is_torchs_lower_right_triangle(self, queries: int, keys: int) -> None:
        mask = causal_mask(queries, keys)
        assert mask.dtype == bool
        assert (mask == np.tril(np.ones((queries, keys)), k=keys - queries)).all()
        if queries <= keys:  # torch warns of rows that see nothing
            q, k = torch.randn(1, 1, queries, 4), torch.randn(1, 1, keys, 4)
            theirs = sdpa(q, k, k, attn_mask=causal_lower_right(queries, keys))
            assert torch.allclose(theirs, sdpa(q, k, k, attn_mask=torch.tensor(mask)), atol=1e-6)

    def test_torchs_flag_is_causal_starts_at_the_upper_left(self) -> None:
        """What the chapter warns of: one new query sees the first key only."""
        q, k = torch.randn(1, 1, 1, 4), torch.randn(1, 1, 5, 4)
        assert torch.allclose(sdpa(q, k, k, is_causal=True)[0, 0, 0], k[0, 0, 0])

    def test_causal_of_new_queries_is_the_end_of_the_whole(self) -> None:
        assert (causal_mask(2, 6) == causal_mask(6)[-2:]).all()

    @pytest.mark.parametrize("kind", [list, tuple, np.array])
    def test_padding(self, kind: type) -> None:
        lengths = kind([0, 2, 5])
        right, left = padding_mask(lengths, 5), padding_mask(lengths, 5, side="left")
        assert right.shape == left.shape == (3, 1, 5)
        for b, length in enumerate((0, 2, 5)):
            want = [s < length for s in range(5)]
            assert right[b, 0].tolist() == want
            assert left[b, 0].tolist() == want[::-1]

    def test_combining(self) -> None:
        causal, padding = causal_mask(4), padding_mask([2, 4], 4)
        both = combine_masks(causal, None, padding)
        assert both is not None
        assert both.shape == (2, 4, 4)
        assert (both == (causal & padding)).all()
        assert combine_masks() is None
        assert combine_masks(None) is None
        assert (combine_masks(causal) == causal).all()
