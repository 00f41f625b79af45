"""Binder, as far as a machine without Docker can prove it: the steps repo2docker takes, taken.

A copy of the repository, a fresh environment from ``binder/``'s own files, ``postBuild``, the
server through ``start``, and chapter 03 opened and run in Chromium.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest
from attend.curriculum import ROOT

from .browser import Server, browse, serve

# What repo2docker reads in binder/ (jupyter/ is read by start). Another name would go unnoticed.
READ = {"apt.txt", "postBuild", "requirements.txt", "runtime.txt", "start", "jupyter"}
LEFT_BEHIND = (".venv", ".git", "work", "artifacts", "__pycache__", ".*_cache", ".hypothesis")


def test_every_file_is_one_that_repo2docker_reads():
    assert {path.name for path in (ROOT / "binder").iterdir()} == READ


@pytest.mark.parametrize("script", ["postBuild", "start"])
def test_scripts_can_be_executed(script: str):
    path = ROOT / "binder" / script
    assert os.access(path, os.X_OK)
    subprocess.run(["bash", "-n", path], check=True)


def test_repo2docker_itself_reads_it_as_meant(monkeypatch: pytest.MonkeyPatch):
    """With ``pip install jupyter-repo2docker``: what the image would be made of, without Docker."""
    app = pytest.importorskip("repo2docker.app", reason="needs jupyter-repo2docker")
    monkeypatch.chdir(ROOT)
    packs = (kind("ubuntu:22.04") for kind in app.Repo2Docker().buildpacks)
    pack = next(each for each in packs if each.detect())
    pack.platform = "linux/amd64"
    assert type(pack).__name__ == "PythonBuildPack"
    assert (pack.binder_dir, pack.python_version) == ("binder", "3.11")
    ((_, before),) = pack.get_preassemble_scripts()
    assert " gcc libc6-dev " in before
    ((_, install),) = pack.get_assemble_scripts()
    assert install.endswith('-r "binder/requirements.txt"')
    assert pack.get_post_build_scripts() == ["binder/postBuild"]
    assert pack.get_start_script() == "${REPO_DIR}/binder/start"
    dockerfile = pack.render()
    whole, installs = "COPY --chown=1000:1000 src/ ${REPO_DIR}/", f"RUN {install}"
    assert 0 < dockerfile.find(whole) < dockerfile.find(installs), "editable: needs all of it"
    assert "RUN ./binder/postBuild" in dockerfile
    assert 'ENV R2D_ENTRYPOINT="${REPO_DIR}/binder/start"' in dockerfile


@dataclass(frozen=True)
class Image:
    """What repo2docker would make: the repository, and the environment its commands run in."""

    root: Path
    environment: dict[str, str]

    @property
    def python(self) -> Path:
        return self.root / ".venv" / "bin" / "python"


@pytest.fixture(scope="module")
def image() -> Image:
    """Follow binder/, in repo2docker's order.

    The environment is made afresh when anything it is made from has changed; two gigabytes take as
    long to delete as to install, so it is kept otherwise. The repository in it is always fresh.
    """
    if sys.platform != "linux":
        pytest.skip("Binder's machines run Linux, and so do binder/'s requirements")
    root = ROOT / "artifacts" / "binder"
    environment_path, stamp = root / ".venv", root / ".venv" / "made-from"
    # Where an extra index cannot be reached, pip asks it again for each of ~150 packages. And 0 is
    # pip's way to say that it shall not compile them: Python does that for the few that are used.
    environment = {**os.environ, "PIP_RETRIES": "0", "PIP_NO_COMPILE": "0"}
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE"):
        environment.pop(name, None)
    environment["PATH"] = f"{environment_path / 'bin'}{os.pathsep}{environment['PATH']}"
    made = Image(root, environment)

    for leftover in root.glob("*"):
        if leftover != environment_path:
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*LEFT_BEHIND), dirs_exist_ok=True)
    origins = [root / "pyproject.toml", root / "constraints.txt", root / "binder/requirements.txt"]
    made_from = "\n".join([str(root), sys.version, *(path.read_text() for path in origins)])
    if not stamp.exists() or stamp.read_text() != made_from:
        shutil.rmtree(environment_path, ignore_errors=True)
        venv.create(environment_path, with_pip=True)
        run([made.python, "-m", "pip", "install", "-qq", "-r", "binder/requirements.txt"], made)
        stamp.write_text(made_from)
    run(["./binder/postBuild"], made)
    return made


def run(step: list[str | Path], image: Image) -> None:
    done = subprocess.run(
        step, cwd=image.root, env=image.environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def server(image: Image) -> Iterator[Server]:
    """The server, started through ``binder/start``."""
    through_start = image.root / ".venv" / "through-start"
    through_start.write_text(f'#!/bin/sh\nexec "{image.root}/binder/start" "{image.python}" "$@"\n')
    through_start.chmod(0o755)
    with serve(image.root, python=str(through_start), environment=image.environment) as up:
        yield up


@pytest.mark.slow
@pytest.mark.deep
def test_the_environment_has_the_cpu_build_and_no_cuda(image: Image):
    frozen = subprocess.run(
        [image.python, "-m", "pip", "list", "--format=freeze"],
        env=image.environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.lower()
    assert "torch==2.13.0+cpu" in frozen
    assert "nvidia" not in frozen
    assert "pytest" not in frozen  # the learners' install, not the developers'


@pytest.mark.slow
@pytest.mark.deep
def test_post_build_copies_chapters_and_start_page(image: Image):
    work = {path.name for path in (image.root / "work").iterdir()}
    assert {"start.ipynb", "03_attention.ipynb", ".attend"} <= work


@pytest.mark.slow
@pytest.mark.deep
def test_the_server_opens_the_start_page(server: Server):
    with urlopen(f"{server.url}?token={server.token}") as answer:
        assert "/lab/tree/work/start.ipynb" in answer.url


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.browser
def test_chapter_03_runs_in_chromium(server: Server):
    with browse(server) as lab:
        lab.open("work/03_attention.ipynb")
        lab.run_all(300)
        errors = lab.page.locator('.jp-OutputArea [data-mime-type$="vnd.jupyter.stderr"]')
        assert errors.all_inner_texts() == []
        assert lab.page.get_by_text("not started").count() > 0
        assert lab.page.locator(".jp-OutputArea svg").count() > 0
        lab.screenshot("binder-chapter-03")
        lab.assert_quiet()
