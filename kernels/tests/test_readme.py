"""The examples of kernels/README.md run as they stand."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from typing import Any

import attend_kernels
import attend_kernels.modules as modules
import pytest
import torch

from .modules_cases import choose, draw

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def examples() -> list[str]:
    """Indented blocks of Python: those that import."""
    lines = README.splitlines()
    blocks = [
        "\n".join(line[4:] for line in group)
        for code, group in groupby(lines, lambda x: x.startswith("    ") or not x)
        if code
    ]
    return [block for block in blocks if re.search(r"^(from|import) ", block, re.MULTILINE)]


def test_there_are_examples():
    assert len(examples()) >= 2


@pytest.mark.parametrize("at", range(len(examples())))
def test_examples_run(at: int, monkeypatch: pytest.MonkeyPatch):
    choose("twin", monkeypatch)
    names: dict[str, Any] = {
        "x": draw(2, 5, 8),
        "weight": torch.ones(8),
        "stream": draw(2, 5, 8, seed=1),
        "q": draw(2, 2, 5, 8),
        "logits": draw(2, 5, 11),
        "targets": torch.arange(10).reshape(2, 5),
    }
    exec(examples()[at], names)


def test_what_the_table_calls_is_there():
    """Other libraries' calls in the first column, ours in the second."""
    table = README.partition("## Coming from")[2].partition("\n## ")[0]
    ours = [row.split("|")[2] for row in table.splitlines() if row.startswith("| `")]
    called = {name for cell in ours for name in re.findall(r"`(\w+)\(", cell)}
    assert {"flash_attention", "linear_attention", "ssd"} <= called
    assert called <= set(attend_kernels.__all__)
    layers = {name for cell in ours for name in re.findall(r"modules\.(\w+)`", cell)}
    assert {"FlashAttention", "GatedLinearAttention"} == layers <= set(modules.__all__)
