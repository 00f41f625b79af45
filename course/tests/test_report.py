"""What a report says of a class whose results are known, and that its page is safe and whole."""

from __future__ import annotations

import inspect
import itertools
import json
import math
import re
import shutil
import statistics
from pathlib import Path

import pytest
from attend import report, report_page, stub
from attend.errors import AttendError
from attend_grader import chapters
from attend_grader.classes import similar
from attend_grader.classes.analysis import analyse, discrimination
from attend_grader.classes.gather import Gathered, _hints
from attend_grader.classes.record import Record
from attend_grader.classes.tables import defused, to_csv
from playwright.sync_api import sync_playwright

from .browser import CHROMIUM, SCREENSHOTS
from .toy_class import EVIL, SLIP, record, thirty, verdict

LONG = """
def steady(rows, scale):
    total = 0.0
    count = 0
    for row in rows:
        for value in row:
            if value > 0:
                total = total + value * scale
                count = count + 1
    if count == 0:
        return 0.0
    return total / count + scale * max(count, 1)
"""
STUB = (
    'def steady(rows, scale):\n    """Mean of what is positive."""\n    raise NotImplementedError\n'
)


def renamed(source: str) -> str:
    """The same answer, other names and a comment."""
    for old, new in {
        "total": "acc",
        "count": "n_seen",
        "value": "v",
        "row ": "r ",
        "row:": "r:",
    }.items():
        source = source.replace(old, new)
    return source.replace("acc = 0.0", "acc = 0.0  # mine")


def gathered(records: list[Record], **more: object) -> Gathered:
    plain = {"waiting": (), "answers": {}, "stubs": {}, "hints": {}}
    return Gathered("toy", tuple(records), **{**plain, **more})  # type: ignore[arg-type]


def page_of(toy: Gathered) -> str:
    return report_page.page(toy, analyse(toy.records), report.near_identical(toy))


@pytest.fixture(scope="module")
def toy() -> Gathered:
    answers = {"s03": LONG + f"# {EVIL}", "s04": renamed(LONG), "s05": "def steady(a, b): return 1"}
    return gathered(
        thirty(),
        answers={"steady": answers},
        stubs={"steady": STUB},
        hints={"steady": {"s03": 2, "s04": 0}},
        waiting=("zoe",),
    )


class TestAnalysis:
    def test_facility_and_means(self):
        items = {item.exercise: item for item in analyse(thirty()).items}
        assert items["easy"].facility == 1
        assert items["steady"].facility == pytest.approx(4.5 / 10)
        assert items["hard"].facility == pytest.approx(4 / 30 / 8)
        assert (items["hard"].started, items["hard"].graded, items["easy"].solved) == (27, 30, 30)
        assert "easy" in items["easy"].note
        assert "hard" in items["hard"].note
        assert items["steady"].note == ""

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
        result = analyse([*thirty(), record("zed", problem="the file is empty", reason="INVALID")])
        assert [(r.student, r.text.split()[0]) for r in result.stopped] == [
            ("s09", "hard:"),
            ("zed", "not"),
        ]
        assert [remark.student for remark in result.flags] == ["s11"]
        assert "zed" in result.students
        assert "zed" not in result.totals

    def test_outliers(self):
        assert analyse(thirty()).outliers == ()
        low = [record(f"s{k}", verdict("easy", 9 + k % 2, 10)) for k in range(20)]
        low.append(record("far", verdict("easy", 1, 10)))
        assert [remark.student for remark in analyse(low).outliers] == ["far"]

    def test_an_exercise_that_does_not_fit(self):
        many = [record(f"s{k}", verdict("a", 5, 5), verdict("b", 5, 5)) for k in range(11)]
        odd = record("odd", verdict("a", 0, 5), verdict("b", 5, 5), verdict("c", 5, 5))
        texts = [r.text for r in analyse([*many, odd]).outliers if r.student == "odd"]
        assert any("nothing for a" in text for text in texts)

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

    def test_a_chain_is_one_group(self):
        third = LONG.replace("max(count, 1)", "count")
        (group,) = similar.groups("steady", {"a": LONG, "b": renamed(LONG), "c": third}, STUB)
        assert group.students == ("a", "b", "c")
        assert similar.SIMILARITY <= group.similarity < 1

    def test_what_ends_in_an_error_is_compared_as_far_as_it_can_be_read(self):
        broken = LONG + "    x = (1,\n"
        assert similar.groups("steady", {"a": broken, "b": LONG}, STUB)

    def test_answers_written_apart_lie_below_the_threshold(self):
        """The bound's reason: 03's reference and alternatives, none a copy of another."""
        highest = 0.0
        for exercise in chapters.chapter("03_attention").exercises:
            texts = [stub.solution_text(exercise.reference)]
            texts += [inspect.getsource(f) for f in exercise.alternatives.values()]
            forms = [similar.own(text, "") for text in texts]
            pairs = itertools.combinations([f for f in forms if len(f) >= similar.TOKENS], 2)
            highest = max([highest, *(similar.similarity(*pair) for pair in pairs)])
        assert 0.4 < highest < similar.SIMILARITY - 0.1


class TestTables:
    @pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1"])
    def test_formulas_are_defused(self, text: str):
        assert defused(text) == f"'{text}"

    def test_numbers_and_words_stay(self):
        assert [defused(v) for v in (-2.5, 3, 0.0, None, "ann")] == ["-2.5", "3", "0", "", "ann"]

    def test_rows(self):
        assert to_csv(("a", "b"), [('x,"', 1.5)]) == 'a,b\r\n"x,""",1.5\r\n'

    def test_the_reports_table(self, toy: Gathered):
        lines = report.table(toy).splitlines()
        assert lines[0] == ",".join(report.HEAD)
        assert f"s03,steady,1,10,PARTIAL,{SLIP},2,0" in lines
        assert len(lines) == 1 + 90


class TestPage:
    def test_it_says_what_is_known(self, toy: Gathered):
        text = page_of(toy)
        for words in (SLIP, "5 students", "s09", "zoe", "1 not graded", "2 of 2 answers"):
            assert words in text

    def test_nothing_of_a_students_is_markup(self, toy: Gathered):
        text = page_of(toy)
        assert EVIL not in text
        assert "<script" not in text
        assert "<img" not in text
        assert text.count("&lt;script&gt;") >= 2, "the flag and the example"

    def test_json_holds_the_same(self, toy: Gathered):
        result = analyse(toy.records)
        form = json.loads(report.to_json(toy, result, report.near_identical(toy)))
        assert form["misconceptions"][0]["name"] == SLIP
        assert len(form["records"]) == 30
        assert form["near_identical"][0]["students"] == ["s03", "s04"]

    def test_heat_is_cividis_from_dark_to_light(self):
        assert report_page.colour(0) == report_page.CIVIDIS[0]
        assert report_page.colour(1) == report_page.CIVIDIS[-1]
        assert report_page.colour(0.1) not in report_page.CIVIDIS

    def test_numbers_can_be_read_on_every_colour(self):
        for percent in range(101):
            ink = report_page._ink(percent / 100)
            assert contrast(report_page.colour(percent / 100), ink) >= 4.5, percent

    @pytest.mark.browser
    @pytest.mark.parametrize("width", [1280, 800])
    def test_it_opens_without_a_network_and_nothing_in_it_lives(
        self, toy: Gathered, tmp_path: Path, width: int
    ):
        chromium = shutil.which("chromium")
        if chromium is None:
            pytest.skip("chromium is not installed: apt install chromium")
        path = tmp_path / "toy.html"
        path.write_text(page_of(toy), encoding="utf-8")
        asked: list[str] = []
        said: list[str] = []
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=list(CHROMIUM))
            tab = browser.new_page(viewport={"width": width, "height": 900})
            tab.on("request", lambda request: asked.append(request.url))
            tab.on("console", lambda message: said.append(message.text))
            tab.on("dialog", lambda dialog: said.append(dialog.message))
            tab.goto(path.as_uri())
            for fold in tab.locator("summary").all():
                fold.click()
            assert tab.title() == "toy: report"
            assert tab.locator("script").count() == 0
            assert tab.locator("svg").count() == 2
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            tab.screenshot(path=SCREENSHOTS / f"report-{width}.png", full_page=True)
            browser.close()
        assert asked == [path.as_uri()]
        assert said == []


class TestCommand:
    def test_no_course(self, tmp_path: Path):
        with pytest.raises(AttendError, match="no course directory"):
            report.main("toy", tmp_path, None)

    def test_an_assignment_without_submissions(self, tmp_path: Path, capsys):
        folder = course(tmp_path)
        assert report.main("toy", folder, None) == 0
        assert "0 students" in capsys.readouterr().out
        assert {p.name for p in (folder / "reports").iterdir()} == {
            "toy.html",
            "toy.csv",
            "toy.json",
        }

    def test_the_name_of_the_page(self, tmp_path: Path):
        with pytest.raises(AttendError, match=r"\.html"):
            report.main("toy", course(tmp_path), tmp_path / "toy.pdf")

    def test_what_is_not_graded_is_said(self, tmp_path: Path, capsys):
        folder = course(tmp_path)
        handed = folder / "submitted" / "ann" / "toy" / "toy.ipynb"
        handed.parent.mkdir(parents=True)
        shutil.copy(folder / "release" / "toy" / "toy.ipynb", handed)
        report.main("toy", folder, None)
        assert "1 more are not graded" in capsys.readouterr().out

    def test_hints_come_from_a_file_that_was_handed_in(self, tmp_path: Path):
        kept = {
            "exercises": {"toy/a": {"hints": 2}, "other/b": {"hints": 1}, "toy/c": {"hints": "x"}}
        }
        (tmp_path / "progress.json").write_text(json.dumps(kept))
        assert dict(_hints(tmp_path, "toy")) == {"a": 2}
        link = tmp_path / "linked"
        link.mkdir()
        (link / "progress.json").symlink_to(tmp_path / "progress.json")
        assert dict(_hints(link, "toy")) == {}


def course(directory: Path) -> Path:
    """A course directory with one released notebook that holds nothing."""
    folder = directory / "course"
    release = folder / "release" / "toy" / "toy.ipynb"
    release.parent.mkdir(parents=True)
    empty = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    release.write_text(json.dumps(empty))
    (folder / "nbgrader_config.py").write_text("c = get_config()\n")
    return folder


def contrast(first: str, second: str) -> float:
    """WCAG 2.2's contrast ratio."""
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
