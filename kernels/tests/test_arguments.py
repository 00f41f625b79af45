"""What every operator must take: vectors with strides, checkpoints, tensors far apart in memory."""

# axis letters are capitals

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attend_kernels
import pytest
import torch
from attend_kernels.common import fallback
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
kernels: Any = attend_kernels  # Any: arguments are splatted, results of two kinds
Inputs = dict[str, torch.Tensor]
Operator = tuple[Callable[..., Any], Inputs]


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + len(shape)))


def operators() -> dict[str, Operator]:
    """A function of every family with small inputs by name; vectors of more than one number."""
    x, qkv = draw(1, 9, 4), {n: draw(1, 4, 9, 16, seed=n_) for n_, n in enumerate("qkv")}
    w = draw(4, seed=7)
    heads = draw(1, 9, 4, 16)
    keys = {"B": draw(1, 9, 1, 16, seed=1), "C": draw(1, 9, 1, 16, seed=2)}
    states = {"A": -draw(4, 3).abs(), "B": draw(1, 9, 3, seed=1), "C": draw(1, 9, 3, seed=2)}
    beta = torch.sigmoid(draw(1, 4, 9))
    mamba = {"u": x, "delta": draw(1, 9, 4, seed=3), **states, "D": w, "delta_bias": w.abs()}
    mamba2 = {"x": heads, "dt": draw(1, 9, 4).abs(), "A": -w.abs(), **keys, "D": w, "dt_bias": w}
    starts = torch.tensor([0, 3, 9], dtype=torch.int32)
    rows = {f"{n}": m[0].transpose(0, 1) for n, m in qkv.items()}

    def delta(**given: torch.Tensor) -> Any:
        given["k"] = torch.nn.functional.normalize(given["k"], dim=-1)
        return kernels.linear_attention(**{"chunk": 16, **given}, output_state=True)

    def linear(**given: torch.Tensor) -> Any:
        return kernels.linear_attention(**{"chunk": 16, **given}, output_state=True)

    def packed(**given: torch.Tensor) -> Any:
        return kernels.ssd(**given, softplus=True, output_state=True)

    return {
        "softmax": (kernels.fused_softmax, {"x": x}),
        "flash": (kernels.flash_attention, {**qkv, "alibi": w.abs()}),
        "flash-varlen": (
            kernels.flash_attention_varlen,
            {**rows, "cu_seqlens_q": starts, "cu_seqlens_k": starts, "alibi": w.abs()},
        ),
        "linear": (linear, qkv),
        "decay": (linear, {**qkv, "decay": -w.abs()}),
        "gates": (linear, {**qkv, "gate": -draw(1, 4, 9, 16, seed=5).abs()}),
        "delta": (delta, {**qkv, "beta": beta}),
        "gated-delta": (delta, {**qkv, "beta": beta, "gate": -draw(1, 4, 9, seed=5).abs()}),
        "selective-scan": (kernels.selective_scan, {**mamba, "z": draw(1, 9, 4, seed=4)}),
        "ssd": (packed, mamba2),
        "ssd-packed": (packed, {**mamba2, "cu_seqlens": starts}),
        "rg-lru": (
            kernels.rg_lru,
            {"x": x, "input_gate": mamba["delta"], "recurrence_gate": x + 1, "parameter": w},
        ),
        "conv1d": (kernels.causal_conv1d, {"x": x, "w": draw(4, 4), "b": w}),
        "rms-norm": (kernels.rms_norm, {"x": x, "weight": w}),
        "layer-norm": (kernels.layer_norm, {"x": x, "weight": w, "bias": draw(4, seed=8)}),
        "rope": (
            kernels.apply_rope,
            {
                "x": qkv["q"],
                **dict(zip(("cos", "sin"), kernels.rope_table(12, 8), strict=True)),
                "positions": torch.arange(9) + 2,
            },
        ),
        "cross-entropy": (
            kernels.cross_entropy,
            {"logits": x, "targets": torch.arange(9)[None] % 4},
        ),
    }


CONSTANT = ("alibi", "cos", "sin")  # no gradient: an error says so


def run(function: Callable[..., Any], inputs: Inputs) -> Inputs:
    """Outputs and gradients by name."""
    leaves = {n: x.detach() for n, x in inputs.items()}
    wanted = [
        x.requires_grad_() for n, x in leaves.items() if x.is_floating_point() and n not in CONSTANT
    ]
    outputs = function(**leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    grads = [draw(*o.shape, seed=20).to(o) for o in outputs]
    found = torch.autograd.grad(outputs, wanted, grads)
    return {str(n): x.detach() for n, x in enumerate((*outputs, *found))}


def spread_out(x: torch.Tensor) -> torch.Tensor:
    """The same numbers, every third of a longer vector; NaN, or nonsense, between them."""
    between = float("nan") if x.is_floating_point() else 10**6
    longer = torch.full((3 * len(x),), between, dtype=x.dtype)
    longer[::3] = x
    return longer[::3]


VECTORS = {
    f"{name}-{argument}": (name, argument)
    for name, (_, inputs) in operators().items()
    for argument, x in inputs.items()
    if x.dim() == 1
}


@pytest.mark.thin(keep=5)
@pytest.mark.parametrize(("name", "argument"), VECTORS.values(), ids=VECTORS)
def test_vectors_with_strides(name: str, argument: str):
    function, inputs = operators()[name]
    want = run(function, inputs)
    got = run(function, inputs | {argument: spread_out(inputs[argument])})
    for part, value in got.items():
        torch.testing.assert_close(value, want[part], rtol=0, atol=0)


@pytest.mark.thin(keep=3)
@pytest.mark.parametrize(
    ("name", "argument"), [v for v in VECTORS.values() if "seqlens" not in v[1]], ids=str
)
def test_expanded_vectors(name: str, argument: str):
    """One number for all, as ``torch.ones(1).expand(C)``."""
    function, inputs = operators()[name]
    x = inputs[argument]
    if not x.is_floating_point():
        pytest.skip("positions that are all the same are test_rope's")
    one = x[:1].clone()
    want = run(function, inputs | {argument: one.expand(len(x)).contiguous()})
    got = run(function, inputs | {argument: one.expand(len(x))})
    for part, value in got.items():
        torch.testing.assert_close(value, want[part], rtol=0, atol=0)


@pytest.mark.thin(keep=3)
@pytest.mark.parametrize("name", sorted(operators(), key=lambda name: "ssd" not in name))
def test_gradients_under_checkpoint(name: str):
    function, inputs = operators()[name]

    def again(**given: Any) -> Any:
        return checkpoint(function, **given, use_reentrant=False)

    want, got = run(function, inputs), run(again, inputs)
    assert got.keys() == want.keys()
    for part, value in got.items():
        assert torch.equal(value, want[part]), part


HABITS: list[dict[str, Any]] = [
    {"softcap": 0.0},
    {"window": (-1, -1)},
    {"window": -1},
    {"window": (3, -1)},
]


@pytest.mark.parametrize("habit", HABITS, ids=str)
def test_values_that_mean_off_elsewhere_mean_it_here(habit: dict[str, Any]):
    inputs = {n: operators()["flash"][1][n] for n in "qkv"}
    same = {"window": (3, None)} if habit.get("window") == (3, -1) else {}
    want = kernels.flash_attention(**inputs, **same)
    assert torch.equal(kernels.flash_attention(**inputs, **habit), want)
    assert torch.equal(
        kernels.naive_attention(**inputs, **habit)[0], kernels.naive_attention(**inputs, **same)[0]
    )


def test_no_cap_and_no_window_of_decoding():
    q, k, n = draw(2, 4, 8), draw(2, 2, 9, 8), torch.tensor([9, 4])
    for function in (kernels.decode_attention, kernels.naive_decode_attention):
        want = function(q, k, k, n)
        got = function(q, k, k, n, softcap=0.0, window=-1)
        torch.testing.assert_close(got, want, rtol=0, atol=0)


FOREIGN = {
    "flash_attn's scale": ("flash", "softmax_scale", r"no argument softmax_scale\. Next: scale"),
    "flash_attn's window": ("flash", "window_size", "Next: window"),
    "flash_attn's varlen": ("flash-varlen", "max_seqlen_q", "Next: nothing: only the starts"),
    "SDPA's mask": ("flash", "attn_mask", "Next: causal, window or alibi; for any other mask"),
    "SDPA's dropout": ("flash", "dropout_p", "there is no dropout here"),
    "fla's chunk": ("linear", "chunk_size", "Next: chunk"),
    "fla's state": ("linear", "output_final_state", "Next: output_state"),
    "mamba_ssm's softplus": ("selective-scan", "delta_softplus", "Next: softplus"),
    "mamba_ssm's chunk": ("ssd", "chunk_size", "Next: chunk"),
    "causal_conv1d's bias": ("conv1d", "bias", "Next: b"),
    "fla's layout": (
        "linear",
        "head_first",
        r"Next: layout, 'bhtd' \(heads before time\) or 'bthd'",
    ),
    "Llama's positions": ("rope", "position_ids", "Next: positions"),
    "mamba_ssm's names": ("selective-scan", "dt_bias", "Next: delta_bias"),
    "a slip": ("flash", "casual", r"Next: help\(flash_attention\) lists"),
}


@pytest.mark.parametrize(("name", "argument", "said"), FOREIGN.values(), ids=FOREIGN)
def test_names_brought_from_elsewhere_are_translated(name: str, argument: str, said: str):
    function, inputs = operators()[name]
    with pytest.raises(TypeError, match=said):
        function(**inputs, **{argument: 1})


def test_a_name_the_step_has_not_is_named_too():
    q, k, n = draw(2, 4, 8), draw(2, 2, 9, 8), torch.tensor([9, 4])
    for step, count in (("linear_attention", 4), ("selective_scan", 6), ("ssd", 6)):
        named: Any = {"dt_softplus": True} if count == 6 else {"gk": q}
        with pytest.raises(TypeError, match=f"{step}_step has no argument"):
            getattr(kernels, f"{step}_step")(*[q] * count, **named)
    foreign: Any = {"cache_seqlens": n}
    with pytest.raises(TypeError, match=r"no argument cache_seqlens\. Next: lengths"):
        kernels.decode_attention(q, k, k, n, **foreign)


FAR = 2**30  # numbers from head to head: the third head is 2³¹ away


@contextmanager
def room(numbers: int) -> Iterator[torch.Tensor]:
    """Address space for so many bytes; only pages that are touched become memory."""
    try:
        base = torch.empty(numbers, dtype=torch.float16)
    except RuntimeError:
        pytest.skip("the system does not lend more addresses than it has memory")
    yield base


@pytest.mark.skipif(torch.cuda.is_available(), reason="test_*_gpu.py look at this on the GPU")
@pytest.mark.parametrize("kind", ["linear", "decay", "gates", "delta", "gated-delta"])
def test_heads_farther_apart_than_32_bits_count(kind: str):
    function, inputs = operators()[kind]
    q, k, v = (inputs[n][:, :3].half() for n in "qkv")
    others = {n: x[:3] if n == "decay" else x[:, :3] for n, x in inputs.items() if n not in "qkv"}
    numbers = q[0, 0].numel()
    with room(2 * FAR + 4 * numbers) as base:
        apart = {
            name: base[number * numbers :].as_strided(x.shape, (0, FAR, *x.stride()[2:]))
            for number, (name, x) in enumerate({"q": q, "k": k, "v": v}.items())
        }
        for name, x in apart.items():
            x.copy_(inputs[name][:, :3])
        want = run(function, {"q": q, "k": k, "v": v, **others})
        got = run(function, {**apart, **others})
    for part, value in got.items():
        assert torch.equal(value, want[part]), part
