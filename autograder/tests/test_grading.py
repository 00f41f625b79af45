"""A notebook graded from end to end: code in the jail, verdicts outside, outputs for nbgrader."""

from __future__ import annotations

import copy
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from attend_grader import chapters
from attend_grader.checks.subject import Subject
from attend_grader.gradebook.preprocessors import outputs, write_verdicts
from attend_grader.grading import handed_in, work
from attend_grader.grading.rebuild import rebuild
from attend_grader.grading.submission import Verdict, called_by_check, grade_notebook
from attend_grader.judging.report import Finding, Report
from attend_grader.sandbox import jail, patience, warm
from attend_grader.sandbox.jail import Limits
from attend_grader.sandbox.warm import NotSetUp, WarmParent
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook
from nbgrader.utils import determine_grade

CHAPTER = "03_attention"
LIMITS = Limits(cell_seconds=3, check_seconds=3, cpu_seconds=10, all_memory=2**30)
SOFTMAX = """
def softmax(scores, axis=-1):
    e = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
"""
SCORES = """
def attention_scores(q, k, scaled=True):
    scores = q @ np.swapaxes(k, -1, -2)
    return scores / np.sqrt(q.shape[-1]) if scaled else scores
"""

needs_jail = pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")


@pytest.fixture(scope="module")
def parent() -> Iterator[WarmParent]:
    with WarmParent(CHAPTER, LIMITS) as started:
        yield started


def graded(name: str, source: str = "") -> NotebookNode:
    points = sum(p.points for p in chapters.exercise(f"{CHAPTER}/{name}").properties)
    marks = {"grade": True, "solution": False, "locked": True, "points": points}
    marks["grade_id"] = f"check-{name}"
    return new_code_cell(source or f"check({name})", metadata={"nbgrader": marks})


def answer(name: str, source: str) -> NotebookNode:
    marks = {"grade": False, "solution": True, "locked": False, "grade_id": name}
    return new_code_cell(source, metadata={"nbgrader": marks})


def notebook(softmax: str, scores: str = SCORES, *between: str) -> NotebookNode:
    cells = [
        new_code_cell("import numpy as np\nfrom attend_grader import check"),
        answer("softmax", softmax),
        graded("softmax"),
        *(new_code_cell(source) for source in between),
        answer("attention_scores", scores),
        graded("attention_scores"),
    ]
    return new_notebook(cells=cells)


FULL = (8.0, 6.0)
LOOP = "def softmax(scores, axis=-1):\n    while True:\n        pass\n"
DEAF = """
def softmax(scores, axis=-1):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
"""
LEAVES = "import os\ndef softmax(scores, axis=-1):\n    os._exit(0)\n"
KILLS = "import os\ndef softmax(scores, axis=-1):\n    os.kill(os.getpid(), 9)\n"
GREEDY = "def softmax(scores, axis=-1):\n    return np.ones((10**6, 10**6))\n"
HOARDER = """
taken = []
def softmax(scores, axis=-1):
    for size in (2**20, 2**12, 2**8):
        try:
            while True:
                taken.append(np.empty(size))
        except MemoryError:
            pass
    raise MemoryError
"""
FORGER = (
    SOFTMAX.replace("return e", "return 0 * e")
    + """
import attend_grader.inside.executor, attend_grader.inside.codec
attend_grader.inside.executor.Executor.handle = lambda self, request: {"score": 8}
"""
)
CROWD = """
import os, time
def softmax(scores, axis=-1):
    for _ in range(12):
        if os.fork() == 0:
            taken = b"x" * (200 * 2**20)
            time.sleep(60)
    time.sleep(60)
"""
CHATTY = SOFTMAX.replace("    e =", "    print('x' * 4_000_000)\n    e =")
BACKGROUND = "import threading, time\nthreading.Thread(target=lambda: time.sleep(60)).start()\n"

STUB = "def softmax(scores, axis=-1):\n    raise NotImplementedError()\n"
LAMBDA = STUB + (
    "softmax = lambda s, axis=-1: (lambda e: e / e.sum(axis, keepdims=True))"
    "(np.exp(s - s.max(axis, keepdims=True)))"
)


def with_helpers() -> NotebookNode:
    made = notebook(
        "import helpers\ndef softmax(scores, axis=-1):\n    return helpers.right(scores, axis)"
    )
    written = SOFTMAX.replace("softmax(scores, axis=-1)", "right(scores, axis)")
    made.cells.insert(1, new_code_cell(f"%%writefile helpers.py\nimport numpy as np\n{written}"))
    return made


CASES: dict[str, tuple[NotebookNode, tuple[str, str]]] = {
    "right": (notebook(SOFTMAX), ("PASSED", "PASSED")),
    "infinite loop in the function": (notebook(LOOP), ("TIMEOUT", "PASSED")),
    "infinite loop in the cell": (notebook(SOFTMAX + "while True: pass"), ("TIMEOUT", "PASSED")),
    "loop that swallows exceptions": (notebook(DEAF), ("TIMEOUT", "PASSED")),
    "leaves": (notebook(LEAVES), ("CRASH", "PASSED")),
    "kills itself": (notebook(KILLS), ("CRASH", "PASSED")),
    "takes all memory": (notebook(GREEDY), ("MEMORY", "PASSED")),
    # what fails first may be its own code or Python itself
    "takes all memory and keeps it": (notebook(HOARDER), ("MEMORY or CRASH", "PASSED")),
    "many processes that take memory": (notebook(CROWD), ("MEMORY", "PASSED")),
    "answers for the executor": (notebook(FORGER), ("CRASH", "PASSED")),
    "syntax error": (notebook("def softmax(scores:\n"), ("INVALID", "PASSED")),
    "prints without end": (notebook(CHATTY), ("PASSED", "PASSED")),
    "a picture's magic": (notebook("%matplotlib inline\n" + SOFTMAX), ("PASSED", "PASSED")),
    "a picture": (
        notebook("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\n" + SOFTMAX),
        ("PASSED", "PASSED"),
    ),
    "the stub left above a lambda": (notebook(LAMBDA), ("PASSED", "PASSED")),
    "the stub left above another name": (
        notebook(STUB + SOFTMAX.replace("softmax", "mine") + "softmax = mine"),
        ("PASSED", "PASSED"),
    ),
    "a thread in the background": (notebook(BACKGROUND + SOFTMAX), ("PASSED", "PASSED")),
    "a deadly cell between": (
        notebook(SOFTMAX, SCORES, "import os; os._exit(1)"),
        ("PASSED", "PASSED"),
    ),
    "a later definition counts for later checks only": (
        notebook(SOFTMAX, SCORES, "softmax = None"),
        ("PASSED", "PASSED"),
    ),
    "a module that a cell wrote": (with_helpers(), ("PASSED", "PASSED")),
    "a cell of magics": (notebook(SOFTMAX, SCORES, "%%bash\necho hi"), ("PASSED", "PASSED")),
}


@needs_jail
@pytest.mark.parametrize(("submitted", "reasons"), CASES.values(), ids=CASES)
def test_one_exercise_costs_no_other(
    parent: WarmParent, submitted: NotebookNode, reasons: tuple[str, str]
) -> None:
    verdicts = grade_notebook(submitted, CHAPTER, parent, 7)
    for verdict, expected in zip(verdicts, reasons, strict=True):
        assert verdict.reason in expected.split(" or "), str(verdict.report)
    for verdict, full in zip(verdicts, FULL, strict=True):
        assert verdict.score == (full if verdict.reason == "PASSED" else 0)


@needs_jail
def test_processor_time_that_is_used_up_is_a_timeout() -> None:
    """On a busy machine it is used up before the limit on wall time, which grows there."""
    with WarmParent(CHAPTER, replace(LIMITS, cpu_seconds=1, check_seconds=60)) as parent:
        (verdict, _) = grade_notebook(notebook(LOOP), CHAPTER, parent, 7)
    assert verdict.reason == "TIMEOUT"
    assert verdict.seconds < 20


@needs_jail
def test_after_a_timeout_half_of_each_limit_is_left(
    parent: WarmParent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A submission of endless loops would keep a worker for minutes."""
    hurried = []
    real = warm.Child.allow

    def allow(child: warm.Child, seconds: float) -> None:
        hurried.append(child.hurried)
        real(child, seconds)

    monkeypatch.setattr(warm.Child, "allow", allow)
    verdicts = grade_notebook(notebook(LOOP), CHAPTER, parent, 7)
    assert [v.reason for v in verdicts] == ["TIMEOUT", "PASSED"]
    assert (hurried[0], hurried[-1]) == (False, True)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    with parent.child() as child:
        child.hurried = True
        for limit, left in ((20.0, 10.0), (6.0, 5.0), (3.0, 3.0)):
            child.allow(limit)
            before = time.monotonic()
            deadline = child.deadline
            assert before + left <= deadline <= time.monotonic() + left


@needs_jail
def test_on_a_busy_machine_limits_on_time_are_longer(
    parent: WarmParent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four honest submissions of the corpus were TIMEOUT where other work filled the machine."""
    processors = len(os.sched_getaffinity(0))
    for load, factor in ((0.0, 1.0), (1.0, 1.0), (3.0, 3.0), (50.0, patience.MOST)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load * processors, 0.0, 0.0))
        assert patience.patience() == factor
    with parent.child() as child:
        child.allow(0.5)
        assert child.run_cell("import time; time.sleep(1)") == (None, "")
        monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
        monkeypatch.setattr(parent, "limits", replace(parent.limits, cell_seconds=0.2))
        with pytest.raises(warm.SubmissionDied, match="did not end in time"):
            child.run_cell("time.sleep(60)")


@needs_jail
def test_what_the_grader_works_out_does_not_count(parent: WarmParent) -> None:
    with parent.child() as child:
        child.allow(1.0)
        time.sleep(1.1)
        assert not child.candidate("nothing")


@needs_jail
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def softmax(scores:\n", "SyntaxError: '(' was never closed (line 1)"),
        ("1 / 0\n" + SOFTMAX, "ZeroDivisionError: division by zero"),
        ("%time 1 / 0\n1 / 0\n" + SOFTMAX, "ZeroDivisionError: division by zero"),
    ],
)
def test_a_cell_that_ends_early_says_so(parent: WarmParent, source: str, said: str) -> None:
    report = grade_notebook(notebook(source), CHAPTER, parent, 7)[0].report
    assert report is not None
    assert report.note == f"softmax is not defined: its cell ended with {said}"


@needs_jail
@pytest.mark.parametrize(
    "probe",
    [
        "import socket; socket.create_connection(('192.0.2.1', 80), timeout=1)",
        "from attend_solutions.attention import softmax",
        "import attend_grader.chapters",
        "import attend_grader.checks",
        "import attend_grader.judging",
        "import attend_kernels",
        *(
            f"import socket; socket.socket(socket.{family}, socket.{kind})"
            for family, kind in (
                ("AF_INET", "SOCK_STREAM"),
                ("AF_INET6", "SOCK_DGRAM"),
                ("AF_NETLINK", "SOCK_RAW"),
                ("AF_VSOCK", "SOCK_STREAM"),
                ("AF_ALG", "SOCK_SEQPACKET"),
                ("AF_PACKET", "SOCK_RAW"),
            )
        ),
        "open('/etc/passwd')",
        "open('/attend/x', 'w')",
        "open('/usr/x', 'w')",
        "open('/x', 'w')",
        "open('/dev/x', 'w')",
        "open('/tmp/x', 'wb').write(bytes(40 * 2**20))",
        "open('/proc/1/mem', 'rb')",
        "import os; os.memfd_create('x')",
        "import mmap; mmap.mmap(-1, 4096)",
        "import mmap; mmap.mmap(open('/dev/zero', 'r+b').fileno(), 4096)",
        *(
            f"import ctypes, os; libc = ctypes.CDLL(None, use_errno=True)\nif libc.{call} < 0:\n"
            "    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))"
            for call in (
                "unshare(0x10000000)",  # a user namespace: it may mount a tmpfs of any size
                "syscall(56 if os.uname().machine == 'x86_64' else 220, 0x10000011, 0, 0, 0, 0)",
                "shmget(0, 4096, 0o600)",
                "msgget(0, 0o600)",
                "syscall(250 if os.uname().machine == 'x86_64' else 219, 0, -3, 1)",  # a keyring
            )
        ),
    ],
)
def test_the_jail_holds(parent: WarmParent, probe: str) -> None:
    with parent.child() as child:
        error, _ = child.run_cell(probe)
    assert error is not None
    assert error.split(":")[0] in (
        "OSError",
        "ImportError",
        "ModuleNotFoundError",
        "FileNotFoundError",
        "PermissionError",
    ), error


@needs_jail
def test_each_submission_has_a_network_of_its_own_without_any_device(parent: WarmParent) -> None:
    """One could read another's counters of datagrams."""
    shows = "import os; print(os.readlink('/proc/self/ns/net'), open('/proc/net/dev').read())"
    with parent.child() as one, parent.child() as two:
        said = [child.run_cell(shows)[1] for child in (one, two)]
    assert len({text.split()[0] for text in said}) == 2
    assert not any(device in text for text in said for device in ("eth", "wl", "en"))


@needs_jail
def test_no_command_line_in_the_jail_shows_a_path_of_the_host(parent: WarmParent) -> None:
    shows = """
import glob
for path in sorted(glob.glob("/proc/[0-9]*/cmdline")):
    print(open(path).read().replace("\\0", " "))
"""
    with parent.child() as child:
        error, printed = child.run_cell(shows)
    assert error is None
    assert "attend_grader.inside.zygote" in printed
    assert str(parent.packages) not in printed
    assert parent.packages.name not in printed
    assert str(Path(__file__).parent.parent) not in printed
    mine = {*jail.running(parent.packages)}
    assert parent.process.pid in mine
    assert mine <= {*jail.running(parent.packages.parent)}
    assert not mine & {*jail.running(parent.packages / "deeper")}


@needs_jail
def test_what_the_jail_refuses_is_missed_by_nobody(parent: WarmParent) -> None:
    source = """
import mmap, multiprocessing, socket, subprocess, tempfile, threading
left, right = socket.socketpair(); left.send(b"local"); print(right.recv(5).decode())
thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
print(subprocess.run(["head", "-c3", "/dev/zero"], capture_output=True).stdout)
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(abs, [-1, 2]))
with tempfile.TemporaryFile() as file:
    file.truncate(4096)
    print(len(mmap.mmap(file.fileno(), 4096)), multiprocessing.Value("i", 3).value)
"""
    with parent.child() as child:
        error, printed = child.run_cell(source)
    assert error is None, printed
    assert printed.splitlines() == ["local", "thread", r"b'\x00\x00\x00'", "[1, 2]", "4096 3"]


@needs_jail
def test_what_a_release_imports_is_imported_before_any_fork() -> None:
    cells = ["import wave, json.tool", "from colorsys import nothing", "%magic", "import no_such"]
    release = new_notebook(cells=[new_code_cell(source) for source in cells])
    modules = handed_in.imported(release)
    assert modules == ("wave", "json.tool", "colorsys", "colorsys.nothing", "no_such")
    with WarmParent(CHAPTER, LIMITS, modules=modules) as parent, parent.child() as child:
        loaded = "import sys; print(*({'wave', 'json.tool', 'colorsys'} & {*sys.modules}))"
        assert sorted(child.run_cell(loaded)[1].split()) == ["colorsys", "json.tool", "wave"]
        assert "No module named 'no_such'" in str(child.run_cell("import no_such")[0])


@needs_jail
def test_a_jail_that_was_started_ahead_serves_the_first_job_or_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work, "_thread", threading.local())
    release = nbformat.writes(new_notebook(cells=[new_code_cell("import numpy")])).encode()
    work.expect(CHAPTER, release, False)
    (ahead,) = work._thread.parents.values()
    served = None
    try:
        assert work.warm_parent(CHAPTER, False, Limits(), ("numpy",)) is ahead
        work.expect(CHAPTER, release, False)
        assert list(work._thread.parents.values()) == [ahead]
        served = work.warm_parent(CHAPTER, False, LIMITS, ("numpy",))
        assert (served.limits, ahead.is_alive(), served.is_alive()) == (LIMITS, False, True)
        assert list(work._thread.parents.values()) == [served]
    finally:
        for parent in (ahead, served):
            if parent is not None:
                parent.close()


@needs_jail
@pytest.mark.parametrize("refused", [1, 3])
def test_a_process_that_cannot_be_set_up_is_not_the_submissions_fault(
    parent: WarmParent, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    """Once, and it is tried again; each time, and grading stops without a verdict."""
    found = [[Path("/tmp/no-such-place")]] * refused + [jail.prefixes()] * 9
    monkeypatch.setattr(jail, "prefixes", lambda: found.pop(0))
    monkeypatch.setattr(warm, "PAUSES", (0.0, 0.0))
    if refused == 1:
        verdicts = grade_notebook(notebook(SOFTMAX), CHAPTER, parent, 7)
        assert [v.reason for v in verdicts] == ["PASSED", "PASSED"]
    else:
        with pytest.raises(NotSetUp, match=r"for a submission: FileNotFoundError.*no-such-place"):
            grade_notebook(notebook(SOFTMAX), CHAPTER, parent, 7)
    assert parent.is_alive()


@needs_jail
@pytest.mark.parametrize(
    ("tags", "flags"),
    [
        ([], [r"own failed \(ModuleNotFoundError: No module named 'nowhere'\) before any code"]),
        (["raises-exception"], []),
    ],
    ids=["by accident", "on purpose"],
)
def test_where_the_courses_own_first_cells_fail_it_is_flagged(
    parent: WarmParent, tags: list[str], flags: list[str]
) -> None:
    """A package that the jail has not would cost every learner all points, without a word."""
    release = notebook(SOFTMAX)
    release.cells.insert(0, new_code_cell("import nowhere", metadata={"tags": tags}))
    release.cells.append(new_code_cell("later"))
    submitted = copy.deepcopy(release)
    submitted.cells.insert(2, new_code_cell("import nowhere_else"))
    told: list[str] = []
    verdicts = grade_notebook(rebuild(submitted, release)[0], CHAPTER, parent, 7, told.append)
    assert [v.reason for v in verdicts] == ["PASSED", "PASSED"]
    assert len(told) == len(flags)
    assert all(map(re.search, flags, told))


KERNEL = """
import torch
import triton
import triton.language as tl

@triton.jit
def rows_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * columns + column, e / tl.sum(e, axis=0), mask=column < columns)

@triton.jit
def stray_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column)
    tl.store(out_ptr + column, x)

def launch(kernel, x):
    out = torch.empty_like(x)
    kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out

def softmax_rows(x):
    out = torch.empty_like(x)
    rows_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out
"""


@needs_jail
def test_all_kinds_of_answers_are_asked_in_the_jail() -> None:
    """NumPy functions are everywhere above; here tensors, modules, gradients and all the others."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    toys = Path(__file__).with_name("toy_torch.py").read_text(encoding="utf-8")
    x, two = torch.tensor([[1.0, 2.0, -1.0], [0.0, 5.0, 5.0]]), torch.tensor([2.0])
    with (
        WarmParent(CHAPTER, LIMITS, modules=("torch", "triton")) as parent,
        parent.child() as child,
    ):
        for source in (toys, KERNEL):
            error, printed = child.run_cell(source)
            assert error is None, printed

        def subject(name: str) -> Subject:
            assert child.candidate(name)
            return Subject(child)

        child.allow(LIMITS.check_seconds)
        torch.testing.assert_close(subject("softmax_rows")(x), x.softmax(dim=-1))
        module = subject("Linear").build(1, 1, parameters={"weight": torch.tensor([[3.0]])})
        assert module(two).tolist() == [6.0]
        found = subject("product").gradients((two, two), wrt=(0,), cotangents=(two,)).gradients
        assert found is not None
        assert found[0].tolist() == [4.0]
        total = subject("Sum").build(1.0)
        assert [total.run((two,), method="add").value for _ in range(2)] == [3.0, 5.0]
        powers = subject("powers").run((two,), take=3).value
        assert [power.item() for power in powers] == [1.0, 2.0, 4.0]


@needs_jail
def test_kernels_are_traced_and_compiled_in_the_jail() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    types = {"x_ptr": "*fp32", "out_ptr": "*fp32", "columns": "i32"}
    limits = Limits(cpu_seconds=60)  # a compiler starts cold, beside other tests
    with (
        WarmParent(CHAPTER, limits, modules=("torch", "triton")) as parent,
        parent.child() as child,
    ):
        error, printed = child.run_cell(KERNEL)
        assert error is None, printed

        def traced(name: str) -> dict[str, Any]:
            assert child.candidate(name)
            outcome = Subject(child).run((torch.ones(3, 5),), launcher="__main__:launch")
            assert outcome.error is None
            (launch,) = outcome.trace
            return dict(launch)

        child.allow(60)
        assert traced("rows_kernel")["events"] == []
        kinds = {event["kind"] for event in traced("stray_kernel")["events"]}
        assert kinds == {"outside read", "two writers"}
        report = Subject(child).compiled(types, {"BLOCK": 8})
        assert report.get("registers", 0) > 0, report


@needs_jail
def test_a_submission_leaves_nothing_for_the_next(parent: WarmParent) -> None:
    start = "import os, subprocess; open('/tmp/left', 'w').write('x')\n"
    start += "subprocess.Popen(['sleep', '1000']); print(os.getuid())"
    with parent.child() as child:
        error, printed = child.run_cell(start)
        assert error is None, printed
        assert printed.strip() != "0", "nobody runs as root"
    with parent.child() as child:
        _, printed = child.run_cell("import os; print(os.path.exists('/tmp/left'))")
        assert printed.strip() == "False"
    sleeping = "import subprocess; print(subprocess.run(['ps', 'ax'], capture_output=True).stdout)"
    with parent.child() as child:
        assert "sleep" not in child.run_cell(sleeping)[1]


@needs_jail
def test_what_is_written_to_the_channel_by_the_submission_ends_it(parent: WarmParent) -> None:
    flood = "import os\nfor fd in range(3, 40):\n    try: os.write(fd, b'8' * 64)\n"
    flood += "    except OSError: pass\n"
    verdicts = grade_notebook(notebook(flood + SOFTMAX), CHAPTER, parent, 7)
    assert [v.reason for v in verdicts] == ["CRASH", "PASSED"]


def verdict(**how: Any) -> Verdict:
    findings = (Finding("all", 4, 3, "nearly <script>"),)
    report = Report("03_attention/softmax", findings, "partial")
    return Verdict("check-softmax", 4.0, how.get("report", report), how.get("error"))


@pytest.mark.parametrize(
    ("decided", "points"),
    [
        (verdict(), 3),
        (verdict(report=None), 4),
        (verdict(report=None, error="AssertionError: no"), 0),
    ],
    ids=["check", "own test passed", "own test failed"],
)
def test_nbgrader_reads_what_was_decided(decided: Verdict, points: float) -> None:
    cell = graded("softmax")
    cell.metadata.nbgrader.points = 4
    cell.outputs = outputs(decided)
    assert determine_grade(cell) == (points, 4)
    assert "<script>" not in str(cell.outputs)


def test_outputs_of_a_submission_are_gone() -> None:
    submitted = notebook(SOFTMAX)
    for cell in submitted.cells:
        cell.outputs = [NotebookNode(output_type="display_data", data={"text/html": "<script>"})]
    write_verdicts(submitted, [verdict()])
    shown = [cell for cell in submitted.cells if cell.outputs]
    assert [cell.metadata.nbgrader.grade_id for cell in shown] == ["check-softmax"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("check(f)", "f"),
        ('check(f, "03_attention/f")', "f"),
        ("assert f(1) == 2", None),
        ("x = check(f)", None),
        ("%timeit f", None),
        ("check(f)\ncheck(g)", None),
    ],
)
def test_which_cells_are_checks(source: str, expected: str | None) -> None:
    assert called_by_check(graded("softmax", source)) == expected
    assert called_by_check(new_code_cell(source)) is None
