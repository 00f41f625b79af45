"""A font for the book's equations, for machines that have none made for equations.

Without such a font browsers do not know how far down a subscript goes, and d with the subscript V
reads dV. The letters are those of STIX, which matplotlib brings along, as it does fontTools; the
distances are ours.
"""

from __future__ import annotations

import shutil
from pathlib import Path

NAME = "Attend Math"
LETTERS = ((0x20, 0x17F), (0x2B0, 0x3FF), (0x2000, 0x2BFF), (0x1D400, 0x1D7FF))
"""Of Unicode: Latin, Greek, signs and arrows, mathematical alphabets."""

CONSTANTS = {  # in thousandths of the size, but for the first two and the last
    "ScriptPercentScaleDown": 73,
    "ScriptScriptPercentScaleDown": 60,
    "DelimitedSubFormulaMinHeight": 1300,
    "DisplayOperatorMinHeight": 1500,
    "MathLeading": 150,
    "AxisHeight": 250,
    "AccentBaseHeight": 460,
    "FlattenedAccentBaseHeight": 660,
    "SubscriptShiftDown": 210,
    "SubscriptTopMax": 370,
    "SubscriptBaselineDropMin": 0,
    "SuperscriptShiftUp": 360,
    "SuperscriptShiftUpCramped": 250,
    "SuperscriptBottomMin": 120,
    "SuperscriptBaselineDropMax": 230,
    "SubSuperscriptGapMin": 150,
    "SuperscriptBottomMaxWithSubscript": 380,
    "SpaceAfterScript": 40,
    "UpperLimitGapMin": 180,
    "UpperLimitBaselineRiseMin": 350,
    "LowerLimitGapMin": 130,
    "LowerLimitBaselineDropMin": 600,
    "StackTopShiftUp": 470,
    "StackTopDisplayStyleShiftUp": 780,
    "StackBottomShiftDown": 385,
    "StackBottomDisplayStyleShiftDown": 690,
    "StackGapMin": 150,
    "StackDisplayStyleGapMin": 300,
    "StretchStackTopShiftUp": 800,
    "StretchStackBottomShiftDown": 600,
    "StretchStackGapAboveMin": 100,
    "StretchStackGapBelowMin": 100,
    "FractionNumeratorShiftUp": 480,
    "FractionNumeratorDisplayStyleShiftUp": 680,
    "FractionDenominatorShiftDown": 480,
    "FractionDenominatorDisplayStyleShiftDown": 690,
    "FractionNumeratorGapMin": 80,
    "FractionNumDisplayStyleGapMin": 150,
    "FractionRuleThickness": 60,
    "FractionDenominatorGapMin": 80,
    "FractionDenomDisplayStyleGapMin": 150,
    "OverbarVerticalGap": 130,
    "OverbarRuleThickness": 60,
    "OverbarExtraAscender": 60,
    "UnderbarVerticalGap": 130,
    "UnderbarRuleThickness": 60,
    "UnderbarExtraDescender": 60,
    "RadicalVerticalGap": 80,
    "RadicalDisplayStyleVerticalGap": 150,
    "RadicalRuleThickness": 60,
    "RadicalExtraAscender": 60,
    "RadicalKernBeforeDegree": 60,
    "RadicalKernAfterDegree": -340,
    "RadicalDegreeBottomRaisePercent": 60,
}


def write(folder: Path) -> None:
    """Write the font as ``math.woff`` and its licence into a folder."""
    import matplotlib
    from fontTools import subset
    from fontTools.otlLib.builder import buildMathTable
    from fontTools.ttLib import TTFont

    origin = Path(matplotlib.get_data_path(), "fonts", "ttf")
    font = TTFont(origin / "STIXGeneral.ttf", recalcTimestamp=False)
    options = subset.Options(name_IDs=[0, 1, 2, 3, 4, 6, 13, 14], notdef_outline=True)
    options.drop_tables += ["FFTM"]
    chosen = subset.Subsetter(options)
    chosen.populate(unicodes=[code for low, high in LETTERS for code in range(low, high + 1)])
    chosen.subset(font)
    for record in font["name"].names:
        if record.nameID in (1, 3, 4, 6):  # its licence asks for another name
            name = NAME.replace(" ", "") if record.nameID == 6 else NAME
            record.string = name  # pyright: ignore[reportAttributeAccessIssue]
    buildMathTable(font, constants=CONSTANTS)
    font.flavor = "woff"
    font.save(folder / "math.woff")
    shutil.copy(origin / "LICENSE_STIX", folder / "math-LICENSE.txt")
