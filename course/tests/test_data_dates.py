"""Dates in words and in ISO 8601: deterministic, right, and told apart by nothing but the words."""

import datetime
import doctest
from collections import Counter

import numpy as np
import pytest
from attend.data import dates


def test_docstring_examples_are_right() -> None:
    results = doctest.testmod(dates)
    assert results.attempted >= 4
    assert results.failed == 0


ORDINALS = {1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 20: "20th"}
ORDINALS |= {21: "21st", 22: "22nd", 23: "23rd", 30: "30th", 31: "31st"}


@pytest.mark.parametrize(("day", "told"), ORDINALS.items())
def test_ordinals(day: int, told: str) -> None:
    assert dates.nth(day) == told


def test_the_same_seed_gives_the_same_sentences() -> None:
    first, again, other = (dates.sentences(np.random.default_rng(s), 20, (1, 2)) for s in (0, 0, 1))
    assert first == again
    assert first != other


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_translation_holds_every_date_and_an_end(count: int) -> None:
    rng = np.random.default_rng(count)
    for _ in range(50):
        source, target = dates.sentence(rng, count)
        assert len(target) == 3 * count + 1
        assert target[-1] == dates.END
        assert source.count("and") == count - 1
        assert 3 * count + count - 1 <= len(source) <= 6 * count + count - 1
        written = [datetime.date(*map(int, target[i : i + 3])) for i in range(0, 3 * count, 3)]
        named = [word for word in source if word in dates.WEEKDAYS]
        days = [dates.WEEKDAYS[date.weekday()] for date in written]
        assert all(weekday in days for weekday in named)
        places = dates.aligned(source)
        for place, word in zip(places, target[:-1], strict=True):
            assert _iso(source[place]) == word


def _iso(word: str) -> str:
    if word in dates.MONTHS:
        return f"{dates.MONTHS.index(word) + 1:02d}"
    number = int(word.rstrip("stndrh"))
    return str(number) if number > 31 else f"{number:02d}"


def test_every_way_of_writing_a_date_occurs_as_often() -> None:
    rng = np.random.default_rng(0)
    lengths = Counter(len(dates.sentence(rng, 1)[0]) for _ in range(6_000))
    for words, ways in {3: 3, 4: 1, 5: 1, 6: 1}.items():  # of six: 1,000 each, give or take 4 sd
        assert abs(lengths[words] - 1_000 * ways) < 4 * (1_000 * ways) ** 0.5


PHRASE = ["the", "7th", "of", "march", "1987"]


def test_words_are_numbered_once() -> None:
    for words in (dates.SOURCE, dates.TARGET):
        assert len(set(words)) == len(words)
    numbers = dates.source_numbers(PHRASE)
    assert [dates.SOURCE[number] for number in numbers] == PHRASE


def test_unknown_words_are_named() -> None:
    with pytest.raises(ValueError, match="does not know 'smarch', '1950'"):
        dates.source_numbers(["7", "smarch", "1950"])


def test_a_sentence_needs_a_date() -> None:
    with pytest.raises(ValueError, match="at least one date"):
        dates.sentence(np.random.default_rng(0), 0)


def test_groups_hold_sentences_of_one_length() -> None:
    pairs = dates.sentences(np.random.default_rng(0), 300, (1, 2, 3))
    groups = dates.by_length(pairs)
    assert list(groups) == sorted(groups)
    assert sum(len(source) for source, _ in groups.values()) == len(pairs)
    for (s, t), (source, target) in groups.items():
        assert source.shape[1] == s
        assert target.shape[1] == t
        assert len(source) == len(target)
    words = [[dates.SOURCE[n] for n in row] for source, _ in groups.values() for row in source]
    assert sorted(words) == sorted(source for source, _ in pairs)


def test_translation_is_what_the_sentence_came_with() -> None:
    rng = np.random.default_rng(5)
    for count in (1, 2, 3):
        for _ in range(50):
            source, target = dates.sentence(rng, count)
            assert dates.translation(source) == target
