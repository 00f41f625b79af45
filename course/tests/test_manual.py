"""The instructors' manual names tests and commands that exist."""

from __future__ import annotations

import re

import pytest
from attend.curriculum import ROOT
from attend_grader.sandbox.jail import Limits
from typer.main import get_command

MANUAL = (ROOT / "autograder" / "README.md").read_text(encoding="utf-8")
TESTS = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", MANUAL)))


@pytest.mark.parametrize(("file", "name"), TESTS, ids=[name for _, name in TESTS])
def test_each_promise_has_its_test(file: str, name: str):
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_promises_are_many():
    assert len(TESTS) >= 8


def test_commands_exist():
    from attend.cli import _typer

    known = get_command(_typer).commands  # type: ignore[attr-defined]
    named = set(re.findall(r"^attend (\w+)|`attend (\w+)", MANUAL, re.M))
    assert {first or second for first, second in named} <= set(known)


def test_limits_exist():
    chosen = re.findall(r'"(\w+)": [\d.]+', MANUAL)
    assert chosen
    assert all(hasattr(Limits(), name) for name in chosen)
