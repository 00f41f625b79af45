"""Attention without softmax: a memory of fixed size, in time linear in the length.

Equation, for one head; the state S is a D × D_v matrix, the sum of what was written::

    S_t = a_t S_t-1 + k_t v_tᵀ          o_t = S_tᵀ q_t

    a_t = 1                             plain          (Katharopoulos et al. 2020)
    a_t = exp(decay)                    one number a head      (RetNet, Sun et al. 2023)
    a_t = exp(gate_t)                   one number a step      (Mamba-2's and xLSTM's form)
    a_t = diag(exp(gate_t))             D numbers a step       (GLA, Yang et al. 2024)

    S_t = S'_t + beta_t k_t (v_t - S'_tᵀ k_t)ᵀ                 the delta rule, S'_t = a_t S_t-1
                                        (Schlag et al. 2021; faded, Yang, Kautz et al. 2025)

The same as attention with a mask of numbers for weights and no softmax::

    o_t = sum_s<=t sum_d q_td k_sd exp(b_td - b_sd) v_s        b_t = gate_1 + ... + gate_t

Letters: ``B`` batch, ``H`` heads, ``T`` steps, ``D`` key width, ``D_v`` value width (``E`` inside
the kernels). Gates are logarithms. Feature maps (elu + 1, ...), scales and norms belong to the
caller: q and k come as they are to be used.

Three forms, one answer. The recurrence (``naive_linear_attention``) takes T steps and 4 T D D_v
operations, one step after another. The masked matrix (``naive_linear_attention_parallel``) takes
one step and 2 T² (D + D_v). The kernels walk in chunks of C = 64 steps: the matrix inside a chunk,
the recurrence from chunk to chunk, T (2 C (D + D_v) + 4 D D_v) operations, all matrix products.

Which kernels: without gates or with one a step, ``forward`` (gradients: ``backward``);
with one a key dimension, ``gated_forward`` and ``gated_backward``; with beta, ``delta_forward`` and
``delta_backward``, explained in ``delta_operators``; one step, ``step``.

Memory traffic, in elements a head. The least possible is T (2 D + 2 D_v): q, k, v read, o written;
gates add T, or T D. The kernel reads q and k once for every few columns of v
(``tiles``), mostly from the L2 cache; the state stays in registers. No chunk's
state reaches memory. Where heads are few, a sequence is cut into segments of at least 4 chunks,
whose states do: D D_v a segment, and k and v are read twice. Where a width is no power of two, q, k
and v are copied first, filled up with zeros. GLA also writes and reads the weights of a chunk's
pairs, T C, and q and k faded to its ends; the delta rule an inverse, T C, and what the state gets
wrong, T D_v; with gates, or D > 128, it reads k and that once more, for o. The gradients are the
same walk three times more. One step moves 2 D D_v.

Sources: Katharopoulos et al. 2020, "Transformers are RNNs", equations 10-12 and 16-20; chunks: Sun
et al. 2023, "Retentive network", equation 7; Yang et al. 2024, "Gated linear attention transformers
with hardware-efficient training", sections 3 and 4; Yang et al. 2024, "Parallelizing linear
transformers with the delta rule over sequence length", section 3; Yang, Kautz, Hatamizadeh 2025,
"Gated delta networks", section 3. Nothing here has been timed on a GPU yet.
"""

from __future__ import annotations

from typing import Any, Literal, Never, TypedDict, Unpack, overload

import torch

from attend_kernels.common import devices, fallback
from attend_kernels.common.arguments import autocast
from attend_kernels.common.foreign import LINEAR, refuse
from attend_kernels.common.known import Known
from attend_kernels.common.layout import Layout, heads_first, look_exchanged, pattern
from attend_kernels.common.tensors import filled
from attend_kernels.ops.linear_attention import delta_operators, operators
from attend_kernels.ops.linear_attention.checks import (
    as_gates,
    check,
    check_beta,
    check_chunk,
    check_falling,
)
from attend_kernels.ops.linear_attention.naive import (
    Pair,
    naive_linear_attention,
    naive_linear_attention_parallel,
)
from attend_kernels.ops.linear_attention.tiles import CHUNKS

__all__ = [
    "linear_attention",
    "linear_attention_step",
    "naive_linear_attention",
    "naive_linear_attention_parallel",
]

KNOWN = Known(casts=True)


class Keywords(TypedDict, total=False):
    """Options of ``linear_attention``, which has their defaults and explains them."""

    decay: torch.Tensor | None
    gate: torch.Tensor | None
    beta: torch.Tensor | None
    initial_state: torch.Tensor | None
    chunk: int
    layout: Layout


@overload
def linear_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    output_state: Literal[False] = False,
    **options: Unpack[Keywords],
) -> torch.Tensor: ...
@overload
def linear_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    output_state: Literal[True],
    **options: Unpack[Keywords],
) -> Pair: ...
def linear_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    decay: torch.Tensor | None = None,
    gate: torch.Tensor | None = None,
    beta: torch.Tensor | None = None,
    initial_state: torch.Tensor | None = None,
    output_state: bool = False,
    chunk: int = 64,
    layout: Layout = "bhtd",
    **foreign: Never,
) -> torch.Tensor | Pair:
    """Causal linear attention in chunks, forward and backward.

    Gradients reach q, k, v, decay, gate, beta and the initial state, and flow through the last
    state. They are the same to the bit each time. Under ``torch.autocast`` q, k and v are cast as a
    matrix product's would be. States and sums are fp32. fp32 is computed in fp32, or in tf32 where
    ``torch.backends.cuda.matmul`` allows it. Without Triton or a GPU it warns once and runs
    ``naive_linear_attention_parallel`` chunk by chunk (fp16 and bf16 computed in fp32).

    Args:
        q: queries; fp16, bf16 or fp32, any strides.
        k: keys.
        v: values.
        decay: log of what a step leaves of the state, one a head: log γ <= 0 in RetNet.
        gate: the same for each step, or for each step and key dimension. One a step may be above
            0, which makes the state grow; one a key dimension may not (on a GPU, where nobody
            looks, it counts as 0). Below -80 both count as -80.
        beta: the delta rule: how much of what the state gets wrong at k to correct, from 0 to 1.
            Keys should have norm 1, else the state may blow up. Beside decay or a gate a step the
            state first fades, then is corrected (Gated DeltaNet); not beside one a key dimension.
        initial_state: the state before the first step; None is 0.
        output_state: also return the state after the last step, to go on from.
        chunk: steps a chunk at most: 16, 32 or 64. It changes the speed, not the answer. Wide heads
            and fp32 have fewer where the registers hold no more (``tiles``).
        layout: ``"bhtd"``, or ``"bthd"`` for heads after time, as fla has them: in q, k, v, gate,
            beta, the output and all gradients; states stay. Nothing is copied.

    Shapes: q and k ``(B, H, T, D)``, v ``(B, H, T, D_v)`` with D and D_v <= 256, decay ``(H,)``,
    gate ``(B, H, T)`` or ``(B, H, T, D)``, beta ``(B, H, T)``, states ``(B, H, D, D_v)`` ->
    ``(B, H, T, D_v)`` in v's dtype, and the last state in fp32.

    Raises:
        ShapeError: the shapes do not belong together.
        ValueError: widths, chunk, layout, devices or options are not ones it can work with.
        TypeError: the dtypes differ or are none of the three.
    """
    if foreign:
        refuse("linear_attention", foreign, LINEAR)
    q, k, v = autocast(q, k, v)
    axes = pattern("linear_attention", layout, "B H T")
    sizes = check("linear_attention", q, k, v, initial_state, (decay, gate, beta), axes)
    check_chunk("linear_attention", chunk)
    look_exchanged("linear_attention", sizes["H"], sizes["T"], layout)
    q, k, v = (heads_first(x, layout) for x in (q, k, v))
    gates = as_gates("linear_attention", decay, gate, sizes, axes)
    gate = gates if gate is None or gates is None else heads_first(gates, layout)
    if beta is not None:
        check_beta("linear_attention", beta, gate, sizes, axes)
        beta = heads_first(beta, layout)
    if reason := fallback.why_not(q):
        fallback.warn_once("linear_attention", "naive_linear_attention_parallel", reason)
        output, state = by_chunks(q, k, v, gate, beta, initial_state, chunk)
        output = heads_first(output, layout)
        return (output, state) if output_state else output
    wide, wide_v = devices.padded(sizes["D"]), devices.padded(sizes["D_v"])
    q, k, v = filled(q, wide), filled(k, wide), filled(v, wide_v)
    if initial_state is not None:
        initial_state = filled(initial_state, wide, wide_v)
    if gate is not None and gate.dim() == 4:
        gate = filled(gate, wide)
    if beta is not None:
        output, state, _ = delta_operators.forward(q, k, v, beta, gate, initial_state, chunk)
    else:
        output, state = operators.forward(q, k, v, gate, initial_state, chunk)
    output = heads_first(output[..., : sizes["D_v"]], layout)
    return (output, state[:, :, : sizes["D"], : sizes["D_v"]]) if output_state else output


def linear_attention_step(
    state: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    decay: torch.Tensor | None = None,
    gate: torch.Tensor | None = None,
    beta: torch.Tensor | None = None,
    **foreign: Any,
) -> Pair:
    """One step of ``linear_attention``, for decoding: its output, and the state after it.

    The state given is left as it is. It is read once and a new one written, 2 D D_v numbers a head:
    that is all the time it takes, however long the past. Where a gradient is wanted, it is that of
    ``linear_attention`` with T = 1; where none is, beta may also stand beside a gate a key
    dimension. Without Triton or a GPU it warns once and runs ``naive_linear_attention``.

    Shapes: state ``(B, H, D, D_v)``, q and k ``(B, H, D)``, v ``(B, H, D_v)``, decay ``(H,)``, gate
    ``(B, H)`` or ``(B, H, D)``, beta ``(B, H)`` -> output ``(B, H, D_v)`` in v's dtype, and the new
    state in fp32.

    Raises:
        ShapeError, ValueError, TypeError: as ``linear_attention``.
    """
    name = "linear_attention_step"
    if foreign:
        refuse(name, foreign, LINEAR)
    key = KNOWN.key((state, q, k, v, decay, gate, beta))
    if KNOWN.find(key):
        gates = gate
        if decay is not None:
            gates = decay[None].expand(q.shape[:2])
        elif gate is not None and gate.dim() == 3:
            check_falling("linear_attention_step", gate)
        return operators.launch_step(state, q, k, v, gates, beta)
    q, k, v = autocast(q, k, v)
    sizes = check(name, q, k, v, state, (decay, gate, beta), axes="B H")
    gates = as_gates(name, decay, gate, sizes, axes="B H")
    tensors = (state, q, k, v, gates, beta)
    learns = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)
    if beta is not None:
        check_beta(name, beta, gates if learns else None, sizes, axes="B H")
    reason = fallback.why_not(q)
    if not learns and not reason:
        KNOWN.keep(key)
        return operators.step(state, q, k, v, gates, beta)
    q, k, v = q[:, :, None], k[:, :, None], v[:, :, None]
    gates = None if gates is None else gates[:, :, None]
    beta = None if beta is None else beta[:, :, None]
    if reason:
        fallback.warn_once(name, "naive_linear_attention", reason)
        wide = q.float(), k.float(), v.float()
        output, state = naive_linear_attention(
            *wide, gate=gates, beta=beta, initial_state=state.float()
        )
        return output[:, :, 0].to(v.dtype), state
    output, state = linear_attention(
        q, k, v, gate=gates, beta=beta, initial_state=state, output_state=True, chunk=CHUNKS[0]
    )
    return output[:, :, 0], state


def by_chunks(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gate: torch.Tensor | None,
    beta: torch.Tensor | None,
    state: torch.Tensor | None,
    chunk: int,
) -> Pair:
    """Run the parallel twin chunk by chunk, in fp32: memory linear in T, without a kernel."""
    wide = [x.float() for x in (q, k, v)]
    outputs = []
    for first in range(0, max(q.shape[2], 1), chunk):
        part = slice(first, first + chunk)
        output, state = naive_linear_attention_parallel(
            *(x[:, :, part] for x in wide),
            gate=None if gate is None else gate[:, :, part],
            beta=None if beta is None else beta[:, :, part],
            initial_state=state,
        )
        outputs.append(output)
    assert state is not None
    return torch.cat(outputs, dim=2).to(v.dtype), state
