"""The cases of the kernels that memory bounds: norm, rope, cross-entropy, softmax, and their peers.

Bytes are the fewest a direction can move: each input read once, each output written once. The
small reads shared by all rows (weights, tables) are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

BF16 = torch.bfloat16
Builders = dict[str, Callable[[], Function]]


def norm_cases(tiny: bool) -> list[Case]:
    """RMSNorm and LayerNorm, with and without a residual."""
    widths = {33: 0} if tiny else {4096: 0, 1024: 1, 8192: 1, 16_384: 2}
    made = []
    for width, wave in widths.items():
        rows = 5 if tiny else 16_384
        made += [
            _norm(kind, residual, rows, width, wave, tiny)
            for kind in ("rms", "layer")
            for residual in (False, True)
        ]
    return made


def _norm(kind: str, residual: bool, rows: int, width: int, wave: int, tiny: bool) -> Case:
    fast = kernels.rms_norm if kind == "rms" else kernels.layer_norm
    twin = kernels.naive_rms_norm if kind == "rms" else kernels.naive_layer_norm
    weights = 1 if kind == "rms" else 2

    def adapt(function: Function) -> Function:
        def run(x: torch.Tensor, *rest: torch.Tensor) -> Any:
            return function(x, *rest[:weights], residual=rest[weights] if residual else None)

        return run

    def make(seed: int) -> Tensors:
        shapes = [(rows, width)] + [(width,)] * weights + [(rows, width)] * residual
        return _random(shapes, seed, tiny)

    element = rows * width * _dtype(tiny).itemsize
    forward, backward = (4, 4) if residual else (2, 3)
    peers: Builders = {"attend": lambda: adapt(fast)}
    if not tiny:
        peers["twin compiled"] = compiled(adapt(twin))
        if not residual:
            peers["torch"] = lambda: _torch_norm(kind, width)
            peers["liger"] = lambda: _liger_norm(kind)
    return _case(
        ("norm", kind + (" + residual" if residual else "")),
        {"rows": rows, "C": width},
        wave,
        (make, tuple(range(1 + weights + residual)), peers, adapt(twin)),
        (forward * element, backward * element),
        (6 * rows * width, 11 * rows * width),
    )


def _torch_norm(kind: str, width: int) -> Function:
    if kind == "rms":
        return lambda x, w: torch.nn.functional.rms_norm(x, (width,), w, 1e-6)
    return lambda x, w, b: torch.nn.functional.layer_norm(x, (width,), w, b)


def _liger_norm(kind: str) -> Function:
    function = _liger("liger_rms_norm" if kind == "rms" else "liger_layer_norm")
    if kind == "rms":
        return lambda x, w: function(x, w, 1e-6)
    return lambda x, w, b: function(x, w, b, 1e-5)


def rope_cases(tiny: bool) -> list[Case]:
    """RoPE of (B, H, T, D) as it comes from a projection: heads behind tokens in memory."""
    sizes = [(1, 2, 9, 16, 0)] if tiny else [(4, 32, 4096, 128, 0), (4, 32, 4096, 64, 1)]
    return [
        _rope(sizes_and_wave[:4], interleaved, sizes_and_wave[4], tiny)
        for sizes_and_wave in sizes
        for interleaved in (False, True)
    ]


def _rope(size: tuple[int, ...], interleaved: bool, wave: int, tiny: bool) -> Case:
    batch, heads, tokens, width = size
    table = [t.to(_device(tiny)) for t in kernels.rope_table(tokens, width)]

    def make(seed: int) -> Tensors:
        (x,) = _random([(batch, tokens, heads, width)], seed, tiny)
        return (x.transpose(1, 2),)

    def run(function: Function) -> Function:
        return lambda x: function(x, *table, interleaved=interleaved)

    peers: Builders = {"attend": lambda: run(kernels.apply_rope)}
    if not tiny:
        peers["twin compiled"] = compiled(run(kernels.naive_rope))
        if not interleaved:
            peers["liger"] = lambda: _liger_rope(table)
    elements = batch * heads * tokens * width
    moved = 2 * elements * _dtype(tiny).itemsize
    return _case(
        ("rope", "interleaved" if interleaved else "halves"),
        {"B": batch, "H": heads, "T": tokens, "D": width},
        wave,
        (make, (0,), peers, run(kernels.naive_rope)),
        (moved, moved),
        (3 * elements, 3 * elements),
    )


def _liger_rope(table: list[torch.Tensor]) -> Function:
    """Liger turns queries and keys in one call, in place: the heads are shared out between them."""
    function = _liger("liger_rope")
    cos, sin = (torch.cat([t, t], dim=-1)[None].to(BF16) for t in table)

    def run(x: torch.Tensor) -> Tensors:
        return torch.cat(function(*x.chunk(2, dim=1), cos, sin), dim=1)  # pyright: ignore

    return run


def cross_entropy_cases(tiny: bool) -> list[Case]:
    """Cross-entropy over vocabularies of several models."""
    vocabularies = {130: 0} if tiny else {32_000: 0, 131_072: 0, 50_257: 1}
    return [_cross_entropy(v, wave, tiny) for v, wave in vocabularies.items()]


def _cross_entropy(vocabulary: int, wave: int, tiny: bool) -> Case:
    rows = 5 if tiny else 8192
    checked = min(rows, 64)  # rows whose gradient is compared with the oracle: in float64 they are large

    def make(seed: int) -> Tensors:
        (logits,) = _random([(rows, vocabulary)], seed, tiny)
        generator = torch.Generator(logits.device).manual_seed(seed)
        shape = (rows,)
        targets = torch.randint(
            vocabulary, shape, generator=generator, device=logits.device, dtype=torch.int64
        )
        return logits, targets

    def oracle(inputs: Tensors, grads: Tensors) -> Answer:
        logits, targets = inputs
        with torch.no_grad():
            losses = [
                kernels.naive_cross_entropy(some.double(), those, reduction="sum")
                for some, those in zip(logits.split(512), targets.split(512), strict=True)
            ]
        leaf = logits.detach()[:checked].double().requires_grad_()
        loss = kernels.naive_cross_entropy(leaf, targets[:checked], reduction="sum") / rows
        (gradient,) = torch.autograd.grad(loss, leaf, grads[0].to(loss.dtype))
        return Answer((torch.stack(losses).sum() / rows,), (gradient,))

    peers: Builders = {"attend": lambda: kernels.cross_entropy}
    if not tiny:
        peers["twin compiled"] = compiled(kernels.naive_cross_entropy)
        peers["torch"] = lambda: torch.nn.functional.cross_entropy
        peers["liger"] = lambda: _liger("liger_cross_entropy")
    element = rows * vocabulary * _dtype(tiny).itemsize
    flops = {"forward": 4.0 * rows * vocabulary, "both": 8.0 * rows * vocabulary}
    return Case(
        family="cross_entropy",
        name="mean",
        size={"rows": rows, "V": vocabulary},
        wave=wave,
        make=make,
        learn=(0,),
        peers=peers,
        oracle=oracle,
        # A backward pass alone is not timed: here and in Liger its work is done by the forward.
        flops=flops,
        bytes={"forward": element, "both": 2 * element},
        part=lambda a: Answer(a.outputs, tuple(g[:checked] for g in a.gradients)),
    )


def softmax_cases(tiny: bool) -> list[Case]:
    """Row softmax."""
    sizes = {33: 0} if tiny else {4096: 1, 32_768: 2}
    made = []
    for width, wave in sizes.items():
        rows = 5 if tiny else 2**26 // width

        def make(seed: int, rows: int = rows, width: int = width) -> Tensors:
            return _random([(rows, width)], seed, tiny)

        peers: Builders = {"attend": lambda: kernels.fused_softmax}
        if not tiny:
            peers["twin compiled"] = compiled(kernels.naive_softmax)
            peers["torch"] = lambda: lambda x: torch.softmax(x, dim=-1)
        element = rows * width * _dtype(tiny).itemsize
        made.append(
            _case(
                ("softmax", "rows"),
                {"rows": rows, "S": width},
                wave,
                (make, (0,), peers, kernels.naive_softmax),
                (2 * element, 3 * element),
                (4 * rows * width, 4 * rows * width),
            )
        )
    return made


Parts = tuple[Callable[[int], Tensors], tuple[int, ...], Builders, Function]


def _case(
    title: tuple[str, str],
    size: Mapping[str, int | str],
    wave: int,
    parts: Parts,
    moved: tuple[float, float],
    flops: tuple[float, float],
) -> Case:
    make, learn, peers, twin = parts
    return Case(
        family=title[0],
        name=title[1],
        size=size,
        wave=wave,
        make=make,
        learn=learn,
        peers=peers,
        oracle=in_float64(twin, learn),
        flops={"forward": flops[0], "backward": flops[1], "both": sum(flops)},
        bytes={"forward": moved[0], "backward": moved[1], "both": sum(moved)},
    )


def _liger(name: str) -> Function:
    try:
        from liger_kernel.transformers import (  # pyright: ignore[reportMissingImports]  # optional
            functional,
        )
    except ImportError as error:
        raise AbsentError(f"Liger cannot be imported: {error}") from error
    return getattr(functional, name)


def _device(tiny: bool) -> str:
    return "cpu" if tiny else "cuda"


def _dtype(tiny: bool) -> torch.dtype:
    return torch.float32 if tiny else BF16


def _random(shapes: list[tuple[int, ...]], seed: int, tiny: bool) -> Tensors:
    generator = torch.Generator(_device(tiny)).manual_seed(seed)
    return tuple(
        torch.randn(shape, generator=generator, device=_device(tiny)).to(_dtype(tiny))
        for shape in shapes
    )
