"""The page that a learner reads: nbgrader's feedback, with names and readable tables.

nbgrader's own template lists every graded cell as "Test cell", and its style sheet takes the
padding of tables and the triangles of folds away. Both are put right in the page that it made.
"""

from __future__ import annotations

import re
from typing import Any

from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode

from attend_grader.gradebook.scores import FLAGGED

STYLE = """<style>
.text_cell_render table{margin:.6em 0 1.2em}
.text_cell_render td,.text_cell_render th{padding:.2em .7em;vertical-align:top}
.text_cell_render summary{display:list-item;cursor:pointer}
.cell{margin-bottom:.9em}
.cell .prompt,.anchor-link{display:none}
</style>
"""

_LISTED = re.compile(r'(<a href="#(?:check-)?([\w./-]+)">)Test cell</a>')


class FeedbackPage(HTMLExporter):
    """``GenerateFeedback.exporter_class``: nbgrader's page, put right."""

    def _preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, dict[str, Any]]:
        """Leave out of comments what is for instructors."""
        nb, resources = super()._preprocess(nb, resources)
        for cell in nb.cells:
            marks = cell.metadata.get("nbgrader", {})
            if marks.get("comment"):
                lines = marks["comment"].split("\n")
                marks["comment"] = "\n".join(n for n in lines if not n.startswith(FLAGGED)) or None
        return nb, resources

    def from_notebook_node(
        self, nb: NotebookNode, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[str, dict[str, Any]]:
        """The page of one graded notebook."""
        page, resources = super().from_notebook_node(nb, resources, **kw)
        top, body, rest = page.partition('<div id="notebook"')
        top = top.replace("</head>", f"{STYLE}</head>", 1)
        return _LISTED.sub(r"\1\2</a>", top) + body + rest, resources
