"""Chapter 16's two charts: what on-chip memory buys, and what is held at once."""

from __future__ import annotations

from collections.abc import Iterable

import altair as alt

from attend import charts


def traffic_chart(rows: Iterable[charts.Row]) -> alt.LayerChart:
    """Traffic of one head against on-chip memory, one line a way of doing it.

    Args:
        rows: each with ``KiB`` on the chip, ``GB`` moved, and the ``way``.

    Raises:
        ValueError: a column is missing or a number is not finite.
    """
    return charts.line(
        rows,
        "KiB",
        "GB",
        "way",
        title="8,192 tokens, D = 128: flash moves least from 32 KiB on, whole rows most",
        description="Traffic of one head of width 128 at 8,192 tokens against on-chip memory, both "
        "axes logarithmic. Flash, two passes and whole rows fall about as one over the memory: two "
        "passes lie 1.4 to 1.5 times as high as flash, whole rows 22 to 61 times. Standard falls "
        "from 1.10 to 0.55 GB: flash is 5 % above it at 16 KiB and below it from 32 KiB on, two "
        "passes from 64 KiB on, whole rows nowhere: they stay 1.5 % above it at 1,024 KiB.",
        x_title="on-chip memory (KiB, log scale)",
        y_title="traffic of one head (GB, log scale)",
        log_x=2,
        log_y=10,
    )


def peak_chart(rows: Iterable[charts.Row]) -> alt.LayerChart:
    """Most memory held at once against length, one line a form.

    Args:
        rows: each with the length ``T``, ``MB`` held, and the ``form``.

    Raises:
        ValueError: a column is missing or a number is not finite.
    """
    return charts.line(
        rows,
        "T",
        "MB",
        "form",
        title="Beside its results, flash attention holds a few tiles",
        description="Peak memory against length, both axes logarithmic. The naive form quadruples "
        "with each doubling of the length; flash stays 0.14 MB above the size of its results.",
        x_title="queries and keys, T = S (log scale)",
        y_title="peak memory (MB, log scale)",
        log_x=2,
        log_y=10,
    )
