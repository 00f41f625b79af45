"""Chapter 05, heads: what must hold of splitting, of merging and of multi-head attention.

The oracle for the whole is torch's own ``nn.MultiheadAttention`` with the same weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from attend_solutions.multi_head import MultiHeadAttention, split_heads
from torch import Tensor, nn

from attend_grader.checks.compare import FLOAT32, PRINTED
from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_properties import (
    agree_gradients,
    agree_untouched,
    module_call,
    normal,
)

SHAPES = ((2, 3, 8, 4), (1, 4, 6, 2), (3, 2, 12, 3), (2, 4, 8, 4), (2, 4, 16, 4), (1, 1, 6, 3))
"""(B, T, C, H), also with T = H and H = D, where an exchange of axes keeps the shape."""


def whole(rng: np.random.Generator, *shape: int) -> Tensor:
    """Different whole numbers in any order: a wrong place is seen."""
    count = int(np.prod(shape))
    return torch.from_numpy(rng.permutation(count).reshape(shape) + 1)


# split_heads


def split_worked(subject: Subject, probe: Probe) -> None:
    """Two tokens of four numbers, two heads."""
    x = torch.tensor([[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]])
    want = torch.tensor([[[[1.0, 2.0], [5.0, 6.0]], [[3.0, 4.0], [7.0, 8.0]]]])
    probe.agree(subject, x, 2, want=want)


def split_limits(subject: Subject, probe: Probe) -> None:
    """One head: everything; as many heads as numbers: a head for each; one token."""
    x = normal(probe.rng, 2, 3, 4)
    probe.agree(subject, x, 1, want=x[:, None], why="one head")
    probe.agree(subject, x, 4, want=x.mT[..., None], why="a head for each number")
    x = normal(probe.rng, 2, 1, 6)
    probe.agree(subject, x, 3, want=torch.stack(x.split(2, dim=-1), dim=1), why="one token")


def _split_clue(x: Tensor, heads: int) -> Callable[[Any], str]:
    batch, tokens, width = x.shape

    def clue(value: Any) -> str:
        got = torch.as_tensor(value)
        if torch.equal(got, x.reshape(batch, heads, tokens, width // heads)):
            return (
                "reshape fills the new shape in reading order, so a head's first row goes on with "
                "the same token. Cut the width first, to (B, T, H, D), then exchange two axes."
            )
        return ""

    return clue


def split_places(subject: Subject, probe: Probe) -> None:
    """Head h of token t holds the numbers h·D to (h + 1)·D of that token."""
    for _ in probe.repeat(1, 3):
        for batch, tokens, width, heads in SHAPES:
            x = whole(probe.rng, batch, tokens, width).float()
            why = f"B = {batch}, T = {tokens}, C = {width}, {heads} heads"
            want = torch.stack(x.split(width // heads, dim=-1), dim=1)
            probe.agree(subject, x, heads, want=want, why=why, clue=_split_clue(x, heads))


def split_awkward(subject: Subject, probe: Probe) -> None:
    """Views, whole numbers and float64 go through as they are."""
    agree_untouched(probe, subject, normal(probe.rng, 2, 3, 8), 4)
    for kind in (torch.int64, torch.float64):
        outcome = probe.agree(subject, whole(probe.rng, 1, 2, 6).to(kind), 3, why=str(kind))
        keep_dtype(probe, outcome.value, kind)


def keep_dtype(probe: Probe, value: Any, kind: torch.dtype) -> None:
    """Hold a tensor to a dtype.

    Raises:
        Miss: it has another.
    """
    if getattr(value, "dtype", kind) != kind:
        name = probe.reference.__name__
        raise probe.miss(f"{name} only moves numbers: {kind} goes in, {value.dtype} came out.")


def split_gradients(subject: Subject, probe: Probe) -> None:
    """The gradient finds its way back to each number."""
    agree_gradients(probe, subject, normal(probe.rng, 2, 3, 6), 3, wrt=(0,))


SPLIT = (
    Property("a hand-worked example: two tokens, two heads", 1, split_worked),
    Property("one head, a head for each number, one token", 1, split_limits),
    Property("head h gets its own D numbers of every token", 1, split_places),
    Property("views and other types; argument stays as it was", 1, split_awkward),
    Property("gradients flow back", 1, split_gradients),
)


def split_draws(rng: np.random.Generator) -> list[Call]:
    """All lengths different; T = H; H = D; one head; integers."""
    return [
        Call((normal(rng, 2, 3, 20), 4)),
        Call((normal(rng, 1, 3, 6), 3)),
        Call((normal(rng, 2, 5, 9), 3)),
        Call((normal(rng, 2, 4, 6), 1)),
        Call((whole(rng, 2, 2, 4), 2)),
    ]


# merge_heads


def merge_worked(subject: Subject, probe: Probe) -> None:
    """Two heads, three tokens, one number each; then two numbers each."""
    x = torch.tensor([[[[1.0], [2.0], [3.0]], [[4.0], [5.0], [6.0]]]])
    probe.agree(subject, x, want=torch.tensor([[[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]]))
    x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]])
    probe.agree(subject, x, want=torch.tensor([[[1.0, 2.0, 5.0, 6.0], [3.0, 4.0, 7.0, 8.0]]]))


def merge_places(subject: Subject, probe: Probe) -> None:
    """Each token's numbers: those of head 0, then of head 1, and so on."""
    for _ in probe.repeat(1, 3):
        for batch, tokens, width, heads in SHAPES:
            x = whole(probe.rng, batch, heads, tokens, width // heads).float()
            want = torch.cat(list(x.unbind(1)), dim=-1)
            why = f"B = {batch}, H = {heads}, T = {tokens}, D = {width // heads}"
            probe.agree(subject, x, want=want, why=why)


def merge_inverse(subject: Subject, probe: Probe) -> None:
    """What was split comes back (split_heads gives a view: not contiguous)."""
    for batch, tokens, width, heads in SHAPES:
        x = whole(probe.rng, batch, tokens, width).float()
        why = f"of x {tuple(x.shape)} split into {heads} heads, so x itself should come back"
        probe.agree(subject, split_heads(x, heads), want=x, why=why)


def merge_awkward(subject: Subject, probe: Probe) -> None:
    """Views, whole numbers and float64 go through as they are."""
    agree_untouched(probe, subject, normal(probe.rng, 2, 4, 3, 2))
    for kind in (torch.int64, torch.float64):
        outcome = probe.agree(subject, whole(probe.rng, 1, 2, 3, 2).to(kind), why=str(kind))
        keep_dtype(probe, outcome.value, kind)


def merge_gradients(subject: Subject, probe: Probe) -> None:
    """The gradient finds its way back to each number."""
    agree_gradients(probe, subject, normal(probe.rng, 2, 3, 4, 2), wrt=(0,))


MERGE = (
    Property("hand-worked examples: two heads", 1, merge_worked),
    Property("a token's heads lie side by side, in order", 1, merge_places),
    Property("undoes split_heads", 1, merge_inverse),
    Property("views and other types; argument stays as it was", 1, merge_awkward),
    Property("gradients flow back", 1, merge_gradients),
)


def merge_draws(rng: np.random.Generator) -> list[Call]:
    """All lengths different; H = T = D; one head; integers."""
    return [
        Call((normal(rng, 2, 4, 3, 5),)),
        Call((normal(rng, 1, 3, 3, 3),)),
        Call((normal(rng, 2, 1, 4, 3),)),
        Call((whole(rng, 3, 2, 2, 2),)),
    ]


# MultiHeadAttention

SCALE = 0.4
"""Standard deviation of parameters: with widths of 6 to 12 the weights are neither flat nor 0/1."""

LAYERS = ("query.weight", "key.weight", "value.weight", "output.weight")


def causal(tokens: int) -> Tensor:
    """Every token may look at itself and at those before it."""
    return torch.ones(tokens, tokens, dtype=torch.bool).tril()


def padded(batch: int, tokens: int) -> Tensor:
    """A table for each sentence (B, 1, T, T): its last 0, 1, 2, … tokens are padding."""
    lengths = tokens - torch.arange(batch) % tokens
    return (torch.arange(tokens) < lengths[:, None])[:, None, None].expand(batch, 1, tokens, tokens)


def worked_parameters() -> Mapping[str, Tensor]:
    """Width 4, 2 heads of 2: what two one-hot tokens become, and an output that adds.

    Nothing is symmetric, so that an exchange or a transpose shows.
    """
    asked = float(np.log(3)) * 2**0.5
    rows = (
        [[0.0, 0.0, 0.0, asked], [asked, 0.0, 0.0, 0.0]],  # queries of tokens 0 and 1
        [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 1.0]],  # keys
        [[8.0, 0.0, 0.0, 8.0], [0.0, 8.0, 4.0, 0.0]],  # values
    )
    stored = [torch.cat([torch.tensor(two), torch.zeros(2, 4)]).T for two in rows]
    output = torch.eye(4)
    output[1, 0] = 1.0
    return dict(zip(LAYERS, (*stored, output), strict=True))


def heads_worked(subject: Subject, probe: Probe) -> None:
    """Two one-hot tokens: weights of quarters and halves in each head."""
    built, inside = probe.build(subject, 4, 2, parameters=worked_parameters())
    weights = torch.tensor([[[[0.5, 0.5], [0.75, 0.25]], [[0.25, 0.75], [0.5, 0.5]]]])
    want = (torch.tensor([[[4.0, 8.0, 3.0, 2.0], [6.0, 8.0, 2.0, 4.0]]]), weights)
    for part in (1, 0):
        inside.agree(built, torch.eye(4)[None, :2], want=want, part=part, tolerance=PRINTED)


def row_sums(weights: np.ndarray) -> str:
    """A clue: by how much rows of weights miss the sum 1."""
    totals = np.ravel(weights.sum(axis=-1))
    worst = float(totals[np.argmax(np.abs(totals - 1))])
    if abs(worst - 1) < 1e-4 or not np.isfinite(worst):
        return ""
    return f"Each query's weights must sum to 1; somewhere yours sum to {worst:.4g}."


def heads_weights(subject: Subject, probe: Probe) -> None:
    """Each head has its own weights, one distribution for each query."""
    for batch, tokens, width, heads in SHAPES[:4]:
        built, inside = probe.build(subject, width, heads, scale=SCALE)
        x = normal(probe.rng, batch, tokens, width)
        why = f"{heads} heads of width {width // heads}"
        inside.agree(built, x, part=1, tolerance=FLOAT32, why=why, clue=row_sums)


def heads_limits(subject: Subject, probe: Probe) -> None:
    """Equal tokens: equal weights; one token: its value, projected."""
    built, inside = probe.build(subject, 6, 3, scale=SCALE)
    x = normal(probe.rng, 2, 1, 6)
    same = x.expand(2, 4, 6).contiguous()
    state = inside.reference.state_dict()  # type: ignore[attr-defined]  # an instance
    alone = x @ state["value.weight"].mT @ state["output.weight"].mT
    want = (alone.expand(2, 4, 6), torch.full((2, 3, 4, 4), 0.25))
    for part in (0, 1):
        inside.agree(built, same, want=want, part=part, tolerance=FLOAT32, why="equal tokens")
    want = (alone, torch.ones(2, 3, 1, 1))
    inside.agree(built, x, want=want, part=0, tolerance=FLOAT32, why="one token")


def agree_mask(built: Subject, inside: Probe, width: int, method: str | None = None) -> None:
    """Hold a module of any kind to masks: the same for all, one for each sentence, and no leak."""
    x = normal(inside.rng, 3, 4, width)
    rules = {"a causal mask (T, T)": causal(4), "a mask for each sentence": padded(3, 4)}

    def clue(weights: np.ndarray, hidden: Tensor) -> str:
        if weights.ndim == 4 and (weights * hidden.numpy()).max() > 1e-6:
            return "Some weight lies where the mask is False: there it must be 0."
        return row_sums(weights)

    for why, mask in rules.items():
        told = {"why": why, "tolerance": FLOAT32, "method": method}
        inside.agree(built, x, mask, part=1, clue=lambda w, m=mask: clue(w, ~m), **told)
        inside.agree(built, x, mask, part=0, **told)
    future = x.clone()
    future[:, 3] += 5
    want = tuple(part.clone() for part in inside.reference(x, causal(4)))
    now = inside.call(built, future, causal(4), method=method).value
    if not np.allclose(now[0][:, :3].detach(), want[0][:, :3].detach(), atol=1e-4):
        why = "under a causal mask the last token was changed, and an earlier output moved with it."
        raise inside.miss(why, future, causal(4))


def heads_mask(subject: Subject, probe: Probe) -> None:
    """True: may look. One mask for all, or one for each sentence."""
    built, inside = probe.build(subject, 8, 2, scale=SCALE)
    agree_mask(built, inside, 8)


def torchs(module: MultiHeadAttention) -> nn.MultiheadAttention:
    """torch's own attention with the weights of ``module``."""
    width = module.output.in_features
    theirs = nn.MultiheadAttention(width, module.heads, bias=False, batch_first=True)
    stacked = torch.cat([module.query.weight, module.key.weight, module.value.weight])
    theirs.load_state_dict({"in_proj_weight": stacked, "out_proj.weight": module.output.weight})
    return theirs


def heads_oracle(subject: Subject, probe: Probe) -> None:
    """The output and the weights of nn.MultiheadAttention with the same parameters."""
    for _ in probe.repeat(1, 3):
        for batch, tokens, width, heads in ((2, 3, 8, 4), (1, 5, 12, 3), (2, 4, 6, 1)):
            built, inside = probe.build(subject, width, heads, scale=SCALE)
            x = normal(probe.rng, batch, tokens, width)
            module = inside.reference
            assert isinstance(module, MultiHeadAttention)
            want = torchs(module)(x, x, x, average_attn_weights=False)
            for part in (0, 1):
                why = f"compared with nn.MultiheadAttention, {heads} heads"
                inside.agree(built, x, want=want, part=part, tolerance=FLOAT32, why=why)


def heads_gradients(subject: Subject, probe: Probe) -> None:
    """To the tokens and to all four projections."""
    built, inside = probe.build(subject, 6, 3, scale=SCALE)
    x = normal(probe.rng, 2, 3, 6)
    agree_gradients(inside, built, x, causal(3), wrt=(0,), parameters=LAYERS)


def heads_awkward(subject: Subject, probe: Probe) -> None:
    """Views; the argument stays as it was; no sentence looks into another."""
    built, inside = probe.build(subject, 6, 2, scale=SCALE)
    x = normal(probe.rng, 3, 4, 6)
    agree_untouched(inside, built, x)
    output, weights = inside.reference(x)
    want = (output[1:2].detach(), weights[1:2].detach())
    why = "one sentence of the batch alone"
    inside.agree(built, x[1:2], want=want, part=0, tolerance=FLOAT32, why=why)


HEADS = (
    Property("a hand-worked example: two tokens, two heads", 1, heads_worked),
    Property("weights: one distribution for each query in each head", 1, heads_weights),
    Property("equal tokens look at all alike; one token sees itself", 1, heads_limits),
    Property("mask: True may look, False gets no weight", 1, heads_mask),
    Property("equal to nn.MultiheadAttention with the same weights", 2, heads_oracle),
    Property("gradients reach the tokens and all four projections", 1, heads_gradients),
    Property("views, sentences apart; argument stays as it was", 1, heads_awkward),
)


def heads_draws(rng: np.random.Generator) -> list[Call]:
    """Several heads, one head, masks of both kinds, T = H."""

    def call(width: int, heads: int, *args: Any) -> Call:
        return module_call(MultiHeadAttention, rng, Call((width, heads)), *args, scale=SCALE)

    return [
        call(12, 3, normal(rng, 2, 5, 12)),
        call(8, 4, normal(rng, 2, 3, 8), causal(3)),
        call(6, 1, normal(rng, 1, 4, 6)),
        call(6, 2, normal(rng, 3, 4, 6), padded(3, 4)),
        call(9, 3, normal(rng, 2, 3, 9)),
    ]
