"""Chapter 15, linear attention: its exercises in order with their points; imports nothing heavy."""

EXERCISES = {
    "linear_attention": 9,
    "recurrent_form": 8,
    "chunked_form": 11,
    "causal_average": 7,
    "memory_width": 5,
    "delta_rule_update": 8,
    "positive_random_features": 8,
    "performer_attention": 8,
    "linformer_attention": 8,
}
