"""What a report says of a class whose results are known; which answers it calls near-identical."""

from __future__ import annotations

import inspect
import itertools
import math
import re
import statistics

import pytest
from attend import stub
from attend_grader import chapters
from attend_grader.grading import similar
from attend_grader.grading.analysis import Item, analyse, discrimination

from .toy_class import (
    LONG,
    SLIP,
    STUB,
    gathered,
    page_of,
    record,
    renamed,
    thirty,
    ungraded,
    verdict,
)


class TestAnalysis:
    def test_facility_and_means(self):
        items = {item.exercise: item for item in analyse(thirty()).items}
        assert items["easy"].facility == 1
        assert items["steady"].facility == pytest.approx(4.5 / 10)
        assert items["hard"].facility == pytest.approx(4 / 30 / 8)
        assert (items["hard"].started, items["hard"].graded, items["easy"].solved) == (27, 30, 30)
        assert items["easy"].reading == "too easy to tell learners apart"
        assert items["hard"].reading == "too hard for most"
        assert items["steady"].reading == "hard; who does well elsewhere clearly does better here"
        assert [item.odd for item in items.values()] == [True, False, True]

    def test_what_most_did_not_begin_is_not_called_hard(self):
        def read(started: int) -> str:
            return Item("x", 10, 2, 0.2, None, started, 3, 30).reading

        assert read(14) == "most did not begin it"
        assert read(15) == "too hard for most"

    def test_discrimination_is_the_corrected_correlation(self):
        items = {item.exercise: item for item in analyse(thirty()).items}
        steady = [k // 3 for k in range(30)]
        hard = [2 * (k >= 28) for k in range(30)]
        expected = statistics.correlation(steady, hard)  # `easy` is the same for all
        assert items["easy"].discrimination is None
        assert items["steady"].discrimination == pytest.approx(expected)
        assert items["hard"].discrimination == pytest.approx(expected)

    def test_discrimination_without_its_own_part(self):
        assert discrimination([0, 1, 2], [0, 1, 2]) is None, "the rest does not vary"
        assert discrimination([0, 1], [0, 5]) is None, "two students"
        assert discrimination([2, 1, 0], [2, 2, 2]) == pytest.approx(-1)

    def test_discrimination_in_words(self):
        def read(r: float | None, p: float = 0.6) -> str:
            return Item("x", 10, 10 * p, p, r, 30, 3, 30).reading

        assert read(None, 0.85) == "easy"
        assert read(-0.1).endswith("does worse here: see whether it is clear")
        assert read(0.1).endswith("says little about the rest: see whether it is clear")
        assert read(0.3) == "neither easy nor hard; who does well elsewhere does better here"
        assert Item("x", 0, 0, None, None, 3, 3, 3).reading == "worth no points"

    def test_its_interval_is_fishers(self):
        """Fisher's z for r = 0.5 and n = 28: 0.5493 ± 1.96 / 5."""
        low, high = Item("x", 1, 0.5, 0.5, 0.5, 28, 1, 28).interval or (0, 0)
        assert (low, high) == pytest.approx((0.1560, 0.7358), abs=1e-4)
        assert Item("x", 1, 0.5, 0.5, 0.5, 3, 1, 3).interval is None
        all_alike = Item("x", 1, 0.5, 0.5, 1.0, 30, 1, 30).interval
        assert all_alike is not None
        assert all(math.isfinite(end) for end in all_alike)

    def test_losses_of_those_who_began(self):
        losses = {(loss.exercise, loss.property): loss for loss in analyse(thirty()).losses}
        hard = losses["hard", "float32 works"]
        assert hard.mean == 4
        assert len(hard.students) == 27
        assert losses["hard", "hand-worked"].mean == pytest.approx((25 * 4 + 2 * 2) / 27)
        assert not any(exercise == "easy" for exercise, _ in losses)

    def test_misconceptions_are_counted(self):
        (found,) = analyse(thirty()).misconceptions
        assert (found.exercise, found.name) == ("steady", SLIP)
        assert found.students == ("s03", "s04", "s05", "s06", "s07")

    def test_stopped_and_flags(self):
        result = analyse([*thirty(), ungraded("Zed")])
        assert [(r.student, r.text) for r in result.stopped] == [
            ("s09", "`hard`: TIMEOUT."),
            ("Zed", "Not graded: the file is empty"),
        ]
        assert [remark.student for remark in result.flags] == ["s11"]
        assert result.students[-1] == "Zed", "sorted whatever their letters' case"
        assert "Zed" not in result.totals
        assert result.items == analyse(thirty()).items

    def test_outliers(self):
        assert analyse(thirty()).outliers == ()
        low = [record(f"s{k}", verdict("easy", 9 + k % 2, 10)) for k in range(20)]
        low.append(record("far", verdict("easy", 1, 10)))
        (far,) = analyse(low).outliers
        assert far.student == "far"
        assert "1 points: far below" in far.text

    def test_in_a_class_of_equals_a_point_is_not_far(self):
        records = [record(f"s{k}", verdict("easy", 40, 40)) for k in range(20)]
        assert analyse([*records, record("one", verdict("easy", 39, 40))]).outliers == ()

    def test_who_began_nothing(self):
        idle = record("idle", verdict("easy", 0, 4, status="not started"))
        (found,) = analyse([record("s1", verdict("easy", 4, 4)), idle]).outliers
        assert (found.student, found.text) == ("idle", "began nothing")

    def test_an_exercise_that_does_not_fit(self):
        many = [record(f"s{k}", verdict("a", 5, 5), verdict("b", 5, 5)) for k in range(11)]
        odd = record("odd", verdict("a", 0, 5), verdict("b", 5, 5))
        texts = [r.text for r in analyse([*many, odd]).outliers if r.student == "odd"]
        assert "5 of 5 points elsewhere, but nothing for `a` (p = 0.92)" in texts

    @pytest.mark.parametrize("number", [0, 1, 2, 30])
    def test_no_number_is_missing_where_all_are_equal(self, number: int):
        records = [record(f"s{k}", verdict("a", 3, 5), verdict("b", 0, 5)) for k in range(number)]
        result = analyse(records)
        for item in result.items:
            assert item.facility is not None
            assert math.isfinite(item.facility)
            assert item.discrimination is None
        assert result.outliers == ()
        text = page_of(gathered(records))
        assert not re.search(r">\s*-?(nan|None|inf)<|NaN", text)

    def test_two_notebooks_are_kept_apart(self):
        first = record("ann", verdict("a", 3, 5), notebook="one")
        second = record("ann", verdict("a", 5, 5), notebook="two")
        result = analyse([first, second])
        assert [item.exercise for item in result.items] == ["one/a", "two/a"]
        assert result.totals == {"ann": 8}


class TestSimilarity:
    def test_renaming_and_comments_hide_nothing(self):
        (group,) = similar.groups("steady", {"a": LONG, "b": renamed(LONG)}, STUB)
        assert group.students == ("a", "b")
        assert group.similarity == 1
        assert group.tokens >= similar.TOKENS

    def test_the_stub_is_not_counted(self):
        assert similar.own(STUB, STUB) == ()
        same = "def steady(rows, scale):\n    return 1\n"
        assert similar.groups("steady", {"a": same, "b": same}, STUB) == [], "too short to tell"

    def test_no_more_than_the_beginning_of_a_giant_answer_is_read(self):
        giant = "x = 1\n" * 200_000
        assert len(similar.tokens(giant)) <= similar.MOST

    def test_a_chain_is_one_group(self):
        third = LONG.replace("max(count, 1)", "count")
        (group,) = similar.groups("steady", {"a": LONG, "b": renamed(LONG), "c": third}, STUB)
        assert group.students == ("a", "b", "c")
        assert similar.SIMILARITY <= group.similarity < 1

    def test_what_many_share_comes_last(self):
        other = LONG.replace("scale * max(count, 1)", "sum(rows[0]) ** 2 - abs(scale) % 7 // 3")
        answers = {f"s{k}": LONG for k in range(5)} | {"t1": other, "t2": other}
        few, many = similar.groups("steady", answers, STUB)
        assert (few.students, few.common) == (("t1", "t2"), False)
        assert (len(many.students), many.common) == (5, True)

    def test_who_is_together_more_than_once(self):
        def group(name: str, *students: str, of: int = 20) -> similar.Group:
            return similar.Group(name, students, 1.0, 50, of)

        found = similar.pairs(
            [
                group("a", "ann", "bob", "cleo"),
                group("b", "ann", "bob"),
                group("c", "ann", "bob", "cleo", "dan", of=6),
            ]
        )
        assert found == [similar.Pair(("ann", "bob"), ("a", "b"))]

    def test_what_ends_in_an_error_is_compared_as_far_as_it_can_be_read(self):
        broken = LONG + "    x = (1,\n"
        assert similar.groups("steady", {"a": broken, "b": LONG}, STUB)

    def test_answers_written_apart_lie_below_the_threshold(self):
        """The bound's reason: 03's reference and alternatives, none a copy of another."""
        highest = 0.0
        for exercise in chapters.chapter("03_attention").exercises:
            texts = [stub.solution_text(exercise.reference)]
            texts += [inspect.getsource(f) for f in exercise.right_answers.values()]
            forms = [similar.own(text, "") for text in texts]
            pairs = itertools.combinations([f for f in forms if len(f) >= similar.TOKENS], 2)
            highest = max([highest, *(similar.similarity(*pair) for pair in pairs)])
        assert 0.4 < highest < similar.SIMILARITY - 0.1
