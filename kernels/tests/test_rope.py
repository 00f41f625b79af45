"""RoPE against its twin in float64, Hugging Face's rotary embedding, and what a rotation keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from attend_kernels import ShapeError, apply_rope, naive_rope, rope_table
from attend_kernels.common import fallback
from attend_kernels.ops.rope import operators as rope_operators
from hypothesis import given, settings
from hypothesis import strategies as st

from . import numerics
from .numerics import relative_error

needs_triton = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
DTYPES = {"fp64": torch.float64, **numerics.DTYPES}
TOLERANCE = {torch.float64: 1e-12, **numerics.TOLERANCE}
LENGTHS = [1, 2, 17, 64, 97, 113, 128, 256]
WAYS = pytest.mark.parametrize("interleaved", [False, True], ids=["halves", "interleaved"])


@pytest.fixture(autouse=True)
def poisoned() -> Iterator[None]:
    """Fill whatever torch.empty returns with NaN: an element nobody wrote then fails the test."""
    with numerics.poisoned():
        yield


def draw(*shape: int, dtype: torch.dtype, device: str, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(device, dtype)


def table(count: int, dim: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    cos, sin = rope_table(count, dim)
    return cos.to(device), sin.to(device)


@pytest.mark.thin
@needs_triton
@WAYS
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("length", LENGTHS, ids=lambda n: f"T{n}")
def test_output_and_gradient_match_the_twin(length: int, name: str, interleaved: bool, device: str):
    x = draw(2, 3, length, 32, dtype=DTYPES[name], device=device).requires_grad_()
    grad = draw(2, 3, length, 32, dtype=DTYPES[name], device=device, seed=1)
    cos, sin = table(length, 32, device)
    oracle_x = x.detach().double().requires_grad_()
    oracle = naive_rope(oracle_x, cos, sin, interleaved=interleaved)
    (want,) = torch.autograd.grad(oracle, oracle_x, grad.double())

    out = apply_rope(x, cos, sin, interleaved=interleaved)
    (got,) = torch.autograd.grad(out, x, grad)

    assert out.dtype == got.dtype == DTYPES[name]
    assert relative_error(out, oracle) < TOLERANCE[DTYPES[name]]
    assert relative_error(got, want) < TOLERANCE[DTYPES[name]]


DIMS = [(16, 16), (40, 40), (59, 34), (64, 24), (128, 2)]


@needs_triton
@WAYS
@pytest.mark.parametrize("which", ["none", "shared", "per-batch"])
@pytest.mark.parametrize(("width", "rotary"), DIMS, ids=[f"D{d}-R{r}" for d, r in DIMS])
def test_partial_rotary_dims_and_positions(
    width: int, rotary: int, which: str, interleaved: bool, device: str
):
    x = draw(2, 5, 7, width, dtype=torch.float32, device=device)
    cos, sin = table(40, rotary, device)
    positions = torch.randint(0, 40, (2, 7), generator=torch.Generator().manual_seed(2)).to(device)
    chosen = {"none": None, "shared": positions[0].int(), "per-batch": positions}[which]
    options: dict[str, Any] = {"interleaved": interleaved, "positions": chosen}
    out = apply_rope(x, cos, sin, **options)
    torch.testing.assert_close(out, naive_rope(x, cos, sin, **options))
    assert torch.equal(out[..., rotary:], x[..., rotary:])


@pytest.mark.parametrize(
    "function", [pytest.param(apply_rope, marks=needs_triton, id="fused"), naive_rope]
)
def test_halves_are_hugging_faces_llama(function: Callable[..., torch.Tensor], device: str):
    from transformers import LlamaConfig
    from transformers.models.llama import modeling_llama

    config = LlamaConfig(hidden_size=48, num_attention_heads=2, num_key_value_heads=1, head_dim=24)
    q, k = (draw(2, h, 9, 24, dtype=torch.float32, device=device, seed=h) for h in (2, 1))
    positions = torch.arange(5, 14, device=device)[None].expand(2, -1)
    hf_cos, hf_sin = modeling_llama.LlamaRotaryEmbedding(config).to(device)(q, positions)
    want_q, want_k = modeling_llama.apply_rotary_pos_emb(q, k, hf_cos, hf_sin)
    cos, sin = table(20, 24, device)
    for x, want in ((q, want_q), (k, want_k)):
        torch.testing.assert_close(function(x, cos, sin, positions=positions), want)


def test_interleaved_is_a_product_of_complex_numbers(device: str):
    """The form of the paper, through torch's complex numbers: an oracle that shares no code."""
    x = draw(1, 2, 6, 16, dtype=torch.float64, device=device)
    angle = torch.outer(torch.arange(6.0), 10_000.0 ** (-torch.arange(8.0) / 8)).double().to(device)
    turn = torch.polar(torch.ones_like(angle), angle)
    want = torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (8, 2))) * turn).flatten(-2)
    cos, sin = table(6, 16, device)
    torch.testing.assert_close(naive_rope(x, cos, sin, interleaved=True), want, rtol=0, atol=1e-5)


def test_the_table_is_exact_at_position_100_000():
    """cos(1e5) and sin(1e5) to 16 digits, from the angle reduced in exact arithmetic."""
    cos, sin = rope_table(torch.tensor([100_000]), 8)
    assert cos.dtype == torch.float32
    assert float(cos[0, 0]) == pytest.approx(-0.9993608074382135, abs=1e-7)
    assert float(sin[0, 0]) == pytest.approx(0.0357487979720165, abs=1e-7)
    frequency = torch.tensor(500_000.0) ** (-torch.arange(64) / 64)  # formed in fp32, as is common
    rough = (torch.tensor(99_999.0) * frequency).cos()
    cos, _ = rope_table(torch.tensor([99_999]), 128, 500_000.0)
    assert float((rough - cos[0]).abs().max()) > 1e-4  # what forming the angle in fp64 is for


def test_a_count_is_the_positions_from_zero():
    for counted, listed in zip(rope_table(5, 6), rope_table(torch.arange(5), 6), strict=True):
        assert torch.equal(counted, listed)


@needs_triton
@settings(max_examples=12, deadline=None)
@given(
    tokens=st.integers(1, 20),
    heads=st.integers(1, 6),
    half=st.integers(1, 20),
    interleaved=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_rotation_keeps_lengths_and_comes_back(
    tokens: int, heads: int, half: int, interleaved: bool, seed: int
):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = draw(1, heads, tokens, 2 * half, dtype=torch.float32, device=device, seed=seed)
    cos, sin = table(tokens, 2 * half, device)
    out = apply_rope(x, cos, sin, interleaved=interleaved)
    torch.testing.assert_close(out.norm(dim=-1), x.norm(dim=-1))
    torch.testing.assert_close(apply_rope(out, cos, -sin, interleaved=interleaved), x)


@needs_triton
@WAYS
def test_scores_depend_on_the_distance_alone(interleaved: bool, device: str):
    q, k = (draw(1, 1, 1, 16, dtype=torch.float32, device=device, seed=s) for s in (1, 2))
    cos, sin = table(60, 16, device)

    def score(query_at: int, key_at: int) -> torch.Tensor:
        turned = [
            apply_rope(
                x, cos, sin, interleaved=interleaved, positions=torch.tensor([at], device=device)
            )
            for x, at in ((q, query_at), (k, key_at))
        ]
        return (turned[0] * turned[1]).sum()

    torch.testing.assert_close(score(9, 4), score(55, 50), rtol=1e-4, atol=1e-5)
    assert abs(float(score(9, 4) - score(9, 5))) > 1e-3


@needs_triton
def test_a_position_outside_the_table_is_nan_and_spoils_its_own_token_only(device: str):
    x = draw(1, 2, 3, 8, dtype=torch.float32, device=device)
    cos, sin = table(4, 8, device)
    out = apply_rope(x, cos, sin, positions=torch.tensor([0, 4, -1], device=device))
    assert torch.isfinite(out[:, :, 0]).all()
    assert torch.isnan(out[:, :, 1:]).all()


STRIDES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "tokens-before-heads": lambda x: x.transpose(1, 2),
    "one-of-q-k-v": lambda x: x.repeat(1, 1, 1, 3)[..., 16:32],
    "every-other-channel": lambda x: x.repeat(1, 1, 1, 2)[..., ::2],
    "expanded": lambda x: x[:, :1].expand(-1, 4, -1, -1),
}


@needs_triton
@WAYS
@pytest.mark.parametrize("view", STRIDES.values(), ids=STRIDES)
def test_any_strides_are_read_and_inputs_left_alone(
    view: Callable[[torch.Tensor], torch.Tensor], interleaved: bool, device: str
):
    base = draw(2, 5, 3, 16, dtype=torch.float32, device=device)
    before = base.clone()
    x = view(base).requires_grad_()
    cos, sin = table(8, 16, device)
    out = apply_rope(x, cos[::1], sin.T.contiguous().T, interleaved=interleaved)
    (grad,) = torch.autograd.grad(out.sum(), x)  # sum: a gradient of stride 0
    want = naive_rope(x, cos, sin, interleaved=interleaved)
    torch.testing.assert_close(out, want)
    torch.testing.assert_close(grad, torch.autograd.grad(want.sum(), x)[0])
    assert torch.equal(base, before)


@pytest.mark.thin(keep=1)
@needs_triton
@WAYS
def test_gradcheck_first_and_second_order(interleaved: bool, device: str):
    x = draw(1, 2, 3, 6, dtype=torch.float64, device=device).requires_grad_()
    cos, sin = table(3, 4, device)
    turn = lambda x: apply_rope(x, cos, sin, interleaved=interleaved)  # noqa: E731
    assert torch.autograd.gradcheck(turn, (x,), fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda x: turn(x).sin(), (x,), fast_mode=True)


@needs_triton
def test_registered_with_torch_library_and_compiled_whole(device: str):
    x = draw(1, 5, 3, 8, dtype=torch.float32, device=device).transpose(1, 2).requires_grad_()
    cos, sin = table(9, 6, device)
    positions = torch.arange(5, device=device)
    arguments = (x, cos, sin, positions, False, False)
    assert set(torch.library.opcheck(rope_operators.rotate, arguments).values()) == {"SUCCESS"}

    def function(x: torch.Tensor) -> torch.Tensor:
        return apply_rope(2 * x, cos, sin, positions=positions).square().sum()

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    got, want = (torch.autograd.grad(f(x), x) for f in (compiled, function))
    torch.testing.assert_close(got, want)


@needs_triton
def test_autocast_leaves_the_dtype(device: str):
    x = draw(1, 2, 3, 8, dtype=torch.bfloat16, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert apply_rope(x, *table(3, 8, device)).dtype == torch.bfloat16


@needs_triton
def test_empty_input_gives_empty_output(device: str):
    for shape in [(0, 2, 3, 8), (1, 2, 0, 8)]:
        out = apply_rope(torch.empty(shape, device=device), *table(3, 8, device))
        assert out.shape == shape


COS = torch.ones(3, 4)
ERRORS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "missing-axis": ({"x": torch.ones(2, 3, 8)}, ShapeError, "x has 3 axes; expected 4"),
    "twice": ({"cos": torch.ones(3, 8), "sin": torch.ones(3, 8)}, ShapeError, r"Next: cos\[:, :4"),
    "sin": ({"sin": torch.ones(3, 2)}, ShapeError, r"sin has the wrong shape.*R=4"),
    "short": ({"x": torch.ones(1, 2, 5, 8)}, ShapeError, r"at least T=5 positions, got 3.*Next"),
    "positions-shape": ({"positions": torch.arange(2)}, ShapeError, "positions.*T=3"),
    "positions-float": (
        {"positions": torch.arange(3.0)},
        TypeError,
        r"int32 or int64, got torch.float32. Next: positions.long\(\)",
    ),
    "integers": ({"x": torch.ones(1, 2, 3, 8).int()}, TypeError, "got x of torch.int32"),
    "pair": ({"cos": (COS, COS)}, TypeError, "cos must be a tensor, got tuple"),
    "device": ({"cos": COS.to("meta"), "sin": COS}, ValueError, r"Next: cos.to\(x.device\)"),
    "gradient": ({"cos": COS.clone().requires_grad_()}, ValueError, r"Next: cos.detach\(\)"),
}


@pytest.mark.parametrize(("wrong", "error", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_say_what_expected_got_and_next(
    wrong: dict[str, Any], error: type[Exception], message: str
):
    given = {"x": torch.ones(1, 2, 3, 8), "cos": COS, "sin": COS} | wrong
    with pytest.raises(error, match=message):
        apply_rope(given["x"], given["cos"], given["sin"], positions=given.get("positions"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((4, 7), "got dim=7. Next: pass 8"), ((4, 8, 0.5), "Likely cause: base and dim swapped")],
    ids=["odd", "base"],
)
def test_table_errors(arguments: tuple[Any, ...], message: str):
    with pytest.raises(ValueError, match=message):
        rope_table(*arguments)


@pytest.mark.gpu
@WAYS
@pytest.mark.parametrize("name", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("width", [64, 128, 256], ids=lambda n: f"D{n}")
def test_model_sizes_on_a_gpu(width: int, name: str, interleaved: bool):
    x = draw(2, 16_384, 8, width, dtype=DTYPES[name], device="cuda").transpose(1, 2)
    x.requires_grad_()
    cos, sin = table(16_384, width, "cuda")
    out = apply_rope(x, cos, sin, interleaved=interleaved)
    (grad,) = torch.autograd.grad(out, x, x.detach())
    want = naive_rope(x.detach().double(), cos, sin, interleaved=interleaved)
    assert relative_error(out, want) < TOLERANCE[DTYPES[name]]
    want = naive_rope(x.detach().double(), cos, -sin, interleaved=interleaved)
    assert relative_error(grad, want) < TOLERANCE[DTYPES[name]]
