"""Chapter 22's answers against the course's kernels, Hugging Face's modules and plain loops."""

import doctest
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from attend_kernels import linear_attention as kernel
from attend_kernels import naive_linear_attention
from attend_solutions import gated_recurrence as answers
from attend_solutions.gated_recurrence import (
    delta_rule_chunked,
    gated_linear_attention,
    retention_chunked,
    retention_parallel,
    retention_recurrent,
    rg_lru,
    rwkv_time_mix,
    token_shift,
)
from attend_solutions.linear_attention import delta_rule_update, recurrent_form
from torch import nn
from transformers import RecurrentGemmaConfig
from transformers.models.qwen3_next.modeling_qwen3_next import torch_recurrent_gated_delta_rule
from transformers.models.recurrent_gemma.modeling_recurrent_gemma import RecurrentGemmaRglru
from transformers.models.rwkv.modeling_rwkv import rwkv_linear_attention_cpu

EPS = float(np.finfo(np.float64).eps)
EPS32 = float(np.finfo(np.float32).eps)
SIZES = [(1, 1, 1), (5, 3, 3), (7, 4, 2), (70, 8, 6)]  # T, D, D_v
CHUNKS = (1, 2, 3, 64, 200)


def make(t: int, d: int, d_v: int, lead: tuple[int, ...] = (), seed: int = 0) -> list[np.ndarray]:
    """q, k and v, standard normal."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((*lead, t, width)) for width in (d, d, d_v)]


def close(got: np.ndarray, want: np.ndarray, terms: int, eps: float = EPS) -> None:
    """Two orders of a sum of products differ by a few eps a term, relative to the largest."""
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= 8 * eps * terms * max(np.abs(want).max(), 1.0)


def tensors(*arrays: np.ndarray) -> list[torch.Tensor]:
    """With a batch and a head in front, as the kernels take them."""
    return [torch.from_numpy(x)[None, None] for x in arrays]


def test_examples_of_the_docstrings() -> None:
    assert doctest.testmod(answers).failed == 0


@pytest.mark.parametrize(("t", "d", "d_v"), SIZES)
def test_three_forms_of_retention_agree_with_one_decay_a_head(t, d, d_v) -> None:
    q, k, v = make(t, d, d_v, (2, 3))
    decay = np.array([0.5, 0.9, 1.0])
    parallel = retention_parallel(q, k, v, decay)
    output, state = retention_recurrent(q, k, v, decay)
    close(output, parallel, t * d)
    for chunk in CHUNKS:
        got, last = retention_chunked(q, k, v, decay, chunk)
        close(got, parallel, t * d)
        close(last, state, t)


def test_without_decay_retention_is_chapter_15s_sum() -> None:
    q, k, v = make(9, 4, 3, (2,))
    for got, want in zip(retention_recurrent(q, k, v, 1.0), recurrent_form(q, k, v), strict=True):
        np.testing.assert_array_equal(got, want)


def test_an_old_token_fades_by_one_power_of_the_decay_a_step() -> None:
    q, k, v = np.ones((6, 1)), np.eye(6)[:1].T, np.ones((6, 1))
    np.testing.assert_array_equal(retention_recurrent(q, k, v, 0.5)[0][:, 0], 0.5 ** np.arange(6))


@pytest.mark.parametrize(("t", "d", "d_v"), SIZES)
def test_retention_is_the_courses_kernels_reference(t, d, d_v) -> None:
    q, k, v = make(t, d, d_v)
    start = np.random.default_rng(1).standard_normal((d, d_v))
    want, last = naive_linear_attention(
        *tensors(q, k, v),
        decay=torch.tensor([np.log(0.8)]),
        initial_state=tensors(start)[0],
    )
    output, state = retention_chunked(q, k, v, 0.8, 3, start)
    close(output, want[0, 0].numpy(), t * d)
    close(state, last[0, 0].numpy(), t * d)


@pytest.mark.parametrize("strength", [0.1, 3.0, 1000.0])
@pytest.mark.parametrize(("t", "d", "d_v"), SIZES)
def test_gated_attention_is_a_loop_over_tokens(t, d, d_v, strength) -> None:
    q, k, v = make(t, d, d_v, (2,))
    rng = np.random.default_rng(2)
    gates = -strength * rng.random(k.shape)
    state = start = rng.standard_normal((2, d, d_v))
    rows = []
    for step in range(t):
        state = np.exp(gates[:, step])[..., None] * state
        state = state + np.einsum("bd,be->bde", k[:, step], v[:, step])
        rows.append(np.einsum("bd,bde->be", q[:, step], state))
    for chunk in CHUNKS:
        with np.errstate(all="raise", under="ignore"):
            output, last = gated_linear_attention(q, k, v, gates, chunk, start)
        # sums of up to T gates of size `strength` are exact to eps times their size
        close(output, np.stack(rows, axis=1), t * d + int(t * strength))
        close(last, state, t + int(t * strength))


@pytest.mark.filterwarnings("ignore:linear_attention")  # without a GPU its twin runs, in fp32
@pytest.mark.parametrize(("t", "d", "d_v"), [(5, 3, 3), (70, 4, 2)])
def test_gated_attention_is_the_courses_kernel(t, d, d_v) -> None:
    q, k, v = make(t, d, d_v)
    gates = -np.random.default_rng(3).random(k.shape)
    given = [x.float() for x in tensors(q, k, v, gates)]
    want, state = kernel(*given[:3], gate=given[3], output_state=True)
    output, last = gated_linear_attention(q, k, v, gates, 16)
    close(output, want[0, 0].numpy(), t * d, EPS32)
    close(last, state[0, 0].numpy(), t * d, EPS32)


def test_equal_gates_are_retention() -> None:
    q, k, v = make(9, 4, 3)
    gated = gated_linear_attention(q, k, v, np.full_like(k, np.log(0.7)), 4)
    for got, want in zip(gated, retention_recurrent(q, k, v, 0.7), strict=True):
        close(got, want, 36)


@pytest.mark.parametrize(("t", "d", "d_v"), SIZES)
def test_the_delta_rule_in_chunks_is_chapter_15s_update_token_by_token(t, d, d_v) -> None:
    q, k, v = make(t, d, d_v, (2,))
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    rng = np.random.default_rng(4)
    beta, start = rng.random((2, t)), rng.standard_normal((2, d, d_v))
    state, rows = start, []
    for step in range(t):
        state = np.stack(
            [delta_rule_update(state[i], k[i, step], v[i, step], beta[i, step]) for i in range(2)]
        )
        rows.append(np.einsum("bd,bde->be", q[:, step], state))
    for chunk in CHUNKS:
        output, last = delta_rule_chunked(q, k, v, beta, chunk, start)
        close(output, np.stack(rows, axis=1), 4 * t * d)
        close(last, state, 4 * t * d)


@pytest.mark.parametrize(("t", "d", "d_v"), [(1, 1, 1), (70, 8, 6)])
def test_the_delta_rule_is_hugging_faces(t, d, d_v) -> None:
    """Qwen3-Next's reference, with gates of 0; it divides queries by √D and computes in float32."""
    q, k, v = make(t, d, d_v)
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    beta = np.random.default_rng(5).random(t)
    given = [torch.from_numpy(x).float()[None, :, None] for x in (q * d**0.5, k, v)]
    want, last = torch_recurrent_gated_delta_rule(
        *given,
        g=torch.zeros(1, t, 1),
        beta=torch.from_numpy(beta).float()[None, :, None],
        output_final_state=True,
    )
    assert last is not None
    output, state = delta_rule_chunked(q, k, v, beta, 16)
    close(output, want[0, :, 0].numpy(), t * d, EPS32)
    close(state, last[0, 0].numpy(), t * d, EPS32)


def test_token_shift_is_rwkvs_zero_padding() -> None:
    x, mix = make(7, 5, 1, (3,))[0], np.random.default_rng(6).random(5)
    shifted = nn.ZeroPad2d((0, 0, 1, -1))(torch.from_numpy(x)).numpy()
    mixed, last = token_shift(x, mix)
    np.testing.assert_allclose(mixed, mix * x + (1 - mix) * shifted, rtol=4 * EPS, atol=4 * EPS)
    np.testing.assert_array_equal(last, x[:, -1])


@pytest.mark.parametrize("size", [1.0, 300.0])
@pytest.mark.parametrize("t", [1, 5, 40])
def test_rwkv_is_hugging_faces(t, size) -> None:
    rng = np.random.default_rng(7)
    r, k, v = rng.standard_normal((3, 2, t, 6))
    k, rate, bonus = k * size, rng.random(6), rng.standard_normal(6)
    want, state = rwkv_linear_attention_cpu(
        *(torch.from_numpy(x) for x in (np.log(rate), bonus, k.astype(np.float32), v)),
        return_state=True,
    )
    with np.errstate(all="raise", under="ignore"):
        output, last = rwkv_time_mix(np.full_like(r, 1e9), k, v, rate, bonus)  # the gate is open
    # keys are float32 there; their exponents' rounding is relative to the keys' size
    close(output, want.numpy(), int(8 * size), EPS32)
    for mine, theirs in zip(np.moveaxis(last, -2, 0), state, strict=True):
        close(mine, theirs.numpy(), int(8 * size), EPS32)
    gated, _ = rwkv_time_mix(r, k, v, rate, bonus)
    close(gated, output / (1 + np.exp(-r)), 8)


def test_rwkv_is_a_softmax_whose_scores_fade_with_age() -> None:
    rng = np.random.default_rng(8)
    r, k, v = rng.standard_normal((3, 9, 4))
    rate, bonus = rng.random(4), rng.standard_normal(4)
    got = rwkv_time_mix(r, k, v, rate, bonus)[0] * (1 + np.exp(-r))
    for t in range(9):
        scores = k[: t + 1] - (t - 1 - np.arange(t + 1))[:, None] * rate
        scores[t] = bonus + k[t]
        weights = np.exp(scores) / np.exp(scores).sum(axis=0)
        close(got[t], (weights * v[: t + 1]).sum(axis=0), 36)


def test_rg_lru_is_recurrent_gemmas() -> None:
    torch.manual_seed(9)
    config = RecurrentGemmaConfig(
        hidden_size=6, lru_width=6, num_attention_heads=2, num_hidden_layers=1
    )
    layer = RecurrentGemmaRglru(config)
    with torch.no_grad():
        for weights in layer.parameters():
            weights.normal_()
    x, start = torch.randn(3, 8, 6), torch.randn(3, 6)
    layer.recurrent_states = start
    places = torch.arange(1, 9).expand(3, -1)  # at place 0 theirs would begin anew
    with torch.no_grad():
        want = layer(x, places)
        gates = [
            torch.einsum("btgi,gij->btgj", x.view(3, 8, 2, 3), weight).add(bias).flatten(2)
            for weight, bias in (
                (layer.recurrent_gate_weight, layer.recurrent_gate_bias),
                (layer.input_gate_weight, layer.input_gate_bias),
            )
        ]
        rates = layer.recurrent_param.numpy()
    forget, admit = (gate.numpy() for gate in gates)
    output, last = rg_lru(x.numpy(), forget, admit, rates, start.numpy())
    # their 1 - a² loses digits where a is near 1, and the root doubles the loss of what is left
    np.testing.assert_allclose(output, want.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(last, output[:, -1])


def test_rg_lru_keeps_the_size_of_a_state_of_independent_inputs() -> None:
    """With unit inputs and open gates a state of variance 1 stays at variance a² + (1 - a²) = 1."""
    rng = np.random.default_rng(10)
    x, start = rng.standard_normal((4000, 20, 3)), rng.standard_normal((4000, 3))
    states, _ = rg_lru(x, 0 * x, np.full_like(x, 1e9), np.array([-6.0, -2.0, 1.0]), start)
    assert np.abs(states.var(axis=0) - 1).max() < 6 * (2 / 4000) ** 0.5


FORMS: dict[str, Callable[..., Any]] = {
    "retention, recurrent": lambda q, k, v, s: retention_recurrent(q, k, v, 0.9, s),
    "retention, chunked": lambda q, k, v, s: retention_chunked(q, k, v, 0.9, 2, s),
    "gated": lambda q, k, v, s: gated_linear_attention(q, k, v, -np.abs(k), 2, s),
    "delta rule": lambda q, k, v, s: delta_rule_chunked(q, k, v, np.abs(v[..., 0]) / 9, 2, s),
    "token shift": lambda q, k, v, s: token_shift(q, np.full(4, 0.3), s),
    "RWKV": lambda q, k, v, s: rwkv_time_mix(q, k, v, np.full(4, 0.3), np.ones(4), s),
    "RG-LRU": lambda q, k, v, s: rg_lru(q, k, v, np.zeros(4), s),
}


@pytest.mark.parametrize("cut", [1, 3, 6])
@pytest.mark.parametrize("form", FORMS)
def test_a_text_may_be_read_in_parts(form, cut) -> None:
    q, k, v = make(7, 4, 4, (2,))
    run = FORMS[form]
    whole, last = run(q, k, v, None)
    one, state = run(*(x[:, :cut] for x in (q, k, v)), None)
    two, state = run(*(x[:, cut:] for x in (q, k, v)), state)
    close(np.concatenate([one, two], axis=-2), whole, 40)
    close(state, last, 40)


def test_refusals() -> None:
    q, k, v = np.ones((2, 3)), np.ones((4, 3)), np.ones((4, 5))
    for form in (
        partial(retention_recurrent, decay=0.9),
        partial(retention_parallel, decay=0.9),
        partial(retention_chunked, decay=0.9),
        partial(gated_linear_attention, gates=-k),
        partial(delta_rule_chunked, beta=np.ones(4)),
    ):
        with pytest.raises(ValueError, match="expected 2 keys; got 4"):
            form(q, k, v)
        with pytest.raises(ValueError, match="expected 4 values; got 3"):
            form(k, k, v[:3])
    for form in (
        partial(retention_chunked, decay=0.9),
        partial(gated_linear_attention, gates=-k),
        partial(delta_rule_chunked, beta=np.ones(4)),
    ):
        with pytest.raises(ValueError, match="at least 1 place; got 0"):
            form(k, k, v, chunk=0)
    with pytest.raises(ValueError, match=r"shape of k, \(4, 3\); got \(4, 5\)"):
        gated_linear_attention(k, k, v, -v)
    with pytest.raises(ValueError, match="expected 4 step sizes; got 3"):
        delta_rule_chunked(k, k, v, np.ones(3))
