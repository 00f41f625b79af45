"""The cases of linear attention: plain, RetNet's decay, GLA's gates, the delta rule without and
with gates; and peers.

Tensors lie as a model's projections leave them, (B, T, H, D), which is how flash-linear-attention
wants them and which costs our kernels nothing. RetNet's decay is fixed, as theirs is.

Bytes are q, k, v (and gates, beta) read and o written; backward, those and do read and as many
gradients written. Operations are those of the algorithm with chunks of 64
(``ops/linear_attention``), of which the part inside a chunk counts half, for half of it is
masked; backward twice as many. The delta rule has two more products by the state, and its solve.
"gated_delta" is the delta rule with a gate a step (Gated DeltaNet).

The compiled twin is the one that runs without a GPU, chunk by chunk, in fp32. GLA's writes (T, T,
D) numbers a chunk and is left out: no size fits both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

import attend_kernels as kernels
from attend_kernels.bench.case import (
    AbsentError,
    Answer,
    Case,
    Function,
    Tensors,
    compiled,
    in_float64,
)

CHUNK = 64  # of the operation count
TWIN_CHUNK = 256  # of the compiled twin: a loop unrolled over its chunks
ORACLE_CHUNK = 64
LONGEST_TWIN = 4096
MODES = ("plain", "retnet", "gla", "delta", "gated_delta")
# What a mode adds to q, k and v, in this order: gates, betas.
ADDED = {"gla": ("gate",), "delta": ("beta",), "gated_delta": ("gate", "beta")}


@dataclass(frozen=True)
class Setting:
    """Sizes of one case."""

    mode: str
    batch: int
    length: int
    heads: int
    width: int
    dtype: torch.dtype = torch.bfloat16
    device: str = "cuda"


SETTINGS = {
    **{Setting(mode, 8, 4096, 16, 128): 0 for mode in MODES},
    **{Setting(mode, 1, 32_768, 16, 128): 1 for mode in MODES},  # few programs: segments
    **{Setting(mode, 8, 4096, 32, 64): 1 for mode in MODES},
    **{Setting(mode, 8, 4096, 8, 256): 2 for mode in MODES},
}


def cases(tiny: bool) -> list[Case]:
    """All cases for a GPU, or ``tiny`` ones for the interpreter."""
    if tiny:
        tinies = [Setting(mode, 1, 35, 2, 16, torch.float32, "cpu") for mode in MODES]
        return [case_of(setting, 0, {"attend": partial(ours, setting)}) for setting in tinies]
    made = []
    for setting, wave in SETTINGS.items():
        peers: dict[str, Callable[[], Function]] = {
            "attend": partial(ours, setting),
            "flash-linear-attention": partial(_fla, setting),
        }
        if setting.length <= LONGEST_TWIN and setting.mode != "gla":
            peers["twin compiled"] = compiled(partial(_by_chunks, setting, TWIN_CHUNK))
        made.append(case_of(setting, wave, peers))
    return made


def case_of(s: Setting, wave: int, peers: dict[str, Callable[[], Function]]) -> Case:
    """Make the case of a setting."""
    steps = s.batch * s.length * s.heads
    added = ADDED.get(s.mode, ())
    gates = s.width if s.mode == "gla" else len(added)
    numbers = steps * s.dtype.itemsize
    read, written = (3 * s.width + gates) * numbers, s.width * numbers
    inside, between = CHUNK * s.width, 2 * s.width * s.width
    if "beta" in added:  # K S; the inverse times that; the inverse from K Kᵀ
        between += s.width * s.width
        inside += CHUNK * s.width
    flops = 2.0 * steps * (inside + between)
    return Case(
        family="linear",
        name=s.mode,
        size={"B": s.batch, "T": s.length, "H": s.heads, "D": s.width},
        wave=wave,
        make=partial(_make, s),
        learn=tuple(range(3 + len(added))),
        peers=peers,
        oracle=partial(_oracle, s),
        flops={"forward": flops, "backward": 2 * flops, "both": 3 * flops},
        bytes={
            "forward": read + written,
            "backward": 2 * read + written,
            "both": 3 * read + 2 * written,
        },
        part=_first_head,
    )


def _make(s: Setting, seed: int) -> Tensors:
    """q, k, v, and what the mode adds: gates near 0 as GLA begins, betas from 0 to 1."""
    generator = torch.Generator(s.device).manual_seed(seed)
    on: dict[str, Any] = {"generator": generator, "device": s.device}
    rows = (s.batch, s.length, s.heads)
    q, k, v = (torch.randn(*rows, s.width, **on).transpose(1, 2) for _ in range(3))
    added = ADDED.get(s.mode, ())
    if "beta" in added:
        k = torch.nn.functional.normalize(k, dim=-1)
    tensors = [x.to(s.dtype) for x in (s.width**-0.5 * q, k, v)]
    if "gate" in added:
        shape = (*rows, s.width) if s.mode == "gla" else rows
        gate = torch.nn.functional.logsigmoid(torch.randn(shape, **on)) / 16
        tensors.append(gate.transpose(1, 2).to(s.dtype))
    if "beta" in added:
        tensors.append(torch.rand(*rows, **on).transpose(1, 2).to(s.dtype))
    return tuple(tensors)


def _options(s: Setting, *more: torch.Tensor) -> dict[str, torch.Tensor]:
    """The mode's argument of ``linear_attention``."""
    if s.mode == "retnet":  # 1 - 2 ** (-5 - head), Sun et al. 2023, section 3.1
        heads = torch.arange(s.heads, device=s.device, dtype=torch.float64)
        return {"decay": torch.log1p(-(2.0 ** (-5 - heads))).float()}
    return dict(zip(ADDED.get(s.mode, ()), more, strict=True))


def ours(s: Setting) -> Function:
    """Our function with the setting's options."""
    fixed = _options(s) if s.mode == "retnet" else None

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *more: torch.Tensor) -> Any:
        options: Any = _options(s, *more) if fixed is None else fixed
        return kernels.linear_attention(q, k, v, **options)

    return run


def _by_chunks(
    s: Setting, chunk: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *more: torch.Tensor
) -> torch.Tensor:
    """The parallel twin chunk by chunk, in fp32 at least."""
    options, state, outputs = _options(s, *more), None, []
    wide = torch.promote_types(q.dtype, torch.float32)
    for first in range(0, q.shape[2], chunk):
        part = slice(first, first + chunk)
        here: Any = {n: x if n == "decay" else x[:, :, part] for n, x in options.items()}
        output, state = kernels.naive_linear_attention_parallel(
            *(x[:, :, part].to(wide) for x in (q, k, v)), **here, initial_state=state
        )
        outputs.append(output)
    return torch.cat(outputs, dim=2).to(v.dtype)


def _first_head(answer: Answer) -> Answer:
    """The first head of the first row: the whole in float64 would be large."""
    first = (answer.outputs, answer.gradients)
    return Answer(*(tuple(x[:1, :1] for x in tensors) for tensors in first))


def _oracle(s: Setting, inputs: Tensors, grads: Tensors) -> Answer:
    one = Setting(s.mode, 1, s.length, 1, s.width, s.dtype, s.device)
    head, grad = (tuple(x[:1, :1] for x in tensors) for tensors in (inputs, grads))
    return in_float64(partial(_by_chunks, one, ORACLE_CHUNK), tuple(range(len(head))))(head, grad)


def _fla(s: Setting) -> Function:
    try:
        from fla import ops  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise AbsentError(f"flash-linear-attention cannot be imported: {error}") from error
    function = {
        "plain": partial(ops.chunk_linear_attn, normalize=False),
        "retnet": ops.chunk_retention,
        "gla": ops.chunk_gla,
        "delta": ops.chunk_delta_rule,
        "gated_delta": getattr(ops, "chunk_gated_delta_rule", None),
    }[s.mode]
    if function is None:
        raise AbsentError("this flash-linear-attention has no chunk_gated_delta_rule")

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        names = ["g" if name == "gate" else name for name in ADDED.get(s.mode, ())]
        added = {n: x.transpose(1, 2) for n, x in zip(names, more, strict=True)}
        output, _ = function(*(x.transpose(1, 2) for x in (q, k, v)), **added, scale=1.0)
        return output.transpose(1, 2)

    return run
