"""Exercise 19_triton_flash_backward/one_pass: repair a dQ that several programs write."""

from __future__ import annotations

from dataclasses import replace

from attend_solutions import triton_flash_backward as answers

from attend_grader.chapters.ch19_triton_flash_backward.shared import (
    MEMORY,
    SAYS,
    as_edits,
    cases,
    drawn,
    kernel_properties,
)
from attend_grader.checks.compare import Miss
from attend_grader.checks.exercise import Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.kernels import launched
from attend_grader.checks.subject import Subject

RESULTS = ("dq", "dk", "dv")
SHARE = "share = tl.dot(k.T, dx.to(k.dtype)) * scale"
PLACES = "dq_ptr + row[None, :] * D + d[:, None]"
ADD = f"tl.atomic_add({PLACES}, share, mask=t[None, :] < T)"
ZEROS = "dq = torch.zeros((H, T, D), dtype=torch.float32, device=q.device)"

SLIPS = (
    Slip(
        "rows of dQ written other than by atomic additions",
        (ADD,
         f"before = tl.load({PLACES}, mask=t[None, :] < T, other=0.0)\n"
         f"        tl.store({PLACES}, before + share, mask=t[None, :] < T)"),
        "Several programs write the same rows of dQ, and not all of them by an addition that is "
        "atomic among programs (with scope=\"cta\" it is not). On a GPU a share may get lost. Add "
        "every share with tl.atomic_add, to a dQ of zeros.",
    ),
    Slip(
        "stored, not added",
        (ADD, f"tl.store({PLACES}, share, mask=t[None, :] < T)"),
        "Programs overwrite what others wrote to the same rows of dQ. Add the shares, with "
        "tl.atomic_add.",
    ),
    Slip(
        "what was there is added once more",
        (ADD,
         f"before = tl.load({PLACES}, mask=t[None, :] < T, other=0.0)\n"
         f"        tl.atomic_add({PLACES}, before + share, mask=t[None, :] < T)"),
        "Each program that adds to rows of dQ doubles what they hold, as if that were loaded and "
        "added once more. tl.atomic_add loads by itself, so give it the share alone.",
    ),
    Slip(
        "every head adds to the first one's rows",
        (ADD, ADD.replace("row[None, :]", "t[None, :]")),
        "All heads add to the first one's rows of dQ. Head h's should begin at row h · T, as in "
        "`row`.",
    ),
    Slip(
        "only the first program adds",
        (ADD, f"tl.atomic_add({PLACES}, share, mask=(t[None, :] < T) & (tl.program_id(0) == 0))"),
        "dQ lacks the shares of all programs but each head's first. Every program should add its "
        "own.",
    ),
    Slip(
        "the larger one is kept",
        (ADD, f"tl.atomic_max({PLACES}, share, mask=t[None, :] < T)"),
        "Of the shares and 0, dQ keeps the largest. They are to be added.",
    ),
    Slip(
        "added without a mask",
        (ADD, f"tl.atomic_add({PLACES}, share)"),
        "Where T is no multiple of the block, places behind a head's last query are added to: the "
        "next head's rows, or foreign memory. Give the atomic operation the mask t < T.",
    ),
    Slip(
        "the share without the scale",
        (SHARE, "share = tl.dot(k.T, dx.to(k.dtype))"),
        "dQ lacks the factor `scale`: multiply the share by it.",
    ),
    Slip(
        "dQ starts as whatever was there",
        (ZEROS, ZEROS.replace("zeros", "empty")),
        "dQ does not begin at 0, as if torch.empty had made it. An atomic addition adds to what "
        "is there: begin with torch.zeros.",
    ),
    Slip(
        "dQ starts at one",
        (ZEROS, ZEROS.replace("zeros", "ones")),
        "dQ is too large by what it began with. Begin the sum at 0.",
    ),
)  # fmt: skip

ALTERNATIVES = as_edits(
    answers.one_pass,
    {
        "rows are queries": (
            (SHARE, "share = tl.dot(tl.trans(dx.to(k.dtype)), k)"),
            (ADD, "tl.atomic_add(dq_ptr + rows, share * scale, mask=t[:, None] < T)"),
        ),
        "relaxed, dQ cleared otherwise": (
            (ADD, f'tl.atomic_add({PLACES}, share, mask=(t < T)[None, :], sem="relaxed")'),
            (ZEROS, "dq = torch.zeros_like(q, dtype=torch.float32)"),
        ),
    },
)

BUDGET = "adds each pair's share once"


def _one_launch(prop: Property) -> Property:
    """The same property, where one launch makes everything."""

    def test(subject: Subject, probe: Probe) -> None:
        for why, call, _ in cases(MEMORY[:1], RESULTS)(probe.rng):
            count = len(launched(subject, probe, call).trace)
            if count > 1:
                text = f"{count} launches were made: one is to make all three gradients."
                raise Miss(text, topic="launches").on(probe.given(call.args, call.kwargs), why)
        prop.test(subject, probe)

    return replace(prop, test=test)


def _properties() -> tuple[Property, ...]:
    made = kernel_properties(RESULTS, BUDGET, of="keys", atomic=True)
    return tuple(_one_launch(prop) if prop.name == BUDGET else prop for prop in made)


EXERCISE = Exercise(
    chapter="19_triton_flash_backward",
    title="Repair: a dQ with a race",
    goal="Find out who else writes where this kernel writes dQ, and repair it.",
    reference=answers.one_pass,
    contract=Contract(
        arguments_unchanged=True,
        says=(*SAYS, "One launch makes all three; torch only makes memory, empty or zeros."),
    ),
    properties=_properties(),
    draws=drawn(RESULTS),
    slips=SLIPS,
    alternatives=ALTERNATIVES,
    hints=(
        "Two programs have different keys. Do they have different queries? What happens if both "
        "load a row of dQ before either has stored it?",
        "Loading, adding and storing are three steps. There is one operation that does all three "
        "without letting anybody in between.",
        "tl.atomic_add(address, share, mask=...), with the addresses and the mask of the store "
        "before, in the place of load and store.",
    ),
    minutes=10,
    difficulty=2,
    importance=4,
    results=("dQ", "dK", "dV"),
)
