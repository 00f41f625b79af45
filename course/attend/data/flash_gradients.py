"""What chapter 19 does with a learner's backward pass: count memory, order programs, train, repeat.

Nothing here computes attention. Each function takes the learner's own functions.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from attend.data.flash_kernels import Reader, on_gpu


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


def kept(function: Callable[..., Tensor], *args: Any) -> int:
    """Bytes that a call keeps for its backward pass, its own arguments left out."""
    given = {x.untyped_storage().data_ptr() for x in args if isinstance(x, Tensor)}
    found: dict[int, tuple[int, Tensor]] = {}

    def pack(x: Tensor) -> Tensor:
        place = x.untyped_storage().data_ptr()
        if place not in given:
            found[place] = (x.untyped_storage().nbytes(), x)  # held, so that no address recurs
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        function(*(x.requires_grad_() if isinstance(x, Tensor) else x for x in args))
    return sum(size for size, _ in found.values())


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


def differing(one: Tensor, other: Tensor) -> int:
    """How many numbers of two float32 tensors differ in any bit."""
    return int((one.view(torch.int32) != other.view(torch.int32)).sum())


class Tuned:
    """Chapter 07's model, which goes on training, on Python's own source text.

    Attributes:
        pieces: what it is trained on, a row a step, and as many rows that it is tried on.
    """

    def __init__(self, steps: int, tokens: int = 64) -> None:
        from attend.data.mamba_words import encode

        text = encode(inspect.getsource(textwrap))
        self.pieces = text[: 2 * steps * (tokens + 1)].view(2, steps, tokens + 1)

    def losses(
        self, attention: Callable[..., Tensor], rate: float = 2e-3
    ) -> tuple[list[float], float, float]:
        """Train one step a piece with Adam, heads attending by ``attention(q, k, v, True)``.

        Returns:
            bits a character of each piece before its step; those of the other pieces, before all
            steps and after.
        """
        from attend.data.deep_stack import loss_of

        reader = Reader()
        step = torch.optim.Adam(reader.model.parameters(), rate)
        nats = torch.log(torch.tensor(2.0))

        def heads(q: Tensor, k: Tensor, v: Tensor, *blocks: int) -> tuple[Tensor, None]:
            del blocks
            every = (x.flatten(0, 1) for x in (q, k, v))
            return attention(*every, True).unflatten(0, q.shape[:2]), None

        def tried() -> float:
            with torch.no_grad():
                return float(loss_of(reader.model, self.pieces[1, :, :-1], self.pieces[1, :, 1:]))

        before, found = tried(), []
        for piece in self.pieces[0]:
            with reader.attending(heads):
                loss = loss_of(reader.model, piece[None, :-1], piece[None, 1:])
                step.zero_grad()
                loss.backward()
            step.step()
            found.append(float(loss.detach() / nats))
        return found, before / float(nats), tried() / float(nats)


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
