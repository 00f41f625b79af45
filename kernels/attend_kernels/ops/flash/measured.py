"""Tiles measured to be faster than those chosen without a GPU: place in the table, fields.

Written by ``python -m attend_kernels.bench.sweep --write``; never edited by hand.
"""

from __future__ import annotations

from typing import Any

MEASURED: dict[Any, tuple[Any, ...]] = {}
