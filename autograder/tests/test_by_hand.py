"""Scores by hand and exercises graded anew: kept, with a note and who did it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attend_grader.gradebook import by_hand
from attend_grader.gradebook.directory import Course

from .command import attend, grade, graded, here, refused, root
from .toy_class import CHAPTER, SCORES, SOFTMAX, hand_in, notebook

__all__ = ["graded", "here", "root"]  # fixtures


def cell(root: Path, student: str, exercise: str) -> Any:
    """(score, manual score, needs a look, comment) of an exercise, as the gradebook has them."""
    with Course.open(root).gradebook() as gradebook:
        book: Any = gradebook.find_submission_notebook(CHAPTER, CHAPTER, student)
        found = next(g for g in book.grades if g.name == f"check-{exercise}")
        said = next(c.comment for c in book.comments if c.name == exercise)
        return found.score, found.manual_score, bool(found.needs_manual_grade), said


def regrade(root: Path, *words: str) -> Any:
    return attend("regrade", *words, "--course", root)


def test_a_score_by_hand_survives_grading_anew_with_its_note(root: Path) -> None:
    before = cell(root, "bob", "softmax")[0]
    said = regrade(root, "bob", "softmax", "--score", "7.5", "--note", "right idea", "--by", "Dr Q")
    assert said.code == 0, said
    assert f"softmax: 7.5 of 8 (given by hand; before, {before:g}), by Dr Q on" in said.out
    note = "Score by hand (Dr Q): 7.5 of 8. right idea"
    assert cell(root, "bob", "softmax") == (7.5, 7.5, False, note)
    hand_in(root, "bob", notebook(SOFTMAX, SCORES + "\n# again\n"))
    assert grade(root, "--workers", "1").code == 3  # others' problems
    score, manual, _, comment = cell(root, "bob", "softmax")
    assert (score, manual, comment) == (7.5, 7.5, note)
    (entry,) = by_hand.in_force(Course.open(root), CHAPTER).values()
    assert (entry.student, entry.score, entry.by, entry.note) == ("bob", 7.5, "Dr Q", "right idea")


def test_it_can_be_changed_and_taken_back_and_every_step_is_kept(root: Path) -> None:
    earned = cell(root, "bob", "softmax")[0]
    for words in (("--score", "1"), ("--score", "2"), ("--withdraw",)):
        assert regrade(root, "bob", f"{CHAPTER}/softmax", *words, "--note", "n").code == 0
    assert cell(root, "bob", "softmax") == (earned, None, False, None)
    kept = by_hand.entries(Course.open(root), CHAPTER)
    assert [(e.before, e.score) for e in kept] == [(earned, 1.0), (1.0, 2.0), (2.0, earned)]
    assert by_hand.in_force(Course.open(root), CHAPTER) == {}


def test_a_comment_of_formgraders_stays_beside_the_note(root: Path) -> None:
    with Course.open(root).gradebook() as gradebook:
        book: Any = gradebook.find_submission_notebook(CHAPTER, CHAPTER, "bob")
        next(c for c in book.comments if c.name == "softmax").manual_comment = "see me"
        gradebook.db.commit()
    regrade(root, "bob", "softmax", "--score", "3", "--note", "x", "--by", "q")
    assert cell(root, "bob", "softmax")[3] == "see me\nScore by hand (q): 3 of 8. x"
    regrade(root, "bob", "softmax", "--withdraw", "--note", "y", "--by", "q")
    assert cell(root, "bob", "softmax")[3] == "see me"


def test_without_a_score_the_check_decides_anew_and_the_note_is_kept(root: Path) -> None:
    said = regrade(root, "bob", "softmax", "--note", "asked in class", "--by", "q")
    assert said.code == 0, said
    assert "softmax: " in said.out
    (entry,) = by_hand.entries(Course.open(root), CHAPTER)
    assert (entry.action, entry.note) == ("graded anew", "asked in class")
    assert entry.before == entry.score


def test_feedback_on_the_earlier_score_goes(root: Path) -> None:
    folder = Course.open(root).feedback("bob", CHAPTER)
    folder.mkdir(parents=True)
    regrade(root, "bob", "softmax", "--score", "3", "--note", "x")
    assert not folder.exists()


def test_what_cannot_be_is_one_sentence(root: Path) -> None:
    def said(*words: str, code: int) -> str:
        return refused(regrade(root, *words), code)

    note = ("--note", "x")
    assert "softmax gives 0 to 8 points, got 9." in said(
        "bob", "softmax", "--score", "9", *note, code=1
    )
    assert "no graded submission" in said("nobody", "softmax", *note, code=2)
    assert "it has: softmax, attention_scores" in said("bob", f"{CHAPTER}/nothing", *note, code=2)
    assert "--assignment" in said("bob", "nothing", *note, code=2)
    assert "exclude" in said("bob", "softmax", "--score", "1", "--withdraw", *note, code=2)
    assert "--note: say why" in said("bob", "softmax", "--note", " ", code=2)
    assert by_hand.entries(Course.open(root), CHAPTER) == []
