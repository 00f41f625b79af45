"""What learners call: check, hint, solution, ready; and grade, the same without display."""

from __future__ import annotations

import ast
import difflib
import inspect
import linecache
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from typing import Any

from attend_grader import cells, chapters, progress
from attend_grader.checks.exercise import Exercise
from attend_grader.checks.subject import Subject, local
from attend_grader.inside.kernels import whole_source
from attend_grader.judging.judge import judge, references_for, smoke
from attend_grader.judging.reading import parse
from attend_grader.judging.report import Report

NOTEBOOK_SEED = 0
"""A notebook check draws the same inputs each time: a verdict changes only when the code does."""

LIMIT = 30.0
"""Seconds that a check may take; it takes one or two, where no loop goes on for ever."""

_NOTHING = object()
"""Stands for an argument that was left out."""


class TookTooLong(KeyboardInterrupt):
    """Raised in a check that runs for too long; passes through whatever catches exceptions."""


_checked: dict[str, tuple[Any, Report]] = {}
"""By exercise, what was checked last in this kernel, and what came of it."""


def check(candidate: Any = _NOTHING, exercise_id: str | None = None) -> Report:
    """Check your function and say what holds, what does not, and why.

    Args:
        candidate: your function or class (or its name, as text).
        exercise_id: which exercise it answers, such as ``"03_attention/softmax"``; needed only
            where another chapter has an exercise of the same name.

    Returns:
        A report: a card in a notebook, its score as ``repr``.
    """
    if candidate is _NOTHING:
        return Report(None, (), "invalid", "say what to check, as in check(softmax).")
    name = candidate if isinstance(candidate, str) else getattr(candidate, "__name__", None)
    try:
        found = _find(name, exercise_id, candidate)
    except ImportError as error:
        if not _no_triton(error):
            raise
        return Report(None, (), "invalid", CANNOT)
    if isinstance(found, Report):
        return found
    if isinstance(candidate, str):
        space = _callers_namespace()
        if candidate not in space:
            return _undefined(candidate, space)
        candidate = space[candidate]
    grading = os.environ.get("NBGRADER_EXECUTION") == "autograde"
    seed = secrets.randbits(32) if grading else NOTEBOOK_SEED
    old = "" if grading else cells.outdated(found.name)
    if old:
        return Report(found.id, (), "invalid", old)
    try:
        with _limited(LIMIT):
            report = judge(_subject(candidate, found), found, seed, extra=grading)
    except TookTooLong:
        note = f"Stopped after {LIMIT:g} seconds: is there a loop that never ends?"
        return Report(found.id, (), "timeout", note)
    except KeyboardInterrupt:
        return Report(found.id, (), "timeout", "You stopped this check; run it again.")
    if not report.note:
        report = replace(report, note=_forbidden_import(candidate, found))
    _checked[found.id] = candidate, report
    if report.status != "not started" and not grading:  # a submission is nobody's progress here
        done = progress.of(found.id)
        best = max(report.score, done.get("score", 0))
        progress.record(found.id, score=best, max_score=report.max_score)
    return report


CANNOT = "Kernels cannot be checked here: Triton is not installed. Nothing is said of your answer."


def _no_triton(error: ImportError) -> bool:
    """Whether what is missing is Triton, which some platforms do not have."""
    return str(error.name).startswith("triton") or "triton" in str(error)


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise :class:`TookTooLong` after so long, where the platform has timers (not Windows)."""
    main = threading.current_thread() is threading.main_thread()
    if not hasattr(signal, "setitimer") or not main:
        yield
        return

    def stop(signum: int, frame: object) -> None:
        del signum, frame
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again, should code catch the first
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _forbidden_import(candidate: Any, exercise: Exercise) -> str:
    """What to say where the candidate's cell imports a package that the exercise forbids, or ""."""
    code = getattr(inspect.unwrap(candidate), "__code__", None) if callable(candidate) else None
    tree = None if code is None else parse("".join(linecache.getlines(code.co_filename)))
    found = set()
    for node in tree.body if tree is not None else ():
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    names = ", ".join(sorted(found & {*exercise.forbidden}))
    return names and (
        f"This cell imports {names}, which the exercise does not allow: where it is graded, that "
        "import fails and the rest of the cell does not run. Delete it."
    )


def grade(candidate: Any, exercise_id: str, seed: int | None = None) -> Report:
    """Check without display, on fresh random inputs and the extra cases used for grading.

    Args:
        candidate: a function or class.
        exercise_id: such as ``"03_attention/softmax"``.
        seed: draws the inputs; None draws the seed itself. The report records it.

    Raises:
        KeyError: there is no such exercise.
    """
    exercise = chapters.exercise(exercise_id)
    seed = secrets.randbits(32) if seed is None else seed
    return judge(_subject(candidate, exercise), exercise, seed, extra=True)


def hint(candidate_or_name: Any = _NOTHING) -> None:
    """Print the next hint for an exercise; all of them together once all are out.

    Where two chapters have an exercise of that name, say ``hint("05_multi_head/…")``.
    """
    if candidate_or_name is _NOTHING:
        print("Say for what, as in hint(softmax).")
        return
    exercise = _exercise(candidate_or_name)
    if exercise is None:
        return
    count, before = len(exercise.hints), progress.of(exercise.id).get("hints", 0)
    first, last = (0, count) if before >= count else (before, before + 1)
    progress.record(exercise.id, hints=last)
    for number in range(first, last):
        _say(f"Hint {number + 1} of {count}: {exercise.hints[number]}")


def _say(words: str) -> None:
    """Print a sentence; in a notebook as a paragraph, as what is printed there breaks in words."""
    if "IPython" in sys.modules:
        from IPython.core.getipython import get_ipython
        from IPython.display import display

        if hasattr(get_ipython(), "kernel"):
            style = "line-height: 1.4; margin: 4px 0; max-width: 75ch"
            html = f'<p style="{style}">{escape(words)}</p>'
            display({"text/plain": words, "text/html": html}, raw=True)
            return
    print(words)


def solution(candidate_or_name: Any) -> None:
    """Show the course's own answer, after asking whether you mean it."""
    exercise = _exercise(candidate_or_name)
    if exercise is None:
        return
    try:
        answer = input(f"Show the solution of {exercise.name}? Your progress will say so. [y/N] ")
    except (EOFError, RuntimeError):  # where nothing can be asked (a batch run), nothing is shown
        print("The solution is shown only where you can be asked first.")
        return
    if answer.strip().lower() not in ("y", "yes"):
        print("Not shown.")
        return
    progress.record(exercise.id, solution_shown=True)
    print(whole_source(exercise.reference))


def ready(*functions: Callable[..., Any]) -> bool:
    """Whether the cell below can run: all of your ``functions`` can be called.

    Prints which exercise the cell waits for where one is not started, raises, or returns the
    wrong shape. Wrong values are no reason to wait: see what a wrong function does. But where the
    latest check of that very function found them, it is said.
    """
    waiting, wrong = [], []
    for function in functions:
        ids = chapters.named(_name(function))
        if not ids:
            raise ValueError(f"ready() takes exercises' functions; {function!r} is none")
        try:
            exercise = chapters.exercise(_meant(function, ids, functions))
        except ImportError as error:
            if not _no_triton(error):
                raise
            print("This cell needs Triton, which is not installed here.")
            return False
        problem = smoke(_subject(function, exercise), exercise)
        if problem:
            waiting.append(f"{exercise.name} ({problem})")
        last, report = _checked.get(exercise.id, (None, None))
        if report is not None and last is function and report.status != "passed":
            wrong.append(f"{exercise.name} ({report.score} of {report.max_score} points)")
    if waiting:
        _say(f"This cell waits for: {', '.join(waiting)}. Solve it above, then run this again.")
    elif wrong:
        _say(f"Not right yet: {', '.join(wrong)}. Do not trust what this cell shows.")
    return not waiting


def _meant(function: Any, ids: Sequence[str], functions: Sequence[Any]) -> str:
    """Of exercises with one name: that which it was checked as, or that of the others' chapter."""
    if len(ids) == 1:
        return ids[0]
    alone = [named for f in functions if len(named := chapters.named(_name(f))) == 1]
    beside = {named[0].partition("/")[0] for named in alone}
    checked = [i for i in ids if i in _checked and _checked[i][0] is function]
    near = [i for i in ids if i.partition("/")[0] in beside]
    return [*checked, *near, *ids][0]


def _name(function: Any) -> str:
    return getattr(function, "__name__", "")


def _subject(candidate: Any, exercise: Exercise) -> Subject:
    return local(candidate, references_for(exercise, chapters.references(exercise)))


def _exercise(candidate_or_name: Any) -> Exercise | None:
    name = getattr(candidate_or_name, "__name__", candidate_or_name)
    whole = name if isinstance(name, str) and name in _ids(name) else None
    found = _find(name, whole, candidate_or_name)
    if isinstance(found, Report):
        print(found.note)
        return None
    return found


def _ids(name: str) -> list[str]:
    """The exercises that a name or a whole id may mean."""
    return chapters.named(name.rpartition("/")[2])


def _find(name: Any, exercise_id: str | None, candidate: Any) -> Exercise | Report:
    if exercise_id is not None:
        return chapters.exercise(exercise_id)
    if not isinstance(name, str):
        kind = type(candidate).__name__
        note = f"expected your function, as in check(softmax), but got a value of type {kind}."
        return Report(None, (), "invalid", note)
    if name == "<lambda>":
        note = "a lambda has no name to find its exercise by: define your function with def."
        return Report(None, (), "invalid", note)
    ids = chapters.named(name)
    if len(ids) == 1:
        return chapters.exercise(ids[0])
    if ids:
        note = f"{name} is an exercise of several chapters: name one of {', '.join(ids)}."
        return Report(None, (), "invalid", note)
    known = [n for names in chapters.INDEX.values() for n in names]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    guess = f" Did you mean {near[0]}? Rename your function to that." if near else ""
    return Report(None, (), "invalid", f"no exercise is called {name!r}.{guess}")


def _callers_namespace() -> dict[str, Any]:
    frame = sys._getframe(2)
    return frame.f_globals


def _near(name: str) -> str:
    """The exercise whose name is nearly this one; empty where none is."""
    known = [n for names in chapters.INDEX.values() for n in names]
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.75)), "")


def _undefined(name: str, space: dict[str, Any]) -> Report:
    own = [n for n, v in space.items() if inspect.isfunction(v) and v.__module__ == "__main__"]
    near = difflib.get_close_matches(name, own, n=1, cutoff=0.6)
    guess = f" You defined {near[0]}: is that it? Rename it to {name}." if near else ""
    note = (
        f"{name} is not defined. Run the cell that defines it, and read its error, if any.{guess}"
    )
    if not chapters.named(name):
        note = f"{name} is not defined. Did you mean {_near(name)}?"
    ids = chapters.named(name)
    return Report(ids[0] if len(ids) == 1 else None, (), "invalid", note)


def explain_missing_names(shell: Any) -> None:
    """In IPython: a NameError about an exercise's function also shows a card that helps.

    The error itself stays: a grader must see that the cell failed.
    """

    def handler(
        shell: Any, kind: type, error: NameError, trace: Any, tb_offset: Any = None
    ) -> None:
        name = getattr(error, "name", None)
        if name and (chapters.named(name) or _near(name)):
            from IPython.display import display

            display(_undefined(name, shell.user_ns))
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)

    shell.set_custom_exc((NameError,), handler)
    cells.watch(shell)
