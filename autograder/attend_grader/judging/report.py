"""What a check found, and its three faces: a score, a card, a text."""

from __future__ import annotations

import builtins
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Literal

from attend_grader.checks.compare import CALLED

Status = Literal[
    "passed", "partial", "failed", "not started", "invalid", "timeout", "memory", "crash"
]

_WORDS = {
    "passed": ("✓", "#00664b", "all properties hold"),
    "partial": ("◐", "#8a5a00", "some properties hold"),
    "failed": ("✗", "#9c3a00", "not there yet"),
    "not started": ("○", "#56606b", "not started"),
    "invalid": ("!", "#9c3a00", "cannot be checked"),
    "timeout": ("!", "#9c3a00", "took too long"),
    "memory": ("!", "#9c3a00", "used too much memory"),
    "crash": ("!", "#9c3a00", "ended its process"),
}

_CONTROLS = dict.fromkeys(
    {*range(32), *range(127, 160)} - {ord("\n"), ord("\t")}, "\N{REPLACEMENT CHARACTER}"
)
"""A terminal acts on these: a learner's text may hold them, and an instructor looks at it."""

SHORT_CARD = 3
"""Rows up to which a card does not repeat its verdict at the end: all of it is in view."""

_SHORT = ("your line", "try")
"""Evidence shown at every miss; the rest is left out or folded after the first: fix that first."""


@dataclass(frozen=True)
class Finding:
    """One property: what it was worth, what it earned, and why not more.

    ``reason`` tells misses apart where messages hold measured numbers; no card shows it.
    """

    property: str
    points: int
    earned: int
    message: str = ""
    evidence: tuple[tuple[str, str], ...] = ()
    reason: str = ""

    @builtins.property  # the field above hides the name in this class
    def passed(self) -> bool:
        """Whether all its points were earned."""
        return self.earned == self.points


@dataclass(frozen=True)
class Report:
    """The result of one check.

    Attributes:
        exercise_id: which exercise, or None where none could be told.
        findings: one for each property.
        status: passed, partial, failed, not started, invalid (could not be checked), or what
            ended it while grading: timeout, memory, crash.
        note: one sentence about the whole, where there is one to say.
        diagnosis: name of the misconception whose behaviour the candidate shows, or None.
        explanation: what that misconception is and what to try.
        symptom: how the candidate's results relate to the right ones, and when they are wrong; one
            or two sentences that are true of every call that was tried, or None.
        fix_first: earlier exercises whose slip was found and not counted here.
        printed: what the candidate printed, the beginning.
        seed: drew the random inputs.
    """

    exercise_id: str | None
    findings: tuple[Finding, ...]
    status: Status
    note: str = ""
    diagnosis: str | None = None
    explanation: str = ""
    symptom: str | None = None
    fix_first: tuple[str, ...] = ()
    printed: str = ""
    seed: int | None = None

    @property
    def score(self) -> int:
        """Points earned."""
        return sum(f.earned for f in self.findings)

    @property
    def max_score(self) -> int:
        """Points there were."""
        return sum(f.points for f in self.findings)

    def without_inputs(self) -> Report:
        """The same, without the calls it was made from: what learners see of a grading."""
        findings = tuple(
            replace(f, evidence=tuple(pair for pair in f.evidence if pair[0] != CALLED))
            for f in self.findings
        )
        return replace(self, findings=findings, printed="")

    @property
    def _title(self) -> str:
        name = self.exercise_id.split("/")[-1] if self.exercise_id else "check"
        return f"{name}: {self.score} of {self.max_score} points" if self.findings else name

    def __repr__(self) -> str:
        """The score alone: what nbgrader reads as partial credit."""
        return str(self.score)

    def __str__(self) -> str:
        """A card for terminals."""
        sign, _, words = _WORDS[self.status]
        lines = [f"{sign} {self._title} ({words})"]
        lines += [f"  {text}" for _, text in self._remarks()]
        rows = self._rows()
        for finding in rows:
            mark = "✓" if finding.passed else "✗"
            lines.append(f"  {mark} {finding.earned}/{finding.points}  {finding.property}")
            if finding.message:
                lines.append(f"         {finding.message}")
            for label, text in finding.evidence:
                if finding is not self._first_miss and label not in _SHORT:
                    continue
                indented = text.replace("\n", "\n" + " " * (11 + len(label)))
                lines.append(f"         {label}: {indented}")
        if len(rows) > SHORT_CARD:
            lines.append(lines[0])
        return "\n".join(lines).translate(_CONTROLS)

    def _listed(self) -> tuple[Finding, ...]:
        """The findings, unless nothing was tested and a note says all there is to say."""
        tested = any(f.passed or f.message for f in self.findings)
        return self.findings if tested else ()

    def _rows(self) -> tuple[Finding, ...]:
        """What the card lists: misses with one reason in one row, all that passed in the last."""
        listed = self._listed()
        rows: dict[str, list[Finding]] = {}
        for number, finding in enumerate(f for f in listed if not f.passed):
            key = finding.message if not finding.evidence else f"{number} {finding.property}"
            rows.setdefault(key, []).append(finding)
        groups = [*rows.values(), [f for f in listed if f.passed]]
        return tuple(_together(group) for group in groups if group)

    @property
    def _first_miss(self) -> Finding | None:
        return next((f for f in self.findings if not f.passed), None)

    def _remarks(self) -> list[tuple[str, str]]:
        remarks = [("note", self.note)] if self.note else []
        if self.diagnosis:
            remarks.append(("diagnosis", f"Looks like: {self.diagnosis}. {self.explanation}"))
        elif self.symptom and self.symptom != self.note:
            remarks.append(("symptom", self.symptom))
        if self.fix_first:
            names = ", ".join(self.fix_first)
            text = f"Correct once these are fixed: {names} (no points lost here)."
            if self.status != "passed":
                text = f"Checked with the course's own {names}: yours is missing or has a slip."
            remarks.append(("fix_first", text))
        if self.printed:
            remarks.append(("printed", f"Your function printed: {self.printed.strip()[:200]}"))
        return remarks

    def _repr_html_(self) -> str:
        """The card. Everything that came from the candidate is escaped."""
        sign, colour, words = _WORDS[self.status]
        colour = _shade(colour)
        verdict = (
            f'<strong style="color:{colour}"><span aria-hidden="true">{sign}</span> '
            f"{escape(self._title)}</strong> · {words}"
        )
        remarks = "".join(
            f'<p style="margin:.35em 0 0" class="attend-{kind}">{escape(text)}</p>'
            for kind, text in self._remarks()
        )
        rows = ""
        if self._listed():
            first = self._first_miss
            listed = self._rows()
            rows = "".join(_row(finding, finding is first) for finding in listed)
            rows = f'<ul style="list-style:none;padding:0;margin:.5em 0 0">{rows}</ul>'
            if len(listed) > SHORT_CARD:
                rows += f'<div style="margin:.5em 0 0" class="attend-verdict">{verdict}</div>'
        return (
            f'<div class="attend-card" role="status" style="border:1px solid #8a939c;'
            f"border-left:6px solid {colour};border-radius:4px;padding:.6em .9em;max-width:52em;"
            "background:var(--jp-layout-color0,#fff);color:var(--jp-content-font-color1,#1d2329);"
            'font:14px/1.45 system-ui,sans-serif">'
            f"{verdict}{remarks}{rows}</div>"
        )


def _together(group: list[Finding]) -> Finding:
    """One row for findings of which the same is said."""
    if len(group) == 1:
        return group[0]
    points, earned = sum(f.points for f in group), sum(f.earned for f in group)
    return replace(
        group[0], property=" · ".join(f.property for f in group), points=points, earned=earned
    )


def _shade(colour: str) -> str:
    """The colour with some of the page's ink in it, so it can be read in both of Lab's themes."""
    return f"color-mix(in srgb,{colour} 70%,var(--jp-content-font-color0,#000))"


_QUIET = "var(--jp-content-font-color2,#56606b)"


def _row(finding: Finding, unfolded: bool) -> str:
    """One property; long evidence is folded away except at the first miss: fix that first."""
    mark, colour = ("✓", "#00664b") if finding.passed else ("✗", "#9c3a00")
    colour = _shade(colour)
    said = f"<div>{escape(finding.message)}</div>" if finding.message else ""
    folded = ""
    for label, text in finding.evidence:
        line = (
            f'<div style="display:flex;gap:.6em"><span style="color:{_QUIET};min-width:6.5em">'
            f'{escape(label)}</span><pre style="margin:0;border:0;padding:0;'
            "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere;"  # else JupyterLab cuts
            'background:none;color:inherit;font-size:13px">'  # a word in two where a line is full
            f"{escape(text)}</pre></div>"
        )
        if unfolded or label in _SHORT:
            said += line
        else:
            folded += line
    if folded:
        said += f"<details><summary>numbers</summary>{folded}</details>"
    indent = f'<div style="margin:.1em 0 .3em 4.6em">{said}</div>' if said else ""
    return (
        f'<li><span style="color:{colour};display:inline-block;min-width:4.4em">'
        f"{mark} {finding.earned}/{finding.points}</span>{escape(finding.property)}{indent}</li>"
    )


def empty_report(exercise_id: str, points: Any, status: Status, note: str) -> Report:
    """A report without any points earned: ``points`` pairs property names with their worth."""
    findings = tuple(Finding(name, worth, 0) for name, worth in points)
    return Report(exercise_id, findings, status, note)
