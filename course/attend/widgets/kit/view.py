"""The frame around every widget: a sentence, controls, and a picture that follows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets

from attend.theme import INK
from attend.widgets.kit import states, svg
from attend.widgets.kit.live import sentence


class _Labels(anywidget.AnyWidget):
    """Invisible: names the sliders beside it for screen readers."""

    _esm = Path(__file__).with_name("labels.js")


class View(ipywidgets.VBox):
    """A picture with controls.

    `see` is the one sentence saying what to look for; `draw()` returns the picture (HTML with SVG)
    for the controls' present values. Nothing is printed: the picture is a value, replaced when a
    control moves.
    """

    def __init__(
        self, name: str, see: str, controls: Sequence[ipywidgets.Widget], draw: Callable[[], str]
    ) -> None:
        """Lay out sentence, controls and picture, and draw once."""
        self.name = name
        self.see = see
        self._draw = draw
        self._picture = ipywidgets.HTML(layout=ipywidgets.Layout(width="100%", margin="4px 0"))
        above = ipywidgets.HTML(sentence(see), layout=ipywidgets.Layout(width="100%"))
        super().__init__(
            [above, *controls, self._picture, _Labels()],
            layout=ipywidgets.Layout(width="100%", overflow="hidden"),
        )
        self.add_class("attend-view")
        self.add_class(f"attend-{name}")
        self.refresh()

    def refresh(self, _change: object = None) -> None:
        """Draw again from the controls' present values."""
        self._picture.value = self._draw()

    def static(self) -> str:
        """Return the sentence and the present picture as HTML that needs no kernel."""
        return f'<div class="attend-{self.name}">{sentence(self.see)}{self._draw()}</div>'

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """Show the live widget; where none runs, images; in a terminal, a sentence."""
        bundle: dict[str, Any] = dict(super()._repr_mimebundle_(**kwargs) or {})
        words = f"[{self.name}] {self.see}"
        bundle |= {"text/html": svg.still(self.static()), "text/plain": words}
        if states.asked() and (table := states.table(self)):
            bundle[states.MIME] = table
        return bundle

    @property
    def picture(self) -> str:
        """The picture as it stands now, HTML with SVG."""
        return self._picture.value


def note(words: str) -> str:
    """Return a message in the place of a picture, or above one."""
    style = (
        "border-left: 4px solid #E69F00; padding: 6px 10px; margin: 2px 0 8px; line-height: 1.4;"
        f" color: {INK}; white-space: normal;"
    )
    return f'<div role="status" class="attend-note" style="{style}">{escape(words)}</div>'
