"""What a round of a kernel's hottest loop costs a multiprocessor of sm_90, read from its code.

"No register spilled" says little about speed: a tile that spills 8 bytes outside its loops may need
a third fewer instructions than one that does not. So here are counted, for one round of the
innermost loop that has the products, by what each unit of a multiprocessor can do a clock:

* issue: its four schedulers issue an instruction of a warp each;
* special: 16 exponentials, logarithms or reciprocals;
* tensor: 4,096 operations of bf16 products (8,192 in 8 bits, 2,048 in tf32) by ``HGMMA``; those of
  ``HMMA``, one warp's, reach about 0.63 of that (Luo et al. 2024, "Benchmarking and dissecting the
  Nvidia Hopper GPU architecture", table 9);
* shared: 128 bytes of shared memory: factors that ``HGMMA`` reads there, copies, exchanges; what
  the copy engine writes for a tensor descriptor is not in it, nor in the bytes loaded.

These are clocks if nothing ever waits. Units work side by side where there is something for them to
do: two programs a multiprocessor, or the warps of one that are not all at the same place. So a
round takes the largest of the four at least, and about their sum where nothing overlaps. What is
left out: waits for memory, barriers, how far a clock goes down under load. It ranks tiles until
they have been timed; it is no prediction of a time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SCHEDULERS, SPECIAL, SHARED = 4, 16, 128  # a multiprocessor's, a clock: warps, numbers, bytes
HMMA_SHARE = 0.63
WARP = 32
# nvdisasm: "        /*1b30*/   @!P0 HGMMA.64x64x16.F32.BF16 R88, gdesc[UR12], R88 ;"
LINE = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)(.*)")
LABEL = re.compile(r"^(\.L\w+):")
TARGET = re.compile(r"`\((\.L\w+)\)")
WGMMA = re.compile(r"[HIQ]GMMA\.64x(\d+)x")  # of four warps; whatever the dtype, 32 bytes deep
MMA = re.compile(r"([HI])MMA\.168(\d+)(\S*)")  # of one, 16 × 8, so many numbers deep


@dataclass(frozen=True)
class Loop:
    """One round of a loop, in what a warp does: instructions, and clocks or bytes of the units."""

    instructions: int
    special: int  # instructions of the special-function unit
    tensor: float  # clocks, of all tensor cores of a multiprocessor
    shared: int  # bytes read from and written to shared memory
    loaded: int  # bytes from global memory
    spills: int  # loads and stores of spilled registers

    def clocks(self, warps: int) -> dict[str, int]:
        """Clocks of a multiprocessor for a round of a program of so many warps, by unit."""
        return {
            "issue": round(self.instructions * warps / SCHEDULERS),
            "special": round(self.special * WARP * warps / SPECIAL),
            "tensor": round(self.tensor * warps),
            "shared": round(self.shared * warps / SHARED),
        }


def hottest(listing: str) -> Loop | None:
    """Find the loop that runs most: innermost, with the most products, then the shortest.

    Of a causal kernel's two loops the one over full tiles is the shorter. None where no loop has a
    product.
    """
    code, labels, backward = _read(listing)
    spans = [(labels[label], at) for at, label in backward if labels.get(label, at + 1) <= at]
    inner = [
        (first, last)
        for first, last in spans
        if not any(
            first <= begin and end <= last and (begin, end) != (first, last) for begin, end in spans
        )
    ]
    found = [_count(code[first : last + 1]) for first, last in inner]
    with_products = [loop for loop in found if loop.tensor]
    return max(with_products, key=lambda x: (x.tensor, -x.instructions), default=None)


Instruction = tuple[str, str]  # name, operands


def _read(
    listing: str,
) -> tuple[list[Instruction], dict[str, int], list[tuple[int, str]]]:
    """Instructions in order; where each label stands; and the branches with their labels."""
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    branches: list[tuple[int, str]] = []
    for line in listing.splitlines():
        if label := LABEL.match(line):
            labels[label[1]] = len(code)
        elif found := LINE.match(line):
            if found[1].startswith("BRA") and (target := TARGET.search(found[2])):
                branches.append((len(code), target[1]))
            code.append((found[1], found[2]))
    return code, labels, branches


def _count(code: list[Instruction]) -> Loop:
    tensor, shared, loaded, special, spills = 0.0, 0, 0, 0, 0
    for name, operands in code:
        width = WARP * (16 if ".128" in name else 8 if ".64" in name else 4)
        if size := WGMMA.match(name):
            columns = int(size[1])
            rows = 64 if operands.split(",")[1].strip().startswith("gdesc") else 0
            shared += 32 * (columns + rows) // 4  # a quarter of it is a warp's
            tensor += columns / 2 / 4
        elif size := MMA.match(name):
            bits = 8 if size[1] == "I" else 32 if "TF32" in size[3] else 16
            tensor += int(size[2]) * bits / 256 / HMMA_SHARE
        elif name.startswith(("LDSM", "STSM")):
            shared += 128 * int(name[-1])  # 8 × 8 matrices of 16 bits
        elif name.startswith(("LDS", "STS")):
            shared += width
        elif name.startswith(("LDG", "LDGSTS")):
            loaded += width
            shared += width if name.startswith("LDGSTS") else 0
        special += name.startswith("MUFU")
        spills += name.startswith(("LDL", "STL"))
    return Loop(len(code), special, round(tensor, 3), shared, loaded, spills)
