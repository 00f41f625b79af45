"""The selective scan of Mamba-1: a linear recurrence whose coefficients the input chooses.

Equation, for one channel with its input u_t and step size Δ_t, and the sequence's B_t and C_t::

    Δ_t = softplus(delta_t + delta_bias)                      (each optional)
    h_t = exp(Δ_t A) h_{t-1} + Δ_t B_t u_t                    N states, each by itself
    y_t = C_t · h_t + D u_t                                   y_t = y_t silu(z_t) if gated

exp(Δ A) is A discretised exactly (zero-order hold), Δ B the first-order form of the same for B. A
large Δ forgets the past (A < 0) and writes u; a Δ near 0 keeps the state and skips u.

Its gradient: a recurrence that runs from the end, with g_t = dL/dh_t and dy after the gate::

    g_t  = C_t dy_t + exp(Δ_{t+1} A) g_{t+1}
    dC_t = sum_c h_t dy_t                  dB_t = sum_c g_t Δ_t u_t
    du_t = Δ_t (g_t · B_t) + D dy_t        dA   = sum_t g_t Δ_t exp(Δ_t A) h_{t-1}
    dΔ_t = u_t (g_t · B_t) + g_t · (A exp(Δ_t A) h_{t-1})

Letters: ``B`` batch, ``T`` steps, ``C`` channels, ``N`` states a channel, except that the
*arguments* ``B``, ``C`` and ``D`` are the paper's matrices, as in every Mamba. In the kernels those
are ``b``, ``c`` and ``d``, and ``a`` or ``rate`` is A.

Memory traffic, in elements a step and channel. The least is 3, with a gate 4: u, Δ (and z) read, y
written; B and C are shared by all channels. The twin writes exp(Δ A), Δ B u and the states, N each.
The kernel keeps the state in registers, and for the backward pass it writes one state every CHUNK =
64 steps, fp32 (B, T / 64, N, C): at N = 16 in bf16 half an element a step. A longer chunk would
store less and need more scratch (see ``backward``). Backward: 5, with a gate
7, and for dB and dC 4 N / BLOCK_C fp32 numbers.

Where a batch has too few channels to fill the GPU, time is cut into segments that run side by side,
after a pass that finds the state each starts from (``segments``). That reads
u, Δ and B once more, backward dy, Δ, C and z, and writes a state a segment, of which there are only
as many as the GPU has room for: still no (B, T, C, N) tensor.

Arithmetic: an exponential and 5 other operations a state and step forward, 3 exponentials and about
20 operations backward. The exponentials bound the forward kernel: a streaming multiprocessor does
16 a clock. There is nothing for the tensor cores, which is what Mamba-2 changed.

Sources: Gu & Dao 2023, "Mamba: linear-time sequence modeling with selective state spaces",
equations 1 to 4, algorithm 2 and section 3.3 (the state stays in fast memory and is recomputed
backward). Nothing here has been timed on a GPU yet.
"""

# ruff: noqa: N803  # B, C and D are the paper's matrices here, as in every Mamba

from __future__ import annotations

from typing import Any, Literal, Never, TypedDict, Unpack, overload

import torch

from attend_kernels.common import fallback
from attend_kernels.common.arguments import assert_tensors
from attend_kernels.common.foreign import SCAN, refuse
from attend_kernels.common.known import Known
from attend_kernels.common.shapes import ShapeError, assert_shape
from attend_kernels.ops.selective_scan import operators
from attend_kernels.ops.selective_scan import tiles as configs
from attend_kernels.ops.selective_scan.naive import (
    naive_parallel_selective_scan,
    naive_selective_scan,
)

__all__ = [
    "naive_parallel_selective_scan",
    "naive_selective_scan",
    "selective_scan",
    "selective_scan_step",
]
KNOWN = Known()
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
PATTERNS = {
    "u": "B T C",
    "delta": "B T C",
    "A": "C N",
    "B": "B T N",
    "C": "B T N",
    "D": "C",
    "z": "B T C",
    "delta_bias": "C",
    "initial_state": "B C N",
}


class Keywords(TypedDict, total=False):
    """Options of ``selective_scan``, which has their defaults and explains them."""

    D: torch.Tensor | None
    z: torch.Tensor | None
    delta_bias: torch.Tensor | None
    softplus: bool
    initial_state: torch.Tensor | None


@overload
def selective_scan(
    u: torch.Tensor,
    delta: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    *,
    output_state: Literal[False] = False,
    **options: Unpack[Keywords],
) -> torch.Tensor: ...
@overload
def selective_scan(
    u: torch.Tensor,
    delta: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    *,
    output_state: Literal[True],
    **options: Unpack[Keywords],
) -> tuple[torch.Tensor, torch.Tensor]: ...
def selective_scan(
    u: torch.Tensor,
    delta: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    *,
    D: torch.Tensor | None = None,
    z: torch.Tensor | None = None,
    delta_bias: torch.Tensor | None = None,
    softplus: bool = True,
    initial_state: torch.Tensor | None = None,
    output_state: bool = False,
    **foreign: Never,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Scan a batch of sequences in one kernel, forward and backward; time comes before channels.

    Each argument may have its own dtype (fp16, bf16, fp32; under ``torch.autocast`` nothing is
    cast). The state is fp32 (fp64 where u is). Gradients are the same to the bit each time. Without
    Triton or a GPU it warns once and runs ``naive_selective_scan``.

    Args:
        u: input of the recurrence, after the convolution.
        delta: step sizes, before bias and softplus.
        A: decay rates, negative: -exp(A_log). Real.
        B: what a step writes to.
        C: what a step reads from.
        D: weight of the skip connection.
        z: gate, before its SiLU.
        delta_bias: added to delta.
        softplus: whether delta (with its bias) goes through softplus.
        initial_state: h_0; zeros if left out. As an earlier call returned it, it is not copied.
        output_state: also return the last state. Gradients flow through it.

    Shapes: u, delta and z ``(B, T, C)``, A ``(C, N)``, B and C ``(B, T, N)``, D and delta_bias
    ``(C,)``, initial_state ``(B, C, N)`` -> y ``(B, T, C)`` in u's dtype, and the last state
    ``(B, C, N)``; N from 1 to 256.

    Raises:
        ShapeError: the shapes do not belong together.
        TypeError: an argument is not real floating point.
        ValueError: N is too large, or the tensors are on different devices; on a CPU also if A is
            positive or, without softplus, a step size negative.
    """
    if foreign:
        refuse("selective_scan", foreign, SCAN)
    tensors = {"u": u, "delta": delta, "A": A, "B": B, "C": C, "D": D, "z": z}
    tensors |= {"delta_bias": delta_bias, "initial_state": initial_state}
    _check("selective_scan", tensors, PATTERNS)
    _check_values("selective_scan", delta, A, delta_bias, softplus)
    reason = fallback.why_not(u) if u.numel() else None
    if reason:
        fallback.warn_once("selective_scan", "naive_selective_scan", reason)
    if reason or not u.numel():
        y, state = naive_selective_scan(
            u, delta, A, B, C, D=D, z=z, delta_bias=delta_bias, softplus=softplus,
            initial_state=initial_state,
        )  # fmt: skip
    else:
        learns = any(x is not None and x.requires_grad for x in tensors.values())
        y, state, _ = operators.scan_forward(
            u, delta, A, B, C, D, z, delta_bias, initial_state, softplus,
            learns and torch.is_grad_enabled(),
        )  # fmt: skip
    return (y, state) if output_state else y


def selective_scan_step(
    state: torch.Tensor,
    u: torch.Tensor,
    delta: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    *,
    D: torch.Tensor | None = None,
    z: torch.Tensor | None = None,
    delta_bias: torch.Tensor | None = None,
    softplus: bool = True,
    **foreign: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One step of ``selective_scan``, for decoding: y and the state after it.

    The state given is left as it is. It is read and a new one written, 2 N numbers a channel,
    however long the past. Where a gradient is wanted, it is that of ``selective_scan`` with T = 1.

    Shapes: state ``(B, C, N)``, u, delta and z ``(B, C)``, A ``(C, N)``, B and C ``(B, N)``, D and
    delta_bias ``(C,)`` -> y ``(B, C)`` and the new state ``(B, C, N)``.

    Raises:
        ShapeError, TypeError, ValueError: as ``selective_scan``.
    """
    if foreign:
        refuse("selective_scan_step", foreign, SCAN)
    arguments = (u, delta, A, B, C, D, z, delta_bias)
    key = KNOWN.key((state, *arguments), softplus)
    if KNOWN.find(key):
        _check_values("selective_scan_step", delta, A, delta_bias, softplus)
        return operators.launch_step(state, *arguments, softplus)
    tensors = {"u": u, "delta": delta, "A": A, "B": B, "C": C, "D": D, "z": z}
    tensors |= {"delta_bias": delta_bias, "state": state}
    patterns = {name: pattern.replace("T ", "") for name, pattern in PATTERNS.items()}
    patterns["state"] = patterns.pop("initial_state")
    _check("selective_scan_step", tensors, patterns)
    learns = torch.is_grad_enabled() and any(
        x is not None and x.requires_grad for x in tensors.values()
    )
    if u.numel() and not learns and not fallback.why_not(u):
        _check_values("selective_scan_step", delta, A, delta_bias, softplus)
        KNOWN.keep(key)
        return operators.scan_step(state, *arguments, softplus)
    y, state = selective_scan(
        u[:, None], delta.unsqueeze(1), A, B.unsqueeze(1), C.unsqueeze(1), D=D,
        z=None if z is None else z.unsqueeze(1), delta_bias=delta_bias, softplus=softplus,
        initial_state=state, output_state=True,
    )  # fmt: skip
    return y[:, 0], state


def _check(
    function: str, tensors: dict[str, torch.Tensor | None], patterns: dict[str, str]
) -> None:
    """Refuse what no kernel can compute, and say what comes nearest."""
    assert_tensors(function, ("D", "z", "delta_bias", "initial_state"), **tensors)
    given = {name: x for name, x in tensors.items() if x is not None}
    u, rates = given["u"], given["A"]
    channels = rates.shape[0] if rates.dim() == 2 else -1
    if u.dim() == 3 and u.shape[1] == channels != u.shape[2] and patterns["u"] == "B T C":
        raise ShapeError(
            f"{function}: u must be (B, T, C) with C={channels}, as A has it; got "
            f"{tuple(u.shape)}. Likely cause: channels before time, as in mamba_ssm. "
            f"Next: u.transpose(1, 2), likewise delta, B, C and z."
        )
    sizes: dict[str, int] = {}
    for name, x in given.items():
        sizes = assert_shape(x, patterns[name], sizes, name=name)
        if x.dtype not in DTYPES:
            real = x.is_complex()
            raise TypeError(
                f"{function}: expected float16, bfloat16, float32 or float64, got {name} of "
                f"{x.dtype}. "
                + ("Mamba's A is real. " if real else "")
                + f"Next: {name}.{'real' if real else 'float()'}."
            )
        if x.device != u.device:
            raise ValueError(
                f"{function}: all tensors must be on one device, got u on {u.device} and {name} on "
                f"{x.device}. Likely cause: a state or parameter not moved. "
                f"Next: {name}.to(u.device)."
            )
    if not 1 <= sizes["N"] <= configs.MOST_STATES:
        raise ValueError(
            f"{function}: A has N={sizes['N']} states a channel; expected 1 to "
            f"{configs.MOST_STATES}, what a GPU's registers hold. Likely cause: A passed "
            f"transposed. Next: A.T if it is (N, C); else naive_selective_scan, which takes any N."
        )


def _check_values(
    function: str,
    delta: torch.Tensor,
    A: torch.Tensor,
    delta_bias: torch.Tensor | None,
    softplus: bool,
) -> None:
    """Refuse growth; only on a CPU, for to look the CPU would have to wait for a GPU."""
    if delta.device.type != "cpu" or torch.compiler.is_compiling() or not delta.numel():
        return
    if bool((A > 0).any()):
        raise ValueError(
            f"{function}: A must be 0 or less, a rate of decay; got {float(A.max()):.3g}. Likely "
            f"cause: the parameter A_log passed as it is. Next: -torch.exp(A_log)."
        )
    steps = delta if delta_bias is None else delta + delta_bias
    if not softplus and bool((steps < 0).any()):
        raise ValueError(
            f"{function}: step sizes must be 0 or more, got {float(steps.min()):.3g}. Likely "
            f"cause: delta as the projection makes it. Next: softplus=True."
        )
