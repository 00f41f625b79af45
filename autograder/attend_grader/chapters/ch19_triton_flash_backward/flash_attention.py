"""Exercise 19_triton_flash_backward/flash_attention: kernels behind an autograd.Function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from attend_solutions import triton_flash_backward as answers

from attend_grader.chapters.ch19_triton_flash_backward.shared import (
    GRADIENT,
    Case,
    Size,
    as_edits,
    pieces,
    usual,
)
from attend_grader.checks.behaviour import same_value
from attend_grader.checks.compare import Miss, Tolerance, expect_close
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.kernels import right_values
from attend_grader.checks.subject import Subject, SubjectError
from attend_grader.checks.torch_properties import transposed
from attend_grader.inside.views import rows_apart

PLAIN = (Size(2, 17, 5),)
CAUSAL = (Size(1, 5, 19, causal=True),)
MODEL = "attend.data.flash_gradients:in_a_model"
"""Adds the output to q."""

HALVES = Tolerance(
    "gradients from float16", 5e-3, "weights and scores' gradients rounded at 5e-4", absolute=2e-3
)
SCALED = (Size(1, 3, 7, causal=True, scale=0.1), Size(1, 3, 5, scale=0.0))


def _value(rng: np.random.Generator) -> Iterator[Case]:
    for size in (PLAIN[0], *SCALED):
        q, k, v, d_out = usual(rng, size)
        out = pieces(q, k, v, d_out, size.causal, size.scale)["out"]
        yield size.why(), Call((q, k, v, size.causal, size.scale)), out


def _pull(
    subject: Subject, probe: Probe, size: Size, inputs: Sequence[torch.Tensor], *,
    wrt: tuple[int, ...] = (0, 1, 2), why: str = "", launcher: str = "",
    tolerance: Tolerance = GRADIENT,
) -> None:  # fmt: skip
    """Pull a gradient back, and expect those of q, k and v to be right."""
    q, k, v, d_out = inputs
    args = (q, k, v, size.causal, size.scale)
    outcome = subject.gradients(args, wrt=wrt, cotangents=[d_out], launcher=launcher)
    why = why or size.why()
    given = probe.given(args, {})
    if outcome.error is not None:
        raise SubjectError(outcome.error, given)
    if getattr(outcome.value, "shape", None) != q.shape:
        raise Miss("the output has a wrong shape.", topic="shape").on(given, why)
    if outcome.value.dtype != torch.float32:
        text = f"the output has the type {outcome.value.dtype}, expected torch.float32."
        raise Miss(text, topic="type of the output").on(given, why)
    right = pieces(q, k, v, d_out, size.causal, size.scale)
    if launcher == MODEL:
        right["dq"] = right["dq"] + d_out
    for place in wrt:
        name = "qkv"[place]
        mine = (outcome.gradients or {}).get(place)
        try:
            if mine is None:
                raise Miss(f"no gradient reaches {name}.", topic=f"no gradient of {name}")
            expect_close(mine, right[f"d{name}"], tolerance, f"the gradient of {name}")
        except Miss as miss:
            raise miss.on(given, why) from None


def _plain(subject: Subject, probe: Probe) -> None:
    """Every query sees every key: alone, in a model, and by kernels."""
    size = PLAIN[0]
    inputs = usual(probe.rng, size)
    _pull(subject, probe, size, inputs)
    why = "the output is added to q, and other calls follow before gradients are asked for"
    _pull(subject, probe, size, inputs, why=why, launcher=MODEL)
    args, alone = tuple(inputs[:3]), subject.with_references(())  # whose launches are seen
    forwards = alone.run(args, trace="events")
    both = alone.gradients(args, wrt=(0, 1, 2), cotangents=inputs[3:], trace="events")
    if forwards.error is not None or both.error is not None:
        return
    if not same_value(both.value, forwards.value):  # copied after the gradients were made
        text = (
            "asking for gradients changes the output that was returned: the way back writes into "
            "its memory. Make a new tensor."
        )
        raise Miss(text, topic="output changed").on(probe.given(args, {}), size.why())
    back = [b for each in both.trace[len(forwards.trace) :] for b in each["buffers"].values()]
    written, asked = sum(b["written"] for b in back), sum(x.numel() for x in args)
    if written < asked:
        text = (
            f"on the way back kernels write {written} numbers, and dQ, dK and dV have {asked}: all "
            "three are to come from kernels."
        )
        raise Miss(text, topic="no kernel back").on(probe.given(args, {}), size.why())


def _gradients(name: str, sizes: Sequence[Size], points: int = 1) -> Property:
    def test(subject: Subject, probe: Probe) -> None:
        for size in sizes:
            _pull(subject, probe, size, usual(probe.rng, size))

    return Property(name, points, test)


def _views(subject: Subject, probe: Probe) -> None:
    """Whatever comes in another order of memory: each argument, and the gradient."""
    size = Size(1, 5, 7, causal=True)
    for place, name in enumerate(("q", "k", "v", "the gradient that comes in")):
        inputs = usual(probe.rng, size)
        inputs[place] = transposed(inputs[place])
        _pull(subject, probe, size, inputs, why=f"{name} is a view with other strides")
    why = "all are views of matrices twice as wide"
    launcher = f"{rows_apart.__module__}:{rows_apart.__name__}"
    _pull(subject, probe, size, usual(probe.rng, size), why=why, launcher=launcher)


def _half(subject: Subject, probe: Probe) -> None:
    """float16: gradients to its digits, the output in float32."""
    size = Size(1, 5, 7)
    *inputs, d_out = (x.half() for x in usual(probe.rng, size))
    _pull(subject, probe, size, [*inputs, d_out.float()], why="float16", tolerance=HALVES)


def _one_only(subject: Subject, probe: Probe) -> None:
    """Gradients where one argument alone asks for one."""
    size, alone = Size(1, 3, 5), subject.with_references(())  # whose launches are seen
    for place in range(3):
        inputs = usual(probe.rng, size)
        _pull(subject, probe, size, inputs, wrt=(place,))
        args = tuple(inputs[:3])
        forwards = alone.run(args, trace="events")
        both = alone.gradients(args, wrt=(place,), cotangents=inputs[3:], trace="events")
        if both.error is None and len(both.trace) <= len(forwards.trace):
            text = f"no kernel is launched on the way back where {'qkv'[place]} alone asks."
            raise Miss(text, topic="no kernel back").on(probe.given(args, {}), size.why())


def draws(rng: np.random.Generator) -> list[Call]:
    """Two heads; causal with a scale of its own; a scale of 0."""
    return [call for _, call, _ in _value(rng)]


SAVE = "ctx.save_for_backward(q, k, v, out, lse)"
CONTIGUOUS = "d_out = d_out.contiguous().to(q.dtype)"
BACK = (
    "dk, dv = grad_keys_values(q, k, v, d_out, lse, delta, causal, scale)",
    "dq = grad_queries(q, k, v, d_out, lse, delta, causal, scale)",
)
FORWARD = "forward_heads(q, k, v, causal, scale)"

SLIPS = (
    Slip(
        "gradients in another order",
        ("return dq, dk, dv", "return dq, dv, dk"),
        "The gradients of keys and values are exchanged. backward should return one for each "
        "argument of forward, in their order.",
    ),
    Slip(
        "the scale is left out on the way back",
        tuple((line, line.replace(", scale", "")) for line in BACK),
        "With a scale other than 1/√D the gradient of q, at least, is wrong, as if made with "
        "1/√D. Pass `scale` to both kernels.",
    ),
    Slip(
        "the mask is left out on the way back",
        tuple((line, line.replace("causal", "False")) for line in BACK),
        "Where the causal mask hides keys, the gradient of q, at least, is wrong: their weights "
        "are made on the way back. Pass `causal` to both kernels.",
    ),
    Slip(
        "the incoming gradient's strides",
        (CONTIGUOUS, "d_out = d_out.to(q.dtype)"),
        "The gradient that comes in may be a view with other strides, and the kernels count on "
        "rows without gaps: d_out.contiguous().",
    ),
    Slip(
        "the gradient keeps its type",
        (CONTIGUOUS, "d_out = d_out.contiguous()"),
        "With float16 arguments the gradient that comes in is float32, as the output is, and a "
        "product wants one type: d_out.to(q.dtype).",
    ),
    Slip(
        "delta from the gradient alone",
        ("flash_delta(out, d_out)", "flash_delta(d_out, d_out)"),
        "delta is made of the gradient twice. It should be the sum of output times gradient: save "
        "the output on the way forward.",
    ),
    Slip(
        "delta is 0 on the way back",
        ("delta = flash_delta(out, d_out)", "delta = 0 * flash_delta(out, d_out)"),
        "Gradients are made as if delta were 0: dQ and dK lack what comes through the softmax's "
        "sum.",
    ),
    Slip(
        "forward without causal and scale",
        (FORWARD, "forward_heads(q, k, v)"),
        "The output ignores `causal` and `scale`: pass them to forward_heads.",
    ),
    Slip(
        "forward without the scale",
        (FORWARD, "forward_heads(q, k, v, causal)"),
        "The output ignores `scale`: pass it to forward_heads.",
    ),
    Slip(
        "a scale of 0 taken for none",
        (FORWARD, "forward_heads(q, k, v, causal, scale or None)"),
        "A scale of 0 counts as no scale here, as if by `scale or …`. Only None should stand for "
        "1/√D.",
    ),
    Slip(
        "arguments with other strides",
        ("q, k, v = q.contiguous(), k.contiguous(), v.contiguous()", "q, k, v = q, k, v"),
        "The gradient of q, at least, is wrong where q is a view with other strides: the backward "
        "kernels count on rows without gaps. Make q, k and v contiguous before you save them.",
    ),
)  # fmt: skip

ALTERNATIVES = as_edits(
    answers.flash_attention,
    {
        "options go through apply": (
            ("def forward(ctx: Any, q: Any, k: Any, v: Any) -> Any:",
             "def forward(ctx, q, k, v, causal, scale):"),
            (SAVE, "ctx.causal, ctx.scale = causal, scale\n            " + SAVE),
            ("q, k, v, out, lse = ctx.saved_tensors",
             "q, k, v, out, lse = ctx.saved_tensors\n            causal, scale = ctx.causal, "
             "ctx.scale"),
            ("return dq, dk, dv", "return dq, dk, dv, None, None"),
            ("FlashFunction.apply(q, k, v)", "FlashFunction.apply(q, k, v, causal, scale)"),
        ),
        "contiguous outside, gradients in the inputs' type": (
            ("q, k, v = q.contiguous(), k.contiguous(), v.contiguous()", "pass"),
            ("return dq, dk, dv", "return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)"),
            ("FlashFunction.apply(q, k, v)",
             "FlashFunction.apply(q.contiguous(), k.contiguous(), v.contiguous())"),
        ),
    },
)  # fmt: skip

EXERCISE = Exercise(
    chapter="19_triton_flash_backward",
    title="A function that autograd knows",
    goal="Put the kernels behind torch.autograd.Function, with causal and scale.",
    reference=answers.flash_attention,
    contract=Contract(
        arguments_unchanged=True,
        forbids=("torch.softmax", "torch.nn"),
        says=(
            "Arguments, and the gradient that comes in, may be views with other strides.",
            "float32 or float16; the output is float32.",
            "`scale` is any number; None stands for 1/√D.",
            "One of q, k and v alone may ask for a gradient.",
            "Both ways launch kernels; other calls may come between them.",
        ),
    ),
    properties=(
        right_values("the output, from a kernel", _value, tolerance=GRADIENT),
        Property("gradients where every query sees every key", 1, _plain),
        _gradients("causal gradients", CAUSAL),
        _gradients("gradients with any scale", SCALED),
        Property("views, of arguments and of the gradient", 1, _views),
        Property("gradients of float16 arguments", 1, _half),
        Property("one argument alone asks for its gradient", 1, _one_only),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives=ALTERNATIVES,
    uses=("flash_delta", "grad_keys_values", "grad_queries"),
    hints=(
        "forward: make q, k and v contiguous, call forward_heads, save what the way back needs, "
        "return the output. backward: the three functions above, in the order in which they need "
        "each other's results.",
        "ctx.save_for_backward(q, k, v, out, lse) and, in backward, q, k, v, out, lse = "
        "ctx.saved_tensors. The gradient that comes in may be a view, and float32 where q is "
        "float16: d_out = d_out.contiguous().to(q.dtype).",
        "delta = flash_delta(out, d_out); dk, dv = grad_keys_values(q, k, v, d_out, lse, delta, "
        "causal, scale); dq = grad_queries(...) of the same; return dq, dk, dv.",
    ),
    minutes=15,
    difficulty=3,
    importance=5,
)
