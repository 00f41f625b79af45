"""How much memory one head's score matrix would take, against what is there to take it."""

from __future__ import annotations

import math

import ipywidgets

from attend.theme import GRID, GROUPS, MUTED
from attend.widgets.kit.svg import element, hover, panel, text
from attend.widgets.kit.view import View

SEE = (
    "Move the slider, also with the arrow keys: inputs and output grow with the number of tokens,"
    " the scores with its square."
)
WIDTH_OF_HEAD, ITEMSIZE = 128, 2  # D, and bytes of a float16 number
ON_CHIP, DEVICE = 232_448, 80_000_000_000
"""Shared memory that one program may use on an H100, and that GPU's memory, in bytes.

Source: NVIDIA 2024, "CUDA C++ Programming Guide", table of technical specifications (227 KB for
compute capability 9.0); NVIDIA 2023, "H100 Tensor Core GPU" data sheet (80 GB).
"""
LEAST, MOST = 8, 20  # log₂ of the tokens
WIDTH, LEFT, RIGHT, TOP, TALL = 560.0, 166.0, 470.0, 64.0, 34.0


def score_memory(first: int = 16) -> View:
    """Show the bytes of one head's inputs, output and scores for a length that can be chosen.

    Args:
        first: log₂ of the number of tokens at the start, 8 to 20.

    Raises:
        ValueError: ``first`` is out of that range.
    """
    if not LEAST <= first <= MOST:
        raise ValueError(f"first: expected {LEAST} to {MOST} (log₂ of the tokens), got {first}")
    slider = ipywidgets.SelectionSlider(
        options=[(f"{2**power:,}", power) for power in range(LEAST, MOST + 1)],
        value=first,
        description="tokens",
        layout=ipywidgets.Layout(width="min(520px, 98%)"),
    )
    view = View("score-memory", SEE, [slider], lambda: draw(2 ** (slider.value or LEAST)))
    slider.observe(view.refresh, names="value")
    return view


def sizes(tokens: int) -> dict[str, int]:
    """Bytes of one head in float16 with T = S = ``tokens``, and of an H100's two memories."""
    return {
        "Q, K, V and output": 4 * tokens * WIDTH_OF_HEAD * ITEMSIZE,
        "all scores, T × S": tokens * tokens * ITEMSIZE,
        "H100: shared memory": ON_CHIP,
        "H100: its memory": DEVICE,
    }


def amount(count: float) -> str:
    """Bytes in powers of 1,000, as data sheets say them: 232 kB, 8.59 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def draw(tokens: int) -> str:
    """Return the four bars on a logarithmic axis."""

    def at(count: float) -> float:
        share = math.log10(max(count, 1e4) / 1e4) / 9  # 10 kB to 10 TB
        return LEFT + (RIGHT - LEFT) * min(share, 1.0)

    found = sizes(tokens)
    bottom = TOP + TALL * len(found)
    body = []
    for power in range(4, 14, 3):
        x = at(10.0**power)
        body.append(element("line", x1=x, x2=x, y1=TOP - 4, y2=bottom, stroke=GRID))
        words = amount(10.0**power)
        body.append(text(x, bottom + 16, words, font_size=12, fill=MUTED, text_anchor="middle"))
    for place, (name, size) in enumerate(found.items()):
        y = TOP + TALL * place
        colour = GROUPS[4] if name.startswith("H100") else GROUPS[1]
        bar = {"x": LEFT, "y": y + 4, "width": max(at(size) - LEFT, 1.0), "height": TALL - 12}
        body.append(element("rect", hover(f"{name}: {size:,} bytes"), **bar, fill=colour))
        body.append(text(LEFT - 8, y + 20, name, font_size=13, text_anchor="end"))
        body.append(text(at(size) + 8, y + 20, amount(size), font_size=14, font_weight=600))
    scores, chip = found["all scores, T × S"], found["H100: shared memory"]
    words = f"T = S = {tokens:,} tokens, bytes in float16, log scale"
    body.append(text(12, 46, words, font_size=13))
    told = (
        f"At {tokens:,} tokens the scores take {amount(scores)}, {scores / chip:,.1f} times a"
        f" program's shared memory; Q, K, V and output take {amount(found['Q, K, V and output'])}."
    )
    return panel("memory", WIDTH, bottom + 28, "One head, and where to keep it", told, *body)
