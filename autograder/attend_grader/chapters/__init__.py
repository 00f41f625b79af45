"""The chapters that have exercises: each is a folder ``chNN_slug``, found by its name.

A chapter's ``__init__`` has ``EXERCISES``, names with their points in order, and imports nothing
heavy; each exercise is a module of its own that defines ``EXERCISE``, imported when it is needed.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module

from attend_grader.checks.exercise import Chapter, Exercise
from attend_grader.inside.settings import usual_settings


def _found() -> dict[str, Mapping[str, int]]:
    rooms = sorted(m.name for m in pkgutil.iter_modules(__path__) if re.match(r"ch\d\d_", m.name))
    return {name[2:]: import_module(f"{__name__}.{name}").EXERCISES for name in rooms}


INDEX: dict[str, Mapping[str, int]] = _found()
"""Chapter id → its exercises' names and points, in order; made from the folders."""


def package(chapter_id: str) -> str:
    """The dotted name of a chapter's package."""
    return f"{__name__}.ch{chapter_id}"


def modules(chapter_id: str) -> list[str]:
    """The dotted names of a chapter's exercises' modules."""
    return [f"{package(chapter_id)}.{module(name)}" for name in _names(chapter_id)]


def module(name: str) -> str:
    """The module of an exercise: ``"softmax"``, ``"multi_head_attention"``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


@cache
def chapter(chapter_id: str) -> Chapter:
    """The chapter with this id, with all its exercises.

    Raises:
        KeyError: there is no such chapter, or it has no exercises yet.
    """
    return Chapter(chapter_id, tuple(_load(chapter_id, name) for name in _names(chapter_id)))


def _names(chapter_id: str) -> Mapping[str, int]:
    if chapter_id not in INDEX:
        known = ", ".join(INDEX)
        raise KeyError(f"no chapter {chapter_id!r} has exercises; those that do: {known}")
    return INDEX[chapter_id]


@cache
def _load(chapter_id: str, name: str) -> Exercise:
    with usual_settings():  # tensors that its module makes are not of a learner's default dtype
        found: Exercise = import_module(f"{package(chapter_id)}.{module(name)}").EXERCISE
    declared = INDEX[chapter_id][name]
    if (found.name, found.chapter, found.points) != (name, chapter_id, declared):
        raise ValueError(
            f"{package(chapter_id)} declares {name} with {declared} points, and its module defines "
            f"{found.id} with {found.points}: make them agree."
        )
    return found


def exercises() -> list[Exercise]:
    """Every exercise of the course, in order (imports every chapter's reference)."""
    return [exercise for chapter_id in INDEX for exercise in chapter(chapter_id).exercises]


def exercise(exercise_id: str) -> Exercise:
    """The exercise with this id, such as ``"03_attention/softmax"``; imports only its own module.

    Raises:
        KeyError: there is none.
    """
    chapter_id, _, name = exercise_id.partition("/")
    names = _names(chapter_id)
    if name not in names:
        raise KeyError(f"chapter {chapter_id} has no exercise {name!r}: {', '.join(names)}")
    return _load(chapter_id, name)


def first_known(*names: str) -> str:
    """The first of ``names`` that is a chapter's id; empty where none is."""
    return next((name for name in names if name in INDEX), "")


def named(name: str) -> list[str]:
    """Ids of the exercises called ``name``; a name may recur in another chapter."""
    return [f"{chapter_id}/{name}" for chapter_id, names in INDEX.items() if name in names]


def references(exercise_: Exercise) -> dict[str, Exercise]:
    """The earlier exercises that an answer may call, by name: its own chapter's first."""
    found: dict[str, Exercise] = {}
    for name in exercise_.uses:
        ids = sorted(named(name), key=lambda i: not i.startswith(f"{exercise_.chapter}/"))
        found[name] = exercise(ids[0])
    return found
