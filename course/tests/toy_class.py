"""A class of thirty whose results are known beforehand."""

from __future__ import annotations

from attend_grader.classes.record import Record, overall
from attend_grader.grading import Verdict
from attend_grader.report import Finding, Report, Status

SLIP = "forgot 1/√d_k"
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
