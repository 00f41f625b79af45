"""Inputs of the decode tests, and the function that holds the kernels to their twin on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from attend_kernels import decode_attention, naive_decode_attention, quantise_cache

from .numerics import assert_right, poisoned, shake

LENGTHS = (0, 1, 17, 64, 97)
POISON = float("nan")


@dataclass(frozen=True)
class Case:
    """Shapes, dtypes, cache and options of one call."""

    lengths: tuple[int, ...] = LENGTHS
    H: int = 4
    G: int = 2
    D: int = 32
    T: int = 0  # 0: q has no axis T
    dtype: torch.dtype = torch.float32
    page: int = 0  # tokens a page; 0: contiguous
    codes: torch.dtype | None = None
    per_head: bool = False
    window: int | None = None
    softcap: float | None = None
    splits: int | None = None

    def __str__(self) -> str:
        lengths = ",".join(map(str, self.lengths))
        text = f"S{lengths}-H{self.H}-G{self.G}-D{self.D}" + f"-T{self.T}" * (self.T > 0)
        text += f"-{str(self.dtype).removeprefix('torch.')}" + f"-page{self.page}" * (self.page > 0)
        if self.codes:
            text += f"-{str(self.codes).removeprefix('torch.')}" + "-per-head" * self.per_head
        text += f"-window{self.window}" * (self.window is not None)
        text += f"-cap{self.softcap}" * (self.softcap is not None)
        return text + f"-splits{self.splits}" * (self.splits is not None)

    def queries(self, device: str = "cpu", seed: int = 0) -> torch.Tensor:
        """Random queries."""
        shape = (len(self.lengths), self.H, *([self.T] if self.T else []), self.D)
        return draw(shape, seed).to(device, self.dtype)

    def keys_and_values(self, seed: int = 0) -> list[torch.Tensor]:
        """Random fp32 keys and values ``(B, G, S, D)``, NaN past each sequence's length."""
        shape = (len(self.lengths), self.G, max(self.lengths, default=0), self.D)
        found = [draw(shape, seed + 1), draw(shape, seed + 2)]
        for x in found:
            for sequence, length in enumerate(self.lengths):
                x[sequence, :, length:] = POISON
        return found

    def cache(self, device: str = "cpu", seed: int = 0) -> dict[str, Any]:
        """Cache arguments of both functions; what no sequence owns is NaN."""
        k, v = self.keys_and_values(seed)
        arguments: dict[str, Any] = {"lengths": torch.tensor(self.lengths, dtype=torch.int32)}
        if self.page:
            table = block_table(self.lengths, self.page, seed)
            k, v = (into_pages(x, self.lengths, table, self.page) for x in (k, v))
            arguments["block_table"] = table
        for name, x in (("k", k), ("v", v)):
            if self.codes is None:
                arguments[f"{name}_cache"] = x.to(self.dtype)
                continue
            head_axis = None if not self.per_head else 2 if self.page else 1
            known = x.nan_to_num() if self.per_head else x  # one scale for all: NaN would spread
            codes, scale = quantise_cache(known, self.codes, head_axis)
            arguments[f"{name}_cache"], arguments[f"{name}_scale"] = codes, scale
        return {name: x.to(device) for name, x in arguments.items()}

    def options(self) -> dict[str, Any]:
        """Options both functions take."""
        return {"window": self.window, "softcap": self.softcap}

    def but(self, **changes: Any) -> Case:
        """Return this case with some fields changed."""
        return replace(self, **changes)


def draw(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Random normal numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def block_table(lengths: tuple[int, ...], page: int, seed: int = 0) -> torch.Tensor:
    """Give every sequence its pages, in random order; entries it does not use hold nonsense."""
    counts = [-(-length // page) for length in lengths]
    generator = torch.Generator().manual_seed(seed)
    free = (1 + torch.randperm(sum(counts) + 2, generator=generator)).tolist()  # page 0: nobody's
    table = torch.full((len(lengths), max(counts, default=0)), -7, dtype=torch.int32)
    for sequence, count in enumerate(counts):
        for number in range(count):
            table[sequence, number] = free.pop()
    return table


def into_pages(
    x: torch.Tensor, lengths: tuple[int, ...], table: torch.Tensor, page: int
) -> torch.Tensor:
    """Move ``(B, G, S, D)`` into pages ``(pages, page, G, D)``; NaN where no token lies."""
    pages = torch.full((table.numel() + 3, page, x.shape[1], x.shape[3]), POISON)
    for sequence, length in enumerate(lengths):
        for s in range(length):
            pages[table[sequence, s // page], s % page] = x[sequence, :, s]
    return pages


def run(case: Case, device: str = "cpu", seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """O and LSE of the kernels, their outputs poisoned beforehand."""
    q, cache = case.queries(device, seed), case.cache(device, seed)
    with poisoned():
        return decode_attention(q, **cache, **case.options(), splits=case.splits, return_lse=True)


def shaken_cache(cache: dict[str, Any]) -> dict[str, Any]:
    """The cache with its keys and values in float64, moved by ``shake``; codes stay."""
    return {
        name: shake(x, n) if name in ("k_cache", "v_cache") else x
        for n, (name, x) in enumerate(cache.items())
    }


def check(
    case: Case, device: str = "cpu", seed: int = 0, tolerance: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Assert that the kernels are right on ``case``; return O and LSE."""
    output, lse = run(case, device, seed)
    q, cache = case.queries(device, seed), case.cache(device, seed)
    oracle = naive_decode_attention(q.double(), **cache, **case.options())
    moved = (None, None)
    if case.dtype == torch.float32:
        moved = naive_decode_attention(shake(q), **shaken_cache(cache), **case.options())
    assert output.dtype == case.dtype
    assert lse.dtype == torch.float32
    assert_right(output, oracle[0], case.dtype, moved[0], tolerance=tolerance)
    assert_right(lse, oracle[1], torch.float32, moved[1], what="LSE", tolerance=tolerance)
    return output, lse
