"""The page of a report: what it says, that it is safe, and that everybody can read it."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from attend import report
from attend.report import charts, wording
from attend.report import page as report_page
from attend_grader import chapters
from attend_grader.gradebook.gather import Gathered
from attend_grader.grading.analysis import analyse
from attend_grader.sharing import Effort
from bs4 import BeautifulSoup, Tag
from playwright.sync_api import sync_playwright

from .browser import CHROMIUM, SCREENSHOTS
from .toy_class import (
    EVIL,
    LONG,
    SLIP,
    STUB,
    gathered,
    page_of,
    record,
    renamed,
    section,
    thirty,
    ungraded,
    verdict,
)


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


SCRIPT = Path(report_page.__file__).with_name("templates").joinpath("page.js").read_text().strip()


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

    def test_it_says_which_scores_these_are(self, toy: Gathered):
        assert "before manual scores and late penalties" in page_of(toy)

    def test_nothing_of_a_students_is_markup(self, toy: Gathered):
        text = page_of(toy)
        assert EVIL not in text
        assert text.count("<script") == 1, "the page's own"
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
        assert [tag.get_text() for tag in whole.find_all(["script", "img"])] == [SCRIPT]
        assert not [tag for tag in whole.find_all(True) for name in tag.attrs if name[:2] == "on"]
        assert whole.select_one(".heat tbody th").get_text() == f"0{seen}"  # type: ignore[union-attr]
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
        assert [cell.get_text() for cell in row.find_all(["th", "td"])][:2] == ["ann and bob", "2"]
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

    def test_a_charts_ticks_are_round_numbers(self):
        steps = [charts._round_step(most / 5) for most in (1, 5, 6, 13, 30, 51, 795, 2_000, 5_001)]
        assert steps == [1, 1, 2, 5, 10, 20, 200, 500, 2_000]

    def test_heat_goes_from_dark_to_light(self):
        steps = [luminance(wording.colour(k / 20)) for k in range(21)]
        assert steps == sorted(steps)
        assert wording.colour(-1) == wording.colour(0)

    def test_all_text_can_be_read_on_its_ground(self):
        style = Path(report_page.__file__).with_name("templates").joinpath("style.css").read_text()
        for percent in range(101):
            assert contrast(wording.colour(percent / 100), "#000000") >= 4.5, percent
        for ink, ground in (("#56606b", "#ffffff"), ("#0b5ea8", "#f3f5f7"), ("#4a535c", "#e9ecef")):
            assert ink in style
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
            assert tab.locator("script").count() == 1
            assert tab.locator("svg").count() == 2
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            tab.screenshot(path=SCREENSHOTS / f"report-{width}.png", full_page=True)
            browser.close()
        assert asked == [path.as_uri()]
        assert said == []


@pytest.fixture(scope="module")
def large() -> str:
    """The page of a class of 2,000, in which everybody was flagged and each slip is seen."""
    records, class_ = [], thirty()
    for number in range(2_000):
        one = class_[number % 30]
        if number % 50 == 0:
            points = {"easy": 4, "steady": 10, "hard": 8}
            one = record("", *(verdict(n, 0, p, status="not started") for n, p in points.items()))
        flags = ("`check-easy` was deleted; it was put back.",)
        records.append(replace(one, student=f"student-{number:04}", flags=flags))
    answers = {r.student: f"{LONG}\nx{n} = {n}\n" for n, r in enumerate(records[:300])}
    found = gathered(records, answers={"steady": answers}, stubs={"steady": STUB})
    links = ("../feedback/STUDENT/index.html", "../autograded/STUDENT/toy/toy.ipynb")
    alike = report.near_identical(found)
    return report_page.page(found, analyse(found.records), alike, links=links)


class TestLarge:
    def test_a_class_of_2000_is_one_small_page(self, large: str):
        assert len(large.encode()) <= 400_000
        whole = BeautifulSoup(large, "html.parser")
        assert len(whole.select(".heat tbody tr")) == 2_000
        for heading in ("outliers", "flags"):
            assert section(large, heading).select("details"), "long lists are folded"
        assert "more are in the JSON file" in section(large, "flags").get_text()

    def test_the_only_script_that_may_run_is_the_pages_own(self, large: str):
        whole = BeautifulSoup(large, "html.parser")
        (policy,) = whole.select("meta[http-equiv=Content-Security-Policy]")
        digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
        assert str(policy["content"]).split("; ") == [
            "default-src 'none'",
            "style-src 'unsafe-inline'",
            f"script-src 'sha256-{digest}'",
        ]
        for never in ("innerHTML", "eval(", "insertAdjacentHTML", "document.write", "fetch("):
            assert never not in SCRIPT

    @pytest.mark.browser
    def test_it_sorts_searches_and_links(self, large: str, tmp_path: Path):
        chromium = shutil.which("chromium")
        if chromium is None:
            pytest.skip("chromium is not installed: apt install chromium")
        path = tmp_path / "large.html"
        path.write_text(large, encoding="utf-8")
        said: list[str] = []
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=list(CHROMIUM))
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            tab.on("console", lambda message: said.append(message.text))
            tab.on("pageerror", lambda error: said.append(str(error)))
            tab.goto(path.as_uri())
            rows = tab.locator(".heat tbody tr")
            total = tab.locator(".heat thead th").last
            total.locator("button").click()
            assert total.get_attribute("aria-sort") == "descending"
            assert rows.first.locator("td").last.inner_text() == "15"
            total.locator("button").click()
            assert total.get_attribute("aria-sort") == "ascending"
            assert rows.first.locator("td").last.inner_text() == "0"
            tab.get_by_label("Find a student").fill("STUDENT-1999")
            assert tab.locator(".heat tbody tr:visible").count() == 1
            assert tab.locator("output").inner_text().strip() == "1 of 2000"
            shown = tab.locator(".heat tbody tr:visible th a")
            assert [shown.nth(n).get_attribute("href") for n in (0, 1)] == [
                "../feedback/student-1999/index.html",
                "../autograded/student-1999/toy/toy.ipynb",
            ]
            tab.get_by_label("Find a student").fill("")
            blank = tab.evaluate(
                "document.documentElement.scrollHeight - scrollY"
                " - document.querySelector('main').getBoundingClientRect().bottom"
            )
            assert 0 <= blank <= 100, "nothing but a margin follows the page's end"
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            tab.screenshot(path=SCREENSHOTS / "report-2000.png")
            browser.close()
        assert said == []

    def test_an_id_that_a_page_cannot_show_still_has_its_links(self):
        records = [replace(thirty()[0], student="a\u202eb")]
        found = gathered(records)
        whole = report_page.page(found, analyse(found.records), [], links=("../f/STUDENT", ""))
        (head,) = BeautifulSoup(whole, "html.parser").select(".heat tbody th")
        assert head.get_text() == "a‹U+202E›b"
        assert head["data-id"] == "a%E2%80%AEb"


def contrast(first: str, second: str) -> float:
    """WCAG 2.2's contrast ratio."""
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
