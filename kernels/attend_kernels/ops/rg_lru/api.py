"""The real-gated linear recurrent unit (RG-LRU) of Griffin and RecurrentGemma.

Equation, for one channel with input x_t and the logits of its two gates::

    r_t = sigmoid(recurrence_gate_t)          i_t = sigmoid(input_gate_t)
    l_t = -8 softplus(parameter) r_t          a_t = exp(l_t)
    h_t = a_t h_{t-1} + sqrt(1 - a_t²) i_t x_t

where a sequence starts, a_t is 0 and the root 1. The root keeps the variance of h as x has it,
whatever the gates do. y is h.

Its gradient: a recurrence that runs from the end, with g_t = dL/dh_t::

    g_t  = dy_t + a_{t+1} g_{t+1}          m_t = sqrt(1 - a_t²)
    dx_t = g_t m_t i_t                     d input_gate_t = g_t m_t x_t i_t (1 - i_t)
    l_t dL/dl_t = g_t (a_t l_t h_{t-1} - i_t x_t a_t² l_t / m_t) = e_t
    d recurrence_gate_t = e_t (1 - r_t)    d parameter = sum_t e_t sigmoid(p) / softplus(p)

(l / m goes to 0 with l, though 1 / m does not: no gradient needs clipping.)

Letters: ``B`` batch, ``T`` steps, ``C`` channels.

Memory traffic, in elements a step and channel. The least, and what the kernel moves: forward 4, the
input and two gates read, y written; backward 8, those and y and dy read, three gradients written.
Nothing is kept but y, which is h. The twin writes some ten tensors of that size.

Time is walked in tiles of ``TIME`` steps, within which a scan over pairs (a, b) takes log2(TIME)
rounds; programs are B · C / ``CHANNELS``, so short batches of few channels leave a GPU idle.

Sources: De et al. 2024, "Griffin: mixing gated linear recurrences with local attention for
efficient language models", equations 1 to 4 and 6; scan: Blelloch 1990. Nothing here has been timed
on a GPU yet.
"""

from __future__ import annotations

from typing import Literal, overload

import torch

from attend_kernels.common import fallback
from attend_kernels.common.arguments import assert_one_device, assert_tensors
from attend_kernels.common.shapes import assert_shape
from attend_kernels.ops.rg_lru.naive import naive_rg_lru
from attend_kernels.ops.rg_lru.operators import rg_lru_forward

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
PATTERNS = {
    "x": "B T C",
    "input_gate": "B T C",
    "recurrence_gate": "B T C",
    "parameter": "C",
    "initial_state": "B C",
    "starts": "B T",
}


@overload
def rg_lru(
    x: torch.Tensor,
    input_gate: torch.Tensor,
    recurrence_gate: torch.Tensor,
    parameter: torch.Tensor,
    *,
    starts: torch.Tensor | None = None,
    initial_state: torch.Tensor | None = None,
    output_state: Literal[False] = False,
) -> torch.Tensor: ...
@overload
def rg_lru(
    x: torch.Tensor,
    input_gate: torch.Tensor,
    recurrence_gate: torch.Tensor,
    parameter: torch.Tensor,
    *,
    starts: torch.Tensor | None = None,
    initial_state: torch.Tensor | None = None,
    output_state: Literal[True],
) -> tuple[torch.Tensor, torch.Tensor]: ...
def rg_lru(
    x: torch.Tensor,
    input_gate: torch.Tensor,
    recurrence_gate: torch.Tensor,
    parameter: torch.Tensor,
    *,
    starts: torch.Tensor | None = None,
    initial_state: torch.Tensor | None = None,
    output_state: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Run a batch of sequences through the unit in one kernel, forward and backward.

    Each argument may have its own dtype (fp16, bf16, fp32; under ``torch.autocast`` nothing is
    cast); the state is fp32. Gradients are the same to the bit each time. Without Triton or a GPU
    it warns once and runs ``naive_rg_lru`` in fp32.

    Args:
        x: input.
        input_gate: logits of the input's gate, before their sigmoid.
        recurrence_gate: logits of the decay's gate, before their sigmoid.
        parameter: what softplus makes the decay's rate of; one a channel.
        starts: True where a sequence starts, as where ``position_ids == 0``; None is at the first
            step alone, and not even there with an initial state.
        initial_state: h before the first step; zeros if left out.
        output_state: also return the last h. Gradients flow through it.

    Shapes: x and the gates ``(B, T, C)``, parameter ``(C,)``, starts ``(B, T)`` of bool,
    initial_state ``(B, C)`` -> y ``(B, T, C)`` in x's dtype, and the last state ``(B, C)`` in fp32.

    Raises:
        ShapeError: the shapes do not belong together.
        TypeError: an argument is no tensor, or of no dtype named above.
        ValueError: the tensors are on different devices.
    """
    given = {"x": x, "input_gate": input_gate, "recurrence_gate": recurrence_gate}
    given |= {"parameter": parameter}
    optional = {"initial_state": initial_state, "starts": starts}
    assert_tensors("rg_lru", tuple(optional), **given, **optional)
    sizes: dict[str, int] = {}
    for name, tensor in (given | optional).items():
        if tensor is None:
            continue
        sizes = assert_shape(tensor, PATTERNS[name], sizes, name=name)
        if name == "starts" and tensor.dtype != torch.bool:
            raise TypeError(
                f"rg_lru: starts must be bool, got {tensor.dtype}. Next: position_ids == 0."
            )
        if name != "starts" and tensor.dtype not in DTYPES:
            raise TypeError(
                f"rg_lru: expected float16, bfloat16 or float32, got {name} of {tensor.dtype}. "
                f"Next: {name}.float(); for float64, naive_rg_lru."
            )
    assert_one_device("rg_lru", *given.values(), *optional.values())
    reason = fallback.why_not(x) if x.numel() else None
    if reason:
        fallback.warn_once("rg_lru", "naive_rg_lru", reason)
    if reason or not x.numel():
        y, state = naive_rg_lru(
            x.float(), input_gate.float(), recurrence_gate.float(), parameter.float(),
            starts=starts, initial_state=initial_state,
        )  # fmt: skip
        y = y.to(x.dtype)
    else:
        y, state = rg_lru_forward(x, input_gate, recurrence_gate, parameter, starts, initial_state)
    return (y, state) if output_state else y


def rg_lru_step(
    state: torch.Tensor,
    x: torch.Tensor,
    input_gate: torch.Tensor,
    recurrence_gate: torch.Tensor,
    parameter: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One step of ``rg_lru``, for decoding: y and the state after it; none starts here.

    Shapes: state, x and the gates ``(B, C)``, parameter ``(C,)`` -> y and the state ``(B, C)``.

    Raises:
        ShapeError, TypeError, ValueError: as ``rg_lru``.
    """
    assert_tensors("rg_lru_step", state=state, x=x)
    assert_shape(x, "B C", name="x")
    y, state = rg_lru(
        x[:, None], input_gate[:, None], recurrence_gate[:, None], parameter,
        initial_state=state, output_state=True,
    )  # fmt: skip
    return y[:, 0], state
