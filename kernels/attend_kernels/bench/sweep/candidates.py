"""Places of the tables, and the tiles that might be better there than those chosen without a GPU.

Most were ruled out because they spill a few bytes, which the page of compiled code now tells from
spills inside a loop. Numbers are the fields of the family's tile: flash (queries, keys, warps,
stages, whether by descriptors, and in Gluon where it can run), decode (keys, warps, stages),
linear attention (columns, warps, stages), ssd (chunk, columns, warps, stages).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from attend_kernels.bench import attention, decoding, linear, ssd
from attend_kernels.bench.case import Case
from attend_kernels.bench.sweep.within import Place, Values, made, shipped, within
from attend_kernels.common import fallback

OURS = "attend"
SLOW_TO_START = ("flex", "twin compiled")  # peers that take longer to compile than all the tiles


@dataclass(frozen=True)
class Sweep:
    """One place, its candidates, and the cases they are timed at."""

    place: Place
    direction: str
    tiles: tuple[Values, ...]
    cases: tuple[Case, ...]

    def with_candidates(self) -> Iterator[Case]:
        """Give the cases with every candidate as a peer of the shipped tile."""
        for case in self.cases:
            peers = {name: p for name, p in case.peers.items() if name not in SLOW_TO_START}
            function = peers[OURS]()
            for values in self.others():
                tile = made(self.place, values)
                if not runs(tile):
                    continue
                peers[name_of(values)] = partial(within, self.place, tile, function)
            yield replace(case, peers=peers, bytes={self.direction: case.bytes[self.direction]})

    def others(self) -> list[Values]:
        """List the candidates that are not what is shipped."""
        return [values for values in self.tiles if made(self.place, values) != shipped(self.place)]


def runs(tile: Any) -> bool:
    """Tell whether a tile is timed as what it says. Interpreted, it is checked only."""
    if not getattr(tile, "gluon", False) or fallback.interpreted():
        return True
    from attend_kernels.ops.flash.forward import can_gluon  # needs Triton

    return can_gluon(torch.device("cuda", torch.cuda.current_device()))


def name_of(values: Values) -> str:
    """Name a candidate among the peers."""
    return f"tile {' '.join(str(int(n)) for n in values)}"


FORWARD: dict[int, tuple[Values, ...]] = {
    128: (
        (128, 128, 8, 3, True), (128, 128, 8, 3), (128, 128, 8, 2, True), (128, 64, 8, 3, True),
        (128, 64, 8, 4), (64, 64, 4, 3), (64, 128, 4, 2), (128, 128, 8, 2, True, True),
    ),
    64: (
        (128, 64, 4, 3, True), (128, 64, 4, 3), (128, 128, 8, 3, True), (128, 128, 8, 2),
        (64, 128, 4, 3), (64, 64, 4, 4), (256, 64, 8, 3), (128, 128, 8, 3, True, True),
        (128, 128, 8, 2, True, True),
    ),
}  # fmt: skip
BACKWARD: dict[tuple[str, int], tuple[Values, ...]] = {
    ("keys", 128): ((64, 64, 8, 2), (32, 128, 8, 2), (64, 128, 8, 3)),
    ("keys", 64): ((64, 64, 4, 3), (128, 128, 8, 2), (64, 128, 8, 2)),
    ("queries", 128): (
        (128, 64, 8, 3, True),
        (128, 128, 8, 2, True),
        (128, 128, 8, 1),
        (64, 64, 4, 3),
    ),
    ("queries", 64): ((128, 64, 8, 3, True), (128, 128, 8, 2), (64, 64, 4, 3), (128, 64, 4, 3)),
    ("atomic", 128): ((64, 128, 8, 2), (64, 64, 8, 2)),
    ("atomic", 64): ((64, 64, 4, 3), (128, 64, 8, 2)),
}
DECODE: dict[str, tuple[Values, ...]] = {
    "half": ((64, 2, 3), (32, 1, 4), (32, 2, 4), (64, 4, 4), (128, 4, 2)),
    "byte": ((128, 4, 3), (128, 8, 3), (64, 2, 3), (64, 4, 4), (32, 1, 4)),
}
RETNET: tuple[Values, ...] = ((64, 4, 2), (64, 8, 1), (64, 8, 2), (128, 8, 1), (128, 8, 2))
SSD: tuple[Values, ...] = ((64, 64, 4, 2), (64, 64, 8, 2), (64, 64, 8, 3), (128, 32, 8, 2))


def sweeps(dry: bool) -> list[Sweep]:
    """All of them, those that promise most first; ``dry``: with tiny cases for the interpreter."""
    found: list[Sweep] = []
    for width, tiles in FORWARD.items():
        for causal in (True, False):
            place = ("flash", 90, "forward", "half", width, "causal" if causal else "full")
            found.append(Sweep(place, "forward", tiles, _attention(width, causal, dry)))
    kinds = {"byte": ("int8", "fp8"), "half": ("contiguous", "paged")}
    for kind, caches in kinds.items():
        cases = tuple(case for cache in caches for case in _decoding(cache, dry))
        found.append(Sweep(("decode", 90, kind, 128), "forward", DECODE[kind], cases))
    retnet = ("linear_attention", 90, "fading", "half", 128)
    found.append(Sweep(retnet, "forward", RETNET, _linear(dry)))
    found.append(Sweep(("ssd", 90, "half", False, 128, "forward"), "forward", SSD, _ssd(dry)))
    for (kernel, width), tiles in BACKWARD.items():
        for causal in (True, False):
            place = ("flash", 90, kernel, "half", width, "causal" if causal else "full")
            cases = _attention(width, causal, dry, deterministic=kernel != "atomic")
            found.append(Sweep(place, "backward", tiles, cases))
    return found


TINY: dict[str, Any] = {"batch": 1, "dtype": torch.float16, "device": "cpu"}


def _attention(width: int, causal: bool, dry: bool, deterministic: bool = True) -> tuple[Case, ...]:
    heads = attention.CHANNELS // width
    lengths = (70,) if dry else (4096, 16_384)
    found = []
    for length in lengths:
        setting = attention.Setting(attention.TOKENS // length, heads, length, width, causal)
        if dry:
            setting = replace(setting, heads=1, **TINY)
        function = partial(attention.ours(setting), deterministic=deterministic)
        peers = {} if dry else attention.peers_of(setting)
        case = attention.case_of(setting, 0, {**peers, **_built({OURS: function})})
        found.append(case if deterministic else replace(case, name=f"{case.name}, atomic"))
    return tuple(found)


def _built(functions: dict[str, Any]) -> dict[str, Any]:
    """Functions as the peers that build them."""
    return {name: (lambda function=function: function) for name, function in functions.items()}


def _decoding(cache: str, dry: bool) -> list[Case]:
    if not dry:
        return [
            case
            for case in decoding.cases(tiny=False)
            if case.name == cache and case.size["D"] == 128 and case.size["B"] != 1
        ]
    setting = decoding.Setting(heads=2, groups=1, keys=48, width=128, cache=cache, **TINY)
    return [decoding.case_of(setting, 0, _built({OURS: decoding.ours(setting)}))]


def _linear(dry: bool) -> tuple[Case, ...]:
    if dry:
        setting = linear.Setting("retnet", length=70, heads=1, width=128, **TINY)
        return (linear.case_of(setting, 0, _built({OURS: linear.ours(setting)})),)
    return tuple(
        case for case in linear.cases(tiny=False) if (case.name, case.size["D"]) == ("retnet", 128)
    )


def _ssd(dry: bool) -> tuple[Case, ...]:
    if dry:
        setting = ssd.Setting(length=70, heads=1, groups=1, width=64, states=128, **TINY)
        return (ssd.case_of(setting, 0, _built({OURS: ssd.ours()})),)
    return tuple(
        case
        for case in ssd.cases(tiny=False)
        if (case.size["N"], case.wave) in ((128, 0), (128, 1))
    )
