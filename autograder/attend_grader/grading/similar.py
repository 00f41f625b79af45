"""Near-identical answers: a pointer for a human, never a verdict.

Answers are compared as sequences of tokens. Layout, comments and strings that stand alone are left
out, names that the learner chose are numbered as they appear (so renaming hides nothing), and what
the released stub holds is taken away. The measure is 1 − d / (|a| + |b|), with d the number of
tokens to insert or delete to make one of the other (rapidfuzz's normalised Indel similarity).

Short right answers resemble each other without anyone having copied: these bounds were chosen on
the answers to this course's exercises that were written apart (the tests measure them again).
"""

from __future__ import annotations

import builtins
import io
import itertools
import keyword
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Indel
from rapidfuzz.process import cdist

SIMILARITY = 0.9
"""From here on a pair is named."""

TOKENS = 40
"""Answers of fewer tokens of their own are not compared: there are too few ways to write them."""

MOST = 50_000
"""Characters of an answer that are looked at: time goes with the square of its length."""

_FIRST, _ROWS = 0x10000, 256
"""The letter of the first token; answers that are compared with all others at a time."""

_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_KEPT = {*keyword.kwlist, *dir(builtins)}


@dataclass(frozen=True)
class Group:
    """Answers to one exercise that hang together by pairs of near-identical ones.

    Attributes:
        exercise: its name.
        students: who, sorted.
        similarity: of the least similar pair that was named.
        tokens: of the shortest answer, the stub's taken away.
        answered: how many answers were compared in all.
    """

    exercise: str
    students: tuple[str, ...]
    similarity: float
    tokens: int
    answered: int

    @property
    def common(self) -> bool:
        """Whether so many write it like this that it is likely the plain way."""
        return len(self.students) >= 4 and len(self.students) > min(10, self.answered / 4)


@dataclass(frozen=True)
class Pair:
    """Two students in the same group in several exercises, common ways to write left out."""

    students: tuple[str, str]
    exercises: tuple[str, ...]


def tokens(source: str) -> tuple[str, ...]:
    """The tokens that carry meaning; as many as can be read, where the source ends in an error."""
    kept: list[str] = []
    begins = True  # a line, so that a string alone on it is a docstring
    for token in _readable(source):
        if token.type in _LAYOUT:
            begins = begins or token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
            continue
        if not (begins and token.type == tokenize.STRING):
            kept.append(token.string)
        begins = False
    return tuple(kept)


def own(answer: str, stub: str) -> tuple[str, ...]:
    """What the learner wrote: tokens that the stub has not, their own names numbered."""
    given, written = tokens(stub), tokens(answer)
    known = {*given, *_KEPT}
    left: list[str] = []
    for step in Indel.opcodes(given, written):
        if step.tag in ("insert", "replace"):
            left += written[step.dest_start : step.dest_end]
    numbers: dict[str, str] = {}
    named: list[str] = []
    for before, token in zip(["", *left], left, strict=False):
        chosen = token.isidentifier() and token not in known and before != "."
        named.append(numbers.setdefault(token, f"name{len(numbers)}") if chosen else token)
    return tuple(named)


def similarity(a: Sequence[str], b: Sequence[str]) -> float:
    """From 0 (nothing in common) to 1 (the same)."""
    return Indel.normalized_similarity(a, b)


def groups(
    exercise: str,
    answers: Mapping[str, str],
    stub: str,
    known: Mapping[str, tuple[str, ...]] | None = None,
) -> list[Group]:
    """Groups of near-identical answers.

    Args:
        exercise: its name.
        answers: student → the source of their cell.
        stub: the cell as it was released.
        known: student → :func:`own` of their answer, where that was worked out before.

    Returns:
        the longest answers first; those that many write alike last.
    """
    known = known or {}
    written = {
        student: known[student] if student in known else own(text, stub)
        for student, text in sorted(answers.items())
    }
    same: dict[tuple[str, ...], list[str]] = {}
    for student, text in written.items():
        if len(text) >= TOKENS:
            same.setdefault(text, []).append(student)
    forms = list(same)
    home = list(range(len(forms)))
    least = [1.0] * len(forms)
    for i, j, alike in _close(forms):
        old, new = home[i], home[j]
        least[new] = min(least[old], least[new], alike)
        if old != new:
            home = [new if h == old else h for h in home]
    found = []
    for root in sorted(set(home)):
        members = [form for form, h in zip(forms, home, strict=True) if h == root]
        students = sorted(student for form in members for student in same[form])
        if len(students) > 1:
            shortest = min(len(form) for form in members)
            count = sum(len(s) for s in same.values())
            found.append(Group(exercise, tuple(students), least[root], shortest, count))
    return sorted(found, key=lambda g: (g.common, -g.tokens, g.students))


def _close(forms: Sequence[tuple[str, ...]]) -> Iterator[tuple[int, int, float]]:
    """Pairs of sequences from SIMILARITY on: (one's number, a smaller number, how alike).

    Each token becomes a letter, as comparing texts takes a tenth of the time.
    """
    letters: dict[str, str] = {}
    texts = [
        "".join(letters.setdefault(token, chr(_FIRST + len(letters))) for token in form)
        for form in forms
    ]
    for start in range(0, len(texts), _ROWS):
        rows = texts[start : start + _ROWS]
        table = cdist(
            rows, texts, scorer=Indel.normalized_similarity, score_cutoff=SIMILARITY, workers=1
        )
        for row, column in zip(*table.nonzero(), strict=True):
            if column < start + row:
                yield start + int(row), int(column), float(table[row, column])


def pairs(found: Iterable[Group]) -> list[Pair]:
    """Who is together in two exercises or more; the most often first."""
    together: dict[tuple[str, str], list[str]] = defaultdict(list)
    for group in found:
        if not group.common:
            for first, second in itertools.combinations(group.students, 2):
                together[first, second].append(group.exercise)
    several = [Pair(who, tuple(where)) for who, where in together.items() if len(where) > 1]
    return sorted(several, key=lambda pair: (-len(pair.exercises), pair.students))


def _readable(source: str) -> list[tokenize.TokenInfo]:
    found: list[tokenize.TokenInfo] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source[:MOST]).readline):
            found.append(token)
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass
    return found
