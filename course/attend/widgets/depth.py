"""The depth thermometer: how large the stream and the gradients are, block by block.

A stack of 24 blocks reads a few lines of Python's documentation; the bars are what is measured in
it, before training or after some steps. Hook and signature picture of chapter 07.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets

from attend.theme import GRID, GROUPS, INK, MUTED
from attend.widgets.kit.svg import beside, element, hover, number, panel, text
from attend.widgets.kit.view import View, note

SEE = (
    "Each bar is one block, on a logarithmic scale. With nothing around the parts the stream dies "
    "out; with a large start it stays, but the ticks fall: all tokens become alike. A "
    "residual connection keeps both."
)
ARMS = (
    "nothing",
    "nothing, large start",
    "residual",
    "residual, small start",
    "post-norm",
    "post-norm, small start",
    "pre-norm",
)
"""As in ``attend.data.deep_stack``, which needs torch."""
DEPTHS, STEPS = (2, 6, 12, 24), (0, 20, 60)
RATE, SEED, LOWEST = 1e-3, 7, 1e-12


@dataclass(frozen=True)
class Reading:
    """What was measured in one stack.

    Attributes:
        stream: root mean square of the stream before the first block and after each, L + 1.
        differs: the same of what differs between the tokens of a text, their mean taken off.
        gradient: norm of the gradient of each block's parameters, L.
        loss: in nats a character.
    """

    stream: tuple[float, ...]
    differs: tuple[float, ...]
    gradient: tuple[float, ...]
    loss: float


def depth_thermometer(
    block: Callable[..., Any] | None = None, start: Callable[..., Any] | None = None
) -> View:
    """Choose what stands around attention and feed-forward, how many blocks, how much training.

    Args:
        block: the learner's ``TransformerBlock``; None: the course's.
        start: the learner's ``residual_init``; None: the course's.
    """
    style, wide = {"description_width": "130px"}, ipywidgets.Layout(width="min(420px, 98%)")
    arm = ipywidgets.Dropdown(
        options=ARMS, description="around the parts", layout=wide, style=style
    )
    layers = ipywidgets.SelectionSlider(  # Lab takes a dropdown's arrow keys for its own
        options=DEPTHS, value=24, description="blocks", layout=wide, style=style,
        continuous_update=False,
    )  # fmt: skip
    steps = ipywidgets.SelectionSlider(
        options=[(f"{n} steps", n) for n in STEPS], description="after training", layout=wide,
        style=style, continuous_update=False,
    )  # fmt: skip
    seen: dict[tuple[Any, ...], str] = {}

    def picture() -> str:
        around: Any = arm.value
        deep, trained = int(layers.value or 0), int(steps.value or 0)
        if (around, deep, trained) not in seen:
            seen[around, deep, trained] = draw(around, deep, trained, block, start)
        return seen[around, deep, trained]

    view = View("depth-thermometer", SEE, [arm, layers, steps], picture)
    for control in (arm, layers, steps):
        control.observe(view.refresh, names="value")
    return view


def measure(
    arm: str,
    layers: int,
    steps: int = 0,
    block: Callable[..., Any] | None = None,
    start: Callable[..., Any] | None = None,
) -> Reading:
    """Build a stack, train it for ``steps``, and read it on one batch."""
    import torch
    from attend_solutions.block import TransformerBlock, residual_init

    from attend.data import deep_stack as deep
    from attend.training import fit

    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        stack = deep.Deep(arm, layers, block or TransformerBlock, start or residual_init)
    draws = torch.Generator().manual_seed(SEED)
    tokens, targets = deep.batch(draws, deep.EXAMPLES, deep.TOKENS)
    if steps:
        fit(
            stack.parameters(),
            lambda _: deep.loss_of(stack, *deep.batch(draws, deep.EXAMPLES, deep.TOKENS)),
            steps=steps,
            rate=RATE,
            progress=False,
        )
    with torch.no_grad():
        all_streams = [x.double() for x in stack.streams(tokens)]  # squares of 1e−23 are no float32
        stream = tuple(float(x.square().mean().sqrt()) for x in all_streams)
        apart = (x - x.mean(1, keepdim=True) for x in all_streams)
        differs = tuple(float(x.square().mean().sqrt()) for x in apart)
    loss = deep.loss_of(stack, tokens, targets)
    stack.zero_grad()
    loss.backward()
    gradient = tuple(
        math.hypot(*(float(p.grad.double().norm()) for p in b.parameters() if p.grad is not None))
        for b in stack.blocks
    )
    return Reading(stream, differs, gradient, float(loss.detach()))


def draw(
    arm: str,
    layers: int,
    steps: int,
    block: Callable[..., Any] | None = None,
    start: Callable[..., Any] | None = None,
) -> str:
    """Return both panels, or one sentence where there is nothing to draw."""
    try:
        found = measure(arm, layers, steps, block, start)
    except NotImplementedError:
        return note("This picture waits for an exercise that is not started yet.")
    except Exception as error:  # a learner's class may raise anything: report it as words
        words = f"{type(error).__name__}: {error}".strip().splitlines()[0][:160]
        return note(f"The stack stopped with {words}. Run the checks of your block to see why.")
    if not all(map(math.isfinite, (*found.stream, *found.gradient))):
        return note("The stack gave NaN or infinity: numbers grew until they overflowed.")
    last, apart = number(found.stream[-1]), number(found.differs[-1])
    lows, highs = number(min(found.gradient)), number(max(found.gradient))
    first = _bars(
        "stream",
        f"Size of the stream: {arm}",
        f"After block {layers} it is {last}; tokens differ by {apart} (tick).",
        found.stream,
        GROUPS[0],
        ticks=found.differs,
    )
    second = _bars(
        "gradient",
        f"Gradient of each block, at a loss of {found.loss:.2f}",
        f"From {lows} to {highs}: this is all that training can go by.",
        found.gradient,
        GROUPS[1],
    )
    return beside(first, second)


def _bars(
    name: str,
    label: str,
    told: str,
    sizes: Sequence[float],
    colour: str,
    ticks: Sequence[float] = (),
) -> str:
    """Bars on a logarithmic scale from 1e−8 to 100 (lower ones at its foot); ticks across them."""
    low, high, left, base, tall = -8, 2, 50.0, 200.0, 130.0
    decade, wide, first = tall / (high - low), 400.0 / len(sizes), 0 if ticks else 1

    def up(size: float) -> float:
        return min(max(decade * (math.log10(max(size, LOWEST)) - low), 1.0), tall)

    body = [text(12, 48, told, font_size=13)]
    for power in range(low, high + 1, 2):
        y = base - decade * (power - low)
        body.append(element("line", x1=left, x2=left + 400, y1=y, y2=y, stroke=GRID))
        words = {0: "1", 2: "100"}.get(power, f"1e{power}".replace("-", "−"))
        mark = {"font_size": 11, "fill": MUTED, "text_anchor": "end"}
        body.append(text(left - 5, y + 4, words, **mark))
    for place, size in enumerate(sizes):
        x, block = left + wide * place, place + first
        words = f"block {block}: {number(size)}" if block else f"at the start: {number(size)}"
        if ticks:
            words += f", {number(ticks[place])} of it differs between tokens"
        box = {"x": x + 1, "width": max(wide - 2, 1.0), "y": base - up(size), "height": up(size)}
        body.append(element("rect", hover(words), **box, fill=colour, data_size=f"{size:.6g}"))
        if ticks:
            y = base - up(ticks[place])
            body.append(element("line", x1=x, x2=x + wide, y1=y, y2=y, stroke=INK, stroke_width=3))
        if block == 1 or block % 4 == 0:
            mark = {"font_size": 11, "fill": MUTED, "text_anchor": "middle"}
            body.append(text(x + wide / 2, base + 15, str(block), **mark))
    axis = "after block (0: before the first)" if ticks else "block"
    body.append(text(left, base + 32, axis, font_size=12, fill=MUTED))
    return panel(name, 470.0, 240.0, label, told, *body)
