"""Every chapter's two editions, run top to bottom as a learner's kernel runs them."""

from __future__ import annotations

import os
import re
import statistics
import threading
import time

import nbformat
import numpy as np
import pytest
from attend import build, chapter
from attend_grader import chapters
from nbclient import NotebookClient

SECONDS = 60
"""What a solved chapter may take on two cores; counted in processor time of its kernel, which is
more than the time on the clock."""

WORK_SECONDS = 0.031
"""What :func:`work` takes on a machine where SECONDS is meant.

Processor time depends on the machine and on what shares its caches: on one where chapters 05 and 06
took 111 and 99 s instead of 45 and 44, this took 0.076 and 0.071 s meanwhile.
"""


def run(notebook: nbformat.NotebookNode, folder) -> tuple[nbformat.NotebookNode, float]:
    """Execute ``notebook`` in ``folder``; an error in any cell stops it, as Run All does."""
    start = spent()
    client = NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    return notebook, spent() - start


def work() -> float:
    """Do a fixed piece of what notebooks do: Python and small products; its processor seconds."""
    start = time.thread_time()
    x, total = np.random.default_rng(0).normal(size=(64, 64)), 0
    for number in range(1500):
        x = np.tanh(x @ x.T / 64)
        for other in range(60):
            total += number * other
    return time.thread_time() - start


class Slowdown:
    """How many times slower than where SECONDS is meant all runs in the ``with`` block."""

    def __enter__(self) -> Slowdown:
        self.took, self.ended = [work()], threading.Event()
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def _watch(self) -> None:
        while not self.ended.wait(2.0):
            self.took.append(work())

    def __exit__(self, *exception: object) -> None:
        self.ended.set()
        self.thread.join()

    @property
    def factor(self) -> float:
        """At least 1."""
        return max(1.0, statistics.mean(self.took) / WORK_SECONDS)


def spent() -> float:
    """Processor seconds of this process's children that have ended."""
    used = os.times()
    return used.children_user + used.children_system


def texts(cell: nbformat.NotebookNode) -> str:
    parts = [output.get("text", "") for output in cell.outputs]
    parts += [str(output.get("data", {}).get("text/html", "")) for output in cell.outputs]
    return "\n".join(parts)


def errors_written(notebook: nbformat.NotebookNode) -> list[str]:
    return [
        output.text
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "stream" and output.name == "stderr"
        if "it/s" not in output.text and output.text.strip()  # tqdm's bar, and what clears it
    ]


WIDEST = 78
"""Characters of a printed line that a window of 800 pixels shows without breaking it."""


def printed_too_wide(notebook: nbformat.NotebookNode) -> list[str]:
    return [
        line
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "stream" and output.name == "stdout"
        for line in output.text.splitlines()
        if len(line) > WIDEST
    ]


def scores(notebook: nbformat.NotebookNode) -> dict[str, int]:
    """What each check cell's value says, as nbgrader reads it."""
    found = {}
    for cell in notebook.cells:
        if cell.id.startswith("check-"):
            results = [o for o in cell.outputs if o.output_type == "execute_result"]
            found[cell.id.removeprefix("check-")] = int(results[0].data["text/plain"])
    return found


CHAPTERS = [
    pytest.param(name, marks=() if name == "03_attention" else pytest.mark.deep)
    for name in chapter.chapter_ids()
]
"""All of them in the deep tier; the quickest stands for the others in `make test`."""


@pytest.mark.slow
@pytest.mark.parametrize("chapter_id", CHAPTERS)
def test_solved_chapter_runs_in_time_with_full_marks(chapter_id, tmp_path):
    with Slowdown() as slowdown:
        notebook, seconds = run(build.solved_notebook(chapter_id), tmp_path)
    expected = {e.name: e.points for e in chapters.chapter(chapter_id).exercises}
    assert scores(notebook) == expected
    assert errors_written(notebook) == []
    assert printed_too_wide(notebook) == []
    assert "This cell waits for" not in "".join(texts(c) for c in notebook.cells if "outputs" in c)
    told = (
        f"{chapter_id} took {seconds:.0f} s of processor time, all {slowdown.factor:.1f} × slower"
    )
    assert seconds / slowdown.factor <= SECONDS, told


@pytest.mark.slow
@pytest.mark.parametrize("chapter_id", CHAPTERS)
def test_learners_chapter_stops_at_nothing(chapter_id, tmp_path):
    notebook, _ = run(build.release_notebook(chapter_id), tmp_path)
    names = [e.name for e in chapters.chapter(chapter_id).exercises]
    assert scores(notebook) == dict.fromkeys(names, 0)
    for cell in notebook.cells:
        if cell.id.startswith("check-"):
            assert "not started" in texts(cell)
    said = "".join(texts(cell) for cell in notebook.cells if "outputs" in cell)
    waited_for = set(re.findall(r"(\w+) \(is not started\)", said))
    assert waited_for == set(names), "some cell should wait for each exercise"
