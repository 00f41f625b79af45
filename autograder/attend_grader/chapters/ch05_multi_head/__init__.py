"""Chapter 05, many heads: its exercises in order with their points; imports nothing heavy."""

EXERCISES = {
    "split_heads": 5,
    "merge_heads": 5,
    "MultiHeadAttention": 8,
    "repeat_kv": 5,
    "GroupedQueryAttention": 7,
    "LatentAttention": 12,
    "kv_cache_bytes": 6,
}

READY_MADE = (
    "torch.nn.MultiheadAttention",
    "torch.nn.modules.activation.MultiheadAttention",
    "torch.nn.functional.multi_head_attention_forward",
    "torch.nn.functional.scaled_dot_product_attention",
    "torch._C._nn.scaled_dot_product_attention",
    "torch._native_multi_head_attention",
    "torch.nn.attention",
    "torch.ops",
    "transformers",
    "einops",
)
"""Finished attention; and einops, which would write the exercises of moving axes."""
