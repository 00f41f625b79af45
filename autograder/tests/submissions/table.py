"""The corpus as a table in the manual.

``python -m autograder.tests.submissions.table`` writes it; with ``--check``, it must be there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .case import EXERCISES, Case
from .channel import CHANNEL
from .cheating import CHEATING
from .files import FILES
from .more import MORE
from .resources import RESOURCES
from .structure import STRUCTURE

MANUAL = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- corpus -->\n", "<!-- /corpus -->"
KINDS = {
    "resources": RESOURCES,
    "structure": STRUCTURE,
    "cheating": CHEATING,
    "files": FILES,
    "values and channel": CHANNEL,
    "process and parser": MORE,
}
CASES = {case.number: case for cases in KINDS.values() for case in cases}


def text() -> str:
    """The section: what the corpus is, and a row for each case."""
    rows = [
        f"| {case.number} | {kind} | {case.does} | {_reasons(case)} | {case.outcome} |"
        for kind, cases in KINDS.items()
        for case in cases
    ]
    stock = sum(case.stock for case in CASES.values())
    head = f"""## Bad submissions, and what becomes of them

{len(CASES)} submissions of chapter 03 that went wrong or were made to, all in one class with six
honest ones, of which four are in the forms in which VS Code, Colab, a conda environment and format
4.2 save them: these have full marks and no flag. For each of the others,
`autograder/tests/test_bad_submissions.py` asserts: one record with this reason and score; full
marks for the exercises it left alone; nothing written but the grader's own files, nothing read of
another's, nothing left running. {stock} of them, and the honest ones, are graded by plain `nbgrader
autograde` as well, with the same scores. All other exercises of a submission, and all those of a
row with PASSED alone, have full marks.

| | kind | what it does | reason | outcome |
|---|---|---|---|---|
"""
    return head + "\n".join(rows) + "\n"


def _reasons(case: Case) -> str:
    found = {case.reason(name) for name in EXERCISES}
    return ", ".join(sorted(found - {"PASSED"})) or "PASSED"


def main(check: bool) -> int:
    """Write the section into the manual, or say whether it is up to date."""
    manual = MANUAL.read_text(encoding="utf-8")
    before, rest = manual.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    new = f"{before}{BEGIN}{text()}{END}{after}"
    if check:
        return int(new != manual)
    MANUAL.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
