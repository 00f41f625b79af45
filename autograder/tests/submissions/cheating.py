"""Submissions that want points without an answer, or want to read or write what is not theirs."""

from __future__ import annotations

from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_output

from .case import Case, Edit, answer, at, edited, own, softmax, top

FAILED, CRASH = {"softmax": "FAILED"}, {"softmax": "CRASH"}
INSIDE = "The code reaches into the grader's side of its process ({})."
"""How the flag begins that tells an instructor to look at a submission."""


def resubmitted(folder: Path, notebook: NotebookNode, release: NotebookNode) -> None:
    """Hand in what ends its process wherever it is asked; a good version was graded before."""
    for name in ("softmax", "attention_scores", "attention_backward"):
        cell = at(notebook, name)
        cell.source += "\nimport os\nos._exit(3)\n"
    edited()(folder, notebook, release)


def shown(notebook: NotebookNode) -> None:
    """Put a script into text, into an output and into an error's message."""
    script = "<script>window.stolen = 1</script><img src=x onerror='window.stolen = 1'>"
    notebook.cells.append(new_markdown_cell(f"{script} [link](javascript:window.stolen=1)"))
    at(notebook, "softmax").outputs = [new_output("display_data", {"text/html": script})]
    answer("softmax", f"def softmax(scores, axis=-1):\n    raise ValueError({script!r})")(notebook)


def reads(*paths: str) -> Edit:
    """Print what the files and folders named by these patterns hold, and raise if none is there."""
    body = f"""
    found = [path for pattern in {paths!r} for path in glob.glob(pattern, recursive=True)]
    texts = [open(path, errors="replace").read() for path in found if os.path.isfile(path)]
    print(texts)
    if not texts:
        raise FileNotFoundError("nothing there")
    return _right(scores, axis)
    """
    return softmax(body, "import glob, os")


def uses_the_jacobian(notebook: NotebookNode) -> None:
    """Let the answer to attention_backward begin with a call of ``slope``."""
    cell = at(notebook, "attention_backward")
    head = cell.source.index("    ### BEGIN SOLUTION")
    cell.source = f"{cell.source[:head]}    slope(np.ones(3) / 3)\n{cell.source[head:]}"


CHEATING = (
    Case(
        "40",
        "an object that is equal to everything",
        "Values are compared outside, by exact type: 0.",
        edited(
            softmax(
                "return Equal()",
                """
                class Equal:
                    shape, dtype, ndim = (3,), np.dtype(float), 1
                    __eq__ = __le__ = __ge__ = lambda self, other: True
                    __array__ = lambda self, *a, **k: np.full(3, np.nan)
                    __getattr__ = lambda self, name: lambda *a, **k: self
                """,
            )
        ),
        FAILED,
        says="is of type Equal",
        stock=True,
    ),
    Case(
        "41",
        "an AST transformer that deletes asserts",
        "No assert runs in its process: only what its own code earns.",
        edited(
            softmax("return scores"),
            own(
                """
                import ast
                class NoAsserts(ast.NodeTransformer):
                    def visit_Assert(self, node):
                        return ast.Pass()
                get_ipython().ast_transformers.append(NoAsserts())
                """
            ),
        ),
        FAILED,
        flags=(INSIDE.format("ast_transformers"),),
    ),
    Case(
        "42",
        "an input transformer that blanks test cells",
        "Tests do not run in its process: only what its own code earns.",
        edited(
            softmax("return scores"),
            own(
                """
                def blank(lines):
                    return [] if any("check(" in line for line in lines) else lines
                get_ipython().input_transformers_cleanup.append(blank)
                """
            ),
        ),
        FAILED,
        flags=(INSIDE.format("input_transformers_cleanup"),),
        stock=True,
    ),
    Case(
        "43",
        "a forged execute_result",
        "Nothing it shows is read: 0.",
        edited(
            softmax(
                """
                get_ipython().displayhook.write_format_data({"text/plain": "8"})
                get_ipython().kernel.send_response("execute_result", {"data": {"text/plain": "8"}})
                """
            )
        ),
        FAILED,
        says="AttributeError",
    ),
    Case(
        "44",
        "a formatter that prints NaN as every number",
        "The score is written outside its process: 0 for what is wrong.",
        edited(
            softmax("return scores"),
            own(
                """
                plain = get_ipython().display_formatter.formatters["text/plain"]
                for kind in (int, float, np.ndarray):
                    plain.for_type(kind, lambda value, printer, cycle: printer.text("nan"))
                """
            ),
        ),
        FAILED,
        stock=True,
    ),
    Case(
        "45",
        "a report with a negative score",
        "It is a value of a wrong type: 0, and nothing is subtracted.",
        edited(softmax("return Report()", "class Report:\n    __repr__ = lambda self: '-100'")),
        FAILED,
    ),
    Case(
        "46",
        "a report with more than the maximum",
        "It is a number of the wrong shape: 0.",
        edited(softmax("return 800")),
        FAILED,
    ),
    Case(
        "47",
        "numpy and torch patched in place, and the checks with them",
        "Oracles and comparisons are in another process: 0.",
        edited(
            softmax(
                "return scores",
                """
                import attend_grader, sys
                np.allclose = np.array_equal = np.testing.assert_allclose = lambda *a, **k: True
                np.abs = lambda value: np.zeros_like(value)
                attend_grader.check = check = lambda *a, **k: 8
                sys.modules["torch"] = np
                """,
            ),
        ),
        FAILED,
        flags=(INSIDE.format("sys.modules"),),
        stock=True,
    ),
    Case(
        "48",
        "reading the solutions",
        "They are not there: 0.",
        edited(
            softmax(
                "return stolen(scores, axis)",
                """
                import attend_solutions.attention as answers
                stolen = answers.softmax
                """,
            )
        ),
        {"softmax": "INVALID"},
        stock=True,
    ),
    Case(
        "48b",
        "looking for solutions and checks anywhere in the file system",
        "They are not there: 0.",
        edited(
            softmax(
                """
                places = [f"{place}/attend*/**/*.py" for place in sys.path]
                for pattern in (*places, "@ROOT@/**/*", "/tmp/**/*", "/home/**/*", "/root/**/*"):
                    for path in glob.glob(pattern, recursive=True):
                        if os.path.isfile(path):
                            text = open(path, errors="replace").read()
                            if "def softmax(" in text or "agree_untouched" in text:
                                return _right(scores, axis)
                raise FileNotFoundError("nothing there")
                """,
                "import glob, os, sys",
            )
        ),
        FAILED,
        says="nothing there",
    ),
    Case(
        "49",
        "reading another's submission",
        "It is not there: 0.",
        edited(reads("@ROOT@/submitted/*/*/*.ipynb", "/tmp/**/*.ipynb", "/home/**/*.ipynb")),
        FAILED,
        says="nothing there",
        stock=True,
    ),
    Case(
        "50",
        "looking for hidden inputs and right answers in memory",
        "Only the arguments of the call itself are there: 0.",
        edited(
            softmax(
                """
                for frame in [sys._getframe(depth) for depth in range(6)]:
                    for value in frame.f_locals.values():
                        if isinstance(value, dict) and "want" in value:
                            return value["want"]
                for value in gc.get_objects():
                    if isinstance(value, dict) and ("want" in value or "reference" in value):
                        found = value.get("want", value.get("reference"))
                        if isinstance(found, np.ndarray) and found.shape == scores.shape:
                            return found
                        if callable(found):
                            return found(scores, axis)
                return scores
                """,
                "import gc, sys",
            )
        ),
        FAILED,
        flags=(INSIDE.format("f_locals, gc.get_objects, sys._getframe"),),
    ),
    Case(
        "51",
        "writing 99 points into the gradebook",
        "It is not there, and nothing outside can be written: 0.",
        edited(
            softmax(
                """
                with sqlite3.connect("file:@ROOT@/gradebook.db?mode=rw", uri=True) as book:
                    book.execute("update grade set manual_score = 99")
                return _right(scores, axis)
                """,
                "import sqlite3",
            )
        ),
        FAILED,
        says="unable to open database file",
        stock=True,
    ),
    Case(
        "51b",
        "writing into the course directory, the home, Python and the grader's packages",
        "Everything but a private /tmp is read-only or not there: 0.",
        edited(
            softmax(
                """
                written = 0
                for place in ("@ROOT@/x", os.path.expanduser("~root/x"), np.__file__, "/attend/x",
                              sys.executable, "/usr/lib/x", "/etc/x", "/dev/x", "/proc/sys/x"):
                    try:
                        open(place, "w").write("stolen")
                        written += 1
                    except OSError: pass
                if not written:
                    raise PermissionError("nothing could be written")
                return _right(scores, axis)
                """,
                "import os, sys",
            )
        ),
        FAILED,
        says="nothing could be written",
    ),
    Case(
        "52",
        "a malicious pickle",
        "Nothing is ever unpickled; it is a value of a wrong type: 0.",
        edited(
            softmax(
                "return Pickled()",
                """
                import os
                class Pickled(np.ndarray):
                    __new__ = lambda cls: np.zeros(3).view(cls)
                    def __reduce__(self):
                        return os.system, ("touch @ROOT@/pickled",)
                """,
            )
        ),
        FAILED,
        says="Pickled",
    ),
    Case(
        "105",
        "a later chapter's helper in place of an answer",
        "A chapter finds nothing of later ones: its cell fails, INVALID.",
        edited(
            top(
                "scaled_dot_product_attention",
                "from attend_solutions.multi_head import masked_attention",
            )
        ),
        {"scaled_dot_product_attention": "INVALID"},
        says="No module named 'attend_solutions.multi_head'",
    ),
    Case(
        "106",
        "a library's softmax as a default argument",
        "The chapter's jail has no such library: its cell fails, INVALID.",
        edited(
            answer(
                "softmax",
                """
                import scipy.special as sp
                def softmax(scores, axis=-1, sm=sp.softmax):
                    return sm(scores, axis=axis)
                """,
            )
        ),
        {"softmax": "INVALID"},
        says="scipy is not allowed in chapter 03_attention",
    ),
    Case(
        "107",
        "an executor patched to tell no aliases, and a forbidden function behind one",
        "Aliases are read outside, and the function refuses: 0; flagged.",
        edited(
            top(
                "attention_backward",
                """
                import attend_grader.inside.executor
                attend_grader.inside.executor.origins = lambda *a: {}
                slope = softmax_jacobian
                """,
            ),
            uses_the_jacobian,
        ),
        {"attention_backward": "FAILED"},
        flags=(INSIDE.format("attend_grader.inside"),),
        says="softmax_jacobian",
    ),
    Case(
        "108",
        "a forbidden function in a closure",
        "It refuses where it is called: 0.",
        edited(
            top(
                "attention_backward",
                """
                def keep(function):
                    return lambda weights: function(weights)
                slope = keep(softmax_jacobian)
                """,
            ),
            uses_the_jacobian,
        ),
        {"attention_backward": "FAILED"},
        says="softmax_jacobian",
    ),
    Case(
        "112",
        "aliases turned off through a traceback's frames, and a forbidden function behind one",
        "Aliases are read outside, and the function refuses: 0; flagged.",
        edited(
            top(
                "attention_backward",
                """
                def turn_off():
                    try:
                        raise ValueError
                    except ValueError as error:
                        frame = error.__traceback__.tb_frame
                    while frame is not None:
                        if "origins" in frame.f_globals:
                            frame.f_globals["origins"] = lambda *a: {}
                        frame = frame.f_back
                def slope(weights, found=softmax_jacobian):
                    turn_off()
                    return found(weights)
                """,
            ),
            uses_the_jacobian,
        ),
        {"attention_backward": "FAILED"},
        flags=(INSIDE.format("f_back, f_globals, tb_frame"),),
        says="softmax_jacobian",
    ),
    Case(
        "113",
        "a forbidden function under a joined name, from builtins' own table",
        "It refuses where it is called: 0; flagged.",
        edited(
            top(
                "attention_backward",
                """
                import builtins
                slope = vars(builtins)["ev" + "al"]("softmax_" + "jacobian")
                """,
            ),
            uses_the_jacobian,
        ),
        {"attention_backward": "FAILED"},
        flags=("The code uses builtins: functions that are not allowed could be behind it",),
        says="softmax_jacobian",
    ),
    Case(
        "114",
        "a forbidden function under another name, bound in `globals()`",
        "It refuses where it is called: 0.",
        edited(
            top(
                "attention_backward",
                """
                def slope(weights):
                    return weights
                globals()["slo" + "pe"] = globals()["softmax_" + "jacobian"]
                """,
            ),
            uses_the_jacobian,
        ),
        {"attention_backward": "FAILED"},
        says="softmax_jacobian",
    ),
    Case(
        "115",
        "a forbidden function's code, put into a function of its own",
        "Such code refuses wherever it is: 0; flagged.",
        edited(
            top(
                "attention_backward",
                """
                def slope(weights):
                    return weights
                slope.__code__ = softmax_jacobian.__code__
                """,
            ),
            uses_the_jacobian,
        ),
        {"attention_backward": "FAILED"},
        flags=(INSIDE.format("__code__"),),
        says="softmax_jacobian",
    ),
    Case(
        "116",
        "a forbidden function in a module that `%%writefile` wrote",
        "It refuses where it is called: 0.",
        edited(
            own(
                """
                %%writefile mine.py
                def called(function):
                    return lambda weights: function(weights)
                """
            ),
            top("attention_backward", "import mine\nslope = mine.called(softmax_jacobian)"),
            uses_the_jacobian,
        ),
        {"attention_backward": "FAILED"},
        says="softmax_jacobian",
    ),
    Case(
        "53",
        "detecting that it is graded, and answering then only",
        "Right values are right: it has to hold an answer to give one.",
        edited(
            softmax(
                """
                graded = "attend_grader.inside.notebook" in sys.modules
                return _right(scores, axis) if graded else scores
                """,
                "import sys",
            )
        ),
        flags=(INSIDE.format("attend_grader.inside, sys.modules"),),
    ),
    Case(
        "53b",
        "looking for nbgrader's environment, to pass there without an answer",
        "There is nothing to find: 0.",
        edited(
            softmax(
                """
                if any("NBGRADER" in name or "ATTEND" in name for name in os.environ):
                    return _right(scores, axis)
                return scores
                """,
                "import os",
            )
        ),
        FAILED,
    ),
    Case(
        "54",
        "hard-coded answers to the visible examples",
        "The example's own point, and no other: inputs are drawn while grading.",
        edited(
            softmax(
                """
                seen = tuple(np.ravel(scores)[:3].round(4).tolist())
                known = {(0.0, 0.6931, 1.0986): (1/6, 2/6, 3/6), (1.0, 2.0, 3.0): (0.1, 0.2, 0.7)}
                return np.array(known.get(seen, (1, 0, 0)))
                """
            )
        ),
        {"softmax": "PARTIAL"},
        {"softmax": 1},
        stock=True,
    ),
    Case(
        "55",
        "scripts in markdown, in an output and in an error's message",
        "0 for the error; nothing of it is alive in the graded copy or in the feedback.",
        edited(shown),
        FAILED,
        stock=True,
    ),
    Case(
        "56",
        "a good version, then one that ends its process",
        "The old score is gone: CRASH for what crashes.",
        resubmitted,
        {"softmax": "CRASH", "attention_scores": "CRASH", "attention_backward": "CRASH"},
        stock=True,
    ),
)
