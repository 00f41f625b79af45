"""Chapter 22, gated recurrence: its exercises in order with their points; nothing heavy."""

EXERCISES = {
    "retention_recurrent": 10,
    "retention_parallel": 8,
    "retention_chunked": 11,
    "gated_linear_attention": 12,
    "delta_rule_chunked": 12,
    "token_shift": 8,
    "rwkv_time_mix": 10,
    "rg_lru": 8,
}
