"""The cases of SSD at sizes of Mamba-2 models, and its peers.

Bytes are x read and y written, dt, B and C read; backward, x and dy read and dx written, and twice
dt, B and C. Operations are those of the algorithm with chunks of 64, of which
the part inside a chunk counts half, for half of it is masked; backward twice as many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

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
PEER_CHUNK = 256  # mamba_ssm's default
LONGEST_TWIN = 4096  # compiled, the twin is a loop unrolled over its chunks
ROW_INPUTS = (0, 1, 3, 4)  # x, dt, B, C: their gradients belong to one row of the batch


@dataclass(frozen=True)
class Setting:
    """Sizes of one case."""

    batch: int
    length: int
    heads: int
    groups: int
    width: int
    states: int
    dtype: torch.dtype = torch.bfloat16
    device: str = "cuda"


SETTINGS = {
    Setting(8, 4096, 80, 1, 64, 128): 0,  # Mamba-2 2.7B
    Setting(2, 16_384, 80, 1, 64, 128): 1,
    Setting(1, 4096, 80, 1, 64, 128): 1,  # one sequence: few programs
    Setting(8, 4096, 24, 1, 64, 128): 1,  # Mamba-2 130M; then other lengths
    Setting(8, 1024, 24, 1, 64, 128): 2,
    Setting(8, 16_384, 24, 1, 64, 128): 2,
    Setting(8, 4096, 64, 8, 64, 128): 1,  # groups, as hybrids have them
    Setting(8, 4096, 80, 1, 64, 64): 2,
    Setting(8, 4096, 32, 1, 64, 256): 2,
}


def cases(tiny: bool) -> list[Case]:
    """All cases for a GPU, or a ``tiny`` one for the interpreter."""
    if tiny:
        return [case_of(Setting(1, 33, 2, 1, 16, 16, torch.float32, "cpu"), 0, {"attend": ours})]
    made = []
    for setting, wave in SETTINGS.items():
        peers: dict[str, Callable[[], Function]] = {"attend": ours, "mamba_ssm": _mamba_ssm}
        if setting.length <= LONGEST_TWIN:
            peers["twin compiled"] = compiled(_twin)
        made.append(case_of(setting, wave, peers))
    return made


def case_of(setting: Setting, wave: int, peers: dict[str, Callable[[], Function]]) -> Case:
    """Make the case of a setting."""
    s = setting
    steps = s.batch * s.length
    values, keys = steps * s.heads * s.width, 2 * steps * s.groups * s.states
    shared = 4 * steps * s.heads + keys * s.dtype.itemsize
    forward = 2 * values * s.dtype.itemsize + shared
    backward = 3 * values * s.dtype.itemsize + 2 * shared
    inside, between = CHUNK * (s.states + s.width) / 2, 2 * s.width * s.states
    flops = 2.0 * steps * s.heads * (inside + between)
    return Case(
        family="ssd",
        name="scan",
        size={
            "B": s.batch, "T": s.length, "H": s.heads, "G": s.groups, "P": s.width, "N": s.states,
        },
        wave=wave,
        make=partial(_make, s),
        learn=(0, 1, 2, 3, 4, 5),
        peers=peers,
        oracle=_oracle,
        flops={"forward": flops, "backward": 2 * flops, "both": 3 * flops},
        bytes={"forward": forward, "backward": backward, "both": forward + backward},
        part=_first_row,
    )  # fmt: skip


def _make(s: Setting, seed: int) -> Tensors:
    """x, dt, A, B, C, D as Mamba-2 begins its training: dt from 0.001 to 0.1, A from -16 to -1."""
    generator = torch.Generator(s.device).manual_seed(seed)
    rows, keys = (s.batch, s.length, s.heads), (s.batch, s.length, s.groups, s.states)
    on = {"generator": generator, "device": s.device}
    x, b, c = (torch.randn(shape, **on).to(s.dtype) for shape in ((*rows, s.width), keys, keys))
    dt = 10.0 ** (-3 + 2 * torch.rand(rows, **on))
    a, d = -1 - 15 * torch.rand(s.heads, **on), torch.randn(s.heads, **on)
    return x, dt, a, b, c, d


def _first_row(answer: Answer) -> Answer:
    """The first row of the batch: the whole in float64 would be large."""
    picked = [answer.gradients[i][:1] for i in ROW_INPUTS]
    return Answer((answer.outputs[0][:1],), tuple(picked))


def _oracle(inputs: Tensors, grads: Tensors) -> Answer:
    x, dt, a, b, c, d = inputs
    row = (x[:1], dt[:1], a, b[:1], c[:1], d)
    return in_float64(_twin, ROW_INPUTS)(row, (grads[0][:1],))


def ours() -> Function:
    """Our function."""
    return lambda x, dt, a, b, c, d: kernels.ssd(x, dt, a, b, c, D=d)


def _twin(
    x: torch.Tensor,
    dt: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    d: torch.Tensor,
) -> torch.Tensor:
    return kernels.naive_ssd_chunked(x, dt, a, b, c, D=d, chunk=PEER_CHUNK)[0]


def _mamba_ssm() -> Function:
    try:
        from mamba_ssm.ops.triton.ssd_combined import (  # pyright: ignore[reportMissingImports]
            mamba_chunk_scan_combined,
        )
    except ImportError as error:
        raise AbsentError(f"mamba_ssm cannot be imported: {error}") from error
    return lambda x, dt, a, b, c, d: mamba_chunk_scan_combined(x, dt, a, b, c, PEER_CHUNK, D=d)
