"""TeX to MathML: latex2mathml, with the rows of ``gathered`` and ``aligned`` that it runs together.

It also leaves no room between a function's name and its argument, as in ln x.
"""

from __future__ import annotations

import re
from typing import Literal

from latex2mathml.converter import convert as _convert

XMLNS = "http://www.w3.org/1998/Math/MathML"

_ROWS = re.compile(r"\s*\\begin\{(gathered|aligned)\}(.*)\\end\{\1\}(.*)", re.DOTALL)
_PART = re.compile(r"\\begin\{\w+\*?\}|\\end\{\w+\*?\}|\\.|[{}&]", re.DOTALL)
_INSIDE = re.compile(r"<math[^>]*>(.*)</math>", re.DOTALL)
_NAME = r"<mi>(?:arg|cos|det|exp|lim|ln|log|sin|tanh|sup|inf)</mi>"
_AFTER = re.compile(rf"({_NAME}|<msub>{_NAME}<m[ni]>\w</m[ni]></msub>)(?=<m(?!o\b|space))")
_BEFORE = re.compile(rf"(</m[in]>)(?={_NAME}|<msub>{_NAME})")
_SPACE = '<mspace width="0.17em" />'


def convert(tex: str, *, display: Literal["inline", "block"] = "inline", xmlns: str = XMLNS) -> str:
    """The formula as a ``<math>`` element; raises what latex2mathml raises."""
    found = _ROWS.fullmatch(tex)
    if found is None or "\\begin{" + found[1] in found[2]:
        return _spaced(_convert(tex, xmlns=xmlns, display=display))
    rows = _split(found[2] + found[3])
    made = "".join(f"<mtr>{_row(cells)}</mtr>" for cells in rows if any(map(str.strip, cells)))
    table = f'<mtable displaystyle="true" rowspacing="3pt">{made}</mtable>'
    return f'<math xmlns="{xmlns}" display="{display}"><mrow>{table}</mrow></math>'


def _row(cells: list[str]) -> str:
    """One row: alone in the middle; or by turns to the right and to the left, around a sign."""
    if len(cells) == 1:
        return f"<mtd>{_inside(cells[0])}</mtd>"
    sides = ("right", "left")
    return "".join(
        f'<mtd columnalign="{sides[place % 2]}">{_inside(cell)}</mtd>'
        for place, cell in enumerate(cells)
    )


def _inside(tex: str) -> str:
    if not tex.strip():
        return ""
    found = _INSIDE.fullmatch(_spaced(_convert(tex, xmlns="", display="block")))
    return found[1] if found else ""


def _spaced(math: str) -> str:
    """Do what latex2mathml leaves undone within a line: room around names, a plain underscore."""
    spaced = _BEFORE.sub(rf"\1{_SPACE}", _AFTER.sub(rf"\1{_SPACE}", math))
    return spaced.replace(r"\_", "_")


def _split(tex: str) -> list[list[str]]:
    """Rows of cells; what stands in braces or in an environment of its own stays together."""
    rows: list[list[str]] = [[""]]
    depth = end = 0
    for part in _PART.finditer(tex):
        rows[-1][-1] += tex[end : part.start()]
        end = part.end()
        word = part[0]
        depth += word == "{" or word.startswith("\\begin{")
        depth -= word == "}" or word.startswith("\\end{")
        if depth == 0 and word == "\\\\":
            rows.append([""])
        elif depth == 0 and word == "&":
            rows[-1].append("")
        else:
            rows[-1][-1] += word
    rows[-1][-1] += tex[end:]
    return rows
