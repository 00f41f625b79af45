"""What chapter 18 does with a learner's kernels: count bytes, ask the compiler, read text, time.

Nothing here computes attention. Each function takes the learner's own function, which launches a
kernel.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

LENGTHS = (1024, 4096, 16384)
"""Tokens that are timed on a GPU, with 16 query heads, 4 of keys and values, of width 64."""


def launch_of(function: Callable[..., Any], *args: Any) -> dict[str, Any]:
    """What the first kernel that ``function`` launches did to memory, as plain data."""
    from attend_grader.inside.tracer import traced

    with traced() as tracer:
        function(*args)
    return tracer.to_plain()[0]


def moved(function: Callable[..., Any], *args: Any) -> int:
    """Bytes that the kernel of ``function(*args)`` reads and writes."""
    launch = launch_of(function, *args)
    return launch["bytes_read"] + launch["bytes_written"]


def compiled_for_h100(function: Callable[..., Any], *args: Any) -> dict[str, Any]:
    """What the compiler makes of a kernel, with the types and block sizes of ``function(*args)``.

    Returns:
        ``registers`` a thread, bytes ``spilled`` a thread, bytes of ``shared`` memory a program and
        ``instructions`` by name; or ``error``.
    """
    from attend_grader.inside.compiling import compiled
    from attend_grader.inside.kernels import kernels_of

    launch = launch_of(function, *args)
    kernel = next(k for k in kernels_of(function) if k.fn.__name__ == launch["kernel"])
    return compiled(kernel, launch["types"], launch["constants"], instructions=True)


def causal_for_h100(width: int, tiles: tuple[int, int, int, int]) -> dict[str, Any]:
    """What the compiler makes of the course's ``causal_kernel`` with these tiles, in float16.

    Args:
        width: of a head.
        tiles: queries and keys of a tile, warps, stages.

    Returns:
        As :func:`compiled_for_h100`.
    """
    from attend_grader.chapters.ch18_triton_flash.choose_tiles import reported

    return reported(tiles, width)


def heads(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Iterator[Tensor]:
    """Random queries, keys, values, …, all of one shape."""
    draw = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randn(shape, generator=draw).to(dtype)


class Reader:
    """Chapter 07's trained model, whose attention can be exchanged for a learner's kernel."""

    def __init__(self) -> None:
        from attend.data.deep_stack import WRITER, Deep, words

        options = {k: v for k, v in WRITER.items() if k not in ("arm", "layers")}
        self.model = Deep(WRITER["arm"], WRITER["layers"], **options)
        self.model.load_state_dict(words())
        self.tokens: int = WRITER["tokens"]

    @contextmanager
    def attending(self, flash: Callable[..., tuple[Tensor, Tensor]]) -> Iterator[None]:
        """Meanwhile, every head of every layer goes through ``flash(q, k, v)``, causal."""
        layers: list[Any] = [block.attention for block in self.model.blocks]  # type: ignore[union-attr]
        for layer in layers:
            layer.forward = _through(layer, flash)
        try:
            yield
        finally:
            for layer in layers:
                del layer.forward

    @torch.no_grad()
    def bits(self, pieces: int, flash: Callable[..., tuple[Tensor, Tensor]] | None = None) -> float:
        """Bits a character on that many pieces of text that the model was not trained on."""
        from attend.data.deep_stack import bits

        if flash is None:
            return bits(self.model, self.tokens, pieces)
        with self.attending(flash):
            return bits(self.model, self.tokens, pieces)

    @torch.no_grad()
    def write(self, start: str, count: int, seed: int) -> str:
        """Go on writing after ``start``, drawing each character by its probability to the 1.5."""
        from attend.data.mamba_words import ALPHABET

        draw = torch.Generator().manual_seed(seed)
        tokens = [ALPHABET.index(letter) for letter in start]
        for _ in range(count):
            scores = self.model(torch.tensor([tokens[-self.tokens :]]))[0, -1]
            shares = torch.softmax(1.5 * scores.double(), -1)
            tokens.append(int(torch.multinomial(shares, 1, generator=draw)))
        return "".join(ALPHABET[token] for token in tokens)


def _through(layer: Any, flash: Callable[..., tuple[Tensor, Tensor]]) -> Callable[..., Any]:
    """Attention of one layer by ``flash``: heads of width 12 are filled up with zeros to 16."""

    def split(x: Tensor) -> Tensor:
        wide = x.unflatten(-1, (layer.heads, -1)).transpose(1, 2)  # (B, H, T, 12)
        return torch.nn.functional.pad(wide, (0, 16 - wide.shape[-1]))

    def forward(x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, None]:
        del mask  # the kernel has its own
        q, k, v = (split(project(x)) for project in (layer.query, layer.key, layer.value))
        width = x.shape[-1] // layer.heads
        output, _ = flash(q * (16 / width) ** 0.5, k, v, 64, 64)
        return layer.output(output[..., :width].transpose(1, 2).flatten(2)), None

    return forward


TIMED = """
import json, sys, torch
import triton, triton.language as tl

{source}

from attend_kernels import flash_attention
from torch.nn.functional import scaled_dot_product_attention as sdpa

def milliseconds(function):
    return triton.testing.do_bench(function, warmup=50, rep=200, return_mode="all")

rows = []
for length in {lengths}:
    shapes = (1, 16, length, 64), (1, 4, length, 64), (1, 4, length, 64)
    q, k, v = (torch.randn(s, device="cuda", dtype=torch.float16) for s in shapes)
    ways = {{
        "yours": lambda: {name}(q, k, v, 128, 64)[0],
        "SDPA": lambda: sdpa(q, k, v, is_causal=True, enable_gqa=True),
        "attend_kernels": lambda: flash_attention(q, k, v, causal=True),
    }}
    want = ways["SDPA"]().float()
    for way, function in ways.items():
        apart = float((function().float() - want).abs().max())
        times = sorted(milliseconds(function))
        tenth = len(times) // 10
        ms = [times[len(times) // 2], times[tenth], times[-1 - tenth]]
        rows.append({{"length": length, "way": way, "ms": ms, "apart": apart}})
print(json.dumps({{"device": torch.cuda.get_device_name(), "rows": rows}}))
"""


def timed(function: Callable[..., Any]) -> dict[str, Any] | None:
    """Time a learner's ``grouped_flash``, compiled, beside PyTorch's and the course's own.

    It runs in a process of its own, because kernels are interpreted in this one.

    Returns:
        ``device`` and ``rows``, each with ``length``, ``way``, ``ms`` (median, and the times that a
        tenth of the runs stays below and above) and how far it lies ``apart`` from PyTorch's
        result; None without a GPU.

    Raises:
        RuntimeError: the process failed; says how.
    """
    if not torch.cuda.is_available():
        return None
    from attend_grader.inside.kernels import whole_source

    source = whole_source(function)
    return on_gpu(TIMED.format(source=source, lengths=LENGTHS, name=function.__name__))


def on_gpu(text: str) -> dict[str, Any]:
    """Run a program in a process of its own, where kernels are compiled; what it prints as JSON.

    Raises:
        RuntimeError: the process failed; says how.
    """
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "timed.py"
        path.write_text(text, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, str(path)], capture_output=True, text=True, env=environment
        )
    if done.returncode:
        raise RuntimeError(
            "the run on the GPU failed: " + (done.stderr.strip().splitlines() or ["?"])[-1]
        )
    return json.loads(done.stdout.splitlines()[-1])
