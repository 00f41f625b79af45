"""A real JupyterLab in a real browser, with no network: the harness of the browser tests.

    from .browser import lab          # the fixture; `Lab` is what it yields

    def test_it(lab):
        lab.write("a.ipynb", notebook)
        lab.open("a.ipynb")
        lab.run_all()
        assert lab.page.locator("svg").count()
        lab.assert_quiet()            # no console error, nothing asked of the network

`serve(directory)` starts the server alone, `browse(server)` a browser on it; both are context
managers, so other tests may serve a directory (or another environment's Python) of their own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote, urlsplit
from urllib.request import urlopen

import nbformat
import pytest
from playwright.sync_api import ConsoleMessage, Locator, Page, Route, sync_playwright

SCREENSHOTS = Path(__file__).resolve().parents[2] / "artifacts" / "screenshots"
NOTEBOOK, APPUTILS = "@jupyterlab/notebook-extension", "@jupyterlab/apputils-extension"

SETTINGS = {
    # every cell in the page, not only those in view; and no news, update or kernel questions
    f"{NOTEBOOK}:tracker": {"windowingMode": "none"},
    f"{APPUTILS}:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
    f"{APPUTILS}:kernels-settings": {"showStatusBarItem": True},
}
CHROMIUM = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)


@dataclass(frozen=True)
class Server:
    """A running server: its address (ending in a slash), what it serves, and what it says."""

    url: str
    token: str
    directory: Path
    log: Path


@contextmanager
def serve(
    directory: Path, *, python: str = sys.executable, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Start JupyterLab on a free port, on `directory`, with config, data and runtime of its own."""
    with tempfile.TemporaryDirectory(prefix="attend-lab-") as scratch:
        home = Path(scratch)
        overrides = home / "config" / "labconfig" / "default_setting_overrides.json"
        overrides.parent.mkdir(parents=True)
        overrides.write_text(json.dumps(SETTINGS))
        folders = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
            "IPYTHONDIR": "ipython",
        }
        places = {name: str(home / folder) for name, folder in folders.items()}
        log = home / "server.log"
        token = "a-token-for-tests"
        command = [python, "-m", "jupyterlab", "--no-browser", "--ServerApp.ip=127.0.0.1"]
        command += ["--ServerApp.port=0", f"--IdentityProvider.token={token}"]
        command += ["--LabApp.expose_app_in_browser=True", "--allow-root"]
        # should the tests be killed, the server ends by itself
        command += ["--MappingKernelManager.cull_idle_timeout=300"]
        command += ["--ServerApp.shutdown_no_activity_timeout=300"]
        command += [f"--ServerApp.root_dir={directory}"]
        with log.open("w") as output:
            process = subprocess.Popen(
                command,
                cwd=directory,
                env={**os.environ, **places, **(environment or {})},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield Server(_address(process, home / "runtime", log), token, directory, log)
        finally:
            _stop(process)


def _address(process: subprocess.Popen[bytes], runtime: Path, log: Path, seconds: int = 60) -> str:
    """Wait until the server answers; return its address."""
    for _ in range(10 * seconds):
        if process.poll() is not None:
            break
        for file in runtime.glob("jpserver-*.json"):
            with suppress(URLError, json.JSONDecodeError):  # not yet
                url = json.loads(file.read_text())["url"]
                with urlopen(f"{url}api", timeout=10):
                    return url
        time.sleep(0.1)
    raise RuntimeError(
        f"JupyterLab did not start in {seconds} s; it said:\n{log.read_text()[-3000:]}"
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server and its kernels: ask, then insist."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, sign)
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                continue


@dataclass
class Lab:
    """A browser on a server. `problems` and `external` collect what must stay empty."""

    server: Server
    page: Page
    problems: list[str] = field(default_factory=list)
    external: list[str] = field(default_factory=list)

    def write(self, name: str, notebook: nbformat.NotebookNode) -> Path:
        """Save a notebook in the served directory."""
        path = self.server.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, path)
        return path

    def show(self, name: str, *sources: str) -> None:
        """Open a notebook of these code cells, and run it."""
        self.show_saved(name, *(nbformat.v4.new_code_cell(source.strip()) for source in sources))
        self.run_all()

    def show_saved(self, name: str, *cells: nbformat.NotebookNode) -> None:
        """Open a notebook of these cells as somebody else saved it: not trusted, and not run."""
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        metadata = {"kernelspec": kernel}
        self.write(name, nbformat.v4.new_notebook(cells=list(cells), metadata=metadata))
        self.open(name)

    def visit(self, path: str) -> None:
        """Go to a path of the server (with the token)."""
        mark = "&" if "?" in path else "?"
        self.page.goto(f"{self.server.url}{path}{mark}token={self.server.token}")

    def open(self, name: str) -> None:
        """Open a notebook in a fresh workspace and wait until its kernel is ready."""
        self.visit(f"lab/tree/{quote(name)}?reset")
        self.page.wait_for_function("() => window.jupyterapp?.shell?.currentWidget", timeout=60_000)
        self.script(
            """await app.restored;
            for (let i = 0; i < 600; i++) {
                panel = app.shell.currentWidget;
                if (panel?.sessionContext && panel.context.isReady) break;
                await new Promise(done => setTimeout(done, 100));
            }
            await panel.context.ready; await panel.revealed; await panel.sessionContext.ready;
            await panel.sessionContext.session.kernel.info;
            app.shell.collapseLeft();"""
        )

    def script(self, body: str, argument: Any = None) -> Any:
        """Run JavaScript with `app`, `panel` (the notebook in front) and `argument` at hand."""
        return self.page.evaluate(
            f"""async (argument) => {{
                const app = window.jupyterapp; let panel = app.shell.currentWidget; {body} }}""",
            argument,
        )

    def run_all(self, seconds: float = 120) -> None:
        """Run every cell, wait until the kernel is idle and the outputs have settled."""
        self.script("await app.commands.execute('notebook:run-all-cells')")
        self.idle(seconds)

    def idle(self, seconds: float = 60) -> None:
        """Wait until no cell runs or waits and the kernel is idle."""
        self.page.wait_for_function(
            """() => { const panel = window.jupyterapp.shell.currentWidget;
                const kernel = panel.sessionContext.session?.kernel;
                const busy = [...panel.node.querySelectorAll('.jp-InputPrompt')]
                    .some(prompt => prompt.textContent.includes('[*]'));
                return kernel?.status === 'idle' && !busy; }""",
            timeout=1000 * seconds,
        )

    def set_source(self, index: int, source: str) -> None:
        """Replace a cell's source, counting all cells from 0."""
        self.script(
            "panel.content.widgets[argument[0]].model.sharedModel.setSource(argument[1])",
            [index, source],
        )

    def cell(self, index: int) -> Locator:
        """Return a cell's place in the page, counting all cells from 0."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def said(self, panel: str, index: int | None = None) -> str:
        """What a widget's picture says of itself; of the cell at `index`, or of the whole page."""
        place = self.page if index is None else self.cell(index)
        return self.words(place.locator(f"svg[data-panel={panel}]"))

    def words(self, place: Locator) -> str:
        """What a picture says of itself, or an element's text: of one node, asked in one go.

        Asked twice, the node may be another: a widget puts a picture in the place of a message
        while it is read, and a picture has no inner text.
        """
        return place.evaluate("node => node.getAttribute('aria-label') || node.textContent || ''")

    def until(self, words: str, say: Callable[[], str]) -> str:
        """Wait up to 5 s until `say()` holds `words`; return all it says."""
        said = ""
        for _ in range(100):
            said = say()
            if words in said:
                return said
            self.page.wait_for_timeout(50)
        raise AssertionError(f"not said within 5 s: {words!r}, but {said!r}")

    def changed(self, before: str, say: Callable[[], str]) -> str:
        """Wait up to 5 s until `say()` is another than `before`; return it."""
        for _ in range(100):
            now = say()
            if now != before:
                return now
            self.page.wait_for_timeout(50)
        raise AssertionError(f"the picture did not change within 5 s from {before[:500]!r}")

    def assert_fits(self, cell: Locator, pictures: str = "svg[data-panel]") -> None:
        """Fail when a picture is wider than its cell's outputs, or too small to read."""
        area = cell.locator(".jp-OutputArea-output").first.bounding_box()
        assert area is not None
        for picture in cell.locator(pictures).all():
            box = picture.bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= area["x"] + area["width"] + 1
            assert box["width"] >= 240, "too small to read"

    def assert_text_fits(self) -> None:
        """Fail when an equation sticks out of its cell, or a printed line had to be broken."""
        wide = self.page.evaluate(
            """() => [...document.querySelectorAll('.jp-RenderedMarkdown')].flatMap(text => {
                const edge = text.getBoundingClientRect().right + 1;
                return [...text.querySelectorAll('mjx-math')]
                    .filter(math => math.getBoundingClientRect().right > edge)
                    .map(math => math.closest('mjx-container').textContent);
            })"""
        )
        assert not wide, f"equations wider than the page: {wide}"
        broken = self.page.evaluate(
            """() => [...document.querySelectorAll('.jp-RenderedText pre')].flatMap(pre => {
                const lines = pre.textContent.replace(/\\n$/, '').split('\\n');
                const shown = pre.clientHeight / parseFloat(getComputedStyle(pre).lineHeight);
                return Math.round(shown) > lines.length ? [lines.slice(0, 2).join(' / ')] : [];
            })"""
        )
        assert not broken, f"printed lines too long for the page: {broken}"

    def theme(self, name: str) -> None:
        """Change JupyterLab's theme: Light or Dark."""
        self.script(
            "await app.commands.execute('apputils:change-theme', {theme: argument})",
            f"JupyterLab {name}",
        )
        light = "true" if name == "Light" else "false"
        self.page.wait_for_selector(f"body[data-jp-theme-light={light}]", state="attached")
        self.page.wait_for_timeout(300)  # the style sheets change places

    def show_files(self) -> None:
        """Open the file browser, which takes room from the notebook."""
        self.script("await app.commands.execute('filebrowser:activate')")
        self.page.wait_for_timeout(300)

    def resize(self, width: int, height: int = 900) -> None:
        """Give the window another size and let the page settle."""
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.wait_for_timeout(300)

    def screenshot(self, name: str, of: Locator | None = None) -> Path:
        """Save a picture of the window, or of one part of the page, under artifacts/screenshots."""
        path = SCREENSHOTS / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        if of is None:
            self.page.screenshot(path=path)
        else:
            size, box = self.page.viewport_size, of.bounding_box()
            assert size is not None
            assert box is not None
            self.resize(size["width"], max(size["height"], int(box["height"]) + 200))
            of.scroll_into_view_if_needed()
            of.screenshot(path=path)
            self.resize(size["width"], size["height"])
        return path

    def assert_quiet(self) -> None:
        """Fail when the page said an error or asked for anything beyond the local server."""
        assert not self.external, f"asked of the network: {self.external}"
        assert not self.problems, "the browser's console: " + "\n".join(self.problems)


@contextmanager
def browse(server: Server, *, width: int = 1280, height: int = 900) -> Iterator[Lab]:
    """Open Chromium, with an empty profile, on a server; only that server can be reached."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed: apt install chromium")
    home = urlsplit(server.url)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as profile:
        context = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=chromium,
            args=list(CHROMIUM),
            viewport={"width": width, "height": height},
            service_workers="block",
        )
        lab = Lab(server, context.pages[0])

        def allow(route: Route) -> None:
            url = urlsplit(route.request.url)
            if url.netloc == home.netloc or url.scheme in ("data", "blob"):
                route.continue_()
            else:
                lab.external.append(route.request.url)
                route.abort()

        def hear(message: ConsoleMessage) -> None:
            if message.type == "error" or _GRAVE.search(message.text):
                lab.problems.append(f"{message.type}: {message.text} ({message.location})")

        def socket(opened: Any) -> None:
            if urlsplit(opened.url).netloc != home.netloc:
                lab.external.append(opened.url)

        context.route("**/*", allow)
        lab.page.on("console", hear)
        lab.page.on("pageerror", lambda error: lab.problems.append(f"uncaught: {error}"))
        lab.page.on("websocket", socket)
        try:
            yield lab
        finally:
            context.close()


# warnings that mean a picture is wrong: Vega-Lite complaining about a chart's specification
# (but not Lab's own that a busy machine was slow to load its plugin for Vega)
_GRAVE = re.compile(r"^(?!Plugin \S+ .* to activate).*(vega|input spec uses)", re.IGNORECASE)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """JupyterLab on an empty directory, open in Chromium; skipped where there is no Chromium."""
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed: apt install chromium")
    with serve(tmp_path_factory.mktemp("lab")) as server, browse(server) as opened:
        yield opened
