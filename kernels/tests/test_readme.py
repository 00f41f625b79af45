"""The examples of kernels/README.md and of the guide run as they stand; what they name is there."""

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

HOME = Path(__file__).parents[1]
README = (HOME / "README.md").read_text(encoding="utf-8")
PAGES = {page.name: page for page in [HOME / "README.md", *sorted((HOME / "guide").glob("*.md"))]}


def examples(page: Path) -> list[str]:
    """Indented blocks of Python: those that import."""
    lines = page.read_text(encoding="utf-8").splitlines()
    blocks = [
        "\n".join(line[4:] for line in group)
        for code, group in groupby(lines, lambda x: x.startswith("    ") or not x)
        if code
    ]
    return [block for block in blocks if re.search(r"^(from|import) ", block, re.MULTILINE)]


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_examples_run(page: Path, monkeypatch: pytest.MonkeyPatch):
    choose("twin", monkeypatch)
    assert examples(page)
    for example in examples(page):
        names: dict[str, Any] = {
            "x": draw(2, 5, 8),
            "weight": torch.ones(8),
            "stream": draw(2, 5, 8, seed=1),
            "q": draw(2, 2, 5, 8),
            "logits": draw(2, 5, 11),
            "targets": torch.arange(10).reshape(2, 5),
        }
        torch.manual_seed(0)
        exec(example, names)


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_places_they_name_are_there(page: Path):
    text = page.read_text(encoding="utf-8")
    for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        assert (page.parent / link).exists(), link
    for place in re.findall(r"`((?:ops|common)/[a-z0-9_/.]+)`", text):
        assert (HOME / "attend_kernels" / place).exists(), place


def test_what_the_table_calls_is_there():
    """Other libraries' calls in the first column, ours in the second."""
    table = README.partition("## Coming from")[2].partition("\n## ")[0]
    ours = [row.split("|")[2] for row in table.splitlines() if row.startswith("| `")]
    called = {name for cell in ours for name in re.findall(r"`(\w+)\(", cell)}
    assert {"flash_attention", "linear_attention", "ssd"} <= called
    assert called <= set(attend_kernels.__all__)
    layers = {name for cell in ours for name in re.findall(r"modules\.(\w+)`", cell)}
    assert {"FlashAttention", "GatedLinearAttention"} == layers <= set(modules.__all__)
