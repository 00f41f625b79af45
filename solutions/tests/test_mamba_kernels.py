"""Chapter 25's references against Hugging Face's Mamba-2, this project's kernels, plain loops."""

from __future__ import annotations

import itertools
from typing import Any

import attend_kernels
import pytest
import torch
from attend_kernels.ops.ssd.naive import segsum as kernels_segsum
from attend_solutions.mamba import selective_scan
from attend_solutions.mamba_kernels import (
    Mamba2Block,
    best_chunk,
    segsum,
    ssd_chunked,
    ssd_quadratic,
    ssd_recurrent,
)
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import Mamba2Config
from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

SIZES = [
    # B, T, H, D, N
    pytest.param(1, 1, 1, 1, 1, id="B1-T1-H1-D1-N1"),
    pytest.param(2, 7, 3, 4, 2, id="B2-T7-H3-D4-N2"),
    pytest.param(1, 33, 2, 5, 8, id="B1-T33-H2-D5-N8"),
]


def close(actual: Tensor, expected: Tensor) -> None:
    """float64 throughout, sums of a few dozen products: 1e-12 is a hundredfold margin."""
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


def arguments(batch: int, tokens: int, heads: int, width: int, state: int) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(tokens)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    return {
        "x": normal(batch, tokens, heads, width),
        "log_decay": -normal(batch, tokens, heads).exp(),
        "b": normal(batch, tokens, state),
        "c": normal(batch, tokens, state),
    }


def kernels(given: dict[str, Tensor], state: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The project's own scan: Δ is −log decay, A is −1, so x comes divided by Δ."""
    dt = -given["log_decay"]
    b, c = (given[name][:, :, None] for name in ("b", "c"))
    a = -torch.ones(dt.shape[2], dtype=dt.dtype)
    return attend_kernels.naive_ssd(given["x"] / dt[..., None], dt, a, b, c, initial_state=state)


@pytest.mark.parametrize(("batch", "tokens", "heads", "width", "state"), SIZES)
def test_all_forms_are_the_kernels(
    batch: int, tokens: int, heads: int, width: int, state: int
) -> None:

    given = arguments(batch, tokens, heads, width, state)
    want, last = kernels(given)
    close(ssd_quadratic(**given), want)
    for y, h in (ssd_recurrent(**given), *(ssd_chunked(**given, chunk=q) for q in (1, 2, 5, 64))):
        close(y, want)
        close(h, last)


def test_all_forms_go_on_from_a_state() -> None:
    given, state = arguments(2, 9, 3, 4, 2), torch.randn(2, 3, 4, 2, dtype=torch.float64)
    want, last = kernels(given, state)
    for y, h in (
        ssd_recurrent(**given, state=state),
        *(ssd_chunked(**given, chunk=q, state=state) for q in (1, 4, 9, 20)),
    ):
        close(y, want)
        close(h, last)


def test_gradients_of_all_forms_are_the_recurrences() -> None:
    given = {n: m.requires_grad_() for n, m in arguments(2, 11, 2, 3, 4).items()}
    pull = torch.randn(2, 11, 2, 3, dtype=torch.float64)
    want = torch.autograd.grad(ssd_recurrent(**given)[0], list(given.values()), pull)
    for y in (ssd_quadratic(**given), ssd_chunked(**given, chunk=4)[0]):
        for got, right in zip(
            torch.autograd.grad(y, list(given.values()), pull), want, strict=True
        ):
            close(got, right)


@pytest.mark.parametrize("shape", [(1,), (2, 5), (2, 3, 13)], ids=str)
def test_segsum_is_the_kernels_and_a_plain_sum(shape: tuple[int, ...]) -> None:
    logs = -torch.rand(*shape, dtype=torch.float64)
    got = segsum(logs)
    close(got, kernels_segsum(logs))
    for t, s in itertools.product(range(shape[-1]), repeat=2):
        want = logs[..., s + 1 : t + 1].sum(-1) if s <= t else torch.tensor(-torch.inf)
        close(got[..., t, s], want.double().expand(shape[:-1]))


def test_segsum_keeps_the_digits_that_running_sums_lose() -> None:
    """In float32 a running sum past −4·10⁷ moves in steps of 4, so 0.25 is lost in it."""
    logs = torch.tensor([-1.0, -4e7, -0.25, -0.5])
    running = logs.cumsum(0)
    assert segsum(logs)[3, 1] == -0.75
    assert running[3] - running[1] == 0.0


def test_segsum_takes_a_decay_of_zero() -> None:
    got = segsum(torch.tensor([0.0, -torch.inf, -1.0]))
    assert not got.isnan().any()
    assert got[2].tolist() == [-torch.inf, -1.0, 0.0]


class Multiplications(TorchDispatchMode):
    """Counts multiplications of products and elementwise multiplications."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in ("bmm", "mm"):
            self.count += result.numel() * args[0].shape[-1]
        elif name == "mul":
            self.count += result.numel()
        return result


@pytest.mark.parametrize("tokens", [1, 8, 21])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 4, 2), (2, 5, 8)], ids=str)
def test_the_chosen_chunk_has_the_fewest_counted_multiplications(
    tokens: int, sizes: tuple[int, int, int]
) -> None:
    """Counted while ``ssd_chunked`` runs, for every chunk length."""
    given = arguments(1, tokens, *sizes)
    counts = {}
    for chunk in range(1, tokens + 1):
        with Multiplications() as counter:
            ssd_chunked(**given, chunk=chunk)
        counts[chunk] = counter.count
    best = min(counts, key=lambda q: counts[q])
    assert best_chunk(tokens, *sizes, room=10**9) == (best, counts[best])


def test_the_best_chunk_is_near_the_formulas() -> None:
    """Per step and head q (N / H + D + 1) + N D / q and a constant: least at the root."""
    for heads, width, state in ((1, 64, 64), (8, 64, 128), (32, 64, 128), (4, 16, 16)):
        root = (width * state / (state / heads + width + 1)) ** 0.5
        chunk, _ = best_chunk(4096, heads, width, state, 10**9)
        assert abs(chunk - root) <= 1


def test_the_best_chunk_fits() -> None:
    room = 5 * 5 + 5 * (64 + 2 * 64) + 64 * 64
    assert best_chunk(1000, 4, 64, 64, room)[0] == 5
    assert best_chunk(1000, 4, 64, 64, room - 1)[0] == 4


def theirs(block: Mamba2Block) -> Mamba2Mixer:
    """Hugging Face's mixer with one block's weights."""
    heads, inner = len(block.a_log), block.output.in_features
    config = Mamba2Config(
        hidden_size=inner // 2,
        num_heads=heads,
        head_dim=inner // heads,
        expand=2,
        state_size=(len(block.taps) - inner) // 2,
        n_groups=1,
        conv_kernel=block.taps.shape[1],
        chunk_size=4,
        num_hidden_layers=1,
    )
    mixer = Mamba2Mixer(config, layer_idx=0)
    weights = {
        "in_proj.weight": block.input.weight,
        "conv1d.weight": block.taps[:, None],
        "conv1d.bias": block.taps_bias,
        "dt_bias": block.delta_bias,
        "A_log": block.a_log,
        "D": block.skip,
        "norm.weight": block.norm.weight,
        "out_proj.weight": block.output.weight,
    }
    mixer.load_state_dict({name: weight.detach().clone() for name, weight in weights.items()})
    return mixer


NAMES = {
    "input.weight": "in_proj.weight",
    "taps": "conv1d.weight",
    "taps_bias": "conv1d.bias",
    "delta_bias": "dt_bias",
    "a_log": "A_log",
    "skip": "D",
    "norm.weight": "norm.weight",
    "output.weight": "out_proj.weight",
}


@pytest.mark.parametrize(
    ("width", "state", "heads", "taps"), [(4, 3, 2, 4), (6, 2, 3, 2), (8, 5, 1, 4)]
)
def test_the_block_is_hugging_faces_with_the_same_weights(
    width: int, state: int, heads: int, taps: int
) -> None:
    """In float32, as theirs computes: sums of some 30 products, so 2e-5 is a wide margin."""
    torch.manual_seed(3)
    ours = Mamba2Block(width, state, heads, taps, chunk=3)
    for name, parameter in ours.named_parameters():
        if name != "a_log":
            nn.init.normal_(parameter, std=0.5)
    mixer = theirs(ours)
    x = torch.randn(2, 11, width, requires_grad=True)
    y, want = ours(x), getattr(mixer, "torch_forward", mixer.forward)(x)
    torch.testing.assert_close(y, want, rtol=2e-5, atol=2e-5)
    pull = torch.randn_like(y)
    mine = dict(ours.named_parameters())
    other = dict(mixer.named_parameters())
    got = torch.autograd.grad(y, [x, *(mine[n] for n in NAMES)], pull)
    right = torch.autograd.grad(want, [x, *(other[n] for n in NAMES.values())], pull)
    for one, two in zip(got, right, strict=True):
        scale = float(two.abs().max())
        torch.testing.assert_close(one.flatten(), two.flatten(), rtol=1e-4, atol=1e-4 * scale)


def test_the_block_does_not_depend_on_its_chunk() -> None:
    torch.manual_seed(4)
    block = Mamba2Block(8, 4, 2).double()
    x = torch.randn(2, 13, 8, dtype=torch.float64)
    want = block(x)
    for chunk in (1, 4, 13, 50):
        block.chunk = chunk
        close(block(x), want)


def single(given: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: m.float() for name, m in given.items()}


@pytest.mark.parametrize("tokens", [1, 16, 37])
def test_the_chunked_kernels_are_the_recurrence(tokens: int) -> None:
    """float32, sums of 32 products of size 1: 1e-4 of a result up to 30 is the same few ulps."""
    pytest.importorskip("triton")
    from attend_solutions import ssd_triton

    given = arguments(2, tokens, 3, 16, 32)
    want, last = ssd_recurrent(**given)
    x, logs, b, c = single(given).values()
    written = ssd_triton.triton_chunk_state(x, logs, b, 16)
    before, end = ssd_triton.states_before(written, logs, 16)
    y = ssd_triton.triton_chunk_scan(x, logs, b, c, before, 16)
    torch.testing.assert_close(y, want.float(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(end, last.float(), rtol=1e-4, atol=1e-4)
    paper = attend_kernels.naive_ssd_chunked(
        given["x"] / -logs.double()[..., None], -logs.double(), -torch.ones(3).double(),
        given["b"][:, :, None], given["c"][:, :, None], chunk=16,
    )[0]  # fmt: skip
    torch.testing.assert_close(y, paper.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("tokens", "channels", "state"), [(1, 3, 1), (5, 8, 4), (6, 19, 2)])
def test_the_scan_kernel_is_chapter_24s_scan_and_the_kernels(
    tokens: int, channels: int, state: int
) -> None:
    pytest.importorskip("triton")
    from attend_solutions import ssd_triton

    draw = torch.Generator().manual_seed(tokens)
    x, delta = (torch.randn(2, tokens, channels, generator=draw) for _ in range(2))
    delta, a = delta.exp(), -torch.rand(channels, state, generator=draw)
    b, c = (torch.randn(2, tokens, state, generator=draw) for _ in range(2))
    h = torch.randn(2, channels, state, generator=draw)
    y, last = ssd_triton.triton_selective_scan(x, delta, a, b, c, h)
    want, end = selective_scan(x, delta, a, b, c, torch.zeros(channels), h)
    torch.testing.assert_close(y, want, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(last, end, rtol=1e-5, atol=1e-5)
    theirs_, theirs_end = attend_kernels.naive_selective_scan(
        x, delta, a, b, c, softplus=False, initial_state=h
    )
    torch.testing.assert_close(y, theirs_, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(last, theirs_end, rtol=1e-5, atol=1e-5)
