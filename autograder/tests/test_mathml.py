"""TeX to MathML: rows stay rows, whatever stands in their cells."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from attend_grader.gradebook.mathml import convert

M = "{http://www.w3.org/1998/Math/MathML}"


def table(tex: str) -> list[list[tuple[str | None, str]]]:
    """The outer table's rows: for each cell its side and its letters."""
    outer = next(ElementTree.fromstring(convert(tex, display="block")).iter(f"{M}mtable"))
    assert outer.get("displaystyle") == "true"
    return [[(c.get("columnalign"), "".join(c.itertext())) for c in row] for row in outer]


def test_gathered_is_one_line_below_the_other():
    rows = table(r"\begin{gathered} a = b, \\ c = \text{d\_e} \end{gathered}")
    assert rows == [[(None, "a=b,")], [(None, "c=d_e")]]


def test_aligned_turns_around_the_sign():
    rows = table(r"\begin{aligned} a &= b \\ &= c \end{aligned} ,")
    assert rows == [[("right", "a"), ("left", "=b")], [("right", ""), ("left", "=c,")]]


def test_a_matrix_in_a_row_keeps_its_own_rows():
    tex = r"\begin{gathered} A = \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}, \\ B \end{gathered}"
    assert table(tex) == [[(None, "A=(1234),")], [(None, "B")]]
    assert convert(tex).count("<mtr>") == 4


@pytest.mark.parametrize(
    ("tex", "spaces"),
    [(r"\ln x", 1), (r"N \log N", 2), (r"\log_2 n", 1), (r"\exp(x)", 0), ("x y", 0)],
)
def test_a_functions_name_stands_apart(tex: str, spaces: int):
    made = convert(tex)
    ElementTree.fromstring(made)
    assert made.count("<mspace") == spaces


def test_what_is_no_environment_is_left_to_latex2mathml():
    assert "<mfrac>" in convert(r"\frac{a}{b}")
    assert convert("x", xmlns="").startswith('<math xmlns=""')
