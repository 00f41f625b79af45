"""What learners call in a notebook: check, hint, solution, ready; names that are not right."""

import builtins
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attend_grader import cells, chapters, check, grade, hint, progress, ready, session, solution
from attend_grader.session import NOTEBOOK_SEED
from attend_solutions.attention import attention_scores, softmax

ID = "03_attention/softmax"


def _stub(define: Any, name: str = "softmax", body: str = "raise NotImplementedError()") -> Any:
    parameters = "scores, axis=-1" if "softmax" in name else "q, k, scaled=True"
    return define(f"def {name}({parameters}):\n    {body}\n", name)


def test_check_finds_the_exercise_by_name_and_remembers_the_best_score(define: Any) -> None:
    report = check(softmax)
    assert report.exercise_id == ID
    assert report.status == "passed"
    assert report.seed == NOTEBOOK_SEED
    assert repr(report) == str(chapters.exercise(ID).points)
    best = {"score": report.score, "max_score": report.max_score}
    assert progress.of(ID) == best
    assert check(_stub(define, body="return scores")).score == 0
    assert progress.of(ID) == best


def test_a_stub_leaves_no_trace_in_progress(define: Any) -> None:
    assert check(_stub(define)).status == "not started"
    assert progress.of(ID) == {}


def test_check_takes_a_name_from_the_callers_cell(define: Any) -> None:
    cell = "def softmax(scores, axis=-1):\n    return scores * 0\n\nreport = check('softmax')\n"
    assert define(cell, "report", check=check).status == "failed"


def test_a_name_that_is_not_defined_is_told_with_a_guess(define: Any) -> None:
    report = define("report = check('softmax')\n", "report", check=check)
    assert report.status == "invalid"
    assert report.note.startswith("softmax is not defined. Run the cell that defines it")
    cell = "def softmaks(scores, axis=-1):\n    return scores\n\nreport = check('softmax')\n"
    assert "You defined softmaks: is that it?" in define(cell, "report", check=check).note


NOT_FUNCTIONS = [None, 3.0, np.ones(3), [softmax]]


@pytest.mark.parametrize("candidate", NOT_FUNCTIONS, ids=["none", "number", "array", "list"])
def test_what_is_no_function_is_told(candidate: Any) -> None:
    report = check(candidate)
    assert report.status == "invalid"
    assert report.note.startswith("expected your function, as in check(softmax), but got a value")


def test_a_wrong_name_is_told_with_the_nearest_exercise(define: Any) -> None:
    report = check(_stub(define, "softmaxx", "return scores"))
    assert report.note == (
        "no exercise is called 'softmaxx'. Did you mean softmax? Rename your function to that."
    )
    assert check(_stub(define, "zzz_softmax_qqqqqqqqqqqqqq", "return 1")).note.endswith("'.")
    assert "define your function with def" in check(lambda scores: scores).note


def test_a_name_that_several_chapters_use_must_be_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(chapters.INDEX, "99_other", {"softmax": 1})
    report = check(softmax)
    assert report.status == "invalid"
    assert "name one of 03_attention/softmax, 99_other/softmax" in report.note
    assert check(softmax, ID).status == "passed"


def test_an_unknown_exercise_is_an_error_that_lists_those_there_are() -> None:
    with pytest.raises(KeyError, match="03_attention"):
        grade(softmax, "98_nothing/softmax")
    with pytest.raises(KeyError, match="attention_scores"):
        grade(softmax, "03_attention/soft")


def test_grading_draws_fresh_inputs_and_records_the_seed(
    define: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert grade(softmax, ID, seed=11).seed == 11
    seeds = {grade(softmax, ID).seed for _ in range(3)}
    assert len(seeds) == 3
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert check(softmax).seed != NOTEBOOK_SEED
    assert progress.of(ID) == {}, "a submission's score is nobody's progress"


def test_grading_leaves_no_progress() -> None:
    grade(softmax, ID)
    assert progress.of(ID) == {}


def test_hints_come_one_after_another_and_persist(
    attend_home: Path, capsys: pytest.CaptureFixture
) -> None:
    hints = chapters.exercise(ID).hints
    each = [f"Hint {number} of 3: {text}\n" for number, text in enumerate(hints, 1)]
    for call, candidate in enumerate((softmax, "softmax", softmax, softmax)):
        hint(candidate)
        assert capsys.readouterr().out == (each[call] if call < 3 else "".join(each))
        taken = min(call + 1, 3)
        saved = json.loads((attend_home / ".attend" / "progress.json").read_text())
        assert saved["exercises"][ID] == {"hints": taken}


def test_a_hint_for_nothing_known_says_so(capsys: pytest.CaptureFixture) -> None:
    hint("softmux")
    assert "Did you mean softmax?" in capsys.readouterr().out
    hint(3)
    assert "expected your function" in capsys.readouterr().out


@pytest.mark.parametrize("answer", ["", "n", "No", "maybe"])
def test_a_solution_is_shown_only_after_a_yes(
    answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    asked = []
    monkeypatch.setattr(builtins, "input", lambda prompt: asked.append(prompt) or answer)
    solution("softmax")
    assert "Show the solution of softmax?" in asked[0]
    assert capsys.readouterr().out == "Not shown.\n"
    assert progress.of(ID) == {}


def test_a_solution_shown_is_remembered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(builtins, "input", lambda prompt: " Yes ")
    solution(softmax)
    assert capsys.readouterr().out.startswith("def softmax(")
    assert progress.of(ID) == {"solution_shown": True}


def test_where_nobody_can_be_asked_nothing_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def nobody(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr(builtins, "input", nobody)
    solution("softmax")
    assert capsys.readouterr().out == "The solution is shown only where you can be asked first.\n"
    assert progress.of(ID) == {}


def test_a_cell_is_ready_when_its_functions_can_be_called(
    define: Any, capsys: pytest.CaptureFixture
) -> None:
    assert ready(softmax, attention_scores)
    assert ready(_stub(define, body="return scores * 0.0"))
    assert capsys.readouterr().out == ""


def test_a_cell_that_is_not_ready_says_which_exercises_it_waits_for(
    define: Any, capsys: pytest.CaptureFixture
) -> None:
    crashing = _stub(define, "attention_scores", "return q.nothing")
    assert not ready(_stub(define), crashing)
    assert capsys.readouterr().out == (
        "This cell waits for: softmax (is not started), attention_scores (raises AttributeError). "
        "Solve it above, then run this again.\n"
    )


def test_what_was_checked_and_is_wrong_is_not_to_be_trusted(
    define: Any, capsys: pytest.CaptureFixture
) -> None:
    wrong, unchecked = (_stub(define, body="return scores * 0.0") for _ in range(2))
    best = check(softmax).score
    assert check(wrong).score == 0 < best
    assert ready(wrong, attention_scores)
    said = f"Not right yet: softmax (0 of {best} points). Do not trust what this cell shows.\n"
    assert capsys.readouterr().out == said
    crashing = _stub(define, "attention_scores", "return q.nothing")
    assert not ready(wrong, crashing)
    assert "Not right yet" not in capsys.readouterr().out
    assert ready(unchecked)  # written anew since: nobody knows
    check(softmax)
    assert ready(softmax)
    assert capsys.readouterr().out == ""


def test_a_name_of_two_chapters_is_meant_as_checked_or_as_its_neighbours(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from attend_solutions.multi_head import repaired_attention, split_heads
    from attend_solutions.self_attention import repaired_attention as other

    monkeypatch.setattr(session, "_checked", {})
    assert ready(split_heads, repaired_attention)
    assert ready(other)
    assert not ready(repaired_attention)  # nothing says which: the first
    check(repaired_attention, "05_multi_head/repaired_attention")
    assert ready(repaired_attention)
    capsys.readouterr()
    hint(repaired_attention)
    assert "name one of" in capsys.readouterr().out
    hint("05_multi_head/repaired_attention")
    assert capsys.readouterr().out.startswith("Hint 1 of 3: Number the tokens")


def test_ready_takes_exercises_only() -> None:
    with pytest.raises(ValueError, match="takes exercises' functions"):
        ready(np.exp)


def test_a_missing_function_in_a_cell_shows_a_card_and_stays_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    from attend_grader.session import explain_missing_names
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell(config=config)
    explain_missing_names(shell)
    result = shell.run_cell("softmax([1.0])")
    assert isinstance(result.error_in_exec, NameError)
    shown = capsys.readouterr().out
    assert "softmax is not defined. Run the cell that defines it" in shown
    assert shown.startswith("! softmax ("), (
        "the card is headed by the function, whatever was called"
    )
    assert isinstance(shell.run_cell("something_else").error_in_exec, NameError)
    assert "Run the cell that defines it" not in capsys.readouterr().out


WRITTEN = "def softmax(scores, axis=-1):\n    return scores\n"
RAN = {
    "as it was written": ([("a", WRITTEN)], ""),
    "not in a cell that is known": ([("a", "x = 1\n")], ""),
    "an error in the last version": (
        [("a", WRITTEN), ("a", "def softmax(scores, axis=-1)\n    return scores\n")],
        "could not be read (SyntaxError in line 1: expected ':'). So softmax is still",
    ),
    "an error that was corrected": (
        [("a", "def softmax(scores, axis=-1)\n"), ("a", WRITTEN)],
        "",
    ),
    "another name in the same cell": (
        [("a", WRITTEN), ("b", "x = 1\n"), ("a", WRITTEN.replace("softmax", "soft"))],
        "does so no longer. It defines soft: is that a new name for it?",
    ),
    "another name in another cell": (
        [("a", WRITTEN), ("b", WRITTEN.replace("softmax", "soft"))],
        "",
    ),
    "cells without ids": ([(None, WRITTEN), (None, "x = 1\n")], ""),
}


@pytest.mark.parametrize(("ran", "told"), RAN.values(), ids=RAN)
def test_a_check_judges_what_the_learner_sees(
    ran: list[tuple[str | None, str]], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "_runs", ran)
    report = check(softmax)
    assert (told in report.note) if told else (report.status == "passed")
    assert report.status == ("invalid" if told else "passed")


def test_cells_are_noted_with_their_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setattr(cells, "_runs", [])
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell(config=config)
    cells.watch(shell)
    shell.run_cell(WRITTEN, cell_id="one")
    shell.run_cell("def softmax(:\n", cell_id="one")
    capsys.readouterr()
    assert [cell for cell, _ in cells._runs][-2:] == ["one", "one"]
    assert "could not be read" in cells.outdated("softmax")


def test_a_check_or_hint_of_nothing_says_how_it_is_written(
    capsys: pytest.CaptureFixture,
) -> None:
    assert check().note == "say what to check, as in check(softmax)."
    hint()
    assert capsys.readouterr().out == "Say for what, as in hint(softmax).\n"


def test_a_loop_that_never_ends_is_stopped_with_a_card(
    define: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LIMIT", 0.2)
    source = "def softmax(scores, axis=-1):\n    while True:\n        pass\n"
    report = check(define(source, "softmax"))
    assert report.status == "timeout"
    assert report.note == "Stopped after 0.2 seconds: is there a loop that never ends?"
    monkeypatch.undo()
    assert check(softmax).status == "passed"


DOUBLE = """
import torch
torch.set_default_dtype(torch.float64)
from attend_grader import chapters, check
lost = []
for exercise in chapters.chapter("05_multi_head").exercises:
    report = check(exercise.reference, exercise.id)
    if report.score != report.max_score:
        lost.append(str(report))
assert torch.get_default_dtype() == torch.float64, "the notebook's own setting stays"
print(lost)
"""


def test_a_notebook_with_another_default_dtype_is_checked_as_any_other(attend_home: Path) -> None:
    """In a process of its own: modules of checks are imported after it was set."""
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", DOUBLE], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
