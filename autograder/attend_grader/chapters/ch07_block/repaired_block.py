"""Exercise 07_block/RepairedBlock: a residual connection that branches off after the norm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from attend_solutions import block
from torch import Tensor

from attend_grader.chapters.ch07_block import NO_BLOCKS, READY_BLOCKS
from attend_grader.chapters.ch07_block.shared import SCALE, block_call
from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.contract import EVERY_PARAMETER
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees
from attend_grader.checks.subject import Subject
from attend_grader.checks.torch_numbers import fresh_parameters, normal


def _call(rng: np.random.Generator, *build: Any, x: tuple[int, ...], **mask: Any) -> Call:
    return block_call(block.RepairedBlock, rng, build, *x, **mask)


def _small(rng: np.random.Generator) -> Call:
    """A stream whose variance is not large beside the norms' eps."""
    call = _call(rng, 4, 2, x=(2, 3, 4))
    return replace(call, args=(call.args[0] / 100,))


def _usual(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    yield "", _call(rng, 6, 2, x=(2, 4, 6))
    yield "one token", _call(rng, 4, 1, x=(2, 1, 4))
    yield "one text", _call(rng, 4, 1, x=(1, 3, 4))
    yield "small numbers", _small(rng)
    large = _call(rng, 4, 2, x=(7, 3, 4))
    yield "seven texts, large numbers", replace(large, args=(50 * large.args[0],))


def _masked(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    yield "a mask for all", _call(rng, 4, 2, x=(2, 5, 4), mask=(5, 5))
    yield "a mask for each text and head", _call(rng, 4, 2, x=(2, 5, 4), mask=(2, 2, 5, 5))
    yield "a mask for each text", _call(rng, 4, 2, x=(2, 5, 4), mask=(2, 1, 1, 5))
    what = "a mask for each head, as many heads as texts"
    yield what, _call(rng, 4, 2, x=(2, 5, 4), mask=(2, 5, 5))
    yield "a mask of no axes", _call(rng, 4, 2, x=(2, 5, 4), mask=())


def _silent(subject: Subject, probe: Probe) -> None:
    """What writes zeros changes nothing, whatever the stream is."""
    fresh = fresh_parameters(block.RepairedBlock(4, 2), probe.rng, SCALE)
    for name in ("attention.output.weight", "down.weight"):
        fresh[name] = torch.zeros_like(fresh[name])
    built, inside = probe.build(subject, 4, 2, parameters=fresh)
    x: Tensor = 3 * normal(probe.rng, 2, 3, 4) + 1
    inside.agree(built, x, want=x, tolerance=FLOAT32, why="both output matrices are 0")
    built.run((False,), method="train")
    why = "both output matrices are 0, after .eval()"
    inside.agree(built, x, want=x, tolerance=FLOAT32, why=why)


def draws(rng: np.random.Generator) -> list[Call]:
    """Several heads, one head, masks of several shapes, B = T, one token."""
    return [
        _call(rng, 6, 2, x=(2, 4, 6)),
        _call(rng, 4, 1, x=(1, 3, 4)),
        _call(rng, 6, 2, x=(3, 3, 6), mask=(3, 2, 3, 3)),
        _call(rng, 6, 2, x=(3, 4, 6), mask=(4, 4)),
        _call(rng, 4, 2, x=(2, 5, 4), mask=(2, 1, 1, 5)),
        _call(rng, 8, 4, x=(2, 1, 8)),
        _call(rng, 4, 2, x=(2, 3, 4), mask=(3, 3), blind=True),
    ]


FOUND = (
    "found, _ = self.attention(layer_norm(x, self.scale[0], self.shift[0]), mask)\n"
    "        x = x + found"
)
LATE = (
    "x = layer_norm(x, self.scale[0], self.shift[0])\n"
    "        found, _ = self.attention(x, mask)\n        x = x + found"
)
SECOND, CALM = "layer_norm(x, self.scale[1], self.shift[1])", "feed_forward(calm, "

SLIPS = (
    Slip(
        "not repaired",
        ((FOUND, LATE), (f"calm = {SECOND}", f"x = calm = {SECOND}")),
        "Both norms still change the stream itself, as x = norm(x) does. Let only the parts read "
        "the norm, and add what they give to the old x.",
        seen="the broken class in the text",
    ),
    Slip(
        "no sums",
        (("x = x + found", "x = found"), (f"return x + {CALM}", f"return {CALM}")),
        "Nothing is added to the stream: each part replaces it. Add what the part gives to the x "
        "in front of its norm: x + part(norm(x)).",
    ),
    Slip(
        "norm 0 twice",
        (SECOND, "layer_norm(x, self.scale[0], self.shift[0])"),
        "Both norms use row 0 of scale and shift. The second norm should use row 1.",
    ),
    Slip(
        "the feed-forward network first",
        (
            (FOUND, "read = layer_norm(x, self.scale[0], self.shift[0])\n"
                    "        x = x + feed_forward(read, self.up.weight, self.down.weight)"),
            (f"return x + {CALM}self.up.weight, self.down.weight)",
             "return x + self.attention(calm, mask)[0]"),
        ),
        "The feed-forward network comes before attention. Attention should come first, as in the "
        "class you repair.",
    ),
    Slip(
        "the norms on what is added",
        (
            (FOUND, "found, _ = self.attention(x, mask)\n"
                    "        x = x + layer_norm(found, self.scale[0], self.shift[0])"),
            (f"calm = {SECOND}\n        return x + {CALM}self.up.weight, self.down.weight)",
             "made = feed_forward(x, self.up.weight, self.down.weight)\n"
             "        return x + layer_norm(made, self.scale[1], self.shift[1])"),
        ),
        "The norms are taken of what the parts give. They should stand in front of the parts: let "
        "each part read the norm of the stream.",
    ),
    Slip(
        "relu for gelu",
        ("self.up.weight, self.down.weight)", 'self.up.weight, self.down.weight, "relu")'),
        "The feed-forward network bends with relu. It should use gelu, which `feed_forward` takes "
        "by itself.",
    ),
    Slip(
        "RMSNorm",
        (
            ("layer_norm(x, self.scale[0], self.shift[0])",
             "(x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.scale[0])"),
            (SECOND, "(x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.scale[1])"),
        ),
        "The norms are RMSNorm, without mean and shift. They should be layer norms.",
    ),
    Slip(
        "x added twice",
        (f"return x + {CALM}", f"return x + (x - found) + {CALM}"),
        "The x that came in is added twice: it is in the first sum already, and so in the second.",
    ),
    Slip(
        "only the first half repaired",
        (f"calm = {SECOND}", f"x = calm = {SECOND}"),
        "The first half is right. In the second, the stream is still replaced by its norm.",
    ),
    Slip(
        "only the second half repaired",
        (FOUND, LATE),
        "The second half is right. In the first, the stream is still replaced by its norm.",
    ),
    Slip(
        "post-norm",
        (
            (FOUND, "found, _ = self.attention(x, mask)\n"
                    "        x = layer_norm(x + found, self.scale[0], self.shift[0])"),
            (f"calm = {SECOND}\n        return x + {CALM}self.up.weight, self.down.weight)",
             "x = x + feed_forward(x, self.up.weight, self.down.weight)\n"
             f"        return {SECOND}"),
        ),
        "This is a post-norm block: the norm is taken of the sum. The norm should stand in front "
        "of each part, on the branch.",
    ),
    Slip(
        "the norms removed",
        ((FOUND, "found, _ = self.attention(x, mask)\n        x = x + found"),
         (f"calm = {SECOND}", "calm = x")),
        "There is no norm any more. The parts should read the normed stream; only the sums should "
        "not.",
    ),
    Slip(
        "both parts read the first norm",
        (SECOND, "layer_norm(x - found, self.scale[0], self.shift[0])"),
        "The feed-forward network reads what attention read. It should read the second norm, of "
        "the stream with attention's part.",
    ),
    Slip(
        "the norms exchanged",
        (
            ("self.scale[0], self.shift[0]", "self.scale[-1], self.shift[-1]"),
            ("self.scale[1], self.shift[1]", "self.scale[0], self.shift[0]"),
        ),
        "The two norms are exchanged. Row 0 of scale and shift should go to attention, row 1 to "
        "the feed-forward network.",
    ),
    Slip(
        "attention's part is lost",
        (("x = x + found", "y = x + found"), (SECOND, SECOND.replace("(x", "(y"))),
        "What attention added is read by the feed-forward network and then lost: the second sum "
        "starts from the x that came in. Keep the sum as the new x.",
    ),
    Slip(
        "the feed-forward network reads the x that came in",
        (SECOND, SECOND.replace("(x", "(x - found")),
        "The feed-forward network reads the second norm of the x that came in. It should read that "
        "of the sum, with what attention added.",
    ),
    Slip(
        "a norm at the end",
        (f"return x + {CALM}self.up.weight, self.down.weight)",
         f"x = x + {CALM}self.up.weight, self.down.weight)\n        return {SECOND}"),
        "What leaves the block is normed once more. A pre-norm block should end with the plain "
        "sum.",
    ),
)  # fmt: skip

Parts: Any = block.RepairedBlock
"""What a learner is given: the parameters."""


class OneLine(Parts):
    """A name for each stage of the stream."""

    def forward(self, x, mask=None):
        """The same output."""
        read = block.layer_norm(x, self.scale[0], self.shift[0])
        middle = x + self.attention(read, mask)[0]
        read = block.layer_norm(middle, self.scale[1], self.shift[1])
        return middle + block.feed_forward(read, self.up.weight, self.down.weight, "gelu")


class WithCopy(Parts):
    """Keeps the stream under another name, and adds it back."""

    def forward(self, x, mask=None):
        """The same output."""
        for which in range(2):
            kept = x
            x = block.layer_norm(x, self.scale[which], self.shift[which])
            if which == 0:
                x = self.attention(x, mask)[0]
            else:
                x = self.down(torch.nn.functional.gelu(self.up(x)))
            x = kept + x
        return x


EXERCISE = Exercise(
    chapter="07_block",
    title="Repair a block",
    goal="Find out where the residual connection of a block branches off, and repair it.",
    reference=block.RepairedBlock,
    contract=Contract(
        views=True,
        masks=("mask",),
        arguments_unchanged=True,
        gradients=("x", EVERY_PARAMETER),
        forbids=READY_BLOCKS,
        forbidden=NO_BLOCKS,
    ),
    properties=(
        agrees("values", _usual, points=2, repeat=1, tolerance=FLOAT32),
        Property("parts that write zeros leave any stream as it is", 1, _silent),
        agrees("a mask", _masked, repeat=1, tolerance=FLOAT32),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={"a name for each stage": OneLine, "the stream kept": WithCopy},
    hints=(
        "Set both output matrices to 0 and send in numbers of size 10. What comes out of yours, "
        "and what of this one?",
        "Which x is added to? Follow it upwards to where it was last assigned.",
        "Do not assign the norm to x: calm = layer_norm(x, …), and x + part(calm).",
    ),
    minutes=8,
    difficulty=2,
    importance=4,
    uses=("layer_norm", "feed_forward"),
)
