"""The part of ``attend report`` on answers that resemble each other."""

from __future__ import annotations

from collections.abc import Sequence

from attend_grader.gradebook.gather import Gathered
from attend_grader.grading.similar import SIMILARITY, TOKENS, Group, pairs

from attend.report_html import called, code, count, fold, name, names, table

PAIRS = 20
CODE_LINES = 60


def near_identical(gathered: Gathered, alike: Sequence[Group]) -> str:
    """Who is together more than once, then group by group; what many write alike comes last."""
    about = (
        "<p><strong>A pointer for a human, never a verdict.</strong> People who learn together "
        "write alike, and a short right answer has few forms. Compared are the tokens that "
        "learners wrote themselves: without layout, comments, docstrings and the released stub, "
        "and with their own names numbered, so that renaming hides nothing. Named are pairs from "
        f"{SIMILARITY:.0%} on, in answers of {TOKENS} tokens or more.</p>"
    )
    if not alike:
        return f"{about}<p>There are none.</p>"
    rare = [group for group in alike if not group.common]
    common = [group for group in alike if group.common]
    parts = [about, _together(alike), *(_group(gathered, group) for group in rare)]
    if common:
        rest = "".join(_group(gathered, group) for group in common)
        parts.append(fold(f"{count(len(common), 'way')} to write it that many share", rest))
    return "".join(parts)


def _together(alike: Sequence[Group]) -> str:
    found = pairs(alike)
    if not found:
        return ""
    rows = [
        (
            f"{name(pair.students[0])} and {name(pair.students[1])}",
            f"{len(pair.exercises)}",
            ", ".join(map(called, pair.exercises)),
        )
        for pair in found[:PAIRS]
    ]
    more = f"<p>{len(found) - PAIRS} more are in the JSON file.</p>" if len(found) > PAIRS else ""
    return (
        "<p>Together in more than one exercise, which chance explains less well:</p>"
        + table("Pairs in several exercises", ("students", "exercises", "which"), rows, (1,))
        + more
    )


def _group(gathered: Gathered, group: Group) -> str:
    answers = gathered.answers.get(group.exercise, {})
    pair = "".join(
        f"<div><p>{name(who)}</p>{code(answers.get(who, ''), CODE_LINES)}</div>"
        for who in group.students[:2]
    )
    alike = "the same tokens" if group.similarity == 1 else f"{group.similarity:.0%} alike or more"
    return (
        f"<h3>{called(group.exercise)}: {len(group.students)} of {group.answered} answers, "
        f"{alike}, {group.tokens} tokens</h3><p>{names(group.students)}</p>"
        + fold("two of them, side by side", f'<div class="beside">{pair}</div>')
    )
