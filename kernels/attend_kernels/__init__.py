"""Kernels to read and to use: each fast Triton version beside its ``naive_`` twin in PyTorch.

The same source runs compiled on a GPU and interpreted on a CPU (``TRITON_INTERPRET=1``). Where
neither is possible, a public function warns once and runs its twin: same answer, less speed.

Importing this package imports neither torch nor triton; a name below brings its module along when
it is first used.

====================  =========================================================================
``fused_softmax``     softmax over the last axis in one pass over memory, with its gradient
``naive_softmax``     its twin
``flash_attention``   attention that writes no T × S matrix, with its gradient; packed sequences:
                      ``flash_attention_varlen``; twins ``naive_attention`` (``_varlen``)
``block_sparse_`` …    ``…attention``: over chosen blocks of keys, with its gradient; twin
                      ``naive_block_sparse_attention``
``merge_partials``    attention over parts of the keys, put together by their LSEs
``decode_attention``  attention of new tokens over a cache, contiguous or paged, 8-bit too; twin
                      ``naive_decode_attention``; ``quantise_cache``, ``dequantise_cache``
``append_to_cache``   new tokens' keys and values, written into such a cache; twin
                      ``naive_append_to_cache``
``rms_norm``          RMSNorm, with or without a residual added first; twin ``naive_rms_norm``
``layer_norm``        LayerNorm, likewise; twin ``naive_layer_norm``
``apply_rope``        rotary position embedding by a ``rope_table``; twin ``naive_rope``
``cross_entropy``     loss and gradient in one pass over the logits; twin ``naive_cross_entropy``
``linear_attention``  attention without softmax, linear in T, with its gradient; one step of it:
                      ``linear_attention_step``; twins ``naive_linear_attention`` (``_parallel``)
``rwkv6``             RWKV-6's recurrence on the same kernels; one step: ``rwkv6_step``; twin
                      ``naive_rwkv6``
``selective_scan``    Mamba-1's recurrence without its states in memory, with its gradient; one
                      step: ``selective_scan_step``; twins ``naive_selective_scan``,
                      ``naive_parallel_selective_scan``
``causal_conv1d``     depthwise convolution over the past, with its gradient; one step:
                      ``causal_conv1d_step``; twin ``naive_causal_conv1d``
``ssd``               Mamba-2's scan, which is also masked linear attention, with its gradient; one
                      step: ``ssd_step``; twins ``naive_ssd`` (``_quadratic``, ``_chunked``)
``rg_lru``            Griffin's gated recurrence, with its gradient; one step: ``rg_lru_step``; twin
                      ``naive_rg_lru``
``s4d_kernel``        the kernel of S4D's long convolution, with its gradient; twin
                      ``naive_s4d_kernel``; ``long_convolution`` by FFT
``assert_shape``      shape documentation that runs: ``assert_shape(q, "B H T D")``
====================  =========================================================================

``attend_kernels.modules`` has layers of ``torch.nn`` around them, for checkpoints of Hugging Face.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attend_kernels.common.shapes import ShapeError, assert_shape
    from attend_kernels.ops.block_sparse.api import block_sparse_attention
    from attend_kernels.ops.block_sparse.naive import naive_block_sparse_attention
    from attend_kernels.ops.conv1d.api import causal_conv1d, causal_conv1d_step
    from attend_kernels.ops.conv1d.naive import naive_causal_conv1d
    from attend_kernels.ops.cross_entropy.api import cross_entropy
    from attend_kernels.ops.cross_entropy.naive import naive_cross_entropy
    from attend_kernels.ops.decode.api import decode_attention
    from attend_kernels.ops.decode.append import append_to_cache
    from attend_kernels.ops.decode.naive import naive_append_to_cache, naive_decode_attention
    from attend_kernels.ops.decode.quantise import dequantise_cache, quantise_cache
    from attend_kernels.ops.flash.api import flash_attention
    from attend_kernels.ops.flash.merge import merge_partials
    from attend_kernels.ops.flash.naive import naive_attention, naive_attention_varlen
    from attend_kernels.ops.flash.varlen import flash_attention_varlen
    from attend_kernels.ops.linear_attention.api import linear_attention, linear_attention_step
    from attend_kernels.ops.linear_attention.naive import (
        naive_linear_attention,
        naive_linear_attention_parallel,
    )
    from attend_kernels.ops.linear_attention.rwkv import naive_rwkv6, rwkv6, rwkv6_step
    from attend_kernels.ops.norm.api import layer_norm, rms_norm
    from attend_kernels.ops.norm.naive import naive_layer_norm, naive_rms_norm
    from attend_kernels.ops.rg_lru.api import rg_lru, rg_lru_step
    from attend_kernels.ops.rg_lru.naive import naive_rg_lru
    from attend_kernels.ops.rope.api import apply_rope
    from attend_kernels.ops.rope.naive import naive_rope, rope_table
    from attend_kernels.ops.s4d.api import long_convolution, s4d_kernel
    from attend_kernels.ops.s4d.naive import naive_s4d_kernel
    from attend_kernels.ops.selective_scan.api import selective_scan, selective_scan_step
    from attend_kernels.ops.selective_scan.naive import (
        naive_parallel_selective_scan,
        naive_selective_scan,
    )
    from attend_kernels.ops.softmax.api import fused_softmax
    from attend_kernels.ops.softmax.naive import naive_softmax
    from attend_kernels.ops.ssd.api import ssd, ssd_step
    from attend_kernels.ops.ssd.naive import (
        naive_ssd,
        naive_ssd_chunked,
        naive_ssd_quadratic,
        naive_ssd_step,
        segsum,
        step_sizes,
    )

__all__ = [
    "ShapeError",
    "append_to_cache",
    "apply_rope",
    "assert_shape",
    "block_sparse_attention",
    "causal_conv1d",
    "causal_conv1d_step",
    "cross_entropy",
    "decode_attention",
    "dequantise_cache",
    "flash_attention",
    "flash_attention_varlen",
    "fused_softmax",
    "layer_norm",
    "linear_attention",
    "linear_attention_step",
    "long_convolution",
    "merge_partials",
    "naive_append_to_cache",
    "naive_attention",
    "naive_attention_varlen",
    "naive_block_sparse_attention",
    "naive_causal_conv1d",
    "naive_cross_entropy",
    "naive_decode_attention",
    "naive_layer_norm",
    "naive_linear_attention",
    "naive_linear_attention_parallel",
    "naive_parallel_selective_scan",
    "naive_rg_lru",
    "naive_rms_norm",
    "naive_rope",
    "naive_rwkv6",
    "naive_s4d_kernel",
    "naive_selective_scan",
    "naive_softmax",
    "naive_ssd",
    "naive_ssd_chunked",
    "naive_ssd_quadratic",
    "naive_ssd_step",
    "quantise_cache",
    "rg_lru",
    "rg_lru_step",
    "rms_norm",
    "rope_table",
    "rwkv6",
    "rwkv6_step",
    "s4d_kernel",
    "segsum",
    "selective_scan",
    "selective_scan_step",
    "ssd",
    "ssd_step",
    "step_sizes",
]

_HOME = {
    "ShapeError": "common.shapes",
    "append_to_cache": "ops.decode.append",
    "apply_rope": "ops.rope.api",
    "assert_shape": "common.shapes",
    "block_sparse_attention": "ops.block_sparse.api",
    "causal_conv1d": "ops.conv1d.api",
    "causal_conv1d_step": "ops.conv1d.api",
    "cross_entropy": "ops.cross_entropy.api",
    "decode_attention": "ops.decode.api",
    "dequantise_cache": "ops.decode.quantise",
    "flash_attention": "ops.flash.api",
    "flash_attention_varlen": "ops.flash.varlen",
    "fused_softmax": "ops.softmax.api",
    "layer_norm": "ops.norm.api",
    "linear_attention": "ops.linear_attention.api",
    "linear_attention_step": "ops.linear_attention.api",
    "long_convolution": "ops.s4d.api",
    "merge_partials": "ops.flash.merge",
    "naive_append_to_cache": "ops.decode.naive",
    "naive_attention": "ops.flash.naive",
    "naive_attention_varlen": "ops.flash.naive",
    "naive_block_sparse_attention": "ops.block_sparse.naive",
    "naive_causal_conv1d": "ops.conv1d.naive",
    "naive_cross_entropy": "ops.cross_entropy.naive",
    "naive_decode_attention": "ops.decode.naive",
    "naive_layer_norm": "ops.norm.naive",
    "naive_linear_attention": "ops.linear_attention.naive",
    "naive_linear_attention_parallel": "ops.linear_attention.naive",
    "naive_parallel_selective_scan": "ops.selective_scan.naive",
    "naive_rg_lru": "ops.rg_lru.naive",
    "naive_rms_norm": "ops.norm.naive",
    "naive_rope": "ops.rope.naive",
    "naive_rwkv6": "ops.linear_attention.rwkv",
    "naive_s4d_kernel": "ops.s4d.naive",
    "naive_selective_scan": "ops.selective_scan.naive",
    "naive_softmax": "ops.softmax.naive",
    "naive_ssd": "ops.ssd.naive",
    "naive_ssd_chunked": "ops.ssd.naive",
    "naive_ssd_quadratic": "ops.ssd.naive",
    "naive_ssd_step": "ops.ssd.naive",
    "quantise_cache": "ops.decode.quantise",
    "rg_lru": "ops.rg_lru.api",
    "rg_lru_step": "ops.rg_lru.api",
    "rms_norm": "ops.norm.api",
    "rope_table": "ops.rope.naive",
    "rwkv6": "ops.linear_attention.rwkv",
    "rwkv6_step": "ops.linear_attention.rwkv",
    "s4d_kernel": "ops.s4d.api",
    "segsum": "ops.ssd.naive",
    "selective_scan": "ops.selective_scan.api",
    "selective_scan_step": "ops.selective_scan.api",
    "ssd": "ops.ssd.api",
    "ssd_step": "ops.ssd.api",
    "step_sizes": "ops.ssd.naive",
}


def __getattr__(name: str) -> Any:
    """Import the module a public name lives in when it is first asked for (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    """List the public names, imported yet or not."""
    return sorted(__all__)
