"""Causal depthwise convolution over time: each channel looks back K steps, and at no other channel.

Equation, for one channel with K taps w_0 ... w_{K-1}, the last of them for the present::

    s_t = b + sum_k w_k x_{t-K+1+k}        y_t = s_t sigmoid(s_t)  (SiLU), or y_t = s_t

    g_t  = dy_t dSiLU(s_t)
    dx_t = sum_k w_k g_{t+K-1-k}       dw_k = sum_t g_t x_{t-K+1+k}       db = sum_t g_t

Letters: ``B`` batch, ``T`` steps, ``C`` channels, ``K`` taps (4 in Mamba). What lies before the
first step, x_{1-K} ... x_{-1}, is the ``state``, oldest first; zeros if there is none.

Memory traffic, in elements a step and channel: forward 2 (x in, y out), backward 3 (x and dy in, dx
out), the least possible. ``naive_causal_conv1d`` moves 2 K forward for the taps and 4 for bias and
SiLU, as separate operations.

Mamba puts this convolution before its scan, as H3 did its shift: B, C and Δ then know a few tokens,
not one. Source: Gu & Dao 2023, "Mamba", section 3.4 and figure 3; Fu et al. 2023, "Hungry hungry
hippos". Nothing here has been timed on a GPU yet.
"""

from __future__ import annotations

from typing import Literal, Never, overload

import torch

from attend_kernels.common import fallback
from attend_kernels.common.arguments import assert_tensors
from attend_kernels.common.foreign import CONV, refuse
from attend_kernels.common.known import Known
from attend_kernels.common.shapes import ShapeError, assert_shape
from attend_kernels.ops.conv1d.naive import Activation, naive_causal_conv1d, with_past
from attend_kernels.ops.conv1d.operators import conv_forward, conv_step, launch_step

KNOWN = Known()
MOST_TAPS = 8  # the backward kernel keeps 2 K - 1 tiles of x in registers
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@overload
def causal_conv1d(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None = None,
    *,
    activation: Activation = "silu",
    state: torch.Tensor | None = None,
    output_state: Literal[False] = False,
) -> torch.Tensor: ...
@overload
def causal_conv1d(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None = None,
    *,
    activation: Activation = "silu",
    state: torch.Tensor | None = None,
    output_state: Literal[True],
) -> tuple[torch.Tensor, torch.Tensor]: ...
def causal_conv1d(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None = None,
    *,
    activation: Activation = "silu",
    state: torch.Tensor | None = None,
    output_state: bool = False,
    **foreign: Never,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Convolve each channel with its own K taps over its past, in one kernel, with its gradient.

    Time comes before channels. Each argument may have its own dtype (fp16, bf16, fp32, fp64; under
    ``torch.autocast`` nothing is cast); it accumulates in fp32 (fp64 for fp64). Gradients are the
    same to the bit each time. Without Triton or a GPU it warns once and runs its twin.

    Args:
        x: input.
        w: taps, the last for the present step: ``nn.Conv1d``'s weight without its axis of 1.
        b: bias.
        activation: ``"silu"`` or None.
        state: the last K - 1 inputs of an earlier call, oldest first; zeros if left out.
        output_state: also return the last K - 1 inputs, for the next call.

    Shapes: x ``(B, T, C)``, w ``(C, K)``, b ``(C,)``, state ``(B, C, K - 1)`` -> ``(B, T, C)`` in
    x's dtype, and the state ``(B, C, K - 1)`` in x's dtype; K from 1 to 8.

    Raises:
        ShapeError: the shapes do not belong together.
        TypeError: an argument is not floating point.
        ValueError: K is too large, the activation is unknown, or the devices differ.
    """
    if foreign:
        refuse("causal_conv1d", foreign, CONV)
    taps = _check("causal_conv1d", {"x": x, "w": w, "b": b, "state": state}, activation)
    reason = fallback.why_not(x) if x.numel() else None
    if reason:
        fallback.warn_once("causal_conv1d", "naive_causal_conv1d", reason)
    if reason or not x.numel():
        y = naive_causal_conv1d(x, w, b, activation=activation, state=state)
    else:
        y = conv_forward(x, w, b, state, activation == "silu")
    if not output_state:
        return y
    if taps == 1:
        return y, x.new_empty(x.shape[0], x.shape[2], 0)
    recent = x[:, -(taps - 1) :]
    if x.shape[1] < taps - 1:  # a call shorter than the past it must hand on
        recent = with_past(x, None if state is None else state.to(x.dtype), taps)
        recent = recent[:, -(taps - 1) :]
    return y, recent.transpose(1, 2).contiguous()


def causal_conv1d_step(
    state: torch.Tensor,
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None = None,
    *,
    activation: Activation = "silu",
) -> tuple[torch.Tensor, torch.Tensor]:
    """One step of ``causal_conv1d``, for decoding: y and the state after it.

    Shapes: state ``(B, C, K - 1)``, x ``(B, C)``, w ``(C, K)``, b ``(C,)`` -> y ``(B, C)`` and the
    new state ``(B, C, K - 1)``. The state given is left as it is.

    Raises:
        ShapeError, TypeError, ValueError: as ``causal_conv1d``.
    """
    key = KNOWN.key((state, x, w, b), activation)
    if KNOWN.find(key):
        return launch_step(state, x, w, b, activation == "silu")
    name = "causal_conv1d_step"
    assert_tensors(name, state=state, x=x)
    assert_shape(x, "B C", name="x")
    tensors = {"x": x[:, None], "w": w, "b": b, "state": state}
    _check(name, tensors, activation)
    learns = torch.is_grad_enabled() and any(
        tensor is not None and tensor.requires_grad for tensor in tensors.values()
    )
    if x.numel() and not learns and not fallback.why_not(x):
        KNOWN.keep(key)
        return conv_step(state, x, w, b, activation == "silu")
    y, state = causal_conv1d(
        x[:, None], w, b, activation=activation, state=state, output_state=True
    )
    return y[:, 0], state


def _check(function: str, tensors: dict[str, torch.Tensor | None], activation: Activation) -> int:
    assert_tensors(function, ("b", "state"), **tensors)
    given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    x, w = given["x"], given["w"]
    if w.dim() == 2 and x.dim() == 3 and x.shape[1] == w.shape[0] != x.shape[2]:
        raise ShapeError(
            f"{function}: x must be (B, T, C) with C={w.shape[0]}, as w has it; got "
            f"{tuple(x.shape)}. Likely cause: channels before time, as nn.Conv1d has them. "
            f"Next: x.transpose(1, 2)."
        )
    sizes: dict[str, int] = {}
    patterns = {"x": "B T C", "w": "C K", "b": "C"}
    for name, tensor in given.items():
        if name == "state" and tensor.dim() == 3 and tensor.shape[2] == sizes["K"]:
            raise ShapeError(
                f"{function}: state must be (B, C, {sizes['K'] - 1}), one input less than the "
                f"{sizes['K']} taps; got {tuple(tensor.shape)}. Likely cause: the state of "
                f"causal-conv1d or Hugging Face. Next: state[..., 1:]."
            )
        pattern = patterns.get(name) or f"B C {sizes['K'] - 1}"
        sizes = assert_shape(tensor, pattern, sizes, name=name)
        if tensor.dtype not in DTYPES:
            raise TypeError(
                f"{function}: expected float16, bfloat16, float32 or float64, got {name} of "
                f"{tensor.dtype}. Next: {name}.float()."
            )
        if tensor.device != x.device:
            raise ValueError(
                f"{function}: all tensors must be on one device, got x on {x.device} and {name} on "
                f"{tensor.device}. Next: {name}.to(x.device)."
            )
    if not 1 <= sizes["K"] <= MOST_TAPS:
        raise ValueError(
            f"{function}: w has K={sizes['K']} taps; expected 1 to {MOST_TAPS}. Likely cause: w "
            f"passed as (K, C), or nn.Conv1d's (C, 1, K). Next: w.T or w.squeeze(1)."
        )
    if activation not in ("silu", None):
        raise ValueError(
            f"{function}: activation must be 'silu' or None, got {activation!r}. "
            f"Next: 'silu' (which is swish), or None and another activation after it."
        )
    return sizes["K"]
