"""Chapter 05, shared keys: what must hold of repeat_kv and of grouped-query attention.

The oracle is torch's ``scaled_dot_product_attention`` with ``enable_gqa``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from attend_solutions.multi_head import GroupedQueryAttention, MultiHeadAttention
from torch import Tensor
from torch.nn import functional

from attend_grader.chapters.ch05_multi_head.props_heads import (
    LAYERS,
    SCALE,
    agree_mask,
    causal,
    keep_dtype,
    padded,
    row_sums,
    whole,
)
from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_properties import (
    agree_gradients,
    agree_untouched,
    module_call,
    normal,
)

# repeat_kv


def repeat_worked(subject: Subject, probe: Probe) -> None:
    """Two heads, one token of one number, for three query heads each."""
    x = torch.tensor([[[[7.0]], [[9.0]]]])
    want = torch.tensor([7.0, 7.0, 7.0, 9.0, 9.0, 9.0]).reshape(1, 6, 1, 1)
    probe.agree(subject, x, 3, want=want)


def repeat_limits(subject: Subject, probe: Probe) -> None:
    """Once is no change; one head becomes all of them."""
    x = normal(probe.rng, 2, 3, 4, 2)
    probe.agree(subject, x, 1, want=x, why="repeats = 1")
    x = normal(probe.rng, 2, 1, 3, 2)
    probe.agree(subject, x, 4, want=x.expand(2, 4, 3, 2), why="one head for all four")


def repeat_places(subject: Subject, probe: Probe) -> None:
    """Query head h finds key head h // repeats."""
    for _ in probe.repeat(1, 3):
        for shape, repeats in (((2, 2, 3, 5), 2), ((1, 3, 2, 4), 2), ((2, 2, 2, 2), 2)):
            x = whole(probe.rng, *shape).float()
            chosen = [head // repeats for head in range(shape[1] * repeats)]

            def clue(value: Any, x: Tensor = x, repeats: int = repeats) -> str:
                if torch.equal(torch.as_tensor(value), x.repeat(1, repeats, 1, 1)):
                    return "The copies must lie next to each other: 0, 0, 1, 1, not 0, 1, 0, 1."
                return ""

            why = f"{shape[1]} heads, repeats = {repeats}"
            probe.agree(subject, x, repeats, want=x[:, chosen], why=why, clue=clue)


def repeat_awkward(subject: Subject, probe: Probe) -> None:
    """Views, whole numbers and float64 go through as they are."""
    agree_untouched(probe, subject, normal(probe.rng, 2, 3, 4, 2), 2)
    for kind in (torch.int64, torch.float64):
        outcome = probe.agree(subject, whole(probe.rng, 1, 2, 3, 2).to(kind), 2, why=str(kind))
        keep_dtype(probe, outcome.value, kind)


def repeat_gradients(subject: Subject, probe: Probe) -> None:
    """A head's gradient is the sum over all that use it."""
    agree_gradients(probe, subject, normal(probe.rng, 2, 2, 3, 2), 3, wrt=(0,))


REPEAT = (
    Property("a hand-worked example: two heads for six", 1, repeat_worked),
    Property("once changes nothing; one head serves all", 1, repeat_limits),
    Property("copies of a head lie next to each other", 1, repeat_places),
    Property("views and other types; argument stays as it was", 1, repeat_awkward),
    Property("gradients add up over the copies", 1, repeat_gradients),
)


def repeat_draws(rng: np.random.Generator) -> list[Call]:
    """All lengths different; all equal; once; integers."""
    return [
        Call((normal(rng, 2, 3, 5, 4), 2)),
        Call((normal(rng, 2, 2, 2, 2), 2)),
        Call((normal(rng, 1, 3, 2, 4), 1)),
        Call((normal(rng, 1, 1, 2, 3), 4)),
        Call((whole(rng, 1, 2, 3, 2), 3)),
    ]


# GroupedQueryAttention


def grouped_many(subject: Subject, probe: Probe) -> None:
    """As many key heads as query heads: multi-head attention."""
    for width, heads in ((8, 4), (6, 2)):
        built, inside = probe.build(subject, width, heads, heads, scale=SCALE)
        many = MultiHeadAttention(width, heads)
        many.load_state_dict(inside.reference.state_dict())  # type: ignore[attr-defined]
        x = normal(probe.rng, 2, 3, width)
        want = many(x)
        why = "kv_heads = heads, so multi-head attention with the same weights"
        for part in (0, 1):
            inside.agree(built, x, want=want, part=part, tolerance=FLOAT32, why=why)


def grouped_one(subject: Subject, probe: Probe) -> None:
    """One key head: every query meets the same keys and the same values (multi-query)."""
    width, heads = 8, 4
    built, inside = probe.build(subject, width, heads, 1, scale=SCALE)
    x = normal(probe.rng, 2, 3, width)
    state = inside.reference.state_dict()  # type: ignore[attr-defined]  # an instance
    q, k, v = (x @ state[name].mT for name in LAYERS[:3])
    scores = torch.einsum("bthd,bsd->bhts", q.reshape(2, 3, heads, -1), k)
    weights = (scores / (width / heads) ** 0.5).softmax(dim=-1)
    found = torch.einsum("bhts,bsd->bthd", weights, v).reshape(2, 3, width)
    want = (found @ state["output.weight"].mT, weights)
    for part in (1, 0):
        why = "kv_heads = 1, so all heads share one key and one value a token"
        inside.agree(built, x, want=want, part=part, tolerance=FLOAT32, why=why)


def grouped_weights(subject: Subject, probe: Probe) -> None:
    """Each query head has weights of its own, also where the keys are shared."""
    for width, heads, kv_heads in ((12, 6, 2), (8, 4, 2), (12, 6, 3)):
        built, inside = probe.build(subject, width, heads, kv_heads, scale=SCALE)
        x = normal(probe.rng, 2, 4, width)
        why = f"{heads} heads, {kv_heads} kv_heads"
        inside.agree(built, x, part=1, tolerance=FLOAT32, why=why, clue=row_sums)


def grouped_oracle(subject: Subject, probe: Probe) -> None:
    """The output of scaled_dot_product_attention with enable_gqa."""
    for _ in probe.repeat(1, 3):
        for width, heads, kv_heads in ((12, 6, 2), (16, 4, 2), (12, 6, 3)):
            built, inside = probe.build(subject, width, heads, kv_heads, scale=SCALE)
            x = normal(probe.rng, 2, 3, width)
            module = inside.reference
            assert isinstance(module, GroupedQueryAttention)
            q, k, v = (
                layer(x).unflatten(-1, (-1, width // heads)).transpose(1, 2)
                for layer in (module.query, module.key, module.value)
            )
            found = functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
            output = module.output(found.transpose(1, 2).flatten(2))
            want = (output, module(x)[1])
            why = f"compared with torch's enable_gqa, {heads} heads, {kv_heads} kv_heads"
            inside.agree(built, x, want=want, part=0, tolerance=FLOAT32, why=why)


def grouped_mask(subject: Subject, probe: Probe) -> None:
    """True: may look. One mask for all, or one for each sentence."""
    built, inside = probe.build(subject, 12, 6, 2, scale=SCALE)
    agree_mask(built, inside, 12)


def grouped_gradients(subject: Subject, probe: Probe) -> None:
    """To the tokens and to all four projections."""
    built, inside = probe.build(subject, 12, 6, 2, scale=SCALE)
    x = normal(probe.rng, 2, 3, 12)
    agree_gradients(inside, built, x, causal(3), wrt=(0,), parameters=LAYERS)


def grouped_awkward(subject: Subject, probe: Probe) -> None:
    """Views; the argument stays as it was."""
    built, inside = probe.build(subject, 12, 6, 2, scale=SCALE)
    agree_untouched(inside, built, normal(probe.rng, 3, 4, 12))


# H / G is nowhere G alone, so that `repeats = kv_heads` passes none but kv_heads = 1.
GROUPED = (
    Property("kv_heads = heads is multi-head attention", 1, grouped_many),
    Property("kv_heads = 1 is multi-query attention", 1, grouped_one),
    Property("each query head has weights of its own", 1, grouped_weights),
    Property("equal to torch's attention with enable_gqa", 1, grouped_oracle),
    Property("mask: True may look, False gets no weight", 1, grouped_mask),
    Property("gradients reach the tokens and all four projections", 1, grouped_gradients),
    Property("views; argument stays as it was", 1, grouped_awkward),
)


def grouped_draws(rng: np.random.Generator) -> list[Call]:
    """Groups, one group, no sharing, masks of both kinds."""

    def call(width: int, heads: int, kv_heads: int, *args: Any) -> Call:
        build = Call((width, heads, kv_heads))
        return module_call(GroupedQueryAttention, rng, build, *args, scale=SCALE)

    return [
        call(12, 6, 2, normal(rng, 2, 3, 12)),
        call(8, 4, 2, normal(rng, 2, 5, 8), causal(5)),
        call(12, 6, 3, normal(rng, 2, 3, 12)),
        call(6, 3, 1, normal(rng, 2, 4, 6)),
        call(6, 2, 2, normal(rng, 3, 4, 6), padded(3, 4)),
    ]
