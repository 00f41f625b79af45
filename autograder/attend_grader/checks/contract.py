"""What an exercise promises and forbids: declared once, printed for the learner, and checked.

Each promise becomes one property. It is tried on the exercise's own draws, for each argument in
turn, and compares the learner's function **with itself**: on a view and on its copy, on whole
numbers stored as integers and as floats, on a stack and on its entries. So another slip costs
nothing there, and no degenerate size is needed to keep points apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from attend_grader.checks import compare, leading, promised_masks, promises
from attend_grader.checks.probe import Call, Property, Test
from attend_grader.checks.sizes import EXTREMES, Range

Accepted = Literal["float64", "float32", "integers"]
FLOAT64: Final = "float64"
FLOAT32: Final = "float32"
INTEGERS: Final = "integers"
"""Types of numbers that an exercise may promise to take, in every floating argument."""

UNCHANGED: Final = "arguments stay as they were"
"""The name of that property: every call that is made counts for it, not its own only."""

GRADIENTS: Final = "gradients reach"
"""How the name of that property begins."""

EVERY_PARAMETER: Final = "every parameter"
"""In ``gradients``: every parameter of a module."""

READY_MADE: Final = {
    "SciPy": "scipy",
    "PyTorch": "torch",
    "JAX": "jax",
    "TensorFlow": "tensorflow",
    "scikit-learn": "sklearn",
}
"""Libraries that a chapter in NumPy does without: they hold what it builds."""

ROUNDING: Final = {8: compare.FLOAT64, 4: compare.FLOAT32}
"""What a result may be off by, by the bytes of a number."""

Draws = Callable[[np.random.Generator], Sequence[Call]]


@dataclass(frozen=True, kw_only=True)
class Contract:
    """The promises of one exercise. What is not stated here is neither checked nor banned.

    Attributes:
        numpy_only: NumPy and Python's own modules, no other library.
        leading_axes: more axes may stand in front: of every array (True), or of the named
            arguments only, the others being shared by the whole stack.
        shared: arguments that have leading axes, and may also lack them or have length 1 there.
        accepts: types of numbers besides that of the draws, in every floating argument.
        views: arguments need not be contiguous.
        one_array: several arguments may be one and the same array.
        arguments_unchanged: no argument is written to, in whatever type it comes; nor is what an
            earlier call returned.
        same_dtype: results have the floating type of the arguments.
        gradients: arguments and parameters that gradients must reach, or ``EVERY_PARAMETER``.
        masks: boolean arguments: all True is the same as None, any shape that broadcasts will do.
        hidden_rows: a row of a mask may be all False.
        forbids: dotted names that the answer may not use. Names with a part that begins with an
            underscore, or is ``modules``, are other names of what is stated and are not printed.
        instead: what an answer that uses it is told to do, where not to build it itself.
        forbidden: what all of ``forbids`` is, in words; printed in the place of the names.
        says: further sentences, of promises that the exercise's own properties check.
        ranges: which numbers an argument may hold, where not any: ``sizes.AS_DRAWN``,
            ``sizes.POSITIVE``, or from and to; of an option or a count, which are tried at all.
        whole: how an argument gets its whole numbers, where rounding twice its value does not do.
        points: of each property by its key (``leading``, ``kinds``, ``unchanged``, ``gradients``,
            ``masks``); 1 where none is named.
    """

    numpy_only: bool = False
    leading_axes: bool | tuple[str, ...] = False
    shared: tuple[str, ...] = ()
    accepts: tuple[Accepted, ...] = ()
    views: bool = False
    one_array: bool = False
    arguments_unchanged: bool = False
    same_dtype: bool = False
    gradients: tuple[str, ...] = ()
    masks: tuple[str, ...] = ()
    hidden_rows: bool = False
    forbids: tuple[str, ...] = ()
    forbidden: str = ""
    instead: str = "Build it yourself."
    says: tuple[str, ...] = ()
    ranges: Mapping[str, Range] = field(default_factory=dict)
    whole: Mapping[str, Callable[[np.ndarray], np.ndarray]] = field(default_factory=dict)
    points: Mapping[str, int] = field(default_factory=dict)

    def sentence(self, *, sizes: Sequence[str] | None = None, several: bool = False) -> str:
        """What the notebook prints under the table: each promise and each ban.

        Args:
            several: whether a call brings more than one array.
            sizes: arguments that are tried with unusual numbers, whose ranges are told; None where
                there is no such trial.
        """
        said = []
        if self.numpy_only:
            said.append("NumPy and Python only.")
        many = several if self.leading_axes is True else len(self.leading_axes or ()) > 1
        axes = "common leading axes" if many and not self.shared else "leading axes"
        any_axes = f"Any number of {axes}" if sizes is None else f"Any {axes}"
        if self.leading_axes is True:
            said.append(f"{any_axes}.")
        elif self.leading_axes:
            said.append(f"{any_axes} in {_listed(_code(self.leading_axes))}.")
        if self.shared:
            said.append(f"The leading axes of {_listed(_code(self.shared))} broadcast.")
        said += self._types()
        if self.one_array:
            said.append("Several arguments may be one array.")
        if sizes is not None:
            said = [text.replace("a view such as `a.T`", "a view (`a.T`)") for text in said]
        if sizes:
            said.append(self._sizes(sizes))
        if self.masks:
            many = len(self.masks) > 1
            said.append(
                f"{_listed(_code(self.masks))} may have any shape that broadcasts; all True is the "
                f"same as None{', in either' if many else ''}."
            )
        if self.hidden_rows:
            said.append("A row of the mask may be all False.")
        if self.arguments_unchanged:
            said.append("Arguments and earlier results stay unchanged.")
        if self.gradients:
            reached = [g if g == EVERY_PARAMETER else f"`{g}`" for g in self.gradients]
            kept = "; no call changes later ones" if EVERY_PARAMETER in reached else ""
            said.append(f"Gradients reach {_listed(reached)}{kept}.")
        said += self.says
        banned = list(dict.fromkeys(_short(name) for name in self.forbids if not _alias(name)))
        if banned:
            said.append(f"Not allowed: {self.forbidden or _listed(_code(banned))}.")
        return " ".join(said)

    def _sizes(self, named: Sequence[str]) -> str:
        """Which numbers arguments may hold."""
        ends = {n: self.ranges[n] for n in named if n in self.ranges}
        limits: dict[str, list[str]] = {}
        for name, span in ends.items():
            if span is not None and np.isfinite(span[1]):
                low, high = span
                limit = (
                    f"±{high:,g}" if low == -high else f"{low:,g} to {high:,g}".replace("-", "−")
                )
                limits.setdefault(limit, []).append(name)
        told = [f"{_listed(_code(names))} within {limit}" for limit, names in limits.items()]
        limited = {name for names in limits.values() for name in names}
        free = [name for name in named if name not in limited]
        width = 8 if self.numpy_only or FLOAT64 in self.accepts else 4
        size = f"to {_power(max(EXTREMES[width]))}"
        rounded = f"results to {_power(ROUNDING[width].relative)} of the largest"
        if free and (None in self.ranges.values() or set(named) <= set(self.ranges)):
            told.insert(0, f"{_listed(_code(free))} {size}, {rounded}")
        elif free:
            told.insert(0, f"numbers {size}, {rounded}")
        text = "; ".join(told)
        return f"{text[0].upper()}{text[1:]}."

    def _types(self) -> list[str]:
        plain = FLOAT64 if self.numpy_only else FLOAT32
        taken = [kind for kind in (INTEGERS, FLOAT32, FLOAT64) if kind in self.accepts]
        taken = ["int64" if kind == INTEGERS else kind for kind in taken if kind != plain]
        taken += ["a view such as `a.T`"] * self.views
        said = []
        if FLOAT64 in taken:  # torch multiplies no matrices of different types
            rest = [kind for kind in taken if kind != FLOAT64]
            also = f", any of them {_listed(rest, 'or')}" if rest else ""
            said.append(f"All arguments may be float64{also}.")
        elif taken:
            said.append(f"Any argument may be {_listed(taken, 'or')}.")
        if self.same_dtype:
            said.append("Results have the arguments' type.")
        return said

    @property
    def bans(self) -> tuple[str, ...]:
        """Dotted names that the answer may not use."""
        return (*(READY_MADE.values() if self.numpy_only else ()), *self.forbids)

    def properties(self, draws: Draws) -> tuple[Property, ...]:
        """One property for each kind of promise; tried on fresh ``draws``.

        Raises:
            ValueError: points for a promise that is not made.
        """
        made = self._tests(draws)
        unknown = set(self.points) - {key for key, _, _ in made}
        if unknown:
            raise ValueError(f"points for promises that are not made: {sorted(unknown)}")
        return tuple(
            Property(name, self.points.get(key, 1), test, promise=True) for key, name, test in made
        )

    def _tests(self, draws: Draws) -> list[tuple[str, str, Test]]:
        """(key, name, test) of each kind of promise."""
        made: list[tuple[str, str, Test]] = []
        integers, single, double = (kind in self.accepts for kind in (INTEGERS, FLOAT32, FLOAT64))
        stacks: promises.Stacks = ()
        if self.leading_axes:
            stacks = None if self.leading_axes is True else self.leading_axes
            test = leading.leading(draws, stacks=stacks, shared=self.shared)
            made.append(("leading", "any number of leading axes", test))
        taken = self._types()
        if taken:
            test = promises.kinds(
                draws,
                integers=integers,
                single=single,
                double=double,
                layouts=self.views,
                one_array=self.one_array,
                same_dtype=self.same_dtype,
                whole=self.whole,
                stacks=stacks,
            )
            made.append(("kinds", _lower(" ".join(taken)), test))
        if self.masks:
            test = promised_masks.masks(draws, named=self.masks, hidden_rows=self.hidden_rows)
            made.append(
                ("masks", f"any {_listed(self.masks, 'or')} that broadcasts, or None", test)
            )
        if self.arguments_unchanged:
            test = promises.unchanged(draws, integers=integers, whole=self.whole, stacks=stacks)
            made.append(("unchanged", UNCHANGED, test))
        if self.gradients:
            from attend_grader.checks import flow

            test = flow.gradients(draws, named=self.gradients, layouts=self.views)
            made.append(("gradients", f"{GRADIENTS} {_listed(self.gradients)}", test))
        return made


def _alias(name: str) -> bool:
    """Whether it is another name of something that is stated by its public name."""
    return any(part.startswith("_") or part == "modules" for part in name.split("."))


def _short(name: str) -> str:
    for long, short in (("torch.nn.functional.", "F."), ("torch.nn.", "nn."), ("numpy.", "np.")):
        if name.startswith(long):
            return short + name.removeprefix(long)
    return name


def _lower(sentences: str) -> str:
    """Sentences as the name of a property: no capital, no full stop at the end."""
    plain = sentences.replace("`", "")
    return (plain[0].lower() + plain[1:]).rstrip(".").replace(". Results", "; results")


def _power(number: float) -> str:
    """A power of ten, as it is written by hand."""
    raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    return f"10{str(round(math.log10(number))).translate(raised)}"


def _code(names: Sequence[str]) -> list[str]:
    return [f"`{name}`" for name in names]


def _listed(words: Sequence[str], last: str = "and") -> str:
    """``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
