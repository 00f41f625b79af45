"""When a kernel's answer is right: the error that is allowed, and how it is measured.

The oracle is the naive twin in float64 on the very inputs the kernel gets. The error is the
relative norm ‖got - want‖ / ‖want‖; NaN and infinity count as infinitely wrong.

Two limits, both of which must hold:

* ``TOLERANCE``, by dtype. Storing a result rounds it by half a unit in the last place (fp16 2⁻¹¹,
  bf16 2⁻⁸ at worst); the tiles of P and dX are rounded so too before they are multiplied, which
  gives a few roundings in all. fp32 (ieee) adds up a few hundred terms at 2⁻²⁴ each; tf32 keeps 10
  bits of each factor.
* In fp32, ``ROUNDINGS`` (s + 2⁻²⁴), where s is how far the float64 answer moves when each input
  moves by one unit in the last place of fp32, up or down at random. So s is what the problem itself
  makes of one rounding, and 2⁻²⁴ the rounding of the result. No processor and no other library has
  a part in it: the interpreter's products are those of NumPy's BLAS, which add up in another order
  on each kind of CPU. Over 1,455 results the errors were 0.9 (s + 2⁻²⁴) in the median, 3.5 at 99 %
  and 13.1 at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
TF32_TOLERANCE = 1e-3
ROUNDINGS = 16  # in all, of inputs, products, sums and the result


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
    shaken: torch.Tensor | None = None,
    floor: float = 0.0,
    what: str = "output",
    tolerance: float | None = None,
) -> None:
    """Assert both limits; the first alone where ``shaken`` is not given, or tf32 is asked for.

    ``shaken`` is the float64 answer to inputs moved by ``shake``.
    """
    error = relative_error(got, want, floor)
    limit = TOLERANCE[dtype] if tolerance is None else tolerance
    assert error < limit, f"{what}: error {error:.2e}, limit {limit:.0e}"
    if shaken is not None and dtype == torch.float32 and limit <= TOLERANCE[dtype]:
        moved = relative_error(shaken, want, floor)
        allowed = ROUNDINGS * (moved + 2.0**-24)
        assert error <= allowed, (
            f"{what}: error {error:.2e}, limit {allowed:.2e}: one rounding of the inputs moves the "
            f"answer by {moved:.2e}"
        )


def shake(x: torch.Tensor, seed: int = 0) -> torch.Tensor:
    """Move each number of an fp32 tensor by one unit in the last place, and return float64."""
    if x.dtype != torch.float32:
        return x.detach().double() if x.is_floating_point() else x
    up = torch.rand(x.shape, generator=torch.Generator().manual_seed(seed)).to(x.device) < 0.5
    x = x.detach()
    return torch.nextafter(x, torch.where(up, torch.inf, -torch.inf).to(x.dtype)).double()


def shaken(inputs: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    """``shake`` every tensor; each by directions of its own."""
    return {
        name: shake(x, seed + number) if isinstance(x, torch.Tensor) else x
        for number, (name, x) in enumerate(inputs.items())
    }


@contextmanager
def poisoned() -> Iterator[None]:
    """Fill what ``torch.empty`` and its kin return with NaN: unwritten elements then show."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
