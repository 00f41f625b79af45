"""What the CPU does before a kernel is launched, in µs a call: what a decoding loop waits for.

The benchmark proper hides it, for it queues its calls behind a wait. Here each launch is replaced
by nothing, so what is left is the package's own work: looking at the arguments, making the outputs,
choosing tiles and grids. It needs no GPU. What Triton adds to each launch, and what PyTorch's own
functions take with theirs, is measured where there is a GPU.

The calls are those of a decoding step of a small batch, without gradients, as a loop makes them:
the same shapes again and again.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch.nn import functional

from attend_kernels import (
    apply_rope,
    causal_conv1d_step,
    decode_attention,
    layer_norm,
    linear_attention_step,
    quantise_cache,
    rms_norm,
    rope_table,
    selective_scan_step,
    ssd_step,
)
from attend_kernels.common import fallback

Call = Callable[[], object]
LIMIT = 25.0  # µs: about what a small kernel takes, so that the GPU never waits for the CPU
BATCHES, REPEATS = 15, 100
PROCESSORS = 132  # of an H200, where there is no GPU to ask
CODE = "attend_kernels.ops"
LOOKS = (  # on a CPU values are looked at too; on a GPU nobody does
    f"{CODE}.decode.api.check_values",
    f"{CODE}.ssd.api._check_step",
    f"{CODE}.selective_scan.api._check_values",
    f"{CODE}.linear_attention.api.check_falling",
)


class Properties(NamedTuple):
    """What the package asks of a GPU's properties."""

    multi_processor_count: int


def calls(device: torch.device) -> dict[str, Call]:
    """Every function a decoding loop calls, by name, with its inputs: bf16 where they may be."""

    def draw(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return torch.rand(shape, device=device).to(dtype)

    fp32 = torch.float32
    q, cache, lengths = draw(4, 32, 128), draw(4, 8, 256, 128), torch.full((4,), 200).to(device)
    pages, table = draw(64, 16, 8, 128), torch.arange(64).reshape(4, 16).to(device)
    codes, scale = quantise_cache(cache)
    x, w = draw(4, 4096), draw(4096)
    cos, sin = (m.to(device) for m in rope_table(512, 128))
    position = torch.full((4, 1), 200).to(device)
    ssd = (draw(4, 8, 64, 128, dtype=fp32), draw(4, 8, 64), draw(4, 8), -draw(8, dtype=fp32))
    ssd += (draw(4, 1, 128), draw(4, 1, 128), draw(8, dtype=fp32))
    scan = (draw(4, 1024, 16, dtype=fp32), draw(4, 1024), draw(4, 1024))
    scan += (-draw(1024, 16, dtype=fp32), draw(4, 16), draw(4, 16))
    skip, gate = draw(1024, dtype=fp32), draw(4, 1024)
    conv = (draw(4, 1024, 3), draw(4, 1024), draw(1024, 4), draw(1024))
    linear = (draw(4, 8, 128, 128, dtype=fp32), *(draw(4, 8, 128) for _ in range(3)))
    fading = -draw(8, dtype=fp32)
    eight: dict[str, Any] = {"k_scale": scale, "v_scale": scale}
    step: dict[str, Any] = {"D": skip, "z": gate, "delta_bias": skip}
    return {
        "decode_attention": lambda: decode_attention(q, cache, cache, lengths),
        "decode_attention, paged": lambda: decode_attention(q, pages, pages, lengths, table),
        "decode_attention, int8": lambda: decode_attention(q, codes, codes, lengths, **eight),
        "rms_norm": lambda: rms_norm(x, w),
        "rms_norm + residual": lambda: rms_norm(x, w, residual=x),
        "layer_norm": lambda: layer_norm(x, w, w),
        "apply_rope": lambda: apply_rope(q[:, :, None], cos, sin, positions=position),
        "linear_attention_step": lambda: linear_attention_step(*linear, decay=fading),
        "ssd_step": lambda: ssd_step(*ssd, dt_bias=ssd[-1], softplus=True),
        "selective_scan_step": lambda: selective_scan_step(*scan, **step),
        "causal_conv1d_step": lambda: causal_conv1d_step(*conv),
    }


def peers(device: torch.device) -> dict[str, Call]:
    """PyTorch's own, for comparison, with their launches."""
    q, k = (torch.rand(4, 32, n, 128, device=device).bfloat16() for n in (1, 256))
    x, w = torch.rand(4, 4096, device=device).bfloat16(), torch.rand(4096, device=device).bfloat16()
    return {
        "scaled_dot_product_attention": lambda: functional.scaled_dot_product_attention(q, k, k),
        "torch rms_norm": lambda: functional.rms_norm(x, (4096,), w),
    }


@contextmanager
def without_launches() -> Iterator[None]:
    """Replace every launch by nothing; where there is no GPU, let the package believe in one."""
    from triton.runtime.jit import JITFunction

    def nothing(*_: Any, **__: Any) -> None:
        return None

    def launcher(*_: Any) -> Callable[..., None]:  # a mock takes 6 µs
        return nothing

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(JITFunction, "__getitem__", launcher))
        if not torch.cuda.is_available():
            believed: list[tuple[Any, str, Callable[..., Any]]] = [
                (fallback, "why_not", lambda _: None),
                (fallback, "interpreted", lambda: False),
                (torch.cuda, "get_device_capability", lambda *_: (9, 0)),
                (torch.cuda, "get_device_properties", lambda *_: Properties(PROCESSORS)),
            ]
            for owner, name, value in believed:
                stack.enter_context(mock.patch.object(owner, name, value))
            for name in LOOKS:
                stack.enter_context(mock.patch(name, nothing))
        yield


def microseconds(
    call: Call, batches: int = BATCHES, clock: Callable[[], float] = time.thread_time
) -> tuple[float, float]:
    """Time of a call: the median of batches, and the quickest.

    ``clock`` counts this thread's time by default, so that other processes have no part in it;
    ``time.perf_counter`` counts what a caller waits, for the GPU too.
    """
    found = []
    for _ in range(5):
        call()
    for _ in range(batches):
        begin = clock()
        for _ in range(REPEATS):
            call()
        if clock is time.perf_counter and torch.cuda.is_available():
            torch.cuda.synchronize()
        found.append((clock() - begin) / REPEATS * 1e6)
    return statistics.median(found), min(found)


def python_calls(call: Call) -> int:
    """Count the functions that one call calls: work of the CPU without a clock."""
    for _ in range(5):
        call()
    count = 0

    def watch(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(before)
    return count


def measure(batches: int = BATCHES) -> list[dict[str, Any]]:
    """A row a function: µs before the launch, functions called, and with a GPU µs in all."""
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda" if on_gpu else "cpu")
    rows: list[dict[str, Any]] = []
    with torch.no_grad():
        for name, call in calls(device).items():
            with without_launches():
                median, least = microseconds(call, batches)
                row: dict[str, Any] = {"name": name, "median_us": median, "least_us": least}
                row["calls"] = python_calls(call)
            row["whole_us"] = whole(call, batches) if on_gpu else None
            rows.append(row)
        if on_gpu:
            for name, call in peers(device).items():
                row = {"name": name, "median_us": None, "least_us": None}
                rows.append(row | {"whole_us": whole(call, batches)})
    return rows


def whole(call: Call, batches: int) -> float:
    """µs a call with its launches, as a caller waits for them on a GPU."""
    return microseconds(call, batches, time.perf_counter)[0]
