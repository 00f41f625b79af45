"""A class of thirty whose results are known beforehand."""

from __future__ import annotations

from dataclasses import replace

from attend import report
from attend.report import page as report_page
from attend_grader.gradebook.gather import Gathered
from attend_grader.grading.analysis import analyse
from attend_grader.grading.record import Record, overall
from attend_grader.grading.submission import Verdict
from attend_grader.judging.report import Finding, Report, Status
from bs4 import BeautifulSoup, Tag

SLIP = "forgot 1/√D"
EVIL = "</pre><script>document.title = 'stolen'</script><img src=x onerror=alert(1)>"


def verdict(
    name: str, earned: int, points: int, slip: str = "", status: Status | None = None
) -> Verdict:
    """Points are lost by the last of two properties first."""
    first = min(earned, points // 2)
    findings = (
        Finding("hand-worked", points // 2, first),
        Finding("float32 works", points - points // 2, earned - first),
    )
    said: Status = "passed" if earned == points else "partial" if earned else "failed"
    report = Report(f"toy/{name}", findings, status or said, diagnosis=slip or None, explanation="")
    return Verdict(f"check-{name}", float(points), report)


def record(student: str, *verdicts: Verdict, **more: object) -> Record:
    kept = Record(student, "toy", "toy", "s", "r", 1, reason=overall(verdicts), verdicts=verdicts)
    return Record(**{**vars(kept), **more})


def thirty() -> list[Record]:
    """Student k of 0 … 29 gets k // 3 of 10 for `steady`; all get 4 of 4 for `easy`.

    Nobody but 28 and 29 gets anything for `hard` (2 of 8 each); 0, 1, 2 never began it. Students
    3 … 7 show the slip in `steady`; student 9 ran out of time in `hard`; 11 is flagged.
    """
    records = []
    for k in range(30):
        hard: Status = "not started" if k < 3 else "timeout" if k == 9 else "failed"
        records.append(
            record(
                f"s{k:02}",
                verdict("easy", 4, 4),
                verdict("steady", k // 3, 10, SLIP if 3 <= k <= 7 else ""),
                verdict("hard", 2, 8) if k >= 28 else verdict("hard", 0, 8, status=hard),
                flags=(f"`check-easy` was deleted {EVIL}",) if k == 11 else (),
            )
        )
    return records


LONG = """
def steady(rows, scale):
    total = 0.0
    count = 0
    for row in rows:
        for value in row:
            if value > 0:
                total = total + value * scale
                count = count + 1
    if count == 0:
        return 0.0
    return total / count + scale * max(count, 1)
"""
STUB = (
    'def steady(rows, scale):\n    """Mean of what is positive."""\n    raise NotImplementedError\n'
)


def renamed(source: str) -> str:
    """The same answer, other names and a comment."""
    for old, new in {
        "total": "acc",
        "count": "n_seen",
        "value": "v",
        "row ": "r ",
        "row:": "r:",
    }.items():
        source = source.replace(old, new)
    return source.replace("acc = 0.0", "acc = 0.0  # mine")


def gathered(records: list[Record], **more: object) -> Gathered:
    """A class with these records and what else is named."""
    plain = {"waiting": (), "answers": {}, "stubs": {}, "shared": {}}
    return Gathered("toy", tuple(records), **{**plain, **more})  # type: ignore[arg-type]


def ungraded(student: str, of: Record | None = None) -> Record:
    """As the grader leaves what it cannot read."""
    nothing = Verdict("check-easy", 4.0, Report(None, (), "invalid", "the file is empty"))
    if of is not None:
        return replace(of, reason="INVALID", verdicts=(nothing,))
    return record(student, nothing, problem="the file is empty", reason="INVALID")


def page_of(toy: Gathered) -> str:
    """Its page."""
    return report_page.page(toy, analyse(toy.records), report.near_identical(toy))


def section(whole: str, anchor: str) -> Tag:
    """The section under one heading."""
    found = BeautifulSoup(whole, "html.parser").select_one(f"section[aria-labelledby={anchor}]")
    assert found is not None
    return found
