"""The gradient explorer: how far back a recurrent network's gradient reaches."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import ipywidgets
import numpy as np

from attend.theme import GRID, INK, MUTED, SCALED, UNSCALED
from attend.widgets.kit.heatmap import heat_map
from attend.widgets.kit.learner import ask
from attend.widgets.kit.svg import beside, element, hover, number, panel, text
from attend.widgets.kit.view import View, note

RADII = tuple(k / 10 for k in range(5, 16))  # 0.5 … 1.5
NETWORKS = {"linear, no tanh": 0.0, "tanh, small inputs": 0.1, "tanh, inputs of size 1": 1.0}
"""What the network is called → the standard deviation of its inputs; 0: no tanh at all."""
MATRICES = ("random", "stretched rotation")
WIDTH, STEPS, EVERY = 16, 41, 4  # numbers in a state, states, columns of the map
REACH = 8  # powers of ten above and below 1 that the curve shows

SEE = (
    "Each step back multiplies the gradient by roughly the radius: below 1 it vanishes, above 1 it"
    " explodes. tanh, whose slopes are at most 1, takes away more, and more with larger inputs."
)


@dataclass(frozen=True)
class GradientState:
    """What the controls say: spectral radius of W_h, network and kind of matrix."""

    radius: float = 0.9
    network: str = "linear, no tanh"
    matrix: str = "random"


@dataclass(frozen=True)
class Measured:
    """Norms for every radius, shape (len(RADII), STEPS), last state last; or what is wrong."""

    norms: np.ndarray
    problem: str = ""
    remark: str = ""


Measure = Callable[[str, str], Measured]


def gradient_explorer(
    gradient_norms: Callable[..., Any], rnn_forward: Callable[..., Any], seed: int = 0
) -> View:
    """Show your ‖∂h_T/∂h_t‖ against distance and spectral radius.

    The slider takes the arrow keys. `rnn_forward` makes the states where there is a tanh. `seed`
    chooses matrix and inputs. Raises ValueError when one of the two is not a function.
    """
    for name, function in {"gradient_norms": gradient_norms, "rnn_forward": rnn_forward}.items():
        if not callable(function):
            raise ValueError(f"gradient_explorer: {name} must be your function; got {function!r}.")
    slider = ipywidgets.SelectionSlider(
        options=[(f"{radius:.1f}", radius) for radius in RADII],
        value=GradientState.radius,
        description="radius",
        tooltip="spectral radius of W_h: the largest absolute value of its eigenvalues",
        layout=ipywidgets.Layout(width="min(420px, 98%)"),
    )
    network, matrix = (
        ipywidgets.Dropdown(
            options=list(options),
            description=name,
            layout=ipywidgets.Layout(width="min(300px, 98%)"),
        )
        for name, options in (("network", NETWORKS), ("matrix", MATRICES))
    )
    bar = ipywidgets.HBox([slider, network, matrix], layout=ipywidgets.Layout(flex_flow="row wrap"))
    found = cache(lambda kind, of: measure(gradient_norms, rnn_forward, kind, of, seed))
    view = View(
        "gradient-explorer",
        SEE,
        [bar],
        lambda: draw(GradientState(slider.value, str(network.value), str(matrix.value)), found),
    )
    for control in (slider, network, matrix):
        control.observe(view.refresh, names="value")
    return view


def unit_radius(matrix: str, seed: int) -> np.ndarray:
    """Return a matrix (WIDTH, WIDTH) whose spectral radius is 1.

    Raises ValueError for a kind that is not in `MATRICES`.
    """
    if matrix not in MATRICES:
        raise ValueError(f"gradient_explorer: matrix must be one of {', '.join(MATRICES)}.")
    entries = np.random.default_rng(seed).standard_normal((WIDTH, WIDTH))
    if matrix == "stretched rotation":
        return np.linalg.qr(entries)[0]
    return entries / np.abs(np.linalg.eigvals(entries)).max()


def measure(
    gradient_norms: Callable[..., Any],
    rnn_forward: Callable[..., Any],
    network: str,
    matrix: str,
    seed: int,
) -> Measured:
    """Ask the two functions for the norms at every radius, with the same matrix and inputs."""
    size, base = NETWORKS[network], unit_radius(matrix, seed)
    x = size * np.random.default_rng(seed + 1).standard_normal((1, STEPS, WIDTH))
    start, identity, no_bias = np.zeros((1, WIDTH)), np.eye(WIDTH), np.zeros(WIDTH)
    rows, remark = [], ""
    for radius in RADII:
        states = np.zeros((1, STEPS, WIDTH))  # at 0 the slope of tanh is 1, as if it were not there
        if size:
            given = (x, start, identity, radius * base, no_bias)
            answer = ask(rnn_forward, "rnn_forward", given, {"states": (1, STEPS, WIDTH)})
            if answer.problem:
                return Measured(np.empty(0), answer.problem)
            (states,), remark = answer.arrays, remark or answer.remark
        given = (states, radius * base)
        answer = ask(gradient_norms, "gradient_norms", given, {"norms": (1, STEPS)})
        if answer.problem:
            return Measured(np.empty(0), answer.problem)
        rows.append(answer.arrays[0][0])
        remark = remark or answer.remark
    return Measured(np.array(rows), remark=remark)


def draw(state: GradientState, found: Measure) -> str:
    """Return curve and map, or one sentence. Raises ValueError for a radius off the slider."""
    if state.radius not in RADII:
        raise ValueError(f"gradient_explorer: the radius must be one of {RADII}.")
    measured = found(state.network, state.matrix)
    if measured.problem:
        return note(measured.problem)
    chosen = RADII.index(state.radius)
    with np.errstate(divide="ignore"):
        logs = np.log10(np.abs(measured.norms))  # wrong functions may give 0 or less
    by_distance = logs[:, ::-1]  # (len(RADII), STEPS), distance 0 first
    last = number(float(measured.norms[chosen, 0]))
    said = f"At radius {state.radius:.1f} ({state.network}), 40 steps back, the norm is {last}."
    picture = heat_map(
        "map",
        "log₁₀ of the norm, by radius and distance",
        said,
        by_distance[:, ::EVERY],  # colours end at ±4, the words on hover do not
        [f"{radius:.1f}" for radius in RADII],
        [str(distance) for distance in range(0, STEPS, EVERY)],
        chosen=chosen,
        low=-4.0,
        high=4.0,
        axes=("radius", "steps back"),
    )
    remark = note(measured.remark) if measured.remark else ""
    return remark + beside(_curve(state, by_distance[chosen], last, said), picture)


_W, _H = 470, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 452, 76, 380


def _curve(state: GradientState, logs: np.ndarray, last: str, said: str) -> str:
    """Draw the norm against distance on a logarithmic axis, beside powers of the radius."""

    def place(distance: float, log: float) -> tuple[float, float]:
        share = (min(max(log, -REACH), REACH) + REACH) / (2 * REACH)
        x = _LEFT + distance * (_RIGHT - _LEFT) / (STEPS - 1)
        return x, _BOTTOM - share * (_BOTTOM - _TOP)

    body = []
    for power in range(-REACH, REACH + 1, 2):
        _, y = place(0, power)
        colour = INK if power == 0 else GRID
        body.append(element("line", x1=_LEFT, y1=y, x2=_RIGHT, y2=y, stroke=colour))
        body.append(text(_LEFT - 8, y + 4, _power(power), font_size=12, text_anchor="end"))
    for distance in range(0, STEPS, 10):
        x, _ = place(distance, 0)
        body.append(element("line", x1=x, y1=_BOTTOM, x2=x, y2=_BOTTOM + 5, stroke=INK))
        body.append(text(x, _BOTTOM + 19, str(distance), font_size=12, text_anchor="middle"))
    body.append(
        text(_RIGHT, _BOTTOM + 36, "steps back", font_size=13, fill=MUTED, text_anchor="end")
    )
    powers = [place(k, k * math.log10(state.radius)) for k in range(STEPS)]
    body.append(_path(powers, SCALED, "6 4", 1.75))
    points = [place(k, log) for k, log in enumerate(logs)]
    body.append(_path(points, UNSCALED, "1 0", 2.5))
    for distance, (x, y) in enumerate(points):
        words = f"{distance} steps back: {number(10.0 ** float(logs[distance]))}"
        body.append(element("circle", hover(words), cx=x, cy=y, r=3.2, fill=UNSCALED))
    sides = (
        (UNSCALED, "1 0", f"‖∂h_T/∂h_t‖, {last} at 40", 66),
        (SCALED, "6 4", "radius^steps", 300),
    )
    for colour, dash, words, x in sides:
        body.append(_path([(x - 46, 47), (x - 8, 47)], colour, dash, 2.5))
        body.append(text(x, 52, words, font_size=13))
    label = f"The gradient at radius {state.radius:.1f}"
    return panel("curve", _W, _H, label, said, *body)


def _path(points: list[tuple[float, float]], colour: str, dash: str, width: float) -> str:
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    style = {"stroke": colour, "stroke_dasharray": dash, "stroke_width": width}
    return element("path", d=path, fill="none", **style)


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _power(exponent: int) -> str:
    return "1" if exponent == 0 else f"10{str(exponent).translate(_RAISED)}"
