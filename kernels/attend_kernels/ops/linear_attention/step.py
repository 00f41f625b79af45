"""The kernel behind ``linear_attention_step``: one step of the recurrence, for decoding.

Equation and letters: see ``api``. A program owns BLOCK_E
columns of one head's state: it reads them, fades them, writes at k, reads at q, and stores them
anew. Nothing is used twice, so the time is that of moving the state twice.
"""

# ruff: noqa: N803, N806  # axis letters and compile-time values are written in capitals

from __future__ import annotations

from functools import cache

import torch
import triton
import triton.language as tl

from attend_kernels.common import devices
from attend_kernels.common.launch import launch
from attend_kernels.ops.linear_attention.segments import strides

TILE = 4_096  # numbers of the state a program owns: 32 a thread of 4 warps


@triton.jit
def step_kernel(
    q_ptr, k_ptr, v_ptr, state_ptr, gate_ptr, beta_ptr, out_ptr, new_ptr,
    q_batch, q_head, k_batch, k_head, v_batch, v_head,
    state_batch, state_head, state_row, state_column,
    gate_batch, gate_head, gate_column, beta_batch, beta_head, slices, heads,
    D: tl.constexpr, BLOCK_D: tl.constexpr, E: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """Write BLOCK_E numbers of the output and as many columns of the new state.

    ``gate_column``: 0 where a head has one gate. ``gate_ptr``, ``beta_ptr`` None: there is none.
    """
    pid = tl.program_id(0)
    first = pid % slices * BLOCK_E
    head = (pid // slices % heads).to(tl.int64)
    batch = (pid // (slices * heads)).to(tl.int64)
    d, e = tl.arange(0, BLOCK_D), first + tl.arange(0, BLOCK_E)
    state_ptr += batch * state_batch + head * state_head
    live = (d < D)[:, None] & (e < E)[None, :]
    at = state_ptr + d[:, None] * state_row + e[None, :] * state_column
    state = tl.load(at, mask=live, other=0.0).to(tl.float32)
    q = tl.load(q_ptr + batch * q_batch + head * q_head + d, mask=d < D, other=0.0).to(tl.float32)
    k = tl.load(k_ptr + batch * k_batch + head * k_head + d, mask=d < D, other=0.0).to(tl.float32)
    v = tl.load(v_ptr + batch * v_batch + head * v_head + e, mask=e < E, other=0.0).to(tl.float32)
    if gate_ptr is not None:
        at = gate_ptr + batch * gate_batch + head * gate_head + d * gate_column
        state *= tl.exp(tl.load(at, mask=d < D, other=0.0).to(tl.float32))[:, None]
    if beta_ptr is not None:  # write only what the state gets wrong at k
        beta = tl.load(beta_ptr + batch * beta_batch + head * beta_head).to(tl.float32)
        v = beta * (v - tl.sum(k[:, None] * state, axis=0))
    state += k[:, None] * v[None, :]
    out = tl.sum(q[:, None] * state, axis=0)
    line = batch * heads + head
    tl.store(out_ptr + line * E + e, out.to(out_ptr.dtype.element_ty), mask=e < E)
    tl.store(new_ptr + line * (D * E) + d[:, None] * E + e[None, :], state, mask=live)


def step(
    state: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gate: torch.Tensor | None,
    beta: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Launch the kernel: (output, new state). The last axes of q, k and v have stride 1."""
    B, H, D = q.shape
    E = v.shape[-1]
    out = torch.empty(v.shape, dtype=v.dtype, device=v.device)
    new = torch.empty((B, H, D, E), dtype=torch.float32, device=v.device)
    settings = constants(D, E)
    slices = -(-E // settings["BLOCK_E"])
    gates = (*strides(gate, 2), gate.stride(2) if gate is not None and gate.dim() == 3 else 0)
    launch(
        step_kernel, slices * H * B, q, k, v, state, gate, beta, out, new,
        *q.stride()[:2], *k.stride()[:2], *v.stride()[:2], *state.stride(), *gates,
        *strides(beta, 2), slices, H, **settings,
    )  # fmt: skip
    return out, new


@cache
def constants(D: int, E: int) -> dict[str, int]:
    """Compile-time values for keys of D and values of E numbers."""
    block_d = devices.padded(D)
    block_e = min(devices.padded(E), TILE // block_d)
    return {"D": D, "BLOCK_D": block_d, "E": E, "BLOCK_E": block_e, "num_warps": 4}
