"""RWKV-6 on linear attention's kernels: against its twin, in pieces, and in the other layout."""

from __future__ import annotations

from typing import Any

import attend_kernels
import pytest
import torch
from attend_kernels import ShapeError, naive_rwkv6

from .modules_cases import WAYS, choose, draw
from .numerics import assert_right, relative_error, shaken
from .recurrences import run, wide

rwkv6: Any = attend_kernels.rwkv6
rwkv6_step: Any = attend_kernels.rwkv6_step


def inputs(steps: int, heads: int = 2, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
    made = {name: draw(1, heads, steps, 5, seed=at) for at, name in enumerate("rkw")}
    made |= {"v": draw(1, heads, steps, 3, seed=5), "u": draw(heads, 5, seed=6)}
    made["w"] = -torch.exp(made["w"])
    made["initial_state"] = draw(1, heads, 5, 3, seed=7)
    return {name: x.to(dtype) for name, x in made.items()}


def fast(**given: Any) -> Any:
    return rwkv6(**given, output_state=True, chunk=16)


@pytest.mark.thin(keep=6)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("state", [False, True], ids=["fresh", "state"])
@pytest.mark.parametrize("steps", [1, 2, 16, 19, 40])
def test_outputs_and_gradients(steps: int, state: bool, way: str, monkeypatch: pytest.MonkeyPatch):
    choose(way, monkeypatch)
    given = inputs(steps, heads=1)
    if not state:
        del given["initial_state"]
    got = run(fast, given)
    want = run(naive_rwkv6, wide(given))
    moved = run(naive_rwkv6, shaken(given))
    for name, value in got.items():
        floor = 1e-2 * float(want["dk"].norm()) if name.startswith("d") else 0.0
        assert_right(value, want[name], torch.float32, moved[name], floor, name)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
def test_half_precision(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch):
    choose("twin", monkeypatch)
    given = inputs(19, dtype=dtype)
    y, state = fast(**given)
    want, want_state = naive_rwkv6(**wide(given))
    assert y.dtype == dtype
    assert_right(y, want, dtype)
    assert_right(state, want_state, dtype)


def test_pieces_steps_and_layout(monkeypatch: pytest.MonkeyPatch):
    choose("twin", monkeypatch)
    given = inputs(12)
    want, last = fast(**given)
    rows = {n: given[n] for n in "rkvw"}
    part = {n: x[:, :, :7].transpose(1, 2) for n, x in rows.items()}
    y, state = fast(**part, u=given["u"], initial_state=given["initial_state"], layout="bthd")
    pieces = [y.transpose(1, 2)]
    for t in range(7, 12):
        y, state = rwkv6_step(state, **{n: x[:, :, t] for n, x in rows.items()}, u=given["u"])
        pieces.append(y[:, :, None])
    assert relative_error(torch.cat(pieces, dim=2), want.double()) < 1e-5
    assert relative_error(state, last.double()) < 1e-5


def test_the_sum_it_stands_for():
    """y_t is (r_t · u k_t) v_t and every past v_i, weighed by r_t · k_i faded by w between."""
    r, k, w, v, u, _ = (
        x.double()[0, 0] if x.dim() == 4 else x[0].double() for x in inputs(6).values()
    )
    rows = []
    for t in range(6):
        row = (r[t] * u * k[t]).sum() * v[t]
        for i in range(t):
            row = row + (r[t] * k[i] * torch.exp(w[i + 1 : t].sum(0))).sum() * v[i]
        rows.append(row)
    given = {n: x.double() for n, x in inputs(6).items() if n != "initial_state"}
    got, _ = naive_rwkv6(**given)
    assert relative_error(got[0, 0], torch.stack(rows)) < 1e-12


def test_no_steps():
    given = inputs(0)
    y, state = naive_rwkv6(**given)
    assert y.shape == (1, 2, 0, 3)
    assert torch.equal(state, given["initial_state"])


GOOD = inputs(3)
ERRORS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "bonus": ({"u": draw(5)}, ShapeError, "u has 1 axis; expected 2"),
    "decay": ({"w": draw(1, 2, 3)}, ShapeError, "w has 3 axes; expected 4"),
    "layout": ({"layout": "tbhd"}, ValueError, "rwkv6: layout must be"),
    "growth": ({"w": GOOD["w"].abs()}, ValueError, "gates of a key dimension"),
    "state": ({"initial_state": draw(1, 2, 5, 4)}, ShapeError, "initial_state has the wrong shape"),
}


@pytest.mark.parametrize(("wrong", "error", "said"), ERRORS.values(), ids=ERRORS)
def test_errors_say_what_was_expected(wrong: dict[str, Any], error: type[Exception], said: str):
    with pytest.raises(error, match=said):
        rwkv6(**(GOOD | wrong))
