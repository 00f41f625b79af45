"""What a traced launch did, in words for the learner."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attend_grader.checks.compare import Miss
from attend_grader.checks.outcomes import Outcome
from attend_grader.inside.memory import NO_ARGUMENT


def told(event: Mapping[str, Any], grid: Sequence[int]) -> Miss:
    """One event of a launch with this grid as a miss, in words."""
    who, *others = _programs(event["programs"], grid)
    line = f"line {event['line']}: `{event['text']}`" if event["line"] else "its code"
    elements = f"{event['count']} element{'s' if event['count'] != 1 else ''}"
    buffer, cause = event["buffer"], ""
    match event["kind"]:
        case "outside read" | "outside write":
            verb = "reads" if event["kind"] == "outside read" else "writes"
            text = f"{who} {verb} {elements} {_where(event)} ({line})."
            gaps = buffer != NO_ARGUMENT and not event["first"]
            cause = "The interpreter forgives it, a GPU may not. " + (
                "Nothing of this access lies inside: look at its offsets, then at the grid."
                if event["whole"]
                else "Where its offsets are right, it needs a mask that is False for each index "
                "that is not one of the buffer's."
            )
            if gaps:
                cause = (
                    "Other numbers lie there, and a GPU says nothing. Look at the strides, then at "
                    "the mask."
                )
        case "unwritten read":
            text = (
                f"{who} reads {elements} of {buffer}, first {buffer}{event['first']}, before any "
                f"program has written there ({line})."
            )
            cause = (
                "Memory made by torch.empty holds anything. Is it a sum that begins at 0? Then use "
                "torch.zeros. Should a program have stored there first? Then look at what each one "
                "covers: blocks, masks, the grid."
            )
        case "two writers":
            other = others[0] if others else "another one"
            text = f"{who} and {other} both write {_range(event)} ({line})."
            cause = (
                "On a GPU programs run at the same time, and either may come last. Each place of "
                "an output belongs to one program or, where atomics are allowed, all of them add "
                "to it with tl.atomic_add."
            )
        case _:
            rest = f"{others[0]} uses" if others else "other programs use"
            text = f"{who} uses {_range(event)}, which {rest} too, and one of them writes"
            text += f" ({line})."
            cause = (
                "On a GPU programs run in any order, so what is read there may be old or new. Let "
                "one program do both, launch a second kernel for what comes after or, where "
                "atomics are allowed, leave a sum to tl.atomic_add."
            )
    topic = f"{event['kind']}: {elements} of {buffer}"
    return Miss(text, cause=cause, topic=topic)


ORDER = ("outside write", "outside read", "unwritten read", "two writers", "order")
"""Kinds of events, what matters most first."""


def worst(outcome: Outcome, *, grids: bool = True) -> Miss | None:
    """What matters most of what a call's launches should not do; None where all is clean.

    Args:
        outcome: of the call.
        grids: also where programs have nothing to do.
    """
    for launch in outcome.trace:
        first = min(launch["events"], key=lambda e: ORDER.index(e["kind"]), default=None)
        if first is not None:
            return told(first, launch["grid"])
        if grids and launch["idle"]:
            return idle(launch, never_written(outcome))
    return None


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
    start = "" if first == 0 else f", {first + 1} places behind its last element"
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


def _programs(places: Sequence[Sequence[int]], grid: Sequence[int]) -> list[str]:
    """Programs by their numbers, with the axes along which the grid has more than one."""
    axes = 1 + max((i for i, programs in enumerate(grid) if programs > 1), default=0)
    if axes == 1:
        return [f"program {place[0]}" for place in places]
    return [f"program ({', '.join(map(str, place[:axes]))})" for place in places]


def never_written(outcome: Outcome) -> str:
    """What of a launch's outputs no program wrote; empty where all was."""
    for launch in outcome.trace:
        for name, buffer in launch["buffers"].items():
            if buffer["never"]:
                first, last = buffer["never"]
                left = buffer["elements"] - buffer["written"]
                programs = math.prod(launch["grid"])
                many = f"{programs} program{'s' * (programs > 1)}"
                twice = any(event["kind"] == "two writers" for event in launch["events"])
                return (
                    f"{left} of {buffer['elements']} elements of {name} are never written, the "
                    f"first at {first}, the last at {last}; the grid has {many}"
                    + (
                        ", and two of them write one place: look at the offsets."
                        if twice
                        else ". Is it too small, does a loop end too early, does a mask hide too "
                        "much, or do offsets lead to other elements?"
                    )
                )
    return ""


def unfilled_loads(outcome: Outcome) -> str:
    """What to say of loads with a mask and no ``other``; empty where there are none."""
    lines = [f"`{text}`" for launch in outcome.trace for _, text in launch["unfilled"]]
    if not lines:
        return ""
    return (
        f"{lines[0]} has a mask and no `other`: the lanes that are masked out hold anything (here "
        "NaN). Say what they should hold, so that they change nothing."
    )


def idle(launch: Mapping[str, Any], left: str = "") -> Miss:
    """A launch with programs that do nothing, as a miss; ``left``: what no program has written."""
    many = len(launch["idle"])
    programs = math.prod(launch["grid"])
    text = (
        f"{many} of {programs} programs read and write nothing, the first is "
        f"{_programs(launch['idle'][:1], launch['grid'])[0]}"
    )
    if left:  # then it is not the grid that is too large
        cause = (
            "They return early, or all their places are masked out, and others are left: look at "
            "the offsets, and at who returns."
        )
        return Miss(f"{text}.", cause=cause, topic="idle")
    return Miss(
        f"{text}: the grid is larger than the work.",
        cause="triton.cdiv(n, BLOCK) programs are enough for n elements.",
        topic="idle",
    )
