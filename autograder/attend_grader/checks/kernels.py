"""Checks of Triton kernels: right values, clean memory, bytes against a budget, what a GPU's
compiler says.

A kernel runs in the interpreter under a tracer (:mod:`attend_grader.inside.tracer`), which sees
what values alone do not show: reads past a buffer, fresh memory used before it is written, two
programs that write one place, a program that relies on another one's result. Whatever is said here
was seen in the very launch that is named.

The candidate is a function that makes the outputs and launches a kernel. Or it is the kernel; then
a *launcher* of the course, ``launch(kernel, *tensors, **options)``, does that.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from attend_grader.checks.compare import FLOAT32, Miss, Tolerance, as_array, expect_close
from attend_grader.checks.probe import Call, Probe, Property
from attend_grader.checks.replay import describe_call
from attend_grader.checks.subject import Outcome, Subject, SubjectError
from attend_grader.inside.memory import NO_ARGUMENT

Cases = Callable[[np.random.Generator], Iterable[tuple[str, Call, Any]]]
"""Fresh cases: what is special about the call, the call (with its launcher), what is right."""

Needed = Callable[[Call], int]
"""Bytes that a call needs to move: its inputs read once, its outputs written once."""

SHARED_LIMIT = 232_448
"""Bytes of shared memory a program may use on sm_90 (CUDA C++ Programming Guide)."""


def right_values(
    name: str,
    cases: Cases,
    *,
    points: int = 1,
    tolerance: Tolerance = FLOAT32,
) -> Property:
    """What the launch returns is right, in memory that was not zeroed beforehand.

    Args:
        name: the card's line.
        cases: fresh calls with their right results.
        points: what it is worth.
        tolerance: how far values may differ.
    """

    def test(subject: Subject, probe: Probe) -> None:
        for why, call, want in cases(probe.rng):
            outcome = launched(subject, probe, call)
            try:
                expect_close(outcome.value, want, tolerance, probe.results or "result")
                _expect_by_kernel(outcome, probe)
            except Miss as miss:
                never = _never_written(outcome)
                if never:
                    miss = Miss(miss.text, miss.evidence, never, "never written")
                elif _has_nan(outcome.value) and (unfilled := _unfilled(outcome)):
                    miss = Miss(miss.text, miss.evidence, unfilled, "no other")
                raise miss.on(_given(probe, call), why) from None

    return Property(name, points, test)


def clean_memory(name: str, cases: Cases, *, points: int = 1) -> Property:
    """Every access lies in a buffer, nothing is read before it is written, no two programs collide.

    Also that no program of the grid is idle in every launch: then the grid is too large.
    """

    def test(subject: Subject, probe: Probe) -> None:
        for why, call, _ in cases(probe.rng):
            outcome = launched(subject, probe, call)
            for launch in outcome.trace:
                first = min(launch["events"], key=lambda e: _ORDER.index(e["kind"]), default=None)
                if first is None and launch["idle"]:
                    raise _idle(launch).on(_given(probe, call), why)
                if first is not None:
                    raise told(first).on(_given(probe, call), why)

    return Property(name, points, test)


def within_budget(
    name: str,
    cases: Cases,
    needed: Needed,
    *,
    factor: float = 1.1,
    points: int = 1,
    cause: str = "Load each number once, keep it in a variable, store each result once.",
) -> Property:
    """Loads and stores together move at most ``factor`` times the bytes needed; else ``cause``."""

    def test(subject: Subject, probe: Probe) -> None:
        for why, call, _ in cases(probe.rng):
            outcome = launched(subject, probe, call)
            moved = sum(launch["bytes_read"] + launch["bytes_written"] for launch in outcome.trace)
            least = needed(call)
            if moved > factor * least:
                read = sum(launch["bytes_read"] for launch in outcome.trace)
                raise Miss(
                    f"your kernel moves {moved:,} bytes ({read:,} read, {moved - read:,} written), "
                    f"{moved / least:.3g} × the {least:,} that are needed; the budget is "
                    f"{factor:g} ×.",
                    cause=cause,
                    topic="budget",
                ).on(_given(probe, call), why)

    return Property(name, points, test)


def compiles(
    name: str,
    types: Mapping[str, str],
    constants: Mapping[str, Any],
    *,
    warps: int = 4,
    stages: int = 2,
    architecture: int = 90,
    most_spilled: int = 0,
    uses: Sequence[str] = (),
    points: int = 1,
) -> Property:
    """The compiler makes code of it for a GPU, without spills, within shared memory.

    Args:
        name: the card's line.
        types: Triton's names of the run-time arguments' types.
        constants: the compile-time arguments.
        warps: a program.
        stages: of the pipeline.
        architecture: ten times the compute capability.
        most_spilled: bytes a thread may keep in local memory.
        uses: names of instructions that the code must have, such as ``"HGMMA"``.
        points: what it is worth.
    """

    def test(subject: Subject, probe: Probe) -> None:
        del probe
        wanted = {"architecture": architecture, "warps": warps, "stages": stages}
        report = subject.compiled(types, constants, **wanted)
        expect_compiled(report, architecture, most_spilled=most_spilled, uses=uses)

    return Property(name, points, test, slow=True)


def expect_compiled(
    report: Mapping[str, Any],
    architecture: int = 90,
    *,
    most_spilled: int = 0,
    uses: Sequence[str] = (),
) -> None:
    """Expect a compile report (:func:`attend_grader.inside.compiling.compiled`) to be good.

    Raises:
        Miss: it did not compile, it spills, it needs too much shared memory, or an instruction is
            missing.
    """
    if "error" in report:
        where = f"line {report['line']}" if report["line"] else "the kernel"
        raise Miss(
            f"it runs in the interpreter, but does not compile for sm_{architecture}: {where}: "
            f"{report['error']}",
            topic="does not compile",
        )
    if report["shared"] > SHARED_LIMIT:
        raise Miss(
            f"a program needs {report['shared']:,} bytes of shared memory; sm_{architecture} has "
            f"{SHARED_LIMIT:,}. Take smaller blocks or fewer stages.",
            topic="shared memory",
        )
    if report["spilled"] > most_spilled:
        raise Miss(
            f"compiled for sm_{architecture}, each thread keeps {report['spilled']} bytes in local "
            f"memory because its {report['registers']} registers are not enough (spills). Take "
            "smaller blocks or more warps.",
            topic="spills",
        )
    for wanted in uses:
        if not any(n.startswith(wanted) for n in report["instructions"]):
            raise Miss(
                f"compiled for sm_{architecture}, the code has no {wanted} instruction: the matrix "
                "product does not run on the tensor cores.",
                topic="instruction",
            )


def summary(report: Mapping[str, Any]) -> str:
    """A compile report in one line: "compiles for an H100: 40 registers, nothing spilled, …"."""
    if "error" in report:
        return f"does not compile for an H100: {report['error']}"
    spilled = f"{report['spilled']} bytes spilled" if report["spilled"] else "nothing spilled"
    shared = f"{report['shared'] / 1024:.3g} KB shared" if report["shared"] else "no shared memory"
    return f"compiles for an H100: {report['registers']} registers, {spilled}, {shared}"


def compiles_as_launched(
    name: str,
    cases: Cases,
    *,
    most_spilled: int = 0,
    uses: Sequence[str] = (),
    points: int = 1,
) -> Property:
    """Each kernel compiles for an H100 with the types and constants of its launches here.

    Args:
        name: the card's line.
        cases: calls; each kernel's first launch is compiled.
        most_spilled: bytes a thread may keep in local memory.
        uses: names of instructions that the code must have, such as ``"HGMMA"``.
        points: what it is worth.
    """

    def test(subject: Subject, probe: Probe) -> None:
        seen = set()
        for _, call, _ in cases(probe.rng):
            for launch in launched(subject, probe, call).trace:
                if launch["kernel"] not in seen:
                    seen.add(launch["kernel"])
                    report = compile_launch(subject, launch)
                    expect_compiled(report, most_spilled=most_spilled, uses=uses)

    return Property(name, points, test, slow=True)


def compile_launch(subject: Subject, launch: Mapping[str, Any]) -> dict[str, Any]:
    """The compile report of a kernel as it was launched."""
    wanted = {n: launch[n] for n in ("warps", "stages") if launch[n]}
    return subject.compiled(launch["types"], launch["constants"], kernel=launch["kernel"], **wanted)


def launched(subject: Subject, probe: Probe, call: Call) -> Outcome:
    """Launch the candidate under the tracer.

    Raises:
        Miss: it launched no kernel.
        SubjectError: it raised; it carries a description of the call.
    """
    outcome = subject.run(call.args, call.kwargs, launcher=call.launcher, trace="events")
    if outcome.error is not None:
        raise SubjectError(outcome.error, _given(probe, call))
    if not outcome.trace:
        raise Miss(
            "no kernel was launched: what is asked for is `kernel[grid](...)`.", topic="no kernel"
        ).on(_given(probe, call), "")
    return outcome


def told(event: Mapping[str, Any]) -> Miss:
    """One event of a trace as a miss, in words."""
    who = _program(event["programs"][0])
    line = f"line {event['line']}: `{event['text']}`" if event["line"] else "its code"
    elements = f"{event['count']} element{'s' if event['count'] != 1 else ''}"
    buffer, cause = event["buffer"], ""
    match event["kind"]:
        case "outside read" | "outside write":
            verb = "reads" if event["kind"] == "outside read" else "writes"
            text = f"{who} {verb} {elements} {_where(event)} ({line})."
            cause = (
                "The interpreter forgives it, a GPU does not. Give the access a mask that is False "
                "wherever the index is not one of the buffer's."
            )
        case "unwritten read":
            text = (
                f"{who} reads {elements} of {buffer}, first {buffer}{event['first']}, before any "
                f"program has written there ({line})."
            )
            cause = "Memory made by torch.empty holds anything: write it first, or use torch.zeros."
        case "two writers":
            other = _program(event["programs"][1]) if len(event["programs"]) > 1 else "another one"
            text = f"{who} and {other} both write {_range(event)} ({line})."
            cause = (
                "On a GPU programs run at the same time, and either may come last. Each place of "
                "an output belongs to one program; a sum over programs needs tl.atomic_add."
            )
        case _:
            others = [_program(p) for p in event["programs"][1:]] or ["other programs"]
            text = f"{who} uses {_range(event)}, which {others[0]} uses too, and one of them writes"
            text += f" ({line})."
            cause = (
                "On a GPU programs run in any order, so what is read there may be old or new. Let "
                "one program do both, or launch a second kernel for what comes after."
            )
    topic = f"{event['kind']}: {elements} of {buffer}"
    return Miss(text, cause=cause, topic=topic)


_ORDER = ("outside write", "outside read", "unwritten read", "two writers", "order")


def _where(event: Mapping[str, Any]) -> str:
    buffer = event["buffer"]
    if buffer == NO_ARGUMENT:
        return "at addresses that belong to no argument"
    if not event["first"]:
        return f"in gaps of {buffer}, between its rows or beside its columns"
    first, last = event["first"][0], event["last"][0]
    if last < 0:
        return f"before the beginning of {buffer} (the first {-first} before it)"
    if first < 0:
        return f"before the beginning and past the end of {buffer}"
    start = "" if first == 0 else f", {first} places behind its last element"
    return f"past the end of {buffer}{start}"


def _range(event: Mapping[str, Any]) -> str:
    first, last, buffer = event["first"], event["last"], event["buffer"]
    if first == last:
        return f"{buffer}[{', '.join(map(str, first))}]"
    if first[:-1] == last[:-1] and last[-1] - first[-1] + 1 == event["count"]:
        lead = "".join(f"{i}, " for i in first[:-1])
        return f"{buffer}[{lead}{first[-1]}:{last[-1] + 1}]"
    corner = f"{buffer}[{', '.join(map(str, first))}]"
    return f"{event['count']} elements of {buffer} from {corner} on"


def _program(place: Sequence[int]) -> str:
    used = list(place)
    while len(used) > 1 and used[-1] == 0:
        used.pop()
    return f"program {used[0]}" if len(used) == 1 else f"program ({', '.join(map(str, used))})"


def _never_written(outcome: Outcome) -> str:
    for launch in outcome.trace:
        for name, buffer in launch["buffers"].items():
            if buffer["never"]:
                first, last = buffer["never"]
                left = buffer["elements"] - buffer["written"]
                programs = math.prod(launch["grid"])
                return (
                    f"{left} of {buffer['elements']} elements of {name} are never written, the "
                    f"first at {first}, the last at {last}; the grid has {programs} programs. Is "
                    "it too small, or does a mask hide too much?"
                )
    return ""


def _unfilled(outcome: Outcome) -> str:
    lines = [f"`{text}`" for launch in outcome.trace for _, text in launch["unfilled"]]
    if not lines:
        return ""
    return (
        f"{lines[0]} has a mask and no `other`: the lanes that are masked out hold anything (here "
        "NaN). Say what they should hold, so that they change nothing."
    )


def _has_nan(value: Any) -> bool:
    parts = value if isinstance(value, (tuple, list)) else (value,)
    arrays = [as_array(part) for part in parts]
    return any(a is not None and a.dtype.kind == "f" and np.isnan(a).any() for a in arrays)


def _expect_by_kernel(outcome: Outcome, probe: Probe) -> None:
    """Expect that kernels wrote what was returned; torch is for making memory only."""
    written = outcome.trace[-1]["by_kernel"]
    if all(written):
        return
    names = probe.results or ("the result",)
    which = names[written.index(False)] if len(names) == len(written) else "a result"
    raise Miss(
        f"{which} was not written by a kernel: torch makes the memory, and kernels do the rest.",
        topic="not a kernel's",
    )


def _idle(launch: Mapping[str, Any]) -> Miss:
    many = len(launch["idle"])
    programs = math.prod(launch["grid"])
    return Miss(
        f"{many} of {programs} programs read and write nothing, the first is "
        f"{_program(launch['idle'][0])}: the grid is larger than the work.",
        cause="triton.cdiv(n, BLOCK) programs are enough for n elements.",
        topic="idle",
    )


def _given(probe: Probe, call: Call) -> str:
    """The launch as text: the kernel's name and the launcher's own arguments."""
    if not call.launcher:
        return probe.given(call.args, call.kwargs)
    module, _, name = call.launcher.partition(":")
    names = tuple(inspect.signature(getattr(import_module(module), name)).parameters)[1:]
    return describe_call(probe.reference.__name__, names, call.args, call.kwargs)
