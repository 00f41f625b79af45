"""``attend doctor``: one line for each thing, and what to do where something is wrong."""

from __future__ import annotations

import builtins
import shutil
from pathlib import Path
from typing import Any

import pytest
from attend import doctor, lab
from attend.errors import AttendError


def test_a_sound_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert doctor.main(tmp_path) == 0
    said = capsys.readouterr().out
    for what in ("Python", "Packages", "numpy", "torch", "Triton", "Sandbox", "Port", "notebooks"):
        assert f" {what}" in said
    assert "broken" not in said


def test_packages_that_are_missing_or_too_old_are_named(monkeypatch: pytest.MonkeyPatch):
    real = doctor.version

    def version(name: str) -> str:
        if name == "altair":
            raise doctor.PackageNotFoundError(name)
        return "5.0" if name == "nbformat" else real(name)

    monkeypatch.setattr(doctor, "version", version)
    (line,) = doctor.packages(Path())
    assert line.state == "broken"
    assert "altair is not installed" in line.found
    assert "nbformat is 5.0, needed >=5.10" in line.found
    assert "make lab" in line.to_do


def test_a_package_that_does_not_import_is_broken(monkeypatch: pytest.MonkeyPatch):
    def broken(name: str) -> Any:
        if name == "torch":
            raise OSError("libcublas.so.12: cannot open shared object file")
        return __import__(name)

    monkeypatch.setattr(doctor.importlib, "import_module", broken)
    numpy, torch = doctor.numerics(Path())
    assert numpy.state == "ok"
    assert torch.state == "broken"
    assert "libcublas" in torch.found
    assert "--force-reinstall torch" in torch.to_do


def test_no_triton_leaves_the_rest_of_the_course(monkeypatch: pytest.MonkeyPatch):
    def version(name: str) -> str:
        raise doctor.PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "version", version)
    (line,) = doctor.triton(Path())
    assert line.state == "missing"
    assert "Chapters 17" in line.to_do


def test_no_sandbox_concerns_instructors_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    (line,) = doctor.sandbox(Path())
    assert line.state == "missing"
    assert "apt install bubblewrap" in line.to_do


def test_no_port_and_no_room_are_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def none(port: int | None) -> int:
        raise AttendError("All ports are in use.")

    monkeypatch.setattr(lab, "choose_port", none)
    line, *_ = doctor.ports(tmp_path)
    assert line.state == "broken"
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage._replace(free=10 * 2**20))
    (line,) = doctor.folder(tmp_path / "work")
    assert line.state == "broken"
    assert "10 MiB free" in line.found


def test_what_is_broken_ends_in_1_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    bad = doctor.Line("broken", "Hands", "two left ones", "Take care.")
    monkeypatch.setattr(doctor, "LOOKS", (lambda work: iter([bad]),))
    assert doctor.main(tmp_path) == 1
    said = capsys.readouterr().out
    assert "broken   Hands: two left ones\n         → Take care." in said
    assert builtins.str(bad) in said
