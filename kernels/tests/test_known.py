"""The short way of calls that were checked before: the same answers, errors, and onlookers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import attend_kernels
import pytest
import torch
from attend_kernels.bench import host
from attend_kernels.common import fallback, known
from torch.utils.flop_counter import FlopCounterMode

pytestmark = pytest.mark.skipif(
    not fallback.HAS_TRITON, reason="Triton is not installed (no wheel for this platform)"
)
kernels: Any = attend_kernels  # Any: arguments are splatted, results of two kinds
Inputs = dict[str, torch.Tensor]
KNOWN = {"rms": "RMS", "layer": "LAYER"}  # of the functions that share a module
NAMES = ["decode", "rms", "layer", "rope", "linear", "ssd", "scan", "conv"]


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed + len(shape)))


def functions() -> dict[str, tuple[Callable[..., Any], Inputs]]:
    """What a decoding step calls, with small inputs."""
    x, w = draw(3, 8), draw(8)
    cos, sin = kernels.rope_table(4, 8)
    heads, b = draw(1, 2, 8), draw(1, 1, 4)
    cache = draw(1, 2, 6, 8)
    linear = {"state": draw(1, 2, 8, 8), "q": heads, "k": heads, "v": heads, "decay": -draw(2)}
    ssd = {"state": draw(1, 2, 8, 4), "x": heads, "dt": draw(1, 2), "A": -draw(2), "B": b, "C": b}
    scan = {"state": draw(1, 3, 4), "u": draw(1, 3), "delta": draw(1, 3), "A": -draw(3, 4)}
    scan |= {"B": draw(1, 4), "C": draw(1, 4), "z": draw(1, 3), "D": draw(3)}
    conv = {"state": draw(1, 3, 3), "x": draw(1, 3), "w": draw(3, 4), "b": draw(3)}
    return {
        "decode": (
            kernels.decode_attention,
            {"q": heads, "k_cache": cache, "v_cache": cache, "lengths": torch.tensor([5])},
        ),
        "rms": (kernels.rms_norm, {"x": x, "weight": w, "residual": x + 1}),
        "layer": (kernels.layer_norm, {"x": x, "weight": w, "bias": w}),
        "rope": (kernels.apply_rope, {"x": draw(1, 2, 1, 8), "cos": cos, "sin": sin}),
        "linear": (kernels.linear_attention_step, linear),
        "ssd": (kernels.ssd_step, {**ssd, "D": draw(2), "dt_bias": draw(2)}),
        "scan": (kernels.selective_scan_step, scan),
        "conv": (kernels.causal_conv1d_step, conv),
    }


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call that is made was known."""
    seen: list[bool] = []
    find = known.Known.find

    def watch(self: known.Known, key: known.Key) -> Any:
        value = find(self, key)
        seen.append(value is not None)
        return value

    monkeypatch.setattr(known.Known, "find", watch)
    return seen


def outputs(result: Any) -> tuple[torch.Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", NAMES)
def test_the_second_call_is_known_and_gives_the_same(name: str, found: list[bool]):
    function, inputs = functions()[name]
    module = sys.modules[function.__module__]
    getattr(module, KNOWN.get(name, "KNOWN"))._found.clear()
    first = outputs(function(**inputs))
    again = outputs(function(**inputs))
    assert found == [False, True]
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one, other)
        assert (one.shape, one.stride(), one.dtype) == (other.shape, other.stride(), other.dtype)


@pytest.mark.parametrize("name", NAMES)
def test_who_must_see_the_operator_does(name: str, found: list[bool]):
    function, inputs = functions()[name]
    function(**inputs)
    found.clear()
    with FlopCounterMode(display=False):
        function(**inputs)
    grown = {n: x.clone() for n, x in inputs.items()}
    learning = next(iter(grown))
    if name == "decode":
        with pytest.raises(ValueError, match="computes no gradient"):
            function(**grown | {learning: grown[learning].requires_grad_()})
    else:
        result = outputs(function(**grown | {learning: grown[learning].requires_grad_()}))
        assert all(y.requires_grad for y in result)
    assert True not in found


WRONG: dict[str, tuple[str, Callable[[torch.Tensor], torch.Tensor], str]] = {
    "decode": ("lengths", lambda n: n + 5, r"lengths\[0\] is 10"),
    "rms": ("weight", lambda w: w[:-1], "weight has the wrong shape"),
    "layer": ("bias", lambda b: b.int(), "floating-point"),
    "rope": ("cos", lambda c: c[:, :-1], "sin has the wrong shape"),
    "linear": ("k", lambda k: k.double(), "must have one dtype"),
    "ssd": ("A", lambda a: -a, "A must be 0 or less"),
    "scan": ("A", lambda a: -a, "A must be 0 or less"),
    "conv": ("w", lambda w: w.T, "wrong shape"),
}


@pytest.mark.parametrize("name", NAMES)
def test_errors_are_those_of_a_first_call(name: str):
    function, inputs = functions()[name]
    function(**inputs)
    argument, spoil, said = WRONG[name]
    for _ in range(2):
        with pytest.raises((ValueError, TypeError), match=said):
            function(**inputs | {argument: spoil(inputs[argument])})


def test_options_without_a_hash_and_many_lengths_are_no_matter(monkeypatch: pytest.MonkeyPatch):
    calls = known.Known()
    key = calls.key((draw(3),), [1, 2])
    calls.keep(key)
    assert calls.find(key) is None
    monkeypatch.setattr(known, "MOST", 3)
    for n in range(1, 9):
        calls.keep(calls.key((draw(n),)))
        assert calls.find(calls.key((draw(n),)))
    assert len(calls._found) <= 3


def test_tensors_without_memory_take_the_long_way():
    assert known.Known().key((draw(3).to("meta"),)) is None


def test_autocast_takes_the_long_way_where_it_casts():
    x = draw(3)
    with torch.autocast("cpu", torch.bfloat16):
        assert known.Known(casts=True).key((x,)) is None
        assert known.Known().key((x,)) is not None


PROGRAM = """
import json, torch
from attend_kernels.bench import host
with torch.no_grad(), host.without_launches():
    found = host.calls(torch.device("cpu"))
    print(json.dumps({name: host.python_calls(call) for name, call in found.items()}))
"""
MOST_CALLS = 90  # of functions; the long way makes 107 to 272


@pytest.mark.deep
@pytest.mark.skipif(torch.cuda.is_available(), reason="the benchmark times it on the GPU")
def test_a_known_call_is_little_work_for_the_cpu():
    free = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=free)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert counts.keys() == host.calls(torch.device("cpu")).keys()
    assert max(counts.values()) <= MOST_CALLS, counts
