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
``decode_attention``  attention of new tokens over a cache, contiguous or paged, 8-bit too; twin
                      ``naive_decode_attention``; ``quantise_cache``, ``dequantise_cache``
``rms_norm``          RMSNorm, with or without a residual added first; twin ``naive_rms_norm``
``layer_norm``        LayerNorm, likewise; twin ``naive_layer_norm``
``apply_rope``        rotary position embedding by a ``rope_table``; twin ``naive_rope``
``cross_entropy``     loss and gradient in one pass over the logits; twin ``naive_cross_entropy``
``linear_attention``  attention without softmax, linear in T, with its gradient; one step of it:
                      ``linear_attention_step``; twins ``naive_linear_attention`` (``_parallel``)
``selective_scan``    Mamba-1's recurrence without its states in memory, with its gradient; one
                      step: ``selective_scan_step``; twins ``naive_selective_scan``,
                      ``naive_parallel_selective_scan``
``causal_conv1d``     depthwise convolution over the past, with its gradient; one step:
                      ``causal_conv1d_step``; twin ``naive_causal_conv1d``
``ssd``               Mamba-2's scan, which is also masked linear attention, with its gradient; one
                      step: ``ssd_step``; twins ``naive_ssd`` (``_quadratic``, ``_chunked``)
``assert_shape``      shape documentation that runs: ``assert_shape(q, "B H T D")``
====================  =========================================================================
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attend_kernels.conv1d import causal_conv1d, causal_conv1d_step, naive_causal_conv1d
    from attend_kernels.cross_entropy_loss import cross_entropy, naive_cross_entropy
    from attend_kernels.decode import decode_attention, naive_decode_attention
    from attend_kernels.flash import flash_attention, naive_attention
    from attend_kernels.flash_varlen import flash_attention_varlen, naive_attention_varlen
    from attend_kernels.linear_attention_chunked import (
        linear_attention,
        linear_attention_step,
        naive_linear_attention,
        naive_linear_attention_parallel,
    )
    from attend_kernels.norm import layer_norm, naive_layer_norm, naive_rms_norm, rms_norm
    from attend_kernels.quantise import dequantise_cache, quantise_cache
    from attend_kernels.rope import apply_rope, naive_rope, rope_table
    from attend_kernels.selective_scan_chunked import (
        naive_parallel_selective_scan,
        naive_selective_scan,
        selective_scan,
        selective_scan_step,
    )
    from attend_kernels.shapes import ShapeError, assert_shape
    from attend_kernels.softmax import fused_softmax, naive_softmax
    from attend_kernels.ssd_chunked import (
        naive_ssd,
        naive_ssd_chunked,
        naive_ssd_quadratic,
        naive_ssd_step,
        segsum,
        ssd,
        ssd_step,
        step_sizes,
    )

__all__ = [
    "ShapeError",
    "apply_rope",
    "assert_shape",
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
    "naive_attention",
    "naive_attention_varlen",
    "naive_causal_conv1d",
    "naive_cross_entropy",
    "naive_decode_attention",
    "naive_layer_norm",
    "naive_linear_attention",
    "naive_linear_attention_parallel",
    "naive_parallel_selective_scan",
    "naive_rms_norm",
    "naive_rope",
    "naive_selective_scan",
    "naive_softmax",
    "naive_ssd",
    "naive_ssd_chunked",
    "naive_ssd_quadratic",
    "naive_ssd_step",
    "quantise_cache",
    "rms_norm",
    "rope_table",
    "segsum",
    "selective_scan",
    "selective_scan_step",
    "ssd",
    "ssd_step",
    "step_sizes",
]

_HOME = {
    "ShapeError": "shapes",
    "apply_rope": "rope",
    "assert_shape": "shapes",
    "causal_conv1d": "conv1d",
    "causal_conv1d_step": "conv1d",
    "cross_entropy": "cross_entropy_loss",
    "decode_attention": "decode",
    "dequantise_cache": "quantise",
    "flash_attention": "flash",
    "flash_attention_varlen": "flash_varlen",
    "fused_softmax": "softmax",
    "layer_norm": "norm",
    "linear_attention": "linear_attention_chunked",
    "linear_attention_step": "linear_attention_chunked",
    "naive_attention": "flash",
    "naive_attention_varlen": "flash_varlen",
    "naive_causal_conv1d": "conv1d",
    "naive_cross_entropy": "cross_entropy_loss",
    "naive_decode_attention": "decode",
    "naive_layer_norm": "norm",
    "naive_linear_attention": "linear_attention_chunked",
    "naive_linear_attention_parallel": "linear_attention_chunked",
    "naive_parallel_selective_scan": "selective_scan_chunked",
    "naive_rms_norm": "norm",
    "naive_rope": "rope",
    "naive_selective_scan": "selective_scan_chunked",
    "naive_softmax": "softmax",
    "naive_ssd": "ssd_chunked",
    "naive_ssd_chunked": "ssd_chunked",
    "naive_ssd_quadratic": "ssd_chunked",
    "naive_ssd_step": "ssd_chunked",
    "quantise_cache": "quantise",
    "rms_norm": "norm",
    "rope_table": "rope",
    "segsum": "ssd_chunked",
    "selective_scan": "selective_scan_chunked",
    "selective_scan_step": "selective_scan_chunked",
    "ssd": "ssd_chunked",
    "ssd_step": "ssd_chunked",
    "step_sizes": "ssd_chunked",
}


def __getattr__(name: str) -> Any:
    """Import the module a public name lives in when it is first asked for (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    """List the public names, imported yet or not."""
    return sorted(__all__)
