"""One line of the tables: a launch as a tuned table has it, and what its code must satisfy."""

from __future__ import annotations

from dataclasses import dataclass, replace

from attend_kernels.compiled.compiler import SHARED_LIMIT, Compiled, Launch

# Kept of a compiled kernel's instructions: products, loads of 16 bytes a thread (into registers,
# and into shared memory while the program goes on), atomics, exchange between threads.
TENSOR = ("HGMMA", "HMMA", "IMMA")
WIDE = ("LDG.E.128", "LDGSTS.E.BYPASS.128")
ATOMIC = ("ATOM", "RED.", "REDG")
COUNTED = (*TENSOR, "FFMA", *WIDE, *ATOMIC, "SHFL", "BAR")

MOST_REGISTERS = 255  # a thread
REGISTERS = 65_536  # a multiprocessor's, of the A100 and the H200
SHARED_IN_ALL = {80: 167_936, 90: 233_472}  # a multiprocessor's, of the same
OUTSIDE = 256  # bytes a thread may spill outside the loop that runs most: a few clocks, once
RESERVED = 1024  # bytes of it that every program costs
MOST_WARPS, MOST_PROGRAMS = 64, 32  # a multiprocessor's


@dataclass(frozen=True)
class Case:
    """A launch, its names in the table, and its promises."""

    launch: Launch
    kernel: str
    dtype: str
    shape: str  # widths and options: "D 64, causal"
    blocks: str  # what a program handles at once: "128 × 64"
    product: str | None = None  # "HGMMA", "HMMA", "FFMA", or None where memory is the bound
    wide: bool = True  # loads 16 bytes a thread
    most_shared: int | None = None  # bytes, where not the architecture's limit
    programs: int = 1  # that a multiprocessor must have room for
    spills: int = 0  # bytes a thread at most
    without: tuple[str, ...] = ATOMIC  # instructions that must not be there
    model: bool = True  # say what its loop costs: of a family of many, one size

    @property
    def title(self) -> str:
        """Its name in the file of results."""
        return f"sm_{self.launch.architecture} {self.kernel}, {self.dtype}, {self.shape}"

    def faults(self, made: Compiled, slack: int = 0) -> list[str]:
        """Say what promise the code breaks; ``slack`` is bytes it may spill beside its own."""
        architecture, threads = self.launch.architecture, 32 * self.launch.warps
        tensor = {name: made.count(name) for name in TENSOR}
        room = SHARED_IN_ALL[architecture] // self.programs - RESERVED
        most_shared = self.most_shared or SHARED_LIMIT[architecture]
        wanted = self.product if self.product in TENSOR else None
        broken = {
            f"{made.registers} registers": not 0 < made.registers <= MOST_REGISTERS,
            f"spills {made.spilled} bytes": made.spilled > self._allowed(made) + slack,
            f"{made.shared:,} bytes of shared memory": made.shared > most_shared,
            "no load of 16 bytes": self.wide and not any(map(made.count, WIDE)),
            f"no {wanted}": wanted is not None and not tensor[wanted],
            f"tensor cores: {tensor}": wanted is None and any(tensor.values()),
            f"not {self.programs} programs a multiprocessor": (
                made.registers * threads * self.programs > REGISTERS or made.shared > room
            ),
        } | {f"has {name}": bool(made.count(name)) for name in self.without}
        return [f"{self.title}: {fault}" for fault, is_so in broken.items() if is_so]

    def _allowed(self, made: Compiled) -> int:
        """Bytes it may spill: more where none of them is touched in the loop that runs most."""
        harmless = made.loop is not None and not made.loop.spills
        return max(self.spills, OUTSIDE * harmless)

    @property
    def modelled(self) -> bool:
        """Whether the page says what its hottest loop costs: products on sm_90."""
        return self.model and self.launch.architecture == 90 and self.product in TENSOR

    def occupancy(self, made: Compiled) -> int:
        """Programs that a multiprocessor holds at once."""
        warps = self.launch.warps
        registers = -(-made.registers // 8) * 8 * 32 * warps  # given out by eights
        shared = SHARED_IN_ALL[self.launch.architecture] // (made.shared + RESERVED)
        return min(REGISTERS // max(registers, 1), shared, MOST_WARPS // warps, MOST_PROGRAMS)

    def modelled_row(self, made: Compiled) -> str | None:
        """Its line of the table of loops: see ``loop``."""
        if not self.modelled or made.loop is None:
            return None
        clocks = made.loop.clocks(self.launch.warps)
        busiest = max(clocks, key=lambda unit: clocks[unit])
        shares = [clocks["tensor"] / most for most in (sum(clocks.values()), clocks[busiest])]
        cells = [
            self.kernel,
            self.dtype,
            self.shape,
            self.blocks,
            self.launch.warps,
            self.occupancy(made),
            made.loop.instructions,
            *(f"{n:,}" for n in clocks.values()),
            f"{made.loop.loaded * self.launch.warps:,}",
            made.loop.spills,
            busiest,
            f"{shares[0]:.0%}–{shares[1]:.0%}",
        ]
        return f"| {' | '.join(map(str, cells))} |"

    def row(self, made: Compiled) -> str:
        """Its line of the Markdown table."""
        product = next((n for n in (*TENSOR, self.product) if n and made.count(n)), None)
        cells = [
            f"sm_{self.launch.architecture}",
            self.kernel,
            self.dtype,
            self.shape,
            self.blocks,
            self.launch.warps,
            self.launch.stages,
            made.registers,
            made.spilled,
            f"{made.shared:,}",
            f"{made.count(product)} {product}" if product else "none",
            sum(map(made.count, WIDE)),
        ]
        return f"| {' | '.join(map(str, cells))} |"


def kept(case: Case, made: Compiled) -> Compiled:
    """Leave of the instructions what ``COUNTED`` names, and the loop where the page shows it."""
    counts = {name: made.count(name) for name in COUNTED if made.count(name)}
    return replace(made, instructions=counts, loop=made.loop if case.modelled else None)


MODEL = (
    "kernel", "dtype", "shape", "blocks", "warps", "programs", "instructions", "issue", "special",
    "tensor", "shared", "bytes", "spills", "busiest", "tensor share",
)  # fmt: skip
COLUMNS = (
    "GPU", "kernel", "dtype", "shape", "blocks", "warps", "stages", "registers", "spilled",
    "shared", "products", "16-byte loads",
)  # fmt: skip
