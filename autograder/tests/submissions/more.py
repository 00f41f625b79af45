"""Tricks on the process, on names and on parsers; and calls of what is not theirs to call."""

from __future__ import annotations

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from .case import Case, answer, at, edited, own, softmax, top
from .cheating import INSIDE

FAILED, CRASH, TIMEOUT = {"softmax": "FAILED"}, {"softmax": "CRASH"}, {"softmax": "TIMEOUT"}


def bonus(notebook: NotebookNode) -> None:
    """Add a graded cell of its own."""
    marks = {"grade": True, "solution": False, "locked": True, "points": 60, "schema_version": 3}
    metadata = {"nbgrader": {**marks, "grade_id": "bonus", "cell_type": "code"}}
    notebook.cells.append(new_code_cell("60", metadata=metadata))


MORE = (
    Case(
        "61",
        "a graded cell of its own, worth 60 points",
        "It runs ungraded; flagged.",
        edited(bonus),
        flags=("A cell was marked as graded that the course does not know.",),
        stock=True,
    ),
    Case(
        "72",
        "signal handlers, atexit and a destructor that end the process late",
        "Graded: nothing is asked of a process that is done.",
        edited(
            top(
                "softmax",
                """
                import atexit, os, signal
                class Late:
                    def __del__(self):
                        os._exit(9)
                late = Late()
                atexit.register(os._exit, 9)
                signal.signal(signal.SIGTERM, lambda *a: os._exit(9))
                """,
            )
        ),
    ),
    Case(
        "74",
        "environment, locale, working directory, time zone and recursion limit changed",
        "Graded: each answer stands in the process that it made for itself.",
        edited(
            top(
                "softmax",
                """
                import locale, os, sys, time
                os.environ.clear()
                os.environ["TZ"] = "Pacific/Kiritimati"
                time.tzset()
                locale.setlocale(locale.LC_ALL, "C")
                os.chdir("/")
                sys.setrecursionlimit(500)
                """,
            )
        ),
    ),
    Case(
        "75",
        "right at its first call only",
        "Its first call's point, and no other.",
        edited(
            softmax(
                """
                calls.append(1)
                return _right(scores, axis) if len(calls) == 1 else scores
                """,
                "calls = []",
            )
        ),
        {"softmax": "PARTIAL"},
        {"softmax": 1},
    ),
    Case(
        "77",
        "an executor patched to hide that arguments are changed in place",
        "Full marks, as a copy of the argument would have had: an honest limit, but flagged.",
        edited(
            softmax(
                """
                if scores.dtype.kind != "f":
                    return _right(scores, axis)
                scores -= scores.max(axis=axis, keepdims=True)
                return _right(scores, axis)
                """,
                """
                from attend_grader.inside import executor
                executor._bits = lambda value: None
                """,
            )
        ),
        flags=(INSIDE.format("attend_grader.inside"),),
    ),
    Case(
        "78",
        "a trace function that ends the process",
        "CRASH for that exercise; flagged.",
        edited(
            softmax(
                "sys.settrace(lambda *a: os._exit(5))\nreturn _right(scores, axis)",
                "import os, sys",
            )
        ),
        CRASH,
        flags=(INSIDE.format("sys.settrace"),),
    ),
    Case(
        "79",
        "recursion without end",
        "An error like any other: 0.",
        edited(softmax("return softmax(scores, axis)")),
        FAILED,
        says="RecursionError",
    ),
    Case(
        "80",
        "a segmentation fault",
        "CRASH for that exercise, with the signal; flagged.",
        edited(softmax("ctypes.string_at(0)", "import ctypes")),
        CRASH,
        flags=(INSIDE.format("ctypes"),),
        says="signal 11",
        stock=True,
    ),
    Case(
        "81",
        "a function's name in full-width letters",
        "Python reads it as the plain name: graded.",
        edited(
            answer(
                "softmax",
                """
                def ｓｏｆｔｍａｘ(scores, axis=-1):
                    shifted = np.exp(scores - scores.max(axis, keepdims=True))
                    return shifted / shifted.sum(axis, keepdims=True)
                """,
            )
        ),
    ),
    Case(
        "82",
        "half a surrogate pair in a cell's source",
        "0 for that exercise; the graded copy can be written all the same.",
        edited(lambda notebook: at(notebook, "softmax").update(source="softmax = '\ud800'")),
        {"softmax": "INVALID"},
        stock=True,
    ),
    Case(
        "83",
        "its own limits raised",
        "They cannot be: 0.",
        edited(
            softmax(
                """
                resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
                return _right(scores, axis)
                """,
                "import resource",
            )
        ),
        FAILED,
        says="ValueError",
    ),
    Case(
        "84",
        "SIGKILL to every process it can see",
        "It can see none but its own: an error like any other, 0.",
        edited(softmax("os.kill(-1, 9)\nreturn _right(scores, axis)", "import os")),
        FAILED,
        says="ProcessLookupError",
    ),
    Case(
        "85",
        "SIGSTOP to itself",
        "TIMEOUT for that exercise.",
        edited(softmax("os.kill(os.getpid(), 19)", "import os")),
        TIMEOUT,
    ),
    Case(
        "86",
        "an exception that cannot be shown",
        "An error like any other: 0.",
        edited(
            softmax(
                "raise Unspeakable",
                """
                class Unspeakable(BaseException):
                    def __str__(self):
                        raise self
                    __repr__ = __str__
                """,
            )
        ),
        FAILED,
        says="Unspeakable",
    ),
    Case(
        "87",
        "something that is no function under the exercise's name",
        "INVALID for that exercise.",
        edited(answer("softmax", "softmax = 42")),
        {"softmax": "INVALID"},
        says="expected the function softmax",
    ),
    Case(
        "89",
        "a library's softmax behind `functools.partial`",
        "The chapter's jail has no such library: its cell fails, INVALID.",
        edited(
            answer(
                "softmax",
                """
                import functools, scipy.special
                def softmax(scores, axis=-1):
                    return scores
                softmax = functools.partial(scipy.special.softmax, axis=-1)
                """,
            )
        ),
        {"softmax": "INVALID"},
        says="scipy is not allowed in chapter 03_attention",
    ),
    Case(
        "90",
        "a source that breaks parsers: 100,000 minus signs",
        "INVALID for that exercise; no parser of the grader's minds.",
        edited(answer("softmax", "softmax = " + "-" * 100_000 + "1")),
        {"softmax": "INVALID"},
    ),
    Case(
        "92",
        "a softmax that ends the process only where attention calls it",
        "Attention is checked once more with the course's softmax: it has its points; flagged.",
        edited(
            softmax(
                """
                if sys._getframe(1).f_code.co_name == "scaled_dot_product_attention":
                    os._exit(1)
                return _right(scores, axis)
                """,
                "import os, sys",
            )
        ),
        flags=(INSIDE.format("sys._getframe"),),
    ),
    Case(
        "93",
        "asking an earlier reference for a result of 80 GB",
        "It is worked out in a process with limits: an error for the caller, 0.",
        edited(
            answer(
                "scaled_dot_product_attention",
                """
                def scaled_dot_product_attention(q, k, v):
                    tall = np.ones((100_000, 1))
                    return attention_scores(tall, tall), softmax(attention_scores(tall, tall))
                """,
            )
        ),
        {"scaled_dot_product_attention": "MEMORY"},
    ),
    Case(
        "91",
        "many slow cells of its own",
        "The time for a whole submission ends: TIMEOUT for what had not been graded; flagged.",
        edited(*(own("import time; time.sleep(5)", "attention_backward") for _ in range(24))),
        {"attention_backward": "TIMEOUT", "repaired_backward": "TIMEOUT"},
        flags=(
            "A cell that is not graded was stopped (it did not end in time)",
            "The time for the whole submission was used up",
        ),
    ),
    Case(
        "109",
        "`import matplotlib` and a picture above an answer",
        "Graded in full: it is installed, and nobody looks at the picture.",
        edited(
            top(
                "softmax",
                "import matplotlib.pyplot as plt\n\nplt.plot([1, 2])\nplt.show()",
            )
        ),
    ),
)
