"""Chapter 22, gated recurrence: its exercises in order with their points; nothing heavy."""

EXERCISES = {
    "retention_recurrent": 10,
    "retention_parallel": 8,
    "retention_chunked": 11,
    "gated_linear_attention": 12,
}
