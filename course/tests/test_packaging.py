"""The house stands: four packages, imports one way, nothing heavier imported than needed."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from attend.curriculum import CHAPTERS, ROOT
from packaging.requirements import Requirement

# Each package may import itself and those after it.
ORDER = ["attend", "attend_grader", "attend_solutions", "attend_kernels"]
HOMES = {
    "attend": "course",
    "attend_grader": "autograder",
    "attend_solutions": "solutions",
    "attend_kernels": "kernels",
}


def modules(package: str) -> list[Path]:
    return sorted((ROOT / HOMES[package] / package).rglob("*.py"))


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and top-level name of every import, at whatever depth it stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.split(".")[0]


def python(program: str, *options: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", program], capture_output=True, text=True, cwd=cwd
    )


@pytest.mark.parametrize("package", ORDER)
def test_imports_run_one_way(package: str):
    allowed = ORDER[ORDER.index(package) :]
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(package)
        for line, name in imported(path)
        if name in ORDER and name not in allowed
    ]
    assert modules(package)
    assert wrong == []


RUN_KERNELS = {
    "inside/tracer.py",
    "inside/compiling.py",
    "inside/interpreting.py",
    "inside/operators.py",
    "inside/watching.py",
}
"""They run learners' kernels beside submitted code, and import Triton when they are asked to."""

KERNEL_CHAPTERS = {
    "attend/kernels.py",
    "data/flash_gradients.py",
    "data/flash_kernels.py",
    "attend_solutions/interpreted.py",
    "attend_solutions/ssd_triton.py",
}
"""Of the chapters whose exercises are kernels, beside their rooms."""


def test_triton_is_imported_in_attend_kernels_only():
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for package in ORDER[:-1]
        for path in modules(package)
        for line, name in imported(path)
        if name == "triton"
        and f"{path.parent.name}/{path.name}" not in RUN_KERNELS | KERNEL_CHAPTERS
        and not path.name.startswith("triton_")
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "name",
    [
        "attend",
        "attend.charts",
        "attend.widgets",
        "attend_grader",
        "attend_grader.chapters.ch03_attention",
        "attend_solutions.attention",
        "attend_kernels",
    ],
)
def test_numpy_chapters_never_import_torch(name: str):
    done = python(
        f"import sys, {name}; print([m for m in ('torch', 'triton') if m in sys.modules])"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_the_command_starts_light():
    heavy = "('torch', 'numpy', 'IPython', 'nbformat', 'nbgrader', 'jupytext')"
    done = python(
        f"import sys, attend.cli, attend.lab; print([m for m in {heavy} if m in sys.modules])"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["kernels", "solutions", "autograder", "course"])
def test_the_repository_root_is_not_on_the_path(name: str):
    """A top-level ``kernels`` would be taken for the package that transformers looks for."""
    where_we_are = [Path(entry).resolve() for entry in sys.path if entry]
    assert ROOT not in where_we_are
    done = python(f"import {name}", "-P")
    assert f"No module named '{name}'" in done.stderr


def test_transformers_does_not_mistake_our_folder():
    done = python(
        "from transformers.utils import is_kernels_available as f; print(f())", "-P", cwd=ROOT
    )
    assert done.stdout.strip() == "False", done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = place.glob("*.whl")
    return made


def test_an_installed_wheel_opens_the_course_in_an_empty_folder(wheel: Path, tmp_path: Path):
    installed, here = tmp_path / "installed", tmp_path / "here"
    here.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)

    def attend(*arguments: str, cwd: Path = here) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "attend", *arguments],
            capture_output=True,
            text=True,
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(installed)},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "Copied 03_attention.ipynb." in attend("copy")
    work = here / "attend-work"
    names = {path.name for path in work.glob("*.ipynb")}
    ready = {f"{chapter.id}.ipynb" for chapter in CHAPTERS if chapter.is_ready()}
    assert names == ready | {"start.ipynb", "glossary.ipynb"}
    assert f"{work} has all chapters" in attend("copy")
    assert "of 7 exercises done" in attend("progress", cwd=work)  # from inside, too
    assert {path.name for path in here.iterdir()} == {"attend-work"}


def test_the_wheel_holds_the_four_packages_and_nothing_else(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(ORDER)
    assert "attend/jupyter/labconfig/page_config.json" in names
    assert "attend/report/templates/page.html" in names
    assert "attend/skeleton/templates/text.py.jinja" in names
    assert {"attend/widgets/drag_query.js", "attend/widgets/kit/live.js"} <= set(names)
    assert not [name for name in names if "/tests/" in name or "__pycache__" in name]
    licences = {Path(name).name for name in names if "/licenses/" in name}
    assert licences == {"LICENSE", "LICENSE-PROSE"}


def test_constraints_pin_every_dependency_and_name_no_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    text = (ROOT / "constraints.txt").read_text()
    pinned = {line.split("==")[0] for line in text.splitlines() if "==" in line}
    wanted = {Requirement(requirement).name for group in groups for requirement in group}
    for name in wanted - {project["name"]}:
        assert name in pinned, f"{name} is not pinned: run make constraints"
    assert "torch==2.13.0" in text.splitlines()
    assert "://" not in text
    assert "+cpu" not in text


@pytest.mark.parametrize(
    ("platform", "machine", "wanted"),
    [
        ("Linux", "x86_64", "triton"),
        ("Linux", "aarch64", "triton"),
        ("Windows", "AMD64", "triton-windows"),
        ("Darwin", "arm64", None),
    ],
)
def test_triton_is_asked_for_only_where_it_has_wheels(
    platform: str, machine: str, wanted: str | None
):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    there = {"platform_system": platform, "platform_machine": machine}
    asked = [
        requirement.name
        for requirement in map(Requirement, project["dependencies"])
        if requirement.name.startswith("triton")
        and (requirement.marker is None or requirement.marker.evaluate(there))
    ]
    assert asked == ([wanted] if wanted else [])
