"""The page that a learner reads on one graded notebook.

Cards come first, with links to the answers they speak of; what was asked is folded away. The page
is one small file that needs no network and runs no script.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal
from xml.etree import ElementTree

from jinja2 import Environment, PackageLoader, StrictUndefined
from nbconvert.exporters import Exporter, HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from nbgrader.utils import is_grade, is_solution, is_task
from traitlets import Bool

from attend_grader.gradebook.mathml import convert
from attend_grader.gradebook.scores import FLAGGED, LOST

MOST_BYTES = 60_000
"""Of a page; where it would be larger, what was asked is left to the notebook."""

MOST_ANSWER = 6_000
"""Characters of an answer that are shown."""

NOT_GRADED = "attend-problem"
OURS = (NOT_GRADED, "attend-flags")
"""Cells that grading puts in front: why nothing could be graded, what was put back."""

_STYLED = re.compile(r'<(\w+) style="([^"]{20,})">')


@dataclass(frozen=True)
class Item:
    """What a page says of one graded cell.

    Attributes:
        name: of the exercise.
        anchor: of its feedback.
        score: that counts.
        points: the most there is.
        card: the check's, as HTML; empty for tests and tasks of an instructor's own.
        error: why a test of an instructor's own failed.
        by_hand: whether the score is not the check's.
        comment: an instructor's.
        answer: the learner's cell; None where the graded cell has none beside it.
        text: what was asked, as HTML.
    """

    name: str
    anchor: str
    score: float
    points: float
    card: str
    error: str
    by_hand: bool
    comment: str
    answer: str | None
    text: str

    @property
    def share(self) -> float:
        """Of the points, 0 to 1."""
        return min(max(self.score / self.points, 0.0), 1.0) if self.points else 0.0

    @property
    def told(self) -> bool:
        """Whether there is anything to say of it but its points."""
        return bool(self.card or self.error or self.by_hand or self.comment)

    def without_answer(self) -> Item:
        """Its points and what an instructor said: nothing of it could be read."""
        return replace(self, card="", error="", answer=None, text="")


class FeedbackPage(HTMLExporter):
    """``GenerateFeedback.exporter_class``: the page in the place of nbgrader's own."""

    overview = Bool(False, help="Link to the student's page, which `attend feedback` writes.").tag(
        config=True
    )

    def _preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, dict[str, Any]]:
        """Leave out of comments what is for instructors, and what the page says above."""
        nb, resources = super()._preprocess(nb, resources)
        for cell in nb.cells:
            marks = cell.metadata.get("nbgrader", {})
            if marks.get("comment"):
                lines = marks["comment"].split("\n")
                marks["comment"] = (
                    "\n".join(n for n in lines if not n.startswith((FLAGGED, LOST))) or None
                )
        return nb, resources

    def from_notebook_node(
        self, nb: NotebookNode, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[str, dict[str, Any]]:
        """The page of one graded notebook."""
        graded: Any
        graded, told = Exporter.from_notebook_node(self, nb, resources, **kw)  # type: ignore[arg-type]  # a dict will do
        facts = told.get("nbgrader", {})
        items = list(_items(graded.cells, _MATHS[-1]))
        about: dict[str, Any] = {
            "name": facts.get("notebook", "notebook"),
            "score": facts.get("score", sum(item.score for item in items)),
            "points": facts.get("max_score", sum(item.points for item in items)),
            "penalty": facts.get("late_penalty", 0),
            "notices": [_html(c.source) for c in graded.cells if c.get("id") in OURS],
            "overview": self.overview,
        }
        page = ""
        for maths in _MATHS:  # the fullest that is small enough
            items = list(_items(graded.cells, maths))
            if any(cell.get("id") == NOT_GRADED for cell in graded.cells):
                items = [item.without_answer() for item in items]
            page = _page(items, about)
            if len(page.encode()) <= MOST_BYTES:
                break
        while len(page.encode()) > MOST_BYTES and any(item.text for item in items):
            items = _shortened(items, len(page.encode()) - MOST_BYTES)
            page = _page(items, about)
        return page, told


def environment() -> Environment:
    """Of templates; every value is escaped, but for what is marked as HTML of our own."""
    return Environment(
        loader=PackageLoader("attend_grader.gradebook"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _page(items: Sequence[Item], about: dict[str, Any]) -> str:
    styles: dict[str, int] = {}

    def named(match: re.Match[str]) -> str:
        """A class in the place of a style that many rows of many cards repeat."""
        number = styles.setdefault(match[2], len(styles))
        return f"<{match[1]} class=s{number}>"

    shown = [replace(item, card=_STYLED.sub(named, item.card)) for item in items]
    return environment().get_template("feedback.html").render(items=shown, styles=styles, **about)


def _shortened(items: Sequence[Item], excess: int) -> list[Item]:
    """With fewer texts of what was asked: solved exercises' first, and later ones' before."""
    left, short = excess, set[str]()
    order = sorted(range(len(items)), key=lambda n: (items[n].score < items[n].points, -n))
    for item in (items[number] for number in order):
        if left > 0 and item.text:
            left -= len(item.text.encode())
            short.add(item.anchor)
    return [replace(item, text="") if item.anchor in short else item for item in items]


def _items(cells: Sequence[NotebookNode], maths: Maths) -> Any:
    """What is graded, in order; each with the solution cell before it that has its name."""
    solutions = {
        cell.metadata.nbgrader.grade_id: number
        for number, cell in enumerate(cells)
        if is_solution(cell)
    }
    for number, cell in enumerate(cells):
        if not (is_grade(cell) or is_task(cell)):
            continue
        marks = cell.metadata.nbgrader
        name = marks.grade_id.removeprefix("check-")
        home = number if is_solution(cell) or is_task(cell) else solutions.get(name)
        own = cells[home] if home is not None else None
        output = next(iter(cell.get("outputs", ())), {})
        data = output.get("data", {})
        given = data.get("text/plain", "")
        score = float(marks.get("score") or 0.0)
        said = own.metadata.nbgrader.get("comment") if own is not None else marks.get("comment")
        yield Item(
            name=name,
            anchor=marks.grade_id,
            score=score,
            points=float(marks.get("points") or 0.0),
            card=data.get("text/html", ""),
            error="\n".join(output.get("traceback", ())),
            by_hand=_differs(given, score),
            comment=said or "",
            answer=None if own is None else _cut(own.source),
            text="" if home is None else _asked(cells[:home], maths),
        )


def _differs(given: str, score: float) -> bool:
    """Whether a card's own score is another one."""
    try:
        return abs(float(given) - score) > 1e-9
    except ValueError:
        return False


def _cut(source: str) -> str:
    more = len(source) - MOST_ANSWER
    return source if more <= 0 else f"{source[:MOST_ANSWER]}\n… {more} more characters"


def _asked(before: Sequence[NotebookNode], maths: Maths) -> str:
    """The text above an exercise's cell, from its heading on, as HTML."""
    parts: list[str] = []
    for cell in reversed(before):
        if cell.cell_type != "markdown":
            break
        parts.insert(0, cell.source)
        if cell.source.startswith("#"):
            break
    return _html("\n\n".join(parts), maths) if parts else ""


@dataclass(frozen=True)
class Maths:
    """Which formulas become MathML, which browsers draw by themselves; others stay TeX."""

    inline: bool = True
    block: bool = True


_MATHS = (Maths(), Maths(inline=False), Maths(inline=False, block=False))


class _Text(IPythonRenderer):
    """Markdown whose formulas need nothing to be loaded."""

    def __init__(self, maths: Maths) -> None:
        super().__init__(escape=False, exclude_anchor_links=True)
        self.maths = maths

    def block_math(self, body: str) -> str:
        drawn = self.maths.block and _mathml(body, "block")
        return drawn or f'<div class="tex">{self.escape_html(_tex(body))}</div>'

    def inline_math(self, body: str) -> str:
        drawn = self.maths.inline and _mathml(body, "inline")
        return drawn or f'<span class="tex">{self.escape_html(_tex(body))}</span>'


def _html(source: str, maths: Maths = _MATHS[-1]) -> str:
    return MarkdownWithMath(renderer=_Text(maths)).render(source)


_HARMLESS = frozenset(
    [
        "accent",
        "columnalign",
        "columnspacing",
        "depth",
        "display",
        "displaystyle",
        "fence",
        "form",
        "height",
        "linethickness",
        "lspace",
        "mathsize",
        "mathvariant",
        "maxsize",
        "minsize",
        "movablelimits",
        "notation",
        "rowspacing",
        "rspace",
        "scriptlevel",
        "separator",
        "stretchy",
        "voffset",
        "width",
        "xmlns",
    ]
)
"""Attributes that lay a formula out: none that links or runs anything."""


@lru_cache(maxsize=4096)
def _mathml(body: str, display: Literal["inline", "block"]) -> str:
    """The formula as MathML, or "" where it is no TeX that is known."""
    try:
        text = convert(body, xmlns="", display=display)
        made = list(ElementTree.fromstring(text).iter())
    except Exception:  # its errors have no class in common; \text{...} may hold markup
        return ""
    if any(not part.tag.startswith("m") or set(part.keys()) - _HARMLESS for part in made):
        return ""
    return text.replace(' xmlns=""', "")


def _tex(body: str) -> str:
    """A formula without the marks that only a typesetter needs."""
    body = re.sub(r"\\(left|right|big|Big|displaystyle|quad|qquad|;|,|!)(?![A-Za-z])", " ", body)
    return re.sub(r"[ \t]+", " ", body).strip()
