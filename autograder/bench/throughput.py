"""How many submissions a minute: `attend grade` against nbgrader's own `nbgrader autograde`.

Both grade the same mixed submissions of a chapter (03 where none is named) with the commands an
instructor types, start-up included: nbgrader with its stock configuration (a kernel for each
submission, the check in that same kernel, no sandbox), `attend grade` with its sandbox, verdicts
outside and two workers. Then `attend grade` again for growing classes. Writes throughput.json and
throughput.md.
"""

from __future__ import annotations

import argparse
import copy
import inspect
import json
import os
import platform
import re
import shutil
import subprocess
import sysconfig
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import nbformat
import psutil
from attend_grader import chapters
from nbformat import NotebookNode

CHAPTER = "03_attention"
LOOK_SECONDS = 5.0
"""Reading the memory of a dozen processes takes a tenth of a second, of two processors' time."""

PACKAGES = ("nbgrader", "nbclient", "ipykernel", "numpy", "torch")


@dataclass(frozen=True)
class Run:
    """One command on one class.

    Attributes:
        what: the command.
        submissions: how many it graded.
        seconds: wall clock, from the shell's point of view.
        worker_memory: bytes, the most that one worker with its sandbox had in use.
        points: the sum of all scores in the gradebook.
    """

    what: str
    submissions: int
    seconds: float
    worker_memory: int
    points: float

    @property
    def per_minute(self) -> float:
        """Submissions a minute."""
        return 60 * self.submissions / self.seconds


def main() -> None:
    """Run it; see --help."""
    parse = argparse.ArgumentParser(description="Submissions a minute.")
    parse.add_argument("--submissions", type=int, default=50, help="compared with stock nbgrader")
    parse.add_argument("--stock", type=int, default=50, help="graded by stock nbgrader")
    parse.add_argument("--growth", type=int, nargs="*", default=[10, 100, 500])
    parse.add_argument("--out", type=Path, help="folder for the files; default: beside this one")
    parse.add_argument("--chapter", default=CHAPTER)
    given = parse.parse_args()
    with tempfile.TemporaryDirectory(prefix="attend-bench-") as place:
        bench = Bench(Path(place), given.chapter)
        attend = bench.attend_grade(given.submissions)
        growth = [bench.attend_grade(count) for count in given.growth]
        stock = bench.stock_autograde(given.stock)
    facts = {
        "date": date.today().isoformat(),
        "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} processors",
        "load": os.getloadavg()[0],
        "versions": {"python": platform.python_version()} | {p: version(p) for p in PACKAGES},
        "runs": [asdict(run) for run in (stock, attend, *growth)],
        "ratio": attend.per_minute / stock.per_minute,
    }
    text = table(given.chapter, facts, stock, attend, growth)
    print(text)
    if given.out is None and given.chapter != CHAPTER:
        return  # the files beside this one are of the chapter that the manual names
    out = given.out or Path(__file__).parent
    out.mkdir(parents=True, exist_ok=True)
    (out / "throughput.json").write_text(json.dumps(facts, indent=1) + "\n")
    (out / "throughput.md").write_text(text)


class Bench:
    """A class with one chapter released, graded again and again."""

    def __init__(self, place: Path, chapter: str) -> None:
        """Make the class.

        Args:
            place: an empty directory.
            chapter: its id, such as ``"03_attention"``.
        """
        self.place, self.chapter = place, chapter
        root = place / "class"
        command(place, "attend", "class", "init", str(root), "--chapters", chapter)
        command(root, "nbgrader", "generate_assignment", chapter)
        released = nbformat.read(root / "release" / chapter / f"{chapter}.ipynb", as_version=4)
        solved = nbformat.read(root / "source" / chapter / f"{chapter}.ipynb", as_version=4)
        self.mixed = [nbformat.writes(notebook) for notebook in mix(released, solved, chapter)]

    def attend_grade(self, count: int) -> Run:
        """``attend grade`` with two workers."""
        root = self.filled(count)
        more = ("--workers", "2", "--quiet")
        return measured(root, count, "attend", "grade", self.chapter, *more)

    def stock_autograde(self, count: int) -> Run:
        """``nbgrader autograde`` as nbgrader comes."""
        root = self.filled(count)
        (root / "nbgrader_config.py").write_text("c = get_config()\n")
        return measured(root, count, "nbgrader", "autograde", self.chapter)

    def filled(self, count: int) -> Path:
        """A fresh copy of the class with ``count`` submissions."""
        root = self.place / "graded"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self.place / "class", root)
        for config in root.glob("nbgrader_config.py"):  # it may name the gradebook by its place
            text = config.read_text().replace(str(self.place / "class"), str(root))
            config.write_text(text)
        for number in range(count):
            folder = root / "submitted" / f"student{number:04}" / self.chapter
            folder.mkdir(parents=True)
            submitted = self.mixed[number % len(self.mixed)]
            (folder / f"{self.chapter}.ipynb").write_text(submitted)
        return root


def mix(release: NotebookNode, answers: NotebookNode, chapter: str) -> list[NotebookNode]:
    """Solved, untouched, half done, a misconception in each exercise, a check deleted.

    Args:
        release: the released notebook.
        answers: the solved one, which `attend class init` wrote.
        chapter: its id.
    """
    exercises = {e.name: e for e in chapters.chapter(chapter).exercises}
    solved, half, wrong = (copy.deepcopy(release) for _ in range(3))
    for number, (name, exercise) in enumerate(exercises.items()):
        answer = cell(answers, name).source
        cell(solved, name).source = answer
        if number < len(exercises) // 2:
            cell(half, name).source = answer
        slip = inspect.getsource(next(iter(exercise.misconceptions.values())))
        cell(wrong, name).source = re.sub(r"^(def|class) \w+", rf"\1 {name}", slip)
    tampered = copy.deepcopy(solved)
    tampered.cells.remove(cell(tampered, f"check-{next(iter(exercises))}"))
    return [solved, release, half, wrong, tampered]


def cell(notebook: NotebookNode, cell_id: str) -> NotebookNode:
    """The cell with this id."""
    return next(cell for cell in notebook.cells if cell.id == cell_id)


def measured(root: Path, count: int, program: str, *arguments: str) -> Run:
    """Run a command in a class directory, watching time and memory."""
    start = time.monotonic()
    process = psutil.Popen(
        [scripts() / program, *arguments],
        cwd=root,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    peak = 0
    while True:
        try:
            process.wait(LOOK_SECONDS)
            break
        except psutil.TimeoutExpired:
            peak = max([peak, *(memory(worker) for worker in process.children())])
    seconds = time.monotonic() - start
    if process.returncode:
        raise RuntimeError(f"{program} ended with {process.returncode}")
    what = "attend grade" if program == "attend" else "nbgrader autograde"
    return Run(what, count, round(seconds, 1), peak, points(root))


def memory(worker: psutil.Process) -> int:
    """Bytes of a process and all below it; what processes share counts for one of them only."""
    total = 0
    try:
        for process in (worker, *worker.children(recursive=True)):
            total += process.memory_full_info().pss
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return 0  # it ended meanwhile; the next look is soon
    return total


def points(root: Path) -> float:
    """All scores in the gradebook together."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{root}/gradebook.db", "class") as gradebook:
        assignments: Any = gradebook.assignments
        return sum(one.score for each in assignments for one in each.submissions)


def command(directory: Path, program: str, *arguments: str) -> None:
    """Run one of the environment's commands."""
    subprocess.run(
        [scripts() / program, *arguments],
        cwd=directory,
        env=environment(),
        check=True,
        capture_output=True,
    )


def scripts() -> Path:
    """Where the environment's commands are."""
    return Path(sysconfig.get_path("scripts"))


def environment() -> dict[str, str]:
    """This process's, with the environment's commands first (nbgrader calls `alembic`)."""
    return {**os.environ, "PATH": f"{scripts()}{os.pathsep}{os.environ['PATH']}"}


def table(chapter: str, facts: dict, stock: Run, attend: Run, growth: list[Run]) -> str:
    """The result, for people."""
    lines = [
        "# Submissions a minute",
        "",
        f"Written by `python autograder/bench/throughput.py`. Chapter {chapter[:2]}, the same",
        "mixed submissions (solved, untouched, half, a misconception in each exercise, a check",
        "deleted), start-up included; `attend grade` with sandbox, verdicts outside, two workers.",
        "",
        "| command | submissions | seconds | a minute | MiB a worker |",
        "|---|---:|---:|---:|---:|",
    ]
    for run in (stock, attend, *growth):
        lines.append(
            f"| `{run.what}` | {run.submissions} | {run.seconds:.1f} | {run.per_minute:.1f} "
            f"| {run.worker_memory / 2**20:.0f} |"
        )
    lines += ["", f"Ratio: {facts['ratio']:.1f} × stock nbgrader."]
    if stock.submissions < attend.submissions:
        lines.append(
            f"Stock nbgrader graded only {stock.submissions} of them; its rate for "
            f"{attend.submissions} is extrapolated from those."
        )
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    lines += ["", f"{facts['date']}; {facts['machine']}, load {facts['load']:.1f}; {versions}.", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
