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
from attend_grader.checks.launch_words import never_written, unfilled_loads, worst
from attend_grader.checks.outcomes import Outcome
from attend_grader.checks.probe import Call, Probe, Property, Test, begun_by
from attend_grader.checks.replay import describe_call
from attend_grader.checks.subject import Subject, SubjectError

Cases = Callable[[np.random.Generator], Iterable[tuple[str, Call, Any]]]
"""Fresh cases: what is special about the call, the call (with its launcher), what is right."""

Needed = Callable[[Call], int]
"""What a call needs: bytes to move (inputs read once, outputs written once), or programs."""

SHARED_LIMIT = 232_448
"""Bytes of shared memory a program may use on sm_90 (CUDA C++ Programming Guide)."""


def right_values(
    name: str,
    cases: Cases,
    *,
    points: int = 1,
    tolerance: Tolerance = FLOAT32,
    same_types: bool = False,
) -> Property:
    """What the launch returns is right, in memory that was not zeroed beforehand.

    Args:
        name: the card's line.
        cases: fresh calls with their right results.
        points: what it is worth.
        tolerance: how far values may differ.
        same_types: results also have the types of the right ones.
    """

    def test(subject: Subject, probe: Probe) -> None:
        for why, call, want in cases(probe.rng):
            outcome = launched(subject, probe, call)
            wrong = True
            try:
                if same_types:  # first: the type is why its numbers are coarse
                    _expect_types(outcome.value, want, probe.results)
                expect_close(outcome.value, want, tolerance, probe.results or "result")
                _expect_by_kernel(outcome, probe)
                wrong = False
            except Miss as miss:
                told = with_cause(miss, subject, call, outcome)
                raise told.on(_given(probe, call), why) from None
            finally:
                subject.judged(call, outcome, want, wrong)

    return Property(name, points, test)


def with_cause(miss: Miss, subject: Subject, call: Call, outcome: Outcome) -> Miss:
    """A miss about values, with what the launch's trace says of where they come from."""
    if never := never_written(outcome):
        return Miss(miss.text, miss.evidence, never, "never written")
    if not _has_nan(outcome.value):
        return miss
    if _reads_outside(outcome):
        return Miss(miss.text, miss.evidence, OUTSIDE, "NaN from outside")
    unfilled = unfilled_loads(outcome)
    if unfilled:
        filled = subject.run(call.args, call.kwargs, launcher=call.launcher, trace="zeros")
        if filled.error is None and not _has_nan(filled.value):
            return Miss(miss.text, miss.evidence, unfilled, "no other")
    return miss


def clean_memory(name: str, cases: Cases, *, points: int = 1) -> Property:
    """Every access lies in a buffer, nothing is read before it is written, no two programs collide.

    Also that no program of the grid is idle in every launch: then the grid is too large.
    """

    def test(subject: Subject, probe: Probe) -> None:
        for why, call, _ in cases(probe.rng):
            outcome = launched(subject, probe, call)
            astray = worst(outcome)
            if astray is not None:
                raise astray.on(_given(probe, call), why)

    return Property(name, points, test)


OUTSIDE = "It reads outside its buffers, where this check puts NaN."
"""Of the tracer, which does so with floats."""

ONCE = "What is needed: each program loads each of its numbers once, and stores each result once."
"""What most kernels need to move."""


def within_budget(
    name: str,
    cases: Cases,
    needed: Needed,
    *,
    factor: float = 1.1,
    points: int = 1,
    cause: str = ONCE,
    once: bool = False,
    programs: Needed | None = None,
    arrays: int | None = None,
    reads: Needed | None = None,
) -> Property:
    """Loads and stores together move at most ``factor`` times the bytes needed.

    Args:
        name: the card's line.
        cases: fresh calls.
        needed: bytes that a call needs to move.
        factor: how many times those may be moved.
        points: what it is worth.
        cause: what is counted as needed. It is said of any kernel that moves more.
        once: no number is read by two loads either, also where others are not read at all.
        programs: how many a call launches; None leaves that open.
        arrays: how many a kernel is given, the results among them; None leaves that open.
        reads: of the first argument, how many numbers are read at most; None leaves that open.
    """

    def test(subject: Subject, probe: Probe) -> None:
        for why, call, _ in cases(probe.rng):
            outcome = launched(subject, probe, call)
            moved = sum(launch["bytes_read"] + launch["bytes_written"] for launch in outcome.trace)
            least = needed(call)
            if once:
                _expect_read_once(outcome, _given(probe, call), why)
            if moved > factor * least:
                astray = worst(outcome, grids=False)
                if astray is not None:  # then it is no matter of reading too often
                    raise astray.on(_given(probe, call), why)
                read = sum(launch["bytes_read"] for launch in outcome.trace)
                raise Miss(
                    f"your kernel moves {moved:,} bytes ({read:,} read, {moved - read:,} written), "
                    f"{moved / least:.4g} × the {least:,} that are needed; the budget is "
                    f"{factor:g} ×.",
                    cause=cause,
                    topic=f"budget: {why}",  # which calls cost too much tells slips apart
                ).on(_given(probe, call), why)
            count = sum(math.prod(launch["grid"]) for launch in outcome.trace)
            if programs is not None and count != programs(call):
                text = f"{count} programs run, expected {programs(call)}: one for each tile."
                raise Miss(text, topic=f"programs: {why}").on(_given(probe, call), why)
            given = max(len(launch["buffers"]) for launch in outcome.trace)
            if arrays is not None and given > arrays:
                text = f"a kernel is given {given} arrays, and {arrays} are enough."
                raise Miss(text, topic="arrays").on(_given(probe, call), why)
            if reads is not None:
                _expect_read_no_more(outcome, call, reads(call), _given(probe, call), why)

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
        uses: names of products that the code must have, such as ``"HGMMA"``.
        points: what it is worth.
    """

    wanted: dict[str, Any] = {"architecture": architecture, "warps": warps, "stages": stages}

    def begin(subject: Subject, probe: Probe) -> Test:
        del probe
        subject.compiled(types, constants, **wanted, ahead=True)
        return test

    def test(subject: Subject, probe: Probe) -> None:
        del probe
        report = subject.compiled(types, constants, **wanted)
        expect_compiled(report, architecture, most_spilled=most_spilled, uses=uses)

    return Property(name, points, test, slow=True, begin=begin)


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
        text = f": `{report['text']}`" if report.get("text") else ""
        where = f"line {report['line']}{text}" if report["line"] else "the kernel"
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
        if not report["products"].get(wanted):
            raise Miss(
                f"compiled for sm_{architecture}, the code has no {wanted} instruction, by which "
                "its tensor cores multiply tiles of 64 rows and more.",
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
        uses: names of products that the code must have, such as ``"HGMMA"``.
        points: what it is worth.
    """

    def begin(subject: Subject, probe: Probe) -> Test:
        first: dict[str, Mapping[str, Any]] = {}
        for _, call, _ in cases(probe.rng):
            for launch in launched(subject, probe, call).trace:
                if first.setdefault(launch["kernel"], launch) is launch:
                    compile_launch(subject, launch, ahead=True)

        def test(subject: Subject, probe: Probe) -> None:
            del probe
            for launch in first.values():
                report = compile_launch(subject, launch)
                expect_compiled(report, most_spilled=most_spilled, uses=uses)

        return test

    return Property(name, points, begun_by(begin), slow=True, begin=begin)


def compile_launch(
    subject: Subject, launch: Mapping[str, Any], *, ahead: bool = False
) -> dict[str, Any]:
    """The compile report of a kernel as it was launched; with ``ahead``, let it begin."""
    wanted = {n: launch[n] for n in ("warps", "stages") if launch[n]} | {"ahead": ahead}
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
            "no kernel was launched: what is asked for is what kernels make.", topic="no kernel"
        ).on(_given(probe, call), "")
    return outcome


def _reads_outside(outcome: Outcome) -> bool:
    """Whether memory that belongs to no argument was read, which the tracer makes NaN as well."""
    return any(e["kind"] == "outside read" for launch in outcome.trace for e in launch["events"])


def _expect_read_once(outcome: Outcome, given: str, why: str) -> None:
    """Expect no number to be read by two loads."""
    for launch in outcome.trace:
        for name, buffer in launch["buffers"].items():
            if buffer["again"]:
                raise Miss(
                    f"{buffer['again']} of {buffer['elements']} elements of {name} are read more "
                    "than once.",
                    topic="read again",
                ).on(given, why)


def _expect_read_no_more(outcome: Outcome, call: Call, most: int, given: str, why: str) -> None:
    """Expect no more numbers of a call's first argument to be read than these."""
    first = list(call.args[0].shape)
    for launch in outcome.trace:
        for name, buffer in launch["buffers"].items():
            if buffer["shape"] == first and not buffer["written"] and buffer["read"] > most:
                text = f"{buffer['read']} numbers of {name} are read, and {most} are needed."
                raise Miss(text, topic="reads more").on(given, why)


def _has_nan(value: Any) -> bool:
    parts = value if isinstance(value, (tuple, list)) else (value,)
    arrays = [as_array(part) for part in parts]
    return any(a is not None and a.dtype.kind == "f" and np.isnan(a).any() for a in arrays)


def _expect_types(got: Any, want: Any, names: Sequence[str] = ()) -> None:
    """Expect tensors of the right types; what is no tensor, the comparison of values tells."""
    if isinstance(want, tuple):
        if not isinstance(got, (tuple, list)) or len(got) != len(want):
            return
    else:
        got, want = (got,), (want,)
    said = names if len(names) == len(want) else len(want) * ("a result",)
    for name, mine, right in zip(said, got, want, strict=True):
        if getattr(mine, "dtype", right.dtype) != right.dtype:
            text = f"{name} has the type {mine.dtype}, expected {right.dtype}."
            raise Miss(text.replace("torch.", ""), topic="type of the result")


def _expect_by_kernel(outcome: Outcome, probe: Probe) -> None:
    """Expect what was returned to be as kernels wrote it; torch is for making memory only."""
    values = outcome.value if isinstance(outcome.value, (tuple, list)) else (outcome.value,)
    pairs = zip(outcome.trace[-1]["by_kernel"], values, strict=False)
    written = [was or not value.any() for was, value in pairs]  # memory may begin as zeros
    if all(written):
        return
    names = probe.results or ("the result",)
    which = names[written.index(False)] if len(names) == len(written) else "a result"
    raise Miss(
        f"{which} is not as a kernel wrote it: torch makes the memory, and kernels do the rest.",
        topic="not a kernel's",
    )


def _given(probe: Probe, call: Call) -> str:
    """The launch as text: the kernel's name and the launcher's own arguments."""
    if not call.launcher:
        return probe.given(call.args, call.kwargs)
    module, _, name = call.launcher.partition(":")
    names = tuple(inspect.signature(getattr(import_module(module), name)).parameters)[1:]
    return describe_call(probe.reference.__name__, names, call.args, call.kwargs)
