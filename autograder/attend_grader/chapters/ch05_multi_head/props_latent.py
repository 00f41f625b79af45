"""Chapter 05, latents and bytes: what must hold of LatentAttention and of kv_cache_bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from attend_solutions.multi_head import LatentAttention, MultiHeadAttention
from torch import Tensor

from attend_grader.chapters.ch05_multi_head.props_heads import (
    SCALE,
    agree_mask,
    causal,
    padded,
    row_sums,
)
from attend_grader.checks.compare import FLOAT32, PRINTED
from attend_grader.checks.exercise import Call, Probe, Property, Test
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_properties import (
    agree_gradients,
    agree_untouched,
    module_call,
    normal,
)

# LatentAttention

LAYERS = ("query.weight", "compress.weight", "key.weight", "value.weight", "output.weight")
ABSORBED = "forward_absorbed"


def worked_parameters() -> Mapping[str, Tensor]:
    """Width 2, 2 heads, rank 1: the latent is the first number of a token."""
    matrices = (
        torch.eye(2),
        torch.tensor([[1.0, 0.0]]),
        torch.tensor([[float(np.log(3))], [0.0]]),
        torch.tensor([[8.0], [4.0]]),
        torch.tensor([[1.0, 0.0], [1.0, 1.0]]),
    )
    return dict(zip(LAYERS, matrices, strict=True))


def latent_worked(subject: Subject, probe: Probe) -> None:
    """Tokens (1, 0) and (0, 1): latents 1 and 0, keys (ln 3, 0) and (0, 0), values (8, 4), 0."""
    built, inside = probe.build(subject, 2, 2, 1, parameters=worked_parameters())
    weights = torch.tensor([[[[0.75, 0.25], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]]])
    want = (torch.tensor([[[6.0, 8.0], [4.0, 6.0]]]), weights)
    for part in (1, 0):
        inside.agree(built, torch.eye(2)[None], want=want, part=part, tolerance=PRINTED)


def latent_naive(subject: Subject, probe: Probe) -> None:
    """Multi-head attention whose key matrix is W_dkv W_uk, and value matrix W_dkv W_uv."""
    for _ in probe.repeat(1, 3):
        for width, heads, rank in ((8, 4, 3), (6, 2, 6), (6, 3, 1), (8, 2, 5)):
            built, inside = probe.build(subject, width, heads, rank, scale=SCALE)
            state = inside.reference.state_dict()  # type: ignore[attr-defined]  # an instance
            many = MultiHeadAttention(width, heads)
            for name in ("key.weight", "value.weight"):
                state[name] = state[name] @ state["compress.weight"]
            del state["compress.weight"]
            many.load_state_dict(state)
            x = normal(probe.rng, 2, 3, width)
            want = many(x)
            why = f"forward, {heads} heads, rank {rank}"
            for part, clue in ((1, row_sums), (0, lambda value: "")):
                inside.agree(built, x, want=want, part=part, tolerance=FLOAT32, why=why, clue=clue)


def latent_mask(subject: Subject, probe: Probe) -> None:
    """True: may look. One mask for all, or one for each sentence."""
    built, inside = probe.build(subject, 6, 2, 3, scale=SCALE)
    agree_mask(built, inside, 6)


def latent_gradients(subject: Subject, probe: Probe) -> None:
    """To the tokens and to all five projections."""
    built, inside = probe.build(subject, 6, 2, 3, scale=SCALE)
    x = normal(probe.rng, 2, 3, 6)
    agree_gradients(inside, built, x, causal(3), wrt=(0,), parameters=LAYERS)


def latent_awkward(subject: Subject, probe: Probe) -> None:
    """Views; the argument stays as it was."""
    built, inside = probe.build(subject, 6, 2, 3, scale=SCALE)
    agree_untouched(inside, built, normal(probe.rng, 3, 4, 6))


def _scale_clue(right: Tensor, width: int, rank: int) -> Callable[[np.ndarray], str]:
    """What to say of weights that are those of scores divided by √R."""
    powers = right.detach().double() ** (width / rank) ** 0.5
    other = (powers / powers.sum(dim=-1, keepdim=True)).numpy()

    def clue(weights: np.ndarray) -> str:
        if rank != width and np.allclose(weights, other, atol=1e-4):
            return (
                f"Your scores are divided by √R = √{rank}. The queries are {rank} numbers wide now,"
                f" but their scores are those of queries of width D: the scale is still 1/√{width}."
            )
        return row_sums(weights)

    return clue


def absorbed_equal(subject: Subject, probe: Probe) -> None:
    """The output and the weights of forward, for any rank, larger and smaller than D."""
    for _ in probe.repeat(1, 3):
        for width, heads, rank in ((8, 4, 3), (6, 2, 6), (6, 3, 1), (8, 2, 5), (4, 2, 2)):
            built, inside = probe.build(subject, width, heads, rank, scale=SCALE)
            x = normal(probe.rng, 2, 3, width)
            why = (
                f"forward_absorbed against forward, {heads} heads of {width // heads}, rank {rank}"
            )
            want = inside.reference(x)
            clue = _scale_clue(want[1], width // heads, rank)
            for part, told in ((1, clue), (0, lambda value: "")):
                inside.agree(
                    built,
                    x,
                    want=want,
                    part=part,
                    tolerance=FLOAT32,
                    why=why,
                    clue=told,
                    method=ABSORBED,
                )


def absorbed_mask(subject: Subject, probe: Probe) -> None:
    """The mask counts there too."""
    built, inside = probe.build(subject, 6, 2, 3, scale=SCALE)
    agree_mask(built, inside, 6, method=ABSORBED)


def _extreme(which: str) -> Mapping[str, Tensor]:
    """Width 4, 2 heads, rank 2: queries of 0; keys (or values) of 10⁵⁰, too large for float32."""
    huge, one = 1e25, torch.ones(4, 1)
    large = torch.cat([huge * one, one], dim=1)  # the first number of a latent times 10²⁵
    usual = torch.cat([0 * one, one], dim=1)
    return {
        "query.weight": torch.zeros(4, 4),
        "compress.weight": torch.tensor([[huge, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]),
        "key.weight": large if which == "keys" else usual,
        "value.weight": large if which == "values" else usual,
        "output.weight": torch.eye(4),
    }


def absorbed_without(which: str, matrix: str, instead: str) -> Test:
    """Where keys (or values) would overflow, the absorbed form is unmoved: it has none.

    The queries are 0, so all weights are 1/2; the two latents are (±10²⁵, 3) and cancel.
    """

    def clue(value: np.ndarray) -> str:
        if np.isfinite(value).all():
            return ""
        return (
            f"These {which}, c {matrix}, would be 10⁵⁰: too large for float32. You make them; "
            f"{instead}."
        )

    def test(subject: Subject, probe: Probe) -> None:
        x = torch.tensor([[[1.0, 3.0, 0.0, 0.0], [-1.0, 3.0, 0.0, 0.0]]])
        built, inside = probe.build(subject, 4, 2, 2, parameters=_extreme(which))
        want = (torch.full((1, 2, 4), 3.0), torch.full((1, 2, 2, 2), 0.5))
        for part in (1, 0):
            why = f"forward_absorbed must make no {which}"
            inside.agree(built, x, want=want, part=part, why=why, clue=clue, method=ABSORBED)

    return test


absorbed_makes_no_keys = absorbed_without(
    "keys", "W_uk", "carry W_uk over to the queries, q W_ukᵀ, and meet the latents"
)
absorbed_makes_no_values = absorbed_without(
    "values", "W_uv", "take the weighted mean of the latents, then apply W_uv"
)


LATENT = (
    Property("a hand-worked example: rank 1", 1, latent_worked),
    Property("forward: keys and values made from the latents", 1, latent_naive),
    Property("forward: mask", 1, latent_mask),
    Property("forward: gradients reach all five projections", 1, latent_gradients),
    Property("forward: views; argument stays as it was", 1, latent_awkward),
    Property("forward_absorbed: the same output and weights", 2, absorbed_equal),
    Property("forward_absorbed: mask", 1, absorbed_mask),
    Property("forward_absorbed: makes no keys", 2, absorbed_makes_no_keys),
    Property("forward_absorbed: makes no values", 2, absorbed_makes_no_values),
)


def latent_draws(rng: np.random.Generator) -> list[Call]:
    """Both ways; R smaller and larger than D, and equal; masks of both kinds; what overflows."""

    def call(width: int, heads: int, rank: int, *args: Any) -> Call:
        build = Call((width, heads, rank))
        return module_call(LatentAttention, rng, build, *args, scale=SCALE)

    def absorbed(made: Call) -> Call:
        return Call(made.args, made.kwargs, made.build, made.parameters, ABSORBED)

    many, few = call(8, 2, 5, normal(rng, 2, 3, 8)), call(8, 2, 3, normal(rng, 2, 5, 8))
    hidden = call(6, 3, 4, normal(rng, 3, 4, 6), padded(3, 4))
    ahead = call(6, 2, 2, normal(rng, 2, 3, 6), causal(3))
    square = call(6, 2, 3, normal(rng, 2, 4, 6))  # R = D: a transpose too many goes unnoticed
    x = torch.tensor([[[1.0, 3.0, 0.0, 0.0], [-1.0, 3.0, 0.0, 0.0]]])
    extreme = [
        Call((x,), build=Call((4, 2, 2)), parameters=_extreme(which), method=ABSORBED)
        for which in ("keys", "values")
    ]
    pairs = [way for made in (many, few, hidden, ahead) for way in (made, absorbed(made))]
    return [*pairs, absorbed(square), *extreme]


# kv_cache_bytes


def bytes_worked(subject: Subject, probe: Probe) -> None:
    """5 tokens, 3 layers, 2 heads of 4: a key and a value each, 240 numbers of 2 bytes."""
    probe.agree(subject, 5, 3, 2, 4, want=480)
    probe.agree(subject, 1, 1, 1, 1, want=4, why="one key and one value of one number")
    probe.agree(subject, 0, 3, 2, 4, want=0, why="no token yet")


def bytes_published(subject: Subject, probe: Probe) -> None:
    """Llama 2 7B, 4,096 tokens: 2 GiB; Llama 2 70B has an eighth of the heads."""
    why = "Llama 2 7B: 32 layers, 32 heads of 128, 4,096 tokens, 16 bits: 2 GiB"
    probe.agree(subject, 4096, 32, 32, 128, want=2**31, why=why)
    why = "Llama 2 70B: 80 layers, 8 kv_heads of 128, 4,096 tokens"
    probe.agree(subject, 4096, 80, 8, 128, want=1_342_177_280, why=why)


def bytes_options(subject: Subject, probe: Probe) -> None:
    """Sentences and bits multiply; bytes are whole, rounded up, and an int."""
    probe.agree(subject, 10, 2, 3, 4, want=6 * 960, batch=6, why="6 sentences")
    probe.agree(subject, 10, 2, 3, 4, want=480, bits=8, why="8 bits")
    probe.agree(subject, 10, 2, 3, 4, want=1440, bits=4, batch=6, why="4 bits, 6 sentences")
    probe.agree(subject, 3, 1, 1, 1, want=3, bits=4, why="6 numbers of 4 bits")
    probe.agree(subject, 1, 1, 1, 1, want=1, bits=3, why="two numbers of 3 bits")
    probe.agree(subject, 3, 1, 1, 1, want=3, bits=3, why="six numbers of 3 bits")
    outcome = probe.call(subject, 3, 1, 1, 1, bits=4)
    if type(outcome.value) is not int:
        kind = type(outcome.value).__name__
        raise probe.miss(f"returned a {kind}; expected an int: bytes are whole.", 3, 1, 1, 1)


def bytes_latent(subject: Subject, probe: Probe) -> None:
    """A latent stands for all keys and values of a token in a layer."""
    why = "a latent of 7 numbers instead of keys and values"
    probe.agree(subject, 10, 2, 3, 4, want=280, latent=7, why=why)
    probe.agree(subject, 10, 2, 9, 9, want=280, latent=7, why="kv_heads and head_dim do not count")
    why = "DeepSeek-V2: 60 layers, 512 + 64 numbers in a latent, one token"
    probe.agree(subject, 1, 60, 128, 128, want=69_120, latent=576, why=why)


def bytes_window(subject: Subject, probe: Probe) -> None:
    """Older tokens than the window are forgotten."""
    probe.agree(subject, 10, 2, 3, 4, want=384, window=4, why="10 tokens, of which 4 are kept")
    probe.agree(subject, 3, 2, 3, 4, want=288, window=4, why="3 tokens, a window of 4")
    why = "a window, latents, 8 bits and two sentences"
    probe.agree(subject, 10, 2, 3, 4, want=112, why=why, window=4, latent=7, bits=8, batch=2)
    why = "Mistral 7B: 32 layers, 8 kv_heads of 128, a window of 4,096; 100,000 tokens"
    probe.agree(subject, 100_000, 32, 8, 128, want=2**29, window=4096, why=why)


BYTES = (
    Property("hand-worked numbers", 1, bytes_worked),
    Property("published models: Llama 2 7B and 70B", 1, bytes_published),
    Property("sentences and bits; whole bytes", 2, bytes_options),
    Property("a latent in the place of keys and values", 1, bytes_latent),
    Property("a window keeps the last tokens only", 1, bytes_window),
)


def bytes_draws(rng: np.random.Generator) -> list[Call]:
    """Plain, and with each option."""
    tokens, layers, heads, width = (int(n) for n in rng.integers(5, 60, 4))
    plain = (tokens, layers, heads, width)
    return [
        Call(plain),
        Call(plain, {"batch": 3}),
        Call(plain, {"bits": 4}),
        Call(plain, {"latent": 17}),
        Call(plain, {"window": 4}),
        Call(plain, {"window": 100}),
        Call((3, 1, 1, 1), {"bits": 3}),
        Call((1, 1, 1, 1), {"bits": 1, "latent": 3}),
        Call(plain, {"batch": 2, "bits": 8, "latent": 5, "window": 3}),
    ]
