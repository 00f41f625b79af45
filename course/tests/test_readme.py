"""README.md and the other documents: fresh, and every place they point to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from attend import readme
from attend.curriculum import CHAPTERS, ROOT
from attend.errors import AttendError

DOCUMENTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]


def test_the_readme_is_fresh(capsys: pytest.CaptureFixture[str]):
    assert readme.main(check=True) == 0, capsys.readouterr().out


def test_a_stale_readme_is_said_and_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    parts = {"badge": "new badge", "chapters": "new table", "tree": "new tree"}
    monkeypatch.setattr(readme, "generated", lambda root: parts)
    text = "".join(f"<!-- {name} -->\nold\n<!-- /{name} -->\nkept\n" for name in parts)
    (tmp_path / "README.md").write_text(text)
    assert readme.main(check=True, root=tmp_path) == 1
    assert (tmp_path / "README.md").read_text() == text
    assert readme.main(root=tmp_path) == 0
    assert (tmp_path / "README.md").read_text().count("kept") == 3
    assert "old" not in (tmp_path / "README.md").read_text()
    assert readme.main(check=True, root=tmp_path) == 0


def test_a_lost_marker_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "README.md").write_text("nothing to fill")
    monkeypatch.setattr(readme, "generated", lambda root: {"tree": "x"})
    with pytest.raises(AttendError, match=r"should hold <!-- tree --> … <!-- /tree --> once"):
        readme.main(root=tmp_path)


def test_a_path_in_the_tree_that_is_gone_is_one_sentence(tmp_path: Path):
    with pytest.raises(AttendError, match="README's tree names Makefile, course/"):
        readme.tree(tmp_path)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_relative_links_lead_somewhere(document: str):
    text = (ROOT / document).read_text()
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_plan_has_27_chapters_in_order():
    assert [chapter.number for chapter in CHAPTERS] == [f"{n:02}" for n in range(1, 28)]
    assert len({chapter.part for chapter in CHAPTERS}) == 5


def test_every_chapter_with_exercises_is_in_the_plan():
    from attend_grader import chapters

    assert set(chapters.INDEX) <= {chapter.id for chapter in CHAPTERS}
