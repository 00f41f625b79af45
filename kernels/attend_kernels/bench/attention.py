"""The cases of flash attention, and its peers.

Sizes keep B N = 16,384 tokens and H D = 2,048 channels, as the FlashAttention papers do, so that
every length has the same number of tokens to attend from. Operations are counted as they do: 4 B H
N² D forward, 10 B H N² D backward, half of it if causal; a window counts the pairs inside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from attend_kernels.bench.case import AbsentError, Answer, Case, Function, Tensors, compiled

TOKENS, CHANNELS = 16_384, 2_048
WAVES = {4096: 0, 16_384: 0, 2048: 1, 8192: 1, 512: 2, 1024: 2}
LONGEST_TWIN = 4096  # the twin writes B H N² scores: 17 GB a copy at N = 16k and D = 64


@dataclass(frozen=True)
class Setting:
    """Options of one attention case."""

    batch: int
    heads: int
    length: int
    width: int
    causal: bool
    window: int | None = None  # keys before its own that a query sees
    alibi: bool = False
    dtype: torch.dtype = torch.bfloat16
    device: str = "cuda"

    @property
    def name(self) -> str:
        """The options in words."""
        words = ["causal" if self.causal else "full"]
        words += [f"window {self.window}"] if self.window is not None else []
        return " + ".join(words + (["alibi"] if self.alibi else []))

    def options(self) -> dict[str, Any]:
        """Keyword arguments of flash_attention and of its twin."""
        slopes = alibi_slopes(self.heads, self.device) if self.alibi else None
        return {"causal": self.causal, "window": self.window, "alibi": slopes}

    def pairs(self) -> float:
        """Query-key pairs of one head."""
        if self.window is None:
            return self.length**2 / (2 if self.causal else 1)
        return self.length * (self.window + 1) - self.window * (self.window + 1) / 2


def alibi_slopes(heads: int, device: str) -> torch.Tensor:
    """Slopes 2^(-8 h / H) (Press et al. 2022, section 3)."""
    return 2.0 ** (-8.0 * torch.arange(1, heads + 1, device=device) / heads)


def cases(tiny: bool) -> list[Case]:
    """All attention cases for a GPU, or ``tiny`` ones for the interpreter."""
    if tiny:
        small = Setting(1, 2, 33, 16, False, dtype=torch.float32, device="cpu")
        settings = [small, replace(small, causal=True), replace(small, causal=True, window=9)]
        return [case_of(s, 0, {"attend": partial(ours, s)}) for s in settings]
    made = []
    for width in (128, 64):
        heads = CHANNELS // width
        for length, wave in WAVES.items():
            for causal in (True, False):
                s = Setting(TOKENS // length, heads, length, width, causal)
                made.append(case_of(s, wave, peers_of(s)))
        long = Setting(1, heads, TOKENS, width, True)
        for s in (replace(long, window=1023), replace(long, alibi=True)):
            made.append(case_of(s, 1, peers_of(s)))
    return made


def case_of(s: Setting, wave: int, peers: dict[str, Callable[[], Function]]) -> Case:
    """Make the case of a setting."""
    elements = s.batch * s.heads * s.length * s.width * s.dtype.itemsize
    forward = 4 * s.batch * s.heads * s.pairs() * s.width
    return Case(
        family="flash",
        name=s.name,
        size={"D": s.width, "N": s.length, "B": s.batch, "H": s.heads},
        wave=wave,
        make=partial(_make, s),
        learn=(0, 1, 2),
        peers=peers,
        oracle=partial(_oracle, s),
        part=_first_head,
        flops={"forward": forward, "backward": 2.5 * forward, "both": 3.5 * forward},
        bytes={"forward": 4 * elements, "backward": 8 * elements, "both": 12 * elements},
    )


def _make(s: Setting, seed: int) -> Tensors:
    generator = torch.Generator(s.device).manual_seed(seed)
    shape = (s.batch, s.heads, s.length, s.width)
    return tuple(
        torch.randn(shape, generator=generator, device=s.device).to(s.dtype) for _ in range(3)
    )


def _first_head(answer: Answer) -> Answer:
    return Answer(
        tuple(t[:1, :1] for t in answer.outputs), tuple(t[:1, :1] for t in answer.gradients)
    )


def _oracle(s: Setting, inputs: Tensors, grads: Tensors, chunk: int = 1024) -> Answer:
    """The first head of the first sequence in float64, a chunk of queries at a time."""
    from attend_kernels import naive_attention

    q, k, v = (t.detach()[:1, :1].double().requires_grad_() for t in inputs)
    grad = grads[0][:1, :1].double()
    options = s.options()
    options["alibi"] = None if options["alibi"] is None else options["alibi"][:1]
    parts = []
    for start in range(0, s.length, chunk):
        stop = min(start + chunk, s.length)
        # The last query stands at the last key, so a causal chunk gets the keys up to its end.
        seen = stop if s.causal else s.length
        if s.window is not None and not s.causal:
            raise ValueError("a window that looks ahead cannot be cut into chunks of queries")
        out, _ = naive_attention(q[:, :, start:stop], k[:, :, :seen], v[:, :, :seen], **options)
        out.backward(grad[:, :, start:stop])
        parts.append(out.detach())
    found = [t.grad for t in (q, k, v) if t.grad is not None]
    return Answer((torch.cat(parts, dim=2),), tuple(found))


def peers_of(s: Setting) -> dict[str, Callable[[], Function]]:
    """Every peer of a setting."""
    """Every peer of a setting."""
    peers: dict[str, Callable[[], Function]] = {"attend": partial(ours, s)}
    if s.window is None and not s.alibi:
        for name, backend in (
            ("sdpa-flash", "FLASH_ATTENTION"),
            ("sdpa-cudnn", "CUDNN_ATTENTION"),
            ("sdpa-efficient", "EFFICIENT_ATTENTION"),
        ):
            peers[name] = partial(_sdpa, s, backend)
    if s.length >= 4096:  # one compilation a size: the long ones are what it is compared at
        peers["flex"] = partial(_flex, s)
    if s.length <= LONGEST_TWIN and WAVES[s.length] == 0:
        peers["twin compiled"] = partial(_compiled_twin, s)
    peers["flash-attn"] = partial(_flash_attn, s)
    return peers


def ours(s: Setting) -> Function:
    """Our function with the setting's options."""
    from attend_kernels import flash_attention

    return partial(flash_attention, **s.options())


def _compiled_twin(s: Setting) -> Function:
    from attend_kernels import naive_attention

    options = s.options()  # made here: the compiler should see tensors, not how they were made
    return compiled(lambda q, k, v: naive_attention(q, k, v, **options)[0])()


def _sdpa(s: Setting, backend: str) -> Function:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    chosen = getattr(SDPBackend, backend)

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(chosen):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=s.causal)

    return attend


def _flex(s: Setting) -> Function:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def visible(_b: Any, _h: Any, t: Any, key: Any) -> Any:
        return (t >= key) & (t - key <= (s.length if s.window is None else s.window))

    slopes = s.options()["alibi"]

    def lean(score: Any, _b: Any, h: Any, t: Any, key: Any) -> Any:
        return score - slopes[h] * (t - key).abs()

    mask = None
    if s.causal:
        mask = create_block_mask(visible, None, None, s.length, s.length, device=s.device)
    attend = torch.compile(flex_attention, dynamic=False)
    return partial(attend, block_mask=mask, score_mod=lean if s.alibi else None)


def _flash_attn(s: Setting) -> Function:
    try:
        from flash_attn import flash_attn_func  # pyright: ignore[reportMissingImports]  # optional
    except ImportError as error:
        raise AbsentError(f"flash-attn cannot be imported: {error}") from error
    options: dict[str, Any] = {"causal": s.causal}
    if s.window is not None:
        options["window_size"] = (s.window, 0)
    if s.alibi:
        options["alibi_slopes"] = s.options()["alibi"]

    def attend(*qkv: torch.Tensor) -> torch.Tensor:
        return flash_attn_func(*(x.transpose(1, 2) for x in qkv), **options).transpose(1, 2)

    return attend
