"""Head surgery: switch off heads of a trained model, give it fewer keys, and see what it forgets.

Four small models answer two questions at once (``attend.data.two_relations``); they have 8, 4, 2
and 1 heads of keys and values. Hook and signature picture of chapter 05.
"""

from __future__ import annotations

import contextlib
import io
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ipywidgets

from attend.theme import EDGE, GRID, GROUPS, INK, MUTED, PAPER, ROLE, SHADE
from attend.widgets.kit.svg import beside, element, hover, panel, text
from attend.widgets.kit.view import View, note

SEE = (
    "Switch heads off one at a time: most leave both bars where they are, but one or two make a"
    " bar jump to 1, which is knowing nothing. Then move the slider: what is kept of a token"
    " shrinks eightfold; how much worse do the answers get?"
)
HEADS, WIDTH, ROWS, CHOICES = 8, 48, 256, (8, 4, 2, 1)
EXERCISE = "GroupedQueryAttention"
NUMBER = 4  # bytes of a float32
_LOW, _HIGH = -4.0, 0.5  # the axis of errors, in powers of ten


@dataclass(frozen=True)
class Operation:
    """How many heads of keys and values the model has, and which of its 8 heads are switched off.

    Heads are counted from 0.
    """

    kv_heads: int = 8
    off: frozenset[int] = frozenset()


def head_surgery(attention: Callable[..., Any] | None = None) -> View:
    """Show the two errors of a trained model whose heads can be switched off, and its cache.

    Args:
        attention: the learner's ``GroupedQueryAttention``; None: the course's. It is built as
            ``attention(48, 8, kv_heads)``, given trained weights, and called with rows (B, T, C).
    """
    heads = [
        ipywidgets.ToggleButton(
            value=True,
            description=f"head {h + 1}",
            tooltip=f"switch head {h + 1} off or on",
            layout=ipywidgets.Layout(width="66px", margin="2px"),
        )
        for h in range(HEADS)
    ]
    kv_heads = ipywidgets.SelectionSlider(
        options=CHOICES,
        value=8,
        description="heads of keys and values",
        layout=ipywidgets.Layout(width="min(380px, 98%)"),
        style={"description_width": "170px"},
    )
    row = ipywidgets.HBox(heads, layout=ipywidgets.Layout(flex_flow="row wrap"))
    seen: dict[Operation, tuple[float, float] | str] = {}

    def errors(state: Operation) -> tuple[float, float] | str:
        if state not in seen:
            seen[state] = measure(state, attention)
        return seen[state]

    def picture() -> str:
        off = frozenset(h for h, button in enumerate(heads) if not button.value)
        state = Operation(int(kv_heads.value or 8), off)
        now, whole = errors(state), errors(Operation(state.kv_heads))
        for found in (now, whole):
            if isinstance(found, str):
                return note(found)
        return draw(state, now, whole)  # type: ignore[arg-type]  # both are numbers here

    view = View("head-surgery", SEE, [row, kv_heads], picture)
    for control in (*heads, kv_heads):
        control.observe(view.refresh, names="value")
    return view


def measure(
    state: Operation, attention: Callable[..., Any] | None = None
) -> tuple[float, float] | str:
    """Mean squared errors of the friend's and the house's numbers on unseen rows.

    Returns a sentence where the learner's class is not started or stops. A head is switched off by
    a 0 in the part of W_o that reads it.
    """
    import torch
    from attend_solutions.multi_head import GroupedQueryAttention

    from attend.data import head_trials as trials

    unseen = trials.rows(trials.TEST, ROWS)
    advice = f"Run check({EXERCISE}) to see what to fix."
    printed = contextlib.redirect_stdout(io.StringIO())
    with warnings.catch_warnings(), torch.random.fork_rng(), torch.no_grad(), printed:
        warnings.simplefilter("ignore")
        try:
            model = (attention or GroupedQueryAttention)(WIDTH, HEADS, state.kv_heads)
            model.load_state_dict(trials.surgery(state.kv_heads))
            size = WIDTH // HEADS
            for h in state.off:
                model.output.weight[:, size * h : size * (h + 1)] = 0
            output = model(unseen.x.clone())[0]
            wrong = (output[..., : 2 * trials.VALUES] - unseen.answers.flatten(2)).square()
            both = wrong.unflatten(-1, (2, trials.VALUES)).mean(dim=(0, 1, 3)).tolist()
        except NotImplementedError:
            return (
                f"This picture waits for the exercise {EXERCISE}, which is not started yet: write"
                " it, then run this cell again."
            )
        except Exception as error:  # a learner's class may raise anything: report it as words
            words = f"{type(error).__name__}: {error}".strip().splitlines()[0][:160]
            return f"Your {EXERCISE} stopped with {words}. {advice}"
    if not all(map(math.isfinite, both)):
        return f"Your {EXERCISE} returned NaN or infinity. {advice}"
    return both[0], both[1]


def draw(state: Operation, errors: tuple[float, float], whole: tuple[float, float]) -> str:
    """Return the heads with their keys, and the bars; `whole` are the errors with all heads."""
    kept = 2 * state.kv_heads * (WIDTH // HEADS)
    gone = ", ".join(str(h + 1) for h in sorted(state.off))
    how = f"Without head{'s' if len(state.off) > 1 else ''} {gone}" if gone else "With all heads"
    told = f"{how}: error of the friend {_size(errors[0])}, of the house {_size(errors[1])}."
    return beside(_heads(state, told), _bars(errors, whole, told, NUMBER * kept))


def _size(error: float) -> str:
    return f"{error:.2f}" if error >= 0.01 else f"{error:.4f}"


def _heads(state: Operation, told: str) -> str:
    """Eight heads of queries; under them the heads of keys and values that they share."""
    step, left, top = 52.0, 18.0, 64.0
    body = [text(12, top - 16, "queries: what each head asks", font_size=12, fill=MUTED)]
    many = HEADS // state.kv_heads
    low = top + 92
    for g in range(state.kv_heads):
        wide = step - 8  # shared or not, a head has as many numbers
        x = left + step * many * g + step * (many - 1) / 2
        used = any(h not in state.off for h in range(many * g, many * (g + 1)))
        for h in range(many * g, many * (g + 1)):
            ends = {"x1": left + step * h + 22, "y1": top + 36, "x2": x + wide / 2, "y2": low}
            style: dict[str, Any] = {"stroke": EDGE, "stroke_width": 1.5}
            if h in state.off:
                style |= {"stroke": GRID, "stroke_dasharray": "3 3"}
            body.append(element("line", **ends, **style))
        for row, (colour, letter) in enumerate(((ROLE["K"], "k"), (ROLE["V"], "v"))):
            y = low + 30 * row
            box = {"x": x, "y": y, "width": wide, "height": 24, "rx": 4}
            words = hover(f"{letter} of head {g + 1}: {WIDTH // HEADS} numbers a token")
            style = {"fill": colour, "opacity": 1 if used else 0.45, "data_kv": g + 1}
            body.append(element("rect", words, **box, **style))
            ink = {"font_size": 13, "text_anchor": "middle", "font_weight": 600}
            body.append(text(x + wide / 2, y + 17, letter, fill="#000000", **ink))
    for h in range(HEADS):
        x, off = left + step * h, h in state.off
        box = {"x": x, "y": top, "width": step - 8, "height": 36, "rx": 6}
        fill = {"fill": SHADE if off else ROLE["Q"], "stroke": EDGE, "data_head": h + 1}
        words = hover(f"head {h + 1} is {'off' if off else 'on'}")
        body.append(element("rect", words, **box, **fill, data_on=0 if off else 1))
        ink = {"font_size": 15, "text_anchor": "middle", "font_weight": 600}
        fill_ink = MUTED if off else "#ffffff"
        body.append(text(x + 22, top + 23, str(h + 1), fill=fill_ink, **ink))
        if off:
            cross = {"stroke": GROUPS[1], "stroke_width": 3}
            body.append(element("line", x1=x + 5, y1=top + 5, x2=x + 39, y2=top + 31, **cross))
            body.append(element("line", x1=x + 39, y1=top + 5, x2=x + 5, y2=top + 31, **cross))
    words = f"keys and values, kept of every token: {state.kv_heads} × (k + v)"
    body.append(text(12, low + 78, words, font_size=12, fill=MUTED))
    on = HEADS - len(state.off)
    plural = "s" if state.kv_heads > 1 else ""
    label = f"{on} of 8 heads on, {state.kv_heads} head{plural} of keys and values"
    return panel("surgery", 446.0, 250.0, label, told, *body)


def _bars(errors: tuple[float, float], whole: tuple[float, float], told: str, kept: int) -> str:
    """Two errors on a logarithmic scale, with a tick where all heads are on; the bytes kept."""
    left, right, top = 96.0, 402.0, 52.0

    def at(error: float) -> float:
        power = math.log10(max(error, 1e-12))
        share = (min(max(power, _LOW), _HIGH) - _LOW) / (_HIGH - _LOW)
        return left + (right - left) * share

    body = []
    for power in range(int(_LOW), 1):
        x = at(10.0**power)
        body.append(element("line", x1=x, x2=x, y1=top, y2=top + 78, stroke=GRID))
        mark = {"font_size": 11, "fill": MUTED, "text_anchor": "middle"}
        body.append(text(x, top + 94, f"{10.0**power:g}", **mark))
    words = "mean squared error (log scale); 1: nothing known"
    body.append(text(left, top + 111, words, font_size=12, fill=MUTED))
    pairs = zip(("friend", "house"), errors, whole, (GROUPS[0], GROUPS[1]), strict=True)
    for place, (name, error, before, colour) in enumerate(pairs):
        y = top + 8 + 36 * place
        wide = max(at(error) - left, 1.0)
        box = {"x": left, "y": y, "width": wide, "height": 24, "fill": colour}
        said = hover(f"{name}: {error:.5f}; with all heads {before:.5f}")
        body.append(element("rect", said, **box, data_error=f"{error:.6g}", data_of=name))
        tick = {"x1": at(before), "x2": at(before), "y1": y - 4, "y2": y + 28}
        body.append(element("line", **tick, stroke=INK, stroke_width=3))
        body.append(text(left - 8, y + 17, name, font_size=13, text_anchor="end"))
        spot = at(error) + 8
        ground = {"x": spot - 3, "y": y + 3, "width": 46, "height": 18, "fill": PAPER}
        body.append(element("rect", **ground, rx=3))
        body.append(text(spot, y + 17, _size(error), font_size=13, font_weight=600))
    y = top + 138
    most = 2 * HEADS * (WIDTH // HEADS) * NUMBER
    body.append(text(left - 8, y + 17, "cache", font_size=13, text_anchor="end"))
    for size, fill in ((most, SHADE), (kept, ROLE["K"])):
        box = {"x": left, "y": y, "width": 210.0 * size / most, "height": 24, "fill": fill}
        body.append(element("rect", **box, data_bytes=size))
    body.append(text(left + 218, y + 17, f"{kept} bytes", font_size=13, font_weight=600))
    mark = {"font_size": 12, "fill": MUTED}
    body.append(text(left, y + 42, "kept of one token, in float32", **mark))
    return panel("answers", 446.0, 250.0, "Error of the two answers", told, *body)
