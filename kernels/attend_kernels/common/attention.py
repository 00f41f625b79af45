"""Arguments that every kind of softmax attention takes: heads, windows, scale and soft cap."""

from __future__ import annotations

import math

import torch

from attend_kernels.common.arguments import assert_dtype, assert_one_device, assert_width
from attend_kernels.common.shapes import assert_shape

TWINS = {
    "flash_attention": "naive_attention",
    "flash_attention_varlen": "naive_attention_varlen",
    "decode_attention": "naive_decode_attention",
    "block_sparse_attention": "naive_block_sparse_attention",
}
Window = int | tuple[int | None, int | None] | None


def reach(causal: bool, window: Window) -> tuple[int | None, int | None]:
    """How far a query sees: keys before and after its own, None (or -1) for no limit."""
    sides = tuple(window) if isinstance(window, tuple | list) else (window, window)
    whole = (int, torch.SymInt, type(None))  # SymInt: an int that torch.compile has not fixed
    if len(sides) != 2 or not all(isinstance(keys, whole) for keys in sides):
        raise TypeError(
            f"window must be a whole number of keys, or two, (left, right), got {window!r}. "
            f"Next: window=256 for 256 keys back, window=(256, None) for any number ahead."
        )
    left, right = (None if keys == -1 else keys for keys in sides)  # -1: as flash_attn has it
    for side, keys in (("left", left), ("right", right)):
        if keys is not None and keys < 0:
            raise ValueError(
                f"the window's {side} side must be 0 or more keys, got {keys}. "
                f"Next: None for no limit, 0 to see the query's own position alone."
            )
    return left, 0 if causal else right


def check(
    function: str,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    alibi: torch.Tensor | None,
    sizes: dict[str, int],
    softcap: float | None,
    scale: float | None,
) -> None:
    """Refuse what no kernel can compute, and say what comes nearest."""
    H, G, D = sizes["H"], sizes["G"], sizes["D"]  # noqa: N806
    twin = TWINS[function]
    if G == 0 or H % G:
        near = [g for g in range(1, H + 1) if H % g == 0]
        # Then the other axis divides as heads do: (B, T, H, D), as some libraries have it.
        exchanged = function == "flash_attention" and sizes["S"] and sizes["T"] % sizes["S"] == 0
        raise ValueError(
            f"{function}: q has {H} heads, k and v have {G}; expected a divisor of {H}, so that "
            f"each key/value head serves as many query heads. "
            + (
                "Likely cause: heads and time are exchanged. Next: the other of layout='bhtd' and "
                "'bthd', or "
                if exchanged
                else "Next: "
            )
            + f"{_or(near)} key/value heads."
        )
    for letter in ("D", "E"):  # E: the values' width, where that may differ
        assert_width(function, twin, letter.replace("E", "D_v"), sizes.get(letter, D))
    assert_dtype(function, twin, q=q, k=k, v=v)
    if alibi is not None:
        assert_shape(alibi, "H", sizes, name="alibi")
        if alibi.requires_grad and torch.is_grad_enabled():
            raise ValueError(
                f"{function}: ALiBi's slopes are constants here and get no gradient. "
                f"Next: alibi.detach(), or {twin} to train them."
            )
    assert_one_device(function, q, k, v, alibi)
    for name, value in (("scale", scale), ("softcap", softcap)):
        if value is not None and not 0.0 < value < math.inf:
            raise ValueError(
                f"{function}: {name} must be a positive number, got {value}. Next: leave it out"
                + (" for 1 / sqrt(D)." if name == "scale" else ": None is no cap.")
            )


def _or(numbers: list[int]) -> str:
    texts = [str(n) for n in numbers]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"
