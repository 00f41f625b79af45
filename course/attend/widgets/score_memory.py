"""How much memory one head's score matrix would take, against what is there to take it.

All of it is arithmetic inside the chart, so the slider needs no kernel.
"""

from __future__ import annotations

import altair as alt

from attend.theme import GROUPS, WIDTH

WIDTH_OF_HEAD, ITEMSIZE = 128, 2  # D, and bytes of a float16 number
ON_CHIP, DEVICE = 232_448, 80e9
"""Shared memory that one program may use on an H100, and that GPU's memory, in bytes.

Source: NVIDIA 2024, "CUDA C++ Programming Guide", table of technical specifications (227 KB for
compute capability 9.0); NVIDIA 2023, "H100 Tensor Core GPU" data sheet (80 GB).
"""


def score_memory(first: int = 16) -> alt.LayerChart | alt.FacetChart:
    """Bars of the bytes of one head's inputs, output and scores, with a slider for the length.

    Args:
        first: log₂ of the number of tokens at the start, 8 to 20.

    Raises:
        ValueError: ``first`` is out of that range.
    """
    if not 8 <= first <= 20:
        raise ValueError(f"first: expected 8 to 20 (log₂ of the tokens), got {first}")
    power = alt.param(
        name="power",
        value=first,
        bind=alt.binding_range(min=8, max=20, step=1, name="log₂ of the tokens "),
    )
    row = float(4 * WIDTH_OF_HEAD * ITEMSIZE)
    bars = [
        {"what": "Q, K, V and output", "kind": "one head", "each": row, "whole": 0.0},
        {"what": "all scores, T × S", "kind": "one head", "each": 0.0, "whole": float(ITEMSIZE)},
        {"what": "on-chip memory", "kind": "an H100 has", "fixed": float(ON_CHIP)},
        {"what": "GPU memory", "kind": "an H100 has", "fixed": DEVICE},
    ]
    tokens = "pow(2, power)"
    base = (
        alt.Chart(alt.Data(values=bars))
        .transform_calculate(
            bytes=f"isValid(datum.fixed) ? datum.fixed"
            f" : datum.each * {tokens} + datum.whole * {tokens} * {tokens}"
        )
        .transform_calculate(label="format(datum.bytes, '.3s') + 'B'", least="1e4")
        .encode(
            y=alt.Y("what:N", sort=[bar["what"] for bar in bars], title=None),
            tooltip=[alt.Tooltip("what:N"), alt.Tooltip("label:N", title="size")],
        )
    )
    scale = alt.Scale(type="log", domain=[1e4, 2e13])
    x = alt.X(
        "bytes:Q",
        scale=scale,
        title="bytes in float16 (log scale)",
        axis=alt.Axis(format="s", tickCount=8),
    )
    mark = base.mark_bar(height=22).encode(
        x=x,
        x2=alt.X2("least:Q"),
        color=alt.Color(
            "kind:N",
            title=None,
            scale=alt.Scale(domain=["one head", "an H100 has"], range=[GROUPS[1], GROUPS[4]]),
        ),
    )
    words = base.mark_text(align="left", dx=6, fontSize=13).encode(x=x, text="label:N")
    length = (
        alt.Chart(alt.Data(values=[{}]))
        .transform_calculate(label=f"'T = S = ' + format({tokens}, ',') + ' tokens'")
        .mark_text(align="right", fontSize=13, fontWeight=600)
        .encode(x=alt.XValue("width"), y=alt.value(-10), text="label:N")
    )
    description = (
        "Bytes for one head against what a GPU has, on a logarithmic scale. At 65,536 tokens Q, K,"
        " V and the output take 67 MB, the scores 8.6 GB; an H100 has 232 kB on chip for a program"
        " and 80 GB of memory. The slider changes the number of tokens: scores grow by its square."
    )
    chart = alt.layer(mark, words, length).add_params(power)
    title = "What one head would have to store, and what there is to store it in"
    return chart.properties(title=title, description=description, width=WIDTH, height=150)
