"""Every equation fits beside the file browser in a narrow window, where nothing may be cut off."""

from __future__ import annotations

import nbformat
import pytest
from attend import build, chapter

from .browser import Lab, lab

__all__ = ["lab"]  # the fixture
pytestmark = [pytest.mark.browser, pytest.mark.deep]


@pytest.mark.parametrize("name", chapter.chapter_ids())
def test_equations_fit_at_800_px(lab: Lab, name: str):
    cells = [c for c in build.solved_notebook(name).cells if c.cell_type == "markdown"]
    texts = [nbformat.v4.new_markdown_cell(cell.source) for cell in cells]
    lab.show_saved(f"{name}.ipynb", *texts)
    lab.resize(800)
    lab.show_files()
    lab.page.locator("mjx-container").first.wait_for()
    lab.page.wait_for_timeout(1500)  # the others are typeset one after the other
    lab.assert_text_fits()
