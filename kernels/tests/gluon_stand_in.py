"""The Gluon kernel as plain Python: PyTorch computes, threads are its groups of warps.

Triton has no interpreter for Gluon. Here the kernel's own source runs, names of Gluon replaced:
barriers count arrivals and bytes and make threads wait, a copy fills zeros past the edge, shared
memory starts as NaN, nothing may be stored twice. It shows masks, extents, the hand-over of stages
and the arithmetic to be right; not layouts, nor races between instructions of a GPU.
"""

# ruff: noqa: N806  # axis letters are capitals

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

WAIT = 20.0  # seconds until a wait counts as a deadlock


class _Tensor(torch.Tensor):
    @property
    def type(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return SimpleNamespace(layout=None)


class _Pointer:
    def __init__(self, flat: torch.Tensor, at: Any = 0) -> None:
        self.flat, self.at = flat, at

    def __add__(self, more: Any) -> _Pointer:
        return _Pointer(self.flat, self.at + more)


class _Barrier:
    """Its phase is over when all have arrived and all bytes have come."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.count = self.left = self.bytes = self.phase = 0

    def init(self, count: int) -> None:
        self.count = self.left = count

    def take(self, arrivals: int, bytes_: int) -> None:
        with self.changed:
            assert self.left >= arrivals, "more arrivals than the barrier counts"
            self.left -= arrivals
            self.bytes += bytes_
            if self.left == self.bytes == 0:
                self.phase += 1
                self.left = self.count
                self.changed.notify_all()

    def wait(self, parity: Any) -> None:
        with self.changed:
            done = self.changed.wait_for(lambda: (self.phase - 1) & 1 == int(parity), WAIT)
            assert done, "deadlock"


class _Barriers(list[_Barrier]):
    def index(self, n: Any) -> _Barrier:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self[int(n)]


class _Shared:
    def __init__(self, x: torch.Tensor) -> None:
        self.x, self.dtype = x, x.dtype

    def index(self, n: Any) -> _Shared:
        return _Shared(self.x[int(n)])

    def reshape(self, shape: tuple[int, ...]) -> _Shared:
        return _Shared(self.x.view(*shape))

    def permute(self, order: tuple[int, ...]) -> _Shared:
        return _Shared(self.x.permute(*order))


class _Described:
    def __init__(self, x: torch.Tensor, rows: int) -> None:
        self.x, self.rows, self.dtype, self.layout = x, rows, x.dtype, None
        shape = [1, 1, rows, x.shape[-1]]
        self.block_type = SimpleNamespace(shape=shape, nbytes=rows * x.shape[-1] * x.itemsize)


def _copy(described: _Described, at: list[Any], barrier: _Barrier, to: _Shared) -> None:
    batch, head, first, _ = map(int, at)
    rows = described.x[batch, head, first : first + described.rows]
    to.x.zero_()
    to.x.view(described.rows, -1)[: len(rows)] = rows
    barrier.take(0, -described.block_type.nbytes)


def _store(pointer: _Pointer, x: torch.Tensor, mask: torch.Tensor) -> None:
    plain = (torch.as_tensor(each).as_subclass(torch.Tensor) for each in (pointer.at, x, mask))
    at, x, mask = torch.broadcast_tensors(*plain)
    assert pointer.flat[at[mask]].isnan().all(), "stored twice"
    pointer.flat[at[mask]] = x[mask].to(pointer.flat.dtype)


def _allocate(dtype: torch.dtype, shape: list[int], _: Any) -> Any:
    if dtype is torch.int64:
        found = _Barriers(_Barrier() for _ in range(shape[0]))
        return found if len(shape) > 1 else found[0]
    return _Shared(torch.full(shape, float("nan"), dtype=dtype))


def _multiply(a: Any, b: _Shared, sums: torch.Tensor, use_acc: bool = True, **_: Any) -> Any:
    product = (a.x if isinstance(a, _Shared) else a).float() @ b.x.float()
    return (product + sums if use_acc else product).as_subclass(_Tensor)


def _specialize(parts: list[Any], *_: Any) -> None:
    faults: list[BaseException] = []

    def work(function: Any, arguments: Any) -> None:
        try:
            function(*arguments)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work, args=part) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]


def _language(program: int, programs: int) -> Any:
    def pair(function: Any) -> Any:
        return lambda x, y: function(torch.as_tensor(x), torch.as_tensor(y))

    def nothing(*_: Any) -> None:
        return None

    return SimpleNamespace(
        SliceLayout=nothing, NVMMADistributedLayout=nothing, DotOperandLayout=nothing,
        float32=torch.float32, int64=torch.int64, static_range=range,
        arange=lambda first, stop, _: torch.arange(first, stop).as_subclass(_Tensor),
        zeros=lambda shape, *_: torch.zeros(shape).as_subclass(_Tensor),
        full=lambda shape, value, *_: torch.full(shape, value).as_subclass(_Tensor),
        where=torch.where, maximum=pair(torch.maximum), minimum=pair(torch.minimum),
        max=torch.amax, sum=torch.sum, exp2=torch.exp2, log2=torch.log2,
        convert_layout=lambda x, _: x, store=_store, allocate_shared_memory=_allocate,
        warp_specialize=_specialize,
        program_id=lambda _: torch.tensor(program), num_programs=lambda _: torch.tensor(programs),
    )  # fmt: skip


@contextmanager
def _replaced(module: Any, program: int, programs: int) -> Iterator[Any]:
    """The kernel as a function, while the names that it uses are those above."""
    names: dict[str, Any] = {
        "gl": _language(program, programs),
        "mbarrier": SimpleNamespace(
            MBarrierLayout=lambda: None,
            init=lambda barrier, count: barrier.init(count),
            arrive=lambda barrier, count: barrier.take(count, 0),
            expect=lambda barrier, bytes_: barrier.take(1, bytes_),
            wait=lambda barrier, parity: barrier.wait(parity),
        ),
        "tma": SimpleNamespace(async_copy_global_to_shared=_copy),
        "fence_async_shared": lambda: None,
        "warpgroup_mma": _multiply,
        "warpgroup_mma_wait": lambda _, deps: deps if len(deps) > 1 else deps[0],
    }
    for name in ("ROWS", "WARPS", "REGISTERS", "LN2", "LOG2E", "MASKED_SCORE"):
        names[name] = getattr(module, name).value
    for name in ("produce", "weigh", "attend_tiles", "consume"):
        names[name] = getattr(module, name).fn
    with mock.patch.multiple(module, **names):
        yield module.gluon_forward_kernel.fn


def attend(
    module: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, tile: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """O and LSE as every program of the kernel computes them, one after the other."""
    B, H, T, D = q.shape
    out = torch.full_like(q, float("nan"))
    lse = torch.full((B, H, T), float("nan"))
    tiles = -(-T // 128)
    for program in range(tiles * H * B):
        with _replaced(module, program, tiles * H * B) as kernel:
            kernel(
                _Described(q, 64), _Described(k, tile.block_s), _Described(v, tile.block_s),
                _Pointer(out.view(-1)), _Pointer(lse.view(-1)), *out.stride()[:3],
                tiles, H, T, k.shape[2], D**-0.5, H // k.shape[1], causal, tile.stages,
            )  # fmt: skip
    return out, lse
