"""A widget's pictures for the values of its controls, for a page where no Python runs.

The book's solved runs ask for them (`ASKED` in the environment): a View then shows, besides itself,
a table of its pictures that `book.js` leafs through. Controls that take text, or that only press
others, keep the value they have. Switches beside each other are tried one at a time. Where there
would be too many pictures, sliders have fewer stops, the last ones first; with one stop left, a
slider is not shown.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets

MIME = "application/vnd.attend.states+json"
ASKED = "ATTEND_BOOK"
MOST = 150
"""Pictures of a widget, at most."""
LARGEST = 300_000
"""Bytes of a widget's table, packed, at most."""
LEAST = ((16, 3), (16, 1), (1, 1))
"""How few stops the first slider may have, and each other one: tried in this order."""

_PIECE = re.compile(r"<[^>]*>[^<]*|[^<]+")
_SLIDERS = (ipywidgets.IntSlider, ipywidgets.FloatSlider, ipywidgets.FloatLogSlider)
_CHOICES = (ipywidgets.Dropdown, ipywidgets.ToggleButtons, ipywidgets.RadioButtons)


@dataclass
class Control:
    """One control of the page, for one widget or for several switches.

    Attributes:
        label: what stands beside it.
        kind: ``"slider"`` or ``"choice"``.
        stops: for each stop, the values of ``widgets``, and what is said of it.
        at: the stop at which the widget stands.
    """

    label: str
    kind: str
    widgets: list[Any]
    stops: list[tuple[tuple[Any, ...], str]]
    at: int

    def thinner(self) -> Control:
        """The same with every second stop; the present one stays, and the ends while they can."""
        last = len(self.stops) - 1
        kept = {i for i in range(last + 1) if i % 2 == 0 or i == last}
        if last < 3:
            kept = {self.at, last} if last == 2 else {self.at}
        elif self.at not in kept:
            kept = kept - {self.at - 1 or self.at + 1} | {self.at}
        stops = [self.stops[i] for i in sorted(kept)]
        return Control(self.label, self.kind, self.widgets, stops, sorted(kept).index(self.at))


def table(view: Any) -> dict[str, Any] | None:
    """Return controls and pictures of a View, or None where no control has a stop.

    The table holds `controls`, `pieces` (parts of pictures), and `states`: for each choice of
    stops, the last control's fastest, the numbers of its picture's pieces.
    """
    controls = _controls(view)
    if not controls:
        return None
    seen: dict[tuple[Any, ...], str] = {}
    before = [(w, w.value) for c in controls for w in c.widgets]
    while True:
        if _count(controls) <= MOST:
            made = _table(view, controls, seen)
            if len(packed(made)) <= LARGEST:
                break
        thinned = _thinned(controls)
        if thinned is None:
            made = None
            break
        controls = thinned
    for widget, value in before:
        widget.value = value
    return made


def packed(table: dict[str, Any]) -> bytes:
    """Return the table as JSON in zlib's format, which browsers unpack."""
    return zlib.compress(json.dumps(table, ensure_ascii=False).encode(), 9)


def asked() -> bool:
    """Whether a book is being made."""
    return bool(os.environ.get(ASKED))


def _table(view: Any, controls: Sequence[Control], seen: dict[Any, str]) -> dict[str, Any]:
    numbers: dict[str, int] = {}
    states = []
    for chosen in itertools.product(*(control.stops for control in controls)):
        key = tuple(values for values, _ in chosen)
        if key not in seen:
            for control, (values, _) in zip(controls, chosen, strict=True):
                for widget, value in zip(control.widgets, values, strict=True):
                    widget.value = value
            seen[key] = view.picture
        pieces = _PIECE.findall(seen[key])
        states.append([numbers.setdefault(piece, len(numbers)) for piece in pieces])
    shown = [
        {"label": c.label, "kind": c.kind, "stops": [said for _, said in c.stops], "at": c.at}
        for c in controls
        if len(c.stops) > 1
    ]
    return {"controls": shown, "pieces": list(numbers), "states": states}


def _count(controls: Sequence[Control]) -> int:
    count = 1
    for control in controls:
        count *= len(control.stops)
    return count


def _thinned(controls: list[Control]) -> list[Control] | None:
    """The controls with fewer stops of one slider; None where none can lose any."""
    for first, other in LEAST:
        for place in reversed(range(len(controls))):
            control = controls[place]
            if control.kind == "slider" and len(control.stops) > (other if place else first):
                return [*controls[:place], control.thinner(), *controls[place + 1 :]]
    return None


def _controls(view: Any) -> list[Control]:
    found: list[Control] = []
    for group in _groups(view):
        switches = [w for w in group if isinstance(w, ipywidgets.ToggleButton)]
        labels = [w.value for w in group if isinstance(w, ipywidgets.Label)]
        if len(switches) > 1:
            found.append(_one_switch(switches, *labels))
        kept = () if len(switches) > 1 else (ipywidgets.ToggleButton,)
        kept = (*_SLIDERS, *_CHOICES, ipywidgets.SelectionSlider, ipywidgets.Checkbox, *kept)
        found += [_control(w) for w in group if isinstance(w, kept)]
    return [control for control in found if len(control.stops) > 1]


def _groups(box: Any) -> Iterator[list[Any]]:
    """What stands in each box itself, in the order of the page."""
    own = []
    for child in box.children:
        if isinstance(child, ipywidgets.Box):
            yield own
            own = []
            yield from _groups(child)
        else:
            own.append(child)
    yield own


def _one_switch(switches: list[Any], label: str = "") -> Control:
    """All as they are; or one of them turned."""
    now = tuple(switch.value for switch in switches)
    stops = [(now, "none")]
    for place, switch in enumerate(switches):
        turned = (*now[:place], not now[place], *now[place + 1 :])
        stops.append((turned, switch.description))
    label = label.rstrip(":") or ("off" if all(now) else "on")
    return Control(label, "choice", switches, stops, 0)


def _control(widget: Any) -> Control:
    kind, label = "choice", widget.description
    if isinstance(widget, _SLIDERS):
        values, said = _values(widget)
        kind = "slider"
    elif isinstance(widget, (*_CHOICES, ipywidgets.SelectionSlider)):
        values, said = [value for _, value in _options(widget)], [s for s, _ in _options(widget)]
        kind = "slider" if isinstance(widget, ipywidgets.SelectionSlider) else "choice"
    else:
        values, said = [False, True], ["no", "yes"]
    stops = [((value,), words) for value, words in zip(values, said, strict=True)]
    near = [value == widget.value for value in values]
    return Control(label, kind, [widget], stops, near.index(True) if any(near) else 0)


def _options(widget: Any) -> list[tuple[str, Any]]:
    return list(zip(widget._options_labels, widget._options_values, strict=True))


def _values(slider: Any) -> tuple[list[Any], list[str]]:
    """A slider's stops, its present value among them, and what it shows at each."""
    if isinstance(slider, ipywidgets.IntSlider):
        values: list[Any] = list(range(slider.min, slider.max + 1, slider.step))
    else:
        count = round((slider.max - slider.min) / slider.step)
        values = [slider.min + i * slider.step for i in range(count + 1)]
        if isinstance(slider, ipywidgets.FloatLogSlider):
            values = [slider.base**value for value in values]
        near = min(range(len(values)), key=lambda i: abs(values[i] - slider.value))
        values[near] = slider.value
    form = "d" if isinstance(slider, ipywidgets.IntSlider) else slider.readout_format
    return values, [format(value, form) for value in values]
