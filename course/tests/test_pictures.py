"""The pictures in README.md, taken as a learner would see them; ``make pictures`` keeps them."""

from __future__ import annotations

import nbformat
import pytest

from .browser import Lab, lab

__all__ = ["lab"]  # the fixture
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.deep]

SLIP = """
import numpy as np
from attend_grader import check

def softmax(scores, axis=-1):
    weights = np.exp(scores)
    return weights / weights.sum(axis=axis, keepdims=True)

check(softmax)
"""
WIDGET = """
from attend import widgets
from attend_solutions.attention import scaled_dot_product_attention

widgets.attention_table(
    scaled_dot_product_attention, ["cat", "sat", "mat"], [[1, 0], [0, 1], [1, 1]]
)
"""


def test_card_and_widget(lab: Lab):
    cells = [
        nbformat.v4.new_code_cell(source.strip(), id=name)
        for name, source in (("card", SLIP), ("widget", WIDGET))
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    lab.write("pictures.ipynb", nbformat.v4.new_notebook(cells=cells, metadata=kernel))
    lab.resize(1000, 1400)
    lab.open("pictures.ipynb")
    lab.run_all()
    card = lab.cell(0).locator(".attend-card")
    card.wait_for()
    lab.cell(1).locator("svg[data-panel]").first.wait_for()
    for name, part in (("card", card), ("widget", lab.cell(1).locator(".jp-OutputArea-output"))):
        picture = lab.screenshot(f"readme-{name}", part.first)
        assert picture.stat().st_size > 10_000
    lab.assert_quiet()
