"""The progress table: what it counts, and how it looks in a notebook and a terminal."""

from __future__ import annotations

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
