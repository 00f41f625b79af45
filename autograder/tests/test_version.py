"""The grader's version: a change to one chapter's checks or answers regrades that chapter only."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from attend_grader import chapters
from attend_grader.grading.record import Record
from attend_grader.judging import version


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """A copy of all chapters' checks and all answers; gives the directory of a package's copy."""

    def directory(package: str) -> Path:
        copy = tmp_path / package
        if not copy.exists():
            spec = find_spec(package)
            assert spec is not None
            assert spec.submodule_search_locations
            shutil.copytree(next(iter(spec.submodule_search_locations)), copy)
        return copy

    monkeypatch.setattr(version, "_directory", directory)
    version.of.cache_clear()
    yield directory
    version.of.cache_clear()


def versions() -> dict[str, str]:
    version.of.cache_clear()
    return {chapter_id: version.of(chapter_id) for chapter_id in chapters.INDEX}


def changed(before: dict[str, str]) -> set[str]:
    now = versions()
    return {chapter_id for chapter_id in now if now[chapter_id] != before[chapter_id]}


def test_a_change_to_a_check_changes_its_chapters_version_only(
    copied: Callable[[str], Path],
) -> None:
    before, of_course = versions(), version.of_course()
    check = copied(chapters.package("03_attention")) / "softmax.py"
    check.write_text(check.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
    assert changed(before) == {"03_attention"}
    assert version.of_course() != of_course


def test_a_change_to_an_answer_changes_the_chapters_that_use_it(
    copied: Callable[[str], Path],
) -> None:
    before = versions()
    answer = copied("attend_solutions") / "positions.py"
    answer.write_text(answer.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
    assert changed(before) == {"06_positions"}


def test_line_ends_are_no_change(copied: Callable[[str], Path]) -> None:
    before = versions()
    check = copied(chapters.package("03_attention")) / "softmax.py"
    check.write_bytes(check.read_bytes().replace(b"\n", b"\r\n"))
    assert changed(before) == set()


def test_a_record_of_another_version_is_another_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(chapter_id: str) -> Record:
        return Record("ann", chapter_id, chapter_id, "submission", "release", 1)

    before = {chapter_id: record(chapter_id).key for chapter_id in chapters.INDEX}
    of = version.of
    monkeypatch.setattr(version, "of", lambda i: "new" if i == "03_attention" else of(i))
    now = {chapter_id: record(chapter_id).key for chapter_id in chapters.INDEX}
    assert {i for i in now if now[i] != before[i]} == {"03_attention"}


def test_what_is_no_chapter_has_the_engines_version() -> None:
    assert version.of("99_none") == version.ENGINE
    assert all(v.startswith(f"{version.ENGINE}.") for v in versions().values())
