"""What linear attention says of arguments that do not fit: what it is, and what to do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attend_kernels import ShapeError, linear_attention, linear_attention_step


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


GOOD: dict[str, Any] = {"q": zeros(2, 3, 5, 16), "k": zeros(2, 3, 5, 16), "v": zeros(2, 3, 5, 8)}
WRONG: dict[str, tuple[type[Exception], str, dict[str, Any]]] = {
    "three-axes": (ShapeError, r"q has 3 axes; expected 4 \(B H T D\)", {"q": zeros(3, 5, 16)}),
    "time-first": (ShapeError, "k has the wrong shape.*swapped", {"k": zeros(2, 5, 3, 16)}),
    "key-width": (ShapeError, "k has the wrong shape.*D=16", {"k": zeros(2, 3, 5, 8)}),
    "lengths": (ShapeError, "v has the wrong shape.*T=5", {"v": zeros(2, 3, 4, 8)}),
    "state": (
        ShapeError,
        "initial_state has the wrong shape.*swapped",
        {"initial_state": zeros(2, 3, 8, 16)},
    ),
    "state-kind": (
        TypeError,
        r"initial_state of torch.int64. Next: initial_state\.float\(\)",
        {"initial_state": zeros(2, 3, 16, 8, dtype=torch.int64)},
    ),
    "decay-a-step": (ShapeError, "decay has 3 axes; expected 1", {"decay": zeros(2, 3, 5)}),
    "gate-heads-last": (ShapeError, "gate has the wrong.*swapped", {"gate": zeros(2, 5, 3)}),
    "gate-of-values": (
        ShapeError,
        "gate has the wrong shape.*D=16",
        {"gate": zeros(2, 3, 5, 8)},
    ),
    "gate-a-head": (ShapeError, r"gate has 1 axis; expected 3 \(B H T\)", {"gate": zeros(3)}),
    "decay-and-gate": (
        ValueError,
        r"expected decay or gate, got both. Next: gate \+ decay\[:, None\]",
        {"decay": zeros(3), "gate": zeros(2, 3, 5)},
    ),
    "gates-as-integers": (
        TypeError,
        r"gates are logarithms.*got torch.int64.*torch\.log\(gamma\)",
        {"decay": zeros(3, dtype=torch.int64)},
    ),
    "sigmoids": (
        ValueError,
        "0 or less; got 0.5. Likely cause: the sigmoid itself.*logsigmoid",
        {"gate": zeros(2, 3, 5, 16) + 0.5},
    ),
    "beta-and-gates": (
        ValueError,
        r"expected beta beside a gate a step, got.*of shape \(2, 3, 5, 16\).*Next: a gate of "
        r"\(B, H, T\), a decay a head, or naive_linear_attention, which has both",
        {"beta": zeros(2, 3, 5), "gate": zeros(2, 3, 5, 16)},
    ),
    "beta-a-head": (ShapeError, "beta has 1 axis; expected 3", {"beta": zeros(3)}),
    "beta-as-integers": (
        TypeError,
        r"got torch.bool. Next: torch\.sigmoid",
        {"beta": zeros(2, 3, 5, dtype=torch.bool)},
    ),
    "too-wide": (
        ValueError,
        "heads are D=300 wide; expected 1 to 256.*takes any width",
        {"q": zeros(2, 3, 5, 300), "k": zeros(2, 3, 5, 300)},
    ),
    "values-too-wide": (ValueError, "heads are D_v=512 wide", {"v": zeros(2, 3, 5, 512)}),
    "dtypes-differ": (TypeError, r"must have one dtype.*k\.to\(q\.dtype\)",
                      {"k": GOOD["k"].half()}),
    "float64": (
        TypeError,
        "got torch.float64.*naive_linear_attention",
        {name: x.double() for name, x in GOOD.items()},
    ),
    "chunk": (ValueError, "16, 32 or 64 steps.*got 48", {"chunk": 48}),
    "devices": (ValueError, "one device, got cpu and meta", {"gate": zeros(2, 3, 5).to("meta")}),
}  # fmt: skip


@pytest.mark.parametrize(("error", "message", "changes"), WRONG.values(), ids=WRONG)
def test_errors_say_what_was_expected_and_what_to_do(
    error: type[Exception], message: str, changes: dict[str, Any]
):
    with pytest.raises(error, match=f"linear_attention: .*{message}|{message}"):
        linear_attention(**GOOD | changes)


def test_a_steps_errors_are_its_own():
    now = {name: x[:, :, 0] for name, x in GOOD.items()} | {"state": zeros(2, 3, 16, 8)}
    with pytest.raises(ShapeError, match=r"q has 4 axes; expected 3 \(B H D\)"):
        linear_attention_step(**GOOD, state=now["state"])
    with pytest.raises(ShapeError, match="state has the wrong shape"):
        linear_attention_step(**now | {"state": zeros(2, 3, 8, 16)})
    with pytest.raises(ShapeError, match=r"gate has 1 axis; expected 2 \(B H\)"):
        linear_attention_step(**now, gate=zeros(3))
    now["beta"] = zeros(2, 3).requires_grad_()  # with a gradient, by the chunks' kernels
    with pytest.raises(ValueError, match=r"linear_attention_step: expected beta.*torch\.no_grad"):
        linear_attention_step(**now, gate=zeros(2, 3, 16))
