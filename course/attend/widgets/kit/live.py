"""Widgets that one drags: a plain ES module beside its Python, a picture that stands without it.

Python draws the picture once; the module moves its marked parts (`data_part="…"`) while the
learner drags. So nothing is drawn in two languages, and where no kernel runs, or the notebook is
not trusted, the very same picture stands still.

    class DragQuery(Live, module=__file__):       # drag_query.py, with drag_query.js beside it
        q = traitlets.List([1.0, 0.5]).tag(sync=True)

    export default live(({ model, parts, controls, say }) => { … });        // drag_query.js

`live`, `slider` and `draggable` are in live.js, which goes in front of every module: an anywidget
is one file, fetched by the kernel, so that it works offline and needs no build.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from attend.theme import INK
from attend.widgets.kit import svg

KIT = Path(__file__).with_suffix(".js")
STYLE = """
.attend-live { color: var(--jp-content-font-color1, #1f2328); font-size: 14px; line-height: 1.4; }
.attend-live p { margin: 2px 0; }
.attend-live label { align-items: center; display: flex; flex-wrap: wrap; gap: 4px 12px; }
.attend-live input[type="range"] { flex: 0 1 260px; min-width: 120px; accent-color: #0072B2; }
.attend-live [data-part][tabindex] { cursor: grab; outline: none; touch-action: none; }
.attend-live [data-part][tabindex]:focus-visible { stroke: currentColor; stroke-width: 4; }
"""


class Live(anywidget.AnyWidget):
    """A picture whose parts an ES module moves.

    Subclasses name their file (`module=__file__`; the ES module has the same name, ending in .js)
    and add traits tagged `sync=True`.
    """

    _css = STYLE
    name = ""
    see = traitlets.Unicode().tag(sync=True)
    """The sentence saying what to look for."""
    picture = traitlets.Unicode().tag(sync=True)
    """Panels side by side, as the widget begins."""

    def __init_subclass__(cls, *, module: str = "", **kwargs: Any) -> None:
        """Put the kit in front of the widget's own module."""
        if module:  # not so for the subclass that traitlets derives for each instance
            own = Path(module).with_suffix(".js")
            cls._esm = f"{KIT.read_text(encoding='utf-8')}\n{own.read_text(encoding='utf-8')}"
            cls.name = own.stem.replace("_", "-")
        super().__init_subclass__(**kwargs)

    def static(self) -> str:
        """Return sentence and picture as HTML that needs neither kernel nor script."""
        return f'<div class="attend-{self.name}">{sentence(self.see)}{self.picture}</div>'

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Show the live widget; where none runs, images; in a terminal, a sentence."""
        shown: Any = super()._repr_mimebundle_(**kwargs) or {}
        bundle, *metadata = shown if isinstance(shown, tuple) else (shown,)
        words = f"[{self.name}] {self.see}"
        bundle = bundle | {"text/html": svg.still(self.static()), "text/plain": words}
        return (bundle, *metadata) if metadata else bundle


def sentence(see: str) -> str:
    """Return the sentence that stands above every widget."""
    style = f"line-height: 1.4; margin: 2px 0; white-space: normal; color: {INK}; font-size: 14px;"
    return f'<div style="{style}"><strong>What to see.</strong> {escape(see)}</div>'
