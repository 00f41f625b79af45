"""What an exercise is: its answer, its checks, and what is known about how people get it wrong."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attend_grader.checks.aimed import aimed, own_numbers
from attend_grader.checks.calls import leaves
from attend_grader.checks.contract import FLOAT64, Contract
from attend_grader.checks.probe import Call, Probe, Property, Test
from attend_grader.checks.sizes import ANY, AS_DRAWN, Sized, sized
from attend_grader.checks.slips import Slip, Slips

__all__ = ["Call", "Chapter", "Contract", "Exercise", "Probe", "Property", "Slip", "Test"]

MOST_KEPT = 300
"""So many results an answer is seen to keep, where its text holds such a number."""


@dataclass(frozen=True)
class Exercise:
    """One graded function or class.

    Attributes:
        chapter: ``"03_attention"``.
        title: what the header calls it, in words.
        goal: one sentence: what the learner's function will do.
        reference: the answer, from ``attend_solutions``; its name is the exercise's.
        properties: what is checked, cheap first; their points are the exercise's.
        draws: fresh random calls that show behaviour: used to name a misconception, to tell
            mutants apart and as the smoke test before a widget runs the learner's function.
        alternatives: right implementations in other styles: by name, or without.
        uses: names of earlier exercises the answer calls (follow-through marks).
        results: what the function's several values are called, in order; empty where it has one.
        importance: 1 (nice to know) to 5 (everything later rests on it).
        contract: what is promised and forbidden; its properties come after the others.
        slips: known mistakes, as edits of the answer.
        misconceptions: name → wrong implementation, whose docstring is what the learner is told;
            made of ``slips``.
        forbidden: dotted names the answer may not call; from ``contract``.
        open_ended: several answers are right (a design): how results relate to the reference's
            tells nothing, so no symptom is looked for, and there is no last look;
        related: arguments follow a rule (weights that sum to 1) or were made from one another
            (states from inputs): what is left of a draw after a cut is no fair call;
        wide: calls with axes longer than a card can show, where the engine can make none of the
            draws: lengths that depend on each other, a square matrix.
    """

    chapter: str
    title: str
    goal: str
    reference: Callable[..., Any]
    properties: tuple[Property, ...]
    draws: Callable[[np.random.Generator], Sequence[Call]]
    alternatives: Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any]]
    hints: tuple[str, ...]
    minutes: int
    difficulty: int
    importance: int
    uses: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    contract: Contract | None = None
    slips: Sequence[Slip] = ()
    related: bool = False
    open_ended: bool = False
    wide: Callable[[np.random.Generator], Sequence[Call]] | None = None
    misconceptions: Mapping[str, Callable[..., Any]] = field(init=False)
    forbidden: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "misconceptions", Slips(self.reference, self.slips))
        if self.contract is None:
            return
        own = tuple(p for p in self.properties if not p.promise)
        promised = self.contract.properties(self.draws)
        object.__setattr__(self, "properties", (*own, *promised))
        object.__setattr__(self, "forbidden", self.contract.bans)

    @property
    def name(self) -> str:
        """The function's name, as the learner writes it."""
        return self.reference.__name__

    @property
    def id(self) -> str:
        """``"03_attention/softmax"``: unique in the course."""
        return f"{self.chapter}/{self.name}"

    @property
    def right_answers(self) -> dict[str, Callable[..., Any]]:
        """The alternatives by name: the one that they are given, or their own."""
        if isinstance(self.alternatives, Mapping):
            return dict(self.alternatives)
        return {each.__name__: each for each in self.alternatives}

    def sized(self, rng: np.random.Generator) -> list[Sized]:
        """Calls whose numbers and lengths are unlike those of the draws, as the contract allows."""
        return list(sized(**self._free(rng), rng=rng)) if self._may_be_sized else []

    def aimed(self, text: str, rng: np.random.Generator) -> list[Sized]:
        """Calls with numbers and lengths about those that stand in an answer's ``text`` only."""
        at = own_numbers(text, (self.reference, *self.right_answers.values()))
        if not at or not self._may_be_sized:
            return []
        return list(aimed(**self._free(rng), at=at, rng=rng))

    def own_counts(self, text: str) -> list[int]:
        """Whole numbers up to ``MOST_KEPT`` that stand in an answer's ``text`` only."""
        found = own_numbers(text, (self.reference, *self.right_answers.values()))
        return [int(n) for n in found if n == int(n) and n <= MOST_KEPT]

    @property
    def _may_be_sized(self) -> bool:
        return self.contract is not None and not _launches(self.reference)

    def _free(self, rng: np.random.Generator) -> dict[str, Any]:
        """Draws, and what of them may be other."""
        assert self.contract is not None
        return {
            "draws": self.draws(rng),
            "reference": self.reference,
            "ranges": self.contract.ranges,
            "usual": AS_DRAWN if self.related else ANY,
            "double": FLOAT64 in self.contract.accepts,
        }

    @property
    def statement(self) -> str:
        """What the notebook prints of the contract: all that is checked."""
        if self.contract is None:
            return ""
        if _launches(self.reference):
            return self.contract.sentence()
        made = self.sized(np.random.default_rng(0))
        named = tuple(dict.fromkeys(n for x in made for n in x.arrays))
        drawn = self.draws(np.random.default_rng(0))
        several = any(len(leaves(call, ())) > 1 for call in drawn)
        return self.contract.sentence(sizes=named, several=several)

    @property
    def points(self) -> int:
        """The most an answer can earn."""
        return sum(p.points for p in self.properties)


def _launches(reference: Any) -> bool:
    """Whether it is a Triton kernel, or stands beside one: those are interpreted, which is slow."""
    return "triton" in getattr(inspect.getmodule(reference), "__dict__", {})


@dataclass(frozen=True)
class Chapter:
    """A chapter's exercises, in the order in which it asks them."""

    id: str
    exercises: tuple[Exercise, ...]
