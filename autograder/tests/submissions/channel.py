"""Values that lie about themselves, and abuse of the channel on which values are asked for."""

from __future__ import annotations

import textwrap

from .case import Case, edited, softmax
from .cheating import INSIDE

FAILED, CRASH = {"softmax": "FAILED"}, {"softmax": "CRASH"}

SOCKETS = """
import os, stat
def channels():
    for number in range(3, 256):
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                yield number
        except OSError: pass
"""


def frame(message: str) -> str:
    """Code that sends this header, as JSON, over the channel."""
    return textwrap.dedent(
        f"""
        text = {message!r}.encode()
        for number in channels():
            os.write(number, len(text).to_bytes(8, "little") + bytes(8) + text)
        return _right(scores, axis)
        """
    )


CHANNEL = (
    Case(
        "62",
        "a NumPy subclass that lies about equality, shape and dtype",
        "Subclasses are not data: 0.",
        edited(
            softmax(
                "return np.asarray(scores, float).view(Liar)",
                """
                class Liar(np.ndarray):
                    shape, dtype = property(lambda s: (3,)), property(lambda s: np.dtype(float))
                    __eq__ = lambda self, other: True
                    __array_ufunc__ = lambda self, *a, **k: np.zeros(3)
                """,
            )
        ),
        FAILED,
        says="is of type Liar",
    ),
    Case(
        "63",
        "a torch subclass that answers every operation with zeros",
        "Torch is not in this chapter's jail, and a subclass would be no data: INVALID.",
        edited(
            softmax(
                "return torch.zeros(3).as_subclass(Liar)",
                """
                import torch
                class Liar(torch.Tensor):
                    __torch_function__ = classmethod(lambda cls, f, types, args, kwargs: args[0])
                """,
            )
        ),
        {"softmax": "INVALID"},
        says="torch is not allowed in chapter 03_attention",
    ),
    Case(
        "64",
        "an object array of things that agree with everything",
        "Object arrays are not data: 0.",
        edited(
            softmax(
                "return np.array([Equal() for _ in range(np.size(scores))], object)",
                "class Equal:\n    __eq__ = __sub__ = __rsub__ = lambda self, other: self",
            )
        ),
        FAILED,
        says="array of dtype object",
    ),
    Case(
        "65",
        "a giant reply",
        "MEMORY for that exercise: it has to fit in what a submission may take.",
        edited(softmax("return np.empty(2**26)")),
        {"softmax": "MEMORY"},
    ),
    Case(
        "65b",
        "a reply that announces 1 TiB",
        "Refused before it is read: CRASH for that exercise.",
        edited(
            softmax(
                "for n in channels(): os.write(n, bytes(8) + (2**40).to_bytes(8, 'little'))",
                SOCKETS,
            )
        ),
        CRASH,
        says="over the limit",
    ),
    Case(
        "66",
        "a list nested 100,000 deep as a reply",
        "It cannot be sent: 0.",
        edited(softmax("deep = []\nfor _ in range(100_000): deep = [deep]\nreturn deep")),
        FAILED,
        says="RecursionError",
    ),
    Case(
        "67",
        "a reply to the next question in advance",
        "Every question has its number, an answer out of turn ends the process: CRASH.",
        edited(
            softmax(
                frame('{"message": {"$dict": [["number", 4], ["answer", 8]]}, "sizes": []}'),
                SOCKETS,
            )
        ),
        CRASH,
        says="answer to another question",
    ),
    Case(
        "68",
        "text for the channel that breaks its reader",
        "Malformed frames end the process, never the grader: CRASH.",
        edited(softmax(frame('{"message": 1, "sizes": [Infinity]}'), SOCKETS)),
        CRASH,
        says="not a frame",
    ),
    Case(
        "69",
        "noise on every file descriptor",
        "CRASH for that exercise.",
        edited(
            softmax(
                "for n in channels(): os.write(n, bytes(64))\nreturn _right(scores, axis)",
                SOCKETS,
            )
        ),
        CRASH,
        stock=True,
    ),
    Case(
        "70",
        "every file descriptor closed",
        "CRASH for that exercise.",
        edited(softmax("os.closerange(0, 256)\nreturn _right(scores, axis)", "import os")),
        CRASH,
    ),
    Case(
        "71",
        "asking the grader for the right answer over its channel",
        "Only what a call itself offers is answered, and never the exercise's own: CRASH; flagged.",
        edited(
            softmax(
                """
                frame = sys._getframe()
                while frame.f_code.co_name != "serve":
                    frame = frame.f_back
                number, answers = frame.f_locals["number"], frame.f_locals["answers"]
                question = {"op": "reference", "name": "softmax", "args": (scores,), "kwargs": {}}
                codec.write_frame(answers, {"number": number, "answer": question})
                return codec.read_frame(frame.f_locals["requests"])["request"]["value"]
                """,
                "import sys\nfrom attend_grader.inside import codec",
            )
        ),
        CRASH,
        flags=(INSIDE.format("attend_grader.inside, f_back, f_locals, sys._getframe"),),
        says="not offered",
    ),
    Case(
        "73",
        "a value whose destructor ends the process",
        "CRASH for that exercise.",
        edited(
            softmax(
                "return Bomb()",
                "import os\nclass Bomb:\n    def __del__(self):\n        os._exit(0)",
            )
        ),
        CRASH,
    ),
    Case(
        "76",
        "a codec patched to send what it likes",
        "Whatever it sends are values, and wrong ones: 0; flagged.",
        edited(
            softmax(
                "return scores",
                """
                from attend_grader.inside import codec
                codec.encode = lambda value, buffers: {"$dict": [["score", 8]]}
                """,
            )
        ),
        {"softmax": "CRASH"},
        flags=(INSIDE.format("attend_grader.inside"),),
    ),
    Case(
        "88",
        "a generator in place of an array",
        "A value of a wrong type: 0.",
        edited(softmax("yield from _right(scores, axis)")),
        FAILED,
        says="is of type generator",
    ),
    Case(
        "95",
        "half a surrogate pair in an error's message",
        "An error like any other: 0; the record can be written, and the batch goes on.",
        edited(softmax("raise ValueError(chr(0xD800))")),
        FAILED,
        says="ValueError",
        stock=True,
    ),
    Case(
        "96",
        "a reply in which one buffer makes 1,000 arrays",
        "Each buffer makes one array, so nobody makes more than was sent: CRASH.",
        edited(
            softmax(
                """
                array = {"$array": {"dtype": "|u1", "shape": [2**20], "layout": [0], "buffer": 0}}
                text = json.dumps({"message": [array] * 1000, "sizes": [2**20]}).encode()
                head = len(text).to_bytes(8, "little") + (2**20).to_bytes(8, "little")
                for number in channels():
                    os.write(number, head + text + bytes(2**20))
                return _right(scores, axis)
                """,
                SOCKETS + "import json",
            )
        ),
        CRASH,
        says="do not make an array",
    ),
    Case(
        "104",
        "a description with 20,000 names",
        "Refused: no honest one has as many, and each costs the grader time. CRASH; flagged.",
        edited(
            softmax(
                "return _right(scores, axis)",
                """
                import attend_grader.inside.executor as side
                told = side.Executor._describe
                many = {f"n{number}": ["a", "b", 1] for number in range(20_000)}
                side.Executor._describe = lambda self: {**told(self), "origins": many}
                """,
            )
        ),
        CRASH,
        flags=(INSIDE.format("attend_grader.inside"),),
    ),
    Case(
        "97",
        "a reply that announces 5 MiB of JSON: there is room for a million empty lists",
        "Refused before it is read, as it would become many times as large: CRASH.",
        edited(
            softmax(
                "for n in channels(): os.write(n, (5 * 2**20).to_bytes(8, 'little') + bytes(8))",
                SOCKETS,
            )
        ),
        CRASH,
        says="over the limit",
    ),
    Case(
        "110",
        "imaginary parts that nobody asked for, beside right real ones",
        "Numbers of another type: 0.",
        edited(softmax("return _right(scores, axis) + 1j")),
        FAILED,
        says="is complex",
    ),
    Case(
        "111",
        "an integer of 5,000 digits, which Python does not write as text",
        "A value of a wrong type, said in plain words: 0.",
        edited(softmax("return 10 ** 5000")),
        FAILED,
        says="int of about 5,000 digits",
    ),
)
