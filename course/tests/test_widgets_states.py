"""Tables of a widget's pictures: each is what the widget draws; the widget stays as it was."""

from __future__ import annotations

import json
import zlib
from typing import Any

import ipywidgets
import pytest
from attend import widgets
from attend.widgets import View
from attend.widgets.kit import states


def shown(table: dict[str, Any], *chosen: int) -> str:
    """The picture that the page puts together for these stops."""
    state = 0
    for control, stop in zip(table["controls"], chosen, strict=True):
        state = state * len(control["stops"]) + stop
    return "".join(table["pieces"][piece] for piece in table["states"][state])


def view(*controls: Any, size: int = 0) -> View:
    def flat(boxes: Any) -> list[Any]:
        return [w for box in boxes for w in (flat(getattr(box, "children", ())) or [box])]

    def draw() -> str:
        said = "|".join(f"{getattr(w, 'value', '')}" for w in flat(controls))
        noise = "".join(f'<rect x="{hash((said, i)) % 10**9}"/>' for i in range(size))
        return f"<svg><text>{said}</text>{noise}</svg>"

    made = View("test", "See.", controls, draw)
    for control in flat(controls):
        if hasattr(control, "value"):
            control.observe(made.refresh, names="value")
    return made


def test_every_choice_has_its_picture_and_the_widget_stays():
    slider = ipywidgets.IntSlider(value=3, min=1, max=4, description="n")
    kind = ipywidgets.Dropdown(options=[("a word", "a"), ("b word", "b")], value="b")
    words = ipywidgets.Text("mine")
    made = view(slider, ipywidgets.HBox([kind, words]))
    before = made.picture
    table = states.table(made)
    assert table is not None
    assert table["controls"] == [
        {"label": "n", "kind": "slider", "stops": ["1", "2", "3", "4"], "at": 2},
        {"label": "", "kind": "choice", "stops": ["a word", "b word"], "at": 1},
    ]
    assert len(table["states"]) == 8
    assert shown(table, 2, 1) == before == made.picture == "<svg><text>3|b|mine</text></svg>"
    assert shown(table, 0, 0) == "<svg><text>1|a|mine</text></svg>"
    assert shown(table, 3, 1) == "<svg><text>4|b|mine</text></svg>"
    assert json.loads(zlib.decompress(states.packed(table))) == table


def test_switches_beside_each_other_are_turned_one_at_a_time():
    on = [ipywidgets.ToggleButton(True, description=name) for name in "abc"]
    off = [ipywidgets.ToggleButton(False, description=name) for name in "de"]
    made = view(ipywidgets.HBox(on), ipywidgets.HBox([ipywidgets.Label("hide:"), *off]))
    table = states.table(made)
    assert table is not None
    assert [c["label"] for c in table["controls"]] == ["off", "hide"]
    assert [c["stops"] for c in table["controls"]] == [["none", "a", "b", "c"], ["none", "d", "e"]]
    assert "True|False|True|hide:|False|True" in shown(table, 2, 2)


def test_checks_floats_and_powers_have_stops():
    table = states.table(
        view(
            ipywidgets.Checkbox(True, description="mask"),
            ipywidgets.FloatSlider(value=0.31, min=0.1, max=0.5, step=0.2),
            ipywidgets.FloatLogSlider(value=1, min=-1, max=1, step=1),
        )
    )
    assert table is not None
    stops = [control["stops"] for control in table["controls"]]
    assert stops == [["no", "yes"], ["0.10", "0.31", "0.50"], ["0.1", "1", "10"]]
    assert [control["at"] for control in table["controls"]] == [1, 1, 1]


@pytest.mark.parametrize(("count", "at"), [(4, 2), (5, 1), (31, 30), (31, 17), (3, 1), (2, 0)])
def test_a_thinner_slider_keeps_where_it_stands(count: int, at: int):
    control = states.Control("", "slider", [], [((i,), str(i)) for i in range(count)], at)
    while len(control.stops) > 1:
        thinner = control.thinner()
        assert len(thinner.stops) < len(control.stops)
        assert thinner.stops[thinner.at] == ((at,), str(at))
        if len(control.stops) > 3:
            assert {thinner.stops[0], thinner.stops[-1]} == {((0,), "0"), control.stops[-1]}
        control = thinner


def test_too_many_pictures_are_fewer_stops_and_the_first_slider_keeps_most():
    sliders = [ipywidgets.IntSlider(value=7, min=0, max=20, description=d) for d in "ab"]
    table = states.table(view(*sliders))
    assert table is not None
    a, b = (control["stops"] for control in table["controls"])
    assert len(a) == 21
    assert 3 <= len(b) < 8
    assert len(table["states"]) == len(a) * len(b) <= states.MOST
    assert "7|7" in shown(table, *(control["at"] for control in table["controls"]))


def test_a_table_too_large_is_thinned_and_one_that_cannot_be_is_left_out():
    slider = ipywidgets.IntSlider(value=7, min=0, max=20)
    table = states.table(view(slider, size=4000))
    assert table is not None
    assert len(table["states"]) < 21
    assert len(states.packed(table)) <= states.LARGEST
    choice = ipywidgets.Dropdown(options=range(20))
    before = choice.value
    assert states.table(view(choice, size=4000)) is None
    assert choice.value == before


def test_nothing_to_choose_is_no_table():
    assert states.table(view(ipywidgets.Text("a"))) is None
    assert states.table(view(ipywidgets.IntSlider(value=1, min=1, max=1))) is None


def test_a_widget_brings_its_table_only_where_a_book_is_made(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(states.ASKED, raising=False)
    made = widgets.score_memory()
    assert states.MIME not in made._repr_mimebundle_()
    monkeypatch.setenv(states.ASKED, "1")
    table = made._repr_mimebundle_()[states.MIME]
    (control,) = table["controls"]
    assert shown(table, control["at"]) == made.picture
    assert len(set(map(tuple, table["states"]))) == len(control["stops"]) == 13
