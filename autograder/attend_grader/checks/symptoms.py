"""How a wrong result relates to the right one, and when: a sentence that all calls bear out.

In this order: is every value right? does it raise? has it another form? is it a relation of the
right result (a factor, an axis, …), or the answer on other arguments? is there a single edit of the
answer that does the same? and if nothing holds of all calls: what have all failing calls in common,
and what holds of these?
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Sequence

import numpy as np

from attend_grader.checks.again import changes_its_mind
from attend_grader.checks.as_if import AS_IF, apart, as_if
from attend_grader.checks.calls import numbers, parts
from attend_grader.checks.cases import Case, describe, logged, observe
from attend_grader.checks.edited import USED, edited
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.facts import fact
from attend_grader.checks.places import places
from attend_grader.checks.relations import array as _array
from attend_grader.checks.relations import arrays as _arrays
from attend_grader.checks.relations import kind as _kind
from attend_grader.checks.relations import pairs_of, relation
from attend_grader.checks.subject import Subject
from attend_grader.checks.when import when
from attend_grader.checks.wording import MARKED, ORDINARY, RIGHT, of_values, stated

FEW = 5
"""Wrong calls that have a type in common, and need: fewer may have it by chance."""

CHANCE = 3.0**-FEW
"""How likely it may be that as many calls, taken at random, have it in common."""

WITHIN = re.compile(r' holds? integers$| are float32$| is (not )?".*"$| is (True|False)$')
"""Traits that may be told of wrong calls though others have them, too."""


def symptom(subject: Subject, exercise: Exercise, seed: int) -> str | None:
    """What is wrong with a candidate's results; None where nothing can be said that always holds.

    Args:
        subject: the candidate.
        exercise: what it should do.
        seed: draws the calls; the same seed gives the same sentence.
    """
    seen = logged(subject, exercise)
    cases = observe(subject, exercise, seed)
    if len(cases) < 2:
        return None
    other = changes_its_mind(subject, exercise, cases, seen)
    if other:
        return other
    describe([*cases, *seen], exercise)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a mean of nothing and the like: no sentence, no matter
        return of_values(
            _Search(cases, exercise, seen).sentence(), any(c.other_type for c in cases)
        )


class _Search:
    """Looks for the sentence.

    Args:
        cases: what it speaks of.
        exercise: whose they are.
        seen: calls of the properties, which no condition may contradict: the card shows them.
    """

    def __init__(self, cases: Sequence[Case], exercise: Exercise, seen: Sequence[Case]) -> None:
        self.cases, self.exercise, self.shown = cases, exercise, seen
        self.seen = [case for case in seen if not case.unsure]
        self.wrong = [case for case in cases if case.wrong]
        self.raising = [case for case in self.wrong if case.got.error is not None]
        self.valued = [case for case in cases if case.got.error is None]
        self.off = [case for case in self.wrong if case.got.error is None]
        bad = [case for case in seen if case.wrong and case.got.error is None]
        self.bad = [*self.off, *bad]  # what is said of wrong calls holds of those on the card too
        self.edits: tuple[str, str] | None = None

    def sentence(self) -> str | None:
        """The sentence, or None."""
        if not self.wrong:
            return self._right()
        if self.raising:
            return self._raises()
        return (
            self._form()
            or self._whole()
            or self._edit()
            or self._sometimes(strong=True)
            or self._edit(vague=True)
            or self._sometimes()
            or self._wherever()
        )

    def _when(
        self,
        pick: Callable[[Case], bool],
        *,
        plain: bool = False,
        only: Collection[str] | None = None,
    ) -> str:
        """What the calls that are picked have in common, and no other call (see ``when``)."""
        cases = [*self.cases, *self.seen]
        return when([case for case in cases if pick(case)], cases, plain=plain, only=only)

    def _right(self) -> str:
        count = len(self.cases)
        changed = self._changed()
        text = f"{RIGHT} {count}{ORDINARY}"
        return f"{text}, but {changed}." if changed else f"{text}{MARKED}"

    def _changed(self) -> str:
        """Which arguments are changed in place, and when."""
        touched = [case for case in self.cases if case.got.mutated]
        if not touched:
            return ""
        keys = {key for case in touched for key in case.got.mutated}
        named = sorted(touched[0].names[k] if isinstance(k, int) else str(k) for k in keys)
        verb = "is" if len(named) == 1 else "are"
        told = self._when(lambda case: bool(case.got.mutated), only=named)
        return f"{' and '.join(named)} {verb} changed in place" + (f" where {told}" if told else "")

    def _raises(self) -> str | None:
        types = sorted({case.got.error.type for case in self.raising if case.got.error})
        kind = " or ".join(types)
        if len(self.raising) == len(self.cases):
            came = any(case.got.error is None for case in self.shown)
            often = (
                f"in all {len(self.cases)} ordinary calls tried"
                if came
                else (f"in every call, {len(self.cases)} of them")
            )
            return f"It raises {kind} {often}."
        told = self._when(lambda case: case.got.error is not None, plain=True)
        head = f"It raises {kind} in {len(self.raising)} of {len(self.cases)} calls tried"
        head += f", just those where {told}" if told else ""
        if not self.bad:
            changed = self._changed()
            right = f"in the others it is right{f', but {changed}' if changed else ''}"
            return ("" if told else self._edit()) or f"{head}; {right}."
        found = self._edit()
        if found:
            return found
        seen = [case for case in self.shown if case.got.error is None]
        rest = _Search(self.valued, self.exercise, seen).sentence()
        if rest and not rest.startswith("The values are right"):
            return f"{head}. In other calls: {rest[0].lower()}{rest[1:]}"
        how = self._facts() or "wrong"
        if "wrong" in how:
            return f"{head}; without an error, it gives wrong results too."
        return f"{head}. Where it goes wrong without an error, {how[0].lower()}{how[1:]}"

    def _form(self) -> str | None:
        """Another kind of value, or another number of results, in all calls."""
        values = [case.got.value for case in self.off]
        wants = [case.want for case in self.off]
        if all(value is None for value in values) and len(values) == len(self.cases):
            return "It returns None in every call."
        many = isinstance(wants[0], (tuple, list))
        names = self._names(len(parts(wants[0])))
        if many and all(not isinstance(value, (tuple, list)) for value in values):
            for index, name in enumerate(names):
                if all(
                    _array(c.got.value) and c.matches(c.got.value, parts(c.want)[index])
                    for c in self.off
                ):
                    others = [other for other in names if other != name]
                    rest = f"{' and '.join(others)} {'is' if len(others) == 1 else 'are'}"
                    return f"Only {name} is returned, and it is right; {rest} missing."
            return "One value is returned where several belong."
        if not many and all(isinstance(value, list) for value in values):
            return "A list is returned where an array or a number belongs."
        if not many and all(isinstance(value, (tuple, list)) for value in values):
            return "Several values are returned where one belongs."
        if not many and all(
            _kind(v) == "c" != _kind(w) for v, w in zip(values, wants, strict=True)
        ):
            right = all(c.matches(np.real(numbers(c.got.value)), c.want) for c in self.off)
            also = "; their real parts are right" if right else ""
            return f"Complex numbers are returned where real ones belong{also}."
        if many and all(len(parts(v)) == len(names) for v in values):
            return self._exchanged(names)
        counts = {len(parts(value)) for value in values}
        if many and len(counts) == 1 and len(values) == len(self.cases):
            return f"{counts.pop()} values are returned where {len(names)} belong."
        return None

    def _names(self, count: int) -> tuple[str, ...]:
        if self.exercise.results:
            return self.exercise.results
        return tuple(f"result {i + 1}" for i in range(count)) if count > 1 else ("result",)

    def _exchanged(self, names: tuple[str, ...]) -> str | None:
        """All results are right but in another order, in all calls."""
        fits = [
            [
                j
                for j in range(len(names))
                if all(c.matches(parts(c.got.value)[i], parts(c.want)[j]) for c in self.off)
            ]
            for i in range(len(names))
        ]
        if any(len(places) != 1 for places in fits) or len({p for (p,) in fits}) < len(names):
            return None
        if all(place == i for i, (place,) in enumerate(fits)):
            return None
        told = ", ".join(names[place] for (place,) in fits)
        return f"The results are right but in another order: you return {told}."

    def _whole(self) -> str | None:
        """One relation that holds in all calls that came to a result, on the card too if it may."""
        whole = [*self.valued, *(case for case in self.seen if case.got.error is None)]
        for cases, where in ((whole, ""), (self.valued, "In all ordinary calls tried, ")):
            text = self._related(cases) or self._as_if(cases)
            if text:
                return f"{where}{text[0].lower()}{text[1:]}" if where else text
        return None

    def _as_if(self, cases: Sequence[Case]) -> str | None:
        text = as_if(cases, self.exercise.reference)
        return f"{AS_IF}{text}." if text else None

    def _wherever(self) -> str | None:
        """What is plainly wrong; of which calls, where a check has seen right ones, too."""
        text = self._facts()
        if not text or all(case.wrong for case in [*self.cases, *self.seen]):
            return text
        return f"In the calls that go wrong, {text[0].lower()}{text[1:]}"

    def _facts(self) -> str | None:
        """What is plainly wrong in all failing calls, where no relation is found."""
        if any(not _arrays(case) for case in self.bad):
            return None
        related = self._related(self.bad, weak=True)
        if related and "wrong" not in related:
            return related
        count = len(parts(self.bad[0].want))
        names = self._names(count)
        several = isinstance(self.bad[0].want, (tuple, list))
        found: dict[str, str] = {}
        wrong: dict[str, bool] = {}
        right = []
        for index, name in enumerate(names):
            agrees = [
                case.agrees(parts(case.want)[index], index if several else None)
                for case in self.bad
            ]
            text = None if all(agrees) else fact(pairs_of(self.bad, index if several else None))
            if text:
                found[name] = text
            elif all(agrees):
                right.append(name)
            else:
                wrong[name] = not any(agrees)
        if not found:
            return related
        return stated(found, wrong, right) if several else f"Your result {found[names[0]]}."

    def _related(self, cases: Sequence[Case], *, weak: bool = False) -> str | None:
        """How each result relates to the right one; what is right is said too.

        With ``weak``, which results are right will do.
        """
        if any(not _arrays(case) for case in cases):
            return None
        count = len(parts(cases[0].want))
        if count == 1 and not isinstance(cases[0].want, (tuple, list)):
            text = relation(pairs_of(cases, None), weak=weak)
            return f"Your result is {text}." if text else None
        names, told, right = self._names(count), {}, []
        for index, name in enumerate(names):
            pairs = pairs_of(cases, index)
            if all(case.agrees(parts(case.want)[index], index) for case in cases):
                right.append(name)
                continue
            told[name] = relation(pairs, weak=weak)
        if not told or not (weak or all(told.values())):
            return None
        always = all(
            not case.agrees(parts(case.want)[names.index(name)], names.index(name))
            for case in cases
            for name in told
        )
        return self._results(told, right, always=always)

    def _results(
        self, told: dict[str, str | None], right: list[str], *, always: bool
    ) -> str | None:
        """Several results: the same said of some, the others right."""
        known = {name: text for name, text in told.items() if text}
        if not known and (not right or len(told) == 0):
            return None
        said = []
        for text in dict.fromkeys(known.values()):
            which = [name for name, other in known.items() if other == text]
            said.append(f"{' and '.join(which)} {'is' if len(which) == 1 else 'are'} {text}")
        unknown = [name for name in told if name not in known]
        if unknown and not known:
            verb = "is" if len(unknown) == 1 else "are"
            one = always or len(unknown) == 1
            often = "" if one else ", not each of them in every call"
            said.append(f"{' and '.join(unknown)} {verb} wrong{often}")
        elif unknown:
            said.append(f"{' and '.join(unknown)} {'is' if len(unknown) == 1 else 'are'} wrong too")
        if right:
            said.append(f"{' and '.join(right)} {'is' if len(right) == 1 else 'are'} right")
        text = "; ".join(said)
        return f"Of your results, {text}."

    def _sometimes(self, *, strong: bool = False) -> str | None:
        """What failing calls have in common, and what holds of them.

        With ``strong`` only where a relation holds of all of them.
        """
        told = self._when(lambda case: case.wrong)
        if len(self.wrong) == len(self.cases):
            return None if strong else self._where()
        how = self._related(self.bad) or self._as_if(self.bad)
        if strong and not how:
            return None
        weak = how or self._facts()
        where = None if how else self._where()
        tail = " ".join(text for text in (weak, where) if text)
        tail = f"There, {tail[0].lower()}{tail[1:]}" if tail else ""
        count = f"{len(self.wrong)} of {len(self.cases)} calls tried"
        if told:
            return f"Wrong in {count}, just those where {told}. {tail}".rstrip()
        within = self._among(how or "") or self._within()
        if within:
            return f"Wrong in {count}, all of them calls where {within}. {tail}".rstrip()
        return f"Wrong in {count}. {tail}" if tail else None

    def _among(self, how: str) -> str:
        """What wrong calls have in common, of all calls in which "as if …" makes a difference."""
        if not how.startswith(AS_IF):
            return ""
        cases = [*self.cases, *self.seen]
        wrong, right = ([c for c in cases if c.wrong is was] for was in (True, False))
        text = how.removeprefix(AS_IF).removesuffix(".")
        return when(wrong, [*wrong, *apart(text, self.bad, right, self.exercise.reference)])

    def _within(self) -> str:
        """A type or an option that all wrong calls have, and others; empty where by chance."""
        cases = [*self.cases, *self.seen]
        wrong = [case for case in cases if case.wrong]
        found = [
            (sum(case.traits.get(trait, False) for case in cases), trait)
            for trait in cases[0].traits
            if WITHIN.search(trait) and all(case.traits.get(trait, False) for case in wrong)
        ]
        count, trait = min(found, default=(0, ""))
        chance = (count / len(cases)) ** len(self.wrong)
        return trait if len(self.wrong) >= FEW and chance <= CHANCE else ""

    def _where(self) -> str | None:
        """At which places of which result it is wrong."""
        if any(not _arrays(case) for case in self.bad):
            return None
        if not isinstance(self.bad[0].want, (tuple, list)):
            text = places(pairs_of(self.bad, None))
            return f"It is wrong {text}." if text else None
        names = self._names(len(parts(self.bad[0].want)))
        bad = [
            index
            for index in range(len(names))
            if not all(case.agrees(parts(case.want)[index], index) for case in self.bad)
        ]
        if len(bad) != 1:
            return None
        text = places(pairs_of(self.bad, bad[0]))
        return f"{names[bad[0]]} is wrong {text}." if text else None

    def _edit(self, *, vague: bool = False) -> str | None:
        if self.edits is None:
            self.edits = edited(self.cases, self.exercise.reference, self.seen)
        text = self.edits[vague]
        if not text:
            return None
        if self.raising:  # the error's line is shown, and may be another
            text = USED.sub("", text)
        told = self._when(lambda case: case.wrong) if len(self.wrong) < len(self.cases) else ""
        count = f"{len(self.wrong)} of {len(self.cases)} calls tried"
        return f"It behaves as if {text}." + (
            f" Wrong in {count}, just those where {told}." if told else ""
        )
