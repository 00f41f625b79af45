"""Cross-entropy against its twin in float64, PyTorch's own, and what a loss must obey."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from attend_kernels import ShapeError, cross_entropy, naive_cross_entropy
from attend_kernels.common import fallback
from attend_kernels.ops.cross_entropy import operators as cross_entropy_operators
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from . import numerics
from .numerics import relative_error

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
DTYPES = {"fp64": torch.float64, **numerics.DTYPES}
TOLERANCE = {torch.float64: 1e-12, **numerics.TOLERANCE}
VOCABULARIES = [2, 17, 64, 97, 113, 128, 256, 1025]
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "smoothing": {"label_smoothing": 0.1},
    "z-loss": {"z_loss": 0.01},
    "all": {"label_smoothing": 0.3, "z_loss": 0.02, "ignore_index": 1},
}
REDUCTIONS = ["mean", "sum", "none"]


@pytest.fixture(autouse=True)
def poisoned() -> Iterator[None]:
    """Fill whatever torch.empty returns with NaN: an element nobody wrote then fails the test."""
    with numerics.poisoned():
        yield


@pytest.fixture(params=["one-block", "online"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways: a row held in registers, and a row walked in blocks."""
    if request.param == "online":
        from attend_kernels.ops.cross_entropy import kernels as cross_entropy_kernels

        monkeypatch.setattr(cross_entropy_kernels, "MAX_BLOCK", 64)
    return request.param


def draw(
    *shape: int, dtype: torch.dtype, device: str, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of ``shape (..., V)`` that ask for a gradient, and targets with one row ignored."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(*shape, generator=generator)
    targets = torch.randint(0, shape[-1], shape[:-1], generator=generator)
    targets.view(-1)[1:2] = -100
    return logits.to(device, dtype).requires_grad_(), targets.to(device)


def loss_and_gradient(
    function: Callable[..., torch.Tensor],
    logits: torch.Tensor,
    targets: torch.Tensor,
    **options: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    loss = function(logits, targets, **options)
    weight = torch.linspace(0.5, 2, loss.numel(), dtype=loss.dtype, device=loss.device)
    (gradient,) = torch.autograd.grad(loss, logits, weight.reshape(loss.shape))
    return loss, gradient


@pytest.mark.thin
@needs_triton
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("vocabulary", VOCABULARIES, ids=lambda v: f"V{v}")
def test_loss_and_gradient_match_the_twin(vocabulary: int, name: str, path: str, device: str):
    logits, targets = draw(5, vocabulary, dtype=DTYPES[name], device=device)
    oracle = logits.detach().double().requires_grad_()
    want_loss, want = loss_and_gradient(naive_cross_entropy, oracle, targets)
    loss, gradient = loss_and_gradient(cross_entropy, logits, targets)
    assert loss.dtype == (torch.float64 if name == "fp64" else torch.float32)
    assert gradient.dtype == DTYPES[name]
    assert relative_error(loss, want_loss) < min(TOLERANCE[DTYPES[name]], TOLERANCE[torch.float32])
    assert relative_error(gradient, want) < TOLERANCE[DTYPES[name]]


@needs_triton
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_every_option_matches_the_twin(
    options: dict[str, Any], reduction: str, path: str, device: str
):
    logits, targets = draw(2, 3, 97, dtype=torch.float32, device=device)
    targets[targets == -100] = options.get("ignore_index", -100)
    oracle = logits.detach().double().requires_grad_()
    options = options | {"reduction": reduction}
    want_loss, want = loss_and_gradient(naive_cross_entropy, oracle, targets, **options)
    loss, gradient = loss_and_gradient(cross_entropy, logits, targets, **options)
    assert loss.shape == want_loss.shape
    assert relative_error(loss, want_loss) < TOLERANCE[torch.float32]
    assert relative_error(gradient, want) < TOLERANCE[torch.float32]


@needs_triton
def test_float64_has_its_options_in_float64(path: str, device: str):
    from .stand_in import single_numbers

    logits, targets = draw(4, 97, dtype=torch.float64, device=device)
    options: dict[str, Any] = {"label_smoothing": 0.1, "z_loss": 1e-3}
    want = loss_and_gradient(naive_cross_entropy, logits, targets, **options)
    with single_numbers():
        got = loss_and_gradient(cross_entropy, logits, targets, **options)
    for value, right in zip(got, want, strict=True):
        assert relative_error(value, right.detach()) < 1e-14


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.2], ids=["plain", "smoothing"])
def test_twin_is_pytorchs_function(smoothing: float, reduction: str, device: str):
    logits, targets = draw(6, 33, dtype=torch.float64, device=device)
    options: dict[str, Any] = {"label_smoothing": smoothing, "reduction": reduction}
    got = loss_and_gradient(naive_cross_entropy, logits, targets, **options)
    want = loss_and_gradient(functional.cross_entropy, logits, targets, **options)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)


@needs_triton
def test_error_is_what_rounding_makes(path: str, device: str):
    logits, targets = draw(8, 256, dtype=torch.float32, device=device)
    got = loss_and_gradient(cross_entropy, logits, targets)
    want, moved = (
        loss_and_gradient(naive_cross_entropy, x.requires_grad_(), targets)
        for x in (logits.detach().double(), numerics.shake(logits))
    )
    for value, right, near in zip(got, want, moved, strict=True):
        numerics.assert_right(value, right.detach(), torch.float32, near)


@needs_triton
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_gradcheck(options: dict[str, Any], path: str, device: str):
    logits, targets = draw(3, 70, dtype=torch.float64, device=device)
    targets[1] = options.get("ignore_index", -100)
    assert torch.autograd.gradcheck(
        lambda x: cross_entropy(x, targets, **options), (logits,), fast_mode=True
    )


@needs_triton
@settings(max_examples=12, deadline=None)
@given(rows=st.integers(1, 6), vocabulary=st.integers(1, 80), seed=st.integers(0, 99))
def test_any_shape_ignores_a_shift_and_pushes_nothing_overall(
    rows: int, vocabulary: int, seed: int
):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    logits, targets = draw(rows, vocabulary, dtype=torch.float64, device=device, seed=seed)
    targets = targets.clamp_min(0)
    loss, gradient = loss_and_gradient(cross_entropy, logits, targets)
    torch.testing.assert_close(loss, cross_entropy(logits + 7.5, targets))
    torch.testing.assert_close(gradient.sum(-1), torch.zeros_like(gradient[:, 0]))
    flat = cross_entropy(torch.zeros_like(logits), targets)
    assert float(flat) == pytest.approx(math.log(vocabulary), abs=1e-12)


@needs_triton
def test_one_word_costs_nothing(path: str, device: str):
    logits, targets = draw(3, 1, dtype=torch.float32, device=device)
    loss, gradient = loss_and_gradient(cross_entropy, logits, targets)
    assert float(loss.detach().abs()) < 1e-6
    assert float(gradient.abs().max()) < 1e-6


@needs_triton
def test_masked_words_and_huge_logits(path: str, device: str):
    logits, targets = draw(4, 130, dtype=torch.float32, device=device)
    with torch.no_grad():
        logits[:, 5:90] = -float("inf")  # a whole block of words that cannot come
        logits[0] += 1e4
    targets = torch.tensor([0, 1, 2, 100], device=device)
    loss, gradient = loss_and_gradient(cross_entropy, logits, targets)
    want_loss, want = loss_and_gradient(functional.cross_entropy, logits, targets)
    torch.testing.assert_close(loss, want_loss)
    torch.testing.assert_close(gradient, want, rtol=1e-4, atol=1e-6)
    assert gradient[:, 5:90].eq(0).all()


@needs_triton
def test_ignored_rows_count_for_nothing_and_are_not_read(path: str, device: str):
    logits, targets = draw(3, 97, dtype=torch.float32, device=device)
    with torch.no_grad():
        logits[1] = float("nan")
    loss, gradient = loss_and_gradient(cross_entropy, logits, targets)
    assert torch.isfinite(loss)
    assert gradient[1].eq(0).all()
    assert torch.isfinite(gradient).all()


@needs_triton
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_nothing_but_ignored_rows_is_a_loss_of_zero(reduction: str, path: str, device: str):
    logits, _ = draw(3, 97, dtype=torch.float32, device=device)
    targets = torch.full((3,), -100, device=device)
    for function in (cross_entropy, naive_cross_entropy):
        loss, gradient = loss_and_gradient(function, logits, targets, reduction=reduction)
        assert float(loss.detach()) == 0.0
        assert gradient.eq(0).all()


@needs_triton
@pytest.mark.parametrize("bad", [97, -1], ids=["too-large", "negative"])
def test_a_target_outside_the_vocabulary_is_nan_in_its_own_row(bad: int, path: str, device: str):
    logits, targets = draw(3, 97, dtype=torch.float32, device=device)
    targets[2] = bad
    losses, gradient = loss_and_gradient(cross_entropy, logits, targets, reduction="none")
    assert torch.isfinite(losses[:2]).all()
    assert torch.isnan(losses[2])
    assert torch.isfinite(gradient[:2]).all()
    assert torch.isnan(gradient[2]).all()
    assert torch.isnan(cross_entropy(logits, targets))


@needs_triton
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_scaled_losses_and_repeated_backward_passes(reduction: str, path: str, device: str):
    """The stored gradient may be scaled in place only if nobody needs it again."""
    logits, targets = draw(4, 97, dtype=torch.float32, device=device)
    _, want = loss_and_gradient(naive_cross_entropy, logits, targets, reduction=reduction)
    loss = cross_entropy(logits, targets, reduction=reduction)
    weight = torch.linspace(0.5, 2, loss.numel(), device=device).reshape(loss.shape)
    first, second = (
        torch.autograd.grad(loss, logits, weight, retain_graph=True)[0] for _ in range(2)
    )
    doubled = torch.autograd.grad(3 * loss - loss, logits, weight)[0]
    torch.testing.assert_close(first, want)
    assert torch.equal(first, second)
    torch.testing.assert_close(doubled, 2 * want)


@needs_triton
def test_no_gradient_is_made_where_none_is_wanted(device: str):
    logits, targets = draw(4, 97, dtype=torch.float32, device=device)
    arguments = (-100, 0.0, 0.0, "mean")
    assert (
        cross_entropy_operators.loss_and_gradient(logits, targets, *arguments, False)[1].numel()
        == 0
    )
    with torch.no_grad():
        assert not cross_entropy(logits, targets).requires_grad
    assert not cross_entropy(logits.detach(), targets).requires_grad


@needs_triton
def test_the_same_inputs_give_the_same_bits(path: str, device: str):
    logits, targets = draw(4, 130, dtype=torch.float32, device=device)
    first, second = (loss_and_gradient(cross_entropy, logits, targets) for _ in range(2))
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])


STRIDES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "transposed": lambda x: x.transpose(0, 1),
    "every-other-column": lambda x: x[:, ::2],
    "next-token-slice": lambda x: x.reshape(4, 6, -1)[:, :-1],
    "expanded": lambda x: x[:1].expand(3, -1),
}


@needs_triton
@pytest.mark.parametrize("view", STRIDES.values(), ids=STRIDES)
def test_any_strides_are_read_and_inputs_left_alone(
    view: Callable[[torch.Tensor], torch.Tensor], path: str, device: str
):
    base = draw(24, 40, dtype=torch.float32, device=device)[0].detach()
    before = base.clone()
    logits = view(base).requires_grad_()
    targets = torch.arange(logits[..., 0].numel(), device=device).reshape(logits.shape[:-1]) % 20
    got = loss_and_gradient(cross_entropy, logits, targets.int())
    want = loss_and_gradient(naive_cross_entropy, logits, targets)
    torch.testing.assert_close(got, want)
    assert torch.equal(base, before)


@needs_triton
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_registered_with_torch_library(reduction: str, device: str):
    logits, targets = draw(3, 17, dtype=torch.float32, device=device)
    arguments = (logits, targets, -100, 0.1, 0.0, reduction, True)
    results = torch.library.opcheck(cross_entropy_operators.loss_and_gradient, arguments)
    assert set(results.values()) == {"SUCCESS"}


@needs_triton
def test_torch_compile_keeps_the_graph_whole(device: str):
    logits, targets = draw(3, 17, dtype=torch.float32, device=device)

    def function(x: torch.Tensor) -> torch.Tensor:
        return 3 * cross_entropy(x * x, targets)

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    got, want = (torch.autograd.grad(f(logits), logits) for f in (compiled, function))
    torch.testing.assert_close(got, want)


@needs_triton
def test_autocast_computes_the_loss_in_fp32(device: str):
    logits, targets = draw(3, 17, dtype=torch.bfloat16, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = cross_entropy(logits, targets)
    loss.backward()
    assert loss.dtype == torch.float32
    assert logits.grad is not None
    assert logits.grad.dtype == torch.bfloat16


@needs_triton
def test_no_second_derivative_is_an_error_not_a_zero(device: str):
    logits, targets = draw(3, 17, dtype=torch.float32, device=device)
    loss = cross_entropy(logits, targets)
    with pytest.raises(RuntimeError, match=r"no second derivative.*Next: naive_cross_entropy"):
        torch.autograd.grad(loss, logits, create_graph=True)


def test_empty_input(device: str):
    logits = torch.empty(0, 5, device=device)
    targets = torch.empty(0, dtype=torch.int64, device=device)
    assert float(cross_entropy(logits, targets)) == 0.0
    assert cross_entropy(logits, targets, reduction="none").shape == (0,)


ONES, ZEROS = torch.ones(2, 4), torch.zeros(2, dtype=torch.int64)
ERRORS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "swapped": ({"logits": ZEROS, "targets": ONES}, TypeError, "Likely cause: logits and targets"),
    "probabilities": ({"targets": ONES}, TypeError, r"got torch.float32. Next: targets.long\(\)"),
    "rows": (
        {"targets": ZEROS[:1]},
        ShapeError,
        r"expected \(2,\), got \(1,\).*Next: targets.reshape",
    ),
    "device": ({"targets": ZEROS.to("meta")}, ValueError, r"Next: targets.to\(logits.device\)"),
    "list": ({"targets": [0, 1]}, TypeError, r"got list. Next: torch.as_tensor\(targets\)"),
    "no-logit": ({"logits": ONES[:, :0]}, ShapeError, r"V >= 1, got \(2, 0\)"),
    "reduction": ({"reduction": "average"}, ValueError, "expected 'mean', 'sum' or 'none'"),
    "percent": ({"label_smoothing": 10}, ValueError, "Next: label_smoothing=0.1"),
}


@pytest.mark.parametrize(("wrong", "error", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_say_what_expected_got_and_next(
    wrong: dict[str, Any], error: type[Exception], message: str
):
    given: dict[str, Any] = {"logits": ONES, "targets": ZEROS} | wrong
    logits, targets = given.pop("logits"), given.pop("targets")
    with pytest.raises(error, match=message):
        cross_entropy(logits, targets, **given)


@pytest.mark.gpu
@pytest.mark.parametrize("vocabulary", [4096, 32_000, 50_257, 131_072], ids=lambda v: f"V{v}")
@pytest.mark.parametrize("name", ["fp32", "fp16", "bf16"])
def test_model_vocabularies_on_a_gpu(name: str, vocabulary: int):
    logits, targets = draw(512, vocabulary, dtype=DTYPES[name], device="cuda")
    oracle = logits.detach().double().requires_grad_()
    want_loss, want = loss_and_gradient(naive_cross_entropy, oracle, targets)
    loss, gradient = loss_and_gradient(cross_entropy, logits, targets)
    assert relative_error(loss, want_loss) < TOLERANCE[torch.float32]
    assert relative_error(gradient, want) < TOLERANCE[DTYPES[name]]
