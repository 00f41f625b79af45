"""Every launch of a call, as a GPU would be asked to compile it, recorded where there is none.

``recorded`` makes the package believe in a GPU and hands each launch to the caller instead of
running it: the kernel with the very argument types, alignments and constants that Triton makes of
the call's arguments. (An argument of 1 becomes a constant, which alone has broken kernels.) What
comes out of such a call is what ``torch.empty`` finds, so only shapes and launches mean anything.

Run as a program it makes the Triton IR of all launches of ``calls``; with ``--compile`` also the
machine code, for the Triton of another machine: ``PYTHONPATH=kernels python -m
kernels.tests.launches --compile ssd``. Lines of JSON, one a launch.
"""

# ruff: noqa: N806  # axis letters are capitals

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from attend_kernels import (
    append_to_cache,
    apply_rope,
    block_sparse_attention,
    causal_conv1d,
    causal_conv1d_step,
    cross_entropy,
    flash_attention,
    flash_attention_varlen,
    fused_softmax,
    layer_norm,
    linear_attention,
    linear_attention_step,
    rg_lru,
    rms_norm,
    rope_table,
    s4d_kernel,
    selective_scan_step,
    ssd_step,
)
from attend_kernels.compiled.compiler import Launch
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from . import decode_cases, flash_cases, linear_attention_cases, recurrences, scan_cases, ssd_cases
from .stand_in import PROCESSORS, gpu, replaced

Call = Callable[[], object]
FP32, FP16, BF16 = torch.float32, torch.float16, torch.bfloat16


class Absent:
    """A driver that knows what GPU it would be."""

    def __init__(self, architecture: int) -> None:
        self.target = GPUTarget("cuda", architecture, 32)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return device


@contextmanager
def recorded(architecture: int = 90, processors: int = PROCESSORS) -> Iterator[list[Launch]]:
    """Collect the launches of the calls inside, each kind once; tensors stay on the CPU."""
    found: dict[str, Launch] = {}

    def hook(*, key: Any, fn: Any, compile: dict[str, Any], **_: Any) -> bool:
        (attributes,) = compile["configs"]
        names = fn.jit_function.arg_names
        types = {n: t for n, t in compile["signature"].items() if t != "constexpr"}
        found[f"{fn.name} {key}"] = Launch(
            fn.jit_function,
            types,
            {names[at[0]]: value for at, value in compile["constants"].items()},
            architecture,
            compile["num_warps"],
            compile["num_stages"],
            [n for n in types if (names.index(n),) not in attributes],
        )
        return True  # do not compile, and so do not launch

    launches: list[Launch] = []
    believed = [
        (knobs.runtime, "jit_cache_hook", hook),
        (driver, "_active", Absent(architecture)),
        (torch.cuda, "device_of", lambda _: nullcontext()),
    ]
    with gpu(architecture, processors), replaced(believed):
        yield launches
    launches += found.values()


def calls() -> dict[str, Callable[[], list[Call]]]:
    """Makers of calls of every public function, forward and backward, by family.

    Lengths and counts of 1 become constants, multiples of 16 tell the compiler that addresses are
    aligned, others are neither: each family has some of all three, and every dtype class and width
    of its table.
    """
    return {
        "linear_attention": _linear_attention,
        "ssd": _ssd,
        "selective_scan": _selective_scan,
        "conv1d": _conv1d,
        "flash": _flash,
        "decode": _decode,
        "rows": _rows,
        "rg_lru": _rg_lru,
        "s4d": _s4d,
        "block_sparse": _block_sparse,
    }


def _linear_attention() -> list[Call]:
    Case, run = linear_attention_cases.Case, linear_attention_cases.run
    cases = [
        Case(1, D=16, chunk=64),
        Case(113, B=2, H=3, D=64, dtype=BF16, chunk=64),
        Case(1025, D=128, dtype=BF16, chunk=64),  # one head: segments
        Case(64, H=16, D=256, dtype=FP16, chunk=64, state=False),
        Case(70, H=2, D=59, E=40, chunk=64),
        Case(97, H=2, D=64, E=128, chunk=16),
        Case(97, H=2, D=32, E=256, dtype=BF16, chunk=32),
        Case(96, H=2, D=256, E=16, dtype=BF16, chunk=64),
        Case(128, H=2, D=256, chunk=64),
    ]
    kinds = [case.but(kind=kind) for case in cases for kind in linear_attention_cases.KINDS]
    found: list[Call] = [
        partial(run, linear_attention, case.inputs(), output_state=True, chunk=case.chunk)
        for case in kinds
    ]
    for case in kinds[: 3 * len(linear_attention_cases.KINDS)]:
        given = {name: x.detach() for name, x in case.inputs().items()}
        now: Any = {n: x[:, :, 0] for n, x in given.items() if n not in ("decay", "initial_state")}
        now |= {"decay": given["decay"]} if "decay" in given else {}
        found.append(partial(linear_attention_step, given["initial_state"], **now))
    return found


def _ssd() -> list[Call]:
    Case, run = ssd_cases.Case, recurrences.run
    cases = [
        (Case(1, H=1), 64),
        (Case(113, B=2, H=4, G=2, P=64, N=128, dtype=BF16), 64),
        (Case(113, H=3, P=64, N=64, dtype=FP16, options=()), 256),
        (Case(256, H=16, P=128, N=128, dtype=BF16), 16),
        (Case(100, H=24, G=2, P=40, N=40, dtype=BF16), 32),  # several shares of a group's heads
        (Case(128, B=2, P=100, N=256, dtype=BF16), 64),
        (Case(97, P=64, N=128), 64),
        (Case(97, H=9, P=128, N=256), 128),
        (Case(64, P=16, N=64), 16),
    ]
    found: list[Call] = [partial(run, ssd_cases.fast, c.inputs(), chunk=n) for c, n in cases]
    for dtype in (FP32, BF16):
        packed = Case(90, H=4, G=2, P=64, N=64, dtype=dtype, options=("D",)).inputs()
        found.append(partial(run, _packed_ssd, packed))
    for case, _ in cases[:4]:
        given = {n: x if n in ("A", "D") else x[:, 0] for n, x in case.inputs().items()}
        given.pop("initial_state", None)
        state = torch.zeros(case.B, case.H, case.P, case.N)
        found.append(partial(ssd_step, state, **given))
    return found


def _packed_ssd(**inputs: Any) -> Any:
    return ssd_cases.fast(**inputs, cu_seqlens=torch.tensor([0, 0, 1, 40, 80]))


def _selective_scan() -> list[Call]:
    Case = scan_cases.Case
    cases = [
        Case(1, C=1, N=1),
        Case(97, B=2, C=72, N=16, dtype=BF16),
        Case(2048, C=64, N=16, dtype=BF16),  # one sequence: segments
        Case(64, B=8, C=2048, N=16, dtype=FP16, options=()),
        Case(97, C=33, N=40),
        Case(128, C=48, N=128),
        Case(97, C=5, N=256, dtype=BF16, options=("z",)),
        Case(97, C=5, N=8, dtype=torch.float64),
    ]
    found: list[Call] = [partial(recurrences.run, scan_cases.fast, case.inputs()) for case in cases]
    for case in cases[:2]:
        given = {n: x[:, 0] if n in ("u", "delta", "B", "C", "z") else x for n, x in (
            case.inputs().items())}  # fmt: skip
        found.append(partial(selective_scan_step, given.pop("initial_state"), **given))
    return found


def _conv1d() -> list[Call]:
    found: list[Call] = []
    for T, C, K, dtype, activation in [
        (1, 1, 4, FP32, "silu"), (97, 33, 4, BF16, "silu"), (256, 1536, 4, BF16, None),
        (40, 64, 1, FP16, "silu"), (40, 64, 7, torch.float64, "silu"),
    ]:  # fmt: skip
        x, w, b = torch.randn(2, T, C), torch.randn(C, K), torch.randn(C)
        given = {"x": x.to(dtype), "w": w.to(dtype), "b": b.to(dtype)}
        given["state"] = torch.randn(2, C, K - 1).to(dtype)
        options = {"activation": activation, "output_state": True}
        found.append(partial(_learn, causal_conv1d, given, **options))
        found.append(partial(_learn, causal_conv1d, {"x": given["x"], "w": given["w"]}))
        found.append(partial(causal_conv1d_step, given["state"], given["x"][:, 0], given["w"]))
    return found


def _flash() -> list[Call]:
    Case, run = flash_cases.Case, flash_cases.run
    cases = [
        Case(1, H=1, D=16),
        Case(113, S=97, H=4, G=2, D=64, dtype=BF16, causal=True),
        Case(128, D=128, dtype=FP16),
        Case(256, B=2, H=16, D=128, dtype=BF16, causal=True, window=64),
        Case(97, D=80, dtype=BF16, alibi=True, softcap=30.0),
        Case(97, D=256, dtype=BF16, causal=True, scale=0.5),
        *[Case(97, D=D, causal=True) for D in (59, 128, 256)],
    ]
    found: list[Call] = []
    for case in cases:
        given, options = case.inputs(), case.options()
        for whole in (True, False):  # two passes, or one with atomics
            attention = partial(flash_attention, return_lse=True, deterministic=whole)
            found.append(partial(run, attention, given, **options))
    for dtype in (FP32, BF16):
        q, k, v = (torch.randn(90, heads, 64).to(dtype) for heads in (4, 2, 2))
        starts = torch.tensor([0, 0, 1, 40, 90])
        packed = partial(flash_attention_varlen, cu_seqlens_q=starts, cu_seqlens_k=starts)
        found.append(partial(_learn, packed, {"q": q, "k": k, "v": v}, causal=True))
    return found


def _decode() -> list[Call]:
    Case = decode_cases.Case
    cases = [
        Case(lengths=(1,), H=1, G=1, D=16),
        Case(D=64, dtype=BF16, page=16, T=3),
        Case(D=80, dtype=FP16, window=20, softcap=30.0, splits=7),
        Case(D=128, H=16, dtype=BF16, codes=torch.int8, page=64),
        Case(D=128, dtype=BF16, codes=torch.float8_e4m3fn, per_head=True),
        Case(D=256),
        Case(D=256, dtype=BF16, H=8, G=1),
    ]
    return [partial(decode_cases.run, case) for case in cases] + _appends()


def _appends() -> list[Call]:
    """New tokens into contiguous and paged caches."""
    found: list[Call] = []
    table, lengths = torch.zeros(2, 3, dtype=torch.int32), torch.ones(2, dtype=torch.int64)
    for G, T, D, page, dtype in [
        (1, 1, 1, 0, FP32),
        (2, 3, 80, 16, BF16),
        (2, 1, 64, 7, torch.int8),
    ]:
        kept = torch.zeros((2, G, 32, D) if page == 0 else (9, page, G, D)).to(dtype)
        k = torch.randn(2, G, T, D).to(FP32 if dtype == torch.int8 else dtype)
        scale = torch.ones(kept.shape[:-1]) if dtype == torch.int8 else None
        more = {"counts": lengths} if T > 1 else {}
        more |= {"block_table": table} if page else {}
        found.append(
            partial(
                append_to_cache, kept, kept.clone(), k, k, lengths, k_scale=scale, v_scale=scale,
                **more,
            )
        )  # fmt: skip
    return found


def _rows() -> list[Call]:
    """Norms, rotary positions, cross-entropy and softmax."""
    found: list[Call] = []
    for rows, width, dtype in [(1, 1, FP32), (33, 100, BF16), (64, 4096, FP16), (2, 40_000, BF16),
        (3, 64, torch.float64), (2, 20_000, torch.float64),
    ]:  # fmt: skip
        x, w, b = (torch.randn(*shape).to(dtype) for shape in ((rows, width), (width,), (width,)))
        for more in ({}, {"residual": x + 1}):
            found.append(partial(_learn, rms_norm, {"x": x, "weight": w} | more))
            found.append(partial(_learn, layer_norm, {"x": x, "weight": w, "bias": b} | more))
        targets = torch.zeros(rows, dtype=torch.int64)
        found.append(partial(_learn, partial(cross_entropy, targets=targets), {"logits": x}))
        smooth = partial(cross_entropy, targets=targets, label_smoothing=0.1, z_loss=1e-4)
        found.append(partial(_learn, smooth, {"logits": x}, reduction="none"))
        found.append(partial(_learn, fused_softmax, {"x": x}))
    for T, D, dtype, mixed in [(1, 2, FP32, False), (33, 64, BF16, False), (64, 128, FP16, True)]:
        cos, sin = rope_table(T, D)
        x = torch.randn(2, 3, T, D).to(dtype)
        turn = partial(apply_rope, cos=cos, sin=sin, interleaved=mixed)
        found.append(partial(_learn, turn, {"x": x}))
        found.append(partial(_learn, turn, {"x": x}, positions=torch.zeros(2, T).long()))
    return found


def _rg_lru() -> list[Call]:
    found: list[Call] = []
    for B, T, C, dtype in [(1, 1, 1, FP32), (2, 97, 100, BF16), (3, 1024, 512, FP16)]:
        rows = ("x", "input_gate", "recurrence_gate")
        given = {name: torch.randn(B, T, C).to(dtype) for name in rows}
        given |= {"parameter": torch.randn(C)}
        found.append(partial(_learn, partial(rg_lru, output_state=True), given))
        starts = torch.zeros(B, T, dtype=torch.bool)
        given |= {"initial_state": torch.randn(B, C)}
        found.append(partial(_learn, partial(rg_lru, starts=starts), given))
    return found


def _s4d() -> list[Call]:
    found: list[Call] = []
    for C, N, length in [(1, 1, 1), (3, 5, 97), (64, 32, 1024)]:
        given = {"delta": torch.rand(C)}
        given |= {name: torch.randn(C, N, dtype=torch.complex64) for name in "AC"}
        found.append(partial(_learn, partial(s4d_kernel, length=length), given))
    return found


def _block_sparse() -> list[Call]:
    found: list[Call] = []
    for D, dtype, block in [
        (1, FP32, 16), (64, FP32, 64), (128, FP32, 64), (256, FP32, 128),
        (40, FP16, 32), (64, BF16, 64), (128, BF16, 128), (256, BF16, 256),
    ]:  # fmt: skip
        T, S = (600, 512) if D > 1 else (1, 1)
        mask = torch.ones(-(-T // block), -(-S // block), dtype=torch.bool)
        call = partial(block_sparse_attention, mask=mask, block=block, causal=D != 64)
        shapes = {"q": (2, 4, T, D), "k": (2, 2, S, D), "v": (2, 2, S, D)}
        given = {name: torch.randn(*shape).to(dtype) for name, shape in shapes.items()}
        found.append(partial(_learn, call, given))
    return found


def _learn(function: Callable[..., Any], given: dict[str, Any], **options: Any) -> None:
    """Run forward and backward."""
    leaves = {name: x.detach().clone().requires_grad_() for name, x in given.items()}
    outputs = function(**leaves, **options)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    outputs = [y for y in outputs if y.requires_grad]  # a state of no steps is a constant
    torch.autograd.backward(outputs, [torch.ones_like(y) for y in outputs])


def main() -> None:
    """Print a line for each launch of the families named, or of all: see the module."""
    parser = argparse.ArgumentParser(description="Make the code of every launch, without a GPU.")
    parser.add_argument("families", nargs="*", help=f"some of {', '.join(families := calls())}")
    parser.add_argument("--architecture", type=int, default=90, choices=(80, 90))
    parser.add_argument("--compile", action="store_true", help="machine code too, a second each")
    options = parser.parse_args()
    broken = 0
    for family in options.families or families:
        with recorded(options.architecture) as launches:
            for call in families[family]():
                call()
        for launch in launches:
            line = {"family": family, "kernel": launch.kernel.__name__}
            try:
                if options.compile:
                    made = launch.compile()
                    line |= {"registers": made.registers, "spilled": made.spilled}
                else:
                    line["code"] = launch.fingerprint()
            except (
                Exception
            ) as error:  # whatever a compiler raises: it is told, and the rest goes on
                line["error"] = f"{type(error).__name__}: {error}"
                broken += 1
            constants = {n: str(x) for n, x in launch.constants.items()}
            print(json.dumps(line | {"constants": constants}), flush=True)
    sys.exit(broken > 0)


if __name__ == "__main__":
    main()
