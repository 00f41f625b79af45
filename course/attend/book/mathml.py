"""A Sphinx extension: equations as MathML, which browsers draw without any script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attend_grader.gradebook.mathml import convert
from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(writer: HTML5Translator, node: nodes.math) -> None:
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block(writer: HTML5Translator, node: nodes.math_block) -> None:
    writer.body.append('<div class="equation" tabindex="0">')  # wide ones scroll, also by keyboard
    writer.body.append(convert(node.astext(), display="block"))
    writer.body.append("</div>")
    raise nodes.SkipNode
