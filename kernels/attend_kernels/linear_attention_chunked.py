"""Attention without softmax: a memory of fixed size, in time linear in the length.

Equation, for one head; the state S is a D × D_v matrix, the sum of what was written::

    S_t = a_t S_t-1 + k_t v_tᵀ          o_t = S_tᵀ q_t

    a_t = 1                             plain          (Katharopoulos et al. 2020)
    a_t = exp(decay)                    one number a head      (RetNet, Sun et al. 2023)
    a_t = exp(gate_t)                   one number a step      (Mamba-2's and xLSTM's form)

The same as attention with a mask of numbers for weights and no softmax::

    o_t = sum_s<=t exp(b_t - b_s) (q_t · k_s) v_s           b_t = gate_1 + ... + gate_t

Letters: ``B`` batch, ``H`` heads, ``T`` steps, ``D`` key width, ``D_v`` value width (``E`` inside
the kernels). Feature maps (elu + 1, ...), scales and norms belong to the caller: q and k come as
they are to be used.

Three forms, one answer. The recurrence (``naive_linear_attention``) takes T steps and 4 T D D_v
operations, one step after another. The masked matrix (``naive_linear_attention_parallel``) takes
one step and 2 T² (D + D_v). The kernels walk in chunks of C = 64 steps: the matrix inside a chunk,
the recurrence from chunk to chunk, T (2 C (D + D_v) + 4 D D_v) operations, all matrix products.

Memory traffic, in elements a head. The least possible is T (2 D + 2 D_v): q, k, v read, o written.
The kernel reads q and k once for every BLOCK_E columns of v, mostly from the L2 cache; the state
stays in registers. No chunk's state reaches memory. Where heads are few, a sequence is cut into
segments of at least 4 chunks, whose states do: D D_v a segment, and k and v are read twice. The
gradients are the same walk three times more (``attend_kernels.linear_attention_backward``).

Sources: Katharopoulos et al. 2020, "Transformers are RNNs", equations 10-12 and 16-20; chunks: Sun
et al. 2023, "Retentive network", equation 7; Yang et al. 2024, "Gated linear attention transformers
with hardware-efficient training", sections 3 and 4. Nothing here has been timed on a GPU yet.
"""

from __future__ import annotations

from typing import Literal, overload

import torch

from attend_kernels import delta_rule, fallback, linear_attention_ops
from attend_kernels.flash import DTYPES, MAX_WIDTH, autocast
from attend_kernels.linear_attention_configs import CHUNKS
from attend_kernels.linear_attention_naive import (
    Pair,
    naive_linear_attention,
    naive_linear_attention_parallel,
)
from attend_kernels.shapes import assert_shape

__all__ = [
    "linear_attention",
    "linear_attention_step",
    "naive_linear_attention",
    "naive_linear_attention_parallel",
]


@overload
def linear_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    decay: torch.Tensor | None = None,
    gate: torch.Tensor | None = None,
    beta: torch.Tensor | None = None,
    initial_state: torch.Tensor | None = None,
    output_state: Literal[False] = False,
    chunk: int = 64,
) -> torch.Tensor: ...
@overload
def linear_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    decay: torch.Tensor | None = None,
    gate: torch.Tensor | None = None,
    beta: torch.Tensor | None = None,
    initial_state: torch.Tensor | None = None,
    output_state: Literal[True],
    chunk: int = 64,
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
) -> torch.Tensor | Pair:
    """Causal linear attention in chunks, forward and backward.

    Gradients reach q, k, v, decay, gate and the initial state, and flow through the last state.
    They are the same to the bit each time. Under ``torch.autocast`` q, k and v are cast as a matrix
    product's would be. States and sums are fp32. fp32 is computed in fp32, or in tf32 where
    ``torch.backends.cuda.matmul`` allows it. Without Triton or a GPU it warns once and runs
    ``naive_linear_attention_parallel`` chunk by chunk (fp16 and bf16 computed in fp32).

    Args:
        q: queries; fp16, bf16 or fp32, any strides.
        k: keys.
        v: values.
        decay: log of what a step leaves of the state, one a head: log γ <= 0 in RetNet.
        gate: the same for each step. Values above 0 make the state grow; below -80 count as -80.
        initial_state: the state before the first step; None is 0.
        output_state: also return the state after the last step, to go on from.
        chunk: steps a chunk: 16, 32 or 64. It changes the speed, not the answer.

    Shapes: q and k ``(B, H, T, D)``, v ``(B, H, T, D_v)`` with D and D_v <= 256, decay ``(H,)``,
    gate ``(B, H, T)``, states ``(B, H, D, D_v)`` -> ``(B, H, T, D_v)`` in v's dtype, and the last
    state in fp32.

    Raises:
        ShapeError: the shapes do not belong together.
        ValueError: widths, chunk, devices or options are not ones it can work with.
        TypeError: the dtypes differ or are none of the three.
    """
    q, k, v = autocast(q, k, v)
    sizes = check("linear_attention", q, k, v, initial_state, chunk)
    gate = as_gates("linear_attention", decay, gate, sizes)
    if beta is not None:
        check_beta("linear_attention", beta, gate, sizes)
    if reason := fallback.why_not(q):
        fallback.warn_once("linear_attention", "naive_linear_attention_parallel", reason)
        output, state = by_chunks(q, k, v, gate, beta, initial_state, chunk)
    elif beta is not None:
        output, state, _ = delta_rule.forward(q, k, v, beta, initial_state, chunk)
    else:
        output, state = linear_attention_ops.forward(q, k, v, gate, initial_state, chunk)
    return (output, state) if output_state else output


def linear_attention_step(
    state: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    decay: torch.Tensor | None = None,
    gate: torch.Tensor | None = None,
    beta: torch.Tensor | None = None,
) -> Pair:
    """One step of ``linear_attention``, for decoding: what it would do next, given its state.

    Shapes: state ``(B, H, D, D_v)``, q and k ``(B, H, D)``, v ``(B, H, D_v)``, decay ``(H,)``, gate
    ``(B, H)`` or ``(B, H, D)`` -> output ``(B, H, D_v)`` in v's dtype, and the new state in fp32.
    Dtypes and errors: as ``linear_attention``.
    """
    sizes = assert_shape(q, "B H D", name="q")
    if gate is not None:
        assert_shape(gate, "B H D" if gate.dim() == 3 else "B H", sizes, name="gate")
        gate = gate[:, :, None]
    if beta is not None:
        assert_shape(beta, "B H", sizes, name="beta")
        beta = beta[:, :, None]
    output, state = linear_attention(
        q[:, :, None], k[:, :, None], v[:, :, None],
        decay=decay, gate=gate, beta=beta, initial_state=state, output_state=True, chunk=CHUNKS[0],
    )  # fmt: skip
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


def as_gates(
    function: str,
    decay: torch.Tensor | None,
    gate: torch.Tensor | None,
    sizes: dict[str, int],
) -> torch.Tensor | None:
    """Write a decay a head as gates a step, which take no memory."""
    if decay is not None and gate is not None:
        raise ValueError(
            f"{function}: expected decay or gate, got both. Next: gate + decay[:, None], one gate "
            f"a step, does what you mean."
        )
    if decay is not None:
        assert_shape(decay, "H", sizes, name="decay")
        gate = decay[None, :, None].expand(sizes["B"], -1, sizes["T"])
    if gate is None:
        return None
    if not gate.is_floating_point():
        raise TypeError(
            f"{function}: gates are logarithms, expected floating point, got {gate.dtype}. "
            f"Next: decay=torch.log(gamma), gate=torch.nn.functional.logsigmoid(x)."
        )
    assert_shape(gate, "B H T D" if gate.dim() == 4 else "B H T", sizes, name="gate")
    return gate


def check_beta(
    function: str, beta: torch.Tensor, gate: torch.Tensor | None, sizes: dict[str, int]
) -> None:
    """Refuse a beta of the wrong shape or kind, or beside gates."""
    if gate is not None:
        raise ValueError(
            f"{function}: expected beta or gates, got both. The kernels have the delta rule for a "
            f"state that does not fade. Next: leave gate and decay out, or naive_linear_attention, "
            f"which has both."
        )
    assert_shape(beta, "B H T", sizes, name="beta")
    if not beta.is_floating_point():
        raise TypeError(
            f"{function}: beta says how much to correct, from 0 to 1: expected floating point, got "
            f"{beta.dtype}. Next: torch.sigmoid(x)."
        )


def check(
    function: str,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    initial_state: torch.Tensor | None,
    chunk: int,
) -> dict[str, int]:
    """Refuse what no kernel can compute, and say what comes nearest; return the sizes."""
    sizes = assert_shape(q, "B H T D", name="q")
    sizes = assert_shape(k, "B H T D", sizes, name="k")
    sizes = assert_shape(v, "B H T D_v", sizes, name="v")
    if initial_state is not None:
        assert_shape(initial_state, "B H D D_v", sizes, name="initial_state")
    for letter in ("D", "D_v"):
        if not 1 <= sizes[letter] <= MAX_WIDTH:
            raise ValueError(
                f"{function}: heads are {letter}={sizes[letter]} wide; expected 1 to {MAX_WIDTH}, "
                f"what a GPU's registers hold. Likely cause: heads not split off yet. Next: more "
                f"heads, each narrower, or naive_linear_attention, which takes any width."
            )
    if not q.dtype == k.dtype == v.dtype:
        raise TypeError(
            f"{function}: q, k and v must have one dtype, got {q.dtype}, {k.dtype} and {v.dtype}. "
            f"Next: k.to(q.dtype), v.to(q.dtype)."
        )
    if q.dtype not in DTYPES:
        raise TypeError(
            f"{function}: expected float16, bfloat16 or float32, got {q.dtype}. "
            f"Next: x.float(); for float64, naive_linear_attention."
        )
    if chunk not in CHUNKS:
        raise ValueError(
            f"{function}: a chunk has 16, 32 or 64 steps, the sizes of a GPU's matrix "
            f"products; got {chunk}. Next: leave it out for 64."
        )
    devices = {x.device for x in (q, k, v, initial_state) if x is not None}
    if len(devices) > 1:
        names = " and ".join(sorted(str(d) for d in devices))
        raise ValueError(
            f"{function}: all tensors must be on one device, got {names}. Next: x.to(q.device)."
        )
    return sizes
