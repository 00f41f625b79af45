"""Inside the jail: runs a notebook's cells in IPython and answers calls of what they define.

Frames come and go on one descriptor (:mod:`attend_grader.inside.codec`). Each request has a number,
and its answer the same: an answer that a submission sends by itself fits no question.
"""

from __future__ import annotations

import builtins
import os
import sys
from typing import IO, Any

from attend_grader.inside import codec
from attend_grader.inside.executor import Beginning, Executor
from attend_grader.inside.stand_ins import asking, raised

MAX_OUTPUT = 20_000
"""Characters kept of what one cell prints."""


def serve(descriptor: int) -> None:
    """Answer requests on ``descriptor`` until it closes."""
    requests, answers = os.fdopen(os.dup(descriptor), "rb"), os.fdopen(descriptor, "wb")
    shell = shell_made()
    sys.path.insert(0, "")  # as in Jupyter: `%%writefile helpers.py`, then `import helpers`
    executor: Executor | None = None

    def question(wanted: dict[str, Any]) -> Any:
        asked = {"op": "reference", **wanted}
        codec.write_frame(answers, {"number": number, "answer": asked})
        answer = _read(requests)["request"]
        if "error" in answer:
            raise raised(answer["error"])
        return answer["value"]

    while True:
        try:
            frame = _read(requests)
        except EOFError:
            return
        number, request = frame["number"], frame["request"]
        answer: dict[str, Any]
        match request["op"]:
            case "greet":
                answer = {}
            case "cell":
                if executor is not None:
                    executor.forbid(())
                answer = run_cell(shell, request["source"])
            case "candidate":
                found = request["name"] in shell.user_ns
                answer = {"found": found}
                if executor is not None:
                    executor.forbid(())
                candidate = shell.user_ns.get(request["name"])
                executor = Executor(candidate, asking(question), jailed=True) if found else None
            case _ if executor is not None:
                answer = executor.handle(request)
            case _:
                answer = {"found": False}
        _answer(answers, number, answer)


def _read(requests: IO[bytes]) -> dict[str, Any]:
    """A request: the grader may send cells of any length."""
    return codec.read_frame(requests, most_text=codec.MAX_FRAME_BYTES)


def _answer(answers: IO[bytes], number: int, answer: dict[str, Any]) -> None:
    codec.write_frame(answers, {"number": number, "answer": answer})


def shell_made() -> Any:
    """IPython's shell of this process, made at the first call."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    shell.showtraceback = shell.showsyntaxerror = _nothing  # to make one takes 50 ms
    formatter: Any = shell.display_formatter
    formatter.format = _no_pictures  # and a chart 100
    shell.magics_manager.register_function(
        _nothing, magic_name="matplotlib"
    )  # a notebook's own has it
    builtins.input = _refuse  # type: ignore[assignment]  # nobody is there to answer
    return shell


def _nothing(*args: object, **kwargs: object) -> None:
    """Do nothing: nobody looks at pictures and tracebacks while a submission is graded."""
    del args, kwargs


def _no_pictures(*args: object, **kwargs: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """What IPython's formatter makes of a value that has no form to show."""
    del args, kwargs
    return {}, {}


def _refuse(prompt: object = "") -> str:
    del prompt
    raise RuntimeError("input() was called: nobody can answer while a submission is graded")


def run_cell(shell: Any, source: str) -> dict[str, Any]:
    """Run one cell; what it printed, and its error in one line (None: it ran to its end)."""
    kept = sys.stdout, sys.stderr
    output = Beginning(MAX_OUTPUT)
    sys.stdout = sys.stderr = output
    try:
        result = shell.run_cell(source, store_history=False, silent=False)
        error = result.error_before_exec or result.error_in_exec
    except (Exception, SystemExit) as failure:  # submitted code may break the shell itself
        error = failure
    finally:
        sys.stdout, sys.stderr = kept
    text = None
    if error is not None:
        try:
            text = f"{type(error).__name__}: {error}"[:2000]
        except Exception:  # submitted code may define exceptions that cannot be shown
            text = type(error).__name__
    return {"error": text, "printed": output.text}
