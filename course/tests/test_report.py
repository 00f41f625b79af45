"""What a report says of a class whose results are known, and that its page is safe and whole."""

from __future__ import annotations

import inspect
import itertools
import json
import math
import re
import shutil
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from attend import report, report_html, report_page, stub
from attend.errors import AttendError
from attend_grader import chapters
from attend_grader.classes import similar
from attend_grader.classes.analysis import Item, analyse, discrimination
from attend_grader.classes.gather import Gathered
from attend_grader.classes.record import Record
from attend_grader.classes.tables import defused, to_csv
from attend_grader.report import Report
from attend_grader.sharing import Effort
from bs4 import BeautifulSoup, Tag
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
    plain = {"waiting": (), "answers": {}, "stubs": {}, "shared": {}}
    return Gathered("toy", tuple(records), **{**plain, **more})  # type: ignore[arg-type]


def ungraded(student: str) -> Record:
    nothing = replace(verdict("easy", 0, 4, status="invalid"), report=None, error="empty")
    nothing = replace(nothing, report=Report(None, (), "invalid", "the file is empty"))
    return record(student, nothing, problem="the file is empty", reason="INVALID")


def page_of(toy: Gathered) -> str:
    return report_page.page(toy, analyse(toy.records), report.near_identical(toy))


@pytest.fixture(scope="module")
def toy() -> Gathered:
    answers = {"s03": LONG + f"# {EVIL}", "s04": renamed(LONG), "s05": "def steady(a, b): return 1"}
    return gathered(
        thirty(),
        answers={"steady": answers},
        stubs={"steady": STUB},
        shared={"steady": {"s03": Effort(2, 11, False), "s04": Effort(0, 20, True)}},
        waiting=("zoe",),
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
        assert f"s03,steady,1,10,PARTIAL,{SLIP},0,2,11,0" in lines
        assert "s11,easy,4,4,PASSED,,1,,,0" in lines
        assert len(lines) == 1 + 90

    def test_who_was_not_graded_has_a_line_for_each_exercise_too(self):
        lines = report.table(gathered([ungraded("zed")])).splitlines()
        assert lines[1:] == ["zed,easy,0,4,INVALID,,0,,,0"]

    def test_a_students_name_is_no_formula(self):
        rows = report.table(gathered([record("=1+1", verdict("easy", 1, 4))])).splitlines()
        assert rows[1].startswith("'=1+1,easy,1,4,")


class TestPage:
    def test_it_says_what_is_known(self, toy: Gathered):
        text = page_of(toy)
        for words in (
            SLIP,
            "5 students",
            "s09",
            "zoe",
            "1 not graded",
            "2 of 2 answers",
            "5 of 30",
        ):
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

    def test_who_was_not_graded_is_in_it(self):
        rows = BeautifulSoup(page_of(gathered([*thirty(), ungraded("zed")])), "html.parser")
        (row,) = [r for r in rows.select(".heat tbody tr") if "zed" in r.get_text()]
        assert row.get_text() == "zednot graded: the file is empty"
        assert [r.th.get_text()[:3] for r in rows.select(".heat tbody tr") if r.th][-2:] == [
            "s29",
            "zed",
        ]

    @pytest.mark.parametrize(
        ("said", "seen"),
        [
            (EVIL, EVIL),
            ("\u202egnp.exe", "‹U+202E›gnp.exe"),
            ("\ud800", "‹U+D800›"),
            ("a\x1b[2J", "a‹U+001B›[2J"),
        ],
    )
    def test_hostile_names_and_answers_are_text(self, said: str, seen: str):
        named = [f"{k % 10}{said}{k}" if k else f"0{said}" for k in range(30)]
        records = [replace(r, student=named.pop(0), flags=(said,)) for r in thirty()]
        answers = {record.student: f"{LONG}# {said}" for record in records}
        stubs = {"steady": STUB}
        shown = page_of(
            gathered(records, answers={"steady": answers}, stubs=stubs, waiting=(said,))
        )
        shown.encode()
        whole = BeautifulSoup(shown, "html.parser")
        assert {tag.name for tag in whole.find_all(True)} & {"script", "img"} == set()
        assert not [tag for tag in whole.find_all(True) for name in tag.attrs if name[:2] == "on"]
        assert whole.select_one(".heat tbody th bdi").get_text() == f"0{seen}"  # type: ignore[union-attr]
        assert f"# {seen}" in whole.select("pre")[0].get_text()

    def test_hints_and_time_are_what_the_notebooks_say(self, toy: Gathered):
        part = section(page_of(toy), "hints-and-time")
        assert "As the learners' notebooks say" in part.get_text()
        row = [cell.get_text() for cell in part.select("tbody tr")[0].find_all(["th", "td"])]
        assert row == ["steady", "2", "1", "1.0", "1", "15.5", "–"]
        assert "Nobody shared" in section(page_of(gathered(thirty())), "hints-and-time").get_text()

    def test_planned_minutes_stand_beside_those_that_were_shared(self):
        shared = {"softmax": {"ann": Effort(0, 3, False)}}
        whole = report_page.page(
            Gathered("03_attention", (), (), {}, {}, shared), analyse([]), [], "2026-01-02", "03"
        )
        minutes = chapters.exercise("03_attention/softmax").minutes
        assert section(whole, "hints-and-time").select("tbody td")[-1].get_text() == f"{minutes}"
        assert "<h1>03_attention: Scaled dot-product attention</h1>" in whole
        assert "Made 2026-01-02" in whole
        assert 'href="03.csv"' in whole

    def test_pairs_that_are_alike_in_several_exercises_come_first(self):
        both = {"ann": LONG, "bob": renamed(LONG)}
        answers = {"steady": both, "hard": both}
        found = gathered(thirty(), answers=answers, stubs=dict.fromkeys(answers, STUB))
        part = section(page_of(found), "near-identical-answers")
        (row,) = part.select("tbody tr")
        assert row.get_text("|").startswith("ann| and |bob|2|")
        assert [p.get_text() for p in part.select("pre")] == [
            LONG.strip(),
            renamed(LONG).strip(),
        ] * 2

    def test_in_short_says_what_matters_most(self, toy: Gathered):
        said = [point.get_text() for point in section(page_of(toy), "in-short").select("li")]
        assert said == [
            "Most points are lost in hard: 7.9 of 8 on average.",
            f"5 of the 30 who began steady show the same slip: {SLIP}.",
            "easy: too easy to tell learners apart.",
            "hard: too hard for most.",
            "1 submission stopped: see Stopped.",
            "1 submission flagged: see Flags.",
            "1 group of near-identical answers to look at.",
        ]

    def test_a_screen_reader_finds_its_way(self, toy: Gathered):
        whole = BeautifulSoup(page_of(toy), "html.parser")
        assert whole.html
        assert whole.html["lang"] == "en"
        levels = [int(h.name[1]) for h in whole.find_all(re.compile(r"h\d"))]
        assert levels.count(1) == 1
        assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
        places = {str(tag["id"]) for tag in whole.select("[id]")}
        assert {str(a["href"]) for a in whole.select("a[href^='#']")} <= {f"#{p}" for p in places}
        for table in whole.find_all("table"):
            assert table.caption
            assert table.caption.get_text()
            assert all(head.get("scope") == "col" for head in table.select("thead th"))
            for row in table.select("tbody tr"):
                assert isinstance(row.contents[0], Tag)
                assert row.contents[0].get("scope") == "row"
        for figure in whole.find_all("figure"):
            assert figure["role"] == "img"
            assert len(figure["aria-label"]) > 40
        for part in whole.select("[tabindex]"):
            assert (part["tabindex"], part["role"]) == ("0", "region")
            assert part["aria-label"]

    def test_heat_goes_from_dark_to_light(self):
        steps = [luminance(report_html.colour(k / 20)) for k in range(21)]
        assert steps == sorted(steps)
        assert report_html.colour(-1) == report_html.colour(0)

    def test_all_text_can_be_read_on_its_ground(self):
        for percent in range(101):
            assert contrast(report_html.colour(percent / 100), "#000000") >= 4.5, percent
        for ink, ground in (("#56606b", "#ffffff"), ("#0b5ea8", "#f3f5f7"), ("#4a535c", "#e9ecef")):
            assert ink in report_html.STYLE
            assert contrast(ink, ground) >= 4.5

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
                fold.focus()
                tab.keyboard.press("Enter")
            assert tab.locator("details:not([open])").count() == 0
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

    def test_an_assignment_without_submissions(self, tmp_path: Path):
        with pytest.raises(AttendError, match="nobody has handed in toy"):
            report.main("toy", course(tmp_path), None)

    def test_the_name_of_the_page(self, tmp_path: Path):
        folder = course(tmp_path)
        hand_in(folder, "ann")
        with pytest.raises(AttendError, match=r"\.html"):
            report.main("toy", folder, tmp_path / "toy.pdf")

    def test_what_is_not_graded_is_said(self, tmp_path: Path, capsys):
        folder = course(tmp_path)
        hand_in(folder, "ann")
        report.main("toy", folder, None)
        said = capsys.readouterr().out
        assert "0 students" in said
        assert "1 more are not graded" in said
        assert {p.name for p in (folder / "reports").iterdir()} == {
            "toy.html",
            "toy.csv",
            "toy.json",
        }


def course(directory: Path) -> Path:
    """A course directory with one released notebook that holds nothing."""
    folder = directory / "course"
    release = folder / "release" / "toy" / "toy.ipynb"
    release.parent.mkdir(parents=True)
    empty = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    release.write_text(json.dumps(empty))
    (folder / "nbgrader_config.py").write_text("c = get_config()\n")
    return folder


def hand_in(course: Path, student: str) -> None:
    """Hand in the release as it is."""
    handed = course / "submitted" / student / "toy" / "toy.ipynb"
    handed.parent.mkdir(parents=True)
    shutil.copy(course / "release" / "toy" / "toy.ipynb", handed)


def section(whole: str, anchor: str) -> Tag:
    """The section under one heading."""
    found = BeautifulSoup(whole, "html.parser").select_one(f"section[aria-labelledby={anchor}]")
    assert found is not None
    return found


def contrast(first: str, second: str) -> float:
    """WCAG 2.2's contrast ratio."""
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
