"""Progress: kept where there is a home for it, set aside when damaged, in memory otherwise."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from attend_grader import progress


def test_without_a_home_progress_lasts_as_long_as_the_process(tmp_path: Path) -> None:
    assert progress.home() is None
    progress.record("x/y", hints=1)
    assert progress.of("x/y") == {"hints": 1}
    assert list(tmp_path.iterdir()) == []


def test_progress_is_kept_in_the_nearest_home_upwards(
    attend_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = attend_home / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert progress.home() == attend_home
    progress.record("x/y", score=3)
    progress.record("x/y", hints=2)
    progress.record("x/z", score=1)
    saved = json.loads((attend_home / ".attend" / "progress.json").read_text())
    assert saved["exercises"] == {"x/y": {"score": 3, "hints": 2}, "x/z": {"score": 1}}
    assert progress.of("x/y") == {"score": 3, "hints": 2}
    assert progress.of("x/unknown") == {}
    assert [p.name for p in (attend_home / ".attend").iterdir()] == ["progress.json"]


def test_another_process_sees_it(attend_home: Path) -> None:
    progress.record("x/y", score=3)
    code = "from attend_grader import progress; print(progress.of('x/y'))"
    seen = subprocess.run(
        [sys.executable, "-c", code], cwd=attend_home, capture_output=True, text=True, check=True
    )
    assert seen.stdout.strip() == "{'score': 3}"


DAMAGE = {
    "cut": '{"exercises": {"x/y": {"sco',
    "empty": "",
    "another shape": "[1, 2]",
    "no exercises": '{"other": 1}',
    "exercises no object": '{"exercises": 3}',
    "a record no object": '{"exercises": {"x/y": 3}}',
}


@pytest.mark.parametrize("text", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_set_aside_and_named(text: str, attend_home: Path) -> None:
    path = attend_home / ".attend" / "progress.json"
    for number in (1, 2):
        path.write_text(text, encoding="utf-8")
        with pytest.warns(UserWarning, match=f"progress.damaged-{number}.json and a new one begun"):
            progress.record("x/y", score=1)
        aside = path.with_name(f"progress.damaged-{number}.json")
        assert aside.read_text(encoding="utf-8") == text
        assert progress.of("x/y") == {"score": 1}


def test_bytes_that_are_no_text_are_set_aside(attend_home: Path) -> None:
    (attend_home / ".attend" / "progress.json").write_bytes(b"\xff\xfe\x00")
    with pytest.warns(UserWarning, match="progress.damaged-1.json"):
        assert progress.of("x/y") == {}


def test_where_it_cannot_be_saved_progress_stays_in_memory_and_says_so(
    attend_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise PermissionError("read-only")

    progress.record("x/z", score=2)
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.warns(UserWarning, match="cannot be saved .*as long as this notebook runs"):
        progress.record("x/y", hints=1)
    with pytest.warns(UserWarning, match="cannot be saved"):
        progress.record("x/y", hints=2)
    assert progress.of("x/y") == {"hints": 2}
    assert progress.of("x/z") == {"score": 2}
    assert [p.name for p in (attend_home / ".attend").iterdir()] == ["progress.json"]


def test_where_it_cannot_be_read_progress_stays_in_memory_and_says_so(attend_home: Path) -> None:
    (attend_home / ".attend" / "progress.json").mkdir()
    with pytest.warns(UserWarning, match="cannot be read"):
        progress.record("x/y", hints=1)
    with pytest.warns(UserWarning, match="cannot be read"):
        assert progress.of("x/y") == {"hints": 1}
