"""A few words of SVG: elements, text, colours, and panels that flow side by side.

All sizes are in the user units of a panel's `viewBox`; a panel shrinks and grows with the page.
"""

from __future__ import annotations

import base64
import re
from html import escape, unescape

from attend.theme import FONT, INK, PAPER

# Eleven evenly spaced samples of viridis (van der Walt and Smith, 2015; CC0), interpolated between.
_VIRIDIS = (
    (68, 1, 84),
    (72, 36, 117),
    (65, 68, 135),
    (53, 95, 141),
    (42, 120, 142),
    (33, 145, 140),
    (34, 168, 132),
    (68, 191, 112),
    (122, 209, 81),
    (189, 223, 38),
    (253, 231, 37),
)
_VISIBLE = {"\n": "⏎", "\t": "⇥"}


def element(name: str, *children: str, **attributes: object) -> str:
    """Return `<name …>children</name>`; `_` in attribute names becomes `-`; values are escaped."""
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for key, value in attributes.items()
    )
    return f"<{name}{words}>{''.join(children)}</{name}>" if children else f"<{name}{words}/>"


def _value(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def hover(words: str) -> str:
    """Return the `<title>` that a pointer resting on a mark shows."""
    return element("title", escape(words))


def text(x: float, y: float, words: str, **attributes: object) -> str:
    """Return escaped text at (x, y); further SVG attributes by name (`text_anchor="end"`)."""
    style: dict[str, object] = {"font_size": 14, "fill": INK} | attributes
    return element("text", escape(words), x=float(x), y=float(y), **style)


def number(value: float) -> str:
    """Return two decimals, or powers of ten for numbers too large or too small for that."""
    value = float(value) + 0.0  # -0.0 reads 0.00
    words = f"{value:.2f}" if 0.01 <= abs(value) < 1000 or value == 0 else f"{value:.1e}"
    return words.replace("-", "−")


def readable(token: object, limit: int = 10) -> str:
    """Return a token as it can be shown: blanks visible, controls replaced, cut to `limit`."""
    words = str(token)
    bare = words.strip(" ")
    front = len(words) - len(words.lstrip(" "))
    words = "␣" * front + bare + "␣" * (len(words) - len(bare) - front) or "∅"
    words = "".join(_VISIBLE.get(c, "�") if not c.isprintable() else c for c in words)
    return words if len(words) <= limit else words[: limit - 1] + "…"


def viridis(share: float) -> str:
    """Return the colour of a magnitude between 0 (dark) and 1 (bright) as `#rrggbb`."""
    place = min(max(float(share), 0.0), 1.0) * (len(_VIRIDIS) - 1)
    left = min(int(place), len(_VIRIDIS) - 2)
    pairs = zip(_VIRIDIS[left], _VIRIDIS[left + 1], strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (place - left)):02x}" for a, b in pairs)


def ink_on(colour: str) -> str:
    """Return black or white, whichever reads better on `#rrggbb` (WCAG 2 relative luminance)."""
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if luminance > 0.179 else "#ffffff"


def panel(name: str, width: float, height: float, label: str, description: str, *body: str) -> str:
    """Return one picture: an `<svg>` with a heading, words for screen readers and a ground.

    `name` becomes `data-panel`; `label` is printed as the heading, `description` says what is to
    be seen.
    """
    return element(
        "svg",
        element("desc", escape(description)),
        element("rect", width=width, height=height, fill=PAPER, rx=6),
        text(12, 24, label, font_size=15, font_weight=600),
        *body,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=f"{label}. {description}",
        data_panel=name,
        font_family=FONT,
        style=f"flex: 1 1 {0.8 * width:g}px; min-width: min(100%, {0.8 * width:g}px);"
        f" max-width: min(100%, {1.15 * width:g}px); height: auto; align-self: flex-start;",
    )


def beside(*panels: str, widest: str = "100%") -> str:
    """Return panels side by side where there is room (up to `widest`), else below each other."""
    style = "display: flex; flex-wrap: wrap; gap: 10px; width: 100%; line-height: 1.2;"
    style += f" max-width: {widest};"
    return element("div", *panels, style=style, class_="attend-panels")


_SVG = re.compile(r"<svg\b[^>]*>.*?</svg>", re.DOTALL)
_SHOWN = re.compile(r'(aria-label|viewBox|style)="([^"]*)"')


def still(picture: str) -> str:
    """Return HTML in which every panel is an image, its words as the image's.

    A notebook that is opened but not trusted loses its SVG, all but the words in it; an image
    stays.
    """

    def image(found: re.Match[str]) -> str:
        head = found[0][: found[0].index(">")]
        given = {name: unescape(value) for name, value in _SHOWN.findall(head)}
        content = base64.b64encode(found[0].encode()).decode()
        return element(
            "img",
            alt=given["aria-label"],
            src=f"data:image/svg+xml;base64,{content}",
            width=given["viewBox"].split()[2],
            style=given["style"],
        )

    return _SVG.sub(image, picture)
