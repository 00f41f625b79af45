"""What chapter 19 does with a learner's backward pass: count memory, order programs, train, repeat.

Nothing here computes attention. Each function takes the learner's own functions.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from attend.data.flash_kernels import Reader, heads, on_gpu


def drawn(number: int, *shape: int, seed: int) -> list[Tensor]:
    """That many random tensors of one shape."""
    draw = heads(*shape, seed=seed)
    return [next(draw) for _ in range(number)]


def plain_attention(
    q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None
) -> Tensor:
    """Attention by torch's own operations, which keeps the weights for the way back.

    Shapes: q (H, T, D), k and v (H, S, D), returns (H, T, D).
    """
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        t, s = scores.shape[-2:]
        hidden = torch.ones(t, s, dtype=torch.bool).triu(s - t + 1)
        scores = scores.masked_fill(hidden, -torch.inf)
    return torch.softmax(scores, -1) @ v


def in_a_model(
    attention: Callable[..., Tensor],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """q plus its attention, as in a block; other layers' calls follow before any gradient.

    One of these has other queries, and one the same arguments with another scale.
    """
    out = attention(q, k, v, causal, scale)
    attention(-q, k, v, causal, scale)
    attention(q, k, v, causal, 0.7 if scale is None else scale + 1)
    return q + out


def memory(function: Callable[..., Tensor], *args: Any) -> tuple[int, int]:
    """What a forward and a backward pass need beside their arguments and results.

    Returns:
        bytes that the call keeps for the way back, and bytes of the largest tensor that is made on
        either way: of those that a kernel touches, where kernels are launched.
    """
    from attend_grader.inside.torch_memory import Largest
    from attend_grader.inside.tracer import traced

    leaves = [x.detach().requires_grad_() if isinstance(x, Tensor) else x for x in args]
    given = {x.untyped_storage().data_ptr() for x in leaves if isinstance(x, Tensor)}
    found: dict[int, Tensor] = {}

    def pack(x: Tensor) -> Tensor:
        if x.untyped_storage().data_ptr() not in given:
            found[x.untyped_storage().data_ptr()] = x  # held, so that no address recurs
        return x

    with traced() as tracer, Largest() as made:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            out = function(*leaves)
        out.sum().backward()
    buffers = [b for launch in tracer.launches for b in launch.buffers.values() if b["fresh"]]
    largest = max((b["elements"] * b["itemsize"] for b in buffers), default=made.bytes)
    return sum(x.untyped_storage().nbytes() for x in found.values()), largest


def checkpointed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Plain attention that keeps nothing, and is computed again on the way back."""
    from torch.utils.checkpoint import checkpoint

    made = checkpoint(  # it draws no random numbers
        plain_attention, q, k, v, use_reentrant=False, preserve_rng_state=False
    )
    assert isinstance(made, Tensor)
    return made


@contextmanager
def program_order(order: Sequence[int]) -> Iterator[None]:
    """Meanwhile, interpreted programs come in this order along the grid's first axis.

    The interpreter runs programs one after the other: the n-th of them takes the number that stands
    at the n-th place of ``order``.
    """
    from triton.runtime.interpreter import InterpreterBuilder

    before: Any = InterpreterBuilder.create_get_program_id

    def renumbered(self: Any, axis: int) -> Any:
        made = before(self, axis)
        if axis == 0:
            made.data = made.data * 0 + order[int(made.data[0])]
        return made

    InterpreterBuilder.create_get_program_id = renumbered  # type: ignore[method-assign]
    try:
        yield
    finally:
        InterpreterBuilder.create_get_program_id = before  # type: ignore[method-assign]


def watched(function: Callable[..., Any], *args: Any) -> Any:
    """What a call returns; printed is what the tracer saw its kernels do that they should not."""
    from attend_grader.inside.tracer import traced

    with traced() as tracer:
        value = function(*args)
    try:
        from attend_grader.checks.launch_words import told
    except ModuleNotFoundError:  # in the jail nobody reads it
        return value
    for launch in tracer.to_plain():
        for event in launch["events"]:
            print(
                textwrap.fill(f"⚠ {told(event, launch['grid']).text}", 76, subsequent_indent="   ")
            )
    return value


def differing(one: Tensor, other: Tensor) -> int:
    """How many numbers of two float32 tensors differ in any bit."""
    return int((one.view(torch.int32) != other.view(torch.int32)).sum())


BY_HEART = "Softmax, made tile by tile."


class Learner:
    """Chapter 07's trained model, which learns one sentence by heart, a step of Adam at a time."""

    def __init__(self, rate: float = 5e-3) -> None:
        from attend.data.mamba_words import encode

        self.reader = Reader()
        self.sentence = encode(BY_HEART)[None]
        self._adam = torch.optim.Adam(self.reader.model.parameters(), rate)

    def learn(self, attention: Callable[..., Tensor], steps: int) -> list[float]:
        """Go that many steps, heads attending by ``attention(q, k, v, True)``; bits before each."""
        from attend.data.deep_stack import loss_of

        def heads(q: Tensor, k: Tensor, v: Tensor, *blocks: int) -> tuple[Tensor, None]:
            del blocks
            every = (x.flatten(0, 1) for x in (q, k, v))
            return attention(*every, True).unflatten(0, q.shape[:2]), None

        found = []
        with self.reader.attending(heads):  # type: ignore[arg-type]  # no LSE is asked for
            for _ in range(steps):
                loss = loss_of(self.reader.model, self.sentence[:, :-1], self.sentence[:, 1:])
                self._adam.zero_grad()
                loss.backward()
                self._adam.step()
                found.append(float(loss.detach()) / math.log(2))
        return found

    @torch.no_grad()
    def recite(self, start: int = 4) -> str:
        """What follows the sentence's first letters, each time the likeliest letter."""
        from attend.data.mamba_words import decode

        tokens = self.sentence[:, :start]
        while tokens.shape[1] < self.sentence.shape[1]:
            tokens = torch.cat([tokens, self.reader.model(tokens)[:, -1:].argmax(-1)], 1)
        return decode(tokens[0])


REPEATED = """
import json, os, torch
import triton, triton.language as tl

{source}

def distinct(function, times=10):
    seen = {{tuple(x.cpu().numpy().tobytes() for x in function()) for _ in range(times)}}
    return len(seen)

rows = []
for length in (1024, 4096):
    draw = torch.Generator(device="cuda").manual_seed(0)
    q, k, v, d_out = (
        torch.randn((4, length, 64), device="cuda", generator=draw).half() for _ in range(4)
    )
    scores = q.float() @ k.float().mT / 8
    lse = torch.logsumexp(scores, -1)
    delta = (torch.softmax(scores, -1) @ v.float() * d_out.float()).sum(-1)
    args = q, k, v, d_out, lse, delta
    ways = {{
        "two passes": lambda: (*grad_keys_values(*args), grad_queries(*args)),
        "one pass": lambda: one_pass(*args),
    }}
    for way, function in ways.items():
        times = triton.testing.do_bench(function, warmup=50, rep=200, return_mode="all")
        times = sorted(times)
        tenth = len(times) // 10
        ms = [times[len(times) // 2], times[tenth], times[-1 - tenth]]
        rows.append({{"length": length, "way": way, "distinct": distinct(function), "ms": ms}})
print(json.dumps({{"device": torch.cuda.get_device_name(), "rows": rows}}))
"""


def repeated(*functions: Callable[..., Any]) -> dict[str, Any] | None:
    """Run the three gradient functions ten times each on a GPU: how many different results, and ms.

    Returns:
        ``device`` and ``rows``, each with ``length``, ``way``, ``distinct`` results and ``ms``
        (median, and the times that a tenth of the runs stays below and above); None without a GPU.

    Raises:
        RuntimeError: the process failed; says how.
    """
    if not torch.cuda.is_available():
        return None
    from attend_grader.inside.kernels import whole_source

    return on_gpu(REPEATED.format(source="\n\n".join(map(whole_source, functions))))
