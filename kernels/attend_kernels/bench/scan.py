"""The cases of Mamba-1's selective scan and its convolution, and their peers.

torch.compile unrolls the twin's loop over time. To trace it and its gradient takes 0.11 to 0.14 s a
step (measured on a CPU at 64, 128 and 256 steps: 9, 15 and 30 s), before any code is made of it. So
the twin is compiled whole at ``LONGEST_TWIN`` steps, and its time there stands for no other length;
up to ``LONGEST_STEPS`` its step is compiled and Python calls it T times.

Peers that want time last in memory are measured twice: where the
inputs lie as ours do, which costs them copies, and ("channels first") as theirs do, which costs us.
"""

# ruff: noqa: N803, N806  # B and C are the paper's matrices here, as in every Mamba

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
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

Builders = dict[str, Callable[[], Function]]
TAPS = 4
LONGEST_TWIN = 64
LONGEST_STEPS = 4096


@dataclass(frozen=True)
class Setting:
    """Sizes of one case."""

    batch: int
    length: int
    channels: int
    states: int = 16
    channels_first: bool = False
    dtype: torch.dtype = torch.bfloat16
    device: str = "cuda"

    @property
    def size(self) -> dict[str, int | str]:
        """The table's columns."""
        return {"B": self.batch, "T": self.length, "C": self.channels}

    @property
    def layout(self) -> str:
        """How the sequences lie in memory."""
        return "channels first" if self.channels_first else "time first"


TINY = Setting(1, 9, 5, 3, dtype=torch.float32, device="cpu")
# The first is as wide as Mamba 370M (C is twice the model's width). Then other lengths, fewer
# programs, one long sequence, more states.
SCANS = {
    Setting(8, 4096, 2048): 0,
    Setting(8, 4096, 2048, channels_first=True): 1,
    Setting(8, LONGEST_TWIN, 2048): 1,
    Setting(8, 1024, 2048): 1,
    Setting(8, 16_384, 2048): 2,
    Setting(2, 4096, 2048): 1,
    Setting(1, 16_384, 2048): 2,
    Setting(8, 4096, 2048, states=64): 2,
}
CONVOLUTIONS = {
    Setting(8, 4096, 2048): 0,
    Setting(8, 4096, 2048, channels_first=True): 1,
    Setting(8, 1024, 2048): 2,
    Setting(8, 16_384, 2048): 2,
}


def scan_cases(tiny: bool) -> list[Case]:
    """Scans with gate, skip connection and step-size bias, as in Mamba."""
    return [_scan(s, wave) for s, wave in ({TINY: 0} if tiny else SCANS).items()]


def conv_cases(tiny: bool) -> list[Case]:
    """Convolutions with bias and SiLU, as in Mamba."""
    return [_conv(s, wave) for s, wave in ({TINY: 0} if tiny else CONVOLUTIONS).items()]


def _scan(s: Setting, wave: int) -> Case:
    peers: Builders = {"attend": lambda: _attend_scan}
    if s.device == "cuda":
        if s.length <= LONGEST_TWIN:
            peers["twin compiled"] = compiled(_twin)
        elif not s.channels_first and s.length <= LONGEST_STEPS:
            peers["twin, step compiled"] = _compiled_steps
        peers["mamba-ssm"] = _mamba_scan
    element = s.batch * s.length * s.channels * s.dtype.itemsize
    state_steps = float(s.batch * s.length * s.channels * s.states)
    return Case(
        family="selective_scan",
        name=s.layout,
        size=s.size | {"N": s.states},
        wave=wave,
        make=partial(_make_scan, s),
        learn=tuple(range(8)),
        peers=peers,
        oracle=_first_sequence,
        part=lambda a: Answer((a.outputs[0][:1],), tuple(g[:1] for g in a.gradients[:5])),
        flops={"forward": 6 * state_steps, "backward": 26 * state_steps, "both": 32 * state_steps},
        bytes={"forward": 4 * element, "backward": 7 * element, "both": 11 * element},
    )


def _make_scan(s: Setting, seed: int) -> Tensors:
    """u, delta, B, C, z; then A, D and the bias in fp32. Step sizes are about 0.001 to 0.1."""
    u, delta, b, c, z = (
        _draw(s, width, seed, number)
        for number, width in enumerate((s.channels, s.channels, s.states, s.states, s.channels))
    )
    rates = -torch.arange(1.0, s.states + 1, device=s.device).repeat(s.channels, 1)
    skip = torch.ones(s.channels, device=s.device)
    return u, delta, b, c, z, rates, skip, torch.full_like(skip, -4.6)


def _attend_scan(u: Any, delta: Any, B: Any, C: Any, z: Any, A: Any, D: Any, bias: Any) -> Any:
    return kernels.selective_scan(u, delta, A, B, C, D=D, z=z, delta_bias=bias)


def _first_sequence(inputs: Tensors, grads: Tensors) -> Answer:
    """The first sequence in float64, with the gradients that no other sequence adds to."""
    leaves = [x.detach()[:1].double().requires_grad_() for x in inputs[:5]]
    u, delta, b, c, z = leaves
    rates, skip, bias = (x.detach().double() for x in inputs[5:])
    y, _ = kernels.naive_selective_scan(u, delta, rates, b, c, D=skip, z=z, delta_bias=bias)
    return Answer((y.detach(),), torch.autograd.grad(y, leaves, grads[0][:1].double()))


def _twin(u: Any, delta: Any, B: Any, C: Any, z: Any, A: Any, D: Any, bias: Any) -> Any:
    return kernels.naive_selective_scan(u, delta, A, B, C, D=D, z=z, delta_bias=bias)[0]


def _compiled_steps() -> Function:
    step = compiled(_scan_step)()

    def scan(u: Any, delta: Any, B: Any, C: Any, z: Any, A: Any, D: Any, bias: Any) -> Any:
        state = A.new_zeros(u.shape[0], *A.shape)
        rows = []
        for t in range(u.shape[1]):
            y, state = step(state, u[:, t], delta[:, t], A, B[:, t], C[:, t], D, z[:, t], bias)
            rows.append(y)
        return torch.stack(rows, dim=1)

    return scan


def _scan_step(
    state: Any, u: Any, delta: Any, A: Any, B: Any, C: Any, D: Any, z: Any, bias: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    y, state = kernels.naive_selective_scan(
        u[:, None], delta[:, None], A, B[:, None], C[:, None],
        D=D, z=z[:, None], delta_bias=bias, initial_state=state,
    )  # fmt: skip
    return y[:, 0], state


def _mamba_scan() -> Function:
    try:
        from mamba_ssm.ops.selective_scan_interface import (  # pyright: ignore[reportMissingImports]  # optional
            selective_scan_fn,
        )
    except ImportError as error:
        raise AbsentError(f"mamba-ssm cannot be imported: {error}") from error

    def scan(u: Any, delta: Any, B: Any, C: Any, z: Any, A: Any, D: Any, bias: Any) -> Any:
        u, delta, B, C, z = (x.transpose(1, 2) for x in (u, delta, B, C, z))
        y = selective_scan_fn(u, delta, A, B, C, D, z, bias, delta_softplus=True)
        return y.transpose(1, 2)

    return scan


def _conv(s: Setting, wave: int) -> Case:
    peers: Builders = {"attend": lambda: kernels.causal_conv1d}
    if s.device == "cuda":
        peers["twin compiled"] = compiled(kernels.naive_causal_conv1d)
        peers["torch"] = lambda: _torch_conv
        peers["causal-conv1d"] = _dao_conv
    elements = s.batch * s.length * s.channels
    moved = float(elements * s.dtype.itemsize)
    learn = (0, 1, 2)
    return Case(
        family="conv1d",
        name=s.layout,
        size=s.size | {"K": TAPS},
        wave=wave,
        make=partial(_make_conv, s),
        learn=learn,
        peers=peers,
        oracle=in_float64(kernels.naive_causal_conv1d, learn),
        flops={
            "forward": 2.0 * TAPS * elements,
            "backward": 6.0 * TAPS * elements,
            "both": 8.0 * TAPS * elements,
        },
        bytes={"forward": 2 * moved, "backward": 3 * moved, "both": 5 * moved},
    )


def _make_conv(s: Setting, seed: int) -> Tensors:
    column = replace(s, batch=1, channels_first=False)
    taps = _draw(replace(column, length=s.channels), TAPS, seed, 1)[0]
    bias = _draw(replace(column, length=1), s.channels, seed, 2)[0, 0]
    return _draw(s, s.channels, seed, 0), taps, bias


def _torch_conv(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = torch.nn.functional.conv1d(
        x.transpose(1, 2), w[:, None], b, padding=TAPS - 1, groups=w.shape[0]
    )
    return torch.nn.functional.silu(y[..., : x.shape[1]]).transpose(1, 2)


def _dao_conv() -> Function:
    try:
        from causal_conv1d import (  # pyright: ignore[reportMissingImports]  # optional
            causal_conv1d_fn,
        )
    except ImportError as error:
        raise AbsentError(f"causal-conv1d cannot be imported: {error}") from error

    def conv(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return causal_conv1d_fn(x.transpose(1, 2), w, b, activation="silu").transpose(1, 2)

    return conv


def _draw(s: Setting, width: int, seed: int, number: int) -> torch.Tensor:
    """Normal numbers ``(B, T, width)``, in memory as the setting has it."""
    generator = torch.Generator(s.device).manual_seed(10 * seed + number)
    shape = (s.batch, width, s.length) if s.channels_first else (s.batch, s.length, width)
    x = torch.randn(shape, generator=generator, device=s.device).to(s.dtype)
    return x.transpose(1, 2) if s.channels_first else x
