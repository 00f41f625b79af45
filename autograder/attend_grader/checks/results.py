"""How results relate to the right ones, each of them where there are several; and where not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attend_grader.checks.calls import parts
from attend_grader.checks.cases import Case
from attend_grader.checks.facts import fact
from attend_grader.checks.places import places
from attend_grader.checks.relations import arrays, pairs_of, relation
from attend_grader.checks.wording import stated


def _several(cases: Sequence[Case]) -> bool:
    return isinstance(cases[0].want, (tuple, list))


def _agrees(case: Case, index: int) -> bool:
    return case.agrees(parts(case.want)[index], index)


def related(cases: Sequence[Case], names: Sequence[str], *, weak: bool = False) -> str | None:
    """How each result relates to the right one in all ``cases``; what is right is said too.

    With ``weak``, which results are right will do.
    """
    if any(not arrays(case) for case in cases):
        return None
    if not _several(cases):
        text = relation(pairs_of(cases, None), weak=weak)
        return f"Your result is {text}." if text else None
    told: dict[str, str | None] = {}
    right = []
    for index, name in enumerate(names):
        if all(_agrees(case, index) for case in cases):
            right.append(name)
        else:
            told[name] = relation(pairs_of(cases, index), weak=weak)
    if not told or not (weak or all(told.values())):
        return None
    always = all(not _agrees(case, names.index(name)) for case in cases for name in told)
    return _sentence(told, right, always=always)


def _sentence(told: Mapping[str, str | None], right: Sequence[str], *, always: bool) -> str | None:
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
    return f"Of your results, {'; '.join(said)}."


def plainly(cases: Sequence[Case], names: Sequence[str]) -> str | None:
    """What is plainly wrong in all ``cases``, where no relation is found."""
    if any(not arrays(case) for case in cases):
        return None
    text = related(cases, names, weak=True)
    if text and "wrong" not in text:
        return text
    several = _several(cases)
    found: dict[str, str] = {}
    wrong: dict[str, bool] = {}
    right = []
    for index, name in enumerate(names):
        agrees = [
            case.agrees(parts(case.want)[index], index if several else None) for case in cases
        ]
        known = None if all(agrees) else fact(pairs_of(cases, index if several else None))
        if known:
            found[name] = known
        elif all(agrees):
            right.append(name)
        else:
            wrong[name] = not any(agrees)
    if not found:
        return text
    return stated(found, wrong, right) if several else f"Your result {found[names[0]]}."


def where(cases: Sequence[Case], names: Sequence[str]) -> str | None:
    """At which places of which result it is wrong."""
    if any(not arrays(case) for case in cases):
        return None
    if not _several(cases):
        text = places(pairs_of(cases, None))
        return f"It is wrong {text}." if text else None
    bad = [i for i in range(len(names)) if not all(_agrees(case, i) for case in cases)]
    if len(bad) != 1:
        return None
    text = places(pairs_of(cases, bad[0]))
    return f"{names[bad[0]]} is wrong {text}." if text else None
