"""What was seen of a candidate, and the rule for all that is said of it.

A general sentence ("your result is twice the right one", "it returns None") has to hold of every
call that was made: of those made to find it, and of those the properties made, which the card may
show. Where it holds of some of them only, it says of which: :meth:`Evidence.general` is where that
is decided, for all sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from attend_grader.checks.cases import Case
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.when import when

Find = Callable[[Sequence[Case]], str | None]
"""Looks for a sentence that holds of all the calls it is given."""

ORDINARILY = "In all ordinary calls tried, "
WRONG_ONES = "In the calls tried that went wrong, "


class Evidence:
    """Calls, and how they went.

    Args:
        cases: calls made to find a sentence.
        exercise: whose they are.
        shown: calls of the properties: the card may show them.

    Attributes:
        seen: those ``shown`` whose verdict rounding does not decide.
        every: all calls with a verdict.
        wrong: the ``cases`` that went wrong.
        raising: those that raised.
        off: those that came to a wrong result.
        valued: the ``cases`` that came to a result.
        bad: all calls that came to a wrong result, of the properties too.
        marked: these, and those of which rounding decides: a card may show them as wrong.
    """

    def __init__(self, cases: Sequence[Case], exercise: Exercise, shown: Sequence[Case]) -> None:
        self.cases, self.exercise, self.shown = cases, exercise, shown
        self.seen = [case for case in shown if not case.unsure]
        self.every = [*cases, *self.seen]
        self.wrong = [case for case in cases if case.wrong]
        self.raising = [case for case in self.wrong if case.got.error is not None]
        self.off = [case for case in self.wrong if case.got.error is None]
        self.valued = [case for case in cases if case.got.error is None]
        self.bad = [case for case in self.every if case.wrong and case.got.error is None]
        unsure = [case for case in shown if case.unsure and case.got.error is None]
        self.marked = [*self.bad, *unsure]

    def without_errors(self) -> Evidence:
        """The calls that came to a result."""
        shown = [case for case in self.shown if case.got.error is None]
        return Evidence(self.valued, self.exercise, shown)

    def general(self, find: Find) -> str | None:
        """A sentence of every call that came to a result, or of every ordinary one, which it says.

        Of a call whose verdict rounding decides nothing is asked.
        """
        whole = [case for case in self.every if case.got.error is None]
        for cases, where in ((whole, ""), (self.valued, ORDINARILY)):
            text = find(cases) if cases else None
            if text:
                return within(where, text)
        return None

    def of_wrong(self, find: Find) -> str | None:
        """A sentence of all calls that went wrong; it says so where others went right."""
        text = find(self.marked) if self.bad else None
        if text and len(self.wrong) == 1 < len(self.cases) and " holds " in text:
            return None  # such numbers, seen in one call, say little of those that the card shows
        if not text or all(case.wrong for case in self.every):
            return text
        return within(WRONG_ONES, text)

    def always(self, holds: Callable[[Case], bool]) -> bool:
        """Whether something holds of every call that was made."""
        return all(holds(case) for case in (*self.cases, *self.shown))

    def when(
        self,
        pick: Callable[[Case], bool],
        *,
        plain: bool = False,
        only: Collection[str] | None = None,
    ) -> str:
        """What the calls that are picked have in common, and no other call (see ``when``)."""
        return when([c for c in self.every if pick(c)], self.every, plain=plain, only=only)

    def names(self, count: int) -> tuple[str, ...]:
        """What the exercise's results are called."""
        if self.exercise.results:
            return self.exercise.results
        return tuple(f"result {i + 1}" for i in range(count)) if count > 1 else ("result",)


def within(where: str, text: str) -> str:
    """A sentence with the calls that it is about in front."""
    return f"{where}{text[0].lower()}{text[1:]}" if where else text
