"""When a kernel's answer is right: the error that is allowed, and how it is measured.

The oracle is the naive twin in float64 on the very inputs the kernel gets. The error is the
relative norm ‖got - want‖ / ‖want‖; NaN and infinity count as infinitely wrong.

Two limits, both of which hold:

* ``TOLERANCE``, by dtype. Storing a result rounds it by half a unit in the last place (fp16 2⁻¹¹,
  bf16 2⁻⁸ at worst); the tiles of P and dX are rounded so too before they are multiplied, which
  gives a few roundings in all. fp32 (ieee) adds up a few hundred terms at 2⁻²⁴ each; tf32 keeps 10
  bits of each factor.
* ``TIMES_PLAIN`` times the error of the same formula in plain PyTorch at the same dtype: a kernel
  may not be worse than what it replaces. Below ``NOISE`` that ratio is chance, and so it is of
  fewer than ``FEW`` numbers, as sums over all of time are: one draw of either error says little.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
TF32_TOLERANCE = 1e-3
TIMES_PLAIN = 2.0
FEW = 16
NOISE = {torch.float32: 1e-6, torch.float16: 5e-4, torch.bfloat16: 4e-3}  # one rounding, about


def relative_error(
    got: torch.Tensor | None, want: torch.Tensor | None, floor: float = 0.0
) -> float:
    """‖got - want‖ / max(‖want‖, floor), in float64.

    ``floor`` is for answers that are 0 but for rounding, as a gradient through one lone weight.
    """
    assert got is not None
    assert want is not None
    assert got.shape == want.shape, (got.shape, want.shape)
    assert want.dtype == torch.float64, "the oracle must be float64"
    got, want = got.detach().double(), want.detach()
    same_infinity = got.isinf() & (got == want)  # the LSE of an empty row is -inf, rightly
    difference = torch.where(same_infinity, 0.0, got - want)
    error = float(difference.norm() / max(float(want[~want.isinf()].norm()), floor, 1e-30))
    return error if math.isfinite(error) else math.inf


def assert_right(
    got: torch.Tensor | None,
    want: torch.Tensor | None,
    dtype: torch.dtype,
    plain: torch.Tensor | None = None,
    floor: float = 0.0,
    what: str = "output",
    tolerance: float | None = None,
) -> None:
    """Hold ``got`` to both limits; to the first alone where ``plain`` is not given."""
    error = relative_error(got, want, floor)
    limit = TOLERANCE[dtype] if tolerance is None else tolerance
    assert error < limit, f"{what}: error {error:.2e}, limit {limit:.0e}"
    if plain is not None and want is not None and want.numel() >= FEW:
        usual = relative_error(plain, want, floor)
        allowed = max(TIMES_PLAIN * usual, NOISE[dtype])
        assert error <= allowed, f"{what}: error {error:.2e}, plain PyTorch {usual:.2e}"


@contextmanager
def poisoned() -> Iterator[None]:
    """Fill what ``torch.empty`` and its kin return with NaN: unwritten elements then show."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
