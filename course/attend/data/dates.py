"""Dates in words, and the same dates in ISO 8601: a translation in miniature.

    saturday the 7th of march 1987 and may 2 2004    →    1987 03 07 2004 05 02 end

It has what makes translation need alignment: words change (march → 03), their order changes (day,
month, year → year, month, day, in one of six ways to write a date), and some words have no
counterpart (the, of, saturday, and). A sentence holds one date or several; how long it is depends
on how many, and on how wordy each is.

Words are numbered by their place in ``SOURCE`` and ``TARGET``.

Source: ISO 8601-1:2019 (calendar dates). Dates as the toy of alignment, there letter by letter:
an assignment of the course *Sequence Models* (Ng, Katanforoosh and Bensouda Mourri 2018).
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

FIRST, LAST = datetime.date(1970, 1, 1), datetime.date(2029, 12, 31)
MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
WAYS = (
    "{day} {month} {year}",
    "{month} {day} {year}",
    "{year} {month} {day}",
    "{weekday} {day} {month} {year}",
    "the {nth} of {month} {year}",
    "{weekday} the {nth} of {month} {year}",
)
"""How a date can be written: three to six words."""

_YEARS = [str(year) for year in range(FIRST.year, LAST.year + 1)]
_DAYS = [str(day) for day in range(1, 32)]


def nth(day: int) -> str:
    """Return ``"7th"`` for 7: the day as an ordinal."""
    ending = "th" if 10 < day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


_NTHS = [nth(int(day)) for day in _DAYS]
SOURCE = ("and", "the", "of", *WEEKDAYS, *MONTHS, *_DAYS, *_NTHS, *_YEARS)
"""Every word that a source sentence may hold."""

START, END = "start", "end"
TARGET = (START, END, *(f"{number:02d}" for number in range(1, 32)), *_YEARS)
"""Every word that can be written: ``start`` stands before the first and is never written."""

_SOURCE_NUMBER = {word: number for number, word in enumerate(SOURCE)}
_TARGET_NUMBER = {word: number for number, word in enumerate(TARGET)}

Sentence = tuple[list[str], list[str]]


def sentence(rng: np.random.Generator, dates: int) -> Sentence:
    """Draw a sentence of so many dates: its words, and those of its translation.

    Every day from 1970 to 2029 and every way to write it is equally likely.

    Raises:
        ValueError: ``dates`` is not positive.

    >>> source, target = sentence(np.random.default_rng(2), 2)
    >>> " ".join(source)
    '3 april 2020 and september 12 1985'
    >>> " ".join(target)
    '2020 04 03 1985 09 12 end'
    """
    if dates < 1:
        raise ValueError(f"a sentence holds at least one date; got dates = {dates}.")
    source: list[str] = []
    target: list[str] = []
    for ordinal in rng.integers(FIRST.toordinal(), LAST.toordinal() + 1, dates).tolist():
        date = datetime.date.fromordinal(ordinal)
        words = WAYS[int(rng.integers(len(WAYS)))].format(
            day=date.day,
            nth=nth(date.day),
            month=MONTHS[date.month - 1],
            year=date.year,
            weekday=WEEKDAYS[date.weekday()],
        )
        source += (["and"] if source else []) + words.split()
        target += [str(date.year), f"{date.month:02d}", f"{date.day:02d}"]
    return source, [*target, END]


def sentences(rng: np.random.Generator, count: int, dates: Sequence[int]) -> list[Sentence]:
    """Draw ``count`` sentences; how many dates each holds is drawn from ``dates``."""
    return [sentence(rng, dates[int(rng.integers(len(dates)))]) for _ in range(count)]


def aligned(source: Sequence[str]) -> list[int]:
    """Return the places of the source words that the written words translate.

    One place for each year, month and day, in the order in which ISO 8601 writes them; none for
    ``end``, which translates no word.

    >>> aligned("saturday the 7th of march 1987 and may 2 2004".split())
    [5, 4, 2, 9, 7, 8]
    """
    kinds: dict[str, list[int]] = {"year": [], "month": [], "day": []}
    for place, word in enumerate(source):
        if word in MONTHS:
            kinds["month"].append(place)
        elif word[0].isdigit():
            kinds["year" if word in _YEARS else "day"].append(place)
    return [place for date in zip(*kinds.values(), strict=True) for place in date]


def translation(source: Sequence[str]) -> list[str]:
    """Return what ISO 8601 writes for these source words, ``end`` included.

    Raises:
        ValueError: the words are not whole dates.

    >>> " ".join(translation("saturday the 7th of march 1987".split()))
    '1987 03 07 end'
    """
    written = []
    for place in aligned(source):
        word = source[place]
        number = MONTHS.index(word) + 1 if word in MONTHS else int(word.rstrip("stndrh"))
        written.append(f"{number:02d}")
    return [*written, END]


def source_numbers(words: Iterable[str]) -> list[int]:
    """Return the numbers of source words.

    Raises:
        ValueError: a word is not in ``SOURCE``; names it.
    """
    words = list(words)
    unknown = [word for word in words if word not in _SOURCE_NUMBER]
    if unknown:
        raise ValueError(
            f"the translator does not know {', '.join(map(repr, unknown))}: it knows days as 7 or "
            f"7th, months and weekdays in full and in small letters, years from {FIRST.year} to "
            f"{LAST.year}, and the words and, the, of."
        )
    return [_SOURCE_NUMBER[word] for word in words]


def by_length(pairs: Iterable[Sentence]) -> dict[tuple[int, int], tuple[np.ndarray, np.ndarray]]:
    """Gather sentences of one length, so that a batch of them needs no padding.

    Shapes:
        returns: (S, T) → numbers of the source words (…, S) and of the target words (…, T)
    """
    found: dict[tuple[int, int], list[tuple[list[int], list[int]]]] = defaultdict(list)
    for source, target in pairs:
        numbers = source_numbers(source), [_TARGET_NUMBER[word] for word in target]
        found[len(source), len(target)].append(numbers)
    return {
        lengths: (np.array([s for s, _ in group]), np.array([t for _, t in group]))
        for lengths, group in sorted(found.items())
    }
