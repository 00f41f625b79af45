"""``attend book``: run the chapters, write a Sphinx project, build it."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import nbformat
from attend_grader.judging import version
from nbformat import NotebookNode

from attend import build, chapter, glossary
from attend.book import font, pages
from attend.curriculum import CHAPTERS
from attend.errors import AttendError
from attend.readme import repository
from attend.widgets.kit import states

STATIC = Path(__file__).parent / "static"
TITLE = "Attention from scratch through Mamba"
SECONDS = 600
"""What one cell of a solved chapter may take."""

_CONF = """\
project = {title!r}
extensions = ["myst_nb", "attend.book.mathml"]
nb_execution_mode = "off"
nb_render_markdown_format = "myst"
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = {title!r}
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_js_files = ["vega.js", "book.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
suppress_warnings = ["myst.header"]  # chapters that begin with an exercise, not with a section
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
"""


def main(out: Path, chapter_ids: Sequence[str] = ()) -> int:
    """Build the book into ``out``; runs are kept beside the sources and used while these last.

    Args:
        out: a folder that is new, empty, or holds a book.
        chapter_ids: which chapters; none means all.

    Returns:
        0, or 1 where Sphinx failed.

    Raises:
        AttendError: an extra is missing, ``out`` holds something else, or a chapter does not run.
    """
    try:
        from sphinx.cmd.build import build_main
    except ImportError as error:
        raise AttendError(
            f"The book needs `pip install 'attend-course[book]'` ({error})."
        ) from None
    if out.is_dir() and any(out.iterdir()) and not (out / ".buildinfo").is_file():
        raise AttendError(f"{out} is not empty and holds no book: name another folder.")
    ready = chapter.chapter_ids()
    unknown = [each for each in chapter_ids if each not in ready]
    if unknown:
        raise AttendError(f"Unknown chapter {unknown[0]}; there are {', '.join(ready)}.")
    chosen = [each for each in ready if each in chapter_ids or not chapter_ids]
    with tempfile.TemporaryDirectory(prefix="attend-book-") as folder:
        source = Path(folder)
        for number, each in enumerate(chosen, 1):
            print(f"{number} of {len(chosen)}: {each}", flush=True)
            made = pages.page(each, ran(each), build.release_notebook(each), repository())
            build.refuse_leaks(made, chapter.read(chapter.source_path(each)))
            nbformat.write(made, source / f"{each}.ipynb")
        write_project(source, chosen)
        status = build_main(["-q", "-W", "--keep-going", "-b", "html", str(source), str(out)])
    if not status:
        print(f"Open {out / 'index.html'}")
    return status


def ran(chapter_id: str) -> NotebookNode:
    """The solved chapter with its outputs: run, or kept from a run of the same sources."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    notebook = build.solved_notebook(chapter_id)
    text = build.to_text(notebook)
    key = hashlib.sha256(f"{version.of(chapter_id)}{_sources()}{text}".encode()).hexdigest()[:16]
    kept = chapter.source_path(chapter_id).parents[2] / "artifacts" / "book" / f"{chapter_id}.ipynb"
    if kept.is_file():
        found = nbformat.read(kept, as_version=4)
        if found.metadata.get("attend", {}).get("run") == key:
            return found
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=SECONDS,
            kernel_name="python3",
            store_widget_state=True,
            resources={"metadata": {"path": folder}},
        )
        try:
            client.execute(env={**os.environ, states.ASKED: "1"})
        except CellExecutionError as error:
            raise AttendError(f"The solved chapter {chapter_id} does not run: {error}") from None
    notebook.metadata.attend["run"] = key
    kept.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, kept)
    return notebook


def _sources() -> str:
    """A digest of what a chapter's run shows besides its own text: of `attend` without the book."""
    digest = hashlib.sha256()
    for path in sorted(Path(pages.__file__).parents[1].rglob("*")):
        known = path.suffix in (".py", ".js", ".json", ".npz") and path.is_file()
        if known and path.parent != Path(pages.__file__).parent:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def write_project(source: Path, chapter_ids: Sequence[str]) -> None:
    """Write what stands around the chapters' pages: settings, first page, glossary, scripts."""
    import vl_convert

    (source / "conf.py").write_text(_CONF.format(title=TITLE), encoding="utf-8")
    (source / "index.md").write_text(_index(chapter_ids), encoding="utf-8")
    terms = f"{glossary.TEXT}\n{glossary.table(chapter_ids)}\n"
    (source / "glossary.md").write_text(terms, encoding="utf-8")
    shutil.copytree(STATIC, source / "_static")
    font.write(source / "_static")
    vega = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    (source / "_static" / "vega.js").write_text(f"(() => {{{vega}}})();", encoding="utf-8")


def _index(chapter_ids: Iterable[str]) -> str:
    """The first page: what this is, and the chapters by part."""
    shown = [entry for entry in CHAPTERS if entry.id in set(chapter_ids)]
    rows = [
        f"# {TITLE}",
        "",
        "You build every piece of a modern sequence model yourself: first in NumPy, then in "
        "PyTorch, then as GPU kernels. Each exercise is checked by code that says what went wrong "
        "and why.",
        "",
        "These pages are the course to read, with its pictures and measurements and without the "
        "answers. To work through it, install it and type `attend lab`: each chapter is a "
        "notebook.",
        "",
    ]
    trees = []
    for part in dict.fromkeys(entry.part for entry in shown):
        inside = [entry for entry in shown if entry.part == part]
        rows += [f"## {part}", "", "| | Chapter | What it answers |", "|---|---|---|"]
        rows += [f"| {e.number} | [{e.title}]({e.id}.ipynb) | {e.question} |" for e in inside]
        rows += [""]
        trees += ["```{toctree}", ":hidden:", f":caption: {part}", ""]
        trees += [f"{e.number} {e.title} <{e.id}>" for e in inside]
        trees += ["```", ""]
    rows += ["Words of the course are explained in the [glossary](glossary.md).", ""]
    trees += ["```{toctree}", ":hidden:", ":caption: More", "", "Glossary <glossary>", "```", ""]
    return "\n".join([*rows, *trees])
