"""The ``attend`` command: what it lists, and that a user's mistake is one sentence."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from attend import cli, workspace
from attend.errors import AttendError


def run(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the command in this process; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["attend", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.app()
    return int(ended.value.code or 0)


def test_help_lists_the_commands():
    done = subprocess.run(
        [sys.executable, "-c", "from attend.cli import app; app()", "--help"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    learners, others = done.stdout.split("For instructors and authors")
    for command in ("lab", "copy", "progress", "reset"):
        assert f" {command} " in learners
    for command in ("build", "new-chapter", "readme", "grade", "report", "export", "class"):
        assert f" {command} " in others


def test_it_says_its_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    assert run("--version", monkeypatch=monkeypatch) == 0
    assert re.fullmatch(r"attend \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_progress_is_that_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    kept = {"exercises": {"03_attention/softmax": {"score": 1, "max_score": 8}}}
    (tmp_path / ".attend").mkdir()
    (tmp_path / ".attend" / "progress.json").write_text(json.dumps(kept))
    assert run("progress", "--work", str(tmp_path), monkeypatch=monkeypatch) == 0
    assert "1 / 8  begun" in capsys.readouterr().out
    assert run("progress", "--work", str(tmp_path / "no"), monkeypatch=monkeypatch) == 1
    assert "There is no folder" in capsys.readouterr().err


def test_no_grammar_of_iris_is_built():
    modules = "attend.charts, attend.chapter, attend_grader.gradebook, attend_grader.grading"
    code = f"import sys, {modules}; "
    code += "print('rfc3987_syntax' in sys.modules, 'jsonschema' in sys.modules)"
    code += "; import rfc3987_syntax; print(rfc3987_syntax.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False True\nrfc3987_syntax\n", "it can be imported by who wants it"


def test_what_chapters_import_is_there_in_the_jail(tmp_path: Path):
    from attend_grader.sandbox import tree

    tree.write(tmp_path / "packages", "03_attention")
    code = "import attend.charts, attend.widgets as w; w.drag_query(); print(w.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path / "packages")},
    )
    assert done.stdout == f"{tmp_path}/packages/attend/widgets/__init__.py\n", done.stderr


def test_export_names_the_file_of_each_format():
    from typer.main import get_command

    commands = get_command(cli._typer).commands  # type: ignore[attr-defined]
    (out,) = (option for option in commands["export"].params if option.name == "out")
    assert ".json for lti" in out.show_default


@pytest.mark.parametrize("code", [1, 2])
def test_a_users_mistake_is_one_sentence(
    code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    sentence = "The [file] is missing: " + "say it in one line however long it gets, " * 5 + "so."

    def refuse(*_: object) -> None:
        raise AttendError(sentence, code)

    monkeypatch.setattr(workspace, "prepare", refuse)
    assert run("copy", monkeypatch=monkeypatch) == code
    said = capsys.readouterr()
    assert said.err == sentence + "\n"
    assert said.out == ""


def test_copy_puts_the_chapters_where_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert run("copy", str(tmp_path / "mine"), monkeypatch=monkeypatch) == 0
    assert "Copied 03_attention.ipynb." in capsys.readouterr().out
    assert (tmp_path / "mine" / "03_attention.ipynb").is_file()
    assert run("copy", str(tmp_path / "mine"), monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out == f"Nothing new: {tmp_path / 'mine'} has all chapters.\n"


def test_an_unknown_command_is_refused(monkeypatch: pytest.MonkeyPatch):
    assert run("dance", monkeypatch=monkeypatch) == 2
