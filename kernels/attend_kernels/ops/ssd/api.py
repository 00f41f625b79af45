"""State-space duality: Mamba-2's recurrence, which is also attention with a decay for a mask.

Equation, for one head with input x_t (P numbers), step size dt_t > 0 and decay rate A < 0, and the
group's B_t and C_t (N numbers)::

    h_t = exp(dt_t A) h_{t-1} + dt_t x_t B_tᵀ                   (P, N): the state
    y_t = h_t C_t + D x_t

and, all steps written out (h_0 = 0), with L_ij the decay from step j to step i::

    y_i = sum_{j <= i} L_ij (C_i · B_j) dt_j x_j + D x_i        L_ij = exp(A (dt_{j+1} + … + dt_i))

which is attention with queries C, keys B and values dt x, L for a mask and no softmax: T² steps all
at once instead of T one by one. The kernel does both. Time is cut into chunks; within a chunk it is
attention, a few matrix products, and from chunk to chunk the recurrence::

    y_i = exp(since_i) h C_i + (the sum above, within the chunk)      since_i: log decay since the
    h  <- exp(since_last) h + sum_j exp(until_j) dt_j x_j B_jᵀ        chunk's start; until_j: to its
                                                                      end, after step j
The chunk's length changes the work, never the answer.

Gradient: with g the gradient of the state after a chunk, dx_j = dt_j (exp(until_j) g B_j + sum_{i
>= j} L_ij (C_i · B_j) dy_i) + D dy_j and g <- exp(since_last) g + sum_i exp(since_i) dy_i C_iᵀ: the
same algorithm, backward in time. The log decay of step r gets what flows past it, from any j < r to
any i >= r (``backward``).

Letters: ``B`` batch, ``T`` steps, ``H`` heads, ``P`` width of a head, ``G`` groups (head h reads
the B and C of group h // (H / G)), ``N`` state size. The *arguments* ``A``, ``B``, ``C``, ``D`` are
the paper's, as in every Mamba; in the kernels b and c.

Memory traffic, in elements a step and head. The least is 2 P, for x read and y written; dt, B and C
are shared or small. (Where P or N is no power of two, x, B and C are copied first, filled up with
zeros. Heads wider than 128 are several of 128, each of which reads B and C.) ``naive_ssd`` writes
the state of every step, P N. The forward kernel keeps the state in registers: 2 P, and what BLOCK_P
rows read of B and C, mostly from the L2 cache; 3 or 4 numbers a step for the decays. Nothing is
kept for the gradient but the arguments. The backward pass makes the states again and writes those
at chunk starts, and their gradients at chunk ends, in x's dtype: 2 P N / chunk, read back once.
With P = 64, N = 128 and chunks of 64 that is 8 P; with 9 P of x, dy and dx it moves 17 P.

Arithmetic, in multiplications a step and head with chunks of Q: Q (N + P) + 2 P N forward, about
3 times as much backward.

Sources: Dao & Gu 2024, "Transformers are SSMs: generalized models and efficient algorithms through
structured state space duality", sections 3 (duality), 6 (the chunked algorithm) and 7 (the block).
Nothing here has been timed on a GPU yet.
"""

# ruff: noqa: N803, N806  # the paper's letters are capitals

from __future__ import annotations

from typing import Any, Literal, Never, TypedDict, Unpack, overload

import torch

from attend_kernels.common import devices, fallback
from attend_kernels.common.arguments import assert_tensors, autocast
from attend_kernels.common.foreign import SSD, refuse
from attend_kernels.common.known import Known
from attend_kernels.common.tensors import filled
from attend_kernels.ops.ssd import operators
from attend_kernels.ops.ssd.checks import PATTERNS, check, check_values, split_groups
from attend_kernels.ops.ssd.naive import (
    naive_ssd,
    naive_ssd_chunked,
    naive_ssd_quadratic,
    naive_ssd_step,
    segsum,
    step_sizes,
)
from attend_kernels.ops.ssd.pieces import Pieces

__all__ = [
    "naive_ssd",
    "naive_ssd_chunked",
    "naive_ssd_quadratic",
    "naive_ssd_step",
    "segsum",
    "ssd",
    "ssd_step",
    "step_sizes",
]

KNOWN = Known(casts=True)


class Keywords(TypedDict, total=False):
    """Options of ``ssd``, which has their defaults and explains them."""

    D: torch.Tensor | None
    groups: int | None
    chunk: int
    dt_bias: torch.Tensor | None
    softplus: bool
    initial_state: torch.Tensor | None
    cu_seqlens: torch.Tensor | None


@overload
def ssd(
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    *,
    output_state: Literal[False] = False,
    **options: Unpack[Keywords],
) -> torch.Tensor: ...
@overload
def ssd(
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    *,
    output_state: Literal[True],
    **options: Unpack[Keywords],
) -> tuple[torch.Tensor, torch.Tensor]: ...
def ssd(
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    *,
    D: torch.Tensor | None = None,
    groups: int | None = None,
    chunk: int = 64,
    dt_bias: torch.Tensor | None = None,
    softplus: bool = False,
    initial_state: torch.Tensor | None = None,
    output_state: bool = False,
    cu_seqlens: torch.Tensor | None = None,
    **foreign: Never,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Mamba-2's scan, forward and backward, without a state of every step; time before heads.

    x, B and C have one dtype (under ``torch.autocast``, autocast's); the rest is used in fp32, as
    are decays and states. fp32 products are tf32 where ``torch.backends.cuda.matmul`` allows it.
    Gradients are the same to the bit each time. Without Triton or a GPU it warns once and runs
    ``naive_ssd_chunked`` (in fp32).

    Args:
        x: input of the recurrence; fp16, bf16 or fp32, any strides.
        dt: step sizes, positive; before bias and softplus, if any.
        A: decay rates, negative: -exp(A_log).
        B: what a step writes to: the keys.
        C: what a step reads from: the queries.
        D: weight of the skip connection.
        groups: how many groups B and C have. With it they may come as a projection makes them,
            (B, T, groups N).
        chunk: steps handled at once, a power of two from 16 to 256. The kernels take fewer where
            their registers hold fewer.
        dt_bias: added to dt.
        softplus: whether dt (with its bias) goes through softplus.
        initial_state: h_0, as an earlier call returned it; zeros if left out.
        output_state: also return the last state. Gradients flow through it.
        cu_seqlens: where packed sequences start, ``[0, n0, n0 + n1, …]``: B is 1, each sequence has
            its own states, and rows after the last sequence come out 0. On a GPU its values are
            taken at their word.

    Shapes: x ``(B, T, H, P)``, dt ``(B, T, H)``, A, D and dt_bias ``(H,)``, B and C ``(B, T, G,
    N)`` with H a multiple of G, N up to 256, initial_state ``(B, H, P, N)``,
    cu_seqlens ``(sequences + 1,)`` integers -> y ``(B, T, H, P)`` in x's dtype, and the last state
    ``(B, H, P, N)`` in fp32; with cu_seqlens, states are ``(sequences, H, P, N)``.

    Raises:
        ShapeError: the shapes do not belong together.
        TypeError: dtypes of x, B and C differ or are none of the three.
        ValueError: groups, sizes, chunk, cu_seqlens or devices are not ones it can work with; on a
            CPU also if A is positive or a step size negative.
    """
    if foreign:
        refuse("ssd", foreign, SSD)
    optional = {"D": D, "dt_bias": dt_bias, "initial_state": initial_state}
    optional |= {"cu_seqlens": cu_seqlens}
    assert_tensors("ssd", tuple(optional), x=x, dt=dt, A=A, B=B, C=C, **optional)
    x, B, C = autocast(x, B, C)
    B, C = (split_groups(name, m, groups) for name, m in (("B", B), ("C", C)))
    patterns = PATTERNS
    if cu_seqlens is not None:
        patterns = PATTERNS | {"initial_state": "S H P N"}
    tensors = {"x": x, "dt": dt, "A": A, "B": B, "C": C, "D": D, "dt_bias": dt_bias}
    check("ssd", tensors | {"initial_state": initial_state}, patterns, cu_seqlens)
    if not isinstance(chunk, int) or chunk not in (16, 32, 64, 128, 256):
        raise ValueError(
            f"ssd: chunk must be 16, 32, 64, 128 or 256, got {chunk!r}. Next: leave it out for 64; "
            f"the answer does not depend on it."
        )
    dt = step_sizes(dt, dt_bias, softplus)
    check_values("ssd", dt, A)
    if reason := fallback.why_not(x):
        fallback.warn_once("ssd", "naive_ssd_chunked", reason)
        y, state = naive_ssd_chunked(
            x.float(), dt, A.float(), B.float(), C.float(), D=None if D is None else D.float(),
            chunk=chunk, initial_state=initial_state, cu_seqlens=cu_seqlens,
        )  # fmt: skip
        y = y.to(x.dtype)
    else:
        pieces, N = Pieces(x.shape[-1]), B.shape[-1]
        states = devices.padded(N)
        y, state = operators.ssd_forward(
            pieces.rows(x), pieces.vectors(dt), pieces.vectors(A.float()),
            filled(B, states), filled(C, states),
            None if D is None else pieces.vectors(D.float()),
            None if initial_state is None else pieces.state(initial_state.float(), states),
            None if cu_seqlens is None else cu_seqlens.to(torch.int32), chunk,
        )  # fmt: skip
        y, state = pieces.join(y, state, N)
    return (y, state) if output_state else y


def ssd_step(
    state: torch.Tensor,
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor | None = None,
    *,
    dt_bias: torch.Tensor | None = None,
    softplus: bool = False,
    **foreign: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One step of ``ssd``, for decoding: y and the state after it.

    The state given is left as it is. It is read once and a new one written, 2 P N numbers a head:
    that is all the time it takes, however long the past. Where a gradient is wanted, it is that of
    ``ssd`` with T = 1.

    Shapes: state ``(B, H, P, N)``, x ``(B, H, P)``, dt ``(B, H)``, A, D and dt_bias ``(H,)``, B and
    C ``(B, G, N)`` -> y ``(B, H, P)`` in x's dtype and the new state in fp32.

    Raises:
        ShapeError, TypeError, ValueError: as ``ssd``.
    """
    if foreign:
        refuse("ssd_step", foreign, SSD)
    arguments = (state, x, dt, A, B, C, D, dt_bias)
    key = KNOWN.key(arguments, softplus)
    if KNOWN.find(key):
        _check_step(dt, A, dt_bias, softplus)
        return operators.launch_step(*arguments, softplus)
    assert_tensors(
        "ssd_step", ("D", "dt_bias"), state=state, x=x, dt=dt, A=A, B=B, C=C, D=D, dt_bias=dt_bias
    )
    x, B, C = autocast(x, B, C)
    tensors = {"x": x, "dt": dt, "A": A, "B": B, "C": C, "D": D, "dt_bias": dt_bias, "state": state}
    patterns = {name: pattern.replace("T ", "") for name, pattern in PATTERNS.items()}
    check("ssd_step", tensors, patterns | {"state": "B H P N"})
    if torch.is_grad_enabled() and any(m is not None and m.requires_grad for m in tensors.values()):
        y, state = ssd(
            x[:, None], dt[:, None], A, B[:, None], C[:, None], D=D, dt_bias=dt_bias,
            softplus=softplus, initial_state=state, output_state=True,
        )  # fmt: skip
        return y[:, 0], state
    _check_step(dt, A, dt_bias, softplus)
    if reason := fallback.why_not(x):
        fallback.warn_once("ssd_step", "naive_ssd_step", reason)
        y, state = naive_ssd_step(
            state.float(), x.float(), step_sizes(dt, dt_bias, softplus), A.float(), B.float(),
            C.float(), None if D is None else D.float(),
        )  # fmt: skip
        return y.to(x.dtype), state
    KNOWN.keep(key)
    return operators.ssd_step(state, x, dt, A, B, C, D, dt_bias, bool(softplus))


def _check_step(
    dt: torch.Tensor, A: torch.Tensor, dt_bias: torch.Tensor | None, softplus: bool
) -> None:
    """Refuse growth, as ``check_values``, with the step sizes made for that alone."""
    if not (dt.is_cuda or torch.compiler.is_compiling()):
        check_values("ssd_step", step_sizes(dt, dt_bias, softplus), A)
