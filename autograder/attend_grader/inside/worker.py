"""The process that runs a remote subject: ``python -m attend_grader.inside.worker``.

Frames come in on standard input and go out on standard output; both are moved to private file
descriptors first, so that what submitted code prints or reads cannot touch the channel by
accident.
"""

from __future__ import annotations

import linecache
import os
from typing import IO, Any

from attend_grader.inside import codec
from attend_grader.inside.executor import Executor
from attend_grader.inside.stand_ins import asking, raised
from attend_grader.inside.telling import MAX_PRINTED, text_of


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until the channel closes.

    They are for what was loaded last; ``answer`` names what was loaded by its ``source``.
    """

    def question(wanted: dict[str, Any]) -> Any:
        codec.write_frame(answers, {"op": "reference", **wanted})
        answer = codec.read_frame(requests, most_text=codec.MAX_FRAME_BYTES)
        if "error" in answer:
            raise raised(answer["error"])
        return answer["value"]

    executor: Executor | None = None
    loaded: dict[str, Executor] = {}
    while True:
        try:
            came = codec.read_sealed(requests, most_text=codec.MAX_FRAME_BYTES)
        except EOFError:
            return
        try:
            message = codec.opened(came)
        except codec.ProtocolError as error:  # a submission wrote it itself; it is read to its end
            codec.write_frame(answers, {"error": f"ProtocolError: {error}"})
            continue
        if message["op"] == "load":
            try:
                executor = Executor(_load(message["source"], message["name"]), asking(question))
                loaded[message["source"]] = executor
                codec.write_frame(answers, {"error": None})
            except (Exception, SystemExit) as error:  # submitted code may raise anything
                told = f"{type(error).__name__}: {error}"[:MAX_PRINTED]
                codec.write_frame(answers, {"error": told})
        elif message["op"] == "answer":
            codec.write_frame(answers, _answered(loaded[message["source"]].candidate, message))
        elif executor is not None:
            codec.write_frame(answers, executor.handle(message))


def _answered(reference: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """A reference's value or gradients, or its error in words: what is asked may be nonsense.

    It is the course's own function: what surrounds a submission's call is not needed.
    """
    args, kwargs, wanted = asked["args"], asked["kwargs"], asked["gradients"]
    try:
        if wanted is None:
            return {"value": reference(*args, **kwargs)}
        from attend_grader.inside.torch_gradients import gradients

        return {"value": gradients(reference, args, kwargs, wanted)["gradients"]}
    except Exception as error:  # whatever a reference raises goes back to the caller
        return {"error": f"{type(error).__name__}: {text_of(error)}"}


def _load(source: str, name: str) -> Any:
    filename = "<submission>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": "__submission__"}
    exec(compile(source, filename, "exec"), namespace)
    return namespace[name]


def main() -> None:
    """Take over standard input and output, then serve."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    serve(requests, answers)


if __name__ == "__main__":
    main()
