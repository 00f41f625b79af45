"""Chapter 24's references against Hugging Face's Mamba, this project's kernels and plain loops."""

import math
from typing import Any

import attend_kernels
import pytest
import torch
from attend_solutions.mamba import (
    IGNORED,
    NOISE,
    READ,
    MambaBlock,
    associative_scan,
    causal_conv1d,
    discretize_selective,
    mamba_step,
    raw_scan,
    selective_copy_data,
    selective_parameters,
    selective_scan,
)
from torch import Tensor, nn
from torch.nn import functional
from transformers import MambaConfig
from transformers.models.mamba.modeling_mamba import MambaForCausalLM, MambaMixer

SIZES = [
    # B, T, C, N
    pytest.param(1, 1, 4, 1, id="B1-T1-C4-N1"),
    pytest.param(2, 3, 8, 2, id="B2-T3-C8-N2"),
    pytest.param(3, 13, 20, 5, id="B3-T13-C20-N5"),
]


def close(actual: Tensor, expected: Tensor) -> None:
    """float64 throughout, sums of a few dozen products: 1e-12 is a hundredfold margin."""
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


def arguments(batch: int, tokens: int, inner: int, state: int) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(tokens)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    return {
        "x": normal(batch, tokens, inner),
        "delta": functional.softplus(normal(batch, tokens, inner)),
        "a": -torch.exp(normal(inner, state)),
        "b": normal(batch, tokens, state),
        "c": normal(batch, tokens, state),
        "skip": normal(inner),
    }


def theirs(block: MambaBlock, layers: int = 1) -> tuple[MambaConfig, dict[str, Tensor]]:
    """Hugging Face's configuration and one mixer's weights for ``block``."""
    inner, rank = block.delta.shape
    config = MambaConfig(
        vocab_size=7,
        hidden_size=inner // 2,
        state_size=block.a_log.shape[1],
        num_hidden_layers=layers,
        conv_kernel=block.taps.shape[1],
        time_step_rank=rank,
        residual_in_fp32=False,
    )
    weights = {
        "in_proj.weight": block.input.weight,
        "conv1d.weight": block.taps[:, None],
        "conv1d.bias": block.taps_bias,
        "x_proj.weight": block.select,
        "dt_proj.weight": block.delta,
        "dt_proj.bias": block.delta_bias,
        "A_log": block.a_log,
        "D": block.skip,
        "out_proj.weight": block.output.weight,
    }
    return config, {name: weight.detach().clone() for name, weight in weights.items()}


class WideMixer(MambaMixer):
    """Hugging Face's mixer takes ``.float()`` of its parameters; in float64 that must be none."""

    def forward(self, hidden_states: Tensor, *args: object, **more: object) -> Tensor:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Tensor, "float", lambda tensor: tensor)
            return super().forward(hidden_states, *args, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("batch", "tokens", "width", "state"), SIZES)
def test_the_block_is_hugging_faces_with_the_same_weights(
    batch: int, tokens: int, width: int, state: int
) -> None:
    torch.manual_seed(1)
    ours = MambaBlock(width, state).double()
    nn.init.normal_(ours.taps_bias)
    nn.init.normal_(ours.skip)
    config, weights = theirs(ours)
    mixer = WideMixer(config, layer_idx=0).double()
    mixer.load_state_dict(weights)
    x = torch.randn(batch, tokens, width, dtype=torch.float64, requires_grad=True)
    y, wanted = ours(x), mixer(x)
    close(y, wanted)
    pull = torch.randn_like(y)
    got = torch.autograd.grad(y, [x, *ours.parameters()], pull)
    right = torch.autograd.grad(wanted, [x, *mixer.parameters()], pull)
    names = ["x", *(name for name, _ in ours.named_parameters())]
    found = dict(zip(names, got, strict=True))
    expected = dict(zip(["x", *(name for name, _ in mixer.named_parameters())], right, strict=True))
    pairs = dict(zip(found, [None] * len(found), strict=True))
    pairs |= {
        "x": "x",
        "input.weight": "in_proj.weight",
        "taps": "conv1d.weight",
        "taps_bias": "conv1d.bias",
        "select": "x_proj.weight",
        "delta": "dt_proj.weight",
        "delta_bias": "dt_proj.bias",
        "a_log": "A_log",
        "skip": "D",
        "output.weight": "out_proj.weight",
    }
    for name, other in pairs.items():
        assert other is not None
        close(found[name].flatten(), expected[other].flatten())


def test_decoding_is_hugging_faces_with_its_cache() -> None:
    """Both in float32, as its cache is: sums of 32 products, so 1e-5 is a hundredfold margin."""
    torch.manual_seed(2)
    ours = MambaBlock(16, 4)
    config, weights = theirs(ours)
    model = MambaForCausalLM(config).eval()
    layer: Any = model.backbone.layers[0]
    layer.mixer.load_state_dict(weights)
    tokens = torch.randint(7, (2, 9))
    norm, last, table = layer.norm, model.backbone.norm_f, model.lm_head.weight
    recent, state = torch.zeros(2, 3, 32), torch.zeros(2, 32, 4)
    cache = None
    with torch.no_grad():
        for t in range(tokens.shape[1]):
            answer = model(tokens[:, t : t + 1], cache_params=cache, use_cache=True)
            cache = answer.cache_params
            x = model.backbone.embeddings(tokens[:, t])
            y, recent, state = mamba_step(dict(ours.named_parameters()), norm(x), recent, state)
            torch.testing.assert_close(
                last(x + y) @ table.T, answer.logits[:, 0], rtol=1e-5, atol=1e-5
            )


@pytest.mark.parametrize(("batch", "tokens", "width", "state"), SIZES)
def test_step_after_step_is_the_block(batch: int, tokens: int, width: int, state: int) -> None:
    torch.manual_seed(3)
    block = MambaBlock(width, state, taps=3).double()
    x = torch.randn(batch, tokens, width, dtype=torch.float64)
    recent = x.new_zeros(batch, 2, 2 * width)
    h = x.new_zeros(batch, 2 * width, state)
    rows = []
    for t in range(tokens):
        y, recent, h = mamba_step(dict(block.named_parameters()), x[:, t], recent, h)
        rows.append(y)
    close(torch.stack(rows, dim=1), block(x))


@pytest.mark.parametrize(("batch", "tokens", "width", "state"), SIZES)
def test_the_scan_is_the_kernels(batch: int, tokens: int, width: int, state: int) -> None:
    given = arguments(batch, tokens, width, state)
    wanted = attend_kernels.naive_selective_scan(
        given["x"], given["delta"], given["a"], given["b"], given["c"], D=given["skip"],
        softplus=False,
    )  # fmt: skip
    for got, right in zip(selective_scan(**given), wanted, strict=True):
        close(got, right)


@pytest.mark.parametrize(("batch", "tokens", "width", "state"), SIZES)
def test_the_scan_from_raw_steps_is_the_kernels(
    batch: int, tokens: int, width: int, state: int
) -> None:
    given = arguments(batch, tokens, width, state)
    x, raw, bias = given["x"], given["delta"] - 2, given["skip"]
    a, b, c = given["a"], given["b"], given["c"]
    wanted = attend_kernels.naive_selective_scan(x, raw, a, b, c, delta_bias=bias, softplus=True)
    for got, right in zip(raw_scan(x, raw, bias, a, b, c), wanted, strict=True):
        close(got, right)


def test_the_scan_goes_on_from_a_state() -> None:
    given = arguments(2, 9, 3, 4)
    whole, last = selective_scan(**given)
    early = {n: v if n in ("a", "skip") else v[:, :5] for n, v in given.items()}
    late = {n: v if n in ("a", "skip") else v[:, 5:] for n, v in given.items()}
    first, state = selective_scan(**early)
    second, end = selective_scan(**late, state=state)
    close(torch.cat([first, second], dim=1), whole)
    close(end, last)


@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 5, 7, 8, 13, 64, 100])
def test_the_tree_gives_the_states_of_the_loop_in_few_rounds(tokens: int) -> None:
    given = arguments(2, tokens, 3, 4)
    decay, gain = discretize_selective(given["delta"], given["a"], given["b"])
    written = gain * given["x"][..., None]
    states, pairs, rounds = associative_scan(decay, written)
    h = torch.zeros_like(written[:, 0])
    for t in range(tokens):
        h = decay[:, t] * h + written[:, t]
        close(states[:, t], h)
    assert tokens - 1 <= pairs <= 2 * tokens
    assert rounds <= max(0, 2 * math.floor(math.log2(tokens)))


def test_the_trees_gradients_are_the_loops() -> None:
    given = arguments(1, 11, 2, 3)
    decay, gain = discretize_selective(given["delta"], given["a"], given["b"])
    leaves = [decay.requires_grad_(), (gain * given["x"][..., None]).requires_grad_()]
    states, _, _ = associative_scan(*leaves)
    h, rows = torch.zeros_like(states[:, 0]), []
    for t in range(11):
        h = leaves[0][:, t] * h + leaves[1][:, t]
        rows.append(h)
    pull = torch.randn_like(states)
    got = torch.autograd.grad(states, leaves, pull)
    for mine, right in zip(got, torch.autograd.grad(torch.stack(rows, 1), leaves, pull)):  # noqa: B905
        close(mine, right)


@pytest.mark.parametrize("taps", [1, 2, 4, 9])
def test_the_convolution_is_torchs_and_the_kernels(taps: int) -> None:
    x = torch.randn(2, 7, 3, dtype=torch.float64)
    weight, bias = torch.randn(3, taps).double(), torch.randn(3).double()
    layer = nn.Conv1d(3, 3, taps, groups=3, padding=taps - 1).double()
    layer.load_state_dict({"weight": weight[:, None], "bias": bias})
    wanted = layer(x.transpose(1, 2))[..., :7].transpose(1, 2)
    close(causal_conv1d(x, weight, bias), wanted)
    close(
        causal_conv1d(x, weight, bias),
        attend_kernels.naive_causal_conv1d(x, weight, bias, activation=None),
    )


def test_selective_parameters_are_two_linear_layers() -> None:
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    select, delta = nn.Linear(6, 3 + 2 * 4, bias=False).double(), nn.Linear(3, 6).double()
    low = select(x)
    got = selective_parameters(x, select.weight, delta.weight, delta.bias)
    wanted = (functional.softplus(delta(low[..., :3])), low[..., 3:7], low[..., 7:])
    for mine, right in zip(got, wanted, strict=True):
        close(mine, right)


def test_the_decay_is_the_matrix_exponential() -> None:
    given = arguments(2, 3, 2, 4)
    decay, gain = discretize_selective(given["delta"], given["a"], given["b"])
    for t in range(3):
        for e in range(2):
            step = given["delta"][1, t, e]
            close(decay[1, t, e], torch.linalg.matrix_exp(step * given["a"][e].diag()).diag())
            close(gain[1, t, e], step * given["b"][1, t])


def test_selective_copying_is_what_its_words_say() -> None:
    draw = torch.Generator().manual_seed(0)
    keys = torch.rand(50, 12, generator=draw)
    symbols = torch.randint(2, 10, (50, 3), generator=draw)
    tokens, targets = selective_copy_data(keys, symbols)
    for row, key, wanted, target in zip(tokens, keys, symbols, targets, strict=True):
        places = [t for t in range(12) if row[t] != NOISE]
        assert row[places].tolist() == wanted.tolist()
        assert key[places].max() < key[[t for t in range(12) if t not in places]].min()
        assert row[12:].tolist() == [READ] * 3
        assert target[:12].tolist() == [IGNORED] * 12
        assert target[12:].tolist() == wanted.tolist()


def test_gradients_reach_every_parameter_of_the_block() -> None:
    block = MambaBlock(8, 3)
    block(torch.randn(2, 5, 8)).square().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in block.parameters())
