"""Compile what changed, or find what is out of date."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import triton

from attend_kernels.compiled import page
from attend_kernels.compiled.case import Case, kept
from attend_kernels.compiled.compiler import Compiled
from attend_kernels.compiled.page import Result, Results

# Registers depend on the compiler: the tables were chosen with the version the page names, and
# another one may spill a little.
SLACK_ELSEWHERE = 512


def update() -> tuple[int, list[str]]:
    """Compile the cases whose code changed; write file and page.

    Returns:
        How many were compiled, and every promise that a case breaks.
    """
    on_file = page.read()
    known = on_file.results if on_file.triton == triton.__version__ else {}
    results: Results = {}
    changed: list[tuple[str, int]] = []
    for family in page.FAMILIES:
        results[family] = {}
        for number, case in enumerate(page.cases(family)):
            old, fingerprint = known.get(family, {}).get(case.title), case.launch.fingerprint()
            unread = old is not None and case.modelled and old.made.loop is None
            if old is None or unread or old.fingerprint != fingerprint:
                changed.append((family, number))
                old = Result(fingerprint, Compiled(0, 0, 0, {}))
            results[family][case.title] = old
    # Processes, as Triton compiles in one thread; new ones, as PyTorch's threads do not fork.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=spawn) as pool:
        for (family, number), made in zip(changed, pool.map(_compile, changed), strict=True):
            title = page.cases(family)[number].title
            results[family][title] = Result(results[family][title].fingerprint, made)
    page.write(triton.__version__, results)
    return len(changed), [
        fault
        for family in page.FAMILIES
        for case in page.cases(family)
        for fault in case.faults(results[family][case.title].made)
    ]


def _compile(place: tuple[str, int]) -> Compiled:
    """Compile a case by family and number: kernels cannot be sent to another process."""
    family, number = place
    case = page.cases(family)[number]
    return kept(case, case.launch.compile())


def changed() -> list[str]:
    """Families whose sources, or the version of Triton, are not those of the file of results."""
    known = page.read()
    if known.triton != triton.__version__:
        return list(page.FAMILIES)
    return [f for f in page.FAMILIES if known.sources.get(f) != page.sources(f)]


def report(families: Sequence[str] = page.FAMILIES) -> dict[str, Any]:
    """Say by family what ``examine`` finds."""
    known = page.read()
    exact = known.triton == triton.__version__
    return {f: examine(page.cases(f), known.results.get(f, {}), exact) for f in families}


def page_is_fresh() -> bool:
    """Tell whether the page is what the file of results makes."""
    known = page.read()
    complete = all(
        case.title in known.results.get(family, {})
        for family in page.FAMILIES
        for case in page.cases(family)
    )
    return complete and page.render(known.triton, known.results) == page.PAGE.read_text("utf-8")


def compare(cases: Sequence[Case], known: Mapping[str, Result]) -> tuple[list[str], list[str]]:
    """Compare a family's cases with its results, without a compiler: what is stale, what broken."""
    titles = [case.title for case in cases]
    stale = [f"{title}: twice" for title in set(titles) if titles.count(title) > 1]
    stale += [f"{title}: not among the cases" for title in known.keys() - set(titles)]
    stale += [f"{title}: never compiled" for title in titles if title not in known]
    found = [case for case in cases if case.title in known]
    return stale, [fault for case in found for fault in case.faults(known[case.title].made)]


def examine(cases: Sequence[Case], known: Mapping[str, Result], exact: bool) -> dict[str, Any]:
    """Compare a family's cases with its results: counts, what is stale, what promise is broken.

    Compares all promises with the results. That the results are those of this code is known from
    the fingerprints, and from compiling again, for each architecture, the case with the most
    registers. Where Triton is not the ``exact`` version, the code differs: then that one case
    is all that is compared, with ``SLACK_ELSEWHERE``.
    """
    stale, broken = compare(cases, known)
    found = [case for case in cases if case.title in known]
    if exact:
        stale += [
            f"{case.title}: its code changed"
            for case in found
            if case.launch.fingerprint() != known[case.title].fingerprint
        ]
    hardest: dict[int, Case] = {}
    for case in sorted(found, key=lambda case: known[case.title].made.registers):
        hardest[case.launch.architecture] = case
    for case in hardest.values():
        made = kept(case, case.launch.compile())
        broken += case.faults(made, 0 if exact else SLACK_ELSEWHERE)
        if exact and made != known[case.title].made:
            stale.append(f"{case.title}: compiles to {made}")
    return {"cases": len(cases), "again": len(hardest), "stale": stale, "broken": broken}
