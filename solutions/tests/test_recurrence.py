"""Chapter 01's reference functions against PyTorch's own cells, autograd and finite differences."""

import doctest
import math
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from attend_solutions import recurrence
from attend_solutions.recurrence import (
    bptt,
    gradient_norms,
    gru_cell,
    lstm_cell,
    repaired_bptt,
    rnn_forward,
    rnn_step,
    sigmoid,
)

SIZES = [
    # B, T, C, N
    pytest.param(1, 1, 1, 1, id="B1-T1-C1-N1"),
    pytest.param(2, 3, 4, 5, id="B2-T3-C4-N5"),
    pytest.param(3, 3, 3, 3, id="B3-T3-C3-N3"),
    pytest.param(4, 17, 2, 7, id="B4-T17-C2-N7"),
]


def assert_close(actual: np.ndarray, expected: np.ndarray | torch.Tensor) -> None:
    """float64 throughout, sums of a few hundred products: 1e-12 is a thousandfold margin."""
    np.testing.assert_allclose(actual, np.asarray(expected), rtol=1e-12, atol=1e-12)


def make(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng([len(shapes), *shapes[0]])
    return [rng.standard_normal(shape) for shape in shapes]


def sequence(b: int, t: int, c: int, n: int) -> list[np.ndarray]:
    return make((b, t, c), (b, n), (c, n), (n, n), (n,))


def torch_copy(
    module: torch.nn.RNNCellBase,
    w_x: np.ndarray,
    w_h: np.ndarray,
    b_x: np.ndarray,
    b_h: np.ndarray,
) -> None:
    weights = {"weight_ih": w_x.T, "weight_hh": w_h.T, "bias_ih": b_x, "bias_hh": b_h}
    module.load_state_dict({name: torch.from_numpy(w.copy()) for name, w in weights.items()})


def tensors(*arrays: np.ndarray) -> list[torch.Tensor]:
    return [torch.from_numpy(array) for array in arrays]


def test_docstring_examples_are_right() -> None:
    results = doctest.testmod(recurrence)
    assert results.attempted > 20
    assert results.failed == 0


def test_importing_the_module_does_not_import_torch() -> None:
    code = "import sys, attend_solutions.recurrence; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestForward:
    @pytest.mark.parametrize(("b", "t", "c", "n"), SIZES)
    def test_step_agrees_with_torch(self, b: int, t: int, c: int, n: int) -> None:
        x, h, w_x, w_h, bias = sequence(b, t, c, n)
        cell = torch.nn.RNNCell(c, n, dtype=torch.float64)
        torch_copy(cell, w_x, w_h, bias, np.zeros(n))
        with torch.no_grad():
            assert_close(rnn_step(x[:, 0], h, w_x, w_h, bias), cell(*tensors(x[:, 0], h)))

    @pytest.mark.parametrize(("b", "t", "c", "n"), SIZES)
    def test_forward_agrees_with_torch(self, b: int, t: int, c: int, n: int) -> None:
        x, h0, w_x, w_h, bias = sequence(b, t, c, n)
        network = torch.nn.RNN(c, n, batch_first=True, dtype=torch.float64)
        weights = zip(("ih", "hh"), (w_x.T, w_h.T), (bias, np.zeros(n)), strict=True)
        network.load_state_dict(
            {
                f"{kind}_{name}_l0": torch.from_numpy(w.copy())
                for name, weight, zero in weights
                for kind, w in (("weight", weight), ("bias", zero))
            }
        )
        with torch.no_grad():
            expected, _ = network(*tensors(x, h0[None]))
        assert_close(rnn_forward(x, h0, w_x, w_h, bias), expected)

    def test_the_future_does_not_reach_back(self) -> None:
        x, *rest = sequence(2, 6, 3, 4)
        changed = x.copy()
        changed[:, 4:] += 1
        before, after = rnn_forward(x, *rest), rnn_forward(changed, *rest)
        np.testing.assert_array_equal(before[:, :4], after[:, :4])
        assert (before[:, 4:] != after[:, 4:]).all()


class TestBptt:
    @pytest.mark.parametrize("backward", [bptt, repaired_bptt])
    @pytest.mark.parametrize(("b", "t", "c", "n"), SIZES)
    def test_agrees_with_autograd(
        self, b: int, t: int, c: int, n: int, backward: Callable[..., tuple[np.ndarray, ...]]
    ) -> None:
        x, h0, w_x, w_h, bias = sequence(b, t, c, n)
        (grad_states,) = make((b, t, n))
        leaves = [a.requires_grad_() for a in tensors(x, h0, w_x, w_h, bias)]
        tx, h, tw_x, tw_h, tb = leaves
        states = []
        for step in range(t):
            h = torch.tanh(tx[:, step] @ tw_x + h @ tw_h + tb)
            states.append(h)
        torch.stack(states, dim=1).backward(torch.from_numpy(grad_states))
        gradients = backward(x, h0, rnn_forward(x, h0, w_x, w_h, bias), w_x, w_h, grad_states)
        for gradient, leaf in zip(gradients, leaves, strict=True):
            assert leaf.grad is not None
            assert_close(gradient, leaf.grad)

    def test_agrees_with_finite_differences(self) -> None:
        inputs = sequence(2, 3, 2, 4)
        (grad_states,) = make((2, 3, 4))
        x, h0, w_x, w_h, _ = inputs
        gradients = bptt(x, h0, rnn_forward(*inputs), w_x, w_h, grad_states)
        step = 1e-5  # error of the central difference: about step² ≈ 1e-10
        for which, gradient in enumerate(gradients):
            for index in np.ndindex(gradient.shape):
                losses = []
                for sign in (1, -1):
                    moved = [a.copy() for a in inputs]
                    moved[which][index] += sign * step
                    losses.append(float((rnn_forward(*moved) * grad_states).sum()))
                slope = (losses[0] - losses[1]) / (2 * step)
                assert gradient[index] == pytest.approx(slope, abs=1e-8)


class TestGradientNorms:
    @pytest.mark.parametrize(("b", "t", "c", "n"), SIZES)
    def test_agrees_with_autograd_and_singular_values(self, b: int, t: int, c: int, n: int) -> None:
        x, h0, w_x, w_h, bias = sequence(b, t, c, n)
        states = rnn_forward(x, h0, w_x, w_h, bias)
        norms = gradient_norms(states, w_h)
        assert norms.shape == (b, t)
        tx, tw_x, tw_h, tb = tensors(x, w_x, w_h, bias)
        for row in range(b):
            for start in range(t):

                def last(h: torch.Tensor, row: int = row, start: int = start) -> torch.Tensor:
                    for step in range(start + 1, t):
                        h = torch.tanh(tx[row, step] @ tw_x + h @ tw_h + tb)
                    return h

                at = torch.from_numpy(states[row, start])
                jacobian = torch.autograd.functional.jacobian(last, at)
                assert isinstance(jacobian, torch.Tensor)
                largest = torch.linalg.svdvals(jacobian)[0].item()
                assert norms[row, start] == pytest.approx(largest, rel=1e-10, abs=1e-300)

    @pytest.mark.parametrize("radius", [0.5, 1.0, 1.5])
    def test_a_stretched_rotation_decays_as_powers_of_its_radius(self, radius: float) -> None:
        rotation, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))
        norms = gradient_norms(np.zeros((1, 30, 6)), radius * rotation)
        np.testing.assert_allclose(norms[0], radius ** np.arange(29.0, -1, -1), rtol=1e-12)

    def test_bptt_never_exceeds_them(self) -> None:
        x, h0, w_x, w_h, bias = sequence(3, 12, 4, 4)
        states = rnn_forward(x, h0, w_x, w_h, bias)
        grad_states = np.zeros_like(states)
        grad_states[:, -1] = make((3, 4))[0]
        grad_states /= np.linalg.norm(grad_states[:, -1], axis=-1)[:, None, None]
        grad_x, *_ = bptt(x, h0, states, np.eye(4), w_h, grad_states)
        bound = gradient_norms(states, w_h)
        assert (np.linalg.norm(grad_x, axis=-1) <= bound * (1 + 1e-12)).all()


class TestGatedCells:
    @pytest.mark.parametrize(("b", "t", "c", "n"), SIZES)
    def test_lstm_agrees_with_torch(self, b: int, t: int, c: int, n: int) -> None:
        x, h, memory, w_x, w_h, bias = make(
            (b, c), (b, n), (b, n), (c, 4 * n), (n, 4 * n), (4 * n,)
        )
        cell = torch.nn.LSTMCell(c, n, dtype=torch.float64)
        torch_copy(cell, w_x, w_h, bias, np.zeros(4 * n))
        with torch.no_grad():
            expected = cell(torch.from_numpy(x), tuple(tensors(h, memory)))
        for got, want in zip(lstm_cell(x, h, memory, w_x, w_h, bias), expected, strict=True):
            assert_close(got, want)

    @pytest.mark.parametrize(("b", "t", "c", "n"), SIZES)
    def test_gru_agrees_with_torch(self, b: int, t: int, c: int, n: int) -> None:
        x, h, w_x, w_h, b_x, b_h = make(
            (b, c), (b, n), (c, 3 * n), (n, 3 * n), (3 * n,), (1, 3 * n)
        )
        cell = torch.nn.GRUCell(c, n, dtype=torch.float64)
        torch_copy(cell, w_x, w_h, b_x, b_h[0])
        with torch.no_grad():
            assert_close(gru_cell(x, h, w_x, w_h, b_x, b_h[0]), cell(*tensors(x, h)))

    def test_open_forget_gate_and_closed_input_gate_keep_the_memory(self) -> None:
        x, h, memory = make((2, 3), (2, 4), (2, 4))
        bias = np.repeat([-1e3, 1e3, 0.0, 1e3], 4)
        new_h, new_c = lstm_cell(x, h, memory, np.zeros((3, 16)), np.zeros((4, 16)), bias)
        np.testing.assert_array_equal(new_c, memory)
        assert_close(new_h, np.tanh(memory))

    def test_update_gate_of_one_keeps_the_state(self) -> None:
        x, h = make((2, 3), (2, 4))
        b_x = np.repeat([0.0, 1e3, 0.0], 4)
        kept = gru_cell(x, h, np.zeros((3, 12)), np.zeros((4, 12)), b_x, np.zeros(12))
        np.testing.assert_array_equal(kept, h)

    def test_sigmoid(self) -> None:
        x = np.linspace(-30, 30, 61)
        expected = [1 / (1 + math.exp(-value)) for value in x]
        np.testing.assert_allclose(sigmoid(x), expected, rtol=0, atol=1e-15)
        assert sigmoid(np.array([0.5], dtype=np.float32)).dtype == np.float32


def test_inputs_are_not_modified_and_may_be_views() -> None:
    def view(array: np.ndarray) -> np.ndarray:
        turned = np.array(array.T, order="C").T
        turned.flags.writeable = False
        return turned

    x, h0, w_x, w_h, bias = (view(a) for a in sequence(2, 3, 4, 5))
    states = view(rnn_forward(x, h0, w_x, w_h, bias))
    assert_close(states, rnn_forward(*sequence(2, 3, 4, 5)))
    bptt(x, h0, states, w_x, w_h, states)
    gradient_norms(states, w_h)
    wide_x, wide_h, wide_b = (view(a) for a in make((4, 20), (5, 20), (20,)))
    lstm_cell(x[:, 0], h0, h0, wide_x, wide_h, wide_b)
    gru_cell(x[:, 0], h0, wide_x[:, :15], wide_h[:, :15], wide_b[:15], wide_b[:15])
