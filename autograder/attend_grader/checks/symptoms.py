"""How a wrong result relates to the right one, and when: a sentence that all calls bear out.

In this order: is every value right? does it raise? has it another form? is it a relation of the
right result (a factor, an axis, …), or the answer on other arguments? is there a single edit of the
answer that does the same? and if nothing holds of all calls: what have all failing calls in common,
and what holds of these? Of which calls a sentence may speak is decided in :mod:`.evidence`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from functools import partial

import numpy as np

from attend_grader.checks.again import changes_its_mind
from attend_grader.checks.as_if import AS_IF, apart, as_if
from attend_grader.checks.calls import parts
from attend_grader.checks.cases import Case, logged, observe
from attend_grader.checks.edited import USED, edited
from attend_grader.checks.evidence import Evidence
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.form import form
from attend_grader.checks.results import plainly, related, where
from attend_grader.checks.subject import Subject
from attend_grader.checks.traits import describe
from attend_grader.checks.when import when
from attend_grader.checks.wording import MARKED, ORDINARY, RIGHT, inside, of_values, tried

FEW = 5
"""Wrong calls that have a type in common, and need: fewer may have it by chance."""

CHANCE = 3.0**-FEW
"""How likely it may be that as many calls, taken at random, have it in common."""

MISSING = re.compile(r"`(?P<name>\w+)` were missing")
"""What a single edit of the answer is told as, where it takes a function's call away."""

WITHIN = re.compile(r' holds? integers$| are float32$| is (not )?".*"$| is (True|False)$')
"""Traits that may be told of wrong calls though others have them, too."""


def symptom(subject: Subject, exercise: Exercise, *, raised: bool = False) -> str | None:
    """What is wrong with a candidate's results; None where nothing can be said that always holds.

    Args:
        subject: the candidate.
        exercise: what it should do.
        raised: whether a call of a property raised.
    """
    if exercise.open_ended:
        return None
    seen = logged(subject, exercise)
    cases = observe(subject, exercise)
    if len(cases) < 2:
        return None
    other = changes_its_mind(subject, exercise, cases, seen)
    if other:
        return other
    describe([*cases, *seen], exercise)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a mean of nothing and the like: no sentence, no matter
        sentence = _Search(Evidence(cases, exercise, seen)).sentence()
        shapes = any(c.wrong and c.other_shape for c in cases)
        raised |= any(c.got.error is not None for c in (*cases, *seen))
        values = of_values(sentence, any(c.other_type for c in cases), shapes)
        told = tried(values, raised=raised)
    return told and MISSING.sub(partial(there_after_all, subject.description.source or ""), told)


def there_after_all(source: str, found: re.Match[str]) -> str:
    """Of a function that the candidate does call: nothing comes of it, where it seems missing."""
    calls = re.search(rf"\b{found['name']}\s*\(", source)
    return f"`{found['name']}` had no effect" if calls else found[0]


class _Search:
    """Looks for the sentence.

    Args:
        evidence: what was seen of the candidate.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence, self.reference = evidence, evidence.exercise.reference
        self.cases, self.wrong, self.bad = evidence.cases, evidence.wrong, evidence.bad
        of = evidence.wrong or evidence.cases
        self.names = evidence.names(len(parts(of[0].want)) if of else 1)
        self.edits: tuple[str, str] | None = None

    def sentence(self) -> str | None:
        """The sentence, or None."""
        if not self.wrong:
            return self._right()
        if self.evidence.raising:
            return self._raises()
        return (
            self._form()
            or self._whole()
            or self._edit()
            or self._sometimes(strong=True)
            or self._edit(vague=True)
            or self._sometimes()
            or self.evidence.of_wrong(self._plainly)
        )

    # What may hold of some calls, or of all: how these are chosen is not known here.

    def _formed(self, cases: Sequence[Case]) -> str | None:
        return form(cases, self.names)

    def _related(self, cases: Sequence[Case]) -> str | None:
        return related(cases, self.names) or self._as_if(cases)

    def _as_if(self, cases: Sequence[Case]) -> str | None:
        text = as_if(cases, self.reference)
        return f"{AS_IF}{text}." if text else None

    def _plainly(self, cases: Sequence[Case]) -> str | None:
        return plainly(cases, self.names)

    # Sentences, in the order in which they are tried.

    def _right(self) -> str:
        changed = self._changed()
        text = f"{RIGHT} {len(self.cases)}{ORDINARY}"
        return f"{text}, but {changed}." if changed else f"{text}{MARKED}"

    def _changed(self) -> str:
        """Which arguments are changed in place, and when."""
        touched = [case for case in self.cases if case.got.mutated]
        if not touched:
            return ""
        keys = {key for case in touched for key in case.got.mutated}
        named = sorted(touched[0].names[k] if isinstance(k, int) else str(k) for k in keys)
        verb = "is" if len(named) == 1 else "are"
        told = self.evidence.when(lambda case: bool(case.got.mutated), only=named)
        always = self.evidence.always(lambda case: bool(case.got.mutated))
        limit = f" where {told}" if told else "" if always else " in some of them"
        return f"{' and '.join(named)} {verb} changed in place{limit}"

    def _raises(self) -> str | None:
        raising, count = self.evidence.raising, len(self.cases)
        types = sorted({case.got.error.type for case in raising if case.got.error})
        kind = " or ".join(types)
        if len(raising) == count:
            always = self.evidence.always(lambda case: case.got.error is not None)
            often = f"in every call, {count} of them" if always else ""
            return f"It raises {kind} {often or f'in all {count}{ORDINARY}'}."
        told = self.evidence.when(lambda case: case.got.error is not None, plain=True)
        others = [c.got.error for c in self.evidence.seen if c.got.error]
        tried = " calls tried" if {e.type for e in others} <= {*types} else ORDINARY
        head = f"It raises {kind} in {len(raising)} of {count}{tried}"
        head += f", just those where {told}" if told else ""
        if not self.bad:
            changed = self._changed()
            right = f"in the others it is right{f', but {changed}' if changed else ''}"
            return ("" if told else self._edit()) or f"{head}; {right}."
        found = self._edit()
        if found:
            return found
        rest = _Search(self.evidence.without_errors()).sentence()
        if rest and not rest.startswith(RIGHT):
            return f"{head}. In other calls: {inside(rest)}"
        how = self._plainly(self.evidence.marked) or "wrong"
        if "wrong" in how:
            return f"{head}; without an error, it gives wrong results too."
        return f"{head}. Where it goes wrong without an error in the calls tried, {inside(how)}"

    def _form(self) -> str | None:
        """Another kind of value, or another number of results."""
        return self.evidence.general(self._formed)

    def _whole(self) -> str | None:
        """One relation that holds in all calls that came to a result."""
        return self.evidence.general(self._related)

    def _sometimes(self, *, strong: bool = False) -> str | None:
        """What failing calls have in common, and what holds of them.

        With ``strong`` only where a relation holds of all of them.
        """
        told = self.evidence.when(lambda case: case.wrong)
        if len(self.wrong) == len(self.cases):
            return None if strong else where(self.evidence.marked, self.names)
        how = self._formed(self.bad) or self._related(self.bad)
        if strong and not how:
            return None
        few = len(self.wrong) == 1  # and says little of those that the card shows
        weak = how or (None if few else self._plainly(self.evidence.marked))
        place = None if how or few else where(self.evidence.marked, self.names)
        raising = any(case.got.error is not None for case in self.evidence.every)
        tail = "" if raising else " ".join(text for text in (weak, place) if text)
        tail = f"There, {inside(tail)}" if tail else ""
        count = f"{len(self.wrong)} of {len(self.cases)} calls tried"
        if told:
            return f"Wrong in {count}, just those where {told}. {tail}".rstrip()
        among = self._among(how or "") or self._within()
        if among:
            return f"Wrong in {count}, all of them calls where {among}. {tail}".rstrip()
        return f"Wrong in {count}. {tail}" if tail else None

    def _among(self, how: str) -> str:
        """What wrong calls have in common, of all calls in which "as if …" makes a difference."""
        if not how.startswith(AS_IF):
            return ""
        wrong, right = ([c for c in self.evidence.every if c.wrong is was] for was in (True, False))
        text = how.removeprefix(AS_IF).removesuffix(".")
        return when(wrong, [*wrong, *apart(text, self.bad, right, self.reference)])

    def _within(self) -> str:
        """A type or an option that all wrong calls have, and others; empty where by chance."""
        cases = self.evidence.every
        wrong = [case for case in cases if case.wrong]
        found = [
            (sum(case.traits.get(trait, False) for case in cases), trait)
            for trait in cases[0].traits
            if WITHIN.search(trait) and all(case.traits.get(trait, False) for case in wrong)
        ]
        count, trait = min(found, default=(0, ""))
        chance = (count / len(cases)) ** len(self.wrong)
        return trait if len(self.wrong) >= FEW and chance <= CHANCE else ""

    def _edit(self, *, vague: bool = False) -> str | None:
        if self.edits is None:
            self.edits = edited(self.cases, self.reference, self.evidence.seen)
        text = self.edits[vague]
        if not text:
            return None
        if self.evidence.raising:  # the error's line is shown, and may be another
            text = USED.sub("", text)
        some = len(self.wrong) < len(self.cases)
        told = self.evidence.when(lambda case: case.wrong) if some else ""
        count = f"{len(self.wrong)} of {len(self.cases)} calls tried"
        return f"It behaves as if {text}." + (
            f" Wrong in {count}, just those where {told}." if told else ""
        )
