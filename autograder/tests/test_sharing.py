"""Sharing hints and time: on request, in the notebook, and read without trusting it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from attend_grader import chapters, progress, share
from attend_grader.grading.reach import reached
from attend_grader.sharing import MEDIA_TYPE, MOST_HINTS, MOST_MINUTES, Effort, read
from IPython.core.formatters import DisplayFormatter
from nbformat.v4 import new_code_cell, new_notebook

CHAPTER = "03_attention"
FINE = {"hints": 2, "minutes": 7, "solution_shown": False}


def notebook(*shared: Any) -> bytes:
    """One that was saved with these outputs."""
    outputs = [{"output_type": "execute_result", "data": {MEDIA_TYPE: form}} for form in shared]
    cells = [{"cell_type": "code", "source": "share()", "outputs": outputs, "metadata": {}}]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def saying(**exercises: Any) -> bytes:
    return notebook({"chapter": CHAPTER, "exercises": exercises})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``clock.now`` is what time it is; the kernel started at 1,000 s."""

    class Clock:
        now = 1_000.0

    monkeypatch.setattr(progress.time, "time", lambda: Clock.now)
    monkeypatch.setattr(progress, "_begun", Clock.now)
    return Clock


def test_time_is_what_lies_between_records_without_pauses(clock: Any) -> None:
    for now, name in ((1_120, "softmax"), (1_300, "attention_scores"), (1_330, "softmax")):
        clock.now = now
        progress.record(f"{CHAPTER}/{name}", score=1)
    clock.now += progress.PAUSE + 1
    progress.record(f"{CHAPTER}/softmax", score=2)
    clock.now -= 10  # somebody set the clock back
    progress.record(f"{CHAPTER}/softmax", score=3)
    assert progress.seconds(f"{CHAPTER}/softmax") == 150
    assert progress.seconds(f"{CHAPTER}/attention_scores") == 180
    assert progress.seconds(f"{CHAPTER}/score_variance") == 0


def test_what_is_shared_is_said_and_comes_back_as_it_was(clock: Any) -> None:
    clock.now += 240
    progress.record(f"{CHAPTER}/softmax", score=3, hints=1)
    progress.record(f"{CHAPTER}/score_variance", solution_shown=True)
    progress.record("04_self_attention/causal_mask", hints=3)
    formed: Any = DisplayFormatter().format(share(CHAPTER))
    data = formed[0]
    assert "softmax         1 hint, about 4 min" in data["text/plain"]
    assert "score_variance  no hints, about 0 min, solution seen" in data["text/plain"]
    assert "clear the output" in data["text/plain"]
    assert "causal_mask" not in json.dumps(data)
    shared = read(notebook(json.loads(json.dumps(data[MEDIA_TYPE]))), CHAPTER)
    assert shared == {"softmax": Effort(1, 4, False), "score_variance": Effort(0, 0, True)}


def test_nothing_done_is_nothing_shared() -> None:
    nothing = share(CHAPTER)
    assert repr(nothing).startswith("Nothing to share")
    assert MEDIA_TYPE not in nothing._repr_mimebundle_()
    with pytest.raises(ValueError, match="no chapter is called 'three'"):
        share("three")


def test_the_last_output_counts_and_only_this_chapters() -> None:
    forms = [{"chapter": c, "exercises": {"softmax": FINE | {"hints": n}}} for c, n in SHARED]
    assert read(notebook(*forms), CHAPTER) == {"softmax": Effort(1, 7, False)}
    assert read(b"", CHAPTER) == {}
    assert read(notebook(), CHAPTER) == {}


SHARED = ((CHAPTER, 3), (CHAPTER, 1), ("04_self_attention", 2))
ODD: dict[str, Any] = {
    "negative": FINE | {"hints": -1},
    "too many": FINE | {"hints": MOST_HINTS + 1},
    "too long": FINE | {"minutes": MOST_MINUTES + 1},
    "no number": FINE | {"minutes": "<script>"},
    "a float": FINE | {"minutes": float("inf")},
    "not said": {"hints": 1},
    "no object": [1, 2],
}


@pytest.mark.parametrize("form", ODD.values(), ids=ODD)
def test_what_share_does_not_write_is_passed_over(form: Any) -> None:
    shared = read(saying(softmax=form, attention_scores=FINE, unknown=FINE), CHAPTER)
    assert shared == {"attention_scores": Effort(2, 7, False)}


@pytest.mark.parametrize(
    "content",
    [
        MEDIA_TYPE.encode(),
        b'{"cells": 3, "%s": 1}' % MEDIA_TYPE.encode(),
        b'{"cells": [3, {"outputs": 1}, {"outputs": [1, {"data": 2}, {"data": {"%s": 3}}]}]}'
        % MEDIA_TYPE.encode(),
        notebook({"chapter": [], "exercises": {}}, {"chapter": CHAPTER, "exercises": [1]}),
        b"[" * 100_000 + MEDIA_TYPE.encode(),
    ],
)
def test_odd_notebooks_say_nothing(content: bytes) -> None:
    assert read(content, CHAPTER) == {}


def test_a_cell_that_shares_is_no_reason_for_a_flag() -> None:
    sharing = new_code_cell('from attend_grader import share; share("03_attention")  # for Ann')
    assert reached(new_notebook(cells=[sharing])) == []
    reaching = new_code_cell("from attend_grader import share, executor; executor")
    assert reached(new_notebook(cells=[reaching])) != []


@pytest.mark.parametrize(
    ("source", "flags"),
    [
        ("def softmax(x):\n    return eval('scipy.special.softmax')(x)", 1),
        ("softmax = __import__('scipy.special').special.softmax", 1),
        ("import importlib", 1),
        ("x = 1 #\rfrom attend_grader.inside import executor", 1),
        ("from attend_grader import check\rfrom attend import plots", 0),
        ("model.eval()\nretrieval(3)  # no eval() here", 0),
    ],
)
def test_what_is_flagged(source: str, flags: int) -> None:
    assert len(reached(new_notebook(cells=[new_code_cell(source)]))) == flags


def test_every_chapter_can_be_shared() -> None:
    for chapter_id in chapters.INDEX:
        assert repr(share(chapter_id)).startswith("Nothing to share")


@pytest.mark.parametrize("text", ["\n", "from sys import a ", " ", "import a, ", "eval "])
def test_no_text_takes_long_to_search(text: str) -> None:
    """Where a pattern looks back over all of it from each place, this takes an hour."""
    cell = new_code_cell(text * 3_000_000)
    start = time.process_time()
    (flag,) = reached(new_notebook(cells=[cell]))
    assert flag.startswith("The code has over 2,000,000 characters")
    assert time.process_time() - start < 30
