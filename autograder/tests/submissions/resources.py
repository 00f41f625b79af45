"""Submissions that take too much: time, memory, processes, disk, the network."""

from __future__ import annotations

from .case import Case, answer, edited, own, softmax, top
from .cheating import INSIDE

TIMEOUT, CRASH, FAILED = {"softmax": "TIMEOUT"}, {"softmax": "CRASH"}, {"softmax": "FAILED"}

RESOURCES = (
    Case(
        "1",
        "an infinite loop in a function",
        "TIMEOUT for that exercise; the others are graded in a fresh process.",
        edited(softmax("while True: pass")),
        TIMEOUT,
        says="did not come to an end",
        stock=True,
    ),
    Case(
        "2",
        "an infinite loop at the top of an answer's cell",
        "TIMEOUT for that exercise.",
        edited(top("softmax", "while True: pass")),
        TIMEOUT,
        says="while its cell was run",
    ),
    Case(
        "3",
        "a loop that swallows KeyboardInterrupt and everything else",
        "Killed from outside: TIMEOUT for that exercise.",
        edited(
            softmax(
                """
                while True:
                    try:
                        while True: pass
                    except BaseException: pass
                """
            )
        ),
        TIMEOUT,
    ),
    Case(
        "4",
        "signals ignored, then a long sleep",
        "TIMEOUT for that exercise.",
        edited(
            softmax(
                """
                for number in range(1, signal.NSIG):
                    try: signal.signal(number, signal.SIG_IGN)
                    except (OSError, ValueError): pass
                time.sleep(1000)
                """,
                "import signal, time",
            )
        ),
        TIMEOUT,
    ),
    Case(
        "5",
        "`sys.exit()` in a function",
        "An error like any other: 0 for that exercise.",
        edited(softmax("sys.exit()", "import sys")),
        FAILED,
        says="SystemExit",
    ),
    Case(
        "6",
        "`os._exit(0)` in a function",
        "CRASH for that exercise, with the exit code.",
        edited(softmax("os._exit(0)", "import os")),
        CRASH,
        says="exit code 0",
        stock=True,
    ),
    Case(
        "7",
        "SIGKILL to its own process",
        "CRASH for that exercise, with the signal.",
        edited(softmax("os.kill(os.getpid(), 9)", "import os")),
        CRASH,
        says="signal 9",
    ),
    Case(
        "8",
        "a memory bomb",
        "MEMORY for that exercise; the host keeps its memory.",
        edited(softmax("while True: taken.append(np.ones(2**23))", "taken = []")),
        {"softmax": "MEMORY"},
        stock=True,
    ),
    Case(
        "8b",
        "many processes that take memory together",
        "MEMORY for that exercise: what all processes use is added up.",
        edited(
            softmax(
                """
                for _ in range(8):
                    if os.fork() == 0:
                        taken = b"x" * (200 * 2**20)
                        time.sleep(60)
                time.sleep(60)
                """,
                "import os, time",
            )
        ),
        {"softmax": "MEMORY"},
    ),
    Case(
        "9",
        "a fork bomb",
        "Caps on processes and on what they take together: MEMORY for that exercise.",
        edited(
            softmax(
                """
                while True:
                    try: os.fork()
                    except OSError: time.sleep(0.01)
                """,
                "import os, time",
            )
        ),
        {"softmax": "MEMORY"},
    ),
    Case(
        "9b",
        "threads without end",
        "A cap on processes and threads: 0 for that exercise.",
        edited(
            softmax(
                "while True: threading.Thread(target=time.sleep, args=(9999,)).start()",
                "import threading, time",
            )
        ),
        FAILED,
        says="can't start new thread",
    ),
    Case(
        "10",
        "a full disk",
        "A private, small file system: the write fails, 0 for that exercise.",
        edited(
            softmax(
                """
                for place in ("/dev/shm", "/tmp"):
                    for number in range(10_000):
                        with open(f"{place}/{number}", "wb") as file:
                            file.write(bytes(2**20))
                """
            )
        ),
        FAILED,
        says="No space left on device",
    ),
    Case(
        "10b",
        "one file that grows without end",
        "A cap on a file's size: 0 for that exercise.",
        edited(softmax("while True: file.write(bytes(2**20))", "file = open('/tmp/one', 'wb')")),
        FAILED,
        says="OSError",
    ),
    Case(
        "10c",
        "empty files without end",
        "A cap on their number: 0 for that exercise; the kernel keeps its memory.",
        edited(
            softmax(
                """
                for number in range(10**6):
                    open(f"/tmp/{number}", "w").close()
                return _right(scores, axis)
                """
            )
        ),
        FAILED,
        says="No space left on device",
    ),
    Case(
        "11",
        "an orphan child that should outlive grading",
        "Graded; whatever it started ends with its process.",
        edited(
            softmax(
                "return _right(scores, axis)",
                """
                import os, subprocess
                if os.fork() == 0:
                    os.setsid()
                    subprocess.Popen(["sleep", "98765"], start_new_session=True)
                    os._exit(0)
                """,
            )
        ),
        stock=True,
    ),
    Case(
        "12",
        "a thread in the background that never ends",
        "Graded; the thread ends with its process.",
        edited(
            top(
                "softmax",
                "import threading, time\nthreading.Thread(target=time.sleep, args=(9999,)).start()",
            )
        ),
    ),
    Case(
        "13",
        "40 MB of output",
        "Cut, and graded.",
        edited(
            softmax(
                """
                if not said:
                    said.append("once")
                    print("x" * 40_000_000)
                return _right(scores, axis)
                """,
                "said = []",
            )
        ),
    ),
    Case(
        "14",
        "the network",
        "Denied, and the report says so: 0 for that exercise.",
        edited(softmax("socket.create_connection(('192.0.2.1', 80), timeout=3)", "import socket")),
        FAILED,
        says="Network is unreachable",
    ),
    Case(
        "15",
        "`input()` in a function",
        "Refused with a message, as in the notebook: 0 for that exercise.",
        edited(softmax("return _right(scores, int(input('axis? ')))")),
        FAILED,
        says="input() was called",
    ),
    Case(
        "16",
        "`%%bash` with a long sleep in a cell of its own",
        "The same limits: the cell is stopped and left out, and flagged; all is graded.",
        edited(own("%%bash\nsleep 1000")),
        flags=("A cell that is not graded was stopped (it did not end in time)",),
    ),
    Case(
        "17",
        "a syntax error",
        "That exercise alone is INVALID.",
        edited(answer("softmax", "def softmax(scores:\n    return")),
        {"softmax": "INVALID"},
        says="not defined",
        stock=True,
    ),
    Case(
        "18",
        "a harmless warning on stderr",
        "Full marks.",
        edited(
            softmax(
                """
                warnings.warn("deprecated")
                print("careful", file=sys.stderr)
                return _right(scores, axis)
                """,
                "import sys, warnings",
            )
        ),
        stock=True,
    ),
    Case(
        "94",
        "memory that counts as no process's: nameless files, shared memory, a tmpfs of its own",
        "Refused by the kernel: 0; nothing is taken.",
        edited(
            softmax(
                """
                libc = ctypes.CDLL(None, use_errno=True)
                libc.shmat.restype = ctypes.c_void_p
                taken = libc.shmget(0, 2**30, 0o600) >= 0 or libc.unshare(0x10020000) == 0
                try:
                    kept.append(mmap.mmap(-1, 2**30))
                    kept.append(os.memfd_create("kept"))
                except OSError:
                    pass
                if not kept and not taken:
                    raise MemoryError("none to be had")
                return _right(scores, axis)
                """,
                "import ctypes, mmap, os\nkept = []",
            )
        ),
        {"softmax": "MEMORY"},
        flags=(INSIDE.format("ctypes"),),
    ),
)
