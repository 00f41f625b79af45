"""The KV cache calculator: what published models keep of a text, by the learner's own count."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import ipywidgets

from attend.data.published_models import MODELS, PublishedModel
from attend.theme import GRID, GROUPS, INK, MUTED, PAPER, SHADE
from attend.widgets.kit.svg import beside, element, hover, panel, text
from attend.widgets.kit.view import View, note

EXERCISE = "kv_cache_bytes"
SEE = (
    "Double the tokens and every dot moves right by the same step, except for a model with a"
    " window; the second picture says what the chosen model would keep with other heads."
)
TOKENS = tuple(2**power for power in range(10, 21))
SENTENCES = (1, 2, 4, 8, 16, 32, 64)
BITS = (16, 8, 4)
DEVICE = 80 * 2**30  # bytes: the memory of an accelerator that is common in data centres
BAND = SHADE  # behind the chosen model
KINDS = {"MHA": GROUPS[1], "GQA": GROUPS[0], "MQA": GROUPS[2], "MLA": GROUPS[3]}
_LOW, _HIGH = 2.0**20, 2.0**44  # the axis, in bytes: 1 MiB to 16 TiB


@dataclass(frozen=True)
class CacheState:
    """Which model, and how much text: tokens in a sentence, sentences at once, bits of a number."""

    model: str = "Llama 2 70B"
    tokens: int = 4096
    sentences: int = 1
    bits: int = 16


def kv_cache_calculator(count: Callable[..., Any]) -> View:
    """Show what published models keep of a text, and what one would keep with other heads.

    `count` is the learner's `kv_cache_bytes`: every dot is what it returns. When it is not started,
    raises or returns anything but a number of bytes, one sentence takes the picture's place.

    Raises ValueError when `count` is not a function.
    """
    if not callable(count):
        raise ValueError(
            f"kv_cache_calculator: pass your function {EXERCISE} itself, without parentheses; got"
            f" {type(count).__name__}."
        )
    wide = ipywidgets.Layout(width="min(360px, 98%)")
    style = {"description_width": "84px"}
    first = CacheState()
    model = ipywidgets.Dropdown(
        options=list(MODELS), value=first.model, description="model", layout=wide, style=style
    )
    tokens = ipywidgets.SelectionSlider(
        options=[(f"{n:,}", n) for n in TOKENS],
        value=first.tokens,
        description="tokens",
        layout=wide,
        style=style,
    )
    sentences = ipywidgets.SelectionSlider(
        options=SENTENCES, value=1, description="sentences", layout=wide, style=style
    )
    bits = ipywidgets.Dropdown(
        options=[(f"{n} bits", n) for n in BITS],
        value=16,
        description="a number",
        layout=wide,
        style=style,
    )
    controls = [model, tokens, sentences, bits]
    bar = ipywidgets.HBox(controls, layout=ipywidgets.Layout(flex_flow="row wrap"))

    def state() -> CacheState:
        return CacheState(
            model.value or first.model,
            tokens.value or first.tokens,
            sentences.value or 1,
            bits.value or 16,
        )

    view = View("kv-cache", SEE, [bar], lambda: draw(state(), count))
    for control in controls:
        control.observe(view.refresh, names="value")
    return view


def variants(model: PublishedModel) -> dict[str, PublishedModel]:
    """The model with other heads, as published among them: MHA, GQA (8 kv_heads), MQA and MLA."""
    base = replace(model, latent=None)
    made = [replace(base, kv_heads=model.heads), replace(base, kv_heads=1)]
    if model.kind == "GQA":
        made.append(model)
    elif model.heads > 8 and model.heads % 8 == 0:
        made.append(replace(base, kv_heads=8))
    made.append(replace(base, latent=model.latent or 4 * model.head_dim + model.head_dim // 2))
    return {_what(one): one for one in made}


def _what(model: PublishedModel) -> str:
    if model.kind == "MLA":
        return f"MLA, latent {model.latent}"
    return f"GQA, {model.kv_heads} kv_heads" if model.kind == "GQA" else model.kind


def draw(state: CacheState, count: Callable[..., Any]) -> str:
    """Return both pictures for the state, or one sentence about `count`."""
    try:
        published = {name: _bytes(count, model, state) for name, model in MODELS.items()}
        chosen = MODELS[state.model]
        others = {name: _bytes(count, m, state) for name, m in variants(chosen).items()}
    except _NoBytesError as problem:
        return note(str(problem))
    many = "one text" if state.sentences == 1 else f"{state.sentences} texts"
    size = f"{many} of {state.tokens:,} tokens, {state.bits} bits"
    mine = published[state.model]
    kinds = {name: model.kind for name, model in MODELS.items()}
    told = f"{state.model} keeps {amount(mine)}: {_reckoning(chosen, state)}."
    models = _dots(
        "models", f"What published models keep of {size}", told, published, kinds, state.model
    )
    what = f"{state.model} with other heads"
    kinds = {name: name.split(",")[0] for name in others}
    most, least = max(others.values()), min(others.values())
    ratio = f" The largest is {most / least:.4g} times the smallest." if least else ""
    as_is = f"As published ({chosen.kind}) it keeps {amount(mine)}.{ratio}"
    return beside(models, _dots("variants", what, as_is, others, kinds, _what(chosen)))


class _NoBytesError(Exception):
    """What the learner's function returned cannot be drawn; says so in a sentence."""


def _bytes(count: Callable[..., Any], model: PublishedModel, state: CacheState) -> int:
    """What `count` returns for a model.

    Raises _NoBytesError where it is not started, raises, or returns anything but bytes.
    """
    advice = f"Run check({EXERCISE}) to see what to fix."
    options: Mapping[str, Any] = {
        "batch": state.sentences,
        "bits": state.bits,
        "latent": model.latent,
        "window": model.window,
    }
    sizes = (state.tokens, model.layers, model.kv_heads, model.head_dim)
    try:
        found = count(*sizes, **options)
    except NotImplementedError:
        raise _NoBytesError(
            f"This picture waits for the exercise {EXERCISE}, which is not started yet: write it,"
            " then run this cell again."
        ) from None
    except Exception as error:  # a learner's function may raise anything: report it as words
        words = f"{type(error).__name__}: {error}".strip().splitlines()[0][:160]
        raise _NoBytesError(f"Your {EXERCISE} stopped with {words}. {advice}") from None
    number = isinstance(found, int | float) and not isinstance(found, bool)
    if not number or not math.isfinite(found) or found < 0:
        raise _NoBytesError(f"Your {EXERCISE} should return bytes; it returned {found!r}. {advice}")
    return int(found)


def _reckoning(model: PublishedModel, state: CacheState) -> str:
    kept = state.tokens if model.window is None else min(state.tokens, model.window)
    each = f"2 · {model.kv_heads} kv_heads · {model.head_dim}"
    if model.latent is not None:
        each = f"a latent of {model.latent}"
    kept_words = f"{kept:,} tokens" + (" (its window)" if kept < state.tokens else "")
    return f"{kept_words}, {model.layers} layers, {each} numbers"


def amount(count: float) -> str:
    """Return bytes as people say them: 512 bytes, 69.1 KiB, 2 GiB."""
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024 or unit == "TiB":
            break
        count /= 1024
    return f"{count:,.0f} {unit}" if count >= 100 else f"{count:.3g} {unit}"


def _dots(
    name: str,
    label: str,
    told: str,
    sizes: Mapping[str, int],
    kinds: Mapping[str, str],
    chosen: str,
) -> str:
    """Draw one dot for each name on a logarithmic axis of bytes; the chosen one is marked."""
    left, right, tall, top = 172.0, 560.0, 30.0, 66.0

    def at(count: float) -> float:
        share = math.log(max(count, _LOW) / _LOW) / math.log(_HIGH / _LOW)
        return left + (right - left) * min(share, 1.0)

    bottom = top + tall * len(sizes)
    body = []
    for power in range(20, 45, 4):
        x = at(2.0**power)
        body.append(element("line", x1=x, x2=x, y1=top, y2=bottom, stroke=GRID))
        unit = amount(2**power)
        body.append(text(x, bottom + 16, unit, font_size=11, fill=MUTED, text_anchor="middle"))
    limit = at(DEVICE)
    dashes = {"stroke": INK, "stroke_dasharray": "5 3", "stroke_width": 1.5}
    body.append(element("line", x1=limit, x2=limit, y1=top - 6, y2=bottom, **dashes))
    words = "a device of 80 GiB"
    body.append(text(limit, top - 10, words, font_size=11, fill=MUTED, text_anchor="middle"))
    for place, (row, size) in enumerate(sizes.items()):
        y, kind, mine = top + tall * (place + 0.5), kinds[row], row == chosen
        words = hover(f"{row} ({kind}): {size:,} bytes")
        weight = 700 if mine else 400
        if mine:
            band = {"x": 4, "y": y - tall / 2, "width": 672, "height": tall, "rx": 5}
            body.insert(0, element("rect", **band, fill=BAND))  # behind the lines
            body.append(text(8, y + 4, "▶", font_size=12))
        line = {"x1": left, "x2": at(size), "y1": y, "y2": y}
        body.append(element("line", **line, stroke=KINDS[kind], stroke_width=1.5, opacity=0.6))
        dot = {"cx": at(size), "cy": y, "r": 7.0 if mine else 5.5, "data_bytes": size}
        body.append(
            element("circle", words, **dot, fill=KINDS[kind], stroke=INK, stroke_width=0.75)
        )
        body.append(text(left - 10, y + 5, row, text_anchor="end", font_weight=weight))
        end = f"{amount(size)} · {kind}" if kind not in row else amount(size)
        ground = {"x": at(size) + 10, "y": y - 9, "width": 7.2 * len(end) + 4, "height": 18}
        body.append(element("rect", **ground, fill=BAND if mine else PAPER))  # hides the lines
        body.append(text(at(size) + 12, y + 5, end, font_size=13, font_weight=weight))
    lines = textwrap.wrap(told, 96)
    for number, part in enumerate(lines):
        body.append(text(12, bottom + 40 + 17 * number, part, font_size=13))
    return panel(name, 680.0, bottom + 38 + 17 * len(lines), label, told, *body)
