"""Cards: what a check found, as text and as HTML."""

from __future__ import annotations

from typing import Any

from attend_grader.judging.report import CALLED, Finding, Report, empty_report

HOSTILE = '<script>alert("x")</script>'


def _report(**changes: Any) -> Report:
    findings = (
        Finding("sums to 1", 2, 2),
        Finding("huge", 1, 0, "wrong value", (("got", "[nan]"),)),
        Finding("inf", 1, 0, "wrong value too", (("got", "[inf]\n[1]"),)),
    )
    given: dict[str, Any] = {
        "exercise_id": "03_attention/softmax",
        "findings": findings,
        "status": "partial",
        "diagnosis": "ignored the axis",
        "explanation": "Pass it on.",
        **changes,
    }
    return Report(**given)


def test_the_repr_of_a_report_is_its_score_alone() -> None:
    assert repr(_report()) == "2"
    assert repr(Report(None, (), "invalid")) == "0"
    assert float(repr(_report())) == _report().score


def test_the_text_card_says_it_all() -> None:
    text = str(_report(fix_first=("softmax",), printed="hello\n", status="partial"))
    for part in (
        "softmax: 2 of 4 points",
        "Looks like: ignored the axis. Pass it on.",
        "✓ 2/2  sums to 1",
        "✗ 0/1  huge",
        "wrong value too",
        "got: [nan]\n",
        "Your function printed: hello",
    ):
        assert part in text
    assert "[inf]" not in text, "arrays are shown at the first miss only"


def test_a_terminal_does_not_act_on_what_a_candidate_said() -> None:
    said = "\x1b]52;c;cm0=\x07 \x1b[2J \x9b2J gone"
    missed = Finding("sums to 1", 2, 0, said, (("your line", f"{said}\nnext"),))
    text = str(_report(findings=(missed,), note=said, printed=said))
    assert "gone" in text
    assert not any(not letter.isprintable() for letter in text if letter != "\n")


def test_cards_keep_what_is_short_at_every_miss() -> None:
    evidence = (("called with", "f(1)"), ("your line", "y = a @ b"), ("try", "a.T"))
    findings = (Finding("one", 1, 0, "wrong"), Finding("two", 1, 0, "raised", evidence))
    report = _report(findings=findings)
    text, html = str(report), report._repr_html_()
    assert "your line: y = a @ b" in text
    assert "try: a.T" in text
    assert "called with" not in text
    assert html.index("a.T") < html.index("<details>") < html.index("f(1)")


def test_the_html_card_escapes_whatever_came_from_the_candidate() -> None:
    finding = Finding(HOSTILE, 1, 0, HOSTILE, ((HOSTILE, HOSTILE),))
    report = _report(
        exercise_id=f"x/{HOSTILE}",
        findings=(finding,),
        note=HOSTILE,
        diagnosis=HOSTILE,
        explanation=HOSTILE,
        fix_first=(HOSTILE,),
        printed=HOSTILE,
    )
    html = report._repr_html_()
    assert "<script" not in html
    assert html.count("&lt;script&gt;") >= 8


def test_the_html_card_folds_all_evidence_but_that_of_the_first_miss() -> None:
    html = _report()._repr_html_()
    assert html.index("[nan]") < html.index("<details>") < html.index("[inf]")
    assert html.count("<details>") == 1


def test_a_full_line_is_broken_between_words() -> None:
    evidence = _report()._repr_html_().split("<pre")[1:]
    assert evidence
    for pre in evidence:
        assert "word-break:normal;overflow-wrap:anywhere" in pre


def test_a_card_of_something_not_started_lists_no_misses() -> None:
    report = empty_report("03_attention/softmax", [("a", 2), ("b", 1)], "not started", "Write it.")
    assert (report.score, report.max_score) == (0, 3)
    assert "✗" not in str(report)
    assert "Write it." in str(report)
    assert "not started" in report._repr_html_()


def test_what_learners_see_of_a_grading_shows_no_inputs() -> None:
    evidence = ((CALLED, "softmax(np.array([1.0]))"), ("got", "[nan]"), ("your line", "y = x"))
    findings = (Finding("huge", 1, 0, "wrong value", evidence),)
    report = _report(findings=findings, printed="[1.0]\n")
    kept = report.without_inputs()
    assert "np.array([1.0])" in str(report)
    assert "[1.0]" not in f"{kept}{kept._repr_html_()}"
    assert all(text in str(kept) for text in ("[nan]", "y = x", "wrong value", "ignored the axis"))
    assert (kept.score, kept.status, kept.seed) == (report.score, report.status, report.seed)


def test_rows_of_which_the_same_is_said_are_one_and_what_passed_is_one() -> None:
    findings = (
        Finding("one", 1, 1),
        Finding("two", 1, 0, "wrong", (("got", "[1]"),)),
        Finding("three", 2, 0, "the same as above"),
        Finding("four", 1, 0, "the same as above"),
        Finding("five", 2, 2),
    )
    report = _report(findings=findings)
    text = str(report)
    assert "✗ 0/3  three · four\n         the same as above" in text
    assert "✓ 3/3  one · five" in text
    assert report._repr_html_().count("<li>") == 3


def test_a_long_card_says_its_verdict_at_the_end_too() -> None:
    findings = [Finding(f"property {n}", 1, 0, f"wrong {n}") for n in range(4)]
    report = _report(findings=tuple(findings))
    first, *_, last = str(report).splitlines()
    assert first == last
    assert report._repr_html_().count("0 of 4 points") == 2
    assert _report()._repr_html_().count("of 4 points") == 1


def test_a_symptom_stands_above_the_rows() -> None:
    report = _report(diagnosis=None, symptom="Twice <the> right one.")
    assert str(report).splitlines()[1] == "  Twice <the> right one."
    assert "Twice &lt;the&gt; right one." in report._repr_html_()
    assert "Twice" not in str(_report(symptom="Twice the right one."))
