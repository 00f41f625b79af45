"""course/install.py, which runs before anything is installed: what it says and when it rests."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attend.curriculum import ROOT

SCRIPT = ROOT / "course" / "install.py"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script as a module, for a clone in ``tmp_path``; what it would run is only noted."""
    spec = importlib.util.spec_from_file_location("install", SCRIPT)
    assert spec
    assert spec.loader
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", str(tmp_path))
    monkeypatch.setattr(module, "VENV", str(tmp_path / ".venv"))
    monkeypatch.setattr(module, "STAMP", str(tmp_path / ".venv" / ".attend-installed"))
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text("first")
    (tmp_path / ".venv").mkdir()
    module.calls = []
    module.failing = None  # a word: commands with it fail
    monkeypatch.setattr(module, "python", lambda: sys.executable)

    def note(command: list[str], **_: object) -> int:
        module.calls.append(command[1:])
        return int(module.failing in command)

    monkeypatch.setattr(module.subprocess, "call", note)
    return module


def installs(install: Any) -> list[str]:
    """What pip was last asked to install; forgotten afterwards."""
    asked = [call[-1] for call in install.calls if "--editable" in call]
    install.calls.clear()
    return asked


def test_an_old_python_is_one_sentence(install: Any, monkeypatch, capsys):
    monkeypatch.setattr(install.sys, "version_info", (3, 10, 2))
    assert install.main("lab") == 1
    said = capsys.readouterr().err
    assert said.startswith("Attend needs Python 3.11 or newer, and ")
    assert "is Python 3.10. Install a newer one, then run: make lab PYTHON=/path/to/it" in said
    assert said.count("\n") == 1
    assert install.calls == []


def test_old_pythons_can_read_it():
    """So that they can say they are too old: no syntax that came after Python 3.4 (or 2.7)."""
    tree = ast.parse(SCRIPT.read_text(), feature_version=(3, 4))
    modern = (ast.JoinedStr, ast.NamedExpr, ast.AnnAssign, ast.Starred, ast.Match)
    assert not [node for node in ast.walk(tree) if isinstance(node, modern)]
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.arg) and n.annotation]
    assert SCRIPT.read_text().isascii()


def test_the_second_run_installs_nothing(install: Any, tmp_path: Path):
    assert install.main("lab") == 0
    assert installs(install) == [str(tmp_path)]
    assert install.main("lab") == 0
    assert install.calls == []


def test_tests_need_more_than_the_lab_and_include_it(install: Any, tmp_path: Path):
    install.main("lab")
    installs(install)
    assert install.main("test") == 0
    assert installs(install) == [f"{tmp_path}[test]"]
    assert install.main("lab") == 0
    assert install.calls == []


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_new_requirements_are_installed(install: Any, tmp_path: Path, name: str):
    install.main("lab")
    installs(install)
    (tmp_path / name).write_text("second")
    install.main("lab")
    assert len(installs(install)) == 1


def test_a_failed_install_is_one_sentence_and_is_tried_again(install: Any, capsys):
    install.main("lab")
    installs(install)
    install.fingerprint_of = lambda root: "another"
    install.failing = "--editable"
    assert install.main("lab") == 1
    said = capsys.readouterr().err
    assert said.startswith("The install did not finish")
    assert said.count("\n") == 1
    install.failing = None
    installs(install)
    assert install.main("lab") == 0
    assert len(installs(install)) == 1


def test_an_interrupted_install_is_taken_up_again(install: Any, monkeypatch):
    install.main("lab")
    installs(install)
    install.fingerprint_of = lambda root: "another"

    def interrupt(with_tests: bool) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(install, "install", interrupt)
        with pytest.raises(KeyboardInterrupt):
            install.main("lab")
    assert install.main("lab") == 0
    assert len(installs(install)) == 1


def test_a_moved_clone_gets_a_new_environment(install: Any, tmp_path: Path, monkeypatch):
    install.main("lab")
    installs(install)
    made = []
    monkeypatch.setattr(install, "make_venv", lambda: made.append(True) or True)
    stamp = Path(install.STAMP)
    stamp.write_text(stamp.read_text().replace(str(tmp_path), "/elsewhere"))
    install.main("lab")
    assert made == [True]


def test_without_venv_it_says_what_to_install(install: Any, monkeypatch, capsys):
    monkeypatch.setattr(install, "pip_works", lambda: False)
    install.failing = "venv"
    assert install.main("lab") == 1
    assert "sudo apt install python3-venv" in capsys.readouterr().err


def test_make_alone_lists_the_targets():
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    listed = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("make ")}
    assert {"lab", "test", "help", "build", "constraints"} <= listed
