"""Exercise 18_triton_flash/choose_tiles: design tiles, judged by what the compiler reports."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from attend_solutions import triton_flash as answers
from attend_solutions.flash import hbm_traffic

from attend_grader.checks.compare import Miss
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.kernels import SHARED_LIMIT, expect_compiled
from attend_grader.checks.subject import Subject
from attend_grader.inside.compiling import compiled

LENGTH = 8192
MOST_MEGABYTES = {64: 71, 128: 141}
"""A head's traffic at 8,192 tokens: what tiles of 128 queries move, and 1 MB more."""
MOST_TURNS = 64
"""For the last program of a head of width 128: how often it rescales its accumulator."""
LEAST_STAGES = 3
REGISTERS, SHARED, RESERVED = 65_536, 233_472, 1_024
"""Of a processor of an H100; the last: bytes that the system takes for each program."""

TYPES = {
    **dict.fromkeys(("q_ptr", "k_ptr", "v_ptr"), "*fp16"),
    **dict.fromkeys(("out_ptr", "lse_ptr"), "*fp32"),
    **dict.fromkeys(("T", "S", "window"), "i32"),
    "scale": "fp32",
}
"""Of the kernel's run-time arguments."""


def reported(tiles: tuple[int, ...], width: int) -> dict[str, Any]:
    """What the compiler makes of the course's own kernel with these tiles."""
    block_t, block_s, warps, stages = tiles
    constants = {"D": width, "BLOCK_T": block_t, "BLOCK_S": block_s}
    return compiled(answers.causal_kernel, TYPES, constants, warps=warps, stages=stages)


def _tiles(subject: Subject, probe: Probe, width: int) -> tuple[int, ...]:
    tiles = probe.call(subject, width).value
    given = probe.given((width,), {})
    if not isinstance(tiles, (tuple, list)) or [type(n) for n in tiles] != 4 * [int]:
        text = f"returned {tiles!r}; expected four whole numbers."
        raise Miss(text, topic="four whole numbers").on(given, "")
    if any(n < 16 or n > 512 or n & (n - 1) for n in tiles[:2]):
        text = f"blocks of {tiles[0]} × {tiles[1]}: Triton's are powers of two, here 16 to 512."
        raise Miss(text, topic="powers of two").on(given, "")
    if tiles[2] not in (1, 2, 4, 8, 16, 32) or not 1 <= tiles[3] <= 16:
        text = f"{tiles[2]} warps, {tiles[3]} stages: warps are a power of two up to 32, stages "
        raise Miss(f"{text}1 to 16.", topic="warps or stages").on(given, "")
    return tuple(tiles)


def _moves_little(subject: Subject, probe: Probe) -> None:
    """The count of chapter 16, at two bytes a number."""
    for width, most in MOST_MEGABYTES.items():
        block_t, block_s, _, _ = _tiles(subject, probe, width)
        moved = hbm_traffic(LENGTH, LENGTH, width, block_t, block_s, causal=True) / 1e6
        if moved > most:
            raise Miss(
                f"width {width}: tiles of {block_t} queries move {moved:.1f} MB, the budget is "
                f"{most} MB.",
                cause="Keys and values are read once for each tile of queries: take larger ones.",
                topic="traffic",
            ).on(probe.given((width,), {}), "")


def _few_turns(subject: Subject, probe: Probe) -> None:
    _, block_s, _, stages = _tiles(subject, probe, 128)
    if LENGTH // block_s > MOST_TURNS:
        raise Miss(
            f"width 128: tiles of {block_s} keys rescale the accumulator {LENGTH // block_s} times "
            f"for {LENGTH:,} keys; {MOST_TURNS} are allowed.",
            cause="Take more keys at a time.",
            topic="turns",
        ).on(probe.given((128,), {}), "")
    for width in MOST_MEGABYTES:
        stages = _tiles(subject, probe, width)[3]
        if stages < LEAST_STAGES:
            raise Miss(
                f"width {width}: {stages} stages; at least {LEAST_STAGES} are asked for.",
                cause="With n stages, n tiles of keys and values have room in shared memory.",
                topic="stages",
            ).on(probe.given((width,), {}), "")


def _compiles(subject: Subject, probe: Probe, width: int) -> None:
    tiles = _tiles(subject, probe, width)
    block_t, block_s, _, stages = tiles
    needed = 2 * width * (block_t + 2 * stages * block_s)
    if needed > SHARED_LIMIT:  # the compiler says the same, after a while
        raise Miss(
            f"width {width}: a program needs {needed:,} bytes of shared memory; there are "
            f"{SHARED_LIMIT:,}.",
            cause="Take fewer stages, or smaller tiles.",
            topic="shared memory",
        ).on(probe.given((width,), {}), "")
    try:
        expect_compiled(reported(tiles, width), uses=("HGMMA",))
    except Miss as miss:
        raise miss.on(probe.given((width,), {}), f"width {width}") from None


def _two_fit(subject: Subject, probe: Probe) -> None:
    """Two programs of width 64 have room on one processor at once."""
    tiles = _tiles(subject, probe, 64)
    report = reported(tiles, 64)
    if "error" in report:
        raise Miss(f"width 64: it does not compile: {report['error']}", topic="does not compile")
    registers = 32 * tiles[2] * report["registers"]
    shared = report["shared"] + RESERVED
    for what, each, there, cause in (
        (
            "registers",
            registers,
            REGISTERS,
            "Registers are those of a thread times 32 threads a warp: try smaller tiles or fewer "
            "warps.",
        ),
        ("bytes of shared memory", shared, SHARED, "Take fewer stages, or smaller tiles."),
    ):
        if 2 * each > there:
            raise Miss(
                f"width 64: a program takes {each:,} {what}, and a processor has {there:,}: two "
                "programs do not fit.",
                cause=cause,
                topic=f"two programs: {what}",
            ).on(probe.given((64,), {}), "")


def draws(rng: np.random.Generator) -> list[Call]:
    """Both widths."""
    del rng
    return [Call((64,)), Call((128,))]


BOTH = "{64: (128, 64, 8, 3), 128: (128, 128, 8, 3)}[width]"


def _slip(name: str, narrow: tuple[int, ...], wide: tuple[int, ...], told: str) -> Slip:
    return Slip(name, (BOTH, f"{{64: {narrow}, 128: {wide}}}[width]"), told)


SLIPS = (
    _slip(
        "one stage too many",
        (128, 64, 8, 3),
        (128, 128, 8, 4),
        "With four stages, keys and values of four tiles of 128 take 262,144 bytes. There are "
        "232,448.",
    ),
    _slip(
        "64 keys for both widths",
        (128, 64, 8, 3),
        (128, 64, 8, 3),
        "Tiles of 64 keys take 128 turns for 8,192 keys; 64 are allowed at width 128.",
    ),
    _slip(
        "64 queries for both widths",
        (64, 64, 4, 3),
        (64, 128, 4, 3),
        "Tiles of 64 queries read keys and values about twice as often as tiles of 128.",
    ),
    _slip(
        "64 × 64 for both widths",
        (64, 64, 4, 3),
        (64, 64, 4, 3),
        "Tiles of 64 queries read keys and values about twice as often as tiles of 128, and tiles "
        "of 64 keys take 128 turns.",
    ),
    _slip(
        "four warps",
        (128, 64, 4, 3),
        (128, 128, 4, 3),
        "At width 128, four warps keep 128 × 128 sums and as many scores: more than 255 numbers a "
        "thread. The rest spills.",
    ),
    _slip(
        "128 keys for both widths",
        (128, 128, 8, 3),
        (128, 128, 8, 3),
        "At width 64, scores of 128 × 128 in 8 warps take so many registers that a second program "
        "has no room beside the first.",
    ),
    _slip(
        "two stages",
        (128, 64, 8, 2),
        (128, 128, 8, 2),
        "Two stages are one fewer than asked for, though there is room for three.",
    ),
)

EXERCISE = Exercise(
    chapter="18_triton_flash",
    title="Design: tiles for an H100",
    goal="Choose tiles, warps and stages that meet a budget, as the compiler reports.",
    reference=answers.choose_tiles,
    contract=Contract(
        says=("The result is four whole numbers.", "The course's own `causal_kernel` is compiled.")
    ),
    properties=(
        Property("moves no more than the budget", 1, _moves_little),
        Property("few enough turns, enough stages", 1, _few_turns),
        Property(
            "width 64: compiles, fits, no spills, tensor cores", 1, partial(_compiles, width=64)
        ),
        Property(
            "width 128: compiles, fits, no spills, tensor cores", 2, partial(_compiles, width=128)
        ),
        Property("width 64: two programs fit at once", 1, _two_fit),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={
        "one formula": Slip("", (BOTH, "(128, width, 8, 3)"), "").applied(answers.choose_tiles),
        "four stages of 32 keys": Slip(
            "", (BOTH, "(128, 32, 8, 4) if width == 64 else [128, 128, 8, 3]"), ""
        ).applied(answers.choose_tiles),
        "few warps for the narrow head, many for the wide": Slip(
            "", (BOTH, "128, 128, {64: 4, 128: 16}[width], 3"), ""
        ).applied(answers.choose_tiles),
    },
    hints=(
        "Traffic decides the queries: compute hbm_traffic(8192, 8192, D, block_t, 64, causal=True) "
        "for 64 and 128. Turns decide the keys at width 128.",
        "Shared memory in bytes is 2 · D · (block_t + 2 · stages · block_s). What is left for the "
        "stages at width 128?",
        "A program of 128 × 128 scores needs 8 warps, else registers spill. At width 64, two "
        "programs of 8 warps fit if each thread has at most 128 registers: try 64 keys.",
    ),
    minutes=15,
    open_ended=True,
    difficulty=3,
    importance=3,
)
