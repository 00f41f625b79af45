"""Sentences of symptoms that are put together of several parts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

RIGHT, ORDINARY = "The values are right in all", " ordinary calls tried"
MARKED = "; what goes wrong is marked below."
"""Begin, middle and end of the sentence where every call tried was right."""


def corrected(sentence: str) -> str:
    """A symptom where a property found wrong values: values are right in ordinary calls only."""
    if not sentence.startswith(RIGHT):
        return sentence
    head, _, rest = sentence.partition(ORDINARY)
    also = "." if rest == MARKED else rest.replace(", but ", ", and ", 1)
    return f"{head}{ORDINARY}, but not in those marked below{also}"


def of_values(sentence: str | None, wrong_type: bool, wrong_shape: bool) -> str | None:
    """A symptom; with ``wrong_type``, calls came right in values only, and it says "values".

    With ``wrong_shape``, those that did not may be wrong in their shapes.
    """
    if sentence is None or not wrong_type:
        return sentence
    what = "values or shapes" if wrong_shape else "values"
    told = re.sub(r"\bWrong in (?=\d)", f"The {what} are wrong in ", sentence)
    return re.sub(r"(?<!are )\bwrong in (?=\d)", f"the {what} are wrong in ", told)


def tried(sentence: str | None, *, raised: bool) -> str | None:
    """A sentence that says of which calls it speaks: other calls may show something else.

    Where some ``raised``, it speaks of the others; an edit of the answer raises there, too.
    """
    if sentence is None or " tried" in sentence or sentence.startswith("It raises "):
        return sentence
    others = raised and not sentence.startswith("It behaves as if ")
    which = "all calls tried that gave a result" if others else "all calls tried"
    return f"In {which}, {inside(sentence)}"


def inside(sentence: str) -> str:
    """A sentence as part of another one: it begins small, but for a name such as LSE."""
    return sentence if sentence[1:2].isupper() else sentence[0].lower() + sentence[1:]


def stated(facts: Mapping[str, str], wrong: Mapping[str, bool], right: Sequence[str]) -> str:
    """A sentence on several results.

    Args:
        facts: what is plainly wrong, by result.
        wrong: results that are wrong in no way that is known, and whether in every call.
        right: results that are right.
    """
    said = []
    for text in dict.fromkeys(facts.values()):
        which = [name for name, other in facts.items() if other == text]
        many = f"{'each' if said else 'Each'} of {_listed(which)}"
        said.append(f"{many if len(which) > 1 else which[0]} {text}")
    for always, text in ((True, "wrong too"), (False, "wrong in some of these calls")):
        which = [name for name, every in wrong.items() if every == always]
        said += [f"{_listed(which)} {_are(which)} {text}"] if which else []
    said += [f"{_listed(right)} {_are(right)} right"] if right else []
    return "; ".join(said) + "."


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _listed(names: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
