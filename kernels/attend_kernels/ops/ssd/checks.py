"""What ``ssd`` and ``ssd_step`` refuse, and what they say to it."""

# ruff: noqa: N803, N806  # the paper's letters are capitals

from __future__ import annotations

import torch

from attend_kernels.common.arguments import assert_dtype
from attend_kernels.common.packing import check_starts
from attend_kernels.common.shapes import ShapeError, assert_shape

MOST_STATES = 256  # N: a state any wider leaves no room for a chunk in the registers
PATTERNS = {
    "x": "B T H P",
    "dt": "B T H",
    "A": "H",
    "B": "B T G N",
    "C": "B T G N",
    "D": "H",
    "dt_bias": "H",
    "initial_state": "B H P N",
}


def split_groups(name: str, m: torch.Tensor, groups: int | None) -> torch.Tensor:
    """``(B, T, groups N)`` as ``(B, T, groups, N)``; what has four axes already must have these."""
    if groups is None and m.dim() == 3:
        raise ShapeError(
            f"ssd: {name} must be (B, T, G, N), or with groups (B, T, G N); got {tuple(m.shape)}. "
            f"Likely cause: {name} as the projection makes it. Next: groups=1, or however many it "
            f"was made with."
        )
    if groups is None:
        return m
    if m.dim() == 3 and groups > 0 and m.shape[-1] % groups == 0:
        return m.unflatten(-1, (groups, -1))
    if m.dim() == 4 and m.shape[2] == groups:
        return m
    raise ShapeError(
        f"ssd: with groups={groups}, {name} must be (B, T, {groups}, N) or (B, T, {groups} N); got "
        f"{tuple(m.shape)}. Next: leave groups out, or give the number {name} was made with."
    )


def check(
    function: str,
    tensors: dict[str, torch.Tensor | None],
    patterns: dict[str, str],
    cu_seqlens: torch.Tensor | None = None,
) -> None:
    """Refuse what no kernel can compute, and say what comes nearest."""
    given = {name: m for name, m in tensors.items() if m is not None}
    x = given["x"]
    sizes: dict[str, int] = {}
    if cu_seqlens is not None:
        sizes["S"] = assert_shape(cu_seqlens, "sequences+1", name="cu_seqlens")["sequences+1"] - 1
    for name, m in given.items():
        sizes = assert_shape(m, patterns[name], sizes, name=name)
        if not m.is_floating_point():
            raise TypeError(
                f"{function}: expected real floating-point numbers, got {name} of {m.dtype}. "
                f"Next: {name}.{'real' if m.is_complex() else 'float()'}."
            )
        if m.device != x.device:
            raise ValueError(
                f"{function}: all tensors must be on one device, got x on {x.device} and {name} on "
                f"{m.device}. Likely cause: a state or parameter not moved. "
                f"Next: {name}.to(x.device)."
            )
    assert_dtype(function, "naive_ssd_chunked", x=x, B=given["B"], C=given["C"])
    H, G = sizes["H"], sizes["G"]
    if G == 0 or H % G:
        near = ", ".join(str(g) for g in range(1, H + 1) if H % g == 0)
        raise ValueError(
            f"{function}: x has H={H} heads, B and C have G={G} groups; expected a divisor of {H}, "
            f"so that each group serves as many heads. Next: one of {near} groups."
        )
    if not sizes["P"]:
        raise ValueError(
            f"{function}: heads are P=0 wide; expected 1 or more. Next: print x.shape."
        )
    if not 1 <= sizes["N"] <= MOST_STATES:
        raise ValueError(
            f"{function}: states are N={sizes['N']} wide; expected 1 to {MOST_STATES}, what a "
            f"GPU's registers hold. Next: naive_ssd_chunked, which takes any width."
        )
    if cu_seqlens is not None:
        if x.shape[0] != 1:
            raise ValueError(
                f"{function}: packed sequences lie one after another in one row, so B must be 1; "
                f"got B={x.shape[0]}. Next: x.flatten(0, 1)[None], likewise dt, B and C."
            )
        check_starts("cu_seqlens", cu_seqlens, x[0])


def check_values(function: str, dt: torch.Tensor, A: torch.Tensor) -> None:
    """Refuse growth; only on a CPU, for to look the CPU would have to wait for a GPU."""
    if dt.is_cuda or torch.compiler.is_compiling() or not dt.numel():
        return
    if bool((A > 0).any()):
        raise ValueError(
            f"{function}: A must be 0 or less, a rate of decay; got {float(A.max()):.3g}. Likely "
            f"cause: the parameter A_log passed as it is. Next: -torch.exp(A_log)."
        )
    if bool((dt < 0).any()):
        raise ValueError(
            f"{function}: step sizes must be 0 or more, got {float(dt.min()):.3g}. Likely "
            f"cause: dt as the projection makes it. Next: softplus=True."
        )
