"""The checks against answers written to get round them: ``adversary/chNN.py``."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import linecache
import math
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attend_grader import exercises, grade
from attend_grader.checks.exercise import Exercise
from attend_grader.judging.report import Report

from .seeds import EVERY_SEED

sys.setrecursionlimit(3_000)  # as IPython does

SEEDS = (1, 22, 333) if EVERY_SEED else (1,)
NAMED = 0.8
"""Share of wrong answers whose cause or symptom is told, by chapter."""

Case = tuple[str, str, str, str]
"""Exercise, "wrong" or "right", what it is, code."""

FILES = sorted(Path(__file__).with_name("adversary").glob("ch*.py"))


def _cases(path: Path) -> list[Case]:
    spec = importlib.util.spec_from_file_location(f"adversary_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CASES


def _exercises(path: Path) -> dict[str, Exercise]:
    return {e.name: e for e in exercises() if e.chapter.startswith(path.stem[2:4])}


def _define(code: str, name: str, what: str, known: dict[str, Exercise]) -> Any:
    """Run a case as a notebook's cell would: with the chapter's imports and earlier answers."""
    tools = {"math": math, "itertools": itertools, "functools": functools}
    space: dict[str, Any] = {"np": np, **tools, "__name__": "__main__"}
    if any("torch" in getattr(e.reference, "__globals__", {}) for e in known.values()):
        import torch
        from torch import Tensor, nn

        space |= {"torch": torch, "nn": nn, "F": nn.functional, "Tensor": Tensor}
    space |= {n: e.reference for n, e in known.items()}
    filename = f"<{name}: {what}>"
    linecache.cache[filename] = (len(code), None, code.splitlines(keepends=True), filename)
    exec(compile(code, filename, "exec"), space)
    return space[name]


def _reports(case: Case, known: dict[str, Exercise]) -> list[Report]:
    name, _, what, code = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a learner's definition warns of is no concern here
        candidate = _define(code, name, what, known)
        return [grade(candidate, known[name].id, seed) for seed in SEEDS]


@pytest.mark.deep
@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_wrong_answers_lose_points_and_right_ones_none(path: Path) -> None:
    known = _exercises(path)
    accepted, rejected, unnamed, wrong = [], [], [], 0
    for case in _cases(path):
        name, kind, what, _ = case
        reports = _reports(case, known)
        full = [report.score == report.max_score for report in reports]
        if kind == "right":
            rejected += [] if all(full) else [f"{name}: {what}\n{reports[full.index(False)]}"]
            continue
        wrong += 1
        accepted += [f"{name}: {what}"] if any(full) else []
        told = all(report.diagnosis or report.symptom for report in reports)
        unnamed += [] if told else [f"{name}: {what}"]
    assert accepted == []
    assert rejected == []
    assert len(unnamed) <= (1 - NAMED) * wrong, unnamed


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_there_are_enough_cases_of_every_exercise(path: Path) -> None:
    cases = _cases(path)
    for name in _exercises(path):
        kinds = [kind for exercise, kind, _, _ in cases if exercise == name]
        assert kinds.count("wrong") >= 8, name
        assert kinds.count("right") >= 3, name
    assert len({(case[0], case[2]) for case in cases}) == len(cases)
