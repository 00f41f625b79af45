"""Chapter 05, many heads: its exercises in order with their points; imports nothing heavy."""

EXERCISES = {
    "split_heads": 6,
    "merge_heads": 6,
    "MultiHeadAttention": 10,
    "repaired_attention": 9,
    "repeat_kv": 6,
    "GroupedQueryAttention": 9,
    "LatentAttention": 14,
    "kv_cache_bytes": 6,
    "heads_for_cache": 5,
}
