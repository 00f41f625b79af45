"""Exercise 07_block/TransformerBlock: where norms and residual connections stand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from attend_solutions import block

from attend_grader.chapters.ch07_block import NO_BLOCKS, READY_BLOCKS
from attend_grader.chapters.ch07_block.shared import SCALE, block_call
from attend_grader.checks.compare import FLOAT32, Miss
from attend_grader.checks.contract import EVERY_PARAMETER
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees
from attend_grader.checks.subject import Subject, SubjectError
from attend_grader.checks.torch_numbers import normal

ORDERS = ("pre", "post", "parallel")


def _call(rng: np.random.Generator, *build: Any, x: tuple[int, ...], **mask: Any) -> Call:
    return block_call(block.TransformerBlock, rng, build, *x, **mask)


def _of(order: str):
    def cases(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
        yield f"{order}, layer norm", _call(rng, 6, 2, order, x=(7, 4, 6))
        yield f"{order}, RMSNorm and swiglu", _call(rng, 6, 3, order, "rms", "swiglu", x=(1, 3, 6))
        yield f"{order}, relu", _call(rng, 4, 2, order, "rms", "relu", x=(2, 3, 4))
        yield f"{order}, one token", _call(rng, 4, 2, order, x=(2, 1, 4))

    return cases


def _torchs(subject: Subject, probe: Probe) -> None:
    """With the same weights it is ``nn.TransformerEncoderLayer``."""
    for order in ("pre", "post"):
        built, inside = probe.build(subject, 8, 2, order, "layer", "relu", scale=SCALE)
        mine: Any = inside.reference
        theirs = torch.nn.TransformerEncoderLayer(
            8, 2, 32, 0.0, batch_first=True, norm_first=order == "pre"
        )
        a = mine.attention
        state = theirs.state_dict()
        state = {k: torch.zeros_like(v) for k, v in state.items()} | {
            "self_attn.in_proj_weight": torch.cat([a.query.weight, a.key.weight, a.value.weight]),
            "self_attn.out_proj.weight": a.output.weight,
            "linear1.weight": mine.up.weight,
            "linear2.weight": mine.down.weight,
        }
        for which in (0, 1):
            state[f"norm{which + 1}.weight"] = mine.scale[which]
            state[f"norm{which + 1}.bias"] = mine.shift[which]
        theirs.load_state_dict(state)
        x = normal(probe.rng, 2, 5, 8)
        with torch.no_grad():
            want = theirs(x)
        why = f"{order}, compared with nn.TransformerEncoderLayer"
        inside.agree(built, x, want=want, tolerance=FLOAT32, why=why)
        built.run((False,), method="train")
        inside.agree(built, x, want=want, tolerance=FLOAT32, why=f"{why}, after .eval()")


def _masked(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for order in ORDERS:
        for what, shape in (
            ("a mask for all", (5, 5)),
            ("a mask for each text", (2, 1, 1, 5)),
            ("a mask for each text and head", (2, 2, 5, 5)),
            ("a mask for each head, as many heads as texts", (2, 5, 5)),
            ("a mask of no axes", ()),
        ):
            yield f"{order}, {what}", _call(rng, 4, 2, order, x=(2, 5, 4), mask=shape)
        yield f"{order}, one text and a mask", _call(rng, 4, 2, order, x=(1, 3, 4), mask=(3, 3))
        what = f"{order}, as many texts as tokens"  # a mask of (T, T) is none of (B, T)
        yield what, _call(rng, 4, 2, order, x=(3, 3, 4), mask=(3, 3))


def _refuses(subject: Subject, probe: Probe) -> None:
    """The constructor, which is given, still refuses what it does not know."""
    for build in ((4, 2, "before"), (4, 2, "pre", "batch")):
        try:
            subject.build(*build)
        except SubjectError as error:
            if error.error.is_a("ValueError"):
                continue
        text = f"TransformerBlock{build} must raise a ValueError, as the given constructor does."
        raise Miss(text, topic="bad input")


def draws(rng: np.random.Generator) -> list[Call]:
    """Each norm with each order, kind and shape of mask; each order with two kinds and masks.

    Also no mask; one text, one token, a square x, a token that sees nothing.
    """
    texts, tokens = 3, 5
    own, shared, padded = (texts, 2, tokens, tokens), (tokens, tokens), (texts, 1, 1, tokens)
    together = (
        ("pre", "rms", "gelu", shared),
        ("pre", "layer", "relu", padded),
        ("post", "layer", "swiglu", shared),
        ("post", "rms", "relu", own),
        ("parallel", "rms", "swiglu", padded),
        ("parallel", "layer", "gelu", own),
    )
    return [
        _call(rng, 6, 2, x=(2, 4, 6)),
        _call(rng, 6, 3, "post", x=(1, 6, 6)),
        _call(rng, 4, 1, "parallel", x=(2, 1, 4)),
        _call(rng, 4, 2, "parallel", x=(2, 5, 4)),
        _call(rng, 4, 2, x=(2, 3, 4), mask=(3, 3), blind=True),
        *(_call(rng, 4, 2, *how, x=(texts, tokens, 4), mask=mask) for *how, mask in together),
    ]


POST = (
    ("self.norm(0, x + self.attend(x, mask))", "x + self.norm(0, self.attend(x, mask))"),
    ("self.norm(1, x + self.feed(x))", "x + self.norm(1, self.feed(x))"),
)
FIRST, SECOND = "x = x + self.attend(calm, mask)", "x + self.feed(self.norm(1, x))"

SLIPS = (
    Slip(
        "the residual branches off after the norm",
        ((FIRST, "x = calm + self.attend(calm, mask)"),
         (SECOND, "(calm := self.norm(1, x)) + self.feed(calm)")),
        "In the order pre, what is added to is the stream after its norm. The norm should stand "
        "on the branch only: x + attend(norm(x)), with the plain x in front.",
    ),
    Slip(
        "post norms the branch",
        POST,
        "In the order post only what is added is normed. Take the norm of the sum: norm(x + "
        "attend(x)).",
    ),
    Slip(
        "post is pre",
        ('self.order == "post"', "False"),
        "The order post comes out as pre. There, a norm should stand after each sum.",
    ),
    Slip(
        "parallel feeds the stream itself",
        ("self.feed(calm)", "self.feed(x)"),
        "In the order parallel the feed-forward network reads x. It should read the same norm of "
        "x that attention does.",
    ),
    Slip(
        "the feed-forward network reads the stream itself",
        ("self.feed(self.norm(1, x))", "self.feed(x)"),
        "In the order pre the feed-forward network reads x without a norm. It should read the "
        "second norm of it.",
    ),
    Slip(
        "attention's part is lost",
        ((FIRST, "y = x + self.attend(calm, mask)"), (SECOND, "x + self.feed(self.norm(1, y))")),
        "In the order pre, what attention added is read by the feed-forward network and then lost: "
        "the second sum starts from the x that came in. Keep the sum as the new x.",
    ),
    Slip(
        "pre is post",
        ('self.order == "post"', 'self.order != "parallel"'),
        "The order pre comes out as post. There, a norm should stand on the branch, in front of "
        "each part, and the sum should not be normed.",
    ),
    Slip(
        "post without its last norm",
        ("self.norm(1, x + self.feed(x))", "x + self.feed(x)"),
        "In the order post the second sum is not normed. Each of the two sums should be.",
    ),
    Slip(
        "parallel as a chain",
        ("x + self.attend(calm, mask) + self.feed(calm)",
         "(y := x + self.attend(calm, mask)) + self.feed(self.norm(0, y))"),
        "In the order parallel the feed-forward network reads norm 0 of what attention has added "
        "to. Both should read the same norm of the x that came in.",
    ),
    Slip(
        "norm 0 twice",
        ("self.feed(self.norm(1, x))", "self.feed(self.norm(0, x))"),
        "In the order pre, norm 0 is used for both parts. The feed-forward network should read "
        "norm(1, …).",
    ),
)  # fmt: skip

Parts: Any = block.TransformerBlock
"""What a learner is given: the parameters, and attend, feed and norm."""


class ByBranches(Parts):
    """One function a half: what is read, and what is done with the sum."""

    def forward(self, x, mask=None):
        """The same output."""
        if self.order == "parallel":
            read = self.norm(0, x)
            return self.feed(read) + self.attend(read, mask) + x
        for which, part in enumerate((lambda h: self.attend(h, mask), self.feed)):
            if self.order == "pre":
                x = x + part(self.norm(which, x))
            else:
                x = self.norm(which, x + part(x))
        return x


class Spelled(Parts):
    """The functions themselves in the place of the given methods."""

    def forward(self, x, mask=None):
        """The same output."""
        post = self.order == "post"
        read = x if post else self.calm(0, x)
        found, _ = self.attention(read, mask)
        if self.order == "parallel":
            return torch.stack([x, found, self.fed(read)]).sum(0)
        middle = self.calm(0, x + found) if post else x + found
        if post:
            return self.calm(1, middle + self.fed(middle))
        return middle + self.fed(self.calm(1, middle))

    def calm(self, which, x):
        """A norm."""
        if self.shift is None:
            return block.rms_norm(x, self.scale[which])
        return block.layer_norm(x, self.scale[which], self.shift[which])

    def fed(self, x):
        """The feed-forward network."""
        gate = self.gate.weight if self.gate is not None else None
        return block.feed_forward(x, self.up.weight, self.down.weight, self.kind, gate)


EXERCISE = Exercise(
    chapter="07_block",
    title="The block",
    goal="Put norms and residual connections around attention, in three orders.",
    reference=block.TransformerBlock,
    contract=Contract(
        views=True,
        masks=("mask",),
        arguments_unchanged=True,
        gradients=("x", EVERY_PARAMETER),
        forbids=READY_BLOCKS,
        forbidden=NO_BLOCKS,
        says=(
            "An unknown order or norm raises a `ValueError`, as given; an unknown kind does so in "
            "`feed`.",
        ),
    ),
    properties=(
        agrees("pre", _of("pre"), repeat=1, tolerance=FLOAT32),
        agrees("post", _of("post"), repeat=1, tolerance=FLOAT32),
        agrees("parallel", _of("parallel"), repeat=1, tolerance=FLOAT32),
        Property("equal to nn.TransformerEncoderLayer with the same weights", 1, _torchs),
        Property("an unknown order or norm is refused", 1, _refuses),
        agrees("a mask in every order", _masked, repeat=1, tolerance=FLOAT32),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"a loop over the halves": ByBranches, "spelled out": Spelled},
    hints=(
        "Draw the stream as a straight line and each part as a branch that comes back to it. Where "
        "does the norm stand in each order: on the line, or on the branch?",
        "pre: x = x + self.attend(self.norm(0, x), mask), then the same with feed and norm 1. In "
        "post the norm is taken of the sum.",
        "parallel: read = self.norm(0, x), and x + attend(read) + feed(read).",
    ),
    minutes=15,
    difficulty=3,
    importance=5,
    uses=("layer_norm", "rms_norm", "feed_forward"),
)
