"""The progress table: what it counts, and how it looks in a notebook and a terminal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from attend import progress
from attend_grader import exercises
from attend_grader import progress as store

SOFTMAX = "03_attention/softmax"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty progress file of its own."""
    (tmp_path / ".attend").mkdir()
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("kept")
def test_a_fresh_learner_sees_every_exercise_not_started():
    shown = progress.show()
    assert [row.name for row in shown.rows] == [exercise.name for exercise in exercises()]
    assert {row.state for row in shown.rows} == {"not started"}
    assert shown.summary.startswith(f"0 of {len(shown.rows)} exercises done, 0 of ")


@pytest.mark.usefixtures("kept")
def test_scores_hints_and_solutions_show():
    points = next(exercise.points for exercise in exercises() if exercise.id == SOFTMAX)
    store.record(SOFTMAX, score=2, max_score=points, hints=1)
    store.record("03_attention/attention_scores", score=0, max_score=4, solution_shown=True)
    text = repr(progress.show())
    assert "begun (1 hint)" in text
    assert "begun (solution seen)" in text
    html = progress.show()._repr_html_()
    assert f'<progress max="{points}" value="2"' in html
    assert f"2 / {points}" in html


@pytest.mark.usefixtures("kept")
def test_full_marks_are_done():
    points = next(exercise.points for exercise in exercises() if exercise.id == SOFTMAX)
    store.record(SOFTMAX, score=points, max_score=points)
    assert progress.show().summary.startswith("1 of ")


@pytest.mark.usefixtures("kept")
def test_a_chapter_has_one_line_with_a_bar_and_a_link():
    shown = progress.show()
    assert shown.to_continue is None
    assert "Continue" not in shown._repr_html_()
    store.record(SOFTMAX, score=1, max_score=5)
    shown = progress.show()
    assert shown.parts["03_attention"].bar == "▰▱▱▱▱"  # a point is never no bar
    assert shown.parts["01_recurrence"].bar == "▱▱▱▱▱"
    html = shown._repr_html_()
    assert html.count("<summary>") == len(shown.parts)
    assert '<a href="03_attention.ipynb">03 · Scaled dot-product attention</a>' in html
    assert "next is <code>softmax</code>" in html
    assert "03_attention: 0 of 7 exercises done" in repr(shown)
    assert "rnn_step" not in repr(shown)  # exercises are listed where a chapter was begun


@pytest.mark.usefixtures("kept")
def test_one_continues_with_the_chapter_that_was_saved_last():
    for number, chapter in enumerate(("03_attention", "01_recurrence", "02_alignment")):
        path = Path(f"{chapter}.ipynb")
        path.write_text("")
        os.utime(path, (100 - number, 100 - number))
    for exercise in exercises()[:1]:
        store.record(exercise.id, score=0, max_score=exercise.points)
    part = progress.show().to_continue
    assert part is not None
    assert part.id == "01_recurrence"  # 03 is newer, and nothing was checked there
    store.record(SOFTMAX, score=0, max_score=5)
    part = progress.show().to_continue
    assert part is not None
    assert part.id == "03_attention"
